"""Disturb what writes, at its writes: python -m validation.faults [--kills 200] [--others 8]

Each job (``jobs.py``) is done once undisturbed. Then it is done again and again in a new folder, by
a child of this process, and at a random one of its changes of the folder (a write, a
synchronisation, a renaming, a truncation, a file opened to write) there is a fault, made by a
library for LD_PRELOAD that is compiled first (``failing.c``, with cc):

    kill           SIGKILL before the change
    torn           half of a write, then SIGKILL
    full           half of a write; this and every later change fails for want of space
    broken         this one change fails with an input/output error
    read-only      this and every later change fails: the file system is read-only now
    interrupt      Ctrl-C
    clock          the clock jumps three years to and fro, all the time

After each, what is in the folder must be readable (the old content or the new one, at most a last
line incomplete); a job that was not killed must say in its own words what happened, without a
traceback, and leave no temporary file; and the same job, given again, must end with the result of
the undisturbed one, bit for bit. Writes ``results/faults.json``; exit status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "results" / "faults.json"
SOURCE = Path(__file__).with_name("failing.c")
KINDS = ("nothing", "kill", "torn", "full", "broken", "read-only", "interrupt", "clock")
KILLS = ("kill", "torn")
PATIENCE = 120.0  # seconds, after which a job hangs


def library(folder: Path) -> Path:
    """The compiled library."""
    out = folder / "failing.so"
    words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(out), str(SOURCE), "-ldl"]
    subprocess.run(words, check=True)
    return out


def child(job: Any, folder: Path, kind: str, at: int, lib: Any, said: Path) -> tuple[int, int]:
    """Do a job in a child with a fault; -> its status, negative for a signal, and its changes."""
    count, counted = os.pipe()
    pid = os.fork()
    if not pid:
        status = 99
        try:
            out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            lib.fault_arm(at, KINDS.index(kind), os.fsencode(folder) + b"/")
            status = attempted(job, folder)
            sys.stdout.flush()
            os.write(counted, str(lib.fault_calls()).encode())
        finally:
            os._exit(status)
    os.close(counted)
    status = waited(pid)
    calls = os.read(count, 100)
    os.close(count)
    return status, int(calls or 0)


def attempted(job: Any, folder: Path) -> int:
    """The status of a job that may fail, with what a command or a user's program would see."""
    from bongref.errors import BongrefError

    try:
        return int(job.work(folder))
    except (BongrefError, OSError, KeyboardInterrupt) as error:
        print(f"raised {type(error).__name__}: {error}")
        return 2
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        return 98


def waited(pid: int) -> int:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 97


def wrong(job: Any, folder: Path, kind: str, status: int, said: str) -> str:
    """What is wrong in a folder after a fault; empty if nothing."""
    if status == 97:
        return "hangs"
    if status not in ((-signal.SIGKILL,) if kind in KILLS else (0, 1, 2, 130)):
        return f"ended with status {status}: {said[-1500:]}"
    if "Traceback" in said:
        return f"a traceback: {said[-1500:]}"
    if kind in ("full", "broken", "read-only") and status and not said.strip():
        return "fails without a message"
    try:
        job.whole(folder)
    except BaseException as error:
        return f"what is there is damaged: {type(error).__name__} {error}"
    left = [str(p) for p in folder.rglob("*.part")]
    return f"leaves {left}" if left and kind not in KILLS else ""


def disturbed(name: str, job: Any, kind: str, at: int, whole: Path, want: str, lib: Any) -> str:
    """One fault, and the same job once more; what is wrong, or nothing."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, said = Path(temporary) / "f", Path(temporary) / "said"
        shutil.copytree(whole, folder)
        status, _ = child(job, folder, kind, at, lib, said)
        found = wrong(job, folder, kind, status, said.read_text(errors="replace"))
        if found:
            return found
        again, _ = child(job, folder, "nothing", 0, lib, said)
        if again:
            return f"given again, it fails: {said.read_text(errors='replace')[-1500:]}"
        try:
            got = job.result(folder)
        except BaseException as error:
            return f"given again, its result is damaged: {type(error).__name__} {error}"
        return "" if got == want else f"given again, it has another result, {got} for {want}"


def disturb(name: str, points: dict[str, int], seed: int, lib: Any) -> tuple[dict[str, int], list]:
    """All faults of one job."""
    from validation.faults.jobs import JOBS

    job, rng, done, bad = JOBS[name], random.Random(f"{seed} {name}"), Counter(), []
    with tempfile.TemporaryDirectory() as temporary:
        whole, once = Path(temporary) / "whole", Path(temporary) / "once"
        whole.mkdir()
        job.prepare(whole)
        shutil.copytree(whole, once)
        job.work(once)  # in this process, so that its children have everything imported
        want = job.result(once)
        shutil.copytree(whole, Path(temporary) / "counted")
        said = Path(temporary) / "said"
        status, calls = child(job, Path(temporary) / "counted", "nothing", 0, lib, said)
        if status or not calls:
            raise SystemExit(f"{name}: {said.read_text()}")
        for kind, n in points.items():
            for _ in range(n):
                at = rng.randint(1, calls)
                found = disturbed(name, job, kind, at, whole, want, lib)
                done[kind] += 1
                if found:
                    bad.append(f"{name}, {kind} at change {at} of {calls}: {found}")
                    print(bad[-1], flush=True)
    print(f"{name}: {calls} changes; {dict(done)}; {len(bad)} wrong", flush=True)
    return dict(done), bad


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python -m validation.faults", description=__doc__)
    p.add_argument("--kills", type=int, default=200, help="of all jobs together")
    p.add_argument("--others", type=int, default=8, help="faults of each other kind and job")
    p.add_argument("--only", help="jobs, with commas")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--dry", action="store_true", help="write no results")
    p.add_argument("--library", help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    if not args.library:
        with tempfile.TemporaryDirectory() as folder:
            made = str(library(Path(folder)))
            words = [sys.executable, "-m", "validation.faults", *(argv or sys.argv[1:])]
            one = {f"{k}_NUM_THREADS": "1" for k in ("OMP", "OPENBLAS", "NUMBA")}
            env = {**os.environ, **one, "LD_PRELOAD": made}
            return subprocess.run([*words, "--library", made], env=env).returncode
    from validation.faults.jobs import JOBS

    os.environ.pop("LD_PRELOAD")
    lib = ctypes.CDLL(args.library)
    lib.fault_arm.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p]
    names = args.only.split(",") if args.only else list(JOBS)
    each = -(-args.kills // (len(names) * len(KILLS)))
    points = {kind: each if kind in KILLS else args.others for kind in KINDS[1:]}
    found = {name: disturb(name, points, args.seed, lib) for name in names}
    out = {name: {"faults": done, "wrong": bad} for name, (done, bad) in found.items()}
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    if not args.dry:
        FILE.write_text(json.dumps({**before, **out}, indent=1) + "\n", encoding="utf-8")
    return int(any(bad for _, bad in found.values()))


if __name__ == "__main__":
    sys.exit(main())

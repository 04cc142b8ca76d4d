"""Kill ``bongref run`` at random moments, again and again, and compare the results: python -m
validation.kills [--kills 30]

A grid is computed once without any interruption. Then the same command is started in new folders
and killed by -9 after a random time, until it has been killed so often; whenever a folder's grid is
finished, its results are compared with those of the first one, bit for bit, and every run must be
there once. Exit status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bongref.experiments import records, store

GRID = [
    "linear",
    "--set",
    "n=200",
    "--methods",
    "bong-lin-hess-diag,bong-lin-ef-diag,blr-lin-hess-diag",
    "--alpha",
    "0.5,0.1,0.01",
    "--seeds",
    "20",
    "--metrics",
    "rmse,nlpd-plugin",
    "-q",
]


def command(folder: Path, workers: int) -> list[str]:
    more = ["--out", str(folder), "--workers", str(workers)]
    return [sys.executable, "-m", "bongref", "run", *GRID, *more]


def run(folder: Path, workers: int, seconds: float | None = None) -> tuple[bool, float]:
    """Start the command and kill it after some seconds; -> whether it ended by itself, and the time
    that it took.
    """
    begun = time.monotonic()
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    child = subprocess.Popen(command(folder, workers), env=env, stdout=subprocess.DEVNULL)
    try:
        status = child.wait(timeout=seconds)
        if status != 0:
            raise SystemExit(f"bongref run ended with status {status}")
        return True, time.monotonic() - begun
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return False, time.monotonic() - begun


def compared(folder: Path, want: list[records.Record]) -> str:
    """What is wrong with the results of a folder; empty if nothing."""
    lines = (folder / store.NAME).read_bytes().splitlines()
    found = store.read(folder)
    if len(lines) != len(want) or found.notes:
        return f"{len(lines)} lines for {len(want)} runs; {found.notes}"
    same = records.digest(found.records) == records.digest(want)
    return "" if same else "the results differ"


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        prog="python -m validation.kills", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument("--kills", type=int, default=30)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--seed", type=int, default=0, help="of the moments")
    args = p.parse_args(argv)
    moments, kills, folders, torn = random.Random(args.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        first = Path(name) / "whole"
        run(first, args.workers)  # which also fills the cache of compiled code
        _, life = run(Path(name) / "again", args.workers)
        want = store.read(first).records
        while kills < args.kills:
            folder, ended = Path(name) / f"killed-{folders}", False
            while not ended:
                seconds = None if kills == args.kills else moments.uniform(0, life)
                ended, _ = run(folder, args.workers, seconds)
                kills += not ended
                if not ended and (folder / store.NAME).exists():
                    torn += store.scan_folder(folder).torn > 0
            folders += 1
            if wrong := compared(folder, want):
                print(f"after {kills} kills: {wrong}")
                return 1
    print(
        f"{kills} kills at random moments of {life:.1f} s, in {folders} folders of "
        f"{len(want)} runs, {torn} of them in the middle of a "
        f"line: the same results every time, digest {records.digest(want)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

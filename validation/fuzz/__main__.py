"""Fuzz everything that is read: python -m validation.fuzz --seconds 600 [--only saved,vectors]

Each target (``validation/fuzz/targets.py``) runs in a process of its own under atheris (``pip
install atheris``), for its share of the time; what it found interesting stays in the folder
``--corpus``, from which the next run goes on. An input after which anything but one of bongref's
own errors is raised, or which takes 20 s or 2.5 GB, executes code, starts a process, connects to
another machine or writes anywhere else, ends its target and is printed. The counts are added up in
``results/fuzz.json``; ``--new`` begins them again. Exit status 1 if anything was found.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from validation.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "validation" / "results" / "fuzz.json"
RUNS = re.compile(rb"stat::number_of_executed_units:\s*(\d+)")
REACHED = re.compile(rb"cov: (\d+) ft: (\d+)")


def fuzz(name: str, seconds: float, corpus: Path) -> dict[str, Any]:
    """Executions, branches reached and what was found of one target."""
    kept = corpus / name
    kept.mkdir(parents=True, exist_ok=True)
    options = [str(kept), f"-max_total_time={max(1, round(seconds))}", f"-artifact_prefix={kept}-"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "validation.fuzz.worker", name, *options]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True)
    runs, reached = RUNS.findall(done.stderr), REACHED.findall(done.stderr)
    out: dict[str, Any] = {
        "executions": int(runs[-1]) if runs else 0,
        "branches": int(reached[-1][0]) if reached else 0,
    }
    if done.returncode:
        out["found"] = (done.stdout[-3000:] + done.stderr[-6000:]).decode(errors="replace")
    return out


def added(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The counts of two runs together; what was found is that of the last."""
    return {
        "executions": old.get("executions", 0) + new["executions"],
        "branches": max(old.get("branches", 0), new["branches"]),
        "faults": int("found" in new),
    }


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python -m validation.fuzz", description=__doc__)
    p.add_argument("--seconds", type=float, default=600, help="of all targets together")
    p.add_argument("--only", help="names of targets, with commas")
    p.add_argument("--corpus", type=Path, help="where inputs stay; else nowhere")
    p.add_argument("--new", action="store_true", help="forget the counts of earlier runs")
    args = p.parse_args(argv)
    names = args.only.split(",") if args.only else list(TARGETS)
    before = json.loads(FILE.read_text()) if FILE.exists() and not args.new else {}
    found = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            corpus = (args.corpus or Path(temporary)).resolve()
            new = fuzz(name, args.seconds / len(names), corpus)
            before[name] = added(before.get(name, {}), new)
            print(f"{name:10} {new['executions']:9,} executions", flush=True)
            if "found" in new:
                found += 1
                print(new["found"], flush=True)
            FILE.write_text(json.dumps(before, indent=1, sort_keys=True) + "\n")
    total = sum(one["executions"] for one in before.values())
    print(f"{total:,} executions in all runs; {found} targets ended by a fault in this one")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())

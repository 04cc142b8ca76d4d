"""What the harness of the experiments costs: python -m validation.bench.experiments [--quick]

Four numbers, each with its limit; the exit status is 1 if one is beyond it. They go to
validation/results/experiments.json, and from there into docs/experiments.md.

overhead   the time of a grid through ``bongref run``'s sweep, over that of the same ``bongref.run`` calls in a loop       at most 1.05
speedup    the time of a grid with one worker, over that with two worker processes, their start included                  at least 1.7
opening    seconds to open a folder of 100,000 results for resuming                                                          below 2
report     seconds for a report of 1,000 runs                                                                               below 20
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bongref import stream
from bongref.experiments import execute, records, specs, store, sweep, tasks
from bongref.experiments.threads import one_thread

RESULTS = Path(__file__).resolve().parents[1] / "results"
PAGE = RESULTS.parents[1] / "docs" / "experiments.md"
BEGIN, END = "<!-- costs: made by validation/bench/experiments.py -->", "<!-- end of costs -->"
WORDS = {
    "overhead": ("time of a grid over that of the same `br.run` calls", "at most {:g}"),
    "speedup": ("time with one worker over that with two on two cores", "at least {:g}"),
    "opening": ("seconds to open 100,000 results for resuming", "below {:g}"),
    "report": ("seconds for a report of 1,000 runs", "below {:g}"),
}
LIMITS = {"overhead": 1.05, "speedup": 1.7, "opening": 2.0, "report": 20.0}


def grid(n: int, seeds: int) -> list[specs.Spec]:
    """Runs of about half a second each: a network of 881 parameters, four methods."""
    task = tasks.load("teacher", {"n": n, "n_test": 500, "dim": 21, "hidden": 20})
    T = len(task.X)
    how = {
        "steps": T, "prior_var": 1.0, "obs_var": task.facts["obs_var"], "gamma": None,
         "eval_samples": 100,
        "metrics": {name: [T // 2, T] for name in ("rmse", "nlpd-plugin", "nlpd-lin_mc")},
    }  # fmt: skip
    names = ["bong-lin-hess-dlr", "bong-lin-ef-dlr", "bong-lin-hess-fc", "blr-lin-hess-dlr"]
    return specs.matrix(task.source, task.facts, names, {"rank": [10]}, [how], range(seeds))


def timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def by_hand(todo: list[specs.Spec]) -> None:
    """The same calls of ``bongref.run``, with the same metrics, and nothing else."""
    task = tasks.load(*todo[0].source)
    with one_thread():
        for spec in todo:
            m, model, lik, prior, X, Y, rng, _ = execute.setup(spec, task)
            measures = execute.measures_of(spec, task)
            stream.run(m, model, lik, prior, X, Y, rng=rng, metrics=measures, progress=False)


def swept(todo: list[specs.Spec], n_workers: int = 1) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcome = sweep.sweep(todo, folder, n_workers)
        assert not outcome.lost and outcome.status["failed"] == 0, outcome


def overhead(todo: list[specs.Spec], repeats: int) -> dict[str, Any]:
    """Run by run, both sides in turn; the least time of each, so that a busy moment of the
    machine does not count.
    """
    least = []
    for spec in todo:
        pairs = [
            (timed(lambda s=spec: by_hand([s])), timed(lambda s=spec: swept([s])))
            for _ in range(repeats)
        ]
        least.append((min(a for a, _ in pairs), min(b for _, b in pairs)))
    ratio = sum(b for _, b in least) / sum(a for a, _ in least)
    return {"value": ratio, "runs": len(todo), "seconds": least}


def speedup(todo: list[specs.Spec]) -> dict[str, Any]:
    one, two = timed(lambda: swept(todo)), timed(lambda: swept(todo, 2))
    return {"value": one / two, "runs": len(todo), "seconds": [one, two]}


def synthetic(folder: Path, record: records.Record, n: int) -> None:
    """A file of n results: one that was computed, with other ids."""
    with open(folder / store.NAME, "wb") as file:
        for k in range(n):
            file.write(records.to_line({**record, "id": f"{k:016x}"}) + b"\n")


def opening(record: records.Record, n: int = 100_000) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        synthetic(Path(name), record, n)
        size = (Path(name) / store.NAME).stat().st_size
        seconds = []
        for _ in range(3):
            begun = time.perf_counter()
            with store.writer(name) as out:
                assert len(out.status) == n
            seconds.append(time.perf_counter() - begun)
    return {"value": statistics.median(seconds), "lines": n, "bytes": size, "seconds": seconds}


def report(todo: list[specs.Spec], n: int = 1000) -> dict[str, Any] | None:
    """A report of n runs: those of four methods with many seeds, from computed ones with other
    seeds.
    """
    from bongref.cli import main

    computed = [execute.execute(s) for s in todo[:4]]
    with tempfile.TemporaryDirectory() as name:
        with open(Path(name) / store.NAME, "wb") as file:
            for k in range(n):
                one = {**computed[k % 4], "id": f"{k:016x}", "key": f"{k:016x}", "seed": k // 4}
                file.write(records.to_line(one) + b"\n")
        try:
            begun = time.perf_counter()
            status = main(["report", name])
            return {"value": time.perf_counter() - begun, "runs": n} if status == 0 else None
        except SystemExit:  # there is no such command
            return None
        finally:
            shutil.rmtree(Path(name) / "report", ignore_errors=True)


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        prog="python -m validation.bench.experiments", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument(
        "--quick", action="store_true", help="a smaller grid; the limits are then not judged"
    )
    p.add_argument("--only", choices=tuple(LIMITS), action="append", help="only this number")
    p.add_argument("--out", type=Path, default=RESULTS / "experiments.json", metavar="FILE")
    args = p.parse_args(argv)
    wanted = args.only or list(LIMITS)
    small, large = (
        grid(300 if args.quick else 2000, 1),
        grid(300 if args.quick else 2000, 2 if args.quick else 20),
    )
    execute.warm(small)
    record = execute.execute(small[0])
    parts: dict[str, Callable[[], dict[str, Any] | None]] = {
        "overhead": lambda: overhead(small, 1 if args.quick else 5),
        "speedup": lambda: speedup(large),
        "opening": lambda: opening(record, 1000 if args.quick else 100_000),
        "report": lambda: report(small, 20 if args.quick else 1000),
    }
    found = {}
    for name in wanted:
        if (value := parts[name]()) is not None:
            found[name] = {**value, "limit": LIMITS[name], "ok": judged(name, value["value"])}
            print(
                f"{name:<10}{value['value']:8.3f}   limit {LIMITS[name]:<6} "
                f"{'ok' if found[name]['ok'] else 'BEYOND'}",
                flush=True,
            )
    about = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "quick": args.quick,
        "versions": specs.versions(),
    }
    before = json.loads(args.out.read_text()) if args.out.exists() and args.only else {}
    every = {**before, **found, "about": about}
    args.out.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")
    if args.out == RESULTS / "experiments.json" and not args.quick:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_section(text, section(every)), encoding="utf-8")
    return 0 if args.quick or all(one["ok"] for one in found.values()) else 1


def section(found: dict[str, Any]) -> str:
    """The numbers as a table."""
    lines = ["| what | measured | limit |", "|---|---:|---|"]
    for name, (words, limit) in WORDS.items():
        value = f"{found[name]['value']:.2f}" if name in found else "not measured"
        lines.append(f"| {words} | {value} | {limit.format(LIMITS[name])} |")
    return "\n".join(lines)


def with_section(page: str, made: str) -> str:
    """The page with another section between the two comments."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def judged(name: str, value: float) -> bool:
    return value >= LIMITS[name] if name == "speedup" else value <= LIMITS[name]


if __name__ == "__main__":
    sys.exit(main())

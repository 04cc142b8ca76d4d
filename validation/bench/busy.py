"""Threads on a busy machine: python -m validation.bench.busy

Other processes keep every processor busy for a minute, so that the load says so; then streams whose
samples threads share are timed with the number of threads that the library chooses, and with one
and with all of them. Best of the repeats, in turn; microseconds an observation.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator
from unittest import mock

from .forms import run

CELLS = {"bong-mc-ef-diag@cnn": 4, "bong-mc-ef-dlr@cnn": 4}


def hog(seconds: float) -> None:
    """Arithmetic for so many seconds."""
    end, x = time.perf_counter() + seconds, 1.0
    while time.perf_counter() < end:
        for _ in range(100_000):
            x = x * 1.0000001 + 1e-9


def measure(repeats: int) -> Iterator[tuple[str, str, int, float]]:
    """(cell, which number of threads, that number, seconds)."""
    from bongref.fast import threads

    choices = {"chosen": threads.idle, "one": lambda: 1, "all": threads.available}
    for cell, n in CELLS.items():
        once = run(cell, n)
        times: dict[str, list[float]] = {name: [] for name in choices}
        used = {}
        for _ in range(repeats + 1):  # the first ones compile
            for name, choice in choices.items():
                used[name] = choice()
                with mock.patch.object(threads, "idle", choice):
                    times[name].append(once())
        for name in choices:
            yield cell, name, used[name], min(times[name][1:])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.bench.busy")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=80.0, help="before the first stream (default: 80)"
    )
    args = parser.parse_args(argv)
    processes = [
        multiprocessing.Process(target=hog, args=(600.0,), daemon=True)
        for _ in range(os.cpu_count() or 1)
    ]
    for p in processes:
        p.start()
    try:
        time.sleep(args.seconds)
        print("| cell | threads | number | µs |\n|---|---|---|---|")
        for cell, name, number, seconds in measure(args.repeats):
            print(f"| `{cell}` | {name} | {number} | {seconds * 1e6:,.0f} |", flush=True)
    finally:
        for p in processes:
            p.kill()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

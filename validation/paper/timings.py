"""Conclusions about run time, from the benchmark's repeats (validation/results/bench.json).

The repeats of two cells are compared: A is faster if its slowest repeat is faster than the fastest
one of B. The sides are microseconds of an observation; the effect is their ratio.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .evidence import Compared, Run

BENCH = Path(__file__).resolve().parents[1] / "results" / "bench.json"
TEN_TIMES = (7.0, 14.0)  # ratios that count as "about 10 times"


def cells(path: Path = BENCH) -> dict[str, list[float]]:
    """The repeats of every cell, in microseconds of an observation."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {
        name: cell["ours"]["repeats us"] for name, cell in found.items() if "us" in cell["ours"]
    }


def faster(A: str, B: str, question: str = "faster") -> Compared:
    """Whether cell A is faster than cell B, or B takes about ten times as long."""
    found = cells()
    label = f"{A} {'faster than' if question == 'faster' else 'takes a tenth of'} {B}"
    if A not in found or B not in found:
        return Compared(label, question, 0, *[math.nan] * 6, "?", "not in the benchmark", ())
    a, b = found[A], found[B]
    ratio, low, high = min(b) / min(a), min(b) / max(a), max(b) / min(a)
    if question == "faster":
        answer = "yes" if low > 1 else "no" if high < 1 else "?"
    else:
        least, most = TEN_TIMES
        answer = "yes" if least <= low and high <= most else "no"
        answer = "?" if answer == "no" and high >= least and low <= most else answer
    n = min(len(a), len(b))
    return Compared(label, question, n, min(a), min(b), ratio, math.nan, low, high, answer, "", ())


def one_step(runs: Sequence[Run]) -> list[Compared]:
    """bong and bog against blr and bbb."""
    kinds = [("dlr@mlp", ("lin-hess", "lin-ef", "mc-ef")), ("diag@cnn", ("lin-hess", "lin-ef"))]
    return [
        faster(f"{one}-{h}-{place}", f"{many}-{h}-{place}")
        for place, hessians in kinds
        for h in hessians
        for one in ("bong", "bog")
        for many in ("blr", "bbb")
    ]


def linear_and_mc(runs: Sequence[Run]) -> list[Compared]:
    """lin-hess and lin-ef against mc-ef."""
    pairs = [(rule, "dlr@mlp") for rule in ("bong", "blr", "bog", "bbb")]
    pairs += [(rule, "diag@cnn") for rule in ("bong", "bog")]
    return [
        faster(f"{rule}-{lin}-{place}", f"{rule}-mc-ef-{place}")
        for rule, place in pairs
        for lin in ("lin-hess", "lin-ef")
    ]


def ef_and_hess(runs: Sequence[Run]) -> list[Compared]:
    """lin-ef against lin-hess, with 10 outputs (cnn) and with one (mlp)."""
    pairs = [(rule, "diag@cnn") for rule in ("bong", "blr", "bog", "bbb")]
    pairs += [(rule, "dlr@mlp") for rule in ("bong", "blr", "bog", "bbb")]
    return [faster(f"{rule}-lin-ef-{place}", f"{rule}-lin-hess-{place}") for rule, place in pairs]


def ten_times(runs: Sequence[Run]) -> list[Compared]:
    """blr and bbb with I = 10 against bong and bog."""
    return [
        faster("bong-lin-hess-dlr@mlp", "blr-lin-hess-dlr@mlp", "a tenth"),
        faster("bog-lin-hess-dlr@mlp", "bbb-lin-hess-dlr@mlp", "a tenth"),
        faster("bong-mc-ef-dlr@mlp", "blr-mc-ef-dlr@mlp", "a tenth"),
        faster("bog-mc-ef-dlr@mlp", "bbb-mc-ef-dlr@mlp", "a tenth"),
    ]

"""From runs to verdicts: paired differences over seeds, their t-interval, and the rule.

A **comparison** takes two values for every seed, A's and B's, and asks one of four questions:

* ``less``: is A below B? Yes if the 95 % t-interval of the mean of B − A lies above 0, no if it
  does not reach beyond 0 (0 itself where all runs of A and B are the same).
* ``much less``: the same with the margin in place of 0.
* ``similar``: yes if the interval lies within ± the margin, no if it lies outside.
* ``diverges``: do the runs of A diverge, and those of B not? Yes if most of A's do and none of B's,
  no if as many of B's do.

A run that diverged is worse than any that did not, and so is one whose metric is infinite (lin_mc
with an average mass that is not positive); where there are some, the interval does not exist, and
the answer is that of the pairs if all of them agree.

A **verdict** is that of its comparisons: all yes, "holds"; more no than yes, "does not hold"; some
yes, "holds with a condition"; else "cannot be told".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

Run = dict[str, Any]
MARGIN = {
    "nlpd": 0.05,
    "ece": 0.02,
    "error": 0.02,
    "rmse": 0.02,
    "seconds": 0.0,
}  # what counts as a difference
LEVEL = 0.95
ROUNDING = 1e-12  # of a value, or of 1: a smaller difference is none
VERDICTS = ("holds", "holds with a condition", "does not hold", "cannot be told")


class Compared(NamedTuple):
    """A comparison and its answer."""

    label: str
    question: str  # less, much less, similar, diverges
    n: int  # pairs
    a: float  # means over the pairs; inf where a run diverged
    b: float
    mean: float  # of B − A
    error: float  # its standard error
    low: float  # the t-interval
    high: float
    answer: str  # yes, no, ?
    why: str
    ids: tuple[str, ...]  # of the runs, A's by seed and then B's
    read: tuple[Any, ...] = ()  # (metric, step) of A and of B; the step None is the last row


def matching(runs: Iterable[Run], **wanted: Any) -> list[Run]:
    """The runs with these values of fields or parameters."""
    return [r for r in runs if all(_field(r, k) == v for k, v in wanted.items())]


def _field(run: Run, key: str) -> Any:
    return run[key] if key in run else run["params"].get(key)


def value(run: Run, metric: str, t: int | None = None) -> float:
    """The metric of a run at a step (the last one by default); inf if it diverged before."""
    if run["status"] != "done" and (t is None or t >= run["step"]):
        return math.inf
    if metric == "seconds":  # of the steps alone
        return float(run["seconds"])
    rows = [row for row in run["rows"] if metric in row and (t is None or row["t"] == t)]
    return float(rows[-1][metric]) if rows else math.nan


def by_seed(runs: Iterable[Run], metric: str, t: int | None = None) -> dict[int, Run]:
    """Runs by seed, each with the value of the metric under ``"value"``."""
    found = {r["seed"]: {**r, "value": value(r, metric, t), "read": (metric, t)} for r in runs}
    return {seed: r for seed, r in found.items() if not math.isnan(r["value"])}


def compare(
    label: str, question: str, A: dict[int, Run], B: dict[int, Run], metric: str
) -> Compared:
    """Answer a question about A and B from the seeds that both have."""
    seeds = sorted(set(A) & set(B))
    a, b = (np.array([side[s]["value"] for s in seeds]) for side in (A, B))
    ids = tuple(side[s]["id"] for side in (A, B) for s in seeds)
    margin = MARGIN[metric.partition("-")[0]]
    read = (*(next(iter(side.values()))["read"] for side in (A, B) if side),)
    if len(seeds) < 2:
        why = "no pairs of runs" if not seeds else "one pair of runs"
        return Compared(label, question, len(seeds), *[math.nan] * 6, "?", why, ids, read)
    with np.errstate(invalid="ignore"):
        same = (np.isinf(a) & np.isinf(b)) | (abs(b - a) <= ROUNDING * np.maximum(abs(a), 1.0))
        d = np.where(same, 0.0, b - a)
    means = (float(np.mean(a)), float(np.mean(b)))
    if not np.all(np.isfinite(np.r_[a, b])):
        answer = _of_pairs(question, d, a, b)
        why = _told([[side[s] for s in seeds] for side in (A, B)])
        return Compared(
            label, question, len(seeds), *means, *[math.nan] * 4, answer, why, ids, read
        )
    mean, error = float(np.mean(d)), float(np.std(d, ddof=1) / math.sqrt(len(d)))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(d) - 1)) * error
    low, high = mean - half, mean + half
    answer = _of_interval(question, low, high, margin)
    return Compared(
        label, question, len(seeds), *means, mean, error, low, high, answer, "", ids, read
    )


def _of_interval(question: str, low: float, high: float, margin: float) -> str:
    if question == "similar":
        inside, outside = -margin <= low and high <= margin, low > margin or high < -margin
        return "yes" if inside else "no" if outside else "?"
    if question == "diverges":
        return "no"
    above = margin if question == "much less" else 0.0
    return "yes" if low > above else "no" if high <= above else "?"


def decided_at(c: Compared, level: float) -> bool:
    """Whether an interval of another level decides a comparison too; its margin is that of ``c``.

    >>> c = compare("x", "less", {}, {}, "nlpd")
    >>> c = c._replace(n=3, mean=1.0, error=0.2, read=(("nlpd", 9),))
    >>> decided_at(c, 0.95), decided_at(c, 0.999)
    (True, False)
    """
    half = float(stats.t.ppf((1 + level) / 2, c.n - 1)) * c.error
    margin = MARGIN[str(c.read[0][0]).partition("-")[0]]
    return _of_interval(c.question, c.mean - half, c.mean + half, margin) != "?"


def _of_pairs(question: str, d: Any, a: Any, b: Any) -> str:
    bad_a, bad_b = int(np.isinf(a).sum()), int(np.isinf(b).sum())
    if question == "diverges":
        return "yes" if 2 * bad_a > len(a) and not bad_b else "no" if bad_b >= bad_a else "?"
    if question == "similar":
        return "yes" if bad_a == bad_b == len(a) else "no" if bad_a != bad_b else "?"
    return "yes" if np.all(d > 0) else "no" if np.all(d <= 0) else "?"


def _told(sides: Sequence[Sequence[Run]]) -> str:
    """How many runs of A and of B diverged, and how many ended with an infinite value."""
    words = []
    for what, ended in (("diverged", False), ("infinite", True)):
        bad = [
            sum(math.isinf(r["value"]) and (r["status"] == "done") == ended for r in side)
            for side in sides
        ]
        if any(bad):
            counts = " and ".join(f"{n} of {len(sides[0])}" for n in bad)
            words.append(f"{what}: {counts} runs")
    return "; ".join(words)


def verdict(comparisons: Sequence[Compared]) -> str:
    """The verdict of a conclusion.

    >>> verdict([])
    'cannot be told'
    """
    answers = [c.answer for c in comparisons]
    yes, no = answers.count("yes"), answers.count("no")
    if answers and yes == len(answers):
        return VERDICTS[0]
    if no > yes:
        return VERDICTS[2]
    return VERDICTS[1] if yes else VERDICTS[3]


def best_rate(
    valid: Iterable[Run], allowed: Callable[[float], bool] = lambda alpha: True
) -> float | None:
    """The learning rate with the least mean NLPD on the validation rows; None if all diverged."""
    losses: dict[float, list[float]] = {}
    for run in valid:
        alpha = run["params"].get("alpha")
        if alpha is not None and allowed(alpha):
            losses.setdefault(alpha, []).append(value(run, "nlpd-plugin"))
    means = {alpha: float(np.mean(v)) for alpha, v in losses.items()}
    finite = {alpha: m for alpha, m in means.items() if math.isfinite(m)}
    return min(finite, key=lambda alpha: finite[alpha]) if finite else None

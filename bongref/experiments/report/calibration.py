"""Calibration curves from the counts of runs: accuracy by confidence, coverage by probability.

>>> from bongref.experiments.report import calibration
>>> calibration.shares({"kind": "pit", "count": [1, 1, 2, 2, 2, 2, 1, 1]})
([0.25, 0.5, 0.75, 1.0], [0.3333333333333333, 0.6666666666666666, 0.8333333333333334, 1.0])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .statistics import Group, TaskResults

Line = tuple[list[float], list[float]]


def kinds(results: TaskResults) -> list[str]:
    """The kinds of predictive that some run has counts of."""
    found = {kind for g in results.groups for r in g.runs for kind in r.get("calibration") or {}}
    return sorted(found, key=lambda k: (k != "plugin", k))


def line(group: Group, kind: str) -> Line | None:
    """The curve of a group: the counts of its complete runs added up; None where there are none."""
    counts = [r["calibration"][kind] for r in group.having("done") if kind in r["calibration"]]
    total: dict[str, Any] = {}
    for one in counts:
        for key, value in one.items():
            if key == "kind":
                total[key] = value
            else:
                total[key] = np.asarray(total.get(key, 0.0)) + np.asarray(value, dtype=float)
    if not total or not np.sum(total["count"]) > 0:
        return None
    return shares(total)


def shares(counts: dict[str, Any]) -> Line:
    """Expected and observed shares of counts, see :mod:`bongref.experiments.calibration`.

    Parameters
    ----------
    counts : dict
        ``"kind"`` is ``"confidence"`` (classes) or ``"pit"`` (regression).

    Returns
    -------
    expected, observed : list of float
        Mean confidence and accuracy of each bin that is not empty; or the probability of central
        intervals and the share of observations in them.
    """
    n = np.asarray(counts["count"], dtype=float)
    if counts["kind"] == "confidence":
        some = n > 0
        expected = np.asarray(counts["confidence"], dtype=float)[some] / n[some]
        observed = np.asarray(counts["correct"], dtype=float)[some] / n[some]
        return expected.tolist(), observed.tolist()
    half = len(n) // 2
    inside = np.cumsum(n[half:] + n[:half][::-1])
    return (np.arange(1, half + 1) / half).tolist(), (inside / inside[-1]).tolist()

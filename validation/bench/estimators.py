"""partial_fit of 1,000 rows relative to br.run on the same rows: python -m
validation.bench.estimators

Both take the same network, the same method and standardised rows; the median of the repetitions,
after one that compiles. A fresh estimator learns the rows from its prior, a warm one after 1,024
others. Needs a quiet machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from statistics import median

import numpy as np

import bongref as br
from bongref.linalg import Array
from bongref.sklearn import BongRegressor

ROWS, REPETITIONS = 1000, 9


def seconds(f: Callable[[], object]) -> float:
    """The median time of a call."""
    f()
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return median(times)


def measured(method: str, X: Array, y: Array) -> dict[str, float | str]:
    """Milliseconds of run, of a fresh estimator and of a warm one, and their ratios."""
    est = BongRegressor(method, random_state=0).fit(X[:1024], y[:1024])
    m, model, prior, before = est.method_, est.model_, est.learner_.prior, est.learner_.committed
    lik, rows = br.likelihoods.Gaussian(var=0.1), slice(1024, 1024 + ROWS)

    def warm() -> None:
        est.learner_.committed = before
        est.learner_.X, est.learner_.Y = est.learner_.X[:0], est.learner_.Y[:0]
        est.partial_fit(X[rows], y[rows])

    run = seconds(lambda: br.run(m, model, lik, prior, X[:ROWS], y[:ROWS], progress=False))
    fresh = seconds(lambda: BongRegressor(method, random_state=0).partial_fit(X[:ROWS], y[:ROWS]))
    later = seconds(warm)
    ms = {k: round(1e3 * v, 1) for k, v in (("run", run), ("fresh", fresh), ("warm", later))}
    ratios = {"fresh/run": round(fresh / run, 2), "warm/run": round(later / run, 2)}
    return {"method": method, "P": model.n_params, **ms, **ratios}


def main() -> None:
    """One line of JSON for each method."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * 1024, 8))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    for method in ("bong-lin-hess-fc", "bong-lin-hess-dlr", "bong-lin-hess-diag"):
        print(json.dumps(measured(method, X, y)))


if __name__ == "__main__":
    main()

"""partial_fit of 1,000 rows relative to br.run on the same rows: python -m
validation.bench.estimators

Both take the same network, the same method and standardised rows. The sides alternate in one
process, after one call of each that compiles; of each the smallest time counts. A fresh estimator
learns the rows from its prior, a warm one after 1,024 others. Needs a quiet machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np

import bongref as br
from bongref.linalg import Array
from bongref.sklearn import BongRegressor

ROWS, REPETITIONS = 1000, 30


def seconds(sides: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The smallest time of each side; they take turns."""
    for f in sides.values():
        f()
    least = dict.fromkeys(sides, float("inf"))
    for _ in range(REPETITIONS):
        for name, f in sides.items():
            start = time.perf_counter()
            f()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def measured(method: str, X: Array, y: Array) -> dict[str, float | str]:
    """Milliseconds of run, of a fresh estimator and of a warm one, and their ratios."""
    est = BongRegressor(method, random_state=0).fit(X[:1024], y[:1024])
    m, model, prior, before = est.method_, est.model_, est.learner_.prior, est.learner_.committed
    lik, rows = br.likelihoods.Gaussian(var=0.1), slice(1024, 1024 + ROWS)

    def warm() -> None:
        est.learner_.committed = before
        est.learner_.X, est.learner_.Y = est.learner_.X[:0], est.learner_.Y[:0]
        est.partial_fit(X[rows], y[rows])

    sides: dict[str, Callable[[], object]] = {
        "run": lambda: br.run(m, model, lik, prior, X[:ROWS], y[:ROWS], progress=False),
        "fresh": lambda: BongRegressor(method, random_state=0).partial_fit(X[:ROWS], y[:ROWS]),
        "warm": warm,
    }
    least = seconds(sides)
    ms = {k: round(1e3 * v, 1) for k, v in least.items()}
    ratios = {f"{k}/run": round(least[k] / least["run"], 2) for k in ("fresh", "warm")}
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

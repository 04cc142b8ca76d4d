"""Recommendations against real runs: python -m validation.recommended

For five problems ``br.recommend`` names methods and times. The first candidates that fit the budget
are run: predicted and measured time of the steps (the second run, after compilation), and
the NLPD of the linearised model on 500 other rows with the prior that a Filter has by default.
Exit status 1 where a time is off by more than a factor of 3, or the first suggestion is not among
the best three.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

import bongref as br
from bongref.guide import defaults
from bongref.online.outputs import output_moments
from bongref.predictive import linearised

TEST, RUNS, FACTOR, BEST = 500, 5, 3.0, 3


class Task(NamedTuple):
    name: str
    model: Any
    lik: Any
    n: int
    budget: float  # seconds


GAUSSIAN = br.likelihoods.Gaussian(var=0.1)
TASKS = [
    Task("linear regression", br.models.linear(20), GAUSSIAN, 2000, 1.0),
    Task("logistic", br.models.linear(20), br.likelihoods.Bernoulli(), 2000, 1.0),
    Task("MLP regression", br.models.mlp([10, 20, 12, 1]), GAUSSIAN, 2000, 2.0),
    Task("softmax MLP", br.models.mlp([40, 60, 40, 5]), br.likelihoods.Categorical(), 1000, 4.0),
    Task("large MLP", br.models.mlp([100, 200, 140, 1]), GAUSSIAN, 500, 0.5),
]  # fmt: skip


def rows(task: Task) -> tuple[Any, Any]:
    """Standardised inputs, and targets of a smooth function of some of them."""
    rng = np.random.default_rng(0)
    D = task.model.in_shape[0]
    X = rng.standard_normal((task.n + TEST, D))
    linear = X @ rng.standard_normal(D) / np.sqrt(D)
    f = (
        linear
        if task.model.kind == "linear"
        else np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + linear / 2
    )
    if task.lik.name == "bernoulli":
        return X, (rng.random(len(X)) < 1 / (1 + np.exp(-3 * f))).astype(float)
    f = f + 0.3 * rng.standard_normal(len(X))
    return X, f if task.lik.name == "gaussian" else np.digitize(f, [-1, -0.3, 0.3, 1])


def nlpd(task: Task, state: Any, X: Any, Y: Any) -> float:
    m, V = output_moments(task.model, state, X)
    targets = np.eye(m.shape[1])[Y] if task.lik.name == "categorical" else Y[:, None]
    return -float(np.mean(linearised.log_density(task.lik, m, V, targets)))


def measured(task: Task, m: Any, X: Any, Y: Any) -> tuple[float, float]:
    """Seconds and NLPD of one method; infinite where the stream ends early."""
    prior, n = defaults.prior(m, task.model), task.n
    run = lambda k: br.run(m, task.model, task.lik, prior, X[:k], Y[:k], rng=0, progress=False)
    try:
        run(min(n, 20))
        result = run(n)
    except br.StreamEnded:
        return np.nan, np.inf
    return result.info.seconds, nlpd(task, result.state, X[n:], Y[n:])


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        prog="python -m validation.recommended", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument("--only", type=int, choices=range(len(TASKS)), help="one of the problems")
    only = p.parse_args(argv).only
    warnings.simplefilter("ignore")
    bad = 0
    print("| problem | method | predicted s | measured s | NLPD |\n|---|---|---|---|---|")
    for task in TASKS if only is None else [TASKS[only]]:
        X, Y = rows(task)
        found = br.recommend(task.model, task.n, task.budget, n_samples=20, n_iter=4)
        fitting = [c for c in found.choices if c.fits][:RUNS]
        scores = []
        for c in fitting:
            seconds, score = measured(task, c.method, X, Y)
            scores.append(score)
            bad += not 1 / FACTOR <= seconds / (c.total or np.nan) <= FACTOR
            row = f"{task.name}, P={task.model.n_params} | {c.method.name}"
            print(f"| {row} | {c.total:.2g} | {seconds:.2g} | {score:.3f} |", flush=True)
        place = 1 + sum(s < scores[0] - 1e-3 for s in scores)
        bad += place > BEST
        print(f"{task.name}: the first suggestion is number {place} of {len(scores)}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Which learning rate keeps bog and bbb positive definite: python -m validation.alphas [--steps
200]

Every method of bog and bbb (40 names) learns three streams (a linear regression, a regression and
a classification with a network) of two seeds each, from the prior that a Filter has by default.
For each method the learning rates are tried from the largest down until one keeps all six streams
positive definite to their end. Beside it stands the mean negative log predictive density of the
linearised model on 200 other observations with that rate, minus the prior's: below 0 something was
learned. The last column is the same of bong in the same family.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

import bongref as br
from bongref.guide import defaults
from bongref.online.outputs import output_moments
from bongref.predictive import linearised

ALPHAS = (0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4, 1e-5)
SEEDS = (0, 1)
KINDS = ("lin-hess", "lin-ef", "mc-ef", "mc-hess")
NAMES = [n for kind in KINDS for rule in ("bog", "bbb") for n in br.methods(f"{rule}-{kind}-*")]
SAMPLES = 10  # of the mc methods


class Stream(NamedTuple):
    model: Any
    lik: Any
    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


def streams(steps: int, seed: int) -> list[Stream]:
    """The three problems of one seed, with standardised inputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((steps + 200, 8))
    f = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2
    noisy = lambda values: values + 0.3 * rng.standard_normal(len(values))
    line, curve = noisy(X @ rng.standard_normal(8) / np.sqrt(8)), noisy(f)
    label = np.digitize(noisy(f), [-0.5, 0.5])
    gaussian, small = br.likelihoods.Gaussian(var=0.1), br.models.mlp([8, 10, 1])
    made = [
        (br.models.linear(8), gaussian, line),
        (small, gaussian, curve),
        (br.models.mlp([8, 10, 3]), br.likelihoods.Categorical(), label),
    ]
    return [
        Stream(model, lik, X[:steps], Y[:steps], X[steps:], Y[steps:]) for model, lik, Y in made
    ]


def nlpd(s: Stream, state: Any) -> float:
    """Of the test rows, by the model linearised at the mean."""
    m, V = output_moments(s.model, state, s.X_test)
    Y = s.Y_test[:, None] if s.lik.name == "gaussian" else np.eye(m.shape[1])[s.Y_test]
    return -float(np.mean(linearised.log_density(s.lik, m, V, Y)))


def learned(name: str, alpha: float | None, problems: list[tuple[int, Stream]]) -> float | None:
    """Mean change of the NLPD over the streams, or None where one of them ends early."""
    m = br.method(name) if alpha is None else br.method(name, alpha=alpha)
    m = br.method(m, n_samples=SAMPLES) if "n_samples" in m.params else m
    changes = []
    for seed, s in problems:
        prior = defaults.prior(m, s.model, seed)
        try:
            r = br.run(
                m, s.model, s.lik, prior, s.X, s.Y, rng=seed, progress=False, backend="reference"
            )
        except br.StreamEnded:
            return None
        changes.append(nlpd(s, r.state) - nlpd(s, prior))
    return float(np.mean(changes))


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        prog="python -m validation.alphas", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--methods", nargs="*", default=NAMES)
    args = p.parse_args(argv)
    warnings.simplefilter("ignore")
    problems = [(seed, s) for seed in SEEDS for s in streams(args.steps, seed)]
    largest: Counter[float] = Counter()
    print("| method | largest alpha | NLPD − prior's | bong's |\n|---|---|---|---|", flush=True)
    for name in args.methods:
        tries = ((a, learned(name, a, problems)) for a in ALPHAS)
        alpha, change = next((t for t in tries if t[1] is not None), (0.0, np.nan))
        largest[alpha] += 1
        natural = name.replace("bog", "bong").replace("bbb", "bong")
        known = natural not in ("bong-mc-hess-dlr",)
        other = learned(natural, None, problems) if known else None
        said = "ends early" if other is None else f"{other:.2f}"
        print(f"| {name} | {alpha:g} | {change:.3g} | {said if known else ''} |", flush=True)
    print(f"\nmethods by their largest alpha: {dict(sorted(largest.items(), reverse=True))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

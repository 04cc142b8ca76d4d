"""Generated data sets: linear, logistic, moons, teacher, drift, outliers.

A generator is a function of a random generator and of its own parameters; every number that it
draws is decided by ``data_seed``, which is part of the task.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import models
from .raw import BINARY, REGRESSION, Raw, dense, last, mlp


def linear(rng: np.random.Generator, n: int = 500, n_test: int = 500, dim: int = 10,
           noise: float = 0.5) -> Raw:  # fmt: skip
    """Linear regression, y = wᵀx + noise, with x and w standard normal: BONG in FC is exact."""
    X, w = rng.standard_normal((n + n_test, dim)), rng.standard_normal(dim)
    Y = X @ w + noise * rng.standard_normal(n + n_test)
    return Raw(REGRESSION, X, Y, last(n, n_test), dense(dim, 1), noise**2, False, prior="equal")


def logistic(rng: np.random.Generator, n: int = 1000, n_test: int = 1000, dim: int = 10) -> Raw:
    """Logistic regression: the labels are drawn with the probabilities σ(wᵀx)."""
    X, w = rng.standard_normal((n + n_test, dim)), rng.standard_normal(dim)
    Y = (rng.random(n + n_test) < 1 / (1 + np.exp(-X @ w))).astype(float)
    return Raw(BINARY, X, Y, last(n, n_test), dense(dim, 1), None, False, prior="equal")


def moons(rng: np.random.Generator, n: int = 1000, n_test: int = 1000, noise: float = 0.2,
          hidden: int = 16) -> Raw:  # fmt: skip
    """Two half circles that interlock, with normal noise: a binary problem in two dimensions."""
    N = n + n_test
    Y = rng.integers(0, 2, N).astype(float)
    angle = np.pi * rng.random(N)
    upper, lower = (
        np.c_[np.cos(angle), np.sin(angle)],
        np.c_[1 - np.cos(angle), 0.5 - np.sin(angle)],
    )
    moon = np.where(Y[:, None] == 0, upper, lower)
    X = moon + noise * rng.standard_normal((N, 2))
    return Raw(BINARY, X, Y, last(n, n_test), mlp(2, hidden, hidden, 1))


def teacher(rng: np.random.Generator, n: int = 2000, n_test: int = 1000, dim: int = 5,
            width: int = 10, hidden: int = 20, noise: float = 0.1) -> Raw:  # fmt: skip
    """Regression on the outputs of a random network (the teacher), with normal noise."""
    source = models.mlp([dim, width, 1])
    theta = 2 * source.init(rng)
    X = rng.standard_normal((n + n_test, dim))
    f = source(theta, X)[:, 0]
    f = f / f.std()
    Y = f + noise * rng.standard_normal(n + n_test)
    share = noise**2 / (1 + noise**2)
    return Raw(REGRESSION, X, Y, last(n, n_test), mlp(dim, hidden, 1), share)


def drift(rng: np.random.Generator, n: int = 2000, n_test: int = 500, dim: int = 5,
          speed: float = 0.02, noise: float = 0.3) -> Raw:  # fmt: skip
    """Linear regression whose weights do a random walk; the test rows are of the last weights."""
    w = rng.standard_normal(dim)
    walk = w + np.cumsum(speed * rng.standard_normal((n, dim)), axis=0)
    W = np.concatenate([walk, np.repeat(walk[-1:], n_test, axis=0)])
    X = rng.standard_normal((n + n_test, dim))
    Y = np.sum(X * W, axis=1) + noise * rng.standard_normal(n + n_test)
    about = {"dynamics": {"kind": "random walk", "var": speed**2}}
    return Raw(REGRESSION, X, Y, last(n, n_test), dense(dim, 1), noise**2, False, "given", "equal",
               about=about)  # fmt: skip


def outliers(rng: np.random.Generator, n: int = 1000, n_test: int = 1000, share: float = 0.05,
             size: float = 10.0, noise: float = 0.1, hidden: int = 20) -> Raw:  # fmt: skip
    """Regression on sin(3x); a share of the training rows has noise that is ``size`` times larger.

    The test rows have no outliers, and the observation variance is that of the other rows.
    """
    N = n + n_test
    X = rng.uniform(-2, 2, (N, 1))
    wild = (rng.random(N) < share) & (np.arange(N) < n)
    Y = np.sin(3 * X[:, 0]) + noise * np.where(wild, size, 1.0) * rng.standard_normal(N)
    about = {"outliers": int(wild.sum())}
    return Raw(REGRESSION, X, Y, last(n, n_test), mlp(1, hidden, 1), noise**2, False, about=about)


GENERATORS: dict[str, Callable[..., Raw]] = {
    "linear": linear,
    "logistic": logistic,
    "moons": moons,
    "teacher": teacher,
    "drift": drift,
    "outliers": outliers,
}

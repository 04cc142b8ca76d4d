"""Adapters to river: ``linear_model.BayesianLinearRegression``, for a linear network with one
output and a Gaussian likelihood.

Its noise parameter β is 1/R, its prior N(0, I/α). A prior of that shape is given to the
constructor; any other one is put into the accumulators of the model (precision, covariance,
precision times mean), as if it had been learned. The result is ``bong-lin-hess-fc``.

``Adapter`` learns a mini-batch example by example (``learn_one``), ``Many`` by ``learn_many``. The
``smoothing`` of the library scales the precision itself, S ← s S + (1 − s) β x xᵀ, which is no
linear-Gaussian dynamics and none of the methods: not offered.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

try:
    from river import linear_model
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "the adapters to river need it: pip install river (and pandas for learn_many)"
    ) from error

VERSION = metadata.version("river")
METHOD = "bong-lin-hess-fc"


def design(model: dict[str, Any], x: Any) -> np.ndarray:
    """The features of a mini-batch (B, P): x, and a 1 for the bias."""
    X = np.asarray(x, dtype=float).reshape(-1, *model["in_shape"])
    return np.hstack([X, np.ones((len(X), 1))]) if model["bias"] else X


def regression(prior: dict[str, Any], beta: float) -> Any:
    """The library's model with this prior."""
    mu, Sigma = np.asarray(prior["mu"], dtype=float), np.asarray(prior["Sigma"], dtype=float)
    P, v = len(mu), Sigma[0, 0]
    if not np.any(mu) and np.array_equal(Sigma, v * np.eye(P)):
        blr = linear_model.BayesianLinearRegression(alpha=1 / v, beta=beta)
        blr._ensure_features(range(P))
        blr._m_dirty = True
        return blr
    blr = linear_model.BayesianLinearRegression(alpha=1.0, beta=beta)
    blr._ensure_features(range(P))
    precision = np.linalg.inv(Sigma)
    blr._ss_arr[:P, :P], blr._ss_inv_arr[:P, :P], blr._eta_arr[:P] = (
        precision,
        Sigma,
        precision @ mu,
    )
    blr._m_dirty = True
    return blr


def state(blr: Any, P: int) -> dict[str, Any]:
    blr._ensure_m()
    return {"mu": blr._m_arr[:P].copy(), "Sigma": blr._ss_inv_arr[:P, :P].copy()}


class Adapter:
    """``learn_one`` for each example."""

    dtype, version = "float64", VERSION
    route = "learn_one"

    def __init__(self) -> None:
        self.name = f"river {VERSION} ({self.route})"

    def learn(self, blr: Any, X: np.ndarray, y: np.ndarray) -> None:
        for row, target in zip(X, y, strict=True):
            blr.learn_one(dict(enumerate(row)), target)

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        states = self._stream(method, model, likelihood, prior, [x], [y])
        return states if states is NotImplemented else states[-1]

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        if dynamics["kind"] != "static":
            return NotImplemented
        return self._stream(method, model, likelihood, prior, X, Y)

    def predictive(self, kind, family, model, likelihood, state, X, samples):
        """``predict_one`` gives the mean at the posterior mean; its variance is the exact one of y,
        which is no plugin's.
        """
        if kind != "plugin" or family != "fc" or not self.offers(model, likelihood):
            return NotImplemented
        blr = regression(state, 1 / float(np.atleast_2d(likelihood["R"])[0, 0]))
        return {
            "mean": np.array([[blr.predict_one(dict(enumerate(row)))] for row in design(model, X)])
        }

    def offers(self, model: dict[str, Any], likelihood: dict[str, Any]) -> bool:
        return (
            model["kind"] == "linear"
            and model["n_outputs"] == 1
            and likelihood["kind"] == "gaussian"
        )

    def _stream(self, method, model, likelihood, prior, X, Y):
        if method != METHOD or not self.offers(model, likelihood):
            return NotImplemented
        blr = regression(prior, 1 / float(np.atleast_2d(likelihood["R"])[0, 0]))
        states = []
        for x, y in zip(X, Y, strict=True):
            if y is not None:
                self.learn(blr, design(model, x), np.asarray(y, dtype=float).reshape(-1))
            states.append(state(blr, len(prior["mu"])))
        return states


class Many(Adapter):
    """``learn_many`` for each mini-batch."""

    route = "learn_many"

    def learn(self, blr, X, y):
        import pandas as pd

        blr.learn_many(pd.DataFrame(X, columns=range(X.shape[1])), pd.Series(y))


ADAPTERS = (Adapter, Many)

"""TianyiMehdi/NANO-filter: ``bongref check validation.peers.peer_nano:Adapter``.
BONGREF_PEER_NANO names a checkout.

Its ``NANO`` filter with ``derivate_type='direct'``, which takes expectations of gradient and
Hessian of the loss −log p(y | θ), a Gaussian one with a fixed R: BONG-MC-HESS-FC with one iteration
and a rate of 1, BLR-MC-HESS-FC with I iterations and its rate lr = α. Its expectations, over sigma
points, are averages over our samples here, and its Hessian by differences is its own one by
autograd; the threshold at which it stops is switched off. Our network is its observation function.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import version

try:
    from autograd import numpy as anp
except ImportError as error:
    raise ImportError(f"the adapter to NANO-filter needs autograd: {error}") from error

from bongref.conformance import vectors

METHODS = ("bong-mc-hess-fc", "blr-mc-hess-fc")
VARIABLE = "BONGREF_PEER_NANO"


def _filter() -> Any:
    """Its module of the filter, without the package around it, which imports a file
    (``HuberEKF``) that the repository does not have.
    """
    folder = Path(os.environ.get(VARIABLE, ""), "filter")
    if VARIABLE not in os.environ or not Path(folder, "NANO.py").is_file():
        raise ImportError(f"NANO-filter cannot be imported ({VARIABLE} names no checkout of it)")
    package = types.ModuleType("filter")
    package.__path__ = [str(folder)]
    sys.modules["filter"] = package
    return importlib.import_module("filter.NANO")


nano = _filter()


class Adapter:
    """``NANO`` with expectations of derivatives, a Gaussian likelihood, our samples."""

    dtype = "float64"
    version = version(nano)
    name = f"TianyiMehdi/NANO-filter {version[:12]}"

    def step(self, method, prior, current, curv, params):
        """Its update with a loss made up so that (g, G) come out at the current mean."""
        if method not in METHODS or "G" not in curv:
            return NotImplemented
        mu, g, G = (np.asarray(a, dtype=float) for a in (current["mu"], curv["g"], curv["G"]))
        agent = made(prior, lambda x: x, np.eye(1))
        agent.loss_func = lambda x, y: (
            -anp.dot(g, x - mu) - 0.5 * anp.dot(x - mu, anp.dot(G, x - mu))
        )
        prec = np.linalg.inv(np.asarray(current["Sigma"], dtype=float))
        agent.init_type, agent.update_init = "laplace", lambda *_: (mu, prec)
        with expectations(lambda f, mean: f(mean)):
            agent.update(np.zeros(1), lr=params.get("alpha", 1.0), n_iterations=1)
        return {"mu": agent.x, "Sigma": agent.P}

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        if method not in METHODS or likelihood["kind"] != "gaussian":
            return NotImplemented
        h, y = outputs(model, x), np.asarray(y, dtype=float).reshape(-1)
        R = np.atleast_2d(np.asarray(likelihood["R"], dtype=float))
        agent = made(prior, h, np.kron(np.eye(len(y) // len(R)), R))
        sets = iter(np.asarray(samples, dtype=float))
        # its gradient and Hessian of an iteration are averaged over the same samples
        pairs = iter([one for s in sets for one in (s, s)])
        with expectations(lambda f, mean: np.mean([f(s) for s in next(pairs)], axis=0)):
            agent.update(y, lr=params.get("alpha", 1.0), n_iterations=params.get("n_iter", 1))
        return {"mu": agent.x, "Sigma": agent.P}

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        """Static streams: its prediction is another one, by sigma points."""
        if dynamics["kind"] != "static" or any(y is None for y in Y):
            return NotImplemented
        states = []
        for x, y, z in zip(X, Y, samples if samples is not None else X, strict=True):
            prior = self.update(method, model, likelihood, prior, x, y, z, params)
            if prior is NotImplemented:
                return NotImplemented
            states.append(prior)
        return states


def made(prior: dict[str, Any], h: Any, R: np.ndarray, **options: Any) -> Any:
    """The filter at this prior."""
    mu, Sigma = (np.asarray(prior[k], dtype=float) for k in ("mu", "Sigma"))
    model = types.SimpleNamespace(dim_x=len(mu), dim_y=len(R), x0=mu, P0=Sigma, f=None, h=h)
    model.jac_f = model.jac_h = model.Q = None
    model.R = R
    agent = nano.NANO(model, **{"init_type": "prior", "derivate_type": "direct", **options})
    agent.threshold = -np.inf
    agent.loss_func_hessian_diff = agent.loss_func_hessian
    return agent


@contextlib.contextmanager
def expectations(mean_of: Any) -> Iterator[None]:
    """Its expectations are ``mean_of(f, mean)`` in place of sums over sigma points."""
    before, nano.cal_mean = nano.cal_mean, lambda f, mean, var, points: mean_of(f, mean)
    try:
        yield
    finally:
        nano.cal_mean = before


def outputs(model: dict[str, Any], x: Any) -> Any:
    """θ ↦ the outputs of all rows of x, one after the other, in autograd's numpy."""
    f = vectors.model(model)
    x = np.asarray(x, dtype=float).reshape(-1, *model["in_shape"])
    return lambda theta: anp.concatenate([anp.reshape(f(theta, row), -1) for row in x])

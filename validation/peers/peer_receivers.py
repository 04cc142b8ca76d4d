"""gusakovy/adaptive-deep-receivers: ``bongref check validation.peers.peer_receivers:Adapter``.
BONGREF_PEER_RECEIVERS names a checkout.

Its folder ``bong`` is a copy of the authors' code, which :class:`Adapter` runs by the adapter of
``peer_bong``; :class:`Builder` runs what is its own, ``step_fn_builder``: prediction, I iterations
of an update of that copy, with the mean of y as the model and one covariance R for all
observations. The two copies have one name, so that this module and ``peer_bong`` cannot be used in
one process.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path

import numpy as np

from . import _jax, load, version
from ._jax import array, jax, jnp

VARIABLE = "BONGREF_PEER_RECEIVERS"
folder = os.environ.get(VARIABLE)
if folder and "bong" in sys.modules and "validation.peers.peer_receivers" not in sys.modules:
    there = Path(str(sys.modules["bong"].__file__)).resolve().parents[1]
    if there != Path(folder).resolve():
        raise ImportError("another copy of the package bong is loaded: use a process of its own")
(package,) = load("bong", VARIABLE, "bong")
before = logging.root.level, list(logging.root.handlers)
adr, builder = (
    importlib.import_module(f"adr.src.{name}")
    for name in ("utils", "training_algorithms.recursive_bayes")
)
logging.root.setLevel(before[0])
logging.root.handlers[:] = before[1]

from . import peer_bong  # noqa: E402  after its package: it takes the copy that is loaded

FAMILIES = {
    "fc": (adr.CovarianceType.FULL, False),
    "fc_mom": (adr.CovarianceType.FULL, True),
    "diag": (adr.CovarianceType.DG, False),
    "diag_mom": (adr.CovarianceType.DG, True),
    "dlr": (adr.CovarianceType.DLR, False),
}


class Adapter(peer_bong.Adapter):
    """Its copy of the authors' code."""

    version = version(package)
    name = f"gusakovy/adaptive-deep-receivers {version[:12]}"


class Builder:
    """``step_fn_builder``: the linearised methods with a Gaussian likelihood."""

    dtype = "float64"
    version = Adapter.version
    name = f"{Adapter.name}, step_fn_builder"

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        states = self._stream(method, model, likelihood, prior, [x], [y], (1.0, 0.0), params)
        return states if states is NotImplemented else states[0]

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        terms = peer_bong._dynamics(method.split("-")[3], dynamics, len(prior["mu"]))
        if terms is None or any(y is None for y in Y):
            return NotImplemented
        return self._stream(method, model, likelihood, prior, X, Y, terms, params)

    def _stream(self, method, model, likelihood, prior, X, Y, terms, params):
        rule, h1, h2, family = method.split("-")
        if h1 != "lin" or likelihood["kind"] != "gaussian":
            return NotImplemented
        covariance, moments = FAMILIES[family]
        R, f = array(np.atleast_2d(likelihood["R"])), _jax.outputs(model)
        state, states = peer_bong.to_peer(prior), []
        with _jax.precision(self.dtype):
            for x, y in zip(X, Y, strict=True):
                x, y = array(x), array(y).reshape(-1)
                _, _, step = builder.step_fn_builder(
                    adr.TrainingMethod(rule),
                    f,
                    jnp.kron(jnp.eye(len(y) // len(R)), R),
                    covariance,
                    rank=params.get("rank", 1),
                    reparameterized=moments,
                    dynamics_decay=terms[0],
                    process_noise=terms[1],
                    log_likelihood=lambda mean, cov, y: 0.0,
                    empirical_fisher=h2 == "ef",
                    learning_rate=params.get("alpha", 1.0),
                    num_iter=params.get("n_iter", 1),
                )
                state, _ = step(jax.random.PRNGKey(0), state, x, y)
                states.append(peer_bong.from_peer(state))
        return states

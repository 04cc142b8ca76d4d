"""GersonGuy/adaptive-deep-receiver-Torch (PyTorch): ``bongref check
validation.peers.peer_receiver_torch:Adapter``. BONGREF_PEER_RECEIVER_TORCH names a checkout.

Its ``Update_BONG_lin_*`` of ``BONG_torch_version``, which predict and update in one call: a single
update has static dynamics. The covariance R of y is an argument there, one matrix for every
observation, so that a Gaussian likelihood is offered. Its model is an object with the parameters as
an attribute; here it holds our network.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import load, version
from ._torch import F64, network, tensor, torch

package, updates, bog, predicts = load(
    "BONG_torch_version",
    "BONGREF_PEER_RECEIVER_TORCH",
    "BONG_torch_version",
    "BONG_torch_version.BONG",
    "BONG_torch_version.BOG",
    "BONG_torch_version.SSM_predict",
)
FAMILIES = {"bong-lin-hess-fc": "fc", "bong-lin-hess-diag": "diag", "bong-lin-hess-dlr": "dlr"}


class Model:
    """What its updates ask of a model: the parameters, the outputs at these, and at others."""

    def __init__(self, model: dict[str, Any], mu: Any, x: Any):
        self.z_layers, self.z_last = tensor(mu), None
        self.f, self.X = network(model), tensor(x).reshape(-1, *model["in_shape"])

    def __call__(self, obs: Any) -> Any:
        return self.forward_bong(obs, self.z_layers, "layers")

    def forward_bong(self, obs: Any, z: Any, part: str) -> Any:
        return self.f(z, obs).reshape(-1)


class Adapter:
    """BONG-LIN-HESS in fc, diag and dlr, for a Gaussian likelihood."""

    dtype = "float64"
    version = version(package)
    name = f"GersonGuy/adaptive-deep-receiver-Torch {version[:12]}"

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        if method not in FAMILIES or likelihood["kind"] != "gaussian":
            return NotImplemented
        return self._update(FAMILIES[method], model, likelihood, prior, x, y, {"kind": "static"})

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        family = FAMILIES.get(method)
        if family is None or likelihood["kind"] != "gaussian" or not _there(family, dynamics):
            return NotImplemented
        states = []
        for x, y in zip(X, Y, strict=True):
            if y is None:
                prior = self.predict(family, prior, dynamics)
            else:
                prior = self._update(family, model, likelihood, prior, x, y, dynamics)
            states.append(prior)
        return states

    def predict(self, family, state, dynamics):
        kind = dynamics["kind"]
        if family not in FAMILIES.values() or (family == "dlr" and kind == "linear"):
            return NotImplemented
        name = {"fc": "full", "diag": "diag", "dlr": "DLR"}[family]
        name = f"predict_{name}_{'F' if kind == 'linear' else 'OU'}"
        with _float64():
            moved = getattr(predicts, name)(*_parts(state), *_terms(family, state, dynamics))
        return _state(family, moved)

    def _update(self, family, model, likelihood, prior, x, y, dynamics):
        """Prediction and update in one call, as there."""
        with _float64():
            net = Model(model, prior["mu"], x)
            y = tensor(y).reshape(-1)
            R = torch.block_diag(*[tensor(np.atleast_2d(likelihood["R"]))] * len(net.X))
            name = {"fc": "full", "diag": "diag", "dlr": "DLR"}[family]
            name = f"Update_BONG_lin_{name}_{'F' if dynamics['kind'] == 'linear' else 'OU'}"
            rest = _parts(prior)[1:]
            call = getattr(updates, name)
            terms = _terms(family, prior, dynamics)
            return _state(family, call(net.z_layers, *rest, net, net.X, y, R, *terms))


@contextlib.contextmanager
def _float64() -> Iterator[None]:
    """Its identities are made in torch's default type; its reports of each step are not wanted."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(F64)
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    finally:
        torch.set_default_dtype(before)


def _there(family: str, dynamics: dict[str, Any]) -> bool:
    """Whether it has an update with these dynamics that runs."""
    return family == "fc" or dynamics["kind"] != "linear"


def _parts(state: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(tensor(state[k]) for k in ("mu", "Sigma", "var", "Ups", "W") if k in state)


def _state(family: str, moved: tuple[Any, ...]) -> dict[str, np.ndarray]:
    keys = {"fc": ("mu", "Sigma"), "diag": ("mu", "var"), "dlr": ("mu", "Ups", "W")}[family]
    return {k: v.detach().numpy() for k, v in zip(keys, moved, strict=True)}


def _terms(family: str, state: dict[str, Any], dynamics: dict[str, Any]) -> tuple[Any, ...]:
    """(F, b, Q), or (γ, what the covariance is pulled to, the mean); static is γ = 1.

    In dlr it has a precision in the place of that covariance: its diagonal 1 / var0, no low rank.
    """
    P = len(state["mu"])
    if dynamics["kind"] == "linear":
        square = lambda a: np.diag(a) if np.ndim(a) == 1 else np.asarray(a)
        return tensor(square(dynamics["F"])), tensor(dynamics["b"]), tensor(square(dynamics["Q"]))
    gamma = float(dynamics.get("gamma", 1.0))
    var0 = np.broadcast_to(np.asarray(dynamics.get("var0", 1.0), dtype=float), (P,))
    mu0 = tensor(np.broadcast_to(np.asarray(dynamics.get("mu0", 0.0), dtype=float), (P,)))
    if family == "dlr":
        return gamma, tensor(1 / var0), torch.zeros(np.shape(state["W"]), dtype=F64), mu0
    return gamma, tensor(np.diag(var0) if family == "fc" else var0), mu0

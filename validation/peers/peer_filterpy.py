"""Adapters to filterpy: ``ExtendedKalmanFilter`` and ``KalmanFilter`` with θ as their state.

The library takes the measurement function, its Jacobian and R from its user: here they are h(θ) =
E[y|θ], H = ∂h/∂θ and R = V[y|θ] at the prior's mean, from bongref's models and likelihoods. So what
is compared is the library's update and predict: ``bong-lin-hess-fc``, the CM-EKF.

For a softmax the C outputs with one-hot y have a singular R, and the library inverts H P Hᵀ + R,
which is then singular too. ``Adapter`` gives it the first C − 1 outputs, which say the same;
``OneHot`` gives it all C.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

try:
    from filterpy.kalman import ExtendedKalmanFilter, KalmanFilter
except ImportError as error:  # pragma: no cover
    raise ImportError("the adapters to filterpy need it: pip install filterpy") from error

import bongref as br
from bongref.curvature import linearise

VERSION = metadata.version("filterpy")
METHOD = "bong-lin-hess-fc"


def bongref_model(model: dict[str, Any]) -> Any:
    """The model of a neutral description."""
    if model["kind"] == "linear":
        return br.models.linear(model["sizes"][0], model["sizes"][-1], bias=model["bias"])
    if model["kind"] == "mlp":
        return br.models.mlp(list(model["sizes"]), activation=model["activation"])
    return br.models.cnn(
        tuple(model["in_shape"]),
        model["n_outputs"],
        features=tuple(model["features"]),
        kernel=model["kernel"],
        hidden=model["hidden"],
        activation=model["activation"],
    )


def bongref_likelihood(likelihood: dict[str, Any]) -> Any:
    kinds = {
        "bernoulli": br.likelihoods.Bernoulli,
        "categorical": br.likelihoods.Categorical,
        "poisson": br.likelihoods.Poisson,
    }
    return (
        br.likelihoods.Gaussian(np.asarray(likelihood["R"]))
        if likelihood["kind"] == "gaussian"
        else kinds[likelihood["kind"]]()
    )


def matrices(dynamics: dict[str, Any], P: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(F, b, Q) with F and Q as (P, P)."""
    square = lambda a: np.diag(a) if np.ndim(a) == 1 else np.asarray(a, dtype=float)
    if dynamics["kind"] == "ou":
        gamma = float(dynamics["gamma"])
        spread = lambda a: np.broadcast_to(np.asarray(a, dtype=float), (P,))
        return (
            gamma * np.eye(P),
            (1 - gamma) * spread(dynamics["mu0"]),
            np.diag((1 - gamma**2) * spread(dynamics["var0"])),
        )
    if dynamics["kind"] == "linear":
        return square(dynamics["F"]), np.asarray(dynamics["b"], dtype=float), square(dynamics["Q"])
    return np.eye(P), np.zeros(P), np.zeros((P, P))


class Adapter:
    """``ExtendedKalmanFilter``: predict, then update."""

    dtype, version = "float64", VERSION
    route, minimal = "EKF", True

    def __init__(self) -> None:
        self.name = f"filterpy {VERSION} ({self.route})"

    def offers(self, model: dict[str, Any], likelihood: dict[str, Any]) -> bool:
        return True

    def make(self, state: dict[str, Any], n_obs: int) -> Any:
        kf = ExtendedKalmanFilter(dim_x=len(state["mu"]), dim_z=n_obs)
        kf.x, kf.P = np.array(state["mu"], dtype=float), np.array(state["Sigma"], dtype=float)
        return kf

    def condition(self, kf: Any, z: np.ndarray, observe: Any) -> None:
        kf.update(
            z, HJacobian=lambda m: observe(m)[1], Hx=lambda m: observe(m)[0], R=observe(kf.x)[2]
        )

    def forward(self, kf: Any, F: np.ndarray, b: np.ndarray, Q: np.ndarray) -> None:
        kf.F, kf.Q, kf.B = F, Q, np.eye(len(b))
        kf.predict(u=b)

    def both(
        self, kf: Any, z: np.ndarray | None, observe: Any, moving: tuple[np.ndarray, ...]
    ) -> None:
        self.forward(kf, *moving)
        if z is not None:
            self.condition(kf, z, observe)

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        if method != METHOD or not self.offers(model, likelihood):
            return NotImplemented
        z, observe = self.observation(model, likelihood, x, y)
        kf = self.make(prior, len(z))
        self.condition(kf, z, observe)
        return {"mu": kf.x, "Sigma": kf.P}

    def predict(self, family, state, dynamics):
        if family != "fc":
            return NotImplemented
        kf = self.make(state, 1)
        self.forward(kf, *matrices(dynamics, len(state["mu"])))
        return {"mu": kf.x, "Sigma": kf.P}

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        if method != METHOD or not self.offers(model, likelihood):
            return NotImplemented
        moving, state, states = matrices(dynamics, len(prior["mu"])), prior, []
        for x, y in zip(X, Y, strict=True):
            z, observe = self.observation(model, likelihood, x, y)
            kf = self.make(state, 1 if z is None else len(z))
            self.both(kf, z, observe, moving)
            state = {"mu": kf.x, "Sigma": kf.P}
            states.append(state)
        return states

    def observation(self, model, likelihood, x, y):
        """y of a mini-batch, stacked (of a softmax the first C − 1 outputs where ``minimal``), and
        θ ↦ (ŷ, H, R); a missing y is None.
        """
        f, lik = bongref_model(model), bongref_likelihood(likelihood)
        if y is None:
            return None, None
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        keep = np.arange(y.size)
        if lik.name == "categorical" and self.minimal:
            keep = keep[keep % f.n_outputs != f.n_outputs - 1]

        def observe(theta):
            lin = linearise(f, lik, x, y, theta)
            return lin.yhat[keep], lin.H[keep], lin.R[np.ix_(keep, keep)]

        return y.reshape(-1)[keep], observe


class OneHot(Adapter):
    """The same with all C outputs of a softmax."""

    route, minimal = "EKF, one-hot", False


class Combined(Adapter):
    """``predict_update`` for both at once, with the one R that it takes: streams with a Gaussian
    likelihood and no missing y.
    """

    route = "EKF.predict_update"

    def offers(self, model, likelihood):
        return likelihood["kind"] == "gaussian"

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        return NotImplemented

    def predict(self, family, state, dynamics):
        return NotImplemented

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        missing = any(y is None for y in Y)
        return (
            NotImplemented
            if missing
            else super().run(method, model, likelihood, prior, X, Y, samples, dynamics, params)
        )

    def both(self, kf, z, observe, moving):
        F, b, Q = moving
        kf.F, kf.Q, kf.B, kf.R = F, Q, np.eye(len(b)), observe(kf.x)[2]
        kf.predict_update(z, HJacobian=lambda m: observe(m)[1], Hx=lambda m: observe(m)[0], u=b)


class Kalman(Adapter):
    """``KalmanFilter``, for a linear network (a bias is a column of H) and a Gaussian
    likelihood.
    """

    route = "KF"

    def offers(self, model, likelihood):
        return model["kind"] == "linear" and likelihood["kind"] == "gaussian"

    def make(self, state, n_obs):
        kf = KalmanFilter(dim_x=len(state["mu"]), dim_z=n_obs)
        kf.x, kf.P = np.array(state["mu"], dtype=float), np.array(state["Sigma"], dtype=float)
        return kf

    def condition(self, kf, z, observe):
        _, kf.H, R = observe(kf.x)
        kf.update(z, R=R)

    def forward(self, kf, F, b, Q):
        kf.predict(u=b, B=np.eye(len(b)), F=F, Q=Q)


ADAPTERS = (Adapter, OneHot, Combined, Kalman)

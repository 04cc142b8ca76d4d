"""Adapters to dynamax: Kalman filters whose state is θ and whose inputs are the x of the stream.

``Adapter`` is what dynamax offers for a network: its extended Kalman filter for a Gaussian
likelihood, its conditional-moments Gaussian filter with EKF integrals for the others. The other
classes take other routes of dynamax to the same posterior:

=============  =====================================================================  ===================================
Adapter        ``extended_kalman_filter`` / ``conditional_moments_gaussian_filter``   any model, any likelihood
CMGF           ``conditional_moments_gaussian_filter`` with ``EKFIntegrals``          any model, any likelihood
LGSSM          ``lgssm_filter``, R as a matrix                                        linear model, Gaussian likelihood
LGSSMDiagonal  ``lgssm_filter``, R as its diagonal (the Woodbury branch)              linear model, Gaussian, diagonal R
Parallel       the associative scan ``parallel_inference.lgssm_filter``               linear model, Gaussian likelihood
Information    ``lgssm_info_filter``                                                  linear model, Gaussian likelihood
=============  =====================================================================  ===================================

All of them are ``bong-lin-hess-fc`` (the CM-EKF) where they are exact. A filter of dynamax starts
with an update, so that the first predict is made by its ``_predict`` before it is called. A missing
y is not offered.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import numpy as np

try:
    import dynamax  # noqa: F401
    import jax
    import jax.numpy as jnp
except ImportError as error:  # pragma: no cover
    raise ImportError("the adapters to dynamax need it: pip install dynamax") from error

jax.config.update("jax_enable_x64", True)  # before dynamax makes arrays

from dynamax.generalized_gaussian_ssm import inference as cmgf  # noqa: E402
from dynamax.generalized_gaussian_ssm.models import (  # noqa: E402
    GeneralizedGaussianSSM,
    ParamsGGSSM,
)
from dynamax.linear_gaussian_ssm import inference as lgssm  # noqa: E402
from dynamax.linear_gaussian_ssm import info_inference as info  # noqa: E402
from dynamax.linear_gaussian_ssm import parallel_inference as parallel  # noqa: E402
from dynamax.nonlinear_gaussian_ssm import inference_ekf as ekf  # noqa: E402
from dynamax.nonlinear_gaussian_ssm.models import NonlinearGaussianSSM, ParamsNLGSSM  # noqa: E402

VERSION = metadata.version("dynamax")
METHOD = "bong-lin-hess-fc"


# --- the network and the likelihood in JAX --------------------------------------------------------

ACTIVATIONS = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "gelu_tanh": lambda z: jax.nn.gelu(z, approximate=True),
}


def network(model: dict[str, Any]):
    """f(θ, x) for one input x, (C,)."""
    pieces = [(p["name"], tuple(p["shape"]), p["start"], p["stop"]) for p in model["layout"]]
    act = ACTIVATIONS.get(model.get("activation"))
    n_conv = len(model.get("features", ()))
    n_dense = sum(name.startswith("W") for name, *_ in pieces)

    def f(theta, x):
        a = {name: theta[start:stop].reshape(shape) for name, shape, start, stop in pieces}
        h = x
        for i in range(n_conv):
            h = _pool(act(_conv(h, a[f"K{i}"]) + a[f"b{i}"]))
        h = h.reshape(-1)
        for i in range(n_conv, n_conv + n_dense):
            h = a[f"W{i}"] @ h + a.get(f"b{i}", 0.0)
            if i < n_conv + n_dense - 1:
                h = act(h)
        return h

    return f


def _conv(x, K):
    pad = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in K.shape[:2]]
    return jax.lax.conv_general_dilated(
        x[None], K, (1, 1), pad, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]


def _pool(x):
    h, w, c = x.shape
    x = x[: h - h % 2, : w - w % 2]
    return x.reshape(h // 2, 2, w // 2, 2, c).mean(axis=(1, 3))


def moments(likelihood: dict[str, Any]):
    """(mean, covariance) of y as functions of the outputs o (C,)."""
    kind = likelihood["kind"]
    if kind == "gaussian":
        R = jnp.asarray(np.atleast_2d(likelihood["R"]))
        return lambda o: o, lambda o: R
    if kind == "bernoulli":
        return jax.nn.sigmoid, lambda o: jnp.diag(jax.nn.sigmoid(o) * jax.nn.sigmoid(-o))
    if kind == "poisson":
        return jnp.exp, lambda o: jnp.diag(jnp.exp(o))
    return (
        jax.nn.softmax,
        lambda o: jnp.diag(jax.nn.softmax(o)) - jnp.outer(jax.nn.softmax(o), jax.nn.softmax(o)),
    )


def emission(model: dict[str, Any], likelihood: dict[str, Any]):
    """h(θ, u) and R(θ, u) for a mini-batch u (B, …): the outputs stacked."""
    f, (mean, cov) = network(model), moments(likelihood)
    h = lambda theta, u: jax.vmap(lambda x: mean(f(theta, x)))(u).reshape(-1)
    R = lambda theta, u: jax.scipy.linalg.block_diag(
        *[cov(f(theta, u[i])) for i in range(u.shape[0])]
    )
    return h, R


# --- the data -------------------------------------------------------------------------------------


def stacked(model: dict[str, Any], X: Any, Y: Any, T: int):
    """X as (T, B, …) and Y as (T, B C): one mini-batch for each step; None where they are not all
    of one size.
    """
    try:
        X = np.asarray(X, dtype=float).reshape(T, -1, *model["in_shape"])
        Y = np.asarray(Y, dtype=float).reshape(T, -1)
    except ValueError:
        return None
    return jnp.asarray(X), jnp.asarray(Y)


def matrices(dynamics: dict[str, Any], P: int):
    """(F, b, Q) with F and Q as (P, P)."""
    square = lambda a: jnp.asarray(np.diag(a) if np.ndim(a) == 1 else np.asarray(a, dtype=float))
    if dynamics["kind"] == "ou":
        gamma = float(dynamics["gamma"])
        var0 = np.broadcast_to(np.asarray(dynamics["var0"], dtype=float), (P,))
        mu0 = np.broadcast_to(np.asarray(dynamics["mu0"], dtype=float), (P,))
        return gamma * jnp.eye(P), jnp.asarray((1 - gamma) * mu0), square((1 - gamma**2) * var0)
    if dynamics["kind"] == "linear":
        return (
            square(dynamics["F"]),
            jnp.asarray(np.asarray(dynamics["b"], dtype=float)),
            square(dynamics["Q"]),
        )
    return jnp.eye(P), jnp.zeros(P), jnp.zeros((P, P))


def moment_states(mus: Any, Sigmas: Any) -> list[dict[str, Any]]:
    return [{"mu": np.asarray(m), "Sigma": np.asarray(S)} for m, S in zip(mus, Sigmas, strict=True)]


# --- the adapters ---------------------------------------------------------------------------------


class Adapter:
    """The extended Kalman filter for a Gaussian likelihood, the conditional-moments filter for the
    others.
    """

    dtype, version = "float64", VERSION
    route = "EKF/CMGF"

    def __init__(self) -> None:
        self.name = f"dynamax {VERSION} ({self.route})"

    def offers(self, model: dict[str, Any], likelihood: dict[str, Any]) -> bool:
        return True

    def filter(self, model, likelihood, mu, Sigma, X, Y, F, b, Q) -> Any:
        """The filtered moments after each of the T updates, by the filter of dynamax."""
        h, R = emission(model, likelihood)
        step = lambda theta, u: F @ theta + b
        if likelihood["kind"] == "gaussian" and self.route != "CMGF":
            params = ParamsNLGSSM(mu, Sigma, step, Q, h, R(mu, X[0]))
            out = ekf.extended_kalman_filter(params, Y, inputs=X)
        else:
            out = cmgf.conditional_moments_gaussian_filter(
                ParamsGGSSM(mu, Sigma, step, Q, h, R), cmgf.EKFIntegrals(), Y, inputs=X
            )
        return out.filtered_means, out.filtered_covariances

    def forward(self, mu, Sigma, F, b, Q) -> Any:
        """The predicted moments by dynamax's own predict."""
        if self.route == "CMGF":
            integrals = cmgf.EKFIntegrals()
            step = lambda theta, u: F @ theta + b
            return cmgf._predict(
                mu,
                Sigma,
                step,
                Q,
                None,
                integrals.gaussian_expectation,
                integrals.gaussian_cross_covariance,
            )[:2]
        return ekf._predict(mu, Sigma, lambda m, u: F @ m + b, lambda m, u: F, Q, None)

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        states = self._stream(
            method, model, likelihood, prior, [x], [y], {"kind": "static"}, predict_first=False
        )
        return states if states is NotImplemented else states[-1]

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        return self._stream(method, model, likelihood, prior, X, Y, dynamics, predict_first=True)

    def predict(self, family, state, dynamics):
        if family != "fc":
            return NotImplemented
        mu, Sigma = self.forward(
            jnp.asarray(state["mu"]),
            jnp.asarray(state["Sigma"]),
            *matrices(dynamics, len(state["mu"])),
        )
        return {"mu": np.asarray(mu), "Sigma": np.asarray(Sigma)}

    def predictive(self, kind, family, model, likelihood, state, X, samples):
        """The emission distribution at the mean of q, which is the plugin predictive; its variance
        only for a Gaussian.
        """
        if kind != "plugin" or type(self) is not Adapter:
            return NotImplemented
        h, R = emission(model, likelihood)
        mu, P = jnp.asarray(state["mu"]), len(state["mu"])
        X = np.asarray(X, dtype=float).reshape(-1, 1, *model["in_shape"])
        gaussian = likelihood["kind"] == "gaussian"
        dims = P, model["n_outputs"]
        common = jnp.zeros(P), jnp.eye(P), lambda theta, u: theta, jnp.eye(P), h
        ssm = (NonlinearGaussianSSM if gaussian else GeneralizedGaussianSSM)(*dims)
        dists = []
        for u in jnp.asarray(X):
            params = ParamsNLGSSM(*common, R(mu, u)) if gaussian else ParamsGGSSM(*common, R)
            dists.append(ssm.emission_distribution(params, mu, u))
        out = {"mean": np.stack([np.asarray(d.mean()) for d in dists])}
        return (
            {**out, "var": np.stack([np.asarray(d.variance()) for d in dists])} if gaussian else out
        )

    def _stream(self, method, model, likelihood, prior, X, Y, dynamics, predict_first):
        if method != METHOD or not self.offers(model, likelihood) or any(y is None for y in Y):
            return NotImplemented
        data = stacked(model, X, Y, len(Y))
        if data is None:
            return NotImplemented
        mu, Sigma = jnp.asarray(prior["mu"]), jnp.asarray(prior["Sigma"])
        F, b, Q = matrices(dynamics, len(mu))
        if predict_first and dynamics["kind"] != "static":
            mu, Sigma = self.forward(mu, Sigma, F, b, Q)
        return moment_states(*self.filter(model, likelihood, mu, Sigma, *data, F, b, Q))


class CMGF(Adapter):
    """The conditional-moments filter with EKF integrals for every likelihood, the Gaussian one
    too.
    """

    route = "CMGF"


class LGSSM(Adapter):
    """The Kalman filter of a linear-Gaussian model, whose emission matrix is the Jacobian of the
    linear network.
    """

    route = "LGSSM"

    def offers(self, model, likelihood):
        return model["kind"] == "linear" and likelihood["kind"] == "gaussian"

    def parts(self, model, likelihood, X):
        """H (T, BC, P), d (T, BC), R (BC, BC) of the linear network."""
        h, R = emission(model, likelihood)
        zero = jnp.zeros(model["layout"][-1]["stop"])
        H = jnp.stack([jax.jacrev(h)(zero, u) for u in X])
        return H, jnp.stack([h(zero, u) for u in X]), R(zero, X[0])

    def filter(self, model, likelihood, mu, Sigma, X, Y, F, b, Q):
        H, d, R = self.parts(model, likelihood, X)
        params = lgssm.make_lgssm_params(
            mu, Sigma, F, Q, H, self.noise(R, len(Y)), dynamics_bias=b, emissions_bias=d
        )
        out = self.kalman(params, Y)
        return out.filtered_means, out.filtered_covariances

    def kalman(self, params, Y):
        return lgssm.lgssm_filter(params, Y)

    def noise(self, R, T):
        return jnp.broadcast_to(R, (T, *R.shape))

    def forward(self, mu, Sigma, F, b, Q):
        return lgssm._predict(mu, Sigma, F, jnp.zeros((len(mu), 0)), b, Q, jnp.zeros(0))


class LGSSMDiagonal(LGSSM):
    """The same with the variances of the observation alone, for which dynamax takes another
    branch.
    """

    route = "LGSSM, diagonal R"

    def offers(self, model, likelihood):
        if not super().offers(model, likelihood):
            return False
        R = np.atleast_2d(likelihood["R"])
        return not np.any(R - np.diag(np.diag(R)))

    def noise(self, R, T):
        return jnp.diag(R)


class Parallel(LGSSM):
    """The Kalman filter as an associative scan."""

    route = "LGSSM, parallel scan"

    def kalman(self, params, Y):
        T = len(Y)
        params, _ = lgssm.preprocess_params_and_inputs(params, T, None)
        return parallel.lgssm_filter(params, Y)


class Information(LGSSM):
    """The Kalman filter in information form; a static θ has no finite dynamics precision, so that
    only one update is offered then.
    """

    route = "LGSSM, information form"

    def filter(self, model, likelihood, mu, Sigma, X, Y, F, b, Q):
        H, d, R = self.parts(model, likelihood, X)
        P, C = len(mu), len(R)
        prec = jnp.eye(P) if not np.any(Q) else jnp.linalg.inv(Q)  # for one update it is not used
        params = info.ParamsLGSSMInfo(
            initial_mean=mu,
            initial_precision=jnp.linalg.inv(Sigma),
            dynamics_weights=F,
            dynamics_precision=prec,
            dynamics_input_weights=jnp.zeros((P, 0)),
            dynamics_bias=b,
            emission_weights=H,
            emission_precision=jnp.linalg.inv(R),
            emission_input_weights=jnp.zeros((C, 0)),
            emission_bias=d,
        )
        out = info.lgssm_info_filter(params, Y)
        return info.info_to_moment_form(out.filtered_etas, out.filtered_precisions)

    def forward(self, mu, Sigma, F, b, Q):
        prec = jnp.linalg.inv(Sigma)
        eta, prec = info._info_predict(
            prec @ mu, prec, F, jnp.linalg.inv(Q), jnp.zeros((len(mu), 0)), jnp.zeros(0), b
        )
        means, covs = info.info_to_moment_form(eta[None], prec[None])
        return means[0], covs[0]

    def predict(self, family, state, dynamics):
        Q = matrices(dynamics, len(state["mu"]))[2]
        return (
            super().predict(family, state, dynamics)
            if np.linalg.matrix_rank(np.asarray(Q)) == len(Q)
            else NotImplemented
        )

    def _stream(self, method, model, likelihood, prior, X, Y, dynamics, predict_first):
        P = len(prior["mu"])
        if len(Y) > 1 and np.linalg.matrix_rank(np.asarray(matrices(dynamics, P)[2])) < P:
            return NotImplemented
        return super()._stream(method, model, likelihood, prior, X, Y, dynamics, predict_first)


ADAPTERS = (Adapter, CMGF, LGSSM, LGSSMDiagonal, Parallel, Information)
__all__ = [cls.__name__ for cls in ADAPTERS] + ["ADAPTERS", "VERSION"]

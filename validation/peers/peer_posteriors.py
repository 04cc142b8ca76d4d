"""An adapter to posteriors (PyTorch): its EKFs with the empirical Fisher, and its curvature
functions.

=========================  =====================================================================================================
``ekf.diag_fisher``        ``bong-lin-ef-diag``; with its learning rate α also ``blr-lin-ef-diag`` of one iteration
``ekf.dense_fisher``       ``bong-lin-ef-fc``;   with its learning rate α also ``blr-lin-ef-fc`` of one iteration
``ggn``, ``diag_ggn``      lin-hess: the Hessian of a canonical likelihood linearised at θ
``empirical_fisher``       lin-ef and mc-ef
``hvp``                    mc-hess, column by column; its first output is the gradient
``vi.diag``, ``vi.dense``  not offered: they step in log σ and in a Cholesky factor L of Σ, which none of the methods does
=========================  =====================================================================================================

A mini-batch is one likelihood, so the library gets it as one sample (given as B samples it averages
the outer products of the single examples, which is another estimator). θ is one flat tensor. Its
only dynamics are an inflation of the covariance before the update.
"""

from __future__ import annotations

import warnings
from importlib import metadata
from typing import Any

import numpy as np

try:
    with warnings.catch_warnings():  # of the library's dependencies, while it is imported
        warnings.simplefilter("ignore")
        import posteriors
        import torch
except ImportError as error:  # pragma: no cover
    raise ImportError("the adapter to posteriors needs it: pip install posteriors") from error

from ._torch import F64, data, network, tensor

VERSION = metadata.version("posteriors")
OFFERED = ("bong-lin-ef-diag", "bong-lin-ef-fc", "blr-lin-ef-diag", "blr-lin-ef-fc")


# --- the likelihood in PyTorch --------------------------------------------------------------------


def log_prob(likelihood: dict[str, Any]):
    """log p(y | o) up to a constant, summed over a batch: a function of (o, y), both (B, C)."""
    kind = likelihood["kind"]
    if kind == "gaussian":
        prec = torch.linalg.inv(tensor(np.atleast_2d(likelihood["R"])))
        return lambda o, y: -0.5 * torch.sum((y - o) * ((y - o) @ prec))
    if kind == "bernoulli":
        return lambda o, y: torch.sum(y * o - torch.nn.functional.softplus(o, threshold=1000.0))
    if kind == "poisson":
        return lambda o, y: torch.sum(y * o - torch.exp(o))
    return lambda o, y: torch.sum(y * torch.log_softmax(o, dim=-1))


# --- the adapter ----------------------------------------------------------------------------------


class Adapter:
    """posteriors, with our prior, data and samples."""

    name, dtype, version = f"posteriors {VERSION}", "float64", VERSION

    def step(self, method, prior, current, curv, params):
        """The EKFs with log p(θ) = gᵀθ, whose empirical Fisher is ggᵀ; only where the curvature is
        that, as it is for lin-ef.
        """
        S, n_iter = curv.get("S"), params.get("n_iter", 1)
        fits = (
            S is not None
            and np.shape(S) == (len(prior["mu"]), 1)
            and np.array_equal(np.ravel(S), np.ravel(curv["g"]))
        )
        at_prior = all(np.array_equal(current[k], prior[k]) for k in prior)
        if method not in OFFERED or not fits or not at_prior or n_iter != 1:
            return NotImplemented
        g = tensor(curv["g"])
        return self._ekf(method, prior, lambda theta: g @ theta, params)

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        return self.run(
            method, model, likelihood, prior, [x], [y], None, {"kind": "static"}, params
        )

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        """T updates; the library's dynamics are θ_t ~ N(θ_{t-1}, Q), for the diagonal EKF with one
        variance for all.
        """
        noise = self._noise(dynamics, len(prior["mu"]), method)
        if (
            method not in OFFERED
            or params.get("n_iter", 1) != 1
            or noise is None
            or any(y is None for y in Y)
        ):
            return NotImplemented
        f, log_p, state = network(model), log_prob(likelihood), prior
        for x, y in zip(X, Y, strict=True):
            here = data(model, x, y)
            state = self._ekf(
                method,
                state,
                lambda theta, here=here: log_p(f(theta, here[0]), here[1]),
                params,
                noise,
            )
        return state

    def estimate(self, hess, model, likelihood, theta, x, y, samples):
        f, log_p, (X, Y) = network(model), log_prob(likelihood), data(model, x, y)
        ell = lambda t: log_p(f(t, X), Y)
        if hess == "lin-hess":
            at = tensor(theta)
            forward, loss = (
                lambda t: f(t, X),
                lambda z: -log_p(z, Y),
            )  # outputs (B, C): with one axis the library's ggn fails
            G, d = posteriors.ggn(forward, loss)(at), posteriors.diag_ggn(forward, loss)(at)
            return {"g": _gradient(ell, at), "G": -G.detach().numpy(), "d": -d.detach().numpy()}
        points = [tensor(theta)] if hess == "lin-ef" else [tensor(t) for t in samples]
        g = np.mean([_gradient(ell, t) for t in points], axis=0)
        if hess in ("lin-ef", "mc-ef"):
            fisher = posteriors.empirical_fisher(lambda t: ell(t)[None])
            return {"g": g, "G": -np.mean([fisher(t).detach().numpy() for t in points], axis=0)}
        unit = torch.eye(len(points[0]), dtype=F64)
        columns = lambda t: np.stack(
            [posteriors.hvp(ell, (t,), (e,))[1].detach().numpy() for e in unit], axis=1
        )
        return {"g": g, "G": np.mean([columns(t) for t in points], axis=0)}

    def _ekf(self, method, prior, ell, params, noise: Any = 0.0):
        """One update of the library with the log-likelihood of one sample, at its learning rate."""
        rate = params.get("alpha", 1.0)
        per_sample = lambda theta, batch: (ell(theta)[None], torch.zeros(1))
        mu = tensor(prior["mu"])
        if method.endswith("-diag"):
            ekf = posteriors.ekf.diag_fisher.build(
                per_sample, rate, noise, True, tensor(np.sqrt(prior["var"]))
            )
            state, _ = ekf.update(ekf.init(mu), None)
            return {"mu": state.params.numpy(), "var": state.sd_diag.numpy() ** 2}
        ekf = posteriors.ekf.dense_fisher.build(
            per_sample, rate, noise, True, tensor(prior["Sigma"])
        )
        state, _ = ekf.update(ekf.init(mu), None)
        return {"mu": state.params.numpy(), "Sigma": state.cov.numpy()}

    def _noise(self, dynamics, P, method):
        """The library's transition noise for these dynamics, None where it has none for them."""
        diag = method.endswith("-diag")
        if dynamics["kind"] == "static":
            return 0.0
        if dynamics["kind"] != "linear" or np.any(dynamics["b"]):
            return None
        F, Q = np.asarray(dynamics["F"], dtype=float), np.asarray(dynamics["Q"], dtype=float)
        if not np.array_equal(F, np.ones(P) if F.ndim == 1 else np.eye(P)):
            return None
        if not diag:
            return tensor(np.diag(Q) if Q.ndim == 1 else Q)
        return float(np.sqrt(Q[0])) if Q.ndim == 1 and np.all(Q == Q[0]) else None


def _gradient(ell, theta):
    """∇ℓ(θ), as the first output of the library's Hessian-vector product."""
    return posteriors.hvp(ell, (theta,), (torch.zeros_like(theta),))[0].detach().numpy()


ADAPTERS = (Adapter,)

r"""Predictive distributions p(y | x) = ∫ p(y | f(x, θ)) q(θ) dθ by plugin, mc and lin_mc (sec:experiments).

=======  ==================================================================================================================
plugin   q replaced by a point mass at its mean: p(y | f(x, μ))
mc       (1/S) Σ_s p(y | f(x, θ_s)), θ_s ~ q
lin_mc   the same with the mean h(x, θ) replaced by its linearisation h̄(x, θ) = ŷ + H(θ − μ) (eq:hbar), as the paper defines it;
         ``linearise="f"`` is the variant that linearises the natural parameter f (for a softmax the logits) and keeps the likelihood
=======  ==================================================================================================================

h̄ can leave the range of means (a probability below 0 or above 1, a negative rate). It is used as it is: a class is given the mass h̄_y,
and where the average over the samples is not positive the log-density is −inf. Nothing is clipped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import checks
from .gaussians import draw
from .grid import STATES, Method, method
from .linalg import Array
from .states import State

KINDS = ("plugin", "mc", "lin_mc", "lin_mc_f")
POSITIVE = ("gaussian", "poisson")  # their densities at any mean are >= 0, so that logarithms can be averaged


class Predictive(NamedTuple):
    """An equally weighted mixture over S samples of the likelihood at N inputs."""

    kind: str
    lik: Any
    values: Array  # (S, N, C): outputs of the model, or means where ``of_means``
    of_means: bool = False

    @property
    def means(self) -> Array:
        """The mean of y for each sample, (S, N, C)."""
        return self.values if self.of_means else self.lik.mean(self.values)

    @property
    def mean(self) -> Array:
        """The predictive mean of y, (N, C): class probabilities for Bernoulli and Categorical."""
        return self.means.mean(axis=0)

    @property
    def var(self) -> Array:
        """The predictive variance of y, (N, C): the mean of the variances plus the variance of the means."""
        within = self.lik.var_mean(self.values) if self.of_means else np.diagonal(self.lik.var(self.values), axis1=-2, axis2=-1)
        return within.mean(axis=0) + self.means.var(axis=0)

    def log_density(self, Y: Any) -> Array:
        """log p(y_n | x_n), (N,): the log of the mean density over the samples, never the mean of the logs."""
        _, N, C = self.values.shape
        Y = self.lik.encode(Y, C, batch=N)
        if self.of_means and self.lik.name not in POSITIVE:
            density = self.lik.prob_mean(self.values, Y).mean(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(density > 0, np.log(np.maximum(density, 0)), -np.inf)
        logs = (self.lik.log_prob_mean if self.of_means else self.lik.log_prob)(self.values, Y)
        top = logs.max(axis=0)
        safe = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return safe + np.log(np.mean(np.exp(logs - safe), axis=0))


def plugin(m: Method | str, model: Any, lik: Any, state: State, X: Any) -> Predictive:
    """p(y | f(x, μ))."""
    state, X = _check(m, model, state, X)
    found = _compiled("plugin", model, lik, state.mu, state.mu[None], X)
    return Predictive("plugin", lik, _outputs(model, state.mu, X)[None] if found is None else found)


def mc(m, model, lik, state: State, X, *, n_samples: int = 100, rng=None, samples=None) -> Predictive:
    """(1/S) Σ_s p(y | f(x, θ_s)) with θ_s ~ q, or the given ``samples`` (S, P)."""
    state, X = _check(m, model, state, X)
    theta = _thetas(state, n_samples, rng, samples)
    found = _compiled("mc", model, lik, state.mu, theta, X)
    return Predictive("mc", lik, np.stack([_outputs(model, t, X) for t in theta]) if found is None else found)


def lin_mc(m, model, lik, state: State, X, *, n_samples: int = 100, rng=None, samples=None, linearise: str = "h") -> Predictive:
    """mc with h̄(x, θ) in place of h(x, θ); ``linearise="f"``: with f̄ in place of f."""
    if linearise not in ("h", "f"):
        raise ValueError(f"linearise must be 'h' (the mean, as the paper defines it) or 'f' (the natural parameter), got {linearise!r}")
    state, X = _check(m, model, state, X)
    thetas = _thetas(state, n_samples, rng, samples)
    kind = "lin_mc" if linearise == "h" else "lin_mc_f"
    if (found := _compiled(kind, model, lik, state.mu, thetas, X)) is not None:
        return Predictive(kind, lik, found, linearise == "h")
    shift = (thetas - state.mu).T  # (P, S)
    values = []
    for x in X if model.is_batch(X) else [X]:
        o = model(state.mu, x)
        J = model.jac(state.mu, x)
        if linearise == "h":
            H = lik.jac_mean(o) @ J  # eqn:jacH
            hbar = lik.mean(o)[:, None] + H @ shift  # eq:hbar
            values.append(hbar.T)
        else:
            fbar = o[:, None] + J @ shift  # eq:fbar
            values.append(fbar.T)
    return Predictive("lin_mc" if linearise == "h" else "lin_mc_f", lik, np.stack(values, axis=1), linearise == "h")


def predict(kind: str, m, model, lik, state: State, X, *, n_samples: int = 100, rng=None) -> Predictive:
    """The predictive of that kind: plugin, mc, lin_mc or lin_mc_f."""
    if kind == "plugin":
        return plugin(m, model, lik, state, X)
    if kind == "mc":
        return mc(m, model, lik, state, X, n_samples=n_samples, rng=rng)
    if kind in ("lin_mc", "lin_mc_f"):
        return lin_mc(m, model, lik, state, X, n_samples=n_samples, rng=rng, linearise="f" if kind == "lin_mc_f" else "h")
    raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")


def _compiled(kind: str, model, lik, mu: Array, thetas: Array, X: Array) -> Array | None:
    """The values by the compiled path; None where there is none, or where it is not worth a compilation."""
    try:
        from .fast import Unavailable, predict
    except ImportError:
        return None
    try:
        return predict.values(kind, model, lik, mu, thetas, X)
    except Unavailable:
        return None


def _outputs(model, theta: Array, X: Array) -> Array:
    """(N, C), with N = 1 for one input."""
    o = np.asarray(model(theta, X))
    return o if model.is_batch(X) else o[None]


def _thetas(state: State, n_samples: int, rng, samples) -> Array:
    if samples is not None:
        return checks.array("samples", samples, shape=(None, len(state.mu)))
    return draw(state, checks.integer("n_samples", n_samples, 1), checks.generator("rng", rng))


def _check(m: Method | str, model, state: State, X) -> tuple[State, Array]:
    state = checks.state("state", state, STATES[method(m).family], P=model.n_params)
    return state, model.check(x=X)[1]

"""Predictive distributions, log-densities and metrics, in mpf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mpmath import mp

from ...errors import InvalidValue
from ...linalg import Array
from .jets import jet
from .likelihoods import CLASSES, jac_mean, kind_of, log_prob, mean, noise, var
from .numbers import average, exactly, working
from .updates import inputs, state

N_BINS = 20


@working
def predictive(
    kind: str,
    family: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    q: Any,
    X: Any,
    samples: Any = None,
    Y: Any = None,
) -> dict[str, Any]:
    """mean and var (N, C); with Y also log_density (N,) and nlpd, for classes error and ece.

    samples (S, P) for mc and lin_mc. lin_mc replaces the mean h by h̄ = ŷ + H(θ − μ), also
    where that leaves the range of means.
    """
    mu, xs = state(family, q).mu, inputs(model, X)
    if kind not in ("plugin", "mc", "lin_mc"):
        raise InvalidValue(f"kind must be plugin, mc or lin_mc, got {kind!r}")
    thetas = mu[None] if kind == "plugin" else exactly(samples)
    if kind == "lin_mc":
        at = [jet(model, mu, x, 1) for x in xs]
        saturation = (
            max(abs(v) for o, _, _ in at for v in o) if kind_of(likelihood) in CLASSES else 0
        )
        with mp.workdps(mp.dps + min(int(saturation), 1000)):  # 1 − h̄ is a difference
            return _mixture(
                likelihood,
                [_linear_means(likelihood, mu, *o[:2], thetas) for o in at],
                Y,
                of_means=True,
            )
    return _mixture(
        likelihood, [[jet(model, t, x, 0).value for t in thetas] for x in xs], Y, of_means=False
    )


def _linear_means(
    likelihood: Mapping[str, Any], mu: Array, o: Array, J: Array, thetas: Array
) -> list[Array]:
    """h̄(x, θ) for each θ."""
    H = jac_mean(likelihood, o) @ J
    return [mean(likelihood, o) + H @ (t - mu) for t in thetas]


def _mixture(
    likelihood: Mapping[str, Any], values: list[list[Array]], Y: Any, of_means: bool
) -> dict[str, Any]:
    """Moments, densities and metrics of an equally weighted mixture.

    values[n][s] is an output (C,), or a mean, for input n and sample s.
    """
    means = [
        np.stack(v if of_means else [mean(likelihood, o) for o in v]) for v in values
    ]  # N of (S, C)
    within = [
        np.stack(
            [_var_of_mean(likelihood, h) for h in v]
            if of_means
            else [np.diag(var(likelihood, o)) for o in v]
        )
        for v in values
    ]
    centre = [average(m) for m in means]
    spread = [
        average(w) + average((m - c) ** 2) for m, w, c in zip(means, within, centre, strict=True)
    ]
    out: dict[str, Any] = {"mean": np.stack(centre), "var": np.stack(spread)}
    if Y is None:
        return out
    ys = exactly(Y).reshape(len(values), -1)
    density = _log_density_of_means if of_means else _log_density
    logs = np.array(
        [density(likelihood, v, y) for v, y in zip(values, ys, strict=True)], dtype=object
    )
    out |= {"log_density": logs, "nlpd": -logs.sum() / len(logs)}
    if likelihood["kind"] == "categorical" or (
        likelihood["kind"] == "bernoulli" and ys.shape[1] == 1
    ):
        out |= _calibration(likelihood, out["mean"], ys)
    return out


def _var_of_mean(likelihood: Mapping[str, Any], h: Array) -> Array:
    """The variances of y at the mean h, whatever h is, (C,)."""
    if likelihood["kind"] == "gaussian":
        return np.diag(noise(likelihood, len(h)))
    return h * (1 - h) if likelihood["kind"] in CLASSES else h


def _log_density(likelihood: Mapping[str, Any], outputs: list[Array], y: Array) -> Any:
    return _log_mean_exp([log_prob(likelihood, o, y) for o in outputs])


def _log_density_of_means(likelihood: Mapping[str, Any], means: list[Array], y: Array) -> Any:
    if likelihood["kind"] == "gaussian":
        return _log_density(likelihood, means, y)
    if likelihood["kind"] == "poisson":
        return _log_mean_exp(
            [sum(_poisson_at(h, t) for h, t in zip(m, y, strict=True)) for m in means]
        )
    if likelihood["kind"] == "categorical":
        mass = [m[int(np.argmax(y))] for m in means]
    else:
        mass = [mp.fprod(h if t == 1 else 1 - h for h, t in zip(m, y, strict=True)) for m in means]
    total = sum(mass) / len(mass)
    return mp.log(total) if total > 0 else mp.ninf


def _poisson_at(rate: Any, y: Any) -> Any:
    """log-density at a rate: −inf where it is ≤ 0, except 0 where y = rate = 0."""
    if rate > 0:
        return y * mp.log(rate) - rate - mp.loggamma(y + 1)
    return mp.zero if rate == 0 and y == 0 else mp.ninf


def _log_mean_exp(logs: list[Any]) -> Any:
    """log of the mean of the exponentials, accurate also where all of them are nearly 1."""
    top = max(logs)
    return (
        top + mp.log1p(sum(mp.expm1(v - top) for v in logs) / len(logs)) if top > mp.ninf else top
    )


def _calibration(likelihood: Mapping[str, Any], mean: Array, ys: Array) -> dict[str, Any]:
    """error and ece: the share of wrong classes, and Σ_b |Σ_{n in b} (right − confidence)| / N.

    The bins are (b/20, (b + 1)/20].
    """
    if likelihood["kind"] == "categorical":
        guess, label = mean.argmax(axis=1), ys.argmax(axis=1)
        confidence = mean.max(axis=1)
    else:
        guess, label = (mean[:, 0] > mp.mpf(1) / 2).astype(int), ys[:, 0].astype(int)
        confidence = np.where(guess == 1, mean[:, 0], 1 - mean[:, 0])
    right = guess == label
    gaps = [mp.zero] * N_BINS
    for ok, c in zip(right, confidence, strict=True):
        gaps[min(max(int(mp.ceil(c * N_BINS)) - 1, 0), N_BINS - 1)] += int(ok) - c
    N = len(label)
    return {"error": mp.mpf(int(N - right.sum())) / N, "ece": sum(abs(g) for g in gaps) / N}

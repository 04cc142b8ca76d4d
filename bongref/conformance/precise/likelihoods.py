"""The likelihoods by their formulas, of outputs o (C,) and an observation y (C,).

1 − p is never formed as a difference: it is the sum of the other probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mpmath import mp

from ...errors import InvalidValue
from ...linalg import Array, cholesky, eye, inv, solve, sym
from .numbers import diag, each, exactly, working

CLASSES = ("categorical", "bernoulli")  # the likelihoods whose mean is a probability


def kind_of(likelihood: Mapping[str, Any]) -> str:
    """The kind of a likelihood, checked."""
    kind, known = str(likelihood["kind"]), ("gaussian", *CLASSES, "poisson")
    if kind not in known:
        raise InvalidValue(f"likelihood['kind'] must be one of {', '.join(known)}, got {kind!r}")
    return kind


def noise(likelihood: Mapping[str, Any], C: int) -> Array:
    """R of a gaussian, (C, C); a scalar multiplies I."""
    R = exactly(likelihood["R"])
    R = sym(R) if np.ndim(R) == 2 else diag(np.array([R] * C, dtype=object))
    if R.shape != (C, C):
        raise InvalidValue(f"R must have shape ({C}, {C}), got {R.shape}")
    return R


def probabilities(likelihood: Mapping[str, Any], o: Array) -> tuple[Array, Array]:
    """p and 1 − p of each class."""
    if likelihood["kind"] == "bernoulli":
        return each(lambda v: 1 / (1 + mp.exp(-v)), o), each(lambda v: 1 / (1 + mp.exp(v)), o)
    e = each(mp.exp, o - max(o))
    others = np.array([sum(np.delete(e, k), mp.zero) for k in range(len(e))], dtype=object)
    return e / e.sum(), others / e.sum()


@working
def log_prob(likelihood: Mapping[str, Any], o: Any, y: Any) -> Any:
    """log p(y | o)."""
    kind, o, y = kind_of(likelihood), exactly(o), exactly(y)
    if kind == "gaussian":
        L = cholesky(noise(likelihood, len(o)))
        z = solve(L, y - o)
        return -(z @ z) / 2 - sum(mp.log(v) for v in np.diag(L)) - len(o) * mp.log(2 * mp.pi) / 2
    if kind == "bernoulli":
        return -sum(mp.log1p(mp.exp(-v if t == 1 else v)) for v, t in zip(o, y, strict=True))
    if kind == "categorical":
        at, top = int(np.argmax(y)), int(np.argmax(o))
        rest = sum((mp.exp(v - o[top]) for v in np.delete(o, top)), mp.zero)
        return o[at] - o[top] - mp.log1p(rest)
    return sum(t * v - mp.exp(v) - mp.loggamma(t + 1) for v, t in zip(o, y, strict=True))


@working
def mean(likelihood: Mapping[str, Any], o: Any) -> Array:
    """ŷ = E[y | o], (C,)."""
    kind, outputs = kind_of(likelihood), exactly(o)
    if kind == "gaussian":
        return outputs
    return probabilities(likelihood, outputs)[0] if kind in CLASSES else each(mp.exp, outputs)


@working
def var(likelihood: Mapping[str, Any], o: Any) -> Array:
    """R = Cov[y | o], (C, C)."""
    kind, o = kind_of(likelihood), exactly(o)
    if kind == "gaussian":
        return noise(likelihood, len(o))
    if kind == "poisson":
        return diag(each(mp.exp, o))
    p, q = probabilities(likelihood, o)
    if kind == "bernoulli":
        return diag(p * q)
    R = -np.outer(p, p)
    R[np.arange(len(p)), np.arange(len(p))] = p * q
    return R


@working
def jac_mean(likelihood: Mapping[str, Any], o: Any) -> Array:
    """∂ŷ/∂o, (C, C): I for a gaussian, R for those whose output is the natural parameter."""
    o = exactly(o)
    return exactly(eye(len(o))) if kind_of(likelihood) == "gaussian" else var(likelihood, o)


@working
def score(likelihood: Mapping[str, Any], outputs: Any, observed: Any) -> Array:
    """∂ log p(y | o)/∂o, (C,)."""
    kind, o, y = kind_of(likelihood), exactly(outputs), exactly(observed)
    if kind == "gaussian":
        return solve(noise(likelihood, len(o)), y - o)
    if kind == "poisson":
        return y - each(mp.exp, o)
    p, q = probabilities(likelihood, o)
    residual: Array = y * q - (1 - y) * p
    return residual


@working
def info(likelihood: Mapping[str, Any], o: Any) -> Array:
    """−∂² log p(y | o)/∂o², (C, C): R⁻¹ for a gaussian, R for the others."""
    o = exactly(o)
    return (
        sym(inv(noise(likelihood, len(o))))
        if kind_of(likelihood) == "gaussian"
        else var(likelihood, o)
    )


@working
def info_factor(likelihood: Mapping[str, Any], o: Any) -> Array:
    """B with B Bᵀ = info, (C, C)."""
    kind, o = kind_of(likelihood), exactly(o)
    if kind == "gaussian":
        B: Array = solve(cholesky(noise(likelihood, len(o))), exactly(eye(len(o)))).T
        return B
    if kind == "poisson":
        return diag(each(lambda v: mp.exp(v / 2), o))
    p, q = probabilities(likelihood, o)
    if kind == "bernoulli":
        return diag(each(mp.sqrt, p * q))
    root = each(mp.sqrt, p)
    B = -np.outer(p, root)
    B[np.arange(len(p)), np.arange(len(p))] = root * q
    return B

"""Models of how θ moves between observations, θ_t ~ N(F θ_{t-1} + b, Q) (sec:pseudocode, algo:predict)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import checks
from .linalg import Array, eye, gram, is_pd, sym
from .states import DLR, FC, Diag, State

EPS = float(np.finfo(float).eps)


class Static(NamedTuple):
    """θ does not move: the prior of the next step is the posterior of this one."""


class OU(NamedTuple):
    """Ornstein–Uhlenbeck: F = γI, b = (1−γ) mu0, Q = (1−γ²) Σ0, which keeps N(mu0, Σ0) (sec:background)."""

    gamma: float
    mu0: Any = 0.0
    var0: Any = 1.0  # Σ0: a scalar, variances (P,), or for FC a (P, P) matrix


class Linear(NamedTuple):
    """General linear-Gaussian: F and Q as scalars, diagonals (P,) or (P, P) matrices; b a scalar or (P,)."""

    F: Any = 1.0
    b: Any = 0.0
    Q: Any = 0.0


Dynamics = Static | OU | Linear


def matrices(dynamics: Dynamics, P: int) -> tuple[Array, Array, Array]:
    """(F, b, Q) with F and Q as (P,) where they are diagonal and (P, P) where they are not."""
    if isinstance(dynamics, Static):
        return np.ones(P), np.zeros(P), np.zeros(P)
    if isinstance(dynamics, OU):
        gamma = checks.scalar("gamma", dynamics.gamma)
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be in [0, 1], got {dynamics.gamma!r}")
        var0 = _square("var0", dynamics.var0, P)
        if not (np.all(var0 > 0) if var0.ndim == 1 else is_pd(var0)):
            raise ValueError("var0 must be positive definite (variances > 0), got one that is not")
        return np.full(P, gamma), (1 - gamma) * _vector("mu0", dynamics.mu0, P), (1 - gamma) * (1 + gamma) * var0
    if isinstance(dynamics, Linear):
        Q = _square("Q", dynamics.Q, P)
        low = float(np.min(Q)) if Q.ndim == 1 else float(np.linalg.eigvalsh(sym(Q))[0])
        if low < (0 if Q.ndim == 1 else -P * EPS * np.max(np.abs(Q))):
            raise ValueError(f"Q must be positive semi-definite, got one with smallest eigenvalue {low:.3g}")
        return _square("F", dynamics.F, P, symmetric=False), _vector("b", dynamics.b, P), Q
    raise TypeError(f"dynamics must be Static(), OU(...) or Linear(...), got {dynamics!r}")


def predict(state: State, dynamics: Dynamics) -> State:
    """The prior q_{t|t-1} of the next step: mean F μ + b, covariance F Σ Fᵀ + Q, exactly and in the same family.

    FC takes any F and Q. Diag and DLR take diagonal F and Q, with which the result stays in the family (and Diag any F and Q for which
    the result is diagonal); others are refused, because staying in the family would need a projection.
    """
    return propagate(checks.state("state", state), dynamics)


def propagate(state: State, dynamics: Dynamics) -> State:
    """:func:`predict` of a state that has been checked."""
    if isinstance(dynamics, Static):
        return state
    P = len(state.mu)
    F, b, Q = matrices(dynamics, P)
    if isinstance(state, FC):
        mu = (F * state.mu if F.ndim == 1 else F @ state.mu) + b  # sec:pseudocode#3
        FSF = F[:, None] * state.Sigma * F if F.ndim == 1 else F @ state.Sigma @ F.T
        Sigma = sym(FSF + (np.diag(Q) if Q.ndim == 1 else Q))  # sec:pseudocode#4
        return _valid(FC(mu, Sigma))
    if isinstance(state, Diag):
        mu = (F * state.mu if F.ndim == 1 else F @ state.mu) + b  # sec:pseudocode#3
        if F.ndim == 1 and Q.ndim == 1:
            return _valid(Diag(mu, F**2 * state.var + Q))
        root, Q2 = (np.diag(F) if F.ndim == 1 else F) * np.sqrt(state.var), np.diag(Q) if Q.ndim == 1 else Q
        full, size = root @ root.T + Q2, np.abs(root) @ np.abs(root).T + np.abs(Q2)
        if np.any(np.abs(full - np.diag(np.diag(full))) > 4 * P * EPS * size):  # more than the rounding of the products
            raise ValueError(
                f"{_full(dynamics, F, Q)} must be diagonal for a diagonal family, or such that F Sigma F^T + Q is; got a full one, "
                "with which it is not"
            )
        return _valid(Diag(mu, np.diag(full).copy()))
    if F.ndim == 2 or Q.ndim == 2:
        which = _full(dynamics, F, Q)
        raise ValueError(f"{which} must be diagonal for the DLR family, whose precision is not Ups + W W^T otherwise; got a full {which}")
    return _valid(_predict_dlr(state, F, b, Q))


def _predict_dlr(q: DLR, f: Array, b: Array, q_diag: Array) -> DLR:
    """The precision of F Σ F + Q with diagonal F and Q, again Υ + W Wᵀ of the same rank; O(R² P), no projection.

    With n = f² + QΥ, Woodbury twice gives Υ' = Υ/n and W' W'ᵀ = (fW/n) E⁻¹ (fW/n)ᵀ, E = I + Wᵀ (Q/n) W; no difference is taken.
    """
    if np.any((f == 0) & (q_diag == 0)):
        raise ValueError("F and Q must not both be 0 for a parameter: its variance would be 0")
    if not np.any(f):  # nothing is left of q
        return DLR(b, 1 / q_diag, np.zeros_like(q.W))
    n = f**2 + q_diag * q.Ups
    if not np.all(n > 0):
        raise ValueError(
            "Q must be smaller than F^2/|Ups| where Ups < 0, for the precision to be again Ups + W W^T of the same rank; got "
            f"F^2 + Q Ups = {np.min(n):.3g} for parameter {int(np.argmin(n))}"
        )
    E = eye(q.W.shape[1]) + gram(q.W, q.W * (q_diag / n)[:, None])
    L = np.linalg.cholesky(sym(E))
    W = np.linalg.solve(L, (q.W * (f / n)[:, None]).T).T
    return DLR(f * q.mu + b, q.Ups / n, W)


def _full(dynamics: Dynamics, F: Array, Q: Array) -> str:
    """Which of the arguments are not diagonal."""
    return " and ".join(n for n, a in (("F", F), ("var0" if isinstance(dynamics, OU) else "Q", Q)) if a.ndim == 2)


def _valid(q: State) -> State:
    from .gaussians import is_valid

    if not is_valid(q):
        raise ValueError("F Sigma F^T + Q must be positive definite, got one that is not")
    return q


def _vector(name: str, value: Any, P: int) -> Array:
    v = checks.array(name, value, ndim=(0, 1))
    if v.ndim == 1 and len(v) != P:
        raise ValueError(f"{name} must be a scalar or have shape ({P},), got {v.shape}")
    return np.broadcast_to(v, (P,)).astype(float)


def _square(name: str, value: Any, P: int, symmetric: bool = True) -> Array:
    """(P,) for a scalar, a diagonal or a diagonal matrix, (P, P) otherwise."""
    a = checks.array(name, value, ndim=(0, 1, 2))
    if a.ndim < 2:
        return _vector(name, a, P)
    a = checks.symmetric(name, a, P) if symmetric else checks.array(name, a, shape=(P, P))
    return np.diag(a).copy() if not np.any(a - np.diag(np.diag(a))) else a

r"""Steps of the full-covariance families with many rows (mc-ef), on BLAS and LAPACK from Python.
Reference: families.fc_nat, fc_mom.

* fc: the precision Λ = Σ⁻¹ and its Cholesky factor, both with the parameters in reverse order: with
  JΛJ = LLᵀ, J the reversal, the Cholesky factor of Σ itself is JL⁻ᵀJ, so that samples and means
  need triangular solves and no inverse.
* fc_mom: Σ and its Cholesky factor.

Matrices are in Fortran order with the lower triangle valid. Rows (K, P) in C order are (P, K)
columns for BLAS.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dsyr2, dsyrk, dtrmm, dtrmv, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf, dpotri

from ..linalg import Array
from ..states import FC
from .fc import mirror
from .generic import begin, implement, place, predict, step
from .jit import kernel
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK


class Precision(NamedTuple):
    """N(mu, Λ⁻¹), Λ in reverse order."""

    mu: Array  # (P,)
    Lam: Array  # (P, P)
    L: Array  # (P, P): its Cholesky factor


class Moments(NamedTuple):
    """N(mu, Sigma)."""

    mu: Array  # (P,)
    Sigma: Array  # (P, P)
    L: Array  # (P, P): the Cholesky factor of Sigma


class Prior(NamedTuple):
    """What an inner loop keeps of q_{t|t-1}."""

    mu: Array  # (P,)
    # (P, P): Λ₀ (blr in fc, bbb in fc_mom) or the Cholesky factor of Λ₀ (bbb in fc) or Σ₀ (blr in
    # fc_mom)
    matrix: Array
    first: Array  # (1,): whether the next iteration is the first


BongMany = namedtuple("BongMany", "alpha")
BlrMany = namedtuple("BlrMany", "alpha")
BogMany = namedtuple("BogMany", "alpha")
BbbMany = namedtuple("BbbMany", "alpha")
BongMomMany = namedtuple("BongMomMany", "alpha")
BlrMomMany = namedtuple("BlrMomMany", "alpha")
BogMomMany = namedtuple("BogMomMany", "alpha")
BbbMomMany = namedtuple("BbbMomMany", "alpha")


_mirror = kernel(mirror)


def _symmetric(A: Array) -> Array:
    """A with both triangles, in place."""
    _mirror(A.T)
    return A


def _factor(A: Array, L: Array) -> int:
    """L = the Cholesky factor of A; -> status. NaN, which LAPACK may miss, reaches diag L."""
    if L is not A:
        np.copyto(L, A)
    good = dpotrf(L, lower=1, clean=0, overwrite_a=1)[1] == 0 and np.isfinite(L.diagonal()).all()
    return OK if good else NOT_POSITIVE_DEFINITE


def _invert(L: Array) -> Array:
    """The inverse of the matrix whose Cholesky factor L is, in its place (lower triangle)."""
    return dpotri(L, lower=1, overwrite_c=1)[0]


def _add_squares(A: Array, scale: float, rows: Array) -> None:
    """A += scale · rowsᵀ rows."""
    dsyrk(scale, rows.T, beta=1.0, c=A, lower=1, overwrite_c=1)


def _finite(*arrays: Array) -> int:
    return OK if all(bool(np.isfinite(a).all()) for a in arrays) else NOT_FINITE


def _add(A: Array, scale: float, B: Array) -> None:
    """A += scale · B, some columns at a time, so that there is no third matrix."""
    for j in range(0, A.shape[1], 64):
        A[:, j : j + 64] += scale * B[:, j : j + 64]


# --- fc: the precision ----------------------------------------------------------------------------


def _reversed(g: Array, rows: Array) -> tuple[Array, Array]:
    return np.ascontiguousarray(g[::-1]), np.ascontiguousarray(rows[:, ::-1])


def _solve(L: Array, x: Array) -> Array:
    """Σx of a vector, in reverse order."""
    return dtrsv(L, dtrsv(L, x, lower=1), lower=1, trans=1, overwrite_x=1)


def _solve_rows(L: Array, rows: Array) -> Array:
    """rows Σ, in reverse order; rows are overwritten."""
    half = dtrsm(1.0, L, rows.T, side=0, lower=1, overwrite_b=1)
    return dtrsm(1.0, L, half, side=0, lower=1, trans_a=1, overwrite_b=1).T


@implement(place, BongMany, BlrMany, BogMany, BbbMany, host=True)
def place_precision(rule: Any, prior: Prior, state: Precision, z: Array, work: Any) -> int:
    """Reference: gaussians.place."""
    x = np.ascontiguousarray(z[:, ::-1])
    x = dtrsm(1.0, state.L, x.T, side=0, lower=1, trans_a=1, overwrite_b=1).T
    np.add(x[:, ::-1], state.mu, out=z)
    return OK


@implement(step, BongMany, host=True)
def bong(rule: BongMany, prior: Prior, state: Precision, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_nat.bong."""
    g, rows = _reversed(g, G)
    _add_squares(state.Lam, 1.0, rows)  # eq:RVGA-explicit-cov, eq:bong-FC-prec
    code = _factor(state.Lam, state.L)
    state.mu[:] += _solve(state.L, g)[::-1]  # eq:RVGA-explicit-mean, eq:bong-FC-mean
    return code or _finite(state.mu)


@implement(step, BlrMany, host=True)
def blr(rule: BlrMany, prior: Prior, state: Precision, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_nat.blr. In the first iteration Λ = Λ₀."""
    alpha, (g, rows) = rule.alpha, _reversed(g, G)
    if not prior.first[0]:
        g = g + dsymv(1.0, prior.matrix, np.ascontiguousarray((prior.mu - state.mu)[::-1]), lower=1)
        for j in range(0, len(g), 64):
            state.Lam[:, j : j + 64] *= 1 - alpha
            state.Lam[:, j : j + 64] += alpha * prior.matrix[:, j : j + 64]
    prior.first[0] = False
    _add_squares(state.Lam, alpha, rows)  # eq:BLR-FC-Nat-prec, sec:FC-Nat#31
    code = _factor(state.Lam, state.L)
    state.mu[:] += alpha * _solve(state.L, g)[::-1]  # eq:blr-FC-nat-mu, sec:FC-Nat#30
    return code or _finite(state.mu)


@implement(step, BogMany, host=True)
def bog(rule: BogMany, prior: Prior, state: Precision, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_nat.bog."""
    alpha, mu, (g, rows) = rule.alpha, np.ascontiguousarray(state.mu[::-1]), _reversed(g, G)
    v, V = _solve(state.L, g), _solve_rows(state.L, rows)
    side = dsymv(1.0, state.Lam, mu, lower=1) + alpha * v
    dsyr2(-2 * alpha, v, mu, a=state.Lam, lower=1, overwrite_a=1)
    _add_squares(state.Lam, 2 * alpha, V)  # eq:bog-FC-nat-prec, sec:FC-Nat#37
    code = _factor(state.Lam, state.L)
    state.mu[:] = _solve(state.L, side)[::-1]  # eq:bog-FC-nat-mu, sec:FC-Nat#36
    return code or _finite(state.mu)


@implement(step, BbbMany, host=True)
def bbb(rule: BbbMany, prior: Prior, state: Precision, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_nat.bbb; ΣΛ₀Σ = XᵀX, X = L₀ᵀΣ, cancels Σ in the first iteration."""
    alpha, (g, rows), L0 = rule.alpha, _reversed(g, G), prior.matrix
    mu = np.ascontiguousarray(state.mu[::-1])
    if not prior.first[0]:
        d = np.ascontiguousarray((prior.mu - state.mu)[::-1])
        g = g + dtrmv(L0, dtrmv(L0, d, lower=1, trans=1), lower=1)
    r, V = _solve(state.L, g), _solve_rows(state.L, rows)
    side = dsymv(1.0, state.Lam, mu, lower=1) + alpha * r
    if not prior.first[0]:
        Sigma = _symmetric(_invert(state.L))
        _add(state.Lam, -2 * alpha, Sigma)
        X = dtrmm(1.0, L0, Sigma, side=0, lower=1, trans_a=1, overwrite_b=1)
        dsyrk(2 * alpha, X, beta=1.0, c=state.Lam, trans=1, lower=1, overwrite_c=1)
    dsyr2(-2 * alpha, r, mu, a=state.Lam, lower=1, overwrite_a=1)
    _add_squares(state.Lam, 2 * alpha, V)  # eq:bbb-FC-nat-prec, sec:FC-Nat#43
    prior.first[0] = False
    code = _factor(state.Lam, state.L)
    state.mu[:] = _solve(state.L, side)[::-1]  # eq:bbb-FC-nat-mu, sec:FC-Nat#42
    return code or _finite(state.mu)


# --- fc_mom: the covariance -----------------------------------------------------------------------


@implement(place, BongMomMany, BlrMomMany, BogMomMany, BbbMomMany, host=True)
def place_moments(rule: Any, prior: Prior, state: Moments, z: Array, work: Any) -> int:
    """Reference: gaussians.place."""
    z[:] = dtrmm(1.0, state.L, z.T, side=0, lower=1, overwrite_b=1).T
    z += state.mu
    return OK


@implement(step, BongMomMany, host=True)
def bong_mom(rule: BongMomMany, prior: Prior, state: Moments, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_mom.bong_lowrank."""
    state.mu[:] += dsymv(1.0, state.Sigma, g, lower=1)  # eq:bong-FC-mom-mu, sec:FC-Mom#21
    V = dsymm(1.0, state.Sigma, G.T, side=0, lower=1)
    dsyrk(-1.0, V, beta=1.0, c=state.Sigma, lower=1, overwrite_c=1)  # eq:bong-FC-mom-cov, sec:FC-Mom#22
    return _factor(state.Sigma, state.L) or _finite(state.mu)


@implement(step, BlrMomMany, host=True)
def blr_mom(rule: BlrMomMany, prior: Prior, state: Moments, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_mom.blr, with ΣΛ₀Σ = YᵀY, Y = L₀⁻¹Σ. In the first iteration that is Σ."""
    alpha, L0, d = rule.alpha, prior.matrix, prior.mu - state.mu
    V = dsymm(1.0, state.Sigma, G.T, side=0, lower=1)
    if not prior.first[0]:
        g = g + dtrsv(L0, dtrsv(L0, d, lower=1), lower=1, trans=1)
    state.mu[:] += alpha * dsymv(1.0, state.Sigma, g, lower=1)  # eq:blr-FC-mom-mu, sec:FC-Mom#25
    if not prior.first[0]:
        np.copyto(state.L, state.Sigma)
        Y = dtrsm(1.0, L0, _symmetric(state.L), side=0, lower=1, overwrite_b=1)
        dsyrk(-alpha, Y, beta=1 + alpha, c=state.Sigma, trans=1, lower=1, overwrite_c=1)
    prior.first[0] = False
    dsyrk(-alpha, V, beta=1.0, c=state.Sigma, lower=1, overwrite_c=1)  # eq:blr-FC-mom-cov, sec:FC-Mom#26
    return _factor(state.Sigma, state.L) or _finite(state.mu)


@implement(step, BogMomMany, host=True)
def bog_mom(rule: BogMomMany, prior: Prior, state: Moments, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_mom.bog."""
    state.mu[:] += rule.alpha * g  # eq:bog-fc-mom-mu, eq:lbog-fc-mom-mu
    _add_squares(state.Sigma, -rule.alpha / 2, G)  # eq:bog-fc-mom-cov, eq:lbog-fc-mom-cov
    return _factor(state.Sigma, state.L) or _finite(state.mu)


@implement(step, BbbMomMany, host=True)
def bbb_mom(rule: BbbMomMany, prior: Prior, state: Moments, g: Array, G: Array, work: Any) -> int:
    """Reference: fc_mom.bbb. In the first iteration Σ⁻¹ = Λ₀, and the two cancel."""
    alpha, prec = rule.alpha, _invert(state.L)
    if prior.first[0]:
        np.copyto(prior.matrix, prec)
    else:
        state.mu[:] += alpha * dsymv(1.0, prior.matrix, prior.mu - state.mu, lower=1)
        _add(state.Sigma, alpha / 2, prec)
        _add(state.Sigma, -alpha / 2, prior.matrix)
    prior.first[0] = False
    state.mu[:] += alpha * g  # bbb-FC-mom-mu, sec:FC-Mom#33
    _add_squares(state.Sigma, -alpha / 2, G)  # bbb-FC-mom-cov, sec:FC-Mom#34
    return _factor(state.Sigma, state.L) or _finite(state.mu)


# --- dynamics, and the state of a stream ----------------------------------------------------------


class Moving(NamedTuple):
    """Dynamics, F and Q as (P,) or (P, P)."""

    F: Array
    b: Array
    Q: Array


@implement(predict, Moving, host=True)
def predict_many(dynamics: Moving, state: Precision | Moments, work: Any) -> int:
    """Reference: dynamics.propagate."""
    F, b, Q = dynamics
    state.mu[:] = (F * state.mu if F.ndim == 1 else F @ state.mu) + b  # sec:pseudocode#3
    Sigma = _covariance(state)
    Sigma = F[:, None] * Sigma * F if F.ndim == 1 else F @ Sigma @ F.T
    Sigma += np.diag(Q) if Q.ndim == 1 else Q  # sec:pseudocode#4
    return _assign(state, Sigma)


def _covariance(state: Precision | Moments) -> Array:
    """Σ, a new array with both triangles."""
    if isinstance(state, Moments):
        return _symmetric(state.Sigma.copy(order="F"))
    return np.ascontiguousarray(_symmetric(_invert(state.L.copy(order="F")))[::-1, ::-1])


def _assign(state: Precision | Moments, Sigma: Array) -> int:
    """The matrices of a state from Σ; -> status."""
    if isinstance(state, Moments):
        state.Sigma[:] = Sigma
        return _factor(state.Sigma, state.L)
    state.L[:] = Sigma[::-1, ::-1]
    code = _factor(state.L, state.L)
    np.copyto(state.Lam, _invert(state.L))
    return code or _factor(state.Lam, state.L)


@implement(begin, BlrMany, BbbMany, BlrMomMany, BbbMomMany, host=True)
def begin_loop(rule: Any, prior: Prior, state: Any, work: Any) -> int:
    """What the rule needs of the prior; bbb in fc_mom takes Λ₀ in its first step."""
    prior.mu[:], prior.first[0] = state.mu, True
    if not isinstance(rule, BbbMomMany):
        np.copyto(prior.matrix, state.Lam if isinstance(rule, BlrMany) else state.L)
    return OK


def many_state(state: FC, family: str) -> Precision | Moments:
    """Arrays for a stream from ``state`` on; NaN where it has no Cholesky factor."""
    P = len(state.mu)
    A, L = np.zeros((P, P), order="F"), np.zeros((P, P), order="F")
    now = (Precision if family == "fc" else Moments)(np.array(state.mu, dtype=float), A, L)
    if _assign(now, state.Sigma) != OK:
        L.fill(np.nan)
    return now


def many_prior(P: int, loop: bool) -> Prior:
    """Arrays of what an inner loop keeps of the prior."""
    n = P if loop else 0
    return Prior(np.zeros(n), np.zeros((n, n), order="F"), np.ones(1, dtype=bool))


def finish_many(state: Precision | Moments) -> FC:
    """A copy of the state."""
    return FC(state.mu.copy(), _covariance(state))

r"""Inner loops of blr in the full-covariance families with few rows: q_{t,i} as an increment of the
prior, without an inversion.

The loop starts at the prior, and q_{t,i} differs from it only in the directions of the rows U of
all iterations so far, Z = UΣ with the prior's Σ. An iteration is one product with Σ for each new
row, and small matrices: in natural parameters the weights d of Σ_{t,i}⁻¹ = Σ⁻¹ + UᵀDU, in moments B
of Σ_{t,i} = Σ + ZᵀBZ, B = −FFᵀ. The covariance itself changes once, when the loop ends. Reference:
start, blr_increment and finish of families.fc_nat and families.fc_mom.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from .fc import DEFERRED, SHARP, Workspace, reserve, times, times_gradient, workspace
from .generic import begin, end, implement, step
from .jit import device
from .small import cholesky, inner, not_finite, product, solve_lower, solve_vector
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED

Blr = namedtuple("Blr", "alpha")
BlrMom = namedtuple("BlrMom", "alpha")


class Increment(NamedTuple):
    """Workspace of an inner loop with n = IK rows in all; the fields of fc.Workspace that products
    with Σ need, and its own.
    """

    U: Any  # (n, P)
    Z: Any  # (n, P): UΣ
    T: Any  # (n, n): UΣUᵀ
    d: Any  # (n,): √ of the weights D
    B: Any  # (n, n)
    F: Any  # (n, n): the Cholesky factor of I + √D T √D, or of −B
    M: Any  # (n, n)
    N: Any  # (n, n)
    b: Any  # (n,)
    v: Any  # (P,)
    delta: Any  # (P,)
    k: Any  # (1,) int64: rows so far
    coefficients: Any
    tile: Any
    left: Any
    right: Any


def increment(P: int, n: int, capacity: int) -> Increment:
    """Buffers of an inner loop with n rows in all."""
    w: Workspace = workspace(P, 0, capacity)
    U, Z = np.zeros((n, P)), np.zeros((n, P))
    T, B, F, M, N = (np.zeros((n, n)) for _ in range(5))
    vectors = np.zeros(n), np.zeros(P), np.zeros(P), np.zeros(1, np.int64)
    return Increment(
        U, Z, T, np.zeros(n), B, F, M, N, *vectors, w.coefficients, w.tile, w.left, w.right
    )


@device
def take(state, g, rows, work):
    """The new rows behind those so far, with their products; v = Σg; the number of rows then."""
    k, K = work.k[0], rows.shape[0]
    for i in range(k, k + K):
        work.U[i] = rows[i - k]
        times(state, work.U[i], work.Z[i], work)
        for j in range(i + 1):
            work.T[i, j] = work.T[j, i] = inner(work.Z[i], work.U[j])
    times_gradient(state, g, rows, work.Z[k : k + K], work.v, work)
    work.k[0] = k + K
    return k + K


@device
def right_side(prior, state, g, k, work):
    """b = Uδ + Zg for the first k rows, δ = μ_{t|t-1} − μ."""
    for p in range(len(g)):
        work.delta[p] = prior.mu[p] - state.mu[p]
    for i in range(k):
        work.b[i] = inner(work.U[i], work.delta) + inner(work.Z[i], g)


@device
def move(state, alpha, k, work):
    """μ += α(δ + Σg + Zᵀb); -> status."""
    for i in range(k):
        row, weight = work.Z[i], work.b[i]
        for p in range(len(row)):
            work.v[p] += weight * row[p]
    for p in range(len(work.v)):
        state.mu[p] += alpha * (work.delta[p] + work.v[p])
    return OK if not_finite(state.mu) == 0.0 else NOT_FINITE


@implement(step, Blr)
def blr(rule, prior, state, g, G, work):
    """Reference: fc_nat.blr_increment, with 0 < α ≤ 1."""
    if not rule.alpha <= 1.0:
        return UNSUPPORTED
    k, d = take(state, g, G, work), work.d
    for i in range(k):
        d[i] = math.sqrt(1.0 - rule.alpha) * d[i] if i < k - G.shape[0] else math.sqrt(rule.alpha)  # eq:BLR-FC-Nat-prec
    for i in range(k):
        for j in range(i + 1):
            work.F[i, j] = d[i] * work.T[i, j] * d[j]
        if work.F[i, i] > SHARP:
            return UNSUPPORTED
        work.F[i, i] += 1.0
    right_side(prior, state, g, k, work)
    for i in range(k):
        work.b[i] *= -d[i]
    if not (not_finite(work.b[:k]) == 0.0 and cholesky(work.F, k)):
        return NOT_FINITE
    solve_vector(work.F, k, work.b)
    for i in range(k):
        work.b[i] *= d[i]
    return move(state, rule.alpha, k, work)  # eq:blr-FC-nat-mu, sec:FC-Nat#30


@implement(end, Blr)
def end_blr(rule, prior, state, work):
    """Reference: fc_nat.finish. Σ loses the squares of the rows L⁻¹√D Z."""
    k = work.k[0]
    n = reserve(state, k, DEFERRED, work)
    for i in range(k):
        row, z = state.V[n + i], work.Z[i]
        state.s[n + i] = 1.0
        for p in range(len(z)):
            row[p] = work.d[i] * z[p]
    solve_lower(work.F, k, state.V[n:], len(state.mu))  # eq:BLR-FC-Nat-prec, sec:FC-Nat#31
    state.n[0] = n + k
    return OK


@implement(step, BlrMom)
def blr_mom(rule, prior, state, g, G, work):
    """Reference: fc_mom.blr_increment and is_valid_increment, with 0 < α ≤ 1: B stays negative
    definite.
    """
    if not rule.alpha <= 1.0:
        return UNSUPPORTED
    K, alpha, T, B, M, N = G.shape[0], rule.alpha, work.T, work.B, work.M, work.N
    k = take(state, g, G, work)
    m = k - K
    right_side(prior, state, g, m, work)
    for i in range(m):
        work.d[i] = inner(B[i, :m], work.b)
    for i in range(m):
        work.b[i] = work.d[i]
    code = move(state, alpha, m, work)  # eq:blr-FC-mom-mu, sec:FC-Mom#25
    if code != OK:
        return code
    product(B, T, m, m, k, N)  # B YᵀZ, its last columns those of (I + AΣ) S
    for i in range(m, k):
        for j in range(m, k):
            N[i, j] = 1.0 if i == j else 0.0
    product(N, B, m, m, m, M)
    for i in range(k):
        for j in range(i + 1):
            total = (1.0 - alpha) * B[i, j] - 0.5 * alpha * (M[i, j] + M[j, i]) if i < m else 0.0
            B[i, j] = total - alpha * inner(N[i, m:k], N[j, m:k])  # eq:blr-FC-mom-cov, sec:FC-Mom#26
            work.F[i, j] = -B[i, j]
    for i in range(k):
        for j in range(i):
            B[j, i], work.F[j, i] = B[i, j], 0.0
    if not cholesky(work.F, k):
        return UNSUPPORTED
    product(T, work.F, k, k, k, N)
    for i in range(k):
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for l in range(k):
                total -= work.F[l, i] * N[l, j]
            M[i, j] = total
    # I − FᵀTF: Σ + ZᵀBZ is positive definite exactly if it is
    return OK if cholesky(M, k) else NOT_POSITIVE_DEFINITE


@implement(end, BlrMom)
def end_blr_mom(rule, prior, state, work):
    """Reference: fc_mom.finish. Σ loses the squares of the rows FᵀZ."""
    k = work.k[0]
    n = reserve(state, k, DEFERRED, work)
    for i in range(k):
        row = state.V[n + i]
        row[:] = 0.0
        state.s[n + i] = 1.0
        for j in range(i, k):
            z, weight = work.Z[j], work.F[j, i]
            for p in range(len(z)):
                row[p] += weight * z[p]
    state.n[0] = n + k
    return OK


@implement(begin, Blr, BlrMom)
def begin_blr(rule, prior, state, work):
    """q_{t,0} = q_{t|t-1}. Reference: fc_nat.start, fc_mom.start."""
    prior.mu[:] = state.mu
    work.k[0] = 0
    return OK

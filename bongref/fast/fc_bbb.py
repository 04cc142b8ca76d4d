r"""Inner loops of bbb in the full-covariance families with a single row in each iteration, in an
orthonormal basis of few directions.

bbb adds a matrix of few directions to the prior's precision (fc) or covariance (fc_mom), QᵀeQ with
orthonormal rows Q. With H the other one of the two, Σ₀ or Σ₀⁻¹, each direction is multiplied with H
once: Z = QH, T = QZᵀ, and with X = (I + eT)⁻¹ the inverse of the sum is H − Zᵀ(Xe)Z. An iteration
brings the new row, and needs in its span what Z has: these vectors wait until the change along what
is new in them is more than rounding. Where the form would cost digits, or the basis is full, the
status is UNSUPPORTED. Reference: fc_nat.bbb, fc_mom.bbb.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .fc import DEFERRED, LOSS, State, multiple, reserve, times, variances, workspace
from .generic import begin, end, implement, step
from .jit import device
from .small import EPS, cholesky, inner, lu_inverse, not_finite, product
from .status import NOT_FINITE, OK, UNSUPPORTED

BASIS = 64  # vectors of a basis at most
NEGLIGIBLE = EPS / 256  # a relative change that is none
RENEWED = 64  # updates after which an inverse that is updated along is computed anew


class Bbb(NamedTuple):
    alpha: float


class BbbMom(NamedTuple):
    alpha: float
    moving: bool  # whether dynamics change Σ between the updates


class Basis(NamedTuple):
    """Workspace of an inner loop with at most n vectors in its basis; the fields of fc.Workspace
    that products need, and its own.
    """

    Q: Any  # (n + 1, P)
    Z: Any  # (n, P): QH
    T: Any  # (n, n): QHQᵀ
    e: Any  # (n, n)
    X: Any  # (n, n): (I + eT)⁻¹
    J: Any  # (n, n): QZᵀ, of directions that are not in the basis yet too
    M: Any  # (n, n): Xe
    N: Any  # (n, n)
    C: Any  # (n, n)
    D: Any  # (n, n): the change of e
    few: Any  # (6, n): coefficients
    many: Any  # (3, P)
    start: Any  # (P,): μ₀
    variance: Any  # (P,): diag Σ₀
    waiting: Any  # (n + 1,) int64: rows of Z, or −1 for μ₀, whose span the next iteration needs
    brought: Any  # (n + 1,) int64: which of them has brought a direction
    kept: Any  # (n + 1,) int64
    count: Any  # (3,) int64: K vectors in the basis, WAIT that wait, AGE of the inverse
    size: Any  # (1,): no eigenvalue of H is larger
    inverse: State  # Σ₀⁻¹ for fc_mom; without rows for fc
    coefficients: Any
    tile: Any
    left: Any
    right: Any


K, WAIT, AGE = range(3)  # of Basis.count
MU, GRADIENT, ROW, WEIGHT, STEP, OTHER = range(6)  # of Basis.few


def basis(P: int, inverse: bool, capacity: int) -> Basis:
    """Buffers of an inner loop, with a precision that goes along for fc_mom."""
    n, w = min(BASIS, P), workspace(P, 0, capacity)
    Q, Z, squares = np.zeros((n + 1, P)), np.zeros((n, P)), [np.zeros((n, n)) for _ in range(8)]
    p, c = (P, capacity) if inverse else (0, 0)
    H = State(
        np.zeros(p), np.zeros((p, p)), np.zeros(p), np.zeros((c, p)), np.ones(c), np.zeros(1),
        np.zeros(2, np.int64)
    )
    vectors = (
        np.zeros((6, n)), np.zeros((3, P)), np.zeros(P), np.zeros(P),
        *(np.zeros(n + 1, np.int64) for _ in range(3))
    )
    counts = np.array([0, 0, RENEWED]), np.zeros(1)
    return Basis(Q, Z, *squares, *vectors, *counts, H, w.coefficients, w.tile, w.left, w.right)


# --- the basis ------------------------------------------------------------------------------------


@device
def new_direction(Q, k, x, buffer):
    """What x has beside the first k rows of Q, with length one, into Q[k]; False if nothing.
    Gram–Schmidt, repeated.
    """
    y, before = Q[k], math.sqrt(inner(x, x))
    y[:] = x
    least, after = 64.0 * EPS * before, before
    for _ in range(3):
        np.dot(Q[:k], y, buffer[:k])
        for j in range(k):
            row, h = Q[j], buffer[j]
            for i in range(len(y)):
                y[i] -= h * row[i]
        after = math.sqrt(inner(y, y))
        if 2.0 * after > before:
            break
        before = after
    if not after > least:
        return False
    for i in range(len(y)):
        y[i] /= after
    return True


@device
def directions(x, work):
    """Directions of the vectors that wait, and of x, behind those of Q; how many there are then, −1
    if there is no room.
    """
    k, left = work.count[K], work.count[WAIT]
    for i in range(left + 1):
        if k == len(work.Z):
            return -1
        at = work.waiting[i]
        row = x if i == left else work.start if at < 0 else work.Z[at]
        if new_direction(work.Q, k, row, work.coefficients):
            work.brought[k] = i
            k += 1
    return k


@device
def change_of_basis(n, work):
    """J = QZᵀ, M = Xe and N = JM for n directions, of which the first k have products in Z."""
    k = work.count[K]
    for i in range(n):
        for j in range(k):
            work.J[i, j] = work.T[i, j] if i < k else inner(work.Q[i], work.Z[j])
    product(work.X, work.e, k, k, k, work.M)
    product(work.J, work.M, n, k, k, work.N)


@device
def keep(n, moves, least, work):
    """Keeps the first k directions and those along which D or ``moves`` change something: they, and
    their part of D, come first.

    Returns how many they are. Vectors whose direction is not kept go on waiting.
    """
    k, left, top, D = work.count[K], work.count[WAIT], work.size[0], work.D
    kept, still = 0, 0
    for i in range(n):
        change = 0.0
        for j in range(n):
            change += abs(D[i, j]) * math.sqrt(work.T[j, j] if j < k else top)
        if i < k or change * math.sqrt(top) > NEGLIGIBLE or abs(moves[i]) > least:
            work.kept[kept] = i
            kept += 1
        elif work.brought[i] < left:
            work.waiting[still] = work.waiting[work.brought[i]]
            still += 1
    for i in range(kept):
        at = work.kept[i]
        for j in range(i + 1):
            D[i, j] = D[at, work.kept[j]]
        if at != i:
            work.Q[i] = work.Q[at]
    work.count[WAIT] = still
    return kept


@device
def extend(H, n, work):
    """Products Z of the new vectors of the basis, which wait from now on; T, and e changed by D."""
    for i in range(work.count[K], n):
        times(H, work.Q[i], work.Z[i], work)
        for j in range(i + 1):
            work.T[i, j] = work.T[j, i] = inner(work.Z[i], work.Q[j])
            work.e[i, j] = work.e[j, i] = 0.0
        work.waiting[work.count[WAIT]] = i
        work.count[WAIT] += 1
    for i in range(n):
        for j in range(i + 1):
            work.e[i, j] += work.D[i, j]
            work.e[j, i] = work.e[i, j]
    work.count[K] = n


@device
def invert(work):
    """X = (I + eT)⁻¹ and the condition number of I + eT; 0 if H⁻¹ + QᵀeQ is not positive definite.
    """
    k, C, M, N = work.count[K], work.C, work.M, work.N
    for i in range(k):
        for j in range(k):
            C[i, j] = work.T[i, j] if j <= i else 0.0
    if not cholesky(C, k):
        return 0.0
    product(work.e, C, k, k, k, M)
    for i in range(k):
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for m in range(k):
                total += C[m, i] * M[m, j]
            N[i, j] = total
    if not cholesky(N, k):
        return 0.0
    product(work.e, work.T, k, k, k, N)
    for i in range(k):
        N[i, i] += 1.0
    return lu_inverse(N, work.X, k)


@device
def diagonal(M, Z, k, sign, out):
    """out = sign · diag ZᵀMZ."""
    out[:] = 0.0
    for i in range(k):
        for j in range(i + 1):
            weight = sign * (0.5 if i == j else 1.0) * (M[i, j] + M[j, i])
            row, other = Z[i], Z[j]
            for p in range(len(out)):
                out[p] += weight * row[p] * other[p]


@device
def keeps_digits(spread, variance, change):
    """Whether variance + change, a difference perhaps, is as large as its parts but for a factor of
    LOSS.
    """
    before, after = 0.0, 0.0
    for i in range(len(variance)):
        before = max(before, max(variance[i], abs(change[i])))
        after = max(after, variance[i] + change[i])
    return spread > 0.0 and spread * before <= LOSS * after


@device
def commit(state, B, rows, sign, work):
    """The covariance or precision of ``state`` loses sign · rowsᵀ B rows; rows with sizes √diag T
    in its metric, B (k, k).
    """
    k = work.count[K]
    if k == 0:
        return
    scaled = np.zeros((k, k))
    for i in range(k):
        for j in range(k):
            scaled[i, j] = (
                0.5 * (B[i, j] + B[j, i]) * math.sqrt(work.T[i, i]) * math.sqrt(work.T[j, j])
            )
    values, E = np.linalg.eigh(scaled)
    n = reserve(state, k, DEFERRED, work)
    for m in range(k):
        if abs(values[m]) * k > NEGLIGIBLE:
            row = state.V[n]
            row[:] = 0.0
            root = math.sqrt(abs(values[m]))
            for i in range(k):
                weight, x = root * E[i, m] / math.sqrt(work.T[i, i]), rows[i]
                for p in range(len(row)):
                    row[p] += weight * x[p]
            state.s[n] = sign if values[m] > 0.0 else -sign
            n += 1
    state.n[0] = n


# --- natural parameters ---------------------------------------------------------------------------


@implement(begin, Bbb)
def begin_bbb(rule, prior, state, work):
    """An empty basis; the mean waits."""
    work.start[:] = state.mu
    variances(state, work.variance)
    work.size[0] = np.sum(work.variance)
    work.count[K] = 0
    work.count[WAIT] = 1
    work.waiting[0] = -1
    return OK


@device
def bbb_change(n, beta, x, mu, Sx, alpha, work):
    """D, the change of e, and STEP, that of w without X, for n directions (eq:bbb-FC-nat-prec,
    eq:bbb-FC-nat-mu).

    With Σ = Σ₀ − ZᵀMZ: r = QΣ(g + Λ₀(μ₀ − μ)), v = QΣx, and Σ − ΣΛ₀Σ = Zᵀ(XeXᵀ)Z.
    """
    k, J, M, N, C, D = work.count[K], work.J, work.M, work.N, work.C, work.D
    a, r, v, w, move, zx = (
        work.few[MU], work.few[GRADIENT], work.few[ROW], work.few[WEIGHT], work.few[STEP],
        work.few[OTHER]
    )
    product(J, work.X, n, k, k, C)
    for i in range(n):
        a[i], v[i] = inner(work.Q[i], mu), inner(work.Q[i], Sx)
        r[i] = beta * v[i]
    for i in range(k):
        zx[i] = inner(work.Z[i], x)
    for i in range(k):
        move[i] = beta * zx[i] + inner(work.T[i, :k], w[:k])
    for i in range(k):
        along, across = w[i] - inner(M[i, :k], move[:k]), inner(M[i, :k], zx[:k])
        for j in range(n):
            r[j] += J[j, i] * along
            v[j] -= J[j, i] * across
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for m in range(k):
                total += N[i, m] * C[j, m] + N[j, m] * C[i, m]
            D[i, j] = D[j, i] = (
                -2.0 * alpha * (r[i] * a[j] + a[i] * r[j] - v[i] * v[j] + 0.5 * total)
            )
    for i in range(n):
        move[i] = alpha * r[i] - inner(D[i, :n], a[:n])


@implement(step, Bbb)
def bbb(rule, prior, state, g, G, work):
    """Reference: fc_nat.bbb. Σᵢ⁻¹ = Σ₀⁻¹ + QᵀeQ, μᵢ = μ₀ − Zᵀw, Z = QΣ₀."""
    x, Sx, move, w, moves = G[0], work.many[0], work.few[STEP], work.few[WEIGHT], work.few[OTHER]
    beta, parallel = multiple(g, x)
    times(state, x, Sx, work)
    if not (parallel and G.shape[0] == 1 and not_finite(Sx) == 0.0):
        return UNSUPPORTED
    n, k = directions(Sx, work), work.count[K]
    if n < 0:
        return UNSUPPORTED
    change_of_basis(n, work)
    bbb_change(n, beta, x, state.mu, Sx, rule.alpha, work)
    for i in range(n):
        moves[i] = move[i] * work.size[0]
    n = keep(n, moves, NEGLIGIBLE * np.max(np.abs(work.start)), work)
    for i in range(n):
        move[i] = move[work.kept[i]]
        w[i] = w[i] if i < k else 0.0
    extend(state, n, work)
    spread = invert(work)
    product(work.X, work.e, n, n, n, work.M)
    diagonal(work.M, work.Z, n, -1.0, work.many[1])  # eq:bbb-FC-nat-prec, sec:FC-Nat#43
    for i in range(n):
        w[i] -= inner(work.X[i, :n], move[:n])
    state.mu[:] = work.start
    for j in range(n):
        row, weight = work.Z[j], w[j]
        for i in range(len(row)):
            state.mu[i] -= weight * row[i]  # eq:bbb-FC-nat-mu, sec:FC-Nat#42
    return OK if not_finite(state.mu) == 0.0 and keeps_digits(
        spread, work.variance, work.many[1]
    ) else UNSUPPORTED


@implement(end, Bbb)
def end_bbb(rule, prior, state, work):
    """Σ loses Zᵀ(Xe)Z."""
    k = work.count[K]
    product(work.X, work.e, k, k, k, work.M)
    commit(state, work.M, work.Z, 1.0, work)
    return OK


# --- moments --------------------------------------------------------------------------------------


@device
def renew(state, H):
    """H = Σ⁻¹; False if Σ has none."""
    P = len(state.mu)
    H.n[0] = 0
    if state.c[0] == 0.0 and state.n[0] == 0:
        H.c[0] = 0.0
        for i in range(P):
            H.q[i] = 1.0 / state.q[i]
        return True
    dense = np.zeros((P, P))
    for i in range(P):
        for j in range(i, P):
            total = state.c[0] * state.A[i, j]
            for k in range(state.n[0]):
                total -= state.s[k] * state.V[k, i] * state.V[k, j]
            dense[i, j] = dense[j, i] = total
        dense[i, i] += state.q[i]
    try:
        H.A[:] = np.linalg.inv(dense)
    except Exception:
        return False
    H.q[:] = 0.0
    H.c[0] = 1.0
    return True


@implement(begin, BbbMom)
def begin_bbb_mom(rule, prior, state, work):
    """An empty basis; Σ₀⁻¹ is computed anew where it is old, or where dynamics have changed Σ."""
    work.start[:] = state.mu
    inverted = True
    if work.count[AGE] >= RENEWED or rule.moving:
        inverted = renew(state, work.inverse)
        work.count[AGE] = 0
    variances(work.inverse, work.many[1])
    work.size[0] = np.sum(work.many[1]) if inverted else math.inf
    variances(state, work.variance)
    work.count[K] = 0
    work.count[WAIT] = 0
    return OK if inverted else UNSUPPORTED


@implement(step, BbbMom)
def bbb_mom(rule, prior, state, g, G, work):
    """Reference: fc_mom.bbb. Σᵢ = Σ₀ + QᵀeQ, Σᵢ⁻¹ = Σ₀⁻¹ − Zᵀ(Xe)Z, Z = QΣ₀⁻¹."""
    x, delta, d, v, moves, alpha = (
        G[0], work.many[0], work.few[MU], work.few[ROW], work.few[OTHER], rule.alpha
    )
    beta, parallel = multiple(g, x)
    if not (parallel and G.shape[0] == 1 and 0.0 * inner(x, x) == 0.0 and work.size[0] < math.inf):
        return UNSUPPORTED
    n, k = directions(x, work), work.count[K]
    if n < 0:
        return UNSUPPORTED
    change_of_basis(n, work)
    for i in range(len(g)):
        delta[i] = work.start[i] - state.mu[i]
    for i in range(n):
        d[i], v[i] = inner(work.Q[i], delta), inner(work.Q[i], x)
        moves[i] = alpha * work.size[0] * (abs(d[i]) + abs(alpha * beta * v[i]))
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for m in range(k):
                total += work.N[i, m] * work.J[j, m] + work.N[j, m] * work.J[i, m]
            work.D[i, j] = work.D[j, i] = -0.5 * alpha * (0.5 * total + v[i] * v[j])  # bbb-FC-mom-cov, sec:FC-Mom#34
    n = keep(n, moves, NEGLIGIBLE * np.max(np.abs(work.start)), work)
    for i in range(n):
        d[i] = d[work.kept[i]]
    extend(work.inverse, n, work)
    spread = invert(work)
    for i in range(len(g)):
        state.mu[i] += alpha * g[i]  # bbb-FC-mom-mu, sec:FC-Mom#33
    for j in range(n):
        row, weight = work.Z[j], alpha * d[j]
        for i in range(len(row)):
            state.mu[i] += weight * row[i]
    if not not_finite(state.mu) == 0.0:
        return NOT_FINITE
    diagonal(work.e, work.Q, n, 1.0, work.many[1])
    return OK if keeps_digits(spread, work.variance, work.many[1]) else UNSUPPORTED


@implement(end, BbbMom)
def end_bbb_mom(rule, prior, state, work):
    """Σ gains QᵀeQ, its inverse loses Zᵀ(Xe)Z."""
    k = work.count[K]
    variances(work.inverse, work.many[1])
    top = np.max(work.many[1])
    product(work.X, work.e, k, k, k, work.M)
    commit(work.inverse, work.M, work.Z, 1.0, work)
    variances(work.inverse, work.many[1])
    work.count[AGE] = work.count[AGE] + 1 if top <= 2.0 * np.max(work.many[1]) else RENEWED
    commit(state, work.e, work.Q, -1.0, work)
    return OK

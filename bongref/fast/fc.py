r"""Steps of the full-covariance families (sec:FC-Nat, sec:FC-Mom) with few rows S, in compiled
code. Reference: families.fc_nat, fc_mom.

The covariance is kept as Σ = c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ, of A the upper triangle only. A step
with few rows is one product with A for each of them and as many new rows of V; when V is full, A
absorbs them (:func:`flush`). F = γI with a diagonal Q only changes c, q, V. A zero A is not read.

fc_loop.py has blr and bbb, fc_many.py all rules with many rows (mc-ef), on BLAS and LAPACK from
Python. Only Σ itself can tell whether bog in moments has kept it positive definite: Σ shrinks
in every step, so that the check of a state at the end of a time slice is enough, unless dynamics
add to Σ before it.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from ..linalg import is_diagonal
from ..states import FC
from .generic import end, implement, predict, step
from .jit import device, kernel
from .small import add_four, cholesky, copy, inner, not_finite, solve_lower
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED
from .tuning import DEFERRED, EMPTY, LOSS, PARALLEL, SHARP


class State(NamedTuple):
    """N(mu, Σ), Σ = c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ, k < n."""

    mu: Any  # (P,)
    A: Any  # (P, P), the upper triangle
    q: Any  # (P,)
    V: Any  # (capacity, P)
    s: Any  # (capacity,)
    c: Any  # (1,)
    n: Any  # (2,) int64: n, and the order in which the next product goes through the rows of A


class Workspace(NamedTuple):
    """Buffers of the steps with K rows."""

    Z: Any  # (K + 2, P)
    U: Any  # (K + 2, P)
    v: Any  # (P,)
    coefficients: Any  # (capacity,)
    T: Any  # (K + 2, K + 2)
    less: Any  # (P,)
    signed: Any  # (capacity, P): −sₖ Vₖ


Bong = namedtuple("Bong", "alpha")
BongMom = namedtuple("BongMom", "alpha")


class BogMom(NamedTuple):
    alpha: float
    check: bool  # whether Σ is checked at the end of each update, because dynamics add to it


Bog = namedtuple("Bog", "alpha")


# --- Σ --------------------------------------------------------------------------------------------


@device
def symv(A, x, y, backward):
    """y += A x from the upper triangle of A, four rows at a time, in alternating order: the next
    product finds the last rows of the one before in the cache.
    """
    n = len(x)
    whole = n - n % 4
    for k in range(0, whole, 4):
        i = whole - 4 - k if backward else k
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s0 = A[i, i] * x0 + A[i, i + 1] * x1 + A[i, i + 2] * x2 + A[i, i + 3] * x3
        s1 = A[i, i + 1] * x0 + A[i + 1, i + 1] * x1 + A[i + 1, i + 2] * x2 + A[i + 1, i + 3] * x3
        s2 = A[i, i + 2] * x0 + A[i + 1, i + 2] * x1 + A[i + 2, i + 2] * x2 + A[i + 2, i + 3] * x3
        s3 = A[i, i + 3] * x0 + A[i + 1, i + 3] * x1 + A[i + 2, i + 3] * x2 + A[i + 3, i + 3] * x3
        m = i + 4
        a0, a1, a2, a3, xs, ys = A[i, m:], A[i + 1, m:], A[i + 2, m:], A[i + 3, m:], x[m:], y[m:]
        for j in range(n - m):
            xj = xs[j]
            s0 += a0[j] * xj
            s1 += a1[j] * xj
            s2 += a2[j] * xj
            s3 += a3[j] * xj
            ys[j] += a0[j] * x0 + a1[j] * x1 + a2[j] * x2 + a3[j] * x3
        y[i] += s0
        y[i + 1] += s1
        y[i + 2] += s2
        y[i + 3] += s3
    for i in range(whole, n):
        y[i] += A[i, i] * x[i]
        for j in range(i + 1, n):
            y[i] += A[i, j] * x[j]
            y[j] += A[i, j] * x[i]


@device
def times(state, x, y, work):
    """y = Σ x."""
    n, c, P = state.n[0], state.c[0], len(x)
    for i in range(P):
        y[i] = 0.0
    if c != 0.0:
        symv(state.A, x, y, state.n[1] == 1)
        state.n[1] = 1 - state.n[1]
    for i in range(P):
        y[i] = c * y[i] + state.q[i] * x[i]
    if n > 0:
        dots, less = work.coefficients[:n], work.less
        np.dot(state.V[:n], x, dots)
        for k in range(n):
            dots[k] *= state.s[k]
        np.dot(dots, state.V[:n], less)
        for i in range(P):
            y[i] -= less[i]


@device
def flush(state, work):
    """A absorbs c, q and the rows of V, four rows of A and four of V at a time."""
    P, c, n, V, W = len(state.mu), state.c[0], state.n[0], state.V, work.signed
    whole, last = P - P % 4, n + -n % 4
    for k in range(last):
        sign = -state.s[k] if k < n else 0.0
        for i in range(P):
            W[k, i] = sign * V[k, i]
    for i in range(P):
        row = state.A[i, i:]
        if c != 1.0:
            for j in range(len(row)):
                row[j] *= c
        row[0] += state.q[i]
    for i in range(0, whole, 4):
        for k in range(0, last, 4):
            add_four(state.A, i, W.T, V, k, i)
    for i in range(whole, P):
        for k in range(n):
            for j in range(i, P):
                state.A[i, j] += W[k, i] * V[k, j]
    state.q[:] = 0.0
    state.c[0] = 1.0
    state.n[0] = 0


@device
def reserve(state, k, limit, work):
    """The first of k free rows of V; A absorbs the others where they are too many."""
    if state.n[0] + k > (len(state.V) if state.c[0] == 0.0 else max(limit, k)):
        flush(state, work)
    return state.n[0]


@device
def variances(state, out):
    """diag Σ."""
    for i in range(len(out)):
        out[i] = state.c[0] * state.A[i, i] + state.q[i]
    for k in range(state.n[0]):
        row, sign = state.V[k], state.s[k]
        for i in range(len(out)):
            out[i] -= sign * row[i] * row[i]


@kernel
def times_rows(state, rows, out, work):
    """out = rows Σ."""
    for k in range(len(rows)):
        times(state, rows[k], out[k], work)


@kernel
def append(state, rows, signs, work):
    """Σ loses Σₖ signₖ rowₖ rowₖᵀ, deferred."""
    n = reserve(state, len(rows), DEFERRED, work)
    for k in range(len(rows)):
        copy(rows[k], state.V[n + k])
        state.s[n + k] = signs[k]
    state.n[0] = n + len(rows)


variances_alone = kernel(variances)  # called from Python


def diagonal(state: State) -> Any:
    """diag Σ, a new array."""
    out = np.empty(len(state.mu))
    variances_alone(state, out)
    return out


@device
def multiple(g, x):
    """(β, whether g = βx but for rounding)."""
    size, top, off = inner(x, x), 0.0, 0.0
    beta = inner(g, x) / size if size > 0.0 else 0.0
    for i in range(len(x)):
        top = max(top, abs(g[i]))
        off = max(off, abs(g[i] - beta * x[i]))
    return beta, off <= PARALLEL * top and 0.0 * beta == 0.0


# --- BONG -----------------------------------------------------------------------------------------


@device
def take(state, n, rows, K, scale, move):
    """Σ loses the squares of scale · rows, the mean moves; -> status."""
    wrong = 0.0
    for k in range(K):
        row, x = state.V[n + k], rows[k]
        state.s[n + k] = 1.0
        for i in range(len(move)):
            row[i] = scale * x[i]
        wrong += not_finite(row)
    for i in range(len(move)):
        state.mu[i] += move[i]
    state.n[0] = n + K
    return OK if wrong + not_finite(state.mu) == 0.0 else NOT_FINITE


@device
def products(state, rows, work):
    """Z = rows Σ, T = I + rows Σ rowsᵀ (lower triangle)."""
    K = rows.shape[0]
    for k in range(K):
        times(state, rows[k], work.Z[k], work)
        for j in range(k + 1):
            work.T[k, j] = inner(work.Z[k], rows[j])
        work.T[k, k] += 1.0


@implement(step, Bong)
def bong(rule, prior, state, g, G, work):
    """Reference: fc_nat.bong_woodbury. I + SᵀΣS = LLᵀ; Σ loses the squares of rows L⁻¹SᵀΣ."""
    K = G.shape[0]
    n = reserve(state, K, DEFERRED, work)
    products(state, G, work)
    for k in range(K):
        if work.T[k, k] > SHARP:
            return UNSUPPORTED
    beta, parallel = multiple(g, G[0]) if K == 1 else (0.0, False)
    if parallel:
        gain = beta / work.T[0, 0]  # eq:bong-lin-EF-FC-K: Σ_t g without a difference
        for i in range(len(g)):
            work.v[i] = gain * work.Z[0, i]
    else:
        times(state, g, work.v, work)
    if not cholesky(work.T, K):
        return NOT_POSITIVE_DEFINITE if 0.0 * work.T[0, 0] == 0.0 else NOT_FINITE
    solve_lower(work.T, K, work.Z, len(g))
    for k in range(K):
        z, less = work.Z[k], 0.0 if parallel else inner(work.Z[k], g)
        for i in range(len(g)):
            work.v[i] -= less * z[i]
    return take(state, n, work.Z, K, 1.0, work.v)  # eq:bong-FC-prec, sec:lbong-fc#2, eq:bong-FC-mean, sec:lbong-fc#1


@implement(step, BongMom)
def bong_mom(rule, prior, state, g, G, work):
    """Reference: fc_mom.bong_lowrank. Σ stays positive definite exactly if I − SᵀΣS is."""
    K = G.shape[0]
    n = reserve(state, K, DEFERRED, work)
    products(state, G, work)
    beta, parallel = multiple(g, G[0]) if K == 1 else (0.0, False)
    if parallel:
        for i in range(len(g)):
            work.v[i] = beta * work.Z[0, i]
    else:
        times(state, g, work.v, work)
    for k in range(K):
        for j in range(k + 1):
            work.T[k, j] = (2.0 if j == k else 0.0) - work.T[k, j]
    if not cholesky(work.T, K):
        return NOT_POSITIVE_DEFINITE if 0.0 * work.T[0, 0] == 0.0 else NOT_FINITE
    return take(state, n, work.Z, K, 1.0, work.v)  # eq:bong-FC-mom-cov, sec:FC-Mom#22, eq:bong-FC-mom-mu, sec:FC-Mom#21


# --- BOG ------------------------------------------------------------------------------------------


@implement(step, BogMom)
def bog_mom(rule, prior, state, g, G, work):
    """Reference: fc_mom.bog."""
    K, root = G.shape[0], math.sqrt(0.5 * rule.alpha)
    n = reserve(state, K, len(state.V), work)  # no product with Σ reads V
    for i in range(len(g)):
        work.v[i] = rule.alpha * g[i]  # eq:bog-fc-mom-mu, eq:lbog-fc-mom-mu
    return take(state, n, G, K, root, work.v)  # eq:bog-fc-mom-cov, eq:lbog-fc-mom-cov


@implement(step, Bog)
def bog(rule, prior, state, g, G, work):
    """Reference: fc_nat.bog with a single row x and g = βx, by Sherman and Morrison where that
    costs no digits (UNSUPPORTED elsewhere).

    With u = Σx and a = u − βμ: Σ_t⁻¹ = Σ⁻¹ + 2α aaᵀ − 2αβ² μμᵀ. The first term makes Σ' of Σ, the
    second Σ_t of Σ'; μ_t = Σ_t(Σ⁻¹μ + αβu).
    """
    alpha, U, Z, mu = rule.alpha, work.U, work.Z, state.mu
    beta, parallel = multiple(g, G[0])
    if not (parallel and G.shape[0] == 1):
        return UNSUPPORTED
    at = reserve(state, 2, DEFERRED, work)
    times(state, G[0], U[0], work)
    times(state, U[0], Z[0], work)
    times(state, mu, Z[1], work)
    u, a, s, m, v = U[0], U[1], state.V[at], state.V[at + 1], work.v
    for i in range(len(g)):
        a[i], s[i] = u[i] - beta * mu[i], Z[0, i] - beta * Z[1, i]  # s = Σa
    size = 2.0 * alpha * inner(a, s)
    c, along = 2.0 * alpha / (1.0 + size), inner(s, mu)  # Σ' = Σ − c ssᵀ
    for i in range(len(g)):
        m[i] = Z[1, i] - c * along * s[i]  # Σ'μ
    less = 1.0 - 2.0 * alpha * beta * beta * inner(mu, m)
    if not 0.0 < less < math.inf:  # Σ_t⁻¹ is not positive definite
        return UNSUPPORTED
    d, slope = 2.0 * alpha * beta * beta / less, alpha * beta  # Σ_t = Σ' + d mmᵀ
    back = c * (inner(a, mu) + slope * inner(s, u))
    for i in range(len(g)):
        Z[0, i] = mu[i] + slope * Z[0, i] - back * s[i]  # Σ'(Σ⁻¹μ + αβu)
    forth = d * inner(mu, Z[0])
    variances(state, v)
    before, largest, loss = np.max(v), np.max(np.abs(mu)), (1.0 + size) / less
    for i in range(len(g)):
        largest = max(largest, max(abs(back * s[i]), abs(forth * m[i])))
        mu[i] = Z[0, i] + forth * m[i]  # eq:bog-FC-nat-mu, sec:FC-Nat#36
        s[i], m[i] = math.sqrt(c) * s[i], math.sqrt(d) * m[i]  # eq:bog-FC-nat-prec, sec:FC-Nat#37
        v[i] += m[i] * m[i] - s[i] * s[i]
    state.s[at], state.s[at + 1] = 1.0, -1.0
    state.n[0] = at + 2
    kept = loss * before <= LOSS * np.max(v) and loss * largest <= LOSS * np.max(np.abs(mu))
    return OK if kept else UNSUPPORTED


# --- dynamics -------------------------------------------------------------------------------------


class Diagonal(NamedTuple):
    """Dynamics with diagonal F and Q."""

    F: Any  # (P,)
    b: Any  # (P,)
    Q: Any  # (P,)
    uniform: bool  # whether F = γI


class Full(NamedTuple):
    """Dynamics with matrices F and Q."""

    F: Any  # (P, P)
    b: Any  # (P,)
    Q: Any  # (P, P)


@implement(predict, Diagonal)
def predict_diagonal(dynamics, state, work):
    """Reference: dynamics.propagate."""
    F = dynamics.F
    if dynamics.uniform:
        state.c[0] *= F[0] * F[0]
    for i in range(len(F)):
        state.mu[i] = F[i] * state.mu[i] + dynamics.b[i]  # sec:pseudocode#3
        state.q[i] = F[i] * F[i] * state.q[i] + dynamics.Q[i]  # sec:pseudocode#4
        if not dynamics.uniform:
            row, f = state.A[i, i:], F[i:]
            for j in range(len(row)):
                row[j] *= F[i] * f[j]
    for k in range(state.n[0]):
        row = state.V[k]
        for i in range(len(F)):
            row[i] *= F[i]
    return OK


@implement(predict, Full)
def predict_full(dynamics, state, work):
    """Reference: dynamics.propagate."""
    dense(state, work)
    mu = np.dot(dynamics.F, state.mu)
    A = np.dot(np.dot(dynamics.F, state.A), dynamics.F.T)
    for i in range(len(mu)):
        state.mu[i] = mu[i] + dynamics.b[i]  # sec:pseudocode#3
        for j in range(len(mu)):
            state.A[i, j] = A[i, j] + dynamics.Q[i, j]  # sec:pseudocode#4
    return OK if positive(state.A) else UNSUPPORTED


@device
def positive(A):
    """Whether A is positive definite."""
    try:
        np.linalg.cholesky(A)
    except Exception:
        return False
    return True


@device
def mirror(A):
    """The lower triangle = the upper one, by tiles that fit into the cache."""
    n, tile = len(A), 32
    for i0 in range(0, n, tile):
        for j0 in range(i0, n, tile):
            for i in range(i0, min(i0 + tile, n)):
                for j in range(max(i + 1, j0), min(j0 + tile, n)):
                    A[j, i] = A[i, j]


# --- the state of a stream ------------------------------------------------------------------------


@device
def dense(state, work):
    """A = Σ, both triangles."""
    flush(state, work)
    mirror(state.A)


dense_alone = kernel(dense)  # called from Python


@implement(end, BogMom)
def end_bog_mom(rule, prior, state, work):
    """Whether Σ is positive definite, where dynamics would hide that it is not."""
    if not rule.check:
        return OK
    dense(state, work)
    return OK if positive(state.A) else NOT_POSITIVE_DEFINITE


def covariance_state(state: FC, capacity: int) -> State:
    """The deferred form of a state, with at least so many rows of V."""
    P = len(state.mu)
    empty = is_diagonal(state.Sigma)
    capacity = max(capacity, DEFERRED, min(P // 3, EMPTY) if empty else 0)
    capacity += -capacity % 4  # see flush
    A = np.zeros((P, P)) if empty else np.array(state.Sigma, dtype=float, order="C")
    q = np.diagonal(state.Sigma).astype(float) if empty else np.zeros(P)
    mu, V = np.array(state.mu, dtype=float), np.zeros((capacity, P))
    c = np.array([0.0 if empty else 1.0])
    return State(mu, A, q, V, np.ones(capacity), c, np.zeros(2, np.int64))


def workspace(P: int, K: int, capacity: int) -> Workspace:
    """Buffers for steps with K rows."""
    n = K + 2
    Z, U, T = np.zeros((n, P)), np.zeros((n, P)), np.zeros((n, n))
    return Workspace(Z, U, np.zeros(P), np.zeros(capacity), T, np.zeros(P), np.zeros((capacity, P)))


def finish_few(state: State, work: Any) -> FC:
    """A copy of the state; what was deferred stays so."""
    changed = {name: getattr(state, name).copy() for name in ("mu", "A", "q", "c", "n")}
    copy = state._replace(**changed)
    dense_alone(copy, work)
    return FC(copy.mu, copy.A)

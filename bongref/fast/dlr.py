r"""DLR steps (sec:DLR-deriv) in compiled code, for G = −S Sᵀ. Reference: bongref.families.dlr.

W and S are kept by rows, Wt = Wᵀ (R, P) and rows = Sᵀ (K, P), so that every loop over the parameters has unit stride. A step reads
the parameters twice, in blocks that stay in the second-level cache: once for the small matrices (Gram matrices, some of them with
weights 1/Υ), once for the new state, written in place. All tall products are BLAS on one block.

bong and blr project Υ̃ + W̃W̃ᵀ, W̃ = Xᵀ with the rows X (n, P), to rank R. The eigenvectors of X Xᵀ give the new rows V X; what
rounding has done to that product is measured on X itself, as the inner products of the kept with the discarded rows, and corrected.
Where the correction is not small, V is from the SVD of the triangular factor of W̃ (Householder steps).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..states import DLR
from .generic import begin, end, implement, place, predict, step
from .jit import device
from .small import EPS, add_dot, block, cholesky, dot, fill, inner, not_finite, solve, solve_lower, solve_vector, triangle
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED

LARGE, SMALL = 1e140, 1e-140  # of the rows of X: squares and their sums stay in the range of float64
BLOCK = 2**15  # numbers of a block: two of them in 512 KB
SAMPLES = 8  # samples that are placed together


class State(NamedTuple):
    """N(mu, (Diag(Ups) + W Wᵀ)⁻¹)."""

    mu: Any  # (P,)
    Ups: Any  # (P,)
    Wt: Any  # (R, P)


class Bong(NamedTuple):
    alpha: float  # 1


class Blr(NamedTuple):
    alpha: float


class Bog(NamedTuple):
    alpha: float


class Bbb(NamedTuple):
    alpha: float


class Noise(NamedTuple):
    """What :func:`place` needs: θ = μ + Υ^{-1/2}(z − A F Aᵀz) with A = Υ^{-1/2}W."""

    root: Any  # (P,): Υ^{-1/2}
    At: Any  # (R, P): A by rows
    F: Any  # (R, R)
    S: Any  # (SAMPLES, R): coefficients of some samples
    SF: Any  # (SAMPLES, R)
    change: Any  # flat (SAMPLES · P)


class Projection(NamedTuple):
    """Workspace of bong and blr with n rows in X. Flat buffers are blocks of n + 1 rows of ``width`` columns."""

    x: Any  # flat: X
    y: Any  # flat: X Υ̃⁻¹, then V X
    u: Any  # (width,)
    G: Any  # (n, n): X Xᵀ
    H: Any  # (n + 1, n + 1): [X; r] Υ̃⁻¹ [X; r]ᵀ, then a Cholesky factor
    V: Any  # (n, n): the new rows are V X
    d: Any  # (n,): eigenvalues of G, descending
    c: Any  # (n,): coefficients of the mean
    W0d: Any  # (R,): W₀ᵀ(μ₀ − μ)
    C: Any  # flat (n · n)
    D: Any  # flat (n · n)
    small: Any  # flat ((n + 1)²)
    width: int
    noise: Noise


class Gradient(NamedTuple):
    """Workspace of bog and bbb, N = K rows in S and for bbb R more in W₀. Flat buffers are blocks of ``width`` columns."""

    x: Any  # flat: the rows of W, W₀ and S
    y: Any  # flat: Υ⁻¹W
    z: Any  # flat: ΣW
    e: Any  # flat: N ΣW, then the change of W
    s: Any  # flat: Σ[W₀, S]
    u: Any  # (width,): 1/Υ
    a: Any  # (width,): Υ₀ − Υ
    M: Any  # (R, R): WᵀΥ⁻¹W, then a Cholesky factor
    E: Any  # (R, R): (I + WᵀΥ⁻¹W)⁻¹
    N: Any  # (R, R): WᵀΥ⁻¹ Diag(a) Υ⁻¹W
    C: Any  # (R, N): WᵀΥ⁻¹[W₀, S]
    EC: Any  # (R, N)
    K: Any  # (R, R): E N + WᵀΣW
    W0d: Any  # (R,): W₀ᵀ(μ₀ − μ)
    small: Any  # flat (R · (R + N))
    width: int
    noise: Noise


def workspace(P: int, R: int, K: int, rule: str, samples: bool = False) -> Projection | Gradient:
    """Buffers for the steps of a rule with K rows, and with ``samples`` for :func:`place`."""
    n = {"bong": R + K, "blr": 2 * R + K, "bog": K, "bbb": R + K}[rule]
    Q = P if samples else 0
    noise = Noise(np.zeros(Q), np.zeros((R, Q)), np.zeros((R, R)), np.zeros((SAMPLES, R)), np.zeros((SAMPLES, R)), np.zeros(SAMPLES * Q))
    width = min(P, max(16, BLOCK // (R + n + 1) // 16 * 16))
    if rule in ("bong", "blr"):
        x, y = (np.zeros((n + 1) * width) for _ in range(2))
        squares = np.zeros((n, n)), np.zeros((n + 1, n + 1)), np.zeros((n, n))
        flat = np.zeros(n * n), np.zeros(n * n), np.zeros((n + 1) * (n + 1))
        return Projection(x, y, np.zeros(width), *squares, np.zeros(n), np.zeros(n), np.zeros(R), *flat, width, noise)
    x, y, z, e, s = (np.zeros(rows * width) for rows in (R + n, R, R, R, n))
    squares = *(np.zeros((R, R)) for _ in range(3)), np.zeros((R, n)), np.zeros((R, n)), np.zeros((R, R))
    return Gradient(x, y, z, e, s, np.zeros(width), np.zeros(width), *squares, np.zeros(R), np.zeros(R * (R + n)), width, noise)


# --- blocks --------------------------------------------------------------------------------------------------------------------


@device
def load(A, scale, at, X, n):
    """Rows of the block X from n on = scale · A in the columns from ``at``; the number of rows then."""
    w = X.shape[1]
    for r in range(A.shape[0]):
        x, a = X[n + r], A[r, at : at + w]
        for p in range(w):
            x[p] = scale * a[p]
    return n + A.shape[0]


@device
def weigh(X, n, u, Y):
    """Y = X Diag(u), the first n rows."""
    for i in range(n):
        x, y = X[i], Y[i]
        for p in range(len(x)):
            y[p] = u[p] * x[p]


@device
def inverse(Ups, at, w, u):
    """u = 1/Υ in a block; how many Υ are not positive."""
    x, below = Ups[at : at + w], 0
    for p in range(w):
        u[p] = 1.0 / x[p]
        below += 0 if x[p] > 0.0 else 1
    return below


# --- the SVD projection --------------------------------------------------------------------------------------------------------


@device
def load_rows(prior, state, rows, alpha, at, X):
    """A block of X: the rows of W̃ = [W, S] (bong, no prior) or [√(1−α) W, √α W₀, √α S] (blr)."""
    if prior.Wt.shape[0] == 0:
        return load(rows, 1.0, at, X, load(state.Wt, 1.0, at, X, 0))  # eq:bong-dlr-Wtilde, sec:DLR-deriv#28
    n = load(prior.Wt, math.sqrt(alpha), at, X, load(state.Wt, math.sqrt(1.0 - alpha), at, X, 0))
    return load(rows, math.sqrt(alpha), at, X, n)  # eq:blr-dlr-Wtilde, sec:LBLR-DLR#5


@device
def directions(prior, state, rows, alpha, work):
    """V = Uᵀ of the SVD T = U Λ Qᵀ of the triangular factor of X, X = T · (orthonormal rows). Reference: linalg.svd."""
    n, P = work.V.shape[0], len(state.mu)
    T = np.zeros((n, n))
    for at in range(0, P, work.width):
        X = block(work.x, n, min(work.width, P - at))
        load_rows(prior, state, rows, alpha, at, X)
        triangle(X, T)
    U, _, _ = np.linalg.svd(T)
    for i in range(n):
        for j in range(n):
            work.V[i, j] = U[j, i]


@device
def project(prior, state, rows, alpha, work):
    """The rows V of the projection, kept ones first, from G = X Xᵀ; -> status. Reference: dlr.project."""
    n, R, top = work.V.shape[0], state.Wt.shape[0], 0.0
    for i in range(n):
        size = work.G[i, i]
        if not (size == 0.0 or SMALL * SMALL < size < LARGE * LARGE):
            return UNSUPPORTED
        top = max(top, size)
    values, vectors = np.linalg.eigh(work.G)
    for k in range(n):
        work.d[k] = max(values[n - 1 - k], 0.0)
        for i in range(n):
            work.V[k, i] = vectors[i, n - 1 - k]
    if top == 0.0 or math.sqrt(work.d[0]) < 8.0 * (math.sqrt(work.d[R - 1]) + math.sqrt(work.d[R])):
        return OK
    for _ in range(3):
        angle = correct(prior, state, rows, alpha, work)
        if angle < 2.0**-26:
            return OK
        if not angle < 1e-3:
            break
        orthonormal(work.V)
    directions(prior, state, rows, alpha, work)
    return OK


@device
def correct(prior, state, rows, alpha, work):
    """Rotates the kept against the discarded rows of V by what V X Xᵀ Vᵀ has between them; the largest angle.

    Only the smaller set of the two, ``few``, is multiplied with X.
    """
    n, P, R = work.V.shape[0], len(state.mu), state.Wt.shape[0]
    few, first = (n - R, R) if n - R <= R else (R, 0)
    other, start = n - few, few if first == 0 else 0
    C, D = block(work.C, few, n), block(work.D, few, other)
    fill(C, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y = block(work.x, n, w), block(work.y, few, w)
        if P > work.width:
            load_rows(prior, state, rows, alpha, at, X)
        dot(work.V[first : first + few], X, Y)
        add_dot(Y, X.T, C, work.small)
    dot(C, work.V[start : start + other].T, D)
    top, largest = math.sqrt(work.d[0]), 0.0
    for a in range(few):
        size = math.sqrt(max(inner(C[a], work.V[first + a]), 0.0))
        for b in range(other):
            gap = work.d[start + b] - size * size if first > 0 else size * size - work.d[start + b]
            other_size = math.sqrt(work.d[start + b])
            if abs(D[a, b]) <= 8.0 * EPS * top * min(size, other_size) or max(size, other_size) <= n * EPS * top:
                D[a, b] = 0.0
            else:
                D[a, b] = D[a, b] / gap if gap > 0.0 else math.inf
            largest = max(largest, abs(D[a, b]))
    if largest < 1e-3:
        rotate(work.V, first, few, start, other, D)
    return largest


@device
def rotate(V, first, few, start, other, D):
    """Both sets of rows of V rotated by the small angles D (few, other); where the first set is the discarded one it loses."""
    sign = -1.0 if first > 0 else 1.0
    for a in range(few):
        for b in range(other):
            angle = sign * D[a, b]
            if angle != 0.0:
                x, y = V[first + a], V[start + b]
                for i in range(len(x)):
                    x[i], y[i] = x[i] + angle * y[i], y[i] - angle * x[i]


@device
def orthonormal(V):
    """The rows of V, orthonormal but for second order, made so."""
    for i in range(V.shape[0]):
        for k in range(i):
            h = inner(V[i], V[k])
            for j in range(V.shape[1]):
                V[i, j] -= h * V[k, j]
        size = math.sqrt(inner(V[i], V[i]))
        for j in range(V.shape[1]):
            V[i, j] /= size


# --- BONG, BLR -----------------------------------------------------------------------------------------------------------------


@device
def right_side(prior, state, g, at, out):
    """A block of the right-hand side of the mean without W₀W₀ᵀδ, δ = μ₀ − μ: g (bong) or Υ₀δ + g (blr)."""
    w = len(out)
    for p in range(w):
        out[p] = g[at + p]
    if prior.Wt.shape[0] > 0:
        m0, m, u0 = prior.mu[at : at + w], state.mu[at : at + w], prior.Ups[at : at + w]
        for p in range(w):
            out[p] += u0[p] * (m0[p] - m[p])


@device
def measure(prior, state, g, rows, alpha, work):
    """G = X Xᵀ, H = [X; r] Υ̃⁻¹ [X; r]ᵀ with r of :func:`right_side`, d = W₀δ, and for blr Υ̃ in place of Υ; how many Υ̃ are not > 0."""
    P, n, R0, below = len(state.mu), work.V.shape[0], prior.Wt.shape[0], 0
    fill(work.G, 0.0)
    fill(work.H, 0.0)
    work.W0d[:] = 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y, u = block(work.x, n + 1, w), block(work.y, n + 1, w), work.u[:w]
        if R0 > 0:
            now, before, m0, m = state.Ups[at : at + w], prior.Ups[at : at + w], prior.mu[at : at + w], state.mu[at : at + w]
            for p in range(w):
                now[p] = (1.0 - alpha) * now[p] + alpha * before[p]  # eq:blr-dlr-UpsTilde, sec:LBLR-DLR#7
                u[p] = m0[p] - m[p]
            for r in range(R0):
                work.W0d[r] += inner(prior.Wt[r, at : at + w], u)
        load_rows(prior, state, rows, alpha, at, X)
        right_side(prior, state, g, at, X[n])
        below += inverse(state.Ups, at, w, u)
        weigh(X, n + 1, u, Y)
        add_dot(Y, X.T, work.H, work.small)
        add_dot(X[:n], X[:n].T, work.G, work.small)
    return below


@device
def mean_coefficients(prior, R, alpha, work):
    """c with μ += α Υ̃⁻¹(r + Xᵀc): (Υ̃ + W̃W̃ᵀ)⁻¹ by Woodbury applied to r + W₀ᵀd; -> status."""
    n, R0, root, c = work.V.shape[0], prior.Wt.shape[0], math.sqrt(alpha), work.c
    for r in range(R0):
        work.W0d[r] /= root
    for i in range(n):
        total = work.H[i, n]
        for r in range(R0):
            total += work.H[i, R + r] * work.W0d[r]
        c[i] = total
    if not not_finite(c[:n]) == 0.0:
        return NOT_FINITE
    for i in range(n):
        work.H[i, i] += 1.0
    if not cholesky(work.H, n):
        return NOT_POSITIVE_DEFINITE
    solve_vector(work.H, n, c)
    for i in range(n):
        c[i] = -c[i]
    for r in range(R0):
        c[R + r] += work.W0d[r]
    return OK


@device
def settle(prior, state, g, rows, alpha, work):
    """The new state from the rows V X and the coefficients c; -> status."""
    P, n, R, wrong = len(state.mu), work.V.shape[0], state.Wt.shape[0], 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Z, r = block(work.x, n + 1, w), block(work.y, n, w), work.u[:w]
        if P > work.width:
            load_rows(prior, state, rows, alpha, at, X)
        right_side(prior, state, g, at, r)
        mu, Ups = state.mu[at : at + w], state.Ups[at : at + w]
        for i in range(n):
            x, c = X[i], work.c[i]
            for p in range(w):
                r[p] += c * x[p]
        for p in range(w):
            mu[p] += alpha * r[p] / Ups[p]  # eq:bong-dlr-mu, sec:DLR-deriv#24, eq:blr-dlr-mu, sec:LBLR-DLR#1
            wrong += 0.0 * mu[p]
        dot(work.V, X[:n], Z)
        for k in range(R, n):
            z = Z[k]
            for p in range(w):
                Ups[p] += z[p] * z[p]  # sec:DLR-deriv#14, eq:bong-dlr-Ups, eq:blr-dlr-Ups, sec:LBLR-DLR#3
        wrong += not_finite(Ups)
        for k in range(R):
            new, z = state.Wt[k, at : at + w], Z[k]
            for p in range(w):
                new[p] = z[p]  # sec:DLR-deriv#13, eq:bong-dlr-W, eq:blr-dlr-W, sec:LBLR-DLR#2
    return OK if wrong == 0.0 else NOT_FINITE


@device
def absorb(prior, state, g, rows, alpha, work):
    """μ += α (Υ̃ + W̃W̃ᵀ)⁻¹(right-hand side), then Υ̃ + W̃W̃ᵀ projected to rank R; -> status."""
    if measure(prior, state, g, rows, alpha, work) > 0:
        return UNSUPPORTED
    code = mean_coefficients(prior, state.Wt.shape[0], alpha, work)
    if code == OK:
        code = project(prior, state, rows, alpha, work)
    if code == OK:
        code = settle(prior, state, g, rows, alpha, work)
    return code


@implement(step, Bong)
def bong(rule, prior, state, g, G, work):
    """Reference: dlr.bong_woodbury. ``prior`` has no rows in Wt."""
    return absorb(prior, state, g, G, 1.0, work)


@implement(step, Blr)
def blr(rule, prior, state, g, G, work):
    """Reference: dlr.blr_woodbury."""
    if not rule.alpha <= 1.0:
        return UNSUPPORTED
    return absorb(prior, state, g, G, rule.alpha, work)


# --- BOG -----------------------------------------------------------------------------------------------------------------------


@device
def invert(R, work):
    """E = (I + M)⁻¹, M becomes its Cholesky factor; -> status."""
    for r in range(R):
        if work.M[r, r] > 1e12:  # rounding decides whether the next Υ is positive
            return UNSUPPORTED
        work.M[r, r] += 1.0
        for k in range(R):
            work.E[r, k] = 1.0 if r == k else 0.0
    if not cholesky(work.M, R):
        return NOT_POSITIVE_DEFINITE
    solve(work.M, R, work.E, R)
    return OK


@device
def bog_block(state, g, rows, alpha, at, w, work):
    """A block of the new state of bog; 0 if it is finite."""
    R, K = state.Wt.shape[0], rows.shape[0]
    X, B, Z, u = block(work.x, R + K, w), block(work.s, K, w), block(work.e, R, w), work.u[:w]
    mu, Ups, more = state.mu[at : at + w], state.Ups[at : at + w], g[at : at + w]
    dot(work.EC.T, X[:R], B)
    for k in range(K):
        b, s = B[k], X[R + k]
        for p in range(w):
            b[p] = u[p] * (s[p] - b[p])  # eq:bog-dlr-B, sec:DLR-deriv#39
            Ups[p] += 0.5 * alpha * b[p] * b[p]  # eq:bog-dlr-Ups, sec:DLR-deriv#37
    dot(work.EC, B, Z)
    for p in range(w):
        mu[p] += alpha * more[p]  # eq:bog-dlr-mu, sec:DLR-deriv#36
    for r in range(R):
        new, z = state.Wt[r, at : at + w], Z[r]
        for p in range(w):
            new[p] += alpha * z[p]  # eq:bog-dlr-W, sec:DLR-deriv#38
    return not_finite(mu) + not_finite(Ups)


@implement(step, Bog)
def bog(rule, prior, state, g, G, work):
    """Reference: dlr.bog_woodbury, with WᵀB = (I + WᵀΥ⁻¹W)⁻¹ WᵀΥ⁻¹S."""
    P, R, K, wrong, below = len(state.mu), state.Wt.shape[0], G.shape[0], 0.0, 0
    fill(work.M, 0.0)
    fill(work.C, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, A, u = block(work.x, R + K, w), block(work.y, R, w), work.u[:w]
        load(G, 1.0, at, X, load(state.Wt, 1.0, at, X, 0))
        below += inverse(state.Ups, at, w, u)
        weigh(X, R, u, A)
        add_dot(A, X[:R].T, work.M, work.small)
        add_dot(A, X[R:].T, work.C, work.small)
    if below > 0:
        return UNSUPPORTED
    code = invert(R, work)
    if code != OK:
        return code
    dot(work.E, work.C, work.EC)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        if P > work.width:
            X = block(work.x, R + K, w)
            load(G, 1.0, at, X, load(state.Wt, 1.0, at, X, 0))
            inverse(state.Ups, at, w, work.u)
        wrong += bog_block(state, g, G, rule.alpha, at, w, work)
    return OK if wrong == 0.0 and np.isfinite(work.EC).all() else NOT_FINITE


# --- BBB -----------------------------------------------------------------------------------------------------------------------


@device
def bbb_load(prior, state, rows, at, w, work):
    """A block of X = [W, W₀, S] by rows, A = Υ⁻¹W, u = 1/Υ and a = Υ₀ − Υ; how many Υ are not positive."""
    R = state.Wt.shape[0]
    X, A, u, a = block(work.x, 2 * R + rows.shape[0], w), block(work.y, R, w), work.u[:w], work.a[:w]
    load(rows, 1.0, at, X, load(prior.Wt, 1.0, at, X, load(state.Wt, 1.0, at, X, 0)))
    below = inverse(state.Ups, at, w, u)
    weigh(X, R, u, A)
    old, now = prior.Ups[at : at + w], state.Ups[at : at + w]
    for p in range(w):
        a[p] = old[p] - now[p]
    return below


@device
def bbb_measure(prior, state, rows, work):
    """M, N, C and W₀ᵀ(μ₀ − μ) of the workspace; how many Υ are not positive."""
    P, R, below = len(state.mu), state.Wt.shape[0], 0
    fill(work.M, 0.0)
    fill(work.N, 0.0)
    fill(work.C, 0.0)
    work.W0d[:] = 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        below += bbb_load(prior, state, rows, at, w, work)
        X, A, B, delta = block(work.x, 2 * R + rows.shape[0], w), block(work.y, R, w), block(work.z, R, w), work.e[:w]
        add_dot(A, X[:R].T, work.M, work.small)
        add_dot(A, X[R:].T, work.C, work.small)
        weigh(A, R, work.a[:w], B)
        add_dot(A, B.T, work.N, work.small)
        m0, m = prior.mu[at : at + w], state.mu[at : at + w]
        for p in range(w):
            delta[p] = m0[p] - m[p]
        for r in range(R):
            work.W0d[r] += inner(X[R + r], delta)
    return below


@device
def bbb_curvature(w, n, half, Ups, work):
    """A block of Υ gains half α diag Σ(Diag(a) + W₀W₀ᵀ − WWᵀ + SSᵀ)Σ, with N ΣW in ``e`` and Σ[W₀, S] in ``s``."""
    R, u, a = work.M.shape[0], work.u[:w], work.a[:w]
    A, Z, NZ, SX = block(work.y, R, w), block(work.z, R, w), block(work.e, R, w), block(work.s, n, w)
    for p in range(w):
        Ups[p] += half * a[p] * u[p] * u[p]  # eq:bbb-dlr-Ups, sec:DLR-deriv#41
    for r in range(R):
        z, x, y = Z[r], A[r], NZ[r]
        for p in range(w):
            Ups[p] += half * z[p] * (y[p] - z[p] - 2.0 * a[p] * u[p] * x[p])
    for k in range(n):
        s = SX[k]
        for p in range(w):
            Ups[p] += half * s[p] * s[p]


@device
def bbb_block(prior, state, g, n, alpha, at, w, work):
    """A block of the new state of bbb; 0 if it is finite."""
    R = state.Wt.shape[0]
    X, A, Z, e, SX = block(work.x, R + n, w), block(work.y, R, w), block(work.z, R, w), block(work.e, R, w), block(work.s, n, w)
    u, a, mu, Ups = work.u[:w], work.a[:w], state.mu[at : at + w], state.Ups[at : at + w]
    m0, u0, more = prior.mu[at : at + w], prior.Ups[at : at + w], g[at : at + w]
    for p in range(w):
        mu[p] += alpha * (u0[p] * (m0[p] - mu[p]) + more[p])  # eq:bbb-dlr-mu, sec:DLR-deriv#40
    for r in range(R):
        row, c = X[R + r], alpha * work.W0d[r]
        for p in range(w):
            mu[p] += c * row[p]
    dot(work.E, A, Z)
    dot(work.C.T, Z, SX)
    for k in range(n):
        s, x = SX[k], X[R + k]
        for p in range(w):
            s[p] = u[p] * x[p] - s[p]
    dot(work.N, Z, e)
    bbb_curvature(w, n, 0.5 * alpha, Ups, work)
    for r in range(R):
        new, z = state.Wt[r, at : at + w], Z[r]
        for p in range(w):
            new[p] += alpha * u[p] * a[p] * z[p]  # eq:bbb-dlr-W, sec:DLR-deriv#42
    dot(work.K, Z, e)
    for r in range(R):
        new, y = state.Wt[r, at : at + w], e[r]
        for p in range(w):
            new[p] -= alpha * y[p]
    dot(work.EC, SX, e)
    wrong = not_finite(mu) + not_finite(Ups)
    for r in range(R):
        new, y = state.Wt[r, at : at + w], e[r]
        for p in range(w):
            new[p] += alpha * y[p]
            wrong += 0.0 * new[p]
    return wrong


@implement(step, Bbb)
def bbb(rule, prior, state, g, G, work):
    """Reference: dlr.bbb_woodbury.

    With A = Υ⁻¹W, E = (I + WᵀA)⁻¹, a = Υ₀ − Υ and N = Aᵀ Diag(a) A: ΣW = AE, ΣX = Υ⁻¹X − ΣW C with C = AᵀX for X = [W₀, S],
    WᵀΣX = EC, WᵀΣW = I − E, and Σ Diag(a) ΣW = aΥ⁻¹ ΣW − ΣW N E (eq:bbb-dlr-Woodbury).
    """
    P, R, wrong = len(state.mu), state.Wt.shape[0], 0.0
    n = R + G.shape[0]
    if bbb_measure(prior, state, G, work) > 0:
        return UNSUPPORTED
    code = invert(R, work)
    if code != OK:
        return code
    dot(work.E, work.N, work.K)
    for r in range(R):
        for k in range(R):
            work.K[r, k] += (1.0 if r == k else 0.0) - work.E[r, k]
    dot(work.E, work.C, work.EC)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        if P > work.width:
            bbb_load(prior, state, G, at, w, work)
        wrong += bbb_block(prior, state, g, n, rule.alpha, at, w, work)
    return OK if wrong == 0.0 else NOT_FINITE


# --- samples, dynamics, and the state of a stream --------------------------------------------------------------------------------


@device
def noise_matrix(state, noise):
    """``root``, A and F of :class:`Noise`: with A = Q Λ Vᵀ, F = V D Vᵀ, D = 1/(h + h²), h = √(1 + Λ²). Reference: gaussians.draw.

    The eigenvectors of AᵀA serve where Λ is small; elsewhere the SVD of the triangular factor of A keeps the digits of small Λ.
    """
    R, F = state.Wt.shape[0], noise.F
    for p in range(len(noise.root)):
        noise.root[p] = 1.0 / math.sqrt(state.Ups[p])
    weigh(state.Wt, R, noise.root, noise.At)
    dot(noise.At, noise.At.T, F)
    trace = 0.0
    for r in range(R):
        trace += F[r, r]
    if not trace < math.inf:
        return NOT_FINITE
    if trace < 64.0:
        squares, V = np.linalg.eigh(F)
    else:
        T = np.zeros((R, R))
        triangle(noise.At.copy(), T)
        V, sizes, _ = np.linalg.svd(T)
        squares = sizes * sizes
    for i in range(R):
        for k in range(R):
            F[i, k] = 0.0
            for r in range(R):
                h = math.sqrt(1.0 + max(squares[r], 0.0))
                F[i, k] += V[i, r] * V[k, r] / (h + h * h)
    return OK


@implement(place, Bong, Blr, Bog, Bbb)
def place_dlr(rule, prior, state, z, work):
    """Reference: gaussians.place."""
    noise, R, P = work.noise, state.Wt.shape[0], len(state.mu)
    for p in range(P):
        if not state.Ups[p] > 0.0:
            return UNSUPPORTED
    code = noise_matrix(state, noise)
    if code != OK:
        return code
    for first in range(0, z.shape[0], SAMPLES):
        some = z[first : first + SAMPLES]
        m = some.shape[0]
        S, SF, change = block(noise.S.reshape(-1), m, R), block(noise.SF.reshape(-1), m, R), block(noise.change, m, P)
        dot(some, noise.At.T, S)
        dot(S, noise.F, SF)
        dot(SF, noise.At, change)
        for k in range(m):
            theta, less = some[k], change[k]
            for p in range(P):
                theta[p] = state.mu[p] + (theta[p] - less[p]) * noise.root[p]
    return OK


class Linear(NamedTuple):
    """Dynamics with diagonal F and Q."""

    F: Any  # (P,)
    b: Any  # (P,)
    Q: Any  # (P,)


@implement(predict, Linear)
def predict_dlr(dynamics, state, work):
    """Reference: dynamics.propagate: n = F² + QΥ, Υ' = Υ/n, W' = L⁻¹(F W/n), L Lᵀ = I + Wᵀ(Q/n)W."""
    P, R, some, wrong, E, f, q = len(state.mu), state.Wt.shape[0], 0, 0.0, work.noise.F, dynamics.F, dynamics.Q
    fill(E, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y, u = block(work.x, R, w), block(work.y, R, w), work.u[:w]
        for p in range(w):
            n = f[at + p] * f[at + p] + q[at + p] * state.Ups[at + p]
            u[p] = q[at + p] / n
            some += 0 if f[at + p] == 0.0 else 1
            wrong += 0.0 if n > 0.0 and state.Ups[at + p] > 0.0 else 1.0
        load(state.Wt, 1.0, at, X, 0)
        weigh(X, R, u, Y)
        add_dot(X, Y.T, E, work.small)
    for r in range(R):
        E[r, r] += 1.0
    if wrong != 0.0 or some == 0 or not cholesky(E, R):
        return UNSUPPORTED
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X = block(work.x, R, w)
        mu, Ups = state.mu[at : at + w], state.Ups[at : at + w]
        for p in range(w):
            n = f[at + p] * f[at + p] + q[at + p] * Ups[p]
            mu[p] = f[at + p] * mu[p] + dynamics.b[at + p]  # sec:pseudocode#3
            Ups[p] /= n  # sec:pseudocode#4
            work.u[p] = f[at + p] / n
        load(state.Wt, 1.0, at, X, 0)
        weigh(X, R, work.u, X)
        solve_lower(E, R, X, w)
        for r in range(R):
            new, x = state.Wt[r, at : at + w], X[r]
            for p in range(w):
                new[p] = x[p]
        wrong += not_finite(mu) + not_finite(Ups)
    return OK if wrong == 0.0 else NOT_FINITE


@implement(begin, Bong, Bog)
def begin_once(rule, prior, state, work):
    """Bong and bog start at the prior, which ``state`` holds."""
    return OK


@implement(begin, Blr, Bbb)
def begin_loop(rule, prior, state, work):
    """The prior of the inner loop."""
    prior.mu[:] = state.mu
    prior.Ups[:] = state.Ups
    prior.Wt[:] = state.Wt
    return OK


@implement(end, Bong, Blr, Bog, Bbb)
def end_dlr(rule, prior, state, work):
    """Every step has written its state."""
    return OK


RULES = {"bong": Bong, "blr": Blr, "bog": Bog, "bbb": Bbb}


def start(rule: str, alpha: float, state: DLR, K: int, samples: bool = False) -> tuple[Any, State, State, Any]:
    """(rule, prior, state, workspace) of a stream that begins at ``state``, with K rows in each step."""
    P, R = state.W.shape
    now = State(np.array(state.mu, dtype=float), np.array(state.Ups, dtype=float), np.array(np.transpose(state.W), dtype=float, order="C"))
    loop = rule in ("blr", "bbb")
    prior = State(np.zeros(P if loop else 0), np.zeros(P if loop else 0), np.zeros((R if loop else 0, P)))
    return RULES[rule](float(alpha)), prior, now, workspace(P, R, K, rule, samples)


def finish(rule: Any, state: State, work: Any) -> DLR:
    """A copy of the state."""
    return DLR(state.mu.copy(), state.Ups.copy(), state.Wt.T.copy())

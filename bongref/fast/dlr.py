r"""DLR steps (sec:DLR-deriv) in compiled code, for G = −S Sᵀ. Reference: bongref.families.dlr.

W and S are kept by rows, Wt = Wᵀ (R, P) and rows = Sᵀ (K, P), so that every loop over the parameters has unit stride. A step reads
the parameters twice, in blocks that stay in the second-level cache: once for the small matrices (Gram matrices, some of them with
weights 1/Υ), once for the new state, written in place. All tall products are BLAS on one block.

bong and blr project Υ̃ + W̃W̃ᵀ, W̃ = Xᵀ with the rows X (n, P), to rank R. The eigenvectors of X Xᵀ give the new rows V X; what
rounding has done to that product is measured on X itself, as the inner products of the kept with the discarded rows, and corrected.
Where the correction is not small, the reference takes the step (UNSUPPORTED).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..states import DLR
from .generic import begin, end, implement, place, predict, step
from .jit import device, inlined
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


class Workspace(NamedTuple):
    """Buffers of a step, in few arrays, because Numba compiles a tuple of many slowly. n is the number of rows in X."""

    blocks: Any  # (4, (n + 1) · width): see X_, …; :func:`small.block` gives them their shape
    small: Any  # (8, (n + 1)²): small matrices, see GRAM, …
    few: Any  # (3, max(n + 1, width)): vectors, see VALUES, …
    tall: Any  # (1 + R + SAMPLES, P) with samples: Υ^{-1/2}, Υ^{-1/2}W by rows, changes of SAMPLES samples
    width: int


X_, Y_, Z_, E_ = range(4)  # of Workspace.blocks
GRAM, WEIGHTED, ROWS, CROSS, ANGLES, SPARE, NOISE, EXTRA = range(8)  # of Workspace.small
VALUES, DOTS, U_, A_ = range(4)  # of Workspace.few


def workspace(P: int, R: int, K: int, rule: str, samples: bool = False) -> Workspace:
    """Buffers for the steps of a rule with K rows, and with ``samples`` for :func:`place_dlr`."""
    n = R + K if rule in ("bong", "bog") else 2 * R + K
    width = min(P, max(16, BLOCK // (n + 1) // 16 * 16))
    side, tall = max(n + 1, SAMPLES), np.zeros((1 + R + SAMPLES if samples else 0, P))
    return Workspace(np.zeros((4, (n + 1) * width)), np.zeros((8, side * side)), np.zeros((4, max(n + 1, width))), tall, width)


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
def inverse(Ups, at, u):
    """u = 1/Υ in a block; how many Υ are not positive."""
    w, below = len(u), 0
    x = Ups[at : at + w]
    for p in range(w):
        u[p] = 1.0 / x[p]
        below += 0 if x[p] > 0.0 else 1
    return below


# --- the SVD projection --------------------------------------------------------------------------------------------------------


@inlined
def load_rows(prior, state, rows, alpha, at, X):
    """A block of X: the rows of W̃ = [W, S] (bong, no prior) or [√(1−α) W, √α W₀, √α S] (blr)."""
    if prior.Wt.shape[0] == 0:
        load(rows, 1.0, at, X, load(state.Wt, 1.0, at, X, 0))  # eq:bong-dlr-Wtilde, sec:DLR-deriv#28
    else:
        n = load(prior.Wt, math.sqrt(alpha), at, X, load(state.Wt, math.sqrt(1.0 - alpha), at, X, 0))
        load(rows, math.sqrt(alpha), at, X, n)  # eq:blr-dlr-Wtilde, sec:LBLR-DLR#5


@device
def eigenvectors(G, n, V, values):
    """The eigenvectors of the first n rows and columns of G as rows of V, and the eigenvalues, descending; -> status."""
    for i in range(n):
        if not (G[i, i] == 0.0 or SMALL * SMALL < G[i, i] < LARGE * LARGE):
            return UNSUPPORTED
    ascending, Q = np.linalg.eigh(G[:n, :n].copy())
    fill(V, 0.0)
    for k in range(n):
        values[k] = max(ascending[n - 1 - k], 0.0)
        for i in range(n):
            V[k, i] = Q[i, n - 1 - k]
    return OK


@device
def angles(C, V, values, first, start, D):
    """D from inner products of rows of V X to the angles by which they are to be rotated; the largest one.

    C are the products of the rows of V from ``first`` on with X Xᵀ; D those with the rows of V from ``start`` on.
    """
    top, largest = math.sqrt(values[0]), 0.0
    for a in range(D.shape[0]):
        square = max(inner(C[a], V[first + a]), 0.0)
        for b in range(D.shape[1]):
            gap = values[start + b] - square if first > 0 else square - values[start + b]
            size, other = math.sqrt(square), math.sqrt(values[start + b])
            if abs(D[a, b]) <= 8.0 * EPS * top * min(size, other) or max(size, other) <= len(V) * EPS * top:
                D[a, b] = 0.0  # lost in the rounding of X
            else:
                D[a, b] = D[a, b] / gap if gap > 0.0 else math.inf
            largest = max(largest, abs(D[a, b]))
    return largest


@device
def rotate(V, n, first, start, D):
    """The rows of V from ``first`` and from ``start`` on rotated by small angles D, and the first n rows made orthonormal again."""
    sign = -1.0 if first > 0 else 1.0
    for a in range(D.shape[0]):
        for b in range(D.shape[1]):
            angle, x, y = sign * D[a, b], V[first + a], V[start + b]
            for i in range(n):
                x[i], y[i] = x[i] + angle * y[i], y[i] - angle * x[i]
    for i in range(n):
        for k in range(i):
            h = inner(V[i], V[k])
            for j in range(n):
                V[i, j] -= h * V[k, j]
        size = math.sqrt(inner(V[i], V[i]))
        for j in range(n):
            V[i, j] /= size


@inlined
def project(prior, state, rows, alpha, work):
    """The rows V of the projection, kept ones first, from G = X Xᵀ; -> status. Reference: dlr.project.

    Of the kept and the discarded rows the fewer ones are multiplied with X and Xᵀ, to see what is left between the two sets.
    """
    P, R, R0 = len(state.mu), state.Wt.shape[0], prior.Wt.shape[0]
    n = R + R0 + rows.shape[0]
    V, values = block(work.small[ROWS], n + 1, n + 1), work.few[VALUES]
    few, first, start = (n - R, R, 0) if n - R <= R else (R, 0, R)
    C, D = block(work.small[CROSS], few, n + 1), block(work.small[ANGLES], few, n - few)
    code = eigenvectors(block(work.small[GRAM], n + 1, n + 1), n, V, values)
    needed = math.sqrt(values[0]) > 8.0 * (math.sqrt(values[R - 1]) + math.sqrt(values[R]))
    for _ in range(3):
        if code != OK or not needed:
            break
        fill(C, 0.0)
        for at in range(0, P, work.width):
            w = min(work.width, P - at)
            X, Y = block(work.blocks[X_], n + 1, w), block(work.blocks[Y_], few, w)
            if P > work.width:
                load_rows(prior, state, rows, alpha, at, X)
            dot(V[first : first + few], X, Y)
            add_dot(Y, X.T, C, work.small[SPARE])
        dot(C, V[start : start + n - few].T, D)
        largest = angles(C, V, values, first, start, D)
        if largest < 1e-2:
            rotate(V, n, first, start, D)
        needed = largest > 2.0**-26
    return UNSUPPORTED if code == OK and needed else code


# --- BONG, BLR -----------------------------------------------------------------------------------------------------------------


@device
def right_side(prior, state, g, at, out):
    """A block of the right-hand side of the mean without W₀W₀ᵀδ, δ = μ₀ − μ: g (bong) or Υ₀δ + g (blr)."""
    w = len(out)
    more = g[at : at + w]
    for p in range(w):
        out[p] = more[p]
    if prior.Wt.shape[0] > 0:
        m0, m, u0 = prior.mu[at : at + w], state.mu[at : at + w], prior.Ups[at : at + w]
        for p in range(w):
            out[p] += u0[p] * (m0[p] - m[p])


@device
def mix(prior, state, alpha, at, u, dots):
    """For blr a block of Υ̃ in place of Υ; ``dots`` gains W₀ᵀδ."""
    w = len(u)
    now, before, m0, m = state.Ups[at : at + w], prior.Ups[at : at + w], prior.mu[at : at + w], state.mu[at : at + w]
    for p in range(w):
        now[p] = (1.0 - alpha) * now[p] + alpha * before[p]  # eq:blr-dlr-UpsTilde, sec:LBLR-DLR#7
        u[p] = m0[p] - m[p]
    for r in range(prior.Wt.shape[0]):
        dots[r] += inner(prior.Wt[r, at : at + w], u)


@inlined
def measure(prior, state, g, rows, alpha, work):
    """G = X Xᵀ and H = X Υ̃⁻¹ Xᵀ, whose last row is that of :func:`right_side`, and W₀ᵀδ; how many Υ̃ are not positive."""
    P, below = len(state.mu), 0
    n = state.Wt.shape[0] + prior.Wt.shape[0] + rows.shape[0]
    G, H, dots = block(work.small[GRAM], n + 1, n + 1), block(work.small[WEIGHTED], n + 1, n + 1), work.few[DOTS]
    fill(G, 0.0)
    fill(H, 0.0)
    dots[:] = 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y, u = block(work.blocks[X_], n + 1, w), block(work.blocks[Y_], n + 1, w), work.few[U_, :w]
        if prior.Wt.shape[0] > 0:
            mix(prior, state, alpha, at, u, dots)
        load_rows(prior, state, rows, alpha, at, X)
        right_side(prior, state, g, at, X[n])
        below += inverse(state.Ups, at, u)
        weigh(X, n + 1, u, Y)
        add_dot(Y, X.T, H, work.small[SPARE])
        add_dot(X, X.T, G, work.small[SPARE])
    return below


@device
def mean_coefficients(H, n, first, dots, c):
    """c with μ += α Υ̃⁻¹Xᵀc: Woodbury's identity on the last row of X plus W₀W₀ᵀδ, the rows from ``first`` on times dots; -> status."""
    for i in range(n):
        c[i] = H[i, n]
        for r in range(len(dots)):
            c[i] += H[i, first + r] * dots[r]
    if not not_finite(c) == 0.0:
        return NOT_FINITE
    for i in range(n):
        H[i, i] += 1.0
    if not cholesky(H, n):
        return NOT_POSITIVE_DEFINITE
    solve_vector(H, n, c)
    for i in range(n):
        c[i] = -c[i]
    for r in range(len(dots)):
        c[first + r] += dots[r]
    c[n] = 1.0
    return OK


@device
def settle(state, Z, alpha, at):
    """A block of the new state: the rows of Z are the new W, the discarded ones, and Υ̃ times the step of the mean; 0 if finite."""
    R, n, w, wrong = state.Wt.shape[0], Z.shape[0] - 1, Z.shape[1], 0.0
    mu, Ups, last = state.mu[at : at + w], state.Ups[at : at + w], Z[n]
    for p in range(w):
        mu[p] += alpha * last[p] / Ups[p]  # eq:bong-dlr-mu, sec:DLR-deriv#24, eq:blr-dlr-mu, sec:LBLR-DLR#1
        wrong += 0.0 * mu[p]
    for k in range(R, n):
        z = Z[k]
        for p in range(w):
            Ups[p] += z[p] * z[p]  # sec:DLR-deriv#14, eq:bong-dlr-Ups, eq:blr-dlr-Ups, sec:LBLR-DLR#3
    for k in range(R):
        new, z = state.Wt[k, at : at + w], Z[k]
        for p in range(w):
            new[p] = z[p]  # sec:DLR-deriv#13, eq:bong-dlr-W, eq:blr-dlr-W, sec:LBLR-DLR#2
    return wrong + not_finite(Ups)


@inlined
def absorb(prior, state, g, rows, alpha, work):
    """μ += α (Υ̃ + W̃W̃ᵀ)⁻¹(right-hand side), then Υ̃ + W̃W̃ᵀ projected to rank R; -> status."""
    P, R, R0, wrong = len(state.mu), state.Wt.shape[0], prior.Wt.shape[0], 0.0
    n = R + R0 + rows.shape[0]
    H, V, dots = block(work.small[WEIGHTED], n + 1, n + 1), block(work.small[ROWS], n + 1, n + 1), work.few[DOTS, :R0]
    code = UNSUPPORTED if measure(prior, state, g, rows, alpha, work) > 0 else OK
    if code == OK:
        code = project(prior, state, rows, alpha, work)
    if code == OK:
        for r in range(R0):
            dots[r] /= math.sqrt(alpha)
        code = mean_coefficients(H, n, R, dots, V[n])
    if code == OK:
        for at in range(0, P, work.width):
            w = min(work.width, P - at)
            X, Z = block(work.blocks[X_], n + 1, w), block(work.blocks[Y_], n + 1, w)
            if P > work.width:
                load_rows(prior, state, rows, alpha, at, X)
                right_side(prior, state, g, at, X[n])
            dot(V, X, Z)
            wrong += settle(state, Z, alpha, at)
        code = OK if wrong == 0.0 else NOT_FINITE
    return code


@implement(step, Bong)
def bong(rule, prior, state, g, G, work):
    """Reference: dlr.bong_woodbury. ``prior`` has no rows in Wt."""
    return absorb(prior, state, g, G, 1.0, work)


@implement(step, Blr)
def blr(rule, prior, state, g, G, work):
    """Reference: dlr.blr_woodbury."""
    return absorb(prior, state, g, G, rule.alpha, work) if rule.alpha <= 1.0 else UNSUPPORTED


# --- BOG -----------------------------------------------------------------------------------------------------------------------


@device
def invert(M, E):
    """E = (I + M)⁻¹, M becomes a Cholesky factor; -> status."""
    R = len(M)
    for r in range(R):
        if M[r, r] > 1e12:  # rounding decides whether the next Υ is positive
            return UNSUPPORTED
        M[r, r] += 1.0
        for k in range(R):
            E[r, k] = 1.0 if r == k else 0.0
    if not cholesky(M, R):
        return NOT_POSITIVE_DEFINITE
    solve(M, R, E, R)
    return OK


@device
def bog_block(state, g, alpha, at, X, B, u):
    """A block of the new μ and Υ of bog; Υ ΣS = S − W EC is completed in B; 0 if finite."""
    R, w = state.Wt.shape[0], len(u)
    mu, Ups, more = state.mu[at : at + w], state.Ups[at : at + w], g[at : at + w]
    for k in range(B.shape[0]):
        b, s = B[k], X[R + k]
        for p in range(w):
            b[p] = u[p] * (s[p] - b[p])  # eq:bog-dlr-B, sec:DLR-deriv#39
            Ups[p] += 0.5 * alpha * b[p] * b[p]  # eq:bog-dlr-Ups, sec:DLR-deriv#37
    for p in range(w):
        mu[p] += alpha * more[p]  # eq:bog-dlr-mu, sec:DLR-deriv#36
    return not_finite(mu) + not_finite(Ups)


@device
def add_rows(Z, alpha, at, Wt):
    """A block of W gains α Z; 0 if it is finite."""
    w, wrong = Z.shape[1], 0.0
    for r in range(Z.shape[0]):
        new, z = Wt[r, at : at + w], Z[r]
        for p in range(w):
            new[p] += alpha * z[p]
        wrong += not_finite(new)
    return wrong


@implement(step, Bog)
def bog(rule, prior, state, g, G, work):
    """Reference: dlr.bog_woodbury, with WᵀB = (I + WᵀΥ⁻¹W)⁻¹ WᵀΥ⁻¹S."""
    P, R, K, wrong, below = len(state.mu), state.Wt.shape[0], G.shape[0], 0.0, 0
    M, E = block(work.small[GRAM], R, R), block(work.small[WEIGHTED], R, R)
    C, EC = block(work.small[CROSS], R, K), block(work.small[ANGLES], R, K)
    fill(M, 0.0)
    fill(C, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, A, u = block(work.blocks[X_], R + K, w), block(work.blocks[Y_], R, w), work.few[U_, :w]
        load(G, 1.0, at, X, load(state.Wt, 1.0, at, X, 0))
        below += inverse(state.Ups, at, u)
        weigh(X, R, u, A)
        add_dot(A, X[:R].T, M, work.small[SPARE])
        add_dot(A, X[R:].T, C, work.small[SPARE])
    if below > 0:
        return UNSUPPORTED
    code = invert(M, E)
    if code != OK:
        return code
    dot(E, C, EC)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, B, Z, u = block(work.blocks[X_], R + K, w), block(work.blocks[Y_], K, w), block(work.blocks[Z_], R, w), work.few[U_, :w]
        if P > work.width:
            load(G, 1.0, at, X, load(state.Wt, 1.0, at, X, 0))
            inverse(state.Ups, at, u)
        dot(EC.T, X[:R], B)
        wrong += bog_block(state, g, rule.alpha, at, X, B, u)
        dot(EC, B, Z)
        wrong += add_rows(Z, rule.alpha, at, state.Wt)  # eq:bog-dlr-W, sec:DLR-deriv#38
    return OK if wrong == 0.0 else NOT_FINITE


# --- BBB -----------------------------------------------------------------------------------------------------------------------


@device
def bbb_load(prior, state, rows, at, X, A, u, a):
    """A block of X = [W, W₀, S] by rows, A = Υ⁻¹W, u = 1/Υ and a = Υ₀ − Υ; how many Υ are not positive."""
    w = len(u)
    load(rows, 1.0, at, X, load(prior.Wt, 1.0, at, X, load(state.Wt, 1.0, at, X, 0)))
    below = inverse(state.Ups, at, u)
    weigh(X, A.shape[0], u, A)
    old, now = prior.Ups[at : at + w], state.Ups[at : at + w]
    for p in range(w):
        a[p] = old[p] - now[p]
    return below


@device
def prior_dots(prior, state, at, delta, dots):
    """``dots`` gains W₀ᵀδ in a block, δ = μ₀ − μ."""
    w = len(delta)
    m0, m = prior.mu[at : at + w], state.mu[at : at + w]
    for p in range(w):
        delta[p] = m0[p] - m[p]
    for r in range(prior.Wt.shape[0]):
        dots[r] += inner(prior.Wt[r, at : at + w], delta)


@device
def bbb_mean(prior, state, g, alpha, at, X, dots):
    """A block of μ gains α(Υ₀δ + W₀W₀ᵀδ + g); 0 if it is finite."""
    R, w = state.Wt.shape[0], X.shape[1]
    mu, m0, u0, more = state.mu[at : at + w], prior.mu[at : at + w], prior.Ups[at : at + w], g[at : at + w]
    for p in range(w):
        mu[p] += alpha * (u0[p] * (m0[p] - mu[p]) + more[p])  # eq:bbb-dlr-mu, sec:DLR-deriv#40
    for r in range(R):
        row, c = X[R + r], alpha * dots[r]
        for p in range(w):
            mu[p] += c * row[p]
    return not_finite(mu)


@device
def bbb_curvature(A, Z, NZ, u, a, half, Ups):
    """A block of Υ gains ½α diag Σ(Diag(a) − WWᵀ)Σ with A = Υ⁻¹W, Z = ΣW, NZ = N ΣW by rows; Z becomes aΥ⁻¹ΣW."""
    w = len(Ups)
    for p in range(w):
        a[p] *= u[p]
        Ups[p] += half * a[p] * u[p]  # eq:bbb-dlr-Ups, sec:DLR-deriv#41
    for r in range(Z.shape[0]):
        z, x, y = Z[r], A[r], NZ[r]
        for p in range(w):
            Ups[p] += half * z[p] * (y[p] - z[p] - 2.0 * a[p] * x[p])
            z[p] *= a[p]


@device
def bbb_rows(X, first, u, half, SX, Ups):
    """ΣX = Υ⁻¹X − ΣW C is completed in SX, for the rows of X from ``first`` on; Υ gains half of their squares; 0 if finite."""
    w = len(Ups)
    for k in range(SX.shape[0]):
        s, x = SX[k], X[first + k]
        for p in range(w):
            s[p] = u[p] * x[p] - s[p]
            Ups[p] += half * s[p] * s[p]
    return not_finite(Ups)


@inlined
def bbb_small(prior, state, rows, work):
    """E, N, EC and E N + WᵀΣW of :func:`bbb`, and C and W₀ᵀδ, from one pass over the parameters; -> status."""
    P, R, below, spare = len(state.mu), state.Wt.shape[0], 0, work.small[SPARE]
    n = R + rows.shape[0]
    M, E, N, K = (block(work.small[GRAM], R, R), block(work.small[WEIGHTED], R, R), block(work.small[ROWS], R, R),
                  block(work.small[EXTRA], R, R))  # fmt: skip
    C, EC, dots = block(work.small[CROSS], R, n), block(work.small[ANGLES], R, n), work.few[DOTS]
    fill(M, 0.0)
    fill(N, 0.0)
    fill(C, 0.0)
    dots[:] = 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, A, B = block(work.blocks[X_], R + n, w), block(work.blocks[Y_], R, w), block(work.blocks[Z_], R, w)
        below += bbb_load(prior, state, rows, at, X, A, work.few[U_, :w], work.few[A_, :w])
        add_dot(A, X[:R].T, M, spare)
        add_dot(A, X[R:].T, C, spare)
        weigh(A, R, work.few[A_], B)
        add_dot(A, B.T, N, spare)
        prior_dots(prior, state, at, B[0], dots)
    code = UNSUPPORTED if below > 0 else invert(M, E)
    if code == OK:
        dot(E, N, K)
        dot(E, C, EC)
        for r in range(R):
            for k in range(R):
                K[r, k] += (1.0 if r == k else 0.0) - E[r, k]
    return code


@implement(step, Bbb)
def bbb(rule, prior, state, g, G, work):
    """Reference: dlr.bbb_woodbury.

    With A = Υ⁻¹W, E = (I + WᵀA)⁻¹, a = Υ₀ − Υ and N = Aᵀ Diag(a) A: ΣW = AE, ΣX = Υ⁻¹X − ΣW C with C = AᵀX for X = [W₀, S],
    WᵀΣX = EC, WᵀΣW = I − E, and Σ Diag(a) ΣW = aΥ⁻¹ ΣW − ΣW N E (eq:bbb-dlr-Woodbury).
    """
    P, R, alpha, wrong = len(state.mu), state.Wt.shape[0], rule.alpha, 0.0
    n, dots = R + G.shape[0], work.few[DOTS]
    code = bbb_small(prior, state, G, work)
    E, N, K = block(work.small[WEIGHTED], R, R), block(work.small[ROWS], R, R), block(work.small[EXTRA], R, R)
    C, EC = block(work.small[CROSS], R, n), block(work.small[ANGLES], R, n)
    for at in range(0, P if code == OK else 0, work.width):
        w = min(work.width, P - at)
        X, A, Z = block(work.blocks[X_], R + n, w), block(work.blocks[Y_], R, w), block(work.blocks[Z_], R, w)
        e, u, a, Ups = block(work.blocks[E_], R, w), work.few[U_, :w], work.few[A_, :w], state.Ups[at : at + w]
        if P > work.width:
            bbb_load(prior, state, G, at, X, A, u, a)
        wrong += bbb_mean(prior, state, g, alpha, at, X, dots)
        dot(E, A, Z)
        SX = block(work.blocks[E_, R * w :], n, w)
        dot(C.T, Z, SX)
        dot(K, Z, e)
        add_rows(e, -alpha, at, state.Wt)  # eq:bbb-dlr-W, sec:DLR-deriv#42
        dot(N, Z, e)
        bbb_curvature(A, Z, e, u, a, 0.5 * alpha, Ups)
        wrong += bbb_rows(X, R, u, 0.5 * alpha, SX, Ups)
        add_rows(Z, alpha, at, state.Wt)
        dot(EC, SX, e)
        wrong += add_rows(e, alpha, at, state.Wt)
    return code if code != OK or wrong == 0.0 else NOT_FINITE


# --- samples, dynamics, and the state of a stream --------------------------------------------------------------------------------


@device
def noise_matrix(At, F):
    """F = V D Vᵀ with A = Q Λ Vᵀ, D = 1/(h + h²), h = √(1 + Λ²); -> status. Reference: gaussians.draw.

    The eigenvectors of AᵀA serve where Λ is small; elsewhere the SVD of the triangular factor of A keeps the digits of small Λ.
    """
    R, trace = len(F), 0.0
    dot(At, At.T, F)
    for r in range(R):
        trace += F[r, r]
    if not trace < math.inf:
        return NOT_FINITE
    if trace < 64.0:
        squares, V = np.linalg.eigh(F.copy())
    else:
        T = np.zeros((R, R))
        triangle(At.copy(), T)
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
    """Reference: gaussians.place: θ = μ + Υ^{-1/2}(z − A F Aᵀz) with A = Υ^{-1/2}W."""
    R, P = state.Wt.shape[0], len(state.mu)
    root, At, F = work.tall[0], work.tall[1 : 1 + R], block(work.small[NOISE], R, R)
    for p in range(P):
        if not state.Ups[p] > 0.0:
            return UNSUPPORTED
        root[p] = 1.0 / math.sqrt(state.Ups[p])
    weigh(state.Wt, R, root, At)
    code = noise_matrix(At, F)
    if code != OK:
        return code
    for first in range(0, z.shape[0], SAMPLES):
        some = z[first : first + SAMPLES]
        m = some.shape[0]
        S, SF, change = block(work.small[SPARE], m, R), block(work.small[EXTRA], m, R), work.tall[1 + R : 1 + R + m]
        dot(some, At.T, S)
        dot(S, F, SF)
        dot(SF, At, change)
        for k in range(m):
            theta, less = some[k], change[k]
            for p in range(P):
                theta[p] = state.mu[p] + (theta[p] - less[p]) * root[p]
    return OK


class Linear(NamedTuple):
    """Dynamics with diagonal F and Q."""

    F: Any  # (P,)
    b: Any  # (P,)
    Q: Any  # (P,)


@implement(predict, Linear)
def predict_dlr(dynamics, state, work):
    """Reference: dynamics.propagate: n = F² + QΥ, Υ' = Υ/n, W' = L⁻¹(F W/n), L Lᵀ = I + Wᵀ(Q/n)W."""
    P, R, some, wrong, f, q = len(state.mu), state.Wt.shape[0], 0, 0.0, dynamics.F, dynamics.Q
    E = block(work.small[NOISE], R, R)
    fill(E, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y, u = block(work.blocks[X_], R, w), block(work.blocks[Y_], R, w), work.few[U_]
        for p in range(w):
            n = f[at + p] * f[at + p] + q[at + p] * state.Ups[at + p]
            u[p] = q[at + p] / n
            some += 0 if f[at + p] == 0.0 else 1
            wrong += 0.0 if n > 0.0 and state.Ups[at + p] > 0.0 else 1.0
        load(state.Wt, 1.0, at, X, 0)
        weigh(X, R, u, Y)
        add_dot(X, Y.T, E, work.small[SPARE])
    for r in range(R):
        E[r, r] += 1.0
    if wrong != 0.0 or some == 0 or not cholesky(E, R):
        return UNSUPPORTED
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, u = block(work.blocks[X_], R, w), work.few[U_]
        mu, Ups = state.mu[at : at + w], state.Ups[at : at + w]
        for p in range(w):
            n = f[at + p] * f[at + p] + q[at + p] * Ups[p]
            mu[p] = f[at + p] * mu[p] + dynamics.b[at + p]  # sec:pseudocode#3
            Ups[p] /= n  # sec:pseudocode#4
            u[p] = f[at + p] / n
        load(state.Wt, 1.0, at, X, 0)
        weigh(X, R, u, X)
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

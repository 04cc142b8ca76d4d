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
from .small import EPS, add_dot, add_gram, block, cholesky, dot, fill, inner, not_finite, solve, solve_lower, solve_vector, triangle
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED

LARGE, SMALL = 1e140, 1e-140  # of the rows of X: squares and their sums stay in the range of float64
BLOCK = 2**15  # numbers of a block: two of them in 512 KB
SAMPLES = 8  # samples that are placed together
RUNAWAY = 1e12  # of WᵀΥ⁻¹W, beyond which rounding decides whether the next Υ of bog and bbb is positive


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
    few: Any  # (5, max(n + 1, width)): vectors, see VALUES, …
    tall: Any  # (1 + 2 R + SAMPLES, P) with samples: see place_dlr
    width: int


X_, Y_, Z_, E_ = range(4)  # of Workspace.blocks
GRAM, WEIGHTED, ROWS, CROSS, ANGLES, SPARE, NOISE, EXTRA = range(8)  # of Workspace.small
VALUES, DOTS, U_, A_, E_VECTOR = range(5)  # of Workspace.few


def workspace(P: int, R: int, K: int, rule: str, samples: bool = False) -> Workspace:
    """Buffers for the steps of a rule with K rows, and with ``samples`` for :func:`place_dlr`."""
    n = R + K if rule in ("bong", "bog") else 2 * R + K
    width = min(P, max(16, BLOCK // (n + 1) // 16 * 16))
    side, tall = max(n + 1, SAMPLES), np.zeros((1 + 2 * R + SAMPLES if samples else 0, P))
    return Workspace(np.zeros((4, (n + 1) * width)), np.zeros((8, side * side)), np.zeros((5, max(n + 1, width))), tall, width)


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
        add_gram(Y, X, H, work.small[SPARE])
        add_gram(X, X, G, work.small[SPARE])
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
def settle(state, Z, discarded, last, alpha, at):
    """A block of the new state from the new W, the discarded rows, and Υ̃ times the step of the mean; 0 if finite."""
    R, w, wrong = state.Wt.shape[0], Z.shape[1], 0.0
    mu, Ups = state.mu[at : at + w], state.Ups[at : at + w]
    for p in range(w):
        mu[p] += alpha * last[p] / Ups[p]  # eq:bong-dlr-mu, sec:DLR-deriv#24, eq:blr-dlr-mu, sec:LBLR-DLR#1
        wrong += 0.0 * mu[p]
    for k in range(discarded.shape[0]):
        z = discarded[k]
        for p in range(w):
            Ups[p] += z[p] * z[p]  # sec:DLR-deriv#14, eq:bong-dlr-Ups, eq:blr-dlr-Ups, sec:LBLR-DLR#3
    for k in range(R):
        new, z = state.Wt[k, at : at + w], Z[k]
        for p in range(w):
            new[p] = z[p]  # sec:DLR-deriv#13, eq:bong-dlr-W, eq:blr-dlr-W, sec:LBLR-DLR#2
    return wrong + not_finite(Ups)


@device
def subtract(X, E):
    """E = X − E."""
    for i in range(E.shape[0]):
        x, e = X[i], E[i]
        for p in range(len(e)):
            e[p] = x[p] - e[p]


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
            if n <= 2 * R:
                dot(V, X, Z)
                wrong += settle(state, Z, Z[R:n], Z[n], alpha, at)
            else:  # X − VᵀVX with the kept rows of V has the same squares as the discarded rows
                E = block(work.blocks[Z_], n, w)
                dot(V[n:], X, Z[R : R + 1])
                dot(V[:R], X, Z[:R])
                dot(V[:R, :n].copy().T, Z[:R], E)
                subtract(X, E)
                wrong += settle(state, Z, E, Z[R], alpha, at)
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
def columns(A, at, w, buffer):
    """The columns at, …, at + w − 1 of A: A itself, or a copy in ``buffer``."""
    if w == A.shape[1]:
        return A
    X = block(buffer, A.shape[0], w)
    load(A, 1.0, at, X, 0)
    return X


@device
def invert(M, E):
    """E = (I + M)⁻¹, M becomes a Cholesky factor; -> status."""
    R = len(M)
    for r in range(R):
        if M[r, r] > RUNAWAY:
            return UNSUPPORTED
        M[r, r] += 1.0
        for k in range(R):
            E[r, k] = 1.0 if r == k else 0.0
    if not cholesky(M, R):
        return NOT_POSITIVE_DEFINITE
    solve(M, R, E, R)
    return OK


@device
def bog_block(state, g, S, B, u, alpha, at):
    """A block of the new μ and Υ of bog; Υ ΣS = S − W EC is completed in B; 0 if finite."""
    w = len(u)
    mu, Ups, more = state.mu[at : at + w], state.Ups[at : at + w], g[at : at + w]
    for k in range(B.shape[0]):
        b, s = B[k], S[k]
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
            wrong += 0.0 * new[p]
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
        W, S = columns(state.Wt, at, w, work.blocks[X_]), columns(G, at, w, work.blocks[E_])
        A, u = block(work.blocks[Y_], R, w), work.few[U_, :w]
        below += inverse(state.Ups, at, u)
        weigh(W, R, u, A)
        add_gram(A, W, M, work.small[SPARE])
        add_dot(A, S.T, C, work.small[SPARE])
    code = UNSUPPORTED if below > 0 else invert(M, E)
    if code == OK:
        dot(E, C, EC)
    for at in range(0, P if code == OK else 0, work.width):
        w = min(work.width, P - at)
        W, S = columns(state.Wt, at, w, work.blocks[X_]), columns(G, at, w, work.blocks[E_])
        B, Z, u = block(work.blocks[Y_], K, w), block(work.blocks[Z_], R, w), work.few[U_, :w]
        inverse(state.Ups, at, u)
        dot(EC.T, W, B)
        wrong += bog_block(state, g, S, B, u, rule.alpha, at)
        dot(EC, B, Z)
        wrong += add_rows(Z, rule.alpha, at, state.Wt)  # eq:bog-dlr-W, sec:DLR-deriv#38
    return code if code != OK or wrong == 0.0 else NOT_FINITE


# --- BBB -----------------------------------------------------------------------------------------------------------------------


@device
def bbb_weights(prior, state, at, u, a):
    """u = 1/Υ and a = (Υ₀ − Υ)/Υ in a block; how many Υ are not positive."""
    w, below = len(u), inverse(state.Ups, at, u)
    old, now = prior.Ups[at : at + w], state.Ups[at : at + w]
    for p in range(w):
        a[p] = (old[p] - now[p]) * u[p]
    return below


@device
def difference(prior, state, at, out):
    """δ = μ₀ − μ in a block."""
    w = len(out)
    m0, m = prior.mu[at : at + w], state.mu[at : at + w]
    for p in range(w):
        out[p] = m0[p] - m[p]


@device
def bbb_mean(prior, state, g, alpha, at, side):
    """A block of μ gains α(Υ₀δ + W₀W₀ᵀδ + g), with W₀W₀ᵀδ in ``side``; 0 if it is finite."""
    w, wrong = len(side), 0.0
    mu, m0, u0, more = state.mu[at : at + w], prior.mu[at : at + w], prior.Ups[at : at + w], g[at : at + w]
    for p in range(w):
        mu[p] += alpha * (u0[p] * (m0[p] - mu[p]) + side[p] + more[p])  # eq:bbb-dlr-mu, sec:DLR-deriv#40
        wrong += 0.0 * mu[p]
    return wrong


@device
def bbb_curvature(A, Z, NZ, u, a, half, Ups):
    """A block of Υ gains ½α diag Σ(Diag(Υ₀ − Υ) − WWᵀ)Σ with A = Υ⁻¹W, Z = ΣW and NZ = N ΣW by rows."""
    w = len(Ups)
    for p in range(w):
        Ups[p] += half * a[p] * u[p]  # eq:bbb-dlr-Ups, sec:DLR-deriv#41
    for r in range(Z.shape[0]):
        z, x, y = Z[r], A[r], NZ[r]
        for p in range(w):
            Ups[p] += half * z[p] * (y[p] - z[p] - 2.0 * a[p] * x[p])


@device
def bbb_complete(X, u, half, SX, Ups):
    """ΣX = Υ⁻¹X − ΣW C is completed in SX; Υ gains half of their squares."""
    for k in range(SX.shape[0]):
        s, x = SX[k], X[k]
        for p in range(len(Ups)):
            s[p] = u[p] * x[p] - s[p]
            Ups[p] += half * s[p] * s[p]


@device
def bbb_add(e, Z, a, alpha, at, Wt):
    """A block of W gains α(e + a Z); 0 if it is finite."""
    w, wrong = len(a), 0.0
    for r in range(Z.shape[0]):
        new, x, z = Wt[r, at : at + w], e[r], Z[r]
        for p in range(w):
            new[p] += alpha * (x[p] + a[p] * z[p])  # eq:bbb-dlr-W, sec:DLR-deriv#42
            wrong += 0.0 * new[p]
    return wrong


@inlined
def bbb_small(prior, state, rows, work):
    """E, N, C, W₀ᵀδ and the coefficients [−(E N + WᵀΣW), EC] of :func:`bbb` from one pass over the parameters; -> status."""
    P, R, below, spare = len(state.mu), state.Wt.shape[0], 0, work.small[SPARE]
    K, dots = rows.shape[0], work.few[DOTS, :R]
    M, E, N = block(work.small[GRAM], R, R), block(work.small[WEIGHTED], R, R), block(work.small[ROWS], R, R)
    C0, CS = block(work.small[CROSS], R, R), block(work.small[ANGLES], R, K)
    fill(M, 0.0)
    fill(N, 0.0)
    fill(C0, 0.0)
    fill(CS, 0.0)
    dots[:] = 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        W, W0 = columns(state.Wt, at, w, work.blocks[X_]), columns(prior.Wt, at, w, work.blocks[Z_])
        A, B, u, a = block(work.blocks[Y_], R, w), block(work.blocks[E_], R, w), work.few[U_, :w], work.few[A_, :w]
        below += bbb_weights(prior, state, at, u, a)
        weigh(W, R, u, A)
        add_gram(A, W, M, spare)
        add_dot(A, W0.T, C0, spare)
        add_dot(A, columns(rows, at, w, work.blocks[E_]).T, CS, spare)
        difference(prior, state, at, work.few[E_VECTOR, :w])
        add_dot(block(work.few[E_VECTOR], 1, w), W0.T, block(dots, 1, R), spare)
        weigh(W, R, a, B)
        add_dot(A, B.T, N, spare)
    return UNSUPPORTED if below > 0 else invert(M, E)


@implement(step, Bbb)
def bbb(rule, prior, state, g, G, work):
    """Reference: dlr.bbb_woodbury.

    With A = Υ⁻¹W, E = (I + WᵀA)⁻¹, a = (Υ₀ − Υ)/Υ and N = Wᵀ Diag(a) A: ΣW = AE, ΣX = Υ⁻¹X − ΣW C with C = AᵀX for X = W₀ and S,
    WᵀΣX = EC, WᵀΣW = I − E, and Σ Diag(Υ₀ − Υ) ΣW = aΣW − ΣW N E (eq:bbb-dlr-Woodbury).
    """
    P, R, K, half, wrong = len(state.mu), state.Wt.shape[0], G.shape[0], 0.5 * rule.alpha, 0.0
    code = bbb_small(prior, state, G, work)
    E, N, L = block(work.small[WEIGHTED], R, R), block(work.small[ROWS], R, R), block(work.small[EXTRA], R, 2 * R + K)
    C0, CS, spare = block(work.small[CROSS], R, R), block(work.small[ANGLES], R, K), block(work.small[GRAM], R, R)
    if code == OK:
        bbb_coefficients(E, N, C0, CS, spare, L)
    for at in range(0, P if code == OK else 0, work.width):
        w = min(work.width, P - at)
        W0, side = columns(prior.Wt, at, w, work.blocks[E_]), block(work.few[E_VECTOR], 1, w)
        A, ZX, e = block(work.blocks[Y_], R, w), block(work.blocks[Z_], 2 * R + K, w), block(work.blocks[X_], R, w)
        u, a, Ups = work.few[U_, :w], work.few[A_, :w], state.Ups[at : at + w]
        dot(block(work.few[DOTS], 1, R), W0, side)
        wrong += bbb_mean(prior, state, g, rule.alpha, at, side[0])
        bbb_weights(prior, state, at, u, a)
        weigh(columns(state.Wt, at, w, work.blocks[X_]), R, u, A)
        dot(E, A, ZX[:R])
        dot(C0.T, ZX[:R], ZX[R : 2 * R])
        dot(CS.T, ZX[:R], ZX[2 * R :])
        dot(N, ZX[:R], e)
        bbb_curvature(A, ZX[:R], e, u, a, half, Ups)
        bbb_complete(W0, u, half, ZX[R : 2 * R], Ups)
        bbb_complete(columns(G, at, w, work.blocks[E_]), u, half, ZX[2 * R :], Ups)
        dot(L, ZX, e)
        wrong += bbb_add(e, ZX[:R], a, rule.alpha, at, state.Wt) + not_finite(Ups)
    return code if code != OK or wrong == 0.0 else NOT_FINITE


@device
def bbb_coefficients(E, N, C0, CS, spare, L):
    """L = [E − I − E N, E C₀, E C_S]: the change of W by rows is α(L [ΣW, ΣW₀, ΣS] + a ΣW)."""
    R = len(E)
    dot(E, N, spare)
    for r in range(R):
        for k in range(R):
            L[r, k] = E[r, k] - (1.0 if r == k else 0.0) - spare[r, k]
            L[r, R + k] = inner(E[r], C0[:, k])
        for k in range(CS.shape[1]):
            L[r, 2 * R + k] = inner(E[r], CS[:, k])


# --- samples, dynamics, and the state of a stream --------------------------------------------------------------------------------


@device
def noise_directions(At, R, D, gram):
    """Vᵀ in ``gram`` and D = 1/(h + h²), h = √(1 + Λ²), of A = Q Λ Vᵀ by rows; -> status.

    The eigenvectors of AᵀA serve where Λ is small; elsewhere the SVD of the triangular factor of A keeps the digits of small Λ.
    """
    trace = 0.0
    dot(At, At.T, gram)
    for r in range(R):
        trace += gram[r, r]
    if not trace < math.inf:
        return NOT_FINITE
    if trace < 64.0:
        squares, V = np.linalg.eigh(gram.copy())
    else:
        T = np.zeros((R, R))
        triangle(At.copy(), T)
        V, sizes, _ = np.linalg.svd(T)
        squares = sizes * sizes
    for r in range(R):
        h = math.sqrt(1.0 + max(squares[r], 0.0))
        D[r] = 1.0 / (h + h * h)
        for i in range(R):
            gram[r, i] = V[i, r]
    return OK


@implement(place, Bong, Blr, Bog, Bbb)
def place_dlr(rule, prior, state, z, work):
    """Reference: gaussians.place: θ = μ + Υ^{-1/2}(z − (AV) D (AV)ᵀz) with A = Υ^{-1/2}W = Q Λ Vᵀ."""
    R, P, D = state.Wt.shape[0], len(state.mu), work.few[VALUES]
    root, At, AV, V = work.tall[0], work.tall[1 : 1 + R], work.tall[1 + R : 1 + 2 * R], block(work.small[NOISE], R, R)
    for p in range(P):
        if not state.Ups[p] > 0.0:
            return UNSUPPORTED
        root[p] = 1.0 / math.sqrt(state.Ups[p])
    weigh(state.Wt, R, root, At)
    code = noise_directions(At, R, D, V)
    if code != OK:
        return code
    dot(V, At, AV)
    for first in range(0, z.shape[0], SAMPLES):
        some = z[first : first + SAMPLES]
        m = some.shape[0]
        S, change = block(work.small[SPARE], m, R), work.tall[1 + 2 * R : 1 + 2 * R + m]
        dot(some, AV.T, S)
        for k in range(m):
            for r in range(R):
                S[k, r] *= D[r]
        dot(S, AV, change)
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

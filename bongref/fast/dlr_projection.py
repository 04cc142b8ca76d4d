r"""bong and blr in the DLR family (sec:DLR-deriv): the precision Υ̃ + W̃W̃ᵀ projected to rank R.
Reference: families.dlr.

With W̃ = Xᵀ, X (n, P) by rows, the eigenvectors of X Xᵀ give the new rows V X. What rounding has
done to that product is measured on X itself, as the inner products of the kept with the discarded
rows, and corrected by a rotation of V. Where the correction is not small, the reference takes the
step (UNSUPPORTED). Passes over the parameters are over a range of them, which threads can share
(dlr_tall.py).
"""

from __future__ import annotations

import math

import numpy as np

from .dlr_blocks import (
    ANGLES,
    CROSS,
    DOTS,
    GRAM,
    ROWS,
    SPARE,
    U_,
    VALUES,
    WEIGHTED,
    X_,
    Y_,
    Z_,
    Blr,
    Bong,
    inverse,
    load,
    weigh,
)
from .generic import implement, step
from .jit import device, inlined
from .small import (
    EPS,
    add_dot,
    add_gram,
    block,
    cholesky,
    dot,
    fill,
    inner,
    not_finite,
    solve_vector,
)
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED

# of the rows of X: squares and their sums stay in the range of float64
LARGE, SMALL = 1e140, 1e-140
# of W̃ᵀΥ̃⁻¹W̃, beyond which rounding decides what Woodbury's identity leaves of the variance
SHARP = 1e11
ROUNDS = 3  # of corrections of V at most

# --- the SVD projection ---------------------------------------------------------------------------


@inlined
def load_rows(prior, state, rows, alpha, at, X):
    """A block of X: the rows of W̃ = [W, S] (bong, no prior) or [√(1−α) W, √α W₀, √α S] (blr)."""
    if prior.Wt.shape[0] == 0:
        load(
            rows, 1.0, at, X, load(state.Wt, 1.0, at, X, 0)
        )  # eq:bong-dlr-Wtilde, sec:DLR-deriv#28
    else:
        n = load(
            prior.Wt, math.sqrt(alpha), at, X, load(state.Wt, math.sqrt(1.0 - alpha), at, X, 0)
        )
        load(rows, math.sqrt(alpha), at, X, n)  # eq:blr-dlr-Wtilde, sec:LBLR-DLR#5


@device
def eigenvectors(G, n, V, values):
    """The eigenvectors of the first n rows and columns of G as rows of V, and the eigenvalues,
    descending; -> status.
    """
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
    """D from inner products of rows of V X to the angles by which they are to be rotated; the
    largest one.

    C are the products of the rows of V from ``first`` on with X Xᵀ; D those with the rows of V from
    ``start`` on.
    """
    top, largest = math.sqrt(values[0]), 0.0
    for a in range(D.shape[0]):
        square = max(inner(C[a], V[first + a]), 0.0)
        for b in range(D.shape[1]):
            gap = values[start + b] - square if first > 0 else square - values[start + b]
            size, other = math.sqrt(square), math.sqrt(values[start + b])
            less, more = min(size, other), max(size, other)
            if (
                abs(D[a, b]) <= EPS * top * less
                or abs(gap) <= 32.0 * EPS * top * more
                or more <= len(V) * EPS * top
            ):
                D[a, b] = 0.0  # lost in the rounding of X, as is which of two equal sizes is kept
            else:
                D[a, b] = D[a, b] / gap if gap > 0.0 else math.inf
            largest = max(largest, abs(D[a, b]))
    return largest


@device
def rotate(V, n, first, start, D):
    """The rows of V from ``first`` and from ``start`` on rotated by small angles D, and the first n
    rows made orthonormal again.
    """
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
    """The rows V of the projection, kept ones first, from G = X Xᵀ; -> status. Reference:
    dlr.project.
    """
    n = work_rows(prior, state, rows)
    code, needed = choose(work.small, work.few[VALUES], n, state.Wt.shape[0])
    for _ in range(ROUNDS):
        if needed:
            cross(prior, state, rows, alpha, 0, len(state.mu), work)
            needed = correct(work.small, work.few[VALUES], n, state.Wt.shape[0])
    return UNSUPPORTED if needed else code


@device
def work_rows(prior, state, rows):
    """n, the number of rows in X."""
    return state.Wt.shape[0] + prior.Wt.shape[0] + rows.shape[0]


@device
def choose(small, values, n, R):
    """V from the eigenvectors of G; -> status, and whether it is to be corrected."""
    V = block(small[ROWS], n + 1, n + 1)
    code = eigenvectors(block(small[GRAM], n + 1, n + 1), n, V, values)
    return code, code == OK and math.sqrt(values[0]) > 2.0 * (
        math.sqrt(values[R - 1]) + math.sqrt(values[R])
    )


@inlined
def cross(prior, state, rows, alpha, lo, hi, work):
    """C = Y Xᵀ with Y = V X of the kept or the discarded rows, the fewer ones, over the parameters
    lo, …, hi − 1.
    """
    n, R = work_rows(prior, state, rows), state.Wt.shape[0]
    few, first = (n - R, R) if n - R <= R else (R, 0)
    V, C = block(work.small[ROWS], n + 1, n + 1), block(work.small[CROSS], few, n + 1)
    fill(C, 0.0)
    for at in range(lo, hi, work.width):
        w = min(work.width, hi - at)
        X, Y = block(work.blocks[X_], n + 1, w), block(work.blocks[Y_], few, w)
        if hi - lo > work.width:
            load_rows(prior, state, rows, alpha, at, X)
        dot(V[first : first + few], X, Y)
        add_dot(Y, X.T, C, work.small[SPARE])


@device
def correct(small, values, n, R):
    """V rotated by what C has between the kept and the discarded rows; whether more is to be done."""
    few, first, start = (n - R, R, 0) if n - R <= R else (R, 0, R)
    V, C, D = (
        block(small[ROWS], n + 1, n + 1),
        block(small[CROSS], few, n + 1),
        block(small[ANGLES], few, n - few),
    )
    dot(C, V[start : start + n - few].T, D)
    largest = angles(C, V, values, first, start, D)
    if largest < 1e-2:
        rotate(V, n, first, start, D)
    return not largest < 2.0**-26


# --- BONG, BLR ------------------------------------------------------------------------------------


@device
def right_side(prior, state, g, at, out):
    """A block of the right-hand side of the mean without W₀W₀ᵀδ, δ = μ₀ − μ: g (bong) or Υ₀δ + g
    (blr).
    """
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
    now, before, m0, m = (
        state.Ups[at : at + w],
        prior.Ups[at : at + w],
        prior.mu[at : at + w],
        state.mu[at : at + w],
    )
    for p in range(w):
        now[p] = (1.0 - alpha) * now[p] + alpha * before[p]  # eq:blr-dlr-UpsTilde, sec:LBLR-DLR#7
        u[p] = m0[p] - m[p]
    for r in range(prior.Wt.shape[0]):
        dots[r] += inner(prior.Wt[r, at : at + w], u)


@inlined
def measure(prior, state, g, rows, alpha, lo, hi, work):
    """G = X Xᵀ and H = X Υ̃⁻¹ Xᵀ, whose last row is that of :func:`right_side`, and W₀ᵀδ, over the
    parameters lo, …, hi − 1.

    Returns how many Υ̃ are not positive.
    """
    below = 0
    n = state.Wt.shape[0] + prior.Wt.shape[0] + rows.shape[0]
    G, H, dots = (
        block(work.small[GRAM], n + 1, n + 1),
        block(work.small[WEIGHTED], n + 1, n + 1),
        work.few[DOTS],
    )
    fill(G, 0.0)
    fill(H, 0.0)
    dots[:] = 0.0
    for at in range(lo, hi, work.width):
        w = min(work.width, hi - at)
        X, Y, u = (
            block(work.blocks[X_], n + 1, w),
            block(work.blocks[Y_], n + 1, w),
            work.few[U_, :w],
        )
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
    """c with μ += α Υ̃⁻¹Xᵀc: Woodbury's identity on the last row of X plus W₀W₀ᵀδ, the rows from
    ``first`` on times dots; -> status.
    """
    for i in range(n):
        c[i] = H[i, n]
        for r in range(len(dots)):
            c[i] += H[i, first + r] * dots[r]
    if not not_finite(c) == 0.0:
        return NOT_FINITE
    for i in range(n):
        if H[i, i] > SHARP:
            return UNSUPPORTED
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
    """A block of the new state from the new W, the discarded rows, and Υ̃ times the step of the
    mean; 0 if finite.
    """
    R, w, wrong = state.Wt.shape[0], Z.shape[1], 0.0
    mu, Ups = state.mu[at : at + w], state.Ups[at : at + w]
    for p in range(w):
        mu[p] += (
            alpha * last[p] / Ups[p]
        )  # eq:bong-dlr-mu, sec:DLR-deriv#24, eq:blr-dlr-mu, sec:LBLR-DLR#1
        wrong += 0.0 * mu[p]
    for k in range(discarded.shape[0]):
        z = discarded[k]
        for p in range(w):
            Ups[p] += (
                z[p] * z[p]
            )  # sec:DLR-deriv#14, eq:bong-dlr-Ups, eq:blr-dlr-Ups, sec:LBLR-DLR#3
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


@device
def coefficients(small, dots, n, R, R0, alpha):
    """The last row of V: the coefficients of the mean; -> status."""
    for r in range(R0):
        dots[r] /= math.sqrt(alpha)
    return mean_coefficients(
        block(small[WEIGHTED], n + 1, n + 1), n, R, dots[:R0], block(small[ROWS], n + 1, n + 1)[n]
    )


@inlined
def renew(prior, state, g, rows, alpha, lo, hi, work):
    """The new state for the parameters lo, …, hi − 1; 0 if it is finite."""
    n, R, wrong = work_rows(prior, state, rows), state.Wt.shape[0], 0.0
    V = block(work.small[ROWS], n + 1, n + 1)
    for at in range(lo, hi, work.width):
        w = min(work.width, hi - at)
        X, Z = block(work.blocks[X_], n + 1, w), block(work.blocks[Y_], n + 1, w)
        if hi - lo > work.width:
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
    return wrong


@inlined
def absorb(prior, state, g, rows, alpha, work):
    """μ += α (Υ̃ + W̃W̃ᵀ)⁻¹(right-hand side), then Υ̃ + W̃W̃ᵀ projected to rank R; -> status."""
    P, R, R0 = len(state.mu), state.Wt.shape[0], prior.Wt.shape[0]
    code = UNSUPPORTED if measure(prior, state, g, rows, alpha, 0, P, work) > 0 else OK
    if code == OK:
        code = project(prior, state, rows, alpha, work)
    if code == OK:
        code = coefficients(work.small, work.few[DOTS], work_rows(prior, state, rows), R, R0, alpha)
    if code == OK and not renew(prior, state, g, rows, alpha, 0, P, work) == 0.0:
        code = NOT_FINITE
    return code


@implement(step, Bong)
def bong(rule, prior, state, g, G, work):
    """Reference: dlr.bong_woodbury. ``prior`` has no rows in Wt."""
    return absorb(prior, state, g, G, 1.0, work)


@implement(step, Blr)
def blr(rule, prior, state, g, G, work):
    """Reference: dlr.blr_woodbury."""
    return absorb(prior, state, g, G, rule.alpha, work) if rule.alpha <= 1.0 else UNSUPPORTED

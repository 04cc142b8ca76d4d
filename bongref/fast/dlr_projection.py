r"""bong and blr in the DLR family (sec:DLR-deriv): the precision Υ̃ + W̃W̃ᵀ projected to rank R.
Reference: families.dlr.

With W̃ = Xᵀ, X (n, P) by rows, the eigenvectors of X Xᵀ give the new rows V X. Those of small
eigenvalues are found again from the products of their own rows. What rounding has done is measured
on X itself, as the inner products of the kept with the discarded rows, and corrected by a rotation
of V. Where the correction is not small, the reference takes the step (UNSUPPORTED).
"""

from __future__ import annotations

import math

import numpy as np

from . import dlr_blocks as of
from . import small as algebra
from .dlr_blocks import DlrBlr, DlrBong, inverse, load, weigh
from .generic import implement, step
from .jit import device
from .small import add_products, block, cholesky, combine, copy, fill, inner, not_finite
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED
from .tuning import DLR_SHARP, EPS, FINE, LARGE, ROUNDS, SHARP, SMALL

# --- the SVD projection ---------------------------------------------------------------------------


@device
def load_rows(prior, state, rows, alpha, at, X):
    """A block of X: the rows of W̃ = [W, S] (bong, no prior) or [√(1−α) W, √α W₀, √α S] (blr)."""
    if prior.Wt.shape[0] == 0:
        load(rows, 1.0, at, X, load(state.Wt, 1.0, at, X, 0))  # eq:bong-dlr-Wtilde, sec:DLR-deriv#28
    else:
        n = load(state.Wt, math.sqrt(1.0 - alpha), at, X, 0)
        n = load(prior.Wt, math.sqrt(alpha), at, X, n)
        load(rows, math.sqrt(alpha), at, X, n)  # eq:blr-dlr-Wtilde, sec:LBLR-DLR#5


@device
def eigenvectors(G, n, V, values):
    """Eigenvectors of G[:n, :n] as rows of V, and its eigenvalues, descending; -> status."""
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
            more = max(math.sqrt(square), math.sqrt(values[start + b]))
            if (
                abs(D[a, b]) <= 4.0 * EPS * top * more
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
    """Rows of V from ``first`` and ``start`` on rotated by small angles D, and made orthonormal."""
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


@device
def cross(prior, state, rows, alpha, V, own, C, work):
    """C = Y Xᵀ, or Y Yᵀ (own), with Y = V X, some rows of the projection."""
    P, few, n = len(state.mu), V.shape[0], V.shape[1]
    fill(C, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y = block(work.blocks[of.X], n, w), block(work.blocks[of.Y], few, w)
        if P > work.width:
            load_rows(prior, state, rows, alpha, at, X)
        combine(V, X, Y)
        add_products(Y, Y if own else X, C, own)


@device
def refine(prior, state, rows, alpha, V, values, work):
    """The eigenvectors of eigenvalues that are small in X Xᵀ, and lost in its rounding, once more,
    from the products of their own rows V X; -> status.
    """
    n, m = work_rows(prior, state, rows), 0
    while m < n and values[m] > FINE * values[0]:
        m += 1
    few = n - m
    if few < 2:
        return OK
    G, Q = block(work.small[of.GRAM], few, few), block(work.small[of.ANGLES], few, few)
    cross(prior, state, rows, alpha, V[m:n], True, G, work)
    code, Z = eigenvectors(G, few, Q, values[m:]), block(work.small[of.CROSS], few, n + 1)
    combine(Q, V[m:n], Z)
    for k in range(few):
        copy(Z[k], V[m + k])
    return code


@device
def project(prior, state, rows, alpha, work):
    """The rows V of the projection, kept ones first, from G = X Xᵀ; -> status. Reference:
    dlr.project.

    Where the eigenvalues spread, the kept or the discarded rows, whichever are fewer, are compared
    with the others on X itself, and V is rotated until they are orthogonal.
    """
    n, R, values = work_rows(prior, state, rows), state.Wt.shape[0], work.few[of.VALUES]
    V = block(work.small[of.ROWS], n + 1, n + 1)
    code = eigenvectors(block(work.small[of.GRAM], n + 1, n + 1), n, V, values)
    top, edge = math.sqrt(values[0]), math.sqrt(values[R - 1]) + math.sqrt(values[R])
    if code != OK or top <= 2.0 * edge:
        return code
    code = refine(prior, state, rows, alpha, V, values, work)
    few, first, start = (n - R, R, 0) if n - R <= R else (R, 0, R)
    C, D = block(work.small[of.CROSS], few, n + 1), block(work.small[of.ANGLES], few, n - few)
    for _ in range(ROUNDS):
        cross(prior, state, rows, alpha, V[first : first + few], False, C, work)
        fill(D, 0.0)
        add_products(C, V[start : start + n - few], D, False)
        largest = angles(C, V, values, first, start, D)
        if largest < 1e-2:
            rotate(V, n, first, start, D)
        if largest < 2.0**-26:
            return OK
    return UNSUPPORTED


@device
def work_rows(prior, state, rows):
    """n, the number of rows in X."""
    return state.Wt.shape[0] + prior.Wt.shape[0] + rows.shape[0]


# --- BONG, BLR ------------------------------------------------------------------------------------


@device
def right_side(prior, state, g, at, out):
    """A block of the mean's right-hand side: g (bong) or Υ₀δ + g (blr), without W₀W₀ᵀδ."""
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
    now, before = state.Ups[at : at + w], prior.Ups[at : at + w]
    m0, m = prior.mu[at : at + w], state.mu[at : at + w]
    for p in range(w):
        now[p] = (1.0 - alpha) * now[p] + alpha * before[p]  # eq:blr-dlr-UpsTilde, sec:LBLR-DLR#7
        u[p] = m0[p] - m[p]
    for r in range(prior.Wt.shape[0]):
        dots[r] += inner(prior.Wt[r, at : at + w], u)


@device
def measure(prior, state, g, rows, alpha, work):
    """G = X Xᵀ and H = X Υ̃⁻¹ Xᵀ, whose last row is that of :func:`right_side`, and W₀ᵀδ.

    Returns how many Υ̃ are not positive.
    """
    P, n, dots, below = len(state.mu), work_rows(prior, state, rows), work.few[of.DOTS], 0
    G, H = block(work.small[of.GRAM], n + 1, n + 1), block(work.small[of.WEIGHTED], n + 1, n + 1)
    fill(G, 0.0)
    fill(H, 0.0)
    dots[:] = 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y = block(work.blocks[of.X], n + 1, w), block(work.blocks[of.Y], n + 1, w)
        u = work.few[of.U, :w]
        if prior.Wt.shape[0] > 0:
            mix(prior, state, alpha, at, u, dots)
        load_rows(prior, state, rows, alpha, at, X)
        right_side(prior, state, g, at, X[n])
        below += inverse(state.Ups, at, u)
        weigh(X, n + 1, u, Y)
        add_products(Y, X, H, True)
        add_products(X, X, G, True)
    return below


@device
def mean_coefficients(prior, state, n, alpha, work):
    """The last row c of V, μ += α Υ̃⁻¹Xᵀc: Woodbury's identity on the last row of X plus W₀W₀ᵀδ,
    the rows of √α W₀ in X times ``dots``; -> status.
    """
    R, R0 = state.Wt.shape[0], prior.Wt.shape[0]
    H, c = block(work.small[of.WEIGHTED], n + 1, n + 1), block(work.small[of.ROWS], n + 1, n + 1)[n]
    dots = work.few[of.DOTS, :R0]
    for i in range(n):
        c[i] = H[i, n]
        for r in range(R0):
            c[i] += H[i, R + r] * dots[r] / math.sqrt(alpha)
    if not not_finite(c) == 0.0:
        return NOT_FINITE
    for i in range(n):
        if H[i, i] > (DLR_SHARP if i < R + R0 else SHARP):
            return UNSUPPORTED
        H[i, i] += 1.0
    if not cholesky(H, n):
        return NOT_POSITIVE_DEFINITE
    column = c.reshape(n + 1, 1)
    algebra.solve_lower(H, n, column, 1)
    algebra.solve_upper(H, n, column, 1)
    for i in range(n):
        c[i] = -c[i]
    for r in range(R0):
        c[R + r] += dots[r] / math.sqrt(alpha)
    c[n] = 1.0
    return OK


@device
def settle(state, Z, discarded, last, alpha, at):
    """A block of the new state; ``last`` is Υ̃ times the step of the mean; 0 if finite."""
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
def renew(prior, state, g, rows, alpha, work):
    """The new state, block by block; 0 if it is finite."""
    P, n, R, wrong = len(state.mu), work_rows(prior, state, rows), state.Wt.shape[0], 0.0
    V = block(work.small[of.ROWS], n + 1, n + 1)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Z = block(work.blocks[of.X], n + 1, w), block(work.blocks[of.Y], n + 1, w)
        if P > work.width:
            load_rows(prior, state, rows, alpha, at, X)
            right_side(prior, state, g, at, X[n])
        if 2 * n <= 5 * R:
            combine(V, X, Z)
            wrong += settle(state, Z, Z[R:n], Z[n], alpha, at)
        else:  # X − VᵀVX with the kept rows of V has the same squares as the discarded rows
            E = block(work.blocks[of.Z], n, w)
            combine(V[n:], X, Z[R : R + 1])
            combine(V[:R], X, Z[:R])
            combine(np.ascontiguousarray(V[:R, :n].T), Z[:R], E)
            for i in range(n):
                for p in range(w):
                    E[i, p] = X[i, p] - E[i, p]
            wrong += settle(state, Z, E, Z[R], alpha, at)
    return wrong


@implement(step, DlrBong, DlrBlr)
def absorb(rule, prior, state, g, G, work):
    """Reference: dlr.bong_woodbury, where ``prior`` has no rows in Wt and α = 1, and
    dlr.blr_woodbury.

    μ += α (Υ̃ + W̃W̃ᵀ)⁻¹(right-hand side), then Υ̃ + W̃W̃ᵀ is projected to rank R.
    """
    n, alpha, code = work_rows(prior, state, G), rule.alpha, OK
    if not alpha <= 1.0 or measure(prior, state, g, G, alpha, work) > 0:
        return UNSUPPORTED
    code = project(prior, state, G, alpha, work)
    if code == OK:
        code = mean_coefficients(prior, state, n, alpha, work)
    if code == OK and not renew(prior, state, g, G, alpha, work) == 0.0:
        code = NOT_FINITE
    return code

"""bog and bbb in the DLR family (sec:DLR-deriv): gradient steps in (μ, Υ, W). Reference:
families.dlr.

Everything goes through R × R matrices from one pass over the parameters, and a second pass writes
the new state.
"""

from __future__ import annotations

from . import dlr_blocks as of
from . import small as algebra
from .dlr_blocks import DlrBbb, DlrBog, columns, inverse, weigh
from .generic import implement, step
from .jit import device
from .small import add_products, block, cholesky, combine, fill, inner, not_finite
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED
from .tuning import RUNAWAY


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
    algebra.solve_lower(M, R, E, R)
    algebra.solve_upper(M, R, E, R)
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


@device
def bog_measure(state, rows, work):
    """M = WᵀΥ⁻¹W and C = WᵀΥ⁻¹S; how many Υ are not positive."""
    P, R, K, below = len(state.mu), state.Wt.shape[0], rows.shape[0], 0
    M, C = block(work.small[of.GRAM], R, R), block(work.small[of.CROSS], R, K)
    fill(M, 0.0)
    fill(C, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        W, S = columns(state.Wt, at, w, work.blocks[of.X]), columns(rows, at, w, work.blocks[of.E])
        A, u = block(work.blocks[of.Y], R, w), work.few[of.U, :w]
        below += inverse(state.Ups, at, u)
        weigh(W, R, u, A)
        add_products(A, W, M, True)
        add_products(A, S, C, False)
    return below


@device
def bog_small(small, R, K):
    """WᵀB = EC with E = (I + WᵀΥ⁻¹W)⁻¹; -> status."""
    E = block(small[of.WEIGHTED], R, R)
    code = invert(block(small[of.GRAM], R, R), E)
    combine(E, block(small[of.CROSS], R, K), block(small[of.ANGLES], R, K))
    return code


@device
def bog_renew(state, g, rows, alpha, work):
    """The new state; 0 if it is finite."""
    P, R, K, wrong = len(state.mu), state.Wt.shape[0], rows.shape[0], 0.0
    EC = block(work.small[of.ANGLES], R, K)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        W, S = columns(state.Wt, at, w, work.blocks[of.X]), columns(rows, at, w, work.blocks[of.E])
        B, Z, u = block(work.blocks[of.Y], K, w), block(work.blocks[of.Z], R, w), work.few[of.U, :w]
        inverse(state.Ups, at, u)
        combine(EC.T, W, B)
        wrong += bog_block(state, g, S, B, u, alpha, at)
        combine(EC, B, Z)
        wrong += add_rows(Z, alpha, at, state.Wt)  # eq:bog-dlr-W, sec:DLR-deriv#38
    return wrong


@implement(step, DlrBog)
def bog(rule, prior, state, g, G, work):
    """Reference: dlr.bog_woodbury, with WᵀB = (I + WᵀΥ⁻¹W)⁻¹ WᵀΥ⁻¹S."""
    R, K = state.Wt.shape[0], G.shape[0]
    code = UNSUPPORTED if bog_measure(state, G, work) > 0 else bog_small(work.small, R, K)
    if code == OK and not bog_renew(state, g, G, rule.alpha, work) == 0.0:
        code = NOT_FINITE
    return code


# --- BBB ------------------------------------------------------------------------------------------


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
    mu, more = state.mu[at : at + w], g[at : at + w]
    m0, u0 = prior.mu[at : at + w], prior.Ups[at : at + w]
    for p in range(w):
        mu[p] += alpha * (u0[p] * (m0[p] - mu[p]) + side[p] + more[p])  # eq:bbb-dlr-mu, sec:DLR-deriv#40
        wrong += 0.0 * mu[p]
    return wrong


@device
def bbb_curvature(A, Z, NZ, u, a, half, Ups):
    """A block of Υ gains ½α diag Σ(Diag(Υ₀ − Υ) − WWᵀ)Σ; A = Υ⁻¹W, Z = ΣW, NZ = N ΣW by rows."""
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


@device
def bbb_measure(prior, state, rows, work):
    """M = WᵀΥ⁻¹W, N, C for W₀ and S, and W₀ᵀδ of :func:`bbb`; how many Υ are not positive."""
    P, R, below = len(state.mu), state.Wt.shape[0], 0
    K, dots = rows.shape[0], work.few[of.DOTS, :R]
    M, N = block(work.small[of.GRAM], R, R), block(work.small[of.ROWS], R, R)
    C0, CS = block(work.small[of.CROSS], R, R), block(work.small[of.ANGLES], R, K)
    fill(M, 0.0)
    fill(N, 0.0)
    fill(C0, 0.0)
    fill(CS, 0.0)
    dots[:] = 0.0
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        W = columns(state.Wt, at, w, work.blocks[of.X])
        W0 = columns(prior.Wt, at, w, work.blocks[of.Z])
        A, B = block(work.blocks[of.Y], R, w), block(work.blocks[of.E], R, w)
        u, a = work.few[of.U, :w], work.few[of.A, :w]
        below += bbb_weights(prior, state, at, u, a)
        weigh(W, R, u, A)
        add_products(A, W, M, True)
        add_products(A, W0, C0, False)
        add_products(A, columns(rows, at, w, work.blocks[of.E]), CS, False)
        difference(prior, state, at, work.few[of.D, :w])
        add_products(block(work.few[of.D], 1, w), W0, block(dots, 1, R), False)
        weigh(W, R, a, B)
        add_products(A, B, N, True)
    return below


@device
def bbb_small(small, R, K):
    """E and the coefficients L of :func:`bbb`; -> status."""
    E, L = block(small[of.WEIGHTED], R, R), block(small[of.EXTRA], R, 2 * R + K)
    code = invert(block(small[of.GRAM], R, R), E)
    C0, CS = block(small[of.CROSS], R, R), block(small[of.ANGLES], R, K)
    N = block(small[of.ROWS], R, R)
    bbb_coefficients(E, N, C0, CS, block(small[of.SPARE], R, R), L)
    return code


@device
def bbb_renew(prior, state, g, rows, alpha, work):
    """The new state; 0 if it is finite."""
    P, R, K, half, wrong = len(state.mu), state.Wt.shape[0], rows.shape[0], 0.5 * alpha, 0.0
    E, N = block(work.small[of.WEIGHTED], R, R), block(work.small[of.ROWS], R, R)
    L = block(work.small[of.EXTRA], R, 2 * R + K)
    C0, CS = block(work.small[of.CROSS], R, R), block(work.small[of.ANGLES], R, K)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        W0, side = columns(prior.Wt, at, w, work.blocks[of.E]), block(work.few[of.D], 1, w)
        A, e = block(work.blocks[of.Y], R, w), block(work.blocks[of.X], R, w)
        ZX = block(work.blocks[of.Z], 2 * R + K, w)
        u, a, Ups = work.few[of.U, :w], work.few[of.A, :w], state.Ups[at : at + w]
        combine(block(work.few[of.DOTS], 1, R), W0, side)
        wrong += bbb_mean(prior, state, g, alpha, at, side[0])
        bbb_weights(prior, state, at, u, a)
        weigh(columns(state.Wt, at, w, work.blocks[of.X]), R, u, A)
        combine(E, A, ZX[:R])
        combine(C0.T, ZX[:R], ZX[R : 2 * R])
        combine(CS.T, ZX[:R], ZX[2 * R :])
        combine(N, ZX[:R], e)
        bbb_curvature(A, ZX[:R], e, u, a, half, Ups)
        bbb_complete(W0, u, half, ZX[R : 2 * R], Ups)
        bbb_complete(columns(rows, at, w, work.blocks[of.E]), u, half, ZX[2 * R :], Ups)
        combine(L, ZX, e)
        wrong += bbb_add(e, ZX[:R], a, alpha, at, state.Wt) + not_finite(Ups)
    return wrong


@implement(step, DlrBbb)
def bbb(rule, prior, state, g, G, work):
    """Reference: dlr.bbb_woodbury.

    With A = Υ⁻¹W, E = (I + WᵀA)⁻¹, a = (Υ₀ − Υ)/Υ and N = Wᵀ Diag(a) A: ΣW = AE, ΣX = Υ⁻¹X − ΣW C
    with C = AᵀX for X = W₀ and S, WᵀΣX = EC, WᵀΣW = I − E, and Σ Diag(Υ₀ − Υ) ΣW = aΣW − ΣW N E
    (eq:bbb-dlr-Woodbury).
    """
    R, K = state.Wt.shape[0], G.shape[0]
    below = bbb_measure(prior, state, G, work)
    code = UNSUPPORTED if below > 0 else bbb_small(work.small, R, K)
    if code == OK and not bbb_renew(prior, state, g, G, rule.alpha, work) == 0.0:
        code = NOT_FINITE
    return code


@device
def bbb_coefficients(E, N, C0, CS, spare, L):
    """L = [E − I − E N, E C₀, E C_S]: the change of W by rows is α(L [ΣW, ΣW₀, ΣS] + a ΣW)."""
    R = len(E)
    combine(E, N, spare)
    for r in range(R):
        for k in range(R):
            L[r, k] = E[r, k] - (1.0 if r == k else 0.0) - spare[r, k]
            L[r, R + k] = inner(E[r], C0[:, k])
        for k in range(CS.shape[1]):
            L[r, 2 * R + k] = inner(E[r], CS[:, k])

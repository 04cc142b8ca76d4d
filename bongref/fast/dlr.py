r"""DLR (sec:DLR-deriv) in compiled code, for G = −S Sᵀ: samples, dynamics, and the state of a
stream. Reference: families.dlr.

W and S are kept by rows, Wt = Wᵀ (R, P) and rows = Sᵀ (K, P), so that every loop over the
parameters has unit stride. A step reads them twice, in blocks that stay in the second-level cache:
once for small matrices (products, some with weights 1/Υ), once for the new state, in place.

dlr_projection.py has bong and blr, dlr_gradient.py bog and bbb, dlr_blocks.py what they share.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..states import DLR
from . import dlr_blocks as of
from . import dlr_gradient, dlr_projection  # noqa: F401  their steps
from .dlr_blocks import DlrBbb, DlrBlr, DlrBog, DlrBong, State, load, weigh, workspace
from .generic import begin, implement, place, predict
from .jit import device
from .small import add_products, block, cholesky, combine, copy, fill, not_finite, solve_lower
from .status import NOT_FINITE, OK, UNSUPPORTED
from .tuning import SAMPLES

# --- samples --------------------------------------------------------------------------------------


@device
def noise_directions(At, R, D, gram):
    """Vᵀ in ``gram`` and D = 1/(h + h²), h = √(1 + Λ²), of A = Q Λ Vᵀ by rows; -> status.

    The eigenvectors of AᵀA serve where Λ is small; elsewhere the SVD keeps the digits of small Λ.
    """
    trace = 0.0
    fill(gram, 0.0)
    add_products(At, At, gram, True)
    for r in range(R):
        trace += gram[r, r]
    if not trace < math.inf:
        return NOT_FINITE
    if trace < 64.0:
        squares, V = np.linalg.eigh(gram.copy())
    else:
        V, sizes, _ = np.linalg.svd(At, False)
        squares = sizes * sizes
    for r in range(R):
        h = math.sqrt(1.0 + max(squares[r], 0.0))
        D[r] = 1.0 / (h + h * h)
        for i in range(R):
            gram[r, i] = V[i, r]
    return OK


@implement(place, DlrBong, DlrBlr, DlrBog, DlrBbb)
def place_dlr(rule, prior, state, z, work):
    """θ = μ + Υ^{-1/2}(z − (AV) D (AV)ᵀz), A = Υ^{-1/2}W = Q Λ Vᵀ. Reference: gaussians.place."""
    R, P, D = state.Wt.shape[0], len(state.mu), work.few[of.VALUES]
    root, At, AV = work.tall[0], work.tall[1 : 1 + R], work.tall[1 + R : 1 + 2 * R]
    V = block(work.small[of.NOISE], R, R)
    for p in range(P):
        if not state.Ups[p] > 0.0:
            return UNSUPPORTED
        root[p] = 1.0 / math.sqrt(state.Ups[p])
    weigh(state.Wt, R, root, At)
    code = noise_directions(At, R, D, V)
    if code != OK:
        return code
    combine(V, At, AV)
    for first in range(0, z.shape[0], SAMPLES):
        some = z[first : first + SAMPLES]
        m = some.shape[0]
        S, change = block(work.small[of.SPARE], m, R), work.tall[1 + 2 * R : 1 + 2 * R + m]
        fill(S, 0.0)
        add_products(some, AV, S, False)
        for k in range(m):
            for r in range(R):
                S[k, r] *= D[r]
        combine(S, AV, change)
        for k in range(m):
            theta, less = some[k], change[k]
            for p in range(P):
                theta[p] = state.mu[p] + (theta[p] - less[p]) * root[p]
    return OK


# --- dynamics -------------------------------------------------------------------------------------


class DlrLinear(NamedTuple):
    """Dynamics with diagonal F and Q."""

    F: Any  # (P,)
    b: Any  # (P,)
    Q: Any  # (P,)


@implement(predict, DlrLinear)
def predict_dlr(dynamics, state, work):
    """n = F² + QΥ, Υ' = Υ/n, W' = L⁻¹(F W/n), L Lᵀ = I + Wᵀ(Q/n)W. Reference: propagate."""
    P, R, some, wrong, f, q = len(state.mu), state.Wt.shape[0], 0, 0.0, dynamics.F, dynamics.Q
    E = block(work.small[of.NOISE], R, R)
    fill(E, 0.0)
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, Y, u = block(work.blocks[of.X], R, w), block(work.blocks[of.Y], R, w), work.few[of.U]
        for p in range(w):
            n = f[at + p] * f[at + p] + q[at + p] * state.Ups[at + p]
            u[p] = q[at + p] / n
            some += 0 if f[at + p] == 0.0 else 1
            wrong += 0.0 if n > 0.0 and state.Ups[at + p] > 0.0 else 1.0
        load(state.Wt, 1.0, at, X, 0)
        weigh(X, R, u, Y)
        add_products(X, Y, E, True)
    for r in range(R):
        E[r, r] += 1.0
    if wrong != 0.0 or some == 0 or not cholesky(E, R):
        return UNSUPPORTED
    for at in range(0, P, work.width):
        w = min(work.width, P - at)
        X, u = block(work.blocks[of.X], R, w), work.few[of.U]
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
            copy(X[r], state.Wt[r, at : at + w])
        wrong += not_finite(mu) + not_finite(Ups)
    return OK if wrong == 0.0 else NOT_FINITE


@implement(begin, DlrBlr, DlrBbb)
def begin_loop(rule, prior, state, work):
    """The prior of the inner loop."""
    copy(state.mu, prior.mu)
    copy(state.Ups, prior.Ups)
    for r in range(len(state.Wt)):
        copy(state.Wt[r], prior.Wt[r])
    return OK


RULES = {"bong": DlrBong, "blr": DlrBlr, "bog": DlrBog, "bbb": DlrBbb}


def start(
    rule: str, alpha: float, state: DLR, K: int, samples: bool = False
) -> tuple[Any, State, State, Any]:
    """(rule, prior, state, workspace) of a stream from ``state`` on, with K rows in each step."""
    (P, R), loop = state.W.shape, rule in ("blr", "bbb")
    Wt = np.array(np.transpose(state.W), dtype=float, order="C")
    now = State(np.array(state.mu, dtype=float), np.array(state.Ups, dtype=float), Wt)
    size = P if loop else 0
    prior = State(np.zeros(size), np.zeros(size), np.zeros((R if loop else 0, P)))
    return RULES[rule](float(alpha)), prior, now, workspace(P, R, K, rule, samples)


def finish(rule: Any, state: State, work: Any) -> DLR:
    """A copy of the state."""
    return DLR(state.mu.copy(), state.Ups.copy(), state.Wt.T.copy())

r"""Inner loops of blr and bbb in the full-covariance families with few rows, in Python around the
kernels of fc.py: q_{t,i} as a change of the prior in few directions. Reference: fc_nat, fc_mom.

The loop starts at the prior Σ₀, and an iterate differs from it only in the span of few vectors U
(k, P). Each is multiplied once, with A = Σ₀, or with A = Σ₀⁻¹ for bbb in moments: Z = UA, T = UZᵀ.
The rest are k × k matrices, and the covariance changes once, when the loop ends, by rows that are
deferred as in fc.py.

* blr: U are the rows of all iterations so far. In natural parameters Σ⁻¹ = Σ₀⁻¹ + UᵀDU with weights
  D; in moments Σ = Σ₀ + ZᵀCZ.
* bbb, with a single row in each iteration: U has orthonormal rows, and Σ⁻¹ (fc) or Σ (fc_mom) is
  that of the prior plus UᵀeU; with X = (I + eT)⁻¹ its inverse is A − Zᵀ(Xe)Z. An iteration brings
  the new row, and needs in its span what Z has: such vectors wait until the change along what is
  new in them is more than rounding.

Where a form would cost digits the status is UNSUPPORTED, and the reference takes the step.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..linalg import Array
from ..states import FC
from . import fc
from .fc import State, Workspace
from .generic import begin, end, implement, predict, step
from .jit import kernel
from .status import NOT_FINITE, NOT_POSITIVE_DEFINITE, OK, UNSUPPORTED
from .tuning import EPS, LOSS, NEGLIGIBLE, RENEWED, SHARP

BlrLoop = namedtuple("BlrLoop", "alpha")
BlrMomLoop = namedtuple("BlrMomLoop", "alpha")
BbbLoop = namedtuple("BbbLoop", "alpha")
BbbMomLoop = namedtuple("BbbMomLoop", "alpha")
_multiple: Any = kernel(fc.multiple)


class Loop:
    """What an inner loop keeps of the prior and of its iterations: the workspace."""

    mu0: Array  # (P,)
    U: Array  # (k, P)
    Z: Array  # (k, P): UA
    T: Array  # (k, k): UAUᵀ
    weights: Array  # (k,): √D of blr; w of bbb, μ = μ₀ − Zᵀw
    middle: Array  # (k, k): C of blr in moments, e of bbb
    factor: Any  # (k, k): a Cholesky factor of blr, X of bbb
    variances: Array  # (P,): diag Σ₀, for bbb
    waiting: list[int]  # rows of Z, or −1 for μ₀

    def __init__(self, most: int, few: Workspace):
        self.most, self.few = most, few  # vectors of a basis at most; buffers of fc.py
        self.inverse: Any = None  # State: Σ₀⁻¹ for bbb in moments
        self.age = RENEWED  # updates of that inverse

    def clear(self, mu: Array) -> None:
        """A loop without iterations that starts at a mean."""
        self.mu0, self.waiting = mu.copy(), []
        self.U, self.Z = np.zeros((2, 0, len(mu)))
        self.weights, (self.T, self.middle, self.factor) = np.zeros(0), np.zeros((3, 0, 0))


def _cholesky(A: Array) -> Array | None:
    """The lower Cholesky factor; None if A is not positive definite."""
    try:
        return np.linalg.cholesky(A) if np.isfinite(A).all() else None
    except np.linalg.LinAlgError:
        return None


def _grown(A: Array, n: int) -> Array:
    """A with rows and columns of zeros, (n, n)."""
    out = np.zeros((n, n))
    out[: len(A), : len(A)] = A
    return out


def _times(A: State, rows: Array, work: Loop) -> Array:
    """rows A."""
    out = np.empty_like(rows)
    fc.times_rows(A, rows, out, work.few)
    return out


def _lose(A: State, M: Array, rows: Array, work: Loop) -> None:
    """A loses rowsᵀ M rows, M symmetric, as signed squares of rows in its eigenvectors."""
    sizes, Q = np.linalg.eigh(0.5 * (M + M.T))
    fc.append(A, np.sqrt(np.abs(sizes))[:, None] * (Q.T @ rows), np.sign(sizes), work.few)


class Moved(NamedTuple):
    """Dynamics of a loop."""

    by: Any  # Diagonal or Full of fc.py


@implement(predict, Moved, host=True)
def predict_loop(dynamics: Moved, state: State, work: Loop) -> int:
    """Reference: dynamics.propagate."""
    work.age = RENEWED
    status: int = predict(dynamics.by, state, work.few)
    return status


# --- BLR ------------------------------------------------------------------------------------------


@implement(begin, BlrLoop, BlrMomLoop, host=True)
def begin_blr(rule: Any, prior: Any, state: State, work: Loop) -> int:
    """q_{t,0} = q_{t|t-1}. Reference: fc_nat.start, fc_mom.start."""
    work.clear(state.mu)
    return OK


def _take(state: State, g: Array, rows: Array, work: Loop) -> tuple[Array, Array]:
    """The new rows behind those so far, with their products; δ = μ_{t|t-1} − μ, and Σ₀g."""
    new = _times(state, rows, work)
    work.U, work.Z = np.vstack([work.U, rows]), np.vstack([work.Z, new])
    work.T = work.U @ work.Z.T
    work.T = 0.5 * (work.T + work.T.T)
    beta, parallel = _multiple(g, rows[0])
    along = beta * new[0] if len(rows) == 1 and parallel else _times(state, g[None], work)[0]
    return work.mu0 - state.mu, along


@implement(step, BlrLoop, host=True)
def blr(rule: Any, prior: Any, state: State, g: Array, G: Array, work: Loop) -> int:
    """Reference: fc_nat.blr_increment, with 0 < α ≤ 1."""
    if not rule.alpha <= 1:
        return UNSUPPORTED
    delta, along = _take(state, g, G, work)
    new = np.full(len(G), math.sqrt(rule.alpha))
    roots = np.concatenate([math.sqrt(1 - rule.alpha) * work.weights, new])  # eq:BLR-FC-Nat-prec
    work.weights = roots
    inside = roots[:, None] * work.T * roots
    if not np.max(np.diagonal(inside)) <= SHARP:
        return UNSUPPORTED if np.isfinite(inside).all() else NOT_FINITE
    work.factor = L = _cholesky(inside + np.eye(len(roots)))
    if L is None:
        return NOT_FINITE
    b = solve_triangular(L, roots * (work.U @ delta + work.Z @ g), lower=True, check_finite=False)
    b = roots * solve_triangular(L, b, lower=True, trans=1, check_finite=False)
    state.mu[:] += rule.alpha * (delta + along - b @ work.Z)  # eq:blr-FC-nat-mu, sec:FC-Nat#30
    return OK if np.isfinite(state.mu).all() else NOT_FINITE


@implement(end, BlrLoop, host=True)
def end_blr(rule: Any, prior: Any, state: State, work: Loop) -> int:
    """Reference: fc_nat.finish. Σ loses the squares of the rows L⁻¹√D Z."""
    scaled = work.weights[:, None] * work.Z
    V = solve_triangular(work.factor, scaled, lower=True, check_finite=False)
    fc.append(state, np.ascontiguousarray(V), np.ones(len(V)), work.few)  # eq:BLR-FC-Nat-prec, sec:FC-Nat#31
    return OK


@implement(step, BlrMomLoop, host=True)
def blr_mom(rule: Any, prior: Any, state: State, g: Array, G: Array, work: Loop) -> int:
    """Reference: fc_mom.blr_increment, is_valid_increment; α ≤ 1: C stays negative definite."""
    alpha, m = rule.alpha, len(work.U)
    if not alpha <= 1:
        return UNSUPPORTED
    delta, along = _take(state, g, G, work)
    k, b = len(work.U), work.middle @ (work.U[:m] @ delta + work.Z[:m] @ g)
    state.mu[:] += alpha * (delta + along + b @ work.Z[:m])  # eq:blr-FC-mom-mu, sec:FC-Mom#25
    N = np.vstack([work.middle @ work.T[:m], np.eye(k)[m:]])  # C YᵀZ; its last columns (I + CΣ) S
    M, new = N[:m, :m] @ work.middle, N[:, m:]
    grown = _grown((1 - alpha) * work.middle - 0.5 * alpha * (M + M.T), k)
    work.middle = grown - alpha * new @ new.T  # eq:blr-FC-mom-cov, sec:FC-Mom#26
    work.factor = L = _cholesky(-work.middle)
    if L is None or not np.isfinite(state.mu).all():
        return UNSUPPORTED if L is None else NOT_FINITE
    # Σ₀ + ZᵀCZ is positive definite exactly if I − LᵀTL is
    inside = np.eye(k) - L.T @ work.T @ L
    return OK if _cholesky(0.5 * (inside + inside.T)) is not None else NOT_POSITIVE_DEFINITE


@implement(end, BlrMomLoop, host=True)
def end_blr_mom(rule: Any, prior: Any, state: State, work: Loop) -> int:
    """Reference: fc_mom.finish. Σ loses the squares of the rows LᵀZ (sec:FC-Mom#26)."""
    fc.append(state, work.factor.T @ work.Z, np.ones(len(work.Z)), work.few)
    return OK


# --- BBB ------------------------------------------------------------------------------------------


def _directions(x: Array, work: Loop) -> tuple[Array, list[int]]:
    """U and directions of the waiting vectors and of x (Gram–Schmidt); whose each is, −2: x."""
    rows, brought = list(work.U), []
    for at in [*work.waiting, -2]:
        v = x if at == -2 else work.mu0 if at == -1 else work.Z[at]
        y, least = v, 64 * EPS * math.sqrt(v @ v)
        for _ in range(3):
            before, Q = math.sqrt(y @ y), np.reshape(rows, (-1, len(x)))
            y = y - (Q @ y) @ Q
            if 2 * math.sqrt(y @ y) > before:
                break
        if (size := math.sqrt(y @ y)) > least:
            rows.append(y / size)
            brought.append(at)
    return np.reshape(rows, (-1, len(x))), brought


def _extend(A: State, U: Array, brought: list[int], D: Array, moves: Array, work: Loop) -> Array:
    """The basis with the new directions along which D, the change of e, or ``moves``, that of the
    mean, are more than rounding; their indices. The vectors of the others go on waiting.
    """
    k, n, top = len(work.U), len(U), np.sum(fc.diagonal(A))
    sizes = np.sqrt(np.concatenate([np.diagonal(work.T), np.full(n - k, top)]))
    least = NEGLIGIBLE * np.max(np.abs(work.mu0))
    matter = (np.abs(D) @ sizes * math.sqrt(top) > NEGLIGIBLE) | (np.abs(moves) > least)
    matter[:k] = True
    kept = np.flatnonzero(matter)
    work.waiting = [at for at, m in zip(brought, matter[k:], strict=True) if not m and at > -2]
    work.waiting += range(k, len(kept))
    work.U = U[kept]
    work.Z = np.vstack([work.Z, _times(A, work.U[k:], work)])
    T = work.U @ work.Z.T
    work.T = 0.5 * (T + T.T)
    work.middle = _grown(work.middle, len(kept)) + D[np.ix_(kept, kept)]
    return kept


def _invert(sign: float, rows: Array, work: Loop) -> bool:
    """X = (I + eT)⁻¹; False if A⁻¹ + UᵀeU is not positive definite, or where the new variances,
    those of the prior plus sign · diag rowsᵀ(e or Xe)rows, would have lost digits.
    """
    L, k = _cholesky(work.T), len(work.T)
    if L is None or _cholesky(np.eye(k) + L.T @ work.middle @ L) is None:
        return False
    N = np.eye(k) + work.middle @ work.T
    work.factor = np.linalg.inv(N)
    spread = np.linalg.norm(N, 1) * np.linalg.norm(work.factor, 1)
    inner = work.middle if sign > 0 else work.factor @ work.middle
    change = sign * np.einsum("ip,ip->p", rows, inner @ rows)
    largest = max(np.max(work.variances), np.max(np.abs(change)))
    return bool(spread * largest <= LOSS * np.max(work.variances + change))


@implement(begin, BbbLoop, host=True)
def begin_bbb(rule: Any, prior: Any, state: State, work: Loop) -> int:
    """An empty basis; the mean waits."""
    work.clear(state.mu)
    work.waiting, work.variances = [-1], fc.diagonal(state)
    return OK


@implement(step, BbbLoop, host=True)
def bbb(rule: Any, prior: Any, state: State, g: Array, G: Array, work: Loop) -> int:
    """Reference: fc_nat.bbb. Σᵢ⁻¹ = Σ₀⁻¹ + UᵀeU, μᵢ = μ₀ − Zᵀw.

    With Σ = Σ₀ − ZᵀMZ, M = Xe: r = UΣ(g + Λ₀(μ₀ − μ)), v = UΣx, and Σ − ΣΛ₀Σ = Zᵀ(XeXᵀ)Z.
    """
    x, alpha, k = G[0], rule.alpha, len(work.U)
    (beta, parallel), Sx = _multiple(g, x), _times(state, G[:1], work)[0]
    if not (parallel and len(G) == 1 and np.isfinite(Sx).all()):
        return UNSUPPORTED
    U, brought = _directions(Sx, work)
    if len(U) > work.most:
        return UNSUPPORTED
    J, M, w, zx = U @ work.Z.T, work.factor @ work.middle, work.weights, work.Z @ x
    J[:k] = work.T
    a, Ux = U @ state.mu, U @ Sx
    v, r = Ux - J @ (M @ zx), beta * Ux + J @ (w - M @ (beta * zx + work.T @ w))
    total = (J @ M) @ (J @ work.factor).T
    D = np.outer(r, a) + np.outer(a, r) - np.outer(v, v) + 0.5 * (total + total.T)
    D = -2 * alpha * D  # eq:bbb-FC-nat-prec, sec:FC-Nat#43
    move = alpha * r - D @ a
    kept = _extend(state, U, brought, D, move * np.sum(work.variances), work)
    if not _invert(-1.0, work.Z, work):
        return UNSUPPORTED
    work.weights = np.concatenate([w, np.zeros(len(kept) - k)]) - work.factor @ move[kept]
    state.mu[:] = work.mu0 - work.weights @ work.Z  # eq:bbb-FC-nat-mu, sec:FC-Nat#42
    return OK if np.isfinite(state.mu).all() else UNSUPPORTED


@implement(end, BbbLoop, host=True)
def end_bbb(rule: Any, prior: Any, state: State, work: Loop) -> int:
    """Reference: fc_nat.bbb. Σ loses Zᵀ(Xe)Z (sec:FC-Nat#43)."""
    _lose(state, work.factor @ work.middle, work.Z, work)
    return OK


@implement(begin, BbbMomLoop, host=True)
def begin_bbb_mom(rule: Any, prior: Any, state: State, work: Loop) -> int:
    """An empty basis; Σ₀⁻¹ is recomputed where it is old, or where a prediction has changed Σ."""
    work.clear(state.mu)
    work.variances = fc.diagonal(state)
    if work.age >= RENEWED:
        try:
            inverse, work.age = np.linalg.inv(fc.finish_few(state, work.few).Sigma), 0
            of = FC(state.mu, 0.5 * (inverse + inverse.T))
            work.inverse = fc.covariance_state(of, len(state.V))
        except np.linalg.LinAlgError:
            work.inverse = None
    return OK


@implement(step, BbbMomLoop, host=True)
def bbb_mom(rule: Any, prior: Any, state: State, g: Array, G: Array, work: Loop) -> int:
    """Reference: fc_mom.bbb. Σᵢ = Σ₀ + UᵀeU, Σᵢ⁻¹ = Σ₀⁻¹ − Zᵀ(Xe)Z, Z = UΣ₀⁻¹."""
    x, alpha, k = G[0], rule.alpha, len(work.U)
    beta, parallel = _multiple(g, x)
    if not (parallel and len(G) == 1 and np.isfinite(x @ x) and work.inverse is not None):
        return UNSUPPORTED
    U, brought = _directions(x, work)
    if len(U) > work.most:
        return UNSUPPORTED
    J = U @ work.Z.T
    J[:k] = work.T
    delta, v, total = U @ (work.mu0 - state.mu), U @ x, J @ (work.factor @ work.middle) @ J.T
    D = -0.5 * alpha * (0.5 * (total + total.T) + np.outer(v, v))  # bbb-FC-mom-cov, sec:FC-Mom#34
    moves = alpha * np.sum(fc.diagonal(work.inverse)) * (np.abs(delta) + np.abs(alpha * beta * v))
    kept = _extend(work.inverse, U, brought, D, moves, work)
    valid = _invert(1.0, work.U, work)
    state.mu[:] += alpha * (g + delta[kept] @ work.Z)  # bbb-FC-mom-mu, sec:FC-Mom#33
    return OK if valid and np.isfinite(state.mu).all() else UNSUPPORTED


@implement(end, BbbMomLoop, host=True)
def end_bbb_mom(rule: Any, prior: Any, state: State, work: Loop) -> int:
    """Reference: fc_mom.bbb. Σ gains UᵀeU (sec:FC-Mom#34), its inverse loses Zᵀ(Xe)Z."""
    top = np.max(fc.diagonal(work.inverse))
    _lose(work.inverse, work.factor @ work.middle, work.Z, work)
    _lose(state, -work.middle, work.U, work)
    grown = np.max(fc.diagonal(work.inverse))
    work.age = work.age + 1 if top <= 2 * grown else RENEWED
    return OK

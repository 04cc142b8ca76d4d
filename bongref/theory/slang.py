"""SLANG as its paper defines it (Mishkin et al. 2018): θ ~ N(μ, (U Uᵀ + D)⁻¹).

    q = slang(q, grads, alpha, beta, n, lam, exact_eig)       # one iteration
    theta = slang_sample(q, eps)                              # a draw for the next gradients

W stands for U and Υ for D. :mod:`.batch` says how it differs from batch BLR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import checks
from ..errors import InvalidValue
from ..linalg import Array, cholesky, eye, qr, rowdot, solve, sqrt, thin_svd, woodbury_solve
from ..states import DLR
from .arguments import (
    FRACTION,
    FUNCTION,
    GENERATOR,
    NUMBER,
    POSITIVE,
    ROWS,
    VECTOR,
    array,
    checked,
    integer,
    state,
)

Number = Any  # a float, or an exact number


@checked(
    q=state(DLR), grads=ROWS, alpha=NUMBER, beta=FRACTION, n=POSITIVE, lam=NUMBER, eig=FUNCTION
)
def slang(
    q: DLR,
    grads: Array,
    alpha: Number,
    beta: Number,
    n: Number,
    lam: Number,
    eig: Callable[[Array, int], Array],
) -> DLR:
    """One iteration of SLANG; O((R+B) R P).

    The precision becomes (1−β)(U Uᵀ + D) + β((N/B) Σ g_i g_iᵀ + λI), its low-rank part is
    truncated to rank R by ``eig``, the diagonal absorbs the discarded part, and only then the mean
    is updated, with the truncated precision.

    Parameters
    ----------
    q : DLR
    grads : ndarray, shape (B, P)
        The gradients of −log p of the examples of a mini-batch at one θ ~ q.
    alpha, beta, n, lam
        As for :func:`von`.
    eig : callable
        :func:`exact_eig`, or :func:`fast_eig` with its ``rng`` bound.

    Returns
    -------
    DLR

    Examples
    --------
    >>> q = DLR(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    >>> grads = np.array([[-1.0, 0.0]])
    >>> slang(q, grads, 1.0, 1.0, n=1, lam=1.0, eig=exact_eig).mu.round(9).tolist()
    [0.5, 0.0]
    """
    rank, B = q.W.shape[1], len(grads)
    F = np.concatenate([sqrt(1 - beta) * q.W, sqrt(beta * n / B) * grads.T], axis=1)
    W = eig(F, rank)
    if np.ndim(W) != 2 or len(W) != len(F):
        raise InvalidValue(f"eig must return shape ({len(F)}, {rank}), got {checks.describe(W)}")
    discarded = rowdot(F, F) - rowdot(W, W)
    Ups = (1 - beta) * q.Ups + beta * lam + discarded
    ghat = n * grads.mean(axis=0)
    mu = q.mu - alpha * woodbury_solve(Ups, W, (ghat + lam * q.mu)[:, None])[:, 0]
    return DLR(mu, Ups, W)


@checked(F=array(2), rank=integer(1))
def exact_eig(F: Array, rank: int) -> Array:
    """V Λ^{1/2} of the top eigenpairs of F Fᵀ, from the SVD of F.

    Parameters
    ----------
    F : ndarray, shape (P, K)
    rank : int

    Returns
    -------
    ndarray, shape (P, rank)

    Examples
    --------
    >>> abs(exact_eig(np.diag([3.0, 2.0]), rank=1)).tolist()
    [[3.0], [0.0]]
    """
    U, s, _ = thin_svd(F)
    out: Array = U[:, :rank] * s[:rank]
    return out


@checked(F=array(2), rank=integer(1), rng=GENERATOR, n_iter=integer(0), extra=integer(0))
def fast_eig(
    F: Array, rank: int, rng: np.random.Generator, n_iter: int = 4, extra: int = 2
) -> Array:
    """The same by Halko's randomised subspace iteration; O((R+B) R P) for each iteration.

    F Fᵀ is applied to rank + extra random vectors. The result is exact to rounding where F has no
    more than rank + extra columns, as with one or two examples; else it needs a spectral gap.

    Parameters
    ----------
    F : ndarray, shape (P, K)
    rank : int
    rng : numpy.random.Generator
    n_iter, extra : int

    Returns
    -------
    ndarray, shape (P, rank)

    Examples
    --------
    >>> F = np.array([[3.0], [4.0]])
    >>> W = fast_eig(F, 1, np.random.default_rng(0))
    >>> np.allclose(W @ W.T, F @ F.T)
    True
    """
    Q = rng.uniform(-1, 1, (len(F), min(rank + extra, *F.shape)))
    for _ in range(n_iter):
        Q = qr(F @ (F.T @ Q))[0]
    U, s, _ = thin_svd(Q.T @ F)
    out: Array = (Q @ U[:, :rank]) * s[:rank]
    return out


@checked(q=state(DLR), eps=VECTOR)
def slang_sample(q: DLR, eps: Array) -> Array:
    """A draw θ = μ + D^{-1/2} (I + A X Aᵀ)⁻ᵀ ε with A = D^{-1/2} U; O(R² P).

    X is such that (I + A X Aᵀ)(I + A X Aᵀ)ᵀ = I + A Aᵀ: with Aᵀ A = L Lᵀ and I + Lᵀ L = M Mᵀ it is
    L⁻ᵀ (M − I) L⁻¹.

    Parameters
    ----------
    q : DLR
        With a W of full column rank.
    eps : ndarray, shape (P,)
        Standard normals.

    Returns
    -------
    ndarray, shape (P,)

    Examples
    --------
    >>> q = DLR(np.zeros(2), np.ones(2), np.array([[np.sqrt(3.0)], [0.0]]))
    >>> abs(slang_sample(q, np.ones(2))).round(9).tolist()      # standard deviations 1/2 and 1
    [0.5, 1.0]
    """
    A = q.W / sqrt(q.Ups)[:, None]
    L = cholesky(A.T @ A)
    Minv = solve(cholesky(eye(len(L)) + L.T @ L), eye(len(L)))
    # (I + A X Aᵀ)⁻¹ = I − A (X⁻¹ + L Lᵀ)⁻¹ Aᵀ = I − A L⁻ᵀ (I − M⁻¹) L⁻¹ Aᵀ
    Y = solve(L, A.T)
    theta: Array = q.mu + (eps - Y.T @ ((eye(len(L)) - Minv).T @ (Y @ eps))) / sqrt(q.Ups)
    return theta

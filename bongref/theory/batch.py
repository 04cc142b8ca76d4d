r"""Batch BLR (sec:blr-batch), the methods that it is compared with (VON, VOGN, SLANG), and IVON.

    q = batch.diag(q, br.Curv(g, d=diag_G), alpha, lam)       # one iteration of batch BLR
    q = batch.vogn(q, grads, alpha, beta, n, lam)             # one iteration of VOGN

In the batch setting the prior of every iteration is N(0, λ⁻¹I) and the likelihood is that of all N
examples, estimated from a mini-batch of B of them. The section puts that prior into the online
updates of BLR: ``fc``, ``fc_mom``, ``diag``, ``diag_mom`` and ``dlr`` below, pure functions
``(current, curv, alpha, lam)`` — q_{i-1}, (g, G), α, λ — that return q_i. As in the family modules,
the LIN-HESS rows are the same lines with g = HᵀR⁻¹(y−ŷ) and G = −HᵀR⁻¹H put in for (g, G). In DLR
the prior is Υ = λI, W = 0, so that the online form's block √α W_{t|t-1} vanishes, and W̃ has R + M
columns instead of 2R + M.

Then the methods as their own papers define them, on gradients of the mean NEGATIVE log-likelihood
of an example. ``python -m validation.originals`` compares them with their authors' own code.

=====  ======================  =====================================================================
name   paper                   in terms of batch BLR
=====  ======================  =====================================================================
VON    Khan et al. 2018        ``diag`` with MC-HESS and one sample, if both of its step sizes are α
       (Vadam)
VOGN   Khan et al. 2018        ``diag`` with the squares of single examples' gradients, which is
       (Vadam)                 MC-EF only if there is one example, N = B = 1
SLANG  Mishkin et al. 2018     the precision of ``dlr`` with the outer products of single examples'
                               gradients, exact where the eigenvectors are; another mean
IVON   Lin et al. 2020,        VON with a Hessian estimated from the gradient, and a term that keeps
       Shen et al. 2024        the precision positive: ``diag`` to first order in the step size
=====  ======================  =====================================================================

MC-EF on a mini-batch squares the SUM of its gradients, VOGN and SLANG sum the squares; and MC-EF on
N copies of one example grows with N², theirs with N. SLANG projects before it updates the mean,
batch BLR updates the mean with all R + B directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..curvature import Curv, dense, diagonal, factor, lin_ef, lin_hess
from ..families.dlr import project
from ..likelihoods import Likelihood
from ..linalg import (
    Array,
    cholesky,
    eye,
    inv,
    qr,
    rowdot,
    solve,
    sqrt,
    sym,
    thin_svd,
    woodbury_solve,
)
from ..states import DLR, FC, Diag
from .arguments import (
    CURV,
    FRACTION,
    FUNCTION,
    GENERATOR,
    LIKELIHOOD,
    MODEL,
    NONNEGATIVE,
    NUMBER,
    POSITIVE,
    ROWS,
    VECTOR,
    array,
    checked,
    instance,
    integer,
    state,
)

Number = Any  # a float, or an exact number

# --- the batch forms of BLR -----------------------------------------------------------------------


@checked(current=state(FC), curv=CURV, alpha=NUMBER, lam=NUMBER)
def fc(current: FC, curv: Curv, alpha: Number, lam: Number) -> FC:
    """Batch BLR-FC; O(P³).

    Parameters
    ----------
    current : FC
        q_{i-1}.
    curv : Curv
        g and G of the log-likelihood of all N examples at q_{i-1}.
    alpha : float
        The step size.
    lam : float
        The prior precision λ.

    Returns
    -------
    FC
        q_i.
    """
    prec0 = lam * eye(len(current.mu))
    Sigma = inv(
        (1 - alpha) * inv(current.Sigma) + alpha * (prec0 - dense(curv))
    )  # sec:blr-batch#2, sec:blr-batch#4
    mu = current.mu + alpha * Sigma @ (
        curv.g - lam * current.mu
    )  # sec:blr-batch#1, sec:blr-batch#3
    return FC(mu, Sigma)


@checked(current=state(FC), curv=CURV, alpha=NUMBER, lam=NUMBER)
def fc_mom(current: FC, curv: Curv, alpha: Number, lam: Number) -> FC:
    """Batch BLR-FC_MOM; O(P³).

    Parameters
    ----------
    current : FC
        q_{i-1}.
    curv : Curv
        g and G of the log-likelihood of all N examples at q_{i-1}.
    alpha : float
        The step size.
    lam : float
        The prior precision λ.

    Returns
    -------
    FC
        q_i.
    """
    S, prec0 = current.Sigma, lam * eye(len(current.mu))
    mu = current.mu + alpha * S @ (curv.g - lam * current.mu)  # sec:blr-batch#5, sec:blr-batch#7
    Sigma = (1 + alpha) * S + alpha * sym(
        S @ (dense(curv) - prec0) @ S
    )  # sec:blr-batch#6, sec:blr-batch#8
    return FC(mu, Sigma)


@checked(current=state(Diag), curv=CURV, alpha=NUMBER, lam=NUMBER)
def diag(current: Diag, curv: Curv, alpha: Number, lam: Number) -> Diag:
    """Batch BLR-DIAG; O(P). With MC-HESS and one sample it is VON with equal step sizes.

    Parameters
    ----------
    current : Diag
        q_{i-1}.
    curv : Curv
        g and G of the log-likelihood of all N examples at q_{i-1}.
    alpha : float
        The step size.
    lam : float
        The prior precision λ.

    Returns
    -------
    Diag
        q_i.
    """
    var = 1 / (
        (1 - alpha) / current.var + alpha * (lam - diagonal(curv))
    )  # sec:blr-batch#10, sec:blr-batch#12
    mu = current.mu + alpha * var * (curv.g - lam * current.mu)  # sec:blr-batch#9, sec:blr-batch#11
    return Diag(mu, var)


@checked(current=state(Diag), curv=CURV, alpha=NUMBER, lam=NUMBER)
def diag_mom(current: Diag, curv: Curv, alpha: Number, lam: Number) -> Diag:
    """Batch BLR-DIAG_MOM; O(P).

    Parameters
    ----------
    current : Diag
        q_{i-1}.
    curv : Curv
        g and G of the log-likelihood of all N examples at q_{i-1}.
    alpha : float
        The step size.
    lam : float
        The prior precision λ.

    Returns
    -------
    Diag
        q_i.
    """
    v = current.var
    mu = current.mu + alpha * v * (curv.g - lam * current.mu)  # sec:blr-batch#13, sec:blr-batch#15
    var = (1 + alpha) * v + alpha * v**2 * (
        diagonal(curv) - lam
    )  # sec:blr-batch#14, sec:blr-batch#16
    return Diag(mu, var)


@checked(current=state(DLR), curv=CURV, alpha=FRACTION, lam=NUMBER)
def dlr(current: DLR, curv: Curv, alpha: Number, lam: Number) -> DLR:
    """Batch BLR-DLR, the mean by the Woodbury identity; O((R+M)² P + (R+M)³).

    The identity is that of I_{R+M}, for LIN-HESS of I_{R+C}. The printed g_t is g_i (erratum
    slang-g); the row A_i = chol(R_i⁻¹) among the MC-EF rows is not used (erratum slang-A).

    Parameters
    ----------
    current : DLR
        q_{i-1}.
    curv : Curv
        g and G of the log-likelihood of all N examples at q_{i-1}.
    alpha : float
        The step size, 0 < α ≤ 1.
    lam : float
        The prior precision λ.

    Returns
    -------
    DLR
        q_i.
    """
    Ups_tilde = (1 - alpha) * current.Ups + alpha * lam  # sec:blr-batch#23, sec:blr-batch#30
    W_tilde = np.concatenate(
        [sqrt(1 - alpha) * current.W, sqrt(alpha) * factor(curv)], axis=1
    )  # eq:slang-Wtilde, sec:blr-batch#28
    b = (curv.g - lam * current.mu)[:, None]  # right-hand side of the mean update
    mu = (
        current.mu + alpha * woodbury_solve(Ups_tilde, W_tilde, b)[:, 0]
    )  # eq:slang-mu, sec:blr-batch#24
    # the projection: W, then Υ, from the SVD of W̃
    Ups, W = project(
        Ups_tilde, W_tilde, current.W.shape[1]
    )  # sec:blr-batch#18, sec:blr-batch#19, sec:blr-batch#20, sec:blr-batch#25, sec:blr-batch#26, sec:blr-batch#27
    return DLR(mu, Ups, W)


@checked(model=MODEL, lik=LIKELIHOOD, current=state(DLR), alpha=FRACTION, lam=NUMBER)
def slang_lin_hess(
    model: Any, lik: Likelihood, current: DLR, x: Any, y: Any, alpha: Number, lam: Number
) -> DLR:
    """SLANG-LIN-HESS, the section's name for batch BLR-LIN-HESS-DLR; O((R+C)² P + (R+C)³).

    Parameters
    ----------
    model : Model
    lik : Likelihood
    current : DLR
        q_{i-1}.
    x, y
        The data, as for :func:`bongref.curvature.lin_hess`.
    alpha, lam : float
        As for :func:`dlr`.

    Returns
    -------
    DLR
    """
    return dlr(current, lin_hess(model, lik, x, y, current.mu), alpha, lam)


@checked(model=MODEL, lik=LIKELIHOOD, current=state(DLR), alpha=FRACTION, lam=NUMBER)
def slang_lin_ef(
    model: Any, lik: Likelihood, current: DLR, x: Any, y: Any, alpha: Number, lam: Number
) -> DLR:
    """SLANG-LIN-EF, batch BLR-LIN-EF-DLR; O((R+1)² P).

    W̃ = [√(1−α) W, √α g] has R + 1 columns (erratum slang-lin-ef-size). Parameters as for
    :func:`slang_lin_hess`.
    """
    return dlr(current, lin_ef(model, lik, x, y, current.mu), alpha, lam)


# --- VON and VOGN: θ ~ N(μ, σ²), σ² = 1 / (N (s + λ/N)) ------------------------------------------


class Scaled(NamedTuple):
    """The state of VON and VOGN: mean and scale, s an average of the curvatures of examples."""

    mu: Array
    s: Array


@checked(q=state(Diag), n=POSITIVE, lam=NUMBER)
def to_scaled(q: Diag, n: Number, lam: Number) -> Scaled:
    """VON's state of a Gaussian: s = (σ⁻² − λ)/N for N examples and prior precision λ."""
    return Scaled(q.mu, (1 / q.var - lam) / n)


@checked(q=state(Scaled), n=POSITIVE, lam=NUMBER)
def from_scaled(q: Scaled, n: Number, lam: Number) -> Diag:
    """The Gaussian from which VON draws θ: σ² = 1/(N(s + λ/N))."""
    return Diag(q.mu, 1 / (n * (q.s + lam / n)))


@checked(
    q=state(Scaled), ghat=VECTOR, hhat=VECTOR, alpha=NUMBER, beta=NUMBER, n=POSITIVE, lam=NUMBER
)
def von(
    q: Scaled, ghat: Array, hhat: Array, alpha: Number, beta: Number, n: Number, lam: Number
) -> Scaled:
    """One iteration of variational online Newton; O(P).

    Parameters
    ----------
    q : Scaled
    ghat, hhat : ndarray, shape (P,)
        The mini-batch means of ∇ and diag ∇² of −log p at one θ ~ q.
    alpha, beta : float
        The step sizes of the mean and of the scale.
    n : int
        The number N of examples.
    lam : float
        The prior precision λ.

    Returns
    -------
    Scaled
    """
    s = (1 - beta) * q.s + beta * hhat
    mu = q.mu - alpha * (ghat + lam / n * q.mu) / (s + lam / n)
    return Scaled(mu, s)


@checked(q=state(Scaled), grads=ROWS, alpha=NUMBER, beta=NUMBER, n=POSITIVE, lam=NUMBER)
def vogn(q: Scaled, grads: Array, alpha: Number, beta: Number, n: Number, lam: Number) -> Scaled:
    """One iteration of variational online Gauss–Newton; O(BP).

    It is VON with the mean over the examples of g_i² in place of the Hessian.

    Parameters
    ----------
    q : Scaled
    grads : ndarray, shape (B, P)
        The gradients of −log p of the examples of a mini-batch at one θ ~ q.
    alpha, beta, n, lam
        As for :func:`von`.

    Returns
    -------
    Scaled

    Examples
    --------
    >>> q = to_scaled(Diag(np.zeros(1), np.ones(1)), n=2, lam=1.0)
    >>> vogn(q, np.array([[1.0], [3.0]]), alpha=0.5, beta=0.5, n=2, lam=1.0).s.tolist()
    [2.5]
    """
    return von(q, grads.mean(axis=0), (grads**2).mean(axis=0), alpha, beta, n, lam)


# --- IVON: VON with averaged gradients, whose precision stays positive ----------------------------


class Averaged(NamedTuple):
    """The state of IVON: that of VON, the running average of the gradients, the iterations."""

    mu: Array
    s: Array
    m: Array
    t: int


@checked(q=state(Diag), n=POSITIVE, lam=NUMBER)
def to_averaged(q: Diag, n: Number, lam: Number) -> Averaged:
    """IVON's state of a Gaussian before the first iteration: s as in VON, m = 0, t = 0."""
    return Averaged(q.mu, (1 / q.var - lam) / n, 0 * q.mu, 0)


@checked(
    q=instance(Averaged),
    theta=VECTOR,
    ghat=VECTOR,
    alpha=NUMBER,
    beta=NUMBER,
    n=POSITIVE,
    lam=NUMBER,
    momentum=NONNEGATIVE,
)
def ivon(
    q: Averaged,
    theta: Array,
    ghat: Array,
    alpha: Number,
    beta: Number,
    n: Number,
    lam: Number,
    momentum: Number = 0,
) -> Averaged:
    """One iteration of improved variational online Newton; O(P).

    The Hessian is estimated by Stein's identity, ĥ = ĝ (θ − μ)/σ², whose mean is E[diag ∇²]. With
    δ = λ/N the scale becomes s + β(ĥ − s) + β²(ĥ − s)²/(2(s + δ)), so that s + δ stays positive
    whatever ĥ is: (s + δ)(1 + r + r²/2) with r = β(ĥ − s)/(s + δ), and 1 + r + r²/2 ≥ 1/2.

    Parameters
    ----------
    q : Averaged
    theta : ndarray, shape (P,)
        A draw from N(μ, σ²), σ² = 1/(N(s + λ/N)).
    ghat : ndarray, shape (P,)
        The mini-batch mean of ∇(−log p) at ``theta``.
    alpha, beta : float
        The step sizes of the mean and of the scale.
    n : int
        The number N of examples.
    lam : float
        The prior precision λ.
    momentum : float
        The weight of the old average of the gradients, 0 ≤ momentum < 1.

    Returns
    -------
    Averaged

    Examples
    --------
    >>> q = to_averaged(Diag(np.zeros(1), np.ones(1)), n=2, lam=1.0)
    >>> ivon(q, np.ones(1), np.ones(1), alpha=0.5, beta=0.5, n=2, lam=1.0).s.tolist()
    [0.75]
    """
    delta = lam / n
    hhat = ghat * (theta - q.mu) * n * (q.s + delta)
    m, t = momentum * q.m + (1 - momentum) * ghat, q.t + 1
    s = (1 - beta) * q.s + beta * hhat + beta**2 * (q.s - hhat) ** 2 / (2 * (q.s + delta))
    mu = q.mu - alpha * (m / (1 - momentum**t) + delta * q.mu) / (s + delta)
    return Averaged(mu, s, m, t)


# --- SLANG: θ ~ N(μ, (U Uᵀ + D)⁻¹), here W for U and Υ for D -------------------------------------


@checked(q=state(DLR), grads=ROWS, alpha=NUMBER, beta=NUMBER, n=POSITIVE, lam=NUMBER, eig=FUNCTION)
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
    """
    rank, B = q.W.shape[1], len(grads)
    F = np.concatenate([sqrt(1 - beta) * q.W, sqrt(beta * n / B) * grads.T], axis=1)
    W = eig(F, rank)
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
    """
    A = q.W / sqrt(q.Ups)[:, None]
    L = cholesky(A.T @ A)
    Minv = solve(cholesky(eye(len(L)) + L.T @ L), eye(len(L)))
    # (I + A X Aᵀ)⁻¹ = I − A (X⁻¹ + L Lᵀ)⁻¹ Aᵀ = I − A L⁻ᵀ (I − M⁻¹) L⁻¹ Aᵀ
    Y = solve(L, A.T)
    theta: Array = q.mu + (eps - Y.T @ ((eye(len(L)) - Minv).T @ (Y @ eps))) / sqrt(q.Ups)
    return theta

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

from typing import Any, NamedTuple

import numpy as np

from ..curvature import Curv, dense, diagonal, factor, lin_ef, lin_hess
from ..families.dlr import project
from ..likelihoods import Likelihood
from ..linalg import (
    Array,
    eye,
    inv,
    sqrt,
    sym,
    woodbury_solve,
)
from ..states import DLR, FC, Diag
from .arguments import (
    CURV,
    FRACTION,
    LIKELIHOOD,
    MODEL,
    NONNEGATIVE,
    NUMBER,
    POSITIVE,
    ROWS,
    VECTOR,
    checked,
    instance,
    observed,
    state,
)
from .slang import exact_eig, fast_eig, slang, slang_sample

__all__ = [
    "Averaged",
    "Scaled",
    "diag",
    "diag_mom",
    "dlr",
    "exact_eig",
    "fast_eig",
    "fc",
    "fc_mom",
    "from_scaled",
    "ivon",
    "slang",
    "slang_lin_ef",
    "slang_lin_hess",
    "slang_sample",
    "to_averaged",
    "to_scaled",
    "vogn",
    "von",
]

Number = Any  # a float, or an exact number

# --- the batch forms of BLR -----------------------------------------------------------------------


@checked(current=state(FC), curv=CURV, alpha=FRACTION, lam=NUMBER)
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

    Examples
    --------
    >>> q, curv = FC(np.zeros(1), np.eye(1)), Curv(np.ones(1), G=-np.eye(1))
    >>> fc(q, curv, alpha=1.0, lam=1.0).Sigma.round(9).tolist()      # 1/(λ − G)
    [[0.5]]
    """
    prec0 = lam * eye(len(current.mu))
    Sigma = inv(
        (1 - alpha) * inv(current.Sigma) + alpha * (prec0 - dense(curv))
    )  # sec:blr-batch#2, sec:blr-batch#4
    mu = current.mu + alpha * Sigma @ (
        curv.g - lam * current.mu
    )  # sec:blr-batch#1, sec:blr-batch#3
    return FC(mu, Sigma)


@checked(current=state(FC), curv=CURV, alpha=FRACTION, lam=NUMBER)
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

    Examples
    --------
    >>> q, curv = FC(np.zeros(1), np.eye(1)), Curv(np.ones(1), G=-np.eye(1))
    >>> fc_mom(q, curv, alpha=0.5, lam=1.0).mu.tolist()
    [0.5]
    """
    S, prec0 = current.Sigma, lam * eye(len(current.mu))
    mu = current.mu + alpha * S @ (curv.g - lam * current.mu)  # sec:blr-batch#5, sec:blr-batch#7
    Sigma = (1 + alpha) * S + alpha * sym(
        S @ (dense(curv) - prec0) @ S
    )  # sec:blr-batch#6, sec:blr-batch#8
    return FC(mu, Sigma)


@checked(current=state(Diag), curv=CURV, alpha=FRACTION, lam=NUMBER)
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

    Examples
    --------
    >>> q, curv = Diag(np.zeros(1), np.ones(1)), Curv(np.ones(1), d=-np.ones(1))
    >>> diag(q, curv, alpha=1.0, lam=1.0).var.tolist()      # 1/(λ − d)
    [0.5]
    """
    var = 1 / (
        (1 - alpha) / current.var + alpha * (lam - diagonal(curv))
    )  # sec:blr-batch#10, sec:blr-batch#12
    mu = current.mu + alpha * var * (curv.g - lam * current.mu)  # sec:blr-batch#9, sec:blr-batch#11
    return Diag(mu, var)


@checked(current=state(Diag), curv=CURV, alpha=FRACTION, lam=NUMBER)
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

    Examples
    --------
    >>> q, curv = Diag(np.zeros(1), np.ones(1)), Curv(np.ones(1), d=-np.ones(1))
    >>> diag_mom(q, curv, alpha=0.5, lam=1.0).mu.tolist()
    [0.5]
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

    Examples
    --------
    >>> q = DLR(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    >>> curv = Curv(np.array([1.0, 0.0]), S=np.array([[1.0], [0.0]]))
    >>> dlr(q, curv, alpha=1.0, lam=1.0).mu.round(9).tolist()
    [0.5, 0.0]
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

    Examples
    --------
    >>> import bongref as br
    >>> q = DLR(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    >>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(1.0)
    >>> slang_lin_hess(model, lik, q, [1.0, 0.0], 1.0, alpha=1.0, lam=1.0).mu.round(9).tolist()
    [0.5, 0.0]
    """
    x, y = observed(model, lik, x, y, current.mu)
    return dlr(current, lin_hess(model, lik, x, y, current.mu), alpha, lam)


@checked(model=MODEL, lik=LIKELIHOOD, current=state(DLR), alpha=FRACTION, lam=NUMBER)
def slang_lin_ef(
    model: Any, lik: Likelihood, current: DLR, x: Any, y: Any, alpha: Number, lam: Number
) -> DLR:
    """SLANG-LIN-EF, batch BLR-LIN-EF-DLR; O((R+1)² P).

    W̃ = [√(1−α) W, √α g] has R + 1 columns (erratum slang-lin-ef-size).

    Parameters
    ----------
    model, lik, current, x, y, alpha, lam
        As for :func:`slang_lin_hess`.

    Returns
    -------
    DLR

    Examples
    --------
    >>> import bongref as br
    >>> q = DLR(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    >>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(1.0)
    >>> slang_lin_ef(model, lik, q, [1.0, 0.0], 1.0, alpha=1.0, lam=1.0).mu.round(9).tolist()
    [0.5, 0.0]
    """
    x, y = observed(model, lik, x, y, current.mu)
    return dlr(current, lin_ef(model, lik, x, y, current.mu), alpha, lam)


# --- VON and VOGN: θ ~ N(μ, σ²), σ² = 1 / (N (s + λ/N)) ------------------------------------------


class Scaled(NamedTuple):
    """The state of VON and VOGN.

    Attributes
    ----------
    mu : ndarray, shape (P,)
        The mean.
    s : ndarray, shape (P,)
        The scale, an average of the curvatures of examples.

    Examples
    --------
    >>> Scaled(mu=np.zeros(1), s=np.ones(1)).s
    array([1.])
    """

    mu: Array
    s: Array


@checked(q=state(Diag), n=POSITIVE, lam=NUMBER)
def to_scaled(q: Diag, n: Number, lam: Number) -> Scaled:
    """VON's state of a Gaussian, s = (σ⁻² − λ)/N.

    Parameters
    ----------
    q : Diag
    n : int
        The number N of examples.
    lam : float
        The prior precision λ.

    Returns
    -------
    Scaled

    Examples
    --------
    >>> to_scaled(Diag(np.zeros(1), np.array([0.2])), n=2, lam=1.0).s
    array([2.])
    """
    return Scaled(q.mu, (1 / q.var - lam) / n)


@checked(q=state(Scaled), n=POSITIVE, lam=NUMBER)
def from_scaled(q: Scaled, n: Number, lam: Number) -> Diag:
    """The Gaussian from which VON draws θ, σ² = 1/(N(s + λ/N)).

    Parameters
    ----------
    q : Scaled
    n : int
        The number N of examples.
    lam : float
        The prior precision λ.

    Returns
    -------
    Diag

    Examples
    --------
    >>> from_scaled(Scaled(np.zeros(1), np.array([2.0])), n=2, lam=1.0).var
    array([0.2])
    """
    return Diag(q.mu, 1 / (n * (q.s + lam / n)))


@checked(
    q=state(Scaled), ghat=VECTOR, hhat=VECTOR, alpha=NUMBER, beta=FRACTION, n=POSITIVE, lam=NUMBER
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

    Examples
    --------
    >>> q, one = Scaled(np.zeros(1), np.zeros(1)), np.ones(1)
    >>> von(q, one, one, alpha=0.5, beta=0.5, n=2, lam=1.0).mu      # −α ĝ/(s + λ/N)
    array([-0.5])
    """
    s = (1 - beta) * q.s + beta * hhat
    mu = q.mu - alpha * (ghat + lam / n * q.mu) / (s + lam / n)
    return Scaled(mu, s)


@checked(q=state(Scaled), grads=ROWS, alpha=NUMBER, beta=FRACTION, n=POSITIVE, lam=NUMBER)
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
    """The state of IVON.

    Attributes
    ----------
    mu, s : ndarray, shape (P,)
        As in :class:`Scaled`.
    m : ndarray, shape (P,)
        The running average of the gradients.
    t : int
        The number of iterations.

    Examples
    --------
    >>> Averaged(np.zeros(1), np.ones(1), np.zeros(1), 0).t
    0
    """

    mu: Array
    s: Array
    m: Array
    t: int


@checked(q=state(Diag), n=POSITIVE, lam=NUMBER)
def to_averaged(q: Diag, n: Number, lam: Number) -> Averaged:
    """IVON's state of a Gaussian before the first iteration: s as in VON, m = 0, t = 0.

    Parameters
    ----------
    q : Diag
    n : int
        The number N of examples.
    lam : float
        The prior precision λ.

    Returns
    -------
    Averaged

    Examples
    --------
    >>> to_averaged(Diag(np.zeros(1), np.array([0.2])), n=2, lam=1.0).s
    array([2.])
    """
    return Averaged(q.mu, (1 / q.var - lam) / n, 0 * q.mu, 0)


@checked(
    q=instance(Averaged),
    theta=VECTOR,
    ghat=VECTOR,
    alpha=NUMBER,
    beta=FRACTION,
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

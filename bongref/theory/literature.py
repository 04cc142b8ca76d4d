r"""The literature's filters that the paper finds among its methods, as their papers define them.

    lin = br.curvature.linearise(model, lik, x, y, prior.mu)
    literature.vd_ekf(prior, lin)                     # the VD-EKF's posterior after one observation
    br.method("lo-fi", rank=10)                       # an alias: the same number by number

Everything here is written from those definitions, in small dense NumPy, and uses no family module,
so that the comparison is of two independent codes. A filter takes the prior and what it needs of
one observation — the linearised ones a :class:`~bongref.curvature.Lin`, (ŷ, H, R, e) at the prior's
mean — and returns the posterior.

=======  =========================  ================================================================
name     paper                      verdict
=======  =========================  ================================================================
rvga     Lambert, Bonnabel,         explicit scheme = bong-*-fc with the Hessian, so
         Bach 2021                  ``bong-mc-hess-fc`` when sampled. tab:methods has the name in
                                    the mc-ef cell, whose G is another matrix
cm-ekf   Tronarp et al. 2018;       = ``bong-lin-hess-fc``
         Ollivier 2018
lo-fi    Chang et al. 2023          diagonal version = ``bong-lin-hess-dlr``; the spherical one
                                    drops the singular columns that the SVD discards
vd-ekf   Chang, Murphy, Jones 2022  as the KL projection of its abstract: the variance of
                                    ``bong-lin-hess-diag``, another mean
l-rvga   Lambert, Bonnabel,         its projection is factor analysis by EM
         Bach 2023                  (:func:`factor_analysis`), nearer in KL than the SVD
von …    Khan et al. 2018,          batch methods: see :mod:`bongref.theory.batch`
         Mishkin et al. 2018
bbb      Blundell et al. 2015       softplus and sampled gradients: other numbers than
                                    ``bbb-mc-*-diag_mom``
=======  =========================  ================================================================

``ALIASES`` has the names under which a method of this package is the literature's, number by
number; ``NOT_ALIASES`` the others, with the cell in which the paper has them and the difference.

The softmax: with C classes in C one-hot outputs, R = diag(p) − ppᵀ is singular, and so is R + HΣHᵀ,
so that neither the Kalman form nor R⁻¹ exists. The definitions need a minimal statistic, which
C − 1 of the outputs are (:func:`minimal`): then all of them exist, and equal what this package
computes from a factor of R. Published code adds 10⁻³ I to R instead, which is another filter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..curvature import Lin
from ..errors import InvalidValue
from ..linalg import Array, cholesky, finite, inv, solve, thin_svd
from ..states import DLR, FC, Diag
from .aliases import ALIASES, NOT_ALIASES, Alias, NotAlias, aliases
from .arguments import (
    FRACTION,
    FUNCTION,
    LIN,
    MATRIX,
    NONNEGATIVE,
    NUMBER,
    VECTOR,
    array,
    checked,
    integer,
    state,
)
from .rvga import logistic, rvga, rvga_implicit, sampled

__all__ = [
    "ALIASES",
    "NOT_ALIASES",
    "Alias",
    "NotAlias",
    "Softplus",
    "aliases",
    "bbb",
    "cm_ekf",
    "factor_analysis",
    "fd_ekf",
    "from_softplus",
    "lofi",
    "lofi_predict",
    "lofi_spherical",
    "logistic",
    "minimal",
    "natural_gradient",
    "rvga",
    "rvga_implicit",
    "sampled",
    "to_softplus",
    "vd_ekf",
]

# --- the EKF of conditional moments ---------------------------------------------------------------


@checked(lin=LIN)
def minimal(lin: Lin) -> Lin:
    """The first C − 1 of C one-hot outputs, whose variance is not singular.

    Parameters
    ----------
    lin : Lin
        A softmax linearised, with C outputs.

    Returns
    -------
    Lin
        With C − 1 outputs.

    Examples
    --------
    >>> p = np.array([0.5, 0.5])
    >>> minimal(Lin(p, np.eye(2), np.diag(p) - np.outer(p, p), np.array([0.5, -0.5]))).R
    array([[0.25]])
    """
    return Lin(lin.yhat[:-1], lin.H[:-1], lin.R[:-1, :-1], lin.e[:-1])


def _gain(P: Array, lin: Lin) -> Array:
    """K = P Hᵀ (H P Hᵀ + R)⁻¹."""
    K: Array = finite(solve(lin.H @ P @ lin.H.T + lin.R, lin.H @ P)).T
    return K


@checked(prior=state(FC), lin=LIN)
def cm_ekf(prior: FC, lin: Lin) -> FC:
    """The EKF of conditional moments: h(θ) = E[y|θ] and R(θ) = V[y|θ] at the prior's mean.

    The Kalman update, with the covariance as P − K S Kᵀ.

    Parameters
    ----------
    prior : FC
    lin : Lin
        The model linearised at ``prior.mu``.

    Returns
    -------
    FC

    Examples
    --------
    >>> one, I = np.ones(1), np.eye(1)
    >>> q = cm_ekf(FC(0 * one, I), Lin(yhat=0 * one, H=I, R=I, e=one))
    >>> q.mu.tolist(), q.Sigma.tolist()
    ([0.5], [[0.5]])
    """
    K = _gain(prior.Sigma, lin)
    S = lin.H @ prior.Sigma @ lin.H.T + lin.R
    return FC(prior.mu + K @ lin.e, prior.Sigma - K @ S @ K.T)


@checked(lin=LIN, theta=VECTOR, J=MATRIX, rate=FRACTION)
def natural_gradient(theta: Array, J: Array, lin: Lin, rate: float) -> tuple[Array, Array]:
    """One step of Ollivier's online natural gradient.

    J ← (1−γ) J + γ I(θ), θ ← θ + γ J⁻¹ ∇log p, with I(θ) = HᵀR⁻¹H the Fisher matrix of y. With
    γ_t = 1/(t+1) it is :func:`cm_ekf` with P_t = J_t⁻¹/(t+1).

    Parameters
    ----------
    theta : ndarray, shape (P,)
    J : ndarray, shape (P, P)
    lin : Lin
        The model linearised at ``theta``.
    rate : float
        γ.

    Returns
    -------
    theta : ndarray, shape (P,)
    J : ndarray, shape (P, P)

    Examples
    --------
    >>> one, I = np.ones(1), np.eye(1)
    >>> natural_gradient(0 * one, I, Lin(yhat=0 * one, H=I, R=I, e=one), rate=0.5)
    (array([0.5]), array([[1.]]))
    """
    RH = finite(solve(lin.R, lin.H))
    J = (1 - rate) * J + rate * lin.H.T @ RH
    return theta + rate * finite(solve(J, RH.T @ lin.e)), J


# --- diagonal EKFs --------------------------------------------------------------------------------


@checked(prior=state(Diag), lin=LIN)
def vd_ekf(prior: Diag, lin: Lin) -> Diag:
    """Variational diagonal EKF: the diagonal q with the smallest KL(q | p).

    p is the EKF's posterior; q has its mean and its marginal PRECISIONS.

    Parameters
    ----------
    prior : Diag
    lin : Lin
        The model linearised at ``prior.mu``.

    Returns
    -------
    Diag

    Examples
    --------
    >>> one, I = np.ones(1), np.eye(1)
    >>> q = vd_ekf(Diag(0 * one, one), Lin(yhat=0 * one, H=I, R=I, e=one))
    >>> q.mu.tolist(), q.var.tolist()
    ([0.5], [0.5])
    """
    mu = prior.mu + _gain(np.diag(prior.var), lin) @ lin.e
    prec = 1 / prior.var + np.diag(lin.H.T @ finite(solve(lin.R, lin.H)))
    return Diag(mu, 1 / prec)


@checked(prior=state(Diag), lin=LIN)
def fd_ekf(prior: Diag, lin: Lin) -> Diag:
    """Fully decoupled EKF: the diagonal q with the smallest KL(p | q).

    p is the EKF's posterior; q has its mean and its marginal VARIANCES.

    Parameters
    ----------
    prior : Diag
    lin : Lin
        The model linearised at ``prior.mu``.

    Returns
    -------
    Diag

    Examples
    --------
    >>> one, I = np.ones(1), np.eye(1)
    >>> q = fd_ekf(Diag(0 * one, one), Lin(yhat=0 * one, H=I, R=I, e=one))
    >>> q.mu.tolist(), q.var.tolist()
    ([0.5], [0.5])
    """
    K = _gain(np.diag(prior.var), lin)
    return Diag(prior.mu + K @ lin.e, prior.var - np.diag(K @ lin.H) * prior.var)


# --- LO-FI ----------------------------------------------------------------------------------------


@checked(prior=state(DLR), lin=LIN)
def lofi(prior: DLR, lin: Lin) -> DLR:
    """LO-FI with a diagonal Υ.

    W̃ = [W, HᵀAᵀ]; the mean by the gain of Υ + W̃W̃ᵀ; then the SVD, and Υ absorbs the discarded
    columns.

    Parameters
    ----------
    prior : DLR
    lin : Lin
        The model linearised at ``prior.mu``.

    Returns
    -------
    DLR

    Examples
    --------
    >>> prior = DLR(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    >>> lin = Lin(yhat=np.zeros(1), H=np.array([[1.0, 0.0]]), R=np.eye(1), e=np.ones(1))
    >>> lofi(prior, lin).mu.round(9).tolist()
    [0.5, 0.0]
    """
    u, s, W_tilde = _lofi_svd(prior, lin)
    rank, M = prior.W.shape[1], W_tilde / prior.Ups[:, None]
    HRe = lin.H.T @ finite(solve(lin.R, lin.e))
    inner = finite(inv(np.eye(W_tilde.shape[1]) + W_tilde.T @ M))
    mu = prior.mu + HRe / prior.Ups - M @ (inner @ (M.T @ HRe))
    discarded = u[:, rank:] * s[rank:]
    return DLR(mu, prior.Ups + np.sum(discarded**2, axis=1), u[:, :rank] * s[:rank])


@checked(prior=state(DLR), lin=LIN)
def lofi_spherical(prior: DLR, lin: Lin) -> DLR:
    """LO-FI with Υ = ηI: the gain from the singular values; the discarded columns are dropped.

    Parameters
    ----------
    prior : DLR
    lin : Lin
        The model linearised at ``prior.mu``.

    Returns
    -------
    DLR

    Examples
    --------
    >>> prior = DLR(np.zeros(2), np.ones(2), np.zeros((2, 1)))
    >>> lin = Lin(yhat=np.zeros(1), H=np.array([[1.0, 0.0]]), R=np.eye(1), e=np.ones(1))
    >>> lofi_spherical(prior, lin).mu.round(9).tolist()
    [0.5, 0.0]
    """
    u, s, _ = _lofi_svd(prior, lin)
    rank, eta = prior.W.shape[1], prior.Ups[0]
    HRe = lin.H.T @ finite(solve(lin.R, lin.e))
    mu = prior.mu + HRe / eta - u @ (s**2 / (eta**2 + eta * s**2) * (u.T @ HRe))
    return DLR(mu, prior.Ups, u[:, :rank] * s[:rank])


def _lofi_svd(prior: DLR, lin: Lin) -> tuple[Array, Array, Array]:
    A = finite(solve(cholesky(lin.R), np.eye(len(lin.R))))  # AᵀA = R⁻¹
    W_tilde = np.hstack([prior.W, lin.H.T @ A.T])
    u, s, _ = thin_svd(W_tilde)
    return u, s, W_tilde


@checked(Ups_tilde=array(1), W_tilde=array(2), W0=array(2), n_iter=integer(0))
def factor_analysis(
    Ups_tilde: Array, W_tilde: Array, W0: Array, n_iter: int = 10
) -> tuple[Array, Array]:
    """L-RVGA's projection of Υ̃ + W̃W̃ᵀ to a diagonal plus low rank: factor analysis by EM.

    With the precision as the covariance S of a factor model, one EM iteration is
    β = Wᵀ(Υ + WWᵀ)⁻¹, W ← Sβᵀ(I − βW + βSβᵀ)⁻¹, Υ ← diag(S − WβS). No iteration raises
    KL(N(0, S) | N(0, Υ + WWᵀ)), whereas the SVD of W̃ keeps diag S and minimises no KL. O(P³) here.

    Parameters
    ----------
    Ups_tilde : ndarray, shape (P,)
    W_tilde : ndarray, shape (P, K)
    W0 : ndarray, shape (P, R)
        Where W starts; Υ starts at ``Ups_tilde``.
    n_iter : int

    Returns
    -------
    Ups : ndarray, shape (P,)
    W : ndarray, shape (P, R)

    Examples
    --------
    >>> Ups, W = np.array([1.0, 2.0]), np.array([[1.0], [0.5]])
    >>> kept, factor = factor_analysis(Ups, W, W)      # of rank 1 already: a fixed point
    >>> np.allclose(kept, Ups), np.allclose(factor, W)
    (True, True)
    """
    P = len(Ups_tilde)
    for name, W in (("W_tilde", W_tilde), ("W0", W0)):
        if len(W) != P:
            raise InvalidValue(f"{name} must have shape ({P}, any), got {W.shape}")
    S = np.diag(Ups_tilde) + W_tilde @ W_tilde.T
    Ups, W = Ups_tilde, W0
    for _ in range(n_iter):
        beta = finite(solve(np.diag(Ups) + W @ W.T, W)).T
        W = finite(solve(np.eye(W.shape[1]) - beta @ W + beta @ S @ beta.T, beta @ S)).T
        Ups = np.diag(S - W @ beta @ S)
    return Ups, W


@checked(q=state(DLR), gamma=FRACTION, noise=NONNEGATIVE)
def lofi_predict(q: DLR, gamma: float, noise: float) -> DLR:
    """LO-FI's prediction for θ_t = γ θ_{t-1} + N(0, noise I).

    Parameters
    ----------
    q : DLR
    gamma, noise : float

    Returns
    -------
    DLR

    Examples
    --------
    >>> q = DLR(np.ones(1), np.ones(1), np.zeros((1, 1)))
    >>> lofi_predict(q, gamma=0.5, noise=0.75).Ups      # 1/(γ² + noise)
    array([1.])
    """
    Ups = 1 / (gamma**2 / q.Ups + noise)
    V = (Ups / q.Ups)[:, None] * q.W
    C = finite(inv(np.eye(q.W.shape[1]) + noise * q.W.T @ V))
    return DLR(gamma * q.mu, Ups, gamma * V @ cholesky(C))


# --- Bayes by backprop ----------------------------------------------------------------------------


class Softplus(NamedTuple):
    """The state of Bayes by backprop: θ = μ + σ ε with σ = log(1 + exp(ρ)).

    Attributes
    ----------
    mu, rho : ndarray, shape (P,)

    Examples
    --------
    >>> q = from_softplus(Softplus(mu=np.zeros(1), rho=np.zeros(1)))
    >>> np.sqrt(q.var).round(6)      # log 2
    array([0.693147])
    """

    mu: Array
    rho: Array


@checked(q=state(Softplus))
def from_softplus(q: Softplus) -> Diag:
    """The Gaussian with σ² = log(1 + exp(ρ))².

    Parameters
    ----------
    q : Softplus

    Returns
    -------
    Diag

    Examples
    --------
    >>> from_softplus(to_softplus(Diag(np.zeros(1), np.array([4.0])))).var.round(9)
    array([4.])
    """
    return Diag(q.mu, np.logaddexp(0, q.rho) ** 2)


@checked(q=state(Diag))
def to_softplus(q: Diag) -> Softplus:
    """The state of Bayes by backprop with ρ = log(exp(σ) − 1).

    Parameters
    ----------
    q : Diag

    Returns
    -------
    Softplus

    Examples
    --------
    >>> to_softplus(Diag(np.zeros(1), np.ones(1))).rho.round(6)      # log(e − 1)
    array([0.541325])
    """
    std = np.sqrt(q.var)
    return Softplus(q.mu, std + np.log(-np.expm1(-std)))


@checked(q=state(Softplus), prior=state(Diag), score=FUNCTION, eps=VECTOR, alpha=NUMBER)
def bbb(
    q: Softplus, prior: Diag, score: Callable[[Array], Array], eps: Array, alpha: float
) -> Softplus:
    """One step of Bayes by backprop with one ε.

    Down the gradient of f = log q(θ|μ,ρ) − log prior(θ) − log p(y|θ):
    Δμ = ∂f/∂θ + ∂f/∂μ,  Δρ = ∂f/∂θ ∘ ε / (1 + exp(−ρ)) + ∂f/∂ρ.

    Parameters
    ----------
    q : Softplus
    prior : Diag
    score : callable
        θ -> ∇ log p(y|θ), shape (P,).
    eps : ndarray, shape (P,)
        Standard normals.
    alpha : float
        The learning rate.

    Returns
    -------
    Softplus

    Examples
    --------
    >>> prior = Diag(np.zeros(1), np.ones(1))
    >>> q = bbb(to_softplus(prior), prior, lambda theta: np.ones(1), np.zeros(1), alpha=0.1)
    >>> q.mu.round(9).tolist()
    [0.1]
    """
    std, slope = np.logaddexp(0, q.rho), 1 / (1 + np.exp(-q.rho))
    theta = q.mu + std * eps
    d_theta = -eps / std + (theta - prior.mu) / prior.var - score(theta)
    d_mu = eps / std
    d_rho = slope * (eps**2 - 1) / std
    mu = q.mu - alpha * (d_theta + d_mu)
    return Softplus(mu, q.rho - alpha * (d_theta * eps * slope + d_rho))

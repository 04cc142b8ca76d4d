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
from typing import Any, NamedTuple

import numpy as np

from ..curvature import Lin
from ..linalg import Array, cholesky, finite, inv, solve, thin_svd
from ..states import DLR, FC, Diag
from .arguments import (
    FUNCTION,
    LIKELIHOOD,
    LIN,
    MODEL,
    NUMBER,
    POSITIVE,
    VECTOR,
    array,
    checked,
    integer,
    state,
)

Expectation = Callable[[FC], tuple[Array, Array]]  # q -> E_q[∇ log p], E_q[∇² log p]

# --- R-VGA ----------------------------------------------------------------------------------------


@checked(prior=state(FC), expect=FUNCTION)
def rvga(prior: FC, expect: Expectation) -> FC:
    """R-VGA's explicit scheme: both expectations under the prior.

    P_t⁻¹ = P_{t-1}⁻¹ − E_{q_{t-1}}[∇² log p],  μ_t = μ_{t-1} + P_t E_{q_{t-1}}[∇ log p]: the mean
    is updated with the NEW covariance P_t.

    Parameters
    ----------
    prior : FC
    expect : callable
        q -> (E_q[∇ log p], E_q[∇² log p]), for example of :func:`sampled` or :func:`logistic`.

    Returns
    -------
    FC

    Examples
    --------
    >>> prior = FC(np.zeros(1), np.eye(1))
    >>> rvga(prior, logistic(np.ones(1), 1.0)).mu.round(4).tolist()
    [0.4126]
    """
    g, G = expect(prior)
    P = finite(inv(inv(prior.Sigma) - G))
    return FC(prior.mu + P @ g, P)


@checked(prior=state(FC), expect=FUNCTION, tol=POSITIVE, max_iter=integer(1))
def rvga_implicit(prior: FC, expect: Expectation, tol: float = 1e-13, max_iter: int = 500) -> FC:
    """R-VGA's implicit scheme, which minimises KL(q_t | prior × likelihood).

    P_t⁻¹ = P_{t-1}⁻¹ − E_{q_t}[∇² log p],  μ_t = μ_{t-1} + P_{t-1} E_{q_t}[∇ log p]: both
    expectations under q_t, the mean updated with P_{t-1}. Solved by Newton's iteration on the
    second equation with the first put in, until the mean moves by less than ``tol`` standard
    deviations.

    Parameters
    ----------
    prior : FC
    expect : callable
        As for :func:`rvga`.
    tol : float
    max_iter : int

    Returns
    -------
    FC

    Raises
    ------
    ArithmeticError
        If it does not converge.
    """
    prec0, q, change = finite(inv(prior.Sigma)), prior, np.inf
    for _ in range(max_iter):
        g, G = expect(q)
        P = finite(inv(prec0 - G))
        step = P @ (prec0 @ (prior.mu - q.mu) + g)
        moved = float(np.max(np.abs(P - q.Sigma)) / np.max(np.abs(P)))
        change = max(_size(step, q.Sigma), moved)
        q = FC(q.mu + step, P)
        if change < tol:
            return q
    raise ArithmeticError(
        f"the implicit scheme did not converge in {max_iter} iterations; last change {change:.3g}"
    )


def _size(step: Array, P: Array) -> float:
    return float(np.max(np.abs(step) / np.sqrt(np.diag(P))))


@checked(model=MODEL, lik=LIKELIHOOD, z=array(2))
def sampled(model: Any, lik: Any, x: Array, y: Array, z: Array) -> Expectation:
    """Expectations of the derivatives of log p(y | x, θ) as means over θ = μ + L z, Σ = L Lᵀ.

    Parameters
    ----------
    model : Model
    lik : Likelihood
    x, y : ndarray, shapes (D,) and (C,)
        One observation, y encoded.
    z : ndarray, shape (M, P)
        Standard normals, the same for every q.

    Returns
    -------
    callable
        q -> (E_q[∇ log p], E_q[∇² log p]).
    """
    from autograd import numpy as anp

    from ..models import grad, hessian

    def ell(theta: Any) -> Any:
        return anp.sum(lik.log_prob(model(theta, x), y))

    def expect(q: FC) -> tuple[Array, Array]:
        thetas = q.mu + z @ cholesky(q.Sigma).T
        g = np.mean([grad(ell)(t) for t in thetas], axis=0)
        return g, np.mean([hessian(ell)(t) for t in thetas], axis=0)

    return expect


@checked(x=array(1), y=NUMBER)
def logistic(x: Array, y: float) -> Expectation:
    """Expectations for logistic regression in R-VGA's closed form.

    log σ(±θᵀx) with a probit in place of σ: k = β/√(β² + xᵀPx), β = √(8/π).

    Parameters
    ----------
    x : ndarray, shape (P,)
    y : float
        0 or 1.

    Returns
    -------
    callable
        q -> (E_q[∇ log p], E_q[∇² log p]).
    """

    def expect(q: FC) -> tuple[Array, Array]:
        k = np.sqrt(8 / np.pi) / np.sqrt(8 / np.pi + x @ q.Sigma @ x)
        p = 1 / (1 + np.exp(-k * (x @ q.mu)))
        return (y - p) * x, -k * p * (1 - p) * np.outer(x, x)

    return expect


# --- the EKF of conditional moments ---------------------------------------------------------------


@checked(lin=LIN)
def minimal(lin: Lin) -> Lin:
    """The first C − 1 of C one-hot outputs, whose variance is not singular."""
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
    """
    K = _gain(prior.Sigma, lin)
    S = lin.H @ prior.Sigma @ lin.H.T + lin.R
    return FC(prior.mu + K @ lin.e, prior.Sigma - K @ S @ K.T)


@checked(theta=array(1), J=array(2), lin=LIN, rate=NUMBER)
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


@checked(Ups_tilde=VECTOR, W_tilde=array(2), W0=array(2), n_iter=integer(0))
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
    """
    S = np.diag(Ups_tilde) + W_tilde @ W_tilde.T
    Ups, W = Ups_tilde, W0
    for _ in range(n_iter):
        beta = finite(solve(np.diag(Ups) + W @ W.T, W)).T
        W = finite(solve(np.eye(W.shape[1]) - beta @ W + beta @ S @ beta.T, beta @ S)).T
        Ups = np.diag(S - W @ beta @ S)
    return Ups, W


@checked(q=state(DLR), gamma=NUMBER, noise=NUMBER)
def lofi_predict(q: DLR, gamma: float, noise: float) -> DLR:
    """LO-FI's prediction for θ_t = γ θ_{t-1} + N(0, noise I).

    Parameters
    ----------
    q : DLR
    gamma, noise : float

    Returns
    -------
    DLR
    """
    Ups = 1 / (gamma**2 / q.Ups + noise)
    V = (Ups / q.Ups)[:, None] * q.W
    C = finite(inv(np.eye(q.W.shape[1]) + noise * q.W.T @ V))
    return DLR(gamma * q.mu, Ups, gamma * V @ cholesky(C))


# --- Bayes by backprop ----------------------------------------------------------------------------


class Softplus(NamedTuple):
    """The state of Bayes by backprop: θ = μ + σ ε with σ = log(1 + exp(ρ))."""

    mu: Array
    rho: Array


@checked(q=state(Softplus))
def from_softplus(q: Softplus) -> Diag:
    """σ² = log(1 + exp(ρ))²."""
    return Diag(q.mu, np.logaddexp(0, q.rho) ** 2)


@checked(q=state(Diag))
def to_softplus(q: Diag) -> Softplus:
    """ρ = log(exp(σ) − 1)."""
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
    """
    std, slope = np.logaddexp(0, q.rho), 1 / (1 + np.exp(-q.rho))
    theta = q.mu + std * eps
    d_theta = -eps / std + (theta - prior.mu) / prior.var - score(theta)
    d_mu = eps / std
    d_rho = slope * (eps**2 - 1) / std
    mu = q.mu - alpha * (d_theta + d_mu)
    return Softplus(mu, q.rho - alpha * (d_theta * eps * slope + d_rho))


# --- the verdicts ---------------------------------------------------------------------------------


class Alias(NamedTuple):
    """A method of this package that is the literature's, and the parameters that the name fixes."""

    method: str
    params: dict[str, Any]


class NotAlias(NamedTuple):
    """The cell in which the paper has the name, what differs, and by how much.

    The tests find at least the relative difference ``gap`` in ``quantity``.
    """

    cell: str
    reason: str
    quantity: str
    gap: float


ALIASES: dict[str, Alias] = {
    "rvga": Alias("bong-mc-hess-fc", {}),
    "cm-ekf": Alias("bong-lin-hess-fc", {}),
    "lo-fi": Alias("bong-lin-hess-dlr", {}),
}

NOT_ALIASES: dict[str, NotAlias] = {
    "vd-ekf": NotAlias(
        "bong-lin-hess-diag",
        "VD-EKF projects the EKF's posterior, so its mean is mu + K e with K = v H^T (R + H v "
        "H^T)^-1; bong-lin-hess-diag moves it by the new variances alone, v_t H^T R^-1 e. The "
        "variances are equal. The means are equal where H^T R^-1 H is diagonal, as with one "
        "parameter. Use bongref.theory.literature.vd_ekf",
        "mu",
        0.1,
    ),
    "von": NotAlias(
        "blr-mc-ef-diag",
        "VON is a batch method with the Hessian: bongref.theory.batch.diag with mc-hess and one "
        "sample, if its two step sizes are equal; the table has it in the mc-ef row, the text of "
        "sec:blr-batch in mc-hess. Use bongref.theory.batch.von",
        "var",
        0.05,
    ),
    "vogn": NotAlias(
        "blr-mc-ef-diag",
        "VOGN sums the squares of the gradients of single examples, mc-ef squares their sum, and "
        "it grows with N, not N^2: equal if there is one example. Use bongref.theory.batch.vogn",
        "var",
        0.05,
    ),
    "slang": NotAlias(
        "blr-mc-ef-dlr",
        "SLANG sums outer products over examples as VOGN does, and moves the mean after the "
        "projection: for one example the precision is equal, the mean only if nothing is cut "
        "off. Use bongref.theory.batch.slang",
        "mu",
        0.01,
    ),
    "bbb": NotAlias(
        "bbb-mc-ef-diag_mom",
        "Blundell et al. step in rho with sigma = log(1 + exp(rho)), by the gradient of a "
        "sampled loss through theta = mu + sigma eps, KL term included; bbb-*-diag_mom steps in "
        "sigma^2 with the exact KL and Price's theorem. Use bongref.theory.literature.bbb",
        "var",
        0.01,
    ),
}


def aliases() -> dict[str, Alias]:
    """The names of the literature under which a method of this package goes, number by number."""
    return dict(ALIASES)

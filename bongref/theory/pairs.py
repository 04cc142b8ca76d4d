r"""The conjugate pairs of :mod:`bongref.theory.conjugate`: a likelihood and its conjugate prior.

    PAIRS["beta-bernoulli"]                              # six of them, with a prior to start from
    gamma_poisson(prior=[2.0, 1.0])                      # or with another prior

A pair is a record of functions: the statistic and the log-partition of the prior, the
log-likelihood, its expectation in closed form, the nodes of a quadrature rule, and the textbook's
posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp, primitive

from ..linalg import Array, cholesky, finite, inv, logdet, solve
from ..paper import eq
from ..special import gammaln, polygamma
from .arguments import FUNCTION, ITERATES, NUMBER, POSITIVE, array, checked, integer

DROP = 38.0  # the trapezoidal rule ends where the log-density has fallen by this: e^-38 < eps

Function = Callable[..., Any]


class Grid(NamedTuple):
    """Nodes of a quadrature rule over θ, and the logarithm of the volume that each stands for.

    Attributes
    ----------
    theta : ndarray, shape (n, D)
    log_volume : ndarray, shape (n,)

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> pair.grid(pair.prior).theta.shape[1]
    1
    """

    theta: Array  # (n, D)
    log_volume: Array  # (n,)


class Pair(NamedTuple):
    """A likelihood and the prior that is its conjugate.

    Attributes
    ----------
    T : callable
        θ (n, D) -> (n, K), the statistic of the prior.
    Phi : callable
        ψ (K,) -> log ∫ exp(ψᵀT(θ)) dθ, for autograd.
    loglik : callable
        (y, θ (n, D)) -> log p(y|θ), (n,), as textbooks print it.
    tau : callable
        y -> (K,), with log p(y|θ) = τᵀT(θ) − b(y).
    expected : callable
        (ψ, y) -> E_q[log p(y|θ)] in closed form, for autograd.
    grid : callable
        ψ -> Grid
    textbook : callable
        (ψ, y) -> ψ of the posterior, by the rule for the usual parameters.
    sample : callable
        (rng, n) -> n observations.
    prior : ndarray, shape (K,)
        A ψ to start from.

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> pair.textbook(pair.prior, np.array([3.0])).tolist()
    [5.0, 2.0]
    """

    T: Function  # θ (n, D) -> (n, K): the statistic of the prior
    Phi: Function  # ψ (K,) -> log ∫ exp(ψᵀT(θ)) dθ, for autograd
    loglik: Function  # y, θ (n, D) -> log p(y|θ) (n,), as textbooks print it
    tau: Function  # y -> (K,): log p(y|θ) = τᵀT(θ) − b(y)
    expected: Function  # ψ, y -> E_q[log p(y|θ)] in closed form, for autograd
    grid: Function  # ψ -> Grid
    textbook: Function  # ψ, y -> ψ of the posterior, by the rule for the usual parameters
    sample: Function  # rng, n -> n observations
    prior: Array  # a ψ to start from


@eq("eq:conjugate-likelihood")
def _counted(y: Array) -> Array:
    """τ = [y; 1]: the log-likelihood θᵀy − A(θ) in terms of T = [θ; −A(θ)]."""
    return np.append(y, 1.0)  # sec:proofs#8, sec:proofs#9


# --- the special functions and the quadrature -----------------------------------------------------


@primitive  # type: ignore[untyped-decorator, unused-ignore]
def log_gamma(x: Any, k: int = 0) -> Any:
    """The k-th derivative of log Γ: log Γ, digamma, trigamma, ..."""
    return gammaln(x) if k == 0 else polygamma(k - 1, x)


defvjp(log_gamma, lambda ans, x, k=0: lambda g: g * log_gamma(x, k + 1), argnums=(0,))


@checked(u=ITERATES)
def softplus(u: Any) -> Any:
    """log(1 + e^u).

    Parameters
    ----------
    u : array_like

    Returns
    -------
    ndarray

    Examples
    --------
    >>> round(float(softplus(0.0)), 6)      # log 2
    0.693147
    """
    return np.logaddexp(0, u)


_FAR = np.geomspace(1e-4, 1e3, 400)


@checked(kernel=FUNCTION, mode=NUMBER, sd=POSITIVE)
def line(kernel: Function, mode: float, sd: float) -> tuple[Array, float]:
    """Nodes and spacing of the trapezoidal rule for a concave log-density on the line.

    The spacing h is at most 1/5 and sd/2. By Poisson's summation formula the rule is off by the
    characteristic function of u at 2π/h: |Γ(a + 2πi/h)|/Γ(a) for u = log λ, λ ~ Gamma(a, ·), and
    the product of two of these for the logit of a beta. From a = 1 on that is below
    e⁻³³ < 32 eps, mostly far below.

    Parameters
    ----------
    kernel : callable
        The log-density up to a constant, of an array.
    mode, sd : float
        Its mode and its standard deviation.

    Returns
    -------
    u : ndarray, shape (n,)
    h : float

    Examples
    --------
    >>> u, h = line(lambda u: -(u**2) / 2, mode=0.0, sd=1.0)
    >>> round(float(np.sum(np.exp(-(u**2) / 2)) * h / math.sqrt(2 * math.pi)), 9)
    1.0
    """
    with np.errstate(over="ignore"):
        left, right = (
            _FAR[np.argmax(kernel(mode + sign * _FAR) < kernel(mode) - DROP)] for sign in (-1, 1)
        )
    n = math.ceil((left + right) / min(0.2, sd / 2)) + 1
    u, h = np.linspace(mode - left, mode + right, n, retstep=True)
    return u, float(h)


@checked(a=POSITIVE, b=POSITIVE)
def beta_line(a: float, b: float) -> tuple[Array, float]:
    """Nodes and spacing in u = logit v for v ~ Beta(a, b).

    Parameters
    ----------
    a, b : float

    Returns
    -------
    u : ndarray, shape (n,)
    h : float

    Examples
    --------
    >>> u, h = beta_line(2.0, 2.0)
    >>> h <= 0.2
    True
    """

    def kernel(u: Any) -> Any:
        return -a * softplus(-u) - b * softplus(u)

    return line(kernel, math.log(a / b), math.sqrt(1 / a + 1 / b))


@checked(a=POSITIVE, b=POSITIVE)
def gamma_line(a: float, b: float) -> tuple[Array, float]:
    """Nodes and spacing in u = log λ for λ ~ Gamma(shape a, rate b).

    Parameters
    ----------
    a, b : float

    Returns
    -------
    u : ndarray, shape (n,)
    h : float

    Examples
    --------
    >>> u, h = gamma_line(2.0, 1.0)
    >>> h <= 0.2
    True
    """

    def kernel(u: Any) -> Any:
        return a * u - b * np.exp(u)

    return line(kernel, math.log(a / b), math.sqrt(1 / a))


def _normal_grid(mean: Array, cov: Array) -> Grid:
    """mean + L z with L Lᵀ = cov and z on a square grid of spacing ⅔.

    It is the trapezoidal rule; its error is e^{−2π²/h²} = e^{−44}.
    """
    z = np.arange(-13, 14) * (2 / 3)
    L = cholesky(cov)
    zs = np.stack([a.ravel() for a in np.meshgrid(*[z] * len(mean), indexing="ij")], axis=1)
    volume = len(mean) * math.log(2 / 3) + np.sum(np.log(np.diag(L)))
    return Grid(mean + zs @ L.T, np.full(len(zs), volume))


# --- the pairs ------------------------------------------------------------------------------------


@checked(R=array(2), prior=array(1))
def gaussian_mean(R: Any, prior: Any) -> Pair:
    """y ~ N(m, R), R known; θ = R⁻¹m, A(θ) = ½θᵀRθ, and m ~ N(χ/ν, R/ν).

    Parameters
    ----------
    R : array_like, shape (D, D)
        The covariance of y.
    prior : array_like, shape (D + 1,)
        A ψ to start from.

    Returns
    -------
    Pair

    Examples
    --------
    >>> pair = gaussian_mean([[2.0]], prior=[0.0, 1.0])
    >>> pair.textbook(pair.prior, np.array([3.0])).round(9).tolist()      # [χ + y, ν + 1]
    [3.0, 2.0]
    """
    R = np.asarray(R, dtype=float)
    D, prec, log_det = len(R), finite(inv(R)), logdet(R)
    half_log = (D * math.log(2 * math.pi) + log_det) / 2

    def Phi(psi: Any) -> Any:
        chi, nu = psi[:-1], psi[-1]
        quadratic = anp.dot(chi, anp.dot(prec, chi)) / (2 * nu)
        return quadratic + D * anp.log(2 * math.pi / nu) / 2 - log_det / 2

    def expected(psi: Any, y: Any) -> Any:
        e, nu = y - psi[:-1] / psi[-1], psi[-1]
        return -(anp.dot(e, anp.dot(prec, e)) + D / nu) / 2 - half_log

    def textbook(psi: Any, y: Any) -> Any:
        m, V = psi[:-1] / psi[-1], R / psi[-1]
        gain = V @ finite(inv(V + R))
        m, V = m + gain @ (y - m), V - gain @ V
        return np.append(R @ finite(solve(V, m)), R[0, 0] / V[0, 0])

    def sample(rng: Any, n: int) -> Any:
        noise = rng.standard_normal((n, D)) @ cholesky(R).T
        return np.linspace(-1, 2, D) + noise

    def loglik(y: Any, theta: Any) -> Any:
        e = y - theta @ R
        return -np.sum(e @ prec * e, axis=1) / 2 - half_log

    return Pair(
        T=lambda theta: np.column_stack([theta, -np.sum(theta @ R * theta, axis=1) / 2]),
        Phi=Phi,
        loglik=loglik,
        tau=_counted,
        expected=expected,
        grid=lambda psi: _normal_grid(prec @ psi[:-1] / psi[-1], prec / psi[-1]),
        textbook=textbook,
        sample=sample,
        prior=np.asarray(prior, dtype=float),
    )


@checked(prior=array(1))
def dirichlet_categorical(prior: Any) -> Pair:
    """y one-hot in K classes without its last entry; θ_k = log p_k/p_K, A(θ) = log(1 + Σe^θ).

    K = 2 is beta-bernoulli. The nodes are those of stick-breaking: with v_k = σ(u_k),
    p_k = v_k Π_{j<k}(1 − v_j), and the volume dθ is du.

    Parameters
    ----------
    prior : array_like, shape (K,)
        A ψ to start from.

    Returns
    -------
    Pair

    Examples
    --------
    >>> pair = dirichlet_categorical([1.0, 1.0, 3.0])
    >>> pair.textbook(pair.prior, np.array([0.0, 1.0])).tolist()
    [1.0, 2.0, 4.0]
    """
    K = len(prior)

    def alpha(psi: Any) -> Any:
        return anp.append(psi[:-1], psi[-1] - anp.sum(psi[:-1]))

    def log_p(theta: Any) -> Any:
        full = np.column_stack([theta, np.zeros(len(theta))])
        top = full.max(axis=1, keepdims=True)
        return full - top - np.log(np.sum(np.exp(full - top), axis=1, keepdims=True))

    def expected(psi: Any, y: Any) -> Any:
        counts = np.append(y, 1 - np.sum(y))
        return anp.sum(counts * (log_gamma(alpha(psi), 1) - log_gamma(psi[-1], 1)))

    def grid(psi: Any) -> Any:
        a = alpha(psi)
        rest = np.cumsum(a[::-1])[::-1][1:]
        lines = [beta_line(*ab) for ab in zip(a[:-1], rest, strict=True)]
        u = np.stack(
            [x.ravel() for x in np.meshgrid(*[x for x, _ in lines], indexing="ij")], axis=1
        )
        beyond = np.cumsum(softplus(u[:, :0:-1]), axis=1)[:, ::-1]  # −Σ_{j>k} log(1 − v_j)
        theta = u + np.column_stack([beyond, np.zeros(len(u))])
        return Grid(theta, np.full(len(u), sum(math.log(h) for _, h in lines)))

    def textbook(psi: Any, y: Any) -> Any:
        a = alpha(psi) + np.append(y, 1 - np.sum(y))
        return np.append(a[:-1], np.sum(a))

    truth = np.arange(1, K + 1) / np.sum(np.arange(1, K + 1))
    return Pair(
        T=lambda theta: np.column_stack([theta, log_p(theta)[:, -1]]),
        Phi=lambda psi: anp.sum(log_gamma(alpha(psi))) - log_gamma(psi[-1]),
        loglik=lambda y, theta: log_p(theta) @ np.append(y, 1 - np.sum(y)),
        tau=_counted,
        expected=expected,
        grid=grid,
        textbook=textbook,
        sample=lambda rng, n: np.eye(K)[rng.choice(K, size=n, p=truth)][:, :-1],
        prior=np.asarray(prior, dtype=float),
    )


@checked(prior=array(1))
def gamma_poisson(prior: Any) -> Pair:
    """y ~ Poisson(λ); θ = log λ, A(θ) = e^θ, and λ ~ Gamma(shape χ, rate ν).

    Parameters
    ----------
    prior : array_like, shape (2,)
        A ψ to start from.

    Returns
    -------
    Pair

    Examples
    --------
    >>> pair = gamma_poisson([2.0, 1.0])
    >>> pair.textbook(pair.prior, np.array([3.0])).tolist()
    [5.0, 2.0]
    """

    def grid(psi: Any) -> Any:
        u, h = gamma_line(psi[0], psi[1])
        return Grid(u[:, None], np.full(len(u), math.log(h)))

    def expected(psi: Any, y: Any) -> Any:
        chi, nu = psi
        return y[0] * (log_gamma(chi, 1) - anp.log(nu)) - chi / nu - log_gamma(y[0] + 1.0)

    def textbook(psi: Any, y: Any) -> Any:
        shape, scale = psi[0], 1 / psi[1]
        return np.array([shape + y[0], (1 + scale) / scale])

    return Pair(
        T=lambda theta: np.column_stack([theta, -np.exp(theta)]),
        Phi=lambda psi: log_gamma(psi[0]) - psi[0] * anp.log(psi[1]),
        loglik=lambda y, theta: y[0] * theta[:, 0] - np.exp(theta[:, 0]) - log_gamma(y[0] + 1.0),
        tau=_counted,
        expected=expected,
        grid=grid,
        textbook=textbook,
        sample=lambda rng, n: rng.poisson(3.5, size=(n, 1)).astype(float),
        prior=np.asarray(prior, dtype=float),
    )


@checked(prior=array(1))
def gamma_exponential(prior: Any) -> Pair:
    """y ~ Exponential(rate λ); θ = −λ, A(θ) = −log(−θ), and λ ~ Gamma(shape ν + 1, rate χ).

    The nodes are in u = log λ, dθ = λ du.

    Parameters
    ----------
    prior : array_like, shape (2,)
        A ψ to start from.

    Returns
    -------
    Pair

    Examples
    --------
    >>> pair = gamma_exponential([1.5, 2.0])
    >>> pair.textbook(pair.prior, np.array([0.5])).tolist()
    [2.0, 3.0]
    """

    def grid(psi: Any) -> Any:
        u, h = gamma_line(psi[1] + 1, psi[0])
        return Grid(-np.exp(u)[:, None], u + math.log(h))

    def expected(psi: Any, y: Any) -> Any:
        chi, nu = psi
        return log_gamma(nu + 1, 1) - anp.log(chi) - y[0] * (nu + 1) / chi

    def textbook(psi: Any, y: Any) -> Any:
        shape, rate = psi[1] + 1, psi[0]
        shape, rate = shape + 1, rate + y[0]
        return np.array([rate, shape - 1])

    return Pair(
        T=lambda theta: np.column_stack([theta, np.log(-theta)]),
        Phi=lambda psi: log_gamma(psi[1] + 1) - (psi[1] + 1) * anp.log(psi[0]),
        loglik=lambda y, theta: np.log(-theta[:, 0]) + theta[:, 0] * y[0],
        tau=_counted,
        expected=expected,
        grid=grid,
        textbook=textbook,
        sample=lambda rng, n: rng.exponential(0.7, size=(n, 1)),
        prior=np.asarray(prior, dtype=float),
    )


@checked(P=integer(1), var=POSITIVE, prior_var=POSITIVE)
def linear_regression(P: int, var: float, prior_var: float) -> Pair:
    """y ~ N(xᵀw, σ²), σ² known; ψ = (Σ⁻¹μ, the upper triangle of Σ⁻¹).

    An observation is the vector (x, y).

    Parameters
    ----------
    P : int
        The number of weights.
    var, prior_var : float
        σ², and the variance of each weight under the prior.

    Returns
    -------
    Pair

    Examples
    --------
    >>> pair = linear_regression(1, var=1.0, prior_var=1.0)
    >>> pair.textbook(pair.prior, np.array([1.0, 3.0])).round(9).tolist()      # of (x, y)
    [3.0, 2.0]
    """
    upper = np.triu_indices(P)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    basis = np.zeros((len(twice), P, P))
    entry = np.arange(len(twice))
    basis[entry, upper[0], upper[1]] = basis[entry, upper[1], upper[0]] = 1.0

    def moments(psi: Any) -> Any:
        prec = anp.tensordot(psi[P:], basis, 1)
        return anp.linalg.solve(prec, psi[:P]), prec

    def Phi(psi: Any) -> Any:
        mu, prec = moments(psi)
        constant = P * math.log(2 * math.pi)
        return (anp.dot(psi[:P], mu) - anp.linalg.slogdet(prec)[1] + constant) / 2

    def expected(psi: Any, obs: Any) -> Any:
        (mu, prec), x, y = moments(psi), obs[:-1], obs[-1]
        square = (y - anp.dot(x, mu)) ** 2 + anp.dot(x, anp.linalg.solve(prec, x))
        return -square / (2 * var) - math.log(2 * math.pi * var) / 2

    def loglik(obs: Any, w: Any) -> Any:
        return -((obs[-1] - w @ obs[:-1]) ** 2) / (2 * var) - math.log(2 * math.pi * var) / 2

    def tau(obs: Any) -> Any:
        return np.append(obs[:-1] * obs[-1], np.outer(obs[:-1], obs[:-1])[upper]) / var

    def textbook(psi: Any, obs: Any) -> Any:
        (mu, prec), x, y = moments(psi), obs[:-1], obs[-1]
        Sigma = finite(inv(prec))
        gain = Sigma @ x / (x @ Sigma @ x + var)
        mu, Sigma = mu + gain * (y - x @ mu), Sigma - np.outer(gain, x @ Sigma)
        prec = finite(inv(Sigma))
        return np.concatenate([prec @ mu, prec[upper]])

    def sample(rng: Any, n: Any) -> Any:
        X = rng.standard_normal((n, P))
        y = X @ np.linspace(1, -0.5, P) + math.sqrt(var) * rng.standard_normal(n)
        return np.column_stack([X, y])

    return Pair(
        T=lambda w: np.column_stack([w, -twice * w[:, upper[0]] * w[:, upper[1]] / 2]),
        Phi=Phi,
        loglik=loglik,
        tau=tau,
        expected=expected,
        grid=lambda psi: _normal_grid(moments(psi)[0], finite(inv(moments(psi)[1]))),
        textbook=textbook,
        sample=sample,
        prior=np.append(np.zeros(P), (np.eye(P) / prior_var)[upper]),
    )


PAIRS: dict[str, Pair] = {
    "gaussian-mean": gaussian_mean([[1.0, 0.5], [0.5, 2.0]], prior=[0.5, -0.5, 1.0]),
    "beta-bernoulli": dirichlet_categorical(prior=[2.0, 5.0]),
    "dirichlet-categorical": dirichlet_categorical(prior=[1.0, 1.5, 4.5]),
    "gamma-poisson": gamma_poisson(prior=[2.0, 1.0]),
    "gamma-exponential": gamma_exponential(prior=[1.5, 2.0]),
    "linear-regression": linear_regression(2, var=0.5, prior_var=1.0),
}

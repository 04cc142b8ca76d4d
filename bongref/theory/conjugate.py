r"""Proposition 4.1 (sec:conjugate): where prior and likelihood are conjugate, one BONG step is Bayes' rule.

The prior is an exponential family in θ, given by its statistic T and its log-partition Φ,

    q_ψ(θ) = exp(ψᵀT(θ) − Φ(ψ)),      ρ = E_q[T] = ∇Φ(ψ),      F = Cov_q[T] = ∇²Φ(ψ) = ∂ρ/∂ψ,

and the likelihood has θ as its natural parameter, log p(y|θ) = θᵀy − A(θ) − b(y). The prior is its conjugate if T(θ) = [θ; −A(θ)];
then ψ = [χ; ν], a sum of observations and their number, and Bayes' rule adds [y; 1] to it (:func:`bayes`).

BONG knows nothing of this. :func:`bong` computes its step from the definition, ψ + ∇_ρ E_q[ℓ] with ℓ(θ) = log p(y|θ) and
∇_ρ = F⁻¹∇_ψ, by two routes that share nothing but q:

* ``quadrature``: integrals over θ. ρ = E_q[T], F = E_q[(T − ρ)(T − ρ)ᵀ], and by the score function ∇_ψ E_q[ℓ] = E_q[(ℓ − ℓ̄)(T − ρ)];
* ``autodiff``: derivatives in ψ. F = ∇²Φ(ψ), and E_q[ℓ] in closed form (with digammas), differentiated by autograd.

Neither is told that the answer is [y; 1]. Why it is: Cov(T)⁻¹Cov(T, ℓ) is the slope of the best linear fit of the log-likelihood by T
under q. Conjugate means that log p(y|θ) = τ(y)ᵀT(θ) − b(y) *is* linear in T, so the fit is perfect and its slope is τ(y), whatever ψ is.
Without conjugacy the same lines give BONG's approximation.

======================  ======================  ==============  ====================  =================================
pair                    θ                       T(θ)            ψ                     the textbook's posterior
======================  ======================  ==============  ====================  =================================
gaussian-mean           R⁻¹m                    θ, −½θᵀRθ       χ, ν                  m ~ N(χ/ν, R/ν)
beta-bernoulli          logit p                 θ, −A(θ)        χ, ν                  p ~ Beta(χ, ν − χ)
dirichlet-categorical   log p_k/p_K, k < K      θ, −A(θ)        χ, ν                  p ~ Dirichlet(χ, ν − Σχ)
gamma-poisson           log λ                   θ, −e^θ         χ, ν                  λ ~ Gamma(shape χ, rate ν)
gamma-exponential       −λ                      θ, log(−θ)      χ, ν                  λ ~ Gamma(shape ν + 1, rate χ)
linear-regression       weights w               w, −½wwᵀ        Σ⁻¹μ, Σ⁻¹             w ~ N(μ, Σ)
======================  ======================  ==============  ====================  =================================

In the last pair A_t(w) = (x_tᵀw)²/2σ² changes with the input. The proof's "x_t can be omitted as a constant" then holds for one step; for
a stream of inputs T has to hold every A_t, which wwᵀ does, and τ = (xy/σ², xxᵀ/σ²) stands where [y; 1] stood.

**How exact.** The proposition is an identity, so what is left is rounding. T − ρ and ℓ − ℓ̄ at a node are off by eps relative to |ρ| and
to |τ|ᵀ|T|, that is by eps κ in units of their standard deviations, κ = max (|ρ_k| + sd T_k)/sd T_k; the derivatives of Φ are good to eps
(κ = 1). Solving with F multiplies that by ‖C⁻¹‖, C = Corr_q[T], which grows like the number of observations: under a narrow q, A(θ) is
nearly linear. :func:`rounding` is this bound. The slope does not depend on ψ, so over a stream these errors add up and are
never amplified: after 1,000 observations ψ is off by at most the sum of the bounds (measured: 1e-13 of ψ, with bounds of 1e-8 and less).

**Only in natural parameters.** A natural gradient points the same way in all coordinates, but a step of finite length ends elsewhere
(:func:`bong_in`). In mean and variance, N(m, R/ν) moves to m + (y − m)/ν and R/ν − R/ν², where Bayes has m + (y − m)/(ν + 1) and
R/(ν + 1): at ν = 1 the variance is 0. The mean of Beta(2, 3) goes to 0.52 after a success, where Bayes has 0.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd import jacobian
from autograd.extend import defvjp, primitive

from ..linalg import Array, cholesky, strict_inv, strict_solve
from ..models import grad, hessian
from ..paper import eq
from ..routes.compare import EPS, C

DROP = 38.0  # the trapezoidal rule ends where the log-density has fallen by so much: e^-38 is 0 beside 1


class Grid(NamedTuple):
    """Nodes of a quadrature rule over θ, and the logarithm of the volume that each stands for."""

    theta: Array  # (n, D)
    log_volume: Array  # (n,)


class Pair(NamedTuple):
    """A likelihood and the prior that is its conjugate."""

    T: Callable  # θ (n, D) -> (n, K): the statistic of the prior
    Phi: Callable  # ψ (K,) -> log ∫ exp(ψᵀT(θ)) dθ, for autograd
    loglik: Callable  # y, θ (n, D) -> log p(y|θ) (n,), as textbooks print it
    tau: Callable  # y -> (K,): log p(y|θ) = τᵀT(θ) − b(y)
    expected: Callable  # ψ, y -> E_q[log p(y|θ)] in closed form, for autograd
    grid: Callable  # ψ -> Grid
    textbook: Callable  # ψ, y -> ψ of the posterior, by the rule for the usual parameters
    sample: Callable  # rng, n -> n observations
    prior: Array  # a ψ to start from


class Local(NamedTuple):
    """What a step needs to know at ψ."""

    rho: Array  # E_q[T]
    F: Array  # Cov_q[T]
    g: Array  # ∇_ψ E_q[log p(y|θ)]


class Step(NamedTuple):
    """ψ after a step, and how far rounding may move each of its entries."""

    psi: Array
    rounding: Array


# --- the mechanism ---------------------------------------------------------------------------------------------------------


def log_prior(pair: Pair, psi: Array, theta: Array) -> Array:
    """log q_ψ(θ) for the rows of θ."""
    return pair.T(theta) @ psi - pair.Phi(psi)  # sec:conjugate#2


def expectation(pair: Pair, psi: Array, f: Callable) -> Array:
    """E_q[f(θ)] as an integral: the sum over the nodes of f(θ) q_ψ(θ) times the volume."""
    theta, log_volume = pair.grid(psi)
    return np.exp(log_prior(pair, psi, theta) + log_volume) @ f(theta)


def by_quadrature(pair: Pair, psi: Array, y: Array) -> Local:
    """ρ, F and ∇_ψ E_q[log p(y|θ)] as integrals."""
    theta, log_volume = pair.grid(psi)
    w, T, ell = np.exp(log_prior(pair, psi, theta) + log_volume), pair.T(theta), pair.loglik(y, theta)
    rho = w @ T  # sec:proofs#5, sec:proofs#6
    F = (T - rho).T @ (w[:, None] * (T - rho))
    g = (w * (ell - w @ ell)) @ (T - rho)
    return Local(rho, F, g)


def by_autodiff(pair: Pair, psi: Array, y: Array) -> Local:
    """The same as derivatives of Φ and of the closed form of E_q[log p(y|θ)]."""
    return Local(grad(pair.Phi)(psi), hessian(pair.Phi)(psi), grad(lambda psi: pair.expected(psi, y))(psi))


ROUTES: dict[str, Callable[..., Local]] = {"quadrature": by_quadrature, "autodiff": by_autodiff}


def local(pair: Pair, psi: Array, y: Array, route: str) -> Local:
    """ρ, F and ∇_ψ E_q[log p(y|θ)] by one of the two routes."""
    if route not in ROUTES:
        raise ValueError(f"route must be one of {', '.join(ROUTES)}, got {route!r}")
    return ROUTES[route](pair, psi, y)


def step(pair: Pair, psi: Array, y: Array, route: str = "quadrature") -> Step:
    """The BONG step from its definition, ψ + F⁻¹∇_ψ E_q[log p(y|θ)], and c · eps · (κ ‖C⁻¹‖ |τ|ᵀsd(T) / sd(T_k) + |ψ_k|)."""
    rho, F, g = local(pair, psi, y, route)
    sd = np.sqrt(np.diag(F))  # solve with the statistics scaled to variance 1
    inverse = strict_inv(F / np.outer(sd, sd))
    kappa = np.max(np.abs(rho) / sd + 1) if route == "quadrature" else 1.0
    bound = C * EPS * (kappa * np.linalg.norm(inverse, 2) * (np.abs(pair.tau(y)) @ sd) / sd + np.abs(psi))
    return Step(psi + inverse @ (g / sd) / sd, bound)  # eq:bong-MD, sec:proofs#7


def bong(pair: Pair, psi: Array, y: Array, route: str = "quadrature") -> Array:
    """ψ after the BONG step, ψ + ∇_ρ E_q[log p(y|θ)]."""
    return step(pair, psi, y, route).psi


def rounding(pair: Pair, psi: Array, y: Array, route: str = "quadrature") -> Array:
    """How far rounding may move each entry of that ψ."""
    return step(pair, psi, y, route).rounding


def bayes(pair: Pair, psi: Array, y: Array) -> Array:
    """Bayes' rule: ψ + τ(y), that is [χ + y; ν + 1]."""
    return psi + pair.tau(y)  # eq:bayes-conjugate-update, sec:proofs#1, sec:proofs#2, sec:proofs#3


def stream(pair: Pair, psi: Array, ys: Array, rule: Callable = bong) -> Array:
    """ψ after all observations, one at a time."""
    return reduce(lambda psi, y: rule(pair, psi, y), ys, psi)


def bong_in(pair: Pair, psi: Array, y: Array, to: Callable, back: Callable) -> Array:
    """The same single step taken in other coordinates λ = to(ψ): back(λ + F_λ⁻¹ ∇_λ E_q[log p(y|θ)])."""
    _, F, g = by_autodiff(pair, psi, y)
    lam = to(psi)
    J = jacobian(back)(lam)  # ∂ψ/∂λ
    return back(lam + strict_solve(J.T @ F @ J, J.T @ g))


@eq("eq:conjugate-likelihood")
def _counted(y: Array) -> Array:
    """τ = [y; 1]: the log-likelihood θᵀy − A(θ) in terms of T = [θ; −A(θ)]."""
    return np.append(y, 1.0)  # sec:proofs#8, sec:proofs#9


# --- the special functions and the quadrature --------------------------------------------------------------------------------


@primitive
def log_gamma(x, k=0):
    """The k-th derivative of log Γ: log Γ, digamma, trigamma, ..."""
    from scipy.special import digamma, gammaln, polygamma

    return gammaln(x) if k == 0 else digamma(x) if k == 1 else polygamma(k - 1, x)


defvjp(log_gamma, lambda ans, x, k=0: lambda g: g * log_gamma(x, k + 1), argnums=(0,))


def softplus(u):
    """log(1 + e^u)."""
    return np.logaddexp(0, u)


_FAR = np.geomspace(1e-4, 1e3, 400)


def line(kernel: Callable, mode: float, sd: float) -> tuple[Array, float]:
    """Nodes and spacing h, at most 1/5 and sd/2, of the trapezoidal rule for a concave log-density on the line.

    By Poisson's summation formula the rule is off by the characteristic function of u at 2π/h: |Γ(a + 2πi/h)|/Γ(a) for u = log λ,
    λ ~ Gamma(a, ·), and the product of two of these for the logit of a beta. From a = 1 on that is below e⁻³³ < 32 eps, mostly far below.
    """
    with np.errstate(over="ignore"):
        left, right = (_FAR[np.argmax(kernel(mode + sign * _FAR) < kernel(mode) - DROP)] for sign in (-1, 1))
    n = math.ceil((left + right) / min(0.2, sd / 2)) + 1
    u, h = np.linspace(mode - left, mode + right, n, retstep=True)
    return u, float(h)


def beta_line(a: float, b: float) -> tuple[Array, float]:
    """Nodes in u = logit v for v ~ Beta(a, b)."""
    return line(lambda u: -a * softplus(-u) - b * softplus(u), math.log(a / b), math.sqrt(1 / a + 1 / b))


def gamma_line(a: float, b: float) -> tuple[Array, float]:
    """Nodes in u = log λ for λ ~ Gamma(shape a, rate b)."""
    return line(lambda u: a * u - b * np.exp(u), math.log(a / b), math.sqrt(1 / a))


def _normal_grid(mean: Array, cov: Array) -> Grid:
    """mean + L z with L Lᵀ = cov and z on a square grid of spacing ⅔: the trapezoidal rule, its error e^{−2π²/h²} = e^{−44}."""
    z = np.arange(-13, 14) * (2 / 3)
    L = cholesky(cov)
    zs = np.stack([a.ravel() for a in np.meshgrid(*[z] * len(mean), indexing="ij")], axis=1)
    volume = len(mean) * math.log(2 / 3) + np.sum(np.log(np.diag(L)))
    return Grid(mean + zs @ L.T, np.full(len(zs), volume))


# --- the pairs -----------------------------------------------------------------------------------------------------------------


def gaussian_mean(R: Array, prior: Array) -> Pair:
    """y ~ N(m, R), R known; θ = R⁻¹m, A(θ) = ½θᵀRθ, and m ~ N(χ/ν, R/ν)."""
    R = np.asarray(R, dtype=float)
    D, prec, logdet = len(R), strict_inv(R), np.linalg.slogdet(R)[1]
    half_log = (D * math.log(2 * math.pi) + logdet) / 2

    def Phi(psi):
        chi, nu = psi[:-1], psi[-1]
        return anp.dot(chi, anp.dot(prec, chi)) / (2 * nu) + D * anp.log(2 * math.pi / nu) / 2 - logdet / 2

    def expected(psi, y):
        e, nu = y - psi[:-1] / psi[-1], psi[-1]
        return -(anp.dot(e, anp.dot(prec, e)) + D / nu) / 2 - half_log

    def textbook(psi, y):
        m, V = psi[:-1] / psi[-1], R / psi[-1]
        gain = V @ strict_inv(V + R)
        m, V = m + gain @ (y - m), V - gain @ V
        return np.append(R @ strict_solve(V, m), R[0, 0] / V[0, 0])

    def loglik(y, theta):
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
        sample=lambda rng, n: np.linspace(-1, 2, D) + rng.standard_normal((n, D)) @ cholesky(R).T,
        prior=np.asarray(prior, dtype=float),
    )


def dirichlet_categorical(prior: Array) -> Pair:
    """y one-hot in K classes without its last entry; θ_k = log p_k/p_K, A(θ) = log(1 + Σe^θ). K = 2 is beta-bernoulli.

    The nodes break the stick: with v_k = σ(u_k), p_k = v_k Π_{j<k}(1 − v_j), and the volume dθ is du.
    """
    K = len(prior)

    def alpha(psi):
        return anp.append(psi[:-1], psi[-1] - anp.sum(psi[:-1]))

    def log_p(theta):
        full = np.column_stack([theta, np.zeros(len(theta))])
        top = full.max(axis=1, keepdims=True)
        return full - top - np.log(np.sum(np.exp(full - top), axis=1, keepdims=True))

    def expected(psi, y):
        counts = np.append(y, 1 - np.sum(y))
        return anp.sum(counts * (log_gamma(alpha(psi), 1) - log_gamma(psi[-1], 1)))

    def grid(psi):
        a = alpha(psi)
        rest = np.cumsum(a[::-1])[::-1][1:]
        lines = [beta_line(*ab) for ab in zip(a[:-1], rest, strict=True)]
        u = np.stack([x.ravel() for x in np.meshgrid(*[x for x, _ in lines], indexing="ij")], axis=1)
        beyond = np.cumsum(softplus(u[:, :0:-1]), axis=1)[:, ::-1]  # −Σ_{j>k} log(1 − v_j)
        theta = u + np.column_stack([beyond, np.zeros(len(u))])
        return Grid(theta, np.full(len(u), sum(math.log(h) for _, h in lines)))

    def textbook(psi, y):
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


def gamma_poisson(prior: Array) -> Pair:
    """y ~ Poisson(λ); θ = log λ, A(θ) = e^θ, and λ ~ Gamma(shape χ, rate ν)."""

    def grid(psi):
        u, h = gamma_line(psi[0], psi[1])
        return Grid(u[:, None], np.full(len(u), math.log(h)))

    def expected(psi, y):
        chi, nu = psi
        return y[0] * (log_gamma(chi, 1) - anp.log(nu)) - chi / nu - log_gamma(y[0] + 1.0)

    def textbook(psi, y):
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


def gamma_exponential(prior: Array) -> Pair:
    """y ~ Exponential(rate λ); θ = −λ, A(θ) = −log(−θ), and λ ~ Gamma(shape ν + 1, rate χ). Nodes in u = log λ, dθ = λ du."""

    def grid(psi):
        u, h = gamma_line(psi[1] + 1, psi[0])
        return Grid(-np.exp(u)[:, None], u + math.log(h))

    def expected(psi, y):
        chi, nu = psi
        return log_gamma(nu + 1, 1) - anp.log(chi) - y[0] * (nu + 1) / chi

    def textbook(psi, y):
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


def linear_regression(P: int, var: float, prior_var: float) -> Pair:
    """y ~ N(xᵀw, σ²), σ² known; an observation is (x, y), and ψ = (Σ⁻¹μ, the upper triangle of Σ⁻¹)."""
    upper = np.triu_indices(P)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    basis = np.zeros((len(twice), P, P))
    basis[np.arange(len(twice)), upper[0], upper[1]] = basis[np.arange(len(twice)), upper[1], upper[0]] = 1.0

    def moments(psi):
        prec = anp.tensordot(psi[P:], basis, 1)
        return anp.linalg.solve(prec, psi[:P]), prec

    def Phi(psi):
        mu, prec = moments(psi)
        return (anp.dot(psi[:P], mu) - anp.linalg.slogdet(prec)[1] + P * math.log(2 * math.pi)) / 2

    def expected(psi, obs):
        (mu, prec), x, y = moments(psi), obs[:-1], obs[-1]
        square = (y - anp.dot(x, mu)) ** 2 + anp.dot(x, anp.linalg.solve(prec, x))
        return -square / (2 * var) - math.log(2 * math.pi * var) / 2

    def textbook(psi, obs):
        (mu, prec), x, y = moments(psi), obs[:-1], obs[-1]
        Sigma = strict_inv(prec)
        gain = Sigma @ x / (x @ Sigma @ x + var)
        mu, Sigma = mu + gain * (y - x @ mu), Sigma - np.outer(gain, x @ Sigma)
        prec = strict_inv(Sigma)
        return np.concatenate([prec @ mu, prec[upper]])

    def sample(rng, n):
        X = rng.standard_normal((n, P))
        return np.column_stack([X, X @ np.linspace(1, -0.5, P) + math.sqrt(var) * rng.standard_normal(n)])

    return Pair(
        T=lambda w: np.column_stack([w, -twice * w[:, upper[0]] * w[:, upper[1]] / 2]),
        Phi=Phi,
        loglik=lambda obs, w: -((obs[-1] - w @ obs[:-1]) ** 2) / (2 * var) - math.log(2 * math.pi * var) / 2,
        tau=lambda obs: np.append(obs[:-1] * obs[-1], np.outer(obs[:-1], obs[:-1])[upper]) / var,
        expected=expected,
        grid=lambda psi: _normal_grid(moments(psi)[0], strict_inv(moments(psi)[1])),
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

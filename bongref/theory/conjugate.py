r"""Proposition 4.1 (sec:conjugate): with a conjugate prior, one BONG step is Bayes' rule.

    pair = conjugate.PAIRS["beta-bernoulli"]
    conjugate.bong(pair, pair.prior, np.array([1.0]))       # ψ after the BONG step
    conjugate.bayes(pair, pair.prior, np.array([1.0]))      # the same, by Bayes' rule

The prior is an exponential family in θ, given by its statistic T and its log-partition Φ,

    q_ψ(θ) = exp(ψᵀT(θ) − Φ(ψ)),     ρ = E_q[T] = ∇Φ(ψ),     F = Cov_q[T] = ∇²Φ(ψ) = ∂ρ/∂ψ,

and the likelihood has θ as its natural parameter, log p(y|θ) = θᵀy − A(θ) − b(y). The prior is its
conjugate if T(θ) = [θ; −A(θ)]; then ψ = [χ; ν], a sum of observations and their number, and Bayes'
rule adds [y; 1] to it (:func:`bayes`).

BONG does not use this. :func:`bong` computes its step from the definition, ψ + ∇_ρ E_q[ℓ] with
ℓ(θ) = log p(y|θ) and ∇_ρ = F⁻¹∇_ψ, by two routes that share nothing but q:

* ``quadrature``: integrals over θ. ρ = E_q[T], F = E_q[(T − ρ)(T − ρ)ᵀ], and by the score function
  ∇_ψ E_q[ℓ] = E_q[(ℓ − ℓ̄)(T − ρ)];
* ``autodiff``: derivatives in ψ. F = ∇²Φ(ψ), and E_q[ℓ] in closed form (with digammas),
  differentiated by autograd.

Neither uses that the answer is [y; 1]. Why it is: Cov(T)⁻¹Cov(T, ℓ) is the slope of the best linear
fit of the log-likelihood by T under q. Conjugate means that log p(y|θ) = τ(y)ᵀT(θ) − b(y) *is*
linear in T, so the fit is perfect and its slope is τ(y), whatever ψ is. Without conjugacy the same
lines give BONG's approximation.

======================  =====================  ===========  ===========  ===========================
pair                    θ                      T(θ)         ψ            the textbook's posterior
======================  =====================  ===========  ===========  ===========================
gaussian-mean           R⁻¹m                   θ, −½θᵀRθ    χ, ν         m ~ N(χ/ν, R/ν)
beta-bernoulli          logit p                θ, −A(θ)     χ, ν         p ~ Beta(χ, ν − χ)
dirichlet-categorical   log p_k/p_K, k < K     θ, −A(θ)     χ, ν         p ~ Dirichlet(χ, ν − Σχ)
gamma-poisson           log λ                  θ, −e^θ      χ, ν         λ ~ Gamma(χ, rate ν)
gamma-exponential       −λ                     θ, log(−θ)   χ, ν         λ ~ Gamma(ν + 1, rate χ)
linear-regression       weights w              w, −½wwᵀ     Σ⁻¹μ, Σ⁻¹    w ~ N(μ, Σ)
======================  =====================  ===========  ===========  ===========================

In the last pair A_t(w) = (x_tᵀw)²/2σ² changes with the input. The proof's "x_t can be omitted as a
constant" then holds for one step; for a stream of inputs T has to hold every A_t, which wwᵀ does,
and τ = (xy/σ², xxᵀ/σ²) takes the place of [y; 1].

**How exact.** The proposition is an identity, so that only rounding is left. T − ρ and ℓ − ℓ̄ at a
node are off by eps relative to |ρ| and to |τ|ᵀ|T|, that is by eps κ in units of their standard
deviations, κ = max (|ρ_k| + sd T_k)/sd T_k; the derivatives of Φ are good to eps (κ = 1). Solving
with F multiplies that by ‖C⁻¹‖, C = Corr_q[T], which grows like the number of observations: under a
narrow q, A(θ) is nearly linear. :func:`rounding` is this bound. The slope does not depend on ψ, so
over a stream these errors add up and are never amplified: after 1,000 observations ψ is off by at
most the sum of the bounds (measured: 1e-13 of ψ, with bounds of 1e-8 and less).

**Only in natural parameters.** A natural gradient points the same way in all coordinates, but a
step of finite length ends elsewhere (:func:`bong_in`). In mean and variance, N(m, R/ν) moves to
m + (y − m)/ν and R/ν − R/ν², where Bayes has m + (y − m)/(ν + 1) and R/(ν + 1): at ν = 1 the
variance is 0. The mean of Beta(2, 3) goes to 0.52 after a success, where Bayes has 0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from autograd import jacobian

from .. import checks
from ..errors import InvalidValue
from ..linalg import Array, finite, inv, solve
from ..models import grad, hessian
from ..routes.compare import EPS, C
from .arguments import FUNCTION, Arguments, array, checked, choice, instance, is_traced
from .pairs import PAIRS, Function, Pair

__all__ = [
    "PAIRS",
    "ROUTES",
    "Local",
    "Step",
    "bayes",
    "bong",
    "bong_in",
    "by_autodiff",
    "by_quadrature",
    "expectation",
    "local",
    "log_prior",
    "rounding",
    "step",
    "stream",
]
PAIR = instance(Pair, remedy="; use one of bongref.conjugate.PAIRS")


def PSI(name: str, value: Any, arguments: Arguments) -> Any:
    """As many natural parameters as the pair has."""
    K = len(arguments["pair"].prior)
    return value if is_traced(value) else checks.array(name, value, shape=(K,), copy=False)


def Y(name: str, value: Any, arguments: Arguments) -> Any:
    """One observation, of the shape of those that the pair draws."""
    one = arguments["pair"].sample(np.random.default_rng(0), 1)[0]
    return checks.array(name, value, shape=np.shape(one), copy=False)


def YS(name: str, value: Any, arguments: Arguments) -> Any:
    """Observations along the first axis."""
    one = arguments["pair"].sample(np.random.default_rng(0), 1)[0]
    return checks.array(name, value, shape=(None, *np.shape(one)), copy=False, empty=True)


class Local(NamedTuple):
    """What a step needs to know at ψ.

    Attributes
    ----------
    rho : ndarray, shape (K,)
        E_q[T].
    F : ndarray, shape (K, K)
        Cov_q[T].
    g : ndarray, shape (K,)
        ∇_ψ E_q[log p(y|θ)].

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> local(pair, pair.prior, np.array([3.0]), "autodiff").F.shape
    (2, 2)
    """

    rho: Array  # E_q[T]
    F: Array  # Cov_q[T]
    g: Array  # ∇_ψ E_q[log p(y|θ)]


class Step(NamedTuple):
    """ψ after a step, and how far rounding may move each of its entries.

    Attributes
    ----------
    psi, rounding : ndarray, shape (K,)

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> bool(np.all(step(pair, pair.prior, np.array([3.0])).rounding < 1e-8))
    True
    """

    psi: Array
    rounding: Array


# --- the mechanism --------------------------------------------------------------------------------


@checked(pair=PAIR, psi=PSI, theta=array(2))
def log_prior(pair: Pair, psi: Array, theta: Array) -> Array:
    """log q_ψ(θ) for the rows of θ.

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    theta : ndarray, shape (n, D)

    Returns
    -------
    ndarray, shape (n,)

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> log_prior(pair, pair.prior, np.zeros((1, 1))).shape
    (1,)
    """
    T = pair.T(theta)
    if T.shape[-1] != len(psi):
        raise InvalidValue(f"theta must have rows of the pair's parameters, got {theta.shape}")
    log_q: Array = T @ psi - pair.Phi(psi)  # sec:conjugate#2
    return log_q


@checked(pair=PAIR, psi=PSI, f=FUNCTION)
def expectation(pair: Pair, psi: Array, f: Function) -> Array:
    """E_q[f(θ)] as an integral: the sum over the nodes of f(θ) q_ψ(θ) times the volume.

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    f : callable
        θ of shape (n, D) -> an array whose first axis has length n.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> round(float(expectation(pair, pair.prior, lambda theta: np.ones(len(theta)))), 9)
    1.0
    """
    theta, log_volume = pair.grid(psi)
    weights, values = np.exp(log_prior(pair, psi, theta) + log_volume), f(theta)
    if np.shape(values)[:1] != (len(theta),):
        got = checks.describe(values)
        raise InvalidValue(f"f must return an array of length {len(theta)}, that of θ, got {got}")
    mean: Array = weights @ values
    return mean


@checked(pair=PAIR, psi=PSI, y=Y)
def by_quadrature(pair: Pair, psi: Array, y: Array) -> Local:
    """ρ, F and ∇_ψ E_q[log p(y|θ)] as integrals.

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    y : ndarray, shape (C,)

    Returns
    -------
    Local

    Examples
    --------
    >>> pair, y = PAIRS["gamma-poisson"], np.array([3.0])
    >>> np.allclose(by_quadrature(pair, pair.prior, y).g, by_autodiff(pair, pair.prior, y).g)
    True
    """
    theta, log_volume = pair.grid(psi)
    w = np.exp(log_prior(pair, psi, theta) + log_volume)
    T, ell = pair.T(theta), pair.loglik(y, theta)
    rho = w @ T  # sec:proofs#5, sec:proofs#6
    F = (T - rho).T @ (w[:, None] * (T - rho))
    g = (w * (ell - w @ ell)) @ (T - rho)
    return Local(rho, F, g)


@checked(pair=PAIR, psi=PSI, y=Y)
def by_autodiff(pair: Pair, psi: Array, y: Array) -> Local:
    """ρ, F and ∇_ψ E_q[log p(y|θ)] as derivatives of Φ and of the closed form of E_q[log p].

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    y : ndarray, shape (C,)

    Returns
    -------
    Local

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> rho = by_autodiff(pair, pair.prior, np.array([3.0])).rho
    >>> bool(rho[1] < 0)      # E[−λ]
    True
    """
    g = grad(lambda psi: pair.expected(psi, y))(psi)
    return Local(grad(pair.Phi)(psi), hessian(pair.Phi)(psi), g)


ROUTES: dict[str, Callable[..., Local]] = {"quadrature": by_quadrature, "autodiff": by_autodiff}


@checked(pair=PAIR, psi=PSI, y=Y, route=choice("quadrature", "autodiff"))
def local(pair: Pair, psi: Array, y: Array, route: str) -> Local:
    """ρ, F and ∇_ψ E_q[log p(y|θ)] by one of the two routes.

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    y : ndarray, shape (C,)
    route : {"quadrature", "autodiff"}

    Returns
    -------
    Local

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> local(pair, pair.prior, np.array([3.0]), "quadrature").g.shape
    (2,)
    """
    return ROUTES[route](pair, psi, y)


@checked(pair=PAIR, psi=PSI, y=Y, route=choice("quadrature", "autodiff"))
def step(pair: Pair, psi: Array, y: Array, route: str = "quadrature") -> Step:
    """The BONG step from its definition, ψ + F⁻¹∇_ψ E_q[log p(y|θ)].

    Parameters
    ----------
    pair : Pair
        One of ``PAIRS``, or made by the functions of :mod:`bongref.theory.pairs`.
    psi : ndarray, shape (K,)
        The natural parameters of the prior.
    y : ndarray, shape (C,)
        One observation.
    route : {"quadrature", "autodiff"}

    Returns
    -------
    Step
        ψ, and the bound c · eps · (κ ‖C⁻¹‖ |τ|ᵀsd(T) / sd(T_k) + |ψ_k|) of its rounding.

    Raises
    ------
    InvalidValue
        If there is no such route.

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> step(pair, pair.prior, np.array([3.0])).psi.round(9).tolist()      # [χ + y, ν + 1]
    [5.0, 2.0]
    """
    rho, F, g = local(pair, psi, y, route)
    sd = np.sqrt(np.diag(F))  # solve with the statistics scaled to variance 1
    inverse = finite(inv(F / np.outer(sd, sd)))
    kappa = np.max(np.abs(rho) / sd + 1) if route == "quadrature" else 1.0
    loss = kappa * np.linalg.norm(inverse, 2) * (np.abs(pair.tau(y)) @ sd) / sd
    bound = C * EPS * (loss + np.abs(psi))
    return Step(psi + inverse @ (g / sd) / sd, bound)  # eq:bong-MD, sec:proofs#7


def bong(pair: Pair, psi: Array, y: Array, route: str = "quadrature") -> Array:
    """ψ after the BONG step, ψ + ∇_ρ E_q[log p(y|θ)].

    Parameters
    ----------
    pair, psi, y, route
        As for :func:`step`.

    Returns
    -------
    ndarray, shape (K,)

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> bong(pair, pair.prior, np.array([3.0])).round(9).tolist()
    [5.0, 2.0]
    """
    return step(pair, psi, y, route).psi


def rounding(pair: Pair, psi: Array, y: Array, route: str = "quadrature") -> Array:
    """The bound of the rounding error in each entry of the ψ that :func:`bong` returns.

    Parameters
    ----------
    pair, psi, y, route
        As for :func:`step`.

    Returns
    -------
    ndarray, shape (K,)

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> bool(np.all(rounding(pair, pair.prior, np.array([3.0])) < 1e-8))
    True
    """
    return step(pair, psi, y, route).rounding


@checked(pair=PAIR, psi=PSI, y=Y)
def bayes(pair: Pair, psi: Array, y: Array) -> Array:
    """Bayes' rule: ψ + τ(y), that is [χ + y; ν + 1].

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    y : ndarray, shape (C,)
        One observation.

    Returns
    -------
    ndarray, shape (K,)

    Examples
    --------
    >>> pair = PAIRS["beta-bernoulli"]
    >>> bayes(pair, pair.prior, np.array([1.0])).tolist()      # χ + 1 successes in ν + 1
    [3.0, 6.0]
    """
    tau: Array = pair.tau(y)
    return psi + tau  # eq:bayes-conjugate-update, sec:proofs#1, sec:proofs#2, sec:proofs#3


@checked(pair=PAIR, psi=PSI, ys=YS, rule=FUNCTION)
def stream(pair: Pair, psi: Array, ys: Array, rule: Function = bong) -> Array:
    """ψ after all observations, one at a time.

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    ys : ndarray, shape (T, C)
        The observations along its first axis.
    rule : callable
        :func:`bong` or :func:`bayes`.

    Returns
    -------
    ndarray, shape (K,)

    Examples
    --------
    >>> pair, ys = PAIRS["gamma-poisson"], np.array([[3.0], [1.0]])
    >>> stream(pair, pair.prior, ys).round(9).tolist(), stream(pair, pair.prior, ys, bayes).tolist()
    ([6.0, 3.0], [6.0, 3.0])
    """
    return reduce(lambda psi, y: rule(pair, psi, y), ys, psi)


@checked(pair=PAIR, psi=PSI, y=Y, to=FUNCTION, back=FUNCTION)
def bong_in(pair: Pair, psi: Array, y: Array, to: Function, back: Function) -> Array:
    """The BONG step taken in other coordinates λ: back(λ + F_λ⁻¹ ∇_λ E_q[log p(y|θ)]).

    Parameters
    ----------
    pair : Pair
    psi : ndarray, shape (K,)
    y : ndarray, shape (C,)
    to, back : callable
        λ = to(ψ), and ψ = back(λ), which autograd can differentiate.

    Returns
    -------
    ndarray, shape (K,)
        ψ after the step.

    Examples
    --------
    >>> pair = PAIRS["gamma-poisson"]
    >>> bong_in(pair, pair.prior, np.array([3.0]), lambda v: v, lambda v: v).round(9).tolist()
    [5.0, 2.0]
    """
    _, F, g = by_autodiff(pair, psi, y)
    lam = to(psi)
    J = jacobian(back)(lam)  # ∂ψ/∂λ
    out: Array = back(lam + finite(solve(J.T @ F @ J, J.T @ g)))
    return out

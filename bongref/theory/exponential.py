"""The Gaussians as an exponential family: natural and dual parameters, Φ, Bregman divergences.

    psi = natural(q)                   # (Σ⁻¹μ, −½Σ⁻¹)
    rho = mirror_map(psi)              # ∇Φ(ψ) = E[T(θ)]

A parameter is a pair of arrays; a vector in the second place stands for a diagonal matrix. The
functions can be differentiated by autograd. :mod:`.mirror` has the updates made of them.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
from autograd import grad
from autograd import numpy as anp

from ..errors import InvalidType
from ..families import diag_nat, fc_nat
from ..linalg import Array
from ..states import FC, Diag
from .arguments import NUMBER, PAIR_OF_ARRAYS, VECTOR_OF_PAIR, checked, pair_like, state
from .expectations import Gauss

GAUSS = state(FC, Diag)
Pair = tuple[Array, Array]  # (ψ⁽¹⁾, ψ⁽²⁾), (ρ⁽¹⁾, ρ⁽²⁾) or a gradient with respect to them


def family(q: Gauss) -> ModuleType:
    """The module with the natural and dual parameters of a state.

    Parameters
    ----------
    q : FC or Diag

    Returns
    -------
    module
        :mod:`bongref.families.fc_nat` or :mod:`bongref.families.diag_nat`.

    Raises
    ------
    InvalidType
        If ``q`` is not FC or Diag.

    Examples
    --------
    >>> family(Diag(np.zeros(1), np.ones(1))).__name__
    'bongref.families.diag_nat'
    """
    if not isinstance(q, FC | Diag):
        got = type(q).__name__
        raise InvalidType(f"q must be an FC or Diag state (an exponential family), got {got}")
    return fc_nat if isinstance(q, FC) else diag_nat


@checked(a=PAIR_OF_ARRAYS, b=pair_like("a"))
def inner(a: Pair, b: Pair) -> Any:
    """⟨a, b⟩, the sum of the products of all entries.

    Parameters
    ----------
    a, b : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag

    Returns
    -------
    float
        Differentiable by autograd.

    Examples
    --------
    >>> one = np.ones(2)
    >>> float(inner((one, one), (one, 2 * one)))
    6.0
    """
    return anp.sum(a[0] * b[0]) + anp.sum(a[1] * b[1])


@checked(a=PAIR_OF_ARRAYS, b=pair_like("a"), t=NUMBER)
def plus(a: Pair, b: Pair, t: float = 1.0) -> Pair:
    """a + t b.

    Parameters
    ----------
    a, b : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
    t : float

    Returns
    -------
    pair of ndarray

    Examples
    --------
    >>> one = np.ones(1)
    >>> [v.tolist() for v in plus((one, one), (one, one), t=-0.5)]
    [[0.5], [0.5]]
    """
    return a[0] + t * b[0], a[1] + t * b[1]


@checked(psi=PAIR_OF_ARRAYS)
def log_partition(psi: Pair) -> Any:
    """Φ(ψ) = −¼ψ⁽¹⁾ᵀψ⁽²⁾⁻¹ψ⁽¹⁾ − ½log|−2ψ⁽²⁾| + (P/2) log 2π; differentiable by autograd.

    Parameters
    ----------
    psi : (ndarray (P,), ndarray (P, P) or (P,))
        Natural parameters; a vector ψ⁽²⁾ is a diagonal.

    Returns
    -------
    float

    Examples
    --------
    >>> round(float(log_partition(diag_nat.natural(Diag(np.zeros(1), np.ones(1))))), 6)
    0.918939
    """
    psi1, psi2 = psi
    if anp.ndim(psi2) == 1:
        quadratic, logdet = anp.sum(psi1**2 / psi2), anp.sum(anp.log(-2 * psi2))
    else:
        quadratic = anp.dot(psi1, anp.linalg.solve(psi2, psi1))
        logdet = anp.linalg.slogdet(-2 * psi2)[1]
    return -quadratic / 4 - logdet / 2 + len(psi1) * math.log(2 * math.pi) / 2


@checked(psi=PAIR_OF_ARRAYS, theta=VECTOR_OF_PAIR)
def log_density(psi: Pair, theta: Array) -> float:
    """log q_ψ(θ) = ⟨ψ, T(θ)⟩ − Φ(ψ) at one θ.

    Parameters
    ----------
    psi : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        Natural parameters.
    theta : ndarray, shape (P,)

    Returns
    -------
    float

    Examples
    --------
    >>> psi = natural(Diag(np.zeros(1), np.ones(1)))
    >>> round(log_density(psi, np.zeros(1)), 6)      # log N(0 | 0, 1)
    -0.918939
    """
    T = (theta, theta**2 if psi[1].ndim == 1 else np.outer(theta, theta))
    log_q = inner(psi, T) - log_partition(psi)  # sec:MD-formulation#1
    return float(log_q)


@checked(psi=PAIR_OF_ARRAYS)
def mirror_map(psi: Pair) -> Pair:
    """ρ = ∇Φ(ψ), by autograd; it is E[T(θ)].

    Parameters
    ----------
    psi : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        Natural parameters.

    Returns
    -------
    pair of ndarray
        The dual parameters, in the shapes of ``psi``.

    Examples
    --------
    >>> q = Diag(np.array([1.0]), np.array([4.0]))
    >>> [float(a[0]) for a in mirror_map(diag_nat.natural(q))]      # μ and μ² + σ²
    [1.0, 5.0]
    """
    rho = grad(log_partition)(psi)  # sec:MD-formulation#2, sec:MD-formulation#3
    return rho[0], rho[1]


@checked(psi_i=PAIR_OF_ARRAYS, psi=pair_like("psi_i"))
def bregman(psi_i: Pair, psi: Pair, rho: Pair | None = None) -> Any:
    """The Bregman divergence D_Φ(ψ_i, ψ), which is KL(q_ψ | q_{ψ_i}).

    Parameters
    ----------
    psi_i, psi : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        Natural parameters.
    rho : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag, optional
        The dual parameters of ψ where they are known already.

    Returns
    -------
    float
        Differentiable by autograd.

    Examples
    --------
    >>> from bongref import kl
    >>> q, p = Diag(np.zeros(1), np.ones(1)), Diag(np.ones(1), np.ones(1))
    >>> round(float(bregman(natural(p), natural(q))), 9), kl(q, p)
    (0.5, 0.5)
    """
    rho = mirror_map(psi) if rho is None else rho
    gap = inner(plus(psi_i, psi, -1), rho)
    D = log_partition(psi_i) - log_partition(psi) - gap  # sec:MD-formulation#5, eq:KL-bregman
    return D


@checked(q=GAUSS, p=GAUSS)
def kl_from_statistics(q: Gauss, p: Gauss) -> float:
    """KL(q | p) as E_q[⟨ψ_q − ψ_p, T(θ)⟩ + Φ(ψ_p) − Φ(ψ_q)], with E_q[T(θ)] = ρ_q.

    Parameters
    ----------
    q, p : FC or Diag
        Of the same kind.

    Returns
    -------
    float

    Examples
    --------
    >>> q, p = Diag(np.zeros(1), np.ones(1)), Diag(np.ones(1), np.ones(1))
    >>> round(kl_from_statistics(q, p), 9)
    0.5
    """
    psi_q, psi_p = family(q).natural(q), family(p).natural(p)
    Phi = log_partition(psi_p) - log_partition(psi_q)
    D = inner(plus(psi_q, psi_p, -1), family(q).dual(q)) + Phi  # sec:MD-formulation#6
    return float(D)


@checked(psi=PAIR_OF_ARRAYS)
def moments(psi: Pair) -> Gauss:
    """(μ, Σ) of ψ; differentiable by autograd.

    Parameters
    ----------
    psi : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        Natural parameters.

    Returns
    -------
    FC or Diag

    Examples
    --------
    >>> q = moments((np.array([2.0]), np.array([-0.5])))
    >>> q.mu.tolist(), q.var.tolist()
    ([2.0], [1.0])
    """
    psi1, psi2 = psi
    if anp.ndim(psi2) == 1:
        return Diag(-psi1 / psi2 / 2, -1 / psi2 / 2)
    return FC(-anp.linalg.solve(psi2, psi1) / 2, -anp.linalg.inv(psi2) / 2)


@checked(q=GAUSS)
def natural(q: Gauss) -> Pair:
    """ψ of (μ, Σ); differentiable by autograd.

    Parameters
    ----------
    q : FC or Diag

    Returns
    -------
    pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag

    Examples
    --------
    >>> [v.tolist() for v in natural(Diag(np.array([2.0]), np.array([1.0])))]
    [[2.0], [-0.5]]
    """
    if isinstance(q, Diag):
        return q.mu / q.var, -1 / q.var / 2
    prec = anp.linalg.inv(q.Sigma)
    return anp.dot(prec, q.mu), -prec / 2


@checked(q=GAUSS)
def dual(q: Gauss) -> Pair:
    """ρ of (μ, Σ); differentiable by autograd.

    Parameters
    ----------
    q : FC or Diag

    Returns
    -------
    pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag

    Examples
    --------
    >>> [v.tolist() for v in dual(Diag(np.array([2.0]), np.array([1.0])))]
    [[2.0], [5.0]]
    """
    if isinstance(q, Diag):
        return q.mu, q.mu**2 + q.var
    return q.mu, anp.outer(q.mu, q.mu) + q.Sigma

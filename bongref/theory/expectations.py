"""Exact expectations of a generalised linear model under a Gaussian, without sampling.

    e = expected(br.likelihoods.Bernoulli(), q, x, y)      # E_q[log p(y|x,θ)], g and G

A model o = xᵀθ with one output sees θ only through o ~ N(xᵀμ, xᵀΣx), so E_q[log p], its expected
gradient g and its expected Hessian G are one-dimensional integrals: in closed form for Gaussian and
Poisson, for Bernoulli by the trapezoidal rule in z = (o − m)/s. For an analytic integrand with
Gaussian weight that rule converges exponentially: the poles of σ at o = m ± iπ leave an error near
exp(−2π²/(h s)), and a step h = ⅜ min(1, 1/s) puts it below 1e-20.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from autograd import numpy as anp

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..likelihoods import Bernoulli, Gaussian, Likelihood, Poisson
from ..linalg import Array
from ..states import FC, Diag
from .arguments import ITERATES, LIKELIHOOD, POSITIVE, ROWS, array, checked, instance

Gauss = FC | Diag

WIDEST = 1e5  # standard deviation of an output: the rule has 51 nodes for each unit of it


class Expected(NamedTuple):
    """E_q[log p], and its expected gradient and Hessian.

    Attributes
    ----------
    ell : float
        E_q[log p].
    g : ndarray, shape (P,)
    G : ndarray, shape (P, P)

    Examples
    --------
    >>> q = Diag(np.zeros(1), np.ones(1))
    >>> expected(Gaussian(var=1.0), q, [1.0], 1.0).G.tolist()
    [[-1.0]]
    """

    ell: float
    g: Array
    G: Array


@checked(s=POSITIVE)
def nodes(s: float) -> tuple[Array, Array]:
    """Nodes and weights with Σ w f(m + s z) = E f(o), o ~ N(m, s²), for f made of σ(o).

    Parameters
    ----------
    s : float
        The standard deviation of o.

    Returns
    -------
    z, w : ndarray, shape (K,)
        The trapezoidal rule up to |z| = 9.5.

    Examples
    --------
    >>> z, w = nodes(2.0)
    >>> round(float(w.sum()), 12), round(float(w @ z**2), 12)
    (1.0, 1.0)
    """
    if s > WIDEST:
        raise InvalidValue(f"s must be at most {WIDEST:g}, got {s:g}; take a smaller covariance")
    h = 0.375 * min(1.0, 1.0 / s)
    z = h * np.arange(-math.ceil(9.5 / h), math.ceil(9.5 / h) + 1)
    return z, h * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


@checked(q=instance(FC, Diag, word=" state"), X=ROWS)
def output(q: Gauss, X: Array) -> tuple[Any, Any]:
    """Means and variances of the outputs o = Xθ under q.

    Parameters
    ----------
    q : FC or Diag
    X : ndarray, shape (N, P)

    Returns
    -------
    m, v : ndarray, shape (N,)
        Differentiable by autograd in the arrays of ``q``.

    Examples
    --------
    >>> m, v = output(Diag(np.ones(2), np.array([1.0, 2.0])), np.array([[1.0, 2.0]]))
    >>> m.tolist(), v.tolist()
    ([3.0], [9.0])
    """
    m = anp.dot(X, q.mu)
    if isinstance(q, FC):
        return m, anp.sum(anp.dot(X, q.Sigma) * X, axis=1)
    return m, anp.dot(X**2, q.var)


@checked(lik=LIKELIHOOD, m=ITERATES, v=ITERATES, y=array(2))
def expected_log_prob(lik: Likelihood, m: Any, v: Any, y: Array) -> Any:
    """E log p(y_n | o_n) for o_n ~ N(m_n, v_n); differentiable by autograd in m and v.

    Parameters
    ----------
    lik : Bernoulli, Gaussian or Poisson
    m, v : ndarray, shape (N,)
    y : ndarray, shape (N, 1)

    Returns
    -------
    ndarray, shape (N,)

    Examples
    --------
    >>> m, v, y = np.zeros(1), np.ones(1), np.zeros((1, 1))
    >>> expected_log_prob(Poisson(), m, v, y).round(6)      # −e^½
    array([-1.648721])
    """
    at_m = lik.log_prob(m[:, None], y)
    if isinstance(lik, Gaussian):
        return at_m - v * lik.info(np.zeros((1, 1)))[0, 0, 0] / 2
    if isinstance(lik, Poisson):
        return at_m + anp.exp(m) - anp.exp(m + v / 2)
    z, w = nodes(largest_std(v))
    o = m[:, None] + anp.sqrt(v)[:, None] * z
    return anp.dot(lik.log_prob(o[:, :, None], y[:, None]), w)


@checked(lik=LIKELIHOOD, m=ITERATES, v=ITERATES, y=array(2))
def expected_derivatives(lik: Likelihood, m: Any, v: Any, y: Array) -> tuple[Any, Any]:
    """E ∂log p/∂o and E ∂²log p/∂o² for o_n ~ N(m_n, v_n); differentiable by autograd.

    Parameters
    ----------
    lik : Bernoulli, Gaussian or Poisson
    m, v : ndarray, shape (N,)
    y : ndarray, shape (N, 1)

    Returns
    -------
    first, second : ndarray, shape (N,)

    Examples
    --------
    >>> m, v, y = np.zeros(1), np.ones(1), np.ones((1, 1))
    >>> first, second = expected_derivatives(Bernoulli(), m, v, y)
    >>> first.round(9)
    array([0.5])
    """
    if isinstance(lik, Gaussian):
        return lik.score(m[:, None], y)[:, 0], -lik.info(m[:, None])[:, 0, 0]
    if isinstance(lik, Poisson):
        rate = anp.exp(m + v / 2)
        return y[:, 0] - rate, -rate
    z, w = nodes(largest_std(v))
    o = (m[:, None] + anp.sqrt(v)[:, None] * z)[:, :, None]
    return anp.dot(lik.score(o, y[:, None])[:, :, 0], w), -anp.dot(lik.info(o)[:, :, 0, 0], w)


def expected(lik: Likelihood, q: Gauss, x: Any, y: Any) -> Expected:
    """E_q[log p], g and G of a linear model with one output, o = xᵀθ; of a batch their sums.

    Parameters
    ----------
    lik : Bernoulli, Gaussian or Poisson
    q : FC or Diag
    x : array_like, shape (P,) or (N, P)
    y : array_like, a scalar or shape (N,)

    Returns
    -------
    Expected

    Raises
    ------
    InvalidType
        If ``q`` is not FC or Diag, or ``lik`` not one of the three.
    InvalidValue
        If ``x`` does not have P entries in its last dimension.

    Examples
    --------
    >>> q = Diag(np.zeros(2), np.ones(2))
    >>> expected(Poisson(), q, [1.0, 0.0], 2).g.round(4).tolist()      # y − e^½
    [0.3513, 0.0]
    """
    X, Y = data(lik, q, x, y)
    m, v = output(q, X)
    first, second = expected_derivatives(lik, m, v, Y)
    ell = float(np.sum(expected_log_prob(lik, m, v, Y)))  # sec:MD-formulation#9 — L_t = −ell
    return Expected(ell, X.T @ first, (X.T * second) @ X)


def data(lik: Likelihood, q: Gauss, x: Any, y: Any) -> tuple[Array, Array]:
    """X (N, P) and y (N, 1) of one observation or a batch, checked.

    Parameters
    ----------
    lik, q, x, y
        As for :func:`expected`.

    Returns
    -------
    X : ndarray, shape (N, P)
    y : ndarray, shape (N, 1)

    Raises
    ------
    InvalidType, InvalidValue
        As :func:`expected`.

    Examples
    --------
    >>> X, Y = data(Bernoulli(), Diag(np.zeros(2), np.ones(2)), [1.0, 2.0], 1)
    >>> X.shape, Y.shape
    ((1, 2), (1, 1))
    """
    if not isinstance(q, FC | Diag):
        got = type(q).__name__
        raise InvalidType(f"q must be an FC or Diag state (an exponential family), got {got}")
    if not isinstance(lik, Bernoulli | Gaussian | Poisson):
        got = type(lik).__name__
        raise InvalidType(f"lik must have one output: Bernoulli, Gaussian or Poisson, got {got}")
    X = np.atleast_2d(checks.array("x", x, ndim=(1, 2)))
    if X.shape[1] != len(q.mu):
        got = f"shape {np.shape(x)}"
        raise InvalidValue(f"x must have {len(q.mu)} entries in its last dimension, got {got}")
    return X, lik.encode(np.atleast_1d(y), 1, batch=len(X))


@checked(v=ITERATES)
def largest_std(v: Any) -> float:
    """√max v, as a number also while autograd is tracing v.

    Parameters
    ----------
    v : ndarray, shape (N,)
        Variances.

    Returns
    -------
    float

    Examples
    --------
    >>> largest_std(np.array([1.0, 4.0]))
    2.0
    """
    while hasattr(v, "_value"):
        v = v._value
    return max(float(np.sqrt(np.max(v))), float(np.finfo(float).tiny))

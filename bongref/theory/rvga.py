"""R-VGA as its paper defines it (Lambert, Bonnabel, Bach 2021): explicit and implicit scheme.

q = rvga(prior, logistic(x, y))                # both expectations under the prior
q = rvga_implicit(prior, logistic(x, y))       # both under the posterior
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..linalg import Array, cholesky, finite, inv
from ..states import FC
from .arguments import (
    FUNCTION,
    LIKELIHOOD,
    MODEL,
    NUMBER,
    POSITIVE,
    array,
    checked,
    integer,
    observed,
    state,
)
from .newton import NotConverged

Expectation = Callable[[FC], tuple[Array, Array]]  # q -> E_q[∇ log p], E_q[∇² log p]


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
    g, G = _expected(expect, prior)
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
    NotConverged
        If it does not converge.

    Examples
    --------
    >>> expect = logistic(np.ones(1), 1.0)
    >>> q = rvga_implicit(FC(np.zeros(1), np.eye(1)), expect)
    >>> np.allclose(q.mu, expect(q)[0])      # μ_t = μ_{t-1} + P_{t-1} E_{q_t}[∇ log p]
    True
    """
    prec0, q, change = finite(inv(prior.Sigma)), prior, np.inf
    for _ in range(max_iter):
        g, G = _expected(expect, q)
        P = finite(inv(prec0 - G))
        step = P @ (prec0 @ (prior.mu - q.mu) + g)
        moved = float(np.max(np.abs(P - q.Sigma)) / np.max(np.abs(P)))
        change = max(_size(step, q.Sigma), moved)
        q = FC(q.mu + step, P)
        if change < tol:
            return q
    raise NotConverged(f"the implicit scheme did not converge in {max_iter} iterations", change, q)


def _expected(expect: Expectation, q: FC) -> tuple[Array, Array]:
    """The two expectations under q, which a function of the caller may have computed."""
    out, P = expect(q), len(q.mu)
    if not isinstance(out, tuple) or len(out) != 2:
        got = checks.describe(out)
        raise InvalidType(f"expect must return a pair (E[∇ log p], E[∇² log p]), got {got}")
    for value, shape in zip(out, ((P,), (P, P)), strict=True):
        if np.shape(value) != shape:
            wanted = f"arrays of shapes ({P},) and ({P}, {P})"
            raise InvalidValue(f"expect must return {wanted}, got {np.shape(value)}")
    return out


def _size(step: Array, P: Array) -> float:
    return float(np.max(np.abs(step) / np.sqrt(np.diag(P))))


@checked(model=MODEL, lik=LIKELIHOOD, z=array(2))
def sampled(model: Any, lik: Any, x: Array, y: Array, z: Array) -> Expectation:
    """Expectations of the derivatives of log p(y | x, θ) as means over θ = μ + L z, Σ = L Lᵀ.

    Parameters
    ----------
    model : Model
    lik : Likelihood
    x : array_like, shape (D,)
    y : float, int, bool or array_like of shape (C,)
    z : ndarray, shape (M, P)
        Standard normals, the same for every q.

    Returns
    -------
    callable
        q -> (E_q[∇ log p], E_q[∇² log p]).

    Examples
    --------
    >>> import bongref as br
    >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(1.0)
    >>> expect = sampled(model, lik, np.ones(1), np.ones(1), z=np.array([[-1.0], [1.0]]))
    >>> g, G = expect(FC(np.zeros(1), np.eye(1)))
    >>> g.round(9).tolist(), G.round(9).tolist()
    ([1.0], [[-1.0]])
    """
    from autograd import numpy as anp

    from ..models import grad, hessian

    x, y = observed(model, lik, x, y, z[0])

    def ell(theta: Any) -> Any:
        return anp.sum(lik.log_prob(model(theta, x), y))

    def expect(q: FC) -> tuple[Array, Array]:
        checks.array("z", z, shape=(None, len(q.mu)), copy=False)
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

    Examples
    --------
    >>> g, G = logistic(np.ones(1), 1.0)(FC(np.zeros(1), np.eye(1)))
    >>> g.tolist()
    [0.5]
    """
    if y not in (0, 1):
        raise InvalidValue(f"y must be 0 or 1, got {y!r}")

    def expect(q: FC) -> tuple[Array, Array]:
        checks.array("x", x, shape=(len(q.mu),), copy=False)
        k = np.sqrt(8 / np.pi) / np.sqrt(8 / np.pi + x @ q.Sigma @ x)
        p = 1 / (1 + np.exp(-k * (x @ q.mu)))
        return (y - p) * x, -k * p * (1 - p) * np.outer(x, x)

    return expect

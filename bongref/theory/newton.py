"""Newton's method over Gaussian states, with derivatives by autograd.

found = minimise(mirror.loss(lik, prior, x, y), prior)      # any function that autograd takes
found.state, found.value, found.decrement
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from autograd import grad, jacobian
from autograd import numpy as anp

from ..errors import BongrefError
from ..linalg import Array, cholesky, finite, solve
from ..states import FC, Diag
from .arguments import FUNCTION, VECTOR, checked, integer, state
from .expectations import Gauss

EPS = float(np.finfo(float).eps)


class NotConverged(BongrefError, ArithmeticError):
    """An iteration that stopped before its residual was at rounding level.

    Attributes
    ----------
    residual : float
        The residual that it reached.
    state : FC or Diag
        The last iterate.

    Examples
    --------
    >>> raise NotConverged("the iteration stalled", 0.5, None)
    Traceback (most recent call last):
    bongref.theory.newton.NotConverged: the iteration stalled; residual 0.5
    """

    def __init__(self, what: str, residual: float, state: Gauss) -> None:
        super().__init__(f"{what}; residual {residual:.3g}")
        self.what, self.residual, self.state = what, residual, state

    def __reduce__(self) -> tuple[Any, ...]:
        return NotConverged, (self.what, self.residual, self.state)


class Minimum(NamedTuple):
    """A minimum over Gaussians.

    Attributes
    ----------
    state : FC or Diag
    value : float
        The objective there.
    decrement : float
        Newton's λ², twice the expected decrease, at the last step.
    n_iter : int

    Examples
    --------
    >>> start = Diag(np.zeros(1), np.ones(1))
    >>> found = minimise(lambda q: anp.sum((q.mu - 1) ** 2 + q.var - anp.log(q.var)), start)
    >>> round(found.value, 9)
    1.0
    """

    state: Gauss
    value: float
    decrement: float
    n_iter: int


@checked(objective=FUNCTION, start=state(FC, Diag), max_iter=integer(1))
def minimise(objective: Callable[[Gauss], Any], start: Gauss, *, max_iter: int = 100) -> Minimum:
    """Minimise over all Gaussians of the family by Newton's method in (μ, L), Σ = L Lᵀ.

    The linearised problem, where it has a minimum, and the variational loss of a log-concave
    likelihood are convex in these coordinates.

    Parameters
    ----------
    objective : callable
        A function of a state that autograd can differentiate.
    start : FC or Diag
    max_iter : int

    Returns
    -------
    Minimum

    Raises
    ------
    NotConverged
        If there is no minimum, or the iteration does not end.

    Examples
    --------
    >>> start = Diag(np.zeros(1), np.ones(1))
    >>> found = minimise(lambda q: anp.sum((q.mu - 1) ** 2 + q.var - anp.log(q.var)), start)
    >>> found.state.mu.round(9).tolist()
    [1.0]
    """
    P = len(start.mu)
    both = np.arange(P), np.arange(P)
    rows, columns = np.tril_indices(P) if isinstance(start, FC) else both
    E = np.zeros((len(rows), P, P))
    E[np.arange(len(rows)), rows, columns] = 1

    def state(u: Any) -> Gauss:
        if isinstance(start, Diag):
            return Diag(u[:P], u[P:] ** 2)
        L = anp.tensordot(u[P:], E, 1)
        return FC(u[:P], anp.dot(L, L.T))

    if isinstance(start, FC):
        root = cholesky(start.Sigma)
    else:
        root = np.diag(np.sqrt(start.var))
    u0 = np.concatenate([start.mu, root[rows, columns]])
    scales = P + np.flatnonzero(rows == columns)
    u, decrement, n_iter = newton(lambda u: objective(state(u)), u0, scales, state, max_iter)
    return Minimum(state(u), float(objective(state(u))), decrement, n_iter)


@checked(f=FUNCTION, u=VECTOR, back=FUNCTION, max_iter=integer(1))
def newton(
    f: Callable[[Any], Any],
    u: Array,
    scales: Array,
    back: Callable[[Any], Gauss],
    max_iter: int,
) -> tuple[Array, float, int]:
    """Minimise f by Newton's method with a line search.

    It ends with the step whose decrement λ² is below eps: the error that the step leaves is of the
    order of λ².

    Parameters
    ----------
    f : callable
        A function of ``u`` that autograd can differentiate.
    u : ndarray, shape (n,)
        The start.
    scales : ndarray of int
        The entries of ``u`` that must stay positive: no step takes them below a tenth of what they
        were.
    back : callable
        The state of ``u``, for the error.
    max_iter : int

    Returns
    -------
    u : ndarray, shape (n,)
    decrement : float
    n_iter : int

    Raises
    ------
    NotConverged
        If there is no minimum, or the iteration does not end.

    Examples
    --------
    >>> f, back = lambda u: (u[0] - 2.0) ** 2, lambda u: Diag(u, u)
    >>> newton(f, np.ones(1), np.array([0]), back, max_iter=10)[0].tolist()
    [2.0]
    """
    gradient, hessian, decrement = grad(f), jacobian(grad(f)), math.inf
    for i in range(1, max_iter + 1):
        g, H = gradient(u), hessian(u)
        try:
            cholesky(H)
        except np.linalg.LinAlgError:
            what = (
                f"the Hessian is not positive definite at iteration {i}: "
                "no minimum, or one too ill-conditioned for Newton's method"
            )
            raise NotConverged(what, size(g), back(u)) from None
        d = -finite(solve(H, g))
        decrement = float(-g @ d)
        if decrement <= EPS:
            return u + d, decrement, i
        t = 1.0
        while np.any((u + t * d)[scales] < u[scales] / 10) or (
            decrement > 1e-8 and f(u + t * d) > f(u) - 1e-4 * t * decrement
        ):
            t /= 2
            if t < EPS:
                raise NotConverged("Newton's line search stalled", decrement, back(u))
        u = u + t * d
    what = f"Newton's method did not converge in {max_iter} iterations"
    raise NotConverged(what, decrement, back(u))


def size(*arrays: Array) -> float:
    """The largest absolute value of all entries.

    Parameters
    ----------
    *arrays : ndarray

    Returns
    -------
    float

    Examples
    --------
    >>> size(np.array([1.0, -3.0]), np.array([[2.0]]))
    3.0
    """
    return max(float(np.max(np.abs(a))) for a in arrays)

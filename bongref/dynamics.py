"""Models of how θ moves between observations, θ_t ~ N(F θ_{t-1} + b, Q) (algo:predict).

>>> import numpy as np, bongref as br
>>> state = br.Diag(mu=np.array([1.0, 2.0]), var=np.array([0.5, 0.5]))
>>> moved = br.predict(state, br.dynamics.OU(gamma=0.5, mu0=0.0, var0=1.0))
>>> moved.mu, moved.var
(array([0.5, 1. ]), array([0.875, 0.875]))
>>> br.predict(state, br.dynamics.Linear(Q=0.1)).var
array([0.6, 0.6])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import checks
from .errors import InvalidType, InvalidValue
from .linalg import Array, cholesky, eigvalsh, eye, finite, gram, is_pd, solve, sym
from .states import DLR, FC, Diag, State

EPS = float(np.finfo(float).eps)


class Static(NamedTuple):
    """θ does not move: the prior of the next step is the posterior of this one.

    Examples
    --------
    >>> import bongref as br
    >>> br.predict(br.Diag(np.zeros(1), np.ones(1)), Static())
    <Diag: P=1, mu in [0, 0], std in [1, 1]>
    """


class OU(NamedTuple):
    """Ornstein–Uhlenbeck: F = γI, b = (1−γ) mu0, Q = (1−γ²) Σ0 (sec:background).

    It keeps N(mu0, Σ0).

    Parameters
    ----------
    gamma : float
        The correlation γ of one step, in [0, 1]; 1 is no movement.
    mu0 : float or array_like, shape (P,)
        The mean that θ returns to.
    var0 : float or array_like, shape (P,) or (P, P)
        The stationary covariance Σ0: a variance, variances, or for FC a matrix.

    Examples
    --------
    >>> import bongref as br
    >>> br.predict(br.Diag(np.ones(1), np.ones(1)), OU(gamma=0.9))
    <Diag: P=1, mu in [0.9, 0.9], std in [1, 1]>
    """

    gamma: float
    mu0: Any = 0.0
    var0: Any = 1.0


class Linear(NamedTuple):
    """General linear-Gaussian dynamics, θ_t ~ N(F θ_{t-1} + b, Q).

    Parameters
    ----------
    F : float or array_like, shape (P,) or (P, P)
        A scalar, a diagonal or a matrix.
    b : float or array_like, shape (P,)
    Q : float or array_like, shape (P,) or (P, P)
        The covariance of the noise, positive semi-definite.

    Examples
    --------
    >>> import bongref as br
    >>> br.predict(br.Diag(np.ones(1), np.ones(1)), Linear(F=2.0, b=1.0, Q=0.5)).var
    array([4.5])
    """

    F: Any = 1.0
    b: Any = 0.0
    Q: Any = 0.0


Dynamics = Static | OU | Linear


class Overflow(InvalidValue):
    """A prediction that is not finite."""


def matrices(dynamics: Dynamics, P: int) -> tuple[Array, Array, Array]:
    """(F, b, Q) with F and Q as (P,) where they are diagonal and (P, P) where they are not.

    Parameters
    ----------
    dynamics : Static, OU or Linear
    P : int
        The number of parameters.

    Returns
    -------
    F : ndarray, shape (P,) or (P, P)
    b : ndarray, shape (P,)
    Q : ndarray, shape (P,) or (P, P)

    Raises
    ------
    InvalidValue
        If γ is not in [0, 1], var0 is not positive definite, Q is not positive semi-definite, or
        a part is not of a size that P allows.
    InvalidType
        If the dynamics are none of the three.

    Examples
    --------
    >>> matrices(OU(gamma=0.5, mu0=1.0, var0=4.0), 2)
    (array([0.5, 0.5]), array([0.5, 0.5]), array([3., 3.]))
    """
    if isinstance(dynamics, Static):
        return np.ones(P), np.zeros(P), np.zeros(P)
    if isinstance(dynamics, OU):
        gamma = checks.scalar("gamma", dynamics.gamma)
        if not 0 <= gamma <= 1:
            raise InvalidValue(f"gamma must be in [0, 1], got {dynamics.gamma!r}")
        var0 = _square("var0", dynamics.var0, P)
        if not (np.all(var0 > 0) if var0.ndim == 1 else is_pd(var0)):
            low = _smallest(var0)
            raise InvalidValue(f"var0 must be positive definite, got smallest eigenvalue {low:.3g}")
        b = (1 - gamma) * checks.vector("mu0", dynamics.mu0, P)
        return np.full(P, gamma), b, (1 - gamma) * (1 + gamma) * var0
    if isinstance(dynamics, Linear):
        Q = _square("Q", dynamics.Q, P)
        low = _smallest(Q)
        if not low >= (0 if Q.ndim == 1 else -P * EPS * np.max(np.abs(Q))):
            raise InvalidValue(
                f"Q must be positive semi-definite, got smallest eigenvalue {low:.3g}"
            )
        F = _square("F", dynamics.F, P, symmetric=False)
        return F, checks.vector("b", dynamics.b, P), Q
    got = checks.describe(dynamics)
    raise InvalidType(f"dynamics must be Static(), OU(...) or Linear(...), got {got}")


def predict(state: State, dynamics: Dynamics) -> State:
    """The prior q_{t|t-1} of the next step: mean F μ + b, covariance F Σ Fᵀ + Q, no projection.

    FC takes any F and Q. Diag and DLR take diagonal F and Q, with which the result stays in the
    family (and Diag any F and Q for which the result is diagonal); others are refused, because
    staying in the family would need a projection.

    Parameters
    ----------
    state : FC, Diag or DLR
        The posterior of the last step, with a mean of shape (P,).
    dynamics : Static, OU or Linear
        F and Q of shape (P,) (diagonal) or (P, P), b of shape (P,), or scalars.

    Returns
    -------
    FC, Diag or DLR
        Of the same family and, for DLR, of the same rank.

    Raises
    ------
    InvalidValue
        If a parameter of the dynamics is not allowed, or the result is not in the family or not
        positive definite.
    InvalidType
        If ``state`` is not a state or ``dynamics`` not one of the three kinds.

    Examples
    --------
    >>> import bongref as br
    >>> q = br.FC(mu=np.zeros(2), Sigma=np.eye(2))
    >>> br.predict(q, br.dynamics.Linear(F=[[1.0, 1.0], [0.0, 1.0]])).Sigma
    array([[2., 1.],
           [1., 1.]])
    """
    return propagate(checks.state("state", state), dynamics)


def propagate(state: State, dynamics: Dynamics) -> State:
    """:func:`predict` of a state that has been checked.

    Parameters
    ----------
    state : FC, Diag or DLR
    dynamics : Static, OU or Linear

    Returns
    -------
    FC, Diag or DLR
        Of the kind of ``state``; with Static() the state itself.

    Raises
    ------
    InvalidValue
        As :func:`matrices`; if F or Q is full where the family takes diagonal ones; or if the
        prediction is not positive definite.
    Overflow
        If the prediction is not finite.

    Examples
    --------
    >>> propagate(Diag(np.ones(1), np.ones(1)), OU(gamma=0.5, mu0=0.0, var0=4.0)).var
    array([3.25])
    """
    if isinstance(dynamics, Static):
        return state
    F, b, Q = matrices(dynamics, len(state.mu))
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
        return _valid(_propagate(state, dynamics, F, b, Q))


def _propagate(state: State, dynamics: Dynamics, F: Array, b: Array, Q: Array) -> State:
    if isinstance(state, FC):
        mu = (F * state.mu if F.ndim == 1 else F @ state.mu) + b  # sec:pseudocode#3
        FSF = F[:, None] * state.Sigma * F if F.ndim == 1 else F @ state.Sigma @ F.T
        Sigma = sym(FSF + (np.diag(Q) if Q.ndim == 1 else Q))  # sec:pseudocode#4
        return FC(mu, Sigma)
    if isinstance(state, Diag):
        mu = (F * state.mu if F.ndim == 1 else F @ state.mu) + b  # sec:pseudocode#3
        if F.ndim == 1 and Q.ndim == 1:
            return Diag(mu, F**2 * state.var + Q)
        root = (np.diag(F) if F.ndim == 1 else F) * np.sqrt(state.var)
        Q2 = np.diag(Q) if Q.ndim == 1 else Q
        full, size = root @ root.T + Q2, np.abs(root) @ np.abs(root).T + np.abs(Q2)
        off = np.abs(full - np.diag(np.diag(full)))
        if np.any(off > 4 * len(mu) * EPS * size):  # more than the rounding of the products
            raise InvalidValue(
                f"{_full(dynamics, F, Q)} must be diagonal for a diagonal family, or such that "
                "F Sigma F^T + Q is; got a full one, with which it is not"
            )
        return Diag(mu, np.diag(full).copy())
    if F.ndim == 2 or Q.ndim == 2:
        which = _full(dynamics, F, Q)
        raise InvalidValue(
            f"{which} must be diagonal for the DLR family, whose precision is not Ups + W W^T "
            f"otherwise; got a full {which}"
        )
    return _predict_dlr(state, F, b, Q)


def _predict_dlr(q: DLR, f: Array, b: Array, q_diag: Array) -> DLR:
    """The precision of F Σ F + Q with diagonal F and Q, again Υ + W Wᵀ of the same rank; O(R² P).

    With n = f² + QΥ, Woodbury twice gives Υ' = Υ/n and W' W'ᵀ = (fW/n) E⁻¹ (fW/n)ᵀ,
    E = I + Wᵀ (Q/n) W; no difference is taken.
    """
    if np.any((f == 0) & (q_diag == 0)):
        at = int(np.argmax((f == 0) & (q_diag == 0)))
        raise InvalidValue(
            f"F and Q must not both be 0 for a parameter, got 0 and 0 for parameter {at}: "
            "its variance would be 0"
        )
    if not np.any(f):  # nothing is left of q
        return DLR(b, 1 / q_diag, np.zeros_like(q.W))
    n = f**2 + q_diag * q.Ups
    if not np.all(n > 0):
        raise InvalidValue(
            "Q must be smaller than F^2/|Ups| where Ups < 0, for the precision to be again "
            f"Ups + W W^T of the same rank; got F^2 + Q Ups = {np.min(n):.3g} for parameter "
            f"{int(np.argmin(n))}"
        )
    E = eye(q.W.shape[1]) + gram(q.W, q.W * (q_diag / n)[:, None])
    L = cholesky(sym(E))
    W = finite(solve(L, (q.W * (f / n)[:, None]).T)).T
    return DLR(f * q.mu + b, q.Ups / n, W)


def _full(dynamics: Dynamics, F: Array, Q: Array) -> str:
    """Which of the arguments are not diagonal."""
    noise = "var0" if isinstance(dynamics, OU) else "Q"
    return " and ".join(name for name, a in (("F", F), (noise, Q)) if a.ndim == 2)


def _valid(q: State) -> State:
    from .gaussians import is_valid

    if not is_valid(q):
        if all(np.all(np.isfinite(a)) for a in q):
            raise InvalidValue(
                "F Sigma F^T + Q must be positive definite, got one that is not in float64"
            )
        raise Overflow("F Sigma F^T + Q must be finite, got one that overflows")
    return q


def _smallest(a: Array) -> float:
    """The smallest eigenvalue of a diagonal (P,) or of a symmetric matrix (P, P)."""
    return float(np.min(a)) if a.ndim == 1 else float(eigvalsh(sym(a))[0])


def _square(name: str, value: Any, P: int, symmetric: bool = True) -> Array:
    """(P,) for a scalar, a diagonal or a diagonal matrix, (P, P) otherwise."""
    a = checks.array(name, value, ndim=(0, 1, 2))
    if a.ndim < 2:
        return checks.vector(name, a, P)
    a = checks.symmetric(name, a, P) if symmetric else checks.array(name, a, shape=(P, P))
    return np.diag(a).copy() if not np.any(a - np.diag(np.diag(a))) else a

"""When do two routes agree? One helper for tests, audit and conformance.

Two routes to a number differ by rounding. How much rounding may move it is a property of the
problem and of the matrices that the equations invert. cond is the larger of

* the largest change of the result, relative to its size, for relative changes δ of the inputs, over
  a few random directions (single numbers of a vector by δ of themselves; entries of a matrix by δ
  of the matrix's largest entry);
* the condition numbers of the covariances of the prior, of the current iterate and of the result;
* what the difference in the Woodbury identity loses: the largest entry of what it starts from, Σ in
  FC and 1/Υ in DLR, over the largest entry of the covariance that it arrives at.

The tolerance is c · cond · eps. A wrong sign, factor or index does not scale with eps, so it cannot
hide there.

>>> import numpy as np
>>> from bongref.routes.compare import difference
>>> difference("mu", [1.0 + 1e-15, 2.0], [1.0, 2.0]).agrees
True
>>> difference("mu", [1.0 + 1e-12, 2.0], [1.0, 2.0]).agrees
False
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..linalg import Array, eigvalsh, finite, inv
from ..states import DLR, FC, Diag, State

EPS = float(np.finfo(float).eps)
DELTA = 2.0**-30  # large relative to rounding, small relative to 1/cond for cond up to 1e7
C = 64.0  # rounding of some hundred operations, and directions worse than the few that were drawn


class Difference(NamedTuple):
    """How far a result is from what was wanted.

    Attributes
    ----------
    quantity : str
        Its name.
    got, wanted : ndarray
    relative : float
        The largest difference, relative to the largest entry wanted.
    tolerance : float
        c · cond · eps.
    cond : float

    Examples
    --------
    >>> d = difference("mu", [1.0], [1.1])
    >>> d.agrees, round(d.relative, 3)
    (False, 0.091)
    """

    quantity: str
    got: Array
    wanted: Array
    relative: float  # largest difference, relative to the largest entry wanted
    tolerance: float  # c · cond · eps
    cond: float

    @property
    def units(self) -> float:
        """The difference in units of the tolerance; ≤ 1 is agreement.

        Examples
        --------
        >>> difference("mu", [1.0], [1.0]).units
        0.0
        """
        return self.relative / self.tolerance if self.relative == self.relative else float("inf")

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance.

        Examples
        --------
        >>> difference("mu", [1.0], [1.1]).agrees
        False
        """
        return self.units <= 1

    def __str__(self) -> str:
        verdict = "agrees" if self.agrees else "DIFFERS"
        got, wanted = (
            np.array2string(np.asarray(a), precision=17, threshold=12)
            for a in (self.got, self.wanted)
        )
        return (
            f"{self.quantity} {verdict}: relative difference {self.relative:.3g}, "
            f"tolerance {self.tolerance:.3g} (cond {self.cond:.3g})"
            f"\n  got    {got}\n  wanted {wanted}"
        )


def invariants(state: State) -> dict[str, Array]:
    """What may be compared of a state: W only as W Wᵀ.

    Parameters
    ----------
    state : FC, Diag or DLR

    Returns
    -------
    dict of str to ndarray

    Examples
    --------
    >>> list(invariants(DLR(np.zeros(2), np.ones(2), np.ones((2, 1)))))
    ['mu', 'Ups', 'W W^T']
    """
    if isinstance(state, DLR):
        return {"mu": state.mu, "Ups": state.Ups, "W W^T": state.W @ state.W.T}
    return dict(state._asdict())


def perturb(value: Any, rng: np.random.Generator, delta: float = DELTA) -> Any:
    """The same problem with every input changed by a relative δ; symmetric matrices stay symmetric.

    Parameters
    ----------
    value : ndarray, tuple of these, or None
        An input: an array, a state or a Curv.
    rng : numpy.random.Generator
        For the direction.
    delta : float
        δ: of each number of a vector, and of the largest entry of a matrix.

    Returns
    -------
    ndarray, tuple or None
        Like ``value``.

    Examples
    --------
    >>> a = perturb(np.ones(3), np.random.default_rng(0), delta=1e-3)
    >>> bool(np.all(np.abs(a - 1) <= 1e-3))
    True
    """
    if value is None:
        return None
    if isinstance(value, tuple):
        return type(value)(*(perturb(v, rng, delta) for v in value))
    a = np.asarray(value, dtype=float)
    z: Array = rng.uniform(-1, 1, a.shape)
    if a.ndim == 2:
        size = np.max(np.abs(a), initial=0)
        square = a.shape[0] == a.shape[1]
        if square and np.max(np.abs(a - a.T), initial=0) <= 64 * EPS * size:  # but for rounding
            z = (z + z.T) / 2
        return a + delta * size * z
    return a * (1 + delta * z)


def condition(
    fn: Callable[..., State], *inputs: Any, draws: int = 4, seed: int = 0
) -> dict[str, float]:
    """The condition number of each quantity of ``fn(*inputs)``, at least 1.

    Parameters
    ----------
    fn : callable
        A function of the inputs whose result is a state.
    *inputs : states, Curv or arrays
    draws : int
        The number of random directions.
    seed : int
        For these directions.

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> condition(lambda q: q, Diag(np.ones(2), np.array([1.0, 4.0])))
    {'mu': 4.0, 'var': 4.0}
    """
    rng = np.random.default_rng(seed)
    result = fn(*inputs)
    base = invariants(result)
    states = [q for q in (*inputs, result) if isinstance(q, FC | Diag | DLR)]
    cond = dict.fromkeys(
        base, max([1.0, woodbury_loss(states)] + [matrix_condition(q) for q in states])
    )
    for _ in range(draws):
        moved = invariants(fn(*(perturb(v, rng) for v in inputs)))
        for key in base:
            size = np.max(np.abs(base[key]), initial=0)
            change = np.max(np.abs(moved[key] - base[key]), initial=0)
            ratio = float(change / (DELTA * size)) if size > 0 else np.inf if change > 0 else 1.0
            cond[key] = max(cond[key], ratio)
    return cond


def woodbury_loss(states: list[State]) -> float:
    """The largest Σ (FC) or 1/|Υ| (DLR) over the smallest covariance, by largest entries.

    Parameters
    ----------
    states : list of FC or DLR

    Returns
    -------
    float
        1 without such states.

    Examples
    --------
    >>> woodbury_loss([FC(np.zeros(1), 4 * np.eye(1)), FC(np.zeros(1), np.eye(1))])
    4.0
    """
    sound = [q for q in states if all(np.all(np.isfinite(a)) for a in q[1:])]
    full = [np.max(np.abs(q.Sigma)) for q in sound if isinstance(q, FC)]
    low_rank = [q for q in sound if isinstance(q, DLR) and np.all(q.Ups != 0)]
    start = full + [np.max(1 / np.abs(q.Ups)) for q in low_rank]
    end = full + [np.max(np.abs(finite(inv(np.diag(q.Ups) + q.W @ q.W.T)))) for q in low_rank]
    return float(max(start) / min(end)) if start and min(end) > 0 else 1.0


def matrix_condition(q: State) -> float:
    """The condition number of the covariance (of a DLR state that of its precision).

    Parameters
    ----------
    q : FC, Diag or DLR

    Returns
    -------
    float

    Examples
    --------
    >>> matrix_condition(Diag(np.zeros(2), np.array([1.0, 4.0])))
    4.0
    """
    if isinstance(q, Diag):
        size = np.abs(q.var)
    else:
        a = q.Sigma if isinstance(q, FC) else np.diag(q.Ups) + q.W @ q.W.T
        size = np.abs(eigvalsh(a)) if np.all(np.isfinite(a)) else np.array([np.nan])
    return float(size.max() / size.min()) if size.min() > 0 else np.inf


def differences(
    got: State, wanted: State, cond: dict[str, float], c: float = C, whole: bool = False
) -> list[Difference]:
    """One :class:`Difference` for each quantity of two states.

    Parameters
    ----------
    got, wanted : FC, Diag or DLR
        Two states of one family.
    cond : dict of str to float
        From :func:`condition`.
    c : float
        The factor of the tolerance c · cond · eps.
    whole : bool
        For a route that knows the precision of a DLR state only as a whole: Υ and W Wᵀ, which it
        has to take apart, are then compared relative to the size of Υ + W Wᵀ.

    Returns
    -------
    list of Difference

    Examples
    --------
    >>> q = Diag(np.ones(2), np.ones(2))
    >>> [d.agrees for d in differences(q, q, {"mu": 1.0, "var": 1.0})]
    [True, True]
    """
    a, b = invariants(got), invariants(wanted)
    size = 0.0
    if whole and isinstance(wanted, DLR):
        size = float(np.max(np.abs(np.diag(wanted.Ups) + wanted.W @ wanted.W.T)))
    return [
        difference(key, a[key], b[key], cond[key], c, size if key != "mu" else 0.0) for key in b
    ]


def difference(
    quantity: str, got: Any, wanted: Any, cond: float = 1.0, c: float = C, size: float = 0.0
) -> Difference:
    """How far ``got`` is from ``wanted``.

    Parameters
    ----------
    quantity : str
        Its name, for the message.
    got, wanted : array_like
    cond, c : float
        The tolerance is c · cond · eps, relative to the largest entry wanted.
    size : float
        What the difference is relative to at least.

    Returns
    -------
    Difference

    Examples
    --------
    >>> difference("mu", [1.0], [1.0]).relative
    0.0
    """
    got, wanted = np.asarray(got, dtype=float), np.asarray(wanted, dtype=float)
    if got.shape != wanted.shape:
        return Difference(quantity, got, wanted, float("inf"), c * cond * EPS, cond)
    size = max(size, float(np.max(np.abs(wanted), initial=0)))
    gap = np.max(np.abs(got - wanted), initial=0)
    relative = float(gap / size) if size > 0 else (0.0 if gap == 0 else float("inf"))
    if not np.all(np.isfinite(got)) or not np.all(np.isfinite(wanted)):
        relative = 0.0 if np.array_equal(got, wanted, equal_nan=True) else float("inf")
    return Difference(quantity, got, wanted, relative, c * cond * EPS, float(cond))

"""The oracle: a step as plain dicts in and out, for other code and other languages.

``prior``, ``current`` and the result are {"mu", "Sigma"}, {"mu", "var"} or {"mu", "Ups", "W"};
``curv`` has "g" and at least one of "S" (G = −S Sᵀ), "G" (dense, every family) and "d" (diag G, the
diagonal families). ``out["valid"]`` says whether the result is positive definite; the values are
those of the equations, whatever they are.

>>> import bongref as br
>>> prior, curv = {"mu": [0.0], "var": [1.0]}, {"g": [1.0], "S": [[1.0]]}
>>> out = br.oracle.step("blr-lin-hess-diag", prior, None, curv, alpha=0.5)
>>> out["mu"], out["var"], out["valid"]
(array([0.33333333]), array([0.66666667]), True)
>>> br.oracle.step("blr-lin-hess-diag", prior, None, curv, alpha=0.5, digits=50)["valid"]
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import checks, filter
from ..curvature import Curv, dense, diagonal
from ..errors import InvalidType, InvalidValue
from ..gaussians import is_valid
from ..grid import STATES, Method, method
from ..states import DLR, State
from . import exact

LARGEST_DIGITS = 100_000  # that can be asked for
MOST_DIGITS = 1000  # digits that a step is tried with, before they are doubled for the last time
EPS = 4 * float(np.finfo(float).eps)  # a last bit, also of the length of a row of W


def step(
    name: str,
    prior: Mapping[str, Any],
    current: Mapping[str, Any] | None,
    curv: Mapping[str, Any],
    *,
    digits: int | None = None,
    **params: Any,
) -> dict[str, Any]:
    """One step of a method, from plain dicts to a plain dict.

    Parameters
    ----------
    name : str
        One of the names of :func:`bongref.methods`.
    prior : dict
        The state q_{t|t-1}: ``mu`` (P,) and ``Sigma`` (P, P), or ``var`` (P,), or ``Ups`` (P,) and
        ``W`` (P, R), as the family of the method has it.
    current : dict or None
        The iterate q_{t,i-1}, like the prior; None is the prior itself. bong and bog ignore it.
    curv : dict
        The expected gradient ``g`` (P,) and the expected Hessian as at least one of ``S`` (P, K),
        ``G`` (P, P) and ``d`` (P,). Several must be the same Hessian; the first of S, G, d is used.
    digits : int, optional
        With it the step is computed in exact arithmetic, or where an SVD enters with at least so
        many digits, and rounded once; a number beyond the largest float64 is then ±inf.
    **params
        Parameters of the method, e.g. ``alpha``.

    Returns
    -------
    dict
        The fields of the state, and ``valid``: whether it is finite and positive definite.

    Raises
    ------
    InvalidValue, InvalidType
        If an argument is not allowed. A result that is not positive definite is none of these.
    NotDerived
        If the paper derives no update for the method.

    Examples
    --------
    >>> prior = {"mu": [0.0, 0.0], "Sigma": [[1.0, 0.0], [0.0, 1.0]]}
    >>> out = step("bong-lin-hess-fc", prior, None, {"g": [1.0, 0.0], "S": [[1.0], [0.0]]})
    >>> out["Sigma"]
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    kind = STATES[method(name).family]
    q0 = _state("prior", prior, kind)
    ignored = current is None or method(name).rule in ("bong", "bog")
    q = None if ignored else _state("current", current, kind)
    if isinstance(q0, DLR):
        rank = checks.array("prior.W", q0.W, ndim=2).shape[1]
        if params.setdefault("rank", rank) != rank:
            raise InvalidValue(f"rank must be prior['W'].shape[1] = {rank}, got {params['rank']}")
    m = method(name, **params)
    digits = None if digits is None else checks.integer("digits", digits, 1)
    out, info = filter.step(m, q0, q, _curv(curv))
    valid = info.valid
    if digits is not None:
        if digits > LARGEST_DIGITS:
            raise InvalidValue(f"digits must be at most {LARGEST_DIGITS}, got {digits}")
        with np.errstate(invalid="ignore"):  # NaN of a matrix that is singular to so many digits
            precise = _precise(m, *_checked(m, q0, q, _curv(curv)), digits)
        out = exact.rounded(precise)
        valid = is_valid(precise) and all(bool(np.all(np.isfinite(a))) for a in out)
    return {**out._asdict(), "valid": valid}


def _precise(m: Method, prior: State, current: State | None, curv: Curv, digits: int) -> State:
    """The step with twice the digits until twice as many change no float64 of the result.

    Where the entries have very different sizes, the small ones need more digits than were asked
    for. At a tie of singular values at the cut no number of digits settles the result.
    """
    out = exact.step(m, prior, current, curv, digits=digits)
    if len(prior.mu) <= exact.RATIONAL_UP_TO and not exact.needs_roots(m):
        return out  # rational numbers: nothing is rounded
    while digits <= MOST_DIGITS:
        digits *= 2
        last, out = out, exact.step(m, prior, current, curv, digits=digits)
        if _same_floats(exact.rounded(last), exact.rounded(out)):
            break
    return out


def _same_floats(one: State, other: State) -> bool:
    """Whether two states are equal up to the last bit, W up to a rotation of its columns.

    NaN, of a matrix that is singular to so many digits, is equal to nothing.
    """
    return all(
        np.allclose(a, b, rtol=EPS, atol=0)
        for a, b in zip(_invariants(one), _invariants(other), strict=True)
    )


def _invariants(q: State) -> list[Any]:
    return [np.hypot.reduce(a, axis=1) if k == "W" else a for k, a in q._asdict().items()]


def _checked(
    m: Method, prior: State, current: State | None, curv: Curv
) -> tuple[State, State | None, Curv]:
    """The arguments as :func:`bongref.filter.step` sees them: float64 and symmetric."""
    kind = STATES[m.family]
    diagonal_ok = m.family in ("diag", "diag_mom")
    prior = checks.state("prior", prior, kind)
    current = None if current is None else checks.state("current", current, kind)
    return prior, current, checks.curv(curv, len(prior.mu), diagonal_ok=diagonal_ok)


def _state(name: str, value: Any, kind: Any) -> State:
    fields = kind._fields
    wanted = f"{name} must be a dict with the keys {', '.join(fields)}"
    if not isinstance(value, Mapping):
        remedy = f"; use {name}._asdict()" if hasattr(value, "_asdict") else ""
        raise InvalidType(f"{wanted}, got {checks.describe(value)}{remedy}")
    if set(value) - {"valid"} != set(fields):
        raise InvalidValue(f"{wanted}, got {sorted(map(str, value))}")
    out: State = kind(*(value[f] for f in fields))
    return out


def _curv(value: Any) -> Curv:
    wanted = "curv must be a dict with the key g and at least one of S, G, d"
    if not isinstance(value, Mapping):
        raise InvalidType(f"{wanted}, got {checks.describe(value)}")
    if "g" not in value or not {"g"} < set(value) <= {"g", "S", "G", "d"}:
        raise InvalidValue(f"{wanted}, got {sorted(map(str, value))}")
    given = [key for key in ("S", "G", "d") if key in value]
    first, *others = [Curv(value["g"], **{key: value[key]}) for key in given]
    for other in others:
        _same_hessian(first, other)
    return first


def _same_hessian(one: Curv, other: Curv) -> None:
    """Refuse two Hessians in one curv that are not the same, to 1e-8 of the largest entry."""
    P = len(checks.array("curv.g", one.g, ndim=1))
    one, other = (checks.curv(c, P, diagonal_ok=True) for c in (one, other))
    reading = dense if other.d is None else diagonal
    with np.errstate(over="ignore", invalid="ignore"):
        a, b = reading(one), reading(other)
        same = float(np.max(np.abs(a - b))) <= 1e-8 * float(np.max(np.abs(a))) < np.inf
    if not same:
        names = [
            next(k for k in ("S", "G", "d") if getattr(c, k) is not None) for c in (one, other)
        ]
        raise InvalidValue(
            f"curv: {' and '.join(names)} must be the same Hessian (G = -S S^T, d = diag G), "
            "got two that are not"
        )

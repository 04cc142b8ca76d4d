"""The same step code without rounding: on exact rationals, and on mpmath numbers where a root or the SVD enters.

Every float64 is a rational number. The displayed equations of FC, FC_MOM, DIAG, DIAG_MOM and of bog and bbb in DLR use + − × ÷ alone,
so the family modules themselves, run on object arrays of :class:`fractions.Fraction`, return the exact result. bong and blr in DLR
take roots and an SVD: they run on ``mpmath.mpf`` with a chosen number of digits and a working precision of more than twice that.
"""

from __future__ import annotations

from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

from ..curvature import Curv
from ..grid import MODULES, Method
from ..linalg import Array
from ..states import State

RATIONAL_UP_TO = 40  # parameters; beyond that the fractions of an elimination grow too long, and mpmath takes over


def needs_roots(m: Method) -> bool:
    """Whether the step takes roots or an SVD, so that it is not rational."""
    return m.family == "dlr" and m.rule in ("bong", "blr")


def step(m: Method, prior: State, current: State | None, curv: Curv, digits: int = 50) -> State:
    """The displayed form of a step in exact arithmetic: a state of object arrays. :func:`rounded` makes float64 of it."""
    current = prior if current is None else current
    fn = getattr(MODULES[m.family], m.rule)
    alpha = m.params.get("alpha", 1.0)
    try:
        if not needs_roots(m) and len(prior.mu) <= RATIONAL_UP_TO:
            out = fn(_each(prior, rational), _each(current, rational), _each(curv, rational), Fraction(alpha))
            return _only(out, Rational)
        mp = require_mpmath()
        with mp.workdps(2 * digits + 20):
            out = fn(_each(prior, _mpf), _each(current, _mpf), _each(curv, _mpf), mp.mpf(alpha))
            return _only(out, mp.mpf)
    except ZeroDivisionError:  # a precision that is exactly 0 has no variance
        return type(prior)(*(np.full(np.shape(a), np.nan, dtype=object) for a in prior))


def rounded(state: State) -> State:
    """Each number rounded once, to the nearest float64; one beyond the largest is ±inf."""
    return type(state)(*(np.array([_float(v) for v in a.flat]).reshape(a.shape) for a in state))


def _float(v: Any) -> float:
    try:
        return float(v)
    except OverflowError:
        return np.inf if v > 0 else -np.inf


def rational(a: Any) -> Any:
    """The float64 array as exact fractions."""
    return np.frompyfunc(Fraction, 1, 1)(np.asarray(a, dtype=float)) if np.ndim(a) else Fraction(float(a))


def _mpf(a: Array) -> Array:
    return np.frompyfunc(require_mpmath().mpf, 1, 1)(np.asarray(a, dtype=float))


def _each(parts: Any, convert: Any) -> Any:
    return type(parts)(*(None if a is None else convert(a) for a in parts))


def _only(state: State, kind: Any) -> State:
    """Refuse a result in which a float crept in: it would not be exact. NaN, of a singular matrix, is let through."""
    for name, a in zip(state._fields, state, strict=True):
        for v in a.flat:
            if not isinstance(v, kind) and v == v:
                raise AssertionError(f"{name} holds a {type(v).__name__}: the step code is not exact")
    return state


def require_mpmath() -> Any:
    try:
        from mpmath import mp
    except ImportError:
        raise ImportError("the exact route of bong and blr in DLR needs mpmath: pip install 'bongref[exact]'") from None
    return mp

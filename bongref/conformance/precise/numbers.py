"""Numbers of 60 digits and more in object arrays; their rounding; how many digits are enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

import numpy as np
from mpmath import mp

from ...errors import InvalidType
from ...linalg import Array
from ...states import DLR

DPS = 60  # digits of the arithmetic: ten more than are promised

P = ParamSpec("P")
T = TypeVar("T")


def working(fn: Callable[P, T]) -> Callable[P, T]:
    """The function with DPS digits, or with the caller's if they are more."""

    @wraps(fn)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        # mpf * array makes the repr of the array before numpy takes over: keep it short
        with mp.workdps(max(mp.dps, DPS)), np.printoptions(threshold=0, edgeitems=0):
            return fn(*args, **kwargs)

    return inner


def exactly(a: Any) -> Array:
    """An array as mpf of the same values; one number as one mpf."""
    quiet = np.errstate(invalid="ignore")  # numpy warns where a NaN is converted
    with mp.workdps(max(mp.dps, DPS)), quiet:
        if np.ndim(a) == 0:
            one: Array = number(a.item() if isinstance(a, np.ndarray) else a)
            return one
        a = np.asarray(a)
        if a.dtype.kind not in "biufO":
            raise InvalidType(f"the array must hold numbers, got an array of {a.dtype}")
        many: Array = np.frompyfunc(number, 1, 1)(a) if a.size else a.astype(object)
        return many


def number(v: Any) -> Any:
    """One number as a mpf."""
    return v if isinstance(v, mp.mpf) else mp.mpf(v if isinstance(v, int) else float(v))


def rounded(x: Any) -> Any:
    """Every number rounded once, to the nearest float64, in arrays, states, dicts and lists."""
    if isinstance(x, np.ndarray):
        return np.array([to_float(v) for v in x.flat], dtype=float).reshape(x.shape)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(rounded(v) for v in x))
    if isinstance(x, Mapping):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(rounded(v) for v in x)
    return to_float(x) if isinstance(x, mp.mpf) else x


def to_float(v: Any) -> float:
    """float(v); below the normal numbers through a fraction, because mpmath rounds twice there."""
    if isinstance(v, mp.mpf) and v and mp.isfinite(v) and abs(v) < mp.ldexp(1, -1022):
        if abs(v) < mp.ldexp(1, -1080):
            return math.copysign(0.0, int(mp.sign(v)))
        sign, man, exp, _ = v._mpf_
        return float(Fraction(-int(man) if sign else int(man)) / Fraction(2) ** -int(exp))
    return float(v)


def each(fn: Callable[[Any], Any], a: Array) -> Array:
    """A function of every entry."""
    return np.frompyfunc(fn, 1, 1)(a) if np.size(a) else a


def diag(d: Array) -> Array:
    """A diagonal matrix."""
    out = zeros((len(d), len(d)))
    out[np.arange(len(d)), np.arange(len(d))] = d
    return out


def zeros(shape: tuple[int, ...]) -> Array:
    """An array of mpf zeros."""
    return np.full(shape, mp.zero, dtype=object)


def average(a: Array) -> Array:
    """The mean over the first axis."""
    mean: Array = a.sum(axis=0) / mp.mpf(len(a))
    return mean


def has_nan(parts: Any) -> bool:
    """Whether a state or a curvature holds a NaN."""
    return any(a is not None and any(v != v for v in np.ravel(a)) for a in parts)


# --- how many digits are enough -------------------------------------------------------------------


def stable(fn: Callable[[], Any], digits: Sequence[int] = (DPS, 90, 200, 500, 900)) -> Any:
    """fn() with the first number of digits that gives the same float64 as the number before it.

    Every entry must have the same bits; of a DLR state mu, Ups and W Wᵀ are compared. An entry
    below 10^(10 − digits) of the largest in its array that falls with the digits is set to 0: it is
    the rounding error of a 0. An array whose entries are all that small is compared with 1.
    """
    with mp.workdps(digits[0]):
        low = fn()
    for before, now in pairwise(digits):
        with mp.workdps(now):
            high = fn()
            try:
                return _same(low, high, "result", before)
            except NotSettled:
                if now == digits[-1]:
                    raise
        low = high


@working
def invariants(q: DLR) -> dict[str, Array]:
    """What may be compared of a DLR state: the columns of W are free up to a rotation."""
    return {"mu": q.mu, "Ups": q.Ups, "W W^T": q.W @ q.W.T}


class NotSettled(AssertionError):
    """An entry whose float64 still changes with the number of digits."""


def _same(low: Any, high: Any, where: str, dps: int) -> Any:
    if isinstance(high, DLR):
        _same(invariants(low), invariants(high), where, dps)
        return high
    if isinstance(high, tuple | list) and len(low) == len(high):
        names = [f".{f}" for f in getattr(high, "_fields", ())] or [
            f"[{i}]" for i in range(len(high))
        ]
        parts = [_same(a, b, where + n, dps) for n, a, b in zip(names, low, high, strict=True)]
        return type(high)(*parts) if hasattr(high, "_fields") else type(high)(parts)
    if isinstance(high, Mapping) and low.keys() == high.keys():
        return {k: _same(low[k], high[k], f"{where}[{k!r}]", dps) for k in high}
    if isinstance(high, np.ndarray) and low.shape == high.shape:
        size = max((abs(v) for v in high.flat if mp.isfinite(v)), default=mp.zero)
        out = high.copy()
        for at in np.ndindex(high.shape):
            out[at] = _same_number(
                low[at], high[at], size, f"{where}[{', '.join(map(str, at))}]", dps
            )
        return out
    if isinstance(high, mp.mpf):
        return _same_number(low, high, abs(high), where, dps)
    assert low is high or (type(low) is type(high) and low == high), (
        f"{where}: {low!r} at {dps} digits, {high!r} at more"
    )
    return high


def _same_number(low: Any, high: Any, size: Any, where: str, dps: int) -> Any:
    a, b = to_float(low), to_float(high)
    if a == b or (a != a and b != b):
        return high
    tiny = mp.mpf(10) ** (10 - dps)
    if (
        abs(low) <= tiny * (size if size > tiny else 1)
        and abs(high) <= abs(low) * mp.mpf(10) ** -20
    ):
        return mp.zero
    raise NotSettled(f"{where} needs more digits: {a!r} at {dps} digits, {b!r} at more")

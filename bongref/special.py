"""The special functions of the reference path: SciPy's where it is there, else in pure Python.

This is the one place that imports ``scipy.special``. In a browser (WebAssembly) there is no SciPy,
and the functions below compute the same values from ``math`` and ``statistics``, an entry at a
time. tests/test_special.py compares both over wide ranges.

>>> from bongref import special
>>> float(special.ndtr(0.0)), float(special.gammaln(5.0)) == float(special.gammaln([5.0])[0])
(0.5, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

#: B_2, B_4, ..., B_20: the Bernoulli numbers of the asymptotic series
BERNOULLI = (
    (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
    (43867, 798), (-174611, 330),
)  # fmt: skip
FAR = 15.0  # the asymptotic series is used from here on


@cache
def _scipy() -> Any:
    """``scipy.special``, or None where SciPy is not installed."""
    try:
        import scipy.special
    except ImportError:
        return None
    return scipy.special


def _each(f: Callable[[float], float], x: Any) -> Any:
    """f of every entry, as float64."""
    return np.asarray(np.frompyfunc(f, 1, 1)(np.asarray(x, dtype=float))).astype(float)[()]


def ndtr(x: Any) -> Any:
    """The standard normal distribution function Φ(x), of every entry."""
    sp = _scipy()
    return sp.ndtr(x) if sp else _each(_ndtr, x)


def ndtri(p: Any) -> Any:
    """The standard normal quantile Φ⁻¹(p), of every entry."""
    sp = _scipy()
    return sp.ndtri(p) if sp else _each(_ndtri, p)


def gammaln(x: Any) -> Any:
    """log |Γ(x)|, of every entry."""
    sp = _scipy()
    return sp.gammaln(x) if sp else _each(_gammaln, x)


def polygamma(n: int, x: Any) -> Any:
    """The (n + 1)-th derivative of log Γ at x > 0, of every entry; n = 0 is digamma."""
    sp = _scipy()
    if sp:
        return sp.digamma(x) if n == 0 else sp.polygamma(n, x)
    return _each(lambda v: _polygamma(n, v), x)


def xlogy(x: Any, y: Any) -> Any:
    """x log y, 0 where x is 0, of every entry."""
    sp = _scipy()
    if sp:
        return sp.xlogy(x, y)
    x, y = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
    zero = (x == 0) & ~np.isnan(y)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(zero, 0.0, x * np.log(np.where(zero, 1.0, y)))[()]


# --- without SciPy, one number at a time ----------------------------------------------------------


def _ndtr(x: float) -> float:
    return math.erfc(-x * math.sqrt(0.5)) / 2


def _ndtri(p: float) -> float:
    if 0 < p < 1:
        from statistics import NormalDist

        return NormalDist().inv_cdf(p)
    return math.inf if p == 1 else -math.inf if p == 0 else math.nan


def _gammaln(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or beyond the largest float
        return math.inf


def _polygamma(n: int, x: float) -> float:
    """The recurrence up to x ≥ FAR + n, and from there the asymptotic series in 1/x²."""
    if not 0 < x < math.inf:
        return math.inf if x == math.inf and n == 0 else 0.0 if x == math.inf else math.nan
    sign, total = (-1.0) ** (n + 1), 0.0
    while x < FAR + n:
        total += math.factorial(n) / x ** (n + 1)
        x += 1
    if n == 0:
        tail = math.log(x) - 1 / (2 * x)
        tail -= sum(a / b / (2 * k * x ** (2 * k)) for k, (a, b) in enumerate(BERNOULLI, 1))
        return tail - total
    tail = math.factorial(n - 1) / x**n + math.factorial(n) / (2 * x ** (n + 1))
    for k, (a, b) in enumerate(BERNOULLI, 1):
        rising = math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        tail += a / b * rising / x ** (2 * k + n)
    return sign * (total + tail)

"""Observations from outside as arrays of numbers; what is not one is refused with what is allowed.

>>> from bongref.likelihoods.encoding import observation
>>> observation([1, 2], C=1, batch=2, allowed="finite real numbers")
array([[1.],
       [2.]])
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ..errors import InvalidType, InvalidValue
from ..linalg import Array
from ..tables import USE_NONE, complete, describe

LABELS = "; encode classes as 0, 1, ...: Y = numpy.unique(labels, return_inverse=True)[1]"


def real_numbers(y: Any, allowed: str) -> Array:
    """A float64 copy of an array of real numbers; anything else, or a missing entry, is refused."""
    y = complete("y", y)
    try:
        a = np.asarray(y)
        real = a.dtype == object and all(isinstance(v, numbers.Real) for v in a.flat)
        if a.dtype.kind not in "biuf" and not real:
            raise TypeError
        return np.array(a, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        classes = "0 or 1" in allowed or "labels" in allowed
        texts = any(isinstance(v, str) for v in np.asarray(y, dtype=object).flat)
        remedy = LABELS if classes and texts else ""
        raise InvalidType(f"y must be {allowed}, got {describe(y)}{remedy}") from None


def require(a: Array, ok: Any, allowed: str) -> Array:
    """a, if all its entries are ok."""
    if not np.all(ok):
        at = int(np.flatnonzero(~ok)[0])
        index = tuple(int(i) for i in np.unravel_index(at, a.shape))
        where = f" at index {index}" if a.size > 1 else ""
        remedy = USE_NONE if np.isnan(a.flat[at]) else LABELS if "0 or 1" in allowed else ""
        raise InvalidValue(f"y must be {allowed}, got {a.flat[at]}{where}{remedy}")
    return a


def observation(y: Any, C: int, batch: int | None, allowed: str) -> Array:
    """y as (C,), or (N, C) with batch=N; without the last axis too when C = 1; finite."""
    a, lead = real_numbers(y, allowed), () if batch is None else (batch,)
    if a.shape != (*lead, C) and not (C == 1 and a.shape == lead):
        also = f" or {lead}" if C == 1 else ""
        raise InvalidValue(f"y must have shape {(*lead, C)}{also}, got {a.shape}")
    return require(a.reshape(*lead, C), np.isfinite(a.reshape(*lead, C)), allowed)

"""What comes in from outside as arrays of numbers; what is not one is refused with what is allowed.

>>> from bongref.likelihoods.encoding import observation
>>> observation([1, 2], C=1, batch=2, allowed="finite real numbers")
array([[1.],
       [2.]])
"""

from __future__ import annotations

import functools
import numbers
import types
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from autograd.tracer import isbox

from ..checks import integer, seed_or_generator
from ..errors import InvalidType, InvalidValue
from ..linalg import Array
from ..tables import USE_NONE, complete, describe, foreign

LABELS = "; encode classes as 0, 1, ...: Y = numpy.unique(labels, return_inverse=True)[1]"
Class = TypeVar("Class", bound=type)


def checked(cls: Class) -> Class:
    """The class, its functions of an output o, a mean h, η or y with their arguments checked.

    Arrays of numbers (..., C) become float64; what autograd traces passes; ``rng`` may be a seed.
    """
    for name, f in list(vars(cls).items()):
        if isinstance(f, types.FunctionType) and _is_of_arrays(_arguments(f)):
            setattr(cls, name, _checked(f))
    return cls


ARRAYS = {"o", "h", "eta", "y"}
CHECKED = ARRAYS | {"rng"}
DENSITIES = {"log_prob", "log_prob_mean", "prob_mean"}  # of an observation that must be possible


def _arguments(f: types.FunctionType) -> list[str]:
    """The names of the arguments after self."""
    return list(f.__code__.co_varnames[1 : f.__code__.co_argcount])


def _is_of_arrays(names: list[str]) -> bool:
    return names[:1] != [] and names[0] in ARRAYS and set(names) <= CHECKED


def _checked(f: types.FunctionType) -> Callable[..., Any]:
    names = _arguments(f)

    @functools.wraps(f)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(given) != len(names) or set(given) != set(names):
            return f(self, *args, **kwargs)  # Python says what is wrong
        read = {name: _read(name, value) for name, value in given.items()}
        if names[1:] == ["y"]:
            _require_alike(names[0], *read.values())
        if f.__name__ not in DENSITIES:
            return f(self, **read)
        if not isbox(read["y"]):
            possible(self.name, read["y"])
        with np.errstate(over="ignore"):  # the logarithm of a density that is 0 in float64 is -inf
            return f(self, **read)

    return call


def _read(name: str, value: Any) -> Any:
    if name == "rng":
        return seed_or_generator(name, value)
    if isbox(value):
        return value
    if not (type(value) is np.ndarray and value.dtype == np.float64):
        value = real_numbers(value, "an array of real numbers", name)
    if value.ndim == 0 and name == "y":
        return value.reshape(1)  # an observation with one component
    if value.ndim == 0:
        got = f"the number {value}; use [{value}]"
        raise InvalidValue(f"{name} must have shape (..., C), got {got}")
    if value.shape[-1] == 0:
        raise InvalidValue(f"{name} must have shape (..., C) with C >= 1, got {value.shape}")
    return value


def _require_alike(name: str, o: Any, y: Any) -> None:
    """Refuse an observation that does not have the outputs of o, or another batch."""
    try:
        same = o.shape[-1] == y.shape[-1] and np.broadcast_shapes(o.shape, y.shape)
    except ValueError:
        same = False
    if not same:
        raise InvalidValue(f"y must have the shape of {name}, {o.shape}, got {y.shape}")


def real_numbers(y: Any, allowed: str, name: str = "y") -> Array:
    """A float64 copy of an array of real numbers; anything else, or a missing entry, is refused."""
    y = complete(name, y)
    try:
        a = np.asarray(y)
        real = a.dtype == object and all(isinstance(v, numbers.Real) for v in a.flat)
        if a.dtype.kind not in "biuf" and not real:
            raise TypeError
        return np.array(a, dtype=np.float64)
    except Exception as error:  # whatever the conversion of a foreign array says
        classes = "0 or 1" in allowed or "labels" in allowed
        texts = isinstance(y, (str, list, tuple, np.ndarray)) and any(
            isinstance(v, str) for v in np.asarray(y, dtype=object).flat
        )
        remedy = LABELS if classes and texts else foreign(error)
        raise InvalidType(f"{name} must be {allowed}, got {describe(y)}{remedy}") from None


def require(a: Array, ok: Any, allowed: str) -> Array:
    """a, if all its entries are ok."""
    if not np.all(ok):
        at = int(np.flatnonzero(~ok)[0])
        index = tuple(int(i) for i in np.unravel_index(at, a.shape))
        where = f" at index {index}" if a.size > 1 else ""
        remedy = USE_NONE if np.isnan(a.flat[at]) else LABELS if "0 or 1" in allowed else ""
        raise InvalidValue(f"y must be {allowed}, got {a.flat[at]}{where}{remedy}")
    return a


def possible(name: str, y: Array) -> Array:
    """y (..., C), if a likelihood of this name can have it: finite, 0 or 1, one-hot, or counts."""
    if name == "gaussian":
        return require(y, np.isfinite(y), "finite real numbers")
    if name == "bernoulli":
        return require(y, (y == 0) | (y == 1), "0 or 1")
    if name == "poisson":
        return require(y, (y >= 0) & (y == np.floor(y)) & np.isfinite(y), "nonnegative integers")
    if name == "categorical":
        ok = np.all((y == 0) | (y == 1), axis=-1) & (y.sum(axis=-1) == 1)
        if not np.all(ok):
            row = y[~ok][0] if y.ndim > 1 else y
            raise InvalidValue(f"y must be one-hot vectors, got {row.tolist()}")
    return y


def leading(batch: Any) -> tuple[int, ...]:
    """The leading dimensions of N observations, (N,); without ``batch``, of one, ()."""
    return () if batch is None else (integer("batch", batch, 0),)


def observation(y: Any, C: int, batch: int | None, allowed: str) -> Array:
    """y as (C,), or (N, C) with batch=N; without the last axis too when C = 1; finite."""
    a, lead = real_numbers(y, allowed), leading(batch)
    if a.shape != (*lead, C) and not (C == 1 and a.shape == lead):
        also = f" or {lead}" if C == 1 else ""
        raise InvalidValue(f"y must have shape {(*lead, C)}{also}, got {a.shape}")
    return require(a.reshape(*lead, C), np.isfinite(a.reshape(*lead, C)), allowed)

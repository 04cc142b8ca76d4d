"""Checks of the arguments of this package's functions, declared beside each function.

    @checked(prior=state(FC), lin=instance(Lin), rate=NUMBER)
    def f(prior, lin, rate): ...

The functions here also run on fractions and under autograd, so that an array that is one already
is left as it is: an array of objects, or what autograd is tracing. Messages have the form of
:mod:`bongref.checks`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import numbers
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from .. import checks
from ..curvature import Curv, Lin
from ..errors import BongrefError, InvalidType, InvalidValue

Arguments = Mapping[str, Any]
Kind = Callable[[str, Any, Arguments], Any]  # (name, value, all arguments) -> the value to use
Function = TypeVar("Function", bound=Callable[..., Any])


class Singular(BongrefError, np.linalg.LinAlgError):
    """A matrix that has to be solved with is singular, not positive definite or not finite.

    Examples
    --------
    >>> from bongref.theory import literature
    >>> literature.factor_analysis(np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1)))
    Traceback (most recent call last):
    bongref.theory.arguments.Singular: factor_analysis: singular matrix; check its numbers
    """


def checked(**kinds: Kind) -> Callable[[Function], Function]:
    """A decorator that checks arguments in the order in which their kinds are given.

    A LinAlgError of the function becomes :class:`Singular`, which says in which function it was.

    Parameters
    ----------
    **kinds : callable
        For each argument a function (name, value, all arguments) that returns the value to use or
        raises InvalidType or InvalidValue.

    Examples
    --------
    >>> half = checked(x=NUMBER)(lambda x: x / 2)
    >>> half(3)
    1.5
    >>> half(None)
    Traceback (most recent call last):
    bongref.errors.InvalidType: x must be a real number, got NoneType None
    """

    def decorate(f: Function) -> Function:
        signature = inspect.signature(f)

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            for name, kind in kinds.items():
                if name in bound.arguments:
                    value = bound.arguments[name]
                    bound.arguments[name] = kind(name, value, bound.arguments)
            try:
                return f(*bound.args, **bound.kwargs)
            except np.linalg.LinAlgError as error:
                if isinstance(error, Singular):
                    raise
                raise Singular(f"{f.__name__}: {error}; check its numbers") from error

        return cast(Function, call)

    return decorate


# --- numbers and arrays ---------------------------------------------------------------------------


def is_traced(value: Any) -> bool:
    """Whether a value is one that autograd is tracing."""
    return hasattr(value, "_value")


def is_exact(value: Any) -> bool:
    """Whether a value is an array of objects, such as fractions."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "O"


def array(*ndim: int) -> Kind:
    """An array of numbers, with one of the given numbers of dimensions."""

    def check(name: str, value: Any, arguments: Arguments) -> Any:
        if is_traced(value) or (is_exact(value) and None not in value.ravel()):
            return value
        return checks.array(name, value, ndim=ndim or None, copy=False)

    return check


def ITERATES(name: str, value: Any, arguments: Arguments) -> Any:
    """Numbers from within an iteration: floats may be infinite or NaN, and an array empty."""
    known = isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind in "fO"
    return value if known else array()(name, value, arguments)


def NUMBER(name: str, value: Any, arguments: Arguments) -> Any:
    """A finite real number: a float, or an exact number."""
    if is_traced(value):
        return value
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, float, np.floating)):
        size: Any = abs(value)
        if not size <= sys.float_info.max:
            raise InvalidValue(f"{name} must be within the range of float64, got a larger one")
        return value
    return value if isinstance(value, float) and np.isfinite(value) else checks.scalar(name, value)


def optional(kind: Kind) -> Kind:
    """None, or what the given kind allows."""
    return lambda name, value, arguments: None if value is None else kind(name, value, arguments)


def REAL(name: str, value: Any, arguments: Arguments) -> Any:
    """A real number; nan and the infinities too, as results may have them."""
    return value if isinstance(value, float) else NUMBER(name, value, arguments)


def POSITIVE(name: str, value: Any, arguments: Arguments) -> Any:
    """A finite number > 0."""
    out = NUMBER(name, value, arguments)
    if not out > 0:
        raise InvalidValue(f"{name} must be > 0, got {value}")
    return out


def NONNEGATIVE(name: str, value: Any, arguments: Arguments) -> Any:
    """A finite number >= 0."""
    out = NUMBER(name, value, arguments)
    if not out >= 0:
        raise InvalidValue(f"{name} must be >= 0, got {value}")
    return out


def FRACTION(name: str, value: Any, arguments: Arguments) -> Any:
    """A number in [0, 1]."""
    out = NUMBER(name, value, arguments)
    if not 0 <= out <= 1:
        raise InvalidValue(f"{name} must be in [0, 1], got {value}")
    return out


def integer(low: int) -> Kind:
    """An integer >= low."""
    return lambda name, value, arguments: checks.integer(name, value, low)


def choice(*allowed: str) -> Kind:
    """One of the given strings."""
    return lambda name, value, arguments: checks.choice(name, value, allowed)


# --- states, curvatures, other objects ------------------------------------------------------------


def instance(*kinds: type, word: str = "", remedy: str = "") -> Kind:
    """An object of one of the given classes."""
    names = [k.__name__ for k in kinds]
    listed = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    article = "an" if names[0][0] in "AEIO" or names[0] == "FC" else "a"

    def check(name: str, value: Any, arguments: Arguments) -> Any:
        if not isinstance(value, kinds):
            got = checks.describe(value)
            raise InvalidType(f"{name} must be {article} {listed}{word}, got {got}{remedy}")
        return value

    return check


def state(*kinds: type) -> Kind:
    """A state of one of the given kinds, whose arrays have shapes that belong together.

    Whether it is positive definite is not checked: some functions return whatever the equations
    give, and take it back.
    """
    is_one = instance(*kinds, word=" state")

    def check(name: str, value: Any, arguments: Arguments) -> Any:
        is_one(name, value, arguments)
        if any(is_traced(entry) for entry in value):
            return value
        fields = [array()(f"{name}.{k}", v, arguments) for k, v in value._asdict().items()]
        P = (len(fields[0]),) if np.ndim(fields[0]) == 1 else None
        if P is None:
            raise InvalidValue(f"{name}.mu must have 1 dimension, got shape {np.shape(fields[0])}")
        for key, entry in zip(value._fields[1:], fields[1:], strict=True):
            shape = {"Sigma": P + P, "W": (*P, *np.shape(entry)[1:2])}.get(key, P)
            if np.shape(entry) != shape or (key == "W" and len(shape) != 2):
                wanted = f"({P[0]}, R)" if key == "W" else shape
                got = np.shape(entry)
                raise InvalidValue(f"{name}.{key} must have shape {wanted}, got {got}")
        return type(value)(*fields)

    return check


def CURV(name: str, value: Any, arguments: Arguments) -> Any:
    """A Curv with exactly one of S, G and d, of as many parameters as the state before it."""
    instance(Curv)(name, value, arguments)
    given = [k for k in ("S", "G", "d") if getattr(value, k) is not None]
    if len(given) != 1:
        got = ", ".join(given) or "none"
        raise InvalidValue(f"{name} must have exactly one of S, G and d, got {got}")
    P = _n_params(arguments) or len(value.g)
    entry = getattr(value, given[0])
    shapes = {"S": (P, *np.shape(entry)[1:2]), "G": (P, P), "d": (P,)}
    for key, shape in (("g", (P,)), (given[0], shapes[given[0]])):
        if np.shape(getattr(value, key)) != shape:
            got = np.shape(getattr(value, key))
            wanted = f"({P}, K)" if key == "S" else shape
            raise InvalidValue(f"{name}.{key} must have shape {wanted}, got {got}")
    return value


def LIN(name: str, value: Any, arguments: Arguments) -> Any:
    """A Lin of as many parameters as the state before it."""
    instance(Lin)(name, value, arguments)
    return value._replace(H=_columns(f"{name}.H", value.H, arguments))


def VECTOR(name: str, value: Any, arguments: Arguments) -> Any:
    """One number for each parameter of the state before it, shape (P,)."""
    out = array(1)(name, value, arguments)
    P = _n_params(arguments)
    if P is not None and np.shape(out) != (P,):
        raise InvalidValue(f"{name} must have shape ({P},), got {np.shape(out)}")
    return out


def ROWS(name: str, value: Any, arguments: Arguments) -> Any:
    """Rows of one number for each parameter of the state before them, shape (B, P)."""
    return _columns(name, value, arguments)


def _columns(name: str, value: Any, arguments: Arguments) -> Any:
    out, P = array(2)(name, value, arguments), _n_params(arguments)
    if P is not None and np.shape(out)[-1] != P:
        raise InvalidValue(f"{name} must have shape (any, {P}), got {np.shape(out)}")
    return out


def _n_params(arguments: Arguments) -> int | None:
    """The number of parameters of the first state among the arguments, or else of a Lin."""
    states = (len(v.mu) for v in arguments.values() if hasattr(v, "mu"))
    lins = (np.shape(v.H)[-1] for v in arguments.values() if isinstance(v, Lin))
    return next(itertools.chain(states, lins), None)


def PAIR_OF_ARRAYS(name: str, value: Any, arguments: Arguments) -> Any:
    """A pair of arrays: natural parameters, dual parameters, or a gradient.

    They need not be finite: iterations that solve for a pair reject such a step themselves.
    """
    if is_traced(value):
        return value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        got = checks.describe(value)
        raise InvalidType(f"{name} must be a pair of arrays such as (psi_1, psi_2), got {got}")
    known = [is_traced(v) or (isinstance(v, np.ndarray) and v.dtype.kind in "fO") for v in value]
    first, second = (
        v if known[i] else array(1, 2)(f"{name}[{i}]", v, arguments) for i, v in enumerate(value)
    )
    P, shape = np.shape(first), np.shape(second)
    if len(P) != 1 or shape not in (P, P + P):
        raise InvalidValue(f"{name} must have shapes (P,) and (P, P) or (P,), got {P} and {shape}")
    return first, second


def pair_like(other: str) -> Kind:
    """A pair of arrays with the shapes of another argument, which comes before it."""

    def check(name: str, value: Any, arguments: Arguments) -> Any:
        out = PAIR_OF_ARRAYS(name, value, arguments)
        got, wanted = (tuple(map(np.shape, pair)) for pair in (out, arguments[other]))
        if got != wanted:
            raise InvalidValue(f"{name} must have the shapes of {other}, {wanted}, got {got}")
        return out

    return check


def VECTOR_OF_PAIR(name: str, value: Any, arguments: Arguments) -> Any:
    """One number for each parameter of the pair of arrays before it, shape (P,)."""
    out, P = array(1)(name, value, arguments), np.shape(next(iter(arguments.values()))[0])
    if np.shape(out) != P:
        raise InvalidValue(f"{name} must have shape {P}, got {np.shape(out)}")
    return out


def MATRIX(name: str, value: Any, arguments: Arguments) -> Any:
    """A matrix with a row and a column for each parameter of the state before it, (P, P)."""
    out, P = array(2)(name, value, arguments), _n_params(arguments)
    if P is not None and np.shape(out) != (P, P):
        raise InvalidValue(f"{name} must have shape ({P}, {P}), got {np.shape(out)}")
    return out


def FUNCTION(name: str, value: Any, arguments: Arguments) -> Any:
    """Anything that can be called."""
    if not callable(value):
        raise InvalidType(f"{name} must be callable, got {checks.describe(value)}")
    return value


def MODEL(name: str, value: Any, arguments: Arguments) -> Any:
    """A model of :mod:`bongref.models`, or one like them."""
    return checks.model(value)


def LIKELIHOOD(name: str, value: Any, arguments: Arguments) -> Any:
    """A likelihood of :mod:`bongref.likelihoods`, or one like them."""
    return checks.likelihood(value)


def observed(model: Any, lik: Any, x: Any, y: Any, mu: Any) -> tuple[Any, Any]:
    """An observation or a mini-batch, checked, y encoded and not missing."""
    if checks.is_missing(y):
        raise InvalidValue(f"y must be given, got {y!r}")
    return checks.observation(model, lik, x, y, mu)


def GENERATOR(name: str, value: Any, arguments: Arguments) -> Any:
    """A numpy.random.Generator, or a seed."""
    return checks.seed_or_generator(name, value)

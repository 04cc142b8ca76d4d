"""Checks of everything that comes in from outside: one form of message for every argument.

A message names the argument, what is allowed, what came and, where there is one, the remedy:
"alpha must be > 0, got -1". The errors are :class:`~bongref.errors.InvalidValue` and
:class:`~bongref.errors.InvalidType`; they are raised before anything has changed.

>>> from bongref import checks
>>> checks.integer("n_iter", 3, low=1)
3
>>> checks.choice("scheme", "zero", ("normal", "zeros"))
Traceback (most recent call last):
bongref.errors.InvalidValue: scheme must be 'normal' or 'zeros', got 'zero'; did you mean 'zeros'?
"""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import operator
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import BongrefError, InvalidType, InvalidValue
from .linalg import Array, eigvalsh
from .states import DLR, FC, Diag, State
from .tables import IMPUTE, as_array, foreign, is_table, length_of, refuse_sparse, shorter
from .tables import describe as describe
from .tables import is_missing as is_missing
from .tables import partial_values as partial_values
from .tables import values as values

if TYPE_CHECKING:
    from .curvature import Curv
    from .likelihoods import Likelihood
    from .models import Model


# --- numbers, arrays, choices ---------------------------------------------------------------------


def array(
    name: str,
    value: Any,
    *,
    ndim: int | tuple[int, ...] | None = None,
    shape: tuple[int | None, ...] | None = None,
    copy: bool = True,
    empty: bool = False,
    remedy: str = "",
) -> Array:
    """A finite float64 array.

    Parameters
    ----------
    name : str
        What the messages call the argument.
    value : array_like
    ndim : int or tuple of int, optional
        The number of dimensions allowed.
    shape : tuple, optional
        The shape, with None for any length.
    copy : bool
        Whether the result is always a new array.
    empty : bool
        Whether an array without entries is allowed.
    remedy : str
        What to do about an entry that is missing or NaN; the end of that message.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    InvalidType
        If the entries are not real numbers.
    InvalidValue
        If an entry is not finite, or the shape is not allowed.

    Examples
    --------
    >>> array("mu", [0, 1], ndim=1)
    array([0., 1.])
    """
    out = _floats(name, value, remedy, copy)
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and out.ndim not in allowed:
        count = " or ".join(map(str, allowed)) + (" dimension" if ndim == 1 else " dimensions")
        raise InvalidValue(f"{name} must have {count}, got shape {out.shape}")
    if shape is not None:
        fits = out.ndim == len(shape) and all(
            n is None or n == m for n, m in zip(shape, out.shape, strict=False)
        )
        if not fits:
            raise InvalidValue(f"{name} must have shape {_shape(shape)}, got {out.shape}")
    if out.size == 0 and not empty:
        raise InvalidValue(f"{name} must not be empty, got shape {out.shape}")
    if not np.all(np.isfinite(out)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        then = remedy if np.isnan(out[where]) else ""
        raise InvalidValue(f"{name} must be finite, got {out[where]}{_at_index(where)}{then}")
    return out


def _floats(name: str, value: Any, remedy: str, copy: bool) -> Array:
    """The value as float64; numbers in an object array are converted, a missing one is refused."""
    if type(value) is not np.ndarray:
        refuse_sparse(name, value)
        if np.ma.is_masked(value):
            fill = remedy or "; use .filled(value)"
            raise InvalidValue(f"{name} must have no masked entries, got {describe(value)}{fill}")
    try:
        raw = np.asarray(value)
        if raw.dtype.kind == "O" and raw.ndim and _reals(raw, name, remedy):
            raw = raw.astype(float)
        if raw.dtype.kind not in "fiub":
            raise OverflowError if isinstance(value, int) else TypeError
        return np.array(raw, dtype=float) if copy else np.asarray(raw, dtype=float)
    except InvalidValue:
        raise
    except Exception as error:  # whatever the conversion of a foreign array says
        size = " within the range of float64" if isinstance(error, OverflowError) else ""
        raise InvalidType(
            f"{name} must be an array of real numbers{size}, got {describe(value)}{foreign(error)}"
        ) from None


def _reals(raw: Array, name: str, remedy: str) -> bool:
    """Whether all entries of an object array are real numbers; one that is missing is refused."""
    for where, v in np.ndenumerate(raw):
        if is_missing(v):
            raise InvalidValue(f"{name} must be finite, got {v!r}{_at_index(where)}{remedy}")
    return all(isinstance(v, numbers.Real) for v in raw.flat)


def scalar(name: str, value: Any) -> float:
    """A finite real number."""
    try:
        out = array(name, value)
    except InvalidType:
        out = None
    if out is None or isinstance(value, (bool, np.bool_)):
        raise InvalidType(f"{name} must be a real number, got {describe(value)}")
    if out.ndim > 0:
        raise InvalidValue(f"{name} must be a real number, got shape {out.shape}")
    return float(out)


def integer(name: str, value: Any, low: int, high: int | None = None, remedy: str = "") -> int:
    """An integer in low … high; without ``high`` below 2^53, so that float64 can hold it."""
    allowed = f">= {low}" if high is None else f"in {low}...{high}"
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        out = operator.index(value)
    except TypeError:
        shown = describe(value) if getattr(value, "ndim", 0) else repr(value)
        raise InvalidType(f"{name} must be an integer {allowed}, got {shown}{remedy}") from None
    allowed += " and < 2^53" if high is None and out >= 2**53 else ""
    if not low <= out < (2**53 if high is None else high + 1):
        raise InvalidValue(f"{name} must be an integer {allowed}, got {shorter(out)}{remedy}")
    return out


def integers(name: str, value: Any, length: int | None = None, least: int = 1) -> tuple[int, ...]:
    """A sequence of integers >= 1: of the given length, or of at least ``least`` entries."""
    allowed = f"a sequence of {f'at least {least}' if length is None else length} integers >= 1"
    unordered = isinstance(value, (str, bytes, dict, set, frozenset))
    if unordered or (n := length_of(value)) is None:
        raise InvalidType(f"{name} must be {allowed}, got {describe(value)}")
    if n != length if length is not None else n < least:
        raise InvalidValue(f"{name} must be {allowed}, got {value!r}")
    return tuple(integer(f"{name}[{i}]", v, 1) for i, v in enumerate(value))


def boolean(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidType(f"{name} must be True or False, got {value!r}")
    return bool(value)


def rank(name: str, value: Any, P: int) -> int:
    """A rank R in 1 … P."""
    R = integer(name, value, 1)
    if R > P:
        raise InvalidValue(f"{name} must be in 1...P = {P}, got {shorter(R)}; use at most {P}")
    return R


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of the allowed strings; a near miss is named."""
    if isinstance(value, str) and value in allowed:
        return value
    *most, last = map(repr, allowed)
    kind = InvalidValue if isinstance(value, str) else InvalidType
    listed = f"{', '.join(most)} or {last}" if most else last
    raise kind(f"{name} must be {listed}, got {value!r}{near_miss(value, allowed)}")


def strings(name: str, value: Any, allowed: Sequence[str]) -> tuple[str, ...]:
    """Some of the allowed strings, from a sequence of them."""
    sequence = isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0
    if isinstance(value, (str, bytes)) or not sequence:
        got = describe(value) + (f"; use [{value!r}]" if isinstance(value, str) else "")
        listed = ", ".join(map(repr, allowed))
        raise InvalidType(f"{name} must be a sequence of some of {listed}, got {got}")
    return tuple(choice(f"{name}[{i}]", v, allowed) for i, v in enumerate(value))


def near_miss(value: Any, allowed: Sequence[str], cutoff: float = 0.5) -> str:
    """The end of a message: the allowed string nearest to ``value``; empty without one."""
    given = str(value).lower()
    near = difflib.get_close_matches(given, allowed, n=1, cutoff=cutoff)
    near = near or [a for a in allowed if given and a.startswith(given)]
    return f"; did you mean {near[0]!r}?" if near else ""


def path(name: str, value: Any, suffix: str = "") -> Path:
    """A path of a file that can be written: it has the suffix, and its folder exists."""
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidType(f"{name} must be a path (str or os.PathLike), got {describe(value)}")
    out = Path(value)
    if "\0" in os.fspath(out):
        raise InvalidValue(f"{name} must be a path without null characters, got {value!r}")
    if out.suffix != suffix and suffix:
        raise InvalidValue(f"{name} must end in {suffix}, got {os.fspath(value)!r}")
    if not out.absolute().parent.is_dir():
        raise InvalidValue(f"{name} must lie in a folder that exists, got {os.fspath(value)!r}")
    if out.is_dir():
        raise InvalidValue(f"{name} must be a file, got the folder {os.fspath(value)!r}")
    return out


def function(name: str, value: Any, arguments: str) -> None:
    """A function that takes these arguments, e.g. "theta, x"."""
    try:
        inspect.signature(value).bind(*arguments.split(", "))
    except ValueError:  # a compiled one without a signature
        return
    except TypeError:
        kind = f"a function of ({arguments})"
        raise InvalidType(f"{name} must be {kind}, got {describe(value)}") from None


def seed_or_generator(name: str, value: Any) -> np.random.Generator:
    """A generator: the given one, or for an integer seed a new one, ``default_rng(seed)``."""
    if isinstance(value, np.random.Generator):
        return value
    allowed = f"{name} must be a numpy.random.Generator or a seed (an integer >= 0)"
    remedy = f"; use {name}=numpy.random.default_rng(0)"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidType(f"{allowed}, got {describe(value)}{remedy}")
    if value < 0:
        raise InvalidValue(f"{allowed}, got {value}{remedy}")
    return np.random.default_rng(int(value))


# --- states and curvatures ------------------------------------------------------------------------


def vector(name: str, value: Any, P: int) -> Array:
    """A vector (P,) from a scalar or a vector."""
    v = array(name, value, ndim=(0, 1))
    if v.ndim == 1 and len(v) != P:
        raise InvalidValue(f"{name} must be a scalar or have shape ({P},), got {v.shape}")
    return np.broadcast_to(v, (P,)).astype(float)


def symmetric(name: str, value: Any, P: int) -> Array:
    """A (P, P) matrix that is symmetric to 1e-8 of its largest entry; its symmetric part."""
    a = array(name, value, shape=(P, P), copy=False)
    blocks = range(0, P, 64)  # no second matrix
    gap = max(float(np.max(np.abs(a[i : i + 64] - a[:, i : i + 64].T))) for i in blocks)
    if gap > 1e-8 * max(float(np.max(a)), -float(np.min(a))):
        raise InvalidValue(f"{name} must be symmetric, got max|A - A^T| = {gap:.3g}")
    return a if gap == 0 else (a + a.T) / 2


def state(
    name: str, value: Any, kind: Any = None, *, P: int | None = None, R: int | None = None
) -> State:
    """A state (of one kind, if given): finite, of matching shapes, positive definite; no copy."""
    from .gaussians import is_valid

    if not isinstance(value, (FC, Diag, DLR) if kind is None else kind):
        got = type(value).__name__ if isinstance(value, (FC, Diag, DLR)) else describe(value)
        wanted = "FC, Diag or DLR" if kind is None else kind.__name__
        made = "; make it with m.prior(mu, var) of the method that is used" if kind else ""
        made = "; use its .state" if isinstance(getattr(value, "state", None), State) else made
        article = "an" if wanted.startswith("FC") else "a"
        raise InvalidType(f"{name} must be {article} {wanted} state, got {got}{made}")
    mu = array(f"{name}.mu", value.mu, ndim=1, copy=False)
    if P is not None and len(mu) != P:
        raise InvalidValue(f"{name}.mu must have shape ({P},), got {mu.shape}")
    n = len(mu)
    out: State
    if isinstance(value, FC):
        out = FC(mu, symmetric(f"{name}.Sigma", value.Sigma, n))
    elif isinstance(value, Diag):
        out = Diag(mu, array(f"{name}.var", value.var, shape=(n,), copy=False))
    else:
        W = array(f"{name}.W", value.W, shape=(n, None), copy=False)
        rank(f"the rank of {name}.W", W.shape[1], n)
        if R is not None and W.shape[1] != R:
            raise InvalidValue(f"{name}.W must have shape ({n}, {R}) for rank={R}, got {W.shape}")
        out = DLR(mu, array(f"{name}.Ups", value.Ups, shape=(n,), copy=False), W)
    if not is_valid(out):
        raise InvalidValue(f"{name} must be positive definite, got {_why_not(out)}")
    return out


def _why_not(q: State) -> str:
    if isinstance(q, FC):
        low = eigvalsh(q.Sigma)[0]
        return f"{len(q.mu)} x {len(q.mu)} Sigma with smallest eigenvalue {low:.3g}"
    if isinstance(q, Diag):
        return f"var with smallest entry {q.var.min():.3g}"
    return f"Ups with smallest entry {q.Ups.min():.3g}, which W W^T does not make up for"


def curv(value: Any, P: int, *, diagonal_ok: bool) -> Curv:
    """A Curv of P parameters with exactly one of S, G and d."""
    from .curvature import Curv, with_factor

    if not isinstance(value, Curv):
        raise InvalidType(f"curv must be a Curv, got {describe(value)}")
    given = [k for k in ("S", "G", "d") if getattr(value, k) is not None]
    if len(given) != 1:
        got = ", ".join(given) or "none"
        raise InvalidValue(f"curv must have exactly one of S, G and d, got {got}")
    g = array("curv.g", value.g, shape=(P,))
    if given == ["S"]:
        return with_factor(g, array("curv.S", value.S, shape=(P, None)), value.e)
    if given == ["G"]:
        return Curv(g, G=symmetric("curv.G", value.G, P))
    if not diagonal_ok:
        raise InvalidValue("curv must have S or G for a family that is not diagonal, got d alone")
    return Curv(g, d=array("curv.d", value.d, shape=(P,)))


# --- observations ---------------------------------------------------------------------------------


STEP = "step {step} (X[{t}], Y[{t}])"  # where an observation of a stream is refused


class Observations(NamedTuple):
    """A stream that has been checked.

    Attributes
    ----------
    xs : ndarray, shape (T, ...), or list of length T
        Inputs of a built-in model as one float array where they all have one shape.
    ys : ndarray, shape (T, ..., C), or list of length T
        Encoded observations; where one is missing, zeros in an array and None in a list.
    seen : ndarray of bool, shape (T,)
        Whether there is an observation.
    """

    xs: Array | list[Any]
    ys: Array | list[Any]
    seen: npt.NDArray[np.bool_]


def model(value: Any) -> Model:
    """A model: what :class:`bongref.models.Model` describes."""
    from .models import Model

    if isinstance(value, type) or not isinstance(value, Model):
        allowed = "made by bongref.models (linear, mlp, cnn, wrap)"
        remedy = "; use bongref.models.wrap(f, n_params)" if callable(value) else ""
        raise InvalidType(f"model must be {allowed}, got {describe(value)}{remedy}")
    return value


def likelihood(value: Any) -> Likelihood:
    """A likelihood: what :class:`bongref.likelihoods.Likelihood` describes."""
    from .likelihoods import Likelihood

    if isinstance(value, type) or not isinstance(value, Likelihood):
        word = (value.__name__ if isinstance(value, type) else str(value)).capitalize()
        known = {"Gaussian": "var=0.1", "Bernoulli": "", "Categorical": "", "Poisson": ""}
        remedy = f"; write bongref.likelihoods.{word}({known[word]})" if word in known else ""
        raise InvalidType(
            "lik must be a likelihood such as bongref.likelihoods.Bernoulli(), "
            f"got {describe(value)}{remedy or _call_it(value)}"
        )
    return value


def _call_it(value: Any) -> str:
    return f"; use {value.__name__}(...)" if isinstance(value, type) else ""


def n_outputs(model: Model, mu: Array, x: Any) -> int:
    """The number of outputs of a model; one that does not say is asked at x."""
    try:
        return model.n_outputs or int(np.shape(model(mu, x))[-1])
    except BongrefError:
        raise
    except Exception as error:
        raise InvalidValue(
            f"model must return its outputs at theta of shape {mu.shape} and x of shape "
            f"{as_array(x).shape}, got {type(error).__name__}: {error}; see n_params and x"
        ) from error


def one_input(model: Model, x: Any, name: str = "x") -> Any:
    """One input, or a batch of them, checked by the model; a data frame or series by position."""
    rows = values(name, x) if is_table(x) else x
    return _called("x", name, _input, model, rows)


def answers(lik: Likelihood, Y: Any, n_outputs: int, n: int) -> Array:
    """The n observations Y of a test set, encoded, (n, C)."""
    encoded: Array = _called("y", "Y", lambda: lik.encode(Y, n_outputs, batch=n))
    return encoded


def _called(old: str, new: str, check: Any, *args: Any) -> Any:
    """check(*args), with the argument that its messages call ``old`` called ``new``."""
    try:
        return check(*args)
    except (InvalidType, InvalidValue) as error:
        text = re.sub(rf"^{old}(?= )|(?<=; use ){old}(?=\.)", new, str(error))
        raise type(error)(text) from None


def observation(
    model: Model, lik: Likelihood, x: Any, y: Any, mu: Array
) -> tuple[Any, Array | None]:
    """(x, y) of one update, y encoded or None where it is missing; mini-batches are allowed."""
    x = one_input(model, x)
    if is_missing(y):
        return x, None
    return x, _encoded(model, lik, x, y, n_outputs(model, mu, x))


def observations(model: Model, lik: Likelihood, X: Any, Y: Any, mu: Array) -> Observations:
    """A whole stream, checked before its first step.

    Parameters
    ----------
    model : Model
    lik : Likelihood
    X : array_like, data frame or sequence, length T
        The inputs; X[t] is one input or a mini-batch of them.
    Y : array_like, data frame, series or sequence, length T
        The observations; None (in a data frame: NA) is a missing one.
    mu : ndarray, shape (P,)
        Parameters at which a model that does not know its number of outputs is asked for it.

    Returns
    -------
    Observations

    Raises
    ------
    InvalidType, InvalidValue
        With the step of the first observation that is not allowed.

    Examples
    --------
    >>> import bongref as br
    >>> model, lik = br.models.linear(1), br.likelihoods.Poisson()
    >>> observations(model, lik, [[0.5], [1.5]], [3, None], mu=np.zeros(1)).seen
    array([ True, False])
    """
    rows = values("X", X)
    answers, missing = partial_values("Y", Y)
    if len(rows) != len(answers):
        raise InvalidValue(f"X and Y must have the same length, got {len(rows)} and {len(answers)}")
    if len(rows) == 0:
        raise InvalidValue("X must not be empty, got length 0")
    xs = inputs(model, rows)
    return Observations(xs, targets(model, lik, answers, missing, xs, mu), ~missing)


def inputs(model: Model, rows: Array | list[Any], where: str = STEP) -> Array | list[Any]:
    """The inputs of a stream, each of them checked; as one array where all have one shape.

    ``where`` says in a message which of them is refused, e.g. ``"X[{t}]"`` without observations.
    """
    if _built_in(model):
        try:
            a = np.ascontiguousarray(rows)
            if a.ndim > 1 and a.size:
                lead = a.shape[: 1 + model.is_batch(a[0])]
                flat = a.reshape(math.prod(lead), *a.shape[len(lead) :])
                return np.ascontiguousarray(model.check(x=flat)[1]).reshape(a.shape)
        except (TypeError, ValueError):
            pass  # the input that is refused is found below
    out = [_at(where, t, _input, model, row) for t, row in enumerate(rows)]
    same = len({np.shape(x) for x in out}) == 1
    return np.stack(out) if _built_in(model) and same else out


def _input(model: Model, x: Any) -> Any:
    if is_missing(x) and _built_in(model):
        raise InvalidValue(f"x must be given, got {x!r}{IMPUTE}")
    x = model.check(x=x)[1]
    if model.is_batch(x) and len(x) == 0:
        raise InvalidValue(f"x must not be empty, got a batch of shape {np.shape(x)}")
    return x


def targets(
    model: Model,
    lik: Likelihood,
    rows: Array | list[Any],
    missing: npt.NDArray[np.bool_],
    xs: Array | list[Any],
    mu: Array,
) -> Array | list[Any]:
    """The encoded observations of a stream with inputs xs, each of them checked.

    Returns
    -------
    ndarray, shape (T, C) or (T, B, C), or list
        As one array, with zeros where an observation is missing, wherever the inputs are one array.
    """
    C = n_outputs(model, mu, xs[0])
    together = isinstance(xs, np.ndarray) and _built_in(model)
    if together:
        lead = xs.shape[: 1 + model.is_batch(xs[0])]  # type: ignore[union-attr]
        try:
            ys = _encoded_together(lik, rows, missing, lead, C)
            ys[missing] = 0
            return ys
        except (TypeError, ValueError):
            pass  # the observation that is refused is found below
    out = [
        None if missing[t] else _at(STEP, t, _encoded, model, lik, xs[t], rows[t], C)
        for t in range(len(rows))
    ]
    if not together:
        return out
    return np.stack([np.zeros((*lead[1:], C)) if y is None else y for y in out])


def _encoded_together(
    lik: Likelihood,
    rows: Array | list[Any],
    missing: npt.NDArray[np.bool_],
    lead: tuple[int, ...],
    C: int,
) -> Array:
    """All observations of a stream at once; for a missing one its row is some other's."""
    if np.all(missing):
        return np.zeros((*lead, C))
    if np.any(missing):
        some = rows[int(np.argmin(missing))]
        if isinstance(rows, list):
            rows = [some if gone else row for row, gone in zip(rows, missing.tolist(), strict=True)]
        else:
            rows[missing] = some  # an array with gaps is a copy
    a = np.asarray(rows)
    if a.shape[: len(lead)] != lead:
        raise ValueError("the mini-batches of Y do not have the size of those of X")
    n = math.prod(lead)
    return lik.encode(a.reshape(n, *a.shape[len(lead) :]), C, batch=n).reshape(*lead, C)


def _encoded(model: Model, lik: Likelihood, x: Any, y: Any, C: int) -> Array:
    """The observation or mini-batch y at x."""
    return lik.encode(y, C, batch=len(x) if model.is_batch(x) else None)


def _built_in(model: Model) -> bool:
    """Whether the inputs of a model are arrays of one shape; a wrapped function takes anything."""
    return getattr(model, "kind", "wrap") != "wrap"


def _at(where: str, t: int, check: Any, *args: Any) -> Any:
    """check(*args), with the step in front of its message."""
    try:
        return check(*args)
    except (InvalidType, InvalidValue) as error:
        raise type(error)(f"{where.format(t=t, step=t + 1)}: {error}") from None


# --- messages -------------------------------------------------------------------------------------


def _at_index(where: tuple[int, ...]) -> str:
    return f" at index {where}" if where else ""


def _shape(shape: tuple[int | None, ...]) -> str:
    tail = "," if len(shape) == 1 else ""
    return f"({', '.join('any' if n is None else str(n) for n in shape)}{tail})"

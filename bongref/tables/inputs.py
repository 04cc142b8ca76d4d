"""Inputs from outside for a model that takes one at a time: arrays, rows of a data frame, dicts.

>>> import bongref as br
>>> inputs = Inputs(br.models.linear(2))
>>> inputs.one({"a": 1, "b": 2.5}), inputs.one({"b": 0, "a": 1}), inputs.names
(array([1. , 2.5]), array([1., 0.]), ['a', 'b'])
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..linalg import Array
from ..models import Model
from . import IMPUTE, describe, is_missing, is_table, length_of

Call = TypeVar("Call", bound=Callable[..., Any])
EXACT = 2**53  # integers up to here are numbers of float64


def unless_refused(call: Call) -> Call:
    """A method of a filter that fixes names and columns only if it returns or takes a step."""

    @functools.wraps(call)
    def kept(self: Any, *args: Any, **kwargs: Any) -> Any:
        inputs, t = self._inputs, self.t
        before = inputs.names, inputs.columns
        try:
            return call(self, *args, **kwargs)
        except BaseException:
            if self.t == t:
                inputs.names, inputs.columns = before
            raise

    return kept  # type: ignore[return-value]


class Inputs:
    """What a model takes, and the names of its inputs once they are known."""

    def __init__(self, model: Model, features: Any = None) -> None:
        self.model = model
        built_in = getattr(model, "kind", "wrap") != "wrap"
        self.shape = getattr(model, "in_shape", None) if built_in else None
        self.names: list[str] | None = None
        self.columns: list[str] | None = None  # the labels of the first frame or series
        if features is not None:
            self.names = self._checked_names(features)

    def one(self, x: Any) -> Any:
        """One input, checked; what is already an array of the right shape and finite at once."""
        if type(x) is np.ndarray and x.dtype == np.float64 and x.shape == self.shape:
            square = float(np.vdot(x, x))  # not finite if an entry is not
            if square - square == 0:
                return x
        if isinstance(x, Mapping):
            return self._from_names(x)
        if is_table(x) and self.names is not None and not hasattr(x, "columns"):
            labels = list(getattr(x, "index", []))
            if labels and all(isinstance(label, str) for label in labels):
                return self._from_names(dict(zip(labels, x.to_numpy(), strict=True)))
        if is_table(x):
            self._same_order("x", x)
        x = checks.one_input(self.model, x)
        self.refuse_batches([x])
        return x

    def refuse_batches(self, xs: Any) -> None:
        model = self.model
        for x in xs[:1] if isinstance(xs, np.ndarray) else xs:
            if model.is_batch(x):
                raise InvalidValue(
                    f"x must be one input, got a batch of shape {np.shape(x)}; use learn_many or "
                    "predict_many, whose rows are steps of their own"
                )

    def _checked_names(self, names: Any) -> list[str]:
        sequence = not isinstance(names, str) and length_of(names) is not None
        given = list(names) if sequence else None
        if given is None or not all(isinstance(n, str) for n in given):
            raise InvalidType(
                f"features must be a sequence of names (strings), got {describe(names)}"
            )
        if len(set(given)) != len(given):
            raise InvalidValue(f"features must be different names, got {given!r}")
        if self.shape is None or len(self.shape) != 1:
            raise InvalidValue(
                "features must be left out for a model whose input is not a vector of numbers "
                f"(linear, mlp), got {describe(names)}"
            )
        if len(given) != self.shape[0]:
            raise InvalidValue(
                f"features must be {self.shape[0]} names, one for each input of the model, "
                f"got {len(given)}: {given!r}"
            )
        return given

    def _from_names(self, x: Mapping[str, Any]) -> Array:
        """The values of a dict in the order of the features: of the first dict or frame."""
        for key in x if self.names is None else ():
            if not isinstance(key, str):
                raise InvalidType(
                    f"x must have names (strings) as keys, got {describe(key)}; "
                    "write {str(k): v for k, v in x.items()}, or give an array"
                )
        names = self.names or self._checked_names(self.columns or x)
        if len(x) == len(names):  # plain finite numbers at once
            found = [x.get(n) for n in names]
            if all(type(v) is float or (type(v) is int and -EXACT < v < EXACT) for v in found):
                row = np.array(found, dtype=np.float64)
                if math.isfinite(np.vdot(row, row)):
                    self.names = names
                    return row
        absent = [n for n in names if n not in x]
        unknown = [n for n in x if n not in names] if len(x) != len(names) or absent else []
        if absent or unknown:
            got = f"no {absent[0]!r}" if absent else f"{unknown[0]!r} too"
            remedy = "impute what is missing" if absent else "leave it out"
            raise InvalidValue(f"x must have exactly the features {names!r}, got {got}; {remedy}")
        row = np.array([_number(n, x[n]) for n in names])
        self.names = names
        return row

    def many(self, X: Any) -> Any:
        """Rows: of dicts by their names, of a frame with these columns too; else as they are."""
        if isinstance(X, Mapping):
            raise InvalidType(
                f"X must be rows: an array, a data frame or a list of dicts, got {describe(X)}; "
                "a dict is one input, for learn_one and predict_one"
            )
        if isinstance(X, (list, tuple)) and any(isinstance(x, Mapping) for x in X):
            return [self._row(t, x) for t, x in enumerate(X)]
        if self.names is not None and hasattr(X, "columns") and is_table(X):
            columns = list(X.columns)
            if all(isinstance(c, str) for c in columns):
                if sorted(columns) != sorted(self.names):
                    raise InvalidValue(
                        f"X must have exactly the columns {self.names!r}, got {columns!r}"
                    )
                return X[self.names]
        if is_table(X):
            self._same_order("X", X)
        return X

    def _same_order(self, name: str, x: Any) -> None:
        """Refuse labels that are those of an earlier frame or series in another order."""
        given = list(getattr(x, "columns", getattr(x, "index", [])))
        if not given or not all(isinstance(label, str) for label in given):
            return
        if self.columns is None:
            self.columns = given
        elif given != self.columns and sorted(given) == sorted(self.columns):
            raise InvalidValue(
                f"{name} must have its columns in the order of the first ones, {self.columns!r}, "
                f"got {given!r}; use {name}[{self.columns!r}]"
            )

    def _row(self, t: int, x: Any) -> Any:
        try:
            return self.one(x)
        except (InvalidType, InvalidValue) as error:
            raise type(error)(f"X[{t}]: {error}") from None


def _number(name: str, value: Any) -> float:
    if is_missing(value):
        raise InvalidValue(f"x[{name!r}] must be given, got {value!r}{IMPUTE}")
    return checks.scalar(
        f"x[{name!r}]", float(value) if isinstance(value, (bool, np.bool_)) else value
    )

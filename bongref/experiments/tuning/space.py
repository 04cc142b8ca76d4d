"""Spaces of parameters that a study searches: ranges, choices, and which methods take which.

A space is a JSON object. A list is a choice, a number is fixed, and an object is a range:

>>> from bongref.experiments.tuning import space
>>> whole = space.parse({
...     "alpha": {"low": 0.001, "high": 1, "log": True},
...     "prior_var": [0.1, 1.0],
...     "methods": {"bog-*": {"alpha": [0.001, 0.01]}},
... })
>>> space.of_method(whole, "bong-lin-hess-fc")
{'prior_var': Choice(values=(0.1, 1.0))}
>>> space.of_method(whole, "bog-lin-hess-fc")["alpha"]
Choice(values=(0.001, 0.01))
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ... import checks
from ...errors import InvalidType, InvalidValue
from ...grid import PARAMETERS, method, methods

SHARED = ("prior_var", "obs_var")  # of every method, and of every Gaussian likelihood
INTEGERS = ("n_iter", "n_samples", "rank", "n_probes")
KNOWN = (*SHARED, *PARAMETERS)
LARGEST_GRID = 100_000


class Choice(NamedTuple):
    """One of a few values."""

    values: tuple[Any, ...]


class Range(NamedTuple):
    """Numbers from ``low`` to ``high``, both included."""

    low: float
    high: float
    log: bool = False
    integer: bool = False
    steps: int | None = None  # points of a grid


Axis = Choice | Range
Space = Mapping[str, Axis]


class Whole(NamedTuple):
    """A space for all methods, and what differs for those that match a glob."""

    axes: dict[str, Axis]
    methods: dict[str, dict[str, Axis]]


def parse(data: Any, source: str = "space") -> Whole:
    """Space from plain data.

    Parameters
    ----------
    data : mapping
        Parameters to lists, numbers or ``{"low", "high", "log", "steps"}``; under ``"methods"``,
        globs to objects of the same form, which replace the ones of the whole, the last glob that
        matches first.
    source : str
        Where the data are from, for messages.

    Returns
    -------
    Whole

    Raises
    ------
    InvalidValue, InvalidType
        If a parameter is not known, or its axis is not one of these forms.

    Examples
    --------
    >>> parse({"rank": [1, 5]}).axes
    {'rank': Choice(values=(1, 5))}
    """
    if not isinstance(data, Mapping):
        got = checks.describe(data)
        raise InvalidType(f"{source} must be an object of parameters, got {got}")
    own = data.get("methods", {})
    if not isinstance(own, Mapping) or not all(isinstance(v, Mapping) for v in own.values()):
        raise InvalidType(f'{source}: "methods" must map globs to objects of parameters')
    for glob in own:
        if not methods(glob):
            raise InvalidValue(f"{source}: methods must match one of the 80 names, got {glob!r}")
    axes = {k: _axis(source, k, v) for k, v in data.items() if k != "methods"}
    inner = {g: {k: _axis(source, k, v) for k, v in part.items()} for g, part in own.items()}
    return Whole(axes, inner)


def read(path: str | Path) -> Whole:
    """Space from a JSON file; see :func:`parse`."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(
            f"space must be a file that can be read, got {str(path)!r}; {error}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"space must be JSON, got {str(path)!r}; {error}") from None
    return parse(data, str(path))


def of_method(whole: Whole, name: str, *, gaussian: bool = True) -> dict[str, Axis]:
    """The axes that act in one method, sorted by name.

    Parameters
    ----------
    whole : Whole
    name : str
        A method.
    gaussian : bool
        Whether the likelihood is Gaussian, so that it has an observation variance.

    Returns
    -------
    dict

    Raises
    ------
    InvalidValue, InvalidType
        If a value is out of the range that the method allows.

    Examples
    --------
    >>> whole = parse({"n_iter": [1, 10], "rank": 5, "obs_var": [0.1, 1.0]})
    >>> of_method(whole, "blr-lin-hess-fc", gaussian=False)
    {'n_iter': Choice(values=(1, 10))}
    """
    axes = dict(whole.axes)
    for glob, part in whole.methods.items():
        if fnmatchcase(name, glob.lower()):
            axes.update(part)
    taken = {*method(name).params, "prior_var", *(["obs_var"] if gaussian else [])}
    out = {key: axes[key] for key in sorted(axes) if key in taken}
    for key, axis in out.items():
        for value in axis.values if isinstance(axis, Choice) else (axis.low, axis.high):
            if key not in SHARED:
                method(name, **{key: value})
            elif not value > 0:
                raise InvalidValue(f"{key} must be > 0, got {value!r}")
    return out


def grid(axes: Space) -> list[dict[str, Any]]:
    """Every combination of the values of the axes; a range gives its ``steps`` points.

    Parameters
    ----------
    axes : mapping of str to Choice or Range

    Returns
    -------
    list of dict
        The last axis changes fastest.

    Raises
    ------
    InvalidValue
        If a range has no ``steps``, or there are more than 100,000 combinations.

    Examples
    --------
    >>> grid({"alpha": Range(0.01, 1.0, log=True, steps=3), "rank": Choice((1, 2))})[:2]
    [{'alpha': 0.01, 'rank': 1}, {'alpha': 0.01, 'rank': 2}]
    """
    values = {key: _points(key, axis) for key, axis in axes.items()}
    size = math.prod(len(v) for v in values.values())
    if size > LARGEST_GRID:
        raise InvalidValue(f"space must have at most {LARGEST_GRID:,} combinations, got {size:,}")
    return [dict(zip(values, point, strict=True)) for point in itertools.product(*values.values())]


def plain(axes: Space) -> dict[str, Any]:
    """The axes as data for JSON, the same for the same axes."""
    return {
        key: list(axis.values) if isinstance(axis, Choice) else dict(axis._asdict())
        for key, axis in sorted(axes.items())
    }


def _points(key: str, axis: Axis) -> list[Any]:
    if isinstance(axis, Choice):
        return list(axis.values)
    if axis.steps is None:
        raise InvalidValue(
            f'{key} must be a list, or a range with "steps", for a grid, got a range from '
            f'{axis.low} to {axis.high}; add "steps": 5'
        )
    first, last = (math.log(axis.low), math.log(axis.high)) if axis.log else (axis.low, axis.high)
    inner = [first + (last - first) * k / (axis.steps - 1) for k in range(1, axis.steps - 1)]
    points = [axis.low, *(math.exp(v) if axis.log else v for v in inner), axis.high]
    return list(dict.fromkeys(round(p) for p in points)) if axis.integer else points


def _axis(source: str, key: str, value: Any) -> Axis:
    where = f"{source}: {key}"
    if key not in KNOWN:
        near = checks.near_miss(key, KNOWN)
        raise InvalidValue(
            f"{source}: parameters must be among {', '.join(KNOWN)}, got {key!r}{near}"
        )
    if isinstance(value, Mapping):
        return _range(where, key, value)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise InvalidValue(f"{where} must have at least one value, got none")
    if len({json.dumps(v) for v in values}) < len(values):
        raise InvalidValue(f"{where} must have values that differ, got {values!r}")
    return Choice(tuple(_value(where, key, v) for v in values))


def _value(where: str, key: str, value: Any) -> Any:
    if key == "virtual" or (key == "n_probes" and value is None):
        return value
    if key in INTEGERS:
        return checks.integer(where, value, 1)
    return float(checks.scalar(where, value))


def _range(where: str, key: str, data: Mapping[str, Any]) -> Range:
    known = ("low", "high", "log", "steps")
    unknown = [k for k in data if k not in known]
    if unknown or not {"low", "high"} <= set(data):
        raise InvalidValue(
            f'{where} must have "low" and "high", and may have "log" and "steps", got {dict(data)}'
        )
    log = checks.boolean(f"{where}: log", data.get("log", False))
    low, high = (_value(f"{where}: {end}", key, data[end]) for end in ("low", "high"))
    if not low < high:
        raise InvalidValue(f"{where}: low must be < high, got {low!r} and {high!r}")
    if log and not low > 0:
        raise InvalidValue(f"{where}: low must be > 0 where log is true, got {low!r}")
    steps = data.get("steps")
    steps = None if steps is None else checks.integer(f"{where}: steps", steps, 2)
    return Range(low, high, bool(log), key in INTEGERS, steps)

"""Tables and sequences from outside, read once and by position.

Data frames and series of pandas, polars and the like are recognised by their methods, so that none
of these packages is imported. Labels of an index are never used: row t is observation t.
``inputs.py`` reads the inputs of a model that takes one at a time. What is not here: what a single
argument may be (``checks``), and files of data (``experiments``).

>>> from bongref import tables
>>> tables.values("X", ((1.0, 2.0), (3.0, 4.0)))
[(1.0, 2.0), (3.0, 4.0)]
>>> rows, missing = tables.partial_values("Y", [1.5, None])
>>> missing
array([False,  True])
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidType, InvalidValue
from ..linalg import Array

IMPUTE = "; impute missing inputs, only y may be missing"
USE_NONE = (
    "; use None for a missing observation of a stream (in pandas .astype('Float64'), whose NA "
    "is one), and leave its row out of a test set"
)


def describe(value: Any) -> str:
    """The type and the beginning of the repr of a value, for a message.

    Parameters
    ----------
    value : object

    Returns
    -------
    str

    Examples
    --------
    >>> describe(1.5)
    'float 1.5'
    """
    text = repr(value).replace("\n", " ")
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def shorter(value: int) -> str:
    """An integer for a message: its digits, or how many there are.

    Parameters
    ----------
    value : int

    Returns
    -------
    str

    Examples
    --------
    >>> shorter(12), shorter(2**100)
    ('12', 'an integer of 101 bits')
    """
    return str(value) if abs(value) < 10**24 else f"an integer of {value.bit_length()} bits"


def foreign(error: Exception) -> str:
    """The end of a message: what the conversion of another package's array has said.

    Parameters
    ----------
    error : Exception

    Returns
    -------
    str
        Empty for the errors that NumPy raises itself.

    Examples
    --------
    >>> foreign(ValueError("x")), foreign(RuntimeError("on another device"))
    ('', ' (RuntimeError: on another device)')
    """
    plain = isinstance(error, (TypeError, ValueError, OverflowError))
    return "" if plain else f" ({type(error).__name__}: {error})"


def length_of(value: Any) -> int | None:
    """The length of a sequence; None of what has none, such as a class or a 0-d array.

    Parameters
    ----------
    value : object

    Returns
    -------
    int or None

    Examples
    --------
    >>> length_of([1, 2]), length_of(3.0)
    (2, None)
    """
    try:
        return len(value)
    except TypeError:
        return None


def as_array(value: Any) -> Array:
    """A value as NumPy reads it; an object array () of what NumPy cannot read.

    Parameters
    ----------
    value : object

    Returns
    -------
    ndarray

    Examples
    --------
    >>> as_array([1, 2]), as_array([[1], [2, 3]]).dtype
    (array([1, 2]), dtype('O'))
    """
    try:
        return np.asarray(value)
    except Exception:  # rows of different lengths, or an array of another package that refuses
        out = np.empty((), dtype=object)
        out[()] = value
        return out


def is_missing(value: Any) -> bool:
    """Whether an entry stands for a missing value: None, or the NA of a data frame.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool

    Examples
    --------
    >>> is_missing(None), is_missing(0.0)
    (True, False)
    """
    return value is None or type(value).__name__ == "NAType"


def refuse_sparse(name: str, data: Any) -> None:
    """Refuse what is sparse or not in memory, with the call that makes it an array.

    Parameters
    ----------
    name : str
        What the message calls the argument.
    data : object

    Returns
    -------
    None

    Raises
    ------
    InvalidType
        If ``data`` is sparse or not in memory.

    Examples
    --------
    >>> refuse_sparse("X", np.zeros(2))
    """
    kind = type(data).__name__
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise InvalidType(f"{name} must be dense, got a sparse {kind}; use {name}.toarray()")
    if hasattr(data, "collect") and not hasattr(data, "__len__"):
        raise InvalidType(f"{name} must be in memory, got {kind}; use {name}.collect()")


def is_table(data: Any) -> bool:
    """Whether data is a data frame or series of pandas, polars or the like.

    Parameters
    ----------
    data : object

    Returns
    -------
    bool

    Examples
    --------
    >>> is_table(np.zeros(2))
    False
    """
    return hasattr(data, "to_numpy") and (hasattr(data, "columns") or hasattr(data, "dtype"))


def values(name: str, data: Any) -> Array | list[Any]:
    """The entries of a table or sequence by position, as an array or a list.

    Parameters
    ----------
    name : str
        What the messages call the argument.
    data : array_like, data frame, series or sequence
        Rows are read by position, never by the labels of an index.

    Returns
    -------
    ndarray or list
        An array of a data frame, a series or an array; a list of any other sequence.

    Raises
    ------
    InvalidType
        If ``data`` has no order or length (a generator, a set), is sparse, or is a data frame with
        a column that does not hold numbers.
    InvalidValue
        If an entry of a data frame, a series or an array is missing.

    Examples
    --------
    >>> values("X", (1.0, 2.0))
    [1.0, 2.0]
    >>> values("X", (x for x in [1.0]))
    Traceback (most recent call last):
    bongref.errors.InvalidType: X must be an array, a data frame or a sequence, got generator; \
use list(X)
    """
    out, gaps = _read(name, data, IMPUTE)
    if (isinstance(out, np.ndarray) or gaps.ndim > 1) and np.any(gaps):
        at = int(np.argwhere(gaps)[0][0])
        raise InvalidValue(f"{name} must be finite, got a missing value in row {at}{IMPUTE}")
    return out


def partial_values(name: str, data: Any) -> tuple[Array | list[Any], npt.NDArray[np.bool_]]:
    """:func:`values` of data of which rows may be missing, and which of them are.

    A row is missing if it is None, or if all its entries are None or the NA of a data frame; one
    that is missing in part is refused.

    Parameters
    ----------
    name : str
        What the messages call the argument.
    data : array_like, data frame, series or sequence
        T rows.

    Returns
    -------
    rows : ndarray or list
        What stands in an array for a missing row has no meaning.
    missing : ndarray of bool, shape (T,)

    Raises
    ------
    InvalidType, InvalidValue
        As :func:`values`; also if a row is missing in part.

    Examples
    --------
    >>> partial_values("Y", [1.5, None])[1]
    array([False,  True])
    """
    rows, gaps = _read(name, data, USE_NONE)
    flat = gaps.reshape(len(gaps), math.prod(gaps.shape[1:]))
    some: npt.NDArray[np.bool_] = np.any(flat, axis=1)
    whole: npt.NDArray[np.bool_] = np.all(flat, axis=1)
    if flat.shape[1] > 1 and np.any(some & ~whole):
        at = int(np.argmax(some & ~whole))
        raise InvalidValue(
            f"{name}[{at}] must be complete or missing as a whole, got one that is missing in part"
        )
    return rows, some


def complete(name: str, data: Any) -> Any:
    """Data of which nothing may be missing: a table as an array, anything else as it is.

    Parameters
    ----------
    name : str
        What the messages call the argument.
    data : object

    Returns
    -------
    object
        An array of a table; anything else unchanged.

    Raises
    ------
    InvalidValue, InvalidType
        If an entry is missing, or ``data`` is sparse or a column does not hold numbers.

    Examples
    --------
    >>> complete("Y", [1.0, 2.0])
    [1.0, 2.0]
    """
    refuse_sparse(name, data)
    data = np.asarray(data) if isinstance(data, memoryview) else data
    if np.ma.is_masked(data):
        raise InvalidValue(f"{name} must have no masked entries, got {describe(data)}{USE_NONE}")
    if is_table(data):
        data, gaps = _table(name, data)
    elif isinstance(data, (list, tuple)) or _is_of_objects(data):
        gaps = np.array([is_missing(v) for v in data], dtype=bool)
    else:
        return data
    if np.any(gaps):
        at = int(np.argwhere(gaps)[0][0])
        raise InvalidValue(
            f"{name} must be complete, got a missing value at {at}; leave out its row of X and Y"
        )
    return data


def _is_of_objects(data: Any) -> bool:
    """Whether data is an array (n, ...) of Python objects."""
    return isinstance(data, np.ndarray) and data.dtype.kind == "O" and data.ndim > 0


def _read(name: str, data: Any, remedy: str) -> tuple[Array | list[Any], npt.NDArray[np.bool_]]:
    """The rows and which entries (of a list: which rows) are missing."""
    refuse_sparse(name, data)
    data = np.asarray(data) if isinstance(data, memoryview) else data
    if is_table(data):
        return _table(name, data)
    if np.ma.is_masked(data):
        raise InvalidValue(f"{name} must have no masked entries, got {describe(data)}{remedy}")
    array_like = hasattr(data, "__array__") and not isinstance(data, type)
    if array_like and (a := as_array(data)).ndim > 0:
        gaps = np.zeros(a.shape if a.dtype.kind == "O" else len(a), dtype=bool)
        if a.dtype.kind == "O":
            gaps = np.frompyfunc(is_missing, 1, 1)(a).astype(bool)
        return _numeric(a, gaps), gaps
    sequence = hasattr(data, "__getitem__") and length_of(data) is not None
    if not sequence or isinstance(data, (str, bytes, dict)) or hasattr(data, "__array__"):
        remedy = f"; use list({name})" if hasattr(data, "__next__") else ""
        remedy = f"; of a single row, [{name.lower()}]" if np.isscalar(data) else remedy
        kind = type(data).__name__
        raise InvalidType(
            f"{name} must be an array, a data frame or a sequence, got {kind}{remedy}"
        )
    rows = [data[t] for t in range(len(data))]
    return rows, np.array([is_missing(row) for row in rows], dtype=bool)


def _table(name: str, data: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
    """A data frame as (T, K), a series as (T,), and which of its entries are missing."""
    if not hasattr(data, "columns"):
        return _column(name, data)
    if hasattr(data, "iloc"):
        columns = [data.iloc[:, j] for j in range(data.shape[1])]
    else:
        columns = list(data.get_columns())
    if not columns:
        raise InvalidValue(f"{name} must have at least one column, got none")
    named = zip(data.columns, columns, strict=True)
    parts = [_column(f"{name}[{label!r}]", column) for label, column in named]
    return np.stack([a for a, _ in parts], axis=1), np.stack([gaps for _, gaps in parts], axis=1)


def _column(name: str, data: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
    """One column as an array of numbers, with 0 where an entry is missing, and where that is.

    NaN in a column of NumPy floats is a number that is not finite; in a nullable column it is a
    missing entry.
    """
    raw = np.asarray(data.to_numpy() if hasattr(data, "to_numpy") else data)
    gaps = np.zeros(raw.shape, dtype=bool)
    if hasattr(data, "is_null"):
        gaps = np.asarray(data.is_null(), dtype=bool)
    elif hasattr(data, "isna") and not isinstance(data.dtype, np.dtype):
        gaps = np.asarray(data.isna(), dtype=bool)
    elif raw.dtype.kind == "O":
        gaps = np.frompyfunc(is_missing, 1, 1)(raw).astype(bool)
    out = _numeric(raw, gaps)
    if isinstance(out, list) or out.dtype.kind not in "biuf":
        raise InvalidType(
            f"{name} must hold real numbers, got a column of {data.dtype}; encode it as numbers"
        )
    return out, gaps


def _numeric(raw: Array, gaps: npt.NDArray[np.bool_]) -> Array | list[Any]:
    """raw with 0 where there are gaps; objects as numbers, or as a list where they are not."""
    if np.any(gaps):
        raw = raw.copy()
        raw[gaps] = 0
    if raw.dtype.kind != "O" or raw.size == 0:
        return raw
    try:
        return np.array(raw.tolist())
    except ValueError:  # rows of different lengths
        return list(raw)

"""A user's own file as a task: CSV, Parquet or npz, with the column to predict named.

    bongref run mydata.csv --target y --out results

Numbers stay numbers; a column of text with at most 20 values becomes one column of 0 and 1 for each
value. The kind of the task follows from the target: text or two values is a classification, whole
numbers with at most 10 values too, all else a regression; ``kind`` says otherwise.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ... import checks
from ...errors import InvalidValue
from ...linalg import Array
from .raw import BINARY, CLASSES, KINDS, REGRESSION, Raw, check_params, mlp

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
FEW = 10  # whole numbers with at most so many values are classes
WITH_COMMA = re.compile(r"[+-]?\d*([.,]\d+)*([eE][+-]?\d+)?")  # a number for people
LEVELS = 20  # a column of text may have so many values
EXACT = 2.0**53  # whole numbers from here on are not exact in float64
INDEX = ("", "Unnamed: 0", "__index_level_0__")  # names that a table's index gets in files
PARAMS = ("target", "kind", "drop", "missing", "hidden", "activation", "order", "obs_var",
          "prior", "prior_var", "test", "split_seed", "max_test")  # fmt: skip
Columns = dict[
    str, Array
]  # by name, each (N,): floats, or objects (text) where not all are numbers


def is_file(name: str) -> bool:
    """Whether a task's name is that of a file."""
    return name.lower().endswith(ENDINGS)


def load(path: str, params: dict[str, Any]) -> Raw:
    """The rows of a file.

    Parameters
    ----------
    path : str
    params : dict
        ``target``, and optionally ``kind``, ``drop`` (columns to leave out, separated by commas),
        ``missing`` ("refuse" or "drop"), ``hidden`` (widths, e.g. "20,20"), ``activation``.

    Returns
    -------
    Raw

    Raises
    ------
    InvalidValue
        If the file or a column is not there, a value is missing, or the target cannot be used.
    """

    name = Path(path).name
    check_params(name, params, list(PARAMS))
    columns = read(path)
    target = _column(str(params.get("target", "")), columns, name, "target")
    for word in _words(params.get("drop", "")):
        columns.pop(_column(word, columns, name, "drop"), None)
    if target not in columns:
        raise InvalidValue(f"drop must not name the target, got {target!r}")
    columns, dropped = _complete(columns, str(params.get("missing", "refuse")), name)
    kind, Y, classes = _target(target, columns.pop(target), params.get("kind"), name)
    X, features = _features(columns, name)
    about: dict[str, Any] = {
        "target": target,
        "features": features,
        "files": {name: hashlib.sha256(Path(path).read_bytes()).hexdigest()},
    }
    about |= {"rows_dropped": dropped} if dropped else {}
    widths = _widths(params.get("hidden", "20,20"))
    outputs = len(classes) if kind == CLASSES else 1
    model = mlp(X.shape[1], *widths, outputs, activation=str(params.get("activation", "tanh")))
    return Raw(kind, X, Y, None, model, classes=classes, about=about)


def _widths(value: Any) -> list[int]:
    """The widths of the hidden layers."""
    words = _words(value)
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise InvalidValue(f"hidden must be widths >= 1 such as 20,20, got {value!r}")
    return [int(word) for word in words]


def _words(value: Any) -> list[str]:
    """The comma-separated words of a parameter, which may be a number or a list too."""
    if isinstance(value, (list, tuple)):
        return [str(v) for v in value]
    return [word.strip() for word in str(value).split(",") if word.strip()]


# --- reading --------------------------------------------------------------------------------------


def read(path: str) -> Columns:
    """The columns of a file by name.

    Raises
    ------
    InvalidValue
        If it is not there, or is not what its ending says.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidValue(f"task: there is no file {path!r}")
    lower = path.lower()
    try:
        if lower.endswith(".npz"):
            return _npz(file)
        if lower.endswith(".parquet"):
            return _parquet(file)
        opener = gzip.open if lower.endswith(".gz") else open
        with opener(file, "rt", encoding="utf-8-sig") as lines:
            return _csv(lines.read(), file.name)
    except UnicodeDecodeError as error:
        raise InvalidValue(
            f"task: {path!r} must be UTF-8 text, got the byte {error.object[error.start]:#x} at "
            f"position {error.start}; save it as UTF-8 (it may be in Latin-1 or UTF-16)"
        ) from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise InvalidValue(f"task: {path!r} cannot be read ({error})") from None


def _csv(text: str, name: str) -> Columns:
    """The columns of text with commas, semicolons, tabs or spaces; the first row may be names."""
    mark = _delimiter(text)
    if mark == " ":  # columns may be aligned by several
        text = "\n".join(line.strip() for line in text.splitlines())
    lines = csv.reader(io.StringIO(text), delimiter=mark, skipinitialspace=mark == " ")
    rows = [row for row in lines if any(row)]
    if len(rows) < 2:
        raise InvalidValue(f"{name} must have a row of names and rows of values, got {len(rows)}")
    named = not all(_number(cell) is not None for cell in rows[0])
    names = [cell.strip() for cell in rows[0]] if named else [str(k) for k in range(len(rows[0]))]
    _check_names(names, name)
    body = rows[1:] if named else rows
    for number, row in enumerate(body, 1):
        if len(row) != len(names):
            raise InvalidValue(
                f"{name} must have {len(names)} values in every row, as in the first one, got "
                f"{len(row)} in row {number}"
            )
    columns = {n: _cells([row[k].strip() for row in body]) for k, n in enumerate(names)}
    return _without_index(columns, name)


def _check_names(names: list[str], file: str) -> None:
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InvalidValue(f"{file} must have different names of columns, got {twice!r} twice")


def _without_index(columns: Columns, name: str) -> Columns:
    """Leave out an index that was written with a table: numbers of its rows, in any order."""
    for n in INDEX:
        column = columns.get(n)
        if column is None:
            continue
        if column.dtype != object and _numbers_rows(column, gaps=n != ""):
            columns = {key: c for key, c in columns.items() if key != n}
        elif not n:
            raise InvalidValue(
                f"{name} must have a name for every column, got none for column "
                f"{list(columns).index(n) + 1}; give it one"
            )
    return columns


def _numbers_rows(column: Array, gaps: bool) -> bool:
    """Whether these number rows from 0 or 1 on, perhaps with gaps, as where rows were left out."""
    numbers = np.unique(column)
    if len(numbers) < len(column) or not np.array_equal(numbers, np.round(numbers)):
        return False
    return bool(numbers[0] >= 0) and (gaps or numbers[-1] - numbers[0] < len(numbers))


def _delimiter(text: str) -> str:
    """That of the first line which is not blank, outside quotation marks."""
    first = re.sub('"[^"]*"', "", text.lstrip().partition("\n")[0])
    return max(",;\t", key=first.count) if any(d in first for d in ",;\t") else " "


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)  # "1_000" is a number for Python alone
    except ValueError:
        return None


def _cells(cells: list[str]) -> Array:
    """Floats with NaN for missing values; objects, with None for them, where a cell is text."""
    gaps = [cell.lower() in MISSING for cell in cells]
    numbers = [np.nan if gap else _number(cell) for cell, gap in zip(cells, gaps, strict=True)]
    if all(value is not None for value in numbers):
        return np.array(numbers, dtype=float)
    return np.array([None if g else c for c, g in zip(cells, gaps, strict=True)], dtype=object)


def _npz(file: Path) -> Columns:
    """Arrays (N,) as they are, arrays (N, D) as D columns NAME0, NAME1, ..."""
    columns: Columns = {}
    names: list[str] = []
    try:
        arrays = np.load(file, allow_pickle=False)
        if isinstance(arrays, np.ndarray):
            raise ValueError("it is a single array, as .npy files are; use np.savez")
        with arrays:
            for name in arrays.files:
                parts = _parts(name, _array(arrays, name))
                names += parts
                columns |= {n: _plain(c) for n, c in parts.items()}
        if not columns or not len(next(iter(columns.values()))):
            raise ValueError("it is empty")
    except Exception as error:  # a damaged archive or header makes NumPy raise anything
        raise InvalidValue(
            f"{file.name} must be an .npz file of arrays with one entry or row per observation "
            f"({error})"
        ) from None
    _check_names(names, file.name)
    lengths = {n: len(c) for n, c in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidValue(f"{file.name} must have arrays of the same length, got {lengths}")
    return columns


def _array(arrays: Any, name: str) -> Array:
    """An array of an archive; those of Python objects are not read, since that could run code."""
    try:
        return np.asarray(arrays[name])
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(
            f"{name!r} holds Python objects; save text as np.array({name}, dtype=str) and numbers "
            "as floats"
        ) from None


def _parts(name: str, a: Array) -> Columns:
    """An array's columns by name."""
    if a.ndim == 0:
        raise ValueError(f"{name!r} is a single number")
    if a.ndim == 1 or not len(a):
        return {name: a}
    return {f"{name}{k}": c for k, c in enumerate(a.reshape(len(a), -1).T)}


def _plain(column: Array) -> Array:
    if column.dtype.kind in "fiub":
        return column.astype(float)
    text = np.char.decode(column, "utf-8") if column.dtype.kind == "S" else column
    return _cells([str(v) for v in text])


def _parquet(file: Path) -> Columns:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            "reading Parquet needs pyarrow: pip install 'bongref[experiments]'"
        ) from None
    import pyarrow

    try:
        _check_names(pq.read_schema(file).names, file.name)
        table = pq.read_table(file)
    except pyarrow.ArrowInvalid as error:
        raise InvalidValue(f"{file.name} must be a Parquet file ({error})") from None
    cells = {n: table.column(n).to_pylist() for n in table.column_names}
    text = {n: ["" if v is None else str(v) for v in c] for n, c in cells.items()}
    return _without_index({n: _cells(c) for n, c in text.items()}, file.name)


# --- columns --------------------------------------------------------------------------------------


def _column(word: str, columns: Mapping[str, Array], name: str, what: str) -> str:
    if word in columns:
        return word
    names = list(columns)
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    near = checks.near_miss(word, names)
    got = f"got {word!r}{near}" if word else f"got none; e.g. --{what} {names[-1]}"
    raise InvalidValue(f"{what} must be a column of {name}, which has {shown}, {got}")


def _gaps(column: Array) -> Array:
    if column.dtype == object:
        return np.array([v is None for v in column])
    return ~np.isfinite(column)


def _complete(columns: Columns, missing: str, name: str) -> tuple[Columns, int]:
    """The rows without missing values, or an error where there are such and they may not go."""
    checks.choice("missing", missing, ("refuse", "drop"))
    gaps = {n: _gaps(c) for n, c in columns.items()}
    bad = np.any(list(gaps.values()), axis=0)
    if not bad.any():
        return columns, 0
    if missing == "refuse":
        row = int(np.argmax(bad))
        where = next(n for n, g in gaps.items() if g[row])
        total = int(sum(g.sum() for g in gaps.values()))
        raise InvalidValue(
            f"{name} must be complete, got {total} missing or infinite value(s), the first in row "
            f"{row + 1}, column {where!r}; fill them in, or leave out their {int(bad.sum())} "
            "row(s) with --set missing=drop"
        )
    if bad.all():
        raise InvalidValue(f"{name} must have complete rows, got a missing value in every row")
    return {n: c[~bad] for n, c in columns.items()}, int(bad.sum())


def _not_numbers(column: Array) -> str:
    """Why a column of text is perhaps meant as numbers; empty where it is not."""
    cells = [str(v) for v in column if v is not None]
    odd = [k for k, v in enumerate(column) if v is not None and _number(str(v)) is None]
    if all(WITH_COMMA.fullmatch(cell) for cell in cells) and any("," in cell for cell in cells):
        first = next(cell for cell in cells if "," in cell)
        return (
            f"numbers with commas such as {first!r}; write them with a decimal point and without "
            "thousands separators"
        )
    if len(odd) * 2 < len(cells):
        return (
            f"{len(odd)} of {len(column)} values that are not numbers, the first {column[odd[0]]!r}"
            f" in row {odd[0] + 1}; correct them, or leave them empty and use --set missing=drop"
        )
    return ""


def _target(name: str, column: Array, kind: Any, file: str) -> tuple[str, Array, tuple[str, ...]]:
    """Kind, values and names of classes of the target."""
    text = column.dtype == object
    odd = _not_numbers(column) if text else ""
    if odd and (odd.startswith("numbers with") or len(set(column.tolist())) > FEW):
        raise InvalidValue(f"target must be numbers or classes, got column {name!r} with {odd}")
    values = sorted(set(column.tolist()), key=str if text else float)
    whole = not text and bool(np.all(column == np.round(column)))
    if kind is None:
        few = text or len(values) == 2 or (whole and len(values) <= FEW)
        kind = (BINARY if len(values) == 2 else CLASSES) if few else REGRESSION
    checks.choice("kind", kind, KINDS)
    if kind != REGRESSION and not text and max(map(abs, values)) >= EXACT:
        raise InvalidValue(
            f"target must have classes that differ in float64, got numbers from 2**53 on in column "
            f"{name!r}; write them as text, or give the classes shorter numbers"
        )
    if kind == REGRESSION:
        if text:
            raise InvalidValue(
                f"target must be numbers for a regression, got text such as {column[0]!r} in "
                f"column {name!r}"
            )
        return kind, column.astype(float), ()
    if len(values) == 1:
        raise InvalidValue(
            f"target must vary, and all {len(column)} rows of {file} have the same value "
            f"({values[0]}); check the column that --target names"
        )
    if len(values) > 100 or (text and len(values) * 2 > len(column)):
        raise InvalidValue(
            f"target must have at most 100 classes with some rows each, got {len(values)} values "
            f"in {len(column)} rows of column {name!r}"
        )
    if kind == BINARY and len(values) != 2:
        raise InvalidValue(f"target must have 2 values for a binary task, got {len(values)}")
    index = {value: k for k, value in enumerate(values)}
    classes = tuple(str(v) if text else f"{v:g}" for v in values)
    return kind, np.array([float(index[v]) for v in column.tolist()]), classes


def _features(columns: Columns, name: str) -> tuple[Array, list[str]]:
    """The inputs (N, D), text as 0 and 1 for each of its values, and their names."""
    found: list[Array] = []
    names: list[str] = []
    for n, column in columns.items():
        if column.dtype != object:
            found, names = [*found, column], [*names, n]
            continue
        levels, odd = sorted(set(column.tolist())), _not_numbers(column)
        if odd and (odd.startswith("numbers with") or len(levels) > LEVELS):
            raise InvalidValue(f"column {n!r} of {name} must be numbers, got {odd}")
        if len(levels) > LEVELS:
            raise InvalidValue(
                f"column {n!r} of {name} must be numbers, or text with at most {LEVELS} values, "
                f"got {len(levels)} such as {levels[0]!r}; leave it out with --set drop={n}"
            )
        found += [(column == level).astype(float) for level in levels]
        names += [f"{n}={level}" for level in levels]
    if not found:
        raise InvalidValue(f"{name} must have columns besides the target, got none")
    return np.column_stack(found), names

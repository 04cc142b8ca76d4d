"""What a result is: one record for each run, one line of JSON for each record.

A line begins with its checksum, the 16 hexadecimal digits of the BLAKE2b hash (of 8 bytes) of
everything behind the comma that follows it, up to and without the end of the line:

    {"checksum":"81fa...","format":1,"id":"03c1...","status":"done",...}

=============  =====================================================================================
id             16 digits: hash of task, method, parameters, settings, adapter, seed and versions
status         "done", "diverged" (a result too) or "failed" (bad input or a bug; has no result)
key            16 digits: the same hash without the versions, to compare versions or machines
task           name, params, part ("test" or "valid"), kind ("regression", "binary", "classes"),
               n_train, n_test, n_inputs, n_outputs, classes, model, obs_var, prior, prior_var,
               order, split, standardisation, checksum of the arrays, files
method         the name; ``adapter``: None, or the foreign implementation that computed it
params         all parameters of the method, defaults filled in
settings       steps, prior, prior_var, obs_var, metrics {name: steps}, eval_samples
seed           of the prior mean, the order of the stream and the samples
versions       of bongref, python, numpy, scipy, numba
step           steps completed, or for "diverged" the step (from 1) that has no valid result
reason         "" for "done"; for others what happened, in words
warnings       what :mod:`bongref` warned of, e.g. predictions worse than a constant
rows           [{"t": 250, "nlpd-plugin": 0.41, ...}, ...], the metrics that are due at step t
calibration    {kind of predictive: counts}, see :mod:`.calibration`; {} unless "done"
timing         seconds of steps, evaluation, compilation, total; backend, host, begun
command        the command that reproduces this run alone
=============  =====================================================================================

Two runs are *the same* when their records are, without ``timing`` and ``command``
(:func:`same`, :func:`digest`). Numbers that are not finite are the strings "inf", "-inf", "nan" in
the file and floats in a record that was read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from ..errors import InvalidValue

Record = dict[str, Any]
FORMAT = 1
STATUSES = ("done", "diverged", "failed")
APART = ("timing", "command")  # not compared: they differ from machine to machine
DIGITS = 16
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_HEAD = b'{"checksum":"'
_REST = len(_HEAD) + DIGITS + 2  # where the checked part of a line begins
_FIRST = re.compile(rb'"format":(\d{1,9}),"id":"([0-9a-f]{16})","status":"([a-z]{1,40})"')


def canonical(value: Any) -> str:
    """Plain data as JSON with sorted keys and no spaces: the same text for the same data.

    >>> canonical({"b": 1, "a": [0.1, float("inf")]})
    '{"a":[0.1,"inf"],"b":1}'
    """
    return json.dumps(_finite(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value: Any) -> str:
    """The first 16 digits of the SHA-256 of plain data.

    >>> fingerprint({"a": 1})
    '015abd7f5cc57a2d'
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:DIGITS]


def _finite(value: Any) -> Any:
    """Floats that JSON has no number for, as strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def _floats(value: Any) -> Any:
    """The strings of :func:`_finite` as floats again."""
    if isinstance(value, str):
        return NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {k: _floats(v) for k, v in value.items()}
    return [_floats(v) for v in value] if isinstance(value, list) else value


def group_key(record: Record) -> str:
    """The hash of what runs have in common that differ in nothing but seed and versions."""
    return fingerprint([record[k] for k in ("task", "method", "params", "settings", "adapter")])


def outline(record: Record) -> Record:
    """What a plan keeps of a run: the hashes of its task and group, and what names the group."""
    own = {k: v for k, v in record["settings"].items() if k != "metrics"}
    names = {"method": record["method"], "params": record["params"], "adapter": record["adapter"]}
    found = {
        "task": fingerprint(record["task"]),
        "group": group_key(record),
        **names,
        "settings": own,
    }
    return {k: _finite(v) for k, v in found.items()}


# --- lines ----------------------------------------------------------------------------------------


def to_line(record: Record) -> bytes:
    """The record as a line with its checksum, without the end of the line.

    >>> to_line({"id": "0" * 16, "status": "done", "rows": []})[31:]
    b'"format":1,"id":"0000000000000000","status":"done","rows":[]}'
    """
    first = {"format": FORMAT, "id": record["id"], "status": record["status"]}
    rest = {k: v for k, v in record.items() if k not in ("checksum", *first)}
    text = json.dumps(_finite({**first, **rest}), separators=(",", ":"), allow_nan=False)
    body = text[1:].encode()
    return _HEAD + _sum(body) + b'",' + body


def _sum(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGITS // 2).hexdigest().encode()


def is_intact(line: bytes) -> bool:
    """Whether a line is complete and its checksum is right."""
    return head(line, memoryview(line), 0, len(line)) is not None


def head(data: bytes, view: memoryview, start: int, end: int) -> tuple[int, str, str] | None:
    """Format, id and status of the line data[start:end]; None where its checksum is wrong.

    Nothing is copied and the rest of the line is not read, so that many lines take little time.
    ``view`` is of ``data``.
    """
    at = start + _REST
    known = data[start : at - 2 - DIGITS] == _HEAD and data[at - 2 : at] == b'",'
    if not known or data[at - 2 - DIGITS : at - 2] != _sum(view[at:end]):
        return None
    if (first := _FIRST.match(data, at, end)) is None:
        return None
    return int(first[1]), first[2].decode(), first[3].decode()


def from_line(line: bytes) -> Record:
    """The record of an intact line.

    Raises
    ------
    InvalidValue
        If the line is damaged.
    """
    if not is_intact(line):
        raise InvalidValue(f"line must have the checksum of its text, got {line[:60]!r}...")
    try:
        record: Record = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidValue(f"line must be JSON, got {line[:60]!r}...") from None
    for part in ("rows", "calibration"):
        record[part] = _floats(record.get(part, []))
    return record


# --- when two results are the same ----------------------------------------------------------------


def essence(record: Record) -> str:
    """What is compared of a record, as text: all but its checksum, timing and command."""
    return canonical({k: v for k, v in record.items() if k not in ("checksum", *APART)})


def same(a: Record, b: Record) -> bool:
    """Whether two records have the same results, bit for bit."""
    return essence(a) == essence(b)


def digest(records: Iterable[Record]) -> str:
    """One hash for many records, in any order: the same for the same results.

    >>> a, b = {"id": "1", "timing": 3.0}, {"id": "2"}
    >>> digest([a, b]) == digest([b, {"id": "1", "timing": 4.0}])
    True
    """
    return hashlib.sha256("\n".join(sorted(map(essence, records))).encode()).hexdigest()[:DIGITS]

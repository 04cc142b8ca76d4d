"""What bongref reads from outside, each as a function of bytes that may raise BongrefError alone.

>>> sorted(TARGETS)[:3]
['answers', 'best', 'csv']
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bongref as br
from bongref.conformance import runner, vectors
from bongref.errors import BongrefError
from bongref.experiments import records, store
from bongref.experiments.data import files as tables
from bongref.experiments.tuning import best, space
from bongref.explore import respond
from bongref.storage import files
from validation.fuzz import seeds
from validation.fuzz.answers import decode
from validation.fuzz.seeds import HOME

LONGEST = 1 << 16  # bytes of an input
SMALL = 4  # parameters of the cases that answers are given to


class Target(NamedTuple):
    """One thing that is read, inputs to begin with, and whether inputs are JSON."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    json: bool = False


class Forbidden(Exception):
    """Reading did what reading must not do."""


# --- what reading must not do ---------------------------------------------------------------------

EVENTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.rename", "os.rmdir")
EVENTS += ("subprocess.Popen", "pickle.find_class", "socket.connect", "socket.getaddrinfo")
EVENTS += ("ctypes.dlopen", "shutil.")
# modules that are imported, and the package's own functions with a note before each return
RUNNERS = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
RUNNERS += ("bongref/trace.py",)
seen: list[str] = []
watched = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if not watched:
        return
    if event.startswith(EVENTS):
        inside = isinstance(args[0], (str, bytes, Path)) and os.fsdecode(args[0]).startswith(HOME)
        if not inside:
            seen.append(f"{event} {str(args)[:200]}")
    elif event == "exec" and not sys._getframe(1).f_code.co_filename.endswith(RUNNERS):
        seen.append(f"exec {args[0]!r}")
    elif event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
        if isinstance(args[0], (str, bytes)) and not os.fsdecode(args[0]).startswith(HOME):
            seen.append(f"open {args[0]!r} to write")


sys.addaudithook(_watch)


def attempt(target: Target, data: bytes) -> None:
    """Give an input to a target; everything but one of bongref's own errors is a fault."""
    global watched
    seen.clear()
    watched = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.run(data)
    except BongrefError as error:
        str(error).encode(errors="replace")
    finally:
        watched = False
    if seen:
        raise Forbidden("; ".join(seen[:5]))


# --- files ----------------------------------------------------------------------------------------


def _file(name: str, data: bytes) -> Path:
    path = Path(HOME, name)
    path.write_bytes(data)
    return path


def _saved(data: bytes) -> None:
    br.load(_file("x.npz", data))


def _document(data: bytes) -> None:
    """A valid archive, with every checksum right, around a document and arrays that are fuzzed."""
    try:
        kind, arrays, rest = json.loads(data)
        made = {str(k): np.array(v, dtype=float) for k, v in arrays.items()}
        path = Path(HOME, "d.npz")
        files.write(path, kind, made, rest)
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return
    br.save(path, br.load(path))


def _results(data: bytes) -> None:
    store.read(_file("results.jsonl", data).parent)


def _records(data: bytes) -> None:
    """Lines whose checksums are right."""
    sums = [hashlib.blake2b(r, digest_size=8).hexdigest() for r in data.split(b"\n")]
    rows = zip(sums, data.split(b"\n"), strict=True)
    lines = [b'{"checksum":"' + s.encode() + b'",' + r for s, r in rows]
    path = _file("results.jsonl", b"\n".join(lines) + b"\n")
    with store.writer(path.parent) as out:
        out.append({"id": "0" * 16, "status": "done"})
    records.digest(store.read(path.parent).records)


def _plan(data: bytes) -> None:
    store.planned(_file("plan.json", data).parent)


def _best(data: bytes) -> None:
    best.read_best(_file("best.json", data))


def _space(data: bytes) -> None:
    whole = space.read(_file("space.json", data))
    for name in ("bong-lin-hess-diag", "blr-mc-ef-dlr"):
        space.of_method(whole, name)


def _task(ending: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        tables.load(str(_file(f"t{ending}", data)), {"target": "y", "hidden": "1"})

    return run


def _vectors(data: bytes) -> None:
    for case in vectors.read(_file("v.json", data)):
        case.arguments  # noqa: B018


# --- answers and requests -------------------------------------------------------------------------


class _Answers:
    """An adapter that returns the same object for every call."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def step(self, **_: Any) -> Any:
        return self.answer

    estimate = update = stream = predictive = predict = draw = step


@lru_cache(maxsize=1)
def _cases() -> list[vectors.Case]:
    """The small cases, a few of each level."""
    levels = {level: vectors.load([level]) for level in vectors.LEVELS}
    small = lambda c: all(np.size(q.value) <= SMALL**2 for q in c.expected)
    return [c for cases in levels.values() for c in [c for c in cases if small(c)][::9][:40]]


def _answer(data: bytes) -> None:
    chosen = _cases()[int.from_bytes(data[:2].ljust(2, b"\0"), "big") % len(_cases())]
    outcome = runner.run_case(_Answers(decode(data[2:])), chosen, diagnose=False)
    str(outcome.message).encode(errors="replace")


def _request(data: bytes) -> None:
    try:
        request = json.loads(data)
    except (ValueError, RecursionError):
        return
    json.dumps(respond(request), allow_nan=False).encode()


# --- all of them ----------------------------------------------------------------------------------

METHOD = "bong-lin-hess-diag"
AXIS = {"low": 0.01, "high": 1.0, "log": True, "steps": 3}
CHOICE = {"rule": "blr", "hess": "mc-ef", "family": "dlr", "alpha": 0.1, "n_iter": 2, "rank": 1}

DRAWN = {"methods": [CHOICE], "stream": {"seed": 1, "n": 3}, "t": 2, "model": "poisson"}
GUESS = {"mean": [0, 0], "cov": [[1, 0], [0, 1]]}
GIVEN = {"stream": {"x": [[1, 0]], "y": [1]}, "guess": GUESS}

TARGETS = {
    "saved": Target(_saved, seeds.archives),
    "document": Target(_document, seeds.documents, json=True),
    "results": Target(_results, seeds.lines),
    "records": Target(_records, seeds.bodies),
    "plan": Target(_plan, seeds.as_json({"0" * 16: {"method": METHOD}}, ["a"]), json=True),
    "best": Target(
        _best,
        seeds.as_json({"format": 1, "methods": {METHOD: {"params": {}, "settings": {}}}}),
        json=True,
    ),
    "space": Target(
        _space,
        seeds.as_json({"alpha": AXIS, "methods": {"*-dlr": {"rank": [1, 2]}}, "n_iter": 3}),
        json=True,
    ),
    "csv": Target(_task(".csv"), seeds.texts),
    "csv.gz": Target(_task(".csv.gz"), lambda: [gzip.compress(t, mtime=0) for t in seeds.texts()]),
    "npz": Target(_task(".npz"), seeds.tables),
    "vectors": Target(_vectors, seeds.few_vectors, json=True),
    "answers": Target(_answer, seeds.answered),
    "requests": Target(_request, seeds.as_json(DRAWN, GIVEN), json=True),
}

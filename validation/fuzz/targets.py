"""What bongref reads from outside, each as a function of bytes that may raise BongrefError alone.

>>> sorted(TARGETS)[:3]
['answers', 'best', 'csv']
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import tempfile
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
from validation.fuzz.answers import decode

MEMORY = Path("/dev/shm")
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
_HOME = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
HOME = _HOME.name


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


# --- inputs to begin with -------------------------------------------------------------------------


def _small_filter() -> Any:
    model, lik = br.models.mlp([1, 2, 1]), br.likelihoods.Gaussian(var=1.0)
    moving = br.dynamics.OU(gamma=0.9, mu0=0.0, var0=1.0)
    return br.Filter("bong-mc-ef-dlr", model, lik, rng=0, dynamics=moving)


@lru_cache(maxsize=1)
def _values() -> list[Any]:
    """One of each kind that is saved."""
    from bongref.sklearn import BongClassifier, BongRegressor

    X, y = np.arange(6.0)[:, None], np.array([0.0, 1, 0, 1, 1, 0])
    m, lik = br.method("bong-mc-ef-diag", n_samples=2), br.likelihoods.Gaussian(var=1.0)
    result = br.run(m, br.models.linear(1), lik, m.prior(np.zeros(1)), X, y, rng=0, progress=False)
    small = {"hidden_layer_sizes": (1,), "random_state": 0}
    return [
        br.FC(np.zeros(2), np.eye(2)),
        br.Diag(np.zeros(2), np.ones(2)),
        result,
        _small_filter().learn_many(X, y),
        BongRegressor(**small).fit(X, y),
        BongClassifier(**small).fit(X, y.astype(int)),
    ]


def _archives() -> list[bytes]:
    path = Path(HOME, "seed.npz")
    out = []
    for value in _values():
        br.save(path, value)
        out.append(path.read_bytes())
    return out


def _documents() -> list[bytes]:
    out = []
    for archive in _archives():
        content = files.read(_file("seed.npz", archive))
        arrays = {k: a.tolist() for k, a in content.arrays.items()}
        out.append(json.dumps([content.kind, arrays, files.plain(content.data)]).encode())
    return out


RECORD = {"id": "0123456789abcdef", "status": "done", "rows": [{"t": 1, "rmse": "inf"}]}


def _lines() -> list[bytes]:
    line = records.to_line({**RECORD, "calibration": {}, "timing": {"total": 1.0}})
    return [line + b"\n", line + b"\n" + line]


def _bodies() -> list[bytes]:
    body = _lines()[0].partition(b",")[2].strip()
    return [body, body + b"\n" + body]


def _json(*values: Any) -> Callable[[], list[bytes]]:
    return lambda: [json.dumps(v).encode() for v in values]


def _texts() -> list[bytes]:
    return [
        b"x,y\n1,2\n3,4.5\n",
        b"a;y;z\n1;red;\n2;blue;na\n1;red;3\n2;blue;4\n",
        b'x y\n 1  1e9\n"2" -inf\n',
    ]


def _tables() -> list[bytes]:
    out = []
    for write in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        write(buffer, x=np.eye(3), y=np.arange(3.0), z=np.array(["a", "b", "a"]))
        out.append(buffer.getvalue())
    return out


def _few_vectors() -> list[bytes]:
    out = []
    for file in sorted(vectors.FOLDER.glob("*.json")):
        whole = json.loads(file.read_text(encoding="utf-8"))
        least = sorted(whole["cases"], key=lambda c: len(json.dumps(c)))[:1]
        out.append(json.dumps({**whole, "cases": least}).encode())
    return out


def _answered() -> list[bytes]:
    return [bytes([0, k, 6, 2, 0, 8, 1, 3, 0, 1, 8, 2, 3, 3, 0, 2]) for k in range(0, 200, 20)]


METHOD = "bong-lin-hess-diag"
AXIS = {"low": 0.01, "high": 1.0, "log": True, "steps": 3}
CHOICE = {"rule": "blr", "hess": "mc-ef", "family": "dlr", "alpha": 0.1, "n_iter": 2, "rank": 1}

TARGETS = {
    "saved": Target(_saved, _archives),
    "document": Target(_document, _documents, json=True),
    "results": Target(_results, _lines),
    "records": Target(_records, _bodies),
    "plan": Target(_plan, _json({"0" * 16: {"task": "a", "method": METHOD}}, ["a"]), json=True),
    "best": Target(
        _best,
        _json({"format": 1, "methods": {METHOD: {"params": {}, "settings": {}}}}),
        json=True,
    ),
    "space": Target(
        _space,
        _json({"alpha": AXIS, "methods": {"*-dlr": {"rank": [1, 2]}}, "n_iter": 3}),
        json=True,
    ),
    "csv": Target(_task(".csv"), _texts),
    "csv.gz": Target(_task(".csv.gz"), lambda: [gzip.compress(t, mtime=0) for t in _texts()]),
    "npz": Target(_task(".npz"), _tables),
    "vectors": Target(_vectors, _few_vectors, json=True),
    "answers": Target(_answer, _answered),
    "requests": Target(
        _request,
        _json({"methods": [CHOICE], "stream": {"seed": 1, "n": 3}, "t": 2, "model": "poisson"},
              {"stream": {"x": [[1, 0]], "y": [1]}, "guess": {"mean": [0, 0], "cov": [[1, 0], [0, 1]]}}),
        json=True,
    ),
}  # fmt: skip

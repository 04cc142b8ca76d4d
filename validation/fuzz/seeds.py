"""The inputs with which the fuzzer begins: a few small ones of each kind that is read."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import bongref as br
from bongref.conformance import vectors
from bongref.experiments import records
from bongref.storage import files

MEMORY = Path("/dev/shm")
_HOME = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
HOME = _HOME.name  # the one folder in which a target may write


def seed_file(data: bytes) -> Path:
    path = Path(HOME, "seed.npz")
    path.write_bytes(data)
    return path


def small_filter() -> Any:
    model, lik = br.models.mlp([1, 2, 1]), br.likelihoods.Gaussian(var=1.0)
    moving = br.dynamics.OU(gamma=0.9, mu0=0.0, var0=1.0)
    return br.Filter("bong-mc-ef-dlr", model, lik, rng=0, dynamics=moving)


@lru_cache(maxsize=1)
def values() -> list[Any]:
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
        small_filter().learn_many(X, y),
        BongRegressor(**small).fit(X, y),
        BongClassifier(**small).fit(X, y.astype(int)),
    ]


def archives() -> list[bytes]:
    path = Path(HOME, "seed.npz")
    out = []
    for value in values():
        br.save(path, value)
        out.append(path.read_bytes())
    return out


def documents() -> list[bytes]:
    out = []
    for archive in archives():
        content = files.read(seed_file(archive))
        arrays = {k: a.tolist() for k, a in content.arrays.items()}
        out.append(json.dumps([content.kind, arrays, files.plain(content.data)]).encode())
    return out


RECORD = {"id": "0123456789abcdef", "status": "done", "rows": [{"t": 1, "rmse": "inf"}]}


def lines() -> list[bytes]:
    line = records.to_line({**RECORD, "calibration": {}, "timing": {"total": 1.0}})
    return [line + b"\n", line + b"\n" + line]


def bodies() -> list[bytes]:
    body = lines()[0].partition(b",")[2].strip()
    return [body, body + b"\n" + body]


def as_json(*values: Any) -> Callable[[], list[bytes]]:
    return lambda: [json.dumps(v).encode() for v in values]


def texts() -> list[bytes]:
    return [
        b"x,y\n1,2\n3,4.5\n",
        b"a;y;z\n1;red;\n2;blue;na\n1;red;3\n2;blue;4\n",
        b'x y\n 1  1e9\n"2" -inf\n',
    ]


def tables() -> list[bytes]:
    out = []
    for write in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        write(buffer, x=np.eye(3), y=np.arange(3.0), z=np.array(["a", "b", "a"]))
        out.append(buffer.getvalue())
    return out


def few_vectors() -> list[bytes]:
    out = []
    for file in sorted(vectors.FOLDER.glob("*.json")):
        whole = json.loads(file.read_text(encoding="utf-8"))
        least = sorted(whole["cases"], key=lambda c: len(json.dumps(c)))[:1]
        out.append(json.dumps({**whole, "cases": least}).encode())
    return out


def answered() -> list[bytes]:
    return [bytes([0, k, 6, 2, 0, 8, 1, 3, 0, 1, 8, 2, 3, 3, 0, 2]) for k in range(0, 200, 20)]

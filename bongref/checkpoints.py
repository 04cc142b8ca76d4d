"""A stream on disk: a :class:`~bongref.filter.Result` as one .npz file, so that a run can go on in another process.

The file holds the arrays of the state as they are, and the rest (method, step, rows, states of the generators) as JSON; no pickles.
It is written beside its place and moved there, so that a run that is killed while it writes leaves the file of before.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .filter import Result
from .grid import STATES, method

VERSION = 1


def save(path: str | os.PathLike[str], result: Result) -> None:
    """The result to PATH (.npz), all but its traces."""
    info, path = result.info, check_path(path)
    rest = {
        "version": VERSION,
        "method": [info["method"].name, dict(info["method"].params)],
        "t": result.t,
        "rows": result.rows,
        "info": {k: info[k] for k in ("backend", "reason", "seconds", "steps", "missing", "pending", "rng", "eval_rng")},
    }
    beside = path.with_name(path.name + ".part")
    with open(beside, "wb") as file:
        np.savez(file, **result.state._asdict(), rest=np.array(json.dumps(rest, default=_plain)))
    os.replace(beside, path)


def load(path: str | os.PathLike[str]) -> Result:
    """The result in PATH, for ``run(..., resume=load(path))`` with the same arguments."""
    try:
        with np.load(path, allow_pickle=False) as file:
            rest = json.loads(str(file["rest"]))
            if rest["version"] != VERSION:
                raise ValueError(f"version {rest['version']}")
            name, params = rest["method"]
            m = method(name, **params)
            kind = STATES[m.family]
            state = kind(*(file[field] for field in kind._fields))
    except (KeyError, ValueError, EOFError) as error:
        raise ValueError(f"path must be a file that bongref.save wrote, got {os.fspath(path)!r} ({error})") from None
    return Result(state, rest["rows"], {**rest["info"], "method": m, "traces": []}, rest["t"])


def check_path(path: str | os.PathLike[str]) -> Path:
    """PATH, if a file of this kind can be written there."""
    out = Path(path)
    if out.suffix != ".npz" or not out.absolute().parent.is_dir():
        raise ValueError(f"path must end in .npz and lie in a folder that exists, got {os.fspath(path)!r}")
    return out


def _plain(value: Any) -> Any:
    """Arrays and numpy numbers for JSON."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)

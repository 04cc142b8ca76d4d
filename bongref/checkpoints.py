"""A stream on disk: a `bongref.Result` as one .npz file, so that a run can go on elsewhere.

    bongref.save("run.npz", result)
    bongref.run(..., resume=bongref.load("run.npz"))      # with the same arguments

The file holds the arrays of the state as they are and the rest (method, step, rows, states of the
generators) as JSON; no pickles. It is written to a temporary file in the same folder and renamed,
so that a run that is killed while it writes leaves the last complete file.
"""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any

import numpy as np

from . import checks
from .errors import InvalidType, InvalidValue
from .grid import STATES, method
from .stream import Continuation, Result, RunInfo
from .tables import describe

VERSION = 2


def save(path: str | os.PathLike[str], result: Result) -> None:
    """Write a result to an .npz file, all but its traces.

    Parameters
    ----------
    path : str or path
        A file name that ends in .npz, in a folder that exists.
    result : Result
        Of :func:`bongref.run`.

    Raises
    ------
    InvalidValue, InvalidType
        If the path or the result is refused; a file that is there stays as it is.

    Examples
    --------
    >>> import numpy as np, bongref as br, tempfile, os
    >>> m = br.method("bong-lin-hess-fc")
    >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=1.0)
    >>> result = br.run(m, model, lik, m.prior(np.zeros(1)), X=[[1.0]], Y=[2.0])
    >>> path = os.path.join(tempfile.mkdtemp(), "run.npz")
    >>> br.save(path, result)
    >>> br.load(path).state.mu
    array([1.])
    """
    path = checks.path("path", path, ".npz")
    if not isinstance(result, Result):
        raise InvalidType(
            f"result must be a Result of bongref.run, got {type(result).__name__}; "
            "the state of a result is saved with it"
        )
    info = result.info
    rest = {
        "version": VERSION,
        "method": [info.method.name, dict(info.method.params)],
        "t": result.t,
        "rows": result.rows,
        "info": {k: v for k, v in vars(info).items() if k not in ("method", "traces")},
        "continuation": result.continuation._asdict(),
    }
    beside = path.with_name(path.name + ".part")
    with open(beside, "wb") as file:
        np.savez(file, **result.state._asdict(), rest=np.array(json.dumps(rest, default=_plain)))
    os.replace(beside, path)


def load(path: str | os.PathLike[str]) -> Result:
    """The result in a file, for ``run(..., resume=load(path))`` with the same arguments.

    Parameters
    ----------
    path : str or path
        A file that :func:`bongref.save` or ``run(..., checkpoint=path)`` wrote.

    Returns
    -------
    Result

    Raises
    ------
    InvalidValue
        If it is another kind of file.
    FileNotFoundError
        If there is none.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidType(f"path must be a path (str or os.PathLike), got {describe(path)}")
    if os.path.isdir(path):
        raise InvalidValue(f"path must be a file, got the folder {os.fspath(path)!r}")
    try:
        with np.load(path, allow_pickle=False) as file:
            rest = json.loads(str(file["rest"]))
            if rest["version"] != VERSION:
                raise ValueError(f"version {rest['version']}, not {VERSION}")
            name, params = rest["method"]
            m = method(name, **params)
            kind = STATES[m.family]
            state = kind(*(file[field] for field in kind._fields))
            info = RunInfo(**rest["info"], method=m)
            return Result(
                state, rest["rows"], info, rest["t"], Continuation(**rest["continuation"])
            )
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidValue(
            f"path must be a file that bongref.save wrote, got {os.fspath(path)!r} ({error})"
        ) from None


def _plain(value: Any) -> Any:
    """Arrays and numpy numbers for JSON."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)

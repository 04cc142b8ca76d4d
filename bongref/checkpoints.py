"""States, results, filters and estimators on disk: :func:`save` and :func:`load`.

    bongref.save("run.npz", result)
    bongref.run(..., resume=bongref.load("run.npz"))      # with the same arguments

The file is an .npz without pickles; docs/files.md has its definition.

>>> import bongref as br, numpy as np, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "state.npz")
>>> br.save(path, br.Diag(np.zeros(2), np.ones(2)))
>>> br.load(path).var
array([1., 1.])
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from . import checks
from .errors import InvalidType
from .likelihoods import Likelihood
from .linalg import Array
from .models import Model
from .online import Filter
from .recording.results import TIMES, Continuation, Result, RunInfo, check
from .states import DLR, FC, Diag, State
from .storage import descriptions, files
from .storage.files import Damaged, WrongCall, keys
from .tables import describe

STATES: dict[str, Any] = {"FC": FC, "Diag": Diag, "DLR": DLR}
# classes of a module that needs scikit-learn; storage.estimators describes them
ESTIMATORS = {"BongRegressor": "sklearn", "BongClassifier": "sklearn"}
MOST_STEPS = 2**53

Saved = tuple[dict[str, Array], Any]  # arrays by name, and plain data


def save(path: str | os.PathLike[str], value: Any) -> None:
    """Write a state, a result, a filter or an estimator to an .npz file.

    The file is complete or not there: it is written beside the old one, brought to the disk, and
    takes its place in one step. A link is followed, and the permissions of an old file are kept.

    Parameters
    ----------
    path : str or path
        A file name that ends in .npz, in a folder that exists.
    value : FC, Diag, DLR, Result, Filter, BongRegressor or BongClassifier
        A result is saved without its traces. A model or likelihood of your own is not saved with a
        filter; ``load(path, model=..., lik=...)`` then takes it.

    Returns
    -------
    None

    Raises
    ------
    InvalidValue, InvalidType
        If the path or the value is refused; a file that is there stays as it is.
    OSError
        If the file cannot be written, for example because the disk is full.

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
    if isinstance(value, (str, os.PathLike)) and not isinstance(path, (str, os.PathLike)):
        got = f"path must be a path (str or os.PathLike), got {checks.describe(path)}"
        raise InvalidType(f"{got}; the path is first: save({os.fspath(value)!r}, value)")
    target = checks.path("path", path, ".npz")
    kind, (arrays, data) = _saved(value)
    files.write(target, kind, arrays, data)


def load(
    path: str | os.PathLike[str], *, model: Model | None = None, lik: Likelihood | None = None
) -> Any:
    """What is in a file: a state, a result, a filter or an estimator.

    A result goes on with ``run(..., resume=load(path))`` and the same arguments.

    Parameters
    ----------
    path : str or path
        A file that :func:`bongref.save` or ``run(..., checkpoint=path)`` wrote, by this version or
        the one before it.
    model : Model, optional
        For a filter that was made with a model of your own; with any other file it is refused.
    lik : Likelihood, optional
        The same for a likelihood of your own.

    Returns
    -------
    FC, Diag, DLR, Result, Filter, BongRegressor or BongClassifier

    Raises
    ------
    InvalidValue
        If it is another kind of file, or damaged; nothing in it has been executed.
    MissingFile
        If there is none; it is a FileNotFoundError too.

    Examples
    --------
    >>> import bongref as br, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "filter.npz")
    >>> f = br.Filter("bong-lin-hess-fc", br.models.linear(1), br.likelihoods.Gaussian(var=1.0))
    >>> br.save(path, f.learn_one([1.0], 2.0))
    >>> br.load(path).learn_one([1.0], 2.0).t
    2
    """
    content = files.read(path)
    with files.explained(path):
        return _loaded(content, model, lik)


def _saved(value: Any) -> tuple[str, Saved]:
    """The kind of a value, its arrays and its data."""
    if isinstance(value, Result):
        return "result", result_saved(value)
    if isinstance(value, (FC, Diag, DLR)):
        q = checks.state("value", value)
        return "state", (dict(q._asdict()), {"state": type(q).__name__})
    if isinstance(value, Filter):
        return "filter", filter_saved(value)
    kind = type(value).__name__
    if type(value).__module__ == f"bongref.{ESTIMATORS.get(kind)}":
        from .storage import estimators

        return kind, estimators.saved(value)
    raise InvalidType(
        "value must be a state (FC, Diag, DLR), a Result of bongref.run, a Filter, a BongRegressor "
        f"or a BongClassifier, got {describe(value)}"
    )


def _loaded(content: files.Content, model: Any, lik: Any) -> Any:
    kind, arrays, data = content.kind, content.arrays, content.data
    for name, given in {"model": model, "lik": lik}.items():
        if given is not None and kind != "filter":
            raise WrongCall(
                f"{name} must be left out for a file that holds a {kind[:20]}, got {given!r:.80}"
            )
    if content.version == 2:  # which had at least one time
        data["info"] = {"evaluation": 0.0, "compilation": 0.0, **keys(data["info"])}
    if kind == "result":
        return result_from(arrays, data)
    if kind == "state":
        name = keys(data, "state")["state"]
        if name not in STATES:
            raise Damaged(f"there is no state {str(name)[:40]!r}")
        _exactly(arrays, STATES[name]._fields)
        return descriptions.state_from("", STATES[name], arrays)
    if kind == "filter":
        return filter_from(arrays, data, model, lik)
    if kind in ESTIMATORS:
        made = getattr(import_module(f".{ESTIMATORS[kind]}", __package__), kind)
        from .storage import estimators

        return estimators.restored(made, arrays, data)
    raise Damaged(f"it holds a {kind[:40]!r}, which this bongref does not know")


def _exactly(arrays: Mapping[str, Array], names: Any) -> None:
    if set(arrays) != set(names):
        raise Damaged(f"it must have the arrays {sorted(names)}, got {str(sorted(arrays))[:200]}")
    if any(a.dtype != np.float64 for a in arrays.values()):
        raise Damaged("its arrays must be of float64")


# --- results --------------------------------------------------------------------------------------


def result_saved(result: Result) -> Saved:
    """The arrays and the data of a result."""
    info = result.info
    q: State = checks.state("value.state", result.state)
    data = {
        "method": descriptions.method(info.method),
        "t": result.t,
        "rows": result.rows,
        "info": {k: getattr(info, k) for k in ("backend", "reason", "steps", "missing", *TIMES)},
        "continuation": result.continuation._asdict(),
    }
    return dict(q._asdict()), data


def result_from(arrays: Mapping[str, Array], data: Any) -> Result:
    """A result, every part of it checked."""
    keys(data, "method", "t", "rows", "info", "continuation")
    m, t = descriptions.method_from(data["method"]), _count("t", data["t"], MOST_STEPS)
    kind = descriptions.state_kind(m)
    _exactly(arrays, kind._fields)
    state = descriptions.state_from("", kind, arrays, m.rank(np.size(arrays["mu"])))
    info = keys(data["info"], "backend", "reason", "steps", "missing", *TIMES)
    if info["backend"] not in ("reference", "fast") or not isinstance(info["reason"], str):
        raise Damaged("the backend must be 'reference' or 'fast', and the reason a string")
    _count("steps", info["steps"], MOST_STEPS)
    missing, times = _count("missing", info["missing"], t), [info[k] for k in TIMES]
    if any(type(x) not in (int, float) for x in times):
        raise Damaged(f"{', '.join(TIMES)} must be numbers >= 0")
    known = RunInfo(info["backend"], info["reason"], float(times[0]), m, info["steps"], missing)
    known = replace(known, evaluation=float(times[1]), compilation=float(times[2]))
    result = Result(state, data["rows"], known, t, _continuation(data["continuation"]))
    check("the result", result)
    return result


def _count(name: str, value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise Damaged(f"{name} must be an integer in 0...{most}, got {str(value)[:40]}")
    return value


def _continuation(data: Any) -> Continuation:
    keys(data, "rng", "eval_rng", "pending")
    descriptions.generator_from(data["rng"])
    descriptions.generator_from(data["eval_rng"])
    return Continuation(data["rng"], data["eval_rng"], data["pending"])


# --- filters --------------------------------------------------------------------------------------


def filter_saved(f: Filter) -> Saved:
    """The arrays and the data of a filter."""
    lik_arrays, lik = descriptions.likelihood(f.lik)
    moving, dynamics = descriptions.dynamics(f.dynamics)
    data = {
        "method": descriptions.method(f.method),
        "model": descriptions.model(f.model),
        "lik": lik,
        "dynamics": dynamics,
        "t": f.t,
        "rng": descriptions.generator(f.rng),
        "backend": f.backend,
        "features": f.features,
    }
    if (columns := f.__getstate__()["columns"]) is not None:
        data["columns"] = columns
    return {**descriptions.state("state", f.state), **lik_arrays, **moving}, data


def filter_from(
    arrays: Mapping[str, Array], data: Any, model: Model | None = None, lik: Any = None
) -> Filter:
    """A filter, every part of it checked."""
    optional = ["columns"] if isinstance(data, dict) and "columns" in data else []
    keys(data, "method", "model", "lik", "dynamics", "t", "rng", "backend", "features", *optional)
    columns = data.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(c, str) for c in columns):
        raise Damaged("the columns must be a list of names")
    m = descriptions.method_from(data["method"])
    kind = descriptions.state_kind(m)
    made = descriptions.model_from(data["model"], model)
    if made.n_params != (n := np.size(arrays["state.mu"])):
        raise Damaged(f"the model has {made.n_params} parameters, not {n}")
    dynamics = descriptions.dynamics_from(arrays, data["dynamics"])
    names = [f"state.{field}" for field in kind._fields]
    names += [f"dynamics.{field}" for field in dynamics._fields]
    names += ["lik.R"] if data["lik"] == {"kind": "gaussian"} else []
    _exactly(arrays, names)
    rank = m.rank(np.size(arrays["state.mu"]))
    return Filter.restored(
        {
            "m": m,
            "model": made,
            "lik": descriptions.likelihood_from(arrays, data["lik"], lik),
            "dynamics": dynamics,
            "rng": descriptions.generator_from(data["rng"]),
            "backend": data["backend"],
            "features": data["features"],
            "columns": columns or None,
            "state": descriptions.state_from("state", kind, arrays, rank),
            "t": _count("t", data["t"], MOST_STEPS),
        }
    )

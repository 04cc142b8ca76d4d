"""Adapters: the six calls that the vectors are made of, and bongref's own answers to them.

An adapter is any object with a ``name``, a ``dtype`` ("float64" or "float32") and whichever of the six methods it can offer. What is
missing, returns ``NotImplemented`` or raises ``NotImplementedError`` is "not offered", which is never a failure.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks, curvature, dynamics, filter, metrics, predictive
from .._version import __version__
from ..gaussians import is_valid
from ..grid import method
from ..routes import oracle
from . import vectors

CALLS = ("step", "estimate", "update", "predict", "run", "predictive")
DTYPES = ("float64", "float32")


class Reference:
    """bongref as an adapter, through its public functions alone: a worked example, and the kit's own test."""

    name, dtype, backend = f"bongref {__version__}", "float64", "reference"

    def step(self, method, prior, current, curv, params):
        return oracle.step(method, prior, current, curv, **params)

    def estimate(self, hess, model, likelihood, theta, x, y, samples):
        model, lik = vectors.model(model), vectors.likelihood(likelihood)
        estimator = getattr(curvature, hess.replace("-", "_"))
        curv = estimator(model, lik, x, y, theta if samples is None else samples)
        return {key: value for key, value in curv._asdict().items() if value is not None}

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        m, family = _method(method, params)
        model, lik = vectors.model(model), vectors.likelihood(likelihood)
        state, info = filter.update(m, model, lik, vectors.state(family, prior), x, y, samples=samples)
        return {**state._asdict(), "valid": info.valid}

    def predict(self, family, state, dynamics):
        return _predict(vectors.state(family, state), vectors.dynamics(dynamics))._asdict()

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        m, family = _method(method, params)
        model, lik = vectors.model(model), vectors.likelihood(likelihood)
        states: list[dict[str, Any]] = []

        def keep(m, model, lik, state, rng):
            states.append(state._asdict())
            return {}

        start, moving = vectors.state(family, prior), vectors.dynamics(dynamics)
        how: dict[str, Any] = {"every": 1, "metrics": keep, "progress": False, "backend": self.backend}
        filter.run(m, model, lik, start, X, Y, samples=samples, dynamics=moving, **how)
        return states

    def predictive(self, kind, family, model, likelihood, state, X, samples, Y=None):
        model, lik = vectors.model(model), vectors.likelihood(likelihood)
        args = (f"bong-lin-hess-{family}", model, lik, vectors.state(family, state), X)
        pred = predictive.plugin(*args) if kind == "plugin" else getattr(predictive, kind)(*args, samples=samples)
        out: dict[str, Any] = {"mean": pred.mean, "var": pred.var}
        if Y is not None:
            out |= {"log_density": pred.log_density(Y), "nlpd": metrics.nlpd(pred, Y)}
            if lik.name == "categorical" or (lik.name == "bernoulli" and pred.values.shape[2] == 1):
                out |= {"error": metrics.error(pred, Y), "ece": metrics.ece(pred, Y)}
        return out


class Fast:
    """bongref's compiled path as an adapter: the steps of the diagonal and DLR families, updates and streams."""

    name, dtype = f"bongref {__version__}, compiled", "float64"

    def step(self, method, prior, current, curv, params):
        from ..fast import steps

        m, family = _method(method, params)
        arrays = curvature.Curv(**{k: v for k, v in curv.items() if k in ("g", "S" if "S" in curv else "d")})
        if family.startswith("fc") or (arrays.S is None and (family == "dlr" or arrays.d is None)):
            return NotImplemented
        before, now = (checks.state(name, vectors.state(family, q)) for name, q in (("prior", prior), ("current", current)))
        state, _ = steps.step(m, before, now, arrays)
        return {**state._asdict(), "valid": is_valid(state)}

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        if "mc-hess" in method:
            return NotImplemented
        none = {"kind": "static"}
        return self.run(method, model, likelihood, prior, [x], [y], None if samples is None else samples[None], none, params)[0]

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        if "mc-hess" in method:
            return NotImplemented
        compiled = Reference()
        compiled.backend = "fast"
        return compiled.run(method, model, likelihood, prior, X, Y, samples, dynamics, params)


_predict = dynamics.predict


def _method(name: str, params: dict[str, Any]):
    m = method(name, **params)
    return m, m.family


def load_adapter(target: Any) -> Any:
    """The adapter of ``"module:Name"`` (a class, a function that makes one, or the object itself), or of a file ``"path.py:Name"``."""
    if not isinstance(target, str):
        return check_adapter(target() if inspect.isclass(target) else target)
    where, colon, what = target.rpartition(":")
    if not colon or not where or not what:
        raise ValueError(f"adapter must be given as module:Name, e.g. my_adapter:Adapter, got {target!r}")
    module = _import(where)
    found: Any = module
    for part in what.split("."):
        if not hasattr(found, part):
            names = sorted(n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__)
            raise ValueError(f"adapter: {where} has no {what!r}" + (f"; its classes are {', '.join(names)}" if names else ""))
        found = getattr(found, part)
    offers = any(hasattr(found, call) for call in CALLS)
    return check_adapter(_made(target, found) if inspect.isclass(found) or (callable(found) and not offers) else found)


def _made(target: str, found: Any) -> Any:
    try:
        return found()
    except Exception as error:
        raise ValueError(f"adapter: {target} cannot be made: {found.__name__}() raised {type(error).__name__}: {error}") from error


def _import(where: str) -> Any:
    if where.endswith(".py"):
        path = Path(where).resolve()
        if not path.exists():
            raise ValueError(f"adapter: there is no file {where!r}")
        sys.path.insert(0, str(path.parent))
        where = path.stem
    elif "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name != where.split(".")[0]:
            raise
        raise ValueError(f"adapter: there is no module {where!r} on the Python path or in {Path.cwd()}") from None


def check_adapter(adapter: Any) -> Any:
    """The adapter, if it offers something and its dtype is known."""
    if dtype_of(adapter) not in DTYPES:
        raise ValueError(f"adapter.dtype must be 'float64' or 'float32', got {getattr(adapter, 'dtype', None)!r}")
    if not any(callable(getattr(adapter, call, None)) for call in CALLS):
        raise ValueError(f"adapter must offer at least one of {', '.join(CALLS)}, got {adapter!r} with none of them")
    return adapter


def dtype_of(adapter: Any) -> str:
    """ "float64" or "float32"."""
    dtype = getattr(adapter, "dtype", "float64")
    try:
        return np.dtype(dtype).name
    except TypeError:  # another library's, such as torch.float32
        return str(dtype).rpartition(".")[2]


def name_of(adapter: Any) -> str:
    return str(getattr(adapter, "name", type(adapter).__name__))

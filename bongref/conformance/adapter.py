"""Adapters: the seven calls that the vectors are made of, and bongref's own answers to them.

An adapter is any object with a ``name``, a ``dtype`` ("float64" or "float32") and some of the seven
methods. A method that is missing, returns ``NotImplemented`` or raises ``NotImplementedError`` is
"not offered", which is never a failure.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks, curvature, filter, gaussians, metrics, predictive, stream
from .. import dynamics as transitions
from .._version import __version__
from ..errors import InvalidValue
from ..gaussians import is_valid
from ..grid import method as method_of
from ..linalg import Array
from ..routes import oracle
from ..states import State
from . import vectors

CALLS = ("step", "estimate", "update", "predict", "run", "predictive", "draw")
DTYPES = ("float64", "float32")
Data = dict[str, Any]  # plain numbers and arrays by name


class Reference:
    """bongref as an adapter, through its public functions alone: an example to start from.

    Examples
    --------
    >>> from bongref.conformance import Reference
    >>> prior, curv = {"mu": [0.0], "var": [1.0]}, {"g": [1.0], "d": [-1.0]}
    >>> Reference().step("bong-lin-hess-diag", prior, None, curv, {})["mu"]
    array([0.5])
    """

    name, dtype, backend = f"bongref {__version__}", "float64", "reference"

    def step(self, method: str, prior: Data, current: Data, curv: Data, params: Data) -> Any:
        """One step from (g, G)."""
        return oracle.step(method, prior, current, curv, **params)

    def estimate(
        self,
        hess: str,
        model: Data,
        likelihood: Data,
        theta: Array,
        x: Array,
        y: Array,
        samples: Array | None,
    ) -> Any:
        """(g, G) of an observation or a batch."""
        f, lik = vectors.model(model), vectors.likelihood(likelihood)
        estimator = getattr(curvature, hess.replace("-", "_"))
        curv = estimator(f, lik, x, y, theta if samples is None else samples)
        return {k: a for k in ("g", "S", "G", "d") if (a := getattr(curv, k)) is not None}

    def update(
        self,
        method: str,
        model: Data,
        likelihood: Data,
        prior: Data,
        x: Array,
        y: Array,
        samples: Array | None,
        params: Data,
    ) -> Any:
        """The posterior after one observation or a batch."""
        m = method_of(method, **params)
        f, lik = vectors.model(model), vectors.likelihood(likelihood)
        before = vectors.state(m.family, prior)
        state, info = filter.update(m, f, lik, before, x, y, samples=samples)
        return {**state._asdict(), "valid": info.valid}

    def predict(self, family: str, state: Data, dynamics: Data) -> Any:
        """The prior of the next step."""
        now = vectors.state(family, state)
        return transitions.predict(now, vectors.dynamics(dynamics))._asdict()

    def run(
        self,
        method: str,
        model: Data,
        likelihood: Data,
        prior: Data,
        X: Any,
        Y: Any,
        samples: Array | None,
        dynamics: Data,
        params: Data,
    ) -> Any:
        """The states after each step of a stream."""
        m = method_of(method, **params)
        f, lik = vectors.model(model), vectors.likelihood(likelihood)
        states: list[Data] = []

        def keep(m: Any, model: Any, lik: Any, state: State, rng: Any) -> Data:
            states.append(state._asdict())
            return {}

        before, moving = vectors.state(m.family, prior), vectors.dynamics(dynamics)
        how: Data = {"every": 1, "metrics": keep, "progress": False, "backend": self.backend}
        stream.run(m, f, lik, before, X, Y, samples=samples, dynamics=moving, **how)
        return states

    def predictive(
        self,
        kind: str,
        family: str,
        model: Data,
        likelihood: Data,
        state: Data,
        X: Array,
        samples: Array | None,
        Y: Array | None = None,
    ) -> Any:
        """Moments of the predictive distribution; with Y also densities and metrics."""
        f, lik = vectors.model(model), vectors.likelihood(likelihood)
        args = (f, lik, vectors.state(family, state), X)
        how = {} if kind == "plugin" else {"samples": samples}
        pred = getattr(predictive, kind)(*args, **how)
        out: Data = {"mean": pred.mean, "var": pred.var}
        if Y is not None:
            out |= {"log_density": pred.log_density(Y), "nlpd": metrics.nlpd(pred, Y)}
            one_label = lik.name == "bernoulli" and pred.values.shape[2] == 1
            if lik.name == "categorical" or one_label:
                out |= {"error": metrics.error(pred, Y), "ece": metrics.ece(pred, Y)}
        return out

    def draw(self, family: str, state: Data, n: int, seed: int, normals: Array | None) -> Any:
        """Samples θ ~ q, (n, P): from given standard normals, or from a seed."""
        q = vectors.state(family, state)
        return gaussians.sample(q, n, seed) if normals is None else gaussians.place(q, normals)


class Fast:
    """bongref's compiled path as an adapter: steps in diagonal and DLR families, updates, streams.

    Raises
    ------
    InvalidValue
        If numba is not installed.

    Examples
    --------
    >>> from bongref.conformance import Fast
    >>> Fast.dtype
    'float64'
    """

    name, dtype = f"bongref {__version__}, compiled", "float64"

    def __init__(self) -> None:
        try:
            import numba  # noqa: F401
        except ImportError:
            raise InvalidValue(
                "adapter bongref.conformance:Fast needs numba, which is not installed; "
                "use pip install 'numba >= 0.60'"
            ) from None

    def step(self, method: str, prior: Data, current: Data, curv: Data, params: Data) -> Any:
        """One compiled step; full covariances, and DLR without S, are not offered."""
        from ..fast import steps

        m = method_of(method, **params)
        before = checks.state("prior", vectors.state(m.family, prior))
        now = checks.state("current", vectors.state(m.family, current))
        keys = ("g", "S" if "S" in curv else "d")
        arrays = curvature.Curv(**{key: curv[key] for key in keys if key in curv})
        no_factor = arrays.S is None and (m.family == "dlr" or arrays.d is None)
        if m.family.startswith("fc") or no_factor:
            return NotImplemented
        state, _ = steps.step(m, before, now, arrays)
        return {**state._asdict(), "valid": is_valid(state)}

    def update(
        self,
        method: str,
        model: Data,
        likelihood: Data,
        prior: Data,
        x: Array,
        y: Array,
        samples: Array | None,
        params: Data,
    ) -> Any:
        """The posterior after one observation, as a stream of one step; not for mc-hess."""
        if "mc-hess" in method:
            return NotImplemented
        steps = None if samples is None else samples[None]
        static = {"kind": "static"}
        return self.run(method, model, likelihood, prior, [x], [y], steps, static, params)[0]

    def run(
        self,
        method: str,
        model: Data,
        likelihood: Data,
        prior: Data,
        X: Any,
        Y: Any,
        samples: Array | None,
        dynamics: Data,
        params: Data,
    ) -> Any:
        """The states after each step of a compiled stream; not for mc-hess."""
        if "mc-hess" in method:
            return NotImplemented
        compiled = Reference()
        compiled.backend = "fast"
        return compiled.run(method, model, likelihood, prior, X, Y, samples, dynamics, params)


# --- finding an adapter ---------------------------------------------------------------------------


def load_adapter(target: Any) -> Any:
    """An adapter from an object, a class, or a name. The code that a name refers to is run.

    Parameters
    ----------
    target : object, class or str
        An adapter, a class of adapters, or "module:Name" or "path.py:Name", where Name is a class,
        a function that makes an adapter, or the adapter itself.

    Returns
    -------
    object
        With at least one of the seven methods and a known dtype.

    Raises
    ------
    InvalidValue
        If there is no such adapter. What its own code raises is part of the message, with the line.

    Examples
    --------
    >>> from bongref.conformance import load_adapter
    >>> type(load_adapter("bongref.conformance:Reference")).__name__
    'Reference'
    """
    if not isinstance(target, str):
        return check_adapter(target() if inspect.isclass(target) else target)
    where, colon, what = target.rpartition(":")
    if not colon or not where or not what:
        example = "e.g. my_adapter:Adapter"
        raise InvalidValue(f"adapter must be given as module:Name, {example}, got {target!r}")
    try:
        return check_adapter(_made(where, what))
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, InvalidValue) and Path(frames[-1].filename) == Path(__file__):
            raise  # our own message
        raise InvalidValue(f"adapter {target} cannot be made: {_told(error, frames)}") from error


def _made(where: str, what: str) -> Any:
    """The object of this name in a module; of a class or a function, what it makes."""
    module = _import(where)
    found: Any = module
    for part in what.split("."):
        if not hasattr(found, part):
            own = [n for n, v in vars(module).items() if _is_own_class(v, module)]
            there = f"; its classes are {', '.join(sorted(own))}" if own else ""
            raise InvalidValue(f"adapter: {where} has no {what!r}{there}")
        found = getattr(found, part)
    offers = any(hasattr(found, call) for call in CALLS)
    return found() if inspect.isclass(found) or (callable(found) and not offers) else found


def _is_own_class(value: Any, module: Any) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__


def _told(error: BaseException, frames: traceback.StackSummary) -> str:
    """The error of an adapter's own code, and the last line of that code before it."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    here = Path(__file__)
    own = [f for f in frames if Path(f.filename) != here and "importlib" not in f.filename]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def _import(where: str) -> Any:
    if where.endswith(".py"):
        path = Path(where).resolve()
        if not path.exists():
            raise InvalidValue(f"adapter: there is no file {where!r}")
        sys.path.insert(0, str(path.parent))
        where = path.stem
    elif "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name != where.split(".")[0]:
            raise
        raise InvalidValue(
            f"adapter: there is no module {where!r} on the Python path or in {Path.cwd()}"
        ) from None


def check_adapter(adapter: Any) -> Any:
    """The adapter, if it has one of the seven methods and a known dtype."""
    if dtype_of(adapter) not in DTYPES:
        dtype = getattr(adapter, "dtype", None)
        raise InvalidValue(f"adapter.dtype must be 'float64' or 'float32', got {dtype!r}")
    if not any(callable(getattr(adapter, call, None)) for call in CALLS):
        calls = ", ".join(CALLS)
        raise InvalidValue(
            f"adapter must offer at least one of {calls}, got {adapter!r} with none of them"
        )
    return adapter


def dtype_of(adapter: Any) -> str:
    """The name of the adapter's dtype, e.g. "float64"."""
    dtype = getattr(adapter, "dtype", "float64")
    try:
        return str(np.dtype(dtype).name)
    except TypeError:  # of another library, such as torch.float32
        return str(dtype).rpartition(".")[2]


def name_of(adapter: Any) -> str:
    """The name under which the adapter is reported."""
    return str(getattr(adapter, "name", type(adapter).__name__))

"""bongref: the reference implementation of Bayesian Online Natural Gradient (BONG).

Every update of the paper, equation by equation, right by independent routes. Start with ``bongref audit`` on the command line, or

>>> import numpy as np, bongref as br
>>> m = br.method("bong-lin-hess-fc")
>>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=0.1)
>>> state, info = br.update(m, model, lik, m.prior(np.zeros(2), var=1.0), x=[1.0, 2.0], y=3.0)
>>> info.valid
True
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from . import conformance, curvature, dynamics, likelihoods, metrics, models, oracle, paper, predictive
    from .checkpoints import load, save
    from .curvature import Curv
    from .dynamics import predict
    from .filter import Info, Interrupted, NotPositiveDefinite, Result, run, step, update
    from .gaussians import kl, log_density, sample
    from .methods import Method, NotDerived, method, methods
    from .states import DLR, FC, Diag

# what is loaded at first use, so that a program pays only for what it asks for (a pytest session that has our plugin, for nothing)
_MODULES = ("conformance", "curvature", "dynamics", "fast", "likelihoods", "metrics", "models", "oracle", "paper", "predictive")
_HOMES = {
    "checkpoints": ("load", "save"),
    "curvature": ("Curv",),
    "dynamics": ("predict",),
    "filter": ("Info", "Interrupted", "NotPositiveDefinite", "Result", "run", "step", "update"),
    "gaussians": ("kl", "log_density", "sample"),
    "methods": ("Method", "NotDerived", "method", "methods"),
    "states": ("DLR", "FC", "Diag"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str):
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _MODULES:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'bongref' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """``bongref.methods`` is the function, also after an import of the module of that name."""

    def __setattr__(self, name, value):
        if not (name == "methods" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

__all__ = [
    "DLR",
    "FC",
    "Curv",
    "Diag",
    "Info",
    "Interrupted",
    "Method",
    "NotDerived",
    "NotPositiveDefinite",
    "Result",
    "__version__",
    "conformance",
    "curvature",
    "dynamics",
    "kl",
    "likelihoods",
    "load",
    "log_density",
    "method",
    "methods",
    "metrics",
    "models",
    "oracle",
    "paper",
    "predict",
    "predictive",
    "run",
    "sample",
    "save",
    "step",
    "update",
]

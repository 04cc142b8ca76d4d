"""bongref: the reference implementation of Bayesian Online Natural Gradient (BONG).

Every update of the paper, equation by equation, right by independent routes. Start with
``bongref audit`` on the command line, or

>>> import numpy as np, bongref as br
>>> m = br.method("bong-lin-hess-fc")
>>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=0.1)
>>> state, info = br.update(m, model, lik, m.prior(np.zeros(2), var=1.0), x=[1.0, 2.0], y=3.0)
>>> info.valid
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import (
        conformance,
        curvature,
        dynamics,
        likelihoods,
        metrics,
        models,
        paper,
        plot,
        predictive,
    )
    from .checkpoints import load, save
    from .curvature import Curv
    from .dynamics import predict
    from .errors import (
        BongrefError,
        BongrefWarning,
        CallbackFailed,
        Diverging,
        Interrupted,
        InvalidType,
        InvalidValue,
        LostDigits,
        NotDerived,
        NotFinite,
        NotPositiveDefinite,
        StreamEnded,
        Unscaled,
    )
    from .filter import Info, step, update
    from .gaussians import kl, log_density, sample
    from .grid import Method, method, methods
    from .guide.explain import explain
    from .guide.recommend import recommend
    from .online import Filter
    from .recording.results import Result
    from .routes import oracle
    from .states import DLR, FC, Diag
    from .stream import run

# Loaded at first use, so that a program pays only for what it asks for.
_NAMES = {
    "checkpoints": ("load", "save"),
    "curvature": ("Curv",),
    "dynamics": ("predict",),
    "errors": (
        "BongrefError",
        "BongrefWarning",
        "CallbackFailed",
        "Diverging",
        "Interrupted",
        "InvalidType",
        "InvalidValue",
        "LostDigits",
        "NotDerived",
        "NotFinite",
        "NotPositiveDefinite",
        "StreamEnded",
        "Unscaled",
    ),
    "filter": ("Info", "step", "update"),
    "gaussians": ("kl", "log_density", "sample"),
    "grid": ("Method", "method", "methods"),
    "guide.explain": ("explain",),
    "guide.recommend": ("recommend",),
    "online": ("Filter",),
    "recording.results": ("Result",),
    "states": ("DLR", "FC", "Diag"),
    "stream": ("run",),
}
_MODULES = {
    "": (
        "conformance",
        "curvature",
        "dynamics",
        "fast",
        "likelihoods",
        "metrics",
        "models",
        "paper",
        "plot",
        "predictive",
    ),
    "guide.": ("defaults",),
    "predictive.": ("linearised",),
    "families.": ("fc_nat", "fc_mom", "diag_nat", "diag_mom", "dlr"),
    "routes.": ("audit", "compare", "definition", "exact", "oracle"),
    "theory.": ("batch", "conjugate", "costs", "literature", "mirror", "nist"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
_PATH = {name: package + name for package, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in _PATH:
        value = import_module(f".{_PATH[name]}", __name__)
    else:
        raise AttributeError(f"module 'bongref' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "DLR",
    "FC",
    "BongrefError",
    "BongrefWarning",
    "CallbackFailed",
    "Curv",
    "Diag",
    "Diverging",
    "Filter",
    "Info",
    "Interrupted",
    "InvalidType",
    "InvalidValue",
    "LostDigits",
    "Method",
    "NotDerived",
    "NotFinite",
    "NotPositiveDefinite",
    "Result",
    "StreamEnded",
    "Unscaled",
    "__version__",
    "conformance",
    "curvature",
    "dynamics",
    "explain",
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
    "plot",
    "predict",
    "predictive",
    "recommend",
    "run",
    "sample",
    "save",
    "step",
    "update",
]

"""bongref: the reference implementation of Bayesian Online Natural Gradient (BONG).

Every update of the paper, equation by equation, right by independent routes. Start with ``bongref audit`` on the command line, or

>>> import numpy as np, bongref as br
>>> m = br.method("bong-lin-hess-fc")
>>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=0.1)
>>> state, info = br.update(m, model, lik, m.prior(np.zeros(2), var=1.0), x=[1.0, 2.0], y=3.0)
>>> info.valid
True
"""

from . import curvature, dynamics, likelihoods, metrics, models, oracle, paper, predictive
from ._version import __version__
from .checkpoints import load, save
from .curvature import Curv
from .dynamics import predict
from .filter import Info, Interrupted, NotPositiveDefinite, Result, run, step, update
from .gaussians import kl, log_density, sample
from .methods import Method, NotDerived, method, methods
from .states import DLR, FC, Diag

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

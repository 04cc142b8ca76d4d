r"""The reference values of the vectors to 50 digits and more, by a second route.

Everything is an object array of ``mpmath.mpf``. The derivatives of a model are carried forward
through its layers by hand and the likelihoods are their formulas, so that nothing is shared with
autograd, :mod:`bongref.models` and :mod:`bongref.likelihoods`. The *steps* are the displayed forms
of the family modules, which run on any kind of number.

Inputs are the plain dicts of the vectors; a float64 becomes the mpf with the same value. Every
function works with 60 digits, or with more where the caller asks for more::

    with mp.workdps(90):
        state, states, curvs = update(
            "blr-lin-hess-fc", model, likelihood, prior, x, y, None, {"alpha": 0.1, "n_iter": 3}
        )

Outside such a block mpmath's own arithmetic has 15 digits: take products with :func:`quantities`,
floats with :func:`rounded`.

==================  ==============================================================================
:mod:`.numbers`     conversion and rounding; :func:`stable` finds how many digits are enough
:mod:`.jets`        models with their first and second derivatives
:mod:`.likelihoods` densities, means, covariances, scores
:mod:`.updates`     estimators, steps, updates, predictions, streams
:mod:`.predictives` predictive distributions and metrics
==================  ==============================================================================
"""

try:
    import mpmath  # noqa: F401
except ImportError:
    raise ImportError("the precise route needs mpmath: pip install 'bongref[exact]'") from None

from .jets import ACTIVATIONS, Jet, jet
from .likelihoods import info, info_factor, jac_mean, log_prob, mean, score, var
from .numbers import DPS, NotSettled, exactly, has_nan, rounded, stable
from .predictives import predictive
from .updates import (
    covariance,
    curvature,
    estimate,
    inputs,
    is_valid,
    log_likelihood,
    precision,
    predict,
    quantities,
    state,
    step,
    stream,
    update,
)

__all__ = [
    "ACTIVATIONS",
    "DPS",
    "Jet",
    "NotSettled",
    "covariance",
    "curvature",
    "estimate",
    "exactly",
    "has_nan",
    "info",
    "info_factor",
    "inputs",
    "is_valid",
    "jac_mean",
    "jet",
    "log_likelihood",
    "log_prob",
    "mean",
    "precision",
    "predict",
    "predictive",
    "quantities",
    "rounded",
    "score",
    "stable",
    "state",
    "step",
    "stream",
    "update",
    "var",
]

"""Counts from which calibration curves are drawn, taken of the last predictions of a run.

For classes, ``{"kind": "confidence", "count": [...], "confidence": [...], "correct": [...]}``:
in each of 20 equal bins of the confidence the number of test rows, the sum of the confidences and
the number of right predictions; Σ_b |correct_b − confidence_b| / Σ_b count_b is the ECE. For a
regression, ``{"kind": "pit", "count": [...]}``: how many of the predictive distribution functions
at the observations, F_n(y_n), fall into each of 20 equal bins of [0, 1]; for a calibrated
predictive these are equal, and the share in the middle 2k bins is the coverage of the central
interval of probability k/10.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from ..linalg import Array
from ..predictive import Predictive

BINS = 20
Counts = dict[str, Any]


def counts(pred: Predictive, Y: Array) -> Counts:
    """The counts of one predictive distribution.

    Parameters
    ----------
    pred : Predictive
        Of N inputs, with one output or a Categorical likelihood.
    Y : ndarray, shape (N,)

    Returns
    -------
    dict

    Examples
    --------
    >>> import bongref as br
    >>> p = Predictive("plugin", br.likelihoods.Categorical(), np.array([[[0.9, 0.1]]]), True)
    >>> counts(p, np.array([0.0]))["correct"][17]
    1
    """
    if pred.lik.name == "gaussian":
        return {"kind": "pit", "count": _histogram(_pit(pred, Y)).tolist()}
    mean = pred.mean
    mean = np.c_[1 - mean, mean] if mean.shape[1] == 1 else mean
    confidence, right = mean.max(axis=1), mean.argmax(axis=1) == Y
    bins = _bins(confidence)
    return {
        "kind": "confidence",
        "count": np.bincount(bins, minlength=BINS).tolist(),
        "confidence": np.bincount(bins, confidence, minlength=BINS).tolist(),
        "correct": np.bincount(bins[right], minlength=BINS).tolist(),
    }


def _pit(pred: Predictive, Y: Array) -> Array:
    """F_n(y_n) of a mixture of normal distributions with the observation variance."""
    std = np.sqrt(pred.lik.var(pred.values[:1])[..., 0, 0])
    with np.errstate(over="ignore", invalid="ignore"):
        F: Array = ndtr((Y - pred.means[..., 0]) / std).mean(axis=0)
    return F


def _bins(values: Array) -> Array:
    """The bin (b/n, (b+1)/n] of each value; what is outside of [0, 1] counts to the ends."""
    edges = np.arange(BINS + 1) / BINS
    bins: Array = np.clip(np.searchsorted(edges, values) - 1, 0, BINS - 1)
    return bins


def _histogram(values: Array) -> Array:
    return np.bincount(_bins(values[~np.isnan(values)]), minlength=BINS)

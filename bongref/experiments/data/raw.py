"""The rows of a task before they are split and standardised, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ... import checks
from ...errors import InvalidValue
from ...linalg import Array

REGRESSION, BINARY, CLASSES = KINDS = ("regression", "binary", "classes")


class Raw(NamedTuple):
    """Rows as they come from a generator or a file.

    Attributes
    ----------
    kind : {"regression", "binary", "classes"}
    X : ndarray, shape (N, ...)
    Y : ndarray, shape (N,)
        Numbers, or the classes 0, ..., C - 1.
    test : ndarray of bool, shape (N,), or None
        Which rows are the test part; None where the task has to choose them.
    model : dict
        The plain description of the model.
    obs_var : float or None
        The observation variance, in units of the variance of y in the training part where
        ``scaled``; None where it has to be estimated.
    scaled : bool
        Whether X and Y are standardised with the training part.
    order : {"shuffled", "given"}
        Whether the seed of a run shuffles the training rows, or their order means something.
    prior, prior_var : str, float
        The prior's covariance: prior_var · I ("equal"), or with the weights' entries divided by
        the number of inputs of their layer ("fan-in").
    classes : list of str
        The names of the classes, as they are in a file.
    about : dict
        More to write into the results: files, features, the published split.
    unit : float
        What X has to be multiplied by: images stay bytes until they are used.
    """

    kind: str
    X: Array
    Y: Array
    test: Array | None
    model: dict[str, Any]
    obs_var: float | None = None
    scaled: bool = True
    order: str = "shuffled"
    prior: str = "fan-in"
    prior_var: float = 1.0
    classes: tuple[str, ...] = ()
    about: Mapping[str, Any] = MappingProxyType({})
    unit: float = 1.0


def last(n: int, n_test: int) -> Array:
    """The mask of the last ``n_test`` of n + n_test rows."""
    return np.arange(n + n_test) >= n


def mlp(*sizes: int, activation: str = "tanh") -> dict[str, Any]:
    """The description of a multilayer perceptron."""
    return {"kind": "mlp", "sizes": list(sizes), "activation": activation}


def dense(n_in: int, n_out: int, bias: bool = False) -> dict[str, Any]:
    """The description of a linear model."""
    return {"kind": "linear", "sizes": [n_in, n_out], "bias": bias}


def check_params(name: str, given: dict[str, Any], known: list[str]) -> None:
    """Refuse a parameter that a task does not have.

    Raises
    ------
    InvalidValue
        Which lists those that it has.
    """
    for key in given:
        if key not in known:
            near = checks.near_miss(key, known)
            raise InvalidValue(f"{name} takes {', '.join(known)}, got {key!r}{near}")

"""Arguments of the estimators of ``bongref.sklearn``: methods, labels, random states, ranges.

>>> from bongref.sklearn import arguments
>>> arguments.labels_of(["no", "yes", "no"]).tolist()
['no', 'yes']
>>> arguments.encoded(np.array([2, 0]), np.array([0, 1, 2]))
array([[0., 0., 1.],
       [1., 0., 0.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..grid import PARAMETERS, Method, method
from ..linalg import Array
from ..models import ParametricModel
from ..tables import is_missing, length_of

FULL = 10**6  # outputs × P² up to which "auto" takes the full covariance: about 1 ms a row
LARGEST = 1e100  # magnitude of a number in X and y


def method_of(name: Any, params: Any, model: ParametricModel) -> Method:
    """The method of that name; its rank is min(10, P) where none is given."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidType(f"method_params must be a dict or None, got {checks.describe(params)}")
    given, P = dict(params or {}), model.n_params
    if isinstance(name, str) and name.strip().lower() == "auto":
        family = "fc" if (model.n_outputs or 1) * P**2 <= FULL and "rank" not in given else "dlr"
        name = f"bong-lin-hess-{family}"
    try:
        m = method(name, **given)
    except (InvalidType, InvalidValue) as error:  # bongref.method calls it name
        raise type(error)(str(error).replace("name must", "method must", 1)) from None
    if "rank" in m.params and "rank" not in given:
        m = method(m, rank=min(PARAMETERS["rank"][1], P))
    return m


def refuse_unknown(call: str, unknown: Mapping[str, Any]) -> None:
    """Refuse what fit and partial_fit do not take; check_estimator weights what names it."""
    for key in unknown:
        how = "settings belong in the constructor or in set_params"
        if key == "sample_weight":
            how = "rows have no weights: leave it out, or repeat a row k times for the weight k"
        raise InvalidType(f"{call} has no argument {key!r}; {how}")


def random_state_of(given: Any) -> np.random.RandomState:
    """scikit-learn's generator of this random_state."""
    try:
        made: np.random.RandomState = check_random_state(given)
        return made
    except ValueError:
        raise InvalidValue(
            "random_state must be an int in 0...2**32 - 1, a numpy.random.RandomState or None, "
            f"got {checks.describe(given)}; an int such as 0 gives the same numbers in every fit"
        ) from None


def labels_of(classes: Any) -> Array:
    """The different labels of ``classes``, sorted."""
    labels = np.asarray(classes)
    if labels.ndim != 1:
        raise InvalidType(
            "classes must be a list of all labels that will come, such as [0, 1, 2], "
            f"got {checks.describe(classes)}"
        )
    if any(is_missing(c) or c != c for c in labels.tolist()):
        raise InvalidValue(f"classes must not have a missing label, got {labels.tolist()}")
    return np.unique(labels)


def refuse_missing(y: Any) -> None:
    """Refuse a target that stands for a missing one: None, NaN or NA among objects."""
    values = np.asarray(y) if length_of(y) is not None else np.empty(0)
    for row, value in enumerate(values.ravel().tolist() if values.dtype == object else ()):
        if is_missing(value) or (np.ndim(value) == 0 and value != value):
            raise InvalidValue(
                f"y must be given in every row, got {value!r} in row {row}; "
                "leave that row out of X and y"
            )


def in_range(name: str, A: Array) -> Array:
    """Refuse numbers whose squares overflow: no standard deviation could be computed."""
    largest = float(np.abs(A).max(initial=0.0))
    if largest > LARGEST:
        raise InvalidValue(
            f"{name} must have numbers of at most {LARGEST:.0e} in magnitude, got {largest:.3g}; "
            "measure it in another unit, or look for a code that stands for a missing value"
        )
    return A


def encoded(y: Array, classes: Array) -> Array:
    """0 and 1 for two classes, (n, 1); one-hot rows for more."""
    unknown = ~np.isin(y, classes)
    if np.any(unknown):
        got = y[unknown].tolist()[0]
        raise InvalidValue(
            f"y must have labels of classes_, {classes.tolist()}, got {got!r}; "
            "give all labels to the first partial_fit(X, y, classes=...)"
        )
    at = np.searchsorted(classes, y)
    if len(classes) == 2:
        return at[:, None].astype(np.float64)
    return np.eye(len(classes))[at]

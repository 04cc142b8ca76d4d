"""The estimators of ``bongref.sklearn`` as arrays and plain data, and back.

``saved`` gives what a file keeps; ``restored`` checks it as something that comes from outside: the
settings as ``fit`` does, and what was learned as :meth:`Learner.from_saved` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InvalidType, InvalidValue
from ..linalg import Array
from ..online.learner import Learner
from .files import Damaged, keys, plain

KINDS = {"BongRegressor": ("gaussian",), "BongClassifier": ("bernoulli", "categorical")}
LARGEST_SEED = 2**32 - 1  # that numpy.random.RandomState takes


def saved(est: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays by name, and everything else as plain JSON; see :func:`bongref.save`."""
    learner = est._fitted()
    _check_settings(est, learner)
    arrays, learned = learner.to_saved()
    names = getattr(est, "feature_names_in_", None)
    data = {
        "params": plain(est.get_params(deep=False)),
        "learner": learned,
        "feature_names": None if names is None else [str(n) for n in names],
    }
    if hasattr(est, "classes_"):
        data["classes"] = plain(est.classes_)
    return arrays, data


def restored(cls: Any, arrays: Mapping[str, Array], data: Any) -> Any:
    """The inverse of :func:`saved`."""
    kinds = KINDS[cls.__name__]
    more = () if kinds == ("gaussian",) else ("classes",)
    data = keys(data, "params", "learner", "feature_names", *more)
    est = cls(**keys(data["params"], *cls().get_params(deep=False)))
    learner = est.learner_ = Learner.from_saved(arrays, data["learner"])
    if learner.kind not in kinds:
        raise Damaged(f"a {cls.__name__} has no {learner.kind} likelihood")
    _check_settings(est, learner)
    est.n_features_in_ = learner.model.spec["in_shape"][0]
    if (names := data["feature_names"]) is not None:
        est.feature_names_in_ = np.array(_names(names, est.n_features_in_), dtype=object)
    if more:
        est.classes_ = _classes(data["classes"], max(learner.model.n_outputs or 1, 2))
    return est


def _check_settings(est: Any, learner: Learner) -> None:
    """Refuse settings of a fitted estimator that set_params has changed since."""
    sizes = learner.model.spec["in_shape"][0], learner.model.n_outputs or 1
    m, model, prior_var, gamma = est._settings(*sizes)
    learner.check_settings(m, model, prior_var, gamma, est._noise_var())
    seed = est.random_state
    if not (seed is None or (isinstance(seed, (int, np.integer)) and not isinstance(seed, bool))):
        raise InvalidType(
            f"random_state must be an int or None to be saved, got {seed!r}; "
            "set_params(random_state=0) changes nothing that has been learned"
        )
    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        raise InvalidValue(f"random_state must be in 0...{LARGEST_SEED}, got {seed!r}")


def _names(names: Any, D: int) -> list[str]:
    if not isinstance(names, list) or len(names) != D or {type(n) for n in names} != {str}:
        raise Damaged(f"there must be {D} feature names")
    return names


def _classes(classes: Any, n: int) -> Array:
    """The labels: n of one kind, sorted."""
    kinds = {type(c) for c in classes} if isinstance(classes, list) else set()
    if len(kinds) != 1 or not kinds <= {bool, int, float, str} or len(classes) != n:
        raise Damaged(f"there must be {n} classes of one kind")
    labels = np.array(classes)
    if labels.dtype == object or not np.array_equal(labels, np.unique(labels)):
        raise Damaged("the classes must be sorted, and different from each other")
    return labels

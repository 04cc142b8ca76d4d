"""What the package chooses where the user does not: the prior of a model.

>>> import bongref as br
>>> from bongref import defaults
>>> m, model = br.method("bong-lin-hess-diag"), br.models.mlp([4, 8, 1])
>>> q = defaults.prior(m, model)
>>> q.mu.shape, q.var[:2]
((49,), array([0.25, 0.25]))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .grid import Method
from .linalg import Array
from .models import Model
from .states import State


def prior(m: Method, model: Model, seed: int = 0) -> State:
    """A prior by fan-in: weights and biases have the variance 1/n_in of their layer.

    The mean is ``model.init(seed)``; for a model without layers it is 0, and the variance is 1.
    """
    layout: Any = getattr(model, "layout", None)
    if getattr(model, "kind", "wrap") == "wrap" or not layout:
        return m.prior(np.zeros(model.n_params), 1.0)
    return m.prior(model.init(seed), _fan_in_variances(layout, model.n_params))  # type: ignore[attr-defined]


def _fan_in_variances(layout: Any, P: int) -> Array:
    """1/n_in for each parameter; a bias has that of the weight before it."""
    var, n_in = np.empty(P), 1
    for p in layout:
        if len(p.shape) == 4:  # a kernel (kh, kw, c_in, c_out)
            n_in = int(np.prod(p.shape[:3]))
        elif len(p.shape) == 2:
            n_in = p.shape[1]
        var[p.where] = 1 / n_in
    return var

"""What the package chooses where the user does not: the prior of a model.

>>> import bongref as br
>>> from bongref import defaults
>>> m, model = br.method("bong-lin-hess-diag"), br.models.mlp([4, 8, 1])
>>> q = defaults.prior(m, model)
>>> q.mu.shape, q.var[:2]
((49,), array([0.25, 0.25]))
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from .. import checks
from ..grid import Method, method
from ..linalg import Array
from ..models import Model
from ..states import State


def prior(m: Method | str, model: Model, seed: int = 0) -> State:
    """A prior by fan-in: a weight has the variance 1/n_in of its layer, a bias the variance 1.

    The mean is ``model.init(seed)``; for a model without layers it is 0, and all variances are 1.
    It is meant for inputs that are standardised.

    Parameters
    ----------
    m : Method or str
    model : Model
    seed : int
        Of ``model.init``.

    Returns
    -------
    FC, Diag or DLR

    Examples
    --------
    >>> import bongref as br
    >>> prior(br.method("bong-lin-hess-diag"), br.models.linear(4)).var
    array([0.25, 0.25, 0.25, 0.25])
    """
    m, layers = method(m), cast(Any, checks.model(model))
    if getattr(model, "kind", "wrap") == "wrap":
        return m.prior(np.zeros(model.n_params), 1.0)
    return m.prior(layers.init(seed), fan_in(model))


def fan_in(model: Model) -> Array:
    """Prior variances (P,): 1/n_in of its layer for a weight, 1 for a bias.

    With inputs of variance 1 every layer's outputs then have a variance of about 1 a priori. On
    the data of docs/everyday.md a smaller variance of the biases gave a larger NLPD.

    Parameters
    ----------
    model : Model

    Returns
    -------
    ndarray, shape (P,)

    Examples
    --------
    >>> import bongref as br
    >>> fan_in(br.models.linear(4, bias=True))
    array([0.25, 0.25, 0.25, 0.25, 1.  ])
    """
    var = np.ones(model.n_params)
    for p in getattr(model, "layout", []):
        if len(p.shape) > 1:  # a weight (n_out, n_in) or a kernel (kh, kw, c_in, c_out)
            var[p.where] = 1 / (p.shape[1] if len(p.shape) == 2 else math.prod(p.shape[:3]))
    return var

"""Models f(θ, x) with all parameters θ in one flat vector (P,).

The outputs are (C,) for one input and (N, C) for a batch. ``linear``, ``mlp`` and ``cnn`` are
built in; ``wrap`` takes any function f(θ, x) written with ``autograd.numpy``. Gradients and
Jacobians come from autograd in reverse mode. The flat layout of θ is documented in
``model.layout``: for each layer first the weight, then the bias, each array in C order; a dense
weight W is (n_out, n_in), f = W x + b, a convolution kernel K is (kh, kw, c_in, c_out).

What is not here: the distribution of y (``likelihoods``), and priors of θ (``Method.prior``).

>>> import numpy as np, bongref as br
>>> model = br.models.mlp([2, 8, 1], activation="tanh")
>>> theta = model.init(np.random.default_rng(0))
>>> model.n_params, model(theta, [0.5, -0.5]).shape, model.jac(theta, np.zeros((3, 2))).shape
(33, (1,), (3, 1, 33))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import checks
from ..errors import InvalidValue
from .autodiff import grad, hessian, hvp
from .layers import ACTIVATIONS
from .parametric import Param, ParametricModel
from .protocol import Model

__all__ = [
    "Model", "Param", "ParametricModel", "cnn", "grad", "hessian", "hvp", "linear", "mlp", "wrap",
]  # fmt: skip


def linear(n_in: int, n_out: int = 1, bias: bool = False) -> ParametricModel:
    """A linear model f = W x, or W x + b.

    Parameters
    ----------
    n_in : int
        The number of inputs D.
    n_out : int
        The number of outputs C; W is (C, D).
    bias : bool
        Whether there is a bias b (C,).

    Returns
    -------
    ParametricModel
        With P = C·D parameters, or C·D + C.

    Raises
    ------
    InvalidValue, InvalidType
        If a size is not an integer >= 1.

    Examples
    --------
    >>> linear(2)([1.0, -1.0], [3.0, 1.0])
    array([2.])
    """
    sizes = [checks.integer("n_in", n_in, 1), checks.integer("n_out", n_out, 1)]
    shapes: dict[str, tuple[int, ...]] = {"W0": (sizes[1], sizes[0])}
    if checks.boolean("bias", bias):
        shapes["b0"] = (sizes[1],)
    spec = {"sizes": sizes, "activation": None, "bias": bool(bias)}
    return _built("linear", (sizes[0],), sizes[1], shapes, spec)


def mlp(sizes: Sequence[int], activation: str = "tanh") -> ParametricModel:
    """A multilayer perceptron: dense layers with biases, the activation between them.

    Parameters
    ----------
    sizes : sequence of int
        [n_in, hidden..., n_out], at least two.
    activation : {"tanh", "relu", "gelu", "gelu_tanh"}
        Applied after each layer but the last; ``"gelu_tanh"`` is the tanh approximation to gelu.

    Returns
    -------
    ParametricModel

    Raises
    ------
    InvalidValue, InvalidType
        If a size is not an integer >= 1, or the activation is not one of these.

    Examples
    --------
    >>> model = mlp([21, 20, 20, 1], activation="gelu")
    >>> model.n_params
    881
    """
    widths = list(checks.integers("sizes", sizes, least=2))
    checks.choice("activation", activation, tuple(ACTIVATIONS))
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(len(widths) - 1):
        shapes |= {f"W{i}": (widths[i + 1], widths[i]), f"b{i}": (widths[i + 1],)}
    spec = {"sizes": widths, "activation": activation, "bias": True}
    return _built("mlp", (widths[0],), widths[-1], shapes, spec)


def cnn(
    in_shape: Sequence[int] = (28, 28, 1),
    n_classes: int = 10,
    features: Sequence[int] = (16, 16),
    kernel: Sequence[int] = (5, 5),
    hidden: int = 64,
    activation: str = "relu",
) -> ParametricModel:
    """A convolutional network; with the default sizes the paper's, of 57,722 parameters.

    For each entry of ``features`` a convolution (cross-correlation, SAME padding), the activation
    and 2 × 2 average pooling; flat in C order of (h, w, c); then dense, activation, dense.

    Parameters
    ----------
    in_shape : sequence of 3 int
        (h, w, c). An input is (h, w, c), flat (h·w·c,), or (h, w) when c = 1.
    n_classes : int
        The number of outputs C.
    features : sequence of int
        The channels of each convolution.
    kernel : sequence of 2 int
        (kh, kw), the same for all convolutions.
    hidden : int
        The width of the first dense layer.
    activation : {"tanh", "relu", "gelu", "gelu_tanh"}

    Returns
    -------
    ParametricModel

    Raises
    ------
    InvalidValue, InvalidType
        If a size is not an integer >= 1, or the image is too small for the poolings.

    Examples
    --------
    >>> cnn().n_params
    57722
    >>> cnn(in_shape=(4, 4, 1), n_classes=2, features=(3,), hidden=5).in_shape
    (4, 4, 1)
    """
    shape, kern = checks.integers("in_shape", in_shape, 3), checks.integers("kernel", kernel, 2)
    feats = checks.integers("features", features)
    n_classes = checks.integer("n_classes", n_classes, 1)
    hidden = checks.integer("hidden", hidden, 1)
    checks.choice("activation", activation, tuple(ACTIVATIONS))
    shapes: dict[str, tuple[int, ...]] = {}
    h, w, c = shape
    for i, c_out in enumerate(feats):
        shapes |= {f"K{i}": (*kern, c, c_out), f"b{i}": (c_out,)}
        h, w, c = h // 2, w // 2, c_out
    if h < 1 or w < 1:
        least = 2 ** len(feats)
        raise InvalidValue(
            f"in_shape must have height and width >= {least} for {len(feats)} poolings, got {shape}"
        )
    n = len(feats)
    shapes |= {f"W{n}": (hidden, h * w * c), f"b{n}": (hidden,)}
    shapes |= {f"W{n + 1}": (n_classes, hidden), f"b{n + 1}": (n_classes,)}
    spec = {
        "features": list(feats),
        "kernel": list(kern),
        "hidden": hidden,
        "activation": activation,
        "bias": True,
        "padding": "same",
        "pool": "average 2x2 stride 2",
        "flatten": "C order of (h, w, c)",
    }
    return _built("cnn", shape, n_classes, shapes, spec)


def wrap(
    f: Callable[..., Any],
    n_params: int,
    n_outputs: int | None = None,
    jac: Callable[..., Any] | None = None,
    in_shape: Sequence[int] | None = None,
) -> ParametricModel:
    """Any function f(θ, x) as a model.

    Parameters
    ----------
    f : callable
        f(theta, x) of one input, with a result of shape (C,), or a scalar for C = 1. Written with
        ``autograd.numpy``, unless ``jac`` is given.
    n_params : int
        P.
    n_outputs : int, optional
        C; without it the model is called to find out.
    jac : callable, optional
        jac(theta, x), shape (C, P).
    in_shape : sequence of int, optional
        The shape of one input. Without it an x of at most one dimension is one input, and an x of
        two dimensions is a batch of rows.

    Returns
    -------
    ParametricModel

    Raises
    ------
    InvalidType
        If f or jac cannot be called with two arguments.

    Examples
    --------
    >>> import autograd.numpy as anp
    >>> model = wrap(lambda theta, x: theta[0] * anp.exp(-theta[1] * x), n_params=2)
    >>> model.jac([2.0, 0.0], 3.0)
    array([[ 1., -6.]])
    """
    checks.function("f", f, "theta, x")
    if jac is not None:
        checks.function("jac", jac, "theta, x")
    P = checks.integer("n_params", n_params, 1)
    C = None if n_outputs is None else checks.integer("n_outputs", n_outputs, 1)
    shape = None if in_shape is None else checks.integers("in_shape", in_shape, least=0)
    spec = {"sizes": None, "activation": None, "bias": None, "layout": _layout({"theta": (P,)})}
    return ParametricModel("wrap", P, C, shape, spec, f, jac)


def _layout(shapes: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    stops = np.cumsum([math.prod(s) for s in shapes.values()]).tolist()
    return [
        {"name": name, "shape": list(s), "start": stop - math.prod(s), "stop": stop}
        for (name, s), stop in zip(shapes.items(), stops, strict=True)
    ]


def _built(
    kind: str,
    in_shape: tuple[int, ...],
    n_out: int,
    shapes: dict[str, tuple[int, ...]],
    spec: dict[str, Any],
) -> ParametricModel:
    rest = {"in_shape": list(in_shape), "n_outputs": n_out, "layout": _layout(shapes)}
    P = sum(math.prod(s) for s in shapes.values())
    return ParametricModel(kind, P, n_out, in_shape, {**spec, **rest})

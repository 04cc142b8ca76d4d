"""Mistakes in the network: another order of θ, activation, pooling, padding, bias, derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...linalg import Array
from .. import pipeline
from ..network import activation
from ..pipeline import Observation, Problem
from .combinators import ProblemChange, network, slope
from .table import (
    BOTH,
    HESSIAN,
    Mistake,
    biased,
    both,
    convolved,
    networked,
    other_activation,
    row_of,
    with_activation,
    with_hess,
)

problem = row_of("problem")
Model = dict[str, Any]


# --- the order of θ -------------------------------------------------------------------------------


def reordered(order: Callable[[Model], Array]) -> ProblemChange:
    """θ read in another order: entry k of the wrong reading is entry order[k] of the right one."""

    def look(problem: Problem, theta: Array) -> list[Observation]:
        p = order(problem.model)
        back = np.argsort(p)

        def change(one: Observation) -> Observation:
            second = lambda: one.second()[:, back][:, :, back]
            return one._replace(J=one.J[:, back], second=second)

        return [change(one) for one in pipeline.observe(problem, theta[p])]

    return lambda right: lambda problem: problem._replace(observe=look)


def arrays(model: Model) -> list[Array]:
    """The positions in θ of the entries of each array of the model."""
    return [np.arange(b["start"], b["stop"]).reshape(b["shape"]) for b in model["layout"]]


def read_as(read: Callable[[Array], Array], ndim: int) -> ProblemChange:
    """The arrays with so many dimensions read in another way: 2 for weights, 4 for kernels."""

    def order(model: Model) -> Array:
        return np.concatenate([(read(b) if b.ndim == ndim else b).ravel() for b in arrays(model)])

    return reordered(order)


def _placed(model: Model, sequence: list[int]) -> Array:
    """θ with its arrays in this sequence."""
    every, starts, at = arrays(model), {}, 0
    for k in sequence:
        starts[k] = at
        at += every[k].size
    return np.concatenate([np.arange(starts[k], starts[k] + b.size) for k, b in enumerate(every)])


def biases_first(model: Model) -> Array:
    """The bias of each layer before its weight."""
    every, sequence = arrays(model), list[int]()
    for k in range(0, len(every), 2):
        biased = k + 1 < len(every) and every[k + 1].ndim == 1
        sequence += [k + 1, k] if biased else [k]
    return _placed(model, sequence)


def biases_last(model: Model) -> Array:
    """All biases after all weights."""
    every = arrays(model)
    return _placed(model, sorted(range(len(every)), key=lambda k: (every[k].ndim == 1, k)))


def channels_first(model: Model) -> Array:
    """The weight after the convolutions read for an image flattened as (c, h, w)."""
    out, channels = [], 0
    h, w = model["in_shape"][:2]
    for b in arrays(model):
        if b.ndim == 4:
            h, w, channels = h // 2, w // 2, b.shape[-1]
        elif b.ndim == 2 and channels:
            b, channels = b.reshape(len(b), channels, h, w).transpose(0, 2, 3, 1), 0
        out.append(b.reshape(-1))
    return np.concatenate(out)


# --- activations and pooling ----------------------------------------------------------------------


def activated(name: str | None) -> ProblemChange:
    """Another activation."""
    return network(activation=lambda right, z: activation(name, z))


def slope_of(other: str) -> ProblemChange:
    """The derivatives of another activation."""
    return network(activation=lambda name, z: (activation(name, z)[0], *activation(other, z)[1:]))


def largest(z: Array) -> Array:
    """Weights of max pooling."""
    weights: Array = (z == z.max(axis=(1, 3), keepdims=True)).astype(float)
    return weights


def corner(z: Array) -> Array:
    """Weights of taking every other pixel."""
    out = np.zeros(z.shape)
    out[:, 0, :, 0] = 1
    return out


TANH, GELU = with_activation("tanh"), with_activation("gelu", "gelu_tanh")
PADS = {"edge": "the pixel at the edge", "reflect": "reflection", "wrap": "the other side"}
ACTIVATIONS = (
    *("tanh", "relu", "gelu", "gelu_tanh", "sigmoid", "silu", "softplus", "elu"),
    *("lecun_tanh", "quick_gelu", "softsign"),
)

# fmt: off
NETWORKS: tuple[Mistake, ...] = (
    problem("theta-transposed",
        "weights read as (n_in, n_out), or in Fortran order, in place of (n_out, n_in)",
        BOTH, read_as(lambda b: b.reshape(b.shape[::-1]).T, 2)),
    problem("theta-biases-first", "the bias of each layer read before its weight",
        BOTH, reordered(biases_first)),
    problem("theta-biases-last", "all biases read after all weights", BOTH, reordered(biases_last)),
    problem("kernel-flipped", "a flipped kernel (a convolution in place of the cross-correlation)",
        BOTH, read_as(lambda b: b[::-1, ::-1], 4), convolved),
    problem("kernel-transposed", "a kernel with its height and width exchanged",
        BOTH,
        read_as(lambda b: b.reshape(b.shape[1], b.shape[0], *b.shape[2:]).transpose(1, 0, 2, 3), 4),
        convolved),
    problem("kernel-channels-first",
        "a kernel read as (c_out, c_in, kh, kw) in place of (kh, kw, c_in, c_out)",
        BOTH,
        read_as(lambda b: b.reshape(b.shape[3], b.shape[2], *b.shape[:2]).transpose(2, 3, 1, 0), 4),
        convolved),
    problem("kernel-channels-swapped",
        "a kernel read as (kh, kw, c_out, c_in) in place of (kh, kw, c_in, c_out)",
        BOTH,
        read_as(lambda b: b.reshape(*b.shape[:2], b.shape[3], b.shape[2]).transpose(0, 1, 3, 2), 4),
        convolved),
    problem("kernel-fortran", "a kernel in Fortran order",
        BOTH, read_as(lambda b: b.reshape(-1).reshape(b.shape, order="F"), 4), convolved),
    problem("flatten-channels-first", "channels first, (c, h, w), where the image is flattened",
        BOTH, reordered(channels_first), convolved),
    problem("pool-sum", "a pooling that sums in place of averaging",
        BOTH, network(pool=np.ones_like), convolved),
    problem("pool-max", "max pooling in place of average pooling",
        BOTH, network(pool=largest), convolved),
    problem("pool-corner", "every other pixel in place of the average over 2 x 2",
        BOTH, network(pool=corner), convolved),
    *(
        problem(f"pad-{pad}", f"padding by {words} in place of zeros",
            BOTH, network(pad=pad), convolved)
        for pad, words in PADS.items()
    ),
    problem("pool-overlapping", "pooling windows that overlap (stride 1 in place of 2)",
        BOTH, network(stride=1), convolved),
    problem("pool-before-activation", "the pooling before the activation",
        BOTH, network(pool_first=True), convolved),
    problem("bias-missing-last", "no bias in the last layer",
        BOTH, network(last_bias=0.0), biased),
    problem("bias-missing", "no bias in the outputs (its derivative is there)",
        BOTH, network(bias=0.0), biased),
    problem("bias-missing-all", "no bias", BOTH, network(bias=0.0, bias_slope=0.0), biased),
    problem("bias-slope-missing", "no derivative in the biases",
        BOTH, network(bias_slope=0.0), biased),
    problem("bias-sign", "the sign of the biases",
        BOTH, network(bias=-1.0, bias_slope=-1.0), biased),
    problem("activation-last", "an activation after the last layer too",
        BOTH, network(last=True), networked),
    *(
        problem(f"activation-{name}", f"the activation {name}",
            BOTH, activated(name),
            other_activation(name))
        for name in ACTIVATIONS
    ),
    problem("activation-none", "no activation",
        BOTH, activated(None), networked),
    problem("slope-missing", "the derivative of the activation left out",
        BOTH, slope_of("identity"), networked),
    *(
        problem(f"slope-{name}", f"the derivative of {name} in place of the activation's own",
            BOTH, slope_of(name), other_activation(name))
        for name in ("tanh", "relu", "gelu", "gelu_tanh", "sigmoid")
    ),
    problem("slope-at-output", "the derivative of the activation at its value s(z), not at z",
        BOTH, slope(lambda name, z, s, s1: activation(name, s)[1]), networked),
    problem("slope-1-s", "1 - s in place of 1 - s^2 for the derivative of tanh",
        BOTH, slope(lambda name, z, s, s1: 1 - s), TANH),
    problem("slope-s-1-s", "s (1 - s) in place of 1 - s^2 for the derivative of tanh",
        BOTH, slope(lambda name, z, s, s1: s * (1 - s)), TANH),
    problem("slope-plus", "1 + s^2 in place of 1 - s^2 for the derivative of tanh",
        BOTH, slope(lambda name, z, s, s1: 1 + s**2), TANH),
    problem("slope-half-product", "Phi(z) alone for the derivative of gelu, without z phi(z)",
        BOTH, slope(lambda name, z, s, s1: np.where(z == 0, 0.5, s / z)),
        GELU),
    problem("slope-no-z", "Phi(z) + phi(z) for the derivative of gelu, without the factor z",
        BOTH,
        slope(lambda name, z, s, s1: s1 + (1 - z) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)),
        GELU),
    problem("curvature-missing", "no second derivative of the activation in the Hessian",
        HESSIAN, slope(lambda name, z, s, s1: s1, 0.0), both(networked, with_hess("mc-hess"))),
)
# fmt: on

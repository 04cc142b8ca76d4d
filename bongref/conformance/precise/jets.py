"""Values, Jacobians and Hessians of the models, carried forward through the layers by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp

from ...errors import InvalidValue
from ...linalg import Array
from .numbers import exactly, working, zeros


class Jet(NamedTuple):
    """n functions of θ at one θ: values (n,), Jacobian (n, P) and Hessians (n, P, P).

    J is None for constants, H is None where it is not asked for.
    """

    value: Array
    J: Any = None
    H: Any = None


@working
def jet(model: Mapping[str, Any], theta: Any, x: Any, order: int = 2) -> Jet:
    """Outputs, Jacobian and Hessians of a model at one input, up to the derivative ``order``."""
    theta, h = exactly(theta), Jet(exactly(x).reshape(-1))
    start = {p["name"]: p["start"] for p in model["layout"]}
    if len(theta) != model["layout"][-1]["stop"] or len(h.value) != math.prod(model["in_shape"]):
        raise InvalidValue(
            f"theta of {len(theta)} or x of {len(h.value)} numbers does not fit the model"
        )
    act = None if model["activation"] is None else ACTIVATIONS[model["activation"]]
    n = 0
    if model["kind"] == "cnn":
        shape = tuple(model["in_shape"])
        for n, c_out in enumerate(model["features"], start=1):
            h = _affine(
                h,
                theta,
                _convolution(
                    shape, tuple(model["kernel"]), c_out, start[f"K{n - 1}"], start[f"b{n - 1}"]
                ),
                order,
            )
            h, shape = _pool(_elementwise(h, act), (*shape[:2], c_out))
        widths = [len(h.value), model["hidden"], model["n_outputs"]]
    elif model["kind"] in ("linear", "mlp"):
        widths = model["sizes"]
    else:
        raise InvalidValue(f"model['kind'] must be linear, mlp or cnn, got {model['kind']!r}")
    for i, (n_in, n_out) in enumerate(pairwise(widths)):
        h = _affine(
            h, theta, _dense(n_in, n_out, start[f"W{n + i}"], start.get(f"b{n + i}")), order
        )
        if i < len(widths) - 2:
            h = _elementwise(h, act)
    return h


Unit = tuple[
    list[tuple[int, int]], int | None
]  # one output: its pairs (index of the weight in θ, index of the input), index of the bias


def _dense(n_in: int, n_out: int, weight: int, bias: int | None) -> list[Unit]:
    """W h + b, W of shape (n_out, n_in) in C order from theta[weight]."""
    return [
        ([(weight + i * n_in + j, j) for j in range(n_in)], None if bias is None else bias + i)
        for i in range(n_out)
    ]


def _convolution(
    shape: tuple[int, ...], kernel: tuple[int, ...], c_out: int, weight: int, bias: int
) -> list[Unit]:
    """Cross-correlation, padded with (k − 1)//2 zeros before and the rest after.

    The kernel is (kh, kw, c_in, c_out), the input (h, w, c_in).
    """
    (h, w, c_in), (kh, kw) = shape, kernel
    units: list[Unit] = []
    for i, j, o in np.ndindex(h, w, c_out):
        pairs = []
        for a, b, c in np.ndindex(kh, kw, c_in):
            row, col = i + a - (kh - 1) // 2, j + b - (kw - 1) // 2
            if 0 <= row < h and 0 <= col < w:
                pairs.append(
                    (weight + ((a * kw + b) * c_in + c) * c_out + o, (row * w + col) * c_in + c)
                )
        units.append((pairs, bias + o))
    return units


def _affine(h: Jet, theta: Array, units: list[Unit], order: int) -> Jet:
    """z_i = Σ θ_k h_j + θ_b over the pairs (k, j) of unit i.

    ∂²(θ_k h_j) = θ_k ∂²h_j + e_k ∂h_jᵀ + ∂h_j e_kᵀ.
    """
    P, n = len(theta), len(units)
    value, J, H = (
        zeros((n,)),
        zeros((n, P)) if order > 0 else None,
        zeros((n, P, P)) if order > 1 else None,
    )
    for i, (pairs, bias) in enumerate(units):
        if bias is not None:
            value[i] += theta[bias]
            if J is not None:
                J[i, bias] += 1
        for k, j in pairs:
            value[i] += theta[k] * h.value[j]
            if J is not None:
                J[i, k] += h.value[j]
                if h.J is not None:
                    J[i] += theta[k] * h.J[j]
            if H is not None and h.J is not None:
                H[i, k, :] += h.J[j]
                H[i, :, k] += h.J[j]
                if h.H is not None and h.H[j].any():
                    H[i] += theta[k] * h.H[j]
    return Jet(value, J, H)


def _elementwise(z: Jet, act: Any) -> Jet:
    """act of each entry: J = act′ ∂z, H = act″ ∂z ∂zᵀ + act′ ∂²z."""
    a, d1, d2 = (np.array(v, dtype=object) for v in zip(*(act(v) for v in z.value), strict=True))
    J = None if z.J is None else d1[:, None] * z.J
    H = (
        None
        if z.H is None
        else np.stack([d2[i] * np.outer(z.J[i], z.J[i]) + d1[i] * z.H[i] for i in range(len(a))])
    )
    return Jet(a, J, H)


def _pool(z: Jet, shape: tuple[int, ...]) -> tuple[Jet, tuple[int, ...]]:
    """2 × 2 averages with stride 2; an odd last row or column is left out."""
    h, w, c = shape
    at = np.arange(h * w * c).reshape(shape)[: h // 2 * 2, : w // 2 * 2]
    four = at.reshape(h // 2, 2, w // 2, 2, c).transpose(1, 3, 0, 2, 4).reshape(4, -1)
    parts: list[Any] = [None if part is None else sum(part[i] for i in four) / 4 for part in z]
    return Jet(*parts), (h // 2, w // 2, c)


def _tanh(x: Any) -> tuple[Any, Any, Any]:
    e = mp.exp(-2 * abs(x))
    t, sech2 = mp.tanh(x), 4 * e / (1 + e) ** 2
    return t, sech2, -2 * t * sech2


def _relu(x: Any) -> tuple[Any, Any, Any]:
    return (x, mp.one, mp.zero) if x > 0 else (mp.zero, mp.zero, mp.zero)


def _gelu(x: Any) -> tuple[Any, Any, Any]:
    """x Φ(x), Φ + x φ, (2 − x²) φ."""
    Phi, phi = mp.erfc(-x / mp.sqrt(2)) / 2, mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
    return x * Phi, Phi + x * phi, (2 - x * x) * phi


def _gelu_tanh(x: Any) -> tuple[Any, Any, Any]:
    """x s, s = (1 + tanh u)/2 = 1/(1 + e^{−2u}), u = √(2/π) (x + 0.044715 x³).

    s′ = 2 s (1 − s) u′.
    """
    c, k = mp.sqrt(2 / mp.pi), mp.mpf("0.044715")
    u, u1, u2 = c * (x + k * x**3), c * (1 + 3 * k * x * x), 6 * c * k * x
    e = mp.exp(-2 * abs(u))
    s, v = (1 if u > 0 else e) / (1 + e), e / (1 + e) ** 2  # s and s(1 − s)
    s1 = 2 * u1 * v
    s2 = 2 * u2 * v - 4 * u1 * u1 * v * mp.tanh(u)
    return x * s, s + x * s1, 2 * s1 + x * s2


ACTIVATIONS: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
    "tanh": _tanh,
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}

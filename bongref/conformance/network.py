"""A network with its derivatives written out, so that each part can be replaced by a wrong one.

The outputs, their Jacobian and their second derivatives are carried forward from layer to layer:
a wrong derivative beside a right value, which automatic differentiation cannot produce, is one
replaced field of :class:`Network`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..linalg import Array
from ..special import ndtr

Activation = Callable[[str | None, Array], tuple[Array, Array, Array]]


def activation(name: str | None, z: Array) -> tuple[Array, Array, Array]:
    """Value, first and second derivative of an activation; an unknown name is the identity."""
    if name == "tanh":
        t = np.tanh(z)
        return t, 1 - t**2, -2 * t * (1 - t**2)
    if name in ("sigmoid", "silu"):
        p = 1 / (1 + np.exp(-z))
        s, s1, s2 = p, p * (1 - p), p * (1 - p) * (1 - 2 * p)
        return (s, s1, s2) if name == "sigmoid" else (z * s, s + z * s1, 2 * s1 + z * s2)
    if name == "softplus":
        p = 1 / (1 + np.exp(-z))
        return np.logaddexp(0, z), p, p * (1 - p)
    if name == "lecun_tanh":  # 1.7159 tanh(2 z / 3)
        t, a, b = np.tanh(2 * z / 3), 1.7159, 2 / 3
        return a * t, a * b * (1 - t**2), -2 * a * b**2 * t * (1 - t**2)
    if name == "quick_gelu":
        k = 1.702
        p = 1 / (1 + np.exp(-k * z))
        p1 = p * (1 - p)
        return z * p, p + k * z * p1, 2 * k * p1 + k**2 * z * p1 * (1 - 2 * p)
    if name == "softsign":
        d = 1 + np.abs(z)
        return z / d, 1 / d**2, -2 * np.sign(z) / d**3
    if name == "relu":
        on = (z > 0).astype(float)
        return z * on, on, 0 * z
    if name == "elu":
        positive, e = z > 0, np.exp(np.minimum(z, 0))
        return np.where(positive, z, e - 1), np.where(positive, 1.0, e), np.where(positive, 0.0, e)
    if name == "gelu":
        Phi, phi = ndtr(z), np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return z * Phi, Phi + z * phi, phi * (2 - z**2)
    if name == "gelu_tanh":
        c, k = np.sqrt(2 / np.pi), 0.044715
        t, u1, u2 = np.tanh(c * (z + k * z**3)), c * (1 + 3 * k * z**2), 6 * c * k * z
        t1, t2 = (1 - t**2) * u1, (1 - t**2) * (u2 - 2 * t * u1**2)
        return z * (1 + t) / 2, (1 + t) / 2 + z * t1 / 2, t1 + z * t2 / 2
    return z, np.ones_like(z), 0 * z


def average(z: Array) -> Array:
    """Weights of 2 × 2 average pooling over z of shape (h, 2, w, 2, c)."""
    return np.full(z.shape, 0.25)


class Network(NamedTuple):
    """A linear model, an MLP or a CNN, from its description; a mistake replaces one field."""

    activation: Activation = activation
    last: bool = False  # an activation after the last layer too
    bias: float = 1.0  # factor of the bias in the outputs
    bias_slope: float = 1.0  # and in their derivative
    pool: Callable[[Array], Array] = average
    pad: str = "constant"
    last_bias: float = 1.0  # factor of the bias of the last layer, in the outputs and derivative
    pool_first: bool = False  # the pooling before the activation
    stride: int = 2  # of the windows of the pooling

    def outputs(
        self, model: dict[str, Any], theta: Array, x: Array, second: bool = False
    ) -> tuple[Array, Array, Array]:
        """Outputs (C,), Jacobian (C, P) and, with ``second``, second derivatives (C, P, P)."""
        P, a = len(theta), np.ravel(x)
        J, H = np.zeros((len(a), P)), np.zeros((len(a), P, P) if second else (len(a), 1, 1))
        blocks, shape = {b["name"]: b for b in model["layout"]}, tuple(model["in_shape"])
        weights = [b for b in model["layout"] if b["name"][0] in "WK"]
        for k, block in enumerate(weights):
            w = slice(block["start"], block["stop"])
            B = _bilinear(tuple(block["shape"]), shape, self.pad)  # z = B w a
            M, D = np.einsum("okj,k->oj", B, theta[w]), np.einsum("okj,j->ok", B, a)
            z, Jz = M @ a, M @ J
            Jz[:, w] += D
            if second:
                H = np.tensordot(M, H, 1)
                mixed = np.tensordot(B, J, 1)
                H[:, w, :] += mixed
                H[:, :, w] += mixed.transpose(0, 2, 1)
            bias = blocks.get(f"b{k}")
            if bias is not None:
                at = bias["start"] + np.arange(len(z)) % (bias["stop"] - bias["start"])
                last = self.last_bias if k == len(weights) - 1 else 1.0
                z = z + last * self.bias * theta[at]
                Jz[np.arange(len(z)), at] += last * self.bias_slope
            if self.pool_first and len(block["shape"]) == 4:
                A, shape = self._pooling(z, (*shape[:2], block["shape"][-1]))
                z, Jz, H = A @ z, A @ Jz, np.tensordot(A, H, 1) if second else H
            if k < len(weights) - 1 or self.last:
                s, s1, s2 = self.activation(model["activation"], z)
                if second:
                    H = s2[:, None, None] * Jz[:, :, None] * Jz[:, None, :] + s1[:, None, None] * H
                z, Jz = s, s1[:, None] * Jz
            if len(block["shape"]) == 4 and not self.pool_first:
                A, shape = self._pooling(z, (*shape[:2], block["shape"][-1]))
                z, Jz, H = A @ z, A @ Jz, np.tensordot(A, H, 1) if second else H
            a, J = z, Jz
        return a, J, H

    def _pooling(self, z: Array, shape: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
        """Matrix of the pooling of z, an image of this shape, and the shape after it."""
        h, w, c = shape
        grid, after = (h // 2, 2, w // 2, 2, c), (h // 2, w // 2, c)
        if self.stride != 2:
            A = np.zeros((*after, h, w, c))
            for i, j, p, q, m in np.ndindex(h // 2, w // 2, 2, 2, c):
                A[i, j, m, i * self.stride + p, j * self.stride + q, m] = 0.25
            return A.reshape(-1, z.size), after
        weight = self.pool(z.reshape(grid)).reshape(-1)
        where = np.arange(z.size // 4).reshape(h // 2, 1, w // 2, 1, c)
        A = np.zeros((z.size // 4, z.size))
        A[np.broadcast_to(where, grid).reshape(-1), np.arange(z.size)] = weight
        return A, after


@lru_cache(maxsize=64)
def _bilinear(kernel: tuple[int, ...], shape: tuple[int, ...], pad: str) -> Array:
    """B (n_out, n_weights, n_in) of a layer z = B w a; a convolution keeps the input's size."""
    if len(kernel) == 2:
        n, m = kernel
        products: Array = np.einsum("op,ij->opij", np.eye(n), np.eye(m)).reshape(n, n * m, m)
        return products
    (h, w, c), (kh, kw, _, n) = shape, kernel
    before = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in (kh, kw)]
    numbers: Any = np.arange(1, h * w * c + 1).reshape(shape)  # 0 stands for the padding
    padded = np.pad(numbers, (*before, (0, 0)), pad)  # type: ignore[call-overload]
    B = np.zeros((h, w, n, kh, kw, c, n, h * w * c + 1))
    for i, j, o, p, q, m in np.ndindex(h, w, n, kh, kw, c):
        B[i, j, o, p, q, m, o, padded[i + p, j + q, m]] += 1
    return B.reshape(h * w * n, kh * kw * c * n, -1)[:, :, 1:]

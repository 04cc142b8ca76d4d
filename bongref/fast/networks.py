"""Networks in machine code: outputs, and reverse sweeps for several cotangents at once. Twins of :mod:`bongref.models`.

θ is the flat vector of the model's layout. A sweep takes cotangents V (K, C) and returns the rows V_k ∂f/∂θ (K, P): with V = I the
Jacobian, with the columns of a factor of R the matrix Sᵀ of G = −S Sᵀ, with one row ∂log p/∂f the gradient.

    net = describe(model); work = workspace(net, K)
    forward(net, theta, x, work, o)            # o (C,) = f(θ, x)
    sweep(net, theta, x, work, V, out)         # out (K, P), after forward at the same θ and x

``forward`` and ``sweep`` choose by the type of ``net``; inside a kernel the choice is made when it is compiled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ..models import Model
from .elementary import erfcx, exp, tanh
from .jit import inlined

ACTIVATIONS: dict[str | None, int] = {None: 0, "tanh": 1, "relu": 2, "gelu": 3, "gelu_tanh": 4}
ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
ROOT_HALF = math.sqrt(0.5)
ROOT_2PI = math.sqrt(2 * math.pi)


# --- activations -----------------------------------------------------------------------------------------------------------


@inlined
def activate(code, z, h, d):
    """h = act(z) and d = act'(z), entry by entry. Twin of models.ACTIVATIONS and their derivatives."""
    if code == 1:
        for i in range(len(z)):
            x = z[i]
            e = exp(-2.0 * abs(x))
            d[i] = 4.0 * e / ((1.0 + e) * (1.0 + e))
            h[i] = tanh(x, e)
    elif code == 2:
        for i in range(len(z)):
            x = z[i]
            d[i] = 1.0 if x > 0.0 else 0.0
            h[i] = x if x > 0.0 or x != x else 0.0
    elif code == 3:
        for i in range(len(z)):
            x = z[i]
            e = exp(-0.5 * x * x)
            t = ROOT_HALF * abs(x)
            tail = 0.5 * erfcx(t) * e
            Phi = tail if x < 0.0 else 1.0 - tail
            h[i] = x * Phi
            d[i] = Phi + x * e / ROOT_2PI
    else:
        for i in range(len(z)):
            x = z[i]
            u = ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)
            e = exp(-2.0 * abs(u))
            t = tanh(u, e)
            sech2 = 4.0 * e / ((1.0 + e) * (1.0 + e))
            h[i] = 0.5 * x * (1.0 + t)
            d[i] = 0.5 * (1.0 + t) + 0.5 * x * sech2 * ROOT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x * x)


# --- linear models and MLPs --------------------------------------------------------------------------------------------------


class Dense(NamedTuple):
    """Dense layers of the given sizes."""

    sizes: Any  # (n_layers + 1,) int64
    code: int  # of the activation
    bias: int  # 1 or 0
    n_outputs: int


class DenseWork(NamedTuple):
    """The input and the output of every layer one after the other, the derivatives of the activations, and two cotangents."""

    H: Any
    D: Any
    delta: Any
    other: Any


def dense_description(model: Model) -> Dense:
    """A linear model or an MLP as numbers."""
    sizes = np.array(model.spec["sizes"], dtype=np.int64)
    return Dense(sizes, ACTIVATIONS[model.spec["activation"]], int(model.spec["bias"]), int(sizes[-1]))


def dense_workspace(net: Dense) -> DenseWork:
    total, widest = int(net.sizes.sum()), int(net.sizes.max())
    return DenseWork(np.empty(total), np.empty(total), np.empty(widest), np.empty(widest))


@inlined
def affine(W, h, z):
    """z = W h for a flat W of shape (len(z), len(h)). Twin of numpy.matmul.

    Eight rows at a time: with fewer the compiler would take so many columns at once that short rows are mostly remainder.
    """
    n, m = len(h), len(z)
    for i in range(0, m - m % 8, 8):
        a = i * n
        z0, z1, z2, z3, z4, z5, z6, z7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(n):
            k, x = a + j, h[j]
            z0 += W[k] * x
            z1 += W[k + n] * x
            z2 += W[k + 2 * n] * x
            z3 += W[k + 3 * n] * x
            z4 += W[k + 4 * n] * x
            z5 += W[k + 5 * n] * x
            z6 += W[k + 6 * n] * x
            z7 += W[k + 7 * n] * x
        z[i], z[i + 1], z[i + 2], z[i + 3], z[i + 4], z[i + 5], z[i + 6], z[i + 7] = z0, z1, z2, z3, z4, z5, z6, z7
    for i in range(m - m % 8, m - m % 4, 4):
        a = i * n
        z0, z1, z2, z3 = 0.0, 0.0, 0.0, 0.0
        for j in range(n):
            k, x = a + j, h[j]
            z0 += W[k] * x
            z1 += W[k + n] * x
            z2 += W[k + 2 * n] * x
            z3 += W[k + 3 * n] * x
        z[i], z[i + 1], z[i + 2], z[i + 3] = z0, z1, z2, z3
    for i in range(m - m % 4, m):
        total = 0.0
        for j in range(n):
            total += W[i * n + j] * h[j]
        z[i] = total


@inlined
def affine_transposed(W, delta, other):
    """other = Wᵀ delta for a flat W of shape (len(delta), len(other)), rows as in :func:`affine`. Twin of numpy.matmul."""
    n, m = len(other), len(delta)
    for j in range(n):
        other[j] = 0.0
    for i in range(0, m - m % 8, 8):
        a = i * n
        v0, v1, v2, v3, v4, v5, v6, v7 = (
            delta[i], delta[i + 1], delta[i + 2], delta[i + 3], delta[i + 4], delta[i + 5], delta[i + 6], delta[i + 7]
        )  # fmt: skip
        for j in range(n):
            k = a + j
            four = v0 * W[k] + v1 * W[k + n] + v2 * W[k + 2 * n] + v3 * W[k + 3 * n]
            other[j] += four + v4 * W[k + 4 * n] + v5 * W[k + 5 * n] + v6 * W[k + 6 * n] + v7 * W[k + 7 * n]
    for i in range(m - m % 8, m - m % 4, 4):
        a = i * n
        v0, v1, v2, v3 = delta[i], delta[i + 1], delta[i + 2], delta[i + 3]
        for j in range(n):
            k = a + j
            other[j] += v0 * W[k] + v1 * W[k + n] + v2 * W[k + 2 * n] + v3 * W[k + 3 * n]
    for i in range(m - m % 4, m):
        v = delta[i]
        for j in range(n):
            other[j] += v * W[i * n + j]


@inlined
def outer(delta, h, to):
    """to = delta hᵀ, flat. Twin of numpy.outer."""
    n = len(h)
    for i in range(len(delta)):
        v = delta[i]
        for j in range(n):
            to[i * n + j] = v * h[j]


@inlined
def dense_forward(net, theta, x, work, o):
    """o = f(θ, x). Twin of models._dense_layers."""
    sizes, H = net.sizes, work.H
    n_layers = len(sizes) - 1
    at, here, n_in = 0, 0, sizes[0]
    for j in range(len(x)):
        H[j] = x[j]
    for layer in range(n_layers):
        n_out = sizes[layer + 1]
        there = here + n_in
        b = at + n_out * n_in
        z = work.delta[:n_out] if layer < n_layers - 1 else o
        affine(theta[at:b], H[here:there], z)
        if net.bias:
            bias = theta[b : b + n_out]
            for i in range(len(z)):
                z[i] += bias[i]
        if layer < n_layers - 1:
            activate(net.code, z, H[there : there + n_out], work.D[there : there + n_out])
        at = b + (n_out if net.bias else 0)
        here, n_in = there, n_out


@inlined
def dense_sweep(net, theta, x, work, V, out):
    """out (K, P) = the rows V_k ∂f/∂θ. Twin of Model.vjp."""
    sizes, H = net.sizes, work.H
    n_layers = len(sizes) - 1
    for k in range(V.shape[0]):
        line = out[k]
        n_out = sizes[n_layers]
        delta, other = work.delta[:n_out], work.other
        for i in range(len(delta)):
            delta[i] = V[k, i]
        at, there = len(line), len(H) - n_out
        for layer in range(n_layers - 1, -1, -1):
            n_in = sizes[layer]
            here = there - n_in
            if net.bias:
                at -= n_out
                to = line[at : at + n_out]
                for i in range(len(delta)):
                    to[i] = delta[i]
            at -= n_out * n_in
            outer(delta, H[here:there], line[at : at + n_out * n_in])
            if layer > 0:
                other = work.other[:n_in]
                affine_transposed(theta[at : at + n_out * n_in], delta, other)
                delta, slope = work.delta[:n_in], work.D[here:there]
                for j in range(len(delta)):
                    delta[j] = other[j] * slope[j]
            there, n_out = here, n_in


# --- either kind -------------------------------------------------------------------------------------------------------------


def describe(model: Model) -> Any:
    """The network of a built-in model as numbers: Dense or Conv."""
    if model.kind == "cnn":
        from .convolution import conv_description

        return conv_description(model)
    return dense_description(model)


def workspace(net: Any, K: int) -> Any:
    """Buffers for a forward pass and sweeps of at most K cotangents."""
    if isinstance(net, Dense):
        return dense_workspace(net)
    from .convolution import conv_workspace

    return conv_workspace(net, K)


def fellow(net: Any, work: Any, K: int) -> Any:
    """Buffers for sweeps after a forward pass that another thread took in ``work``."""
    shared = ("H", "D") if isinstance(net, Dense) else ("X", "D", "S", "h", "d")
    return workspace(net, K)._replace(**{name: getattr(work, name) for name in shared})


def forward(net, theta, x, work, o):
    """o (C,) = f(θ, x)."""
    if isinstance(net, Dense):
        return dense_forward(net, theta, x, work, o)
    from .convolution import conv_forward

    return conv_forward(net, theta, x, work, o)


def sweep(net, theta, x, work, V, out):
    """out (K, P) = the rows V_k ∂f/∂θ, after :func:`forward`."""
    if isinstance(net, Dense):
        return dense_sweep(net, theta, x, work, V, out)
    from .convolution import conv_sweep

    return conv_sweep(net, theta, x, work, V, out)


def is_dense(net) -> bool:
    """Whether this is the type of a Dense, while a kernel is compiled."""
    return isinstance(net, types.NamedTuple) and net.instance_class is Dense


@overload(forward)
def _forward(net, theta, x, work, o):
    if is_dense(net):
        return dense_forward.py_func
    from .convolution import conv_forward

    return conv_forward.py_func


@overload(sweep)
def _sweep(net, theta, x, work, V, out):
    if is_dense(net):
        return dense_sweep.py_func
    from .convolution import conv_sweep

    return conv_sweep.py_func

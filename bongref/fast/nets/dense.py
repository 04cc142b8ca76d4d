"""Linear models and MLPs: outputs, and cotangents pulled back through the layers. Reference: models._dense_layers, Model.vjp.

Every row V_k ∂f/∂θ is, in each layer, the outer product δ_k hᵀ of the cotangent before the activation and the layer's input
(and δ_k for the bias). A diagonal family needs only sums of rows and of their squares, which are outer products too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..elementary import padded
from ..generic import implement
from ..jit import device
from .activations import CODES, Scratch, activate, scratch
from .interface import accumulate, forward, pullback, sums


class Dense(NamedTuple):
    """Dense layers of the given sizes."""

    sizes: Any  # (L + 1,) int64
    places: Any  # (L + 1,) int64: where each layer's values begin in the buffers, multiples of BLOCK apart
    code: int  # of the activation
    bias: int  # 1 or 0


class DenseWork(NamedTuple):
    """Values of all layers one after the other, each padded to a multiple of BLOCK."""

    h: Any  # inputs of the layers
    slopes: Any  # derivatives of the activations
    z: Any  # before an activation
    delta: Any  # (K, all layers) cotangents before the activations
    e: Any  # Σ_k c_k δ_k
    s: Any  # Σ_k (w_k δ_k)²
    squares: Any  # of h
    scratch: Scratch


def describe(model: Any) -> Dense:
    """A linear model or an MLP as numbers."""
    sizes = np.array(model.spec["sizes"], dtype=np.int64)
    widths = [padded(int(n)) for n in sizes]
    places = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)
    return Dense(sizes, places, CODES[model.spec["activation"]], int(model.spec["bias"]))


def workspace(net: Dense, K: int) -> DenseWork:
    """Buffers for a forward pass and K cotangents."""
    total = int(net.places[-1]) + padded(int(net.sizes[-1]))
    widest = padded(int(net.sizes.max()))
    vectors = [np.zeros(n) for n in (total, total, widest)]
    return DenseWork(*vectors, np.zeros((K, total)), *(np.zeros(total) for _ in range(3)), scratch(widest))


@device
def affine(W, bias, h, z):
    """z = W h + bias, W (m n,) row-major; bias may be empty. Four rows at a time."""
    n, m = len(h), len(W) // max(1, len(h))
    for i in range(0, m - 3, 4):
        r0, r1, r2, r3 = W[i * n : i * n + n], W[i * n + n : i * n + 2 * n], W[i * n + 2 * n : i * n + 3 * n], W[i * n + 3 * n : i * n + 4 * n]
        a0 = a1 = a2 = a3 = 0.0
        for j in range(n):
            a0 += r0[j] * h[j]
            a1 += r1[j] * h[j]
            a2 += r2[j] * h[j]
            a3 += r3[j] * h[j]
        z[i], z[i + 1], z[i + 2], z[i + 3] = a0, a1, a2, a3
    for i in range(m - m % 4, m):
        row, total = W[i * n : i * n + n], 0.0
        for j in range(n):
            total += row[j] * h[j]
        z[i] = total
    for i in range(len(bias)):
        z[i] += bias[i]


@device
def transposed(W, delta, z):
    """z = Wᵀ δ, W (m n,) row-major. Four rows at a time."""
    n, m = len(z), len(delta)
    for j in range(n):
        z[j] = 0.0
    for i in range(0, m - 3, 4):
        r0, r1, r2, r3 = W[i * n : i * n + n], W[i * n + n : i * n + 2 * n], W[i * n + 2 * n : i * n + 3 * n], W[i * n + 3 * n : i * n + 4 * n]
        v0, v1, v2, v3 = delta[i], delta[i + 1], delta[i + 2], delta[i + 3]
        for j in range(n):
            z[j] += (v0 * r0[j] + v1 * r1[j]) + (v2 * r2[j] + v3 * r3[j])
    for i in range(m - m % 4, m):
        row, v = W[i * n : i * n + n], delta[i]
        for j in range(n):
            z[j] += v * row[j]


@implement(forward, Dense)
def dense_forward(net, theta, x, work, o):
    """o = f(θ, x)."""
    sizes, places, last, at = net.sizes, net.places, len(net.sizes) - 1, 0
    h = work.h[: len(x)]
    for j in range(len(x)):
        h[j] = x[j]
    for layer in range(1, last + 1):
        n, m = sizes[layer - 1], sizes[layer]
        end, there = at + m * n, places[layer]
        affine(theta[at:end], theta[end : end + m * net.bias], work.h[places[layer - 1] : places[layer - 1] + n], work.z[:m])
        if layer < last:
            stop = places[layer + 1]
            activate(net.code, work.z[: stop - there], work.h[there:stop], work.slopes[there:stop], work.scratch)
        at = end + m * net.bias
    for i in range(len(o)):
        o[i] = work.z[i]


@device
def cotangents(net, theta, work, v, delta):
    """δ, the cotangents of what every layer gives before its activation, for the cotangent v (C,) of the outputs."""
    sizes, places, at = net.sizes, net.places, len(theta)
    there = places[len(sizes) - 1]
    for i in range(len(v)):
        delta[there + i] = v[i]
    for layer in range(len(sizes) - 1, 1, -1):
        m, n, here, there = sizes[layer], sizes[layer - 1], places[layer - 1], places[layer]
        at -= m * (n + net.bias)
        to, slope = delta[here : here + n], work.slopes[here : here + n]
        transposed(theta[at : at + m * n], delta[there : there + m], to)
        for j in range(n):
            to[j] *= slope[j]


@device
def outer(delta, h, bias, out):
    """out = δ hᵀ, row-major, and then δ where there is a bias."""
    n, m = len(h), len(delta)
    for i in range(m):
        to, v = out[i * n : i * n + n], delta[i]
        for j in range(n):
            to[j] = v * h[j]
    to = out[m * n : m * n + m * bias]
    for i in range(len(to)):
        to[i] = delta[i]


@device
def layers(net, delta, h, row):
    """row (P,) = δ hᵀ of every layer."""
    sizes, places, at = net.sizes, net.places, 0
    for layer in range(1, len(sizes)):
        n, m, here, there = sizes[layer - 1], sizes[layer], places[layer - 1], places[layer]
        end = at + m * (n + net.bias)
        outer(delta[there : there + m], h[here : here + n], net.bias, row[at:end])
        at = end


@implement(pullback, Dense)
def dense_pullback(net, theta, x, work, V, rows):
    """rows (K, P) = V_k ∂f/∂θ."""
    for k in range(len(V)):
        cotangents(net, theta, work, V[k], work.delta[k])
        layers(net, work.delta[k], work.h, rows[k])


@implement(sums, Dense)
def dense_sums(net, theta, x, work, V, c, w, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)² of the rows r_k = V_k ∂f/∂θ, none of which is written."""
    e, s, squares = work.e, work.s, work.squares
    if len(V) == 1:
        cotangents(net, theta, work, V[0], work.delta[0])
        layers(net, work.delta[0], work.h, g)
        for p in range(len(g)):
            d[p] = -(w[0] * g[p]) * (w[0] * g[p])
            g[p] *= c[0]
        return
    for k in range(len(V)):
        delta, u, v = work.delta[k], c[k], w[k] * w[k]
        cotangents(net, theta, work, V[k], delta)
        if k == 0:
            for i in range(len(e)):
                e[i], s[i] = u * delta[i], v * (delta[i] * delta[i])
        else:
            for i in range(len(e)):
                e[i] += u * delta[i]
                s[i] += v * (delta[i] * delta[i])
    layers(net, e, work.h, g)
    for i in range(len(e)):
        s[i] = -s[i]
        squares[i] = work.h[i] * work.h[i]
    layers(net, s, squares, d)


@device
def add_outer(delta, h, bias, g, d):
    """g += δ hᵀ and d −= (δ hᵀ)², entry by entry, and the same of δ where there is a bias."""
    n, m = len(h), len(delta)
    for i in range(m):
        g_to, d_to, v = g[i * n : i * n + n], d[i * n : i * n + n], delta[i]
        for j in range(n):
            r = v * h[j]
            g_to[j] += r
            d_to[j] -= r * r
    g_to, d_to = g[m * n : m * n + m * bias], d[m * n : m * n + m * bias]
    for i in range(len(g_to)):
        g_to[i] += delta[i]
        d_to[i] -= delta[i] * delta[i]


@implement(accumulate, Dense)
def dense_accumulate(net, theta, x, work, v, g, d):
    """g += r and d −= r² of the row r = v ∂f/∂θ, which is not written."""
    sizes, places, delta, at = net.sizes, net.places, work.delta[0], 0
    cotangents(net, theta, work, v, delta)
    for layer in range(1, len(sizes)):
        n, m, here, there = sizes[layer - 1], sizes[layer], places[layer - 1], places[layer]
        end = at + m * (n + net.bias)
        add_outer(delta[there : there + m], work.h[here : here + n], net.bias, g[at:end], d[at:end])
        at = end

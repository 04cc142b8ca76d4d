"""Linear models and MLPs: outputs, and cotangents pulled back through the layers. Reference: models._dense_layers, Model.vjp.

Every row V_k ∂f/∂θ is, in each layer, the outer product δ_k hᵀ of the cotangent before the activation and the layer's input
(and δ_k for the bias). A diagonal family needs only sums of rows and of their squares, which are outer products too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..elementary import padded
from ..generic import implement
from ..jit import U, device
from .activations import CODES, activate
from .interface import accumulate, forward, pullback, sums


H, SLOPES, DELTA, SUM, SQUARED, H2 = (U(k) for k in range(6))  # the regions of DenseWork.values, see there


class Dense(NamedTuple):
    """Dense layers. Integers are unsigned: an index that may be negative keeps LLVM from vectorising a loop (docs/fast.md)."""

    layers: Any  # (2, L + 1) uint64: the sizes, and where each layer's values begin in a region, multiples of BLOCK apart
    total: np.uint64  # numbers of a region
    widest: np.uint64  # numbers of the widest layer, a multiple of BLOCK
    bias: np.uint64  # 1 or 0
    code: int  # of the activation


class DenseWork(NamedTuple):
    """One array: taking an array out of a NamedTuple counts references, some 10 ns for each.

    Regions of ``total`` numbers, the values of all layers one after the other: H inputs of the layers, SLOPES derivatives of the
    activations, DELTA cotangents before them, SUM Σ_k c_k δ_k, SQUARED −Σ_k (w_k δ_k)², H2 the squares of H; then one layer before
    its activation, and scratch.
    """

    values: Any
    words: Any  # values.view(int64)


def from_sizes(sizes: list[int], bias: bool, code: int) -> Dense:
    """Dense layers of these sizes."""
    widths = [padded(n) for n in sizes]
    places = [sum(widths[:i]) for i in range(len(sizes))]
    return Dense(np.array([sizes, places], np.uint64), U(sum(widths)), U(max(widths)), U(bias), code)


def describe(model: Any) -> Dense:
    """A linear model or an MLP as numbers."""
    return from_sizes(model.spec["sizes"], model.spec["bias"], CODES[model.spec["activation"]])


def workspace(net: Dense) -> DenseWork:
    """Buffers for a forward pass and cotangents."""
    values = np.zeros(6 * int(net.total) + 4 * int(net.widest))
    return DenseWork(values, values.view(np.int64))


@device
def affine(theta, at, v, here, n, m, bias, z):
    """v[z:] (m,) = W h + b with W (m, n) row-major at θ[at], b after it where bias = 1, and h (n,) at v[here]. Four rows at a time."""
    b, fours = at + m * n, m // U(4) * U(4)
    for q in range(fours // U(4)):
        i = q * U(4)
        r0 = at + i * n
        r1, r2, r3 = r0 + n, r0 + U(2) * n, r0 + U(3) * n
        a0 = a1 = a2 = a3 = 0.0
        for j in range(n):
            a0 += theta[r0 + j] * v[here + j]
            a1 += theta[r1 + j] * v[here + j]
            a2 += theta[r2 + j] * v[here + j]
            a3 += theta[r3 + j] * v[here + j]
        v[z + i], v[z + i + U(1)], v[z + i + U(2)], v[z + i + U(3)] = a0, a1, a2, a3
    for i in range(fours, m):
        r, total = at + i * n, 0.0
        for j in range(n):
            total += theta[r + j] * v[here + j]
        v[z + i] = total
    for i in range(m * bias):
        v[z + i] += theta[b + i]


@device
def transposed(theta, at, v, there, n, m, z, here):
    """z[here:] (n,) = Wᵀ δ with W (m, n) row-major at θ[at] and δ (m,) at v[there]. Four rows at a time."""
    fours = m // U(4) * U(4)
    for j in range(n):
        z[here + j] = 0.0
    for q in range(fours // U(4)):
        i = q * U(4)
        r0, k = at + i * n, there + i
        r1, r2, r3 = r0 + n, r0 + U(2) * n, r0 + U(3) * n
        v0, v1, v2, v3 = v[k], v[k + U(1)], v[k + U(2)], v[k + U(3)]
        for j in range(n):
            z[here + j] += (v0 * theta[r0 + j] + v1 * theta[r1 + j]) + (v2 * theta[r2 + j] + v3 * theta[r3 + j])
    for i in range(fours, m):
        r, d = at + i * n, v[there + i]
        for j in range(n):
            z[here + j] += d * theta[r + j]


@implement(forward, Dense)
def dense_forward(net, theta, x, work, o):
    """o = f(θ, x)."""
    layers, bias, T, M, v, words, at = net.layers, net.bias, net.total, net.widest, work.values, work.words, U(0)
    z, last = H2 * T + T, layers.shape[1] - 1
    for j in range(layers[0, 0]):
        v[j] = x[j]
    for k in range(1, last + 1):
        n, m, there = layers[0, k - 1], layers[0, k], layers[1, k]
        affine(theta, at, v, layers[1, k - 1], n, m, bias, z)
        if k < last:
            activate(net.code, v, words, z, there, SLOPES * T + there, z + M, M, layers[1, k + 1] - there)
        at += m * (n + bias)
    for i in range(len(o)):
        o[i] = v[z + U(i)]


@device
def cotangents(layers, bias, T, theta, v, cotangent):
    """δ, the cotangents of what every layer gives before its activation, for that of the outputs (C,); θ ends with the layers'."""
    last, at, D = layers.shape[1] - 1, U(len(theta)), DELTA * T
    for i in range(len(cotangent)):
        v[D + layers[1, last] + U(i)] = cotangent[i]
    for k in range(last, 1, -1):
        m, n, here, there = layers[0, k], layers[0, k - 1], layers[1, k - 1], layers[1, k]
        at -= m * (n + bias)
        transposed(theta, at, v, D + there, n, m, v, D + here)
        for j in range(n):
            v[D + here + j] *= v[SLOPES * T + here + j]


@device
def outer(v, there, m, here, n, bias, out, at):
    """out[at:] = δ hᵀ, row-major, and then δ where bias = 1; δ (m,) at v[there], h (n,) at v[here]."""
    for i in range(m):
        r, d = at + i * n, v[there + i]
        for j in range(n):
            out[r + j] = d * v[here + j]
    b = at + m * n
    for i in range(m * bias):
        out[b + i] = v[there + i]


@device
def outers(layers, bias, v, delta, h, row, at):
    """row[at:] = δ hᵀ of every layer, with δ in the region at v[delta] and h in that at v[h]."""
    for k in range(1, layers.shape[1]):
        n, m = layers[0, k - 1], layers[0, k]
        outer(v, delta + layers[1, k], m, h + layers[1, k - 1], n, bias, row, at)
        at += m * (n + bias)


@implement(pullback, Dense)
def dense_pullback(net, theta, x, work, V, rows):
    """rows (K, P) = V_k ∂f/∂θ."""
    layers, bias, T, v = net.layers, net.bias, net.total, work.values
    for k in range(len(V)):
        cotangents(layers, bias, T, theta, v, V[k])
        outers(layers, bias, v, DELTA * T, U(0), rows[k], U(0))


@device
def squared_row(c, w, g, d):
    """d = −(w g)² and g = c g, entry by entry."""
    for p in range(len(g)):
        r = g[p]
        d[p] = -(w * r) * (w * r)
        g[p] = c * r


@device
def add_cotangents(first, v, T, c, w):
    """SUM += c δ and SQUARED −= (w δ)², or = where this is the first one."""
    D, E, S = DELTA * T, SUM * T, SQUARED * T
    for i in range(T):
        d = v[D + i]
        v[E + i] = c * d if first else v[E + i] + c * d
        v[S + i] = -(w * d) * (w * d) if first else v[S + i] - (w * d) * (w * d)


@device
def sums_of_outers(layers, bias, T, v, g, d, at):
    """g[at:] and d[at:] from SUM and SQUARED: the outer products of the sums, as δ_k alone depends on k."""
    for i in range(T):
        v[H2 * T + i] = v[i] * v[i]
    outers(layers, bias, v, SUM * T, U(0), g, at)
    outers(layers, bias, v, SQUARED * T, H2 * T, d, at)


@implement(sums, Dense)
def dense_sums(net, theta, x, work, V, c, w, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)² of the rows r_k = V_k ∂f/∂θ."""
    layers, bias, T, v = net.layers, net.bias, net.total, work.values
    for k in range(len(V)):
        cotangents(layers, bias, T, theta, v, V[k])
        if len(V) > 1:
            add_cotangents(k == 0, v, T, c[k], w[k])
    if len(V) == 1:
        outers(layers, bias, v, DELTA * T, U(0), g, U(0))
        squared_row(c[0], w[0], g, d)
    else:
        sums_of_outers(layers, bias, T, v, g, d, U(0))


@device
def add_outers(layers, bias, v, delta, g, d, at):
    """g[at:] += r and d[at:] −= r² with r = δ hᵀ of every layer, which is not written."""
    for k in range(1, layers.shape[1]):
        n, m, there, here = layers[0, k - 1], layers[0, k], delta + layers[1, k], layers[1, k - 1]
        for i in range(m):
            r, u = at + i * n, v[there + i]
            for j in range(n):
                g[r + j] += u * v[here + j]
                d[r + j] -= (u * v[here + j]) * (u * v[here + j])
        at += m * n
        for i in range(m * bias):
            g[at + i] += v[there + i]
            d[at + i] -= v[there + i] * v[there + i]
        at += m * bias


@implement(accumulate, Dense)
def dense_accumulate(net, theta, x, work, v, g, d):
    """g += r and d −= r² of the row r = v ∂f/∂θ."""
    cotangents(net.layers, net.bias, net.total, theta, work.values, v)
    add_outers(net.layers, net.bias, work.values, DELTA * net.total, g, d, U(0))

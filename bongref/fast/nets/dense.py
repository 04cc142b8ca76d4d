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
from .activations import CODES, Scratch, activate, scratch
from .interface import accumulate, forward, pullback, sums


class Dense(NamedTuple):
    """Dense layers. Integers are unsigned: an index that may be negative keeps LLVM from vectorising a loop (docs/fast.md)."""

    sizes: Any  # (L + 1,) uint64
    places: Any  # (L + 1,) uint64: where each layer's values begin in the buffers, multiples of elementary.BLOCK apart
    bias: np.uint64  # 1 or 0
    code: int  # of the activation


class DenseWork(NamedTuple):
    """Values of all layers one after the other, each padded to a multiple of BLOCK."""

    h: Any  # inputs of the layers
    slopes: Any  # derivatives of the activations
    z: Any  # before an activation
    delta: Any  # cotangents before the activations
    e: Any  # Σ_k c_k δ_k
    s: Any  # −Σ_k (w_k δ_k)²
    squares: Any  # of h
    scratch: Scratch


def from_sizes(sizes: list[int], bias: bool, code: int) -> Dense:
    """Dense layers of these sizes."""
    places = np.concatenate([[0], np.cumsum([padded(n) for n in sizes])[:-1]])
    return Dense(np.array(sizes, np.uint64), places.astype(np.uint64), np.uint64(bias), code)


def describe(model: Any) -> Dense:
    """A linear model or an MLP as numbers."""
    return from_sizes(model.spec["sizes"], model.spec["bias"], CODES[model.spec["activation"]])


def workspace(net: Dense) -> DenseWork:
    """Buffers for a forward pass and cotangents."""
    total, widest = int(net.places[-1]) + padded(int(net.sizes[-1])), padded(int(net.sizes.max()))
    h, slopes, delta, e, s, squares = (np.zeros(total) for _ in range(6))
    return DenseWork(h, slopes, np.zeros(widest), delta, e, s, squares, scratch(widest))


@device
def affine(theta, at, h, here, n, m, bias, z):
    """z (m,) = W h + b with W (m, n) row-major at θ[at], b after it where bias = 1, and h (n,) at h[here]. Four rows at a time."""
    b, fours = at + m * n, m // U(4) * U(4)
    for q in range(fours // U(4)):
        i = q * U(4)
        r0 = at + i * n
        r1, r2, r3 = r0 + n, r0 + U(2) * n, r0 + U(3) * n
        a0 = a1 = a2 = a3 = 0.0
        for j in range(n):
            a0 += theta[r0 + j] * h[here + j]
            a1 += theta[r1 + j] * h[here + j]
            a2 += theta[r2 + j] * h[here + j]
            a3 += theta[r3 + j] * h[here + j]
        z[i], z[i + U(1)], z[i + U(2)], z[i + U(3)] = a0, a1, a2, a3
    for i in range(fours, m):
        r, total = at + i * n, 0.0
        for j in range(n):
            total += theta[r + j] * h[here + j]
        z[i] = total
    for i in range(m * bias):
        z[i] += theta[b + i]


@device
def transposed(theta, at, delta, there, n, m, z, here):
    """z[here:] (n,) = Wᵀ δ with W (m, n) row-major at θ[at] and δ (m,) at delta[there]. Four rows at a time."""
    fours = m // U(4) * U(4)
    for j in range(n):
        z[here + j] = 0.0
    for q in range(fours // U(4)):
        i = q * U(4)
        r0, k = at + i * n, there + i
        r1, r2, r3 = r0 + n, r0 + U(2) * n, r0 + U(3) * n
        v0, v1, v2, v3 = delta[k], delta[k + U(1)], delta[k + U(2)], delta[k + U(3)]
        for j in range(n):
            z[here + j] += (v0 * theta[r0 + j] + v1 * theta[r1 + j]) + (v2 * theta[r2 + j] + v3 * theta[r3 + j])
    for i in range(fours, m):
        r, v = at + i * n, delta[there + i]
        for j in range(n):
            z[here + j] += v * theta[r + j]


@implement(forward, Dense)
def dense_forward(net, theta, x, work, o):
    """o = f(θ, x)."""
    sizes, places, bias, h, z, at = net.sizes, net.places, net.bias, work.h, work.z, U(0)
    for j in range(sizes[0]):
        h[j] = x[j]
    for layer in range(1, len(sizes)):
        n, m = sizes[layer - 1], sizes[layer]
        affine(theta, at, h, places[layer - 1], n, m, bias, z)
        if layer < len(sizes) - 1:
            activate(net.code, z, h, work.slopes, places[layer], places[layer + 1] - places[layer], work.scratch)
        at += m * (n + bias)
    for i in range(len(o)):
        o[i] = z[i]


@device
def cotangents(net, theta, slopes, v, delta):
    """δ, the cotangents of what every layer gives before its activation, for the cotangent v (C,) of the outputs."""
    sizes, places, bias, at = net.sizes, net.places, net.bias, U(len(theta))
    there = places[len(sizes) - 1]
    for i in range(len(v)):
        delta[there + U(i)] = v[i]
    for layer in range(len(sizes) - 1, 1, -1):
        m, n, here, there = sizes[layer], sizes[layer - 1], places[layer - 1], places[layer]
        at -= m * (n + bias)
        transposed(theta, at, delta, there, n, m, delta, here)
        for j in range(n):
            delta[here + j] *= slopes[here + j]


@device
def outer(delta, there, m, h, here, n, bias, out, at):
    """out[at:] = δ hᵀ, row-major, and then δ where bias = 1; δ (m,) at delta[there], h (n,) at h[here]."""
    for i in range(m):
        r, v = at + i * n, delta[there + i]
        for j in range(n):
            out[r + j] = v * h[here + j]
    b = at + m * n
    for i in range(m * bias):
        out[b + i] = delta[there + i]


@device
def layers(net, delta, h, row):
    """row (P,) = δ hᵀ of every layer."""
    sizes, places, bias, at = net.sizes, net.places, net.bias, U(0)
    for layer in range(1, len(sizes)):
        n, m = sizes[layer - 1], sizes[layer]
        outer(delta, places[layer], m, h, places[layer - 1], n, bias, row, at)
        at += m * (n + bias)


@implement(pullback, Dense)
def dense_pullback(net, theta, x, work, V, rows):
    """rows (K, P) = V_k ∂f/∂θ."""
    for k in range(len(V)):
        cotangents(net, theta, work.slopes, V[k], work.delta)
        layers(net, work.delta, work.h, rows[k])


@device
def squared_row(c, w, g, d):
    """d = −(w g)² and g = c g, entry by entry."""
    for p in range(len(g)):
        r = g[p]
        d[p] = -(w * r) * (w * r)
        g[p] = c * r


@device
def add_cotangents(first, delta, c, w, e, s):
    """e += c δ and s −= (w δ)², or = where this is the first one."""
    if first:
        for i in range(len(e)):
            e[i], s[i] = 0.0, 0.0
    for i in range(len(e)):
        e[i] += c * delta[i]
        s[i] -= (w * delta[i]) * (w * delta[i])


@device
def squares_of(h, squares):
    """squares = h², entry by entry."""
    for i in range(len(h)):
        squares[i] = h[i] * h[i]


@implement(sums, Dense)
def dense_sums(net, theta, x, work, V, c, w, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)² of the rows r_k = V_k ∂f/∂θ: outer products of sums over k, as δ_k alone depends on k."""
    if len(V) == 1:
        cotangents(net, theta, work.slopes, V[0], work.delta)
        layers(net, work.delta, work.h, g)
        squared_row(c[0], w[0], g, d)
        return
    for k in range(len(V)):
        cotangents(net, theta, work.slopes, V[k], work.delta)
        add_cotangents(k == 0, work.delta, c[k], w[k], work.e, work.s)
    squares_of(work.h, work.squares)
    layers(net, work.e, work.h, g)
    layers(net, work.s, work.squares, d)


@device
def add_outer(delta, there, m, h, here, n, bias, g, d, at):
    """g[at:] += δ hᵀ and d[at:] −= (δ hᵀ)², entry by entry, and the same of δ where bias = 1."""
    for i in range(m):
        r, v = at + i * n, delta[there + i]
        for j in range(n):
            g[r + j] += v * h[here + j]
            d[r + j] -= (v * h[here + j]) * (v * h[here + j])
    b = at + m * n
    for i in range(m * bias):
        g[b + i] += delta[there + i]
        d[b + i] -= delta[there + i] * delta[there + i]


@device
def add_layers(net, delta, h, g, d):
    """g += r and d −= r² with r = δ hᵀ of every layer, which is not written."""
    sizes, places, bias, at = net.sizes, net.places, net.bias, U(0)
    for layer in range(1, len(sizes)):
        n, m = sizes[layer - 1], sizes[layer]
        add_outer(delta, places[layer], m, h, places[layer - 1], n, bias, g, d, at)
        at += m * (n + bias)


@implement(accumulate, Dense)
def dense_accumulate(net, theta, x, work, v, g, d):
    """g += r and d −= r² of the row r = v ∂f/∂θ, which is not written."""
    cotangents(net, theta, work.slopes, v, work.delta)
    add_layers(net, work.delta, work.h, g, d)

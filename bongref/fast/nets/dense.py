"""Linear models and MLPs: outputs, and cotangents pulled back. Reference: models, Model.vjp.

Every row V_k ∂f/∂θ is, in each layer, the outer product δ_k hᵀ of the cotangent before the
activation and the layer's input (and δ_k for the bias). A diagonal family needs only sums of rows
and of their squares, which are outer products too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..elementary import padded
from ..generic import implement
from ..jit import U, device, inlined
from .activations import CODES, activate
from .interface import accumulate, forward, pullback, sums

# regions of v after the first one, see Dense
SLOPES, DELTA, SUM, SQUARED, Z = (U(k) for k in range(1, 6))


class Dense(NamedTuple):
    """Dense layers, with a table ``ints`` (2, L + 1): their sizes, and where their values begin in
    a region.

    v begins with regions of ``total`` numbers, the values of all layers one after the other: inputs
    of the layers; SLOPES derivatives of the activations; DELTA cotangents before them; SUM Σ_k c_k
    δ_k; SQUARED −Σ_k (w_k δ_k)². Then, at Z, one layer before its activation.
    Integers are unsigned: an index that may be negative keeps LLVM from vectorising a loop.
    """

    size: np.uint64  # numbers of v
    total: np.uint64
    bias: np.uint64  # 1 or 0
    code: int  # of the activation


def from_sizes(sizes: list[int], bias: bool, code: int) -> tuple[Dense, Any]:
    """Dense layers of these sizes, and their table."""
    widths = [padded(n) for n in sizes]
    total = sum(widths)
    table = np.array([sizes, [sum(widths[:i]) for i in range(len(sizes))]], np.uint64)
    return Dense(U(5 * total + max(widths)), U(total), U(bias), code), table


def describe(model: Any) -> tuple[Dense, Any]:
    """A linear model or an MLP as numbers, and its table."""
    return from_sizes(model.spec["sizes"], model.spec["bias"], CODES[model.spec["activation"]])


@inlined
def affine(theta, at, v, here, n, m, bias, z):
    """v[z:] (m,) = W h + b, W (m, n) row-major at θ[at], then b (bias = 1), h (n,) at v[here]."""
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


@inlined
def transposed(theta, at, v, there, n, m, z, here):
    """z[here:] (n,) = Wᵀ δ, W (m, n) row-major at θ[at], δ (m,) at v[there]; four rows at once."""
    fours = m // U(4) * U(4)
    for j in range(n):
        z[here + j] = 0.0
    for q in range(fours // U(4)):
        i = q * U(4)
        r0, k = at + i * n, there + i
        r1, r2, r3 = r0 + n, r0 + U(2) * n, r0 + U(3) * n
        v0, v1, v2, v3 = v[k], v[k + U(1)], v[k + U(2)], v[k + U(3)]
        for j in range(n):
            z[here + j] += (v0 * theta[r0 + j] + v1 * theta[r1 + j]) + (
                v2 * theta[r2 + j] + v3 * theta[r3 + j]
            )
    for i in range(fours, m):
        r, d = at + i * n, v[there + i]
        for j in range(n):
            z[here + j] += d * theta[r + j]


@inlined
def run_layers(ints, v, theta, base, T, bias, code, first):
    """The layers whose θ begins at θ[base], from v[first] on; -> the place of the outputs."""
    z, last, at = first + Z * T, ints.shape[1] - 1, base
    for k in range(1, last + 1):
        n, m, there = ints[0, k - 1], ints[0, k], first + ints[1, k]
        affine(theta, at, v, first + ints[1, k - 1], n, m, bias, z)
        if k < last:
            size = ints[1, k + 1] - ints[1, k]
            activate(code, v, z, there, SLOPES * T + there, size)
        at += m * (n + bias)
    return z


@implement(forward, Dense)
def dense_forward(net, ints, v, theta, x, o):
    """v[o:] = f(θ, x)."""
    for j in range(ints[0, 0]):
        v[j] = x[j]
    z = run_layers(ints, v, theta, U(0), net.total, net.bias, net.code, U(0))
    for i in range(ints[0, ints.shape[1] - 1]):
        v[o + i] = v[z + i]


@inlined
def cotangents(ints, v, theta, T, bias, first, V):
    """δ before every activation for those of the outputs at v[V]; θ ends with the layers'."""
    last, at, D = ints.shape[1] - 1, U(len(theta)), first + DELTA * T
    for i in range(ints[0, last]):
        v[D + ints[1, last] + i] = v[V + i]
    for k in range(last, 1, -1):
        m, n, here, there = ints[0, k], ints[0, k - 1], ints[1, k - 1], ints[1, k]
        at -= m * (n + bias)
        transposed(theta, at, v, D + there, n, m, v, D + here)
        for j in range(n):
            v[D + here + j] *= v[first + SLOPES * T + here + j]


@device
def outers(ints, v, bias, delta, h, row, at):
    """row[at:] = δ hᵀ of every layer, and δ for its bias; regions: δ at v[delta], h at v[h]."""
    for k in range(1, ints.shape[1]):
        n, m, there, here = ints[0, k - 1], ints[0, k], delta + ints[1, k], h + ints[1, k - 1]
        for i in range(m):
            r, d = at + i * n, v[there + i]
            for j in range(n):
                row[r + j] = d * v[here + j]
        at += m * n
        for i in range(m * bias):
            row[at + i] = v[there + i]
        at += m * bias


@implement(pullback, Dense)
def dense_pullback(net, ints, v, theta, V, K, rows):
    """rows (K, P) = V_k ∂f/∂θ."""
    C = ints[0, ints.shape[1] - 1]
    for k in range(K):
        cotangents(ints, v, theta, net.total, net.bias, U(0), V + k * C)
        outers(ints, v, net.bias, DELTA * net.total, U(0), rows[k], U(0))


@inlined
def add_cotangents(v, T, start, first, c, w):
    """SUM += c δ and SQUARED −= (w δ)², or = where this is the first one."""
    D, E, S = start + DELTA * T, start + SUM * T, start + SQUARED * T
    for i in range(T):
        d = v[D + i]
        v[E + i] = c * d if first else v[E + i] + c * d
        v[S + i] = -(w * d) * (w * d) if first else v[S + i] - (w * d) * (w * d)


@inlined
def sums_of_outers(ints, v, T, bias, first, g, d, at, new):
    """g[at:], d[at:] = (``new``) or += outer products with SUM, SQUARED: only δ_k depends on k."""
    for k in range(1, ints.shape[1]):
        n, m, here = ints[0, k - 1], ints[0, k], first + ints[1, k - 1]
        there = first + SUM * T + ints[1, k]
        for i in range(m):
            r, u, s = at + i * n, v[there + i], v[there + T + i]
            for j in range(n):
                h = v[here + j]
                g[r + j] = u * h if new else g[r + j] + u * h
                d[r + j] = s * (h * h) if new else d[r + j] + s * (h * h)
        at += m * n
        for i in range(m * bias):
            g[at + i] = v[there + i] if new else g[at + i] + v[there + i]
            d[at + i] = v[there + T + i] if new else d[at + i] + v[there + T + i]
        at += m * bias


@implement(sums, Dense)
def dense_sums(net, ints, v, theta, V, K, c, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)² of the rows r_k = V_k ∂f/∂θ."""
    T, bias, C = net.total, net.bias, ints[0, ints.shape[1] - 1]
    for k in range(K):
        cotangents(ints, v, theta, T, bias, U(0), V + k * C)
        add_cotangents(v, T, U(0), k == 0, v[c + k], v[c + K + k])
    sums_of_outers(ints, v, T, bias, U(0), g, d, U(0), True)


@implement(accumulate, Dense)
def dense_accumulate(net, ints, v, theta, V, g, d):
    """g += r and d −= r² of the row r = V_0 ∂f/∂θ."""
    cotangents(ints, v, theta, net.total, net.bias, U(0), V)
    add_cotangents(v, net.total, U(0), True, 1.0, 1.0)
    sums_of_outers(ints, v, net.total, net.bias, U(0), g, d, U(0), False)

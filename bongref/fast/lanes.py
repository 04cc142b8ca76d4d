"""Sums of gradients over samples of the parameters, as mc-ef of a diagonal family needs them. Twin of curvature.mc_ef.

Dense networks take four samples at a time, one in each lane of a vector: the number (p, k) is parameter p of sample k, so that nothing is
ever summed across a vector, whatever the widths of the layers, and the parameters are drawn in this order, each lane by a chain of its own.
The gradients are not written down: each layer adds Σ_k δ_k h_kᵀ and Σ_k (δ_k h_kᵀ)² to what it has.
Convolutional networks, whose planes fill the vectors, take one sample after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from .jit import inlined, inner
from .likelihoods import score
from .networks import Dense, activate, forward, is_dense, sweep
from .normals import lcg, to_normal, to_uniform
from .parts import MAKING
from .vectors import LANES, fill4, load4, muladd, spread4, store4

ONE, APART, STRIDE, REST, CUTS = 0, 1, 2, 3, 4  # the jumps of a generator, see drawing


def drawing(net: Any, P: int) -> tuple[int, int, int, int]:
    """Steps of the generator: one; from a chain to the next one; of a chain from number to number; after all, to the next samples."""
    return (1, P, 1, (LANES - 1) * P) if isinstance(net, Dense) else (1, 1, LANES, 0)


# --- four samples at a time --------------------------------------------------------------------------------------------------


@inner
def _affine(theta, at, n, h, here, m, bias, z):
    """z = W h + b, W (m, n) and then b in θ from ``at`` on, h (n,) from ``here`` on. Twin of numpy.matmul."""
    for i in range(m):
        even = load4(theta, 4 * (at + m * n + i)) if bias else fill4(0.0)
        odd = fill4(0.0)  # two sums, which need not wait for one another
        w = 4 * (at + i * n)
        for j in range(0, 4 * (n // 2 * 2), 8):
            even = muladd(even, load4(theta, w + j), load4(h, 4 * here + j))
            odd = muladd(odd, load4(theta, w + j + 4), load4(h, 4 * here + j + 4))
        if n % 2 == 1:
            even = muladd(even, load4(theta, w + 4 * n - 4), load4(h, 4 * (here + n) - 4))
        store4(z, 4 * i, muladd(even, odd, fill4(1.0)))


@inner
def _pull_back(theta, at, n, delta, m, slopes, here, z):
    """delta = slope · Wᵀ delta, W (m, n) in θ from ``at`` on, the slopes (n,) from ``here`` on; z is a buffer. Twin of numpy.matmul."""
    for j in range(4 * n):
        z[j] = 0.0
    for i in range(m):
        v, w = load4(delta, 4 * i), 4 * (at + i * n)
        for j in range(0, 4 * n, 4):
            store4(z, j, muladd(load4(z, j), v, load4(theta, w + j)))
    slope = slopes[4 * here : 4 * (here + n)]
    for j in range(4 * n):
        delta[j] = z[j] * slope[j]


@inner
def _add_outer(delta, m, h, here, n, turned, g, d):
    """g += Σ_k δ_k h_kᵀ and d −= Σ_k (δ_k h_kᵀ)², (m, n), flat; δ (m,), h (n,) from ``here`` on; turned is a buffer (4, ≥ n)."""
    h0, h1, h2, h3 = turned[0, :n], turned[1, :n], turned[2, :n], turned[3, :n]
    for j in range(n):
        q = 4 * (here + j)
        h0[j], h1[j], h2[j], h3[j] = h[q], h[q + 1], h[q + 2], h[q + 3]
    for i in range(m):
        v0, v1, v2, v3 = delta[4 * i], delta[4 * i + 1], delta[4 * i + 2], delta[4 * i + 3]
        to, down = g[i * n : i * n + n], d[i * n : i * n + n]
        for j in range(n):
            a, b, c, e = v0 * h0[j], v1 * h1[j], v2 * h2[j], v3 * h3[j]
            to[j] += (a + b) + (c + e)
            down[j] -= (a * a + b * b) + (c * c + e * e)


@inlined
def dense_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    """g += Σ_m g_m and d −= Σ_m g_m², g_m the gradient at the next n samples."""
    sizes, P, C, total, widest = net.sizes, len(mu), len(y), 0, 1
    for i in range(len(sizes)):
        total, widest = total + sizes[i], max(widest, sizes[i])
    theta, h, slopes, z, delta = np.empty(4 * P), np.empty(4 * total), np.empty(4 * total), np.empty(4 * widest), np.empty(4 * widest)
    o, s, buffer, ones, turned = np.empty(C), np.empty(C), np.empty(C), np.ones(4), np.empty((4, widest))
    for i in range(4 * len(x)):
        h[i] = x[i // 4]
    for done in range(0, n, 4):
        to_uniform(chains, jumps[STRIDE], theta)
        for k in range(4):
            chains[k, 0], chains[k, 1] = lcg(chains[k, 0], chains[k, 1], jumps[REST])
        to_normal(theta, coefficients)
        for p in range(P):
            store4(theta, 4 * p, muladd(spread4(mu, p), spread4(deviations, p), load4(theta, 4 * p)))
        at, here = 0, 0
        for layer in range(1, len(sizes)):
            n_in, n_out, there = sizes[layer - 1], sizes[layer], here + sizes[layer - 1]
            _affine(theta, at, n_in, h, here, n_out, net.bias, z)
            if layer < len(sizes) - 1:
                first, last = 4 * there, 4 * (there + n_out)
                activate(net.code, z[: 4 * n_out], h[first:last], slopes[first:last])
            at, here = at + n_out * (n_in + net.bias), there
        for k in range(4):
            for c in range(C):
                o[c] = z[4 * c + k]
            score(lik, o, y, s, buffer)
            for c in range(C):
                delta[4 * c + k] = s[c] if done + k < n else 0.0
        for layer in range(len(sizes) - 1, 0, -1):
            n_in, n_out = sizes[layer - 1], sizes[layer]
            here -= n_in
            if net.bias:
                at -= n_out
                _add_outer(delta, n_out, ones, 0, 1, turned, g[at:], d[at:])
            at -= n_out * n_in
            _add_outer(delta, n_out, h, here, n_in, turned, g[at:], d[at:])
            if layer > 1:
                _pull_back(theta, at, n_in, delta, n_out, slopes, here, z)


# --- one after the other -----------------------------------------------------------------------------------------------------


@inlined
def single_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    """g += Σ_m g_m and d −= Σ_m g_m², g_m the gradient at the next n samples."""
    P, C = len(mu), len(y)
    V, o, s, buffer = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C)
    theta, rows = np.empty(P), np.empty((1, P))
    row = rows[0]
    for _ in range(n):
        to_uniform(chains, jumps[STRIDE], theta)
        to_normal(theta, coefficients)
        for p in range(P):
            theta[p] = mu[p] + deviations[p] * theta[p]
        forward(net, theta, x, work, o)
        score(lik, o, y, s, buffer)
        for c in range(C):
            V[0, c] = s[c]
        sweep(net, theta, x, work, V, rows)
        for p in range(P):
            g[p] += row[p]
            d[p] -= row[p] * row[p]


# --- either kind -------------------------------------------------------------------------------------------------------------


def sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    """g += Σ_m g_m and d −= Σ_m g_m², g_m the gradient at the next n samples mu + deviations · z, drawn by the chains."""
    if isinstance(net, Dense):
        return dense_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d)
    return single_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d)


@overload(sums, jit_options=MAKING)
def _overload_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    return (dense_sums if is_dense(net) else single_sums).py_func

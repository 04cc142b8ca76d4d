"""Gradients at samples of the parameters, as mc-ef needs them: their sums in a diagonal family, or all of them. Twin of curvature.mc_ef.

Dense networks take four samples at a time, one in each lane of a vector: the number (p, k) is parameter p of sample k, so that nothing is
ever summed across a vector, whatever the widths of the layers, and for sums the parameters are drawn in this order, each lane by a chain of
its own. There the gradients are not written down: each layer adds Σ_k δ_k h_kᵀ and Σ_k δ_k² (h_k²)ᵀ to what it has.
Convolutional networks, whose planes fill the vectors, take one sample after the other, and their dense layers add four at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from .convolution import AT
from .jit import inlined, inner
from .likelihoods import score
from .networks import Dense, activate, forward, is_dense, pull
from .normals import draw, lcg
from .parts import CHOSEN, MAKING
from .vectors import LANES, fill4, load4, muladd, spread4, store4

ONE, APART, STRIDE, REST, CUTS = 0, 1, 2, 3, 4  # the jumps of a generator, see drawing
COLUMNS = 256  # of four rows and of their squares that stay in the first level cache


def drawing(net: Any, P: int) -> tuple[int, int, int, int]:
    """Steps of the generator: one; from a chain to the next one; of a chain from number to number; after all, to the next samples."""
    return (1, P, 1, (LANES - 1) * P) if isinstance(net, Dense) else (1, 1, LANES, 0)


# --- matrices of rank four ---------------------------------------------------------------------------------------------------


@inner
def add_outer(delta, m, H, n, g, d, at):
    """g += Σ_k δ_k h_kᵀ and d −= Σ_k δ_k² (h_k²)ᵀ, (m, n), flat from ``at`` on; δ (m, 4) flat, H (8, ≥ n): four h_k, then their squares."""
    h0, h1, h2, h3, q0, q1, q2, q3 = H[0], H[1], H[2], H[3], H[4], H[5], H[6], H[7]
    for low in range(0, n, COLUMNS):
        high = min(n, low + COLUMNS)
        whole = low + (high - low) // 4 * 4
        for i in range(m):
            x0, x1, x2, x3, r = delta[4 * i], delta[4 * i + 1], delta[4 * i + 2], delta[4 * i + 3], at + i * n
            v0, v1, v2, v3 = fill4(x0), fill4(x1), fill4(x2), fill4(x3)
            u0, u1, u2, u3 = fill4(-x0 * x0), fill4(-x1 * x1), fill4(-x2 * x2), fill4(-x3 * x3)
            for j in range(low, whole, 4):
                a = muladd(muladd(load4(g, r + j), v0, load4(h0, j)), v1, load4(h1, j))
                store4(g, r + j, muladd(muladd(a, v2, load4(h2, j)), v3, load4(h3, j)))
                b = muladd(muladd(load4(d, r + j), u0, load4(q0, j)), u1, load4(q1, j))
                store4(d, r + j, muladd(muladd(b, u2, load4(q2, j)), u3, load4(q3, j)))
            for j in range(whole, high):
                g[r + j] += (x0 * h0[j] + x1 * h1[j]) + (x2 * h2[j] + x3 * h3[j])
                d[r + j] -= (x0 * x0 * q0[j] + x1 * x1 * q1[j]) + (x2 * x2 * q2[j] + x3 * x3 * q3[j])


@inner
def add_sums(delta, m, g, d, at):
    """The same for h = 1, the bias."""
    for i in range(m):
        a, b, c, e = delta[4 * i], delta[4 * i + 1], delta[4 * i + 2], delta[4 * i + 3]
        g[at + i] += (a + b) + (c + e)
        d[at + i] -= (a * a + b * b) + (c * c + e * e)


@inner
def add_layer(delta, m, H, n, bias, g, d, at):
    """Both, of a dense layer."""
    add_outer(delta, m, H, n, g, d, at)
    if bias:
        add_sums(delta, m, g, d, at + m * n)


@inner
def put_outer(delta, m, h, here, n, bias, out, at):
    """out (·, 4) = δ_k h_kᵀ, (m, n), flat from ``at`` on, and then δ_k; δ (m, 4) flat, h (n, 4) from ``here`` on. Twin of numpy.outer."""
    zero = fill4(0.0)
    for i in range(m):
        v, to = load4(delta, 4 * i), 4 * (at + i * n)
        for j in range(0, 4 * n, 4):
            store4(out, to + j, muladd(zero, v, load4(h, 4 * here + j)))
        if bias:
            store4(out, 4 * (at + m * n + i), v)


# --- four samples at a time --------------------------------------------------------------------------------------------------


def layer(out, delta, m, h, here, n, H, bias, at):
    """What a dense layer gives for δ (m, 4) and h (n, 4): added to (g, d), with H as a buffer, or written down."""
    return (layer_sums if isinstance(out, tuple) else layer_lanes)(out, delta, m, h, here, n, H, bias, at)


@inlined
def layer_sums(out, delta, m, h, here, n, H, bias, at):
    """:func:`layer` added to (g, d)."""
    turned(h, here, n, H)
    add_layer(delta, m, H, n, bias, out[0], out[1], at)


@inlined
def layer_lanes(out, delta, m, h, here, n, H, bias, at):
    """:func:`layer` written down."""
    put_outer(delta, m, h, here, n, bias, out, at)


@overload(layer, jit_options=CHOSEN)
def _overload_layer(out, delta, m, h, here, n, H, bias, at):
    return (layer_sums if isinstance(out, types.BaseTuple) else layer_lanes).py_func


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
def _pull_back(theta, at, n, delta, m, z):
    """z = Wᵀ delta, W (m, n) in θ from ``at`` on. Twin of numpy.matmul."""
    for j in range(4 * n):
        z[j] = 0.0
    for i in range(0, m // 2 * 2, 2):
        v, u, w = load4(delta, 4 * i), load4(delta, 4 * i + 4), 4 * (at + i * n)
        for j in range(0, 4 * n, 4):
            store4(z, j, muladd(muladd(load4(z, j), v, load4(theta, w + j)), u, load4(theta, w + 4 * n + j)))
    if m % 2 == 1:
        v, w = load4(delta, 4 * m - 4), 4 * (at + (m - 1) * n)
        for j in range(0, 4 * n, 4):
            store4(z, j, muladd(load4(z, j), v, load4(theta, w + j)))


@inner
def turned(h, here, n, H):
    """H (8, ≥ n): the rows h_k of h (n, 4), flat from ``here`` on, and their squares."""
    for k in range(4):
        to, squares = H[k], H[4 + k]
        for j in range(n):
            to[j] = h[4 * (here + j) + k]
        for j in range(n):
            squares[j] = to[j] * to[j]


@inlined
def lanes_room(net, x, C):
    """Buffers for :func:`gradients4` at the input x."""
    sizes, total, widest = net.sizes, 0, 1
    for i in range(len(sizes)):
        total, widest = total + sizes[i], max(widest, sizes[i])
    h = np.empty(4 * total)
    for i in range(4 * len(x)):
        h[i] = x[i // 4]
    return h, np.empty(4 * total), np.empty(4 * widest), np.empty(4 * widest), np.empty((8, widest)), np.empty((3, C))


@inlined
def gradients4(net, room, lik, y, theta, n, scale, out):
    """``scale`` times the gradients at the first n of four samples theta (P, 4), flat, for :func:`layer`. Twin of Model.vjp.

    ``out`` may be theta: what a layer gives is written after the last reading of its parameters.
    """
    h, slopes, z, delta, H, small = room
    sizes, C, at, here = net.sizes, len(y), 0, 0
    o, s, buffer = small[0], small[1], small[2]
    for i in range(1, len(sizes)):
        n_in, n_out, there = sizes[i - 1], sizes[i], here + sizes[i - 1]
        _affine(theta, at, n_in, h, here, n_out, net.bias, z)
        if i < len(sizes) - 1:
            first, last = 4 * there, 4 * (there + n_out)
            activate(net.code, z[: 4 * n_out], h[first:last], slopes[first:last])
        at, here = at + n_out * (n_in + net.bias), there
    for k in range(4):
        for c in range(C):
            o[c] = z[4 * c + k]
        score(lik, o, y, s, buffer)
        for c in range(C):
            delta[4 * c + k] = scale * s[c] if k < n else 0.0
    for i in range(len(sizes) - 1, 0, -1):
        n_in, n_out = sizes[i - 1], sizes[i]
        here, at = here - n_in, at - n_out * (n_in + net.bias)
        if i > 1:
            _pull_back(theta, at, n_in, delta, n_out, z)
        layer(out, delta, n_out, h, here, n_in, H, net.bias, at)
        for j in range(4 * n_in if i > 1 else 0):
            delta[j] = z[j] * slopes[4 * here + j]


@inlined
def dense_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    """g += Σ_m g_m and d −= Σ_m g_m², g_m the gradient at the next n samples."""
    P, theta, room = len(mu), np.empty(4 * len(mu)), lanes_room(net, x, len(y))
    for done in range(0, n, 4):
        draw(chains, jumps[STRIDE], coefficients, theta)
        for k in range(4):
            chains[k, 0], chains[k, 1] = lcg(chains[k, 0], chains[k, 1], jumps[REST])
        for p in range(P):
            store4(theta, 4 * p, muladd(spread4(mu, p), spread4(deviations, p), load4(theta, 4 * p)))
        gradients4(net, room, lik, y, theta, n - done, 1.0, (g, d))


# --- one after the other -----------------------------------------------------------------------------------------------------

SPAN = 512  # parameters that are drawn and placed at a time


@inlined
def single_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    """g += Σ_m g_m and d −= Σ_m g_m², g_m the gradient at the next n samples, of a Conv."""
    P, C, W, hidden, flat = len(mu), len(y), net.dense, net.hidden, net.n_flat
    U, at = W + hidden * (flat + 1), net.layers[-1, AT]
    V, o, s, buffer, theta = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C), np.empty(P)
    H, h, G, e = np.zeros((8, flat)), np.zeros((8, hidden)), np.zeros(4 * hidden), np.zeros(4 * C)
    for m in range(n):
        for low in range(0, P, SPAN):
            part = theta[low : low + SPAN]
            draw(chains, jumps[STRIDE], coefficients, part)
            centre, width = mu[low : low + SPAN], deviations[low : low + SPAN]
            for p in range(len(part)):
                part[p] = centre[p] + width[p] * part[p]
        forward(net, theta, x, work, o)
        score(lik, o, y, s, buffer)
        for c in range(C):
            V[0, c] = s[c]
        pull(net, theta, work, V, 0, 1)
        row, k = work.R[0], m % 4
        for p in range(W):
            g[p] += row[p]
            d[p] -= row[p] * row[p]
        _keep_row(work.X[at:], H[k], H[4 + k])
        _keep_row(work.h, h[k], h[4 + k])
        for i in range(hidden):
            G[4 * i + k] = work.G[0, i]
        for c in range(C):
            e[4 * c + k] = s[c]
        if k == 3 or m == n - 1:
            add_layer(G, hidden, H, flat, 1, g, d, W)
            add_layer(e, C, h, hidden, 1, g, d, U)
            for i in range(4 * hidden):
                G[i] = 0.0
            for c in range(4 * C):
                e[c] = 0.0


@inner
def _keep_row(x, to, squares):
    """A copy of x, and its squares."""
    for j in range(len(to)):
        to[j] = x[j]
        squares[j] = x[j] * x[j]


# --- either kind -------------------------------------------------------------------------------------------------------------


def sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    """g += Σ_m g_m and d −= Σ_m g_m², g_m the gradient at the next n samples mu + deviations · z, drawn by the chains."""
    if isinstance(net, Dense):
        return dense_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d)
    return single_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d)


@overload(sums, jit_options=MAKING)
def _overload_sums(net, work, lik, x, y, mu, deviations, n, chains, jumps, coefficients, g, d):
    return (dense_sums if is_dense(net) else single_sums).py_func

"""The convolutional network in machine code: outputs, and reverse sweeps for several cotangents. Twin of ``models.cnn``.

An image is kept as planes, one for each channel, each with zeros around it and with its rows one after the other:

    row 0 . . . 0 0 | row 1 . . . 0 0 | row 2 ...        pitch = width + kw // 2

The zeros at the end of a row serve the start of the next one too. The pixel (a, b) away from p is then p + a · pitch + b for every p, and

* a convolution adds multiples of shifted planes, z_o += K_{abco} · (plane c, shifted), :func:`combine`;
* its transpose in the input does the same with the cotangents' planes, shifted the other way;
* its transpose in the kernel takes inner products of planes, ∂/∂K_{abco} = δ_o · (plane c, shifted), :func:`products`.

All run over whole planes with unit stride, and no patch is ever copied. Both functions take 4 planes against 3 at a time, so that one
number loaded serves several products; they come near the speed of a matrix product. The positions between two rows are computed too and
thrown away: there z is never read and δ is 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..models import Model
from .jit import OPTIONS, inner
from .networks import ACTIVATIONS, activate

spliced: Any = njit(inline="always", **OPTIONS)  # put into the kernel that calls it, before that is compiled: half the time to compile
ROUND = 8  # planes are worked on in multiples of this many numbers, for the vector units

# the columns of Conv.layers, one row for each convolution
COLUMNS = (
    "height", "width", "c_in",  # the layer's input
    "at", "to_row", "to_col", "to_channel",  # its first number in ConvWork.X, and its strides there
    "c_out", "n_out",  # planes that a convolution computes, numbers in each
    "n_in",  # numbers in each plane that its transpose computes
    "slope",  # place in ConvWork.D of the derivatives of the activation
    "first",  # place in ConvWork.E of the first pixel of the cotangents, which have the strides of the input
    "kernel", "bias",  # places in θ
    "taps", "back",  # places in Conv.taps and Conv.back
)  # fmt: skip
HEIGHT, WIDTH, C_IN, AT, TO_ROW, TO_COL, TO_CHANNEL, C_OUT, N_OUT, N_IN, SLOPE, FIRST, KERNEL, BIAS, TAPS, BACK = range(len(COLUMNS))


class Conv(NamedTuple):
    """A CNN as numbers. Tables of taps have the rows (shift of a plane, place of the coefficient), both relative."""

    layers: Any  # (n_layers + 1, columns) int64; the last row: the input of the dense layers
    taps: Any  # for all (a, b, c), plane by plane: shift, place of K_{abc0}
    back: Any  # the same for the transpose, for all (a, b, o): shift, place of K_{ab0o}
    rows: Any  # (hidden, 2) the same for the first dense layer: place of a row of the weight, number of the row
    n_flat: int
    hidden: int
    n_outputs: int
    dense: int  # place in θ of the first dense layer
    code: int  # of the activation


class ConvWork(NamedTuple):
    """Buffers. The zeros around the planes in X and E are written once, when they are made."""

    X: Any  # inputs of all layers, the last one flat
    Z: Any  # planes before the activation; planes that come out of a transpose
    D: Any  # derivatives of the activations of all convolutions
    E: Any  # cotangents δ before the activations of all convolutions
    h: Any  # (hidden,) outputs of the first dense layer
    d: Any  # (hidden,) derivatives of its activation
    G: Any  # (K, hidden) cotangents before that activation
    F: Any  # (K, n_flat) cotangents of its input


# --- description and buffers -------------------------------------------------------------------------------------------------


def conv_description(model: Model) -> Conv:
    """The description of a model made by ``models.cnn``."""
    spec, place = model.spec, {p.name: p.where.start for p in model.layout}
    (height, width, c), (kh, kw) = spec["in_shape"], spec["kernel"]
    layers: list[dict[str, int]] = []
    taps: list[tuple[int, int]] = []
    back: list[tuple[int, int]] = []
    x = d = e = 0
    for i, c_out in enumerate(spec["features"]):
        pitch = width + kw // 2
        border = (kh // 2) * pitch + kw // 2  # zeros before the first pixel of a plane, and after its last
        n_out, n_in = _rounded((2 * (height // 2) - 1) * pitch + 2 * (width // 2)), _rounded((height - 1) * pitch + width)
        plane = 2 * border + max(n_out, n_in)
        layers.append({
            "height": height, "width": width, "c_in": c, "at": x + border, "to_row": pitch, "to_col": 1, "to_channel": plane,
            "c_out": c_out, "n_out": n_out, "n_in": n_in, "slope": d, "first": e + border,
            "kernel": place[f"K{i}"], "bias": place[f"b{i}"], "taps": len(taps), "back": len(back),
        })  # fmt: skip
        steps = [(a * kw + b, (a - (kh - 1) // 2) * pitch + b - (kw - 1) // 2) for a in range(kh) for b in range(kw)]
        taps += [(j * plane + step, (ab * c + j) * c_out) for j in range(c) for ab, step in steps]
        back += [(o * plane - step, ab * c * c_out + o) for o in range(c_out) for ab, step in steps]
        x, d, e = x + c * plane, d + c_out * n_out, e + c_out * plane
        height, width, c = height // 2, width // 2, c_out
    end = {"height": height, "width": width, "c_in": c, "at": x, "to_row": width * c, "to_col": c, "to_channel": 1}
    end |= {"slope": d, "first": e, "taps": len(taps), "back": len(back)}
    n_flat, hidden = height * width * c, spec["hidden"]
    return Conv(
        layers=_ints([[layer.get(name, 0) for name in COLUMNS] for layer in [*layers, end]]),
        taps=_ints(taps), back=_ints(back), rows=_ints([(n_flat * i, i) for i in range(hidden)]),
        n_flat=n_flat, hidden=hidden, n_outputs=spec["n_outputs"], dense=place[f"W{len(layers)}"], code=ACTIVATIONS[spec["activation"]],
    )  # fmt: skip


def _rounded(n: int) -> int:
    return -(-n // ROUND) * ROUND


def _ints(values: list) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def conv_workspace(net: Conv, K: int) -> ConvWork:
    """Buffers for at most K cotangents."""
    end = net.layers[-1]
    most = max(np.max(net.layers[:, C_OUT] * net.layers[:, N_OUT]), np.max(net.layers[:, C_IN] * net.layers[:, N_IN]))
    X, Z, D, E = (_aligned(int(n)) for n in (end[AT] + net.n_flat, most, end[SLOPE], end[FIRST]))
    return ConvWork(X, Z, D, E, np.zeros(net.hidden), np.zeros(net.hidden), np.zeros((K, net.hidden)), np.zeros((K, net.n_flat)))


def _aligned(n: int) -> np.ndarray:
    """n zeros that begin at a multiple of 64 bytes: no vector written to Z then crosses a cache line, which would cost a quarter more."""
    a = np.zeros(n + 8)
    start = -a.ctypes.data // 8 % 8
    return a[start : start + n]


# --- planes ------------------------------------------------------------------------------------------------------------------


@inner
def combine(z, n, J, coef, at, to_j, x, base, taps):
    """z_j += Σ_t coef[at + j to_j + place_t] x_t for planes j < J of n numbers. Twin of models.correlate.

    taps has the rows (shift_t, place_t), and x_t = x[base + shift_t:].
    """
    T = len(taps)
    J4, T3 = J - J % 4, T - T % 3
    for j in range(0, J4, 4):
        i = j * n
        z0, z1, z2, z3 = z[i : i + n], z[i + n : i + 2 * n], z[i + 2 * n : i + 3 * n], z[i + 3 * n : i + 4 * n]
        for t in range(0, T3, 3):
            s0, s1, s2 = base + taps[t, 0], base + taps[t + 1, 0], base + taps[t + 2, 0]
            k0, k1, k2 = at + j * to_j + taps[t, 1], at + j * to_j + taps[t + 1, 1], at + j * to_j + taps[t + 2, 1]
            a0, a1, a2 = coef[k0], coef[k1], coef[k2]
            b0, b1, b2 = coef[k0 + to_j], coef[k1 + to_j], coef[k2 + to_j]
            c0, c1, c2 = coef[k0 + 2 * to_j], coef[k1 + 2 * to_j], coef[k2 + 2 * to_j]
            d0, d1, d2 = coef[k0 + 3 * to_j], coef[k1 + 3 * to_j], coef[k2 + 3 * to_j]
            x0, x1, x2 = x[s0 : s0 + n], x[s1 : s1 + n], x[s2 : s2 + n]
            for p in range(n):
                u, v, w = x0[p], x1[p], x2[p]
                z0[p] += a0 * u + a1 * v + a2 * w
                z1[p] += b0 * u + b1 * v + b2 * w
                z2[p] += c0 * u + c1 * v + c2 * w
                z3[p] += d0 * u + d1 * v + d2 * w
    for j in range(J):
        z0 = z[j * n : j * n + n]
        for t in range(T3 if j < J4 else 0, T):
            a0, s0 = coef[at + j * to_j + taps[t, 1]], base + taps[t, 0]
            x0 = x[s0 : s0 + n]
            for p in range(n):
                z0[p] += a0 * x0[p]


@inner
def products(y, first, to_y, n, J, x, base, taps, out):
    """out[j + place_t] = y_j · x_t, sums of n products. Twin of models._correlate_kernel.

    taps has the rows (shift_t, place_t), x_t = x[base + shift_t:], and y_j = y[first + j to_y:] for j < J.
    """
    T = len(taps)
    J4, T3 = J - J % 4, T - T % 3
    for j in range(0, J4, 4):
        q = first + j * to_y
        y0 = y[q : q + n]
        y1 = y[q + to_y : q + to_y + n]
        y2 = y[q + 2 * to_y : q + 2 * to_y + n]
        y3 = y[q + 3 * to_y : q + 3 * to_y + n]
        for t in range(0, T3, 3):
            s0, s1, s2 = base + taps[t, 0], base + taps[t + 1, 0], base + taps[t + 2, 0]
            x0, x1, x2 = x[s0 : s0 + n], x[s1 : s1 + n], x[s2 : s2 + n]
            a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = d0 = d1 = d2 = 0.0
            for p in range(n):
                u, v, w = x0[p], x1[p], x2[p]
                a, b, c, d = y0[p], y1[p], y2[p], y3[p]
                a0 += a * u
                a1 += a * v
                a2 += a * w
                b0 += b * u
                b1 += b * v
                b2 += b * w
                c0 += c * u
                c1 += c * v
                c2 += c * w
                d0 += d * u
                d1 += d * v
                d2 += d * w
            k0, k1, k2 = j + taps[t, 1], j + taps[t + 1, 1], j + taps[t + 2, 1]
            out[k0], out[k0 + 1], out[k0 + 2], out[k0 + 3] = a0, b0, c0, d0
            out[k1], out[k1 + 1], out[k1 + 2], out[k1 + 3] = a1, b1, c1, d1
            out[k2], out[k2 + 1], out[k2 + 2], out[k2 + 3] = a2, b2, c2, d2
    for j in range(J):
        for t in range(T3 if j < J4 else 0, T):
            out[j + taps[t, 1]] = dot(y, first + j * to_y, x, base + taps[t, 0], n)


@inner
def dot(a, i, b, j, n):
    """The sum of the products of n numbers, a from i on with b from j on."""
    u, v, s = a[i : i + n], b[j : j + n], 0.0
    for p in range(n):
        s += u[p] * v[p]
    return s


@inner
def affine(theta, at, x, z):
    """z = W x + b, W and then b in θ from ``at`` on. Twin of models._affine."""
    n, bias = len(x), at + len(x) * len(z)
    for i in range(len(z)):
        z[i] = theta[bias + i] + dot(theta, at + i * n, x, np.int64(0), n)


@inner
def outer(v, x, to):
    """to = v x."""
    for i in range(len(to)):
        to[i] = v * x[i]


@inner
def load(x, X, to):
    """The image x, flat in C order, into the planes of the first layer."""
    s = 0
    for i in range(to[HEIGHT]):
        for j in range(to[WIDTH]):
            p = to[AT] + i * to[TO_ROW] + j
            for c in range(to[C_IN]):
                X[p + c * to[TO_CHANNEL]] = x[s]
                s += 1


@inner
def pool(Z, layer, X, to):
    """The 2 × 2 means of the planes Z of a layer, into the input X of the next one. Twin of models.avg_pool."""
    pitch, n, to_col, cols = layer[TO_ROW], layer[N_OUT], to[TO_COL], to[WIDTH]
    for o in range(to[C_IN]):
        for i in range(to[HEIGHT]):
            s, p = o * n + 2 * i * pitch, to[AT] + o * to[TO_CHANNEL] + i * to[TO_ROW]
            above, below = Z[s : s + 2 * cols], Z[s + pitch : s + pitch + 2 * cols]
            for j in range(cols):
                X[p + j * to_col] = 0.25 * ((above[2 * j] + above[2 * j + 1]) + (below[2 * j] + below[2 * j + 1]))


@inner
def unpool(Y, to_channel, to, D, layer, E):
    """δ = act' · Y/4, the transpose of activation and :func:`pool`. Twin of the transpose of models.avg_pool.

    Y, the cotangents of the pooled planes, has the strides of the next layer's input, but its own from plane to plane.
    """
    pitch, n, to_col, cols = layer[TO_ROW], layer[N_OUT], to[TO_COL], to[WIDTH]
    for o in range(to[C_IN]):
        for i in range(2 * to[HEIGHT]):
            y = o * to_channel + i // 2 * to[TO_ROW]
            d, e = layer[SLOPE] + o * n + i * pitch, layer[FIRST] + o * layer[TO_CHANNEL] + i * pitch
            slope, delta = D[d : d + 2 * cols], E[e : e + 2 * cols]
            for j in range(cols):
                v = 0.25 * Y[y + j * to_col]
                delta[2 * j] = v * slope[2 * j]
                delta[2 * j + 1] = v * slope[2 * j + 1]


# --- the network -------------------------------------------------------------------------------------------------------------


@spliced
def conv_forward(net, theta, x, work, o):
    """o (C,) = f(θ, x); the workspace keeps what a sweep needs. Twin of models._cnn."""
    L, X, Z, h = net.layers, work.X, work.Z, work.h
    load(x, X, L[0])
    for i in range(len(L) - 1):
        layer, to = L[i], L[i + 1]
        n, J, d = layer[N_OUT], layer[C_OUT], layer[SLOPE]
        for j in range(J):
            for p in range(j * n, j * n + n):
                Z[p] = theta[layer[BIAS] + j]
        combine(Z, n, J, theta, layer[KERNEL], np.int64(1), X, layer[AT], net.taps[layer[TAPS] : to[TAPS]])
        activate(net.code, Z[: J * n], Z[: J * n], work.D[d : d + J * n])
        pool(Z, layer, X, to)
    W, U = net.dense, net.dense + net.hidden * (net.n_flat + 1)
    affine(theta, W, X[L[-1, AT] :], h)
    activate(net.code, h, h, work.d)
    affine(theta, U, h, o)


@spliced
def conv_sweep(net, theta, x, work, V, out):
    """out (K, P) = the rows V_k · ∂f/∂θ, after :func:`conv_forward` at the same θ and x. Twin of Model.vjp."""
    L, X, Z, D, E = net.layers, work.X, work.Z, work.D, work.E
    _dense_sweep(net, theta, work, V, out)
    for k in range(len(V)):
        Y, to_channel = work.F[k], L[-1, TO_CHANNEL]
        for i in range(len(L) - 2, -1, -1):
            layer, to = L[i], L[i + 1]
            n, J, plane, first = layer[N_OUT], layer[C_OUT], layer[TO_CHANNEL], layer[FIRST]
            unpool(Y, to_channel, to, D, layer, E)
            products(E, first, plane, n, J, X, layer[AT], net.taps[layer[TAPS] : to[TAPS]], out[k, layer[KERNEL] :])
            for j in range(J):
                s = 0.0
                for p in range(first + j * plane, first + j * plane + n):
                    s += E[p]
                out[k, layer[BIAS] + j] = s
            if i > 0:
                Y, to_channel = Z, layer[N_IN]
                for p in range(layer[C_IN] * to_channel):
                    Z[p] = 0.0
                back = net.back[layer[BACK] : to[BACK]]
                combine(Z, to_channel, layer[C_IN], theta, layer[KERNEL], layer[C_OUT], E, first, back)


@spliced
def _dense_sweep(net, theta, work, V, out):
    """The two dense layers, for all cotangents: their part of the rows, and F (K, n_flat), the cotangents of their input."""
    C, H, n, W = net.n_outputs, net.hidden, net.n_flat, net.dense
    b = W + H * n
    U = b + H
    for k in range(len(V)):
        row, g = out[k], work.G[k]
        for j in range(H):
            g[j] = 0.0
        for i in range(C):
            row[U + C * H + i] = V[k, i]
            outer(V[k, i], work.h, row[U + i * H : U + i * H + H])
            for j in range(H):
                g[j] += V[k, i] * theta[U + i * H + j]
        for i in range(H):
            g[i] *= work.d[i]
            row[b + i] = g[i]
            outer(g[i], work.X[net.layers[-1, AT] :], row[W + i * n : W + i * n + n])
    F = work.F.reshape(-1)
    for i in range(len(V) * n):
        F[i] = 0.0
    combine(F, n, len(V), work.G.reshape(-1), np.int64(0), H, theta, W, net.rows)

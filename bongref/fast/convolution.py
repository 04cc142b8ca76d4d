"""The convolutional network in machine code: outputs, and reverse sweeps for several cotangents. Twin of ``models.cnn``.

An image is kept pixel by pixel, the channels of a pixel together, with zeros around it. The window of an output pixel then begins at a
place of its own, and the pixel and channel (a, b, c) of the window is a fixed distance away (a *tap*), the same for all windows:

    z[p, o] = b_o + Σ_t x[window_p + tap_t] · K[t, o]
    ∂/∂K[t, o] = Σ_p x[window_p + tap_t] · δ[p, o]

with t = (a, b, c), in the order of θ. The cotangent of x is a convolution of δ with the kernel turned round. All three are matrix
products in which no patch is copied, :func:`correlate`, 6 rows by 8 columns at a time with the sums in registers.

δ = act'(z) · Y/4, where Y belongs to the pooled pixel q: four pixels share it. Several cotangents share work:

* ∂/∂K[t, o] = Σ_q Y[q, o] M[q, t, o] with M[q, t, o] = Σ_{p in q} act'(z[p, o]) x[window_p + tap_t] / 4, the same for all of them, and
  a quarter of the products for each, :func:`shared_products`;
* where act' = 0, δ = 0 for all of them: the cotangent of x is summed over a list of the others, for relu about half.

What is left out would have added 0 · Y, which is not 0 if Y is not finite. The gradient in the bias, Σ_q Y[q, o] S[q, o] with the means S
of act', is taken over all pixels, so that such a Y is seen in the row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..models import ParametricModel as Model
from . import packs
from .jit import inlined, inner
from .networks import ACTIVATIONS, activate, affine, affine_transposed, combine, outer, outer_squares
from .vectors import aligned, apart, fill4, flat, load4, muladd, spread4, store4

SEVERAL = 4  # cotangents from which on work is shared

# the columns of Conv.layers, one row for each convolution
COLUMNS = (
    "height", "width", "c_in",  # the layer's input
    "at", "inside", "to_row", "to_col",  # the first window in ConvWork.X, the first pixel from there, and the strides
    "rows", "cols", "c_out",  # its output after pooling
    "wide", "deep",  # c_out and c_in, rounded to multiples of 8
    "slope", "pooled",  # places in ConvWork.D and ConvWork.S
    "delta",  # place in ConvWork.E of the first window of the transpose
    "kernel", "bias",  # places in θ
    "packed", "turned",  # places in ConvWork.B of the kernel, as a convolution and as its transpose read it
    "taps", "n_taps", "windows", "n_windows",  # places and numbers in Conv.taps and in Conv.windows
    "back_taps", "back_windows",  # the same of the transpose
    "lines",  # place in Conv.lines
)  # fmt: skip
(
    HEIGHT, WIDTH, C_IN, AT, INSIDE, TO_ROW, TO_COL, ROWS, COLS, C_OUT, WIDE, DEEP, SLOPE, POOLED, DELTA, KERNEL, BIAS, PACKED, TURNED,
    TAPS, N_TAPS, WINDOWS, N_WINDOWS, BACK_TAPS, BACK_WINDOWS, LINES,
) = range(len(COLUMNS))  # fmt: skip


@packs.pack
class Conv(NamedTuple):
    """A CNN as numbers. Lists of taps and windows go on with their last number up to a multiple of 12."""

    layers: Any  # (n_layers + 1, columns) int64; the last row: the input of the dense layers
    taps: Any  # of all layers, and of their transposes
    windows: Any  # of all layers, and of their transposes
    blocks: Any  # as long as windows: the pooled pixel that the output pixel goes into
    lines: Any  # for each input pixel and row of the kernel: first output pixel that sees it there, last + 1, row of the turned kernel
    eights: Any  # 0, 8, 16, …
    kernel: Any  # (height, width)
    n_flat: int
    hidden: int
    n_outputs: int
    dense: int  # place in θ of the first dense layer
    code: int  # of the activation


@packs.pack
class ConvWork(NamedTuple):
    """Buffers. The zeros around the images in X and E and beside the kernels in B are written once, when they are made."""

    X: Any  # inputs of all layers, the last one flat
    B: Any  # kernels
    Z: Any  # before the activation; δ; what the cotangents share
    D: Any  # derivatives of the activations of all convolutions
    S: Any  # their 2 × 2 means
    E: Any  # δ with zeros around it
    h: Any  # (hidden,) outputs of the first dense layer
    d: Any  # (hidden,) derivatives of its activation
    V: Any  # (K, C) cotangents of the outputs
    G: Any  # (K, hidden) cotangents before that activation
    R: Any  # (K, numbers before the dense layers) rows
    e: Any  # sums of G and of V, see networks.combine
    s: Any
    F: Any  # K n_flat cotangents of its input
    Y: Any  # (2, n) K cotangents of the input of a convolution, of this one and of the next one
    Q: Any  # K cotangents, four channels after the other; K values of δ; ∂/∂K
    slopes: Any  # act'/4 of the numbers of δ in a list
    entries: Any  # (2, n) their places in a row of the kernel, and in Y
    starts: Any  # of the pixels in the list
    terms: Any  # (2, n) the numbers of the list for one pixel, and rows of the kernel
    rows: Any  # where the values of a cotangent begin
    zero: Any  # 8 zeros


# --- description and buffers -------------------------------------------------------------------------------------------------


def conv_description(model: Model) -> Conv:
    """The description of a model made by ``models.cnn``."""
    spec, place = model.spec, {p.name: p.where.start for p in model.layout}
    (height, width, c), (kh, kw) = spec["in_shape"], spec["kernel"]
    layers: list[dict[str, int]] = []
    taps: list[int] = []
    windows: list[int] = []
    blocks: list[int] = []
    lines: list[list[tuple[int, int, int]]] = []
    x = d = s = b = e = 0
    for i, c_out in enumerate(spec["features"]):
        rows, cols, to_col = height // 2, width // 2, c if i == 0 else _rounded(c, 4)
        to_row, n, wide, deep = (width + kw - 1) * to_col, kh * kw * c, _rounded(c_out, 8), _rounded(c, 8)
        layer = {
            "height": height, "width": width, "c_in": c, "at": x, "to_row": to_row, "to_col": to_col,
            "inside": (kh - 1) // 2 * to_row + (kw - 1) // 2 * to_col, "rows": rows, "cols": cols, "c_out": c_out, "wide": wide,
            "deep": deep, "slope": d, "pooled": s, "delta": e, "kernel": place[f"K{i}"], "bias": place[f"b{i}"],
            "packed": b, "turned": b + (n + 1) * wide, "n_taps": n, "n_windows": 4 * rows * cols, "lines": len(lines),
        }  # fmt: skip
        layers.append(layer)
        layer["taps"], layer["windows"] = len(taps), len(windows)
        taps += _offsets(kh, kw, c, to_row, to_col)
        windows += _offsets(2 * rows, 2 * cols, 1, to_row, to_col)
        blocks += _padded([u // 2 * cols + v // 2 for u in range(2 * rows) for v in range(2 * cols)])
        layer["back_taps"], layer["back_windows"] = len(taps), len(windows)
        if i > 0:
            taps += _offsets(kh, kw, c_out, (width + kw - 1) * wide, wide)
            windows += _offsets(height, width, 1, (width + kw - 1) * wide, wide)
            blocks += [0] * (len(windows) - len(blocks))
            lines += [_lines(u, v, layer, kh, kw) for u in range(height) for v in range(width)]
        x, e = x + (height + kh - 1) * to_row, e + ((height + kh - 1) * (width + kw - 1) * wide if i > 0 else 0)
        b, d, s = layer["turned"] + kh * kw * c_out * deep, d + 4 * rows * cols * wide, s + rows * cols * wide
        height, width, c = rows, cols, c_out
    end = {"height": height, "width": width, "c_in": c, "at": x, "to_row": width * c, "to_col": c}
    end |= {"slope": d, "pooled": s, "delta": e, "packed": b, "lines": len(lines)}
    most = max(max(layer["n_taps"], layer["n_windows"], kh * kw * layer["c_out"]) for layer in layers)
    return Conv(
        layers=_ints([[layer.get(name, 0) for name in COLUMNS] for layer in [*layers, end]]),
        taps=_ints(taps), windows=_ints(windows), blocks=_ints(blocks), lines=_ints(lines or [[(0, 0, 0)]]),
        eights=8 * np.arange(most), kernel=_ints([kh, kw]), n_flat=height * width * c, hidden=spec["hidden"],
        n_outputs=spec["n_outputs"], dense=place[f"W{len(layers)}"], code=ACTIVATIONS[spec["activation"]],
    )  # fmt: skip


def _offsets(rows: int, cols: int, channels: int, to_row: int, to_col: int) -> list[int]:
    """The places of all pixels and channels of an image."""
    return _padded([u * to_row + v * to_col + j for u in range(rows) for v in range(cols) for j in range(channels)])


def _lines(u: int, v: int, layer: dict[str, int], kh: int, kw: int) -> list[tuple[int, int, int]]:
    """The output pixels that see the input pixel (u, v) through each row of the turned kernel; a row of the kernel from its first pixel."""
    rows, cols, found = 2 * layer["rows"], 2 * layer["cols"], []
    left = v + (kw - 1) // 2 - (kw - 1)
    first, last = max(0, left), min(cols, left + kw)
    for a in range(kh):
        r = u + (kh - 1) // 2 - (kh - 1) + a
        inside = 0 <= r < rows and first < last
        found.append((r * cols + first, r * cols + last, 8 * (a * kw - left) * layer["c_out"]) if inside else (0, 0, 0))
    return found


def _padded(values: list[int]) -> list[int]:
    return values + values[-1:] * (-len(values) % 12)


def _rounded(n: int, to: int) -> int:
    return -(-n // to) * to


def _ints(values: list) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def conv_workspace(net: Conv, K: int) -> ConvWork:
    """Buffers for at most K cotangents."""
    L, end, R = net.layers[:-1], net.layers[-1], _rounded(K, 6)
    listed = int(np.max(L[:, N_WINDOWS] * L[:, WIDE]))
    inputs, products = (L[:, HEIGHT] * L[:, WIDTH] + 5) * L[:, DEEP], (L[:, N_TAPS] + 5) * L[:, WIDE]
    sizes = (
        end[AT] + net.n_flat + 8, end[PACKED], np.max((L[:, N_WINDOWS] + 5) * L[:, WIDE]) + 4 * np.max(L[:, N_WINDOWS]) + 48,
        end[SLOPE], end[POOLED], end[DELTA], net.hidden, net.hidden, R * net.n_flat + 8, 2 * (R * np.max(inputs) + 8),
        max(K * listed, np.max(products)), listed,
    )  # fmt: skip
    X, B, Z, D, S, E, h, d, F, Y, Q, slopes = (aligned(int(n)) for n in sizes)
    entries, terms = np.zeros((2, listed), np.int64), np.zeros((2, max(len(net.eights), net.hidden)), np.int64)
    starts, rows = np.zeros(int(np.max(L[:, N_WINDOWS])) + 1, np.int64), np.zeros(R, np.int64)
    V, G, rows_of = np.empty((K, net.n_outputs)), np.empty((K, net.hidden)), np.empty((K, net.dense))
    e, s = np.empty(net.hidden + net.n_outputs), np.empty(net.hidden + net.n_outputs)
    return ConvWork(X, B, Z, D, S, E, h, d, V, G, rows_of, e, s, F, Y.reshape(2, -1), Q, slopes, entries, starts, terms, rows, np.zeros(8))


# --- matrix products ---------------------------------------------------------------------------------------------------------


@inner
def correlate(x, at, rows, I, cols, places, T, b, first, to_b, J, start, bias, to_bias, z, to, to_z):
    """z[i, j] = start[j] + Σ_t x[at + rows_i + cols_t] b[t, j] for i < I, j < J, J a multiple of 8. Twin of models.correlate.

    z is in z from ``to`` on, to_z from row to row; rows and z go on to a multiple of 6. b is in panels of 8 columns, to_b from one to
    the next, with row t at places_t; start, from ``bias`` on, is in panels too.
    """
    apart()
    for j in range(J // 8):
        for i in range(0, I, 6):
            x0, x1, x2 = at + rows[i], at + rows[i + 1], at + rows[i + 2]
            x3, x4, x5 = at + rows[i + 3], at + rows[i + 4], at + rows[i + 5]
            a0 = a1 = a2 = a3 = a4 = a5 = load4(start, bias + j * to_bias)
            b0 = b1 = b2 = b3 = b4 = b5 = load4(start, bias + j * to_bias + 4)
            r = first + j * to_b
            for t in range(T):
                s, p = cols[t], r + places[t]
                u, v = load4(b, p), load4(b, p + 4)
                w = spread4(x, x0 + s)
                a0, b0 = muladd(a0, w, u), muladd(b0, w, v)
                w = spread4(x, x1 + s)
                a1, b1 = muladd(a1, w, u), muladd(b1, w, v)
                w = spread4(x, x2 + s)
                a2, b2 = muladd(a2, w, u), muladd(b2, w, v)
                w = spread4(x, x3 + s)
                a3, b3 = muladd(a3, w, u), muladd(b3, w, v)
                w = spread4(x, x4 + s)
                a4, b4 = muladd(a4, w, u), muladd(b4, w, v)
                w = spread4(x, x5 + s)
                a5, b5 = muladd(a5, w, u), muladd(b5, w, v)
            p = to + i * to_z + 8 * j
            store4(z, p, a0)
            store4(z, p + 4, b0)
            p += to_z
            store4(z, p, a1)
            store4(z, p + 4, b1)
            p += to_z
            store4(z, p, a2)
            store4(z, p + 4, b2)
            p += to_z
            store4(z, p, a3)
            store4(z, p + 4, b3)
            p += to_z
            store4(z, p, a4)
            store4(z, p + 4, b4)
            p += to_z
            store4(z, p, a5)
            store4(z, p + 4, b5)


@inner
def shared_products(X, layer, taps, D, Q, K, M, out, P):
    """∂/∂K for K cotangents, row k of out from k P on: Σ_q Q_k[q, o] M[q, t, o]. Twin of models._correlate_kernel.

    Four taps and four channels at a time: first M, then the products with M for three cotangents at a time. Q has for every four
    channels, cotangent and pooled pixel four numbers.
    """
    apart()
    c_out, wide, rows, cols, T = layer[C_OUT], layer[WIDE], layer[ROWS], layer[COLS], layer[N_TAPS]
    at, slope, to_row, to_col, n = layer[AT], layer[SLOPE], layer[TO_ROW], layer[TO_COL], 4 * rows * cols
    for t in range(0, T, 4):
        for o in range(0, c_out, 4):
            m = 0
            for r in range(rows):
                for c in range(cols):
                    p = slope + (4 * r * cols + 2 * c) * wide + o
                    a0 = load4(D, p)
                    a1 = load4(D, p + wide)
                    p += 2 * cols * wide
                    a2 = load4(D, p)
                    a3 = load4(D, p + wide)
                    for j in range(t, t + 4):
                        x = at + 2 * (r * to_row + c * to_col) + taps[j]
                        u = muladd(fill4(0.0), a0, spread4(X, x))
                        u = muladd(u, a1, spread4(X, x + to_col))
                        x += to_row
                        u = muladd(u, a2, spread4(X, x))
                        store4(M, m, muladd(u, a3, spread4(X, x + to_col)))
                        m += 4
            for k in range(0, K, 3):
                first = n * (o // 4 * K + k)
                second = first + n * min(1, K - 1 - k)
                third = first + n * min(2, K - 1 - k)
                a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = fill4(0.0)
                for q in range(0, n, 4):
                    u = load4(Q, first + q)
                    v = load4(Q, second + q)
                    w = load4(Q, third + q)
                    y = load4(M, 4 * q)
                    a0 = muladd(a0, u, y)
                    b0 = muladd(b0, v, y)
                    c0 = muladd(c0, w, y)
                    y = load4(M, 4 * q + 4)
                    a1 = muladd(a1, u, y)
                    b1 = muladd(b1, v, y)
                    c1 = muladd(c1, w, y)
                    y = load4(M, 4 * q + 8)
                    a2 = muladd(a2, u, y)
                    b2 = muladd(b2, v, y)
                    c2 = muladd(c2, w, y)
                    y = load4(M, 4 * q + 12)
                    a3 = muladd(a3, u, y)
                    b3 = muladd(b3, v, y)
                    c3 = muladd(c3, w, y)
                store4(M, m, a0)
                store4(M, m + 4, a1)
                store4(M, m + 8, a2)
                store4(M, m + 12, a3)
                store4(M, m + 16, b0)
                store4(M, m + 20, b1)
                store4(M, m + 24, b2)
                store4(M, m + 28, b3)
                store4(M, m + 32, c0)
                store4(M, m + 36, c1)
                store4(M, m + 40, c2)
                store4(M, m + 44, c3)
                for i in range(min(3, K - k)):
                    p = (k + i) * P + layer[KERNEL] + t * c_out + o
                    for j in range(min(4, T - t)):
                        if o + 4 <= c_out:
                            store4(out, p + j * c_out, load4(M, m + 16 * i + 4 * j))
                        else:
                            for c in range(c_out - o):
                                out[p + j * c_out + c] = M[m + 16 * i + 4 * j + c]


@inner
def pack_cotangents(Y, to_k, to_y, K, layer, Q):
    """Q = Y/4, for every four channels, cotangent and pooled pixel four numbers."""
    apart()
    to, quarter = 0, fill4(0.25)
    for o in range(0, layer[C_OUT], 4):
        for k in range(K):
            for q in range(layer[ROWS] * layer[COLS]):
                store4(Q, to, muladd(fill4(0.0), quarter, load4(Y, k * to_k + q * to_y + o)))
                to += 4


@inner
def bias_rows(Y, to_k, to_y, K, S, layer, buffer, out, P):
    """∂/∂b_o = Σ_q Y[q, o] S[q, o] for all cotangents."""
    apart()
    c_out, wide, n = layer[C_OUT], layer[WIDE], layer[ROWS] * layer[COLS]
    for k in range(K):
        for o in range(0, c_out, 4):
            a, y, s = fill4(0.0), k * to_k + o, layer[POOLED] + o
            for q in range(n):
                a = muladd(a, load4(Y, y + q * to_y), load4(S, s + q * wide))
            store4(buffer, 0, a)
            for j in range(min(4, c_out - o)):
                out[k * P + layer[BIAS] + o + j] = buffer[j]


# --- lists -------------------------------------------------------------------------------------------------------------------


@inner
def list_slopes(D, layer, blocks, to_y, entries, slopes, starts):
    """The numbers of δ with act' ≠ 0, pixel by pixel: their places in a row of the kernel and in Y, and act'/4."""
    apart()
    n, p, c_out = 0, layer[SLOPE], layer[C_OUT]
    for i in range(layer[N_WINDOWS]):
        starts[i] = n
        source, place = blocks[i] * to_y, i % (2 * layer[COLS]) * c_out
        for o in range(c_out):
            d = D[p + o]
            entries[0, n], entries[1, n], slopes[n] = 8 * (place + o), source + o, 0.25 * d
            n += d != 0.0
        p += layer[WIDE]
    starts[layer[N_WINDOWS]] = n
    return n


@inner
def list_values(Y, to_k, K, sources, slopes, n, Q, rows):
    """The n numbers of δ for each cotangent, and where each begins; the last one again up to a multiple of 6."""
    apart()
    for k in range(len(rows)):
        rows[k] = min(k, K - 1) * n
    for k in range(K):
        for e in range(n):
            Q[k * n + e] = slopes[e] * Y[k * to_k + sources[e]]


@inner
def list_terms(lines, places, starts, terms):
    """The numbers of the list that one input pixel is made of, and the rows of the kernel that they are multiplied with."""
    apart()
    n, numbers, rows = 0, terms[0], terms[1]
    for a in range(len(lines)):
        row, first = lines[a, 2], starts[lines[a, 0]]
        m = starts[lines[a, 1]] - first
        for e in range(m):
            numbers[n + e] = first + e
            rows[n + e] = row + places[first + e]
        n += m
    return n


# --- pooling -----------------------------------------------------------------------------------------------------------------


@inner
def means(Z, z, layer, first, last, X, at, to_row, to_col):
    """X[r, c] = the mean of a 2 × 2 block of Z, all channels, for first ≤ r < last. Twin of models.avg_pool."""
    apart()
    wide, cols, quarter = layer[WIDE], layer[COLS], fill4(0.25)
    for r in range(first, last):
        for c in range(cols):
            p, x = z + (4 * r * cols + 2 * c) * wide, at + r * to_row + c * to_col
            s = p + 2 * cols * wide
            for o in range(0, layer[C_OUT], 4):
                a = muladd(fill4(0.0), quarter, load4(Z, p + o))
                a = muladd(a, quarter, load4(Z, p + wide + o))
                a = muladd(a, quarter, load4(Z, s + o))
                store4(X, x + o, muladd(a, quarter, load4(Z, s + wide + o)))


@inner
def spread_out(Y, y, to_y, D, layer, blocks, kh, kw, i, Z, E):
    """δ = act' · Y/4, the transpose of activation and pooling: in panels in Z and, for the transpose of layer i > 0, as an image in E."""
    apart()
    wide, n, cols, zero, quarter = layer[WIDE], layer[N_WINDOWS], 2 * layer[COLS], fill4(0.0), fill4(0.25)
    to_row = (layer[WIDTH] + kw - 1) * wide
    corner = layer[DELTA] + (kh - 1 - (kh - 1) // 2) * to_row + (kw - 1 - (kw - 1) // 2) * wide
    for p in range(n):
        s, d, e = y + blocks[p] * to_y, layer[SLOPE] + p * wide, corner + p // cols * to_row + p % cols * wide
        for o in range(0, layer[C_OUT], 4):
            v = muladd(zero, muladd(zero, quarter, load4(Y, s + o)), load4(D, d + o))
            store4(Z, o // 8 * 8 * n + o % 8 + 8 * p, v)
            if i > 0:
                store4(E, e + o, v)


# --- the network -------------------------------------------------------------------------------------------------------------


@inner
def load(x, X, to):
    """The image x, flat in C order, into the input of the first layer."""
    apart()
    n = to[WIDTH] * to[C_IN]
    for i in range(to[HEIGHT]):
        p = to[AT] + to[INSIDE] + i * to[TO_ROW]
        for j in range(n):
            X[p + j] = x[i * n + j]


@inner
def pack(theta, layer, B):
    """The kernel and the bias of a layer from θ, in rows of c_out numbers, into panels of 8 columns."""
    apart()
    c_out, n = layer[C_OUT], layer[N_TAPS] + 1
    for o in range(0, c_out, 8):
        k, b = layer[KERNEL] + o, layer[PACKED] + o * n
        if o + 8 <= c_out:
            for t in range(n):
                store4(B, b + 8 * t, load4(theta, k + t * c_out))
                store4(B, b + 8 * t + 4, load4(theta, k + t * c_out + 4))
        else:
            for t in range(n):
                for j in range(c_out - o):
                    B[b + 8 * t + j] = theta[k + t * c_out + j]


@inner
def turn(theta, layer, n, B):
    """The kernel of a layer for the transpose, in panels: [a, b, c, o] goes to [last − a, last − b, o, c], n = number of all (a, b)."""
    apart()
    c_in, c_out, b = layer[C_IN], layer[C_OUT], layer[TURNED]
    for i in range(n):
        k = layer[KERNEL] + i * c_in * c_out
        for c in range(c_in):
            to = b + (c // 8 * n + n - 1 - i) * 8 * c_out + c % 8
            for o in range(c_out):
                B[to + 8 * o] = theta[k + c * c_out + o]


@inner
def unpack(Q, layer, first, last, out, at):
    """∂/∂K of some taps from rows of ``wide`` numbers into the row of out that begins at ``at``."""
    apart()
    c_out, wide, k = layer[C_OUT], layer[WIDE], at + layer[KERNEL]
    for t in range(first, last):
        if c_out == wide:
            for o in range(0, c_out, 4):
                store4(out, k + t * c_out + o, load4(Q, t * wide + o))
        else:
            for o in range(c_out):
                out[k + t * c_out + o] = Q[t * wide + o]


@inner
def bend(code, z, h, d):
    """h = act(z), d = act'(z)."""
    apart()
    activate(code, z, h, d)


@inner
def dense_layer(theta, at, x, z):
    """z = W x + b, W and then b in θ from ``at`` on. Twin of models._affine."""
    apart()
    affine(theta, at, len(x), x, 0, len(z), 1, z)


@inner
def dense_row(g, h, here, n, at, a, z, to):
    """networks.outer."""
    apart()
    outer(g, 0, len(g), h, here, n, 1, at, a, z, to)


@inner
def dense_squares(s, h, here, n, at, a, z, to):
    """networks.outer_squares."""
    apart()
    outer_squares(s, 0, len(s), h, here, n, 1, at, a, z, to)


@inner
def sums_of(delta, c, w, e, s):
    """networks.combine."""
    apart()
    combine(delta, c, w, e, s)


@inner
def _prepare(net, theta, work, i):
    """The kernel of layer i, as the convolution and its transpose read it."""
    apart()
    pack(theta, net.layers[i], work.B)
    if i > 0:
        turn(theta, net.layers[i], net.kernel[0] * net.kernel[1], work.B)


@inner
def _layer_forward(net, work, i, k, n):
    """Part k of n of layer i, after :func:`_prepare`: some rows of its output."""
    apart()
    layer, to, X, B, Z, D, Q = net.layers[i], net.layers[i + 1], work.X, work.B, work.Z, work.D, work.Q
    T, wide, d, b, S = layer[N_TAPS], layer[WIDE], layer[SLOPE], layer[PACKED], layer[POOLED]
    if to[TO_COL] % 4:  # a pixel's last vector reaches into the next pixel, which must come later: one part has all
        k, n = (0, 1) if k == 0 else (1, 1)
    low, high, panel = layer[ROWS] * k // n, min(layer[ROWS], layer[ROWS] * (k + 1) // n), 8 * (T + 1)
    p, z = 4 * low * layer[COLS], 4 * high * layer[COLS]
    windows, taps = net.windows[layer[WINDOWS] + p :], net.taps[layer[TAPS] :]
    correlate(X, layer[AT], windows, z - p, taps, net.eights, T, B, b, panel, wide, B, b + 8 * T, panel, Z, p * wide, wide)
    bend(net.code, Z[p * wide : z * wide], Q[p * wide : z * wide], D[d + p * wide : d + z * wide])  # not in place: no vectors
    means(Q, np.int64(0), layer, low, high, X, to[AT] + to[INSIDE], to[TO_ROW], to[TO_COL])
    means(D, d, layer, low, high, work.S, S, layer[COLS] * wide, wide)


@inner
def _outputs(net, theta, work, o):
    """The two dense layers."""
    apart()
    W, at, h = net.dense, net.layers[len(net.layers) - 1, AT], work.h
    dense_layer(theta, W, work.X[at : at + net.n_flat], h)
    bend(net.code, h, h, work.d)
    dense_layer(theta, W + net.hidden * (net.n_flat + 1), h, o)


@inlined
def conv_forward(net, theta, x, work, o):
    """o (C,) = f(θ, x); the workspace keeps what a sweep needs. Twin of models._cnn."""
    load(x, work.X, net.layers[0])
    for i in range(len(net.layers) - 1):
        _prepare(net, theta, work, i)
        _layer_forward(net, work, i, 0, 1)
    _outputs(net, theta, work, o)


@inlined
def conv_sweep(net, theta, x, work, V, out):
    """out (K, P) = the rows V_k · ∂f/∂θ, after :func:`conv_forward` at the same θ and x. Twin of Model.vjp."""
    at, n, W = net.layers[len(net.layers) - 1, AT], net.n_flat, net.dense
    U = W + net.hidden * (n + 1)
    _sweep(net, theta, work, V, 0, len(V))
    for k in range(len(V)):
        _kernel_row(work.R[k], out[k])
        dense_row(work.G[k], work.X, at, n, W, 0, out.shape[1], out[k])
        dense_row(V[k], work.h, 0, net.hidden, U, 0, out.shape[1], out[k])


@inlined
def conv_turns(net, K):
    """networks.turns of a Conv."""
    n = len(net.layers) - 1
    return n, n * K if K < SEVERAL else 1


@inlined
def conv_before(net, theta, x, work, V, K, i, o):
    """networks.before of a Conv."""
    n = len(net.layers) - 1
    if i < n:
        if i == 0:
            load(x, work.X, net.layers[0])
        _prepare(net, theta, work, i)
    if i == n:
        _outputs(net, theta, work, o)
    if i > n and K < SEVERAL:
        j = i - n - 1
        if j == 0:
            _keep(V, 0, K, work.V)
            _dense_sweep(net, theta, work, V, 0, K)
        _spread(net, work, n - 1 - j // K, 0, j % K)


@inlined
def conv_share(net, theta, work, V, K, i, k, parts):
    """networks.share of a Conv."""
    n = len(net.layers) - 1
    if i < n:
        _layer_forward(net, work, i, k, parts)
    elif K < SEVERAL:
        _layer_back(net, work, n - 1 - (i - n) // K, 0, (i - n) % K, k, parts)
    else:
        conv_pull(net, theta, work, V, K * k // parts, K * (k + 1) // parts)


@inner
def _keep(V, a, z, to):
    """Rows a to z of V."""
    apart()
    for k in range(a, z):
        for i in range(V.shape[1]):
            to[k, i] = V[k, i]


@inlined
def conv_pull(net, theta, work, V, a, z):
    """networks.pull of a Conv."""
    _keep(V, a, z, work.V)
    _sweep(net, theta, work, V, a, z)


@inlined
def conv_gather(net, work, K, c, w):
    """networks.gather of a Conv."""
    H = net.hidden
    if K > 1:
        sums_of(work.G[:K], c, w, work.e[:H], work.s[:H])
        sums_of(work.V[:K], c, w, work.e[H:], work.s[H:])


@inlined
def conv_part(net, work, K, c, w, a, z, g, d):
    """networks.part of a Conv."""
    W, H, n, at = net.dense, net.hidden, net.n_flat, net.layers[len(net.layers) - 1, AT]
    U = W + H * (n + 1)
    if a < W:
        _kernel_part(work.R, K, c, w, a, min(z, W), g, d)
    e, s = work.e, work.s
    dense_row(e[:H] if K > 1 else work.G[0], work.X, at, n, W, a, z, g)
    dense_row(e[H:] if K > 1 else work.V[0], work.h, 0, H, U, a, z, g)
    if K > 1:
        dense_squares(s[:H], work.X, at, n, W, a, z, d)
        dense_squares(s[H:], work.h, 0, H, U, a, z, d)


@inner
def _kernel_row(row, out):
    apart()
    for p in range(len(row)):
        out[p] = row[p]


@inner
def _kernel_part(R, K, c, w, a, z, g, d):
    """networks.part before the dense layers, where the rows are written down."""
    apart()
    n, row = z - a, R[0, a:z]
    for p in range(n):
        g[p] = row[p]
    if K > 1:
        for p in range(n):
            g[p], d[p] = c[0] * row[p], -(w[0] * row[p]) * (w[0] * row[p])
        for k in range(1, K):
            row, f, s = R[k, a:z], c[k], w[k]
            for p in range(n):
                g[p] += f * row[p]
                d[p] -= (s * row[p]) * (s * row[p])


@inner
def _sweep(net, theta, work, V, first, last):
    """R and G for the cotangents V_first, …, V_{last − 1}."""
    apart()
    L, X, B, Z, D, Q = net.layers, work.X, work.B, work.Z, work.D, work.Q
    K, kh, kw, zero, none, rows = last - first, net.kernel[0], net.kernel[1], work.zero, np.int64(0), work.rows
    numbers, entries, terms, P = flat(work.R[first:last]), work.entries, work.terms, net.dense
    _dense_sweep(net, theta, work, V, first, last)
    Y, to_k, to_y = work.F, net.n_flat, L[len(L) - 1, C_IN]  # cotangents of a pooled image: strides between them and between pixels
    for i in range(len(L) - 2, -1, -1):
        layer, into = L[i], work.Y[i % 2]
        deep, turned, pixels, panel = layer[DEEP], layer[TURNED], layer[HEIGHT] * layer[WIDTH], 8 * kh * kw * layer[C_OUT]
        if K < SEVERAL:
            for k in range(K):
                _spread(net, work, i, first, k)
                _layer_back(net, work, i, first, k, 0, 1)
        else:
            blocks, taps = net.blocks[layer[WINDOWS] :], net.taps[layer[TAPS] :]
            bias_rows(Y, to_k, to_y, K, work.S, layer, Z, numbers, P)
            pack_cotangents(Y, to_k, to_y, K, layer, Q)
            shared_products(X, layer, taps, D, Q, K, Z, numbers, P)
            if i > 0:
                m = list_slopes(D, layer, blocks, to_y, entries, work.slopes, work.starts)
                list_values(Y, to_k, K, entries[1], work.slopes, m, Q, rows)
                for p in range(pixels):
                    t = list_terms(net.lines[layer[LINES] + p], entries[0], work.starts, terms)
                    to, to_z = p * deep, pixels * deep
                    correlate(Q, none, rows, K, terms[0], terms[1], t, B, turned, panel, deep, zero, none, none, into, to, to_z)
        Y, to_k, to_y = into, pixels * deep, deep


@inner
def _spread(net, work, i, first, k):
    """δ of layer i and the gradient in its bias for one cotangent, number k of those from ``first`` on."""
    apart()
    layer, after, blocks = net.layers[i], net.layers[i + 1], net.blocks[net.layers[i, WINDOWS] :]
    last = i == len(net.layers) - 2
    to_y = after[C_IN] if last else after[DEEP]
    y = k * (net.n_flat if last else after[HEIGHT] * after[WIDTH] * after[DEEP])
    Y = work.F if last else work.Y[(i + 1) % 2]
    bias_rows(Y[y:], 0, to_y, 1, work.S, layer, work.Z, work.R[first + k], 0)
    spread_out(Y, y, to_y, work.D, layer, blocks, net.kernel[0], net.kernel[1], i, work.Z, work.E)


@inner
def _layer_back(net, work, i, first, k, part, parts):
    """One part of layer i for one cotangent, after :func:`_spread`: the gradient in some taps, and the cotangent of some pixels."""
    apart()
    layer, zero, none, eights, Q = net.layers[i], work.zero, np.int64(0), net.eights, work.Q
    n, T, wide, deep, pixels = layer[N_WINDOWS], layer[N_TAPS], layer[WIDE], layer[DEEP], layer[HEIGHT] * layer[WIDTH]
    low, high = _sixes(T, part, parts)
    rows, columns, to = net.taps[layer[TAPS] + low :], net.windows[layer[WINDOWS] :], low * wide
    correlate(work.X, layer[AT], rows, high - low, columns, eights, n, work.Z, none, 8 * n, wide, zero, none, none, Q, to, wide)
    unpack(Q, layer, low, high, work.R[first + k], none)
    if i > 0:
        low, high = _sixes(pixels, part, parts)
        rows, columns, to = net.windows[layer[BACK_WINDOWS] + low :], net.taps[layer[BACK_TAPS] :], (k * pixels + low) * deep
        size, into = net.kernel[0] * net.kernel[1] * layer[C_OUT], work.Y[i % 2]
        B, b = work.B, layer[TURNED]
        correlate(work.E, layer[DELTA], rows, high - low, columns, eights, size, B, b, 8 * size, deep, zero, none, none, into, to, deep)


@inner
def _sixes(n, part, parts):
    """Where a part of range(n) begins and ends, at multiples of 6 except for the last end."""
    first = 6 * (-(-n // 6) * part // parts)
    last = 6 * (-(-n // 6) * (part + 1) // parts)
    return first, min(n, last)


@inner
def _dense_sweep(net, theta, work, V, first, last):
    """The two dense layers, for some of the cotangents: G, and F, the cotangents of their input."""
    apart()
    H, n, W, K, F, G = net.hidden, net.n_flat, net.dense, last - first, work.F, work.G
    U = W + H * (n + 1)
    for k in range(first, last):
        transposed(theta, U, V[k], G[k])
        for i in range(H):
            G[k, i] *= work.d[i]
    if K < SEVERAL or n % 8:
        for k in range(K):
            transposed(theta, W, G[first + k], F[k * n : k * n + n])
    else:
        numbers, places, zero = work.terms[0], work.terms[1], np.int64(0)
        for i in range(len(work.rows)):
            work.rows[i] = (first + min(i, K - 1)) * H
        for i in range(H):
            numbers[i], places[i] = i, i * n
        correlate(flat(G), zero, work.rows, K, numbers, places, H, theta, W, 8, n, work.zero, zero, zero, F, zero, n)


@inner
def transposed(theta, at, g, v):
    """v = Wᵀ g, W in θ from ``at`` on. Twin of numpy.matmul."""
    apart()
    affine_transposed(theta, at, len(v), g, 0, len(g), v)

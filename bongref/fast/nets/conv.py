"""The CNN: convolutions (SAME), activation and 2 × 2 average pooling, then two dense layers. Reference: models._cnn, Model.vjp.

An image is kept pixel by pixel, the channels of a pixel together, with zeros around it. The windows of all output pixels are copied
into the rows of a matrix, so that a convolution is a product with the kernel (taps, c_out), its gradient in the kernel the product of
the transposed windows with the cotangents δ, and its gradient in the input δ times the transposed kernel, added to the windows' places.
The dense layers, the head, are those of dense.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..elementary import padded
from ..generic import implement
from ..jit import U, device
from .activations import CODES, activate
from .dense import (
    DELTA,
    add_cotangents,
    add_outers,
    cotangents,
    from_sizes,
    outers,
    run_layers,
    sums_of_outers,
    transposed,
)
from .interface import accumulate, forward, pullback, sums

# the columns of the table: sizes of the input and the output; places in v of the image, the windows and the slopes, and in θ of the
# kernel and the bias; where the output goes, with the step from row to row there
HEIGHT, WIDTH, C_IN, C_OUT, IMAGE, WINDOWS, SLOPES, KERNEL, BIAS, NEXT, LINE = range(11)


class Conv(NamedTuple):
    """Convolutions and the dense layers after them, with a table ``ints``: a row for each convolution, then two of the dense layers.

    v begins with the images (inputs of the convolutions with zeros around them, which are written once), the windows, the slopes; then
    Z and H, what a convolution gives before and after its activation and the cotangents there, and scratch; BACK the cotangents of
    windows, ROW a row of the kernels, and the regions of the head, whose first one begins with the flat output of the convolutions.
    """

    size: np.uint64
    depth: int  # convolutions
    kernel: np.uint64  # height
    width: np.uint64  # of the kernel
    code: int  # of the activation
    at: np.uint64  # place of the head in θ
    z: np.uint64  # places in v
    widest: np.uint64  # numbers of Z, of H, and of each of three arrays of scratch
    back: np.uint64
    row: np.uint64
    head: np.uint64
    total: np.uint64  # of the head: see Dense
    broad: np.uint64


def describe(model: Any) -> tuple[Conv, Any]:
    """A model made by ``models.cnn`` as numbers, and its table."""
    spec, place = model.spec, {p.name: p.where.start for p in model.layout}
    (height, width, c), (kh, kw) = spec["in_shape"], spec["kernel"]
    rows: list[list[int]] = []
    end, largest = 0, 0
    for i, c_out in enumerate(spec["features"]):
        rows.append([height, width, c, c_out, end, 0, 0, place[f"K{i}"], place[f"b{i}"], 0, 0])
        end += (height + kh - 1) * (width + kw - 1) * c
        height, width, c = height // 2, width // 2, c_out
    for r in rows:
        pixels = r[HEIGHT] * r[WIDTH]
        r[WINDOWS], r[SLOPES] = end, end + pixels * kh * kw * r[C_IN]
        end, largest = (
            r[SLOPES] + padded(pixels * r[C_OUT]),
            max(largest, pixels * kh * kw * r[C_IN]),
        )
    code, n = CODES[spec["activation"]], len(rows)
    z, widest = end, padded(max(r[HEIGHT] * r[WIDTH] * r[C_OUT] for r in rows))
    back, at = z + 5 * widest, place[f"W{n}"]
    row, head = back + largest, back + largest + at
    dense, layers = from_sizes([height * width * c, spec["hidden"], spec["n_outputs"]], True, code)
    for r, after in zip(rows, [*rows[1:], None], strict=True):
        if after is None:
            r[NEXT], r[LINE] = head, width * c
        else:
            r[LINE] = (after[WIDTH] + kw - 1) * after[C_IN]
            r[NEXT] = after[IMAGE] + (kh - 1) // 2 * r[LINE] + (kw - 1) // 2 * after[C_IN]
    table = np.zeros((n + 2, 11), np.uint64)
    table[:n], table[n:, :3] = rows, layers
    integers = at, z, widest, back, row, head, dense.total, dense.widest
    return Conv(U(head) + dense.size, n, U(kh), U(kw), code, *(U(k) for k in integers)), table


# --- forward -------------------------------------------------------------------------------------------------------------------


@device
def load_image(layer, kh, kw, x, v):
    """The input x into the middle of its image."""
    c, row = layer[C_IN], layer[WIDTH] * layer[C_IN]
    line = (layer[WIDTH] + kw - U(1)) * c
    at = layer[IMAGE] + (kh - U(1)) // U(2) * line + (kw - U(1)) // U(2) * c
    for i in range(layer[HEIGHT]):
        to, source = at + i * line, i * row
        for j in range(row):
            v[to + j] = x[source + j]


@device
def copy_windows(layer, kh, kw, v):
    """The windows of all output pixels, one row each: (a, b, c) in C order."""
    c, run, to = layer[C_IN], kw * layer[C_IN], layer[WINDOWS]
    line = (layer[WIDTH] + kw - U(1)) * c
    for i in range(layer[HEIGHT]):
        for j in range(layer[WIDTH]):
            source = layer[IMAGE] + i * line + j * c
            for a in range(kh):
                for k in range(run):
                    v[to + k] = v[source + a * line + k]
                to += run


@device
def add_bias(v, first, pixels, theta, at, c):
    """The (pixels, c) numbers from v[first] on += b."""
    for p in range(pixels):
        to = first + p * c
        for o in range(c):
            v[to + o] += theta[at + o]


@device
def pool(layer, v, first):
    """2 × 2 means of the numbers from v[first] on, to where the next layer reads them."""
    c, wide = layer[C_OUT], layer[WIDTH] * layer[C_OUT]
    for i in range(layer[HEIGHT] // U(2)):
        for j in range(layer[WIDTH] // U(2)):
            to, up = layer[NEXT] + i * layer[LINE] + j * c, first + U(2) * i * wide + U(2) * j * c
            down = up + wide
            for o in range(c):
                v[to + o] = 0.25 * ((v[up + o] + v[up + c + o]) + (v[down + o] + v[down + c + o]))


@device
def matrix(a, at, m, n):
    """The (m, n) matrix that begins at a[at]."""
    return a[at : at + m * n].reshape((np.int64(m), np.int64(n)))


@implement(forward, Conv)
def conv_forward(net, ints, v, words, theta, x, o):
    """v[o:] = f(θ, x)."""
    z, m = net.z, net.widest
    load_image(ints[0], net.kernel, net.width, x, v)
    for k in range(net.depth):
        layer = ints[k]
        pixels, taps, c = (
            layer[HEIGHT] * layer[WIDTH],
            net.kernel * net.width * layer[C_IN],
            layer[C_OUT],
        )
        copy_windows(layer, net.kernel, net.width, v)
        np.dot(
            matrix(v, layer[WINDOWS], pixels, taps),
            matrix(theta, layer[KERNEL], taps, c),
            matrix(v, z, pixels, c),
        )
        add_bias(v, z, pixels, theta, layer[BIAS], c)
        activate(
            net.code,
            v,
            words,
            z,
            z + m,
            layer[SLOPES],
            z + m + m,
            m,
            (pixels * c + U(7)) // U(8) * U(8),
        )
        pool(layer, v, z + m)
    layers = ints[net.depth :, :3]
    out = run_layers(
        layers, v, words, theta, net.at, net.total, net.broad, U(1), net.code, net.head
    )
    for i in range(layers[0, 2]):
        v[o + i] = v[out + i]


# --- back ----------------------------------------------------------------------------------------------------------------------


@device
def unpool(layer, v, y, delta):
    """δ (pixels, c) from v[delta] on = act'(z) · y/4 with the cotangents y of the pooled pixels; 0 in an odd last row or column."""
    c, cols, width = layer[C_OUT], layer[WIDTH] // U(2), layer[WIDTH]
    if layer[HEIGHT] % U(2) + width % U(2) > U(0):
        for i in range(layer[HEIGHT] * width * c):
            v[delta + i] = 0.0
    for i in range(layer[HEIGHT] // U(2) * U(2)):
        for j in range(cols * U(2)):
            to, source = (i * width + j) * c, y + ((i // U(2)) * cols + j // U(2)) * c
            for o in range(c):
                v[delta + to + o] = 0.25 * v[layer[SLOPES] + to + o] * v[source + o]


@device
def add_windows(layer, kh, kw, v, back, y):
    """y (pixels, c_in) from v[y] on = the sums of the cotangents of the windows that a pixel is in."""
    c, width, height, to = layer[C_IN], layer[WIDTH], layer[HEIGHT], back
    above, left = (kh - U(1)) // U(2), (kw - U(1)) // U(2)
    for i in range(height * width * c):
        v[y + i] = 0.0
    for i in range(height):
        for j in range(width):
            first = (
                left - j if j < left else U(0)
            )  # of the windows' columns, the first and the last in the image
            last = min(kw, width + left - j)
            for a in range(kh):
                if above <= i + a < height + above:
                    here, start = (
                        y + ((i + a - above) * width + (j + first - left)) * c,
                        to + first * c,
                    )
                    for k in range((last - first) * c):
                        v[here + k] += v[start + k]
                to += kw * c


@device
def kernel_row(net, ints, v, theta, row):
    """row = the cotangents of all kernels and biases, for the cotangent of the input of the head, at H."""
    z, y = net.z, net.z + net.widest
    for k in range(net.depth - 1, -1, -1):
        layer = ints[k]
        pixels, taps, c = (
            layer[HEIGHT] * layer[WIDTH],
            net.kernel * net.width * layer[C_IN],
            layer[C_OUT],
        )
        unpool(layer, v, y, z)
        delta, at, b = matrix(v, z, pixels, c), layer[KERNEL], layer[BIAS]
        np.dot(matrix(v, layer[WINDOWS], pixels, taps).T, delta, matrix(row, at, taps, c))
        for o in range(c):
            row[b + o] = 0.0
        for p in range(pixels):
            for o in range(c):
                row[b + o] += v[z + p * c + o]
        if k > 0:
            np.dot(delta, matrix(theta, at, taps, c).T, matrix(v, net.back, pixels, taps))
            add_windows(layer, net.kernel, net.width, v, net.back, y)


@device
def pull_head(net, layers, v, theta, V):
    """The cotangents in the head for those of the outputs, at v[V]; H = that of its input."""
    T = net.total
    cotangents(layers, v, theta, T, U(1), net.head, V)
    transposed(
        theta,
        net.at,
        v,
        net.head + DELTA * T + layers[1, 1],
        layers[0, 0],
        layers[0, 1],
        v,
        net.z + net.widest,
    )


@implement(pullback, Conv)
def conv_pullback(net, ints, v, words, theta, V, K, rows):
    """rows (K, P) = V_k ∂f/∂θ."""
    layers = ints[net.depth :, :3]
    for k in range(K):
        pull_head(net, layers, v, theta, V + k * layers[0, 2])
        kernel_row(net, ints, v, theta, rows[k])
        outers(layers, v, U(1), net.head + DELTA * net.total, net.head, rows[k], net.at)


@device
def add_row(v, row, n, first, c, w, g, d):
    """g += c r and d −= (w r)² of the n numbers r from v[row] on, or = where this is the first row."""
    for p in range(n):
        r = v[row + p]
        g[p] = c * r if first else g[p] + c * r
        d[p] = -(w * r) * (w * r) if first else d[p] - (w * r) * (w * r)


@implement(sums, Conv)
def conv_sums(net, ints, v, words, theta, V, K, c, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)²; of the rows r_k = V_k ∂f/∂θ only the kernels' part is written."""
    layers = ints[net.depth :, :3]
    for k in range(K):
        pull_head(net, layers, v, theta, V + k * layers[0, 2])
        kernel_row(net, ints, v, theta, v[net.row : net.row + net.at])
        add_row(v, net.row, net.at, k == 0, v[c + k], v[c + K + k], g, d)
        add_cotangents(v, net.total, net.head, k == 0, v[c + k], v[c + K + k])
    sums_of_outers(layers, v, net.total, U(1), net.head, g, d, net.at)


@implement(accumulate, Conv)
def conv_accumulate(net, ints, v, words, theta, V, g, d):
    """g += r and d −= r² of the row r = V_0 ∂f/∂θ."""
    layers = ints[net.depth :, :3]
    pull_head(net, layers, v, theta, V)
    kernel_row(net, ints, v, theta, v[net.row : net.row + net.at])
    add_row(v, net.row, net.at, False, 1.0, 1.0, g, d)
    add_outers(layers, v, U(1), net.head + DELTA * net.total, net.head, g, d, net.at)

"""The CNN: convolutions (SAME), activation and 2 × 2 average pooling, then two dense layers. Reference: models._cnn, Model.vjp.

An image is kept pixel by pixel, the channels of a pixel together, with zeros around it. The windows of all output pixels are copied
into the rows of a matrix, so that a convolution is a product with the kernel (taps, c_out), its gradient in the kernel the product of
the transposed windows with the cotangents δ, and its gradient in the input δ times the transposed kernel, added to the windows' places.
The dense layers are a :class:`~bongref.fast.nets.dense.Dense` of their own, the head.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..elementary import padded
from ..generic import implement
from ..jit import U, device
from . import dense
from .activations import CODES, activate
from .dense import DELTA, Dense, DenseWork, add_cotangents, add_outers, cotangents, outers, sums_of_outers, transposed
from .interface import accumulate, forward, pullback, sums

COLUMNS = ("height", "width", "c_in", "c_out", "image", "windows", "values", "kernel", "bias", "next")
HEIGHT, WIDTH, C_IN, C_OUT, IMAGE, WINDOWS, VALUES, KERNEL, BIAS, NEXT = range(len(COLUMNS))


class Conv(NamedTuple):
    """Convolutions, and the dense layers after them."""

    layers: Any  # (L, columns) uint64: sizes of the input; places in ConvWork.images, .windows, .values and in θ; next: of the output
    kernel: Any  # (4,) uint64: height, width, and the zeros above and to the left
    code: int  # of the activation
    at: np.uint64  # place of the head in θ
    z: np.uint64  # place of Z in ConvWork.values
    widest: np.uint64  # numbers of Z, of H, and of each of three arrays of scratch
    head: Dense


class ConvWork(NamedTuple):
    """Buffers. The zeros around the images are written once."""

    images: Any  # inputs of all convolutions, with zeros around them; then the input of the head
    windows: Any  # the windows of all convolutions
    values: Any  # derivatives of all activations; before an activation (Z) and after it (H), then cotangents there; scratch
    words: Any  # values.view(int64)
    back: Any  # cotangents of the windows
    kernel: Any  # a gradient in a kernel
    flat: Any  # cotangent of the input of the head
    row: Any  # (1, numbers before the head): a row
    head: DenseWork


def describe(model: Any) -> Conv:
    """A model made by ``models.cnn`` as numbers."""
    spec, place = model.spec, {p.name: p.where.start for p in model.layout}
    (height, width, c), (kh, kw) = spec["in_shape"], spec["kernel"]
    rows, image, windows, values = [], 0, 0, 0
    n = len(spec["features"])
    for i, c_out in enumerate(spec["features"]):
        size = (height + kh - 1) * (width + kw - 1) * c
        rows.append([height, width, c, c_out, image, windows, values, place[f"K{i}"], place[f"b{i}"], image + size])
        image, windows, values = image + size, windows + height * width * kh * kw * c, values + padded(height * width * c_out)
        height, width, c = height // 2, width // 2, c_out
    sizes = [height * width * c, spec["hidden"], spec["n_outputs"]]
    code = CODES[spec["activation"]]
    head = dense.from_sizes(sizes, True, code)
    kernel = np.array([kh, kw, (kh - 1) // 2, (kw - 1) // 2], np.uint64)
    widest = padded(max(r[HEIGHT] * r[WIDTH] * r[C_OUT] for r in rows))
    return Conv(np.array(rows, np.uint64), kernel, code, U(place[f"W{n}"]), U(values), U(widest), head)


def workspace(net: Conv) -> ConvWork:
    """Buffers for a forward pass and cotangents."""
    L = net.layers.astype(int)
    pixels, taps = L[:, HEIGHT] * L[:, WIDTH], int(net.kernel[0] * net.kernel[1]) * L[:, C_IN]
    values, flat = np.zeros(int(net.z) + 5 * int(net.widest)), int(net.head.layers[0, 0])
    images, windows = np.zeros(int(L[-1, NEXT]) + flat), np.zeros(int(np.sum(pixels * taps)))
    back, kernel = np.zeros(int(np.max(pixels * taps))), np.zeros(int(np.max(taps * L[:, C_OUT])))
    row = np.zeros((1, int(net.at)))
    return ConvWork(images, windows, values, values.view(np.int64), back, kernel, np.zeros(flat), row, dense.workspace(net.head))


# --- forward -------------------------------------------------------------------------------------------------------------------


@device
def load_image(layer, kernel, x, images):
    """The input x into the middle of its image."""
    row = layer[WIDTH] * layer[C_IN]
    line = (layer[WIDTH] + kernel[1] - U(1)) * layer[C_IN]
    at = layer[IMAGE] + kernel[2] * line + kernel[3] * layer[C_IN]
    for i in range(layer[HEIGHT]):
        to, source = at + i * line, i * row
        for j in range(row):
            images[to + j] = x[source + j]


@device
def copy_windows(layer, kernel, images, windows):
    """The windows of all output pixels, one row each: (a, b, c) in C order."""
    c, run = layer[C_IN], kernel[1] * layer[C_IN]
    line = (layer[WIDTH] + kernel[1] - U(1)) * c
    to = layer[WINDOWS]
    for i in range(layer[HEIGHT]):
        for j in range(layer[WIDTH]):
            source = layer[IMAGE] + i * line + j * c
            for a in range(kernel[0]):
                for k in range(run):
                    windows[to + k] = images[source + a * line + k]
                to += run


@device
def add_bias(z, first, pixels, theta, at, c):
    """z (pixels, c), from z[first] on, += b."""
    for p in range(pixels):
        to = first + p * c
        for o in range(c):
            z[to + o] += theta[at + o]


@device
def pool(layer, kernel, last, h, first, images):
    """2 × 2 means of h, from h[first] on, into the middle of the next image, or flat after the last convolution."""
    c, rows, cols = layer[C_OUT], layer[HEIGHT] // U(2), layer[WIDTH] // U(2)
    line = cols * c if last else (cols + kernel[1] - U(1)) * c
    at = layer[NEXT] if last else layer[NEXT] + kernel[2] * line + kernel[3] * c
    wide = layer[WIDTH] * c
    for i in range(rows):
        for j in range(cols):
            to, up = at + i * line + j * c, first + U(2) * i * wide + U(2) * j * c
            down = up + wide
            for o in range(c):
                images[to + o] = 0.25 * ((h[up + o] + h[up + c + o]) + (h[down + o] + h[down + c + o]))


@device
def taps_of(layer, kernel):
    """The numbers of a window."""
    return kernel[0] * kernel[1] * layer[C_IN]


@device
def matrix(a, at, m, n):
    """The (m, n) matrix that begins at a[at]."""
    return a[at : at + m * n].reshape((np.int64(m), np.int64(n)))


@implement(forward, Conv)
def conv_forward(net, theta, x, work, o):
    """o = f(θ, x)."""
    last, v, z, m = len(net.layers) - 1, work.values, net.z, net.widest
    load_image(net.layers[0], net.kernel, x, work.images)
    for k in range(last + 1):
        layer = net.layers[k]
        pixels, taps, c = layer[HEIGHT] * layer[WIDTH], taps_of(layer, net.kernel), layer[C_OUT]
        copy_windows(layer, net.kernel, work.images, work.windows)
        windows, K = matrix(work.windows, layer[WINDOWS], pixels, taps), matrix(theta, layer[KERNEL], taps, c)
        np.dot(windows, K, matrix(v, z, pixels, c))
        add_bias(v, z, pixels, theta, layer[BIAS], c)
        n = (pixels * c + U(7)) // U(8) * U(8)
        activate(net.code, v, work.words, z, z + m, layer[VALUES], z + m + m, m, n)
        pool(layer, net.kernel, k == last, v, z + m, work.images)
    forward(net.head, theta[net.at :], work.images[net.layers[last, NEXT] :], work.head, o)


# --- back ----------------------------------------------------------------------------------------------------------------------


@device
def unpool(layer, slopes, y, delta):
    """δ (pixels, c) = act'(z) · y/4 with the cotangents y of the pooled pixels; 0 in an odd last row or column."""
    c, rows, cols, width = layer[C_OUT], layer[HEIGHT] // U(2), layer[WIDTH] // U(2), layer[WIDTH]
    if layer[HEIGHT] % U(2) + width % U(2) > U(0):
        delta[:] = 0.0
    for i in range(U(2) * rows):
        for j in range(U(2) * cols):
            to, source = (i * width + j) * c, ((i // U(2)) * cols + j // U(2)) * c
            at = layer[VALUES] + to
            for o in range(c):
                delta[to + o] = 0.25 * slopes[at + o] * y[source + o]


@device
def add_windows(layer, kernel, back, y):
    """y (pixels, c_in) = the sums of the cotangents of the windows that a pixel is in."""
    c, width, height, to = layer[C_IN], layer[WIDTH], layer[HEIGHT], U(0)
    y[: height * width * c] = 0.0
    for i in range(height):
        for j in range(width):
            for a in range(kernel[0]):
                if i + a < kernel[2] or i + a >= height + kernel[2]:
                    to += kernel[1] * c
                    continue
                first = kernel[3] - j if j < kernel[3] else U(0)  # of the windows' columns, the first and last in the image
                last = min(kernel[1], width + kernel[3] - j)
                here, start = ((i + a - kernel[2]) * width + (j + first - kernel[3])) * c, to + first * c
                for k in range((last - first) * c):
                    y[here + k] += back[start + k]
                to += kernel[1] * c


@device
def kernel_row(net, theta, work, flat, row):
    """row = the cotangents of all kernels and biases, for the cotangent ``flat`` of the input of the head."""
    v, z = work.values, net.z
    y = v[z + net.widest :]
    y[: len(flat)] = flat
    for k in range(len(net.layers) - 1, -1, -1):
        layer = net.layers[k]
        pixels, taps, c = layer[HEIGHT] * layer[WIDTH], taps_of(layer, net.kernel), layer[C_OUT]
        unpool(layer, v, y, v[z : z + pixels * c])
        delta, K = matrix(v, z, pixels, c), matrix(theta, layer[KERNEL], taps, c)
        np.dot(matrix(work.windows, layer[WINDOWS], pixels, taps).T, delta, matrix(work.kernel, U(0), taps, c))
        row[layer[KERNEL] : layer[KERNEL] + taps * c] = work.kernel[: taps * c]
        bias = row[layer[BIAS] : layer[BIAS] + c]
        bias[:] = 0.0
        for p in range(len(delta)):
            for o in range(len(bias)):
                bias[o] += delta[p, o]
        if k > 0:
            np.dot(delta, K.T, matrix(work.back, U(0), pixels, taps))
            add_windows(layer, net.kernel, work.back, y)


@device
def pull_head(net, theta, work, v):
    """The cotangents in the head for those of the outputs, v (C,); flat = that of its input."""
    head, layers, T = theta[net.at :], net.head.layers, net.head.total
    cotangents(layers, U(1), T, head, work.head.values, v)
    transposed(head, U(0), work.head.values, DELTA * T + layers[1, 1], layers[0, 0], layers[0, 1], work.flat, U(0))


@implement(pullback, Conv)
def conv_pullback(net, theta, x, work, V, rows):
    """rows (K, P) = V_k ∂f/∂θ."""
    for k in range(len(V)):
        pull_head(net, theta, work, V[k])
        kernel_row(net, theta, work, work.flat, rows[k])
        outers(net.head.layers, U(1), work.head.values, DELTA * net.head.total, U(0), rows[k], net.at)


@device
def add_row(first, row, c, w, g, d):
    """g += c r and d −= (w r)² of the beginning r of a row, or = where this is the first one."""
    for p in range(len(row)):
        r = row[p]
        g[p] = c * r if first else g[p] + c * r
        d[p] = -(w * r) * (w * r) if first else d[p] - (w * r) * (w * r)


@implement(sums, Conv)
def conv_sums(net, theta, x, work, V, c, w, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)²; of the rows r_k = V_k ∂f/∂θ only the kernels' part is written."""
    for k in range(len(V)):
        pull_head(net, theta, work, V[k])
        kernel_row(net, theta, work, work.flat, work.row[0])
        add_row(k == 0, work.row[0], c[k], w[k], g, d)
        add_cotangents(k == 0, work.head.values, net.head.total, c[k], w[k])
    sums_of_outers(net.head.layers, U(1), net.head.total, work.head.values, g, d, net.at)


@implement(accumulate, Conv)
def conv_accumulate(net, theta, x, work, v, g, d):
    """g += r and d −= r² of the row r = v ∂f/∂θ."""
    pull_head(net, theta, work, v)
    kernel_row(net, theta, work, work.flat, work.row[0])
    add_row(False, work.row[0], 1.0, 1.0, g, d)
    add_outers(net.head.layers, U(1), work.head.values, DELTA * net.head.total, g, d, net.at)

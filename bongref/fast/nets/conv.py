"""The CNN: convolutions (SAME), activation, 2 × 2 average pooling, then two dense layers.

Reference: models._cnn, Model.vjp. An image is kept pixel by pixel, the channels of one together,
with zeros around it. The windows of all output pixels are copied into the rows of a matrix, so that
a convolution is a product with the kernel (taps, c_out). Going back, the four pixels of a pooled
one share its cotangent: windows and kernels are added up, times the slopes there, before the
products.
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
    cotangents,
    from_sizes,
    outers,
    run_layers,
    sums_of_outers,
)
from .interface import accumulate, forward, pullback, sums

# the columns of the table: sizes of the input and the output; places in v of the image, the windows
# and the slopes, in θ of the kernel and the bias; where the output goes, and the step of its rows
HEIGHT, WIDTH, C_IN, C_OUT, IMAGE, WINDOWS, SLOPES, KERNEL, BIAS, NEXT, LINE = range(11)


class Conv(NamedTuple):
    """Convolutions and the dense layers after them.

    The table ``ints`` has a row for each convolution, then two of the dense layers. v begins with
    the images (inputs of the convolutions with zeros around them, which are written once), the
    windows, the slopes; then Z and H, what a convolution gives before and after its activation and
    scratch; BACK tables for the products that go back, ROW rows of the kernels for C
    cotangents, POOLED the cotangents of pooled pixels for all of them, IMAGES those of an image and
    zeros around it, and the regions of the head, which begins with the output of the convolutions.
    """

    size: np.uint64
    depth: int  # convolutions
    kernel: np.uint64  # height
    width: np.uint64  # of the kernel
    code: int  # of the activation
    at: np.uint64  # place of the head in θ
    z: np.uint64  # places in v
    widest: np.uint64  # numbers of Z and of H
    back: np.uint64
    row: np.uint64
    pooled: np.uint64
    images: np.uint64
    head: np.uint64
    total: np.uint64  # of the head: see Dense


def describe(model: Any) -> tuple[Conv, Any]:
    """A model made by ``models.cnn`` as numbers, and its table."""
    spec, place = model.spec, {p.name: p.where.start for p in model.layout}
    (height, width, c), (kh, kw) = spec["in_shape"], spec["kernel"]
    rows: list[list[int]] = []
    end, C, pooled_size = 0, spec["n_outputs"], 0
    back_size = C * spec["hidden"]
    for i, c_out in enumerate(spec["features"]):
        rows.append([height, width, c, c_out, end, 0, 0, place[f"K{i}"], place[f"b{i}"], 0, 0])
        end += (height + kh - 1) * (width + kw - 1) * c
        height, width, c = height // 2, width // 2, c_out
    for r in rows:
        pixels = r[HEIGHT] * r[WIDTH]
        r[WINDOWS], r[SLOPES] = end, end + pixels * kh * kw * r[C_IN]
        end = r[SLOPES] + padded(pixels * r[C_OUT])
        taps, Q, reach = kh * kw * r[C_IN], pixels // 4, (kh + 1) * (kw + 1) * r[C_IN]
        shared = (Q + C * r[C_OUT]) * padded(taps + 1) + C * Q
        placed = (4 + r[WIDTH] // 2) * r[C_OUT] * reach + C * reach
        back_size = max(back_size, shared, placed)
        pooled_size = max(pooled_size, C * Q * r[C_OUT])
    code, n = CODES[spec["activation"]], len(rows)
    z, widest = end, padded(max(r[HEIGHT] * r[WIDTH] * r[C_OUT] for r in rows))
    back, at = z + 2 * widest, place[f"W{n}"]
    row = back + back_size
    pooled = row + C * at
    images = pooled + pooled_size
    flat = height * width * c
    padding = [(r[HEIGHT] + kh - 1) * (r[WIDTH] + kw - 1) * r[C_IN] for r in rows]
    head = images + C * max(flat, *padding)
    dense, layers = from_sizes([flat, spec["hidden"], C], True, code)
    for r, after in zip(rows, [*rows[1:], None], strict=True):
        if after is None:
            r[NEXT], r[LINE] = head, width * c
        else:
            r[LINE] = (after[WIDTH] + kw - 1) * after[C_IN]
            r[NEXT] = after[IMAGE] + (kh - 1) // 2 * r[LINE] + (kw - 1) // 2 * after[C_IN]
    table = np.zeros((n + 2, 11), np.uint64)
    table[:n], table[n:, :3] = rows, layers
    integers = at, z, widest, back, row, pooled, images, head, dense.total
    return Conv(U(head) + dense.size, n, U(kh), U(kw), code, *(U(k) for k in integers)), table


# --- forward --------------------------------------------------------------------------------------


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
def copy_windows(layer, kw, high, broad, step, v):
    """The windows (high, broad, c) at every step-th pixel of the image, one row each in C order."""
    c, run, to = layer[C_IN], broad * layer[C_IN], layer[WINDOWS]
    line = (layer[WIDTH] + kw - U(1)) * c
    for i in range(layer[HEIGHT] // step):
        for j in range(layer[WIDTH] // step):
            source = layer[IMAGE] + step * (i * line + j * c)
            for a in range(high):
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


@device
def run_head(net, layers, v, theta, o):
    """v[o:] = the outputs of the dense layers."""
    out = run_layers(layers, v, theta, net.at, net.total, U(1), net.code, net.head)
    for i in range(layers[0, 2]):
        v[o + i] = v[out + i]


@implement(forward, Conv)
def conv_forward(net, ints, v, theta, x, o):
    """v[o:] = f(θ, x)."""
    z, m = net.z, net.widest
    load_image(ints[0], net.kernel, net.width, x, v)
    for k in range(net.depth):
        layer, c = ints[k], ints[k, C_OUT]
        pixels, taps = layer[HEIGHT] * layer[WIDTH], net.kernel * net.width * layer[C_IN]
        copy_windows(layer, net.width, net.kernel, net.width, U(1), v)
        windows, kernel = matrix(v, layer[WINDOWS], pixels, taps), layer[KERNEL]
        np.dot(windows, matrix(theta, kernel, taps, c), matrix(v, z, pixels, c))
        add_bias(v, z, pixels, theta, layer[BIAS], c)
        size = (pixels * c + U(7)) // U(8) * U(8)
        activate(net.code, v, z, z + m, layer[SLOPES], size)
        pool(layer, v, z + m)
    run_head(net, ints[net.depth :, :3], v, theta, o)


@device
def block_kernels(net, ints, theta, placed):
    """Of each convolution ((kh + 1)(kw + 1) c_in, 4 c_out): its kernel at the pixels of a block."""
    high, broad, at = net.kernel + U(1), net.width + U(1), U(0)
    for k in range(net.depth):
        layer, c, c_in = ints[k], ints[k, C_OUT], ints[k, C_IN]
        for j in range(high * broad * c_in * U(4) * c):
            placed[at + j] = 0.0
        for four in range(U(4)):
            for a in range(net.kernel):
                first = (four // U(2) + a) * broad * c_in + four % U(2) * c_in
                for j in range(net.width * c_in):
                    to = at + (first + j) * U(4) * c + four * c
                    source = layer[KERNEL] + (a * net.width * c_in + j) * c
                    for o in range(c):
                        placed[to + o] = theta[source + o]
        at += high * broad * c_in * U(4) * c


@device
def block_forward(net, ints, v, theta, placed, x, o):
    """v[o:] = f(θ, x), with block_kernels: four pixels of a pooled one are columns of a product."""
    z, h, at = net.z, net.z + net.widest, U(0)
    high, broad = net.kernel + U(1), net.width + U(1)
    load_image(ints[0], net.kernel, net.width, x, v)
    for k in range(net.depth):
        layer, c, cols = ints[k], ints[k, C_OUT], ints[k, WIDTH] // U(2)
        Q, n = layer[HEIGHT] // U(2) * cols, high * broad * layer[C_IN]
        copy_windows(layer, net.width, high, broad, U(2), v)
        windows = matrix(v, layer[WINDOWS], Q, n)
        np.dot(windows, matrix(placed, at, n, U(4) * c), matrix(v, z, Q, U(4) * c))
        at += U(4) * c * n
        add_bias(v, z, U(4) * Q, theta, layer[BIAS], c)
        size = (U(4) * Q * c + U(7)) // U(8) * U(8)
        activate(net.code, v, z, h, layer[SLOPES], size)
        for q in range(Q):
            to, f = layer[NEXT] + q // cols * layer[LINE] + q % cols * c, h + U(4) * q * c
            for i in range(c):
                up, down = v[f + i] + v[f + c + i], v[f + U(2) * c + i] + v[f + U(3) * c + i]
                v[to + i] = 0.25 * (up + down)
    run_head(net, ints[net.depth :, :3], v, theta, o)


# --- back -----------------------------------------------------------------------------------------


@device
def shared_products(net, layer, v, K, rows):
    """rows[:K] = the cotangents of a kernel and its bias for those of the pooled pixels, at POOLED.

    These are (pixel, k, channel). The four pixels of a pooled one share its cotangent, so that the
    windows, times act'(z)/4, are added before the product.
    """
    c, wide, cols, table = layer[C_OUT], layer[WIDTH], layer[WIDTH] // U(2), net.back
    taps = net.kernel * net.width * layer[C_IN]
    Q, n = layer[HEIGHT] // U(2) * cols, (taps + U(8)) // U(8) * U(8)
    one, product = table + Q * n, table + Q * n + K * Q
    for o in range(c):
        for q in range(Q):
            p, to = (q // cols * wide + q % cols) * U(2), table + q * n
            s, w0 = layer[SLOPES] + p * c + o, layer[WINDOWS] + p * taps
            w1, w2, w3 = w0 + taps, w0 + wide * taps, w0 + wide * taps + taps
            s0, s1 = 0.25 * v[s], 0.25 * v[s + c]
            s2, s3 = 0.25 * v[s + wide * c], 0.25 * v[s + wide * c + c]
            for j in range(taps):
                v[to + j] = (s0 * v[w0 + j] + s1 * v[w1 + j]) + (s2 * v[w2 + j] + s3 * v[w3 + j])
            for j in range(taps, n):
                v[to + j] = (s0 + s1) + (s2 + s3)
            for k in range(K):
                v[one + k * Q + q] = v[net.pooled + (q * K + k) * c + o]
        np.dot(matrix(v, one, K, Q), matrix(v, table, Q, n), matrix(v, product + o * K * n, K, n))
    for k in range(K):
        row, source = rows[k], product + k * n
        for j in range(taps):
            for o in range(c):
                row[layer[KERNEL] + j * c + o] = v[source + o * K * n + j]
        for o in range(c):
            row[layer[BIAS] + o] = v[source + o * K * n + taps]


@device
def place_kernels(layer, kh, kw, theta, v, placed):
    """placed (c_out, 4, kh + 1, kw + 1, c_in): the kernel at the four pixels of a block."""
    c, run, broad = layer[C_OUT], kw * layer[C_IN], (kw + U(1)) * layer[C_IN]
    n = (kh + U(1)) * broad
    for j in range(U(4) * c * n):
        v[placed + j] = 0.0
    for o in range(c):
        for four in range(U(4)):
            to = placed + (o * U(4) + four) * n + four // U(2) * broad + four % U(2) * layer[C_IN]
            for a in range(kh):
                for j in range(run):
                    v[to + a * broad + j] = theta[layer[KERNEL] + (a * run + j) * c + o]


@device
def image_cotangents(net, layer, v, theta, K):
    """The cotangents at POOLED become those of the pixels of the layer's input.

    A pooled pixel's cotangent reaches (kh + 1)(kw + 1) pixels, by the four kernels times act'(z)/4,
    which are added before the product.
    """
    c, c_in, wide, cols = layer[C_OUT], layer[C_IN], layer[WIDTH], layer[WIDTH] // U(2)
    kh, kw, placed, images, U4 = net.kernel, net.width, net.back, net.images, net.pooled
    broad, line = (kw + U(1)) * c_in, (wide + kw - U(1)) * c_in
    n, size = (kh + U(1)) * broad, (layer[HEIGHT] + kh - U(1)) * line
    table, product = placed + U(4) * c * n, placed + (U(4) + cols) * c * n
    place_kernels(layer, kh, kw, theta, v, placed)
    for j in range(K * size):
        v[images + j] = 0.0
    for i in range(layer[HEIGHT] // U(2)):
        for o in range(c):
            k0 = placed + o * U(4) * n
            k1, k2, k3 = k0 + n, k0 + U(2) * n, k0 + U(3) * n
            for q in range(cols):
                s, to = layer[SLOPES] + (i * wide + q) * U(2) * c + o, table + (q * c + o) * n
                s0, s1 = 0.25 * v[s], 0.25 * v[s + c]
                s2, s3 = 0.25 * v[s + wide * c], 0.25 * v[s + wide * c + c]
                for j in range(n):
                    v[to + j] = (s0 * v[k0 + j] + s1 * v[k1 + j]) + (
                        s2 * v[k2 + j] + s3 * v[k3 + j]
                    )
        for q in range(cols):
            kernels, u = matrix(v, table + q * c * n, c, n), U4 + (i * cols + q) * K * c
            np.dot(matrix(v, u, K, c), kernels, matrix(v, product, K, n))
            corner = images + U(2) * (i * line + q * c_in)
            for k in range(K):
                for a in range(kh + U(1)):
                    to, source = corner + k * size + a * line, product + k * n + a * broad
                    for j in range(broad):
                        v[to + j] += v[source + j]
    first = images + (kh - U(1)) // U(2) * line + (kw - U(1)) // U(2) * c_in
    for i in range(layer[HEIGHT]):
        for k in range(K):
            source, to = first + k * size + i * line, U4 + (i * wide * K + k) * c_in
            for j in range(wide):
                for o in range(c_in):
                    v[to + j * K * c_in + o] = v[source + j * c_in + o]


@device
def pull_head(net, layers, v, theta, V, k):
    """The cotangents in the head for those at v[V]; the hidden layer's are kept for kernel_rows."""
    m, here = layers[0, 1], net.head + DELTA * net.total + layers[1, 1]
    cotangents(layers, v, theta, net.total, U(1), net.head, V)
    for i in range(m):
        v[net.back + k * m + i] = v[here + i]


@device
def kernel_rows(net, ints, v, theta, K, rows):
    """rows[:K] = the cotangents of all kernels and biases, after pull_head for k < K <= C."""
    n, m, c = ints[net.depth, 0], ints[net.depth, 1], ints[net.depth - 1, C_OUT]
    np.dot(matrix(v, net.back, K, m), matrix(theta, net.at, m, n), matrix(v, net.images, K, n))
    for k in range(K):
        for i in range(n):
            v[net.pooled + (i // c * K + k) * c + i % c] = v[net.images + k * n + i]
    for k in range(net.depth - 1, -1, -1):
        layer = ints[k]
        shared_products(net, layer, v, K, rows)
        if k > 0:
            image_cotangents(net, layer, v, theta, K)


@implement(pullback, Conv)
def conv_pullback(net, ints, v, theta, V, K, rows):
    """rows (K, P) = V_k ∂f/∂θ; the kernels of up to C rows share products of pooled pixels."""
    layers, C = ints[net.depth :, :3], ints[net.depth, 2]
    for first in range(U(0), K, C):
        n = min(C, K - first)
        for k in range(n):
            pull_head(net, layers, v, theta, V + (first + k) * C, k)
            outers(layers, v, U(1), net.head + DELTA * net.total, net.head, rows[first + k], net.at)
        kernel_rows(net, ints, v, theta, n, rows[first : first + n])


@device
def add_row(v, row, n, first, c, w, g, d):
    """g += c r and d −= (w r)² of the n numbers r at v[row], or = where this is the first row."""
    for p in range(n):
        r = v[row + p]
        g[p] = c * r if first else g[p] + c * r
        d[p] = -(w * r) * (w * r) if first else d[p] - (w * r) * (w * r)


@implement(sums, Conv)
def conv_sums(net, ints, v, theta, V, K, c, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)²; of the rows only the kernels' part is written."""
    layers, C = ints[net.depth :, :3], ints[net.depth, 2]
    for first in range(U(0), K, C):
        n = min(C, K - first)
        for k in range(first, first + n):
            pull_head(net, layers, v, theta, V + k * C, k - first)
            add_cotangents(v, net.total, net.head, k == 0, v[c + k], v[c + K + k])
        kernel_rows(net, ints, v, theta, n, matrix(v, net.row, n, net.at))
        for k in range(first, first + n):
            add_row(v, net.row + (k - first) * net.at, net.at, k == 0, v[c + k], v[c + K + k], g, d)
    sums_of_outers(layers, v, net.total, U(1), net.head, g, d, net.at, True)


@implement(accumulate, Conv)
def conv_accumulate(net, ints, v, theta, V, g, d):
    """g += r and d −= r² of the row r = V_0 ∂f/∂θ."""
    layers = ints[net.depth :, :3]
    pull_head(net, layers, v, theta, V, U(0))
    kernel_rows(net, ints, v, theta, U(1), matrix(v, net.row, U(1), net.at))
    add_row(v, net.row, net.at, False, 1.0, 1.0, g, d)
    add_cotangents(v, net.total, net.head, True, 1.0, 1.0)
    sums_of_outers(layers, v, net.total, U(1), net.head, g, d, net.at, False)

"""Networks in machine code: outputs, and reverse sweeps for several cotangents at once. Twins of :mod:`bongref.models`.

θ is the flat vector of the model's layout. A sweep takes cotangents V (K, C) and returns the rows V_k ∂f/∂θ (K, P): with V = I the
Jacobian, with the columns of a factor of R the matrix Sᵀ of G = −S Sᵀ, with one row ∂log p/∂f the gradient.

    net = describe(model); work = workspace(net, K)
    forward(net, theta, x, work, o)            # o (C,) = f(θ, x)
    sweep(net, theta, x, work, V, out)         # out (K, P), after forward at the same θ and x

A diagonal family needs of the rows only a sum and the sum of their squares, of dense layers matrices of rank one: ``pull`` and ``gather``
keep what they are made of, ``part`` gives any part of them. All of these functions choose by the type of ``net``; inside a kernel the
choice is made when it is compiled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from ..models import ParametricModel as Model
from .elementary import erfcx, exp, tanh
from .jit import inlined
from .packs import is_pack, pack
from .parts import CHOSEN
from .vectors import fill4, first, gather4, load4, muladd, spread4, store4, sums4

ACTIVATIONS: dict[str | None, int] = {None: 0, "tanh": 1, "relu": 2, "gelu": 3, "gelu_tanh": 4}
ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
ROOT_HALF = math.sqrt(0.5)
OVER_ROOT_2PI = 1 / math.sqrt(2 * math.pi)


# --- activations -----------------------------------------------------------------------------------------------------------


@inlined
def activate(code, z, h, d):
    """h = act(z) and d = act'(z), entry by entry. Twin of models.ACTIVATIONS and their derivatives."""
    if code == 1:
        for i in range(len(z)):
            x = z[i]
            e = exp(-2.0 * abs(x))
            d[i] = 4.0 * e / ((1.0 + e) * (1.0 + e))
            h[i] = tanh(x, e)
    elif code == 2:
        for i in range(len(z)):
            x = z[i]
            d[i] = 1.0 if x > 0.0 else 0.0
            h[i] = x if x > 0.0 or x != x else 0.0
    elif code == 3:
        for i in range(len(z)):
            x = z[i]
            e = exp(-0.5 * x * x)
            t = ROOT_HALF * abs(x)
            tail = 0.5 * erfcx(t) * e
            Phi = tail if x < 0.0 else 1.0 - tail
            h[i] = x * Phi
            d[i] = Phi + x * e * OVER_ROOT_2PI
    else:
        for i in range(len(z)):
            x = z[i]
            u = ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)
            e = exp(-2.0 * abs(u))
            t = tanh(u, e)
            sech2 = 4.0 * e / ((1.0 + e) * (1.0 + e))
            h[i] = 0.5 * x * (1.0 + t)
            d[i] = 0.5 * (1.0 + t) + 0.5 * x * sech2 * ROOT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x * x)


# --- linear models and MLPs --------------------------------------------------------------------------------------------------


@pack
class Dense(NamedTuple):
    """Dense layers of the given sizes."""

    sizes: Any  # (n_layers + 1,) int64
    code: int  # of the activation
    bias: int  # 1 or 0
    n_outputs: int


@pack
class DenseWork(NamedTuple):
    """The input and the output of every layer one after the other; the derivatives of the activations and K cotangents likewise."""

    H: Any
    D: Any
    delta: Any  # (K, as many)
    e: Any  # sums of the cotangents, see combine
    s: Any
    z: Any  # before an activation


def dense_description(model: Model) -> Dense:
    """A linear model or an MLP as numbers."""
    sizes = np.array(model.spec["sizes"], dtype=np.int64)
    return Dense(sizes, ACTIVATIONS[model.spec["activation"]], int(model.spec["bias"]), int(sizes[-1]))


def dense_workspace(net: Dense, K: int) -> DenseWork:
    total, widest = int(net.sizes.sum()), int(net.sizes.max())
    return DenseWork(np.empty(total), np.empty(total), np.zeros((K, total)), np.empty(total), np.empty(total), np.empty(widest))


@inlined
def affine(theta, at, n, h, here, m, bias, z):
    """z = W h + b, W (m, n) and then b, if there is a bias, in θ from ``at`` on; h (n,) from ``here`` on. Twin of numpy.matmul."""
    b, whole = at + m * n, n - n % 4
    for i in range(0, m - m % 4, 4):
        r = at + i * n
        a0 = a1 = a2 = a3 = fill4(0.0)
        for j in range(0, whole, 4):
            x = load4(h, here + j)
            a0 = muladd(a0, load4(theta, r + j), x)
            a1 = muladd(a1, load4(theta, r + n + j), x)
            a2 = muladd(a2, load4(theta, r + 2 * n + j), x)
            a3 = muladd(a3, load4(theta, r + 3 * n + j), x)
        y = sums4(a0, a1, a2, a3)
        for j in range(whole, n):
            y = muladd(y, gather4(theta, r + j, n), spread4(h, here + j))
        if bias:
            y = muladd(y, fill4(1.0), load4(theta, b + i))
        store4(z, i, y)
    for i in range(m - m % 4, m):
        r, a0 = at + i * n, fill4(0.0)
        for j in range(0, whole, 4):
            a0 = muladd(a0, load4(theta, r + j), load4(h, here + j))
        total = first(sums4(a0, a0, a0, a0))
        for j in range(whole, n):
            total += theta[r + j] * h[here + j]
        z[i] = total + theta[b + i] if bias else total


@inlined
def affine_transposed(theta, at, n, delta, here, m, z):
    """z = Wᵀ δ, W (m, n) in θ from ``at`` on, δ (m,) from ``here`` on, four rows of W at a time. Twin of numpy.matmul."""
    whole = n - n % 4
    for j in range(n):
        z[j] = 0.0
    for i in range(0, m - m % 4, 4):
        r, k = at + i * n, here + i
        v0, v1, v2, v3 = spread4(delta, k), spread4(delta, k + 1), spread4(delta, k + 2), spread4(delta, k + 3)
        for j in range(0, whole, 4):
            y = muladd(load4(z, j), v0, load4(theta, r + j))
            y = muladd(y, v1, load4(theta, r + n + j))
            y = muladd(y, v2, load4(theta, r + 2 * n + j))
            store4(z, j, muladd(y, v3, load4(theta, r + 3 * n + j)))
    for i in range(m - m % 4, m):
        r, v0 = at + i * n, spread4(delta, here + i)
        for j in range(0, whole, 4):
            store4(z, j, muladd(load4(z, j), v0, load4(theta, r + j)))
    for j in range(whole, n):
        for i in range(m):
            z[j] += delta[here + i] * theta[at + i * n + j]


@inlined
def outer(delta, there, m, h, here, n, bias, at, a, z, to):
    """The numbers from a to z of a row for a layer whose W (m, n) and then b, if there is a bias, are in θ from ``at`` on.

    They are δ hᵀ and then δ; the first of them goes to the first place of ``to``. Twin of numpy.outer.
    """
    b, zero = at + m * n, fill4(0.0)
    if a <= at and z >= b and n >= 4:  # all of W: of the last four numbers of a row some may be written twice
        for i in range(m):
            v, r = spread4(delta, there + i), at - a + i * n
            for j in range(0, n - 4, 4):
                store4(to, r + j, muladd(zero, v, load4(h, here + j)))
            store4(to, r + n - 4, muladd(zero, v, load4(h, here + n - 4)))
    else:
        for i in range(0 if a <= at else min((a - at) // n, m), m if z >= b else max(0, -((at - z) // n))):
            r = at + i * n
            low, high = max(a, r), min(z, r + n)
            part, source = to[low - a : high - a], h[here + low - r : here + high - r]
            for p in range(len(part)):
                part[p] = delta[there + i] * source[p]
    low, high = max(a, b), min(z, b + m * bias)
    if low < high:
        part, source = to[low - a : high - a], delta[there + low - b : there + high - b]
        for p in range(len(part)):
            part[p] = source[p]


@inlined
def outer_squares(s, there, m, h, here, n, bias, at, a, z, to):
    """The same of −s (h²)ᵀ and −s."""
    b = at + m * n
    for i in range(0 if a <= at else min((a - at) // n, m), m if z >= b else max(0, -((at - z) // n))):
        r = at + i * n
        low, high = max(a, r), min(z, r + n)
        part, source = to[low - a : high - a], h[here + low - r : here + high - r]
        for p in range(len(part)):
            part[p] = -s[there + i] * source[p] * source[p]
    for p in range(max(a, b), min(z, b + m * bias)):
        to[p - a] = -s[there + p - b]


@inlined
def dense_forward(net, theta, x, work, o):
    """o = f(θ, x). Twin of models._dense_layers."""
    sizes, H, z = net.sizes, work.H, work.z
    at, here, n, last = 0, 0, sizes[0], len(sizes) - 1
    for j in range(len(x)):
        H[j] = x[j]
    for layer in range(1, last + 1):
        m, there = sizes[layer], here + n
        affine(theta, at, n, H, here, m, net.bias, z)
        if layer < last:
            activate(net.code, z[:m], H[there : there + m], work.D[there : there + m])
        at, here, n = at + m * (n + net.bias), there, m
    for i in range(len(o)):
        o[i] = z[i]


@inlined
def dense_cotangents(net, theta, work, V, k):
    """δ_k, the cotangents of what every layer gives before its activation, for the outputs' cotangents V_k. Twin of Model.vjp."""
    sizes, z, delta = net.sizes, work.z, work.delta[k]
    there = len(delta) - V.shape[1]
    at = len(theta)
    for i in range(V.shape[1]):
        delta[there + i] = V[k, i]
    for layer in range(len(sizes) - 1, 1, -1):
        m, n = sizes[layer], sizes[layer - 1]
        here, at = there - n, at - m * (n + net.bias)
        affine_transposed(theta, at, n, delta, there, m, z)
        to, slope = delta[here:there], work.D[here:there]
        for j in range(len(to)):
            to[j] = z[j] * slope[j]
        there = here


@inlined
def combine(delta, c, w, e, s):
    """e = Σ_k c_k δ_k and s = Σ_k (w_k δ_k)²."""
    for i in range(len(e)):
        e[i] = s[i] = 0.0
        for k in range(len(delta)):
            e[i] += c[k] * delta[k, i]
            s[i] += (w[k] * delta[k, i]) * (w[k] * delta[k, i])


@inlined
def dense_gather(net, work, K, c, w):
    """:func:`gather` of a Dense."""
    if K > 1:
        combine(work.delta[:K], c, w, work.e, work.s)


@inlined
def dense_part(net, work, K, c, w, a, z, g, d):
    """:func:`part` of a Dense: every row is δ_k hᵀ in each layer, so that both sums are matrices of rank one."""
    sizes, e, at, here = net.sizes, work.e if K > 1 else work.delta[0], 0, 0
    for layer in range(1, len(sizes)):
        n, m = sizes[layer - 1], sizes[layer]
        outer(e, here + n, m, work.H, here, n, net.bias, at, a, z, g)
        if K > 1:
            outer_squares(work.s, here + n, m, work.H, here, n, net.bias, at, a, z, d)
        at, here = at + m * (n + net.bias), here + n


@inlined
def dense_pull(net, theta, work, V, a, z):
    """:func:`pull` of a Dense."""
    for k in range(a, z):
        dense_cotangents(net, theta, work, V, k)


@inlined
def dense_turns(net, K):
    """:func:`turns` of a Dense."""
    return 0, 1


@inlined
def dense_before(net, theta, x, work, V, K, i, o):
    """:func:`before` of a Dense."""
    if i == 0:
        dense_forward(net, theta, x, work, o)


@inlined
def dense_share(net, theta, work, V, K, i, k, parts):
    """:func:`share` of a Dense."""
    dense_pull(net, theta, work, V, K * k // parts, K * (k + 1) // parts)


@inlined
def dense_sweep(net, theta, x, work, V, out):
    """out (K, P) = the rows V_k ∂f/∂θ. Twin of Model.vjp."""
    sizes = net.sizes
    for k in range(len(V)):
        dense_cotangents(net, theta, work, V, k)
        delta, row, at, here = work.delta[k], out[k], 0, 0
        for layer in range(1, len(sizes)):
            n, m = sizes[layer - 1], sizes[layer]
            outer(delta, here + n, m, work.H, here, n, net.bias, at, 0, len(row), row)
            at, here = at + m * (n + net.bias), here + n


# --- either kind -------------------------------------------------------------------------------------------------------------


def describe(model: Model) -> Any:
    """The network of a built-in model as numbers: Dense or Conv."""
    if model.kind == "cnn":
        from .convolution import conv_description

        return conv_description(model)
    return dense_description(model)


def workspace(net: Any, K: int) -> Any:
    """Buffers for a forward pass and sweeps of at most K cotangents."""
    if isinstance(net, Dense):
        return dense_workspace(net, K)
    from .convolution import conv_workspace

    return conv_workspace(net, K)


def fellow(net: Any, work: Any, K: int, rows: bool = True) -> Any:
    """Buffers for another thread after a forward pass in ``work``: for rows of its own, or for a share of the cotangents."""
    shared: tuple[str, ...] = ("H", "D") if isinstance(net, Dense) else ("X", "B", "D", "S", "h", "d")
    if not rows:
        shared += ("delta", "e", "s") if isinstance(net, Dense) else ("V", "G", "R", "e", "s")
    return workspace(net, K)._replace(**{name: getattr(work, name) for name in shared})


def forward(net, theta, x, work, o):
    """o (C,) = f(θ, x)."""
    if isinstance(net, Dense):
        return dense_forward(net, theta, x, work, o)
    from .convolution import conv_forward

    return conv_forward(net, theta, x, work, o)


def sweep(net, theta, x, work, V, out):
    """out (K, P) = the rows V_k ∂f/∂θ, after :func:`forward`."""
    if isinstance(net, Dense):
        return dense_sweep(net, theta, x, work, V, out)
    from .convolution import conv_sweep

    return conv_sweep(net, theta, x, work, V, out)


def turns(net, K):
    """How many turns several threads take for a forward pass, and for K cotangents afterwards; see :func:`share`."""
    if isinstance(net, Dense):
        return dense_turns(net, K)
    from .convolution import conv_turns

    return conv_turns(net, K)


def before(net, theta, x, work, V, K, i, o):
    """What one thread does before turn i; with n turns for a forward pass, i = n makes o, and i > n is what comes before turn i − 1."""
    if isinstance(net, Dense):
        return dense_before(net, theta, x, work, V, K, i, o)
    from .convolution import conv_before

    return conv_before(net, theta, x, work, V, K, i, o)


def share(net, theta, work, V, K, i, k, parts):
    """Part k of turn i: all parts of all turns are a :func:`forward` and a :func:`pull`."""
    if isinstance(net, Dense):
        return dense_share(net, theta, work, V, K, i, k, parts)
    from .convolution import conv_share

    return conv_share(net, theta, work, V, K, i, k, parts)


def pull(net, theta, work, V, a, z):
    """What :func:`part` needs of the cotangents V_a, …, V_{z−1}, after :func:`forward` at the same θ."""
    if isinstance(net, Dense):
        return dense_pull(net, theta, work, V, a, z)
    from .convolution import conv_pull

    return conv_pull(net, theta, work, V, a, z)


def gather(net, work, K, c, w):
    """The sums over all K cotangents that :func:`part` needs."""
    if isinstance(net, Dense):
        return dense_gather(net, work, K, c, w)
    from .convolution import conv_gather

    return conv_gather(net, work, K, c, w)


def part(net, work, K, c, w, a, z, g, d):
    """Of the rows r_k = V_k ∂f/∂θ, k < K, the numbers from a to z: g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)²; if K = 1, g = r_0 alone."""
    if isinstance(net, Dense):
        return dense_part(net, work, K, c, w, a, z, g, d)
    from .convolution import conv_part

    return conv_part(net, work, K, c, w, a, z, g, d)


def is_dense(net) -> bool:
    """Whether this is the type of a Dense, while a kernel is compiled."""
    return is_pack(net, Dense)


@overload(forward, jit_options=CHOSEN)
def _forward(net, theta, x, work, o):
    if is_dense(net):
        return dense_forward.py_func
    from .convolution import conv_forward

    return conv_forward.py_func


@overload(sweep, jit_options=CHOSEN)
def _sweep(net, theta, x, work, V, out):
    if is_dense(net):
        return dense_sweep.py_func
    from .convolution import conv_sweep

    return conv_sweep.py_func


@overload(pull, jit_options=CHOSEN)
def _pull(net, theta, work, V, a, z):
    if is_dense(net):
        return dense_pull.py_func
    from .convolution import conv_pull

    return conv_pull.py_func


@overload(turns, jit_options=CHOSEN)
def _turns(net, K):
    if is_dense(net):
        return dense_turns.py_func
    from .convolution import conv_turns

    return conv_turns.py_func


@overload(before, jit_options=CHOSEN)
def _before(net, theta, x, work, V, K, i, o):
    if is_dense(net):
        return dense_before.py_func
    from .convolution import conv_before

    return conv_before.py_func


@overload(share, jit_options=CHOSEN)
def _share(net, theta, work, V, K, i, k, parts):
    if is_dense(net):
        return dense_share.py_func
    from .convolution import conv_share

    return conv_share.py_func


@overload(gather, jit_options=CHOSEN)
def _gather(net, work, K, c, w):
    if is_dense(net):
        return dense_gather.py_func
    from .convolution import conv_gather

    return conv_gather.py_func


@overload(part, jit_options=CHOSEN)
def _part(net, work, K, c, w, a, z, g, d):
    if is_dense(net):
        return dense_part.py_func
    from .convolution import conv_part

    return conv_part.py_func

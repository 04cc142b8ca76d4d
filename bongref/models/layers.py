"""What networks are made of: activations, pieces of θ, convolution, pooling.

>>> import numpy as np
>>> from bongref.models.layers import avg_pool, conv_same, relu
>>> relu(np.array([-1.0, 2.0]))
array([0., 2.])
>>> avg_pool(conv_same(np.ones((1, 4, 4, 1)), np.ones((1, 1, 1, 2)))).shape
(1, 2, 2, 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.extend import defjvp, defvjp

from ..linalg import Array
from ..special import ndtr
from .autodiff import primitive

# --- activations ----------------------------------------------------------------------------------


@primitive
def _Phi(x: Any) -> Any:
    r"""The standard normal distribution function \(\Phi(x)\)."""
    return ndtr(x)


def _phi(x: Any) -> Any:
    """The standard normal density."""
    return anp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


defvjp(_Phi, lambda ans, x: lambda g: g * _phi(x))
defjvp(_Phi, lambda g, ans, x: g * _phi(x))


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0."""
    return anp.where(x > 0, x, 0.0)


def gelu(x: Any) -> Any:
    r"""\(x\,\Phi(x)\), the exact form."""
    return x * _Phi(x)


@primitive
def tanh(x: Any) -> Any:
    """tanh; its derivative 4e^{−2|x|}/(1 + e^{−2|x|})² does not overflow as 1/cosh² does."""
    return np.tanh(x)


def _sech2(x: Any) -> Any:
    e = anp.exp(-2.0 * anp.abs(x))
    return 4.0 * e / (1.0 + e) ** 2


defvjp(tanh, lambda ans, x: lambda g: g * _sech2(x))
defjvp(tanh, lambda g, ans, x: g * _sech2(x))


def gelu_tanh(x: Any) -> Any:
    r"""\(\tfrac12 x (1 + \tanh(\sqrt{2/\pi}\,(x + 0.044715 x^3)))\), the approximation to gelu."""
    return 0.5 * x * (1.0 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": tanh, "relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh,
}  # fmt: skip
SCHEMES = ("lecun_normal", "he_normal", "xavier_uniform", "zeros")  # of initial weights


# --- pieces of θ, convolution, pooling ------------------------------------------------------------


@primitive
def take(theta: Any, start: int, stop: int) -> Any:
    """theta[..., start:stop]."""
    return theta[..., start:stop]


@primitive
def put(piece: Any, start: int, stop: int, size: int) -> Any:
    """The transpose of `take`: zeros (..., size) with piece at start:stop."""
    out = np.zeros((*piece.shape[:-1], size))
    out[..., start:stop] = piece
    return out


defvjp(
    take,
    lambda ans, theta, start, stop: lambda g: put(g, start, stop, theta.shape[-1]),
    argnums=(0,),
)
defvjp(put, lambda ans, piece, start, stop, size: lambda g: take(g, start, stop), argnums=(0,))
defjvp(take, lambda g, ans, theta, start, stop: take(g, start, stop), argnums=(0,))
defjvp(put, lambda g, ans, piece, start, stop, size: put(g, start, stop, size), argnums=(0,))


def _patches(x: Array, kh: int, kw: int) -> Array:
    """Every (kh, kw, c) patch of x (N, H, W, c) as a row: (N (H−kh+1) (W−kw+1), kh kw c)."""
    windows: Any = np.lib.stride_tricks.sliding_window_view  # some stubs know no tuple of axes
    w = windows(x, (kh, kw), axis=(1, 2))
    rows: Array = w.transpose(0, 1, 2, 4, 5, 3).reshape(-1, kh * kw * x.shape[3])
    return rows


@primitive
def correlate(x: Any, K: Any) -> Any:
    r"""\(z_{nijo} = \sum_{abc} x_{n,i+a,j+b,c} K_{abco}\), without padding.

    x is (N, H, W, c_in), K is (kh, kw, c_in, c_out).
    """
    kh, kw, _, c_out = K.shape
    z = _patches(x, kh, kw) @ K.reshape(-1, c_out)
    return z.reshape(len(x), x.shape[1] - kh + 1, x.shape[2] - kw + 1, c_out)


@primitive
def _correlate_kernel(x: Any, g: Any) -> Any:
    r"""\(K_{abco} = \sum_{nij} x_{n,i+a,j+b,c}\, g_{nijo}\): the transpose of `correlate` in K."""
    kh, kw = x.shape[1] - g.shape[1] + 1, x.shape[2] - g.shape[2] + 1
    return (_patches(x, kh, kw).T @ g.reshape(-1, g.shape[3])).reshape(
        kh, kw, x.shape[3], g.shape[3]
    )


def _correlate_input(g: Any, K: Any) -> Any:
    r"""\(x_{nijc} = \sum_{abo} g_{n,i-a,j-b,o} K_{abco}\): the transpose of `correlate` in x."""
    a, b = K.shape[0] - 1, K.shape[1] - 1
    padded = anp.pad(g, ((0, 0), (a, a), (b, b), (0, 0)), "constant")
    return correlate(padded, anp.transpose(K[::-1, ::-1], (0, 1, 3, 2)))


defvjp(
    correlate,
    lambda z, x, K: lambda g: _correlate_input(g, K),
    lambda z, x, K: lambda g: _correlate_kernel(x, g),
)
defvjp(
    _correlate_kernel,
    lambda z, x, g: lambda K: _correlate_input(g, K),
    lambda z, x, g: lambda K: correlate(x, K),
)
defjvp(correlate, lambda d, ans, x, K: correlate(d, K), lambda d, ans, x, K: correlate(x, d))
defjvp(
    _correlate_kernel,
    lambda d, ans, x, g: _correlate_kernel(d, g),
    lambda d, ans, x, g: _correlate_kernel(x, d),
)


def conv_same(x: Any, K: Any) -> Any:
    """`correlate` of x between zeros, (k − 1)//2 before and the rest after: the size stays."""
    pad = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in K.shape[:2]]
    return correlate(anp.pad(x, ((0, 0), *pad, (0, 0)), "constant"), K)


def avg_pool(x: Any) -> Any:
    """2 × 2 average pooling with stride 2; an odd last row or column is left out."""
    n, h, w, c = x.shape
    if h % 2 or w % 2:
        x = x[:, : h - h % 2, : w - w % 2]
    return anp.mean(anp.reshape(x, (n, h // 2, 2, w // 2, 2, c)), axis=(2, 4))


def affine(W: Any, b: Any, h: Any) -> Any:
    """W h + b for each row of h (N, n_in); W is (n_out, n_in) or one for each row."""
    if W.ndim == 2:
        z = anp.matmul(h, W.T)
    else:
        z = anp.reshape(anp.matmul(W, anp.reshape(h, (*h.shape, 1))), W.shape[:2])
    return z if b is None else z + b


def initial(shape: tuple[int, ...], rng: np.random.Generator, scheme: str) -> Array:
    """One array of θ by a scheme; biases (one axis) are 0."""
    if len(shape) == 1:
        return np.zeros(shape)
    if len(shape) == 2:
        fan_out, fan_in = shape
    else:
        fan_in, fan_out = math.prod(shape[:3]), math.prod(shape[:2]) * shape[3]
    if scheme == "xavier_uniform":
        bound = math.sqrt(6 / (fan_in + fan_out))
        return rng.uniform(-bound, bound, size=shape)
    return rng.standard_normal(shape) * math.sqrt((1 if scheme == "lecun_normal" else 2) / fan_in)

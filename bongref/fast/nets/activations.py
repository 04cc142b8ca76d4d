"""The activations and their derivatives. Reference: models.ACTIVATIONS and their derivatives."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..elementary import erfcx, powers_of_two, reduced_exp, tanh
from ..jit import device, ordered

CODES: dict[str | None, int] = {None: 0, "tanh": 1, "relu": 2, "gelu": 3, "gelu_tanh": 4}
ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
ROOT_HALF = math.sqrt(0.5)
OVER_ROOT_2PI = 1 / math.sqrt(2 * math.pi)


class Scratch(NamedTuple):
    """Buffers as long as the longest array that is activated at once."""

    e: Any
    words: Any  # e.view(int64)
    f: Any
    q: Any


def scratch(n: int) -> Scratch:
    """Buffers for arrays of n numbers, a multiple of BLOCK."""
    e = np.zeros(n)
    return Scratch(e, e.view(np.int64), np.zeros(n), np.zeros(n))


@ordered
def gelu(z, h, d, at, n, scratch):
    """x Φ(x), and Φ(x) + x φ(x); Φ(−|x|) = ½ erfcx(|x|/√2) e^{−x²/2}."""
    e, words, f, q = scratch.e, scratch.words, scratch.f, scratch.q
    for i in range(n):
        x = z[i]
        e[i], f[i] = reduced_exp(-0.5 * x * x)
        q[i] = 0.5 * erfcx(ROOT_HALF * abs(x))
    powers_of_two(words, n)
    for i in range(n):
        x, density = z[i], e[i] * f[i]
        Phi = q[i] * density if x < 0.0 else 1.0 - q[i] * density
        h[at + i] = x * Phi
        d[at + i] = Phi + x * density * OVER_ROOT_2PI


@ordered
def tanh_array(z, h, d, at, n, scratch):
    """tanh x, and 4t/(1 + t)² with t = e^{−2|x|}."""
    e, words, f = scratch.e, scratch.words, scratch.f
    for i in range(n):
        e[i], f[i] = reduced_exp(-2.0 * abs(z[i]))
    powers_of_two(words, n)
    for i in range(n):
        t = e[i] * f[i]
        h[at + i] = tanh(z[i], t)
        d[at + i] = 4.0 * t / ((1.0 + t) * (1.0 + t))


@ordered
def gelu_tanh(z, h, d, at, n, scratch):
    """½ x (1 + tanh u), u = √(2/π) (x + 0.044715 x³), and its derivative."""
    e, words, f, q = scratch.e, scratch.words, scratch.f, scratch.q
    for i in range(n):
        x = z[i]
        q[i] = ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)
        e[i], f[i] = reduced_exp(-2.0 * abs(q[i]))
    powers_of_two(words, n)
    for i in range(n):
        x, t = z[i], e[i] * f[i]
        u = tanh(q[i], t)
        slope = 4.0 * t / ((1.0 + t) * (1.0 + t)) * ROOT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x * x)
        h[at + i] = 0.5 * x * (1.0 + u)
        d[at + i] = 0.5 * (1.0 + u) + 0.5 * x * slope


@ordered
def relu(z, h, d, at, n):
    """max(x, 0), and 1 where x > 0; NaN stays NaN."""
    for i in range(n):
        x = z[i]
        d[at + i] = 1.0 if x > 0.0 else 0.0
        h[at + i] = x if x > 0.0 or x != x else 0.0


@device
def activate(code, z, h, d, at, n, scratch):
    """h[at:] = act(z) and d[at:] = act'(z) of the first n numbers of z; n and ``at`` are unsigned."""
    if code == 1:
        tanh_array(z, h, d, at, n, scratch)
    elif code == 2:
        relu(z, h, d, at, n)
    elif code == 3:
        gelu(z, h, d, at, n, scratch)
    else:
        gelu_tanh(z, h, d, at, n, scratch)

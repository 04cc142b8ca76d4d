"""The activations and their derivatives. Reference: models.ACTIVATIONS and their derivatives."""

from __future__ import annotations

import math

from ..elementary import erfcx, exp, tanh
from ..jit import inlined, ordered

CODES: dict[str | None, int] = {None: 0, "tanh": 1, "relu": 2, "gelu": 3, "gelu_tanh": 4}
ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
ROOT_HALF = math.sqrt(0.5)
OVER_ROOT_2PI = 1 / math.sqrt(2 * math.pi)


@ordered
def gelu(v, z, h, d, n):
    """x Φ(x), and Φ(x) + x φ(x); Φ(−|x|) = ½ erfcx(|x|/√2) e^{−x²/2}."""
    for i in range(n):
        x = v[z + i]
        e = exp(-0.5 * x * x)
        tail = 0.5 * erfcx(ROOT_HALF * abs(x)) * e
        Phi = tail if x < 0.0 else 1.0 - tail
        v[h + i] = x * Phi
        v[d + i] = Phi + x * e * OVER_ROOT_2PI


@ordered
def tanh_array(v, z, h, d, n):
    """tanh x, and 4t/(1 + t)² with t = e^{−2|x|}."""
    for i in range(n):
        x = v[z + i]
        t = exp(-2.0 * abs(x))
        v[h + i] = tanh(x, t)
        v[d + i] = 4.0 * t / ((1.0 + t) * (1.0 + t))


@ordered
def gelu_tanh(v, z, h, d, n):
    """½ x (1 + tanh u), u = √(2/π) (x + 0.044715 x³), and its derivative."""
    for i in range(n):
        x = v[z + i]
        u = ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)
        t = exp(-2.0 * abs(u))
        y = tanh(u, t)
        slope = 4.0 * t / ((1.0 + t) * (1.0 + t)) * ROOT_2_OVER_PI * (1.0 + 3.0 * 0.044715 * x * x)
        v[h + i] = 0.5 * x * (1.0 + y)
        v[d + i] = 0.5 * (1.0 + y) + 0.5 * x * slope


@ordered
def relu(v, z, h, d, n):
    """max(x, 0), and 1 where x > 0; NaN stays NaN."""
    for i in range(n):
        x = v[z + i]
        v[d + i] = 1.0 if x > 0.0 else 0.0
        v[h + i] = x if x > 0.0 or x != x else 0.0


@inlined
def activate(code, v, z, h, d, n):
    """v[h:] = act(v[z:]) and v[d:] = act'(v[z:]) for n numbers, a multiple of BLOCK."""
    if code == 1:
        tanh_array(v, z, h, d, n)
    elif code == 2:
        relu(v, z, h, d, n)
    elif code == 3:
        gelu(v, z, h, d, n)
    else:
        gelu_tanh(v, z, h, d, n)

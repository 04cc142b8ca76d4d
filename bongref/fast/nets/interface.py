"""What a network offers to the estimators; ``dense`` and ``conv`` implement it.

    net = describe(model); ints, v, words = workspace(net, extra)      # nets/__init__.py
    forward(net, ints, v, words, theta, x, o)                          # v[o:] (C,) = f(θ, x)
    pullback(net, ints, v, words, theta, V, K, rows)                   # rows (K, P) = V_k ∂f/∂θ
    sums(net, ints, v, words, theta, V, K, c, g, d)                    # g = Σ_k c_k r_k, d = −Σ_k (w_k r_k)² of these rows
    accumulate(net, ints, v, words, theta, V, g, d)                    # g += r, d −= r² of one row

``net`` is a NamedTuple of integers. The workspace is three arrays, and vectors of the outputs' size are places in ``v``: compiled code
counts references to an array that is taken out of a tuple or passed on (10 ns each), and an observation of a small network takes 1 µs.
"""

from __future__ import annotations

from numba.extending import overload

from ..generic import call, chosen
from ..jit import OPTIONS


def forward(net, ints, v, words, theta, x, o):
    """v[o:] (C,) = f(θ, x); v keeps what the others need."""
    return call("forward", net, ints, v, words, theta, x, o)


@overload(forward, jit_options=OPTIONS)
def _forward(net, ints, v, words, theta, x, o):
    return chosen("forward", net)


def pullback(net, ints, v, words, theta, V, K, rows):
    """rows (K, P) = V_k ∂f/∂θ with the cotangents V (K, C) at v[V], after forward at the same θ."""
    return call("pullback", net, ints, v, words, theta, V, K, rows)


@overload(pullback, jit_options=OPTIONS)
def _pullback(net, ints, v, words, theta, V, K, rows):
    return chosen("pullback", net)


def sums(net, ints, v, words, theta, V, K, c, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)² of the rows r_k = V_k ∂f/∂θ; c (K,) at v[c], w (K,) after it."""
    return call("sums", net, ints, v, words, theta, V, K, c, g, d)


@overload(sums, jit_options=OPTIONS)
def _sums(net, ints, v, words, theta, V, K, c, g, d):
    return chosen("sums", net)


def accumulate(net, ints, v, words, theta, V, g, d):
    """g += r and d −= r² of the row r = V_0 ∂f/∂θ."""
    return call("accumulate", net, ints, v, words, theta, V, g, d)


@overload(accumulate, jit_options=OPTIONS)
def _accumulate(net, ints, v, words, theta, V, g, d):
    return chosen("accumulate", net)

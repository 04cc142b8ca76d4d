"""What a network offers to the estimators; ``dense`` and ``conv`` implement it.

    net = describe(model); work = workspace(net)          # nets/__init__.py
    forward(net, theta, x, work, o)                          # o (C,) = f(θ, x); work keeps what the others need
    pullback(net, theta, x, work, V, rows)                   # rows (K, P) = V_k ∂f/∂θ
    sums(net, theta, x, work, V, c, w, g, d)                 # g = Σ_k c_k r_k, d = −Σ_k (w_k r_k)² of these rows
    accumulate(net, theta, x, work, v, g, d)                 # g += r, d −= r² of one row r = v ∂f/∂θ
"""

from __future__ import annotations

from numba.extending import overload

from ..generic import call, chosen
from ..jit import OPTIONS


def forward(net, theta, x, work, o):
    """o (C,) = f(θ, x)."""
    return call("forward", net, theta, x, work, o)


@overload(forward, jit_options=OPTIONS)
def _forward(net, theta, x, work, o):
    return chosen("forward", net)


def pullback(net, theta, x, work, V, rows):
    """rows (K, P) = V_k ∂f/∂θ, after forward at the same θ and x."""
    return call("pullback", net, theta, x, work, V, rows)


@overload(pullback, jit_options=OPTIONS)
def _pullback(net, theta, x, work, V, rows):
    return chosen("pullback", net)


def sums(net, theta, x, work, V, c, w, g, d):
    """g = Σ_k c_k r_k and d = −Σ_k (w_k r_k)² of the rows r_k = V_k ∂f/∂θ, after forward at the same θ and x."""
    return call("sums", net, theta, x, work, V, c, w, g, d)


@overload(sums, jit_options=OPTIONS)
def _sums(net, theta, x, work, V, c, w, g, d):
    return chosen("sums", net)


def accumulate(net, theta, x, work, v, g, d):
    """g += r and d −= r² of the row r = v ∂f/∂θ, after forward at the same θ and x."""
    return call("accumulate", net, theta, x, work, v, g, d)


@overload(accumulate, jit_options=OPTIONS)
def _accumulate(net, theta, x, work, v, g, d):
    return chosen("accumulate", net)

"""What a network offers to the estimators; ``dense`` and ``conv`` implement it.

    net, ints = describe(model); v = workspace(net, extra)      # nets/__init__.py
    forward(net, ints, v, theta, x, o)                          # v[o:] (C,) = f(θ, x)
    pullback(net, ints, v, theta, V, K, rows)                   # rows (K, P) = V_k ∂f/∂θ
    sums(net, ints, v, theta, V, K, c, g, d)                    # sums of rows and squares
    accumulate(net, ints, v, theta, V, g, d)                    # g += r, d −= r² of one row

``net`` is a NamedTuple of integers. The workspace is one array, and vectors of the outputs' size
are places in ``v``: compiled code counts references to an array that is taken out of a tuple or
passed on (10 ns each), and an observation of a small network takes 1 µs.
"""

from __future__ import annotations

from ..generic import generic


@generic
def forward(net, ints, v, theta, x, o):
    """v[o:] (C,) = f(θ, x); v keeps what the others need."""


@generic
def pullback(net, ints, v, theta, V, K, rows):
    """rows (K, P) = V_k ∂f/∂θ with the cotangents V (K, C) at v[V], after forward at the same θ."""


@generic
def sums(net, ints, v, theta, V, K, c, g, d):
    """g = Σ_k c_k r_k, d = −Σ_k (w_k r_k)² of the rows r_k = V_k ∂f/∂θ; c, w (K,) at v[c]."""


@generic
def accumulate(net, ints, v, theta, V, g, d):
    """g += r and d −= r² of the row r = V_0 ∂f/∂θ."""

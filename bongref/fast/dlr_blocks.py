"""What the DLR steps share: the state by rows, their workspace, and blocks of parameters that stay
in the second-level cache.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from .jit import device
from .small import block
from .tuning import BLOCK, SAMPLES


class State(NamedTuple):
    """N(mu, (Diag(Ups) + W Wᵀ)⁻¹)."""

    mu: Any  # (P,)
    Ups: Any  # (P,)
    Wt: Any  # (R, P)


DlrBong = namedtuple("DlrBong", "alpha")
DlrBlr = namedtuple("DlrBlr", "alpha")
DlrBog = namedtuple("DlrBog", "alpha")
DlrBbb = namedtuple("DlrBbb", "alpha")


class Workspace(NamedTuple):
    """Buffers of a step with n rows in X; few arrays, as Numba compiles a tuple of many slowly."""

    blocks: Any  # (4, (n + 1) · width): see X, …; :func:`small.block` gives them their shape
    small: Any  # (8, (n + 1)²): small matrices, see GRAM, …
    few: Any  # (5, max(n + 1, width)): vectors, see VALUES, …
    tall: Any  # (1 + 2 R + SAMPLES, P) with samples: see place_dlr
    width: int


X, Y, Z, E = range(4)  # of Workspace.blocks
GRAM, WEIGHTED, ROWS, CROSS, ANGLES, SPARE, NOISE, EXTRA = range(8)  # of Workspace.small
VALUES, DOTS, U, A, D = range(5)  # of Workspace.few


def workspace(P: int, R: int, K: int, rule: str, samples: bool = False) -> Workspace:
    """Buffers for the steps of a rule with K rows, and with ``samples`` for :func:`place_dlr`."""
    n = R + K if rule in ("bong", "bog") else 2 * R + K
    width = min(P, max(16, BLOCK // (n + 1) // 16 * 16))
    side, tall = max(n + 1, SAMPLES), np.zeros((1 + 2 * R + SAMPLES if samples else 0, P))
    blocks, small = np.zeros((4, (n + 1) * width)), np.zeros((8, side * side))
    return Workspace(blocks, small, np.zeros((5, max(n + 1, width))), tall, width)


# --- blocks ---------------------------------------------------------------------------------------


@device
def load(A, scale, at, X, n):
    """Rows of X from n on = scale · A in the columns from ``at``; the number of rows then."""
    w = X.shape[1]
    for r in range(A.shape[0]):
        x, a = X[n + r], A[r, at : at + w]
        for p in range(w):
            x[p] = scale * a[p]
    return n + A.shape[0]


@device
def weigh(X, n, u, Y):
    """Y = X Diag(u), the first n rows."""
    for i in range(n):
        x, y = X[i], Y[i]
        for p in range(len(x)):
            y[p] = u[p] * x[p]


@device
def inverse(Ups, at, u):
    """u = 1/Υ in a block; how many Υ are not positive."""
    w, below = len(u), 0
    x = Ups[at : at + w]
    for p in range(w):
        u[p] = 1.0 / x[p]
        below += 0 if x[p] > 0.0 else 1
    return below


@device
def columns(A, at, w, buffer):
    """The columns at, …, at + w − 1 of A: A itself, or a copy in ``buffer``."""
    if w == A.shape[1]:
        return A
    X = block(buffer, A.shape[0], w)
    load(A, 1.0, at, X, 0)
    return X

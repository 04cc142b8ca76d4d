"""Gradients and Hessians from compiled networks: lin-hess, lin-ef and mc-ef. Twins of :mod:`bongref.curvature`.

The Hessian is G = −rowsᵀ rows with rows (K, P), the transpose of the reference's S; of a diagonal family only diag G.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ..grid import Method
from .jit import config, kernel, making
from .likelihoods import describe as describe_likelihood
from .likelihoods import info_rows, score
from .networks import describe, fellow, forward, sweep, workspace
from .normals import PCG, fill, is_pcg, table, transform

AHEAD, LARGE = 20_000, 2**20  # variates in a block that is worth drawing in advance; that several threads draw


@making
def linearise(net, work, lik, hess, x, y, mu, V, rows, g):
    """Twin of curvature.lin_hess (hess = 0) and lin_ef (1): V (K + 1, C) and rows (K + 1, P), whose last one is g again."""
    C, last = V.shape[1], len(V) - 1
    o, s, buffer = np.empty(C), np.empty(C), np.empty(C)
    forward(net, mu, x, work, o)
    score(lik, o, y, s, buffer)
    for c in range(C):
        V[last, c] = s[c]
    if hess == 0:
        info_rows(lik, o, V[:C], buffer)
    sweep(net, mu, x, work, V, rows)
    for p in range(len(g)):
        g[p] = rows[last, p]


@kernel
def linearised(net, work, lik, hess, x, y, mu, V, rows, g):
    """:func:`linearise`, called from Python."""
    linearise(net, work, lik, hess, x, y, mu, V, rows, g)


@kernel
def sampled(net, work, lik, x, y, theta, scale):
    """The rows θ_m of theta (M, P) become scale ∇log p(y | f(x, θ_m)). Twin of curvature.mc_ef."""
    C, P = len(y), theta.shape[1]
    V, o, s, buffer, row = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C), np.empty((1, P))
    for m in range(len(theta)):
        here = theta[m]
        forward(net, here, x, work, o)
        score(lik, o, y, s, buffer)
        for c in range(C):
            V[0, c] = scale * s[c]
        sweep(net, here, x, work, V, row)
        for p in range(P):
            here[p] = row[0, p]


class Compiled:
    """The estimators of one method on one built-in model; the arrays that they return are overwritten by the next call."""

    def __init__(self, m: Method, model: Any, lik: Any, threads: int, rows: bool = True):
        self.net, self.lik = describe(model), describe_likelihood(lik, model.n_outputs)
        self.hess, self.threads, C, P = m.hess, threads, model.n_outputs, model.n_params
        self.n_rows = C if m.hess == "lin-hess" else 1
        own = m.family not in ("diag", "diag_mom")  # rows; a diagonal family needs only sums of them
        each = self.n_rows + 1 if rows or not own else -(-(self.n_rows + 1) // threads)  # cotangents of a thread
        first = workspace(self.net, each)
        another = (lambda: fellow(self.net, first, each, own)) if m.hess.startswith("lin") else lambda: workspace(self.net, 1)
        self.works = [first, *(another() for _ in range(threads - 1))]
        self.P, self.V = P, np.empty((self.n_rows + 1 if m.hess == "lin-hess" else 1, C))
        self.g = np.empty(P if rows else 0)
        self.rows = np.empty((len(self.V) if rows and m.hess.startswith("lin") else 0, P))

    def parts(self, thread: int) -> tuple[Any, ...]:
        """Network, workspace and likelihood, as the kernels of this thread take them."""
        return self.net, self.works[thread], self.lik

    @property
    def description(self) -> tuple[Any, ...]:
        """Network, workspace, likelihood and kind of Hessian, as kernels take them."""
        return *self.parts(0), 0 if self.hess == "lin-hess" else 1

    def linearised(self, x, y, mu) -> tuple[np.ndarray, np.ndarray]:
        """(g, rows) at mu."""
        linearised(*self.description, x, y, mu, self.V, self.rows, self.g)
        return self.g, self.rows[: self.n_rows]

    def sampled(self, x, y, theta) -> tuple[np.ndarray, np.ndarray]:
        """(g, rows) from the samples theta (M, P), which become the rows."""
        scale = 1 / math.sqrt(len(theta))
        share(self.threads, len(theta), lambda k, part: sampled(*self.parts(k), x, y, theta[part], scale))
        return theta.sum(axis=0) * scale, theta


# --- threads -----------------------------------------------------------------------------------------------------------------

_pool: list[ThreadPoolExecutor] = []
if hasattr(os, "register_at_fork"):  # threads do not go along with a fork
    os.register_at_fork(after_in_child=_pool.clear)


def threads() -> int:
    """How many threads Numba may use: NUMBA_NUM_THREADS, or the cores of the machine. Plain Python has one."""
    return 1 if config.DISABLE_JIT else max(1, int(config.NUMBA_NUM_THREADS))


def pool() -> ThreadPoolExecutor:
    """The threads of this process beside the one that asks."""
    if not _pool:
        _pool.append(ThreadPoolExecutor(max(1, threads()), thread_name_prefix="bongref"))
    return _pool[0]


def together(n: int, work: Callable[[int], Any]) -> Any:
    """work(0), …, work(n − 1), each in a thread of its own; returns what the first one does."""
    others = [pool().submit(work, k) for k in range(1, n)]
    try:
        return work(0)
    finally:
        for other in others:
            other.result()


def share(n: int, count: int, work: Callable[[int, slice], Any]) -> None:
    """work(k, part) for n consecutive parts of range(count), each in a thread of its own; the parts depend on n and count alone."""
    together(n, lambda k: work(k, slice(count * k // n, count * (k + 1) // n)))


class Normals:
    """Standard normal variates in ``count`` blocks of the given shape, drawn as gaussians.normals draws them.

    Where there are several threads, one of them draws a block of some size in advance; larger ones are drawn by all of them at once, so
    that there is never a second block that is as large as a Jacobian.
    """

    def __init__(self, rng: np.random.Generator, shape: tuple[int, int], count: int):
        self.rng, self.left, size = rng, count, shape[0] * shape[1]
        self.pcg = PCG(rng) if is_pcg(rng) else None
        self.ahead = threads() > 1 and AHEAD <= size <= LARGE
        self.parts = threads() if size > LARGE else 1
        cuts = [shape[0] * k // self.parts * shape[1] for k in range(self.parts + 1)]
        self.cuts, self.jumps = cuts, None if self.pcg is None else self.pcg.jumps(1, 4, *cuts)
        self.buffers = [np.empty(shape) for _ in range(2 if self.ahead and count > 1 else 1)]
        self.next: Future | None = None
        self._order()

    def _order(self) -> None:
        self.next = pool().submit(self._fill, self.buffers[-1]) if self.ahead and self.left else None

    def _fill(self, out: np.ndarray) -> None:
        z, jumps = out.reshape(-1), self.jumps
        if self.pcg is None or jumps is None:
            self.rng.random(out=z)
            transform(z, table())
            return
        state = self.pcg.state
        together(self.parts, lambda k: fill(state, jumps[[0, 1, 2 + k]], table(), z[self.cuts[k] : self.cuts[k + 1]]))
        self.pcg.advance(jumps[-1])

    def block(self) -> np.ndarray:
        """The next block; from then on those before it may be overwritten."""
        out = self.buffers[-1]
        if self.next is None:
            self._fill(out)
        else:
            self.next.result()
        self.left -= 1
        self.buffers.reverse()
        self._order()
        return out

    def close(self) -> None:
        """Wait for what is under way, and leave the generator where the numbers drawn so far have led it."""
        if self.next is not None:
            self.next.result()
        if self.pcg is not None:
            self.pcg.close()

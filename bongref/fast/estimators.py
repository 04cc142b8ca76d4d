"""Gradients and Hessians from compiled networks: lin-hess, lin-ef and mc-ef. Twins of :mod:`bongref.curvature`.

The Hessian is G = −rowsᵀ rows with rows (K, P), the transpose of the reference's S; of a diagonal family only diag G.
"""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

from ..methods import Method
from .jit import kernel
from .likelihoods import describe as describe_likelihood
from .likelihoods import info_rows, score
from .networks import describe, forward, sweep, workspace
from .normals import table, transform

WORTH = 200_000  # numbers for which a second thread pays


@kernel
def linearised(net, work, lik, hess, x, y, mu, V, rows, g):
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
def sampled(net, work, lik, x, y, theta, rows, scale):
    """rows[m] = scale ∇log p(y | f(x, θ_m)) for the rows of theta (M, P). Twin of curvature.mc_ef."""
    C = len(y)
    V, o, s, buffer = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C)
    for m in range(len(theta)):
        forward(net, theta[m], x, work, o)
        score(lik, o, y, s, buffer)
        for c in range(C):
            V[0, c] = scale * s[c]
        sweep(net, theta[m], x, work, V, rows[m : m + 1])


@kernel
def sampled_diagonal(net, work, lik, x, y, mu, deviations, Z, g, d):
    """Adds Σ_m g_m to g and −Σ_m g_m² to d, g_m the gradient at mu + deviations · Z_m. Twin of curvature.mc_ef and curvature.diagonal."""
    P, C = len(mu), len(y)
    V, o, s, buffer = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C)
    theta, row = np.empty(P), np.empty((1, P))
    line = row[0]
    for m in range(len(Z)):
        z = Z[m]
        for p in range(P):
            theta[p] = mu[p] + deviations[p] * z[p]
        forward(net, theta, x, work, o)
        score(lik, o, y, s, buffer)
        for c in range(C):
            V[0, c] = s[c]
        sweep(net, theta, x, work, V, row)
        for p in range(P):
            g[p] += line[p]
            d[p] -= line[p] * line[p]


class Compiled:
    """The estimators of one method on one built-in model; the arrays that they return are overwritten by the next call."""

    def __init__(self, m: Method, model: Any, lik: Any, threads: int):
        self.net, self.lik = describe(model), describe_likelihood(lik, model.n_outputs)
        self.hess, self.threads, C, P = m.hess, threads, model.n_outputs, model.n_params
        self.n_rows = C if m.hess == "lin-hess" else 1
        self.works = [workspace(self.net, self.n_rows + 1) for _ in range(threads)]
        self.V, self.g = np.empty((self.n_rows + 1 if m.hess == "lin-hess" else 1, C)), np.empty(P)
        self.rows = np.empty((0, P))

    def linearised(self, x, y, mu) -> tuple[np.ndarray, np.ndarray]:
        """(g, rows) at mu."""
        if len(self.rows) != len(self.V):
            self.rows = np.empty((len(self.V), len(mu)))
        linearised(self.net, self.works[0], self.lik, 0 if self.hess == "lin-hess" else 1, x, y, mu, self.V, self.rows, self.g)
        return self.g, self.rows[: self.n_rows]

    def sampled(self, x, y, theta) -> tuple[np.ndarray, np.ndarray]:
        """(g, rows) from the samples theta (M, P)."""
        M = len(theta)
        if self.rows.shape != theta.shape:
            self.rows = np.empty(theta.shape)
        scale = 1 / math.sqrt(M)
        share(
            self.threads if theta.size >= WORTH else 1,
            M,
            lambda k, part: sampled(self.net, self.works[k], self.lik, x, y, theta[part], self.rows[part], scale),
        )
        return self.rows.sum(axis=0) * scale, self.rows

    def sampled_diagonal(self, x, y, mu, deviations, Z, g, d) -> None:
        """Add the sums over the samples mu + deviations · Z to g and d."""
        n = self.threads if Z.size >= WORTH else 1
        sums = [(g, d), *((np.zeros_like(g), np.zeros_like(d)) for _ in range(n - 1))]
        share(
            n,
            len(Z),
            lambda k, part: sampled_diagonal(self.net, self.works[k], self.lik, x, y, mu, deviations, Z[part], *sums[k]),
        )
        for more_g, more_d in sums[1:]:
            g += more_g
            d += more_d


# --- threads -----------------------------------------------------------------------------------------------------------------

_pool: list[ThreadPoolExecutor] = []


def threads() -> int:
    """How many threads Numba may use: NUMBA_NUM_THREADS, or the cores of the machine."""
    return max(1, int(getattr(numba.config, "NUMBA_NUM_THREADS", 1)))


def pool() -> ThreadPoolExecutor:
    """The threads of this process beside the one that asks."""
    if not _pool:
        _pool.append(ThreadPoolExecutor(max(1, threads()), thread_name_prefix="bongref"))
    return _pool[0]


def share(n: int, count: int, work) -> None:
    """work(k, part) for n consecutive parts of range(count), each in a thread of its own; the parts depend on n and count alone."""
    edges = [count * k // n for k in range(n + 1)]
    others = [pool().submit(work, k, slice(edges[k], edges[k + 1])) for k in range(1, n)]
    try:
        work(0, slice(0, edges[1]))
    finally:
        for other in others:
            other.result()


class Normals:
    """Blocks of standard normal variates (rows, P), drawn as gaussians.normals draws them, one block ahead in a thread of its own."""

    def __init__(self, rng: np.random.Generator, shapes: list[tuple[int, int]], ahead: bool):
        self.rng, self.shapes, self.ahead = rng, shapes, ahead
        size = max((a * b for a, b in shapes), default=0)
        self.buffers = [np.empty(size) for _ in range(2 if ahead else 1)]
        self.coefficients, self.at = table(), 0
        self.next: Future | None = None
        self._order()

    def _order(self) -> None:
        if self.ahead and self.at < len(self.shapes):
            self.next = pool().submit(self._fill, self.at)

    def _fill(self, at: int) -> np.ndarray:
        rows, P = self.shapes[at]
        block = self.buffers[at % len(self.buffers)][: rows * P]
        self.rng.random(out=block)
        transform(block, self.coefficients)
        return block.reshape(rows, P)

    def block(self) -> np.ndarray:
        """The next block; the one before it is overwritten from now on."""
        ready = self.next.result() if self.next is not None else self._fill(self.at)
        self.at += 1
        self.next = None
        self._order()
        return ready

    def close(self) -> None:
        """Wait for what is under way."""
        if self.next is not None:
            self.next.result()

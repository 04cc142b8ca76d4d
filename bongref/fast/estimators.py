"""Gradients and Hessians from compiled networks: lin-hess, lin-ef and mc-ef. Twins of :mod:`bongref.curvature`.

The Hessian is G = −rowsᵀ rows with rows (K, P), the transpose of the reference's S; of a diagonal family only diag G.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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

WORTH = 10**6  # numbers for which a second thread in the network pays
GROUP = 2**20  # variates that are drawn in advance: 8 MB
SHARE = 0.4  # of each block that the drawing thread transforms


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

    def __init__(self, m: Method, model: Any, lik: Any, threads: int, rows: bool = True):
        self.net, self.lik = describe(model), describe_likelihood(lik, model.n_outputs)
        self.hess, self.threads, C, P = m.hess, threads, model.n_outputs, model.n_params
        self.n_rows = C if m.hess == "lin-hess" else 1
        self.works = [workspace(self.net, self.n_rows + 1) for _ in range(threads)]
        self.V, self.g = np.empty((self.n_rows + 1 if m.hess == "lin-hess" else 1, C)), np.empty(P)
        self.rows = np.empty((len(self.V) if rows and m.hess.startswith("lin") else 0, P))

    @property
    def description(self) -> tuple[Any, ...]:
        """Network, workspace, likelihood and kind of Hessian, as kernels take them."""
        return self.net, self.works[0], self.lik, 0 if self.hess == "lin-hess" else 1

    def linearised(self, x, y, mu) -> tuple[np.ndarray, np.ndarray]:
        """(g, rows) at mu."""
        linearised(*self.description, x, y, mu, self.V, self.rows, self.g)
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
        sampled_diagonal(self.net, self.works[0], self.lik, x, y, mu, deviations, Z, g, d)


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
    first, *rest = (slice(count * k // n, count * (k + 1) // n) for k in range(n))
    others = [pool().submit(work, k, part) for k, part in enumerate(rest, 1)]
    try:
        work(0, first)
    finally:
        for other in others:
            other.result()


class Normals:
    """Standard normal variates in blocks of rows, drawn as gaussians.normals draws them.

    With ``ahead`` a thread of its own draws them some blocks in advance, as many as make a handover worth while, and transforms a part
    of each; the rest is transformed by the thread that asks for a block, which would otherwise wait.
    """

    def __init__(self, rng: np.random.Generator, P: int, blocks: list[int], ahead: bool):
        self.rng, self.P, self.coefficients = rng, P, table()
        self.groups = list(_groups(blocks, max(1, GROUP // P) if ahead else 1))
        self.share = SHARE if ahead else 0.0
        size = max((sum(group) for group in self.groups), default=0)
        self.buffers = [np.empty((size, P)) for _ in range(2 if ahead else 1)]
        self.ahead, self.group, self.at = ahead, -1, 0
        self.left: list[int] = []
        self.next: Future | None = None
        self._order()

    def _order(self) -> None:
        if self.ahead and self.group + 1 < len(self.groups):
            self.next = pool().submit(self._fill, self.group + 1)

    def _buffer(self, group: int) -> np.ndarray:
        return self.buffers[group % len(self.buffers)]

    def _fill(self, group: int) -> None:
        rows, at, buffer = self.groups[group], 0, self._buffer(group)
        self.rng.random(out=buffer[: sum(rows)])
        for n in rows:
            self._transform(buffer[at : at + int(self.share * n)])
            at += n

    def _transform(self, part: np.ndarray) -> None:
        transform(part.reshape(-1), self.coefficients)

    def block(self) -> np.ndarray:
        """The next block; from then on those before it may be overwritten."""
        if not self.left:
            if self.next is not None:
                self.next.result()
            else:
                self._fill(self.group + 1)
            self.group, self.at, self.next = self.group + 1, 0, None
            self.left = list(self.groups[self.group])
            self._order()
        n = self.left.pop(0)
        out = self._buffer(self.group)[self.at : self.at + n]
        self._transform(out[int(self.share * n) :])
        self.at += n
        return out

    def close(self) -> None:
        """Wait for what is under way."""
        if self.next is not None:
            self.next.result()


def _groups(blocks: list[int], rows: int) -> Iterator[list[int]]:
    """Consecutive blocks together, one at first and then twice as many each time, as long as they have no more rows than that."""
    group: list[int] = []
    most = 1
    for n in blocks:
        if group and (sum(group) + n > rows or len(group) == most):
            yield group
            group, most = [], 2 * most
        group.append(n)
    if group:
        yield group

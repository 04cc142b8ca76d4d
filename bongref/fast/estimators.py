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

WORTH = 50_000  # numbers for which a second thread pays


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

    def parts_of(self, samples) -> int:
        """Into how many parts so many samples are divided."""
        return self.threads if samples.size >= WORTH else 1

    def sampled(self, x, y, theta) -> tuple[np.ndarray, np.ndarray]:
        """(g, rows) from the samples theta (M, P)."""
        M = len(theta)
        if self.rows.shape != theta.shape:
            self.rows = np.empty(theta.shape)
        scale = 1 / math.sqrt(M)
        share(
            self.parts_of(theta),
            M,
            lambda k, part: sampled(self.net, self.works[k], self.lik, x, y, theta[part], self.rows[part], scale),
        )
        return self.rows.sum(axis=0) * scale, self.rows

    def sampled_diagonal(self, x, y, mu, deviations, Z, g, d, fill=None) -> None:
        """Add the sums over the samples mu + deviations · Z to g and d; ``fill(k, part)``, where given, first makes a part of Z."""
        n = self.parts_of(Z)
        sums = [(g, d), *((np.zeros_like(g), np.zeros_like(d)) for _ in range(n - 1))]

        def work(k, part):
            if fill is not None:
                fill(k, part)
            sampled_diagonal(self.net, self.works[k], self.lik, x, y, mu, deviations, Z[part], *sums[k])

        share(n, len(Z), work)
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


def parts(n: int, count: int) -> list[slice]:
    """range(count) in n consecutive parts."""
    return [slice(count * k // n, count * (k + 1) // n) for k in range(n)]


def share(n: int, count: int, work) -> None:
    """work(k, part) for n consecutive parts of range(count), each in a thread of its own; the parts depend on n and count alone."""
    first, *rest = parts(n, count)
    others = [pool().submit(work, k, part) for k, part in enumerate(rest, 1)]
    try:
        work(0, first)
    finally:
        for other in others:
            other.result()


def advance(rng: Any, draws: int) -> None:
    """The generator as if it had drawn so many numbers."""
    rng.bit_generator.advance(draws)


class Blocks:
    """Normal variates for sums over samples: a few rows at a time, each thread drawing its part of the one sequence of gaussians.normals.

    A PCG64 generator, numpy's default, can be put forward by any number of draws, so that each thread begins where its part does. Any
    other generator draws in one thread.
    """

    def __init__(self, rng: np.random.Generator, rows: int, P: int):
        self.rng, self.Z, self.coefficients = rng, np.empty((rows, P)), table()
        self.divisible = type(rng) is np.random.Generator and type(rng.bit_generator) in (np.random.PCG64, np.random.PCG64DXSM)
        self.others = [np.random.Generator(type(rng.bit_generator)()) for _ in range(threads() - 1)] if self.divisible else []

    def sums(self, estimator: Compiled, most: int, x, y, mu, deviations, g, d) -> int:
        """Add the sums over the next samples, at most so many, to g and d; returns how many they were."""
        Z = self.Z[:most]
        if not self.divisible or estimator.parts_of(Z) == 1:
            self._fill(self.rng, Z)
            estimator.sampled_diagonal(x, y, mu, deviations, Z, g, d)
            return len(Z)
        state, edges = self.rng.bit_generator.state, parts(estimator.parts_of(Z), len(Z))
        for other, part in zip(self.others, edges[1:], strict=False):
            other.bit_generator.state = state
            advance(other, Z[: part.start].size)
        generators = [self.rng, *self.others]
        estimator.sampled_diagonal(x, y, mu, deviations, Z, g, d, lambda k, part: self._fill(generators[k], Z[part]))
        advance(self.rng, Z[edges[0].stop :].size)
        after = self.rng.bit_generator.state  # advance forgets half a draw of 32-bit integers, which is not ours to forget
        self.rng.bit_generator.state = {**after, "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}
        return len(Z)

    def _fill(self, rng: np.random.Generator, Z: np.ndarray) -> None:
        block = Z.reshape(-1)
        rng.random(out=block)
        transform(block, self.coefficients)

    def close(self) -> None: ...


class Normals:
    """Blocks of standard normal variates of one shape, drawn as gaussians.normals draws them, one block ahead in a thread of its own."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, int], count: int, ahead: bool):
        self.rng, self.count, self.ahead = rng, count, ahead
        self.buffers = [np.empty(shape) for _ in range(2 if ahead else 1)]
        self.coefficients, self.at = table(), 0
        self.next: Future | None = None
        self._order()

    def _order(self) -> None:
        if self.ahead and self.at < self.count:
            self.next = pool().submit(self._fill, self.at)

    def _fill(self, at: int) -> np.ndarray:
        block = self.buffers[at % len(self.buffers)]
        self.rng.random(out=block)
        transform(block.reshape(-1), self.coefficients)
        return block

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

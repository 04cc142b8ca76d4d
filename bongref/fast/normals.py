"""Standard normal variates from uniform ones, by the quantile function. Reference:
gaussians.normals.

A uniform variate is k/2⁵³, k the first 53 of 64 bits; the reference takes Φ⁻¹ at the middle of its
cell. By symmetry that is ∓Φ⁻¹(r/2⁵³) with r = j + ½, j = k or, where the first bit is 1, k with all
bits inverted. On each of 128 intervals of each octave of r the quantile is a polynomial of degree 5
to rounding; its coefficients are a row of a table: no branches, no logarithm.

The bits are those of PCG64, NumPy's default: a state of 128 bits that each step multiplies and
increments modulo 2¹²⁸. n steps are one such step with other constants, so that CHAINS chains give
every CHAINS-th number each, independently of one another, and the generator goes forward by any
number of draws at once. Numbers of other generators are drawn by NumPy.
"""

from __future__ import annotations

import functools
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from .jit import U, device, kernel, ordered

CHAINS = 64  # blocks of 512 bytes; 2.6 to 3 ns a number for 32 to 128 chains
SHIFT = 45  # of the 52 bits of the fraction 7 choose the interval
FIRST = (1023 - 1) << 7  # the interval at which r = ½ lies
LOW, HALF = (1 << SHIFT) - 1, 1 << (SHIFT - 1)
WORD, MODULUS, MULTIPLIER = 2**64, 2**128, 0x2360ED051FC65DA44385DF649FCCF645
U11, U32, U58, U63, U64 = (np.uint64(k) for k in (11, 32, 58, 63, 64))
MASK32 = np.uint64(2**32 - 1)
N, NONE, ONE_MORE = (np.uint64(k) for k in (CHAINS, 0, 1))
JUMP, USED, PLACES = (np.uint64(3 * CHAINS + k) for k in (0, 4, 5))


@functools.cache
def table() -> np.ndarray:
    """(53 · 128, 6): for each interval, c its middle, coefficients of −Φ⁻¹((c + x)/2⁵³) in x."""
    interval = np.arange(53 * 128)
    octave = 2.0 ** (interval // 128 - 1)
    half, centre = octave / 256, octave * (1 + (interval % 128 + 0.5) / 128)
    nodes = np.cos(np.pi * (np.arange(6) + 0.5) / 6)
    tails = (centre[:, None] + half[:, None] * nodes) / 2.0**53
    quantile = NormalDist().inv_cdf  # to 4 eps; importing scipy.special takes longer than this
    values = np.array([-quantile(r) for r in tails.flat]).reshape(tails.shape)
    scaled = np.linalg.solve(np.vander(nodes, 6, increasing=True), values.T).T
    return np.ascontiguousarray(scaled / half[:, None] ** np.arange(6))


class Source(NamedTuple):
    """The chains of a PCG64 and a block of N = CHAINS variates that are drawn and not used."""

    # (4 N + 5,) uint64: states' halves, last numbers, jump of N steps, how many used; intervals
    words: Any
    values: Any  # (N,): the block
    coefficients: Any  # the table, flat


def jump(increment: int, n: int) -> tuple[int, int]:
    """n steps as one: its multiplier and its increment."""
    a, c, A, C = MULTIPLIER, increment, 1, 0
    while n:
        if n % 2:
            A, C = A * a % MODULUS, (C * a + c) % MODULUS
        a, c, n = a * a % MODULUS, (a + 1) * c % MODULUS, n // 2
    return A, C


def is_pcg(rng: Any) -> bool:
    """Whether this is NumPy's default generator."""
    return isinstance(rng, np.random.Generator) and type(rng.bit_generator) is np.random.PCG64


def source() -> Source:
    """Buffers; :func:`restart` sets the chains."""
    words = np.full(4 * CHAINS + 5, CHAINS, np.uint64)
    return Source(words, np.zeros(CHAINS), table().reshape(-1))


def restart(source: Source, state: int, increment: int, skip: int = 0) -> None:
    """The next variate is the one that a generator with this state gives after ``skip`` others."""
    a, c = jump(increment, skip)
    here = (state * a + c) % MODULUS
    for k in range(CHAINS):
        here = (here * MULTIPLIER + increment) % MODULUS
        source.words[k], source.words[CHAINS + k] = here // WORD, here % WORD
    a, c = jump(increment, CHAINS)
    source.words[3 * CHAINS : 3 * CHAINS + 5] = [a // WORD, a % WORD, c // WORD, c % WORD, CHAINS]


@device
def advance(words):
    """The next number of every chain (XSL-RR), and their jump: 128-bit arithmetic in halves."""
    ah, al, ch, cl = words[JUMP], words[JUMP + U(1)], words[JUMP + U(2)], words[JUMP + U(3)]
    a0, a1 = al & MASK32, al >> U32
    for k in range(N):
        h, l = words[k], words[N + k]
        x, shift = h ^ l, h >> U58
        words[N + N + k] = (x >> shift) | (x << ((U64 - shift) & U63))
        l0, l1 = l & MASK32, l >> U32
        p01, p10 = l0 * a1, l1 * a0
        middle = ((l0 * a0) >> U32) + (p01 & MASK32) + (p10 & MASK32)
        carried = l1 * a1 + (p01 >> U32) + (p10 >> U32) + (middle >> U32)
        new = l * al + cl
        words[N + k] = new
        words[k] = h * al + l * ah + carried + ch + (ONE_MORE if new < cl else NONE)


@ordered
def quantiles(words, coefficients, z, at):
    """z[at:] = the normal variates of the chains' numbers. The second loop is not vectorised."""
    for k in range(N):
        word = words[N + N + k]
        r = np.float64((~word if word >> U63 else word) >> U11) + 0.5  # exact: j + ½
        bits = np.float64(r).view(np.int64)
        words[PLACES + k] = np.uint64((bits >> SHIFT) - FIRST) * U(6)
        z[at + k] = r - np.int64((bits & ~LOW) | HALF).view(np.float64)
    for k in range(N):
        a, x = words[PLACES + k], z[at + k]
        w = x * x
        low = coefficients[a] + x * coefficients[a + U(1)]
        middle = coefficients[a + U(2)] + x * coefficients[a + U(3)]
        high = coefficients[a + U(4)] + x * coefficients[a + U(5)]
        z[at + k] = low + w * (middle + w * high)
    for k in range(N):
        z[at + k] = z[at + k] if words[N + N + k] >> U63 else -z[at + k]


@device
def fill(source, z, at, n):
    """z[at:] (n,) = the next n normal variates."""
    words, v, coefficients = source.words, source.values, source.coefficients
    used, end = words[USED], at + n
    while at < end:
        if used == N:
            advance(words)
            if end - at >= N:
                quantiles(words, coefficients, z, at)
                at += N
                continue
            quantiles(words, coefficients, v, NONE)
            used = NONE
        count = min(end - at, N - used)
        for k in range(count):
            z[at + k] = v[used + k]
        at += count
        used += count
    words[USED] = used


@kernel
def fill_array(source, z):
    """:func:`fill`, called from Python."""
    fill(source, z, U(0), U(len(z)))


@kernel
def transform(u, source):
    """Uniform variates (n,) that NumPy has drawn become normal ones in place."""
    for a in range(0, len(u), CHAINS):
        n = min(CHAINS, len(u) - a)
        for k in range(n):
            source.words[2 * CHAINS + k] = np.uint64(np.int64(u[a + k] * 2.0**53)) << U11
        quantiles(source.words, source.coefficients, source.values, NONE)
        for k in range(n):
            u[a + k] = source.values[k]


def state_of(rng: np.random.Generator) -> tuple[int, int]:
    """State and increment of a PCG64."""
    inner = rng.bit_generator.state["state"]
    return inner["state"], inner["inc"]


def skip(rng: np.random.Generator, n: int) -> None:
    """The generator goes forward by n doubles; half a draw, left from 32-bit numbers, stays."""
    whole: dict[str, Any] = dict(rng.bit_generator.state)
    state, increment = state_of(rng)
    a, c = jump(increment, n)
    there = {"state": (state * a + c) % MODULUS, "inc": increment}
    rng.bit_generator.state = {**whole, "state": there}

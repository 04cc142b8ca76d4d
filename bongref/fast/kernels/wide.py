"""Parts of a DLR step with many rows, as mc-ef has them: samples and their gradients, Gram matrices, the projection. Twins of bongref.dlr.

Each part is a job over some of the samples or some of the parameters, which several threads can share; after them the first thread does
what is left to do with matrices of size R, and those of size R + M are the business of LAPACK and of tridiagonal.
The products keep twelve vectors of sums in registers: four rows against three, or four rows of twelve columns.
A block of columns is copied to where its rows are so close to one another that they stay in the second level cache; the rows of a block,
and its columns, are filled up with 0 to a multiple of 12.
The normals of four samples, the samples, and their gradients are one after the other in the same place. Those of dense networks are there
as (P, 4), which is how they are drawn and computed, and are turned into rows where a block of them is copied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from ..jit import inlined, inner, kernel, making
from ..lanes import gradients4, lanes_room
from ..likelihoods import score
from ..networks import Dense, forward, is_dense, sweep
from ..normals import draw as draw_normals
from ..normals import lcg, place_chains
from ..packs import pack
from ..parts import CHOSEN, MAKING
from ..teams import DONE, LINE, OFFERED, claim, read, wait, write
from ..vectors import aligned, apart, fill4, load4, muladd, spread4, store4, sum4, turned4
from .dlr import BEYOND

WIDTH = 240  # columns of a block
SPAN = 960  # columns of four samples that stay in the first level cache
FOUR = 4  # samples in a job
SMALL = 64.0  # for the eigenvalues of WᵀΥ⁻¹W: rounding in this matrix then moves a sample by a few eps of its deviation
SWEEPS, EPS = 30, 2.0**-52
SAMPLES, GRAMS, CHECK, SETTLE, SLOPES, DESCEND, ROOT = range(7)  # the kinds of jobs
# what is on offer: the kind, the number of its first job, how many there are; the step of the stream; whether z is being drawn in advance
KIND, FIRST, COUNT, TIME, AHEAD = range(5)


@pack
class Room(NamedTuple):
    """The buffers of one thread: blocks of rows, each as a matrix and flat."""

    X: Any  # (N, WIDTH), rows of W̃ᵀ, and then what its Gram matrices are to be solved for
    x: Any
    Z: Any  # (C, WIDTH), combinations of them
    z: Any
    Y: Any  # (C, WIDTH)
    y: Any
    weights: Any  # (2, WIDTH)
    theta: Any  # a sample, or four gradients, or nothing
    chains: Any  # (4, 2) of the generator
    coefficients: Any  # (2 · FOUR · C,): W y and what W is multiplied with, of four samples


@pack
class Step(NamedTuple):
    """A step that all threads see: belief, prior of the inner loop (empty where the rule has none), rows, small matrices."""

    mu: Any
    Ups: Any
    Wt: Any
    mu0: Any
    Ups0: Any
    W0: Any
    rows: Any  # (count, P), or in fours (·, P, 4), flat
    count: Any
    pull: Any  # (P,), which gains the mean of the gradients
    scales: Any  # (4,): of Wt, W0 and rows in W̃; of the sum of the rows of W̃ in the pull
    rates: Any  # (2,): of the mean; by how much Υ moves to Υ₀
    sums: Any  # (jobs, 2, N · N)
    V: Any  # (C · N,): Vᵀ (R, N), then the row that the mean loses
    less: Any  # (N · R,): multiples of the rows of W that those of W̃ᵀ gain, for the projection −V
    twist: Any  # (C · N,): of bbb, WᵀΥ⁻¹ Diag(Υ₀ − Υ) Υ⁻¹W − I
    along: Any  # (R,): of bbb, W₀ᵀ(μ₀ − μ)
    wrong: Any  # (jobs,): 0 where all is finite and Υ > 0


@pack
class Draw(NamedTuple):
    """What samples are drawn from: θ = μ + y − Υ⁻¹W F Wᵀy with y = Υ^{-1/2} z. Twin of gaussians._dlr_noise."""

    w: Any  # Wᵀ, flat
    F: Any  # (C · C,)
    scale: Any  # (P,) = 1/√Υ
    state: Any  # of PCG64
    jumps: Any  # one number; from a chain to the next; of a chain, from number to number; to the samples of each job; past them all
    table: Any
    numbers: Any  # (FOUR · jobs · P,), where a job has its z, then y, θ, and gradients: the rows
    z: Any  # the same, z drawn in advance; empty where it is drawn by the jobs themselves
    ahead: Any  # the board of those who draw in advance


def padded(n: int) -> int:
    """The next multiple of 12."""
    return -(-n // 12) * 12


def room(n: int, R: int, size: int = 0) -> Room:
    """Buffers for n rows of W̃ᵀ, of which R are kept, and ``size`` numbers of samples."""
    C = padded(R + 1)
    X, Z, Y = aligned(padded(n + 3), WIDTH), aligned(C, WIDTH), aligned(C, WIDTH)
    blocks = X, X.reshape(-1), Z, Z.reshape(-1), Y, Y.reshape(-1)
    return Room(*blocks, np.zeros((2, WIDTH)), np.empty(size), np.zeros((4, 2), np.uint64), np.zeros(2 * FOUR * C))


# --- products ------------------------------------------------------------------------------------------------------------------


@inner
def dots(X, x, dx, Y, y0, y1, y2, w, out, at, step):
    """out[at + i step + j] += Σ_p X[x + i dx + p] Y[y_j + p] for i < 4 and j < 3, w a multiple of 4. Twin of numpy.matmul."""
    a0, a1, a2 = fill4(0.0), fill4(0.0), fill4(0.0)
    b0, b1, b2 = fill4(0.0), fill4(0.0), fill4(0.0)
    c0, c1, c2 = fill4(0.0), fill4(0.0), fill4(0.0)
    d0, d1, d2 = fill4(0.0), fill4(0.0), fill4(0.0)
    for p in range(0, w, 4):
        u0, u1, u2 = load4(Y, y0 + p), load4(Y, y1 + p), load4(Y, y2 + p)
        v = load4(X, x + p)
        a0, a1, a2 = muladd(a0, v, u0), muladd(a1, v, u1), muladd(a2, v, u2)
        v = load4(X, x + dx + p)
        b0, b1, b2 = muladd(b0, v, u0), muladd(b1, v, u1), muladd(b2, v, u2)
        v = load4(X, x + 2 * dx + p)
        c0, c1, c2 = muladd(c0, v, u0), muladd(c1, v, u1), muladd(c2, v, u2)
        v = load4(X, x + 3 * dx + p)
        d0, d1, d2 = muladd(d0, v, u0), muladd(d1, v, u1), muladd(d2, v, u2)
    i = at
    out[i], out[i + 1], out[i + 2] = out[i] + sum4(a0), out[i + 1] + sum4(a1), out[i + 2] + sum4(a2)
    i += step
    out[i], out[i + 1], out[i + 2] = out[i] + sum4(b0), out[i + 1] + sum4(b1), out[i + 2] + sum4(b2)
    i += step
    out[i], out[i + 1], out[i + 2] = out[i] + sum4(c0), out[i + 1] + sum4(c1), out[i + 2] + sum4(c2)
    i += step
    out[i], out[i + 1], out[i + 2] = out[i] + sum4(d0), out[i + 1] + sum4(d1), out[i + 2] + sum4(d2)


@inner
def combine(V, at, step, n, X, x, dx, out, o, do):
    """out[o + i do + p] += Σ_k V[at + i step + k] X[x + k dx + p] for i < 4 and p < 12, the sum over n rows. Twin of numpy.matmul."""
    a0, a1, a2 = load4(out, o), load4(out, o + 4), load4(out, o + 8)
    i = o + do
    b0, b1, b2 = load4(out, i), load4(out, i + 4), load4(out, i + 8)
    i += do
    c0, c1, c2 = load4(out, i), load4(out, i + 4), load4(out, i + 8)
    i += do
    d0, d1, d2 = load4(out, i), load4(out, i + 4), load4(out, i + 8)
    for k in range(n):
        j = x + k * dx
        u0, u1, u2 = load4(X, j), load4(X, j + 4), load4(X, j + 8)
        v = spread4(V, at + k)
        a0, a1, a2 = muladd(a0, v, u0), muladd(a1, v, u1), muladd(a2, v, u2)
        v = spread4(V, at + step + k)
        b0, b1, b2 = muladd(b0, v, u0), muladd(b1, v, u1), muladd(b2, v, u2)
        v = spread4(V, at + 2 * step + k)
        c0, c1, c2 = muladd(c0, v, u0), muladd(c1, v, u1), muladd(c2, v, u2)
        v = spread4(V, at + 3 * step + k)
        d0, d1, d2 = muladd(d0, v, u0), muladd(d1, v, u1), muladd(d2, v, u2)
    store4(out, o, a0)
    store4(out, o + 4, a1)
    store4(out, o + 8, a2)
    i = o + do
    store4(out, i, b0)
    store4(out, i + 4, b1)
    store4(out, i + 8, b2)
    i += do
    store4(out, i, c0)
    store4(out, i + 4, c1)
    store4(out, i + 8, c2)
    i += do
    store4(out, i, d0)
    store4(out, i + 4, d1)
    store4(out, i + 8, d2)


# --- jobs over some of the parameters ------------------------------------------------------------------------------------------


@inner
def load(A, scale, at, w, X, n):
    """Rows of X from n on = scale · A in the columns from ``at``, filled up with 0; the number of rows in X then."""
    for r in range(A.shape[0]):
        x, a = X[n + r], A[r, at : at + w]
        for p in range(w):
            x[p] = scale * a[p]
        for p in range(w, (w + 11) // 12 * 12):
            x[p] = 0.0
    return n + A.shape[0]


@inner
def load_fours(A, s, scale, at, w, b, n):
    """As :func:`load`, of the rows of a step in fours. Twin of numpy.transpose."""
    zero, c, whole, x = fill4(0.0), fill4(scale), w // 4 * 4, b.x
    for k in range(0, s.count, FOUR):
        o, i = 4 * (k // FOUR * len(s.mu) + at), (n + k) * WIDTH
        for p in range(0, whole, 4):
            v0, v1, v2, v3 = turned4(load4(A, o), load4(A, o + 4), load4(A, o + 8), load4(A, o + 12))
            store4(x, i + p, muladd(zero, c, v0))
            store4(x, i + p + WIDTH, muladd(zero, c, v1))
            store4(x, i + p + 2 * WIDTH, muladd(zero, c, v2))
            store4(x, i + p + 3 * WIDTH, muladd(zero, c, v3))
            o += 16
        for m in range(FOUR):
            for p in range(whole, (w + 11) // 12 * 12):
                x[i + m * WIDTH + p] = scale * A[o + 4 * (p - whole) + m] if p < w else 0.0
    return n + s.count


def load_rows(A, s, scale, at, w, b, n):
    """:func:`load` of rows as they are."""
    return load(A, scale, at, w, b.X, n)


def load_either(A, s, scale, at, w, b, n):
    """:func:`load` or :func:`load_fours`, for what the rows A of a step are."""
    return (load_fours if A.ndim == 1 else load_rows)(A, s, scale, at, w, b, n)


@overload(load_either, jit_options=CHOSEN)
def _overload_load_either(A, s, scale, at, w, b, n):
    return load_fours.py_func if A.ndim == 1 else load_rows


@inner
def block(s, at, w, b):
    """Columns of W̃ᵀ = [c W, c₀ W₀, c_s S]ᵀ in X; how many rows it has."""
    apart()
    n = load(s.W0, s.scales[1], at, w, b.X, load(s.Wt, s.scales[0], at, w, b.X, 0))
    return load_either(s.rows, s, s.scales[2], at, w, b, n)


@inner
def mean(s, n, at, w, b):
    """The pull gains the mean gradient, and is row n of a block, filled up with 0."""
    pull, x = s.pull[at : at + w], b.X[n]
    for p in range((w + 11) // 12 * 12):
        x[p] = 0.0
    for k in range(n - s.count, n):
        row = b.X[k]
        for p in range(w):
            x[p] += row[p]
    for p in range(w):
        pull[p] += s.scales[3] * x[p]
        x[p] = pull[p]


@inlined
def weigh(s, n, at, w, b):
    """Υ moves to Υ₀; the first n rows of a block, and one more, are divided by its root."""
    u, weights = s.Ups[at : at + w], b.weights[0]
    if len(s.Ups0) > 0:
        u0 = s.Ups0[at : at + w]
        for p in range(w):
            u[p] = (1.0 - s.rates[1]) * u[p] + s.rates[1] * u0[p]
    for p in range(w):
        weights[p] = 1.0 / np.sqrt(u[p])
    for i in range(n + 1):
        x = b.X[i]
        for p in range(w):
            x[p] *= weights[p]


@inner
def gram(x, n, m, w, out, N):
    """The upper triangle of out (N, N) gains x xᵀ, of the first n and the first m rows of x."""
    apart()
    for i in range(0, n, 4):
        for j in range(i // 3 * 3, m, 3):
            dots(x, i * WIDTH, WIDTH, x, j * WIDTH, (j + 1) * WIDTH, (j + 2) * WIDTH, w, out, i * N + j, N)


@inlined
def grams(s, k, first, last, b):
    """Part k of W̃ᵀW̃ and of W̃ᵀΥ⁻¹[W̃, pull]. Twin of linalg.gram."""
    N = b.X.shape[0]
    G, H = s.sums[k, 0], s.sums[k, 1]
    for i in range(len(G)):
        G[i], H[i] = 0.0, 0.0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b)
        mean(s, n, at, w, b)
        gram(b.x, n, n, whole, G, N)
        weigh(s, n, at, w, b)
        gram(b.x, n, n + 1, whole, H, N)


@inner
def combinations(V, n, w, b, Z, z):
    """Z = V X for a block of n rows; z is Z, flat."""
    apart()
    N = b.X.shape[0]
    for r in range(Z.shape[0]):
        x = Z[r]
        for p in range(w):
            x[p] = 0.0
    for r in range(0, Z.shape[0], 4):
        for p in range(0, w, 12):
            combine(V, r * N, N, n, b.x, p, WIDTH, z, r * WIDTH + p, WIDTH)


@inner
def products(b, n, w, out):
    """out (C, N), flat, gains Z Xᵀ of a block of n rows."""
    apart()
    N = b.X.shape[0]
    for i in range(0, b.Z.shape[0], 4):
        for j in range(0, n, 3):
            dots(b.z, i * WIDTH, WIDTH, b.x, j * WIDTH, (j + 1) * WIDTH, (j + 2) * WIDTH, w, out, i * N + j, N)


@inlined
def check(s, k, first, last, b):
    """Part k of (V W̃ᵀ) W̃, which is what V W̃ᵀW̃ is without the rounding of W̃ᵀW̃."""
    N, Y = b.X.shape[0], s.sums[k, 0]
    for i in range(b.Z.shape[0] * N):
        Y[i] = 0.0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b)
        combinations(s.V, n, whole, b, b.Z, b.z)
        products(b, n, whole, Y)


@inlined
def settle(s, k, first, last, b):
    """Part of the new belief: W = V W̃ᵀ, the squares of W̃ᵀ − VᵀW go to Υ. Twin of the last lines of dlr.project."""
    R, wrong = s.Wt.shape[0], 0.0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b)
        combinations(s.V, n, whole, b, b.Z, b.z)
        mu, Ups, pull, lost = s.mu[at : at + w], s.Ups[at : at + w], s.pull[at : at + w], b.Z[R]
        for p in range(w):
            mu[p] += s.rates[0] * (pull[p] - lost[p]) / Ups[p]
        for r in range(R):
            new, z = s.Wt[r, at : at + w], b.Z[r]
            for p in range(w):
                new[p] = z[p]
        for p in range(0, whole, 12):
            for i in range(0, n, 4):
                combine(s.less, i * R, R, R, b.z, p, WIDTH, b.x, i * WIDTH + p, WIDTH)
        for i in range(n):
            x = b.X[i]
            for p in range(w):
                Ups[p] += x[p] * x[p]
        for p in range(w):
            wrong += 0.0 * (mu[p] + Ups[p])
    s.wrong[k] = wrong


@inlined
def slopes(s, k, first, last, b):
    """Part k of [Υ⁻¹W, μ₀ − μ]ᵀ[W, W₀, S] and of WᵀΥ⁻¹ Diag(Υ₀ − Υ) Υ⁻¹W, without μ₀ and Υ₀ where no prior is. Twin of linalg.gram."""
    R, H, T = s.Wt.shape[0], s.sums[k, 0], s.sums[k, 1]
    for i in range(b.Z.shape[0] * b.X.shape[0]):
        H[i], T[i] = 0.0, 0.0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b)
        mean(s, n, at, w, b)
        Ups, mu = s.Ups[at : at + w], s.mu[at : at + w]
        for r in range(R):
            z, x = b.Z[r], b.X[r]
            for p in range(w):
                z[p] = x[p] / Ups[p]
            for p in range(w, whole):
                z[p] = 0.0
        if len(s.mu0) > 0:
            z, mu0 = b.Z[R], s.mu0[at : at + w]
            for p in range(w):
                z[p] = mu0[p] - mu[p]
            for p in range(w, whole):
                z[p] = 0.0
        products(b, n, whole, H)
        if len(s.mu0) > 0:
            Ups0 = s.Ups0[at : at + w]
            for r in range(R):
                z, x = b.Z[r], b.X[r]
                for p in range(w):
                    x[p] = (Ups0[p] - Ups[p]) * z[p]
            products(b, R, whole, T)


@inlined
def diverge(s, at, w, whole, b):
    """What the divergence from the prior adds to a block: to Υ, and to μ along W₀. X has ΣW, Z has Υ⁻¹W. Twin of dlr._sandwich_diagonal."""
    R, half = s.Wt.shape[0], 0.5 * s.rates[0]
    Ups, Ups0, u, fall = s.Ups[at : at + w], s.Ups0[at : at + w], b.weights[0], b.weights[1]
    mu, mu0 = s.mu[at : at + w], s.mu0[at : at + w]
    combinations(s.twist, R, whole, b, b.Y, b.y)
    for p in range(w):
        fall[p] = (Ups0[p] - Ups[p]) * u[p]
        mu[p] += s.rates[0] * Ups0[p] * (mu0[p] - mu[p])
    for p in range(w):
        Ups[p] += half * u[p] * fall[p]
    for r in range(R):
        x, y, z, w0, a = b.X[r], b.Y[r], b.Z[r], s.W0[r, at : at + w], s.rates[0] * s.along[r]
        for p in range(w):
            Ups[p] += half * x[p] * (y[p] - 2.0 * fall[p] * z[p])
            mu[p] += a * w0[p]
        for p in range(w):
            y[p] = s.rates[0] * fall[p] * x[p]


@inlined
def descend(s, k, first, last, b):
    """Part of the new belief of bog and bbb. Twin of dlr.bog_woodbury and dlr.bbb_woodbury.

    With A = Υ⁻¹W: ``less`` has M⁻¹ with ΣW = A M⁻¹ (0 for bog, which does not need it) and −C with ΣX = Υ⁻¹X − A C for X = W₀ and S.
    """
    R, half, wrong, below = s.Wt.shape[0], 0.5 * s.rates[0], 0.0, 0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b)
        mu, Ups, pull, u = s.mu[at : at + w], s.Ups[at : at + w], s.pull[at : at + w], b.weights[0]
        for p in range(w):
            u[p] = 1.0 / Ups[p]
        for i in range(n):
            x = b.X[i]
            for p in range(w):
                x[p] *= u[p]
        for r in range(R):
            x, z = b.X[r], b.Z[r]
            for p in range(whole):
                z[p] = x[p]
                x[p] = 0.0
        for p in range(0, whole, 12):
            for i in range(0, n, 4):
                combine(s.less, i * R, R, R, b.z, p, WIDTH, b.x, i * WIDTH + p, WIDTH)
        if len(s.mu0) > 0:
            diverge(s, at, w, whole, b)
        for i in range(R, n):
            x = b.X[i]
            for p in range(w):
                Ups[p] += half * x[p] * x[p]
        combinations(s.V, n, whole, b, b.Z, b.z)
        for r in range(R):
            new, y, z = s.Wt[r, at : at + w], b.Y[r], b.Z[r]
            for p in range(w):
                new[p] += y[p] + z[p]
                wrong += 0.0 * new[p]
        for p in range(w):
            mu[p] += s.rates[0] * pull[p]
            wrong += 0.0 * (mu[p] + Ups[p])
            below += 0 if Ups[p] > 0.0 else 1
    s.wrong[k] = wrong + below


@inlined
def projected(kind, k, jobs, s, b):
    """Job k of a kind, of bong and blr."""
    P = len(s.mu)
    first, last = P * k // jobs, P * (k + 1) // jobs
    if kind == GRAMS:
        grams(s, k, first, last, b)
    elif kind == CHECK:
        check(s, k, first, last, b)
    else:
        settle(s, k, first, last, b)


@inlined
def descended(kind, k, jobs, s, b):
    """Job k of a kind, of bog and bbb."""
    P = len(s.mu)
    first, last = P * k // jobs, P * (k + 1) // jobs
    if kind == SLOPES:
        slopes(s, k, first, last, b)
    else:
        descend(s, k, first, last, b)


@inner
def add_up(sums, n):
    """The first part of sums (jobs, ≥ n) becomes the sum of all; whether it is finite."""
    total, wrong = sums[0, :n], 0.0
    for k in range(1, sums.shape[0]):
        part = sums[k, :n]
        for i in range(n):
            total[i] += part[i]
    for i in range(n):
        wrong += 0.0 * total[i]
    return wrong == 0.0


@making
def woodbury(s, N, C):
    """V, ``less``, ``twist`` and ``along`` for :func:`descend` from the sums of :func:`slopes`; whether they can be used.

    With H = WᵀΥ⁻¹[W, W₀, S] and T the other sum: X = (I + H_W)⁻¹ [H, T, I]. Twin of dlr.bog_woodbury and dlr.bbb_woodbury.
    """
    R, n, prior, alpha = s.Wt.shape[0], s.Wt.shape[0] + s.W0.shape[0] + s.count, len(s.mu0) > 0, s.rates[0]
    if not (add_up(s.sums[:, 0], C * N) and add_up(s.sums[:, 1], C * N)):
        return False
    H, T = s.sums[0, 0], s.sums[0, 1]  # (C, N), flat
    L, X = np.zeros((R, R)), np.zeros((R, n + 2 * R))
    for i in range(R):
        if prior and H[i * N + i] > BEYOND:
            return False
        x, X[i, n + R + i] = X[i], 1.0
        for j in range(n):
            x[j] = H[i * N + j]
        for j in range(R):
            x[n + j] = T[i * N + j]
        for j in range(i, R):  # column i of the Cholesky factor
            t = H[i * N + j] + (1.0 if i == j else 0.0)
            for k in range(i):
                t -= L[i, k] * L[j, k]
            if i == j and not t > 0.0:
                return False
            L[j, i] = np.sqrt(t) if i == j else t / L[i, i]
    for step in range(2 * R):
        i = step if step < R else 2 * R - 1 - step
        x = X[i]
        for k in range(0 if step < R else i + 1, i if step < R else R):
            y, l = X[k], L[i, k] if step < R else L[k, i]
            for j in range(len(x)):
                x[j] -= l * y[j]
        for j in range(len(x)):
            x[j] /= L[i, i]
    for r in range(R):
        for i in range(R, n):
            s.V[r * N + i], s.less[i * R + r] = alpha * X[r, i], -X[r, i]
        if prior:
            for i in range(R):
                s.V[r * N + i], s.less[i * R + r] = -alpha * (X[r, i] + X[r, n + i]), X[r, n + R + i]
                s.twist[r * N + i] = T[r * N + i] - (1.0 if r == i else 0.0)
            s.along[r] = H[R * N + R + r]
    return True


@kernel
def alone(kind, down, s, b):
    """All jobs of a kind, in one thread; ``down`` is None for bong and blr, so that the jobs of the others are not even compiled.

    Returns whether what follows from the sums can be used.
    """
    for k in range(len(s.wrong)):
        if down is None:
            projected(kind, k, len(s.wrong), s, b)
        else:
            descended(kind, k, len(s.wrong), s, b)
    if down is not None and kind == SLOPES:
        return woodbury(s, b.X.shape[0], b.Z.shape[0])
    return True


# --- samples -------------------------------------------------------------------------------------------------------------------


@inner
def root(d, s, k, jobs, b):
    """Part k of 1/√Υ, and of WᵀΥ⁻¹W. Twin of linalg.gram."""
    P, R, G = len(s.mu), s.Wt.shape[0], s.sums[k, 0]
    for i in range(b.Z.shape[0] * b.X.shape[0]):
        G[i] = 0.0
    for at in range(P * k // jobs, P * (k + 1) // jobs, WIDTH):
        w = min(WIDTH, P * (k + 1) // jobs - at)
        scale, Ups = d.scale[at : at + w], s.Ups[at : at + w]
        load(s.Wt, 1.0, at, w, b.X, 0)
        for p in range(w):
            scale[p] = 1.0 / np.sqrt(Ups[p])
        for r in range(R):
            x = b.X[r]
            for p in range(w):
                x[p] *= scale[p]
        gram(b.x, R, R, (w + 11) // 12 * 12, G, b.X.shape[0])


@inner
def turn_to_diagonal(B, V):
    """B (R, R), symmetric, becomes the diagonal matrix V B Vᵀ by Jacobi rotations. Twin of numpy.linalg.eigh."""
    R = len(B)
    for i in range(R):
        for j in range(R):
            V[i, j] = 1.0 if i == j else 0.0
    for _ in range(SWEEPS):
        size, left = 0.0, 0.0
        for i in range(R):
            size += B[i, i] * B[i, i]
            for j in range(i):
                left += B[i, j] * B[i, j]
        if left <= EPS * EPS * size:
            break
        for i in range(R - 1):
            for j in range(i + 1, R):
                if B[i, j] != 0.0:
                    x = (B[j, j] - B[i, i]) / (2.0 * B[i, j])
                    t = (1.0 if x >= 0.0 else -1.0) / (abs(x) + np.sqrt(x * x + 1.0))
                    c = 1.0 / np.sqrt(t * t + 1.0)
                    for k in range(R):
                        B[i, k], B[j, k] = c * (B[i, k] - t * B[j, k]), c * (B[j, k] + t * B[i, k])
                        V[i, k], V[j, k] = c * (V[i, k] - t * V[j, k]), c * (V[j, k] + t * V[i, k])
                    for k in range(R):
                        B[k, i], B[k, j] = c * (B[k, i] - t * B[k, j]), c * (B[k, j] + t * B[k, i])


@making
def weigh_root(d, s, N, C):
    """F = V D Vᵀ with D = 1/(h + h²), h = √(1 + Λ²), WᵀΥ⁻¹W = V Λ² Vᵀ; whether Λ² is so small that this loses no digits."""
    R = s.Wt.shape[0]
    if not add_up(s.sums[:, 0], C * N):
        return False
    B, V = np.empty((R, R)), np.empty((R, R))
    for i in range(R):
        for j in range(i, R):
            B[i, j] = B[j, i] = s.sums[0, 0, i * N + j]
        if B[i, i] > SMALL:
            return False
    turn_to_diagonal(B, V)
    for i in range(R):
        if B[i, i] > SMALL:
            return False
        h = np.sqrt(1.0 + B[i, i])
        B[i, i] = 1.0 / (h + h * h)
    for i in range(R):
        for j in range(R):
            total = 0.0
            for k in range(R):
                total += V[k, i] * B[k, k] * V[k, j]
            d.F[i * C + j] = total
    return True


@inner
def normals(d, k, P, z, chains):
    """The standard normals of job k, in z. Twin of gaussians.normals."""
    place_chains(d.state, d.jumps[0], d.jumps[1], d.jumps[3 + k], chains)
    draw_normals(chains, d.jumps[2], d.table, z[FOUR * k * P : FOUR * (k + 1) * P])


@inner
def scale_fours(z, scale, low, high, y):
    """y = scale · z, of columns of (P, 4)."""
    zero = fill4(0.0)
    for p in range(low, high):
        store4(y, 4 * p, muladd(zero, spread4(scale, p), load4(z, 4 * p)))


@inner
def dots_fours(y, low, high, w, r, R, P, c):
    """Rows r, … r + 3 of c (·, 4) gain those of W y over some columns; from R on the last one again. Twin of numpy.matmul."""
    w0, w1, w2, w3 = r * P, min(r + 1, R - 1) * P, min(r + 2, R - 1) * P, min(r + 3, R - 1) * P
    a0, a1, a2, a3 = load4(c, 4 * r), load4(c, 4 * r + 4), load4(c, 4 * r + 8), load4(c, 4 * r + 12)
    b0 = b1 = b2 = b3 = fill4(0.0)
    whole, one = low + (high - low) // 2 * 2, fill4(1.0)
    for p in range(low, whole, 2):
        v = load4(y, 4 * p)
        a0, a1 = muladd(a0, spread4(w, w0 + p), v), muladd(a1, spread4(w, w1 + p), v)
        a2, a3 = muladd(a2, spread4(w, w2 + p), v), muladd(a3, spread4(w, w3 + p), v)
        v = load4(y, 4 * p + 4)
        b0, b1 = muladd(b0, spread4(w, w0 + p + 1), v), muladd(b1, spread4(w, w1 + p + 1), v)
        b2, b3 = muladd(b2, spread4(w, w2 + p + 1), v), muladd(b3, spread4(w, w3 + p + 1), v)
    for p in range(whole, high):
        v = load4(y, 4 * p)
        a0, a1 = muladd(a0, spread4(w, w0 + p), v), muladd(a1, spread4(w, w1 + p), v)
        a2, a3 = muladd(a2, spread4(w, w2 + p), v), muladd(a3, spread4(w, w3 + p), v)
    store4(c, 4 * r, muladd(a0, one, b0))
    store4(c, 4 * r + 4, muladd(a1, one, b1))
    store4(c, 4 * r + 8, muladd(a2, one, b2))
    store4(c, 4 * r + 12, muladd(a3, one, b3))


@inner
def weigh_fours(F, R, C, c):
    """What W is multiplied with, −F W y: the second half of c, for the first one. Both (C, 4)."""
    for r in range(R):
        a = fill4(0.0)
        for i in range(R):
            a = muladd(a, fill4(-F[r * C + i]), load4(c, 4 * i))
        store4(c, 4 * (C + r), a)


@inner
def sample(y, p, mu, scale, a):
    """Column p of y becomes μ + y + a/Υ."""
    s, one = spread4(scale, p), fill4(1.0)
    store4(y, 4 * p, muladd(muladd(load4(y, 4 * p), one, spread4(mu, p)), s, muladd(fill4(0.0), s, a)))


@inner
def samples_fours(y, mu, scale, w, R, C, c):
    """y (P, 4), flat, becomes θ. Twin of gaussians.draw."""
    P = len(mu)
    for p in range(0, P // 6 * 6, 6):
        a0 = a1 = a2 = a3 = a4 = a5 = fill4(0.0)
        i = p
        for r in range(R):
            v = load4(c, 4 * (C + r))
            a0, a1 = muladd(a0, spread4(w, i), v), muladd(a1, spread4(w, i + 1), v)
            a2, a3 = muladd(a2, spread4(w, i + 2), v), muladd(a3, spread4(w, i + 3), v)
            a4, a5 = muladd(a4, spread4(w, i + 4), v), muladd(a5, spread4(w, i + 5), v)
            i += P
        sample(y, p, mu, scale, a0)
        sample(y, p + 1, mu, scale, a1)
        sample(y, p + 2, mu, scale, a2)
        sample(y, p + 3, mu, scale, a3)
        sample(y, p + 4, mu, scale, a4)
        sample(y, p + 5, mu, scale, a5)
    for p in range(P // 6 * 6, P):
        a = fill4(0.0)
        for r in range(R):
            a = muladd(a, spread4(w, r * P + p), load4(c, 4 * (C + r)))
        sample(y, p, mu, scale, a)


@inner
def draw_ahead(d, jobs, P, chains):
    """Some of the standard normals of the next samples, if any are left to be drawn; whether there were."""
    job = claim(d.ahead)
    if job >= 0:
        normals(d, job % jobs, P, d.z, chains)
        write(d.ahead, DONE + LINE * (job % jobs), job + 1)
    return job >= 0


@inner
def offer_ahead(d, jobs, turn):
    """The standard normals of the next samples, for anyone who has nothing else to do."""
    write(d.ahead, OFFERED, read(d.ahead, OFFERED) + jobs)
    turn[AHEAD] = 1


@inner
def finish_ahead(d, jobs, P, turn, chains):
    """All standard normals of the next samples."""
    if turn[AHEAD] == 0:
        offer_ahead(d, jobs, turn)
    while draw_ahead(d, jobs, P, chains):
        pass
    wait(d.ahead, jobs)


@inlined
def dense_samples(net, work, lik, x, y, d, k, s, b):
    """:func:`samples` of a Dense, all four at once; as rows (4, P) where there is room to turn them."""
    P, R, C, c, first = len(s.mu), s.Wt.shape[0], b.Z.shape[0], b.coefficients, FOUR * k * len(s.mu)
    here, z = d.numbers[first : first + FOUR * P], (d.z if len(d.z) > 0 else d.numbers)[first : first + FOUR * P]
    if len(d.z) == 0:
        normals(d, k, P, d.numbers, b.chains)
    for i in range(len(c)):
        c[i] = 0.0
    for low in range(0, P, SPAN):
        high = min(P, low + SPAN)
        scale_fours(z, d.scale, low, high, here)
        for r in range(0, R, 4):
            dots_fours(here, low, high, d.w, r, R, P, c)
    weigh_fours(d.F, R, C, c)
    samples_fours(here, s.mu, d.scale, d.w, R, C, c)
    gradients4(net, lanes_room(net, x, len(y)), lik, y, here, min(FOUR, s.count - FOUR * k), 1.0 / np.sqrt(s.count), here)
    for i in range(len(b.theta)):
        b.theta[i] = here[i]
    for m in range(FOUR if len(b.theta) > 0 else 0):
        for p in range(P):
            here[m * P + p] = b.theta[4 * p + m]


@inner
def place_rows(d, k, s, b):
    """z becomes θ: four rows of ``numbers`` from FOUR · k on. Twin of gaussians.draw."""
    P, R, C, c, t, o = len(s.mu), s.Wt.shape[0], b.Z.shape[0], b.coefficients, d.numbers, FOUR * k * len(s.mu)
    for i in range(len(c)):
        c[i] = 0.0
    for low in range(0, P, SPAN):
        w = min(SPAN, P - low)
        scale = d.scale[low : low + w]
        for m in range(FOUR):
            y = t[o + m * P + low : o + m * P + low + w]
            for p in range(w):
                y[p] *= scale[p]
        for r in range(0, R, 3):
            y0, y1, y2 = r * P + low, min(r + 1, R - 1) * P + low, min(r + 2, R - 1) * P + low
            dots(t, o + low, P, d.w, y0, y1, y2, w // 4 * 4, c, r, C)
        for p in range(low + w // 4 * 4, low + w):
            for m in range(FOUR):
                for r in range(R):
                    c[m * C + r] += t[o + m * P + p] * d.w[r * P + p]
    for i in range(FOUR * C):
        for r in range(R):
            c[FOUR * C + i] -= d.F[i % C * C + r] * c[i // C * C + r]
    for low in range(0, P, SPAN):
        w = min(SPAN, P - low)
        mu, scale, Ups = s.mu[low : low + w], d.scale[low : low + w], s.Ups[low : low + w]
        for m in range(FOUR):
            y = t[o + m * P + low : o + m * P + low + w]
            for p in range(w):
                y[p] *= Ups[p]
        for p in range(low, low + w // 12 * 12, 12):
            combine(c, FOUR * C, C, R, d.w, p, P, t, o + p, P)
        for p in range(low + w // 12 * 12, low + w):
            for m in range(FOUR):
                for r in range(R):
                    t[o + m * P + p] += c[(FOUR + m) * C + r] * d.w[r * P + p]
        for m in range(FOUR):
            y = t[o + m * P + low : o + m * P + low + w]
            for p in range(w):
                y[p] = mu[p] + scale[p] * (scale[p] * y[p])


@inlined
def single_samples(net, work, lik, x, y, d, k, s, b):
    """:func:`samples` of a Conv, one after the other."""
    P, C = len(s.mu), len(y)
    V, o, v, buffer, theta = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C), b.theta
    here, scale, first = d.numbers[FOUR * k * P : FOUR * (k + 1) * P], 1.0 / np.sqrt(s.count), FOUR * k * P
    if len(d.z) > 0:
        for i in range(len(here)):
            here[i] = d.z[first + i]
    else:
        normals(d, k, P, d.numbers, b.chains)
    place_rows(d, k, s, b)
    for m in range(min(FOUR, s.count - FOUR * k)):
        for p in range(P):
            theta[p] = here[m * P + p]
        forward(net, theta, x, work, o)
        score(lik, o, y, v, buffer)
        for c in range(C):
            V[0, c] = scale * v[c]
        sweep(net, theta, x, work, V, s.rows[FOUR * k + m : FOUR * k + m + 1])


def samples(net, work, lik, x, y, d, k, s, b):
    """The rows of job k = gradients at samples, divided by √M. Twin of curvature.mc_ef."""
    return (dense_samples if isinstance(net, Dense) else single_samples)(net, work, lik, x, y, d, k, s, b)


@overload(samples, jit_options=MAKING)
def _overload_samples(net, work, lik, x, y, d, k, s, b):
    return (dense_samples if is_dense(net) else single_samples).py_func


@kernel
def team(first, kind, down, net, work, lik, X, Y, d, s, b, turn, board):
    """The first thread offers the jobs of a kind and does them, together with the others, who stay until the board is closed.

    The others, when there is no job, draw what the next samples need. ``down`` and what is returned as in :func:`alone`.
    """
    P, fours = len(s.mu), (s.count + FOUR - 1) // FOUR
    if first and kind == SAMPLES and len(d.z) > 0:
        finish_ahead(d, fours, P, turn, b.chains)
    if first:
        jobs = len(s.wrong) if kind != SAMPLES else fours
        turn[KIND], turn[FIRST], turn[COUNT] = kind, read(board, OFFERED), jobs
        write(board, OFFERED, turn[FIRST] + jobs)
    while True:
        job = claim(board)
        if job >= 0:
            k = job - turn[FIRST]
            if turn[KIND] == SAMPLES:
                samples(net, work, lik, X[turn[TIME]], Y[turn[TIME]], d, k, s, b)
            elif turn[KIND] == ROOT:
                root(d, s, k, turn[COUNT], b)
            elif down is None:
                projected(turn[KIND], k, turn[COUNT], s, b)
            else:
                descended(turn[KIND], k, turn[COUNT], s, b)
            write(board, DONE + LINE * k, job + 1)
        elif first or job == -2:
            break
        elif len(d.z) > 0:
            draw_ahead(d, fours, P, b.chains)
    if first:
        wait(board, turn[COUNT])
    if first and kind == ROOT:
        return weigh_root(d, s, b.X.shape[0], b.Z.shape[0])
    if first and down is not None and kind == SLOPES:
        return woodbury(s, b.X.shape[0], b.Z.shape[0])
    if first and kind == SAMPLES:
        d.state[0], d.state[1] = lcg(d.state[0], d.state[1], d.jumps[len(d.jumps) - 1])
        if len(d.z) > 0:
            offer_ahead(d, fours, turn)
    return True

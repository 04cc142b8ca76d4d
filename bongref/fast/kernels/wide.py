"""Parts of a DLR step with many rows, as mc-ef has them: samples and their gradients, Gram matrices, the projection. Twins of bongref.dlr.

Each part is a job over some of the samples or some of the parameters, which several threads can share; after them the first thread does
what is left to do with matrices of size R, and those of size R + M are the business of LAPACK and of tridiagonal.
The products keep twelve vectors of sums in registers: four rows against three, or four rows of twelve columns.
A block of columns is copied to where its rows are so close to one another that they stay in the second level cache; the rows of a block,
and its columns, are filled up with 0 to a multiple of 12.
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
from ..parts import MAKING
from ..teams import DONE, LINE, OFFERED, claim, read, wait, write
from ..vectors import apart, fill4, gather4, load4, muladd, spread4, store4, sum4
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
    theta: Any  # (FOUR, S), samples
    t: Any
    chains: Any  # (4, 2) of the generator
    coefficients: Any  # (2 · FOUR · C,)


@pack
class Step(NamedTuple):
    """A step that all threads see: belief, prior of the inner loop (empty where the rule has none), rows, small matrices."""

    mu: Any
    Ups: Any
    Wt: Any
    mu0: Any
    Ups0: Any
    W0: Any
    rows: Any  # (K, P)
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
    """What samples are drawn from: θ = μ + (z − A F Aᵀ z) / √Υ. Twin of gaussians._dlr_noise."""

    A: Any  # (C, S), R rows and P columns of it
    a: Any
    F: Any  # (C · C,)
    scale: Any  # (P,) = 1/√Υ
    state: Any  # of PCG64
    jumps: Any  # one number, four, to the samples of each job, and past them all
    table: Any
    Z: Any  # (FOUR · jobs, S), z drawn in advance; without rows where it is drawn by the jobs themselves
    z: Any
    ahead: Any  # the board of those who draw in advance


def padded(n: int) -> int:
    """The next multiple of 12."""
    return -(-n // 12) * 12


def room(n: int, R: int, P: int) -> Room:
    """Buffers for n rows of W̃ᵀ, of which R are kept, and for samples of P parameters."""
    C, S = padded(R + 1), padded(P)
    X, Z, Y, T = (np.zeros(shape) for shape in ((padded(n + 3), WIDTH), (C, WIDTH), (C, WIDTH), (FOUR, S)))
    blocks = X, X.reshape(-1), Z, Z.reshape(-1), Y, Y.reshape(-1)
    return Room(*blocks, np.zeros((2, WIDTH)), T, T.reshape(-1), np.zeros((4, 2), np.uint64), np.zeros(2 * FOUR * C))


# --- products ------------------------------------------------------------------------------------------------------------------


@inner
def dots(X, x, dx, Y, y, dy, w, out, at, step):
    """out[at + i step + j] += Σ_p X[x + i dx + p] Y[y + j dy + p] for i < 4 and j < 3, w a multiple of 4. Twin of numpy.matmul."""
    a0, a1, a2 = fill4(0.0), fill4(0.0), fill4(0.0)
    b0, b1, b2 = fill4(0.0), fill4(0.0), fill4(0.0)
    c0, c1, c2 = fill4(0.0), fill4(0.0), fill4(0.0)
    d0, d1, d2 = fill4(0.0), fill4(0.0), fill4(0.0)
    for p in range(0, w, 4):
        u0, u1, u2 = load4(Y, y + p), load4(Y, y + dy + p), load4(Y, y + 2 * dy + p)
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
def block(s, at, w, X):
    """Columns of W̃ᵀ = [c W, c₀ W₀, c_s S]ᵀ; how many rows it has."""
    apart()
    return load(s.rows, s.scales[2], at, w, X, load(s.W0, s.scales[1], at, w, X, load(s.Wt, s.scales[0], at, w, X, 0)))


@inner
def mean(s, n, at, w, b):
    """The pull gains the mean gradient, and is row n of a block, filled up with 0."""
    pull, x = s.pull[at : at + w], b.X[n]
    for p in range((w + 11) // 12 * 12):
        x[p] = 0.0
    for k in range(n - s.rows.shape[0], n):
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
            dots(x, i * WIDTH, WIDTH, x, j * WIDTH, WIDTH, w, out, i * N + j, N)


@inlined
def grams(s, k, first, last, b):
    """Part k of W̃ᵀW̃ and of W̃ᵀΥ⁻¹[W̃, pull]. Twin of linalg.gram."""
    N = b.X.shape[0]
    G, H = s.sums[k, 0], s.sums[k, 1]
    for i in range(len(G)):
        G[i], H[i] = 0.0, 0.0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b.X)
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
            dots(b.z, i * WIDTH, WIDTH, b.x, j * WIDTH, WIDTH, w, out, i * N + j, N)


@inlined
def check(s, k, first, last, b):
    """Part k of (V W̃ᵀ) W̃, which is what V W̃ᵀW̃ is without the rounding of W̃ᵀW̃."""
    N, Y = b.X.shape[0], s.sums[k, 0]
    for i in range(b.Z.shape[0] * N):
        Y[i] = 0.0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b.X)
        combinations(s.V, n, whole, b, b.Z, b.z)
        products(b, n, whole, Y)


@inlined
def settle(s, k, first, last, b):
    """Part of the new belief: W = V W̃ᵀ, the squares of W̃ᵀ − VᵀW go to Υ. Twin of the last lines of dlr.project."""
    R, wrong = s.Wt.shape[0], 0.0
    for at in range(first, last, WIDTH):
        w = min(WIDTH, last - at)
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b.X)
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
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b.X)
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
        whole, n = (w + 11) // 12 * 12, block(s, at, w, b.X)
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
    R, n, prior, alpha = s.Wt.shape[0], s.Wt.shape[0] + s.W0.shape[0] + s.rows.shape[0], len(s.mu0) > 0, s.rates[0]
    if not (add_up(s.sums[:, 0], C * N) and add_up(s.sums[:, 1], C * N)):
        return False
    H, T = s.sums[0, 0, : C * N].reshape(C, N), s.sums[0, 1, : C * N].reshape(C, N)
    L, X = np.zeros((R, R)), np.zeros((R, n + 2 * R))
    for i in range(R):
        if prior and H[i, i] > BEYOND:
            return False
        X[i, :n], X[i, n : n + R], X[i, n + R + i] = H[i, :n], T[i, :R], 1.0
        for j in range(i, R):  # column i of the Cholesky factor
            t = H[i, j] + (1.0 if i == j else 0.0)
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
                s.twist[r * N + i] = T[r, i] - (1.0 if r == i else 0.0)
            s.along[r] = H[R, R + r]
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
def root(d, s, k, jobs):
    """Part k of A = WᵀΥ^{-1/2}, which is written down with 1/√Υ, and of AAᵀ. Twin of linalg.gram."""
    (C, S), P, R, G = d.A.shape, len(s.mu), s.Wt.shape[0], s.sums[k, 0]
    first, last = S // 12 * k // jobs * 12, S // 12 * (k + 1) // jobs * 12
    scale, Ups = d.scale[first : min(last, P)], s.Ups[first : min(last, P)]
    for i in range(C * C):
        G[i] = 0.0
    for p in range(len(scale)):
        scale[p] = 1.0 / np.sqrt(Ups[p])
    for r in range(R):
        a, w = d.A[r, first : min(last, P)], s.Wt[r, first : min(last, P)]
        for p in range(len(a)):
            a[p] = scale[p] * w[p]
    for at in range(first, last, SPAN):
        for i in range(0, R, 4):
            for j in range(i // 3 * 3, R, 3):
                dots(d.a, i * S + at, S, d.a, j * S + at, S, min(SPAN, last - at), G, i * C + j, C)


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
def weigh_root(d, s):
    """F = V D Vᵀ with D = 1/(h + h²), h = √(1 + Λ²), AᵀA = V Λ² Vᵀ; whether Λ² is so small that this loses no digits."""
    C, R = len(d.A), s.Wt.shape[0]
    if not add_up(s.sums[:, 0], C * C):
        return False
    B, V = np.empty((R, R)), np.empty((R, R))
    for i in range(R):
        for j in range(i, R):
            B[i, j] = B[j, i] = s.sums[0, 0, i * C + j]
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
def normals(d, k, n, P, Z, chains):
    """The standard normals of the n samples of job k, rows of Z. Twin of gaussians.normals."""
    place_chains(d.state, d.jumps[0], d.jumps[0], d.jumps[2 + k], chains)
    for m in range(n):
        draw_normals(chains, d.jumps[1], d.table, Z[m, :P])


@inner
def draw(d, k, n, P, R, b):
    """z of the n samples of job k, an array and where in it they begin; −F Aᵀz is in the coefficients. Twin of gaussians._dlr_noise."""
    C, S, c, t, o = len(d.A), b.theta.shape[1], b.coefficients, b.t, 0
    if len(d.Z) > 0:
        t, o = d.z, FOUR * k * S
    else:
        normals(d, k, n, P, b.theta, b.chains)
    for i in range(len(c)):
        c[i] = 0.0
    for at in range(0, S, SPAN):
        for r in range(0, R, 3):
            dots(t, o + at, S, d.a, r * S + at, S, min(SPAN, S - at), c, r, C)
    for i in range(FOUR * C):
        for r in range(R):
            c[FOUR * C + i] -= d.F[i % C * C + r] * c[i // C * C + r]
    return t, o


@inner
def noise(d, R, b, t, o, low, high):
    """Columns of z become those of z − A F Aᵀz. Twin of gaussians._dlr_noise."""
    C, S = d.A.shape
    for p in range(low, high, 12):
        combine(b.coefficients, FOUR * C, C, R, d.a, p, S, t, o + p, S)


@inner
def draw_ahead(d, M, P, chains):
    """Some of the standard normals of the next samples, if any are left to be drawn; whether there were."""
    job = claim(d.ahead)
    if job >= 0:
        k = job % (len(d.Z) // FOUR)
        normals(d, k, min(FOUR, M - FOUR * k), P, d.Z[FOUR * k :], chains)
        write(d.ahead, DONE + LINE * k, job + 1)
    return job >= 0


@inner
def offer_ahead(d, turn):
    """The standard normals of the next samples, for anyone who has nothing else to do."""
    write(d.ahead, OFFERED, read(d.ahead, OFFERED) + len(d.Z) // FOUR)
    turn[AHEAD] = 1


@inner
def finish_ahead(d, M, P, turn, chains):
    """All standard normals of the next samples."""
    if turn[AHEAD] == 0:
        offer_ahead(d, turn)
    while draw_ahead(d, M, P, chains):
        pass
    wait(d.ahead, len(d.Z) // FOUR)


@inlined
def dense_samples(net, work, lik, x, y, d, k, s, b):
    """:func:`samples` of a Dense, all four at once."""
    M, P, S, R = s.rows.shape[0], s.rows.shape[1], b.theta.shape[1], s.Wt.shape[0]
    n, mu, scale, theta = min(FOUR, M - FOUR * k), s.mu, d.scale, np.empty(FOUR * s.rows.shape[1])
    t, o = draw(d, k, n, P, R, b)
    for low in range(0, S, SPAN):
        noise(d, R, b, t, o, low, min(low + SPAN, S))
        for p in range(low, min(low + SPAN, P)):
            store4(theta, 4 * p, muladd(spread4(mu, p), spread4(scale, p), gather4(t, o + p, S)))
    gradients4(net, lanes_room(net, x, len(y)), lik, y, theta, n, 1.0 / np.sqrt(M), s.rows[FOUR * k : FOUR * k + n])


@inlined
def single_samples(net, work, lik, x, y, d, k, s, b):
    """:func:`samples` of a Conv, one after the other."""
    M, P, C, S, R = s.rows.shape[0], s.rows.shape[1], len(y), b.theta.shape[1], s.Wt.shape[0]
    V, o, v, buffer = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C)
    n, scale = min(FOUR, M - FOUR * k), 1.0 / np.sqrt(M)
    t, at = draw(d, k, n, P, R, b)
    for low in range(0, S, SPAN):
        noise(d, R, b, t, at, low, min(low + SPAN, S))
        mu, width = s.mu[low : low + SPAN], d.scale[low : low + SPAN]
        for m in range(n):
            z = t[at + m * S + low : at + m * S + low + len(mu)]
            for p in range(len(mu)):
                z[p] = mu[p] + width[p] * z[p]
    for m in range(n):
        theta = t[at + m * S : at + m * S + P]
        forward(net, theta, x, work, o)
        score(lik, o, y, v, buffer)
        for c in range(C):
            V[0, c] = scale * v[c]
        sweep(net, theta, x, work, V, s.rows[FOUR * k + m : FOUR * k + m + 1])


def samples(net, work, lik, x, y, d, k, s, b):
    """Rows FOUR · k, … of s.rows = gradients at samples, divided by √M. Twin of curvature.mc_ef."""
    return (dense_samples if isinstance(net, Dense) else single_samples)(net, work, lik, x, y, d, k, s, b)


@overload(samples, jit_options=MAKING)
def _overload_samples(net, work, lik, x, y, d, k, s, b):
    return (dense_samples if is_dense(net) else single_samples).py_func


@kernel
def team(first, kind, down, net, work, lik, X, Y, d, s, b, turn, board):
    """The first thread offers the jobs of a kind and does them, together with the others, who stay until the board is closed.

    The others, when there is no job, draw what the next samples need. ``down`` and what is returned as in :func:`alone`.
    """
    M, P = s.rows.shape
    if first and kind == SAMPLES and len(d.Z) > 0:
        finish_ahead(d, M, P, turn, b.chains)
    if first:
        jobs = len(s.wrong) if kind != SAMPLES else (s.rows.shape[0] + FOUR - 1) // FOUR
        turn[KIND], turn[FIRST], turn[COUNT] = kind, read(board, OFFERED), jobs
        write(board, OFFERED, turn[FIRST] + jobs)
    while True:
        job = claim(board)
        if job >= 0:
            k = job - turn[FIRST]
            if turn[KIND] == SAMPLES:
                samples(net, work, lik, X[turn[TIME]], Y[turn[TIME]], d, k, s, b)
            elif turn[KIND] == ROOT:
                root(d, s, k, turn[COUNT])
            elif down is None:
                projected(turn[KIND], k, turn[COUNT], s, b)
            else:
                descended(turn[KIND], k, turn[COUNT], s, b)
            write(board, DONE + LINE * k, job + 1)
        elif first or job == -2:
            break
        elif len(d.Z) > 0:
            draw_ahead(d, M, P, b.chains)
    if first:
        wait(board, turn[COUNT])
    if first and kind == ROOT:
        return weigh_root(d, s)
    if first and down is not None and kind == SLOPES:
        return woodbury(s, b.X.shape[0], b.Z.shape[0])
    if first and kind == SAMPLES:
        d.state[0], d.state[1] = lcg(d.state[0], d.state[1], d.jumps[len(d.jumps) - 1])
        if len(d.Z) > 0:
            offer_ahead(d, turn)
    return True

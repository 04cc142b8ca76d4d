r"""The Gaussian with a full covariance between the steps of a stream, families fc and fc_mom: the twin of fc_nat, fc_mom and predict.

A covariance is read and written as rarely as its algebra allows:

* :class:`_Moments` holds Σ as c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ, of A one triangle only. A step with few columns is one product with A and
  a new row of V; every :data:`ROOM` rows A takes them up at once. F = γI with a diagonal Q goes into c and q.
* :class:`_Precision` holds Λ = Σ⁻¹ and its Cholesky factor, with the parameters in reverse order: with JΛJ = LLᵀ, J the reversal, the
  Cholesky factor of Σ itself is JL⁻ᵀJ, so that samples and solutions need no inverse.
* :class:`_Krylov` holds a whole inner loop of bbb in a few vectors.

The rules of each are subclasses; :class:`Belief` chooses one by the method and by the number of columns that it sees.
Arrays for BLAS are in Fortran order with the lower triangle valid. Rows (K, P) in C order are its (P, K) columns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dspmv, dsymv, dsyr2, dtrmv, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf, dtrttp

from ...grid import FEW, Method
from ...linalg import Array, is_diagonal
from ...states import FC
from ..blocks import cholesky, gram_update, invert, rank_update, solve_triangle, times_symmetric, times_triangle, update_and_factor
from ..borrow import borrowed
from ..estimators import Compiled, linearise, threads, together
from ..jit import inlined, inner, kernel
from ..kernels.wide import combine
from ..packs import pack
from ..teams import CLOSED, DONE, LINE, OFFERED, board, claim, give_way, read, wait, write

SHORT = 64  # vectors of a basis with which an inner loop of bbb is one compiled function
ROOM = 32  # rows of V before A takes them up: a rank-k update of fewer runs below the speed of the processor
FIRST = 256  # rows of V at most as long as A is empty: products with them are cheaper than those with A
ONE_BY_ONE = 8  # up to so many columns are multiplied with A one by one, more in one call
EPS = float(np.finfo(float).eps)
PARALLEL = 32 * EPS  # g is a multiple of a single row if it is to this, relative to its largest entry
NOTHING = EPS / 256  # a relative change that is none
RENEWED = 64  # observations after which an inverse that goes along is computed anew
START = 40  # entries of a row that take as long as to begin with it
SHARE = 256  # parameters for each of the threads that share a product with Σ
LOSS = 64.0  # the rounding that Woodbury's identity may cost bog, in units of the largest entry of the result

Dyn = tuple[Array, Array, Array] | None


# --- kernels ---------------------------------------------------------------------------------------------------------------


PRODUCT, ABSORB = 0, 1  # the kinds of jobs
ROWS, KIND = 0, 1  # the rows of V in use; the kind of the jobs on offer


@pack
class Held(NamedTuple):
    """Σ = c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ as kernels see it, of A the upper triangle, with what the threads that share a product need."""

    A: Any  # (P, P)
    a: Any  # the same, flat
    q: Any  # (P,)
    V: Any  # (room, P)
    v: Any  # the same, flat
    s: Any  # (room,)
    c: Any  # (1,)
    turn: Any  # (2,): ROWS, KIND
    x: Any  # (P,), the vector of a product
    Y: Any  # (parts, P), the parts of a product
    weights: Any  # (parts, 4 · ROOM), multiples of rows of V
    board: Any


def held(A: Array, q: Array, c: float, room: int) -> Held:
    """Σ = c·A + Diag(q) with room for so many rows of V, for as many threads as its size is worth."""
    P = len(q)
    V, parts = np.zeros((room, P)), max(1, min(threads(), P // SHARE))
    now = np.array([c]), np.zeros(2, np.int64), np.empty(P), np.empty((parts, P)), np.empty((parts, 4 * ROOM))
    return Held(A, A.reshape(-1), q, V, V.reshape(-1), np.ones(room), *now, board(parts))


@inner
def _border(n, k, parts):
    """The first row of part k of an upper triangle, of parts that take as long as each other; a multiple of 4, or n."""
    N = n + START
    return n if k == parts else int(N - np.sqrt(N * N - k / parts * n * (N + START))) // 4 * 4


@inner
def _symv(A, x, y, low, high):
    """y gains what the rows low, …, high − 1 of the upper triangle of a symmetric A (n, n) add to A x, four of them at a time."""
    n = x.shape[0]
    whole = high - (high - low) % 4
    for i in range(low, whole, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s0 = A[i, i] * x0 + A[i, i + 1] * x1 + A[i, i + 2] * x2 + A[i, i + 3] * x3
        s1 = A[i, i + 1] * x0 + A[i + 1, i + 1] * x1 + A[i + 1, i + 2] * x2 + A[i + 1, i + 3] * x3
        s2 = A[i, i + 2] * x0 + A[i + 1, i + 2] * x1 + A[i + 2, i + 2] * x2 + A[i + 2, i + 3] * x3
        s3 = A[i, i + 3] * x0 + A[i + 1, i + 3] * x1 + A[i + 2, i + 3] * x2 + A[i + 3, i + 3] * x3
        m = i + 4
        b0, b1, b2, b3, xs, ys = A[i, m:], A[i + 1, m:], A[i + 2, m:], A[i + 3, m:], x[m:], y[m:]
        for j in range(n - m):  # from 0: an index that cannot be negative lets the compiler use the vector units
            xj = xs[j]
            s0 += b0[j] * xj
            s1 += b1[j] * xj
            s2 += b2[j] * xj
            s3 += b3[j] * xj
            ys[j] += b0[j] * x0 + b1[j] * x1 + b2[j] * x2 + b3[j] * x3
        y[i] += s0
        y[i + 1] += s1
        y[i + 2] += s2
        y[i + 3] += s3
    for i in range(whole, high):
        s = A[i, i] * x[i]
        for j in range(i + 1, n):
            s += A[i, j] * x[j]
            y[j] += A[i, j] * x[i]
        y[i] += s


@inner
def _deferred(V, s, first, last, x, y):
    """y −= Σₖ sₖ Vₖ (Vₖ·x) over the rows first, …, last − 1, four at a time."""
    P = x.shape[0]
    whole = last - (last - first) % 4
    for k in range(first, whole, 4):
        v0, v1, v2, v3 = V[k], V[k + 1], V[k + 2], V[k + 3]
        d0, d1, d2, d3 = 0.0, 0.0, 0.0, 0.0
        for i in range(P):
            xi = x[i]
            d0 += v0[i] * xi
            d1 += v1[i] * xi
            d2 += v2[i] * xi
            d3 += v3[i] * xi
        d0, d1, d2, d3 = s[k] * d0, s[k + 1] * d1, s[k + 2] * d2, s[k + 3] * d3
        for i in range(P):
            y[i] -= d0 * v0[i] + d1 * v1[i] + d2 * v2[i] + d3 * v3[i]
    for k in range(whole, last):
        row, dot = V[k], 0.0
        for i in range(P):
            dot += row[i] * x[i]
        dot *= s[k]
        for i in range(P):
            y[i] -= dot * row[i]


@inner
def _product(h, k):
    """Part k of (Σ − Diag(q)) x, into h.Y[k]: rows of the triangle and of V."""
    y, c, parts, n, P = h.Y[k], h.c[0], len(h.Y), h.turn[ROWS], len(h.x)
    for i in range(P):
        y[i] = 0.0
    if c != 0.0:  # else there is nothing in A
        _symv(h.A, h.x, y, _border(P, k, parts), _border(P, k + 1, parts))
    if c != 1.0:
        for i in range(P):
            y[i] *= c
    _deferred(h.V, h.s, n * k // parts, n * (k + 1) // parts, h.x, y)


@inner
def _change(h, first, last, i, j):
    """A[i, j] −= Σₖ sₖ V[k, i] V[k, j] over the rows first, …, last − 1."""
    total = 0.0
    for k in range(first, last):
        total += h.s[k] * h.V[k, i] * h.V[k, j]
    h.A[i, j] -= total


@inner
def _absorb(h, part):
    """A takes up c, q and the rows of V, in the rows of this part: tiles of four rows and twelve columns, from the right.

    A tile on the diagonal goes beyond it, to where nobody reads.
    """
    P, weights, c = len(h.q), h.weights[part], h.c[0]
    low, high = _border(P, part, len(h.Y)), _border(P, part + 1, len(h.Y))
    whole = high - (high - low) % 4
    for i in range(low, high):
        row = h.A[i, i:]
        if c != 1.0:
            for j in range(len(row)):
                row[j] *= c
        row[0] += h.q[i]
    for first in range(0, h.turn[ROWS], ROOM):
        last = min(h.turn[ROWS], first + ROOM)
        n = last - first
        for i in range(low, whole, 4):
            for k in range(n):
                for r in range(4):
                    weights[r * ROOM + k] = -h.s[first + k] * h.V[first + k, i + r]
            p = P
            while p > i and p >= 12:
                p -= 12
                combine(weights, 0, ROOM, n, h.v, first * P + p, P, h.a, i * P + p, P)
            for r in range(i, i + 4):
                for j in range(r, p):
                    _change(h, first, last, r, j)
        for i in range(whole, high):
            for j in range(i, P):
                _change(h, first, last, i, j)


@inner
def _jobs(h):
    """Do what is on the board; −2 where there will be no more."""
    job = claim(h.board)
    while job >= 0:
        k = job % len(h.Y)
        if h.turn[KIND] == PRODUCT:
            _product(h, k)
        else:
            _absorb(h, k)
        write(h.board, DONE + LINE * k, job + 1)
        job = claim(h.board)
    return job


@inner
def _together(h, kind):
    """All jobs of a kind, by all threads that are there."""
    h.turn[KIND] = kind
    write(h.board, OFFERED, read(h.board, OFFERED) + len(h.Y))
    _jobs(h)
    wait(h.board, len(h.Y))


@inner
def _fellow(h, other):
    """Share the jobs of the first thread until the boards of both are closed; what it returns is of no use."""
    while _jobs(h) != -2 or _jobs(other) != -2:
        give_way()
    return 0, 0


@inner
def _times(h, x, y):
    """y = Σ x."""
    for i in range(len(x)):
        h.x[i] = x[i]
    _together(h, PRODUCT)
    for i in range(len(x)):
        y[i] = h.q[i] * h.x[i]
    for k in range(len(h.Y)):
        part = h.Y[k]
        for i in range(len(x)):
            y[i] += part[i]


@inner
def _flush(h):
    """A takes up all that was put off."""
    _together(h, ABSORB)
    for i in range(len(h.q)):
        h.q[i] = 0.0
    h.c[0], h.turn[ROWS] = 1.0, 0


@inner
def _full_up(h, n):
    """Whether there is no room for n more rows: as long as A is empty it need not be read, and V may have many rows."""
    return h.turn[ROWS] + n > (len(h.V) if h.c[0] == 0.0 else ROOM)


@inner
def _variances(h, out):
    """diag Σ."""
    for i in range(len(out)):
        out[i] = h.c[0] * h.A[i, i] + h.q[i]
    for k in range(h.turn[ROWS]):
        row, sign = h.V[k], h.s[k]
        for i in range(len(out)):
            out[i] -= sign * row[i] * row[i]


@kernel
def variances(h, out):
    """diag Σ; in the reference ``np.diagonal(Sigma)``."""
    _variances(borrowed(h), out)


@kernel
def times(h, x, y):
    """y = Σ x, Σ = c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ; in the reference ``Sigma @ x``."""
    _times(borrowed(h), x, y)


@kernel
def flush(h):
    """c = 1, q = 0 and no rows: Σ = A, its upper triangle."""
    _flush(borrowed(h))


@inner
def _multiple(g, x, tolerance):
    """(β, True) if g = βx but for rounding."""
    P = x.shape[0]
    gx, xx, top = 0.0, 0.0, 0.0
    for i in range(P):
        gx += g[i] * x[i]
        xx += x[i] * x[i]
        top = max(top, abs(g[i]))
    if top == 0.0:
        return 0.0, True
    beta, off = gx / xx, 0.0
    for i in range(P):
        off = max(off, abs(g[i] - beta * x[i]))
    return beta, off <= tolerance * top and beta * 0.0 == 0.0


@kernel
def multiple(g, x, tolerance):
    """(β, whether g = βx but for rounding): a gradient along a single row needs no product of its own."""
    return _multiple(g, x, tolerance)


@inner
def _new_row(x, v, beta, h, mu, natural):
    """With v = Σx and g = βx the new row of Σ into V, and mu moved; 1, or 0 if the result is no Gaussian."""
    xv = 0.0
    for i in range(x.shape[0]):
        xv += x[i] * v[i]
    pivot = 1.0 + xv if natural else 1.0 - xv
    if not (pivot > 0.0 and xv >= 0.0):
        return 0
    scale = 1.0 / np.sqrt(pivot) if natural else 1.0
    gain = beta / pivot if natural else beta
    n = h.turn[ROWS]
    row = h.V[n]
    bad = pivot * 0.0
    for i in range(x.shape[0]):
        row[i] = scale * v[i]
        mu[i] += gain * v[i]
        bad += mu[i] * 0.0 + row[i] * 0.0
    h.s[n], h.turn[ROWS] = 1.0, n + 1
    return 1 if bad == 0.0 else 0


@kernel
def one_row(h, x, g, mu, v, natural, tolerance):
    """fc_nat.bong_woodbury (``natural``) or fc_mom.bong_lowrank with one column x that g is a multiple of.

    Puts the new row of Σ into V and moves mu. Returns 1; or 0 if the result is no Gaussian; or 2, with v = Σx and nothing changed,
    if g is no multiple of x.
    """
    h = borrowed(h)
    _times(h, x, v)
    beta, parallel = _multiple(g, x, tolerance)
    return _new_row(x, v, beta, h, mu, natural) if parallel else 2


@inlined
def _put_off(h, x, g, mu, alpha):
    """fc_mom.bog with one column x: the new row of Σ into V. Returns 1, or 0 if something is not finite."""
    n = h.turn[ROWS]
    row, root, bad = h.V[n], np.sqrt(0.5 * alpha), 0.0
    for i in range(x.shape[0]):
        row[i] = root * x[i]
        mu[i] += alpha * g[i]
        bad += mu[i] * 0.0 + row[i] * 0.0
    h.s[n], h.turn[ROWS] = 1.0, n + 1
    return 1 if bad == 0.0 else 0


@kernel
def several(first, net, work, lik, hess, X, Y, seen, t, h, mu, v, natural, alpha, cotangents, rows, g):
    """Steps with one row x: of bong, or with alpha > 0 of bog in moments, for the observations t, t + 1, …

    Both rows of :func:`linearise` are multiples of one: g = βx, β the ratio of their cotangents. Returns the next step, and 1; or 0 if
    that step gives no Gaussian, 2 if it is left to ``step``. A thread that is not the ``first`` shares the products until the board is
    closed.
    """
    h = borrowed(h)
    if not first:
        return _fellow(h, h)
    x, last = rows[0], len(cotangents) - 1
    while t < len(X):
        if seen[t]:
            if _full_up(h, 1):
                _flush(h)
            linearise(net, work, lik, hess, X[t], Y[t], mu, cotangents, rows, g)
            beta = cotangents[last, 0] / cotangents[0, 0] if last > 0 else 1.0
            if not beta * 0.0 == 0.0:
                return t, 2
            if alpha > 0.0:
                code = _put_off(h, x, g, mu, alpha)
            else:
                _times(h, x, v)
                code = _new_row(x, v, beta, h, mu, natural)
            if code != 1:
                return t, code
        t += 1
    return t, 1


@inner
def _small_cholesky(M, n):
    """The Cholesky factor of the first n rows and columns of M in place, in its lower triangle; False if there is none."""
    for j in range(n):
        pivot = M[j, j]
        for m in range(j):
            pivot -= M[j, m] * M[j, m]
        if not pivot > 0.0:
            return False
        M[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            total = M[i, j]
            for m in range(j):
                total -= M[i, m] * M[j, m]
            M[i, j] = total / M[j, j]
    return True


@inlined
def _iterate_natural(k, beta, alpha, T, d, a, M, b):
    """fc_nat.blr_increment with one column, in coefficients: mu = mu₀ + aZ with the rows of Z = UΣ; M has the factor of I + √D T √D."""
    for j in range(k):
        d[j] *= np.sqrt(1.0 - alpha)
    d[k] = np.sqrt(alpha)
    for i in range(k + 1):
        for j in range(i + 1):
            M[i, j] = d[i] * T[i, j] * d[j]
        M[i, i] += 1.0
    if not _small_cholesky(M, k + 1):
        return False
    for i in range(k + 1):
        total = beta * T[i, k]
        for j in range(k):
            total -= T[i, j] * a[j]
        total *= d[i]
        for j in range(i):
            total -= M[i, j] * b[j]
        b[i] = total / M[i, i]
    for i in range(k, -1, -1):
        total = b[i]
        for j in range(i + 1, k + 1):
            total -= M[j, i] * b[j]
        b[i] = total / M[i, i]
    for j in range(k):
        a[j] *= 1.0 - alpha
    a[k] = alpha * beta
    for j in range(k + 1):
        a[j] -= alpha * d[j] * b[j]
    return True


@inlined
def _iterate_moments(k, beta, alpha, T, B, a, M, b, N):
    """fc_mom.blr_increment and is_valid_increment with one column and B = −FFᵀ, in coefficients: mu = mu₀ + aZ; M has F."""
    for i in range(k):
        b[i] = beta * T[i, k]
        for j in range(k):
            b[i] -= T[i, j] * a[j]
    for i in range(k):
        N[i, k] = 0.0
        a[i] *= 1.0 - alpha
        for j in range(k):
            a[i] += alpha * B[i, j] * b[j]
            N[i, k] += B[i, j] * T[j, k]  # (I + AΣ) S
    a[k] = alpha * beta
    for i in range(k):
        for j in range(k):
            N[i, j] = 0.0
            for m in range(k):
                N[i, j] += B[i, m] * T[m, j]
    for i in range(k):
        for j in range(i + 1):
            total = N[i, k] * N[j, k]
            for m in range(k):
                total += N[i, m] * B[m, j]
            M[i, j] = (1.0 - alpha) * B[i, j] - alpha * total
    for i in range(k):
        M[k, i] = -alpha * N[i, k]
    M[k, k] = -alpha
    for i in range(k + 1):
        for j in range(i + 1):
            B[i, j] = M[i, j]
            B[j, i] = M[i, j]
            M[i, j] = -M[i, j]
    if not _small_cholesky(M, k + 1):
        return False
    for i in range(k + 1):  # N = TF
        for j in range(k + 1):
            N[i, j] = 0.0
            for m in range(j, k + 1):
                N[i, j] += T[i, m] * M[m, j]
    for i in range(k + 1):  # column by column N becomes the lower triangle of I − FᵀTF
        for j in range(i, k + 1):
            total = 1.0 if i == j else 0.0
            for m in range(j, k + 1):
                total -= M[m, j] * N[m, i]
            b[j] = total
        for j in range(i, k + 1):
            N[j, i] = b[j]
    return _small_cholesky(N, k + 1)


@kernel
def inner_loops(first, net, work, lik, hess, X, Y, seen, t, h, mu, natural, alpha, n_iter, cotangents, rows, g, U, Z):
    """Updates of blr with one row in each iteration and 0 < alpha < 1, for the observations t, t + 1, …

    U has the rows of an update, Z = UΣ, T = UZᵀ. Returns as :func:`several`; a step that is left to ``step`` has not moved mu.
    """
    h = borrowed(h)
    if not first:
        return _fellow(h, h)
    P, x, last = mu.shape[0], rows[0], len(cotangents) - 1
    T, B, M, N = np.empty((n_iter, n_iter)), np.empty((n_iter, n_iter)), np.empty((n_iter, n_iter)), np.empty((n_iter, n_iter))
    a, b, d, start = np.empty(n_iter), np.empty(n_iter), np.empty(n_iter), np.empty(P)
    while t < len(X):
        if seen[t]:
            if _full_up(h, n_iter):
                _flush(h)
            for i in range(P):
                start[i] = mu[i]
            for k in range(n_iter):
                linearise(net, work, lik, hess, X[t], Y[t], mu, cotangents, rows, g)
                beta = cotangents[last, 0] / cotangents[0, 0] if last > 0 else 1.0
                if not beta * 0.0 == 0.0:
                    for i in range(P):
                        mu[i] = start[i]
                    return t, 2
                u, z = U[k], Z[k]
                for i in range(P):
                    u[i] = x[i]
                _times(h, u, z)
                for j in range(k + 1):
                    row, total = U[j], 0.0
                    for i in range(P):
                        total += z[i] * row[i]
                    T[k, j] = total
                    T[j, k] = total
                if natural:
                    good = _iterate_natural(k, beta, alpha, T, d, a, M, b)
                else:
                    good = _iterate_moments(k, beta, alpha, T, B, a, M, b, N)
                for i in range(P):
                    mu[i] = start[i]
                for j in range(k + 1):
                    row, weight = Z[j], a[j]
                    for i in range(P):
                        mu[i] += weight * row[i]
                bad = 0.0
                for i in range(P):
                    bad += mu[i] * 0.0
                if not (good and bad == 0.0):
                    return t, 0
            n = h.turn[ROWS]
            for j in range(n_iter):  # finish: the rows L⁻¹√D Z or FᵀZ
                row, z, weight = h.V[n + j], Z[j], d[j] if natural else M[j, j]
                for i in range(P):
                    row[i] = weight * z[i]
                for m in range(0 if natural else j + 1, j if natural else n_iter):
                    other, weight = h.V[n + m] if natural else Z[m], -M[j, m] if natural else M[m, j]
                    for i in range(P):
                        row[i] += weight * other[i]
                if natural:
                    for i in range(P):
                        row[i] /= M[j, j]
                h.s[n + j] = 1.0
            h.turn[ROWS] = n + n_iter
        t += 1
    return t, 1


@kernel
def bog_loop(first, net, work, lik, hess, X, Y, seen, t, h, mu, alpha, loss, cotangents, rows, g, buffers):
    """Steps of fc_nat.bog_woodbury with one row x and g = βx, for the observations t, t + 1, …

    The precision changes by UᵀCU with U = [u, μ], u = Σx, and C = 2α [[1, −β], [−β, 0]]; y = Σu, z = Σμ. What has size two is written out,
    scaled so that T = UΣUᵀ has a diagonal of ones. Returns as :func:`several`; where digits would be lost, or the precision has to say
    whether it is positive definite, the step is left to ``step``.
    """
    h = borrowed(h)
    if not first:
        return _fellow(h, h)
    P, x, last = mu.shape[0], rows[0], len(cotangents) - 1
    u, w, y, z = buffers[0], buffers[1], buffers[2], buffers[3]
    while t < len(X):
        if seen[t]:
            if _full_up(h, 2):
                _flush(h)
            V, s, n = h.V, h.s, h.turn[ROWS]
            linearise(net, work, lik, hess, X[t], Y[t], mu, cotangents, rows, g)
            beta = cotangents[last, 0] / cotangents[0, 0] if last > 0 else 1.0
            _times(h, x, u)
            _times(h, u, y)
            _times(h, mu, z)
            uu, um, mm, umu, mumu = 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(P):
                uu += u[i] * y[i]
                um += u[i] * z[i] + mu[i] * y[i]
                mm += mu[i] * z[i]
                umu += u[i] * mu[i]
                mumu += mu[i] * mu[i]
            if not (uu > 0.0 and mm > 0.0 and beta * 0.0 == 0.0 and um * 0.0 == 0.0):
                return t, 2
            su, sm = np.sqrt(uu), np.sqrt(mm)
            r = 0.5 * um / (su * sm)  # T = [[1, r], [r, 1]]
            e, f = 2.0 * alpha * uu, -2.0 * alpha * beta * su * sm  # C = [[e, f], [f, 0]]
            n00, n01, n10, n11 = 1.0 + e + r * f, f, r * e + f, 1.0 + r * f  # N = I + TC, whose eigenvalues are those of Σ½Σ_t⁻¹Σ½
            det = n00 * n11 - n01 * n10
            if not (det > 0.0 and n00 + n11 > 0.0):
                return t, 2
            b00, b01, b11 = (e * n11 - f * n10) / det, 0.5 * (f * n00 - e * n01 + f * n11) / det, -f * n01 / det  # B = CN⁻¹
            spread = max(abs(n00) + abs(n10), abs(n01) + abs(n11)) * max(abs(n11) + abs(n10), abs(n01) + abs(n00)) / det
            angle = 0.5 * np.arctan2(2.0 * b01, b00 - b11)
            co, si = np.cos(angle), np.sin(angle)
            one = co * co * b00 + 2.0 * co * si * b01 + si * si * b11
            two = si * si * b00 - 2.0 * co * si * b01 + co * co * b11
            s[n], s[n + 1] = 1.0 if one > 0.0 else -1.0, 1.0 if two > 0.0 else -1.0
            one, two = np.sqrt(abs(one)), np.sqrt(abs(two))
            g0 = alpha * beta * su * (1.0 - b00 - b01 * r) - b00 * umu / su - b01 * mumu / sm
            g1 = -alpha * beta * su * (b01 + b11 * r) - b01 * umu / su - b11 * mumu / sm
            v0, v1 = V[n], V[n + 1]
            top_z, top_mu = 0.0, 0.0
            for i in range(P):
                yi, zi = y[i] / su, z[i] / sm
                v0[i] = one * (co * yi + si * zi)
                v1[i] = two * (co * zi - si * yi)
                w[i] = mu[i] + g0 * yi + g1 * zi
                top_z = max(top_z, max(abs(yi), abs(zi)))
                top_mu = max(top_mu, abs(w[i]))
            for i in range(P):
                u[i] = h.c[0] * h.A[i, i] + h.q[i]  # the variances
            for k in range(n):
                row, sign = V[k], s[k]
                for i in range(P):
                    u[i] -= sign * row[i] * row[i]
            before, after, bad = 0.0, 0.0, 0.0
            for i in range(P):
                before = max(before, u[i])
                after = max(after, u[i] - s[n] * v0[i] * v0[i] - s[n + 1] * v1[i] * v1[i])
                bad += w[i] * 0.0 + v0[i] * 0.0 + v1[i] * 0.0
            largest = max(abs(b00), max(abs(b01), abs(b11))) * top_z * top_z
            if not (bad == 0.0 and spread * max(largest, before) <= loss * after):
                return t, 2
            if not spread * max(abs(g0), abs(g1)) * top_z <= loss * max(top_mu, 1e-300):
                return t, 2
            for i in range(P):
                mu[i] = w[i]
            h.turn[ROWS] = n + 2
        t += 1
    return t, 1


@kernel
def times_block(A, X, Y):
    """The rows Y = XA for a symmetric A with both triangles: four rows of X and three of A at a time. Twin of ``X @ A``."""
    K, n = X.shape
    done = 0
    while K - done > 2 and K > 3:
        first = min(done, K - 4)  # the last four may overlap those before
        x, y, z, w = X[first], X[first + 1], X[first + 2], X[first + 3]
        for i in range(0, n, 3):
            at = min(i, n - 3)
            a, b, c = A[at], A[at + 1], A[at + 2]
            s0, s1, s2, t0, t1, t2, u0, u1, u2, v0, v1, v2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(n):
                aj, bj, cj = a[j], b[j], c[j]
                s0 += aj * x[j]
                s1 += bj * x[j]
                s2 += cj * x[j]
                t0 += aj * y[j]
                t1 += bj * y[j]
                t2 += cj * y[j]
                u0 += aj * z[j]
                u1 += bj * z[j]
                u2 += cj * z[j]
                v0 += aj * w[j]
                v1 += bj * w[j]
                v2 += cj * w[j]
            Y[first, at], Y[first, at + 1], Y[first, at + 2] = s0, s1, s2
            Y[first + 1, at], Y[first + 1, at + 1], Y[first + 1, at + 2] = t0, t1, t2
            Y[first + 2, at], Y[first + 2, at + 1], Y[first + 2, at + 2] = u0, u1, u2
            Y[first + 3, at], Y[first + 3, at + 1], Y[first + 3, at + 2] = v0, v1, v2
        done = first + 4
    for k in range(done, K):
        for i in range(n):
            Y[k, i] = 0.0
        _symv(A, X[k], Y[k], 0, n)


@inlined
def _new_direction(Q, k, x, ones, buffer):
    """What is new in x beside the first k rows of Q, with length one, into Q[k]; False if there is nothing. Gram and Schmidt, repeated."""
    y, size, after = Q[k], 0.0, 0.0
    for i in range(x.shape[0]):
        y[i] = x[i]
        size += x[i] * x[i]
    size = np.sqrt(size)
    before = size
    for _ in range(3):
        for i in range(x.shape[0]):
            buffer[i] = y[i]
        _deferred(Q, ones, 0, k, buffer, y)
        after = 0.0
        for i in range(x.shape[0]):
            after += y[i] * y[i]
        after = np.sqrt(after)
        if 2.0 * after > before:
            break
        before = after
    if not after > 64.0 * EPS * size:
        return False
    for i in range(x.shape[0]):
        y[i] /= after
    return True


@kernel
def new_direction(Q, k, x, ones, buffer):
    """The next vector of an orthonormal basis, the k + 1st row of Q; False if x has none. Twin of ``x − Qᵀ(Qx)``."""
    return _new_direction(Q, k, x, ones, buffer)


@inner
def _dot(x, y):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@inner
def _small_product(A, B, n, m, l, out):
    """The first n rows and l columns of out = AB with m terms each."""
    for i in range(n):
        for j in range(l):
            out[i, j] = 0.0
        for k in range(m):
            for j in range(l):
                out[i, j] += A[i, k] * B[k, j]


@inlined
def _small_inverse(N, X, n):
    """X = N⁻¹ by elimination with row exchanges; N is overwritten. False if a pivot is zero or not a number."""
    for i in range(n):
        for j in range(n):
            X[i, j] = 1.0 if i == j else 0.0
    for k in range(n):
        at = k
        for i in range(k + 1, n):
            at = i if abs(N[i, k]) > abs(N[at, k]) else at
        if not abs(N[at, k]) > 0.0:
            return False
        for j in range(n):
            N[k, j], N[at, j] = N[at, j], N[k, j]
            X[k, j], X[at, j] = X[at, j], X[k, j]
        scale = 1.0 / N[k, k]
        for j in range(n):
            N[k, j] *= scale
            X[k, j] *= scale
        for i in range(n):
            factor = N[i, k]
            if i != k:
                for j in range(n):
                    N[i, j] -= factor * N[k, j]
                    X[i, j] -= factor * X[k, j]
    return True


@inner
def _largest_column(N, n):
    """The 1-norm of the first n rows and columns."""
    top = 0.0
    for j in range(n):
        total = 0.0
        for i in range(n):
            total += abs(N[i, j])
        top = max(top, total)
    return top


@inlined
def _positive(T, e, k, C, M, N):
    """Whether I + CᵀeC is positive definite, T = CCᵀ: then T⁻¹ + e is."""
    for i in range(k):
        for j in range(k):
            C[i, j] = T[i, j] if j <= i else 0.0
    if not _small_cholesky(C, k):
        return False
    _small_product(e, C, k, k, k, M)
    for i in range(k):
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for m in range(k):
                total += C[m, i] * M[m, j]
            N[i, j] = total
    return _small_cholesky(N, k)


@inlined
def _directions(Q, k, Z, start, x, waiting, left, brought, ones, buffer):
    """Directions of the vectors that wait and of x behind the k of Q: how many there are then, or −1 if there is no room for them.

    A vector that waits is a row of Z, or ``start`` for −1; ``brought`` says which one brought a direction, ``left`` that it was x.
    """
    kk = k
    for i in range(left + 1):
        if kk == len(Z):
            return -1
        row = x if i == left else start if waiting[i] < 0 else Z[waiting[i]]
        if _new_direction(Q, kk, row, ones, buffer):
            brought[kk] = i
            kk += 1
    return kk


@inlined
def _change_of_basis(Q, Z, T, k, kk, X, e, J, M, N):
    """J = QZᵀ, M = Xe and N = JM, for kk directions of which the first k have products in Z."""
    for i in range(kk):
        for j in range(k):
            J[i, j] = T[i, j] if i < k else _dot(Q[i], Z[j])
    _small_product(X, e, k, k, k, M)
    _small_product(J, M, kk, k, k, N)


@inlined
def _keep(Q, D, T, k, kk, most, moves, least, waiting, left, brought, kept):
    """Which directions an iteration needs: the first k, and those along which D or ``moves`` change something. Twin of _BbbNat._matters.

    Puts them, and their part of D, in front. Returns how many they are, and how many vectors still wait.
    """
    k2, still = 0, 0
    for i in range(kk):
        change = 0.0
        for j in range(kk):
            change += abs(D[i, j]) * np.sqrt(T[j, j] if j < k else most)
        if i < k or change * np.sqrt(most) > NOTHING or abs(moves[i]) > least:
            kept[k2] = i
            k2 += 1
        elif brought[i] < left:
            waiting[still] = waiting[brought[i]]
            still += 1
    for i in range(k2):
        at = kept[i]
        for j in range(i + 1):
            D[i, j] = D[at, kept[j]]
        if at != i:
            row, other = Q[i], Q[at]
            for m in range(Q.shape[1]):
                row[m] = other[m]
    return k2, still


@inlined
def _extend(h, Q, Z, T, e, D, k, k2, waiting, left):
    """The products Z of the new vectors of the basis, which wait from now on, T = QZᵀ, and e changed by D; how many vectors wait."""
    for i in range(k, k2):
        _times(h, Q[i], Z[i])
        for j in range(i + 1):
            T[i, j] = _dot(Z[i], Q[j])
            T[j, i] = T[i, j]
            e[i, j] = 0.0
            e[j, i] = 0.0
        waiting[left] = i
        left += 1
    for i in range(k2):
        for j in range(i + 1):
            e[i, j] += D[i, j]
            e[j, i] = e[i, j]
    return left


@inlined
def _invert(T, e, k, X, C, M, N):
    """X = (I + eT)⁻¹ and the condition number of what it inverts; 0 if T⁻¹ + e is not positive definite. Twin of _Krylov.invert."""
    if not _positive(T, e, k, C, M, N):
        return 0.0
    _small_product(e, T, k, k, k, N)
    for i in range(k):
        N[i, i] += 1.0
    spread = _largest_column(N, k)
    return spread * _largest_column(X, k) if _small_inverse(N, X, k) else 0.0


@inlined
def _diagonal(M, Z, k, out):
    """out = diag ZᵀMZ."""
    for i in range(len(out)):
        out[i] = 0.0
    for i in range(k):
        for j in range(i + 1):
            row, other, weight = Z[i], Z[j], 0.5 * (M[i, j] + M[j, i]) if i == j else M[i, j] + M[j, i]
            for m in range(len(out)):
                out[m] += weight * row[m] * other[m]


@inlined
def _costs_no_digits(spread, variance, more, loss):
    """Whether variance + more, a difference perhaps, is as large as its parts but for a factor that ``loss`` allows."""
    before, after = 0.0, 0.0
    for i in range(len(variance)):
        before = max(before, max(variance[i], abs(more[i])))
        after = max(after, variance[i] + more[i])
    return spread > 0.0 and spread * before <= loss * after


@inner
def _finite_sum(x):
    """0 if all numbers are finite, else NaN."""
    bad = 0.0
    for i in range(x.shape[0]):
        bad += x[i] * 0.0
    return bad


@kernel
def krylov_loop(first, net, work, lik, hess, x_t, y_t, h, mu, alpha, n_iter, loss, cotangents, rows, g, Q, Z, T, e, X):
    """The inner loop of :class:`_BbbNat` for one observation with one row in each iteration, in a basis of at most len(Z) vectors.

    ``h`` is Σ₀. Returns the vectors of the basis and 1; or 2, with mu as it was, where digits would be lost, where the basis is too small
    or where something is not finite.
    """
    h = borrowed(h)
    if not first:
        return _fellow(h, h)
    P, room, x, last = mu.shape[0], len(Z), rows[0], len(cotangents) - 1
    J, D, M, N, C = np.empty((room, room)), np.empty((room, room)), np.empty((room, room)), np.empty((room, room)), np.empty((room, room))
    a, r, v, move, w = np.empty(room), np.empty(room), np.empty(room), np.empty(room), np.zeros(room)
    zx, moves, ones = np.empty(room), np.empty(room), np.ones(room)
    start, S0, buffer, variance, less = mu.copy(), np.empty(P), np.empty(P), np.empty(P), np.empty(P)
    waiting, brought, kept, left = np.empty(room + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64), 1
    waiting[0] = -1  # the mean
    _variances(h, variance)
    k, top_mu, most, good = 0, np.max(np.abs(mu)), np.sum(variance), True  # no eigenvalue of Σ₀ is larger than ``most``
    for _ in range(n_iter):
        linearise(net, work, lik, hess, x_t, y_t, mu, cotangents, rows, g)
        beta = cotangents[last, 0] / cotangents[0, 0] if last > 0 else 1.0
        _times(h, x, S0)
        good = beta * _dot(S0, S0) * 0.0 == 0.0
        kk = _directions(Q, k, Z, start, S0, waiting, left, brought, ones, buffer) if good else -1
        good = kk >= 0
        if not good:
            break
        _change_of_basis(Q, Z, T, k, kk, X, e, J, M, N)
        _small_product(J, X, kk, k, k, C)
        for i in range(kk):
            a[i], v[i] = _dot(Q[i], mu), _dot(Q[i], S0)
            r[i] = beta * v[i]
        for j in range(k):
            zx[j] = _dot(Z[j], x)
        for i in range(k):
            move[i] = beta * zx[i]
            for j in range(k):
                move[i] += T[i, j] * w[j]
        for i in range(k):
            mh, mz = 0.0, 0.0
            for j in range(k):
                mh += M[i, j] * move[j]
                mz += M[i, j] * zx[j]
            for j in range(kk):
                r[j] += J[j, i] * (w[i] - mh)
                v[j] -= J[j, i] * mz
        for i in range(kk):
            for j in range(i + 1):
                total = 0.0
                for m in range(k):
                    total += N[i, m] * C[j, m] + N[j, m] * C[i, m]
                D[i, j] = -2.0 * alpha * (r[i] * a[j] + a[i] * r[j] - v[i] * v[j] + 0.5 * total)
                D[j, i] = D[i, j]
        for i in range(kk):
            move[i] = alpha * r[i]
            for j in range(kk):
                move[i] -= D[i, j] * a[j]
            moves[i] = move[i] * most
        k2, left = _keep(Q, D, T, k, kk, most, moves, NOTHING * top_mu, waiting, left, brought, kept)
        for i in range(k2):
            move[i] = move[kept[i]]
        for i in range(k, k2):
            w[i] = 0.0
        left = _extend(h, Q, Z, T, e, D, k, k2, waiting, left)
        k = k2
        spread = _invert(T, e, k, X, C, M, N)
        _small_product(X, e, k, k, k, M)
        _diagonal(M, Z, k, less)
        for i in range(P):
            less[i] = -less[i]
        for i in range(k):
            for j in range(k):
                w[i] -= X[i, j] * move[j]
        for i in range(P):
            mu[i] = start[i]
        for j in range(k):
            row, weight = Z[j], w[j]
            for i in range(P):
                mu[i] -= weight * row[i]
        good = _finite_sum(mu) == 0.0 and _costs_no_digits(spread, variance, less, loss)
        if not good:
            break
    if not good:
        for i in range(P):
            mu[i] = start[i]
    return k, 1 if good else 2


@kernel
def moment_loop(first, net, work, lik, hess, x_t, y_t, h, covariance, mu, alpha, n_iter, loss, cotangents, rows, g, Q, Z, T, e, X):
    """The inner loop of :class:`_BbbMom` for one observation with one row in each iteration, in a basis of at most len(Z) vectors.

    ``h`` is Σ₀⁻¹, ``covariance`` Σ₀. Returns as :func:`krylov_loop`.
    """
    h, covariance = borrowed(h), borrowed(covariance)
    if not first:
        return _fellow(h, covariance)
    P, room, x, last = mu.shape[0], len(Z), rows[0], len(cotangents) - 1
    J, D, M, N, C = np.empty((room, room)), np.empty((room, room)), np.empty((room, room)), np.empty((room, room)), np.empty((room, room))
    d, v, moves, ones = np.empty(room), np.empty(room), np.empty(room), np.ones(room)
    start, buffer, variance, more = mu.copy(), np.empty(P), np.empty(P), np.empty(P)
    waiting, brought, kept, left = np.empty(room + 1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64), 0
    _variances(h, buffer)
    _variances(covariance, variance)
    top = np.max(variance)
    k, top_mu, most, good = 0, np.max(np.abs(mu)), np.sum(buffer), True  # no eigenvalue of Σ₀⁻¹ is larger than ``most``
    for _ in range(n_iter):
        linearise(net, work, lik, hess, x_t, y_t, mu, cotangents, rows, g)
        beta = cotangents[last, 0] / cotangents[0, 0] if last > 0 else 1.0
        good = beta * _dot(x, x) * 0.0 == 0.0
        kk = _directions(Q, k, Z, start, x, waiting, left, brought, ones, buffer) if good else -1
        good = kk >= 0
        if not good:
            break
        _change_of_basis(Q, Z, T, k, kk, X, e, J, M, N)
        for i in range(P):
            buffer[i] = start[i] - mu[i]
        for i in range(kk):
            d[i], v[i] = _dot(Q[i], buffer), _dot(Q[i], x)
            moves[i] = alpha * most * (abs(d[i]) + abs(alpha * beta * v[i]))
        for i in range(kk):
            for j in range(i + 1):
                total = 0.0
                for m in range(k):
                    total += N[i, m] * J[j, m] + N[j, m] * J[i, m]
                D[i, j] = -0.5 * alpha * (0.5 * total + v[i] * v[j])
                D[j, i] = D[i, j]
        k2, left = _keep(Q, D, T, k, kk, most, moves, NOTHING * top_mu, waiting, left, brought, kept)
        for i in range(k2):
            d[i] = d[kept[i]]
        left = _extend(h, Q, Z, T, e, D, k, k2, waiting, left)
        k = k2
        spread = _invert(T, e, k, X, C, M, N)
        for i in range(P):
            mu[i] += alpha * beta * x[i]
        for j in range(k):
            row, weight = Z[j], alpha * d[j]
            for i in range(P):
                mu[i] += weight * row[i]
        good = _finite_sum(mu) == 0.0
        size = 0.0  # of e, which no entry of QᵀeQ exceeds
        for i in range(k):
            size += _dot(e[i, :k], e[i, :k])
        size = np.sqrt(size)
        if good and not (spread > 0.0 and spread * max(top, size) <= loss * (top - size)):
            _diagonal(e, Q, k, more)
            good = _costs_no_digits(spread, variance, more, loss)
        if not good:
            break
    if not good:
        for i in range(P):
            mu[i] = start[i]
    return k, 1 if good else 2


# --- small matrices --------------------------------------------------------------------------------------------------------


@kernel
def mirror(U, out):
    """The symmetric matrix out of an upper triangle U, by tiles that fit into the cache. Twin of numpy.triu(U) + numpy.triu(U, 1).T."""
    n, tile = len(U), 32
    for i0 in range(0, n, tile):
        for j0 in range(i0, n, tile):
            for i in range(i0, min(i0 + tile, n)):
                for j in range(max(i, j0), min(j0 + tile, n)):
                    out[i, j] = U[i, j]
                    out[j, i] = U[i, j]


@kernel
def mix(A, keep, scale, packed):
    """The upper triangle of A becomes keep A + scale B, with the rows of B's upper triangle one behind the other in ``packed``."""
    n, at = len(A), 0
    for i in range(n):
        row, other = A[i, i:], packed[at : at + n - i]
        for j in range(n - i):
            row[j] = keep * row[j] + scale * other[j]
        at += n - i


def _packed(A: Array) -> Array:
    """The lower triangle of a matrix in Fortran order, one column behind the other."""
    return dtrttp(A, uplo="L")[0]


def _reverse(a: Array) -> None:
    """A symmetric matrix with its rows and columns in reverse order, in place: its numbers in reverse order, some at a time."""
    flat, step = a.reshape(-1), 2**15
    for i in range(0, len(flat) // 2, step):
        j = min(i + step, len(flat) // 2)
        left, right = flat[i:j], flat[len(flat) - j : len(flat) - i]
        left[:], right[:] = right[::-1].copy(), left[::-1].copy()


def _clear_above(a: Array) -> None:
    """Zeros above the diagonal, in place."""
    for j in range(0, a.shape[1], 64):
        a[:j, j : j + 64] = 0.0
        a[j : j + 64, j : j + 64] = np.tril(a[j : j + 64, j : j + 64])


def _sym(a: Array) -> Array:
    return (a + a.T) / 2


def _full(a: Array) -> Array:
    """The symmetric matrix whose lower triangle is valid in a, as a new array."""
    out = np.empty(a.shape)
    mirror(a.T, out)
    return out


def _signed(B: Array, V: Array, T: Array) -> tuple[Array, Array]:
    """(W, s) with VᵀBV = Σₖ sₖ Wₖ Wₖᵀ for rows V of any sizes: B is first brought to the sizes √diag(T).

    T are the products of V in the metric of the matrix that changes: beside it a part of less than :data:`NOTHING` is none.
    """
    size = np.sqrt(np.diag(T))
    size[~(size > 0)] = 1
    lam, E = np.linalg.eigh(_sym(B) * np.outer(size, size))
    some = ~(np.abs(lam) * len(lam) <= NOTHING)
    lam, E = lam[some], E[:, some]
    W = (np.sqrt(np.abs(lam))[:, None] * E.T / size) @ V
    return W, np.sign(lam)


def _all_above_minus_one(N: Array) -> bool:
    """Whether every eigenvalue of N, which are real, is greater than −1; without computing them where N is small."""
    if float(np.sum(N * N)) < 0.25:
        return True
    return bool(np.all(np.isfinite(N)) and np.min(np.linalg.eigvals(N).real) > -1)


def _finite(*arrays: Array) -> bool:
    return all(bool(np.isfinite(a).all()) for a in arrays)


# --- Σ between the steps ---------------------------------------------------------------------------------------------------


class _Moments:
    """Σ = c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ and mu; predict, samples, state. A rule adds ``step``.

    The matrix of a state that is its ``own`` is used as it is, and need have its upper triangle only.
    """

    compiled = False  # whether there is a loop for steps with one row

    def __init__(self, m: Method, state: FC, dyn: Dyn, own: bool = False):
        P = len(state.mu)
        self.m, self.dyn, self.P = m, dyn, P
        self.alpha, self.natural = float(m.params.get("alpha", 1.0)), m.family == "fc"
        self.mu = np.array(state.mu, dtype=float)
        self.A = state.Sigma.T if own else np.array(state.Sigma.T, dtype=float, order="F")
        self.rows, self.diagonal = self.A.T, self.A.T.reshape(-1)[:: P + 1]  # the same numbers by rows, and those of the diagonal
        empty = is_diagonal(state.Sigma)
        q = self.diagonal.copy() if empty else np.zeros(P)
        many = min(P // 3, FIRST) if empty and m.params.get("n_samples", 1) <= ROOM else ROOM
        self.held = held(self.rows, q, 0.0 if empty else 1.0, max(ROOM, many))
        self.q, self.V, self.s, self.v = q, self.held.V, self.held.s, np.zeros(P)
        self.R: Array = np.zeros((0, 0))  # the Cholesky factor, once it is needed
        self.factored, self.ok = False, True
        self.drawing = False  # whether the factor of the next Σ will be asked for

    # the matrix

    @property
    def c(self) -> float:
        """The multiple of A in Σ; 0 as long as it is empty."""
        return float(self.held.c[0])

    @property
    def n(self) -> int:
        """The rows of V in use."""
        return int(self.held.turn[ROWS])

    @property
    def room(self) -> int:
        """The rows of V that may be in use."""
        return ROOM if self.c else len(self.V)

    def flush(self) -> None:
        """Let A take up everything that was put off."""
        if not self.settled:
            flush(self.held)

    def reduce(self, W: Array, scale: float = 1.0) -> bool:
        """Σ − scale WᵀW; False if its factor is asked for and there is none."""
        if len(W) <= max(self.room - self.n, ROOM):
            self.subtract(np.sqrt(scale) * W, np.ones(len(W)))
            return True
        self.flush()
        if not self.drawing:
            rank_update(-scale, W.T, 1.0, self.A)
            self.factored = False
            return True
        self.factored = update_and_factor(-scale, W.T, 1.0, self.A, self.R)
        return self.factored

    def subtract(self, W: Array, s: Array) -> None:
        """Σ − Σₖ sₖ Wₖ Wₖᵀ for the rows of W."""
        k, self.factored = len(W), False
        for first in range(0, k, ROOM):
            part = W[first : first + ROOM]
            if self.n + len(part) > self.room:
                self.flush()
            here = slice(self.n, self.n + len(part))
            self.V[here] = part
            self.s[here] = s[first : first + ROOM]
            self.held.turn[ROWS] += len(part)

    def variance(self) -> Array:
        """diag Σ."""
        out = np.empty(self.P)
        variances(self.held, out)
        return out

    def times(self, x: Array) -> Array:
        y = np.empty(self.P)
        times(self.held, x, y)
        return y

    def times_rows(self, X: Array) -> Array:
        """The rows X Σ for rows X (K, P)."""
        if len(X) > ONE_BY_ONE:
            self.flush()
            return times_symmetric(self.A, X.T).T
        Y = np.empty(X.shape)
        for x, y in zip(X, Y, strict=True):
            times(self.held, x, y)
        return Y

    def times_gradient(self, g: Array, rows: Array, V: Array) -> Array:
        """Σg, given V = rows Σ."""
        beta, parallel = multiple(g, rows[0], PARALLEL) if len(rows) == 1 else (0.0, False)
        return beta * V[0] if parallel else self.times(g)

    def factor(self) -> bool:
        """The Cholesky factor of Σ into R; False if there is none."""
        if not self.factored and self.diagonal_only:
            self.R = np.zeros((self.P, self.P), order="F")
            self.R.T.reshape(-1)[:: self.P + 1] = np.sqrt(self.q)
            self.factored = True
        if not self.factored:
            self.flush()
            self.factored = self._factor_of(self.A)
        return self.factored

    def _factor_of(self, A: Array) -> bool:
        if not len(self.R):
            self.R = np.zeros((self.P, self.P), order="F")
        return cholesky(A, self.R)

    @property
    def diagonal_only(self) -> bool:
        """Whether Σ is a diagonal matrix that has not changed since the first state."""
        return self.c == 0 and self.n == 0 and bool(np.all(self.q > 0))

    # the protocol

    def predict(self) -> None:
        """dynamics.propagate."""
        if self.dyn is None:
            return
        F, b, Q = self.dyn
        self.factored = False
        self.mu[:] = (F * self.mu if F.ndim == 1 else F @ self.mu) + b
        if F.ndim == 1 and np.all(F == F[0]):
            gamma = float(F[0])
            self.held.c[0] *= gamma**2
            self.q *= gamma**2
            self.V[: self.n] *= gamma
        else:
            self.flush()
            if F.ndim == 1:
                self.A *= F[:, None]
                self.A *= F
            else:
                self.A[:] = F @ _full(self.A) @ F.T
        if Q.ndim == 1:
            self.q += Q
        else:
            self.flush()
            self.A += Q

    def several(self, estimator: Compiled, X: Array, Y: Array, seen: Array, t: int) -> tuple[int, bool]:
        """Steps from observation t on in machine code, for the rules that have such a loop.

        Returns the step that is left to :meth:`step`, and whether all is well.
        """
        before, after = (*estimator.description, X, Y, seen, t, self.held, self.mu), (estimator.V, estimator.rows, estimator.g)
        t, code = self.shared(lambda first: self.loop((first, *before), after), self.held)
        self.factored = False
        return t, code != 0

    def shared(self, work: Callable[[bool], Any], *matrices: Held) -> Any:
        """What work(True) returns; meanwhile other threads run work(False), to share its products with these matrices."""

        def close(closed: int) -> None:
            for h in matrices:
                h.board[CLOSED] = closed

        def one(k: int) -> Any:
            try:
                return work(k == 0)
            finally:
                close(1)  # whatever happens, nobody waits for the first thread

        close(0)
        return together(len(self.held.Y), one)

    def loop(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[int, int]:
        """The compiled loop with these first and last arguments."""
        return several(*before, self.v, self.natural, self.alpha if self.m.rule == "bog" else 0.0, *after)

    def begin(self) -> None:
        self.mu0 = self.mu.copy()

    def draw(self, Z: Array) -> None:
        """gaussians.draw: the rows of standard normals Z become θ̂."""
        self.drawing = self.dyn is None or self.m.rule == "bog"  # else Σ changes before the next samples; _BogMom asks for its factor
        if not self.factor():
            self.ok = False
            Z.fill(np.nan)
            return
        times_triangle(self.R, Z.T)
        Z += self.mu

    def step(self, g: Array, rows: Array) -> bool | None:
        raise NotImplementedError

    def end(self) -> None:
        pass

    def state(self, last: bool = False) -> FC:
        """A copy; what was put off stays so, so that looking does not change what comes. For the ``last`` one A itself is taken."""
        Sigma, h = self.rows if last else self.rows.copy(), self.held
        if not self.settled:
            flush(h._replace(A=Sigma, a=Sigma.reshape(-1), q=h.q.copy(), c=h.c.copy(), turn=h.turn.copy()))
        mirror(Sigma, Sigma)
        return FC(self.mu.copy(), Sigma)

    @property
    def settled(self) -> bool:
        """Whether A is all of Σ."""
        return self.n == 0 and self.c == 1 and not np.any(self.q)

    def valid(self, state: FC) -> bool:
        """gaussians.is_valid of this state, which :meth:`state` gave; the factor stays where the next step will ask for it."""
        if not (self.ok and _finite(state.mu)):
            return False
        if self.factored:
            return True
        if self.drawing:
            good = self._factor_of(state.Sigma.T)
            self.factored = good and self.settled
            return good
        upper, diagonal = state.Sigma.T, np.diagonal(state.Sigma).copy()
        good = cholesky(upper, upper)  # in its place, which costs no matrix: the lower triangle has the same numbers
        mirror(upper, upper)
        state.Sigma.reshape(-1)[:: self.P + 1] = diagonal
        return good


class _Bong(_Moments):
    """fc_nat.bong_woodbury, fc_mom.bong_lowrank."""

    compiled = True

    def step(self, g: Array, rows: Array) -> bool:
        if len(rows) > 1:
            return self._many(g, rows, self.times_rows(rows))
        if self.n == self.room:
            self.flush()
        x = rows[0]
        done = one_row(self.held, x, g, self.mu, self.v, self.natural, PARALLEL)
        if done == 2:
            return self._many(g, rows, self.v.copy()[None])
        self.factored = False
        return done == 1 and self.ok

    def _many(self, g: Array, rows: Array, V: Array) -> bool:
        """The same for any number of rows, with V = rows Σ."""
        T = _sym(rows @ V.T)
        L, info = dpotrf(np.eye(len(T)) + T if self.natural else np.eye(len(T)) - T, lower=1)
        if info != 0:
            return False
        Sg = self.times_gradient(g, rows, V)
        if self.natural:
            V = dtrsm(1.0, L, V.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
            Sg -= (V @ g) @ V
        self.mu += Sg
        return self.reduce(V) and self.ok and _finite(self.mu, V)


class _BogMom(_Moments):
    """fc_mom.bog. Σ only ever shrinks, so that a lost positive definiteness stays lost until the check, or until a Q is added."""

    compiled = True

    def predict(self) -> None:
        if self.dyn is not None:
            self.ok = self.ok and self.factor()
        super().predict()

    def step(self, g: Array, rows: Array) -> bool:
        self.mu += self.alpha * g
        return self.reduce(rows, self.alpha / 2) and self.ok and _finite(self.mu, rows)


class _BogNat(_Moments):
    """fc_nat.bog_woodbury; ``step`` gives None, with nothing changed, where that would cost digits."""

    compiled = True

    def loop(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[int, int]:
        return bog_loop(*before, self.alpha, LOSS, *after, np.empty((4, self.P)))

    def step(self, g: Array, rows: Array) -> bool | None:
        U, C = self._change(g, rows)
        V = self.times_rows(U)
        T = _sym(U @ V.T)
        size = np.sqrt(np.abs(np.diag(T)))
        if not _finite(T, C) or not np.all(size > 0):
            return None
        T, C, V = T / np.outer(size, size), C * np.outer(size, size), V / size[:, None]
        one = np.eye(len(T))
        N = one + T @ C
        lam, E = np.linalg.eigh(T)
        E *= np.sqrt(np.maximum(lam, 0))
        if not np.linalg.eigvalsh(one + _sym(E.T @ C @ E))[0] > 0:  # those of Σ½ Σ_t⁻¹ Σ½ that are not 1
            return None  # the precision itself is to say so
        back = np.linalg.inv(N)
        B = _sym(C @ back)
        W, s = _signed(B, V, one)
        variance = self.variance()
        top = np.max(variance - s @ W**2)
        spread = float(np.max(np.abs(N).sum(0)) * np.max(np.abs(back).sum(0)))
        if not spread * max(np.max(np.abs(B)) * np.max(np.abs(V)) ** 2, np.max(variance)) <= LOSS * top:
            return None
        Umu = (U @ self.mu) / size
        along = size[0] * T[:, 0]  # UᵀΣu for u = Σx, of which v = Σg is β times; see _change
        step = self.alpha * self.beta * (size[0] * one[0] - B @ along) - B @ Umu
        change = step @ V
        if not spread * np.max(np.abs(step)) * np.max(np.abs(V)) <= LOSS * max(np.max(np.abs(self.mu + change)), 1e-300):
            return None
        self.mu += change
        self.subtract(W, s)
        return self.ok and _finite(self.mu, W)

    def plain(self) -> _Precision:
        form = _BogPrecision(self.m, self.state(), self.dyn)
        form.begin()
        return form

    def _change(self, g: Array, rows: Array) -> tuple[Array, Array]:
        """(U, C) with Σ_t⁻¹ = Σ⁻¹ + UᵀCU; Σg is β times the first row of U, the second is mu."""
        V, alpha = self.times_rows(rows), self.alpha
        beta, parallel = multiple(g, rows[0], PARALLEL) if len(rows) == 1 else (1.0, False)
        self.beta = beta if parallel else 1.0
        if parallel:
            return np.concatenate([V, self.mu[None]]), 2 * alpha * np.array([[1.0, -beta], [-beta, 0.0]])
        C = 2 * alpha * np.diag(np.array([0.0, 0.0] + [1.0] * len(rows)))
        C[0, 1] = C[1, 0] = -2 * alpha
        return np.concatenate([self.times(g)[None], self.mu[None], V]), C


class _BlrLoop(_Moments):
    """What the inner loops of blr share: the rows U of all iterations, V = U Σ with the prior's Σ, and T = U Vᵀ."""

    U: Array
    UV: Array
    T: Array

    def loop(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[int, int]:
        self._make_room(self.m.n_iter)
        return inner_loops(*before, self.natural, self.alpha, self.m.n_iter, *after, self.U, self.UV)

    def _make_room(self, n: int) -> None:
        if not hasattr(self, "U") or len(self.U) != n:
            self.U, self.UV, self.T = np.empty((n, self.P)), np.empty((n, self.P)), np.empty((n, n))

    def __init__(self, m: Method, state: FC, dyn: Dyn):
        super().__init__(m, state, dyn)
        self.compiled = self.alpha < 1 and m.n_iter <= ROOM

    def begin(self) -> None:
        super().begin()
        self.k = 0

    def _take(self, rows: Array) -> slice:
        """Put rows, their products and their Gram matrix behind those of the iterations before."""
        K, n = len(rows), self.m.n_iter * len(rows)
        if self.k == 0:
            self._make_room(n)
        new, k = slice(self.k, self.k + K), self.k + K
        self.U[new], self.UV[new] = rows, self.times_rows(rows)
        self.T[new, :k] = self.UV[new] @ self.U[:k].T
        self.T[:k, new] = self.T[new, :k].T
        self.T[new, new] = _sym(self.T[new, new])
        self.k = k
        return new


class _BlrNat(_BlrLoop):
    """fc_nat.start, blr_increment, is_valid_increment and finish."""

    def begin(self) -> None:
        super().begin()
        self.d = np.zeros(0)

    def step(self, g: Array, rows: Array) -> bool:
        alpha, new = self.alpha, self._take(rows)
        U, V, T = self.U[: self.k], self.UV[: self.k], self.T[: self.k, : self.k]
        self.d = np.concatenate([(1 - alpha) * self.d, np.full(len(rows), alpha)])
        delta = self.mu0 - self.mu
        try:
            back = self.d * np.linalg.solve(np.eye(self.k) + T * self.d, U @ delta + V @ g)
        except np.linalg.LinAlgError:
            return False
        self.mu += alpha * (delta + self.times_gradient(g, rows, V[new]) - back @ V)
        return self.ok and _finite(self.mu, V[new]) and (alpha <= 1 or _all_above_minus_one(self.d[:, None] * T))

    def end(self) -> None:
        if self.k == 0:
            return
        V, T, d = self.UV[: self.k], self.T[: self.k, : self.k], self.d
        if self.alpha > 1:
            self.subtract(*_signed(d[:, None] * np.linalg.inv(np.eye(self.k) + T * d), V, T))
            return
        some = d > 0
        root = np.sqrt(d[some])
        L, info = dpotrf(np.eye(len(root)) + T[np.ix_(some, some)] * np.outer(root, root), lower=1)
        self.ok = self.ok and info == 0
        self.reduce(dtrsm(1.0, L, (root[:, None] * V[some]).T, side=1, lower=1, trans_a=1, overwrite_b=1).T)


class _BlrMom(_BlrLoop):
    """fc_mom.start, blr_increment, is_valid_increment and finish."""

    def begin(self) -> None:
        super().begin()
        self.B = np.zeros((0, 0))

    def step(self, g: Array, rows: Array) -> bool:
        alpha, B, k = self.alpha, self.B, self.k
        new = self._take(rows)
        Y, Z, T = self.U, self.UV, self.T
        delta = self.mu0 - self.mu
        change = delta + self.times_gradient(g, rows, Z[new]) + (B @ (Y[:k] @ delta + Z[:k] @ g)) @ Z[:k]
        self.mu += alpha * change
        X = np.concatenate([B @ T[:k, new], np.eye(len(rows))])
        self.B = -alpha * (X @ X.T)
        self.B[:k, :k] += (1 - alpha) * B - alpha * _sym(B @ T[:k, :k] @ B)
        return self.ok and _finite(self.mu, Z[new]) and _all_above_minus_one(self.B @ T[: self.k, : self.k])

    def end(self) -> None:
        if self.k:
            W, s = _signed(self.B, self.UV[: self.k], self.T[: self.k, : self.k])
            self.subtract(W, -s)


class _BlrMomPlain(_Moments):
    """fc_mom.blr with Σ₀ = L₀L₀ᵀ, Σ = L₀BL₀ᵀ and mu = mu₀ + L₀w: B becomes (1 + α)B − αB² − αBYᵀYB with Y = rows L₀, and no inverse.

    In an update A has B, of which R has the Cholesky factor: L₀R is that of Σ. In the first iteration B is the identity.
    """

    L0: Array = np.zeros((0, 0))

    def begin(self) -> None:
        super().begin()
        self.ok = self.ok and self.factor()
        self.flush()
        if not len(self.L0):
            self.L0 = np.zeros((self.P, self.P), order="F")
        self.L0, self.R = self.R, self.L0
        self.w, self.first, self.factored = np.zeros(self.P), True, False

    def draw(self, Z: Array) -> None:
        if not self.ok:
            Z.fill(np.nan)
            return
        for L in (self.L0,) if self.first else (self.R, self.L0):
            times_triangle(L, Z.T)
        Z += self.mu

    def step(self, g: Array, rows: Array) -> bool:
        alpha, pull = self.alpha, dtrmv(self.L0, g, lower=1, trans=1)
        Y = rows.T.copy(order="F")
        times_triangle(self.L0, Y, "T")
        if self.first:
            self.A.fill(0.0)
            self.diagonal[:] = 1.0
            self.w = alpha * pull
        else:
            self.w += alpha * dsymv(1.0, self.A, pull - self.w, lower=1)
            Y = times_symmetric(self.A, Y)
            mirror(self.rows, self.R.T)  # whose factor has served its samples
            rank_update(-alpha, self.R, 1 + alpha, self.A)
        self.mu[:] = self.mu0 + dtrmv(self.L0, self.w, lower=1)
        self.first = False
        return self.ok and _finite(self.mu) and update_and_factor(-alpha, Y, 1.0, self.A, self.R)

    def end(self) -> None:
        if not self.first:
            _clear_above(self.R)
            times_triangle(self.L0, self.R)
            rank_update(1.0, self.R, 0.0, self.A)
        self.factored = True


class _BbbMomPlain(_Moments):
    """fc_mom.bbb: one inverse for each iteration after the first, in which Σ⁻¹ = Λ₀."""

    def begin(self) -> None:
        super().begin()
        self.ok = self.ok and self.factor()
        self.flush()
        self.first = True

    def remember(self) -> None:
        """The prior's precision; its factor in R has served the first samples."""
        invert(self.R)
        self.prec0 = np.zeros(0)
        self.prec0, self.first = _packed(self.R), False

    def go_on(self, current: FC) -> None:
        """Continue an inner loop at that iterate."""
        self.remember()
        self.mu[:], self.A[:], self.factored = current.mu, current.Sigma, False
        self.ok = self.ok and self.factor()

    def step(self, g: Array, rows: Array) -> bool:
        alpha = self.alpha
        if self.first and self.m.n_iter > 1:
            self.remember()
        elif not self.first:
            self.mu += alpha * dspmv(self.P, 1.0, self.prec0, self.mu0 - self.mu, lower=1)
            invert(self.R)
            mix(self.R.T, 1.0, -1.0, self.prec0)
            _add(self.A, alpha / 2, self.R)
        self.mu += alpha * g
        self.factored = update_and_factor(-alpha / 2, rows.T, 1.0, self.A, self.R)
        return self.ok and _finite(self.mu) and self.factored


class _Krylov(_Moments):
    """An inner loop of bbb in an orthonormal basis Q of few vectors, the rows of Q: a change QᵀeQ of the prior's precision or covariance.

    With the other one of the two, H, a matrix (P, P) that is multiplied with each vector of Q once: Z = QH, T = QZᵀ. Each iteration
    brings new vectors and makes those of Z part of the basis. ``step`` gives None, with nothing changed, where that would cost digits
    or where the vectors are no longer few.
    """

    compiled = True
    age = 0  # updates since :meth:`prepare`, where there is something to be made anew

    def several(self, estimator: Compiled, X: Array, Y: Array, seen: Array, t: int) -> tuple[int, bool]:
        n = min(SHORT, self.P)
        basis = np.empty((n, self.P)), np.empty((n, self.P)), np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
        after = estimator.V, estimator.rows, estimator.g, *basis

        def updates(t: int, held: Held, first: bool) -> tuple[int, int]:
            """Updates until one is left to :meth:`step` (2), or until H is due to be made anew (1)."""
            while t < len(X) and self.age < RENEWED:
                if seen[t] or not first:
                    before = first, *estimator.description, X[t], Y[t], held
                    k, code = self.update(before, (self.mu, self.alpha, self.m.n_iter, LOSS, *after))
                    if code != 1:
                        return t, 2
                    self.commit(*(a[:k] for a in basis[:2]), *(a[:k, :k] for a in basis[2:]))
                t += 1
            return t, 1

        code = 1
        while t < len(X) and code == 1:
            held = self.prepare()
            t, code = self.shared(functools.partial(updates, t, held), held, self.held)
        return t, True

    def prepare(self) -> Held:
        """H before some updates."""
        raise NotImplementedError

    def update(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[int, int]:
        """The compiled inner loop with these first and last arguments."""
        raise NotImplementedError

    def commit(self, Q: Array, Z: Array, T: Array, e: Array, X: Array) -> None:
        """The change of Σ, and of what goes along, at the end of an update."""
        raise NotImplementedError

    def begin(self) -> None:
        super().begin()
        room = self.P // 2
        if not hasattr(self, "Q"):
            self.Q, self.Z, self.T = np.empty((room + 1, self.P)), np.empty((room, self.P)), np.empty((room, room))
            self.ones = np.ones(room)
        self.k = 0  # vectors in Q
        self.waiting: list[Array] = []  # vectors that the next iteration needs in their span
        self.e = self.X = np.zeros((0, 0))  # the change, and X = (I + eT)⁻¹

    def H(self) -> Array:
        """With both triangles."""
        raise NotImplementedError

    def directions(self, *vectors: Array) -> list[int] | None:
        """Orthonormal directions of the vectors behind the k of Q: which of them have brought one. None if there is no room."""
        brought: list[int] = []
        for i, x in enumerate(vectors):
            if self.k + len(brought) == len(self.Z):
                return None
            if new_direction(self.Q, self.k + len(brought), x, self.ones, self.v):
                brought.append(i)
        return brought

    def extend(self, k: int) -> None:
        """The basis has k vectors: multiply the new ones with H."""
        new = slice(self.k, k)
        times_block(self.H(), self.Q[new], self.Z[new])
        self.T[new, :k] = self.Z[new] @ self.Q[:k].T
        self.T[: self.k, new] = self.T[new, : self.k].T
        self.T[new, new] = _sym(self.T[new, new])
        self.waiting += list(self.Z[new])
        self.k = k

    def invert(self, e: Array) -> tuple[Array, float] | None:
        """X = (I + eT)⁻¹ and the condition number of what it inverts; None if H⁻¹ + QᵀeQ is not positive definite."""
        T, one = self.T[: self.k, : self.k], np.eye(self.k)
        C, info = dpotrf(T, lower=1, clean=1)
        if info != 0 or dpotrf(one + _sym(C.T @ e @ C), lower=1)[1] != 0:
            return None
        N = one + e @ T
        X = np.linalg.inv(N)
        return X, float(np.max(np.abs(N).sum(0)) * np.max(np.abs(X).sum(0)))

    def grown(self, a: Array) -> Array:
        """A vector or matrix of coefficients, with zeros for the new vectors of the basis."""
        out = np.zeros((self.k,) * a.ndim)
        out[(slice(len(a)),) * a.ndim] = a
        return out

    def end(self) -> None:
        if self.k:
            self.commit(self.Q[: self.k], self.Z[: self.k], self.T[: self.k, : self.k], self.e, self.X)

    def plain(self) -> Any:
        raise NotImplementedError


class _BbbNat(_Krylov):
    """fc_nat.bbb: Σᵢ⁻¹ = Σ₀⁻¹ + QᵀeQ, μᵢ = μ₀ − Zᵀw, with Z = QΣ₀; Σᵢ = Σ₀ − ZᵀmZ with m = Xe; Σᵢ − ΣᵢΣ₀⁻¹Σᵢ = Zᵀ(XeXᵀ)Z.

    A vector waits as long as the change along what is new in it is less than :data:`NOTHING`, relative to Σ₀⁻¹ and to μ₀.
    """

    def prepare(self) -> Held:
        return self.held

    def update(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[int, int]:
        return krylov_loop(*before, *after)

    def commit(self, Q: Array, Z: Array, T: Array, e: Array, X: Array) -> None:
        self.subtract(*_signed(X @ e, Z, T))

    def begin(self) -> None:
        super().begin()
        self.flush()
        mirror(self.rows, self.rows)
        self.w, self.waiting = np.zeros(0), [self.mu0]
        self.most = float(np.sqrt(np.vdot(self.rows, self.rows)))  # no eigenvalue of Σ₀ is larger

    def H(self) -> Array:
        return self.rows

    def step(self, g: Array, rows: Array) -> bool | None:
        alpha, k, w, X = self.alpha, self.k, self.w, self.X
        S0 = self.times_rows(rows)
        g0 = self.times_gradient(g, rows, S0)
        if not _finite(S0, g0):
            return None
        waiting = self.waiting
        brought = self.directions(*waiting, *S0, g0)
        if brought is None:
            return None
        Q, Zk = self.Q[: k + len(brought)], self.Z[:k]
        J, m, Xe = Q @ Zk.T, X @ self.e, X @ self.e @ X.T
        a, r0, V0 = Q @ self.mu, Q @ g0, Q @ S0.T
        r = r0 + J @ (w - m @ (Zk @ g + self.T[:k, :k] @ w))
        V = V0 - J @ (m @ (Zk @ rows.T))
        ra = np.outer(r, a)
        D = -2 * alpha * (ra + ra.T + _sym(J @ Xe @ J.T) - V @ V.T)
        use = self._matters(D, alpha * r - D @ a)
        self.waiting = [waiting[i] for i, used in zip(brought, use[k:], strict=True) if i < len(waiting) and not used]
        Q, D, a, r = Q[use], D[np.ix_(use, use)], a[use], r[use]
        self.Q[k : len(Q)] = Q[k:]
        self.extend(len(Q))
        e = self.grown(self.e) + D
        inverse = self.invert(e)
        if inverse is None or not inverse[1] * self._loss(inverse[0] @ e) <= LOSS:
            self.k, self.waiting = k, waiting
            return None
        self.e, self.X = e, inverse[0]
        self.w = self.grown(w) - self.X @ (alpha * r - D @ a)
        self.mu[:] = self.mu0 - self.w @ self.Z[: self.k]
        return self.ok and _finite(self.mu)

    def _matters(self, D: Array, move: Array) -> Array:
        """Which vectors of the basis an iteration needs: all that were there, and those along which it changes something."""
        size = np.sqrt(np.concatenate([np.diag(self.T)[: self.k], np.full(len(D) - self.k, self.most)]))
        matters = (np.abs(D) @ size) * size > NOTHING
        matters |= np.abs(move) * self.most > NOTHING * np.max(np.abs(self.mu0))
        matters[: self.k] = True
        return matters

    def _loss(self, m: Array) -> float:
        """The size of what Σ₀ − ZᵀmZ is a difference of, beside that of the result."""
        Z = self.Z[: self.k]
        less = np.einsum("ki,ki->i", _sym(m) @ Z, Z)
        return float(max(np.max(self.diagonal), np.max(np.abs(less))) / np.max(self.diagonal - less))

    def plain(self) -> _Precision:
        self.flush()
        form = _BbbPrecision(self.m, FC(self.mu0, _full(self.A)), self.dyn)
        form.begin()
        if self.k:
            mu = self.mu.copy()
            self.end()
            form.go_on(FC(mu, self.state().Sigma))
        return form


class _BbbMom(_Krylov):
    """fc_mom.bbb: Σᵢ = Σ₀ + QᵀeQ; Σᵢ⁻¹ = Σ₀⁻¹ − ZᵀmZ with m = Xe and Z = QΣ₀⁻¹.

    Σ⁻¹ goes along from one observation to the next; every :data:`RENEWED` of them, and where that would cost digits, it is made anew.
    """

    inverse: _Moments

    def predict(self) -> None:
        self.age = self.age if self.dyn is None else RENEWED
        super().predict()

    def prepare(self) -> Held:
        if not hasattr(self, "inverse") or self.age >= RENEWED:
            self.R = self.inverse.A if hasattr(self, "inverse") else np.zeros((self.P, self.P), order="F")
            if self.diagonal_only:
                self.R.fill(0.0)
                self.R.T.reshape(-1)[:: self.P + 1] = 1 / self.q
            else:
                self.factored = False
                self.ok = self.ok and self.factor()
                invert(self.R)
            self.inverse, self.age = _Moments(self.m, FC(self.mu, self.R.T), None, own=True), 0
            self.R, self.factored = np.zeros((0, 0)), False
        return self.inverse.held

    def update(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[int, int]:
        return moment_loop(*before, self.held, *after)

    def commit(self, Q: Array, Z: Array, T: Array, e: Array, X: Array) -> None:
        top = np.max(self.inverse.variance())
        self.inverse.subtract(*_signed(X @ e, Z, T))
        self.age = self.age + 1 if top <= 2 * np.max(self.inverse.variance()) else RENEWED
        W, s = _signed(e, Q, T)
        self.subtract(W, -s)

    def begin(self) -> None:
        super().begin()
        self.prepare()
        self.inverse.flush()
        mirror(self.inverse.rows, self.inverse.rows)

    def H(self) -> Array:
        return self.inverse.rows

    def step(self, g: Array, rows: Array) -> bool | None:
        alpha, k = self.alpha, self.k
        if not _finite(rows, g):
            return False
        waiting = self.waiting
        brought = self.directions(*waiting, *rows, g)
        if brought is None:
            return None
        self.waiting = []
        self.extend(k + len(brought))
        Q = self.Q[: self.k]
        J, S = self.T[: self.k, :k] @ self.X @ self.e, Q @ rows.T
        e = self.grown(self.e) - alpha / 2 * (_sym(J @ self.T[:k, : self.k]) + S @ S.T)
        inverse = self.invert(e)
        if inverse is None:
            return False
        if not inverse[1] * self._loss(e) <= LOSS:
            self.k, self.waiting = k, waiting
            return None
        self.e, self.X = e, inverse[0]
        if k:
            self.mu += alpha * ((Q @ (self.mu0 - self.mu)) @ self.Z[: self.k])
        self.mu += alpha * g
        return self.ok and _finite(self.mu)

    def _loss(self, e: Array) -> float:
        """The size of what Σ₀ + QᵀeQ is a difference of, beside that of the result."""
        Q, variance = self.Q[: self.k], self.variance()
        more = np.einsum("ki,ki->i", e @ Q, Q)
        return float(max(np.max(variance), np.max(np.abs(more))) / np.max(variance + more))

    def plain(self) -> _Moments:
        mu, k = self.mu.copy(), self.k
        self.flush()
        form = _BbbMomPlain(self.m, FC(self.mu0, _full(self.A)), self.dyn)
        form.begin()
        if k:
            self.end()
            form.go_on(FC(mu, self.state().Sigma))
        return form


# --- Λ between the steps ---------------------------------------------------------------------------------------------------


class _Precision:
    """Λ = Σ⁻¹ with its Cholesky factor R, all parameters in reverse order but for mu. A rule adds ``step``."""

    compiled = False

    def __init__(self, m: Method, state: FC, dyn: Dyn):
        P = len(state.mu)
        self.m, self.P, self.alpha = m, P, m.params.get("alpha", 1.0)
        self.dyn = None if dyn is None else tuple(np.flip(a).copy() for a in dyn)
        self.mu, self.ok = np.array(state.mu, dtype=float), True
        self.A, self.R = np.zeros((P, P), order="F"), np.zeros((P, P), order="F")
        variance = np.diagonal(state.Sigma)[::-1]
        if is_diagonal(state.Sigma) and np.all(variance > 0):
            self.A.T.reshape(-1)[:: P + 1] = 1 / variance
            self.R.T.reshape(-1)[:: P + 1] = 1 / np.sqrt(variance)
        else:
            self.R[:] = state.Sigma.T[::-1, ::-1]
            self._from_covariance()

    def _from_covariance(self) -> None:
        """Λ and its factor from the covariance in R."""
        self.ok = self.ok and cholesky(self.R, self.R)
        invert(self.R)
        np.copyto(self.A, self.R)
        self.ok = self.factor() and self.ok

    def factor(self) -> bool:
        """The Cholesky factor of Λ into R; False if there is none."""
        return cholesky(self.A, self.R)

    def solve(self, x: Array) -> Array:
        """Σx of a vector, or XΣ of rows X, in reverse order, by the factor."""
        if x.ndim == 1:
            return dtrsv(self.R, dtrsv(self.R, x, lower=1), lower=1, trans=1, overwrite_x=1)
        X = x.copy()
        solve_triangle(self.R, X.T)
        solve_triangle(self.R, X.T, "T")
        return X

    def move(self, change: Array) -> None:
        """mu plus a change in reverse order."""
        self.mu += change[::-1]

    # the protocol

    def predict(self) -> None:
        """dynamics.propagate, through the covariance and back."""
        if self.dyn is None:
            return
        F, b, Q = self.dyn
        mu = self.mu[::-1]
        self.mu[:] = ((F * mu if F.ndim == 1 else F @ mu) + b)[::-1]
        invert(self.R)
        Sigma = _full(self.R)
        self.R[:] = F[:, None] * Sigma * F if F.ndim == 1 else F @ Sigma @ F.T
        if Q.ndim == 1:
            self.R.T.reshape(-1)[:: self.P + 1] += Q
        else:
            self.R += Q
        self._from_covariance()

    def begin(self) -> None:
        self.mu0 = self.mu.copy()

    def draw(self, Z: Array) -> None:
        """gaussians.draw: the rows of standard normals Z become θ̂."""
        X = np.ascontiguousarray(Z[:, ::-1])
        solve_triangle(self.R, X.T, "T")
        np.add(X[:, ::-1], self.mu, out=Z)

    def step(self, g: Array, rows: Array) -> bool:
        raise NotImplementedError

    def end(self) -> None:
        pass

    def state(self, last: bool = False) -> FC:
        """A copy of mu, and Σ; for the ``last`` one in the place of the factor."""
        R = self.R if last else self.R.copy(order="F")
        invert(R)
        mirror(R.T, R.T)
        _reverse(R.T)
        return FC(self.mu.copy(), R.T)

    def valid(self, state: FC) -> bool:
        """gaussians.is_valid of this state, which :meth:`state` gave: every step ends with the factor of its Λ."""
        return self.ok and _finite(*state)


def _reversed(g: Array, rows: Array) -> tuple[Array, Array]:
    return np.ascontiguousarray(g[::-1]), np.ascontiguousarray(rows[:, ::-1])


class _BongPrecision(_Precision):
    """fc_nat.bong."""

    def step(self, g: Array, rows: Array) -> bool:
        g, rows = _reversed(g, rows)
        if not update_and_factor(1.0, rows.T, 1.0, self.A, self.R):
            return False
        self.move(self.solve(g))
        return self.ok and _finite(self.mu)


class _BlrPrecision(_Precision):
    """fc_nat.blr."""

    def begin(self) -> None:
        super().begin()
        self.A0 = np.zeros(0)
        if self.m.n_iter > 1:
            self.A0 = _packed(self.A)
        self.first = True

    def step(self, g: Array, rows: Array) -> bool:
        alpha = self.alpha
        g, rows = _reversed(g, rows)
        pull = g
        if not self.first:  # else Λ = Λ₀
            pull = dspmv(self.P, 1.0, self.A0, (self.mu0 - self.mu)[::-1], lower=1) + g
            mix(self.A.T, 1 - alpha, alpha, self.A0)
        self.first = False
        if not update_and_factor(alpha, rows.T, 1.0, self.A, self.R):
            return False
        self.move(alpha * self.solve(pull))
        return self.ok and _finite(self.mu)


class _BogPrecision(_Precision):
    """fc_nat.bog."""

    def step(self, g: Array, rows: Array) -> bool:
        alpha, mu = self.alpha, np.ascontiguousarray(self.mu[::-1])
        g, rows = _reversed(g, rows)
        v, V = self.solve(g), self.solve(rows)
        pull = dsymv(1.0, self.A, mu, lower=1) + alpha * v
        dsyr2(-2 * alpha, v, mu, a=self.A, lower=1, overwrite_a=1)
        if not update_and_factor(2 * alpha, V.T, 1.0, self.A, self.R):
            return False
        self.mu[:] = self.solve(pull)[::-1]
        return self.ok and _finite(self.mu)


class _BbbPrecision(_Precision):
    """fc_nat.bbb: Σ Λ₀ Σ as XᵀX with X = L₀ᵀΣ. In the first iteration it is Σ, and the two cancel."""

    def begin(self) -> None:
        super().begin()
        if self.m.n_iter > 1:
            if not hasattr(self, "L0"):
                self.L0 = np.empty((self.P, self.P), order="F")
            np.copyto(self.L0, self.R)
        self.first = True

    def go_on(self, current: FC) -> None:
        """Continue an inner loop at that iterate."""
        self.mu[:], self.R[:], self.first = current.mu, current.Sigma[::-1, ::-1], False
        self._from_covariance()

    def step(self, g: Array, rows: Array) -> bool:
        alpha, mu = self.alpha, np.ascontiguousarray(self.mu[::-1])
        g, rows = _reversed(g, rows)
        if not self.first:
            d = np.ascontiguousarray((self.mu0 - self.mu)[::-1])
            g = g + dtrmv(self.L0, dtrmv(self.L0, d, lower=1, trans=1), lower=1)
        r, V = self.solve(g), self.solve(rows)
        pull = dsymv(1.0, self.A, mu, lower=1) + alpha * r
        if not self.first:
            invert(self.R)
            mirror(self.R.T, self.R.T)
            _add(self.A, -2 * alpha, self.R)
            times_triangle(self.L0, self.R, "T")
            gram_update(2 * alpha, self.R, 1.0, self.A)
        dsyr2(-2 * alpha, r, mu, a=self.A, lower=1, overwrite_a=1)
        self.first = False
        if not update_and_factor(2 * alpha, V.T, 1.0, self.A, self.R):
            return False
        self.mu[:] = self.solve(pull)[::-1]
        return self.ok and _finite(self.mu)


def _add(A: Array, alpha: float, B: Array) -> None:
    """A += αB, a few columns at a time, so that there is no third matrix."""
    for j in range(0, A.shape[1], 64):
        A[:, j : j + 64] += alpha * B[:, j : j + 64]


# --- the choice ------------------------------------------------------------------------------------------------------------


def _form(m: Method, P: int, K: int, static: bool) -> Any:
    """The class for a method with K columns in each iteration."""
    mc, few = m.hess.startswith("mc"), FEW * m.n_iter * K <= P
    small = 3 * (m.n_iter + K * m.n_iter * (m.n_iter + 1) // 2) <= P  # the vectors of a Krylov basis
    if m.family == "fc":
        return {
            "bong": _BongPrecision if mc and static else _Bong,
            "blr": _BlrNat if few and not mc else _BlrPrecision,
            "bog": _BogPrecision if mc and static else _BogNat,
            "bbb": _BbbNat if small and not mc else _BbbPrecision,
        }[m.rule]
    return {
        "bong": _Bong,
        "blr": _BlrMom if few and not mc else _BlrMomPlain,
        "bog": _BogMom,
        "bbb": _BbbMom if small and not mc else _BbbMomPlain,
    }[m.rule]


class Belief:
    """The protocol of a family for fc and fc_mom. The form is chosen anew when an update comes with another number of columns."""

    def __init__(self, m: Method, state: FC, dyn: Dyn):
        self.m, self.dyn, self.P = m, dyn, len(state.mu)
        self.K = m.params.get("n_samples", 1)
        self.fresh = True  # no step since begin
        self.plain = 0  # updates to go in the plain form before the other one is tried again
        self.form = _form(m, self.P, self.K, dyn is None)(m, state, dyn)

    @property
    def mu(self) -> Array:
        return self.form.mu

    def predict(self) -> None:
        self.form.predict()

    def begin(self) -> None:
        self.fresh = True
        if self.plain:
            self.plain -= 1
            if self.plain == 0:
                self._take(_form(self.m, self.P, self.K, self.dyn is None))
        self.form.begin()

    def draw(self, Z: Array) -> None:
        self.form.draw(Z)

    def step(self, g: Array, rows: Array) -> bool:
        if self.fresh and len(rows) != self.K:
            self.K = len(rows)
            self._take(_form(self.m, self.P, self.K, self.dyn is None))
            self.form.begin()
        self.fresh = False
        done = self.form.step(g, rows)
        if done is None:  # the efficient form would cost digits: go on in the plain one, for bog for a while
            self._replace(self.form.plain())
            self.plain = 16 if self.m.rule == "bog" else 1
            done = self.form.step(g, rows)
        return done

    def _take(self, form: Any) -> None:
        if type(self.form) is not form:
            self._replace(form(self.m, self.form.state(), self.dyn))

    def _replace(self, form: Any) -> None:
        form.ok = form.ok and self.form.ok
        self.form = form

    def end(self) -> None:
        self.form.end()

    def state(self, last: bool = False) -> FC:
        """The belief as a state of its own; after the ``last`` one it is worth nothing."""
        return self.form.state(last)

    def several(self, estimator: Compiled, X: Array, Y: Array, seen: Array, t: int) -> tuple[int, bool]:
        """Steps of the compiled loop from t on; the step that is left to :meth:`step`, and whether all is well."""
        return self.form.several(estimator, X, Y, seen, t) if self.form.compiled and not self.plain else (t, True)

    @property
    def ok(self) -> bool:
        """Whether every step so far had something to start from."""
        return self.form.ok

    def valid(self, state: FC) -> bool:
        """Whether the belief, whose state this is, is a Gaussian."""
        return self.form.valid(state)

"""The DLR steps in machine code. Twins of :mod:`bongref.families.dlr`, for G = −S Sᵀ.

W is kept as Wt (R, P) and S as rows (K, P), so that every loop over the parameters has unit stride. A step reads the parameters in blocks
that stay in the second level cache, twice: once for the small matrices (Gram matrices, weighted by 1/Υ or not), once for the update,
written in place. Nothing is ever formed that is larger than the state and S. The parameters are in one or several parts, for as many
threads: a step is a few jobs, each on all parts, with small matrices in between.

The projection needs the triangular factor T of W̃ = Q T. Where every row of W̃ has a tenth or more of itself beside the rows before it, the
Cholesky factor of W̃ᵀW̃ has all digits of T; elsewhere T is from Householder steps, block after block, as in the reference, so that the small
singular directions of W̃ are not lost. The SVD of T is one-sided Jacobi on the rows of its pivoted triangular factor, whose small singular
values are those of T to the last digits. Where W̃ is rank deficient the columns of W are 0. The inner loop of blr with one row in S stays in
the coefficients of an orthonormal basis, which gains a row in every iteration.

The array-level kernels return a code: 0, or 1 for a result that is no Gaussian, or 3 for one that only the reference covers (a Υ ≤ 0
that W may make up for, W̃ so large or small that squares leave the range of float64, a BBB that has run away).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...curvature import Curv, factor
from ...families import dlr
from ...states import DLR
from ..jit import inlined, inner, kernel, ordered
from ..packs import pack
from ..vectors import aligned, apart, fill4, load4, muladd, spread4, store4, sum4

OK, LOST, INFINITE, ELSEWHERE = 0, 1, 2, 3
MEASURE, TRIANGLE, SETTLE, SWEEP, PRODUCTS, CLEAN, GRAM, UNIT, WRITE = range(9)  # kinds of jobs
LARGE, SMALL = 1e140, 1e-140  # of T: squares and their sums stay in range
BEYOND = 1e12  # of WᵀΥ⁻¹W: rounding decides whether the next Υ of BBB is positive, so it must be the reference's
TINY = 1e-290  # below this a square is taken for 0
SWEEPS = 60  # of Jacobi; five are the rule
PANEL = 96  # columns of the blocks of bbb that stay in the first level cache
NOISE, NEAT = 2.0**-92, 2.0**-98  # squares of 64 eps and of 8 eps


@pack
class Buffers(NamedTuple):
    """Room for a step. Every part of the parameters has blocks of its own, so that several threads can take parts.

    A block has ``rows`` rows, a multiple of 24, of which ``width`` columns are used; what is called by a small letter is flat.
    """

    X: Any  # (parts, rows, stride) blocks
    Y: Any
    Z: Any
    x: Any
    y: Any
    z: Any
    u: Any  # (parts, 5, stride) weights and sums
    h: Any  # (parts, 4 · rows²) sums in vectors, for H
    g: Any  # the same for G
    dots: Any  # (parts, rows)
    wrong: Any  # (parts, 2): what is 0 if all is finite; how many Υ are not positive
    L: Any  # (parts, rows, rows) triangles
    H: Any  # (rows, rows) and so are the others
    G: Any
    T: Any
    t: Any
    V: Any
    v: Any
    J: Any
    j: Any
    pairs: Any  # (6, 4 · rows)
    size: Any  # (rows,), the scale of every row of W̃, and coefficients
    scale: Any
    perm: Any  # (rows,) int64
    order: Any
    shape: Any  # width, blocks in a part, the kind of job under way


def buffers(n, P, parts=1, left=None):
    """Buffers for n rows and one more, P parameters; ``left`` is how many rows the Gram matrices have where that is less."""
    rows = (n + 24) // 24 * 24
    share = -(-P // parts)
    blocks = -(-share // 480)
    width = 24 * max(-(-share // blocks // 24), -(-n // 24))  # no rest in loops of 24 columns, but for the last block
    stride = width + (4 if (width + 4) % 16 else 8)  # no power of 2, which would put all rows into the same places of the cache
    X, Y, Z = (aligned(parts, rows, stride) for _ in range(3))
    H, G, T, V, J = (np.zeros((rows, rows)) for _ in range(5))
    sums = 4 * rows * (rows if left is None else -(-left // 4) * 4)
    return Buffers(
        X, Y, Z, X.reshape(parts, -1), Y.reshape(parts, -1), Z.reshape(parts, -1), np.zeros((parts, 5, stride)),
        np.zeros((parts, sums)), np.zeros((parts, sums)), np.zeros((parts, rows)), np.zeros((parts, 2)), np.zeros((parts, rows, rows)),
        H, G, T, T.reshape(-1), V, V.reshape(-1), J, J.reshape(-1), np.zeros((6, 4 * rows)), np.zeros(rows), np.zeros(rows),
        np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.array([width, blocks, 0]),
    )  # fmt: skip


# --- over a block of parameters ----------------------------------------------------------------------------------------------


@inner
def clear(A, first):
    """0 in all rows from ``first`` on."""
    for i in range(first, A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = 0.0


@inner
def load(A, scale, at, w, X, n):
    """Rows of X from n on = scale · A in the columns from ``at``, then 0 up to a multiple of 4; the number of rows in X then."""
    for r in range(A.shape[0]):
        x, a = X[n + r], A[r, at : at + w]
        for p in range(w):
            x[p] = scale * a[p]
        for p in range(w, (w + 3) // 4 * 4):
            x[p] = 0.0
    return n + A.shape[0]


@inner
def load_weighed(A, scale, u, at, w, X, n):
    """As load, with scale · A Diag(u) in place of scale · A."""
    for r in range(A.shape[0]):
        x, a = X[n + r], A[r, at : at + w]
        for p in range(w):
            x[p] = scale * u[p] * a[p]
    return n + A.shape[0]


@inner
def inverse(Ups, at, w, u):
    """Row 0 of u = 1/Υ."""
    x = Ups[at : at + w]
    for p in range(w):
        u[0, p] = 1.0 / x[p]


@inner
def weigh(X, n, u, w, Y):
    """Y = X Diag(u), and 0 up to a multiple of 4."""
    for i in range(n):
        for p in range(w):
            Y[i, p] = u[p] * X[i, p]
        for p in range(w, (w + 3) // 4 * 4):
            Y[i, p] = 0.0


@inner
def gram(Y, m, X, n, w, stride, H, cols):
    """The vectors H (m, cols) += Y Xᵀ on and above the diagonal: m and n rows of flat blocks, rounded up to multiples of 4 and 3.

    Twelve sums at a time in registers; the four lanes of each are not added up here.
    """
    apart()
    for i in range(0, m, 4):
        for j in range(i // 3 * 3, n, 3):
            s, e, y, x = 4 * (i * cols + j), 4 * cols, i * stride, j * stride
            a0, a1, a2 = load4(H, s), load4(H, s + 4), load4(H, s + 8)
            b0, b1, b2 = load4(H, s + e), load4(H, s + e + 4), load4(H, s + e + 8)
            c0, c1, c2 = load4(H, s + 2 * e), load4(H, s + 2 * e + 4), load4(H, s + 2 * e + 8)
            d0, d1, d2 = load4(H, s + 3 * e), load4(H, s + 3 * e + 4), load4(H, s + 3 * e + 8)
            for p in range(0, w, 4):
                x0, x1, x2 = load4(X, x + p), load4(X, x + stride + p), load4(X, x + 2 * stride + p)
                v = load4(Y, y + p)
                a0, a1, a2 = muladd(a0, v, x0), muladd(a1, v, x1), muladd(a2, v, x2)
                v = load4(Y, y + stride + p)
                b0, b1, b2 = muladd(b0, v, x0), muladd(b1, v, x1), muladd(b2, v, x2)
                v = load4(Y, y + 2 * stride + p)
                c0, c1, c2 = muladd(c0, v, x0), muladd(c1, v, x1), muladd(c2, v, x2)
                v = load4(Y, y + 3 * stride + p)
                d0, d1, d2 = muladd(d0, v, x0), muladd(d1, v, x1), muladd(d2, v, x2)
            store12(H, s, e, a0, a1, a2, b0, b1, b2, c0, c1, c2, d0, d1, d2)


@inner
def combine(V, cols, m, n, X, w, stride, out):
    """out = V X: m rows, rounded up to an even number, w columns, to a multiple of 24, of combinations of n rows; V (m, cols) is flat."""
    apart()
    for p in range(0, w, 24):
        for r in range(0, m, 2):
            a0 = a1 = a2 = a3 = a4 = a5 = b0 = b1 = b2 = b3 = b4 = b5 = fill4(0.0)
            i, x = r * cols, p
            for _ in range(n):
                v, u = spread4(V, i), spread4(V, i + cols)
                y = load4(X, x)
                a0, b0 = muladd(a0, v, y), muladd(b0, u, y)
                y = load4(X, x + 4)
                a1, b1 = muladd(a1, v, y), muladd(b1, u, y)
                y = load4(X, x + 8)
                a2, b2 = muladd(a2, v, y), muladd(b2, u, y)
                y = load4(X, x + 12)
                a3, b3 = muladd(a3, v, y), muladd(b3, u, y)
                y = load4(X, x + 16)
                a4, b4 = muladd(a4, v, y), muladd(b4, u, y)
                y = load4(X, x + 20)
                a5, b5 = muladd(a5, v, y), muladd(b5, u, y)
                i += 1
                x += stride
            at = r * stride + p
            store4(out, at, a0)
            store4(out, at + 4, a1)
            store4(out, at + 8, a2)
            store4(out, at + 12, a3)
            store4(out, at + 16, a4)
            store4(out, at + 20, a5)
            at += stride
            store4(out, at, b0)
            store4(out, at + 4, b1)
            store4(out, at + 8, b2)
            store4(out, at + 12, b3)
            store4(out, at + 16, b4)
            store4(out, at + 20, b5)


@inner
def store12(out, at, stride, a0, a1, a2, b0, b1, b2, c0, c1, c2, d0, d1, d2):
    """Four rows of three vectors."""
    store4(out, at, a0)
    store4(out, at + 4, a1)
    store4(out, at + 8, a2)
    at += stride
    store4(out, at, b0)
    store4(out, at + 4, b1)
    store4(out, at + 8, b2)
    at += stride
    store4(out, at, c0)
    store4(out, at + 4, c1)
    store4(out, at + 8, c2)
    at += stride
    store4(out, at, d0)
    store4(out, at + 4, d1)
    store4(out, at + 8, d2)


@inner
def fold(sums, m, n, H):
    """H (m, n), on and above the diagonal = the sums of all parts, whose vectors are added up and set to 0 for the next time."""
    cols = len(H)
    for i in range(m):
        for j in range(i, n):
            s = 4 * (i * cols + j)
            total = 0.0
            for k in range(len(sums)):
                total += sum4(load4(sums[k], s))
            H[i, j] = total
    for k in range(len(sums)):
        for s in range(sums.shape[1]):
            sums[k, s] = 0.0


@inner
def reflector(A, i, w, T):
    """The Householder step that moves row i of A into T[i, i]: its first entry v (the others are row i) and 2/|·|²."""
    s, a = 0.0, T[i, i]
    for p in range(w):
        s += A[i, p] * A[i, p]
    if s == 0.0:
        return 0.0, 0.0
    size = math.sqrt(a * a + s)
    T[i, i] = -size if a >= 0.0 else size
    return a - T[i, i], 1.0 / (size * (size + abs(a)))


@inner
def triangle(A, n, w, T):
    """The triangular factor of the rows seen so far and these: T Tᵀ gains A Aᵀ, T lower triangular. A is used up.

    Householder steps, two at a time; the one for row i moves entry (i, i) of T and row i of A. Twin of linalg._triangular.
    n is rounded up to an even number: the rows of A and T have room for it.
    """
    for i in range(0, n, 2):
        k = i + 1
        v, c = reflector(A, i, w, T)
        d = 0.0
        for p in range(w):
            d += A[i, p] * A[k, p]
        d = c * (d + v * T[k, i])
        T[k, i] -= d * v
        cross = 0.0
        for p in range(w):
            A[k, p] -= d * A[i, p]
            cross += A[i, p] * A[k, p]
        u, e = reflector(A, k, w, T)
        for j in range(i + 2, n, 2):
            l = j + 1
            a, b, f, g = 0.0, 0.0, 0.0, 0.0
            for p in range(w):
                a += A[i, p] * A[j, p]
                b += A[k, p] * A[j, p]
                f += A[i, p] * A[l, p]
                g += A[k, p] * A[l, p]
            a = c * (a + v * T[j, i])
            b = e * (b + u * T[j, k] - a * cross)
            f = c * (f + v * T[l, i])
            g = e * (g + u * T[l, k] - f * cross)
            T[j, i] -= a * v
            T[j, k] -= b * u
            T[l, i] -= f * v
            T[l, k] -= g * u
            for p in range(w):
                A[j, p] -= a * A[i, p] + b * A[k, p]
                A[l, p] -= f * A[i, p] + g * A[k, p]


# --- small matrices ----------------------------------------------------------------------------------------------------------


@ordered
def cholesky(H, n, L):
    """L = lower factor of I + H, H given above its diagonal; False where I + H is not positive definite."""
    for i in range(n):
        for j in range(i + 1):
            s = H[j, i] + (1.0 if i == j else 0.0)
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                if not (0.0 < s < math.inf):
                    return False
                L[i, i] = math.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return True


@ordered
def solve(L, n, X, first, last):
    """The columns from ``first`` to ``last`` − 1 of X: x = (L Lᵀ)⁻¹ x."""
    for i in range(n):
        x, back = X[i, first:last], 1.0 / L[i, i]
        for k in range(i):
            y, l = X[k, first:last], L[i, k]
            for j in range(len(x)):
                x[j] -= l * y[j]
        for j in range(len(x)):
            x[j] *= back
    for i in range(n - 1, -1, -1):
        x, back = X[i, first:last], 1.0 / L[i, i]
        for k in range(i + 1, n):
            y, l = X[k, first:last], L[k, i]
            for j in range(len(x)):
                x[j] -= l * y[j]
        for j in range(len(x)):
            x[j] *= back


@ordered
def solve_all(L, n, x, cols):
    """All columns of x, flat (·, cols), cols a multiple of 24: x = (L Lᵀ)⁻¹ x."""
    for step in range(2 * n):
        i = step if step < n else 2 * n - 1 - step
        first, last = (0, i) if step < n else (i + 1, n)
        back = fill4(1.0 / L[i, i])
        for at in range(0, cols, 24):
            o, zero = i * cols + at, fill4(0.0)
            a0, a1, a2 = load4(x, o), load4(x, o + 4), load4(x, o + 8)
            a3, a4, a5 = load4(x, o + 12), load4(x, o + 16), load4(x, o + 20)
            for k in range(first, last):
                c, y = fill4(-(L[i, k] if step < n else L[k, i])), k * cols + at
                a0, a1, a2 = muladd(a0, c, load4(x, y)), muladd(a1, c, load4(x, y + 4)), muladd(a2, c, load4(x, y + 8))
                a3, a4, a5 = muladd(a3, c, load4(x, y + 12)), muladd(a4, c, load4(x, y + 16)), muladd(a5, c, load4(x, y + 20))
            store4(x, o, muladd(zero, a0, back))
            store4(x, o + 4, muladd(zero, a1, back))
            store4(x, o + 8, muladd(zero, a2, back))
            store4(x, o + 12, muladd(zero, a3, back))
            store4(x, o + 16, muladd(zero, a4, back))
            store4(x, o + 20, muladd(zero, a5, back))


@ordered
def triangular(A, n, N, shift, U, back):
    """U, upper triangular with 1/``back`` on its diagonal: UᵀU = A − shift, flat with N numbers in a row. Twin of numpy.linalg.cholesky.

    Returns the least part of a diagonal entry that is left beside the rows before it, or −1 where A − shift is not positive definite.
    """
    for i in range(n * N):
        U[i] = A[i]
    least = math.inf
    for k in range(n):
        U[k * N + k] -= shift
    for k in range(n):
        at = k * N
        pivot = U[at + k]
        if not 0.0 < pivot < math.inf:
            return -1.0
        least = min(least, pivot / (A[at + k] - shift))
        back[k] = 1.0 / math.sqrt(pivot)
        c = fill4(back[k])
        for i in range(k // 4 * 4, N, 4):
            store4(U, at + i, muladd(fill4(0.0), c, load4(U, at + i)))
        for l in range(k + 1, n):
            c = fill4(-U[at + l])
            for i in range(l // 4 * 4, N, 4):
                store4(U, l * N + i, muladd(load4(U, l * N + i), c, load4(U, at + i)))
    return least


@ordered
def divide(U, back, n, N, x):
    """x = (UᵀU)⁻¹ x."""
    for k in range(n):
        y = x[k] * back[k]
        x[k] = y
        for i in range(k + 1, n):
            x[i] -= y * U[k * N + i]
    for k in range(n - 1, -1, -1):
        y = x[k]
        for i in range(k + 1, n):
            y -= U[k * N + i] * x[i]
        x[k] = y * back[k]


@ordered
def pivoted(T, n, cols, J, perm):
    """J = the rows of the triangular factor of Tᵀ with its columns in the order perm, in which the diagonal of J descends.

    T is (n, cols), cols ≥ n, and used up.
    """
    for i in range(n):
        perm[i] = i
    for i in range(n):
        best, top = i, -1.0
        for j in range(i, n):
            s = 0.0
            for k in range(i, cols):
                s += T[j, k] * T[j, k]
            if s > top:
                best, top = j, s
        if best != i:
            perm[i], perm[best] = perm[best], perm[i]
            for k in range(cols):
                T[i, k], T[best, k] = T[best, k], T[i, k]
        a, size = T[i, i], math.sqrt(max(top, 0.0))
        if size > 0.0:
            T[i, i] = a + (size if a >= 0.0 else -size)
            scale = 1.0 / (size * (size + abs(a)))
            for j in range(i + 1, n):
                d = 0.0
                for k in range(i, cols):
                    d += T[i, k] * T[j, k]
                for k in range(i, cols):
                    T[j, k] -= scale * d * T[i, k]
            T[i, i] = -size if a >= 0.0 else size
    clear(J, 0)
    for i in range(n):
        for j in range(i, n):
            J[i, j] = T[j, i]


@inner
def square(J, at, n):
    """The square of a row of a flat J, n a multiple of 4; 0 where it is tiny."""
    total = 0.0
    for j in range(at, at + n):
        total += J[j] * J[j]
    return total if total > TINY else 0.0


@ordered
def angles(d, a, b, m, tol, t, c):
    """Tangents and cosines of the turns that make rows with squares a and b and products d orthogonal; t = 0 where they are so already."""
    for i in range(m):
        h = 0.5 * (a[i] - b[i])
        root = math.sqrt(h * h + d[i] * d[i])
        x = h + (root if h >= 0.0 else -root)
        x = d[i] / (x if x != 0.0 else 1.0)
        x = x if d[i] * d[i] > tol * a[i] * b[i] else 0.0
        x = x if a[i] > 0.0 else 0.0
        x = x if b[i] > 0.0 else 0.0
        t[i] = x
        c[i] = 1.0 / math.sqrt(1.0 + x * x)


@ordered
def jacobi(J, n, stride, size, order, pairs):
    """Turn the rows of a flat J until they are orthogonal: row k = σ_k v_k, size = σ². False where that takes too long.

    In rounds of pairs that have no row in common, as in a tournament. Ends with a sweep in which all turns and all cosines were so small
    that what it leaves is below rounding.
    """
    half = (n + 1) // 2
    last, tol, near = 2 * half - 1, 2.0**-104 * n, 2.0**-56  # of squares of cosines
    d, t, c, a, b, sums = pairs[0], pairs[1], pairs[2], pairs[3], pairs[4], pairs[5]
    for i in range(2 * half):
        order[i] = i
    for _ in range(SWEEPS):
        for i in range(n):
            size[i] = square(J, i * stride, stride)
        far = 0
        for _ in range(last):
            for i in range(half):
                x, y, s = order[i] * stride, order[last - i] * stride, fill4(0.0)
                for j in range(0, stride, 4):
                    s = muladd(s, load4(J, x + j), load4(J, y + j))
                store4(sums, 4 * i, s)
                a[i], b[i] = size[order[i]], size[order[last - i]]
            for i in range(half):
                d[i] = (sums[4 * i] + sums[4 * i + 1]) + (sums[4 * i + 2] + sums[4 * i + 3])
            angles(d, a, b, half, tol, t, c)
            for i in range(half):
                if t[i] != 0.0:
                    p, q, up = order[i], order[last - i], t[i] * d[i]
                    x, y = p * stride, q * stride
                    cos, sin, minus, zero = fill4(c[i]), fill4(c[i] * t[i]), fill4(-c[i] * t[i]), fill4(0.0)
                    for j in range(0, stride, 4):
                        u, v = load4(J, x + j), load4(J, y + j)
                        store4(J, x + j, muladd(muladd(zero, cos, u), sin, v))
                        store4(J, y + j, muladd(muladd(zero, cos, v), minus, u))
                    size[p] = a[i] + up if -up < 0.5 * a[i] else square(J, x, stride)
                    size[q] = b[i] - up if up < 0.5 * b[i] else square(J, y, stride)
                    if t[i] * t[i] > near or d[i] * d[i] > near * a[i] * b[i]:
                        far += 1
            z = order[last]
            for i in range(last, 1, -1):
                order[i] = order[i - 1]
            order[1] = z
        if far == 0:
            return True
    return False


@ordered
def directions(n, b):
    """The rows of V = right singular vectors of Tᵀ, by descending singular value, 0 where that is 0. Twin of linalg.svd. T is used up.

    False where T is not finite, or so large or small that squares leave the range of float64.
    """
    T, V, J, size = b.T, b.V, b.J, b.size
    top = 0.0
    for i in range(n):
        for j in range(i + 1):
            if not abs(T[i, j]) < LARGE:
                return False
            top = max(top, abs(T[i, j]))
    clear(V, 0)
    if top < SMALL:
        return top == 0.0
    scale = 2.0 ** -math.floor(math.log2(top))
    for i in range(n):
        for j in range(n):
            T[i, j] = scale * T[i, j] if j <= i else 0.0
    pivoted(T, n, n, J, b.perm)
    if not jacobi(b.j, n, len(J), size, b.order, b.pairs):
        return False
    for k in range(n):
        best = 0
        for i in range(1, n):
            best = i if size[i] > size[best] else best
        if size[best] > 0.0:
            s = 1.0 / math.sqrt(square(b.j, best * len(J), len(J)))
            for j in range(n):
                V[k, b.perm[j]] = s * J[best, j]
        size[best] = -1.0
    return True


@inner
def independent(V, n, b):
    """The first n rows of V become those of its triangular factor, 0 where only rounding is left: VᵀV stays. Twin of numpy.linalg.qr."""
    for i in range(n):
        for j in range(n):
            b.T[i, j] = V[j, i]
    pivoted(b.T, n, n, b.J, b.perm)
    for i in range(n):
        less = abs(b.J[i, i]) <= 2.0**-50 * abs(b.J[0, 0])
        for j in range(n):
            V[i, b.perm[j]] = 0.0 if less else b.J[i, j]


# --- bong and blr ------------------------------------------------------------------------------------------------------------


@inner
def nothing(A):
    """Whether every entry is 0."""
    for r in range(A.shape[0]):
        for p in range(A.shape[1]):
            if A[r, p] != 0.0:
                return False
    return True


@inner
def bring(at, w, W, W0, rows, g, mu0, Ups0, mu, s, X):
    """A block of X: the rows of W, W₀ and S/s₀, n in all, then the pull without what of it is a combination of these n."""
    n = load(rows, 1.0, at, w, X, load(W0, 1.0, at, w, X, load(W, 1.0, at, w, X, 0)))
    times = 0.0 if s[2] != 0.0 and len(mu0) == 0 else s[1]
    for p in range(w):
        X[n, p] = times * g[at + p]
    for p in range(w, (w + 3) // 4 * 4):
        X[n, p] = 0.0
    if len(mu0) > 0:
        for p in range(w):
            X[n, p] += Ups0[at + p] * (mu0[at + p] - mu[at + p])
    return n


@inner
def mix(at, w, alpha, mu0, Ups0, mu, Ups, X, dots):
    """A block of Υ becomes (1 − α) Υ + α Υ₀; ``dots`` gains W₀ᵀ(μ₀ − μ), W₀ in the rows of X."""
    for p in range(w):
        Ups[at + p] = (1.0 - alpha) * Ups[at + p] + alpha * Ups0[at + p]
    for r in range(len(X)):
        total, x = 0.0, X[r]
        for p in range(w):
            total += x[p] * (mu0[at + p] - mu[at + p])
        dots[r] += total


@inner
def settle(Z, g, R, n, at, w, rate, mu, Ups, out):
    """A block of the new state from Z: R rows of W, then those that W loses, then what the pull has beside g."""
    wrong, m, u = 0.0, mu[at : at + w], Ups[at : at + w]
    for r in range(R):
        o = out[r, at : at + w]
        for p in range(w):
            o[p] = Z[r, p]
    for p in range(w):
        m[p] += rate * (g[p] + Z[n, p]) / u[p]
        wrong += 0.0 * m[p]
    for k in range(R, n):
        for p in range(w):
            u[p] += Z[k, p] * Z[k, p]
    for p in range(w):
        wrong += 0.0 * u[p]
    return wrong


@inner
def absorb_part(kind, k, W, W0, rows, g, mu0, Ups0, mu, Ups, s, alpha, b):
    """Part k of one of the three jobs of :func:`absorb`: the Gram matrices, the triangular factor, the new state."""
    apart()
    width, blocks, stride, X, Y, Z, u = b.shape[0], b.shape[1], b.X.shape[2], b.X[k], b.Y[k], b.Z[k], b.u[k]
    P, R, wrong, first = len(mu), len(W), 0.0, k * b.shape[0] * b.shape[1]
    if kind == MEASURE:
        for r in range(len(W0)):
            b.dots[k, r] = 0.0
    for at in range(first, min(P, first + width * blocks), width):
        w = min(width, P - at)
        n = bring(at, w, W, W0, rows, g, mu0, Ups0, mu, s, X)
        if kind == MEASURE:
            if len(mu0) > 0:
                mix(at, w, alpha, mu0, Ups0, mu, Ups, X[R : R + len(W0)], b.dots[k])
            inverse(Ups, at, w, u)
            weigh(X, n, u[0], w, Y)
            gram(b.y[k], n, b.x[k], n + 1, w, stride, b.h[k], len(b.H))
            if len(W0) == 0:
                gram(b.x[k], n, b.x[k], n, w, stride, b.g[k], len(b.H))
        elif kind == TRIANGLE:
            clear(X, n)
            triangle(X, n, w, b.L[k])
        else:
            combine(b.v, len(b.V), n + 1, n, b.x[k], w, stride, b.z[k])
            wrong += settle(Z, X[n], R, n, at, w, alpha, mu, Ups, W)
    b.wrong[k, 0] = wrong


@inner
def woodbury(n, R, s, shared, b):
    """Column n of H = (I + W̃ᵀΥ⁻¹W̃)⁻¹W̃ᵀΥ⁻¹ pull, from the sums of all parts; the dots are added up in the first part's.

    The pull is row n of X, s₁ · row n − 1 where that serves for both, and the dots · W₀, the rows from R on.
    """
    H, d, dots = b.H, b.scale, b.dots[0]
    fold(b.h, n, n + 1, H)
    fold(b.g, n, n, b.G)
    for k in range(1, len(b.dots)):
        for r in range(len(dots)):
            dots[r] += b.dots[k, r]
    for i in range(n):
        total = s[1] * H[i, n - 1] if shared else H[i, n]
        for r in range(min(len(dots), n - R)):
            total += dots[r] * H[min(i, R + r), max(i, R + r)]
        H[i, n] = d[i] * total
    for i in range(n):
        for j in range(i, n):
            H[i, j] *= d[i] * d[j]
    if not cholesky(H, n, b.J):
        return False
    solve(b.J, n, H, n, n + 1)
    return True


@ordered
def root(n, G, d, T):
    """T = the triangular factor of W̃ by Cholesky from G = XXᵀ, W̃ = Diag(d) X. False where that would lose digits.

    A row of which a tenth is left beside the rows before it (a hundredth of its square) costs one digit of that row.
    """
    for i in range(n):
        size = G[i, i]
        if not (size == 0.0 or SMALL * SMALL < size * d[i] * d[i] < LARGE * LARGE):
            return False
        for j in range(i + 1):
            total = G[j, i]
            for k in range(j):
                total -= T[i, k] * T[j, k]
            if i != j:
                T[i, j] = total / T[j, j] if T[j, j] > 0.0 else 0.0
            elif size == 0.0:
                T[i, i] = 0.0
            elif total > 0.01 * size:
                T[i, i] = math.sqrt(total)
            else:
                return False
    for i in range(n):
        for j in range(i + 1):
            T[i, j] *= d[i]
    return True


@inner
def merge(n, b):
    """T = the triangular factor of W̃ from those of the parts of X."""
    clear(b.T, 0)
    for k in range(len(b.L)):
        clear(b.X[0], 0)
        for i in range(n):
            for j in range(i + 1):
                b.X[0, i, j] = b.scale[i] * b.L[k, i, j]
        clear(b.L[k], 0)
        triangle(b.X[0], n, n, b.T)


@inner
def finish(n, R, s, shared, b):
    """V = the combinations of the rows of X that are the new W, what it loses and, last, what the pull has along X. False: not here."""
    if not directions(n, b):
        return False
    for i in range(n):
        for k in range(n):
            b.V[k, i] *= b.scale[i]
        b.V[n, i] = -b.H[i, n] * b.scale[i]
    if shared:
        b.V[n, n - 1] += s[1]
    for r in range(min(len(b.dots[0]), n - R)):
        b.V[n, R + r] += b.dots[0, r]
    return True


@inlined
def absorb(jobs, task, W, W0, rows, c, c0, s, b, board):
    """μ += rate (Υ + W̃W̃ᵀ)⁻¹ pull, then Υ + W̃W̃ᵀ projected to the rank of W, W̃ = [c W, c₀ W₀, s₀ rows], in place.

    Twin of the Woodbury solve and of dlr.project in dlr.bong_woodbury and dlr.blr_woodbury. Reads W̃ twice, or three times where the
    triangular factor does not come from a Gram matrix. The pull is s₁ g, for blr with what pulls to the prior; s₂ = 1 where g is the only
    row, too.
    """
    R, n, shared = len(W), len(W) + len(W0) + len(rows), len(W0) == 0 and s[2] != 0.0
    for i in range(n):
        b.scale[i] = c if i < R else (c0 if i < n - len(rows) else s[0])
    jobs(MEASURE, task, b, board)
    code = OK if woodbury(n, R if len(W0) > 0 else n, s, shared, b) else LOST
    if code == OK:
        if len(W0) > 0 or not root(n, b.G, b.scale, b.T):  # W and W₀ have nearly the same rows
            jobs(TRIANGLE, task, b, board)
            merge(n, b)
        if not finish(n, R if len(W0) > 0 else n, s, shared, b):
            code = ELSEWHERE
        elif nothing(b.V[:n]) and not (nothing(W) and nothing(W0) and nothing(rows)):
            code = ELSEWHERE
    if code == OK:
        jobs(SETTLE, task, b, board)
        wrong = 0.0
        for k in range(len(b.wrong)):
            wrong += b.wrong[k, 0]
        code = OK if wrong == 0.0 else LOST
    return code


# --- bog and bbb -------------------------------------------------------------------------------------------------------------


@inner
def advance(at, w, rate, s, mu, Ups):
    """A block of the new mean, μ + rate · s, beside the new Υ. (wrong, below) as in verdict."""
    wrong, below, m, u = 0.0, 0, mu[at : at + w], Ups[at : at + w]
    for p in range(w):
        m[p] += rate * s[p]
        wrong += 0.0 * (m[p] + u[p])
        below += 0 if u[p] > 0.0 else 1
    return wrong, below


@inner
def add_rows(E, R, at, w, Wt):
    """A block of W gains the rows of E; 0 where the result is finite."""
    wrong = 0.0
    for r in range(R):
        o = Wt[r, at : at + w]
        for p in range(w):
            o[p] += E[r, p]
            wrong += 0.0 * o[p]
    return wrong


@inner
def verdict(b, R):
    """The code of a new iterate: LOST where something is not finite or too many Υ are not positive."""
    wrong, below = 0.0, 0.0
    for k in range(len(b.wrong)):
        wrong += b.wrong[k, 0]
        below += b.wrong[k, 1]
    if wrong != 0.0 or below > R:
        return LOST
    return ELSEWHERE if below > 0 else OK


@inner
def bog_part(kind, k, Wt, rows, g, mu, Ups, s, alpha, b):
    """Part k of one of the two jobs of :func:`bog_step`: the Gram matrix, the new state."""
    apart()
    width, blocks, stride, X, Y, Z, u = b.shape[0], b.shape[1], b.X.shape[2], b.X[k], b.Y[k], b.Z[k], b.u[k]
    P, R, cols, wrong, below, first = len(mu), len(Wt), len(b.H), 0.0, 0, k * b.shape[0] * b.shape[1]
    K = len(rows)
    for at in range(first, min(P, first + width * blocks), width):
        w = min(width, P - at)
        inverse(Ups, at, w, u)
        load(Wt, 1.0, at, w, X, 0)
        if kind == MEASURE:
            load(rows, s[0], at, w, X, R)
            weigh(X, R, u[0], w, Y)
            gram(b.y[k], R, b.x[k], R + K, w, stride, b.h[k], cols)
        else:
            combine(b.j, cols, K, R, b.x[k], w, stride, b.y[k])
            new = Ups[at : at + w]
            for i in range(K):
                x = rows[i, at : at + w]
                for p in range(w):
                    z = u[0, p] * (s[0] * x[p] + Y[i, p])
                    Z[i, p] = z
                    new[p] += 0.5 * alpha * z * z
            more = advance(at, w, alpha * s[1], g[at : at + w], mu, Ups)
            below += more[1]
            wrong += more[0]
            combine(b.v, cols, R, K, b.z[k], w, stride, b.y[k])
            wrong += add_rows(Y, R, at, w, Wt)
    b.wrong[k, 0] = wrong
    b.wrong[k, 1] = below


@inlined
def bog_step(jobs, task, R, K, alpha, b, board):
    """One step of BOG, in place. Twin of dlr.bog_woodbury, with WᵀB = C = (I + WᵀΥ⁻¹W)⁻¹WᵀΥ⁻¹S."""
    jobs(MEASURE, task, b, board)
    fold(b.h, R, R + K, b.H)
    if not cholesky(b.H, R, b.T):
        return LOST
    solve(b.T, R, b.H, R, R + K)
    for i in range(K):  # J = −Cᵀ, V = α C
        for r in range(R):
            b.V[r, i] = alpha * b.H[r, R + i]
            b.J[i, r] = -b.H[r, R + i]
    jobs(SETTLE, task, b, board)
    return verdict(b, R)


@inner
def bbb_small(R, n, alpha, H, N, L, F, h, f):
    """The coefficients of :func:`bbb_step`, from H = Aᵀ[W, W₀, S] and N, both without what is below the diagonal, and the factor L of M.

    h and f are H and F, flat.
    Rows of F: M⁻¹, −WᵀΣW₀ and −WᵀΣS transposed; in the place of H: −α (M⁻¹N + WᵀΣW), α WᵀΣW₀ and α WᵀΣS; N loses the identity, and what
    is below its diagonal goes to what is above.
    """
    clear(F, 0)
    for r in range(R):
        for k in range(r):
            H[r, k], N[r, k] = H[k, r], N[k, r]
    for r in range(R):
        for k in range(R):
            F[r, R + k] = N[r, k]
        F[r, r] = 1.0
        N[r, r] -= 1.0
    solve_all(L, R, f, F.shape[1])
    solve_all(L, R, h, H.shape[1])
    for r in range(R):
        for k in range(R):
            H[r, k] = -alpha * (F[r, R + k] + H[r, k])
            F[r, R + k] = 0.0
        for k in range(r):
            N[k, r], N[r, k] = 2.0 * N[k, r], 0.0
        for j in range(R, n):
            F[j, r] = -H[r, j]
            H[r, j] *= alpha


@inner
def fall(Ups0, Ups, at, w, u):
    """Row 1 of u = (Υ₀ − Υ)/Υ; row 0 is 1/Υ."""
    x0, x, f, v = Ups0[at : at + w], Ups[at : at + w], u[1], u[0]
    for p in range(w):
        f[p] = (x0[p] - x[p]) * v[p]


@inner
def weigh_twice(X, n, u, w, Y, Z):
    """Y = X Diag(u₀), Z = X Diag(u₁), and 0 up to a multiple of 4."""
    v, f = u[0], u[1]
    for i in range(n):
        x, y, z = X[i], Y[i], Z[i]
        for p in range(w):
            y[p], z[p] = v[p] * x[p], f[p] * x[p]
        for p in range(w, (w + 3) // 4 * 4):
            y[p] = z[p] = 0.0


@inner
def add_weighed(Y, Z, u, f, alpha, R, at, w, Wt):
    """A block of W gains the rows of (Y + α Z Diag(f)) Diag(u), u and f as :func:`fall` has them; 0 where the result is finite."""
    wrong = 0.0
    for r in range(R):
        o, y, z = Wt[r, at : at + w], Y[r], Z[r]
        for p in range(w):
            o[p] += u[p] * (y[p] + alpha * f[p] * z[p])
        for p in range(w):
            wrong += 0.0 * o[p]
    return wrong


@inner
def bbb_part(kind, k, mu0, Ups0, W0, mu, Ups, Wt, rows, g, s, alpha, b):
    """Part k of one of the two jobs of :func:`bbb_step`: the Gram matrices, the new state."""
    apart()
    width, blocks, stride, X, Y, Z, u = b.shape[0], b.shape[1], b.X.shape[2], b.X[k], b.Y[k], b.Z[k], b.u[k]
    P, R, cols, wrong, below, first = len(mu), len(Wt), len(b.H), 0.0, 0, k * b.shape[0] * b.shape[1]
    n = 2 * R + len(rows)
    for at in range(first, min(P, first + width * blocks), width):
        w = min(width, P - at)
        inverse(Ups, at, w, u)
        fall(Ups0, Ups, at, w, u)
        if kind == MEASURE or blocks > 1:  # a single block is still there
            load(rows, s[0], at, w, X, load(W0, 1.0, at, w, X, load(Wt, 1.0, at, w, X, 0)))
        if kind == MEASURE:
            weigh_twice(X, R, u, w, Y, Z)
            gram(b.z[k], R, b.y[k], R, w, stride, b.g[k], cols)
            for p in range(w):
                Y[R, p] = mu0[at + p] - mu[at + p]
            for p in range(w, (w + 3) // 4 * 4):
                Y[R, p] = 0.0
            gram(b.y[k], R + 1, b.x[k], n, w, stride, b.h[k], cols)
        else:
            pulled(b.x[k], stride, b.size, R, at, w, mu0, Ups0, mu, g, s[1], u[2])
            for p in range(0, w, PANEL):
                x, v = b.x[k, p:], min(PANEL, w - p)
                combine(b.v, cols, n, R, x, v, stride, b.z[k])  # Υ ΣW, then what Υ ΣW₀ and Υ ΣS differ by from W₀ and S
                for r in range(0, R, 2):
                    combine(b.t[r * (cols + 1) :], cols, 2, R - r, b.z[k, r * stride :], v, stride, b.y[k, r * stride :])
                curve(x, b.y[k], b.z[k], stride, R, n, u[0, p:], u[1, p:], u[3], u[4], v, 0.5 * alpha, Ups[at + p : at + p + v])
                combine(b.j, cols, R, n, b.z[k], v, stride, b.y[k])
                wrong += add_weighed(Y, Z, u[0, p:], u[1, p:], alpha, R, at + p, v, Wt)
            more = advance(at, w, alpha, u[2], mu, Ups)
            wrong += more[0]
            below += more[1]
    b.wrong[k, 0] = wrong
    b.wrong[k, 1] = below


@inlined
def bbb_step(jobs, task, R, K, alpha, b, board):
    """One iteration of BBB, in place. Twin of dlr.bbb_woodbury.

    With A = Υ⁻¹W, M = I + WᵀA, a = Υ₀ − Υ and N = Aᵀ Diag(a) A: ΣW = AM⁻¹, ΣX = Υ⁻¹X − A C with C = M⁻¹AᵀX = WᵀΣX for X = W₀ and S,
    WᵀΣW = M⁻¹(M − I), and ΣDiag(a)ΣW = aΥ⁻¹ΣW − ΣW N M⁻¹. So one reading of the state gives all small matrices, one more the step, or
    none where a part of the parameters is one block.
    """
    n = 2 * R + K
    jobs(MEASURE, task, b, board)
    fold(b.h, R + 1, n, b.J)
    fold(b.g, R, R, b.T)
    if not cholesky(b.J, R, b.G):
        return LOST
    for r in range(R):
        if b.J[r, r] > BEYOND:
            return ELSEWHERE
        b.size[r] = b.J[R, R + r]  # W₀ᵀ(μ₀ − μ)
    bbb_small(R, n, alpha, b.J, b.T, b.G, b.V, b.j, b.v)
    jobs(SETTLE, task, b, board)
    return verdict(b, R)


@inner
def pulled(X, stride, s, R, at, w, mu0, Ups0, mu, g, times, pull):
    """pull = (Υ₀ + W₀W₀ᵀ)(μ₀ − μ) + times · g in a block, s = W₀ᵀ(μ₀ − μ), W₀ in the rows of X from R on. Twin of dlr._pull."""
    for p in range(0, w, 8):
        a = b = fill4(0.0)
        for r in range(R):
            c, x = spread4(s, r), (R + r) * stride + p
            a, b = muladd(a, c, load4(X, x)), muladd(b, c, load4(X, x + 4))
        store4(pull, p, a)
        store4(pull, p + 4, b)
    m0, u0, m, more = mu0[at : at + w], Ups0[at : at + w], mu[at : at + w], g[at : at + w]
    for p in range(w):
        pull[p] += u0[p] * (m0[p] - m[p]) + times * more[p]


@inner
def curve(X, Y, Z, stride, R, n, u, f, more, cross, w, half, Ups):
    """Υ gains half of diag(ΣDiag(a)Σ) − diag(ΣWWᵀΣ), then Υ ΣW₀ and Υ ΣS are completed and Υ gains half of the squares of ΣW₀ and ΣS."""
    one = fill4(1.0)
    for p in range(0, w, 12):
        a0 = a1 = a2 = b0 = b1 = b2 = fill4(0.0)
        for x in range(p, R * stride, stride):
            z0, z1, z2 = load4(Z, x), load4(Z, x + 4), load4(Z, x + 8)
            a0, a1, a2 = muladd(a0, z0, load4(Y, x)), muladd(a1, z1, load4(Y, x + 4)), muladd(a2, z2, load4(Y, x + 8))
            b0, b1, b2 = muladd(b0, z0, load4(X, x)), muladd(b1, z1, load4(X, x + 4)), muladd(b2, z2, load4(X, x + 8))
        for x in range(R * stride + p, n * stride, stride):
            z0, z1 = muladd(load4(Z, x), one, load4(X, x)), muladd(load4(Z, x + 4), one, load4(X, x + 4))
            z2 = muladd(load4(Z, x + 8), one, load4(X, x + 8))
            store4(Z, x, z0)
            store4(Z, x + 4, z1)
            store4(Z, x + 8, z2)
            a0, a1, a2 = muladd(a0, z0, z0), muladd(a1, z1, z1), muladd(a2, z2, z2)
        store4(more, p, a0)
        store4(more, p + 4, a1)
        store4(more, p + 8, a2)
        store4(cross, p, b0)
        store4(cross, p + 4, b1)
        store4(cross, p + 8, b2)
    for p in range(w):
        Ups[p] += half * u[p] * (f[p] + u[p] * (more[p] - 2.0 * f[p] * cross[p]))


# --- blr with one row in S ---------------------------------------------------------------------------------------------------


@pack
class Thin(NamedTuple):
    """What the inner loop of BLR keeps where S has one row, n_iter ≤ R: all its W are combinations of W₀ and of the rows of S so far.

    The basis has orthonormal rows: those of Wt, then those of ``more``. W = C · basis, W₀ = C₀ · basis.
    """

    more: Any  # (n_iter, P)
    C: Any  # (rows, rows), all coefficients of W̃ and then, in its first R rows, those of W
    c: Any  # the same, flat
    C0: Any  # (R, rows)
    h: Any  # (rows,) coefficients of the new row in the basis; those that are to be taken from it; of the pull
    less: Any
    pull: Any
    at: Any  # rows of the basis without the new one; the row of ``rows`` of which it is made; what 1 is divided by to get its norm


def thin(R, P, n_iter, rows):
    """Room for :class:`Thin`."""
    C = np.zeros((rows, rows))
    h, less, pull = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    return Thin(np.empty((n_iter, P)), C, C.reshape(-1), np.zeros((R, rows)), h, less, pull, np.zeros(2))


@inner
def against(A, n, at, w, r, dots, first):
    """dots from ``first`` on gain the products of n rows of A with a block r."""
    for i in range(n):
        dots[first + i] += total(A[i, at : at + w], r)


@inner
def subtract(A, n, at, w, h, first, r):
    """A block r loses the rows of A, h times."""
    for i in range(n):
        a, c = A[i, at : at + w], h[first + i]
        for p in range(w):
            r[p] -= c * a[p]


@inner
def basis_block(m, at, w, Wt, more, X):
    """The first m rows of the basis in X."""
    R = min(m, len(Wt))
    load(more[: m - R], 1.0, at, w, X, load(Wt[:R], 1.0, at, w, X, 0))


@inner
def thin_part(kind, k, Wt, j, mu0, Ups0, mu, Ups, s, alpha, e, b):
    """Part k of one of the jobs of :func:`thin_step`, :func:`thin_begin` and :func:`thin_end`."""
    apart()
    width, blocks, stride, X, Y, Z, u = b.shape[0], b.shape[1], b.X.shape[2], b.X[k], b.Y[k], b.Z[k], b.u[k]
    P, R, cols, first, m = len(mu), len(Wt), len(b.H), k * b.shape[0] * b.shape[1], int(e.at[0])
    dots, square, wrong, M, fresh = b.dots[k], 0.0, 0.0, m + 1, e.more[min(max(0, m - R), len(e.more) - 1)]
    if kind == PRODUCTS or kind == CLEAN or kind == MEASURE:
        for i in range(M):
            dots[i] = 0.0
    for at in range(first, min(P, first + width * blocks), width):
        w = min(width, P - at)
        r = fresh[at : at + w]
        if kind == GRAM:
            load(Wt, 1.0, at, w, X, 0)
            gram(b.x[k], R, b.x[k], R, w, stride, b.g[k], cols)
        elif kind == UNIT:
            for i in range(R):
                row = Wt[i, at : at + w]
                for p in range(w):
                    row[p] *= e.h[i]
        elif kind == WRITE:
            basis_block(m, at, w, Wt, e.more, X)
            combine(e.c, cols, R, m, b.x[k], w, stride, b.z[k])
            for i in range(R):
                row = Wt[i, at : at + w]
                for p in range(w):
                    row[p] = Z[i, p]
                    wrong += 0.0 * row[p]
        elif kind == PRODUCTS or kind == CLEAN:
            if kind == PRODUCTS:
                for p in range(w):
                    r[p] = j[at + p]
            else:
                subtract(Wt, R, at, w, e.less, 0, r)
                subtract(e.more, m - R, at, w, e.less, R, r)
            against(Wt, R, at, w, r, dots, 0)
            against(e.more, m - R, at, w, r, dots, R)
            for p in range(w):
                square += r[p] * r[p]
        else:
            if kind == MEASURE:
                subtract(Wt, R, at, w, e.less, 0, r)
                subtract(e.more, m - R, at, w, e.less, R, r)
                for p in range(w):
                    square += r[p] * r[p]
                    Ups[at + p] = (1.0 - alpha) * Ups[at + p] + alpha * Ups0[at + p]
            basis_block(M, at, w, Wt, e.more, X)
            for p in range(w):
                X[M, p] = Ups0[at + p] * (mu0[at + p] - mu[at + p]) + s[1] * j[at + p]
            if kind == MEASURE:
                inverse(Ups, at, w, u)
                weigh(X, M, u[0], w, Y)
                gram(b.y[k], M, b.x[k], M + 1, w, stride, b.h[k], cols)
                for p in range(w):
                    u[1, p] = mu0[at + p] - mu[at + p]
                for i in range(M):
                    dots[i] += total(X[i, :w], u[1, :w])
            else:
                combine(b.v, cols, M - R + 1, M, b.x[k], w, stride, b.z[k])
                wrong += settle(Z, X[M], 0, M - R, at, w, alpha, mu, Ups, Wt)
                for p in range(w):
                    r[p] *= e.at[1]
    b.wrong[k, 0] = wrong
    b.wrong[k, 1] = square


@inner
def gather(n, b):
    """The first part's dots = those of all parts, and the square that goes with them."""
    square = b.wrong[0, 1]
    for k in range(1, len(b.dots)):
        square += b.wrong[k, 1]
        for i in range(n):
            b.dots[0, i] += b.dots[k, i]
    return square


@inner
def total(x, y):
    """Σ x y."""
    s = 0.0
    for p in range(len(x)):
        s += x[p] * y[p]
    return s


@inner
def orthonormal(W, C):
    """The rows of W become orthonormal, or 0 where they are combinations of those before; W was C W. Twin of numpy.linalg.qr."""
    for i in range(len(W)):
        a, start = W[i], total(W[i], W[i])
        size = start
        for _ in range(4):
            for k in range(i):
                q = W[k]
                h = total(q, a)
                C[i, k] += h
                for p in range(len(a)):
                    a[p] -= h * q[p]
            before, size = size, total(a, a)
            if size > 0.25 * before or size <= NOISE * start:
                break
        C[i, i] = math.sqrt(size) if size > NOISE * start else 0.0
        for p in range(len(a)):
            a[p] = a[p] / C[i, i] if C[i, i] > 0.0 else 0.0


@inlined
def thin_begin(jobs, task, Wt, e, b, board):
    """The basis and the coefficients of the prior; the rows of W are orthogonal after a projection, and only that is quick."""
    R, neat = len(Wt), True
    clear(e.C, 0)
    clear(e.C0, 0)
    jobs(GRAM, task, b, board)
    fold(b.g, R, R, b.G)
    for i in range(R):
        for k in range(i):
            neat = neat and b.G[k, i] * b.G[k, i] <= NEAT * b.G[i, i] * b.G[k, k]
        if not b.G[i, i] < LARGE * LARGE:
            return ELSEWHERE
    if neat:
        for i in range(R):
            e.C0[i, i] = math.sqrt(b.G[i, i])
            e.h[i] = 1.0 / e.C0[i, i] if b.G[i, i] > TINY else 0.0
        jobs(UNIT, task, b, board)
    else:
        orthonormal(Wt, e.C0)
    for i in range(R):
        for k in range(R):
            e.C[i, k] = e.C0[i, k]
    e.at[0] = R
    return OK


@inner
def thin_small(M, R, alpha, s, size, square, e, b):
    """From the products of a step to the new coefficients C and V: the rows that W loses, then what the pull has along the basis."""
    C, C0, H, T, V, dots, m, L = e.C, e.C0, b.H, b.T, b.V, b.dots[0], M - 1, M - R
    e.at[1] = 1.0 / math.sqrt(square) if square > NOISE * size else 0.0
    e.h[m] = math.sqrt(square) if square > NOISE * size else 0.0
    fold(b.h, M, M + 1, H)
    for i in range(M):
        H[i, m] *= e.at[1]
    H[m, m] *= e.at[1]
    H[m, M] *= e.at[1]
    dots[m] *= e.at[1]
    left, root, top = math.sqrt(1.0 - alpha), math.sqrt(alpha), 0.0
    for i in range(M):
        for r in range(R):
            T[i, r] = left * C[r, i]
            T[i, R + r] = root * C0[r, i]
        T[i, 2 * R] = root * s[0] * e.h[i]
        for k in range(2 * R + 1):
            top = max(top, abs(T[i, k])) if abs(T[i, k]) < LARGE else math.inf
    if not top < LARGE or (top < SMALL and top != 0.0):
        return ELSEWHERE
    scale = 2.0 ** -math.floor(math.log2(top)) if top > 0.0 else 1.0
    for i in range(M):
        for k in range(2 * R + 1):
            T[i, k] *= scale
    pivoted(T, M, 2 * R + 1, b.J, b.perm)
    if not jacobi(b.j, M, len(b.J), b.size, b.order, b.pairs):
        return ELSEWHERE
    for k in range(M):
        best = 0
        for i in range(1, M):
            best = i if b.size[i] > b.size[best] else best
        b.size[best] = -1.0
        for i in range(M):
            C[k, b.perm[i]] = b.J[best, i] / scale
    for i in range(M):
        e.pull[i] = 0.0
        for k in range(i):
            H[i, k] = H[k, i]
    for r in range(R):
        y = total(C0[r, :R], dots[:R])
        for i in range(R):
            e.pull[i] += y * C0[r, i]
    for i in range(M):
        H[i, M] += total(H[i, :R], e.pull[:R])
        for k in range(M + 1):
            T[i, k] = H[i, k]
    combine(e.c, len(H), M, M, b.t, M + 1, len(H), b.j)
    for i in range(M):
        e.less[i] = b.J[i, M]
        for k in range(M):
            T[i, k] = C[k, i]
    combine(b.j, len(H), M, M, b.t, M, len(H), b.v)  # C H Cᵀ
    if not triangular(b.v, M, len(H), -1.0, b.t, b.size) > 0.0:
        return LOST
    divide(b.t, b.size, M, len(H), e.less)
    for k in range(M):
        y = e.less[k]
        for i in range(M):
            e.pull[i] -= C[k, i] * y
    for i in range(M):
        times = e.at[1] if i == m else 1.0
        for l in range(L):
            V[l, i] = times * C[R + l, i]
        V[L, i] = times * e.pull[i]
    return OK


@inlined
def thin_step(jobs, task, R, alpha, s, e, b, board):
    """One iteration of BLR in the coefficients of the basis, which gains a row. Twin of dlr.blr_woodbury.

    With W̃ = M · basis, the rows of W̃ Vᵀ for the SVD of M are those of the projection: no tall factorisation beyond the new row. It is
    made orthogonal to the others twice.
    """
    m = int(e.at[0])
    jobs(PRODUCTS, task, b, board)
    size = square = gather(m, b)
    for i in range(m):
        e.h[i] = e.less[i] = b.dots[0, i]
    for _ in range(4):
        jobs(CLEAN, task, b, board)
        square, more = gather(m, b), 0.0
        for i in range(m):
            e.less[i] = b.dots[0, i]
            e.h[i] += e.less[i]
            more += e.less[i] * e.less[i]
        if not more > 0.25 * square or square <= NOISE * size:
            break
    jobs(MEASURE, task, b, board)
    square = gather(m + 1, b)
    code = thin_small(m + 1, R, alpha, s, size, square, e, b)
    if code == OK:
        jobs(SETTLE, task, b, board)
        code = verdict(b, R)
        e.at[0] = m + 1
    return code


@inlined
def thin_end(jobs, task, R, b, board):
    """W from its coefficients."""
    jobs(WRITE, task, b, board)
    return verdict(b, R)


# --- dynamics ----------------------------------------------------------------------------------------------------------------


@inner
def predict_step(mu, Ups, Wt, f, c, q, b):
    """The prior of the next step, in place, for mean f μ + c and variance q. Twin of dynamics._predict_dlr."""
    P, R, width, stride, cols, some, odd = len(mu), Wt.shape[0], b.shape[0], b.X.shape[2], len(b.H), 0, 0
    X, Y, weights = b.X[0], b.Y[0], b.u[0, 0]
    for at in range(0, P, width):
        w = min(width, P - at)
        u, fi, qi = Ups[at : at + w], f[at : at + w], q[at : at + w]
        for p in range(w):
            weights[p] = qi[p] / (fi[p] * fi[p] + qi[p] * u[p])
            some += 0 if fi[p] == 0.0 else 1
            odd += 1 if fi[p] == 0.0 and qi[p] == 0.0 else 0
        load(Wt, 1.0, at, w, X, 0)
        weigh(X, R, weights, w, Y)
        gram(b.y[0], R, b.x[0], R, w, stride, b.h[0], cols)
    fold(b.h, R, R, b.H)
    if odd > 0 or some == 0 or not cholesky(b.H, R, b.J):
        return ELSEWHERE
    clear(b.V, 0)
    for k in range(R):  # V = the inverse of the lower factor
        for i in range(k, R):
            s = 1.0 if i == k else 0.0
            for j in range(k, i):
                s -= b.J[i, j] * b.V[j, k]
            b.V[i, k] = s / b.J[i, i]
    wrong, below = 0.0, 0
    for at in range(0, P, width):
        w = min(width, P - at)
        m, u, fi, ci, qi = mu[at : at + w], Ups[at : at + w], f[at : at + w], c[at : at + w], q[at : at + w]
        for p in range(w):
            n = fi[p] * fi[p] + qi[p] * u[p]
            weights[p] = fi[p] / n
            m[p] = fi[p] * m[p] + ci[p]
            u[p] /= n
            wrong += 0.0 * (m[p] + u[p])
            below += 0 if u[p] > 0.0 else 1
        load_weighed(Wt, 1.0, weights, at, w, X, 0)
        combine(b.v, cols, R, R, b.x[0], w, stride, b.y[0])
        for r in range(R):
            o = Wt[r, at : at + w]
            for p in range(w):
                o[p] = Y[r, p]
                wrong += 0.0 * o[p]
    return OK if wrong == 0.0 and below == 0 else ELSEWHERE


# --- entry points on arrays ----------------------------------------------------------------------------------------------------


@inner
def absorb_alone(kind, task, b, board):
    """A job of :func:`absorb` by one thread."""
    absorb_part(kind, 0, *task, b)


@inner
def bog_alone(kind, task, b, board):
    """A job of :func:`bog_step` by one thread."""
    bog_part(kind, 0, *task, b)


@inner
def bbb_alone(kind, task, b, board):
    """A job of :func:`bbb_step` by one thread."""
    bbb_part(kind, 0, *task, b)


@kernel
def _absorb(mu0, Ups0, W0, mu, Ups, Wt, g, rows, s, alpha, b):
    c, c0 = (math.sqrt(1.0 - alpha), math.sqrt(alpha)) if len(mu0) > 0 else (1.0, 1.0)
    s[0] *= c0
    return absorb(absorb_alone, (Wt, W0, rows, g, mu0, Ups0, mu, Ups, s, alpha), Wt, W0, rows, c, c0, s, b, None)


@kernel
def _bog(mu, Ups, Wt, g, rows, s, alpha, b):
    return bog_step(bog_alone, (Wt, rows, g, mu, Ups, s, alpha), len(Wt), len(rows), alpha, b, None)


@kernel
def _bbb(mu0, Ups0, W0, mu, Ups, Wt, g, rows, s, alpha, b):
    return bbb_step(bbb_alone, (mu0, Ups0, W0, mu, Ups, Wt, rows, g, s, alpha), len(Wt), len(rows), alpha, b, None)


@kernel
def _predict(mu, Ups, Wt, f, c, q, b):
    return predict_step(mu, Ups, Wt, f, c, q, b)


def _uncounted(fn: Any) -> Any:
    """A function whose arguments come in tuples, so that their number is not seen before it is called."""
    return fn


def _plain() -> Any:
    """The factors of S and g, which are given as they are."""
    return np.array([1.0, 1.0, 0.0])


def bong_arrays(mu, Ups, Wt, g, rows):
    """Twin of dlr.bong_woodbury, in place; returns the code."""
    none = np.zeros(0)
    return _absorb(none, none, Wt[:0], mu, Ups, Wt, g, rows, _plain(), 1.0, buffers(len(Wt) + len(rows), len(mu)))


@_uncounted
def blr_arrays(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha):
    """Twin of dlr.blr_woodbury; the iterate is changed in place; returns the code."""
    return _absorb(mu0, Ups0, W0, mu, Ups, Wt, g, rows, _plain(), alpha, buffers(2 * len(Wt) + len(rows), len(mu)))


def bog_arrays(mu, Ups, Wt, g, rows, alpha):
    """Twin of dlr.bog_woodbury, in place; returns the code."""
    return _bog(mu, Ups, Wt, g, rows, _plain(), alpha, buffers(len(Wt) + len(rows), len(mu), left=len(Wt)))


@_uncounted
def bbb_arrays(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha):
    """Twin of dlr.bbb_woodbury; the iterate is changed in place; returns the code."""
    b = buffers(2 * len(Wt) + len(rows), len(mu), left=len(Wt) + 1)
    return _bbb(mu0, Ups0, W0, mu, Ups, Wt, g, rows, _plain(), alpha, b)


def predict_arrays(mu, Ups, Wt, f, c, q):
    """Twin of dynamics._predict_dlr, in place; returns the code."""
    return _predict(mu, Ups, Wt, f, c, q, buffers(len(Wt), len(mu)))


@kernel
def _triangle(A, b):
    n, P = A.shape
    for at in range(0, P, b.shape[0]):
        w = min(b.shape[0], P - at)
        load(A, 1.0, at, w, b.X[0], 0)
        clear(b.X[0], n)
        triangle(b.X[0], n, w, b.T)


def triangle_arrays(A, T):
    """T Tᵀ gains A Aᵀ for the rows of A (n, P), T (n, n) lower triangular. Twin of linalg._triangular."""
    n, P = A.shape
    b = buffers(n, P)
    b.T[:n, :n] = T
    _triangle(A, b)
    T[...] = b.T[:n, :n]


@kernel
def _directions(n, b):
    return directions(n, b)


def svd_arrays(T, V, size):
    """The left singular vectors of T (n, n), lower triangular, as the rows of V (n, n), and its singular values. Twin of linalg.svd."""
    n = len(T)
    b = buffers(n, n)
    b.T[:n, :n] = T
    if not _directions(n, b):
        return False
    V[...] = b.V[:n, :n]
    size[...] = np.sqrt(np.sum((V @ T) ** 2, axis=1))  # |Tᵀ v_k|
    return True


# --- the family module's signatures ----------------------------------------------------------------------------------------------
# What the kernels do not cover, and what is no Gaussian, is left to the reference.


def bong(prior: DLR, current: DLR | None, curv: Curv, alpha: float = 1) -> DLR:
    """BONG-DLR. Twin of dlr.bong_woodbury."""
    q = _copy(prior)
    code = bong_arrays(*q, *_curvature(curv))
    return DLR(q[0], q[1], q[2].T) if code == OK else dlr.bong_woodbury(prior, current, curv, alpha)


def blr(prior: DLR, current: DLR, curv: Curv, alpha: float) -> DLR:
    """BLR-DLR. Twin of dlr.blr_woodbury."""
    q = _copy(current)
    code = blr_arrays(*_copy(prior), *q, *_curvature(curv), float(alpha))
    return DLR(q[0], q[1], q[2].T) if code == OK else dlr.blr_woodbury(prior, current, curv, alpha)


def bog(prior: DLR, current: DLR | None, curv: Curv, alpha: float) -> DLR:
    """BOG-DLR. Twin of dlr.bog_woodbury."""
    q = _copy(prior)
    code = bog_arrays(*q, *_curvature(curv), float(alpha))
    return DLR(q[0], q[1], q[2].T) if code == OK else dlr.bog_woodbury(prior, current, curv, alpha)


def bbb(prior: DLR, current: DLR, curv: Curv, alpha: float) -> DLR:
    """BBB-DLR. Twin of dlr.bbb_woodbury."""
    q = _copy(current)
    code = bbb_arrays(*_copy(prior), *q, *_curvature(curv), float(alpha))
    return DLR(q[0], q[1], q[2].T) if code == OK else dlr.bbb_woodbury(prior, current, curv, alpha)


def project(Ups_tilde: Any, W_tilde: Any, rank: int) -> tuple[Any, Any]:
    """Υ̃ + W̃W̃ᵀ to rank R. Twin of dlr.project, for W̃ of any size: it is scaled by a power of 2 for its singular vectors."""
    Wt = np.array(np.transpose(W_tilde), dtype=float, order="C")
    V, size = np.zeros((len(Wt), len(Wt))), np.zeros(len(Wt))
    top, T = float(np.max(np.abs(Wt), initial=0)), np.zeros((len(Wt), len(Wt)))
    if np.isfinite(top):
        triangle_arrays(np.ldexp(Wt, -math.frexp(top)[1]), T)
    if not np.isfinite(top) or not svd_arrays(T, V, size):
        return dlr.project(Ups_tilde, W_tilde, rank)
    out = V @ Wt
    return Ups_tilde + np.sum(out[rank:] ** 2, axis=0), np.ascontiguousarray(out[:rank].T)


def _copy(q: DLR) -> tuple[Any, Any, Any]:
    """mu, Ups and Wt as new arrays."""
    return np.array(q.mu, dtype=float), np.array(q.Ups, dtype=float), np.array(np.transpose(q.W), dtype=float, order="C")


def _curvature(curv: Curv) -> tuple[Any, Any]:
    """g and the rows Sᵀ as new arrays."""
    return np.array(curv.g, dtype=float), np.array(np.transpose(factor(curv)), dtype=float, order="C")

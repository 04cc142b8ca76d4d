"""Some leading eigenvectors of a symmetric matrix, and solutions with the matrix shifted, by way of a tridiagonal one.

G = Q T Qᵀ by Householder steps, Q = (I − q₀q₀ᵀ)(I − q₁q₁ᵀ)…; each step reads the matrix once, because the change of the step before is
made on the way. Eigenvalues of T by bisection, twelve at a time; eigenvectors by inverse iteration. Vectors are rows.
"""

from __future__ import annotations

import math

import numpy as np

from ..jit import inner, kernel, making, ordered
from ..vectors import divide4, fill4, load4, muladd, negative4, store4, sum4

LANES = 12  # eigenvalues that are sought at once
HALVINGS = 50
EPS = 2.0**-52


@inner
def change(A, N, k, n, v, w, q, p):
    """Rows and columns of A, flat (N, N), from k to n lose v wᵀ + w vᵀ; p = A q. Four rows at a time, N, v, w and q with room for them.

    What is left of column k and is written along is not used again; q is 0 there.
    """
    for i in range(k, n, 4):
        x0, x1, x2, x3 = i * N, (i + 1) * N, (i + 2) * N, (i + 3) * N
        s0, s1, s2, s3 = fill4(0.0), fill4(0.0), fill4(0.0), fill4(0.0)
        v0, v1, v2, v3 = fill4(-v[i]), fill4(-v[i + 1]), fill4(-v[i + 2]), fill4(-v[i + 3])
        w0, w1, w2, w3 = fill4(-w[i]), fill4(-w[i + 1]), fill4(-w[i + 2]), fill4(-w[i + 3])
        for j in range(k // 4 * 4, n, 4):
            a, b, c = load4(w, j), load4(v, j), load4(q, j)
            x = muladd(muladd(load4(A, x0 + j), v0, a), w0, b)
            store4(A, x0 + j, x)
            s0 = muladd(s0, x, c)
            x = muladd(muladd(load4(A, x1 + j), v1, a), w1, b)
            store4(A, x1 + j, x)
            s1 = muladd(s1, x, c)
            x = muladd(muladd(load4(A, x2 + j), v2, a), w2, b)
            store4(A, x2 + j, x)
            s2 = muladd(s2, x, c)
            x = muladd(muladd(load4(A, x3 + j), v3, a), w3, b)
            store4(A, x3 + j, x)
            s3 = muladd(s3, x, c)
        p[i], p[i + 1], p[i + 2], p[i + 3] = sum4(s0), sum4(s1), sum4(s2), sum4(s3)


@making
def reduce(A, N, n, d, e, Q):
    """T, with the diagonal d (n,) and e (n,) beside it, from 0 on, and the rows q of Q (n, N), whose squares sum to 2.

    A, flat (N, N) with N ≥ n + 3, a multiple of 4, is used up.
    """
    v, w, p = np.zeros(N), np.zeros(N), np.zeros(N)
    for k in range(n):
        x, q = A[k * N : k * N + N], Q[k]
        s = 0.0
        for j in range(k, n):
            x[j] -= v[k] * w[j] + w[k] * v[j]
        for j in range(k + 1, n):
            s += x[j] * x[j]
        for j in range(N):
            q[j] = x[j] if k < j < n else 0.0
        d[k], e[k] = x[k], 0.0
        if k < n - 1 and s > 0.0:
            size = math.sqrt(s)
            e[k] = -size if q[k + 1] >= 0.0 else size
            q[k + 1] -= e[k]
            scale = 1.0 / math.sqrt(size * (size + abs(x[k + 1])))
            for j in range(k + 1, n):
                q[j] *= scale
        change(A, N, k + 1, n, v, w, q, p)
        s = 0.0
        for j in range(k + 1, n):
            s += p[j] * q[j]
        for j in range(k + 1, n):
            v[j], w[j] = q[j], p[j] - 0.5 * s * q[j]


@inner
def turn(Q, X, back):
    """The rows of X times Q, or with ``back`` times Qᵀ: x becomes Qᵀ x or Q x."""
    n = X.shape[1]
    for step in range(n - 1):
        k = n - 2 - step if back else step
        q = Q[k, k + 1 : n]
        for r in range(X.shape[0]):
            x, s = X[r, k + 1 :], 0.0
            for j in range(len(q)):
                s += q[j] * x[j]
            for j in range(len(q)):
                x[j] -= s * q[j]


@inner
def below(d, e, x, count):
    """count (LANES,) = how many eigenvalues of T are below each x (LANES,): the negative pivots of T − x. Twin of numpy.linalg.eigvalsh.

    e (n,) has squares that are not 0, so that a pivot of 0 makes the next one −∞, and the one after it what it would be without both.
    """
    minus, f = fill4(-1.0), fill4(0.0)
    x0, x1, x2, q0, q1, q2 = load4(x, 0), load4(x, 4), load4(x, 8), fill4(1.0), fill4(1.0), fill4(1.0)
    n0, n1, n2 = fill4(0.0), fill4(0.0), fill4(0.0)
    for i in range(len(d)):
        c = fill4(d[i])
        q0 = muladd(muladd(c, minus, x0), minus, divide4(f, q0))
        q1 = muladd(muladd(c, minus, x1), minus, divide4(f, q1))
        q2 = muladd(muladd(c, minus, x2), minus, divide4(f, q2))
        n0, n1, n2, f = negative4(n0, q0), negative4(n1, q1), negative4(n2, q2), fill4(e[i])
    store4(count, 0, n0)
    store4(count, 4, n1)
    store4(count, 8, n2)


@making
def bisect(d, e, values):
    """values (m,) = the m largest eigenvalues of T, ascending, to ``HALVINGS`` bits of the largest. Twin of numpy.linalg.eigvalsh."""
    n, m, squares = len(d), len(values), np.empty(len(d))
    low, high, size = math.inf, -math.inf, 0.0
    for i in range(n):
        r = abs(e[i]) + (abs(e[i - 1]) if i > 0 else 0.0)
        low, high, size = min(low, d[i] - r), max(high, d[i] + r), max(size, abs(d[i]) + r)
    tiny = EPS * EPS * size
    for i in range(n):
        squares[i] = max(e[i] * e[i], tiny * tiny, 1e-300)
    a, b, x, count = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for first in range(0, m, LANES):
        for l in range(LANES):
            a[l], b[l] = low, high
        for _ in range(HALVINGS):
            for l in range(LANES):
                x[l] = 0.5 * (a[l] + b[l])
            below(d, squares, x, count)
            for l in range(LANES):
                if count[l] > n - m + first + l:
                    b[l] = x[l]
                else:
                    a[l] = x[l]
        for l in range(min(LANES, m - first)):
            values[first + l] = 0.5 * (a[l] + b[l])


@ordered
def factor(d, e, shift, F):
    """Elimination with pivots of T − shift: F (5, n) has 1/pivot, two entries right of it, the multiple of its row, and who was first."""
    n, least = len(d), 0.0
    for i in range(n):
        least = max(least, abs(d[i]) + abs(e[i]))
    least = max(EPS * least, 1e-300)
    a, b = d[0] - shift, e[0]
    for i in range(n - 1):
        c, x, y = e[i], d[i + 1] - shift, e[i + 1]
        if abs(a) >= abs(c):
            pivot = a if abs(a) > least else least
            r = c / pivot
            F[0, i], F[1, i], F[2, i], F[3, i], F[4, i] = 1.0 / pivot, b, 0.0, r, 0.0
            a, b = x - r * b, y
        else:
            r = a / c
            F[0, i], F[1, i], F[2, i], F[3, i], F[4, i] = 1.0 / c, x, y, r, 1.0
            a, b = b - r * x, -r * y
    F[0, n - 1] = 1.0 / (a if abs(a) > least else least)


@ordered
def solve(F, x):
    """x = (T − shift)⁻¹ x, from the factors F."""
    n = len(x)
    for i in range(n - 1):
        if F[4, i] == 0.0:
            x[i + 1] -= F[3, i] * x[i]
        else:
            x[i], x[i + 1] = x[i + 1], x[i] - F[3, i] * x[i + 1]
    x[n - 1] *= F[0, n - 1]
    if n > 1:
        x[n - 2] = (x[n - 2] - F[1, n - 2] * x[n - 1]) * F[0, n - 2]
    for i in range(n - 3, -1, -1):
        x[i] = (x[i] - F[1, i] * x[i + 1] - F[2, i] * x[i + 2]) * F[0, i]


@inner
def normalise(X, r):
    """Row r of X, without what it has of the rows before it, of length 1."""
    x = X[r]
    for _ in range(2):
        top = 0.0
        for j in range(len(x)):
            top = max(top, abs(x[j]))
        for j in range(len(x)):
            x[j] /= top
        for k in range(r):
            y, s = X[k], 0.0
            for j in range(len(x)):
                s += x[j] * y[j]
            for j in range(len(x)):
                x[j] -= s * y[j]
        s = 0.0
        for j in range(len(x)):
            s += x[j] * x[j]
        s = 1.0 / math.sqrt(s)
        for j in range(len(x)):
            x[j] *= s


@kernel
def leading(sums, A, d, e, Q, F, values, V):
    """The rows of V (R, n) = eigenvectors of G for its R largest eigenvalues, which follow the one before them in ``values`` (R + 1,).

    G (n, n) is the sum of the parts sums[:, 0], flat (N, N), given above their diagonals. A (N · N,), Q (n, N), d, e (n,) and F (5, n) are
    buffers; d, e and Q are also what :func:`solve_shifted` needs. Twin of numpy.linalg.eigh.
    """
    n, N, R = len(d), Q.shape[1], V.shape[0]
    for i in range(n):
        for j in range(i, n):
            s = 0.0
            for k in range(sums.shape[0]):
                s += sums[k, 0, i * N + j]
            A[i * N + j], A[j * N + i] = s, s
    reduce(A, N, n, d, e, Q)
    bisect(d, e, values)
    word = 1
    for r in range(R):
        x = V[r]
        for j in range(n):
            word = word * 16807 % 2147483647
            x[j] = word / 2147483647.0 - 0.5
        factor(d, e, values[r + 1], F)
        for _ in range(2):
            solve(F, x)
            normalise(V, r)
    turn(Q, V, True)


@kernel
def solve_shifted(d, e, Q, F, shifts, B):
    """The rows b of B (R, n) become (shift I − G)⁻¹ b, each with a shift of its own. Twin of numpy.linalg.solve."""
    turn(Q, B, False)
    for r in range(B.shape[0]):
        factor(d, e, shifts[r], F)
        solve(F, B[r])
        for j in range(B.shape[1]):
            B[r, j] = -B[r, j]
    turn(Q, B, True)

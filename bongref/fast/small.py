"""Small dense linear algebra inside compiled code: products of long rows, Cholesky factors,
triangular solves. Matrices are row-major. ``n`` is the part of a workspace that is in use, from its
first row and column. Buffers are flat; :func:`block` gives them their shape.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .jit import device, ordered


def zeros(n: int) -> Any:
    """n zeros at an address that is a multiple of 64, as vector units load them fastest."""
    a = np.zeros(n + 7)
    first = -a.ctypes.data % 64 // 8
    return a[first : first + n]


@device
def block(flat, n, w):
    """The first n·w numbers of a buffer as a matrix (n, w)."""
    return flat[: n * w].reshape(n, w)


@device
def add_four(Z, i, V, X, k, at):
    """Four rows of Z gain V X for four rows of X, from column ``at`` on."""
    z0, z1, z2, z3 = Z[i, at:], Z[i + 1, at:], Z[i + 2, at:], Z[i + 3, at:]
    x0, x1, x2, x3 = X[k, at:], X[k + 1, at:], X[k + 2, at:], X[k + 3, at:]
    a0, a1, a2, a3 = V[i, k], V[i, k + 1], V[i, k + 2], V[i, k + 3]
    b0, b1, b2, b3 = V[i + 1, k], V[i + 1, k + 1], V[i + 1, k + 2], V[i + 1, k + 3]
    c0, c1, c2, c3 = V[i + 2, k], V[i + 2, k + 1], V[i + 2, k + 2], V[i + 2, k + 3]
    d0, d1, d2, d3 = V[i + 3, k], V[i + 3, k + 1], V[i + 3, k + 2], V[i + 3, k + 3]
    for j in range(len(z0)):
        u0, u1, u2, u3 = x0[j], x1[j], x2[j], x3[j]
        z0[j] += (a0 * u0 + a1 * u1) + (a2 * u2 + a3 * u3)
        z1[j] += (b0 * u0 + b1 * u1) + (b2 * u2 + b3 * u3)
        z2[j] += (c0 * u0 + c1 * u1) + (c2 * u2 + c3 * u3)
        z3[j] += (d0 * u0 + d1 * u1) + (d2 * u2 + d3 * u3)


@device
def combine(V, X, Z):
    """Z = V X, X of long rows, four rows at a time: in half of the time of BLAS."""
    m, n = V.shape
    whole = n - n % 4 if m >= 4 else 0
    for first in range(0, m, 4):
        i = max(0, min(first, m - 4))  # the last four rows overlap those before
        last = min(i + 4, m)
        fill(Z[i:last], 0.0)
        for k in range(0, whole, 4):
            add_four(Z, i, V, X, k, 0)
        for r in range(i, last):
            for k in range(whole, n):
                z, x, a = Z[r], X[k], V[r, k]
                for j in range(len(z)):
                    z[j] += a * x[j]


@device
def add_products(Y, X, out, symmetric):
    """out += Y Xᵀ of long rows (if symmetric, its lower triangle, mirrored), 2 × 4 at once."""
    m, n = Y.shape[0], X.shape[0]
    for i in range(0, m, 2):
        y0, y1 = Y[i], Y[min(i + 1, m - 1)]
        for j in range(0, min(i + 2, n) if symmetric else n, 4):
            x0, x1, x2, x3 = X[j], X[min(j + 1, n - 1)], X[min(j + 2, n - 1)], X[min(j + 3, n - 1)]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
            for p in range(len(y0)):
                a0 += y0[p] * x0[p]
                a1 += y0[p] * x1[p]
                a2 += y0[p] * x2[p]
                a3 += y0[p] * x3[p]
                b0 += y1[p] * x0[p]
                b1 += y1[p] * x1[p]
                b2 += y1[p] * x2[p]
                b3 += y1[p] * x3[p]
            for k, (a, b) in enumerate(((a0, b0), (a1, b1), (a2, b2), (a3, b3))):
                if j + k < n:
                    out[i, j + k] += a
                    out[min(i + 1, m - 1), j + k] += b if i + 1 < m else 0.0
    if symmetric:
        for i in range(m):
            for j in range(i):
                out[j, i] = out[i, j]


@device
def fill(A, value):
    """Every entry of a matrix = value."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = value


@device
def copy(source, target):
    """target = source, vectors. (For target[:] = source Numba compiles the text of an error.)"""
    for i in range(len(target)):
        target[i] = source[i]


@device
def inner(x, y):
    """Σ x y."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@device
def not_finite(x):
    """0 if every number of a vector is finite, else NaN."""
    total = 0.0
    for i in range(len(x)):
        total += 0.0 * x[i]
    return total


@device
def cholesky(A, n):
    """The lower Cholesky factor of A, in place; False if A is not positive definite."""
    for j in range(n):
        row = A[j, :j]
        for i in range(j, n):
            total = A[i, j] - inner(A[i, :j], row)
            if i == j:
                if not 0.0 < total < math.inf:
                    return False
                A[j, j] = math.sqrt(total)
            else:
                A[i, j] = total / A[j, j]
    return True


@ordered
def solve_lower(L, n, B, m):
    """B = L⁻¹ B for the first m columns of B, L lower triangular."""
    for i in range(n):
        for k in range(i):
            for j in range(m):
                B[i, j] -= L[i, k] * B[k, j]
        for j in range(m):
            B[i, j] /= L[i, i]


@ordered
def solve_upper(L, n, B, m):
    """B = L⁻ᵀ B for the first m columns of B, L lower triangular."""
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            for j in range(m):
                B[i, j] -= L[k, i] * B[k, j]
        for j in range(m):
            B[i, j] /= L[i, i]

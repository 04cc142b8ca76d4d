"""Small dense linear algebra inside compiled code: Cholesky factors, triangular solves,
products of blocks.

Matrices are row-major. ``n`` is the part of a workspace that is in use, from its first row and
column. Products of matrices go through NumPy's ``dot``, which is BLAS; arrays that it writes are
C-contiguous, so that buffers are flat and :func:`block` gives them their shape.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .jit import device, ordered
from .tuning import GRAM_ROWS, INNER_ROWS


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
def dot(A, B, out):
    """out = A B."""
    np.dot(A, B, out)


@device
def add_dot(A, B, out, buffer):
    """out += A B for small results; ``buffer`` (flat) holds one."""
    product = block(buffer, A.shape[0], B.shape[1])
    np.dot(A, B, product)
    for i in range(product.shape[0]):
        for j in range(product.shape[1]):
            out[i, j] += product[i, j]


@device
def add_inner(Y, X, out):
    """out += Y Xᵀ, symmetric, by inner products of rows, four at once."""
    for i in range(X.shape[0]):
        y = Y[i]
        for j in range(0, i + 1, 4):
            x0, x1, x2, x3 = X[j], X[min(j + 1, i)], X[min(j + 2, i)], X[min(j + 3, i)]
            a0 = a1 = a2 = a3 = 0.0
            for p in range(len(y)):
                a0 += y[p] * x0[p]
                a1 += y[p] * x1[p]
                a2 += y[p] * x2[p]
                a3 += y[p] * x3[p]
            for k, a in enumerate((a0, a1, a2, a3)):
                if j + k <= i:
                    out[i, j + k] += a
                    out[j + k, i] = out[i, j + k]


@device
def add_gram(Y, X, out, buffer):
    """out += Y Xᵀ, symmetric, GRAM_ROWS rows of the lower triangle at a time."""
    n = X.shape[0]
    if n <= INNER_ROWS:
        add_inner(Y, X, out)
        return
    for first in range(0, n, GRAM_ROWS):
        last = min(n, first + GRAM_ROWS)
        product = block(buffer, last - first, last)
        np.dot(Y[first:last], X[:last].T, product)
        for i in range(first, last):
            for j in range(last):
                out[i, j] += product[i - first, j]
        for i in range(first, last):
            for j in range(first):
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


@ordered
def solve_vector(L, n, x):
    """x = (L Lᵀ)⁻¹ x."""
    for i in range(n):
        total = x[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, n):
            total -= L[k, i] * x[k]
        x[i] = total / L[i, i]

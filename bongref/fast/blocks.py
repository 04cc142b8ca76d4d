"""Products of large matrices in parts, which threads share: BLAS on blocks of matrices in Fortran order, one thread for each.

The threads of a BLAS wait for one another in loops that take the processor from everyone else, so that it is held to one thread, and the
parts are handed out here. Of a symmetric or triangular matrix the lower triangle is valid. What the parts are depends on the sizes and on
the number of threads alone.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from ..linalg import Array
from .estimators import share, threads, together

BLOCK = 192  # columns of a Cholesky factor that are computed at a time
WIDE = 512  # columns for which a second thread pays


def _function(module: Any, name: str) -> Any:
    """A function of BLAS or LAPACK, all of whose arguments are pointers; it runs without the interpreter's lock."""
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


_gemm, _syrk, _symm, _trsm, _trmm = (_function(cython_blas, name) for name in ("dgemm", "dsyrk", "dsymm", "dtrsm", "dtrmm"))
_potrf, _trtri, _lauum = (_function(cython_lapack, name) for name in ("dpotrf", "dtrtri", "dlauum"))


def _call(function: Any, *args: Any) -> int:
    """Call with letters, integers, numbers and matrices, each of these followed by its leading dimension; returns ``info``."""
    info = ctypes.c_int(0)
    pointers: list[Any] = []
    for a in args:
        if isinstance(a, str):
            pointers.append(ctypes.c_char_p(a.encode()))
        elif isinstance(a, int):
            pointers.append(ctypes.byref(ctypes.c_int(a)))
        elif isinstance(a, float):
            pointers.append(ctypes.byref(ctypes.c_double(a)))
        else:
            if a.dtype != float or (len(a) > 1 and a.strides[0] != a.itemsize):
                raise ValueError("the columns of a block are float64, one number behind the other")
            lead = a.strides[1] // a.itemsize if a.shape[1] > 1 else len(a)
            pointers += [ctypes.c_void_p(a.ctypes.data), ctypes.byref(ctypes.c_int(max(1, lead)))]
    function(*pointers, ctypes.byref(info))
    return info.value


def parts(n: int) -> int:
    """How many threads share a product with n columns."""
    return threads() if n >= WIDE else 1


def _cuts(n: int, k: int) -> list[int]:
    """The columns of a lower triangle at which k parts with as many entries begin, and n."""
    return [int(n * (1 - np.sqrt(1 - i / k))) for i in range(k)] + [n]


def rank_update(alpha: float, X: Array, beta: float, C: Array) -> None:
    """C = βC + α X Xᵀ, its lower triangle. Twin of ``beta * C + alpha * X @ X.T``."""
    n, K = X.shape
    cuts = _cuts(n, parts(n))

    def part(k: int) -> None:
        a, b = cuts[k], cuts[k + 1]
        _call(_syrk, "L", "N", b - a, K, alpha, X[a:b], beta, C[a:b, a:b])
        if b < n:
            _call(_gemm, "N", "T", n - b, b - a, K, alpha, X[b:], X[a:b], beta, C[b:, a:b])

    together(len(cuts) - 1, part)


def gram_update(alpha: float, X: Array, beta: float, C: Array) -> None:
    """C = βC + α XᵀX, its lower triangle. Twin of ``beta * C + alpha * X.T @ X``."""
    K, n = X.shape
    cuts = _cuts(n, parts(n))

    def part(k: int) -> None:
        a, b = cuts[k], cuts[k + 1]
        _call(_syrk, "L", "T", b - a, K, alpha, X[:, a:b], beta, C[a:b, a:b])
        if b < n:
            _call(_gemm, "T", "N", n - b, b - a, K, alpha, X[:, b:], X[:, a:b], beta, C[b:, a:b])

    together(len(cuts) - 1, part)


def times_symmetric(A: Array, X: Array) -> Array:
    """A X for a symmetric A. Twin of ``A @ X``."""
    out = np.empty(X.shape, order="F")
    share(parts(len(A)), X.shape[1], lambda _, j: _call(_symm, "L", "L", len(A), j.stop - j.start, 1.0, A, X[:, j], 0.0, out[:, j]))
    return out


def times_triangle(L: Array, X: Array, trans: str = "N") -> None:
    """X becomes L X, or LᵀX for ``trans`` = T. Twin of ``np.tril(L) @ X``."""
    share(parts(len(L)), X.shape[1], lambda _, j: _call(_trmm, "L", "L", trans, "N", len(L), j.stop - j.start, 1.0, L, X[:, j]))


def solve_triangle(L: Array, X: Array, trans: str = "N") -> None:
    """X becomes L⁻¹X, or L⁻ᵀX for ``trans`` = T. Twin of ``np.linalg.solve(np.tril(L), X)``."""
    share(parts(len(L)), X.shape[1], lambda _, j: _call(_trsm, "L", "L", trans, "N", len(L), j.stop - j.start, 1.0, L, X[:, j]))


def _divide(L: Array, X: Array, _: int, i: slice) -> None:
    """These rows of X become those of X L⁻ᵀ."""
    _call(_trsm, "R", "L", "T", "N", i.stop - i.start, len(L), 1.0, L, X[i])


def cholesky(A: Array) -> bool:
    """The Cholesky factor of A in its place, of both the lower triangle; False if there is none. Twin of numpy.linalg.cholesky."""
    n = len(A)
    width = BLOCK if parts(n) > 1 else n
    for a in range(0, n, width):
        b = min(n, a + width)
        corner, below = A[a:b, a:b], A[b:, a:b]
        if _call(_potrf, "L", b - a, corner) != 0:
            return False
        if len(below):
            share(parts(n), len(below), functools.partial(_divide, corner, below))
            rank_update(-1.0, below, 1.0, A[b:, b:])
    return bool(np.isfinite(np.diagonal(A)).all())


def invert(L: Array) -> None:
    """L becomes the lower triangle of (L Lᵀ)⁻¹: with X = L⁻¹ it is XᵀX, both in four blocks. Twin of ``np.linalg.inv(L @ L.T)``."""
    n = len(L)
    if parts(n) == 1:
        _call(_trtri, "L", "N", n, L)
        _call(_lauum, "L", n, L)
        return
    h = n // 2
    one, low, two = L[:h, :h], L[h:, :h], L[h:, h:]
    share(2, 2, lambda k, _: _call(_trtri, "L", "N", *((h, one) if k == 0 else (n - h, two))))
    share(parts(n), h, lambda _, j: _call(_trmm, "L", "L", "N", "N", n - h, j.stop - j.start, -1.0, two, low[:, j]))
    share(parts(n), n - h, lambda _, i: _call(_trmm, "R", "L", "N", "N", i.stop - i.start, h, 1.0, one, low[i]))
    kept = two.copy(order="F")
    share(2, 2, lambda k, _: _call(_lauum, "L", *((h, one) if k == 0 else (n - h, two))))
    gram_update(1.0, low, 1.0, one)
    share(parts(n), h, lambda _, j: _call(_trmm, "L", "L", "T", "N", n - h, j.stop - j.start, 1.0, kept, low[:, j]))

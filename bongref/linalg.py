"""The few matrix operations that a step needs, for float64 arrays and for object arrays of exact numbers alike.

A step is written once, with ``@``, ``+``, ``.T`` and the functions below, and runs unchanged on float64 and on
object arrays of :class:`fractions.Fraction` or ``mpmath.mpf`` (module :mod:`bongref.routes.exact`). That is why the step code
has no float literals: ``/ 2``, never ``0.5 *``.

None of these functions repairs anything: a singular matrix has an inverse full of NaN, an indefinite one its honest inverse.
None of them relies on LAPACK's errors being raised either: in a WebAssembly build of NumPy they are not, and the result is NaN.
A step carries NaN on, and its result is reported as not valid; everything else writes ``finite(solve(a, b))``, which refuses it with
LinAlgError on every platform, as do :func:`cholesky`, :func:`eigh` and, for float64 alone, :func:`eigvalsh`, :func:`logdet`,
:func:`thin_svd`, :func:`qr` and :func:`lstsq`.

>>> import numpy as np
>>> from bongref import linalg
>>> linalg.is_pd(np.array([[2.0, 1.0], [1.0, 2.0]]))
True
>>> linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
array([[0.5 , 0.  ],
       [0.  , 0.25]])
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # of float64, or of objects that are exact numbers


def is_exact(a: Any) -> bool:
    """Whether a is an object array, of exact numbers."""
    return isinstance(a, np.ndarray) and a.dtype.kind == "O"


def eye(n: int) -> Array:
    """The identity in integers, which any kind of number can be added to."""
    return np.eye(n, dtype=int)


def sym(a: Array) -> Array:
    """The symmetric part (a + aᵀ)/2."""
    return (a + a.T) / 2


def rowdot(a: Array, b: Array) -> Array:
    """diag(a bᵀ) in O(nm): the sum over j of a_ij b_ij (the diag(AB) trick of sec:diag-Nat)."""
    return (a * b).sum(axis=1)


def solve(a: Array, b: Array) -> Array:
    """a⁻¹ b, NaN where a is singular to the arithmetic at hand."""
    if is_exact(a) or is_exact(b):
        return _eliminate(a, b)
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.full(np.shape(b), np.nan)


def finite(a: Array, otherwise: str = "singular matrix") -> Array:
    """a; LinAlgError if an entry is not finite."""
    if not np.all(np.isfinite(np.asarray(a))):
        raise np.linalg.LinAlgError(otherwise)
    return a


def inv(a: Array) -> Array:
    """The inverse of a symmetric matrix, symmetric to the last bit; through Cholesky where the matrix is positive definite."""
    if is_exact(a):
        return _eliminate(a, eye(len(a)).astype(object))
    try:
        half = np.linalg.solve(cholesky(a), np.eye(len(a)))
        return half.T @ half
    except np.linalg.LinAlgError:
        return sym(solve(a, np.eye(len(a))))


def eigvals(a: Array) -> Array:
    """The eigenvalues of a square matrix, NaN where it is not finite or the iteration does not converge."""
    try:
        return np.linalg.eigvals(a)
    except np.linalg.LinAlgError:
        return np.full(len(a), np.nan)


def is_diagonal(a: Array) -> bool:
    """Whether all entries off the diagonal are zero; one look at the first row is often enough."""
    if np.count_nonzero(a[:1]) > 1:
        return False
    return bool(np.count_nonzero(a) == np.count_nonzero(np.diagonal(a)))


def is_pd(a: Array) -> bool:
    """Whether a symmetric matrix is positive definite: every pivot of its elimination is positive."""
    if not is_exact(a):
        if not np.all(np.isfinite(a)):
            return False
        if is_diagonal(a):  # a prior, as a rule: no elimination
            return bool(np.all(np.diagonal(a) > 0))
        try:
            cholesky(a)
            return True
        except np.linalg.LinAlgError:
            return False
    a = a.copy()
    for k in range(len(a)):
        if not a[k, k] > 0:
            return False
        a[k + 1 :] = a[k + 1 :] - np.outer(a[k + 1 :, k] / a[k, k], a[k])
    return True


def sqrt(x: Any) -> Any:
    """√x of a number or an array."""
    if isinstance(x, np.ndarray):
        return np.frompyfunc(sqrt, 1, 1)(x) if is_exact(x) else np.sqrt(x)
    if isinstance(x, (int, float, Fraction)):
        return math.sqrt(x)
    from mpmath import mp

    return mp.sqrt(x)


def gram(a: Array, b: Array | None = None) -> Array:
    """aᵀ b (aᵀ a without b) for tall a and b, by blocks of rows.

    Blocks keep each product below the size at which a BLAS starts threads of its own: some builds take a second and more
    for the Gram matrix of a 57,722 × 20 array with two threads, and a millisecond with one.
    """
    b = a if b is None else b
    rows = max(16, 2**18 // max(1, a.shape[1] * b.shape[1]))
    if is_exact(a) or is_exact(b) or len(a) <= rows:
        return a.T @ b
    out = np.zeros((a.shape[1], b.shape[1]))
    for i in range(0, len(a), rows):
        out += a[i : i + rows].T @ b[i : i + rows]
    return out


def svd(a: Array) -> tuple[Array, Array]:
    """(Λ, V) of the SVD a = U Λ Vᵀ, singular values in descending order; U Λ = a V needs no division and no tall U.

    V is that of the small triangular factor of a = Q R, which comes from blocks of rows (see :func:`gram` for why): the QR factors of
    the blocks, stacked and factored again. Householder steps throughout: as accurate as the SVD of a itself.
    """
    if not is_exact(a):
        if not np.all(np.isfinite(a)):
            return np.full(min(a.shape), np.nan), np.full((a.shape[1], min(a.shape)), np.nan)
        _, s, Vt = np.linalg.svd(_triangular(a), full_matrices=False)
        return s, Vt.T
    from mpmath import mp

    _, s, Vt = mp.svd_r(mp.matrix(a.tolist()))
    return np.array(list(s), dtype=object), np.array(Vt.T.tolist(), dtype=object).reshape(a.shape[1], -1)


def _triangular(a: Array) -> Array:
    """R of a = Q R for a tall a, a itself where it is not tall."""
    k = a.shape[1]
    rows = max(4 * k, 2**13 // k)
    while len(a) > rows:
        whole = len(a) // rows * rows
        blocks: Any = np.linalg.qr(a[:whole].reshape(-1, rows, k), mode="r")
        a = np.concatenate([blocks.reshape(-1, k), a[whole:]])
    return a


def eigh(a: Array) -> tuple[Array, Array]:
    """(λ, Q) of a symmetric matrix."""
    if not is_exact(a):
        lam, Q = np.linalg.eigh(a)
        return finite(lam, "eigenvalues did not converge"), Q
    from mpmath import mp

    values, vectors = mp.eigsy(mp.matrix(a.tolist()))
    return np.array(list(values), dtype=object), np.array(vectors.tolist(), dtype=object).reshape(a.shape)


def eigvalsh(a: Array) -> Array:
    """The eigenvalues of a symmetric matrix in ascending order."""
    return finite(np.linalg.eigvalsh(a), "eigenvalues did not converge")


def logdet(a: Array) -> float:
    """log|det a|; LinAlgError where a is singular to the arithmetic at hand."""
    return float(finite(np.linalg.slogdet(a)[1]))


def thin_svd(a: Array) -> tuple[Array, Array, Array]:
    """(U, Λ, Vᵀ) of a = U Λ Vᵀ by LAPACK's SVD of the whole matrix, without the columns of U that are not needed."""
    U, s, Vt = np.linalg.svd(a, full_matrices=False)
    return U, finite(s, "SVD did not converge"), Vt


def singular_values(a: Array) -> Array:
    """Λ of the SVD, in descending order, by LAPACK's SVD of the whole matrix."""
    return finite(np.linalg.svd(a, compute_uv=False), "SVD did not converge")


def qr(a: Array) -> tuple[Array, Array]:
    """(Q, R) of a = Q R, Q with the shape of a tall a."""
    Q, R = np.linalg.qr(a)
    return Q, finite(R, "matrix is not finite")


def lstsq(a: Array, b: Array) -> Array:
    """The x of least norm among those that minimise |a x − b|."""
    return finite(np.linalg.lstsq(a, b, rcond=None)[0], "SVD did not converge")


def cholesky(a: Array) -> Array:
    """The lower factor L of a positive definite a = L Lᵀ; LinAlgError where a is not."""
    if not is_exact(a):
        L = np.linalg.cholesky(a)
        finite(np.asarray(L).diagonal(), "matrix is not positive definite")
        return L
    from mpmath import mp

    return np.array(mp.cholesky(mp.matrix(a.tolist())).tolist(), dtype=object).reshape(a.shape)


def woodbury_solve(Ups: Array, W: Array, X: Array) -> Array:
    """(Υ + W Wᵀ)⁻¹ X = Υ⁻¹X − Υ⁻¹W (I + WᵀΥ⁻¹W)⁻¹ WᵀΥ⁻¹X in O(R(R+K)P), Υ given by its diagonal, X of shape (P, K)."""
    UW, UX = W / Ups[:, None], X / Ups[:, None]
    return UX - UW @ solve(eye(W.shape[1]) + gram(W, UW), gram(W, UX))


def woodbury_fit(Ups: Array, W: Array, a: Array, c: Array) -> Array:
    """(Υ + W Wᵀ)⁻¹(a + W c) for Υ > 0, by the SVD A = Q Λ Vᵀ of Υ^{-1/2} W; O(R² P).

    With D = Υ^{1/2} it is D⁻¹((I + AAᵀ)⁻¹ D⁻¹a + A (I + AᵀA)⁻¹ c) = D⁻¹(D⁻¹a + QΛ (I + Λ²)⁻¹ (Vᵀc − ΛQᵀ D⁻¹a)): W c enters as c,
    so that nothing of its size has to cancel, however large W is.
    """
    root = sqrt(Ups)
    A, v = W / root[:, None], a / root
    Lambda, V = svd(A)
    AV = A @ V
    return (v + AV @ ((V.T @ c - AV.T @ v) / (1 + Lambda**2))) / root


def _eliminate(a: Array, b: Array) -> Array:
    """Gauss–Jordan elimination with pivoting, for exact numbers."""
    n, vector = len(a), b.ndim == 1
    m = np.concatenate([a.astype(object), (b[:, None] if vector else b).astype(object)], axis=1)
    for k in range(n):
        p = k + max(range(n - k), key=lambda i: abs(m[k + i, k]))
        if m[p, k] == 0:
            return np.full(b.shape, np.nan, dtype=object)
        m[[k, p]] = m[[p, k]]
        m[k, k:] = m[k, k:] / (Fraction(m[k, k]) if isinstance(m[k, k], int) else m[k, k])
        for i in range(n):
            if i != k and m[i, k] != 0:
                m[i, k:] = m[i, k:] - m[i, k] * m[k, k:]
    return m[:, n] if vector else m[:, n:]

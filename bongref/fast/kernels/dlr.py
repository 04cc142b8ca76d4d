"""The DLR steps in machine code. Twins of :mod:`bongref.dlr`, for G = −S Sᵀ.

W is kept as Wt (R, P) and S as rows (K, P), so that every loop over the parameters has unit stride. A step reads the parameters in blocks
that stay in the first level cache, twice: once for the small matrices (Gram matrices weighted by 1/Υ, and the triangular factor of W̃),
once for the update, written in place. Nothing is ever formed that is larger than the state and S.

The projection takes the triangular factor T of W̃ = Q T from Householder steps, block after block, as the reference does: no Gram matrix,
so the small singular directions of W̃ are not lost. The SVD of T is one-sided Jacobi on the rows of its pivoted triangular factor, whose
small singular values are those of T to the last digits. Where W̃ is rank deficient the columns of W are 0.

The array-level kernels return a code: 0, or 1 for a result that is no Gaussian, or 3 for one that only the reference covers (a Υ ≤ 0
that W may make up for, W̃ so large or small that squares leave the range of float64, a BBB that has run away).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import dlr
from ...curvature import Curv, factor
from ...states import DLR
from ..jit import inlined, inner, kernel, ordered

OK, LOST, INFINITE, ELSEWHERE = 0, 1, 2, 3
LARGE, SMALL = 1e140, 1e-140  # of T: squares and their sums stay in range
BEYOND = 1e12  # of WᵀΥ⁻¹W: rounding decides whether the next Υ of BBB is positive, so it must be the reference's
TINY = 1e-290  # below this a square is taken for 0
SWEEPS = 60  # of Jacobi; five are the rule


class Buffers(NamedTuple):
    """Blocks of rows (n, w), n a multiple of 4, rows of weights (3, w), and small matrices (n, n)."""

    X: Any
    Y: Any
    Z: Any
    u: Any
    H: Any
    T: Any
    V: Any
    J: Any
    size: Any  # (n,)
    perm: Any  # (n,) int64


@inner
def buffers(n):
    """Buffers for n rows of W̃ and two more. The width is no power of 2, which would put all rows into the same places of the cache."""
    n = (n + 5) // 4 * 4
    w = max(136, min(264, 6336 // n // 16 * 16 + 8))
    X, Y, Z, u = np.zeros((n, w)), np.zeros((n, w)), np.zeros((n, w)), np.zeros((3, w))
    H, T, V, J = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    return Buffers(X, Y, Z, u, H, T, V, J, np.zeros(n), np.zeros(n, np.int64))


# --- over a block of parameters ----------------------------------------------------------------------------------------------


@inner
def clear(A, first):
    """0 in all rows from ``first`` on."""
    for i in range(first, A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = 0.0


@inner
def load(A, scale, at, w, X, n):
    """Rows of X from n on = scale · A in the columns from ``at``; the number of rows in X then."""
    for r in range(A.shape[0]):
        x, a = X[n + r], A[r, at : at + w]
        for p in range(w):
            x[p] = scale * a[p]
    return n + A.shape[0]


@inner
def load_weighed(A, u, at, w, X, n):
    """As load, with A Diag(u) in place of scale · A."""
    for r in range(A.shape[0]):
        x, a = X[n + r], A[r, at : at + w]
        for p in range(w):
            x[p] = u[p] * a[p]
    return n + A.shape[0]


@inner
def inverse(Ups, at, w, u):
    """Row 0 of u = 1/Υ."""
    x = Ups[at : at + w]
    for p in range(w):
        u[0, p] = 1.0 / x[p]


@inner
def weigh(X, n, u, w, Y):
    """Y = X Diag(u)."""
    for i in range(n):
        for p in range(w):
            Y[i, p] = u[p] * X[i, p]


@inner
def gram(A, m, B, n, w, H, upper):
    """H += A Bᵀ, of m and n rows rounded up to even numbers; with ``upper`` what is below the diagonal is left out."""
    for i in range(0, m, 2):
        for j in range(i if upper else 0, n, 2):
            s00, s01, s10, s11 = 0.0, 0.0, 0.0, 0.0
            for p in range(w):
                s00 += A[i, p] * B[j, p]
                s01 += A[i, p] * B[j + 1, p]
                s10 += A[i + 1, p] * B[j, p]
                s11 += A[i + 1, p] * B[j + 1, p]
            H[i, j] += s00
            H[i, j + 1] += s01
            H[i + 1, j] += s10
            H[i + 1, j + 1] += s11


@inner
def combine(V, m, n, X, w, out):
    """out = V X: m rows of combinations of n rows, n rounded up to a multiple of 3. Four rows at a time, then the others."""
    whole = m - m % 4
    for r in range(0, whole, 4):
        for i in range(0, n, 3):
            a0, a1, a2 = V[r, i], V[r, i + 1], V[r, i + 2]
            b0, b1, b2 = V[r + 1, i], V[r + 1, i + 1], V[r + 1, i + 2]
            c0, c1, c2 = V[r + 2, i], V[r + 2, i + 1], V[r + 2, i + 2]
            d0, d1, d2 = V[r + 3, i], V[r + 3, i + 1], V[r + 3, i + 2]
            if i == 0:
                for p in range(w):
                    out[r, p] = a0 * X[i, p] + a1 * X[i + 1, p] + a2 * X[i + 2, p]
                    out[r + 1, p] = b0 * X[i, p] + b1 * X[i + 1, p] + b2 * X[i + 2, p]
                    out[r + 2, p] = c0 * X[i, p] + c1 * X[i + 1, p] + c2 * X[i + 2, p]
                    out[r + 3, p] = d0 * X[i, p] + d1 * X[i + 1, p] + d2 * X[i + 2, p]
            else:
                for p in range(w):
                    out[r, p] += a0 * X[i, p] + a1 * X[i + 1, p] + a2 * X[i + 2, p]
                    out[r + 1, p] += b0 * X[i, p] + b1 * X[i + 1, p] + b2 * X[i + 2, p]
                    out[r + 2, p] += c0 * X[i, p] + c1 * X[i + 1, p] + c2 * X[i + 2, p]
                    out[r + 3, p] += d0 * X[i, p] + d1 * X[i + 1, p] + d2 * X[i + 2, p]
    for r in range(whole, m):
        for p in range(w):
            out[r, p] = 0.0
        for i in range(0, n, 3):
            a0, a1, a2 = V[r, i], V[r, i + 1], V[r, i + 2]
            for p in range(w):
                out[r, p] += a0 * X[i, p] + a1 * X[i + 1, p] + a2 * X[i + 2, p]


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
        for k in range(i):
            for j in range(first, last):
                X[i, j] -= L[i, k] * X[k, j]
        for j in range(first, last):
            X[i, j] /= L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            for j in range(first, last):
                X[i, j] -= L[k, i] * X[k, j]
        for j in range(first, last):
            X[i, j] /= L[i, i]


@ordered
def pivoted(T, n, J, perm):
    """J = the rows of the triangular factor of Tᵀ with its columns in the order perm, in which the diagonal of J descends. T is used up."""
    for i in range(n):
        perm[i] = i
    for i in range(n):
        best, top = i, -1.0
        for j in range(i, n):
            s = 0.0
            for k in range(i, n):
                s += T[j, k] * T[j, k]
            if s > top:
                best, top = j, s
        if best != i:
            perm[i], perm[best] = perm[best], perm[i]
            for k in range(n):
                T[i, k], T[best, k] = T[best, k], T[i, k]
        a, size = T[i, i], math.sqrt(top)
        if size > 0.0:
            T[i, i] = a + (size if a >= 0.0 else -size)
            scale = 1.0 / (size * (size + abs(a)))
            for j in range(i + 1, n):
                d = 0.0
                for k in range(i, n):
                    d += T[i, k] * T[j, k]
                for k in range(i, n):
                    T[j, k] -= scale * d * T[i, k]
            T[i, i] = -size if a >= 0.0 else size
    clear(J, 0)
    for i in range(n):
        for j in range(i, n):
            J[i, j] = T[j, i]


@ordered
def dot(x, y, n):
    """x · y over n entries, which are 0 from there to the next multiple of 4."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(0, n, 4):
        s0 += x[j] * y[j]
        s1 += x[j + 1] * y[j + 1]
        s2 += x[j + 2] * y[j + 2]
        s3 += x[j + 3] * y[j + 3]
    return (s0 + s1) + (s2 + s3)


@ordered
def jacobi(J, n, size):
    """Turn the rows of J until they are orthogonal, longest first: row k = σ_k v_k, size = σ². False where that takes too long."""
    tol = 2.0**-104 * n  # of the square of the cosine
    for _ in range(SWEEPS):
        for k in range(n):
            s = dot(J[k], J[k], n)
            size[k] = s if s > TINY else 0.0
        done = True
        for i in range(n - 1):
            x, a = J[i], size[i]
            for k in range(i + 1, n):
                y, b = J[k], size[k]
                d = dot(x, y, n)
                if a >= b and d * d <= tol * a * b:
                    continue
                done = False
                if b > a:  # by a right angle first, so that the longer row is the upper one
                    a, b, d = b, a, -d
                    for j in range(n):
                        x[j], y[j] = y[j], -x[j]
                if b > 0.0 and d != 0.0:
                    h = 0.5 * (a - b)
                    t = d / (h + math.sqrt(h * h + d * d))
                    c = 1.0 / math.sqrt(1.0 + t * t)
                    s = c * t
                    for j in range(n):
                        z = x[j]
                        x[j] = c * z + s * y[j]
                        y[j] = c * y[j] - s * z
                    a += t * d
                    less = b - t * d
                    less = less if less > 0.5 * b else dot(y, y, n)
                    b = less if less > TINY else 0.0
                size[k] = b
            size[i] = a
        if done:
            return True
    return False


@ordered
def directions(T, n, V, J, size, perm):
    """The rows of V = right singular vectors of Tᵀ, by descending singular value, 0 where that is 0. Twin of linalg.svd. T is used up.

    False where T is not finite, or so large or small that squares leave the range of float64.
    """
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
    pivoted(T, n, J, perm)
    if not jacobi(J, n, size):
        return False
    for k in range(n):
        if size[k] > 0.0:
            s = 1.0 / math.sqrt(dot(J[k], J[k], n))
            for j in range(n):
                V[k, perm[j]] = s * J[k, j]
    return True


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
def settle(Z, R, n, at, w, rate, pull, mu, Ups, out):
    """A block of the new state from Z: R rows of W, then those that W loses, then what the Woodbury identity takes from the step."""
    wrong, m, u, g = 0.0, mu[at : at + w], Ups[at : at + w], pull[at : at + w]
    for r in range(R):
        o = out[r, at : at + w]
        for p in range(w):
            o[p] = Z[r, p]
    for p in range(w):
        m[p] += rate * (g[p] - Z[n, p]) / u[p]
        wrong += 0.0 * m[p]
    for k in range(R, n):
        for p in range(w):
            u[p] += Z[k, p] * Z[k, p]
    for p in range(w):
        wrong += 0.0 * u[p]
    return wrong


@inlined
def absorb(c, W, c0, W0, cs, rows, pull, rate, mu, Ups, out, b):
    """μ += rate (Υ + W̃W̃ᵀ)⁻¹ pull, then Υ + W̃W̃ᵀ projected to the rank of ``out``, W̃ = [c W, c₀ W₀, c_s S]. ``out`` may be W.

    Twin of the Woodbury solve and of dlr.project in dlr.bong_woodbury and dlr.blr_woodbury. Reads W̃ twice.
    """
    P, width, n = len(mu), b.X.shape[1], W.shape[0] + W0.shape[0] + rows.shape[0]
    clear(b.H, 0)
    clear(b.T, 0)
    clear(b.X, 0)
    for at in range(0, P, width):
        w = min(width, P - at)
        load(rows, cs, at, w, b.X, load(W0, c0, at, w, b.X, load(W, c, at, w, b.X, 0)))
        load(pull.reshape(1, -1), 1.0, at, w, b.X, n)
        inverse(Ups, at, w, b.u)
        weigh(b.X, n, b.u[0], w, b.Y)
        gram(b.Y, n, b.X, n + 1, w, b.H, True)
        for p in range(w):
            b.X[n, p] = 0.0
        triangle(b.X, n, w, b.T)
    code = OK if cholesky(b.H, n, b.J) else LOST
    if code == OK:
        solve(b.J, n, b.H, n, n + 1)
        if not directions(b.T, n, b.V, b.J, b.size, b.perm):
            code = ELSEWHERE
        elif nothing(b.V):
            code = OK if nothing(W) and nothing(W0) and nothing(rows) else ELSEWHERE
    if code == OK:
        wrong = 0.0
        clear(b.X, n)
        for i in range(n):
            b.V[n, i] = b.H[i, n]
        for at in range(0, P, width):
            w = min(width, P - at)
            load(rows, cs, at, w, b.X, load(W0, c0, at, w, b.X, load(W, c, at, w, b.X, 0)))
            combine(b.V, n + 1, n, b.X, w, b.Z)
            wrong += settle(b.Z, out.shape[0], n, at, w, rate, pull, mu, Ups, out)
        code = OK if wrong == 0.0 else LOST
    return code


@inner
def towards(mu0, Ups0, W0, mu, g, pull):
    """pull = (Υ₀ + W₀W₀ᵀ)(μ₀ − μ) + g. Twin of dlr._pull."""
    for p in range(len(mu)):
        pull[p] = Ups0[p] * (mu0[p] - mu[p]) + g[p]
    for r in range(W0.shape[0]):
        s = 0.0
        for p in range(len(mu)):
            s += W0[r, p] * (mu0[p] - mu[p])
        for p in range(len(mu)):
            pull[p] += s * W0[r, p]


@inlined
def blr_step(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha, pull, b):
    """One iteration of BLR from the prior (mu0, Ups0, W0) and the iterate (mu, Ups, Wt), which it changes. Twin of dlr.blr_woodbury."""
    towards(mu0, Ups0, W0, mu, g, pull)
    for p in range(len(mu)):
        Ups[p] = (1.0 - alpha) * Ups[p] + alpha * Ups0[p]
    root = math.sqrt(alpha)
    return absorb(math.sqrt(1.0 - alpha), Wt, root, W0, root, rows, pull, alpha, mu, Ups, Wt, b)


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
def verdict(wrong, below, R):
    """The code of a new iterate: ``wrong`` is 0 where everything is finite, ``below`` the number of Υ ≤ 0."""
    if wrong != 0.0 or below > R:
        return LOST
    return ELSEWHERE if below > 0 else OK


@inlined
def bog_step(mu, Ups, Wt, g, rows, alpha, b):
    """One step of BOG, in place. Twin of dlr.bog_woodbury, with WᵀB = C = (I + WᵀΥ⁻¹W)⁻¹WᵀΥ⁻¹S."""
    P, width, R, K = len(mu), b.X.shape[1], Wt.shape[0], rows.shape[0]
    clear(b.H, 0)
    clear(b.X, 0)
    clear(b.Y, 0)
    for at in range(0, P, width):
        w = min(width, P - at)
        load(rows, 1.0, at, w, b.X, load(Wt, 1.0, at, w, b.X, 0))
        inverse(Ups, at, w, b.u)
        weigh(b.X, R, b.u[0], w, b.Y)
        gram(b.Y, R, b.X, R + K, w, b.H, True)
    if not cholesky(b.H, R, b.J):
        return LOST
    clear(b.T, 0)
    clear(b.V, 0)
    clear(b.Z, 0)
    solve(b.J, R, b.H, R, R + K)
    for k in range(K):  # T = −Cᵀ, V = α C
        for r in range(R):
            b.V[r, k] = alpha * b.H[r, R + k]
            b.T[k, r] = -b.H[r, R + k]
    wrong, below = 0.0, 0
    for at in range(0, P, width):
        w = min(width, P - at)
        load(Wt, 1.0, at, w, b.X, 0)
        combine(b.T, K, R, b.X, w, b.Y)
        inverse(Ups, at, w, b.u)
        new = Ups[at : at + w]
        for k in range(K):
            x = rows[k, at : at + w]
            for p in range(w):
                z = b.u[0, p] * (x[p] + b.Y[k, p])
                b.Z[k, p] = z
                new[p] += 0.5 * alpha * z * z
        combine(b.V, R, K, b.Z, w, b.Y)
        more = advance(at, w, alpha, g[at : at + w], mu, Ups)
        wrong += more[0] + add_rows(b.Y, R, at, w, Wt)
        below += more[1]
    return verdict(wrong, below, R)


@inner
def bbb_small(R, n, alpha, H, N, L, F):
    """The coefficients of :func:`bbb_step`, from H = Aᵀ[W, W₀, S] and N, both without what is below the diagonal, and the factor L of M.

    Rows of F: M⁻¹, −WᵀΣW₀ and −WᵀΣS transposed; in the place of H: −α (M⁻¹N + WᵀΣW), α WᵀΣW₀ and α WᵀΣS; N loses the identity.
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
    solve(L, R, F, 0, 2 * R)
    solve(L, R, H, 0, n)
    for r in range(R):
        for k in range(R):
            H[r, k] = -alpha * (F[r, R + k] + H[r, k])
            F[r, R + k] = 0.0
        for j in range(R, n):
            F[j, r] = -H[r, j]
            H[r, j] *= alpha


@inner
def fall(Ups0, Ups, at, w, u):
    """Row 1 of u = a = Υ₀ − Υ."""
    x0, x = Ups0[at : at + w], Ups[at : at + w]
    for p in range(w):
        u[1, p] = x0[p] - x[p]


@inlined
def bbb_step(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha, b):
    """One iteration of BBB from the prior (mu0, Ups0, W0) and the iterate (mu, Ups, Wt), which it changes. Twin of dlr.bbb_woodbury.

    With A = Υ⁻¹W, M = I + WᵀA, a = Υ₀ − Υ and N = Aᵀ Diag(a) A: ΣW = AM⁻¹, ΣX = Υ⁻¹X − A C with C = M⁻¹AᵀX = WᵀΣX for X = W₀ and S,
    WᵀΣW = M⁻¹(M − I), and ΣDiag(a)ΣW = aΥ⁻¹ΣW − ΣW N M⁻¹. So one reading of the state gives all small matrices, one more the step.
    """
    P, width, R = len(mu), b.X.shape[1], Wt.shape[0]
    n = 2 * R + rows.shape[0]
    clear(b.H, 0)
    clear(b.T, 0)
    clear(b.X, 0)
    clear(b.Y, 0)
    clear(b.Z, 0)
    for at in range(0, P, width):
        w = min(width, P - at)
        load(rows, 1.0, at, w, b.X, load(W0, 1.0, at, w, b.X, load(Wt, 1.0, at, w, b.X, 0)))
        inverse(Ups, at, w, b.u)
        fall(Ups0, Ups, at, w, b.u)
        weigh(b.X, R, b.u[0], w, b.Y)
        weigh(b.Y, R, b.u[1], w, b.Z)
        gram(b.Z, R, b.Y, R, w, b.T, True)
        for p in range(w):
            b.Y[R, p] = mu0[at + p] - mu[at + p]
        gram(b.Y, R + 1, b.X, n, w, b.H, True)
    if not cholesky(b.H, R, b.J):
        return LOST
    for r in range(R):
        if b.H[r, r] > BEYOND:
            return ELSEWHERE
        b.size[r] = b.H[R, R + r]  # W₀ᵀ(μ₀ − μ)
    bbb_small(R, n, alpha, b.H, b.T, b.J, b.V)
    wrong, below = 0.0, 0
    for at in range(0, P, width):
        w = min(width, P - at)
        inverse(Ups, at, w, b.u)
        fall(Ups0, Ups, at, w, b.u)
        u = b.u[0]
        load_weighed(rows, u, at, w, b.X, load_weighed(W0, u, at, w, b.X, load_weighed(Wt, u, at, w, b.X, 0)))
        pulled(b.X, b.size, R, at, w, mu0, Ups0, mu, Ups, g, b.u[2])
        for p in range(w):
            b.u[1, p] *= u[p]
        combine(b.V, n, R, b.X, w, b.Z)  # ΣW, then what ΣW₀ and ΣS differ by from Υ⁻¹W₀ and Υ⁻¹S
        combine(b.T, R, R, b.Z, w, b.Y)
        curve(b.X, b.Y, b.Z, R, n, b.u, w, 0.5 * alpha, Ups, at)
        combine(b.H, R, n, b.Z, w, b.Y)
        for r in range(R):
            for p in range(w):
                b.Y[r, p] += alpha * b.u[1, p] * b.Z[r, p]
        more = advance(at, w, alpha, b.u[2], mu, Ups)
        wrong += more[0] + add_rows(b.Y, R, at, w, Wt)
        below += more[1]
    return verdict(wrong, below, R)


@inner
def pulled(X, s, R, at, w, mu0, Ups0, mu, Ups, g, pull):
    """pull = (Υ₀ + W₀W₀ᵀ)(μ₀ − μ) + g in a block, s = W₀ᵀ(μ₀ − μ), W₀ in the rows of X from R on, divided by Υ. Twin of dlr._pull."""
    for p in range(w):
        pull[p] = 0.0
    for r in range(R):
        for p in range(w):
            pull[p] += s[r] * X[R + r, p]
    for p in range(w):
        pull[p] = Ups0[at + p] * (mu0[at + p] - mu[at + p]) + Ups[at + p] * pull[p] + g[at + p]


@inner
def curve(X, Y, Z, R, n, u, w, half, Ups, at):
    """Υ gains half of diag(ΣDiag(a)Σ) − diag(ΣWWᵀΣ), then ΣW₀ and ΣS are completed and Υ gains half of their squares."""
    new = Ups[at : at + w]
    for p in range(w):
        new[p] += half * u[0, p] * u[1, p]
    for r in range(R):
        for p in range(w):
            new[p] += half * Z[r, p] * (Y[r, p] - 2.0 * u[1, p] * X[r, p])
    for j in range(R, n):
        for p in range(w):
            Z[j, p] += X[j, p]
            new[p] += half * Z[j, p] * Z[j, p]


# --- dynamics ----------------------------------------------------------------------------------------------------------------


@inner
def predict_step(mu, Ups, Wt, f, c, q, b):
    """The prior of the next step, in place, for mean f μ + c and variance q. Twin of dynamics._predict_dlr."""
    P, R, width, some, odd = len(mu), Wt.shape[0], b.X.shape[1], 0, 0
    clear(b.H, 0)
    clear(b.V, 0)
    clear(b.X, 0)
    clear(b.Y, 0)
    for at in range(0, P, width):
        w = min(width, P - at)
        u, fi, qi = Ups[at : at + w], f[at : at + w], q[at : at + w]
        for p in range(w):
            b.u[0, p] = qi[p] / (fi[p] * fi[p] + qi[p] * u[p])
            some += 0 if fi[p] == 0.0 else 1
            odd += 1 if fi[p] == 0.0 and qi[p] == 0.0 else 0
        load(Wt, 1.0, at, w, b.X, 0)
        weigh(b.X, R, b.u[0], w, b.Y)
        gram(b.Y, R, b.X, R, w, b.H, True)
    if odd > 0 or some == 0 or not cholesky(b.H, R, b.J):
        return ELSEWHERE
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
            b.u[0, p] = fi[p] / n
            m[p] = fi[p] * m[p] + ci[p]
            u[p] /= n
            wrong += 0.0 * (m[p] + u[p])
            below += 0 if u[p] > 0.0 else 1
        load(Wt, 1.0, at, w, b.X, 0)
        weigh(b.X, R, b.u[0], w, b.X)
        combine(b.V, R, R, b.X, w, b.Y)
        for r in range(R):
            o = Wt[r, at : at + w]
            for p in range(w):
                o[p] = b.Y[r, p]
                wrong += 0.0 * o[p]
    return OK if wrong == 0.0 and below == 0 else ELSEWHERE


# --- entry points on arrays ----------------------------------------------------------------------------------------------------


@kernel
def bong_arrays(mu, Ups, Wt, g, rows):
    """Twin of dlr.bong_woodbury, in place; returns the code."""
    b = buffers(Wt.shape[0] + rows.shape[0])
    return absorb(1.0, Wt, 1.0, Wt[:0], 1.0, rows, g, 1.0, mu, Ups, Wt, b)


@kernel
def blr_arrays(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha):
    """Twin of dlr.blr_woodbury; the iterate is changed in place; returns the code."""
    return blr_step(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha, np.empty_like(mu), buffers(2 * Wt.shape[0] + rows.shape[0]))


@kernel
def bog_arrays(mu, Ups, Wt, g, rows, alpha):
    """Twin of dlr.bog_woodbury, in place; returns the code."""
    return bog_step(mu, Ups, Wt, g, rows, alpha, buffers(Wt.shape[0] + rows.shape[0]))


@kernel
def bbb_arrays(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha):
    """Twin of dlr.bbb_woodbury; the iterate is changed in place; returns the code."""
    return bbb_step(mu0, Ups0, W0, mu, Ups, Wt, g, rows, alpha, buffers(2 * Wt.shape[0] + rows.shape[0]))


@kernel
def predict_arrays(mu, Ups, Wt, f, c, q):
    """Twin of dynamics._predict_dlr, in place; returns the code."""
    return predict_step(mu, Ups, Wt, f, c, q, buffers(Wt.shape[0]))


@kernel
def triangle_arrays(A, T):
    """T Tᵀ gains A Aᵀ for the rows of A (n, P), T (n, n) lower triangular. Twin of linalg._triangular."""
    n, P = A.shape
    b = buffers(n)
    width = b.X.shape[1]
    for i in range(n):
        for j in range(i + 1):
            b.T[i, j] = T[i, j]
    for at in range(0, P, width):
        w = min(width, P - at)
        load(A, 1.0, at, w, b.X, 0)
        triangle(b.X, n, w, b.T)
    for i in range(n):
        for j in range(i + 1):
            T[i, j] = b.T[i, j]


@kernel
def svd_arrays(A, V, size):
    """The right singular vectors of Aᵀ as the rows of V (n, n), and its singular values, for the rows of A (n, P). Twin of linalg.svd."""
    n, P = A.shape
    b = buffers(n)
    width = b.X.shape[1]
    for at in range(0, P, width):
        w = min(width, P - at)
        load(A, 1.0, at, w, b.X, 0)
        triangle(b.X, n, w, b.T)
    T = b.T.copy()
    if not directions(b.T, n, b.V, b.J, b.size, b.perm):
        return False
    for k in range(n):
        s = 0.0
        for j in range(n):  # |T v_k|, where T is lower triangular and v_k its left vector
            t = 0.0
            for i in range(j, n):
                t += T[i, j] * b.V[k, i]
            s += t * t
            V[k, j] = b.V[k, j]
        size[k] = math.sqrt(s)
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
    top = float(np.max(np.abs(Wt), initial=0))
    if not np.isfinite(top) or not svd_arrays(np.ldexp(Wt, -math.frexp(top)[1]), V, size):
        return dlr.project(Ups_tilde, W_tilde, rank)
    out = V @ Wt
    return Ups_tilde + np.sum(out[rank:] ** 2, axis=0), np.ascontiguousarray(out[:rank].T)


def _copy(q: DLR) -> tuple[Any, Any, Any]:
    """mu, Ups and Wt as new arrays."""
    return np.array(q.mu, dtype=float), np.array(q.Ups, dtype=float), np.array(np.transpose(q.W), dtype=float, order="C")


def _curvature(curv: Curv) -> tuple[Any, Any]:
    """g and the rows Sᵀ as new arrays."""
    return np.array(curv.g, dtype=float), np.array(np.transpose(factor(curv)), dtype=float, order="C")

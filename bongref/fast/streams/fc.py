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

from typing import Any

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dsyr2, dsyrk, dtrmm, dtrmv, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from ...linalg import Array
from ...methods import FEW, Method
from ...states import FC
from ..estimators import Compiled, linearised
from ..jit import inner, kernel

ROOM = 32  # rows of V before A takes them up: a rank-k update of fewer runs below the speed of the processor
ONE_BY_ONE = 8  # up to so many columns are multiplied with A one by one, more in one call
EPS = float(np.finfo(float).eps)
PARALLEL = 32 * EPS  # g is a multiple of a single row if it is to this, relative to its largest entry
LOSS = 64.0  # the rounding that Woodbury's identity may cost bog, in units of the largest entry of the result

Dyn = tuple[Array, Array, Array] | None


# --- kernels ---------------------------------------------------------------------------------------------------------------


@inner
def _symv(A, x, y):
    """y = A x for a symmetric A (n, n), of which the upper triangle is read once, four rows at a time."""
    n = x.shape[0]
    for i in range(n):
        y[i] = 0.0
    whole = n - n % 4
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        a0, a1, a2, a3 = A[i], A[i + 1], A[i + 2], A[i + 3]
        s0 = a0[i] * x0 + a0[i + 1] * x1 + a0[i + 2] * x2 + a0[i + 3] * x3
        s1 = a0[i + 1] * x0 + a1[i + 1] * x1 + a1[i + 2] * x2 + a1[i + 3] * x3
        s2 = a0[i + 2] * x0 + a1[i + 2] * x1 + a2[i + 2] * x2 + a2[i + 3] * x3
        s3 = a0[i + 3] * x0 + a1[i + 3] * x1 + a2[i + 3] * x2 + a3[i + 3] * x3
        b0, b1, b2, b3, xs, ys = a0[i + 4 :], a1[i + 4 :], a2[i + 4 :], a3[i + 4 :], x[i + 4 :], y[i + 4 :]
        for j in range(n - i - 4):  # from 0: an index that cannot be negative lets the compiler use the vector units
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
    for i in range(whole, n):
        s = A[i, i] * x[i]
        for j in range(i + 1, n):
            s += A[i, j] * x[j]
            y[j] += A[i, j] * x[i]
        y[i] += s


@inner
def _deferred(V, s, n, x, y):
    """y −= Σₖ sₖ Vₖ (Vₖ·x) over the first n rows, four at a time."""
    P = x.shape[0]
    whole = n - n % 4
    for k in range(0, whole, 4):
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
    for k in range(whole, n):
        row, dot = V[k], 0.0
        for i in range(P):
            dot += row[i] * x[i]
        dot *= s[k]
        for i in range(P):
            y[i] -= dot * row[i]


@inner
def _times(A, c, q, V, s, n, x, y):
    if c == 0.0:  # nothing in A
        for i in range(x.shape[0]):
            y[i] = q[i] * x[i]
    else:
        _symv(A, x, y)
        for i in range(x.shape[0]):
            y[i] = c * y[i] + q[i] * x[i]
    _deferred(V, s, n, x, y)


@kernel
def times(A, c, q, V, s, n, x, y):
    """y = Σ x, Σ = c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ; in the reference ``Sigma @ x``."""
    _times(A, c, q, V, s, n, x, y)


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


@kernel
def one_row(A, c, q, V, s, n, x, g, mu, v, natural, tolerance):
    """fc_nat.bong_woodbury (``natural``) or fc_mom.bong_lowrank with one column x that g is a multiple of.

    Puts the new row of Σ into V[n] and moves mu. Returns 1; or 0 if the result is no Gaussian; or 2, with v = Σx and nothing changed,
    if g is no multiple of x.
    """
    _times(A, c, q, V, s, n, x, v)
    beta, parallel = _multiple(g, x, tolerance)
    if not parallel:
        return 2
    xv = 0.0
    for i in range(x.shape[0]):
        xv += x[i] * v[i]
    pivot = 1.0 + xv if natural else 1.0 - xv
    if not (pivot > 0.0 and xv >= 0.0):
        return 0
    scale = 1.0 / np.sqrt(pivot) if natural else 1.0
    gain = beta / pivot if natural else beta
    row = V[n]
    bad = pivot * 0.0
    for i in range(x.shape[0]):
        row[i] = scale * v[i]
        mu[i] += gain * v[i]
        bad += mu[i] * 0.0 + row[i] * 0.0
    s[n] = 1.0
    return 1 if bad == 0.0 else 0


@kernel
def put_off(V, s, n, x, g, mu, alpha):
    """fc_mom.bog with one column x: the new row of Σ into V[n]. Returns 1, or 0 if something is not finite."""
    row, root, bad = V[n], np.sqrt(0.5 * alpha), 0.0
    for i in range(x.shape[0]):
        row[i] = root * x[i]
        mu[i] += alpha * g[i]
        bad += mu[i] * 0.0 + row[i] * 0.0
    s[n] = 1.0
    return 1 if bad == 0.0 else 0


@kernel
def several(net, work, lik, hess, X, Y, seen, t, A, c, q, V, s, n, room, mu, v, natural, tolerance, alpha, cotangents, rows, g):
    """:func:`linearised` and :func:`one_row`, or with alpha > 0 :func:`put_off`, for the observations t, t + 1, … until V is full.

    Returns the next step, the rows of V in use, and what was returned last: it stops at a step that is not of that kind.
    """
    while t < len(X) and n < room:
        if seen[t]:
            linearised(net, work, lik, hess, X[t], Y[t], mu, cotangents, rows, g)
            if alpha > 0.0:
                code = put_off(V, s, n, rows[0], g, mu, alpha)
            else:
                code = one_row(A, c, q, V, s, n, rows[0], g, mu, v, natural, tolerance)
            if code != 1:
                return t, n, code
            n += 1
        t += 1
    return t, n, 1


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


def _sym(a: Array) -> Array:
    return (a + a.T) / 2


def _full(a: Array) -> Array:
    """The symmetric matrix whose lower triangle is valid in a, as a new array."""
    out = np.empty(a.shape)
    mirror(a.T, out)
    return out


def _signed(B: Array, V: Array, T: Array) -> tuple[Array, Array]:
    """(W, s) with VᵀBV = Σₖ sₖ Wₖ Wₖᵀ for rows V of any sizes: B is first brought to the sizes √diag(T)."""
    size = np.sqrt(np.diag(T))
    size[~(size > 0)] = 1
    lam, E = np.linalg.eigh(_sym(B) * np.outer(size, size))
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
    """Σ = c·A + Diag(q) − Σₖ sₖ Vₖ Vₖᵀ and mu; predict, samples, state. A rule adds ``step``."""

    def __init__(self, m: Method, state: FC, dyn: Dyn):
        P = len(state.mu)
        self.m, self.dyn, self.P = m, dyn, P
        self.alpha, self.natural = m.params.get("alpha", 1.0), m.family == "fc"
        self.mu = np.array(state.mu, dtype=float)
        self.A = np.array(state.Sigma, dtype=float, order="F")
        self.rows, self.diagonal = self.A.T, self.A.T.reshape(-1)[:: P + 1]  # the same numbers by rows, and those of the diagonal
        self.c, self.q, self.n = 1.0, np.zeros(P), 0
        if not np.any(self.A - np.diag(self.diagonal)):  # a diagonal: as long as A is empty it need not be read
            self.c, self.q = 0.0, self.diagonal.copy()
        self.room = ROOM if self.c else max(ROOM, P // 3)
        self.V, self.s, self.v = np.zeros((self.room, P)), np.ones(self.room), np.zeros(P)
        self.R: Array = np.zeros((0, 0))  # the Cholesky factor, once it is needed
        self.factored, self.ok = False, True

    # the matrix

    def flush(self) -> None:
        """Let A take up everything that was put off."""
        self._take_up(self.A)
        self.q[:] = 0
        self.n, self.c, self.room = 0, 1.0, ROOM

    def _take_up(self, A: Array) -> None:
        """Everything that was put off into A."""
        n, c = self.n, self.c
        for sign in (1.0, -1.0):
            here = self.V[:n][self.s[:n] == sign] if np.any(self.s[:n] != 1) else self.V[: n if sign > 0 else 0]
            if len(here):
                dsyrk(-sign, here.T, beta=c, c=A, lower=1, overwrite_c=1)
                c = 1.0
        if c != 1:
            A *= c
        A.T.reshape(-1)[:: self.P + 1] += self.q

    def subtract(self, W: Array, s: Array | None = None) -> None:
        """Σ − Σₖ sₖ Wₖ Wₖᵀ for the rows of W, all with s = 1 if none is given."""
        k, self.factored = len(W), False
        if k > self.room - self.n and k > ROOM and s is None:
            self.flush()
            dsyrk(-1.0, W.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
            return
        for first in range(0, k, ROOM):
            part = W[first : first + ROOM]
            if self.n + len(part) > self.room:
                self.flush()
            here = slice(self.n, self.n + len(part))
            self.V[here] = part
            self.s[here] = 1.0 if s is None else s[first : first + ROOM]
            self.n += len(part)

    def times(self, x: Array) -> Array:
        y = np.empty(self.P)
        times(self.rows, self.c, self.q, self.V, self.s, self.n, x, y)
        return y

    def times_rows(self, X: Array) -> Array:
        """The rows X Σ for rows X (K, P)."""
        Y = np.empty(X.shape)
        if len(X) > ONE_BY_ONE:
            self.flush()
            return dsymm(1.0, self.A, X.T, lower=1, c=Y.T, overwrite_c=1).T
        for x, y in zip(X, Y, strict=True):
            times(self.rows, self.c, self.q, self.V, self.s, self.n, x, y)
        return Y

    def times_gradient(self, g: Array, rows: Array, V: Array) -> Array:
        """Σg, given V = rows Σ."""
        beta, parallel = multiple(g, rows[0], PARALLEL) if len(rows) == 1 else (0.0, False)
        return beta * V[0] if parallel else self.times(g)

    def factor(self) -> bool:
        """The Cholesky factor of Σ into R; False if there is none."""
        if not self.factored:
            self.flush()
            if not len(self.R):
                self.R = np.zeros((self.P, self.P), order="F")
            np.copyto(self.R, self.A)
            self.factored = dpotrf(self.R, lower=1, clean=0, overwrite_a=1)[1] == 0
            self.factored = self.factored and _finite(self.R.T.reshape(-1)[:: self.P + 1])
        return self.factored

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
            self.c *= gamma**2
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
        """Steps of bong, or of bog in moments, from observation t on, in machine code.

        Returns the step that is left to :meth:`step`, and whether all is well.
        """
        code = 1
        while t < len(X) and code == 1:
            if self.n == self.room:
                self.flush()
            state = self.rows, self.c, self.q, self.V, self.s, self.n, self.room, self.mu, self.v, self.natural, PARALLEL
            alpha = self.alpha if self.m.rule == "bog" else 0.0
            t, self.n, code = several(*estimator.description, X, Y, seen, t, *state, alpha, estimator.V, estimator.rows, estimator.g)
            self.factored = False
        return t, code != 0

    def begin(self) -> None:
        self.mu0 = self.mu.copy()

    def draw(self, Z: Array, out: Array) -> None:
        """gaussians.draw of the rows Z of standard normals."""
        if not self.factor():
            self.ok = False
            out.fill(np.nan)
            return
        np.copyto(out, Z)
        out[:] = dtrmm(1.0, self.R, out.T, lower=1, overwrite_b=1).T
        out += self.mu

    def step(self, g: Array, rows: Array) -> bool | None:
        raise NotImplementedError

    def end(self) -> None:
        pass

    def state(self) -> FC:
        """A copy; what was put off stays so, so that looking does not change what comes."""
        A = self.A.copy(order="F")
        self._take_up(A)
        return FC(self.mu.copy(), _full(A))


class _Bong(_Moments):
    """fc_nat.bong_woodbury, fc_mom.bong_lowrank."""

    def step(self, g: Array, rows: Array) -> bool:
        if len(rows) > 1:
            return self._many(g, rows, self.times_rows(rows))
        if self.n == self.room:
            self.flush()
        x = rows[0]
        done = one_row(self.rows, self.c, self.q, self.V, self.s, self.n, x, g, self.mu, self.v, self.natural, PARALLEL)
        if done == 2:
            return self._many(g, rows, self.v.copy()[None])
        self.n += 1
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
        self.subtract(V)
        return self.ok and _finite(self.mu, V)


class _BogMom(_Moments):
    """fc_mom.bog. Σ only ever shrinks, so that a lost positive definiteness stays lost until the check, or until a Q is added."""

    def predict(self) -> None:
        if self.dyn is not None:
            self.ok = self.ok and self.factor()
        super().predict()

    def step(self, g: Array, rows: Array) -> bool:
        self.mu += self.alpha * g
        self.subtract(np.sqrt(self.alpha / 2) * rows)
        return self.ok and _finite(self.mu, rows)


class _BogNat(_Moments):
    """fc_nat.bog_woodbury; ``step`` gives None, with nothing changed, where that would cost digits."""

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
        variance = self.c * self.diagonal + self.q - self.s[: self.n] @ self.V[: self.n] ** 2
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

    def begin(self) -> None:
        super().begin()
        self.k = 0

    def _take(self, rows: Array) -> slice:
        """Put rows, their products and their Gram matrix behind those of the iterations before."""
        K, n = len(rows), self.m.n_iter * len(rows)
        if self.k == 0 and (not hasattr(self, "U") or len(self.U) != n):
            self.U, self.UV, self.T = np.empty((n, self.P)), np.empty((n, self.P)), np.empty((n, n))
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
        self.subtract(dtrsm(1.0, L, (root[:, None] * V[some]).T, side=1, lower=1, trans_a=1, overwrite_b=1).T)


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
    """fc_mom.blr: Σ Λ₀ Σ as XᵀX with X = L₀⁻¹Σ, and no inverse. In the first iteration it is Σ."""

    def begin(self) -> None:
        super().begin()
        self.ok = self.ok and self.factor()
        self.L0 = self.R.copy(order="F") if self.m.n_iter > 1 else self.R
        self.first = True

    def step(self, g: Array, rows: Array) -> bool:
        alpha = self.alpha
        V = self.times_rows(rows)
        self.flush()
        self.mu += alpha * self.times(dpotrs(self.L0, self.mu0 - self.mu, lower=1)[0] + g)
        if not self.first:
            self.R[:] = _full(self.A)
            X = dtrsm(1.0, self.L0, self.R, lower=1, overwrite_b=1)
            dsyrk(-alpha, X, trans=1, beta=1 + alpha, c=self.A, lower=1, overwrite_c=1)
        dsyrk(-alpha, V.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
        self.first = self.factored = False
        return self.ok and _finite(self.mu) and self.factor()


class _BbbMomPlain(_Moments):
    """fc_mom.bbb: one inverse for each iteration after the first, in which Σ⁻¹ = Λ₀."""

    def begin(self) -> None:
        super().begin()
        self.ok = self.ok and self.factor()
        self.flush()
        self.first = True
        if self.m.n_iter > 1:
            self.prec0 = dpotri(self.R.copy(order="F"), lower=1, overwrite_c=1)[0]

    def go_on(self, current: FC) -> None:
        """Continue an inner loop at that iterate."""
        self.mu[:], self.A[:], self.first, self.factored = current.mu, current.Sigma, False, False
        self.ok = self.ok and self.factor()

    def step(self, g: Array, rows: Array) -> bool:
        alpha = self.alpha
        if not self.first:
            self.mu += alpha * dsymv(1.0, self.prec0, self.mu0 - self.mu, lower=1)
            dpotri(self.R, lower=1, overwrite_c=1)
            self.R -= self.prec0
            self.R *= alpha / 2
            self.A += self.R
        self.mu += alpha * g
        dsyrk(-alpha / 2, rows.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
        self.first = self.factored = False
        return self.ok and _finite(self.mu) and self.factor()


class _Krylov(_Moments):
    """An inner loop of bbb in an orthonormal basis Q of few vectors, the rows of Q: a change QᵀeQ of the prior's precision or covariance.

    With the other one of the two, H, a matrix (P, P) that is multiplied with each vector of Q once: Z = QH, T = QZᵀ. Each iteration
    brings new vectors and makes those of Z part of the basis. ``step`` gives None, with nothing changed, where that would cost digits
    or where the vectors are no longer few.
    """

    def begin(self) -> None:
        super().begin()
        room = self.P // 2
        if not hasattr(self, "Q"):
            self.Q, self.Z, self.T = np.empty((room, self.P)), np.empty((room, self.P)), np.empty((room, room))
        self.k, self.taken = 0, 0  # vectors in Q; those whose products are in the span of Q
        self.e = self.X = np.zeros((0, 0))  # the change, and X = (I + eT)⁻¹

    def apply(self, rows: Array) -> Array:
        """rows H."""
        raise NotImplementedError

    def extend(self, rows: Array) -> bool:
        """Take what is new in the products Z of the last iteration and in rows into the basis; False if there is no room."""
        k = self.k
        for x in (*self.Z[self.taken : k], *rows):
            y = x.copy()
            size = before = float(np.linalg.norm(x))
            for _ in range(3):
                y -= (self.Q[: self.k] @ y) @ self.Q[: self.k]
                after = float(np.linalg.norm(y))
                if 2 * after > before:
                    break
                before = after
            if not after > 64 * EPS * size:
                continue
            if self.k == len(self.Q):
                return False
            self.Q[self.k] = y / after
            self.k += 1
        new, self.taken = slice(k, self.k), k
        self.Z[new] = self.apply(self.Q[new])
        self.T[new, : self.k] = self.Z[new] @ self.Q[: self.k].T
        self.T[:k, new] = self.T[new, :k].T
        self.T[new, new] = _sym(self.T[new, new])
        return True

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
        return np.pad(a, (0, self.k - len(a)))

    def plain(self) -> Any:
        raise NotImplementedError


class _BbbNat(_Krylov):
    """fc_nat.bbb: Σᵢ⁻¹ = Σ₀⁻¹ + QᵀeQ, μᵢ = μ₀ − Zᵀw, with Z = QΣ₀; Σᵢ = Σ₀ − ZᵀmZ with m = Xe; Σᵢ − ΣᵢΣ₀⁻¹Σᵢ = Zᵀ(XeXᵀ)Z."""

    def begin(self) -> None:
        super().begin()
        self.w = np.zeros(0)

    def apply(self, rows: Array) -> Array:
        return self.times_rows(rows)

    def step(self, g: Array, rows: Array) -> bool | None:
        alpha, k, e, w, X = self.alpha, self.k, self.e, self.w, self.X
        S0 = self.times_rows(rows)
        g0 = self.times_gradient(g, rows, S0)
        back = self.k, self.taken
        if not _finite(S0, g0) or not self.extend(np.concatenate([self.mu0[None][: k == 0], S0, g0[None]])):
            self.k, self.taken = back
            return None
        Q, Z, T = self.Q[: self.k], self.Z[: self.k], self.T[: self.k, : self.k]
        J, m, Zk = T[:, :k], X @ e, Z[:k]
        a = Q @ self.mu
        r = Q @ g0 + J @ (w - m @ (Zk @ g + T[:k, :k] @ w))
        V = Q @ S0.T - J @ (m @ (Zk @ rows.T))
        ra = np.outer(r, a)
        D = -2 * alpha * (ra + ra.T + _sym(J @ (X @ e @ X.T) @ J.T) - V @ V.T)
        e = self.grown(e) + D
        found = self.invert(e)
        if found is None or not found[1] * self._loss(found[0] @ e) <= LOSS:
            self.k, self.taken = back
            return None
        self.e, self.X = e, found[0]
        self.w = self.grown(w) - self.X @ (alpha * r - D @ a)
        self.mu[:] = self.mu0 - self.w @ Z
        return self.ok and _finite(self.mu)

    def _loss(self, m: Array) -> float:
        """The size of what Σ₀ − ZᵀmZ is a difference of, beside that of the result."""
        Z, variance = self.Z[: self.k], self.c * self.diagonal + self.q - self.s[: self.n] @ self.V[: self.n] ** 2
        less = np.einsum("ki,ki->i", _sym(m) @ Z, Z)
        return float(max(np.max(variance), np.max(np.abs(less))) / np.max(variance - less))

    def end(self) -> None:
        if self.k:
            T = self.T[: self.k, : self.k]
            self.subtract(*_signed(self.X @ self.e, self.Z[: self.k], T))

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
    """fc_mom.bbb: Σᵢ = Σ₀ + QᵀeQ; Σᵢ⁻¹ − Σ₀⁻¹ = −ZᵀmZ with m = Xe and Z = QΣ₀⁻¹, by the Cholesky factor of Σ₀."""

    def begin(self) -> None:
        super().begin()
        self.ok = self.ok and self.factor()

    def apply(self, rows: Array) -> Array:
        return dpotrs(self.R, rows.T, lower=1)[0].T

    def step(self, g: Array, rows: Array) -> bool | None:
        alpha, k = self.alpha, self.k
        back = self.k, self.taken
        if not _finite(rows, g):
            return False
        if not self.extend(rows):
            self.k, self.taken = back
            return None
        J, S = self.T[: self.k, :k] @ self.X @ self.e, self.Q[: self.k] @ rows.T
        e = self.grown(self.e) - alpha / 2 * (_sym(J @ self.T[:k, : self.k]) + S @ S.T)
        found = self.invert(e)
        if found is None:
            return False
        if not found[1] * self._loss(e) <= LOSS:
            self.k, self.taken = back
            return None
        self.e, self.X = e, found[0]
        if k:
            self.mu += alpha * self.apply(self.mu0 - self.mu)
        self.mu += alpha * g
        return self.ok and _finite(self.mu)

    def _loss(self, e: Array) -> float:
        """The size of what Σ₀ + QᵀeQ is a difference of, beside that of the result."""
        Q = self.Q[: self.k]
        more = np.einsum("ki,ki->i", e @ Q, Q)
        return float(max(np.max(self.diagonal), np.max(np.abs(more))) / np.max(self.diagonal + more))

    def end(self) -> None:
        if self.k:
            W, s = _signed(self.e, self.Q[: self.k], np.eye(self.k))
            self.subtract(W, -s)

    def plain(self) -> _Moments:
        form = _BbbMomPlain(self.m, FC(self.mu0, _full(self.A)), self.dyn)
        form.begin()
        if self.k:
            self.end()
            form.go_on(FC(self.mu, self.state().Sigma))
        return form


# --- Λ between the steps ---------------------------------------------------------------------------------------------------


class _Precision:
    """Λ = Σ⁻¹ with its Cholesky factor R, all parameters in reverse order but for mu. A rule adds ``step``."""

    def __init__(self, m: Method, state: FC, dyn: Dyn):
        P = len(state.mu)
        self.m, self.P, self.alpha = m, P, m.params.get("alpha", 1.0)
        self.dyn = None if dyn is None else tuple(np.flip(a).copy() for a in dyn)
        self.mu, self.ok = np.array(state.mu, dtype=float), True
        self.A, self.R = np.empty((P, P), order="F"), np.empty((P, P), order="F")
        self.R[:] = state.Sigma[::-1, ::-1]
        self._from_covariance()

    def _from_covariance(self) -> None:
        """Λ and its factor from the covariance in R."""
        self.ok = self.ok and dpotrf(self.R, lower=1, clean=0, overwrite_a=1)[1] == 0
        dpotri(self.R, lower=1, overwrite_c=1)
        np.copyto(self.A, self.R)
        self.ok = self.factor() and self.ok

    def factor(self) -> bool:
        """The Cholesky factor of Λ into R; False if there is none."""
        np.copyto(self.R, self.A)
        info = dpotrf(self.R, lower=1, clean=0, overwrite_a=1)[1]
        return info == 0 and _finite(self.R.T.reshape(-1)[:: self.P + 1])

    def solve(self, x: Array) -> Array:
        """Σx of a vector, or XΣ of rows X, in reverse order, by the factor."""
        return dpotrs(self.R, x.T, lower=1)[0].T

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
        Sigma = _full(dpotri(self.R, lower=1, overwrite_c=1)[0])
        self.R[:] = F[:, None] * Sigma * F if F.ndim == 1 else F @ Sigma @ F.T
        if Q.ndim == 1:
            self.R.T.reshape(-1)[:: self.P + 1] += Q
        else:
            self.R += Q
        self._from_covariance()

    def begin(self) -> None:
        self.mu0 = self.mu.copy()

    def draw(self, Z: Array, out: Array) -> None:
        """gaussians.draw of the rows Z of standard normals."""
        X = np.ascontiguousarray(Z[:, ::-1])
        X = dtrsm(1.0, self.R, X.T, lower=1, trans_a=1, overwrite_b=1).T
        np.add(X[:, ::-1], self.mu, out=out)

    def step(self, g: Array, rows: Array) -> bool:
        raise NotImplementedError

    def end(self) -> None:
        pass

    def state(self) -> FC:
        Sigma = _full(dpotri(self.R, lower=1)[0])
        return FC(self.mu.copy(), np.ascontiguousarray(Sigma[::-1, ::-1]))


def _reversed(g: Array, rows: Array) -> tuple[Array, Array]:
    return np.ascontiguousarray(g[::-1]), np.ascontiguousarray(rows[:, ::-1])


class _BongPrecision(_Precision):
    """fc_nat.bong."""

    def step(self, g: Array, rows: Array) -> bool:
        g, rows = _reversed(g, rows)
        dsyrk(1.0, rows.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
        if not self.factor():
            return False
        self.move(self.solve(g))
        return self.ok and _finite(self.mu)


class _BlrPrecision(_Precision):
    """fc_nat.blr."""

    def begin(self) -> None:
        super().begin()
        if self.m.n_iter > 1:
            if not hasattr(self, "A0"):
                self.A0 = np.empty((self.P, self.P), order="F")
            np.copyto(self.A0, self.A)
        self.first = True

    def step(self, g: Array, rows: Array) -> bool:
        alpha = self.alpha
        g, rows = _reversed(g, rows)
        if self.first:  # Λ = Λ₀
            pull = g
            dsyrk(alpha, rows.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
        else:
            pull = dsymv(1.0, self.A0, (self.mu0 - self.mu)[::-1], lower=1) + g
            dsyrk(alpha, rows.T, beta=1 - alpha, c=self.A, lower=1, overwrite_c=1)
            _add(self.A, alpha, self.A0)
        self.first = False
        if not self.factor():
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
        dsyrk(2 * alpha, V.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
        if not self.factor():
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
            self.R[:] = _full(dpotri(self.R, lower=1, overwrite_c=1)[0])
            _add(self.A, -2 * alpha, self.R)
            X = dtrmm(1.0, self.L0, self.R, lower=1, trans_a=1, overwrite_b=1)
            dsyrk(2 * alpha, X, trans=1, beta=1.0, c=self.A, lower=1, overwrite_c=1)
        dsyr2(-2 * alpha, r, mu, a=self.A, lower=1, overwrite_a=1)
        dsyrk(2 * alpha, V.T, beta=1.0, c=self.A, lower=1, overwrite_c=1)
        self.first = False
        if not self.factor():
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

    def draw(self, Z: Array, out: Array) -> None:
        self.form.draw(Z, out)

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

    def state(self) -> FC:
        return self.form.state()

    def several(self, *args: Any) -> tuple[int, bool]:
        return self.form.several(*args)

    @property
    def ok(self) -> bool:
        """Whether every step so far had something to start from."""
        return self.form.ok

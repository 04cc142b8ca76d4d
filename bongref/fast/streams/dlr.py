"""Streams in the DLR family: the compiled loops for lin-hess and lin-ef, and the belief for the loop in Python (mc-ef, wrapped models)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...methods import Method
from ...states import DLR
from ..jit import inlined, inner, kernel
from ..kernels.dlr import (
    ELSEWHERE,
    INFINITE,
    OK,
    absorb,
    bbb_arrays,
    bbb_step,
    blr_arrays,
    blr_step,
    bog_arrays,
    bog_step,
    bong_arrays,
    buffers,
    predict_arrays,
    predict_step,
    svd_arrays,
    triangle_arrays,
)
from ..likelihoods import info_rows, score
from ..networks import forward, sweep

BLOCK = 1000  # columns of W̃ᵀ at a time for BLAS; a power of 2 would put all rows into the same places of the cache
ROWS = 16  # samples that are placed at once
WIDE = 40  # rows of W̃ from which BLAS and LAPACK are faster than the kernels


class NotHere(Exception):
    """A belief that these kernels do not cover (some Υ ≤ 0, numbers whose squares leave the range of float64): the reference does."""


# --- the loop in Python --------------------------------------------------------------------------------------------------------


class Belief:
    """A DLR belief that changes in place, one observation after the other. W is kept as Wt (R, P)."""

    ok = True  # every step is checked

    def __init__(self, m: Method, state: DLR, dyn: tuple[Any, Any, Any] | None):
        if not np.all(state.Ups > 0):
            raise NotHere
        self.rule, self.alpha = m.rule, float(m.params.get("alpha", 1))
        self.mu, self.Ups = np.array(state.mu, dtype=float), np.array(state.Ups, dtype=float)
        self.Wt = np.array(state.W.T, dtype=float, order="C")
        self.dyn = None if dyn is None else tuple(np.ascontiguousarray(a, dtype=float) for a in dyn)
        self.room: list[Any] = []
        self.prior = tuple(np.empty_like(a) for a in (self.mu, self.Ups, self.Wt)) if self.rule in ("blr", "bbb") else ()

    def predict(self) -> None:
        """Posterior → prior of the next step. Twin of dynamics._predict_dlr."""
        if self.dyn is not None and predict_arrays(self.mu, self.Ups, self.Wt, *self.dyn) != OK:
            raise NotHere

    def begin(self) -> None:
        """The inner loop starts at the prior."""
        for kept, now in zip(self.prior, (self.mu, self.Ups, self.Wt), strict=False):
            kept[...] = now

    def draw(self, Z: Any) -> None:
        """The rows of standard normals Z become θ̂, a few at a time. Twin of gaussians.draw."""
        R = len(self.Wt)
        root = np.sqrt(self.Ups)
        A, V, size = self.Wt / root, np.empty((R, R)), np.empty(R)
        if not svd_arrays(A, V, size):
            raise NotHere
        AV, h = V @ A, np.hypot(1, size)
        for k in range(0, len(Z), ROWS):
            z = Z[k : k + ROWS]
            shift_and_scale(z, self.mu, root, ((z @ AV.T) / (h + h**2)) @ AV)

    def step(self, g: Any, rows: Any) -> bool:
        """One step of the rule; False where the result is not a Gaussian."""
        now = self.mu, self.Ups, self.Wt
        if self.rule == "bong":
            many = len(self.Wt) + len(rows) > WIDE
            code = Wide([(1.0, self.Wt), (1.0, rows)], self.room).absorb(*now, g, 1.0) if many else bong_arrays(*now, g, rows)
        elif self.rule == "blr":
            code = self._blr_wide(g, rows) if 2 * len(self.Wt) + len(rows) > WIDE else blr_arrays(*self.prior, *now, g, rows, self.alpha)
        elif self.rule == "bog":
            code = bog_arrays(*now, g, rows, self.alpha)
        else:
            code = bbb_arrays(*self.prior, *now, g, rows, self.alpha)
        if code == ELSEWHERE:
            raise NotHere
        return code == OK

    def _blr_wide(self, g: Any, rows: Any) -> int:
        """One iteration of BLR with many rows. Twin of dlr.blr_woodbury."""
        mu0, Ups0, W0 = self.prior
        delta, a = mu0 - self.mu, self.alpha
        pull = Ups0 * delta + (W0 @ delta) @ W0 + g
        self.Ups *= 1 - a
        self.Ups += a * Ups0
        parts = [(np.sqrt(1 - a), self.Wt), (np.sqrt(a), W0), (np.sqrt(a), rows)]
        return Wide(parts, self.room).absorb(self.mu, self.Ups, self.Wt, pull, a)

    def end(self) -> None:
        """The iterate is the posterior."""

    def state(self) -> DLR:
        """The belief as a state of its own."""
        return DLR(self.mu.copy(), self.Ups.copy(), np.ascontiguousarray(self.Wt.T))


@kernel
def shift_and_scale(Z, mu, root, less):
    """Z = μ + (Z − less) / √Υ."""
    for i in range(Z.shape[0]):
        z, o = Z[i], less[i]
        for p in range(len(mu)):
            z[p] = mu[p] + (z[p] - o[p]) / root[p]


class Wide:
    """What kernels.dlr.absorb does, for many rows, by BLAS on blocks of columns: two blocks are all the memory it needs.

    W̃ᵀ has the rows ``parts``, pairs of a factor and an array; ``room`` keeps the blocks for the next step.
    """

    def __init__(self, parts: list[tuple[float, Any]], room: list[Any] | None = None):
        self.parts, self.n, P = parts, sum(len(a) for _, a in parts), parts[0][1].shape[1]
        self.slices = [slice(at, min(at + BLOCK, P)) for at in range(0, P, BLOCK)]
        shape, room = (self.n, min(P, BLOCK)), [] if room is None else room
        if not room or room[0].shape != shape:
            room[:] = np.empty(shape), np.empty(shape)
        self.A, self.B = room

    def block(self, cols: slice) -> Any:
        """The columns ``cols`` of W̃ᵀ."""
        A, at = self.A[:, : cols.stop - cols.start], 0
        for scale, rows in self.parts:
            np.multiply(rows[:, cols], scale, out=A[at : at + len(rows)])
            at += len(rows)
        return A

    def absorb(self, mu: Any, Ups: Any, Wt: Any, pull: Any, rate: float) -> int:
        """Twin of the Woodbury solve and of dlr.project."""
        n, R = self.n, len(Wt)
        G, H, h = np.zeros((n, n)), np.eye(n), np.zeros(n)
        for cols in self.slices:
            A, root = self.block(cols), np.sqrt(Ups[cols])
            G += A @ A.T
            B = np.divide(A, root, out=self.B[:, : A.shape[1]])
            H += B @ B.T
            h += B @ (pull[cols] / root)
        if not 1e-250 < np.max(np.diag(G)) < 1e250 or not np.all(np.isfinite(H)):
            return ELSEWHERE
        z, V = np.linalg.solve(H, h), self.leading(G, R)
        for cols in self.slices:
            A = self.block(cols)
            mu[cols] += rate * (pull[cols] - z @ A) / Ups[cols]
            Wt[:, cols], lost = self.parted(V, A)
            Ups[cols] += np.einsum("kp,kp->p", lost, lost)
        return OK if np.all(np.isfinite(mu)) and np.all(np.isfinite(Ups)) else ELSEWHERE

    def parted(self, V: Any, A: Any) -> tuple[Any, Any]:
        """Vᵀ A and A − V Vᵀ A, for orthonormal columns V: the squares of the second are those of the rows that W loses, in any basis."""
        X = V.T @ A
        lost = np.matmul(V, X, out=self.B[:, : A.shape[1]])
        return X, np.subtract(A, lost, out=lost)

    def leading(self, G: Any, R: int) -> Any:
        """The leading R left singular vectors of A = W̃ᵀ as columns (n, R), from G = A Aᵀ. Twin of linalg.svd.

        The eigenvectors of G separate the leading directions from the others up to eps (σ₁/σ_R)². What they leave is measured on A itself,
        which G's rounding has not touched, and turned away; where that is too much for a small turn, the triangular factor is used.
        """
        values, vectors = np.linalg.eigh(G)
        first, rest = vectors[:, ::-1][:, :R], vectors[:, : self.n - R]
        for _ in range(3):
            M, size = np.zeros((R, self.n)), np.zeros((R, 1))
            for cols in self.slices:
                X, lost = self.parted(first, self.block(cols))
                M += X @ lost.T
                size[:, 0] += np.einsum("kp,kp->k", X, X)
            gap = size - values[: self.n - R]
            if not np.min(gap, initial=np.inf) > 0:
                break
            theta = (M @ rest) / gap
            turn = np.max(np.abs(theta), initial=0)
            if not turn < 1e-5:
                break
            first = np.linalg.qr(first + rest @ theta.T)[0]
            if turn < 1e-8:
                return first
        T = np.zeros((self.n, self.n))
        for cols in self.slices:
            triangle_arrays(np.ascontiguousarray(self.block(cols)), T)
        return np.linalg.svd(T)[0][:, :R]


# --- compiled loops --------------------------------------------------------------------------------------------------------------


@inner
def finite(A):
    """Whether every entry is finite."""
    wrong = 0.0
    for i in range(A.shape[0]):
        a = A[i]
        for p in range(len(a)):
            wrong += 0.0 * a[p]
    return wrong == 0.0


@inner
def positive(Ups):
    """Whether every entry is > 0."""
    below = 0
    for p in range(len(Ups)):
        below += 0 if Ups[p] > 0.0 else 1
    return below == 0


@inlined
def linearised(net, work, lik, hess, mu, x, y, o, p, V, D):
    """D = g, followed for lin-hess (hess = 0) by the rows of Sᵀ; False where they are not finite. Twin of curvature.lin_hess and lin_ef."""
    forward(net, mu, x, work, o)
    score(lik, o, y, V[0], p)
    if hess == 0:
        info_rows(lik, o, V[1:], p)
    sweep(net, mu, x, work, V, D)
    return finite(D)


@kernel
def stream_bong(net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q):
    """BONG over a stream. Twin of filter.run with bong-lin-*-dlr."""
    C, P = Y.shape[1], len(mu)
    K = C if hess == 0 else 1
    first = 1 - hess
    o, p, V, D, b = np.empty(C), np.empty(C), np.empty((K + first, C)), np.empty((K + first, P)), buffers(Wt.shape[0] + K)
    if not positive(Ups):
        return 0, ELSEWHERE
    for t in range(X.shape[0]):
        code = OK
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            if not linearised(net, work, lik, hess, mu, X[t], Y[t], o, p, V, D):
                return t, INFINITE
            code = absorb(1.0, Wt, 1.0, Wt[:0], 1.0, D[first:], D[0], 1.0, mu, Ups, Wt, b)
        if code != OK:
            return t, code
    return X.shape[0], OK


@kernel
def stream_bog(net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q):
    """BOG over a stream. Twin of filter.run with bog-lin-*-dlr."""
    C, P = Y.shape[1], len(mu)
    K = C if hess == 0 else 1
    first = 1 - hess
    o, p, V, D, b = np.empty(C), np.empty(C), np.empty((K + first, C)), np.empty((K + first, P)), buffers(Wt.shape[0] + K)
    if not positive(Ups):
        return 0, ELSEWHERE
    for t in range(X.shape[0]):
        code = OK
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            if not linearised(net, work, lik, hess, mu, X[t], Y[t], o, p, V, D):
                return t, INFINITE
            code = bog_step(mu, Ups, Wt, D[0], D[first:], alpha, b)
        if code != OK:
            return t, code
    return X.shape[0], OK


@inner
def keep(mu, Ups, Wt, mu0, Ups0, W0):
    """The prior of an inner loop, apart from its iterate."""
    for p in range(len(mu)):
        mu0[p], Ups0[p] = mu[p], Ups[p]
    for r in range(Wt.shape[0]):
        w, w0 = Wt[r], W0[r]
        for p in range(len(mu)):
            w0[p] = w[p]


@kernel
def stream_blr(net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q):
    """BLR over a stream. Twin of filter.run with blr-lin-*-dlr."""
    C, P = Y.shape[1], len(mu)
    K = C if hess == 0 else 1
    first = 1 - hess
    o, p, V, D, b = np.empty(C), np.empty(C), np.empty((K + first, C)), np.empty((K + first, P)), buffers(2 * Wt.shape[0] + K)
    mu0, Ups0, W0, pull = np.empty(P), np.empty(P), np.empty((Wt.shape[0], P)), np.empty(P)
    if not positive(Ups):
        return 0, ELSEWHERE
    for t in range(X.shape[0]):
        code = OK
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            keep(mu, Ups, Wt, mu0, Ups0, W0)
            for _ in range(n_iter):
                if not linearised(net, work, lik, hess, mu, X[t], Y[t], o, p, V, D):
                    return t, INFINITE
                code = blr_step(mu0, Ups0, W0, mu, Ups, Wt, D[0], D[first:], alpha, pull, b)
                if code != OK:
                    return t, code
        if code != OK:
            return t, code
    return X.shape[0], OK


@kernel
def stream_bbb(net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q):
    """BBB over a stream. Twin of filter.run with bbb-lin-*-dlr."""
    C, P = Y.shape[1], len(mu)
    K = C if hess == 0 else 1
    first = 1 - hess
    o, p, V, D, b = np.empty(C), np.empty(C), np.empty((K + first, C)), np.empty((K + first, P)), buffers(2 * Wt.shape[0] + K)
    mu0, Ups0, W0 = np.empty(P), np.empty(P), np.empty((Wt.shape[0], P))
    if not positive(Ups):
        return 0, ELSEWHERE
    for t in range(X.shape[0]):
        code = OK
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            keep(mu, Ups, Wt, mu0, Ups0, W0)
            for _ in range(n_iter):
                if not linearised(net, work, lik, hess, mu, X[t], Y[t], o, p, V, D):
                    return t, INFINITE
                code = bbb_step(mu0, Ups0, W0, mu, Ups, Wt, D[0], D[first:], alpha, b)
                if code != OK:
                    return t, code
        if code != OK:
            return t, code
    return X.shape[0], OK


STREAMS = {"bong": stream_bong, "blr": stream_blr, "bog": stream_bog, "bbb": stream_bbb}


def stream(net, work, lik, hess, rule, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q) -> Any:
    """Steps done and a code, for lin-hess (hess = 0) or lin-ef (hess = 1); mu (P,), Ups (P,) and Wt (R, P) are changed in place.

    ``work`` has room for C + 1 cotangents. ``f``, ``c`` and ``q`` are the diagonal dynamics, or empty. The code is 0, or says why the
    stream stopped, with the state in any condition: 1 lost positive definiteness, 2 a gradient or Hessian not finite, 3 not covered.
    """
    f, c, q = (f, c, q) if len(f) > 0 else (None, None, None)  # without dynamics they are not even compiled
    return STREAMS[rule](net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q)

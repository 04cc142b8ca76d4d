"""Streams in the DLR family: the compiled loops for lin-hess and lin-ef, and the belief for the loop in Python (mc-ef, wrapped models)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...methods import Method
from ...states import DLR
from ..jit import inner, kernel
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
    part,
    predict_arrays,
    predict_step,
    svd_arrays,
    triangle_arrays,
)
from ..likelihoods import info_rows, score
from ..networks import forward, sweep

WIDE = 40  # rows of W̃ from which BLAS and LAPACK are faster than the kernels


class NotHere(Exception):
    """A belief that these kernels do not cover (some Υ ≤ 0, numbers whose squares leave the range of float64): the reference does."""


# --- the loop in Python --------------------------------------------------------------------------------------------------------


class Belief:
    """A DLR belief that changes in place, one observation after the other. W is kept as Wt (R, P)."""

    def __init__(self, m: Method, state: DLR, dyn: tuple[Any, Any, Any] | None):
        if not np.all(state.Ups > 0):
            raise NotHere
        self.rule, self.alpha = m.rule, float(m.params.get("alpha", 1))
        self.mu, self.Ups = np.array(state.mu, dtype=float), np.array(state.Ups, dtype=float)
        self.Wt = np.array(state.W.T, dtype=float, order="C")
        self.dyn = None if dyn is None else tuple(np.ascontiguousarray(a, dtype=float) for a in dyn)
        self.prior = tuple(np.empty_like(a) for a in (self.mu, self.Ups, self.Wt)) if self.rule in ("blr", "bbb") else ()

    def predict(self) -> None:
        """Posterior → prior of the next step. Twin of dynamics._predict_dlr."""
        if self.dyn is not None and predict_arrays(self.mu, self.Ups, self.Wt, *self.dyn) != OK:
            raise NotHere

    def begin(self) -> None:
        """The inner loop starts at the prior."""
        for kept, now in zip(self.prior, (self.mu, self.Ups, self.Wt), strict=False):
            kept[...] = now

    def draw(self, Z: Any, out: Any) -> None:
        """out = θ̂ of the rows of standard normals Z. Twin of gaussians.draw."""
        R = len(self.Wt)
        root = np.sqrt(self.Ups)
        A, V, size = self.Wt / root, np.empty((R, R)), np.empty(R)
        if not svd_arrays(A, V, size):
            raise NotHere
        AV, h = V @ A, np.hypot(1, size)
        np.matmul((Z @ AV.T) / (h + h**2), AV, out=out)
        shift_and_scale(Z, self.mu, root, out)

    def step(self, g: Any, rows: Any) -> bool:
        """One step of the rule; False where the result is not a Gaussian."""
        now = self.mu, self.Ups, self.Wt
        if self.rule == "bong":
            code = wide(*now, 1.0, self.Wt, rows, g, 1.0) if len(self.Wt) + len(rows) > WIDE else bong_arrays(*now, g, rows)
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
        both = np.concatenate([np.sqrt(1 - a) * self.Wt, np.sqrt(a) * W0])
        return wide(self.mu, self.Ups, self.Wt, np.sqrt(a), both, rows, pull, a)

    def end(self) -> None:
        """The iterate is the posterior."""

    def state(self) -> DLR:
        """The belief as a state of its own."""
        return DLR(self.mu.copy(), self.Ups.copy(), np.ascontiguousarray(self.Wt.T))

    def check(self) -> bool:
        """Every step has been checked."""
        return True


@kernel
def shift_and_scale(Z, mu, root, out):
    """out = μ + (Z − out) / √Υ."""
    for i in range(Z.shape[0]):
        z, o = Z[i], out[i]
        for p in range(len(mu)):
            o[p] = mu[p] + (z[p] - o[p]) / root[p]


def wide(mu: Any, Ups: Any, Wt: Any, scale: float, first: Any, rows: Any, pull: Any, rate: float) -> int:
    """What kernels.dlr.absorb does, for many rows: W̃ = [first, scale · rows]; mu, Ups and Wt are changed in place."""
    n, R = len(first) + len(rows), len(Wt)
    A = np.empty((n, len(mu)))
    A[: len(first)] = first
    np.multiply(rows, scale, out=A[len(first) :])
    B = A / np.sqrt(Ups)
    H = B @ B.T
    top = float(np.max(np.diag(H) * np.max(Ups)))  # at least the largest square in A Aᵀ
    if not 1e-250 < top < 1e250:
        return ELSEWHERE
    H[np.diag_indices(n)] += 1
    root = np.sqrt(Ups)
    mu += rate * (pull / root - np.linalg.solve(H, B @ (pull / root)) @ B) / root
    kept, lost = split(A, R)
    Wt[:] = kept
    Ups += np.einsum("kp,kp->p", lost, lost)
    return OK if np.all(np.isfinite(mu)) and np.all(np.isfinite(Ups)) else ELSEWHERE


def split(A: Any, R: int) -> tuple[Any, Any]:
    """VᵀA for the R leading left singular vectors of A (n, P), up to a rotation among them, and for the others. Twin of linalg.svd.

    The eigenvectors of A Aᵀ separate the leading directions from the others up to eps (σ₁/σ_R)². What they leave is measured on the rows of
    VᵀA themselves, which are as accurate as A, and turned away; where that is too much for a small turn, the triangular factor is used.
    """
    X = np.linalg.eigh(A @ A.T)[1][:, ::-1].T @ A
    kept, lost = X[:R], X[R:]
    for _ in range(3):
        gap = np.einsum("kp,kp->k", kept, kept)[:, None] - np.einsum("kp,kp->k", lost, lost)
        if not np.min(gap, initial=np.inf) > 0:
            break
        theta = (kept @ lost.T) / gap
        size = np.max(np.abs(theta), initial=0)
        if not size < 1e-5:
            break
        if size < 1e-8:  # its square is below rounding
            return kept + theta @ lost, lost - theta.T @ kept
        kept, lost = kept + theta @ lost - theta @ (theta.T / 2 @ kept), lost - theta.T @ kept - theta.T @ (theta / 2 @ lost)
    T = np.empty((len(A), len(A)))
    triangle_arrays(A, T)
    X = np.linalg.svd(T)[0].T @ A
    return X[:R], X[R:]


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


@part
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
                code = bbb_step(mu0, Ups0, W0, mu, Ups, Wt, D[0], D[first:], alpha, pull, b)
                if code != OK:
                    return t, code
        if code != OK:
            return t, code
    return X.shape[0], OK


STREAMS = {"bong": stream_bong, "blr": stream_blr, "bog": stream_bog, "bbb": stream_bbb}


def stream(
    net: Any, work: Any, lik: Any, hess: int, rule: str, X: Any, Y: Any, seen: Any, mu: Any, Ups: Any, Wt: Any,
    alpha: float, n_iter: int, f: Any, c: Any, q: Any,
) -> tuple[int, int]:  # fmt: skip
    """Steps done and a code, for lin-hess (hess = 0) or lin-ef (hess = 1); mu (P,), Ups (P,) and Wt (R, P) are changed in place.

    ``work`` has room for C + 1 cotangents. ``f``, ``c`` and ``q`` are the diagonal dynamics, or empty. The code is 0, or says why the
    stream stopped, with the state in any condition: 1 lost positive definiteness, 2 a gradient or Hessian not finite, 3 not covered.
    """
    f, c, q = (f, c, q) if len(f) > 0 else (None, None, None)  # without dynamics they are not even compiled
    return STREAMS[rule](net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q)

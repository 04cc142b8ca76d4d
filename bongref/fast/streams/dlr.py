"""Streams in the DLR family: the compiled loops for lin-hess and lin-ef, and the belief for the loop in Python (mc-ef, wrapped models)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...grid import Method
from ...states import DLR
from ..borrow import borrowed
from ..estimators import LARGE, together
from ..jit import inlined, inner, kernel
from ..kernels import tridiagonal, wide
from ..kernels.dlr import (
    ELSEWHERE,
    INFINITE,
    LOST,
    OK,
    SWEEP,
    absorb,
    absorb_part,
    bbb_arrays,
    bbb_part,
    bbb_step,
    blr_arrays,
    bog_arrays,
    bog_part,
    bog_step,
    bong_arrays,
    buffers,
    independent,
    predict_arrays,
    predict_step,
    svd_arrays,
    thin,
    thin_begin,
    thin_end,
    thin_part,
    thin_step,
    triangle_arrays,
)
from ..kernels.one import REDO, bog_one, bong_one, one, one_part
from ..likelihoods import info_rows, score
from ..networks import Dense, forward, sweep
from ..normals import PCG, table
from ..teams import CLOSED, DONE, LINE, OFFERED, board, claim, read, wait, write
from ..vectors import apart

ROWS, COLUMNS = 16, 4800  # samples that are placed at once; parameters of a part of what NumPy does
WIDE = 40  # rows of W̃ from which the jobs of kernels.wide are faster than the kernels for few rows
NEAR, GAP = 8.0, 2.0**-20  # σ₁/(σ_R + σ_{R+1}) and (σ_R² − σ_{R+1}²)/σ₁² for which the eigenvectors of W̃ᵀW̃ are good as they are


class NotHere(Exception):
    """A belief that these kernels do not cover (some Υ ≤ 0, numbers whose squares leave the range of float64): the reference does."""


# --- the loop in Python --------------------------------------------------------------------------------------------------------


def is_wide(rule: str, R: int, K: int) -> bool:
    """Whether a step with K rows is one for kernels.wide."""
    return R * (2 if rule in ("blr", "bbb") else 1) + K > WIDE


class Belief:
    """A DLR belief that changes in place, one observation after the other. W is kept as Wt (R, P)."""

    ok = True  # every step is checked

    def __init__(self, m: Method, state: DLR, dyn: tuple[Any, Any, Any] | None, once: bool = False):
        """``once`` says that there is one observation: the prior of its inner loop is then the state itself where nothing moves it."""
        if not np.all(state.Ups > 0):
            raise NotHere
        self.rule, self.alpha, self.kept = m.rule, float(m.params.get("alpha", 1)), once and dyn is None
        self.dyn = None if dyn is None else tuple(np.ascontiguousarray(a, dtype=float) for a in dyn)
        loops = self.rule in ("blr", "bbb")
        self.prior: tuple[Any, ...] = to_read(state, whole=True) if loops and self.kept else ()
        self.mu, self.Ups, self.Wt = copied(*(self.prior or (state.mu, state.Ups, state.W.T)))
        if loops and not self.kept:
            self.prior = copied(self.mu, self.Ups, self.Wt)
        self.wide: Wide | None = None
        self.down = None if self.rule in ("bong", "blr") else 0

    def predict(self) -> None:
        """Posterior → prior of the next step. Twin of dynamics._predict_dlr."""
        if self.dyn is not None and predict_arrays(self.mu, self.Ups, self.Wt, *self.dyn) != OK:
            raise NotHere

    def begin(self) -> None:
        """The inner loop starts at the prior."""
        for kept, now in zip(() if self.kept else self.prior, (self.mu, self.Ups, self.Wt), strict=False):
            kept[...] = now

    def turn(self) -> Any:
        """D with Σ^{1/2} z = y − Υ⁻¹W D Wᵀy, y = Υ^{-1/2} z, after W has been turned, with the same W Wᵀ. Twin of gaussians._dlr_noise."""
        R = len(self.Wt)
        T, V, size = np.zeros((R, R)), np.empty((R, R)), np.empty(R)
        for at in range(0, len(self.mu), COLUMNS):
            triangle_arrays(self.Wt[:, at : at + COLUMNS] / np.sqrt(self.Ups[at : at + COLUMNS]), T)
        if not svd_arrays(T, V, size):
            raise NotHere
        for at in range(0, len(self.mu), COLUMNS):
            self.Wt[:, at : at + COLUMNS] = V @ self.Wt[:, at : at + COLUMNS]
        h = np.hypot(1, size)
        return 1 / (h + h**2)

    def draw(self, Z: Any) -> None:
        """The rows of standard normals Z become θ̂, a few at a time. Twin of gaussians.draw."""
        D = self.turn()
        for k in range(0, len(Z), ROWS):
            z = Z[k : k + ROWS]
            z /= np.sqrt(self.Ups)
            z -= ((z @ self.Wt.T) * D) @ self.Wt / self.Ups
            z += self.mu

    def step(self, g: Any, rows: Any) -> bool:
        """One step of the rule; False where the result is not a Gaussian."""
        now = self.mu, self.Ups, self.Wt
        if self.wide is None and is_wide(self.rule, len(self.Wt), len(rows)):
            self.wide = Wide(now, self.prior, len(rows), down=self.down)
        if self.wide is not None:
            code = (self.wide.absorb if self.rule in ("bong", "blr") else self.wide.descend)(self.prior, g, rows, self.alpha)
        elif self.rule == "bong":
            code = bong_arrays(*now, g, rows)
        elif self.rule == "blr":
            code = blr_arrays(*self.prior, *now, g, rows, self.alpha)
        elif self.rule == "bog":
            code = bog_arrays(*now, g, rows, self.alpha)
        else:
            code = bbb_arrays(*self.prior, *now, g, rows, self.alpha)
        if code == ELSEWHERE:
            raise NotHere
        return code == OK

    def end(self) -> None:
        """The iterate is the posterior."""

    def state(self, last: bool = False) -> DLR:
        """The belief as a state of its own; for the ``last`` one its arrays are taken."""
        return DLR(self.mu, self.Ups, self.Wt.T) if last else DLR(self.mu.copy(), self.Ups.copy(), self.Wt.T.copy())


@functools.cache
def _dposv() -> Any:
    """LAPACK's solution with a positive definite matrix: SciPy's loads much that streams without samples have no use for."""
    from scipy.linalg.lapack import dposv

    return dposv


class Wide:
    """What the steps of kernels.dlr do, for many rows: the jobs of kernels.wide, and between them the small matrices.

    ``now`` is the belief that changes, ``prior`` that of the inner loop or empty; ``jobs`` says into how many parts the parameters go,
    ``down`` which jobs there are (see kernels.wide.alone).
    """

    def __init__(self, now: tuple[Any, Any, Any], prior: tuple[Any, ...], K: int, jobs: int = 1, down: int | None = None):
        (R, P), (mu0, Ups0, W0) = now[2].shape, prior or (np.empty(0), np.empty(0), now[2][:0])
        self.n, self.R = R + len(W0) + K, R
        self.N, self.C = wide.padded(self.n + 3), wide.padded(R + 1)  # one row more, and room for four at a time
        V, less = np.zeros(self.C * self.N), np.zeros(self.N * R)
        small = np.ones(4), np.ones(2), np.zeros((jobs, 2, self.N**2)), V, less, np.zeros_like(V), np.zeros(R), np.zeros(jobs)
        self.data = wide.Step(*now, mu0, Ups0, W0, np.empty((0, P)), K, np.zeros(P), *small)
        self.down = down
        self.team: Any = None
        n, N = self.n, self.N
        self.small = np.zeros(N * N), np.zeros(n), np.zeros(n), np.zeros((n, N)), np.zeros((5, n))
        self.values = np.zeros(R + 1)

    @functools.cached_property
    def room(self) -> wide.Room:
        """The buffers of a thread that is alone."""
        return wide.room(self.n, self.R)

    def go(self, kind: int) -> Any:
        """All jobs of a kind, alone or by the function ``team``."""
        return wide.alone(kind, self.down, self.data, self.room) if self.team is None else self.team(kind)

    def take(self, rows: Any) -> Any:
        """What the jobs see, with these rows."""
        if self.data.rows is not rows:
            self.data = self.data._replace(rows=rows)
        return self.data

    def absorb(self, prior: tuple[Any, ...], g: Any, rows: Any, alpha: float) -> int:
        """Twin of dlr.bong_woodbury and dlr.blr_woodbury; ``g`` is None where it is the mean of the gradients in ``rows``."""
        s = self.take(rows)
        rate, kept, new = (alpha, math.sqrt(1 - alpha), math.sqrt(alpha)) if prior else (1.0, 1.0, 1.0)
        s.scales[:] = kept, new, new, 0 if g is not None else 1 / (new * math.sqrt(s.count))
        s.rates[:] = rate
        s.pull[:] = 0 if g is None else g
        if prior:
            self.pull_to(*prior)
        self.go(wide.GRAMS)
        return self.project()

    def pull_to(self, mu0: Any, Ups0: Any, W0: Any) -> None:
        """The pull gains (Υ₀ + W₀W₀ᵀ)(μ₀ − μ). Twin of dlr._pull."""
        s, parts = self.data, [slice(at, at + COLUMNS) for at in range(0, len(mu0), COLUMNS)]
        along = sum(W0[:, p] @ (mu0[p] - s.mu[p]) for p in parts)
        for p in parts:
            s.pull[p] += Ups0[p] * (mu0[p] - s.mu[p]) + along @ W0[:, p]

    def project(self) -> int:
        """The new belief from the sums. Twin of dlr.project."""
        s, n, N = self.data, self.n, self.N
        H = s.sums[:, 1].sum(axis=0)
        top = s.sums[:, 0, : n * N : N + 1].sum(axis=0).max()
        if not 1e-250 < top < 1e250 or not math.isfinite(H.sum()):
            return ELSEWHERE
        H[:: N + 1] += 1
        H = H.reshape(N, N)
        _, z, wrong = _dposv()(H[:n, :n].T, H[:n, n], lower=1)
        if wrong:
            return ELSEWHERE
        self.place(self.leading())
        s.V.reshape(self.C, N)[self.R, :n] = z
        self.go(wide.SETTLE)
        return OK if not s.wrong.any() else ELSEWHERE

    def descend(self, prior: tuple[Any, ...], g: Any, rows: Any, alpha: float) -> int:
        """Twin of dlr.bog_woodbury and dlr.bbb_woodbury; ``g`` as in :meth:`absorb`."""
        s = self.take(rows)
        s.scales[:] = 1, 1, 1, 0 if g is not None else 1 / math.sqrt(s.count)
        s.rates[:] = alpha
        s.pull[:] = 0 if g is None else g
        if not self.go(wide.SLOPES):
            return ELSEWHERE
        self.go(wide.DESCEND)
        return OK if not s.wrong.any() else ELSEWHERE

    def place(self, V: Any) -> None:
        """V (R, n), for the jobs."""
        n, R = self.n, self.R
        self.data.V.reshape(self.C, self.N)[:R, :n] = V
        self.data.less.reshape(self.N, R)[:n] = -V.T

    def leading(self) -> Any:
        """The space of the leading R right singular vectors of W̃, orthonormal rows (R, n), from the sums G = W̃ᵀW̃. Twin of linalg.svd.

        The eigenvectors of G separate the leading directions from the others up to eps σ₁²/(σ_R² − σ_{R+1}²), which is σ₁/(σ_R + σ_{R+1})
        times what those of W̃ are sure to: where this is not small, what they leave is measured on W̃ itself, which G's rounding has not
        touched, and turned away; where that is too much for a small turn, the triangular factor is used.
        """
        n, N, R = self.n, self.N, self.R
        V = np.empty((R, n))
        tridiagonal.leading(self.data.sums, *self.small, self.values, V)
        after, last, top = self.values[0], self.values[1], self.values[-1]
        if last - after > GAP * top and math.sqrt(top) < NEAR * (math.sqrt(last) + math.sqrt(max(after, 0.0))):
            return V
        for _ in range(3):
            self.place(V)
            self.go(wide.CHECK)
            Y = self.data.sums[:, 0, : R * N].sum(axis=0).reshape(R, N)[:, :n]
            S = Y @ V.T
            size = np.diag(S)
            gap = size - self.values[0]
            if not np.min(gap) > 0:
                break
            theta = Y - S @ V
            tridiagonal.solve_shifted(*self.small[1:], size + 1e-7 * gap, theta)
            theta -= (theta @ V.T) @ V
            turn = np.max(np.abs(theta))
            if not turn < 1e-5:
                break
            V = V + theta - (theta @ theta.T / 2) @ V
            if turn < 1e-8:
                return V
        return self.by_triangle()

    def by_triangle(self) -> Any:
        """As :meth:`leading`, by the triangular factor of W̃."""
        s, T = self.data, np.zeros((self.n, self.n))
        fours = s.rows.reshape(-1, len(s.mu), wide.FOUR) if s.rows.ndim == 1 else None
        for at in range(0, len(s.mu), 1000):
            p = slice(at, at + 1000)
            rows = s.rows[:, p] if fours is None else fours[:, p].swapaxes(1, 2).reshape(-1, len(s.mu[p]))[: s.count]
            triangle_arrays(np.concatenate([scale * a for scale, a in zip(s.scales, (s.Wt[:, p], s.W0[:, p], rows), strict=False)]), T)
        return np.linalg.svd(T)[0][:, : self.R].T


class Sampled:
    """mc-ef whose samples are drawn where their gradients are computed, by all threads; a loop in Python around the jobs."""

    def __init__(self, m: Method, estimator: Any, rng: np.random.Generator, dyn: tuple[Any, Any, Any] | None):
        M, R, P = m.params["n_samples"], m.params["rank"], estimator.P
        jobs, C, dense = -(-M // wide.FOUR), wide.padded(R + 1), isinstance(estimator.net, Dense)
        self.m, self.estimator, self.dyn, self.pcg, self.jobs = m, estimator, dyn, PCG(rng), jobs
        n, self.many = R * (2 if m.rule in ("blr", "bbb") else 1) + M, is_wide(m.rule, R, M)
        numbers, size = np.empty(wide.FOUR * jobs * P), (0 if self.many else wide.FOUR * P) if dense else P
        self.rows = numbers if dense and self.many else numbers[: M * P].reshape(M, P)
        self.scale, self.F, self.turn = np.empty(P), np.zeros((C, C)), np.zeros(5, np.int64)
        z = np.empty(wide.FOUR * jobs * P if estimator.threads > 1 and M * P <= LARGE else 0)
        jumps = self.pcg.jumps(1, *((P, 1) if dense else (1, wide.FOUR)), *(wide.FOUR * k * P for k in range(jobs)), M * P)
        drawn = self.pcg.state, jumps, table(), numbers, z, board(jobs)
        self.source = wide.Draw(np.empty(0), self.F.reshape(-1), self.scale, *drawn)
        self.rooms = [wide.room(n, R, size) for _ in range(estimator.threads)]

    def run(self, state: DLR, X: Any, Y: Any, seen: Any) -> tuple[DLR, int]:
        """The state after these steps; or the given one, and how many steps there are before one that the reference takes."""
        try:
            q = Belief(self.m, state, self.dyn, once=len(X) == 1)
        except NotHere:
            return state, 0
        self.pcg.read()
        self.turn[wide.AHEAD], self.source.ahead[:] = 0, 0
        source, on_board = self.source._replace(w=q.Wt.reshape(-1)), board(max(self.jobs, self.estimator.threads))
        steps = Wide((q.mu, q.Ups, q.Wt), q.prior, self.m.params["n_samples"], self.estimator.threads)
        steps.data = steps.data._replace(rows=self.rows, pull=self.scale)  # which are not needed at the same time
        if self.many:
            q.wide = steps

        def loop(k: int) -> int:
            try:
                go = lambda kind: wide.team(
                    k == 0, kind, q.down, *self.estimator.parts(k), X, Y, source, steps.data, self.rooms[k], self.turn, on_board
                )
                if k > 0:
                    return go(0)
                steps.team = go
                return self.lead(q, seen, go)
            finally:
                on_board[CLOSED] = 1  # whatever happens, nobody waits for the first thread

        done = together(self.estimator.threads, loop)
        steps.team = None  # which knows the steps: nothing would be given back
        self.pcg.close()
        return (DLR(q.mu, q.Ups, q.Wt.T) if done == len(X) else state), done

    def root(self, q: Belief, go: Any) -> None:
        """What samples are drawn from; by singular vectors where digits would be lost in WᵀΥ⁻¹W. Twin of gaussians._dlr_noise."""
        R = len(q.Wt)
        if not go(wide.ROOT):
            self.F[:R, :R] = np.diag(q.turn())

    def lead(self, q: Belief, seen: Any, go: Any) -> int:
        """What the first thread does: how many steps are good."""
        for t in range(len(seen)):
            try:
                q.predict()
                if not seen[t]:
                    continue
                self.turn[wide.TIME] = t
                q.begin()
                for _ in range(self.m.n_iter):
                    self.root(q, go)
                    go(wide.SAMPLES)
                    g = None if self.many else self.rows.sum(axis=0) / np.sqrt(len(self.rows))
                    if not q.step(g, self.rows):
                        return t
                q.end()
            except NotHere:
                return t
        return len(seen)


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


@inner
def one_row(lik, hess, o, y, V, s, p):
    """The cotangent of j, S = s₀ j, g = s₁ j, for lin-hess with one output (hess = 0) and lin-ef (1). Twin of curvature's functions."""
    s[0] = s[1] = s[2] = 1.0
    if hess == 0:
        info_rows(lik, o, V, p)
        s[0] = V[0, 0]
    score(lik, o, y, V[0], p)
    if hess == 0:
        s[1] = V[0, 0]
        V[0, 0] = 1.0


@inlined
def cotangents(lik, hess, o, y, p, V, s, b):
    """The cotangents V of the rows of S and, last, of g, for lin-hess (hess = 0) and lin-ef (1); s as in kernels.dlr.absorb.

    Where there is one output or one row, a single row serves for both, s₀ times and s₁ times. Twin of curvature.lin_hess and lin_ef.
    """
    last = len(V) - 1
    if last == 0:
        one_row(lik, hess, o, y, V, s, p)
    else:
        info_rows(lik, o, V, p)
        independent(V, last, b)  # those of a softmax are not
        score(lik, o, y, V[last], p)
        s[0], s[1], s[2] = 1.0, 1.0, 0.0


@inner
def offer(kind, b, board):
    """Jobs of one kind on the board, one for every part."""
    b.shape[2] = kind
    write(board, OFFERED, read(board, OFFERED) + len(b.wrong))


@inner
def sweep_part(k, net, work, x, mu, V, D, parts):
    """Part k of the rows of D for the cotangents V."""
    apart()
    a, z = len(V) * k // parts, len(V) * (k + 1) // parts
    if z > a:
        sweep(net, mu, x, work, V[a:z], D[a:z])


@inner
def failed(code, D):
    """The code of a step that was not taken, or INFINITE where what it was given is not finite."""
    return code if finite(D) else INFINITE


def _jobs(part: Any, at: int) -> Any:
    """The function of a team whose jobs are ``part`` and the rows of D; mu is number ``at`` of what a part is given."""

    @inner
    def jobs(kind, task, b, board):
        """Offer jobs of this kind, or none if it is negative; do what is on the board, wait for what was offered; True if more may come."""
        apart()
        net, work, x, V, D, mine = task
        n = len(b.wrong)
        if kind == SWEEP and len(V) == 1:
            sweep_part(0, net, work, x, mine[at], V, D, 1)
            return True
        if kind >= 0:
            offer(kind, b, board)
        job = claim(board)
        while job >= 0:
            k, now = job % n, b.shape[2]
            if now == SWEEP:
                sweep_part(k, net, work, x, mine[at], V, D, n)
            else:
                part(now, k, *mine, b)
            write(board, DONE + LINE * k, job + 1)
            job = claim(board)
        if kind >= 0:
            wait(board, n)
        return job == -1

    return jobs


absorb_jobs = _jobs(absorb_part, 6)
bog_jobs = _jobs(bog_part, 3)
thin_jobs = _jobs(thin_part, 4)
bbb_jobs = _jobs(bbb_part, 3)
one_jobs = _jobs(one_part, 4)


@kernel
def stream_one(first, net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q, flat, lose, move, V, D, s, b, board):
    """BONG (lose) or BOG over a stream where S has one row; ``flat`` is Wt. Twin of filter.run with bong- and bog-lin-*-dlr."""
    net, work, lik, X, Y, seen, mu, Ups, Wt, flat, V, D, s, b, board = borrowed(
        (net, work, lik, X, Y, seen, mu, Ups, Wt, flat, V, D, s, b, board)
    )
    mine = lose, Wt, flat, D[0], mu, Ups, s, alpha
    task = net, work, X[0], V, D, mine
    if not first:
        while one_jobs(-1, task, b, board):
            pass
        return 0, OK
    o, p, t, code = np.empty(Y.shape[1]), np.empty(Y.shape[1]), 0, OK if positive(Ups) else ELSEWHERE
    while t < len(X) and code == OK:
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, move)
        if code == OK and seen[t]:
            forward(net, mu, X[t], work, o)
            one_row(lik, hess, o, Y[t], V, s, p)
            one_jobs(SWEEP, (net, work, X[t], V, D, mine), b, board)
            if lose:
                code = bong_one(one_jobs, task, len(Wt), s, b, board)
            else:
                code = bog_one(one_jobs, task, len(Wt), s, alpha, b, board)
            if code == LOST:
                code = failed(code, D)
        if code == OK:
            t += 1
    write(board, CLOSED, 1)
    return t, code


@kernel
def stream_bong(first, net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q, mu0, Ups0, W0, V, D, s, b, board):
    """BONG over a stream. Twin of filter.run with bong-lin-*-dlr."""
    K = max(1, len(D) - 1)
    mine = Wt, W0, D[:K], D[len(D) - 1], mu0, Ups0, mu, Ups, s, 1.0
    task = net, work, X[0], V, D, mine
    if not first:
        while absorb_jobs(-1, task, b, board):
            pass
        return 0, OK
    o, p, t, code = np.empty(Y.shape[1]), np.empty(Y.shape[1]), 0, OK if positive(Ups) else ELSEWHERE
    while t < len(X) and code == OK:
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            forward(net, mu, X[t], work, o)
            cotangents(lik, hess, o, Y[t], p, V, s, b)
            absorb_jobs(SWEEP, (net, work, X[t], V, D, mine), b, board)
            code = absorb(absorb_jobs, task, Wt, W0, D[:K], 1.0, 1.0, s, b, board)
            if code != OK:
                code = failed(code, D)
        if code == OK:
            t += 1
    write(board, CLOSED, 1)
    return t, code


@kernel
def stream_bog(first, net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q, mu0, Ups0, W0, V, D, s, b, board):
    """BOG over a stream. Twin of filter.run with bog-lin-*-dlr."""
    K = max(1, len(D) - 1)
    mine = Wt, D[:K], D[len(D) - 1], mu, Ups, s, alpha
    task = net, work, X[0], V, D, mine
    if not first:
        while bog_jobs(-1, task, b, board):
            pass
        return 0, OK
    o, p, t, code = np.empty(Y.shape[1]), np.empty(Y.shape[1]), 0, OK if positive(Ups) else ELSEWHERE
    while t < len(X) and code == OK:
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            forward(net, mu, X[t], work, o)
            cotangents(lik, hess, o, Y[t], p, V, s, b)
            bog_jobs(SWEEP, (net, work, X[t], V, D, mine), b, board)
            code = bog_step(bog_jobs, task, len(Wt), K, alpha, b, board)
            if code != OK:
                code = failed(code, D)
        if code == OK:
            t += 1
    write(board, CLOSED, 1)
    return t, code


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
def stream_blr(first, net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q, kept, mu0, Ups0, W0, V, D, s, b, board):
    """BLR over a stream. Twin of filter.run with blr-lin-*-dlr."""
    K = max(1, len(D) - 1)
    mine = Wt, W0, D[:K], D[len(D) - 1], mu0, Ups0, mu, Ups, s, alpha
    task = net, work, X[0], V, D, mine
    if not first:
        while absorb_jobs(-1, task, b, board):
            pass
        return 0, OK
    o, p, t, code = np.empty(Y.shape[1]), np.empty(Y.shape[1]), 0, OK if positive(Ups) else ELSEWHERE
    while t < len(X) and code == OK:
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            if not kept:
                keep(mu, Ups, Wt, mu0, Ups0, W0)
            for _ in range(n_iter):
                forward(net, mu, X[t], work, o)
                cotangents(lik, hess, o, Y[t], p, V, s, b)
                absorb_jobs(SWEEP, (net, work, X[t], V, D, mine), b, board)
                s[0] *= math.sqrt(alpha)
                code = absorb(absorb_jobs, task, Wt, W0, D[:K], math.sqrt(1.0 - alpha), math.sqrt(alpha), s, b, board)
                if code != OK:
                    code = failed(code, D)
                    break
        if code == OK:
            t += 1
    write(board, CLOSED, 1)
    return t, code


@kernel
def stream_thin(first, net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q, kept, mu0, Ups0, e, V, D, s, b, board):
    """BLR over a stream where S has one row and n_iter ≤ R. Twin of filter.run with blr-lin-*-dlr."""
    mine = Wt, D[0], mu0, Ups0, mu, Ups, s, alpha, e
    task = net, work, X[0], V, D, mine
    if not first:
        while thin_jobs(-1, task, b, board):
            pass
        return 0, OK
    o, p, t, code = np.empty(Y.shape[1]), np.empty(Y.shape[1]), 0, OK if positive(Ups) else ELSEWHERE
    while t < len(X) and code == OK:
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            if not kept:
                keep(mu, Ups, Wt[:0], mu0, Ups0, Wt[:0])
            code = thin_begin(thin_jobs, task, Wt, e, b, board)
            for _ in range(n_iter if code == OK else 0):
                forward(net, mu, X[t], work, o)
                one_row(lik, hess, o, Y[t], V, s, p)
                thin_jobs(SWEEP, (net, work, X[t], V, D, mine), b, board)
                code = thin_step(thin_jobs, task, len(Wt), alpha, s, e, b, board)
                if code != OK:
                    code = failed(code, D)
                    break
            if code == OK:
                code = thin_end(thin_jobs, task, len(Wt), b, board)
        if code == OK:
            t += 1
    write(board, CLOSED, 1)
    return t, code


@kernel
def stream_bbb(first, net, work, lik, hess, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q, kept, mu0, Ups0, W0, V, D, s, b, board):
    """BBB over a stream. Twin of filter.run with bbb-lin-*-dlr."""
    K = max(1, len(D) - 1)
    mine = mu0, Ups0, W0, mu, Ups, Wt, D[:K], D[len(D) - 1], s, alpha
    task = net, work, X[0], V, D, mine
    if not first:
        while bbb_jobs(-1, task, b, board):
            pass
        return 0, OK
    o, p, t, code = np.empty(Y.shape[1]), np.empty(Y.shape[1]), 0, OK if positive(Ups) else ELSEWHERE
    while t < len(X) and code == OK:
        if f is not None:
            code = predict_step(mu, Ups, Wt, f, c, q, b)
        if code == OK and seen[t]:
            if not kept:
                keep(mu, Ups, Wt, mu0, Ups0, W0)
            for _ in range(n_iter):
                forward(net, mu, X[t], work, o)
                cotangents(lik, hess, o, Y[t], p, V, s, b)
                bbb_jobs(SWEEP, (net, work, X[t], V, D, mine), b, board)
                code = bbb_step(bbb_jobs, task, len(Wt), K, alpha, b, board)
                if code != OK:
                    code = failed(code, D)
                    break
        if code == OK:
            t += 1
    write(board, CLOSED, 1)
    return t, code


STREAMS = {"bong": stream_bong, "blr": stream_blr, "bog": stream_bog, "bbb": stream_bbb, "thin": stream_thin, "one": stream_one}


def _room(kind: str, K: int, C: int, R: int, P: int, n_iter: int, parts: int, moves: bool) -> list[Any]:
    """What a stream of this kind is given after the prior of an inner loop: cotangents, rows, their factors, and buffers."""
    if kind == "one":
        return [buffers(R, P) if moves else None, np.zeros((1, C)), np.empty((1, P)), np.empty(3), one(R, P, parts)]
    loops, rows = kind in ("blr", "bbb", "thin"), K + (K > 1)
    b = buffers((2 * R if loops else R) + K, P, parts, {"bog": R, "bbb": R + 1}.get(kind))
    basis = [thin(R, P, n_iter, len(b.H))] if kind == "thin" else []
    b = b._replace(Z=b.Y, z=b.y) if kind == "thin" else b  # which are not needed at the same time
    return [*basis, np.zeros((rows, C)), np.empty((rows, P)), np.empty(3), b]


def _prior(kind: str, R: int, P: int, given: Any, room: list[Any]) -> tuple[Any, ...]:
    """What a stream of this kind is given for the prior: whether it is there, and it; or room for it, which is kept in ``room``."""
    if kind == "one":
        return ()
    loops = kind in ("blr", "bbb", "thin")
    if given is None and not room:
        room[:] = np.empty(P * loops), np.empty(P * loops), np.empty((R * (kind in ("blr", "bbb")), P))
    prior = room if given is None else to_read(given) if kind == "thin" else to_read(given, whole=True)
    return *((given is not None,) if loops else ()), *prior[: 2 if kind == "thin" else 3]


def copied(mu: Any, Ups: Any, Wt: Any) -> tuple[Any, Any, Any]:
    """Copies of mu, Ups and Wt, side by side: what one state gives back, the next one fits into."""
    (R, P), flat = Wt.shape, np.empty((2 + len(Wt)) * len(mu))
    out = flat[:P], flat[P : 2 * P], flat[2 * P :].reshape(R, P)
    for new, old in zip(out, (mu, Ups, Wt), strict=True):
        new[...] = old
    return out


def to_read(state: DLR, whole: bool = False) -> tuple[Any, ...]:
    """mu, Ups and, if ``whole``, Wt for kernels that do not change them: no copies where they are laid out as kernels have them."""
    out = (state.mu, state.Ups, state.W.T) if whole else (state.mu, state.Ups)
    if all(a.flags.c_contiguous and a.flags.writeable for a in out):
        return out
    return copied(state.mu, state.Ups, state.W.T if whole else state.W.T[:0])


def stream(net, work, lik, hess, rule, X, Y, seen, mu, Ups, Wt, alpha, n_iter, f, c, q, fellows=(), room=None, prior=None) -> Any:
    """Steps done and a code, for lin-hess (hess = 0) or lin-ef (hess = 1); mu (P,), Ups (P,) and Wt (R, P) are changed in place.

    ``work`` has room for C + 1 cotangents, and so have the ``fellows``, with which as many more threads take part; ``room`` is a list that
    keeps the other buffers for the next call of the same kind; ``prior`` is the state that they are copies of, to be given where there is
    one observation without dynamics, so that an inner loop needs no copy. ``f``, ``c`` and ``q`` are the diagonal dynamics, or empty. The
    code is 0, or says why the stream stopped, with the state in any condition: 1 lost positive definiteness, 2 a gradient or Hessian not
    finite, 3 not covered.
    """
    still: tuple[Any, ...] = (None, None, None)  # without dynamics they are not even compiled
    move = (f, c, q) if len(f) > 0 else still
    works, rooms, K, (R, P), n = (work, *fellows), [] if room is None else room, Y.shape[1] if hess == 0 else 1, Wt.shape, len(X)
    few = "thin" if rule == "blr" and n_iter <= R else "one" if rule in ("bong", "bog") and R < P else rule
    kind = few if K == 1 else rule
    if not rooms:
        rooms[:] = [], [], [], []

    def steps(kind: str, t: int, end: int, move: tuple[Any, ...], room: list[Any], before: list[Any]) -> Any:
        """The observations from t to end by one of the STREAMS: how many were done, and a code."""
        if not room:
            room[:] = _room(kind, K, Y.shape[1], R, P, n_iter, len(works), move is not still)
        flat = (Wt.reshape(-1), rule == "bong") if kind == "one" else ()
        first = *flat, *_prior(kind, R, P, prior, before)
        data = X[t:end], Y[t:end], seen[t:end], mu, Ups, Wt, alpha, n_iter, *move, *first, *room, board(len(works))
        return together(len(works), lambda k: STREAMS[kind](k == 0, net, works[k], lik, hess, *data))

    t, code = steps(kind, 0, n, move, *rooms[:2])
    while code == REDO:  # the prior of this step is there
        done, code = steps(rule, t, t + 1, still, *rooms[2:])
        t += done
        if code == OK and t < n:
            done, code = steps(kind, t, n, move, *rooms[:2])
            t += done
    return t, code

"""Streams of the diagonal families: the whole loop in machine code, and the Belief of the loops in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...grid import Method
from ...states import Diag
from ..borrow import borrowed
from ..convolution import SEVERAL
from ..estimators import Compiled, together
from ..jit import inlined, inner, kernel
from ..kernels import diag_mom, diag_nat
from ..kernels.diag import RULES
from ..lanes import APART, CUTS, ONE, drawing, sums
from ..likelihoods import n_rows, weighted_rows
from ..networks import Dense, before, forward, gather, part, pull, share, turns
from ..normals import PCG, lcg, place_chains, table
from ..teams import CLOSED, DONE, LINE, OFFERED, board, claim, read, wait, write
from ..vectors import LANES


@inlined
def _prior(t, seen, mu, v, f, b, q, m0, prec0):
    """The prior of step t, and a copy for the rules that need one; whether there is an observation. Twin of dynamics.propagate."""
    if len(f) > 0:
        for p in range(len(mu)):
            mu[p] = f[p] * mu[p] + b[p]
            v[p] = f[p] * f[p] * v[p] + q[p]
    for p in range(len(m0)):
        m0[p] = mu[p]
        prec0[p] = 1.0 / v[p]
    return seen[t]


# --- lin-hess and lin-ef -------------------------------------------------------------------------------------------------------

CHUNK = 2048  # parameters whose step is taken at a time


@inlined
def _step(rule, moments, m0, prec0, mu, v, g, d, slope, root, alpha):
    """Twin of the step of a diagonal family, or of a part of it."""
    if moments:
        ok = diag_mom.step(rule, m0, prec0, mu, v, g, d, slope, root, alpha)
    else:
        ok = diag_nat.step(rule, m0, prec0, mu, v, g, d, slope, root, alpha)
    return ok


@inlined
def _steps(net, work, K, c, w, rule, moments, m0, prec0, mu, v, g, d, alpha, a, z):
    """The step of the parameters from a to z, a few at a time, so that their gradient and curvature, g and d, stay in the cache."""
    good = True
    for low in range(a, z, len(g)):
        high = min(z, low + len(g))
        n, k = high - low, min(high, len(m0))
        part(net, work, K, c, w, low, high, g, d)
        slope, root = (c[0], w[0]) if K == 1 else (1.0, 1.0)
        squares, old = d[: n if K > 1 else 0], slice(min(low, k), k)
        good &= _step(rule, moments, m0[old], prec0[old], mu[low:high], v[low:high], g[:n], squares, slope, root, alpha)
    return good


@kernel
def stream(first, net, work, lik, hess, rule, moments, X, Y, seen, mu, v, alpha, n_iter, f, b, q, m0, prec0, V, c, w, board):
    """Filter the rows of X (n, n_in) and Y (n, C) by lin-hess (hess = 0) or lin-ef (1). Twin of filter.run.

    (mu, v) is changed in place. ``seen[t]`` is False where an observation is missing; f, b, q are the diagonals of the dynamics, empty
    where nothing moves; m0 and prec0 are buffers (P,) for blr and bbb; V (K, C), c and w (K,) are buffers for likelihoods.weighted_rows,
    K as many as it gives. ``first`` and ``board`` are those of :func:`shared_stream`; one thread alone has no use for them. Returns the
    steps done, and 1 if the next one gives no Gaussian: positive definiteness lost, or a gradient that is not finite.
    """
    net, work, lik, X, Y, seen, mu, v, f, b, q, m0, prec0, V, c, w, board = borrowed(
        (net, work, lik, X, Y, seen, mu, v, f, b, q, m0, prec0, V, c, w, board)
    )
    K, P, o, buffer = len(V), len(mu), np.empty(Y.shape[1]), np.empty(Y.shape[1])
    g, d = np.empty(min(P, CHUNK)), np.empty(min(P, CHUNK))
    for t in range(len(X)):
        if _prior(t, seen, mu, v, f, b, q, m0, prec0):
            for _ in range(n_iter):
                forward(net, mu, X[t], work, o)
                weighted_rows(lik, hess, o, Y[t], V, c, w, buffer)
                pull(net, mu, work, V, 0, K)
                gather(net, work, K, c, w)
                if not _steps(net, work, K, c, w, rule, moments, m0, prec0, mu, v, g, d, alpha, 0, P):
                    return t, 1
    return len(X), 0


@kernel
def shared_stream(first, net, work, lik, hess, rule, moments, X, Y, seen, mu, v, alpha, n_iter, f, b, q, m0, prec0, V, c, w, board):
    """:func:`stream` for several threads, each with a workspace of its own. Twin of filter.run.

    The first thread takes the steps, the others only share its jobs, which are by turns parts of the network, for some of the pixels or
    of the cotangents, and the step of some of the parameters.
    """
    net, work, lik, X, Y, seen, mu, v, f, b, q, m0, prec0, V, c, w, board = borrowed(
        (net, work, lik, X, Y, seen, mu, v, f, b, q, m0, prec0, V, c, w, board)
    )
    K, P, n, o, buffer = len(V), len(mu), (len(board) - DONE) // LINE, np.empty(Y.shape[1]), np.empty(Y.shape[1])
    g, d = np.empty(min(P, CHUNK)), np.empty(min(P, CHUNK))
    forth, back = turns(net, K)
    cycle = forth + back + 1  # the turns of an iteration: the network there and back, and the step
    i, end = 0, cycle * n_iter * len(X)
    while i < end or not first:
        t, turn = i // (cycle * n_iter), i % cycle
        if first:
            if i % (cycle * n_iter) == 0 and not _prior(t, seen, mu, v, f, b, q, m0, prec0):
                i += cycle * n_iter
                continue
            if turn == cycle - 1:
                gather(net, work, K, c, w)
            else:
                before(net, mu, X[t], work, V, K, turn if turn < forth else turn + 1 if turn > forth else forth, o)
                if turn == forth:
                    weighted_rows(lik, hess, o, Y[t], V, c, w, buffer)
                    before(net, mu, X[t], work, V, K, forth + 1, o)
            write(board, OFFERED, read(board, OFFERED) + n)
        i += 1
        job = claim(board)
        while job >= 0:
            k, turn, ok = job % n, job // n % cycle, True
            if turn < cycle - 1:
                share(net, mu, work, V, K, turn, k, n)
            else:
                ok = _steps(net, work, K, c, w, rule, moments, m0, prec0, mu, v, g, d, alpha, P * k // n, P * (k + 1) // n)
            if not ok:
                write(board, CLOSED, 1)
            write(board, DONE + LINE * k, job + 1)
            job = claim(board)
        if first:
            wait(board, n)
            if read(board, CLOSED):
                return t, 1
        elif job == -2:
            return 0, 0
    write(board, CLOSED, 1)
    return len(X), 0


# --- mc-ef -------------------------------------------------------------------------------------------------------------------

PARTS = 8  # of the samples of an estimate, each with sums of its own, which threads share


@inlined
def _mc_jobs(net, work, lik, X, Y, step, mu, deviations, cuts, state, jumps, coefficients, board, G, D):
    """Do what is on the board: G[k] = Σ_m g_m and D[k] = −Σ_m g_m², g_m the gradient at the samples cuts[k], …, cuts[k + 1] − 1.

    Twin of curvature.mc_ef and curvature.diagonal. Returns whether there may be more.
    """
    chains = np.empty((4, 2), np.uint64)
    job = claim(board)
    while job >= 0:
        k = job % len(G)
        g, d = G[k], D[k]
        for p in range(len(g)):
            g[p] = 0.0
            d[p] = 0.0
        place_chains(state, jumps[ONE], jumps[APART], jumps[CUTS + k], chains)
        n = cuts[k + 1] - cuts[k]
        sums(net, work, lik, X[step[0]], Y[step[0]], mu, deviations, n, chains, jumps, coefficients, g, d)
        write(board, DONE + LINE * k, job + 1)
        job = claim(board)
    return job == -1


@inner
def _mean(parts, n):
    """The first of the parts becomes the sum of all, divided by n."""
    total = parts[0]
    for k in range(1, len(parts)):
        part = parts[k]
        for p in range(len(total)):
            total[p] += part[p]
    for p in range(len(total)):
        total[p] /= n


@kernel
def sampled_stream(
    first, net, work, lik, rule, moments, X, Y, seen, mu, v, alpha, n_iter, f, b, q, m0, prec0,
    step, deviations, cuts, state, jumps, coefficients, G, D, board,
):  # fmt: skip
    """Filter the rows of X (n, n_in) and Y (n, C) by mc-ef. Twin of filter.run.

    The first thread takes the steps, the others only share its jobs, which are the sums over parts of the samples. Beside the arguments of
    :func:`stream`: buffers for the number of the step, (1,), for the standard deviations, (P,), and for the sums, G and D (K, P); the
    samples cuts[k], …, cuts[k + 1] − 1 are part k; the state of PCG64, which is changed in place, with its jumps: those of
    lanes.drawing, then to each of the cuts. Returns what :func:`stream` returns.
    """
    i, last = 0, len(X) * n_iter  # all iterations of all steps
    while i < last or not first:
        t, i = i // n_iter, i + 1
        if first:
            if (i - 1) % n_iter == 0 and not _prior(t, seen, mu, v, f, b, q, m0, prec0):
                i += n_iter - 1
                continue
            step[0] = t
            for p in range(len(mu)):
                deviations[p] = np.sqrt(v[p])
            write(board, OFFERED, read(board, OFFERED) + len(G))
        more = _mc_jobs(net, work, lik, X, Y, step, mu, deviations, cuts, state, jumps, coefficients, board, G, D)
        if first:
            wait(board, len(G))
            state[0], state[1] = lcg(state[0], state[1], jumps[len(jumps) - 1])
            _mean(G, cuts[len(G)])
            _mean(D, cuts[len(G)])
            if not _step(rule, moments, m0, prec0, mu, v, G[0], D[0], 1.0, 1.0, alpha):
                write(board, CLOSED, 1)
                return t, 1
        elif not more:
            return 0, 0
    write(board, CLOSED, 1)
    return len(X), 0


# --- the loops with their buffers and threads -----------------------------------------------------------------------------------


class Loop:
    """A stream's kernel for one method. A subclass has the ``kernel``, the number of ``jobs`` at a time, and its ``buffers``."""

    kernel: Any
    hess: tuple[int, ...] = ()

    def __init__(self, m: Method, estimator: Compiled, jobs: int):
        P = estimator.P
        self.m, self.estimator, self.jobs, kept = m, estimator, jobs, P if m.rule in ("blr", "bbb") else 0
        self.buffers: tuple[np.ndarray, ...] = np.empty(kept), np.empty(kept)

    def run(self, state: Diag, X: np.ndarray, Y: np.ndarray, seen: np.ndarray, dyn: tuple[np.ndarray, ...]) -> tuple[Diag, int]:
        """The state after these steps; or the given one, and how many steps there are before one that gives no Gaussian."""
        m, mu, var, on_board = self.m, np.array(state.mu), np.array(state.var), board(self.jobs)
        rule = *self.hess, RULES[m.rule], int(m.family == "diag_mom")
        arguments = X, Y, seen, mu, var, float(m.params.get("alpha", 1)), m.n_iter, *dyn, *self.buffers, on_board

        def loop(k: int) -> tuple[int, int]:
            try:
                return self.kernel(k == 0, *self.estimator.parts(k), *rule, *arguments)
            finally:
                on_board[CLOSED] = 1  # whatever happens, nobody waits for the first thread

        done, code = together(self.estimator.threads, loop)
        return (Diag(mu, var) if code == 0 else state), done


class Linearised(Loop):
    """:func:`stream`, or with several threads :func:`shared_stream`."""

    def __init__(self, m: Method, estimator: Compiled):
        super().__init__(m, estimator, estimator.threads)
        self.kernel = stream if self.jobs == 1 else shared_stream
        C = estimator.net.n_outputs
        K = n_rows(estimator.lik, C) if m.hess == "lin-hess" else 1
        if K < SEVERAL and not isinstance(estimator.net, Dense):  # threads share the pixels, not the cotangents
            estimator.works = estimator.works[:1] * self.jobs
        self.hess = (0 if m.hess == "lin-hess" else 1,)
        self.buffers += np.empty((K, C)), np.empty(K), np.empty(K)


class Sampled(Loop):
    """:func:`sampled_stream`."""

    kernel = staticmethod(sampled_stream)

    def __init__(self, m: Method, estimator: Compiled, rng: np.random.Generator):
        M, P = m.params["n_samples"], estimator.P
        fours = -(-M // LANES)
        super().__init__(m, estimator, min(PARTS, fours))
        self.pcg, cuts = PCG(rng), np.array([min(M, LANES * (fours * k // self.jobs)) for k in range(self.jobs + 1)])
        jumps = self.pcg.jumps(*drawing(estimator.net, P), *(int(n) * P for n in cuts))
        self.buffers += np.zeros(1, dtype=np.int64), np.empty(P), cuts, self.pcg.state, jumps, table()
        self.buffers += np.empty((self.jobs, P)), np.empty((self.jobs, P))

    def run(self, *args: Any) -> tuple[Diag, int]:
        self.pcg.read()
        found = super().run(*args)
        self.pcg.close()
        return found


class Belief:
    """A diagonal belief in a loop of Python: models whose gradients come from elsewhere, samples that are given or drawn by NumPy."""

    ok = True  # every step is checked

    def __init__(self, m: Method, state: Diag, dyn):
        self.mu, self.var, self.dyn = np.array(state.mu), np.array(state.var), dyn
        self.m0, self.prec0 = np.empty_like(self.mu), np.empty_like(self.mu)
        self.rule, self.alpha = RULES[m.rule], float(m.params.get("alpha", 1))
        self.kernel = (diag_mom if m.family == "diag_mom" else diag_nat).step_alone

    def predict(self) -> None:
        if self.dyn is not None:
            F, b, Q = self.dyn
            self.mu = F * self.mu + b
            self.var = F**2 * self.var + Q

    def begin(self) -> None:
        self.m0[:] = self.mu
        np.divide(1.0, self.var, out=self.prec0)

    def draw(self, Z: np.ndarray) -> None:
        """Standard normals Z become θ̂. Twin of gaussians.draw."""
        Z *= np.sqrt(self.var)
        Z += self.mu

    def step(self, g: np.ndarray, rows: np.ndarray) -> bool:
        d = -np.einsum("kp,kp->p", rows, rows)
        return self.kernel(self.rule, self.m0, self.prec0, self.mu, self.var, g, d, self.alpha)

    def end(self) -> None: ...

    def state(self, last: bool = False) -> Diag:
        """The belief as a state of its own; for the ``last`` one its arrays are taken."""
        return Diag(self.mu, self.var) if last else Diag(self.mu.copy(), self.var.copy())

"""Streams of the diagonal families: the whole loop in machine code, and the Belief of the loops in Python."""

from __future__ import annotations

import numpy as np

from ...methods import Method
from ...states import Diag
from ..estimators import Compiled, together
from ..jit import inlined, inner, kernel
from ..kernels import diag_mom, diag_nat
from ..kernels.diag import RULES
from ..likelihoods import info_rows, score
from ..networks import forward, sweep
from ..normals import PCG, lcg, place_chains, table, to_normal, to_uniform
from ..teams import CLOSED, DONE, LINE, OFFERED, board, claim, read, wait, write


@inlined
def _predict(mu, v, f, b, q):
    """Twin of dynamics.propagate for diagonal F and Q."""
    for p in range(len(mu)):
        mu[p] = f[p] * mu[p] + b[p]
        v[p] = f[p] * f[p] * v[p] + q[p]


@inlined
def _from_rows(rows):
    """The first of the rows becomes diag G = −Σ rows² of all but the last, which is g."""
    d = rows[0]
    for p in range(len(d)):
        d[p] = -d[p] * d[p]
    for k in range(1, len(rows) - 1):
        row = rows[k]
        for p in range(len(d)):
            d[p] -= row[p] * row[p]


@inlined
def _estimate(net, work, lik, hess, x, y, mu, V, rows, o, s, buffer):
    """Twin of curvature.lin_hess (hess = 0) and lin_ef (1), with diag G: one sweep for each output, or one where there is one output.

    Leaves the gradient in the last of the rows, and where there are several diag G in the first. Returns (slope, root): what a single row
    is to be multiplied with for the gradient, and for a root of −diag G.
    """
    forward(net, mu, x, work, o)
    score(lik, o, y, s, buffer)
    C, last = len(o), len(rows) - 1
    slope, root = 1.0, 1.0
    if hess == 0:
        info_rows(lik, o, V, buffer)
    if C == 1:
        slope = s[0]
        root = V[0, 0] if hess == 0 else slope
        V[0, 0] = 1.0
    else:
        for c in range(C):
            V[last, c] = s[c]
    sweep(net, mu, x, work, V, rows)
    if last > 0:
        _from_rows(rows)
    return slope, root


def rows_for(hess: int, C: int, P: int) -> np.ndarray:
    """Room for the rows of an estimate: one for each output and one for g, or one where that will do."""
    return np.empty((C + 1 if hess == 0 and C > 1 else 1, P))


@kernel
def stream(net, work, lik, hess, rule, moments, X, Y, seen, mu, v, alpha, n_iter, f, b, q, rows, m0, prec0):
    """Filter the rows of X (n, n_in) and Y (n, C) by lin-hess (hess = 0) or lin-ef (1). Twin of filter.run.

    (mu, v) is changed in place. ``seen[t]`` is False where an observation is missing; f, b, q are the diagonals of the dynamics, empty
    where nothing moves; rows is a buffer of :func:`rows_for`, m0 and prec0 are buffers (P,) for blr and bbb.
    Returns the steps done, and 1 if the next one gives no Gaussian: positive definiteness lost, or a gradient that is not finite.
    """
    P, C, last = len(mu), Y.shape[1], len(rows) - 1
    V, d = np.empty((len(rows), C)), rows[0] if last > 0 else rows[0, :0]
    o, s, buffer = np.empty(C), np.empty(C), np.empty(C)
    for t in range(len(X)):
        if len(f) > 0:
            _predict(mu, v, f, b, q)
        if not seen[t]:
            continue
        if rule == 1 or rule == 3:
            for p in range(P):
                m0[p] = mu[p]
                prec0[p] = 1.0 / v[p]
        for _ in range(n_iter):
            slope, root = _estimate(net, work, lik, hess, X[t], Y[t], mu, V, rows, o, s, buffer)
            if moments:
                ok = diag_mom.step(rule, m0, prec0, mu, v, rows[last], d, slope, root, alpha)
            else:
                ok = diag_nat.step(rule, m0, prec0, mu, v, rows[last], d, slope, root, alpha)
            if not ok:
                return t, 1
    return len(X), 0


# --- mc-ef -------------------------------------------------------------------------------------------------------------------

PARTS = 8  # of the samples of an estimate, each with sums of its own, which threads share
WORTH = 20_000  # numbers in the samples of an estimate for which a second thread pays


@inlined
def _jobs(net, work, lik, X, Y, step, mu, deviations, cuts, state, jumps, coefficients, board, G, D):
    """Do what is on the board: G[k] = Σ_m g_m and D[k] = −Σ_m g_m², g_m the gradient at the samples cuts[k], …, cuts[k + 1] − 1.

    Twin of curvature.mc_ef and curvature.diagonal. Returns whether there may be more.
    """
    P, C = len(mu), Y.shape[1]
    V, o, s, buffer = np.empty((1, C)), np.empty(C), np.empty(C), np.empty(C)
    theta, rows, chains = np.empty(P), np.empty((1, P)), np.empty((4, 2), np.uint64)
    row = rows[0]
    job = claim(board)
    while job >= 0:
        k = job % len(G)
        x, y, g, d = X[step[0]], Y[step[0]], G[k], D[k]
        for p in range(P):
            g[p] = 0.0
            d[p] = 0.0
        place_chains(state, jumps[0], jumps[2 + k], chains)
        for _ in range(cuts[k + 1] - cuts[k]):
            to_uniform(chains, jumps[1], theta)
            to_normal(theta, coefficients)
            for p in range(P):
                theta[p] = mu[p] + deviations[p] * theta[p]
            forward(net, theta, x, work, o)
            score(lik, o, y, s, buffer)
            for c in range(C):
                V[0, c] = s[c]
            sweep(net, theta, x, work, V, rows)
            for p in range(P):
                g[p] += row[p]
                d[p] -= row[p] * row[p]
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
    step, deviations, cuts, state, jumps, coefficients, board, G, D,
):  # fmt: skip
    """Filter the rows of X (n, n_in) and Y (n, C) by mc-ef. Twin of filter.run.

    The first thread takes the steps, the others only share its jobs, which are the sums over parts of the samples. Beside the arguments of
    :func:`stream`: buffers for the number of the step, (1,), for the standard deviations, (P,), and for the sums, G and D (K, P); the
    samples cuts[k], …, cuts[k + 1] − 1 are part k; the state of PCG64, which is changed in place, with its jumps: one step, four steps, to
    each of the cuts. Returns what :func:`stream` returns.
    """
    i, last = 0, len(X) * n_iter  # all iterations of all steps
    while i < last or not first:
        t, i = i // n_iter, i + 1
        if first:
            if (i - 1) % n_iter == 0:
                if len(f) > 0:
                    _predict(mu, v, f, b, q)
                for p in range(len(m0)):
                    m0[p] = mu[p]
                    prec0[p] = 1.0 / v[p]
            if not seen[t]:
                continue
            step[0] = t
            for p in range(len(mu)):
                deviations[p] = np.sqrt(v[p])
            write(board, OFFERED, read(board, OFFERED) + len(G))
        more = _jobs(net, work, lik, X, Y, step, mu, deviations, cuts, state, jumps, coefficients, board, G, D)
        if first:
            wait(board, len(G))
            state[0], state[1] = lcg(state[0], state[1], jumps[len(jumps) - 1])
            _mean(G, cuts[len(G)])
            _mean(D, cuts[len(G)])
            if moments:
                ok = diag_mom.step(rule, m0, prec0, mu, v, G[0], D[0], 1.0, 1.0, alpha)
            else:
                ok = diag_nat.step(rule, m0, prec0, mu, v, G[0], D[0], 1.0, 1.0, alpha)
            if not ok:
                write(board, CLOSED, 1)
                return t, 1
        elif not more:
            return 0, 0
    write(board, CLOSED, 1)
    return len(X), 0


class Sampled:
    """:func:`sampled_stream` with its buffers and threads."""

    def __init__(self, m: Method, estimator: Compiled, P: int, rng: np.random.Generator):
        M, K = m.params["n_samples"], min(PARTS, m.params["n_samples"])
        self.m, self.estimator, self.pcg = m, estimator, PCG(rng)
        self.cuts, kept = np.array([M * k // K for k in range(K + 1)]), P if m.rule in ("blr", "bbb") else 0
        self.jumps = self.pcg.jumps(*(int(n) * P for n in self.cuts))
        self.priors, self.sums = (np.empty(kept), np.empty(kept)), (np.empty((K, P)), np.empty((K, P)))
        self.step, self.deviations = np.zeros(1, dtype=np.int64), np.empty(P)
        self.threads = min(estimator.threads, K) if M * P >= WORTH else 1

    def run(self, state: Diag, X: np.ndarray, Y: np.ndarray, seen: np.ndarray, dyn: tuple[np.ndarray, ...]) -> tuple[Diag, int]:
        """The state after these steps; or the given one, and how many steps there are before one that gives no Gaussian."""
        m, mu, var = self.m, np.array(state.mu), np.array(state.var)
        self.pcg.read()
        jobs = board(len(self.cuts) - 1)
        description = RULES[m.rule], int(m.family == "diag_mom"), X, Y, seen, mu, var, float(m.params.get("alpha", 1)), m.n_iter, *dyn
        drawing = self.step, self.deviations, self.cuts, self.pcg.state, self.jumps, table(), jobs, *self.sums

        def loop(k: int) -> tuple[int, int]:
            try:
                return sampled_stream(k == 0, *self.estimator.parts(k), *description, *self.priors, *drawing)
            finally:
                jobs[CLOSED] = 1  # whatever happens, nobody waits for the first thread

        done, code = together(self.threads, loop)
        self.pcg.close()
        return (Diag(mu, var) if code == 0 else state), done


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

    def draw(self, Z: np.ndarray, out: np.ndarray) -> None:
        np.multiply(Z, np.sqrt(self.var), out=out)
        out += self.mu

    def step(self, g: np.ndarray, rows: np.ndarray) -> bool:
        d = -np.einsum("kp,kp->p", rows, rows)
        return self.kernel(self.rule, self.m0, self.prec0, self.mu, self.var, g, d, self.alpha)

    def end(self) -> None: ...

    def state(self) -> Diag:
        return Diag(self.mu.copy(), self.var.copy())

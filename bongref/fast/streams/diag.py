"""Streams of the diagonal families: the whole loop in machine code where nothing is drawn, and the Belief of the other loops."""

from __future__ import annotations

import numpy as np

from ...methods import Method
from ...states import Diag
from ..jit import inlined, kernel
from ..kernels import diag_mom, diag_nat
from ..kernels.diag import RULES
from ..likelihoods import info_rows, score
from ..networks import forward, sweep


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


class Belief:
    """A diagonal belief in a loop of Python: mc-ef, and models whose gradients come from elsewhere."""

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

    def deviations(self) -> np.ndarray:
        """σ of each parameter."""
        return np.sqrt(self.var)

    def draw(self, Z: np.ndarray, out: np.ndarray) -> None:
        np.multiply(Z, self.deviations(), out=out)
        out += self.mu

    def step(self, g: np.ndarray, rows: np.ndarray) -> bool:
        return self.step_diagonal(g, -np.einsum("kp,kp->p", rows, rows))

    def step_diagonal(self, g: np.ndarray, d: np.ndarray) -> bool:
        return self.kernel(self.rule, self.m0, self.prec0, self.mu, self.var, g, d, self.alpha)

    def end(self) -> None: ...

    def state(self) -> Diag:
        return Diag(self.mu.copy(), self.var.copy())

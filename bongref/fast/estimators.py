"""The estimators of (g, G) in compiled code: lin-hess, lin-ef and mc-ef. Reference:
bongref.curvature.

The diagonal families take diag(G) (P,), for which no row of the Jacobian has to be written; the
others rows (K, P), G = −rowsᵀ rows.

    LinDiag, LinRows    the network linearised at μ
    McDiag, McRows      samples that the kernel draws itself (PCG64)
    Shared              the same samples with threads, in a loop in Python
    Host                everything else, in Python: given samples, other generators, models of the
                        user's, mini-batches
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import curvature
from . import likelihoods, nets, threads
from .generic import estimate, implement, place
from .jit import U, device, inlined, kernel
from .likelihoods import Places, score, weights
from .nets.interface import accumulate, forward, pullback, sums
from .normals import Source, fill, fill_array, restart, skip, source, state_of, transform
from .small import zeros
from .status import NOT_FINITE, OK
from .tuning import PARTS


class LinDiag(NamedTuple):
    """lin-hess or lin-ef for a diagonal family."""

    net: Any
    ints: Any  # the network's table and workspace
    v: Any
    at: Places  # the likelihood, and its places in v
    hess: int
    g: Any  # (P,)
    G: Any  # (P,)


class LinRows(LinDiag):
    """The same for a family that takes the rows of the Jacobian, G (K, P)."""


class McDiag(NamedTuple):
    """mc-ef for a diagonal family: sums over the samples in ``PARTS`` parts."""

    net: Any
    ints: Any
    v: Any
    at: Places
    source: Source
    buffers: Any  # (4, P): a sample, σ, and g and diag G of one part
    n_samples: int
    g: Any  # (P,)
    G: Any  # (P,)


class McRows(McDiag):
    """mc-ef for the other families: the samples become the rows of G (M, P); one buffer."""


# --- linearised -----------------------------------------------------------------------------------


@inlined
def lin_sums(est, mu, x, y):
    """est.g and est.G for a diagonal family. Reference: curvature.lin_hess, lin_ef, diagonal."""
    at = est.at
    forward(est.net, est.ints, est.v, mu, x, at.o)
    weights(at, est.hess, est.v, y)
    sums(est.net, est.ints, est.v, mu, at.V, at.K, at.c, est.g, est.G)  # eq:gL, eq:GL, eq:GLEF
    return OK


@implement(estimate, LinDiag)
def estimate_lin_diag(est, rule, prior, state, x, y, t, i, work):
    """:func:`lin_sums` at the mean."""
    return lin_sums(est, state.mu, x, y)


@device
def weigh_rows(v, c, rows, g):
    """g = Σ_k c_k rows_k, and then rows_k is multiplied by w_k; c (K,) at v[c], w (K,) after it."""
    K = U(len(rows))
    for k in range(K):
        row, u, w = rows[k], v[c + k], v[c + K + k]
        if k == 0:
            for p in range(len(g)):
                g[p] = u * row[p]
        else:
            for p in range(len(g)):
                g[p] += u * row[p]
        for p in range(len(g)):
            row[p] *= w


@inlined
def lin_rows(est, mu, x, y):
    """est.g and est.G, linearised at μ; -> status. Reference: curvature.lin_hess, lin_ef."""
    at = est.at
    forward(est.net, est.ints, est.v, mu, x, at.o)
    weights(at, est.hess, est.v, y)
    pullback(est.net, est.ints, est.v, mu, at.V, at.K, est.G)
    weigh_rows(est.v, at.c, est.G, est.g)  # eq:gL, eq:GL, eq:GLEF
    return finite(est.g)


@implement(estimate, LinRows)
def estimate_lin_rows(est, rule, prior, state, x, y, t, i, work):
    """:func:`lin_rows` at the mean."""
    return lin_rows(est, state.mu, x, y)


@device
def finite(g):
    """NOT_FINITE if a number is not finite."""
    bad = 0
    for p in range(len(g)):
        bad += 0 if g[p] - g[p] == 0.0 else 1
    return NOT_FINITE if bad > 0 else OK


# --- Monte Carlo ----------------------------------------------------------------------------------


@device
def gradient_sums(est, mu, x, y, n, first, second):
    """first = Σ_m ∇_m and second = −Σ_m ∇_m² over the next n samples θ = μ + σ z."""
    theta, deviations, at = est.buffers[0], est.buffers[1], est.at
    first[:] = 0.0
    second[:] = 0.0
    for _ in range(n):
        fill(est.source, theta, U(0), U(len(theta)))
        for p in range(len(mu)):
            theta[p] = mu[p] + deviations[p] * theta[p]  # sec:pseudocode#17
        forward(est.net, est.ints, est.v, theta, x, at.o)
        score(at, est.v, y, at.V)
        accumulate(est.net, est.ints, est.v, theta, at.V, first, second)  # sec:pseudocode#18


@device
def part(n, k):
    """Where part k of n samples begins; there are PARTS parts, whatever the number of threads."""
    return n * k // PARTS


@device
def add_part(k, a, b, scale, g, d):
    """(g, d) = scale · the sums (a, b) of part 0, or += those of part k."""
    if k == 0:
        for p in range(len(g)):
            g[p], d[p] = 0.0, 0.0
    for p in range(len(g)):
        g[p] += scale * a[p]
        d[p] += scale * b[p]


@implement(estimate, McDiag)
def estimate_mc_diag(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.mc_ef, and curvature.diagonal."""
    M, deviations, a, b = est.n_samples, est.buffers[1], est.buffers[2], est.buffers[3]
    for p in range(len(deviations)):
        deviations[p] = math.sqrt(state.var[p])
    for k in range(PARTS):
        gradient_sums(est, state.mu, x, y, part(M, k + 1) - part(M, k), a, b)
        add_part(k, a, b, 1.0 / M, est.g, est.G)  # eq:gMC, eq:GMCEF
    return OK


@device
def gradient_rows(est, x, y, theta, scale):
    """The rows θ_m of theta become scale · ∇log p(y | f(x, θ_m)); each θ_m is copied before."""
    at, v, here = est.at, est.v, est.buffers[0]
    for m in range(len(theta)):
        row = theta[m]
        for p in range(len(here)):
            here[p] = row[p]
        forward(est.net, est.ints, v, here, x, at.o)
        score(at, v, y, at.V)
        for c in range(at.C):
            v[at.V + c] *= scale
        pullback(est.net, est.ints, v, here, at.V, U(1), theta[m : m + 1])


@implement(estimate, McRows)
def estimate_mc_rows(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.mc_ef."""
    scale, g = 1.0 / math.sqrt(len(est.G)), est.g
    for m in range(len(est.G)):
        fill(est.source, est.G[m], U(0), U(len(state.mu)))
    status = place(rule, prior, state, est.G, work)  # sec:pseudocode#17
    if status != OK:
        return status
    gradient_rows(est, x, y, est.G, scale)  # sec:pseudocode#18, sec:pseudocode#21
    for p in range(len(g)):
        g[p] = 0.0
    for m in range(len(est.G)):
        row = est.G[m]
        for p in range(len(g)):
            g[p] += scale * row[p]  # eq:gMC
    return finite(g)


# --- in Python ------------------------------------------------------------------------------------


# the same functions, called from Python
sums_alone, rows_alone = kernel(gradient_sums), kernel(gradient_rows)
lin_alone = {LinDiag: kernel(lin_sums), LinRows: kernel(lin_rows)}


@kernel
def add_parts(sums, scale, g, d):
    """:func:`add_part` of all parts, called from Python."""
    for k in range(len(sums)):
        add_part(k, sums[k, 0], sums[k, 1], scale, g, d)


class Setting(NamedTuple):
    """What an estimator is made of."""

    m: Any
    model: Any
    lik: Any
    rng: Any
    samples: Any  # (T, I, M, P), or None
    single: bool  # a built-in model and one observation at a time
    K: int  # the most columns of S

    @property
    def diagonal(self) -> bool:
        return self.m.family in ("diag", "diag_mom")

    def result(self) -> tuple[Any, Any]:
        """(g, G)."""
        P = self.model.n_params
        return zeros(P), zeros(P) if self.diagonal else np.zeros((self.K, P))


def network(s: Setting, K: int) -> tuple[Any, ...]:
    """The network, its table and workspace, the likelihood's places in it; K cotangents."""
    (net, ints), C = nets.describe(s.model), s.model.n_outputs
    v = nets.workspace(net, likelihoods.extra(C, K))
    at = likelihoods.places(s.lik, C, K, int(net.size))
    likelihoods.load(s.lik, at, v)
    return net, ints, v, at


def sampler(s: Setting, *result: Any) -> Any:
    """mc-ef of one thread, with the arrays (g, G) of the result."""
    kind, buffers = (McDiag, 4) if s.diagonal else (McRows, 1)
    shape = buffers, s.model.n_params
    return kind(*network(s, 1), source(), np.zeros(shape), s.K, *result)


def compiled(s: Setting) -> Any:
    """The estimator of a loop that is compiled as a whole."""
    if s.m.hess == "mc-ef":
        return sampler(s, *s.result())
    hess = likelihoods.LIN_HESS if s.m.hess == "lin-hess" else likelihoods.LIN_EF
    K = likelihoods.n_rows(s.lik, s.model.n_outputs, hess)
    return (LinDiag if s.diagonal else LinRows)(*network(s, K), hess, *s._replace(K=K).result())


class Shared(NamedTuple):
    """mc-ef with threads; sums are added in the order of the parts, so that no bit changes."""

    setting: Setting
    workers: list[Any]  # a McDiag or McRows for each thread
    sums: Any  # (PARTS, 2, P) for a diagonal family
    g: Any
    G: Any  # (P,) or (M, P)


def shared(s: Setting, n: int) -> Shared:
    """The estimator of a loop in Python with n threads."""
    g, G = s.result()
    sums = np.zeros((PARTS, 2, len(g) if s.diagonal else 0))
    return Shared(s, [sampler(s, g, G) for _ in range(n)], sums, g, G)


@implement(estimate, Shared, host=True)
def estimate_shared(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.mc_ef, and curvature.diagonal."""
    rng, M, P, n = est.setting.rng, est.setting.K, len(state.mu), len(est.workers)
    begin, scale = state_of(rng), 1 / math.sqrt(M)

    def sums_of(k: int) -> None:
        worker = est.workers[k]
        worker.buffers[1] = np.sqrt(state.var)
        for j in range(k, PARTS, n):
            first, count = part(M, j), part(M, j + 1) - part(M, j)
            restart(worker.source, *begin, first * P)
            sums_alone(worker, state.mu, x, y, count, *est.sums[j])

    def draw(k: int, rows: slice) -> None:
        restart(est.workers[k].source, *begin, rows.start * P)
        fill_array(est.workers[k].source, est.G[rows].reshape(-1))

    if est.setting.diagonal:
        threads.together(n, sums_of)
        add_parts(est.sums, 1.0 / M, est.g, est.G)  # eq:gMC, eq:GMCEF
    else:
        threads.share(n, M, draw)
        status = place(rule, prior, state, est.G, work)
        if status != OK:
            return status
        threads.share(n, M, lambda k, rows: rows_alone(est.workers[k], x, y, est.G[rows], scale))
        est.g[:] = est.G.sum(axis=0) * scale  # eq:gMC
    skip(rng, M * P)
    return OK if np.all(np.isfinite(est.g)) else NOT_FINITE


class Host(NamedTuple):
    """Estimates in Python."""

    setting: Setting
    builtin: Any  # LinDiag, LinRows, or what :func:`sampler` gives; None for other models
    source: Source  # for the quantiles
    g: Any
    G: Any


def host(s: Setting) -> Host:
    """The estimator of a loop in Python."""
    if s.single and s.m.hess != "mc-ef":
        inner = compiled(s)
        return Host(s, inner, source(), inner.g, inner.G)
    g, G = s.result()
    return Host(s, sampler(s, g, G) if s.single else None, source(), g, G)


@implement(estimate, Host, host=True)
def estimate_host(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.lin_hess, lin_ef, mc_ef."""
    s, theta = est.setting, state.mu
    if isinstance(est.builtin, LinDiag):
        return lin_alone[type(est.builtin)](est.builtin, state.mu, x, y)
    if s.m.hess == "mc-ef":
        if s.samples is None:
            theta = np.empty((s.K, len(state.mu)))
            s.rng.random(out=theta.reshape(-1))
            transform(theta.reshape(-1), est.source)
            status = place(rule, prior, state, theta, work)
            if status != OK:
                return status
        else:
            theta = s.samples[t, i].copy()
    if s.m.hess == "mc-ef" and est.builtin is not None:
        rows_alone(est.builtin, x, y, theta, 1 / math.sqrt(len(theta)))
        g, rows = theta.sum(axis=0) / math.sqrt(len(theta)), theta
    else:
        estimator = getattr(curvature, s.m.hess.replace("-", "_"))
        curv = estimator(s.model, s.lik, x, y, theta)
        g, rows = curv.g, np.ascontiguousarray(curv.S.T)
    est.g[:] = g
    if s.diagonal:
        est.G[:] = -np.einsum("kp,kp->p", rows, rows)
    else:
        est.G[: len(rows)] = rows
        est.G[len(rows) :] = 0.0
    return OK if np.all(np.isfinite(rows)) and np.all(np.isfinite(g)) else NOT_FINITE

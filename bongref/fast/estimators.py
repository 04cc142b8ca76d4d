"""The estimators of (g, G) in compiled code: lin-hess, lin-ef and mc-ef. Reference: bongref.curvature.

The diagonal families take diag(G) (P,), for which no row of the Jacobian has to be written; the others rows (K, P), G = −rowsᵀ rows.

    LinDiag, LinRows    the network linearised at μ
    McDiag, McRows      samples that the kernel draws itself (PCG64)
    Shared              the same samples with threads, in a loop in Python
    Host                everything else, in Python: given samples, other generators, models of the user's, mini-batches
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .. import curvature
from . import likelihoods, nets, threads
from .generic import estimate, implement, place
from .jit import U, device, kernel
from .likelihoods import Places, score, weights
from .nets.interface import accumulate, forward, pullback, sums
from .normals import Source, fill, fill_array, restart, skip, source, state_of, transform
from .status import NOT_FINITE, OK
from .tuning import PARTS


class LinDiag(NamedTuple):
    """lin-hess or lin-ef for a diagonal family."""

    net: Any
    ints: Any  # the network's table and workspace
    v: Any
    words: Any
    at: Places  # the likelihood, and its places in v
    hess: int
    g: Any  # (P,)
    G: Any  # (P,)


class LinRows(NamedTuple):
    """The same for a family that takes the rows of the Jacobian."""

    net: Any
    ints: Any
    v: Any
    words: Any
    at: Places
    hess: int
    g: Any
    G: Any  # (K, P)


class McDiag(NamedTuple):
    """mc-ef for a diagonal family: sums over the samples in ``PARTS`` parts, which threads can share."""

    net: Any
    ints: Any
    v: Any
    words: Any
    at: Places
    source: Source
    buffers: Any  # (2, P): a sample, σ
    sums: Any  # (2, P): g and diag G of one part
    n_samples: int
    g: Any
    G: Any  # (P,)


class McRows(NamedTuple):
    """mc-ef for the other families: the samples become the rows."""

    net: Any
    ints: Any
    v: Any
    words: Any
    at: Places
    source: Source
    g: Any
    G: Any  # (M, P)


# --- linearised ----------------------------------------------------------------------------------------------------------------


@implement(estimate, LinDiag)
def estimate_lin_diag(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.lin_hess, lin_ef, and curvature.diagonal."""
    at = est.at
    forward(est.net, est.ints, est.v, est.words, state.mu, x, at.o)
    weights(at, est.hess, est.v, y)
    sums(
        est.net, est.ints, est.v, est.words, state.mu, at.V, at.K, at.c, est.g, est.G
    )  # eq:gL, eq:GL, eq:GLEF
    return OK


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


@implement(estimate, LinRows)
def estimate_lin_rows(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.lin_hess, lin_ef."""
    at = est.at
    forward(est.net, est.ints, est.v, est.words, state.mu, x, at.o)
    weights(at, est.hess, est.v, y)
    pullback(est.net, est.ints, est.v, est.words, state.mu, at.V, at.K, est.G)
    weigh_rows(est.v, at.c, est.G, est.g)  # eq:gL, eq:GL, eq:GLEF
    return finite(est.g)


@device
def finite(g):
    """NOT_FINITE if a number is not finite."""
    bad = 0
    for p in range(len(g)):
        bad += 0 if g[p] - g[p] == 0.0 else 1
    return NOT_FINITE if bad > 0 else OK


# --- Monte Carlo ---------------------------------------------------------------------------------------------------------------


@device
def gradient_sums(net, ints, v, words, at, source, buffers, mu, x, y, n, g):
    """g[0] = Σ_m ∇_m and g[1] = −Σ_m ∇_m² over the next n samples θ = μ + σ z, σ = buffers[1]."""
    g[:] = 0.0
    theta, deviations, first, second = buffers[0], buffers[1], g[0], g[1]
    for _ in range(n):
        fill(source, theta, U(0), U(len(theta)))
        for p in range(len(mu)):
            theta[p] = mu[p] + deviations[p] * theta[p]  # sec:pseudocode#17
        forward(net, ints, v, words, theta, x, at.o)
        score(at, v, y, at.V)
        accumulate(net, ints, v, words, theta, at.V, first, second)  # sec:pseudocode#18


@device
def part(n, k):
    """Where part k of n samples begins; there are PARTS parts, whatever the number of threads."""
    return n * k // PARTS


@device
def roots(var, out):
    """out = √var."""
    for p in range(len(out)):
        out[p] = math.sqrt(var[p])


@device
def add_part(k, sums, scale, g, d):
    """(g, d) = scale · the sums of part 0, or += those of part k."""
    a, b = sums[0], sums[1]
    if k == 0:
        for p in range(len(g)):
            g[p], d[p] = 0.0, 0.0
    for p in range(len(g)):
        g[p] += scale * a[p]
        d[p] += scale * b[p]


@implement(estimate, McDiag)
def estimate_mc_diag(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.mc_ef, and curvature.diagonal."""
    roots(state.var, est.buffers[1])
    M = est.n_samples
    for k in range(PARTS):
        n = part(M, k + 1) - part(M, k)
        gradient_sums(
            est.net,
            est.ints,
            est.v,
            est.words,
            est.at,
            est.source,
            est.buffers,
            state.mu,
            x,
            y,
            n,
            est.sums,
        )
        add_part(k, est.sums, 1.0 / M, est.g, est.G)  # eq:gMC, eq:GMCEF
    return OK


@device
def gradient_rows(net, ints, v, words, at, x, y, theta, scale):
    """The rows θ_m of theta become scale · ∇log p(y | f(x, θ_m))."""
    for m in range(len(theta)):
        forward(net, ints, v, words, theta[m], x, at.o)
        score(at, v, y, at.V)
        for c in range(at.C):
            v[at.V + c] *= scale
        pullback(net, ints, v, words, theta[m], at.V, U(1), theta[m : m + 1])


@device
def row_sum(rows, scale, g):
    """g = scale · Σ_m rows_m."""
    for p in range(len(g)):
        g[p] = 0.0
    for m in range(len(rows)):
        row = rows[m]
        for p in range(len(g)):
            g[p] += scale * row[p]


@implement(estimate, McRows)
def estimate_mc_rows(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.mc_ef."""
    scale = 1.0 / math.sqrt(len(est.G))
    for m in range(len(est.G)):
        fill(est.source, est.G[m], U(0), U(len(state.mu)))
    status = place(rule, prior, state, est.G, work)  # sec:pseudocode#17
    if status != OK:
        return status
    gradient_rows(
        est.net, est.ints, est.v, est.words, est.at, x, y, est.G, scale
    )  # sec:pseudocode#18, sec:pseudocode#21
    row_sum(est.G, scale, est.g)  # eq:gMC
    return finite(est.g)


# --- in Python -----------------------------------------------------------------------------------------------------------------


@kernel
def rows_alone(net, ints, v, words, at, x, y, theta, scale):
    """:func:`gradient_rows`, called from Python."""
    gradient_rows(net, ints, v, words, at, x, y, theta, scale)


@kernel
def sums_alone(net, ints, v, words, at, source, buffers, mu, x, y, n, g):
    """:func:`gradient_sums`, called from Python."""
    gradient_sums(net, ints, v, words, at, source, buffers, mu, x, y, n, g)


@kernel
def add_parts(sums, scale, g, d):
    """:func:`add_part` of all parts, called from Python."""
    for k in range(len(sums)):
        add_part(k, sums[k], scale, g, d)


class Setting(NamedTuple):
    """What an estimator is made of."""

    m: Any
    model: Any
    lik: Any
    rng: Any
    samples: Any  # (T, I, M, P), or None
    single: bool  # a built-in model and one observation at a time
    K: int  # the most columns of S


def network(s: Setting, K: int) -> tuple[Any, ...]:
    """The compiled network, its table and workspace, and the likelihood's places in it, with K cotangents."""
    (net, ints), C = nets.describe(s.model), s.model.n_outputs
    v, words = nets.workspace(net, likelihoods.extra(C, K))
    at = likelihoods.places(s.lik, C, K, int(net.size))
    likelihoods.load(s.lik, at, v)
    return net, ints, v, words, at


def compiled(s: Setting) -> Any:
    """The estimator of a loop that is compiled as a whole."""
    P, diagonal = s.model.n_params, s.m.family in ("diag", "diag_mom")
    if s.m.hess == "mc-ef":
        if diagonal:
            buffers = np.zeros((2, P)), np.zeros((2, P))
            return McDiag(*network(s, 1), source(), *buffers, s.K, np.zeros(P), np.zeros(P))
        return McRows(*network(s, 1), source(), np.zeros(P), np.zeros((s.K, P)))
    hess = likelihoods.LIN_HESS if s.m.hess == "lin-hess" else likelihoods.LIN_EF
    K = likelihoods.n_rows(s.lik, s.model.n_outputs, hess)
    kind, G = (LinDiag, np.zeros(P)) if diagonal else (LinRows, np.zeros((K, P)))
    return kind(*network(s, K), hess, np.zeros(P), G)


def host(s: Setting) -> Any:
    """The estimator of a loop in Python."""
    P, diagonal = s.model.n_params, s.m.family in ("diag", "diag_mom")
    G = np.zeros(P) if diagonal else np.zeros((s.K, P))
    return Host(
        s.m,
        s.model,
        s.lik,
        s.rng,
        s.samples,
        diagonal,
        network(s, 1) if s.single else None,
        source(),
        np.zeros(P),
        G,
    )


class Worker(NamedTuple):
    """What one thread works with."""

    network: Any  # as :func:`network` gives it
    source: Source
    buffers: Any  # (2, P) for a diagonal family


class Shared(NamedTuple):
    """mc-ef with threads. Which thread does what changes no bit: samples are independent, and sums are added in the order of the parts."""

    rng: Any
    diagonal: bool
    workers: list[Worker]
    sums: Any  # (PARTS, 2, P) for a diagonal family
    n_samples: int
    g: Any
    G: Any  # (P,) or (M, P)


def shared(s: Setting, n: int) -> Shared:
    """The estimator of a loop in Python with n threads."""
    P, diagonal = s.model.n_params, s.m.family in ("diag", "diag_mom")
    Q = P if diagonal else 0
    workers = [Worker(network(s, 1), source(), np.zeros((2, Q))) for _ in range(n)]
    return Shared(
        s.rng,
        diagonal,
        workers,
        np.zeros((PARTS, 2, Q)),
        s.K,
        np.zeros(P),
        np.zeros(P) if diagonal else np.zeros((s.K, P)),
    )


@implement(estimate, Shared, host=True)
def estimate_shared(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.mc_ef, and curvature.diagonal."""
    begin, n, M, P = state_of(est.rng), len(est.workers), est.n_samples, len(state.mu)
    if est.diagonal:

        def sums_of(k: int) -> None:
            worker = est.workers[k]
            worker.buffers[1] = np.sqrt(state.var)
            for j in range(k, PARTS, n):
                first, count = part(M, j), part(M, j + 1) - part(M, j)
                restart(worker.source, *begin, first * P)
                sums_alone(
                    *worker.network,
                    worker.source,
                    worker.buffers,
                    state.mu,
                    x,
                    y,
                    count,
                    est.sums[j],
                )

        threads.together(n, sums_of)
        add_parts(est.sums, 1.0 / M, est.g, est.G)  # eq:gMC, eq:GMCEF
    else:

        def draw(k: int, rows: slice) -> None:
            restart(est.workers[k].source, *begin, rows.start * P)
            fill_array(est.workers[k].source, est.G[rows].reshape(-1))

        threads.share(n, M, draw)
        status = place(rule, prior, state, est.G, work)
        if status != OK:
            return status
        scale = 1 / math.sqrt(M)
        threads.share(
            n, M, lambda k, rows: rows_alone(*est.workers[k].network, x, y, est.G[rows], scale)
        )
        est.g[:] = est.G.sum(axis=0) * scale  # eq:gMC
    skip(est.rng, M * P)
    return OK if np.all(np.isfinite(est.g)) else NOT_FINITE


class Host(NamedTuple):
    """Estimates in Python."""

    m: Any
    model: Any
    lik: Any
    rng: Any
    samples: Any  # (T, I, M, P), or None
    diagonal: bool
    builtin: Any  # what :func:`network` gives; None for other models
    source: Any  # for the quantiles
    g: Any
    G: Any


@implement(estimate, Host, host=True)
def estimate_host(est, rule, prior, state, x, y, t, i, work):
    """Reference: curvature.lin_hess, lin_ef, mc_ef."""
    if est.m.hess == "mc-ef":
        rows = (
            np.empty((est.m.params["n_samples"], len(state.mu)))
            if est.samples is None
            else est.samples[t, i].copy()
        )
        if est.samples is None:
            est.rng.random(out=rows.reshape(-1))
            transform(rows.reshape(-1), est.source)
            status = place(rule, prior, state, rows, work)
            if status != OK:
                return status
        if est.builtin is not None:
            scale = 1 / math.sqrt(len(rows))
            rows_alone(*est.builtin, x, y, rows, scale)
            g = rows.sum(axis=0) * scale
        else:
            g, rows = _transposed(curvature.mc_ef(est.model, est.lik, x, y, rows))
    else:
        estimator = curvature.lin_hess if est.m.hess == "lin-hess" else curvature.lin_ef
        g, rows = _transposed(estimator(est.model, est.lik, x, y, state.mu))
    est.g[:] = g
    if est.diagonal:
        est.G[:] = -np.einsum("kp,kp->p", rows, rows)
    else:
        est.G[: len(rows)] = rows
        est.G[len(rows) :] = 0.0
    return OK if np.all(np.isfinite(rows)) and np.all(np.isfinite(g)) else NOT_FINITE


def _transposed(curv: curvature.Curv) -> tuple[Any, Any]:
    return curv.g, np.ascontiguousarray(curv.S.T)

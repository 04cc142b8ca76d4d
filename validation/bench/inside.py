"""What one observation of a diagonal family on the MLP is made of, and bbb in the DLR family and with a full covariance:
``python -m validation.bench.inside``.

These cells are far from the bandwidth of the cache, because other things bound them. The table has the nanoseconds of each part of the
compiled step, alone in a loop, beside what the machine needs at least for the operation that the part is full of, measured in the same run:
divisions (one for each parameter in a step of a natural family), products that are added up, stores.
Of bbb in the DLR family the tall parts are those of one thread of two, beside what their products alone would take; an iteration of a
stream also has the network, and two threads that wait for one another twice and read what the other has written. With a full covariance in
moments an update is to a third products of the prior's precision with the vectors of a basis.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np
from bongref.fast.borrow import borrowed
from bongref.fast.kernels.dlr import (
    MEASURE,
    SETTLE,
    bbb_part,
    bbb_small,
    buffers,
    cholesky,
    combine,
    fold,
)
from bongref.fast.networks import activate, describe, forward, part, pull, workspace
from bongref.fast.streams import fc
from bongref.fast.streams.diag import _steps

from bongref import likelihoods, method, models, run
from bongref.fast.jit import kernel
from bongref.fast.likelihoods import describe as describe_likelihood
from bongref.fast.likelihoods import weighted_rows

from .cells import TRIES

TIMES = 20_000  # of each part in a loop


@kernel
def _forward(n, net, work, mu, x, o):
    net, work, mu, x, o = borrowed((net, work, mu, x, o))
    for _ in range(n):
        forward(net, mu, x, work, o)


@kernel
def _activate(n, z, h, d):
    for _ in range(n):
        activate(3, z, h, d)


@kernel
def _likelihood(n, lik, o, y, V, c, w, buffer):
    for _ in range(n):
        weighted_rows(lik, 0, o, y, V, c, w, buffer)


@kernel
def _pull(n, net, work, mu, V):
    net, work, mu, V = borrowed((net, work, mu, V))
    for _ in range(n):
        pull(net, mu, work, V, 0, 1)


@kernel
def _row(n, net, work, c, w, g, d):
    net, work, c, w, g, d = borrowed((net, work, c, w, g, d))
    for _ in range(n):
        part(net, work, 1, c, w, 0, len(g), g, d)


@kernel
def _row_and_step(n, net, work, c, w, rule, moments, none, mu, v, g, d):
    net, work, c, w, mu, v, g, d, none = borrowed((net, work, c, w, mu, v, g, d, none))
    good = True
    for _ in range(n):
        good &= _steps(
            net, work, 1, c, w, rule, moments, none, none, mu, v, g, d, 1e-12, 0, len(mu)
        )
    return good


@kernel
def _divide(n, a, b, c):
    for k in range(n):
        a[0] = k
        for i in range(len(a)):
            c[i] = a[i] / b[i]


@kernel
def _store(n, a, b, c):
    for k in range(n):
        a[0] = k
        for i in range(len(a)):
            c[i] = a[i] * b[i]


@kernel
def _bbb_part(n, kind, prior, now, rows, s, b):
    for _ in range(n):
        bbb_part(kind, 0, *prior, *now, rows, rows[0], s, 1e-14, b)


@kernel
def _bbb_small(n, R, columns, b):
    for _ in range(n):
        fold(b.h, R + 1, columns, b.J)
        fold(b.g, R, R, b.T)
        cholesky(b.J, R, b.G)
        bbb_small(R, columns, 1e-14, b.J, b.T, b.G, b.V, b.j, b.v)


@kernel
def _products(n, rows, columns, b):
    for _ in range(n):
        combine(b.v, len(b.V), rows, columns, b.x[0], 24, b.X.shape[2], b.z[0])


@kernel
def _times(n, h, x, y):
    h = borrowed(h)
    for _ in range(n):
        fc._times(h, x, y)


def nanoseconds(part: Any, *args: Any, times: int = TIMES) -> float:
    """The best of seven loops."""
    part(1, *args)
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        part(times, *args)
        best = min(best, time.perf_counter() - start)
    return best / times * 1e9


def rows() -> list[tuple[str, float]]:
    """(what, nanoseconds), parts first."""
    model, rng = models.mlp([21, 20, 20, 1], activation="gelu"), np.random.default_rng(0)
    net, lik, P = (
        describe(model),
        describe_likelihood(likelihoods.Gaussian(var=0.1), 1),
        model.n_params,
    )
    work, mu, x, y = workspace(net, 2), model.init(rng), rng.standard_normal(21), np.zeros(1)
    V, c, w, o, buffer = (
        np.ones((1, 1)),
        np.full(1, 1e-12),
        np.full(1, 1e-9),
        np.empty(1),
        np.empty(1),
    )
    g, d, none, b = np.empty(P), np.empty(P), np.empty(0), rng.uniform(1, 2, P)
    steps = lambda rule, moments: nanoseconds(
        _row_and_step, net, work, c, w, rule, moments, none, mu.copy(), np.full(P, 1e-8), g, d
    )
    found = [("network, forward", nanoseconds(_forward, net, work, mu, x, o))]
    found += [
        (
            "of this the 40 activations",
            nanoseconds(_activate, rng.standard_normal(40), np.empty(40), np.empty(40)),
        )
    ]
    found += [("network, back", nanoseconds(_pull, net, work, mu, V))]
    found += [("the row of the Jacobian", nanoseconds(_row, net, work, c, w, g, d))]
    found += [
        ("row and step, bong-diag", steps(0, 0)),
        ("row and step, bong-diag_mom", steps(0, 1)),
        ("row and step, bog-diag_mom", steps(2, 1)),
    ]
    found += [
        ("likelihood", nanoseconds(_likelihood, lik, o, y, V, np.empty(1), np.empty(1), buffer))
    ]
    found += [
        (f"limit: {P} divisions", nanoseconds(_divide, g, b, d)),
        (f"limit: {P} products, stored", nanoseconds(_store, g, b, d)),
    ]
    return found


def bbb_rows(R: int = 10, I: int = 10) -> list[tuple[str, float]]:
    """(what, nanoseconds) of an iteration of bbb-lin-hess-dlr, parts first."""
    model, rng = models.mlp([21, 20, 20, 1], activation="gelu"), np.random.default_rng(0)
    P, n, half = model.n_params, 2 * R + 1, (model.n_params + 1) // 2
    b, Ups = buffers(n, P, 2, R + 1), rng.uniform(90, 110, P)
    prior = np.zeros(P), Ups + 0.1, 1e-3 * rng.standard_normal((R, P))
    now, rows = (
        (np.full(P, 1e-3), Ups, 1e-3 * rng.standard_normal((R, P))),
        1e-3 * rng.standard_normal((1, P)),
    )
    tall = [
        nanoseconds(_bbb_part, kind, prior, now, rows, np.ones(3), b) for kind in (MEASURE, SETTLE)
    ]
    each = nanoseconds(_products, R, n, b) / (24 * R * n)  # of a product and a sum
    counts = (
        12 * 27,
        2 * (R + 1) * R + R * R // 2 + R * n,
    )  # for each parameter, in tiles of 4 × 3 and of 2 rows
    found = [
        ("bbb: Gram matrices, half of the parameters", tall[0]),
        ("limit: their products", each * counts[0] * half),
    ]
    found += [
        ("bbb: the new state, half of the parameters", tall[1]),
        ("limit: its products", each * counts[1] * half),
    ]
    found += [("bbb: small matrices", nanoseconds(_bbb_small, R, n, b))]
    m = method("bbb-lin-hess-dlr", rank=R, n_iter=I, alpha=1e-5)
    X, Y = rng.standard_normal((500, 21)), rng.standard_normal((500, 1))
    seconds = [
        run(
            m,
            model,
            likelihoods.Gaussian(var=1.0),
            m.prior(mu=model.init(rng), var=0.01),
            X,
            Y,
            backend="fast",
        ).info.seconds
        for _ in range(4)
    ]
    return [*found, ("bbb: an iteration in a stream", min(seconds) / len(X) / I * 1e9)]


def krylov_rows(I: int = 10) -> list[tuple[str, float]]:
    """(what, nanoseconds) of an update of bbb-lin-hess-fc_mom: the products that its basis needs, and all of it."""
    model, rng = models.mlp([21, 20, 20, 1], activation="gelu"), np.random.default_rng(0)
    (var, alpha), P, basis, commit = TRIES["bbb"][0], model.n_params, [], fc._BbbMom.commit
    m, lik = method("bbb-lin-hess-fc_mom", n_iter=I, alpha=alpha), likelihoods.Gaussian(var=0.1)
    prior, X, Y = (
        m.prior(mu=model.init(rng), var=var),
        rng.standard_normal((40, 21)),
        rng.standard_normal((40, 1)),
    )
    counted = lambda self, Q, *rest: basis.append(len(Q)) or commit(self, Q, *rest)
    with mock.patch.object(fc._BbbMom, "commit", counted):
        seconds = [run(m, model, lik, prior, X, Y, backend="fast").info.seconds for _ in range(4)]
    h, x = fc.held(np.eye(P), np.zeros(P), 1.0, fc.ROOM), np.ones(P)
    each, k = nanoseconds(_times, h, x, np.empty(P), times=500), sum(basis) / len(basis)
    found = [
        (f"bbb-fc_mom: {k:.0f} products with a matrix of {P} rows, half of them", each * k / 2)
    ]
    return [*found, ("bbb-fc_mom: an update in a stream", min(seconds) / len(X) * 1e9)]


if __name__ == "__main__":
    print("| part | ns |\n|---|---|")
    for what, ns in [*rows(), *bbb_rows(), *krylov_rows()]:
        print(f"| {what} | {ns:.0f} |", flush=True)

"""mc-ef in the DLR family with many samples: the jobs of kernels.wide, the eigenvectors that they need, and their streams."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from problems import agree

import bongref as br
from bongref import gaussians
from bongref.curvature import Curv
from bongref.dynamics import OU
from bongref.fast import streams as drivers
from bongref.fast.kernels import tridiagonal, wide
from bongref.fast.streams import dlr as streams
from bongref.fast.teams import board
from bongref.routes import compare

SLOW = bool(numba.config.DISABLE_JIT)  # plain Python: small sizes


# --- eigenvectors --------------------------------------------------------------------------------------------------------------


def spectrum(kind, n, R):
    """Eigenvalues with a gap before the R largest."""
    top = {"plain": np.geomspace(1, 1e-3, R), "equal": np.ones(R), "graded": np.geomspace(1, 1e-6, R), "two": np.repeat([1.0, 0.1], R)[-R:]}
    rest = {"plain": np.linspace(0.5, 0, n - R), "equal": np.ones(n - R), "graded": np.geomspace(0.3, 1e-8, n - R), "two": np.zeros(n - R)}
    return np.concatenate([top[kind], 0.8 * top[kind][-1] * rest[kind]])


@pytest.mark.parametrize("kind", ["plain", "equal", "graded", "two"])
@pytest.mark.parametrize(("n", "R"), [(2, 1), (5, 2), (13, 12), (30, 14), (61, 7)])
def test_leading_eigenvectors_and_shifted_solves(kind, n, R):
    """Beside numpy.linalg.eigh and solve: more eigenvalues than are sought at once, equal ones, and a matrix in two parts."""
    if SLOW and n > 30:
        pytest.skip("too large without compilation")
    rng = np.random.default_rng(n)
    lam, U = spectrum(kind, n, R), np.linalg.qr(rng.standard_normal((n, n)))[0]
    G, N = (U * lam) @ U.T, wide.padded(n + 3)
    sums = np.zeros((2, 2, N * N))
    for k, share in enumerate((0.25, 0.75)):
        sums[k, 0].reshape(N, N)[:n, :n] = share * np.triu(G)
    small = np.zeros(N * N), np.zeros(n), np.zeros(n), np.zeros((n, N)), np.zeros((5, n))
    values, V = np.zeros(R + 1), np.zeros((R, n))
    tridiagonal.leading(sums, *small, values, V)
    gap = lam[R - 1] - lam[R]
    assert np.max(np.abs(values - np.sort(lam)[n - R - 1 :])) < 64 * n * compare.EPS
    assert np.max(np.abs(V @ V.T - np.eye(R))) < 64 * n * compare.EPS
    assert np.max(np.abs(V.T @ V - U[:, :R] @ U[:, :R].T)) < 64 * n * compare.EPS / gap
    B = rng.standard_normal((R, n))
    shifts = 1.1 + np.arange(R)
    wanted = np.array([np.linalg.solve(s * np.eye(n) - G, b) for s, b in zip(shifts, B, strict=True)])
    tridiagonal.solve_shifted(*small[1:], shifts, B)
    assert np.max(np.abs(B - wanted)) < 64 * n * compare.EPS * 30 * np.max(np.abs(wanted))


@pytest.mark.parametrize("lam", [[3.0], [0.0, 0.0], [2.0, 2.0, 2.0], [60.0, 1.0, 1e-12, 0.0], list(np.linspace(0, 9, 11))])
def test_rotations_to_a_diagonal_matrix(lam):
    """Equal and vanishing eigenvalues too."""
    R = len(lam)
    U = np.linalg.qr(np.random.default_rng(R).standard_normal((R, R)))[0]
    B = (U * lam) @ U.T
    B = (B + B.T) / 2
    D, V = B.copy(), np.empty((R, R))
    wide.turn_to_diagonal(D, V)
    tolerance = 64 * R * compare.EPS * max(1, max(lam))
    assert np.max(np.abs(V @ V.T - np.eye(R))) < 64 * R * compare.EPS
    assert np.max(np.abs(np.sort(np.diag(D)) - np.sort(lam))) < tolerance
    assert np.max(np.abs((V.T * np.diag(D)) @ V - B)) < tolerance


# --- one step ------------------------------------------------------------------------------------------------------------------


def test_a_gap_that_the_eigenvectors_cannot_see_is_left_to_the_triangle(monkeypatch):
    """σ_R/σ₁ = 1e-9: the Gram matrix knows nothing of it."""
    rng = np.random.default_rng(0)
    P, K, R = 60, 8, 4
    U, V = (np.linalg.qr(rng.standard_normal((k, K)))[0] for k in (P, K))
    S = (U * np.geomspace(1, 1e-17, K)) @ V.T
    taken = []
    triangle = streams.Wide.by_triangle
    monkeypatch.setattr(streams.Wide, "by_triangle", lambda self: taken.append(1) or triangle(self))
    Ups, Wt = np.full(P, 1e-290), np.zeros((R, P))
    many = streams.Wide((np.zeros(P), Ups, Wt), (), K)
    many.data = many.data._replace(rows=np.ascontiguousarray(S.T))
    many.go(wide.GRAMS)
    many.place(many.leading())
    many.go(wide.SETTLE)
    wanted = br.dlr.project(np.zeros(P), S, R)
    assert taken
    assert compare.difference("W W^T", Wt.T @ Wt, wanted[1] @ wanted[1].T, 10.0).agrees


@pytest.mark.parametrize(("ratio", "checked"), [(4.0, False), (10.0, False), (300.0, True)])
def test_eigenvectors_are_corrected_where_the_singular_values_are_far_apart(ratio, checked):
    """Either way to what rounding in W̃ itself would do."""
    rng = np.random.default_rng(1)
    P, K, R = 70, 20, 4
    U, V = (np.linalg.qr(rng.standard_normal((k, K)))[0] for k in (P, K))
    S = (U * np.concatenate([np.geomspace(1, 1 / ratio, R), np.linspace(0.5, 0.1, K - R) / ratio])) @ V.T
    Ups, Wt, kinds = np.full(P, 1e-9), np.zeros((R, P)), []
    many = streams.Wide((np.zeros(P), Ups, Wt), (), K)
    many.data = many.data._replace(rows=np.ascontiguousarray(S.T))
    go = many.go
    many.go = lambda kind: kinds.append(kind) or go(kind)
    many.go(wide.GRAMS)
    assert many.project() == streams.OK
    assert (wide.CHECK in kinds) == checked
    wanted = br.dlr.project(np.full(P, 1e-9), S, R)
    assert compare.difference("Upsilon", Ups, wanted[0], 2 * ratio).agrees
    assert compare.difference("W W^T", Wt.T @ Wt, wanted[1] @ wanted[1].T, 2 * ratio).agrees


@pytest.mark.parametrize("P", [30, 263])
@pytest.mark.parametrize("K", [8, 13])
def test_rows_in_fours_are_rows(P, K):
    """The same bits from (·, P, 4), also where the rows and columns do not go into fours, and by the triangular factor."""
    rng = np.random.default_rng(P + K)
    R, found = 3, []
    rows, start, fours = rng.standard_normal((K, P)), rng.standard_normal((R, P)), np.zeros((-(-K // 4), 4, P))
    fours.reshape(-1, P)[:K] = rows
    for given in (rows, fours.swapaxes(1, 2).ravel()):
        Ups, Wt = np.full(P, 2.0), start.copy()
        many = streams.Wide((np.zeros(P), Ups, Wt), (), K, jobs=2)
        many.data = many.data._replace(rows=given)
        V = many.by_triangle()
        many.go(wide.GRAMS)
        assert many.project() == streams.OK
        found.append((V, Ups, Wt))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("jobs", [1, 2])
def test_bbb_with_many_rows_far_from_its_prior(jobs):
    """Every term of the divergence counts: Υ, W and μ of the iterate are not those of the prior."""
    rng = np.random.default_rng(5)
    P, R, K, alpha = 25, 3, 42, 0.01
    before, now = (br.DLR(rng.standard_normal(P), 10 ** rng.uniform(-0.5, 0.5, P), rng.standard_normal((P, R))) for _ in range(2))
    curv = Curv(rng.standard_normal(P), S=rng.standard_normal((P, K)) / np.sqrt(K))
    b = streams.Belief(br.method("bbb-mc-ef-dlr", rank=R, alpha=alpha), now, None)
    b.prior = before.mu, before.Ups, np.ascontiguousarray(before.W.T)
    b.wide = streams.Wide((b.mu, b.Ups, b.Wt), b.prior, K, jobs, down=0)
    assert b.step(curv.g, np.ascontiguousarray(curv.S.T))
    wanted = lambda prior, current, curv: br.dlr.bbb_woodbury(prior, current, curv, alpha)
    agree(b.state(), wanted(before, now, curv), compare.condition(wanted, before, now, curv), "bbb")


@pytest.mark.parametrize("size", [1e-3, 1.0, 4.0, 20.0, 1e4])
def test_samples_are_placed_as_the_reference_places_them(size):
    """By the matrix F where WᵀΥ⁻¹W is small, by singular vectors where it is not; singular values that are far apart. W Wᵀ stays."""
    m, model, X, Y, prior = problem("bog", 6)
    rng, P = np.random.default_rng(8), len(prior.mu)
    U, V = (np.linalg.qr(rng.standard_normal((k, 3)))[0] for k in (P, 3))
    Ups = 10 ** rng.uniform(-1, 1, P)
    prior = prior._replace(Ups=Ups, W=np.sqrt(Ups)[:, None] * (U * np.array([size, 1.0, 1e-3])) @ V.T)
    stream = drivers.Stream(m, model, br.likelihoods.Gaussian(var=1.0), X, Y, br.dynamics.Static(), rng, None)
    loop, q = streams.Sampled(m, stream.estimator, rng, None), streams.Belief(m, prior, None)
    steps = streams.Wide((q.mu, q.Ups, q.Wt), (), 6).data._replace(rows=loop.rows)
    source = loop.source._replace(w=q.Wt.reshape(-1))
    parts = *stream.estimator.parts(0), X, X[:, :2], source, steps, loop.rooms[0], loop.turn, board(loop.jobs)
    loop.root(q, lambda kind: wide.team(True, kind, 0, *parts))
    z, A, F = rng.standard_normal((20, P)), q.Wt * loop.scale, loop.F[:3, :3]
    error = (z - z @ A.T @ F @ A) - gaussians._dlr_noise(prior.Ups, prior.W, z) * np.sqrt(prior.Ups)
    assert np.max(np.abs(error)) < 64 * compare.EPS * max(1, size)
    assert np.max(np.abs(q.Wt.T @ q.Wt - prior.W @ prior.W.T)) < 64 * compare.EPS * max(1, size) ** 2 * np.max(Ups)


# --- streams -------------------------------------------------------------------------------------------------------------------


def problem(rule, n_samples, model=None):
    rng = np.random.default_rng(n_samples)
    params = {} if rule == "bong" else {"alpha": 0.2 if rule == "blr" else 1e-3}
    params |= {"n_iter": 2} if rule in ("blr", "bbb") else {}
    m = br.method(f"{rule}-mc-ef-dlr", rank=3, n_samples=n_samples, **params)
    model = model or br.models.mlp([3, 4, 2], activation="tanh")
    X = rng.standard_normal((5, *model.in_shape))
    Y = list(rng.standard_normal((5, 2)))
    Y[2] = None
    P = model.n_params
    prior = br.DLR(model.init(rng), rng.uniform(20, 60, P), rng.standard_normal((P, 3)))
    return m, model, X, Y, prior


MOVING = OU(0.95, var0=0.05)


def run(m, model, X, Y, prior, backend, dynamics=MOVING):
    lik = br.likelihoods.Gaussian(var=1.0)
    return br.run(m, model, lik, prior, X, Y, dynamics=dynamics, rng=np.random.default_rng(3), backend=backend).state


@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
@pytest.mark.parametrize("n_samples", [5, 37, 46])
def test_streams_with_many_samples_in_any_number_of_threads(rule, n_samples, monkeypatch):
    """Few and many rows, samples that do not go into fours; the same bits twice with two threads, the same numbers with one."""
    m, model, X, Y, prior = problem(rule, n_samples)
    wanted = lambda prior, X: run(m, model, X, Y, prior, "reference")
    cond = compare.condition(wanted, prior, X)
    agree(run(m, model, X, Y, prior, "fast"), wanted(prior, X), cond, rule)
    monkeypatch.setitem(drivers.WORTH, "parts", 0)
    one, two = (run(m, model, X, Y, prior, "fast") for _ in range(2))
    monkeypatch.setattr(streams, "LARGE", 0)  # nothing is drawn in advance
    three = run(m, model, X, Y, prior, "fast")
    assert all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(one, two, three, strict=True))
    agree(one, wanted(prior, X), cond, rule)


@pytest.mark.skipif(SLOW, reason="too large without compilation")
@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_streams_over_several_blocks(rule, kind, monkeypatch):
    """More parameters than a block has columns, in two parts, and than are placed at a time; samples that do not go into fours."""
    monkeypatch.setitem(drivers.WORTH, "parts", 0)
    nets = {"mlp": br.models.mlp([20, 45, 2], activation="tanh"), "cnn": br.models.cnn((8, 8, 1), 2, features=(3, 4), hidden=61)}
    m, model, X, Y, prior = problem(rule, 50, nets[kind])
    assert model.n_params > max(4 * wide.WIDTH, wide.SPAN) and model.n_params % 4 > 0
    wanted = lambda prior, X: run(m, model, X, Y, prior, "reference")
    agree(run(m, model, X, Y, prior, "fast"), wanted(prior, X), compare.condition(wanted, prior, X, draws=2), rule)


@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_gradient_that_is_not_finite_is_the_references_to_report(rule):
    m, _, X, Y, prior = problem(rule, 46)
    X[3] = 1e308
    errors = []
    for backend in ("reference", "fast"):
        with pytest.raises((FloatingPointError, br.NotPositiveDefinite)) as error:
            run(m, br.models.linear(3, 2), X, Y, prior._replace(mu=prior.mu[:6], Ups=prior.Ups[:6], W=prior.W[:6]), backend)
        errors.append((type(error.value), str(error.value)))
    assert errors[0] == errors[1]

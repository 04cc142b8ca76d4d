"""Matrices cut into calls that threads share, beside NumPy, and the same bits whoever makes the calls."""

import numpy as np
import pytest
import scipy.linalg
from problems import spd

import bongref as br
from bongref.fast import tiles
from bongref.fast.jit import config

SIZES = [(1, 1), (3, 2), (7, 5), (40, 3), (41, 30), (64, 64)]
pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="plain Python has one thread")


@pytest.fixture(params=[1, 2, 3])
def shared(request, monkeypatch):
    """All products in small parts, by one thread, two or three."""
    for name, value in (("WORTH", 0.0), ("TILE", 9), ("AREA", 500.0)):
        monkeypatch.setattr(tiles, name, value)
    monkeypatch.setattr(tiles, "threads", lambda: 3)
    monkeypatch.setattr(tiles.Plan, "_judge", lambda self, *_: setattr(self, "left", 0))
    plans = tiles._cholesky_plan, tiles._square_plan, tiles._columns_plan, tiles._inverse_plan, tiles._compose_plan
    for plan in plans:
        plan.cache_clear()
    with tiles.crew(request.param):
        yield request.param
    for plan in plans:
        plan.cache_clear()


def problem(n, k):
    """A covariance and its factor with junk above the diagonal, clean ones, and columns."""
    rng = np.random.default_rng(n + k)
    A = spd(rng, n, 1.0)
    L, junk = np.linalg.cholesky(A), np.triu(rng.standard_normal((n, n)), 1)
    return A, L, np.asfortranarray(np.tril(A) + junk), np.asfortranarray(L + junk), np.asfortranarray(rng.standard_normal((n, k)))


def answers(n, k):
    """Every function on that problem: what it gives, and what it should."""
    A, L, As, Ls, X = problem(n, k)
    got, want = {}, {}

    def copies(*arrays):
        return [a.copy(order="F") for a in arrays]

    out, room = np.full((n, n), np.nan, order="F"), np.full((n, n), np.nan, order="F")
    assert tiles.cholesky(As, out)
    got["cholesky"], want["cholesky"] = np.tril(out), L
    (B,) = copies(Ls)
    tiles.inverse(B, room)
    got["inverse"], want["inverse"] = np.tril(B), np.tril(np.linalg.inv(A))
    (B,) = copies(As)
    tiles.add_square(0.3, X, 1.1, B)
    got["square"], want["square"] = np.tril(B), np.tril(1.1 * A + 0.3 * X @ X.T)
    (B,) = copies(As)
    tiles.add_square(-0.3, np.asfortranarray(X.T), 1.1, B, trans=True)
    got["square, transposed"], want["square, transposed"] = np.tril(B), np.tril(1.1 * A - 0.3 * X @ X.T)
    for trans in (False, True):
        B, C = copies(X, X)
        tiles.multiply(Ls, B, trans)
        tiles.solve(Ls, C, trans)
        got[f"multiply {trans}"], want[f"multiply {trans}"] = B, (L.T if trans else L) @ X
        got[f"solve {trans}"], want[f"solve {trans}"] = C, scipy.linalg.solve_triangular(L, X, lower=True, trans=int(trans))
    (B,) = copies(X)
    tiles.solve_both(Ls, B)
    got["solve both"], want["solve both"] = B, np.linalg.solve(A, X)
    (B,) = copies(X)
    tiles.product(As, X, B)
    got["product"], want["product"] = B, A @ X
    (B,) = copies(Ls)
    tiles.compose(Ls, B, out)
    got["compose"], want["compose"] = np.tril(B), L @ L
    got["composed"], want["composed"] = np.tril(out), np.tril(L @ L @ L.T @ L.T)
    return got, want


@pytest.mark.parametrize("n, k", SIZES)
def test_every_function(n, k, shared):
    got, want = answers(n, k)
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=0, atol=1e-13 * max(1, np.abs(want[name]).max()), err_msg=name)


def test_the_same_bits_whoever_makes_the_calls(shared):
    with tiles.crew(1):
        alone = answers(64, 30)[0]
    for _ in range(5):
        again = answers(64, 30)[0]
        assert all(np.array_equal(alone[name], again[name]) for name in alone)


@pytest.mark.parametrize("bad", [0, 20, 39])
def test_a_matrix_without_a_factor(bad, shared):
    A = np.asfortranarray(problem(40, 1)[0])
    A[bad, bad] = -1.0
    assert not tiles.cholesky(A, A.copy(order="F"))
    A[bad, bad] = np.nan
    assert not tiles.cholesky(A, A.copy(order="F"))


def test_errands_are_run_by_whoever_has_time(shared):
    here = tiles._crew()
    futures = [here.send(lambda i=i: i * i) for i in range(5)]
    for future in futures:
        if shared == 1:
            here.run_errand()
        assert future.result(timeout=10) in (0, 1, 4, 9, 16)


def test_threads_that_cost_more_than_they_bring_are_left_alone_for_a_while():
    plan = tiles.Plan()
    plan._judge(False, 1.0)
    assert plan.left == 0
    for pause in (1, 3, 7, 15, 31, 63, tiles.PATIENCE):
        plan._judge(True, 2.0)
        assert plan.left == min(pause, tiles.PATIENCE)
        for _ in range(pause):
            plan._judge(False, 1.5)
        assert plan.left == 0
    plan._judge(True, 0.5)
    assert plan.left == 0 and plan.pause == 0


@pytest.mark.parametrize("name", [f"{rule}-mc-ef-{family}" for rule in ("bong", "blr", "bog", "bbb") for family in ("fc", "fc_mom")])
def test_streams_in_parts_agree_with_the_reference(name, shared):
    model, lik = br.models.mlp([3, 4, 1], activation="tanh"), br.likelihoods.Gaussian(var=0.5)
    rng = np.random.default_rng(0)
    X, theta = rng.standard_normal((4, 3)), model.init(rng)
    parameters = {} if name.startswith("bong") else {"alpha": 0.1 if name.startswith("blr") else 1e-5}
    m = br.method(name, n_samples=6, **parameters)
    prior = m.prior(mu=theta, var=0.002)
    runs = [br.run(m, model, lik, prior, X, X[:, :1], rng=np.random.default_rng(1), backend=b).state for b in ("fast", "fast", "reference")]
    assert np.array_equal(runs[0].Sigma, runs[1].Sigma) and np.array_equal(runs[0].mu, runs[1].mu)
    np.testing.assert_allclose(runs[0].mu, runs[2].mu, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(runs[0].Sigma, runs[2].Sigma, rtol=0, atol=1e-12 * np.abs(runs[2].Sigma).max())

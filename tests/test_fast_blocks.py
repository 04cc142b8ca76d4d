"""Products in parts that threads share beside NumPy, at c · cond · eps, for any number of threads."""

import numpy as np
import pytest
from problems import spd

from bongref import compare
from bongref.fast import blocks


@pytest.fixture(params=[1, 2, 3])
def shared(request, monkeypatch):
    """So many threads, from two columns on; a Cholesky factor five columns at a time."""
    for name, value in (("threads", lambda: request.param), ("WIDE", 2), ("BLOCK", 5)):
        monkeypatch.setattr(blocks, name, value)


def close(got, wanted, cond=1.0):
    scale = max(np.max(np.abs(wanted)), 1e-300)
    assert np.max(np.abs(got - wanted)) <= 64 * cond * compare.EPS * scale * max(got.shape), (got, wanted)


def fortran(rng, *shape):
    """A block of a larger matrix in Fortran order."""
    return np.asfortranarray(rng.standard_normal((shape[0] + 3, shape[1] + 2)))[2:-1, 1:-1]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 31])
@pytest.mark.parametrize("K", [1, 2, 9])
def test_products(shared, n, K):
    rng = np.random.default_rng(n + K)
    X, C = fortran(rng, n, K), fortran(rng, n, n)
    for update, Y in ((blocks.rank_update, X), (blocks.gram_update, np.asfortranarray(X.T))):
        got = C.copy(order="F")
        update(-0.3, Y, 2.0, got)
        close(np.tril(got), np.tril(2 * C - 0.3 * X @ X.T))
        assert np.array_equal(np.triu(got, 1), np.triu(C, 1))
    A, L = spd(rng, n, 1.0), fortran(rng, n, n)
    close(blocks.times_symmetric(np.asfortranarray(np.tril(A)), X), A @ X)
    for trans, factor in (("N", np.tril(L)), ("T", np.tril(L).T)):
        got = X.copy(order="F")
        blocks.times_triangle(L, got, trans)
        close(got, factor @ X)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 11, 31])
@pytest.mark.parametrize("log_cond", [0.0, 3.0, 8.0])
def test_cholesky_factors_and_what_they_solve(shared, n, log_cond):
    rng = np.random.default_rng(n)
    A = spd(rng, n, log_cond)
    L, X = np.asfortranarray(np.tril(A)), fortran(rng, n, 4)
    assert blocks.cholesky(L)
    close(np.tril(L) @ np.tril(L).T, A)
    for trans, factor in (("N", np.tril(L)), ("T", np.tril(L).T)):
        got = X.copy(order="F")
        blocks.solve_triangle(L, got, trans)
        close(factor @ got, X, 10**log_cond)
    blocks.invert(L)
    close(np.tril(L) + np.tril(L, -1).T, np.linalg.inv(A), 10**log_cond)


@pytest.mark.parametrize("at", [0, 4, 5, 11])
def test_there_is_no_factor(shared, at):
    A = np.asfortranarray(spd(np.random.default_rng(0), 12, 1.0))
    A[at, at] = -1.0
    assert not blocks.cholesky(A)
    A = np.asfortranarray(np.eye(12))
    A[at, at] = np.nan
    assert not blocks.cholesky(A)


def test_rows_are_refused():
    with pytest.raises(ValueError, match="one number behind the other"):
        blocks.times_symmetric(np.asfortranarray(np.eye(3)), np.ones((3, 2)))

"""Products in parts that threads share beside NumPy, at c · cond · eps, for any number of threads."""

import numpy as np
import pytest
from problems import spd
from tiles import forget, small_tiles

from bongref.fast import blocks
from bongref.routes import compare


@pytest.fixture(params=[1, 2, 3])
def shared(request):
    """So many threads, and small tiles."""
    with small_tiles(request.param):
        yield


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
    L, X = fortran(rng, n, n), fortran(rng, n, 4)
    assert blocks.cholesky(np.asfortranarray(np.tril(A)), L)
    close(np.tril(L) @ np.tril(L).T, A)
    C, R = np.asfortranarray(np.tril(A)), fortran(rng, n, n)
    assert blocks.update_and_factor(0.5, X, 2.0, C, R)
    close(np.tril(C), np.tril(2 * A + 0.5 * X @ X.T))
    close(np.tril(R) @ np.tril(R).T, 2 * A + 0.5 * X @ X.T)
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
    assert not blocks.cholesky(A, A)
    A = np.asfortranarray(np.eye(12))
    A[at, at] = np.nan
    assert not blocks.cholesky(A, A)
    A, x = np.asfortranarray(np.eye(12)), np.zeros((12, 1), order="F")
    x[at] = 2.0
    assert not blocks.update_and_factor(-1.0, x, 1.0, A, np.zeros((12, 12), order="F"))


def test_rows_are_refused():
    with pytest.raises(ValueError, match="one number behind the other"):
        blocks.times_symmetric(np.asfortranarray(np.eye(3)), np.ones((3, 2)))


def random_order(rng):
    """An order in which calls may be made, in place of the one that is planned."""

    def order(self, workers):
        left, done = set(range(len(self.calls))), []
        while left:
            t = rng.choice(sorted(t for t in left if not self.waits[t] & left))
            left.remove(t)
            done.append(int(t))
        return done

    return order


@pytest.mark.parametrize("seed", range(5))
def test_calls_wait_for_all_that_they_need(shared, monkeypatch, seed):
    """Any order that keeps to the waits gives the same bits: nothing that matters is missing from them."""
    rng = np.random.default_rng(seed)
    A, X = np.asfortranarray(spd(rng, 29, 1.0)), np.asfortranarray(rng.standard_normal((29, 8)))

    def results():
        C, R = A.copy(order="F"), np.zeros((29, 29), order="F")
        assert blocks.update_and_factor(0.1, X, 1.0, C, R)
        out = [C, R.copy(order="F"), blocks.times_symmetric(A, X)]
        for function in (blocks.times_triangle, blocks.solve_triangle):
            for trans in "NT":
                Y = X.copy(order="F")
                function(R, Y, trans)
                out.append(Y)
        blocks.invert(R)
        return [*out, R]

    wanted = results()
    monkeypatch.setattr(blocks.Writer, "order", random_order(rng))
    forget()
    for got, want in zip(results(), wanted, strict=True):
        assert np.array_equal(got, want)


def test_the_number_of_threads_is_not_seen_in_the_bits(monkeypatch):
    rng = np.random.default_rng(1)
    A = np.asfortranarray(spd(rng, 450, 2.0))
    found = []
    for n in (1, 2, 4):
        monkeypatch.setattr(blocks, "threads", lambda n=n: n)
        R = np.zeros_like(A)
        assert blocks.cholesky(A, R)
        X = A[:, :70].copy(order="F")
        blocks.times_triangle(R, X)
        blocks.invert(R)
        found.append((R, X))
    for R, X in found[1:]:
        assert np.array_equal(R, found[0][0]) and np.array_equal(X, found[0][1])


def test_a_call_is_planned_as_soon_as_the_longest_way_asks_for_it():
    """Two workers: the second corner of a factor is not left until the first update has ended."""
    w = blocks.Writer(blocks._square(20, 20, 5), blocks._square(20, 20, 5))
    blocks._write_cholesky(w, 0, 1)
    order = w.order(2)
    assert sorted(order) == list(range(len(w.calls)))
    place = {t: k for k, t in enumerate(order)}
    assert all(place[s] < place[t] for t, waits in enumerate(w.waits) for s in waits)
    name = lambda t: w.calls[t][0]
    corners = [place[t] for t in range(len(w.calls)) if name(t) == "dpotrf"]
    updates = [place[t] for t in range(len(w.calls)) if name(t) == "dgemm"]
    assert corners[1] < max(u for u in updates if updates.index(u) < 3)  # the update after the first corner has three of them

"""The SVD projection of DLR: the diagonal is kept, it is idempotent, and it stays accurate where
the printed subtraction cancels.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bongref.families import dlr
from bongref.linalg import gram
from bongref.routes import compare
from bongref.routes.exact import _mpf

PROJECTION = ("sec:DLR-deriv#12", "sec:DLR-deriv#13", "sec:DLR-deriv#14", "sec:DLR-deriv#11")


@st.composite
def tall(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P, K = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    return (
        np.exp(rng.standard_normal(P)),
        rng.standard_normal((P, K)),
        draw(st.integers(1, min(P, K))),
    )


@pytest.mark.eq(*PROJECTION)
@given(problem=tall())
def test_projection_keeps_the_diagonal(problem):
    Ups, W, rank = problem
    new_Ups, new_W = dlr.project(Ups, W, rank)
    assert new_W.shape == (len(Ups), rank)
    diff = compare.difference(
        "diagonal", new_Ups + np.sum(new_W**2, axis=1), Ups + np.sum(W**2, axis=1), 10.0
    )
    assert diff.agrees, str(diff)


@given(problem=tall())
def test_projection_is_idempotent(problem):
    Ups, W, rank = problem
    once = dlr.project(Ups, W, rank)
    twice = dlr.project(*once, rank)
    assert compare.difference("Ups", twice[0], once[0], 10.0).agrees
    assert compare.difference("W W^T", twice[1] @ twice[1].T, once[1] @ once[1].T, 10.0).agrees


@pytest.mark.eq(*PROJECTION)
@given(problem=tall())
def test_projection_is_the_best_of_its_rank(problem):
    """What is lost is the sum of the squares of the smaller singular values (Eckart–Young)."""
    Ups, W, rank = problem
    _, new_W = dlr.project(Ups, W, rank)
    lost = np.linalg.svd(W, compute_uv=False)[rank:]
    gap = np.linalg.norm(W @ W.T - new_W @ new_W.T)
    assert (
        abs(gap - np.linalg.norm(lost**2)) <= compare.C * 10 * compare.EPS * np.linalg.norm(W) ** 2
    )


def test_projection_stays_accurate_where_the_printed_subtraction_cancels():
    """cond(W̃) = 1e10: what Υ gains is of the size of 1e-20, which a difference of numbers of the
    size of 1 cannot hold.
    """
    rng = np.random.default_rng(0)
    P, K, rank = 8, 4, 2
    U, V = (np.linalg.qr(rng.standard_normal((n, K)))[0] for n in (P, K))
    W, Ups = (U * [1.0, 0.5, 1e-10, 0.5e-10]) @ V.T, np.full(P, 1e-25)
    import mpmath

    with mpmath.mp.workdps(60):
        wanted = dlr.project(_mpf(Ups), _mpf(W), rank)[0].astype(float)
    ours, printed = dlr.project(Ups, W, rank)[0], dlr.project_printed(Ups, W, rank)[0]
    diff = compare.difference("Ups", ours, wanted, 1e10)
    assert diff.agrees, str(diff)
    assert compare.difference("Ups, printed", printed, wanted, 1e10).relative > 100
    assert np.all(ours > Ups)


def test_gram_by_blocks_is_the_gram_matrix():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((30_001, 20)), rng.standard_normal((30_001, 7))
    for got, wanted in ((gram(a), a.T @ a), (gram(a, b), a.T @ b)):
        assert compare.difference("gram", got, wanted, 30.0, size=float(np.sum(a**2) / 20)).agrees

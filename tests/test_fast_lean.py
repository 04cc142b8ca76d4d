"""Kernels beside the same functions as plain Python: loops, rows, slices and packs as bongref.fast translates them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bongref.fast.jit import config, inner, kernel, making
from bongref.fast.packs import pack

compiled = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT=1")


@pack
class Bag(NamedTuple):
    """Arrays and numbers that a kernel is given as one pointer."""

    a: Any
    n: int
    x: float
    B: Any


def bag(rng: np.random.Generator, n: int) -> Bag:
    return Bag(rng.standard_normal(7), n, 0.25, rng.standard_normal((4, 5)))


def walk(b, first, stop, out):
    """Loops over ranges of all kinds; how many numbers they have together."""
    count = 0
    for i in range(stop):
        out[0] += i
        count += 1
    for i in range(first, stop):
        out[1] += b.a[i] if i < len(b.a) else 1.0
        count += 1
    for i in range(first, stop, 3):
        out[2] += i * b.x
        count += 1
    for i in range(stop - 1, first - 1, -1):
        out[3] = 0.5 * out[3] + i
        count += 1
    for i in range(stop, first, -2):
        out[4] = 0.5 * out[4] + i
        count += 1
    for i in range(first, stop, b.n):  # a step that is not known when it is compiled
        out[5] += i
        count += 1
    return count


def cut(b, r, first, stop, out):
    """Rows and parts of rows, also such as reach beyond the end or have nothing in them; how long they are."""
    row, part, tail, head = b.B[r], b.B[r, first:stop], b.B[r, first:], b.a[:stop]
    for k in range(len(row)):
        out[0] += (k + 1) * row[k]
    for k in range(len(part)):
        out[1] += (k + 1) * part[k]
    for k in range(len(tail)):
        out[2] += (k + 1) * tail[k]
    for k in range(len(head)):
        out[3] += (k + 1) * head[k]
        head[k] = head[k] > 0.0
    row[0], b.B[r, 1] = 7.0, 8
    out[0] += b.B[-1, 2] + row[-2] + b.a[-1]  # what is written down may be counted from the end
    row[-1], b.B[-2, -3] = 9.0, 0.5
    return len(row), len(part), len(tail), len(head), b.B.shape[0], b.B.shape[1]


def swap(a, b):
    """The rows of two matrices exchanged through a new array, and what was where before."""
    for r in range(len(a)):
        x, y = a[r], b[r]
        kept = np.empty(len(x))
        for k in range(len(x)):
            kept[k] = x[k]
        for k in range(len(x)):
            x[k] = y[k]
            y[k] = kept[k]
    return a[len(a) - 1, 0], b[0, b.shape[1] - 1]


walk_part, cut_part, swap_part = inner(walk), inner(cut), making(swap)


@kernel
def walk_kernel(b, first, stop, out):
    return walk_part(b, first, stop, out)


@kernel
def cut_kernel(b, r, first, stop, out):
    return cut_part(b, r, first, stop, out)


@kernel
def swap_kernel(a, b):
    return swap_part(a, b)


@given(st.integers(-3, 9), st.integers(-3, 9), st.integers(1, 4))
def test_loops_visit_the_same_numbers(first, stop, step):
    first = max(first, 0)  # an index is never one from the end
    got, wanted, b = np.zeros(6), np.zeros(6), bag(np.random.default_rng(0), step)
    assert walk_kernel(b, first, stop, got) == walk(b, first, stop, wanted)
    assert np.array_equal(got, wanted)


@given(st.integers(0, 3), st.integers(0, 8), st.integers(0, 9))
def test_slices_end_where_the_array_does(r, first, stop):
    one, two = bag(np.random.default_rng(1), 1), bag(np.random.default_rng(1), 1)
    got, wanted = np.zeros(4), np.zeros(4)
    assert cut_kernel(one, r, first, stop, got) == cut(two, r, first, stop, wanted)
    assert np.allclose(got, wanted, rtol=1e-14, atol=1e-14)  # sums of at most seven numbers of size one
    assert np.array_equal(one.B, two.B) and np.array_equal(one.a, two.a)


def test_rows_are_views_and_new_arrays_are_their_own():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    before = a.copy(), b.copy()
    assert swap_kernel(a, b) == (before[1][-1, 0], before[0][0, -1])
    assert np.array_equal(a, before[1]) and np.array_equal(b, before[0])


def test_a_pack_gives_back_what_it_was_made_of():
    """Ten thousand calls leave no reference to the arrays behind."""
    import sys

    b, out = bag(np.random.default_rng(3), 1), np.zeros(6)
    walk_kernel(b, 0, 3, out)
    before = sys.getrefcount(b.a), sys.getrefcount(b.B)
    for _ in range(10_000):
        walk_kernel(b, 0, 3, out)
    assert (sys.getrefcount(b.a), sys.getrefcount(b.B)) == before


@compiled
def test_packs_of_other_arrays_are_other_types():
    """Integers in place of floats: a kernel of its own, not one that reads their bits."""
    b, out = bag(np.random.default_rng(4), 1), np.zeros(6)
    walk_kernel(b, 0, 7, out)
    whole = np.zeros(6)
    walk_kernel(b._replace(a=np.arange(7)), 0, 7, whole)
    assert whole[1] == 21.0 and out[1] == pytest.approx(b.a.sum(), rel=1e-14)


@compiled
def test_an_entry_point_is_no_part():
    @kernel
    def outer(b, first, stop, out):
        return walk_kernel(b, first, stop, out)

    with pytest.raises(Exception, match="walk_kernel is an entry point"):
        outer(bag(np.random.default_rng(5), 1), 0, 3, np.zeros(6))


@compiled
def test_a_field_that_a_pack_does_not_have_is_an_error():
    @kernel
    def wrong(b):
        return b.nothing

    with pytest.raises(Exception, match="nothing"):
        wrong(bag(np.random.default_rng(6), 1))

"""The special functions agree with SciPy's over wide ranges, at derived tolerances."""

import numpy as np
import pytest
import scipy.special as sp

from bongref import special
from bongref.gaussians import normals

EPS = np.finfo(float).eps


@pytest.fixture
def pure(monkeypatch):
    """A machine without SciPy."""
    monkeypatch.setattr(special, "_scipy", lambda: None)


def close(got, wanted, tol):
    bad = ~(np.abs(got - wanted) <= tol) & (got != wanted)
    where = np.argmax(bad)
    assert not np.any(bad), (where, np.ravel(got)[where], np.ravel(wanted)[where])


def test_with_scipy_the_bits_are_scipys():
    x = np.linspace(-30, 30, 2001)
    assert np.array_equal(special.ndtr(x), sp.ndtr(x))
    p = np.linspace(1e-9, 0.5, 1001)
    assert np.array_equal(special.ndtri(p), sp.ndtri(p))
    z = np.geomspace(1e-8, 1e8, 1001)
    assert np.array_equal(special.gammaln(z), sp.gammaln(z))
    assert np.array_equal(special.polygamma(0, z), sp.digamma(z))
    assert np.array_equal(special.polygamma(2, z), sp.polygamma(2, z))
    assert np.array_equal(special.xlogy(x**2, z[:1]), sp.xlogy(x**2, z[:1]))


@pytest.mark.usefixtures("pure")
def test_ndtr():
    """Φ(x) = erfc(−x/√2)/2: the rounding of x/√2 changes the tail by x² eps."""
    x = np.concatenate([np.linspace(-37, 37, 4001), [0.0, -1e-300, 1e-300, 50.0, -50.0]])
    wanted = sp.ndtr(x)
    close(special.ndtr(x), wanted, (8 + 2 * x**2) * EPS * wanted)
    assert special.ndtr(0.0) == 0.5 and special.ndtr(np.zeros((2, 3))).shape == (2, 3)


@pytest.mark.usefixtures("pure")
def test_ndtri():
    """AS241 has a relative error near 1e-16; 16 eps for it and for SciPy's."""
    p = np.concatenate([np.geomspace(1e-300, 0.5, 4001), np.linspace(0.001, 0.999, 999)])
    wanted = sp.ndtri(p)
    near = 16 * EPS * (1 + 1 / np.maximum(np.abs(wanted), 1e-3))  # 0 at p = ½: absolute there
    close(special.ndtri(p), wanted, near * np.maximum(np.abs(wanted), 1e-3))
    assert special.ndtri(0.0) == -np.inf and special.ndtri(1.0) == np.inf
    assert np.isnan(special.ndtri(2.0))


@pytest.mark.usefixtures("pure")
def test_gammaln():
    """The terms (x − ½) log x and x cancel near the zeros at 1 and 2: absolute in their size."""
    x = np.concatenate([np.geomspace(1e-300, 1e300, 4001), np.linspace(0.5, 40, 2001)])
    size = np.maximum(1.0, np.abs(x * np.log(x)))
    close(special.gammaln(x), sp.gammaln(x), 16 * EPS * np.maximum(size, np.abs(sp.gammaln(x))))
    assert special.gammaln(0.0) == np.inf


@pytest.mark.usefixtures("pure")
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_polygamma(n):
    """Up to 15 + n terms of one sign and a series whose first dropped term is below eps."""
    x = np.concatenate([np.geomspace(1e-3, 1e6, 2001), np.linspace(0.1, 40, 1001)])
    wanted = sp.digamma(x) if n == 0 else sp.polygamma(n, x)
    size = 1 / x + np.abs(np.log(x)) + 1 if n == 0 else np.abs(wanted)
    close(special.polygamma(n, x), wanted, 64 * EPS * size)


@pytest.mark.usefixtures("pure")
def test_xlogy():
    x = np.array([0.0, 0.0, 1.0, 2.5, 3.0])
    y = np.array([0.0, 2.0, 0.0, 7.0, np.nan])
    np.testing.assert_array_equal(special.xlogy(x, y), sp.xlogy(x, y))


@pytest.mark.usefixtures("pure")
def test_normal_variates_without_scipy_are_those_with_it(monkeypatch):
    mine = normals(np.random.default_rng(3), (500, 2))
    monkeypatch.undo()
    theirs = normals(np.random.default_rng(3), (500, 2))
    close(mine, theirs, 16 * EPS * np.maximum(1, np.abs(theirs)))

"""The families against 60-digit arithmetic, against autograd of A, against sums and integrals, and
bad input.
"""

import copy
import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import autograd.numpy as anp
import mpmath as mp
import numpy as np
import pytest
from autograd import elementwise_grad, grad, hessian, jacobian, make_jvp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bongref import likelihoods as lk
from bongref.errors import BongrefError

EPS = np.finfo(np.float64).eps
ULPS = 8 * EPS  # a handful of correctly rounded operations on numbers of one sign
TINY = 1e-307  # below the smallest normal number an exact value may round to a subnormal or to 0

R3 = np.array([[2.0, 0.3, -0.5], [0.3, 1.0, 0.25], [-0.5, 0.25, 0.75]])  # condition number below 10
LIKS = [lk.Gaussian(0.3), lk.Gaussian(R3), lk.Bernoulli(), lk.Categorical(), lk.Poisson()]
CANONICAL = [lk.Bernoulli(), lk.Categorical(), lk.Poisson()]
name = lambda lik: f"{lik.name}-{np.ndim(lik.R)}" if lik.name == "gaussian" else lik.name

EXTREME = [
    (700.0, -700.0, 0.0),
    (-700.0, -700.0, 700.0),
    (0.0, 0.0, 0.0),
    (700.0, 700.0, -700.0),
    (0.0, -700.0, -350.0),
    (-700.0, 0.0, -40.0),
    (1e-3, -1e-3, 36.7),
    (-5.3, 699.9, 0.1),  # differences that round
    (-0.1, -33.3, -700.3),
    (0.7, 1.9, -2.2),
]


def close(got, want, rtol, what, atol=TINY):
    """Every entry of got within rtol · |want| + atol of the exact (mpmath) value."""
    got = np.asarray(got, dtype=np.float64)
    flat = list(want) if np.ndim(got) else [want]
    assert got.size == len(flat), what
    for i, (g, w) in enumerate(zip(got.ravel(), flat, strict=True)):
        assert np.isfinite(g), f"{what}[{i}]: got {g}, wanted {mp.nstr(w, 20)}"
        diff = abs(mp.mpf(float(g)) - w)
        assert diff <= rtol * abs(w) + atol, (
            f"{what}[{i}]: got {g!r}, wanted {mp.nstr(w, 20)}, tolerance {rtol:.2g}"
        )


def exact(lik, o, y):
    """mean, var, factor, A, residual and log p at one o (C,) and y (C,), in the working precision
    of mpmath.
    """
    C, o, y = len(o), [mp.mpf(float(v)) for v in o], [int(v) for v in y]
    diag = lambda d: [d[i] if i == j else mp.mpf(0) for i in range(C) for j in range(C)]
    if lik.name == "bernoulli":
        p = [1 / (1 + mp.exp(-v)) for v in o]
        lp = sum(mp.log(a if k else 1 - a) for a, k in zip(p, y, strict=True))
        v = [a * (1 - a) for a in p]
        A = sum(mp.log(1 + mp.exp(v)) for v in o)
        out = p, diag(v), diag([mp.sqrt(a) for a in v]), A, lp
    elif lik.name == "categorical":
        z = sum(mp.exp(v) for v in o)
        p = [mp.exp(v) / z for v in o]
        R = [(p[i] if i == j else 0) - p[i] * p[j] for i in range(C) for j in range(C)]
        L = [
            (mp.sqrt(p[i]) if i == j else 0) - p[i] * mp.sqrt(p[j])
            for i in range(C)
            for j in range(C)
        ]
        out = p, R, L, mp.log(z), mp.log(p[y.index(1)])
    else:
        p = [mp.exp(v) for v in o]
        lp = sum(k * v - a - mp.loggamma(k + 1) for k, v, a in zip(y, o, p, strict=True))
        out = p, diag(p), diag([mp.sqrt(a) for a in p]), sum(p), lp
    mean, R, L, A, lp = out
    residual = [k - m for k, m in zip(y, mean, strict=True)]
    return {"mean": mean, "var": R, "factor": L, "A": A, "residual": residual, "log_prob": lp}


# --- (a) extreme logits ---------------------------------------------------------------------------


@pytest.mark.parametrize("o", EXTREME, ids=str)
@pytest.mark.parametrize("lik", CANONICAL, ids=name)
def test_extreme_logits_keep_every_digit(lik, o):
    ys = {
        "bernoulli": itertools.product((0, 1), repeat=3),
        "categorical": np.eye(3),
        "poisson": [(0, 1, 7), (3, 0, 0)],
    }
    with mp.workdps(
        700
    ):  # 1 − p at logits of 700 apart needs 608 digits before the first one that counts
        for y in ys[lik.name]:
            o_, y_ = np.array(o), np.array(y, dtype=float)
            want = exact(lik, o_, y_)
            # A of a categorical is max + log1p(s): a sum, accurate relative to its terms
            terms = abs(max(o)) if lik.name == "categorical" else 0.0
            close(lik.mean(o_), want["mean"], ULPS, "mean")
            close(lik.var(o_), want["var"], ULPS, "var")
            close(lik.factor(o_), want["factor"], ULPS, "factor")
            close(lik.info(o_), want["var"], ULPS, "info")
            close(lik.info_factor(o_), want["factor"], ULPS, "info_factor")
            close(lik.A(o_), want["A"], ULPS, "A", atol=TINY + ULPS * terms)
            # for Poisson y − e^o and y o − e^o − log y! are differences: accurate relative to their
            # terms
            terms = max(1.0, *(float(k) for k in y)) if lik.name == "poisson" else 0.0
            close(
                lik.residual(o_, y_), want["residual"], ULPS, "residual", atol=TINY + ULPS * terms
            )
            close(lik.score(o_, y_), want["residual"], ULPS, "score", atol=TINY + ULPS * terms)
            terms = (
                float(sum(abs(a * b) for a, b in zip(y, o, strict=True))) + 10
                if lik.name == "poisson"
                else 0.0
            )
            close(
                lik.log_prob(o_, y_), want["log_prob"], ULPS, "log_prob", atol=TINY + ULPS * terms
            )


@pytest.mark.parametrize("o", EXTREME, ids=str)
@pytest.mark.parametrize("lik", [lk.Bernoulli(), lk.Categorical()], ids=name)
def test_derivatives_of_log_prob_keep_their_digits(lik, o):
    """Autograd of log_prob gives y − p and −R with the small entries right: no 1 − p is formed on
    the way.
    """
    o, y = np.array(o), np.array([0.0, 0.0, 1.0])
    with mp.workdps(700):
        want = exact(lik, o, y)
        close(grad(lik.log_prob)(o, y), want["residual"], ULPS, "grad log_prob")
        close(-hessian(lik.log_prob)(o, y), want["var"], 2 * ULPS, "hessian log_prob")


@pytest.mark.parametrize("y", [0, 1, 15, 16, 17, 40, 1000, 10**6, 10**12, 10**18])
@pytest.mark.parametrize("shift", [0.0, 1e-9, -1e-4, 0.3, -0.9, 1.0, 1.2, -3.0, 5.0])
def test_poisson_log_prob_at_large_counts(y, shift):
    o = float(np.log(max(y, 1)) + shift)
    got = lk.Poisson().log_prob(np.array([o]), np.array([float(y)]))
    with mp.workdps(60):
        rate = mp.exp(mp.mpf(o))
        want = y * mp.mpf(o) - rate - mp.loggamma(y + 1)
        # c · cond · eps, cond = |o (y − e^o) / log p|; below 16 the three terms are added as they
        # are
        cond = float(abs(mp.mpf(o) * (y - rate) / want))
        close(got, want, 4 * EPS * (cond + (60 if y < 16 else 4)), "log_prob")


# --- (b) mean and var are the derivatives of A ----------------------------------------------------


def logits(C, low=-30.0, high=30.0):
    return arrays(np.float64, C, elements=st.floats(low, high))


@pytest.mark.parametrize("lik", LIKS, ids=name)
@given(o=logits(3))
@settings(max_examples=40, deadline=None)
def test_mean_and_var_are_derivatives_of_A(lik, o):
    eta = lik.natural(o)
    size = max(1.0, np.max(np.abs(lik.mean(o))), np.max(np.abs(lik.var(o))))
    tol = 32 * EPS * size * (10 if lik.name == "gaussian" else 1)  # cond(R3) < 10
    np.testing.assert_allclose(grad(lik.A)(eta), lik.mean(o), rtol=0, atol=tol)
    np.testing.assert_allclose(hessian(lik.A)(eta), lik.var(o), rtol=0, atol=tol)


@given(o=logits(3))
@settings(max_examples=25, deadline=None)
def test_A_by_its_textbook_form(o):
    """A against the unshifted formulas, which are right in this range, and autograd of them against
    mean and var.
    """
    plain = {
        "bernoulli": lambda e: anp.sum(anp.log(1 + anp.exp(e))),
        "categorical": lambda e: anp.log(anp.sum(anp.exp(e))),
        "poisson": lambda e: anp.sum(anp.exp(e)),
    }
    for lik in CANONICAL:
        A = plain[lik.name]
        scale = max(1.0, abs(float(A(o))))
        tol = 32 * EPS * scale * max(1.0, np.max(np.abs(o)))
        np.testing.assert_allclose(lik.A(o), A(o), rtol=0, atol=tol)
        np.testing.assert_allclose(lik.mean(o), grad(A)(o), rtol=0, atol=tol)
        np.testing.assert_allclose(lik.var(o), hessian(A)(o), rtol=0, atol=tol)


# --- (c) factors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lik", LIKS, ids=name)
@given(o=logits((2, 3)))
@settings(max_examples=40, deadline=None)
def test_factors_give_var_and_info(lik, o):
    L, B = lik.factor(o), lik.info_factor(o)
    assert L.shape == B.shape == (2, 3, 3)
    size = max(1.0, np.max(np.abs(lik.var(o))))
    tol = 16 * EPS * size * (10 if lik.name == "gaussian" else 1)
    np.testing.assert_allclose(L @ np.swapaxes(L, -1, -2), lik.var(o), rtol=0, atol=tol)
    np.testing.assert_allclose(B @ np.swapaxes(B, -1, -2), lik.info(o), rtol=0, atol=tol)


def test_softmax_factor_where_R_is_singular_and_p_has_zeros():
    o = np.array([0.0, -2000.0, np.log(2.0), -1400.0])
    p, L = lk.Categorical().mean(o), lk.Categorical().factor(o)
    assert p[1] == 0.0 and p[3] == 0.0
    np.testing.assert_allclose(L @ L.T, np.diag(p) - np.outer(p, p), rtol=0, atol=4 * EPS)
    np.testing.assert_allclose(np.ones(4) @ L, np.zeros(4), rtol=0, atol=4 * EPS)  # 1ᵀR = 0
    assert L[3, 3] == pytest.approx(
        np.exp(-700.0) / np.sqrt(3.0), rel=ULPS
    )  # √p lives where p does not


def test_gaussian_info_factor_is_the_inverse_transpose():
    lik, o = lk.Gaussian(R3), np.zeros(3)
    B, L = lik.info_factor(o), lik.factor(o)
    np.testing.assert_allclose(B.T @ L, np.eye(3), rtol=0, atol=100 * EPS)
    np.testing.assert_array_equal(np.triu(L, 1), 0)
    np.testing.assert_array_equal(np.tril(B, -1), 0)
    np.testing.assert_allclose(lik.info(o) @ R3, np.eye(3), rtol=0, atol=100 * EPS)
    np.testing.assert_allclose(
        lik.natural(np.ones(3)), np.linalg.solve(R3, np.ones(3)), rtol=0, atol=100 * EPS
    )


# --- (d) densities sum to one ---------------------------------------------------------------------


def test_discrete_densities_sum_to_one():
    o = np.array([0.7, -1.9, 3.2])
    total = np.sum(
        np.exp(lk.Bernoulli().log_prob(o, np.array(list(itertools.product((0.0, 1.0), repeat=3)))))
    )
    assert total == pytest.approx(1, abs=16 * EPS)
    assert np.sum(np.exp(lk.Categorical().log_prob(o, np.eye(3)))) == pytest.approx(1, abs=8 * EPS)
    counts = np.arange(0.0, 200.0)[
        :, None
    ]  # the tail beyond 200 at rate e^3.2 = 24.5 is below 1e-100
    total = np.sum(np.exp(lk.Poisson().log_prob(o[2:], counts)))
    assert total == pytest.approx(1, abs=128 * EPS)
    h = lk.Poisson().mean(o[2:])
    assert np.sum(lk.Poisson().prob_mean(h, counts)) == pytest.approx(1, abs=256 * EPS)


def test_gaussian_density_integrates_to_one():
    """Gauss–Hermite would be circular; the trapezoidal rule on ±12 standard deviations is exact to
    rounding.
    """
    s = np.linspace(-12, 12, 121)
    for lik, C in [(lk.Gaussian(0.3), 1), (lk.Gaussian(R3[:2, :2]), 2)]:
        std = np.sqrt(np.diag(lik.var(np.zeros(C))))
        grid = np.stack(np.meshgrid(*[s * d for d in std], indexing="ij"), axis=-1)
        total = np.sum(np.exp(lik.log_prob(np.full(C, 0.1), grid))) * np.prod(0.2 * std)
        assert total == pytest.approx(1, abs=1000 * EPS)


@pytest.mark.parametrize("lik", LIKS, ids=name)
def test_log_prob_is_the_exponential_family_form(lik):
    """log p = ηᵀy − A(η) − b(y), and the same density from the mean parameter."""
    o = np.array([[0.4, -1.2, 0.9], [2.0, 0.1, -0.3]])
    y = lik.encode({"categorical": [2, 0]}.get(lik.name, [[1, 0, 0], [0, 1, 1]]), 3, batch=2)
    eta = lik.natural(o)
    want = np.sum(eta * y, axis=-1) - lik.A(eta) - lik.b(y)
    tol = 1000 * EPS  # terms up to 1e2 · cond(R) = 10
    np.testing.assert_allclose(lik.log_prob(o, y), want, rtol=0, atol=tol)
    np.testing.assert_allclose(lik.log_prob_mean(lik.mean(o), y), want, rtol=0, atol=tol)
    np.testing.assert_allclose(lik.prob_mean(lik.mean(o), y), np.exp(want), rtol=0, atol=tol)


def test_prob_mean_outside_the_mean_domain():
    cat, ber, poi = lk.Categorical(), lk.Bernoulli(), lk.Poisson()
    assert cat.prob_mean(np.array([-0.25, 1.25]), np.array([1.0, 0.0])) == -0.25
    assert np.isnan(cat.log_prob_mean(np.array([-0.25, 1.25]), np.array([1.0, 0.0])))
    assert cat.log_prob_mean(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == -np.inf
    assert ber.prob_mean(np.array([1.5, -0.5]), np.array([0.0, 1.0])) == 0.25
    assert ber.prob_mean(np.array([1.5]), np.array([0.0])) == -0.5
    for h, y, want in [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (-1.0, 2.0, 0.0)]:
        assert poi.prob_mean(np.array([h]), np.array([y])) == want


# --- (e) score ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lik", LIKS, ids=name)
@given(o=logits((4, 3), -15, 15), k=st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_score_and_info_are_derivatives_of_log_prob(lik, o, k):
    y = np.eye(3)[[k, 0, 1, 2]]
    size = max(1.0, np.max(np.abs(lik.mean(o)))) * (
        30 if lik.name == "gaussian" else 1
    )  # ‖R⁻¹‖ < 4, cond(R) < 10
    got = elementwise_grad(lambda o: anp.sum(lik.log_prob(o, y)))(o)
    np.testing.assert_allclose(got, lik.score(o, y), rtol=0, atol=32 * EPS * size)
    got = -hessian(lambda o: lik.log_prob(o, y[0]))(o[0])
    np.testing.assert_allclose(got, lik.info(o[0]), rtol=0, atol=32 * EPS * size)


@pytest.mark.parametrize("lik", LIKS, ids=name)
def test_leading_dimensions_broadcast(lik):
    o, y = np.random.default_rng(3).standard_normal((4, 2, 3)), np.eye(3)[[0, 2]]
    for f in (lik.residual, lik.score, lik.log_prob, lik.log_prob_mean, lik.prob_mean):
        o_ = lik.mean(o) if "mean" in f.__name__ else o
        rows = np.stack([[f(o_[i, j], y[j]) for j in range(2)] for i in range(4)])
        np.testing.assert_allclose(f(o_, y), rows, rtol=16 * EPS, atol=16 * EPS)
    for f in (lik.natural, lik.A, lik.mean, lik.var, lik.factor, lik.info, lik.info_factor):
        rows = np.stack([[f(o[i, j]) for j in range(2)] for i in range(4)])
        np.testing.assert_allclose(f(o), rows, rtol=16 * EPS, atol=16 * EPS)


@pytest.mark.parametrize(
    "f", [lk.sigmoid, lk.softplus, lk.softmax, lk.root_softmax, lk.log_softmax, lk.logsumexp]
)
def test_forward_mode_equals_reverse_mode(f):
    o = np.array([0.3, -1.1, 2.0, 0.0])
    J = jacobian(f)(o)
    for e, column in zip(np.eye(4), np.moveaxis(J, -1, 0), strict=True):
        np.testing.assert_allclose(make_jvp(f)(o)(e)[1], column, rtol=0, atol=8 * EPS)


# --- (f) sampling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lik", LIKS, ids=name)
def test_samples_have_the_mean_and_covariance(lik):
    n, o = 40_000, np.array([0.5, -0.4, 1.1])
    y = lik.sample(np.broadcast_to(o, (n, 3)), np.random.default_rng(11))
    np.testing.assert_array_equal(lik.encode(y, 3, batch=n), y)
    R, d = lik.var(o), y - lik.mean(o)
    assert np.all(np.abs(d.mean(axis=0)) <= 6 * np.sqrt(np.diag(R) / n))
    products = d[:, :, None] * d[:, None, :]
    assert np.all(np.abs(products.mean(axis=0) - R) <= 6 * products.std(axis=0) / np.sqrt(n))


@pytest.mark.parametrize("lik", LIKS, ids=name)
def test_one_sample_has_the_shape_of_encode(lik):
    assert lik.sample(np.zeros(3), np.random.default_rng(0)).shape == (3,)
    assert lik.sample(np.zeros((2, 5, 3)), np.random.default_rng(0)).shape == (2, 5, 3)


def test_poisson_samples_beyond_the_generator_are_finite():
    o = np.array([0.0, 43.0, 45.0, 300.0, 700.0, 709.7, -700.0])
    y = lk.Poisson().sample(o, np.random.default_rng(2))
    assert np.all(np.isfinite(y)) and np.all(y == np.rint(y))
    rate = np.exp(o[1:5])
    assert np.all(np.abs(y[1:5] - rate) <= 6 * np.sqrt(rate) + 4 * EPS * rate)


# --- (g) encode and construction ------------------------------------------------------------------


def test_encode_accepts():
    cat, ber, poi, gau = lk.Categorical(), lk.Bernoulli(), lk.Poisson(), lk.Gaussian(1.0)
    for y in (2, np.int64(2), [2], np.array([2]), [0, 0, 1], 2.0):
        np.testing.assert_array_equal(cat.encode(y, 3), [0, 0, 1])
    for y in ([1, 0], [[1], [0]], [[0, 1, 0], [1, 0, 0]]):
        np.testing.assert_array_equal(cat.encode(y, 3, batch=2), [[0, 1, 0], [1, 0, 0]])
    for lik in (ber, poi, gau):
        for y in (1, 1.0, True, [1], np.array([1.0])):
            got = lik.encode(y, 1)
            assert got.shape == (1,) and got.dtype == np.float64 and got[0] == 1
        for y in ([1, 0], [[1], [0]], [True, False]):
            np.testing.assert_array_equal(lik.encode(y, 1, batch=2), [[1], [0]])
        assert lik.encode([[1, 0]], 2, batch=1).shape == (1, 2)
    y = np.ones(2)
    assert gau.encode(y, 2) is not y


NAN = float("nan")
BAD = [
    (
        lk.Categorical(),
        3,
        3,
        None,
        r"y must be integer labels 0\.\.\.2 or one-hot vectors of length 3, got 3\.0",
    ),
    (lk.Categorical(), -1, 3, None, r"y must be integer labels .*, got -1\.0"),
    (lk.Categorical(), 1.5, 3, None, r"y must be integer labels .*, got 1\.5"),
    (
        lk.Categorical(),
        NAN,
        3,
        None,
        "y must be integer labels .*, got nan; use None for a missing observation",
    ),
    (lk.Categorical(), [0, 1, 1], 3, None, r"y must be .*one-hot.*, got \[0\.0, 1\.0, 1\.0\]"),
    (lk.Categorical(), [0, 0, 0], 3, None, "y must be .*one-hot.*, got"),
    (lk.Categorical(), [0.5, 0.5, 0], 3, None, r"y must be .*one-hot.*, got 0\.5 at index \(0,\)"),
    (
        lk.Categorical(),
        [NAN, 1, 0],
        3,
        None,
        r"y must be .*one-hot.*, got nan at index \(0,\); use None",
    ),
    (
        lk.Categorical(),
        [0, 1],
        3,
        None,
        r"y must have shape \(\) for labels or \(3,\) for one-hot vectors, got \(2,\)",
    ),
    (lk.Categorical(), [0, 5], 3, 2, r"y must be integer labels .*, got 5\.0 at index \(1,\)"),
    (lk.Categorical(), [[0, 1, 0], [1, 1, 0]], 3, 2, r"y must be .*, got \[1\.0, 1\.0, 0\.0\]"),
    (lk.Categorical(), [0, 1, 2], 3, 2, r"y must have shape \(2,\) for labels or .*, got \(3,\)"),
    (lk.Categorical(), "cat", 3, None, "y must be integer labels .*, got str 'cat'"),
    (lk.Categorical(), None, 3, None, "y must be integer labels .*, got NoneType None"),
    (
        lk.Categorical(),
        0,
        1,
        None,
        "n_outputs must be an integer >= 2, got 1; with one logit use Bernoulli",
    ),
    (lk.Bernoulli(), 2, 1, None, r"y must be 0 or 1, got 2\.0"),
    (lk.Bernoulli(), 0.5, 1, None, r"y must be 0 or 1, got 0\.5"),
    (lk.Bernoulli(), NAN, 1, None, "y must be 0 or 1, got nan; use None for a missing observation"),
    (lk.Bernoulli(), 1, 2, None, r"y must have shape \(2,\), got \(\)"),
    (lk.Bernoulli(), [1, 0, 1], 1, 2, r"y must have shape \(2, 1\) or \(2,\), got \(3,\)"),
    (lk.Poisson(), -1, 1, None, r"y must be nonnegative integers, got -1\.0"),
    (lk.Poisson(), 1.5, 1, None, r"y must be nonnegative integers, got 1\.5"),
    (lk.Poisson(), float("inf"), 1, None, "y must be nonnegative integers, got inf"),
    (
        lk.Poisson(),
        [[1, 2], [3]],
        2,
        2,
        r"y must be nonnegative integers, got list \[\[1, 2\], \[3\]\]",
    ),
    (
        lk.Gaussian(1.0),
        NAN,
        1,
        None,
        "y must be finite real numbers, got nan; use None for a missing observation",
    ),
    (lk.Gaussian(1.0), 1j, 1, None, "y must be finite real numbers, got complex 1j"),
    (lk.Gaussian(1.0), [[1.0, 2.0]], 2, None, r"y must have shape \(2,\), got \(1, 2\)"),
    (lk.Gaussian(R3), [1.0, 2.0], 2, None, r"n_outputs must be 3, the size of var \(3, 3\), got 2"),
    (lk.Gaussian(1.0), 1.0, 0, None, "n_outputs must be an integer >= 1, got 0"),
    (lk.Gaussian(1.0), 1.0, 1.0, None, r"n_outputs must be an integer >= 1, got 1\.0"),
]


@pytest.mark.parametrize(("lik", "y", "C", "batch", "match"), BAD)
def test_encode_refuses(lik, y, C, batch, match):
    with pytest.raises(BongrefError, match=match):
        lik.encode(y, C, batch=batch)


@pytest.mark.parametrize(
    ("var", "match"),
    [
        (0.0, r"var must be > 0 \(a variance\), got 0\.0"),
        (-1, r"var must be > 0 \(a variance\), got -1\.0"),
        (NAN, "var must be finite, got nan"),
        (np.inf, "var must be finite, got inf"),
        ("big", "var must be an array of real numbers, got str 'big'"),
        ([1.0, 2.0], r"var must have 0 or 2 dimensions, got shape \(2,\)"),
        (np.ones((2, 3)), r"var must be a number or a \(C, C\) matrix, got shape \(2, 3\)"),
        ([[1.0, 0.5], [0.4, 1.0]], r"var must be symmetric, got max\|R - R\^T\| = 0\.1"),
        ([[1.0, 2.0], [2.0, 1.0]], "var must be positive definite, got smallest eigenvalue -1"),
        ([[1.0, NAN], [NAN, 1.0]], r"var must be finite, got nan at index \(0, 1\)"),
    ],
)
def test_gaussian_refuses(var, match):
    with pytest.raises(BongrefError, match=match):
        lk.Gaussian(var)


@pytest.mark.parametrize("lik", LIKS, ids=name)
def test_values_are_frozen_hashable_and_picklable(lik):
    for other in (copy.deepcopy(lik), pickle.loads(pickle.dumps(lik))):
        assert other == lik and hash(other) == hash(lik) and repr(other) == repr(lik)
    assert lik != lk.Gaussian(0.31)
    with pytest.raises(AttributeError):
        lik.R = 2.0


def test_no_statistics_package_is_imported():
    code = "import sys, bongref.likelihoods, bongref.models; print('scipy.stats' in sys.modules)"
    root = Path(lk.__file__).parents[2]
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert out.stdout.strip() == "False"

"""Samples, KL, log-density, validity and marginal variances against dense textbook formulas and
against moments of samples.
"""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bongref as br
from bongref import gaussians
from bongref.gaussians import (
    covariance,
    covariance_times,
    is_valid,
    logdet_covariance,
    marginal_variance,
    precision_times,
)
from bongref.linalg import is_pd
from bongref.routes.compare import difference
from bongref.states import DLR, FC, Diag


def spread(rng, P, low=0.25, high=4.0):
    return np.exp(rng.uniform(np.log(low), np.log(high), P))


def fc(rng, P=5):
    Q = np.linalg.qr(rng.standard_normal((P, P)))[0]
    A = (Q * spread(rng, P)) @ Q.T
    return FC(rng.standard_normal(P), (A + A.T) / 2)


def diag(rng, P=5):
    return Diag(rng.standard_normal(P), spread(rng, P))


def dlr(rng, P=5, R=2):
    return DLR(rng.standard_normal(P), spread(rng, P), rng.standard_normal((P, R)))


def dlr_zero_W(rng, P=5, R=2):
    return dlr(rng, P, R)._replace(W=np.zeros((P, R)))


def dlr_negative(rng, P=5, R=2):
    """Two Υ at or below 0, made up for by W: what the small rows leave of its large ones is above
    0.5 (their norm is below 1).
    """
    q = dlr(rng, P, R)
    q.W[:] *= 0.5 / np.linalg.norm(q.W)
    q.W[[1, 3]] = [[2.0, 0.5], [-0.3, 1.5]]
    q.Ups[1], q.Ups[3] = -0.2, 0.0
    return q


def dlr_no_positive(rng, P=2, R=2):
    return DLR(rng.standard_normal(2), np.array([-0.1, 0.0]), np.array([[1.0, 0.2], [0.1, 1.2]]))


STATES = {"fc": fc, "diag": diag, "dlr": dlr, "dlr W=0": dlr_zero_W, "dlr Ups<=0": dlr_negative}
states = pytest.mark.parametrize("make", STATES.values(), ids=STATES.keys())


def dense(q):
    """(μ, Σ) by a plain inverse of the precision."""
    if isinstance(q, FC):
        return q.mu, q.Sigma
    return q.mu, np.diag(q.var) if isinstance(q, Diag) else np.linalg.inv(
        np.diag(q.Ups) + q.W @ q.W.T
    )


def cond(*qs):
    return max(float(np.linalg.cond(dense(q)[1])) for q in qs)


def agree(quantity, got, wanted, cond, size=0.0):
    d = difference(quantity, got, wanted, cond, size=size)
    assert d.agrees, d


# --- samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*STATES.values(), dlr_no_positive], ids=[*STATES, "dlr no Ups>0"])
def test_samples_have_the_mean_and_the_covariance(make):
    q, n = make(np.random.default_rng(1)), 40_000
    mu, Sigma = dense(q)
    theta = br.sample(q, n, np.random.default_rng(2))
    assert theta.shape == (n, len(mu)) and theta.dtype == np.float64
    d = theta - mu
    assert np.all(np.abs(d.mean(axis=0)) <= 6 * np.sqrt(np.diag(Sigma) / n))
    se = np.sqrt(
        (np.outer(np.diag(Sigma), np.diag(Sigma)) + Sigma**2) / n
    )  # of a product of two Gaussians
    assert np.all(np.abs(d.T @ d / n - Sigma) <= 6 * se)


@states
def test_samples_are_an_affine_map_of_normals_with_the_exact_covariance(make):
    """θ = μ + A z: A from the draws of unit vectors, and A Aᵀ = Σ without Monte Carlo error."""

    q = make(np.random.default_rng(3))
    mu, Sigma = dense(q)
    A = (gaussians.place(q, np.eye(len(mu))) - mu).T
    agree("A A^T", A @ A.T, Sigma, cond(q))


@states
def test_samples_repeat_with_the_seed(make):
    q = make(np.random.default_rng(4))
    one, two, other = (br.sample(q, 3, np.random.default_rng(s)) for s in (7, 7, 8))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_dlr_samples_need_no_square_array():
    P, R, M = 57_722, 10, 20
    rng = np.random.default_rng(0)
    q = DLR(np.zeros(P), np.ones(P), rng.standard_normal((P, R)))
    tracemalloc.start()
    try:
        theta = br.sample(q, M, rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert theta.shape == (M, P)
    assert peak <= 6 * (
        theta.nbytes + sum(a.nbytes for a in q)
    )  # a (P, P) array would be 2000 times as much


def test_sample_refuses():
    q = diag(np.random.default_rng(0))
    with pytest.raises(
        TypeError,
        match=r"rng must be a numpy\.random\.Generator or a seed .*, got float 3\.0; use rng=numpy",
    ):
        br.sample(q, 2, 3.0)
    np.testing.assert_array_equal(br.sample(q, 2, 3), br.sample(q, 2, np.random.default_rng(3)))
    with pytest.raises(ValueError, match="n must be an integer >= 1, got 0"):
        br.sample(q, 0, np.random.default_rng(0))
    with pytest.raises(
        ValueError, match=r"state must be positive definite, got var with smallest entry -1"
    ):
        br.sample(Diag(np.zeros(2), np.array([1.0, -1.0])), 2, np.random.default_rng(0))
    with pytest.raises(TypeError, match="state must be an FC, Diag or DLR state, got dict"):
        br.sample({"mu": 0}, 2, np.random.default_rng(0))


# --- KL -------------------------------------------------------------------------------------------


def dense_kl(q, p):
    (mq, Sq), (mp, Sp) = dense(q), dense(p)
    d, Lp, Lq = mp - mq, np.linalg.cholesky(Sp), np.linalg.cholesky(Sq)
    quad, ratio = np.linalg.solve(Lp, d), np.linalg.solve(Lp, Lq)
    logdet = 2 * np.sum(np.log(np.diag(Lp))) - 2 * np.sum(np.log(np.diag(Lq)))
    terms = [quad @ quad, np.sum(ratio**2), -len(d), logdet]
    return sum(terms) / 2, sum(map(abs, terms))


@pytest.mark.parametrize("make_p", STATES.values(), ids=[f"p={k}" for k in STATES])
@pytest.mark.parametrize("make_q", STATES.values(), ids=[f"q={k}" for k in STATES])
def test_kl_of_every_pair_of_families(make_q, make_p):
    for seed in range(5):
        rng = np.random.default_rng([5, seed])
        q, p = make_q(rng), make_p(rng)
        want, size = dense_kl(q, p)
        agree("KL", br.kl(q, p), want, cond(q) * cond(p), size)
        assert br.kl(q, p) > 0


@states
@pytest.mark.parametrize("P", [5, 40])
def test_kl_to_itself_is_zero(make, P):
    for seed in range(8):
        q = make(np.random.default_rng([6, seed]), P)
        assert 0 <= br.kl(q, q) <= 64 * P * cond(q) * np.finfo(float).eps
        mu, Sigma = dense(q)
        assert (
            0
            <= br.kl(FC(mu, (Sigma + Sigma.T) / 2), q)
            <= 64 * P * cond(q) ** 2 * np.finfo(float).eps
        )


@given(seed=st.integers(0, 2**32), shift=st.floats(-1e-9, 1e-9))
def test_kl_is_never_negative(seed, shift):
    """Close to 0 the terms cancel; rounding must not show as a negative divergence."""
    q = fc(np.random.default_rng(seed))
    assert br.kl(q, q._replace(mu=q.mu + shift)) >= 0
    assert br.kl(q, q._replace(Sigma=q.Sigma * (1 + shift))) >= 0


def test_kl_by_monte_carlo():
    rng = np.random.default_rng(9)
    q, p = dlr_negative(rng), fc(rng)
    theta = br.sample(q, 40_000, rng)
    ratio = br.log_density(q, theta) - br.log_density(p, theta)
    assert abs(ratio.mean() - br.kl(q, p)) <= 6 * ratio.std() / np.sqrt(len(ratio))


def test_kl_refuses_other_sizes():
    rng = np.random.default_rng(0)
    with pytest.raises(
        ValueError, match="q and p must have the same number of parameters, got 5 and 4"
    ):
        br.kl(fc(rng), diag(rng, 4))
    with pytest.raises(TypeError, match="p must be an FC, Diag or DLR state, got NoneType None"):
        br.kl(fc(rng), None)


# --- log-density ----------------------------------------------------------------------------------


@states
def test_log_density_is_the_textbook_one(make):
    rng = np.random.default_rng(10)
    q = make(rng)
    mu, Sigma = dense(q)
    theta = mu + rng.standard_normal((7, len(mu)))
    d, P = theta - mu, len(mu)
    quad, logdet = np.einsum("ni,ij,nj->n", d, np.linalg.inv(Sigma), d), np.linalg.slogdet(Sigma)[1]
    want = -0.5 * quad - 0.5 * logdet - 0.5 * P * np.log(2 * np.pi)
    agree("log q", br.log_density(q, theta), want, cond(q))
    one = br.log_density(q, theta[0])
    assert np.ndim(one) == 0
    agree("log q", one, want[0], cond(q), size=np.max(np.abs(want)))


def test_log_density_integrates_to_one():
    q = DLR(np.array([0.3, -0.2]), np.array([-0.1, 0.8]), np.array([[1.0], [0.7]]))
    s, h = np.linspace(-12, 12, 241, retstep=True)
    A, B = np.meshgrid(s, s, indexing="ij")
    root = np.linalg.cholesky(dense(q)[1])
    theta = q.mu + np.stack([A.ravel(), B.ravel()], axis=1) @ root.T
    total = np.sum(np.exp(br.log_density(q, theta))) * h**2 * np.prod(np.diag(root))
    agree(
        "integral", total, 1.0, 1e3
    )  # the trapezoidal rule is exact to rounding; 58,081 terms are added


def test_log_density_refuses():
    with pytest.raises(
        ValueError, match=r"theta must have 5 entries in its last dimension, got shape \(4,\)"
    ):
        br.log_density(diag(np.random.default_rng(0)), np.zeros(4))
    with pytest.raises(ValueError, match="theta must be finite, got nan"):
        br.log_density(diag(np.random.default_rng(0)), np.full(5, np.nan))


# --- validity, marginal variances and products ----------------------------------------------------


@given(seed=st.integers(0, 2**32), P=st.integers(1, 6), R=st.integers(1, 3))
def test_is_valid_is_positive_definiteness(seed, P, R):
    rng = np.random.default_rng(seed)
    R = min(R, P)
    q = DLR(np.zeros(P), rng.uniform(-1, 3, P), 2 * rng.standard_normal((P, R)))
    lam = np.linalg.eigvalsh(np.diag(q.Ups) + q.W @ q.W.T)
    if abs(lam[0]) > 1e-9 * lam[-1]:  # far from singular beside the rounding of eigvalsh
        assert is_valid(q) == (lam[0] > 0)
    A = rng.standard_normal((P, P))
    A = A + A.T + rng.uniform(0, 6) * np.eye(P)
    lam = np.linalg.eigvalsh(A)
    if abs(lam[0]) > 1e-9 * np.abs(lam).max():
        assert is_valid(FC(np.zeros(P), A)) == (lam[0] > 0)
    assert is_valid(Diag(np.zeros(P), q.Ups)) == bool(np.all(q.Ups > 0))


def test_the_draws_above_are_of_both_kinds():
    """Negative Υ that W makes up for, negative Υ that it does not, more of them than W has columns,
    Υ = 0.
    """
    W = np.array([[1.0], [1.0], [0.0]])
    for Ups, valid in [
        ([-0.4, 1.0, 1.0], True),  # 1/(1 + 1) = 0.5 is left of W on the first entry
        ([-0.6, 1.0, 1.0], False),
        ([0.0, 1.0, 1.0], True),
        ([0.0, 0.0, 1.0], False),
        ([1.0, 1.0, 0.0], False),
        ([1.0, 1.0, -1.0], False),
    ]:
        q = DLR(np.zeros(3), np.array(Ups), W)
        assert is_valid(q) is valid, Ups
        exact = DLR(*(np.frompyfunc(Fraction, 1, 1)(a) for a in q))
        assert is_valid(exact) is valid and is_pd(np.diag(exact.Ups) + exact.W @ exact.W.T) is valid


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@states
def test_not_finite_is_not_valid(make, bad):
    q = make(np.random.default_rng(0))
    assert is_valid(q)
    for field, a in q._asdict().items():
        broken = a.copy()
        broken.flat[-1] = bad
        assert not is_valid(q._replace(**{field: broken}))


@pytest.mark.parametrize("make", [*STATES.values(), dlr_no_positive], ids=[*STATES, "dlr no Ups>0"])
def test_marginal_variance_and_products(make):
    rng = np.random.default_rng(12)
    q = make(rng)
    mu, Sigma = dense(q)
    c = cond(q)
    agree("marginal variance", marginal_variance(q), np.diag(Sigma), c)
    agree("Sigma", covariance(q), Sigma, c)
    agree("log|Sigma|", logdet_covariance(q), np.linalg.slogdet(Sigma)[1], c, size=1.0)
    X = rng.standard_normal((len(mu), 3))
    agree("precision times X", precision_times(q, X), np.linalg.solve(Sigma, X), c)
    agree("precision times x", precision_times(q, X[:, 0]), np.linalg.solve(Sigma, X[:, 0]), c)
    if isinstance(q, DLR):
        agree("Sigma X", covariance_times(q, X), Sigma @ X, c)


# --- priors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("P", [3, 30])
@pytest.mark.parametrize("rule", ["bog", "bbb"])
def test_dlr_priors_of_the_gradient_rules_have_the_variances_asked_for(rule, P):
    var = spread(np.random.default_rng(0), P, 1e-3, 1e3)
    for asked in (0.3, var):
        q = br.method(f"{rule}-lin-hess-dlr", rank=3).prior(np.arange(P), asked)
        assert np.all(q.W != 0) and is_valid(q)
        got = np.diag(np.linalg.inv(np.diag(q.Ups) + q.W @ q.W.T))
        want = np.broadcast_to(asked, (P,))
        agree(
            "variances / asked", got / want, np.ones(P), 10.0
        )  # entry by entry: scaled by √var, cond < 2
        np.testing.assert_array_equal(q.mu, np.arange(P))


def test_dlr_prior_takes_a_generator_and_repeats_without():
    m = br.method("bbb-lin-ef-dlr", rank=2)
    one, two = m.prior(np.zeros(4)), m.prior(np.zeros(4))
    np.testing.assert_array_equal(one.W, two.W)
    assert not np.array_equal(one.W, m.prior(np.zeros(4), rng=np.random.default_rng(5)).W)


@pytest.mark.parametrize("name", br.methods())
def test_prior_is_the_gaussian_asked_for(name):
    try:
        m = br.method(name)
    except br.NotDerived:
        return
    if m.family == "dlr":
        m = br.method(m, rank=2)
    var = np.array([0.5, 2.0, 3.0])
    q = m.prior([1.0, 2.0, 3.0], var)
    agree("diagonal of Sigma", np.diag(dense(q)[1]), var, 10.0)
    if m.rule in ("bong", "blr") or m.family != "dlr":
        agree("Sigma", dense(q)[1], np.diag(var), 10.0)
    if m.family == "dlr" and m.rule in ("bong", "blr"):
        np.testing.assert_array_equal(q.W, np.zeros((3, 2)))

"""Proposition 4.1: the BONG step from its definition is Bayes' rule for every conjugate pair, once
and over a stream.
"""

import math

import numpy as np
import pytest
from autograd import jacobian
from autograd import numpy as anp
from hypothesis import given
from hypothesis import strategies as st

import bongref as br
from bongref.curvature import Curv
from bongref.families import fc_mom, fc_nat
from bongref.routes import compare
from bongref.routes.compare import EPS, C
from bongref.states import FC
from bongref.theory import conjugate, pairs
from bongref.theory.conjugate import PAIRS, ROUTES

PAIR_NAMES = list(PAIRS)
problems = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 60), st.floats(1, 8))


def make(name, problem):
    """A pair, a ψ that some observations and a stronger prior have led to, and one more
    observation.
    """
    seed, n, strength = problem
    pair = PAIRS[name]
    *ys, y = pair.sample(np.random.default_rng(seed), n + 1)
    return (
        pair,
        strength * pair.prior + sum((pair.tau(y) for y in ys), np.zeros(len(pair.prior))),
        y,
    )


def weight_error(pair, psi, at):
    """What rounding may do to a weight exp(ψᵀT − Φ), relative: c · eps · (|ψ|ᵀ(|ρ| + sd T) +
    |Φ|).
    """
    return (
        C * EPS * (1 + np.abs(psi) @ (np.abs(at.rho) + np.sqrt(np.diag(at.F))) + abs(pair.Phi(psi)))
    )


# --- the family: integrals against derivatives ----------------------------------------------------


@pytest.mark.eq("sec:conjugate#2", "sec:proofs#5", "sec:proofs#6", "sec:proofs#7")
@pytest.mark.parametrize("name", PAIR_NAMES)
@given(problem=problems)
def test_integrals_are_derivatives_of_the_log_partition(name, problem):
    pair, psi, y = make(name, problem)
    got, wanted = (conjugate.local(pair, psi, y, route) for route in ROUTES)
    tol, sd = weight_error(pair, psi, wanted), np.sqrt(np.diag(wanted.F))
    spread = sd + np.abs(wanted.rho)  # T − ρ at a node is good to eps of this
    total = conjugate.expectation(pair, psi, lambda theta: np.ones(len(theta)))
    assert abs(total - 1) <= tol, f"∫q = {total}"
    assert np.all(np.abs(got.rho - wanted.rho) <= tol * spread), (got.rho, wanted.rho)
    assert np.all(np.abs(got.F - wanted.F) <= tol * np.outer(sd, spread)), (got.F, wanted.F)
    size = np.abs(pair.tau(y)) @ spread
    assert np.all(np.abs(got.g - wanted.g) <= tol * sd * size), (got.g, wanted.g)
    ell = conjugate.expectation(pair, psi, lambda theta: pair.loglik(y, theta))
    assert abs(ell - pair.expected(psi, y)) <= tol * (size + abs(ell))


@pytest.mark.eq(
    "eq:conjugate-likelihood",
    "sec:proofs#1",
    "sec:proofs#2",
    "sec:proofs#3",
    "eq:bayes-conjugate-update",
)
@pytest.mark.parametrize("name", PAIR_NAMES)
@given(problem=problems)
def test_posterior_is_prior_times_likelihood(name, problem):
    """log q_t(θ) = log q(θ) + log p(y|θ) − log p(y) at every node, p(y) = ∫ q(θ) p(y|θ) dθ by the
    trapezoidal rule.
    """
    pair, psi, y = make(name, problem)
    posterior = conjugate.bayes(pair, psi, y)
    theta, log_volume = pair.grid(posterior)
    joint = conjugate.log_prior(pair, psi, theta) + pair.loglik(y, theta)
    evidence = math.log(np.sum(np.exp(joint + log_volume)))
    tol = (
        C
        * EPS
        * (1 + np.abs(pair.T(theta)) @ np.abs(posterior) + abs(pair.Phi(posterior)) + abs(evidence))
    )
    at = conjugate.by_autodiff(pair, posterior, y)
    assert np.all(
        np.abs(conjugate.log_prior(pair, posterior, theta) - joint + evidence)
        <= tol + weight_error(pair, posterior, at)
    )


@pytest.mark.eq("eq:bayes-conjugate-update")
@pytest.mark.parametrize("name", PAIR_NAMES)
@given(problem=problems)
def test_counting_is_the_rule_of_the_textbook(name, problem):
    pair, psi, y = make(name, problem)
    F = conjugate.by_autodiff(pair, psi, y).F
    sd = np.sqrt(np.diag(F))
    diff = compare.difference(
        "psi",
        pair.textbook(psi, y),
        conjugate.bayes(pair, psi, y),
        np.linalg.cond(F / np.outer(sd, sd)),
    )
    assert diff.agrees, f"{name}: {diff}"


# --- the proposition ------------------------------------------------------------------------------


@pytest.mark.eq(
    "eq:bong-MD", "eq:bayes-conjugate-update", "sec:proofs#7", "sec:proofs#8", "sec:proofs#9"
)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", PAIR_NAMES)
@given(problem=problems)
def test_bong_is_bayes(name, route, problem):
    pair, psi, y = make(name, problem)
    (got, bound), wanted = conjugate.step(pair, psi, y, route), conjugate.bayes(pair, psi, y)
    assert np.all(bound <= 1e-6 * np.max(np.abs(wanted - psi))), (
        f"{name}: the bound {bound} would hide a mistake"
    )
    assert np.all(np.abs(got - wanted) <= bound), (
        f"{name} by {route}: {got - wanted}, bound {bound}"
    )


@pytest.mark.eq("eq:bong-MD", "eq:bayes-conjugate-update", "sec:proofs#9")
@pytest.mark.parametrize("name", PAIR_NAMES)
def test_a_thousand_observations_stay_exact(name):
    """The rounding of the steps adds up and is not amplified; the answer is the prior plus a sum
    over the data.
    """
    pair = PAIRS[name]
    ys = pair.sample(np.random.default_rng(7), 1000)
    psi, bound = pair.prior, np.zeros(len(pair.prior))
    for y in ys:
        psi, one = conjugate.step(pair, psi, y)
        bound = bound + one
    wanted = np.array(
        [math.fsum(column) for column in np.vstack([pair.prior, [pair.tau(y) for y in ys]]).T]
    )
    bound = bound + len(ys) * EPS * np.abs(wanted)
    assert np.max(bound) <= 1e-6 * np.max(np.abs(wanted)), f"the bound {bound} would hide a mistake"
    assert np.all(np.abs(psi - wanted) <= bound), f"{name}: {psi - wanted}, bound {bound}"


@pytest.mark.eq("eq:bong-MD", "eq:bayes-conjugate-update")
def test_a_stream_by_autodiff():
    pair = PAIRS["beta-bernoulli"]
    ys = pair.sample(np.random.default_rng(8), 300)
    got = conjugate.stream(
        pair, pair.prior, ys, lambda pair, psi, y: conjugate.bong(pair, psi, y, "autodiff")
    )
    wanted = conjugate.stream(pair, pair.prior, ys, conjugate.bayes)
    np.testing.assert_array_equal(
        wanted - pair.prior, [ys.sum(), 300]
    )  # whole numbers: no rounding
    worst = np.max(
        [conjugate.rounding(pair, wanted, y, "autodiff") for y in ([0.0], [1.0])], axis=0
    )  # grows with ν
    assert np.all(np.abs(got - wanted) <= 300 * worst)


# --- against the rest of the library --------------------------------------------------------------


@pytest.mark.eq(
    "eq:bong-MD", "eq:bayes-conjugate-update", "eq:RVGA-explicit-mean", "eq:RVGA-explicit-cov"
)
def test_linear_regression_is_the_filter_of_the_library():
    pair = PAIRS["linear-regression"]
    obs = pair.sample(np.random.default_rng(3), 40)
    m, prior = br.method("bong-lin-hess-fc"), FC(np.zeros(2), np.eye(2))
    q = br.run(
        m, br.models.linear(2), br.likelihoods.Gaussian(var=0.5), prior, obs[:, :2], obs[:, 2:]
    ).state
    h, upper = np.split(conjugate.stream(pair, pair.prior, obs), [2])
    prec = np.array([[upper[0], upper[1]], [upper[1], upper[2]]])
    cond = (
        np.linalg.cond(prec)
        * sum(np.max(conjugate.rounding(pair, pair.prior, y)) for y in obs)
        / EPS
    )
    for diff in compare.differences(
        FC(np.linalg.solve(prec, h), np.linalg.inv(prec)), q, {"mu": cond, "Sigma": cond}, c=1.0
    ):
        assert diff.tolerance < 1e-8 and diff.agrees, str(diff)


@pytest.mark.eq(
    "eq:bong-MD", "eq:bayes-conjugate-update", "eq:RVGA-explicit-mean", "eq:RVGA-explicit-cov"
)
def test_gaussian_mean_is_the_step_of_the_library():
    R, psi, y = (
        np.array([[1.0, 0.5], [0.5, 2.0]]),
        np.array([0.5, -0.5, 1.5]),
        np.array([2.0, -1.0]),
    )
    prior, prec = FC(psi[:2] / psi[2], R / psi[2]), np.linalg.inv(R)
    q = fc_nat.bong(prior, None, Curv(prec @ (y - prior.mu), G=-prec))
    got = conjugate.bong(PAIRS["gaussian-mean"], psi, y)
    cond = {
        key: max(
            np.linalg.cond(R), np.max(conjugate.rounding(PAIRS["gaussian-mean"], psi, y)) / EPS
        )
        for key in ("mu", "Sigma")
    }
    for diff in compare.differences(FC(got[:2] / got[2], R / got[2]), q, cond, c=1.0):
        assert diff.tolerance < 1e-8 and diff.agrees, str(diff)


@pytest.mark.eq("eq:bong-MD", "eq:RVGA-explicit-mean", "eq:RVGA-explicit-cov")
def test_without_conjugacy_it_is_bong_and_not_bayes():
    """A Gaussian prior on the log-rate of a Poisson: both routes give fc_nat's step with g = y −
    E[λ], G = −E[λ]; Bayes is elsewhere.
    """
    rate = lambda psi: math.e ** ((psi[0] + 0.5) / psi[1])  # E[e^θ] under N(h/Λ, 1/Λ)
    pair = pairs.linear_regression(1, var=1.0, prior_var=1.0)._replace(
        loglik=lambda y, theta: y * theta[:, 0] - np.exp(theta[:, 0]),
        expected=lambda psi, y: y * psi[0] / psi[1] - rate(psi),
        tau=lambda y: np.array([y, rate(psi)]),
        sample=lambda rng, n: rng.poisson(3.0, size=n),
    )
    psi, y = np.array([0.6, 2.0]), 9.0
    mean = rate(psi)
    q = fc_nat.bong(
        FC(np.array([0.3]), np.array([[0.5]])),
        None,
        Curv(np.array([y - mean]), G=np.array([[-mean]])),
    )
    wanted = np.array([q.mu[0] / q.Sigma[0, 0], 1 / q.Sigma[0, 0]])
    kappa = weight_error(pair, psi, conjugate.by_autodiff(pair, psi, y)) / (C * EPS)
    for route in ROUTES:
        bound = kappa * conjugate.rounding(pair, psi, y, route)
        assert np.all(bound < 1e-8) and np.all(
            np.abs(conjugate.bong(pair, psi, y, route) - wanted) <= bound
        ), route
    p, tp = (
        conjugate.expectation(
            pair, psi, lambda theta, f=f: f(theta[:, 0]) * np.exp(pair.loglik(y, theta))
        )
        for f in (np.ones_like, lambda t: t)
    )
    assert abs(tp / p - q.mu[0]) > 1e6 * np.max(bound)  # the mean of the true posterior


# --- only in natural parameters -------------------------------------------------------------------


@pytest.mark.eq("eq:bong-MD")
def test_one_step_in_mean_and_count_misses_bayes():
    """Beta(2, 3) after a success: the mean goes to 2/5 + (1 − 2/5)/5 = 0.52; Bayes has 3/6."""
    pair, psi, y = PAIRS["beta-bernoulli"], np.array([2.0, 5.0]), np.array([1.0])
    to, back = (
        lambda psi: np.array([psi[0] / psi[1], psi[1]]),
        lambda lam: anp.array([lam[0] * lam[1], lam[1]]),
    )
    got, exact = conjugate.bong_in(pair, psi, y, to, back), conjugate.bayes(pair, psi, y)
    bound = 8 * np.max(
        conjugate.rounding(pair, psi, y, "autodiff")
    )  # the Jacobian has entries up to 5
    assert abs(to(got)[0] - 0.52) <= bound and to(exact)[0] == 0.5
    assert abs(to(got)[1] - 6) <= bound


@pytest.mark.eq("eq:bong-MD")
@pytest.mark.parametrize("nu", [1.0, 1.5, 4.0, 40.0])
def test_one_step_in_mean_and_variance_is_the_moment_family(nu):
    """N(m, R/ν): the variance goes to R/ν − R/ν² as fc_mom has it, 0 at ν = 1, where Bayes has R/(ν
    + 1).
    """
    pair, R, m, y = pairs.gaussian_mean([[2.0]], prior=[0.0, 1.0]), 2.0, 0.75, np.array([-1.5])
    psi = np.array([m * nu, nu])
    to, back = (
        lambda psi: np.array([psi[0] / psi[1], R / psi[1]]),
        lambda lam: anp.array([lam[0] * R / lam[1], R / lam[1]]),
    )
    lam = to(psi)
    _, F, g = conjugate.by_autodiff(pair, psi, y)
    J = jacobian(back)(lam)
    got = lam + np.linalg.solve(J.T @ F @ J, J.T @ g)
    q = fc_mom.bong(FC(lam[:1], lam[1:, None]), None, Curv((y - m) / R, G=np.array([[-1 / R]])))
    bound = C * EPS * np.linalg.cond(J.T @ F @ J)
    assert np.all(np.abs(got - [q.mu[0], q.Sigma[0, 0]]) <= bound)
    assert (
        abs(got[0] - (m + (y[0] - m) / nu)) <= bound and abs(got[1] - (R / nu - R / nu**2)) <= bound
    )
    if nu > 1:
        stepped, exact = conjugate.bong_in(pair, psi, y, to, back), conjugate.bayes(pair, psi, y)
        assert abs(to(stepped)[1] - got[1]) <= bound
        assert abs(to(exact)[1] - R / (nu + 1)) <= bound and to(exact)[1] - got[1] > bound


@pytest.mark.eq("eq:bong-MD", "eq:bayes-conjugate-update")
def test_a_linear_change_of_natural_parameters_keeps_it_exact():
    """Beta's own (a, b) = (χ, ν − χ) are natural parameters too."""
    pair, psi, y = PAIRS["beta-bernoulli"], np.array([2.0, 5.0]), np.array([0.0])
    to, back = (
        lambda psi: np.array([psi[0], psi[1] - psi[0]]),
        lambda lam: anp.array([lam[0], lam[0] + lam[1]]),
    )
    got = conjugate.bong_in(pair, psi, y, to, back)
    assert np.all(
        np.abs(got - conjugate.bayes(pair, psi, y))
        <= 2 * conjugate.rounding(pair, psi, y, "autodiff")
    )


# --- the pieces -----------------------------------------------------------------------------------


@given(st.floats(0.05, 2000))
def test_derivatives_of_log_gamma(x):
    """Against mpmath, and the chain of derivatives by autograd; near the zeros of log Γ and digamma
    relative to 1.
    """
    from autograd import grad
    from mpmath import mp

    f = pairs.log_gamma
    for k in range(4):
        wanted = float(mp.loggamma(x) if k == 0 else mp.psi(k - 1, x))
        assert abs(f(x, k) - wanted) <= 16 * EPS * max(1.0, abs(wanted)), (k, x)
        f_k = f if k == 0 else grad(f_k)  # noqa: F821
        assert f_k(x) == f(x, k)


@pytest.mark.parametrize("ratio", [1.0, 3.0, 40.0])
def test_spacing_of_the_nodes(ratio):
    """The error of the trapezoidal rule is the characteristic function at 2π/h, in closed form for
    both kinds of line.
    """
    from scipy.special import loggamma

    damping = lambda a, h: loggamma(a + 2j * np.pi / h).real - loggamma(a)
    for a in np.geomspace(1, 3000, 60):
        assert damping(a, pairs.gamma_line(a, ratio)[1]) < -33
        h = pairs.beta_line(a, ratio * a)[1]
        assert damping(a, h) + damping(ratio * a, h) < -33


def test_an_unknown_route_is_refused():
    pair = PAIRS["gamma-poisson"]
    with pytest.raises(
        ValueError, match=r"route must be .quadrature. or .autodiff., got 'sampling'"
    ):
        conjugate.bong(pair, pair.prior, np.array([1.0]), "sampling")

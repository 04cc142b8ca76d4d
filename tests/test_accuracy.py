"""What rounding takes from a step: forms that keep the digits, and the report of what they lose."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

import bongref as br
from bongref import accuracy
from bongref.gaussians import marginal_variance
from bongref.linalg import solve, woodbury_fit
from bongref.routes import compare, exact
from validation import extremes

SHARP = ((1e6, 1e-6), (1e8, 1e-6))  # variances of the prior and of the noise
KEEPING = ("bong-lin-hess-fc", "bong-lin-hess-dlr", "blr-lin-hess-fc", "blr-lin-hess-dlr")
LIKELIHOODS = {
    "gaussian": br.likelihoods.Gaussian(np.array([[2.0, 0.5], [0.5, 1.0]])),
    "bernoulli": br.likelihoods.Bernoulli(),
    "categorical": br.likelihoods.Categorical(),
    "poisson": br.likelihoods.Poisson(),
}


def fractions(a):
    return np.frompyfunc(lambda v: Fraction(float(v)), 1, 1)(np.asarray(a, float))


def bayes(X, Y, var, noise):
    """The mean of Bayesian linear regression with a prior N(0, var·I), exact."""
    X, Y, noise = fractions(X), fractions(Y), Fraction(noise)
    prec = X.T @ X / noise + np.diag(fractions(np.full(X.shape[1], 1.0))) / Fraction(var)
    return solve(prec, X.T @ Y / noise)


def noise_deviations(mean, wanted, X, noise):
    """The largest error of a prediction, in standard deviations of the noise."""
    off = fractions(X) @ (fractions(mean) - wanted)
    return max(abs(float(v)) for v in off) / np.sqrt(noise)


def regression(name, var, noise, T, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, 4))
    Y = X @ rng.standard_normal(4) * np.sqrt(var)
    loop = {"alpha": 1.0, "n_iter": 1} if name.startswith("blr") else {}
    m = br.method(name, **loop, **({"rank": 4} if name.endswith("dlr") else {}))
    return m, br.models.linear(4), br.likelihoods.Gaussian(noise), m.prior(np.zeros(4), var), X, Y


# --- forms that keep the digits -------------------------------------------------------------------


@pytest.mark.eq("eq:bong-FC-mean", "eq:bong-dlr-mu", "eq:blr-dlr-mu", "eq:blr-FC-nat-mu")
@pytest.mark.parametrize("scale", SHARP)
@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.filterwarnings("ignore::bongref.LostDigits")
def test_the_mean_after_very_informative_observations_is_bayes(name, scale):
    """|x|, the mean and the residual are of order √var: a rounded mean is off by eps √(var/noise)
    standard deviations of the noise, and so is a residual; 256 of these are allowed.
    """
    for seed, T in ((0, 1), (1, 3), (2, 6)):
        m, model, lik, prior, X, Y = regression(name, *scale, T, seed)
        state = br.run(m, model, lik, prior, X, Y, backend="reference").state
        off = noise_deviations(state.mu, bayes(X, Y, *scale), X, scale[1])
        conditioned = 1.0 if T == 1 else 100.0 * np.linalg.cond(X[: min(T, 4)])
        assert off < 256 * compare.EPS * np.sqrt(scale[0] / scale[1]) * conditioned, (T, off)


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_pearson_residuals_times_the_factor_are_the_score(kind):
    lik, rng = LIKELIHOODS[kind], np.random.default_rng(1)
    for o in 3 * rng.standard_normal((20, 2)):
        y = lik.encode(1 if kind == "categorical" else [1, 0], 2)
        score, B = lik.score(o, y), lik.info_factor(o)
        assert np.allclose(
            B @ lik.pearson(o, y), score, rtol=1e-13, atol=1e-13 * np.max(np.abs(score))
        )


@pytest.mark.parametrize("hess", ["lin_hess", "lin_ef", "mc_ef"])
def test_estimators_hand_over_e_with_g_equal_S_e(hess):
    model, rng = br.models.mlp([3, 4, 2]), np.random.default_rng(2)
    theta, x = model.init(rng), rng.standard_normal((5, 3))
    for lik in LIKELIHOODS.values():
        y = lik.encode([1] * 5 if lik.name == "categorical" else np.ones((5, 2)), 2, batch=5)
        at = rng.standard_normal((3, len(theta))) if hess == "mc_ef" else theta
        curv = getattr(br.curvature, hess)(model, lik, x, y, at)
        assert np.allclose(curv.S @ curv.e, curv.g, rtol=0, atol=1e-13 * np.max(np.abs(curv.g)))


def test_woodbury_fit_is_the_solution():
    rng = np.random.default_rng(3)
    Ups, W = 10 ** rng.uniform(-2, 2, 7), rng.standard_normal((7, 3))
    a, c = rng.standard_normal(7), rng.standard_normal(3)
    wanted = np.linalg.solve(np.diag(Ups) + W @ W.T, a + W @ c)
    assert np.allclose(woodbury_fit(Ups, W, a, c), wanted, rtol=1e-11, atol=1e-11)


def test_a_wrong_e_is_refused():
    prior, S = br.FC(np.zeros(2), np.eye(2)), np.array([[1.0], [2.0]])
    curv = br.Curv(np.array([3.0, 6.0]), S=S, e=np.array([3.0]))
    with_e, without = (
        br.step("bong-lin-hess-fc", prior, None, c)[0] for c in (curv, curv._replace(e=None))
    )
    assert np.allclose(with_e.mu, without.mu, rtol=1e-14)
    with pytest.raises(br.InvalidValue, match=r"curv.e must be the coefficients with g = S e"):
        br.step("bong-lin-hess-fc", prior, None, curv._replace(e=np.array([2.0])))
    with pytest.raises(br.InvalidValue, match=r"curv.e must have shape \(1,\)"):
        br.step("bong-lin-hess-fc", prior, None, curv._replace(e=np.ones(2)))


# --- functions of states --------------------------------------------------------------------------


def precise_covariance(q):
    return solve(
        fractions(np.diag(q.Ups)) + fractions(q.W) @ fractions(q.W).T, fractions(np.eye(len(q.mu)))
    )


def test_variances_and_kl_of_a_sharp_dlr_state():
    """The three cases that the difference 1/Υ − … gets as 0, negative, and with kl(q, q) = 0.99."""
    one = br.DLR(mu=np.zeros(1), Ups=np.array([1e-8]), W=np.array([[1e4]]))
    assert marginal_variance(one)[0] == pytest.approx(1e-8, rel=1e-14)
    assert br.kl(one, one) == 0.0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        P = int(rng.integers(1, 6))
        R = int(rng.integers(1, P + 1))
        W = 1e4 * rng.standard_normal((P, R)) * 10 ** rng.uniform(-1, 1, (P, 1))
        q = br.DLR(np.zeros(P), 10.0 ** rng.uniform(-8, -4, P), W)
        Sigma = precise_covariance(q)
        assert np.allclose(
            marginal_variance(q) / np.diag(Sigma).astype(float), 1, rtol=0, atol=1e-8
        )
        p = br.DLR(q.mu, 1.5 * q.Ups, W * (1 + 0.1 * rng.standard_normal(W.shape)))
        M = (fractions(np.diag(p.Ups)) + fractions(p.W) @ fractions(p.W).T) @ Sigma
        wanted = (float(np.trace(M)) - P - float(np.log(float(determinant(M))))) / 2
        assert br.kl(q, p) == pytest.approx(wanted, rel=1e-7, abs=1e-7)
        assert br.kl(q, q) < 1e-7


def determinant(a):
    a, out = a.copy(), Fraction(1)
    for k in range(len(a)):
        out *= a[k, k]
        a[k + 1 :] = a[k + 1 :] - np.outer(a[k + 1 :, k] / a[k, k], a[k])
    return out


# --- the report -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["fc", "fc_mom", "diag", "diag_mom", "dlr"])
@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
def test_a_step_of_ordinary_numbers_is_accurate(rule, family):
    rng = np.random.default_rng(4)
    m = br.method(f"{rule}-lin-ef-{family}", **({"rank": 2} if family == "dlr" else {}))
    for _ in range(20):
        prior = m.prior(rng.standard_normal(5), rng.uniform(0.5, 2, 5))
        curv = br.Curv(g=0.1 * rng.standard_normal(5), S=0.1 * rng.standard_normal((5, 2)))
        info = br.step(m, prior, None, curv)[1]
        assert info.valid and info.accurate and info.lost < 3


@pytest.mark.parametrize("e", [None, np.array([5.0])])
@pytest.mark.parametrize("exponent", [0, 2, 4, 6, 8, 10, 12])
def test_the_estimate_is_what_the_exact_route_says(exponent, e):
    """The variance along S loses digits with var · |S|²; with e the mean keeps all of its."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        S, var = rng.standard_normal((3, 1)), 10.0**exponent
        prior, curv = br.FC(np.zeros(3), var * np.eye(3)), br.Curv(5 * S[:, 0], S=S, e=e)
        state, info = br.step("bong-lin-ef-fc", prior, None, curv)
        if not info.valid:
            continue
        wanted = exact.step(br.method("bong-lin-ef-fc"), prior, None, curv)
        along = S[:, 0] @ state.Sigma @ S[:, 0]
        truth = float(fractions(S[:, 0]) @ wanted.Sigma @ fractions(S[:, 0]))
        lost = np.log10(max(abs(along / truth - 1) / compare.EPS, 1))
        assert info.lost > lost - 1.5 and info.lost < exponent + 4, (lost, info.lost)
        assert info.accurate == (info.lost <= accuracy.HALF)


def test_run_warns_once_and_says_so_in_its_info():
    m, model, lik, prior, X, Y = regression("bong-lin-hess-fc", 1e8, 1e-6, 6, 0)
    for backend in ("reference", "auto"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result = br.run(m, model, lik, prior, X, Y, backend=backend)
        assert [w.category for w in told] == [br.LostDigits]
        assert "digits by step 1: an observation is very informative" in str(told[0].message)
        assert result.info.lost > accuracy.HALF
    quiet = br.run(m, model, lik, m.prior(np.zeros(4), 1.0)._replace(), X, Y / 1e4, backend="auto")
    assert quiet.info.lost <= accuracy.HALF or quiet.info.backend == "reference"


def test_a_trace_has_no_symbols_of_the_second_step():
    m, model, lik, prior, X, Y = regression("bong-lin-hess-fc", 1.0, 1.0, 1, 0)
    info = br.update(m, model, lik, prior, X[0], Y[0], trace=True)[1]
    assert [s.name for s in info.trace].count("Sigma") == 1 and info.lost > 0


SAMPLE = list(extremes.cases())[::29]


def test_extreme_inputs_are_right_or_reported():
    """A sample of ``python -m validation.extremes``."""
    said = [extremes.outcome(*case)[0] for case in SAMPLE]
    assert len(said) == 36 and "WRONG" not in said
    assert said.count("right") > 8 and said.count("reported") + said.count("not valid") > 3


def test_units_of_any_size_are_no_loss_to_a_natural_gradient():
    """In units of the prior's deviation this is g = 1e51, S = 1 and var = 1."""
    prior, curv = br.Diag(np.zeros(1), np.array([1e-200])), br.Curv(np.array([1e151]), S=[[1e100]])
    state, info = br.step("bong-lin-ef-diag", prior, None, curv)
    assert info.accurate and state.var[0] == pytest.approx(5e-201, rel=1e-13)

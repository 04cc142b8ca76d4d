"""The closed-form predictive distribution of a linearised network, against densities of SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

import bongref as br
from bongref import metrics
from bongref.predictive import linearised


def covariances(rng, n, C):
    A = rng.standard_normal((n, C, C))
    return A @ np.swapaxes(A, 1, 2) + 0.1 * np.eye(C)


@pytest.mark.parametrize("C", [1, 2, 3])
def test_gaussian_log_densities_are_scipys(C):
    rng = np.random.default_rng(C)
    m, Y, V = rng.standard_normal((5, C)), rng.standard_normal((5, C)), covariances(rng, 5, C)
    R = covariances(rng, 1, C)[0]
    got = linearised.log_density(br.likelihoods.Gaussian(R), m, V, Y)
    wanted = [
        stats.multivariate_normal(a, S + R).logpdf(y) for a, S, y in zip(m, V, Y, strict=True)
    ]
    assert np.allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("C", [1, 2, 3])
@pytest.mark.parametrize("where", ["m", "V"])
def test_an_observation_whose_moments_overflow_has_density_zero_and_the_others_theirs(C, where):
    rng = np.random.default_rng(C)
    m, Y, V = rng.standard_normal((4, C)), rng.standard_normal((4, C)), covariances(rng, 4, C)
    lik = br.likelihoods.Gaussian(1.0)
    before = linearised.log_density(lik, m, V, Y)
    if where == "m":
        m[2, -1] = np.inf
    else:
        V[2, -1, -1] = np.inf
    after = linearised.log_density(lik, m, V, Y)
    assert after[2] == -np.inf
    assert np.array_equal(np.delete(after, 2), np.delete(before, 2))


def test_class_probabilities_are_the_formula_written_out():
    rng = np.random.default_rng(0)
    m, V = rng.standard_normal((3, 4)), covariances(rng, 3, 4)
    lik = br.likelihoods.Categorical()
    for n in range(3):
        p = np.zeros(4)
        for k in range(4):
            for j in range(4):
                s = V[n, k, k] + V[n, j, j] - 2 * V[n, k, j]
                p[k] += math.exp((m[n, j] - m[n, k]) / math.sqrt(1 + math.pi / 8 * s))
        p = 1 / p / np.sum(1 / p)
        got = linearised.log_density(lik, m[[n] * 4], V[[n] * 4], np.eye(4))
        assert np.allclose(got, np.log(p), rtol=1e-12, atol=1e-12)
        assert np.allclose(linearised.prediction(lik, m[n : n + 1], V[n : n + 1]), p, rtol=1e-12)


@pytest.mark.parametrize("m, v, y", [(0.3, 0.5, 0), (1.0, 2.0, 4), (-2.0, 0.01, 1), (2.5, 1.0, 30)])
def test_poisson_densities_are_an_integral(m, v, y):
    def at(f):
        return stats.poisson.pmf(y, math.exp(f)) * stats.norm.pdf(f, m, math.sqrt(v))

    far = 12 * math.sqrt(v)
    wanted, _ = integrate.quad(at, m - far, m + far, epsabs=0, epsrel=1e-11, limit=500)
    got = linearised.log_density(
        br.likelihoods.Poisson(), np.array([[m]]), np.array([[[v]]]), np.array([[float(y)]])
    )
    assert abs(got[0] - math.log(wanted)) < 1e-8


@pytest.mark.parametrize("m, y", [(0.3, 0), (4.0, 60), (-3.0, 2)])
def test_a_poisson_rate_that_is_known(m, y):
    got = linearised.log_density(
        br.likelihoods.Poisson(), np.array([[m]]), np.zeros((1, 1, 1)), np.array([[float(y)]])
    )
    assert abs(got[0] - stats.poisson.logpmf(y, math.exp(m))) < 1e-12 * max(1, abs(got[0]))


def test_a_poisson_rate_that_overflows_has_density_zero_or_nearly():
    got = linearised.log_density(
        br.likelihoods.Poisson(), np.array([[1000.0]]), np.zeros((1, 1, 1)), np.zeros((1, 1))
    )
    assert got[0] < -1e300 and not np.isnan(got[0])


def test_metrics_that_compare_with_an_exact_posterior_check_its_size():
    exact, prior = br.Diag(np.zeros(2), np.ones(2)), br.Diag(np.zeros(3), np.ones(3))
    measure = metrics.kl_to(exact)
    measure.check(None, None, None, exact)
    with pytest.raises(br.InvalidValue, match="exact must have 3 parameters, got 2"):
        measure.check(None, None, None, prior)


def test_one_sample_of_a_prequential_score_is_enough():
    assert metrics.prequential("mc", n_samples=1).n_samples == 1
    with pytest.raises(br.InvalidValue):
        metrics.prequential("mc", n_samples=0)

"""The estimators against autograd of the log-likelihood, against each other, and against exact
expectations.
"""

import numpy as np
import pytest
from autograd import numpy as anp
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import spd

import bongref as br
from bongref import curvature
from bongref.curvature import dense, diagonal
from bongref.likelihoods import Bernoulli, Categorical, Gaussian, Poisson
from bongref.routes import compare, definition

LIKELIHOODS = ["gaussian", "gaussian-full", "bernoulli", "categorical", "poisson"]


def problem(kind, seed, C=3, P=5):
    """A smooth network with P parameters and C outputs, an observation, a mean and samples."""
    rng = np.random.default_rng(seed)
    C = max(C, 2) if kind == "categorical" else C
    lik = {
        "gaussian": lambda: Gaussian(0.3),
        "gaussian-full": lambda: Gaussian(spd(rng, C, 1.5)),
        "bernoulli": Bernoulli,
        "categorical": Categorical,
        "poisson": Poisson,
    }[kind]()
    U, V = rng.standard_normal((P + 1, P)), rng.standard_normal((C, P + 1)) / np.sqrt(P)
    model = br.models.wrap(
        lambda theta, x: anp.dot(V, anp.tanh(anp.dot(U, theta) + x)), P, n_outputs=C
    )
    x, mu = rng.standard_normal(P + 1), rng.standard_normal(P)
    y = lik.encode(
        np.argmax(lik.sample(model(mu, x), rng))
        if kind == "categorical"
        else lik.sample(model(mu, x), rng),
        C,
    )
    return model, lik, x, y, mu, mu + 0.3 * rng.standard_normal((4, P))


def same(what, got, wanted, cond=100.0):
    diff = compare.difference(what, got, wanted, cond)
    assert diff.agrees, str(diff)


seeds, outputs = st.integers(0, 2**32 - 1), st.integers(1, 4)


@pytest.mark.eq(
    "eq:gMC",
    "eq:GMCH",
    "eq:GMCEF",
    "eq:gL",
    "eq:GL",
    "eq:gL-cheap",
    "eq:GLEF",
    "sec:derivations#18",
    "sec:derivations#19",
)
@pytest.mark.parametrize("kind", LIKELIHOODS)
@given(seed=seeds, C=outputs)
@settings(max_examples=8)
def test_estimators_are_their_definitions(kind, seed, C):
    model, lik, x, y, mu, samples = problem(kind, seed, C)
    for hess, got in {
        "mc-hess": curvature.mc_hess(model, lik, x, y, samples),
        "mc-ef": curvature.mc_ef(model, lik, x, y, samples),
        "lin-hess": curvature.lin_hess(model, lik, x, y, mu),
        "lin-ef": curvature.lin_ef(model, lik, x, y, mu),
    }.items():
        wanted = definition.curv(hess, model, lik, x, y, mu, samples)
        same(f"{hess} g", got.g, wanted.g)
        same(f"{hess} G", dense(got), wanted.G)
        same(f"{hess} diag G", diagonal(got), np.diag(wanted.G))
    d = curvature.mc_hess(model, lik, x, y, samples, diag=True)
    assert d.G is None and d.S is None
    same("mc-hess d", d.d, np.diag(curvature.mc_hess(model, lik, x, y, samples).G))


@pytest.mark.eq(
    "eq:gL",
    "eq:GL",
    "eqn:jacH",
    "eq:hbar",
    "eq:fbar",
    "eqn:jacF",
    "eq:gaussian-likelihood",
    "sec:linearized#3",
)
@pytest.mark.eq(
    "sec:linearized#8",
    "sec:EF#2",
    "sec:proofs#11",
    "sec:proofs#13",
    "sec:proofs#19",
    "sec:proofs#23",
)
@pytest.mark.parametrize("kind", LIKELIHOODS)
@given(seed=seeds, C=outputs)
@settings(max_examples=10)
def test_linear_h_gaussian_is_linear_f_delta(kind, seed, C):
    model, lik, x, y, mu, _ = problem(kind, seed, C)
    g, G = definition.linear_f_delta(model, lik, x, y, mu)
    if kind == "categorical":
        with pytest.raises(np.linalg.LinAlgError, match="R is singular"):
            definition.linear_h_gaussian(model, lik, x, y, mu)
        return
    Sigma = spd(np.random.default_rng(seed), len(mu), 1.0)
    g_h, G_h = definition.linear_h_gaussian(model, lik, x, y, mu, Sigma)
    cond = 100 * np.linalg.cond(lik.var(model(mu, x)))
    floor = (
        float(np.max(np.abs(G_h))) * 10
    )  # the size of the terms whose mean is g: H'R^-1 H times offsets of a few units
    diff = compare.difference("g", g_h, g, cond, size=floor)
    assert diff.agrees, str(diff)
    g_h = definition.linear_h_gaussian(model, lik, x, y, mu)[0]
    same("g", g_h, g, cond)
    same("G", G_h, G, cond)
    lin = curvature.linearise(model, lik, x, y, mu)  # and eq:gL, eq:GL as they are printed
    same("eq:gL", lin.H.T @ np.linalg.solve(lin.R, lin.e), g, cond)
    same("eq:GL", -lin.H.T @ np.linalg.solve(lin.R, lin.H), G, cond)


def test_lower_cholesky_factor_of_the_precision_is_wrong_beyond_one_output():
    """chol(R⁻¹) must satisfy AᵀA = R⁻¹; a lower factor, L Lᵀ = R⁻¹, put in its place gives another
    G unless C = 1.
    """
    for C in (1, 3):
        model, lik, x, y, mu, _ = problem("gaussian-full", 0, C)
        J, Ri = model.jac(mu, x), np.linalg.inv(lik.var(model(mu, x)))
        lower = np.linalg.cholesky(Ri)
        G = dense(curvature.lin_hess(model, lik, x, y, mu))
        upper, wrong = lower.T, lower
        same("A = upper factor", -(J.T @ upper.T @ upper @ J), G)
        assert compare.difference(
            "A = lower factor", -(J.T @ wrong.T @ wrong @ J), G, 100.0
        ).agrees == (C == 1)


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_hutchinson_is_unbiased(kind):
    model, lik, x, y, _, samples = problem(kind, 3)
    rng = np.random.default_rng(0)
    wanted = curvature.mc_hess(model, lik, x, y, samples[:2], diag=True).d
    draws = np.stack(
        [
            curvature.mc_hess(
                model, lik, x, y, samples[:2], diag=True, probes=rng.choice([-1.0, 1.0], (2, 5, 5))
            ).d
            for _ in range(40)
        ]
    )
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - wanted) <= 6 * error + 1e-12)
    identity = np.eye(5) * np.sqrt(
        5
    )  # probes e_k √P: the mean over all of them is the exact diagonal
    exact = curvature.mc_hess(model, lik, x, y, samples[:2], probes=np.stack([identity] * 2))
    same("exact probes", exact.d, wanted)


def logistic(P=3, seed=0):
    """Logistic regression: expectations over q are one-dimensional integrals along x, by
    Gauss–Hermite quadrature.
    """
    rng = np.random.default_rng(seed)
    q = br.FC(rng.standard_normal(P), spd(rng, P, 1.0))
    x, y = rng.standard_normal(P), np.ones(1)
    z, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    p = 1 / (1 + np.exp(-(x @ q.mu + np.sqrt(x @ q.Sigma @ x) * z)))
    return q, x, y, w, p


@pytest.mark.eq("eq:gMC", "eq:GMCH", "eq:GMCEF")
def test_monte_carlo_estimators_against_exact_expectations():
    q, x, y, w, p = logistic()
    model, lik = br.models.linear(len(x)), Bernoulli()
    rng = np.random.default_rng(1)
    n, blocks = 100, 40
    got = {"g": [], "hess": [], "ef": [], "virtual": []}
    for _ in range(blocks):
        theta = br.sample(q, n, rng)
        ef = curvature.mc_ef(model, lik, x, y, theta)
        got["g"].append(ef.g)
        got["ef"].append(dense(ef))
        got["hess"].append(dense(curvature.mc_hess(model, lik, x, y, theta[:10])))
        virtual = [lik.sample(model(t, x), rng) for t in theta]
        got["virtual"].append(dense(curvature.mc_ef(model, lik, x, y, theta, virtual=virtual)))
    wanted = {
        "g": np.sum(w * (1 - p)) * x,
        "hess": -np.sum(w * p * (1 - p)) * np.outer(x, x),
        "ef": -np.sum(w * (1 - p) ** 2) * np.outer(x, x),
        "virtual": -np.sum(w * p * (1 - p))
        * np.outer(x, x),  # the more accurate one of sec:EF: its mean is the expected Hessian
    }
    for key, values in got.items():
        values = np.stack(values)
        error = values.std(axis=0, ddof=1) / np.sqrt(blocks)
        assert np.all(np.abs(values.mean(axis=0) - wanted[key]) <= 6 * error), key


def test_virtual_observation_of_lin_ef():
    """The mean of G over the virtual observations, each class with its probability, is the expected
    Hessian.
    """
    model, lik, x, y, mu, _ = problem("categorical", 4)
    p = lik.mean(model(mu, x))
    virtual = [
        curvature.lin_ef(model, lik, x, y, mu, virtual=one_hot) for one_hot in np.eye(len(p))
    ]
    wanted = dense(curvature.lin_hess(model, lik, x, y, mu))
    same("E[G]", sum(p_k * dense(c) for p_k, c in zip(p, virtual, strict=True)), wanted)
    assert not compare.difference("G", dense(virtual[0]), wanted, 100.0).agrees
    for c in virtual:
        same("g is of y itself", c.g, curvature.lin_ef(model, lik, x, y, mu).g)


@pytest.mark.parametrize("kind", LIKELIHOODS)
@pytest.mark.parametrize("hess", ["mc_hess", "mc_ef", "lin_hess", "lin_ef"])
def test_a_batch_is_one_likelihood(kind, hess):
    """The log-likelihoods of a mini-batch add up: so do g and the Hessians, and the empirical
    Fisher is of the sum.
    """
    model, lik, x, _, mu, samples = problem(kind, 5)
    rng = np.random.default_rng(3)
    X = x + 0.5 * rng.standard_normal((3, len(x)))
    Y = np.stack([lik.sample(model(mu, row), rng) for row in X])
    at = samples if hess.startswith("mc") else mu
    fn = getattr(curvature, hess)
    batch, single = (
        fn(model, lik, X, Y, at),
        [fn(model, lik, *xy, at) for xy in zip(X, Y, strict=True)],
    )
    same("g", batch.g, sum(c.g for c in single))
    if hess.endswith("hess"):
        same("G", dense(batch), sum(dense(c) for c in single))
    elif hess == "lin_ef":
        same("G", dense(batch), -np.outer(batch.g, batch.g))
    else:
        total = sum(c.S for c in single)
        same("G", dense(batch), -total @ total.T)


@pytest.mark.parametrize("logit", [-700.0, 700.0])
def test_saturated_likelihoods_give_finite_and_right_curvature(logit):
    """At ±700 the right values are of the size of e^−700, neither 0 nor NaN."""
    x = np.array([1.0])
    tiny = np.exp(-700.0)
    for lik, y, model, mu in (
        (Bernoulli(), np.array([float(logit > 0)]), br.models.linear(1), np.array([logit])),
        (
            Categorical(),
            np.array([float(logit > 0), float(logit < 0)]),
            br.models.linear(1, 2),
            np.array([logit / 2, -logit / 2]),
        ),
    ):
        c = curvature.lin_hess(model, lik, x, y, mu)
        assert np.all(np.isfinite(c.g)) and np.all(np.isfinite(c.S))
        same("g", np.abs(c.g), np.full_like(mu, tiny), 10)
        same("d", np.diag(c.S @ c.S.T) / tiny, np.ones_like(mu), 10)


@pytest.mark.parametrize("kind", LIKELIHOODS)
def test_given_samples_make_everything_deterministic(kind):
    model, lik, x, y, _, samples = problem(kind, 6)
    for fn in (curvature.mc_hess, curvature.mc_ef):
        a, b = fn(model, lik, x, y, samples), fn(model, lik, x, y, samples)
        for u, v in zip(a, b, strict=True):
            np.testing.assert_array_equal(u, v)

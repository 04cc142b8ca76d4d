"""Edges that an outside examiner found: exact zeros, dense Hessians, masks, overflow."""

from fractions import Fraction

import numpy as np
import pytest

import bongref as br
from bongref.linalg import solve
from bongref.routes import compare
from bongref.routes.exact import rational


def test_digits_of_a_dense_hessian_in_dlr_are_those_of_the_hessian_given():
    """A float64 −g gᵀ is not exactly negative semi-definite; the mean takes it as it is, not its factor."""
    g = np.array([-28.7, 31.6])
    G, Ups = -np.outer(g, g), np.array([1e-3, 1e-3])
    prior = {"mu": [0, 0], "Ups": Ups, "W": [[0.0], [0.0]]}
    out = br.oracle.step("bong-lin-ef-dlr", prior, None, {"g": [1.0, 1.0], "G": G}, digits=50)
    wanted = solve(
        np.diag(rational(Ups)) - rational(G), np.array([Fraction(1), Fraction(1)], dtype=object)
    )
    np.testing.assert_array_equal(out["mu"], wanted.astype(float))


@pytest.mark.parametrize("rule, G00", [("bong", 1.0), ("blr", 2.0), ("bog", 1.0), ("bbb", 1.0)])
def test_a_precision_of_zero_is_not_valid_and_no_error(rule, G00):
    params = {} if rule == "bong" else {"alpha": 0.5}
    prior, curv = {"mu": [0, 0], "var": [1, 1]}, {"g": [1, 1], "d": [G00, 0]}
    for digits in (None, 50):
        assert not br.oracle.step(
            f"{rule}-mc-hess-diag", prior, None, curv, digits=digits, **params
        )["valid"]


def test_dense_softmax_hessians_are_accepted_in_dlr():
    rng = np.random.default_rng(0)
    for _ in range(300):
        F, p = rng.standard_normal((3, 4)), np.exp(2 * rng.standard_normal(3))
        p /= p.sum()
        G = -F.T @ (np.diag(p) - np.outer(p, p)) @ F
        prior = {"mu": np.zeros(4), "Ups": np.ones(4), "W": np.zeros((4, 1))}
        assert br.oracle.step(
            "bong-lin-hess-dlr", prior, None, {"g": np.ones(4), "G": (G + G.T) / 2}
        )["valid"]


def test_masked_entries_are_refused():
    X, prior, lik = np.ones((2, 2)), br.FC(np.zeros(2), np.eye(2)), br.likelihoods.Gaussian(1.0)
    with pytest.raises(
        ValueError, match=r"Y must have no masked entries.*use None for a missing observation"
    ):
        br.run(
            "bong-lin-hess-fc",
            br.models.linear(2),
            lik,
            prior,
            X,
            np.ma.masked_array([1.0, 2.0], [0, 1]),
        )
    with pytest.raises(ValueError, match=r"prior\.mu must have no masked entries"):
        br.update(
            "bong-lin-hess-fc",
            br.models.linear(2),
            lik,
            prior._replace(mu=np.ma.masked_array([1.0, 2.0], [0, 1])),
            X[0],
            1.0,
        )


@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef", "mc-ef"])
def test_overflow_names_the_step(hess):
    m = br.method(f"bong-{hess}-diag", **({"n_samples": 1} if "mc" in hess else {}))
    state = br.Diag(np.array([1000.0]), np.ones(1))
    with (
        np.errstate(all="ignore"),
        pytest.raises(FloatingPointError, match=r"step 1: .* not finite at inner iteration 1"),
    ):
        br.run(
            m,
            br.models.linear(1),
            br.likelihoods.Poisson(),
            state,
            [[1.0]],
            [1],
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize("activation", ["tanh", "gelu_tanh", "gelu"])
def test_saturated_activations_have_finite_hessians(activation):
    theta = np.array([1.0, 0, 1, 0])
    m, model, lik = (
        br.method("bong-mc-hess-fc", n_samples=1),
        br.models.mlp([1, 1, 1], activation),
        br.likelihoods.Gaussian(1.0),
    )
    state, info = br.update(
        m, model, lik, br.FC(theta, 0.01 * np.eye(4)), [900.0], 0.5, samples=theta[None]
    )
    assert np.all(np.isfinite(state.Sigma)) and isinstance(info.valid, bool)


def test_tanh_has_its_derivatives():
    from autograd import grad

    from bongref.models.layers import tanh

    for x in (-3.0, -0.2, 0.0, 0.7, 5.0):
        t, s = np.tanh(x), 1 / np.cosh(x) ** 2
        assert compare.difference("tanh'", grad(tanh)(x), s, 10.0).agrees
        assert compare.difference("tanh''", grad(grad(tanh))(x), -2 * t * s, 10.0, size=s).agrees


def test_bong_and_bog_ignore_the_current_iterate():
    bad = {"mu": [0.0], "var": [-3.0]}
    args = {"mu": [0.0], "var": [1.0]}, bad, {"g": [1.0], "S": [[1.0]]}
    assert br.oracle.step("bong-lin-ef-diag", *args)["valid"]
    with pytest.raises(ValueError, match="current must be positive definite"):
        br.oracle.step("blr-lin-ef-diag", *args)


def test_model_and_likelihood_are_named_in_errors():
    prior = br.Diag(np.zeros(1), np.ones(1))
    for lik in (br.likelihoods.Bernoulli, None, "gaussian"):
        with pytest.raises(TypeError, match="lik must be a likelihood such as"):
            br.update("bong-lin-ef-diag", br.models.linear(1), lik, prior, [1.0], 1)
    for model in (None, lambda theta, x: theta * x):
        with pytest.raises(TypeError, match=r"model must be made by bongref\.models"):
            br.update("bong-lin-ef-diag", model, br.likelihoods.Bernoulli(), prior, [1.0], 1)
    m = br.method("bong-mc-hess-diag", n_samples=1, n_probes=1)
    with pytest.raises(ValueError, match="probes must be 1 or -1, got 0"):
        br.update(
            m,
            br.models.linear(1),
            br.likelihoods.Bernoulli(),
            prior,
            [1.0],
            1,
            rng=np.random.default_rng(0),
            probes=np.zeros((1, 1, 1, 1)),
        )


def test_trace_of_the_displayed_bog_lin_hess_dlr_has_the_result():
    m = br.method("bog-lin-hess-dlr", rank=1)
    args = (
        m,
        br.models.linear(3),
        br.likelihoods.Gaussian(1.0),
        m.prior(np.zeros(3)),
        [1.0, 2, 3],
        1.0,
    )
    names = {s.name for s in br.update(*args, trace=True, form="plain")[1].trace}
    assert {"mu", "Ups", "W"} <= names and "_" not in names

"""Edges that an outside examiner found: exact zeros, dense Hessians, masks, overflow."""

from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest

import bongref as br
from bongref.linalg import solve
from bongref.routes import compare
from bongref.routes.exact import rational


def test_digits_of_a_dense_hessian_in_dlr_are_those_of_the_hessian_given():
    """A float64 −g gᵀ is not exactly negative semi-definite; the mean takes it as it is, not its
    factor.
    """
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


# --- numbers at the ends of the range of float64 --------------------------------------------------


def _scaled_states(rng, size):
    """FC, Diag and DLR of two parameters whose variances are about ``size``."""
    A, mu = rng.standard_normal((2, 2)), rng.standard_normal(2) * np.sqrt(size)
    S = A @ A.T + np.eye(2)
    W = rng.standard_normal((2, 1)) / np.sqrt(size)
    return br.FC(mu, S * size), br.Diag(mu, np.diag(S) * size), br.DLR(mu, np.diag(S) / size, W)


def _kl_in_60_digits(q, p):
    mp = pytest.importorskip("mpmath").mp

    def moments(s):
        if isinstance(s, br.DLR):
            W = mp.matrix(s.W.tolist())
            return mp.matrix(s.mu.tolist()), (mp.diag(s.Ups.tolist()) + W * W.T) ** -1
        Sigma = s.Sigma if isinstance(s, br.FC) else np.diag(s.var)
        return mp.matrix(s.mu.tolist()), mp.matrix(Sigma.tolist())

    with mp.workdps(60):
        (a, S), (b, T) = moments(q), moments(p)
        d, prec = a - b, T**-1
        trace = sum((prec * S)[i, i] for i in range(2))
        return float(((d.T * prec * d)[0] + trace - 2 + mp.log(mp.det(T)) - mp.log(mp.det(S))) / 2)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_kl_of_very_small_and_very_large_variances(size):
    rng = np.random.default_rng(0)
    for q in _scaled_states(rng, size):
        for p in _scaled_states(rng, size * 8):
            want = _kl_in_60_digits(q, p)
            # the terms that cancel are at most log|Σ| ~ 1400, and the trace and the quadratic form
            # with cond < 1e3
            tol = 64 * np.finfo(float).eps * (1e3 * max(want, 1) + 1400)
            assert abs(br.kl(q, p) - want) <= tol, (q, p)


def test_states_of_denormal_variance():
    """1 / 1e-320 is beyond the largest float; the divergence of a state from itself is 0 all the
    same.
    """
    tiny, one = 1e-320, np.ones(2)
    narrow = [br.FC(0 * one, tiny * np.eye(2)), br.Diag(0 * one, tiny * one)]
    wide = br.DLR(0 * one, tiny * one, np.zeros((2, 1)))
    for q in narrow:
        for p in narrow:
            assert br.kl(q, p) == 0
        assert br.kl(br.Diag(0 * one, one), q) == np.inf  # 1e320
        want = -np.log(2 * np.pi) - np.log(tiny)
        assert abs(br.log_density(q, 0 * one) - want) <= 8 * np.finfo(float).eps * want
        assert br.log_density(q, one) == -np.inf
    assert br.kl(wide, wide) == 0
    assert br.kl(wide, br.Diag(0 * one, one)) == np.inf


def test_the_oracle_loses_no_small_component():
    """Entries from 1e-100 to 1e100: 30 digits are not enough for the SVD, and the oracle takes
    more.
    """
    pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)

    def numbers(*shape):
        return rng.standard_normal(shape) * 10.0 ** rng.integers(-100, 100, shape)

    for _ in range(12):
        prior = {"mu": numbers(3), "Ups": np.abs(numbers(3)), "W": numbers(3, 1)}
        curv = {"g": numbers(3), "S": numbers(3, 1)}
        few, many = (
            br.oracle.step("bong-lin-hess-dlr", prior, None, curv, digits=n) for n in (30, 500)
        )
        for key in ("mu", "Ups"):
            np.testing.assert_allclose(few[key], many[key], rtol=4 * np.finfo(float).eps)


@pytest.mark.parametrize("predictive", ["plugin", "mc", "lin_mc"])
def test_a_poisson_rate_beyond_the_largest_float_is_inf_and_its_variance_says_so(predictive):
    model, lik = br.models.linear(1), br.likelihoods.Poisson()
    state = br.Diag(np.array([800.0]), np.ones(1))
    p = br.predictive.predict(predictive, model, lik, state, [[1.0], [0.0]], n_samples=3, rng=0)
    assert p.mean[0] == np.inf and np.isfinite(p.mean[1])
    finite = predictive != "lin_mc"  # the linearised mean is inf itself
    with pytest.warns(br.BongrefWarning, match="at 1 of 2") if finite else nullcontext():
        assert p.var[0] == np.inf
    o = np.array([800.0])
    assert lik.mean(o) == lik.var(o) == lik.A(o) == np.inf
    assert lik.score(o, np.ones(1)) == lik.log_prob(o, np.ones(1)) == -np.inf
    assert lik.factor(2 * o) == np.inf


def test_the_members_of_a_likelihood_take_lists_and_a_seed():
    gauss = br.likelihoods.Gaussian(0.5)
    assert gauss.log_prob([1], [2]) == gauss.log_prob(np.array([1.0]), np.array([2.0]))
    for lik in (gauss, br.likelihoods.Bernoulli(), br.likelihoods.Poisson()):
        got = lik.sample([0.5], rng=3)
        assert np.array_equal(got, lik.sample(np.array([0.5]), np.random.default_rng(3)))
        assert lik.mean(np.array([0.5], dtype=np.float32)).dtype == np.float64


def test_a_memoryview_is_read_like_its_array():
    X, Y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
    m, model, lik = "bong-lin-hess-diag", br.models.linear(2), br.likelihoods.Gaussian(1.0)
    prior = br.Diag(np.zeros(2), np.ones(2))
    on = br.metrics.on(memoryview(X), memoryview(Y), "rmse")
    runs = [
        br.run(m, model, lik, prior, *data, every=3, metrics=on, progress=False)
        for data in ((X, Y), (memoryview(X), memoryview(Y)))
    ]
    assert np.array_equal(runs[0].state.mu, runs[1].state.mu) and runs[0].rows == runs[1].rows

"""Streams that end early or go wrong: what the errors and warnings carry and say; what a stream is
read from.
"""

import builtins
import dataclasses
import pickle
import re
import sys
import types
import warnings

import autograd.numpy as anp
import numpy as np
import pytest

import bongref as br
from bongref import backends, checks
from bongref.errors import (
    BongrefError,
    BongrefWarning,
    CallbackFailed,
    Diverging,
    NotFinite,
    StreamEnded,
)
from bongref.guide import divergence

LINEAR, UNIT = br.models.linear(2), br.likelihoods.Gaussian(var=1.0)


def line(T, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, 2))
    return X, X @ [1.0, -2.0] + noise * rng.standard_normal(T)


def exploding():
    """exp(θx): its stream overflows at the observation with x = 1000."""
    model = br.models.wrap(lambda t, x: anp.exp(t * x), 1, 1, in_shape=(1,))
    return (
        model,
        br.Diag(np.ones(1), np.full(1, 1e-9)),
        np.array([[0.1], [0.2], [0.3], [1000.0]]),
        np.ones(4),
    )


# --- errors carry what was done -------------------------------------------------------------------


def test_an_overflow_carries_step_state_and_rows():
    model, prior, X, Y = exploding()
    m = br.method("bong-lin-hess-diag")
    kw = {"every": 1, "metrics": br.metrics.on(X[:3], Y[:3], "rmse")}
    with pytest.raises(NotFinite, match=r"step 4: .*not finite.*overflows") as caught:
        br.run(m, model, UNIT, prior, X, Y, **kw)
    good = br.run(m, model, UNIT, prior, X[:3], Y[:3], **kw)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert isinstance(error, FloatingPointError) and isinstance(error, StreamEnded)
        assert error.step == 4 and error.rows == good.rows and len(error.rows) == 3
        np.testing.assert_array_equal(error.state.mu, good.state.mu)
        assert error.result.t == 3 and error.result.rows == good.rows
    Y2, X2 = Y.copy(), X.copy()
    X2[3] = 0.4  # what is mended can go on
    whole = br.run(m, model, UNIT, prior, X2, Y2, **kw)
    on = br.run(m, model, UNIT, prior, X2, Y2, resume=caught.value.result, **kw)
    assert on.rows == whole.rows
    np.testing.assert_array_equal(on.state.mu, whole.state.mu)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_prequential_score_of_the_failed_step_is_not_kept(backend):
    m = br.method("bog-lin-hess-diag_mom", alpha=0.2)
    X, Y = line(40)
    metrics = br.metrics.prequential()
    with pytest.raises(br.NotPositiveDefinite) as caught:
        br.run(
            m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, every=30, metrics=metrics, backend=backend
        )
    n = caught.value.step - 1
    assert n >= 1 and len(caught.value.result.continuation.pending["prequential-plugin"]) == n


def test_no_bare_linalg_error():
    """An inner loop whose iterates overflow: ordinary numbers, a learning rate that is too large
    for them.
    """
    m = br.method("blr-lin-ef-fc_mom", alpha=0.1)
    model, prior = br.models.linear(50), m.prior(np.zeros(50), 1.0)
    sharp = br.likelihoods.Gaussian(var=1e-4)  # with which the advice overflows too
    for backend, lik in ((b, k) for b in ("reference", "auto") for k in (UNIT, sharp)):
        with warnings.catch_warnings(), pytest.raises(StreamEnded, match="step 1"):
            warnings.simplefilter("error")
            br.run(m, model, lik, prior, np.ones((3, 50)), np.full(3, 10.0), backend=backend)
    _state, info = br.update(m, model, UNIT, prior, np.ones(50), 10.0)
    assert not info.valid and info.reason in ("not finite", "not positive definite")


def test_a_failed_factorisation_is_an_error_of_the_stream(monkeypatch):
    def fail(*args, **kwargs):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(backends, "unchecked_update", fail)
    with pytest.raises(NotFinite, match="step 1: SVD did not converge"):
        br.run(
            "bong-lin-hess-fc",
            LINEAR,
            UNIT,
            br.FC(np.zeros(2), np.eye(2)),
            *line(3),
            backend="reference",
        )


def test_advice_names_only_what_the_method_has():
    X, Y = line(5)
    with pytest.raises(StreamEnded) as caught:
        br.run(
            "bong-lin-hess-fc",
            LINEAR,
            br.likelihoods.Gaussian(1e-300),
            br.FC(np.zeros(2), 1e300 * np.eye(2)),
            X,
            Y,
        )
    assert "alpha" not in str(caught.value) and "prior variance" in str(caught.value)
    with pytest.raises(
        br.NotPositiveDefinite,
        match=r"alpha=\S+ \(now 1e\+06\) keeps step 1 positive definite; .*"
        "bong-lin-hess-diag is always positive definite",
    ) as caught:
        br.run(
            br.method("bog-lin-hess-diag_mom", alpha=1e6),
            LINEAR,
            UNIT,
            br.Diag(np.zeros(2), np.ones(2)),
            X,
            Y,
        )
    tried = float(re.search(r"alpha=(\S+) ", str(caught.value))[1])
    prior = br.Diag(np.zeros(2), np.ones(2))
    m = br.method("bog-lin-hess-diag_mom", alpha=tried)
    assert br.update(m, LINEAR, UNIT, prior, X[0], Y[0])[1].valid


@pytest.mark.filterwarnings("ignore::bongref.LostDigits")
def test_a_stream_that_ran_away_is_not_called_an_overflow_of_the_model():
    """θ doubles its own error at every step until it overflows: the message gives |mu| then and
    now.
    """
    m = br.method("bog-lin-hess-diag_mom", alpha=3.0)
    X, Y = np.ones((2000, 1)), np.ones(2000)
    model = br.models.wrap(lambda t, x: t * x, 1, 1, in_shape=(1,), jac=lambda t, x: x[None])
    prior = br.Diag(np.zeros(1), np.full(1, 1e300))
    with (
        pytest.warns(Diverging),
        pytest.raises(
            StreamEnded,
            match=r"the stream has diverged: the largest \|mu\| is .* after step \d+, 0 in the "
            r"prior",
        ),
    ):
        br.run(m, model, UNIT, prior, X, Y, backend="reference")


# --- what a model, a likelihood or a metric raises ------------------------------------------------


def failing_model(how, at):
    """θx, whose output at x = at is something else."""

    def f(theta, x):
        if np.any(x == at):
            return how(theta)
        return theta * x

    return br.models.wrap(f, 1, 1, in_shape=(1,), jac=lambda theta, x: np.reshape(x, (1, 1)))


def raise_error(theta):
    raise LookupError("no such sensor")


FAILURES = {
    "raises": (raise_error, CallbackFailed, "LookupError in the model .*: no such sensor"),
    "shape": (lambda theta: np.ones(3), CallbackFailed, r"must return shape \(1,\)"),
    "nan": (lambda theta: theta * np.nan, NotFinite, "the model returns nan at this x"),
}


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("name", ["bong-lin-hess-diag", "bong-mc-ef-diag"])
@pytest.mark.parametrize("kind", FAILURES)
def test_a_model_that_fails_in_mid_stream_loses_nothing(kind, name, backend):
    how, error, message = FAILURES[kind]
    X, Y = np.linspace(0.1, 1.0, 60)[:, None], np.ones(60)
    model, rng = failing_model(how, X[25, 0]), np.random.default_rng(3)
    m = br.method(name, **({"n_samples": 5} if "-mc-" in name else {}))
    kw = {"every": 10, "metrics": lambda m, model, lik, q, rng: {"mu": q.mu[0]}, "backend": backend}
    with pytest.raises(error, match=message) as caught:
        br.run(m, model, UNIT, m.prior(np.zeros(1)), X, Y, rng=rng, **kw)
    assert caught.value.step == 26 and [row["t"] for row in caught.value.rows] == [10, 20]
    assert "step 26: " in str(caught.value) and "alpha" not in str(caught.value)
    other = np.random.default_rng(3)
    good = br.run(m, model, UNIT, m.prior(np.zeros(1)), X[:25], Y[:25], rng=other, **kw)
    np.testing.assert_allclose(caught.value.state.mu, good.state.mu, rtol=1e-12)
    assert rng.bit_generator.state == other.bit_generator.state
    X2 = X.copy()
    X2[25] += 1e-3
    on = br.run(
        m, model, UNIT, m.prior(np.zeros(1)), X2, Y, rng=rng, resume=caught.value.result, **kw
    )
    assert [row["t"] for row in on.rows] == [10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_metric_that_raises_carries_the_rows(backend):
    m, (X, Y) = br.method("bong-lin-hess-fc"), line(40)

    def ratio(m, model, lik, state, rng, calls=[0]):  # noqa: B006
        calls[0] += 1
        return {"a": 1 / (3 - calls[0])}

    kw = {"every": 10, "backend": backend}
    with pytest.raises(CallbackFailed, match=r"ZeroDivisionError.*raised by a metric") as caught:
        br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, metrics=ratio, **kw)
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert [row["t"] for row in error.rows] == [10, 20] and error.result.t == error.step - 1
    plain = lambda *args: {"a": 0.0}
    on = br.run(
        m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, metrics=plain, resume=error.result, **kw
    )
    whole = br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, **kw, metrics=plain)
    np.testing.assert_allclose(on.state.mu, whole.state.mu, rtol=1e-12)
    assert [row["t"] for row in on.rows] == [10, 20, 30, 40]


def test_a_compiled_path_that_raises_alone_is_given_up_with_a_warning(monkeypatch):
    """The reference takes the same steps without an error: the fault is not the model's."""
    from bongref.fast.stream import Stream

    def broken(self, state, t, stop):
        raise IndexError("kernel")

    monkeypatch.setattr(Stream, "advance", broken)
    m, (X, Y) = br.method("bong-mc-ef-diag", n_samples=3), line(6)
    prior = m.prior(np.zeros(2))
    with pytest.warns(BongrefWarning, match="IndexError: kernel.*the reference is used"):
        result = br.run(m, LINEAR, UNIT, prior, X, Y, rng=1)
    wanted = br.run(m, LINEAR, UNIT, prior, X, Y, rng=1, backend="reference")
    np.testing.assert_array_equal(result.state.mu, wanted.state.mu)
    assert result.info.backend == "reference" and "kernel" in result.info.reason
    with pytest.raises(StreamEnded, match=r"backend='fast': .*kernel"):
        br.run(m, LINEAR, UNIT, prior, X, Y, rng=1, backend="fast")


def test_no_efficient_form_is_refused_before_the_first_step():
    m = br.method("bbb-lin-ef-fc")
    with pytest.raises(br.InvalidValue, match="bbb-lin-ef-fc has no efficient form"):
        br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), *line(3), form="efficient")


def test_every_error_is_a_bongref_error_and_its_built_in_kind():
    kinds = {
        br.InvalidValue: ValueError,
        br.InvalidType: TypeError,
        br.NotDerived: NotImplementedError,
        br.NotPositiveDefinite: ArithmeticError,
        br.NotFinite: FloatingPointError,
        br.CallbackFailed: RuntimeError,
        br.errors.MissingFile: FileNotFoundError,
        br.Interrupted: KeyboardInterrupt,
    }
    for ours, builtin in kinds.items():
        assert issubclass(ours, BongrefError) and issubclass(ours, builtin)
        assert issubclass(ours, Exception) == (
            builtin is not KeyboardInterrupt
        )  # except Exception lets Ctrl-C through


# --- divergence -----------------------------------------------------------------------------------


def diverging(seed, T=600):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, 10))
    return X, 38 * np.sin(X[:, 0]) + 5 * X[:, 1], br.models.mlp([10, 50, 50, 1])


def test_a_stream_that_diverges_without_an_error_warns_once():
    X, Y, model = diverging(0)
    m = br.method("bong-lin-hess-diag")
    with pytest.warns(
        Diverging, match="worse than a constant.*largest prior variance 1.*smaller prior variance"
    ) as seen:
        state = br.run(
            m, model, UNIT, m.prior(model.init(np.random.default_rng(0)), 1.0), X, Y
        ).state
    assert len(seen) == 1 and "alpha" not in str(seen[0].message) and seen[0].filename == __file__
    last = np.array([model(state.mu, x)[0] for x in X[-100:]])
    assert np.sqrt(np.mean((last - Y[-100:]) ** 2)) > 1.5 * np.std(Y)  # it has


LIKS = {
    "gaussian": (br.likelihoods.Gaussian(0.5), 1),
    "bernoulli": (br.likelihoods.Bernoulli(), 1),
    "categorical": (br.likelihoods.Categorical(), 3),
    "poisson": (br.likelihoods.Poisson(), 1),
}


@pytest.mark.parametrize("kind", LIKS)
def test_no_warning_where_there_is_nothing_to_learn_or_much(kind):
    """Targets of a constant model, and of a model of the same kind: neither warns."""
    lik, C = LIKS[kind]
    model, rng = br.models.linear(3, C), np.random.default_rng(1)
    X = rng.standard_normal((400, 3))
    m = br.method("bong-lin-hess-diag")
    for theta in (np.zeros(model.n_params), rng.standard_normal(model.n_params)):
        Y = np.stack([lik.sample(model(theta, x), rng) for x in X])
        with warnings.catch_warnings():
            warnings.simplefilter("error", Diverging)
            br.run(m, model, lik, m.prior(np.zeros(model.n_params), 0.1), X, Y)


@pytest.mark.parametrize("kind", LIKS)
def test_losses_against_the_closed_forms(kind):
    lik, C = LIKS[kind]
    rng = np.random.default_rng(2)
    O = rng.standard_normal((30, C))
    Y = np.stack([lik.sample(o, rng) for o in O])
    found = divergence.losses(
        lambda mu, x: O[int(x[0])], lik, np.zeros(1), [np.array([k]) for k in range(30)], list(Y)
    )
    if kind == "gaussian":
        wanted, base = (Y - O)[:, 0] ** 2 / (2 * 0.5), (Y - Y.mean())[:, 0] ** 2 / (2 * 0.5)
    elif kind == "bernoulli":
        p, q = 1 / (1 + np.exp(-O[:, 0])), (Y.sum() + 0.5) / 31
        wanted, base = (
            -np.log(np.where(Y[:, 0] == 1, p, 1 - p)),
            -np.log(np.where(Y[:, 0] == 1, q, 1 - q)),
        )
    elif kind == "categorical":
        p, q = np.exp(O) / np.exp(O).sum(1, keepdims=True), (Y.sum(0) + 0.5) / (30 + 1.5)
        wanted, base = -np.log((p * Y).sum(1)), -np.log(Y @ q)
    else:
        y, rate = Y[:, 0], (Y.sum() + 0.5) / 30
        deviance = lambda r: np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / r), 0) - y + r
        wanted, base = deviance(np.exp(O[:, 0])), deviance(rate)
    np.testing.assert_allclose(found.plugin, wanted, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.constant, base, rtol=1e-12, atol=1e-13)


def test_constant_targets_and_moving_parameters_are_no_alarm():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 2))
    m = br.method("bong-lin-hess-fc")
    theta = np.cumsum(
        0.3 * rng.standard_normal((300, 2)), axis=0
    )  # a random walk: old observations fit the last state badly
    drift = np.sum(X * theta, axis=1) + 0.1 * rng.standard_normal(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Diverging)
        br.run(m, LINEAR, br.likelihoods.Gaussian(0.01), m.prior(np.zeros(2)), X, np.full(300, 0.3))
        br.run(
            m,
            LINEAR,
            br.likelihoods.Gaussian(0.01),
            m.prior(np.zeros(2)),
            X,
            drift,
            dynamics=br.dynamics.Linear(1.0, 0.0, 0.09),
        )


def test_what_is_clearly_worse():
    base, worse = np.full(100, 0.7), divergence.clearly_worse
    of = lambda *values: np.array(values, float)
    assert worse(np.full(100, 1.2), base)  # by more than half
    assert not worse(np.full(100, 0.9), base)  # but not by much
    assert not worse(np.r_[60.0, np.full(99, 0.5)], base)  # one outlier
    assert worse(np.r_[60000.0, np.full(99, 0.5)], base)  # so much that outliers do not matter
    assert not worse(np.full(100, 0.05), np.zeros(100))  # a constant that fits perfectly
    assert not worse(np.full(100, 5.0), base, worse=10.0)  # where the parameters move
    assert not worse(np.full(15, 1.2), base[:15]) and worse(np.full(15, 1e3), base[:15])
    assert worse(of(*[np.inf] * 20), base[:20])
    assert not worse(of(*[np.inf] * 20), of(*[np.inf] * 20))
    heavy = np.exp(2.5 * np.random.default_rng(2).standard_normal(100))
    heavy *= 26.8 * 0.7 / heavy.mean()  # as of a network that has run away
    assert np.std(heavy) / 10 * 3 > heavy.mean() - 0.7 and worse(heavy, base)


def test_the_prior_decides_between_diverged_and_not_learned():
    base, far = np.full(100, 0.6), np.full(100, 1200.0)
    judged = lambda plugin, prior, end=True: divergence.judged(
        divergence.Losses(plugin, base), prior, 1.5, end
    )
    assert judged(far, base) == "it may have diverged"
    assert judged(far, far) == "it has not learned: the prior is as far off"
    assert judged(far, far, end=False) == ""  # it may still learn
    assert judged(far, 10 * far) == ""  # it has learned something
    assert judged(10 * base, 9.9 * base) == judged(base, far) == ""
    flat = divergence.Losses(np.full(100, 4.5), np.zeros(100))  # a constant that fits perfectly
    assert divergence.judged(flat, flat.plugin, 1.5, True) == ""


def warned(name, model, lik, X, Y):
    m = br.method(name)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        br.run(m, model, lik, m.prior(np.zeros(model.n_params)), X, Y)
    return [str(w.message) for w in seen if w.category is Diverging]


@pytest.mark.parametrize("seed", range(6))
def test_exact_regression_without_an_intercept_is_no_alarm(seed):
    """Neither a target with a mean that the model cannot represent nor rare positives."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 5))
    model = br.models.linear(5)
    assert warned("bong-lin-hess-fc", model, UNIT, X, 3 + rng.standard_normal(400)) == []
    rng = np.random.default_rng(seed)
    X, rare = rng.standard_normal((400, 5)), (rng.random(400) < 0.02).astype(float)
    assert warned("bong-lin-hess-fc", model, br.likelihoods.Bernoulli(), X, rare) == []


def test_a_stream_that_has_not_learned_is_told_from_one_that_diverged():
    """The empirical Fisher of large residuals: tiny steps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    model = br.models.linear(6, bias=True)
    (message,) = warned("bong-lin-ef-fc", model, UNIT, X, 50 + rng.standard_normal(300))
    assert "has not learned" in message and "diverged" not in message
    assert "larger prior variance" in message and "smaller" not in message


def test_too_few_observations_say_nothing():
    far = lambda n: (list(np.ones((n, 2))), list(1e9 * np.ones((n, 1))))
    assert divergence.losses(LINEAR, UNIT, np.zeros(2), *far(9)) is None
    found = divergence.losses(LINEAR, UNIT, np.full(2, 1e308), *far(20))
    assert divergence.clearly_worse(found.plugin, found.constant)


def watched(state_fits_last, end, T=150):
    """Whether a look at step T warns, the state fitting either the last or the first 100
    observations.
    """
    X = np.ones((T, 2))
    Y = np.where(np.arange(T) < T - 100, -50.0, 2.0) + 0.1 * np.random.default_rng(
        0
    ).standard_normal(T)
    data = checks.observations(LINEAR, UNIT, X, Y, np.zeros(2))
    prior = br.Diag(np.zeros(2), np.ones(2))
    m = br.method("bong-lin-hess-diag")
    problem = backends.Problem(
        m, LINEAR, UNIT, prior, data, br.dynamics.Static(), None, None, False, "auto"
    )
    state = br.Diag(np.full(2, 1.0 if state_fits_last else -25.0), np.ones(2))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        divergence.Watch(problem).look(T, state, end=end)
    return [w.category for w in seen] == [Diverging]


def test_the_last_observations_are_looked_at_when_the_stream_ends_or_has_doubled():
    assert watched(False, end=True) and not watched(True, end=True)
    assert not watched(False, end=False) and watched(False, end=False, T=200)


def test_a_short_stream_is_looked_at_when_it_ends():
    X, Y, model = diverging(0, T=150)
    m = br.method("bong-lin-hess-diag")
    with pytest.warns(Diverging):
        br.run(m, model, UNIT, m.prior(model.init(np.random.default_rng(0)), 1.0), X, Y)


# --- what a result carries over -------------------------------------------------------------------


def stopped_at(n, m, X, Y, rng, **kw):
    """The interruption of a reference run after n steps."""

    def stop(m, model, lik, state, rng, calls=[0]):  # noqa: B006
        calls[0] += 1
        if calls[0] == n + 1:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(br.Interrupted) as caught:
        br.run(
            m,
            LINEAR,
            UNIT,
            m.prior(np.zeros(2)),
            X,
            Y,
            rng=rng,
            every=1,
            metrics=stop,
            backend="reference",
            **kw,
        )
    return caught.value


def test_an_interruption_rewinds_the_generator_and_keeps_time_and_traces():
    m, (X, Y) = br.method("bong-mc-ef-diag", n_samples=3), line(6)
    rng = np.random.default_rng(5)
    error = stopped_at(2, m, X, Y, rng, trace=True)
    assert error.step == 4 and error.result.t == 3 and len(error.result.info.traces) == 3
    other = np.random.default_rng(5)
    br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X[:3], Y[:3], rng=other, backend="reference")
    assert rng.bit_generator.state == other.bit_generator.state == error.result.continuation.rng
    first = error.result._replace(info=dataclasses.replace(error.result.info, seconds=1000.0))
    on = br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, rng=rng, trace=True, resume=first)
    assert on.info.seconds > 1000 and len(on.info.traces) == 6


def test_a_failed_step_leaves_the_generator_before_its_draws():
    m, (X, Y) = br.method("bog-mc-ef-diag_mom", alpha=1e6, n_samples=3), line(3)
    rng = np.random.default_rng(5)
    before = rng.bit_generator.state
    with pytest.raises(br.NotPositiveDefinite):
        br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, rng=rng, backend="reference")
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_prediction_that_overflows_carries_the_rows(backend):
    X, Y = line(3000)
    X[:, 1] = (
        0  # nothing is ever learned of the second parameter, whose variance grows by 1.69 a step
    )
    m, moving = br.method("bong-lin-hess-fc"), br.dynamics.Linear(1.3, 0.0, 0.01)
    kw = {"dynamics": moving, "every": 100, "metrics": br.metrics.on(X[:5], Y[:5], "rmse")}
    with pytest.raises(
        StreamEnded, match=r"step \d+: in the prediction, F Sigma F\^T \+ Q must be"
    ) as caught:
        br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, backend=backend, **kw)
    step = caught.value.step
    assert (
        1000 < step < 3000
        and len(caught.value.rows) == (step - 1) // 100
        and caught.value.result.t == step - 1
    )


@pytest.mark.filterwarnings("ignore::bongref.LostDigits")
def test_a_prediction_that_loses_positive_definiteness_is_not_called_an_overflow():
    """One variance is observed, another shrinks by 1e-4 at every step: singular in float64."""
    m, moving = br.method("bong-lin-hess-fc"), br.dynamics.Linear([[2.0, 1.0], [0.0, 1e-2]])
    X, Y = np.tile([1.0, 0.0], (200, 1)), np.ones(200)
    with pytest.raises(br.NotPositiveDefinite, match=r"in the prediction, .* got one that is not"):
        br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, dynamics=moving, backend="reference")


def test_metrics_that_return_no_dict_are_named():
    m, (X, Y) = br.method("bong-lin-hess-fc"), line(3)
    message = "metrics must return a dict of name: value, got float"
    with pytest.raises(CallbackFailed, match=message) as caught:
        br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, metrics=lambda *args: 1.0)
    assert isinstance(caught.value.__cause__, TypeError)
    for names in ({"t": 99, "a": 1}, {1: 2.0}):
        with pytest.raises(CallbackFailed, match="names are strings, and not 't'"):
            br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, metrics=lambda *args, d=names: d)


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, br.BongrefWarning])
@pytest.mark.parametrize("backend", ["reference", "fast"])
@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_metric_that_fails_costs_neither_the_steps_before_it_nor_a_row(backend, fails, raised):
    """The state after the step whose row failed is kept, and a resumed run takes that row."""
    m, (X, Y), calls = br.method("bong-lin-hess-diag"), line(300), []

    def score(m, model, lik, state, rng):
        calls.append(len(calls))
        if len(calls) == fails:
            raise raised
        return {"draw": rng.random(), "mean": float(state.mu[0])}

    args = m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y
    settings = {"every": 100, "metrics": score, "backend": backend}
    with pytest.raises(br.StreamEnded) as ended:
        br.run(*args, **settings)
    t = 100 * fails
    assert (ended.value.step, ended.value.result.t, len(ended.value.rows)) == (t + 1, t, fails - 1)
    upto = br.run(*args[:4], X[:t], Y[:t], backend=backend).state
    assert np.array_equal(ended.value.state.mu, upto.mu)
    resumed = br.run(*args, **settings, resume=ended.value.result)
    calls += [None] * 10
    whole = br.run(*args, **settings)
    assert resumed.rows == whole.rows and [row["t"] for row in whole.rows] == [100, 200, 300]
    assert np.array_equal(resumed.state.mu, whole.state.mu)


def test_two_metrics_of_one_name_are_refused():
    m, (X, Y) = br.method("bong-lin-hess-fc"), line(3)
    here, there = (br.metrics.on(X + shift, Y, "rmse") for shift in (0, 5))
    args = m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y
    with pytest.raises(br.InvalidValue, match="different names, got 'rmse' twice"):
        br.run(*args, metrics=[here, there])
    with pytest.raises(CallbackFailed, match="different names, got 'rmse' twice"):
        br.run(*args, metrics=[here, lambda *args: {"rmse": 1.0}])
    renamed = [here, lambda *args: {f"far {k}": v for k, v in there(*args).items()}]
    assert set(br.run(*args, metrics=renamed).rows[-1]) == {"t", "rmse", "far rmse"}


def test_another_kind_of_generator_cannot_resume():
    m, (X, Y) = br.method("bong-mc-ef-diag", n_samples=3), line(6)
    error = stopped_at(2, m, X, Y, np.random.default_rng(5))
    with pytest.raises(
        ValueError, match=r"resume\.continuation\.rng must be the state of a MT19937, as rng is one"
    ):
        br.run(
            m,
            LINEAR,
            UNIT,
            m.prior(np.zeros(2)),
            X,
            Y,
            rng=np.random.Generator(np.random.MT19937(1)),
            resume=error.result,
        )


# --- backends -------------------------------------------------------------------------------------


def test_a_compiled_path_that_is_broken_falls_back_with_one_warning(monkeypatch):
    from bongref.fast import stream

    def broken(*args):
        raise RuntimeError("numba of the future")

    monkeypatch.setattr(stream, "Stream", broken)
    prior, data = br.Diag(np.zeros(2), np.ones(2)), line(5)
    with pytest.warns(BongrefWarning, match="numba of the future.*the reference is used") as seen:
        result = br.run("bong-lin-hess-diag", LINEAR, UNIT, prior, *data)
    assert len(seen) == 1 and seen[0].filename == __file__
    assert result.info.backend == "reference" and "numba of the future" in result.info.reason
    with pytest.raises(ValueError, match=r"backend='fast': .*numba of the future"):
        br.run("bong-lin-hess-diag", LINEAR, UNIT, prior, *data, backend="fast")


def test_without_numba_the_reason_is_in_info(monkeypatch):
    real = builtins.__import__

    def no_fast(name, globals=None, locals=None, fromlist=(), level=0):
        if "fast" in name.split("."):
            raise ImportError("No module named 'numba'")
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", no_fast)
    prior = br.Diag(np.zeros(2), np.ones(2))
    with pytest.warns(BongrefWarning, match="No module named 'numba'.*the reference is used"):
        result = br.run("bong-lin-hess-diag", LINEAR, UNIT, prior, *line(3))
    assert result.info.backend == "reference" and "No module named 'numba'" in result.info.reason


# --- what a stream is read from -------------------------------------------------------------------


def test_a_seed_in_place_of_a_generator():
    m, (X, Y) = br.method("bong-mc-ef-diag", n_samples=3), line(4)
    prior = m.prior(np.zeros(2))
    a, b = (
        br.run(m, LINEAR, UNIT, prior, X, Y, rng=rng).state.mu
        for rng in (7, np.random.default_rng(7))
    )
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_read_by_position(library):
    frames = pytest.importorskip(library)
    X, Y = line(6)
    if library == "pandas":
        order = np.random.default_rng(0).permutation(6)
        given = (
            frames.DataFrame(X, index=order, columns=["a", "b"]),
            frames.Series(Y, index=order[::-1]),
        )
        holes = frames.Series([1, None, 3, 4, 5, 6], dtype="Int64", index=order)
    else:
        given = frames.DataFrame(X, schema=["a", "b"], orient="row"), frames.Series(Y)
        holes = frames.Series([1, None, 3, 4, 5, 6])
    m = br.method("bong-lin-hess-fc")
    prior = m.prior(np.zeros(2))
    wanted = br.run(m, LINEAR, UNIT, prior, X, Y)
    np.testing.assert_array_equal(br.run(m, LINEAR, UNIT, prior, *given).state.mu, wanted.state.mu)
    result = br.run(m, LINEAR, UNIT, prior, given[0], holes)
    assert result.info.missing == 1
    wanted = br.run(m, LINEAR, UNIT, prior, X, [1, None, 3, 4, 5, 6])
    np.testing.assert_array_equal(result.state.mu, wanted.state.mu)
    rmse = [
        br.metrics.rmse(br.predictive.plugin(LINEAR, UNIT, wanted.state, x), y)
        for x, y in ((X, Y), given)
    ]
    assert rmse[0] == rmse[1]


def test_a_missing_observation_keeps_a_stream_in_arrays():
    """What makes it cost nothing: one None changes neither how the stream is stored nor which path
    takes it.
    """
    X, Y = line(50)
    with_hole = [*Y[:20], None, *Y[21:]]
    data = checks.observations(LINEAR, UNIT, X, with_hole, np.zeros(2))
    assert (
        isinstance(data.xs, np.ndarray)
        and isinstance(data.ys, np.ndarray)
        and data.ys.dtype == float
    )
    assert list(np.flatnonzero(~data.seen)) == [20]


# --- results that are resumed ---------------------------------------------------------------------


def tampered():
    X, Y = line(6)
    m = br.method("bong-lin-hess-fc")
    r = br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y)
    yield r"resume\.t must be an integer >= 0, got -5", r._replace(t=-5)
    info = lambda **changed: dataclasses.replace(r.info, **changed)
    yield "resume must be a Result", r._replace(t=7, info=info(steps=7))
    yield r"resume\.info\.steps must be resume\.t = 3, got 6", r._replace(t=3, rows=[])
    yield r"resume\.info\.steps must be resume\.t = 6, got 3", r._replace(info=info(steps=3))
    for changed in ({"seconds": "x"}, {"evaluation": None}, {"compilation": np.nan}, {"steps": "6"},
                    {"missing": 7}, {"backend": 3}, {"reason": None},
                     {"method": "bong-lin-hess-fc"},
                    {"traces": [3]}, {"traces": None}, {"traces": [()] * 7},
                     {"seconds": -1.0}):  # fmt: skip
        (key,) = changed
        yield rf"resume\.info\.{key} must be", r._replace(info=info(**changed))
    yield "increasing order", r._replace(rows=[{"t": 4}, {"t": 2}])
    yield "increasing order", r._replace(rows=[{"t": 2}, {"t": 2}])
    yield "resume.rows must be rows", r._replace(rows=[{"t": 0}])
    pending = r.continuation._replace(pending={"a": ["x"]})
    yield r"resume\.continuation\.pending must be", r._replace(continuation=pending)
    yield r"resume\.t must be an integer >= 0, got '3'", r._replace(t="3")
    yield "resume must be a Result", r._replace(info={})
    yield "resume must be a Result", r._replace(continuation=None)
    yield "resume must be a Result", r.state
    yield "resume.rows must be rows", r._replace(rows=[{"t": 9}])
    yield "resume.rows must be rows", r._replace(rows=["x"])
    yield "resume.rows must be rows", r._replace(rows=None)
    yield (
        r"resume\.continuation\.pending must be",
        r._replace(continuation=r.continuation._replace(pending=[1])),
    )
    yield (
        r"resume\.continuation\.eval_rng must be",
        r._replace(continuation=r.continuation._replace(eval_rng={"a": 1})),
    )
    yield (
        r"resume\.state\.mu must be finite",
        r._replace(state=br.FC(np.full(2, np.nan), np.eye(2))),
    )
    yield (
        r"resume\.state must be positive definite",
        r._replace(state=br.FC(np.zeros(2), -np.eye(2))),
    )


def test_a_result_that_was_tampered_with_is_refused():
    m, rng = br.method("bong-lin-hess-fc"), np.random.default_rng(7)
    before = rng.bit_generator.state
    for message, resume in tampered():
        with pytest.raises((br.InvalidValue, br.InvalidType), match=message):
            br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), *line(6), resume=resume, rng=rng)
        assert rng.bit_generator.state == before


def test_a_generator_stays_where_it_is_when_a_result_is_refused():
    """The state of rng is good, that of the metrics' generator is not."""
    m, rng = br.method("bong-mc-ef-diag", n_samples=3), np.random.default_rng(7)
    half = br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), *line(3), rng=np.random.default_rng(1))
    bad = half._replace(continuation=half.continuation._replace(eval_rng={"a": 1}))
    before = rng.bit_generator.state
    with pytest.raises(br.InvalidValue, match=r"resume\.continuation\.eval_rng must be the state"):
        br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), *line(6), rng=rng, resume=bad)
    assert rng.bit_generator.state == before


def test_the_bar_is_shown_in_a_notebook(monkeypatch, capfd):
    from bongref.stream import _in_notebook

    assert not _in_notebook()
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert _in_notebook()
    m = br.method("bong-lin-hess-fc")
    br.run(m, LINEAR, UNIT, m.prior(np.zeros(2)), *line(6))
    assert "6/6" in capfd.readouterr().err


def test_the_package_survives_cloudpickle():
    cloudpickle = pytest.importorskip("cloudpickle")
    names = pickle.loads(cloudpickle.dumps(lambda: br.methods("bong-lin-hess-f*")))()
    assert names == ["bong-lin-hess-fc", "bong-lin-hess-fc_mom"]

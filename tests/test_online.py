"""Filter: the steps of run one at a time, predictions against closed forms and quadrature, and a
state that survives what goes wrong.
"""

import copy
import functools
import math
import pickle
import sys
import warnings

import autograd.numpy as anp
import numpy as np
import pytest
from problems import least_growth
from scipy import integrate, special, stats

import bongref as br
from bongref.gaussians import covariance
from bongref.predictive import linearised
from bongref.routes import compare

GAUSS = br.likelihoods.Gaussian(var=0.3)
MLP = br.models.mlp([3, 4, 1])
RNG = np.random.default_rng(7)
X = RNG.standard_normal((40, 3))
Y = np.sin(X @ [1.0, -2.0, 0.5]) + 0.1 * RNG.standard_normal(40)
GAPS = [None if i in (0, 5, 6, 39) else y for i, y in enumerate(Y)]


def make(name, **kw):
    extra = {"rank": 3} if name.endswith("dlr") else {}
    extra |= {"n_samples": 4} if "-mc-" in name else {}
    extra |= {"n_iter": 3} if name[:3] in ("blr", "bbb") else {}
    return br.method(name, **extra, **kw)


def prior_of(m, model=MLP):
    return m.prior(model.init(1), 0.2)


def same(a, b):
    return type(a) is type(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def moving(q):
    return br.dynamics.OU(0.95, q.mu, 0.2)


# --- the steps of run -----------------------------------------------------------------------------

SPLITS = ([1] * 40, [40], [7, 1, 1, 20, 1, 10], [39, 1])
NAMES = (
    "bong-lin-hess-diag", "bong-mc-ef-diag", "bong-lin-hess-dlr", "bong-mc-ef-dlr",
    "bong-lin-hess-fc", "bong-mc-ef-diag reference",
)  # fmt: skip


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_any_split_takes_the_steps_of_run_bit_for_bit(name, moves, monkeypatch):
    """In the full-covariance family too, where updates are deferred: the stream stays open.
    A buffer of 8 rows, so that it is emptied several times."""
    monkeypatch.setattr("bongref.backends.live.ROWS_OF_SMALL", 8)
    name, _, backend = name.partition(" ")
    m = make(name)
    q = prior_of(m)
    dynamics = moving(q) if moves else None
    kw = {"dynamics": dynamics, "backend": backend or "fast"}
    whole = br.run(m, MLP, GAUSS, q, X, GAPS, rng=5, **kw)
    for split in SPLITS:
        f = br.Filter(m, MLP, GAUSS, q, rng=5, **kw)
        at = 0
        for n in split:
            if n == 1:
                assert f.learn_one(X[at], GAPS[at]) is f
            else:
                assert f.learn_many(X[at : at + n], GAPS[at : at + n]) is f
            at += n
        assert f.t == at == 40 and same(f.state, whole.state)
        if "-mc-" in name:
            assert f.rng.bit_generator.state == generator_after(m, q, kw)


def generator_after(m, q, kw):
    rng = np.random.default_rng(5)
    br.run(m, MLP, GAUSS, q, X, GAPS, rng=rng, **kw)
    return rng.bit_generator.state


def test_models_of_ones_own_and_networks_with_images():
    wrapped = br.models.wrap(lambda t, x: anp.tanh(t[0] * x[0]) + t[1], 2, in_shape=(3,))
    cnn = br.models.cnn((4, 4, 1), 3, (2,), (3, 3), 3)
    images, labels = RNG.standard_normal((6, 4, 4, 1)), [0, 1, 2, 2, 1, 0]
    for model, lik, xs, ys in (
        (wrapped, GAUSS, X[:6], Y[:6]),
        (cnn, br.likelihoods.Categorical(), images, labels),
    ):
        m = br.method("bong-lin-hess-diag")
        q = m.prior(np.full(model.n_params, 0.1), 0.1)
        f = br.Filter(m, model, lik, q).learn_one(xs[0], ys[0]).learn_many(xs[1:], ys[1:])
        assert same(f.state, br.run(m, model, lik, q, xs, ys).state)
        many = f.predict_many(xs)
        one = f.predict_one(xs[2])
        np.testing.assert_array_equal(
            one, many[2] if lik is not GAUSS else (many[0][2], many[1][2])
        )


def test_forget_is_a_missing_observation():
    for name, backend in (
        ("bong-lin-hess-dlr", "fast"),
        ("bong-lin-hess-diag", "fast"),
        ("bong-mc-ef-diag", "reference"),
    ):
        m = make(name)
        q = prior_of(m)
        kw = {"rng": 1, "dynamics": moving(q), "backend": backend}
        f, g = (br.Filter(m, MLP, GAUSS, q, **kw) for _ in range(2))
        f.forget(2).learn_one(X[0], Y[0]).forget()
        g.learn_many(X[:2], [None, None]).learn_one(X[0], Y[0]).learn_one(X[1], None)
        assert same(f.state, g.state) and f.t == g.t == 4
    still = br.Filter("bong-lin-hess-fc", MLP, GAUSS)
    before = still.state
    assert same(still.forget(3).state, before) and still.t == 3
    for bad, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="steps must be an integer >= 1, got"):
            f.forget(bad)


def test_the_state_is_a_copy_and_the_prior_too():
    for backend in ("reference", "auto"):
        q = br.Diag(np.zeros(2), np.ones(2))
        f = br.Filter("bong-lin-hess-diag", br.models.linear(2), GAUSS, q, backend=backend)
        f.state.mu[:] = 99.0
        q.mu[:] = 99.0
        f.learn_one([1.0, 2.0], 1.0)
        f.state.mu[:] = 99.0
        assert np.max(np.abs(f.state.mu)) < 1


# --- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bong-lin-hess-diag", "bong-lin-hess-dlr", "bong-lin-hess-fc"])
@pytest.mark.parametrize("moves", [False, True])
def test_moments_are_those_of_the_dense_covariance(name, moves):
    """f(x, μ) and J Σ Jᵀ with Σ as a matrix, under the prior of the next step."""
    model = br.models.mlp([3, 4, 2])
    m, lik = make(name), br.likelihoods.Gaussian([[1.0, 0.3], [0.3, 0.5]])
    q = prior_of(m, model)
    f = br.Filter(m, model, lik, q, dynamics=moving(q) if moves else None)
    f.learn_many(X[:9], np.c_[Y, -Y][:9])
    ahead = br.predict(f.state, f.dynamics)
    Sigma = covariance(ahead)
    mean, var = f.predict_many(X[9:12])
    for i, x in enumerate(X[9:12]):
        J = model.jac(ahead.mu, x)
        V = J @ Sigma @ J.T + lik.R
        wants = {"mean": model(ahead.mu, x), "var": np.diag(V)}
        for key, got in {"mean": mean[i], "var": var[i]}.items():
            tol = 200 * np.linalg.cond(Sigma) * np.finfo(float).eps
            np.testing.assert_allclose(got, wants[key], rtol=tol, atol=tol)
        one = f.predict_one(x)
        assert np.array_equal(one.mean, mean[i]) and np.array_equal(one.var, var[i])
        want = stats.multivariate_normal(wants["mean"], V).logpdf([0.3, -0.4])
        assert f.log_score(x, [0.3, -0.4]) == pytest.approx(want, rel=1e-9)


def test_linear_regression_is_bayes_rule():
    """The exact posterior predictive, from the normal equations."""
    model, var0, R = br.models.linear(3), 0.7, 0.3
    m = br.method("bong-lin-hess-fc")
    f = br.Filter(m, model, GAUSS, m.prior(np.zeros(3), var0)).learn_many(X, Y)
    A = np.eye(3) / var0 + X.T @ X / R
    mean = np.linalg.solve(A, X.T @ Y / R)
    x = np.array([1.0, -1.0, 2.0])
    want = x @ mean, x @ np.linalg.solve(A, x) + R
    got = f.predict_one(x)
    np.testing.assert_allclose((got.mean[0], got.var[0]), want, rtol=1e-12)
    score = stats.norm(want[0], math.sqrt(want[1])).logpdf(0.4)
    assert f.log_score(x, 0.4) == pytest.approx(score, rel=1e-11)


def test_a_negative_precision_entry_is_left_to_the_reference():
    q = br.DLR(np.zeros(2), np.array([1.0, -0.1]), np.array([[0.3], [1.0]]))
    f = br.Filter(br.method("bong-lin-hess-dlr", rank=1), br.models.linear(2), GAUSS, q)
    Sigma = np.linalg.inv(np.diag(q.Ups) + q.W @ q.W.T)
    assert f.predict_one([1.0, 2.0]).var[0] == pytest.approx([1, 2] @ Sigma @ [1, 2] + 0.3)


MV = [(0.0, 1e-3), (0.5, 0.5), (-2.0, 4.0), (3.0, 25.0), (-8.0, 1.0)]


@pytest.mark.parametrize(("m", "v"), MV)
def test_probabilities_of_two_classes_by_quadrature(m, v):
    """The probit approximation is within 0.02 of E σ(f), and exact where v = 0."""
    density = lambda z: special.expit(m + math.sqrt(v) * z) * stats.norm.pdf(z)
    want = integrate.quad(density, -12, 12, limit=200)[0]
    lik = br.likelihoods.Bernoulli()
    p = linearised.prediction(lik, np.array([[m]]), np.array([[[v]]]))
    assert p.shape == (1, 2) and p.sum() == pytest.approx(1, abs=1e-15)
    assert abs(p[0, 1] - want) < 0.02
    exact = linearised.prediction(lik, np.array([[m]]), np.zeros((1, 1, 1)))
    assert exact[0, 1] == pytest.approx(special.expit(m), rel=1e-14)
    for y in (0, 1):
        got = linearised.log_density(lik, np.array([[m]]), np.array([[[v]]]), np.array([[y]]))
        assert got[0] == pytest.approx(math.log(p[0, y]), rel=1e-12)
    # two classes are one difference of logits
    V = np.array([[[0.4 * v, 0.1 * v], [0.1 * v, 0.8 * v]]])
    two = linearised.prediction(br.likelihoods.Categorical(), np.array([[0.2, 0.2 + m]]), V)
    np.testing.assert_allclose(two, p, rtol=1e-12)


def test_probabilities_of_many_classes():
    """They sum to 1, do not see what all logits have in common, and are near those of samples."""
    lik, rng = br.likelihoods.Categorical(), np.random.default_rng(0)
    A = rng.standard_normal((4, 4)) / 4
    m, V = rng.standard_normal((1, 4)), (A @ A.T)[None]
    p = linearised.prediction(lik, m, V)
    assert p.sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_allclose(linearised.prediction(lik, m + 3, V + 50.0), p, rtol=1e-10)
    draws = rng.multivariate_normal(m[0], V[0], size=200_000)
    assert np.max(np.abs(special.softmax(draws, axis=1).mean(axis=0) - p)) < 0.03
    sure = linearised.prediction(lik, m, np.zeros((1, 4, 4)))
    np.testing.assert_allclose(sure, special.softmax(m, axis=1), rtol=1e-13)
    for y in range(4):
        got = linearised.log_density(lik, m, V, np.eye(4)[[y]])
        assert got[0] == pytest.approx(math.log(p[0, y]), rel=1e-12)


@pytest.mark.parametrize(("m", "v"), [(0.0, 1e-4), (0.5, 0.5), (-3.0, 9.0), (5.0, 0.1), (9.0, 2.0)])
def test_counts_by_quadrature(m, v):
    lik = br.likelihoods.Poisson()
    M, V = np.array([[m]]), np.array([[[v]]])
    pred = linearised.prediction(lik, M, V)
    lognormal = stats.lognorm(math.sqrt(v), scale=math.exp(m))
    assert pred.mean[0, 0] == pytest.approx(lognormal.mean(), rel=1e-12)
    assert pred.var[0, 0] == pytest.approx(lognormal.mean() + lognormal.var(), rel=1e-9)
    for y in (0, 1, 7, 300, 20_000):
        grid = np.linspace(-60, 60, 400_001)
        logs = stats.poisson.logpmf(y, np.exp(grid)) + stats.norm.logpdf(grid, m, math.sqrt(v))
        top = logs.max()
        want = top + math.log(np.sum(np.exp(logs - top)) * (grid[1] - grid[0]))
        got = linearised.log_density(lik, M, V, np.array([[float(y)]]))[0]
        assert got == pytest.approx(want, rel=1e-7, abs=1e-7), y


def test_bernoulli_with_more_outputs_and_a_likelihood_of_ones_own():
    model = br.models.linear(2, 3)
    f = br.Filter("bong-lin-hess-fc", model, br.likelihoods.Bernoulli())
    p = f.learn_one([1.0, 2.0], [1, 0, 1]).predict_one([1.0, 2.0])
    assert p.shape == (3,) and p[0] > 0.5 > p[1]

    class Own(br.likelihoods.Poisson):
        name = "own"

    q = br.method("bong-lin-hess-fc").prior(np.full(6, 0.2), 0.1)
    g = br.Filter("bong-lin-hess-fc", model, Own(), q)
    mean, var = g.predict_one([1.0, 2.0])
    rate = math.exp(0.6)
    np.testing.assert_allclose(mean, rate)
    np.testing.assert_allclose(var, rate + rate**2 * 0.5)  # J Σ Jᵀ = 0.1 · 5
    want = 3 * stats.poisson.logpmf(2, rate)
    assert g.log_score([1.0, 2.0], [2, 2, 2]) == pytest.approx(want)


def test_outputs_that_overflow_have_no_density():
    model = br.models.wrap(lambda t, x: anp.exp(t * x), 1, 1, in_shape=(1,))
    f = br.Filter("bong-lin-hess-diag", model, GAUSS, br.Diag([1.0], [1.0]), backend="reference")
    assert f.log_score([1e4], 1.0) == -math.inf


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "auto"])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    "name", ["bog-lin-hess-diag_mom", "bog-lin-hess-fc_mom", "bog-mc-ef-diag_mom"]
)
def test_after_a_loss_the_filter_goes_on_from_its_last_good_state(name, many, backend):
    model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=1.0)
    m = br.method(name, alpha=0.2, **({"n_samples": 3} if "mc" in name else {}))
    q = m.prior(np.zeros(2))
    Z, T = X[:, :2], X[:, :2] @ [1.0, -2.0] + RNG.standard_normal(40)
    with pytest.raises(br.NotPositiveDefinite) as caught:
        br.run(m, model, lik, q, Z, T, rng=2, backend=backend)
    n = caught.value.step - 1
    f = br.Filter(m, model, lik, q, rng=2, backend=backend)
    with pytest.raises(br.NotPositiveDefinite, match=rf"step {n + 1}: .* the filter stays") as lost:
        if many:
            f.learn_many(Z, T)
        else:
            for x, y in zip(Z, T, strict=True):
                f.learn_one(x, y)
    assert n >= 1 and f.t == n == lost.value.step - 1
    assert same(f.state, lost.value.state) and same(lost.value.result.state, f.state)
    tiny = 1e-3 * Z[:3]  # what follows is learned as if the failed step had not been
    f.learn_many(tiny, T[:3])
    rng = np.random.default_rng(2)
    whole = br.run(m, model, lik, q, [*Z[:n], *tiny], [*T[:n], *T[:3]], rng=rng, backend=backend)
    for d in compare.differences(
        f.state, whole.state, dict.fromkeys(compare.invariants(f.state), 1e4)
    ):
        assert d.agrees, d
    if name != "bog-lin-hess-fc_mom":
        assert same(f.state, whole.state) and f.rng.bit_generator.state == rng.bit_generator.state


@pytest.mark.parametrize("name", ["bong-lin-hess-diag", "bong-lin-hess-dlr", "bong-lin-hess-fc"])
def test_after_an_overflow_the_bits_are_those_before(name):
    m = make(name)
    f = br.Filter(m, MLP, GAUSS, prior_of(m)).learn_many(X[:9], Y[:9])
    before = f.state
    with pytest.raises(
        br.NotFinite, match=r"step 10: .* the filter stays at the state after step 9"
    ):
        f.learn_one(X[9], 1e308)
    assert f.t == 9 and same(f.state, before)
    whole = br.run(m, MLP, GAUSS, prior_of(m), X[:20], Y[:20])
    assert same(f.learn_many(X[9:20], Y[9:20]).state, whole.state)


def interrupted_at(k, call, files):
    """call(), with Ctrl-C at the k-th line of these files; whether it came to that."""
    left = [k]

    def trace(frame, event, arg):
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return left[0] <= 0


@pytest.mark.parametrize(
    ("name", "backend"),
    [("bong-lin-hess-diag", "fast"), ("bong-mc-ef-diag", "fast"), ("bong-mc-ef-diag", "reference")],
)
def test_ctrl_c_at_any_line_leaves_the_state_before_or_after(name, backend, monkeypatch):
    """At every line of the code that takes the steps; the next call goes on with the right bits."""
    monkeypatch.setattr("bongref.backends.live.ROWS_OF_SMALL", 3)
    m = make(name)
    q, rng = prior_of(m), np.random.default_rng(3)
    states, draws = [q], [rng.bit_generator.state]
    for t in range(12):
        rows = (X[t : t + 1], Y[t : t + 1])
        states.append(br.run(m, MLP, GAUSS, states[-1], *rows, rng=rng, backend=backend).state)
        draws.append(rng.bit_generator.state)
    f = br.Filter(m, MLP, GAUSS, q, rng=3, backend=backend).learn_one(X[0], Y[0])
    original, tried = f.__getstate__(), 0
    for start in (1, 3):  # in the middle of the buffer, and where it is full
        for k in range(1, 400):
            g = br.Filter.restored(copy.deepcopy(original))
            g._open(X[0])
            if start > 1:
                g.learn_many(X[1:start], Y[1:start])
            many = k % 2 == 0
            step = functools.partial(g.learn_one, X[start], Y[start])
            if many:
                step = functools.partial(g.learn_many, X[start:6], Y[start:6])
            if not interrupted_at(k, step, ("live.py", "online/__init__.py")):
                if not many:
                    continue
                break
            tried += 1
            t = g.t
            assert start <= t <= 6 and same(g.state, states[t])
            assert "-mc-" not in name or g.rng.bit_generator.state == draws[t]
            assert same(g.learn_many(X[t:12], Y[t:12]).state, states[12])
    assert tried > 40


def test_an_interruption_carries_the_state(monkeypatch):
    f = br.Filter("bong-lin-hess-diag", MLP, GAUSS, backend="reference").learn_one(X[0], Y[0])
    hit = br.models.ParametricModel.jac

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(br.models.ParametricModel, "jac", stop)
    with pytest.raises(br.Interrupted, match="stopped after step 1; the filter is at") as caught:
        f.learn_one(X[1], Y[1])
    monkeypatch.setattr(br.models.ParametricModel, "jac", hit)
    assert caught.value.step == 2 and same(caught.value.state, f.state)
    assert f.learn_one(X[1], Y[1]).t == 2


# --- memory and copies ----------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_number_of_calls():
    model, lik = br.models.mlp([3, 4, 1]), GAUSS
    made = lambda: br.Filter(
        "bong-lin-hess-dlr", model, lik, rng=1, dynamics=br.dynamics.Linear(Q=1e-4)
    )

    def calls(f, n):
        for i in range(n):
            f.learn_one(X[i % 40], Y[i % 40])
            if i % 8 == 0:
                f.predict_one(X[0])
                f.log_score({"a": 1.0, "b": 2.0, "c": 3.0}, 0.5)
                f.state  # noqa: B018

    calls(made(), 2)  # compiles: Numba takes four times as long while memory is traced
    f = made()
    assert least_growth(lambda: calls(f, 5000)) < 5000 and f.t == 25_000


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f: f.fit(X, Y), "'fit'; it has learn_many"),
        (lambda f: f.predict(X), "'predict'; it has predict_many"),
        (lambda f: f.color, "'color'$"),
        (lambda f: f.learn_many(X[0], Y[0]), r"Y must be .*; of a single row, \[y\]"),
        (lambda f: br.save(f, "a.npz"), r"path is first: save\('a.npz', value\)"),
        (
            lambda f: br.Filter("bog-lin-hess-diag", f.model, f.lik, alpha=0.01),
            r"'alpha'; write Filter\(bongref.method\('bog-lin-hess-diag', alpha=0.01\), model",
        ),
        (lambda f: br.Filter(f.method, f.model, f.lik, speed=2), "no argument 'speed'$"),
        (lambda f: f.learn_one({0: 1.0, 1: 2.0, 2: 0.0}, 1.0), r"x must have names .* got int 0;"),
        (
            lambda f: f.learn_many({"a": X, "b": X}, Y),
            "X must be rows: .* a dict is one input, for",
        ),
        (lambda f: br.recommend(f.model, X, 1.0), r"n_obs must be an integer >= 1, got ndarray"),
    ],
)
def test_wrong_first_calls_lead_to_a_right_one(call, text):
    f = br.Filter("bong-lin-hess-diag", br.models.linear(3), GAUSS)
    with pytest.raises((AttributeError, br.InvalidType), match=text):
        call(f)


@pytest.mark.parametrize("name", ["bong-mc-ef-diag", "bong-lin-hess-dlr"])
def test_copies_go_on_alike(name, tmp_path):
    m = make(name)
    f = br.Filter(m, MLP, GAUSS, prior_of(m), rng=3, features=["a", "b", "c"])
    f.learn_many(X[:5], Y[:5])
    joblib = pytest.importorskip("joblib")
    joblib.dump(f, tmp_path / "f.joblib")
    br.save(tmp_path / "f.npz", f)
    copies = [
        copy.copy(f) if name.startswith("bong-lin") else copy.deepcopy(f), copy.deepcopy(f),
        pickle.loads(pickle.dumps(f)), joblib.load(tmp_path / "f.joblib"),
         br.load(tmp_path / "f.npz"),
    ]  # fmt: skip
    f.learn_many(X[5:], Y[5:])
    for g in copies:
        assert g.t == 5 and g.features == ["a", "b", "c"] and repr(g).endswith("t=5)")
        assert same(g.learn_many(X[5:], Y[5:]).state, f.state) and g.t == 40


# --- inputs ---------------------------------------------------------------------------------------


def test_inputs_of_every_kind_are_the_same():
    pandas = pytest.importorskip("pandas")
    names = ["a", "b", "c"]
    frame = pandas.DataFrame(X[:4], columns=names)
    dicts = [dict(zip(names, map(float, row), strict=True)) for row in X[:4]]
    turned = [dict(reversed(list(d.items()))) for d in dicts]
    m = make("bong-lin-hess-diag")
    want = br.run(m, MLP, GAUSS, prior_of(m), X[:4], Y[:4])
    ways = {
        "array": lambda f, i: f.learn_one(X[i], Y[i]),
        "list": lambda f, i: f.learn_one(X[i].tolist(), [Y[i]]),
        "dict": lambda f, i: f.learn_one(dicts[i] if i == 0 else turned[i], np.float64(Y[i])),
        "row": lambda f, i: f.learn_one(frame.iloc[i], Y[i]),
        "read-only": lambda f, i: f.learn_one(np.broadcast_to(X[i], (3,)), np.array(Y[i])),
        "stride": lambda f, i: f.learn_one(np.asfortranarray(X)[i], Y[i]),
        "many": lambda f, i: f.learn_many(frame[i : i + 1], pandas.Series([Y[i]])),
        "dicts": lambda f, i: f.learn_many(turned[i : i + 1] if i else dicts[:1], [Y[i]]),
    }
    for way, learn in ways.items():
        f = br.Filter(m, MLP, GAUSS, prior_of(m))
        for i in range(4):
            learn(f, i)
        assert same(f.state, want.state), way
        assert f.features == (names if way in ("dict", "dicts") else None)
    g = br.Filter(m, MLP, GAUSS, prior_of(m), features=names)
    mixed = frame[["c", "a", "b"]]
    g.learn_many(mixed[:2], Y[:2]).learn_one(mixed.iloc[2], Y[2]).learn_one(turned[3], Y[3])
    assert same(g.state, want.state)
    for x in (X[5], X[5].tolist(), dict(zip(names, X[5], strict=True))):
        assert g.predict_one(x).mean == g.predict_many([x]).mean[0]
    read_only = X[:2].copy()
    read_only.flags.writeable = False
    assert np.array_equal(g.predict_many(read_only).mean, g.predict_many(X[:2]).mean)


LIN = br.models.linear(2)
V, T = br.InvalidValue, br.InvalidType
ROWS = "[{'a': 1.0, 'b': 1.0}, {'a': 2.0}]"
REFUSED = [
    ("learn_one([1.0], 1.0)", V, "x must have shape (2,)"),
    ("learn_one([1.0, nan], 1.0)", V, "x must be finite, got nan at index (1,); impute"),
    ("learn_one(np.array([1.0, inf]), 1.0)", V, "x must be finite, got inf"),
    ("learn_one(['a', 'b'], 1.0)", T, "x must be an array of real numbers"),
    ("learn_one([[1.0, 2.0]], [1.0])", V,
     "x must be one input, got a batch of shape (1, 2); use learn_many"),
    ("learn_one(None, 1.0)", V, "x must be given"),
    ("learn_one([1.0, 2.0], nan)", V,
     "y must be finite real numbers, got nan; use None for a missing"),
    ("learn_one([1.0, 2.0], 'a')", T, "y must be finite real numbers, got str"),
    ("learn_one([1.0, 2.0], [1.0, 2.0])", V, "y must have shape (1,) or ()"),
    ("learn_one({'a': 1.0}, 1.0)", V,
     "features must be 2 names, one for each input of the model, got 1: ['a']"),
    ("learn_one({'a': 1.0, 3: 1.0}, 1.0)", T, "x must have names (strings) as keys, got int 3"),
    ("learn_one({'a': 1.0, 'b': 'x'}, 1.0)", T, "x['b'] must be a real number, got str 'x'"),
    ("learn_one({'a': 1.0, 'b': None}, 1.0)", V, "x['b'] must be given, got None; impute"),
    ("learn_one({'a': 1.0, 'b': nan}, 1.0)", V, "x['b'] must be finite, got nan"),
    ("learn_many([[1.0, 2.0]], [1.0, 2.0])", V, "X and Y must have the same length, got 1 and 2"),
    ("learn_many([[1.0, 2.0], [nan, 1.0]], [1.0, 2.0])", V,
     "step 2 (X[1], Y[1]): x must be finite"),
    ("learn_many([], [])", V, "X must not be empty"),
    ("learn_many([[[1.0, 2.0]]], [[1.0]])", V, "x must be one input, got a batch"),
    (f"learn_many({ROWS}, [1.0, 2.0])", V,
     "X[1]: x must have exactly the features ['a', 'b'], got no 'b'"),
    ("predict_one([1.0])", V, "x must have shape (2,)"),
    ("predict_many([])", V, "X must not be empty"),
    ("predict_many([1.0, 2.0])", V, "X[0]: x must have shape (2,)"),
    ("predict_many([[1.0, nan]])", V, "x must be finite"),
    ("log_score([1.0, 2.0], None)", V,
     "y must be given, got None; a missing observation has no score"),
    ("log_score([1.0, 2.0], 'a')", T, "y must be finite real numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_what_is_refused_changes_nothing(call, error, match):
    f = br.Filter("bong-lin-hess-diag", LIN, GAUSS, backend="reference")
    f.learn_one([1.0, 2.0], 3.0)
    before = f.state
    with pytest.raises(error) as caught:
        eval("f." + call, {"f": f, "np": np, "nan": math.nan, "inf": math.inf})
    assert match in str(caught.value), str(caught.value)
    assert f.t == 1 and same(f.state, before)


def test_names_are_fixed_by_the_first_dict():
    f = br.Filter("bong-lin-hess-diag", LIN, GAUSS, backend="reference")
    f.predict_one({"b": 1.0, "a": 2.0})
    assert f.features == ["b", "a"]
    for x, got in (
        ({"a": 1.0, "c": 1.0}, "no 'b'; impute what is missing"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "'c' too; leave it out"),
        ({}, "no 'b'; impute what is missing"),
    ):
        with pytest.raises(V) as caught:
            f.learn_one(x, 1.0)
        assert str(caught.value) == f"x must have exactly the features ['b', 'a'], got {got}"
    pandas = pytest.importorskip("pandas")
    with pytest.raises(V, match=r"X must have exactly the columns \['b', 'a'\], got \['a', 'c'\]"):
        f.learn_many(pandas.DataFrame({"a": [1.0], "c": [1.0]}), [1.0])


ARGUMENTS = [
    ("Filter('bong-lin-hess-fcc', LIN, GAUSS)", V, "name must be RULE"),
    ("Filter('bong-lin-hess-fc', 3, GAUSS)", T, "model must be made by bongref.models"),
    ("Filter('bong-lin-hess-fc', LIN, 3)", T, "lik must be a likelihood"),
    ("Filter('bong-lin-hess-fc', LIN, GAUSS, 3)", T, "prior must be an FC state"),
    ("Filter('bong-lin-hess-fc', LIN, GAUSS, dynamics=3)", T, "dynamics must be Static(), OU(...)"),
    ("Filter('bong-lin-hess-fc', LIN, GAUSS, rng='a')", T, "rng must be a numpy.random.Generator"),
    ("Filter('bong-mc-ef-fc', LIN, GAUSS)", T, "bong-mc-ef-fc draws samples: rng"),
    ("Filter('bong-lin-hess-fc', LIN, GAUSS, backend='gpu')", V, "backend must be 'auto'"),
    ("Filter('bong-mc-hess-fc', LIN, GAUSS, rng=1, backend='fast')", V,
     "backend='fast': bong-mc-hess-fc needs"),
    ("Filter('bong-lin-hess-fc', LIN, br.likelihoods.Categorical())", V,
     "n_outputs must be an integer >= 2"),
    ("Filter('bong-lin-hess-fc', LIN, GAUSS, features=['a'])", V, "features must be 2 names"),
    ("Filter('bong-lin-hess-fc', LIN, GAUSS, features=['a', 'a'])", V,
     "features must be different names"),
    ("Filter('bong-lin-hess-fc', LIN, GAUSS, features='ab')", T,
     "features must be a sequence of names"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "match"), ARGUMENTS)
def test_arguments_that_are_refused(call, error, match):
    with pytest.raises(error) as caught:
        eval("br." + call, {"br": br, "LIN": LIN, "GAUSS": GAUSS})
    assert match in str(caught.value), str(caught.value)


def test_defaults_are_usable():
    f = br.Filter("bong-lin-hess-dlr", LIN, GAUSS)
    assert f.method.params["rank"] == 2 and f.state.W.shape == (2, 2)
    q = br.defaults.prior(
        br.method("bong-lin-hess-diag"), br.models.cnn((4, 4, 1), 2, (2,), (3, 3), 3)
    )
    assert q.var[0] == 1 / 9 and q.mu.any()


@pytest.mark.parametrize("bad", [10**400, float("nan"), float("inf"), "3", None, 1j])
def test_a_dict_with_a_value_that_is_no_number_is_refused(bad):
    f = br.Filter("bong-lin-hess-fc", br.models.linear(2), br.likelihoods.Gaussian(var=1.0))
    f.learn_one({"a": 1.0, "b": 2}, 1.0)
    with pytest.raises((br.InvalidValue, br.InvalidType), match=r"x\['b'\]"):
        f.learn_one({"a": 1.0, "b": bad}, 1.0)
    assert f.t == 1


@pytest.mark.parametrize("value", [2**53 + 1, 2**60, True, np.float32(0.1), np.int8(3), 1e200])
def test_a_dict_gives_the_array_of_its_values(value):
    f = br.Filter("bong-lin-hess-fc", br.models.linear(2), br.likelihoods.Gaussian(var=1.0))
    row = np.array([float(value), 0.5])
    np.testing.assert_array_equal(f._inputs.one({"a": value, "b": 0.5}), row)
    np.testing.assert_array_equal(f._inputs.one({"b": 0.5, "a": value}), row)


def test_a_frame_with_the_columns_of_an_earlier_one_in_another_order_is_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "b"], index=[7, 7])
    f = br.Filter("bong-lin-hess-fc", LIN, GAUSS).learn_many(frame, [1.0, 2.0])
    same = br.Filter("bong-lin-hess-fc", LIN, GAUSS).learn_many(frame.to_numpy(), [1.0, 2.0])
    assert np.array_equal(f.state.mu, same.state.mu)
    for call in (
        lambda: f.learn_many(frame[["b", "a"]], [1.0, 2.0]),
        lambda: f.predict_many(frame[["b", "a"]]),
        lambda: f.learn_one(frame[["b", "a"]].iloc[0], 1.0),
    ):
        with pytest.raises(br.InvalidValue, match=r"in the order of the first ones, \['a', 'b'\]"):
            call()
    assert f.t == 2 and f.predict_many(frame.rename(columns={"a": "c"})).mean.shape == (2, 1)


def test_a_network_is_warned_of_raw_columns_with_the_first_rows():
    """Once, whatever comes first; neither of scaled rows nor of a linear model."""
    X = 1000 * np.random.default_rng(0).standard_normal((5, 3)) + 500
    mlp, lik = br.models.mlp([3, 2, 1]), br.likelihoods.Gaussian(var=0.1)
    make = lambda model=mlp: br.Filter("bong-lin-hess-diag", model, lik, backend="reference")
    for first in (
        lambda f: f.learn_one(X[0], 1.0).learn_one(X[1], 1.0),
        lambda f: f.learn_one(dict(zip("abc", X[0], strict=True)), None),
        lambda f: f.learn_one(0 * X[0], 1000.0),
        lambda f: f.learn_many(X, [None] * 5),
    ):
        with pytest.warns(br.Unscaled, match="standardise") as seen:
            first(make())
        assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().learn_one(X[0] / 1000, 1.0).learn_many(X / 1000, X[:, 0] / 1000)
        make(br.models.linear(3)).learn_one(X[0], None)


def test_raw_columns_are_warned_of_after_steps_without_an_observation():
    mlp, raw = br.models.mlp([2, 2, 1]), np.array([[900.0, 1.0], [1100.0, 1.0]])
    for before in (
        lambda f: f.forget(1),
        lambda f: f.learn_one([0.0, 1.0], None),
        lambda f: f.learn_many([[0.0, 1.0]], [None]),
    ):
        f = before(br.Filter("bong-lin-hess-diag", mlp, GAUSS, backend="reference"))
        with pytest.warns(br.Unscaled, match="X .column 0") as seen:
            f.learn_many(raw, [1.0, 2.0]).learn_many(raw, [1.0, 2.0])
        assert len(seen) == 1 and seen[0].filename == __file__


def test_a_dict_after_a_frame_has_its_columns():
    pd = pytest.importorskip("pandas")
    frame, b_first = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]}), {"b": 1.0, "a": 3.0}
    make = lambda: br.Filter("bong-lin-hess-fc", LIN, GAUSS)
    want = make().learn_many(frame, [1.0, 2.0]).learn_one([3.0, 1.0], 1.0)
    first = lambda: make().learn_many(frame, [1.0, 2.0])
    for f in (
        first().learn_one(b_first, 1.0),
        first().learn_many([b_first], [1.0]),
        make().learn_one(frame.iloc[0], 1.0).learn_one(frame.iloc[1], 2.0).learn_one(b_first, 1.0),
    ):
        assert same(f.state, want.state) and f.features == ["a", "b"]
    with pytest.raises(V, match=r"exactly the features \['a', 'b'\], got no 'b'"):
        first().learn_one({"a": 1.0, "c": 2.0}, 1.0)


def test_copies_keep_the_columns_of_the_first_frame(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]})
    f = br.Filter("bong-lin-hess-fc", LIN, GAUSS).learn_many(frame, [1.0, 2.0])
    br.save(tmp_path / "f.npz", f)
    for g in (copy.deepcopy(f), pickle.loads(pickle.dumps(f)), br.load(tmp_path / "f.npz")):
        with pytest.raises(V, match="in the order of the first ones"):
            g.learn_many(frame[["b", "a"]], [1.0, 2.0])
        assert same(
            g.learn_many(frame, [1.0, 2.0]).state, copy.copy(f).learn_many(frame, [1.0, 2.0]).state
        )


def test_a_refused_observation_fixes_no_names():
    pd = pytest.importorskip("pandas")
    frame, good = pd.DataFrame({"hour": [1.0], "prise": [2.0]}), {"price": 2.0, "hour": 1.0}
    for call in (
        lambda f: f.learn_one({"hour": 1.0, "prise": 2.0}, "x"),
        lambda f: f.learn_one(frame.iloc[0], math.nan),
        lambda f: f.learn_many([{"hour": 1.0, "prise": 2.0}, {"hour": 1.0}], [1.0, 2.0]),
        lambda f: f.learn_many([{"hour": 1.0, "prise": 2.0}], [math.inf]),
        lambda f: f.learn_many(frame, [math.nan]),
        lambda f: f.predict_many([{"hour": 1.0, "prise": 2.0}, {"hour": 1.0}]),
        lambda f: f.log_score({"hour": 1.0, "prise": 2.0}, None),
    ):
        f = br.Filter("bong-lin-hess-fc", LIN, GAUSS)
        with pytest.raises((br.InvalidValue, br.InvalidType)):
            call(f)
        assert f.features is None
        assert f.learn_one(good, 1.0).features == ["price", "hour"]

"""Updates and streams against closed forms, hand-written loops, and each other; traces;
interruptions; lost positive definiteness.
"""

import cProfile
import dataclasses
import functools
import io
import pickle
import sys
import threading

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad

import bongref as br
from bongref import curvature, filter
from bongref.dynamics import OU, Linear
from bongref.gaussians import is_valid
from bongref.paper import equations
from bongref.routes.compare import difference

run = functools.partial(br.run, backend="reference")  # the compiled streams have tests of their own

MLP = br.models.mlp([2, 1, 2])
P = MLP.n_params
LIKS = {
    "gaussian": br.likelihoods.Gaussian(var=1.0),
    "bernoulli": br.likelihoods.Bernoulli(),
    "categorical": br.likelihoods.Categorical(),
    "poisson": br.likelihoods.Poisson(),
}
DERIVED = [n for n in br.methods() if n not in ("bong-mc-hess-dlr", "blr-mc-hess-dlr")]
SOME = [
    "bong-lin-hess-fc",
    "blr-mc-hess-fc",
    "bog-mc-ef-fc_mom",
    "bbb-lin-ef-diag",
    "blr-mc-ef-diag_mom",
    "bong-mc-ef-dlr",
    "bbb-mc-hess-dlr",
]


def make(name, **params):
    """The method with few samples and iterations, and a learning rate that keeps positive
    definiteness at the priors below.
    """
    rule, mc, _, family = name.split("-")
    small = {"alpha": 0.05 if rule == "blr" else 1e-4} if rule != "bong" else {}
    small |= {"n_iter": 2} if rule in ("blr", "bbb") else {}
    small |= {"n_samples": 2} if mc == "mc" else {}
    small |= {"rank": 2} if family == "dlr" else {}
    return br.method(name, **{**small, **params})


def belief(m, seed=0, P=P):
    rng = np.random.default_rng(seed)
    q = m.prior(0.5 * rng.standard_normal(P), np.exp(rng.uniform(-5, -3, P)))
    return q._replace(W=rng.standard_normal(q.W.shape)) if m.family == "dlr" else q


def stream(lik, T, seed=0, model=MLP, batch=None):
    rng = np.random.default_rng([seed, 99])
    shape = (T, *model.in_shape) if batch is None else (T, batch, *model.in_shape)
    X, theta = rng.standard_normal(shape), 0.7 * rng.standard_normal(model.n_params)
    return X, np.stack([lik.sample(model(theta, x), rng) for x in X])


def assert_same(got, wanted):
    """Bitwise."""
    assert type(got) is type(wanted)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def frozen(q):
    return [a.tobytes() for a in q]


# --- one update -----------------------------------------------------------------------------------


def closed_form(mu0, Sigma0, X, Y, R):
    """The posterior of y = W x + noise with covariance R, from the normal equations, and the
    largest condition number on the way.
    """
    info, rhs = np.linalg.inv(Sigma0), np.linalg.solve(Sigma0, mu0)
    for x, y in zip(X, Y, strict=True):
        H = np.kron(np.eye(len(R)), x)
        info, rhs = info + H.T @ np.linalg.solve(R, H), rhs + H.T @ np.linalg.solve(R, y)
    return (
        np.linalg.solve(info, rhs),
        np.linalg.inv(info),
        np.linalg.cond(info) * np.linalg.cond(Sigma0) * np.linalg.cond(R),
    )


@pytest.mark.eq(
    "sec:pseudocode#1",
    "sec:pseudocode#2",
    "sec:pseudocode#5",
    "sec:pseudocode#10",
    "sec:pseudocode#11",
)
@pytest.mark.parametrize(
    "name", ["bong-lin-hess-fc", "bong-mc-hess-fc", "bong-lin-hess-dlr", "blr-lin-hess-fc"]
)
def test_linear_gaussian_posterior_by_mini_batch_and_one_by_one_in_any_order(name):
    rng = np.random.default_rng(0)
    R = np.array([[0.5, 0.2], [0.2, 0.4]])
    model, lik, N, n = br.models.linear(3, 2), br.likelihoods.Gaussian(R), 7, 6
    A, mu0 = rng.standard_normal((n, n)), rng.standard_normal(n)
    Sigma0 = A @ A.T / n + np.eye(n) / 2
    prior: br.FC | br.DLR = br.FC(mu0, Sigma0)
    if "dlr" in name:  # of full rank: nothing is projected away
        W = 0.5 * A
        prior, Sigma0 = br.DLR(mu0, np.ones(n), W), np.linalg.inv(np.eye(n) + W @ W.T)
    m = br.method(
        name,
        **{"bong-lin-hess-dlr": {"rank": n}, "blr-lin-hess-fc": {"alpha": 1.0, "n_iter": 1}}.get(
            name, {}
        ),
    )
    X, Y = rng.standard_normal((N, 3)), rng.standard_normal((N, 2))
    mu, Sigma, cond = closed_form(mu0, Sigma0, X, Y, R)
    # of a quadratic the mean of the gradients is the gradient at the mean of the samples: a pair
    # around mu is enough
    given = lambda q: (
        {"samples": q.mu + np.array([[1.0], [-1.0]]) * rng.standard_normal(n)}
        if "mc" in name
        else {}
    )
    results = [br.update(m, model, lik, prior, X, Y, **given(prior))[0]]
    for order in (range(N), reversed(range(N)), rng.permutation(N)):
        q = prior
        for i in order:
            q, info = br.update(m, model, lik, q, X[i], Y[i], **given(q))
            assert info.valid and info.iteration is None
        results.append(q)
    for q in results:
        got = q.Sigma if isinstance(q, br.FC) else np.linalg.inv(np.diag(q.Ups) + q.W @ q.W.T)
        for d in (difference("mu", q.mu, mu, cond), difference("Sigma", got, Sigma, cond)):
            assert d.agrees, d


@pytest.mark.parametrize("lik", LIKS.values(), ids=LIKS.keys())
@pytest.mark.parametrize("name", SOME)
def test_a_batch_of_one_is_the_observation(name, lik):
    m, (X, Y) = make(name), stream(lik, 1)
    prior, samples = belief(m), np.random.default_rng(1).standard_normal((m.n_iter, 3, P))
    kw = {"samples": samples} if "-mc-" in name else {}
    one, batch = (
        br.update(m, MLP, lik, prior, X[0], Y[0], **kw)[0],
        br.update(m, MLP, lik, prior, X, Y, **kw)[0],
    )
    for a, b, field in zip(one, batch, one._fields, strict=True):
        if field != "W":  # the signs of singular vectors are free
            assert (d := difference(field, a, b, 10.0)).agrees, d
    if m.family == "dlr":
        assert (d := difference("W W^T", one.W @ one.W.T, batch.W @ batch.W.T, 10.0)).agrees, d


@pytest.mark.eq("sec:pseudocode#18", "sec:pseudocode#19", "sec:pseudocode#21")
@pytest.mark.parametrize("lik", LIKS.values(), ids=LIKS.keys())
def test_the_empirical_fisher_of_a_batch_is_of_the_summed_log_likelihood(lik):
    X, Y = stream(lik, 3)
    theta = 0.5 * np.random.default_rng(2).standard_normal((4, P))
    total = grad(lambda t: sum(lik.log_prob(MLP(t, x), y) for x, y in zip(X, Y, strict=True)))
    G = np.stack([total(t) for t in theta], axis=1)
    curv = curvature.mc_ef(MLP, lik, X, Y, theta)
    for d in (
        difference("g", curv.g, G.mean(axis=1), 10.0),
        difference("S S^T", curv.S @ curv.S.T, G @ G.T / 4, 10.0),
    ):
        assert d.agrees, d
    m = make("bong-mc-ef-fc")
    prior = belief(m)
    got = br.update(m, MLP, lik, prior, X, Y, samples=theta)[0]
    Sigma = np.linalg.inv(np.linalg.inv(prior.Sigma) + G @ G.T / 4)
    cond = np.linalg.cond(Sigma) * np.linalg.cond(prior.Sigma)
    for d in (
        difference("Sigma", got.Sigma, Sigma, cond),
        difference("mu", got.mu, prior.mu + Sigma @ G.mean(axis=1), cond),
    ):
        assert d.agrees, d


@pytest.mark.eq(
    "sec:pseudocode#5",
    "sec:pseudocode#10",
    "sec:pseudocode#11",
    "sec:pseudocode#12",
    "sec:pseudocode#17",
)
@pytest.mark.parametrize("name", DERIVED)
def test_an_update_is_estimators_and_steps_in_a_loop(name):
    """algo:update written out, with the samples that the generator would give; the samples come
    from q_{t,i-1}.
    """
    lik = LIKS["gaussian"]
    m, (X, Y) = make(name), stream(lik, 1)
    prior, rng, form = (
        belief(m),
        np.random.default_rng(3),
        "plain" if m.rule == "blr" and m.family in ("fc", "fc_mom") else "auto",
    )
    q, samples = prior, []
    for _ in range(m.n_iter):
        if "-mc-" in name:
            samples.append(br.sample(q, 2, rng))
        hess = {
            "mc-hess": curvature.mc_hess,
            "mc-ef": curvature.mc_ef,
            "lin-hess": curvature.lin_hess,
            "lin-ef": curvature.lin_ef,
        }[m.hess]
        kw = {"diag": True} if m.hess == "mc-hess" and m.family.startswith("diag") else {}
        q, info = br.step(
            m,
            prior,
            q,
            hess(MLP, lik, X[0], Y[0], samples[-1] if samples else q.mu, **kw),
            form=form,
        )
        assert info.valid
    kept = frozen(prior)
    assert_same(
        br.update(m, MLP, lik, prior, X[0], Y[0], rng=np.random.default_rng(3), form=form)[0], q
    )
    if samples:
        assert_same(
            br.update(m, MLP, lik, prior, X[0], Y[0], samples=np.stack(samples), form=form)[0], q
        )
        assert not np.array_equal(
            br.update(m, MLP, lik, prior, X[0], Y[0], rng=np.random.default_rng(4))[0].mu, q.mu
        )
    assert frozen(prior) == kept


@pytest.mark.parametrize("name", SOME)
def test_a_missing_observation_leaves_the_prior(name):
    m = make(name)
    prior = belief(m)
    state, info = br.update(
        m, MLP, LIKS["gaussian"], prior, np.zeros(2), None, rng=np.random.default_rng(0)
    )
    assert_same(state, prior)
    assert info.valid


@pytest.mark.parametrize("family", ["diag", "diag_mom"])
def test_hutchinson_with_given_probes_and_with_a_generator(family):
    lik = LIKS["poisson"]
    m, (X, Y) = make(f"bong-mc-hess-{family}", n_samples=2, n_probes=5), stream(lik, 1)
    prior, rng = belief(m), np.random.default_rng(5)
    theta, probes = br.sample(prior, 2, rng), rng.choice([-1.0, 1.0], size=(2, 5, P))
    drawn = br.update(m, MLP, lik, prior, X[0], Y[0], rng=np.random.default_rng(5))[0]
    assert_same(
        br.update(m, MLP, lik, prior, X[0], Y[0], samples=theta[None], probes=probes[None])[0],
        drawn,
    )
    # all 2^k sign patterns of a few coordinates average to the exact diagonal
    model = br.models.linear(3)
    signs = np.array([[a, b, 1.0] for a in (-1, 1) for b in (-1, 1)])
    q, x, y = belief(m, P=3), np.array([1.0, -2.0, 0.5]), [3.0]
    kw = {"samples": q.mu[None, None]}
    exact = br.update(make(f"bong-mc-hess-{family}"), model, lik, q, x, y, **kw)[0]
    probed = br.update(m, model, lik, q, x, y, **kw, probes=signs[None, None])[0]
    one = br.update(m, model, lik, q, x, y, **kw, probes=signs[None, None, :1])[0]
    assert (d := difference("var", probed.var, exact.var, 10.0)).agrees, d
    assert not np.allclose(one.var, exact.var)


def test_hutchinson_is_unbiased():
    lik = LIKS["poisson"]
    (X, Y), theta, rng = stream(lik, 1), np.full((1, P), 0.3), np.random.default_rng(6)
    exact = curvature.mc_hess(MLP, lik, X[0], Y[0], theta, diag=True).d
    draws = np.stack(
        [
            curvature.mc_hess(
                MLP, lik, X[0], Y[0], theta, probes=rng.choice([-1.0, 1.0], size=(1, 1, P))
            ).d
            for _ in range(100)
        ]
    )
    assert np.all(
        np.abs(draws.mean(axis=0) - exact)
        <= 6 * draws.std(axis=0) / np.sqrt(100) + 64 * np.finfo(float).eps * np.abs(exact).max()
    )


@pytest.mark.parametrize(
    "name", ["bong-lin-ef-fc", "bong-mc-ef-fc", "bong-mc-ef-dlr", "bog-lin-ef-diag"]
)
def test_virtual_observations_make_G_and_leave_g(name):
    lik = LIKS["categorical"]
    m, (X, Y) = make(name, virtual=True), stream(lik, 1)
    prior, theta, rng = (
        belief(m),
        0.5 * np.random.default_rng(7).standard_normal((1, 3, P)),
        np.random.default_rng(8),
    )
    kw = {"samples": theta} if "mc" in name else {}
    got = br.update(m, MLP, lik, prior, X[0], Y[0], rng=np.random.default_rng(8), **kw)[0]
    if "mc" in name:
        G = np.stack(
            [
                grad(lambda t, v=v: lik.log_prob(MLP(t, X[0]), lik.sample(MLP(v, X[0]), rng)))(v)
                for v in theta[0]
            ],
            axis=1,
        ) / np.sqrt(3)
        g = np.mean([grad(lambda t: lik.log_prob(MLP(t, X[0]), Y[0]))(v) for v in theta[0]], axis=0)
    else:
        y = lik.sample(MLP(prior.mu, X[0]), rng)
        G = grad(lambda t: lik.log_prob(MLP(t, X[0]), y))(prior.mu)[:, None]
        g = grad(lambda t: lik.log_prob(MLP(t, X[0]), Y[0]))(prior.mu)
    want = br.step(m, prior, None, br.Curv(g, S=G))[0]
    assert (d := difference("mu", got.mu, want.mu, 1e2)).agrees, d
    spread = lambda q: (
        q.Sigma
        if isinstance(q, br.FC)
        else q.var
        if isinstance(q, br.Diag)
        else np.diag(q.Ups) + q.W @ q.W.T
    )
    assert (d := difference("spread", spread(got), spread(want), 1e2)).agrees, d


def test_lost_positive_definiteness_is_reported_with_its_iteration():
    lik, m = LIKS["gaussian"], make("bbb-lin-hess-diag_mom", alpha=0.01, n_iter=4)
    X, Y = stream(lik, 1)
    prior = belief(m)
    state, info = br.update(m, MLP, lik, prior, X[0], Y[0])
    q, bad = prior, None
    for i in range(4):
        q, step = (
            br.step(m, prior, q, curvature.lin_hess(MLP, lik, X[0], Y[0], q.mu))
            if bad is None
            else (q, None)
        )
        if bad is None and not step.valid:
            bad = i + 1
    assert bad is not None and (info.valid, info.iteration) == (False, bad)
    state, info = br.update(
        make("bog-mc-hess-diag_mom", alpha=50.0),
        MLP,
        lik,
        prior,
        X[0],
        Y[0],
        rng=np.random.default_rng(0),
    )
    assert not info.valid and info.iteration == 1 and not is_valid(state)


def test_iterations_stop_where_there_is_nothing_to_linearise_at():
    """A mean that overflows in the first of four iterations: reported, not raised, and no estimate
    is asked for at it.
    """
    asked = []

    def jac(theta, x):
        asked.append(theta)
        return np.full((1, 1), 1e20)

    model = br.models.wrap(lambda t, x: 0 * t, 1, 1, jac=jac)
    prior, m = (
        br.Diag(np.zeros(1), np.ones(1)),
        br.method("bbb-lin-hess-diag_mom", alpha=1e300, n_iter=4),
    )
    state, info = br.update(m, model, br.likelihoods.Gaussian(1.0), prior, [1.0], 1.0)
    assert (info.valid, info.iteration, info.reason) == (False, 1, "not finite") and np.isinf(
        state.mu
    )
    assert all(np.all(np.isfinite(theta)) for theta in asked)


def test_overflow_in_the_model_is_an_error_that_says_so():
    m = br.method("bong-lin-hess-diag")
    model = br.models.wrap(lambda t, x: anp.exp(t * x), 1, 1)
    with (
        np.errstate(all="ignore"),
        pytest.raises((FloatingPointError, ValueError), match=r"finite|inf"),
    ):
        br.update(
            m, model, br.likelihoods.Gaussian(1.0), br.Diag(np.ones(1), np.ones(1)), [1000.0], 1.0
        )


# --- traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DERIVED)
def test_a_trace_names_the_symbols_of_the_result(name):
    lik = LIKS["categorical"]
    m, (X, Y) = make(name), stream(lik, 1)
    prior = belief(m)
    plain, _ = br.update(m, MLP, lik, prior, X[0], Y[0], rng=np.random.default_rng(0))
    state, info = br.update(
        m, MLP, lik, prior, X[0], Y[0], rng=np.random.default_rng(0), trace=True
    )
    assert_same(state, plain)
    last = {s.name: s for s in info.trace}
    for field, value in state._asdict().items():
        np.testing.assert_array_equal(last[field].value, value, err_msg=field)
        assert last[field].i == m.n_iter
    assert "g" in last and last["g"].equation
    table, own = equations(), set(m.equations)
    for s in info.trace:
        assert s.equation in table
        assert s.equation in own or not table[s.equation].methods, (s.name, s.equation)
        assert 0 <= s.i <= m.n_iter and "." in s.where
    assert {s.i for s in info.trace if s.name == "mu"} == set(range(1, m.n_iter + 1))


def test_traced_values_are_those_of_the_estimator():
    lik = LIKS["categorical"]
    m, (X, Y) = make("blr-lin-hess-fc"), stream(lik, 1)
    prior = belief(m)
    info = br.update(m, MLP, lik, prior, X[0], Y[0], trace=True)[1]
    first = {s.name: s.value for s in reversed(info.trace) if s.i == 1}
    H = np.stack([grad(lambda t, k=k: lik.mean(MLP(t, X[0]))[k])(prior.mu) for k in range(2)])
    for d in (
        difference("H", first["H"], H, 10.0),
        difference("yhat", first["yhat"], lik.mean(MLP(prior.mu, X[0])), 10.0),
    ):
        assert d.agrees, d
    assert (
        d := difference(
            "g", first["g"], grad(lambda t: lik.log_prob(MLP(t, X[0]), Y[0]))(prior.mu), 10.0
        )
    ).agrees, d


def traced(x=1.0, model=None):
    """The names that are traced in one update of a scalar parameter."""
    model = br.models.linear(1) if model is None else model
    prior = br.Diag(np.zeros(1), np.ones(1))
    info = br.update("bong-lin-ef-diag", model, LIKS["gaussian"], prior, [x], 1.0, trace=True)[1]
    return [s.name for s in info.trace]


@pytest.mark.parametrize("tool", ["cProfile", "setprofile", "settrace"])
def test_a_trace_is_the_same_under_a_profiler_and_a_debugger(tool):
    """They see the update, and go on afterwards."""
    wanted, called = traced(), []
    if tool == "cProfile":
        profile = cProfile.Profile()
        with profile:
            found = traced()
            divmod(7, 2)
        called = [str(entry.code) for entry in profile.getstats()]
        assert any("divmod" in name for name in called)
        assert any("unchecked_update" in name for name in called)
    else:
        old, use = getattr(sys, tool.replace("set", "get"))(), getattr(sys, tool)
        hook = lambda frame, event, arg: called.append(frame.f_code.co_name)
        use(hook)
        try:
            found = traced()
            kept = getattr(sys, tool.replace("set", "get"))()
        finally:
            use(old)
        assert kept is hook and "unchecked_update" in called
    assert found == wanted and "mu" in wanted


def test_functions_have_their_own_code_after_a_trace_and_after_an_error():
    def broken(t, x):
        raise RuntimeError("stop here")

    before = filter.estimate.__code__
    traced()
    assert filter.estimate.__code__ is before
    with pytest.raises(RuntimeError, match="stop here"):
        traced(model=br.models.wrap(broken, 1, 1))
    assert filter.estimate.__code__ is before


def test_a_trace_has_the_symbols_of_its_own_thread():
    """Updates without a trace in another thread leave nothing in it."""
    wanted, stop = traced(), threading.Event()
    prior = br.Diag(np.zeros(1), np.ones(1))

    def update_until_stopped():
        while not stop.is_set():
            br.update(
                "bong-lin-hess-diag", br.models.linear(1), LIKS["gaussian"], prior, [1.0], 1.0
            )

    other = threading.Thread(target=update_until_stopped)
    other.start()
    try:
        assert all(traced() == wanted for _ in range(20))
    finally:
        stop.set()
        other.join()


def test_a_traced_stream_is_the_same_stream():
    lik = LIKS["bernoulli"]
    m, (X, Y) = make("blr-mc-ef-dlr"), stream(lik, 3)
    a = run(m, MLP, lik, belief(m), X, Y, rng=np.random.default_rng(0))
    b = run(m, MLP, lik, belief(m), X, Y, rng=np.random.default_rng(0), trace=True)
    assert_same(a.state, b.state)
    assert len(b.info.traces) == 3 and a.info.traces == []
    np.testing.assert_array_equal({s.name: s for s in b.info.traces[-1]}["mu"].value, b.state.mu)


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.eq("sec:pseudocode#1", "sec:pseudocode#2")
@pytest.mark.parametrize("name", DERIVED)
def test_a_run_is_predict_and_update_in_a_loop(name):
    lik = LIKS["gaussian"]
    m, (X, Y) = make(name), stream(lik, 3)
    Y = [Y[0], None, Y[2]]
    prior, dynamics = belief(m), OU(0.95, 0.1, 0.02)
    kept = frozen(prior)
    q, rng = prior, np.random.default_rng(11)
    for x, y in zip(X, Y, strict=True):
        q = br.predict(q, dynamics)
        q, info = br.update(m, MLP, lik, q, x, y, rng=rng)
        assert info.valid
    mine = np.random.default_rng(11)
    res = run(m, MLP, lik, prior, X, Y, rng=mine, dynamics=dynamics)
    assert_same(res.state, q)
    assert res.rows == [] and res.t == 3 and res.info.missing == 1 and res.info.steps == 3
    assert mine.bit_generator.state == rng.bit_generator.state
    assert frozen(prior) == kept


def test_samples_of_a_stream_are_given_step_by_step():
    lik = LIKS["poisson"]
    m, (X, Y) = make("blr-mc-ef-diag"), stream(lik, 3)
    samples = 0.3 * np.random.default_rng(0).standard_normal((3, 2, 4, P))
    q = prior = belief(m)
    for t in range(3):
        q, _ = br.update(m, MLP, lik, q, X[t], Y[t], samples=samples[t])
    assert_same(run(m, MLP, lik, prior, X, Y, samples=samples).state, q)


def test_static_dynamics_are_the_default_and_dynamics_act_on_missing_steps():
    lik, m = LIKS["gaussian"], make("bong-lin-hess-dlr")
    (X, Y), prior = stream(lik, 3), belief(m)
    assert_same(
        run(m, MLP, lik, prior, X, Y).state,
        run(m, MLP, lik, prior, X, Y, dynamics=br.dynamics.Static()).state,
    )
    dynamics = Linear(0.5, 0.0, 1.0)
    res = run(m, MLP, lik, prior, X, [None] * 3, dynamics=dynamics)
    q = prior
    for _ in range(3):
        q = br.predict(q, dynamics)
    assert_same(res.state, q)
    assert res.info.missing == 3


@pytest.mark.parametrize("name", ["bong-lin-hess-fc", "bong-mc-ef-dlr", "blr-mc-ef-diag"])
def test_a_stream_of_mini_batches(name):
    lik = LIKS["categorical"]
    m, (X, Y) = make(name), stream(lik, 3, batch=4)
    assert X.shape == (3, 4, 2) and Y.shape == (3, 4, 2)
    q, rng = belief(m), np.random.default_rng(0)
    for x, y in zip(X, Y, strict=True):
        q, _ = br.update(m, MLP, lik, q, x, y, rng=rng)
    labels = Y.argmax(axis=2)
    for given in (Y, labels, list(labels)):
        assert_same(run(m, MLP, lik, belief(m), X, given, rng=np.random.default_rng(0)).state, q)


class Watch:
    """A metric that keeps what it is given."""

    def __init__(self):
        self.states, self.numbers = [], []

    def __call__(self, m, model, lik, state, rng):
        self.states.append(state)
        self.numbers.append(rng.random())
        return {"seen": len(self.states)}


@pytest.mark.parametrize(
    ("every", "steps"),
    [(1, [1, 2, 3, 4, 5, 6, 7]), (2, [2, 4, 6, 7]), (7, [7]), (100, [7]), (None, [7])],
)
def test_rows_every_so_many_steps_and_at_the_end(every, steps):
    lik, m = LIKS["gaussian"], make("bong-mc-ef-diag")
    (X, Y), prior, watch = stream(lik, 7), belief(m), Watch()
    res = run(m, MLP, lik, prior, X, Y, rng=np.random.default_rng(0), every=every, metrics=watch)
    assert [row["t"] for row in res.rows] == steps
    assert [row["seen"] for row in res.rows] == list(range(1, len(steps) + 1))
    q, rng = prior, np.random.default_rng(0)
    after = {}
    for t in range(7):
        q, _ = br.update(m, MLP, lik, q, X[t], Y[t], rng=rng)
        after[t + 1] = q
    for t, seen in zip(steps, watch.states, strict=True):
        assert_same(seen, after[t])


@pytest.mark.parametrize(
    "name", ["bong-mc-hess-diag", "blr-mc-ef-fc", "bbb-mc-ef-dlr", "bong-lin-hess-fc"]
)
def test_measuring_does_not_change_the_run(name):
    lik = LIKS["categorical"]
    m, (X, Y) = make(name), stream(lik, 6)
    metrics = [
        br.metrics.on(X, Y, "nlpd-mc", "nlpd-lin_mc", "error", "ece-mc", n_samples=5),
        br.metrics.prequential("mc", n_samples=3),
        br.metrics.kl_to(belief(m, 5)),
        Watch(),
    ]
    bare = run(m, MLP, lik, belief(m), X, Y, rng=np.random.default_rng(0))
    measured = run(
        m, MLP, lik, belief(m), X, Y, rng=np.random.default_rng(0), every=1, metrics=metrics
    )
    assert_same(bare.state, measured.state)
    again = run(
        m,
        MLP,
        lik,
        belief(m),
        X,
        Y,
        rng=np.random.default_rng(0),
        every=1,
        metrics=[*metrics[:3], Watch()],
    )
    assert measured.rows == again.rows


def test_evaluation_draws_other_numbers_than_the_updates():
    lik, m, seen = LIKS["gaussian"], make("bong-mc-ef-diag"), []

    class Spy(np.random.Generator):
        def random(self, *args, **kwargs):
            out = super().random(*args, **kwargs)
            seen.append(np.ravel(out))
            return out

    evaluated = []

    def metric(m, model, lik, state, rng):
        evaluated.append(rng.random(200))
        return {}

    (X, Y), seed = stream(lik, 3), np.random.SeedSequence(5)
    run(m, MLP, lik, belief(m), X, Y, rng=Spy(np.random.PCG64(seed)), every=1, metrics=metric)
    assert len(seen) == 3 and len(evaluated) == 3
    assert not set(np.concatenate(seen)) & set(np.concatenate(evaluated))
    assert len(set(np.concatenate(evaluated))) == 600  # nor the same again at the next row


@pytest.mark.parametrize("kind", ["plugin", "lin_mc"])
def test_the_prequential_score_is_of_the_prior_before_the_update(kind):
    lik, m = LIKS["gaussian"], make("bong-lin-hess-fc")
    (X, Y), dynamics = stream(lik, 5), OU(0.9)
    Y = [*Y[:3], None, Y[4]]
    res = run(
        m,
        MLP,
        lik,
        belief(m),
        X,
        Y,
        dynamics=dynamics,
        every=2,
        metrics=br.metrics.prequential(kind, n_samples=4),
    )
    # without samples of the updates the metrics' generator is one that anybody can make
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0xE7A1,)))
    q, scores = belief(m), []
    for x, y in zip(X, Y, strict=True):
        q = br.predict(q, dynamics)
        if y is not None:
            pred = br.predictive.predict(kind, MLP, lik, q, x[None], n_samples=4, rng=rng)
            scores.append(-pred.log_density(y[None])[0])
        q, _ = br.update(m, MLP, lik, q, x, y)
    want = [np.mean(scores[:2]), scores[2], scores[3]]
    assert [row["t"] for row in res.rows] == [2, 4, 5]
    for row, w in zip(res.rows, want, strict=True):
        assert (d := difference("prequential", row[f"prequential-{kind}"], w, 10.0)).agrees, d


# --- losing positive definiteness -----------------------------------------------------------------


def test_a_run_that_loses_positive_definiteness():
    lik, m = LIKS["gaussian"], br.method("bog-lin-hess-diag_mom", alpha=0.002)
    X, Y = stream(lik, 50, seed=1)
    prior, q = belief(m), belief(m)
    for bad in range(50):
        new, info = br.update(m, MLP, lik, q, X[bad], Y[bad])
        if not info.valid:
            break
        q = new
    assert 2 <= bad < 49  # good steps before, and steps that were not reached
    with pytest.raises(
        br.NotPositiveDefinite,
        match=f"bog-lin-hess-diag_mom: step {bad + 1}: the update gave a state that is not "
        f"positive definite",
    ) as caught:
        run(m, MLP, lik, prior, X, Y, every=1, metrics=br.metrics.on(X, Y, "rmse"))
    error = caught.value
    assert error.step == bad + 1
    assert_same(error.state, q)
    stopped = run(
        m, MLP, lik, prior, X[:bad], Y[:bad], every=1, metrics=br.metrics.on(X, Y, "rmse")
    )
    assert_same(error.state, stopped.state)
    assert error.rows == stopped.rows and len(error.rows) == bad
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.step, copy.rows, str(copy)) == (error.step, error.rows, str(error))


def test_huge_alpha_loses_it_at_once():
    lik, m = LIKS["gaussian"], br.method("bog-lin-hess-diag_mom", alpha=1e6)
    X, Y = stream(lik, 3)
    prior = belief(m)
    with pytest.raises(br.NotPositiveDefinite) as caught:
        run(m, MLP, lik, prior, X, Y)
    assert caught.value.step == 1 and caught.value.rows == []
    assert_same(caught.value.state, prior)


def test_overflow_in_a_stream_names_the_step():
    model = br.models.wrap(lambda t, x: anp.exp(t * x), 1, 1)
    prior, X = br.Diag(np.ones(1), np.full(1, 1e-9)), np.array([[0.1], [0.2], [1000.0]])
    with np.errstate(all="ignore"), pytest.raises((FloatingPointError, ValueError)) as caught:
        run("bong-lin-hess-diag", model, br.likelihoods.Gaussian(1.0), prior, X, np.ones(3))
    assert "step 3" in str(caught.value)


# --- interruptions --------------------------------------------------------------------------------


class Stop:
    """Raises KeyboardInterrupt at its nth call, once."""

    def __init__(self, n):
        self.n, self.calls = n, 0

    def __call__(self):
        self.calls += 1
        if self.calls == self.n:
            raise KeyboardInterrupt


def interrupting_metric(stop):
    def metric(m, model, lik, state, rng):
        value = rng.random()  # numbers are drawn before the interruption
        stop()
        return {"draw": value}

    return metric


def info(result):
    """What a run says of itself, but for the method and the time it took."""
    return dataclasses.replace(
        result.info, seconds=0.0, evaluation=0.0, compilation=0.0
    ), result.continuation


def resumed(m, model, lik, X, Y, **kw):
    """Run, and go on after each interruption."""
    result, stops, prior = None, 0, belief(m, P=model.n_params)
    rng = np.random.default_rng(21)
    while True:
        try:
            return run(m, model, lik, prior, X, Y, rng=rng, resume=result, **kw), stops
        except br.Interrupted as error:
            result, stops = pickle.loads(pickle.dumps(error)).result, stops + 1
            assert f"stopped after step {result.t}" in str(error)
            rng = np.random.default_rng(777)  # another generator: its state comes with the result


@pytest.mark.parametrize(
    "name", ["bog-mc-hess-fc_mom", "blr-mc-ef-diag", "bbb-mc-ef-dlr", "bong-lin-hess-dlr"]
)
@pytest.mark.parametrize("at", [1, 3, 5])
def test_interrupted_in_a_metric_and_resumed(name, at):
    lik = LIKS["categorical"]
    m, (X, Y) = make(name), stream(lik, 6)
    Y = [*Y[:2], None, *Y[3:]]
    metrics = lambda stop: [
        br.metrics.prequential("mc", 3),
        br.metrics.on(X, Y[0][None].repeat(6, 0), "nlpd-mc", n_samples=3),
        interrupting_metric(stop),
    ]
    for every in (1, 4):
        whole = run(
            m,
            MLP,
            lik,
            belief(m),
            X,
            Y,
            rng=np.random.default_rng(21),
            dynamics=OU(0.9),
            every=every,
            metrics=metrics(Stop(0)),
        )
        res, stops = resumed(
            m, MLP, lik, X, Y, dynamics=OU(0.9), every=every, metrics=metrics(Stop(at))
        )
        assert stops == (1 if every == 1 or at == 1 else 0)
        assert_same(res.state, whole.state)
        assert res.rows == whole.rows and res.t == 6
        assert info(res) == info(whole)


@pytest.mark.parametrize("name", ["bong-mc-ef-fc", "blr-mc-ef-diag", "bong-lin-hess-fc"])
def test_interrupted_in_the_model_and_resumed(name):
    """Anywhere in an update, also after the prequential score of the step has been taken."""
    lik, state = LIKS["gaussian"], {"stop": Stop(0)}

    def f(t, x):
        state["stop"]()
        return anp.tanh(t[:2] * x) + t[2:]

    model = br.models.wrap(f, 4, 2, in_shape=(2,))
    m, (X, Y) = make(name), stream(lik, 5, model=MLP)
    metrics = [br.metrics.prequential("mc", n_samples=3), Watch()]
    whole = run(
        m,
        model,
        lik,
        belief(m, P=4),
        X,
        Y,
        rng=np.random.default_rng(21),
        every=3,
        metrics=metrics[0],
    )
    total, interrupted = state["stop"].calls, 0
    for at in range(1, total + 1, 3):
        state["stop"] = Stop(at)
        try:
            res, stops = resumed(m, model, lik, X, Y, every=3, metrics=metrics[0])
        except KeyboardInterrupt:
            continue  # before the first step, where there is nothing to resume
        interrupted += stops
        assert_same(res.state, whole.state)
        assert res.rows == whole.rows
    assert interrupted >= 5


def test_interrupted_is_a_keyboard_interrupt_with_what_was_done():
    lik, m = LIKS["gaussian"], make("bong-lin-hess-fc")
    X, Y = stream(lik, 5)
    with pytest.raises(KeyboardInterrupt) as caught:
        run(m, MLP, lik, belief(m), X, Y, every=1, metrics=interrupting_metric(Stop(3)))
    assert isinstance(caught.value, br.Interrupted)
    res = caught.value.result
    assert res.t == 3 and len(res.rows) == 2
    assert_same(res.state, run(m, MLP, lik, belief(m), X[:3], Y[:3]).state)


def test_resume_refuses_what_is_not_a_result_of_this_run():
    lik, m = LIKS["gaussian"], make("bong-lin-hess-fc")
    X, Y = stream(lik, 3)
    done = run(m, MLP, lik, belief(m), X, Y)
    with pytest.raises(
        TypeError, match=r"resume must be a Result of bongref\.run or load, got str 'yes'"
    ):
        run(m, MLP, lik, belief(m), X, Y, resume="yes")
    for resume, method, n in [(done, m, 2), (done, make("bong-lin-ef-fc"), 3)]:
        with pytest.raises(ValueError, match=r"resume must be a Result of method\('bong"):
            run(method, MLP, lik, belief(method), X[:n], Y[:n], resume=resume)
    assert_same(run(m, MLP, lik, belief(m), X, Y, resume=done).state, done.state)


# --- the bar, the backend, standard output --------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("progress", "terminal", "shown"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
def test_the_bar_is_shown_on_a_terminal_or_when_asked_for(monkeypatch, progress, terminal, shown):
    lik, m, err = (
        LIKS["gaussian"],
        make("bong-lin-ef-diag"),
        Terminal() if terminal else io.StringIO(),
    )
    X, Y = stream(lik, 5)
    monkeypatch.setattr(sys, "stderr", err)
    odd = lambda *a: {"words": "good", "array": np.ones(3), "number": 1.25}
    run(m, MLP, lik, belief(m), X, Y, progress=progress, every=1, metrics=odd)
    text = err.getvalue()
    assert (
        (
            "5/5" in text
            and "bong-lin-ef-diag" in text
            and "number=1.25" in text
            and text.endswith("\n")
        )
        if shown
        else text == ""
    )


def test_nothing_is_written_to_standard_output(capfd):
    lik, m = LIKS["gaussian"], make("bong-mc-ef-dlr")
    X, Y = stream(lik, 3)
    run(
        m,
        MLP,
        lik,
        belief(m),
        X,
        Y,
        rng=np.random.default_rng(0),
        every=1,
        metrics=br.metrics.on(X, Y, "nlpd-mc"),
        progress=True,
    )
    out, err = capfd.readouterr()
    assert out == "" and "3/3" in err
    run(m, MLP, lik, belief(m), X, Y, rng=np.random.default_rng(0))
    assert capfd.readouterr() == ("", "")


def test_backends():
    lik, m = LIKS["gaussian"], make("bong-lin-hess-diag")
    X, Y = stream(lik, 2)
    for backend, used in (("auto", "fast"), ("fast", "fast"), ("reference", "reference")):
        assert br.run(m, MLP, lik, belief(m), X, Y, backend=backend).info.backend == used
    with pytest.raises(
        ValueError, match="backend must be 'auto', 'reference' or 'fast', got 'gpu'"
    ):
        br.run(m, MLP, lik, belief(m), X, Y, backend="gpu")


@pytest.mark.parametrize(
    ("kw", "error", "match"),
    [
        ({"every": 0}, ValueError, "every must be an integer >= 1, got 0"),
        ({"every": -3}, ValueError, "every must be an integer >= 1, got -3"),
        ({"every": 1.5}, TypeError, "every must be an integer >= 1, got 1.5"),
        ({"every": True}, TypeError, "every must be an integer >= 1, got True"),
        (
            {"metrics": "nlpd"},
            TypeError,
            r"metrics must be made by bongref\.metrics\.on\(...\) or be callable, got 'nlpd'",
        ),
        ({"form": "fast"}, ValueError, "form must be 'auto', 'plain' or 'efficient', got 'fast'"),
        ({"dynamics": "static"}, TypeError, "dynamics must be"),
        (
            {"metrics": br.metrics.on(np.zeros((2, 3)), np.zeros((2, 2)), "rmse")},
            ValueError,
            r"X must have shape \(2,\).*got \(2, 3\)",
        ),
        (
            {"metrics": br.metrics.on(np.zeros((2, 2)), np.zeros((2, 3)), "rmse")},
            ValueError,
            r"Y must have shape \(2, 2\), got \(2, 3\)",
        ),
        (
            {"metrics": br.metrics.on(np.zeros((2, 2)), np.zeros((2, 2)), "error")},
            ValueError,
            "the likelihood must be Categorical",
        ),
        (
            {"metrics": br.metrics.kl_to(br.Diag(np.zeros(2), np.ones(2)))},
            ValueError,
            f"exact must have {P} parameters, got 2",
        ),
    ],
)
def test_bad_options_are_refused_before_the_first_step(kw, error, match):
    calls = []
    lik, m = LIKS["gaussian"], make("bong-lin-hess-diag")
    (X, Y), prior = stream(lik, 2), belief(m)
    watch = lambda *a: calls.append(a) or {}
    with pytest.raises(error, match=match):
        run(m, MLP, lik, prior, X, Y, **{"metrics": watch, "every": 1, **kw})
    assert not calls


def test_forms_agree_and_are_named():
    lik, m = LIKS["categorical"], make("bong-lin-hess-fc")
    X, Y = stream(lik, 1)
    prior = belief(m)
    plain, info = br.update(m, MLP, lik, prior, X[0], Y[0], form="plain")
    assert info.form == "fc_nat.bong"
    efficient, info = br.update(m, MLP, lik, prior, X[0], Y[0], form="efficient")
    assert info.form == "fc_nat.bong_woodbury"
    cond = np.linalg.cond(prior.Sigma) * np.linalg.cond(plain.Sigma)
    for a, b, field in zip(plain, efficient, plain._fields, strict=True):
        assert (d := difference(field, a, b, cond)).agrees, d
    with pytest.raises(ValueError, match="form='efficient': bbb-lin-ef-fc has no efficient form"):
        br.update("bbb-lin-ef-fc", MLP, lik, prior, X[0], Y[0], form="efficient")


# --- checkpoints ----------------------------------------------------------------------------------


class Killed(BaseException):
    """What ends a process: run does not catch it."""


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox])
@pytest.mark.parametrize("name", ["bong-mc-ef-dlr", "blr-lin-hess-fc", "bbb-mc-hess-diag"])
def test_a_killed_run_goes_on_from_its_checkpoint(name, bits, tmp_path):
    """A run that dies between two checkpoints goes on in a new process, here a new generator, to
    the same end bit by bit.
    """
    lik = LIKS["gaussian"]
    m, (X, Y) = make(name), stream(lik, 7)
    prior, path = belief(m), tmp_path / "run.npz"
    metrics = [br.metrics.on(X, Y, "nlpd-mc", n_samples=3), br.metrics.prequential()]
    whole = run(
        m, MLP, lik, prior, X, Y, rng=np.random.Generator(bits(5)), every=2, metrics=metrics
    )
    seen = []

    def die(*_):
        seen.append(1)
        if len(seen) == 3:
            raise Killed
        return {}

    with pytest.raises(Killed):
        run(
            m,
            MLP,
            lik,
            prior,
            X,
            Y,
            rng=np.random.Generator(bits(5)),
            every=2,
            metrics=[*metrics, die],
            checkpoint=path,
        )
    saved = br.load(path)
    assert saved.t == 4 and saved.rows == whole.rows[:2]
    on = run(
        m,
        MLP,
        lik,
        prior,
        X,
        Y,
        rng=np.random.Generator(bits(5)),
        every=2,
        metrics=metrics,
        resume=saved,
        checkpoint=path,
    )
    assert_same(on.state, whole.state)
    assert on.rows == whole.rows
    assert br.load(path).t == 7 and list(tmp_path.iterdir()) == [path]


def test_checkpoint_refusals(tmp_path):
    lik = LIKS["gaussian"]
    m, (X, Y) = make("bong-lin-hess-diag"), stream(lik, 2)
    for path, message in (
        (tmp_path / "run.txt", "end in .npz"),
        (tmp_path / "none" / "run.npz", "lie in a folder that exists"),
    ):
        with pytest.raises(ValueError, match=f"checkpoint must {message}, got"):
            run(m, MLP, lik, belief(m), X, Y, checkpoint=path)
    other = tmp_path / "other.npz"
    np.savez(other, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"path must be a file that bongref\.save wrote, got"):
        br.load(other)

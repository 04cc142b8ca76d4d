"""Whole streams, compiled and by the reference: the same beliefs for the same seed, the same
refusals, the same rows.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import DERIVED

import bongref as br
from bongref.dynamics import OU, Linear, Static
from bongref.fast import stream
from bongref.routes import compare

COMPILED = [name for name in DERIVED if "mc-hess" not in name]
LIKELIHOODS = ("gaussian", "gaussian-full", "bernoulli", "categorical", "poisson")
DYNAMICS = ("static", "ou", "diagonal", "full")


class Case(NamedTuple):
    m: br.Method
    model: Any
    lik: Any
    prior: Any
    X: Any
    Y: list
    dynamics: Any


def observations(kind: str, C: int, T: int, rng):
    """A likelihood and T observations of it."""
    if kind.startswith("gaussian"):
        A = rng.standard_normal((C, C))
        var = 0.5 if kind == "gaussian" else A @ A.T + np.eye(C)
        return br.likelihoods.Gaussian(var=(var + np.transpose(var)) / 2), rng.standard_normal(
            (T, C)
        )
    if kind == "bernoulli":
        return br.likelihoods.Bernoulli(), rng.integers(0, 2, (T, C)).astype(float)
    if kind == "categorical":
        return br.likelihoods.Categorical(), np.eye(C)[rng.integers(0, C, T)]
    return br.likelihoods.Poisson(), rng.integers(0, 4, (T, C)).astype(float)


def network(kind: str, C: int, activation: str):
    if kind == "linear":
        return br.models.linear(3, C, bias=True)
    if kind == "deep":
        return br.models.cnn(
            (6, 7, 1), n_classes=C, features=(3, 2), kernel=(3, 2), hidden=2, activation=activation
        )
    if kind == "cnn":
        return br.models.cnn(
            (5, 4, 2), n_classes=C, features=(2,), kernel=(3, 2), hidden=2, activation=activation
        )
    return br.models.mlp([2, 3, C], activation=activation)


def method(name: str):
    rule, _, _, family = name.split("-")
    params: dict[str, Any] = {} if rule == "bong" else {"alpha": 0.2 if rule == "blr" else 1e-3}
    if rule in ("blr", "bbb"):
        params["n_iter"] = 3
    if "-mc-" in name:
        params["n_samples"] = 4
    if family == "dlr":
        params["rank"] = 2
    return br.method(name, **params)


def moving(kind: str, family: str, P: int, rng):
    if kind == "ou":
        return OU(0.95, 0.1 * rng.standard_normal(P), 0.05)
    if kind == "static" or (kind == "full" and not family.startswith("fc")):
        return Static()
    diagonal = Linear(
        rng.uniform(0.9, 1.0, P), 0.1 * rng.standard_normal(P), rng.uniform(0, 1e-3, P)
    )
    if kind == "diagonal":
        return diagonal
    A = rng.standard_normal((P, P)) / P
    return Linear(0.9 * np.eye(P) + 0.1 * A, diagonal.b, 1e-3 * A @ A.T)


def case(name, model_kind, lik_kind, dynamics, seed, T=6, activation="gelu") -> Case:
    rng = np.random.default_rng(seed)
    C = int(rng.integers(2, 4)) if lik_kind == "categorical" else int(rng.integers(1, 4))
    if name.endswith("-dlr"):
        C = min(
            C,
            2,
            # three outputs of a linear model have three equal singular values, of which rank 2
            # keeps any two
        )
    model, m = network(model_kind, C, activation), method(name)
    lik, Y = observations(lik_kind, C, T, rng)
    X = rng.standard_normal((T, *model.in_shape))
    prior = m.prior(
        mu=0.5 * rng.standard_normal(model.n_params), var=rng.uniform(0.01, 0.05, model.n_params)
    )
    observed: list = list(Y)
    observed[int(rng.integers(1, T))] = None
    return Case(m, model, lik, prior, X, observed, moving(dynamics, m.family, model.n_params, rng))


def run(c: Case, backend: str, seed: int = 3, **kw):
    mc = "-mc-" in c.m.name
    rng = np.random.default_rng(seed) if mc and "samples" not in kw else None
    return br.run(
        c.m,
        c.model,
        c.lik,
        c.prior,
        c.X,
        c.Y,
        dynamics=c.dynamics,
        rng=rng,
        backend=backend,
        progress=False,
        **kw,
    )


def outcome(c: Case, backend: str, **kw):
    """The last state and the step at which positive definiteness was lost, if it was."""
    try:
        return run(c, backend, **kw).state, None
    except br.StreamEnded as error:
        return error.state, error.step


def assert_agree(c: Case, **kw):
    """The compiled stream is the reference at 64 · cond · eps, cond measured on the whole stream
    by changing the prior and every x.
    """
    wanted, stopped = outcome(c, "reference", **kw)
    got, stopped_too = outcome(c, "fast", **kw)
    moved = lambda prior, X: outcome(c._replace(prior=prior, X=X), "reference", **kw)
    rng = np.random.default_rng(0)
    if any(
        moved(compare.perturb(c.prior, rng), compare.perturb(c.X, rng))[1] != stopped
        for _ in range(2)
    ):
        return  # a stream that the smallest change makes stop elsewhere has no outcome to compare
    assert stopped_too == stopped
    cond = compare.condition(lambda prior, X: moved(prior, X)[0], c.prior, c.X)
    for d in compare.differences(got, wanted, cond, whole=True):
        assert d.agrees, (
            f"{c.m.name}, {c.model.kind}, {c.lik.name}, {type(c.dynamics).__name__}: {d}"
        )


@pytest.mark.parametrize("name", COMPILED)
@settings(max_examples=6)
@given(
    model=st.sampled_from(["linear", "mlp"]),
    lik=st.sampled_from(LIKELIHOODS),
    dynamics=st.sampled_from(DYNAMICS),
    activation=st.sampled_from(["tanh", "relu", "gelu", "gelu_tanh"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_name_gives_the_reference_stream(name, model, lik, dynamics, activation, seed):
    assert_agree(case(name, model, lik, dynamics, seed, activation=activation))


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in COMPILED
        if n.split("-")[-1] in ("diag", "fc_mom", "dlr") and n.split("-")[0] in ("bong", "bbb")
    ],
)
@pytest.mark.parametrize("kind", ["cnn", "deep"])  # one convolution, two of them
@settings(max_examples=1)
@given(lik=st.sampled_from(LIKELIHOODS), seed=st.integers(0, 2**32 - 1))
def test_streams_of_images(kind, name, lik, seed):
    assert_agree(case(name, kind, lik, "static", seed, T=4, activation="tanh"))


@pytest.mark.parametrize("name", ["blr-mc-ef-diag", "bong-mc-ef-dlr", "bong-mc-ef-fc"])
def test_given_samples(name):
    c = case(name, "mlp", "poisson", "ou", 5)
    samples = c.prior.mu + 0.1 * np.random.default_rng(0).standard_normal(
        (6, c.m.n_iter, 4, len(c.prior.mu))
    )
    assert_agree(c, samples=samples)


@pytest.mark.parametrize("name", [n for n in COMPILED if "mc-ef-fc" in n])
@pytest.mark.parametrize("dynamics", ["static", "ou"])
def test_many_samples_of_a_full_covariance(name, dynamics):
    """More samples than parameters: the factor that a step ends with is the one that the next
    draws from.
    """
    c = case(name, "mlp", "gaussian", dynamics, 4, T=5)
    assert_agree(c._replace(m=br.method(name, **{**c.m.params, "n_samples": 40})))


@pytest.mark.parametrize("family", ["diag", "dlr", "fc"])
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef", "mc-ef"])
def test_a_model_of_the_users_gets_the_compiled_step(family, hess):
    f = lambda theta, x: anp.stack(
        [anp.sin(theta[0] * x[0]) + theta[1], theta[2] * x[1] ** 2 + theta[0]]
    )
    c = case(f"blr-{hess}-{family}", "mlp", "gaussian", "static", 3)
    rng = np.random.default_rng(1)
    c = c._replace(
        model=br.models.wrap(f, 3, 2),
        prior=c.m.prior(mu=rng.standard_normal(3), var=0.1),
        lik=br.likelihoods.Gaussian(var=0.3),
    )
    c = c._replace(Y=list(rng.standard_normal((6, 2))), X=rng.standard_normal((6, 2)))
    assert_agree(c)
    assert run(c, "auto").info.backend == "fast"


@pytest.mark.parametrize("name", ["bong-lin-hess-diag", "bong-mc-ef-dlr", "bog-lin-ef-fc"])
def test_mini_batches(name):
    c, rng = case(name, "mlp", "gaussian", "static", 3), np.random.default_rng(2)
    C = c.model.n_outputs
    sizes = (2, 3, 1)
    prior, m = c.prior, c.m
    X, Y = (
        [rng.standard_normal((n, 2)) for n in sizes],
        [rng.standard_normal((n, C)) for n in sizes],
    )
    states = [
        br.run(m, c.model, c.lik, prior, X, Y, rng=np.random.default_rng(0), backend=b).state
        for b in ("reference", "fast")
    ]
    for d in compare.differences(
        states[1], states[0], dict.fromkeys(compare.invariants(states[0]), 1e3), whole=True
    ):
        assert d.agrees, d


# --- what is refused, and by whom -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kw", "reason"),
    [
        ("bong-mc-hess-diag", {}, "bong-mc-hess-diag needs the Hessian of the network"),
        ("bong-lin-ef-diag", {"trace": True}, "trace=True records every symbol"),
        ("bong-lin-ef-fc", {"form": "plain"}, "form='plain' asks for one form"),
    ],
)
def test_what_has_no_compiled_path_says_why(name, kw, reason):
    c = case(name, "mlp", "gaussian", "static", 1)
    with pytest.raises(ValueError, match=f"backend='fast': {reason}.*; use 'reference' or 'auto'"):
        run(c, "fast", **kw)
    info = run(c, "auto", **kw).info
    assert info.backend == "reference" and reason in info.reason


def test_a_method_with_virtual_observations_has_no_compiled_path():
    c = case("bong-lin-ef-diag", "mlp", "gaussian", "static", 1)
    c = c._replace(m=br.method("bong-lin-ef-diag", virtual=True))
    with pytest.raises(ValueError, match="backend='fast': virtual=True draws observations"):
        br.run(c.m, c.model, c.lik, c.prior, c.X, c.Y, rng=np.random.default_rng(0), backend="fast")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("family", ["diag", "fc", "dlr"])
def test_an_overflow_is_reported_as_the_reference_does(family):
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("Python's math.exp raises where compiled code returns infinity")
    c = case(f"bong-lin-ef-{family}", "linear", "poisson", "static", 1)
    X = c.X.copy()
    X[3] = 1e5
    messages = []
    for backend in ("reference", "fast"):
        with pytest.raises(FloatingPointError) as error:
            run(c._replace(X=X, prior=c.prior._replace(mu=np.abs(c.prior.mu))), backend)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "step 4: lin-ef gave a gradient or Hessian that is not finite" in messages[0]


def test_nothing_that_was_given_changes():
    for name in ("blr-lin-hess-diag", "bbb-lin-ef-dlr", "bong-mc-ef-fc", "bog-lin-hess-fc_mom"):
        c = case(name, "mlp", "gaussian", "ou", 2)
        kept = [np.array(a) for a in (*c.prior, c.X)]
        run(c, "fast")
        assert all(np.array_equal(a, b) for a, b in zip(kept, (*c.prior, c.X), strict=True))


# --- rows, interruptions, repetition --------------------------------------------------------------


def keep_states(seen):
    def metric(m, model, lik, state, rng):
        seen.append(state)
        return {"first": float(state.mu[0])}

    return metric


@pytest.mark.parametrize(
    "name",
    [
        "bong-lin-hess-diag",
        "blr-mc-ef-diag",
        "bong-lin-ef-dlr",
        "bong-lin-hess-fc",
        "bbb-lin-ef-fc",
        "bong-mc-ef-fc",
    ],
)
def test_measuring_does_not_change_the_run(name):
    c = case(name, "mlp", "gaussian", "static", 8, T=40)
    bare, seen = run(c, "fast"), []
    often = run(c, "fast", every=3, metrics=[keep_states(seen), br.metrics.prequential("plugin")])
    assert all(np.array_equal(a, b) for a, b in zip(bare.state, often.state, strict=True))
    slow_seen: list = []
    slow = run(
        c, "reference", every=3, metrics=[keep_states(slow_seen), br.metrics.prequential("plugin")]
    )
    assert [row["t"] for row in often.rows] == [row["t"] for row in slow.rows]
    for a, b in zip(seen, slow_seen, strict=True):
        assert compare.difference("mu", a.mu, b.mu, 1e4).agrees
    for a, b in zip(often.rows, slow.rows, strict=True):
        assert a.keys() == b.keys() and abs(
            a["prequential-plugin"] - b["prequential-plugin"]
        ) <= 1e-9 * abs(b["prequential-plugin"])


class StopAt:
    """A metric that interrupts the run once."""

    def __init__(self, t):
        self.left = t

    def __call__(self, m, model, lik, state, rng):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return {}


@pytest.mark.parametrize(
    "name", ["bong-lin-hess-diag", "blr-mc-ef-diag_mom", "bong-mc-ef-dlr", "bong-lin-ef-fc"]
)
def test_interrupted_and_resumed(name):
    c = case(name, "mlp", "gaussian", "ou", 8, T=20)
    whole = run(c, "fast")
    with pytest.raises(br.Interrupted) as stop:
        run(c, "fast", every=4, metrics=StopAt(3))
    result = stop.value.result
    assert result.t == 12 and len(result.rows) == 2
    rng = np.random.default_rng(99) if "-mc-" in name else None
    again = br.run(
        c.m,
        c.model,
        c.lik,
        c.prior,
        c.X,
        c.Y,
        dynamics=c.dynamics,
        rng=rng,
        backend="fast",
        resume=result,
    )
    for d in compare.differences(
        again.state, whole.state, dict.fromkeys(compare.invariants(whole.state), 1e4)
    ):
        assert d.agrees, d


@pytest.mark.parametrize(
    "name", ["blr-mc-ef-diag", "bong-mc-ef-dlr", "bong-lin-hess-fc", "bbb-lin-hess-dlr"]
)
def test_the_same_bits_every_time(name):
    c = case(name, "mlp", "categorical", "ou", 8, T=30)
    one, two = run(c, "fast").state, run(c, "fast").state
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("n_samples", [1, 3, 37])
@pytest.mark.parametrize(
    ("model", "name", "dynamics"),
    [
        ("linear", "blr-mc-ef-diag", "ou"),
        ("mlp", "blr-mc-ef-diag", "ou"),
        ("cnn", "bbb-mc-ef-diag", "static"),  # as in test_streams_of_images: it is compiled once
    ],
)
def test_any_number_of_samples(model, name, dynamics, n_samples):
    c = case(name, model, "poisson", dynamics, 5)
    assert_agree(c._replace(m=br.method(name, **{**c.m.params, "n_samples": n_samples})))


def test_a_users_model_whose_belief_is_lost_ends_as_in_the_reference():
    """No samples can be drawn from a covariance that is not positive definite: the model is not
    asked for gradients there.
    """
    model = br.models.wrap(
        lambda theta, x: anp.tanh(theta[:2] @ x) * theta[2:], n_params=3, n_outputs=1, in_shape=(2,)
    )
    m = br.method("bog-mc-ef-fc_mom", alpha=0.5, n_samples=4)
    rng = np.random.default_rng(1)
    X, Y, lost = rng.standard_normal((12, 2)), 5 * rng.standard_normal((12, 1)), []
    for backend in ("reference", "fast"):
        with pytest.raises(br.NotPositiveDefinite) as error:
            br.run(
                m,
                model,
                br.likelihoods.Gaussian(var=0.1),
                m.prior(mu=np.ones(3), var=0.5),
                X,
                Y,
                rng=np.random.default_rng(2),
                backend=backend,
            )
        lost.append(error.value.step)
    assert lost[0] == lost[1]


def drawn_by(c: Case, backend: str, bit_generator):
    rng = np.random.Generator(bit_generator)
    rng.integers(
        0, 5, dtype=np.int32
    )  # leaves half of a number behind, which a draw of doubles leaves alone
    state = br.run(
        c.m, c.model, c.lik, c.prior, c.X, c.Y, dynamics=c.dynamics, rng=rng, backend=backend
    ).state
    return state, [rng.integers(0, 2**31, dtype=np.int32), rng.random(), rng.standard_normal()]


@pytest.mark.parametrize(
    "kind",
    [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64],
)
@pytest.mark.parametrize("name", ["blr-mc-ef-diag", "bong-mc-ef-dlr"])
def test_every_bit_generator_gives_its_own_stream_and_stands_where_the_reference_leaves_it(
    name, kind
):
    c = case(name, "mlp", "gaussian", "ou", 4, T=12)
    (wanted, then), (got, too) = (
        drawn_by(c, backend, kind(11)) for backend in ("reference", "fast")
    )
    for d in compare.differences(
        got, wanted, dict.fromkeys(compare.invariants(wanted), 1e4), whole=True
    ):
        assert d.agrees, d
    assert then == too


# --- a diffuse prior and a sharp observation ------------------------------------------------------


def exact_filter(family, X, y, mu, var, noise):
    """bong on a linear model with Gaussian noise, in fractions: the Kalman filter, or its
    diagonal form.
    """
    to = lambda a: np.vectorize(Fraction, otypes=[object])(a)
    X, y, mu, noise = to(X), to(y), to(mu), Fraction(noise)
    P = len(mu)
    Sigma = np.array([[Fraction(var) * (i == j) for j in range(P)] for i in range(P)], dtype=object)
    for x, target in zip(X, y, strict=True):
        if family == "diag":
            new = [1 / (1 / Sigma[i, i] + x[i] ** 2 / noise) for i in range(P)]
            mu = mu + np.array(new, dtype=object) * x * (target - x @ mu) / noise
            Sigma = np.array(
                [[new[i] * (i == j) for j in range(P)] for i in range(P)], dtype=object
            )
        else:
            gain, total = Sigma @ x, x @ Sigma @ x + noise
            mu = mu + gain * (target - x @ mu) / total
            Sigma = Sigma - np.outer(gain, gain) / total
    return mu.astype(float), Sigma.astype(float)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ratio", [1e8, 1e12, 1e14, 1e16])
@pytest.mark.parametrize("name", ["bong-lin-hess-fc", "bong-lin-hess-diag"])
def test_a_sharp_observation_keeps_the_digits_of_the_reference(name, ratio):
    """Prior variance over noise variance up to 1e16: over some streams the largest error, from
    exact fractions, is at most 16 times the reference's; a stream that it refuses is refused at the
    same step.
    """
    worst = np.zeros((2, 2))  # of the reference and of the compiled path, of μ and of Σ
    for seed in range(6):
        errors = sharp_errors(name, ratio, seed)
        worst = worst if errors is None else np.maximum(worst, errors)
    assert np.all(worst[1] <= 16 * (worst[0] + np.finfo(float).eps)), worst


def sharp_errors(name, ratio, seed):
    """Relative errors of μ and Σ by both backends, (2, 2); None where the stream is refused."""
    rng, P, noise = np.random.default_rng(seed), 4, 2.0**-10
    m, model, lik = br.method(name), br.models.linear(P, 1), br.likelihoods.Gaussian(var=noise)
    mu, X, y = rng.standard_normal(P), rng.standard_normal((5, P)), rng.standard_normal(5)
    prior, states = m.prior(mu=mu, var=noise * ratio), []
    for backend in ("reference", "fast"):
        try:
            states.append(br.run(m, model, lik, prior, X, y[:, None], backend=backend).state)
        except br.StreamEnded as error:
            states.append(error.step)
    if int in map(type, states):
        assert states[0] == states[1]
        return None
    wanted = exact_filter(m.family, X, y, mu, noise * ratio, noise)
    if m.family == "diag":
        wanted = wanted[0], np.diagonal(wanted[1])
    error = lambda a, b: np.max(np.abs(a - b)) / np.max(np.abs(b))
    return np.array([[error(a, b) for a, b in zip(q, wanted, strict=True)] for q in states])


@pytest.mark.filterwarnings("ignore::bongref.errors.BongrefWarning")
@pytest.mark.parametrize("name", ["bong-lin-hess-fc", "bong-lin-hess-dlr"])
def test_time_slices_change_no_bit_where_a_step_is_refused(name, monkeypatch):
    """How long a slice takes is chance: what is deferred must not depend on where one began."""
    rng = np.random.default_rng(0)
    model, lik = br.models.mlp([6, 10, 1], activation="gelu"), br.likelihoods.Gaussian(var=0.1)
    X = rng.standard_normal((90, 6))
    Y, theta = np.sin(X[:, :1]), model.init(rng)
    X[60] *= 1e6
    m = br.method(name, **({"rank": 3} if "dlr" in name else {}))
    states = []
    for seconds in (1e-6, 1e-4, 10.0):
        monkeypatch.setattr(stream, "TIME_SLICE", seconds)
        run = br.run(m, model, lik, m.prior(mu=theta, var=0.1), X, Y, backend="fast")
        states.append(run.state)
    for other in states[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(states[0], other, strict=True))

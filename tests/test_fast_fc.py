"""The full-covariance belief of the fast streams beside the reference, over whole streams, at c · cond · eps."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import spd
from tiles import small_tiles

import bongref as br
from bongref import curvature, gaussians
from bongref.curvature import Curv
from bongref.dynamics import OU, Linear, Static, matrices, propagate
from bongref.fast.streams import fc
from bongref.filter import unchecked_step
from bongref.gaussians import is_valid
from bongref.grid import Method
from bongref.routes import compare
from bongref.states import FC

RULES = ("bong", "blr", "bog", "bbb")
FAMILIES = ("fc", "fc_mom")
KINDS = ("static", "ou", "ou full", "diagonal", "full")
BIG = 1e11  # a condition number beyond which rounding alone decides what is positive definite


class Stream(NamedTuple):
    """A method, a prior, the curvatures of T steps with I iterations each, and the dynamics."""

    m: Method
    prior: FC
    curvs: list[list[Curv]]
    dynamics: object

    def __repr__(self) -> str:
        return f"{self.m!r}, P={len(self.prior.mu)}, K={self.curvs[0][0].S.shape[1]}, T={len(self.curvs)}, {type(self.dynamics).__name__}"


def check(q):
    """Whether a belief is still a Gaussian, where its steps cannot tell."""
    return q.ok and is_valid(q.state())


def dynamics_of(kind, rng, P):
    return {
        "static": Static(),
        "ou": OU(0.9, mu0=rng.standard_normal(P), var0=rng.uniform(0.02, 0.06, P)),
        "ou full": OU(0.9, mu0=0.3, var0=0.05 * spd(rng, P, 1.0)),
        "diagonal": Linear(F=rng.uniform(0.8, 1.1, P), b=0.1, Q=0.01),
        "full": Linear(
            F=0.9 * np.eye(P) + 0.2 * rng.standard_normal((P, P)) / np.sqrt(P), b=0.1 * rng.standard_normal(P), Q=0.002 * spd(rng, P, 1.0)
        ),
    }[kind]


class Route(NamedTuple):
    states: list[FC]  # after each step
    bad: int | None  # the first step, from 1, that is not valid
    seen: list[FC]  # every prior and every iterate on the way


def reference(s: Stream, prior: FC, *flat: Curv, between=lambda q: q) -> Route:
    """The loop of filter.run and _update on given curvatures; ``between`` is what happens to a belief between two iterations."""
    state, states, seen, I = prior, [], [prior], s.m.n_iter
    for t in range(len(flat) // I):
        state = current = propagate(state, s.dynamics)
        seen.append(state)
        inner, valid = None, True
        for i, c in enumerate(flat[t * I : t * I + I]):
            if i == 0 and (inner := s.m.inner_loop(c)) is not None:
                current = inner.start(state)
            if inner is None:
                current = between(unchecked_step(s.m, state, current, c)[0])
                valid &= gaussians.is_valid(current)
                seen.append(current)
            else:
                current = inner.blr_increment(state, current, c, s.m.params["alpha"])
                valid &= inner.is_valid_increment(current)
        state = current if inner is None else inner.finish(state, current)
        states.append(state)
        seen.append(state)
        if not valid:
            return Route(states, t + 1, seen)
    return Route(states, None, seen)


def fast(s: Stream, always=False):
    """The state of the belief at the end and the first step that it refuses; with ``always`` it is checked after every step."""
    dyn = None if isinstance(s.dynamics, Static) else matrices(s.dynamics, len(s.prior.mu))
    q = fc.Belief(s.m, s.prior, dyn)
    for t, curvs in enumerate(s.curvs):
        q.predict()
        q.begin()
        for curv in curvs:
            if not q.step(curv.g.copy(), np.ascontiguousarray(curv.S.T)):
                return None, t + 1
        q.end()
        if always and not check(q):
            return None, t + 1
    return (q.state(), None) if check(q) else (None, len(s.curvs))


def conditions(s: Stream, seen: list[FC]) -> dict[str, float]:
    """cond of the whole stream: of its result under changes of the inputs and of each belief on the way, which rounding has changed too;
    and the worst of all covariances on the way."""
    flat = [c for curvs in s.curvs for c in curvs]
    rng, rounded = np.random.default_rng(0), lambda q: compare.perturb(q, rng)
    cond = compare.condition(lambda *a: reference(s, *a).states[-1], s.prior, *flat)
    base = compare.invariants(reference(s, s.prior, *flat).states[-1])
    for _ in range(4):
        moved = compare.invariants(reference(s, s.prior, *flat, between=rounded).states[-1])
        for key, value in base.items():
            cond[key] = max(cond[key], np.max(np.abs(moved[key] - value)) / (compare.DELTA * np.max(np.abs(value))))
    least = max(compare.woodbury_loss(seen), *map(compare.matrix_condition, seen))
    return {k: max(v, least) for k, v in cond.items()}


def agree(s: Stream, always: bool = False) -> float | None:
    """Both agree: on the result, or (None) on the step at which positive definiteness was lost."""
    states, bad, seen = reference(s, s.prior, *(c for curvs in s.curvs for c in curvs))
    if max(map(compare.matrix_condition, seen)) > BIG:
        return None
    got, refused = fast(s, always)
    if bad is not None:
        assert refused is not None and (refused == bad if always else refused >= bad), (s, bad, refused)
        return None
    assert refused is None, (s, refused)
    assert np.array_equal(got.Sigma, got.Sigma.T)
    diffs = compare.differences(got, states[-1], conditions(s, seen))
    for diff in diffs:
        assert diff.agrees, f"{s}: {diff}"
    return max(d.units for d in diffs)


@st.composite
def streams(draw, rule, families=FAMILIES, max_log_cond=3.0, kinds=KINDS, max_size=1.0, max_alpha=None):
    family, hess = draw(st.sampled_from(families)), draw(st.sampled_from(("lin-ef", "lin-hess", "mc-ef")))
    P, K = draw(st.integers(1, 30)), {"lin-ef": 1, "lin-hess": draw(st.integers(1, 4)), "mc-ef": draw(st.sampled_from((5, 40)))}[hess]
    top = {"bong": 0, "blr": -0.05, "bog": -1, "bbb": -1}[rule] if max_alpha is None else max_alpha
    params = {} if rule == "bong" else {"alpha": 10 ** draw(st.floats(-3, top))}
    if rule in ("blr", "bbb"):
        params["n_iter"] = draw(st.sampled_from((1, 2, 3, 10)))
    if hess == "mc-ef":
        params["n_samples"] = K
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m = br.method(f"{rule}-{hess}-{family}", **params)
    prior = FC(rng.standard_normal(P), spd(rng, P, draw(st.floats(0, max_log_cond))))
    T, size = draw(st.integers(1, 40 if rule == "bong" else 5)), draw(st.floats(0.01, max_size)) / np.sqrt(P)
    return Stream(m, prior, observations(m, rng, P, K, T, size), dynamics_of(draw(st.sampled_from(kinds)), rng, P))


def observations(m, rng, P, K, T, size):
    return [[curv(m.hess, rng, P, K, size) for _ in range(m.n_iter)] for _ in range(T)]


def curv(hess, rng, P, K, size):
    """(g, S) as the estimators give them: in lin-ef S = g, in lin-hess and mc-ef g is in the columns of S."""
    S = size * rng.standard_normal((P, K))
    if hess == "mc-ef":
        return Curv(S.sum(1) / np.sqrt(K), S=S)
    if hess == "lin-hess":
        return Curv(S @ rng.standard_normal(K), S=S)
    return Curv(S[:, 0].copy() if rng.random() < 0.7 else size * rng.standard_normal(P), S=S)  # or S from a virtual observation


# --- whole streams of given (g, S) ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("always", [False, True])
@given(data=st.data())
def test_streams_agree_with_the_reference(rule, always, data):
    agree(data.draw(streams(rule)), always)


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_matrices_of_many_tiles(rule, data):
    """What is above the diagonal of a matrix, where nobody is to look, differs from tile to tile."""
    with small_tiles(2):
        agree(data.draw(streams(rule)), True)


@pytest.mark.parametrize("rule", ["bog", "bbb"])
@given(data=st.data())
def test_ill_conditioned_covariances(rule, data):
    """Up to 1e8, where Woodbury's identity loses digits: the belief sees it and takes the plain form."""
    agree(data.draw(streams(rule, max_log_cond=8.0, kinds=("static", "ou"))), True)


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_lost_positive_definiteness_is_noticed_at_the_same_step(rule, data):
    """Large steps and large observations: fc_mom, bog and bbb lose it often, and the step is that of the reference."""
    families = FAMILIES if rule in ("bog", "bbb") else ("fc_mom",)
    agree(data.draw(streams(rule, families, max_size=3.0, max_alpha=-0.05)), True)


@pytest.mark.parametrize("K", [1, 3])
def test_bong_mom_notices_it_in_the_step(K):
    """Positive definite exactly if I − SᵀΣS is: a Q that follows may hide it from a later check."""
    rng = np.random.default_rng(0)
    Sigma, S = spd(rng, 6, 1.0), rng.standard_normal((6, K))
    S /= np.sqrt(np.linalg.eigvalsh(S.T @ Sigma @ S)[-1])
    for size, fits in ((0.99, True), (1.01, False)):
        q = fc.Belief(br.method("bong-lin-hess-fc_mom"), FC(np.zeros(6), Sigma), None)
        q.begin()
        assert q.step(S[:, 0].copy(), np.ascontiguousarray(size * S.T)) is fits


@pytest.mark.parametrize("rule", ["bog", "bbb"])
def test_what_dynamics_would_hide_is_noticed(rule):
    """A covariance that is lost in one step and that Q makes positive definite again in the next prediction."""
    m = br.method(f"{rule}-lin-ef-fc_mom", alpha=1.0, **({"n_iter": 1} if rule == "bbb" else {}))
    q = fc.Belief(m, FC(np.zeros(3), np.eye(3)), matrices(Linear(F=1.0, Q=10.0), 3))
    q.begin()
    done = [q.step(2 * np.eye(3)[0], 2 * np.eye(3)[:1])]
    q.end()
    q.predict()
    q.begin()
    done.append(q.step(0.1 * np.ones(3), 0.1 * np.ones((1, 3))))
    q.end()
    assert not (all(done) and check(q))


def test_bog_keeps_the_digits_of_the_plain_form():
    """With Σ of condition 10⁸ Woodbury's identity would agree at cond · eps, with a hundred times the error of the plain form."""
    for seed in range(2):
        assert agree(small_stream("bog-lin-hess-fc", 20, 4, 1, T=1, seed=seed, log_cond=8.0, alpha=1e-4)) < 3e-4


@pytest.mark.parametrize("family, form", [("fc", fc._BbbNat), ("fc_mom", fc._BbbMom)])
def test_bbb_goes_on_in_the_plain_form_where_the_basis_would_cost_digits(family, form, monkeypatch):
    """In the middle of an inner loop, with columns put off before it: at the second iteration of the second step."""
    calls = []
    monkeypatch.setattr(form, "_loss", lambda self, change: calls.append(self.k) or (np.inf if len(calls) == 5 else 1.0))
    s = small_stream(f"bbb-lin-ef-{family}", 30, 1, 3, T=3, alpha=0.003)
    assert agree(s) is not None and len(calls) == 8


# a method, P, K, I, and the form that takes its steps
FORMS = [
    ("bong-lin-ef-fc", 12, 1, 1, fc._Bong),
    ("bong-lin-hess-fc", 50, 40, 1, fc._Bong),
    ("bong-lin-hess-fc_mom", 50, 40, 1, fc._Bong),
    ("bong-lin-hess-fc_mom", 50, 3, 1, fc._Bong),
    ("bong-mc-ef-fc", 20, 5, 1, fc._BongPrecision),
    ("bong-mc-ef-fc_mom", 20, 5, 1, fc._Bong),
    ("blr-lin-ef-fc", 40, 1, 10, fc._BlrNat),
    ("blr-lin-hess-fc", 40, 2, 5, fc._BlrNat),
    ("blr-lin-hess-fc", 12, 2, 5, fc._BlrPrecision),
    ("blr-mc-ef-fc", 12, 5, 3, fc._BlrPrecision),
    ("blr-lin-ef-fc_mom", 40, 1, 10, fc._BlrMom),
    ("blr-lin-hess-fc_mom", 12, 2, 5, fc._BlrMomPlain),
    ("blr-mc-ef-fc_mom", 12, 5, 3, fc._BlrMomPlain),
    ("bog-lin-ef-fc", 12, 1, 1, fc._BogNat),
    ("bog-lin-hess-fc", 30, 12, 1, fc._BogNat),
    ("bog-mc-ef-fc", 12, 5, 1, fc._BogPrecision),
    ("bog-lin-ef-fc_mom", 12, 1, 1, fc._BogMom),
    ("bog-mc-ef-fc_mom", 12, 5, 1, fc._BogMom),
    ("bbb-lin-ef-fc", 60, 1, 4, fc._BbbNat),
    ("bbb-lin-hess-fc", 48, 2, 3, fc._BbbNat),
    ("bbb-lin-hess-fc", 12, 2, 3, fc._BbbPrecision),
    ("bbb-mc-ef-fc", 12, 5, 3, fc._BbbPrecision),
    ("bbb-lin-ef-fc_mom", 60, 1, 4, fc._BbbMom),
    ("bbb-lin-hess-fc_mom", 48, 2, 3, fc._BbbMom),
    ("bbb-mc-ef-fc_mom", 12, 5, 3, fc._BbbMomPlain),
]


def small_stream(name, P, K, I, T=4, kind="static", seed=0, size=0.3, log_cond=1.0, alpha=None):
    rng = np.random.default_rng(seed)
    params = {} if name.startswith("bong") else {"alpha": alpha or (0.1 if name.startswith("blr") else 0.003)}
    params |= {"n_iter": I} if name[:3] in ("blr", "bbb") else {}
    params |= {"n_samples": K} if "-mc-" in name else {}
    m = br.method(name, **params)
    prior = FC(rng.standard_normal(P), spd(rng, P, log_cond))
    return Stream(m, prior, observations(m, rng, P, K, T, size / np.sqrt(P * K)), dynamics_of(kind, rng, P))


@pytest.mark.parametrize("name, P, K, I, form", FORMS)
def test_each_form_takes_its_steps(name, P, K, I, form):
    """No stream here is refused or handed to the plain form, so that each form is compared for what it computes itself."""
    for kind in KINDS:
        s = small_stream(name, P, K, I, kind=kind)
        assert agree(s) is not None
        if kind == "static":
            q = fc.Belief(s.m, s.prior, None)
            feed(q, s.curvs)
            assert type(q.form) is form


def feed(q, curvs):
    for one in curvs:
        q.predict()
        q.begin()
        for c in one:
            assert q.step(c.g, np.ascontiguousarray(c.S.T))
        q.end()


@pytest.mark.parametrize("name", [f"{rule}-lin-ef-{family}" for rule in RULES for family in FAMILIES])
@pytest.mark.parametrize("kind", ["static", "ou"])
def test_a_diagonal_prior(name, kind):
    """A prior as Method.prior makes it, whose A is empty until the columns that are put off no longer fit."""
    s = small_stream(name, 30, 1, 2, T=50 if name.startswith("bong") else 20, kind=kind, size=0.2)
    assert agree(s._replace(prior=s.m.prior(s.prior.mu, 0.5))) is not None


@pytest.mark.parametrize("name", ["blr-lin-ef-fc", "blr-lin-ef-fc_mom"])
@pytest.mark.parametrize("alpha", [1.0, 1.3])
def test_blr_with_weights_that_are_zero_or_negative(name, alpha):
    assert agree(small_stream(name, 40, 1, 5, alpha=alpha, size=0.1)) is not None


@pytest.mark.parametrize("name", ["bong-lin-ef-fc", "bong-lin-hess-fc", "bong-mc-ef-fc", "blr-lin-ef-fc", "blr-lin-hess-fc"])
@pytest.mark.parametrize("size", [1e2, 1e3, 1e4])
def test_very_informative_observations(name, size):
    """Observations that take a variance down by up to 10⁸: g along the rows, of which Σ_t g is a small part of Σ g."""
    for seed in range(3):
        s = small_stream(name, 20, 5 if "mc" in name else 1, 2, T=3, seed=seed, size=size, alpha=0.5)
        assert agree(s) is not None


def test_the_gain_of_an_informative_observation_keeps_its_digits():
    """mu + Σg − K Vᵀg would lose as many digits as Σg is larger than Σ_t g; the closed form, exact here, is Σg / (1 + gᵀΣg)."""
    P, rng = 9, np.random.default_rng(0)
    var, row = 2.0 ** rng.integers(-2, 3, P), 2.0 ** rng.integers(10, 20, P)
    v, q = var * row, fc.Belief(br.method("bong-lin-hess-fc"), FC(np.zeros(P), np.diag(var)), None)
    q.begin()
    assert q.step(row * 0.75, row[None])
    assert np.max(np.abs(q.mu / (0.75 * v / (1 + row @ v)) - 1)) < 8 * compare.EPS


# --- against exact arithmetic ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bbb-lin-ef-fc", "bbb-lin-ef-fc_mom", "bog-lin-ef-fc", "bog-lin-ef-fc_mom"])
@pytest.mark.parametrize("log_cond", [1.0, 5.0, 8.0])
def test_against_exact_arithmetic(name, log_cond):
    """One iteration rounded once, from exact fractions; in bbb two, where the second starts at the first."""
    P, I = (15, 2) if name.startswith("bbb") else (8, 1)
    s = small_stream(name, P, 1, I, T=1, log_cond=log_cond, alpha=1e-3 / 10**log_cond, size=0.1)
    got, _ = fast(s)
    current, params = None, {k: v for k, v in s.m.params.items() if k != "virtual"}
    for c in s.curvs[0]:
        out = br.oracle.step(name, s.prior._asdict(), current, {"g": c.g, "S": c.S}, digits=50, **params)
        assert out.pop("valid")
        current = out
    for diff in compare.differences(got, FC(**current), conditions(s, [s.prior, FC(**current)])):
        assert diff.agrees, str(diff)


# --- with networks -------------------------------------------------------------------------------------------------------------


def drive(s_m, model, lik, prior, X, Y, rng, dynamics):
    """The loop of a stream over a belief, with the estimators of the reference."""
    dyn = None if isinstance(dynamics, Static) else matrices(dynamics, len(prior.mu))
    q = fc.Belief(s_m, prior, dyn)
    for x, y in zip(X, Y, strict=True):
        q.predict()
        if y is None:
            continue
        x, y = np.asarray(x, dtype=float), lik.encode(y, model.n_outputs, batch=None)
        q.begin()
        for _ in range(s_m.n_iter):
            if s_m.hess == "mc-ef":
                Z = gaussians.normals(rng, (s_m.params["n_samples"], len(prior.mu)))
                q.draw(Z)
                c = curvature.mc_ef(model, lik, x, y, Z)
            else:
                c = {"lin-ef": curvature.lin_ef, "lin-hess": curvature.lin_hess}[s_m.hess](model, lik, x, y, q.mu.copy())
            assert q.step(c.g, np.ascontiguousarray(c.S.T))
        q.end()
    assert check(q)
    return q.state()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("hess", ["lin-ef", "lin-hess", "mc-ef"])
def test_networks(rule, family, hess):
    rng = np.random.default_rng(3)
    X, classes = rng.standard_normal((6, 2)), rng.integers(0, 3, 6)
    little = 0.002 if family == "fc" else 0.00002
    params = {"bong": {}, "blr": {"alpha": 0.3}, "bog": {"alpha": little}, "bbb": {"alpha": little}}[rule]
    params = params | ({"n_iter": 3} if rule in ("blr", "bbb") else {}) | ({"n_samples": 5} if hess == "mc-ef" else {})
    m = br.method(f"{rule}-{hess}-{family}", **params)
    for lik, sizes, Y in (
        (br.likelihoods.Categorical(), [2, 3, 3], [*classes[:4], None, classes[5]]),
        (br.likelihoods.Gaussian(1.0), [2, 3, 1], list(rng.standard_normal((6, 1)))),
    ):
        model = br.models.mlp(sizes, activation="tanh")
        prior = FC(model.init(np.random.default_rng(0)), 0.01 * spd(rng, model.n_params, 0.5))
        for dynamics in (Static(), dynamics_of("ou" if model.n_outputs == 1 else "full", rng, model.n_params)):

            def run(p, dynamics=dynamics, model=model, lik=lik, Y=Y):
                return br.run(m, model, lik, p, X, Y, rng=np.random.default_rng(7), dynamics=dynamics, backend="reference").state

            got = drive(m, model, lik, prior, X, Y, np.random.default_rng(7), dynamics)
            for diff in compare.differences(got, run(prior), compare.condition(run, prior, draws=2)):
                assert diff.agrees, f"{m!r}, {type(lik).__name__}, {dynamics!r}: {diff}"


# --- the compiled loops --------------------------------------------------------------------------------------------------------


LOOPS = [(fc, name) for name in ("several", "inner_loops", "bog_loop", "krylov_loop", "moment_loop")]


def network_stream(name, lik=None, sizes=(2, 4, 1), T=12, seed=3, var=0.05, **params):
    """A method, and what br.run needs: a network, data, a prior whose covariance is not diagonal."""
    rng = np.random.default_rng(seed)
    rule = name.split("-")[0]
    params = (
        ({} if rule == "bong" else {"alpha": 0.3 if rule == "blr" else 0.002}) | ({"n_iter": 4} if rule in ("blr", "bbb") else {}) | params
    )
    model, lik = br.models.mlp(list(sizes), activation="tanh"), lik or br.likelihoods.Gaussian(1.0)
    X, Y = rng.standard_normal((T, sizes[0])), list(rng.standard_normal((T, sizes[-1])))
    if lik.name == "categorical":
        Y = list(rng.integers(0, sizes[-1], T))
    Y[T // 2] = None
    prior = FC(model.init(np.random.default_rng(0)), var * spd(rng, model.n_params, 0.5))
    return br.method(name, **params), model, lik, prior, X, Y


def run_agrees(m, model, lik, prior, X, Y):
    """The compiled run and that of the reference."""

    def run(p, backend="reference"):
        return br.run(m, model, lik, p, X, Y, backend=backend, progress=False).state

    got = run(prior, "fast")
    for diff in compare.differences(got, run(prior), compare.condition(run, prior, draws=2)):
        assert diff.agrees, f"{m!r}, {lik!r}: {diff}"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rule, loop", [("bong", "several"), ("blr", "inner_loops"), ("bog", None), ("bbb", "krylov_loop")])
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef"])
def test_the_loop_of_a_rule_takes_every_step(rule, loop, family, hess, monkeypatch):
    """One output, or lin-ef with several: no step is left to the belief's own ``step``."""
    loop = loop or ("bog_loop" if family == "fc" else "several")
    if (rule, family) == ("bbb", "fc_mom"):
        loop = "moment_loop"
    params = {"alpha": 2e-5} if family == "fc_mom" and rule in ("bog", "bbb") else {"var": 0.005} if family == "fc_mom" else {}
    calls, steps, taken = [], [], fc.Belief.step
    for module, name in LOOPS:
        kernel = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, name=name, kernel=kernel: calls.append(name) or kernel(*a))
    monkeypatch.setattr(fc.Belief, "step", lambda self, g, rows: steps.append(1) or taken(self, g, rows))
    run_agrees(*network_stream(f"{rule}-{hess}-{family}", sizes=(4, 8, 1), **params))
    if hess == "lin-ef":
        run_agrees(*network_stream(f"{rule}-{hess}-{family}", br.likelihoods.Categorical(), sizes=(4, 8, 3), **params))
    assert set(calls) == {loop} and not steps


@pytest.mark.parametrize("name", ["bog-lin-ef-fc", "bbb-lin-ef-fc"])
@pytest.mark.parametrize("limit", [0.0, 1.05])
def test_a_loop_leaves_alone_what_would_cost_digits(name, limit, monkeypatch):
    """The step is left to the belief with the mean as it was, and from there to the plain form."""
    monkeypatch.setattr(fc, "LOSS", limit)
    run_agrees(*network_stream(name, sizes=(4, 8, 1), var=1.0))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_inner_loop_of_bbb_that_needs_a_longer_basis(size, monkeypatch):
    """In the middle of an update: it starts again from the prior's mean, in the form with any number of vectors."""
    monkeypatch.setattr(fc, "SHORT", size)
    run_agrees(*network_stream("bbb-lin-hess-fc", sizes=(4, 8, 1), var=0.3, alpha=0.01))


@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef"])
@pytest.mark.parametrize("name, alpha, var", [("bong", None, 0.1), ("blr", 0.3, 0.1), ("bog", 0.002, 0.05), ("bbb", 0.005, 0.2)])
def test_a_loop_loses_positive_definiteness_at_the_step_of_the_reference(name, alpha, var, hess):
    steps = []
    m, model, _, prior, X, Y = network_stream(f"{name}-{hess}-fc_mom", T=30, **({} if alpha is None else {"alpha": alpha}))
    prior = FC(prior.mu, var * prior.Sigma / 0.05)
    for backend in ("reference", "fast"):
        with pytest.raises(br.NotPositiveDefinite) as lost:
            br.run(m, model, br.likelihoods.Gaussian(0.3), prior, X, Y, backend=backend, progress=False)
        steps.append(lost.value.step)
    assert steps[0] == steps[1]


@pytest.mark.parametrize("often", [1, 2, 100])
@pytest.mark.parametrize("kind", ["static", "ou"])
def test_an_inverse_that_goes_along(often, kind, monkeypatch):
    monkeypatch.setattr(fc, "RENEWED", often)
    assert agree(small_stream("bbb-lin-ef-fc_mom", 60, 1, 4, T=8, kind=kind)) is not None


# --- Σ in parts ------------------------------------------------------------------------------------------------------------------


def held_in_parts(P, n, parts, c, monkeypatch, room=40):
    """A matrix as kernels see it, in so many parts, and the same as one array."""
    rng = np.random.default_rng(P + n)
    monkeypatch.setattr(fc, "threads", lambda: parts)
    monkeypatch.setattr(fc, "SHARE", 1)
    A, q = spd(rng, P, 1.0), rng.uniform(0.1, 1.0, P)
    h = fc.held(A.copy(), q.copy(), c, room)
    assert len(h.Y) == min(parts, P)
    h.V[:n], h.s[:n], h.turn[fc.ROWS] = rng.standard_normal((n, P)), rng.choice([-1.0, 1.0], n), n
    return h, c * A + np.diag(q) - (h.s[:n, None] * h.V[:n]).T @ h.V[:n]


@pytest.mark.parametrize("P, n", [(1, 1), (4, 0), (5, 3), (13, 6), (31, 7), (50, 40)])
@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("c", [0.0, 1.0, 0.7])
def test_products_with_a_matrix_in_parts(P, n, parts, c, monkeypatch):
    """Σx, diag Σ, and Σ when A has taken up everything: its upper triangle."""
    h, Sigma = held_in_parts(P, n, parts, c, monkeypatch)
    tol = 64 * compare.EPS * (1 + np.max(np.abs(Sigma))) * (P + n)
    x, y = np.random.default_rng(0).standard_normal(P), np.full(P, np.nan)
    fc.times(h, x, y)
    assert np.max(np.abs(y - Sigma @ x)) < tol * np.max(np.abs(x))
    fc.variances(h, y)
    assert np.max(np.abs(y - np.diagonal(Sigma))) < tol
    fc.flush(h)
    assert np.max(np.abs(np.triu(h.A - Sigma))) < tol
    assert h.c[0] == 1.0 and h.turn[fc.ROWS] == 0 and not np.any(h.q)


@pytest.mark.parametrize("name", [f"{rule}-lin-hess-{family}" for rule in RULES for family in FAMILIES])
def test_threads_that_share_a_matrix_give_the_bits_of_one_that_does_it_all(name, monkeypatch):
    """The parts are the same, whoever does them; and the numbers are those of the reference."""
    monkeypatch.setattr(fc, "SHARE", 8)
    monkeypatch.setattr(fc, "threads", lambda: 2)
    params = (
        {"alpha": 2e-5} if name.endswith("fc_mom") and name[:3] in ("bog", "bbb") else {"var": 0.005} if name.endswith("fc_mom") else {}
    )
    m, model, lik, prior, X, Y = network_stream(name, sizes=(4, 8, 1), T=40, **params)
    run_agrees(m, model, lik, prior, X, Y)
    run = lambda: br.run(m, model, lik, prior, X, Y, backend="fast", progress=False).state
    both = run()
    monkeypatch.setattr(fc, "together", lambda n, work: work(0))
    alone = run()
    assert np.array_equal(both.mu, alone.mu) and np.array_equal(both.Sigma, alone.Sigma)


@pytest.mark.parametrize("P", [6, 7, 8, 30])
@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 6, 7, 11])
def test_products_of_a_block_of_rows(P, K):
    rng = np.random.default_rng(K)
    A, X, Y = spd(rng, P, 1.0), rng.standard_normal((K, P)), np.full((K, P), np.nan)
    fc.times_block(A, X, Y)
    assert np.max(np.abs(Y - X @ A)) < 64 * compare.EPS * np.max(np.abs(X)) * np.max(np.abs(A)) * P


# --- the protocol ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, P, K, I, form", [f for f in FORMS if "-mc-" in f[0]])
@pytest.mark.parametrize("kind", ["static", "ou"])
def test_samples_are_those_of_the_reference(name, P, K, I, form, kind):
    """At every iterate: mu + z Lᵀ with the Cholesky factor of Σ, from the same z."""
    s = small_stream(name, P, K, I, kind=kind)
    q = fc.Belief(s.m, s.prior, None if kind == "static" else matrices(s.dynamics, P))
    state = s.prior
    for curvs in s.curvs:
        q.predict()
        q.begin()
        state = current = propagate(state, s.dynamics)
        for i, c in enumerate(curvs):
            Z = np.random.default_rng(i).standard_normal((7, P))
            out = Z.copy()
            q.draw(out)
            diff = compare.difference("theta", out, gaussians.place(current, Z), compare.matrix_condition(current) ** 2)
            assert diff.agrees, str(diff)
            assert q.step(c.g, np.ascontiguousarray(c.S.T))
            current = unchecked_step(s.m, state, current, c)[0]
        q.end()
        state = current


@pytest.mark.parametrize("name, P, K, I, form", FORMS)
def test_the_state_is_left_alone_and_may_be_asked_for_at_any_time(name, P, K, I, form):
    s = small_stream(name, P, K, I)
    before = FC(*(a.copy() for a in s.prior))
    first, second = fc.Belief(s.m, s.prior, None), fc.Belief(s.m, s.prior, None)
    for one in s.curvs:
        feed(first, [one])
        kept = first.state()
        again = FC(*(a.copy() for a in kept))
        feed(second, [one])
    assert all(np.array_equal(a, b) for a, b in zip(before, s.prior, strict=True))
    feed(first, s.curvs[:1])  # what was handed out does not move
    assert all(np.array_equal(a, b) for a, b in zip(kept, again, strict=True))
    for diff in compare.differences(second.state(), kept, dict.fromkeys(("mu", "Sigma"), 1e3)):
        assert diff.agrees, str(diff)


def test_the_same_input_gives_the_same_bits():
    for name, P, K, I, _ in FORMS:
        s = small_stream(name, P, K, I)
        a, b = fast(s)[0], fast(s)[0]
        assert np.array_equal(a.mu, b.mu) and np.array_equal(a.Sigma, b.Sigma)


@pytest.mark.parametrize("name, P, K, I, form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(name, P, K, I, form, value):
    s = small_stream(name, P, K, I)
    for where in ("g", "S"):
        q = fc.Belief(s.m, s.prior, None)
        feed(q, s.curvs[:1])
        q.begin()
        g, rows = s.curvs[1][0].g.copy(), np.ascontiguousarray(s.curvs[1][0].S.T)
        (g if where == "g" else rows[0])[0] = value
        with np.errstate(all="ignore"):
            assert not q.step(g, rows)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["static", "ou", "diagonal"])
def test_the_number_of_columns_may_change(rule, family, kind):
    """Mini-batches of any size, and steps without an observation: two predictions in a row."""
    rng, P = np.random.default_rng(5), 24
    s = small_stream(f"{rule}-lin-hess-{family}", P, 1, 2, kind=kind)
    curvs = [observations(s.m, rng, P, K, 1, 0.05)[0] for K in (1, 2, 9, 1, 12, 1)]
    assert agree(s._replace(curvs=curvs)) is not None
    dyn = None if kind == "static" else matrices(s.dynamics, P)
    q, wanted = fc.Belief(s.m, s.prior, dyn), s.prior
    for one in curvs[:2]:
        q.predict()
        feed(q, [one])
        wanted = reference(s, propagate(wanted, s.dynamics), *one).states[-1]
    for diff in compare.differences(q.state(), wanted, dict.fromkeys(("mu", "Sigma"), 1e3)):
        assert diff.agrees, str(diff)

"""The full-covariance steps of the compiled path against the reference, over whole streams, at c ·
cond · eps.
"""

from typing import NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import spd

import bongref as br
from bongref import gaussians
from bongref.curvature import Curv
from bongref.dynamics import OU, Linear, Static, matrices, propagate
from bongref.fast import fc, fc_forms, fc_loop, fc_many
from bongref.fast.generic import begin, end, place, predict, step
from bongref.fast.status import OK
from bongref.fast.tuning import SHARP
from bongref.filter import unchecked_step
from bongref.gaussians import is_valid
from bongref.grid import Method
from bongref.routes import compare
from bongref.states import FC

RULES = ("bong", "blr", "bog", "bbb")
FAMILIES = ("fc", "fc_mom")
KINDS = ("static", "ou", "ou full", "diagonal", "full")
BIG = 1e11  # a condition number beyond which rounding alone decides what is positive definite
SLOW = bool(numba.config.DISABLE_JIT)  # plain Python: fewer examples
EXAMPLES = 10 if SLOW else 60


class Stream(NamedTuple):
    """A method, a prior, the curvatures of T steps with I iterations each, and the dynamics."""

    m: Method
    prior: FC
    curvs: list[list[Curv]]
    dynamics: object

    def __repr__(self) -> str:
        return (
            f"{self.m!r}, P={len(self.prior.mu)}, K={self.curvs[0][0].S.shape[1]}, "
            f"T={len(self.curvs)}, {type(self.dynamics).__name__}"
        )


def dynamics_of(kind, rng, P):
    return {
        "static": Static(),
        "ou": OU(0.9, mu0=rng.standard_normal(P), var0=rng.uniform(0.02, 0.06, P)),
        "ou full": OU(0.9, mu0=0.3, var0=0.05 * spd(rng, P, 1.0)),
        "diagonal": Linear(F=rng.uniform(0.8, 1.1, P), b=0.1, Q=0.01),
        "full": Linear(
            F=0.9 * np.eye(P) + 0.2 * rng.standard_normal((P, P)) / np.sqrt(P),
            b=0.1 * rng.standard_normal(P),
            Q=0.002 * spd(rng, P, 1.0),
        ),
        # keep the variances to the bit, and change the rest of the covariance
        "signs": Linear(F=np.where(np.arange(P) % 2, -1.0, 1.0)),
        "reverse": Linear(F=np.eye(P)[::-1].copy()),
    }[kind]


class Route(NamedTuple):
    states: list[FC]  # after each step
    bad: int | None  # the first step, from 1, that is not valid
    seen: list[FC]  # every prior and every iterate on the way


def reference(s: Stream, prior: FC, *flat: Curv, between=lambda q: q) -> Route:
    """The loop of filter.run and _update on given curvatures; ``between`` is what happens to a
    belief between two iterations.
    """
    state, states, seen, I = prior, [], [prior], s.m.n_iter
    for t in range(len(flat) // I):
        state = current = propagate(state, s.dynamics)
        seen.append(state)
        inner, valid = None, True
        for i, c in enumerate(flat[t * I : t * I + I]):
            if i == 0 and (inner := s.m.increments(c)) is not None:
                current = inner.start(state)
            if inner is None:
                current = between(unchecked_step(s.m, state, current, c)[0])
                valid &= gaussians.is_valid(current)
                seen.append(current)
            else:
                current = inner.step(state, current, c, s.m.params["alpha"])
                valid &= inner.is_valid(current)
        state = current if inner is None else inner.finish(state, current)
        states.append(state)
        seen.append(state)
        if not valid:
            return Route(states, t + 1, seen)
    return Route(states, None, seen)


class Filter:
    """The compiled steps on given curvatures, as the driver of a stream takes them: what they
    refuse the reference does.
    """

    def __init__(self, s: Stream, K: int):
        self.s, self.K, self.handed = s, K, 0
        P, self.moving = len(s.prior.mu), not isinstance(s.dynamics, Static)
        self.dynamics = fc_forms.linear(s.m, P, K, *matrices(s.dynamics, P))
        self.start(s.prior)

    def start(self, state: FC) -> None:
        self.parts = fc_forms.start(self.s.m, state, self.K, self.moving)

    @property
    def state(self) -> FC:
        return fc_forms.finish(self.parts[0], self.parts[2], self.parts[3])

    def predict(self) -> int:
        return predict(self.dynamics, self.parts[2], self.parts[3]) if self.moving else OK

    def update(self, curvs: list[Curv]) -> int:
        rule, prior, state, work = self.parts
        code = self.predict() or begin(rule, prior, state, work)
        for c in curvs:
            code = code or step(rule, prior, state, c.g.copy(), np.ascontiguousarray(c.S.T), work)
        return code or end(rule, prior, state, work)

    def step(self, curvs: list[Curv]) -> bool:
        """One observation; whether its result is positive definite."""
        before = self.state
        if self.update(curvs) == OK:
            return True
        self.handed += 1
        states, bad, _ = reference(self.s, before, *curvs)
        if bad is None:
            self.start(states[-1])
        return bad is None


def columns(s: Stream) -> int:
    return max(c.S.shape[1] for curvs in s.curvs for c in curvs)


@np.errstate(all="ignore")
def fast(s: Stream, always=False):
    """(state, the first step that is refused, how many steps the reference took); with ``always``
    each state is checked.
    """
    q = Filter(s, columns(s))
    for t, curvs in enumerate(s.curvs):
        if not q.step(curvs) or (always and not is_valid(q.state)):
            return None, t + 1, q.handed
    return (q.state, None, q.handed) if is_valid(q.state) else (None, len(s.curvs), q.handed)


def conditions(s: Stream, seen: list[FC]) -> dict[str, float]:
    """cond of the whole stream: of its result under changes of the inputs and of each belief on the
    way, which rounding has changed too; and the worst of all covariances on the way.
    """
    flat = [c for curvs in s.curvs for c in curvs]
    rng, rounded = np.random.default_rng(0), lambda q: compare.perturb(q, rng)
    cond = compare.condition(lambda *a: reference(s, *a).states[-1], s.prior, *flat)
    base = compare.invariants(reference(s, s.prior, *flat).states[-1])
    for _ in range(4):
        moved = compare.invariants(reference(s, s.prior, *flat, between=rounded).states[-1])
        for key, value in base.items():
            cond[key] = max(
                cond[key],
                np.max(np.abs(moved[key] - value)) / (compare.DELTA * np.max(np.abs(value))),
            )
    least = max(compare.woodbury_loss(seen), *map(compare.matrix_condition, seen))
    return {k: max(v, least) for k, v in cond.items()}


def agree(s: Stream, always: bool = False, alone: bool = False) -> float | None:
    """Both agree: on the result, or (None) on the step at which positive definiteness was lost.
    ``alone``: the reference took no step.
    """
    states, bad, seen = reference(s, s.prior, *(c for curvs in s.curvs for c in curvs))
    if max(map(compare.matrix_condition, seen)) > BIG:
        return None
    got, refused, handed = fast(s, always)
    assert not (alone and handed), (s, handed)
    if bad is not None:
        assert refused is not None and (refused == bad if always else refused >= bad), (
            s,
            bad,
            refused,
        )
        return None
    assert refused is None, (s, refused)
    assert np.array_equal(got.Sigma, got.Sigma.T)
    diffs = compare.differences(got, states[-1], conditions(s, seen))
    for diff in diffs:
        assert diff.agrees, f"{s}: {diff}"
    return max(d.units for d in diffs)


@st.composite
def streams(
    draw, rule, families=FAMILIES, max_log_cond=3.0, kinds=KINDS, max_size=1.0, max_alpha=None
):
    family, hess = (
        draw(st.sampled_from(families)),
        draw(st.sampled_from(("lin-ef", "lin-hess", "mc-ef"))),
    )
    P, K = (
        draw(st.integers(1, 30)),
        {"lin-ef": 1, "lin-hess": draw(st.integers(1, 4)), "mc-ef": draw(st.sampled_from((5, 40)))}[
            hess
        ],
    )
    top = {"bong": 0, "blr": -0.05, "bog": -1, "bbb": -1}[rule] if max_alpha is None else max_alpha
    params = {} if rule == "bong" else {"alpha": 10 ** draw(st.floats(-3, top))}
    if rule in ("blr", "bbb"):
        params["n_iter"] = draw(st.sampled_from((1, 2, 3, 10)))
    if hess == "mc-ef":
        params["n_samples"] = K
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m = br.method(f"{rule}-{hess}-{family}", **params)
    prior = FC(rng.standard_normal(P), spd(rng, P, draw(st.floats(0, max_log_cond))))
    T, size = (
        draw(st.integers(1, 40 if rule == "bong" else 5)),
        draw(st.floats(0.01, max_size)) / np.sqrt(P),
    )
    return Stream(
        m,
        prior,
        observations(m, rng, P, K, T, size),
        dynamics_of(draw(st.sampled_from(kinds)), rng, P),
    )


def observations(m, rng, P, K, T, size, along=False):
    return [[curv(m.hess, rng, P, K, size, along) for _ in range(m.n_iter)] for _ in range(T)]


def curv(hess, rng, P, K, size, along):
    """(g, S) as the estimators give them: in lin-ef S = g, in lin-hess and mc-ef g is in the
    columns of S.
    """
    S = size * rng.standard_normal((P, K))
    if hess == "mc-ef":
        return Curv(S.sum(1) / np.sqrt(K), S=S)
    if hess == "lin-hess":
        return Curv(S @ rng.standard_normal(K), S=S)
    # or S from a virtual observation
    return Curv(
        S[:, 0].copy() if along or rng.random() < 0.7 else size * rng.standard_normal(P), S=S
    )


# --- whole streams of given (g, S) ----------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("always", [False, True])
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_streams_agree_with_the_reference(rule, always, data):
    agree(data.draw(streams(rule)), always)


@pytest.mark.parametrize("rule", ["bog", "bbb"])
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_ill_conditioned_covariances(rule, data):
    """Up to 1e8, where Woodbury's identity loses digits: the step is left to the reference."""
    agree(data.draw(streams(rule, max_log_cond=8.0, kinds=("static", "ou"))), True)


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_lost_positive_definiteness_is_noticed_at_the_same_step(rule, data):
    """Large steps and large observations: fc_mom, bog and bbb lose it often, and the step is that
    of the reference.
    """
    families = FAMILIES if rule in ("bog", "bbb") else ("fc_mom",)
    agree(data.draw(streams(rule, families, max_size=3.0, max_alpha=-0.05)), True)


@pytest.mark.parametrize("K", [1, 3])
def test_bong_mom_notices_it_in_the_step(K):
    """Positive definite exactly if I − SᵀΣS is: a Q that follows may hide it from a later check."""
    rng = np.random.default_rng(0)
    Sigma, S = spd(rng, 6, 1.0), rng.standard_normal((6, K))
    S /= np.sqrt(np.linalg.eigvalsh(S.T @ Sigma @ S)[-1])
    for size, fits in ((0.99, True), (1.01, False)):
        parts = fc_forms.start(br.method("bong-lin-hess-fc_mom"), FC(np.zeros(6), Sigma), K, False)
        assert (
            step(*parts[:3], S[:, 0].copy(), np.ascontiguousarray(size * S.T), parts[3]) == OK
        ) is fits


@pytest.mark.parametrize("rule", ["bog", "bbb"])
@pytest.mark.parametrize("K", [1, 2])
def test_what_dynamics_would_hide_is_noticed(rule, K):
    """A covariance that is lost in one step and that Q makes positive definite again in the next
    prediction.
    """
    m = br.method(f"{rule}-lin-hess-fc_mom", alpha=1.0, **({"n_iter": 1} if rule == "bbb" else {}))
    S = np.zeros((9, K))
    S[0, 0] = 2.0
    s = Stream(m, FC(np.zeros(9), np.eye(9)), [[Curv(S[:, 0], S=S)]], Linear(F=1.0, Q=0.1))
    assert not Filter(s, K).step(s.curvs[0])


# a method, P, K, I, and the rule whose form takes its steps
FORMS = [
    ("bong-lin-ef-fc", 12, 1, 1, fc.Bong),
    ("bong-lin-hess-fc", 50, 40, 1, fc.Bong),
    ("bong-lin-hess-fc_mom", 50, 40, 1, fc.BongMom),
    ("bong-lin-hess-fc_mom", 50, 3, 1, fc.BongMom),
    ("bong-mc-ef-fc", 20, 5, 1, fc_many.BongMany),
    ("bong-mc-ef-fc_mom", 20, 5, 1, fc_many.BongMomMany),
    ("blr-lin-ef-fc", 40, 1, 10, fc_loop.BlrLoop),
    ("blr-lin-hess-fc", 40, 2, 5, fc_loop.BlrLoop),
    ("blr-lin-hess-fc", 12, 2, 5, fc_many.BlrMany),
    ("blr-mc-ef-fc", 12, 5, 3, fc_many.BlrMany),
    ("blr-lin-ef-fc_mom", 40, 1, 10, fc_loop.BlrMomLoop),
    ("blr-lin-hess-fc_mom", 40, 2, 5, fc_loop.BlrMomLoop),
    ("blr-lin-hess-fc_mom", 12, 2, 5, fc_many.BlrMomMany),
    ("blr-mc-ef-fc_mom", 12, 5, 3, fc_many.BlrMomMany),
    ("bog-lin-ef-fc", 12, 1, 1, fc.Bog),
    ("bog-lin-hess-fc", 30, 12, 1, fc_many.BogMany),
    ("bog-mc-ef-fc", 12, 5, 1, fc_many.BogMany),
    ("bog-lin-ef-fc_mom", 12, 1, 1, fc.BogMom),
    ("bog-lin-hess-fc_mom", 30, 4, 1, fc.BogMom),
    ("bog-mc-ef-fc_mom", 12, 5, 1, fc_many.BogMomMany),
    ("bbb-lin-ef-fc", 60, 1, 4, fc_loop.BbbLoop),
    ("bbb-lin-hess-fc", 48, 2, 3, fc_many.BbbMany),
    ("bbb-mc-ef-fc", 12, 5, 3, fc_many.BbbMany),
    ("bbb-lin-ef-fc_mom", 60, 1, 4, fc_loop.BbbMomLoop),
    ("bbb-lin-hess-fc_mom", 48, 2, 3, fc_many.BbbMomMany),
    ("bbb-mc-ef-fc_mom", 12, 5, 3, fc_many.BbbMomMany),
]


def small_stream(name, P, K, I, T=4, kind="static", seed=0, size=0.3, log_cond=1.0, alpha=None):
    rng = np.random.default_rng(seed)
    params = (
        {}
        if name.startswith("bong")
        else {"alpha": alpha or (0.1 if name.startswith("blr") else 0.003)}
    )
    params |= {"n_iter": I} if name[:3] in ("blr", "bbb") else {}
    params |= {"n_samples": K} if "-mc-" in name else {}
    m = br.method(name, **params)
    prior = FC(rng.standard_normal(P), spd(rng, P, log_cond))
    return Stream(
        m,
        prior,
        observations(m, rng, P, K, T, size / np.sqrt(P * K), along=True),
        dynamics_of(kind, rng, P),
    )


@pytest.mark.parametrize("name, P, K, I, form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_form_takes_its_steps(name, P, K, I, form, kind):
    """No step here is left to the reference, so that each form is compared for what it computes
    itself.
    """
    s = small_stream(name, P, K, I, kind=kind)
    assert type(fc_forms.start(s.m, s.prior, K, kind != "static")[0]) is form
    assert agree(s, alone=True) is not None


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["signs", "reverse"])
def test_predictions_that_keep_the_variances(rule, family, kind):
    """Nothing that belongs to the covariance before a prediction may serve after it."""
    s = small_stream(f"{rule}-lin-ef-{family}", 60, 1, 3, T=10, kind=kind)
    assert agree(s) is not None


@pytest.mark.parametrize(
    "name", [f"{rule}-lin-ef-{family}" for rule in RULES for family in FAMILIES]
)
@pytest.mark.parametrize("kind", ["static", "ou"])
def test_a_diagonal_prior(name, kind):
    """A prior as Method.prior makes it, whose A is zero until the rows that are deferred no longer
    fit.
    """
    s = small_stream(name, 30, 1, 2, T=50 if name.startswith("bong") else 20, kind=kind, size=0.2)
    assert agree(s._replace(prior=s.m.prior(s.prior.mu, 0.5))) is not None


@pytest.mark.parametrize(
    "name",
    ["bong-lin-ef-fc", "bong-lin-ef-fc_mom", "bog-lin-ef-fc", "bog-lin-ef-fc_mom", "blr-lin-ef-fc"],
)
def test_more_rows_than_are_deferred(name):
    """A absorbs V several times, in tiles of which the last is not full."""
    P = 40 if SLOW else 150
    s = small_stream(
        name,
        P,
        1,
        7,
        T=(3 * fc.DEFERRED + 5) // (7 if name.startswith("blr") else 1),
        size=0.1,
        alpha=1e-4,
    )
    assert agree(s, alone=True) is not None


@pytest.mark.parametrize("name", ["blr-lin-ef-fc", "blr-lin-ef-fc_mom"])
def test_blr_with_a_weight_of_zero(name):
    assert agree(small_stream(name, 40, 1, 5, alpha=1.0, size=0.1)) is not None


@pytest.mark.parametrize(
    "name",
    ["bong-lin-ef-fc", "bong-lin-hess-fc", "bong-mc-ef-fc", "blr-lin-ef-fc", "blr-lin-hess-fc"],
)
@pytest.mark.parametrize("size", [1e2, 1e3, 1e4])
def test_very_informative_observations(name, size):
    """Observations that take a variance down by up to 10⁸: g along the rows, of which Σ_t g is a
    small part of Σ g.
    """
    for seed in range(3):
        s = small_stream(
            name, 20, 5 if "mc" in name else 1, 2, T=3, seed=seed, size=size, alpha=0.5
        )
        assert agree(s) is not None


def test_the_gain_of_an_informative_observation_keeps_its_digits():
    """mu + Σg − K Vᵀg would lose as many digits as Σg is larger than Σ_t g; the closed form, exact
    here, is Σg / (1 + gᵀΣg).
    """
    P, rng = 9, np.random.default_rng(0)
    var, row = 2.0 ** rng.integers(-2, 3, P), 2.0 ** rng.integers(6, 13, P)
    v, parts = (
        var * row,
        fc_forms.start(br.method("bong-lin-hess-fc"), FC(np.zeros(P), np.diag(var)), 1, False),
    )
    assert step(*parts[:3], row * 0.75, row[None], parts[3]) == OK
    assert np.max(np.abs(parts[2].mu / (0.75 * v / (1 + row @ v)) - 1)) < 8 * compare.EPS


@pytest.mark.parametrize("name", ["bong-lin-hess-fc", "blr-lin-hess-fc"])
@pytest.mark.parametrize("ratio", [1e5, 1e8, 1e12, 1e16])
def test_a_diffuse_prior_and_a_sharp_observation(name, ratio):
    """Prior variance over noise variance up to 1e16: the digits of the reference, or its refusal at
    the same step.
    """
    rng, P = np.random.default_rng(0), 40
    m = br.method(name, **({} if name.startswith("bong") else {"alpha": 0.5, "n_iter": 2}))
    x = [rng.standard_normal((P, 1)) for _ in range(6 * m.n_iter)]
    curvs = [
        [Curv(0.3 * v[:, 0], S=v) for v in x[t * m.n_iter : (t + 1) * m.n_iter]] for t in range(6)
    ]
    s = Stream(m, FC(rng.standard_normal(P), ratio * np.eye(P)), curvs, Static())
    states, bad, seen = reference(s, s.prior, *(c for one in curvs for c in one))
    q, refused = Filter(s, 1), None
    for t, one in enumerate(curvs):
        if not q.step(one):
            refused = t + 1
            break
    assert refused == bad and (q.handed == (bad or 6) if ratio > SHARP else q.handed == 0)
    if bad is None:
        for diff in compare.differences(q.state, states[-1], conditions(s, seen)):
            assert diff.agrees, str(diff)


# --- against exact arithmetic ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["bbb-lin-ef-fc", "bbb-lin-ef-fc_mom", "bog-lin-ef-fc", "bog-lin-ef-fc_mom"]
)
@pytest.mark.parametrize("log_cond", [1.0, 5.0, 8.0])
def test_against_exact_arithmetic(name, log_cond):
    """One iteration rounded once, from exact fractions; in bbb two, where the second starts at the
    first.
    """
    P, I = (15, 2) if name.startswith("bbb") else (8, 1)
    s = small_stream(name, P, 1, I, T=1, log_cond=log_cond, alpha=1e-3 / 10**log_cond, size=0.1)
    got = fast(s)[0]
    current, params = None, {k: v for k, v in s.m.params.items() if k != "virtual"}
    for c in s.curvs[0]:
        out = br.oracle.step(
            name, s.prior._asdict(), current, {"g": c.g, "S": c.S}, digits=50, **params
        )
        assert out.pop("valid")
        current = out
    for diff in compare.differences(got, FC(**current), conditions(s, [s.prior, FC(**current)])):
        assert diff.agrees, str(diff)


# --- what the forms are made of -------------------------------------------------------------------


@pytest.mark.parametrize("P, n", [(1, 1), (4, 0), (5, 3), (13, 6), (31, 7), (50, 40), (300, 20)])
@pytest.mark.parametrize("c", [0.0, 1.0, 0.7])
def test_products_with_a_covariance_in_parts(P, n, c):
    """Σx, diag Σ, and Σ when A has absorbed everything."""
    rng = np.random.default_rng(P + n)
    A, q, V, s = (
        spd(rng, P, 1.0),
        rng.uniform(0.1, 1.0, P),
        rng.standard_normal((40, P)),
        rng.choice([-1.0, 1.0], 40),
    )
    state = fc.State(np.zeros(P), np.triu(A), q, V, s, np.array([c]), np.array([n, P % 2]))
    Sigma = c * A + np.diag(q) - (s[:n, None] * V[:n]).T @ V[:n]
    work, tol = fc.workspace(P, 1, 40), 64 * compare.EPS * (1 + np.max(np.abs(Sigma))) * (P + n)
    x, y = rng.standard_normal(P), np.full(P, np.nan)
    fc.times(state, x, y, work)
    assert np.max(np.abs(y - Sigma @ x)) < tol * np.max(np.abs(x))
    fc.variances(state, y)
    assert np.max(np.abs(y - np.diagonal(Sigma))) < tol
    fc.flush(state, work)
    assert np.max(np.abs(np.triu(state.A - Sigma))) < tol
    assert state.c[0] == 1.0 and state.n[0] == 0 and not np.any(state.q)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_inner_loop_of_bbb_that_needs_a_longer_basis(size, monkeypatch):
    """In the middle of an update: the reference takes it."""
    monkeypatch.setattr(fc_forms, "BASIS", size)
    s = small_stream("bbb-lin-ef-fc", 60, 1, 4, T=2, alpha=0.01)
    assert fast(s)[2] > 0 and agree(s) is not None


@pytest.mark.parametrize("often", [0, 2, 100])
@pytest.mark.parametrize("kind", ["static", "ou"])
def test_an_inverse_that_is_updated_along(often, kind):
    """As the precision is computed anew now and then, or in every update, the numbers are the
    same.
    """
    s = small_stream("bbb-lin-ef-fc_mom", 60, 1, 4, T=8, kind=kind)
    q = Filter(s, 1)
    for t, curvs in enumerate(s.curvs):
        if often and t % often == 0:
            q.parts[3].age = fc_loop.RENEWED
        assert q.step(curvs) and not q.handed
    states, _, seen = reference(s, s.prior, *(c for one in s.curvs for c in one))
    for diff in compare.differences(q.state, states[-1], conditions(s, seen)):
        assert diff.agrees, str(diff)


# --- samples, and what is asked of a state --------------------------------------------------------


@pytest.mark.parametrize("name, P, K, I, form", [f for f in FORMS if "-mc-" in f[0]])
@pytest.mark.parametrize("kind", ["static", "ou"])
def test_samples_are_those_of_the_reference(name, P, K, I, form, kind):
    """At every iterate: mu + z Lᵀ with the Cholesky factor of Σ, from the same z."""
    s = small_stream(name, P, K, I, kind=kind)
    q, state = Filter(s, K), s.prior
    rule, prior, now, work = q.parts
    for curvs in s.curvs:
        assert q.predict() == OK and begin(rule, prior, now, work) == OK
        state = current = propagate(state, s.dynamics)
        for i, c in enumerate(curvs):
            Z = np.random.default_rng(i).standard_normal((7, P))
            out = Z.copy()
            assert place(rule, prior, now, out, work) == OK
            diff = compare.difference(
                "theta", out, gaussians.place(current, Z), compare.matrix_condition(current) ** 2
            )
            assert diff.agrees, str(diff)
            assert step(rule, prior, now, c.g.copy(), np.ascontiguousarray(c.S.T), work) == OK
            current = unchecked_step(s.m, state, current, c)[0]
        assert end(rule, prior, now, work) == OK
        state = current


@pytest.mark.parametrize("name, P, K, I, form", FORMS)
def test_the_state_is_left_alone_and_may_be_asked_for_at_any_time(name, P, K, I, form):
    s = small_stream(name, P, K, I)
    before = FC(*(a.copy() for a in s.prior))
    first, second = Filter(s, K), Filter(s, K)
    for one in s.curvs:
        assert first.step(one)
        kept = first.state
        again = FC(*(a.copy() for a in kept))
        assert second.update(one) == OK
    assert all(np.array_equal(a, b) for a, b in zip(before, s.prior, strict=True))
    # asking does not change what comes
    assert all(np.array_equal(a, b) for a, b in zip(kept, second.state, strict=True))
    first.step(s.curvs[0])
    # what was handed out does not move
    assert all(np.array_equal(a, b) for a, b in zip(kept, again, strict=True))


@pytest.mark.parametrize("name, P, K, I, form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(name, P, K, I, form, value):
    s = small_stream(name, P, K, I)
    for where in ("g", "S"):
        q = Filter(s, K)
        assert q.step(s.curvs[0])
        curvs = [Curv(c.g.copy(), S=c.S.copy()) for c in s.curvs[1]]
        getattr(curvs[0], where).flat[0] = value
        with np.errstate(all="ignore"):
            assert q.update(curvs) != OK


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("hess", ["lin-ef", "lin-hess", "mc-ef"])
def test_networks(rule, family, hess):
    """Whole streams by br.run."""
    rng = np.random.default_rng(3)
    X, classes = rng.standard_normal((6, 2)), rng.integers(0, 3, 6)
    little = 0.002 if family == "fc" else 0.00002
    params = {
        "bong": {},
        "blr": {"alpha": 0.3},
        "bog": {"alpha": little},
        "bbb": {"alpha": little},
    }[rule]
    params = (
        params
        | ({"n_iter": 3} if rule in ("blr", "bbb") else {})
        | ({"n_samples": 5} if hess == "mc-ef" else {})
    )
    m = br.method(f"{rule}-{hess}-{family}", **params)
    for lik, sizes, Y in (
        (br.likelihoods.Categorical(), [2, 3, 3], [*classes[:4], None, classes[5]]),
        (br.likelihoods.Gaussian(1.0), [2, 3, 1], list(rng.standard_normal((6, 1)))),
    ):
        model = br.models.mlp(sizes, activation="tanh")
        prior = FC(model.init(np.random.default_rng(0)), 0.01 * spd(rng, model.n_params, 0.5))
        for dynamics in (
            Static(),
            dynamics_of("ou" if model.n_outputs == 1 else "full", rng, model.n_params),
        ):

            def run(p, backend="reference", dynamics=dynamics, model=model, lik=lik, Y=Y):
                return br.run(
                    m,
                    model,
                    lik,
                    p,
                    X,
                    Y,
                    rng=np.random.default_rng(7),
                    dynamics=dynamics,
                    backend=backend,
                ).state

            for diff in compare.differences(
                run(prior, "fast"), run(prior), compare.condition(run, prior, draws=2)
            ):
                assert diff.agrees, f"{m!r}, {type(lik).__name__}, {dynamics!r}: {diff}"


@pytest.mark.filterwarnings("ignore::bongref.errors.LostDigits")
@pytest.mark.parametrize("name", ["bong-lin-hess-fc", "bong-lin-hess-fc_mom"])
def test_a_prediction_that_loses_positive_definiteness_is_noticed_at_the_same_step(name):
    rng = np.random.default_rng(0)
    X, m, dynamics = (
        rng.standard_normal((200, 2)),
        br.method(name),
        Linear([[2.0, 1.0], [0.0, 0.01]]),
    )
    steps = []
    for backend in ("reference", "fast"):
        with pytest.raises(br.StreamEnded) as ended:
            lik = br.likelihoods.Gaussian(var=4.0)
            prior = m.prior(mu=np.zeros(2), var=0.1)
            br.run(
                m, br.models.linear(2), lik, prior, X, X[:, 0], dynamics=dynamics, backend=backend
            )
        steps.append(ended.value.step)
    assert steps[0] == steps[1]

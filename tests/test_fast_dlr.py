"""The compiled DLR steps, belief and streams beside the reference at c · cond · eps; ``python tests/test_fast_dlr.py`` prints the table
of the projection's errors. W is compared only as W Wᵀ."""

from __future__ import annotations

import mpmath
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import agree

import bongref as br
from bongref import gaussians
from bongref.curvature import Curv
from bongref.dynamics import OU, Linear, Static, matrices, propagate
from bongref.families import dlr
from bongref.fast import likelihoods, networks
from bongref.fast import streams as drivers
from bongref.fast.kernels import dlr as fast
from bongref.fast.kernels import one, wide
from bongref.fast.streams import dlr as streams
from bongref.routes import compare
from bongref.routes.exact import _mpf
from bongref.states import DLR

RULES = ("bong", "blr", "bog", "bbb")
SLOW = bool(numba.config.DISABLE_JIT)  # plain Python: small sizes
ALPHA = {"bong": 1.0, "blr": 0.3, "bog": 0.01, "bbb": 0.003}


# --- one step ----------------------------------------------------------------------------------------------------------------


class Problem:
    """A prior, an iterate and a curvature of a given kind."""

    def __init__(self, seed: int, P: int, R: int, K: int, kind: str):
        rng = np.random.default_rng(seed)
        self.states = [
            DLR(rng.standard_normal(P), 10 ** rng.uniform(-1, 1, P), rng.standard_normal((P, R)) * 10 ** rng.uniform(-1, 1, R))
            for _ in range(2)
        ]
        S = rng.standard_normal((P, K))
        if kind == "W = 0":
            self.states = [q._replace(W=np.zeros((P, R))) for q in self.states]
        if kind == "deficient":
            self.states = [q._replace(W=np.outer(q.W[:, 0], np.arange(1.0, R + 1))) for q in self.states]
            S[:] = S[:, :1]
        if kind == "zero rows":
            S[:, 0] = 0
            S[0] = 0
            for q in self.states:
                q.W[0] = 0
                q.W[:, -1] = 0
        if kind == "graded":
            scale = 10.0 ** -np.arange(R + K)
            self.states = [q._replace(W=q.W * scale[:R]) for q in self.states]
            S *= scale[R:]
        self.curv = Curv(rng.standard_normal(P), S=S)


@st.composite
def problems(draw):
    P = draw(st.integers(1, 40))
    kind = draw(st.sampled_from(["plain", "W = 0", "deficient", "zero rows", "graded"]))
    return Problem(draw(st.integers(0, 2**32 - 1)), P, draw(st.integers(1, min(6, P))), draw(st.integers(1, 6)), kind)


@pytest.mark.parametrize("rule", RULES)
@given(p=problems())
@settings(max_examples=10 if SLOW else 60)
def test_step_is_the_reference_step(rule, p):
    alpha = ALPHA[rule]
    wanted = lambda prior, current, curv: getattr(dlr, f"{rule}_woodbury")(prior, current, curv, alpha)
    got = getattr(fast, rule)(*p.states, p.curv, alpha)
    agree(got, wanted(*p.states, p.curv), compare.condition(wanted, *p.states, p.curv), rule)


@pytest.mark.parametrize("left", [1.0, 0.2, 0.02, 1e-6, 0.0])
def test_triangle_from_a_gram_matrix_only_where_it_loses_no_digits(left):
    """A row of which less than a tenth is new beside those before it is left to the Householder steps; a row of zeros is not."""
    rng = np.random.default_rng(8)
    X = np.linalg.qr(rng.standard_normal((30, 4)))[0].T.copy()
    X[3] = left * X[3] + X[1]
    X[2] = 0
    T, G, d = np.zeros((4, 4)), X @ X.T, np.array([1.0, 2.0, 1.0, 3.0])
    assert fast.root(4, G, d, T) == (left > 0.1)
    if left > 0.1:
        assert np.allclose(T @ T.T, d[:, None] * G * d, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("rule", RULES)
def test_step_over_several_blocks(rule):
    """More parameters than a block has columns, and a block that is not full."""
    P = 300 if SLOW else 1001
    p = Problem(1, P, 3, 2, "plain")
    wanted = lambda prior, current, curv: getattr(dlr, f"{rule}_woodbury")(prior, current, curv, ALPHA[rule])
    agree(
        getattr(fast, rule)(*p.states, p.curv, ALPHA[rule]), wanted(*p.states, p.curv), compare.condition(wanted, *p.states, p.curv), rule
    )


@pytest.mark.parametrize("rule", RULES)
def test_step_leaves_what_it_is_given(rule):
    p, same = (Problem(2, 9, 3, 2, "plain") for _ in range(2))
    getattr(fast, rule)(*p.states, p.curv, ALPHA[rule])
    for a, b in zip(
        [*p.states[0], *p.states[1], p.curv.g, p.curv.S], [*same.states[0], *same.states[1], same.curv.g, same.curv.S], strict=True
    ):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("rule", RULES)
def test_step_is_the_same_to_the_bit(rule):
    p = Problem(3, 30, 3, 2, "plain")
    once, twice = (getattr(fast, rule)(*p.states, p.curv, ALPHA[rule]) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(once, twice, strict=True))


@pytest.mark.parametrize("where", ["mu", "Ups", "W", "g", "S"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_is_noticed(rule, where):
    p = Problem(4, 9, 3, 2, "plain")
    arrays = [q._replace() for q in p.states]
    (getattr(p.curv, where) if where in ("g", "S") else getattr(arrays[0], where)).flat[4] = np.nan
    if where not in ("g", "S"):
        getattr(arrays[1], where).flat[4] = np.nan
    assert not gaussians.is_valid(getattr(fast, rule)(*p.states, p.curv, ALPHA[rule]))


@pytest.mark.parametrize("where", ["mu", "Ups", "W", "g", "S"])
@pytest.mark.parametrize("K", [2, 50])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_belief_notices_nan_in_its_step(rule, K, where):
    p = Problem(4, 9, 3, K, "plain")
    b = make_belief(rule, p.states[0])
    b.begin()
    rows = np.ascontiguousarray(p.curv.S.T)
    {"mu": b.mu, "Ups": b.Ups, "W": b.Wt, "g": p.curv.g, "S": rows}[where].flat[4] = np.nan
    try:
        assert not b.step(p.curv.g, rows)
    except streams.NotHere:
        pass


# --- the projection ------------------------------------------------------------------------------------------------------------


@st.composite
def tall(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P, K = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    return np.exp(rng.standard_normal(P)), rng.standard_normal((P, K)), draw(st.integers(1, min(P, K)))


@given(problem=tall())
def test_projection_keeps_the_diagonal_and_is_the_best_of_its_rank(problem):
    Ups, W, rank = problem
    new_Ups, new_W = fast.project(Ups, W, rank)
    assert new_W.shape == (len(Ups), rank)
    diff = compare.difference("diagonal", new_Ups + np.sum(new_W**2, axis=1), Ups + np.sum(W**2, axis=1), 10.0)
    assert diff.agrees, str(diff)
    lost = np.linalg.svd(W, compute_uv=False)[rank:]
    gap = np.linalg.norm(W @ W.T - new_W @ new_W.T)
    assert abs(gap - np.linalg.norm(lost**2)) <= compare.C * 10 * compare.EPS * np.linalg.norm(W) ** 2


@pytest.mark.parametrize("scale", [1e-290, 1e-200, 1e-160, 1e-80, 1e80, 1e150])
def test_projection_at_any_scale(scale):
    rng = np.random.default_rng(5)
    W = rng.standard_normal((9, 4))
    got, wanted = fast.project(np.zeros(9), W * scale, 2), dlr.project(np.zeros(9), W, 2)
    diff = compare.difference("W W^T", (got[1] / scale) @ (got[1] / scale).T, wanted[1] @ wanted[1].T, 100.0)
    assert diff.agrees, str(diff)
    if 1e-140 < scale < 1e140:
        assert compare.difference("Ups", got[0] / scale**2, wanted[0], 100.0).agrees


def test_projection_of_nothing_and_of_nan():
    Ups, W = fast.project(np.ones(5), np.zeros((5, 3)), 2)
    assert np.array_equal(Ups, np.ones(5)) and not np.any(W)
    bad = np.zeros((5, 3))
    bad[1, 1] = np.nan
    assert np.all(np.isnan(fast.project(np.ones(5), bad, 2)[0]))


def tilted(rng, cond, P=20, K=6):
    """W̃ with singular values from 1 to 1/cond, in directions of no special kind."""
    U, V = (np.linalg.qr(rng.standard_normal((n, K)))[0] for n in (P, K))
    return (U * np.geomspace(1, 1 / cond, K)) @ V.T


def graded(rng, cond, P=20, K=6):
    """W̃ whose rows have sizes from 1 to 1/√cond, and so have its columns before they are turned."""
    W = np.geomspace(1, cond**-0.5, P)[:, None] * rng.standard_normal((P, K)) * np.geomspace(1, cond**-0.5, K)
    return W @ np.linalg.qr(rng.standard_normal((K, K)))[0]


def by_gram(Ups_tilde, W_tilde, rank):
    """The projection with V from the eigenvectors of W̃ᵀW̃: half of the digits of the small directions are gone."""
    V = np.linalg.eigh(W_tilde.T @ W_tilde)[1][:, ::-1]
    out = W_tilde @ V
    return Ups_tilde + np.sum(out[:, rank:] ** 2, axis=1), out[:, :rank]


def by_many(Ups_tilde, W_tilde, rank):
    """The projection as the belief makes it from many rows, beside as many rows of 0; in two parts. A Υ of 0 could not be divided by."""
    P, K = W_tilde.shape
    Ups, Wt = np.maximum(Ups_tilde, 1e-290), np.zeros((rank, P))
    many = streams.Wide((np.zeros(P), Ups, Wt), (), K, jobs=2)
    many.data = many.data._replace(rows=np.ascontiguousarray(W_tilde.T))
    many.go(wide.GRAMS)
    many.place(many.leading())
    many.go(wide.SETTLE)
    return Ups, Wt.T


ROUTES = {
    "compiled": fast.project,
    "many rows": by_many,
    "reference": dlr.project,
    "by the Gram matrix": by_gram,
    "as printed": dlr.project_printed,
}


def projection_errors(kinds=(tilted, graded), conds=(1.0, 1e2, 1e4, 1e6, 1e8, 1e10), draws=3):
    """{(kind, cond): {route: error}}: the largest error of what Υ gains, relative to its largest entry, beside 60 digits."""
    table = {}
    for kind in kinds:
        for cond in conds:
            worst = dict.fromkeys(ROUTES, 0.0)
            for seed in range(draws):
                W, rank = kind(np.random.default_rng(seed), cond), 3
                if cond == 1.0 and kind is tilted:  # equal singular values would leave the projection undetermined
                    W[:, :rank] *= 2
                with mpmath.mp.workdps(60):
                    wanted = dlr.project(_mpf(np.zeros(len(W))), _mpf(W), rank)[0].astype(float)
                for name, route in ROUTES.items():
                    got = route(np.zeros(len(W)), W, rank)[0]
                    worst[name] = max(worst[name], float(np.max(np.abs(got - wanted)) / np.max(wanted)))
            table[kind.__name__, cond] = worst
    return table


@pytest.mark.parametrize("kind", [tilted, graded])
def test_projection_is_as_accurate_as_the_reference(kind):
    """Beside 60 digits, for cond(W̃) from 1 to 1e10: no worse than the reference's Householder steps, and far better than a Gram matrix."""
    table = projection_errors([kind], (1.0, 1e4, 1e6, 1e10), draws=2)
    for (_, cond), errors in table.items():
        for route in ("compiled", "many rows"):
            assert errors[route] <= compare.C * cond * compare.EPS, (route, cond, errors)
            assert errors[route] <= 16 * errors["reference"] + 16 * compare.EPS, (route, cond, errors)
    hard = table[kind.__name__, 1e10]
    worst = max(hard["compiled"], hard["many rows"])
    assert hard["by the Gram matrix"] > 10 * worst and hard["as printed"] > 30 * worst


# --- the belief ----------------------------------------------------------------------------------------------------------------


def moves(kind, rng, P):
    return {
        "static": Static(),
        "ou": OU(0.9, mu0=rng.standard_normal(P), var0=rng.uniform(0.5, 2, P)),
        "linear": Linear(F=rng.uniform(0.8, 1.1, P), b=0.1, Q=0.01),
    }[kind]


def make_belief(rule, state, dynamics=None):
    m = br.method(f"{rule}-mc-ef-dlr", rank=state.W.shape[1], **({} if rule == "bong" else {"alpha": ALPHA[rule]}))
    return streams.Belief(m, state, None if dynamics is None else matrices(dynamics, len(state.mu)))


@given(p=problems())
@settings(max_examples=10 if SLOW else 40)
def test_draws_are_the_reference_draws(p):
    q, z = p.states[0], np.random.default_rng(0).standard_normal((streams.ROWS + 3, len(p.curv.g)))
    out = z.copy()
    make_belief("bong", q).draw(out)
    wanted = lambda s: DLR(q.mu + gaussians._dlr_noise(s.Ups, s.W, z)[0], s.Ups, s.W)
    cond = compare.condition(wanted, q)["mu"]
    for row, target in zip(out, q.mu + gaussians._dlr_noise(q.Ups, q.W, z), strict=True):
        diff = compare.difference("draw", row, target, cond, size=float(np.max(np.abs(z) / np.sqrt(q.Ups))))
        assert diff.agrees, str(diff)


@pytest.mark.parametrize("kind", ["ou", "linear"])
@given(p=problems())
@settings(max_examples=5 if SLOW else 25)
def test_prediction_is_the_reference_prediction(kind, p):
    q = p.states[0]
    dynamics = moves(kind, np.random.default_rng(0), len(q.mu))
    b = make_belief("bong", q, dynamics)
    b.predict()
    agree(b.state(), propagate(q, dynamics), compare.condition(lambda s: propagate(s, dynamics), q), kind)


@pytest.mark.parametrize("K", [2, 50])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["plain", "W = 0"])
def test_belief_over_a_few_steps(kind, rule, K):
    """A stream of given curvatures with few and with many rows, two inner iterations each, OU dynamics."""
    P, T, I = 30, 2 if SLOW else 4, 2 if rule in ("blr", "bbb") else 1
    p = Problem(6, P, 3, K, kind)
    dynamics, alpha = OU(0.95, var0=2.0), ALPHA[rule]
    rng = np.random.default_rng(7)
    curvs = [Curv(rng.standard_normal(P), S=rng.standard_normal((P, K)) / np.sqrt(K)) for _ in range(T * I)]
    step = getattr(dlr, f"{rule}_woodbury")

    def wanted(state, *curvs):
        for t in range(T):
            prior = state = propagate(state, dynamics)
            for curv in curvs[t * I : t * I + I]:
                state = step(prior, state, curv, alpha)
        return state

    b = make_belief(rule, p.states[0], dynamics)
    for t in range(T):
        b.predict()
        b.begin()
        for curv in curvs[t * I : t * I + I]:
            assert b.step(curv.g, np.ascontiguousarray(curv.S.T))
        b.end()
    agree(b.state(), wanted(p.states[0], *curvs), compare.condition(wanted, p.states[0], *curvs), rule)


def test_belief_hands_over_what_it_does_not_cover():
    q = DLR(np.zeros(3), np.array([1.0, 1.0, -0.1]), np.ones((3, 1)))
    assert gaussians.is_valid(q)
    with pytest.raises(streams.NotHere):
        make_belief("bog", q)
    b = make_belief("bbb", DLR(np.zeros(3), np.array([100.0, 100.0, 1.0]), 0.1 * np.ones((3, 1))))
    b.begin()
    b.Ups[2] = 40.0  # far above the prior's: the step takes it below 0
    b.alpha = 4e3
    with pytest.raises(streams.NotHere):
        b.step(np.zeros(3), np.zeros((1, 3)))


# --- compiled streams --------------------------------------------------------------------------------------------------------------

CASES = {
    "linear, Gaussian": (br.models.linear(3, 2), br.likelihoods.Gaussian(var=0.5)),
    "MLP, Bernoulli": (br.models.mlp([2, 3, 1], activation="gelu"), br.likelihoods.Bernoulli()),
    "MLP, softmax": (br.models.mlp([2, 3, 3], activation="tanh"), br.likelihoods.Categorical()),
    "linear, Poisson": (br.models.linear(3, 1, bias=True), br.likelihoods.Poisson()),
}


def observations(case, T, seed=0):
    model, lik = CASES[case]
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, *model.in_shape))
    theta = model.init(rng)
    return X, [lik.sample(model(theta, x), rng) for x in X]


def start(m, model, seed=1):
    """A prior with a W that is not 0, for every rule."""
    rng = np.random.default_rng(seed)
    P = model.n_params
    return DLR(0.3 * rng.standard_normal(P), rng.uniform(0.5, 3, P), 0.5 * rng.standard_normal((P, m.params["rank"])))


def run_fast(m, model, lik, prior, X, Y, dynamics=None, threads=1):
    """The state, the number of steps and the code of the compiled stream."""
    dynamics = Static() if dynamics is None else dynamics
    net, empty = networks.describe(model), np.empty(0)
    flat = np.array([np.ravel(x) for x in X], dtype=float)
    C = model.n_outputs
    targets = np.array([np.zeros(C) if y is None else lik.encode(y, C) for y in Y], dtype=float).reshape(len(X), C)
    seen = np.array([y is not None for y in Y])
    f, c, q = (empty, empty, empty) if isinstance(dynamics, Static) else matrices(dynamics, model.n_params)
    mu, Ups, Wt = prior.mu.copy(), prior.Ups.copy(), np.ascontiguousarray(prior.W.T)
    hess = 0 if m.hess == "lin-hess" else 1
    lik_, work = likelihoods.describe(lik, C), networks.workspace(net, C + 1)
    fellows = [networks.fellow(net, work, C + 1) for _ in range(threads - 1)]
    done, code = streams.stream(
        net, work, lik_, hess, m.rule, flat, targets, seen, mu, Ups, Wt, float(m.params.get("alpha", 1)), m.n_iter, f, c, q, fellows
    )  # fmt: skip
    return DLR(mu, Ups, Wt.T), done, code


def make_method(rule, hess, **more):
    params = {"rank": 2} if rule == "bong" else {"rank": 2, "alpha": ALPHA[rule]}
    params |= {"n_iter": 3} if rule in ("blr", "bbb") else {}
    return br.method(f"{rule}-{hess}-dlr", **(params | more))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["static", "ou", "linear"])
def test_stream_is_the_reference_stream(rule, hess, case, kind):
    (model, lik), T = CASES[case], 4 if SLOW else 8
    m = make_method(rule, hess)
    X, Y = observations(case, T)
    Y[2] = None
    prior, dynamics = start(m, model), moves(kind, np.random.default_rng(2), model.n_params)
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, dynamics=dynamics, backend="reference").state
    got, done, code = run_fast(m, model, lik, prior, X, Y, dynamics)
    assert (done, code) == (T, 0)
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X), f"{m.name}, {case}, {kind}")


@pytest.mark.parametrize("rule", ["bong", "blr"])
def test_stream_from_no_low_rank_part(rule):
    """W = 0 at the start, and W̃ of less than full rank until enough observations have come."""
    m = make_method(rule, "lin-ef", rank=5)
    model, lik = CASES["MLP, softmax"]
    X, Y = observations("MLP, softmax", 3 if SLOW else 12)
    prior = m.prior(0.1 * np.ones(model.n_params), 1.0)
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, backend="reference").state
    got, _, code = run_fast(m, model, lik, prior, X, Y)
    assert code == 0
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X), rule)


@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef"])
@pytest.mark.parametrize("W", ["orthogonal", "any", "deficient", "none"])
def test_blr_in_a_basis(hess, W):
    """One row in S and n_iter ≤ R: the inner loop in coefficients, from rows of W that are orthogonal or are not."""
    model, lik = CASES["MLP, Bernoulli"]
    m = make_method("blr", hess, rank=4, n_iter=4)
    X, Y = observations("MLP, Bernoulli", 3 if SLOW else 8)
    prior = start(m, model)
    if W == "orthogonal":
        prior = prior._replace(W=np.linalg.qr(prior.W)[0] * [4, 3, 2, 1])
    if W == "deficient":
        prior.W[:, 1:] = 0.2 * prior.W[:, :1]
    if W == "none":
        prior.W[:] = 0
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, dynamics=OU(0.95), backend="reference").state
    got, done, code = run_fast(m, model, lik, prior, X, Y, OU(0.95))
    assert (done, code) == (len(X), 0)
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X), f"{m.name}, W {W}")


def test_blr_in_a_basis_when_a_gradient_is_not_new():
    """A linear model has the same row J in every iteration: nothing of it is left beside the basis from the second one on."""
    model, lik = br.models.linear(9, 1), br.likelihoods.Gaussian(var=0.5)
    m = make_method("blr", "lin-hess", rank=4, n_iter=4)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((6, 9))
    Y = list(rng.standard_normal((6, 1)))
    prior = start(m, model)
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, backend="reference").state
    got, done, code = run_fast(m, model, lik, prior, X, Y)
    assert (done, code) == (6, 0)
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X), m.name)


# --- one row in S ------------------------------------------------------------------------------------------------------------------


def padded(A):
    """The rows of A, flat, each filled up to a multiple of 4."""
    n = len(A)
    out = np.zeros((n, (n + 3) // 4 * 4))
    out[:, :n] = A
    return out.reshape(-1), out.shape[1]


@given(n=st.integers(1, 14), decades=st.sampled_from([1e-3, 0.1, 1.0, 3.0]), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20 if SLOW else 200)
def test_least_eigenvector(n, decades, seed):
    """Beside LAPACK, also where many eigenvalues lie side by side: the angle is eps · |A| / gap. And solutions with the factor."""
    rng = np.random.default_rng(seed)
    Q, values = np.linalg.qr(rng.standard_normal((n, n)))[0], np.sort(10 ** rng.uniform(-decades, 0, n))
    A = (Q * values) @ Q.T
    A = (A + A.T) / 2
    (a, N), y = padded(A), rng.standard_normal(n)
    U, back, x, room, z = np.zeros(n * N), np.zeros(N), np.zeros(N), np.zeros(N), np.zeros(N)
    assert 0 < fast.triangular(a, n, N, -1.0, U, back) <= 1
    z[:n] = y
    fast.divide(U, back, n, N, z)
    assert np.allclose((A + np.eye(n)) @ z[:n], y, rtol=0, atol=1e-14 * n * np.linalg.norm(y))
    assert fast.triangular(a, n, N, 0.0, U, back) > 0 and one.least(a, n, N, U, back, x, room)
    gap = values[1] - values[0] if n > 1 else 1.0
    assert np.linalg.norm(x[:n] - Q[:, 0] * np.sign(Q[:, 0] @ x[:n])) * gap <= 64 * n * compare.EPS * values[-1]
    assert not fast.triangular(padded(A)[0], n, N, values[0] * 1.01 + 1e-9, U, back) > 0


def test_least_eigenvector_among_groups_of_rows_that_have_nothing_in_common():
    """The least pivot is in one group, the least eigenvalue in the other; and two that are equal but for a tie of 1e-6."""
    A, B = np.array([[5, 4.88], [4.88, 5]]), np.full((3, 3), -0.45) + 1.45 * np.eye(3)
    both = np.block([[A, np.zeros((2, 3))], [np.zeros((3, 2)), B]])
    for matrix, wanted in ((both, [0, 0, 1, 1, 1]), (np.array([[1, 1e-6], [1e-6, 1]]), [1, -1])):
        (a, N), n = padded(matrix), len(matrix)
        U, back, x, room = np.zeros(n * N), np.zeros(N), np.zeros(N), np.zeros(N)
        assert fast.triangular(a, n, N, 0.0, U, back) > 0 and one.least(a, n, N, U, back, x, room)
        assert abs(abs(x[:n] @ wanted) / np.linalg.norm(wanted) - 1) < 1e-15 * n


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("R", [1, 2, 3, 6, 10])
def test_products_of_rows_in_a_ring(R, parts):
    """All pairs of rows, in blocks and parts that are not full."""
    P, rng = 45 if SLOW else 301, np.random.default_rng(R)
    Wt, j, Ups = rng.standard_normal((R, P)), rng.standard_normal(P), rng.uniform(1, 2, P)
    b, n = one.one(R, P, parts), R + 1
    for k in range(parts):
        one.one_part(fast.MEASURE, k, True, Wt, Wt.reshape(-1), j, np.zeros(P), Ups, np.ones(3), 1.0, b)
    X, N = np.vstack([Wt, j]), b.few.shape[1]
    for which, wanted in ((one.GRAM, X @ X.T), (one.WEIGHED, (X / Ups) @ X.T)):
        one.unroll(n, which, b)
        assert np.allclose(b.small[which, : n * N].reshape(n, N)[:, :n], wanted, rtol=0, atol=1e-12)


ROWS = ["any", "orthogonal", "tilted 1e2", "tilted 1e4", "tilted 1e7", "none", "one", "deficient"]


@pytest.mark.parametrize("W", ROWS)
@pytest.mark.parametrize("rule", ["bong", "bog"])
def test_stream_with_one_row(rule, W, monkeypatch):
    """Rows of W of many kinds. Only a W̃ next to no full rank is left to the kernels for any number of rows."""
    model, lik = br.models.linear(12, 1), br.likelihoods.Gaussian(var=0.5)
    m, T = make_method(rule, "lin-hess", rank=4), 3 if SLOW else 6
    rng = np.random.default_rng(3)
    X, prior = rng.standard_normal((T, 12)), start(m, model)
    Y = list(rng.standard_normal((T, 1)))
    if W == "orthogonal":
        prior = prior._replace(W=np.linalg.qr(prior.W)[0] * [4, 3, 2, 1])
    if W.startswith("tilted"):
        prior = prior._replace(W=3 * tilted(rng, float(W.split()[1]), 12, 4))
    if W in ("none", "one"):
        prior.W[:, W == "one" :] = 0
    if W == "deficient":
        prior.W[:, 1:] = 0.2 * prior.W[:, :1]
    left, whole = [], streams.STREAMS[rule]
    monkeypatch.setitem(streams.STREAMS, rule, lambda *args: left.append(1) or whole(*args))
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, backend="reference").state
    got, done, code = run_fast(m, model, lik, prior, X, Y)
    assert (done, code) == (T, 0) and bool(left) == (rule == "bong" and W in ("tilted 1e7", "deficient"))
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X), f"{m.name}, W {W}")


def test_what_is_lost_is_measured_on_the_rows():
    """The Gram matrix alone leaves the least direction of a tilted W̃ with half of its digits; the turn gives the others back."""
    P, R, rng = 30, 5, np.random.default_rng(5)
    X = np.ascontiguousarray(tilted(rng, 1e4, P, R + 1).T)
    Wt, j, s = np.ascontiguousarray(X[:R]), X[R].copy(), np.ones(3)
    b, n = one.one(R, P, 1), R + 1
    N, part = b.few.shape[1], lambda kind: one.one_part(kind, 0, True, Wt, Wt.reshape(-1), j, np.zeros(P), np.ones(P), s, 1.0, b)
    part(fast.MEASURE)
    assert one.bong_small(n, N, s, b) == fast.OK
    exact, turns = np.linalg.svd(X)[0][:, -1], []
    off = lambda: np.linalg.norm((b.few[one.DIRECTION, :n] * np.sign(b.few[one.DIRECTION, :n] @ exact) - exact) @ X) / 1e-4
    before = off()
    for _ in range(2):
        b.few[one.SPARE, 0] = b.few[one.DIRECTION, R]
        part(one.CHECK)
        turns.append(one.correct(n, N, 1.0, b))
    assert before > 1e-11 and off() < 64 * 1e4 * compare.EPS and turns[1] < 1e-3 * turns[0]


@pytest.mark.parametrize("rule", ["blr", "bbb"])
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef", "mc-ef"])
@pytest.mark.parametrize("C", [1, 3])
def test_the_prior_of_one_observation_is_read_where_it_is(rule, hess, C, monkeypatch):
    """One observation at a time, whose prior is the state before it: the same bits as several at a time, and no state is written to."""
    m = make_method(rule, hess, **({"n_samples": 5} if hess == "mc-ef" else {}))
    model, rng = br.models.mlp([2, 3, C], activation="tanh"), np.random.default_rng(C)
    P, X, Y = model.n_params, rng.standard_normal((9, 2)), rng.standard_normal((9, C))
    prior = DLR(model.init(rng), rng.uniform(20, 60, P), rng.standard_normal((P, 2)))
    for a in prior:
        a.flags.writeable = False
    seen = []
    several, alone = (
        br.run(m, model, br.likelihoods.Gaussian(var=1.0), prior, X, Y, rng=np.random.default_rng(3), backend="fast", **more).state
        for more in ({}, {"every": 1, "metrics": lambda m, model, lik, state, rng: seen.append((state, [a.copy() for a in state])) or {}})
    )
    monkeypatch.setattr(drivers, "TALL", 0)
    tall = br.run(m, model, br.likelihoods.Gaussian(var=1.0), prior, X, Y, rng=np.random.default_rng(3), backend="fast").state
    assert all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(several, alone, tall, strict=True))
    assert len(seen) == 9 and all(np.array_equal(a, b) for state, then in seen for a, b in zip(state, then, strict=True))


@pytest.mark.skipif(SLOW, reason="plain Python has one thread")
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef"])
@pytest.mark.parametrize("rule", [*RULES, "thin"])
def test_threads_share_a_stream(rule, hess):
    """Two threads, each with a part of the parameters: the reference's numbers, the same bits each time."""
    more = {"rank": 4} if rule == "thin" else {}
    m = make_method("blr" if rule == "thin" else rule, hess, **more)
    model, lik = br.models.mlp([2, 40, 3], activation="tanh"), br.likelihoods.Categorical()
    rng = np.random.default_rng(4)
    X = rng.standard_normal((5, 2))
    Y = list(rng.integers(0, 3, 5))
    prior = start(m, model)
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, backend="reference").state
    (got, done, code), (again, _, _) = (run_fast(m, model, lik, prior, X, Y, threads=2) for _ in range(2))
    assert (done, code) == (5, 0)
    assert all(np.array_equal(a, b) for a, b in zip(got, again, strict=True))
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X), m.name)


@pytest.mark.skipif(SLOW, reason="plain Python has one thread")
@pytest.mark.parametrize("C", [5, 9])
def test_threads_share_a_stream_of_images(C):
    """Each thread has rows of its own: two or three of them, or so many that they are taken together."""
    m = make_method("bong", "lin-hess")
    model, lik = br.models.cnn((12, 12, 1), C, features=(3, 4), kernel=(3, 3), hidden=5), br.likelihoods.Categorical()
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(5, 12, 12, 1))
    Y = list(rng.integers(0, C, 5))
    prior = start(m, model)
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, backend="reference").state
    (got, done, code), (again, _, _) = (run_fast(m, model, lik, prior, X, Y, threads=2) for _ in range(2))
    assert (done, code) == (5, 0)
    assert all(np.array_equal(a, b) for a, b in zip(got, again, strict=True))
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X), m.name)


def test_long_stream_does_not_drift():
    T = 20 if SLOW else 500
    m = br.method("bong-lin-hess-dlr", rank=3)
    model, lik = br.models.mlp([2, 4, 1], activation="tanh"), br.likelihoods.Gaussian(var=0.5)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((T, 2))
    Y = list(np.sin(X[:, :1]) + 0.1 * rng.standard_normal((T, 1)))
    prior = m.prior(0.5 * rng.standard_normal(model.n_params), 1.0)
    wanted = lambda prior, X: br.run(m, model, lik, prior, X, Y, backend="reference").state
    got, done, code = run_fast(m, model, lik, prior, X, Y)
    assert (done, code) == (T, 0)
    agree(got, wanted(prior, X), compare.condition(wanted, prior, X, draws=2), "500 steps")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef"])
def test_lost_positive_definiteness_is_noticed_in_its_step(hess):
    """Whatever the reference refuses, the stream stops at in that step, or before where a Υ ≤ 0 or a runaway W came first."""
    model, lik = CASES["linear, Gaussian"]
    X, Y = observations("linear, Gaussian", 6 if SLOW else 30)
    stopped = exactly = 0
    for alpha in (0.5, 2.0, 8.0, 30.0, 100.0, 1000.0):
        m = make_method("bbb", hess, alpha=alpha)
        prior = start(m, model)
        _, done, code = run_fast(m, model, lik, prior, X, Y)
        try:
            br.run(m, model, lik, prior, X, Y, backend="reference")
            assert code in (0, 3), (alpha, done, code)
        except br.NotPositiveDefinite as error:
            assert code in (1, 3) and done <= error.step - 1, (alpha, done, code, error.step)
            stopped += 1
            exactly += done == error.step - 1
    assert stopped >= 2 and exactly >= 1


@pytest.mark.skipif(SLOW, reason="math.exp raises in plain Python what it returns as inf when compiled")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_gradient_that_overflows_is_noticed_in_its_step(rule):
    model, lik = CASES["linear, Poisson"]
    m = make_method(rule, "lin-ef")
    X, Y = observations("linear, Poisson", 4)
    prior = start(m, model)
    X[2] = 4000 * np.sign(prior.mu[:3])
    with pytest.raises(FloatingPointError, match="step 3"):
        br.run(m, model, lik, prior, X, Y, backend="reference")
    assert run_fast(m, model, lik, prior, X, Y)[1:] == (2, 2)


def test_stream_hands_over_what_it_does_not_cover():
    model, lik = CASES["linear, Gaussian"]
    m = make_method("bog", "lin-hess")
    X, Y = observations("linear, Gaussian", 3)
    prior = start(m, model)
    prior.Ups[0], prior.W[0] = -1e-3, 1.0
    assert gaussians.is_valid(prior)
    assert run_fast(m, model, lik, prior, X, Y)[1:] == (0, 3)


def test_missing_observations_move_the_belief_by_the_dynamics_alone():
    model, lik = CASES["linear, Gaussian"]
    m = make_method("bong", "lin-hess")
    X, _ = observations("linear, Gaussian", 3)
    prior, dynamics = start(m, model), OU(0.9)
    wanted = prior
    for _ in range(3):
        wanted = propagate(wanted, dynamics)
    got, done, code = run_fast(m, model, lik, prior, X, [None] * 3, dynamics)
    assert (done, code) == (3, 0)
    agree(got, wanted, dict.fromkeys(("mu", "Ups", "W W^T"), 100.0), "prediction")


if __name__ == "__main__":
    print(f"{'W':8s} {'cond':>6s}  " + "  ".join(f"{name:>18s}" for name in ROUTES))
    for (kind, cond), errors in projection_errors().items():
        print(f"{kind:8s} {cond:6.0e}  " + "  ".join(f"{errors[name]:18.1e}" for name in ROUTES))

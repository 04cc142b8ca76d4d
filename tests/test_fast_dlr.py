"""The compiled DLR steps against the reference at c · cond · eps; ``python tests/test_fast_dlr.py``
prints the table of the projection's errors. W is compared only as W Wᵀ.
"""

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
from bongref.dynamics import OU, Linear, matrices, propagate
from bongref.families import dlr
from bongref.fast import dlr as fast
from bongref.fast import dlr_blocks as blocks
from bongref.fast import dlr_projection
from bongref.fast.generic import begin, end, place, predict, step
from bongref.fast.status import OK, UNSUPPORTED
from bongref.fast.stream import Stream
from bongref.routes import compare
from bongref.routes.exact import _mpf
from bongref.states import DLR

RULES = ("bong", "blr", "bog", "bbb")
SLOW = bool(numba.config.DISABLE_JIT)  # plain Python: small sizes
ALPHA = {"bong": 1.0, "blr": 0.3, "bog": 0.01, "bbb": 0.003}


def reference(rule):
    return lambda prior, current, curv: getattr(dlr, f"{rule}_woodbury")(
        prior, current, curv, ALPHA[rule]
    )


def compiled(rule, prior, current, curv, alpha=None):
    """One compiled step; (state, status)."""
    K = curv.S.shape[1]
    parts = fast.start(rule, ALPHA[rule] if alpha is None else alpha, prior, K)
    _, _, state, work = parts
    begin(*parts)
    if rule in ("blr", "bbb"):
        state.mu[:], state.Ups[:], state.Wt[:] = current.mu, current.Ups, current.W.T
    status = step(*parts[:3], curv.g.copy(), np.ascontiguousarray(curv.S.T), work)
    end(*parts)
    return fast.finish(parts[0], state, work), status


# --- one step -------------------------------------------------------------------------------------


class Problem:
    """A prior, an iterate and a curvature of a given kind."""

    def __init__(self, seed: int, P: int, R: int, K: int, kind: str):
        rng = np.random.default_rng(seed)
        self.kind = kind
        self.states = [
            DLR(
                rng.standard_normal(P),
                10 ** rng.uniform(-1, 1, P),
                rng.standard_normal((P, R)) * 10 ** rng.uniform(-1, 1, R),
            )
            for _ in range(2)
        ]
        S = rng.standard_normal((P, K))
        if kind == "W = 0":
            self.states = [q._replace(W=np.zeros((P, R))) for q in self.states]
        if kind == "at the prior":
            self.states[1] = self.states[0]
        if kind == "deficient":
            self.states = [
                q._replace(W=np.outer(q.W[:, 0], np.arange(1.0, R + 1))) for q in self.states
            ]
            S[:] = S[:, :1]
        if kind == "nearly dependent":
            S = self.states[0].W[:, :1] * np.arange(1, K + 1) + 1e-5 * S
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

    def __repr__(self):
        return f"{self.kind}, P, R = {self.states[0].W.shape}, K = {self.curv.S.shape[1]}"


KINDS = ["plain", "W = 0", "at the prior", "deficient", "nearly dependent", "zero rows", "graded"]


@st.composite
def problems(draw):
    P = draw(st.integers(1, 40))
    R = draw(st.one_of(st.integers(1, min(6, P)), st.just(min(P, 6))))
    return Problem(
        draw(st.integers(0, 2**32 - 1)), P, R, draw(st.integers(1, 9)), draw(st.sampled_from(KINDS))
    )


def smallest_kept(rule, p):
    """σ_R/σ₁ of W̃."""
    (prior, now), R = (q.W for q in p.states), p.states[0].W.shape[1]
    blocks = (
        [prior, p.curv.S]
        if rule == "bong"
        else [np.sqrt(0.7) * now, np.sqrt(0.3) * prior, np.sqrt(0.3) * p.curv.S]
    )
    sizes = np.linalg.svd(np.concatenate(blocks, axis=1), compute_uv=False)
    return sizes[R - 1] / sizes[0] if sizes[0] > 0 else 1.0


@pytest.mark.parametrize("rule", RULES)
@given(p=problems())
@settings(max_examples=10 if SLOW else 100)
def test_step_is_the_reference_step(rule, p):
    """A step of bong or blr is refused only where a direction that is kept is too small for
    W̃ᵀW̃ to show it.
    """
    got, status = compiled(rule, *p.states, p.curv)
    assert status == OK or (
        status == UNSUPPORTED and rule in ("bong", "blr") and smallest_kept(rule, p) < 1e-5
    ), p
    if status == OK:
        agree(
            got,
            reference(rule)(*p.states, p.curv),
            compare.condition(reference(rule), *p.states, p.curv),
            f"{rule}, {p}",
        )


@pytest.mark.parametrize("K", [1, 2, 45])
@pytest.mark.parametrize("rule", RULES)
def test_step_over_several_blocks(rule, K, monkeypatch):
    """More parameters than a block has columns, and a last block that is not full."""
    monkeypatch.setattr(blocks, "BLOCK", 16 * (K + 8))
    P = 70 if SLOW else 333
    p = Problem(1, P, 3, K, "plain")
    assert blocks.workspace(P, 3, K, rule).width < P / 3
    got, status = compiled(rule, *p.states, p.curv)
    assert status == OK
    agree(
        got,
        reference(rule)(*p.states, p.curv),
        compare.condition(reference(rule), *p.states, p.curv),
        rule,
    )


@pytest.mark.parametrize("K", [1, 2, 45])
@pytest.mark.parametrize("rule", RULES)
def test_steps_in_several_blocks_of_parameters(rule, K, monkeypatch):
    """The reference's numbers also where the parameters are more than one block."""
    p = Problem(1, 100, 3, K, "nearly dependent" if K == 2 else "plain")
    monkeypatch.setattr(blocks, "BLOCK", 16 * (K + 8))
    got, status = compiled(rule, *p.states, p.curv)
    assert status == OK
    cond = compare.condition(reference(rule), *p.states, p.curv)
    agree(got, reference(rule)(*p.states, p.curv), cond, rule)


@pytest.mark.parametrize("rule", RULES)
def test_buffers_for_more_rows_serve_fewer(rule):
    """A stream has buffers for the most rows of its steps."""
    p = Problem(9, 20, 3, 2, "plain")
    _, prior, state, work = parts = fast.start(rule, ALPHA[rule], p.states[0], 7)
    begin(*parts)
    assert (
        step(parts[0], prior, state, p.curv.g.copy(), np.ascontiguousarray(p.curv.S.T), work) == OK
    )
    wanted = lambda q, curv: reference(rule)(q, q, curv)
    agree(
        fast.finish(parts[0], state, work),
        wanted(p.states[0], p.curv),
        compare.condition(wanted, p.states[0], p.curv),
        rule,
    )


@pytest.mark.parametrize("rule", RULES)
def test_step_leaves_what_it_is_given_and_is_the_same_to_the_bit(rule):
    p, same = (Problem(2, 9, 3, 2, "plain") for _ in range(2))
    (once, _), (twice, _) = (compiled(rule, *p.states, p.curv) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(once, twice, strict=True))
    given_, fresh = ([*q.states[0], *q.states[1], q.curv.g, q.curv.S] for q in (p, same))
    assert all(np.array_equal(a, b) for a, b in zip(given_, fresh, strict=True))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["mu", "Ups", "W", "g", "S"])
@pytest.mark.parametrize("K", [1, 30])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_finite_is_noticed(rule, K, where, value):
    p = Problem(4, 9, 3, K, "plain")
    for holder in (p.curv,) if where in ("g", "S") else p.states:
        getattr(holder, where).flat[4] = value
    got, status = compiled(rule, *p.states, p.curv)
    assert status != OK or (
        where == "Ups"
        and value == np.inf
        and gaussians.is_valid(got._replace(Ups=np.minimum(got.Ups, 1e300)))
    )


@pytest.mark.parametrize("scale", [1e-150, 1e-60, 1e60, 1e150])
@pytest.mark.parametrize("rule", ["bong", "blr"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_extreme_scales(rule, scale):
    """Precisions of any size: the reference's numbers, or none where squares leave the range of
    float64.
    """
    p = Problem(5, 12, 3, 2, "plain")
    states = [DLR(q.mu / scale, q.Ups * scale**2, q.W * scale) for q in p.states]
    got, status = compiled(rule, *states, Curv(p.curv.g * scale, S=p.curv.S * scale))
    assert status == (OK if 1e-100 < scale < 1e100 else UNSUPPORTED)
    if status == OK:
        wanted, cond = (
            reference(rule)(*p.states, p.curv),
            compare.condition(reference(rule), *p.states, p.curv),
        )
        agree(DLR(got.mu * scale, got.Ups / scale**2, got.W / scale), wanted, cond, rule)


def test_what_the_steps_do_not_cover_is_refused():
    q = DLR(np.zeros(3), np.array([1.0, 1.0, -0.1]), np.ones((3, 1)))
    assert gaussians.is_valid(q)
    curv = Curv(np.ones(3), S=np.ones((3, 1)))
    for rule in RULES:
        assert compiled(rule, q, q, curv)[1] == UNSUPPORTED
    good = Problem(0, 6, 2, 1, "plain")
    assert compiled("blr", *good.states, good.curv, alpha=1.5)[1] == UNSUPPORTED


# --- the projection -------------------------------------------------------------------------------


def tilted(rng, cond, P=20, K=6):
    """W̃ with singular values from 1 to 1/cond, in directions of no special kind."""
    U, V = (np.linalg.qr(rng.standard_normal((n, K)))[0] for n in (P, K))
    return (U * np.geomspace(1, 1 / cond, K)) @ V.T


def graded(rng, cond, P=20, K=6):
    """W̃ whose rows have sizes from 1 to 1/√cond, and so have its columns before they are
    rotated.
    """
    W = (
        np.geomspace(1, cond**-0.5, P)[:, None]
        * rng.standard_normal((P, K))
        * np.geomspace(1, cond**-0.5, K)
    )
    return W @ np.linalg.qr(rng.standard_normal((K, K)))[0]


def by_gram(Ups_tilde, W_tilde, rank):
    """The projection with V from the eigenvectors of W̃ᵀW̃: half of the digits of the small
    directions are gone.
    """
    V = np.linalg.eigh(W_tilde.T @ W_tilde)[1][:, ::-1]
    out = W_tilde @ V
    return Ups_tilde + np.sum(out[:, rank:] ** 2, axis=1), out[:, :rank]


def rows_of_the_projection(W_tilde, rank):
    """V of the compiled projection, or None where it is refused."""
    P, n = W_tilde.shape
    state = blocks.State(np.zeros(P), np.ones(P), np.ascontiguousarray(W_tilde[:, :rank].T))
    rows, work = (
        np.ascontiguousarray(W_tilde[:, rank:].T),
        blocks.workspace(P, rank, n - rank, "bong"),
    )
    X = np.vstack([W_tilde.T, np.zeros((1, P))])
    work.blocks[blocks.X, : X.size] = X.ravel()
    work.small[blocks.GRAM, : (n + 1) ** 2] = (X @ X.T).ravel()
    none = blocks.State(np.zeros(0), np.zeros(0), np.zeros((0, P)))
    if dlr_projection.project(none, state, rows, 1.0, work) != OK:
        return None
    return work.small[blocks.ROWS, : (n + 1) ** 2].reshape(n + 1, n + 1)[:n, :n]


def by_compiled(Ups_tilde, W_tilde, rank):
    """The compiled projection, and the reference's where it is refused, as in a stream."""
    V = rows_of_the_projection(W_tilde, rank)
    if V is None:
        return dlr.project(Ups_tilde, W_tilde, rank)
    out = V @ W_tilde.T
    return Ups_tilde + np.sum(out[rank:] ** 2, axis=0), out[:rank].T


ROUTES = {
    "compiled": by_compiled,
    "reference": dlr.project,
    "by the Gram matrix": by_gram,
    "as printed": dlr.project_printed,
}


def projection_errors(
    kinds=(tilted, graded), conds=(1.0, 1e2, 1e4, 1e6, 1e8, 1e10), draws=3, rank=3
):
    """{(kind, cond): {route: error}}: the largest error of what Υ gains, relative to its largest
    entry, compared with 60 digits.
    """
    table = {}
    for kind in kinds:
        for cond in conds:
            worst = dict.fromkeys(ROUTES, 0.0)
            for seed in range(draws):
                W = kind(np.random.default_rng(seed), cond)
                # equal singular values would leave the projection undetermined
                if cond == 1.0 and kind is tilted:
                    W[:, :rank] *= 2
                with mpmath.mp.workdps(60):
                    wanted = dlr.project(_mpf(np.zeros(len(W))), _mpf(W), rank)[0].astype(float)
                for name, route in ROUTES.items():
                    got = route(np.zeros(len(W)), W, rank)[0]
                    worst[name] = max(
                        worst[name], float(np.max(np.abs(got - wanted)) / np.max(wanted))
                    )
            table[kind.__name__, cond] = worst
    return table


@pytest.mark.parametrize("rank", [2, 3, 5])
@pytest.mark.parametrize("kind", [tilted, graded])
def test_projection_is_as_accurate_as_the_reference(kind, rank):
    """Compared with 60 digits, for cond(W̃) from 1 to 1e10: no worse than the reference, and far
    better than a Gram matrix alone.
    """
    conds = (1.0, 1e4, 1e6, 1e10)
    table = projection_errors([kind], conds, draws=2, rank=rank)
    for (_, cond), errors in table.items():
        assert errors["compiled"] <= compare.C * cond * compare.EPS, (cond, errors)
        assert errors["compiled"] <= 16 * errors["reference"] + 16 * compare.EPS, (cond, errors)
    if rank == 3:  # half of the directions, in which the Gram matrix has few digits
        assert (
            table[kind.__name__, 1e10]["by the Gram matrix"]
            > 10 * table[kind.__name__, 1e10]["compiled"]
        )


def test_projection_of_most_problems_is_not_refused():
    for kind in (tilted, graded):
        for cond in np.geomspace(1.5, 1e14, 9):
            V = rows_of_the_projection(kind(np.random.default_rng(1), cond), 3)
            assert V is not None and np.max(np.abs(V @ V.T - np.eye(6))) < 64 * compare.EPS, (
                kind.__name__,
                cond,
            )


@pytest.mark.parametrize(
    "spectrum",
    [[1.0] * 6, [9, 5, 1, 1, 1, 0.5], [1e3, 1, 1, 1, 1e-3, 0], [1, 0, 0, 0, 0, 0], [0] * 6],
)
def test_projection_with_equal_singular_values(spectrum):
    """Which of them are kept is free; the diagonal is kept, and what is discarded has the size
    that it must have.
    """
    rng = np.random.default_rng(3)
    U, Q = (np.linalg.qr(rng.standard_normal((n, 6)))[0] for n in (20, 6))
    W, spectrum = (U * spectrum) @ Q.T, np.array(spectrum, dtype=float)
    V = rows_of_the_projection(W, 3)
    assert V is not None and np.max(np.abs(V @ V.T - np.eye(6))) < 64 * compare.EPS
    sizes, rounding = np.sum((V @ W.T) ** 2, axis=1), compare.C * compare.EPS * max(spectrum)
    assert (
        abs(np.sum(sizes[3:]) - np.sum(spectrum[3:] ** 2))
        <= 2 * rounding * np.linalg.norm(spectrum[2:]) + rounding**2
    )


def test_what_is_discarded_is_measured_on_the_rows():
    """The Gram matrix alone leaves the discarded direction of a tilted W̃ with half of its digits;
    the correction restores them.
    """
    W = tilted(np.random.default_rng(5), 1e4, 30, 6)
    exact = np.linalg.svd(W)[2][-1]
    off = lambda v: np.linalg.norm(W @ (v * np.sign(v @ exact) - exact)) / 1e-4
    assert off(np.linalg.eigh(W.T @ W)[1][:, 0]) > 1e-11
    assert off(rows_of_the_projection(W, 5)[5]) < 64 * 1e4 * compare.EPS


# --- dynamics, and several steps ------------------------------------------------------------------


def moves(kind, rng, P):
    return {
        "ou": OU(0.9, mu0=rng.standard_normal(P), var0=rng.uniform(0.5, 2, P)),
        "linear": Linear(F=rng.uniform(0.8, 1.1, P), b=0.1, Q=0.01),
    }[kind]


@pytest.mark.parametrize("block", [blocks.BLOCK, 64])
@pytest.mark.parametrize("kind", ["ou", "linear"])
@given(p=problems())
@settings(max_examples=5 if SLOW else 25)
def test_prediction_is_the_reference_prediction(kind, block, p):
    q = p.states[0]
    dynamics = moves(kind, np.random.default_rng(0), len(q.mu))
    rule, _, state, work = fast.start("bong", 1.0, q, 1)
    if block < blocks.BLOCK:
        work = work._replace(width=min(work.width, 16))
    assert predict(fast.DlrLinear(*matrices(dynamics, len(q.mu))), state, work) == OK
    wanted = propagate(q, dynamics)
    agree(
        fast.finish(rule, state, work),
        wanted,
        compare.condition(lambda s: propagate(s, dynamics), q),
        kind,
    )


@pytest.mark.parametrize("K", [1, 2, 50])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["plain", "W = 0"])
def test_a_few_steps(kind, rule, K):
    """A stream of given curvatures with few and with many rows, two inner iterations each, OU
    dynamics.
    """
    P, T, n_iter = 30, 2 if SLOW else 4, 2 if rule in ("blr", "bbb") else 1
    p = Problem(6, P, 3, K, kind)
    dynamics, one = OU(0.95, var0=2.0), reference(rule)
    rng = np.random.default_rng(7)
    curvs = [
        Curv(rng.standard_normal(P), S=rng.standard_normal((P, K)) / np.sqrt(K))
        for _ in range(T * n_iter)
    ]

    def wanted(state, *curvs):
        for t in range(T):
            prior = state = propagate(state, dynamics)
            for curv in curvs[t * n_iter : t * n_iter + n_iter]:
                state = one(prior, state, curv)
        return state

    parts = fast.start(rule, ALPHA[rule], p.states[0], K)
    for t in range(T):
        assert predict(fast.DlrLinear(*matrices(dynamics, P)), parts[2], parts[3]) == OK
        begin(*parts)
        for curv in curvs[t * n_iter : t * n_iter + n_iter]:
            assert step(*parts[:3], curv.g.copy(), np.ascontiguousarray(curv.S.T), parts[3]) == OK
        end(*parts)
    got = fast.finish(parts[0], parts[2], parts[3])
    agree(got, wanted(p.states[0], *curvs), compare.condition(wanted, p.states[0], *curvs), rule)


# --- samples --------------------------------------------------------------------------------------


@given(p=problems())
@settings(max_examples=10 if SLOW else 40)
def test_samples_are_the_reference_samples(p):
    q, z = (
        p.states[0],
        np.random.default_rng(0).standard_normal((blocks.SAMPLES + 3, len(p.curv.g))),
    )
    parts, out = fast.start("bong", 1.0, q, 1, samples=True), z.copy()
    assert place(*parts[:3], out, parts[3]) == OK
    wanted = lambda s: DLR(gaussians.place(s, z)[0], s.Ups, s.W)
    cond = compare.condition(wanted, q)["mu"]
    for row, target in zip(out, gaussians.place(q, z), strict=True):
        diff = compare.difference(
            "sample", row, target, cond, size=float(np.max(np.abs(z) / np.sqrt(q.Ups)))
        )
        assert diff.agrees, str(diff)


@pytest.mark.parametrize("size", [1e-3, 1.0, 4.0, 20.0, 1e4])
def test_samples_where_singular_values_are_far_apart(size):
    """By eigenvectors of WᵀΥ⁻¹W where it is small, by singular vectors where it is not."""
    rng, P = np.random.default_rng(8), 40
    U, V = (np.linalg.qr(rng.standard_normal((k, 3)))[0] for k in (P, 3))
    Ups, z = 10 ** rng.uniform(-1, 1, P), rng.standard_normal((20, P))
    q = DLR(
        rng.standard_normal(P), Ups, np.sqrt(Ups)[:, None] * (U * np.array([size, 1.0, 1e-3])) @ V.T
    )
    parts, out = fast.start("bog", 0.1, q, 1, samples=True), z.copy()
    assert place(*parts[:3], out, parts[3]) == OK
    assert np.max(np.abs((out - gaussians.place(q, z)) * np.sqrt(Ups))) < 64 * compare.EPS * max(
        1, size
    )


# --- streams --------------------------------------------------------------------------------------

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


def make_method(rule, hess, **more):
    params = {"rank": 2} if rule == "bong" else {"rank": 2, "alpha": ALPHA[rule]}
    params |= {"n_iter": 3} if rule in ("blr", "bbb") else {}
    params |= {"n_samples": 7} if hess == "mc-ef" else {}
    return br.method(f"{rule}-{hess}-dlr", **(params | more))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef", "mc-ef"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["static", "ou"])
def test_stream_is_the_reference_stream(rule, hess, case, kind):
    (model, lik), T, P = CASES[case], 4 if SLOW else 8, CASES[case][0].n_params
    m, rng = make_method(rule, hess), np.random.default_rng(1)
    X, Y = observations(case, T)
    Y[2] = None
    prior = DLR(
        0.3 * rng.standard_normal(P), rng.uniform(5, 30, P), 0.5 * rng.standard_normal((P, 2))
    )
    dynamics = None if kind == "static" else moves(kind, np.random.default_rng(2), P)

    def run(prior, X, backend="reference"):
        return br.run(
            m,
            model,
            lik,
            prior,
            X,
            Y,
            dynamics=dynamics,
            rng=np.random.default_rng(3),
            backend=backend,
        ).state

    agree(
        run(prior, X, "fast"),
        run(prior, X),
        compare.condition(run, prior, X),
        f"{m.name}, {case}, {kind}",
    )


def test_many_iterations_along_nearly_one_direction(monkeypatch):
    """From W = 0, blr brings rows that differ less and less, to the last digit. The compiled
    projection resolves them: no step is left to the reference, and the numbers are its numbers.
    """
    model, lik, T = br.models.mlp([3, 4, 1]), br.likelihoods.Gaussian(var=0.1), 2 if SLOW else 6
    m, rng = br.method("blr-lin-hess-dlr", rank=8, alpha=0.1, n_iter=10), np.random.default_rng(0)
    X, Y = rng.standard_normal((T, 3)), rng.standard_normal((T, 1))
    prior = m.prior(mu=model.init(rng), var=0.01)
    run = lambda backend: br.run(m, model, lik, prior, X, Y, backend=backend)
    slow, refused = run("reference").state, []
    advance = Stream.advance

    def watched(*args):
        refused.append((done := advance(*args)).refused)
        return done

    monkeypatch.setattr(Stream, "advance", watched)
    got, wanted = compare.invariants(run("fast").state), compare.invariants(slow)
    assert not any(refused)
    for key, value in wanted.items():
        assert np.max(np.abs(got[key] - value)) <= 64 * compare.EPS * np.max(np.abs(value)), key


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::bongref.errors.Diverging")
@pytest.mark.filterwarnings("ignore::bongref.errors.LostDigits")
def test_lost_positive_definiteness_is_that_of_the_reference():
    """bbb with large steps: both backends raise at the same step, or neither does."""
    model, lik = CASES["linear, Gaussian"]
    X, Y = observations("linear, Gaussian", 30)
    lost = 0
    for alpha in (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 1000.0):
        m, rng = make_method("bbb", "lin-hess", alpha=alpha), np.random.default_rng(1)
        prior = DLR(
            0.3 * rng.standard_normal(6), rng.uniform(0.5, 3, 6), 0.5 * rng.standard_normal((6, 2))
        )
        steps, runaway = [], False
        for backend in ("reference", "fast"):
            try:
                steps.append(br.run(m, model, lik, prior, X, Y, backend=backend).t)
            except br.StreamEnded as error:
                steps.append(-error.step)
                # rounding alone decides what comes next
                runaway = compare.matrix_condition(error.state) > 1e11
        assert steps[0] == steps[1] or runaway, alpha
        lost += steps[0] < 0 and not runaway
    assert lost >= 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::bongref.errors.LostDigits")
@pytest.mark.parametrize("ratio", [1e8, 1e12, 1e14, 1e16])
@pytest.mark.parametrize("hess", ["lin-hess", "lin-ef"])
@pytest.mark.parametrize("rule", ["bong", "blr"])
def test_a_diffuse_prior_and_a_sharp_observation(rule, hess, ratio):
    """Prior variance over noise variance from 1e8 to 1e16: the digits of the reference, or its
    refusal.
    """
    model, lik, rng = (
        br.models.linear(5, 1),
        br.likelihoods.Gaussian(var=1e-4),
        np.random.default_rng(0),
    )
    m = make_method(rule, hess)
    X, prior = rng.standard_normal((8, 5)), m.prior(mu=rng.standard_normal(5), var=1e-4 * ratio)
    Y = list(X @ rng.standard_normal((5, 1)))
    results = []
    for backend in ("reference", "fast"):
        try:
            results.append(br.run(m, model, lik, prior, X, Y, backend=backend).state)
        except (br.NotPositiveDefinite, FloatingPointError) as error:
            results.append((type(error).__name__, error.step))
    if tuple in map(type, results):
        assert results[0] == results[1]
        return
    run = lambda prior, X: br.run(m, model, lik, prior, X, Y, backend="reference").state
    try:
        cond = compare.condition(run, prior, X)
    except br.StreamEnded:  # of a problem next to this one: rounding alone decides
        return
    agree(results[1], results[0], cond, f"{m.name}, {ratio:g}")


def test_long_stream_does_not_drift():
    T = 20 if SLOW else 500
    m = br.method("bong-lin-hess-dlr", rank=3)
    model, lik = br.models.mlp([2, 4, 1], activation="tanh"), br.likelihoods.Gaussian(var=0.5)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((T, 2))
    Y = list(np.sin(X[:, :1]) + 0.1 * rng.standard_normal((T, 1)))
    prior = m.prior(0.5 * rng.standard_normal(model.n_params), 1.0)
    run = lambda prior, X, backend="reference": (
        br.run(m, model, lik, prior, X, Y, backend=backend).state
    )
    agree(
        run(prior, X, "fast"), run(prior, X), compare.condition(run, prior, X, draws=2), "500 steps"
    )


if __name__ == "__main__":
    print(f"{'W':8s} {'cond':>6s}  " + "  ".join(f"{name:>18s}" for name in ROUTES))
    for (kind, cond), errors in projection_errors().items():
        print(f"{kind:8s} {cond:6.0e}  " + "  ".join(f"{errors[name]:18.1e}" for name in ROUTES))

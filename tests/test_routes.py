"""Every method by independent routes: family module = definition = exact; efficient = plain; dense
G = low-rank S.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from problems import DERIVED, LOW_RANK, Size, agree, conditions, make, marked, plain, sizes

import bongref as br
from bongref import curvature
from bongref.curvature import Curv, Lin, dense
from bongref.families import dlr, fc_nat
from bongref.filter import unchecked_step
from bongref.gaussians import is_valid
from bongref.grid import EFFICIENT, FEW, MODULES
from bongref.routes import compare, definition, exact
from bongref.states import FC

EFFICIENT_NAMES = [n for n in LOW_RANK if (n.split("-")[0], n.split("-")[3]) in EFFICIENT]


@pytest.mark.parametrize("name", marked(DERIVED))
@given(size=sizes())
@settings(max_examples=8)
def test_module_is_exact(name, size):
    p = make(name, size)
    wanted = exact.rounded(exact.step(p.m, p.prior, p.current, p.curv, digits=30))
    agree(
        plain(p.m)(p.prior, p.current, p.curv),
        wanted,
        conditions(p),
        f"{name} against exact arithmetic",
    )


@pytest.mark.parametrize("name", marked(DERIVED))
@given(size=sizes(max_P=8))
@settings(max_examples=5)
def test_module_is_definition(name, size):
    p = make(name, size)
    wanted = definition.step(p.m, p.prior, p.current, p.curv)
    agree(
        plain(p.m)(p.prior, p.current, p.curv),
        wanted,
        conditions(p),
        f"{name} against its definition",
        whole=True,
    )


@pytest.mark.eq("eq:bong", "eq:bong-MD", "eq:bong-MD2", "eq:bog", "eq:blr", "eq:blr-MD", "eq:bbb")
@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
def test_definition_is_exact_at_twelve_parameters(rule):
    for family in ("fc", "fc_mom"):
        p = make(f"{rule}-lin-hess-{family}", Size(12, 12, 2, 3, 2.0))
        wanted = exact.rounded(exact.step(p.m, p.prior, p.current, p.curv))
        agree(definition.step(p.m, p.prior, p.current, p.curv), wanted, conditions(p), rule)


@pytest.mark.parametrize("name", marked(EFFICIENT_NAMES, "efficient"))
@given(size=sizes())
def test_efficient_form_is_the_plain_one(name, size):
    if name.startswith("bog") and name.endswith(
        "-fc"
    ):  # its small matrix is indefinite: c · cond · eps does not bound it beyond
        size = size._replace(log_cond=size.log_cond / 6)
    p = make(name, size)
    got, fn = unchecked_step(p.m, p.prior, p.current, p.curv, "efficient")
    assert fn.__name__ == EFFICIENT[p.m.rule, p.m.family]
    agree(got, plain(p.m)(p.prior, p.current, p.curv), conditions(p), f"{name}: {fn.__name__}")


ROOTS = (
    "bong-mc-ef-dlr",
    "bong-lin-hess-dlr",
    "bong-lin-ef-dlr",
    "blr-mc-ef-dlr",
    "blr-lin-hess-dlr",
    "blr-lin-ef-dlr",
)  # and an SVD
RATIONAL_FORMS = [
    (n, EFFICIENT[n.split("-")[0], n.split("-")[3]]) for n in EFFICIENT_NAMES if n not in ROOTS
]
RATIONAL_FORMS += [
    (n, "bbb_expanded") for n in LOW_RANK if n.startswith("bbb") and n.endswith("dlr")
]


@pytest.mark.parametrize("name, form", RATIONAL_FORMS)
@given(size=sizes(max_P=6))
@settings(max_examples=4)
def test_efficient_form_is_the_plain_one_without_rounding(name, form, size):
    """On exact rationals the two are equal, not close."""
    p = make(name, size)
    state = lambda q: type(q)(*(exact.rational(a) for a in q))
    args = (
        state(p.prior),
        state(p.current),
        Curv(exact.rational(p.curv.g), S=exact.rational(p.curv.S)),
        Fraction(p.m.params.get("alpha", 1)),
    )
    module = MODULES[p.m.family]
    for got, wanted in zip(
        getattr(module, form)(*args), getattr(module, p.m.rule)(*args), strict=True
    ):
        assert np.all(got == wanted) and all(isinstance(v, Fraction) for v in got.flat)


@pytest.mark.eq(
    "sec:FC-Nat-bong#5",
    "sec:FC-Nat-bong#6",
    "eq:bong-FC-K",
    "sec:FC-Nat-bong#8",
    "sec:FC-Nat-bong#9",
    "eq:bong-lin-EF-FC-K",
)
@pytest.mark.parametrize("name", ["bong-mc-ef-fc", "bong-lin-ef-fc"])
@given(size=sizes())
def test_printed_gain_form_of_the_empirical_fisher(name, size):
    p = make(name, size)
    S = p.curv.S
    curv = Curv(
        S.sum(axis=1) / np.sqrt(S.shape[1]), S=S
    )  # g is the mean of the columns of Ĝ = √M S
    cond = compare.condition(plain(p.m), p.prior, p.current, curv)
    agree(fc_nat.bong_ef(p.prior, None, curv), plain(p.m)(p.prior, None, curv), cond, "bong_ef")


@pytest.mark.eq(
    "sec:lbong-fc#3",
    "sec:lbong-fc#4",
    "sec:lbong-fc#5",
    "sec:linearized#11",
    "sec:linearized#12",
    "sec:linearized#13",
)
@given(size=sizes(max_log_cond=4))
def test_kalman_form(size):
    rng = np.random.default_rng(size.seed)
    p = make("bong-lin-hess-fc", size)
    C = min(size.K, 4)
    A = rng.standard_normal((C, C))
    R, H, e = A @ A.T + np.eye(C), rng.standard_normal((C, size.P)), rng.standard_normal(C)
    L = np.linalg.cholesky(R)
    S = np.linalg.solve(L, H).T
    curv = Curv(S @ np.linalg.solve(L, e), S=S)
    cond = compare.condition(plain(p.m), p.prior, None, curv)
    agree(
        fc_nat.bong_kalman(p.prior, None, Lin(e, H, R, e)),
        plain(p.m)(p.prior, None, curv),
        cond,
        "bong_kalman",
    )


def test_kalman_form_refuses_a_singular_variance():
    """The softmax: R + HΣHᵀ has no inverse, and a solver need not notice."""
    rng = np.random.default_rng(0)
    model, lik = br.models.linear(2, 3), br.likelihoods.Categorical()
    prior = FC(rng.standard_normal(6), np.eye(6))
    lin = curvature.linearise(model, lik, rng.standard_normal(2), lik.encode(1, 3), prior.mu)
    with pytest.raises(np.linalg.LinAlgError, match="R is singular"):
        fc_nat.bong_kalman(prior, None, lin)


@pytest.mark.eq(
    "eq:bbb-dlr-B", "eq:bbb-dlr-diagSigGSig", "eq:bbb-dlr-SigGSigW", "eq:bbb-dlr-Woodbury"
)
@pytest.mark.parametrize("name", [n for n in LOW_RANK if n.startswith("bbb") and n.endswith("dlr")])
@given(size=sizes())
def test_expanded_terms_of_bbb_dlr(name, size):
    p = make(name, size)
    got = dlr.bbb_expanded(p.prior, p.current, p.curv, p.m.params["alpha"])
    agree(got, plain(p.m)(p.prior, p.current, p.curv), conditions(p), "bbb_expanded")


@pytest.mark.parametrize("name", LOW_RANK)
@given(size=sizes())
@settings(max_examples=15)
def test_dense_hessian_is_the_low_rank_one(name, size):
    p = make(name, size)
    G = Curv(p.curv.g, G=dense(p.curv))
    got = unchecked_step(p.m, p.prior, p.current, G)[0]
    agree(got, plain(p.m)(p.prior, p.current, p.curv), conditions(p), f"{name}: dense G against S")


@pytest.mark.parametrize("name", DERIVED)
def test_oracle_agrees_with_the_step_and_rounds_once(name):
    p = make(name, Size(5, 6, 2, 3, 2.0))
    params = {"alpha": p.m.params["alpha"]} if "alpha" in p.m.params else {}
    curv = {k: v for k, v in p.curv._asdict().items() if v is not None}
    args = (name, p.prior._asdict(), p.current._asdict(), curv)
    out, precise = br.oracle.step(*args, **params), br.oracle.step(*args, **params, digits=50)
    more = br.oracle.step(*args, **params, digits=80)
    state, info = br.step(p.m, p.prior, p.current, p.curv)
    kind = type(p.prior)
    assert out["valid"] == precise["valid"] == info.valid
    for key in kind._fields:
        np.testing.assert_array_equal(out[key], getattr(state, key))
        if key != "W":  # whose columns have free signs
            np.testing.assert_array_equal(
                precise[key], more[key]
            )  # more digits round to the same float64
    agree(
        kind(*(out[k] for k in kind._fields)),
        kind(*(precise[k] for k in kind._fields)),
        conditions(p),
        name,
    )


def test_exact_refuses_a_float_that_crept_in(monkeypatch):
    p = make("bog-lin-hess-diag_mom", Size(0, 3, 1, 2, 1.0))
    original = br.methods
    assert original("bog-lin-hess-diag_mom")
    from bongref.families import diag_mom

    sloppy = lambda prior, current, curv, alpha: type(prior)(prior.mu * 0.5, prior.var)
    monkeypatch.setattr(diag_mom, "bog", sloppy)
    with pytest.raises(AssertionError, match="mu holds a float"):
        exact.step(p.m, p.prior, p.current, p.curv)


@pytest.mark.eq("eq:BLR-FC-Nat-prec", "eq:blr-FC-nat-mu", "eq:blr-FC-mom-mu", "eq:blr-FC-mom-cov")
@pytest.mark.parametrize("family", ["fc", "fc_mom"])
@given(size=sizes(max_log_cond=4.0))
def test_inner_loop_of_blr_without_inversions(family, size):
    """The whole inner loop as a growing change of the prior, against the displayed step
    repeated.
    """
    p = make(f"blr-lin-hess-{family}", size)
    module, alpha = MODULES[family], p.m.params["alpha"]
    rng = np.random.default_rng(size.seed)
    curvs = [
        Curv(rng.standard_normal(size.P), S=rng.standard_normal((size.P, size.K)) / 2)
        for _ in range(3)
    ]

    def repeated(prior, *curvs):
        state = prior
        for curv in curvs:
            state = plain(p.m)(prior, state, curv)
        return state

    cond = compare.condition(repeated, p.prior, *curvs)
    state, inner = p.prior, module.start(p.prior)
    for curv in curvs:
        state, inner = (
            plain(p.m)(p.prior, state, curv),
            module.blr_increment(p.prior, inner, curv, alpha),
        )
        largest = compare.matrix_condition(state)
        if is_valid(state) != module.is_valid_increment(inner):
            assert largest > 1e10, "validity differs away from the boundary"
    agree(
        module.finish(p.prior, inner),
        repeated(p.prior, *curvs),
        cond,
        f"inner loop of blr in {family}",
    )


@pytest.mark.parametrize(
    "name",
    [
        f"blr-{hess}-{family}"
        for hess in ("mc-ef", "lin-hess", "lin-ef")
        for family in ("fc", "fc_mom")
    ],
)
def test_update_takes_the_inner_loop_without_inversions(name):
    rng = np.random.default_rng(0)
    model, lik = br.models.mlp([2, 12, 1]), br.likelihoods.Gaussian(0.5)
    m = br.method(name, alpha=0.2, n_iter=6, **({"n_samples": 2} if "mc" in name else {}))
    prior = m.prior(model.init(rng), 0.3)
    x, y = rng.standard_normal(2), 0.7
    fast, info = br.update(m, model, lik, prior, x, y, rng=np.random.default_rng(1))
    slow, other = br.update(m, model, lik, prior, x, y, rng=np.random.default_rng(1), form="plain")
    assert (
        info.form.endswith("blr_increment")
        and other.form.endswith(".blr")
        and info.valid == other.valid
    )
    agree(fast, slow, {"mu": 100.0, "Sigma": 100.0}, name)
    wide = br.method(
        m, alpha=0.01, n_iter=1 + model.n_params // FEW
    )  # too many columns: the displayed step is cheaper
    assert br.update(wide, model, lik, prior, x, y, rng=np.random.default_rng(1))[1].form.endswith(
        ".blr"
    )


@pytest.mark.parametrize("rule", ["bong", "bog"])
def test_exact_beyond_the_reach_of_fractions(rule):
    """More than 40 parameters: mpmath takes over, with the same result to the last bit of what
    float64 can tell.
    """
    p = make(f"{rule}-lin-hess-fc_mom", Size(1, exact.RATIONAL_UP_TO + 1, 1, 2, 2.0))
    wanted = exact.rounded(exact.step(p.m, p.prior, None, p.curv, digits=30))
    agree(plain(p.m)(p.prior, None, p.curv), wanted, conditions(p), rule)

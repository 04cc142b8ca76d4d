"""Methods that must be each other, and methods that must be something else that everyone knows."""

import numpy as np
import pytest
from hypothesis import given, settings
from problems import (
    DERIVED,
    LOW_RANK,
    Size,
    agree,
    belief,
    conditions,
    curvature,
    make,
    plain,
    sizes,
    spd,
)

import bongref as br
from bongref import gaussians
from bongref.curvature import Curv
from bongref.routes import compare, exact
from bongref.routes.exact import rational
from bongref.states import DLR, FC, Diag


def ends(name, *families):
    return name.split("-")[3] in families


@pytest.mark.parametrize("name", [n for n in DERIVED if n.startswith("bong")])
@given(size=sizes())
def test_blr_with_one_iteration_and_unit_rate_is_bong(name, size):
    p = make(name, size)
    blr = br.method(
        name.replace("bong", "blr"), alpha=1.0, **({"rank": size.R} if ends(name, "dlr") else {})
    )
    for form in ("plain", "auto"):
        got, _ = br.step(blr, p.prior, p.prior, p.curv, form=form)
        agree(got, plain(p.m)(p.prior, None, p.curv), conditions(p), f"{blr.name} as {name}")


@pytest.mark.parametrize("name", [n for n in DERIVED if n.startswith("bog")])
@given(size=sizes())
def test_bbb_with_one_iteration_is_bog(name, size):
    p = make(name, size)
    bbb = br.method(
        name.replace("bog", "bbb"),
        **{k: p.m.params[k] for k in ("alpha", "rank") if k in p.m.params},
    )
    for form in ("plain", "auto"):
        got, _ = br.step(bbb, p.prior, p.prior, p.curv, form=form)
        agree(got, plain(p.m)(p.prior, None, p.curv), conditions(p), f"{bbb.name} as {name}")


@pytest.mark.parametrize("rule", ["bong", "blr"])
@given(size=sizes(max_P=8, max_log_cond=3.0))
def test_dlr_of_full_rank_is_fc(rule, size):
    """A rank that is never exceeded: R = P."""
    size = size._replace(R=size.P)
    p = make(f"{rule}-mc-ef-dlr", size)
    fc = br.method(f"{rule}-mc-ef-fc", **({"alpha": p.m.params["alpha"]} if rule == "blr" else {}))
    full = [FC(q.mu, gaussians.covariance(q)) for q in (p.prior, p.current)]
    got, _ = br.step(p.m, p.prior, p.current, p.curv)
    wanted, _ = br.step(fc, *full, p.curv)
    cond = {**compare.condition(plain(fc), *full, p.curv)}
    woodbury = conditions(p)["mu"]
    agree(
        FC(got.mu, gaussians.covariance(got)),
        wanted,
        {k: max(v, woodbury) for k, v in cond.items()},
        rule,
    )


@pytest.mark.parametrize("hess, K", [("lin-ef", 1), ("mc-ef", 2)])
def test_dlr_is_fc_along_a_stream_until_its_rank_is_used_up(hess, K):
    rng = np.random.default_rng(0)
    P, steps = 12, 4
    dlr, fc = br.method(f"bong-{hess}-dlr", rank=steps * K), br.method(f"bong-{hess}-fc")
    mu = rng.standard_normal(P)
    low, full = dlr.prior(mu, 0.5), fc.prior(mu, 0.5)
    for t in range(steps + 1):
        S = rng.standard_normal((P, K))
        curv = Curv(S.sum(axis=1) / np.sqrt(K), S=S)
        low, full = br.step(dlr, low, None, curv)[0], br.step(fc, full, None, curv)[0]
        same = compare.difference("Sigma", gaussians.covariance(low), full.Sigma, 100).agrees
        assert same == (t < steps), f"step {t + 1} of {steps} that the rank can hold"


@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
@pytest.mark.parametrize("kind", ["", "_mom"])
@given(size=sizes())
def test_diagonal_family_is_fc_at_one_parameter(rule, kind, size):
    p = make(f"{rule}-mc-ef-diag{kind}", size._replace(P=1, R=1))
    fc = br.method(
        f"{rule}-mc-ef-fc{kind}", **({"alpha": p.m.params["alpha"]} if rule != "bong" else {})
    )
    full = [FC(q.mu, q.var[:, None]) for q in (p.prior, p.current)]
    got, wanted = plain(p.m)(p.prior, p.current, p.curv), plain(fc)(*full, p.curv)
    cond = conditions(p)
    agree(got, Diag(wanted.mu, np.diag(wanted.Sigma)), cond, rule)


@pytest.mark.parametrize(
    "name",
    [
        "bong-fc",
        "blr-fc",
        "bong-fc_mom",
        "blr-fc_mom",
        "bog-fc_mom",
        "bbb-fc_mom",
        "bog-fc",
        "bbb-fc",
    ],
)
@given(size=sizes())
def test_diagonal_family_is_fc_when_prior_and_hessian_are_diagonal(name, size):
    rule, family = name.split("-")
    p = make(f"{rule}-mc-hess-{family.replace('fc', 'diag')}", size)
    prior, current, curv = p.prior, p.current, p.curv
    fc = br.method(
        f"{rule}-mc-hess-{family}", **({"alpha": p.m.params["alpha"]} if rule != "bong" else {})
    )
    if family == "fc" and rule in ("bog", "bbb"):
        # plain gradients in natural parameters mix: the gradient in the precision has the outer
        # product of Σg and μ, so that only with μ = 0 does the full family stay diagonal
        prior, current = (q._replace(mu=np.zeros(size.P)) for q in (prior, current))
    full = [FC(q.mu, np.diag(q.var)) for q in (prior, current)]
    got, wanted = (
        plain(p.m)(prior, current, curv),
        plain(fc)(*full, Curv(curv.g, G=np.diag(curv.d))),
    )
    cond = compare.condition(plain(p.m), prior, current, curv)
    agree(got, Diag(wanted.mu, np.diag(wanted.Sigma)), cond, name)
    off = wanted.Sigma - np.diag(np.diag(wanted.Sigma))
    assert np.max(np.abs(off)) <= compare.C * cond["var"] * compare.EPS * np.max(
        np.abs(wanted.Sigma)
    )


@pytest.mark.parametrize("rule", ["bong", "blr"])
@pytest.mark.parametrize("family", ["fc", "diag"])
@given(size=sizes(max_P=4, max_log_cond=1.0))
@settings(max_examples=8)
def test_natural_and_moment_forms_agree_to_first_order(rule, family, size):
    """In exact arithmetic: the difference of the two falls by four when the step is halved, up to a
    term of the next order.
    """
    p = make(f"{rule}-mc-ef-{family}", size, alpha=0.5)
    other = br.method(p.m.name + "_mom", **p.m.params)
    gaps = []
    for h in (2.0**-40, 2.0**-41):
        if rule == "bong":  # the step is as long as g and G are large
            curv = Curv(h * p.curv.g, G=-h * (p.curv.S @ p.curv.S.T))
            ms = p.m, other
        else:
            curv, ms = p.curv, (br.method(p.m, alpha=h), br.method(other, alpha=h))
        a, b = (exact.step(m, p.prior, p.current, curv) for m in ms)
        start = p.current if rule == "blr" else p.prior
        gap = max(abs(x - y) for x, y in zip(a[1].flat, b[1].flat, strict=True))
        move = max(abs(x - y) for x, y in zip(a[1].flat, rational(start[1]).flat, strict=True))
        assert gap < move * h * 2**20  # of second order where the step is of first
        gaps.append(gap)
    assert abs(float(gaps[0] / gaps[1]) - 4) < 2.0**-15


@pytest.mark.eq(
    "sec:lbong-fc#1", "sec:lbong-fc#2", "sec:pseudocode#2", "sec:pseudocode#3", "sec:pseudocode#4"
)
@pytest.mark.filterwarnings("ignore::bongref.errors.Diverging")  # Y is not drawn from this model
@pytest.mark.parametrize("seed", range(3))
def test_bong_lin_hess_fc_is_the_kalman_filter(seed):
    """Against a textbook filter with its own predict and update, and static against the batch
    posterior.
    """
    rng = np.random.default_rng(seed)
    D, C, T = 3, 2, 20
    P = C * D
    F, b, Q, R = (
        0.9 * np.eye(P) + 0.05 * rng.standard_normal((P, P)),
        rng.standard_normal(P),
        spd(rng, P, 1.0) / 10,
        spd(rng, C, 1.0),
    )
    X, Y = rng.standard_normal((T, D)), rng.standard_normal((T, C))
    prior = FC(rng.standard_normal(P), spd(rng, P, 2.0))
    lik, dynamics = br.likelihoods.Gaussian(R), br.dynamics.Linear(F, b, Q)
    res = br.run("bong-lin-hess-fc", br.models.linear(D, C), lik, prior, X, Y, dynamics=dynamics)
    m, S = prior
    for x, y in zip(X, Y, strict=True):
        H = np.kron(np.eye(C), x[None])
        m, S = F @ m + b, F @ S @ F.T + Q
        K = S @ H.T @ np.linalg.inv(H @ S @ H.T + R)
        m, S = m + K @ (y - H @ m), (np.eye(P) - K @ H) @ S
    agree(res.state, FC(m, (S + S.T) / 2), dict.fromkeys(("mu", "Sigma"), 1e3), "Kalman filter")


@pytest.mark.parametrize("seed", range(3))
def test_bong_lin_hess_fc_is_the_batch_posterior(seed):
    rng = np.random.default_rng(seed)
    P, T, var = 6, 40, 0.3
    X, Y = rng.standard_normal((T, P)), rng.standard_normal(T)
    prior = FC(rng.standard_normal(P), spd(rng, P, 3.0))
    res = br.run("bong-lin-hess-fc", br.models.linear(P), br.likelihoods.Gaussian(var), prior, X, Y)
    prec = np.linalg.inv(prior.Sigma) + X.T @ X / var
    mean = np.linalg.solve(prec, np.linalg.solve(prior.Sigma, prior.mu) + X.T @ Y / var)
    agree(
        res.state,
        FC(mean, np.linalg.inv(prec)),
        dict.fromkeys(("mu", "Sigma"), 1e3 * T),
        "batch posterior",
    )


def test_zero_w_is_a_fixed_point_of_bog_and_bbb():
    rng = np.random.default_rng(0)
    q = DLR(rng.standard_normal(5), np.ones(5), np.zeros((5, 2)))
    curv = curvature("lin-hess", "dlr", rng, 5, 3)
    for rule in ("bog", "bbb"):
        for form in ("plain", "efficient"):
            state, _ = br.step(
                br.method(f"{rule}-lin-hess-dlr", rank=2, alpha=0.1), q, q, curv, form=form
            )
            assert not np.any(state.W) and np.any(state.Ups != q.Ups)


@pytest.mark.parametrize("name", LOW_RANK)
def test_zero_gradient_leaves_the_mean_of_bong_and_blr(name):
    rng = np.random.default_rng(1)
    p = make(name, Size(1, 5, 2, 2, 1.0))
    curv = Curv(np.zeros(5), S=rng.standard_normal((5, 2)))
    state, _ = br.step(p.m, p.prior, p.prior, curv)
    if p.m.rule in ("bong", "blr") or p.m.family in ("fc_mom", "diag_mom", "dlr"):
        np.testing.assert_array_equal(state.mu, p.prior.mu)
    else:  # plain gradients in natural parameters move the mean through the precision alone: Σ'Σ⁻¹μ
        prec = np.linalg.inv(gaussians.covariance(p.prior))
        wanted = gaussians.covariance(state) @ prec @ p.prior.mu
        assert compare.difference("mu", state.mu, wanted, 1e3).agrees


def test_belief_has_the_condition_number_asked_for():
    q = belief("fc", np.random.default_rng(0), 6, 1, 4.0)
    assert abs(np.log10(np.linalg.cond(q.Sigma)) - 4) < 1e-6

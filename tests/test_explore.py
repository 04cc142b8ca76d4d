"""The explorer's function: its numbers by other routes, its refusals as data, its equations and
lines of code.
"""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import bongref as br
from bongref import gaussians, paper
from bongref.explore import respond
from bongref.explore.exact import DROPS, Target, _mode, exact
from bongref.explore.request import Gaussian, checked, likelihood
from bongref.theory.posteriors import kl_to_posterior, posterior

ROOT = Path(__file__).parent.parent
EPS = np.finfo(float).eps
PRIOR = {"mean": [0.3, -0.2], "cov": [[1.0, 0.4], [0.4, 0.8]]}
MODELS = ("logistic", "linear", "poisson")


def split(name):
    rule, a, b, family = name.split("-")
    return {"rule": rule, "hess": f"{a}-{b}", "family": family}


def method_of(answer):
    assert "error" not in answer, answer
    return answer["methods"][0]


# --- the exact posterior --------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("t", [0, 1, 4, 12])
def test_exact_posterior_against_the_other_quadrature(model, t):
    r = checked({"model": model, "prior": PRIOR, "t": t, "stream": {"seed": 1, "n": 12}})
    got = exact(Target(r.lik, r.prior, r.x[:t], r.y[:t]))
    assert got.error <= 1e-6
    if t == 0:
        np.testing.assert_allclose(got.mean, r.prior.mean, atol=1e-9)
        np.testing.assert_allclose(got.cov, r.prior.cov, atol=1e-9)
        assert abs(got.log_evidence) < 1e-9
        return
    want = posterior(r.lik, br.FC(*r.prior), r.x[:t], r.y[:t])
    # the error of the sum with step h is about the square of its change from 2h: below 1e-9
    np.testing.assert_allclose(got.log_evidence, want.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(got.mean, want.mean, atol=1e-9)
    np.testing.assert_allclose(got.cov, want.cov, atol=1e-9)


def test_exact_posterior_of_linear_regression_is_conjugate():
    r = checked({"model": "linear", "noise": 0.5, "prior": PRIOR, "t": 5, "stream": {"n": 5}})
    got = exact(Target(r.lik, r.prior, r.x, r.y))
    prec = np.linalg.inv(r.prior.cov) + r.x.T @ r.x / 0.5
    cov = np.linalg.inv(prec)
    mean = cov @ (np.linalg.inv(r.prior.cov) @ r.prior.mean + r.x.T @ r.y / 0.5)
    np.testing.assert_allclose(got.cov, cov, atol=1e-9)
    np.testing.assert_allclose(got.mean, mean, atol=1e-9)
    m = method_of(
        respond({"model": "linear", "noise": 0.5, "prior": PRIOR, "t": 5, "stream": {"n": 5}})
    )
    assert abs(m["kl"]) < 1e-9  # bong-lin-hess-fc is exact here


@pytest.mark.parametrize("model", MODELS)
def test_contours_lie_where_the_density_has_dropped(model):
    r = checked({"model": model, "prior": PRIOR, "t": 6})
    target = Target(r.lik, r.prior, r.x[:6], r.y[:6])
    got = exact(target)
    for points, drop in zip(got.contours, DROPS, strict=True):
        log_p = target.log_joint(points)
        assert np.ptp(log_p) < 1e-3
        inner = target.log_joint(got.mean + 0.0 * points)
        assert np.all(inner > log_p)
        # the mode is the highest: log p there is `drop` above the contour
        best = max(float(target.log_joint(got.mean[None])[0]), *log_p)
        assert best <= log_p.max() + drop + 1e-3


def test_a_far_prior_and_separable_data_still_converge():
    stream = {"x": [[1.0, 3.0]] * 20, "y": [1] * 20}
    wide = {"mean": [0, 0], "cov": [[400.0, 0.0], [0.0, 400.0]]}
    for model in MODELS:
        out = respond({"model": model, "stream": stream, "t": 20, "prior": wide})
        assert out["exact"]["error"] < 1e-6 and out["exact"]["nodes"] < 300_000, model


WIDE = {"mean": [1000.0, 0.0], "cov": [[1000.0, 500.0], [500.0, 1000.0]]}


@pytest.mark.parametrize(
    ("model", "second", "cov", "method", "status"),
    [
        (  # Σ of diag(Υ) + W Wᵀ has a negative eigenvalue after rounding
            "linear",
            0.8306869443195767,
            [
                [1.7172574932707005e-07, -0.0029174707665951317],
                [-0.0029174707665951317, 61.191709637160656],
            ],
            {"rule": "bbb", "hess": "lin-ef", "family": "dlr", "alpha": 1, "n_iter": 1},
            "not positive definite",
        ),
        (  # E_q[exp(o)] overflows
            "poisson",
            -0.7027548951803383,
            [[8.475671080316669, 92.0624872993481], [92.0624872993481, 1000.0]],
            {"rule": "bog", "hess": "mc-ef", "family": "dlr", "alpha": 0.1, "n_samples": 1},
            "not finite",
        ),
    ],
)
def test_the_largest_allowed_sizes_have_a_status(model, second, cov, method, status):
    answer = respond({
        "model": model, "noise": 1e-4, "prior": {"mean": [-1000.0, second], "cov": cov}, "t": 1,
        "stream": {"x": [[1, 10]], "y": [0]}, "methods": [method],
    })  # fmt: skip
    json.dumps(answer, allow_nan=False)
    m = method_of(answer)
    assert m["status"] == status and m["reason"] and "kl" not in m
    assert m["equations"]  # the step itself was computed


@pytest.mark.parametrize("mean", [[8, 7.5], [0, 9.5], [12.5, 7], [30, 30], [200, 0]])
def test_a_mode_is_found_from_where_the_prior_is_lost_in_the_hessian(mean):
    """exp(o) of 1e16 and more at the prior's mean; along x it is one-dimensional."""
    target = Target(
        likelihood("poisson", 1.0),
        Gaussian(np.array(mean, dtype=float), np.eye(2)),
        np.array([[1.0, 4.0]]),
        np.array([2.0]),
    )
    mode = _mode(target)  # mean + x (y - exp(o)) with o = x'mode
    low, high = -50.0, 700.0
    for _ in range(100):
        o = (low + high) / 2
        low, high = (o, high) if mean[0] + 4 * mean[1] + 17 * (2 - np.exp(o)) > o else (low, o)
    np.testing.assert_allclose(mode, mean + target.x[0] * (2 - np.exp(o)), atol=1e-6)
    answer = exact(target)
    assert answer.error <= 1e-6 and np.all(np.linalg.eigvalsh(answer.cov) > 0)


def test_a_posterior_that_no_grid_resolves_is_refused():
    stream = {"x": [[1, 10], [1, -10]], "y": [0, 5]}
    error = respond({"model": "poisson", "prior": WIDE, "stream": stream, "t": 2})["error"]
    assert error["argument"] == "prior" and "exact posterior" in error["allowed"]
    assert "smaller variances" in error["remedy"]


def test_a_guess_at_an_infinite_divergence_is_refused():
    request = {"model": "poisson", "t": 1, "guess": {"mean": [900.0, 0.0]}}
    assert respond(request)["error"]["argument"] == "guess"


# --- KL -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("family", ["fc", "diag", "dlr"])
def test_kl_by_summation_over_a_grid(model, family):
    request = {"model": model, "t": 3, "prior": PRIOR, "methods": [{"family": family}]}
    answer = respond({**request, "guess": {"mean": [0.1, 0.2], "cov": [[0.3, 0.1], [0.1, 0.2]]}})
    m, r = method_of(answer), checked(request)
    for got, mean, cov in (
        (m["kl"], m["posterior"]["mean"], m["posterior"]["cov"]),
        (m["kl_prior"], m["prior"]["mean"], m["prior"]["cov"]),
        (answer["guess"]["kl"], [0.1, 0.2], [[0.3, 0.1], [0.1, 0.2]]),
    ):
        q = br.FC(np.array(mean), np.array(cov))
        L = np.linalg.cholesky(q.Sigma)
        z = np.stack(np.meshgrid(*[np.arange(-9, 9.1, 0.25)] * 2, indexing="ij"), axis=-1)
        theta = (q.mu + z @ L.T).reshape(-1, 2)
        log_q = br.log_density(q, theta)
        log_p = br.log_density(br.FC(*r.prior), theta) - answer["exact"]["log_evidence"]
        for x, y in zip(r.x[:3], r.y[:3], strict=True):
            o = (theta @ x)[:, None]
            log_p = log_p + r.lik.log_prob(o, np.full(o.shape, y))
        w = np.exp(log_q)
        want = np.sum(w * (log_q - log_p)) / np.sum(w)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)


# --- the methods ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", br.methods())
def test_every_method_is_the_librarys_or_says_why_not(name):
    """The same stream by br.update, observation by observation."""
    request = {
        "model": "logistic",
        "t": 2,
        "prior": PRIOR,
        "seed": 5,
        "methods": [{**split(name), "alpha": 0.2, "n_iter": 3, "n_samples": 3, "rank": 2}],
    }
    answer = respond(request)
    json.dumps(answer, allow_nan=False)
    got, r = method_of(answer), checked(request)
    if "-mc-hess-dlr" in name and name[:3] in ("bon", "blr"):
        assert got["status"] == "not derived" and "sec:DLR-deriv" in got["reason"]
        return
    m = br.method(name, **got["params"])
    if m.family == "dlr":
        state = br.DLR(r.prior.mean, *_low_rank(np.linalg.inv(r.prior.cov)))
    else:
        state = m.prior(r.prior.mean, np.diag(r.prior.cov))
        state = br.FC(*r.prior) if isinstance(state, br.FC) else state
    for t in (1, 2):
        before = state
        state, info = br.update(
            m, br.models.linear(2), r.lik, state, r.x[t - 1], r.y[t - 1],
            rng=np.random.default_rng([5, t]), form="plain",
        )  # fmt: skip
        if not info.valid:
            assert got["status"] == info.reason and got["step"] == t and str(t) in got["reason"]
            break
    else:
        assert got["status"] == "ok"
        cov = gaussians.covariance(state)
        tol = 2**10 * EPS * np.linalg.cond(cov)
        np.testing.assert_allclose(got["posterior"]["mean"], state.mu, rtol=tol, atol=tol)
        np.testing.assert_allclose(got["posterior"]["cov"], cov, rtol=tol, atol=tol)
        want = kl_to_posterior(
            r.lik,
            br.FC(*r.prior),
            r.x[:2],
            r.y[:2],
            br.FC(state.mu, cov),
            answer["exact"]["log_evidence"],
        )
        np.testing.assert_allclose(got["kl"], want, rtol=1e-9)
    np.testing.assert_allclose(got["prior"]["mean"], before.mu, rtol=1e-9, atol=1e-12)


def _low_rank(prec):
    """Another factor of the same matrix: Υ + W Wᵀ with W's second column 0."""
    c = prec[0, 1]
    a = np.sqrt(abs(c)) * (prec[0, 0] / prec[1, 1]) ** 0.25
    W = np.array([[a, 0.0], [c / a, 0.0]])
    assert np.allclose(W[0, 0] * W[1, 0], c)
    return np.diag(prec) - (W**2).sum(axis=1), W


@pytest.mark.parametrize("rank", [1, 2])
def test_a_tilted_prior_is_kept_by_dlr_and_named_by_diag(rank):
    at = {"prior": PRIOR, "t": 0}
    dlr = method_of(respond({**at, "methods": [{"family": "dlr", "rank": rank}]}))
    np.testing.assert_allclose(dlr["prior"]["cov"], PRIOR["cov"], rtol=64 * EPS)
    diag = method_of(respond({**at, "methods": [{"family": "diag"}]}))
    np.testing.assert_allclose(diag["prior"]["cov"], [[1.0, 0.0], [0.0, 0.8]])
    assert "marginal" in diag["note"] and dlr["note"] == ""


def test_lost_positive_definiteness_is_data():
    request = {
        "model": "linear",
        "noise": 0.01,
        "stream": {"x": [[1, 0.1], [1, 3]], "y": [0.0, 9.0]},
        "t": 2,
        "methods": [{"rule": "bog", "family": "diag_mom", "alpha": 1.0}],
    }
    answer = respond(request)
    m = method_of(answer)
    assert m["status"] == "not positive definite" and "posterior" not in m and "kl" not in m
    assert m["equations"] and m["result"]["var"]
    json.dumps(answer, allow_nan=False)


# --- equations and code ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["bong-lin-hess-fc", "blr-mc-ef-diag", "bbb-lin-ef-dlr", "bog-mc-hess-fc_mom"]
)
def test_equations_carry_their_numbers_and_lines(name):
    request = {"t": 2, "prior": PRIOR, "methods": [{**split(name), "n_iter": 3, "n_samples": 2}]}
    m = method_of(respond(request))
    assert m["equations"] and m["path"][-1] == m["result"]["mu"]
    I = m["params"].get("n_iter", 1)
    shown = {
        (s["file"], n)
        for s in m["sources"]
        for n in range(s["first"], s["first"] + len(s["lines"]))
    }
    for e in m["equations"]:
        text = (ROOT / e["file"]).read_text(encoding="utf-8").splitlines()
        marked = " ".join(text[e["line"] - 1 : e["last"]])
        assert e["equation"] in marked, e
        assert e["symbol"] in e["code"].partition(" = ")[0], e
        assert e["latex"] == paper.equation(e["equation"]).latex
        assert len(e["values"]) == len(e["operands"]) == I
        assert (e["file"], e["line"]) in shown
        assert e["role"] in ("likelihood", "posterior", "samples")
    last = {e["symbol"]: e["values"][-1] for e in m["equations"]}
    for field, value in m["result"].items():
        if field in last:
            assert last[field] == value
    by = {e["symbol"]: e for e in m["equations"] if e["role"] == "posterior"}
    if I > 1:  # the second iteration starts from the result of the first
        for o in (o for e in by.values() for o in e["operands"][1]):
            if o["name"] == "current.mu":
                assert o["value"] == by["mu"]["values"][0]


def test_sources_are_the_functions_of_the_step():
    m = method_of(respond({"t": 1}))
    (step,) = [s for s in m["sources"] if s["where"] == m["form"]]
    assert step["lines"][0] == inspect.getsource(br.fc_nat.bong).splitlines()[0]


# --- refusals -------------------------------------------------------------------------------------

BAD = [
    (None, "request"),
    ([], "request"),
    ({"modell": "linear"}, "request.modell"),
    ({"model": "probit"}, "model"),
    ({"model": ["linear"]}, "model"),
    ({"noise": 0}, "noise"),
    ({"noise": True}, "noise"),
    ({"noise": float("nan")}, "noise"),
    ({"prior": 3}, "prior"),
    ({"prior": {"mu": [0, 0]}}, "prior.mu"),
    ({"prior": {"mean": [0]}}, "prior.mean"),
    ({"prior": {"mean": [0, 1e9]}}, "prior.mean[1]"),
    ({"prior": {"cov": [[1, 2], [2, 1]]}}, "prior.cov"),
    ({"prior": {"cov": [[1, 0.5], [0.2, 1]]}}, "prior.cov"),
    ({"prior": {"cov": [1, 0]}}, "prior.cov[0]"),
    ({"t": 13}, "t"),
    ({"t": -1}, "t"),
    ({"t": 1.5}, "t"),
    ({"t": "__import__('os')"}, "t"),
    ({"stream": {"n": 51}}, "stream.n"),
    ({"stream": {"x": [[1, 2]]}}, "stream.y"),
    ({"stream": {"x": [[1, 2]], "y": [2]}}, "stream.y[0]"),
    ({"model": "poisson", "stream": {"x": [[1, 2]], "y": [0.5]}}, "stream.y[0]"),
    ({"stream": {"x": [], "y": []}}, "stream.x"),
    ({"stream": {"x": [[1, 2]], "y": [1], "seed": 2}}, "stream"),
    ({"seed": -1}, "seed"),
    ({"methods": []}, "methods"),
    ({"methods": [{}] * 3}, "methods"),
    ({"methods": [7]}, "methods[0]"),
    ({"methods": [{"rule": "bang"}]}, "methods[0].rule"),
    ({"methods": [{"hess": "hess"}]}, "methods[0].hess"),
    ({"methods": [{}, {"family": "full"}]}, "methods[1].family"),
    ({"methods": [{"rule": "blr", "alpha": 2}]}, "methods[0].alpha"),
    ({"methods": [{"n_iter": 0}]}, "methods[0].n_iter"),
    ({"methods": [{"n_samples": 10**9}]}, "methods[0].n_samples"),
    (
        {"methods": [{"rule": "bbb", "hess": "mc-ef", "n_iter": 50, "n_samples": 200}]},
        "methods[0].n_samples",
    ),
    ({"methods": [{"rank": 3}]}, "methods[0].rank"),
    ({"guess": {"cov": [[0, 0], [0, 0]]}}, "guess.cov"),
    ({"view": [0, 0, 1, 1]}, "view"),
    ({"view": [0, 1]}, "view"),
]


@pytest.mark.parametrize(("request_", "argument"), BAD)
def test_bad_requests_are_answered_with_data(request_, argument):
    answer = respond(request_)
    assert list(answer) == ["error"]
    error = answer["error"]
    assert error["argument"] == argument and error["allowed"] and error["remedy"]
    assert error["argument"] in error["message"] and error["value"] in error["message"]
    json.dumps(answer, allow_nan=False)


def test_a_request_is_not_changed_and_answers_are_alike():
    request = {"t": 3, "prior": PRIOR, "methods": [{"hess": "mc-ef"}, {"rule": "bog"}]}
    before = json.dumps(request)
    first, second = respond(request), respond(request)
    assert json.dumps(request) == before and json.dumps(first) == json.dumps(second)


def test_drawn_streams_can_be_sent_back():
    for model in MODELS:
        drawn = respond({"model": model, "stream": {"seed": 4, "n": 9}, "t": 9})
        again = respond({"model": model, "stream": drawn["stream"], "t": 9})
        assert again == drawn
        assert (
            likelihood(model, 0.25).encode(np.array(drawn["stream"]["y"]), 1, batch=9) is not None
        )


def test_the_likelihood_is_the_librarys():
    r = checked({"t": 2, "model": "poisson"})
    shown = respond({"t": 2, "model": "poisson"})["likelihood"]
    log_p = [float(np.sum(r.lik.log_prob(np.array([o]), np.array([r.y[1]])))) for o in shown["o"]]
    np.testing.assert_allclose(shown["relative"], np.exp(log_p - np.max(log_p)), rtol=1e-12)
    assert Gaussian(*r.prior) == r.prior

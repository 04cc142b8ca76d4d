"""The comparison with other implementations, without any of them: the page, the findings, the
causes, the command.
"""

import importlib
import json
import os
import subprocess
import sys
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pytest

import bongref as br
from bongref import FC, Diag
from bongref.conformance import vectors
from bongref.curvature import Lin, linearise
from bongref.grid import NAMES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
peers = importlib.import_module("validation.peers")
causes, explain = (
    importlib.import_module("validation.peers.causes"),
    importlib.import_module("validation.peers.explain"),
)

FINDINGS = peers.load_findings()
BY_ID = {f["id"]: f for f in FINDINGS}
RESULTS = sorted(peers.RESULTS.glob("peer-*.json"))
KINDS = (
    "slip in the code",
    "as printed, not as corrected (E36)",
    "another method",
    "jitter",
    "emission function of the experiments",
    "no validation",
    "rounding",
    "convention",
    "initialisation",
    "metric",
    "names",
)


@lru_cache
def cases():
    return vectors.load()


def case_of(id):
    return next(case for case in cases() if case.id == id)


# --- the page and the results ---------------------------------------------------------------------


def test_the_page_is_what_the_results_and_findings_make():
    made = importlib.import_module("validation.peers.page").page(peers.RESULTS)
    assert (ROOT / "docs" / "peers.md").read_text(encoding="utf-8") == made, (
        "python -m validation.peers --page"
    )
    names = ("_pull", "_woodbury has it", "prec0", "not searched")  # of the code; of no diagnosis
    assert not any(name in made for name in names)


def test_there_is_a_result_of_every_peer():
    assert {file.stem.removeprefix("peer-") for file in RESULTS} == set(peers.PEERS)


@pytest.mark.parametrize("file", RESULTS, ids=lambda f: f.stem)
def test_every_failing_case_has_a_finding(file):
    result, known = json.loads(file.read_text(encoding="utf-8")), {case.id for case in cases()}
    assert {run["adapter"] for run in result["runs"]} == set(peers.PEERS[result["peer"]].adapters)
    for run in result["runs"]:
        for failure in run["failures"]:
            assert failure["case"] in known
            assert failure["findings"] and failure["confirmed"], failure["case"]
            for id in failure["findings"]:
                copy_of = peers.PEERS[result["peer"]].copy_of
                assert BY_ID[id]["peer"] in (result["peer"], copy_of)
                assert run["adapter"] in BY_ID[id]["adapters"] or BY_ID[id]["peer"] == copy_of
            if failure["difference"] is None:
                assert failure["confirmed"] != "UNEXPLAINED"
    assert all(row["left"] < 1e-12 for row in result["beyond"])


def test_no_path_of_a_machine():
    for file in [
        *RESULTS,
        peers.FINDINGS,
        *(ROOT / "validation" / "peers").glob("*.py"),
        ROOT / "docs" / "peers.md",
    ]:
        text = file.read_text(encoding="utf-8")
        assert not any(f"/{word}/" in text for word in ("work", "tmp", "root", "home")), file.name


# --- the findings ---------------------------------------------------------------------------------


def test_findings_have_their_fields():
    assert len(BY_ID) == len(FINDINGS)
    for f in FINDINGS:
        assert f["peer"] in peers.PEERS and f["verdict"] in ("agrees", "differs", "not offered"), f[
            "id"
        ]
        assert f["what"] and f["methods"] and f["version"]
        assert set(f["adapters"]) <= set(peers.PEERS[f["peer"]].adapters) and set(
            f["levels"]
        ) <= set(vectors.CALLS)
        if f["verdict"] == "differs":
            assert f["kind"] in KINDS and f.get("means"), f["id"]
            assert f.get("cause") or f.get("reason"), f["id"]
            assert ("file" in f and "lines" in f) or f["kind"] in ("no validation", "rounding"), f[
                "id"
            ]
            assert f["size"] is None or f["problem"], f["id"]
        if "cause" in f:
            assert callable(getattr(causes, f["cause"])), f["id"]
        if "erratum" in f:
            assert f"| {f['erratum']} |" in (ROOT / "docs" / "errata.md").read_text(
                encoding="utf-8"
            )


def test_every_cause_belongs_to_a_finding_and_the_other_way_round():
    explained = {id for ids, _ in explain.CAUSES for id in ids}
    assert explained <= set(BY_ID)
    seen_by_vectors = {
        f["id"] for f in FINDINGS if f["verdict"] == "differs" and "cause" in f and f["adapters"]
    }
    assert seen_by_vectors == explained
    for ids, make in explain.CAUSES:
        case = applicable(ids)[0]
        used = {explain.function(piece) for piece in make(case) if piece}
        assert all(BY_ID[id]["cause"] in used or BY_ID[id]["cause"] == "bbb_dlr" for id in ids)


# --- the causes -----------------------------------------------------------------------------------


def applicable(ids):
    """The cases that these findings are about."""
    return [
        case
        for case in cases()
        if case.result == "value"
        and all(
            any(explain.applies(BY_ID[id], cls, case) for cls in BY_ID[id]["adapters"])
            for id in ids
        )
    ]


@pytest.mark.parametrize(
    "ids, make", explain.CAUSES, ids=lambda x: "+".join(x) if isinstance(x, tuple) else ""
)
def test_a_cause_differs_from_the_equations(ids, make):
    for case in applicable(ids):
        try:
            made = explain.values(case, make(case))
        except (
            ValueError,
            np.linalg.LinAlgError,
        ):  # a cause that is made for some of these cases: a singular Q, a correlated R
            continue
        wanted = [q for q in case.expected if q.role == "result"]
        if not all(
            np.max(np.abs(made[q.name] - q.value)) / q.scale <= 10 * q.tolerance["float64"]
            for q in wanted
        ):  # NaN differs
            return
    pytest.fail("no case tells it from the equations")


@pytest.mark.parametrize("level", ["step", "update", "stream", "predict"])
def test_without_a_cause_the_pieces_are_the_reference(level):
    some = [case for case in cases() if case.level == level and case.result == "value"][::29]
    for case in some:
        made = explain.values(case, explain.Pieces())
        assert all(
            np.max(np.abs(made[q.name] - q.value)) / q.scale <= 1e3 * q.tolerance["float64"]
            for q in case.expected
            if q.name in made
        )


def agrees(case, pieces, factor=1e3):
    made = explain.values(case, pieces)
    return all(
        np.max(np.abs(made[q.name] - q.value)) / q.scale <= factor * q.tolerance["float64"]
        for q in case.expected
        if q.role == "result"
    )


def test_causes_of_the_later_peers_switched_off_are_the_reference():
    """Each with what is wrong in it taken away."""
    line, dlr = (case_of(f"update/bong-lin-hess-{family}/line") for family in ("fc", "dlr"))
    assert agrees(dlr, explain.Pieces(update=partial(causes.dlr_jitter, eps=0.0)))
    assert not agrees(dlr, explain.Pieces(update=causes.dlr_jitter))
    assert agrees(line, explain.Pieces(update=partial(causes.counted_again, times=1)))
    assert not agrees(line, explain.Pieces(update=partial(causes.counted_again, times=2)))
    static = case_of("stream/bong-lin-hess-fc/static")  # a cause of the first observation alone
    begin = explain.Pieces(begin=causes.prior_precision_inverted)
    made, wrong = explain.values(static, begin), explain.Pieces(update=begin.begin)
    assert not np.allclose(made["state[2].mu"], explain.values(static, wrong)["state[2].mu"])


@pytest.mark.parametrize("family", ["diag_mom", "fc_mom"])
def test_a_slip_that_overflows_explains_the_states_before(family):
    """With the wrong sign the covariance grows until nothing is finite: an answer that is the same
    to there, and not finite after it, is explained; any other is not.
    """
    case, id = case_of(f"stream/blr-lin-hess-{family}/long"), f"bong-blr-{family}"
    cause = getattr(causes, f"blr_{family}_sign")
    with np.errstate(all="ignore"):
        made = explain.values(case, explain.Pieces(step=cause))
    parts = ("mu", "var" if "diag" in family else "Sigma")
    states = [{part: made[f"state[{t}].{part}"] for part in parts} for t in range(1, 51)]
    finite = [all(np.isfinite(v).all() for v in state.values()) for state in states]
    assert finite[0] and not any(finite[10:])
    found = explain.explain(FINDINGS, "Adapter", case, states)
    assert found.findings == (id,) and "then not finite, as in the formula" in found.how
    assert found.difference < 1e-15
    other = [{**states[0], "mu": states[0]["mu"] * 1.01}, *states[1:]]
    assert explain.explain(FINDINGS, "Adapter", case, other) is None
    assert explain.explain(FINDINGS, "Adapter", case, [states[0]] * 50) is None


def test_nano_is_the_rule_in_the_first_iteration_alone():
    rng, P = np.random.default_rng(0), 3
    A = rng.standard_normal((P, P))
    prior, curv = FC(rng.standard_normal(P), A @ A.T + np.eye(P)), br.Curv(np.ones(P), G=-np.eye(P))
    m = br.method("blr-mc-hess-fc", alpha=0.5, n_iter=2, n_samples=1)
    once, _ = br.step(m, prior, prior, curv)
    for a, b in zip(causes.nano(prior, prior, curv, 0.5), once, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    twice, _ = br.step(m, prior, once, curv)
    again = causes.nano(prior, once, curv, 0.5)
    assert np.max(np.abs(again.mu - twice.mu)) > 0.01
    assert np.max(np.abs(again.Sigma - twice.Sigma)) > 0.01


def test_sigma_points_match_two_moments_and_not_four():
    """For a flat loss the expected Hessian is 0 and 'stein' keeps the prior; else it is another."""
    prior = FC(np.zeros(2), np.diag([1.0, 2.0]))
    flat = Lin(np.zeros(1), np.zeros((1, 2)), np.eye(1), np.zeros(1))
    for a, b in zip(causes.nano_stein(prior, flat), prior, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    lin = flat._replace(H=np.ones((1, 2)))
    right = causes.jitter(prior, lin, 0.0)
    assert np.max(np.abs(causes.nano_stein(prior, lin).Sigma - right.Sigma)) > 0.1


@pytest.mark.parametrize(
    "cause", [causes.jitter, causes.jitter_R, causes.jitter_woodbury, causes.jitter_information]
)
def test_a_jitter_of_nothing_is_the_reference(cause):
    assert agrees(
        case_of("update/bong-lin-hess-fc/line"), explain.Pieces(update=partial(cause, eps=0.0))
    )
    assert not agrees(case_of("update/bong-lin-hess-fc/line"), explain.Pieces(update=cause))


def test_other_causes_switched_off_are_the_reference():
    rng, P = np.random.default_rng(0), 4
    prior = FC(rng.standard_normal(P), np.diag(rng.uniform(0.5, 1, P)))
    dynamics = br.dynamics.OU(0.9, np.ones(P), np.ones(P))
    for got, wanted in zip(
        causes.jitter_information_predict(prior, dynamics, eps=0.0),
        br.predict(prior, dynamics),
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
    assert agrees(
        case_of("update/bong-lin-hess-fc/curve"),
        explain.Pieces(estimate=causes.softmax_jitter(0.0)),
    )
    assert agrees(
        case_of("update/bong-lin-hess-fc/line"), explain.Pieces(estimate=causes.transposed_root)
    )  # one output
    dlr = next(
        case
        for case in cases()
        if case.level == "step"
        and case.subject["method"] == "bbb-lin-hess-dlr"
        and case.result == "value"
    )
    assert agrees(dlr, explain.Pieces(step=partial(causes.bbb_dlr, cross=False, sign=False)))
    diag = Diag(rng.standard_normal(P), rng.uniform(0.5, 1, P))
    curv = br.Curv(
        rng.standard_normal(P), d=-rng.uniform(0, 1, P)
    )  # a diagonal G: the full gain is the diagonal one
    for got, wanted in zip(
        causes.full_gain(diag, diag, curv, 1),
        br.step("bong-lin-hess-diag", diag, None, curv)[0],
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    model, lik, x, y, mu = (
        br.models.linear(2),
        br.likelihoods.Bernoulli(),
        np.ones(2),
        np.ones(1),
        np.array([0.3, -0.4]),
    )
    wanted = br.curvature.lin_hess(model, lik, x, y, mu)
    for made in (
        causes.sigmoid_clip(1e-5)(model, lik, x, y, mu),
        causes.by_least_squares(causes.sigmoid_rounded(model, lik, x, y, mu, mu)),
    ):
        np.testing.assert_allclose(made.g, wanted.g, rtol=1e-12)  # away from saturation
        np.testing.assert_allclose(made.S @ made.S.T, wanted.S @ wanted.S.T, rtol=1e-12)
    for observe in (causes.early, causes.stale_jacobian):  # a mean that does not move
        for a, b in zip(
            observe(model, lik, x, y, mu, mu), linearise(model, lik, x, y, mu), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_the_causes_that_no_vector_sees():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 4))
    Sigma = A @ A.T + np.eye(4)
    assert np.max(np.abs(causes.sample_covariance(Sigma) - Sigma)) > 0.1
    np.testing.assert_allclose(
        causes.sample_covariance(np.diag(np.diag(Sigma))), np.diag(np.diag(Sigma)), rtol=1e-12
    )
    Ups, W = rng.uniform(1, 2, 4), rng.standard_normal((4, 2))
    assert (
        np.max(np.abs(causes.sample_covariance_dlr(Ups, W) - np.linalg.inv(np.diag(Ups) + W @ W.T)))
        > 0.1
    )
    np.testing.assert_allclose(
        causes.sample_covariance_dlr(Ups, 0 * W), np.diag(1 / Ups), rtol=1e-12
    )
    q = FC(np.zeros(4), Sigma)
    np.testing.assert_array_equal(causes.fc_scalar_noise(q, 1.0, 0.0).Sigma, Sigma)
    assert causes.fc_scalar_noise(q, 1.0, 0.5).Sigma[0, 1] != Sigma[0, 1]
    logs = np.log(rng.uniform(0.1, 1, (5, 3)))
    assert causes.nlpd_mean_of_logs(logs) > -np.mean(np.log(np.mean(np.exp(logs), axis=0)))
    assert causes.nlpd_mean_of_logs(logs[:1]) == pytest.approx(-np.mean(logs[0]))
    logits, labels = rng.standard_normal((1, 3, 4)), np.array([0, 1, 2])
    log_p = br.likelihoods.Categorical().log_prob(logits[0], np.eye(4)[labels])
    assert causes.nlpd_mean_logits(logits, labels) == pytest.approx(-np.mean(log_p))
    curv = br.Curv(rng.standard_normal(4), G=-np.eye(4))
    twice, once = causes.rvga_inner(q, [curv, curv]).Sigma, causes.rvga_inner(q, [curv]).Sigma
    assert np.max(np.abs(twice - once)) > 0.01
    thetas, grads, diag = (
        rng.standard_normal((3, 4)),
        rng.standard_normal((3, 4)),
        Diag(np.zeros(4), np.ones(4)),
    )
    assert np.all(causes.vi_diag_step(diag, thetas, grads, 0.0).var == 1) and not np.any(
        causes.vi_dense_mean(q, thetas, grads, 0.0)
    )


# --- the command and the adapters -----------------------------------------------------------------


def test_the_list_says_what_is_missing():
    out = subprocess.run(
        [sys.executable, "-m", "validation.peers", "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [line.split()[0] for line in out.splitlines()] == list(peers.PEERS)


def test_an_unknown_peer_is_refused():
    out = subprocess.run(
        [sys.executable, "-m", "validation.peers", "nobody"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert out.returncode == 2 and "there is no peer 'nobody'" in out.stderr


@pytest.mark.parametrize("name", peers.PEERS)
def test_an_absent_peer_is_an_import_error_that_helps(name, monkeypatch):
    for variable in [v for v in os.environ if v.startswith("BONGREF_PEER_")]:
        monkeypatch.delenv(variable)
    for word in (name, "jax", "torch"):
        monkeypatch.setitem(sys.modules, word, None)  # importing it raises ImportError
    for module in [
        m
        for m in sys.modules
        if m.startswith("validation.peers.peer_") or m[17:] in ("_jax", "_torch")
    ]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=r"need|cannot be imported|BONGREF_PEER"):
        importlib.import_module(f"validation.peers.peer_{name}")


def test_a_checkout_that_is_none_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("BONGREF_PEER_NOTHING", str(tmp_path))
    with pytest.raises(ImportError, match="BONGREF_PEER_NOTHING"):
        peers.load("nothing", "BONGREF_PEER_NOTHING", "nothing")


def test_methods_of_findings_match_something():
    words = [
        *NAMES,
        *(
            "fc",
            "fc_mom",
            "diag",
            "diag_mom",
            "dlr",
            "plugin",
            "lin-hess",
            "lin-ef",
            "mc-ef",
            "mc-hess",
        ),
    ]
    import fnmatch

    for f in FINDINGS:
        for glob in f["methods"] if f["adapters"] else ():
            assert fnmatch.filter(words, glob), (f["id"], glob)

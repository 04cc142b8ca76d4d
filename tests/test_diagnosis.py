"""Naming a mistake: small wrong implementations, written here, and what is said of them."""

import importlib
import itertools
import re

import numpy as np
import pytest

from bongref import curvature, models
from bongref.conformance import (
    answers,
    diagnosis,
    draws,
    mistakes,
    network,
    pipeline,
    runner,
    vectors,
    wording,
)
from bongref.conformance.adapter import Reference
from bongref.conformance.diagnosis import matching
from bongref.conformance.mistakes import NAMED, SCALED
from bongref.grid import FAMILIES, HESSIANS, RULES
from bongref.routes import compare

edited = importlib.import_module("bongref.conformance.mistakes.edited")  # a function has its name
CASES = {case.id: case for case in vectors.load() if case.result == "value"}


class Base:
    name, dtype = "wrong", "float64"


def said(adapter, levels, methods=None):
    """Every line of the verdict on an adapter that fails."""
    report = runner.check(adapter, levels=levels, methods=methods)
    failed = [o for o in report.failures if o.case.result == "value"]
    assert failed
    return [line for lines in diagnosis.verdict(failed).values() for line in lines], failed


def first_lines(adapter, levels, methods):
    report = runner.check(adapter, levels=levels, methods=methods)
    return {
        subject: lines[0] if lines else ""
        for subject, lines in diagnosis.verdict(report.outcomes).items()
    }


# --- steps written out in numpy, each with one mistake --------------------------------------------


def step_adapter(fn):
    class Adapter(Base):
        def step(self, method, prior, current, curv, params):
            return fn(prior, current, curv, params.get("alpha"))

    return Adapter()


def bong_fc(sign=1.0, half=1.0, old=False, returned=lambda S: S):
    def fn(prior, current, curv, alpha):
        Sigma = np.linalg.inv(np.linalg.inv(prior["Sigma"]) - sign * half * curv["G"])
        gain = prior["Sigma"] if old else Sigma
        return {"mu": prior["mu"] + gain @ curv["g"], "Sigma": returned(Sigma)}

    return fn


def bong_diag_full_gain(prior, current, curv, alpha):
    Sigma = np.linalg.inv(np.diag(1 / prior["var"]) - curv["G"])
    return {"mu": prior["mu"] + Sigma @ curv["g"], "var": np.diag(Sigma).copy()}


def blr_diag(var_of="current", pull=True, alpha_G=True, std=False):
    def fn(prior, current, curv, alpha):
        old = {"current": current, "prior": prior}[var_of]["var"]
        prec = (1 - alpha) / old + alpha / prior["var"] - (alpha if alpha_G else 1) * curv["d"]
        var = 1 / prec
        d = (prior["mu"] - current["mu"]) / prior["var"] if pull else 0
        return {
            "mu": current["mu"] + alpha * var * (d + curv["g"]),
            "var": np.sqrt(var) if std else var,
        }

    return fn


def bong_dlr(lost=True, mean="new"):
    def fn(prior, current, curv, alpha):
        W = np.concatenate([prior["W"], curv["S"]], axis=1)
        U, s, _ = np.linalg.svd(W, full_matrices=False)
        R = prior["W"].shape[1]
        kept, rest = U[:, :R] * s[:R], U[:, R:] * s[R:]
        Ups = prior["Ups"] + ((rest**2).sum(axis=1) if lost else 0)
        whole = np.diag(prior["Ups"]) + W @ W.T
        projected = np.diag(Ups) + kept @ kept.T
        mu = prior["mu"] + np.linalg.solve(whole if mean == "new" else projected, curv["g"])
        return {"mu": mu, "Ups": Ups, "W": np.pad(kept, ((0, 0), (0, R - kept.shape[1])))}

    return fn


@pytest.mark.parametrize(
    "fn, methods, words",
    [
        (bong_fc(sign=-1), "bong-*-fc", "sign of G"),
        (bong_fc(half=0.5), "bong-*-fc", "G/2"),
        (bong_fc(half=2), "bong-*-fc", "2 G"),
        (bong_fc(half=3), "bong-*-fc", "G times 3"),
        (bong_fc(old=True), "bong-*-fc", "covariance of the prior in place of the new one"),
        (bong_fc(returned=np.linalg.inv), "bong-*-fc", "precision returned"),
        (bong_fc(returned=np.linalg.cholesky), "bong-*-fc", "Cholesky factor returned"),
        (
            bong_fc(returned=lambda S: S + 1e-5 * np.eye(len(S))),
            "bong-*-fc",
            "1e-05 I added to the new covariance",
        ),
        (bong_diag_full_gain, "bong-lin-*-diag", "full gain in a diagonal family"),
        (blr_diag(var_of="prior"), "blr-*-diag", "`prior.var` instead of `current.var`"),
        (blr_diag(pull=False), "blr-*-diag", "KL term left out of the mean"),
        (
            blr_diag(alpha_G=False),
            "blr-*-diag",
            "`diagonal(curv)` instead of `alpha * diagonal(curv)`",
        ),
        (blr_diag(std=True), "blr-*-diag", "standard deviation returned"),
        (bong_dlr(lost=False), "bong-mc-ef-dlr", "does not absorb"),
        (bong_dlr(mean="projected"), "bong-mc-ef-dlr", "projection before the mean"),
    ],
)
def test_a_wrong_step_is_named(fn, methods, words):
    lines, failed = said(step_adapter(fn), ["L0"], [methods])
    assert any(words in line for line in lines), lines
    assert all(o.gap is not None for o in failed)


def bog_fc_in_vech(prior, current, curv, alpha):
    """BOG in FC by the chain rule in the entries of vech(ψ⁽²⁾): off the diagonal twice as far."""
    Sigma, mu, g = prior["Sigma"], prior["mu"], curv["g"]
    prec = np.linalg.inv(Sigma)
    D = 2 * alpha * np.outer(Sigma @ g, mu) + alpha * Sigma @ curv["G"] @ Sigma
    D = D + D.T - np.diag(np.diag(D))
    new = np.linalg.inv(prec - 2 * D)
    return {"mu": new @ (prec @ mu + alpha * Sigma @ g), "Sigma": (new + new.T) / 2}


def test_the_gradient_in_vech_is_named():
    lines, failed = said(step_adapter(bog_fc_in_vech), ["L0"], ["bog-*-fc"])
    assert len(failed) >= 12 and any("psi2-vech" in line for line in lines), lines


def every_edit():
    """What the search may say of an edit, of all rules, families, estimators and the prediction."""
    for family, rule in itertools.product(FAMILIES, RULES):
        yield from (m.text for m in edited.edited_steps(rule, family))
    for hess in HESSIANS:
        yield from (m.text for m in edited.edited_estimates(hess))
    yield from (m.text for m in edited.edited_predictions())


def test_no_name_of_our_own_code_is_said():
    """Only fields of the arguments, letters of the paper and functions of linear algebra."""
    private = {"m", "r", "v", "v0", "prec", "prec0", "curv", "one", "lost", "rank", "delta", "Sg"}
    texts, plain = set(every_edit()), 0
    assert len(texts) > 2000
    for text in texts:
        words = wording.said(f"matches {text}")
        place, code = words.split(" with ", 1)
        ids = place.removeprefix("matches ")
        assert ids in ("the step", "the prediction") or text.startswith(f"{ids} with"), words
        plain += wording.ONE_PLACE in words
        for piece in re.findall("`([^`]*)`", code):
            names = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", piece))
            assert not names & private, words
            assert not any("_" in name for name in names), words
        assert " has it" not in words
    assert plain < len(texts) / 4  # the others say what stands in place of what


def test_an_edit_of_the_displayed_form_says_what_stands_there():
    """W of the prior in place of the iterate's, in the product that the code has a name for."""
    words = [wording.said(f"matches {m.text}") for m in edited.edited_steps("bbb", "dlr", True)]
    D = "Sigma @ (Sigma0^-1 - Sigma^-1 - G) @ Sigma"
    edit = f"`alpha * {D} @ prior.W` instead of `alpha * {D} @ current.W`"
    assert any(edit in line and "eq:bbb-dlr-W" in line for line in words)
    assert "(prior.Sigma @ S)" in wording.said(
        "eq:bong-FC-prec with `V @ K.T` instead of `K @ V.T`"
    )


def test_two_forms_with_the_same_slip_are_said_once():
    edit = "eq:bbb-dlr-Ups with `diag_0` instead of `diag_0 - diag_i`"
    words = wording.all_said([edit, f"{edit}, as dlr.bbb_woodbury has it"])
    assert words == [
        "eq:bbb-dlr-Ups with `diag(Sigma W0 W0.T Sigma)` instead of "
        "`diag(Sigma W0 W0.T Sigma) - diag(Sigma W W.T Sigma)`"
    ]
    unknown = "bong_woodbury with `solve(M2, X)` instead of `M2`"
    assert wording.said(unknown) == f"the step {wording.ONE_PLACE}"


def test_the_sentence_names_the_equation():
    lines, _ = said(step_adapter(blr_diag(var_of="prior")), ["L0"], ["blr-lin-hess-diag"])
    assert "matches eq:blr-diag-prec with `prior.var` instead of `current.var`" in lines


def test_a_right_step_is_not_named():
    report = runner.check(step_adapter(blr_diag()), levels=["L0"], methods=["blr-*-diag"])
    assert not [o for o in report.failures if o.case.result == "value"]


# --- estimates ------------------------------------------------------------------------------------


def estimate_adapter(fn):
    class Adapter(Base):
        def estimate(self, hess, model, likelihood, theta, x, y, samples):
            return fn(
                hess, vectors.model(model), vectors.likelihood(likelihood), theta, x, y, samples
            )

    return Adapter()


def gradients(model, lik, x, y, thetas):
    return np.stack([curvature.lin_ef(model, lik, x, y, t).g for t in thetas])


def mc_ef(weight=lambda M: 1 / M, centre=False, sign=-1.0, g_weight=lambda M: 1 / M):
    def fn(hess, model, lik, theta, x, y, samples):
        grads = gradients(model, lik, x, y, samples)
        rows = grads - grads.mean(axis=0) if centre else grads
        return {
            "g": grads.sum(axis=0) * g_weight(len(grads)),
            "G": sign * weight(len(grads)) * rows.T @ rows,
        }

    return fn


def lin_hess(factor=None, jitter=0.0, residual=1.0):
    def fn(hess, model, lik, theta, x, y, samples):
        lin = curvature.linearise(model, lik, x, y, theta)
        R = lin.R + jitter * np.eye(len(lin.R))
        info = np.linalg.pinv(R, rcond=1e-12) if factor is None else factor(R)
        return {
            "g": residual * lin.H.T @ np.linalg.pinv(R, rcond=1e-12) @ lin.e,
            "G": -lin.H.T @ info @ lin.H,
        }

    return fn


def mean_only(hess, model, lik, theta, x, y, samples):
    curv = getattr(curvature, hess.replace("-", "_"))(
        model, lik, x, y, theta[None] if hess.startswith("mc") else theta
    )
    return {k: v for k, v in curv._asdict().items() if v is not None}


def transposed(R):
    A = np.linalg.cholesky(np.linalg.inv(R))
    return A.T @ A


@pytest.mark.parametrize(
    "fn, methods, only, words",
    [
        (mc_ef(weight=lambda M: 1.0), "*-mc-ef-fc", "", "no 1/M in G"),
        (
            mc_ef(weight=lambda M: 1.0, g_weight=lambda M: 1.0),
            "*-mc-ef-fc",
            "",
            "no 1/M: the sum over the samples",
        ),
        (mc_ef(weight=lambda M: 1 / (M - 1)), "*-mc-ef-fc", "", "1/(M - 1)"),
        (mc_ef(centre=True), "*-mc-ef-fc", "", "covariance of the gradients"),
        (mc_ef(sign=1.0, weight=lambda M: 1.0), "*-mc-ef-fc", "", "erratum outer-product"),
        (mean_only, "*-mc-ef-fc", "", "samples not used"),
        (lin_hess(residual=-1.0), "*-lin-hess-fc", "gaussian", "sign of g"),
        (lin_hess(factor=transposed), "*-lin-hess-fc", "gaussian", "erratum chol"),
        (lin_hess(factor=lambda R: R), "*-lin-hess-fc", "gaussian", "R in place of R^-1 in G"),
        (
            lin_hess(factor=lambda R: np.diag(1 / np.diag(R))),
            "*-lin-hess-fc",
            "gaussian",
            "diagonal of R alone in G",
        ),
        (lin_hess(jitter=1e-3), "*-lin-hess-fc", "categorical", "0.001 I added to R"),
    ],
)
def test_a_wrong_estimate_is_named(fn, methods, only, words):
    adapter = estimate_adapter(fn)
    cases = [
        c
        for c in vectors.load(["L1"], [methods])
        if (not only or only in c.flags) and "saturated" not in c.flags
    ]
    outcomes = [runner.run_case(adapter, case) for case in cases]
    lines = [line for lines in diagnosis.verdict(outcomes).values() for line in lines]
    assert any(words in line for line in lines), lines


# --- updates, streams, predictions ----------------------------------------------------------------


class Static(Reference):
    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        return super().run(
            method, model, likelihood, prior, X, Y, samples, {"kind": "static"}, params
        )


class Restarts(Reference):
    def update(self, method, model, likelihood, prior, x, y, samples, params):
        for i in range(params["n_iter"]):
            here = None if samples is None else samples[i : i + 1]
            state = super().update(
                method, model, likelihood, prior, x, y, here, {**params, "n_iter": 1}
            )
        return state


class Late(Reference):
    """The final state alone, and the samples of the first step throughout."""

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        return super().run(
            method,
            model,
            likelihood,
            prior,
            X,
            Y,
            np.stack([samples[0]] * len(X)),
            dynamics,
            params,
        )[-1]


class NoDrift(Reference):
    def predict(self, family, state, dynamics):
        return super().predict(
            family, state, {**dynamics, "b": 0 * dynamics["b"]} if "b" in dynamics else dynamics
        )


@pytest.mark.parametrize(
    "adapter, levels, methods, words",
    [
        (Static(), ["L3"], ["bong-lin-hess-dlr", "blr-mc-ef-fc"], "no prediction"),
        (Restarts(), ["L2"], ["blr-lin-hess-fc", "bbb-mc-ef-diag"], "restarts at the prior"),
        (Late(), ["L3"], ["bog-mc-ef-fc_mom"], "samples of the first step"),
        (NoDrift(), ["predict"], ["bong-lin-hess-diag"], "no b"),
    ],
)
def test_a_wrong_loop_is_named(adapter, levels, methods, words):
    lines, _ = said(adapter, levels, methods)
    assert any(words in line for line in lines), lines


def test_the_parts_of_an_update_are_looked_at_first():
    class Wrong(Reference):
        def estimate(self, **given):
            out = super().estimate(**given)
            return {"g": 2 * out["g"], "S": out["S"]}

        def update(self, method, model, likelihood, prior, x, y, samples, params):
            curv = self.estimate(
                hess="lin-hess",
                model=model,
                likelihood=likelihood,
                theta=prior["mu"],
                x=x,
                y=y,
                samples=None,
            )
            return super().step(method, prior, None, curv, params)

    outcome = runner.run_case(Wrong(), CASES["update/bong-lin-hess-fc/curve"])
    assert (outcome.gap.quantity, outcome.gap.equation) == ("g", "eq:gL")
    assert "2 g in place of g" in outcome.diagnosis[0]
    outcome = runner.run_case(Restarts(), CASES["update/blr-lin-hess-fc/curve"])
    assert any("put together" in line for line in outcome.diagnosis)


def test_the_right_parts_of_a_stream_are_seen_to_be_right():
    outcome = runner.run_case(Static(), CASES["stream/bong-lin-hess-dlr/plane"])
    assert outcome.gap.quantity == "state[1].mu" and any(
        "put together" in line for line in outcome.diagnosis
    )


def test_the_predictive_is_named():
    class Plugin(Reference):
        def predictive(self, kind, family, model, likelihood, state, X, samples, Y=None):
            return super().predictive("plugin", family, model, likelihood, state, X, samples, Y)

    outcome = runner.run_case(Plugin(), CASES["predictive/mc-fc/classes"])
    assert "plugin predictive" in outcome.diagnosis[0]


def test_bins_closed_on_the_left_are_named_before_their_number():
    """At the edge of a bin 15 bins give the same as bins [a, b); away from it they do not."""

    class LeftClosed(Reference):
        def predictive(self, kind, family, model, likelihood, state, X, samples, Y=None):
            out = super().predictive(kind, family, model, likelihood, state, X, samples, Y)
            p, y = out["mean"][:, 0], np.asarray(Y)[:, 0]
            sure, hit = np.maximum(p, 1 - p), (p > 0.5) == (y == 1)
            where = np.minimum(np.floor(20 * sure), 19)
            gaps = [abs(np.sum((hit - sure)[where == b])) for b in np.unique(where)]
            return {**out, "ece": sum(gaps) / len(y)}

    outcome = runner.run_case(LeftClosed(), CASES["predictive/lin_mc-diag/edge"])
    assert "bins [a, b)" in outcome.diagnosis[0]


ROOTS = {  # of the covariance of draws, from q's covariance, Υ and W
    "variances for standard deviations": lambda Sigma, Ups, W: Sigma,
    "L^T L in place of L L^T": lambda Sigma, Ups, W: np.linalg.cholesky(Sigma).T,
    "the precision in place": lambda Sigma, Ups, W: np.linalg.cholesky(np.linalg.inv(Sigma)),
    "the diagonal of the covariance alone": lambda Sigma, Ups, W: np.diag(np.sqrt(np.diag(Sigma))),
    "the covariance": lambda Sigma, Ups, W: np.eye(len(Sigma)),
    "Ups alone, without W": lambda Sigma, Ups, W: np.diag(1 / np.sqrt(Ups)),
    "W W^T added to the covariance": lambda Sigma, Ups, W: np.linalg.cholesky(
        np.diag(1 / Ups) + W @ W.T
    ),
    "one standard normal": lambda Sigma, Ups, W: np.outer(
        np.linalg.cholesky(Sigma).sum(axis=1), np.eye(len(Sigma))[0]
    ),
}


def drawing(root, mean=1.0):
    class Adapter(Base):
        def draw(self, family, state, n, seed, normals):
            Ups, W = state["Ups"], state["W"]
            made = root(np.linalg.inv(np.diag(Ups) + W @ W.T), Ups, W)
            z = np.random.default_rng(seed).standard_normal((n, len(Ups)))
            return mean * state["mu"] + (z if normals is None else normals) @ made.T

    return Adapter()


@pytest.mark.parametrize("words", ROOTS)
def test_wrong_draws_are_named(words):
    """By the one mistake that it is: given standard normals, and by the moments of 20,000 draws."""
    report = runner.check(drawing(ROOTS[words]), levels=["draw"])
    failed = [o for o in report.failures if o.case.family == "dlr" and "zero-W" not in o.case.flags]
    assert {o.case.id for o in failed} == {"draw/dlr/normals", "draw/dlr/moments"}
    assert all(words in o.diagnosis[0] and len(o.diagnosis) == 1 for o in failed), [
        o.diagnosis for o in failed
    ]


def test_right_draws_pass_by_any_root_and_draws_without_the_mean_are_named():
    def symmetric(Sigma, Ups, W):
        lam, Q = np.linalg.eigh(Sigma)
        return (Q * np.sqrt(lam)) @ Q.T

    of_dlr = lambda adapter: [
        o for o in runner.check(adapter, levels=["draw"]).outcomes if o.case.family == "dlr"
    ]
    assert {o.status for o in of_dlr(drawing(symmetric))} == {"pass"}
    said = of_dlr(drawing(symmetric, mean=0.0))
    assert all("draws without the mean" in o.diagnosis[0] for o in said)


def test_single_precision_is_seen():
    class Single(Base):
        def step(self, method, prior, current, curv, params):
            cast = lambda d: {k: np.asarray(v, dtype=np.float32) for k, v in d.items()}
            return bong_fc()(cast(prior), None, cast(curv), None)

    outcome = runner.run_case(Single(), CASES["step/bong-lin-hess-fc/plain"])
    assert "float32" in outcome.diagnosis[0]


def test_a_factor_is_seen_where_no_form_is_known():
    def fn(prior, current, curv, alpha):
        out = bong_fc()(prior, current, curv, alpha)
        return {**out, "mu": prior["mu"] + 1.7 * (out["mu"] - prior["mu"])}

    lines, _ = said(step_adapter(fn), ["L0"], ["bong-lin-hess-fc"])
    assert any("g times 17/10" in line for line in lines), lines


# --- what must not happen -------------------------------------------------------------------------


def some(level, n=12):
    cases = [c for c in CASES.values() if c.level == level]
    return cases[:: max(1, len(cases) // n)]


@pytest.mark.parametrize("level", ["step", "estimate", "predict", "predictive"])
def test_right_values_have_no_diagnosis(level):
    for case in some(level):
        values = {q.name: q.value for q in case.expected}
        assert diagnosis.diagnose(object(), case, values, "float64") == (None, ())


@pytest.mark.parametrize("level", ["step", "estimate"])
def test_noise_has_no_diagnosis(level):
    rng = np.random.default_rng(0)
    for case in some(level, 6):
        values = {
            q.name: q.value + 0.1 * q.scale * rng.standard_normal(q.value.shape)
            for q in case.expected
        }
        assert diagnosis.diagnose(Base(), case, values, "float64")[1] == (), case.id


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, 0.0])
def test_nothing_raises(bad):
    for level in ("step", "estimate", "update", "stream", "predict", "predictive"):
        for case in some(level, 2):
            values = {q.name: np.full(q.value.shape, bad) for q in case.expected}
            _, lines = diagnosis.diagnose(Base(), case, values, "float64")
            assert len(lines) <= diagnosis.SHOWN
            assert diagnosis.diagnose(
                None, case, {q.name: np.zeros(7) for q in case.expected}, "float64"
            ) == (None, ())


def test_two_mistakes_at_once_do_not_stop_it():
    def fn(prior, current, curv, alpha):
        out = blr_diag(var_of="prior", pull=False, alpha_G=False)(prior, current, curv, alpha)
        return {**out, "mu": out["mu"][::-1]}

    report = runner.check(step_adapter(fn), levels=["L0"], methods=["blr-*-diag"])
    assert report.failures and all(len(o.diagnosis) <= diagnosis.SHOWN for o in report.failures)


def test_an_adapter_that_raises_in_its_parts_is_left_alone():
    class Raises(Restarts):
        def estimate(self, **given):
            raise RuntimeError("no")

    outcome = runner.run_case(Raises(), CASES["update/blr-lin-hess-fc/curve"])
    assert outcome.status == "fail" and any("restarts" in line for line in outcome.diagnosis)


# --- the table itself -----------------------------------------------------------------------------


def test_keys_are_unique_and_texts_are_plain():
    assert len({m.key for m in NAMED}) == len(NAMED)
    assert all(m.text and not m.text.endswith(".") for m in (*NAMED, *SCALED))
    assert all("{c}" in m.text for m in SCALED)


# no case that stays positive definite has a positive entry on the diagonal of G
UNSEEN = ("G-absolute", "G-clipped")
LEVELS = {
    "step": ("step",),
    "estimate": ("estimate",),
    "problem": ("estimate",),
    "update": ("update",),
    "run": ("stream",),
    "predict": ("predict",),
    "predictive": ("predictive",),
    "output": ("step", "estimate"),
}


def wrong_values(mistake, case):
    """What the mistake returns in a case, or None where it is not seen there."""
    try:
        with np.errstate(all="ignore"):
            values = pipeline.values(mistake.pieces, case)
    except Exception:
        return None
    kept = {
        q.name: np.asarray(values[q.name], dtype=float) for q in case.expected if q.name in values
    }
    seen = [q for q in case.expected if q.name in kept and np.shape(kept[q.name]) == q.value.shape]
    if len(seen) < len(kept) or not all(np.all(np.isfinite(a)) for a in kept.values()):
        return None
    clear = any(
        np.max(np.abs(kept[q.name] - q.value)) > 1e4 * q.scale * q.tolerance["float64"]
        for q in seen
    )
    return kept if clear else None


def where_it_shows(mistake):
    """The first case in which a mistake shows, and what it returns there."""
    for case in CASES.values():
        if (
            case.level in LEVELS[mistake.piece]
            and mistake.applies(case)
            and (values := wrong_values(mistake, case))
        ):
            return case, values
    assert mistake.key in UNSEEN, f"no case shows {mistake.key}"
    return None, None


def test_every_named_mistake_shows_and_is_recognised():
    for mistake in NAMED:
        case, values = where_it_shows(mistake)
        if case:
            with np.errstate(all="ignore"):
                assert diagnosis.reproduces(
                    mistake, case, diagnosis.targets(case, values, "float64")
                ), (mistake.key, case.id)


@pytest.mark.parametrize("mistake", NAMED[::9], ids=lambda m: m.key)
def test_a_named_mistake_is_found(mistake):
    """In the first case in which it shows, among all that is found there."""
    case, values = where_it_shows(mistake)
    if case:
        found = diagnosis.diagnose(Base(), case, values, "float64")[1]
        assert mistake.key in {m.key for m in found.matches}, (case.id, found)


def test_verdict_and_common_take_what_explains_most():
    adapter = step_adapter(bong_fc(sign=-1))
    report = runner.check(adapter, levels=["L0"], methods=["bong-*-fc"])
    assert "the sign of G" in diagnosis.common(report.outcomes)
    assert set(diagnosis.verdict(report.outcomes)) == {
        f"bong-{h}-fc" for h in ("mc-hess", "mc-ef", "lin-hess", "lin-ef")
    }
    assert diagnosis.common([]) == [] and diagnosis.verdict([]) == {}


def test_every_edit_is_of_a_known_equation():
    from bongref.paper import equations

    for rule in ("bong", "blr", "bog", "bbb"):
        for family in ("fc", "fc_mom", "diag", "diag_mom", "dlr"):
            for mistake in mistakes.edited_steps(rule, family):
                word = mistake.text.split(" ")[0]
                assert word in equations() or not word.startswith(("eq:", "sec:")), mistake.text


def test_the_prediction_is_edited_in_its_equations():
    """In mean and covariance of every family; checks and messages are not edited."""
    found = mistakes.edited_predictions()
    by_equation = {m.text.split(" ")[0] for m in found}
    assert {"sec:pseudocode#3", "sec:pseudocode#4"} <= by_equation and len(found) > 100
    assert {"predict.matrices", "predict._predict_dlr", "predict.predict_dlr"} <= {
        m.key.split(":")[0] for m in found
    }
    right = {
        case.id: pipeline.values(pipeline.RIGHT, case)
        for case in CASES.values()
        if case.level == "predict"
    }
    shown = set()
    for mistake in found:
        for case_id, values in right.items():
            if mistake.applies(CASES[case_id]) and diagnosis.reproduces(
                mistake, CASES[case_id], _targets(mistake, CASES[case_id], values)
            ):
                shown.add(mistake.text.split(" ")[0])
    assert {"sec:pseudocode#3", "sec:pseudocode#4"} <= shown


def _targets(mistake, case, right):
    values = wrong_values(mistake, case)
    return diagnosis.targets(case, values or right, "float64")


# --- the pieces are right -------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["step", "estimate", "update", "stream", "predict", "predictive"])
def test_the_right_pieces_give_what_a_case_expects(level):
    for case in some(level, 8):
        values = pipeline.values(pipeline.RIGHT, case)
        for q in case.expected:
            if q.name in values:
                assert (
                    answers.compare(q, np.asarray(values[q.name]), q.tolerance["float64"]) is None
                ), (case.id, q.name)


@pytest.mark.parametrize("where", ["plane", "curve", "labels", "classes", "counts", "image"])
def test_the_network_written_out_is_the_model(where):
    """Outputs, Jacobian and second derivatives against automatic differentiation."""
    model, _, _ = draws.setting(where)
    rng = np.random.default_rng(0)
    theta, x = (
        rng.uniform(0.25, 1, model.n_params) * rng.choice([-1, 1], model.n_params),
        rng.standard_normal(model.in_shape),
    )
    o, J, H = network.Network().outputs(vectors.model_spec(model), theta, x, second=True)
    second = np.stack([models.hessian(lambda t, c=c: model(t, x)[c])(theta) for c in range(len(o))])
    for got, wanted in ((o, model(theta, x)), (J, model.jac(theta, x)), (H, second)):
        assert np.max(np.abs(got - wanted)) <= compare.C * len(theta) * compare.EPS * max(
            1.0, np.max(np.abs(wanted))
        )


@pytest.mark.parametrize(
    "name",
    [
        *("tanh", "sigmoid", "silu", "softplus", "relu", "elu", "gelu", "gelu_tanh", None),
        *("lecun_tanh", "quick_gelu", "softsign"),
    ],
)
def test_the_derivatives_of_an_activation(name):
    """By central differences: h² of the third derivative, which is at most 4, and eps/h of the
    value.
    """
    z, h = np.linspace(-3, 3, 40), 1e-4  # 0 is not among these
    for k in (0, 1):
        up, down = (network.activation(name, z + d)[k] for d in (h, -h))
        assert np.allclose(
            (up - down) / (2 * h),
            network.activation(name, z)[k + 1],
            rtol=0,
            atol=h**2 * 4 + 8e-16 / h,
        )


def test_a_factor_near_one_is_not_said_to_be_one():
    """Two digits are shown where they are right to 1e-3; 1.001 and 0.9995 are not 1."""
    assert [matching.number(matching.nice(c)) for c in (1.001, 0.9995, 2.0004, 0.5)] == [
        "1.001",
        "0.9995",
        "2",
        "1/2",
    ]

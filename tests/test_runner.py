"""The runner: what it says of right, wrong, broken and partial adapters, and that nothing stops the
rest.
"""

from __future__ import annotations

import numpy as np
import pytest

from bongref import gaussians
from bongref.conformance import findings, vectors
from bongref.conformance.adapter import Reference, dtype_of, load_adapter
from bongref.conformance.runner import check, read_xfails, run_case

CASES = {case.id: case for case in vectors.load()}


class Changed(Reference):
    """The reference with its answers passed through a function."""

    def __init__(
        self, change, calls=("step", "estimate", "update", "predict", "run", "predictive")
    ):
        self.change, self.calls = change, calls

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        if (
            name in ("step", "estimate", "update", "predict", "run", "predictive")
            and name in self.calls
        ):
            return lambda *a, **k: self.change(found(*a, **k))
        return found


def outcome(adapter, case_id):
    return run_case(adapter, CASES[case_id], diagnose=False)


FC_CASE, DIAG_CASE, DLR_CASE = (
    "step/blr-lin-hess-fc/plain",
    "step/blr-lin-hess-diag/plain",
    "step/blr-lin-hess-dlr/plain",
)
STREAM_CASE, ESTIMATE_CASE = "stream/bong-lin-hess-fc/plane", "estimate/mc-ef/softmax"


# --- right ----------------------------------------------------------------------------------------


def test_what_is_more_than_asked_is_fine():
    extra = lambda out: {**out, "seconds": 3.0, "valid": True, "precision": None}
    assert outcome(Changed(extra), FC_CASE).status == "pass"


def test_lists_and_scalars_of_other_libraries_are_read():
    class Tensor:
        def __init__(self, a):
            self.a = a

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.a, dtype=dtype)

    assert (
        outcome(
            Changed(lambda out: {k: Tensor(v) for k, v in out.items() if k != "valid"}), FC_CASE
        ).status
        == "pass"
    )
    assert (
        outcome(
            Changed(lambda out: {k: np.asarray(v).tolist() for k, v in out.items()}), FC_CASE
        ).status
        == "pass"
    )


def test_a_rotated_W_is_right():
    rng = np.random.default_rng(0)

    def rotate(out):
        Q, _ = np.linalg.qr(rng.standard_normal((out["W"].shape[1],) * 2))
        return {**out, "W": out["W"] @ Q}

    assert outcome(Changed(rotate), DLR_CASE).status == "pass"


def test_the_last_state_of_a_stream_is_enough():
    assert outcome(Changed(lambda states: states[-1]), STREAM_CASE).status == "pass"
    assert outcome(Changed(lambda states: tuple(states)), STREAM_CASE).status == "pass"


@pytest.mark.parametrize("keys", [("g", "S"), ("g", "G"), ("g", "d"), ("g", "S", "G", "d")])
def test_any_form_of_G_is_read(keys):
    def forms(out):
        G = -out["S"] @ out["S"].T
        whole = {**out, "G": G, "d": np.diag(G)}
        return {key: whole[key] for key in keys}

    assert outcome(Changed(forms), ESTIMATE_CASE).status == "pass"


# --- wrong ----------------------------------------------------------------------------------------


def test_a_failure_says_what_where_and_how_much():
    got = outcome(Changed(lambda out: {**out, "mu": out["mu"] * (1 + 1e-6)}), FC_CASE)
    assert (
        got.status == "fail" and got.gap.quantity == "mu" and got.gap.equation == "eq:blr-FC-nat-mu"
    )
    assert 1e-7 < got.gap.relative < 2e-6 and got.gap.tolerance < 1e-12
    for word in (
        "mu (eq:blr-FC-nat-mu), entry [",
        "got ",
        "wanted ",
        "relative difference",
        "tolerance",
    ):
        assert word in got.message


def test_the_first_quantity_in_the_order_of_computation_is_named():
    both = lambda out: {**out, "mu": out["mu"] + 1, "Sigma": out["Sigma"] * 2}
    assert outcome(Changed(both), FC_CASE).gap.quantity == "Sigma"  # the mean is computed from it
    assert outcome(Changed(both), "step/blr-lin-hess-fc_mom/plain").gap.quantity == "mu"


def test_an_intermediate_that_is_returned_is_compared_first():
    wrong = lambda out: {**out, "g": np.ones(3)}
    got = outcome(Changed(wrong), "update/bong-lin-hess-fc/line")
    assert got.status == "fail" and got.gap.quantity == "g" and got.gap.equation == "eq:gL"


def test_a_wrong_state_on_the_way_is_named_by_its_step():
    wrong = lambda states: [*states[:1], {**states[1], "mu": states[1]["mu"] + 1}, *states[2:]]
    assert outcome(Changed(wrong), STREAM_CASE).gap.quantity == "state[2].mu"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda out: 1 / 0, "error", "raised ZeroDivisionError: division by zero"),
        (lambda out: None, "error", "returned NoneType; wanted a dict with Sigma, mu"),
        (lambda out: (out["mu"], out["Sigma"]), "error", "returned tuple; wanted a dict"),
        (lambda out: {"mu": out["mu"]}, "error", "returned a dict with mu; wanted mu, Sigma"),
        (lambda out: {**out, "mu": "no"}, "error", "mu cannot be read as numbers"),
        (
            lambda out: {**out, "mu": out["mu"][:, None]},
            "fail",
            r"mu has shape (5, 1); wanted (5,)",
        ),
        (
            lambda out: {**out, "Sigma": np.diag(out["Sigma"])},
            "fail",
            r"Sigma has shape (5,); wanted (5, 5)",
        ),
        (lambda out: {**out, "mu": out["mu"] * np.nan}, "fail", "mu holds NaN at [0]"),
        (lambda out: {**out, "Sigma": out["Sigma"] / 0}, "fail", "Sigma holds inf at [0, 0]"),
        (lambda out: {**out, "Sigma": np.tril(out["Sigma"])}, "fail", "Sigma is not symmetric"),
        (lambda out: {**out, "valid": False}, "fail", "says that positive definiteness is lost"),
        (
            lambda out: {**out, "valid": np.bool_(False), "mu": out["mu"] + 1},
            "fail",
            "which it is not; mu (",
        ),
        (lambda out: {**out, "valid": "no"}, "error", "valid cannot be read as numbers"),
    ],
)
def test_broken_answers_are_reported_as_what_they_are(change, status, words):
    with np.errstate(all="ignore"):
        got = outcome(Changed(change), FC_CASE)
    assert got.status == status and words in got.message, got.message


def test_wrong_shapes_elsewhere():
    assert (
        "W has shape (6, 3); wanted (6, 2)"
        in outcome(Changed(lambda o: {**o, "W": np.zeros((6, 3))}), DLR_CASE).message
    )
    assert "returned 2 states; wanted 4" in outcome(Changed(lambda s: s[:2]), STREAM_CASE).message
    assert "wanted the final state" in outcome(Changed(lambda s: 3), STREAM_CASE).message
    assert "state 1 is a int" in outcome(Changed(lambda s: [1, 2, 3, 4]), STREAM_CASE).message
    assert (
        "wanted g and one of S, G, d"
        in outcome(Changed(lambda o: {"g": o["g"]}), ESTIMATE_CASE).message
    )
    assert (
        "S has shape (4, 6); wanted (6, any)"
        in outcome(Changed(lambda o: {**o, "S": o["S"].T}), ESTIMATE_CASE).message
    )
    assert "wanted 'mean'" in outcome(Changed(lambda o: {}), "predictive/mc-fc/softmax").message


def test_what_else_is_returned_is_not_read():
    for extra in ("bong", object(), {"a": 1}, np.ones(3) * 1j):
        assert (
            outcome(Changed(lambda out, extra=extra: {**out, "note": extra}), FC_CASE).status
            == "pass"
        )


@pytest.mark.parametrize(
    "mu", [np.ma.masked_equal(np.zeros(5), 0.0), ["1", "2", "3", "4", "5"], np.ones(5) * 1j]
)
def test_what_is_no_number_is_not_taken_for_one(mu):
    got = outcome(Changed(lambda out: {**out, "mu": mu}), FC_CASE)
    assert got.status == "error" and "mu cannot be read as numbers" in got.message


@pytest.mark.parametrize(
    "stop",
    [SystemExit(0), SystemExit(3), GeneratorExit(), BaseException("all of it"), RecursionError()],
)
def test_nothing_but_ctrl_c_stops_the_rest(stop):
    class Exits(Reference):
        def step(self, *args, **kwargs):
            raise stop

    got = outcome(Exits(), FC_CASE)
    assert got.status == "error" and f"raised {type(stop).__name__}" in got.message
    assert not check(Exits, levels=["L0"], methods=["bong-lin-hess-fc"], diagnose=False).ok


def test_other_names_of_the_parameters_are_called_by_position():
    class Short:
        def step(self, m, q0, q, c, p):
            return Reference().step(m, q0, q, c, p)

        def estimate(self, hess, model):
            return {}

    assert outcome(Short(), FC_CASE).status == "pass"
    got = outcome(Short(), ESTIMATE_CASE)
    assert (
        got.status == "error"
        and "cannot be called: estimate takes (hess, model); wanted (hess, model, likelihood,"
        in got.message
    )
    Short.step = Short.estimate
    assert outcome(Short(), REFUSE).status == "error"  # to be called wrongly is not to refuse


def test_a_diagnosis_that_fails_does_not_stop_the_verdict(monkeypatch):
    from bongref.conformance import diagnosis

    monkeypatch.setattr(diagnosis, "diagnose", lambda *args: 1 / 0)
    got = run_case(Changed(lambda out: {**out, "mu": out["mu"] + 1}), CASES[FC_CASE])
    assert (
        got.status == "fail"
        and "no diagnosis" in got.diagnosis[0]
        and "ZeroDivisionError" in got.diagnosis[0]
    )


def test_an_adapter_cannot_spoil_the_next_case():
    class Vandal(Reference):
        def step(self, method, prior, current, curv, params):
            for part in (prior, current, curv):
                for a in part.values():
                    a[...] = 7.0
            params.clear()
            raise RuntimeError("spoilt")

    assert outcome(Vandal(), FC_CASE).status == "error"
    assert outcome(Reference(), FC_CASE).status == "pass"


def test_one_broken_case_does_not_stop_the_rest():
    class Moody(Reference):
        def step(self, method, prior, current, curv, params):
            if "diag" in method:
                raise SystemError("not today")
            return super().step(method, prior, current, curv, params)

    report = check(Moody, levels=["L0"], methods=["bong-lin-hess-*"], diagnose=False)
    assert (
        not report.ok
        and report.counts["pass"] > 10
        and all("diag" in o.case.id for o in report.failures)
        and report.failures
    )


# --- not offered ----------------------------------------------------------------------------------


def test_what_is_missing_or_not_implemented_is_not_offered():
    class Few:
        def step(self, method, prior, current, curv, params):
            if "dlr" in method:
                raise NotImplementedError
            return (
                NotImplemented
                if "fc" in method
                else Reference().step(method, prior, current, curv, params)
            )

    report = check(Few, diagnose=False)
    assert (
        report.ok
        and set(report.counts) == {"pass", "not offered"}
        and report.name == "Few"
        and report.dtype == "float64"
    )
    assert {o.case.level for o in report.outcomes if o.status == "pass"} == {"step"}


def test_raising_everywhere_is_no_refusal():
    """A case that must be refused is an error where the same call raises on everything."""

    class Broken(Reference):
        def step(self, *args, **kwargs):
            raise RuntimeError("no GPU")

    report = check(Broken, methods=["bong-lin-hess-diag"], levels=["L0"], diagnose=False)
    assert report.counts == {"error": len(report.outcomes)} and not report.ok
    said = [o.message for o in report.outcomes if o.case.result == "refuse"]
    assert said and all("which is no refusal" in m and "no GPU" in m for m in said)


def test_an_argument_that_is_overwritten():
    class Careless(Reference):
        def step(self, method, prior, current, curv, params):
            out = super().step(method, prior, current, curv, params)
            prior["mu"] += 1
            return out

    report = check(Careless, methods=["bong-lin-hess-diag"], levels=["L0"])
    bad = [o for o in report.outcomes if o.case.result == "value"]
    assert {o.status for o in bad} == {"fail"}
    assert {o.message for o in bad} == {"overwrites its argument prior.mu in place"}


def test_a_predictive_of_the_mean_alone_is_in_part():
    class Mean(Reference):
        def predictive(self, *args, **kwargs):
            return {"mean": super().predictive(*args, **kwargs)["mean"]}

    whole = check(Reference, levels=["L4"], methods=["bong-lin-hess-fc"])
    part = check(Mean, levels=["L4"], methods=["bong-lin-hess-fc"])
    assert part.ok and {o.partial for o in part.outcomes} == {True}
    assert findings.standing(part.outcomes) == "part"
    assert not any(o.partial for o in whole.outcomes)
    n = len(part.outcomes)
    assert f"; {n} of them in part (the mean alone); none fails" in findings.verdict_line(part)
    assert "in part" not in findings.verdict_line(whole)


@pytest.mark.parametrize("family", ["fc", "diag_mom", "dlr"])
def test_draws_that_come_twice_are_seen(family):
    """Their mean and covariance are within 6 standard errors, and half of them are copies."""

    class Twice(Reference):
        def draw(self, family, state, n, seed, normals):
            out = super().draw(family, state, n, seed, normals)
            if normals is None:
                out[n // 2 :] = out[: n - n // 2]
            return out

    case_id = f"draw/{family}/moments"
    assert run_case(Reference(), CASES[case_id], diagnose=False).status == "pass"
    found = run_case(Twice(), CASES[case_id], diagnose=False)
    assert found.status == "fail" and "are distinct: each is to be drawn" in found.message


@pytest.mark.parametrize("family", ["fc", "diag", "dlr"])
def test_draws(family):
    """Any root of the covariance is right; a wrong scale, or a map that is not affine, is not."""

    class Other(Reference):
        wrong = 1.0

        def draw(self, family, state, n, seed, normals):
            q = vectors.state(family, state)
            lam, Q = np.linalg.eigh(gaussians.covariance(q))
            z = (
                np.random.default_rng(3).standard_normal((n, len(lam)))
                if normals is None
                else normals
            )
            return q.mu + self.wrong * (z * np.sqrt(lam)) @ Q.T

    cases = [c for c in vectors.load(["draw"]) if c.family == family]
    assert {run_case(Other(), c).status for c in cases} == {"pass"}
    scaled = Other()
    scaled.wrong = 1.1
    assert {run_case(scaled, c, diagnose=False).status for c in cases} == {"fail"}

    class Clipped(Other):
        def draw(self, family, state, n, seed, normals):
            out = super().draw(family, state, n, seed, normals)
            return np.clip(out, -1.5, 1.5)

    assert {run_case(Clipped(), c, diagnose=False).status for c in cases} == {"fail"}


def test_nothing_offered_is_not_ok():
    class Nothing:
        def step(self, *args, **kwargs):
            return NotImplemented

    report = check(Nothing, levels=["step"])
    assert not report.ok and report.offered == 0 and not report.failures


# --- what has no Gaussian for an answer -----------------------------------------------------------

REFUSE = "step/bong-lin-hess-fc/indefinite-prior"
LOST = "step/bong-lin-hess-fc_mom/lost"


NAN_STATE = {"mu": np.full(5, np.nan), "Sigma": np.eye(5), "Ups": np.ones(5), "W": np.ones((5, 2))}


@pytest.mark.parametrize(
    "case_id",
    [REFUSE, LOST, "step/blr-mc-ef-dlr/alpha-too-large", "step/bong-mc-hess-dlr/not-derived"],
)
@pytest.mark.parametrize(
    "way", [lambda: 1 / 0, lambda: {"valid": False}, lambda: None, lambda: NAN_STATE]
)
def test_the_ways_to_refuse(case_id, way):
    class Refuses:
        def step(self, *args, **kwargs):
            return way()

    assert outcome(Refuses(), case_id).status == "pass"


@pytest.mark.parametrize(
    "case_id",
    [REFUSE, "step/bong-lin-hess-diag/indefinite-prior", "step/bong-lin-hess-dlr/indefinite-prior"],
)
def test_to_return_a_result_is_not_to_refuse(case_id):
    class Accepts:
        def step(self, method, prior, current, curv, params):
            return prior

    got = outcome(Accepts(), case_id)
    assert got.status == "fail" and "must be refused" in got.message


def test_lost_positive_definiteness_may_be_returned_but_not_repaired():
    values = {q.name: q.value for q in CASES[LOST].expected}

    class Returns:
        def __init__(self, change):
            self.change = change

        def step(self, *args, **kwargs):
            return {"mu": values["mu"], "Sigma": self.change(values["Sigma"])}

    assert outcome(Returns(lambda S: S), LOST).status == "pass"
    lam, Q = np.linalg.eigh(values["Sigma"])
    repaired = outcome(Returns(lambda S: (Q * np.abs(lam)) @ Q.T), LOST)
    assert repaired.status == "fail" and "silent repair" in repaired.message
    other = outcome(Returns(lambda S: 2 * S), LOST)
    assert other.status == "fail" and other.gap.quantity == "Sigma"


def test_a_method_that_is_not_implemented_has_refused():
    class Honest:
        def step(self, *args, **kwargs):
            raise NotImplementedError

    assert outcome(Honest(), "step/bong-mc-hess-dlr/not-derived").status == "pass"


# --- formats, xfails, selection -------------------------------------------------------------------


def test_float32_is_held_to_float32():
    class Single(Changed):
        dtype = np.float32

    rounded = lambda out: {
        k: np.asarray(v, dtype=np.float32) if k != "valid" else v for k, v in out.items()
    }
    assert outcome(Single(rounded), FC_CASE).status == "pass"
    assert (
        outcome(Changed(rounded), FC_CASE).status == "fail"
    )  # of a float64 implementation more is asked
    assert (
        outcome(Single(rounded), "step/bong-lin-hess-fc/ill-conditioned").status == "not applicable"
    )


def test_xfails(tmp_path):
    wrong = Changed(lambda out: {**out, "mu": out["mu"] + 1}, calls=("step",))
    file = tmp_path / "xfails.txt"
    file.write_text(
        "# known\nstep/bong-lin-hess-diag/*   # all of "
        "it\n\nstep/bong-lin-hess-fc/plain\nstep/gone/plain\n"
    )
    report = check(
        wrong,
        levels=["step"],
        methods=["bong-lin-hess-diag", "bong-lin-hess-fc"],
        xfails=file,
        diagnose=False,
    )
    status = {o.case.id: o.status for o in report.outcomes}
    assert (
        status["step/bong-lin-hess-diag/wide"] == "xfail"
        and status["step/bong-lin-hess-fc/plain"] == "xfail"
    )
    assert (
        status["step/bong-lin-hess-fc/wide"] == "fail"
        and status["step/bong-lin-hess-diag/indefinite-prior"] == "xpass"
    )
    assert report.unused_xfails == ("step/gone/plain",) and not report.ok
    assert check(
        wrong, levels=["step"], methods=["bong-lin-hess-diag"], xfails=["step/*"], diagnose=False
    ).ok
    file.write_bytes(b"\xef\xbb\xbfstep/*\r\n")
    assert read_xfails(file) == ["step/*"]
    file.write_bytes(b"\xff\xfe\x00")
    for path in (file, tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match=r"xfails: .* cannot be read as a text file"):
            read_xfails(path)


def test_selection_by_level_and_method():
    chosen = vectors.load(["L0", "L1", "predict"], ["blr-mc-ef-dlr"])
    assert {c.level for c in chosen} == {"step", "estimate", "predict"}
    assert {v for c in chosen for v in c.subject.values()} == {"blr-mc-ef-dlr", "mc-ef", "dlr"}
    with pytest.raises(ValueError, match=r"levels must be among L0, .*got 'L7'"):
        vectors.load(["L7"])
    with pytest.raises(ValueError, match=r"methods must match some of the 80 names.*got 'nothing'"):
        check(Reference, methods=["nothing"])


def test_ctrl_c_keeps_what_was_done():
    seen = []

    class Stops(Reference):
        def step(self, *args, **kwargs):
            if len(seen) == 5:
                raise KeyboardInterrupt
            seen.append(1)
            return super().step(*args, **kwargs)

    report = check(Stops, levels=["step"], diagnose=False)
    assert report.interrupted and len(report.outcomes) == 5 and not report.ok


# --- finding the adapter --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nocolon", "adapter must be given as module:Name"),
        ("no_such_module:A", "there is no module 'no_such_module'"),
        ("bongref.conformance.adapter:Nope", "has no 'Nope'; its classes are Fast, Reference"),
        ("no/such/file.py:A", "there is no file"),
        ("json:dumps", r"adapter json:dumps cannot be made: TypeError: dumps\(\)"),
        ("json:JSONDecoder", "must offer at least one of step, estimate"),
    ],
)
def test_adapters_that_are_none(target, words):
    with pytest.raises((ValueError, TypeError), match=words):
        load_adapter(target)


def test_an_adapter_is_a_class_an_object_or_a_function(tmp_path, monkeypatch):
    text = (
        "class A:\n    dtype = 'float32'\n    def step(self, **k): return NotImplemented\nobj "
        "= A()\ndef make(): return A()\n"
    )
    (tmp_path / "my_adapters_here.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("A", "obj", "make"):
        assert type(load_adapter(f"my_adapters_here:{name}")).__name__ == "A"
    assert type(load_adapter(str(tmp_path / "my_adapters_here.py") + ":A")).__name__ == "A"
    torch_like = type("float32", (), {"__repr__": lambda self: "torch.float32"})()
    assert (
        dtype_of(load_adapter(type("T", (), {"dtype": torch_like, "step": lambda self: None})))
        == "float32"
    )
    with pytest.raises(
        ValueError, match=r"adapter.dtype must be 'float64' or 'float32', got 'float16'"
    ):
        load_adapter(type("B", (), {"dtype": "float16", "step": lambda self: None}))

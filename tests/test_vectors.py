"""The shipped vectors: valid under their schema, exact, complete, reproducible, and what they ought
to be by a second route.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from bongref.conformance import cases, cases_more, precise, shipped, values, vectors
from bongref.conformance.adapter import Reference
from bongref.conformance.flags import FLAGS
from bongref.conformance.runner import run_case
from bongref.grid import FAMILIES, NAMES, NOT_DERIVED
from bongref.paper import equations

FILES = sorted(vectors.FOLDER.glob("*.json"))
ROOT = Path(__file__).parents[1]
CASES = vectors.load()
DERIVED = [name for name in NAMES if name not in NOT_DERIVED]


# --- form -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_file_is_valid_under_the_schema(file):
    valid = validator(vectors.SCHEMA_FILE)
    data = json.loads(file.read_text(encoding="utf-8"))
    assert not list(valid.iter_errors(data))
    first = data["cases"][0]
    broken = {**data, "cases": [{**first, "input": {**first["input"], "extra": 1}}]}
    assert not valid.is_valid(broken), "the schema lets anything pass"
    assert valid.is_valid({**data, "cases": [first]})


def validator(file):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(file.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("flags", {"C-one": {"what": "one output"}}),
        ("quantities", {"step": {"bong": {"fc": {"mu": 3}}}}),
    ],
)
def test_the_facts_are_valid_under_their_schema(name, wrong):
    folder = vectors.FOLDER.parent
    valid = validator(folder / "schema" / f"bongref-{name}-1.json")
    data = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert not list(valid.iter_errors(data))
    assert not valid.is_valid({**data, **wrong}) and not valid.is_valid({**data, "extra": 1})


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_file_reads_back_bit_for_bit(file, tmp_path):
    read = list(vectors.read(file))
    vectors.write(tmp_path / file.name, read[0].level, read, FLAGS)
    assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_files_of_version_1_are_read(tmp_path):
    """The same cases under the name of version 1; another version is refused by name."""
    old = tmp_path / "old.json"
    text = FILES[0].read_text(encoding="utf-8").replace(vectors.SCHEMA, "bongref-vectors-1", 1)
    old.write_text(text, encoding="utf-8")
    assert [c.id for c in vectors.read(old)] == [c.id for c in vectors.read(FILES[0])]
    old.write_text(text.replace("bongref-vectors-1", "bongref-vectors-9", 1), encoding="utf-8")
    with pytest.raises(ValueError, match="bongref-vectors-9"):
        list(vectors.read(old))


def test_infinities_are_words_and_read_back():
    value = np.array([[-np.inf, 0.5], [np.inf, -0.0]])
    text = json.dumps(vectors._lists(value), allow_nan=False)
    assert '"-inf"' in text
    assert np.array(json.loads(text), dtype=float).tobytes() == value.tobytes()


def test_floats_are_written_so_that_they_read_back():
    rng = np.random.default_rng(0)
    numbers = np.concatenate(
        [
            rng.standard_normal(200) * 10.0 ** rng.integers(-300, 300, 200),
            [0.0, -0.0, 1.0, -3.0, 5e-324, 2.0**53],
        ]
    )
    back = np.array(json.loads(json.dumps(vectors._lists(numbers))), dtype=float)
    assert back.tobytes() == numbers.tobytes()


def test_the_vectors_are_small_enough_to_ship():
    assert sum(f.stat().st_size for f in FILES) < 6e6


def test_the_page_says_how_many_there_are():
    for page in ("docs/conformance.md", "README.md"):
        assert f"{len(CASES):,} cases" in (vectors.FOLDER.parents[2] / page).read_text(
            encoding="utf-8"
        )


def test_ids_are_unique_and_flags_and_equations_known():
    assert max(Counter(case.id for case in CASES).values()) == 1
    known = equations()
    for case in CASES:
        assert set(case.flags) <= set(FLAGS), case.id
        for q in case.expected:
            assert q.equation in known or q.equation.startswith("sec:"), (case.id, q.equation)
    assert {flag for case in CASES for flag in case.flags} == set(FLAGS), "a flag that no case has"


# --- completeness ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["step", "update", "stream"])
def test_all_78_methods_are_in_every_level_of_methods(level):
    seen = {
        case.subject["method"] for case in CASES if case.level == level and case.result == "value"
    }
    assert seen == set(DERIVED)


def test_every_method_meets_what_its_mistakes_hide_in():
    flags = defaultdict(set)
    for case in CASES:
        if "method" in case.subject:
            flags[case.subject["method"]] |= set(case.flags)
    everyone = {
        "zero-gradient",
        "ill-conditioned",
        "C-many",
        "C-one",
        "saturated",
        "singular-R",
        "correlated-R",
        "dynamics",
        "missing",
        "batch",
    }
    for name in DERIVED:
        rule, h1, h2, family = name.split("-")
        wanted = set(everyone)
        wanted |= (
            {"current-not-prior", "alpha-not-one", "many-iterations"}
            if rule in ("blr", "bbb")
            else set()
        )
        wanted |= {"many-samples", "P-more-than-M", "P-less-than-M"} if h1 == "mc" else set()
        wanted |= (
            {"zero-W", *(("rank-full", "rank-truncated") if rule in ("bong", "blr") else ())}
            if family == "dlr"
            else set()
        )
        wanted |= {"dense-G"} if (h1, h2) == ("mc", "hess") else {"low-rank-G"}
        wanted |= {"lost-positive-definite"} if cases.can_lose(name) else set()
        assert wanted <= flags[name], (name, wanted - flags[name])


def test_estimates_predictions_and_predictives_are_complete():
    likelihoods = {"gaussian", "bernoulli", "categorical", "poisson"}
    for hess in ("mc-hess", "mc-ef", "lin-hess", "lin-ef"):
        mine = [case for case in CASES if case.subject.get("hess") == hess]
        assert likelihoods | {
            "saturated",
            "zero-gradient",
            "batch",
            "convolution",
            "C-one",
            "C-many",
        } <= {f for c in mine for f in c.flags}
        assert {c.input["model"]["activation"] for c in mine} == {
            None,
            "tanh",
            "relu",
            "gelu",
            "gelu_tanh",
        }
    assert {c.subject["family"] for c in CASES if c.level == "predict"} == set(FAMILIES)
    kinds = {
        (c.subject["kind"], f)
        for c in CASES
        if c.level == "predictive"
        for f in c.flags
        if f in likelihoods
    }
    assert kinds == {(k, f) for k in ("plugin", "mc", "lin_mc") for f in likelihoods}
    named = {q.name for c in CASES if c.level == "predictive" for q in c.expected}
    assert named == {"mean", "var", "log_density", "nlpd", "error", "ece"}


def test_every_parameter_has_an_influence():
    """No case with dead units: some output moves with each parameter, at θ or at some sample."""
    for case in CASES:
        if case.level in ("estimate", "predictive"):
            extreme = {"outside-range", "bin-edge"} & set(case.flags)
            assert cases_more.has_influence(case) or extreme, case.id


def test_every_parameter_has_an_influence_in_updates_and_streams():
    """But for the networks whose logits are saturated on purpose: a GELU far below 0 is off, and so
    is its slope. The documentation says how many of these there are.
    """
    cases = [
        case for case in CASES if case.level in ("update", "stream") and case.result == "value"
    ]
    blind = {case.id for case in cases if not cases_more.has_influence(case)}
    saturated = {case.id for case in cases if "saturated" in case.flags}
    assert blind <= saturated, blind - saturated
    assert all(id.endswith("/labels-saturated") for id in saturated)
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert f"{len(blind)} of the {len(saturated)} updates called `labels-saturated`" in page
    line = next(case for case in cases if case.id.endswith("/line"))
    zero = line._replace(input={**line.input, "x": line.input["x"] * [1, 0, 1]})
    assert cases_more.has_influence(line) and not cases_more.has_influence(zero)


def test_dead_units_are_seen():
    """θ with every ReLU off: no weight of the first layer has an influence."""
    model, lik, _ = cases_more.known("kinks")
    theta, x = np.ones(model.n_params), np.array([[1.0, 0.5]])
    assert cases_more.influential(model, lik, [theta], x)
    dead = theta.copy()
    dead[:9] = -1.0
    assert not cases_more.influential(model, lik, [dead], x)
    assert cases_more.influential(model, lik, [dead, theta], x), "one point is enough"


def test_a_unit_that_is_nearly_off_is_not_seen():
    """GELU at −9 has slopes of 1e-17, which no tolerance sees."""
    model, lik, _ = cases_more.known("labels")
    theta, x = np.ones(model.n_params), np.array([[1.0, 0.5]])
    off = theta.copy()
    off[:6] = -3.6  # both hidden units at −3.6 · 2.5
    assert cases_more.influential(model, lik, [theta], x)
    assert np.all(model.jac(off, x[0]).any(axis=0)), "no slope is exactly 0"
    assert not cases_more.influential(model, lik, [off], x)


def test_what_version_1_never_tested_is_there():
    """Each item of the list, in the cases themselves."""
    for name in DERIVED:
        rule, _, _, family = name.split("-")
        mine = [c for c in CASES if c.subject.get("method") == name and c.result == "value"]
        if rule in ("blr", "bbb"):
            loops = {c.input["params"]["n_iter"] for c in mine if c.level == "update"}
            assert loops == {1, 2, 3, 5}, name
        streams = [c for c in mine if c.level == "stream"]
        assert any(c.input["dynamics"]["kind"] == "static" for c in streams)
        assert any(not np.any(c.input["prior"]["mu"]) for c in streams)
        sizes = [
            [np.shape(y)[0] for y in c.input["Y"]] for c in streams if "unequal-batches" in c.flags
        ]
        assert sizes and all(len(set(s)) > 2 and 1 in s for s in sizes)
        gaps = [[y is None for y in c.input["Y"]] for c in streams if "missing-ends" in c.flags]
        assert gaps and all(g[0] and g[-1] and any(map(all, itertools.pairwise(g))) for g in gaps)
        for c in streams:
            T = len(c.input["X"])
            seen = {int(q.name.split("[")[1].split("]")[0]) for q in c.expected}
            assert seen == (set(range(1, T + 1)) if T <= 8 else {1, T // 2, T}), c.id
        if "lin-hess" in name:
            assert max(len(c.input["X"]) for c in streams) == 50
        if family == "dlr":
            ranks = {c.input["params"]["rank"] for c in mine if c.level == "step"}
            assert {1, 5} <= ranks
    kinds = {c.likelihood for c in CASES if "missing-ends" in c.flags}
    assert len(kinds) == 2
    for hess in ("mc-hess", "mc-ef", "lin-hess", "lin-ef"):
        mine = [c for c in CASES if c.subject.get("hess") == hess]
        labels = {(c.likelihood, tuple(c.input["y"])) for c in mine if "every-label" in c.flags}
        assert len([1 for k, _ in labels if k == "bernoulli"]) == 2
        assert len([1 for k, _ in labels if k == "categorical"]) == 3
        layers = [sum(b["name"][0] == "W" for b in c.input["model"]["layout"]) for c in mine]
        assert max(layers) >= 3
        channels = [c for c in mine if c.input["model"]["kind"] == "cnn"]
        assert any(c.input["model"]["in_shape"][2] == 2 for c in channels)
    several = [c for c in CASES if "several-labels" in c.flags and c.level == "predictive"]
    assert len(several) == 9 and all(c.input["Y"].shape[1] == 2 for c in several)
    assert {c.subject["family"] for c in CASES if c.level == "draw"} == set(FAMILIES)


def test_predictives_at_their_extremes():
    by_flag = lambda flag: [c for c in CASES if c.level == "predictive" and flag in c.flags]
    value = lambda c, name: next(q.value for q in c.expected if q.name == name)
    outside = [c for c in by_flag("outside-range") if c.likelihood == "bernoulli"]
    assert outside and all(np.any(value(c, "mean") > 1) for c in outside)
    assert any(np.any(np.isneginf(value(c, "log_density"))) for c in outside)
    for c in by_flag("underflow"):
        assert np.all(value(c, "log_density") < np.log(5e-324)), c.id
    assert all(len(c.input["samples"]) == 1 for c in by_flag("one-sample"))
    edges = by_flag("bin-edge")
    assert len(edges) == 2
    for c in edges:
        sure = np.maximum(value(c, "mean"), 1 - value(c, "mean"))
        assert np.any(sure * 20 == np.round(sure * 20)), c.id


def test_what_must_be_refused_is_there():
    refused = {
        (case.subject["method"], flag)
        for case in CASES
        if case.result == "refuse"
        for flag in case.flags
    }
    assert {(name, "not-derived") for name in NOT_DERIVED} <= refused
    assert {
        (name, "alpha-too-large")
        for name in DERIVED
        if name.startswith("blr-") and name.endswith("-dlr")
    } <= refused
    assert {tuple(n.split("-")[::3]) for n, flag in refused if flag == "indefinite-prior"} == {
        (n.split("-")[0], n.split("-")[3]) for n in NAMES
    }


# --- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [c for c in CASES if c.level == "step"], ids=lambda c: c.id)
def test_the_forms_of_G_are_the_same_to_the_last_bit(case):
    curv = {k: precise.exactly(v) for k, v in case.input["curv"].items()}
    if "S" in curv:
        assert np.all(-(curv["S"] @ curv["S"].T) == curv["G"])
    assert np.all(np.diag(curv["G"]) == curv["d"])


def test_a_float32_tolerance_means_float32_inputs():
    single = [c for c in CASES if any(q.tolerance["float32"] is not None for q in c.expected)]
    assert len(single) > 0.9 * len(CASES)
    for case in single:
        assert values.fits_float32(case.input), case.id


ROUNDED = (
    1.001 / 0.999 - 1
)  # cond and tolerance are each rounded up to four digits, by less than 0.1 %


def test_tolerances_are_c_cond_eps():
    for case in CASES:
        if "many-draws" in case.flags:  # 6 standard errors of a mean and of a variance
            n = case.input["n"]
            for q, variance in zip(case.expected, (1, 2), strict=True):
                wanted = 6 * np.sqrt(variance / n)
                assert q.tolerance["float64"] == pytest.approx(wanted, rel=ROUNDED)
            continue
        for q in case.expected:
            assert q.tolerance["float64"] == pytest.approx(64 * q.cond * 2.0**-52, rel=ROUNDED), (
                case.id
            )
            if q.tolerance["float32"] is not None:
                assert q.tolerance["float32"] == pytest.approx(
                    64 * q.cond * 2.0**-23, rel=ROUNDED
                ), case.id
                assert q.tolerance["float32"] <= 0.1
            size = np.max(np.abs(q.value[np.isfinite(q.value)]), initial=0)
            assert q.scale >= size * (1 - 1e-12) or q.scale >= 1e-3 * size, case.id


def test_most_tolerances_are_tight():
    tight = [
        max(q.tolerance["float64"] for q in c.expected)
        for c in CASES
        if c.expected and not {"ill-conditioned", "saturated", "many-draws"} & set(c.flags)
    ]
    assert np.median(tight) < 1e-13 and max(tight) < 1e-5


# --- the values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", vectors.LEVELS.values())
def test_the_reference_agrees_with_every_value_by_its_own_route(level, family):
    """The cases of an estimator alone, which no family owns, run once."""
    found = [c for c in CASES if c.level == level and (c.family or FAMILIES[0]) == family]
    outcomes = [run_case(Reference(), case, diagnose=False) for case in found]
    assert found or (level in ("estimate", "predictive") and family != FAMILIES[0])
    assert [(o.case.id, o.message) for o in outcomes if o.status != "pass"] == []


@pytest.mark.parametrize("case", CASES[:: len(CASES) // 60], ids=lambda c: c.id)
def test_a_sample_of_the_values_is_derived_again_bit_for_bit(case):
    """`bongref vectors --check` does this for every case."""
    assert not list(shipped.rederive([case]))


@pytest.mark.parametrize(
    "case_id",
    [
        "step/blr-lin-hess-dlr/plain",
        "step/bong-lin-hess-fc/indefinite-prior",
        "estimate/mc-ef/softmax",
        "update/bong-lin-hess-diag/line",
        "stream/bog-lin-ef-diag_mom/plane",
        "predictive/lin_mc-fc/softmax",
    ],
)
def test_the_command_makes_the_cases_that_are_shipped(case_id):
    level, name, last = case_id.split("/")
    again = {
        "step": lambda: (
            cases.step_case(name, last)
            if last == "plain"
            else next(iter(cases.step_refusals(name)))
        ),
        "estimate": lambda: cases.estimate_case(name, last, ""),
        "update": lambda: cases.update_case(name, last),
        "stream": lambda: cases.stream_case(name, last),
        "predictive": lambda: cases.predictive_case(*name.split("-"), last),
    }[level]()
    shipped_case = next(c for c in CASES if c.id == case_id)
    assert not list(shipped._differs(vectors.plain(shipped_case), vectors.plain(again), ""))


def test_a_wrong_value_would_be_seen():
    case = next(c for c in CASES if c.id == "step/bong-lin-hess-fc/plain")
    q = case.expected[0]
    wrong = case._replace(
        expected=(q._replace(value=np.nextafter(q.value, np.inf)), *case.expected[1:])
    )
    assert len(list(shipped.rederive([wrong]))) > 0

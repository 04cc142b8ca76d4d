"""The page "Is the paper's story true?": its numbers from the committed results, its rule, its places in the paper."""

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bongref.cli import main as bongref
from bongref.experiments import execute
from bongref.paper import claims
from validation import paper
from validation.paper import collect, evidence, story
from validation.paper.conclusions import CONCLUSIONS

RUNS = collect.read()
BY_ID = {(r["study"], r["folder"], r["id"]): r for r in RUNS}
PAGE = story.PAGE.read_text(encoding="utf-8")
COMPARED = [(c, k) for c in CONCLUSIONS for k in c.compared(RUNS)]
# words of the paper's source at the line of each conclusion, or on the two after it
WORDS = {
    "linearisation": "Linearization helps", "natural-gradients": "NGD helps",
    "implicit-regularisation": "Implicit regularization helps", "grid": "Implicit regularization helps",
    "hess-and-ef": "approximation outperforms", "bbb-poor": "generally does poorly",
    "calibration": "posterior predictive (using", "best-calibrated": "most well-calibrated",
    "predictives": "plugin posterior predictive is similar", "families": "DLR-10 outperforms DLR-1",
    "rank": "rank 5--10", "parameterisations": "Both natural and moment",
    "moment-unstable": "numerically unstable", "one-step": "One-step methods",
    "linear-faster": "Linearized methods", "ef-faster": "are  a bit faster",
    "mc-hess": "works very poorly", "blr-slower": "The slower speed of", "winner": "The clear winner", "prior-variance": "trial and error",
    "sarcos-rank": "similar results to full covariance", "sarcos-mc": "much worse results",
    "sarcos-lin-1": "For 1 iteration per step", "sarcos-lin-10": "For 10 iterations per step",
    "ten-times": "10 times slower", "sarcos-ef": "The trends are similar",
    "ef-catches-up": "is slightly worse than", "larger-scale": "larger scale experiments",
    "blr-rates": "When using 1 iteration per step", "bbb-rates": "we show the analogous plot for",
    "bog-worse": "results are much worse", "sensitive": "quite sensitive",
}  # fmt: skip


# --- the page and the results ---------------------------------------------------------------------


def test_the_page_is_that_of_the_results():
    assert story.page(RUNS) == PAGE, "python -m validation.paper.story writes it again"


@pytest.mark.parametrize(
    ("c", "k"),
    [(c, k) for c, k in COMPARED if k.ids and not math.isnan(k.mean)],
    ids=lambda x: getattr(x, "id", getattr(x, "label", "")),
)
def test_every_effect_is_that_of_scipy_on_the_result_lines(c, k):
    """Means, differences and intervals again, from the ids of the runs, and as the page prints them."""
    sides = [_last(i, *read) for i, read in zip(_halves(k.ids), k.read, strict=True)]
    a, b = map(np.array, sides)
    again = stats.ttest_rel(b, a).confidence_interval(0.95) if np.ptp(b - a) else (0.0, 0.0)
    assert len(a) == len(b) == k.n >= 2
    np.testing.assert_allclose(
        [k.a, k.b, k.mean], [a.mean(), b.mean(), (b - a).mean()], rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose([k.low, k.high], again, rtol=1e-9, atol=1e-12)
    printed = f"| {k.n} | {story._number(a.mean())} | {story._number(b.mean())} | {(b - a).mean():+.4f} ± "
    line = next(x for x in PAGE.splitlines() if x.startswith(f"| {k.label} |"))
    assert printed in line or "-0.0000" in line


def _halves(ids):
    return ids[: len(ids) // 2], ids[len(ids) // 2 :]


def _last(ids, metric, t):
    """Values by plain reading of the lines: runs of these ids, their last row or that of step t."""
    found = []
    for id in ids:
        (run,) = {json.dumps(r["rows"]): r for r in RUNS if r["id"] == id}.values()
        rows = [row for row in run["rows"] if metric in row and t in (None, row["t"])]
        rows = [run] if metric == "seconds" else rows
        assert run["status"] == "done"
        found.append(rows[-1][metric])
    return found


def test_counts_of_diverged_runs_are_those_of_the_lines():
    some = [k for _, k in COMPARED if k.why.startswith("diverged")]
    for k in some:
        bad = [
            sum(any(r["status"] != "done" for r in RUNS if r["id"] == i) for i in half)
            for half in _halves(k.ids)
        ]
        assert k.why == f"diverged: {bad[0]} of {k.n} and {bad[1]} of {k.n} runs", k.label


def test_every_conclusion_is_on_the_page_with_its_verdict():
    judged = story.verdicts(RUNS)
    assert len(judged) == len(CONCLUSIONS) == len(WORDS)
    for c in CONCLUSIONS:
        assert (
            f"### {c.id.replace('-', ' ')}: {judged[c.id]}" in PAGE
            and f"(#{c.id}) ({c.line})" in PAGE
        )
        assert judged[c.id] in evidence.VERDICTS


def test_the_places_are_those_of_the_paper():
    path = os.environ.get("BONGREF_PAPER")
    if not path or not Path(path).is_file():
        pytest.skip("BONGREF_PAPER does not name the paper's source")
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    for c in CONCLUSIONS:
        near = " ".join(lines[c.line - 1 : c.line + 2])
        assert WORDS[c.id] in near, (
            c.id,
            c.line,
            [n + 1 for n, x in enumerate(lines) if WORDS[c.id] in x],
        )


def test_the_verdicts_of_the_ledger_are_those_of_the_page():
    """A claim that stands for several conclusions has their verdict where they agree, else a condition."""
    judged = story.verdicts(RUNS)
    for id in {c.claim for c in CONCLUSIONS if c.claim}:
        own = [c.id for c in CONCLUSIONS if c.claim == id]
        row = claims.claim(id)
        for name in own:
            assert f"{name}: {judged[name]} (" in row.number
        known = {judged[name] for name in own} - {"cannot be told"}
        if not known:
            assert row.verdict == "not tested"
        elif len({judged[name] for name in own}) == 1:
            assert {row.verdict} == known
        else:
            assert row.verdict == "holds with a condition"


def test_figures_and_files_are_small_and_there():
    for name in re.findall(r"\]\((figures/[^)]+)\)", PAGE):
        assert 0 < (story.DOCS / name).stat().st_size < 200_000, name
    assert sum(p.stat().st_size for p in collect.RESULTS.glob("*.jsonl.gz")) < 1_500_000
    assert all("/work" not in r["command"] and r["command"].startswith("bongref run") for r in RUNS)


# --- the rule -------------------------------------------------------------------------------------


def side(*values):
    return {
        k: {"seed": k, "id": f"{k}", "value": v, "read": ("nlpd", None)}
        for k, v in enumerate(values)
    }


@pytest.mark.parametrize(
    ("question", "a", "b", "answer"),
    [
        ("less", (1.0, 2.0, 3.0), (1.1, 2.12, 3.11), "yes"),
        ("less", (1.1, 2.12, 3.11), (1.0, 2.0, 3.0), "no"),
        ("less", (1.0, 2.0, 3.0), (1.5, 1.5, 3.1), "?"),
        ("much less", (1.0, 2.0, 3.0), (1.1, 2.12, 3.11), "yes"),
        ("much less", (1.0, 2.0, 3.0), (1.01, 2.012, 3.011), "no"),
        ("similar", (1.0, 2.0, 3.0), (1.01, 2.012, 3.011), "yes"),
        ("similar", (1.0, 2.0, 3.0), (1.1, 2.12, 3.11), "no"),
        ("similar", (1.0, 2.0, 3.0), (1.1, 1.9, 3.0), "?"),
        ("less", (1.0, 2.0), (math.inf, 2.1), "yes"),
        ("less", (1.0, 2.0), (math.inf, 1.9), "?"),
        ("less", (math.inf, 2.0), (1.0, 1.9), "no"),
        ("similar", (1.0, 2.0), (math.inf, 2.0), "no"),
        ("diverges", (math.inf, math.inf, 1.0), (1.0, 1.0, 1.0), "yes"),
        ("diverges", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), "no"),
        ("less", (1.0,), (2.0,), "?"),
    ],
)
def test_an_answer(question, a, b, answer):
    assert evidence.compare("x", question, side(*a), side(*b), "nlpd").answer == answer


def test_pairs_are_those_of_the_same_seed():
    a, b = side(1.0, 2.0, 3.0), side(9.0, 2.5, 3.5)
    del b[0]
    found = evidence.compare("x", "less", a, b, "nlpd")
    assert (found.n, found.mean, found.error) == (2, 0.5, 0.0) and found.ids == ("1", "2", "1", "2")


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ("yes yes", "holds"),
        ("yes no", "holds with a condition"), ("yes ?", "holds with a condition"),
        ("no ?", "does not hold"), ("no no", "does not hold"), ("? ?", "cannot be told"),
    ],
)  # fmt: skip
def test_a_verdict(answers, wanted):
    base = evidence.compare("x", "less", side(1.0, 2.0), side(2.0, 3.1), "nlpd")
    assert evidence.verdict([base._replace(answer=a) for a in answers.split()]) == wanted


def test_the_best_rate_is_of_the_runs_that_ended():
    def run(alpha, loss):
        rows = [] if loss is None else [{"t": 9, "nlpd-plugin": loss}]
        return {
            "params": {"alpha": alpha},
            "status": "done" if rows else "diverged",
            "step": 3,
            "rows": rows,
        }

    runs = [run(0.1, 0.5), run(0.5, 0.4), run(1.0, 0.3), run(0.01, None)]
    assert evidence.best_rate(runs) == 1.0
    assert evidence.best_rate(runs, lambda a: a <= 0.5) == 0.5
    assert evidence.best_rate([runs[-1]]) is None


# --- a scaled-down version of each study ----------------------------------------------------------

SMALL = ("bong-lin-hess-diag", "bong-lin-hess-dlr", "bong-lin-hess-fc", "bog-lin-hess-dlr")


@pytest.mark.parametrize("study", paper.STUDIES)
def test_a_study_in_small(study, tmp_path, monkeypatch):
    """The last command of each folder on a few steps with one or two methods, collected for the page."""
    data = os.environ.get("BONGREF_DATA", "")
    run = execute.stream.run
    monkeypatch.setattr(
        execute.stream, "run", lambda *a, **k: run(*a, **{**k, "backend": "reference"})
    )
    settings = paper.load(study, "reduced")
    seen = {}
    for words, folder, _ in paper.commands(settings, tmp_path / f"{study}-reduced", 1, tiny=True):
        if words[0] == "run":
            seen[folder.name] = (words, folder)
    words, folder = next(iter(seen.values()))
    if words[1] in ("mnist", "sarcos-4449") and not Path(data).is_dir():
        pytest.skip(f"{words[1]} needs BONGREF_DATA")
    if "--params" in words:  # of the tuning, which another test runs
        at = words.index("--params")
        words = [*words[:at], *words[at + 2 :]]
    of_mnist = words[1] == "mnist"
    small = ["--methods", SMALL[0] if of_mnist else SMALL[2] if study in "de" else SMALL[1]]
    small += ["--rank", "2"] if small[1].endswith("dlr") else []
    words = _without(words, ("--alpha", "--n-iter", "--n-samples", "--rank", "--w0"))
    if of_mnist:
        small += [
            "--metrics",
            "nlpd-plugin,nlpd-lin_mc,nonpositive-lin_mc,ece-plugin",
            "--steps",
            "2",
            "--at",
            "2",
        ]
    assert bongref([*words, *small, "-q"]) == 0
    collect.collect(tmp_path, tmp_path / "out")
    found = collect.read(tmp_path / "out")
    assert found and all(r["status"] == "done" and r["study"] == f"{study}-reduced" for r in found)
    assert {r["folder"] for r in found} == {folder.name} and "What was computed" in story.page(
        found
    )


def _without(words, options):
    out = list(words)
    for option in options:
        while option in out:
            at = out.index(option)
            del out[at : at + 2]
    return out

"""The page "Is the paper's story true?": its numbers from the committed results, its rule, its
places in the paper.
"""

import functools
import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bongref.cli import _parser
from bongref.cli import main as bongref
from bongref.experiments import execute, tasks
from bongref.experiments.cli import runs
from bongref.experiments.tuning.cli import plan_of
from bongref.paper import claims
from validation import paper
from validation.paper import collect, conclusions, evidence, story
from validation.paper.conclusions import CONCLUSIONS

RUNS = collect.read()
BY_ID = {(r["study"], r["folder"], r["id"]): r for r in RUNS}
PAGE = story.PAGE.read_text(encoding="utf-8")
COMPARED = [(c, k) for c in CONCLUSIONS for k in c.compared(RUNS)]
# words of the paper's source at the line of each conclusion, or on the two after it
WORDS = {
    "linearisation": "Linearization helps", "natural-gradients": "NGD helps",
    "implicit-regularisation": "Implicit regularization helps",
    "grid": "Implicit regularization helps",
    "hess-and-ef": "approximation outperforms", "bbb-poor": "generally does poorly",
    "calibration": "posterior predictive (using", "best-calibrated": "most well-calibrated",
    "predictives": "plugin posterior predictive is similar", "families": "DLR-10 outperforms DLR-1",
    "rank": "rank 5--10", "parameterisations": "Both natural and moment",
    "moment-unstable": "numerically unstable", "one-step": "One-step methods",
    "linear-faster": "Linearized methods", "ef-faster": "are  a bit faster",
    "mc-hess": "works very poorly", "blr-slower": "The slower speed of",
    "winner": "The clear winner", "prior-variance": "trial and error",
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
    """Means, differences and intervals again, from the ids of the runs, and as the page prints
    them.
    """
    sides = [_last(i, *read) for i, read in zip(_halves(k.ids), k.read, strict=True)]
    a, b = map(np.array, sides)
    again = stats.ttest_rel(b, a).confidence_interval(0.95) if np.ptp(b - a) else (0.0, 0.0)
    assert len(a) == len(b) == k.n >= 2
    np.testing.assert_allclose(
        [k.a, k.b, k.mean], [a.mean(), b.mean(), (b - a).mean()], rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose([k.low, k.high], again, rtol=1e-9, atol=1e-12)
    means = f"{story._number(a.mean())} | {story._number(b.mean())}"
    d = np.where(abs(b - a) <= evidence.ROUNDING, 0, b - a)  # of the page: rounding is none
    printed = f"| {k.n} | {means} | {d.mean():+.4f} ± "
    tables = PAGE.partition("## The comparisons")[2].splitlines()
    line = next(x for x in tables if x.startswith(f"| {k.label} |"))
    assert printed in line


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


def test_counts_of_diverged_and_infinite_runs_are_those_of_the_lines():
    some = [k for _, k in COMPARED if k.why.startswith(("diverged", "infinite"))]
    assert some
    for k in some:
        found = []
        for what, ended in (("diverged", False), ("infinite", True)):
            bad = []
            for half, (metric, t) in zip(_halves(k.ids), k.read, strict=True):
                runs = [next(r for r in RUNS if r["id"] == i) for i in half]
                rows = [
                    [x[metric] for x in r["rows"] if metric in x and t in (None, x["t"])]
                    for r in runs
                ]
                late = [r["status"] != "done" and (t is None or t >= r["step"]) for r in runs]
                inf = [
                    bool(v) and v[-1] == math.inf and not bad
                    for v, bad in zip(rows, late, strict=True)
                ]
                bad.append(sum(inf if ended else late))
            if any(bad):
                found.append(f"{what}: {bad[0]} of {k.n} and {bad[1]} of {k.n} runs")
        assert k.why == "; ".join(found), k.label


def test_every_conclusion_is_on_the_page_with_its_verdict():
    judged = story.verdicts(RUNS)
    assert len(judged) == len(CONCLUSIONS) == len(WORDS)
    for c in CONCLUSIONS:
        assert (
            f"### {c.id.replace('-', ' ')}: {judged[c.id]}" in PAGE
            and f"(#{c.id}) ({c.line})" in PAGE
        )
        assert judged[c.id] in evidence.VERDICTS


def test_every_condition_is_in_words_that_were_written_for_its_answers():
    """Other results may change the answers: then the words are to be written again."""
    for c in CONCLUSIONS:
        found = c.compared(RUNS)
        said = story.condition(c.id, found)
        assert bool(said) == (evidence.verdict(found) != "holds"), c.id
        assert f"{story._counts(found)} | {said} |" in PAGE
    assert set(json.loads(story.CONDITIONS.read_text(encoding="utf-8"))) < {
        c.id for c in CONCLUSIONS
    }


def test_a_best_rate_of_bbb_that_is_worse_with_ten_iterations_is_not_close_to_bong():
    """The second half of the sentence, from the lines: nearer to bong means below."""
    zero = [r for r in RUNS if r["study"] == "c-full" and r["folder"] == "sarcos-4449"
            and r["method"] == "bbb-lin-hess-dlr" and r["w0"] == "zero"]  # fmt: skip
    ends = {}
    for r in zero:
        end = r["rows"][-1]["nlpd-plugin"] if r["status"] == "done" else math.inf
        ends.setdefault((r["params"]["n_iter"], r["params"]["alpha"]), []).append(end)
    best = {n: min(np.mean(v) for (k, _), v in ends.items() if k == n) for n in (1, 10)}
    (nearer,) = (k for _, k in COMPARED if k.label.endswith("I=10 below I=1, W₀=0"))
    assert (nearer.a, nearer.b) == pytest.approx((best[10], best[1])) and best[10] > best[1]
    assert nearer.answer == "no"


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
    """A claim that stands for several conclusions has their verdict where they agree, else a
    condition.
    """
    judged = story.verdicts(RUNS)
    for id in {c.claim for c in CONCLUSIONS}:  # every conclusion has a row
        own = [c.id for c in CONCLUSIONS if c.claim == id]
        row = claims.claim(id)
        assert row.kind == "experiment" and "python -m validation." in row.number
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


def test_the_correction_for_many_comparisons_is_bonferronis():
    """Intervals of a higher level again, by scipy from the result lines."""
    once = {(k.question, k.ids, k.read): k for _, k in COMPARED}.values()
    some = [k for k in once if k.n >= 2 and not math.isnan(k.error)]
    level, kept = 1 - 0.05 / len(some), 0
    for k in some:
        sides = [_last(i, *read) for i, read in zip(_halves(k.ids), k.read, strict=True)]
        d = np.subtract(sides[1], sides[0])
        d[abs(d) <= evidence.ROUNDING] = 0
        low, high = stats.ttest_1samp(d, 0).confidence_interval(level) if np.ptp(d) else (0.0, 0.0)
        m = evidence.MARGIN[k.read[0][0].partition("-")[0]]
        edge = m if k.question == "much less" else 0.0
        one_sided = low > edge or high <= edge
        two_sided = (low >= -m and high <= m) or low > m or high < -m
        kept += {"similar": two_sided, "diverges": True}.get(k.question, one_sided)
    assert (
        f"{len(some)} different comparisons are by an interval" in PAGE
        and f", {kept} still are:" in PAGE
    )


def test_runs_with_other_seeds_are_apart():
    new = [r for r in RUNS if r["study"] == story.OTHER_SEEDS]
    assert {r["seed"] for r in new} == {5, 6, 7, 8, 9} and len(new) > 200
    assert not {r["id"] for r in new} & {r["id"] for r in conclusions.of_study(RUNS, "c")}
    told = re.search(r"the same in (\d+) of (\d+) comparisons, the opposite in (\d+)", PAGE)
    same, of, opposite = map(int, told.groups())
    listed = PAGE.partition("seeds 0 to 4 | seeds 5 to 9")[2].partition("\n## ")[0]
    assert len(re.findall("^[|] SARCOS", listed, re.M)) == of - same and opposite <= of - same


def test_the_commands_are_those_of_the_sizes_that_are_there():
    one = conclusions.CONCLUSIONS[0]._replace(studies="ac")
    told = story._command(one, [{"study": s} for s in ("a-reduced", "c-full", "c-reduced")])
    paper_ = "python -m validation.paper"
    assert told == f"`{paper_} a --reduced`, `{paper_} c`, `{paper_} c --reduced`"


def test_seeds_that_a_study_lacks_are_named():
    """By the commands of the study: other rates and other starts apart, validation rows not."""
    words = "run t --methods m,n --alpha 0.1,1 --seeds 3"
    steps = [{"folder": "t", "words": [words]},
             {"folder": "t", "words": ["run t --methods m --w0 zero --alpha 1 --seeds 2"]},
             {"folder": "t", "words": ["run t --methods n --seeds 5"],
              "optional": True}]  # fmt: skip

    def run(seed, alpha=0.1, method="m", w0="random", part="test"):
        return {"folder": "t", "method": method, "w0": w0, "prior_var": 1.0, "part": part,
                "params": {"alpha": alpha}, "seed": seed}  # fmt: skip

    whole = [run(s, a, n) for s in range(3) for a in (0.1, 1.0) for n in "mn"]
    whole += [run(0, 5.0), run(0, part="valid"), *(run(s, 1.0, w0="zero") for s in range(2))]
    assert story._lacking(whole, steps) == []
    del whole[0], whole[-1]
    assert story._lacking(whole, steps) == ["t m 0 (1 setting)", "t m from W₀ = 0 1 (1 setting)"]


def test_a_comparison_of_two_conclusions_counts_once():
    one = evidence.compare("x", "less", side(1.0, 2.0, 3.0), side(1.1, 2.12, 3.11), "nlpd")
    two = evidence.compare("y", "less", side(1.0, 2.0, 3.5), side(1.1, 2.12, 3.11), "rmse")
    told = [story._corrected(found) for found in ([one, two._replace(read=("rmse", None))],
            [one, two._replace(read=("rmse", None)), one._replace(label="z")])]  # fmt: skip
    assert told[0] == told[1] and told[0].startswith("2 different comparisons")


# --- the rule -------------------------------------------------------------------------------------


def side(*values):
    return {
        k: {
            "seed": k,
            "id": f"{k}",
            "value": v,
            "read": ("nlpd", None),
            "status": "diverged" if v == math.inf else "done",
        }
        for k, v in enumerate(values)
    }


@pytest.mark.parametrize(
    ("question", "a", "b", "answer"),
    [
        ("less", (1.0, 2.0, 3.0), (1.1, 2.12, 3.11), "yes"),
        ("less", (1.1, 2.12, 3.11), (1.0, 2.0, 3.0), "no"),
        ("less", (1.0, 2.0, 3.0), (1.0, 2.0, 3.0), "no"),
        ("less", (1.0, 2.0, 3.0), (1.0 + 1e-15, 2.0, 3.0), "no"),
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
        ("yes no no ?", "does not hold"),
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


def test_an_infinite_metric_of_a_run_that_ended_is_not_a_divergence():
    a, b = side(1.0, 2.0), side(math.inf, math.inf)
    b[0]["status"] = "done"
    found = evidence.compare("x", "less", a, b, "nlpd")
    assert found.answer == "yes"
    assert found.why == "diverged: 0 of 2 and 1 of 2 runs; infinite: 0 of 2 and 1 of 2 runs"


def test_more_results_are_added_and_a_run_of_another_version_is_replaced(tmp_path, monkeypatch):
    def records(version, *seeds):
        return [
            {
                "id": f"{version}{seed}", "task": {"name": "t", "part": "test"}, "method": "m",
                "params": {"alpha": 0.1}, "settings": {"prior_var": 1.0}, "seed": seed,
                "adapter": None,
                "status": "done", "step": 9, "reason": "", "rows": [{"t": 9, "rmse": version}],
                "timing": {"steps": 1.0},
                "command": f"bongref run t --steps 9 --seed {seed} --out x",
            }
            for seed in seeds
        ]  # fmt: skip

    folder = tmp_path / "in" / "c-full" / "t"
    folder.mkdir(parents=True)
    (folder / collect.store.NAME).touch()
    for found in (records(1, 0, 1), records(2, 1, 2)):
        monkeypatch.setattr(
            collect.store, "read", lambda _, found=found: collect.store.Found(found, [])
        )
        collect.collect(tmp_path / "in", tmp_path / "out")
    assert sorted(r["id"] for r in collect.read(tmp_path / "out")) == ["10", "21", "22"]


def test_runs_of_different_lengths_are_compared_at_the_end_of_the_shorter_ones():
    def runs(method, *steps):
        rows = [{"t": t, "nlpd-plugin": t / 100} for t in steps]
        base = {
            "study": "a-reduced",
            "task": "mnist",
            "part": "test",
            "adapter": None,
            "params": {},
        }
        return [
            {
                **base,
                "method": method,
                "seed": k,
                "id": f"{method}{k}",
                "status": "done",
                "rows": rows,
            }
            for k in range(2)
        ]

    found = conclusions.a_less([*runs("x", 100, 250), *runs("y", 100)], "x", "y")
    assert found.label == "MNIST, t = 100: x below y (nlpd-plugin)" and (found.a, found.b) == (1, 1)
    found = conclusions.a_less([*runs("x", 100, 250), *runs("y", 100, 250)], "x", "y")
    assert found.label == "MNIST: x below y (nlpd-plugin)" and found.a == 2.5


def test_a_metric_that_a_run_does_not_have_is_no_divergence():
    run = {"status": "done", "step": 9, "rows": [{"t": 9, "nlpd-plugin": 1.0}]}
    bad = {"status": "diverged", "step": 3, "rows": []}
    assert story._cell([run], "nlpd-mc") == "–" and story._cell([run]) == "1.0000"
    assert story._cell([run, bad]) == "1.0000, 1 of 2 diverged"


def test_the_authors_code_is_beside_runs_with_the_same_prior():
    """The folder with other prior variances has runs of the same method and seeds."""
    own = [r for r in RUNS if r["study"] == "c-full" and r["method"] == "bong-lin-hess-dlr"]
    own = [r for r in own if r["part"] == "test" and r["folder"] == "sarcos-4449"]
    theirs = [r for r in RUNS if r["adapter"] and r["method"] == "bong-lin-hess-dlr"]
    ours = [r for r in own if r["seed"] in {t["seed"] for t in theirs}]
    other = [
        {**r, "folder": "sarcos-4449-predictives", "rows": [{**r["rows"][-1], "nlpd-plugin": 9.0}]}
        for r in ours
    ]
    assert theirs and ours
    assert story._authors([*ours, *other, *theirs]) == story._authors([*ours, *theirs])


def test_a_tuned_method_is_that_of_the_folder_with_the_papers_prior():
    base = {"study": "c-full", "task": "sarcos-4449", "part": "test", "method": "bong-lin-hess-dlr"}
    base |= {"adapter": None, "status": "done", "step": 9, "params": {"rank": 10}, "seed": 0}
    right = {**base, "folder": "sarcos-4449", "rows": [{"t": 9, "nlpd-plugin": 1.0}]}
    other = {**base, "folder": "sarcos-4449-predictives", "rows": [{"t": 9, "nlpd-plugin": 9.0}]}
    assert conclusions.tuned([right, other], "bong-lin-hess-dlr") == [right]


# --- a scaled-down version of each study ----------------------------------------------------------

SMALL = ("bong-lin-hess-diag", "bong-lin-hess-dlr", "bong-lin-hess-fc", "bog-lin-hess-dlr")


@pytest.mark.parametrize("study", paper.STUDIES)
def test_a_study_in_small(study, tmp_path, monkeypatch):
    """The last command of each folder on a few steps with one or two methods, collected for the
    page.
    """
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
    with_data = words[1].startswith(("mnist", "sarcos", "uci-"))
    if with_data and not (data and Path(data).is_dir()):
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


load = tasks.load
loaded = functools.lru_cache(lambda how: load(*json.loads(how)))  # one set for many commands


@pytest.mark.parametrize("size", paper.SIZES)
@pytest.mark.parametrize("study", paper.STUDIES)
def test_every_command_of_a_study_can_be_given(study, size, tmp_path, monkeypatch):
    """Its methods, space, parameters and metrics go together, as far as the data are there."""
    monkeypatch.setattr(tasks, "load", lambda *how: loaded(json.dumps(how)))
    seen = 0
    for words, _, _ in paper.commands(paper.load(study, size), tmp_path, 1):
        args = _parser().parse_args(_without(words, ("--params",)))
        published = args.task == "mnist" or args.task.startswith(("sarcos", "uci-"))
        if published and not os.environ.get("BONGREF_DATA"):
            continue
        if args.task == "sarcos":  # the full set is not among the data
            args.task = "sarcos-4449"
        seen += 1
        assert runs(args) if words[0] == "run" else plan_of(args).methods
    if not seen:
        pytest.skip("BONGREF_DATA does not name the data sets")

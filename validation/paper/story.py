"""The page "Is the paper's story true?":  python -m validation.paper.story

Writes docs/story.md, its figures, the verdicts of the claims ledger and the page of the ledger from
the committed results (validation/results/paper and the benchmark). ``--check`` compares the page
with what is there and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from . import collect, load
from .conclusions import CONCLUSIONS, PAPERS_RATES, SARCOS, TASKS, Conclusion, of_study
from .evidence import (
    LEVEL,
    MARGIN,
    Compared,
    Run,
    best_rate,
    decided_at,
    matching,
    value,
    verdict,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "story.md"
LEDGER = DOCS.parent / "bongref" / "paper" / "claims.json"
EVIDENCE = "tests/test_story.py::test_the_verdicts_of_the_ledger_are_those_of_the_page"
CONDITIONS = Path(__file__).with_name("conditions.json")
ANSWERS = {"yes": "yes", "no": "**no**", "?": "open"}
TIMED = ("faster", "a tenth")
OTHER_SEEDS = "other-seeds"  # study c with lin-hess and the seeds 5 to 9
COMMANDS = {"bench": "python -m validation.bench"}


def page(runs: Sequence[Run]) -> str:
    """The whole page."""
    judged = [(c, c.compared(runs)) for c in CONCLUSIONS]
    parts = [
        _opening(runs),
        _summary(judged),
        _other_seeds(runs),
        _grid(runs),
        _starts(runs),
        _lin_mc(runs),
        _ranks(runs),
        _exactness(runs),
        _authors(runs),
        _details(judged, runs),
        _computed(runs),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdicts(runs: Sequence[Run]) -> dict[str, str]:
    """The verdict of every conclusion by its id."""
    return {c.id: verdict(c.compared(runs)) for c in CONCLUSIONS}


def ledger(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Verdict, number and evidence of the claims that the page decides, by the claim's id."""
    rows = {}
    for claim in sorted({c.claim for c in CONCLUSIONS}):
        own = [(c, c.compared(runs)) for c in CONCLUSIONS if c.claim == claim]
        said = "; ".join(f"{c.id}: {verdict(k)} ({_counts(k)})" for c, k in own)
        joint = _joint([verdict(k) for _, k in own])
        tested = joint != "not tested"
        rows[claim] = {
            "verdict": joint,
            "number": f"{said}; docs/story.md, {_plain_commands([c for c, _ in own], runs)}",
            "evidence": [EVIDENCE] if tested else [],
        }
    return rows


def _plain_commands(own: Sequence[Conclusion], runs: Sequence[Run]) -> str:
    """The commands that decide some conclusions, each once."""
    each = [one for c in own for one in _command(c, runs).replace("`", "").split(", ")]
    return ", ".join(dict.fromkeys(each))


def _joint(verdicts: Sequence[str]) -> str:
    """One verdict where a claim of the ledger stands for several conclusions."""
    known = {v for v in verdicts if v != "cannot be told"}
    if not known:
        return "not tested"
    return verdicts[0] if len(set(verdicts)) == 1 else "holds with a condition"


def write_ledger(runs: Sequence[Run], path: Path) -> None:
    """Put the verdicts into the claims ledger; other rows stay as they are."""
    rows, mine = json.loads(path.read_text(encoding="utf-8")), ledger(runs)
    for row in rows:
        row.update(mine.get(row["id"], {}))
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# --- parts ----------------------------------------------------------------------------------------


def _opening(runs: Sequence[Run]) -> str:
    margins = ", ".join(f"{v:g} for {k}" for k, v in MARGIN.items())
    return f"""# Is the paper's story true?

Every experimental conclusion of the paper, with our numbers. This page is made by `python -m validation.paper.story` from
{len(runs):,} runs in `validation/results/paper`; a test makes it again and compares.

How to read it:

* A **comparison** pairs the runs of two methods by seed: the same stream, prior mean and test rows. The effect is the mean of the
  differences, ± its standard error, with the {LEVEL:.0%} t-interval in brackets; positive means that the first method is better (NLPD in nats).
* "below" is confirmed where the interval lies above 0; "far below" where it lies above a margin ({margins}); "≈" where it lies within ± the margin.
  A run that diverged, or whose NLPD is infinite (∞), counts as worse than any other, and then only the direction of the pairs counts.
* The **verdict** follows from the comparisons by a rule, which is code (`validation/paper/evidence.py`): all confirmed, *holds*; more refuted than
  confirmed, *does not hold*; some confirmed, *holds with a condition*; else *cannot be told*. The condition is the last column of the table. Intervals
  are not corrected for the number of comparisons; below the verdicts stands what a correction leaves.
* Learning rates are those with the least NLPD on held-out training rows. Where all rates diverged there, the smallest one is used.
* On MNIST an NLPD of 2.303 = log 10 and an error of 0.9 are those of guessing, whose ECE is small: a comparison with a method there says that it has not learnt.
* The paper's SARCOS training file is not among the data here: `sarcos-4449` has the same network, prior, observation variance and rates on the
  4,449 rows of the published test file, split by us."""


def _summary(judged: Sequence[tuple[Conclusion, list[Compared]]]) -> str:
    head = (
        "| conclusion (line of the LaTeX source) | verdict | comparisons | where, and where not |"
    )
    lines = ["## The verdicts", "", head, "|---|---|---|---|"]
    for c, found in judged:
        said = f"[{c.sentence}](#{c.id}) ({c.line})"
        where = condition(c.id, found)
        lines.append(f"| {said} | **{verdict(found)}** | {_counts(found)} | {where} |")
    return "\n".join([*lines, "", _corrected([k for _, found in judged for k in found])])


def condition(id: str, found: Sequence[Compared]) -> str:
    """In words, where a conclusion holds; empty where the words were written for other answers."""
    words = json.loads(CONDITIONS.read_text(encoding="utf-8")).get(id, {})
    answers = "".join(k.answer[0] for k in found)
    return str(words["where"]) if words.get("answers") == answers else ""


def _corrected(found: Sequence[Compared]) -> str:
    """How many comparisons are decided where all intervals are to hold together (Bonferroni)."""
    distinct = {(c.question, c.ids, c.read): c for c in found}.values()
    by_interval = [c for c in distinct if c.n >= 2 and not math.isnan(c.error)]
    decided = [c for c in by_interval if c.answer != "?"]
    if not by_interval:
        return "No comparison has an interval yet."
    level = 1 - (1 - LEVEL) / len(by_interval)
    kept = sum(decided_at(c, level) for c in decided)
    return (
        f"{len(by_interval)} different comparisons are by an interval over seeds, and {len(decided)} of them are confirmed or refuted. With intervals that hold all "
        f"together with {LEVEL:.0%} (Bonferroni: {level:.3%} each), {kept} still are: with three to five seeds, a single comparison of a small effect is "
        "a hint, and a conclusion rests on several that agree."
    )


def _other_seeds(runs: Sequence[Run]) -> str:
    """The comparisons of lin-hess in study c again, with runs of other seeds."""
    new = [r for r in runs if r["study"] == OTHER_SEEDS]
    if not new:
        return ""
    tuning = [r for r in of_study(runs, "c") if r["part"] == "valid"]
    again = [*tuning, *({**r, "study": "c-full"} for r in new)]
    of_c = [c for c in CONCLUSIONS if c.studies in ("c", "ac")]
    first, second = ({k.label: k for c in of_c for k in c.compared(some)} for some in (runs, again))
    both = [(first[label], k) for label, k in second.items() if k.n >= 2 and first[label].n >= 2]
    same = sum(a.answer == b.answer for a, b in both)
    against = sum({a.answer, b.answer} == {"yes", "no"} for a, b in both)
    lines = ["## The same with other seeds", "",
             "The runs of study c with lin-hess once more, with the seeds 5 to 9 and the rates that were chosen before. The answer is the same in "
             f"{same} of {len(both)} comparisons, the opposite in {against}, and open in one of the two in {len(both) - same - against}:", "",
             "| comparison | seeds 0 to 4 | seeds 5 to 9 |", "|---|---|---|"]  # fmt: skip
    lines += [f"| {a.label} | {_told(a)} | {_told(b)} |" for a, b in both if a.answer != b.answer]
    return "\n".join(lines)


def _told(c: Compared) -> str:
    return f"{_effect(c)}: {ANSWERS[c.answer]}"


def _counts(found: Sequence[Compared]) -> str:
    done = [c for c in found if c.n >= 2]
    counts = [(sum(c.answer == a for c in done), w) for a, w in
              (("yes", "confirmed"), ("no", "refuted"), ("?", "open"))]  # fmt: skip
    text = ", ".join(f"{n} {word}" for n, word in counts if n)
    missing = len(found) - len(done)
    more = f"{missing} not computed" if missing else ""
    return ", ".join(t for t in (text, more) if t) or "not computed"


def _details(judged: Sequence[tuple[Conclusion, list[Compared]]], runs: Sequence[Run]) -> str:
    out = ["## The comparisons"]
    for c, found in judged:
        title = f"### {c.id.replace('-', ' ')}: {verdict(found)}"
        said = f"{c.place}, line {c.line}: {c.sentence}"
        out += ["", f'<a id="{c.id}"></a>', "", title, "", said, ""]
        done = [k for k in found if k.n >= 2]
        if done:
            out += [
                "| comparison | pairs | first | second | effect | confirmed |",
                "|---|---:|---:|---:|---|---|",
            ]
            out += [_line(k) for k in done]
        missing = [k.label for k in found if k.n < 2]
        if missing:
            out += ["", f"Not computed: {'; '.join(missing)}."]
        out += ["", f"Command: {_command(c, runs)}."]
    return "\n".join(out)


def _line(c: Compared) -> str:
    unit = " µs" if c.question in TIMED else ""
    return (f"| {c.label} | {c.n} | {_number(c.a)}{unit} | {_number(c.b)}{unit} | {_effect(c)} | "
            f"{ANSWERS[c.answer]} |")  # fmt: skip


def _effect(c: Compared) -> str:
    if c.question in TIMED:
        return f"ratio {c.mean:.3g} [{c.low:.3g}, {c.high:.3g}]"
    if math.isnan(c.mean):
        return c.why
    return f"{c.mean:+.4f} ± {c.error:.4f} [{c.low:+.4f}, {c.high:+.4f}]"


def _number(x: float) -> str:
    if math.isinf(x):
        return "∞"
    return f"{x:.4g}" if abs(x) >= 100 else f"{x:.4f}"


def _command(c: Conclusion, runs: Sequence[Run]) -> str:
    """The commands whose results decide a conclusion: of a study, in the sizes that are there."""
    if c.studies in COMMANDS:
        return f"`{COMMANDS[c.studies]}`"
    sizes = {r["study"] for r in runs}
    there = [
        f"`python -m validation.paper {study}{' --reduced' if size == 'reduced' else ''}`"
        for study in c.studies
        for size in [z for z in ("full", "reduced") if f"{study}-{z}" in sizes] or ["full"]
    ]
    return ", ".join(there)


def _cell(runs: Sequence[Run], metric: str = "nlpd-plugin") -> str:
    """Mean ± standard error over seeds of the runs that ended, and how many diverged."""
    values = [v for r in runs if not math.isnan(v := value(r, metric))]
    finite = [v for v in values if math.isfinite(v)]
    bad = len(values) - len(finite)
    if not values:
        return "–"
    if not finite:
        return f"{bad} of {bad} diverged"
    error = statistics.stdev(finite) / math.sqrt(len(finite)) if len(finite) > 1 else math.nan
    text = f"{statistics.fmean(finite):.4f}" + ("" if math.isnan(error) else f" ± {error:.4f}")
    return text + (f", {bad} of {len(values)} diverged" if bad else "")


def _grid(runs: Sequence[Run]) -> str:
    """BLR at every rate, and what each grid would choose."""
    there = [task for task in TASKS if matching(of_study(runs, "c"), task=task, folder=task)]
    if not there:
        return ""
    lines = ["## How much of “BONG outperforms BLR” is the grid?", "",
             "NLPD (plugin) of bong-lin-hess and, by rate, of blr-lin-hess, DLR-10, after 2,000 "
             "observations:", "",
             "| | " + " | ".join(f"{TASKS[t]}, I = {n}" for t in there for n in (1, 10)) + " |",
             "|---" * (1 + 2 * len(there)) + "|"]  # fmt: skip
    own = {t: matching(of_study(runs, "c"), task=t, w0="random") for t in there}
    tested = {t: matching(own[t], part="test", folder=t) for t in there}
    bong = [_cell(matching(tested[t], method="bong-lin-hess-dlr")) for t in there]
    lines.append("| bong | " + " | ".join(cell for cell in bong for _ in (1, 10)) + " |")
    blr = {"method": "blr-lin-hess-dlr"}
    for a in (*PAPERS_RATES, 1.0):
        cells = [
            _cell(matching(tested[t], alpha=a, n_iter=n, **blr)) for t in there for n in (1, 10)
        ]
        lines.append(f"| α = {a:g} | {' | '.join(cells)} |")
    chosen = []
    for t in there:
        for n in (1, 10):
            valid = matching(own[t], part="valid", n_iter=n, **blr)
            papers, ours = best_rate(valid, lambda a: a <= 0.5), best_rate(valid)
            chosen.append(
                f"{TASKS[t]}, I = {n}: {_rate(papers)} on the paper's grid, "
                f"{_rate(ours)} with α = 1 in it"
            )
    return "\n".join([*lines, "", f"The validation rows choose, {'; '.join(chosen)}.", "",
                      "![NLPD against the learning rate](figures/story-rates.png)"])  # fmt: skip


def _rate(alpha: float | None) -> str:
    return "none (all diverged)" if alpha is None else f"α = {alpha:g}"


def _starts(runs: Sequence[Run]) -> str:
    """bog and bbb from a random W and from W = 0."""
    own = matching(of_study(runs, "c"), task=SARCOS, part="test", folder=SARCOS)
    lines = ["## bog and bbb with W₀ = 0, and with a W₀ that moves", "",
             "W = 0 is a fixed point of both rules in DLR: the low-rank part never moves, and the family is the diagonal one. The authors' code starts "
             "there. Our default is a small random W. NLPD (plugin) on SARCOS-4449:", "",
             "| method | α | random W₀ | W₀ = 0 |", "|---|---|---|---|"]  # fmt: skip
    rows = 0
    for method in ("bog-lin-hess-dlr", "bbb-lin-hess-dlr", "bog-mc-ef-dlr", "bbb-mc-ef-dlr"):
        for n_iter in (None,) if method.startswith("bog") else (1, 10):
            for alpha in PAPERS_RATES[:3]:
                how = {"method": method, "alpha": alpha, "n_iter": n_iter}
                both = [matching(own, w0=w0, **how) for w0 in ("random", "zero")]
                if any(both):
                    rows += bool(both[1])
                    name = method + ("" if n_iter is None else f", I = {n_iter}")
                    lines.append(f"| {name} | {alpha:g} | {_cell(both[0])} | {_cell(both[1])} |")
    return "\n".join(lines) if rows else ""


def _lin_mc(runs: Sequence[Run]) -> str:
    """The share of observations whose average mass is not positive."""
    text = """## How a study with lin_mc can be read

`lin_mc` linearises the class probabilities, so that the average mass of an observed class can be zero or negative, and one such image makes the NLPD
of the test set infinite. A comparison by lin_mc is one between the methods without such images. Beside it stand the share of these images, the
mean NLPD over the others (comparable only at equal shares), and `lin_mc_f`, which linearises the logits and is always finite."""
    own = [r for s in "ab" for r in matching(of_study(runs, s), task="mnist", part="test")]
    own = [r for r in own if any("nonpositive-lin_mc" in row for row in r["rows"])]
    if not own:
        return text + "\n\nNo MNIST runs with lin_mc are among the results."
    names = (
        "nonpositive-lin_mc",
        "nlpd-lin_mc",
        "nlpd_positive-lin_mc",
        "nlpd-lin_mc_f",
        "nlpd-plugin",
        "nlpd-mc",
    )
    lines = ["", "| method | t | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    groups = sorted({(r["study"], r["method"], r["params"].get("rank")) for r in own}, key=str)
    for study, method, rank in groups:
        these = [
            r for r in matching(own, study=study, method=method) if r["params"].get("rank") == rank
        ]
        label = f"{method}{'' if rank is None else f' rank {rank}'} ({study})"
        steps = max((r["rows"][-1]["t"] for r in these if r["status"] == "done"), default="–")
        lines.append(
            f"| {label} | {steps} | " + " | ".join(_lin_cell(these, n) for n in names) + " |"
        )
    return text + "\n" + "\n".join(lines)


def _lin_cell(runs: Sequence[Run], metric: str) -> str:
    done = [value(r, metric) for r in runs if r["status"] == "done"]
    if done and any(math.isinf(v) for v in done):
        return f"∞ in {sum(map(math.isinf, done))} of {len(done)}"
    return _cell(runs, metric)


def _ranks(runs: Sequence[Run]) -> str:
    """NLPD against the rank."""
    if not of_study(runs, "f"):
        return ""
    return """## Rank against full covariance

NLPD of bong-lin-hess in DLR less that of full covariance with the same seed, ± one standard error over seeds:

![NLPD against the rank](figures/story-ranks.png)"""


def _exactness(runs: Sequence[Run]) -> str:
    """KL to the exact posterior of linear regression."""
    own = matching(of_study(runs, "e"), part="test")
    if not own:
        return ""
    lines = ["## Linear regression: KL to the exact posterior", "",
             "KL divergence of the state from the exact posterior after 500 observations, 10 parameters; for methods with a rate, the rate with the least "
             "KL. Mean over seeds; full-covariance BONG-lin-hess is exact, as the conjugate theorem says.", "",
             "| method | KL | rate, I |", "|---|---|---|"]  # fmt: skip
    last = max(r["study"] for r in own if r["study"].endswith("full")) if any(
        r["study"].endswith("full") for r in own) else own[0]["study"]  # fmt: skip
    for method in sorted({r["method"] for r in own if r["study"] == last}):
        lines.append(f"| {method} | " + _best_kl(matching(own, method=method, study=last)) + " |")
    lines += ["", "![KL against t](figures/story-kl.png)"]
    return "\n".join(lines)


def _best_kl(runs: Sequence[Run]) -> str:
    groups: dict[tuple[Any, Any], list[Run]] = {}
    for r in runs:
        groups.setdefault((r["params"].get("alpha"), r["params"].get("n_iter")), []).append(r)
    means = {k: statistics.fmean(value(r, "kl") for r in g) for k, g in groups.items()}
    best = min(means, key=lambda k: means[k])
    if math.isinf(means[best]):
        return "diverged at every rate | "
    words = [f"{s} = {v:g}" for s, v in zip(("α", "I"), best, strict=True) if v is not None]
    return f"{means[best]:.3g} | {', '.join(words)}"


def _authors(runs: Sequence[Run]) -> str:
    """The authors' code through --adapter, beside ours."""
    theirs = [r for r in runs if r["adapter"]]
    if not theirs:
        return ""
    lines = [
        "## What the authors' code shows on the same streams",
        "",
        "`--adapter` puts petergchang/bong on the same streams, priors and samples (study c, I = 1; W₀ = 0, as it starts, where nothing else is said); "
        "bongref scores its states. NLPD (plugin):",
        "",
        "| method | α | ours | theirs | runs whose last row differs by more than 1e-3 |",
        "|---|---|---|---|---|",
    ]
    ours = matching(of_study(runs, "c"), task=SARCOS, part="test", folder=SARCOS)
    keys = sorted({(r["method"], r["params"].get("alpha"), r["w0"]) for r in theirs}, key=str)
    counts = {"zero": [0, 0], "random": [0, 0]}  # pairs that differ, and all
    for method, alpha, w0 in keys:
        one = {r["seed"]: r for r in matching(theirs, method=method, alpha=alpha, w0=w0)}
        two = {r["seed"]: r for r in matching(ours, method=method, alpha=alpha, w0=w0)
               if r["params"].get("n_iter", 1) == 1}  # fmt: skip
        seeds = sorted(set(one) & set(two))
        rate = "" if alpha is None else f"{alpha:g}"
        moves = method[:3] in ("bog", "bbb") and w0 == "random"
        label = f"{method}, W₀ random" if moves else method
        if not seeds:
            cell = _cell(list(one.values()))
            lines.append(f"| {label} | {rate} | not computed | {cell} | – |")
            continue
        pairs = [[value(side[s], "nlpd-plugin") for side in (one, two)] for s in seeds]
        differ = sum(not _close(a, b) for a, b in pairs)
        count = counts["random" if moves else "zero"]
        count[:] = [count[0] + differ, count[1] + len(pairs)]
        cells = [_cell([side[s] for s in seeds]) for side in (two, one)]
        lines.append(f"| {label} | {rate} | {cells[0]} | {cells[1]} | {differ} of {len(seeds)} |")
    (bad, n), (moved_bad, moved) = counts.values()
    if n:
        lines += ["", f"As the authors' code starts, with W₀ = 0 for bog and bbb, {bad} of {n} "
                  "pairs of runs differ: [its slips](peers.md#petergchangbong) in bbb-dlr multiply "
                  "W, which stays zero; the others are in the diagonal families and the "
                  "moments, which this protocol does not have."]  # fmt: skip
    if moved:
        lines[-1] += f" From a small random W₀, where W moves, {moved_bad} of {moved} differ."
    return "\n".join(lines)


def _close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= 1e-3


def _computed(runs: Sequence[Run]) -> str:
    lines = [
        "## What was computed",
        "",
        "| study | runs | diverged | fewer than the paper |",
        "|---|---:|---:|---|",
    ]
    for name in sorted({r["study"] for r in runs}):
        own = [r for r in runs if r["study"] == name]
        study, _, size = name.partition("-")
        said = _fewer(own, study, size)
        seeds = sorted({r["seed"] for r in own if r["part"] == "test"})
        bad = sum(r["status"] == "diverged" for r in own)
        lines.append(
            f"| {name} | {len(own)} | {bad} | {said}; seeds {seeds[0]} to {seeds[-1]} |"
            if seeds
            else f"| {name} | {len(own)} | {bad} | tuning alone, no run on the test rows yet |"
        )
    lines += [
        "",
        "Every line of the result files has the id of a run and the `bongref run` command that computes that run alone.",
    ]
    return "\n".join(lines)


def _fewer(own: Sequence[Run], study: str, size: str) -> str:
    """What a study has fewer of than the paper, and what of its setting has not been computed."""
    if f"{study}-{size}" == OTHER_SEEDS:
        return "study c on SARCOS-4449 with lin-hess alone"
    if size not in ("full", "reduced"):
        return "the authors' code through `--adapter`, lin-hess with I = 1 alone"
    settings = load(study, size)
    there = {(r["folder"], r["method"]) for r in own}
    wanted = [
        (step["folder"], name)
        for step in settings["commands"]
        for words in [" ".join(step["words"]).split()]
        if "--methods" in words and not step.get("optional")
        for name in words[words.index("--methods") + 1].split(",")
    ]
    missing: dict[str, list[str]] = {}
    for folder, name in wanted:
        if (folder, name) not in there:
            missing.setdefault(folder, []).append(name)
    text = settings["fewer"].rstrip(".") or "the paper’s numbers"
    if missing:
        gaps = "; ".join(f"{k} ({len(v)} method{'s' if v[1:] else ''})" for k, v in missing.items())
        text += f"; not computed yet: {gaps}"
        text += f". {settings['rest'].rstrip('.')}" if "rest" in settings else ""
    if lacking := _lacking(own, settings["commands"]):
        text += f". Seeds not computed yet: {'; '.join(lacking)}"
    return text


def _lacking(own: Sequence[Run], steps: Sequence[dict[str, Any]]) -> list[str]:
    """Methods of a study whose runs on the test rows have fewer seeds than its commands give."""
    found: dict[tuple[Any, ...], list[Run]] = {}
    for r in own:
        if r["part"] == "test":
            params = json.dumps(r["params"], sort_keys=True)
            how = (r["folder"], r["method"], r["w0"], r["prior_var"], params)
            found.setdefault(how, []).append(r)
    said: dict[tuple[str, ...], int] = {}
    for (folder, method, w0, *_), runs in found.items():
        wanted = max((_seeds(step, runs[0]) for step in steps), default=0)
        absent = sorted(set(range(wanted)) - {r["seed"] for r in runs})
        if absent:
            start = " from W₀ = 0" if w0 == "zero" else ""
            which = (folder, method + start, ", ".join(map(str, absent)))
            said[which] = said.get(which, 0) + 1
    return [
        f"{folder} {method} {seeds} ({n} setting{'s' if n > 1 else ''})"
        for (folder, method, seeds), n in sorted(said.items())
    ]


def _seeds(step: dict[str, Any], run: Run) -> int:
    """How many seeds a command of a study gives to runs like this one."""
    words = " ".join(step["words"]).split()
    given = dict(pairwise(words))
    if words[0] != "run" or step.get("optional") or step["folder"] != run["folder"]:
        return 0
    if given.get("--part", "test") != "test":
        return 0
    listed = {"--methods": run["method"], "--w0": run["w0"], "--prior-var": run["prior_var"]}
    listed |= {f"--{k.replace('_', '-')}": v for k, v in run["params"].items()}
    if "--w0" not in given and run["w0"] == "zero":
        return 0
    for option, wanted in listed.items():
        values = given[option].split(",") if option in given else [str(wanted)]
        if str(wanted) not in values and not _among(wanted, values):
            return 0
    return int(given.get("--seeds", 1))


def _among(wanted: Any, values: Sequence[str]) -> bool:
    return isinstance(wanted, (int, float)) and wanted in map(float, values)


def main(argv: list[str]) -> int:
    """Write the page and its figures, or check the page."""
    parser = argparse.ArgumentParser(prog="python -m validation.paper.story")
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args(argv)
    runs = collect.read()
    text = page(runs)
    if args.check:
        same = PAGE.read_text(encoding="utf-8") == text
        print("the page is that of the results" if same else "the page is not that of the results")
        return 0 if same else 1
    from .story_figures import write

    PAGE.write_text(text, encoding="utf-8")
    write_ledger(runs, LEDGER)
    claims = DOCS / "claims.md"  # in a process of its own, which reads the new ledger
    claimed = [sys.executable, "-m", "bongref", "claims", "--out", str(claims)]
    subprocess.run(claimed, check=True, stdout=subprocess.DEVNULL, cwd=DOCS.parent)
    for path in [PAGE, claims, *write(runs, DOCS / "figures")]:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

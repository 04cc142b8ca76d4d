"""What a report has to say: groups of outcomes, their marks, failures alike, reasons, the verdict.

Plain strings and lists; :mod:`.reports` makes documents of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..grid import HESSIANS, NAMES, RULES
from ..reports import clip, plural
from . import vectors, wording
from .answers import Gap
from .diagnosis import common, unexplained, verdict
from .runner import METHOD_OF, NOT_RUN, STATUSES, Outcome, Report

LEVELS = {name: label for label, name in vectors.LEVELS.items()}  # step -> L0
OF_METHODS = ("step", "update", "stream")  # the levels whose cases belong to a method
ROWS = [(rule, hess) for rule in RULES for hess in HESSIANS]
LONG, MANY = 1500, 12  # characters and lines of a message that are shown


# --- groups ---------------------------------------------------------------------------------------


def subject(outcome: Outcome) -> str:
    """What a case is about: a method, an estimator, a family, a kind of prediction in a family."""
    words = outcome.case.subject
    return words.get("method") or " ".join([outcome.case.level, *words.values()])


def place(outcome: Outcome) -> str:
    """The level of a case, e.g. L0 step."""
    level = outcome.case.level
    return level if LEVELS[level] == level else f"{LEVELS[level]} {level}"


def groups(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes by their subject."""
    out: dict[str, list[Outcome]] = {}
    for o in outcomes:
        out.setdefault(subject(o), []).append(o)
    return out


def by_level(report: Report) -> dict[str, list[Outcome]]:
    """The outcomes of the levels that were run."""
    every = {level: [o for o in report.outcomes if o.case.level == level] for level in LEVELS}
    return {level: here for level, here in every.items() if here}


def by_cell(report: Report) -> dict[str, dict[str, list[Outcome]]]:
    """The outcomes of each method by level."""
    cells: dict[str, dict[str, list[Outcome]]] = {}
    for o in report.outcomes:
        if "method" in o.case.subject:
            of = cells.setdefault(o.case.subject["method"], {})
            of.setdefault(o.case.level, []).append(o)
    return cells


def standing(outcomes: Sequence[Outcome]) -> str:
    """The status of outcomes together: pass, fail, part, none, or empty where there are none.

    A refusal shows nothing where no case that has a value was run.
    """
    if not outcomes:
        return ""
    if any(o.status in ("fail", "error") for o in outcomes):
        return "fail"
    value = [o for o in outcomes if o.case.result == "value"] or outcomes
    if all(o.status in NOT_RUN for o in value):
        return "none"
    part = any(o.status == "not offered" or o.partial for o in value)
    return "part" if part or any(o.status == "xfail" for o in outcomes) else "pass"


def together(kinds: Iterable[str]) -> str:
    """The status of several levels: one that is not offered at all does not count."""
    there = set(kinds)
    return next((kind for kind in ("fail", "part", "pass", "none") if kind in there), "")


def counted(outcomes: Sequence[Outcome]) -> str:
    """The number of outcomes with each status, e.g. 3 pass, 1 fail."""
    numbers = {s: sum(o.status == s for o in outcomes) for s in STATUSES}
    return ", ".join(f"{n} {s}" for s, n in numbers.items() if n)


def fraction(outcomes: Sequence[Outcome]) -> str:
    """How many of those that are offered pass, e.g. 3/4."""
    offered = [o for o in outcomes if o.status not in NOT_RUN]
    passing = sum(o.status in ("pass", "xpass") for o in offered)
    return f"{passing}/{len(offered)}" if offered else ""


# --- failures -------------------------------------------------------------------------------------


def failing(report: Report) -> dict[str, list[Outcome]]:
    """The failures by subject, methods in the order of the grid.

    In each the simplest level first, a wrong number before an error, an explained one first.
    """
    order = list(LEVELS)
    first = lambda o: (order.index(o.case.level), o.gap is None, not o.diagnosis)
    bad = groups(sorted(report.failures, key=first))
    return {name: bad[name] for name in (*NAMES, *bad) if name in bad}


def alike(
    bad: dict[str, list[Outcome]], reasons: dict[str, list[str]], apart: bool = False
) -> list[list[str]]:
    """The failing subjects in groups that fail in the same way; ``apart``: each for itself."""
    ways: dict[Any, list[str]] = {}
    for name, failures in bad.items():
        ways.setdefault(name if apart else _way(failures[0], reasons.get(name, [])), []).append(
            name
        )
    return list(ways.values())


def _way(o: Outcome, reasons: Sequence[str]) -> tuple[str, ...]:
    """Equal for subjects that fail in the same way."""
    finite = o.gap is not None and math.isfinite(o.gap.relative)
    numeric = finite and "not symmetric" not in o.message
    said = "" if numeric else re.sub(r"[\d.+-]+", "#", o.message)
    return (o.case.level, *((o.gap.quantity, o.gap.equation) if o.gap else ()), said, *reasons)


def only_with(failure: Outcome, outcomes: Sequence[Outcome]) -> list[str]:
    """The flags that every failing case of the subject has at this level, and no passing one."""
    level, result = failure.case.level, failure.case.result
    same = [o for o in outcomes if (o.case.level, o.case.result) == (level, result)]
    bad = [set(o.case.flags) for o in same if o.status in ("fail", "error", "xfail")]
    good = [set(o.case.flags) for o in same if o.status in ("pass", "xpass")]
    if not good:
        return []
    shared = set.intersection(*bad).difference(*good)
    return [flag for flag in failure.case.flags if flag in shared]


def explained(report: Report) -> tuple[list[str], dict[str, list[str]]]:
    """The mistakes that explain every failure, and those that explain all of a method's."""
    if not any(o.diagnosis for o in report.failures):
        return [], {}
    reasons = verdict(report.outcomes)
    names = {subject(o): " ".join(o.case.subject.values()) for o in report.failures}
    mine = {name: reasons[key] for name, key in names.items() if reasons.get(key)}
    shown = {name: wording.all_said(lines) for name, lines in mine.items()}
    return wording.all_said(common(report.outcomes)), shown


def one_mistake(report: Report, whole: Sequence[str]) -> str:
    """That one mistake explains all wrong values; empty where none does."""
    if not whole:
        return ""
    numbers = sum(o.gap is not None for o in report.failures)
    exceptions = numbers < len(report.failures)  # which a wrong number cannot explain
    many = f"all {numbers} wrong values" if exceptions else "every failure"
    if odd := unexplained(report.outcomes):
        many = f"{numbers - len(odd)} of {numbers} wrong values, all but {odd[0].case.id}"
    return f"one mistake explains {many}: {'; or '.join(whole)}"


def details(o: Outcome) -> list[tuple[str, str]]:
    """What is wrong with an answer: the quantity, got, wanted, difference."""
    gap = o.gap
    if gap is None:
        return [("what", shortened(o.message))]
    at = f", entry {entry(gap)}" if gap.where else ""
    out = [("quantity", f"{gap.quantity} ({gap.equation}){at}")]
    skew, finite = "not symmetric" in o.message, math.isfinite(gap.relative)
    if not finite or skew or not o.message.startswith(gap.quantity):
        out.append(("what", shortened(o.message.split("; ")[0] if skew else o.message)))
    if np.shape(gap.got) == gap.wanted.shape:
        out += list(zip(("got", "wanted"), values(gap), strict=True))
    if finite:
        times = gap.relative / gap.tolerance if gap.tolerance else math.inf
        said = f"{gap.relative:.3g} relative, tolerance {gap.tolerance:.3g} ({times:.2g} times)"
        out.append(("difference", said))
    return out


def brief(o: Outcome, reasons: Sequence[str]) -> str:
    """A failure in one line."""
    what = o.message
    if o.gap and math.isfinite(o.gap.relative):
        what = f"{o.gap.quantity} ({o.gap.equation}) differs by {o.gap.relative:.2g}"
    return one_line(what) + (f": {reasons[0]}" if reasons else "")


def values(gap: Gap) -> tuple[str, str]:
    """Got and wanted at the entry that differs most."""
    a, b = np.asarray(gap.got)[gap.where], gap.wanted[gap.where]
    if np.shape(a) == ():
        return f"{a:.17g}", f"{b:.17g}"
    return clip(str(a.tolist()), 200), clip(str(b.tolist()), 200)


def entry(gap: Gap) -> str:
    """The entry that differs most, e.g. [0, 1]."""
    return f"[{', '.join(map(str, gap.where))}]" if gap.where else ""


def shortened(text: str) -> str:
    """A message without what is beyond LONG characters and MANY lines."""
    lines = clip(text, LONG).splitlines()
    return "\n".join([*lines[:MANY], "…"] if len(lines) > MANY else lines)


def one_line(text: str) -> str:
    """A message in one line."""
    return " ".join(text.split())


# --- the whole ------------------------------------------------------------------------------------


def not_offered(outcomes: Sequence[Outcome], names: bool = False, needs_named: bool = True) -> str:
    """What is not offered, e.g. run, predictive; update for 12 methods. ``names``: which ones.

    ``needs_named``: with what the cases of a level need of which nothing is offered.
    """
    whole, parts = [], []
    kinds = {"estimate": "estimator", "predict": "family", "predictive": "kind"}
    for level in LEVELS:
        here = groups(o for o in outcomes if o.case.level == level)
        missing = [
            s
            for s, of in here.items()
            if standing(of) == "none" and any(o.status == "not offered" for o in of)
        ]
        call = METHOD_OF.get(level, level)
        if missing and len(missing) == len(here):
            lacking = [o.case for of in here.values() for o in of]
            whole.append(f"{call} ({needed(lacking)})" if needs_named else call)
            continue
        if missing:
            listed = ", ".join(s.removeprefix(level + " ") for s in missing)
            shown = f" ({listed})" if names or len(missing) <= 3 else ""
            parts.append(f"{call} for {plural(len(missing), kinds.get(level, 'method'))}{shown}")
        rest = [o for s, of in here.items() if s not in missing for o in of]
        number = sum(o.status == "not offered" for o in rest)
        if number:
            parts.append(f"{call} for {plural(number, 'further case' if missing else 'case')}")
    return "; ".join([*([", ".join(whole)] if whole else []), *parts])


def offered_levels(report: Report) -> str:
    """The levels of which something is offered, e.g. L0 step and predict."""
    names = [
        place(here[0])
        for here in by_level(report).values()
        if any(o.status not in NOT_RUN and o.case.result == "value" for o in here)
    ]
    if len(names) == len(by_level(report)) > 1:
        return f"all {len(names)} levels"
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names) or "no level"


def share(report: Report) -> str:
    """How much of the cases is offered, e.g. 31 of 1,267 cases (2.4 %), L0 step and predict."""
    total = len(report.outcomes)
    percent = 100 * report.offered / total if total else 0.0
    exact = "100" if report.offered == total else f"{min(percent, 99.9):.2g}"
    exact = f"{percent:.1f}" if 10 <= percent and exact != "100" else exact
    levels = offered_levels(report)
    cases = "case" if total == 1 else "cases"
    return f"{report.offered:,} of {total:,} {cases} ({exact} %), {levels}"


def needed(cases: Iterable[vectors.Case]) -> str:
    """What cases need, e.g. 3 streams: OU dynamics, a missing observation."""
    cases = list(cases)
    words = list(dict.fromkeys(w for case in cases for w in needs(case)))
    noun = {"stream": "stream", "draw": "draw"}.get(cases[0].level, cases[0].level)
    return f"{plural(len(cases), noun)}: {', '.join(words)}" if words else plural(len(cases), noun)


def needs(case: vectors.Case) -> list[str]:
    """What an implementation has to offer for a case, in words."""
    given = case.input
    words = [] if "likelihood" not in given else [NEEDS[str(given["likelihood"]["kind"])]]
    model = given.get("model", {}).get("kind")
    words += [{"linear": "a linear model", "mlp": "an MLP", "cnn": "a CNN"}[model]] if model else []
    kind = given.get("dynamics", {}).get("kind", "static")
    words += [] if kind == "static" else ["OU dynamics" if kind == "ou" else "linear dynamics"]
    params = given.get("params", {})
    words += ["inner iterations"] if params.get("n_iter", 1) > 1 else []
    words += ["given samples"] if given.get("samples") is not None else []
    words += [NEEDS[flag] for flag in case.flags if flag in NEEDS and flag not in LIKELIHOODS]
    return words


LIKELIHOODS = ("gaussian", "bernoulli", "categorical", "poisson")
NEEDS = {
    "gaussian": "Gaussian likelihood",
    "bernoulli": "Bernoulli likelihood",
    "categorical": "categorical likelihood",
    "poisson": "Poisson likelihood",
    "batch": "mini-batches",
    "missing": "a missing observation",
    "full-F": "a full F and Q",
    "dense-G": "a dense G",
    "low-rank-G": "G = -S S^T",
    "given-normals": "given standard normals",
    "many-draws": "a seed",
}


def verdict_line(report: Report) -> str:
    """The verdict and the counts in one line."""
    counts, total, bad = report.counts, len(report.outcomes), report.failures
    said = ", ".join(f"{n:,} {status}" for status, n in counts.items())
    if report.interrupted:
        head = f"STOPPED after {plural(total, 'case')}"
    elif not report.offered:
        head = "NOTHING OFFERED"
    elif bad:
        fail = "fails" if len(bad) == 1 else "fail"
        many = f"{len(bad):,} of {report.offered:,} offered cases {fail}"
        head = f"DOES NOT CONFORM: {many}, in {_where(bad)}"
    else:
        known = counts.get("xfail", 0)
        but = f" but {plural(known, 'known failure')}" if known else ""
        none = f"none {'else ' if known else ''}fails"
        part = sum(o.partial for o in report.outcomes)
        half = f"; {part:,} of them in part (the mean alone)" if part else ""
        head = f"CONFORMS{but} in {share(report)}{half}; {none}"
    return f"{head} ({said or 'no case was run'}; {report.seconds:.1f} s)"


def _where(bad: Sequence[Outcome]) -> str:
    """The methods and levels of failures, e.g. 3 methods, estimate and predict."""
    methods = {s for o in bad if (s := subject(o)) in NAMES}
    others = {o.case.level for o in bad if subject(o) not in NAMES}
    said = [plural(len(methods), "method")] if methods else []
    said += [level for level in LEVELS if level in others]
    return " and ".join([", ".join(said[:-1]), said[-1]] if said[1:] else said)


def outdated(report: Report, file: str) -> list[str]:
    """What to remove from the file of known failures."""
    passing = [o.case.id for o in report.outcomes if o.status == "xpass"]
    lines = [f"now passes: remove {case} from {file}" for case in passing]
    unused = report.unused_xfails
    return lines + [f"matches no case of this run: {line} in {file}" for line in unused]


def xfails(report: Report) -> str:
    """The failures, known and new, as a file of known failures."""
    name = one_line(report.name)
    lines = [f"# known failures of {name} for bongref check --xfails; one id or glob a line"]
    for o in report.outcomes:
        if o.status in ("fail", "error", "xfail"):
            lines.append(f"{o.case.id}  # {clip(one_line(o.message), 160)}")
    return "\n".join(lines) + "\n"

"""What is shown of a report: text, JSON, JUnit XML, and one HTML page.

print(text(report))
write("report.html", report)                         # or .json, .xml
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from .._version import __version__
from ..grid import FAMILIES, HESSIANS, NAMES, RULES
from . import vectors
from .flags import FLAGS
from .answers import Gap
from .runner import METHOD_OF, STATUSES, Outcome, Report

SCHEMA = "bongref-report-1"
ENDINGS = (".json", ".xml", ".html")
LEVELS = {name: label for label, name in vectors.LEVELS.items()}  # step -> L0
OF_METHODS = ("step", "update", "stream")  # the levels whose cases belong to a method
LIKELIHOODS = ("gaussian", "bernoulli", "categorical", "poisson")
NOT_RUN = ("not offered", "not applicable")
MARKS = {"pass": "✓", "fail": "✗", "part": "~", "none": "–", "": "·"}
MEANINGS = {
    "pass": "all that is offered passes",
    "fail": "something fails",
    "part": "known failures, or offered in part",
    "none": "not offered",
    "": "no such case",
}
ASCII = str.maketrans(
    {
        "✓": "+",
        "✗": "X",
        "–": "-",
        "·": ".",
        "…": "~",
        "×": "x",
        "²": "2",
        "α": "a",
        "Σ": "S",
        "μ": "u",
    }
)
IN_FULL = 12  # methods whose first failure is shown in full; the others have a line


# --- what there is to say ---------------------------------------------------------------------------------------------------------


def subject(outcome: Outcome) -> str:
    """What a case is about: a method, an estimator, a family, a kind of prediction in a family."""
    words = outcome.case.subject
    return words["method"] if "method" in words else " ".join([outcome.case.level, *words.values()])


def place(outcome: Outcome) -> str:
    """L0 step."""
    level = outcome.case.level
    return level if LEVELS.get(level, level) == level else f"{LEVELS[level]} {level}"


def standing(outcomes: Sequence[Outcome]) -> str:
    """A key of MARKS for these outcomes together. A refusal shows nothing where no case that has a value was run."""
    if not outcomes:
        return ""
    if any(o.status in ("fail", "error") for o in outcomes):
        return "fail"
    value = [o for o in outcomes if o.case.result == "value"] or outcomes
    if all(o.status in NOT_RUN for o in value):
        return "none"
    part = any(o.status == "not offered" for o in value) or any(
        o.status == "xfail" for o in outcomes
    )
    return "part" if part else "pass"


def together(kinds: Iterable[str]) -> str:
    """The key of MARKS for several levels of one method: a level that is not offered at all does not count."""
    there = set(kinds)
    return next((kind for kind in ("fail", "part", "pass", "none") if kind in there), "")


def groups(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes by their subject."""
    out: dict[str, list[Outcome]] = {}
    for o in outcomes:
        out.setdefault(subject(o), []).append(o)
    return out


def failing(report: Report) -> dict[str, list[Outcome]]:
    """The failures by subject, methods in the order of the grid, what says most first: of the simplest level, a number, explained."""
    order = list(vectors.LEVELS.values())
    bad = groups(
        sorted(
            report.failures,
            key=lambda o: (order.index(o.case.level), o.gap is None, not o.diagnosis),
        )
    )
    return {name: bad[name] for name in (*NAMES, *bad) if name in bad}


def only_with(failure: Outcome, outcomes: Sequence[Outcome]) -> list[str]:
    """The flags that every failing case of the subject has at this level, and no passing one."""
    same = [
        o
        for o in outcomes
        if (o.case.level, o.case.result) == (failure.case.level, failure.case.result)
    ]
    bad = [set(o.case.flags) for o in same if o.status in ("fail", "error", "xfail")]
    good = [set(o.case.flags) for o in same if o.status in ("pass", "xpass")]
    return [
        f
        for f in failure.case.flags
        if good and all(f in flags for flags in bad) and not any(f in flags for flags in good)
    ]


def meaning(flag: str) -> str:
    """What a flag says of a case, and what it is there to catch."""
    known = FLAGS.get(flag, {"what": "not described", "catches": ""})
    return known["what"] + (f"; catches {known['catches']}" if known["catches"] else "")


def explained(report: Report) -> tuple[list[str], dict[str, list[str]]]:
    """The mistakes that explain every failure, and those that explain all of a method's."""
    if not any(o.diagnosis for o in report.failures):
        return [], {}
    from .diagnosis import common, verdict

    reasons = verdict(report.outcomes)
    names = {subject(o): " ".join(o.case.subject.values()) for o in report.failures}
    return common(report.outcomes), {
        name: reasons[key] for name, key in names.items() if reasons.get(key)
    }


def _how_many(report: Report) -> str:
    """What a mistake common to all can explain: wrong numbers, not exceptions or the like."""
    numbers = sum(o.gap is not None for o in report.failures)
    return "every failure" if numbers == len(report.failures) else f"all {numbers} wrong values"


def values(gap: Gap) -> tuple[str, str]:
    """What was got and what was wanted at the entry that differs most."""
    a, b = np.asarray(gap.got)[gap.where], gap.wanted[gap.where]
    return (
        (f"{a:.17g}", f"{b:.17g}")
        if np.shape(a) == ()
        else (_clip(str(a.tolist()), 200), _clip(str(b.tolist()), 200))
    )


def entry(gap: Gap) -> str:
    return f"[{', '.join(map(str, gap.where))}]" if gap.where else ""


def not_offered(outcomes: Sequence[Outcome], names: bool = False) -> str:
    """run, predictive; update for 12 methods."""
    whole, parts = [], []
    for level in vectors.LEVELS.values():
        here = groups(o for o in outcomes if o.case.level == level)
        missing = [
            s
            for s, of in here.items()
            if standing(of) == "none" and any(o.status == "not offered" for o in of)
        ]
        call = METHOD_OF.get(level, level)
        if missing and len(missing) == len(here):
            whole.append(call)
            continue
        if missing:
            listed = (
                f" ({', '.join(s.removeprefix(level + ' ') for s in missing)})"
                if names or len(missing) <= 3
                else ""
            )
            kind = {"estimate": "estimator", "predict": "family", "predictive": "kind"}.get(
                level, "method"
            )
            parts.append(f"{call} for {_plural(len(missing), kind)}{listed}")
        rest = sum(
            o.status == "not offered" for s, of in here.items() if s not in missing for o in of
        )
        if rest:
            parts.append(f"{call} for {_plural(rest, 'further case' if missing else 'case')}")
    return "; ".join([*([", ".join(whole)] if whole else []), *parts])


def verdict_line(report: Report) -> str:
    """The last line: the verdict and the counts."""
    counts, total = report.counts, len(report.outcomes)
    said = ", ".join(f"{n} {status}" for status, n in counts.items())
    bad = report.failures
    if report.interrupted:
        head = f"STOPPED after {_plural(total, 'case')}"
    elif not report.offered:
        head = "NOTHING OFFERED"
    elif bad:
        head = f"DOES NOT CONFORM: {len(bad)} of {report.offered} offered cases {'fails' if len(bad) == 1 else 'fail'}{_where(bad)}"
    else:
        known = counts.get("xfail", 0)
        but = f" but {_plural(known, 'known failure')}" if known else ""
        head = f"CONFORMS{but}: {report.offered} of {total} cases are offered, and none {'else ' if known else ''}fails"
    return f"{head} ({said or 'no case was run'}; {report.seconds:.1f} s)"


def _where(bad: Sequence[Outcome]) -> str:
    methods, others = (
        {s for o in bad if (s := subject(o)) in NAMES},
        {o.case.level for o in bad if subject(o) not in NAMES},
    )
    said = [
        *([_plural(len(methods), "method")] if methods else []),
        *(level for level in vectors.LEVELS.values() if level in others),
    ]
    return f", in {' and '.join([', '.join(said[:-1]), said[-1]] if said[1:] else said)}"


def _plural(n: int, word: str) -> str:
    return f"{n} {word if n == 1 else word[:-1] + 'ies' if word.endswith('y') else word + 's'}"


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


# --- text ---------------------------------------------------------------------------------------------------------------------------


def text(report: Report, verbose: bool = False, xfails: str | None = None) -> str:
    """The whole report; ``verbose``: every failing case in full. ``xfails``: the name of the file of known failures."""
    parts = [
        f"{report.name} ({report.dtype}) against {_plural(len(report.outcomes), 'case')} of {vectors.SCHEMA}, bongref {__version__}",
        _matrix(report),
        _levels(report),
        _failures(report, verbose),
        _known(report, verbose, xfails or "the file of known failures"),
    ]
    missing = not_offered(report.outcomes, verbose)
    if missing:
        parts.append(f"not offered: {missing}")
    return "\n\n".join([*(p for p in parts if p), verdict_line(report)])


def _matrix(report: Report) -> str:
    """Rules × estimators down, families across; in each cell a mark for each level."""
    cells = _by_cell(report)
    rows = [row for row in _rows() if any((*row, f) in cells for f in FAMILIES)]
    if not rows:
        return ""
    head = f"{'':<15}" + "".join(f"{f:<10}" for f in FAMILIES)
    lines = [head.rstrip()]
    for rule, hess in rows:
        marks = [
            "".join(
                MARKS[standing(cells.get((rule, hess, f), {}).get(level, []))]
                for level in OF_METHODS
            )
            + " " * 7
            for f in FAMILIES
        ]
        lines.append(f"{rule + '-' + hess:<15}{''.join(marks)}".rstrip())
    shown = ", ".join(f"{LEVELS[level]} {level}" for level in OF_METHODS)
    lines.append(
        f"each cell: {shown}; "
        + ", ".join(f"{mark} {MEANINGS[key]}" for key, mark in MARKS.items())
    )
    return "\n".join(lines)


def _rows() -> list[tuple[str, str]]:
    return [(rule, hess) for rule in RULES for hess in HESSIANS]


def _by_cell(report: Report) -> dict[tuple[str, str, str], dict[str, list[Outcome]]]:
    """(rule, estimator, family) -> level -> outcomes."""
    cells: dict[tuple[str, str, str], dict[str, list[Outcome]]] = {}
    for o in report.outcomes:
        if "method" in o.case.subject:
            rule, a, b, family = o.case.subject["method"].split("-")
            cells.setdefault((rule, f"{a}-{b}", family), {}).setdefault(o.case.level, []).append(o)
    return cells


def _levels(report: Report) -> str:
    """A line of counts for each level."""
    lines = []
    for level, here in by_level(report).items():
        counts = ", ".join(f"{n} {s}" for s in STATUSES if (n := sum(o.status == s for o in here)))
        lines.append(
            f"{MARKS[standing(here)]} {LEVELS[level] if LEVELS[level] != level else '':<3}{level:<12}{len(here):>5} cases: {counts}"
        )
    return "\n".join(lines)


def by_level(report: Report) -> dict[str, list[Outcome]]:
    """The outcomes of the levels that were run."""
    every = {level: [o for o in report.outcomes if o.case.level == level] for level in LEVELS}
    return {level: here for level, here in every.items() if here}


def _failures(report: Report, verbose: bool) -> str:
    bad = failing(report)
    if not bad:
        return ""
    whole, reasons = explained(report)
    every, parts = groups(report.outcomes), []
    if whole:
        parts.append(_field(f"one mistake explains {_how_many(report)}:", "; or ".join(whole)))
    shown: list[Outcome] = []
    alike: dict[Any, list[str]] = {}  # the methods that fail in the same way
    for name, failures in bad.items():
        alike.setdefault(name if verbose else _way(failures[0], reasons.get(name, [])), []).append(
            name
        )
    for k, (name, *others) in enumerate(alike.values()):
        if k < IN_FULL or verbose:
            shown += bad[name] if verbose else bad[name][:1]
            parts.append(_group(name, bad[name], every[name], reasons.get(name, []), verbose))
            if others:
                parts[-1] += "\n" + _field(
                    "  likewise", ", ".join(f"{n} ({len(bad[n])})" for n in others)
                )
    if len(alike) > IN_FULL and not verbose:
        rest = [(name, bad[name]) for names in list(alike.values())[IN_FULL:] for name in names]
        lines = [
            _clip(f"  {name:<24}{len(of):>3}  {_short(of[0], reasons.get(name, []))}", 160)
            for name, of in rest
        ]
        parts.append("\n".join([f"and {len(rest)} more (-v shows them in full):", *lines]))
    flags = sorted({flag for o in shown for flag in o.case.flags})
    if flags:
        parts.append(
            "\n".join(
                ["the flags of these cases:", *(f"  {flag:<24}{meaning(flag)}" for flag in flags)]
            )
        )
    return "\n\n".join(parts)


def _way(o: Outcome, reasons: Sequence[str]) -> tuple[str, ...]:
    """The same for methods that fail in the same way."""
    numeric = (
        o.gap is not None and math.isfinite(o.gap.relative) and "not symmetric" not in o.message
    )
    said = "" if numeric else re.sub(r"[\d.+-]+", "#", o.message)
    return (o.case.level, *((o.gap.quantity, o.gap.equation) if o.gap else ()), said, *reasons)


def _short(o: Outcome, reasons: Sequence[str]) -> str:
    what = (
        f"{o.gap.quantity} ({o.gap.equation}) differs by {o.gap.relative:.2g}"
        if o.gap and math.isfinite(o.gap.relative)
        else o.message
    )
    return " ".join(what.split()) + (f": {reasons[0]}" if reasons else "")


def _group(
    name: str,
    failures: Sequence[Outcome],
    every: Sequence[Outcome],
    reasons: Sequence[str],
    verbose: bool,
) -> str:
    offered = sum(o.status not in NOT_RUN for o in every)
    lines = [
        f"✗ {name}: {len(failures)} of {_plural(offered, 'case')} {'fails' if len(failures) == 1 else 'fail'}"
    ]
    if reasons:
        lines.append(_field("  diagnosis", "; or ".join(reasons)))
    for o in failures if verbose else failures[:1]:
        lines.append(case_text(o, every, bool(reasons)))
    if len(failures) > 1 and not verbose:
        others = ", ".join(o.case.id for o in failures[1:4]) + (", …" if len(failures) > 4 else "")
        lines.append(_field("  further", f"{_plural(len(failures) - 1, 'failing case')}: {others}"))
    return "\n".join(lines)


def case_text(o: Outcome, every: Sequence[Outcome] = (), explained: bool = False) -> str:
    """One failing case: what it is, the quantity and its equation, got, wanted, difference, tolerance, diagnosis."""
    fields = [("case", o.case.id), ("flags", ", ".join(o.case.flags) or "none")]
    if only := only_with(o, every):
        fields.append(("only with", "; ".join(f"{flag}: {meaning(flag)}" for flag in only)))
    fields += details(o)
    if o.diagnosis and not explained:
        fields.append(("diagnosis", "; or ".join(o.diagnosis)))
    return "\n".join(_field(f"  {key}", value) for key, value in fields)


def details(o: Outcome) -> list[tuple[str, str]]:
    """What is wrong with an answer, in fields."""
    gap = o.gap
    if gap is None:
        return [("what", o.message)]
    out = [
        (
            "quantity",
            f"{gap.quantity} ({gap.equation})" + (f", entry {entry(gap)}" if gap.where else ""),
        )
    ]
    if (
        not math.isfinite(gap.relative)
        or "not symmetric" in o.message
        or not o.message.startswith(gap.quantity)
    ):
        out.append(
            ("what", o.message.split("; ")[0] if "not symmetric" in o.message else o.message)
        )
    if np.shape(gap.got) == gap.wanted.shape:
        out += list(zip(("got", "wanted"), values(gap), strict=True))
    if math.isfinite(gap.relative):
        times = gap.relative / gap.tolerance if gap.tolerance else math.inf
        out.append(
            (
                "difference",
                f"{gap.relative:.3g} relative, tolerance {gap.tolerance:.3g} ({times:.2g} times)",
            )
        )
    return out


def _field(key: str, value: str) -> str:
    indent = " " * 14
    lines = [
        line
        for part in value.splitlines() or [""]
        for line in (
            textwrap.wrap(part, 126, break_long_words=False, break_on_hyphens=False) or [""]
        )
    ]
    kept = lines if len(lines) <= 12 else [*lines[:12], "…"]
    return f"{key:<13} " + f"\n{indent}".join(kept)


def _known(report: Report, verbose: bool, file: str) -> str:
    known, passing = ([o for o in report.outcomes if o.status == s] for s in ("xfail", "xpass"))
    lines = []
    if known:
        lines.append(f"known to fail: {_plural(len(known), 'case')} in {file}")
        lines += (
            [_clip(f"  {o.case.id}: {' '.join(o.message.split())}", 160) for o in known]
            if verbose
            else []
        )
    lines += [f"now passes: remove {o.case.id} from {file}" for o in passing]
    lines += [f"matches no case of this run: {line} in {file}" for line in report.unused_xfails]
    return "\n".join(lines)


def xfails(report: Report) -> str:
    """The failures, known and new, as a file of known failures."""
    lines = [
        f"# what {' '.join(report.name.split())} is known to fail, for bongref check --xfails; one id or glob a line"
    ]
    for o in report.outcomes:
        if o.status in ("fail", "error", "xfail"):
            lines.append(f"{o.case.id}  # {_clip(' '.join(o.message.split()), 160)}")
    return "\n".join(lines) + "\n"


# --- JSON ---------------------------------------------------------------------------------------------------------------------------


def to_json(report: Report) -> dict[str, Any]:
    """The report as plain data; what JSON has no number for, NaN and infinities, as strings."""
    whole, reasons = explained(report)
    data = {
        "schema": SCHEMA,
        "adapter": report.name,
        "dtype": report.dtype,
        "bongref": __version__,
        "vectors": vectors.SCHEMA,
        "ok": report.ok,
        "verdict": verdict_line(report),
        "interrupted": report.interrupted,
        "seconds": round(report.seconds, 3),
        "counts": {
            "cases": len(report.outcomes),
            "offered": report.offered,
            **{s: report.counts.get(s, 0) for s in STATUSES},
        },
        "diagnosis": {"common": whole, "methods": reasons},
        "unused_xfails": list(report.unused_xfails),
        "cases": [_case_json(o) for o in report.outcomes],
    }
    return plain(data)


def _case_json(o: Outcome) -> dict[str, Any]:
    gap = o.gap
    return {
        "id": o.case.id,
        "level": o.case.level,
        "subject": dict(o.case.subject),
        "flags": list(o.case.flags),
        "result": o.case.result,
        "status": o.status,
        "message": o.message,
        "quantity": gap and gap.quantity,
        "equation": gap and gap.equation,
        "entry": gap and list(gap.where),
        "got": None if gap is None else gap.got,
        "wanted": None if gap is None else gap.wanted,
        "relative": gap and gap.relative,
        "tolerance": gap and gap.tolerance,
        "units": o.units,
        "diagnosis": list(o.diagnosis),
        "seconds": round(o.seconds, 6),
    }


def plain(value: Any) -> Any:
    """Data that JSON has a form for."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


# --- JUnit --------------------------------------------------------------------------------------------------------------------------


def to_junit(report: Report) -> str:
    """JUnit XML: a suite for each level; known failures and what is not offered are skipped."""
    root = ElementTree.Element(
        "testsuites", _suite(f"bongref check {report.name}", report.outcomes)
    )
    for level, here in by_level(report).items():
        suite = ElementTree.SubElement(root, "testsuite", _suite(place(here[0]), here))
        for o in here:
            of = {
                "classname": _xml(f"bongref.{level}.{subject(o)}"),
                "name": _xml(o.case.id),
                "time": f"{o.seconds:.6f}",
            }
            case = ElementTree.SubElement(suite, "testcase", of)
            told = "\n".join(
                f"{k}: {v}"
                for k, v in [
                    ("flags", ", ".join(o.case.flags)),
                    *details(o),
                    ("diagnosis", "; ".join(o.diagnosis)),
                ]
                if v
            )
            if o.status in ("fail", "error"):
                kind = "failure" if o.status == "fail" else "error"
                ElementTree.SubElement(
                    case, kind, {"message": _xml(o.message), "type": kind}
                ).text = _xml(told)
            elif o.status in ("xfail", *NOT_RUN):
                ElementTree.SubElement(
                    case,
                    "skipped",
                    {"message": _xml(f"{o.status}: {o.message}" if o.message else o.status)},
                )
            elif o.status == "xpass":
                ElementTree.SubElement(
                    case, "system-out"
                ).text = "now passes: remove it from the file of known failures"
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + ElementTree.tostring(root, encoding="unicode")
        + "\n"
    )


def _suite(name: str, outcomes: Sequence[Outcome]) -> dict[str, str]:
    count = lambda *statuses: str(sum(o.status in statuses for o in outcomes))
    return {
        "name": _xml(name),
        "tests": str(len(outcomes)),
        "failures": count("fail"),
        "errors": count("error"),
        "skipped": count("xfail", *NOT_RUN),
        "time": f"{sum(o.seconds for o in outcomes):.6f}",
    }


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


# --- files --------------------------------------------------------------------------------------------------------------------------


def check_path(path: str, option: str = "report", endings: Sequence[str] = ENDINGS) -> str:
    """The ending of PATH, which says the form of the report."""
    suffix = Path(path).suffix.lower()
    if endings and suffix not in endings:
        raise ValueError(
            f"{option} must end in {', '.join(endings[:-1])} or {endings[-1]}, got {path!r}"
        )
    if not Path(path).absolute().parent.is_dir():
        raise ValueError(f"{option} must be in a folder that exists, got {path!r}")
    if Path(path).is_dir():
        raise ValueError(f"{option} must be a file, and {path!r} is a folder")
    return suffix


def write(path: Any, report: Report) -> None:
    """The report to PATH, JSON, JUnit XML or HTML by its ending."""
    suffix = check_path(str(path))
    if suffix == ".json":
        content = json.dumps(to_json(report), indent=1, allow_nan=False)
    else:
        content = to_junit(report) if suffix == ".xml" else to_html(report)
    Path(path).write_text(content, encoding="utf-8", errors="replace")


# --- HTML ---------------------------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5c6670; --page: #fff; --line: #d9dee3; --card: #f5f7f9;
  --pass: #c9ecdc; --pass-ink: #06513a; --fail: #f9c9b4; --fail-ink: #8c2500; --part: #faeeb0; --part-ink: #5f4b00;
  --none: #e9ecef; --none-ink: #59636d }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa6b2; --page: #14181c; --line: #333b43; --card: #1c2228;
  --pass: #0d4a37; --pass-ink: #8fe6c2; --fail: #6b2610; --fail-ink: #ffc2a8; --part: #574700; --part-ink: #f7e08a;
  --none: #262d34; --none-ink: #93a0ac } }
* { box-sizing: border-box }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 1.5em 2em 4em; max-width: 76em; color: var(--ink);
  background: var(--page) }
h1 { font-size: 1.5em; margin: 0 } h2 { font-size: 1.15em; margin: 2em 0 .5em } h3 { font-size: 1em; margin: 0 }
a { color: inherit } code, .mono { font-family: ui-monospace, monospace; font-size: .92em }
.soft { color: var(--soft) }
.banner { border-radius: 10px; padding: 1em 1.3em; border-left: 8px solid currentColor }
.banner p { margin: .3em 0 0; color: var(--ink) }
.pass { background: var(--pass); color: var(--pass-ink) } .fail { background: var(--fail); color: var(--fail-ink) }
.part { background: var(--part); color: var(--part-ink) } .none { background: var(--none); color: var(--none-ink) }
.chips { display: flex; flex-wrap: wrap; gap: .5em; margin: 1em 0 0; padding: 0; list-style: none }
.chips li { border-radius: 99px; padding: .15em .8em }
table { border-collapse: separate; border-spacing: 3px }
th { font-weight: 600; text-align: left; padding: .1em .5em; white-space: nowrap }
thead th { font-size: .9em; color: var(--soft) }
.matrix { overflow-x: auto } .matrix td { padding: 0; border-radius: 5px; min-width: 7.6em; text-align: center }
.matrix td a, .matrix td span.cell { display: block; padding: .2em .5em; text-decoration: none; border-radius: 5px; white-space: nowrap }
.matrix td a:hover, .matrix td a:focus-visible { outline: 2px solid currentColor }
.matrix th a { text-decoration: none }
.matrix b { font-size: 1.1em; display: inline-block; width: 1.2em } .matrix small { font-size: .72em; opacity: .9; margin-left: .35em }
.matrix thead th { text-align: center } .matrix tbody + tbody::before { content: ''; display: block; height: 7px }
.small { display: flex; flex-wrap: wrap; gap: 1em 3em } .small td { min-width: 5.2em }
.small h3 { margin: 0 0 .2em .4em }
.legend { display: flex; flex-wrap: wrap; gap: .4em 1.2em; font-size: .9em; margin: .6em 0 } .legend i { font-style: normal;
  border-radius: 4px; padding: 0 .5em; margin-right: .4em }
.group { border: 1px solid var(--line); border-radius: 8px; margin: .8em 0; overflow: hidden }
.group > header { padding: .5em 1em } .group > header p { margin: .2em 0 0 }
.group details { border-top: 1px solid var(--line) }
summary { cursor: pointer; padding: .4em 1em } summary:hover { background: var(--card) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15em 1.2em; margin: 0; padding: .3em 1em .9em 2.2em }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap }
dd.num { font-family: ui-monospace, monospace }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: 4px; padding: 0 .4em; font-size: .85em; margin: 0 .2em .1em 0;
  white-space: nowrap; text-decoration: none }
.list { border-spacing: 0; width: 100%; font-size: .9em; margin: 0 1em 1em } .list td { padding: .12em .8em .12em 0;
  vertical-align: top } .list td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.list thead th { padding: .1em .8em .1em 0 } .list thead th.n { text-align: right }
.s { border-radius: 4px; padding: 0 .5em; white-space: nowrap }
.flags { border-spacing: 0; font-size: .92em } .flags td, .flags th { padding: .25em 1.2em .25em 0; vertical-align: top;
  border-bottom: 1px solid var(--line) } :target { scroll-margin-top: 1em } .group:target, tr:target { outline: 2px solid var(--soft) }
.cases details { border-bottom: 1px solid var(--line) }
@media (max-width: 50em) { body { padding: 1em } .hide { display: none } }
@media print { body { font-size: 11px; max-width: none; padding: 0 } .cases { display: none } .group { break-inside: avoid }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact } }
"""
# a link into a closed part opens it
SCRIPT = """
const open = () => { const e = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (e) { const d = e.closest("details") || e.querySelector("details"); if (d) { d.open = true; e.scrollIntoView() } } };
addEventListener("hashchange", open); addEventListener("DOMContentLoaded", open);
"""


def to_html(report: Report) -> str:
    """The report as one page that needs nothing else."""
    whole, reasons = explained(report)
    cells, every = _by_cell(report), groups(report.outcomes)
    bad = failing(report)
    parts = [_banner(report, whole), _html_matrix(cells, bad), _html_small(report, bad)]
    parts.append(_html_known(report))
    if bad:
        parts.append("<h2 id=failures>What fails</h2>")
    seen: set[tuple[str, ...]] = set()
    for name, failures in bad.items():
        way = _way(failures[0], reasons.get(name, []))
        parts.append(
            _html_group(name, failures, every[name], reasons.get(name, []), way not in seen)
        )
        seen.add(way)
    parts += [_html_cases(every), _html_flags(report)]
    title = f"{escape(report.name)}: bongref check"
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title>\n<style>{STYLE}</style><script>{SCRIPT}</script></head>\n<body>{''.join(parts)}</body></html>\n"
    )


def _anchor(name: str) -> str:
    return re.sub("[^A-Za-z0-9_.-]", "-", name)


def _banner(report: Report, whole: Sequence[str]) -> str:
    kind = "pass" if report.ok else "fail" if report.failures else "part"
    verdict, rest = verdict_line(report).rsplit(" (", 1)
    look = {"pass": "pass", "xpass": "part", "xfail": "part", "fail": "fail", "error": "fail"}
    chips = "".join(
        f"<li class={look.get(s, 'none')}>{n} {s}</li>" for s, n in report.counts.items()
    )
    seconds = rest.rstrip(")").split("; ")[-1]
    one = (
        f"<p><b>One mistake explains {_how_many(report)}:</b> {escape('; or '.join(whole))}</p>"
        if whole
        else ""
    )
    missing = not_offered(report.outcomes)
    return (
        f"<header><div class='banner {kind}'><h1>{MARKS[kind]} {escape(report.name)}</h1><p><b>{escape(verdict)}</b></p>{one}</div>"
        f"<ul class=chips>{chips}</ul><p class=soft>{report.dtype}; {len(report.outcomes)} cases of {vectors.SCHEMA}; "
        f"bongref {__version__}; {seconds}."
        + (f" Not offered: {escape(missing)}." if missing else "")
        + "</p></header>"
    )


def _legend() -> str:
    items = "".join(
        f"<span><i class={key}>{MARKS[key]}</i>{MEANINGS[key]}</span>"
        for key in ("pass", "fail", "part", "none")
    )
    return f"<div class=legend>{items}</div>"


def _cell(of: dict[str, list[Outcome]], target: str, title: str, marks: bool = True) -> str:
    """A cell of a matrix: the mark of all, the marks of the levels, and where it leads."""
    outcomes = [o for here in of.values() for o in here]
    kind = together([standing(here) for here in of.values()])
    if not kind:
        return f"<td><span class='cell soft' title='{MEANINGS['']}'>{MARKS['']}</span></td>"
    said = [
        f"{LEVELS[level]} {_counted(here)}" if marks else _counted(here)
        for level, here in of.items()
        if here
    ]
    small = (
        "".join(
            f"<small>{LEVELS[level]}{MARKS[standing(here)]}</small>" for level, here in of.items()
        )
        if marks
        else ""
    )
    count = "" if marks else f"<small>{_fraction(outcomes)}</small>"
    tip = escape(f"{title}: {'; '.join(said)}", quote=True)
    return f'<td class={kind}><a href="#{target}" title="{tip}"><b>{MARKS[kind]}</b>{small}{count}</a></td>'


def _counted(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"{n} {s}" for s in STATUSES if (n := sum(o.status == s for o in outcomes)))


def _fraction(outcomes: Sequence[Outcome]) -> str:
    offered = [o for o in outcomes if o.status not in NOT_RUN]
    return (
        f"{sum(o.status in ('pass', 'xpass') for o in offered)}/{len(offered)}" if offered else ""
    )


def _html_matrix(
    cells: dict[tuple[str, str, str], dict[str, list[Outcome]]], bad: dict[str, list[Outcome]]
) -> str:
    if not cells:
        return ""
    levels = [level for level in OF_METHODS if any(level in of for of in cells.values())]
    body = []
    for rule, hess in _rows():
        row = []
        for family in FAMILIES:
            name = f"{rule}-{hess}-{family}"
            of = {level: cells.get((rule, hess, family), {}).get(level, []) for level in levels}
            row.append(_cell(of, _target(name, bad), name))
        first = "<tbody>" if hess == HESSIANS[0] else ""  # a body for each rule
        body.append(
            f"{first}<tr><th class=mono>{rule}-{hess}</th>{''.join(row)}</tr>"
            + ("</tbody>" if hess == HESSIANS[-1] else "")
        )
    heads = "".join(f"<th>{f}</th>" for f in FAMILIES)
    shown = ", ".join(f"{LEVELS[level]} {level}" for level in levels)
    return (
        f"<h2>Methods</h2><p class=soft>Rule and Hessian estimator down, family across; the small marks are {shown}. "
        f"A cell leads to its cases.</p>{_legend()}"
        f"<div class=matrix><table id=methods><thead><tr><th></th>{heads}</tr></thead>{''.join(body)}</table></div>"
    )


def _target(name: str, bad: dict[str, list[Outcome]]) -> str:
    return ("fails-" if name in bad else "cases-") + _anchor(name)


def _html_small(report: Report, bad: dict[str, list[Outcome]]) -> str:
    """The levels that no method owns: estimators × likelihoods, dynamics × families, kinds × likelihoods."""
    likelihood = lambda o: next((f for f in o.case.flags if f in LIKELIHOODS), "other")
    last = lambda o: o.case.id.rsplit("/", 1)[-1]
    of_level = by_level(report)
    tables = [
        _small(
            "estimate",
            "L1 estimate: g and G",
            of_level,
            lambda o: o.case.subject["hess"],
            likelihood,
            bad,
        ),
        _small(
            "predictive",
            "L4 predictive",
            of_level,
            lambda o: o.case.subject["kind"],
            likelihood,
            bad,
        ),
        _small(
            "predict",
            "predict: the prior of the next step",
            of_level,
            last,
            lambda o: o.case.subject["family"],
            bad,
        ),
    ]
    return (
        f"<h2>Estimators and predictions</h2><div class=small>{''.join(tables)}</div>"
        if any(tables)
        else ""
    )


def _small(
    level: str,
    title: str,
    of_level: dict[str, list[Outcome]],
    row: Any,
    column: Any,
    bad: dict[str, list[Outcome]],
) -> str:
    here = of_level.get(level, [])
    if not here:
        return ""
    rows, columns = (list(dict.fromkeys(key(o) for o in here)) for key in (row, column))
    body = []
    for r in rows:
        cells = []
        for c in columns:
            of = [o for o in here if (row(o), column(o)) == (r, c)]
            lead = next(
                (o for o in of if subject(o) in bad and o.status in ("fail", "error")),
                of[0] if of else None,
            )
            cells.append(
                _cell(
                    {level: of},
                    _target(subject(lead), bad) if lead else "",
                    f"{r}, {c}",
                    marks=False,
                )
            )
        body.append(f"<tr><th class=mono>{escape(r)}</th>{''.join(cells)}</tr>")
    heads = "".join(f"<th>{escape(c)}</th>" for c in columns)
    return (
        f"<div class=matrix><h3>{title}</h3><table id={level}><thead><tr><th></th>{heads}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _html_known(report: Report) -> str:
    known = [o for o in report.outcomes if o.status == "xfail"]
    passing = [o for o in report.outcomes if o.status == "xpass"]
    out = []
    if passing or report.unused_xfails:
        items = [
            f"<li><code>{escape(o.case.id)}</code> now passes: remove it from the file of known failures"
            for o in passing
        ]
        items += [
            f"<li><code>{escape(line)}</code> matches no case of this run"
            for line in report.unused_xfails
        ]
        out.append(f"<ul>{''.join(items)}</ul>")
    if known:
        rows = "".join(
            f"<tr><td class=mono>{escape(o.case.id)}</td><td>{escape(_clip(o.message, 300))}</td></tr>"
            for o in known
        )
        out.append(
            f"<details><summary>{_plural(len(known), 'known failure')}</summary><table class=list>{rows}</table></details>"
        )
    return f"<h2 id=known>Known failures</h2>{''.join(out)}" if out else ""


def _html_group(
    name: str,
    failures: Sequence[Outcome],
    every: Sequence[Outcome],
    reasons: Sequence[str],
    opened: bool,
) -> str:
    offered = sum(o.status not in NOT_RUN for o in every)
    why = f"<p><b>Diagnosis:</b> {escape('; or '.join(reasons))}</p>" if reasons else ""
    cases = "".join(
        _html_case(o, every, reasons, opened and k == 0) for k, o in enumerate(failures)
    )
    return (
        f'<section class=group id="fails-{_anchor(name)}"><header class=fail><h3>{MARKS["fail"]} <span class=mono>{escape(name)}</span>: '
        f"{len(failures)} of {_plural(offered, 'case')} {'fails' if len(failures) == 1 else 'fail'} "
        f'<a class=tag href="#cases-{_anchor(name)}">all its cases</a></h3>{why}</header>{cases}</section>'
    )


def _html_case(o: Outcome, every: Sequence[Outcome], reasons: Sequence[str], opened: bool) -> str:
    fields = [("flags", _tags(o.case.flags))]
    if only := only_with(o, every):
        fields.append(
            ("only with", "<br>".join(f"<b>{escape(f)}</b>: {escape(meaning(f))}" for f in only))
        )
    fields += [(key, escape(_clip(value, 2000))) for key, value in details(o)]
    if o.diagnosis and list(o.diagnosis) != list(reasons):
        fields.append(("diagnosis", escape("; or ".join(o.diagnosis))))
    rows = "".join(
        f"<dt>{k}</dt><dd{' class=num' if k in ('got', 'wanted') else ''}>{v}</dd>"
        for k, v in fields
    )
    said = (
        f"{escape(o.gap.quantity)} differs"
        if o.gap and math.isfinite(o.gap.relative)
        else escape(_clip(o.message, 110))
    )
    return (
        f"<details{' open' if opened else ''}><summary><span class=mono>{escape(o.case.id)}</span> <span class=soft>{said}</span></summary>"
        f"<dl>{rows}</dl></details>"
    )


def _tags(flags: Sequence[str]) -> str:
    return (
        "".join(
            f'<a class=tag href="#flag-{_anchor(f)}" title="{escape(meaning(f), quote=True)}">{escape(f)}</a>'
            for f in flags
        )
        or "none"
    )


def _html_cases(every: dict[str, list[Outcome]]) -> str:
    """Every case with its verdict, folded by subject."""
    parts = []
    for name in (*(n for n in NAMES if n in every), *(n for n in every if n not in NAMES)):
        outcomes = every[name]
        rows = "".join(_html_row(o) for o in outcomes)
        kind = together(
            standing([o for o in outcomes if o.case.level == level]) for level in LEVELS
        )
        head = "<thead><tr><th>case<th>flags<th>verdict<th class=n>of its tolerance<th class=n>ms</tr></thead>"
        parts.append(
            f'<details id="cases-{_anchor(name)}"><summary><span class="{kind} tag">{MARKS[kind]}</span> '
            f"<span class=mono>{escape(name)}</span> "
            f"<span class=soft>{_counted(outcomes)}</span></summary><table class=list>{head}<tbody>{rows}</tbody></table></details>"
        )
    return f"<section class=cases><h2>Every case</h2>{''.join(parts)}</section>"


def _html_row(o: Outcome) -> str:
    look = {"pass": "pass", "xpass": "part", "xfail": "part", "fail": "fail", "error": "fail"}.get(
        o.status, "none"
    )
    mark = MARKS[look]
    units = f"{o.units:.2g}" if o.status not in NOT_RUN and o.units else ""
    tip = f' title="{escape(_clip(o.message, 300), quote=True)}"' if o.message else ""
    return (
        f"<tr><td class=mono>{escape(o.case.id.rsplit('/', 1)[-1])} <span class=soft>{place(o)}</span></td>"
        f"<td class=soft>{escape(', '.join(o.case.flags))}</td>"
        f"<td><span class='s {look}'{tip}>{mark} {o.status}</span></td><td class=n>{units}</td>"
        f"<td class=n>{'' if o.status in NOT_RUN else f'{1000 * o.seconds:.1f}'}</td></tr>"
    )


def _html_flags(report: Report) -> str:
    rows = []
    for flag in sorted({f for o in report.outcomes for f in o.case.flags}):
        of = [o for o in report.outcomes if flag in o.case.flags]
        kind, known = standing(of), FLAGS.get(flag, {"what": "not described", "catches": ""})
        rows.append(
            f'<tr id="flag-{_anchor(flag)}"><th class=mono>{escape(flag)}</th><td>{escape(known["what"])}</td>'
            f"<td>{escape(known['catches'])}</td>"
            f"<td><span class='s {kind}' title='{_counted(of)}'>{MARKS[kind]} {_fraction(of)}</span></td></tr>"
        )
    head = "<thead><tr><th>flag</th><th>such a case has</th><th>and catches</th><th>passes</th></tr></thead>"
    return f"<h2 id=flags>The flags, and what they catch</h2><table class=flags>{head}<tbody>{''.join(rows)}</tbody></table>"

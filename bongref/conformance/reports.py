"""The report of a run as a document: text, JSON, JUnit XML, HTML or Markdown.

>>> from bongref import conformance
>>> from bongref.conformance import reports
>>> report = conformance.check(conformance.Reference, levels=["predict"])
>>> print(reports.text(report).splitlines()[-1].split(" (")[0])
CONFORMS in 17 of 17 cases

``reports.write("report.html", report)`` writes a file. The forms are those of
:mod:`bongref.reports`; here is what the documents say, from :mod:`.findings`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import reports as writer
from .._version import __version__
from ..grid import FAMILIES, HESSIANS, NAMES
from ..reports import (
    ASCII,
    MARKS,
    Block,
    Document,
    Fields,
    Inline,
    Section,
    Span,
    Table,
    Text,
    anchor,
    clip,
    plain,
    plural,
)
from . import findings, vectors, wording
from .findings import LEVELS, OF_METHODS, place, standing, subject, verdict_line, xfails
from .flags import FLAGS, meaning
from .runner import NOT_RUN, STATUSES, Outcome, Report

__all__ = [
    "ASCII",
    "check_path",
    "page",
    "summary",
    "text",
    "to_json",
    "verdict_line",
    "write",
    "xfails",
]

SCHEMA = "bongref-report-1"
ENDINGS = (".json", ".xml", ".html", ".md")
LIKELIHOODS = ("gaussian", "bernoulli", "categorical", "poisson")
STATUS_OF = {"pass": "pass", "xpass": "part", "xfail": "part", "fail": "fail", "error": "fail"}
MEANINGS = {
    "pass": "all that is offered passes",
    "fail": "something fails",
    "part": "known failures, or offered in part",
    "none": "not offered",
    "": "no such case",
}
IN_FULL = 12  # groups of methods whose first failure is shown in full; the others have a line
LINES = 60  # of a report without -v
Cells = Mapping[str, dict[str, list[Outcome]]]
Bad = Mapping[str, list[Outcome]]


def text(report: Report, verbose: bool = False, xfails: str | None = None) -> str:
    """The report for a terminal.

    Parameters
    ----------
    report : Report
    verbose : bool
        Every failing case in full.
    xfails : str, optional
        The name of the file of known failures.
    """
    for shown in (IN_FULL, 4, 2, 1):
        document = summary(report, verbose, xfails or "the file of known failures", shown)
        said = f"{writer.text(document)}\n{verdict_line(report)}"
        if verbose or said.count("\n") < LINES:
            return said
    lines = said.splitlines()
    cut = [
        *lines[: LINES - 3],
        f"… {len(lines) - LINES + 2} more lines: -v shows all",
        "",
        lines[-1],
    ]
    return "\n".join(cut)


def check_path(path: str, option: str = "report", endings: Sequence[str] = ENDINGS) -> str:
    """The ending of a path, which says the form of the report."""
    return writer.check_path(path, option, endings)


def write(path: Any, report: Report) -> None:
    """Write the report to a file: JSON, JUnit XML, HTML or Markdown by its ending."""
    writer.write(path, page(report), "report", ENDINGS)


# --- for a terminal -------------------------------------------------------------------------------


def summary(report: Report, verbose: bool, file: str, shown: int = 12) -> Document:
    """The report for a terminal but for the verdict: marks, and the failures by how they fail."""
    title = f"{report.name} ({report.dtype}) offers {findings.share(report)} of {vectors.SCHEMA}"
    known = [o for o in report.outcomes if o.status == "xfail"]
    lines = [f"known to fail: {plural(len(known), 'case')} in {file}"] if known else []
    if verbose:
        lines += [f"  {o.case.id}: {clip(findings.one_line(o.message), 120)}" for o in known]
    lines += findings.outdated(report, file)
    missing = findings.not_offered(report.outcomes, verbose)
    cells = findings.by_cell(report)
    body: list[Block] = [
        *_methods(cells, {}),
        _levels(report),
        *_failures(report, verbose, shown),
        *([Text("\n".join(lines))] if lines else []),
        *([Text(f"not offered: {missing}")] if missing else []),
    ]
    return Document(f"{title}, bongref {__version__}", body)


def _failures(report: Report, verbose: bool, in_full: int = 12) -> list[Block]:
    bad = findings.failing(report)
    whole, reasons = findings.explained(report)
    every, out, shown = findings.groups(report.outcomes), list[Block](), list[Outcome]()
    if one := findings.one_mistake(report, whole):
        out.append(Text(one))
    ways = findings.alike(bad, reasons, apart=verbose)
    full = ways if verbose else ways[:in_full]
    for name, *others in full:
        failures = bad[name] if verbose else bad[name][:1]
        shown += failures
        why = reasons.get(name, [])
        blocks = [case_fields(o, every[name], bool(why)) for o in failures]
        blocks[0][:0] = [("diagnosis", "; or ".join(why))] if why else []
        rest = bad[name][len(failures) :]
        if rest:
            some = ", ".join(o.case.id for o in rest[:3]) + (", …" if len(rest) > 3 else "")
            blocks[-1].append(("further", f"{plural(len(rest), 'failing case')}: {some}"))
        if others:
            likewise = ", ".join(f"{n} ({len(bad[n])})" for n in others)
            blocks[-1].append(("likewise", likewise))
        title = _failing(name, bad[name], every[name])
        out.append(Section(title, [Fields(fields) for fields in blocks]))
    rest_of = [name for names in ways[len(full) :] for name in names]
    if rest_of:
        rows = [
            [name, str(len(bad[name])), findings.brief(bad[name][0], reasons.get(name, []))]
            for name in rest_of
        ]
        table = Table(["", "", ""], rows, right=(1,), wrap=False)
        out.append(Section(f"and {len(rows)} more (-v shows them in full):", [table]))
    flags = sorted({flag for o in shown for flag in o.case.flags})
    if flags:
        table = Table(["", ""], [[flag, meaning(flag)] for flag in flags])
        out.append(Section("the flags of these cases:", [table]))
    return out


def _failing(name: str, failures: Sequence[Outcome], every: Sequence[Outcome]) -> str:
    offered = sum(o.status not in NOT_RUN for o in every)
    fail = "fails" if len(failures) == 1 else "fail"
    return f"✗ {name}: {len(failures)} of {plural(offered, 'case')} {fail}"


def case_text(o: Outcome) -> str:
    """One failing case as text: the case, the quantity, got, wanted, difference, diagnosis."""
    return writer.text(Document("", [Fields(case_fields(o))])).strip("\n")


def case_fields(
    o: Outcome, every: Sequence[Outcome] = (), explained: bool = False
) -> list[tuple[str, Inline]]:
    """One failing case as names and values; ``explained``: without its diagnosis."""
    fields: list[tuple[str, Inline]] = [("case", o.case.id)]
    fields.append(("flags", ", ".join(o.case.flags) or "none"))
    if only := findings.only_with(o, every):
        fields.append(("only with", "; ".join(f"{flag}: {meaning(flag)}" for flag in only)))
    fields += findings.details(o)
    if o.diagnosis and not explained:
        fields.append(("diagnosis", "; or ".join(wording.all_said(o.diagnosis))))
    return fields


# --- the tables of marks --------------------------------------------------------------------------


def _methods(cells: Cells, bad: Bad | None, linked: bool = False) -> list[Block]:
    """Rules and estimators down, families across; in each cell a mark for each level."""
    rows: list[list[Inline]] = []
    for rule, hess in findings.ROWS:
        names = [f"{rule}-{hess}-{family}" for family in FAMILIES]
        if any(name in cells for name in names):
            of = [
                {level: cells.get(name, {}).get(level, []) for level in OF_METHODS}
                for name in names
            ]
            marks = [
                _cell(o, _target(n, bad) if linked else "", n)
                for n, o in zip(names, of, strict=True)
            ]
            if rows and hess == HESSIANS[0]:
                rows.append([])
            rows.append([f"{rule}-{hess}", *marks])
    if not rows:
        return []
    levels = ", ".join(f"{LEVELS[level]} {level}" for level in OF_METHODS)
    legend = ", ".join(f"{mark} {MEANINGS[key]}" for key, mark in MARKS.items())
    table = Table(["", *FAMILIES], rows, id="methods" if linked else "")
    return [table, Text(f"each cell: {levels}; {legend}")]


def _cell(of: Mapping[str, list[Outcome]], target: str, title: str) -> Span:
    """The marks of the levels, coloured by all of them."""
    kinds = {level: standing(here) for level, here in of.items()}
    kind = findings.together(kinds.values())
    said = [f"{LEVELS[level]} {findings.counted(here)}" for level, here in of.items() if here]
    marks = "".join(MARKS[k] for k in kinds.values())
    link = f"#{target}" if target and kind else ""
    return Span(marks, kind, link, f"{title}: {'; '.join(said) or MEANINGS['']}")


def _target(name: str, bad: Bad | None) -> str:
    return ("fails-" if bad and name in bad else "cases-") + anchor(name)


def _levels(report: Report) -> Table:
    """The counts of each level."""
    rows = []
    for here in findings.by_level(report).values():
        kind = standing(here)
        mark = f"{MARKS[kind]} {place(here[0])}"
        rows.append([Span(mark, kind), f"{len(here)} cases", findings.counted(here)])
    return Table(["", "", ""], rows, right=(1,))


def _small(
    report: Report,
    bad: Bad,
    level: str,
    row: Callable[[Outcome], str],
    column: Callable[[Outcome], str],
) -> Table | None:
    """A table of marks of a level whose cases are not of a method."""
    here = findings.by_level(report).get(level, [])
    if not here:
        return None
    names, heads = (list(dict.fromkeys(key(o) for o in here)) for key in (row, column))
    rows = []
    for name in names:
        cells: list[Inline] = [name]
        for head in heads:
            of = [o for o in here if (row(o), column(o)) == (name, head)]
            failed = [o for o in of if o.status in ("fail", "error")]
            target = _target(subject((failed or of)[0]), bad) if of else ""
            cell = _cell({level: of}, target, f"{name}, {head}")
            cells.append(cell._replace(content=f"{cell.content} {findings.fraction(of)}".strip()))
        rows.append(cells)
    return Table(["", *heads], rows, id=level)


# --- for files ------------------------------------------------------------------------------------


def page(report: Report) -> Document:
    """The report for a file: the verdict first, every case at the end, folded."""
    whole, reasons = findings.explained(report)
    bad, every = findings.failing(report), findings.groups(report.outcomes)
    body: list[Block] = [*_banner(report, whole)]
    matrix = _methods(findings.by_cell(report), bad, linked=True)
    if matrix:
        body.append(Section("Methods", matrix))
    body.append(Section("Levels", [_levels(report), *_others(report, bad)]))
    body += _known(report)
    if bad:
        groups = [_group(n, of, every[n], reasons.get(n, [])) for n, of in bad.items()]
        body.append(Section("What fails", groups, id="failures"))
    body.append(Section("Every case", [_cases(name, every[name]) for name in _ordered(every)]))
    body.append(Section("The flags, and what they catch", [_flags(report)]))
    cases = [_junit(o) for here in findings.by_level(report).values() for o in here]
    return Document(f"{report.name}: bongref check", body, to_json(report), cases)


def _ordered(every: Mapping[str, list[Outcome]]) -> list[str]:
    return [*(n for n in NAMES if n in every), *(n for n in every if n not in NAMES)]


def _banner(report: Report, whole: Sequence[str]) -> list[Block]:
    kind = "pass" if report.ok else "fail" if report.failures else "part"
    line, rest = verdict_line(report).rsplit(" (", 1)
    out: list[Block] = [Text([f"{MARKS[kind]} ", Span(line, style="strong")], kind)]
    if one := findings.one_mistake(report, whole):
        out.append(Text(f"{one[0].upper()}{one[1:]}", "fail"))
    counts: list[str | Span] = []
    for status, n in report.counts.items():
        counts += [Span(f"{n} {status}", STATUS_OF.get(status, "none")), " "]
    missing, seconds = findings.not_offered(report.outcomes), rest.rstrip(")").split("; ")[-1]
    about = f"{report.dtype}; {len(report.outcomes)} cases of {vectors.SCHEMA}"
    about += f"; bongref {__version__}; {seconds}." + (
        f" Not offered: {missing}." if missing else ""
    )
    return [*out, Text(counts), Text(Span(about, style="soft"))]


def _word(key: str) -> Callable[[Outcome], str]:
    return lambda o: o.case.subject[key]


def _likelihood(o: Outcome) -> str:
    return next((flag for flag in o.case.flags if flag in LIKELIHOODS), "other")


def _last(o: Outcome) -> str:
    return o.case.id.rsplit("/", 1)[-1]


def _others(report: Report, bad: Bad) -> list[Block]:
    """Estimators × likelihoods, predictives × likelihoods, dynamics × families."""
    tables = {
        "L1 estimate: g and G": _small(report, bad, "estimate", _word("hess"), _likelihood),
        "L4 predictive": _small(report, bad, "predictive", _word("kind"), _likelihood),
        "predict: the prior of the next step": _small(
            report, bad, "predict", _last, _word("family")
        ),
    }
    return [Section(title, [table]) for title, table in tables.items() if table]


def _known(report: Report) -> list[Block]:
    known = [o for o in report.outcomes if o.status == "xfail"]
    lines = findings.outdated(report, "the file of known failures")
    body: list[Block] = [Text(line) for line in lines]
    if known:
        rows = [[_code(o.case.id), clip(o.message, 300)] for o in known]
        title = plural(len(known), "known failure")
        body.append(Section(title, [Table(["case", "what"], rows)], folded=True))
    return [Section("Known failures", body, id="known")] if body else []


def _group(
    name: str, failures: Sequence[Outcome], every: Sequence[Outcome], reasons: Sequence[str]
) -> Section:
    """The failures of a subject."""
    body: list[Block] = [Text(Span("all its cases", link=f"#cases-{anchor(name)}"))]
    if reasons:
        body.insert(0, Text([Span("Diagnosis:", style="strong"), f" {'; or '.join(reasons)}"]))
    for k, o in enumerate(failures):
        finite = o.gap is not None and math.isfinite(o.gap.relative)
        said = f"{o.gap.quantity} differs" if o.gap and finite else clip(o.message, 110)
        fields = case_fields(o, every, list(o.diagnosis) == list(reasons))[1:]
        fields = [(key, _tags(o.case.flags) if key == "flags" else v) for key, v in fields]
        title: Inline = [_code(o.case.id), Span(f" {said}", style="soft")]
        body.append(Section(title, [Fields(fields)], folded=k > 0))
    title = _failing(name, failures, every)
    return Section(title, body, id=f"fails-{anchor(name)}", status="fail")


def _tags(flags: Sequence[str]) -> Inline:
    out: list[str | Span] = []
    for flag in flags:
        out += [Span(flag, link="#flags", title=meaning(flag)), " "]
    return out or "none"


def _cases(name: str, outcomes: Sequence[Outcome]) -> Section:
    """Every case of a subject with its outcome, folded."""
    rows = [_case_row(o) for o in outcomes]
    levels = {level: [o for o in outcomes if o.case.level == level] for level in LEVELS}
    kind = findings.together(standing(here) for here in levels.values())
    head = ["case", "flags", "outcome", "of its tolerance", "ms"]
    title: Inline = [
        Span(MARKS[kind], kind),
        " ",
        _code(name),
        Span(f" {findings.counted(outcomes)}", style="soft"),
    ]
    table = Table(head, rows, right=(3, 4))
    return Section(title, [table], id=f"cases-{anchor(name)}", folded=True)


def _case_row(o: Outcome) -> list[Inline]:
    kind, run = STATUS_OF.get(o.status, "none"), o.status not in NOT_RUN
    return [
        [_code(o.case.id.rsplit("/", 1)[-1]), Span(f" {place(o)}", style="soft")],
        Span(", ".join(o.case.flags), style="soft"),
        Span(f"{MARKS[kind]} {o.status}", kind, title=clip(o.message, 300)),
        f"{o.units:.2g}" if run and o.units else "",
        f"{1000 * o.seconds:.1f}" if run else "",
    ]


def _flags(report: Report) -> Table:
    rows: list[list[Inline]] = []
    for flag in sorted({f for o in report.outcomes for f in o.case.flags}):
        of = [o for o in report.outcomes if flag in o.case.flags]
        kind, known = standing(of), FLAGS.get(flag, {"what": "not described", "catches": ""})
        share = Span(f"{MARKS[kind]} {findings.fraction(of)}", kind, title=findings.counted(of))
        rows.append([_code(flag), known["what"], known["catches"], share])
    return Table(["flag", "such a case has", "and catches", "passes"], rows, id="flags")


def _code(text: str) -> Span:
    return Span(text, style="code")


# --- JSON and JUnit -------------------------------------------------------------------------------


def to_json(report: Report) -> Any:
    """The report as plain data; NaN and infinities, which JSON does not have, as strings."""
    whole, reasons = findings.explained(report)
    counts = {s: report.counts.get(s, 0) for s in STATUSES}
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
        "counts": {"cases": len(report.outcomes), "offered": report.offered, **counts},
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
        "diagnosis": wording.all_said(o.diagnosis),
        "seconds": round(o.seconds, 6),
    }


def _junit(o: Outcome) -> writer.Case:
    """A test case: known failures and what is not offered are skipped."""
    status = o.status if o.status in ("pass", "fail", "error") else "skip"
    fields = [("flags", ", ".join(o.case.flags)), *findings.details(o)]
    fields.append(("diagnosis", "; ".join(wording.all_said(o.diagnosis))))
    message = o.message
    if o.status == "xpass":
        status, message = "pass", "now passes: remove it from the file of known failures"
    elif o.status == "pass":
        message = ""
    elif status == "skip":
        message = f"{o.status}: {o.message}" if o.message else o.status
    group = f"bongref.{o.case.level}.{subject(o)}"
    told = "\n".join(f"{key}: {value}" for key, value in fields if value)
    return writer.Case(place(o), group, o.case.id, status, o.seconds, message, told)

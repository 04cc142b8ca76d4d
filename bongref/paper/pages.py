"""What ``bongref eq`` shows: an equation, a section, a proposition, a table, a search.

>>> from bongref import paper
>>> print(paper.show("eq:bong").splitlines()[0])
eq:bong   (3)   Introduction
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from .. import reports
from ..reports import Block, Code, Document, Fields, Formula, Inline, Section, Span, Table, Text
from . import claims, errata, formula, lookup, source
from .ledger import Equation, equations, scopes, tests
from .marks import PACKAGE, Place, computed
from .source import Item
from .uncomputed import reason

SHOWN = 15  # results of a search that are listed
AROUND = 3  # lines of code shown before and after a marked one
ENDINGS = (".html", ".md", ".json", ".txt")


def show(query: str) -> str:
    """What there is to know about an equation or another part of the paper, as text.

    Parameters
    ----------
    query : str
        An id, the number that the PDF prints, or a glob: see :func:`bongref.paper.lookup.find`.

    Returns
    -------
    str

    Raises
    ------
    UnknownEquation
        If nothing is named so.

    Examples
    --------
    >>> from bongref import paper
    >>> print(paper.show("(3)").splitlines()[0])
    eq:bong   (3)   Introduction
    """
    return reports.text(document(query)).rstrip("\n")


def document(query: str) -> Document:
    """Page of an equation, a section, a proposition, a table, an algorithm, or of all that match.

    Parameters
    ----------
    query : str
        As of :func:`show`.

    Returns
    -------
    bongref.reports.Document
        For :func:`bongref.reports.write`.

    Examples
    --------
    >>> from bongref import paper
    >>> "bong-MD" in paper.document("eq:bong-MD").title
    True
    """
    found = lookup.find(query)
    if len(found) > 1:
        return _listing(f"{query}: {len(found)} parts of the paper", found)
    (target,) = found
    return _equation(target) if isinstance(target, Equation) else _item(target)


def search(query: str) -> Document:
    """Page of what is found by words, the best first: see :func:`bongref.paper.lookup.search`.

    Parameters
    ----------
    query : str
        Words.

    Returns
    -------
    bongref.reports.Document

    Raises
    ------
    InvalidValue, InvalidType
        If nothing is found.

    Examples
    --------
    >>> from bongref import paper
    >>> paper.search("low rank projection").title[:31]
    'low rank projection: the best 1'
    """
    hits = lookup.search(query)
    missing = hits[0].missing
    note = f"nothing has all of the words; these lack {', '.join(missing)}" if missing else ""
    count = reports.plural(len(hits), "result")
    count = f"the best {SHOWN} of {count}" if len(hits) > SHOWN else count
    page = _listing(f"{query}: {count}", [h.target for h in hits[:SHOWN]])
    more = [Text("one in full: bongref eq ID")]
    return page._replace(body=[*([Text(note)] if note else []), *page.body, *more])


def overview() -> Document:
    """Page of the whole paper: its parts, their rows, and how many of these code computes.

    Returns
    -------
    bongref.reports.Document

    Examples
    --------
    >>> from bongref import paper
    >>> paper.overview().title[:9]
    'Jones, M.'
    """
    found, by_scope = computed(), scopes()
    rows: list[Sequence[Inline]] = []
    for i in source.items():
        here = by_scope.get(i.id, ())
        n = sum(e.id in found or e.algorithm in found for e in here)
        depth = i.number.count(".") if i.kind == "section" else 2
        counts = (str(len(here)), str(n)) if here else ("", "")
        rows.append([i.name, i.id, *counts, "  " * depth + _title(i)])
    return Document(
        source.citation(),
        [
            Text(source.line_numbers()),
            Table(["part", "id", "rows", "computed", "title"], rows, right=(2, 3), wrap=False),
            Fields(
                [
                    (
                        "one of them",
                        "bongref eq sec:FC-Nat, or by number: bongref eq 'Appendix E.1'",
                    ),
                    ("one equation", "bongref eq eq:bong, or as the PDF prints it: bongref eq 3"),
                    ("several", "bongref eq 'eq:bog-*'"),
                    ("by words", "bongref eq --search 'low rank projection'"),
                ]
            ),
        ],
        data={"paper": source.citation(), **source.read("paper")},
    )


# --- one equation -------------------------------------------------------------------------------


def _equation(e: Equation) -> Document:
    found, marked = computed(), tests()
    places = [*found.get(e.id, ()), *(found.get(e.algorithm, ()) if e.algorithm else ())]
    places.sort(key=lambda p: p.file.startswith(("bongref/conformance/", "bongref/fast/")))
    named = marked.get(e.id) or marked.get(e.algorithm) or []
    number = f"({e.number})   " if e.number else ""
    fields: list[tuple[str, Inline]] = [("kind", e.kind), ("line", f"{e.line} of {_file()}")]
    if algorithm := source.item(e.algorithm):
        fields.append(("algorithm", f"{algorithm.id} ({algorithm.name}): {algorithm.title}"))
    if e.methods:
        fields.append(("methods", ", ".join(e.methods)))
    body: list[Block] = [
        Fields(fields),
        Formula(e.latex, formula.svg),
        Text(["read as: ", Span(formula.plain(e.latex), style="code")]),
        *_code(places),
    ]
    if not places:
        body.append(Fields([("computed", f"no: {reason(e.id) or 'missing'}")]))
    body.append(Fields([("test", node) for node in named or ["none"]]))
    return Document(
        f"{e.id}   {number}{e.section}",
        [*body, *_remarks(e.id)],
        data=_equation_data(e, places, named),
    )


def _file() -> str:
    return str(source.read("paper")["source"]["file"])


def _code(places: Iterable[Place]) -> list[Block]:
    """The lines of code around each mark, those of one function together; > is a marked line."""
    groups: dict[tuple[str, str], list[Place]] = {}
    for p in places:
        groups.setdefault((p.file, p.function), []).append(p)
    out: list[Block] = []
    for (file, function), here in groups.items():
        symbols = ", ".join(dict.fromkeys(p.symbol for p in here if p.symbol))
        marked = {_statement(file, p.line) for p in here}
        at = f"{file}:{min(marked)}"
        title: list[str | Span] = [
            "computed  ",
            Span(at, style="code"),
            f"  {function}  {symbols}".rstrip(),
        ]
        out.append(Section(title, [Code(_lines(file, marked), "python")]))
    return out


def _statement(file: str, line: int) -> int:
    """The line that computes: where a mark stands at a closing bracket, its statement's first."""
    text = (PACKAGE.parent / file).read_text(encoding="utf-8")
    if not text.splitlines()[line - 1].strip().startswith((")", "]", "}")):
        return line
    starts = (
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    )
    return max(starts, default=line)


def _lines(file: str, marked: set[int]) -> str:
    lines = (PACKAGE.parent / file).read_text(encoding="utf-8").splitlines()
    shown = sorted({n for m in marked for n in range(m - AROUND, m + AROUND + 1)})
    shown = [n for n in shown if 1 <= n <= len(lines)]
    out: list[str] = []
    for before, n in zip([None, *shown], shown, strict=False):
        if before is not None and n > before + 1:
            out.append("    ...")
        out.append(f"{'>' if n in marked else ' '}{n:>4}  {lines[n - 1]}".rstrip())
    return "\n".join(out)


def _remarks(id: str) -> list[Block]:
    """The errata and claims at an equation or place."""
    out: list[Block] = []
    for err in errata.for_equation(id):
        fields = {"printed": err.printed, "should be": err.corrected, "effect": err.effect}
        fields["in full"] = f"bongref errata {err.id}"
        title = f"erratum   {err.name} ({err.kind})"
        out.append(Section(title, [Fields(list(fields.items()))], status="part"))
    for c in claims.for_equation(id):
        number = f" ({c.number})" if c.number else ""
        out.append(Section(f"claim     {c.id} ({c.verdict})", [Text(c.statement + number)]))
    return out


def _equation_data(e: Equation, places: Sequence[Place], named: Sequence[str]) -> dict[str, Any]:
    return {
        **e._asdict(),
        "plain": formula.plain(e.latex),
        "computed": [p._asdict() for p in places],
        "reason": "" if places else reason(e.id),
        "tests": list(named),
        "errata": [x._asdict() for x in errata.for_equation(e.id)],
        "claims": [c._asdict() for c in claims.for_equation(e.id)],
        "source": source.read("paper")["source"],
    }


# --- sections, propositions, tables, algorithms ---------------------------------------------------


def _item(i: Item) -> Document:
    title = "   ".join(filter(None, (i.name, i.id, i.title if i.kind != "proposition" else "")))
    rows = _rows_of(i)
    body: list[Block] = [Text(f"line {i.line} of {_file()}")]
    if i.kind == "proposition":
        body.append(Text(_title(i)))
    if rows:
        body += _by_heading(i, rows)
    data = {**i._asdict(), "rows": [e._asdict() for e in rows]}
    data |= {"errata": [x._asdict() for x in errata.for_equation(i.id)]} if i.id else {}
    data |= {"claims": [c._asdict() for c in claims.for_equation(i.id)]} if i.id else {}
    return Document(title, [*body, *(_remarks(i.id) if i.id else [])], data=data)


def _rows_of(i: Item) -> list[Equation]:
    """The equations of a part of the paper; those of a section include its subsections'."""
    every = equations()
    if i.kind == "algorithm":
        return [e for e in every.values() if e.algorithm == i.id]
    if i.kind != "section":
        return [every[id] for id in dict.fromkeys(i.equations)]
    later = (
        s.line
        for s in source.items()
        if s.kind == "section" and s.line > i.line and not s.number.startswith(i.number + ".")
    )
    end = next(later, 10**9)
    return [e for e in every.values() if i.line <= e.line < end]


def _by_heading(i: Item, rows: Sequence[Equation]) -> list[Block]:
    """The rows under the heading of the subsection that they stand in."""
    groups: dict[Item, list[Equation]] = {}
    for e in rows:
        groups.setdefault(_section_at(e.line), []).append(e)
    if len(groups) == 1 and (i in groups or i.kind != "section"):
        return [_table(rows)]
    return [
        Section(f"{s.number}  {s.title}" + (f"  ({s.id})" if s.id else ""), [_table(here)])
        for s, here in groups.items()
    ]


def _section_at(line: int) -> Item:
    """The innermost section that a line stands in."""
    sections = [i for i in source.items() if i.kind == "section"]
    return sections[bisect_right([s.line for s in sections], line) - 1]


def _table(rows: Sequence[Equation]) -> Table:
    cells = [[_number(e), e.id, e.kind, _formula(e)] for e in rows]
    return Table(["", "id", "kind", "equation"], cells, right=(0,))


def _formula(e: Equation) -> Span:
    """An equation in one line of text; in HTML its picture, with the LaTeX as tooltip."""
    return Span(formula.plain(e.latex), title=e.latex, picture=lambda: formula.svg(e.latex, 14))


def _number(e: Equation) -> str:
    return f"({e.number})" if e.number else ""


def _listing(title: str, found: Sequence[Equation | Item]) -> Document:
    """Equations and other parts in one table, in the order given."""
    rows = []
    for t in found:
        if isinstance(t, Equation):
            kind = f"{_section_at(t.line).number:<6} {t.kind}"
            rows.append([_number(t), t.id, kind, _formula(t)])
        else:
            rows.append([t.name, t.id or "-", t.kind, _title(t)])
    table = Table(["number", "id", "section, kind", "equation or title"], rows)
    return Document(title, [table], data=[t._asdict() for t in found])


def _title(i: Item) -> str:
    return formula.plain(i.title).replace("$", "") if i.kind == "proposition" else i.title

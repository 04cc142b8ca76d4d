"""The errata and the claims as tables and single entries: ``bongref errata``, ``bongref claims``.

>>> from bongref.paper import errata, tables
>>> rows = tables.select(errata.ERRATA, kind="wrong cost", method="bog-*-dlr")
>>> [e.id for e in rows]
['E58', 'E59']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .. import reports
from ..errors import InvalidValue
from ..grid import NAMES
from ..reports import Block, Document, Fields, Inline, Span, Table, Text
from . import claims, errata, source
from .claims import Claim
from .errata import Erratum
from .ledger import equations, scopes

Entry = Erratum | Claim
ENDINGS = (".json", ".html", ".md")
INTRO = {
    "errata": "What the paper prints and what it should print, in the paper's order (from E66 on, "
    "in the order in which they were found). The code computes the corrected form; a printed form "
    "that gives other numbers is kept in bongref.paper.printed, and the test named shows how far "
    "it is off. Entries marked 'by reading' are two places of the paper that contradict each "
    "other, or a slip that changes no number. Whether the proceedings have a slip too is said of "
    f"each entry: {errata.REASON}.",
    "claims": "Statements of the paper that can be true or false, in the paper's order up to C98, "
    "each with a verdict and the tests, errata or equations that it rests on. Those about its "
    "experiments are judged by experiments of our own, which docs/story.md has in full.",
}


# --- which entries ------------------------------------------------------------------------------


def section(where: str) -> str:
    """The section of a place: that of the equation, or the place itself."""
    known = equations()
    return known[where].scope if where in known else where


def places(entry: Entry) -> tuple[str, ...]:
    """Every place of an entry."""
    return (entry.where, *entry.also)


def methods(entry: Entry) -> tuple[str, ...]:
    """The names of the methods that an entry is about; empty if about none in particular.

    The entry says it, or its equations do.
    """
    known = equations()
    globs = entry.methods or [g for w in places(entry) if w in known for g in known[w].methods]
    return tuple(n for n in NAMES if any(fnmatchcase(n, g) for g in globs))


def select(
    rows: Sequence[Entry],
    section_prefix: str | None = None,
    kind: str | None = None,
    verdict: str | None = None,
    method: str | None = None,
) -> list[Entry]:
    """Entries that pass every filter given.

    Parameters
    ----------
    rows : sequence of Erratum or of Claim
    section_prefix : str, optional
        The beginning of the id of a section, a table or an equation.
    kind, verdict : str, optional
        As in the ledger; errata have no verdict.
    method : str, optional
        A glob over the names of the methods.

    Returns
    -------
    list of Erratum or of Claim
        At least one.

    Raises
    ------
    InvalidValue
        If nothing passes; the message says what there is.
    """
    kinds = errata.KINDS if rows and isinstance(rows[0], Erratum) else claims.KINDS
    if kind is not None and kind not in kinds:
        raise InvalidValue(f"kind must be one of {', '.join(kinds)}, got {kind!r}")
    if verdict is not None and verdict not in claims.VERDICTS:
        raise InvalidValue(f"verdict must be one of {', '.join(claims.VERDICTS)}, got {verdict!r}")
    out = [
        row
        for row in rows
        if (not section_prefix or _in_section(row, section_prefix))
        and (not kind or row.kind == kind)
        and (not verdict or (isinstance(row, Claim) and row.verdict == verdict))
        and (not method or any(fnmatchcase(n, method) for n in methods(row)))
    ]
    if not out:
        known = ", ".join(dict.fromkeys([*scopes(), *(i.id for i in source.items() if i.id)]))
        about = f"method must match a name of bongref methods, got {method!r}; " if method else ""
        raise InvalidValue(f"nothing passes these filters; {about}sections and tables: {known}")
    return out


def _in_section(entry: Entry, prefix: str) -> bool:
    return any(section(w).startswith(prefix) or w.startswith(prefix) for w in places(entry))


# --- one entry ----------------------------------------------------------------------------------


def fields(entry: Entry) -> dict[str, str]:
    """What there is to say about an entry, in the order to say it."""
    also = f"; also {', '.join(entry.also)}" if entry.also else ""
    where = f"{entry.where} (line {entry.line}){also}"
    if isinstance(entry, Erratum):
        out = {"kind": entry.kind, "where": where, "printed": entry.printed}
        out |= {"should be": entry.corrected, "effect": entry.effect}
        if entry.function:
            out["as printed"] = f"bongref.paper.printed.{entry.function}"
        out["proceedings"] = entry.proceedings
        return {**out, "test": entry.test or "by reading"}
    out = {"kind": entry.kind, "where": where, "claim": entry.statement, "verdict": entry.verdict}
    if entry.number:
        out["condition"] = entry.number
    return {**out, "evidence": ", ".join(entry.evidence) or "none"}


def full(entry: Entry) -> str:
    """One entry as text."""
    title = f"{entry.id}   {entry.name}" if isinstance(entry, Erratum) else entry.id
    page = Document("", [Fields(list(fields(entry).items()))])
    return f"{title}\n{reports.text(page, width=120)}".rstrip("\n")


# --- tables -------------------------------------------------------------------------------------


def text(rows: Sequence[Entry]) -> str:
    """A line for each entry, and a count."""
    lines = []
    for row in rows:
        if isinstance(row, Erratum):
            lines.append([row.id, row.where, row.kind, f"{row.printed} -> {row.corrected}"])
        else:
            lines.append([row.id, row.where, row.verdict, row.statement])
    table = Table(["", "", "", ""], lines, wrap=False)
    return reports.text(Document("", [table]), width=170) + _summary(rows)


def document(rows: Sequence[Entry]) -> Document:
    """The entries as a page, for :func:`bongref.reports.write`."""
    word = _word(rows)
    made = f"Made from bongref/paper/{word}.json by bongref {word} --out docs/{word}.md."
    body: list[Block] = [
        Text(f"The paper: {source.citation()} {source.line_numbers()}"),
        Text(INTRO[word]),
        Text(made),
        Text(_summary(rows) + "."),
        _table(rows),
    ]
    return Document(word.capitalize(), body, data=_data(rows))


def _table(rows: Sequence[Entry]) -> Table:
    heads = {
        "errata": ["place", "kind", "printed", "should be", "effect", "test"],
        "claims": ["place", "statement", "verdict", "condition or number", "evidence"],
    }[_word(rows)]
    keys = {"place": "where", "statement": "claim", "condition or number": "condition"}
    cells: list[list[Inline]] = []
    for row in rows:
        said = fields(row)
        cells.append([row.id, *(_tests(said.get(keys.get(h, h), "")) for h in heads)])
    return Table(["id", *heads], cells)


def _tests(value: str) -> Inline:
    """The node ids of tests in fixed width."""
    if "::" not in value:
        return value
    parts: list[str | Span] = []
    for k, word in enumerate(value.split(", ")):
        parts += [", "] if k else []
        parts.append(Span(word, style="code") if "::" in word else word)
    return parts


def _word(rows: Sequence[Entry]) -> str:
    return "errata" if isinstance(rows[0], Erratum) else "claims"


def _summary(rows: Sequence[Entry]) -> str:
    counts = Counter(row.kind if isinstance(row, Erratum) else row.verdict for row in rows)
    said = ", ".join(f"{n} {k}" for k, n in counts.items())
    return f"{len(rows)} {_word(rows)}: {said}"


def _data(rows: Sequence[Entry]) -> dict[str, Any]:
    entries = [{**row._asdict(), "methods": methods(row)} for row in rows]
    about = {"paper": source.citation(), "source": source.read("paper")["source"]}
    return {"summary": _summary(rows), **about, _word(rows): entries}


def write(path: str | Path, rows: Sequence[Entry]) -> None:
    """Write the entries to a file ending in .json, .html or .md."""
    reports.write(path, document(rows), endings=ENDINGS)


def ledger(word: str) -> Sequence[Entry]:
    """All errata, or all claims."""
    return errata.ERRATA if word == "errata" else claims.CLAIMS

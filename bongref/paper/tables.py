"""The errata and the claims as tables: text, Markdown, HTML, JSON. ``bongref errata``, ``bongref claims``."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import Any

from .claims import CLAIMS, VERDICTS, Claim
from .claims import KINDS as CLAIM_KINDS
from .errata import ERRATA, PLACES, Erratum
from .errata import KINDS as ERRATA_KINDS
from .ledger import _load, _scopes

Entry = Erratum | Claim
ENDINGS = (".json", ".html", ".md")
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222 }
table { border-collapse: collapse }
th, td { padding: 3px 9px; text-align: left; vertical-align: top; border-bottom: 1px solid #eee }
td { overflow-wrap: anywhere; min-width: 6em }
td:last-child { font: 12px monospace; max-width: 22em }
"""


def section(where: str) -> str:
    """The section of a place: that of the equation, or the place itself."""
    return _load()[where].scope if where in _load() else where


def places(entry: Entry) -> tuple[str, ...]:
    """Every place of an entry."""
    return (entry.where, *entry.also)


def methods(entry: Entry) -> tuple[str, ...]:
    """The names of the methods that an entry is about, as its equations or the claim itself say; empty if about none in particular."""
    from ..grid import NAMES

    globs = getattr(entry, "methods", ()) or [g for w in places(entry) if w in _load() for g in _load()[w].methods]
    return tuple(n for n in NAMES if any(fnmatchcase(n, g) for g in globs))


def select(
    rows: Sequence[Entry], section_prefix: str | None = None, kind: str | None = None, verdict: str | None = None, method: str | None = None
) -> list[Entry]:
    """The entries that pass every filter given; at least one, or a ValueError says what there is."""
    kinds = ERRATA_KINDS if rows and isinstance(rows[0], Erratum) else CLAIM_KINDS
    if kind is not None and kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {kind!r}")
    if verdict is not None and verdict not in VERDICTS:
        raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {verdict!r}")
    out = []
    for row in rows:
        if section_prefix and not any(section(w).startswith(section_prefix) or w.startswith(section_prefix) for w in places(row)):
            continue
        if (kind and row.kind != kind) or (verdict and getattr(row, "verdict", None) != verdict):
            continue
        if method and not any(fnmatchcase(n, method) for n in methods(row)):
            continue
        out.append(row)
    if not out:
        known = ", ".join([*_scopes(), *PLACES])
        about = f"method: a glob over the names that bongref methods lists, got {method!r}; " if method else ""
        raise ValueError(f"nothing passes these filters; {about}sections and tables: {known}")
    return out


# --- one entry -------------------------------------------------------------------------------------------------------------------


def fields(entry: Entry) -> dict[str, str]:
    """What there is to say about an entry, in the order to say it."""
    where = f"{entry.where} (line {entry.line})" + (f"; also {', '.join(entry.also)}" if entry.also else "")
    if isinstance(entry, Erratum):
        out = {"kind": entry.kind, "where": where, "printed": entry.printed, "should be": entry.corrected, "effect": entry.effect}
        if entry.function:
            out["as printed"] = f"bongref.paper.printed.{entry.function}"
        return {**out, "test": entry.test or "by reading"}
    out = {"kind": entry.kind, "where": where, "claim": entry.statement, "verdict": entry.verdict}
    if entry.number:
        out["condition"] = entry.number
    return {**out, "evidence": ", ".join(entry.evidence) or "none"}


def full(entry: Entry) -> str:
    """One entry as text."""
    lines = [f"{entry.id}   {entry.name}" if isinstance(entry, Erratum) else entry.id]
    for key, value in fields(entry).items():
        lines += textwrap.wrap(value, 110, initial_indent=f"{key:<11}", subsequent_indent=" " * 11, break_long_words=False)
    return "\n".join(lines)


# --- tables ------------------------------------------------------------------------------------------------------------------------


def _cells(entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, Erratum):
        return entry.id, entry.where, entry.kind, entry.printed, entry.corrected
    return entry.id, entry.where, entry.verdict, entry.statement


def text(rows: Sequence[Entry]) -> str:
    """A line for each entry, and a count."""
    lines = []
    for row in rows:
        id, where, kind, *rest = _cells(row)
        lines.append(f"{id:<5}{where:<24} {kind:<23} {_clip(' -> '.join(rest), 120)}")
    return "\n".join([*lines, _summary(rows)])


def _summary(rows: Sequence[Entry]) -> str:
    word = "errata" if isinstance(rows[0], Erratum) else "claims"
    counts: dict[str, int] = {}
    for row in rows:
        key = row.kind if isinstance(row, Erratum) else row.verdict
        counts[key] = counts.get(key, 0) + 1
    return f"{len(rows)} {word}: " + ", ".join(f"{n} {k}" for k, n in counts.items())


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


INTRO = {
    "errata": "What the paper prints and what it should print, in the paper's order (from E66 on in that of their finding). The code "
    "computes the corrected form; a printed form that gives other numbers is kept in bongref.paper.printed, and the test named shows how "
    "far it is off. Entries marked *by reading* are two places of the paper that contradict each other, or a slip that changes no number.",
    "claims": "Statements of the paper that can be true or false and can be tested without its experiments, in the paper's order, each "
    "with a verdict and the tests, errata or equations that it rests on.",
}


def markdown(rows: Sequence[Entry]) -> str:
    """The entries as a page."""
    word = "errata" if isinstance(rows[0], Erratum) else "claims"
    made = f"Made from bongref/paper/{word}.py by bongref {word} --out docs/{word}.md; the line numbers are those of the paper's LaTeX."
    out = [f"# {word.capitalize()}", "", INTRO[word], "", made, "", _summary(rows) + ".", ""]
    if word == "errata":
        out += ["| id | place | kind | printed | should be | effect | test |", "|---|---|---|---|---|---|---|"]
    else:
        out += ["| id | place | statement | verdict | condition or number | evidence |", "|---|---|---|---|---|---|"]
    for row in rows:
        f = fields(row)
        if isinstance(row, Erratum):
            cells = [row.id, f["where"], f["kind"], f["printed"], f["should be"], f["effect"], f["test"]]
        else:
            assert isinstance(row, Claim)
            cells = [row.id, f["where"], f["claim"], f["verdict"], f.get("condition", ""), f["evidence"]]
        out.append("| " + " | ".join(_md(c) for c in cells) + " |")
    return "\n".join(out) + "\n"


def _md(cell: str) -> str:
    if cell.startswith(("tests/", "E")) and " " not in cell.replace(", ", ""):  # node ids and errata
        return ", ".join(f"`{part}`" if "::" in part else part for part in cell.split(", "))
    for mark in "\\|*_[]<":
        cell = cell.replace(mark, "\\" + mark)
    return cell


def html(rows: Sequence[Entry]) -> str:
    """The entries as one page."""
    word = "errata" if isinstance(rows[0], Erratum) else "claims"
    heads = list(dict.fromkeys(key for row in rows for key in fields(row)))
    body = "".join(
        f"<tr><th>{row.id}</th>" + "".join(f"<td>{escape(fields(row).get(key, ''))}</td>" for key in heads) + "</tr>\n" for row in rows
    )
    return f"""<!doctype html><html lang=en><meta charset=utf-8><title>bongref {word}</title><style>{STYLE}</style>
<h1>{word.capitalize()}</h1>
<p>{escape(_summary(rows))}</p><table><tr><th>id</th>{"".join(f"<th>{h}</th>" for h in heads)}</tr>
{body}</table></html>
"""


def data(rows: Sequence[Entry]) -> dict[str, Any]:
    """The entries as plain data, for JSON."""
    word = "errata" if isinstance(rows[0], Erratum) else "claims"
    return {"summary": _summary(rows), word: [{**row._asdict(), "methods": methods(row)} for row in rows]}


def write(path: str, rows: Sequence[Entry]) -> None:
    """The entries to PATH, in the form that its ending says."""
    ending = check_path(path)
    form = {".json": lambda r: json.dumps(data(r), indent=1, ensure_ascii=False) + "\n", ".html": html, ".md": markdown}[ending]
    Path(path).write_text(form(rows), encoding="utf-8")


def check_path(path: str) -> str:
    """The ending of PATH, which says the form."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"out must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {path!r}")
    if not Path(path).absolute().parent.is_dir():
        raise ValueError(f"out must be in a folder that exists, got {path!r}")
    return ending


LEDGERS: dict[str, Sequence[Entry]] = {"errata": ERRATA, "claims": CLAIMS}

"""The paper's numbered parts, and the LaTeX source that the line numbers belong to.

The facts are in paper.json, made from the LaTeX by validation/ledger_from_tex.py.

>>> from bongref.paper import source
>>> source.item("thm:lbong").name
'Proposition 4.2'
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent


@cache
def read(name: str) -> Any:
    """The data of one of the JSON files of this folder."""
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


class Item(NamedTuple):
    """A section, proposition, table or algorithm of the paper."""

    kind: str  # "section", "proposition", "table" or "algorithm"
    number: str  # as the PDF prints it: "E.1.2", "4.1", "3"
    title: str  # the first sentence of a caption; the text of a proposition
    line: int  # in the paper's LaTeX
    id: str = ""  # its label; empty where it has none
    equations: tuple[str, ...] = ()  # those that a proposition states or a table names

    @property
    def name(self) -> str:
        """What a reader calls it: ``Section 4.1``, ``Appendix E.1``, ``Table 3``."""
        appendix = self.kind == "section" and self.number[0].isalpha()
        return f"{'Appendix' if appendix else self.kind.capitalize()} {self.number}"


@cache
def items() -> tuple[Item, ...]:
    """Every numbered part of the paper, in its order."""
    rows = read("paper")["places"]
    return tuple(Item(**{**row, "equations": tuple(row.get("equations", ()))}) for row in rows)


@cache
def _by_id() -> dict[str, Item]:
    return {i.id: i for i in items() if i.id}


def item(id: str) -> Item | None:
    """The part with this label, or None."""
    return _by_id().get(id)


def citation() -> str:
    """The paper in one line: authors, year, title, venue, arXiv number.

    Returns
    -------
    str

    Examples
    --------
    >>> from bongref import paper
    >>> paper.citation()[-17:]
    'arXiv:2405.19681.'
    """
    from ..cite import text

    return text("paper", "apa")


def line_numbers() -> str:
    """Which source the line numbers belong to, in one sentence."""
    s = read("paper")["source"]
    return (
        f"Line numbers are those of {s['file']}, the paper's LaTeX files one after the other "
        f"({s['lines']} lines, SHA-256 {s['sha256']})."
    )

"""What a report is made of: blocks, inline content, test cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

STATUSES = ("pass", "fail", "part", "none")  # of a span, paragraph or section; "" is no status
MARKS = {"pass": "✓", "fail": "✗", "part": "~", "none": "–", "": "·"}


class Span(NamedTuple):
    """A piece of a line; as a whole cell of a table it gives the cell its colour and link."""

    content: Inline
    status: str = ""  # of STATUSES
    link: str = ""  # an address, or "#" and the id of a table or section
    title: str = ""  # tooltip, HTML only
    style: str = ""  # "code", "strong", "small" or "soft"
    picture: Callable[[], str] | None = None  # an SVG in place of the content, HTML only


Inline = str | Span | Sequence[str | Span]


class Text(NamedTuple):
    """A paragraph; with a status, a banner."""

    content: Inline
    status: str = ""


class Fields(NamedTuple):
    """Names and values."""

    items: Sequence[tuple[str, Inline]]


class Table(NamedTuple):
    """Rows of cells.

    The last cell of a row shorter than the head spans the rest. An empty row starts a group.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Inline]]
    id: str = ""
    right: Sequence[int] = ()  # the columns of numbers
    wrap: bool = True  # text: break the last cell into lines, or clip it


class Code(NamedTuple):
    """Text in fixed width, line by line as it is."""

    source: str
    language: str = ""


class Formula(NamedTuple):
    """LaTeX; ``svg`` makes a picture of it for HTML, empty where there is none."""

    latex: str
    svg: Callable[[str], str] | None = None


class Section(NamedTuple):
    """Blocks under a heading.

    ``folded`` is None for a plain section, True or False for one that a reader of HTML can open or
    close. Text leaves out what is folded.
    """

    title: Inline
    body: Sequence[Block]
    id: str = ""
    status: str = ""
    folded: bool | None = None


Block = Text | Fields | Table | Code | Formula | Section


class Case(NamedTuple):
    """A test case for JUnit XML."""

    suite: str
    group: str  # the class name
    name: str
    status: str = "pass"  # "pass", "fail", "error" or "skip"
    seconds: float = 0.0
    message: str = ""
    details: str = ""


class Document(NamedTuple):
    """A report in all its forms."""

    title: str
    body: Sequence[Block]
    data: Any = None  # for JSON
    cases: Sequence[Case] = ()  # for JUnit


def anchor(name: str) -> str:
    """An id for HTML that is made from any name."""
    return re.sub("[^A-Za-z0-9_.-]", "-", name)


def clip(text: str, width: int) -> str:
    """At most ``width`` characters, with an ellipsis where something is cut off."""
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(n: int, word: str) -> str:
    """``2 cases``, ``1 family``, ``3 families``."""
    return f"{n} {word if n == 1 else word[:-1] + 'ies' if word.endswith('y') else word + 's'}"


def parts(content: Inline) -> Sequence[str | Span]:
    return (content,) if isinstance(content, (str, Span)) else content


def plain_text(content: Inline) -> str:
    return "".join(
        part if isinstance(part, str) else plain_text(part.content) for part in parts(content)
    )

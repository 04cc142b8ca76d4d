"""One document model and one writer for all reports: text, JSON, Markdown, HTML, JUnit XML.

A report is a :class:`Document`: blocks (paragraphs, fields, tables, code, formulas, figures,
sections) for readers, plain data for JSON, test cases for JUnit. Inline content is a string, a
:class:`Span` (a status, a link, a tooltip, a style), or a list of these.

What is not here: what a report says, which is in the modules that make one, and the short texts of
states and results in terminals and notebooks (``show``).

>>> from bongref import reports
>>> verdict = reports.Span("✓ agrees", status="pass")
>>> table = reports.Table(["method", "verdict"], [["bong-lin-hess-fc", verdict]])
>>> page = reports.Document("Audit", [reports.Text("one method"), table], data={"agree": True})
>>> print(reports.text(page), end="")
Audit
<BLANKLINE>
one method
<BLANKLINE>
method            verdict
----------------  --------
bong-lin-hess-fc  ✓ agrees
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..errors import InvalidValue
from .as_data import junit, plain, to_json
from .as_html import html
from .as_markdown import markdown
from .as_text import ASCII, text
from .model import (
    MARKS,
    STATUSES,
    Block,
    Case,
    Code,
    Document,
    Fields,
    Figure,
    Formula,
    Inline,
    Section,
    Span,
    Table,
    Text,
    anchor,
    clip,
    plural,
)

__all__ = [
    "ASCII",
    "ENDINGS",
    "MARKS",
    "STATUSES",
    "Block",
    "Case",
    "Code",
    "Document",
    "Fields",
    "Figure",
    "Formula",
    "Inline",
    "Section",
    "Span",
    "Table",
    "Text",
    "anchor",
    "check_path",
    "clip",
    "html",
    "junit",
    "markdown",
    "plain",
    "plural",
    "render",
    "save",
    "text",
    "to_json",
    "write",
]
ENDINGS = (".txt", ".json", ".md", ".html", ".xml")


def check_path(path: str | Path, option: str = "out", endings: Sequence[str] = ENDINGS) -> str:
    """Ending of a path, which says the form of the report.

    Parameters
    ----------
    path : str or Path
        Where the report is to be written.
    option : str
        The name of the option, for the message.
    endings : sequence of str
        The endings allowed; empty allows all.

    Returns
    -------
    str
        The ending in lower case, with its dot.

    Raises
    ------
    InvalidValue
        If the ending is another, or no file can be at this path.

    Examples
    --------
    >>> from bongref import reports
    >>> reports.check_path("report.HTML")
    '.html'
    """
    suffix, shown = Path(path).suffix.lower(), str(path)
    if endings and suffix not in endings:
        allowed = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        raise InvalidValue(f"{option} must end in {allowed}, got {shown!r}")
    if not Path(path).absolute().parent.is_dir():
        raise InvalidValue(f"{option} must be in a folder that exists, got {shown!r}")
    if Path(path).is_dir():
        raise InvalidValue(f"{option} must be a file, and {shown!r} is a directory")
    return suffix


def render(document: Document, ending: str) -> str:
    """Document in the form that the ending of a file names: one of ``ENDINGS``."""
    if ending == ".json":
        return to_json(document.data)
    if ending == ".xml":
        return junit(document.title, document.cases)
    return {".txt": text, ".md": markdown, ".html": html}[ending](document)


def write(
    path: str | Path, document: Document, option: str = "out", endings: Sequence[str] = ENDINGS
) -> None:
    """Write a document to a file, in the form that its ending names.

    Parameters
    ----------
    path : str or Path
        The file; an existing one is replaced once the new one is complete.
    document : Document
    option, endings
        As of :func:`check_path`.
    """
    save(path, render(document, check_path(path, option, endings)))


def save(path: str | Path, content: str) -> None:
    """Write text to a file, whole or not at all: to a temporary file first, which is renamed."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        temporary.write_text(content, encoding="utf-8", errors="replace")
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)

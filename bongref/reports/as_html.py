"""A document as one HTML page that needs nothing else.

No network, light and dark, wide and narrow screens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from .model import Block, Document, Fields, Formula, Inline, Section, Span, Table, Text, parts

STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
# a link into a closed section opens it
SCRIPT = """
const show = () => {
  const e = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const d = e && (e.closest("details") || e.querySelector("details"));
  if (d) { d.open = true; e.scrollIntoView() } };
addEventListener("hashchange", show); addEventListener("DOMContentLoaded", show);
"""
TAGS = {"code": "code", "strong": "b"}
HEAD = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'


def html(document: Document) -> str:
    """Document as one page."""
    title, body = escape(document.title), _blocks(document.body, 2)
    look = f"<style>{STYLE}</style><script>{SCRIPT}</script>"
    head = f"<head>{HEAD}<title>{title}</title>\n{look}</head>"
    return (
        f'<!doctype html>\n<html lang="en">{head}\n<body><h1>{title}</h1>\n{body}\n</body></html>\n'
    )


def _element(tag: str, inner: str, **attributes: str) -> str:
    """An element; an attribute that is empty is left out, ``look`` is its class."""
    names = {"look": "class"}
    shown = "".join(f' {names.get(k, k)}="{escape(v)}"' for k, v in attributes.items() if v)
    return f"<{tag}{shown}>{inner}</{tag}>"


def _blocks(blocks: Iterable[Block], level: int) -> str:
    return "\n".join(_block(b, level) for b in blocks)


def _block(block: Block, level: int) -> str:
    if isinstance(block, Text):
        look = f"banner {block.status}" if block.status else ""
        return _element("p", _inline(block.content), look=look)
    if isinstance(block, Fields):
        pairs = (f"<dt>{escape(key)}</dt><dd>{_inline(value)}</dd>" for key, value in block.items)
        return _element("dl", "".join(pairs))
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Section):
        return _section(block, level)
    if isinstance(block, Formula):
        picture = block.svg(block.latex) if block.svg else ""
        shown = _element("div", picture, look="formula") if picture else ""
        return shown + _element("pre", escape(block.latex), look="wrap")
    return _element("pre", escape(block.source))


def _section(s: Section, level: int) -> str:
    title, body = _inline(s.title), _blocks(s.body, level + 1)
    if s.folded is not None:
        summary = _element("summary", title, look=s.status)
        return _element("details", summary + body, id=s.id, open="" if s.folded else "open")
    heading = _element(f"h{min(level, 6)}", title, look=f"title {s.status}" if s.status else "")
    return _element("section", heading + body, id=s.id, look="box" if s.status else "")


def _table(table: Table) -> str:
    right = ["right" if k in table.right else "" for k in range(len(table.head))]
    cells = (_element("th", escape(h), look=r) for h, r in zip(table.head, right, strict=True))
    head = f"<thead><tr>{''.join(cells)}</tr></thead>" if any(table.head) else ""
    rows = "".join(_row(table, row) if row else "</tbody><tbody>" for row in table.rows)
    whole = _element("table", f"{head}<tbody>{rows}</tbody>", id=table.id)
    return _element("div", whole, look="table")


def _row(table: Table, row: Sequence[Inline]) -> str:
    cells = []
    for k, cell in enumerate(row):
        status = cell.status if isinstance(cell, Span) else ""
        look = " ".join(filter(None, ("right" if k in table.right else "", status)))
        spans = k == len(row) - 1 < len(table.head) - 1
        inner = _inline(cell._replace(status="") if isinstance(cell, Span) else cell)
        tag, width = "td" if k else "th", str(len(table.head) - k) if spans else ""
        cells.append(_element(tag, inner, look=look, colspan=width))
    return f"<tr>{''.join(cells)}</tr>\n"


def _inline(content: Inline) -> str:
    return "".join(escape(p) if isinstance(p, str) else _span(p) for p in parts(content))


def _span(span: Span) -> str:
    drawn = span.picture() if span.picture else ""
    inner, tag = drawn or _inline(span.content), TAGS.get(span.style, "")
    inner = _element(tag, inner) if tag else inner
    look = " ".join(filter(None, (span.status, "" if tag else span.style)))
    if span.link:
        return _element("a", inner, href=span.link, look=look, title=span.title)
    return _element("span", inner, look=look, title=span.title) if look or span.title else inner

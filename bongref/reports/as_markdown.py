"""A document as Markdown with pipe tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .model import (
    Block,
    Document,
    Fields,
    Figure,
    Formula,
    Inline,
    Section,
    Span,
    Table,
    Text,
    parts,
    plain_text,
)


def markdown(document: Document) -> str:
    """The document as Markdown with pipe tables."""
    return "\n\n".join([f"# {_md_escape(document.title)}", *_md_blocks(document.body, 2)]) + "\n"


def _md_blocks(blocks: Iterable[Block], level: int) -> list[str]:
    return [part for b in blocks for part in _md_block(b, level) if part]


def _md_block(block: Block, level: int) -> list[str]:
    if isinstance(block, Text):
        return [_md(block.content)]
    if isinstance(block, Fields):
        return ["\n".join(f"* **{_md_escape(key)}**: {_md(value)}" for key, value in block.items)]
    if isinstance(block, Table):
        rule = (
            "|"
            + "|".join("---:" if k in block.right else "---" for k in range(len(block.head)))
            + "|"
        )
        filled = [[*row, *[""] * (len(block.head) - len(row))] for row in block.rows if row]
        return ["\n".join([_md_row(block.head), rule, *map(_md_row, filled)])]
    if isinstance(block, Section):
        return [f"{'#' * min(level, 6)} {_md(block.title)}", *_md_blocks(block.body, level + 1)]
    if isinstance(block, Figure):
        pictures = [name for name in block.files if not name.endswith(".pdf")]
        shown = [f"![{_md_escape(block.alt)}]({name})" for name in pictures[:1]]
        return [f"**{_md(block.title)}**", *shown, _md(block.caption)]
    if isinstance(block, Formula):
        return [f"```math\n{block.latex}\n```"]
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", block.source)), default=0))
    return [f"{fence}{block.language}\n{block.source}\n{fence}"]


def _md_row(cells: Sequence[Inline]) -> str:
    return "| " + " | ".join(_md(cell).replace("\n", "<br>") for cell in cells) + " |"


def _md(content: Inline) -> str:
    return "".join(
        _md_escape(part) if isinstance(part, str) else _md_span(part) for part in parts(content)
    )


def _md_escape(text: str) -> str:
    return re.sub(r"([\\|*_\[\]<`])", r"\\\1", text)


def _md_span(span: Span) -> str:
    inner = _md(span.content)
    if span.style == "code":
        source = plain_text(span.content).replace("|", "\\|")
        inner = f"`` {source} ``" if "`" in source else f"`{source}`"
    elif span.style == "strong" and inner:
        inner = f"**{inner}**"
    return f"[{inner}]({span.link})" if span.link and not span.link.startswith("#") else inner

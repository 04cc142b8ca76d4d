"""A document as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from .model import (
    Block,
    Document,
    Fields,
    Figure,
    Formula,
    Section,
    Table,
    Text,
    clip,
    plain_text,
)

WIDTH = 140  # columns
ASCII = str.maketrans(
    dict(zip("✓✗–·…×²αΣμ", "+X-.~x2aSu", strict=True))
)  # for a terminal without these signs


def text(document: Document, width: int = WIDTH, folded: bool = False) -> str:
    """The document as text; ``folded``: the folded sections too."""
    return (
        "\n\n".join([document.title, *_text_blocks(document.body, width, folded)]).strip("\n")
        + "\n"
    )


def _text_blocks(blocks: Iterable[Block], width: int, folded: bool) -> list[str]:
    shown = [b for b in blocks if folded or not (isinstance(b, Section) and b.folded)]
    return [part for b in shown if (part := _text_block(b, width, folded))]


def _text_block(block: Block, width: int, folded: bool) -> str:
    if isinstance(block, Text):
        return "\n".join(_wrap(plain_text(block.content), width))
    if isinstance(block, Fields):
        indent = max((len(key) for key, _ in block.items), default=0) + 2
        lines = [(key, _wrap(plain_text(value), width - indent)) for key, value in block.items]
        return "\n".join(
            f"{key:<{indent}}" + f"\n{' ' * indent}".join(value) for key, value in lines
        ).rstrip()
    if isinstance(block, Table):
        return _text_table(block, width)
    if isinstance(block, Section):
        inner = "\n\n".join(_text_blocks(block.body, width - 2, folded))
        return f"{plain_text(block.title)}\n{textwrap.indent(inner, '  ')}".rstrip()
    if isinstance(block, Figure):
        words = f"{plain_text(block.title)}: {block.alt or plain_text(block.caption)}"
        return "\n".join(_wrap(" ".join([f"[{words}]", *block.files]), width))
    return textwrap.indent(block.latex if isinstance(block, Formula) else block.source, "  ")


def _wrap(text: str, width: int) -> list[str]:
    wrapped = (
        textwrap.wrap(line, max(width, 40), break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
    return [line for lines in wrapped for line in lines or [""]] or [""]


def _text_table(table: Table, width: int) -> str:
    rows = [[plain_text(cell) for cell in row] for row in table.rows if row]
    full = [row for row in rows if len(row) == len(table.head)]
    widths = [max(map(len, column)) for column in zip(table.head, *full, strict=True)]
    widths[0] = max([widths[0], *(len(row[0]) for row in rows)])
    out = [_text_row(table, table.head, widths, width)] if any(table.head) else []
    body = [_text_row(table, row, widths, width) for row in rows]
    longest = max((len(line) for row in [*out, *body] for line in row.splitlines()), default=0)
    rule = ["  ".join("-" * w for w in widths)[:longest]] if out else []
    return "\n".join([*out, *rule, *body])


def _text_row(table: Table, row: Sequence[str], widths: Sequence[int], width: int) -> str:
    cells = [
        f"{c:>{w}}" if k in table.right else f"{c:<{w}}"
        for k, (c, w) in enumerate(zip(row, widths, strict=False))
    ]
    start = "".join(cell + "  " for cell in cells[:-1])
    last, remaining = cells[-1].rstrip(), max(width - len(start), 40)
    long = table.wrap and len(last) > remaining
    lines = _wrap(last, remaining) if long else [clip(last, remaining)]
    return f"\n{' ' * len(start)}".join([start + lines[0], *lines[1:]]).rstrip()

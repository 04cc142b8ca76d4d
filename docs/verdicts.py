"""The verdicts of story.md as a figure: each conclusion of the paper, and its comparisons."""

from __future__ import annotations

import html
import re
from typing import NamedTuple

KINDS = ("confirmed", "refuted", "open", "not computed")
FILLS = {"confirmed": "#009E73", "refuted": "#D55E00", "open": "#F0E442", "not computed": "#e3e5e8"}
INKS = {"confirmed": "#fff", "refuted": "#fff", "open": "#22262c", "not computed": "#4a5058"}
ROW = re.compile(  # conclusion, verdict, counts of comparisons, and words
    r"^\| \[(.+?)\]\(#[\w-]+\) \(\d+\) \| \*\*(.+?)\*\* \| (.+?) \| .*\|$", re.MULTILINE
)
TEXT, VERDICT, UNIT, HEIGHT, LONGEST = 560, 160, 15, 23, 86


class Verdict(NamedTuple):
    """One row of the table."""

    conclusion: str
    verdict: str
    comparisons: dict[str, int]


def read(story: str) -> list[Verdict]:
    """The rows of the table of verdicts in story.md."""
    out = []
    for conclusion, verdict, said in ROW.findall(story):
        counts = {kind: int(n) for n, kind in re.findall(r"(\d+) ([a-z ]+)", said)}
        if unknown := set(counts) - set(KINDS):
            raise ValueError(f"story.md: no such outcome of a comparison: {', '.join(unknown)}")
        out.append(Verdict(conclusion, verdict, counts))
    if not out:
        raise ValueError("story.md has no table of verdicts")
    return out


def svg(rows: list[Verdict]) -> str:
    """One bar for each conclusion; its parts are the outcomes of the comparisons."""
    most = max(sum(r.comparisons.values()) for r in rows)
    width, height = TEXT + VERDICT + UNIT * most + 20, HEIGHT * len(rows) + 50
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="DejaVu Sans,Verdana,sans-serif" '
        'font-size="12" role="img"><title>The verdicts and their comparisons</title>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>'
    ]
    x = 10
    for kind in KINDS:
        out.append(f'<rect x="{x}" y="10" width="14" height="14" fill="{FILLS[kind]}"/>')
        out.append(f'<text x="{x + 20}" y="22" fill="#22262c">{kind}</text>')
        x += 130
    for k, r in enumerate(rows):
        y = 40 + HEIGHT * k
        out += _row(r, y)
    return "".join([*out, "</svg>\n"])


def _row(r: Verdict, y: int) -> list[str]:
    said = r.conclusion if len(r.conclusion) <= LONGEST else f"{r.conclusion[: LONGEST - 1]}…"
    weight = ' font-weight="bold"' if r.verdict in ("holds", "does not hold") else ""
    out = [
        f'<text x="10" y="{y + 14}" fill="#22262c" font-size="11.5">{html.escape(said)}</text>',
        f'<text x="{TEXT + 10}" y="{y + 14}" fill="#22262c"{weight}>{r.verdict}</text>',
    ]
    x = TEXT + VERDICT + 10
    for kind in KINDS:
        n = r.comparisons.get(kind, 0)
        if n:
            out.append(f'<rect x="{x}" y="{y}" width="{UNIT * n - 1}" height="{HEIGHT - 5}" '
                       f'fill="{FILLS[kind]}"/>')  # fmt: skip
            out.append(f'<text x="{x + UNIT * n / 2}" y="{y + 13}" text-anchor="middle" '
                       f'font-size="11" fill="{INKS[kind]}">{n}</text>')  # fmt: skip
            x += UNIT * n
    return out

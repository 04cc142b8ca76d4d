"""The page of conforming implementations and their badges, from report files.

Report files are what ``bongref check ADAPTER --report FILE.json`` writes, in validation/results/
reports (gzip is allowed), and what ``python -m validation.peers`` writes, peer-NAME.json.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "validation" / "results"
REPORT, PEER = "bongref-report-1", "bongref-peer-1"
RUN = ("pass", "fail", "error", "xfail", "xpass")
GREEN, ORANGE = "#1a7f4b", "#a8500b"


class Entry(NamedTuple):
    """One implementation."""

    id: str  # of its badge and its place on the page
    name: str
    dtype: str
    vectors: str  # version of the vectors, "2"
    passed: int
    offered: int
    cases: int  # 0 where several adapters of a peer meet them
    methods: int  # with a case that is offered

    @property
    def conforms(self) -> bool:
        """Whether something is offered and nothing of it fails."""
        return 0 < self.offered == self.passed


def entries(results: Path = RESULTS) -> list[Entry]:
    """One for each report file, those that conform first, then by what they offer."""
    found = [of_report(path) for path in sorted((results / "reports").glob("*.json*"))]
    found += [of_peer(path) for path in sorted(results.glob("peer-*.json"))]
    found = [e for e in found if e.offered]
    taken = Counter(e.id for e in found)
    if repeated := [id for id, n in taken.items() if n > 1]:
        raise ValueError(f"two report files have the same name: {', '.join(repeated)}")
    return sorted(found, key=lambda e: (not e.conforms, -e.passed, e.name))


def read(path: Path, schema: str) -> Any:
    """The JSON of a report file; a ValueError names what is wrong with it."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    data = json.loads(text)
    if data.get("schema") != schema:
        raise ValueError(f"{path.name}: schema must be {schema}, got {data.get('schema')!r}")
    return data


def of_report(path: Path) -> Entry:
    """The entry of a report; its counts are counted again from its cases."""
    data = read(path, REPORT)
    if data["interrupted"]:
        raise ValueError(f"{path.name}: the run was interrupted; run it again")
    status = Counter(case["status"] for case in data["cases"])
    said = {k: n for k, n in data["counts"].items() if k not in ("cases", "offered") and n}
    if said != dict(status) or len(data["cases"]) != data["counts"]["cases"]:
        raise ValueError(f"{path.name}: the counts are not those of its cases")
    for key, form in (("vectors", r"bongref-vectors-\d+"), ("dtype", r"float(32|64)")):
        if not re.fullmatch(form, data[key]):
            raise ValueError(f"{path.name}: {key} must be like {form}, got {data[key]!r}")
    ran = [case for case in data["cases"] if case["status"] in RUN]
    methods = {m for case in ran if (m := case["subject"].get("method"))}
    id = re.sub(r"\.json(\.gz)?$", "", path.name)
    passed = status["pass"] + status["xpass"]  # a known failure is a failure
    name, version, n = data["adapter"], data["vectors"].rsplit("-", 1)[-1], len(data["cases"])
    return Entry(id, name, data["dtype"], version, passed, len(ran), n, len(methods))


def of_peer(path: Path) -> Entry:
    """The float64 runs of a peer's adapters together, as on the page of the peers."""
    data = read(path, PEER)
    runs = [run for run in data["runs"] if run["dtype"] == "float64"]
    passed = sum(run["counts"].get("pass", 0) for run in runs)
    offered = sum(run["counts"].get(s, 0) for run in runs for s in RUN)
    methods = {m for run in runs for m in run["offered"] if m.count("-") >= 2}
    name = f"{data['title']} {data['version'][:12]}"
    version = " and ".join(sorted({run["vectors"]["schema"].rsplit("-", 1)[-1] for run in runs}))
    return Entry(data["peer"], name, "float64", version, passed, offered, 0, len(methods))


def page(found: list[Entry] | None = None) -> str:
    """The page, in MyST."""
    found = entries() if found is None else found
    lines = [
        "# Conforming implementations",
        "",
        "Implementations that were run through the conformance vectors, with a badge for each. "
        "One conforms if nothing that it offers fails; how much it offers and the version of the "
        "vectors are on the badge.",
        "",
    ]
    for title, conforms in (("Conforming", True), ("Not conforming in all that they offer", False)):
        rows = [e for e in found if e.conforms is conforms]
        if not rows:
            continue
        lines += [
            f"## {title}",
            "",
            "| implementation | badge | passes | offered | methods | precision |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(e) for e in rows]
        lines.append("")
    how = HOW.replace("FIRST", found[0].id if found else "NAME")
    return "\n".join([*lines, how])


def _row(e: Entry) -> str:
    name = html.escape(e.name).replace("|", "&#124;")
    picture = f'<img class="vectors-badge" src="badges/{e.id}.svg" alt="{label(e)}: {said(e)}">'
    return (
        f'| <span id="{e.id}">{name}</span> | {picture} | {e.passed:,} | {e.offered:,} | '
        f"{e.methods or ''} | {e.dtype} |"
    )


HOW = """## How to be listed

1. Run the kit and keep its report:

   ```sh
   bongref check my_adapter:Adapter --report my-implementation.json
   ```

2. Put the file into `validation/results/reports/`, as it is or compressed with gzip, and send a
   pull request. The page and the badge are made from it when the site is built; the counts are
   taken from the cases in it, and a report of an interrupted run is refused.

3. Show the badge. Its address does not change; for the first one above it is `badges/FIRST.svg`:

   ```md
   [![BONG vectors](badges/FIRST.svg)](conforming.html#FIRST)
   ```

[How to check an implementation](conformance.md) has the adapter's interface. The other public
implementations are described in full, each difference with its cause, in
[what other implementations get](peers.md); the cases of all their float64 adapters are added up
here, as there.
"""


# --- badges ---------------------------------------------------------------------------------------


def label(e: Entry) -> str:
    """The left half of a badge."""
    return f"BONG vectors {e.vectors}"


def said(e: Entry) -> str:
    """The right half of a badge."""
    if e.conforms:
        return f"conforms, {e.offered:,} of {e.cases or e.offered:,} cases"
    return f"{e.passed:,} of {e.offered:,} cases"


def badge(e: Entry) -> str:
    """A badge as SVG, without a font or anything else from elsewhere."""
    left, right = label(e), said(e)
    a, b = (round(6.6 * len(text)) + 14 for text in (left, right))
    colour = GREEN if e.conforms else ORANGE
    style = 'fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img" '
        f'aria-label="{left}: {right}"><title>{left}: {right}</title>'
        f'<rect width="{a + b}" height="20" rx="3" fill="#3b3f45"/>'
        f'<path fill="{colour}" d="M{a} 0h{b - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{a}z"/>'
        f'<g {style} text-anchor="middle"><text x="{a / 2}" y="14" textLength="{a - 14}">{left}'
        f'</text><text x="{a + b / 2}" y="14" textLength="{b - 14}">{right}</text></g></svg>\n'
    )


def write_badges(site: Path, found: list[Entry] | None = None) -> None:
    """badges/ID.svg for each entry."""
    (site / "badges").mkdir(parents=True, exist_ok=True)
    for e in entries() if found is None else found:
        (site / "badges" / f"{e.id}.svg").write_text(badge(e), encoding="utf-8")

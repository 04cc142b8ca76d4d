"""Run the originals that are there and write the page:  python -m validation.originals [NAME ...]

Results are kept in validation/results/originals.json, an entry for each original; one that cannot
be imported keeps its entry and is named. ``--page`` only writes docs/originals.md from the results.
The exit status is 1 if a difference is not what it should be.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from . import ORIGINALS, Row, compute

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "validation" / "results" / "originals.json"
PAGE = ROOT / "docs" / "originals.md"

HEAD = """\
# The literature's own code

`bongref.theory.literature` and `bongref.theory.batch` are written from the definitions in the papers. This page compares them with the
code that the authors of these papers have published: the same state, data and draws on both sides, float64, several random problems, the
largest relative difference of means and covariances (or precisions) after several steps.

`python -m validation.originals` makes the numbers and this page, from checkouts that environment variables name
(`validation/originals/__init__.py` lists them); nothing of the originals is part of this repository.

| step | theirs | ours | problems | largest difference | bound | |
|---|---|---|---:|---:|---:|---|
"""

TAIL = """
"same" in the last column: the difference is within the bound, which is rounding, or a tolerance of theirs where the notes name one.
"other": the two are different methods, and the number says how far they are apart.
"""


def markdown(results: dict[str, Any]) -> str:
    """The page from the results."""
    lines, notes = [HEAD.rstrip("\n")], []
    for name, title in ORIGINALS.items():
        for values in results.get(name, {}).get("rows", []):
            row = Row(**values)
            mark = ""
            if row.note:
                if row.note not in notes:
                    notes.append(row.note)
                mark = f" ({notes.index(row.note) + 1})"
            verdict = row.expected if row.holds else "NOT " + row.expected
            where, _, file = row.theirs.partition(", ")
            theirs = f"{title}: `{where}`" + (f", `{file}`" if file else "")
            lines.append(
                f"| {row.step}{mark} | {theirs} | `{row.ours}` | {row.cases} "
                f"| {row.difference:.1e} | {row.bound:.1e} | {verdict} |"
            )
    lines += [TAIL.rstrip("\n"), "", "Notes:", ""]
    lines += [f"{i}. {note}." for i, note in enumerate(notes, 1)]
    lines += ["", "| original | version |", "|---|---|"]
    lines += [
        f"| {title} | `{results[name]['version']}` |"
        for name, title in ORIGINALS.items()
        if name in results
    ]
    return "\n".join(lines) + "\n"


def run(name: str) -> dict[str, Any]:
    """One original in a process of its own: two of them have packages of one name."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(compute, name).result()


def main(argv: list[str]) -> int:
    """Run what is there, keep the rest, write results and page."""
    parser = argparse.ArgumentParser(prog="python -m validation.originals", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ORIGINALS)}")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.names) - set(ORIGINALS))
    if unknown:
        parser.error(f"NAME must be one of {', '.join(ORIGINALS)}, got {', '.join(unknown)}")
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in [] if args.page else args.names or ORIGINALS:
        try:
            results[name] = run(name)
        except ImportError as error:
            print(f"{name}: left out: {error}")
            continue
        for values in results[name]["rows"]:
            row = Row(**values)
            print(f"{name}: {row.step}: {row.difference:.1e}, {row.expected}: {row.holds}")
        text = json.dumps(results, ensure_ascii=False, indent=1)
        RESULTS.write_text(text + "\n", encoding="utf-8")
    PAGE.write_text(markdown(results), encoding="utf-8")
    return 0 if all(Row(**row).holds for entry in results.values() for row in entry["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

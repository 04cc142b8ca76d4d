"""Correct digits of every route on every dataset of NIST:  python validation/nist.py [FILE.html,
.md or .json]
"""

from __future__ import annotations

import sys

from bongref import reports
from bongref.theory import nist


def document(rows: list[nist.Row]) -> reports.Document:
    """The table as a report."""
    head = ["dataset", "route", "coefficient", "its sd", "residual sd", "note"]
    cells = [[r.dataset, r.route, *(f"{digits:.1f}" for digits in r[2:5]), r.note] for r in rows]
    table = reports.Table(head, cells, right=(2, 3, 4))
    intro = reports.Text(
        "Correct digits of the worst coefficient, of the worst standard deviation, of the "
        "residual one."
    )
    return reports.Document(
        "NIST's certified regressions", [intro, table], data=[r._asdict() for r in rows]
    )


if __name__ == "__main__":
    page = document(nist.table())
    if len(sys.argv) > 1:
        reports.write(sys.argv[1], page)
    else:
        print(reports.text(page), end="")

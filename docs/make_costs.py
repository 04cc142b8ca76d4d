"""The table of docs/costs.md: every cost that the paper states, with the count and a verdict.

python docs/make_costs.py          # print the table
python docs/make_costs.py --page   # put it into docs/costs.md
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from bongref import curvature
from bongref.curvature import Curv
from bongref.grid import HESSIANS, NAMES, NOT_DERIVED, RULES
from bongref.theory.costs import PARTS, Poly, form_of, interpolate, is_O, parse, polynomial
from bongref.theory.counting import Tally

PAGE = Path(__file__).with_name("costs.md")
VERDICTS = ("holds", "holds with a condition", "cheaper exists", "does not hold")


class Row(NamedTuple):
    """A cost that the paper states, and what was counted."""

    cell: str  # the method, or the operation
    place: str  # "tab:methods" or the section whose text says it
    printed: str
    form: str  # the function that was counted
    exponent: int  # the power of P
    measured: str  # the leading terms: update and estimator, without the drawing of samples
    verdict: str
    remark: str


# --- the statements of the paper ------------------------------------------------------------------

_K = {"mc-ef": "M", "lin-hess": "C"}


def printed_costs() -> list[tuple[str, str, str]]:
    """(method, place, cost) as the paper states them.

    The 36 cells of tab:methods, its remark on the moment forms, and the text of the sections.
    """
    return [*_table_cells(), *_moment_cells(), *_text()]


def _table_cells() -> list[tuple[str, str, str]]:
    full = {"bong": "O({k}P^2)", "blr": "O(IP^3)", "bog": "O(P^3)", "bbb": "O(IP^3)"}
    diag = {"mc-ef": "O({i}MP)", "lin-hess": "O({i}C^2 P)", "lin-ef": "O({i}P)"}
    low = {
        "bong": ("O((R+M)^2 P)", "O((R+C)^2 P)", "O(R^2 P)"),
        "blr": ("O(I(R+M)^2 P)", "O(I(2R+C)^2 P)", "O(IR^2 P)"),
        "bog": ("O(RMP)", "O(C(C+R)P)", "O(RP)"),
        "bbb": ("O(IR(R+M)P)", "O(I(C+R)RP)", "O(IR^2 P)"),
    }
    rows = []
    for i, hess in enumerate(HESSIANS[1:]):
        for rule in RULES:
            k, loop = _K.get(hess, ""), "I" if rule in ("blr", "bbb") else ""
            rows.append((f"{rule}-{hess}-fc", "tab:methods", full[rule].format(k=k)))
            rows.append((f"{rule}-{hess}-diag", "tab:methods", diag[hess].format(i=loop)))
            rows.append((f"{rule}-{hess}-dlr", "tab:methods", low[rule][i]))
    return rows


def _moment_cells() -> list[tuple[str, str, str]]:
    """ "moment parameters have the same complexities except BOG-FC_MOM"."""
    rows = []
    for name, _, cost in _table_cells():
        if name.endswith("-dlr"):
            continue
        if fnmatchcase(name, "bog-*-fc"):
            cost = f"O({_K.get(name[4:-3], '')}P^2)"
        rows.append((f"{name}_mom", "tab:methods (moment)", cost))
    return rows


def _text() -> list[tuple[str, str, str]]:
    """What the sections say beyond the table: lower orders, and MC-HESS.

    "Per iteration" is written out as a factor I.
    """
    rows = [
        ("bong-mc-hess-fc", "sec:FC-Nat-bong", "O(P^3)"),
        ("bong-mc-ef-fc", "sec:FC-Nat-bong", "O(MP^2+M^3)"),
        ("bong-lin-hess-fc", "sec:lbong-fc", "O(CP^2+C^3)"),
        ("blr-mc-hess-fc", "sec:FC-Nat", "O(IP^3)"),
        ("bog-mc-hess-fc", "sec:FC-Nat", "O(P^3)"),
        ("bbb-mc-hess-fc", "sec:FC-Nat", "O(IP^3)"),
        ("bong-mc-hess-fc_mom", "sec:FC-Mom", "O(P^3)"),
        ("blr-mc-hess-fc_mom", "sec:FC-Mom", "O(IP^3)"),
        ("bog-mc-hess-fc_mom", "sec:FC-Mom", "O(MP^2)"),
        ("bbb-mc-hess-fc_mom", "sec:FC-Mom", "O(IP^3)"),
    ]
    for family, section in (("diag", "sec:diag-Nat"), ("diag_mom", "sec:diag-Mom")):
        for rule in RULES:
            cost = "O(INMP)" if rule in ("blr", "bbb") else "O(NMP)"
            rows.append((f"{rule}-mc-hess-{family}", section, cost))
    for hess, k in (("mc-ef", "M"), ("lin-hess", "C"), ("lin-ef", "1")):
        blr = "sec:LBLR-DLR" if k == "C" else "sec:BLR-DLR"
        rows.append((f"bong-{hess}-dlr", "sec:DLR-deriv", f"O((R+{k})^2 P+(R+{k})^3)"))
        rows.append((f"blr-{hess}-dlr", blr, f"O(I((2R+{k})^2 P+(2R+{k})^3))"))
    return [
        *rows,
        ("bog-mc-ef-dlr", "sec:DLR-deriv", "O(RMP+MR^2+R^3)"),
        ("bog-lin-ef-dlr", "sec:DLR-deriv", "O(RP+R^3)"),
        ("bog-lin-hess-dlr", "sec:DLR-deriv", "O(C(C+R)P+CR^2+R^3)"),
        ("bbb-mc-ef-dlr", "sec:bbb-dlr", "O(I((R+M)RP+MR^2+R^3))"),
        ("bbb-lin-ef-dlr", "sec:bbb-dlr", "O(I(R^2 P+R^3))"),
        ("bbb-lin-hess-dlr", "sec:bbb-dlr", "O(I((C+R)^2 P+CR^2+R^3))"),
    ]


# what a count does not show: (methods, remark)
REMARKS = [
    ("blr-*ef-fc", "where the text says that cubic time is required (sec:FC-Nat)"),
    ("blr-lin-hess-fc", "where the text says that cubic time is required (sec:FC-Nat)"),
    ("blr-*ef-fc_mom", "where the text says that the KL term makes it cubic (sec:FC-Mom)"),
    ("blr-lin-hess-fc_mom", "where the text says that the KL term makes it cubic (sec:FC-Mom)"),
    ("bbb-*-fc", "not needed: I^2 K P^2"),
    ("bbb-*-fc_mom", "not needed: I^2 K P^2, with the precision carried along"),
    ("*-lin-hess-diag*", "C P for a diagonal R and for a softmax"),
    ("blr-mc-ef-dlr", "R+M in the table, 2R+M in the text: the same order"),
]

# --- the verdicts ---------------------------------------------------------------------------------


def table() -> list[Row]:
    """Every cost that the paper states, with its count and verdict; then three other statements."""
    rows = [_row(*statement) for statement in printed_costs()]
    return [*rows, _sampling_row(), _trick_row(), _mc_hess_row()]


def judge(stated: Poly, step: Poly, estimator: Poly, sampling: Poly, leading: bool) -> str:
    """The verdict on a stated cost.

    "holds": the count of update and estimator is of that order, and drawing the samples is not
    above it. "holds with a condition": it is only if the samples, or S, are given. "cheaper
    exists": the count is of a lower order. "does not hold": the update alone, from (g, S) on, is
    above it, where the sizes other than P are in no fixed proportion.
    """
    total = step + estimator
    if not is_O(total, stated, leading):
        return "holds with a condition" if is_O(step, stated, leading) else "does not hold"
    if not is_O(stated, total, leading):
        return "cheaper exists"
    return "holds" if is_O(sampling, stated, leading) else "holds with a condition"


def _row(name: str, place: str, printed: str) -> Row:
    stated, leading = parse(printed), place.startswith("tab:")
    step, estimator, sampling = (polynomial(name, part) for part in PARTS)
    total = step + estimator
    verdict, remarks = judge(stated, step, estimator, sampling, leading), []
    if verdict == "does not hold":
        top = total.leading().terms.items()
        over = Poly({e: c for e, c in top if not is_O(Poly({e: 1}), stated, leading)})
        remarks.append(f"exceeds it: {over}")
    elif verdict == "holds with a condition" and not is_O(total, stated, leading):
        extra = estimator.leading()
        remarks.append(f"if S = HᵀAᵀ is given or cheap: a dense R takes {extra} for it")
    elif not is_O(sampling, total, leading):
        given = "if the samples are given" if "condition" in verdict else "samples apart"
        remarks.append(f"{given}: drawing them takes {sampling.leading()}")
    if "mc-hess" not in name:
        remarks += [text for glob, text in REMARKS if fnmatchcase(name, glob)]
    counted = total.degree(), str(total.leading())
    return Row(name, place, printed, form_of(name), *counted, verdict, "; ".join(remarks))


def _other(cell: str, place: str, printed: str, form: str, found: Poly, leading: bool) -> Row:
    """A row about one operation, which has no estimator and no samples."""
    verdict = judge(parse(printed), found, Poly({}), Poly({}), leading)
    return Row(cell, place, printed, form, found.degree(), str(found.leading()), verdict, "")


def _sampling_row() -> Row:
    found = polynomial("bong-mc-ef-dlr", "sampling")
    return _other("samples of DLR", "sec:DLR-deriv", "O(R(R+M)P)", "gaussians.draw", found, True)


def _trick_row() -> Row:
    """diag(AB) of (n, m) and (m, n) in O(mn): n parameters, m samples."""

    def cost(P: int, M: int) -> int:
        tally = Tally()
        curvature.diagonal(Curv(tally.array(P), S=tally.array(P, M)))
        return tally.total

    found = interpolate(cost, "PM")
    return _other("diag(AB)", "sec:diag-Nat", "O(MP)", "curvature.diagonal", found, False)


def _mc_hess_row() -> Row:
    """ "Time complexities for MC-HESS … are always at least as great as for … MC-EF."""
    less = []
    for name in NAMES:
        if "mc-hess" in name and name not in NOT_DERIVED:
            pair = (name.replace("mc-hess", "mc-ef"), name)
            ef, hess = (polynomial(n, "update") + polynomial(n, "estimator") for n in pair)
            less += [] if is_O(ef, hess, leading=True) else [name]
    verdict, cell = "does not hold" if less else "holds", "mc-hess and mc-ef"
    stated, form = "mc-hess >= mc-ef", "18 pairs"
    return Row(cell, "tab:methods", stated, form, 0, "", verdict, ", ".join(less))


# --- the page -------------------------------------------------------------------------------------

HEADER = ("method", "place", "stated", "form", "counted", "verdict", "remark")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.cell,
        row.place,
        row.printed,
        row.form,
        row.measured,
        row.verdict,
        row.remark,
    )


def render(rows: Sequence[Row]) -> str:
    """The table as text, and how often each verdict occurs."""
    lines = [HEADER, *map(_cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    pad = lambda line: "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
    head, *text = map(pad, lines)
    return "\n".join([head, "-" * len(head), *text, "", _summary(rows)])


def markdown(rows: Sequence[Row]) -> str:
    """The same in Markdown."""
    code = [(f"`{c[0]}`", c[1], c[2], f"`{c[3]}`", *c[4:]) for c in map(_cells, rows)]
    lines = [HEADER, ("---",) * len(HEADER), *code]
    text = ["| " + " | ".join(line).replace("*", r"\*") + " |" for line in lines]
    return "\n".join([*text, "", _summary(rows)])


def _summary(rows: Sequence[Row]) -> str:
    found = Counter(row.verdict for row in rows)
    return f"{len(rows)} statements: " + ", ".join(f"{found[v]} {v}" for v in VERDICTS) + "."


def page(old: str, rows: Sequence[Row]) -> str:
    """The text of docs/costs.md with its table made again."""
    pattern = r"^\| method \| place .*?^\d+ statements: [^\n]*$"
    found = re.compile(pattern, re.MULTILINE | re.DOTALL).findall(old)
    if len(found) != 1:
        raise ValueError("docs/costs.md must have one table that begins with '| method | place'")
    return old.replace(found[0], markdown(rows))


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words not in ([], ["--page"]):
        print("usage: python docs/make_costs.py [--page]", file=sys.stderr)
        return 2
    rows = table()
    if words:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    else:
        print(render(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

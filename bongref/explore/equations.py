"""The equations of a step with the numbers that it computed, and the lines of code that did so.

A trace gives the symbols; the ledger (:mod:`bongref.paper`) the LaTeX, the number in the PDF and
the errata; the marks in the sources the line of code that computes each.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .. import paper
from ..paper import formula
from ..paper.marks import scan
from ..trace import Symbol

MODULES = {
    **{name: f"bongref.{name}" for name in ("curvature", "filter", "gaussians", "dynamics")},
    **{f: f"bongref.families.{f}" for f in ("fc_nat", "fc_mom", "diag_nat", "diag_mom", "dlr")},
}
SEEN = 12  # entries of an array that are shown whole
OPERAND = re.compile(r"(?<![\w.])(?:(?:prior|current|curv)\.\w+|[A-Za-z_]\w*)")


class Statement(NamedTuple):
    """A statement of the package's source."""

    file: str
    line: int  # of the mark
    first: int
    last: int
    code: str  # on one line, without its comment


def equations(
    trace: Sequence[Symbol], prior: dict[str, Any], params: dict[str, Any]
) -> list[dict[str, Any]]:
    """One entry for each symbol and equation, with its value in every inner iteration.

    Parameters
    ----------
    trace : sequence of Symbol
        Of one update.
    prior : dict of str to ndarray
        The fields of q_{t|t-1}.
    params : dict
        Of the method; alpha is an operand.

    Returns
    -------
    list of dict
        ``symbol equation number formula latex section errata role where file line code``, and for
        each inner iteration the ``values`` and the ``operands`` of the line of code.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    known: dict[str, Any] = {f"prior.{k}": v for k, v in prior.items()}
    known |= {k: v for k, v in params.items() if k == "alpha"}
    current = dict(prior)
    for iteration in sorted({s.i for s in trace}):
        scope = {**known, **{f"current.{k}": v for k, v in current.items()}}
        now = [s for s in trace if s.i == iteration]
        for s in sorted(now, key=lambda s: not s.where.startswith("filter.")):  # samples come first
            key = (s.name, s.equation, s.where)
            if key not in rows:
                rows[key] = {**_static(*key), "values": [], "operands": []}
            row = rows[key]
            row["values"].append(number(s.value))
            row["operands"].append(_operands(row["code"], scope))
            scope[s.name] = s.value
            scope[f"curv.{s.name}"] = s.value
            if s.name in prior:
                current[s.name] = s.value
    return list(rows.values())


def sources(trace: Sequence[Symbol]) -> list[dict[str, Any]]:
    """The functions that computed the symbols, in order: file, first line, lines of source."""
    return [_source(where) for where in dict.fromkeys(s.where for s in trace)]


def number(value: Any) -> Any:
    """A number or a nested list; a large array by shape and first entries, inf and nan as text."""
    a = np.asarray(value, dtype=float)
    if a.size > SEEN:
        return {"shape": list(a.shape), "first": _finite(a.ravel()[:4].tolist())}
    return _finite(a.tolist())


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return value if np.isfinite(value) else str(value)


# --- what does not change from step to step -------------------------------------------------------


@cache
def _static(symbol: str, equation: str, where: str) -> dict[str, Any]:
    e, at = paper.equation(equation), _statement(where, symbol, equation)
    return {
        "symbol": symbol,
        "equation": e.id,
        "number": e.number,
        "formula": formula.plain(e.latex),
        "latex": e.latex,
        "section": e.section,
        "errata": [f"{err.id}: {err.name}" for err in paper.for_equation(e.id)],
        "role": _role(where),
        "where": where,
        "file": at.file,
        "line": at.first,
        "last": at.last,
        "code": at.code,
    }


def _role(where: str) -> str:
    """The part of the picture that shows what a function computes."""
    if where.startswith("filter."):
        return "samples"
    return "likelihood" if where.startswith("curvature.") else "posterior"


def _operands(code: str, scope: dict[str, Any]) -> list[dict[str, Any]]:
    """The values of the names on the right-hand side that are known."""
    right = code.partition(" = ")[2] or code
    names = dict.fromkeys(OPERAND.findall(right))
    if "(curv)" in right:  # dense(curv), factor(curv), diagonal(curv): of what the estimator gave
        names |= dict.fromkeys(("curv.S", "curv.G", "curv.d"))
    names = dict.fromkeys(n for n in names if n in scope)
    return [{"name": n, "value": number(scope[n])} for n in names]


@cache
def _statement(where: str, symbol: str, equation: str) -> Statement:
    """The statement marked with an equation that assigns a symbol in a function."""
    module, _, function = where.partition(".")
    file, text, tree, places = _marks(module)
    found = [p for id, p in places if id == equation and p.function == function]
    exact = [p for p in found if symbol in re.split(r"\W+", p.symbol)]
    line = (exact or found)[0].line
    spans = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    first, last = min(spans, key=lambda s: s[1] - s[0])
    lines = [re.sub(r"\s+#.*", "", s).strip() for s in text.splitlines()[first - 1 : last]]
    return Statement(file, line, first, last, " ".join(lines))


@cache
def _marks(module: str) -> tuple[str, str, ast.Module, list[tuple[str, Any]]]:
    name = MODULES[module]
    text = inspect.getsource(importlib.import_module(name))
    file = name.replace(".", "/") + ".py"
    return file, text, ast.parse(text), list(scan(text, file))


@cache
def _source(where: str) -> dict[str, Any]:
    module, _, function = where.partition(".")
    lines, first = inspect.getsourcelines(
        getattr(importlib.import_module(MODULES[module]), function)
    )
    file = MODULES[module].replace(".", "/") + ".py"
    return {"where": where, "file": file, "first": first, "lines": [s.rstrip() for s in lines]}

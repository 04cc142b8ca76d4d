"""The paper as data: its equations, the code that computes them, the tests, the errata, the claims.

What is here: equations.json, paper.json (made from the paper's LaTeX), errata.json, claims.json,
uncomputed.json and tests.json, each with a schema in schema/, and the functions that read and show
them. What is not here: any update; the code that an equation names is in the rest of the package.

>>> from bongref import paper
>>> paper.equation("eq:bong-FC-prec").kind
'update'
>>> paper.computed()["eq:bong-FC-prec"][0].file
'bongref/families/fc_nat.py'
>>> print(paper.show("Proposition 4.2").splitlines()[0])
Proposition 4.2   thm:lbong

Code names its equations in two ways, see :mod:`bongref.paper.marks`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .claims import Claim
from .errata import Erratum, for_equation
from .ledger import (
    KINDS,
    Coverage,
    Equation,
    UnknownEquation,
    coverage,
    equation,
    equations,
    tests,
)
from .marks import Place, computed, eq, line_symbols, registry
from .source import citation
from .uncomputed import reason

if TYPE_CHECKING:
    from .claims import CLAIMS
    from .errata import ERRATA
    from .pages import document, overview, search, show
    from .uncomputed import REASONS

_READ_LATER = {
    "CLAIMS": "claims",
    "ERRATA": "errata",
    "REASONS": "uncomputed",
    "document": "pages",
    "overview": "pages",
    "search": "pages",
    "show": "pages",
}
__all__ = [
    "CLAIMS",
    "ERRATA",
    "KINDS",
    "REASONS",
    "Claim",
    "Coverage",
    "Equation",
    "Erratum",
    "Place",
    "UnknownEquation",
    "citation",
    "computed",
    "coverage",
    "document",
    "eq",
    "equation",
    "equations",
    "for_equation",
    "line_symbols",
    "overview",
    "reason",
    "registry",
    "search",
    "show",
    "tests",
]


def __getattr__(name: str) -> Any:
    """The ledgers and the pages are read when they are first used."""
    if name in _READ_LATER:
        return getattr(import_module(f".{_READ_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

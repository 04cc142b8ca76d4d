"""The paper as data: every displayed equation, the code that computes it, the tests that guard it, its errata and claims.

    equation("eq:bong-FC-prec").latex        show("eq:bong-FC-prec")        coverage()

Code names its equations in two ways: `@eq("eq:a", "sec:FC-Mom#21")` on a function, and a trailing comment
`Sigma = ...  # eq:a, eq:b` on the line that computes one. Both are read from the sources as text.
"""

from __future__ import annotations

from .claims import CLAIMS, Claim
from .errata import ERRATA, Erratum, for_equation
from .ledger import (
    KINDS,
    Coverage,
    Equation,
    Place,
    UnknownEquation,
    computed,
    coverage,
    eq,
    equation,
    equations,
    line_symbols,
    overview,
    registry,
    show,
    tests,
)
from .uncomputed import REASONS, reason

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
    "computed",
    "coverage",
    "eq",
    "equation",
    "equations",
    "for_equation",
    "line_symbols",
    "overview",
    "reason",
    "registry",
    "show",
    "tests",
]

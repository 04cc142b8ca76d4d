"""The tests that the ledgers name, read from the files that they are in."""

import ast
from functools import cache
from pathlib import Path

from bongref.paper import CLAIMS, ERRATA

ROOT = Path(__file__).resolve().parents[1]


@cache
def collected() -> frozenset[str]:
    """Node ids without parameters: the test functions at the top level of each file."""
    named = [e.test for e in ERRATA] + [node for c in CLAIMS for node in c.evidence]
    files = sorted({node.split("::")[0] for node in named if "::" in node})
    return frozenset(
        f"{file}::{part.name}"
        for file in files
        for part in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if isinstance(part, ast.FunctionDef) and part.name.startswith("test_")
    )

"""How the package is laid out: sizes, widths, private names, docstrings. Read from the sources."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from conftest import AFTER_FAST

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bongref"
MODULES = sorted(PACKAGE.rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "docs").glob("*.py"), *(ROOT / "validation").rglob("*.py")])

LINES, WIDTH = 600, 100
ID_COMMENT = re.compile(r"\s+#\s*(?:(?:eq|eqn|sec|algo):|bbb-FC-mom-).*$|^@eq\(.*$")
# modules that are still longer; each entry goes as soon as its module is short enough
TOO_LONG: set[str] = set()

# modules that use private names of another one; each entry goes with the last such use
USES_PRIVATE: set[str] = set()

# modules without a docstring; each entry goes when it has one
UNDOCUMENTED: set[str] = set()

# modules whose docstrings are kept as they are: only their code is measured
TEXT_AS_IT_IS = {
    "curvature.py",
    "families/diag_mom.py",
    "families/diag_nat.py",
    "families/dlr.py",
    "families/fc_mom.py",
    "families/fc_nat.py",
    "linalg.py",
    "routes/definition.py",
    "routes/exact.py",
}

# modules with wider lines; each entry goes when it has none
TOO_WIDE: set[str] = {
    "curvature.py",
    "families/diag_nat.py",
    "families/fc_mom.py",
    "families/fc_nat.py",
    "linalg.py",
    "routes/definition.py",
    "routes/exact.py",
}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def dotted(path: Path) -> str:
    """bongref.families.dlr"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# --- private names --------------------------------------------------------------------------------


def private(word: str) -> bool:
    return word.startswith("_") and not word.endswith("__")


def imported(path: Path, tree: ast.AST) -> tuple[dict[str, str], list[str]]:
    """Names that stand for modules of bongref, and private names taken out of one of them."""
    here = dotted(path).split(".")
    here = here if path.name == "__init__.py" else here[:-1]
    known = {dotted(m) for m in MODULES}
    modules, taken = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "bongref":
                    modules[alias.asname or alias.name.split(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom):
            start = here[: len(here) + 1 - node.level] if node.level else []
            source = ".".join([*start, *(node.module.split(".") if node.module else [])])
            if source.split(".")[0] != "bongref":
                continue
            for alias in node.names:
                if private(alias.name) and f"{source}.{alias.name}" not in known:
                    taken.append(f"{source}.{alias.name}")
                if f"{source}.{alias.name}" in known:
                    modules[alias.asname or alias.name] = f"{source}.{alias.name}"
    return modules, taken


def private_uses(path: Path, text: str) -> list[str]:
    """Private names of other modules: imported, or reached as an attribute of a module."""
    tree = ast.parse(text)
    modules, taken = imported(path, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in modules and private(node.attr):
                taken.append(f"{modules[node.value.id]}.{node.attr}")
    return sorted(set(taken))


def test_the_reader_of_private_names_finds_them():
    text = "from .grid import _x\nfrom . import linalg as la, _version\nfrom .fast import _jit\n"
    found = private_uses(PACKAGE / "some.py", text + "la._eliminate, la.inv, _version.__version__")
    assert found == ["bongref.fast._jit", "bongref.grid._x", "bongref.linalg._eliminate"]
    text = (
        "from ..curvature import Curv, _block\nimport bongref.linalg\nimport bongref as "
        "br\nbr._NAMES"
    )
    found = private_uses(PACKAGE / "routes" / "some.py", text)
    assert found == ["bongref._NAMES", "bongref.curvature._block"]


def test_private_names_stay_in_their_module():
    """What another module needs has a public name."""
    found = {name(p): private_uses(p, p.read_text(encoding="utf-8")) for p in MODULES}
    bad = {module: uses for module, uses in found.items() if uses}
    assert set(bad) == USES_PRIVATE, bad


# --- sizes ----------------------------------------------------------------------------------------


def test_no_module_is_longer_than_600_lines():
    """What is longer is split, or its facts become data."""
    count = {name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in MODULES}
    assert {m for m, lines in count.items() if lines > LINES} == TOO_LONG


# --- widths ---------------------------------------------------------------------------------------


def too_wide(path: Path) -> list[int]:
    """Lines wider than 100; a comment that begins with an equation's id may overhang."""
    lines = path.read_text(encoding="utf-8").splitlines()
    wide = [i for i, line in enumerate(lines, 1) if len(ID_COMMENT.sub("", line)) > WIDTH]
    return wide if name(path) not in TEXT_AS_IT_IS else [i for i in wide if i in code_lines(path)]


def code_lines(path: Path) -> set[int]:
    """The lines with a token of code: not those of docstrings and of comments alone."""
    text = path.read_text(encoding="utf-8")
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        many_lines = token.type == tokenize.STRING and token.string.lstrip("rbfRBF")[:3] == '"""'
        if token.type not in skip and not many_lines:
            found |= {token.start[0], token.end[0]}
    return found


def test_the_reader_of_widths_measures_code_and_not_ids():
    line = "    mu = " + "x" * 88
    assert len(ID_COMMENT.sub("", line + "  # eq:bong-FC-mean, sec:FC-Nat#12 — G = −S Sᵀ")) == 97
    assert len(ID_COMMENT.sub("", line + "  # a remark on eq:bong-FC-mean")) > WIDTH


def test_lines_are_at_most_100_wide():
    found = {name(p): too_wide(p) for p in MODULES}
    assert {m for m, lines in found.items() if lines} == TOO_WIDE, found
    for script in (ROOT / "docs").glob("*.py"):
        lines = script.read_text(encoding="utf-8").splitlines()
        assert max(map(len, lines)) <= WIDTH, script


@pytest.mark.parametrize("folder", ["tests", "validation"])
def test_code_of_tests_and_validation_is_at_most_100_wide(folder):
    """Tables and text in strings of several lines, and regular expressions, may overhang."""
    for path in (ROOT / folder).rglob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        wide = {i for i, line in enumerate(lines, 1) if len(line) > WIDTH} & code_lines(path)
        overhang = {i for i in wide if re.search(r"""["'][^"']*["'],?\)?$|# noqa""", lines[i - 1])}
        assert wide - overhang == set(), path


# --- docstrings -----------------------------------------------------------------------------------


def test_every_module_says_what_lives_in_it():
    """The map of the package is made from these docstrings. _version.py is one line for
    setup.cfg.
    """
    docs = {name(p): ast.get_docstring(ast.parse(p.read_text(encoding="utf-8"))) for p in MODULES}
    assert {m for m, doc in docs.items() if not doc} == UNDOCUMENTED | {"_version.py"}


def test_every_package_says_what_does_not_live_in_it():
    """The packages of the top level; those below them are parts of one of these."""
    packages = [p for p in PACKAGE.glob("*/__init__.py") if p.parent.name != "fast"]
    docs = {p.parent.name: ast.get_docstring(ast.parse(p.read_text("utf-8"))) for p in packages}
    assert (
        len(docs) > 8 and {k for k, doc in docs.items() if "What is not here: " not in doc} == set()
    )


def test_scripts_say_what_they_make():
    for path in SCRIPTS:
        if path.name != "__init__.py" or path.read_text(encoding="utf-8").strip():
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


# --- smoke tests ----------------------------------------------------------------------------------


def test_the_smoke_tests_exist():
    lines = (ROOT / "tests" / "smoke.txt").read_text(encoding="utf-8").splitlines()
    named = [line.split("[")[0] for line in lines if line and not line.startswith("#")]
    assert len(named) > 30
    for node in named:
        file, test = node.split("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {test}\(", text, re.MULTILINE), f"tests/smoke.txt: no {node}"


def test_the_files_that_are_ordered_exist():
    assert AFTER_FAST <= {path.name for path in (ROOT / "tests").glob("test_*.py")}

"""Nothing is unpickled, evaluated or fetched except where a command, or a reason, says so."""

from __future__ import annotations

import ast
import importlib.metadata
from pathlib import Path

import pytest

import bongref as br
from bongref.theory import costs
from validation import supply_chain

PACKAGE = Path(br.__file__).parent
NAMES = {"eval", "exec", "__import__"}
MODULES = {"pickle", "marshal", "shelve", "dill", "socket", "ftplib", "smtplib", "telnetlib", "ssl"}
MODULES |= {"urllib.request", "http.client", "requests", "httpx", "xmlrpc"}

# file -> what it uses, and why that runs or fetches nothing from outside
ALLOWED = {
    "trace.py": ({"exec"}, "compiles the package's own functions, with a note before each return"),
    "conformance/edits.py": ({"exec"}, "compiles the package's own functions with one edit"),
    "teaching/forms.py": ({"exec"}, "compiles the grader's own right forms with one edit"),
    "fast/jit.py": ({"pickle"}, "names UnpicklingError, which Numba's cache on disk may raise"),
    "experiments/execute.py": ({"socket"}, "the name of this machine, for a record"),
    "experiments/store.py": ({"socket"}, "the name of this machine, for a lock"),
    "experiments/data/download.py": (
        {"http.client", "urllib.request"},
        "bongref run NAME of a data set that it announces; by HTTPS and with a checksum",
    ),
}


def uses(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & NAMES
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [str(node.module), *(f"{node.module}.{a.name}" for a in node.names)]
        found |= set(names) & MODULES
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            off = isinstance(node.value, ast.Constant) and node.value.value is False
            found |= set() if off else {"allow_pickle"}
    return found


def test_the_package_uses_none_of_them_but_where_a_reason_is_given():
    found = {str(p.relative_to(PACKAGE)): uses(p) for p in sorted(PACKAGE.rglob("*.py"))}
    assert len(found) > 150
    assert {name: what for name, what in found.items() if what} == {
        name: what for name, (what, _) in ALLOWED.items()
    }


def test_the_search_sees_what_it_looks_for(tmp_path):
    text = "import pickle\nfrom urllib import request\neval('1')\nnp.load(f, allow_pickle=True)\n"
    (tmp_path / "bad.py").write_text(text)
    assert uses(tmp_path / "bad.py") == {"pickle", "urllib.request", "eval", "allow_pickle"}


@pytest.mark.parametrize("printed", ["O(P", "O(__import__('os'))", "O(P-1)", "O(P//R)", "P"])
def test_a_printed_cost_is_read_not_run(printed):
    with pytest.raises(br.InvalidValue, match="a cost must"):
        costs.parse(printed)


def test_every_requirement_is_one_that_the_project_names():
    """The packages that are needed at run time; a new one is a decision, not an accident."""
    needed = {r for r in importlib.metadata.requires("bongref") or [] if "extra ==" not in r}
    names = {r.partition(">")[0].strip() for r in needed}
    assert names == {"numpy", "scipy", "autograd", "numba", "threadpoolctl", "tqdm"}


def test_archives_with_other_times_and_orders_have_the_same_contents(tmp_path):
    """The comparison of two builds is of bytes: one changed byte is seen."""
    for name, text in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(text)
    a, b, c = (supply_chain.digest(tmp_path / n) for n in "abc")
    assert a == b != c

"""README.md and docs/ run: every snippet, the output printed below it, the tables, and the two
commands at the top.
"""

import ast
import contextlib
import doctest
import importlib.util
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import bongref
from bongref import cli, grid, paper
from bongref.routes import audit, compare

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
METHODS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
AUDIT = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """(language, text, line, output) of each fenced block; output is the text block that follows at
    once, or None.
    """
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for one, after in zip(found, [*found[1:], None], strict=False):
        follows = (
            after is not None and after[1] == "text" and not text[one.end() : after.start()].strip()
        )
        yield one[1], one[2], text.count("\n", 0, one.start()) + 2, after[2] if follows else None


def shell(text):
    """What the bongref commands of a block print; anything else in it is not run here."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for line in text.splitlines():
            if (
                line.startswith("bongref ") and "validation.peers" not in line
            ):  # which needs the peers
                assert cli.main(shlex.split(line)[1:]) == 0, line
    return out.getvalue()


def python(text, page, line, namespace):
    """What a block prints, run in the namespace of its page; tracebacks name the page and its
    line.
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), namespace)
    return out.getvalue()


def test_there_are_pages():
    assert {p.name for p in PAGES} >= {
        "README.md",
        "conventions.md",
        "methods.md",
        "reading.md",
        "symbols.md",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_snippets_print_what_the_page_says(page, tmp_path, monkeypatch):
    """A block that begins with the name of a file is that file too, for the commands that
    follow.
    """
    namespace = {"__name__": "snippet"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for language, text, line, output in blocks(page):
        if language == "python":
            if (file := re.match(r"# (\w+\.py)\n", text)) is not None:
                (tmp_path / file[1]).write_text(text, encoding="utf-8")
            got = python(text, page, line, namespace)
        elif language == "sh" and re.search(r"^bongref ", text, re.MULTILINE):
            got = shell(text)
        else:
            continue
        assert output is not None or got == "" or language == "sh", (
            f"{page.name}:{line} prints, and the page does not show it:\n{got}"
        )
        if output is not None:
            same = doctest.OutputChecker().check_output(output, got, doctest.ELLIPSIS)
            assert same, f"{page.name}:{line} prints\n{got}\nand the page says\n{output}"


def imports(text):
    """name -> the statement that imports it, of the imports at the top level of a block."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                one = type(node)(**{**vars(node), "names": [alias]})
                found[alias.asname or alias.name.split(".")[0]] = ast.unparse(one)
    return found


def without_their_imports(page):
    """(line, text, statements) of the blocks that use what only another block of the page
    imports.
    """
    python_blocks = [
        (text, line) for language, text, line, _ in blocks(page) if language == "python"
    ]
    known = {}
    for text, line in python_blocks:
        known |= imports(text)
        used = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        bound = {n.id for n in ast.walk(ast.parse(text)) if isinstance(getattr(n, "ctx", None),
         ast.Store)
                 and isinstance(n, ast.Name)}  # fmt: skip
        lacking = sorted((used & set(known)) - set(imports(text)) - bound)
        if lacking:
            yield line, text, [known[name] for name in lacking]


def test_blocks_have_their_imports():
    """A block that a reader copies imports what it uses."""
    found = {p.name: [(line, s) for line, _, s in without_their_imports(p)] for p in PAGES}
    assert {name: bad for name, bad in found.items() if bad} == {}


def test_inline_commands_exist():
    """`bongref ...` in running text names a command, and an equation or a pattern that there is."""
    for page in PAGES:
        for line in re.findall(
            r"`(bongref [^`]+)`", FENCE.sub("", page.read_text(encoding="utf-8"))
        ):
            words = shlex.split(line)[1:]
            assert words[0] in (
                "audit",
                "eq",
                "methods",
                "explain",
                "errata",
                "claims",
                "check",
                "vectors",
                "cite",
                "run",
                "data",
                "tune",
                "report",
                "grade",
                "explore",
            ), line
            quick = words[0] in ("eq", "methods", "errata", "claims")
            if quick and not re.search(r"\b(ID|SECTION)\b", line):
                assert shell(line), line


def test_links_lead_somewhere():
    for page in [*PAGES, ROOT / "validation" / "README.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def make_map():
    spec = importlib.util.spec_from_file_location("make_map", ROOT / "docs" / "make_map.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_maps_are_current():
    module = make_map()
    assert all(path.exists() for path in module.PAGES) and len(module.rows(module.PACKAGE, 1)) > 15
    for path in module.PAGES:
        assert module.page(path) == path.read_text(encoding="utf-8"), (
            "python docs/make_map.py writes it"
        )


def test_the_map_follows_the_docstrings(tmp_path):
    module = make_map()
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").write_text(
        '"""What lives here: tables.\n\nNothing else."""'
    )
    (tmp_path / "room" / "chair.py").write_text('"""To sit | on."""')
    (tmp_path / "_private.py").write_text("")
    assert module.rows(tmp_path, 1) == ["| `room/` | What lives here: tables |"]
    assert module.rows(tmp_path, 2)[1] == r"| `room/chair.py` | To sit \| on |"
    (tmp_path / "lamp.py").write_text('"""Light."""')
    assert (
        module.rows(tmp_path, 1)[1:] == ["| `lamp.py` | Light |"]
        and module.rows(tmp_path, 0)[1:] == []
    )
    (tmp_path / "bare.py").write_text("x = 1")
    with pytest.raises(ValueError, match=r"bare\.py has no docstring"):
        module.rows(tmp_path, 1)


def test_each_block_of_the_readme_stands_alone():
    """A newcomer may copy one block: it runs by itself."""
    for language, text, line, output in blocks(ROOT / "README.md"):
        if language == "python":
            got = python(text, ROOT / "README.md", line, {"__name__": "snippet"})
            assert doctest.OutputChecker().check_output(output, got, doctest.ELLIPSIS), (
                f"README.md:{line}"
            )


# --- the two commands -----------------------------------------------------------------------------


def test_the_two_commands():
    commands = [
        text.strip()
        for language, text, _, _ in blocks(ROOT / "README.md")
        if language == "sh" and "venv" in text
    ]
    start = "python -m venv .venv && . .venv/bin/activate && "
    assert commands == [
        start + 'pip install ".[exact]" && bongref audit',
        start + 'pip install -e ".[test]" && python -m pytest',
    ]


def test_ci_runs_the_test_command_of_the_readme():
    """.ci/run takes the command out of README.md; the pattern it uses finds that one line."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pattern = re.search(r"grep -E '([^']+)'", script)[1]
    fenced = [
        line
        for language, text, _, _ in blocks(ROOT / "README.md")
        if language == "sh"
        for line in text.splitlines()
    ]
    assert [line for line in fenced if re.search(pattern, line)] == [
        'python -m venv .venv && . .venv/bin/activate && pip install -e ".[test]" && '
        "python -m pytest"
    ]
    assert 'eval "$command"' in script
    for tool in (
        "SKIP=smoke pre-commit run -c .ci/pre-commit.yaml --all-files",
        "bongref audit",
        "bongref vectors --check",
    ):
        assert f"\n{tool}\n" in script, tool
    hooks = (ROOT / ".ci" / "pre-commit.yaml").read_text(encoding="utf-8")
    for tool in ("ruff check", "ruff format --check", "mypy", "python -m pytest -q -m smoke"):
        assert f"entry: {tool}\n" in hooks, tool


def test_the_extras_of_the_commands_exist():
    extras = (
        (ROOT / "setup.cfg")
        .read_text(encoding="utf-8")
        .split("[options.extras_require]")[1]
        .split("\n[")[0]
    )
    assert {"exact", "test", "dev"} <= set(re.findall(r"^(\w+) =", extras, re.MULTILINE))


# --- the audit ------------------------------------------------------------------------------------


def test_the_excerpt_of_the_audit_is_what_the_audit_prints():
    """The same header, rows, cells that do not apply and verdicts; the numbers are rounding and may
    differ, below 1.
    """
    (excerpt,) = [
        text for _, text, _, _ in blocks(ROOT / "docs" / "audit.md") if text.startswith("method  ")
    ]
    header, *rows = excerpt.splitlines()
    names = [row.split()[0] for row in rows]
    fresh = [
        audit._row(n, np.random.default_rng([0, grid.NAMES.index(n)]), 6, 3, 3, 2) for n in names
    ]
    printed = audit.table(fresh).splitlines()
    assert header == printed[0].rstrip()
    number = re.compile(r"(?<= )(<\.001|0(?:\.\d+)?|\d\.?\d*e-\d+)(?= )")
    for row, wanted in zip(rows, printed[2:], strict=False):
        assert len(row) == len(wanted)
        assert number.sub("#", row).split() == number.sub("#", wanted).split()
    assert all(r.agrees or r.refused for r in fresh)


def test_the_columns_of_the_audit_are_explained():
    explained = re.findall(
        r"^\| (\S[^|]*?) \| ", AUDIT.split("| column |")[1].split("\n\n")[0], re.MULTILINE
    )
    assert explained == [*audit.ROUTES, "pos.def."]


def test_the_tolerance_is_the_one_described():
    assert f"c = {compare.C:.0f} and eps = 2⁻⁵²" in AUDIT
    assert compare.EPS == 2.0**-52


# --- the tables of methods ------------------------------------------------------------------------


def test_the_table_of_costs():
    def cell(name):
        return "refuses" if name in grid.NOT_DERIVED else grid.cost(name)

    lines = []
    for hess in grid.HESSIANS:
        for rule in grid.RULES:
            fc, fc_mom, diag, diag_mom, dlr = (
                cell(f"{rule}-{hess}-{family}") for family in grid.FAMILIES
            )
            assert diag == diag_mom
            lines.append(f"| {rule}-{hess} | {fc} | {fc_mom} | {diag} | {dlr} |")
    assert "\n".join(lines) in METHODS


def test_the_table_of_parameters():
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| ([^|]+) \| [^|]+ \|$", METHODS, re.MULTILINE)
    told = {
        name: (tuple(g.replace("\\", "") for g in globs.split(", ")), default)
        for name, default, globs in rows
    }
    assert told == {
        name: (globs, str(default)) for name, (globs, default) in grid.PARAMETERS.items()
    }


# --- the symbols ----------------------------------------------------------------------------------


def resolve(path):
    """The object with this dotted name inside the package."""
    module, *rest = path.split(".")
    try:
        value = importlib.import_module(f"bongref.{module}")
    except ModuleNotFoundError:  # in a package of its own: families, routes, theory
        value = getattr(bongref, module)
    for name in rest:
        value = getattr(value, name)
    return value


def symbol_rows():
    """(equations, names in code, variable) of each row of the symbol table; a row with a variable
    names one function.
    """
    text = (ROOT / "docs" / "symbols.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        names = [re.findall(r"`([^`]+)`", c) for c in cells]
        if not line.startswith("|") or not any(names):
            continue
        if len(cells) == 5:
            yield names[4], names[2], names[1][0]
        else:
            assert len(cells) == 4, line
            yield names[3], names[1], None


def test_every_symbol_is_where_the_table_says():
    places = paper.computed()
    rows = list(symbol_rows())
    assert len(rows) > 30
    for ids, names, variable in rows:
        assert ids and names
        for id in ids:
            assert paper.equation(id).id == id
        for name in names:
            assert resolve(name) is not None
        if variable is not None:
            (name,) = names
            for id in ids:
                here = [p for p in places[id] if f"{Path(p.file).stem}.{p.function}" == name]
                assert any(variable in p.symbol.split(", ") for p in here), (
                    f"{id} is not computed as {variable} in {name}"
                )

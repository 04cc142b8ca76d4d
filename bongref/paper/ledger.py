"""The ledger of equations, and what the sources and the tests say about it. Nothing is read at import."""

from __future__ import annotations

import ast
import difflib
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from .claims import CLAIMS
from .claims import for_equation as claims_for
from .errata import ERRATA, PLACES, for_equation
from .uncomputed import REASONS, is_glob, reason

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
KINDS = ("definition", "gradient", "update", "efficient form", "proof step", "cost")
ID = re.compile(r"(?:(?:eq|eqn|sec|algo):[A-Za-z0-9:_#-]*[A-Za-z0-9]|bbb-FC-mom-(?:mu|cov))")
MARK = re.compile(rf"#\s*{ID.pattern}(?:\s*,\s*{ID.pattern}|\s+{ID.pattern})*")

F = TypeVar("F", bound=Callable[..., Any])


class Equation(NamedTuple):
    """One displayed row of the paper."""

    id: str  # the label, or sec:NAME#n
    latex: str  # standard LaTeX, the paper's macros expanded
    section: str  # titles, outermost first
    scope: str  # the nearest labelled section
    kind: str  # one of KINDS
    methods: tuple[str, ...]  # globs over method names; empty where it belongs to none
    line: int  # in the paper's LaTeX
    algorithm: str = ""  # pseudocode rows: algo:...


class Place(NamedTuple):
    """A line of code that computes an equation."""

    file: str  # bongref/families/fc_nat.py
    line: int
    function: str  # qualified name; empty at module level
    symbol: str  # the name or names assigned there; empty for a decorated function


class Coverage(NamedTuple):
    """How the ledger and the code stand to each other."""

    computed: tuple[str, ...]
    reasons: dict[str, str]  # not computed, and why
    missing: tuple[str, ...]  # neither computed nor excused
    unknown: tuple[str, ...]  # named in code, tests, errata or reasons, absent from the ledger
    untested: tuple[str, ...]  # updates and efficient forms that are computed and that no test is marked with


class UnknownEquation(KeyError):
    """No equation has this id; the message names the nearest."""

    def __init__(self, id: str, known: Iterable[str]) -> None:
        near = difflib.get_close_matches(id, list(known), n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        super().__init__(f"no equation {id!r} in the paper{hint}")

    def __str__(self) -> str:
        return str(self.args[0])


# --------------------------------------------------------------------------- the equations


@cache
def _load() -> dict[str, Equation]:
    rows = json.loads((HERE / "equations.json").read_text(encoding="utf-8"))
    return {row["id"]: Equation(**{**row, "methods": tuple(row["methods"])}) for row in rows}


def equations() -> dict[str, Equation]:
    """Every displayed equation of the paper, by id, in the paper's order."""
    return dict(_load())


def equation(id: str) -> Equation:
    """The equation with this id."""
    try:
        return _load()[id]
    except KeyError:
        raise UnknownEquation(id, [*_load(), *_scopes()]) from None


def _scopes() -> dict[str, list[Equation]]:
    """Rows by section and by algorithm."""
    out: dict[str, list[Equation]] = {}
    for e in _load().values():
        for name in (e.scope, e.algorithm):
            if name:
                out.setdefault(name, []).append(e)
    return out


# --------------------------------------------------------------------------- marks in code

registry: list[Callable[..., Any]] = []


def eq(*ids: str) -> Callable[[F], F]:
    """Mark a function with the equations it computes; the function itself is returned."""

    def mark(fn: F) -> F:
        fn.__equations__ = ids  # type: ignore[attr-defined]
        registry.append(fn)
        return fn

    return mark


def _comments(source: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, ids) of the trailing comments that begin with an equation's id."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        trailing = token.type == tokenize.COMMENT and token.line[: token.start[1]].strip()
        if trailing and (m := MARK.match(token.string)):
            yield token.start[0], tuple(ID.findall(m.group()))


def _names(target: ast.AST) -> Iterator[str]:
    """The names that an assignment target binds."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute):
        yield target.attr
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)
    elif isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            yield from _names(item)


def _assigned(tree: ast.AST) -> dict[int, tuple[str, ...]]:
    """Line -> the names assigned by the shortest statement or walrus that covers it."""
    spans: list[tuple[int, int, tuple[str, ...]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = [node.target]
        else:
            continue
        spans.append((node.lineno, node.end_lineno or node.lineno, tuple(n for t in targets for n in _names(t))))
    out: dict[int, tuple[str, ...]] = {}
    for begin, end, names in sorted(reversed(spans), key=lambda s: s[0] - s[1]):
        out.update(dict.fromkeys(range(begin, end + 1), names))
    return out


def _symbols(tree: ast.AST) -> dict[int, tuple[str, ...]]:
    """Line -> names assigned there; inside a call that spans lines, the fields given on the line."""
    assigned = _assigned(tree)
    fields: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                fields[line] = (*fields.get(line, ()), node.arg)
    inner = {n for n in fields if n not in assigned or assigned[n] is assigned.get(n - 1) is assigned.get(n + 1)}
    return assigned | {n: fields[n] for n in inner}


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(qualified name, node) of every function, outer before inner."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def scan(source: str, file: str) -> Iterator[tuple[str, Place]]:
    """(id, place) of every mark in one source text."""
    tree = ast.parse(source, file)
    functions = list(_functions(tree))
    for name, node in functions:
        for deco in node.decorator_list:
            if isinstance(deco, ast.Call) and ast.unparse(deco.func).split(".")[-1] == "eq":
                for arg in deco.args:
                    if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                        yield arg.value, Place(file, node.lineno, name, "")
    symbols = _symbols(tree)
    for line, ids in _comments(source):
        inside = [name for name, node in functions if node.lineno <= line <= (node.end_lineno or line)]
        place = Place(file, line, inside[-1] if inside else "", ", ".join(symbols.get(line, ())))
        for id in ids:
            yield id, place


def computed(root: str | Path | None = None) -> dict[str, list[Place]]:
    """Where each equation is computed: id -> places, read from the sources under `root` (the installed package)."""
    base = Path(root) if root else PACKAGE
    out: dict[str, list[Place]] = {}
    for path in sorted(base.rglob("*.py")):
        if path.is_relative_to(base / "paper"):
            continue
        file = f"{base.name}/{path.relative_to(base).as_posix()}"
        for id, place in scan(path.read_text(encoding="utf-8"), file):
            out.setdefault(id, []).append(place)
    return out


@cache
def line_symbols(fn: Callable[..., Any]) -> dict[str, tuple[str, ...]]:
    """Local name -> ids of the equations marked on the lines that assign it; {} without source."""
    import inspect
    import textwrap

    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(fn)))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return {}
    assigned = _assigned(tree)
    out: dict[str, tuple[str, ...]] = {}
    for line, ids in _comments(source):
        for name in assigned.get(line, ()):
            out[name] = tuple(dict.fromkeys((*out.get(name, ()), *ids)))
    return out


# --------------------------------------------------------------------------- tests, coverage, show


def tests() -> dict[str, list[str]]:
    """The tests marked with each equation: id -> pytest node ids, as `python -m bongref.paper.index` found them."""
    path = HERE / "tests.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def coverage(root: str | Path | None = None) -> Coverage:
    """Every equation is computed, or there is a reason why not, or it is missing."""
    known, scopes, places, marked = _load(), _scopes(), computed(root), tests()
    used = {id for id in places if id in known}
    used |= {e.id for id in places if id in scopes and id.startswith("algo:") for e in scopes[id]}
    reasons = {id: why for id in known if id not in used and (why := reason(id))}
    entries = [w for ws in [(e.where, *e.also) for e in ERRATA] + [(c.where, *c.also) for c in CLAIMS] for w in ws if w not in PLACES]
    named = [*places, *marked, *entries, *(id for id in REASONS if not is_glob(id))]
    return Coverage(
        computed=tuple(id for id in known if id in used),
        reasons=reasons,
        missing=tuple(id for id in known if id not in used and id not in reasons),
        unknown=tuple(dict.fromkeys(id for id in named if id not in known and id not in scopes)),
        untested=tuple(
            id
            for id, e in known.items()
            if id in used and e.kind in ("update", "efficient form") and not (marked.get(id) or marked.get(e.algorithm))
        ),
    )


def show(id: str) -> str:
    """What there is to know about an equation, or one line for each row of a section or an algorithm."""
    if id in (scopes := _scopes()):
        rows = scopes[id]
        head = f"{id}: {rows[0].section}"
        return "\n".join([head, *(f"  {e.id:28s} {e.kind:15s} {_clip(e.latex)}" for e in rows)])
    e = equation(id)
    lines = [f"{e.id}   {e.section}", f"kind      {e.kind}"]
    if e.algorithm:
        lines.append(f"algorithm {e.algorithm}")
    if e.methods:
        lines.append(f"methods   {', '.join(e.methods)}")
    lines += ["", f"  {e.latex}", ""]
    found = computed()
    places = [*found.get(id, ()), *(found.get(e.algorithm, ()) if e.algorithm else ())]
    if places:
        for p in places:
            lines.append(f"computed  {p.file}:{p.line}  {p.function}  {p.symbol}".rstrip())
    else:
        lines.append(f"computed  no: {reason(id) or 'missing'}")
    marked = tests()
    lines += [f"test      {node}" for node in marked.get(id) or marked.get(e.algorithm) or ["none"]]
    for err in for_equation(id):
        lines += ["", f"erratum   {err.name} ({err.kind})", f"  printed    {err.printed}"]
        lines += [f"  should be  {err.corrected}", f"  effect     {err.effect}", f"  in full    bongref errata {err.id}"]
    for c in claims_for(id):
        lines += ["", f"claim     {c.id} ({c.verdict})", f"  {c.statement}"]
    return "\n".join(lines)


def overview() -> str:
    """One line for each section and algorithm: how many rows it has and how many of them code computes."""
    found = computed()
    lines = ["sections and algorithms (rows, of which computed by code); show one with `bongref eq ID`"]
    for id, rows in _scopes().items():
        n = sum(e.id in found or e.algorithm in found for e in rows)
        lines.append(f"  {id:24s} {len(rows):3d} {n:3d}   {rows[0].section}")
    return "\n".join(lines)


def _clip(text: str, width: int = 90) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"

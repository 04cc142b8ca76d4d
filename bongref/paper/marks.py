"""The marks in the code that name the equations it computes, read from the sources as text.

Two forms: ``@eq("eq:a", "sec:FC-Mom#21")`` on a function, and a trailing comment
``Sigma = ...  # eq:a, eq:b`` on the line that computes one.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..errors import InvalidType
from .source import HERE

PACKAGE = HERE.parent
ID = re.compile(r"(?:(?:eq|eqn|sec|algo):[A-Za-z0-9:_#-]*[A-Za-z0-9]|bbb-FC-mom-(?:mu|cov))")
MARK = re.compile(rf"#\s*{ID.pattern}(?:\s*,\s*{ID.pattern}|\s+{ID.pattern})*")
DECORATOR = re.compile(r"\beq\s*\(")

F = TypeVar("F", bound=Callable[..., Any])


class Place(NamedTuple):
    """A line of code that computes an equation.

    Attributes
    ----------
    file : str
        Such as ``bongref/families/fc_nat.py``.
    line : int
    function : str
        Qualified name; empty at module level.
    symbol : str
        The name or names assigned there; empty for a decorated function.

    Examples
    --------
    >>> from bongref import paper
    >>> {p.file for p in paper.computed()["sec:lbong-fc#5"]}
    {'bongref/families/fc_nat.py'}
    """

    file: str  # bongref/families/fc_nat.py
    line: int
    function: str  # qualified name; empty at module level
    symbol: str  # the name or names assigned there; empty for a decorated function


registry: list[Callable[..., Any]] = []


def eq(*ids: str) -> Callable[[F], F]:
    """Mark a function with the equations it computes; the function itself is returned.

    Parameters
    ----------
    *ids : str
        Ids of :func:`bongref.paper.equations`.

    Returns
    -------
    callable
        A decorator.

    Examples
    --------
    >>> from bongref import filter
    >>> filter.unchecked_update.__equations__
    ('sec:pseudocode#5',)
    """

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
        spans.append(
            (
                node.lineno,
                node.end_lineno or node.lineno,
                tuple(n for t in targets for n in _names(t)),
            )
        )
    out: dict[int, tuple[str, ...]] = {}
    for begin, end, names in sorted(reversed(spans), key=lambda s: s[0] - s[1]):
        out.update(dict.fromkeys(range(begin, end + 1), names))
    return out


def _symbols(tree: ast.AST) -> dict[int, tuple[str, ...]]:
    """Line -> names assigned there; inside a call that spans lines, the fields on the line."""
    assigned = _assigned(tree)
    fields: dict[int, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                fields[line] = (*fields.get(line, ()), node.arg)
    inner = {
        n
        for n in fields
        if n not in assigned or assigned[n] is assigned.get(n - 1) is assigned.get(n + 1)
    }
    return assigned | {n: fields[n] for n in inner}


def functions(
    tree: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(qualified name, node) of every function, outer before inner."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def scan(source: str, file: str) -> Iterator[tuple[str, Place]]:
    """(id, place) of every mark in one source text; most texts have none and are not parsed."""
    if not (MARK.search(source) or DECORATOR.search(source)):
        return
    tree = ast.parse(source, file)
    every = list(functions(tree))
    for name, node in every:
        for deco in node.decorator_list:
            if isinstance(deco, ast.Call) and ast.unparse(deco.func).split(".")[-1] == "eq":
                for arg in deco.args:
                    if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                        yield arg.value, Place(file, node.lineno, name, "")
    symbols = _symbols(tree)
    for line, ids in _comments(source):
        inside = [name for name, node in every if node.lineno <= line <= (node.end_lineno or line)]
        place = Place(file, line, inside[-1] if inside else "", ", ".join(symbols.get(line, ())))
        for id in ids:
            yield id, place


def computed(root: str | Path | None = None) -> dict[str, list[Place]]:
    """Where each equation is computed, read from the sources as text.

    Parameters
    ----------
    root : str or Path, optional
        The folder of the sources; the installed package if not given.

    Returns
    -------
    dict of str to list of Place
        Places by the equation's id.

    Examples
    --------
    >>> from bongref import paper
    >>> place = paper.computed()["eq:bong-FC-prec"][0]
    >>> place.file, place.symbol
    ('bongref/families/fc_nat.py', 'Sigma')
    """
    if root is not None and not isinstance(root, (str, os.PathLike)):
        raise InvalidType(f"root must be a folder (str or os.PathLike), got {root!r}")
    found = _of_package() if root is None else _scanned(Path(root))
    return {id: list(places) for id, places in found.items()}


@cache
def _of_package() -> dict[str, list[Place]]:
    return _scanned(PACKAGE)


def _scanned(base: Path) -> dict[str, list[Place]]:
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

"""Every single edit of a displayed equation: a sign flipped, a term or a factor dropped, prior taken for current, and so on.

The equations are the package's own functions. An edit changes one place of the syntax tree of one of them; what it does to a result is
then found by running it. The id of the equation is the one in the comment at the end of the line.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

IDS = re.compile(r"(?:eqn?|sec):[\w-]+(?:#\d+)?|bbb-FC-mom-\w+")

# one name taken for another: the iterate for the prior, the new for the old
TWINS: dict[str, tuple[str, ...]] = {
    "v": ("v0",),
    "v0": ("v",),
    "prec": ("prec0",),
    "prec0": ("prec",),
    "Sigma": ("prior.Sigma", "current.Sigma"),
    "var": ("prior.var", "current.var"),
    "Sigma_tilde": ("inv(precision(prior))",),
    "m": ("prior.mu",),
    "S": ("prior.Sigma",),
    "l1": ("k1",),
    "current": ("prior",),
    "prior": ("current",),
    "q": ("prior",),
    "alpha": ("(1 - alpha)", "alpha ** 2", "sqrt(alpha)"),
    "W_tilde": ("prior.W",),
    "SX": ("X",),
}
CALLS = ("sym", "inv", "sqrt", "precision", "covariance", "factor", "dense", "diagonal")
SKIPPED = ("svd", "solve", "len", "eye", "gram", "rowdot")  # calls whose arguments are edited, and which are not dropped


class Edit(NamedTuple):
    """One edit: the function it is in, the equation, what stood there and what stands there now."""

    function: str
    equation: str
    old: str
    new: str
    line: int
    source: str  # of the edited function

    @property
    def key(self) -> str:
        return f"{self.function}:{self.line}:{self.old}→{self.new}"

    @property
    def text(self) -> str:
        return f"{self.equation or self.function} with `{self.new}` instead of `{self.old}`"


# --- one place at a time --------------------------------------------------------------------------------------------------------


def variants(node: ast.expr) -> Iterator[ast.expr]:
    """What one slip may have left in the place of an expression, likely ones first."""
    if isinstance(node, ast.BinOp):
        yield from _binary(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value in (2, 4):
        for other in {2: (1, 4), 4: (2, 1)}[node.value]:
            yield ast.Constant(other)
    elif isinstance(node, ast.Attribute):
        yield from _attribute(node)
    elif isinstance(node, ast.Name):
        for twin in TWINS.get(node.id, ()):
            yield ast.parse(twin, mode="eval").body
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.List) and len(node.elts) > 1:
        for k in range(len(node.elts)):
            yield ast.List([e for j, e in enumerate(node.elts) if j != k], node.ctx)
    elif isinstance(node, ast.Subscript):
        yield from _slice(node)


def _binary(node: ast.BinOp) -> Iterator[ast.expr]:
    left, right, op = node.left, node.right, node.op
    if isinstance(op, (ast.Add, ast.Sub)):
        yield ast.BinOp(left, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), right)
        yield left
        yield right if isinstance(op, ast.Add) else ast.UnaryOp(ast.USub(), right)
        if isinstance(op, ast.Sub):
            yield ast.BinOp(right, op, left)
    elif isinstance(op, (ast.Mult, ast.MatMult)):
        yield right
        yield left
        if isinstance(right, ast.BinOp) and isinstance(right.op, (ast.Add, ast.Sub)):  # the factor on one of two terms
            yield ast.BinOp(ast.BinOp(left, op, right.left), right.op, right.right)
            yield ast.BinOp(right.left, right.op, ast.BinOp(left, op, right.right))
        if isinstance(op, ast.Mult):
            yield ast.BinOp(left, ast.Div(), right)
        else:
            yield ast.BinOp(right, op, left)
            yield ast.BinOp(ast.Attribute(left, "T", ast.Load()), op, right)
    elif isinstance(op, ast.Div):
        yield left
        if isinstance(left, ast.BinOp) and isinstance(left.op, (ast.Add, ast.Sub)):
            yield ast.BinOp(left.left, left.op, ast.BinOp(left.right, op, right))
            yield ast.BinOp(ast.BinOp(left.left, op, right), left.op, left.right)
        yield ast.BinOp(left, ast.Mult(), right)
        if not isinstance(right, ast.Constant):
            yield ast.BinOp(right, op, left)
            yield ast.BinOp(left, op, ast.Call(ast.Attribute(ast.Name("np", ast.Load()), "sqrt", ast.Load()), [right], []))
    elif isinstance(op, ast.Pow):
        yield left


def _attribute(node: ast.Attribute) -> Iterator[ast.expr]:
    if isinstance(node.value, ast.Name) and node.value.id in ("prior", "current"):
        yield ast.Attribute(ast.Name("current" if node.value.id == "prior" else "prior", ast.Load()), node.attr, node.ctx)
    if node.attr == "T":
        yield node.value
    if node.attr == "g":
        yield ast.UnaryOp(ast.USub(), node)
    if node.attr in ("var", "Ups"):
        yield ast.parse(f"np.sqrt({ast.unparse(node)})", mode="eval").body


def _call(node: ast.Call) -> Iterator[ast.expr]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in CALLS and len(node.args) == 1:
        if name in ("sym", "inv", "sqrt"):
            yield node.args[0]
        if name in ("dense", "diagonal"):
            yield ast.UnaryOp(ast.USub(), node)
            yield ast.BinOp(node, ast.Mult(), ast.Constant(2))
            yield ast.BinOp(node, ast.Div(), ast.Constant(2))
        if name == "precision":
            yield ast.parse(f"covariance({ast.unparse(node.args[0])})", mode="eval").body
            yield ast.parse(f"np.diag({ast.unparse(node.args[0])}.Ups)", mode="eval").body
        if name == "covariance":
            yield ast.parse(f"precision({ast.unparse(node.args[0])})", mode="eval").body
            yield ast.parse(f"np.diag(1 / {ast.unparse(node.args[0])}.Ups)", mode="eval").body
    if name == "outer" or (isinstance(node.func, ast.Attribute) and node.func.attr == "outer"):
        yield ast.Call(node.func, list(reversed(node.args)), node.keywords)


def _slice(node: ast.Subscript) -> Iterator[ast.expr]:
    text = ast.unparse(node)
    for old, new in ((":rank", "rank:"), ("rank:", ":rank"), (":rank", ":rank - 1"), (":rank", "-rank:"), ("rank:", "rank + 1:")):
        if text.endswith(f"{old}]"):
            yield ast.parse(f"{text[: -len(old) - 1]}{new}]", mode="eval").body


def edits(fn: Callable) -> list[Edit]:
    """Every edit of a function."""
    lines, _ = inspect.getsourcelines(fn)
    source = textwrap.dedent("".join(lines))
    tree = ast.parse(source)
    body = _undecorated(tree)
    out, seen = [], set()
    for place in _places(body):
        node = _at(body, place)
        line = node.lineno  # type: ignore[attr-defined]
        for variant in variants(node):  # type: ignore[arg-type]
            changed = copy.deepcopy(body)
            _put(changed, place, copy.deepcopy(variant))
            text = ast.unparse(ast.fix_missing_locations(changed))
            if text not in seen:
                seen.add(text)
                ids = _equations(source.splitlines(), line)
                out.append(Edit(fn.__name__, ids[0] if ids else "", ast.unparse(node), ast.unparse(variant), line, text))
    return out


def _undecorated(tree: ast.Module) -> ast.FunctionDef:
    (body,) = tree.body
    assert isinstance(body, ast.FunctionDef)
    body.decorator_list = []
    body.returns = None
    for arg in body.args.args:
        arg.annotation = None
    return body


Place = tuple[tuple[str, int | None], ...]


def _places(node: ast.AST, path: Place = ()) -> Iterator[Place]:
    """The paths to every expression in the statements of a function."""
    for name, value in ast.iter_fields(node):
        if name in ("args", "returns", "decorator_list", "ctx", "targets", "func", "keywords") and not (
            isinstance(node, ast.Call) and name == "args"
        ):
            continue
        many = value if isinstance(value, list) else [value]
        for k, child in enumerate(many):
            if isinstance(child, ast.AST) and not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                here: Place = (*path, (name, k if isinstance(value, list) else None))
                if isinstance(child, ast.expr):
                    yield here
                yield from _places(child, here)


def _at(node: ast.AST, place: Place) -> ast.AST:
    for name, k in place:
        value = getattr(node, name)
        node = value if k is None else value[k]
    return node


def _put(node: ast.AST, place: Place, new: ast.expr) -> None:
    *way, (name, k) = place
    parent = _at(node, tuple(way))
    if k is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[k] = new


def _equations(lines: Sequence[str], line: int) -> list[str]:
    """The ids in the comment of a line, or of the next line that has some."""
    for text in lines[line - 1 :]:
        if "#" in text and (found := IDS.findall(text.split("  # ", 1)[-1])):
            return found
    return []


# --- a module with one function edited ----------------------------------------------------------------------------------------------


def with_edit(module: ModuleType, names: Sequence[str], edit: Edit) -> dict[str, Any]:
    """The functions of those names of a module, in a namespace of their own, one of them edited."""
    space = dict(vars(module))
    space.setdefault("np", __import__("numpy"))
    for name in names:
        fn = vars(module)[name]
        exec(edit.source if name == edit.function else _plain(fn), space)
    return space


@lru_cache(maxsize=256)
def _plain(fn: FunctionType) -> str:
    source = textwrap.dedent("".join(inspect.getsourcelines(fn)[0]))
    return ast.unparse(_undecorated(ast.parse(source)))


def called(module: ModuleType, name: str) -> tuple[str, ...]:
    """The functions of a module that a function calls, directly or not, and itself last."""
    found: list[str] = []

    def visit(one: str) -> None:
        fn = vars(module)[one]
        for word in re.findall(r"\w+", _plain(fn)):
            other = vars(module).get(word)
            if isinstance(other, FunctionType) and other.__module__ == module.__name__ and word != one and word not in found:
                visit(word)
        if one not in found:
            found.append(one)

    visit(name)
    return tuple(found)

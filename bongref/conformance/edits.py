"""Every single edit of a function: a sign flipped, a term or a factor dropped, a name exchanged.

The functions are the package's own equations. An edit changes one place of the syntax tree of one
of them; its effect is found by running it. The equation of an edit is the id in the comment at the
end of its line.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from .. import linalg

IDS = re.compile(r"(?:eqn?|sec):[\w-]+(?:#\d+)?|bbb-FC-mom-\w+")

# one name in place of another: the iterate for the prior, the new for the old
EXCHANGED: dict[str, tuple[str, ...]] = {
    "v": ("v0", "v ** 2", "np.sqrt(v)"),
    "v0": ("v", "v0 ** 2", "np.sqrt(v0)"),
    "prec": ("prec0",),
    "prec0": ("prec",),
    "Sigma": ("prior.Sigma", "current.Sigma", "np.diag(np.diag(Sigma))"),
    "var": ("prior.var", "current.var", "var ** 2", "np.sqrt(var)"),
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
ALSO = ("woodbury_solve",)  # functions of linalg that are edited too


Place = tuple[tuple[str, int | None], ...]  # the way to a node: fields and positions
Variants = Callable[[ast.expr], Iterable[ast.expr]]


class Edit(NamedTuple):
    """One edit: the function it is in, the equation, what stood there and what stands there now."""

    function: str
    equation: str
    old: str
    new: str
    line: int
    number: int
    source: str  # of the edited function

    @property
    def key(self) -> str:
        return f"{self.function}:{self.number}"

    @property
    def text(self) -> str:
        return f"{self.equation or self.function} with `{self.new}` instead of `{self.old}`"


# --- one place at a time --------------------------------------------------------------------------


def variants(node: ast.expr) -> Iterator[ast.expr]:
    """What may stand in place of an expression after one mistake, likely ones first."""
    if isinstance(node, ast.BinOp):
        yield from _binary(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.value in (2, 4):
        yield ast.Constant(6 - node.value)  # without it: as a dropped factor
    elif isinstance(node, ast.Attribute):
        yield from _attribute(node)
    elif isinstance(node, ast.Name):
        for other in EXCHANGED.get(node.id, ()):
            yield ast.parse(other, mode="eval").body
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
        yield ast.BinOp(ast.UnaryOp(ast.USub(), left), op, right)
    elif isinstance(op, (ast.Mult, ast.MatMult)):
        yield right
        yield left
        if isinstance(right, ast.BinOp) and isinstance(
            right.op, (ast.Add, ast.Sub)
        ):  # the factor on one of two terms
            yield ast.BinOp(ast.BinOp(left, op, right.left), right.op, right.right)
            yield ast.BinOp(right.left, right.op, ast.BinOp(left, op, right.right))
        if (
            isinstance(op, ast.MatMult)
            and isinstance(left, ast.BinOp)
            and isinstance(left.op, ast.Mult)
        ):  # (α A) x
            yield ast.BinOp(left.left, ast.Mult(), right)
        if isinstance(right, (ast.Name, ast.Attribute)):  # a factor twice
            yield ast.BinOp(node, op, right)
        if isinstance(left, (ast.Name, ast.Attribute)):
            yield ast.BinOp(left, op, node)
        yield from _moved_inside(left, op, right)
        yield from _other_on_one(left, op, right)
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
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
            inner = left.right
            if isinstance(inner, ast.BinOp) and isinstance(
                inner.op, (ast.Add, ast.Sub)
            ):  # α (a + b) / 2 -> α (a + b / 2)
                yield ast.BinOp(
                    left.left,
                    left.op,
                    ast.BinOp(inner.left, inner.op, ast.BinOp(inner.right, op, right)),
                )
                yield ast.BinOp(
                    left.left,
                    left.op,
                    ast.BinOp(ast.BinOp(inner.left, op, right), inner.op, inner.right),
                )
            elif not isinstance(right, ast.Constant):  # α v / v0 -> α v0 / v
                yield ast.BinOp(ast.BinOp(left.left, left.op, right), op, inner)
        if not isinstance(right, ast.Constant):
            yield ast.BinOp(right, op, left)
            yield ast.BinOp(
                left,
                op,
                ast.Call(
                    ast.Attribute(ast.Name("np", ast.Load()), "sqrt", ast.Load()), [right], []
                ),
            )
    elif isinstance(op, ast.Pow):
        yield left
        yield ast.BinOp(left, op, ast.Constant(3))


def _moved_inside(left: ast.expr, op: ast.operator, right: ast.expr) -> Iterator[ast.expr]:
    """α A (a + b) with α on one of the two terms: A (α a + b), A (a + α b)."""
    if not (isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult)):
        return
    if isinstance(right, ast.BinOp) and isinstance(right.op, (ast.Add, ast.Sub)):
        scalar, rest = left.left, left.right
        yield ast.BinOp(
            rest, op, ast.BinOp(ast.BinOp(scalar, ast.Mult(), right.left), right.op, right.right)
        )
        yield ast.BinOp(
            rest, op, ast.BinOp(right.left, right.op, ast.BinOp(scalar, ast.Mult(), right.right))
        )


def _other_on_one(left: ast.expr, op: ast.operator, right: ast.expr) -> Iterator[ast.expr]:
    """A (a + b) with another A on one of the two terms."""
    if not (isinstance(right, ast.BinOp) and isinstance(right.op, (ast.Add, ast.Sub))):
        return
    text = ast.unparse(left)
    for name in ("Sigma", "var"):
        for word in EXCHANGED[name] if re.search(rf"(?<![.\w]){name}\b", text) else ():
            other = ast.parse(re.sub(rf"(?<![.\w]){name}\b", word, text), mode="eval").body
            yield ast.BinOp(
                ast.BinOp(other, op, right.left), right.op, ast.BinOp(left, op, right.right)
            )
            yield ast.BinOp(
                ast.BinOp(left, op, right.left), right.op, ast.BinOp(other, op, right.right)
            )


def _attribute(node: ast.Attribute) -> Iterator[ast.expr]:
    if isinstance(node.value, ast.Name) and node.value.id in ("prior", "current"):
        yield ast.Attribute(
            ast.Name("current" if node.value.id == "prior" else "prior", ast.Load()),
            node.attr,
            node.ctx,
        )
    if node.attr == "T":
        yield node.value
    if node.attr == "g":
        yield ast.UnaryOp(ast.USub(), node)
    if node.attr in ("var", "Ups"):
        yield ast.parse(f"np.sqrt({ast.unparse(node)})", mode="eval").body
        yield ast.BinOp(node, ast.Pow(), ast.Constant(2))


def _call(node: ast.Call) -> Iterator[ast.expr]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in CALLS and len(node.args) == 1:
        if name in ("sym", "inv", "sqrt"):
            yield node.args[0]
        if name in ("dense", "diagonal", "factor"):
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
        yield from (ast.Call(node.func, [one, one], node.keywords) for one in node.args)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "diag" and len(node.args) == 1:
        yield ast.parse(f"{ast.unparse(node.args[0])}.sum(axis=1)", mode="eval").body


def _slice(node: ast.Subscript) -> Iterator[ast.expr]:
    text = ast.unparse(node)
    for old, new in (
        (":rank", "rank:"),
        ("rank:", ":rank"),
        (":rank", ":rank - 1"),
        (":rank", "-rank:"),
        ("rank:", "rank + 1:"),
    ):
        if text.endswith(f"{old}]"):
            yield ast.parse(f"{text[: -len(old) - 1]}{new}]", mode="eval").body


@lru_cache(maxsize=256)
def edits(fn: Callable[..., Any], more: Variants | None = None) -> tuple[Edit, ...]:
    """Every edit of a function; ``more`` gives further variants of an expression."""
    source = textwrap.dedent("".join(inspect.getsourcelines(fn)[0]))
    body = _undecorated(ast.parse(source))
    head = ast.unparse(body).splitlines()[0]
    statements = [ast.unparse(statement) for statement in body.body]
    out: list[Edit] = []
    seen = set(statements)
    local = _definitions(body)
    for place in list(_places(body)):
        node, shown = _at(body, place), _context(body, place)
        line, k = node.lineno, place[0][1]  # type: ignore[attr-defined]
        old = ast.unparse(_at(body, shown))
        ids = _equations(source.splitlines(), line)
        assert k is not None
        swapped = (
            _swapped(local[node.id]) if isinstance(node, ast.Name) and node.id in local else []
        )
        others = more(node) if more is not None else ()  # type: ignore[arg-type]
        for variant in [*variants(node), *swapped, *others]:  # type: ignore[arg-type]
            _put(body, place, variant)
            text = ast.unparse(body.body[k])
            if text not in seen:
                seen.add(text)
                lines = textwrap.indent(
                    "\n".join([*statements[:k], text, *statements[k + 1 :]]), "    "
                )
                out.append(
                    Edit(
                        fn.__name__,
                        ids[0] if ids else "",
                        old,
                        ast.unparse(_at(body, shown)),
                        line,
                        len(out),
                        f"{head}\n{lines}\n",
                    )
                )
            _put(body, place, node)  # type: ignore[arg-type]
    return tuple(out)


def _definitions(body: ast.FunctionDef) -> dict[str, ast.expr]:
    """The names that a function assigns once."""
    return {
        one.targets[0].id: one.value
        for one in body.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }


def _swapped(value: ast.expr) -> list[ast.expr]:
    """The definition of a name with prior and current exchanged."""
    text = ast.unparse(value)
    found = {w for w in ("prior", "current") if re.search(rf"\b{w}\b", text)}
    if len(found) != 1:
        return []
    old = found.pop()
    return [
        ast.parse(
            re.sub(rf"\b{old}\b", "current" if old == "prior" else "prior", text), mode="eval"
        ).body
    ]


def _context(body: ast.FunctionDef, place: Place) -> Place:
    """What to show of an edit: the smallest expression around it that its statement has once."""
    statement = ast.unparse(_at(body, place[:1]))
    shown = place
    while (
        len(re.findall(rf"(?<![\w.]){re.escape(ast.unparse(_at(body, shown)))}(?!\w)", statement))
        > 1
    ):
        if len(shown) < 3 or not isinstance(_at(body, shown[:-1]), ast.expr):
            break
        shown = shown[:-1]
    return shown


def _undecorated(tree: ast.Module) -> ast.FunctionDef:
    (body,) = tree.body
    assert isinstance(body, ast.FunctionDef)
    body.decorator_list = []
    body.returns = None
    if isinstance(body.body[0], ast.Expr) and isinstance(body.body[0].value, ast.Constant):
        body.body = body.body[1:]
    for arg in body.args.args:
        arg.annotation = None
    return body


def _places(node: ast.AST, path: Place = ()) -> Iterator[Place]:
    """The paths to every expression in the statements of a function."""
    for name, value in ast.iter_fields(node):
        if name in (
            "args",
            "returns",
            "decorator_list",
            "ctx",
            "targets",
            "func",
            "keywords",
        ) and not (isinstance(node, ast.Call) and name == "args"):
            continue
        many = value if isinstance(value, list) else [value]
        for k, child in enumerate(many):
            if isinstance(child, ast.AST) and not (
                isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            ):
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


# --- a module with one function edited ------------------------------------------------------------


def with_edit(module: ModuleType, names: Sequence[str], edit: Edit) -> dict[str, Any]:
    """The functions of those names of a module, in a namespace of their own, one of them edited."""
    space = dict(vars(module))
    space.setdefault("np", np)
    space.setdefault("sqrt", np.sqrt)
    space.setdefault("inv", linalg.inv)
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
            own = isinstance(other, FunctionType) and (
                other.__module__ == module.__name__ or word in ALSO
            )
            if own and word != one and word not in found:
                visit(word)
        if one not in found:
            found.append(one)

    visit(name)
    return tuple(found)

"""A trace of one update: every symbol of the paper that it computed, with value and equation.

The code names the equation on the line that computes a symbol (``Sigma = …  # eq:bong-FC-prec``).
The functions with such lines have a second code object, made from their source, which hands their
local variables to :func:`note` before it returns. They run it while a recording is on, and their
own code otherwise. Profilers, debuggers and other threads are not affected.

>>> import bongref as br
>>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=1.0)
>>> prior = br.Diag(mu=[0.0], var=[1.0])
>>> _, info = br.update("bong-lin-hess-diag", model, lik, prior, x=[1.0], y=2.0, trace=True)
>>> [(s.name, s.equation) for s in info.trace if s.name in ("g", "mu")]
[('g', 'eq:gL'), ('mu', 'sec:diag-Nat#30')]
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from .show import Block, array_text, html_blocks, text_blocks


class Symbol(NamedTuple):
    """A symbol of the paper as an update computed it.

    Attributes
    ----------
    name : str
        The paper's letter as the code writes it: mu, Sigma, Ups, W, g, S, K, B, …
    equation : str
        The id of the equation that defines it.
    value : ndarray or float
    where : str
        ``module.function``.
    i : int
        The inner iteration, from 1; 0 before the first.
    """

    name: str
    equation: str
    value: Any
    where: str
    i: int

    def __repr__(self) -> str:
        """Its name, value (a large one by shape and range), equation and function."""
        return (
            f"<{self.name} = {array_text(self.value)}, {self.equation}, {self.where}, i={self.i}>"
        )


class Trace(tuple[Symbol, ...]):
    """The symbols of one update in the order of computation: a tuple that shows itself as a table.

    Examples
    --------
    >>> Trace([Symbol("g", "eq:gL", np.array([2.0]), "curvature.lin_hess", 1)])
    1 symbol of an update
      i  symbol  value  equation  function
      1  g       [2.]   eq:gL     curvature.lin_hess
    """

    def __repr__(self) -> str:
        return text_blocks(self._blocks(), width=120)

    def _repr_html_(self) -> str:
        return html_blocks(self._blocks())

    def _blocks(self) -> list[Block]:
        rows = [(str(s.i), s.name, array_text(s.value), s.equation, s.where) for s in self]
        count = f"{len(self)} symbol{'' if len(self) == 1 else 's'} of an update"
        return [count, (("i", "symbol", "value", "equation", "function"), rows)]


class Recorder:
    """The symbols of one method recorded so far; ``iteration`` is set by the inner loop."""

    def __init__(self, method_name: str) -> None:
        self.method_name = method_name
        self.symbols: list[Symbol] = []
        self.iteration = 0


_active: ContextVar[Recorder | None] = ContextVar("the recorder of this thread", default=None)


@contextmanager
def recording(method_name: str) -> Iterator[Recorder]:
    """Record the symbols whose equations belong to this method while the block runs."""
    recorder = Recorder(method_name)
    outer = _active.set(recorder)
    try:
        with _instrumented:
            yield recorder
    finally:
        _active.reset(outer)


@contextmanager
def suspended() -> Iterator[None]:
    """Record nothing while the block runs."""
    outer = _active.set(None)
    try:
        yield
    finally:
        _active.reset(outer)


def note(function: str, values: dict[str, Any]) -> None:
    """Record the marked symbols of a call that returns, with its local variables."""
    recorder = _active.get()
    if recorder is not None:
        recorder.symbols += _symbols(_marked()[function], values, recorder)


# --- code that notes its variables ----------------------------------------------------------------


class _Instrumented:
    """While it is entered, by any thread, the marked functions run the code that calls note."""

    def __init__(self) -> None:
        self.lock, self.entered = threading.Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            self.entered += 1
            if self.entered == 1:
                self._run(0)

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.entered -= 1
            if self.entered == 0:
                self._run(1)

    @staticmethod
    def _run(which: int) -> None:
        for name, fn in _marked().items():
            fn.__code__ = _codes()[name][which]


_instrumented = _Instrumented()


@cache
def _marked() -> dict[str, FunctionType]:
    """The functions of an update whose lines carry ids of equations, by module.function."""
    from . import curvature, dynamics, filter, gaussians
    from .families import diag_mom, diag_nat, dlr, fc_mom, fc_nat
    from .paper import line_symbols

    modules = (curvature, dynamics, filter, gaussians, fc_nat, fc_mom, diag_nat, diag_mom, dlr)
    functions = (
        fn
        for module in modules
        for fn in vars(module).values()
        if isinstance(fn, FunctionType) and fn.__module__ == module.__name__
    )
    return {_where(fn): fn for fn in functions if line_symbols(fn)}


@cache
def _codes() -> dict[str, tuple[CodeType, CodeType]]:
    """The code that notes its variables, and the function's own."""
    return {name: (_noting(name, fn), fn.__code__) for name, fn in _marked().items()}


def _noting(name: str, fn: FunctionType) -> CodeType:
    """The code of a function with a call of :func:`note` before each return."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    own = tree.body[0]
    assert isinstance(own, ast.FunctionDef)
    own.decorator_list = []
    own.body = [_Returns(name).visit(statement) for statement in own.body]
    ast.increment_lineno(tree, fn.__code__.co_firstlineno - 1)
    made: dict[str, Any] = {}
    exec(compile(tree, fn.__code__.co_filename, "exec"), fn.__globals__, made)
    code: CodeType = made[fn.__name__].__code__
    return code


class _Returns(ast.NodeTransformer):
    """``return x`` as ``value = x``, a call of :func:`note`, and ``return value``."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # the returns of a nested function are its own

    def visit_Return(self, node: ast.Return) -> ast.AST:
        text = (
            "if True:\n  _value = None\n  from bongref.trace import note as _note\n"
            f"  _note({self.name!r}, locals())\n  return _value"
        )
        block = ast.parse(text).body[0]
        assert isinstance(block, ast.If) and isinstance(block.body[0], ast.Assign)
        for new in ast.walk(block):
            ast.copy_location(new, node)  # the lines of the source stay as they are
        block.body[0].value = node.value or ast.copy_location(ast.Constant(None), node)
        return block


def _symbols(fn: FunctionType, values: dict[str, Any], recorder: Recorder) -> Iterator[Symbol]:
    """The marked symbols of one call.

    Of several equations that print the same symbol for this method, the line names the most
    specific one last.
    """
    from .paper import line_symbols

    for name, ids in line_symbols(fn).items():
        own = [eq_id for eq_id in ids if _belongs(eq_id, recorder.method_name)]
        if own and name != "_" and name in values:
            value = values[name]
            copied = np.array(value) if isinstance(value, np.ndarray) else value
            yield Symbol(name, own[-1], copied, _where(fn), recorder.iteration)


def _where(fn: FunctionType) -> str:
    return f"{fn.__module__.rpartition('.')[2]}.{fn.__name__}"


def _belongs(eq_id: str, method_name: str) -> bool:
    """Whether an equation is one of this method's, or of every method."""
    from .paper import equations

    table = equations()
    globs = table[eq_id].methods if eq_id in table else ()
    return not globs or any(fnmatchcase(method_name, glob) for glob in globs)

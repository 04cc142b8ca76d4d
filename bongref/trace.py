"""A trace of one update: every symbol of the paper that it computed, with value and equation.

The code names the equation on the line that computes a symbol (``Sigma = …  # eq:bong-FC-prec``).
While a recording is on, a profile hook copies the marked local variables of those functions when
they return; the functions themselves know nothing of it.

>>> import bongref as br
>>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=1.0)
>>> prior = br.Diag(mu=[0.0], var=[1.0])
>>> _, info = br.update("bong-lin-hess-diag", model, lik, prior, x=[1.0], y=2.0, trace=True)
>>> [(s.name, s.equation) for s in info.trace if s.name in ("g", "mu")]
[('g', 'eq:gL'), ('mu', 'sec:diag-Nat#30')]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from types import CodeType, FrameType, FunctionType
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
    """The symbols recorded so far; ``iteration`` is set by the inner loop."""

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self.iteration = 0


@contextmanager
def recording(method_name: str) -> Iterator[Recorder]:
    """Record the symbols whose equations belong to this method while the block runs."""
    recorder, marked = Recorder(), _marked()

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        fn = marked.get(frame.f_code) if event == "return" else None
        if fn is not None:
            recorder.symbols += _symbols(fn, frame.f_locals, method_name, recorder.iteration)

    previous = sys.getprofile()
    sys.setprofile(hook)
    try:
        yield recorder
    finally:
        sys.setprofile(previous)


@cache
def _marked() -> dict[CodeType, FunctionType]:
    """The functions of an update whose lines carry ids of equations, by their code."""
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
    return {fn.__code__: fn for fn in functions if line_symbols(fn)}


def _symbols(
    fn: Callable[..., Any], values: dict[str, Any], method_name: str, i: int
) -> Iterator[Symbol]:
    """The marked symbols of one call.

    Of several equations that print the same symbol for this method, the line names the most
    specific one last.
    """
    from .paper import line_symbols

    where = f"{fn.__module__.rpartition('.')[2]}.{fn.__name__}"
    for name, ids in line_symbols(fn).items():
        own = [eq_id for eq_id in ids if _belongs(eq_id, method_name)]
        if own and name != "_" and name in values:
            value = values[name]
            copied = np.array(value) if isinstance(value, np.ndarray) else value
            yield Symbol(name, own[-1], copied, where, i)


def _belongs(eq_id: str, method_name: str) -> bool:
    """Whether an equation is one of this method's, or of every method."""
    from .paper import equations

    table = equations()
    globs = table[eq_id].methods if eq_id in table else ()
    return not globs or any(fnmatchcase(method_name, glob) for glob in globs)

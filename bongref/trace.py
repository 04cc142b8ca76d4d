"""A trace of one update: every symbol of the paper that it computed, with its value and its equation.

The step code names the equation on the line that computes a symbol (``Sigma = …  # eq:bong-FC-prec``). While a recording is on, a
profile hook reads the local variables of those functions when they return; the step code itself knows nothing of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from types import FrameType
from typing import Any, NamedTuple

import numpy as np


class Symbol(NamedTuple):
    """A symbol of the paper as an update computed it."""

    name: str  # the paper's letter as the code writes it: mu, Sigma, Ups, W, g, S, K, B, …
    equation: str  # the id of the equation that defines it
    value: Any
    where: str  # module.function
    i: int  # the inner iteration, from 1


@contextmanager
def recording(method_name: str) -> Iterator[list[Symbol]]:
    """Record the symbols that the functions of the package compute, keeping the equations that belong to the method."""
    from .paper import equations, line_symbols

    table, seen, inner = equations(), [], [0]

    def belongs(eq_id: str) -> bool:
        globs = table[eq_id].methods if eq_id in table else ()
        return not globs or any(fnmatchcase(method_name, g) for g in globs)

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module == "bongref.filter" and frame.f_code.co_name == "_estimate":
            inner[0] = frame.f_locals["i"] + 1
        if event != "return" or not module.startswith("bongref."):
            return
        fn = frame.f_globals.get(frame.f_code.co_name)
        if getattr(fn, "__code__", None) is not frame.f_code:
            return
        for name, ids in line_symbols(fn).items():
            own = [eq_id for eq_id in ids if belongs(eq_id)]
            if own and name != "_" and name in frame.f_locals:
                value = frame.f_locals[name]
                where = f"{module.removeprefix('bongref.')}.{frame.f_code.co_name}"
                # of several equations that print the same symbol for this method, the line names the most specific one last
                seen.append(Symbol(name, own[-1], np.array(value) if isinstance(value, np.ndarray) else value, where, inner[0]))

    previous = sys.getprofile()
    sys.setprofile(hook)
    try:
        yield seen
    finally:
        sys.setprofile(previous)

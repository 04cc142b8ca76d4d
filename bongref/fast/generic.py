"""Functions with one implementation for each kind of rule, state, network or dynamics: the seam
between the loop and its parts.

Each is chosen by the type of its first argument, a NamedTuple. In compiled code the choice is made
when the kernel is compiled (``numba.extending.overload``); in Python, where the loop runs around a
model of the user's, and with NUMBA_DISABLE_JIT=1, it is made at the call, and the implementation is
a cached kernel of its own.

    @implement(step, DiagBong)                   # in diag.py, dlr.py, fc.py
    def bong(rule, prior, state, g, G, work):    # the same arguments as the generic function
        ...
        return OK

``@implement(step, Rule, host=True)`` is an implementation in plain Python (BLAS and LAPACK through
SciPy); a stream of such a rule runs the loop in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from .jit import OPTIONS, config, kernel
from .status import OK


class Implementation(NamedTuple):
    """One implementation of a generic function."""

    function: Callable[..., Any]  # plain Python, for compiled code to compile
    entry: Callable[..., Any]  # called from Python
    host: bool  # it runs in Python only


TABLES: dict[str, dict[type, Implementation]] = {}


def generic(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A generic function with the name and the documentation of ``fn``.

    What ``fn`` itself does, for types without an implementation, is its body; None where every type
    needs one.
    """
    table = TABLES.setdefault(fn.__name__, {})

    @functools.wraps(fn)
    def called_from_python(first: Any, *rest: Any) -> Any:
        found = table.get(type(first))
        return fn(first, *rest) if found is None else found.entry(first, *rest)

    @overload(called_from_python, jit_options=OPTIONS, strict=False)
    def called_from_compiled_code(first: Any, *rest: Any) -> Any:
        found = table.get(getattr(first, "instance_class", None))
        if found is not None:
            return None if found.host else found.function
        return fn if fn.__name__ in OPTIONAL else None

    return called_from_python


OPTIONAL = ("begin", "end", "predict")  # a rule or dynamics need not have them


def implement(
    fn: Callable[..., Any], *kinds: type, host: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Registers an implementation for first arguments of these types; -> what Python calls."""

    def register(function: Callable[..., Any]) -> Any:
        entry = function if host or config.DISABLE_JIT else kernel(function)
        for kind in kinds:
            TABLES[fn.__name__][kind] = Implementation(function, entry, host)
        return entry

    return register


def is_host(fn: Callable[..., Any], kind: type) -> bool:
    """Whether the implementation for this type runs in Python only."""
    return TABLES[fn.__name__][kind].host


# --- what a family offers -------------------------------------------------------------------------


@generic
def begin(rule, prior, state, work):
    """Before the inner loop: what the rule keeps of q_{t|t-1}, now in ``state``; -> status."""
    return OK


@generic
def step(rule, prior, state, g, G, work):
    """One step, in place on the arrays of ``state`` (q_{t,i-1} becomes q_{t,i}); -> status.

    ``prior`` holds q_{t|t-1} for blr and bbb and is not written; bong and bog read the prior in
    ``state`` itself. g (P,) is the expected gradient. G is the expected Hessian: for the diagonal
    families its diagonal (P,), for the others rows (K, P) with G = −rowsᵀ rows. Both may be
    overwritten. After a status other than OK ``state`` is invalid.
    """


@generic
def end(rule, prior, state, work):
    """After the inner loop: ``state`` becomes q_t where steps were deferred; -> status."""
    return OK


@generic
def place(rule, prior, state, z, work):
    """Standard normal rows z (M, P) become samples θ ~ q_{t,i-1}. Reference: gaussians.place."""


@generic
def predict(dynamics, state, work):
    """``state`` becomes the prior of the next step; -> status. Reference: dynamics.propagate."""
    return OK


# --- what an estimator offers ---------------------------------------------------------------------


@generic
def estimate(est, rule, prior, state, x, y, t, i, work):
    """est.g and est.G from the observation (x, y) of step t at q_{t,i-1}; -> status."""

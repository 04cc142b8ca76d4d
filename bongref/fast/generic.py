"""Functions with one implementation for each kind of rule, state, network or dynamics: the seam between the loop and its parts.

Each is chosen by the type of its first argument, a NamedTuple. In compiled code the choice is made when the kernel is compiled
(``numba.extending.overload``); in Python, where the loop runs around a model of the user's, and with NUMBA_DISABLE_JIT=1, it
is made at the call, and the implementation is a cached kernel of its own.

    @implement(step, Bong)                       # in diag.py, dlr.py, fc.py
    def bong(rule, prior, state, g, G, work):    # the same argument names as the generic function
        ...
        return OK

``@implement(step, Rule, host=True)`` is an implementation in plain Python (BLAS and LAPACK through SciPy); a stream of such a
rule runs the loop in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from .jit import OPTIONS, config, kernel


class Implementation(NamedTuple):
    """One implementation of a generic function."""

    function: Callable[..., Any]  # plain Python, for compiled code to compile
    entry: Callable[..., Any]  # called from Python
    host: bool  # it runs in Python only


TABLES: dict[str, dict[type, Implementation]] = {}


def call(name: str, first: Any, *rest: Any) -> Any:
    """The implementation for the type of ``first``, called from Python."""
    return TABLES[name][type(first)].entry(first, *rest)


def chosen(name: str, first: Any) -> Any:
    """The implementation for the Numba type of ``first``, for the compiler; None where there is no compiled one."""
    found = TABLES[name].get(getattr(first, "instance_class", None))
    return None if found is None or found.host else found.function


def implement(
    fn: Callable[..., Any], *kinds: type, host: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Registers an implementation of ``fn`` for first arguments of these types; gives back what Python calls."""

    def register(function: Callable[..., Any]) -> Any:
        entry = function if host or config.DISABLE_JIT else kernel(function)
        for kind in kinds:
            TABLES.setdefault(fn.__name__, {})[kind] = Implementation(function, entry, host)
        return entry

    return register


def is_host(fn: Callable[..., Any], kind: type) -> bool:
    """Whether the implementation for this type runs in Python only."""
    return TABLES[fn.__name__][kind].host


# --- what a family offers ------------------------------------------------------------------------------------------------------


def begin(rule, prior, state, work):
    """Before the inner loop: what the rule needs of the prior q_{t|t-1}, which ``state`` holds (blr, bbb: a copy in ``prior``)."""
    return call("begin", rule, prior, state, work)


@overload(begin, jit_options=OPTIONS)
def _begin(rule, prior, state, work):
    return chosen("begin", rule)


def step(rule, prior, state, g, G, work):
    """One step, in place on the arrays of ``state`` (q_{t,i-1} becomes q_{t,i}); -> status.

    ``prior`` holds q_{t|t-1} for blr and bbb and is not written; bong and bog read the prior in ``state`` itself.
    g (P,) is the expected gradient. G is the expected Hessian: for the diagonal families its diagonal (P,), for the others
    rows (K, P) with G = −rowsᵀ rows. Both may be overwritten. After a status other than OK ``state`` is invalid.
    """
    return call("step", rule, prior, state, g, G, work)


@overload(step, jit_options=OPTIONS)
def _step(rule, prior, state, g, G, work):
    return chosen("step", rule)


def end(rule, prior, state, work):
    """After the inner loop: ``state`` becomes q_t where the steps have deferred something; -> status."""
    return call("end", rule, prior, state, work)


@overload(end, jit_options=OPTIONS)
def _end(rule, prior, state, work):
    return chosen("end", rule)


def place(rule, prior, state, z, work):
    """The rows of z (M, P), standard normal, become samples θ ~ q_{t,i-1} (reference: gaussians.place); -> status."""
    return call("place", rule, prior, state, z, work)


@overload(place, jit_options=OPTIONS)
def _place(rule, prior, state, z, work):
    return chosen("place", rule)


def predict(dynamics, state, work):
    """``state`` becomes the prior of the next step (reference: dynamics.propagate); -> status. Chosen by dynamics and family."""
    return call("predict", dynamics, state, work)


@overload(predict, jit_options=OPTIONS)
def _predict(dynamics, state, work):
    return chosen("predict", dynamics)


# --- what an estimator offers --------------------------------------------------------------------------------------------------


def estimate(est, rule, prior, state, x, y, t, i, work):
    """est.g and est.G from the observation (x, y) of step t at q_{t,i-1}; -> status. Chosen by the estimator."""
    return call("estimate", est, rule, prior, state, x, y, t, i, work)


@overload(estimate, jit_options=OPTIONS)
def _estimate(est, rule, prior, state, x, y, t, i, work):
    return chosen("estimate", est)

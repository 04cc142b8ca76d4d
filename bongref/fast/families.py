"""The five families: which module has the steps of a method, and what Python needs of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..dynamics import Static, matrices
from ..states import State
from . import diag, dlr, fc, fc_forms, fc_loop
from .tuning import RENEWED


class Parts(NamedTuple):
    """What the loop works on: see loop.py."""

    rule: Any
    prior: Any
    state: Any
    work: Any


def start(m: Any, state: Any, K: int, moving: bool) -> Parts:
    """Arrays for a stream from ``state`` on, at most K columns in S; ``moving``: with dynamics."""
    alpha = float(m.params.get("alpha", 1))
    if m.family in ("diag", "diag_mom"):
        return Parts(*diag.start(m.family, m.rule, alpha, state))
    if m.family == "dlr":
        return Parts(*dlr.start(m.rule, alpha, state, K, m.hess == "mc-ef"))
    return Parts(*fc_forms.start(m, state, K, moving))


def finish(m: Any, parts: Parts) -> State:
    """The state, as a copy."""
    module: Any = (
        diag if m.family in ("diag", "diag_mom") else dlr if m.family == "dlr" else fc_forms
    )
    return module.finish(parts.rule, parts.state, parts.work)


def restore(parts: Parts, arrays: Any) -> Parts:
    """The state that these copies were made of, with what was deferred then."""
    for now, old in zip(parts.state, arrays, strict=True):
        now[...] = old
    if isinstance(parts.work, fc_loop.Loop):
        parts.work.age = RENEWED
    return parts


def dynamics(m: Any, P: int, K: int, given: Any) -> Any:
    """The dynamics θ_t ~ N(F θ_{t-1} + b, Q) as the family takes them."""
    if isinstance(given, Static):
        return Still(True)
    F, b, Q = matrices(given, P)
    if m.family in ("diag", "diag_mom"):
        return diag.DiagLinear(F, b, Q)
    return dlr.DlrLinear(F, b, Q) if m.family == "dlr" else fc_forms.linear(m, P, K, F, b, Q)


class Still(NamedTuple):
    """θ does not move. A type of its own without a ``predict``, so that none is compiled."""

    still: bool


def must_be_checked(rule: Any) -> bool:
    """Whether only Σ itself tells, at the end of a time slice, if it is positive definite."""
    return isinstance(rule, fc.BogMom)


def may_share(m: Any, rule: Any) -> bool:
    """Whether the threads of BLAS can help: with large products and factors of a covariance."""
    return m.family in ("fc", "fc_mom") and fc_forms.is_many(rule)

"""The five families: which module has the compiled steps of a method, and what Python needs of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..dynamics import Static, matrices
from ..states import State
from . import diag, dlr


class Parts(NamedTuple):
    """What the loop works on: see loop.py."""

    rule: Any
    prior: Any
    state: Any
    work: Any


def start(m: Any, state: Any, K: int, moving: bool) -> Parts:
    """Arrays for a stream of ``m`` that begins at ``state``, with at most K columns in S; ``moving``: there are dynamics."""
    alpha = float(m.params.get("alpha", 1))
    if m.family in ("diag", "diag_mom"):
        return Parts(*diag.start(m.family, m.rule, alpha, state))
    return Parts(*dlr.start(m.rule, alpha, state, K, m.hess == "mc-ef"))


def finish(m: Any, parts: Parts) -> State:
    """The state, as a copy."""
    module = diag if m.family in ("diag", "diag_mom") else dlr
    return module.finish(parts.rule, parts.state, parts.work)


def dynamics(m: Any, P: int, given: Any) -> Any:
    """The dynamics θ_t ~ N(F θ_{t-1} + b, Q) as the family takes them."""
    module = diag if m.family in ("diag", "diag_mom") else dlr
    if isinstance(given, Static):
        return module.Linear(np.zeros(0), np.zeros(0), np.zeros(0), False)
    F, b, Q = matrices(given, P)
    return module.Linear(F, b, Q, True)


def uses_blas(m: Any) -> bool:
    """Whether the steps call BLAS, which is then held to one thread."""
    return m.family not in ("diag", "diag_mom")


def must_be_checked(m: Any) -> bool:
    """Whether only the covariance itself tells, at the end of a time slice, if it is still positive definite."""
    return m.name.startswith("bog-") and m.family == "fc_mom"

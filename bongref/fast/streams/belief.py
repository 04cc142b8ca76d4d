"""The belief of a family inside a loop of Python: mutable, and exact about when it stops being a Gaussian."""

from __future__ import annotations

from typing import Any

from ...grid import Method


def belief(m: Method, state: Any, dyn: Any) -> Any:
    """The Belief of the method's family, starting at a state; ``dyn`` is None or (F, b, Q).

    It has ``mu``, ``predict()``, ``begin()``, ``draw(Z, out)``, ``step(g, rows)``, ``end()``, ``ok`` and ``state()``; a step that gives no
    Gaussian returns False, after which the belief is worth nothing. Where a step of a family cannot tell, ``ok`` or the state does.
    """
    if m.family in ("diag", "diag_mom"):
        from .diag import Belief as Diagonal

        return Diagonal(m, state, dyn)
    if m.family == "dlr":
        from .dlr import Belief as LowRank

        return LowRank(m, state, dyn)
    from .fc import Belief as Full

    return Full(m, state, dyn)

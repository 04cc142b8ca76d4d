"""Which form takes the steps of a method in the full-covariance families, and what Python needs of
it.

Few rows (lin-hess, lin-ef): fc.py, fc_blr.py and, with a single row, fc_bbb.py, in compiled code.
Many rows: fc_many.py, on BLAS and LAPACK, which may use their own threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..grid import FEW
from ..linalg import Array
from ..states import FC
from . import fc, fc_bbb, fc_blr, fc_many

Started = tuple[Any, Any, Any, Any]  # rule, prior, state, workspace


def many(m: Any, P: int, K: int) -> bool:
    """Whether the steps of ``m`` with K rows are taken by fc_many."""
    basis = m.n_iter + m.n_iter * (m.n_iter + 1) // 2  # vectors of a basis of bbb at most
    few = {
        "bong": True, "bog": K == 1 or m.family == "fc_mom", "blr": FEW * m.n_iter * K <= P,
        "bbb": K == 1 and 3 * basis <= P
    }
    return bool(m.hess.startswith("mc") or not few[m.rule])


def start(m: Any, state: FC, K: int, moving: bool) -> Started:
    """Arrays for a stream of ``m`` that begins at ``state``, with at most K rows; ``moving``: there
    are dynamics.
    """
    P, alpha, mom = len(state.mu), float(m.params.get("alpha", 1)), m.family == "fc_mom"
    if many(m, P, K):
        rule = getattr(fc_many, f"{m.rule.capitalize()}{'Mom' if mom else ''}Many")(alpha)
        return (
            rule, fc_many.many_prior(P, m.rule in ("blr", "bbb")),
            fc_many.many_state(state, m.family), None
        )
    rows = {
        "bong": K,
        "bog": max(K, fc.UNREAD) if mom else 2,
        "blr": K * m.n_iter,
        "bbb": min(fc_bbb.BASIS, P),
    }[m.rule]
    now = fc.covariance_state(state, rows)
    capacity, prior = len(now.V), fc.Prior(np.zeros(P))
    if m.rule == "blr":
        return (
            (fc_blr.BlrMom if mom else fc_blr.Blr)(alpha), prior, now,
            fc_blr.increment(P, rows, capacity)
        )
    if m.rule == "bbb":
        rule = fc_bbb.BbbMom(alpha, moving) if mom else fc_bbb.Bbb(alpha)
        return rule, prior, now, fc_bbb.basis(P, mom, capacity)
    rules = {
        "bong": (fc.Bong(1.0), fc.BongMom(1.0)), "bog": (fc.Bog(alpha), fc.BogMom(alpha, moving))
    }
    return rules[m.rule][mom], prior, now, fc.workspace(P, K, capacity)


def finish(rule: Any, state: Any, work: Any) -> FC:
    """The state as a copy; what was deferred stays so."""
    return (
        fc_many.finish_many(state)
        if isinstance(state, fc_many.Precision | fc_many.Moments)
        else fc.finish_few(state, work)
    )


def linear(m: Any, P: int, K: int, F: Array, b: Array, Q: Array) -> Any:
    """The dynamics θ_t ~ N(F θ_{t-1} + b, Q) as the form takes them; F and Q as (P,) or (P, P)."""
    if many(m, P, K):
        return fc_many.Moving(F, b, Q)
    if F.ndim == 1 and Q.ndim == 1:
        return fc.Diagonal(F, b, Q, bool(np.all(F == F[:1])))
    F, Q = (np.ascontiguousarray(np.diag(a) if a.ndim == 1 else a, dtype=float) for a in (F, Q))
    return fc.Full(F, b, Q)

"""Which form takes the steps of a method in the full-covariance families.

Few rows (lin-hess, lin-ef): fc.py in compiled code, and for blr and bbb fc_loop.py around its
kernels. Many rows: fc_many.py, on BLAS and LAPACK, which may use their own threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..grid import FEW
from ..linalg import Array
from ..states import FC
from . import fc, fc_loop, fc_many
from .tuning import BASIS, UNREAD

Started = tuple[Any, Any, Any, Any]  # rule, prior, state, workspace


def many(m: Any, P: int, K: int) -> bool:
    """Whether the steps of ``m`` with K rows are taken by fc_many."""
    basis = m.n_iter + m.n_iter * (m.n_iter + 1) // 2  # vectors of a basis of bbb at most
    few = {"bong": True, "bog": K == 1 or m.family == "fc_mom"}
    few |= {"blr": FEW * m.n_iter * K <= P, "bbb": K == 1 and 3 * basis <= P}
    return bool(m.hess.startswith("mc") or not few[m.rule])


def is_many(rule: Any) -> bool:
    """Whether the steps of a rule are taken by fc_many."""
    return type(rule).__module__ == fc_many.__name__


def start(m: Any, state: FC, K: int, moving: bool) -> Started:
    """Arrays for a stream from ``state`` on, at most K rows; ``moving``: there are dynamics."""
    P, alpha, mom = len(state.mu), float(m.params.get("alpha", 1)), m.family == "fc_mom"
    if many(m, P, K):
        rule = getattr(fc_many, f"{m.rule.capitalize()}{'Mom' if mom else ''}Many")(alpha)
        prior = fc_many.many_prior(P, m.rule in ("blr", "bbb"))
        return rule, prior, fc_many.many_state(state, m.family), None
    most = min(BASIS, P)
    rows = {"bong": K, "bog": max(K, UNREAD) if mom else 2, "blr": m.n_iter * K, "bbb": most}
    deferred = fc.covariance_state(state, rows[m.rule])
    few = fc.workspace(P, K, len(deferred.V))
    if m.rule in ("blr", "bbb"):
        rule = getattr(fc_loop, f"{m.rule.capitalize()}{'Mom' if mom else ''}Loop")(alpha)
        return rule, None, deferred, fc_loop.Loop(most, few)
    bog, bong = (fc.Bog(alpha), fc.BogMom(alpha, moving)), (fc.Bong(1.0), fc.BongMom(1.0))
    return (bog if m.rule == "bog" else bong)[mom], None, deferred, few


def finish(rule: Any, state: Any, work: Any) -> FC:
    """The state as a copy; what was deferred stays so."""
    if not isinstance(state, fc.State):
        return fc_many.finish_many(state)
    return fc.finish_few(state, work.few if isinstance(work, fc_loop.Loop) else work)


def linear(m: Any, P: int, K: int, F: Array, b: Array, Q: Array) -> Any:
    """The dynamics θ_t ~ N(F θ_{t-1} + b, Q) as the form takes them; F and Q as (P,) or (P, P)."""
    if many(m, P, K):
        return fc_many.Moving(F, b, Q)
    if F.ndim == 1 and Q.ndim == 1:
        by: Any = fc.Diagonal(F, b, Q, bool(np.all(F == F[:1])))
    else:
        F, Q = (np.ascontiguousarray(np.diag(a) if a.ndim == 1 else a, dtype=float) for a in (F, Q))
        by = fc.Full(F, b, Q)
    return fc_loop.Moved(by) if m.rule in ("blr", "bbb") else by

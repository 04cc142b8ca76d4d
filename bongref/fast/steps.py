"""The compiled steps with the signatures of the family modules: ``step(m, prior, current, curv)``,
for tests and the adapter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import curvature
from ..curvature import Curv
from ..states import State
from . import families, threads
from .generic import begin, end
from .generic import step as compiled_step


def why_not(m: Any, curv: Curv) -> str:
    """Why there is no compiled step; empty where there is one."""
    if m.family not in ("diag", "diag_mom") and curv.S is None:
        return "G must be given as -S S^T"
    return ""


def step(m: Any, prior: State, current: State | None, curv: Curv) -> tuple[State, int]:
    """q_{t,i} and the status; blr and bbb in fc, fc_mom need current = prior. Reference: step."""
    diagonal = m.family in ("diag", "diag_mom")
    G = curvature.diagonal(curv) if diagonal else np.ascontiguousarray(curv.S.T)
    g, G = np.array(curv.g, float), np.array(G, float)
    start = prior if current is None or m.rule in ("bong", "bog") else current
    with threads.one_blas_thread(), np.errstate(all="ignore"):
        parts = families.start(m, prior, 1 if diagonal else len(G), False)
        rule, before, state, work = parts
        begin(rule, before, state, work)
        if start is not prior:
            for a, b in zip(state, families.start(m, start, len(G), False).state, strict=True):
                a[...] = b
        status = compiled_step(rule, before, state, g, G, work) or end(rule, before, state, work)
        return families.finish(m, parts), status

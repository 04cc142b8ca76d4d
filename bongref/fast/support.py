"""What is compiled, and why something is not."""

from __future__ import annotations

from typing import Any

from ..dynamics import Static, matrices
from .likelihoods import KINDS


def why_not(
    m: Any, model: Any, lik: Any, prior: Any, dynamics: Any, *, trace: bool, form: str
) -> str:
    """Why this stream has no compiled path; empty where it has one."""
    if trace:
        return "trace=True records every symbol, which only the reference does"
    if form != "auto":
        return f"form={form!r} asks for one form of the equations, which only the reference chooses"
    if m.params.get("virtual"):
        return "virtual=True draws observations between the samples"
    if m.hess == "mc-hess":
        return f"{m.name} needs the Hessian of the network, which autograd computes"
    if getattr(lik, "name", None) not in KINDS:
        return f"the likelihood {lik!r} is not one of {', '.join(KINDS)}"
    if m.family not in ("fc", "fc_mom") and not isinstance(dynamics, Static):
        F, _, Q = matrices(dynamics, len(prior.mu))
        if F.ndim == 2 or Q.ndim == 2:
            return "the dynamics are not diagonal"
    return ""

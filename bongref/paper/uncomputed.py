"""Equations that no code computes, by id or glob, each with the reason. A mark in the code takes precedence."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_FISHER = "a step towards the Fisher block; the block's value is computed"
_QUANTITY = "names a quantity without giving it; each family's value is computed in its own section"
_LIKELIHOOD = "a property of exponential families; tests/test_likelihoods.py holds every likelihood to it"

REASONS: dict[str, str] = {
    "eq:nELBO": "the batch loss; the online loss eq:online-variational-loss takes its place",
    "eq:online-VB": "the exact variational problem; its stationary point is computed as eq:bong-implicit",
    "sec:proofs#1[456]": _LIKELIHOOD,
    "sec:proofs#2[04]": "the row before it with F = R^-1 H put in; computed as eq:gL and eq:GL",
    "sec:derivations#[1-7]": _QUANTITY,
    "sec:derivations#1[34]": "a substitution; what is substituted is eq:gL and eq:GL",
    "sec:derivations#2[01]": "a substitution; what is substituted is sec:derivations#18 and sec:derivations#19",
    "sec:FC-Mom#[689]": _FISHER,
    "sec:FC-Mom#1[1-467]": _FISHER,
    "sec:diag-Mom#[689]": _FISHER,
    "sec:diag-Mom#1[12]": _FISHER,
    "sec:blr-batch#2[29]": "a factor of R^-1, which the estimator delivers inside S",
}


def is_glob(id: str) -> bool:
    """Whether a key of REASONS is a pattern."""
    return bool(re.search(r"[*?\[]", id))


def reason(id: str) -> str:
    """Why no code computes this equation; empty if there is no reason on record."""
    return REASONS.get(id, "") or next((why for glob, why in REASONS.items() if fnmatchcase(id, glob)), "")

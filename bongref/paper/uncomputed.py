"""Equations that no code computes, by id or glob, each with the reason. A mark in the code takes precedence."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_CHAIN = "a step of the chain rule, taken by hand; its result is the labelled gradient that follows, which is computed"
_FISHER = "a step towards the Fisher block; the block's value is computed"
_QUANTITY = "names a quantity without giving it; each family's value is computed in its own section"
_IDENTITY = "an identity of Bonnet and Price that the derivations start from; the code starts from its right-hand side"
_MIRROR = "mirror descent formulation; it arrives at eq:bong-MD, which is computed; no mirror module in this version"
_BATCH = "batch form; the online form it specialises is computed, see {}; no batch module in this version"

REASONS: dict[str, str] = {
    "eq:nELBO": "the batch loss; the online loss eq:online-variational-loss takes its place",
    "eq:online-VB": "the exact variational problem; the rules take gradient steps on eq:online-variational-loss",
    "eq:conjugate-likelihood": "a hypothesis of Proposition 4.1; no conjugate module in this version",
    "sec:conjugate#2": "a hypothesis of Proposition 4.1; no conjugate module in this version",
    "sec:proofs#[1-9]": "proof of Proposition 4.1",
    "eq:bayes-conjugate-update": "proof of Proposition 4.1; no conjugate module in this version",
    "sec:proofs#1[0-9]": "proof of Proposition 4.2; its result is eq:gL and eq:GL",
    "sec:proofs#2[0-4]": "proof of Proposition 4.2; its result is eq:gL and eq:GL",
    "sec:MD-formulation#*": _MIRROR,
    "eq:MD-opt-problem": _MIRROR,
    "eq:KL-bregman": _MIRROR,
    "eq:MD-iterated": _MIRROR,
    "eq:bong-linearized-optimization": _MIRROR,
    "eq:bong-as-linearized-optimization": _MIRROR,
    "eq:online-VB-as-MD": _MIRROR,
    "eq:bong-implicit": "the implicit update; no mirror module in this version",
    "sec:derivations#[1-7]": _QUANTITY,
    "sec:derivations#[89]": _IDENTITY,
    "sec:derivations#1[0-2]": _IDENTITY,
    "sec:derivations#1[34]": "a substitution; what is substituted is eq:gL and eq:GL",
    "sec:derivations#2[01]": "a substitution; what is substituted is sec:derivations#18 and sec:derivations#19",
    "sec:FC-Nat#[89]": _CHAIN,
    "sec:FC-Nat#1[0-9]": _CHAIN,
    "sec:FC-Nat#2[01]": _CHAIN,
    "sec:diag-Nat#[89]": _CHAIN,
    "sec:diag-Nat#1[0-9]": _CHAIN,
    "sec:diag-Nat#2[01]": _CHAIN,
    "sec:DLR-deriv#[45]": _CHAIN,
    "sec:FC-Mom#[689]": _FISHER,
    "sec:FC-Mom#1[1-467]": _FISHER,
    "sec:diag-Mom#[689]": _FISHER,
    "sec:diag-Mom#1[12]": _FISHER,
    "sec:DLR-deriv#16": "restates sec:DLR-deriv#15 in the factors of the two rows that follow",
    "sec:BLR-DLR#2": "restates sec:BLR-DLR#1 in the factors of the two rows that follow",
    "sec:blr-batch#[1-4]": _BATCH.format("eq:blr-FC-nat-mu"),
    "sec:blr-batch#[5-8]": _BATCH.format("eq:blr-FC-mom-mu"),
    "sec:blr-batch#9": _BATCH.format("eq:blr-diag-mu"),
    "sec:blr-batch#1[0-2]": _BATCH.format("eq:blr-diag-mu"),
    "sec:blr-batch#1[3-6]": _BATCH.format("eq:blr-diag-mom-mu"),
    "eq:slang-mu": _BATCH.format("eq:blr-dlr-mu"),
    "eq:slang-Wtilde": _BATCH.format("eq:blr-dlr-Wtilde"),
    "sec:blr-batch#1[89]": _BATCH.format("sec:BLR-DLR"),
    "sec:blr-batch#2[0-3]": _BATCH.format("sec:BLR-DLR"),
    "sec:blr-batch#2[4-9]": _BATCH.format("sec:LBLR-DLR"),
    "sec:blr-batch#30": _BATCH.format("sec:LBLR-DLR"),
}


def is_glob(id: str) -> bool:
    """Whether a key of REASONS is a pattern."""
    return bool(re.search(r"[*?\[]", id))


def reason(id: str) -> str:
    """Why no code computes this equation; empty if there is no reason on record."""
    return REASONS.get(id, "") or next((why for glob, why in REASONS.items() if fnmatchcase(id, glob)), "")

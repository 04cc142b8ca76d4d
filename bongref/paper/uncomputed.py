"""Equations that no code computes, by id or glob, each with the reason.

A mark in the code takes precedence. The reasons are in uncomputed.json, which is read when they
are first asked for.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache

from ..errors import InvalidType
from ..tables import describe
from .source import read

REASONS: dict[str, str]


@cache
def _load() -> dict[str, str]:
    return {id: row["reason"] for row in read("uncomputed") for id in row["equations"]}


def __getattr__(name: str) -> dict[str, str]:
    if name == "REASONS":
        return _load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_glob(id: str) -> bool:
    """Whether a key of REASONS is a pattern."""
    return bool(re.search(r"[*?\[]", id))


def reason(id: str) -> str:
    """Why no code computes this equation; empty if there is no reason on record.

    Parameters
    ----------
    id : str
        Of an equation.

    Returns
    -------
    str

    Examples
    --------
    >>> from bongref import paper
    >>> paper.reason("eq:bong-FC-prec")
    ''
    """
    if not isinstance(id, str):
        raise InvalidType(f"id must be a str such as 'eq:bong', got {describe(id)}")
    known = _load()
    return known.get(id, "") or next((why for k, why in known.items() if fnmatchcase(id, k)), "")

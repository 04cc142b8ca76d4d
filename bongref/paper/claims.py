"""What the paper states and this project can test, each with a verdict and the evidence for it.

A claim is in this ledger if it can be true or false: equivalences, special cases, definiteness,
costs, counts, exactness, stability, conclusions of experiments. Evidence is a test (a pytest node
id), an erratum (E07) or an equation; the verdicts on experiments are those of docs/story.md, with
the commands that compute them. The entries are in claims.json, which is read when ``CLAIMS`` is
first used.

>>> from bongref.paper import claims
>>> claims.claim("C04").verdict
'holds'
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ..errors import InvalidValue
from .source import read

KINDS = ("equivalence", "exactness", "structure", "cost", "count", "stability", "experiment")
VERDICTS = ("holds", "holds with a condition", "does not hold", "not tested")
CLAIMS: tuple[Claim, ...]


class Claim(NamedTuple):
    """A statement of the paper: where it is made, whether it holds, and how we know.

    Attributes
    ----------
    id : str
        C01, ...
    where : str
        An equation, a section or a table.
    kind : str
    statement : str
        In our words.
    verdict : str
    number : str
        The condition, the number, or why it is not tested.
    evidence : tuple of str
    line : int
        In the paper's LaTeX.
    also : tuple of str
        Other places where it is made.
    methods : tuple of str
        Globs over method names.

    Examples
    --------
    >>> from bongref import paper
    >>> paper.CLAIMS[0].id
    'C01'
    """

    id: str  # C01, ...
    where: str  # an equation, a section or a table
    kind: str
    statement: str  # in our words
    verdict: str
    number: str  # the condition, the number, or why it is not tested
    evidence: tuple[str, ...]
    line: int  # in the paper's LaTeX
    also: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()  # globs over method names


@cache
def _load() -> tuple[Claim, ...]:
    lists = ("evidence", "also", "methods")
    rows = read("claims")
    return tuple(Claim(**{**row, **{k: tuple(row.get(k, ())) for k in lists}}) for row in rows)


def __getattr__(name: str) -> tuple[Claim, ...]:
    if name == "CLAIMS":
        return _load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def for_equation(id: str) -> tuple[Claim, ...]:
    """The claims about this equation, section or table."""
    return tuple(c for c in _load() if id == c.where or id in c.also)


def claim(id: str) -> Claim:
    """The claim with this id, in either case; an InvalidValue if there is none."""
    for c in _load():
        if c.id == id.upper():
            return c
    raise InvalidValue(f"id must be one of C01 to {_load()[-1].id}, got {id!r}")

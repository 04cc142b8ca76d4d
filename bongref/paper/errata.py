"""What the paper prints and what it should print. The code computes the corrected form.

Kinds: typo (no reader is misled), index (a wrong time or iteration index), convention (true under
one reading only), wrong claim, wrong cost, remark (nothing is wrong: a better form, or two things
under one name). ``where`` is the id of the equation, or of the section
or table when the slip is in its text; ``also`` are the other places with the same slip. Printed
forms that give other numbers are functions of :mod:`bongref.paper.printed`. An erratum without a
test has been established by reading two places of the paper against each other. The entries are
in errata.json, which is read when ``ERRATA`` is first used.

>>> from bongref.paper import errata
>>> errata.erratum("E10").name
'blr-rule'
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ..errors import InvalidType, InvalidValue
from ..tables import describe
from .source import read

KINDS = ("typo", "index", "convention", "wrong claim", "wrong cost", "remark")
NOT_COMPARED = "not compared"
REASON = (
    "the proceedings' text (NeurIPS 2024, volume 37, pages 131104 to 131153) is not compared: of "
    "the public copies that could be searched only the opening is stored, up to the second "
    "paragraph of the introduction, which has the same words as these LaTeX files and no erratum"
)
ERRATA: tuple[Erratum, ...]


class Erratum(NamedTuple):
    """A slip of the paper: what is printed, what is meant, and what the printed form would change.

    Attributes
    ----------
    id : str
        E01, ...: stable.
    name, where, kind : str
    printed, corrected, effect : str
    line : int
        In the paper's LaTeX.
    also : tuple of str
        Other equations that have it.
    latex : str
        A piece of the equation as the ledger has it that shows the slip.
    test : str
        The test that fails if the printed form were right; empty where it was found by reading.
    function : str
        The printed form, in :mod:`bongref.paper.printed`.
    methods : tuple of str
        Globs of the methods; empty: those of its equations.
    proceedings : str
        Whether the proceedings' text has it too.

    Examples
    --------
    >>> from bongref import paper
    >>> paper.ERRATA[0].id
    'E01'
    """

    id: str  # E01, ...: stable
    name: str
    where: str
    kind: str
    printed: str
    corrected: str
    effect: str
    line: int  # in the paper's LaTeX
    also: tuple[str, ...] = ()
    latex: str = ""  # a piece of the equation as the ledger has it that shows the slip
    test: str = ""  # goes red if the printed form were right; empty: by reading
    function: str = ""  # the printed form, in bongref.paper.printed
    methods: tuple[str, ...] = ()  # globs of the methods; empty: those of its equations
    proceedings: str = NOT_COMPARED  # whether the proceedings' text has it too


@cache
def _load() -> tuple[Erratum, ...]:
    rows, lists = read("errata"), ("also", "methods")
    return tuple(Erratum(**{**row, **{k: tuple(row.get(k, ())) for k in lists}}) for row in rows)


def __getattr__(name: str) -> tuple[Erratum, ...]:
    if name == "ERRATA":
        return _load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def for_equation(id: str) -> tuple[Erratum, ...]:
    """The errata at this equation, or at this section's or table's text.

    Parameters
    ----------
    id : str
        Of an equation, a section or a table.

    Returns
    -------
    tuple of Erratum

    Raises
    ------
    UnknownEquation
        If the paper has no such equation, section or table.

    Examples
    --------
    >>> from bongref import paper
    >>> len(paper.for_equation("eq:bong"))
    0
    """
    if not isinstance(id, str):
        raise InvalidType(f"id must be a str such as 'eq:bong', got {describe(id)}")
    return tuple(e for e in _load() if id == e.where or id in e.also)


def erratum(id: str) -> Erratum:
    """The erratum with this id (E07) or name, in either case; an InvalidValue if there is none."""
    for e in _load():
        if id.lower() in (e.id.lower(), e.name.lower()):
            return e
    raise InvalidValue(f"id must be one of E01 to {_load()[-1].id} or a name, got {id!r}")

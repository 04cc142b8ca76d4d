"""The equations of the paper, and how the code and the tests cover them. Nothing is read at import.

>>> from bongref import paper
>>> e = paper.equation("eq:bong-FC-prec")
>>> e.number, e.kind
(121, 'update')
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..errors import InvalidType, InvalidValue
from ..tables import describe
from . import claims, errata, source, uncomputed
from .marks import computed

KINDS = ("definition", "gradient", "update", "efficient form", "proof step", "cost")


class Equation(NamedTuple):
    """One displayed row of the paper.

    Attributes
    ----------
    id : str
        The label, or ``sec:NAME#n``.
    latex : str
        Standard LaTeX, the paper's macros expanded.
    section : str
        Titles, outermost first.
    scope : str
        The nearest labelled section.
    kind : str
        One of ``KINDS``.
    methods : tuple of str
        Globs over method names; empty where it belongs to none.
    line : int
        In the paper's LaTeX.
    number : int or None
        That the PDF prints; rows of pseudocode have none.
    algorithm : str
        Of a row of pseudocode its algorithm, ``algo:...``.

    Examples
    --------
    >>> from bongref import paper
    >>> paper.equation("eq:bong-MD").id
    'eq:bong-MD'
    """

    id: str  # the label, or sec:NAME#n
    latex: str  # standard LaTeX, the paper's macros expanded
    section: str  # titles, outermost first
    scope: str  # the nearest labelled section
    kind: str  # one of KINDS
    methods: tuple[str, ...]  # globs over method names; empty where it belongs to none
    line: int  # in the paper's LaTeX
    number: int | None = None  # that the PDF prints; rows of pseudocode have none
    algorithm: str = ""  # pseudocode rows: algo:...


class Coverage(NamedTuple):
    """How the ledger and the code stand to each other.

    Attributes
    ----------
    computed : tuple of str
    reasons : dict of str to str
        The equations that are not computed, and why.
    missing : tuple of str
        Those that are neither computed nor have a reason.
    unknown : tuple of str
        Ids in code, tests, errata or reasons that the ledger does not have.
    untested : tuple of str
        Updates and efficient forms that code computes and no test marks.

    Examples
    --------
    >>> Coverage((), {}, (), (), ()).missing
    ()
    """

    computed: tuple[str, ...]
    reasons: dict[str, str]  # not computed, and why
    missing: tuple[str, ...]  # neither computed nor excused
    unknown: tuple[str, ...]  # named in code, tests, errata or reasons, absent from the ledger
    untested: tuple[str, ...]  # updates and efficient forms that code computes and no test marks


class UnknownEquation(InvalidValue, KeyError):
    """No equation has this id; the message names the nearest.

    Examples
    --------
    >>> from bongref import paper
    >>> try:
    ...     paper.equation("eq:bong-MDX")
    ... except paper.UnknownEquation as error:
    ...     print("eq:bong-MD" in str(error))
    True
    """

    def __init__(self, id: str, known: Iterable[str], hint: str = "") -> None:
        by_lower = {name.lower(): name for name in known}
        starting = [name for name in by_lower if len(id) > 3 and name.startswith(id.lower())]
        starting.sort(key=lambda name: "#" in name)
        near = starting or difflib.get_close_matches(id.lower(), list(by_lower), n=3, cutoff=0.4)
        said = f"; nearest: {', '.join(by_lower[n] for n in near[:3])}" if near else ""
        super().__init__(f"no equation {id!r} in the paper{said}{hint}")

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def _load() -> dict[str, Equation]:
    rows = source.read("equations")
    return {row["id"]: Equation(**{**row, "methods": tuple(row["methods"])}) for row in rows}


def equations() -> dict[str, Equation]:
    """Every displayed equation of the paper.

    Returns
    -------
    dict of str to Equation
        By id, in the paper's order.

    Examples
    --------
    >>> from bongref import paper
    >>> list(paper.equations())[:3]
    ['eq:nELBO', 'eq:online-variational-loss', 'eq:bong']
    """
    return dict(_load())


def equation(id: str) -> Equation:
    """Equation with this id.

    Parameters
    ----------
    id : str
        A label of the paper, or ``sec:NAME#n`` for the n-th row of a section.

    Returns
    -------
    Equation

    Raises
    ------
    UnknownEquation
        If there is none; the message names the nearest ids.

    Examples
    --------
    >>> from bongref import paper
    >>> paper.equation("eq:bong").number
    3
    """
    if not isinstance(id, str):
        raise InvalidType(f"id must be a str such as 'eq:bong', got {describe(id)}")
    try:
        return _load()[id]
    except KeyError:
        raise UnknownEquation(id, [*_load(), *scopes()]) from None


def scopes() -> dict[str, list[Equation]]:
    """Rows by labelled section and by algorithm."""
    out: dict[str, list[Equation]] = {}
    for e in _load().values():
        for name in (e.scope, e.algorithm):
            if name:
                out.setdefault(name, []).append(e)
    return out


def tests() -> dict[str, list[str]]:
    """The tests marked with each equation, as ``python -m bongref.paper.index`` found them.

    Returns
    -------
    dict of str to list of str
        Pytest node ids by the equation's id.

    Examples
    --------
    >>> from bongref import paper
    >>> paper.tests()["eq:bong-FC-prec"][-1]
    'tests/test_routes.py::test_module_is_exact'
    """
    path = source.HERE / "tests.json"
    found: dict[str, list[str]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def coverage(root: str | Path | None = None) -> Coverage:
    """Which equations code computes, which have a reason why not, and which are missing.

    Parameters
    ----------
    root : str or Path, optional
        The folder of the sources; the installed package if not given.

    Returns
    -------
    Coverage

    Examples
    --------
    >>> from bongref import paper
    >>> paper.coverage().missing
    ()
    """
    known, by_scope, places, marked = _load(), scopes(), computed(root), tests()
    used = {id for id in places if id in known}
    used |= {e.id for id in places if id.startswith("algo:") for e in by_scope.get(id, ())}
    reasons = {id: why for id in known if id not in used and (why := uncomputed.reason(id))}
    of_errata = [w for e in errata.ERRATA for w in (e.where, *e.also)]
    of_claims = [w for c in claims.CLAIMS for w in (c.where, *c.also)]
    cited = [w for w in (*of_errata, *of_claims) if source.item(w) is None]
    excused = [id for id in uncomputed.REASONS if not uncomputed.is_glob(id)]
    named = [*places, *marked, *cited, *excused]
    return Coverage(
        computed=tuple(id for id in known if id in used),
        reasons=reasons,
        missing=tuple(id for id in known if id not in used and id not in reasons),
        unknown=tuple(dict.fromkeys(id for id in named if id not in known and id not in by_scope)),
        untested=tuple(
            id
            for id, e in known.items()
            if id in used
            and e.kind in ("update", "efficient form")
            and not (marked.get(id) or marked.get(e.algorithm))
        ),
    )

"""Equations and other parts of the paper by id, by the number that the PDF prints, and by words.

>>> from bongref.paper import lookup
>>> [e.id for e in lookup.find("(3)")], [e.id for e in lookup.find("Proposition 4.2")]
(['eq:bong'], ['thm:lbong'])
>>> [e.id for e in lookup.find("EQ:gl*")]
['eq:gL', 'eq:GL', 'eq:gL-cheap', 'eq:GLEF']
"""

from __future__ import annotations

import ast
import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from ..errors import InvalidType, InvalidValue
from ..tables import describe
from . import claims, errata, source
from .ledger import Equation, UnknownEquation, equations
from .marks import PACKAGE, computed, functions
from .source import Item

KIND = {
    **dict.fromkeys(("section", "sec", "appendix", "app", "§"), "section"),
    **dict.fromkeys(("proposition", "prop", "theorem", "thm"), "proposition"),
    **dict.fromkeys(("table", "tab"), "table"),
    **dict.fromkeys(("algorithm", "algo", "alg"), "algorithm"),
}
EQUATION = re.compile(r"(?:(?:equation|eqn?|eq)s?\.?\s*)?\(?(\d+)\)?", re.IGNORECASE)
NUMBERED = re.compile(r"([a-z]+|§)\.?\s*([a-z](?:\.\d+)*|\d+(?:\.\d+)*)", re.IGNORECASE)
REFERENCE = re.compile(r"\\[a-z]+\{(.+)\}", re.IGNORECASE)  # \eqref{eq:bong} of the LaTeX
SEVERAL = re.compile(r"\(?\d+\)?(?:\s*(?:[-–, ]|\.\.|and|to)\s*\(?\d+\)?)+")
NUMBER = re.compile(r"[a-z](?:\.\d+)*|\d+(?:\.\d+)+", re.IGNORECASE)


# --- by id and by number ------------------------------------------------------------------------


def find(query: str) -> list[Equation | Item]:
    """Everything that an id, a printed number or a glob names.

    Parameters
    ----------
    query : str
        A label or row (``eq:bong``, ``sec:FC-Mom#21``), the number that the PDF prints (``23``,
        ``(23)``, ``Proposition 4.1``, ``Table 1``, ``Algorithm 2``, ``Appendix E.1``), a reference
        of the LaTeX source, or a glob over ids (``eq:bog-*``). Case does not matter.

    Returns
    -------
    list of Equation and Item
        In the paper's order; more than one for a glob, or for a number that a section and a
        proposition share.

    Raises
    ------
    UnknownEquation
        If nothing is named so; the message says what comes near.
    """
    if not isinstance(query, str):
        raise InvalidType(f"query must be a str such as 'eq:bong' or '(3)', got {describe(query)}")
    query = REFERENCE.sub(r"\1", query.strip())
    known = _by_id()
    lower = query.lower()
    if lower in known:
        return [t for t in known[lower] if t.id == query] or known[lower]
    if found := _by_number(query):
        return found
    if re.search(r"[*?\[]", query):
        matched = [t for ts in known.values() for t in ts if fnmatchcase(t.id.lower(), lower)]
        if matched:
            return sorted(matched, key=lambda t: t.line)
        raise UnknownEquation(query, (), "; no id matches this glob, see `bongref eq`")
    raise _unknown(query)


@cache
def _by_id() -> dict[str, list[Equation | Item]]:
    """Ids in lower case; a few differ in case only, so each has a list."""
    out: dict[str, list[Equation | Item]] = {}
    every: list[Equation | Item] = [*source.items(), *equations().values()]
    for target in every:
        if target.id:
            out.setdefault(target.id.lower(), []).append(target)
    return out


def _by_number(query: str) -> list[Equation | Item]:
    if m := EQUATION.fullmatch(query):
        return [e for e in equations().values() if e.number == int(m[1])]
    if (m := NUMBERED.fullmatch(query)) and m[1].lower() in KIND:
        kind, number = KIND[m[1].lower()], m[2].upper()
        return [i for i in source.items() if (i.kind, i.number) == (kind, number)]
    if NUMBER.fullmatch(query):
        return [i for i in source.items() if i.number == query.upper() and not i.number.isdigit()]
    return []


def _unknown(query: str) -> UnknownEquation:
    """The error with the right hint: the range of numbers, the names of this kind, or near ids."""
    if EQUATION.fullmatch(query):
        last = max(e.number or 0 for e in equations().values())
        return UnknownEquation(query, (), f"; it prints (1) to ({last})")
    m = NUMBERED.fullmatch(query)
    if m and m[1].lower() in KIND:
        names = [i.name for i in source.items() if i.kind == KIND[m[1].lower()]]
        wanted = Item(KIND[m[1].lower()], m[2].upper(), "", 0).name
        near = difflib.get_close_matches(wanted, names, n=3, cutoff=0)
        return UnknownEquation(query, (), f"; there are {', '.join(sorted(near))}")
    if m and m[1].lower() in ("figure", "fig"):
        return UnknownEquation(query, (), "; figures are not listed, see `bongref eq` for what is")
    ids = [t.id for ts in _by_id().values() for t in ts]
    if SEVERAL.fullmatch(query):
        return UnknownEquation(query, (), "; give one number at a time")
    if NUMBER.fullmatch(query):
        numbers = [i.number for i in source.items() if i.kind == "section"]
        alike = [n for n in numbers if n[0] == query[0].upper()] or numbers
        near = difflib.get_close_matches(query.upper(), alike, n=3, cutoff=0)
        return UnknownEquation(query, (), f"; of the sections nearest: {', '.join(sorted(near))}")
    if not query:
        return UnknownEquation(query, (), "; give an id, a number or a glob, or see `bongref eq`")
    words = re.fullmatch(r"[^\W\d_]+(?: [\w.'-]+)*", query)
    hint = f"; to search by words: bongref eq --search {query!r}" if words else ""
    return UnknownEquation(query, () if " " in query else ids, hint)


# --- by words -----------------------------------------------------------------------------------

SYNONYMS = {
    "fc": "full covariance",
    "diag": "diagonal",
    "dlr": "diagonal plus low rank",
    "mom": "moment",
    "mc": "monte carlo samples",
    "lin": "linearized linearised",
    "hess": "hessian",
    "ef": "empirical fisher",
    "bong": "bayesian online natural gradient",
    "blr": "bayesian learning rule",
    "bog": "bayesian online gradient",
    "bbb": "bayes by backprop",
    "nabla": "gradient",
    "sigma": "covariance variance",
    "upsilon": "diagonal",
    "kl": "divergence",
    "prec": "precision",
    "cov": "covariance",
    "nll": "likelihood",
    "k": "gain",
    "svd": "singular value projection",
    "elbo": "variational",
}
ENDING = re.compile(r"(?:izations?|isations?|ations?|ions?|ings?|ized?|ised?|ed|es|s|al|e)$")


class Hit(NamedTuple):
    """One result of a search."""

    target: Equation | Item
    score: float
    missing: tuple[str, ...]  # the words of the query that it does not have


def search(query: str) -> list[Hit]:
    """Equations, sections, propositions, tables and algorithms by words, the best first.

    The words are looked for in the LaTeX, the titles of sections, the kind, the names of methods,
    the functions and symbols of the code that computes an equation and their docstrings, the
    captions of algorithms and tables, and the claims and errata.

    Parameters
    ----------
    query : str
        Words; spelling and endings may differ.

    Returns
    -------
    list of Hit
        First those that have every word.

    Raises
    ------
    InvalidValue
        If nothing has any of the words; the message says what to try.
    """
    if not isinstance(query, str):
        raise InvalidType(f"query must be words, got {describe(query)}")
    wanted = list(dict.fromkeys(_words(query)))
    if not wanted:
        raise InvalidValue(f"search must have a word of letters, got {query!r}")
    index = _index()
    weight = {
        w: math.log(1 + len(index) / (1 + sum(_has(words, w) > 0 for _, words in index)))
        for w in wanted
    }
    hits = []
    for target, words in index:
        scores = {w: _has(words, w) for w in wanted}
        total = sum(weight[w] * score for w, score in scores.items())
        if total:
            hits.append(Hit(target, total, tuple(w for w, score in scores.items() if not score)))
    if not hits:
        raise InvalidValue(_nothing(query, wanted))
    hits.sort(key=lambda h: (len(h.missing), -h.score, h.target.line))
    least = len(hits[0].missing)
    return [h for h in hits if len(h.missing) == least]


def _words(text: str) -> list[str]:
    """Words in lower case, the parts of labels and of names of code apart."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return [w.lower() for w in re.findall(r"[^\W\d_]+", text)]


@cache
def _stem(word: str) -> str:
    stem = ENDING.sub("", word)
    return stem if len(stem) >= 4 else word


def _has(words: dict[str, float], word: str) -> float:
    """The weight with which a target has a word: whole, by its stem, or as the start of another."""
    if word in words:
        return words[word]
    stem = _stem(word)
    if len(stem) < 4:
        return 0.0
    near = ((w, 0.8 if _stem(w) == stem else 0.4) for w in words if w.startswith(stem[:4]))
    return max((f * words[w] for w, f in near if f == 0.8 or w.startswith(stem)), default=0.0)


@cache
def _index() -> list[tuple[Equation | Item, dict[str, float]]]:
    """The words of every part of the paper, each with the weight of the field it stands in."""
    captions = {i.id: i.title for i in source.items()}
    # of the compiled path the reference's counterparts are in the list already
    places = {
        id: [p for p in found if not p.file.startswith("bongref/fast/")]
        for id, found in computed().items()
    }
    said = _said_about()
    docs = _first_sentences(p.file for ps in places.values() for p in ps)
    out: list[tuple[Equation | Item, dict[str, float]]] = []
    for e in equations().values():
        code = [*places.get(e.id, ()), *places.get(e.algorithm, ())]
        names = [f"{p.function} {p.symbol} {p.file.split('/')[-1]}" for p in code]
        sentences = [docs.get((p.file, p.function), "") for p in code]
        fields = {e.id: 3.0, e.section.split(" / ")[-1]: 2.5, e.section: 1.5, e.kind: 2.0}
        fields |= {" ".join(e.methods): 1.5, captions.get(e.algorithm, ""): 2.0}
        fields |= {" ".join(names): 2.0, " ".join(sentences): 2.0, e.latex: 1.0}
        out.append((e, _weigh({**fields, said.get(e.id, ""): 1.0})))
    for i in source.items():
        fields = {i.id: 3.0, i.title: 4.0, i.name: 3.0}
        out.append((i, _weigh({**fields, said.get(i.id, ""): 0.5})))
    return out


def _weigh(fields: dict[str, float]) -> dict[str, float]:
    """Each word with the sum of the weights of its fields; what it stands for counts half."""
    out: Counter[str] = Counter()
    for text, weight in fields.items():
        words = set(_words(text))
        also = {s for word in words for s in SYNONYMS.get(word, "").split()} - words
        out.update({**dict.fromkeys(words, weight), **dict.fromkeys(also, weight / 2)})
    return dict(out)


def _said_about() -> dict[str, str]:
    """What the claims and errata say about each equation or place."""
    said: dict[str, str] = {}
    for c in claims.CLAIMS:
        for where in (c.where, *c.also):
            said[where] = f"{said.get(where, '')} {c.statement} {c.id}"
    for e in errata.ERRATA:
        for where in (e.where, *e.also):
            said[where] = f"{said.get(where, '')} {e.name} {e.corrected} {e.id}"
    return said


def _first_sentences(files: Iterable[str]) -> dict[tuple[str, str], str]:
    """(file, function) -> the first line of its docstring."""
    out: dict[tuple[str, str], str] = {}
    for file in sorted(set(files)):
        tree = ast.parse((PACKAGE.parent / file).read_text(encoding="utf-8"))
        for name, node in functions(tree):
            out[file, name] = (ast.get_docstring(node) or "").split("\n")[0]
    return out


def _nothing(query: str, wanted: list[str]) -> str:
    """What to try when nothing is found: words that are spelt alike, or the other ways to look."""
    vocabulary = Counter(w for _, words in _index() for w in words if len(w) > 3)
    near = [n for w in wanted for n in difflib.get_close_matches(w, vocabulary, n=2, cutoff=0.7)]
    alike = f"words that are there: {', '.join(dict.fromkeys(near))}; " if near else ""
    return (
        f"nothing in the paper is found by {query!r}; {alike}"
        "try fewer or other words, a glob (bongref eq 'eq:*dlr*'), or the sections (bongref eq)"
    )

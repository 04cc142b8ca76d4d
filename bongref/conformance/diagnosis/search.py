"""The diagnosis of one failing case."""

from __future__ import annotations

import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import mistakes
from ..answers import Gap
from ..mistakes import Mistake
from ..pipeline import USED, Values
from ..quantities import EQUATIONS, ESTIMATES, PREDICT
from ..vectors import Case
from .calls import earlier
from .drawing import draws
from .matching import Target, reproduces, search, targets
from .remarks import remarks

SHOWN = 3  # sentences of one case
PART = " :: "  # in the key of a match of some quantities alone, before the key of the mistake
GIVEN_UP = (
    "no further mistakes were tried, since too many cases remained unexplained; "
    "--methods and --levels narrow the search"
)


BUDGET = 30.0  # seconds of CPU time for all searches of one adapter
STOPPED = (
    "not searched: the diagnosis stopped after 30 s of CPU time; "
    "--methods and --levels narrow the search"
)


class Effort(NamedTuple):
    """When the search stops."""

    seconds: float  # of CPU time, of one case; hardly ever reached
    subject: int  # unexplained cases of one method, after which none of its cases is searched
    named: int  # unexplained cases of the level, after which only mistakes by name are tried
    level: int  # and after which nothing is tried


EFFORT = {
    "step": Effort(4.0, 4, 48, 120),
    "estimate": Effort(8.0, 4, 24, 60),
    "update": Effort(8.0, 2, 12, 24),
    "stream": Effort(8.0, 2, 12, 24),
    "predict": Effort(4.0, 4, 24, 60),
    "predictive": Effort(8.0, 2, 12, 24),
    "draw": Effort(1.0, 4, 24, 60),
}


class Match(NamedTuple):
    """A mistake that gives what was returned; its key is the same in every case it explains."""

    key: str
    text: str  # without the equation
    sentence: str


class Sentences(tuple[str, ...]):
    """The sentences shown of a diagnosis; ``matches`` holds all matches."""

    matches: tuple[Match, ...]

    def __new__(cls, matches: Sequence[Match] = (), more: Sequence[str] = ()) -> Sentences:
        made = super().__new__(cls, [*(m.sentence for m in matches), *more][:SHOWN])
        made.matches = tuple(matches)
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.matches, ())


class Memory:
    """The mistakes found in one adapter so far, and the number of unexplained cases."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.mistakes: dict[str, Mistake] = {}
        self.unexplained: Counter[tuple[str, ...]] = Counter()  # by level, and by level and subject
        self.seconds = 0.0  # of CPU time


_MEMORIES: weakref.WeakKeyDictionary[Any, Memory] = weakref.WeakKeyDictionary()


def _memory_of(adapter: Any) -> Memory:
    try:
        return _MEMORIES.setdefault(adapter, Memory())
    except TypeError:  # an adapter that cannot be referred to weakly
        return Memory()


def diagnose(
    adapter: Any, case: Case, values: Values, dtype: str
) -> tuple[Gap | None, tuple[str, ...]]:
    """Why a case fails.

    Parameters
    ----------
    adapter : object
        The implementation; its other calls are tried on the inputs of an update or a stream.
    case : Case
    values : dict of str to array
        What it returned, by the names of the quantities.
    dtype : str
        "float64" or "float32".

    Returns
    -------
    gap : Gap or None
        An earlier quantity that differs, where another call of the adapter shows one.
    sentences : Sentences
        At most SHOWN sentences, the mistakes that give what was returned first.
    """
    memory, began = _memory_of(adapter), time.process_time()
    if memory.seconds > BUDGET:
        return None, Sentences((), [STOPPED])
    try:
        with np.errstate(all="ignore"):
            if case.level == "draw":
                return None, Sentences([Match(s, s, f"matches {s}") for s in draws(case, values)])
            return _diagnose(adapter, case, values, dtype)
    except (ArithmeticError, np.linalg.LinAlgError):  # numbers on which no form can be tried
        return None, Sentences()
    finally:
        memory.seconds += time.process_time() - began


def _diagnose(adapter: Any, case: Case, values: Values, dtype: str) -> tuple[Gap | None, Sentences]:
    memory, effort = _memory_of(adapter), EFFORT[case.level]
    subject, level = (case.level, *case.subject.values()), (case.level,)
    wanted = targets(case, values, dtype)
    if not any(t.wrong for t in wanted):
        return None, Sentences()
    comments = remarks(case, wanted, dtype)
    if memory.unexplained[level] >= effort.level:
        return None, Sentences((), [*comments, GIVEN_UP])
    if memory.unexplained[subject] >= effort.subject:
        return None, Sentences((), comments)
    gap, notes = earlier(adapter, case, dtype)
    finite = all(np.all(np.isfinite(t.got)) for t in wanted)
    deep = finite and memory.unexplained[level] < effort.named
    found = _distinct_mistakes(explain(case, wanted, memory, deep)) if finite else []
    matches = [sentence(m, case) for m in found]
    if not found and deep and not (comments and "float32" in comments[0]):
        for mistake, said in _partly(case, wanted):
            key = f"{said}{PART}{mistake.key}"
            matches.append(sentence(mistake, case, said)._replace(key=key))
    for mistake in found:
        memory.found[mistake.key] += 1
        memory.mistakes.setdefault(mistake.key, mistake)
    if finite and not matches:
        memory.unexplained[subject] += 1
        memory.unexplained[level] += 1
    distinct = list({m.sentence: m for m in matches}.values())
    return gap, Sentences(distinct, notes if found else comments[:2] + notes + comments[2:])


def _distinct_mistakes(found: Iterable[Mistake]) -> list[Mistake]:
    """In the order in which they are found, each key once."""
    return list({m.key: m for m in found}.values())


def explain(case: Case, wanted: Sequence[Target], memory: Memory, deep: bool) -> Iterator[Mistake]:
    """The mistakes that give what was returned, in the order in which they are worth naming.

    ``deep``: also those with a number in them and every single edit.
    """
    end = time.process_time() + EFFORT[case.level].seconds
    end = min(end, time.process_time() + BUDGET - memory.seconds)
    before = memory.mistakes.values()
    known = [m for m in before if case.level in USED[m.piece] and m.applies(case)]
    found = [m for m in known if reproduces(m, case, wanted)]
    yield from sorted(found, key=lambda m: -memory.found[m.key])
    if found and case.level in ("update", "stream", "predictive"):
        return  # a mistake of an earlier level or case shows here too
    keys = {m.key for m in found}
    for mistake in mistakes.named(case):
        if mistake.key not in keys and reproduces(mistake, case, wanted):
            keys.add(mistake.key)
            yield mistake
        if time.process_time() > end:
            return
    if not deep:
        return
    if not keys:
        for scaled in mistakes.scaled(case):
            yield from search(scaled, case, wanted)
            if time.process_time() > end:
                return
    for mistake in mistakes.edited(case):
        if reproduces(mistake, case, wanted):
            yield mistake
        if time.process_time() > end:
            return


def _partly(case: Case, wanted: Sequence[Target]) -> Iterator[tuple[Mistake, str]]:
    """The mistakes that give the first wrong quantity alone, where none gives everything."""
    wrong = [t.name for t in wanted if t.wrong]
    if not wrong or len(wanted) < 2 or case.level not in ("step", "estimate", "predictive"):
        return
    end, first = time.process_time() + EFFORT[case.level].seconds, wrong[0]
    right = " and ".join(t.name for t in wanted if not t.wrong)
    said = f"{first} alone (with {right} right) matches" if right else f"{first} matches"
    for mistake in (*mistakes.named(case), *mistakes.edited(case)):
        if reproduces(mistake, case, wanted, [first]):
            yield mistake, said
        if time.process_time() > end:
            return


# --- the sentence ---------------------------------------------------------------------------------


def sentence(mistake: Mistake, case: Case, part: str = "matches") -> Match:
    """What to say of a mistake in a case: its text, and the equations that it is in."""
    known = PREDICT if mistake.piece == "predict" else _equations_of(case)
    ids = list(dict.fromkeys(known[name] for name in mistake.where if name in known))
    where = f" ({', '.join(ids)})" if ids and not any(i in mistake.text for i in ids) else ""
    return Match(mistake.key, mistake.text, f"{part} {mistake.text}{where}")


def _equations_of(case: Case) -> dict[str, str]:
    """The equation of each quantity that leads to the result of a case."""
    out: dict[str, str] = {}
    if case.rule:
        out |= ESTIMATES[case.hess] | EQUATIONS[case.rule, case.family]
    elif case.level == "predict":
        out |= PREDICT
    elif case.hess:
        out |= ESTIMATES[case.hess]
    return {**out, **{q.name: q.equation for q in case.expected}}

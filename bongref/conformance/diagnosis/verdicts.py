"""The diagnoses of many cases together: what explains the failures of a method, and all of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ..vectors import Case
from .search import PART, SHOWN, Match

if TYPE_CHECKING:
    from ..runner import Outcome

NUMBER = re.compile(r"(?<![\w^])-?\d+(?:[./]\d+)?(?:e[-+]\d+)?(?=[ ,])")


def verdict(outcomes: Iterable[Outcome]) -> dict[str, list[str]]:
    """The diagnoses of each method (or estimator, or family) that explain its failing cases.

    Those that explain all of them, or else most of them. One that explains no more than half may be
    a coincidence: it comes after what can be said of most, with the number of cases.
    """
    outcomes = list(outcomes)
    by_subject: dict[str, list[Outcome]] = {}
    for outcome in _failed(outcomes):
        by_subject.setdefault(" ".join(outcome.case.subject.values()), []).append(outcome)
    return {subject: _lines(failed, outcomes) for subject, failed in by_subject.items()}


def _lines(failed: Sequence[Outcome], outcomes: Sequence[Outcome]) -> list[str]:
    m, lines, doubtful = len(failed), list[str](), list[str]()
    for match, n in explaining(failed)[:SHOWN]:
        if n == m:
            lines.append(match.sentence)
        elif 2 * n > m:
            lines.append(f"{match.sentence} ({n} of {m} failures)")
        elif 3 * n >= m:
            doubtful.append(f"in {n} of {m} failing cases: {match.sentence}")
    if not lines:
        lines = _varying(failed) + _remarks(failed)
        lines += [line for line in _only_with(failed, outcomes) if len(lines) < SHOWN]
        lines += doubtful[:1] if len(lines) < SHOWN else []
    return lines


def common(outcomes: Iterable[Outcome]) -> list[str]:
    """The mistakes that explain every failure of every method; several are ways to say the same.

    Of ten failures and more one may remain unexplained (:func:`unexplained`).
    """
    failed = _failed(outcomes)
    if len(failed) < 2:
        return []
    most = len(failed) - (len(failed) >= 10)
    return [m.text for m, n in explaining(failed, parts=False) if n >= most][:SHOWN]


def unexplained(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The failures that what explains most of them does not explain."""
    failed = _failed(outcomes)
    best = explaining(failed, parts=False)
    key = best[0][0].key if best else ""
    return [o for o in failed if key not in {m.key for m in _matches(o)}]


def explaining(outcomes: Sequence[Outcome], parts: bool = True) -> list[tuple[Match, int]]:
    """The mistakes that explain most failures, and how many; all with the largest number.

    ``parts``: whether a mistake that gives some of the quantities counts.
    """
    counts: Counter[str] = Counter()
    words: dict[str, Match] = {}
    order: Counter[str] = Counter()
    for outcome in outcomes:
        for rank, match in enumerate(_matches(outcome)):
            if PART in match.key and not parts:
                continue
            key = match.key.split(PART)[-1]
            counts[key] += 1
            words.setdefault(key, match)
            order[key] += rank
    most = max(counts.values(), default=0)
    best = sorted((key for key, n in counts.items() if n == most), key=lambda key: order[key])
    return [(words[key], most) for key in best]


def _matches(outcome: Outcome) -> Sequence[Match]:
    """The matches of an outcome; sentences that came without, each as one."""
    matches: Sequence[Match] | None = getattr(outcome.diagnosis, "matches", None)
    return matches if matches is not None else [Match(s, s, s) for s in outcome.diagnosis]


def _failed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes with a wrong value."""
    return [
        o for o in outcomes if o.status == "fail" and o.case.result == "value" and o.gap is not None
    ]


def _varying(failed: Sequence[Outcome]) -> list[str]:
    """A mistake with a number in it that explains most failures, with another number in each."""
    found: dict[str, dict[int, str]] = {}
    for k, outcome in enumerate(failed):
        for match in _matches(outcome):
            number = match.key.partition("=")[2]
            if number and (c := _float(number)) is not None:
                text = match.text.replace(number, "c")
                found.setdefault(text, {}).setdefault(k, f"{c:.3g}")
    text, numbers = max(found.items(), key=lambda item: len(item[1]), default=("", {}))
    several = len(numbers) >= 3 and len(set(numbers.values())) >= 2
    if 2 * len(numbers) <= len(failed) or not several:
        return []
    some = ", ".join(list(numbers.values())[:SHOWN])
    return [f"matches {text}, with a c that differs from case to case ({some})"]


def _float(text: str) -> float | None:
    try:
        return float(Fraction(text))
    except ValueError:
        return None


def _only_with(failed: Sequence[Outcome], outcomes: Sequence[Outcome]) -> list[str]:
    """What all failing cases of a subject have and no passing one has."""
    one = failed[0].case
    alike = [o for o in outcomes if (o.case.subject, o.case.level) == (one.subject, one.level)]
    passing = [_features(o.case) for o in alike if (o.status, o.case.result) == ("pass", "value")]
    if not passing:
        return []
    shared = set.intersection(*(_features(o.case) for o in failed)).difference(*passing)
    said = f"fails in the cases with {' and '.join(sorted(shared))}, and in no others"
    return [said] if shared else []


def _features(case: Case) -> set[str]:
    """What a case has that an implementation may get wrong."""
    out = set[str]()
    if "model" in case.input:
        model, kind = case.input["model"], case.likelihood
        activation = model["activation"]
        out |= {f"a model of the kind {model['kind']}", f"the likelihood {kind}"}
        out |= {f"the activation {activation}" if activation else "no activation"}
        out |= {"one output" if model["n_outputs"] == 1 else "several outputs"}
        out |= {"a bias"} if model["bias"] else set()
    return out | {f"the flag {flag}" for flag in case.flags if f"the likelihood {flag}" not in out}


def _remarks(failed: Sequence[Outcome]) -> list[str]:
    """What is said of most failures besides the matches, in which numbers may differ."""
    counts: Counter[str] = Counter()
    words: dict[str, set[str]] = {}
    for outcome in failed:
        matched = {m.sentence for m in getattr(outcome.diagnosis, "matches", ())}
        for said in outcome.diagnosis:
            if said not in matched:
                plain = NUMBER.sub("c", said)
                counts[plain] += 1
                words.setdefault(plain, set()).add(said)
    often = [s for s, n in counts.most_common() if 2 * n > len(failed)][:SHOWN]
    return [
        words[s].pop() if len(words[s]) == 1 else f"{s} (c differs from case to case)"
        for s in often
    ]

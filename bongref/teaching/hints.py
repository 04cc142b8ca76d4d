"""Naming a mistake: by the exercise's own wrong forms, the conformance kit, plain relations, and
single edits of a right form.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..conformance.diagnosis import diagnose
from ..linalg import Array
from .forms import slips
from .table import Exercise, Trial, arrays

#: what a diagnosis says besides mistakes in words; edits are those of the exercise's own forms
REMARK = re.compile(r"is the first to differ$|is off by | instead of `")
PRIOR, CURRENT = re.compile(r"\b(?:prior|curv)\.(\w+)"), re.compile(r"\bcurrent\.(\w+)")
NEAR = 2e-3  # a relative difference in every entry that is rather of rounding than of a formula
LOOSE = 100.0  # a wrong form is computed in another order: so many tolerances are the same number
#: what a form may raise with an edit that fits neither its numbers nor its names
NO_VALUE = (ArithmeticError, ValueError, np.linalg.LinAlgError, NameError, TypeError, LookupError,
            AttributeError)  # fmt: skip


def agrees(got: Array, right: Array, scale: float, tolerance: float) -> bool:
    """Whether a returned array is the right one."""
    if np.shape(got) != np.shape(right) or not np.all(np.isfinite(got)):
        return False
    return bool(np.max(np.abs(got - right), initial=0) <= tolerance * scale)


def hints(
    exercise: Exercise, tried: Sequence[Trial], got: Sequence[tuple[Array, ...]]
) -> list[str]:
    """What explains all that was returned, the exercise's own mistakes first; at most three."""
    found = [text for text, form in exercise.wrong.items() if _gives(form, tried, got)]
    if not found and exercise.method:
        found = _by_kit(exercise, tried, got)
    if not found:
        found = list(dict.fromkeys(_relations(exercise, tried, got))) or _by_edit(
            exercise, tried, got
        )
    return found[:3]


def _gives(
    form: Any,
    tried: Sequence[Trial],
    got: Sequence[tuple[Array, ...]],
    only: int | None = None,
) -> bool:
    """Whether a wrong form gives what was returned in every trial, and is not the right one.

    ``only`` is the position of the one quantity that is looked at.
    """
    differs = False
    for trial, values in zip(tried, got, strict=True):
        try:
            with np.errstate(all="ignore"):
                wrong = arrays(form(*trial.arguments))
        except NO_VALUE:
            return False
        rows = list(zip(wrong, values, trial.right, trial.scales, trial.tolerances, strict=True))
        for w, v, r, s, t in rows if only is None else rows[only : only + 1]:
            scale = max(s, float(np.max(np.abs(w), initial=0)))
            if not agrees(v, w, scale, LOOSE * t):
                return False
            differs |= not agrees(w, r, scale, LOOSE * t)
    return differs


def _by_edit(
    exercise: Exercise, tried: Sequence[Trial], got: Sequence[tuple[Array, ...]]
) -> list[str]:
    """The first of the single edits of a right form that gives what was returned.

    Failing that, one for each wrong quantity by itself, if all of them have one.
    """
    for text, edited in slips(exercise):
        if _gives(edited, tried, got):
            return [text]
    wrong = [
        j for j in range(len(exercise.returns))
        if not all(agrees(v[j], t.right[j], t.scales[j], t.tolerances[j])
                   for t, v in zip(tried, got, strict=True))
    ]  # fmt: skip
    found = [
        next((text for text, edited in slips(exercise) if _gives(edited, tried, got, j)), "")
        for j in wrong
    ]
    return found if len(wrong) > 1 and all(found) else []


def _by_kit(
    exercise: Exercise, tried: Sequence[Trial], got: Sequence[tuple[Array, ...]]
) -> list[str]:
    """What the kit's diagnosis says of the first failing case, if it holds for another one too."""
    lists: list[list[str]] = []
    for trial, values in zip(tried, got, strict=True):
        right = all(
            agrees(*x)
            for x in zip(values, trial.right, trial.scales, trial.tolerances, strict=True)
        )
        if trial.case is None or right or len(lists) == 2:
            continue
        named = dict(zip(exercise.returns, values, strict=True))
        _, sentences = diagnose(object(), trial.case, named, "float64")
        lists.append([s.removeprefix("matches ") for s in sentences])
    if not lists:
        return []
    both = [s for s in lists[0] if all(s in others for others in lists) and not REMARK.search(s)]
    return list(dict.fromkeys(map(_in_students_names, both)))[:2]


def _in_students_names(sentence: str) -> str:
    """With the names that the arguments have in the exercises, where bare ones are the prior's."""
    return CURRENT.sub(r"\1_i", PRIOR.sub(r"\1", sentence))


def _relations(
    exercise: Exercise, tried: Sequence[Trial], got: Sequence[tuple[Array, ...]]
) -> Iterator[str]:
    """A sign, a factor, a transpose, an inverse, a root or a square of one returned quantity."""
    if exchanged := _exchanged(exercise, tried, got):
        yield exchanged
        return
    for k, name in enumerate(exercise.returns):
        pairs = [(values[k], trial.right[k]) for trial, values in zip(tried, got, strict=True)]
        if all(_same(v, r) for v, r in pairs):
            continue
        if not all(np.all(np.isfinite(v)) for v, _ in pairs):
            yield f"{name} is not finite"
            continue
        if any(np.shape(v) != np.shape(r) for v, r in pairs):
            shapes = next(
                (np.shape(v), np.shape(r)) for v, r in pairs if np.shape(v) != np.shape(r)
            )
            if all(_same(np.transpose(v), r) for v, r in pairs):
                yield f"{name} is transposed"
            else:
                yield f"{name} has shape {shapes[0]}, it should be {shapes[1]}"
            continue
        for words, change in CHANGES.items():
            if all(_same(v, change(r)) for v, r in pairs):
                yield words.format(name=name)
                break
        else:
            factors = [c for v, r in pairs if (c := _factor(v, r)) is not None]
            if len(factors) == len(pairs) and np.allclose(factors, factors[0], rtol=1e-8):
                yield f"{name} is {factors[0]:.4g} times what it should be"
            elif all(np.allclose(v, r, rtol=NEAR, atol=0) for v, r in pairs):
                yield f"{name} is near: is something rounded, or an iteration stopped too early?"


def _exchanged(exercise: Exercise, tried: Sequence[Trial], got: Sequence[tuple[Array, ...]]) -> str:
    """Words for right quantities in a wrong order, if that is what was returned."""
    names = exercise.returns
    for order in itertools.permutations(range(len(names))):
        if order != tuple(range(len(names))) and all(
            _same(values[k], trial.right[j])
            for trial, values in zip(tried, got, strict=True)
            for k, j in enumerate(order)
        ):
            was = ", ".join(names[j] for j in order)
            return f"returned in another order: {was} in place of {', '.join(names)}"
    return ""


def _inverse(a: Array) -> Array:
    a = np.asarray(a, dtype=float)
    if a.ndim == 2 and a.shape[0] == a.shape[1] and np.linalg.matrix_rank(a) == len(a):
        return np.linalg.inv(a)
    with np.errstate(all="ignore"):
        return 1 / a


def _root(a: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.sqrt(a)


CHANGES: dict[str, Callable[[Array], Array]] = {
    "the sign of {name}": lambda a: -a,
    "{name} is transposed": lambda a: np.swapaxes(a, -1, -2) if np.ndim(a) == 2 else a * np.nan,
    "{name} is the inverse of what it should be: precision and covariance mixed up": _inverse,
    "{name} is the square root of what it should be: a standard deviation for a variance": _root,
    "{name} is the square of what it should be: a variance for a standard deviation": lambda a: (
        a**2
    ),
}


def _same(a: Array, b: Array) -> bool:
    return bool(np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-8, atol=1e-12))


def _factor(v: Array, r: Array) -> float | None:
    """The number c with v = c r, if there is one."""
    v, r = np.asarray(v), np.asarray(r)
    size = float(np.sum(r * r))
    c = float(np.sum(v * r)) / size if size else 0.0
    return c if c and np.allclose(v, c * r, rtol=1e-8, atol=1e-12 * abs(c)) else None

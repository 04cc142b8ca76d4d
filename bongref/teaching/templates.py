"""Files to begin with: the functions of a lesson as stubs, with their tasks as docstrings."""

from __future__ import annotations

import re

from .. import checks
from ..errors import InvalidValue
from .basics import LESSONS as FIRST
from .methods import LESSONS as LATER
from .table import Exercise

LESSONS: dict[int, tuple[Exercise, ...]] = {**FIRST, **LATER}


def exercises(lesson: int) -> tuple[Exercise, ...]:
    """The exercises of a lesson.

    Parameters
    ----------
    lesson : int
        1 to 11.

    Returns
    -------
    tuple of Exercise

    Raises
    ------
    InvalidValue, InvalidType
        If there is no such lesson.

    Examples
    --------
    >>> from bongref import teaching
    >>> sum(e.points for e in teaching.exercises(1))
    10
    """
    return LESSONS[checks.integer("lesson", lesson, 1, max(LESSONS))]


def lesson_of(name: str) -> int:
    """The lesson that the name of a file says: lesson05.py is 5."""
    found = re.search(r"lesson[_-]?(\d+)", name)
    if found is None or int(found[1]) not in LESSONS:
        raise InvalidValue(
            f"file must be called lesson01.py to lesson{max(LESSONS)}.py, got {name!r}; "
            "or say which lesson it is: bongref grade FILE --lesson 5"
        )
    return int(found[1])


def template(lesson: int) -> str:
    """The text of a file with the stubs of a lesson.

    Parameters
    ----------
    lesson : int

    Returns
    -------
    str

    Examples
    --------
    >>> from bongref import teaching
    >>> print(teaching.template(1).splitlines()[0])
    \"\"\"Exercises of lesson 1. Grade them with:  bongref grade lesson01.py
    """
    todo = exercises(lesson)
    lines = [
        f'"""Exercises of lesson {lesson}. Grade them with:  bongref grade lesson{lesson:02}.py',
        "",
        "Replace each `raise NotImplementedError`. Arrays are NumPy arrays of float64.",
        '"""',
        "",
        "import numpy as np",
    ]
    for e in todo:
        task = e.task.strip().splitlines()
        lines += ["", "", f"def {e.name}({', '.join(e.arguments)}):"]
        lines += [f'    """{task[0].strip()}']
        lines += [f"    {line.strip()}".rstrip() for line in task[1:]]
        lines += ["", f"    Return {', '.join(e.returns)}.  ({e.points} points)", '    """']
        lines += ["    raise NotImplementedError"]
    return "\n".join([*lines, ""])

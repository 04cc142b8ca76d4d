"""Exercises of the lessons, and how a student's file is graded: ``bongref grade lesson05.py``.

==================  ==============================================================================
:mod:`.table`       what an exercise is, and the right and wrong forms of its functions
:mod:`.basics`      the exercises of lessons 1 to 5
:mod:`.methods`     the exercises of lessons 6 to 11
:mod:`.forms`       right forms as they may be written, and every single edit of them
:mod:`.grading`     the marks of a file: what is right, where it goes wrong, which mistake it is
:mod:`.hints`       naming a mistake: wrong forms, the conformance kit, single edits of right forms
:mod:`.worker`      the process in which a student's code runs
:mod:`.templates`   files to begin with
==================  ==============================================================================

What is not here: the lessons' text (docs/lessons), solutions (tests/lessons), and the diagnosis of
steps, which is that of :mod:`bongref.conformance`.

>>> from bongref import teaching
>>> [e.name for e in teaching.exercises(5)]
['kalman_gain', 'kalman_update', 'bong_fc']
"""

from __future__ import annotations

from .grading import Grade, Mark, grade
from .table import Exercise
from .templates import exercises, template

__all__ = ["Exercise", "Grade", "Mark", "exercises", "grade", "template"]

"""Naming a mistake: which wrong form of the equations gives what an implementation returned.

Three searches run wrong forms on the inputs of a failing case: the mistakes by name, those with a
number in them, which is found by the search, and every single edit of the displayed equations. A
form is a match where it gives all that was returned, within the tolerance, and differs clearly from
what is right. Where nothing gives all of it, what gives the first wrong quantity is named.

==================  ==============================================================================
:mod:`.search`      the searches on one case, and how much effort they may take
:mod:`.matching`    whether a mistake gives what was returned, and with which number
:mod:`.remarks`     what the numbers show where no mistake is found
:mod:`.calls`       the adapter's own estimate and step inside a failing update
:mod:`.verdicts`    what explains the failures of a method, and of all methods
==================  ==============================================================================
"""

from __future__ import annotations

from .matching import reproduces, targets
from .search import SHOWN, Match, Sentences, diagnose, explain
from .verdicts import common, unexplained, verdict

__all__ = [
    "SHOWN",
    "Match",
    "Sentences",
    "common",
    "diagnose",
    "explain",
    "reproduces",
    "targets",
    "unexplained",
    "verdict",
]

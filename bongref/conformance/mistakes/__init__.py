"""The common mistakes: each is one piece of the pipeline computed wrongly, and words for it.

A row of a table has a key, the text that the diagnosis shows, the quantities whose equations the
mistake is in, the change of the right piece into the wrong one, and the cases it applies to:

>>> from bongref.conformance import mistakes, pipeline, vectors
>>> case = vectors.load(["L0"], ["bong-lin-hess-diag"])[0]
>>> mistake = next(m for m in mistakes.named(case) if m.key == "g-sign")
>>> mistake.text, mistake.where
('the sign of g', ('mu',))
>>> sorted(pipeline.values(mistake.pieces, case))
['mu', 'var']

==================  ==============================================================================
:mod:`.steps`       arguments of a step; another rule or family; what is returned
:mod:`.results`     the mean and the projection in a step; the forms that the paper misprints
:mod:`.estimates`   sums over the samples; the form of G; another estimator
:mod:`.observations`  sums over the batch; score, R and its factors
:mod:`.networks`    order of θ, activations, pooling, padding, biases
:mod:`.loops`       the inner loop of an update; the stream
:mod:`.predictions` F, b and Q
:mod:`.predictives` predictive distributions and metrics
:mod:`.scaled`      mistakes with a number in them
:mod:`.edited`      every single edit of the displayed equations
==================  ==============================================================================
"""

from __future__ import annotations

from ..pipeline import USED
from ..vectors import Case
from .edited import edited, edited_estimates, edited_predictions, edited_steps
from .estimates import ESTIMATES
from .loops import LOOPS, STREAMS
from .networks import NETWORKS
from .observations import BATCHES, LIKELIHOODS
from .predictions import PREDICTIONS
from .predictives import PREDICTIVES
from .results import PRINTED, RESULTS
from .scaled import SCALED
from .steps import ARGUMENTS, OTHER_METHODS, OUTPUTS
from .table import Mistake, Scaled

__all__ = [
    "NAMED",
    "SCALED",
    "Mistake",
    "Scaled",
    "edited",
    "edited_estimates",
    "edited_predictions",
    "edited_steps",
    "named",
    "scaled",
]

# in the order in which they are tried and named
NAMED: tuple[Mistake, ...] = (
    *PRINTED,
    *ARGUMENTS,
    *RESULTS,
    *OTHER_METHODS,
    *ESTIMATES,
    *BATCHES,
    *LIKELIHOODS,
    *NETWORKS,
    *LOOPS,
    *STREAMS,
    *PREDICTIONS,
    *PREDICTIVES,
    *OUTPUTS,
)


def named(case: Case) -> list[Mistake]:
    """The named mistakes that can be made in a case."""
    known = (*NETWORKS, *PREDICTIVES) if case.level == "predictive" else NAMED
    return [m for m in known if case.level in USED[m.piece] and m.applies(case)]


def scaled(case: Case) -> list[Scaled]:
    """The mistakes with a number in them that can be made in a case."""
    return [m for m in SCALED if case.level in USED[m.piece] and m.applies(case)]

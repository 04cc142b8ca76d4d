"""DLR steps of many parameters, which threads share: each pass over the parameters is divided into
as many ranges as there are threads.

The passes and the small matrices between them are those of dlr_projection.py and dlr_gradient.py;
here they are kernels of their own, called from Python, with a workspace for each range. What a
range computes does not depend on who computes it, and the sums over the ranges are taken in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import threads
from .dlr_blocks import ANGLES, CROSS, DOTS, EXTRA, GRAM, ROWS, VALUES, WEIGHTED, Workspace
from .dlr_gradient import bbb_measure, bbb_renew, bbb_small, bog_measure, bog_renew, bog_small
from .dlr_projection import ROUNDS, choose, coefficients, correct, cross, measure, renew
from .generic import implement, step
from .jit import kernel
from .status import NOT_FINITE, OK, UNSUPPORTED


class BongTall(NamedTuple):
    alpha: float  # 1


class BlrTall(NamedTuple):
    alpha: float


class BogTall(NamedTuple):
    alpha: float


class BbbTall(NamedTuple):
    alpha: float


class Ranges(NamedTuple):
    """A workspace for each range of parameters; the fields that samples and dynamics need are those
    of the first.
    """

    works: list[Workspace]
    bounds: list[tuple[int, int]]

    def each(self, work: Callable[[Workspace, int, int], Any]) -> list[Any]:
        """work(workspace, lo, hi) of every range, each in a thread of its own."""
        out: list[Any] = [None] * len(self.works)

        def one(k: int) -> None:
            out[k] = work(self.works[k], *self.bounds[k])

        threads.together(len(out), one)
        return out

    def add(self, *which: int) -> None:
        """Small matrices of the first workspace = the sums over all."""
        first = self.works[0]
        for other in self.works[1:]:
            for k in which:
                first.small[k] += other.small[k]

    def share(self, *which: int) -> None:
        """Small matrices of all workspaces = those of the first."""
        for other in self.works[1:]:
            for k in which:
                other.small[k] = self.works[0].small[k]


# --- BONG, BLR ------------------------------------------------------------------------------------


@kernel
def _measure(prior, state, g, rows, alpha, lo, hi, work):
    return measure(prior, state, g, rows, alpha, lo, hi, work)


@kernel
def _cross(prior, state, rows, alpha, lo, hi, work):
    cross(prior, state, rows, alpha, lo, hi, work)


@kernel
def _renew(prior, state, g, rows, alpha, lo, hi, work):
    return renew(prior, state, g, rows, alpha, lo, hi, work)


@kernel
def _choose(small, values, n, R):
    return choose(small, values, n, R)


@kernel
def _correct(small, values, n, R):
    return correct(small, values, n, R)


@kernel
def _coefficients(small, dots, n, R, R0, alpha):
    return coefficients(small, dots, n, R, R0, alpha)


@implement(step, BongTall, BlrTall, host=True)
def absorb_tall(rule: Any, prior: Any, state: Any, g: Any, G: Any, work: Ranges) -> int:
    """Reference: dlr.bong_woodbury, dlr.blr_woodbury. As dlr_projection.absorb."""
    alpha, first, R, R0 = rule.alpha, work.works[0], len(state.Wt), len(prior.Wt)
    n = R + R0 + len(G)
    if (
        not alpha <= 1
        or sum(work.each(lambda w, lo, hi: _measure(prior, state, g, G, alpha, lo, hi, w))) > 0
    ):
        return UNSUPPORTED
    work.add(GRAM, WEIGHTED)
    for other in work.works[1:]:
        first.few[DOTS] += other.few[DOTS]
    code, needed = _choose(first.small, first.few[VALUES], n, R)
    for _ in range(ROUNDS):
        if needed:
            work.share(ROWS)
            work.each(lambda w, lo, hi: _cross(prior, state, G, alpha, lo, hi, w))
            work.add(CROSS)
            needed = _correct(first.small, first.few[VALUES], n, R)
    code = (
        UNSUPPORTED
        if needed
        else code or _coefficients(first.small, first.few[DOTS], n, R, R0, alpha)
    )
    if code != OK:
        return code
    work.share(ROWS)
    wrong = sum(work.each(lambda w, lo, hi: _renew(prior, state, g, G, alpha, lo, hi, w)))
    return OK if wrong == 0 else NOT_FINITE


# --- BOG, BBB -------------------------------------------------------------------------------------


@kernel
def _bog_measure(state, rows, lo, hi, work):
    return bog_measure(state, rows, lo, hi, work)


@kernel
def _bog_small(small, R, K):
    return bog_small(small, R, K)


@kernel
def _bog_renew(state, g, rows, alpha, lo, hi, work):
    return bog_renew(state, g, rows, alpha, lo, hi, work)


@implement(step, BogTall, host=True)
def bog_tall(rule: BogTall, prior: Any, state: Any, g: Any, G: Any, work: Ranges) -> int:
    """Reference: dlr.bog_woodbury. As dlr_gradient.bog."""
    if sum(work.each(lambda w, lo, hi: _bog_measure(state, G, lo, hi, w))) > 0:
        return UNSUPPORTED
    work.add(GRAM, CROSS)
    code = _bog_small(work.works[0].small, len(state.Wt), len(G))
    if code != OK:
        return code
    work.share(ANGLES)
    wrong = sum(work.each(lambda w, lo, hi: _bog_renew(state, g, G, rule.alpha, lo, hi, w)))
    return OK if wrong == 0 else NOT_FINITE


@kernel
def _bbb_measure(prior, state, rows, lo, hi, work):
    return bbb_measure(prior, state, rows, lo, hi, work)


@kernel
def _bbb_small(small, R, K):
    return bbb_small(small, R, K)


@kernel
def _bbb_renew(prior, state, g, rows, alpha, lo, hi, work):
    return bbb_renew(prior, state, g, rows, alpha, lo, hi, work)


@implement(step, BbbTall, host=True)
def bbb_tall(rule: BbbTall, prior: Any, state: Any, g: Any, G: Any, work: Ranges) -> int:
    """Reference: dlr.bbb_woodbury. As dlr_gradient.bbb."""
    if sum(work.each(lambda w, lo, hi: _bbb_measure(prior, state, G, lo, hi, w))) > 0:
        return UNSUPPORTED
    work.add(GRAM, ROWS, CROSS, ANGLES)
    for other in work.works[1:]:
        work.works[0].few[DOTS] += other.few[DOTS]
    code = _bbb_small(work.works[0].small, len(state.Wt), len(G))
    if code != OK:
        return code
    work.share(WEIGHTED, ROWS, EXTRA, CROSS, ANGLES)
    for other in work.works[1:]:
        other.few[DOTS] = work.works[0].few[DOTS]
    wrong = sum(work.each(lambda w, lo, hi: _bbb_renew(prior, state, g, G, rule.alpha, lo, hi, w)))
    return OK if wrong == 0 else NOT_FINITE


RULES = {"bong": BongTall, "blr": BlrTall, "bog": BogTall, "bbb": BbbTall}

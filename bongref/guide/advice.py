"""What to try after a stream has ended early or diverged, found by trying it where that is cheap.

A smaller α (at the first step also a smaller prior variance) is suggested only if the failing step,
taken once more from the last good state with the same random numbers, stays positive definite with
it. The other suggestion is the nearest method whose covariance is always positive definite
(:mod:`bongref.guide.definiteness`). What is said of the scale of the data is measured.
"""

from __future__ import annotations

import copy
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..backends import RAISED, Problem, StepFailed
from ..dynamics import propagate
from ..errors import BongrefError, Unscaled
from ..filter import NOT_FINITE, Draws, returns_nan, unchecked_update
from ..grid import Method, method
from ..linalg import Array
from ..states import DLR, FC, Diag, State
from .definiteness import keeps, safe_alternative

FRACTIONS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-9)
LARGE = 30.0  # a column with |mean| or standard deviation above this is reported as unscaled
ROWS = 1000  # of the data that are looked at
SECONDS = 2.0  # after which no more settings are tried: a step may take minutes (mc-hess)
OVERFLOW = (
    "the update gave numbers that are not finite: "
    "an overflow, or a matrix that is singular in float64"
)


def happened(failure: StepFailed, p: Problem) -> str:
    """What went wrong at the step that failed."""
    if failure.reason == RAISED:
        return failure.detail
    now, then = _largest(failure.state), _largest(p.prior)
    steps = failure.before + failure.t
    if _diverged(failure, p):
        return (
            f"the stream has diverged: the largest |mu| is {now:.3g} after step {steps}, "
            f"{then:.3g} in the prior"
        )
    if failure.reason == NOT_FINITE:
        return failure.detail or OVERFLOW
    return failure.detail or "the update gave a state that is not positive definite"


def remedy(failure: StepFailed, p: Problem) -> str:
    """What to try."""
    if failure.reason == RAISED:
        return ""
    if returns_nan(p.model, failure.state.mu, p.data.xs[failure.t]):
        return "Mend the function that was given to bongref.models.wrap."
    if failure.reason == NOT_FINITE or _diverged(failure, p):
        return settle(p)
    if failure.detail:  # in the prediction
        return "Try a larger Q, or scales of the parameters that are closer to each other."
    if keeps(p.m.name):
        return _lost_all_the_same(failure, p)
    tries = [
        f"{what} keeps step {failure.before + failure.t + 1} positive definite"
        for what in _found(failure, p)
        if what is not None
    ]
    tries.append(f"{safe_alternative(p.m.name)} is always positive definite, with the same prior")
    return f"{'; '.join(tries)}."


def _lost_all_the_same(failure: StepFailed, p: Problem) -> str:
    if isinstance(failure.state, DLR) and not np.all(failure.state.Ups > 0):
        return f"{p.m.name} stays positive definite where Ups > 0, as in m.prior(...)."
    return (
        "In exact arithmetic this method stays positive definite: the prior is too wide for "
        f"float64 beside an observation as sharp as this. {settle(p)}"
    )


def settle(p: Problem) -> str:
    """Advice for a stream that diverges: the scale of the data, then the settings."""
    settings = ["a smaller prior variance"]
    if "alpha" in p.m.params:
        settings.append(f"a smaller alpha (now {p.m.params['alpha']:.3g})")
    settings.append("a larger observation variance" if p.lik.name == "gaussian" else "")
    said = ", or ".join(filter(None, settings))
    scale = scales(p)
    return f"Standardise {scale}; then try {said}." if scale else f"Try {said}."


# --- tried at the step that failed ----------------------------------------------------------------


def _found(failure: StepFailed, p: Problem) -> Iterator[str | None]:
    """The settings with which the failing step stays positive definite, in words."""
    if "alpha" in p.m.params:
        alpha = p.m.params["alpha"]
        with_alpha = lambda f: (method(p.m, alpha=_short(f * alpha)), failure.state)
        f = _first(with_alpha, failure, p)
        yield None if f is None else f"alpha={_short(f * alpha):g} (now {alpha:g})"
    if failure.before + failure.t == 0:
        f = _first(lambda f: (p.m, narrower(p.prior, f)), failure, p)
        yield None if f is None else f"a prior variance {f:g} times as large"


def _first(
    change: Callable[[float], tuple[Method, State]], failure: StepFailed, p: Problem
) -> float | None:
    """The largest of some fractions with which the step succeeds; None if not found in time."""
    end = time.monotonic() + SECONDS
    in_time = itertools.takewhile(lambda f: time.monotonic() < end, FRACTIONS)
    return next((f for f in in_time if _succeeds(*change(f), failure.t, p)), None)


def _short(x: float) -> float:
    """x to two digits, so that what is suggested is what was tried."""
    return float(f"{x:.2g}")


def _succeeds(m: Method, state: State, t: int, p: Problem) -> bool:
    """Whether the step from ``state`` with observation t has a valid result."""
    draws = Draws(None if p.samples is None else p.samples[t])
    rng = copy.deepcopy(p.rng)
    try:
        with np.errstate(all="ignore"):  # what overflows is not suggested
            prior = propagate(state, p.dynamics)
            _, info = unchecked_update(
                m, p.model, p.lik, prior, p.data.xs[t], p.data.ys[t], rng, draws, p.form
            )
    except (BongrefError, ArithmeticError, np.linalg.LinAlgError):
        return False
    return info.valid


def narrower(q: State, factor: float) -> State:
    """The state with its covariance times ``factor``."""
    if isinstance(q, FC):
        return FC(q.mu, factor * q.Sigma)
    if isinstance(q, Diag):
        return Diag(q.mu, factor * q.var)
    return DLR(q.mu, q.Ups / factor, q.W / np.sqrt(factor))


# --- the data -------------------------------------------------------------------------------------


def scales(p: Problem) -> str:
    """Which of X and Y are far from mean 0 and scale 1, with numbers; empty if none."""
    said = [_scale("X", p.data.xs)]
    if p.lik.name == "gaussian":
        seen = np.flatnonzero(p.data.seen)[:ROWS]
        said.append(_scale("Y", [p.data.ys[k] for k in seen]))
    return " and ".join(filter(None, said))


def warn_unscaled(p: Problem, stacklevel: int = 3) -> bool:
    """Warn where data are far from the scale that a network is made for; whether it warned."""
    if getattr(p.model, "kind", "") in ("mlp", "cnn") and (scale := scales(p)):
        warnings.warn(
            f"{scale}: a network learns little from data so far from mean 0 and standard deviation "
            "1; standardise, e.g. X = (X - X.mean(axis=0)) / X.std(axis=0), and Y likewise",
            Unscaled,
            stacklevel=stacklevel,
        )
        return True
    return False


def _scale(name: str, rows: Any) -> str:
    try:
        a: Array = np.asarray(rows[:ROWS], dtype=float)
    except (TypeError, ValueError):
        return ""  # a wrapped function takes anything
    if a.ndim < 2 or len(a) == 0:
        return ""
    a = a.reshape(-1, a.shape[-1]) if a.ndim == 3 else a.reshape(len(a), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        std, mean = a.std(axis=0), np.abs(a.mean(axis=0))
    worst = int(np.argmax(np.maximum(std, mean)))
    if not max(std[worst], mean[worst]) > LARGE:
        return ""
    column = f" (column {worst}" if a.shape[1] > 1 else " ("
    comma = ": " if a.shape[1] > 1 else ""
    return (
        f"{name}{column}{comma}mean {a[:, worst].mean():.3g}, standard deviation {std[worst]:.3g})"
    )


def _largest(q: State) -> float:
    return float(np.max(np.abs(q.mu)))


def _diverged(failure: StepFailed, p: Problem) -> bool:
    return _largest(failure.state) > 1e6 * max(1.0, _largest(p.prior))

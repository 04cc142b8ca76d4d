"""Whether a stream has diverged: its predictions compared with a constant one.

A Gaussian that stays positive definite can still run away, because nothing in the equations bounds
the step of the mean. :class:`Watch` looks at the last observations that the filter has seen and
warns once (:class:`bongref.errors.Diverging`): the stream may have diverged where the plugin
predictive is clearly worse for them than the best constant and than the prior; it has not learned
where it is much worse than the constant at the end, as the prior was.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from ..backends import Problem
from ..dynamics import Static
from ..errors import Diverging
from ..gaussians import marginal_variance
from ..likelihoods import Likelihood
from ..linalg import Array
from ..special import gammaln, xlogy
from ..states import State
from .advice import scales, settle

WINDOW = 100  # observations that are looked at
FEWEST = 20  # with fewer observations only a loss > MUCH times the constant's counts
WORSE = 1.5  # loss over that of the baseline from which on it is clearly worse
WORSE_MOVING = 10.0  # the same where θ moves: the last state is not meant for older observations
MUCH = 100.0  # the same for the mean with all outliers
LEAST = 0.1  # nats by which the loss exceeds that of the baseline, at least
OUTLIERS = 0.05  # the part of the losses, the largest ones, that is left out
NOISE = 0.5  # nats: the loss of a Gaussian observation with the likelihood's own noise


class Losses(NamedTuple):
    """Losses in nats for each observation, over that of a perfect prediction."""

    plugin: Array  # (n,)
    constant: Array  # (n,)


def clearly_worse(loss: Array, baseline: Array, worse: float = WORSE) -> bool:
    """Whether losses exceed those of a baseline also without the largest ones, or by very much.

    Parameters
    ----------
    loss, baseline : ndarray, shape (n,)
        In nats.
    worse : float
        The ratio of the means from which on they do.

    Returns
    -------
    bool
        False where the baseline is not finite: there is nothing to compare with.

    Examples
    --------
    >>> heavy = np.r_[np.full(50, 0.2), np.geomspace(1, 1000, 50)]
    >>> clearly_worse(heavy, np.ones(100)), clearly_worse(np.r_[90.0, np.zeros(99)], np.ones(100))
    (True, False)
    """
    if not np.all(np.isfinite(baseline)):
        return False
    if not np.all(np.isfinite(loss)):
        return True
    with np.errstate(over="ignore"):
        mean, base = float(np.mean(loss)), float(np.mean(baseline))
        most = np.sort(loss)[: len(loss) - math.ceil(OUTLIERS * len(loss))]
        trimmed = float(np.mean(most)) if len(loss) >= FEWEST else 0.0
    return mean - base > LEAST and (mean > MUCH * base or trimmed > worse * base)


class Watch:
    """Looks at a stream when its steps have doubled and at its end."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.next, self.warned = problem, 2 * WINDOW, False

    def look(self, t: int, state: State, end: bool = False) -> None:
        """Compare the state's predictions for the last observations with a constant one."""
        if self.warned or not (end or t >= self.next):
            return
        self.next = 2 * t
        p = self.problem
        steps = np.flatnonzero(p.data.seen[:t])[-WINDOW:]
        xs, ys = [p.data.xs[k] for k in steps], [p.data.ys[k] for k in steps]
        if text := fault(p, t, state, xs, ys, end):
            self.warned = True
            warnings.warn(text, Diverging, stacklevel=3)


def fault(p: Problem, t: int, state: State, xs: list[Array], ys: list[Array], end: bool) -> str:
    """What is wrong with the state after step t, and what to try; empty where nothing is.

    Its predictions for observations that it has learned, single ones or batches, are compared with
    a constant and with those of the prior of the problem.
    """
    found = losses(p.model, p.lik, state.mu, xs, ys)
    if found is None:
        return ""
    worse = WORSE if isinstance(p.dynamics, Static) else WORSE_MOVING
    if not clearly_worse(found.plugin, found.constant, worse):
        return ""
    prior = losses(p.model, p.lik, p.prior.mu, xs, ys)
    verdict = "" if prior is None else judged(found, prior.plugin, worse, end)
    return verdict and _message(p, t, state, found, verdict)


def judged(found: Losses, prior: Array, worse: float, end: bool) -> str:
    """What the losses say of a stream, given those of its prior; empty where there is no fault."""
    if not clearly_worse(found.plugin, found.constant, worse):
        return ""
    if clearly_worse(found.plugin, prior, worse):
        return "it may have diverged"
    large = np.mean(found.plugin) > MUCH * max(float(np.mean(found.constant)), NOISE)
    if end and large and not clearly_worse(prior, found.plugin, worse):
        return "it has not learned: the prior is as far off"
    return ""  # the model cannot represent a constant, or has learned something


def losses(
    model: Any, lik: Likelihood, mu: Array, xs: list[Array], ys: list[Array]
) -> Losses | None:
    """Losses of the plugin predictive and of the best constant; None for too few observations."""
    if lik.name not in ("gaussian", "bernoulli", "categorical", "poisson") or not xs:
        return None
    with np.errstate(all="ignore"):
        outputs = [np.atleast_2d(model(mu, x)) for x in xs]
    O, Y = np.concatenate(outputs), np.concatenate([np.atleast_2d(y) for y in ys])
    if len(Y) < 10:
        return None
    best = _best(lik, Y)
    with np.errstate(all="ignore"):
        plugin, constant = (best - np.asarray(lik.log_prob(o, Y)) for o in (O, _constant(lik, Y)))
    return Losses(plugin, constant)


def _constant(lik: Likelihood, Y: Array) -> Array:
    """The outputs o of the constant that fits Y best, half an observation added to each count."""
    count = np.asarray(Y.sum(axis=0) + 0.5)
    if lik.name == "gaussian":
        return np.asarray(Y.mean(axis=0))
    if lik.name == "poisson":
        return np.log(count / len(Y))
    rest = np.log(len(Y) + 1 - count) if lik.name == "bernoulli" else 0.0
    return np.asarray(np.log(count) - rest)


def _best(lik: Likelihood, Y: Array) -> Array:
    """log p(y) under the outputs that fit each observation perfectly."""
    if lik.name == "gaussian":
        return np.asarray(lik.log_prob(Y, Y))
    if lik.name == "poisson":
        return np.asarray((xlogy(Y, Y) - Y - gammaln(Y + 1)).sum(axis=1))
    return np.zeros(len(Y))


def _message(p: Problem, t: int, state: State, found: Losses, verdict: str) -> str:
    plugin, constant = float(np.mean(found.plugin)), float(np.mean(found.constant))
    return (
        f"{p.m.name} predicts the last {len(found.plugin)} observations before step {t} worse than "
        f"a constant does (excess loss {plugin:.3g} against {constant:.3g} nats each; largest |mu| "
        f"{float(np.max(np.abs(state.mu))):.3g}; largest prior variance "
        f"{float(np.max(marginal_variance(p.prior))):.3g}): {verdict}. {_try(p, verdict)}"
    )


def _try(p: Problem, verdict: str) -> str:
    """Advice: a stream that has not moved needs larger steps, and not smaller ones."""
    if "diverged" in verdict:
        return settle(p)
    scale = scales(p)
    larger = "a larger prior variance, more observations, or a model with a bias"
    return f"Standardise {scale}; then try {larger}." if scale else f"Try {larger}."

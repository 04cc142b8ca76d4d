"""Whether a stream has diverged: its predictions compared with a constant one.

A Gaussian that stays positive definite can still run away, because nothing in the equations bounds
the step of the mean. :class:`Watch` looks at the last observations that the filter has seen: if the
plugin predictive is clearly worse for them than the best constant, and no better than that of the
prior, it warns once (:class:`bongref.errors.Diverging`).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from ..backends import Problem
from ..dynamics import Static
from ..errors import Diverging
from ..gaussians import marginal_variance
from ..likelihoods import Likelihood
from ..linalg import Array
from ..states import State
from .advice import settle

WINDOW = 100  # observations that are looked at
FEWEST = 20  # observations below which only a loss that is MUCH larger counts
WORSE = 1.5  # loss over that of the constant from which on a stream counts as diverged
WORSE_MOVING = 10.0  # the same where θ moves: the last state is not meant for older observations
MUCH = 100.0  # the same whatever the scatter of the losses
LEAST = 0.1  # nats by which the loss exceeds that of the constant, at least
STANDARD_ERRORS = 3.0


class Losses(NamedTuple):
    """Losses in nats for each observation, over that of a perfect prediction."""

    plugin: Array  # (n,)
    constant: Array  # (n,)

    def diverged(self, worse: float = WORSE) -> bool:
        """Clearly and much worse than the constant, or not finite."""
        if not np.all(np.isfinite(self.constant)):
            return False  # there is nothing to compare with
        if not np.all(np.isfinite(self.plugin)):
            return True
        with np.errstate(over="ignore"):
            excess = self.plugin - self.constant
            error = float(np.std(excess)) / np.sqrt(len(excess))
            loss, base = float(np.mean(self.plugin)), float(np.mean(self.constant))
        if loss - base <= LEAST:
            return False
        clearly = len(excess) >= FEWEST and loss - base > STANDARD_ERRORS * error
        return loss > MUCH * base or (clearly and loss > worse * base)


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
        found = losses(p.model, p.lik, state.mu, xs, ys)
        worse = WORSE if isinstance(p.dynamics, Static) else WORSE_MOVING
        if found is None or not found.diverged(worse):
            return
        at_first = losses(p.model, p.lik, p.prior.mu, xs, ys)
        if at_first is not None and np.mean(at_first.plugin) >= np.mean(found.plugin):
            return  # the model cannot represent a constant, and has learned something
        self.warned = True
        warnings.warn(_message(p, t, state, found), Diverging, stacklevel=3)


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
        plugin = best - np.array([lik.log_prob(o, y) for o, y in zip(O, Y, strict=True)])
        constant = best - np.array([lik.log_prob(_constant(lik, Y), y) for y in Y])
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
        return np.array([lik.log_prob(y, y) for y in Y])
    if lik.name == "poisson":
        return np.asarray((xlogy(Y, Y) - Y - gammaln(Y + 1)).sum(axis=1))
    return np.zeros(len(Y))


def _message(p: Problem, t: int, state: State, found: Losses) -> str:
    plugin, constant = float(np.mean(found.plugin)), float(np.mean(found.constant))
    return (
        f"{p.m.name} predicts the last {len(found.plugin)} observations before step {t} worse than "
        f"a constant does (excess loss {plugin:.3g} against {constant:.3g} nats each; largest |mu| "
        f"{float(np.max(np.abs(state.mu))):.3g}; largest prior variance "
        f"{float(np.max(marginal_variance(p.prior))):.3g}): it may have diverged. {settle(p)}"
    )

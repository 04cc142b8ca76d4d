"""Mistakes with a number c in them, which the diagnosis finds by a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...curvature import Curv, block_diag, dense
from ...linalg import Array, finite, inv, solve
from ...states import DLR, FC, State
from ..pipeline import Observation, Params, Pieces, Problem
from .combinators import (
    G_times,
    ProblemChange,
    StepChange,
    both_times,
    g_times,
    inverse,
    network,
    on_alpha,
    on_curv,
    on_estimate,
    on_observations,
    on_predicted,
    on_result,
    on_spread,
    on_states,
    on_transition,
    slope,
    times_G,
    times_g,
    with_G,
    with_score,
)
from .table import (
    ALL,
    BOTH,
    COV,
    EF,
    GRADIENT,
    HESS,
    HESSIAN,
    MU,
    NOT_LOW,
    WITH_ALPHA,
    Scaled,
    Test,
    always,
    biased,
    both,
    in_families,
    in_rules,
    networked,
    with_activation,
    with_hess,
    with_likelihood,
)

PROBABILITIES = with_likelihood("bernoulli", "categorical")
Change = Callable[[float], Callable[[Any], Any]]


class Row(Protocol):
    """Constructor of the scaled mistakes of one piece."""

    def __call__(
        self,
        key: str,
        text: str,
        where: tuple[str, ...],
        neutral: float,
        change: Change,
        applies: Test = always,
    ) -> Scaled: ...


def scaled_row_of(piece: str) -> Row:
    """The constructor of the scaled mistakes in a piece."""

    def row(
        key: str,
        text: str,
        where: tuple[str, ...],
        neutral: float,
        change: Change,
        applies: Test = always,
    ) -> Scaled:
        return Scaled(key, text, piece, change, neutral, where, applies)

    return row


step, estimate = scaled_row_of("step"), scaled_row_of("estimate")
problem, update, predict = (scaled_row_of(piece) for piece in ("problem", "update", "predict"))


# --- observations ---------------------------------------------------------------------------------


def each(change: Callable[[Observation, float], Observation]) -> Callable[[float], ProblemChange]:
    """Every observation changed: ``change(observation, c)``."""
    return lambda c: on_observations(lambda one: change(one, c))


def jitter_R(one: Observation, c: float) -> Observation:
    """H^T (R + cI)⁻¹ e and H^T (R + cI)⁻¹ H with H = T J."""
    Rinv = finite(inv(one.R + c * np.eye(len(one.o))))
    return one._replace(score=one.T.T @ Rinv @ one.e, info=one.T.T @ Rinv @ one.T)


def jitter_info(one: Observation, c: float) -> Observation:
    """−Fᵀ(R + cI)F."""
    return one._replace(info=one.info + c * np.eye(len(one.o)))


def covariance_of_labels(one: Observation, p: Array) -> Array:
    """R of a Bernoulli or a softmax with these probabilities."""
    softmax = one.kind == "categorical"
    return np.diag(p) - np.outer(p, p) if softmax else np.diag(p * (1 - p))


def clip(one: Observation, c: float) -> Observation:
    """Probabilities in [c, 1 − c]."""
    p = np.clip(one.h, c, 1 - c)
    return one._replace(score=one.y - p, info=covariance_of_labels(one, p))


def temperature(one: Observation, c: float) -> Observation:
    """Logits times c."""
    if one.kind == "categorical":
        e = np.exp(c * one.o - (c * one.o).max())
        h = e / e.sum()
    else:
        h = 1 / (1 + np.exp(-c * one.o))
    R, e = covariance_of_labels(one, h), one.y - h
    return one._replace(h=h, R=R, T=R, e=e, score=e, info=R)


def smoothed(one: Observation, c: float) -> Observation:
    """y moved towards the same probability of all classes."""
    return one._replace(score=one.score + c * (1 / max(2, len(one.y)) - one.y))


def leaky(c: float) -> ProblemChange:
    """A relu with the slope c below 0."""

    def wrong(name: str | None, z: Array) -> tuple[Array, Array, Array]:
        on = np.where(z > 0, 1.0, c)
        return z * on, on, 0 * z

    return network(activation=wrong)


def scaled_x(c: float) -> ProblemChange:
    """c x in place of x."""
    return lambda right: lambda problem: problem._replace(x=c * problem.x)


# --- states ---------------------------------------------------------------------------------------


def add_covariance(q: State, c: float) -> State:
    """c I added to Σ, c to σ² or Υ."""
    return on_spread(q, lambda a: a + c * (np.eye(len(a)) if a.ndim == 2 else 1))


def add_precision(q: State, c: float) -> State:
    """c I added to the precision."""
    if isinstance(q, DLR):
        return q._replace(Ups=q.Ups + c)
    return on_spread(q, lambda a: inverse(inverse(a) + c * (np.eye(len(a)) if a.ndim == 2 else 1)))


def on_new(change: Callable[[State, float], State]) -> Callable[[float], StepChange]:
    """The new state changed: ``change(state, c)``."""
    return lambda c: on_result(lambda name, prior, current, curv, new: change(new, c))


def on_prior(change: Callable[[State, float], State]) -> Callable[[float], StepChange]:
    """The prior changed, and the iterate where it is the prior: ``change(state, c)``."""
    return lambda c: on_states(lambda p, q: (change(p, c), change(q, c) if q is p else q))


def minus_identity(curv: Curv, c: float) -> Curv:
    """G − cI."""
    return with_G(curv, dense(curv) - c * np.eye(len(curv.g)))


def jitter_gain(c: float) -> Callable[[Any], Callable[..., State]]:
    """The extended Kalman filter with c on the diagonal where it solves for the gain."""

    def fn(
        pieces: Pieces, name: str, problem: Problem, prior: Any, samples: Any, params: Params
    ) -> State:
        here = problem.at(prior.mu)
        H, R = np.vstack([o.T @ o.J for o in here]), block_diag(np.stack([o.R for o in here]))
        e = np.concatenate([o.e for o in here])
        S = H @ prior.Sigma @ H.T + R
        K = finite(solve(S + c * np.eye(len(S)), H @ prior.Sigma)).T
        return FC(prior.mu + K @ e, prior.Sigma - K @ S @ K.T)

    return lambda right: fn


EKF = both(in_rules("bong"), in_families("fc"), with_hess("lin-hess"))

# fmt: off
SCALED: tuple[Scaled, ...] = (
    problem("jitter-R", "{c} I added to R before it is inverted", BOTH, 0.0, each(jitter_R)),
    estimate("jitter-G", "{c} I added to -G",
        HESSIAN, 0.0, lambda c: on_estimate(lambda curv, M: minus_identity(curv, c))),
    problem("jitter-info", "{c} I added to R in -F^T R F", HESSIAN, 0.0, each(jitter_info), HESS),
    problem("clip", "probabilities clipped to [{c}, 1 - {c}]",
        BOTH, 0.0, each(clip), PROBABILITIES),
    problem("temperature", "logits times {c} (a temperature)",
        BOTH, 1.0, each(temperature), PROBABILITIES),
    problem("label-smoothing", "y moved by {c} towards the same for all classes",
        GRADIENT, 0.0, each(smoothed), PROBABILITIES),
    problem("scale-score", "y - yhat times {c}",
        GRADIENT, 1.0, lambda c: with_score(lambda o: c * o.score), EF),
    problem("scale-x", "x times {c}", BOTH, 1.0, scaled_x),
    problem("scale-bias", "the biases times {c}",
        BOTH, 1.0, lambda c: network(bias=c, bias_slope=c), biased),
    problem("scale-slope", "the derivative of the activation times {c}",
        BOTH, 1.0, lambda c: slope(lambda name, z, s, s1: c * s1), networked),
    problem("scale-curvature", "the second derivative of the activation times {c}",
        HESSIAN, 1.0, lambda c: slope(lambda name, z, s, s1: s1, c),
        both(networked, with_hess("mc-hess"))),
    problem("leaky", "a relu with slope {c} below 0", BOTH, 0.0, leaky, with_activation("relu")),
    update("jitter-gain",
        "{c} I added to the innovation covariance H Sigma H^T + R where the gain K is solved for, "
        "and not in Sigma - K S K^T",
        ALL, 0.0, jitter_gain, EKF),
    estimate("scale-G-estimate", "G times {c}", HESSIAN, 1.0, lambda c: G_times(lambda M: c)),
    estimate("scale-g-estimate", "g times {c}", GRADIENT, 1.0, lambda c: g_times(lambda M: c)),
    estimate("scale-gG-estimate", "g and G times {c}",
        BOTH, 1.0, lambda c: both_times(lambda M: c)),
    step("jitter-covariance", "{c} I added to the new covariance",
        COV, 0.0, on_new(add_covariance)),
    step("jitter-precision", "{c} I added to the new precision",
        COV, 0.0, on_new(add_precision), NOT_LOW),
    step("jitter-G-step", "{c} I added to -G",
        COV, 0.0, lambda c: on_curv(lambda curv: minus_identity(curv, c))),
    step("jitter-prior", "{c} I added to the prior's covariance",
        COV, 0.0, on_prior(add_covariance)),
    step("jitter-prior-precision", "{c} I added to the prior's precision",
        COV, 0.0, on_prior(add_precision)),
    step("scale-G", "G times {c}", COV, 1.0, lambda c: on_curv(times_G(c))),
    step("scale-g", "g times {c}", MU, 1.0, lambda c: on_curv(times_g(c))),
    step("scale-gG", "g and G times {c}",
        ALL, 1.0, lambda c: on_curv(lambda curv: times_g(c)(times_G(c)(curv)))),
    step("scale-alpha", "alpha times {c}",
        ALL, 1.0, lambda c: on_alpha(lambda alpha: c * alpha), WITH_ALPHA),
    predict("inflation", "the predicted covariance times {c}",
        COV, 1.0, lambda c: on_predicted(lambda q, new, d: on_spread(new, lambda a: c * a)),
        NOT_LOW),
    predict("scale-Q", "Q times {c}",
        COV, 1.0, lambda c: on_transition(lambda F, b, Q, d: (F, b, c * Q))),
    predict("jitter-predict", "{c} I added to the predicted covariance",
        COV, 0.0, lambda c: on_predicted(lambda q, new, d: add_covariance(new, c)), NOT_LOW),
)
# fmt: on

"""How the right pieces of the pipeline are changed into wrong ones.

Each function here returns a change: right piece -> wrong piece. A table combines them with a few
lines of what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...curvature import Curv, dense
from ...dynamics import matrices
from ...families import dlr
from ...linalg import Array, inv
from ...states import DLR, FC, Diag, State
from .. import pipeline, vectors
from ..network import Network
from ..network import activation as right_activation
from ..pipeline import NotOfThisCase, Observation, Problem

Step = Callable[[str, State, State, Curv, Any], State]
Estimate = Callable[[str, Problem, Array, Array | None], Curv]
Predict = Callable[[State, dict[str, Any]], State]
StepChange = Callable[[Step], Step]
EstimateChange = Callable[[Estimate], Estimate]
PredictChange = Callable[[Predict], Predict]
ProblemChange = Callable[[Any], Callable[[Problem], Problem]]


# --- states ---------------------------------------------------------------------------------------

SPREAD = ("Sigma", "var", "Ups", "W")  # all that a state has beside its mean


def with_fields(q: State, other: State, *fields: str) -> State:
    """The state with these fields of another one."""
    new: State = q._replace(**{f: getattr(other, f) for f in fields if f in q._fields})
    return new


def on_spread(q: State, change: Callable[[Array], Array]) -> State:
    """The state with another Σ, σ² or Υ."""
    name = "Sigma" if isinstance(q, FC) else "var" if isinstance(q, Diag) else "Ups"
    new: State = q._replace(**{name: change(getattr(q, name))})
    return new


def inverse(a: Array) -> Array:
    """A⁻¹, of a vector entry by entry."""
    return inv(a) if a.ndim == 2 else 1 / a


def square(a: Array) -> Array:
    """A A, of a vector entry by entry."""
    return a @ a if a.ndim == 2 else a**2


def diagonal_part(a: Array) -> Array:
    """A matrix without what is off its diagonal; a vector as it is."""
    return np.diag(np.diag(a)) if a.ndim == 2 else a


def covariance(q: State) -> Array:
    """Σ as a matrix."""
    if isinstance(q, DLR):
        return dlr.covariance(q)
    return q.Sigma if isinstance(q, FC) else np.diag(q.var)


def start(name: str, prior: State, current: State) -> State:
    """The state from which a step of a method moves."""
    return current if name.split("-")[0] in ("blr", "bbb") else prior


# --- the step -------------------------------------------------------------------------------------


def on_curv(change: Callable[[Curv], Curv]) -> StepChange:
    """The step with another (g, G)."""
    return lambda step: (
        lambda name, prior, current, curv, alpha: step(name, prior, current, change(curv), alpha)
    )


def on_states(change: Callable[[State, State], tuple[State, State]]) -> StepChange:
    """The step with other states: ``change(prior, current)``."""
    return lambda step: (
        lambda name, prior, current, curv, alpha: step(name, *change(prior, current), curv, alpha)
    )


def on_alpha(change: Callable[[Any], Any]) -> StepChange:
    """The step with another learning rate."""
    return lambda step: (
        lambda name, prior, current, curv, alpha: step(name, prior, current, curv, change(alpha))
    )


def on_result(change: Callable[[str, State, State, Curv, State], State]) -> StepChange:
    """The step with another result: ``change(name, prior, current, curv, result)``."""
    return lambda step: (
        lambda name, prior, current, curv, alpha: change(
            name, prior, current, curv, step(name, prior, current, curv, alpha)
        )
    )


def as_method(change: Callable[[str], str]) -> StepChange:
    """The step of another method."""
    return lambda step: (
        lambda name, prior, current, curv, alpha: step(change(name), prior, current, curv, alpha)
    )


def with_G(curv: Curv, G: Array) -> Curv:
    """The same g with another G."""
    return Curv(curv.g, G=G)


def times_G(c: float) -> Callable[[Curv], Curv]:
    """c G in place of G."""

    def change(curv: Curv) -> Curv:
        if curv.S is not None and c >= 0:
            return Curv(curv.g, S=curv.S * np.sqrt(c))
        return with_G(curv, c * dense(curv))

    return change


def times_g(c: float) -> Callable[[Curv], Curv]:
    """c g in place of g."""
    return lambda curv: curv._replace(g=c * curv.g)


# --- the estimate ---------------------------------------------------------------------------------


def on_estimate(change: Callable[[Curv, int], Curv]) -> EstimateChange:
    """Another (g, G): ``change(curv, M)`` with M the number of samples."""
    return lambda estimate: (
        lambda hess, problem, theta, samples: change(
            estimate(hess, problem, theta, samples), 1 if samples is None else len(samples)
        )
    )


def on_samples(change: Callable[[Array, Array], Array]) -> EstimateChange:
    """Other samples: ``change(samples, theta)``."""
    return lambda estimate: (
        lambda hess, problem, theta, samples: estimate(
            hess, problem, theta, change(pipeline.given(samples), theta)
        )
    )


def as_hess(name: str) -> EstimateChange:
    """Another estimator."""
    return lambda estimate: (
        lambda hess, problem, theta, samples: estimate(name, problem, theta, samples)
    )


def G_times(c: Callable[[int], float]) -> EstimateChange:
    """G times a number that may depend on the number of samples."""
    return on_estimate(lambda curv, M: with_G(curv, c(M) * dense(curv)))


def g_times(c: Callable[[int], float]) -> EstimateChange:
    """g times a number that may depend on the number of samples."""
    return on_estimate(lambda curv, M: Curv(c(M) * curv.g, G=dense(curv)))


def both_times(c: Callable[[int], float]) -> EstimateChange:
    """g and G times a number that may depend on the number of samples."""
    return on_estimate(lambda curv, M: Curv(c(M) * curv.g, G=c(M) * dense(curv)))


# --- model, likelihood and data -------------------------------------------------------------------


def on_batch(change: Callable[[list[Observation]], list[Observation]]) -> ProblemChange:
    """Other observations of a batch."""
    look = lambda problem, theta: change(pipeline.observe(problem, theta))
    return lambda right: lambda problem: problem._replace(observe=look)


def on_observations(change: Callable[[Observation], Observation]) -> ProblemChange:
    """Every observation changed."""
    return on_batch(lambda batch: [change(one) for one in batch])


def with_score(score: Callable[[Observation], Array]) -> ProblemChange:
    """Another ∂ log p/∂o."""
    return on_observations(lambda one: one._replace(score=score(one)))


def with_info(info: Callable[[Observation], Array]) -> ProblemChange:
    """Another −∂² log p/∂o²."""
    return on_observations(lambda one: one._replace(info=info(one)))


def with_score_and_info(
    score: Callable[[Observation], Array], info: Callable[[Observation], Array]
) -> ProblemChange:
    """Another ∂ log p/∂o and −∂² log p/∂o²."""
    return on_observations(lambda one: one._replace(score=score(one), info=info(one)))


def network(**parts: Any) -> ProblemChange:
    """The network with other parts."""
    look = pipeline.with_network(Network(**parts))
    return lambda right: lambda problem: problem._replace(observe=look)


def slope(
    first: Callable[[str | None, Array, Array, Array], Array], second: float = 1.0
) -> ProblemChange:
    """The activation with the derivative ``first(name, z, s, s')`` and ``second`` times its s''."""

    def wrong(name: str | None, z: Array) -> tuple[Array, Array, Array]:
        s, s1, s2 = right_activation(name, z)
        return s, first(name, z, s, s1), second * s2

    return network(activation=wrong)


# --- the prediction -------------------------------------------------------------------------------

Transition = tuple[Array, Array, Array]  # F, b, Q


def transition(dynamics: dict[str, Any], P: int) -> Transition:
    """F, b and Q, F and Q as vectors where they are diagonal."""
    return matrices(vectors.dynamics(dynamics), P)


def on_transition(
    change: Callable[[Array, Array, Array, dict[str, Any]], Transition],
) -> PredictChange:
    """The prediction with other F, b, Q: ``change(F, b, Q, dynamics)``."""

    def wrong(predict: Predict) -> Predict:
        def fn(state: State, dynamics: dict[str, Any]) -> State:
            F, b, Q = change(*transition(dynamics, len(state.mu)), dynamics)
            return predict(state, {"kind": "linear", "F": F, "b": b, "Q": Q})

        return fn

    return wrong


def on_predicted(change: Callable[[State, State, dict[str, Any]], State]) -> PredictChange:
    """The prediction with another result: ``change(state, result, dynamics)``."""
    return lambda predict: lambda state, dynamics: change(state, predict(state, dynamics), dynamics)


def columns(curv: Curv) -> Array:
    """S, where G is given as −S Sᵀ."""
    if curv.S is None:
        raise NotOfThisCase("G = -S S^T")
    S: Array = curv.S
    return S

"""Every call of the vectors in float64, made of pieces that can be replaced by wrong ones.

``values(RIGHT, case)`` is what a case expects, up to rounding. ``values(RIGHT._replace(step=...),
case)`` is what an implementation with another step returns, for a step and for the updates and
streams that contain one: this is how a mistake in one piece is recognised at every level.

Steps, predictions and states are bongref's own. The estimators are written out here, from the parts
of each observation, because a wrong model or likelihood wrapped around :mod:`bongref.curvature`
does not do. Of the mistakes in model, likelihood and data that show in some case,

* none of 78 can be made in mc-hess, whose G is an automatic second derivative of ``log_prob``:
  it does not depend on ``score``, ``info`` or ``jac``, which a wrapper replaces;
* 4 of 86 cannot be made in lin-hess (R-root, mean-identity, mean-sigmoid, output-for-rate), whose
  G = −S Sᵀ is symmetric and negative semi-definite where theirs is not;
* all can be made in mc-ef (60) and lin-ef (68).

And some 100 mistakes are tried on each failing case: one mc-hess of the convolutional network costs
500 ms with automatic differentiation, and 0.2 ms here, where derivatives are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .. import models
from ..curvature import Curv, factor
from ..dynamics import propagate
from ..grid import MODULES
from ..linalg import Array, sqrt
from ..predictive import Predictive
from ..states import DLR, State
from . import vectors
from .network import Network
from .vectors import Case

Values = dict[str, Array]
Params = dict[str, Any]


# --- one observation ------------------------------------------------------------------------------


class Observation(NamedTuple):
    """One observation at one θ, as the estimators need it."""

    o: Array  # outputs (C,)
    h: Array  # mean of y (C,)
    J: Array  # ∂o/∂θ (C, P)
    T: Array  # ∂h/∂o (C, C)
    R: Array  # covariance of y (C, C)
    e: Array  # y − h
    score: Array  # ∂ log p/∂o (C,)
    info: Array  # −∂² log p/∂o² (C, C)
    y: Array
    kind: str  # of the likelihood
    second: Callable[[], Array]  # ∂²o/∂θ², (C, P, P), computed when it is called


def observe(problem: Problem, theta: Array) -> list[Observation]:
    """The observations of a batch at θ."""
    model, likelihood = _text(problem.model), _text(problem.likelihood)
    at = np.asarray(theta, dtype=float).tobytes()
    pairs = problem.pairs
    return [_observed(model, likelihood, x.tobytes(), x.shape, y.tobytes(), at) for x, y in pairs]


class Problem(NamedTuple):
    """Model, likelihood and data of an estimator; ``observe`` makes the observations from them."""

    model: dict[str, Any]
    likelihood: dict[str, Any]
    x: Array
    y: Array
    observe: Callable[[Problem, Array], list[Observation]] = observe

    def at(self, theta: Array) -> list[Observation]:
        """The observations of the batch at θ."""
        return self.observe(self, theta)

    @property
    def pairs(self) -> list[tuple[Array, Array]]:
        """(x, y) of each observation."""
        batch = is_batch(self.model, self.x)
        return list(zip(self.x, self.y, strict=True)) if batch else [(self.x, self.y)]


def is_batch(model: dict[str, Any], x: Array) -> bool:
    """Whether x holds several inputs of a model."""
    return np.ndim(x) > len(model["in_shape"])


def with_network(network: Network) -> Callable[[Problem, Array], list[Observation]]:
    """``observe`` with a network of its own in place of the model."""

    def look(problem: Problem, theta: Array) -> list[Observation]:
        lik, out = vectors.likelihood(problem.likelihood), []
        for x, y in problem.pairs:
            o, J, _ = network.outputs(problem.model, theta, x)
            second = lambda x=x: network.outputs(problem.model, theta, x, True)[2]
            out.append(observation(lik, o, J, y, second))
        return out

    return look


def observation(lik: Any, o: Array, J: Array, y: Array, second: Callable[[], Array]) -> Observation:
    """What a likelihood makes of the outputs."""
    R, score = np.asarray(lik.var(o)), np.asarray(lik.score(o, y))
    info = np.asarray(lik.info(o)) if lik.name == "gaussian" else R
    e, h, T = (np.asarray(a) for a in (lik.residual(o, y), lik.mean(o), lik.jac_mean(o)))
    return Observation(o, h, J, T, R, e, score, info, y, lik.name, second)


# The mistakes of a case are tried one after another on the same inputs: models, likelihoods and
# derivatives are kept. Arguments are text and bytes, so that equal inputs are equal keys.


def _text(spec: Any) -> str:
    """A plain description as JSON, which keeps every bit of a float64."""
    return json.dumps(spec, default=lambda a: a.tolist())


@lru_cache(maxsize=64)
def _model(spec: str) -> models.ParametricModel:
    return vectors.model(json.loads(spec))


@lru_cache(maxsize=64)
def _likelihood(spec: str) -> Any:
    return vectors.likelihood(json.loads(spec))


@lru_cache(maxsize=8192)
def _observed(
    model: str, likelihood: str, x: bytes, shape: tuple[int, ...], y: bytes, theta: bytes
) -> Observation:
    o, J = _outputs(model, x, shape, theta)
    second = lambda: _second(model, x, shape, theta)
    return observation(_likelihood(likelihood), o, J, np.frombuffer(y), second)


@lru_cache(maxsize=4096)
def _outputs(spec: str, x: bytes, shape: tuple[int, ...], theta: bytes) -> tuple[Array, Array]:
    model, point, at = _model(spec), np.frombuffer(x).reshape(shape), np.frombuffer(theta)
    linear = model.kind == "linear"  # its Jacobian is the same for every θ
    J = _linear_jacobian(spec, x, shape, len(at)) if linear else model.jac(at, point)
    return np.asarray(model(at, point)), np.asarray(J)


@lru_cache(maxsize=256)
def _linear_jacobian(spec: str, x: bytes, shape: tuple[int, ...], P: int) -> Array:
    return np.asarray(_model(spec).jac(np.zeros(P), np.frombuffer(x).reshape(shape)))


@lru_cache(maxsize=1024)
def _second(spec: str, x: bytes, shape: tuple[int, ...], theta: bytes) -> Array:
    model, point, at = _model(spec), np.frombuffer(x).reshape(shape), np.frombuffer(theta)
    C = int(model.n_outputs or 1)
    if model.kind == "linear":
        return np.zeros((C, len(at), len(at)))
    outputs = [partial(_output, model, point, c) for c in range(C)]
    return np.stack([models.hessian(output)(at) for output in outputs])


def _output(model: models.ParametricModel, x: Array, c: int, theta: Array) -> Any:
    return model(theta, x)[c]


# --- the estimators as displayed ------------------------------------------------------------------
# :mod:`.mistakes.edited` edits these functions, so each equation has a line of its own.


def gradient(batch: list[Observation]) -> Array:
    """∇ log p of a batch."""
    return sum(one.J.T @ one.score for one in batch)  # type: ignore[no-any-return]  # eq:gL


def fisher(batch: list[Observation]) -> Array:
    """Jᵀ info J of a batch: −G of the linearised model."""
    return sum(one.J.T @ one.info @ one.J for one in batch)  # type: ignore[no-any-return]  # eq:GL


def hessian(batch: list[Observation]) -> Array:
    """∇² log p of a batch."""
    return sum(  # type: ignore[no-any-return]
        np.tensordot(one.score, one.second(), axes=1) - one.J.T @ one.info @ one.J for one in batch
    )  # eq:GMCH


def lin_hess(problem: Problem, theta: Array, samples: Array | None) -> Curv:
    """LIN-HESS from the observations at θ."""
    batch = problem.at(theta)
    g = gradient(batch)  # eq:gL
    G = -fisher(batch)  # eq:GL
    return Curv(g, G=G)


def lin_ef(problem: Problem, theta: Array, samples: Array | None) -> Curv:
    """LIN-EF from the observations at θ."""
    g = gradient(problem.at(theta))  # eq:gL-cheap
    G = -np.outer(g, g)  # eq:GLEF
    return Curv(g, S=g[:, None], G=G)


def mc_hess(problem: Problem, theta: Array, samples: Array | None) -> Curv:
    """MC-HESS from the observations at the samples."""
    batches = [problem.at(t) for t in given(samples)]
    M = len(batches)
    g = sum(gradient(b) for b in batches) / M  # eq:gMC
    G = sum(hessian(b) for b in batches) / M  # eq:GMCH
    return Curv(g, G=G)  # type: ignore[arg-type]


def mc_ef(problem: Problem, theta: Array, samples: Array | None) -> Curv:
    """MC-EF from the observations at the samples."""
    grads = [gradient(problem.at(t)) for t in given(samples)]
    M = len(grads)
    g = sum(grads) / M  # eq:gMC
    G = -sum(np.outer(v, v) for v in grads) / M  # eq:GMCEF
    return Curv(g, G=G)  # type: ignore[arg-type]


def given(samples: Array | None) -> Array:
    """The samples, or NotOfThisCase where there are none."""
    if samples is None:
        raise NotOfThisCase("samples")
    return samples


class NotOfThisCase(Exception):
    """A mistake that cannot be made in this case: it has no samples, no batch, another family."""


ESTIMATORS = {"mc-hess": mc_hess, "mc-ef": mc_ef, "lin-hess": lin_hess, "lin-ef": lin_ef}


# --- the pieces -----------------------------------------------------------------------------------


def step(name: str, prior: State, current: State, curv: Curv, alpha: Any) -> State:
    """The displayed form of the rule in the family."""
    rule, *_, family = name.split("-")
    new: State = getattr(MODULES[family], rule)(prior, current, curv, alpha)
    return new


def unprojected(name: str, prior: DLR, current: DLR, curv: Curv, alpha: Any) -> tuple[Array, Array]:
    """Υ̃ and W̃ of bong and blr in DLR, before the projection."""
    if name.startswith("bong"):
        return prior.Ups, np.concatenate([prior.W, factor(curv)], axis=1)
    weights = sqrt(1 - alpha) * current.W, sqrt(alpha) * prior.W, sqrt(alpha) * factor(curv)
    return (1 - alpha) * current.Ups + alpha * prior.Ups, np.concatenate(weights, axis=1)


def estimate(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
    """(g, G) by one of the four estimators."""
    return ESTIMATORS[hess](problem, theta, samples)


def predict(state: State, dynamics: dict[str, Any]) -> State:
    """The prior of the next step."""
    return propagate(state, vectors.dynamics(dynamics))


def update(
    pieces: Pieces, name: str, problem: Problem, prior: State, samples: Array | None, params: Params
) -> State:
    """The inner loop: an estimate at the iterate, a step from it."""
    hess, current = vectors.estimator_of(name), prior
    for i in range(params.get("n_iter", 1)):
        here = None if samples is None else samples[i]
        curv = pieces.estimate(hess, problem, current.mu, here)
        current = pieces.step(name, prior, current, curv, params.get("alpha", 1))
    return current


def run(pieces: Pieces, name: str, inputs: dict[str, Any]) -> Iterator[State]:
    """A stream: predict, then update."""
    state = vectors.state(name.split("-")[-1], inputs["prior"])
    for t, (x, y) in enumerate(zip(inputs["X"], inputs["Y"], strict=True)):
        state = pieces.predict(state, inputs["dynamics"])
        if y is not None:
            problem, here = pieces.problem_of(inputs, x, y), at_step(inputs["samples"], t)
            state = pieces.update(pieces, name, problem, state, here, inputs["params"])
        yield state


def at_step(samples: Array | None, t: int) -> Array | None:
    """The samples of step t."""
    return None if samples is None else samples[t]


def mixture(kind: str, problem: Problem, mu: Array, samples: Array | None) -> Predictive:
    """The predictive distribution from the outputs, or the linearised means, at each θ."""
    lik, here = vectors.likelihood(problem.likelihood), problem.at(mu)
    if kind == "lin_mc":
        means = [[p.h + p.T @ p.J @ (t - mu) for p in here] for t in given(samples)]
        return Predictive(kind, lik, np.stack(means), True)
    thetas = [mu] if kind == "plugin" else given(samples)
    return Predictive(kind, lik, np.stack([[p.o for p in problem.at(t)] for t in thetas]))


def predictive(kind: str, problem: Problem, mu: Array, samples: Array | None) -> Values:
    """Moments, densities and metrics of a predictive distribution."""
    return summary(mixture(kind, problem, mu, samples), problem.y)


def summary(pred: Predictive, Y: Array) -> Values:
    """Mean, variance, log-density and nlpd; of classes also error and ece."""
    logs = pred.log_density(Y)
    out = {"mean": pred.mean, "var": pred.var, "log_density": logs, "nlpd": -np.mean(logs)}
    one_label = pred.lik.name == "bernoulli" and Y.shape[-1] == 1
    if pred.lik.name == "categorical" or one_label:
        out |= scores(*labels(pred.mean, Y))
    return out


def labels(mean: Array, Y: Array) -> tuple[Array, Array]:
    """Probabilities of the classes and one-hot observations, (N, K) both."""
    if mean.shape[-1] > 1:
        return mean, Y
    return np.hstack([1 - mean, mean]), np.hstack([1 - Y, Y])


def scores(
    p: Array, y: Array, bins: int = 20, sure: Array | None = None, left: bool = False
) -> Values:
    """Share of wrong classes, and calibration error over equal bins of the confidence ``sure``."""
    sure = p.max(axis=1) if sure is None else sure
    hit = (p.argmax(axis=1) == y.argmax(axis=1)).astype(float)
    number = np.floor(sure * bins) if left else np.ceil(sure * bins) - 1
    number = np.clip(number, 0, bins - 1)
    gaps = [abs(np.sum((hit - sure)[number == b])) for b in np.unique(number)]
    return {"error": np.asarray(1 - hit.mean()), "ece": np.asarray(np.sum(gaps) / len(p))}


def _same_problem(problem: Problem) -> Problem:
    return problem


def _same_values(case: Case, values: Values) -> Values:
    return values


class Pieces(NamedTuple):
    """The pieces of an implementation; a mistake replaces one of them."""

    step: Callable[[str, State, State, Curv, Any], State] = step
    estimate: Callable[[str, Problem, Array, Array | None], Curv] = estimate
    predict: Callable[[State, dict[str, Any]], State] = predict
    update: Callable[..., State] = update
    run: Callable[..., Iterator[State]] = run
    predictive: Callable[[str, Problem, Array, Array | None], Values] = predictive
    problem: Callable[[Problem], Problem] = _same_problem  # how model, likelihood, data are read
    output: Callable[[Case, Values], Values] = _same_values  # what is done to the values last

    def problem_of(self, inputs: dict[str, Any], x: Array, y: Array) -> Problem:
        """The problem of one update with the inputs of a case."""
        return self.problem(Problem(inputs["model"], inputs["likelihood"], x, y))


RIGHT = Pieces()

# the levels at which each piece acts
USED = {
    "step": ("step", "update", "stream"),
    "estimate": ("estimate", "update", "stream"),
    "predict": ("predict", "stream"),
    "update": ("update", "stream"),
    "run": ("stream",),
    "predictive": ("predictive",),
    "problem": ("estimate", "update", "stream", "predictive"),
    "output": ("step", "estimate", "update", "stream", "predict"),
}


# --- the values of a case -------------------------------------------------------------------------


def values(pieces: Pieces, case: Case) -> Values:
    """All that a case gives with these pieces."""
    return {name: value for part in stages(pieces, case) for name, value in part.items()}


def stages(pieces: Pieces, case: Case) -> Iterator[Values]:
    """What a case gives with these pieces, the states of a stream one by one."""
    inputs, level = case.input, case.level
    if level == "predictive":
        problem = pieces.problem_of(inputs, inputs["X"], inputs["Y"])
        mu, samples = inputs["state"]["mu"], inputs["samples"]
        yield pieces.predictive(case.subject["kind"], problem, mu, samples)
    elif level == "estimate":
        problem = pieces.problem_of(inputs, inputs["x"], inputs["y"])
        theta, samples = inputs["theta"], inputs["samples"]
        curv = pieces.estimate(case.subject["hess"], problem, theta, samples)
        G = full_G(curv)
        yield pieces.output(case, {"g": curv.g, "G": G, "diag G": np.diag(G)})
    elif level == "stream":
        for t, state in enumerate(pieces.run(pieces, case.subject["method"], inputs), start=1):
            now = pieces.output(case, vectors.invariants(case.family, state._asdict()))
            yield {f"state[{t}].{k}": v for k, v in now.items()}
    else:
        state = _state(pieces, case)
        yield pieces.output(case, vectors.invariants(case.family, state._asdict()))


def _state(pieces: Pieces, case: Case) -> State:
    """The state that a prediction, a step or an update returns."""
    inputs, family = case.input, case.family
    if case.level == "predict":
        return pieces.predict(vectors.state(family, inputs["state"]), inputs["dynamics"])
    prior, params = vectors.state(family, inputs["prior"]), inputs["params"]
    if case.level == "step":
        current, curv = vectors.state(family, inputs["current"]), inputs["curv"]
        form = "S" if "S" in curv else "G"
        seam = Curv(curv["g"], **{form: curv[form]})
        return pieces.step(case.subject["method"], prior, current, seam, params.get("alpha", 1))
    problem = pieces.problem_of(inputs, inputs["x"], inputs["y"])
    name, samples = case.subject["method"], inputs["samples"]
    return pieces.update(pieces, name, problem, prior, samples, params)


def full_G(curv: Curv) -> Array:
    """G as a matrix: as it is given, or else from S."""
    G: Array = curv.G if curv.G is not None else -(curv.S @ curv.S.T)
    return G

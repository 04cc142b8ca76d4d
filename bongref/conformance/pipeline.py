"""Every level of the vectors as one small pipeline in float64 whose pieces can be exchanged for wrong ones.

``values(RIGHT, case)`` is what the case wants, up to rounding; ``values(RIGHT._replace(step=...), case)`` is what an implementation
returns whose step is another one, at the level of the step and at every level above. This is how a mistake in one piece is recognised in
an update or a stream. The estimators are written out from the parts of each observation (o, ŷ, J, R, …), so that each can be exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import models
from ..curvature import Curv
from ..dynamics import propagate
from ..linalg import Array
from ..methods import MODULES
from ..states import State
from . import vectors
from .vectors import Case

Values = dict[str, Array]


# --- the parts of an observation ------------------------------------------------------------------------------------------------


class One(NamedTuple):
    """One observation at one θ: outputs o, mean h, Jacobian J of o, T = ∂h/∂o, R, residual e, ∂log p/∂o, its negative Jacobian, y."""

    o: Array
    h: Array
    J: Array
    T: Array
    R: Array
    e: Array
    score: Array
    info: Array
    y: Array
    kind: str
    network: Callable[[], Array]  # (C, P, P): the second derivatives of o


class Job(NamedTuple):
    """What an estimator is called with, as plain descriptions."""

    model: dict[str, Any]
    likelihood: dict[str, Any]
    x: Array
    y: Array

    def at(self, theta: Array) -> list[One]:
        """The observations of the batch at θ."""
        model, likelihood = _frozen(self.model), _frozen(self.likelihood)
        return [
            _one(model, likelihood, x.tobytes(), x.shape, y.tobytes(), np.asarray(theta, dtype=float).tobytes()) for x, y in self.single
        ]

    @property
    def single(self) -> list[tuple[Array, Array]]:
        """(x, y) of each observation."""
        return list(zip(self.x, self.y, strict=True)) if is_batch(self.model, self.x) else [(self.x, self.y)]


def is_batch(spec: dict[str, Any], x: Array) -> bool:
    return np.ndim(x) > len(spec["in_shape"])


def _frozen(value: Any) -> Any:
    """A description that can be a key."""
    if isinstance(value, dict):
        return ("dict", *((k, _frozen(v)) for k, v in value.items()))
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.tobytes())
    return tuple(_frozen(v) for v in value) if isinstance(value, (list, tuple)) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, tuple) and value[:1] == ("dict",):
        return {k: _thawed(v) for k, v in value[1:]}
    if isinstance(value, tuple) and value[:1] == ("array",):
        return np.frombuffer(value[2]).reshape(value[1])
    return [_thawed(v) for v in value] if isinstance(value, tuple) else value


@lru_cache(maxsize=64)
def _model(frozen: Any) -> models.Model:
    return vectors.model(_thawed(frozen))


@lru_cache(maxsize=64)
def _likelihood(frozen: Any) -> Any:
    return vectors.likelihood(_thawed(frozen))


@lru_cache(maxsize=8192)
def _one(model: Any, likelihood: Any, x: bytes, shape: tuple[int, ...], y: bytes, theta: bytes) -> One:
    """The parts of one observation at θ."""
    lik, seen = _likelihood(likelihood), np.frombuffer(y)
    o, J = _outputs(model, x, shape, theta)
    R, score = np.asarray(lik.var(o)), np.asarray(lik.score(o, seen))
    info = np.asarray(lik.info(o)) if lik.name == "gaussian" else R
    e, h, T = np.asarray(lik.residual(o, seen)), np.asarray(lik.mean(o)), np.asarray(lik.jac_mean(o))
    return One(o, h, J, T, R, e, score, info, seen, lik.name, lambda: _network(model, x, shape, theta))


@lru_cache(maxsize=4096)
def _outputs(frozen: Any, x: bytes, shape: tuple[int, ...], theta: bytes) -> tuple[Array, Array]:
    model, point, at = _model(frozen), np.frombuffer(x).reshape(shape), np.frombuffer(theta)
    o = np.asarray(model(at, point))
    return o, _linear_jacobian(frozen, x, shape, len(at)) if model.kind == "linear" else np.asarray(model.jac(at, point))


@lru_cache(maxsize=256)
def _linear_jacobian(frozen: Any, x: bytes, shape: tuple[int, ...], P: int) -> Array:
    return np.asarray(_model(frozen).jac(np.zeros(P), np.frombuffer(x).reshape(shape)))


@lru_cache(maxsize=1024)
def _network(frozen: Any, x: bytes, shape: tuple[int, ...], theta: bytes) -> Array:
    model, point, at = _model(frozen), np.frombuffer(x).reshape(shape), np.frombuffer(theta)
    C = int(model.n_outputs or 1)
    if model.kind == "linear":
        return np.zeros((C, len(at), len(at)))
    return np.stack([models.hessian(lambda t, c=c: model(t, point)[c])(at) for c in range(C)])


# --- the estimators as displayed --------------------------------------------------------------------------------------------------


def gradient(batch: list[One]) -> Array:
    """∇ log p of a batch."""
    return sum(one.J.T @ one.score for one in batch)  # eq:gL


def fisher(batch: list[One]) -> Array:
    """Jᵀ info J of a batch: −G of the linearised model."""
    return sum(one.J.T @ one.info @ one.J for one in batch)  # eq:GL


def hessian(batch: list[One]) -> Array:
    """∇² log p of a batch."""
    return sum(np.tensordot(one.score, one.network(), axes=1) - one.J.T @ one.info @ one.J for one in batch)  # eq:GMCH


def lin_hess(job: Job, theta: Array, samples: Array | None) -> Curv:
    batch = job.at(theta)
    g = gradient(batch)  # eq:gL
    G = -fisher(batch)  # eq:GL
    return Curv(g, G=G)


def lin_ef(job: Job, theta: Array, samples: Array | None) -> Curv:
    g = gradient(job.at(theta))  # eq:gL-cheap
    G = -np.outer(g, g)  # eq:GLEF
    return Curv(g, S=g[:, None], G=G)


def mc_hess(job: Job, theta: Array, samples: Array | None) -> Curv:
    batches = [job.at(t) for t in _some(samples)]
    M = len(batches)
    g = sum(gradient(b) for b in batches) / M  # eq:gMC
    G = sum(hessian(b) for b in batches) / M  # eq:GMCH
    return Curv(g, G=G)


def mc_ef(job: Job, theta: Array, samples: Array | None) -> Curv:
    grads = [gradient(job.at(t)) for t in _some(samples)]
    M = len(grads)
    g = sum(grads) / M  # eq:gMC
    G = -sum(np.outer(v, v) for v in grads) / M  # eq:GMCEF
    return Curv(g, G=G)


def _some(samples: Array | None) -> Array:
    if samples is None:
        raise ValueError("there are no samples")
    return samples


ESTIMATORS: dict[str, Callable[..., Curv]] = {"mc-hess": mc_hess, "mc-ef": mc_ef, "lin-hess": lin_hess, "lin-ef": lin_ef}


# --- the pieces and how they are put together ----------------------------------------------------------------------------------------


def step(name: str, prior: State, current: State, curv: Curv, alpha: Any) -> State:
    """The displayed form of the rule in the family."""
    rule, *_, family = name.split("-")
    return getattr(MODULES[family], rule)(prior, current, curv, alpha)


def estimate(hess: str, job: Job, theta: Array, samples: Array | None) -> Curv:
    return ESTIMATORS[hess](job, theta, samples)


def predict(state: State, dynamics: dict[str, Any]) -> State:
    return propagate(state, vectors.dynamics(dynamics))


def update(pieces: Pieces, name: str, job: Job, prior: State, samples: Array | None, params: dict[str, Any]) -> State:
    """The inner loop: an estimate at the iterate, a step from it."""
    hess, current = "-".join(name.split("-")[1:3]), prior
    for i in range(params.get("n_iter", 1)):
        curv = pieces.estimate(hess, job, current.mu, None if samples is None else samples[i])
        current = pieces.step(name, prior, current, curv, params.get("alpha", 1))
    return current


def run(pieces: Pieces, name: str, given: dict[str, Any]) -> Iterator[State]:
    """A stream: predict, then update."""
    state = vectors.state(name.split("-")[-1], given["prior"])
    for t, (x, y) in enumerate(zip(given["X"], given["Y"], strict=True)):
        state = pieces.predict(state, given["dynamics"])
        if y is not None:
            state = pieces.update(pieces, name, job_of(given, x, y), state, _at(given["samples"], t), given["params"])
        yield state


def _at(samples: Array | None, t: int) -> Array | None:
    return None if samples is None else samples[t]


def job_of(given: dict[str, Any], x: Array, y: Array) -> Job:
    return Job(given["model"], given["likelihood"], x, y)


def predictive(kind: str, job: Job, mu: Array, samples: Array | None) -> Values:
    """Mean, variance and log-density from the means of y at each θ."""
    from ..predictive import Predictive

    lik = vectors.likelihood(job.likelihood)
    points = job.at(mu)
    if kind == "plugin":
        o = np.stack([p.o for p in points])[None]
    elif kind == "mc":
        o = np.stack([[p.o for p in job.at(t)] for t in _some(samples)])
    else:
        h = np.stack([[p.h + p.T @ p.J @ (t - mu) for p in points] for t in _some(samples)])
        return summary(Predictive(kind, lik, h, True), job.y)
    return summary(Predictive(kind, lik, o), job.y)


def summary(pred: Any, Y: Array) -> Values:
    logs = pred.log_density(Y)
    return {"mean": pred.mean, "var": pred.var, "log_density": logs, "nlpd": -np.mean(logs)}


def identity(case: Case, values: Values) -> Values:
    return values


class Pieces(NamedTuple):
    """The pieces of an implementation; each is exchanged by ``_replace``."""

    step: Callable[..., State] = step
    estimate: Callable[..., Curv] = estimate
    predict: Callable[..., State] = predict
    update: Callable[..., State] = update
    run: Callable[..., Iterator[State]] = run
    predictive: Callable[..., Values] = predictive
    output: Callable[[Case, Values], Values] = identity  # what is done to the numbers before they are returned


RIGHT = Pieces()

# the levels at which each piece is at work
USED = {
    "step": ("step", "update", "stream"),
    "estimate": ("estimate", "update", "stream"),
    "predict": ("predict", "stream"),
    "update": ("update", "stream"),
    "run": ("stream",),
    "predictive": ("predictive",),
    "output": ("step", "estimate", "update", "stream", "predict"),
}


def family_of(case: Case) -> str:
    return case.subject["family"] if "family" in case.subject else case.subject["method"].split("-")[-1]


def invariants(family: str, state: State) -> Values:
    return vectors.invariants(family, state._asdict())


def curv_of(given: dict[str, Any]) -> Curv:
    """(g, G) of a step's case, with S where there is one."""
    return Curv(given["g"], S=given["S"]) if "S" in given else Curv(given["g"], G=given["G"])


def stages(pieces: Pieces, case: Case) -> Iterator[Values]:
    """What a case gives with these pieces, bit by bit where it comes in bits (the states of a stream)."""
    given, level = case.input, case.level
    if level == "stream":
        for t, state in enumerate(pieces.run(pieces, case.subject["method"], given), start=1):
            now = pieces.output(case, invariants(family_of(case), state))
            yield {f"state[{t}].{k}": v for k, v in now.items()}
        return
    if level == "predictive":
        yield pieces.predictive(case.subject["kind"], job_of(given, given["X"], given["Y"]), given["state"]["mu"], given["samples"])
        return
    if level == "estimate":
        curv = pieces.estimate(case.subject["hess"], job_of(given, given["x"], given["y"]), given["theta"], given["samples"])
        G = curv.G if curv.G is not None else -(curv.S @ curv.S.T)
        yield pieces.output(case, {"g": curv.g, "G": G, "diag G": np.diag(G)})
        return
    family = family_of(case)
    if level == "predict":
        state = pieces.predict(vectors.state(family, given["state"]), given["dynamics"])
    elif level == "step":
        prior, current = vectors.state(family, given["prior"]), vectors.state(family, given["current"])
        state = pieces.step(case.subject["method"], prior, current, curv_of(given["curv"]), given["params"].get("alpha", 1))
    else:
        prior, job = vectors.state(family, given["prior"]), job_of(given, given["x"], given["y"])
        state = pieces.update(pieces, case.subject["method"], job, prior, given["samples"], given["params"])
    yield pieces.output(case, invariants(family, state))


def values(pieces: Pieces, case: Case) -> Values:
    """All that a case gives with these pieces."""
    out: Values = {}
    for stage in stages(pieces, case):
        out |= stage
    return out

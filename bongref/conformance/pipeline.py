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
from scipy.special import ndtr

from .. import models
from ..curvature import Curv
from ..dynamics import propagate
from ..grid import MODULES
from ..linalg import Array, inv
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


def see(job: Job, theta: Array) -> list[One]:
    """The observations of a batch at θ."""
    model, likelihood = _frozen(job.model), _frozen(job.likelihood)
    at = np.asarray(theta, dtype=float).tobytes()
    return [_one(model, likelihood, x.tobytes(), x.shape, y.tobytes(), at) for x, y in job.single]


class Job(NamedTuple):
    """What an estimator is called with, as plain descriptions, and how the observations are seen."""

    model: dict[str, Any]
    likelihood: dict[str, Any]
    x: Array
    y: Array
    see: Callable[[Job, Array], list[One]] = see

    def at(self, theta: Array) -> list[One]:
        """The observations of the batch at θ."""
        return self.see(self, theta)

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
    o, J = _outputs(model, x, shape, theta)
    return parts(_likelihood(likelihood), o, J, np.frombuffer(y), lambda: _network(model, x, shape, theta))


def parts(lik: Any, o: Array, J: Array, seen: Array, network: Callable[[], Array]) -> One:
    """What a likelihood makes of the outputs."""
    R, score = np.asarray(lik.var(o)), np.asarray(lik.score(o, seen))
    info = np.asarray(lik.info(o)) if lik.name == "gaussian" else R
    e, h, T = np.asarray(lik.residual(o, seen)), np.asarray(lik.mean(o)), np.asarray(lik.jac_mean(o))
    return One(o, h, J, T, R, e, score, info, seen, lik.name, network)


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


# --- a network written out, in which every piece can be exchanged ------------------------------------------------------------------


def activation(name: str | None, z: Array) -> tuple[Array, Array, Array]:
    """An activation and its two derivatives."""
    if name == "tanh":
        t = np.tanh(z)
        return t, 1 - t**2, -2 * t * (1 - t**2)
    if name in ("sigmoid", "silu"):
        p = 1 / (1 + np.exp(-z))
        s, s1, s2 = p, p * (1 - p), p * (1 - p) * (1 - 2 * p)
        return (s, s1, s2) if name == "sigmoid" else (z * s, s + z * s1, 2 * s1 + z * s2)
    if name == "softplus":
        p = 1 / (1 + np.exp(-z))
        return np.logaddexp(0, z), p, p * (1 - p)
    if name == "relu":
        on = (z > 0).astype(float)
        return z * on, on, 0 * z
    if name == "elu":
        on, e = z > 0, np.exp(np.minimum(z, 0))
        return np.where(on, z, e - 1), np.where(on, 1.0, e), np.where(on, 0.0, e)
    if name == "gelu":
        Phi, phi = ndtr(z), np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return z * Phi, Phi + z * phi, phi * (2 - z**2)
    if name == "gelu_tanh":
        c, k = np.sqrt(2 / np.pi), 0.044715
        t, u1, u2 = np.tanh(c * (z + k * z**3)), c * (1 + 3 * k * z**2), 6 * c * k * z
        t1, t2 = (1 - t**2) * u1, (1 - t**2) * (u2 - 2 * t * u1**2)
        return z * (1 + t) / 2, (1 + t) / 2 + z * t1 / 2, t1 + z * t2 / 2
    return z, np.ones_like(z), 0 * z


def pooled(z: Array) -> Array:
    """The weights of 2 × 2 average pooling over (h, 2, w, 2, c)."""
    return np.full(z.shape, 0.25)


class Network(NamedTuple):
    """How the outputs come about; each is exchanged by ``_replace``."""

    activation: Callable[[str | None, Array], tuple[Array, Array, Array]] = activation
    last: bool = False  # an activation after the last layer too
    bias: float = 1.0  # times which it is added
    bias_slope: float = 1.0
    pool: Callable[[Array], Array] = pooled
    pad: str = "constant"

    def outputs(self, model: dict[str, Any], theta: Array, x: Array, second: bool = False) -> tuple[Array, Array, Array]:
        """o (C,), J (C, P) and the second derivatives (C, P, P), carried forward from layer to layer."""
        P, a = len(theta), np.ravel(x)
        J, H = np.zeros((len(a), P)), np.zeros((len(a), P, P) if second else (len(a), 1, 1))
        blocks, shape = {b["name"]: b for b in model["layout"]}, tuple(model["in_shape"])
        weights = [b for b in model["layout"] if b["name"][0] in "WK"]
        for k, block in enumerate(weights):
            w = slice(block["start"], block["stop"])
            B = _bilinear(tuple(block["shape"]), shape, self.pad)  # z = B w a
            M, D = np.einsum("okj,k->oj", B, theta[w]), np.einsum("okj,j->ok", B, a)
            z, Jz = M @ a, M @ J
            Jz[:, w] += D
            if second:
                H = np.tensordot(M, H, 1)
                mixed = np.tensordot(B, J, 1)
                H[:, w, :] += mixed
                H[:, :, w] += mixed.transpose(0, 2, 1)
            bias = blocks.get(f"b{k}")
            if bias is not None:
                at = bias["start"] + np.arange(len(z)) % (bias["stop"] - bias["start"])
                z = z + self.bias * theta[at]
                Jz[np.arange(len(z)), at] += self.bias_slope
            if k < len(weights) - 1 or self.last:
                s, s1, s2 = self.activation(model["activation"], z)
                if second:
                    H = s2[:, None, None] * Jz[:, :, None] * Jz[:, None, :] + s1[:, None, None] * H
                z, Jz = s, s1[:, None] * Jz
            if len(block["shape"]) == 4:
                h, wide, c = shape[0], shape[1], block["shape"][-1]
                grid = (h // 2, 2, wide // 2, 2, c)
                weight = self.pool(z.reshape(grid)).reshape(-1)
                where = np.broadcast_to(np.arange(z.size // 4).reshape(h // 2, 1, wide // 2, 1, c), grid).reshape(-1)
                A = np.zeros((z.size // 4, z.size))
                A[where, np.arange(z.size)] = weight
                z, Jz, H = A @ z, A @ Jz, np.tensordot(A, H, 1) if second else H
                shape = (h // 2, wide // 2, c)
            a, J = z, Jz
        return a, J, H

    def see(self, job: Job, theta: Array) -> list[One]:
        """The observations of a batch with this network."""
        lik = _likelihood(_frozen(job.likelihood))
        out = []
        for x, y in job.single:
            o, J, _ = self.outputs(job.model, theta, x)
            out.append(parts(lik, o, J, y, lambda x=x: self.outputs(job.model, theta, x, True)[2]))  # type: ignore[misc]
        return out


@lru_cache(maxsize=64)
def _bilinear(kernel: tuple[int, ...], shape: tuple[int, ...], pad: str) -> Array:
    """(n_out, n_weights, n_in): the products of a layer; a convolution keeps the size of its input."""
    if len(kernel) == 2:
        n, m = kernel
        return np.einsum("op,ij->opij", np.eye(n), np.eye(m)).reshape(n, n * m, m)
    (h, w, c), (kh, kw, _, n) = shape, kernel
    before = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in (kh, kw)]
    inputs = np.pad(np.arange(1, h * w * c + 1).reshape(shape), (*before, (0, 0)), pad)  # type: ignore[call-overload]
    B = np.zeros((h, w, n, kh, kw, c, n, h * w * c + 1))
    for i, j, o, p, q, m in np.ndindex(h, w, n, kh, kw, c):
        B[i, j, o, p, q, m, o, inputs[i + p, j + q, m]] += 1
    return B.reshape(h * w * n, kh * kw * c * n, -1)[:, :, 1:]


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


def predict_dlr(q: Any, F: Array, b: Array, Q: Array) -> Any:
    """The prediction of DLR by Woodbury twice: Σ = D − V C⁻¹ Vᵀ with D = F²/Υ + Q, V = F W/Υ, and its inverse."""
    D = F**2 / q.Ups + Q  # sec:pseudocode#4
    V = (F / q.Ups)[:, None] * q.W  # sec:pseudocode#4
    C = np.eye(q.W.shape[1]) + q.W.T @ (q.W / q.Ups[:, None])  # sec:pseudocode#4
    E = inv(C - V.T @ (V / D[:, None]))  # sec:pseudocode#4
    W = (V / D[:, None]) @ np.linalg.cholesky(E)  # sec:pseudocode#4
    return q._replace(mu=F * q.mu + b, Ups=1 / D, W=W)  # sec:pseudocode#3


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
            state = pieces.update(pieces, name, pieces.seen(given, x, y), state, _at(given["samples"], t), given["params"])
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
    out = {"mean": pred.mean, "var": pred.var, "log_density": logs, "nlpd": -np.mean(logs)}
    if pred.lik.name == "categorical" or (pred.lik.name == "bernoulli" and Y.shape[-1] == 1):
        out |= scores(*labels(pred.mean, Y))
    return out


def labels(mean: Array, Y: Array) -> tuple[Array, Array]:
    """The probability of each class and which one it is: (N, K), (N, K)."""
    return (mean, Y) if mean.shape[-1] > 1 else (np.hstack([1 - mean, mean]), np.hstack([1 - Y, Y]))


def scores(p: Array, y: Array, bins: int = 20, sure: Array | None = None, left: bool = False) -> Values:
    """The share of wrong classes and the expected calibration error over equal bins of the confidence."""
    sure = p.max(axis=1) if sure is None else sure
    hit = (p.argmax(axis=1) == y.argmax(axis=1)).astype(float)
    where = np.clip(np.floor(sure * bins) if left else np.ceil(sure * bins) - 1, 0, bins - 1)
    gaps = [abs(np.sum((hit - sure)[where == b])) for b in np.unique(where)]
    return {"error": np.asarray(1 - hit.mean()), "ece": np.asarray(np.sum(gaps) / len(p))}


def identity(case: Case, values: Values) -> Values:
    return values


def as_it_is(job: Job) -> Job:
    return job


class Pieces(NamedTuple):
    """The pieces of an implementation; each is exchanged by ``_replace``."""

    step: Callable[..., State] = step
    estimate: Callable[..., Curv] = estimate
    predict: Callable[..., State] = predict
    update: Callable[..., State] = update
    run: Callable[..., Iterator[State]] = run
    predictive: Callable[..., Values] = predictive
    job: Callable[[Job], Job] = as_it_is  # how model and likelihood are seen
    output: Callable[[Case, Values], Values] = identity  # what is done to the numbers before they are returned

    def seen(self, given: dict[str, Any], x: Array, y: Array) -> Job:
        return self.job(job_of(given, x, y))


RIGHT = Pieces()

# the levels at which each piece is at work
USED = {
    "step": ("step", "update", "stream"),
    "estimate": ("estimate", "update", "stream"),
    "predict": ("predict", "stream"),
    "update": ("update", "stream"),
    "run": ("stream",),
    "predictive": ("predictive",),
    "job": ("estimate", "update", "stream", "predictive"),
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
        yield pieces.predictive(case.subject["kind"], pieces.seen(given, given["X"], given["Y"]), given["state"]["mu"], given["samples"])
        return
    if level == "estimate":
        curv = pieces.estimate(case.subject["hess"], pieces.seen(given, given["x"], given["y"]), given["theta"], given["samples"])
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
        prior, job = vectors.state(family, given["prior"]), pieces.seen(given, given["x"], given["y"])
        state = pieces.update(pieces, case.subject["method"], job, prior, given["samples"], given["params"])
    yield pieces.output(case, invariants(family, state))


def values(pieces: Pieces, case: Case) -> Values:
    """All that a case gives with these pieces."""
    out: Values = {}
    for stage in stages(pieces, case):
        out |= stage
    return out

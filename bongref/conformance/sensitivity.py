"""How far rounding may move the result of a case, whichever way an implementation computes it.

The inputs of a case are exact; what an implementation rounds are the intermediate results. Three
kinds of rounding are simulated: of the inputs of a step, for the intermediates computed from them;
of the iterates between steps; and of the predicted mean ŷ, from which y − ŷ and R are computed:
where a logit saturates these differences lose digits. All are moved by a relative δ in a few random
directions. The largest change of each quantity over δ is its sensitivity. The condition of the
matrices that the equations invert (:mod:`bongref.routes.compare`) is a lower bound of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import curvature, models
from ..curvature import Curv
from ..dynamics import propagate
from ..grid import MODULES
from ..linalg import Array, eigh
from ..routes import compare
from ..states import Diag, State
from . import vectors

DELTA = compare.DELTA
DRAWS = 4
MOVED = (
    "prior",
    "current",
    "curv",
    "theta",
    "x",
    "X",
    "samples",
    "state",
    "dynamics",
    "likelihood",
    "y",
    "Y",
)


class Sensitivity(NamedTuple):
    """The absolute change of each quantity over δ, and the condition of what is inverted."""

    change: dict[str, float]
    floor: float


def measure(
    fn: Callable[[dict[str, Any], float, np.random.Generator], dict[str, Array]],
    given: dict[str, Any],
    states: list[State],
) -> Sensitivity:
    """``fn(inputs, δ, rng)``: the quantities, with every ŷ on the way moved by a relative δ."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        base = fn(given, 0.0, rng)
        change = dict.fromkeys(base, 0.0)
        for _ in range(DRAWS):
            moved = fn({k: move(v, rng) if k in MOVED else v for k, v in given.items()}, DELTA, rng)
            for key in base:
                off = np.abs(moved[key] - base[key])
                gap = np.max(np.where(np.isfinite(off), off, 0.0), initial=0)  # inf stays inf
                change[key] = max(change[key], float(gap) / DELTA)
    return Sensitivity(change, floor(states))


def floor(states: list[State]) -> float:
    """The condition of the covariances and of a Woodbury difference; 1 for diagonal states."""
    full: list[State] = [q for q in states if not isinstance(q, Diag)]
    kept = [c for c in (compare.matrix_condition(q) for q in full) if np.isfinite(c)]
    return max([1.0, compare.woodbury_loss(full), *kept])


def move(value: Any, rng: np.random.Generator) -> Any:
    """Every array of floats moved by a relative δ; labels and counts stay whole numbers."""
    if isinstance(value, dict):
        return {k: move(v, rng) for k, v in value.items()}
    if isinstance(value, list):
        return [move(v, rng) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    return compare.perturb(value, rng, DELTA)


# --- the calls in float64, with ŷ moved -----------------------------------------------------------


def estimate(
    hess: str,
    model: models.ParametricModel,
    lik: Any,
    theta: Array,
    x: Array,
    y: Array,
    samples: Array | None,
    delta: float,
    rng: Any,
) -> Curv:
    """(g, G) by the displayed equations from a rounded ŷ."""
    xs, ys = (x, y) if model.is_batch(x) else (x[None], y[None])
    points = [theta] if hess.startswith("lin") else list(samples)  # type: ignore[arg-type]
    grads, Gs, factors = [], [], []
    for point in points:
        g, G = np.zeros(len(point)), np.zeros((len(point), len(point)))
        for xi, yi in zip(xs, ys, strict=True):
            o = model(point, xi)
            h = rounded_mean(lik, o, delta, rng)
            J, score, info = model.jac(point, xi), _score(lik, h, yi), _info(lik, h)
            g = g + J.T @ score
            if hess.endswith("hess"):
                lam, Q = eigh(info)
                factors.append(J.T @ (Q * np.sqrt(np.maximum(lam, 0))))
                G = G - J.T @ info @ J
            if hess == "mc-hess" and model.kind != "linear":
                G = G + second(model, point, xi, score)
        grads.append(g)
        Gs.append(G)
    if hess == "mc-hess":
        return Curv(np.mean(grads, axis=0), G=np.mean(Gs, axis=0))
    if hess == "lin-hess":
        return Curv(grads[0], S=np.concatenate(factors, axis=1))
    return Curv(np.mean(grads, axis=0), S=np.stack(grads, axis=1) / np.sqrt(len(grads)))


def second(model: models.ParametricModel, theta: Array, x: Array, weights: Array) -> Array:
    """The second derivatives of the outputs, weighted and summed."""

    def output(c: int, t: Array) -> Any:
        return model(t, x)[c]

    parts = [w * models.hessian(partial(output, c))(theta) for c, w in enumerate(weights)]
    total: Array = np.sum(parts, axis=0)
    return total


def rounded_mean(lik: Any, o: Array, delta: float, rng: Any) -> Array:
    """ŷ with a rounding error of δ relative to its size.

    Of a probability relative to 1, since some implementations compute it as 1 minus another.
    """
    h = np.asarray(lik.mean(o))
    size = 1.0 if lik.name in ("bernoulli", "categorical") else h
    moved: Array = h + delta * rng.uniform(-1, 1, h.shape) * size
    return moved


def _score(lik: Any, h: Array, y: Array) -> Array:
    return lik.score(h, y) if lik.name == "gaussian" else y - h


def _info(lik: Any, h: Array) -> Array:
    if lik.name == "gaussian":
        R = np.asarray(lik.info(h))
    elif lik.name == "categorical":
        R = np.diag(h) - np.outer(h, h)
    else:
        R = np.diag(h * (1 - h) if lik.name == "bernoulli" else h)
    return R


def step(name: str, prior: State, current: State, curv: Curv, alpha: float | None) -> State:
    rule, *_, family = name.split("-")
    fn = getattr(MODULES[family], rule)
    new: State = fn(prior, current, curv, 1 if alpha is None else alpha)
    return new


def update(
    name: str,
    model: models.ParametricModel,
    lik: Any,
    prior: State,
    x: Array,
    y: Array,
    samples: Array | None,
    params: dict[str, Any],
    delta: float,
    rng: Any,
) -> list[State]:
    """The states of the inner iterations, each rounded by δ."""
    hess, states = "-".join(name.split("-")[1:3]), [prior]
    for i in range(params.get("n_iter", 1)):
        curv = estimate(
            hess,
            model,
            lik,
            states[-1].mu,
            x,
            y,
            None if samples is None else samples[i],
            delta,
            rng,
        )
        states.append(
            compare.perturb(step(name, prior, states[-1], curv, params.get("alpha")), rng, delta)
        )
    return states[1:]


def of_step(
    name: str, given: dict[str, Any], alpha: float | None, states: list[State]
) -> Sensitivity:
    """Of a step from S where there is one, and from the dense G where the family takes one."""
    family = name.split("-")[-1]
    forms = [form for form in ("S", "G") if form in given["curv"]]
    if family == "dlr" and name.split("-")[0] in ("bong", "blr"):
        forms = ["S"]

    def fn(inputs: dict[str, Any], delta: float, rng: Any, *, form: str) -> dict[str, Array]:
        prior, curv = (
            vectors.state(family, inputs["prior"]),
            Curv(inputs["curv"]["g"], **{form: inputs["curv"][form]}),
        )
        current = (
            prior
            if name.split("-")[0] in ("bong", "bog")
            else vectors.state(family, inputs["current"])
        )
        return compare.invariants(step(name, prior, current, curv, alpha))

    found = [measure(partial(fn, form=form), given, states) for form in forms]
    return Sensitivity(
        {key: max(s.change[key] for s in found) for key in found[0].change}, found[0].floor
    )


def of_estimate(hess: str, given: dict[str, Any]) -> Sensitivity:
    model = vectors.model(given["model"])

    def fn(inputs: dict[str, Any], delta: float, rng: Any) -> dict[str, Array]:
        lik = vectors.likelihood(inputs["likelihood"])
        y = inputs["y"] if lik.name == "gaussian" else given["y"]
        curv = estimate(
            hess, model, lik, inputs["theta"], inputs["x"], y, inputs["samples"], delta, rng
        )
        return {"g": curv.g, "G": curvature.dense(curv), "diag G": curvature.diagonal(curv)}

    return measure(fn, given, [])


def of_update(name: str, given: dict[str, Any], states: list[State]) -> Sensitivity:
    model, family = vectors.model(given["model"]), name.split("-")[-1]

    def fn(inputs: dict[str, Any], delta: float, rng: Any) -> dict[str, Array]:
        lik = vectors.likelihood(inputs["likelihood"])
        y = inputs["y"] if lik.name == "gaussian" else given["y"]
        prior = vectors.state(family, inputs["prior"])
        out = update(
            name, model, lik, prior, inputs["x"], y, inputs["samples"], inputs["params"], delta, rng
        )[-1]
        return compare.invariants(out)

    return measure(fn, given, states)


def of_stream(name: str, given: dict[str, Any], states: list[State]) -> Sensitivity:
    """Of every state on the way, as ``state[t].quantity``."""
    model, family = vectors.model(given["model"]), name.split("-")[-1]

    def fn(inputs: dict[str, Any], delta: float, rng: Any) -> dict[str, Array]:
        lik, moving = vectors.likelihood(inputs["likelihood"]), vectors.dynamics(inputs["dynamics"])
        Y = inputs["Y"] if lik.name == "gaussian" else given["Y"]
        state = vectors.state(family, inputs["prior"])
        out: dict[str, Array] = {}
        for t, (x, y) in enumerate(zip(inputs["X"], Y, strict=True)):
            state = compare.perturb(propagate(state, moving), rng, delta)
            if y is not None:
                here = None if inputs["samples"] is None else inputs["samples"][t]
                state = update(name, model, lik, state, x, y, here, inputs["params"], delta, rng)[
                    -1
                ]
            out |= {f"state[{t + 1}].{key}": a for key, a in compare.invariants(state).items()}
        return out

    return measure(fn, given, states)


def of_predict(family: str, given: dict[str, Any], states: list[State]) -> Sensitivity:
    def fn(inputs: dict[str, Any], delta: float, rng: Any) -> dict[str, Array]:
        return compare.invariants(
            propagate(vectors.state(family, inputs["state"]), vectors.dynamics(inputs["dynamics"]))
        )

    return measure(fn, given, states)


def of_predictive(kind: str, family: str, given: dict[str, Any]) -> Sensitivity:
    """Of mean, variance and log-density, each from a rounded ŷ."""
    from ..predictive import Predictive

    model = vectors.model(given["model"])

    def fn(inputs: dict[str, Any], delta: float, rng: Any) -> dict[str, Array]:
        lik, mu = vectors.likelihood(inputs["likelihood"]), inputs["state"]["mu"]
        Y = inputs["Y"] if lik.name == "gaussian" else given["Y"]
        thetas = [mu] if kind == "plugin" else inputs["samples"]
        values = []
        for theta in thetas:
            at = theta if kind == "mc" else mu
            o = model(at, inputs["X"])
            h = rounded_mean(lik, o, delta, rng)
            if kind == "lin_mc":
                h = h + np.einsum(
                    "nij,njp,p->ni", lik.jac_mean(o), model.jac(at, inputs["X"]), theta - mu
                )
            values.append(h)
        pred = Predictive(kind, lik, np.stack(values), True)
        logs = pred.log_density(Y)
        return {"mean": pred.mean, "var": pred.var, "log_density": logs, "nlpd": -np.mean(logs)}

    return measure(fn, given, [vectors.state(family, given["state"])])

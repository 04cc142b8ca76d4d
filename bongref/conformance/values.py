"""The values of a case from its inputs: exact or to 50 digits and more, rounded once.

Each value has its condition and tolerance. ``validation/acceptance.md`` says when a value may be
called a reference; ``bongref vectors --check`` derives every shipped one again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..curvature import Curv
from ..grid import STATES, method
from ..linalg import Array
from ..routes import compare, exact
from ..states import DLR, State
from . import precise, vectors
from .quantities import EQUATIONS, ESTIMATES, PREDICT, PREDICTIVE
from .sensitivity import (
    Sensitivity,
    of_estimate,
    of_predict,
    of_predictive,
    of_step,
    of_stream,
    of_update,
)
from .vectors import Case, Quantity

EPS = {"float64": 2.0**-52, "float32": 2.0**-23}
C = compare.C
LARGEST = 0.1  # a tolerance beyond this would compare nothing
DRAW = "sec:MC"  # where samples of q are asked for


def kept(T: int) -> tuple[int, ...]:
    """The steps of a stream whose states are in the vectors: all, of a long one three."""
    return tuple(range(1, T + 1)) if T <= 8 else (1, T // 2, T)


def derive(case: Case) -> tuple[Quantity, ...]:
    """What a case must return, from its inputs."""
    if case.result == "refuse":
        return ()
    of = {
        "step": _of_step,
        "estimate": _of_estimate,
        "update": _of_update,
        "stream": _of_stream,
        "predict": _of_predict,
        "draw": _of_draw,
    }
    return of.get(case.level, _of_predictive)(case)


# --- quantities -----------------------------------------------------------------------------------


def quantity(
    name: str,
    equation: str,
    value: Array,
    sensitivity: float,
    floor: float,
    single: bool,
    role: str = "result",
) -> Quantity:
    """A quantity with its tolerance c · cond · eps.

    ``floor``: the condition of what the equations invert; ``single``: float32 holds the inputs.
    """
    value = np.asarray(value, dtype=float)
    size = float(np.max(np.abs(value[np.isfinite(value)]), initial=0))
    moved = max(sensitivity, floor * size)
    scale, cond = (
        (size, moved / size)
        if size > 0 and C * moved / size * EPS["float64"] < 1e-3
        else (moved or 1.0, 1.0)
    )
    cond = max(cond, 1.0)
    tolerance: dict[str, float | None] = {dtype: C * cond * eps for dtype, eps in EPS.items()}
    if not single or C * cond * EPS["float32"] > LARGEST:
        tolerance["float32"] = None
    return Quantity(
        name,
        equation,
        value,
        _short(scale),
        _short(cond),
        {k: None if t is None else _short(t) for k, t in tolerance.items()},
        role,
    )


def _short(x: float) -> float:
    """Three digits are enough for a tolerance; rounded up."""
    return float(f"{x * 1.0005:.3e}")


def fits_float32(value: Any) -> bool:
    """Whether every number of the input is a float32."""
    if isinstance(value, dict):
        return all(fits_float32(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return all(fits_float32(v) for v in value)
    return not isinstance(value, np.ndarray) or bool(
        np.all(value.astype(np.float32).astype(float) == value)
    )


Values = dict[str, Array]


def bits(state: State) -> Values:
    """The quantities of an exact state, each number rounded once to float64."""
    values: Values = precise.rounded(precise.quantities(state))
    return values


def state_quantities(
    name: str, values: Values, sens: Sensitivity, given: dict[str, Any], prefix: str = ""
) -> tuple[Quantity, ...]:
    """The quantities of a state of a method, in the order in which its equations compute them."""
    rule, *_, family = name.split("-")
    single = fits_float32(given)
    return tuple(
        quantity(prefix + q, eq, values[q], sens.change[prefix + q], sens.floor, single)
        for q, eq in EQUATIONS[rule, family].items()
    )


# --- the levels -----------------------------------------------------------------------------------


def exact_step(
    name: str, prior: State, current: State, curv: dict[str, Array], alpha: float | None
) -> State:
    """The exact result; where roots enter, from two precisions whose roundings agree."""
    one = Curv(curv["g"], S=curv["S"]) if "S" in curv else Curv(curv["g"], G=curv["G"])
    if STATES[name.split("-")[-1]] is DLR and name.split("-")[0] in ("bong", "blr"):
        rate = 1 if alpha is None else alpha
        out: State = precise.stable(lambda: precise.step(name, prior, current, one, rate))
        return out
    return exact.step(
        method(name, **({} if alpha is None else {"alpha": alpha})), prior, current, one
    )


def _of_step(case: Case) -> tuple[Quantity, ...]:
    name, given = case.subject["method"], case.input
    alpha = given["params"].get("alpha")
    prior, current = (
        vectors.state(name.split("-")[-1], given[key]) for key in ("prior", "current")
    )
    out = exact_step(name, prior, current, given["curv"], alpha)
    valid = [precise.rounded(out)] if case.result == "value" else []
    return state_quantities(
        name, bits(out), of_step(name, given, alpha, [prior, current, *valid]), given
    )


def _of_estimate(case: Case) -> tuple[Quantity, ...]:
    hess, given = case.subject["hess"], case.input
    curv = precise.stable(lambda: precise.quantities(precise.estimate(hess, **given)))
    sens, single = of_estimate(hess, given), fits_float32(given)
    return tuple(
        quantity(q, eq, precise.rounded(curv[q]), sens.change[q], 1.0, single)
        for q, eq in ESTIMATES[hess].items()
    )


def _of_update(case: Case) -> tuple[Quantity, ...]:
    name, given = case.subject["method"], case.input
    family, hess, single = name.split("-")[-1], "-".join(name.split("-")[1:3]), fits_float32(given)
    states, curvs = precise.stable(lambda: precise.update(name, **given)[1:])
    prior = vectors.state(family, given["prior"])
    sens = of_update(name, given, [prior, *(precise.rounded(q) for q in states)])
    first = of_estimate(
        hess,
        {
            **given,
            "theta": prior.mu,
            "samples": None if given["samples"] is None else given["samples"][0],
        },
    )
    seen = precise.rounded(precise.quantities(curvs[0]))
    seam = ("g", "diag G") if family.startswith("diag") else ("g", "G")
    on_the_way = tuple(
        quantity(q, ESTIMATES[hess][q], seen[q], first.change[q], 1.0, single, "intermediate")
        for q in seam
    )
    return (*on_the_way, *state_quantities(name, bits(states[-1]), sens, given))


def _of_stream(case: Case) -> tuple[Quantity, ...]:
    name, given = case.subject["method"], case.input
    states = precise.stable(lambda: precise.stream(name, **given))
    prior = vectors.state(name.split("-")[-1], given["prior"])
    sens = of_stream(name, given, [prior, *(precise.rounded(q) for q in states)])
    return tuple(
        q
        for t in kept(len(given["X"]))
        for q in state_quantities(name, bits(states[t - 1]), sens, given, f"state[{t}].")
    )


def _of_predict(case: Case) -> tuple[Quantity, ...]:
    family, given = case.subject["family"], case.input
    q = vectors.state(family, given["state"])
    out = precise.stable(lambda: precise.predict(family, q, given["dynamics"]))
    sens, single, values = (
        of_predict(family, given, [q, precise.rounded(out)]),
        fits_float32(given),
        bits(out),
    )
    return tuple(
        quantity(k, PREDICT[k], values[k], sens.change[k], sens.floor, single) for k in values
    )


def _of_predictive(case: Case) -> tuple[Quantity, ...]:
    kind, family, given = case.subject["kind"], case.subject["family"], case.input
    args = [given[key] for key in ("model", "likelihood", "state", "X", "samples", "Y")]
    out = precise.stable(lambda: precise.predictive(kind, family, *args))
    sens, single = of_predictive(kind, family, given), fits_float32(given)
    change = {**sens.change, "error": 0.0, "ece": sens.change["mean"]}
    every, roles = ("mean", "var", "log_density", "nlpd", "error", "ece"), {"mean": "result"}
    names = [k for k in every if k in out and not _has_nan(out[k])]
    return tuple(
        quantity(
            k,
            PREDICTIVE[kind],
            precise.rounded(out[k]),
            change[k],
            1.0,
            single,
            roles.get(k, "intermediate"),
        )
        for k in names
    )


def _has_nan(value: Any) -> bool:
    return bool(np.any(np.isnan(np.asarray(precise.rounded(value), dtype=float))))


def _of_draw(case: Case) -> tuple[Quantity, ...]:
    """What every root of Σ has in common: θ(0) = μ, the sum of outer products, an affine map.

    Without normals: mean and covariance of the whitened draws, at 6 standard errors.
    """
    family, given = case.subject["family"], case.input
    q, single = vectors.state(family, given["state"]), fits_float32(given)
    P = len(q.mu)
    if given["normals"] is None:
        n = given["n"]
        names = {"whitened mean": np.zeros(P), "whitened covariance": np.eye(P)}
        errors = {"whitened mean": 6 / n**0.5, "whitened covariance": 6 * (2 / n) ** 0.5}
        return tuple(
            Quantity(k, DRAW, v, 1.0, 1.0, dict.fromkeys(EPS, _short(errors[k])))
            for k, v in names.items()
        )
    exact_q = precise.stable(lambda: precise.covariance(family, q))
    Sigma = precise.rounded(exact_q)
    cond = float(np.linalg.cond(Sigma))
    reach = float(np.max(np.abs(q.mu)) + 8 * P * np.sqrt(np.max(np.diag(Sigma))))
    zeros = np.zeros((len(given["normals"]) - P - 1, P))
    return (
        quantity("mean", DRAW, q.mu, reach, 1.0, single),
        quantity("covariance", DRAW, Sigma, reach**2, cond, single),
        quantity("not affine", DRAW, zeros, reach, 1.0, single),
    )

"""The adapter's own estimate, step and prediction on the inputs of a failing update or stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...linalg import Array, eigh
from .. import answers, pipeline, vectors
from ..pipeline import RIGHT, Problem, Values
from ..quantities import EQUATIONS, ESTIMATES, PREDICT
from ..vectors import Case, Quantity


def earlier(adapter: Any, case: Case, dtype: str) -> tuple[answers.Gap | None, list[str]]:
    """The first quantity of an update or a stream in which another call of the adapter differs.

    And what to say of it; where all of them are right, that the mistake is in how they are
    combined.
    """
    if case.level not in ("update", "stream"):
        return None, []
    checked = []
    for part in _parts(case):
        call = getattr(adapter, part.level, None)
        if not callable(call):
            continue
        try:
            with np.errstate(all="ignore"):
                got = call(**part.arguments)
            if got is NotImplemented:
                continue
            values = answers.read(part, got)
        except NotImplementedError:
            continue
        except Exception:  # a call that fails is a case of its own
            return None, []
        for q in part.expected:
            tolerance = q.tolerance[dtype]
            if q.name in values and tolerance is not None:
                gap = answers.compare(q, values[q.name], tolerance)
                if gap is not None:
                    where = f"{gap.quantity} ({gap.equation})"
                    said = f"its own {part.level} differs already: {where} at the first iteration"
                    return gap, [said]
        checked.append(part.level)
    if {"estimate", "step"} <= set(checked):
        return None, [
            f"its own {', '.join(checked)} are right at the first iteration: "
            "the mistake is in how they are put together"
        ]
    return None, []


def _parts(case: Case) -> Iterator[Case]:
    """The first prediction, estimate and step of an update or a stream as cases of their own."""
    inputs, method, family = case.input, case.subject["method"], case.family
    prior = vectors.state(family, inputs["prior"])
    loose = max((q.tolerance["float64"] or 0.0) for q in case.expected)
    x, y, samples = inputs.get("x"), inputs.get("y"), inputs["samples"]
    if case.level == "stream":
        given = {"state": inputs["prior"], "dynamics": inputs["dynamics"]}
        prior = pipeline.predict(prior, inputs["dynamics"])
        expected = _quantities(PREDICT, vectors.invariants(family, prior._asdict()), loose)
        yield Case(case.id, "predict", {"family": family}, (), given, "value", expected)
        x, y, samples = inputs["X"][0], inputs["Y"][0], pipeline.at_step(samples, 0)
        if y is None:
            return
    here = pipeline.at_step(samples, 0)
    problem = Problem(inputs["model"], inputs["likelihood"], np.asarray(x), np.asarray(y))
    curv = RIGHT.estimate(case.hess, problem, prior.mu, here)
    G = pipeline.full_G(curv)
    seam = tuple(q for q in case.expected if q.role == "intermediate")
    values = {"g": curv.g, "G": G, "diag G": np.diag(G)}
    given = {"theta": prior.mu, "x": x, "y": y, "samples": here}
    given |= {key: inputs[key] for key in ("model", "likelihood")}
    expected = seam or _quantities(ESTIMATES[case.hess], values, loose)
    yield Case(case.id, "estimate", {"hess": case.hess}, (), given, "value", expected)
    state = RIGHT.step(method, prior, prior, curv, inputs["params"].get("alpha", 1))
    params = {k: v for k, v in inputs["params"].items() if k in ("alpha", "rank")}
    handed = {"g": curv.g, "G": G, "d": np.diag(G).copy()}
    if case.hess != "mc-hess":
        handed = {"S": _factor_of(G), **handed}
    arrays = prior._asdict()
    given = {"prior": arrays, "current": dict(arrays), "curv": handed, "params": params}
    equations = EQUATIONS[case.rule, family]
    expected = _quantities(equations, vectors.invariants(family, state._asdict()), loose)
    yield Case(case.id, "step", {"method": method}, (), given, "value", expected)


def _size(a: Array) -> float:
    return float(np.max(np.abs(a), initial=0)) or 1.0


def _factor_of(G: Array) -> Array:
    """S with G = −S Sᵀ, with the columns that are not 0."""
    lam, Q = eigh(-G)
    keep = lam > 1e-14 * max(float(lam[-1]), 1e-300)
    S: Array = Q[:, keep] * np.sqrt(lam[keep])
    return S


def _quantities(
    equations: dict[str, str], values: Values, tolerance: float
) -> tuple[Quantity, ...]:
    """Quantities for a first look, at a thousand times the tolerance of the result."""
    bounds: dict[str, float | None] = {"float64": max(1e3 * tolerance, 1e-10), "float32": 1e-2}
    return tuple(
        Quantity(name, equation, np.asarray(values[name]), _size(values[name]), 1.0, bounds)
        for name, equation in equations.items()
        if name in values
    )

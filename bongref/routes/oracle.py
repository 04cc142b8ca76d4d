"""The oracle: a step as plain dicts in and out, for other code and other languages.

    out = oracle.step("blr-lin-hess-dlr", prior, current, curv, alpha=0.1)
    out = oracle.step("blr-lin-hess-dlr", prior, current, curv, alpha=0.1, digits=50)

``prior``, ``current``, ``out``: {"mu", "Sigma"} | {"mu", "var"} | {"mu", "Ups", "W"};
``curv``: "g" and at least one of "S" (G = −S Sᵀ), "G" (dense, every family), "d" (diag G, the diagonal families); of several,
which must be the same Hessian, the first in this order is used.
``out["valid"]`` says whether the result is still a Gaussian; the values are those of the equations, whatever they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import checks, filter
from ..curvature import Curv, dense, diagonal
from ..gaussians import is_valid
from ..grid import STATES, method
from ..states import State
from . import exact


def step(
    name: str,
    prior: Mapping[str, Any],
    current: Mapping[str, Any] | None,
    curv: Mapping[str, Any],
    *,
    digits: int | None = None,
    **params: Any,
) -> dict[str, Any]:
    """One step as dicts. With ``digits`` it comes from exact arithmetic, or where the SVD enters from so many digits, rounded once."""
    kind = STATES[method(name).family]
    q0 = _state("prior", prior, kind)
    ignored = current is None or method(name).rule in ("bong", "bog")
    q = None if ignored else _state("current", current, kind)
    if kind is STATES["dlr"]:
        rank = checks.array("prior.W", q0.W, ndim=2).shape[1]  # type: ignore[union-attr]
        if params.setdefault("rank", rank) != rank:
            raise ValueError(f"rank must be prior['W'].shape[1] = {rank}, got {params['rank']}")
    m = method(name, **params)
    digits = None if digits is None else checks.integer("digits", digits, 1)
    out, info = filter.step(m, q0, q, _curv(curv))
    valid = info.valid
    if digits is not None:
        precise = exact.step(m, *_checked(m, q0, q, _curv(curv)), digits=digits)
        valid, out = is_valid(precise), exact.rounded(precise)
    return {**out._asdict(), "valid": valid}


def _checked(m: Any, prior: State, current: State | None, curv: Curv) -> tuple[State, State | None, Curv]:
    """The arguments as :func:`bongref.filter.step` sees them: float64 and symmetric."""
    kind = STATES[m.family]
    diagonal_ok = m.family in ("diag", "diag_mom")
    prior = checks.state("prior", prior, kind)
    current = None if current is None else checks.state("current", current, kind)
    return prior, current, checks.curv(curv, len(prior.mu), diagonal_ok=diagonal_ok)


def _state(name: str, value: Any, kind: Any) -> State:
    fields = kind._fields
    if not isinstance(value, Mapping) or set(value) - {"valid"} != set(fields):
        got = sorted(map(str, value)) if isinstance(value, Mapping) else value
        raise ValueError(f"{name} must be a dict with the keys {', '.join(fields)}, got {got!r}")
    return kind(*(value[f] for f in fields))


def _curv(value: Any) -> Curv:
    if not isinstance(value, Mapping) or "g" not in value or not {"g"} < set(value) <= {"g", "S", "G", "d"}:
        got = sorted(map(str, value)) if isinstance(value, Mapping) else value
        raise ValueError(f"curv must be a dict with the key g and at least one of S, G, d, got {got!r}")
    first, *others = [Curv(value["g"], **{key: value[key]}) for key in ("S", "G", "d") if key in value]
    for other in others:
        _same_hessian(first, other)
    return first


def _same_hessian(one: Curv, other: Curv) -> None:
    """Refuse two Hessians in one curv that are not the same, to 1e-8 of the largest entry."""
    P = len(checks.array("curv.g", one.g, ndim=1))
    one, other = (checks.curv(c, P, diagonal_ok=True) for c in (one, other))
    a, b = (dense(one), dense(other)) if other.d is None else (diagonal(one), diagonal(other))
    if float(np.max(np.abs(a - b))) > 1e-8 * float(np.max(np.abs(a))):
        names = [next(k for k in ("S", "G", "d") if getattr(c, k) is not None) for c in (one, other)]
        raise ValueError(f"curv: {' and '.join(names)} must be the same Hessian (G = -S S^T, d = diag G), got two that are not")

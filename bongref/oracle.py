"""The oracle: a step as plain dicts in and out, for other code and other languages.

    out = oracle.step("blr-lin-hess-dlr", prior, current, curv, alpha=0.1)
    out = oracle.step("blr-lin-hess-dlr", prior, current, curv, alpha=0.1, digits=50)

``prior``, ``current``, ``out``: {"mu", "Sigma"} | {"mu", "var"} | {"mu", "Ups", "W"};
``curv``: {"g", "S"} (G = −S Sᵀ) | {"g", "G"} (dense, every family) | {"g", "d"} (diag G, the diagonal families).
``out["valid"]`` says whether the result is still a Gaussian; the values are those of the equations, whatever they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import checks, exact, filter
from .curvature import Curv
from .gaussians import is_valid
from .methods import STATES, method
from .states import State


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
    if not isinstance(value, Mapping) or set(value) not in ({"g", "S"}, {"g", "G"}, {"g", "d"}):
        got = sorted(map(str, value)) if isinstance(value, Mapping) else value
        raise ValueError(f"curv must be a dict with the keys g and one of S, G, d, got {got!r}")
    return Curv(**value)

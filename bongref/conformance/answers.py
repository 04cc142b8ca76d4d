"""What an adapter returned: read into quantities, and compared with what a case expects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidType, InvalidValue
from ..gaussians import covariance, is_valid
from ..grid import STATES
from ..linalg import Array, cholesky, finite, solve
from . import vectors
from .vectors import Case, Quantity

SEAM = ("g", "G", "d", "diag G")  # what an update may return besides its state


class Gap(NamedTuple):
    """The first quantity, in the order of computation, that differs."""

    quantity: str
    equation: str
    relative: float  # largest difference over the scale of the quantity
    tolerance: float
    got: Any  # as it was returned
    wanted: Array
    where: tuple[int, ...] = ()  # the entry that differs most

    def __str__(self) -> str:
        at = f", entry [{', '.join(map(str, self.where))}]" if self.where else ""
        got, wanted = self.got, self.wanted
        if np.shape(got) == np.shape(wanted):
            got, wanted = np.asarray(got)[self.where], wanted[self.where]
        if np.shape(got) or np.shape(wanted):
            values = f"got shape {np.shape(self.got)}, wanted shape {np.shape(self.wanted)}"
        else:
            values = f"got {got:.17g}, wanted {wanted:.17g}"
        return (
            f"{self.quantity} ({self.equation}){at}: {values}; "
            f"relative difference {self.relative:.3g}, tolerance {self.tolerance:.3g}"
        )


# --- reading --------------------------------------------------------------------------------------


def read(case: Case, got: Any, full: bool = True) -> dict[str, Array]:
    """The quantities of an answer by name.

    Parameters
    ----------
    case : Case
    got : object
        What the adapter returned.
    full : bool
        Whether the shape of W is checked.

    Raises
    ------
    InvalidType, InvalidValue
        If the answer cannot be read; the message says what is wrong with it.
    """
    if case.level == "stream":
        return _stream(case, got, full)
    if case.level == "draw":
        return _draws(case, got)
    if not isinstance(got, Mapping):
        raise InvalidType(f"returned {type(got).__name__}; wanted a dict with {_keys(case)}")
    if case.level == "estimate":
        return _estimate(case, got)
    if case.level == "predictive":
        if "mean" not in got:
            raise InvalidValue(f"returned a dict with {', '.join(map(str, got))}; wanted 'mean'")
        names = [q.name for q in case.expected if got.get(q.name) is not None]
        return {name: number(name, got[name]) for name in names}
    return _state(case, got, full)


def number(name: str, value: Any) -> Array:
    """What was returned as a float64 array."""
    try:
        if np.ma.is_masked(value):
            raise TypeError("some entries are masked")
        a = np.asarray(value)
        if a.dtype.kind in "USc":
            raise TypeError(f"an array of {a.dtype}")
        return a.astype(float) if a.dtype.kind in "biuf" else np.asarray(a.tolist(), dtype=float)
    except Exception as error:
        kind = type(value).__name__
        raise InvalidType(f"{name} cannot be read as numbers ({kind}: {error})") from None


def says_lost(got: Any) -> bool:
    """Whether the answer has ``"valid": False``."""
    if not isinstance(got, Mapping) or got.get("valid") is None:
        return False
    return not np.all(number("valid", got["valid"]))


def is_positive_definite(case: Case, got: Any) -> bool:
    """Whether the state that was returned, of a stream the last one, is positive definite."""
    last = got[-1] if isinstance(got, (list, tuple)) and case.level == "stream" else got
    arrays = {k: number(k, last[k]) for k in STATES[case.family]._fields}
    return is_valid(vectors.state(case.family, arrays))


def _keys(case: Case) -> str:
    if case.level == "estimate":
        return "g and one of S, G, d"
    names = ", ".join(q.name for q in case.expected if q.role == "result")
    return names.replace("W W^T", "W") or "a state"


def _state(
    case: Case, got: Mapping[str, Any], full: bool = True, prefix: str = ""
) -> dict[str, Array]:
    family = case.family
    fields = STATES[family]._fields
    if any(got.get(f) is None for f in fields):
        there = ", ".join(str(k) for k in got if got[k] is not None) or "no keys"
        raise InvalidValue(f"{prefix}returned a dict with {there}; wanted {', '.join(fields)}")
    keys = (*fields, *SEAM)  # whatever else is returned is not read
    value = {key: number(prefix + key, got[key]) for key in keys if got.get(key) is not None}
    P = len(value["mu"]) if value["mu"].ndim == 1 else -1
    if full and "W" in value:
        shape = value["W"].shape
        given = case.input.get("state", {}).get("W", np.zeros((0, 0)))
        rank = case.input.get("params", {}).get("rank") or np.shape(given)[-1]
        if len(shape) != 2 or shape[0] != P or (rank and shape[1] != rank):
            raise InvalidValue(f"{prefix}W has shape {shape}; wanted ({P}, {rank or 'rank'})")
    state = vectors.invariants(family, value) if value["mu"].ndim else value
    return {**_seam(case, value), **state}


def _seam(case: Case, value: dict[str, Array]) -> dict[str, Array]:
    """g and G, where an update with one inner iteration returns them too."""
    if case.level != "update" or case.input["params"].get("n_iter", 1) > 1:
        return {}
    seam: dict[str, Array] = {key: value[key] for key in ("g", "G", "diag G") if key in value}
    if "d" in value:
        seam["diag G"] = value["d"]
    elif "G" in value:
        seam["diag G"] = np.diag(value["G"]) if value["G"].ndim == 2 else value["G"]
    return seam


def _estimate(case: Case, got: Mapping[str, Any]) -> dict[str, Array]:
    value = {key: number(key, got[key]) for key in ("g", "S", "G", "d") if got.get(key) is not None}
    if "g" not in value or len(value) == 1:
        there = ", ".join(map(str, got)) or "no keys"
        raise InvalidValue(f"returned a dict with {there}; wanted {_keys(case)}")
    P = len(case.input["theta"])
    shapes = {"g": (P,), "G": (P, P), "d": (P,)}
    for key, a in value.items():
        if key == "S" and (a.ndim != 2 or len(a) != P):
            raise InvalidValue(f"S has shape {a.shape}; wanted ({P}, any)")
        if key != "S" and a.shape != shapes[key]:
            raise InvalidValue(f"{key} has shape {a.shape}; wanted {shapes[key]}")
    out = {"g": value["g"]}
    if "G" in value or "S" in value:
        out["G"] = value["G"] if "G" in value else -(value["S"] @ value["S"].T)
    out["diag G"] = value["d"] if "d" in value else np.diag(out["G"])
    return out


def _stream(case: Case, got: Any, full: bool) -> dict[str, Array]:
    T = len(case.input["X"])
    if isinstance(got, Mapping):
        return {f"state[{T}].{k}": v for k, v in _state(case, got, full).items()}
    if not isinstance(got, (list, tuple)):
        raise InvalidType(
            f"returned {type(got).__name__}; wanted the final state as a dict, "
            f"or a list of the {T} states after each step"
        )
    if len(got) != T:
        raise InvalidValue(f"returned {len(got)} states; wanted {T}, one after each step")
    out: dict[str, Array] = {}
    for t, one in enumerate(got, start=1):
        prefix = f"state[{t}]."
        if not isinstance(one, Mapping):
            raise InvalidType(f"state {t} is a {type(one).__name__}; wanted a dict")
        out |= {prefix + k: v for k, v in _state(case, one, full, prefix).items()}
    return out


def _draws(case: Case, got: Any) -> dict[str, Array]:
    """What does not depend on the root of Σ that an implementation takes."""
    theta, normals = number("the samples", got), case.input["normals"]
    P, n = len(case.input["state"]["mu"]), case.input["n"]
    if theta.shape != (n, P):
        raise InvalidValue(f"the samples have shape {theta.shape}; wanted ({n}, {P})")
    if normals is None:
        q = vectors.state(case.family, case.input["state"])
        white = finite(solve(cholesky(covariance(q)), (theta - q.mu).T)).T
        second = white.T @ white / n
        return {"whitened mean": white.mean(axis=0), "whitened covariance": second}
    moves = theta[1 : P + 1] - theta[0]
    rest = theta[P + 1 :] - (theta[0] + normals[P + 1 :] @ moves)
    return {"mean": theta[0], "covariance": moves.T @ moves, "not affine": rest}


def copied(case: Case, got: Any) -> str:
    """What is wrong with draws that come twice, which their moments do not show; or nothing."""
    if case.level != "draw" or case.input["normals"] is not None:
        return ""
    n, distinct = case.input["n"], len(np.unique(number("the samples", got), axis=0))
    few = f"only {distinct:,} of {n:,} samples are distinct: each is to be drawn"
    return few if distinct < n else ""


# --- comparing ------------------------------------------------------------------------------------


def compare(q: Quantity, got: Array, tolerance: float) -> Gap | None:
    """The difference of a quantity from its right value; None where it is within the tolerance."""
    if got.shape != q.value.shape:
        return Gap(q.name, q.equation, math.inf, tolerance, got, q.value)
    odd = ~np.isfinite(got) | ~np.isfinite(q.value)
    wrong = odd & ~(got == q.value)
    if np.any(wrong):
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        return Gap(q.name, q.equation, math.inf, tolerance, got, q.value, where)
    gap = _distance(q, got)
    relative = float(np.max(gap, initial=0)) / q.scale
    if relative <= tolerance:
        return None
    where = tuple(int(i) for i in np.unravel_index(np.argmax(gap), gap.shape))
    return Gap(q.name, q.equation, relative, tolerance, got, q.value, where)


def units(q: Quantity, got: Array, tolerance: float) -> float:
    """The largest difference in units of the tolerance."""
    return float(np.max(_distance(q, got), initial=0)) / q.scale / tolerance


def _distance(q: Quantity, got: Array) -> Array:
    """|got − wanted|, 0 where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        gap: Array = np.where(got == q.value, 0.0, np.abs(got - q.value))
    return gap


def in_words(gap: Gap) -> str:
    """A gap as a message: a wrong shape, a NaN, a matrix that is not symmetric, or the numbers."""
    got = np.asarray(gap.got)
    if got.shape != gap.wanted.shape:
        return f"{gap.quantity} has shape {got.shape}; wanted {gap.wanted.shape}"
    if np.any(np.isnan(got)) or (np.any(np.isinf(got)) and not np.any(np.isinf(gap.wanted))):
        kind = "NaN" if np.any(np.isnan(got)) else "inf"
        return f"{gap.quantity} holds {kind} at {list(gap.where)}"
    if got.ndim == 2 and got.shape[0] == got.shape[1] and gap.quantity != "mean":
        largest = max(float(np.max(np.abs(got - gap.wanted))), 1e-300)
        skew = float(np.max(np.abs(got - got.T))) * gap.relative / largest
        if skew > 2 * gap.tolerance:
            return f"{gap.quantity} is not symmetric: max|A - A^T| is {skew:.3g} of its size; {gap}"
    return str(gap)

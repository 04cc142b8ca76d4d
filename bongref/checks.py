"""Checks of what users pass in: each error names the argument, what came and what is allowed, before anything has changed."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .linalg import Array
from .states import DLR, FC, Diag, State


def array(
    name: str,
    value: Any,
    *,
    ndim: int | tuple[int, ...] | None = None,
    shape: tuple[int | None, ...] | None = None,
    copy: bool = True,
) -> Array:
    """A finite float64 array with the given number of dimensions or shape (None: any length); the given one itself without ``copy``."""
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must have no masked entries, got {_short(value)}")
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "fiub":
            raise TypeError
        out = np.array(raw, dtype=float) if copy else np.asarray(raw, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of real numbers, got {_short(value)}") from None
    if ndim is not None and out.ndim not in (ndim if isinstance(ndim, tuple) else (ndim,)):
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {out.shape}")
    if shape is not None:
        fits = out.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, out.shape, strict=False))
        if not fits:
            raise ValueError(f"{name} must have shape {_shape(shape)}, got {out.shape}")
    if out.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {out.shape}")
    if not np.all(np.isfinite(out)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(out))[0])
        raise ValueError(f"{name} must be finite, got {out[where]} at index {where}")
    return out


def scalar(name: str, value: Any) -> float:
    """A finite real number."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    return float(array(name, value, ndim=0))


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """An integer in low … high."""
    allowed = f">= {low}" if high is None else f"in {low}...{high}"
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        out = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer {allowed}, got {value!r}") from None
    if out < low or (high is not None and out > high):
        raise ValueError(f"{name} must be an integer {allowed}, got {out}")
    return out


def rank(name: str, value: Any, P: int) -> int:
    """A rank R in 1 … P."""
    try:
        return integer(name, value, 1, P)
    except ValueError:
        raise ValueError(f"{name} must be in 1...P = {P}, got {value}") from None


def variance(name: str, value: Any, P: int) -> Array:
    """Variances (P,), all > 0, from a scalar or a vector."""
    var = array(name, value, ndim=(0, 1))
    if var.ndim == 1 and len(var) != P:
        raise ValueError(f"{name} must be a scalar or have shape ({P},), got {var.shape}")
    if not np.all(var > 0):
        raise ValueError(f"{name} must be > 0 (a variance), got {var.min()}")
    return np.broadcast_to(var, (P,)).astype(float)


def symmetric(name: str, value: Any, P: int) -> Array:
    """A (P, P) matrix that is symmetric to 1e-8 of its largest entry; its symmetric part."""
    a = array(name, value, shape=(P, P), copy=False)
    gap = max(float(np.max(np.abs(a[i : i + 64] - a[:, i : i + 64].T))) for i in range(0, P, 64))  # no second matrix
    if gap > 1e-8 * max(float(np.max(a)), -float(np.min(a))):
        raise ValueError(f"{name} must be symmetric, got max|A - A^T| = {gap:.3g}")
    return a if gap == 0 else (a + a.T) / 2


def state(name: str, value: Any, kind: Any = None, *, P: int | None = None, R: int | None = None) -> State:
    """A state of the given kind (FC, Diag or DLR; any of them without): finite, of matching shapes, positive definite. No copy of it."""
    from .gaussians import is_valid

    if not isinstance(value, (FC, Diag, DLR) if kind is None else kind):
        got = type(value).__name__ if isinstance(value, (FC, Diag, DLR)) else _short(value)
        raise TypeError(f"{name} must be a {'FC, Diag or DLR' if kind is None else kind.__name__} state, got {got}")
    mu = array(f"{name}.mu", value.mu, ndim=1, copy=False)
    if P is not None and len(mu) != P:
        raise ValueError(f"{name}.mu must have shape ({P},), got {mu.shape}")
    n = len(mu)
    out: State
    if isinstance(value, FC):
        out = FC(mu, symmetric(f"{name}.Sigma", value.Sigma, n))
    elif isinstance(value, Diag):
        out = Diag(mu, array(f"{name}.var", value.var, shape=(n,), copy=False))
    else:
        W = array(f"{name}.W", value.W, shape=(n, None), copy=False)
        rank(f"the rank of {name}.W", W.shape[1], n)
        if R is not None and W.shape[1] != R:
            raise ValueError(f"{name}.W must have shape ({n}, {R}) for rank={R}, got {W.shape}")
        out = DLR(mu, array(f"{name}.Ups", value.Ups, shape=(n,), copy=False), W)
    if not is_valid(out):
        raise ValueError(f"{name} must be positive definite, got {_why_not(out)}")
    return out


def _why_not(q: State) -> str:
    if isinstance(q, FC):
        return f"{len(q.mu)} x {len(q.mu)} Sigma with smallest eigenvalue {np.linalg.eigvalsh(q.Sigma)[0]:.3g}"
    if isinstance(q, Diag):
        return f"var with smallest entry {q.var.min():.3g}"
    return f"Ups with smallest entry {q.Ups.min():.3g}, which W W^T does not make up for"


def generator(name: str, value: Any) -> np.random.Generator:
    """A numpy.random.Generator."""
    if not isinstance(value, np.random.Generator):
        raise TypeError(f"{name} must be a numpy.random.Generator, got {_short(value)}")
    return value


def curv(value: Any, P: int, *, diagonal_ok: bool) -> Any:
    """A Curv of P parameters with exactly one of S, G and d."""
    from .curvature import Curv

    if not isinstance(value, Curv):
        raise TypeError(f"curv must be a Curv, got {_short(value)}")
    given = [k for k in ("S", "G", "d") if getattr(value, k) is not None]
    if len(given) != 1:
        raise ValueError(f"curv must have exactly one of S, G and d, got {', '.join(given) or 'none'}")
    g = array("curv.g", value.g, shape=(P,))
    if given == ["S"]:
        return Curv(g, S=array("curv.S", value.S, shape=(P, None)))
    if given == ["G"]:
        return Curv(g, G=symmetric("curv.G", value.G, P))
    if not diagonal_ok:
        raise ValueError("curv.d (the diagonal of G) is enough for the diagonal families alone; got it for another, which needs S or G")
    return Curv(g, d=array("curv.d", value.d, shape=(P,)))


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _shape(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if n is None else str(n) for n in shape) + ("," if len(shape) == 1 else "") + ")"

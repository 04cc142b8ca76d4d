"""How many digits rounding has taken from a step, estimated by taking the step again.

Once more, from inputs that differ in their last bits: what the two results differ by, relative to
their size, is what rounding may have done to either, by the conditioning of the problem and by the
form that was computed. The natural-gradient rules (bong, blr) do not depend on the units of θ:
their second step is taken in powers of two in which the prior's standard deviations are near 1, so
that it sees an overflow or underflow of the first. The other rules do depend on them; where
products of their inputs may leave float64's range, all digits count as lost.

It is an estimate, within about a digit: two roundings may agree by chance.

>>> import numpy as np, bongref as br
>>> from bongref.gaussians import covariance
>>> prior = br.FC(np.zeros(2), 1e6 * np.eye(2))
>>> curv = br.Curv(g=np.array([3e9, 1e9]), S=np.array([[3e3], [1e3]]))
>>> br.step("bong-lin-hess-fc", prior, None, curv)[1].accurate
False
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .curvature import Curv
from .errors import LostDigits
from .linalg import Array, rowdot
from .states import DLR, FC, Diag, State

EPS = float(np.finfo(float).eps)
DIGITS = -math.log10(EPS)  # of a float64, 15.65
HALF = DIGITS / 2
FEW = 64  # parameters up to which the step is taken twice more, as chance is larger there
LARGE = 2.0**500  # of S in units of the prior's deviations: its square stays in float64's range
FACTOR = 2.0**170  # of inputs, and of their inverses: products of six of them stay in range
SUBNORMAL = 2.0**-960  # results below lose digits by underflow

Step = Callable[[Any, Any, Curv], State]


def lost(
    step: Step, prior: State, current: Any, curv: Curv, new: State, *, invariant: bool
) -> float:
    """Decimal digits that rounding may have taken from ``new``, 0 … :data:`DIGITS`.

    Parameters
    ----------
    step : callable
        ``(prior, current, curv) -> state``.
    prior : FC, Diag or DLR
    current : FC, Diag, DLR, or an increment of the prior
    curv : Curv
    new : FC, Diag or DLR
        What ``step`` returned; finite.
    invariant : bool
        Whether the rule does not depend on the units of θ.

    Returns
    -------
    float

    Examples
    --------
    >>> q, curv = Diag(np.zeros(1), np.ones(1)), Curv(np.ones(1), d=-np.ones(1))
    >>> twice = lambda q, current, curv: Diag(q.mu + curv.g, q.var - curv.d)
    >>> lost(twice, q, q, curv, twice(q, q, curv), invariant=False) < 2
    True
    """
    states = isinstance(current, FC | Diag | DLR)
    units = _units(prior) if invariant and states else np.zeros(len(prior.mu), np.int64)
    with np.errstate(all="ignore"):
        if _out_of_range(prior, current, curv, units, invariant and states) or _subnormal(new):
            return DIGITS
        rng, spread = np.random.default_rng(0), 0.0
        for _ in range(2 if len(prior.mu) <= FEW else 1):
            q0 = _in_units(_moved(prior, rng), units) if states else prior
            q = q0 if current is prior else current
            if states and current is not prior:
                q = _in_units(_moved(current, rng), units)
            again = _in_units(step(q0, q, _curv_in_units(_moved(curv, rng), units)), -units)
            spread = max(spread, _difference(new, again, prior, curv))
    return min(DIGITS, math.log10(max(spread / (4 * EPS), 1.0)))


def warned(digits: float, t: int, name: str) -> bool:
    """Whether more than half of the digits were lost up to step t, which is then said once."""
    if digits <= HALF:
        return False
    warnings.warn(
        f"{name}: rounding may have taken {digits:.0f} of 16 digits by step {t}: an observation is "
        "very informative compared with the prior, or the scales of the parameters differ very "
        "much; take a smaller prior variance, a larger observation variance, or scale the data",
        LostDigits,
        stacklevel=3,
    )
    return True


# --- the inputs, moved and in other units ---------------------------------------------------------


def _moved(value: Any, rng: np.random.Generator) -> Any:
    """The same with every vector entry changed in its last bits; a matrix (P, P) by congruence."""
    moved = {}
    for name, a in value._asdict().items():
        if a is None:
            continue
        if name in ("Sigma", "G"):
            d = _factors(rng, len(a))
            moved[name] = a * d * d[:, None]
        else:
            moved[name] = a * _factors(rng, a.shape)
    return value._replace(**moved)


def _factors(rng: np.random.Generator, shape: Any) -> Array:
    """1 ± up to 8 units in the last place."""
    out: Array = 1 + EPS * rng.integers(-8, 9, shape)
    return out


def _units(q: State) -> Any:
    """The exponents of the powers of two nearest to the prior's standard deviations.

    One for all in DLR, whose projection is not the same in different units.
    """
    if isinstance(q, DLR):
        root = np.hypot(np.sqrt(np.abs(q.Ups)), np.hypot.reduce(q.W, axis=1))
        return np.full(len(root), -np.frexp(np.min(root))[1], np.int64)
    root = np.sqrt(q.var if isinstance(q, Diag) else np.diag(q.Sigma))
    return np.frexp(root)[1].astype(np.int64)


def _in_units(q: State, e: Any) -> State:
    """The state of θ / 2^e."""
    mu = np.ldexp(q.mu, -e)
    if isinstance(q, FC):
        return FC(mu, np.ldexp(np.ldexp(q.Sigma, -e), -e[:, None]))
    if isinstance(q, Diag):
        return Diag(mu, np.ldexp(q.var, -2 * e))
    return DLR(mu, np.ldexp(q.Ups, 2 * e), np.ldexp(q.W, e[:, None]))


def _curv_in_units(c: Curv, e: Any) -> Curv:
    g = np.ldexp(c.g, e)
    if c.S is not None:
        return Curv(g, S=np.ldexp(c.S, e[:, None]), e=c.e)
    if c.G is not None:
        return Curv(g, G=np.ldexp(np.ldexp(c.G, e), e[:, None]))
    return Curv(g, d=np.ldexp(c.d, 2 * e))


def _out_of_range(prior: State, current: Any, curv: Curv, units: Any, invariant: bool) -> bool:
    """Whether products of the inputs may overflow, or a small factor underflow where it matters."""
    c = _curv_in_units(curv, units)
    G = c.S if c.S is not None else np.sqrt(np.abs(c.G if c.G is not None else c.d))
    if invariant:
        Ws = [_in_units(q, units)[-1] for q in (prior, current) if isinstance(q, DLR)]
        return not _largest(G, c.g, *Ws) <= LARGE
    sizes = [q[1] if q[1].ndim == 1 else np.diag(q[1]) for q in (prior, current)]
    inverses = [1 / a[a != 0] for a in sizes]
    fields = [a for q in (prior, current) for a in q]
    return not _largest(G, c.g, *fields, *inverses) <= FACTOR


def _largest(*arrays: Array) -> float:
    return float(max(np.max(np.abs(a), initial=0) for a in arrays))


def _subnormal(q: State) -> bool:
    """Whether a mean or a variance is so small that it has lost digits by underflow."""
    size = np.diag(q.Sigma) if isinstance(q, FC) else q[1]
    small = 0 < np.max(np.abs(q.mu)) < SUBNORMAL
    return bool(small or np.any(np.abs(size) < SUBNORMAL))


# --- the difference of two results ----------------------------------------------------------------


def _difference(new: Any, again: Any, prior: State, curv: Curv) -> float:
    """The largest difference, relative to what it is compared with."""
    change, size = again.mu - new.mu, np.maximum(np.abs(new.mu), np.abs(prior.mu))
    worst = [_ratio(np.max(np.abs(change)), np.max(size))]
    if isinstance(new, Diag):
        worst += [_ratio(change, np.maximum(size, np.sqrt(new.var)))]
        return max([*worst, _ratio(again.var - new.var, new.var)])
    if isinstance(new, FC):
        worst += [_ratio(change, np.maximum(size, np.sqrt(np.diag(new.Sigma))))]
        worst += _of_covariances(new.Sigma, again.Sigma - new.Sigma, curv.S)
    else:
        worst += _of_precisions(new, again)
    if curv.S is not None:  # in standard deviations of the noise
        there = np.maximum(np.abs(curv.S.T @ new.mu), np.abs(curv.S.T @ prior.mu))
        worst += [_ratio(curv.S.T @ change, np.maximum(there, 1))]
    return max(worst)


def _of_covariances(Sigma: Array, change: Array, S: Any) -> list[float]:
    """Of Σ, of the variances of θ, and of those of what was observed."""
    out = [_ratio(np.max(np.abs(change)), np.max(np.abs(Sigma)))]
    out += [_ratio(np.diag(change), np.diag(Sigma))]
    return out if S is None else [*out, _ratio(rowdot(S.T @ change, S.T), rowdot(S.T @ Sigma, S.T))]


def _of_precisions(new: DLR, again: DLR) -> list[float]:
    """Of diag(Υ + W Wᵀ), of Υ, and of W Wᵀ times a vector."""
    diag, diag_again = (q.Ups + rowdot(q.W, q.W) for q in (new, again))
    out = [_ratio(diag_again - diag, diag)]
    out += [_ratio(again.Ups - new.Ups, new.Ups)]
    z = 1.0 - 2.0 * (np.arange(len(new.mu)) % 3 == 0)
    Wz, Wz_again = (q.W @ (q.W.T @ z) for q in (new, again))
    size = max(np.max(np.abs(Wz)), np.max(np.abs(diag)))
    return [*out, _ratio(np.max(np.abs(Wz_again - Wz)), size)]


def _ratio(change: Any, size: Any) -> float:
    """The largest |change| / |size|; 0 / 0 is no change, and what is not finite is a large one."""
    change, size = np.abs(np.atleast_1d(change)), np.abs(np.atleast_1d(size))
    ratio = np.where(change == 0, 0.0, change / size)
    return float(np.max(np.where(np.isfinite(ratio), ratio, np.inf), initial=0))

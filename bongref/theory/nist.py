r"""Bayesian linear regression against NIST's certified values (Statistical Reference Datasets).

With a linear model, a Gaussian likelihood of known variance and a prior N(0, v₀ I),
BONG-LIN-HESS-FC is exact Bayes, and as v₀ → ∞ its mean is the least-squares solution and its
covariance (XᵀX)⁻¹. NIST certifies that solution to 15 digits, computed with 500, for data that are
hard on purpose: nearly collinear columns (Longley), polynomials of degree 5 and 10 (Wampler,
Filip). These digits are independent of this library. The data and the certified values are in
nist.json, as NIST prints them.

A route is scored by the log relative error LRE = −log₁₀(|got − certified| / |certified|), the
number of correct digits, of its worst coefficient, of the worst standard deviation of a
coefficient, s √Σ_jj, and of the residual standard deviation s, from 0 to 15. Where the certified
value is 0 (Wampler1, Wampler2) it is −log₁₀|got|.

=================  ==============================================================================
route              how
=================  ==============================================================================
exact              the step code of fc_nat on the printed decimals as fractions, one mini-batch
exact, float64 X   the same on the data as float64 holds them: what storing the data costs
stream, plain      the displayed equation, one observation at a time, in float64
stream, efficient  the same in the gain form (Woodbury, the Kalman filter)
mini-batch         the displayed equation once, with all observations: the normal equations
qr, lstsq          numpy's least squares, by QR and by SVD: for comparison, no Bayes
=================  ==============================================================================

Columns are raw, as NIST gives them; ``scaled`` in a route's name says that each was divided by a
power of two near its largest entry (which costs no rounding) and the result scaled back. Nothing
is centred.

**How vague.** A prior of variance v₀ (in units of the noise variance) moves the coefficients by
(XᵀX)⁻¹β/v₀, to first order. The prior of a route is the smallest power of ten, :func:`vague`, for
which this is below 10⁻ᵈ of every coefficient: d = 25 for the exact routes, 16 for a mini-batch, and
for a stream in float64 a compromise. A stream starts at variance v₀ and ends at 1/λ(XᵀX), and a
step recovers the small variance from the large one, which costs v₀λ_max eps. With κ = cond(X),
v₀λ_min ≥ 10ᵈ leaves 16 − d − 2log₁₀κ digits: d = 8 − log₁₀κ balances the two, at half of what the
mini-batch has. This is what a vague prior costs in float64, whatever the code. In raw columns
v₀λ_max is 10²⁶ and more for Pontius, Longley and Filip, and a stream is no longer positive definite
after an observation or two.

**How many digits to expect** (:func:`expected_digits`; absolute values entry by entry, r = y − Xβ):

* QR: δβ ≤ c eps [|X⁺|(|X||β| + |y|) + |(XᵀX)⁻¹||X|ᵀ|r|];
* the normal equations: δβ ≤ c eps [|(XᵀX)⁻¹||X|ᵀ(|X||β| + |y|) + P κ² max|β|], the last term in
  columns of norm 1, where κ is smallest;
* a stream: the first of these terms times v₀λ_max, and the prior's 10⁻ᵈ.

For Filip κ² is 10¹⁹ even in columns of norm 1: no form that goes through XᵀX can have a digit in
float64, and none here has. In exact arithmetic the same lines have all of them.

>>> from bongref.theory import nist
>>> nist.row("Longley", "exact").coefficient > 14
True
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from typing import NamedTuple, cast

import numpy as np

from .. import checks, linalg
from ..curvature import Curv
from ..errors import BongrefWarning, NotFinite, NotPositiveDefinite
from ..families import fc_nat
from ..filter import update
from ..grid import method
from ..likelihoods import Gaussian
from ..linalg import Array, inv, solve
from ..models import linear
from ..routes.compare import EPS
from ..states import FC
from ..stream import run
from .arguments import NUMBER, checked, instance, integer, optional, state
from .certified import DATA, Dataset, lre, minus_log10, root

__all__ = [
    "DATA",
    "ROUTES",
    "Dataset",
    "Row",
    "bong",
    "condition",
    "exact",
    "exact_from_float",
    "expected_digits",
    "least_squares",
    "lre",
    "lstsq",
    "measure",
    "qr",
    "root",
    "row",
    "scales",
    "stream_digits",
    "table",
    "vague",
]


class Row(NamedTuple):
    """Correct digits of one route on one dataset, from 0 to 15.

    Attributes
    ----------
    dataset, route : str
    coefficient : float
        The digits of the worst coefficient.
    standard_deviation : float
        Those of the worst of their standard deviations.
    residual : float
        Those of the residual standard deviation.
    note : str

    Examples
    --------
    >>> row("Pontius", "qr").coefficient > 10
    True
    """

    dataset: str
    route: str
    coefficient: float  # the worst one
    standard_deviation: float  # the worst of those of the coefficients
    residual: float  # of the residual standard deviation
    note: str = ""


@checked(d=instance(Dataset), q=state(FC))
def measure(d: Dataset, route: str, q: FC, note: str = "") -> Row:
    """The digits of a posterior N(β, Σ) under unit noise.

    s² = ‖y − Xβ‖²/(n − P), and the variances of the coefficients are s²Σ_jj.

    Parameters
    ----------
    d : Dataset
    route : str
        What the row calls it.
    q : FC
    note : str

    Returns
    -------
    Row

    Examples
    --------
    >>> d = DATA["Pontius"]
    >>> measure(d, "exact answer", least_squares(d)).coefficient > 12
    True
    """
    exact = q.mu.dtype.kind == "O"
    X, y = (d.X, d.y) if exact else (d.X.astype(float), d.y.astype(float))
    r = y - X @ q.mu
    s2 = r @ r / (len(y) - len(q.mu))
    coefficient = min(lre(b, c) for b, c in zip(q.mu, d.beta, strict=True))
    deviation = min(lre(root(s2 * v), c) for v, c in zip(np.diag(q.Sigma), d.sd, strict=True))
    return Row(d.name, route, coefficient, deviation, lre(root(s2), d.s), note)


# --- how vague, and how many digits ---------------------------------------------------------------


@cache
def _least_squares(name: str) -> FC:
    d = DATA[name]
    Sigma = inv(d.X.T @ d.X)
    return FC(Sigma @ (d.X.T @ d.y), Sigma)


@checked(d=instance(Dataset))
def least_squares(d: Dataset) -> FC:
    """(β, (XᵀX)⁻¹) in fractions: the answer, with no prior and no step code.

    Parameters
    ----------
    d : Dataset

    Returns
    -------
    FC
        Of fractions.

    Examples
    --------
    >>> d = DATA["NoInt1"]
    >>> lre(least_squares(d).mu[0], d.beta[0]) > 14
    True
    """
    return _least_squares(d.name)


@checked(d=instance(Dataset), digits=NUMBER)
def vague(d: Dataset, digits: float, scale: Array | None = None) -> int:
    """The exponent e of the smallest prior variance 10ᵉ that is vague enough.

    To first order it moves no coefficient by more than 10^−digits of itself. With ``scale`` the
    prior is isotropic for columns divided by it: precision scale²/10ᵉ.

    Parameters
    ----------
    d : Dataset
    digits : float
    scale : ndarray, shape (P,), optional

    Returns
    -------
    int

    Examples
    --------
    >>> d = DATA["Pontius"]
    >>> vague(d, digits=12) - vague(d, digits=10)
    2
    """
    beta, Sigma = least_squares(d)
    weight = np.array(
        [Fraction(1)] * len(beta) if scale is None else [Fraction(v) ** 2 for v in scale],
        dtype=object,
    )
    shift = Sigma @ (weight * beta)
    return math.ceil(
        digits - min(minus_log10(abs(a / b)) for a, b in zip(shift, beta, strict=True) if a != 0)
    )


@checked(d=instance(Dataset))
def condition(d: Dataset) -> float:
    """cond(X) with columns of norm 1.

    Parameters
    ----------
    d : Dataset

    Returns
    -------
    float

    Examples
    --------
    >>> condition(DATA["Filip"]) > 1e6 * condition(DATA["Pontius"])
    True
    """
    X = d.X.astype(float)
    return float(np.linalg.cond(X / np.linalg.norm(X, axis=0)))


@checked(d=instance(Dataset), route=instance(str))
def expected_digits(d: Dataset, route: str) -> float:
    """The digits that rounding and the prior leave of the worst coefficient at least.

    By the bounds above with c = n, the number of observations.

    Parameters
    ----------
    d : Dataset
    route : str
        One of ``ROUTES``.

    Returns
    -------
    float

    Examples
    --------
    >>> d = DATA["Pontius"]
    >>> row("Pontius", "qr").coefficient >= expected_digits(d, "qr")
    True
    """
    (beta, Sigma), (X, y) = (_absolute(*least_squares(d)), _absolute(d.X, d.y))
    through_gram = Sigma @ (X.T @ (X @ beta + y))  # what errors of eps in XᵀX and Xᵀy do to β
    norms, kappa = np.linalg.norm(X, axis=0), condition(d)
    prior = 0.0
    if route == "qr":
        plus, r = _absolute(least_squares(d).Sigma @ d.X.T, d.y - d.X @ least_squares(d).mu)
        loss = plus @ (X @ beta + y) + Sigma @ (X.T @ r)
    elif route.startswith("mini-batch"):
        loss = through_gram + len(beta) * kappa**2 * np.max(beta * norms) / norms
    else:
        digits, scale = stream_digits(d), scales(d, "scaled" in route)
        top = np.linalg.norm(d.X.astype(float) / scale, 2) ** 2
        loss, prior = 10.0 ** vague(d, digits, scale) * top * through_gram, 10.0**-digits
    return float(-np.log10(np.max(len(X) * EPS * loss / beta) + prior))


@checked(d=instance(Dataset))
def stream_digits(d: Dataset) -> float:
    """d = 8 − log₁₀κ, at least 1: the influence of a stream's prior in float64 is 10⁻ᵈ.

    Parameters
    ----------
    d : Dataset

    Returns
    -------
    float

    Examples
    --------
    >>> stream_digits(DATA["Pontius"]) > stream_digits(DATA["Longley"])
    True
    """
    return max(1.0, 8.0 - math.log10(condition(d)))


def _absolute(*arrays: Array) -> tuple[Array, ...]:
    return tuple(np.abs(a.astype(float)) for a in arrays)


# --- the routes -----------------------------------------------------------------------------------

BONG = method("bong-lin-hess-fc")


@checked(d=instance(Dataset), digits=integer(1))
def exact(d: Dataset, digits: int = 25) -> FC:
    """The step code on fractions: one mini-batch, g = Xᵀ(y − X·0), G = −XᵀX.

    Parameters
    ----------
    d : Dataset
    digits : int
        How little the prior may move a coefficient, see :func:`vague`.

    Returns
    -------
    FC
        Of fractions.

    Examples
    --------
    >>> d = DATA["Pontius"]
    >>> measure(d, "exact", exact(d)).coefficient > 12
    True
    """
    return _exact(d.X, d.y, vague(d, digits))


@checked(d=instance(Dataset), digits=integer(1))
def exact_from_float(d: Dataset, digits: int = 25) -> FC:
    """The step code on fractions, of what float64 keeps of the data.

    Parameters
    ----------
    d : Dataset
    digits : int
        As for :func:`exact`.

    Returns
    -------
    FC
        Of fractions.

    Examples
    --------
    >>> d = DATA["Pontius"]
    >>> measure(d, "exact, float64 X", exact_from_float(d)).coefficient > 10
    True
    """
    as_float = np.frompyfunc(lambda v: Fraction(float(v)), 1, 1)
    return _exact(as_float(d.X), as_float(d.y), vague(d, digits))


def _exact(X: Array, y: Array, exponent: int) -> FC:
    zero = np.array([Fraction(0)] * X.shape[1], dtype=object)
    prior = FC(zero, np.diag([Fraction(10) ** exponent] * X.shape[1]))
    return fc_nat.bong(prior, None, Curv(X.T @ y, S=X.T))


@checked(d=instance(Dataset))
def scales(d: Dataset, scaled: bool) -> Array:
    """1 for every column, or a power of two near its largest entry.

    Parameters
    ----------
    d : Dataset
    scaled : bool
        False for 1.

    Returns
    -------
    ndarray, shape (P,)

    Examples
    --------
    >>> scales(DATA["Pontius"], scaled=False)
    array([1., 1., 1.])
    """
    top = np.abs(d.X.astype(float)).max(axis=0)
    return 2.0 ** np.round(np.log2(top)) if scaled else np.ones(d.X.shape[1])


@checked(d=instance(Dataset), digits=optional(NUMBER))
def bong(
    d: Dataset,
    *,
    batch: bool,
    form: str = "plain",
    scaled: bool = False,
    digits: float | None = None,
) -> FC:
    """BONG-LIN-HESS-FC in float64 from N(0, v₀ I), v₀ = 10^vague(digits), with unit noise.

    Parameters
    ----------
    d : Dataset
    batch : bool
        All rows in one update, or one at a time.
    form : {"auto", "plain", "efficient"}
    scaled : bool
        Whether the columns are divided by :func:`scales`.
    digits : float, optional
        Of :func:`vague`; 16 of a batch, else :func:`stream_digits`.

    Returns
    -------
    FC
        In the units of the data.

    Examples
    --------
    >>> d = DATA["Pontius"]
    >>> measure(d, "mini-batch", bong(d, batch=True)).coefficient > 8
    True
    """
    checks.boolean("batch", batch)
    if digits is None:
        digits = 16.0 if batch else stream_digits(d)
    scale = scales(d, scaled)
    X, y, P = d.X.astype(float) / scale, d.y.astype(float), d.X.shape[1]
    model, lik = linear(P), Gaussian(var=1.0)
    prior = FC(np.zeros(P), 10.0 ** vague(d, digits, scale) * np.eye(P))
    if batch:
        q = cast(FC, update(BONG, model, lik, prior, X, y[:, None], form=form)[0])
    else:
        with warnings.catch_warnings():  # data that are hard on purpose
            warnings.simplefilter("ignore", BongrefWarning)
            result = run(BONG, model, lik, prior, X, y[:, None], form=form, progress=False)
        q = cast(FC, result.state)
    return FC(q.mu / scale, q.Sigma / np.outer(scale, scale))


@checked(d=instance(Dataset))
def qr(d: Dataset) -> FC:
    """Householder QR: β = R⁻¹Qᵀy, (XᵀX)⁻¹ = R⁻¹R⁻ᵀ.

    Parameters
    ----------
    d : Dataset

    Returns
    -------
    FC

    Examples
    --------
    >>> qr(DATA["NoInt1"]).mu.round(6)
    array([2.07438])
    """
    Q, R = linalg.qr(d.X.astype(float))
    half = solve(R, np.eye(len(R)))
    return FC(solve(R, Q.T @ d.y.astype(float)), half @ half.T)


@checked(d=instance(Dataset))
def lstsq(d: Dataset) -> FC:
    """numpy.linalg.lstsq as it is, which drops singular values below eps·n.

    The covariance is that of the pseudo-inverse with the same threshold.

    Parameters
    ----------
    d : Dataset

    Returns
    -------
    FC

    Examples
    --------
    >>> lstsq(DATA["NoInt1"]).mu.round(6)
    array([2.07438])
    """
    X = d.X.astype(float)
    plus = np.linalg.pinv(X, rcond=len(X) * EPS)
    return FC(linalg.lstsq(X, d.y.astype(float)), plus @ plus.T)


ROUTES: dict[str, Callable[[Dataset], FC]] = {
    "exact": exact,
    "exact, float64 X": exact_from_float,
    "stream, plain": lambda d: bong(d, batch=False),
    "stream, efficient": lambda d: bong(d, batch=False, form="efficient"),
    "stream, plain, scaled": lambda d: bong(d, batch=False, scaled=True),
    "stream, efficient, scaled": lambda d: bong(d, batch=False, form="efficient", scaled=True),
    "mini-batch": lambda d: bong(d, batch=True),
    "mini-batch, scaled": lambda d: bong(d, batch=True, scaled=True),
    "qr": qr,
    "lstsq": lstsq,
}


# --- the table ------------------------------------------------------------------------------------


def row(name: str, route: str) -> Row:
    """One line of the table.

    A stream that ends early has no digits; the note says why and at which observation.

    Parameters
    ----------
    name : str
        One of ``DATA``.
    route : str
        One of ``ROUTES``.

    Returns
    -------
    Row

    Examples
    --------
    >>> row("Pontius", "lstsq").dataset
    'Pontius'
    """
    d = DATA[checks.choice("name", name, tuple(DATA))]
    checks.choice("route", route, tuple(ROUTES))
    try:
        return measure(d, route, ROUTES[route](d))
    except (NotPositiveDefinite, NotFinite) as end:
        what = "positive definite" if isinstance(end, NotPositiveDefinite) else "finite"
        return Row(name, route, 0.0, 0.0, 0.0, f"not {what} at observation {end.step}")


def table(names: Iterable[str] = tuple(DATA), routes: Iterable[str] = tuple(ROUTES)) -> list[Row]:
    """Every dataset by every route.

    Parameters
    ----------
    names : iterable of str
        Of ``DATA``.
    routes : iterable of str
        Of ``ROUTES``.

    Returns
    -------
    list of Row

    Examples
    --------
    >>> [r.route for r in table(["Pontius"], ["qr", "lstsq"])]
    ['qr', 'lstsq']
    """
    names = checks.strings("names", names, tuple(DATA))
    return [
        row(n, route) for n in names for route in checks.strings("routes", routes, tuple(ROUTES))
    ]

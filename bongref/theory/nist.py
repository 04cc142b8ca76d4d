r"""A ruler from outside: Bayesian linear regression against the certified values of the NIST Statistical Reference Datasets.

With a linear model, a Gaussian likelihood of known variance and a prior N(0, v₀ I), BONG-LIN-HESS-FC is exact Bayes, and as
v₀ → ∞ its mean is the least-squares solution and its covariance (XᵀX)⁻¹. NIST certifies that solution to 15 digits, computed with 500,
for data that are hard on purpose: nearly collinear columns (Longley), polynomials of degree 5 and 10 (Wampler, Filip). No part of
this library had a hand in those digits.

A route is scored by the log relative error LRE = −log₁₀(|got − certified| / |certified|), the number of correct digits, of its worst
coefficient, of the worst standard deviation of a coefficient, s √Σ_jj, and of the residual standard deviation s, from 0 to 15.
Where the certified value is 0 (Wampler1, Wampler2) it is −log₁₀|got|.

=================  ==============================================================================================================
route              how
=================  ==============================================================================================================
exact              the step code of fc_nat on the printed decimals as fractions, one mini-batch: no rounding at all
exact, float64 X   the same on the data as float64 holds them, powers included: what storing the data costs, before any arithmetic
stream, plain      the displayed equation, one observation at a time, in float64
stream, efficient  the same in the gain form (Woodbury, the Kalman filter)
mini-batch         the displayed equation once, with all observations: the normal equations
qr, lstsq          numpy's least squares, by QR and by SVD: the yardstick, no Bayes
=================  ==============================================================================================================

Columns are raw, as NIST gives them; ``scaled`` in a route's name says that each was divided by a power of two near its largest entry (which
costs no rounding) and the result scaled back. Nothing is centred.

**How vague.** A prior of variance v₀ (in units of the noise variance) moves the coefficients by (XᵀX)⁻¹β/v₀, to first order. The prior of a
route is the smallest power of ten, :func:`vague`, for which this is below 10⁻ᵈ of every coefficient: d = 25 for the exact routes, 16 for a
mini-batch, and for a stream in float64 a compromise. A stream starts at variance v₀ and ends at 1/λ(XᵀX), and a step recovers the small
variance from the large one, which costs v₀λ_max eps. With κ = cond(X), v₀λ_min ≥ 10ᵈ leaves 16 − d − 2log₁₀κ digits: d = 8 − log₁₀κ is
the best of both, half of what the mini-batch has. No code is at fault: this is what a vague prior costs in float64. In raw columns v₀λ_max
is 10²⁶ and more for Pontius, Longley and Filip, and a stream is no longer positive definite after an observation or two.

**How many digits to expect** (:func:`expected_digits`; absolute values entry by entry, r = y − Xβ):

* QR: δβ ≤ c eps [|X⁺|(|X||β| + |y|) + |(XᵀX)⁻¹||X|ᵀ|r|];
* the normal equations: δβ ≤ c eps [|(XᵀX)⁻¹||X|ᵀ(|X||β| + |y|) + P κ² max|β|], the last term in columns of norm 1, where κ is smallest;
* a stream: the first of these terms times v₀λ_max, and the prior's 10⁻ᵈ.

For Filip κ² is 10¹⁹ even in columns of norm 1: no form that goes through XᵀX can have a digit in float64, and none here has. In exact
arithmetic the same lines have all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from ..curvature import Curv
from ..errors import NotPositiveDefinite
from ..families import fc_nat
from ..filter import update
from ..grid import method
from ..likelihoods import Gaussian
from ..linalg import Array, inv, solve
from ..models import linear
from ..routes.compare import EPS
from ..states import FC
from ..stream import run


class Dataset(NamedTuple):
    """Data and certified values as exact numbers, the decimals that NIST prints."""

    name: str
    X: Array  # (n, P) fractions
    y: Array  # (n,) fractions
    beta: tuple[str, ...]  # the certified coefficients,
    sd: tuple[str, ...]  # their standard deviations
    s: str  # and the residual standard deviation, as printed


class Row(NamedTuple):
    """Correct digits of one route on one dataset, from 0 to 15."""

    dataset: str
    route: str
    coefficient: float  # the worst one
    standard_deviation: float  # the worst of those of the coefficients
    residual: float  # of the residual standard deviation
    note: str = ""


# --- the facts -----------------------------------------------------------------------------------------------------------------

_LONGLEY = """
60323 83.0 234289 2356 1590 107608 1947
61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949
61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951
63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""
_PONTIUS_Y = """
0.11019 0.21956 0.32949 0.43899 0.54803 0.65694 0.76562 0.87487 0.98292 1.09146 1.20001 1.30822 1.41599 1.52399 1.63194 1.73947
1.84646 1.95392 2.06128 2.16844 0.11052 0.22018 0.32939 0.43886 0.54798 0.65739 0.76596 0.87474 0.98300 1.09150 1.20004 1.30818
1.41613 1.52408 1.63159 1.73965 1.84696 1.95445 2.06177 2.16829
"""
_FILIP_X = """
-6.860120914 -4.324130045 -4.358625055 -4.358426747 -6.955852379 -6.661145254 -6.355462942 -6.118102026 -7.115148017 -6.815308569
-6.519993057 -6.204119983 -5.853871964 -6.109523091 -5.79832982 -5.482672118 -5.171791386 -4.851705903 -4.517126416 -4.143573228
-3.709075441 -3.499489089 -6.300769497 -5.953504836 -5.642065153 -5.031376979 -4.680685696 -4.329846955 -3.928486195 -8.56735134
-8.363211311 -8.107682739 -7.823908741 -7.522878745 -7.218819279 -6.920818754 -6.628932138 -6.323946875 -5.991399828 -8.781464495
-8.663140179 -8.473531488 -8.247337057 -7.971428747 -7.676129393 -7.352812702 -7.072065318 -6.774174009 -6.478861916 -6.159517513
-6.835647144 -6.53165267 -6.224098421 -5.910094889 -5.598599459 -5.290645224 -4.974284616 -4.64454848 -4.290560426 -3.885055584
-3.408378962 -3.13200249 -8.726767166 -8.66695597 -8.511026475 -8.165388579 -7.886056648 -7.588043762 -7.283412422 -6.995678626
-6.691862621 -6.392544977 -6.067374056 -6.684029655 -6.378719832 -6.065855188 -5.752272167 -5.132414673 -4.811352704 -4.098269308
-3.66174277 -3.2644011
"""
_FILIP_Y = """
0.8116 0.9072 0.9052 0.9039 0.8053 0.8377 0.8667 0.8809 0.7975 0.8162 0.8515 0.8766 0.8885 0.8859 0.8959 0.8913 0.8959 0.8971 0.9021
0.909 0.9139 0.9199 0.8692 0.8872 0.89 0.891 0.8977 0.9035 0.9078 0.7675 0.7705 0.7713 0.7736 0.7775 0.7841 0.7971 0.8329 0.8641
0.8804 0.7668 0.7633 0.7678 0.7697 0.77 0.7749 0.7796 0.7897 0.8131 0.8498 0.8741 0.8061 0.846 0.8751 0.8856 0.8919 0.8934 0.894
0.8957 0.9047 0.9129 0.9209 0.9219 0.7739 0.7681 0.7665 0.7703 0.7702 0.7761 0.7809 0.7961 0.8253 0.8602 0.8809 0.8301 0.8664 0.8834
0.8898 0.8964 0.8963 0.9074 0.9119 0.9228
"""
_WAMPLER_Y = {
    "Wampler1": """
        1 6 63 364 1365 3906 9331 19608 37449 66430 111111 177156 271453 402234 579195 813616 1118481 1508598 2000719 2613660
        3368421""",
    "Wampler2": """
        1.00000 1.11111 1.24992 1.42753 1.65984 1.96875 2.38336 2.94117 3.68928 4.68559 6.00000 7.71561 9.92992 12.75603
        16.32384 20.78125 26.29536 33.05367 41.26528 51.16209 63.00000""",
    "Wampler3": """
        760 -2042 2111 -1684 3888 1858 11379 17560 39287 64382 113159 175108 273291 400186 581243 811568 1121004 1506550 2002767
        2611612 3369180""",
    "Wampler4": """
        75901 -204794 204863 -204436 253665 -200894 214131 -185192 221249 -138370 315911 -27644 455253 197434 783995 608816
        1370781 1303798 2205519 2408860 3444321""",
    "Wampler5": """
        7590001 -20479994 20480063 -20479636 25231365 -20476094 20489331 -20460392 18417449 -20413570 20591111 -20302844
        18651453 -20077766 21059195 -19666384 26348481 -18971402 22480719 -17866340 10958421""",
}


def _fractions(text: str) -> Array:
    return np.array([Fraction(word) for word in text.split()], dtype=object)


def _powers(x: Array, degree: int) -> Array:
    return np.stack([x**k for k in range(degree + 1)], axis=1)


def _wampler(k: int, beta: str, sd: str, s: str) -> Dataset:
    x = np.array([Fraction(i) for i in range(21)], dtype=object)
    return Dataset(f"Wampler{k}", _powers(x, 5), _fractions(_WAMPLER_Y[f"Wampler{k}"]), tuple(beta.split()), tuple(sd.split()), s)


def _data() -> dict[str, Dataset]:
    table = _fractions(_LONGLEY).reshape(16, 7)
    longley = np.column_stack([table[:, :1] ** 0, table[:, 1:]])
    x = np.array([Fraction(150000 * (1 + i % 20)) for i in range(40)], dtype=object)
    noint = np.array([Fraction(60 + i) for i in range(11)], dtype=object)
    ones = " ".join(["1.00000000000000"] * 6)
    zeros = " ".join(["0.00000000000000"] * 6)
    tenths = "1.00000000000000 0.100000000000000 0.100000000000000E-01 0.100000000000000E-02 0.100000000000000E-03 0.100000000000000E-04"
    sets = [
        Dataset("NoInt1", noint[:, None], noint + 70, ("2.07438016528926",), ("0.165289256198347E-01",), "3.56753034006338"),
        Dataset(
            "Pontius",
            _powers(x, 2),
            _fractions(_PONTIUS_Y),
            ("0.673565789473684E-03", "0.732059160401003E-06", "-0.316081871345029E-14"),
            ("0.107938612033077E-03", "0.157817399981659E-09", "0.486652849992036E-16"),
            "0.205177424076185E-03",
        ),
        Dataset(
            "Longley",
            longley,
            table[:, 0],
            (
                "-3482258.63459582",
                "15.0618722713733",
                "-0.358191792925910E-01",
                "-2.02022980381683",
                "-1.03322686717359",
                "-0.511041056535807E-01",
                "1829.15146461355",
            ),
            (
                "890420.383607373",
                "84.9149257747669",
                "0.334910077722432E-01",
                "0.488399681651699",
                "0.214274163161675",
                "0.226073200069370",
                "455.478499142212",
            ),
            "304.854073561965",
        ),
        _wampler(1, ones, zeros, "0.00000000000000"),
        _wampler(2, tenths, zeros, "0.00000000000000"),
        _wampler(
            3,
            ones,
            "2152.32624678170 2363.55173469681 779.343524331583 101.475507550350 5.64566512170752 0.112324854679312",
            "2360.14502379268",
        ),
        _wampler(
            4,
            ones,
            "215232.624678170 236355.173469681 77934.3524331583 10147.5507550350 564.566512170752 11.2324854679312",
            "236014.502379268",
        ),
        _wampler(
            5,
            ones,
            "21523262.4678170 23635517.3469681 7793435.24331583 1014755.07550350 56456.6512170752 1123.24854679312",
            "23601450.2379268",
        ),
        Dataset(
            "Filip",
            _powers(_fractions(_FILIP_X), 10),
            _fractions(_FILIP_Y),
            (
                "-1467.48961422980",
                "-2772.17959193342",
                "-2316.37108160893",
                "-1127.97394098372",
                "-354.478233703349",
                "-75.1242017393757",
                "-10.8753180355343",
                "-1.06221498588947",
                "-0.670191154593408E-01",
                "-0.246781078275479E-02",
                "-0.402962525080404E-04",
            ),
            (
                "298.084530995537",
                "559.779865474950",
                "466.477572127796",
                "227.204274477751",
                "71.6478660875927",
                "15.2897178747400",
                "2.23691159816033",
                "0.221624321934227",
                "0.142363763154724E-01",
                "0.535617408889821E-03",
                "0.896632837373868E-05",
            ),
            "0.334801051324544E-02",
        ),
    ]
    return {d.name: d for d in sets}


DATA: dict[str, Dataset] = _data()


# --- digits --------------------------------------------------------------------------------------------------------------------


def lre(got: Fraction | float, certified: str) -> float:
    """Correct digits: −log₁₀ of the relative error, of the absolute one where the certified value is 0; from 0 to 15."""
    if not math.isfinite(got):
        return 0.0
    wanted = Fraction(certified)
    error = abs(Fraction(got) - wanted) / (abs(wanted) or 1)
    return 15.0 if error == 0 else min(15.0, max(0.0, _minus_log10(error)))


def _minus_log10(x: Fraction) -> float:
    return math.log10(x.denominator) - math.log10(x.numerator)


def root(x: Fraction | float) -> Fraction | float:
    """√x, of a fraction to 40 digits."""
    if isinstance(x, Fraction):
        c = Context(prec=40)
        return Fraction(c.sqrt(c.divide(Decimal(x.numerator), Decimal(x.denominator))))
    return math.sqrt(x) if x >= 0 else math.nan


def measure(d: Dataset, route: str, q: FC, note: str = "") -> Row:
    """The digits of a posterior N(β, Σ) under unit noise: s² = ‖y − Xβ‖²/(n − P), the coefficients' variances s²Σ_jj."""
    exact = q.mu.dtype.kind == "O"
    X, y = (d.X, d.y) if exact else (d.X.astype(float), d.y.astype(float))
    r = y - X @ q.mu
    s2 = r @ r / (len(y) - len(q.mu))
    coefficient = min(lre(b, c) for b, c in zip(q.mu, d.beta, strict=True))
    deviation = min(lre(root(s2 * v), c) for v, c in zip(np.diag(q.Sigma), d.sd, strict=True))
    return Row(d.name, route, coefficient, deviation, lre(root(s2), d.s), note)


# --- how vague, and how many digits ----------------------------------------------------------------------------------------------


@cache
def _least_squares(name: str) -> FC:
    d = DATA[name]
    Sigma = inv(d.X.T @ d.X)
    return FC(Sigma @ (d.X.T @ d.y), Sigma)


def least_squares(d: Dataset) -> FC:
    """(β, (XᵀX)⁻¹) in fractions: the answer, with no prior and no step code."""
    return _least_squares(d.name)


def vague(d: Dataset, digits: float, scale: Array | None = None) -> int:
    """The exponent e of the smallest prior variance 10ᵉ that moves no coefficient by more than 10^−digits of itself, to first order.

    With ``scale`` the prior is isotropic for columns divided by it: precision scale²/10ᵉ.
    """
    beta, Sigma = least_squares(d)
    weight = np.array([Fraction(1)] * len(beta) if scale is None else [Fraction(v) ** 2 for v in scale], dtype=object)
    shift = Sigma @ (weight * beta)
    return math.ceil(digits - min(_minus_log10(abs(a / b)) for a, b in zip(shift, beta, strict=True) if a != 0))


def condition(d: Dataset) -> float:
    """cond(X) with columns of norm 1."""
    X = d.X.astype(float)
    return float(np.linalg.cond(X / np.linalg.norm(X, axis=0)))


def expected_digits(d: Dataset, route: str) -> float:
    """What rounding and the prior leave of the worst coefficient at least, by the bounds above with c = n, the number of observations."""
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


def stream_digits(d: Dataset) -> float:
    """d = 8 − log₁₀κ, at least 1: how far below a coefficient the prior of a stream in float64 stays."""
    return max(1.0, 8.0 - math.log10(condition(d)))


def _absolute(*arrays: Array) -> tuple[Array, ...]:
    return tuple(np.abs(a.astype(float)) for a in arrays)


# --- the routes ------------------------------------------------------------------------------------------------------------------

BONG = method("bong-lin-hess-fc")


def exact(d: Dataset, digits: int = 25) -> FC:
    """The step code on fractions: one mini-batch, g = Xᵀ(y − X·0), G = −XᵀX."""
    return _exact(d.X, d.y, vague(d, digits))


def exact_from_float(d: Dataset, digits: int = 25) -> FC:
    """The same on what float64 keeps of the data."""
    as_float = np.frompyfunc(lambda v: Fraction(float(v)), 1, 1)
    return _exact(as_float(d.X), as_float(d.y), vague(d, digits))


def _exact(X: Array, y: Array, exponent: int) -> FC:
    zero = np.array([Fraction(0)] * X.shape[1], dtype=object)
    prior = FC(zero, np.diag([Fraction(10) ** exponent] * X.shape[1]))
    return fc_nat.bong(prior, None, Curv(X.T @ y, S=X.T))


def scales(d: Dataset, scaled: bool) -> Array:
    """1 for every column, or a power of two near its largest entry."""
    top = np.abs(d.X.astype(float)).max(axis=0)
    return 2.0 ** np.round(np.log2(top)) if scaled else np.ones(d.X.shape[1])


def bong(d: Dataset, *, batch: bool, form: str = "plain", scaled: bool = False, digits: float | None = None) -> FC:
    """BONG-LIN-HESS-FC in float64 from the prior N(0, v₀ I), v₀ = 10^vague(digits), and unit noise."""
    if digits is None:
        digits = 16.0 if batch else stream_digits(d)
    scale = scales(d, scaled)
    X, y, P = d.X.astype(float) / scale, d.y.astype(float), d.X.shape[1]
    model, lik = linear(P), Gaussian(var=1.0)
    prior = FC(np.zeros(P), 10.0 ** vague(d, digits, scale) * np.eye(P))
    if batch:
        q: FC = update(BONG, model, lik, prior, X, y[:, None], form=form)[0]  # type: ignore[assignment]
    else:
        q = run(BONG, model, lik, prior, X, y[:, None], form=form, progress=False).state  # type: ignore[assignment]
    return FC(q.mu / scale, q.Sigma / np.outer(scale, scale))


def qr(d: Dataset) -> FC:
    """Householder QR: β = R⁻¹Qᵀy, (XᵀX)⁻¹ = R⁻¹R⁻ᵀ."""
    Q, R = np.linalg.qr(d.X.astype(float))
    half = solve(R, np.eye(len(R)))
    return FC(solve(R, Q.T @ d.y.astype(float)), half @ half.T)


def lstsq(d: Dataset) -> FC:
    """numpy.linalg.lstsq as it comes, which drops singular values below eps·n; the covariance by the pseudo-inverse with the same cut."""
    X = d.X.astype(float)
    plus = np.linalg.pinv(X, rcond=len(X) * EPS)
    return FC(np.linalg.lstsq(X, d.y.astype(float), rcond=None)[0], plus @ plus.T)


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


# --- the table -------------------------------------------------------------------------------------------------------------------


def row(name: str, route: str) -> Row:
    """One line of the table; a stream that loses positive definiteness has no digits, and the note says at which observation."""
    d = DATA[name]
    try:
        return measure(d, route, ROUTES[route](d))
    except NotPositiveDefinite as lost:
        return Row(name, route, 0.0, 0.0, 0.0, f"not positive definite at observation {lost.step}")


def table(names: Iterable[str] = tuple(DATA), routes: Iterable[str] = tuple(ROUTES)) -> list[Row]:
    """Every dataset by every route."""
    return [row(name, route) for name in names for route in routes]


def render(rows: list[Row]) -> str:
    """The table as text."""
    head = f"{'dataset':<10}{'route':<28}{'coefficient':>12}{'its sd':>8}{'residual sd':>13}  note"
    lines = [f"{r.dataset:<10}{r.route:<28}{r.coefficient:>12.1f}{r.standard_deviation:>8.1f}{r.residual:>13.1f}  {r.note}" for r in rows]
    return "\n".join(line.rstrip() for line in [head, "-" * len(head), *lines])


if __name__ == "__main__":
    print(render(table()))

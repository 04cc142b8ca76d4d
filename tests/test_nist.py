"""The certified values of the NIST Statistical Reference Datasets: the data entered right, and
every route's digits.
"""

import re
import runpy
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from bongref import reports
from bongref.curvature import Curv
from bongref.families import fc_nat
from bongref.states import FC
from bongref.theory import nist
from bongref.theory.nist import DATA

NAMES = list(DATA)
CERTIFIED = 14.3  # a value rounded to 15 digits is off by up to 5e-15 of itself


def as_printed(value: Fraction, printed: str) -> Decimal:
    """The value rounded to as many digits as were printed."""
    digits = len(Decimal(printed).as_tuple().digits)
    c = Context(prec=60)
    return Context(prec=digits).create_decimal(
        c.divide(Decimal(value.numerator), Decimal(value.denominator))
    )


# --- the facts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_data_reproduce_every_certified_digit(name):
    """Least squares in fractions from the data entered here, rounded to the digits printed: one
    wrong digit anywhere would show.
    """
    d = DATA[name]
    beta, Sigma = nist.least_squares(d)
    r = d.y - d.X @ beta
    assert all(v == 0 for v in d.X.T @ r)  # the solution, whoever computed it
    s2 = r @ r / (len(d.y) - len(beta))
    pairs = [*zip(beta, d.beta, strict=True), (nist.root(s2), d.s)]
    pairs += [(nist.root(s2 * v), sd) for v, sd in zip(np.diag(Sigma), d.sd, strict=True)]
    for value, printed in pairs:
        assert as_printed(Fraction(value), printed) == Decimal(printed), (
            f"{name}: {float(value)!r} against {printed}"
        )


def test_sizes_and_families():
    assert {n: d.X.shape for n, d in DATA.items()} == {
        "NoInt1": (11, 1),
        "Pontius": (40, 3),
        "Longley": (16, 7),
        **{f"Wampler{k}": (21, 6) for k in range(1, 6)},
        "Filip": (82, 11),
    }
    y1, y3, y4, y5 = (
        DATA[f"Wampler{k}"].y for k in (1, 3, 4, 5)
    )  # one polynomial, one error times 1, 100, 10000
    assert np.array_equal(y4 - y1, 100 * (y3 - y1)) and np.array_equal(y5 - y1, 10000 * (y3 - y1))


# --- exact arithmetic -----------------------------------------------------------------------------


@pytest.mark.eq(
    "eq:RVGA-explicit-mean",
    "eq:RVGA-explicit-cov",
    "eq:bong-FC-prec",
    "eq:bong-FC-mean",
    "sec:lbong-fc#1",
    "sec:lbong-fc#2",
)
@pytest.mark.parametrize("name", NAMES)
def test_exact_route_has_every_digit(name):
    row = nist.row(name, "exact")
    assert min(row.coefficient, row.standard_deviation, row.residual) >= 14, row


@pytest.mark.parametrize("name", NAMES)
def test_influence_of_the_prior_is_what_the_docstring_says(name):
    """β − μ = (XᵀX)⁻¹β/v₀ to first order: the second is ‖(XᵀX)⁻¹‖/v₀ of it; and v₀ is the smallest
    power of ten that will do.
    """
    d, digits = DATA[name], 25
    e = nist.vague(d, digits)
    (beta, Sigma), q, v0 = nist.least_squares(d), nist.exact(d, digits), Fraction(10) ** e
    shift = Sigma @ beta
    second = np.abs(Sigma) @ np.abs(shift) / v0
    assert np.all(np.abs((beta - q.mu) * v0 - shift) <= second)
    assert np.all(np.abs(shift) / v0 <= np.abs(beta) / 10**digits)
    assert np.any(np.abs(shift) * 10 / v0 > np.abs(beta) / 10**digits)
    assert np.any(q.mu != beta)


@pytest.mark.eq("sec:lbong-fc#1", "sec:lbong-fc#2", "eq:bong-FC-mean", "eq:bong-FC-prec")
@pytest.mark.parametrize("name", ["NoInt1", "Pontius", "Longley", "Wampler5"])
def test_one_at_a_time_is_the_mini_batch_to_the_last_digit(name):
    """Without rounding the stream loses nothing: what it loses in float64 is rounding and no
    property of the method.
    """
    d = DATA[name]
    P, v0 = d.X.shape[1], Fraction(10) ** nist.vague(d, 25)
    prior = FC(np.array([Fraction(0)] * P, dtype=object), np.diag([v0] * P))
    step = lambda q, xy: fc_nat.bong_woodbury(
        q, None, Curv(xy[0] * (xy[1] - xy[0] @ q.mu), S=xy[0][:, None])
    )
    got, wanted = reduce(step, zip(d.X, d.y, strict=True), prior), nist.exact(d, 25)
    assert np.array_equal(got.mu, wanted.mu) and np.array_equal(got.Sigma, wanted.Sigma)


def test_storing_filip_in_float64_costs_half_of_its_digits():
    """The exact solution for the rounded data: κ eps of the coefficients, and no float64 code can
    know better.
    """
    d = DATA["Filip"]
    stored = nist.row("Filip", "exact, float64 X").coefficient
    assert nist.expected_digits(d, "qr") <= stored <= nist.row("Filip", "exact").coefficient - 5


# --- float64 --------------------------------------------------------------------------------------


@pytest.mark.eq("eq:bong-FC-mean", "eq:bong-FC-prec", "sec:lbong-fc#1", "sec:lbong-fc#2")
@pytest.mark.parametrize("route", ["mini-batch", "mini-batch, scaled", "qr"])
@pytest.mark.parametrize("name", NAMES)
def test_float_routes_have_the_digits_that_rounding_leaves(name, route):
    row, least = nist.row(name, route), nist.expected_digits(DATA[name], route)
    assert row.coefficient >= min(CERTIFIED, least), f"{row}: at least {least:.1f}"


@pytest.mark.eq("eq:bong-FC-prec", "sec:lbong-fc#2")
@pytest.mark.parametrize("route", ["mini-batch", "mini-batch, scaled", "qr"])
@pytest.mark.parametrize("name", [n for n in NAMES if float(DATA[n].s) > 0])
def test_float_routes_have_the_digits_of_the_covariance(name, route):
    """Σ is good to n eps P κ², in columns of norm 1, and r = y − Xβ to n eps (|X||β| + |y|)."""
    d, row = DATA[name], nist.row(name, route)
    beta = np.abs([float(b) for b in d.beta])
    terms = np.max(np.abs(d.X.astype(float)) @ beta + np.abs(d.y.astype(float))) / float(d.s)
    least = -np.log10(len(d.y) * np.finfo(float).eps * (len(beta) * nist.condition(d) ** 2 + terms))
    assert (least > 3) == (name != "Filip")
    assert min(row.standard_deviation, row.residual) >= min(CERTIFIED, least), (
        f"{row}: at least {least:.1f}"
    )


def test_the_digits_expected_say_something():
    """The bounds are not empty, but for Filip through the normal equations, which have no digit to
    lose.
    """
    assert all(nist.expected_digits(d, "qr") > 3 for d in DATA.values())
    assert all(
        (nist.expected_digits(d, "mini-batch") > 0) == (name != "Filip") for name, d in DATA.items()
    )
    assert nist.row("Filip", "mini-batch").coefficient < 1


@pytest.mark.eq("eq:bong-FC-mean", "eq:bong-FC-prec", "sec:lbong-fc#1", "sec:lbong-fc#2")
@pytest.mark.parametrize(
    "route",
    ["stream, plain", "stream, efficient", "stream, plain, scaled", "stream, efficient, scaled"],
)
def test_streams(route):
    for name, d in DATA.items():
        row, least = nist.row(name, route), nist.expected_digits(d, route)
        assert row.coefficient >= least, f"{row}: at least {least:.1f}"
    assert nist.expected_digits(DATA["NoInt1"], route) > 5
    assert re.fullmatch(
        r"not (positive definite|finite) at observation \d+", nist.row("Filip", route).note
    )


def test_scaling_costs_no_rounding():
    for d in DATA.values():
        X, scale = d.X.astype(float), nist.scales(d, True)
        assert np.array_equal(X / scale * scale, X) and np.all(np.abs(X / scale).max(axis=0) <= 2)
        assert np.array_equal(nist.scales(d, False), np.ones(X.shape[1]))


# --- the table ------------------------------------------------------------------------------------


def test_digits():
    assert nist.lre(1.0, "1.00000") == nist.lre(Fraction(0), "0.000") == 15
    assert abs(nist.lre(Fraction(1001, 1000), "1") - 3) < 1e-12
    assert abs(nist.lre(Fraction(1, 10**6), "0.000") - 6) < 1e-12
    assert nist.lre(float("nan"), "1") == nist.lre(float("inf"), "1") == nist.lre(-5.0, "1") == 0


def test_the_table_of_validation():
    rows = nist.table(["NoInt1", "Filip"])
    assert [(r.dataset, r.route) for r in rows] == [
        (n, route) for n in ("NoInt1", "Filip") for route in nist.ROUTES
    ]
    script = runpy.run_path(str(Path(__file__).parents[1] / "validation" / "nist.py"))
    text = reports.text(script["document"](rows)).splitlines()[-len(rows) :]
    for line, r in zip(text, rows, strict=True):
        assert (
            line.split()[0] == r.dataset
            and r.route in line
            and f"{r.coefficient:.1f}" in line
            and r.note in line
        )

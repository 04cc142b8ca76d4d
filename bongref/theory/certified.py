"""NIST's data with certified values, and how many digits of a certified value a number has.

>>> from bongref.theory.certified import DATA, lre
>>> lre(2.0743801652, DATA["NoInt1"].beta[0]) > 10
True
"""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidValue
from ..linalg import Array
from .arguments import REAL, checked, instance


class Dataset(NamedTuple):
    """Data and certified values as exact numbers, the decimals that NIST prints.

    Attributes
    ----------
    name : str
    X : ndarray of Fraction, shape (n, P)
    y : ndarray of Fraction, shape (n,)
    beta : tuple of str
        The certified coefficients, as printed.
    sd : tuple of str
        Their standard deviations.
    s : str
        The residual standard deviation.

    Examples
    --------
    >>> DATA["Longley"].X.shape
    (16, 7)
    """

    name: str
    X: Array  # (n, P) fractions
    y: Array  # (n,) fractions
    beta: tuple[str, ...]  # the certified coefficients,
    sd: tuple[str, ...]  # their standard deviations
    s: str  # and the residual standard deviation, as printed


def _fractions(words: Any) -> Array:
    numbers: Array = np.vectorize(Fraction, otypes=[object])(np.array(words))
    return numbers


def _columns(x: Array, model: dict[str, Any]) -> Array:
    """The matrix X of a model: powers of one predictor, or a constant and the predictors."""
    if "powers" in model:
        return np.concatenate([x**k for k in model["powers"]], axis=1)
    return np.concatenate([x[:, :1] ** 0, x], axis=1)


def _dataset(row: dict[str, Any]) -> Dataset:
    X = _columns(_fractions(row["x"]), row["model"])
    beta, sd = tuple(row["coefficients"]), tuple(row["standard_deviations"])
    s = row["residual_standard_deviation"]
    return Dataset(row["name"], X, _fractions(row["y"]), beta, sd, s)


def _read() -> dict[str, Dataset]:
    rows = json.loads(Path(__file__).with_name("nist.json").read_text(encoding="utf-8"))
    return {row["name"]: _dataset(row) for row in rows}


DATA: dict[str, Dataset] = _read()


@checked(got=REAL, certified=instance(str))
def lre(got: Fraction | float, certified: str) -> float:
    """Correct digits, from 0 to 15.

    −log₁₀ of the relative error; of the absolute one where the certified value is 0.

    Parameters
    ----------
    got : float or Fraction
    certified : str

    Returns
    -------
    float

    Examples
    --------
    >>> round(lre(1.001, "1"), 6), lre(2.0, "2"), lre(math.nan, "1")
    (3.0, 15.0, 0.0)
    """
    if isinstance(got, float) and not math.isfinite(got):
        return 0.0
    try:
        wanted = Fraction(certified)
    except ValueError:
        raise InvalidValue(f"certified must be a decimal number, got {certified!r}") from None
    error = abs(Fraction(got) - wanted) / (abs(wanted) or 1)
    return 15.0 if error == 0 else min(15.0, max(0.0, minus_log10(error)))


def minus_log10(x: Fraction) -> float:
    """−log₁₀ x of a fraction x > 0 of any size.

    Parameters
    ----------
    x : Fraction

    Returns
    -------
    float

    Examples
    --------
    >>> minus_log10(Fraction(1, 10**400))
    400.0
    """
    return math.log10(x.denominator) - math.log10(x.numerator)


@checked(x=REAL)
def root(x: Fraction | float) -> Fraction | float:
    """√x, of a fraction to 40 digits.

    Parameters
    ----------
    x : float or Fraction

    Returns
    -------
    float or Fraction
        NaN of a negative float.

    Examples
    --------
    >>> root(Fraction(9, 4)), root(2.25)
    (Fraction(3, 2), 1.5)
    """
    if isinstance(x, Fraction):
        c = Context(prec=40)
        return Fraction(c.sqrt(c.divide(Decimal(x.numerator), Decimal(x.denominator))))
    return math.sqrt(x) if x >= 0 else math.nan

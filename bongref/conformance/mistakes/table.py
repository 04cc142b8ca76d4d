"""What a row of a table of mistakes is, and the conditions under which it applies to a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..pipeline import RIGHT, Pieces
from ..vectors import Case

Test = Callable[[Case], bool]


def always(case: Case) -> bool:
    """True: a mistake that can be made in every case."""
    return True


class Mistake(NamedTuple):
    """One piece of the pipeline computed wrongly."""

    key: str
    text: str  # what is wrong, as the diagnosis says it
    piece: str  # a field of Pieces
    change: Callable[[Any], Any]  # the right piece -> the wrong one
    where: tuple[str, ...] = ()  # the quantities whose equations it is in
    applies: Test = always

    @property
    def pieces(self) -> Pieces:
        """The pipeline with this mistake in it."""
        return RIGHT._replace(**{self.piece: self.change(getattr(RIGHT, self.piece))})


class Scaled(NamedTuple):
    """A mistake with a number c in it; with ``neutral`` in its place the piece is right."""

    key: str
    text: str  # with {c}
    piece: str
    change: Callable[[float], Callable[[Any], Any]]  # c -> the change of a Mistake
    neutral: float
    where: tuple[str, ...] = ()
    applies: Test = always

    def at(self, c: float) -> Mistake:
        """The mistake with this number."""
        key = f"{self.key}={c:.3g}"
        return Mistake(key, self.text, self.piece, self.change(c), self.where, self.applies)


class Row(Protocol):
    """Constructor of the mistakes of one piece, in the order in which the tables read."""

    def __call__(
        self,
        key: str,
        text: str,
        where: tuple[str, ...],
        change: Callable[[Any], Any],
        applies: Test = always,
    ) -> Mistake: ...


def row_of(piece: str) -> Row:
    """The constructor of the mistakes in a piece."""

    def row(
        key: str,
        text: str,
        where: tuple[str, ...],
        change: Callable[[Any], Any],
        applies: Test = always,
    ) -> Mistake:
        return Mistake(key, text, piece, change, where, applies)

    return row


# --- the quantities that a mistake may be in ------------------------------------------------------

MU = ("mu",)
COV = ("Sigma", "var", "Ups", "W W^T")
ALL = (*MU, *COV)
GRADIENT, HESSIAN = ("g",), ("G",)
BOTH = ("g", "G", "diag G")


# --- conditions -----------------------------------------------------------------------------------


def in_rules(*rules: str) -> Test:
    """Cases of a method with one of these rules."""
    return lambda case: case.rule in rules


def in_families(*families: str) -> Test:
    """Cases in one of these families."""
    return lambda case: case.family in families


def with_hess(*names: str) -> Test:
    """Cases with one of these estimators."""
    return lambda case: case.hess in names


def with_likelihood(*kinds: str) -> Test:
    """Cases with one of these likelihoods."""
    return lambda case: case.likelihood in kinds


def with_activation(*names: str) -> Test:
    """Cases of a network with one of these activations."""
    return lambda case: networked(case) and case.input["model"]["activation"] in names


def of_kind(*kinds: str) -> Test:
    """Cases of a predictive distribution of one of these kinds."""
    return lambda case: case.subject.get("kind") in kinds


def both(*tests: Test) -> Test:
    """Cases that pass every test."""
    return lambda case: all(test(case) for test in tests)


def other_rule(name: str) -> Test:
    """Cases of a method with another rule than this one."""
    return lambda case: case.rule not in (name, "")


def other_hess(name: str) -> Test:
    """Cases with another estimator, and with samples where this one needs them."""
    linear = name.startswith("lin")
    return lambda case: case.hess != name and (linear or case.hess.startswith("mc"))


def other_activation(name: str) -> Test:
    """Cases of a network with another activation."""
    return lambda case: networked(case) and case.input["model"]["activation"] != name


def networked(case: Case) -> bool:
    """Whether the model is a network."""
    return "model" in case.input and case.input["model"]["kind"] != "linear"


def convolved(case: Case) -> bool:
    """Whether the model is a convolutional network."""
    return networked(case) and case.input["model"]["kind"] == "cnn"


def biased(case: Case) -> bool:
    """Whether the model has a bias."""
    return "model" in case.input and bool(case.input["model"]["bias"])


ITERATED, WITH_ALPHA = in_rules("blr", "bbb"), in_rules("blr", "bbb", "bog")
FULL, DIAG, LOW = in_families("fc", "fc_mom"), in_families("diag", "diag_mom"), in_families("dlr")
NOT_LOW = in_families("fc", "fc_mom", "diag", "diag_mom")
MC, LIN = with_hess("mc-hess", "mc-ef"), with_hess("lin-hess", "lin-ef")
EF, HESS = with_hess("mc-ef", "lin-ef"), with_hess("mc-hess", "lin-hess")
GAUSSIAN, LABELS = with_likelihood("gaussian"), with_likelihood("bernoulli")
CLASSES, COUNTS = with_likelihood("categorical"), with_likelihood("poisson")
NOT_GAUSSIAN = with_likelihood("bernoulli", "categorical", "poisson")

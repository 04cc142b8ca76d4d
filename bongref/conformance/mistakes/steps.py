"""Mistakes in a step: wrong arguments, another rule or family, a wrong form of what is returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...curvature import Curv, dense
from ...grid import MODULES
from ...linalg import Array, cholesky, finite, inv
from ...states import DLR, FC, Diag, State
from .. import pipeline
from ..pipeline import Values
from ..vectors import Case
from .combinators import (
    SPREAD,
    Step,
    StepChange,
    as_method,
    columns,
    covariance,
    diagonal_part,
    inverse,
    on_alpha,
    on_curv,
    on_spread,
    on_states,
    square,
    start,
    times_G,
    times_g,
    with_fields,
    with_G,
)
from .table import (
    ALL,
    COV,
    DIAG,
    FULL,
    HESSIAN,
    ITERATED,
    LOW,
    MU,
    NOT_LOW,
    WITH_ALPHA,
    Mistake,
    both,
    in_families,
    other_rule,
    row_of,
)

step, output = row_of("step"), row_of("output")


def on_both(change: Callable[[State], State]) -> StepChange:
    """The step with the prior and the iterate changed in the same way."""
    return on_states(lambda prior, current: (change(prior), change(current)))


def with_spread(change: Callable[[Array], Array]) -> StepChange:
    """The step with another Σ, σ² or Υ of the prior and the iterate."""
    return on_both(lambda q: on_spread(q, change))


def without_W(q: State) -> State:
    """A DLR state with W = 0."""
    return q._replace(W=0 * q.W) if isinstance(q, DLR) else q


def clipped(c: float) -> Callable[[Curv], Curv]:
    """The entries of g clipped to [−c, c]."""
    return lambda curv: curv._replace(g=np.clip(curv.g, -c, c))


def clipped_norm(c: float) -> Callable[[Curv], Curv]:
    """g scaled down to the norm c where it is longer."""
    return lambda curv: curv._replace(
        g=curv.g * min(1, c / max(float(np.linalg.norm(curv.g)), 1e-300))
    )


def times_Sigma(g: bool, G: bool, power: int = 1) -> StepChange:
    """Σg in place of g and ΣGΣ in place of G, Σ that of the state from which the step moves.

    With ``power = -1`` the inverse of Σ.
    """

    def wrong(step: Step) -> Step:
        def fn(name: str, prior: State, current: State, curv: Curv, alpha: Any) -> State:
            Sigma = covariance(start(name, prior, current))
            Sigma = Sigma if power == 1 else finite(inv(Sigma))
            new_G = Sigma @ dense(curv) @ Sigma if G else dense(curv)
            new = Curv(Sigma @ curv.g if g else curv.g, G=new_G)
            return step(name, prior, current, new, alpha)

        return fn

    return wrong


# fmt: off
ARGUMENTS: tuple[Mistake, ...] = (
    step("G-sign", "the sign of G", COV, on_curv(times_G(-1))),
    step("G-doubled", "2 G in place of G", COV, on_curv(times_G(2))),
    step("G-halved", "G/2 in place of G", COV, on_curv(times_G(0.5))),
    step("G-missing", "no G", COV, on_curv(times_G(0))),
    step("g-sign", "the sign of g", MU, on_curv(times_g(-1))),
    step("g-doubled", "2 g in place of g", MU, on_curv(times_g(2))),
    step("g-halved", "g/2 in place of g", MU, on_curv(times_g(0.5))),
    step("g-missing", "no g", MU, on_curv(times_g(0))),
    step("gG-sign", "the signs of g and G (those of the negative log-likelihood)",
        ALL, on_curv(lambda c: Curv(-c.g, G=-dense(c)))),
    step("G-diagonal", "the diagonal of G alone in place of G",
        COV, on_curv(lambda c: with_G(c, np.diag(np.diag(dense(c)))))),
    step("G-absolute", "-|diag G| in place of diag G",
        COV, on_curv(lambda c: with_G(c, -np.diag(np.abs(np.diag(dense(c)))))), DIAG),
    step("G-clipped", "the positive entries of diag G set to 0",
        COV, on_curv(lambda c: with_G(c, np.diag(np.minimum(np.diag(dense(c)), 0)))), DIAG),
    step("G-outer", "-g g^T in place of G (the empirical Fisher of the mean gradient)",
        COV, on_curv(lambda c: with_G(c, -np.outer(c.g, c.g)))),
    step("G-outer-positive", "+g g^T in place of G",
        COV, on_curv(lambda c: with_G(c, np.outer(c.g, c.g)))),
    step("G-square-of-sum",
        "the square of the sum of the columns of S in place of S S^T (the sum of their squares)",
        COV, on_curv(lambda c: Curv(c.g, S=columns(c).sum(axis=1)[:, None]))),
    step("G-times-K", "S S^T times its number of columns",
        COV, on_curv(lambda c: times_G(columns(c).shape[1])(c))),
    step("G-over-K", "S S^T over its number of columns",
        COV, on_curv(lambda c: times_G(1 / columns(c).shape[1])(c))),
    step("G-first-column", "the first column of S alone",
        COV, on_curv(lambda c: Curv(c.g, S=columns(c)[:, :1]))),
    step("natural-g", "Sigma g in place of g (the natural gradient where the plain one belongs)",
        MU, times_Sigma(True, False)),
    step("natural-G",
        "Sigma G Sigma in place of G (the natural gradient where the plain one belongs)",
        COV, times_Sigma(False, True)),
    step("natural-gG", "Sigma g and Sigma G Sigma in place of g and G (the natural gradient)",
        ALL, times_Sigma(True, True)),
    step("plain-g", "Sigma^-1 g in place of g (a Sigma left out before g)",
        MU, times_Sigma(True, False, -1)),
    step("plain-gG", "g and G without the Sigma around them", ALL, times_Sigma(True, True, -1)),
    *(
        step(f"g-clip-{c}", f"the entries of g clipped to [-{c}, {c}]",
            MU, on_curv(clipped(c)))
        for c in (0.1, 0.5, 1)
    ),
    *(
        step(f"g-norm-{c}", f"g clipped to the norm {c}", MU, on_curv(clipped_norm(c)))
        for c in (0.1, 0.5, 1)
    ),
    step("g-normalised", "g over its norm",
        MU, on_curv(lambda v: v._replace(g=v.g / np.linalg.norm(v.g)))),
    step("g-absolute", "|g| in place of g", MU, on_curv(lambda v: v._replace(g=np.abs(v.g)))),
    step("alpha-one", "alpha left out (alpha = 1)", ALL, on_alpha(lambda a: 1.0), WITH_ALPHA),
    step("alpha-squared", "alpha^2 in place of alpha", ALL, on_alpha(lambda a: a**2), WITH_ALPHA),
    step("alpha-complement", "1 - alpha in place of alpha",
        ALL, on_alpha(lambda a: 1 - a), WITH_ALPHA),
    step("alpha-root", "sqrt(alpha) in place of alpha", ALL, on_alpha(np.sqrt), WITH_ALPHA),
    step("alpha-halved", "alpha/2 in place of alpha", ALL, on_alpha(lambda a: a / 2), WITH_ALPHA),
    step("alpha-doubled", "2 alpha in place of alpha", ALL, on_alpha(lambda a: 2 * a), WITH_ALPHA),
    step("KL-missing",
        "the KL term left out (the prior's mean and covariance taken to be the iterate's)",
        ALL, on_states(lambda p, q: (q, q)), ITERATED),
    step("KL-mean-missing", "the KL term left out of the mean (no prior.mu - current.mu)",
        MU, on_states(lambda p, q: (p._replace(mu=q.mu), q)), ITERATED),
    step("KL-covariance-missing",
        "the KL term left out of the covariance (the prior's covariance taken to be the "
        "iterate's)",
        ALL, on_states(lambda p, q: (with_fields(p, q, *SPREAD), q)), ITERATED),
    step("current-is-prior", "the prior in place of the iterate",
        ALL, on_states(lambda p, q: (p, p)), ITERATED),
    step("covariance-of-prior", "the covariance of the prior in place of the iterate's",
        ALL, on_states(lambda p, q: (p, with_fields(q, p, *SPREAD))), ITERATED),
    step("mean-of-prior", "the mean of the prior in place of the iterate's",
        ALL, on_states(lambda p, q: (p, q._replace(mu=p.mu))), ITERATED),
    step("swapped", "the prior and the iterate exchanged",
        ALL, on_states(lambda p, q: (q, p)), ITERATED),
    step("W-of-prior", "the W of the prior in place of the iterate's",
        ALL, on_states(lambda p, q: (p, with_fields(q, p, "W"))), both(ITERATED, LOW)),
    step("W-of-current", "the W of the iterate in place of the prior's",
        ALL, on_states(lambda p, q: (with_fields(p, q, "W"), q)), both(ITERATED, LOW)),
    step("Ups-of-prior", "the Ups of the prior in place of the iterate's",
        ALL, on_states(lambda p, q: (p, with_fields(q, p, "Ups"))), both(ITERATED, LOW)),
    step("Ups-of-current", "the Ups of the iterate in place of the prior's",
        ALL, on_states(lambda p, q: (with_fields(p, q, "Ups"), q)), both(ITERATED, LOW)),
    step("std-in", "standard deviations read where variances are given",
        COV, with_spread(square), DIAG),
    step("std-taken", "the standard deviation in place of the variance throughout",
        COV, with_spread(np.sqrt), DIAG),
    step("precision-in", "the covariance read as a precision",
        COV, with_spread(inverse), NOT_LOW),
    step("Ups-inverted", "Ups read as a variance (1/Ups in its place)",
        COV, with_spread(inverse), LOW),
    step("W-ignored", "W left out (taken as 0)",
        ALL, on_both(without_W), LOW),
    step("diagonal-in", "the diagonal of the covariance alone",
        COV, with_spread(diagonal_part), FULL),
)
# fmt: on


# --- another rule, another family -----------------------------------------------------------------


def other_family(name: str) -> str:
    """The method in moment parameters for one in natural parameters, and the other way round."""
    head, _, last = name.rpartition("-")
    natural = not last.endswith("_mom")
    return f"{head}-{last}_mom" if natural else f"{head}-{last.removesuffix('_mom')}"


def with_rule(rule: str) -> Callable[[str], str]:
    """The method with another rule."""
    return lambda name: "-".join([rule, *name.split("-")[1:]])


def full_gain(mean: bool, variance: bool) -> Callable[[Step], Callable[..., State]]:
    """A diagonal family's mean or variances from the full-covariance update from the same state."""

    def fn(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
        rule, *_, family = name.split("-")
        right: Any = pipeline.step(name, prior, current, curv, alpha)
        whole = [FC(q.mu, np.diag(q.var)) for q in (prior, current)]
        full = getattr(MODULES[family.replace("diag", "fc")], rule)(*whole, curv, alpha)
        return Diag(full.mu if mean else right.mu, np.diag(full.Sigma) if variance else right.var)

    return lambda step: fn


# fmt: off
OTHER_METHODS: tuple[Mistake, ...] = (
    step("moments-for-natural",
        "the update in moment parameters (the _mom family) in place of the one in natural "
        "parameters",
        ALL, as_method(other_family), in_families("fc", "diag")),
    step("natural-for-moments",
        "the update in natural parameters in place of the one in moment parameters (the _mom "
        "family)",
        ALL, as_method(other_family), in_families("fc_mom", "diag_mom")),
    *(
        step(f"rule-{new}", f"the update of {new}",
            ALL, as_method(with_rule(new)), other_rule(new))
        for new in ("bong", "blr", "bog", "bbb")
    ),
    step("full-gain",
        "the full gain in a diagonal family (the diagonal of the full-covariance posterior, with "
        "the off-diagonal entries of G)",
        ALL, full_gain(True, True), DIAG),
    step("full-gain-mean",
        "the full gain in the mean of a diagonal family (the off-diagonal entries of G)",
        MU, full_gain(True, False), DIAG),
    step("full-gain-variance",
        "the full gain in the variances of a diagonal family (the off-diagonal entries of G)",
        ("var",), full_gain(False, True), DIAG),
)
# fmt: on


# --- what is returned -----------------------------------------------------------------------------


def returned(fields: tuple[str, ...], change: Callable[[Array], Array]) -> Callable[[Any], Any]:
    """These quantities changed before they are returned."""

    def fn(case: Case, values: Values) -> Values:
        return {k: change(v) if k in fields else v for k, v in values.items()}

    return lambda output: fn


def root(a: Array) -> Array:
    """Cholesky factor; of a vector the square root."""
    return cholesky(a) if a.ndim == 2 else np.sqrt(a)


# fmt: off
OUTPUTS: tuple[Mistake, ...] = (
    output("returns-precision", "the precision returned in place of the covariance",
        COV, returned(("Sigma", "var"), inverse)),
    output("returns-std", "the standard deviation returned in place of the variance",
        COV, returned(("var",), np.sqrt), DIAG),
    output("returns-cholesky", "the Cholesky factor returned in place of Sigma",
        COV, returned(("Sigma",), root), FULL),
    output("returns-diagonal", "the diagonal of Sigma alone",
        COV, returned(("Sigma",), diagonal_part), FULL),
    output("returns-Ups-variance", "1/Ups returned in place of Ups",
        ("Ups",), returned(("Ups",), inverse), LOW),
    output("returns-Ups-root", "sqrt(Ups) returned in place of Ups",
        ("Ups",), returned(("Ups",), np.sqrt), LOW),
    output("returns-Ups-square", "Ups^2 returned in place of Ups",
        ("Ups",), returned(("Ups",), square), LOW),
    output("returns-G-sign", "-G returned in place of G",
        HESSIAN, returned(("G", "diag G"), np.negative)),
)
# fmt: on

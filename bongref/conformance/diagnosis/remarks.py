"""What the wrong numbers show by themselves: a factor, a term, an order, a bound, a precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...linalg import Array, eigvalsh, finite, inv, solve, sym
from .. import vectors
from ..mistakes.combinators import covariance
from ..vectors import Case
from .matching import LOOSE, Target, far, near, nice, number, symbols


def remarks(case: Case, wanted: Sequence[Target], dtype: str) -> list[str]:
    """Observations on the numbers that were returned."""
    wrong = [t for t in wanted if t.wrong and np.all(np.isfinite(t.got))]
    if dtype == "float64" and _single_precision(case, wanted, wrong):
        return ["agrees to float32 only: a float32 somewhere in the computation"]
    out = []
    for t in wrong[:2]:
        out += _factor(case, t) + _term(case, t)
        for look in (_function, _clipped, _eigenvalues, _order, _triangle):
            out += look(t)
    for t in wrong[:1]:
        out += _arrays(case, t)
    return out + (_where(case, wanted) if wrong else [])


def _single_precision(case: Case, wanted: Sequence[Target], wrong: Sequence[Target]) -> bool:
    """Whether everything agrees to float32 and something to no more."""
    single = {q.name: q.tolerance["float32"] or 0.0 for q in case.expected}
    agrees = all(t.gap <= single.get(t.name, 0.0) / 4 for t in wanted)
    return agrees and any(t.gap > 1e-9 for t in wrong)


# --- a factor, a term -----------------------------------------------------------------------------


def _factor(case: Case, t: Target) -> list[str]:
    """The change of a quantity as a multiple of what it should be."""
    short, base = t.name.split(".")[-1], np.asarray(0.0)
    if case.level in ("step", "update") and short in ("mu", "Sigma", "var", "Ups"):
        moves = case.level == "step" and case.rule in ("blr", "bbb")
        base = case.input["current" if moves else "prior"][short]
    moved, wanted = t.got - base, t.right - base
    square = float(np.sum(wanted * wanted))
    if square == 0 or not np.all(np.isfinite(moved)):
        return []
    c = float(np.sum(moved * wanted)) / square
    bound = LOOSE * t.tolerance * max(1.0, abs(c)) * t.scale
    if np.max(np.abs(moved - c * wanted)) > bound or abs(c - 1) < 1e-3:
        return []
    what = f"the change of {t.name}" if np.ndim(base) else t.name
    return [f"{what} is {_named(case, c)} times what it should be"] if c else [f"{what} is 0"]


def _term(case: Case, t: Target) -> list[str]:
    """A quantity of a step, or its inverse, that is off by a multiple of a term."""
    enough_digits = t.gap > 1e6 * t.tolerance
    if case.level != "step" or not enough_digits or t.name not in ("mu", "Sigma", "var"):
        return []
    terms = _vectors(case) if t.name == "mu" else _matrices(case, diagonal=t.name == "var")
    if found := _multiple(case, t.got - t.right, terms):
        return [f"{t.name} is off by {found}"]
    if t.name == "mu":
        return []
    got, right = (
        1 / a if a.ndim == 1 else finite(solve(a, np.eye(len(a)))) for a in (t.got, t.right)
    )
    found = _multiple(case, got - right, terms)
    return [f"the precision is off by {found}"] if found else []


def _states(case: Case) -> tuple[Any, Array, Array, Any, Array, Array]:
    """Prior and iterate of a step, each with its covariance and precision."""
    prior, current = (vectors.state(case.family, case.input[k]) for k in ("prior", "current"))
    S0, S = covariance(prior), covariance(current)
    return prior, S0, finite(inv(S0)), current, S, finite(inv(S))


def _vectors(case: Case) -> dict[str, Array]:
    """What the mean of a step is made of."""
    prior, S0, P0, current, S, P = _states(case)
    g, mu, delta = case.input["curv"]["g"], current.mu, prior.mu - current.mu
    out = {"g": g, "Sigma g": S @ g, "mu": mu, "Sigma mu": S @ mu, "Sigma^-1 mu": P @ mu}
    if case.rule in ("blr", "bbb"):
        out |= {
            "the prior's mu": prior.mu,
            "mu0 - mu": delta,
            "Sigma0^-1 (mu0 - mu)": P0 @ delta,
            "Sigma0 g": S0 @ g,
            "Sigma Sigma0^-1 (mu0 - mu)": S @ P0 @ delta,
            "g and Sigma0^-1 (mu0 - mu) together": g + P0 @ delta,
        }
    return out


def _matrices(case: Case, diagonal: bool) -> dict[str, Array]:
    """What the covariance of a step is made of, or the diagonals of these."""
    prior, S0, P0, current, S, P = _states(case)
    g, G, mu = case.input["curv"]["g"], case.input["curv"]["G"], current.mu
    out = {
        "I": np.eye(len(g)),
        "G": G,
        "Sigma G Sigma": S @ G @ S,
        "Sigma": S,
        "Sigma^-1": P,
        "Sigma^2": S @ S,
        "g g^T": np.outer(g, g),
        "Sigma g mu^T, symmetric,": sym(np.outer(S @ g, mu)),
        "g mu^T, symmetric,": sym(np.outer(g, mu)),
    }
    if case.rule in ("blr", "bbb"):
        moved = np.outer(S @ P0 @ (prior.mu - mu), mu)
        out |= {
            "the prior's Sigma": S0,
            "the prior's Sigma^-1": P0,
            "Sigma0^-1 - Sigma^-1": P0 - P,
            "Sigma Sigma0^-1 Sigma": S @ P0 @ S,
            "Sigma Sigma0^-1 (mu0 - mu) mu^T, symmetric,": sym(moved),
        }
    return {k: np.diag(v) for k, v in out.items()} if diagonal else out


def _multiple(case: Case, off: Array, terms: dict[str, Array]) -> str:
    """The term that this is a multiple of, and which multiple."""
    size = float(np.max(np.abs(off), initial=0))
    if np.count_nonzero(np.abs(off) > 1e-3 * size) < 3 or not np.isfinite(size):
        return ""
    for name, term in terms.items():
        square = float(np.sum(term * term))
        c = float(np.sum(off * term)) / square if square else 0.0
        if c and np.max(np.abs(off - c * term)) <= 1e-6 * size:
            return f"{_named(case, c)} {name}".rstrip(",").replace("1 I", "I")
    return ""


def _named(case: Case, c: float) -> str:
    """A number, by the name of the symbol with this value where it is no simple fraction."""
    short = nice(c)
    simple = Fraction(short).limit_denominator(8)
    if float(simple) == short and abs(short) <= 8:
        return number(short)
    for name, value in symbols(case).items():
        for sign, minus in ((1, ""), (-1, "-")):
            if abs(c - sign * value) <= 1e-5 * abs(value):
                return f"{minus}({name})" if " " in name or minus else name
    return number(short)


# --- a function, a bound, an order ----------------------------------------------------------------

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "the absolute value of": np.abs,
    "the square of": np.square,
    "the square root of": lambda a: np.sqrt(np.maximum(a, 0)),
    "the inverse of": lambda a: 1 / a,
    "the logarithm of": lambda a: np.log(np.maximum(a, 1e-300)),
    "the exponential of": np.exp,
}


def _function(t: Target) -> list[str]:
    """A simple function of what is right."""
    square = t.right.ndim == 2 and t.right.shape[0] == t.right.shape[1]
    forms = dict(FUNCTIONS)
    if square:
        forms["the transpose of"] = lambda a: a.T
    with np.errstate(all="ignore"):
        values = {words: fn(t.right) for words, fn in forms.items() if t.right.size > 1}
        found = [words for words, value in values.items() if near(value, t) and far(value, t)]
    return [f"{t.name} is {words} what it should be" for words in found[:1]]


def _clipped(t: Target) -> list[str]:
    """Entries that are wrong and all the same: a bound."""
    off = np.abs(t.got - t.right) > t.tolerance * t.scale
    values, right = t.got[off], t.right[off]
    if t.got.size < 3 or np.all(off):
        return []
    size = np.abs(values)
    if np.max(size) - np.min(size) > 1e-12 * np.max(size):
        return []
    wrong = f"the wrong entries of {t.name}"
    if np.max(size) == 0:
        return [f"{wrong} are 0"] if len(values) > 1 else []
    if np.all(np.abs(right) > size) and np.all(np.sign(right) == np.sign(values)):
        return [f"{wrong} have the size {size[0]:.3g}, where they should be larger: clipped?"]
    if np.all(right < values) and np.all(values == values[0]):
        return [f"{wrong} are {values[0]:.3g}, where they should be smaller: a lower bound?"]
    return []


def _eigenvalues(t: Target) -> list[str]:
    """A symmetric matrix with a bound on its eigenvalues."""
    if t.name != "Sigma" or not np.allclose(t.got, t.got.T):
        return []
    if not np.allclose(t.got @ t.right, t.right @ t.got):
        return []
    got, right = eigvalsh(t.got), eigvalsh(t.right)
    off = np.abs(got - right) > 64 * t.tolerance * t.scale
    same = np.any(off) and np.ptp(got[off]) <= 1e-9 * np.max(np.abs(got))
    if same and not np.all(off):
        return [f"the wrong eigenvalues of {t.name} are all {got[off][0]:.3g}: a bound on them?"]
    return []


def _order(t: Target) -> list[str]:
    """The right entries in another order."""
    if t.got.ndim != 1 or len(t.got) < 3 or not np.all(np.isfinite(t.got)):
        return []
    bound, a, b = LOOSE * t.tolerance * t.scale, np.sort(t.got), np.sort(t.right)
    if np.max(np.abs(a - b)) <= bound < np.max(np.abs(t.got - t.right)):
        return [
            f"{t.name} has the right entries in another order: is theta laid out as the model says?"
        ]
    return []


def _triangle(t: Target) -> list[str]:
    """A matrix that is right on its diagonal, off it, or in one triangle alone."""
    if t.got.ndim != 2 or t.got.shape[0] != t.got.shape[1] or len(t.got) < 2:
        return []
    if not np.all(np.isfinite(t.got)):
        return []
    gap, bound = np.abs(t.got - t.right), t.tolerance * t.scale
    if np.max(np.diag(gap)) <= bound:
        return [f"{t.name} is right on its diagonal and wrong off it"]
    if np.max(gap - np.diag(np.diag(gap))) <= bound:
        return [f"{t.name} is right off its diagonal and wrong on it"]
    if np.max(np.tril(gap)) <= bound or np.max(np.triu(gap)) <= bound:
        return [f"one triangle of {t.name} is right"]
    return []


# --- where ----------------------------------------------------------------------------------------


def _arrays(case: Case, t: Target) -> list[str]:
    """The arrays of theta in which a gradient is right."""
    if case.level != "estimate" or t.name != "g" or len(case.input["model"]["layout"]) < 2:
        return []
    off = np.abs(t.got - t.right) > t.tolerance * t.scale
    spans = {b["name"]: slice(b["start"], b["stop"]) for b in case.input["model"]["layout"]}
    wrong = [name for name, span in spans.items() if np.any(off[span])]
    right = [n for n, span in spans.items() if n not in wrong and np.any(t.right[span])]
    if not wrong or not right:
        return []
    return [f"g is right in {' and '.join(right)} and wrong in {' and '.join(wrong)}"]


def _where(case: Case, wanted: Sequence[Target]) -> list[str]:
    """Which quantities are right, and from which step of a stream on they are not."""
    right, wrong = ([t.name for t in wanted if t.wrong is bad] for bad in (False, True))
    if case.level == "stream":
        return _first_step(case, right, wrong)
    are = "is" if len(right) == 1 else "are"
    said = f"{' and '.join(right)} {are} right, {wrong[0]} is the first to differ"
    return [said] if right else []


def _first_step(case: Case, right: Sequence[str], wrong: Sequence[str]) -> list[str]:
    first = int(wrong[0].split("[")[1].split("]")[0])
    if first == 1 or not any(name.startswith(f"state[{first - 1}]") for name in right):
        return []
    missing = [t for t, y in enumerate(case.input["Y"][:first], start=1) if y is None]
    if first in missing:
        said = ", at which the observation is missing"
    else:
        said = ", after a missing observation" if missing else ""
    return [
        f"the states before step {first} are right{said}: what is different from step {first} on?"
    ]

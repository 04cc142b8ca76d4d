"""Naming a mistake: which wrong form of the equations returns what an implementation returned.

Three searches, each over forms that are run on the inputs of the failed case: the mistakes by name, those with a number in them, which is
found by the search, and every single edit of the displayed equations. A form counts as found where it gives all that was returned, within
the tolerance, and differs clearly from what is right. Where nothing gives all of it, what gives the first wrong quantity is named.
"""

from __future__ import annotations

import re
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..linalg import Array
from . import mistakes, pipeline, vectors
from .mistakes import Mistake, Scaled
from .pipeline import RIGHT, Values, stages
from .vectors import Case, Quantity

LOOSE = 16.0  # a wrong form may be worse conditioned than the right one: this many tolerances
CLEAR = 64.0  # and must differ from the right one by more than this many
SHOWN = 3
PART = " :: "  # in the key of a match of some quantities, before the key of the mistake
SECONDS = {"step": 4.0, "estimate": 8.0, "update": 8.0, "stream": 8.0, "predict": 4.0, "predictive": 8.0}  # a stop, hardly ever reached
# cases of one subject that may remain unexplained before the search is given up
PATIENCE = {"step": 4, "estimate": 4, "update": 2, "stream": 2, "predict": 4, "predictive": 2}
# unexplained cases of one level: from the first number on only mistakes by name are tried, from the second on none
TIRED = {"step": 48, "estimate": 24, "update": 12, "stream": 12, "predict": 24, "predictive": 12}
EXHAUSTED = {"step": 120, "estimate": 60, "update": 24, "stream": 24, "predict": 60, "predictive": 24}
GIVEN_UP = "no further mistakes were tried, since too many cases remained unexplained; --methods and --levels narrow the search"


class Match(NamedTuple):
    """A mistake that gives what was returned: the same key in every case that it explains."""

    key: str
    text: str  # without the equation
    sentence: str


class Sentences(tuple):
    """What is shown of a diagnosis; ``matches`` is all of it."""

    matches: tuple[Match, ...]

    def __new__(cls, matches: Sequence[Match] = (), more: Sequence[str] = ()) -> Sentences:
        made = super().__new__(cls, [*(m.sentence for m in matches), *more][:SHOWN])
        made.matches = tuple(matches)
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.matches, ())


class Memory:
    """What has been seen of one adapter: the mistakes found so far and how many cases of each subject remain unexplained."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self.mistakes: dict[str, Mistake] = {}
        self.unexplained: Counter[tuple[str, ...]] = Counter()


_MEMORIES: weakref.WeakKeyDictionary[Any, Memory] = weakref.WeakKeyDictionary()


def memory_of(adapter: Any) -> Memory:
    try:
        return _MEMORIES.setdefault(adapter, Memory())
    except TypeError:  # an adapter that cannot be referred to weakly
        return Memory()


# --- comparing with a wrong form -------------------------------------------------------------------------------------------------


class Target(NamedTuple):
    """What was returned of a quantity, beside the right value."""

    name: str
    got: Array
    right: Array
    scale: float
    tolerance: float
    wrong: bool


def targets(case: Case, values: Values, dtype: str) -> list[Target]:
    """The quantities that were returned with a comparable shape."""
    out = []
    for q in case.expected:
        tolerance = q.tolerance[dtype]
        if q.name in values and tolerance is not None and np.shape(values[q.name]) == q.value.shape and q.name in _computed(case, q):
            gap = float(np.max(np.abs(values[q.name] - q.value), initial=0)) / q.scale
            out.append(Target(q.name, values[q.name], q.value, q.scale, tolerance, not gap <= tolerance))
    return out


def _computed(case: Case, q: Quantity) -> tuple[str, ...]:
    """The intermediates of an update are not computed by the pipeline."""
    skipped = case.level in ("update", "stream") and q.role == "intermediate"
    return () if skipped else (q.name,)


def near(candidate: Array, target: Target) -> bool:
    """Whether a wrong form gives what was returned."""
    if np.shape(candidate) != target.got.shape or not np.all(np.isfinite(candidate)):
        return False
    scale = max(target.scale, float(np.max(np.abs(candidate), initial=0)))
    return bool(np.max(np.abs(candidate - target.got), initial=0) <= LOOSE * target.tolerance * scale)


def far(candidate: Array, target: Target) -> bool:
    """Whether a wrong form can be told from the right one."""
    return bool(np.max(np.abs(candidate - target.right), initial=0) > CLEAR * target.tolerance * target.scale)


def reproduces(mistake: Mistake, case: Case, wanted: Sequence[Target], names: Sequence[str] | None = None) -> bool:
    """Whether a mistake gives all that was returned (of these names), and not what is right."""
    todo = {t.name: t for t in wanted if names is None or t.name in names}
    differs = False
    try:
        if _costly(case) and mistake.piece in ("estimate", "job") and "g" in todo:
            g = _gradient(mistake, case)
            if not near(g, todo["g"]):
                return False
            if len(todo) == 1:
                return todo["g"].wrong and far(g, todo["g"])
        for stage in stages(mistake.pieces, case):
            for name, value in stage.items():
                target = todo.pop(name, None)
                if target is None:
                    continue
                if not near(np.asarray(value, dtype=float), target):
                    return False
                differs |= target.wrong and far(np.asarray(value), target)
            if not todo:
                return differs
    except Exception:
        return False
    return differs and not todo


def _costly(case: Case) -> bool:
    """Whether G needs second derivatives and g does not."""
    return case.subject.get("hess") == "mc-hess"


def _gradient(mistake: Mistake, case: Case) -> Array:
    """g alone, which is that of mc-ef."""
    given, pieces = case.input, mistake.pieces
    return pieces.estimate("mc-ef", pieces.seen(given, given["x"], given["y"]), given["theta"], given["samples"]).g


# --- a number in the mistake -----------------------------------------------------------------------------------------------------


def search(scaled: Scaled, case: Case, wanted: Sequence[Target]) -> list[Mistake]:
    """A scaled mistake with the number with which it gives what was returned, and with what that number may stand for.

    Newton steps from a few starts.
    """
    starts: tuple[float, ...] = (1e-6, 1e-3, 1e-1) if scaled.neutral == 0 else (2.0, 0.5, -1.0)
    shown, g_alone = list(wanted), False
    if _costly(case) and wanted[0].name == "g":  # from g, or where that is right only what leaves it so
        g_alone = wanted[0].wrong
        shown = list(wanted[:1]) if g_alone else shown
        if not g_alone and not near(_gradient(scaled.at(starts[1]), case), wanted[0]):
            return []

    def residual(c: float) -> Array | None:
        try:
            out: Values = {"g": _gradient(scaled.at(c), case)} if g_alone else pipeline.values(scaled.at(c).pieces, case)
            found = np.concatenate([(np.asarray(out[t.name], dtype=float) - t.got).ravel() / (t.scale * t.tolerance) for t in shown])
        except Exception:
            return None
        return found if np.all(np.isfinite(found)) else None

    at_rest = residual(scaled.neutral)
    if at_rest is None:
        starts = (1e-3,)
    for begin in starts:
        here = _newton(residual, scaled.neutral, begin, at_rest)
        if here is not None:
            for c in (_nice(here), here):
                mistake = scaled.at(c)
                if c != scaled.neutral and (c > 0 or scaled.neutral) and reproduces(mistake, case, wanted):
                    names = [_number(c), *(n for n, value in symbols(case).items() if abs(c - value) <= 1e-6 * abs(value))]
                    return [mistake._replace(key=f"{scaled.key}={n}", text=scaled.text.replace("{c}", n)) for n in names]
    return []


def _newton(residual: Any, neutral: float, begin: float, at_rest: Array | None) -> float | None:
    """The c at which the residual vanishes, by the secant of its projections."""
    a, ra = (neutral, at_rest) if at_rest is not None else (begin / 2, residual(begin / 2))
    b, rb = begin, residual(begin)
    for _ in range(14):
        if ra is None or rb is None or b == a:
            return None
        slope = (rb - ra) / (b - a)
        square = float(slope @ slope)
        if not np.isfinite(square) or square == 0:
            return None
        c = b - float(slope @ rb) / square
        if abs(c - b) <= 1e-13 * abs(b):
            return c
        a, ra = b, rb
        b, rb = c, residual(c)
        if rb is not None and float(np.max(np.abs(rb))) < 1:
            return b
    return b if rb is not None and float(np.max(np.abs(rb))) < LOOSE else None


def symbols(case: Case) -> dict[str, float]:
    """The numbers of a case by which something may have been multiplied by mistake."""
    given, out = case.input, dict[str, float]()
    params, samples = given.get("params", {}), given.get("samples")
    if "alpha" in params:
        a = float(params["alpha"])
        out |= {"alpha": a, "1 - alpha": 1 - a, "1 + alpha": 1 + a, "alpha^2": a * a, "2 alpha": 2 * a, "alpha/2": a / 2}
        out |= {"1/alpha": 1 / a, "sqrt(alpha)": a**0.5} if a > 0 else {}
    sizes = {"P": np.size(given.get("theta", given.get("prior", {}).get("mu", ())))}
    if samples is not None:
        sizes["M"] = np.shape(samples)[-2]
    if "model" in given:
        sizes["C"] = int(given["model"]["n_outputs"])
        if "x" in given and pipeline.is_batch(given["model"], given["x"]):
            sizes["B (the size of the batch)"] = len(given["x"])
    for name, n in sizes.items():
        out |= {name: n, f"1/{name}": 1 / n, f"sqrt({name})": n**0.5} if n > 1 else {}
    return {name: c for name, c in out.items() if c not in (0, 1)}


def _nice(c: float) -> float:
    """A simple fraction or a short decimal next to c."""
    fraction = Fraction(c).limit_denominator(64)
    if abs(float(fraction) - c) <= 1e-6 * abs(c):
        return float(fraction)
    short = float(f"{c:.2g}")
    return short if abs(short - c) <= 1e-3 * abs(c) else c


def _number(c: float) -> str:
    fraction = Fraction(c).limit_denominator(64)
    if float(fraction) == c and fraction.denominator > 1:
        return f"{fraction.numerator}/{fraction.denominator}"
    return f"{c:.4g}"


# --- the sentence ----------------------------------------------------------------------------------------------------------------


def equations_of(case: Case) -> dict[str, str]:
    """The equation of each quantity on the way to the result of a case."""
    from .quantities import EQUATIONS, ESTIMATES, PREDICT

    out: dict[str, str] = {}
    method = case.subject.get("method")
    if method:
        rule, a, b, family = method.split("-")
        out |= ESTIMATES[f"{a}-{b}"] | EQUATIONS[rule, family]
    elif case.level == "predict":
        out |= PREDICT
    elif "hess" in case.subject:
        out |= ESTIMATES[case.subject["hess"]]
    return {**out, **{q.name: q.equation for q in case.expected}}


def sentence(mistake: Mistake, case: Case, part: str = "") -> Match:
    """What to say of a mistake in a case."""
    from .quantities import PREDICT

    known = PREDICT if mistake.piece == "predict" else equations_of(case)
    ids = list(dict.fromkeys(known[name] for name in mistake.where if name in known))
    where = f" ({', '.join(ids)})" if ids and not any(i in mistake.text for i in ids) else ""
    return Match(mistake.key, mistake.text, f"{part or 'matches'} {mistake.text}{where}")


# --- the searches ------------------------------------------------------------------------------------------------------------------


def explain(case: Case, wanted: Sequence[Target], memory: Memory, deep: bool) -> Iterator[Mistake]:
    """The mistakes that give what was returned, in the order in which they are worth naming."""
    end = time.perf_counter() + SECONDS[case.level]
    known = [m for key, m in memory.mistakes.items() if case.level in pipeline.USED[m.piece] and m.applies(case)]
    found = [m for m in known if reproduces(m, case, wanted)]
    found.sort(key=lambda m: -memory.found[m.key])
    yield from found
    if found and case.level in ("update", "stream", "predictive"):  # a mistake of an earlier level or case shows here too
        return
    keys = {m.key for m in found}
    for mistake in mistakes.named(case):
        if mistake.key not in keys and reproduces(mistake, case, wanted):
            keys.add(mistake.key)
            yield mistake
        if time.perf_counter() > end:
            return
    if not deep:
        return
    if not keys:
        for scaled in mistakes.scaled(case):
            for mistake in search(scaled, case, wanted):
                keys.add(mistake.key)
                yield mistake
            if time.perf_counter() > end:
                return
    yield from _edited(case, wanted, end)


def _edited(case: Case, wanted: Sequence[Target], end: float, names: Sequence[str] | None = None) -> Iterator[Mistake]:
    for mistake in mistakes.edited(case):
        if reproduces(mistake, case, wanted, names):
            yield mistake
        if time.perf_counter() > end:
            return


def partly(case: Case, wanted: Sequence[Target]) -> Iterator[tuple[Mistake, str]]:
    """The mistakes that give the first wrong quantity alone, where none gives everything."""
    wrong = [t.name for t in wanted if t.wrong]
    if not wrong or len(wanted) < 2 or case.level not in ("step", "estimate", "predictive"):
        return
    end, first = time.perf_counter() + SECONDS[case.level], wrong[0]
    right = [t.name for t in wanted if not t.wrong]
    said = f"{first} matches" if not right else f"{first} alone (with {' and '.join(right)} right) matches"
    for mistake in (*mistakes.named(case), *mistakes.edited(case)):
        if reproduces(mistake, case, wanted, [first]):
            yield mistake, said
        if time.perf_counter() > end:
            return


# --- what can be said without a form -------------------------------------------------------------------------------------------------


def remarks(case: Case, wanted: Sequence[Target], dtype: str) -> list[str]:
    """Observations on the numbers themselves: a factor, a missing term, an order, a precision."""
    single = {q.name: q.tolerance["float32"] for q in case.expected}
    wrong = [t for t in wanted if t.wrong and np.all(np.isfinite(t.got))]
    if (
        dtype == "float64"
        and wrong
        and all(_gap(t) <= (single.get(t.name) or 0) / 4 for t in wanted)
        and any(_gap(t) > 1e-9 for t in wrong)
    ):
        return ["agrees to float32 only: a float32 somewhere on the way"]
    out = []
    for t in wrong[:2]:
        for look in (_factor, _term):
            out += look(case, t)
        for see in (_function, _clipped, _eigenvalues, _order, _triangle):
            out += see(t)
    for t in wrong[:1]:
        out += _blocks(case, t)
    return out + (_where(case, wanted) if wrong else [])


def _far(t: Target) -> bool:
    """Whether the difference has digits enough to be looked at."""
    return _gap(t) > 1e6 * t.tolerance


def _term(case: Case, t: Target) -> list[str]:
    """A quantity of a step, or its inverse, that is off by a multiple of a term."""
    if case.level != "step" or not _far(t) or t.name not in ("mu", "Sigma", "var"):
        return []
    found = _multiple(case, t.got - t.right, _terms(case, t.got.ndim, t.name == "var"))
    if found:
        return [f"{t.name} is off by {found}"]
    if t.name == "mu":
        return []
    flat = t.got.ndim == 1
    got, right = (1 / a if flat else np.linalg.inv(a) for a in (t.got, t.right))
    found = _multiple(case, got - right, _terms(case, t.got.ndim, flat))
    return [f"the precision is off by {found}"] if found else []


def _terms(case: Case, ndim: int, diagonal: bool) -> dict[str, Array]:
    """What the equations of a step are made of: vectors, matrices, or the diagonals of these."""
    given, family = case.input, pipeline.family_of(case)
    prior, current = (vectors.state(family, given[k]) for k in ("prior", "current"))
    S0, S = mistakes._matrix(prior), mistakes._matrix(current)
    P0, P = np.linalg.inv(S0), np.linalg.inv(S)
    g, mu, mu0, G = given["curv"]["g"], current.mu, prior.mu, given["curv"]["G"]
    moves = rule_of(case) in ("blr", "bbb")
    if ndim == 1 and not diagonal:
        out = {"g": g, "Sigma g": S @ g, "mu": mu, "Sigma mu": S @ mu, "Sigma^-1 mu": P @ mu}
        if moves:
            out |= {"the prior's mu": mu0, "mu0 - mu": mu0 - mu, "Sigma0^-1 (mu0 - mu)": P0 @ (mu0 - mu), "Sigma0 g": S0 @ g}
            out |= {"Sigma Sigma0^-1 (mu0 - mu)": S @ P0 @ (mu0 - mu), "g and Sigma0^-1 (mu0 - mu) together": g + P0 @ (mu0 - mu)}
        return out
    outer = {"g g^T": np.outer(g, g), "Sigma g mu^T, symmetric,": _sym(np.outer(S @ g, mu)), "g mu^T, symmetric,": _sym(np.outer(g, mu))}
    out = {"I": np.eye(len(g)), "G": G, "Sigma G Sigma": S @ G @ S, "Sigma": S, "Sigma^-1": P, "Sigma^2": S @ S, **outer}
    if moves:
        pull = P0 @ (mu0 - mu)
        out |= {"the prior's Sigma": S0, "the prior's Sigma^-1": P0, "Sigma0^-1 - Sigma^-1": P0 - P, "Sigma Sigma0^-1 Sigma": S @ P0 @ S}
        out |= {"Sigma Sigma0^-1 (mu0 - mu) mu^T, symmetric,": _sym(np.outer(S @ pull, mu))}
    return {k: np.diag(v) for k, v in out.items()} if diagonal else out


def _sym(a: Array) -> Array:
    return (a + a.T) / 2


def rule_of(case: Case) -> str:
    return case.subject["method"].split("-")[0]


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
    """A number, by the name of what it is in the case if it is no simple one."""
    nice = _nice(c)
    simple = Fraction(nice).limit_denominator(8)
    if float(simple) == nice and abs(nice) <= 8:
        return _number(nice)
    for name, value in symbols(case).items():
        for sign, minus in ((1, ""), (-1, "-")):
            if abs(c - sign * value) <= 1e-5 * abs(value):
                return f"{minus}({name})" if " " in name or minus else name
    return _number(nice)


def _function(t: Target) -> list[str]:
    """A simple function of what is right."""
    forms: dict[str, Callable[[Array], Array]] = {
        "the absolute value of": np.abs,
        "the square of": np.square,
        "the square root of": lambda a: np.sqrt(np.maximum(a, 0)),
        "the inverse of": lambda a: 1 / a,
        "the logarithm of": lambda a: np.log(np.maximum(a, 1e-300)),
        "the exponential of": np.exp,
    }
    if t.right.ndim == 2 and t.right.shape[0] == t.right.shape[1]:
        forms["the transpose of"] = np.transpose
    with np.errstate(all="ignore"):
        found = [words for words, fn in forms.items() if t.right.size > 1 and near(fn(t.right), t) and far(fn(t.right), t)]
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
    if np.max(size) == 0:
        return [f"the wrong entries of {t.name} are 0"] if len(values) > 1 else []
    if np.all(np.abs(right) > size) and np.all(np.sign(right) == np.sign(values)):
        return [f"the wrong entries of {t.name} have the size {size[0]:.3g}, where they should be larger: clipped?"]
    if np.all(right < values) and np.all(values == values[0]):
        return [f"the wrong entries of {t.name} are {values[0]:.3g}, where they should be smaller: a floor?"]
    return []


def _eigenvalues(t: Target) -> list[str]:
    """A symmetric matrix with a bound on its eigenvalues."""
    if t.name != "Sigma" or not np.allclose(t.got, t.got.T) or not np.allclose(t.got @ t.right, t.right @ t.got):
        return []
    got, right = np.linalg.eigvalsh(t.got), np.linalg.eigvalsh(t.right)
    off = np.abs(got - right) > 64 * t.tolerance * t.scale
    if np.any(off) and not np.all(off) and np.ptp(got[off]) <= 1e-9 * np.max(np.abs(got)):
        return [f"the wrong eigenvalues of {t.name} are all {got[off][0]:.3g}: a bound on them?"]
    return []


def _blocks(case: Case, t: Target) -> list[str]:
    """The arrays of theta in which a gradient is right."""
    if case.level != "estimate" or t.name != "g" or len(case.input["model"]["layout"]) < 2:
        return []
    off = np.abs(t.got - t.right) > t.tolerance * t.scale
    bad = {b["name"]: off[b["start"] : b["stop"]] for b in case.input["model"]["layout"]}
    good = [name for name, wrong in bad.items() if not np.any(wrong) and np.any(t.right[_span(case, name)])]
    rest = [name for name, wrong in bad.items() if np.any(wrong)]
    return [f"g is right in {' and '.join(good)} and wrong in {' and '.join(rest)}"] if good and rest else []


def _span(case: Case, name: str) -> slice:
    (block,) = (b for b in case.input["model"]["layout"] if b["name"] == name)
    return slice(block["start"], block["stop"])


def _where(case: Case, wanted: Sequence[Target]) -> list[str]:
    """Which quantities are right, and from which step of a stream on they are not."""
    right, wrong = ([t.name for t in wanted if t.wrong is bad] for bad in (False, True))
    if case.level != "stream":
        return [f"{' and '.join(right)} {'is' if len(right) == 1 else 'are'} right, {wrong[0]} is the first to differ"] if right else []
    first = int(wrong[0].split("[")[1].split("]")[0])
    if not right or first == 1 or not any(name.startswith(f"state[{first - 1}]") for name in right):
        return []
    gone = [t for t, y in enumerate(case.input["Y"][:first], start=1) if y is None]
    said = ", at which the observation is missing" if first in gone else ", after a missing observation" if gone else ""
    return [f"the states before step {first} are right{said}: what is different from step {first} on?"]


def _gap(t: Target) -> float:
    return float(np.max(np.abs(t.got - t.right), initial=0)) / t.scale


def _factor(case: Case, t: Target) -> list[str]:
    """The change of a quantity as a multiple of what it should be."""
    short = t.name.split(".")[-1]
    base: Any = 0.0
    if case.level in ("step", "update") and short in ("mu", "Sigma", "var", "Ups"):
        rule = case.subject["method"].split("-")[0]
        start = case.input["current" if case.level == "step" and rule in ("blr", "bbb") else "prior"]
        base = start[short]
    moved, wanted = t.got - base, t.right - base
    square = float(np.sum(wanted * wanted))
    if square == 0 or not np.all(np.isfinite(moved)):
        return []
    c = float(np.sum(moved * wanted)) / square
    if np.max(np.abs(moved - c * wanted)) > LOOSE * t.tolerance * max(1.0, abs(c)) * t.scale or abs(c - 1) < 1e-3:
        return []
    what = f"the change of {t.name}" if np.ndim(base) else t.name
    return [f"{what} is {_named(case, c)} times what it should be"] if c else [f"{what} is 0"]


def _order(t: Target) -> list[str]:
    """The right entries in another order."""
    if t.got.ndim != 1 or len(t.got) < 3 or not np.all(np.isfinite(t.got)):
        return []
    a, b = np.sort(t.got), np.sort(t.right)
    bound = LOOSE * t.tolerance * t.scale
    if np.max(np.abs(a - b)) <= bound < np.max(np.abs(t.got - t.right)):
        return [f"{t.name} has the right entries in another order: is theta laid out as the model says?"]
    return []


def _triangle(t: Target) -> list[str]:
    """A matrix that is right on or off its diagonal alone."""
    if t.got.ndim != 2 or t.got.shape[0] != t.got.shape[1] or len(t.got) < 2 or not np.all(np.isfinite(t.got)):
        return []
    gap, bound = np.abs(t.got - t.right), t.tolerance * t.scale
    off = gap - np.diag(np.diag(gap))
    if np.max(np.diag(gap)) <= bound:
        return [f"{t.name} is right on its diagonal and wrong off it"]
    if np.max(off) <= bound:
        return [f"{t.name} is right off its diagonal and wrong on it"]
    if np.max(np.abs(np.tril(gap))) <= bound or np.max(np.abs(np.triu(gap))) <= bound:
        return [f"one triangle of {t.name} is right"]
    return []


# --- an earlier quantity -----------------------------------------------------------------------------------------------------------


def earlier(adapter: Any, case: Case, dtype: str) -> tuple[Any, list[str]]:
    """The first quantity of an update or a stream that differs where the adapter's other calls show one, and what they show."""
    from .runner import answer, compare

    if case.level not in ("update", "stream"):
        return None, []
    checked = []
    for part in _parts(case):
        call = getattr(adapter, part.level, None)
        if not callable(call):
            continue
        try:
            with np.errstate(all="ignore"):
                got = call(**part.arguments)
            if got is NotImplemented:
                continue
            values = answer(part, got)
        except NotImplementedError:
            continue
        except Exception:
            return None, []
        for q in part.expected:
            if q.name in values and q.tolerance[dtype] is not None:
                gap = compare(q, values[q.name], q.tolerance[dtype])  # type: ignore[arg-type]
                if gap is not None:
                    return gap, [f"its own {part.level} differs already: {gap.quantity} ({gap.equation}) at the first iteration"]
        checked.append(part.level)
    if {"estimate", "step"} <= set(checked):
        return None, [f"its own {', '.join(checked)} are right at the first iteration: the mistake is in how they are put together"]
    return None, []


def _parts(case: Case) -> Iterator[Case]:
    """The first prediction, estimate and step of an update or a stream as cases of their own."""
    from .quantities import EQUATIONS, ESTIMATES, PREDICT

    given, method = case.input, case.subject["method"]
    rule, a, b, family = method.split("-")
    hess, prior = f"{a}-{b}", vectors.state(family, given["prior"])
    loose = max((q.tolerance["float64"] or 0.0) for q in case.expected)
    x, y, samples = given.get("x"), given.get("y"), given["samples"]
    if case.level == "stream":
        moved = pipeline.predict(prior, given["dynamics"])
        expected = _quantities(PREDICT, vectors.invariants(family, moved._asdict()), loose)
        yield Case(case.id, "predict", {"family": family}, (), {"state": given["prior"], "dynamics": given["dynamics"]}, "value", expected)
        prior, x, y, samples = moved, given["X"][0], given["Y"][0], None if samples is None else samples[0]
        if y is None:
            return
    here = None if samples is None else samples[0]
    job = pipeline.job_of(given, x, y)
    curv = RIGHT.estimate(hess, job, prior.mu, here)
    G = curv.G if curv.G is not None else -(curv.S @ curv.S.T)
    seam = {q.name: q for q in case.expected if q.role == "intermediate"}
    wanted = tuple(seam.values()) or _quantities(ESTIMATES[hess], {"g": curv.g, "G": G, "diag G": np.diag(G)}, loose)
    inputs = {"model": given["model"], "likelihood": given["likelihood"], "theta": prior.mu, "x": x, "y": y, "samples": here}
    yield Case(case.id, "estimate", {"hess": hess}, (), inputs, "value", wanted)
    state = RIGHT.step(method, prior, prior, curv, given["params"].get("alpha", 1))
    params = {k: v for k, v in given["params"].items() if k in ("alpha", "rank")}
    handed = {"g": curv.g, "G": G, "d": np.diag(G).copy()}
    if hess != "mc-hess":
        handed = {"S": _factor_of(G), **handed}
    inputs = {"prior": prior._asdict(), "current": prior._asdict(), "curv": handed, "params": params}
    expected = _quantities(EQUATIONS[rule, family], vectors.invariants(family, state._asdict()), loose)
    yield Case(case.id, "step", {"method": method}, (), inputs, "value", expected)


def _factor_of(G: Array) -> Array:
    lam, Q = np.linalg.eigh(-G)
    keep = lam > 1e-14 * max(float(lam[-1]), 1e-300)
    return Q[:, keep] * np.sqrt(lam[keep])


def _quantities(equations: dict[str, str], values: Values, tolerance: float) -> tuple[Quantity, ...]:
    """Quantities for a first look: at a thousand times the tolerance of the result."""
    bounds: dict[str, float | None] = {"float64": max(1e3 * tolerance, 1e-10), "float32": 1e-2}
    return tuple(
        Quantity(name, equations[name], np.asarray(values[name]), float(np.max(np.abs(values[name]), initial=0)) or 1.0, 1.0, bounds)
        for name in equations
        if name in values
    )


# --- the diagnosis -------------------------------------------------------------------------------------------------------------------


def diagnose(adapter: Any, case: Case, values: Values, dtype: str) -> tuple[Any, tuple[str, ...]]:
    """An earlier quantity that differs, where the adapter's other calls show one, and the mistakes that give what was returned."""
    try:
        with np.errstate(all="ignore"):
            return _diagnose(adapter, case, values, dtype)
    except (ArithmeticError, np.linalg.LinAlgError):  # numbers that no form can be tried on; anything else is the runner's to report
        return None, Sentences()


def _diagnose(adapter: Any, case: Case, values: Values, dtype: str) -> tuple[Any, Sentences]:
    memory = memory_of(adapter)
    subject = (case.level, *case.subject.values())
    wanted = targets(case, values, dtype)
    if not any(t.wrong for t in wanted):
        return None, Sentences()
    comments = remarks(case, wanted, dtype)
    if memory.unexplained[case.level,] >= EXHAUSTED[case.level]:
        return None, Sentences((), [*comments, GIVEN_UP])
    if memory.unexplained[subject] >= PATIENCE[case.level]:
        return None, Sentences((), comments)
    gap, notes = earlier(adapter, case, dtype)
    whole = all(np.all(np.isfinite(t.got)) for t in wanted)
    deep = whole and memory.unexplained[case.level,] < TIRED[case.level]
    found = _ranked(explain(case, wanted, memory, deep)) if whole else []
    matches = [sentence(m, case) for m in found]
    if not found and deep and not (comments and "float32" in comments[0]):
        for mistake, said in partly(case, wanted):
            matches.append(sentence(mistake, case, said)._replace(key=f"{said}{PART}{mistake.key}"))
    for mistake in found:
        memory.found[mistake.key] += 1
        memory.mistakes.setdefault(mistake.key, mistake)
    if whole and not matches:
        memory.unexplained[subject] += 1
        memory.unexplained[case.level,] += 1
    return gap, Sentences(_distinct(matches), notes if found else comments[:2] + notes + comments[2:])


def _ranked(found: Iterable[Mistake]) -> list[Mistake]:
    """As they come, without those that say the same."""
    return list({m.key: m for m in found}.values())


def _distinct(matches: Sequence[Match]) -> list[Match]:
    return list({m.sentence: m for m in matches}.values())


# --- over many cases -----------------------------------------------------------------------------------------------------------------


def _matches(outcome: Any) -> list[tuple[str, str, str]]:
    """(key, text, sentence) of an outcome's diagnoses."""
    matches = getattr(outcome.diagnosis, "matches", None)
    return [tuple(m) for m in matches] if matches is not None else [(s, s, s) for s in outcome.diagnosis]


def _failed(outcomes: Iterable[Any]) -> list[Any]:
    return [o for o in outcomes if o.status == "fail" and o.case.result == "value" and o.gap is not None]


def explaining(outcomes: Sequence[Any], parts: bool = True) -> list[tuple[str, str, int]]:
    """(text, sentence, number of the failures explained) of the mistakes that explain most failures, all of these.

    ``parts``: whether a mistake that gives some of the quantities counts.
    """
    counts: Counter[str] = Counter()
    words: dict[str, tuple[str, str]] = {}
    order: dict[str, int] = {}
    for outcome in outcomes:
        for rank, (key, text, said) in enumerate(_matches(outcome)):
            if PART in key and not parts:
                continue
            key = key.split(PART)[-1]
            counts[key] += 1
            words.setdefault(key, (text, said))
            order[key] = order.get(key, 0) + rank
    if not counts:
        return []
    most = max(counts.values())
    best = sorted((key for key, n in counts.items() if n == most), key=lambda key: order[key])
    return [(*words[key], most) for key in best]


def verdict(outcomes: Iterable[Any]) -> dict[str, list[str]]:
    """method (or estimator, or family) -> the diagnoses that explain all of its failed cases, or if none does most of them.

    What explains no more than half of them may be a coincidence, and says so, after what can be said of most.
    """
    outcomes = list(outcomes)
    by_subject: dict[str, list[Any]] = {}
    for outcome in _failed(outcomes):
        by_subject.setdefault(" ".join(outcome.case.subject.values()), []).append(outcome)
    out = {}
    for subject, failed in by_subject.items():
        m, lines, doubtful = len(failed), [], []
        for _, said, n in explaining(failed)[:SHOWN]:
            if n == m:
                lines.append(said)
            elif 2 * n > m:
                lines.append(f"{said} ({n} of {m} failures)")
            elif 3 * n >= m:
                doubtful.append(f"in {n} of {m} failing cases: {said}")
        if not lines:
            lines = _varying(failed) + _remarks(failed)
            lines += [line for line in _only_with(failed, outcomes) if len(lines) < SHOWN]
            lines += doubtful[:1] if len(lines) < SHOWN else []
        out[subject] = lines
    return out


def _varying(failed: Sequence[Any]) -> list[str]:
    """A mistake with a number in it that explains most failures, with another number in each."""
    found: dict[str, dict[int, str]] = {}
    for k, outcome in enumerate(failed):
        for key, text, _ in _matches(outcome):
            number = key.partition("=")[2]
            if number and (c := _float(number)) is not None:
                found.setdefault(text.replace(number, "c"), {}).setdefault(k, f"{c:.3g}")
    best = max(found.items(), key=lambda item: len(item[1]), default=("", {}))
    if 2 * len(best[1]) <= len(failed) or len(best[1]) < 3 or len(set(best[1].values())) < 2:
        return []
    return [f"matches {best[0]}, with a c that differs from case to case ({', '.join(list(best[1].values())[:SHOWN])})"]


def _float(text: str) -> float | None:
    try:
        return float(Fraction(text))
    except ValueError:
        return None


def _features(case: Case) -> set[str]:
    """What a case has that may be what an implementation gets wrong."""
    given, out = case.input, set[str]()
    if "model" in given:
        model = given["model"]
        out |= {f"a model of the kind {model['kind']}", f"the activation {model['activation']}" if model["activation"] else "no activation"}
        out |= {f"the likelihood {given['likelihood']['kind']}", "one output" if model["n_outputs"] == 1 else "several outputs"}
        out |= {"a bias"} if model["bias"] else set()
    return out | {f"the flag {flag}" for flag in case.flags if f"the likelihood {flag}" not in out}


def _only_with(failed: Sequence[Any], outcomes: Sequence[Any]) -> list[str]:
    """What all failing cases of a subject have and no passing one has."""
    subject, level = failed[0].case.subject, failed[0].case.level
    passing = [
        o for o in outcomes if o.status == "pass" and o.case.level == level and o.case.subject == subject and o.case.result == "value"
    ]
    if not passing:
        return []
    shared = set.intersection(*(_features(o.case) for o in failed)).difference(*(_features(o.case) for o in passing))
    return [f"fails in the cases with {' and '.join(sorted(shared))}, and in no others"] if shared else []


NUMBER = re.compile(r"(?<![\w^])-?\d+(?:[./]\d+)?(?:e[-+]\d+)?(?=[ ,])")


def _remarks(failed: Sequence[Any]) -> list[str]:
    """What is said beside the matches, of most failures first; numbers may differ."""
    counts: Counter[str] = Counter()
    words: dict[str, set[str]] = {}
    for outcome in failed:
        matched = {said for _, _, said in _matches(outcome)} if hasattr(outcome.diagnosis, "matches") else set()
        for said in outcome.diagnosis:
            if said not in matched:
                plain = NUMBER.sub("c", said)
                counts[plain] += 1
                words.setdefault(plain, set()).add(said)
    often = [s for s, n in counts.most_common() if 2 * n > len(failed)][:SHOWN]
    return [words[s].pop() if len(words[s]) == 1 else f"{s} (c differs from case to case)" for s in often]


def common(outcomes: Iterable[Any]) -> list[str]:
    """The mistakes that explain every failure of every method; several are ways to say the same."""
    failed = _failed(outcomes)
    return [text for text, _, n in explaining(failed, parts=False) if n == len(failed)][:SHOWN] if len(failed) > 1 else []


__all__ = ["Match", "Sentences", "common", "diagnose", "explain", "verdict"]

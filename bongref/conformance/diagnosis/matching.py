"""Whether a mistake gives what an implementation returned, and with which number in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ...linalg import Array
from .. import pipeline
from ..mistakes import Mistake, Scaled
from ..pipeline import Values
from ..vectors import Case

LOOSE = 16.0  # a wrong form may be worse conditioned than the right one: this many tolerances
CLEAR = 64.0  # and must differ from the right one by more than this many


class Target(NamedTuple):
    """What was returned of one quantity, and the right value."""

    name: str
    got: Array
    right: Array
    scale: float
    tolerance: float
    wrong: bool

    @property
    def gap(self) -> float:
        """The largest difference relative to the scale."""
        return float(np.max(np.abs(self.got - self.right), initial=0)) / self.scale


def targets(case: Case, values: Values, dtype: str) -> list[Target]:
    """The quantities that were returned in the right shape and that the pipeline computes."""
    out = []
    for q in case.expected:
        if case.level in ("update", "stream") and q.role == "intermediate":
            continue
        tolerance = q.tolerance[dtype]
        if q.name not in values or tolerance is None or np.shape(values[q.name]) != q.value.shape:
            continue
        target = Target(q.name, values[q.name], q.value, q.scale, tolerance, False)
        out.append(target._replace(wrong=not target.gap <= tolerance))
    return out


def near(candidate: Array, target: Target) -> bool:
    """Whether a wrong form gives what was returned."""
    if np.shape(candidate) != target.got.shape or not np.all(np.isfinite(candidate)):
        return False
    scale = max(target.scale, float(np.max(np.abs(candidate), initial=0)))
    gap = np.max(np.abs(candidate - target.got), initial=0)
    return bool(gap <= LOOSE * target.tolerance * scale)


def far(candidate: Array, target: Target) -> bool:
    """Whether a wrong form can be told from the right one."""
    gap = np.max(np.abs(candidate - target.right), initial=0)
    return bool(gap > CLEAR * target.tolerance * target.scale)


def reproduces(
    mistake: Mistake, case: Case, wanted: Sequence[Target], names: Sequence[str] | None = None
) -> bool:
    """Whether a mistake gives all that was returned (of these names), and not what is right."""
    todo = {t.name: t for t in wanted if names is None or t.name in names}
    differs = False
    try:
        if _costly(case) and mistake.piece in ("estimate", "problem") and "g" in todo:
            g = _gradient(mistake, case)
            if not near(g, todo["g"]):
                return False
            if len(todo) == 1:
                return todo["g"].wrong and far(g, todo["g"])
        for stage in pipeline.stages(mistake.pieces, case):
            for name, value in stage.items():
                target = todo.pop(name, None)
                if target is None:
                    continue
                if not near(np.asarray(value, dtype=float), target):
                    return False
                differs |= target.wrong and far(np.asarray(value), target)
            if not todo:
                return differs
    except Exception:  # a form that cannot be computed with these inputs is not the one
        return False
    return differs and not todo


def _costly(case: Case) -> bool:
    """Whether G needs second derivatives and g does not."""
    return case.subject.get("hess") == "mc-hess"


def _gradient(mistake: Mistake, case: Case) -> Array:
    """g of mc-hess, which is that of mc-ef, without G."""
    inputs, pieces = case.input, mistake.pieces
    problem = pieces.problem_of(inputs, inputs["x"], inputs["y"])
    return pieces.estimate("mc-ef", problem, inputs["theta"], inputs["samples"]).g


# --- the number in a mistake ----------------------------------------------------------------------


def search(scaled: Scaled, case: Case, wanted: Sequence[Target]) -> list[Mistake]:
    """The mistake with the number with which it gives what was returned; none where it never does.

    Secant steps from a few starts. Where the number is also that of a symbol of the case (alpha,
    M, ...), the mistake comes with that name too.
    """
    starts: tuple[float, ...] = (1e-6, 1e-3, 1e-1) if scaled.neutral == 0 else (2.0, 0.5, -1.0)
    shown, g_alone = list(wanted), False
    if _costly(case) and wanted[0].name == "g":  # search by g, or skip what would spoil a right g
        g_alone = wanted[0].wrong
        shown = list(wanted[:1]) if g_alone else shown
        if not g_alone and not near(_gradient(scaled.at(starts[1]), case), wanted[0]):
            return []

    def residual(c: float) -> Array | None:
        try:
            mistake = scaled.at(c)
            if g_alone:
                out: Values = {"g": _gradient(mistake, case)}
            else:
                out = pipeline.values(mistake.pieces, case)
            differences = [
                (np.asarray(out[t.name], dtype=float) - t.got).ravel() / (t.scale * t.tolerance)
                for t in shown
            ]
        except Exception:  # as in reproduces
            return None
        found = np.concatenate(differences)
        return found if np.all(np.isfinite(found)) else None

    at_rest = residual(scaled.neutral)
    if at_rest is None:
        starts = (1e-3,)
    for begin in starts:
        c = _root(residual, scaled.neutral, begin, at_rest)
        if c is not None:
            for number in (nice(c), c):
                mistake = scaled.at(number)
                possible = number != scaled.neutral and (number > 0 or scaled.neutral)
                if possible and reproduces(mistake, case, wanted):
                    return _by_name(scaled, mistake, number, case)
    return []


def _by_name(scaled: Scaled, mistake: Mistake, c: float, case: Case) -> list[Mistake]:
    """The mistake with its number written out, and with the symbols that have this value."""
    same = (n for n, value in symbols(case).items() if abs(c - value) <= 1e-6 * abs(value))
    return [
        mistake._replace(key=f"{scaled.key}={n}", text=scaled.text.replace("{c}", n))
        for n in [number(c), *same]
    ]


def _root(
    residual: Callable[[float], Array | None], neutral: float, begin: float, at_rest: Array | None
) -> float | None:
    """The c at which the residual vanishes, by secant steps of its projections."""
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
    inputs, out = case.input, dict[str, float]()
    params, samples = inputs.get("params", {}), inputs.get("samples")
    if "alpha" in params:
        a = float(params["alpha"])
        out |= {"alpha": a, "1 - alpha": 1 - a, "1 + alpha": 1 + a}
        out |= {"alpha^2": a * a, "2 alpha": 2 * a, "alpha/2": a / 2}
        out |= {"1/alpha": 1 / a, "sqrt(alpha)": a**0.5} if a > 0 else {}
    sizes = {"P": int(np.size(inputs.get("theta", inputs.get("prior", {}).get("mu", ()))))}
    if samples is not None:
        sizes["M"] = np.shape(samples)[-2]
    if "model" in inputs:
        sizes["C"] = int(inputs["model"]["n_outputs"])
        if "x" in inputs and pipeline.is_batch(inputs["model"], inputs["x"]):
            sizes["B (the size of the batch)"] = len(inputs["x"])
    for name, n in sizes.items():
        out |= {name: n, f"1/{name}": 1 / n, f"sqrt({name})": n**0.5} if n > 1 else {}
    return {name: c for name, c in out.items() if c not in (0, 1)}


def nice(c: float) -> float:
    """A simple fraction or a short decimal next to c."""
    fraction = Fraction(c).limit_denominator(64)
    if abs(float(fraction) - c) <= 1e-6 * abs(c):
        return float(fraction)
    short = float(f"{c:.2g}")
    return short if short != 1 and abs(short - c) <= 1e-3 * abs(c) else c  # 1.001 is not 1


def number(c: float) -> str:
    """c as a simple fraction or with four digits."""
    fraction = Fraction(c).limit_denominator(64)
    if float(fraction) == c and fraction.denominator > 1:
        return f"{fraction.numerator}/{fraction.denominator}"
    return f"{c:.4g}"

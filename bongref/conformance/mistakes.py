"""The common mistakes by name: each is one piece of the pipeline computed wrongly, and a phrase that says how.

A mistake exchanges one of :class:`.pipeline.Pieces`; the pipeline then shows what it does to a step, an estimate, an update or a stream.
The tables below are data; ``named(case)`` lists those that apply to a case, ``scaled(case)`` those with a number in them that is found
by a search, and ``edited(case)`` every single edit of the displayed equations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtr

from ..curvature import Curv, dense
from ..families import dlr, fc_nat
from ..grid import EFFICIENT, MODULES
from ..linalg import Array, inv, sym
from ..paper import printed
from ..states import DLR, FC, Diag, State
from . import edits, pipeline, vectors
from .pipeline import RIGHT, USED, Job, Network, One, Pieces, Values
from .vectors import Case


class Mistake(NamedTuple):
    """A mistake: ``text`` says what is wrong, ``where`` which quantities' equations it is in, ``change`` makes the wrong piece."""

    key: str
    text: str
    piece: str
    change: Callable[..., Any]  # the right piece -> the wrong one
    where: tuple[str, ...] = ()
    applies: Callable[[Case], bool] = lambda case: True

    @property
    def pieces(self) -> Pieces:
        return RIGHT._replace(**{self.piece: self.change(getattr(RIGHT, self.piece))})


class Scaled(NamedTuple):
    """A mistake with a number in it; ``neutral`` is the number with which it is none."""

    key: str
    text: str  # with {c}
    piece: str
    change: Callable[[Callable, float], Callable]
    neutral: float
    where: tuple[str, ...] = ()
    applies: Callable[[Case], bool] = lambda case: True

    def at(self, c: float) -> Mistake:
        return Mistake(f"{self.key}={c:.3g}", self.text, self.piece, lambda fn: self.change(fn, c), self.where, self.applies)


# --- words of a case -----------------------------------------------------------------------------------------------------------


def rule(case: Case) -> str:
    return case.subject.get("method", "").split("-")[0]


def family(case: Case) -> str:
    return case.subject.get("family") or case.subject.get("method", "").split("-")[-1]


def hess(case: Case) -> str:
    return case.subject.get("hess") or "-".join(case.subject.get("method", "").split("-")[1:3])


def kind(case: Case) -> str:
    return case.input["likelihood"]["kind"] if "likelihood" in case.input else ""


def in_rules(*rules: str) -> Callable[[Case], bool]:
    return lambda case: rule(case) in rules


def in_families(*families: str) -> Callable[[Case], bool]:
    return lambda case: family(case) in families


def with_hess(*names: str) -> Callable[[Case], bool]:
    return lambda case: hess(case) in names


def with_kind(*kinds: str) -> Callable[[Case], bool]:
    return lambda case: kind(case) in kinds


def both(*tests: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: all(test(case) for test in tests)


def not_rule(name: str) -> Callable[[Case], bool]:
    return lambda case: rule(case) not in (name, "")


def not_hess(name: str) -> Callable[[Case], bool]:
    """The estimators that can be taken for this one: those with samples for one with samples only."""
    return lambda case: hess(case) != name and (name.startswith("lin") or hess(case).startswith("mc"))


def not_activation(name: str) -> Callable[[Case], bool]:
    return lambda case: _networked(case) and case.input["model"]["activation"] != name


ITERATED = in_rules("blr", "bbb")
WITH_ALPHA = in_rules("blr", "bbb", "bog")
FULL, DIAG, LOW = in_families("fc", "fc_mom"), in_families("diag", "diag_mom"), in_families("dlr")
MC, LIN = with_hess("mc-hess", "mc-ef"), with_hess("lin-hess", "lin-ef")
EF, HESS = with_hess("mc-ef", "lin-ef"), with_hess("mc-hess", "lin-hess")
COV = ("Sigma", "var", "Ups", "W W^T")
ALL = ("mu", *COV)


# --- the step: its arguments ---------------------------------------------------------------------------------------------------


def on_curv(change: Callable[[Curv], Curv]) -> Callable:
    """The step with another (g, G)."""
    return lambda step: lambda name, prior, current, curv, alpha: step(name, prior, current, change(curv), alpha)


def on_states(change: Callable[[State, State], tuple[State, State]]) -> Callable:
    """The step with other states."""
    return lambda step: lambda name, prior, current, curv, alpha: step(name, *change(prior, current), curv, alpha)


def on_alpha(change: Callable[[float], float]) -> Callable:
    return lambda step: lambda name, prior, current, curv, alpha: step(name, prior, current, curv, change(alpha))


def on_result(change: Callable[[str, State, State, Curv, State], State]) -> Callable:
    """The step with another result: ``change(name, prior, current, curv, result)``."""
    return lambda step: (
        lambda name, prior, current, curv, alpha: change(name, prior, current, curv, step(name, prior, current, curv, alpha))
    )


def as_method(change: Callable[[str], str]) -> Callable:
    """The step of another rule or family."""
    return lambda step: lambda name, prior, current, curv, alpha: step(change(name), prior, current, curv, alpha)


def with_G(curv: Curv, G: Array) -> Curv:
    return Curv(curv.g, G=G)


def times_G(c: float) -> Callable[[Curv], Curv]:
    return lambda curv: Curv(curv.g, S=curv.S * np.sqrt(c)) if curv.S is not None and c >= 0 else with_G(curv, c * dense(curv))


def times_g(c: float) -> Callable[[Curv], Curv]:
    return lambda curv: curv._replace(g=c * curv.g)


def _clip_g(c: float) -> Callable[[Curv], Curv]:
    return lambda curv: curv._replace(g=np.clip(curv.g, -c, c))


def _clip_norm(c: float) -> Callable[[Curv], Curv]:
    return lambda curv: curv._replace(g=curv.g * min(1, c / max(float(np.linalg.norm(curv.g)), 1e-300)))


def _columns(curv: Curv) -> Array:
    if curv.S is None:
        raise ValueError("G has no factor")
    return curv.S


def _covariance(q: State) -> str:
    return "Sigma" if isinstance(q, FC) else "var" if isinstance(q, Diag) else "Ups"


def with_field(q: State, other: State, fields: tuple[str, ...]) -> State:
    return q._replace(**{f: getattr(other, f) for f in fields if f in q._fields})


SPREAD = ("Sigma", "var", "Ups", "W")


def spread(q: State, change: Callable[[Array], Array]) -> State:
    """The state with another Σ, σ² or Υ."""
    name = _covariance(q)
    return q._replace(**{name: change(getattr(q, name))})


def root(a: Array) -> Array:
    return np.linalg.cholesky(a) if a.ndim == 2 else np.sqrt(a)


def inverse(a: Array) -> Array:
    return inv(a) if a.ndim == 2 else 1 / a


def square(a: Array) -> Array:
    return a @ a if a.ndim == 2 else a**2


def sandwiched(g: bool, G: bool, power: int = 1) -> Callable:
    """The step with Σg for g, and ΣGΣ for G (power −1: with Σ⁻¹), Σ that of the state where the step begins."""

    def wrong(step: Callable) -> Callable:
        def fn(name: str, prior: State, current: State, curv: Curv, alpha: Any) -> State:
            Sigma = _matrix(_start(name, prior, current))
            Sigma = Sigma if power == 1 else np.linalg.inv(Sigma)
            new = Curv(Sigma @ curv.g if g else curv.g, G=Sigma @ dense(curv) @ Sigma if G else dense(curv))
            return step(name, prior, current, new, alpha)

        return fn

    return wrong


# fmt: off
STEP_ARGUMENTS: tuple[Mistake, ...] = (
    Mistake("G-sign", "the sign of G", "step", on_curv(times_G(-1)), COV),
    Mistake("G-doubled", "2 G in place of G", "step", on_curv(times_G(2)), COV),
    Mistake("G-halved", "G/2 in place of G", "step", on_curv(times_G(0.5)), COV),
    Mistake("G-missing", "no G", "step", on_curv(times_G(0)), COV),
    Mistake("g-sign", "the sign of g", "step", on_curv(times_g(-1)), ("mu",)),
    Mistake("g-doubled", "2 g in place of g", "step", on_curv(times_g(2)), ("mu",)),
    Mistake("g-halved", "g/2 in place of g", "step", on_curv(times_g(0.5)), ("mu",)),
    Mistake("g-missing", "no g", "step", on_curv(times_g(0)), ("mu",)),
    Mistake("gG-sign", "the signs of g and G (those of the negative log-likelihood)", "step",
        on_curv(lambda c: Curv(-c.g, G=-dense(c))), ALL),
    Mistake("G-diagonal", "the diagonal of G alone in place of G", "step", on_curv(lambda c: with_G(c, np.diag(np.diag(dense(c))))), COV),
    Mistake("G-absolute", "-|diag G| in place of diag G", "step", on_curv(lambda c: with_G(c, -np.diag(np.abs(np.diag(dense(c)))))),
        COV, DIAG),
    Mistake("G-clipped", "the positive entries of diag G set to 0", "step",
        on_curv(lambda c: with_G(c, np.diag(np.minimum(np.diag(dense(c)), 0)))), COV, DIAG),
    Mistake("G-outer", "-g g^T in place of G (the empirical Fisher of the mean gradient)", "step",
        on_curv(lambda c: with_G(c, -np.outer(c.g, c.g))), COV),
    Mistake("G-outer-positive", "+g g^T in place of G", "step", on_curv(lambda c: with_G(c, np.outer(c.g, c.g))), COV),
    Mistake("G-square-of-sum", "the square of the sum of the columns of S in place of S S^T (the sum of their squares)", "step",
        on_curv(lambda c: Curv(c.g, S=_columns(c).sum(axis=1)[:, None])), COV),
    Mistake("G-times-K", "S S^T times its number of columns", "step", on_curv(lambda c: times_G(_columns(c).shape[1])(c)), COV),
    Mistake("G-over-K", "S S^T over its number of columns", "step", on_curv(lambda c: times_G(1 / _columns(c).shape[1])(c)), COV),
    Mistake("G-first-column", "the first column of S alone", "step", on_curv(lambda c: Curv(c.g, S=_columns(c)[:, :1])), COV),
    Mistake("natural-g", "Sigma g in place of g (the natural gradient where the plain one belongs)", "step", sandwiched(True, False),
        ("mu",)),
    Mistake("natural-G", "Sigma G Sigma in place of G (the natural gradient where the plain one belongs)", "step",
        sandwiched(False, True), COV),
    Mistake("natural-gG", "Sigma g and Sigma G Sigma in place of g and G (the natural gradient)", "step", sandwiched(True, True), ALL),
    Mistake("plain-g", "Sigma^-1 g in place of g (a Sigma left out before g)", "step", sandwiched(True, False, -1), ("mu",)),
    Mistake("plain-gG", "g and G without the Sigma around them", "step", sandwiched(True, True, -1), ALL),
    *(
        Mistake(f"g-clip-{c}", f"the entries of g clipped to [-{c}, {c}]", "step", on_curv(_clip_g(c)), ("mu",))
        for c in (0.1, 0.5, 1)
    ),
    *(Mistake(f"g-norm-{c}", f"g clipped to the norm {c}", "step", on_curv(_clip_norm(c)), ("mu",)) for c in (0.1, 0.5, 1)),
    Mistake("g-normalised", "g over its norm", "step", on_curv(lambda v: v._replace(g=v.g / np.linalg.norm(v.g))), ("mu",)),
    Mistake("g-absolute", "|g| in place of g", "step", on_curv(lambda v: v._replace(g=np.abs(v.g))), ("mu",)),
    Mistake("alpha-one", "alpha left out (alpha = 1)", "step", on_alpha(lambda a: 1.0), ALL, WITH_ALPHA),
    Mistake("alpha-squared", "alpha^2 in place of alpha", "step", on_alpha(lambda a: a**2), ALL, WITH_ALPHA),
    Mistake("alpha-complement", "1 - alpha in place of alpha", "step", on_alpha(lambda a: 1 - a), ALL, WITH_ALPHA),
    Mistake("alpha-root", "sqrt(alpha) in place of alpha", "step", on_alpha(np.sqrt), ALL, WITH_ALPHA),
    Mistake("alpha-halved", "alpha/2 in place of alpha", "step", on_alpha(lambda a: a / 2), ALL, WITH_ALPHA),
    Mistake("alpha-doubled", "2 alpha in place of alpha", "step", on_alpha(lambda a: 2 * a), ALL, WITH_ALPHA),
    Mistake("KL-missing", "the KL term left out (the prior's mean and covariance taken to be the iterate's)", "step",
        on_states(lambda p, q: (q, q)), ALL, ITERATED),
    Mistake("KL-mean-missing", "the KL term left out of the mean (no pull to the prior's mean)", "step",
        on_states(lambda p, q: (p._replace(mu=q.mu), q)), ("mu",), ITERATED),
    Mistake("KL-covariance-missing", "the KL term left out of the covariance (the prior's covariance taken to be the iterate's)",
        "step", on_states(lambda p, q: (with_field(p, q, SPREAD), q)), ALL, ITERATED),
    Mistake("current-is-prior", "the prior in place of the iterate", "step", on_states(lambda p, q: (p, p)), ALL, ITERATED),
    Mistake("covariance-of-prior", "the covariance of the prior in place of the iterate's", "step",
        on_states(lambda p, q: (p, with_field(q, p, SPREAD))), ALL, ITERATED),
    Mistake("mean-of-prior", "the mean of the prior in place of the iterate's", "step",
        on_states(lambda p, q: (p, q._replace(mu=p.mu))), ALL, ITERATED),
    Mistake("swapped", "the prior and the iterate exchanged", "step", on_states(lambda p, q: (q, p)), ALL, ITERATED),
    Mistake("W-of-prior", "the W of the prior in place of the iterate's", "step", on_states(lambda p, q: (p, with_field(q, p, ("W",)))),
        ALL, both(ITERATED, LOW)),
    Mistake("W-of-current", "the W of the iterate in place of the prior's", "step",
        on_states(lambda p, q: (with_field(p, q, ("W",)), q)), ALL, both(ITERATED, LOW)),
    Mistake("Ups-of-prior", "the Ups of the prior in place of the iterate's", "step",
        on_states(lambda p, q: (p, with_field(q, p, ("Ups",)))), ALL, both(ITERATED, LOW)),
    Mistake("Ups-of-current", "the Ups of the iterate in place of the prior's", "step",
        on_states(lambda p, q: (with_field(p, q, ("Ups",)), q)), ALL, both(ITERATED, LOW)),
    Mistake("std-in", "standard deviations read where variances are given", "step",
        on_states(lambda p, q: (spread(p, square), spread(q, square))), COV, DIAG),
    Mistake("std-taken", "the standard deviation in place of the variance throughout", "step",
        on_states(lambda p, q: (spread(p, np.sqrt), spread(q, np.sqrt))), COV, DIAG),
    Mistake("precision-in", "the covariance read as a precision", "step",
        on_states(lambda p, q: (spread(p, inverse), spread(q, inverse))), COV, in_families("fc", "fc_mom", "diag", "diag_mom")),
    Mistake("Ups-inverted", "Ups read as a variance (1/Ups in its place)", "step",
        on_states(lambda p, q: (spread(p, inverse), spread(q, inverse))), COV, LOW),
    Mistake("W-ignored", "W left out (taken as 0)", "step", on_states(lambda p, q: (_no_W(p), _no_W(q))), ALL, LOW),
    Mistake("diagonal-in", "the diagonal of the covariance alone", "step", on_states(lambda p, q: (spread(p, _diag), spread(q, _diag))),
        COV, FULL),
)
# fmt: on


def _no_W(q: State) -> State:
    return q._replace(W=0 * q.W) if isinstance(q, DLR) else q


def _diag(a: Array) -> Array:
    return np.diag(np.diag(a)) if a.ndim == 2 else a


# --- the step: another rule, another family ------------------------------------------------------------------------------------


def _other_family(name: str) -> str:
    head, _, last = name.rpartition("-")
    return f"{head}-{last.removesuffix('_mom')}" if last.endswith("_mom") else f"{head}-{last}_mom"


def _other_rule(new: str) -> Callable[[str], str]:
    return lambda name: "-".join([new, *name.split("-")[1:]])


def _full_gain(name: str, prior: Any, current: Any, curv: Curv, alpha: Any, mean: bool = True, variance: bool = True) -> Diag:
    """A diagonal family's update by that of the full-covariance family, of which the diagonal is kept."""
    module = MODULES[name.split("-")[-1].replace("diag", "fc")]
    right = pipeline.step(name, prior, current, curv, alpha)
    full = getattr(module, name.split("-")[0])(FC(prior.mu, np.diag(prior.var)), FC(current.mu, np.diag(current.var)), curv, alpha)
    return Diag(full.mu if mean else right.mu, np.diag(full.Sigma) if variance else right.var)  # type: ignore[union-attr]


def _full_gain_variance(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> Diag:
    """The variances of the full update beside the right mean."""
    return _full_gain(name, prior, current, curv, alpha, mean=False)


def _precision_diagonal(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> Diag:
    """The mean of the full update beside the right variances."""
    return _full_gain(name, prior, current, curv, alpha, variance=False)


# fmt: off
OTHER_METHODS: tuple[Mistake, ...] = (
    Mistake("moments-for-natural", "the update in moment parameters (the _mom family) in place of the one in natural parameters",
        "step", as_method(_other_family), ALL, in_families("fc", "diag")),
    Mistake("natural-for-moments", "the update in natural parameters in place of the one in moment parameters (the _mom family)",
        "step", as_method(_other_family), ALL, in_families("fc_mom", "diag_mom")),
    *(
        Mistake(f"rule-{new}", f"the update of {new}", "step", as_method(_other_rule(new)), ALL, not_rule(new))
        for new in ("bong", "blr", "bog", "bbb")
    ),
    Mistake("full-gain",
        "the full gain in a diagonal family (the diagonal of the full-covariance posterior, with the off-diagonal entries of G)",
        "step", lambda step: _full_gain, ALL, DIAG),
    Mistake("full-gain-mean", "the full gain in the mean of a diagonal family (the off-diagonal entries of G)", "step",
        lambda step: _precision_diagonal, ("mu",), DIAG),
    Mistake("full-gain-variance", "the full gain in the variances of a diagonal family (the off-diagonal entries of G)", "step",
        lambda step: _full_gain_variance, ("var",), DIAG),
)
# fmt: on


# --- the step: its result ------------------------------------------------------------------------------------------------------


def _start(name: str, prior: State, current: State) -> State:
    return current if name.split("-")[0] in ("blr", "bbb") else prior


def _matrix(q: State) -> Array:
    """The covariance as a matrix."""
    if isinstance(q, DLR):
        return dlr.covariance(q)
    return q.Sigma if isinstance(q, FC) else np.diag(q.var)


def _mean_with(which: str) -> Callable[..., State]:
    """The mean moved by another covariance than the one of the equation."""

    def change(name: str, prior: State, current: State, curv: Curv, result: State) -> State:
        start = _start(name, prior, current)
        natural = not name.endswith("_mom")
        used = _matrix(result if natural else start)
        other = _matrix({"prior": prior, "current": current, "new": result}[which])
        return result._replace(mu=start.mu + other @ np.linalg.solve(used, result.mu - start.mu))

    return change


def _keep(*fields: str) -> Callable[..., State]:
    return lambda name, prior, current, curv, result: with_field(result, _start(name, prior, current), fields)


def _projected(change: Callable[[Array, Array, int], tuple[Array, Array]], mean: bool = False) -> Callable:
    """bong and blr in DLR with another projection; ``mean``: the mean from the projected precision too."""

    def wrong(step: Callable) -> Callable:
        def fn(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
            right = step(name, prior, current, curv, alpha)
            tilde = dlr._bong_tilde(prior, curv) if name.startswith("bong") else dlr._blr_tilde(prior, current, curv, alpha)
            new = DLR(right.mu, *change(*tilde, prior.W.shape[1]))
            if mean:
                pull = curv.g if name.startswith("bong") else alpha * dlr._pull(prior, current, curv)
                new = new._replace(mu=_start(name, prior, current).mu + dlr.covariance(new) @ pull)
            return new

        return fn

    return wrong


def _svd(W: Array) -> tuple[Array, Array, Array]:
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    return U, s, Vt


def _project(Ups: Array, W: Array, rank: int, power: float = 1.0, gain: str = "lost", last: bool = False) -> tuple[Array, Array]:
    """The projection with a slip: U Λ^power, what Υ gains, which columns are kept."""
    U, s, _ = _svd(W)
    if last:
        U, s = U[:, ::-1], s[::-1]
    kept, lost = U[:, :rank] * s[:rank], U[:, rank:] * s[rank:]
    gains = {
        "lost": (lost**2).sum(axis=1),
        "nothing": np.zeros(len(Ups)),
        "all": (W**2).sum(axis=1),
        "kept": (kept**2).sum(axis=1),
        "minus": -(lost**2).sum(axis=1),
        "sum": lost.sum(axis=1) ** 2,
        "once": np.abs(lost).sum(axis=1),
        "trace": np.full(len(Ups), (lost**2).sum() / len(Ups)),
        "columns": (W[:, rank:] ** 2).sum(axis=1),
    }
    return Ups + gains[gain], U[:, :rank] * s[:rank] ** power


PROJECTED = both(in_rules("bong", "blr"), LOW)


def projection(key: str, text: str, **slip: Any) -> Mistake:
    where = ("W W^T",) if "power" in slip else ("Ups",)
    return Mistake(key, text, "step", _projected(lambda U, W, r: _project(U, W, r, **slip)), where, PROJECTED)


# fmt: off
RESULTS: tuple[Mistake, ...] = (
    Mistake("mean-old-covariance", "the covariance of the prior in place of the new one in the mean", "step",
        on_result(_mean_with("prior")), ("mu",), in_families("fc", "diag", "dlr")),
    Mistake("mean-current-covariance", "the covariance of the last iterate in place of the new one in the mean", "step",
        on_result(_mean_with("current")), ("mu",), both(ITERATED, in_families("fc", "diag", "dlr"))),
    Mistake("mean-new-covariance", "the new covariance in place of the old one in the mean", "step", on_result(_mean_with("new")),
        ("mu",), in_families("fc_mom", "diag_mom")),
    Mistake("mean-not-updated", "a mean that is not updated", "step", on_result(_keep("mu")), ("mu",)),
    Mistake("covariance-not-updated", "a covariance that is not updated", "step", on_result(_keep(*SPREAD)), COV),
    Mistake("W-not-updated", "a W that is not updated", "step", on_result(_keep("W")), ("W W^T",), LOW),
    Mistake("Ups-not-updated", "a Ups that is not updated", "step", on_result(_keep("Ups")), ("Ups",), LOW),
    projection("Ups-lost-columns", "Ups that does not take up the columns that the projection drops from W", gain="nothing"),
    projection("Ups-all-columns", "Ups that takes up all of diag(W~ W~^T), not what W loses", gain="all"),
    projection("Ups-kept-columns", "Ups that takes up the columns that W keeps", gain="kept"),
    projection("Ups-loses", "Ups that falls by what W loses", gain="minus"),
    projection("Ups-square-of-sum", "the square of the sum of the lost columns in place of the sum of their squares", gain="sum"),
    projection("Ups-not-squared", "the lost columns added to Ups without being squared", gain="once"),
    projection("Ups-trace", "what W loses spread evenly over Ups (its mean)", gain="trace"),
    projection("Ups-columns", "the last columns of W~ itself, not of U Lambda, taken for what W loses", gain="columns"),
    projection("W-smallest", "the smallest singular vectors of W~ kept in place of the largest", last=True),
    projection("W-U", "W = U in place of U Lambda", power=0.0),
    projection("W-root", "W = U Lambda^(1/2) in place of U Lambda", power=0.5),
    projection("W-square", "W = U Lambda^2 in place of U Lambda", power=2.0),
    Mistake("W-first-columns", "the first columns of W~ kept, without a singular value decomposition", "step",
        _projected(lambda U, W, r: (U + (W[:, r:] ** 2).sum(axis=1), W[:, :r])), ("W W^T",), PROJECTED),
    Mistake("W-last-columns", "the last columns of W~ (the new ones) kept, without a singular value decomposition", "step",
        _projected(lambda U, W, r: (U + (W[:, :-r] ** 2).sum(axis=1), W[:, -r:])), ("W W^T",), PROJECTED),
    Mistake("projection-before-mean", "the projection before the mean (the mean moved by the projected covariance)", "step",
        _projected(dlr.project, mean=True), ("mu",), PROJECTED),
)
# fmt: on


# --- the forms that the paper prints -------------------------------------------------------------------------------------------


def _psi2(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
    return fc_nat.from_natural(*printed.bbb_fc_psi(prior, current, curv, alpha))


def _fisher_for_inverse(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
    from ..grid import method

    extra = {"rank": prior.W.shape[1]} if isinstance(prior, DLR) else {}
    return printed.blr_rule(method(name, alpha=alpha, **extra), prior, current, curv)


def _first_gradient(update: Callable) -> Callable:
    """bbb in DLR with g of the first iteration in the mean."""

    def wrong(pieces: Pieces, name: str, job: Job, prior: Any, samples: Array | None, params: dict[str, Any]) -> State:
        hess_, current, first = "-".join(name.split("-")[1:3]), prior, None
        for i in range(params.get("n_iter", 1)):
            curv = pieces.estimate(hess_, job, current.mu, None if samples is None else samples[i])
            first = curv if first is None else first
            current = printed.bbb_dlr(prior, current, curv, params["alpha"], first)
        return current

    return wrong


# fmt: off
PRINTED: tuple[Mistake, ...] = (
    Mistake("E36", "4 alpha Sigma g mu^T as printed, without its symmetric part (erratum bog-FC-symmetry)", "step",
        lambda step: lambda name, p, q, c, a: printed.bog_fc(p, None, c, a), ("Sigma",), both(in_rules("bog"), in_families("fc"))),
    Mistake("E36-bbb", "eq:bbb-FC-nat-prec as printed, without its symmetric part (erratum bog-FC-symmetry)", "step",
        lambda step: lambda name, p, q, c, a: printed.bbb_fc(p, q, c, a), ("Sigma",), both(in_rules("bbb"), in_families("fc"))),
    Mistake("E39", "Sigma_{t|t-1} G Sigma_{t|t-1} as printed in sec:FC-Nat#39, in place of the iterate's Sigma (erratum bbb-FC-psi2-G)",
        "step", lambda step: _psi2, ("Sigma",), both(in_rules("bbb"), in_families("fc"))),
    Mistake("E10", "F in place of F^-1 as printed in eq:blr (erratum blr-rule)", "step", lambda step: _fisher_for_inverse, ALL,
        both(in_rules("blr"), in_families("fc", "fc_mom", "diag", "diag_mom"), lambda case: case.level == "step")),
    Mistake("E60", "g of the first iteration in every iteration of the mean, as printed in eq:bbb-dlr-mu (erratum bbb-dlr-g)", "update",
        _first_gradient, ("mu",), both(in_rules("bbb"), LOW)),
)
# fmt: on


# --- the estimate --------------------------------------------------------------------------------------------------------------


def on_parts(change: Callable[[One], One]) -> Callable:
    """Changed parts of every observation."""
    return seen_as(lambda ones: [change(one) for one in ones])


def seen_as(change: Callable[[list[One]], list[One]]) -> Callable:
    """Another batch of observations."""
    return lambda job_: lambda job: job._replace(see=lambda j, theta: change(pipeline.see(j, theta)))


def on_estimate(change: Callable[[Curv, int], Curv]) -> Callable:
    """Another (g, G): ``change(curv, M)`` with M the number of samples."""
    return lambda estimate: (
        lambda hess, job, theta, samples: change(estimate(hess, job, theta, samples), 1 if samples is None else len(samples))
    )


def on_samples(change: Callable[[Array, Array], Array]) -> Callable:
    """Other samples: ``change(samples, theta)``."""
    return lambda estimate: lambda hess, job, theta, samples: estimate(hess, job, theta, change(pipeline._some(samples), theta))


def as_hess(new: str) -> Callable:
    return lambda estimate: lambda hess, job, theta, samples: estimate(new, job, theta, samples)


def G_times(c: Callable[[int], float]) -> Callable:
    return on_estimate(lambda curv, M: with_G(curv, c(M) * dense(curv)))


def g_times(c: Callable[[int], float]) -> Callable:
    return on_estimate(lambda curv, M: Curv(c(M) * curv.g, G=dense(curv)))


def both_times(c: Callable[[int], float]) -> Callable:
    return on_estimate(lambda curv, M: Curv(c(M) * curv.g, G=c(M) * dense(curv)))


def with_score(score: Callable[[One], Array]) -> Callable:
    return on_parts(lambda one: one._replace(score=score(one)))


def with_info(info: Callable[[One], Array]) -> Callable:
    return on_parts(lambda one: one._replace(info=info(one)))


def with_both(score: Callable[[One], Array], info: Callable[[One], Array]) -> Callable:
    return on_parts(lambda one: one._replace(score=score(one), info=info(one)))


def _only(a: Array, k: int) -> Array:
    out = 0 * a
    out[k] = a[k]
    return out


def _block(A: Array, k: int) -> Array:
    out = 0 * A
    out[k, k] = A[k, k]
    return out


def _root(one: One) -> Array:
    """The factor of R or R^-1 that S is made with."""
    if one.kind == "gaussian":
        return lower(inv(one.R))
    return np.diag(np.sqrt(one.h)) - np.outer(one.h, np.sqrt(one.h)) if one.kind == "categorical" else np.sqrt(one.R)


def _on_eigenvalues(A: Array, change: Callable[[Array], Array]) -> Array:
    w, Q = np.linalg.eigh(A)
    return (Q * change(w)) @ Q.T


def with_mean(link: Callable[[Array], Array]) -> Callable:
    """Another mean of y at the outputs, with the variance that goes with it."""

    def change(one: One) -> One:
        h = link(one.o)
        R = np.diag(h) - np.outer(h, h) if one.kind == "categorical" else np.diag(h * (1 - h) if one.kind == "bernoulli" else h)
        return one._replace(h=h, T=R, R=R, e=one.y - h, score=one.y - h, info=R)

    return on_parts(change)


def _softmax(o: Array) -> Array:
    return np.exp(o - o.max()) / np.exp(o - o.max()).sum()


def _mean_of(score: bool, info: bool) -> Callable:
    """The mean over the batch in place of the sum."""

    def change(ones: list[One]) -> list[One]:
        n = len(ones)
        return [one._replace(score=one.score / (n if score else 1), info=one.info / (n if info else 1)) for one in ones]

    return seen_as(change)


def _per_example(estimate: Callable) -> Callable:
    """The empirical Fisher from the gradients of the single observations of a batch."""

    def wrong(hess: str, job: Job, theta: Array, samples: Array | None) -> Curv:
        right = estimate(hess, job, theta, samples)
        points = [theta] if hess == "lin-ef" else list(pipeline._some(samples))
        grads = [one.J.T @ one.score for t in points for one in job.at(t)]
        return with_G(right, -sum(np.outer(v, v) for v in grads) / len(points))

    return wrong


def _of_gradients(outer: Callable[[Array], Array]) -> Callable:
    """MC-EF with another G of the sampled gradients (M, P)."""

    def wrong(estimate: Callable) -> Callable:
        def fn(hess: str, job: Job, theta: Array, samples: Array | None) -> Curv:
            grads = np.stack([pipeline.gradient(job.at(t)) for t in pipeline._some(samples)])
            return Curv(grads.mean(axis=0), G=outer(grads))

        return fn

    return wrong


def _gauss_newton(estimate: Callable) -> Callable:
    """MC-HESS without the second derivatives of the network."""

    def fn(hess: str, job: Job, theta: Array, samples: Array | None) -> Curv:
        batches = [job.at(t) for t in pipeline._some(samples)]
        g = sum(pipeline.gradient(b) for b in batches) / len(batches)
        return Curv(g, G=-sum(pipeline.fisher(b) for b in batches) / len(batches))

    return fn


def _g_at(point: Callable[[Array, Array], Array]) -> Callable:
    """g at another point than the samples, G as it should be."""

    def wrong(estimate: Callable) -> Callable:
        def fn(hess: str, job: Job, theta: Array, samples: Array | None) -> Curv:
            right = estimate(hess, job, theta, samples)
            return Curv(pipeline.gradient(job.at(point(theta, pipeline._some(samples)))), G=dense(right))

        return fn

    return wrong


def _G_at(point: Callable[[Array, Array], Array]) -> Callable:
    def wrong(estimate: Callable) -> Callable:
        def fn(hess: str, job: Job, theta: Array, samples: Array | None) -> Curv:
            right = estimate(hess, job, theta, samples)
            other = estimate(hess, job, theta, point(theta, pipeline._some(samples))[None])
            return Curv(right.g, G=dense(other))

        return fn

    return wrong


def lower(R: Array) -> Array:
    return np.linalg.cholesky(R)


def _diag_inverse(R: Array) -> Array:
    return np.diag(1 / np.diag(R))


def _transposed_factor(one: One) -> Array:
    A = lower(inv(one.R))
    return A.T @ A


def _transposed_root(one: One) -> Array:
    """Bᵀ B for the factor B Bᵀ: L^-ᵀ of a Gaussian, diag(√p) − p √pᵀ of a softmax."""
    if one.kind == "categorical":
        B = np.diag(np.sqrt(one.h)) - np.outer(one.h, np.sqrt(one.h))
        return B.T @ B
    L = np.linalg.inv(lower(one.R))
    return L @ L.T


def _identity(one: One) -> Array:
    return np.eye(len(one.o))


GAUSSIAN, LABELS, CLASSES, COUNTS = (with_kind(k) for k in ("gaussian", "bernoulli", "categorical", "poisson"))
NOT_GAUSSIAN = with_kind("bernoulli", "categorical", "poisson")
USES_INFO = HESS
gG = ("g", "G", "diag G")

# fmt: off
ESTIMATES: tuple[Mistake, ...] = (
    # over the samples
    Mistake("M-both", "no 1/M: the sum over the samples in place of their mean, in g and G", "estimate", both_times(lambda M: M), gG, MC),
    Mistake("M-G", "no 1/M in G: the sum over the samples in place of their mean", "estimate", G_times(lambda M: M), ("G",), MC),
    Mistake("M-g", "no 1/M in g: the sum over the samples in place of their mean", "estimate", g_times(lambda M: M), ("g",), MC),
    Mistake("M-twice-G", "1/M twice in G", "estimate", G_times(lambda M: 1 / M), ("G",), MC),
    Mistake("M-twice-g", "1/M twice in g", "estimate", g_times(lambda M: 1 / M), ("g",), MC),
    Mistake("M-root-G", "1/sqrt(M) in place of 1/M in G", "estimate", G_times(np.sqrt), ("G",), MC),
    Mistake("M-root-g", "1/sqrt(M) in place of 1/M in g", "estimate", g_times(np.sqrt), ("g",), MC),
    Mistake("M-1-G", "1/(M - 1) in place of 1/M in G", "estimate", G_times(lambda M: M / (M - 1)), ("G",), MC),
    Mistake("M-1-g", "1/(M - 1) in place of 1/M in g", "estimate", g_times(lambda M: M / (M - 1)), ("g",), MC),
    Mistake("M-1-both", "1/(M - 1) in place of 1/M in g and G", "estimate", both_times(lambda M: M / (M - 1)), gG, MC),
    Mistake("first-sample", "the first sample alone", "estimate", on_samples(lambda s, t: s[:1]), gG, MC),
    Mistake("last-sample", "the last sample alone", "estimate", on_samples(lambda s, t: s[-1:]), gG, MC),
    Mistake("not-first-sample", "the first sample left out", "estimate", on_samples(lambda s, t: s[1:]), gG, MC),
    Mistake("not-last-sample", "the last sample left out", "estimate", on_samples(lambda s, t: s[:-1]), gG, MC),
    Mistake("samples-not-used", "the samples not used: everything at the mean theta", "estimate", on_samples(lambda s, t: t[None]), gG,
        MC),
    Mistake("sample-mean", "everything at the mean of the samples", "estimate", on_samples(lambda s, t: s.mean(axis=0)[None]), gG, MC),
    Mistake("samples-as-noise", "the samples taken for noise: theta added to them", "estimate", on_samples(lambda s, t: s + t), gG, MC),
    Mistake("samples-less-theta", "theta subtracted from the samples (the noise alone)", "estimate", on_samples(lambda s, t: s - t), gG,
        MC),
    Mistake("samples-mirrored", "the samples mirrored at theta", "estimate", on_samples(lambda s, t: 2 * t - s), gG, MC),
    Mistake("g-at-theta", "g at the mean theta, not over the samples", "estimate", _g_at(lambda t, s: t), ("g",), MC),
    Mistake("g-first-sample", "g of the first sample alone", "estimate", _g_at(lambda t, s: s[0]), ("g",), MC),
    Mistake("g-last-sample", "g of the last sample alone", "estimate", _g_at(lambda t, s: s[-1]), ("g",), MC),
    Mistake("G-at-theta", "G at the mean theta, not over the samples", "estimate", _G_at(lambda t, s: t), ("G",), MC),
    Mistake("G-first-sample", "G of the first sample alone", "estimate", _G_at(lambda t, s: s[0]), ("G",), MC),
    Mistake("G-last-sample", "G of the last sample alone", "estimate", _G_at(lambda t, s: s[-1]), ("G",), MC),
    # the kind of estimator
    Mistake("ef-mean-gradient", "-g g^T of the mean gradient in place of the mean of the outer products", "estimate",
        _of_gradients(lambda g: -np.outer(g.mean(axis=0), g.mean(axis=0))), ("G",), with_hess("mc-ef")),
    Mistake("ef-sum-gradient", "the outer product of the summed gradient in place of the mean of the outer products", "estimate",
        _of_gradients(lambda g: -np.outer(g.sum(axis=0), g.sum(axis=0))), ("G",), with_hess("mc-ef")),
    Mistake("ef-centred", "the covariance of the gradients (the mean gradient subtracted) in place of their mean outer product",
        "estimate", _of_gradients(lambda g: -np.cov(g.T, bias=True).reshape(g.shape[1], -1)), ("G",), with_hess("mc-ef")),
    Mistake("E19", "the outer product of the gradients as it stands, without the minus sign and 1/M (erratum outer-product)",
        "estimate", _of_gradients(lambda g: printed.mc_ef_outer(g.T)), ("G",), with_hess("mc-ef")),
    Mistake("outer-sign", "+ in place of - before the outer product", "estimate", G_times(lambda M: -1), ("G",), EF),
    Mistake("G-sign-estimate", "the sign of G", "estimate", G_times(lambda M: -1), ("G",), HESS),
    Mistake("g-sign-estimate", "the sign of g (y - yhat the wrong way round)", "estimate", g_times(lambda M: -1), ("g",)),
    Mistake("nll", "g and G of the negative log-likelihood", "estimate", both_times(lambda M: -1), gG),
    Mistake("G-doubled-estimate", "2 G in place of G", "estimate", G_times(lambda M: 2), ("G",)),
    Mistake("G-halved-estimate", "G/2 in place of G", "estimate", G_times(lambda M: 0.5), ("G",)),
    Mistake("g-doubled-estimate", "2 g in place of g", "estimate", g_times(lambda M: 2), ("g",)),
    Mistake("g-halved-estimate", "g/2 in place of g", "estimate", g_times(lambda M: 0.5), ("g",)),
    Mistake("g-normalised-estimate", "g over its norm", "estimate",
        on_estimate(lambda c, M: Curv(c.g / np.linalg.norm(c.g), G=dense(c) / (c.g @ c.g))), gG, with_hess("lin-ef")),
    Mistake("both-doubled", "2 g and 2 G (log-likelihood without its 1/2)", "estimate", both_times(lambda M: 2), gG),
    Mistake("both-halved", "g/2 and G/2", "estimate", both_times(lambda M: 0.5), gG),
    *(
        Mistake(f"hess-{new}", f"the estimator {new}", "estimate", as_hess(new), gG, not_hess(new))
        for new in ("mc-hess", "mc-ef", "lin-hess", "lin-ef")
    ),
    Mistake("gauss-newton", "the Gauss-Newton matrix in place of the Hessian (no second derivatives of the network)", "estimate",
        _gauss_newton, ("G",), with_hess("mc-hess")),
    Mistake("G-diagonal-estimate", "the diagonal of G alone", "estimate",
        on_estimate(lambda c, M: with_G(c, np.diag(np.diag(dense(c))))), ("G",)),
    # over the batch
    Mistake("batch-mean", "the mean over the batch in place of the sum", "job", _mean_of(True, True), gG),
    Mistake("batch-mean-g", "the mean over the batch in place of the sum in g alone", "job", _mean_of(True, False), ("g",), HESS),
    Mistake("batch-mean-G", "the mean over the batch in place of the sum in G alone", "job", _mean_of(False, True), ("G",), HESS),
    Mistake("batch-first", "the first observation of the batch alone", "job", seen_as(lambda b: b[:1]), gG),
    Mistake("batch-last", "the last observation of the batch alone", "job", seen_as(lambda b: b[-1:]), gG),
    Mistake("per-example",
        "the sum of the outer products of each observation's gradient in place of the outer product of the batch's gradient",
        "estimate", _per_example, ("G",), EF),
    # Gaussian
    Mistake("E02", "F^T e and -F^T R F with F the Jacobian of the mean, where f must be the natural parameter (erratum f-is-natural)",
        "job", with_both(lambda o: o.T.T @ o.e, lambda o: o.T.T @ o.R @ o.T), gG),
    Mistake("R-missing", "no R^-1 in g and G (R taken as I)", "job", with_both(lambda o: o.e, _identity), gG, GAUSSIAN),
    Mistake("R-missing-g", "no R^-1 in g", "job", with_score(lambda o: o.e), ("g",), GAUSSIAN),
    Mistake("R-missing-G", "no R in G (-H^T H for a Gaussian, -F^T F for the others)", "job", with_info(_identity), ("G",),
        USES_INFO),
    Mistake("R-for-inverse", "R in place of R^-1 in g and G", "job", with_both(lambda o: o.R @ o.e, lambda o: o.R), gG, GAUSSIAN),
    Mistake("R-for-inverse-g", "R in place of R^-1 in g", "job", with_score(lambda o: o.R @ o.e), ("g",), GAUSSIAN),
    Mistake("R-for-inverse-G", "R in place of R^-1 in G", "job", with_info(lambda o: o.R), ("G",), both(GAUSSIAN, USES_INFO)),
    Mistake("R-diagonal", "the diagonal of R alone", "job", with_both(lambda o: o.e / np.diag(o.R), lambda o: _diag_inverse(o.R)),
        gG, GAUSSIAN),
    Mistake("R-diagonal-g", "the diagonal of R alone in g", "job", with_score(lambda o: o.e / np.diag(o.R)), ("g",), GAUSSIAN),
    Mistake("R-diagonal-G", "the diagonal of R alone in G", "job", with_info(lambda o: _diag_inverse(o.R)), ("G",),
        both(GAUSSIAN, USES_INFO)),
    Mistake("R-squared", "R read as a standard deviation (R^2 in place of R)", "job",
        with_both(lambda o: np.linalg.solve(o.R @ o.R, o.e), lambda o: inv(o.R @ o.R)), gG, GAUSSIAN),
    Mistake("R-root", "the Cholesky factor of R in place of R (a standard deviation where the variance belongs)", "job",
        with_both(lambda o: np.linalg.solve(lower(o.R), o.e), lambda o: np.linalg.inv(lower(o.R))), gG, GAUSSIAN),
    Mistake("R-root-g", "L^-1 e in place of R^-1 e in g", "job", with_score(lambda o: np.linalg.solve(lower(o.R), o.e)), ("g",),
        GAUSSIAN),
    Mistake("E55", "a transposed factor (Cholesky: A^T A with A A^T = R^-1, as printed, erratum chol)", "job",
        with_info(_transposed_factor), ("G",), both(GAUSSIAN, USES_INFO)),
    Mistake("R-transposed-root", "a transposed factor (Cholesky: L^-1 L^-T in place of L^-T L^-1 = R^-1)", "job",
        with_info(_transposed_root), ("G",), both(with_kind("gaussian", "categorical"), USES_INFO)),
    Mistake("R-transposed-g", "a transposed Cholesky factor in g: L^-1 L^-T e in place of L^-T L^-1 e", "job",
        with_score(lambda o: _transposed_root(o) @ o.e), ("g",), GAUSSIAN),
    # the others
    Mistake("logit-residual", "y - o, with the output in place of the mean", "job", with_score(lambda o: o.y - o.o), ("g",),
        NOT_GAUSSIAN),
    Mistake("squared-loss", "the gradient of the squared error (a further factor of the mean's derivative)", "job",
        with_score(lambda o: o.T.T @ o.e), ("g",), NOT_GAUSSIAN),
    Mistake("H-for-F", "H, the Jacobian of the mean, in place of F in both places of -F^T R F", "job",
        with_info(lambda o: o.T.T @ o.R @ o.T), ("G",), both(NOT_GAUSSIAN, USES_INFO)),
    Mistake("R-over-variance", "the residual over the variance: H^T R^-1 e with F in place of H", "job",
        with_score(lambda o: o.e / np.diag(o.R)), ("g",), NOT_GAUSSIAN),
    Mistake("missing-pp", "R = diag(p) without - p p^T", "job", with_info(lambda o: np.diag(o.h)), ("G",), both(CLASSES, USES_INFO)),
    Mistake("plus-pp", "R = diag(p) + p p^T", "job", with_info(lambda o: np.diag(o.h) + np.outer(o.h, o.h)), ("G",),
        both(CLASSES, USES_INFO)),
    Mistake("diag-R-softmax", "the diagonal of R, p (1 - p), alone", "job", with_info(lambda o: np.diag(np.diag(o.R))), ("G",),
        both(CLASSES, USES_INFO)),
    Mistake("p-for-variance", "p in place of p (1 - p)", "job", with_info(lambda o: np.diag(o.h)), ("G",), both(LABELS, USES_INFO)),
    Mistake("1-p-for-variance", "1 - p in place of p (1 - p)", "job", with_info(lambda o: np.diag(1 - o.h)), ("G",),
        both(LABELS, USES_INFO)),
    Mistake("std-for-variance", "the standard deviation in place of the variance in R", "job", with_info(lambda o: np.sqrt(o.R)),
        ("G",), both(with_kind("bernoulli", "poisson"), USES_INFO)),
    Mistake("variance-squared", "R^2 in place of R in G", "job", with_info(lambda o: o.R @ o.R), ("G",),
        both(NOT_GAUSSIAN, USES_INFO)),
    Mistake("inverse-variance", "1/R in place of R in G", "job", with_info(lambda o: np.diag(1 / np.diag(o.R))), ("G",),
        both(with_kind("bernoulli", "poisson"), USES_INFO)),
    Mistake("y-for-rate", "y in place of the rate in R", "job", with_info(lambda o: np.diag(o.y)), ("G",), both(COUNTS, USES_INFO)),
    Mistake("output-for-rate", "the log-rate in place of the rate in R", "job", with_info(lambda o: np.diag(o.o)), ("G",),
        both(COUNTS, USES_INFO)),
    *(
        Mistake(f"mean-{key}", text, "job", with_mean(link), gG, with_kind(*kinds))
        for key, text, link, kinds in (
            ("softplus", "the rate log(1 + exp(o)) in place of exp(o)", lambda o: np.logaddexp(0, o), ("poisson",)),
            ("identity", "the output itself as the rate, without exp", lambda o: o, ("poisson",)),
            ("sigmoid", "a sigmoid of each logit in place of the softmax", lambda o: 1 / (1 + np.exp(-o)), ("categorical",)),
            ("softmax", "a softmax over the outputs in place of a sigmoid of each", lambda o: np.exp(o) / np.exp(o).sum(), ("bernoulli",)),
            ("probit", "the normal distribution function in place of the sigmoid", ndtr, ("bernoulli",)),
            ("negative", "the sign of the logits", lambda o: 1 / (1 + np.exp(o)), ("bernoulli",)),
        )
    ),
    Mistake("score-halved", "(y - yhat)/2 in place of y - yhat", "job", with_score(lambda o: o.score / 2), gG, EF),
    Mistake("score-doubled", "2 (y - yhat) in place of y - yhat", "job", with_score(lambda o: 2 * o.score), gG, EF),
    Mistake("outputs-summed", "the columns of S of the outputs summed, in place of a column for each", "job",
        with_info(lambda o: np.outer(*(_root(o).sum(axis=1),) * 2)), ("G",), USES_INFO),
    Mistake("output-first", "the first output alone", "job", with_both(lambda o: _only(o.score, 0), lambda o: _block(o.info, 0)), gG),
    Mistake("output-first-g", "the first output alone in g", "job", with_score(lambda o: _only(o.score, 0)), ("g",)),
    Mistake("output-last", "the last output alone", "job", with_both(lambda o: _only(o.score, -1), lambda o: _block(o.info, -1)), gG),
    Mistake("outputs-mean", "the mean over the outputs in place of the sum", "job",
        with_both(lambda o: o.score / len(o.o), lambda o: o.info / len(o.o)), gG),
    Mistake("G-negative", "the positive eigenvalues of G set to 0", "estimate",
        on_estimate(lambda c, M: with_G(c, _on_eigenvalues(dense(c), lambda w: np.minimum(w, 0)))), ("G",), with_hess("mc-hess")),
    Mistake("G-eigen-absolute", "the positive eigenvalues of G made negative", "estimate",
        on_estimate(lambda c, M: with_G(c, _on_eigenvalues(dense(c), lambda w: -np.abs(w)))), ("G",), with_hess("mc-hess")),
    Mistake("score-absolute", "|y - yhat| in place of y - yhat", "job", with_score(lambda o: np.abs(o.score)), ("g",)),
    Mistake("residual-outer", "the outer product of y - yhat in place of R (an empirical Fisher of each observation)", "job",
        with_info(lambda o: np.outer(o.score, o.score)), ("G",), USES_INFO),
    Mistake("labels-inverted", "1 - y in place of y", "job", with_score(lambda o: 1 - o.y - o.h), ("g",), LABELS),
)
# fmt: on


# --- the network: another activation, another order of θ -----------------------------------------------------------------------


def network(**slip: Any) -> Callable:
    """The network with a slip in it."""
    return lambda job_: lambda job: job._replace(see=Network(**slip).see)


def reordered(order: Callable[[dict[str, Any]], Array]) -> Callable:
    """θ read in another order: entry k of the wrong reading is entry order[k] of the right one."""

    def look(job: Job, theta: Array) -> list[One]:
        p = order(job.model)
        back = np.argsort(p)
        ones = pipeline.see(job, theta[p])
        return [o._replace(J=o.J[:, back], network=lambda o=o: o.network()[:, back][:, :, back]) for o in ones]  # type: ignore[misc]

    return lambda job_: lambda job: job._replace(see=look)


def slope(first: Callable[[str | None, Array, Array, Array], Array], second: float = 1.0) -> Callable:
    """The activation with another derivative, ``first(name, z, s, s')``, and a multiple of its second one."""

    def wrong(name: str | None, z: Array) -> tuple[Array, Array, Array]:
        s, s1, s2 = pipeline.activation(name, z)
        return s, first(name, z, s, s1), second * s2

    return network(activation=wrong)


def _slope_of(other: str) -> Callable:
    def wrong(name: str | None, z: Array) -> tuple[Array, Array, Array]:
        return (pipeline.activation(name, z)[0], *pipeline.activation(other, z)[1:])

    return network(activation=wrong)


def _leaky(c: float) -> Callable:
    def wrong(name: str | None, z: Array) -> tuple[Array, Array, Array]:
        on = np.where(z > 0, 1.0, c)
        return z * on, on, 0 * z

    return network(activation=wrong)


def _largest(z: Array) -> Array:
    """The weights of max pooling."""
    return (z == z.max(axis=(1, 3), keepdims=True)).astype(float)


def _corner(z: Array) -> Array:
    """The weights of taking every other pixel."""
    out = np.zeros(z.shape)
    out[:, 0, :, 0] = 1
    return out


def _blocks(model: dict[str, Any]) -> list[tuple[str, Array]]:
    return [(str(b["name"]), np.arange(b["start"], b["stop"]).reshape(b["shape"])) for b in model["layout"]]


def _weights_transposed(model: dict[str, Any]) -> Array:
    """The reading of a weight (n_out, n_in) that was meant as (n_in, n_out)."""
    return np.concatenate([(b.reshape(b.shape[::-1]).T if b.ndim == 2 else b).reshape(-1) for _, b in _blocks(model)])


def _kernel_flipped(model: dict[str, Any]) -> Array:
    return np.concatenate([(b[::-1, ::-1] if b.ndim == 4 else b).reshape(-1) for _, b in _blocks(model)])


def _biases_first(model: dict[str, Any]) -> Array:
    blocks, starts, at = _blocks(model), {}, 0
    for k in range(0, len(blocks), 2):
        for j in (k + 1, k) if k + 1 < len(blocks) and blocks[k + 1][1].ndim == 1 else (k,):
            starts[j] = at
            at += blocks[j][1].size
    return np.concatenate([np.arange(starts[j], starts[j] + b.size) for j, (_, b) in enumerate(blocks)])


def _biases_last(model: dict[str, Any]) -> Array:
    blocks, starts, at = _blocks(model), {}, 0
    for j in sorted(range(len(blocks)), key=lambda j: (blocks[j][1].ndim == 1, j)):
        starts[j] = at
        at += blocks[j][1].size
    return np.concatenate([np.arange(starts[j], starts[j] + b.size) for j, (_, b) in enumerate(blocks)])


def _kernels(read: Callable[[Array], Array]) -> Callable:
    """Kernels that are read in another way."""
    return reordered(lambda model: np.concatenate([(read(b) if b.ndim == 4 else b).reshape(-1) for _, b in _blocks(model)]))


def _channels_first(model: dict[str, Any]) -> Array:
    """The weight after the convolutions that was meant for the order (c, h, w)."""
    blocks, out, conv = _blocks(model), [], 0
    h, w = model["in_shape"][:2]
    for _, b in blocks:
        if b.ndim == 4:
            h, w, conv = h // 2, w // 2, b.shape[-1]
        elif b.ndim == 2 and conv:
            b, conv = b.reshape(len(b), conv, h, w).transpose(0, 2, 3, 1), 0
        out.append(b.reshape(-1))
    return np.concatenate(out)


def _convolved(case: Case) -> bool:
    return _networked(case) and case.input["model"]["kind"] == "cnn"


def _activated(*names: str) -> Callable[[Case], bool]:
    return lambda case: _networked(case) and case.input["model"]["activation"] in names


def _biased(case: Case) -> bool:
    return "model" in case.input and bool(case.input["model"]["bias"])


def _networked(case: Case) -> bool:
    return "model" in case.input and case.input["model"]["kind"] != "linear"


# fmt: off
NETWORKS: tuple[Mistake, ...] = (
    Mistake("theta-transposed", "weights read as (n_in, n_out), or in Fortran order, in place of (n_out, n_in)", "job",
        reordered(_weights_transposed), gG),
    Mistake("theta-biases-first", "the bias of each layer read before its weight", "job", reordered(_biases_first), gG),
    Mistake("theta-biases-last", "all biases read after all weights", "job", reordered(_biases_last), gG),
    Mistake("kernel-flipped", "a flipped kernel (a convolution in place of the cross-correlation)", "job",
        reordered(_kernel_flipped), gG, _convolved),
    Mistake("kernel-transposed", "a kernel with its height and width exchanged", "job",
        _kernels(lambda b: b.reshape(b.shape[1], b.shape[0], *b.shape[2:]).transpose(1, 0, 2, 3)), gG, _convolved),
    Mistake("kernel-channels-first", "a kernel read as (c_out, c_in, kh, kw) in place of (kh, kw, c_in, c_out)", "job",
        _kernels(lambda b: b.reshape(b.shape[3], b.shape[2], *b.shape[:2]).transpose(2, 3, 1, 0)), gG, _convolved),
    Mistake("kernel-channels-swapped", "a kernel read as (kh, kw, c_out, c_in) in place of (kh, kw, c_in, c_out)", "job",
        _kernels(lambda b: b.reshape(*b.shape[:2], b.shape[3], b.shape[2]).transpose(0, 1, 3, 2)), gG, _convolved),
    Mistake("kernel-fortran", "a kernel in Fortran order", "job", _kernels(lambda b: b.reshape(-1).reshape(b.shape, order="F")), gG,
        _convolved),
    Mistake("flatten-channels-first", "channels first, (c, h, w), where the image is flattened", "job", reordered(_channels_first), gG,
        _convolved),
    Mistake("pool-sum", "a pooling that sums in place of averaging", "job", network(pool=np.ones_like), gG, _convolved),
    Mistake("pool-max", "max pooling in place of average pooling", "job", network(pool=_largest), gG, _convolved),
    Mistake("pool-corner", "every other pixel in place of the average over 2 x 2", "job", network(pool=_corner), gG, _convolved),
    *(
        Mistake(f"pad-{pad}", f"padding by {words} in place of zeros", "job", network(pad=pad), gG, _convolved)
        for pad, words in (("edge", "the pixel at the edge"), ("reflect", "reflection"), ("wrap", "the other side"))
    ),
    Mistake("bias-missing", "no bias in the outputs (its derivative is there)", "job", network(bias=0.0), gG, _biased),
    Mistake("bias-missing-all", "no bias", "job", network(bias=0.0, bias_slope=0.0), gG, _biased),
    Mistake("bias-slope-missing", "no derivative in the biases", "job", network(bias_slope=0.0), gG, _biased),
    Mistake("bias-sign", "the sign of the biases", "job", network(bias=-1.0, bias_slope=-1.0), gG, _biased),
    Mistake("activation-last", "an activation after the last layer too", "job", network(last=True), gG, _networked),
    *(
        Mistake(f"activation-{name}", f"the activation {name}", "job",
            network(activation=lambda _, z, name=name: pipeline.activation(name, z)), gG, not_activation(name))
        for name in ("tanh", "relu", "gelu", "gelu_tanh", "sigmoid", "silu", "softplus", "elu")
    ),
    Mistake("activation-none", "no activation", "job", network(activation=lambda _, z: pipeline.activation(None, z)), gG, _networked),
    Mistake("slope-missing", "the derivative of the activation left out", "job", _slope_of("identity"), gG, _networked),
    *(
        Mistake(f"slope-{name}", f"the derivative of {name} in place of the activation's own", "job", _slope_of(name), gG,
            not_activation(name))
        for name in ("tanh", "relu", "gelu", "gelu_tanh", "sigmoid")
    ),
    Mistake("slope-at-output", "the derivative of the activation at its value s(z), not at z", "job",
        slope(lambda name, z, s, s1: pipeline.activation(name, s)[1]), gG, _networked),
    Mistake("slope-1-s", "1 - s in place of 1 - s^2 for the derivative of tanh", "job", slope(lambda name, z, s, s1: 1 - s), gG,
        _activated("tanh")),
    Mistake("slope-s-1-s", "s (1 - s) in place of 1 - s^2 for the derivative of tanh", "job",
        slope(lambda name, z, s, s1: s * (1 - s)), gG, _activated("tanh")),
    Mistake("slope-plus", "1 + s^2 in place of 1 - s^2 for the derivative of tanh", "job", slope(lambda name, z, s, s1: 1 + s**2), gG,
        _activated("tanh")),
    Mistake("slope-half-product", "Phi(z) alone for the derivative of gelu, without z phi(z)", "job",
        slope(lambda name, z, s, s1: np.where(z == 0, 0.5, s / z)), gG, _activated("gelu", "gelu_tanh")),
    Mistake("curvature-missing", "no second derivative of the activation in the Hessian", "job",
        slope(lambda name, z, s, s1: s1, 0.0), ("G",), both(_networked, with_hess("mc-hess"))),
)
# fmt: on


# --- the inner loop ------------------------------------------------------------------------------------------------------------


def loop(
    start: Callable[[State, State], State] = lambda prior, current: current,
    prior_of: Callable[[State, State], State] = lambda prior, current: prior,
    point: Callable[[State, State], State] = lambda prior, current: current,
    extra: int = 0,
    samples_of: Callable[[Array, int, Array, Array], Array] = lambda samples, i, mu0, mu: samples[i],
    alpha_of: Callable[[float, int, int], float] = lambda alpha, i, n: alpha,
    keep: str = "",
) -> Callable:
    """The inner loop with one slip in it."""

    def wrong(update: Callable) -> Callable:
        def fn(pieces: Pieces, name: str, job: Job, prior: State, samples: Array | None, params: dict[str, Any]) -> State:
            hess_, current, first = "-".join(name.split("-")[1:3]), prior, None
            n = params.get("n_iter", 1)
            for i in range(n + extra):
                at = point(prior, current).mu
                here = None if samples is None else samples_of(samples, min(i, n - 1), prior.mu, current.mu)
                curv = pieces.estimate(hess_, job, at, here)
                if first is not None and keep:
                    curv = Curv(first.g if "g" in keep else curv.g, G=dense(first if "G" in keep else curv))
                first = curv if first is None else first
                begin = start(prior, current)
                current = pieces.step(name, prior_of(prior, current), begin, curv, alpha_of(params.get("alpha", 1), i, n))
            return current

        return fn

    return wrong


def _one_by_one(update: Callable) -> Callable:
    """The observations of a batch one after another."""

    def fn(pieces: Pieces, name: str, job: Job, prior: State, samples: Array | None, params: dict[str, Any]) -> State:
        if not pipeline.is_batch(job.model, job.x):
            raise ValueError("there is no batch")
        for x, y in zip(job.x, job.y, strict=True):
            prior = update(pieces, name, job._replace(x=x, y=y), prior, samples, params)
        return prior

    return fn


# fmt: off
LOOPS: tuple[Mistake, ...] = (
    Mistake("loop-restarts", "an inner loop that restarts at the prior in every iteration", "update", loop(start=lambda p, q: p), ALL,
        ITERATED),
    Mistake("loop-moves-prior", "an inner loop that moves the prior along with the iterate", "update", loop(prior_of=lambda p, q: q),
        ALL, ITERATED),
    Mistake("loop-one-less", "one inner iteration too few", "update", loop(extra=-1), ALL, ITERATED),
    Mistake("loop-restarts-all", "an inner loop that restarts at the prior in every iteration, the estimate too", "update",
        loop(start=lambda p, q: p, point=lambda p, q: p), ALL, ITERATED),
    Mistake("loop-one-more", "one inner iteration too many", "update", loop(extra=1), ALL, ITERATED),
    Mistake("loop-linearises-at-prior", "every inner iteration linearised at the prior's mean", "update", loop(point=lambda p, q: p),
        ALL, both(ITERATED, LIN)),
    Mistake("loop-first-samples", "the samples of the first inner iteration in every iteration", "update",
        loop(samples_of=lambda s, i, m0, m: s[0]), ALL, both(ITERATED, MC)),
    Mistake("loop-last-samples", "the samples of the inner iterations in reverse order", "update",
        loop(samples_of=lambda s, i, m0, m: s[len(s) - 1 - i]), ALL, both(ITERATED, MC)),
    Mistake("loop-pooled", "the samples of all inner iterations in every iteration", "update",
        loop(samples_of=lambda s, i, m0, m: s.reshape(-1, s.shape[-1])), ALL, both(ITERATED, MC)),
    Mistake("loop-moved-samples", "samples moved with the iterate (the samples are the theta themselves, not noise)", "update",
        loop(samples_of=lambda s, i, m0, m: s[i] - m0 + m), ALL, both(ITERATED, MC)),
    Mistake("loop-alpha-decays", "alpha over the number of the iteration", "update", loop(alpha_of=lambda a, i, n: a / (i + 1)), ALL,
        ITERATED),
    Mistake("loop-alpha-shared", "alpha over the number of iterations", "update", loop(alpha_of=lambda a, i, n: a / n), ALL, ITERATED),
    Mistake("loop-alpha-power", "alpha to the power of the iteration", "update", loop(alpha_of=lambda a, i, n: a ** (i + 1)), ALL,
        ITERATED),
    Mistake("loop-alpha-times", "alpha times the number of the iteration", "update", loop(alpha_of=lambda a, i, n: a * (i + 1)), ALL,
        ITERATED),
    Mistake("loop-keeps-g", "g of the first inner iteration in every iteration", "update", loop(keep="g"), ALL, ITERATED),
    Mistake("loop-keeps-G", "G of the first inner iteration in every iteration", "update", loop(keep="G"), ALL, ITERATED),
    Mistake("loop-keeps-gG", "g and G of the first inner iteration in every iteration", "update", loop(keep="gG"), ALL, ITERATED),
    Mistake("batch-one-by-one", "the observations of a batch one after another in place of one likelihood", "update", _one_by_one, ALL),
)
# fmt: on


# --- the prediction ------------------------------------------------------------------------------------------------------------


def moved(change: Callable[[Array, Array, Array, dict[str, Any]], tuple[Array, Array, Array]]) -> Callable:
    """The prediction with other F, b, Q (full matrices or diagonals)."""

    def wrong(predict: Callable) -> Callable:
        def fn(state: State, dynamics: dict[str, Any]) -> State:
            from ..dynamics import matrices

            F, b, Q = change(*matrices(vectors.dynamics(dynamics), len(state.mu)), dynamics)
            return predict(state, {"kind": "linear", "F": F, "b": b, "Q": Q})

        return fn

    return wrong


def _inside(F: Array, b: Array, Q: Array, d: dict[str, Any]) -> tuple[Array, Array, Array]:
    if F.ndim == Q.ndim == 1:
        return F, b, F**2 * Q
    F2, Q2 = (np.diag(a) if a.ndim == 1 else a for a in (F, Q))
    return F, b, F2 @ Q2 @ F2.T


def ou(F: Callable[[float], float], b: Callable[[float], float], Q: Callable[[float], float]) -> Callable:
    """OU with other functions of γ."""

    def change(F_: Array, b_: Array, Q_: Array, d: dict[str, Any]) -> tuple[Array, Array, Array]:
        if d["kind"] != "ou":
            raise ValueError("not an OU process")
        c, mu0, var0 = d["gamma"], np.asarray(d["mu0"], dtype=float), np.asarray(d["var0"], dtype=float)
        return np.full(len(b_), F(c)), b(c) * mu0 * np.ones(len(b_)), Q(c) * var0 * np.ones(len(b_))

    return moved(change)


def _predicted(change: Callable[[State, State, dict[str, Any]], State]) -> Callable:
    return lambda predict: lambda state, dynamics: change(state, predict(state, dynamics), dynamics)


def _unsquared(state: State, right: State, dynamics: dict[str, Any]) -> State:
    """F Σ + Q."""
    from ..dynamics import matrices

    F, _, Q = matrices(vectors.dynamics(dynamics), len(state.mu))
    if isinstance(state, Diag):
        return Diag(right.mu, F * state.var + Q)
    M = (np.diag(F) if F.ndim == 1 else F) @ _matrix(state) + (np.diag(Q) if Q.ndim == 1 else Q)
    if isinstance(state, FC):
        return FC(right.mu, M)
    raise ValueError("not of the family")


def _without_transpose(state: State, right: State, dynamics: dict[str, Any]) -> State:
    """F Σ F + Q."""
    from ..dynamics import matrices

    F, _, Q = matrices(vectors.dynamics(dynamics), len(state.mu))
    if not isinstance(state, FC) or F.ndim == 1:
        raise ValueError("not of the family")
    return FC(right.mu, F @ state.Sigma @ F + (np.diag(Q) if Q.ndim == 1 else Q))


def _on_precision(state: State, right: State, dynamics: dict[str, Any]) -> State:
    """DLR with Υ and W moved as if they were a covariance."""
    from ..dynamics import matrices

    F, _, Q = matrices(vectors.dynamics(dynamics), len(state.mu))
    if not isinstance(state, DLR):
        raise ValueError("not of the family")
    return DLR(right.mu, F**2 * state.Ups + Q, F[:, None] * state.W)


def _dlr_only(change: Callable[[DLR, Any, Array, Array], DLR]) -> Callable:
    def fn(state: State, right: State, dynamics: dict[str, Any]) -> State:
        from ..dynamics import matrices

        F, _, Q = matrices(vectors.dynamics(dynamics), len(state.mu))
        if not isinstance(state, DLR):
            raise ValueError("not of the family")
        return change(state, right, F, Q)

    return _predicted(fn)


# fmt: off
PREDICTIONS: tuple[Mistake, ...] = (
    Mistake("predict-nothing", "no prediction", "predict", _predicted(lambda q, r, d: q), ALL),
    Mistake("predict-no-Q", "no Q", "predict", moved(lambda F, b, Q, d: (F, b, 0 * Q)), COV),
    Mistake("predict-no-b", "no b (the mean moved towards 0)", "predict", moved(lambda F, b, Q, d: (F, 0 * b, Q)), ("mu",)),
    Mistake("predict-no-F", "no F", "predict", moved(lambda F, b, Q, d: (np.ones(len(b)), b, Q)), ALL),
    Mistake("predict-mean-kept", "a mean that is not moved", "predict", _predicted(lambda q, r, d: r._replace(mu=q.mu)), ("mu",)),
    Mistake("predict-covariance-kept", "a covariance that is not moved", "predict", _predicted(lambda q, r, d: q._replace(mu=r.mu)), COV),
    Mistake("predict-F-once", "F once in place of twice in the covariance (F Sigma + Q)", "predict", _predicted(_unsquared), COV),
    Mistake("predict-F-transposed", "F^T in place of F", "predict", moved(lambda F, b, Q, d: (F.T, b, Q)), ALL),
    Mistake("predict-F-transposed-covariance", "F^T Sigma F in place of F Sigma F^T", "predict",
        lambda predict: lambda q, d: moved(lambda F, b, Q, d: (F.T, b, Q))(predict)(q, d)._replace(mu=predict(q, d).mu), COV),
    Mistake("predict-F-F", "F Sigma F without the transpose", "predict", _predicted(_without_transpose), COV, FULL),
    Mistake("predict-F-F-symmetric", "F Sigma F without the transpose, made symmetric", "predict",
        _predicted(lambda q, r, d: spread(_without_transpose(q, r, d), sym)), COV, FULL),
    Mistake("predict-b-sign", "the sign of b", "predict", moved(lambda F, b, Q, d: (F, -b, Q)), ("mu",)),
    Mistake("predict-Q-squared", "Q^2 in place of Q (Q read as a standard deviation)", "predict",
        moved(lambda F, b, Q, d: (F, b, square(Q))), COV),
    Mistake("predict-Q-root", "sqrt(Q) in place of Q", "predict", moved(lambda F, b, Q, d: (F, b, np.sqrt(Q))), COV),
    Mistake("predict-Q-doubled", "2 Q in place of Q", "predict", moved(lambda F, b, Q, d: (F, b, 2 * Q)), COV),
    Mistake("ou-no-drift", "Q = var0 without 1 - gamma^2", "predict", ou(lambda c: c, lambda c: 1 - c, lambda c: 1), COV),
    Mistake("ou-Q-linear", "Q = (1 - gamma) var0 in place of (1 - gamma^2) var0", "predict",
        ou(lambda c: c, lambda c: 1 - c, lambda c: 1 - c), COV),
    Mistake("ou-Q-square", "Q = (1 - gamma)^2 var0 in place of (1 - gamma^2) var0", "predict",
        ou(lambda c: c, lambda c: 1 - c, lambda c: (1 - c) ** 2), COV),
    Mistake("ou-Q-gamma2", "Q = gamma^2 var0 in place of (1 - gamma^2) var0", "predict",
        ou(lambda c: c, lambda c: 1 - c, lambda c: c**2), COV),
    Mistake("ou-b-full", "b = mu0 in place of (1 - gamma) mu0", "predict", ou(lambda c: c, lambda c: 1, lambda c: 1 - c**2), ("mu",)),
    Mistake("ou-b-square", "b = (1 - gamma^2) mu0 in place of (1 - gamma) mu0", "predict",
        ou(lambda c: c, lambda c: 1 - c**2, lambda c: 1 - c**2), ("mu",)),
    Mistake("ou-b-gamma", "b = gamma mu0 in place of (1 - gamma) mu0", "predict", ou(lambda c: c, lambda c: c, lambda c: 1 - c**2),
        ("mu",)),
    Mistake("ou-gamma-drift", "gamma as the degree of drift: 1 - gamma in its place", "predict",
        ou(lambda c: 1 - c, lambda c: c, lambda c: 1 - (1 - c) ** 2), ALL),
    Mistake("ou-swapped", "gamma and 1 - gamma exchanged in the mean and F: F = 1 - gamma, b = gamma mu0", "predict",
        ou(lambda c: 1 - c, lambda c: c, lambda c: 1 - c**2), ALL),
    Mistake("predict-F-on-Q", "F (Sigma + Q) F^T in place of F Sigma F^T + Q", "predict", moved(_inside), COV),
    Mistake("ou-gamma-square", "gamma^2 in place of gamma", "predict", ou(lambda c: c**2, lambda c: 1 - c**2, lambda c: 1 - c**4), ALL),
    Mistake("ou-gamma-root", "sqrt(gamma) in place of gamma", "predict", ou(np.sqrt, lambda c: 1 - np.sqrt(c), lambda c: 1 - c), ALL),
    Mistake("dlr-on-precision", "F and Q applied to the precision as if it were a covariance", "predict", _predicted(_on_precision),
        COV, LOW),
    Mistake("dlr-W-kept", "a W that is not moved", "predict", _dlr_only(lambda q, r, F, Q: r._replace(W=q.W)), ("W W^T",), LOW),
    Mistake("dlr-W-over-F", "W over F, without Q", "predict", _dlr_only(lambda q, r, F, Q: r._replace(W=q.W / F[:, None])), ("W W^T",),
        LOW),
    Mistake("dlr-W-no-core", "W without (I + W^T Q W)^-1/2", "predict",
        _dlr_only(lambda q, r, F, Q: r._replace(W=q.W * (F / (F**2 + Q * q.Ups))[:, None])), ("W W^T",), LOW),
    Mistake("dlr-Ups-kept", "a Ups that is not moved", "predict", _dlr_only(lambda q, r, F, Q: r._replace(Ups=q.Ups)), ("Ups",), LOW),
    Mistake("dlr-Ups-variance", "Ups moved as a variance (F^2 Ups + Q)", "predict",
        _dlr_only(lambda q, r, F, Q: r._replace(Ups=F**2 * q.Ups + Q)), ("Ups",), LOW),
)
# fmt: on


# --- the stream ----------------------------------------------------------------------------------------------------------------


def stream(
    before: Callable[[int, bool], bool] = lambda t, seen: True,
    after: bool = False,
    missing: str = "",
    x_at: Callable[[int, int], int] = lambda t, T: t,
    y_at: Callable[[int, int], int] = lambda t, T: t,
    s_at: Callable[[int, int], int] = lambda t, T: t,
    reset: Callable[[State, State], State] = lambda first, state: state,
    ahead: bool = False,
    unseen: Callable[[int, int], bool] = lambda t, T: False,
) -> Callable:
    """A stream with one slip in it. ``before(t, seen)``: whether there is a prediction before step t."""

    def wrong(run: Callable) -> Callable:
        def fn(pieces: Pieces, name: str, given: dict[str, Any]) -> Iterator[State]:
            first = state = vectors.state(name.split("-")[-1], given["prior"])
            T = len(given["X"])
            for t in range(T):
                x, y = given["X"][x_at(t, T)], given["Y"][y_at(t, T)]
                state = reset(first, state)
                if before(t, y is not None):
                    state = pieces.predict(state, given["dynamics"])
                if y is None and missing == "zero":
                    y = np.zeros_like(next(v for v in given["Y"] if v is not None))
                if y is None and missing == "mean":
                    job = pieces.seen(given, x, np.zeros_like(next(v for v in given["Y"] if v is not None)))
                    y = np.stack([one.h for one in job.at(state.mu)]).reshape(np.shape(job.y))
                if y is not None and not unseen(t, T):
                    here = pipeline._at(given["samples"], s_at(t, T))
                    state = pieces.update(pieces, name, pieces.seen(given, x, y), state, here, given["params"])
                if after:
                    state = pieces.predict(state, given["dynamics"])
                yield pieces.predict(state, given["dynamics"]) if ahead else state

        return fn

    return wrong


# fmt: off
STREAMS: tuple[Mistake, ...] = (
    Mistake("stream-no-predict", "no prediction between the observations", "run", stream(before=lambda t, seen: False)),
    Mistake("stream-predict-after", "the prediction after the update in place of before it", "run",
        stream(lambda t, seen: False, after=True)),
    Mistake("stream-predict-not-first", "no prediction before the first observation", "run", stream(lambda t, seen: t > 0)),
    Mistake("stream-predict-once", "a prediction before the first observation alone", "run", stream(lambda t, seen: t == 0)),
    Mistake("stream-predict-even", "a prediction before every other observation alone", "run", stream(lambda t, seen: t % 2 == 0)),
    Mistake("stream-last-unused", "the last observation not used", "run", stream(unseen=lambda t, T: t == T - 1)),
    Mistake("stream-first-unused", "the first observation not used", "run", stream(unseen=lambda t, T: t == 0)),
    Mistake("stream-predict-twice", "two predictions for each observation", "run", stream(after=True)),
    Mistake("stream-ahead", "the predictions for the next step returned in place of the states", "run", stream(ahead=True)),
    Mistake("stream-missing-skips", "a missing observation that skips the prediction too", "run", stream(lambda t, seen: seen)),
    Mistake("stream-missing-zero", "a missing observation taken as 0", "run", stream(missing="zero")),
    Mistake("stream-missing-mean", "a missing observation taken as the predicted mean", "run", stream(missing="mean")),
    Mistake("stream-x-late", "the input of the step before", "run", stream(x_at=lambda t, T: max(t - 1, 0))),
    Mistake("stream-x-rolled", "the input of the step before (the last one in the first step)", "run", stream(x_at=lambda t, T: t - 1)),
    Mistake("stream-y-rolled", "the observation of the step before (the last one in the first step)", "run",
        stream(y_at=lambda t, T: t - 1)),
    Mistake("stream-x-early", "the input of the next step", "run", stream(x_at=lambda t, T: min(t + 1, T - 1))),
    Mistake("stream-y-late", "the observation of the step before", "run", stream(y_at=lambda t, T: max(t - 1, 0))),
    Mistake("stream-y-early", "the observation of the next step", "run", stream(y_at=lambda t, T: min(t + 1, T - 1))),
    Mistake("stream-first-x", "the first input in every step", "run", stream(x_at=lambda t, T: 0)),
    Mistake("stream-first-samples", "the samples of the first step in every step", "run", stream(s_at=lambda t, T: 0), (), MC),
    Mistake("stream-samples-late", "the samples of the step before", "run", stream(s_at=lambda t, T: max(t - 1, 0)), (), MC),
    Mistake("stream-samples-early", "the samples of the next step", "run", stream(s_at=lambda t, T: min(t + 1, T - 1)), (), MC),
    Mistake("stream-reversed", "the stream in reverse order", "run",
        stream(lambda t, s: True, False, "", *(lambda t, T: T - 1 - t,) * 3)),
    Mistake("stream-resets", "every step from the first prior", "run", stream(reset=lambda first, state: first)),
    Mistake("stream-resets-covariance", "every step from the covariance of the first prior (only the mean is carried on)", "run",
        stream(reset=lambda first, state: first._replace(mu=state.mu))),
    Mistake("stream-resets-mean", "every step from the mean of the first prior (only the covariance is carried on)", "run",
        stream(reset=lambda first, state: state._replace(mu=first.mu))),
)
# fmt: on


# --- the predictive distribution -----------------------------------------------------------------------------------------------


def as_kind(new: str) -> Callable:
    return lambda predictive: lambda kind, job, mu, samples: predictive(new, job, mu, samples)


def on_summary(change: Callable[[Values, Any, Array], Values]) -> Callable:
    """Other numbers of the same predictive: ``change(values, predictive, Y)``."""

    def wrong(predictive: Callable) -> Callable:
        def fn(kind: str, job: Job, mu: Array, samples: Array | None) -> Values:
            pred = _mixture(kind, job, mu, samples)
            return change(pipeline.summary(pred, job.y), pred, job.y)

        return fn

    return wrong


def _mixture(kind: str, job: Job, mu: Array, samples: Array | None) -> Any:
    from ..predictive import Predictive

    lik, points = vectors.likelihood(job.likelihood), job.at(mu)
    if kind == "lin_mc":
        h = np.stack([[p.h + p.T @ p.J @ (t - mu) for p in points] for t in pipeline._some(samples)])
        return Predictive(kind, lik, h, True)
    thetas = [mu] if kind == "plugin" else pipeline._some(samples)
    return Predictive(kind, lik, np.stack([[p.o for p in job.at(t)] for t in thetas]))


def _linear_outputs(predictive: Callable) -> Callable:
    from ..predictive import Predictive

    def fn(kind: str, job: Job, mu: Array, samples: Array | None) -> Values:
        o = np.stack([[p.o + p.J @ (t - mu) for p in job.at(mu)] for t in pipeline._some(samples)])
        return pipeline.summary(Predictive(kind, vectors.likelihood(job.likelihood), o), job.y)

    return fn


def _mean_of_outputs(predictive: Callable) -> Callable:
    from ..predictive import Predictive

    def fn(kind: str, job: Job, mu: Array, samples: Array | None) -> Values:
        o = np.stack([[p.o for p in job.at(t)] for t in pipeline._some(samples)]).mean(axis=0)
        return pipeline.summary(Predictive(kind, vectors.likelihood(job.likelihood), o[None]), job.y)

    return fn


def _output_slope(predictive: Callable) -> Callable:
    from ..predictive import Predictive

    def fn(kind: str, job: Job, mu: Array, samples: Array | None) -> Values:
        h = np.stack([[p.h + p.J @ (t - mu) for p in job.at(mu)] for t in pipeline._some(samples)])
        return pipeline.summary(Predictive(kind, vectors.likelihood(job.likelihood), h, True), job.y)

    return fn


def _logs(v: Values, logs: Array) -> Values:
    return {**v, "log_density": logs, "nlpd": -np.mean(logs)}


def _score(pred: Any, Y: Array, **slip: Any) -> Values:
    return pipeline.scores(*pipeline.labels(pred.mean, Y), **slip)


def _scored(**slip: Any) -> Callable:
    return on_summary(lambda v, p, Y: {**v, "ece": _score(p, Y, **slip)["ece"]})


def _with_mean(v: Values, mean: Array, Y: Array) -> Values:
    return {**v, "mean": mean, **(pipeline.scores(*pipeline.labels(mean, Y)) if "ece" in v else {})}


def _of_true_class(pred: Any, Y: Array) -> Array:
    p, y = pipeline.labels(pred.mean, Y)
    return (p * y).sum(axis=1)


def _bins(pred: Any, Y: Array) -> Array:
    """The gap between accuracy and confidence in each bin that is not empty."""
    p, y = pipeline.labels(pred.mean, Y)
    sure, hit = p.max(axis=1), p.argmax(axis=1) == y.argmax(axis=1)
    where = np.clip(np.ceil(sure * 20) - 1, 0, 19)
    return np.array([abs(np.mean((hit - sure)[where == b])) for b in np.unique(where)])


def _within(pred: Any) -> Array:
    parts = pred.lik.var_mean(pred.values) if pred.of_means else np.diagonal(pred.lik.var(pred.values), axis1=-2, axis2=-1)
    return parts.mean(axis=0)


def _mean_log(values: Values, pred: Any, Y: Array) -> Values:
    fn = pred.lik.log_prob_mean if pred.of_means else pred.lik.log_prob
    return _logs(values, np.asarray(fn(pred.values, pred.lik.encode(Y, Y.shape[-1], batch=len(Y)))).mean(axis=0))


def _shifted_samples(shift: Callable[[Array, Array], Array]) -> Callable:
    return lambda predictive: lambda kind, job, mu, samples: predictive(kind, job, mu, shift(pipeline._some(samples), mu))


def _of_kind(*kinds: str) -> Callable[[Case], bool]:
    return lambda case: case.subject.get("kind") in kinds


# fmt: off
PREDICTIVES: tuple[Mistake, ...] = (
    Mistake("predictive-plugin", "the plugin predictive", "predictive", as_kind("plugin"), (), _of_kind("mc", "lin_mc")),
    Mistake("predictive-mc", "the mc predictive (nothing linearised)", "predictive", as_kind("mc"), (), _of_kind("lin_mc")),
    Mistake("predictive-lin", "the linearised predictive", "predictive", as_kind("lin_mc"), (), _of_kind("mc")),
    Mistake("predictive-lin-f", "the outputs f linearised in place of the mean h", "predictive", _linear_outputs, (),
        _of_kind("lin_mc", "mc")),
    Mistake("predictive-mean-output", "the mean of the outputs in place of the mean of the means", "predictive", _mean_of_outputs, (),
        _of_kind("mc")),
    Mistake("predictive-first-sample", "the first sample alone", "predictive", _shifted_samples(lambda s, mu: s[:1]), (),
        _of_kind("mc", "lin_mc")),
    Mistake("predictive-not-first", "the first sample left out", "predictive", _shifted_samples(lambda s, mu: s[1:]), (),
        _of_kind("mc", "lin_mc")),
    Mistake("predictive-not-last", "the last sample left out", "predictive", _shifted_samples(lambda s, mu: s[:-1]), (),
        _of_kind("mc", "lin_mc")),
    Mistake("predictive-median", "the median of the means in place of their mean", "predictive",
        on_summary(lambda v, p, Y: _with_mean(v, np.median(p.means, axis=0), Y)), ("mean",), _of_kind("mc", "lin_mc")),
    Mistake("predictive-log2", "log2 in place of the natural logarithm", "predictive",
        on_summary(lambda v, p, Y: _logs(v, v["log_density"] / np.log(2))), ("log_density",)),
    Mistake("predictive-log10", "log10 in place of the natural logarithm", "predictive",
        on_summary(lambda v, p, Y: _logs(v, v["log_density"] / np.log(10))), ("log_density",)),
    Mistake("predictive-det", "the determinant of 2 pi R without its square root", "predictive",
        on_summary(lambda v, p, Y: _shifted(v, -np.linalg.slogdet(2 * np.pi * p.lik.R)[1] / 2)), ("log_density",), GAUSSIAN),
    Mistake("predictive-no-det", "no determinant of 2 pi R", "predictive",
        on_summary(lambda v, p, Y: _shifted(v, np.linalg.slogdet(2 * np.pi * p.lik.R)[1] / 2)), ("log_density",), GAUSSIAN),
    Mistake("predictive-samples-noise", "the samples taken for noise: mu added to them", "predictive",
        _shifted_samples(lambda s, mu: s + mu), (), _of_kind("mc", "lin_mc")),
    Mistake("predictive-no-mean", "the linearisation without subtracting mu", "predictive", _shifted_samples(lambda s, mu: s + mu), (),
        _of_kind("lin_mc")),
    Mistake("predictive-mean-log", "the mean of the log-densities in place of the log of their mean", "predictive",
        on_summary(_mean_log), ("log_density",)),
    Mistake("predictive-sum-log", "the sum over the samples in place of the mean in the log-density", "predictive",
        on_summary(lambda v, p, Y: _shifted(v, np.log(len(p.values)))),
        ("log_density",)),
    Mistake("predictive-var-epistemic", "the variance of the means alone, without the noise", "predictive",
        on_summary(lambda v, p, Y: {**v, "var": p.means.var(axis=0)}), ("var",)),
    Mistake("predictive-var-noise", "the mean of the noise alone, without the variance of the means", "predictive",
        on_summary(lambda v, p, Y: {**v, "var": _within(p)}), ("var",)),
    Mistake("predictive-var-unbiased", "1/(S - 1) in place of 1/S in the variance of the means", "predictive",
        on_summary(lambda v, p, Y: {**v, "var": _within(p) + p.means.var(axis=0) * len(p.values) / (len(p.values) - 1)}), ("var",)),
    Mistake("predictive-var-of-mean", "the noise at the mean of the means in place of its mean over the samples", "predictive",
        on_summary(lambda v, p, Y: {**v, "var": p.lik.var_mean(p.mean) + p.means.var(axis=0)}), ("var",)),
    Mistake("predictive-var-noise-of-mean", "the noise at the mean of the means alone", "predictive",
        on_summary(lambda v, p, Y: {**v, "var": p.lik.var_mean(p.mean)}), ("var",)),
    Mistake("predictive-density-of-mean", "the density at the mean of the means in place of the mean of the densities", "predictive",
        on_summary(lambda v, p, Y: _logs(v, np.asarray(p.lik.log_prob_mean(p.mean, Y)))), ("log_density",)),
    Mistake("predictive-moment-matched", "the density of a Gaussian with the predictive mean and variance", "predictive",
        on_summary(lambda v, p, Y: _logs(v, -(((Y - v["mean"]) ** 2 / v["var"] + np.log(2 * np.pi * v["var"])).sum(axis=-1)) / 2)),
        ("log_density",)),
    Mistake("predictive-slope", "the Jacobian of the outputs in place of that of the mean in its linearisation", "predictive",
        _output_slope, ("mean",), _of_kind("lin_mc")),
    *(
        Mistake(f"ece-bins-{n}", f"{n} bins in place of 20", "predictive", _scored(bins=n), ("ece",))
        for n in (10, 15, 5, 25, 30, 50, 100)
    ),
    Mistake("ece-left", "bins [a, b) in place of (a, b]", "predictive", _scored(left=True), ("ece",)),
    Mistake("ece-probability", "the probability of the last class in place of the confidence max(p)", "predictive",
        on_summary(lambda v, p, Y: {**v, "ece": _score(p, Y, sure=pipeline.labels(p.mean, Y)[0][:, -1])["ece"]}), ("ece",)),
    Mistake("ece-true-class", "the probability of the true class in place of the confidence max(p)", "predictive",
        on_summary(lambda v, p, Y: {**v, "ece": _score(p, Y, sure=_of_true_class(p, Y))["ece"]}), ("ece",)),
    Mistake("ece-unweighted", "the mean over the bins without the share of observations in each", "predictive",
        on_summary(lambda v, p, Y: {**v, "ece": _bins(p, Y).mean()}), ("ece",)),
    Mistake("ece-largest", "the largest gap of a bin (the maximum calibration error)", "predictive",
        on_summary(lambda v, p, Y: {**v, "ece": _bins(p, Y).max()}), ("ece",)),
    Mistake("error-accuracy", "the accuracy in place of the error", "predictive",
        on_summary(lambda v, p, Y: {**v, "error": 1 - v["error"]}), ("error",)),
    Mistake("error-count", "the number of wrong classes in place of their share", "predictive",
        on_summary(lambda v, p, Y: {**v, "error": len(Y) * v["error"]}), ("error",)),
    Mistake("predictive-std", "the standard deviation in place of the variance", "predictive",
        on_summary(lambda v, p, Y: {**v, "var": np.sqrt(v["var"])}), ("var",)),
    Mistake("predictive-outputs", "the outputs in place of the means of y", "predictive",
        on_summary(lambda v, p, Y: {**v, "mean": p.values.mean(axis=0)}), ("mean",)),
    Mistake("predictive-nlpd-sum", "the sum over the observations in place of the mean", "predictive",
        on_summary(lambda v, p, Y: {**v, "nlpd": -np.sum(v["log_density"])}), ("nlpd",)),
    Mistake("predictive-nlpd-sign", "the sign of the nlpd", "predictive", on_summary(lambda v, p, Y: {**v, "nlpd": -v["nlpd"]}),
        ("nlpd",)),
    Mistake("predictive-no-constant", "a log-density without its constant", "predictive",
        on_summary(lambda v, p, Y: _no_constant(v, p, Y)), ("log_density",)),
)
# fmt: on


def _no_constant(v: Values, p: Any, Y: Array) -> Values:
    if p.lik.name == "gaussian":
        extra = Y.shape[-1] / 2 * np.log(2 * np.pi)
    elif p.lik.name == "poisson":
        extra = p.lik.b(Y)
    else:
        raise ValueError("there is none")
    return _shifted(v, extra)


def _shifted(v: Values, extra: Any) -> Values:
    return _logs(v, v["log_density"] + extra)


# --- what is returned ----------------------------------------------------------------------------------------------------------


def returned(fields: tuple[str, ...], change: Callable[[Array], Array]) -> Callable:
    return lambda output: lambda case, values: {k: change(v) if k in fields else v for k, v in values.items()}


# fmt: off
OUTPUTS: tuple[Mistake, ...] = (
    Mistake("returns-precision", "the precision returned in place of the covariance", "output", returned(("Sigma", "var"), inverse), COV),
    Mistake("returns-std", "the standard deviation returned in place of the variance", "output", returned(("var",), np.sqrt), COV, DIAG),
    Mistake("returns-cholesky", "the Cholesky factor returned in place of Sigma", "output", returned(("Sigma",), root), COV, FULL),
    Mistake("returns-diagonal", "the diagonal of Sigma alone", "output", returned(("Sigma",), _diag), COV, FULL),
    Mistake("returns-Ups-variance", "1/Ups returned in place of Ups", "output", returned(("Ups",), inverse), ("Ups",), LOW),
    Mistake("returns-Ups-root", "sqrt(Ups) returned in place of Ups", "output", returned(("Ups",), np.sqrt), ("Ups",), LOW),
    Mistake("returns-Ups-square", "Ups^2 returned in place of Ups", "output", returned(("Ups",), square), ("Ups",), LOW),
    Mistake("returns-G-sign", "-G returned in place of G", "output", returned(("G", "diag G"), np.negative), ("G",)),
)
# fmt: on


NAMED: tuple[Mistake, ...] = (
    *PRINTED,
    *STEP_ARGUMENTS,
    *RESULTS,
    *OTHER_METHODS,
    *ESTIMATES,
    *NETWORKS,
    *LOOPS,
    *STREAMS,
    *PREDICTIONS,
    *PREDICTIVES,
    *OUTPUTS,
)


def named(case: Case) -> list[Mistake]:
    """The named mistakes that can be made in a case."""
    known = (*NETWORKS, *PREDICTIVES) if case.level == "predictive" else NAMED
    return [m for m in known if case.level in USED[m.piece] and m.applies(case)]


# --- a number in the mistake ---------------------------------------------------------------------------------------------------


def _jitter(one: One, c: float) -> One:
    """R + cI inverted in place of R: H^T (R + cI)⁻¹ e and H^T (R + cI)⁻¹ H with H = T J."""
    inverse_ = np.linalg.inv(one.R + c * np.eye(len(one.o)))
    return one._replace(score=one.T.T @ inverse_ @ one.e, info=one.T.T @ inverse_ @ one.T)


def _jitter_softmax(one: One, c: float) -> One:
    """R + cI used as it is: −Fᵀ(R + cI)F."""
    return one._replace(info=one.info + c * np.eye(len(one.o)))


def _clip(one: One, c: float) -> One:
    p = np.clip(one.h, c, 1 - c)
    R = np.diag(p) - np.outer(p, p) if one.kind == "categorical" else np.diag(p * (1 - p))
    return one._replace(score=one.y - p, info=R)


def _with_link(one: One, c: float) -> One:
    h = _softmax(c * one.o) if one.kind == "categorical" else 1 / (1 + np.exp(-c * one.o))
    R = np.diag(h) - np.outer(h, h) if one.kind == "categorical" else np.diag(h * (1 - h))
    return one._replace(h=h, R=R, T=R, e=one.y - h, score=one.y - h, info=R)


def _kalman(c: float) -> Callable:
    """The extended Kalman filter with c on the diagonal where it solves for the gain."""

    def fn(pieces: Pieces, name: str, job: Job, prior: Any, samples: Array | None, params: dict[str, Any]) -> State:
        ones = job.at(prior.mu)
        H, R, e = np.vstack([o.T @ o.J for o in ones]), block_diag(*(o.R for o in ones)), np.concatenate([o.e for o in ones])
        S = H @ prior.Sigma @ H.T + R
        K = np.linalg.solve(S + c * np.eye(len(S)), H @ prior.Sigma).T
        return FC(prior.mu + K @ e, prior.Sigma - K @ S @ K.T)

    return fn


def _add_covariance(q: State, c: float) -> State:
    name = _covariance(q)
    a = getattr(q, name)
    return q._replace(**{name: a + c * (np.eye(len(a)) if a.ndim == 2 else 1)})


def _add_precision(q: State, c: float) -> State:
    if isinstance(q, DLR):
        return q._replace(Ups=q.Ups + c)
    return spread(q, lambda a: inverse(inverse(a) + c * (np.eye(len(a)) if a.ndim == 2 else 1)))


# fmt: off
SCALED: tuple[Scaled, ...] = (
    Scaled("jitter-R", "{c} I added to R before it is inverted", "job", lambda fn, c: on_parts(lambda o: _jitter(o, c))(fn), 0.0,
        gG),
    Scaled("jitter-G", "{c} I added to -G", "estimate",
        lambda fn, c: on_estimate(lambda curv, M: with_G(curv, dense(curv) - c * np.eye(len(curv.g))))(fn), 0.0, ("G",)),
    Scaled("jitter-info", "{c} I added to R in -F^T R F", "job", lambda fn, c: on_parts(lambda o: _jitter_softmax(o, c))(fn), 0.0,
        ("G",), HESS),
    Scaled("clip", "probabilities clipped to [{c}, 1 - {c}]", "job", lambda fn, c: on_parts(lambda o: _clip(o, c))(fn), 0.0, gG,
        with_kind("bernoulli", "categorical")),
    Scaled("temperature", "logits times {c} (a temperature)", "job",
        lambda fn, c: on_parts(lambda o: _with_link(o, c))(fn), 1.0, gG, with_kind("bernoulli", "categorical")),
    Scaled("label-smoothing", "y moved by {c} towards the same for all classes", "job",
        lambda fn, c: with_score(lambda o: o.score + c * (1 / max(2, len(o.y)) - o.y))(fn), 0.0, ("g",),
        with_kind("bernoulli", "categorical")),
    Scaled("scale-score", "y - yhat times {c}", "job", lambda fn, c: with_score(lambda o: c * o.score)(fn), 1.0, ("g",), EF),
    Scaled("scale-x", "x times {c}", "job", lambda fn, c: lambda job: job._replace(x=c * job.x), 1.0, gG),
    Scaled("scale-bias", "the biases times {c}", "job", lambda fn, c: network(bias=c, bias_slope=c)(fn), 1.0, gG, _biased),
    Scaled("scale-slope", "the derivative of the activation times {c}", "job",
        lambda fn, c: slope(lambda name, z, s, s1: c * s1)(fn), 1.0, gG, _networked),
    Scaled("scale-curvature", "the second derivative of the activation times {c}", "job",
        lambda fn, c: slope(lambda name, z, s, s1: s1, c)(fn), 1.0, ("G",), both(_networked, with_hess("mc-hess"))),
    Scaled("leaky", "a relu with slope {c} below 0", "job", lambda fn, c: _leaky(c)(fn), 0.0, gG, _activated("relu")),
    Scaled("jitter-gain",
        "{c} I added to the innovation covariance H Sigma H^T + R where the gain K is solved for, and not in Sigma - K S K^T", "update",
        lambda fn, c: _kalman(c), 0.0, ALL, both(in_rules("bong"), in_families("fc"), with_hess("lin-hess"))),
    Scaled("scale-G-estimate", "G times {c}", "estimate", lambda fn, c: G_times(lambda M: c)(fn), 1.0, ("G",)),
    Scaled("scale-g-estimate", "g times {c}", "estimate", lambda fn, c: g_times(lambda M: c)(fn), 1.0, ("g",)),
    Scaled("scale-gG-estimate", "g and G times {c}", "estimate", lambda fn, c: both_times(lambda M: c)(fn), 1.0, gG),
    Scaled("jitter-covariance", "{c} I added to the new covariance", "step",
        lambda fn, c: on_result(lambda n, p, q, cv, r: _add_covariance(r, c))(fn), 0.0, COV),
    Scaled("jitter-precision", "{c} I added to the new precision", "step",
        lambda fn, c: on_result(lambda n, p, q, cv, r: _add_precision(r, c))(fn), 0.0, COV,
        in_families("fc", "fc_mom", "diag", "diag_mom")),
    Scaled("jitter-G-step", "{c} I added to -G", "step",
        lambda fn, c: on_curv(lambda cv: with_G(cv, dense(cv) - c * np.eye(len(cv.g))))(fn), 0.0, COV),
    Scaled("jitter-prior", "{c} I added to the prior's covariance", "step",
        lambda fn, c: on_states(lambda p, q: (_add_covariance(p, c), _add_covariance(q, c) if q is p else q))(fn), 0.0, COV),
    Scaled("jitter-prior-precision", "{c} I added to the prior's precision", "step",
        lambda fn, c: on_states(lambda p, q: (_add_precision(p, c), _add_precision(q, c) if q is p else q))(fn), 0.0, COV),
    Scaled("scale-G", "G times {c}", "step", lambda fn, c: on_curv(times_G(c))(fn), 1.0, COV),
    Scaled("scale-g", "g times {c}", "step", lambda fn, c: on_curv(times_g(c))(fn), 1.0, ("mu",)),
    Scaled("scale-gG", "g and G times {c}", "step", lambda fn, c: on_curv(lambda cv: times_g(c)(times_G(c)(cv)))(fn), 1.0, ALL),
    Scaled("scale-alpha", "alpha times {c}", "step", lambda fn, c: on_alpha(lambda a: c * a)(fn), 1.0, ALL, WITH_ALPHA),
    Scaled("inflation", "the predicted covariance times {c}", "predict",
        lambda fn, c: _predicted(lambda q, r, d: spread(r, lambda a: c * a))(fn), 1.0, COV,
        in_families("fc", "fc_mom", "diag", "diag_mom")),
    Scaled("scale-Q", "Q times {c}", "predict", lambda fn, c: moved(lambda F, b, Q, d: (F, b, c * Q))(fn), 1.0, COV),
    Scaled("jitter-predict", "{c} I added to the predicted covariance", "predict",
        lambda fn, c: _predicted(lambda q, r, d: _add_covariance(r, c))(fn), 0.0, COV, in_families("fc", "fc_mom", "diag", "diag_mom")),
)
# fmt: on


def scaled(case: Case) -> list[Scaled]:
    return [m for m in SCALED if case.level in USED[m.piece] and m.applies(case)]


# --- every single edit ---------------------------------------------------------------------------------------------------------


def forms(rule: str, family: str) -> tuple[str, ...]:
    """The functions of the family's module that compute the rule, the displayed one first."""
    more = [EFFICIENT.get((rule, family), "")]
    more += {("bong", "fc"): ["bong_ef"], ("bbb", "dlr"): ["bbb_expanded"]}.get((rule, family), [])
    more += [f"{rule}_psi"] if family in ("fc", "diag") else []
    return (rule, *(name for name in more if name))


def _step_of(form: str, edit: edits.Edit, family: str) -> Callable:
    """The wrong step of an edited form, made when it is first called."""
    made: list[Callable] = []
    module = MODULES[family]

    def fn(name: str, prior: State, current: State, curv: Curv, alpha: Any) -> State:
        if not made:
            also = ("from_natural",) if form.endswith("_psi") else ()
            names = tuple(dict.fromkeys([*edits.called(module, form), *also]))
            space = edits.with_edit(module, names, edit)
            made.append((lambda *a: space["from_natural"](*space[form](*a))) if also else space[form])
        return made[0](prior, current, curv, alpha)

    return fn


@lru_cache(maxsize=64)
def edited_steps(rule: str, family: str, displayed: bool = False) -> tuple[Mistake, ...]:
    """Every edit of the forms of a rule in a family, or of the displayed one alone."""
    out, seen = [], set()
    for form in forms(rule, family)[: 1 if displayed else None]:
        names = edits.called(MODULES[family], form)
        names = (*names, "from_natural") if form.endswith("_psi") else names
        for name in reversed(names):
            for edit in edits.edits(vars(MODULES[family])[name]):
                key = edit.key if form == rule or name == form else f"{form}.{edit.key}"  # a shared function does other things elsewhere
                if key not in seen:
                    seen.add(key)
                    other = "" if form == rule else f", as {MODULES[family].__name__.split('.')[-1]}.{form} has it"
                    change = _step_of(form, edit, family)
                    out.append(Mistake(f"{family}.{key}", edit.text + other, "step", lambda step, fn=change: fn))
    return tuple(out)


@lru_cache(maxsize=8)
def edited_estimates(hess: str) -> tuple[Mistake, ...]:
    """Every edit of an estimator."""
    form = hess.replace("-", "_")
    out = []
    for name in reversed(edits.called(pipeline_module(), form)):
        if name == "_some":
            continue
        for edit in edits.edits(vars(pipeline_module())[name]):
            edit = edit._replace(equation=edited_equation(hess, name) or edit.equation)
            names = tuple(n for n in edits.called(pipeline_module(), form))
            made: list[Callable] = []

            def fn(hess_: str, job: Job, theta: Array, samples: Array | None, names=names, edit=edit, made=made) -> Curv:
                if not made:
                    made.append(edits.with_edit(pipeline_module(), names, edit)[form])
                return made[0](job, theta, samples)

            out.append(Mistake(f"{hess}.{edit.key}", edit.text, "estimate", lambda estimate, fn=fn: fn))
    return tuple(out)


def edited_equation(hess: str, function: str) -> str:
    """The equation of an estimator that a function shared by all of them computes."""
    from .quantities import ESTIMATES as equations

    quantity = {"gradient": "g", "fisher": "G", "hessian": "G"}.get(function)
    return equations[hess][quantity] if quantity else ""


def pipeline_module() -> Any:
    return pipeline


@lru_cache(maxsize=1)
def edited_predictions() -> tuple[Mistake, ...]:
    """Every edit of the prediction."""
    from .. import dynamics

    names, out = edits.called(dynamics, "propagate"), []
    for name in ("matrices", "propagate", "_predict_dlr"):
        for edit in edits.edits(vars(dynamics)[name]):
            made: list[Callable] = []

            def fn(state: State, moving: dict[str, Any], edit=edit, made=made) -> State:
                if not made:
                    made.append(edits.with_edit(dynamics, names, edit)["propagate"])
                return made[0](state, vectors.dynamics(moving))

            out.append(Mistake(f"predict.{edit.key}", edit.text, "predict", lambda predict, fn=fn: fn))
    for edit in edits.edits(pipeline.predict_dlr):
        form: list[Callable] = []

        def low(state: State, moving: dict[str, Any], edit=edit, form=form) -> State:
            if not form:
                form.append(edits.with_edit(pipeline_module(), ("predict_dlr",), edit)["predict_dlr"])
            return form[0](state, *dynamics.matrices(vectors.dynamics(moving), len(state.mu)))

        text = edit.text + ", with D = F^2/Ups + Q, V = F W/Ups, C = I + W^T Ups^-1 W"
        out.append(Mistake(f"predict.{edit.key}", text, "predict", lambda predict, low=low: low, (), LOW))
    return tuple(out)


def edited(case: Case) -> Iterator[Mistake]:
    """Every single edit that bears on a case."""
    if case.level in USED["step"]:
        yield from edited_steps(rule(case), family(case), displayed=case.level != "step")
    if case.level in USED["estimate"]:
        yield from edited_estimates(hess(case))
    if case.level == "predict":
        yield from (m for m in edited_predictions() if m.applies(case))

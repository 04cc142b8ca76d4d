"""Every single edit of the equations as a mistake: the steps, the estimators, the prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

from ... import dynamics
from ...curvature import Curv
from ...grid import EFFICIENT, MODULES
from ...linalg import Array
from ...states import State
from .. import edits, pipeline, vectors
from ..edits import Edit
from ..pipeline import USED, Problem
from ..quantities import ESTIMATES
from ..vectors import Case
from . import predictions
from .combinators import transition
from .table import LOW, Mistake


def edited(case: Case) -> Iterator[Mistake]:
    """Every single edit that can show in a case."""
    if case.level in USED["step"]:
        yield from edited_steps(case.rule, case.family, displayed=case.level != "step")
    if case.level in USED["estimate"]:
        yield from edited_estimates(case.hess)
    if case.level == "predict":
        yield from (m for m in edited_predictions() if m.applies(case))


def lazily(
    module: ModuleType, names: tuple[str, ...], edit: Edit, form: str
) -> Callable[[], Callable[..., Any]]:
    """A function of a module with an edit in it or in what it calls; compiled when first called."""

    @lru_cache(maxsize=1)
    def compiled() -> Callable[..., Any]:
        space = edits.with_edit(module, names, edit)
        fn: Callable[..., Any] = space[form]
        if form.endswith("_psi"):
            return lambda *args: space["from_natural"](*fn(*args))
        return fn

    return compiled


# --- steps ----------------------------------------------------------------------------------------


def forms(rule: str, family: str) -> tuple[str, ...]:
    """The functions of the family's module that compute the rule, the displayed one first."""
    more = [EFFICIENT.get((rule, family), "")]
    more += {("bong", "fc"): ["bong_ef"], ("bbb", "dlr"): ["bbb_expanded"]}.get((rule, family), [])
    more += [f"{rule}_psi"] if family in ("fc", "diag") else []
    return (rule, *(name for name in more if name))


@lru_cache(maxsize=64)
def edited_steps(rule: str, family: str, displayed: bool = False) -> tuple[Mistake, ...]:
    """Every edit of the forms of a rule in a family, or of the displayed form alone."""
    module, out = MODULES[family], dict[str, Mistake]()
    for form in forms(rule, family)[: 1 if displayed else None]:
        also = ("from_natural",) if form.endswith("_psi") else ()
        names = (*edits.called(module, form), *also)
        for name in reversed(names):
            for edit in edits.edits(vars(module)[name]):
                # a function that several forms call does something else in each
                own = form == rule or name == form
                key = f"{family}.{edit.key}" if own else f"{family}.{form}.{edit.key}"
                text = edit.text
                if form != rule:
                    text += f", as {module.__name__.split('.')[-1]}.{form} has it"
                out.setdefault(key, _edited_step(key, text, lazily(module, names, edit, form)))
    return tuple(out.values())


def _edited_step(key: str, text: str, compiled: Callable[[], Callable[..., Any]]) -> Mistake:
    def step(name: str, prior: State, current: State, curv: Curv, alpha: Any) -> State:
        new: State = compiled()(prior, current, curv, alpha)
        return new

    return Mistake(key, text, "step", lambda right: step)


# --- estimators -----------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def edited_estimates(hess: str) -> tuple[Mistake, ...]:
    """Every edit of an estimator as :mod:`..pipeline` has it."""
    form, out = hess.replace("-", "_"), []
    names = edits.called(pipeline, form)
    for name in reversed([n for n in names if n != "given"]):
        for edit in edits.edits(vars(pipeline)[name]):
            # a function that all estimators call computes another equation of each
            quantity = {"gradient": "g", "fisher": "G", "hessian": "G"}.get(name)
            equation = ESTIMATES[hess][quantity] if quantity else edit.equation
            edit = edit._replace(equation=equation)
            out.append(_edited_estimate(hess, edit, lazily(pipeline, names, edit, form)))
    return tuple(out)


def _edited_estimate(hess: str, edit: Edit, compiled: Callable[[], Callable[..., Any]]) -> Mistake:
    def estimate(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
        curv: Curv = compiled()(problem, theta, samples)
        return curv

    return Mistake(f"{hess}.{edit.key}", edit.text, "estimate", lambda right: estimate)


# --- the prediction -------------------------------------------------------------------------------

SYMBOLS = ", with D = F^2/Ups + Q, V = F W/Ups, C = I + W^T Ups^-1 W"


@lru_cache(maxsize=1)
def edited_predictions() -> tuple[Mistake, ...]:
    """Every edit of the prediction, and of the prediction of DLR by Woodbury twice."""
    out, names = [], edits.called(dynamics, "propagate")
    for name in names:
        fn = vars(dynamics)[name]
        returns = str(fn.__annotations__.get("return", ""))
        if not returns.startswith(("State", "DLR", "tuple")):
            continue  # not an equation: a check, a message
        for edit in edits.edits(fn):
            out.append(_edited_prediction(edit, lazily(dynamics, names, edit, "propagate")))
    for edit in edits.edits(predictions.predict_dlr):
        compiled = lazily(predictions, ("predict_dlr",), edit, "predict_dlr")
        out.append(_edited_woodbury(edit, compiled))
    return tuple(out)


def _edited_prediction(edit: Edit, compiled: Callable[[], Callable[..., Any]]) -> Mistake:
    def predict(state: State, moving: dict[str, Any]) -> State:
        new: State = compiled()(state, vectors.dynamics(moving))
        return new

    return Mistake(f"predict.{edit.key}", edit.text, "predict", lambda right: predict)


def _edited_woodbury(edit: Edit, compiled: Callable[[], Callable[..., Any]]) -> Mistake:
    def predict(state: State, moving: dict[str, Any]) -> State:
        new: State = compiled()(state, *transition(moving, len(state.mu)))
        return new

    key, text = f"predict.{edit.key}", edit.text + SYMBOLS
    return Mistake(key, text, "predict", lambda right: predict, (), LOW)

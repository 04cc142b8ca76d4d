"""Mistakes in how a step computes its result: the mean, the projection of DLR, misprints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...curvature import Curv
from ...families import dlr, fc_nat
from ...grid import method
from ...linalg import Array, finite, inv, solve
from ...paper import printed
from ...states import DLR, State
from .. import vectors
from ..pipeline import Params, Pieces, Problem, unprojected
from .combinators import (
    SPREAD,
    Step,
    StepChange,
    covariance,
    on_result,
    start,
    with_fields,
)
from .table import (
    ALL,
    COV,
    ITERATED,
    LOW,
    MU,
    NOT_LOW,
    Mistake,
    both,
    in_families,
    in_rules,
    row_of,
)

step, update = row_of("step"), row_of("update")
NATURAL, PROJECTED = in_families("fc", "diag", "dlr"), both(in_rules("bong", "blr"), LOW)


def mean_with(which: str) -> StepChange:
    """The mean moved with another covariance than that of the equation."""

    def change(name: str, prior: State, current: State, curv: Curv, result: State) -> State:
        begin, natural = start(name, prior, current), not name.endswith("_mom")
        used = covariance(result if natural else begin)
        other = covariance({"prior": prior, "current": current, "new": result}[which])
        move = other @ finite(solve(used, result.mu - begin.mu))
        return result._replace(mu=begin.mu + move)

    return on_result(change)


def keep(*fields: str) -> StepChange:
    """These fields as they were before the step."""

    def change(name: str, prior: State, current: State, curv: Curv, result: State) -> State:
        return with_fields(result, start(name, prior, current), *fields)

    return on_result(change)


# --- the projection of DLR ------------------------------------------------------------------------

Projection = Callable[[Array, Array, int], tuple[Array, Array]]  # Υ̃, W̃, rank -> Υ, W


def projected(project: Projection, mean: bool = False) -> StepChange:
    """bong and blr in DLR with another projection; ``mean``: the mean too from what it gives."""

    def wrong(step: Step) -> Step:
        def fn(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
            right = step(name, prior, current, curv, alpha)
            tilde = unprojected(name, prior, current, curv, alpha)
            new = DLR(right.mu, *project(*tilde, prior.W.shape[1]))
            if not mean:
                return new
            begin, rhs = start(name, prior, current), curv.g
            if not name.startswith("bong"):
                delta = prior.mu - current.mu
                rhs = alpha * (prior.Ups * delta + prior.W @ (prior.W.T @ delta) + curv.g)
            return new._replace(mu=begin.mu + dlr.covariance(new) @ rhs)

        return fn

    return wrong


def scaled_W(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    """The leading columns, scaled so that the trace of W Wᵀ is kept; Υ as it is."""
    U, s, _ = np.linalg.svd(W, full_matrices=False)
    return Ups, U[:, :rank] * s[:rank] * np.sqrt(np.sum(s**2) / np.sum(s[:rank] ** 2))


def counted_twice(step: Step) -> Step:
    """The mean from Υ after the projection and W̃ before it."""

    def fn(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
        right: Any = step(name, prior, current, curv, alpha)
        Ups, W = unprojected(name, prior, current, curv, alpha)
        begin = start(name, prior, current)
        used = dlr.covariance(DLR(right.mu, Ups, W))
        other = dlr.covariance(DLR(right.mu, right.Ups, W))
        new: State = right._replace(mu=begin.mu + other @ finite(solve(used, right.mu - begin.mu)))
        return new

    return fn


def in_logarithm(name: str, prior: Any, current: Any, curv: Curv, result: Any) -> State:
    """σ² exp(change / σ²)."""
    begin: Any = start(name, prior, current)
    var = begin.var
    new: State = result._replace(var=var * np.exp((result.var - var) / var))
    return new


def projection(
    key: str, text: str, power: float = 1.0, gain: str = "discarded", last: bool = False
) -> Mistake:
    """A mistake of the projection: W = U Λ^power, what Υ gains, which columns W keeps."""

    def project(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
        U, s, _ = np.linalg.svd(W, full_matrices=False)
        if last:
            U, s = U[:, ::-1], s[::-1]
        kept, discarded = U[:, :rank] * s[:rank], U[:, rank:] * s[rank:]
        gains = {
            "discarded": (discarded**2).sum(axis=1),
            "nothing": np.zeros(len(Ups)),
            "all": (W**2).sum(axis=1),
            "kept": (kept**2).sum(axis=1),
            "minus": -(discarded**2).sum(axis=1),
            "sum": discarded.sum(axis=1) ** 2,
            "once": np.abs(discarded).sum(axis=1),
            "trace": np.full(len(Ups), (discarded**2).sum() / len(Ups)),
            "columns": (W[:, rank:] ** 2).sum(axis=1),
        }
        return Ups + gains[gain], U[:, :rank] * s[:rank] ** power

    where = ("Ups",) if power == 1.0 else ("W W^T",)
    return step(key, text, where, projected(project), PROJECTED)


# fmt: off
RESULTS: tuple[Mistake, ...] = (
    step("mean-old-covariance", "the covariance of the prior in place of the new one in the mean",
        MU, mean_with("prior"), NATURAL),
    step("mean-current-covariance",
        "the covariance of the last iterate in place of the new one in the mean",
        MU, mean_with("current"), both(ITERATED, NATURAL)),
    step("mean-new-covariance", "the new covariance in place of the old one in the mean",
        MU, mean_with("new"), in_families("fc_mom", "diag_mom")),
    step("mean-not-updated", "a mean that is not updated", MU, keep("mu")),
    step("covariance-not-updated", "a covariance that is not updated",
        COV, keep(*SPREAD)),
    step("W-not-updated", "a W that is not updated", ("W W^T",), keep("W"), LOW),
    step("Ups-not-updated", "a Ups that is not updated", ("Ups",), keep("Ups"), LOW),
    projection("Ups-lost-columns",
        "Ups that does not absorb the discarded columns of W~",
        gain="nothing"),
    projection("Ups-all-columns",
        "Ups that absorbs all of diag(W~ W~^T), not the discarded columns", gain="all"),
    projection("Ups-kept-columns", "Ups that absorbs the columns that W keeps", gain="kept"),
    projection("Ups-loses", "the discarded columns subtracted from Ups", gain="minus"),
    projection("Ups-square-of-sum",
        "the square of the sum of the discarded columns in place of the sum of their squares",
        gain="sum"),
    projection("Ups-not-squared", "the discarded columns added to Ups without being squared",
        gain="once"),
    projection("Ups-trace", "the discarded columns spread evenly over Ups (their mean)",
        gain="trace"),
    projection("Ups-columns",
        "the last columns of W~ itself, not of U Lambda, taken for the discarded ones",
        gain="columns"),
    projection("W-smallest", "the smallest singular vectors of W~ kept in place of the largest",
        last=True),
    projection("W-U", "W = U in place of U Lambda", power=0.0),
    projection("W-root", "W = U Lambda^(1/2) in place of U Lambda", power=0.5),
    projection("W-square", "W = U Lambda^2 in place of U Lambda", power=2.0),
    step("W-first-columns", "the first columns of W~ kept, without a singular value decomposition",
        ("W W^T",), projected(lambda U, W, r: (U + (W[:, r:] ** 2).sum(axis=1), W[:, :r])),
        PROJECTED),
    step("W-last-columns",
        "the last columns of W~ (the new ones) kept, without a singular value decomposition",
        ("W W^T",), projected(lambda U, W, r: (U + (W[:, :-r] ** 2).sum(axis=1), W[:, -r:])),
        PROJECTED),
    step("W-scaled",
        "W scaled so that the trace is kept, in place of Ups that absorbs the discarded columns",
        ("W W^T",), projected(scaled_W), PROJECTED),
    step("mean-counts-twice",
        "the new Ups with all columns of W~ in the mean (the discarded ones counted twice)",
        MU, counted_twice, PROJECTED),
    step("variance-logarithm",
        "a step in the logarithm of the variance: var exp(change / var)",
        ("var",), on_result(in_logarithm), in_families("diag_mom")),
    step("projection-before-mean",
        "the projection before the mean (the mean moved by the projected covariance)",
        MU, projected(dlr.project, mean=True), PROJECTED),
)
# fmt: on


# --- the forms that the paper prints --------------------------------------------------------------


def psi2(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
    """bbb in FC with the second natural parameter as printed."""
    return fc_nat.from_natural(*printed.bbb_fc_psi(prior, current, curv, alpha))


def fisher_for_inverse(name: str, prior: Any, current: Any, curv: Curv, alpha: Any) -> State:
    """blr with F in place of F⁻¹."""
    extra = {"rank": prior.W.shape[1]} if isinstance(prior, DLR) else {}
    new: State = printed.blr_rule(method(name, alpha=alpha, **extra), prior, current, curv)
    return new


def first_gradient(right: Any) -> Callable[..., State]:
    """bbb in DLR with g of the first iteration in the mean."""

    def wrong(
        pieces: Pieces, name: str, problem: Problem, prior: Any, samples: Any, params: Params
    ) -> State:
        current, first = prior, None
        for i in range(params.get("n_iter", 1)):
            here = None if samples is None else samples[i]
            curv = pieces.estimate(vectors.estimator_of(name), problem, current.mu, here)
            first = curv if first is None else first
            current = printed.bbb_dlr(prior, current, curv, params["alpha"], first)
        state: State = current
        return state

    return wrong


def in_vech(name: str, prior: Any, current: Any, curv: Curv, result: Any) -> State:
    """A GD rule in FC whose gradient is taken in the P(P+1)/2 entries of vech(ψ⁽²⁾)."""
    begin: Any = start(name, prior, current)
    prec, new = finite(inv(begin.Sigma)), finite(inv(result.Sigma))
    move = new - prec
    Sigma = finite(inv(new + move - np.diag(np.diag(move))))  # twice the move off the diagonal
    state: State = result._replace(mu=Sigma @ (new @ result.mu), Sigma=Sigma)
    return state


BOG_FC, BBB_FC = (both(in_rules(rule), in_families("fc")) for rule in ("bog", "bbb"))
BLR_STEP = both(in_rules("blr"), NOT_LOW, lambda case: case.level == "step")

# fmt: off
PRINTED: tuple[Mistake, ...] = (
    step("E36",
        "4 alpha Sigma g mu^T as printed, without its symmetric part (erratum bog-FC-symmetry)",
        ("Sigma",), lambda right: lambda name, p, q, c, a: printed.bog_fc(p, None, c, a),
        BOG_FC),
    step("E36-bbb",
        "eq:bbb-FC-nat-prec as printed, without its symmetric part (erratum bog-FC-symmetry)",
        ("Sigma",), lambda right: lambda name, p, q, c, a: printed.bbb_fc(p, q, c, a),
        BBB_FC),
    step("E84",
        "the gradient in the entries of vech(psi2), twice that of symmetric matrices off the "
        "diagonal (erratum psi2-vech)",
        ALL, on_result(in_vech), both(in_rules("bog", "bbb"), in_families("fc"))),
    step("E39",
        "Sigma_{t|t-1} G Sigma_{t|t-1} as printed in sec:FC-Nat#39, in place of the iterate's "
        "Sigma (erratum bbb-FC-psi2-G)",
        ("Sigma",), lambda right: psi2, BBB_FC),
    step("E10", "F in place of F^-1 as printed in eq:blr (erratum blr-rule)",
        ALL, lambda right: fisher_for_inverse,
        BLR_STEP),
    update("E60",
        "g of the first iteration in every iteration of the mean, as printed in eq:bbb-dlr-mu "
        "(erratum bbb-dlr-g)",
        MU, first_gradient, both(in_rules("bbb"), LOW)),
)
# fmt: on

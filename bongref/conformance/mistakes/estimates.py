"""Mistakes of an estimator: in the sums over the samples, in G, in which estimator it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...curvature import Curv, dense
from ...linalg import Array, eigh
from ...paper import printed
from .. import pipeline
from ..pipeline import Problem
from .combinators import (
    Estimate,
    EstimateChange,
    G_times,
    as_hess,
    both_times,
    g_times,
    on_estimate,
    on_samples,
    with_G,
)
from .table import BOTH, EF, GRADIENT, HESS, HESSIAN, MC, Mistake, other_hess, row_of, with_hess

estimate = row_of("estimate")
Point = Callable[[Array, Array], Array]  # theta, samples -> where something is evaluated


def g_at(point: Point) -> EstimateChange:
    """g at one point in place of over the samples, G right."""

    def wrong(right: Estimate) -> Estimate:
        def fn(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
            G = dense(right(hess, problem, theta, samples))
            here = point(theta, pipeline.given(samples))
            return Curv(pipeline.gradient(problem.at(here)), G=G)

        return fn

    return wrong


def G_at(point: Point) -> EstimateChange:
    """G at one point in place of over the samples, g right."""

    def wrong(right: Estimate) -> Estimate:
        def fn(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
            here = point(theta, pipeline.given(samples))[None]
            G = dense(right(hess, problem, theta, here))
            return Curv(right(hess, problem, theta, samples).g, G=G)

        return fn

    return wrong


def of_gradients(outer: Callable[[Array], Array]) -> Callable[[Any], Estimate]:
    """MC-EF with another G of the sampled gradients (M, P)."""

    def fn(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
        points = pipeline.given(samples)
        grads = np.stack([pipeline.gradient(problem.at(t)) for t in points])
        return Curv(grads.mean(axis=0), G=outer(grads))

    return lambda right: fn


def gauss_newton(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
    """MC-HESS without the second derivatives of the network."""
    batches = [problem.at(t) for t in pipeline.given(samples)]
    g = sum(pipeline.gradient(b) for b in batches) / len(batches)
    G = -sum(pipeline.fisher(b) for b in batches) / len(batches)
    return Curv(np.asarray(g), G=np.asarray(G))


def residual_times(c: float) -> EstimateChange:
    """MC-HESS with c times the part that has the second derivatives of the network."""

    def wrong(right: Estimate) -> Estimate:
        def fn(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
            curv = right(hess, problem, theta, samples)
            first = dense(gauss_newton(hess, problem, theta, samples))
            return with_G(curv, first + c * (dense(curv) - first))

        return fn

    return wrong


def per_example(right: Estimate) -> Estimate:
    """The empirical Fisher from the gradients of the single observations of a batch."""

    def wrong(hess: str, problem: Problem, theta: Array, samples: Array | None) -> Curv:
        points = [theta] if hess == "lin-ef" else list(pipeline.given(samples))
        grads = [one.J.T @ one.score for t in points for one in problem.at(t)]
        G = -sum(np.outer(v, v) for v in grads) / len(points)
        return with_G(right(hess, problem, theta, samples), np.asarray(G))

    return wrong


def on_eigenvalues(change: Callable[[Array], Array]) -> EstimateChange:
    """G with other eigenvalues."""

    def new(G: Array) -> Array:
        w, Q = eigh(G)
        out: Array = (Q * change(w)) @ Q.T
        return out

    return on_estimate(lambda curv, M: with_G(curv, new(dense(curv))))


MC_EF, MC_HESS, LIN_EF = with_hess("mc-ef"), with_hess("mc-hess"), with_hess("lin-ef")

# fmt: off
ESTIMATES: tuple[Mistake, ...] = (
    # over the samples
    estimate("M-both", "no 1/M: the sum over the samples in place of their mean, in g and G",
        BOTH, both_times(lambda M: M), MC),
    estimate("M-G", "no 1/M in G: the sum over the samples in place of their mean",
        HESSIAN, G_times(lambda M: M), MC),
    estimate("M-g", "no 1/M in g: the sum over the samples in place of their mean",
        GRADIENT, g_times(lambda M: M), MC),
    estimate("M-twice-G", "1/M twice in G", HESSIAN, G_times(lambda M: 1 / M), MC),
    estimate("M-twice-g", "1/M twice in g", GRADIENT, g_times(lambda M: 1 / M), MC),
    estimate("M-root-G", "1/sqrt(M) in place of 1/M in G", HESSIAN, G_times(np.sqrt), MC),
    estimate("M-root-g", "1/sqrt(M) in place of 1/M in g", GRADIENT, g_times(np.sqrt), MC),
    estimate("M-1-G", "1/(M - 1) in place of 1/M in G",
        HESSIAN, G_times(lambda M: M / (M - 1)), MC),
    estimate("M-1-g", "1/(M - 1) in place of 1/M in g",
        GRADIENT, g_times(lambda M: M / (M - 1)), MC),
    estimate("M-1-both", "1/(M - 1) in place of 1/M in g and G",
        BOTH, both_times(lambda M: M / (M - 1)), MC),
    estimate("first-sample", "the first sample alone", BOTH, on_samples(lambda s, t: s[:1]), MC),
    estimate("last-sample", "the last sample alone", BOTH, on_samples(lambda s, t: s[-1:]), MC),
    estimate("not-first-sample", "the first sample left out",
        BOTH, on_samples(lambda s, t: s[1:]), MC),
    estimate("not-last-sample", "the last sample left out",
        BOTH, on_samples(lambda s, t: s[:-1]), MC),
    estimate("first-half", "the first half of the samples alone",
        BOTH, on_samples(lambda s, t: s[: max(1, len(s) // 2)]), MC),
    estimate("last-half", "the last half of the samples alone",
        BOTH, on_samples(lambda s, t: s[len(s) // 2 :]), MC),
    estimate("samples-not-used", "the samples not used: everything at the mean theta",
        BOTH, on_samples(lambda s, t: t[None]), MC),
    estimate("sample-mean", "everything at the mean of the samples",
        BOTH, on_samples(lambda s, t: s.mean(axis=0)[None]), MC),
    estimate("samples-as-noise", "the samples taken for noise: theta added to them",
        BOTH, on_samples(lambda s, t: s + t), MC),
    estimate("samples-less-theta", "theta subtracted from the samples (the noise alone)",
        BOTH, on_samples(lambda s, t: s - t), MC),
    estimate("samples-mirrored", "the samples mirrored at theta",
        BOTH, on_samples(lambda s, t: 2 * t - s), MC),
    estimate("g-at-theta", "g at the mean theta, not over the samples",
        GRADIENT, g_at(lambda t, s: t), MC),
    estimate("g-first-sample", "g of the first sample alone",
        GRADIENT, g_at(lambda t, s: s[0]), MC),
    estimate("g-last-sample", "g of the last sample alone", GRADIENT, g_at(lambda t, s: s[-1]), MC),
    estimate("G-at-theta", "G at the mean theta, not over the samples",
        HESSIAN, G_at(lambda t, s: t), MC),
    estimate("G-first-sample", "G of the first sample alone", HESSIAN, G_at(lambda t, s: s[0]), MC),
    estimate("G-last-sample", "G of the last sample alone", HESSIAN, G_at(lambda t, s: s[-1]), MC),
    # the kind of estimator
    estimate("ef-mean-gradient",
        "-g g^T of the mean gradient in place of the mean of the outer products",
        HESSIAN, of_gradients(lambda g: -np.outer(g.mean(axis=0), g.mean(axis=0))),
        MC_EF),
    estimate("ef-sum-gradient",
        "the outer product of the summed gradient in place of the mean of the outer products",
        HESSIAN, of_gradients(lambda g: -np.outer(g.sum(axis=0), g.sum(axis=0))),
        MC_EF),
    estimate("ef-centred",
        "the covariance of the gradients (the mean gradient subtracted) in place of their mean "
        "outer product",
        HESSIAN, of_gradients(lambda g: -np.cov(g.T, bias=True).reshape(g.shape[1], -1)),
        MC_EF),
    estimate("E19",
        "the outer product of the gradients as it stands, without the minus sign and 1/M (erratum "
        "outer-product)",
        HESSIAN, of_gradients(lambda g: printed.mc_ef_outer(g.T)), MC_EF),
    estimate("outer-sign", "+ in place of - before the outer product",
        HESSIAN, G_times(lambda M: -1), EF),
    estimate("G-sign-estimate", "the sign of G", HESSIAN, G_times(lambda M: -1), HESS),
    estimate("g-sign-estimate", "the sign of g (y - yhat the wrong way round)",
        GRADIENT, g_times(lambda M: -1)),
    estimate("nll", "g and G of the negative log-likelihood", BOTH, both_times(lambda M: -1)),
    estimate("G-doubled-estimate", "2 G in place of G", HESSIAN, G_times(lambda M: 2)),
    estimate("G-halved-estimate", "G/2 in place of G", HESSIAN, G_times(lambda M: 0.5)),
    estimate("g-doubled-estimate", "2 g in place of g", GRADIENT, g_times(lambda M: 2)),
    estimate("g-halved-estimate", "g/2 in place of g", GRADIENT, g_times(lambda M: 0.5)),
    estimate("g-normalised-estimate", "g over its norm",
        BOTH, on_estimate(lambda c, M: Curv(c.g / np.linalg.norm(c.g), G=dense(c) / (c.g @ c.g))),
        LIN_EF),
    estimate("S-normalised", "S = g over its norm: G over the square of the norm of g, g right",
        HESSIAN, on_estimate(lambda c, M: with_G(c, dense(c) / (c.g @ c.g))), LIN_EF),
    estimate("both-doubled", "2 g and 2 G (log-likelihood without its 1/2)",
        BOTH, both_times(lambda M: 2)),
    estimate("both-halved", "g/2 and G/2", BOTH, both_times(lambda M: 0.5)),
    *(
        estimate(f"hess-{new}", f"the estimator {new}", BOTH, as_hess(new), other_hess(new))
        for new in ("mc-hess", "mc-ef", "lin-hess", "lin-ef")
    ),
    estimate("gauss-newton",
        "the Gauss-Newton matrix in place of the Hessian (no second derivatives of the network)",
        HESSIAN, lambda right: gauss_newton, MC_HESS),
    estimate("residual-twice",
        "the part of the Hessian with the second derivatives of the network twice",
        HESSIAN, residual_times(2.0), MC_HESS),
    estimate("residual-sign",
        "the sign of the part of the Hessian with the second derivatives of the network",
        HESSIAN, residual_times(-1.0), MC_HESS),
    estimate("G-diagonal-estimate", "the diagonal of G alone",
        HESSIAN, on_estimate(lambda c, M: with_G(c, np.diag(np.diag(dense(c)))))),
    estimate("per-example",
        "the sum of the outer products of each observation's gradient in place of the outer "
        "product of the batch's gradient",
        HESSIAN, per_example, EF),
    estimate("G-negative", "the positive eigenvalues of G set to 0",
        HESSIAN,
        on_eigenvalues(lambda w: np.minimum(w, 0)),
        MC_HESS),
    estimate("G-eigen-absolute", "the positive eigenvalues of G made negative",
        HESSIAN,
        on_eigenvalues(lambda w: -np.abs(w)),
        MC_HESS),
)
# fmt: on

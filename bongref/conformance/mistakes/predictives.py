"""Mistakes in the predictive distribution: its samples, moments, densities and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...linalg import Array
from ...predictive import Predictive
from .. import pipeline, vectors
from ..pipeline import NotOfThisCase, Problem, Values
from .observations import factor
from .table import CLASSES, GAUSSIAN, NOT_GAUSSIAN, Mistake, both, of_kind, row_of

predictive = row_of("predictive")
Fn = Callable[[str, Problem, Array, Array | None], Values]
Change = Callable[[Fn], Fn]
SAMPLED, MC, LIN_MC = of_kind("mc", "lin_mc"), of_kind("mc"), of_kind("lin_mc")
MEAN, VAR, LOGS, NLPD = ("mean",), ("var",), ("log_density",), ("nlpd",)
ERROR, ECE = ("error",), ("ece",)


# --- which predictive, at which samples -----------------------------------------------------------


def as_kind(new: str) -> Change:
    """Another kind of predictive distribution."""
    return lambda right: lambda kind, problem, mu, samples: right(new, problem, mu, samples)


def with_samples(change: Callable[[Array, Array], Array]) -> Change:
    """Other samples: ``change(samples, mu)``."""
    return lambda right: (
        lambda kind, problem, mu, samples: right(
            kind, problem, mu, change(pipeline.given(samples), mu)
        )
    )


def from_values(
    values: Callable[[Problem, Array, Array], Array], of_means: bool = False
) -> Callable[[Any], Fn]:
    """The predictive of other outputs (S, N, C), or means: ``values(problem, mu, samples)``."""

    def fn(kind: str, problem: Problem, mu: Array, samples: Array | None) -> Values:
        lik = vectors.likelihood(problem.likelihood)
        new = values(problem, mu, pipeline.given(samples))
        return pipeline.summary(Predictive(kind, lik, new, of_means), problem.y)

    return lambda right: fn


def linear_outputs(problem: Problem, mu: Array, samples: Array) -> Array:
    """f linearised in place of h."""
    here = problem.at(mu)
    return np.stack([[p.o + p.J @ (t - mu) for p in here] for t in samples])


def mean_of_outputs(problem: Problem, mu: Array, samples: Array) -> Array:
    """The mean of the outputs over the samples."""
    mean: Array = np.stack([[p.o for p in problem.at(t)] for t in samples]).mean(axis=0)[None]
    return mean


def output_slope(problem: Problem, mu: Array, samples: Array) -> Array:
    """h linearised with the Jacobian of the outputs."""
    here = problem.at(mu)
    return np.stack([[p.h + p.J @ (t - mu) for p in here] for t in samples])


def root_slope(problem: Problem, mu: Array, samples: Array) -> Array:
    """h linearised with a root of the variance in place of the variance, times J."""
    here = [(p.h, factor(p) @ p.J) for p in problem.at(mu)]
    return np.stack([[h + slope @ (t - mu) for h, slope in here] for t in samples])


# --- what is made of it ---------------------------------------------------------------------------


def on_summary(change: Callable[[Values, Any, Array], Values]) -> Callable[[Any], Fn]:
    """Other numbers of the same distribution: ``change(values, predictive, Y)``."""

    def fn(kind: str, problem: Problem, mu: Array, samples: Array | None) -> Values:
        pred = pipeline.mixture(kind, problem, mu, samples)
        return change(pipeline.summary(pred, problem.y), pred, problem.y)

    return lambda right: fn


def with_mean(mean: Callable[[Any], Array]) -> Callable[[Any], Fn]:
    """Another mean, and the error and ece of it."""

    def change(v: Values, p: Any, Y: Array) -> Values:
        new = mean(p)
        scores = pipeline.scores(*pipeline.labels(new, Y)) if "ece" in v else {}
        return {**v, "mean": new, **scores}

    return on_summary(change)


def with_value(name: str, value: Callable[[Values, Any, Array], Array]) -> Callable[[Any], Fn]:
    """Another value of one quantity: ``value(values, predictive, Y)``."""
    return on_summary(lambda v, p, Y: {**v, name: value(v, p, Y)})


def with_var(var: Callable[[Any], Array]) -> Callable[[Any], Fn]:
    """Another variance."""
    return with_value("var", lambda v, p, Y: var(p))


def with_logs(logs: Callable[[Values, Any, Array], Array]) -> Callable[[Any], Fn]:
    """Other log-densities, and the nlpd of them."""

    def change(v: Values, p: Any, Y: Array) -> Values:
        new = logs(v, p, Y)
        return {**v, "log_density": new, "nlpd": -np.mean(new)}

    return on_summary(change)


def logs_plus(extra: Callable[[Any, Array], Any]) -> Callable[[Any], Fn]:
    """Log-densities with something added."""
    return with_logs(lambda v, p, Y: v["log_density"] + extra(p, Y))


def constant(p: Any, Y: Array) -> Any:
    """Minus the constant of the log-density."""
    if p.lik.name == "gaussian":
        return Y.shape[-1] / 2 * np.log(2 * np.pi)
    if p.lik.name == "poisson":
        return p.lik.b(Y)
    raise NotOfThisCase("a constant in the log-density")


def log_determinant(p: Any, Y: Array) -> Any:
    """log √|2πR| of a Gaussian."""
    return np.linalg.slogdet(2 * np.pi * p.lik.R)[1] / 2


def diagonal_R(v: Values, p: Any, Y: Array) -> Array:
    """The log-density with the diagonal of R alone."""
    lik = vectors.likelihood({"kind": "gaussian", "R": np.diag(np.diag(p.lik.R))})
    return pipeline.summary(Predictive(p.kind, lik, p.values, p.of_means), Y)["log_density"]


def noise(p: Any) -> Array:
    """The mean over the samples of the variance of y at each."""
    if p.of_means:
        parts = p.lik.var_mean(p.values)
    else:
        parts = np.diagonal(p.lik.var(p.values), axis1=-2, axis2=-1)
    mean: Array = parts.mean(axis=0)
    return mean


def unbiased(p: Any) -> Array:
    """The variance with 1/(S − 1) for the means."""
    S = len(p.values)
    var: Array = noise(p) + p.means.var(axis=0) * S / (S - 1)
    return var


def mean_of_logs(v: Values, p: Any, Y: Array) -> Array:
    """The mean over the samples of the log-density."""
    log_prob = p.lik.log_prob_mean if p.of_means else p.lik.log_prob
    y = p.lik.encode(Y, Y.shape[-1], batch=len(Y))
    mean: Array = np.asarray(log_prob(p.values, y)).mean(axis=0)
    return mean


def moment_matched(v: Values, p: Any, Y: Array) -> Array:
    """The log-density of a Gaussian with the predictive mean and variance."""
    scaled = (Y - v["mean"]) ** 2 / v["var"] + np.log(2 * np.pi * v["var"])
    logs: Array = -(scaled.sum(axis=-1)) / 2
    return logs


# --- error and ece --------------------------------------------------------------------------------


def with_ece(**wrong: Any) -> Callable[[Any], Fn]:
    """The ece with another argument of :func:`bongref.conformance.pipeline.scores`."""
    return with_value(
        "ece", lambda v, p, Y: pipeline.scores(*pipeline.labels(p.mean, Y), **wrong)["ece"]
    )


def with_confidence(confidence: Callable[[Array, Array], Array]) -> Callable[[Any], Fn]:
    """The ece with another confidence: ``confidence(p, y)`` of probabilities and one-hot y."""

    def value(v: Values, pred: Any, Y: Array) -> Array:
        p, y = pipeline.labels(pred.mean, Y)
        return pipeline.scores(p, y, sure=confidence(p, y))["ece"]

    return with_value("ece", value)


def bins(pred: Any, Y: Array) -> Array:
    """The gap between accuracy and confidence in each bin that is not empty."""
    p, y = pipeline.labels(pred.mean, Y)
    sure, hit = p.max(axis=1), p.argmax(axis=1) == y.argmax(axis=1)
    where = np.clip(np.ceil(sure * 20) - 1, 0, 19)
    return np.array([abs(np.mean((hit - sure)[where == b])) for b in np.unique(where)])


# fmt: off
PREDICTIVES: tuple[Mistake, ...] = (
    predictive("predictive-plugin", "the plugin predictive", (), as_kind("plugin"), SAMPLED),
    predictive("predictive-mc", "the mc predictive (nothing linearised)",
        (), as_kind("mc"), LIN_MC),
    predictive("predictive-lin", "the linearised predictive", (), as_kind("lin_mc"), MC),
    predictive("predictive-lin-f", "the outputs f linearised in place of the mean h",
        (), from_values(linear_outputs), SAMPLED),
    predictive("predictive-mean-output",
        "the mean of the outputs in place of the mean of the means",
        (), from_values(mean_of_outputs), MC),
    predictive("predictive-first-sample", "the first sample alone",
        (), with_samples(lambda s, mu: s[:1]), SAMPLED),
    predictive("predictive-not-first", "the first sample left out",
        (), with_samples(lambda s, mu: s[1:]), SAMPLED),
    predictive("predictive-not-last", "the last sample left out",
        (), with_samples(lambda s, mu: s[:-1]), SAMPLED),
    predictive("predictive-median", "the median of the means in place of their mean",
        MEAN, with_mean(lambda p: np.median(p.means, axis=0)), SAMPLED),
    predictive("predictive-log2", "log2 in place of the natural logarithm",
        LOGS, with_logs(lambda v, p, Y: v["log_density"] / np.log(2))),
    predictive("predictive-log10", "log10 in place of the natural logarithm",
        LOGS, with_logs(lambda v, p, Y: v["log_density"] / np.log(10))),
    predictive("predictive-det", "the determinant of 2 pi R without its square root",
        LOGS, logs_plus(lambda p, Y: -log_determinant(p, Y)), GAUSSIAN),
    predictive("predictive-no-det", "no determinant of 2 pi R",
        LOGS, logs_plus(log_determinant), GAUSSIAN),
    predictive("predictive-no-det-R", "no determinant of R in the density",
        LOGS, logs_plus(lambda p, Y: np.linalg.slogdet(p.lik.R)[1] / 2), GAUSSIAN),
    predictive("predictive-diagonal-R", "the diagonal of R alone in the density",
        LOGS, with_logs(diagonal_R), GAUSSIAN),
    predictive("predictive-likeliest",
        "the probability of the likeliest class in place of that of the label",
        LOGS, with_logs(lambda v, p, Y: np.log(p.means.max(axis=-1).mean(axis=0))), CLASSES),
    predictive("predictive-slope-root",
        "a root of the variance in place of the variance in the slope of the mean",
        MEAN, from_values(root_slope, of_means=True), both(LIN_MC, NOT_GAUSSIAN)),
    predictive("predictive-second-moment",
        "the second moment of the means in place of their variance",
        VAR, with_var(lambda p: noise(p) + (p.means**2).mean(axis=0))),
    predictive("predictive-samples-noise", "the samples taken for noise: mu added to them",
        (), with_samples(lambda s, mu: s + mu), SAMPLED),
    predictive("predictive-no-mean", "the linearisation without subtracting mu",
        (), with_samples(lambda s, mu: s + mu), LIN_MC),
    predictive("predictive-mean-log",
        "the mean of the log-densities in place of the log of their mean",
        LOGS, with_logs(mean_of_logs)),
    predictive("predictive-sum-log",
        "the sum over the samples in place of the mean in the log-density",
        LOGS, logs_plus(lambda p, Y: np.log(len(p.values)))),
    predictive("predictive-var-epistemic", "the variance of the means alone, without the noise",
        VAR, with_var(lambda p: p.means.var(axis=0))),
    predictive("predictive-var-noise",
        "the mean of the noise alone, without the variance of the means",
        VAR, with_var(noise)),
    predictive("predictive-var-unbiased", "1/(S - 1) in place of 1/S in the variance of the means",
        VAR, with_var(unbiased)),
    predictive("predictive-var-of-mean",
        "the noise at the mean of the means in place of its mean over the samples",
        VAR, with_var(lambda p: p.lik.var_mean(p.mean) + p.means.var(axis=0))),
    predictive("predictive-var-noise-of-mean", "the noise at the mean of the means alone",
        VAR, with_var(lambda p: p.lik.var_mean(p.mean))),
    predictive("predictive-density-of-mean",
        "the density at the mean of the means in place of the mean of the densities",
        LOGS, with_logs(lambda v, p, Y: np.asarray(p.lik.log_prob_mean(p.mean, Y)))),
    predictive("predictive-moment-matched",
        "the density of a Gaussian with the predictive mean and variance",
        LOGS, with_logs(moment_matched)),
    predictive("predictive-slope",
        "the Jacobian of the outputs in place of that of the mean in its linearisation",
        MEAN, from_values(output_slope, of_means=True), LIN_MC),
    # before other numbers of bins, which also move a confidence that is at an edge
    predictive("ece-left", "bins [a, b) in place of (a, b]", ECE, with_ece(left=True)),
    *(
        predictive(f"ece-bins-{n}", f"{n} bins in place of 20", ECE, with_ece(bins=n))
        for n in (10, 15, 5, 25, 30, 50, 100)
    ),
    predictive("ece-probability",
        "the probability of the last class in place of the confidence max(p)",
        ECE, with_confidence(lambda p, y: p[:, -1])),
    predictive("ece-true-class",
        "the probability of the true class in place of the confidence max(p)",
        ECE, with_confidence(lambda p, y: (p * y).sum(axis=1))),
    predictive("ece-unweighted", "the mean over the bins without the share of observations in each",
        ECE, with_value("ece", lambda v, p, Y: bins(p, Y).mean())),
    predictive("ece-largest", "the largest gap of a bin (the maximum calibration error)",
        ECE, with_value("ece", lambda v, p, Y: bins(p, Y).max())),
    predictive("error-accuracy", "the accuracy in place of the error",
        ERROR, with_value("error", lambda v, p, Y: 1 - v["error"])),
    predictive("error-count", "the number of wrong classes in place of their share",
        ERROR, with_value("error", lambda v, p, Y: len(Y) * v["error"])),
    predictive("predictive-std", "the standard deviation in place of the variance",
        VAR, with_value("var", lambda v, p, Y: np.sqrt(v["var"]))),
    predictive("predictive-outputs", "the outputs in place of the means of y",
        MEAN, with_value("mean", lambda v, p, Y: p.values.mean(axis=0))),
    predictive("predictive-nlpd-sum", "the sum over the observations in place of the mean",
        NLPD, with_value("nlpd", lambda v, p, Y: -np.sum(v["log_density"]))),
    predictive("predictive-nlpd-sign", "the sign of the nlpd",
        NLPD, with_value("nlpd", lambda v, p, Y: -v["nlpd"])),
    predictive("predictive-no-constant", "a log-density without its constant",
        LOGS, logs_plus(constant)),
)
# fmt: on

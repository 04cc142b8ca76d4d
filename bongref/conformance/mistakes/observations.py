"""Mistakes in the likelihood and the batch: score, R, its factors, sums over the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...linalg import Array, cholesky, finite, inv, solve
from ...special import ndtr
from ..pipeline import Observation
from .combinators import (
    ProblemChange,
    on_batch,
    on_observations,
    with_info,
    with_score,
    with_score_and_info,
)
from .table import (
    BOTH,
    CLASSES,
    COUNTS,
    EF,
    GAUSSIAN,
    GRADIENT,
    HESS,
    HESSIAN,
    LABELS,
    NOT_GAUSSIAN,
    Mistake,
    both,
    row_of,
    with_likelihood,
)

problem = row_of("problem")
ENTRYWISE = with_likelihood("bernoulli", "poisson")
FACTORED = with_likelihood("gaussian", "categorical")


# --- R and its factors ----------------------------------------------------------------------------


def lower(R: Array) -> Array:
    """Lower Cholesky factor."""
    return cholesky(R)


def identity(one: Observation) -> Array:
    """I in place of R."""
    return np.eye(len(one.o))


def inverse_of_diagonal(one: Observation) -> Array:
    """diag(R)⁻¹."""
    return np.diag(1 / np.diag(one.R))


def with_R(change: Callable[[Array], Array]) -> ProblemChange:
    """Another R of a Gaussian."""
    return with_score_and_info(
        lambda o: finite(solve(change(o.R), o.e)),
        lambda o: finite(solve(change(o.R), np.eye(len(o.R)))),
    )


def softmax_root(one: Observation) -> Array:
    """B with B Bᵀ = R of a softmax."""
    B: Array = np.diag(np.sqrt(one.h)) - np.outer(one.h, np.sqrt(one.h))
    return B


def factor(one: Observation) -> Array:
    """The factor of R or R⁻¹ of which S is made."""
    if one.kind == "gaussian":
        return lower(inv(one.R))
    return softmax_root(one) if one.kind == "categorical" else np.sqrt(one.R)


def transposed_factor(one: Observation) -> Array:
    """Aᵀ A for the factor A Aᵀ = R⁻¹."""
    A = lower(inv(one.R))
    product: Array = A.T @ A
    return product


def transposed_root(one: Observation) -> Array:
    """Bᵀ B for the factor B Bᵀ: L⁻ᵀ of a Gaussian, diag(√p) − p √pᵀ of a softmax."""
    softmax = one.kind == "categorical"
    B = softmax_root(one) if softmax else finite(solve(lower(one.R), np.eye(len(one.R)))).T
    product: Array = B.T @ B
    return product


def summed_columns(one: Observation) -> Array:
    """One column of S, the sum over the outputs, in place of one column for each."""
    column = factor(one).sum(axis=1)
    return np.outer(column, column)


# --- parts of the outputs, of the batch -----------------------------------------------------------


def entry(a: Array, k: int) -> Array:
    """A vector that is 0 but at k."""
    out = 0 * a
    out[k] = a[k]
    return out


def block(A: Array, k: int) -> Array:
    """A matrix that is 0 but at (k, k)."""
    out = 0 * A
    out[k, k] = A[k, k]
    return out


def only_output(k: int) -> ProblemChange:
    """One output alone."""
    return with_score_and_info(lambda o: entry(o.score, k), lambda o: block(o.info, k))


def batch_mean(score: bool, info: bool) -> ProblemChange:
    """The mean over the batch in place of the sum."""

    def change(batch: list[Observation]) -> list[Observation]:
        n, m = len(batch) if score else 1, len(batch) if info else 1
        return [one._replace(score=one.score / n, info=one.info / m) for one in batch]

    return on_batch(change)


def with_y(batch: list[Observation], ys: Sequence[Array]) -> list[Observation]:
    """The batch with other observations y of the same inputs."""
    moved = []
    for one, y in zip(batch, ys, strict=True):
        d = y - one.y
        d_score = finite(solve(one.R, d)) if one.kind == "gaussian" else d
        moved.append(one._replace(y=y, e=one.e + d, score=one.score + d_score))
    return moved


def reversed_y(batch: list[Observation]) -> list[Observation]:
    """The observations y of a batch in reverse order."""
    return with_y(batch, [one.y for one in reversed(batch)])


def with_mean(link: Callable[[Array], Array]) -> ProblemChange:
    """Another mean of y at the outputs, with the variance of that mean."""

    def change(one: Observation) -> Observation:
        h = link(one.o)
        variances = h * (1 - h) if one.kind == "bernoulli" else h
        R = np.diag(h) - np.outer(h, h) if one.kind == "categorical" else np.diag(variances)
        e = one.y - h
        return one._replace(h=h, T=R, R=R, e=e, score=e, info=R)

    return on_observations(change)


# (key, likelihood, text, link)
LINKS: tuple[tuple[str, str, str, Callable[[Array], Array]], ...] = (
    (
        *("softplus", "poisson", "the rate log(1 + exp(o)) in place of exp(o)"),
        lambda o: np.logaddexp(0, o),
    ),
    ("identity", "poisson", "the output itself as the rate, without exp", lambda o: o),
    (
        *("sigmoid", "categorical", "a sigmoid of each logit in place of the softmax"),
        lambda o: 1 / (1 + np.exp(-o)),
    ),
    (
        *("softmax", "bernoulli", "a softmax over the outputs in place of a sigmoid of each"),
        lambda o: np.exp(o) / np.exp(o).sum(),
    ),
    ("probit", "bernoulli", "the normal distribution function in place of the sigmoid", ndtr),
    ("negative", "bernoulli", "the sign of the logits", lambda o: 1 / (1 + np.exp(o))),
)

# fmt: off
BATCHES: tuple[Mistake, ...] = (
    problem("batch-mean", "the mean over the batch in place of the sum",
        BOTH, batch_mean(True, True)),
    problem("batch-mean-g", "the mean over the batch in place of the sum in g alone",
        GRADIENT, batch_mean(True, False), HESS),
    problem("batch-mean-G", "the mean over the batch in place of the sum in G alone",
        HESSIAN, batch_mean(False, True), HESS),
    problem("batch-first", "the first observation of the batch alone",
        BOTH, on_batch(lambda b: b[:1])),
    problem("batch-last", "the last observation of the batch alone",
        BOTH, on_batch(lambda b: b[-1:])),
    problem("batch-y-reversed", "the observations y of the batch in reverse order, the inputs not",
        GRADIENT, on_batch(reversed_y)),
    problem("batch-y-rolled", "the observations y of the batch moved by one, the inputs not",
        GRADIENT, on_batch(lambda b: with_y(b, [b[k - 1].y for k in range(len(b))]))),
)

LIKELIHOODS: tuple[Mistake, ...] = (
    # Gaussian
    problem("E02",
        "F^T e and -F^T R F with F the Jacobian of the mean, where f must be the natural "
        "parameter (erratum f-is-natural)",
        BOTH, with_score_and_info(lambda o: o.T.T @ o.e, lambda o: o.T.T @ o.R @ o.T)),
    problem("R-missing", "no R^-1 in g and G (R taken as I)",
        BOTH, with_score_and_info(lambda o: o.e, identity), GAUSSIAN),
    problem("R-missing-g", "no R^-1 in g", GRADIENT, with_score(lambda o: o.e), GAUSSIAN),
    problem("R-missing-G", "no R in G (-H^T H for a Gaussian, -F^T F for the others)",
        HESSIAN, with_info(identity), HESS),
    problem("R-for-inverse", "R in place of R^-1 in g and G",
        BOTH, with_score_and_info(lambda o: o.R @ o.e, lambda o: o.R), GAUSSIAN),
    problem("R-for-inverse-g", "R in place of R^-1 in g",
        GRADIENT, with_score(lambda o: o.R @ o.e), GAUSSIAN),
    problem("R-for-inverse-G", "R in place of R^-1 in G",
        HESSIAN, with_info(lambda o: o.R), both(GAUSSIAN, HESS)),
    problem("R-diagonal", "the diagonal of R alone",
        BOTH, with_score_and_info(lambda o: o.e / np.diag(o.R), inverse_of_diagonal), GAUSSIAN),
    problem("R-diagonal-g", "the diagonal of R alone in g",
        GRADIENT, with_score(lambda o: o.e / np.diag(o.R)), GAUSSIAN),
    problem("R-diagonal-G", "the diagonal of R alone in G",
        HESSIAN, with_info(inverse_of_diagonal), both(GAUSSIAN, HESS)),
    problem("R-inverse-diagonal-G", "the diagonal of R^-1 alone in G",
        HESSIAN, with_info(lambda o: np.diag(np.diag(finite(inv(o.R))))), both(GAUSSIAN, HESS)),
    problem("R-squared", "R read as a standard deviation (R^2 in place of R)",
        BOTH, with_R(lambda R: R @ R), GAUSSIAN),
    problem("R-root",
        "the Cholesky factor of R in place of R (a standard deviation where the variance belongs)",
        BOTH, with_R(lower), GAUSSIAN),
    problem("R-root-g", "L^-1 e in place of R^-1 e in g",
        GRADIENT, with_score(lambda o: finite(solve(lower(o.R), o.e))), GAUSSIAN),
    problem("E55",
        "a transposed factor (Cholesky: A^T A with A A^T = R^-1, as printed, erratum chol)",
        HESSIAN, with_info(transposed_factor), both(GAUSSIAN, HESS)),
    problem("R-transposed-root",
        "a transposed factor (Cholesky: L^-1 L^-T in place of L^-T L^-1 = R^-1)",
        HESSIAN, with_info(transposed_root), both(FACTORED, HESS)),
    problem("R-transposed-g",
        "a transposed Cholesky factor in g: L^-1 L^-T e in place of L^-T L^-1 e",
        GRADIENT, with_score(lambda o: transposed_root(o) @ o.e), GAUSSIAN),
    # other likelihoods
    problem("logit-residual", "y - o, with the output in place of the mean",
        GRADIENT, with_score(lambda o: o.y - o.o), NOT_GAUSSIAN),
    problem("squared-loss",
        "the gradient of the squared error (a further factor of the mean's derivative)",
        GRADIENT, with_score(lambda o: o.T.T @ o.e), NOT_GAUSSIAN),
    problem("H-for-F", "H, the Jacobian of the mean, in place of F in both places of -F^T R F",
        HESSIAN, with_info(lambda o: o.T.T @ o.R @ o.T), both(NOT_GAUSSIAN, HESS)),
    problem("R-over-variance", "the residual over the variance: H^T R^-1 e with F in place of H",
        GRADIENT, with_score(lambda o: o.e / np.diag(o.R)), NOT_GAUSSIAN),
    problem("missing-pp", "R = diag(p) without - p p^T",
        HESSIAN, with_info(lambda o: np.diag(o.h)), both(CLASSES, HESS)),
    problem("plus-pp", "R = diag(p) + p p^T",
        HESSIAN, with_info(lambda o: np.diag(o.h) + np.outer(o.h, o.h)), both(CLASSES, HESS)),
    problem("diag-R-softmax", "the diagonal of R, p (1 - p), alone",
        HESSIAN, with_info(lambda o: np.diag(np.diag(o.R))), both(CLASSES, HESS)),
    problem("p-for-variance", "p in place of p (1 - p)",
        HESSIAN, with_info(lambda o: np.diag(o.h)), both(LABELS, HESS)),
    problem("1-p-for-variance", "1 - p in place of p (1 - p)",
        HESSIAN, with_info(lambda o: np.diag(1 - o.h)), both(LABELS, HESS)),
    problem("std-for-variance", "the standard deviation in place of the variance in R",
        HESSIAN, with_info(lambda o: np.sqrt(o.R)),
        both(ENTRYWISE, HESS)),
    problem("variance-squared", "R^2 in place of R in G",
        HESSIAN, with_info(lambda o: o.R @ o.R), both(NOT_GAUSSIAN, HESS)),
    problem("inverse-variance", "1/R in place of R in G",
        HESSIAN, with_info(inverse_of_diagonal),
        both(ENTRYWISE, HESS)),
    problem("y-for-rate", "y in place of the rate in R",
        HESSIAN, with_info(lambda o: np.diag(o.y)), both(COUNTS, HESS)),
    problem("output-for-rate", "the log-rate in place of the rate in R",
        HESSIAN, with_info(lambda o: np.diag(o.o)), both(COUNTS, HESS)),
    *(
        problem(f"mean-{key}", text, BOTH, with_mean(link), with_likelihood(kind))
        for key, kind, text, link in LINKS
    ),
    problem("score-halved", "(y - yhat)/2 in place of y - yhat",
        BOTH, with_score(lambda o: o.score / 2), EF),
    problem("score-doubled", "2 (y - yhat) in place of y - yhat",
        BOTH, with_score(lambda o: 2 * o.score), EF),
    problem("outputs-summed",
        "the columns of S of the outputs summed, in place of a column for each",
        HESSIAN, with_info(summed_columns), HESS),
    problem("output-first", "the first output alone",
        BOTH, only_output(0)),
    problem("output-first-g", "the first output alone in g",
        GRADIENT, with_score(lambda o: entry(o.score, 0))),
    problem("output-last", "the last output alone",
        BOTH, only_output(-1)),
    problem("outputs-mean", "the mean over the outputs in place of the sum",
        BOTH, with_score_and_info(lambda o: o.score / len(o.o), lambda o: o.info / len(o.o))),
    problem("score-absolute", "|y - yhat| in place of y - yhat",
        GRADIENT, with_score(lambda o: np.abs(o.score))),
    problem("residual-outer",
        "the outer product of y - yhat in place of R (an empirical Fisher of each observation)",
        HESSIAN, with_info(lambda o: np.outer(o.score, o.score)), HESS),
    problem("labels-signed", "labels -1 and 1 in place of 0 and 1",
        GRADIENT, with_score(lambda o: 2 * o.y - 1 - o.h), LABELS),
    problem("labels-inverted", "1 - y in place of y",
        GRADIENT, with_score(lambda o: 1 - o.y - o.h), LABELS),
)
# fmt: on

"""Mistakes in drawing θ ~ q, by the mean and the covariance that the draws have."""

from __future__ import annotations

import numpy as np

from ...gaussians import covariance
from ...linalg import Array, cholesky, finite, inv, solve
from ...states import DLR, State
from .. import vectors
from ..pipeline import Values
from ..vectors import Case

ROUNDING = 1e-9  # of draws from given normals, relative to their largest covariance
ERRORS = 6.0  # standard errors of draws from a seed
NO_MEAN = "draws without the mean"


def draws(case: Case, values: Values) -> list[str]:
    """The wrong covariances, or means, that the draws of a case have; in words."""
    q = vectors.state(case.family, case.input["state"])
    L = cholesky(covariance(q))
    if "covariance" in values:
        if np.allclose(values["mean"], 0) and np.any(q.mu):
            return [NO_MEAN]
        got = values["covariance"]
        return [words for words, V in wrong_covariances(q).items() if _is(got, V)]
    n, got, shift = case.input["n"], values["whitened covariance"], finite(solve(L, q.mu))
    if np.max(np.abs(values["whitened mean"] + shift)) <= ERRORS / np.sqrt(n) and np.any(q.mu):
        return [NO_MEAN]
    root = finite(solve(L, np.eye(len(L))))
    whitened = {words: root @ V @ root.T for words, V in wrong_covariances(q).items()}
    return [words for words, V in whitened.items() if sampled(got, V, n)]


def _is(got: Array, V: Array) -> bool:
    """Whether a covariance is V but for rounding."""
    return bool(np.max(np.abs(got - V)) <= ROUNDING * max(1.0, float(np.max(np.abs(V)))))


def sampled(got: Array, V: Array, n: int) -> bool:
    """Whether a covariance may be that of n draws of covariance V."""
    variances = np.diag(V)
    errors = np.sqrt((np.outer(variances, variances) + V**2) / n)
    return bool(np.all(np.abs(got - V) <= ERRORS * errors))


def wrong_covariances(q: State) -> dict[str, Array]:
    """The covariances of draws with one mistake, by what it is."""
    Sigma = covariance(q)
    L, precision, P = cholesky(Sigma), finite(inv(Sigma)), len(q.mu)
    wrong: dict[str, Array] = {
        "Sigma in place of a root of it (variances for standard deviations)": Sigma @ Sigma,
        "the factor L transposed: L^T L in place of L L^T": L.T @ L,
        "the precision in place of the covariance": precision,
        "a root of the precision taken twice": precision @ precision,
        "the diagonal of the covariance alone": np.diag(np.diag(Sigma)),
        "the inverse of the precision's diagonal": np.diag(1 / np.diag(precision)),
        "standard normals without the covariance": np.eye(P),
        "one standard normal for all parameters": np.outer(L.sum(axis=1), L.sum(axis=1)),
    }
    if isinstance(q, DLR):
        wrong["Ups alone, without W"] = np.diag(1 / q.Ups)
        both = np.diag(1 / q.Ups) + q.W @ q.W.T
        wrong["W W^T added to the covariance, not to the precision"] = both
    return wrong

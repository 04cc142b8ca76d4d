"""Mistakes in drawing θ ~ q, by the covariance that the draws have."""

from __future__ import annotations

import numpy as np

from ...gaussians import covariance
from ...linalg import Array
from .. import vectors
from ..pipeline import Values
from ..vectors import Case


def draws(case: Case, values: Values) -> list[str]:
    """The wrong covariances, or means, that the draws of a case have; in words."""
    q = vectors.state(case.family, case.input["state"])
    Sigma = covariance(q)
    L, precision, P = np.linalg.cholesky(Sigma), np.linalg.inv(Sigma), len(q.mu)
    wrong: dict[str, Array] = {
        "Sigma in place of a root of it (variances for standard deviations)": Sigma @ Sigma,
        "the factor L transposed: L^T L in place of L L^T": L.T @ L,
        "the precision in place of the covariance": precision,
        "a root of the precision taken twice": precision @ precision,
        "the diagonal of the covariance alone": np.diag(np.diag(Sigma)),
        "the inverse of the precision's diagonal": np.diag(1 / np.diag(precision)),
        "standard normals without the covariance": np.eye(P),
    }
    if "Ups" in q._fields:
        wrong["Ups alone, without W"] = np.diag(1 / q.Ups)  # type: ignore[union-attr]
    if "covariance" in values:
        got, white, bound = values["covariance"], None, 1e-9
        if np.allclose(values["mean"], 0) and np.any(q.mu):
            return ["draws without the mean"]
    else:
        white, bound = np.linalg.inv(L), 6 * np.sqrt(2 / case.input["n"])
        got = values["whitened covariance"]
    found = []
    for words, value in wrong.items():
        seen = value if white is None else white @ value @ white.T
        near = bound * (1.0 if white is None else max(1.0, float(np.max(np.abs(seen)))))
        if np.max(np.abs(got - seen)) <= near * max(1.0, float(np.max(np.abs(seen)))):
            found.append(words)
    return found

"""Exercises of lessons 6 to 11: moments, families, rules, forgetting, predictives, own steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import Array
from .table import Exercise, Form, covariance

Generator = np.random.Generator


# --- lesson 6: natural against moment -------------------------------------------------------------


def _spread(rng: Generator) -> tuple[Any, ...]:
    return covariance(rng, 3), rng.standard_normal((3, 2))


def largest_loss(Sigma: Array, S: Array) -> float:
    """The largest eigenvalue of SᵀΣS."""
    return float(np.linalg.eigvalsh(S.T @ Sigma @ S)[-1])


LESSON6 = (
    Exercise(
        "bong_fc_mom", 5,
        """The BONG step in moment parameters: mu + Sigma g, and Sigma + Sigma G Sigma with
        G = -S S^T.""",
        ("mu", "Sigma", "g", "S"), ("mu", "Sigma"),
        wrong={"the covariance of the natural form, (Sigma^-1 + S S^T)^-1":
                   lambda m, P, g, S: (m + P @ g, np.linalg.inv(np.linalg.inv(P) + S @ S.T)),
               "Sigma on both sides of G is left out":
                   lambda m, P, g, S: (m + P @ g, P - S @ S.T),
               "Sigma on the right of G is left out":
                   lambda m, P, g, S: (m + P @ g, P - P @ S @ S.T),
               "Sigma on the left of G is left out":
                   lambda m, P, g, S: (m + P @ g, P - S @ S.T @ P)},
        method="bong-lin-hess-fc_mom",
    ),
    Exercise(
        "largest_loss", 5,
        """The step of bong-*-fc_mom keeps the covariance positive definite exactly if the largest
        eigenvalue of S^T Sigma S is below 1. Return that eigenvalue.""",
        ("Sigma", "S"), ("eigenvalue",), largest_loss, _spread,
        {"Sigma is left out: S^T S": lambda Sigma, S: largest_loss(np.eye(3), S),
         "the precision in place of the covariance":
             lambda Sigma, S: largest_loss(np.linalg.inv(Sigma), S),
         "the smallest eigenvalue, not the largest":
             lambda Sigma, S: float(np.linalg.eigvalsh(S.T @ Sigma @ S)[0]),
         "a singular value of the root, the square root of the eigenvalue":
             lambda Sigma, S: largest_loss(Sigma, S) ** 0.5,
         "the trace, not an eigenvalue": lambda Sigma, S: float(np.trace(S.T @ Sigma @ S)),
         "the Frobenius norm, not an eigenvalue":
             lambda Sigma, S: float(np.linalg.norm(S.T @ Sigma @ S)),
         "all eigenvalues, not the largest":
             lambda Sigma, S: np.linalg.eigvalsh(S.T @ Sigma @ S),
         "eigvalsh of Sigma S S^T, which is not symmetric":
             lambda Sigma, S: float(np.linalg.eigvalsh(Sigma @ S @ S.T)[-1]),
         "whether it is below 1, not the eigenvalue":
             lambda Sigma, S: float(largest_loss(Sigma, S) < 1),
         "the first of eigvals, which does not sort: take the largest":
             lambda Sigma, S: float(np.linalg.eigvals(S.T @ Sigma @ S).real[0]),
         "one minus the eigenvalue": lambda Sigma, S: 1 - largest_loss(Sigma, S),
         "Sigma twice: S^T Sigma Sigma S": lambda Sigma, S: largest_loss(Sigma @ Sigma, S),
         "the product of the eigenvalues of Sigma and S^T S is only a bound":
             lambda Sigma, S: float(np.linalg.eigvalsh(Sigma)[-1])
             * largest_loss(np.eye(len(S)), S)},
    ),
)  # fmt: skip


# --- lesson 7: diagonal and low rank --------------------------------------------------------------


def _low_rank(rng: Generator) -> tuple[Any, ...]:
    U, _ = np.linalg.qr(rng.standard_normal((5, 4)))
    return rng.uniform(0.5, 2, 5), U * np.array([4.0, 2.0, 1.0, 0.5]) @ _rotation(rng), 2


def _rotation(rng: Generator) -> Array:
    Q: Array = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    return Q


def project(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    """(W Wᵀ of the kept columns, Υ with the diagonal of the discarded ones)."""
    kept, lost = _split(W, rank)
    return kept @ kept.T, Ups + np.sum(lost**2, axis=1)


def _split(W: Array, rank: int) -> tuple[Array, Array]:
    """The columns of W's singular directions: the largest ones, and the rest."""
    U, s, _ = np.linalg.svd(W, full_matrices=False)
    return U[:, :rank] * s[:rank], U[:, rank:] * s[rank:]


def _without_singular(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    U = np.linalg.svd(W, full_matrices=False)[0][:, :rank]
    return U @ U.T, project(Ups, W, rank)[1]


def _first_columns(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    kept, lost = W[:, :rank], W[:, rank:]
    return kept @ kept.T, Ups + np.sum(lost**2, axis=1)


def _not_squared(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    return project(Ups, W, rank)[0], Ups + np.sum(_split(W, rank)[1], axis=1)


def _smallest(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    kept, lost = _split(W, rank)
    return lost @ lost.T, Ups + np.sum(kept**2, axis=1)


def _root_of_singular(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    U, s, _ = np.linalg.svd(W, full_matrices=False)
    A = U[:, :rank] * np.sqrt(s[:rank])
    return A @ A.T, project(Ups, W, rank)[1]


def _kept_too(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    kept = _split(W, rank)[0]
    return kept @ kept.T, Ups + np.sum(kept**2, axis=1)


def _squared_singular(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    U, s, _ = np.linalg.svd(W, full_matrices=False)
    A = U[:, :rank] * s[:rank] ** 2
    return A @ A.T, project(Ups, W, rank)[1]


def _upwards(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    values, V = np.linalg.eigh(W @ W.T)
    kept = (V[:, :rank] * values[:rank]) @ V[:, :rank].T
    return kept, Ups + np.diag(W @ W.T - kept)


def _of_all(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    U, s, _ = np.linalg.svd(np.diag(Ups) + W @ W.T)
    kept = (U[:, :rank] * s[:rank]) @ U[:, :rank].T
    return kept, Ups + np.diag(W @ W.T - kept)


def _matrix(Ups: Array, W: Array, rank: int) -> tuple[Array, Array]:
    lost = _split(W, rank)[1]
    return project(Ups, W, rank)[0], Ups + lost @ lost.T


#: wrong steps of BONG with a diagonal covariance, in lessons 7 and 11
_BONG_DIAG: dict[str, Form] = {
    "d is subtracted from the variance, not from the precision": lambda m, v, g, d: (
        v - d,
        m + (v - d) * g,
    ),
    "standard deviations in place of variances": lambda m, v, g, d: (
        (1 / v - d) ** -0.5,
        m + (1 / v - d) ** -0.5 * g,
    ),
    "mu is left out: the new mean is mu + var_new g": lambda m, v, g, d: (
        1 / (1 / v - d),
        g / (1 / v - d),
    ),
    "d is squared: it is the second derivative itself": lambda m, v, g, d: (
        1 / (1 / v - d**2),
        m + g / (1 / v - d**2),
    ),
    "var is left out beside d: the new variance is var / (1 - var d)": lambda m, v, g, d: (
        v / (1 - d),
        m + v / (1 - d) * g,
    ),
}

LESSON7 = (
    Exercise(
        "bong_diag", 4,
        """The BONG step of the diagonal family: the new precision of each parameter is
        1/var - d, with d the diagonal of G; the new mean is mu + var_new g.""",
        ("mu", "var", "g", "d"), ("var", "mu"), wrong=_BONG_DIAG, method="bong-lin-hess-diag",
    ),
    Exercise(
        "project", 6,
        """The SVD projection of the precision diag(Ups) + W W^T to rank R: keep the R largest
        singular directions of W, and add to Ups the diagonal of what is discarded.
        Return W_new W_new^T, which is unique, and Ups_new.""",
        ("Ups", "W", "rank"), ("W W^T", "Ups"), project, _low_rank,
        {"what is discarded is not added to Ups":
             lambda u, W, r: (project(u, W, r)[0], u),
         "the singular values are left out of W_new": _without_singular,
         "the first columns of W are kept, not its largest singular directions": _first_columns,
         "the discarded columns are not squared": _not_squared,
         "what is discarded is subtracted from Ups, not added":
             lambda u, W, r: (project(u, W, r)[0], 2 * u - project(u, W, r)[1]),
         "the smallest singular directions are kept, not the largest": _smallest,
         "the square roots of the singular values in W_new": _root_of_singular,
         "the whole matrix of what is discarded is added to Ups, not its diagonal": _matrix,
         "what is kept is added to Ups, not what is discarded": _kept_too,
         "the squares of the singular values in W_new": _squared_singular,
         "the first columns of eigh: it sorts upwards, so that these are the smallest": _upwards,
         "the SVD of the whole precision, not of W": _of_all,
         "Ups itself is left out of the new one":
             lambda u, W, r: (project(u, W, r)[0], project(u, W, r)[1] - u)},
    ),
)  # fmt: skip


def _blr_fc(
    mu: Array, Sigma: Array, mu_i: Array, Sigma_i: Array, g: Array, S: Array, alpha: float,
    *, front: Array | None = None, sign: float = 1.0, keep: float | None = None,
    weight: float | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """A step of BLR; the keywords are mistakes."""
    inv = np.linalg.inv
    kept, weight = 1 - alpha if keep is None else keep, alpha if weight is None else weight
    new = inv(kept * inv(Sigma_i) + alpha * inv(Sigma) + weight * S @ S.T)
    rise = sign * inv(Sigma) @ (mu - mu_i) + g
    return new, (mu_i if front is None else front) + alpha * new @ rise


def _blr_covariances(
    mu: Array, Sigma: Array, mu_i: Array, Sigma_i: Array, g: Array, S: Array, alpha: float
) -> tuple[Array, Array]:
    inv = np.linalg.inv
    new = (1 - alpha) * Sigma_i + alpha * inv(inv(Sigma) + S @ S.T)
    return new, mu_i + alpha * new @ (inv(Sigma) @ (mu - mu_i) + g)


LESSON8 = (
    Exercise(
        "blr_fc", 6,
        """One inner iteration of BLR with full covariance: the new precision is
        (1 - alpha) Sigma_i^-1 + alpha (Sigma^-1 + S S^T), where mu, Sigma are the prior's and
        mu_i, Sigma_i the current iterate's; the new mean is
        mu_i + alpha Sigma_new (Sigma^-1 (mu - mu_i) + g).""",
        ("mu", "Sigma", "mu_i", "Sigma_i", "g", "S", "alpha"), ("Sigma", "mu"),
        wrong={"mu of the prior in front, in place of the iterate's mu_i":
                   lambda m, P, mi, Pi, g, S, a: _blr_fc(m, P, mi, Pi, g, S, a, front=m),
               "the sign of mu - mu_i":
                   lambda m, P, mi, Pi, g, S, a: _blr_fc(m, P, mi, Pi, g, S, a, sign=-1.0),
               "1 - alpha is left out in front of the iterate's precision":
                   lambda m, P, mi, Pi, g, S, a: _blr_fc(m, P, mi, Pi, g, S, a, keep=1.0),
               "alpha is left out in front of S S^T":
                   lambda m, P, mi, Pi, g, S, a: _blr_fc(m, P, mi, Pi, g, S, a, weight=1.0),
               "covariances are averaged, not precisions": _blr_covariances,
               "Sigma in place of Sigma^-1 in the mean":
                   lambda m, P, mi, Pi, g, S, a: _blr_fc(m, P, mi, Pi, g + (P - np.linalg.inv(P))
                                                         @ (m - mi), S, a)},
        method="blr-lin-hess-fc",
    ),
    Exercise(
        "bog_diag_mom", 4,
        """BOG with a diagonal covariance in moment parameters: one plain gradient step of rate
        alpha on the expected log-likelihood: mu + alpha g, var + alpha d / 2 with d = diag(G).""",
        ("mu", "var", "g", "d", "alpha"), ("mu", "var"),
        wrong={"d is squared: it is the second derivative itself":
                   lambda m, v, g, d, a: (m + a * g, v + a * d**2 / 2)},
        method="bog-lin-hess-diag_mom",
    ),
)  # fmt: skip


# --- lesson 9: forgetting -------------------------------------------------------------------------


def _ou(rng: Generator) -> tuple[Any, ...]:
    g = float(rng.uniform(0.4, 0.9))
    return rng.standard_normal(3), covariance(rng, 3), rng.standard_normal(3), covariance(rng, 3), g


def ou_predict(
    mu: Array, Sigma: Array, mu0: Array, Sigma0: Array, gamma: float
) -> tuple[Array, Array]:
    """The prior of the next step under an Ornstein-Uhlenbeck process."""
    return gamma * mu + (1 - gamma) * mu0, gamma**2 * Sigma + (1 - gamma**2) * Sigma0


def steady_variance(q: float, r: float) -> float:
    """The variance after an update of a random walk that is observed for ever."""
    return float((-q + np.sqrt(q * q + 4 * q * r)) / 2)


LESSON9 = (
    Exercise(
        "ou_predict", 6,
        """The prior of the next step under an Ornstein-Uhlenbeck process that reverts to
        N(mu0, Sigma0): gamma mu + (1 - gamma) mu0, gamma^2 Sigma + (1 - gamma^2) Sigma0.""",
        ("mu", "Sigma", "mu0", "Sigma0", "gamma"), ("mu", "Sigma"), ou_predict, _ou,
        {"gamma is not squared in the covariance":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0], g * S + (1 - g) * S0),
         "(1 - gamma)^2 in place of 1 - gamma^2":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0],
                                      g**2 * S + (1 - g) ** 2 * S0),
         "the mean does not revert to mu0":
             lambda m, S, m0, S0, g: (g * m, ou_predict(m, S, m0, S0, g)[1]),
         "gamma and 1 - gamma exchanged: gamma is what is kept":
             lambda m, S, m0, S0, g: ou_predict(m, S, m0, S0, 1 - g),
         "the state and the process's own law exchanged":
             lambda m, S, m0, S0, g: ou_predict(m0, S0, m, S, g),
         "gamma is squared in front of Sigma only: Sigma0 has 1 - gamma^2":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0], g * g * S + (1 - g) * S0),
         "gamma is squared in the mean too":
             lambda m, S, m0, S0, g: (g * g * m + (1 - g * g) * m0,
                                      ou_predict(m, S, m0, S0, g)[1]),
         "what is newly drawn, (1 - gamma^2) Sigma0, is left out":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0], g * g * S),
         "Sigma0 is added whole, without 1 - gamma^2":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0], g * g * S + S0),
         "sqrt(gamma) in place of gamma^2 in the covariance":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0],
                                      g**0.5 * S + (1 - g**0.5) * S0),
         "a forgetting factor, Sigma / gamma, in place of the process's covariance":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0], S / g),
         "the mean is not moved":
             lambda m, S, m0, S0, g: (m, ou_predict(m, S, m0, S0, g)[1]),
         "1 + gamma^2 in place of 1 - gamma^2":
             lambda m, S, m0, S0, g: (ou_predict(m, S, m0, S0, g)[0],
                                      g * g * S + (1 + g * g) * S0)},
    ),
    Exercise(
        "steady_variance", 4,
        """A random walk with steps of variance q is observed with noise variance r at every step.
        After many steps the variance after an update no longer changes:
        v = (v + q) r / (v + q + r). Return this v.""",
        ("q", "r"), ("v",), steady_variance,
        lambda rng: (float(rng.uniform(0.1, 1)), float(rng.uniform(1, 3))),
        {"the variance before the update, v + q, not after it":
             lambda q, r: steady_variance(q, r) + q,
         "a standard deviation in place of the variance":
             lambda q, r: steady_variance(q, r) ** 0.5,
         "q and r exchanged": lambda q, r: steady_variance(r, q),
         "the variance of one observation, r: the past counts too": lambda q, r: r,
         "the first update, from a variance q: repeat it until v no longer changes":
             lambda q, r: q * r / (q + r),
         "q v is left out of v^2 + q v - q r = 0": lambda q, r: np.sqrt(q * r),
         "the negative root of v^2 + q v - q r = 0": lambda q, r: -q - steady_variance(q, r),
         "the formula of the roots without its 1/2": lambda q, r: 2 * steady_variance(q, r)},
    ),
)  # fmt: skip


# --- lesson 10: predictives -----------------------------------------------------------------------


def _prediction(rng: Generator) -> tuple[Any, ...]:
    H = rng.standard_normal((1, 3))
    return rng.standard_normal(3), covariance(rng, 3), H, float(rng.uniform(0.2, 0.8))


def predictive(mu: Array, Sigma: Array, H: Array, noise_var: float) -> tuple[float, float]:
    """Mean and variance of a new observation of a linear model."""
    return float((H @ mu)[0]), float((H @ Sigma @ H.T)[0, 0] + noise_var)


def nlpd(y: Array, mean: Array, var: Array) -> float:
    """The mean negative log density of N(mean, var) at y."""
    return float(np.mean(0.5 * np.log(2 * np.pi * var) + (y - mean) ** 2 / (2 * var)))


LESSON10 = (
    Exercise(
        "predictive", 5,
        """Mean and variance of a new observation y = H theta + noise, with theta ~ N(mu, Sigma),
        H of shape (1, P), and noise of variance noise_var. Both are numbers.""",
        ("mu", "Sigma", "H", "noise_var"), ("mean", "var"), predictive, _prediction,
        {"the noise of the observation is left out: the variance of the mean, not of y":
             lambda m, S, H, r: predictive(m, S, H, 0.0),
         "only the noise: the uncertainty of theta is left out (the plug-in predictive)":
             lambda m, S, H, r: (predictive(m, S, H, r)[0], r),
         "a standard deviation in place of the variance":
             lambda m, S, H, r: (predictive(m, S, H, r)[0], predictive(m, S, H, r)[1] ** 0.5),
         "noise_var taken for a standard deviation":
             lambda m, S, H, r: predictive(m, S, H, r * r),
         "the noise is subtracted: it makes y less certain":
             lambda m, S, H, r: predictive(m, S, H, -r),
         "only the diagonal of Sigma: the covariances of theta are left out":
             lambda m, S, H, r: predictive(m, np.diag(np.diag(S)), H, r),
         "the precision in place of the covariance":
             lambda m, S, H, r: predictive(m, np.linalg.inv(S), H, r),
         "arrays in place of numbers: take the entry of H mu and of H Sigma H^T":
             lambda m, S, H, r: (H @ m, H @ S @ H.T + r),
         "the noise's standard deviation is added, not its variance":
             lambda m, S, H, r: predictive(m, S, H, r**0.5),
         "the variances are multiplied: independent terms add them":
             lambda m, S, H, r: (predictive(m, S, H, r)[0], predictive(m, S, H, 0.0)[1] * r),
         "precisions are added: that is for two sources about one quantity":
             lambda m, S, H, r: (predictive(m, S, H, r)[0],
                                 1 / (1 / predictive(m, S, H, 0.0)[1] + 1 / r))},
    ),
    Exercise(
        "nlpd", 5,
        """The mean negative log predictive density of observations y under N(mean, var),
        three vectors of the same length.""",
        ("y", "mean", "var"), ("nlpd",), nlpd,
        lambda rng: (rng.standard_normal(6), rng.standard_normal(6), rng.uniform(0.3, 2, 6)),
        {"var taken for a standard deviation": lambda y, m, v: nlpd(y, m, v**2),
         "the constant log(2 pi)/2 is left out":
             lambda y, m, v: nlpd(y, m, v) - 0.5 * np.log(2 * np.pi),
         "the sum over the observations, not the mean": lambda y, m, v: len(y) * nlpd(y, m, v),
         "the sign: the log density, not its negative": lambda y, m, v: -nlpd(y, m, v),
         "the squared error is not divided by 2":
             lambda y, m, v: nlpd(y, m, v) + float(np.mean((y - m) ** 2 / (2 * v))),
         "log(var) is not halved": lambda y, m, v: nlpd(y, m, v) + float(np.mean(np.log(v))) / 2,
         "the squared error is not divided by var":
             lambda y, m, v: float(np.mean(np.log(2 * np.pi * v) + (y - m) ** 2)) / 2,
         "the mean squared error, which does not see var":
             lambda y, m, v: float(np.mean((y - m) ** 2)),
         "one number for each observation: take their mean":
             lambda y, m, v: np.log(2 * np.pi * v) / 2 + (y - m) ** 2 / (2 * v),
         "the logarithm of the mean density, not the mean of the logarithms":
             lambda y, m, v: -float(np.log(np.mean(
                 np.exp(-((y - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)))),
         "the absolute error in place of the squared one":
             lambda y, m, v: float(np.mean(np.log(2 * np.pi * v) / 2 + abs(y - m) / (2 * v))),
         "the median over the observations, not the mean":
             lambda y, m, v: float(np.median(np.log(2 * np.pi * v) / 2 + (y - m) ** 2 / (2 * v)))},
    ),
)  # fmt: skip


def _blr_variances(
    mu: Array, var: Array, mu_i: Array, var_i: Array, g: Array, d: Array, alpha: float
) -> tuple[Array, Array]:
    new = (1 - alpha) * var_i + alpha / (1 / var - d)
    return new, mu_i + alpha * new * ((mu - mu_i) / var + g)


def _blr_over_iterate(
    mu: Array, var: Array, mu_i: Array, var_i: Array, g: Array, d: Array, alpha: float
) -> tuple[Array, Array]:
    new = 1 / ((1 - alpha) / var_i + alpha * (1 / var - d))
    return new, mu_i + alpha * new * ((mu - mu_i) / var_i + g)


LESSON11 = (
    Exercise(
        "bong_diag", 3,
        """BONG with a diagonal covariance in natural parameters, from g and d = diag(G).""",
        ("mu", "var", "g", "d"), ("var", "mu"), wrong=_BONG_DIAG, method="bong-lin-hess-diag",
    ),
    Exercise(
        "blr_diag", 4,
        """One inner iteration of BLR with a diagonal covariance in natural parameters; mu, var
        are the prior's, mu_i, var_i the current iterate's.""",
        ("mu", "var", "mu_i", "var_i", "g", "d", "alpha"), ("var", "mu"),
        wrong={"variances are averaged, not precisions": _blr_variances,
               "the iterate's variance in place of the prior's under mu - mu_i":
                   _blr_over_iterate},
        method="blr-lin-hess-diag",
    ),
    Exercise(
        "bbb_diag_mom", 5,
        """One inner iteration of BBB with a diagonal covariance in moment parameters: a plain
        gradient step of rate alpha on E[log p] - KL(q | prior), in mu and in var.""",
        ("mu", "var", "mu_i", "var_i", "g", "d", "alpha"), ("mu", "var"),
        wrong={"the gradient of the KL term is left out of var":
                   lambda m, v, mi, vi, g, d, a: (mi + a * (g - (mi - m) / v), vi + a * d / 2),
               "the signs of the gradient of the KL term: it is subtracted":
                   lambda m, v, mi, vi, g, d, a: (mi + a * (g + (mi - m) / v),
                                                  vi + a * (d + 1 / v - 1 / vi) / 2),
               "mu and var of the prior in front, in place of mu_i and var_i":
                   lambda m, v, mi, vi, g, d, a: (m + a * (g - (mi - m) / v),
                                                  v + a * (d - 1 / v + 1 / vi) / 2),
               "1/var_i is left out: the gradient of the entropy of q":
                   lambda m, v, mi, vi, g, d, a: (mi + a * (g - (mi - m) / v),
                                                  vi + a * (d - 1 / v) / 2),
               "var_i in place of var under mu_i - mu":
                   lambda m, v, mi, vi, g, d, a: (mi + a * (g - (mi - m) / vi),
                                                  vi + a * (d - 1 / v + 1 / vi) / 2),
               "the gradient of the KL term in var is not halved":
                   lambda m, v, mi, vi, g, d, a: (mi + a * (g - (mi - m) / v),
                                                  vi + a * (d / 2 - 1 / v + 1 / vi)),
               "1/var and 1/var_i exchanged":
                   lambda m, v, mi, vi, g, d, a: (mi + a * (g - (mi - m) / v),
                                                  vi + a * (d - 1 / vi + 1 / v) / 2)},
        method="bbb-lin-hess-diag_mom",
    ),
)  # fmt: skip

LESSONS = {6: LESSON6, 7: LESSON7, 8: LESSON8, 9: LESSON9, 10: LESSON10, 11: LESSON11}

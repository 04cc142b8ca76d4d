"""Exercises of lessons 1 to 5: conjugacy, the Gaussian family, expectations, Hessians, Kalman."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import Array
from .table import Exercise, covariance

Generator = np.random.Generator


# --- lesson 1: conjugate updating -----------------------------------------------------------------


def _beta(rng: Generator) -> tuple[Any, ...]:
    return float(rng.uniform(1, 5)), float(rng.uniform(1, 5)), int(rng.integers(2))


def _normal(rng: Generator) -> tuple[Any, ...]:
    mu, var, y, noise = rng.normal(), rng.uniform(2, 5), rng.normal(3), rng.uniform(0.3, 0.8)
    return float(mu), float(var), float(y), float(noise)


def normal_update(mu: float, var: float, y: float, noise_var: float) -> tuple[float, float]:
    """The posterior of a normal mean."""
    new = 1 / (1 / var + 1 / noise_var)
    return mu + new * (y - mu) / noise_var, new


def _with_std(mu: float, var: float, y: float, noise_var: float) -> tuple[float, float]:
    return normal_update(mu, var, y, noise_var**2)


def _prior_std(mu: float, var: float, y: float, noise_var: float) -> tuple[float, float]:
    return normal_update(mu, var**2, y, noise_var)


def _old_var(mu: float, var: float, y: float, noise_var: float) -> tuple[float, float]:
    return mu + var * (y - mu) / noise_var, 1 / (1 / var + 1 / noise_var)


LESSON1 = (
    Exercise(
        "beta_update", 4,
        """One natural-gradient step for a Beta(a, b) prior and a coin that shows y (1 or 0).
        The natural parameters are a and b up to a constant; the step adds the sufficient
        statistics of the observation.""",
        ("a", "b", "y"), ("a", "b"),
        lambda a, b, y: (a + y, b + 1 - y), _beta,
        {"a and b exchanged: y counts the successes": lambda a, b, y: (a + 1 - y, b + y),
         "the sign of the change of a": lambda a, b, y: (a - y, b + 1 - y),
         "only the successes are counted": lambda a, b, y: (a + y, b),
         "b counts every toss, not the failures": lambda a, b, y: (a + y, b + 1),
         "y is subtracted from b: a failure adds 1 - y": lambda a, b, y: (a + y, b - y),
         "1 is subtracted from both counts": lambda a, b, y: (a + y - 1, b - y),
         "the counts are multiplied: they add up": lambda a, b, y: (a * y, b * (1 - y)),
         "y is added to b as to a: a failure adds 1 - y": lambda a, b, y: (a + y, b + y),
         "divided by the total: a and b are counts, not shares":
             lambda a, b, y: ((a + y) / (a + b + 1), (b + 1 - y) / (a + b + 1)),
         "the total in place of b": lambda a, b, y: (a + y, a + b + 1),
         "the prior is left out: only this toss is counted": lambda a, b, y: (y, 1 - y),
         "a flat prior, Beta(1, 1), in place of Beta(a, b)": lambda a, b, y: (1 + y, 2 - y)},
    ),
    Exercise(
        "normal_update", 6,
        """The posterior of theta ~ N(mu, var) after y ~ N(theta, noise_var): mean and variance.
        Add natural parameters: the precision 1/var and the precision of the observation.""",
        ("mu", "var", "y", "noise_var"), ("mu", "var"), normal_update, _normal,
        {"noise_var taken for a standard deviation": _with_std,
         "var of the prior taken for a standard deviation": _prior_std,
         "the sign of y - mu": lambda m, v, y, n: (2 * m - normal_update(m, v, y, n)[0],
                                                  normal_update(m, v, y, n)[1]),
         "the prior's variance in place of the new one in the mean": _old_var,
         "the precision is returned in place of the variance":
             lambda m, v, y, n: (normal_update(m, v, y, n)[0], 1 / v + 1 / n),
         "variances are added where precisions should be":
             lambda m, v, y, n: (m + (v + n) * (y - m) / n, v + n),
         "y in place of y - mu: the gain multiplies the error of the prediction":
             lambda m, v, y, n: (m + v * y / (v + n), v * n / (v + n)),
         "var and noise_var exchanged in the gain: it is var / (var + noise_var)":
             lambda m, v, y, n: (m + n * (y - m) / (v + n), v * n / (v + n)),
         "var and noise_var exchanged in the gain, in mean and variance":
             lambda m, v, y, n: (m + n * (y - m) / (v + n), v * v / (v + n)),
         "the prior's variance is multiplied by the gain K, not by 1 - K":
             lambda m, v, y, n: (normal_update(m, v, y, n)[0], v * v / (v + n)),
         "(1 - K)^2 var: the noise's part, K^2 noise_var, is missing":
             lambda m, v, y, n: (normal_update(m, v, y, n)[0], v * (n / (v + n)) ** 2),
         "mu and y have equal weights: they are weighted by their precisions":
             lambda m, v, y, n: ((m + y) / 2, normal_update(m, v, y, n)[1]),
         "the prior is left out: y and noise_var alone": lambda m, v, y, n: (y, n),
         "mu and y are weighted by their variances: precisions are the weights":
             lambda m, v, y, n: ((m * v + y * n) / (1 / v + 1 / n), 1 / (1 / v + 1 / n)),
         "the prior's part of the mean, mu / var, is left out":
             lambda m, v, y, n: (y / n / (1 / v + 1 / n), 1 / (1 / v + 1 / n)),
         "1 / noise_var is left out in the mean":
             lambda m, v, y, n: (m + (y - m) / (1 / v + 1 / n), 1 / (1 / v + 1 / n)),
         "the sums of natural parameters are returned, not mean and variance":
             lambda m, v, y, n: (m / v + y / n, 1 / v + 1 / n),
         "the new variance is left out of the mean: it multiplies mu / var + y / noise_var":
             lambda m, v, y, n: (m / v + y / n, 1 / (1 / v + 1 / n)),
         "var + noise_var: that is the variance of a prediction of y, not the posterior's":
             lambda m, v, y, n: (normal_update(m, v, y, n)[0], v + n),
         "the observation is counted twice":
             lambda m, v, y, n: normal_update(m, v, y, n / 2)},
    ),
)  # fmt: skip


# --- lesson 2: the Gaussian family ----------------------------------------------------------------


def _gaussian(rng: Generator) -> tuple[Any, ...]:
    return rng.standard_normal(3), covariance(rng, 3)


def natural(mu: Array, Sigma: Array) -> tuple[Array, Array]:
    """ψ of N(μ, Σ)."""
    prec = np.linalg.inv(Sigma)
    return prec @ mu, -prec / 2


def moments(psi1: Array, psi2: Array) -> tuple[Array, Array]:
    """(μ, Σ) of ψ."""
    Sigma = np.linalg.inv(-2 * psi2)
    return Sigma @ psi1, Sigma


def kl(mu: Array, Sigma: Array, mu0: Array, Sigma0: Array, half: float = 0.5) -> float:
    """KL(N(μ, Σ) | N(μ₀, Σ₀))."""
    d, ratio = mu0 - mu, np.linalg.solve(Sigma0, Sigma)
    logdet = float(np.linalg.slogdet(Sigma0)[1] - np.linalg.slogdet(Sigma)[1])
    return half * float(np.trace(ratio) + d @ np.linalg.solve(Sigma0, d) - len(mu) + logdet)


def _kl_without_logdet(mu: Array, Sigma: Array, mu0: Array, Sigma0: Array) -> float:
    logdet = float(np.linalg.slogdet(Sigma0)[1] - np.linalg.slogdet(Sigma)[1])
    return kl(mu, Sigma, mu0, Sigma0) - logdet / 2


def _kl_wrong_metric(mu: Array, Sigma: Array, mu0: Array, Sigma0: Array) -> float:
    d = mu - mu0
    right = kl(mu, Sigma, mu0, Sigma0) - d @ np.linalg.solve(Sigma0, d) / 2
    return float(right + d @ np.linalg.solve(Sigma, d) / 2)


def _kl_trace(mu: Array, Sigma: Array, mu0: Array, Sigma0: Array, ratio: Array) -> float:
    """KL with the trace of another matrix than Σ₀⁻¹ Σ."""
    right = np.trace(np.linalg.solve(Sigma0, Sigma))
    return kl(mu, Sigma, mu0, Sigma0) + float(np.trace(ratio) - right) / 2


def _kl_sign(mu: Array, Sigma: Array, mu0: Array, Sigma0: Array) -> float:
    logdet = float(np.linalg.slogdet(Sigma0)[1] - np.linalg.slogdet(Sigma)[1])
    return kl(mu, Sigma, mu0, Sigma0) - logdet


LESSON2 = (
    Exercise(
        "natural", 3,
        """The natural parameters of N(mu, Sigma): psi1 = Sigma^-1 mu, psi2 = -1/2 Sigma^-1.""",
        ("mu", "Sigma"), ("psi1", "psi2"), natural, _gaussian,
        {"the sign of psi2": lambda m, S: (natural(m, S)[0], -natural(m, S)[1]),
         "psi2 without the factor 1/2": lambda m, S: (natural(m, S)[0], 2 * natural(m, S)[1]),
         "the covariance in place of the precision": lambda m, S: (S @ m, -S / 2),
         "psi2 without the factor -1/2":
             lambda m, S: (natural(m, S)[0], -2 * natural(m, S)[1]),
         "psi2 with the factor -2 in place of -1/2":
             lambda m, S: (natural(m, S)[0], 4 * natural(m, S)[1]),
         "psi1 is not the mean: it is Sigma^-1 mu": lambda m, S: (m, natural(m, S)[1]),
         "a division by Sigma is elementwise: a matrix is inverted by np.linalg.inv":
             lambda m, S: (m / S, -0.5 / S),
         "psi2 has the covariance in place of the precision":
             lambda m, S: (natural(m, S)[0], -S / 2)},
    ),
    Exercise(
        "moments", 3,
        """The mean and covariance of the Gaussian with natural parameters psi1, psi2.""",
        ("psi1", "psi2"), ("mu", "Sigma"), moments,
        lambda rng: natural(*_gaussian(rng)),
        {"the factor 2 of psi2 is forgotten":
             lambda a, b: (np.linalg.solve(-b, a), np.linalg.inv(-b)),
         "the sign of psi2": lambda a, b: (-moments(a, b)[0], -moments(a, b)[1]),
         "psi1 is not the mean: it has to be multiplied by Sigma":
             lambda a, b: (a, moments(a, b)[1]),
         "the precision is returned in place of Sigma": lambda a, b: (moments(a, b)[0], -2 * b),
         "psi2 is inverted as it is: psi2 = -1/2 Sigma^-1":
             lambda a, b: (np.linalg.solve(b, a), np.linalg.inv(b)),
         "mu is Sigma psi1, not the precision times psi1":
             lambda a, b: (-2 * b @ a, moments(a, b)[1])},
    ),
    Exercise(
        "kl", 4,
        """The divergence KL(N(mu, Sigma) | N(mu0, Sigma0)) of two Gaussians in P dimensions.""",
        ("mu", "Sigma", "mu0", "Sigma0"), ("KL",), kl,
        lambda rng: (*_gaussian(rng), *_gaussian(rng)),
        {"the two Gaussians exchanged": lambda m, S, m0, S0: kl(m0, S0, m, S),
         "the factor 1/2 is forgotten": lambda m, S, m0, S0: kl(m, S, m0, S0, 1.0),
         "the sign of the log-determinants": _kl_sign,
         "the dimension P is not subtracted":
             lambda m, S, m0, S0: kl(m, S, m0, S0) + len(m) / 2,
         "the log-determinants are left out": _kl_without_logdet,
         "Sigma in place of Sigma0 between the means: (mu - mu0)^T Sigma0^-1 (mu - mu0)":
             _kl_wrong_metric,
         "the term of the means is left out":
             lambda m, S, m0, S0: kl(m, S, m, S0),
         "the log-determinants are not halved":
             lambda m, S, m0, S0: 2 * kl(m, S, m0, S0) - _kl_without_logdet(m, S, m0, S0),
         "the trace of Sigma^-1 Sigma0: it is that of Sigma0^-1 Sigma":
             lambda m, S, m0, S0: _kl_trace(m, S, m0, S0, np.linalg.inv(S) @ S0),
         "the product in the trace is elementwise: @ multiplies matrices":
             lambda m, S, m0, S0: _kl_trace(m, S, m0, S0, np.linalg.inv(S0) * S),
         "Sigma0^-1 is left out between the means":
             lambda m, S, m0, S0: kl(m, S, m, S0) + (m - m0) @ (m - m0) / 2},
    ),
)  # fmt: skip


# --- lesson 3: Bonnet and Price -------------------------------------------------------------------


def _cubic(rng: Generator) -> tuple[Any, ...]:
    return (*map(float, rng.normal(size=4)), float(rng.uniform(0.5, 2)))


def bonnet_price(a: float, b: float, c: float, mu: float, var: float) -> tuple[float, float]:
    """Gradients of E[aθ³ + bθ² + cθ] in the mean and the variance."""
    return 3 * a * (mu**2 + var) + 2 * b * mu + c, (6 * a * mu + 2 * b) / 2


def _new(Sigma: Array, G: Array) -> Array:
    """The covariance after a step of BONG."""
    new: Array = np.linalg.inv(np.linalg.inv(Sigma) - G)
    return new


LESSON3 = (
    Exercise(
        "gradients", 5,
        """The gradients of E[f(theta)] for f = a theta^3 + b theta^2 + c theta and
        theta ~ N(mu, var): in mu (Bonnet: E[f']) and in var (Price: 1/2 E[f'']).""",
        ("a", "b", "c", "mu", "var"), ("grad_mu", "grad_var"), bonnet_price, _cubic,
        {"f' at the mean, not its expectation: E[theta^2] = mu^2 + var":
             lambda a, b, c, m, v: (3 * a * m**2 + 2 * b * m + c, 3 * a * m + b),
         "the factor 1/2 of Price's theorem is forgotten":
             lambda a, b, c, m, v: (bonnet_price(a, b, c, m, v)[0], 6 * a * m + 2 * b),
         "the gradient in the standard deviation, not in the variance":
             lambda a, b, c, m, v: (bonnet_price(a, b, c, m, v)[0],
                                    np.sqrt(v) * (6 * a * m + 2 * b)),
         "var taken for a standard deviation":
             lambda a, b, c, m, v: bonnet_price(a, b, c, m, v**2),
         "only one of the terms of f'' is halved":
             lambda a, b, c, m, v: (bonnet_price(a, b, c, m, v)[0], 3 * a * m + 2 * b),
         "the derivative of c theta is left out":
             lambda a, b, c, m, v: (bonnet_price(a, b, 0.0, m, v)[0], 3 * a * m + b),
         "E[f] itself is returned, not its gradient in mu":
             lambda a, b, c, m, v: (a * (m**3 + 3 * m * v) + b * (m**2 + v) + c * m,
                                    3 * a * m + b),
         "the derivatives of b theta^2 are left out of grad_var":
             lambda a, b, c, m, v: (bonnet_price(a, b, c, m, v)[0], 3 * a * m),
         "the factors of the derivatives, 3 and 2, are left out of grad_mu":
             lambda a, b, c, m, v: (a * (m**2 + v) + b * m + c, 3 * a * m + b),
         "(mu + var)^2 in place of E[theta^2] = mu^2 + var":
             lambda a, b, c, m, v: (3 * a * (m + v) ** 2 + 2 * b * m + c, 3 * a * m + b),
         "E[theta^2] = mu var in place of mu^2 + var":
             lambda a, b, c, m, v: (3 * a * m * v + 2 * b * m + c, 3 * a * m + b)},
    ),
    Exercise(
        "bong_fc", 5,
        """The BONG step: with the expected gradient g and the expected Hessian G of the
        log-likelihood, the new precision is Sigma^-1 - G and the new mean is mu + Sigma_new g.""",
        ("mu", "Sigma", "g", "G"), ("Sigma", "mu"),
        wrong={"mu is left out: the new mean is mu + Sigma_new g":
                   lambda m, S, g, G: (_new(S, G), _new(S, G) @ g),
               "the precision in place of the covariance in the mean":
                   lambda m, S, g, G: (_new(S, G), m + np.linalg.solve(_new(S, G), g)),
               "g is added to Sigma^-1 mu: in these parameters the step is g - G mu":
                   lambda m, S, g, G: (_new(S, G), _new(S, G) @ (np.linalg.solve(S, m) + g)),
               "the precision returned in place of the covariance, also in the mean":
                   lambda m, S, g, G: (np.linalg.inv(_new(S, G)),
                                       m + np.linalg.solve(_new(S, G), g))},
        method="bong-mc-hess-fc",
    ),
)  # fmt: skip


# --- lesson 4: Hessians ---------------------------------------------------------------------------


def _gradients(rng: Generator) -> tuple[Any, ...]:
    return (rng.standard_normal((5, 3)) + 0.5,)


def _softmax_input(rng: Generator) -> tuple[Any, ...]:
    return rng.standard_normal((3, 4)), rng.standard_normal(3)


def _p(f: Array) -> Array:
    e = np.exp(f - np.max(f))
    p: Array = e / e.sum()
    return p


def _sigmoid(f: Array) -> Array:
    s: Array = 1 / (1 + np.exp(-f))
    return s


def gauss_newton(F: Array, f: Array) -> Array:
    """−Fᵀ R F of a softmax."""
    p = _p(f)
    G: Array = -F.T @ (np.diag(p) - np.outer(p, p)) @ F
    return G


LESSON4 = (
    Exercise(
        "empirical_fisher", 4,
        """G of the empirical Fisher matrix: minus the average over M samples of the outer
        products of the gradients. Ghat has the gradients as rows, shape (M, P).""",
        ("Ghat",), ("G",), lambda A: -A.T @ A / len(A), _gradients,
        {"the sum over the samples is not divided by M": lambda A: -A.T @ A,
         "the sign of G: it approximates a Hessian of a log-likelihood, which is negative":
             lambda A: A.T @ A / len(A),
         "the outer product of the mean gradient, not the mean of the outer products":
             lambda A: -np.outer(A.mean(0), A.mean(0)),
         "the mean is subtracted: a covariance of the gradients":
             lambda A: -np.cov(A.T, bias=True),
         "the mean is subtracted, and divided by M - 1: a covariance of the gradients":
             lambda A: -np.cov(A.T),
         "divided by P, the number of parameters, not by M": lambda A: -A.T @ A / A.shape[1],
         "divided by M - 1, not by M": lambda A: -A.T @ A / (len(A) - 1),
         "divided by M twice": lambda A: -A.T @ A / len(A) ** 2,
         "Ghat Ghat^T, which is M x M: the gradients are the rows":
             lambda A: -A @ A.T / len(A),
         "the outer product of the sum of the gradients":
             lambda A: -np.outer(A.sum(0), A.sum(0)) / len(A),
         "only the first gradient: does return stand inside the loop?":
             lambda A: -np.outer(A[0], A[0]) / len(A),
         "only the diagonal: the squares of the gradients, not their outer products":
             lambda A: -np.mean(A**2, axis=0)},
    ),
    Exercise(
        "gauss_newton", 6,
        """G of the generalised Gauss-Newton matrix for three classes: -F^T R F, with F (C, P)
        the Jacobian of the logits f (C,), and R = diag(p) - p p^T for p = softmax(f).""",
        ("F", "f"), ("G",), gauss_newton, _softmax_input,
        {"the sign of G": lambda F, f: -gauss_newton(F, f),
         "R without - p p^T": lambda F, f: -F.T @ np.diag(_p(f)) @ F,
         "R is left out: F^T F": lambda F, f: -F.T @ F,
         "R in place of its square root, or R applied twice":
             lambda F, f: gauss_newton((np.diag(_p(f)) - np.outer(_p(f), _p(f))) @ F, f),
         "p p^T is added, not subtracted":
             lambda F, f: -F.T @ (np.diag(_p(f)) + np.outer(_p(f), _p(f))) @ F,
         "only the diagonal of R, p (1 - p): classes are not independent":
             lambda F, f: -F.T @ np.diag(_p(f) * (1 - _p(f))) @ F,
         "a sigmoid of each logit in place of the softmax":
             lambda F, f: -F.T @ np.diag(_sigmoid(f) * (1 - _sigmoid(f))) @ F,
         "the logits f in place of p = softmax(f)":
             lambda F, f: -F.T @ (np.diag(f) - np.outer(f, f)) @ F,
         "p @ p is a number: the matrix p p^T is np.outer(p, p)":
             lambda F, f: -F.T @ (np.diag(_p(f)) - _p(f) @ _p(f)) @ F,
         "exp(f) is not divided by its sum":
             lambda F, f: -F.T @ (np.diag(np.exp(f)) - np.outer(np.exp(f), np.exp(f))) @ F},
    ),
)  # fmt: skip


# --- lesson 5: linearisation and the Kalman filter ------------------------------------------------


def _observation(rng: Generator) -> tuple[Any, ...]:
    return covariance(rng, 3), rng.standard_normal((2, 3)), covariance(rng, 2, 0.2, 1.0)


def kalman_gain(Sigma: Array, H: Array, R: Array) -> Array:
    """K = ΣHᵀ(HΣHᵀ + R)⁻¹."""
    K: Array = np.linalg.solve(H @ Sigma @ H.T + R, H @ Sigma).T
    return K


def kalman_update(
    mu: Array, Sigma: Array, H: Array, R: Array, y: Array, yhat: Array
) -> tuple[Array, Array]:
    """Mean and covariance after an observation."""
    K = kalman_gain(Sigma, H, R)
    return mu + K @ (y - yhat), Sigma - K @ H @ Sigma


def _kalman_problem(rng: Generator) -> tuple[Any, ...]:
    Sigma, H, R = _observation(rng)
    return rng.standard_normal(3), Sigma, H, R, rng.standard_normal(2), rng.standard_normal(2)


LESSON5 = (
    Exercise(
        "kalman_gain", 3,
        """The Kalman gain K = Sigma H^T (H Sigma H^T + R)^-1, shape (P, C).""",
        ("Sigma", "H", "R"), ("K",), kalman_gain, _observation,
        {"R is left out of the innovation's covariance":
             lambda S, H, R: kalman_gain(S, H, 0 * R),
         "R taken for a standard deviation": lambda S, H, R: kalman_gain(S, H, R @ R),
         "the inverse is forgotten": lambda S, H, R: S @ H.T @ (H @ S @ H.T + R),
         "Sigma is left out in front": lambda S, H, R: np.linalg.solve(H @ S @ H.T + R, H).T,
         "the precision in place of the covariance":
             lambda S, H, R: kalman_gain(np.linalg.inv(S), H, R),
         "R^-1 in place of R": lambda S, H, R: kalman_gain(S, H, np.linalg.inv(R)),
         "H Sigma H^T is left out of the innovation's covariance":
             lambda S, H, R: S @ H.T @ np.linalg.inv(R),
         "H in place of H^T on the left: this is the transpose of K":
             lambda S, H, R: kalman_gain(S, H, R).T,
         "the sign of R: the noise is added": lambda S, H, R: kalman_gain(S, H, -R)},
    ),
    Exercise(
        "kalman_update", 4,
        """Mean and covariance after an observation y with prediction yhat:
        mu + K (y - yhat), Sigma - K H Sigma.""",
        ("mu", "Sigma", "H", "R", "y", "yhat"), ("mu", "Sigma"), kalman_update, _kalman_problem,
        {"the sign of y - yhat":
             lambda m, S, H, R, y, h: kalman_update(m, S, H, R, h, y),
         "yhat is not subtracted from y":
             lambda m, S, H, R, y, h: kalman_update(m, S, H, R, y, 0 * h),
         "the sign of K H Sigma: an observation makes the covariance smaller":
             lambda m, S, H, R, y, h: (kalman_update(m, S, H, R, y, h)[0],
                                       S + kalman_gain(S, H, R) @ H @ S),
         "the covariance is not updated":
             lambda m, S, H, R, y, h: (kalman_update(m, S, H, R, y, h)[0], S),
         "R taken for a standard deviation":
             lambda m, S, H, R, y, h: kalman_update(m, S, H, R @ R, y, h),
         "H mu in place of yhat: a network's prediction is not linear":
             lambda m, S, H, R, y, h: kalman_update(m, S, H, R, y, H @ m),
         "Sigma is left out: I - K H, not (I - K H) Sigma":
             lambda m, S, H, R, y, h: (kalman_update(m, S, H, R, y, h)[0],
                                       np.eye(len(S)) - kalman_gain(S, H, R) @ H),
         "K R K^T in place of K H Sigma":
             lambda m, S, H, R, y, h: (
                 kalman_update(m, S, H, R, y, h)[0],
                 S - kalman_gain(S, H, R) @ R @ kalman_gain(S, H, R).T),
         "the gain is computed again from the new covariance":
             lambda m, S, H, R, y, h: (
                 m + kalman_gain(S - kalman_gain(S, H, R) @ H @ S, H, R) @ (y - h),
                 kalman_update(m, S, H, R, y, h)[1]),
         "Sigma is left out after K H":
             lambda m, S, H, R, y, h: (kalman_update(m, S, H, R, y, h)[0],
                                       S - kalman_gain(S, H, R) @ H),
         "mu is left out: this is the change of the mean":
             lambda m, S, H, R, y, h: kalman_update(0 * m, S, H, R, y, h),
         "(I - K H) Sigma (I - K H)^T: K R K^T is missing":
             lambda m, S, H, R, y, h: (
                 kalman_update(m, S, H, R, y, h)[0],
                 kalman_update(m, S, H, R, y, h)[1]
                 - kalman_gain(S, H, R) @ R @ kalman_gain(S, H, R).T)},
    ),
    Exercise(
        "bong_fc", 3,
        """The same update as a natural-gradient step: with g = H^T R^-1 (y - yhat) and
        G = -S S^T, the new precision is Sigma^-1 + S S^T and the new mean mu + Sigma_new g.""",
        ("mu", "Sigma", "g", "S"), ("Sigma", "mu"),
        wrong={"mu is left out: the new mean is mu + Sigma_new g":
                   lambda m, P, g, S: (_new(P, -S @ S.T), _new(P, -S @ S.T) @ g),
               "the precision in place of the covariance in the mean":
                   lambda m, P, g, S: (_new(P, -S @ S.T),
                                       m + np.linalg.solve(_new(P, -S @ S.T), g)),
               "g is added to Sigma^-1 mu: in these parameters the step is g - G mu":
                   lambda m, P, g, S: (_new(P, -S @ S.T),
                                       _new(P, -S @ S.T) @ (np.linalg.solve(P, m) + g))},
        method="bong-lin-hess-fc",
    ),
)  # fmt: skip

LESSONS = {1: LESSON1, 2: LESSON2, 3: LESSON3, 4: LESSON4, 5: LESSON5}

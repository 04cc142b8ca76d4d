"""The true posterior of two parameters, by quadrature on a grid.

    p = posterior(lik, prior, X, y)
    kl_to_posterior(lik, prior, X, y, q, p.log_evidence)       # KL(q | p(θ|y)), in nats

With it the distance of a method from the true posterior is a number, where :mod:`.mirror` gives its
distance from exact online VB. docs/make_mirror.py compares both on a stream.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np

from ..errors import InvalidValue
from ..gaussians import kl, log_density
from ..likelihoods import Likelihood
from ..linalg import Array, cholesky, finite, solve
from ..states import FC, Diag
from .arguments import LIKELIHOOD, NUMBER, POSITIVE, checked, state
from .expectations import Gauss, data, expected, largest_std, output
from .mirror import implicit

LARGEST = 2048  # points of the grid on each side of its centre


class Posterior(NamedTuple):
    """The true posterior of two parameters, and the grid that it was summed over.

    Attributes
    ----------
    log_evidence : float
        log p(y|X).
    mean : ndarray, shape (2,)
    cov : ndarray, shape (2, 2)
    theta : ndarray, shape (K, K, 2)
        The grid.
    log_p : ndarray, shape (K, K)
        log p(θ|y) on the grid.

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian
    >>> p = posterior(Gaussian(var=1.0), FC(np.zeros(2), np.eye(2)), [1.0, 0.0], 1.0)
    >>> (abs(p.cov - np.diag([0.5, 1.0])) < 1e-6).all().item()
    True
    """

    log_evidence: float  # log p(y|X)
    mean: Array  # (2,)
    cov: Array  # (2, 2)
    theta: Array  # (K, K, 2)
    log_p: Array  # (K, K): log p(θ|y)


@checked(lik=LIKELIHOOD, prior=state(FC), fine=POSITIVE, width=POSITIVE)
def posterior(
    lik: Likelihood, prior: FC, x: Any, y: Any, *, fine: float = 0.25, width: float = 10.0
) -> Posterior:
    """The posterior of two parameters by the trapezoidal rule.

    The grid is θ = μ + A z, with N(μ, A Aᵀ) the VB optimum of all data. It goes out to ``width``
    standard deviations of the prior, in steps of ``fine`` standard deviations of the VB optimum, or
    smaller where the outputs vary by more than 1 (see :func:`.expectations.nodes`).

    Parameters
    ----------
    lik : Bernoulli, Gaussian or Poisson
    prior : FC
        Of two parameters.
    x : array_like, shape (2,) or (N, 2)
    y : array_like, a scalar or shape (N,)
    fine, width : float

    Returns
    -------
    Posterior

    Raises
    ------
    InvalidValue
        If the prior is not FC or does not have two parameters.

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian
    >>> p = posterior(Gaussian(var=1.0), FC(np.zeros(2), np.eye(2)), [1.0, 0.0], 1.0)
    >>> p.mean.round(6)[0].item(), round(p.log_evidence, 6)      # log N(1 | 0, 2)
    (0.5, -1.515512)
    """
    if not isinstance(prior, FC) or len(prior.mu) != 2:
        got = f"{type(prior).__name__} of {len(prior.mu)}"
        raise InvalidValue(f"prior must be an FC prior of 2 parameters, got {got}")
    if fine > 1:
        raise InvalidValue(f"fine must be in (0, 1], got {fine}")
    X, Y = data(lik, prior, x, y)
    q = cast(FC, implicit(lik, prior, x, y).state)
    mu, A = q.mu, cholesky(q.Sigma)
    h = fine / max(1.0, largest_std(output(q, X)[1]))
    reach = float(np.linalg.norm(finite(solve(A, cholesky(prior.Sigma))), 2))
    if not width * max(1.0, reach) / h <= LARGEST:
        raise InvalidValue(
            f"width / fine must give a grid of at most {2 * LARGEST + 1} points a side, got "
            f"width={width} and fine={fine} with outputs of standard deviation up to {fine / h:.3g}"
        )
    k = math.ceil(width * max(1.0, reach) / h)
    z = h * np.stack(np.meshgrid(*[np.arange(-k, k + 1)] * 2, indexing="ij"), axis=-1)
    theta = mu + z @ A.T
    log_joint = log_density(prior, theta.reshape(-1, 2)).reshape(z.shape[:2])
    for n in range(len(X)):
        log_joint = log_joint + lik.log_prob((theta @ X[n])[:, :, None], Y[n])
    w = np.exp(log_joint - np.max(log_joint))
    log_evidence = float(np.max(log_joint) + np.log(np.sum(w) * h**2 * A[0, 0] * A[1, 1]))
    mean = np.array([np.sum(w * theta[..., i]) for i in (0, 1)]) / np.sum(w)
    d = theta - mean
    cov = np.array([[np.sum(w * d[..., i] * d[..., j]) for j in (0, 1)] for i in (0, 1)])
    return Posterior(log_evidence, mean, cov / np.sum(w), theta, log_joint - log_evidence)


@checked(lik=LIKELIHOOD, prior=state(FC), q=state(FC, Diag), log_evidence=NUMBER)
def kl_to_posterior(
    lik: Likelihood, prior: FC, x: Any, y: Any, q: Gauss, log_evidence: float
) -> float:
    """KL(q | p(θ|y)) in nats: the variational loss of q for all data, plus log p(y|X).

    Parameters
    ----------
    lik, prior, x, y
        As for :func:`posterior`, with any number of parameters.
    q : FC or Diag
    log_evidence : float
        log p(y|X), for example of :func:`posterior`.

    Returns
    -------
    float

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian
    >>> lik, prior, x = Gaussian(var=1.0), FC(np.zeros(2), np.eye(2)), [1.0, 0.0]
    >>> p = posterior(lik, prior, x, 1.0)
    >>> q = FC(np.array([0.5, 0.0]), np.diag([0.5, 1.0]))
    >>> abs(kl_to_posterior(lik, prior, x, 1.0, q, p.log_evidence)) < 1e-9
    True
    """
    return float(kl(q, prior)) - expected(lik, q, x, y).ell + log_evidence

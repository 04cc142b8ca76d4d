"""The metric ``kl-exact``: how far a state is from the exact posterior of a linear regression."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..gaussians import kl
from ..grid import Method
from ..likelihoods import Likelihood
from ..linalg import Array
from ..models import Model
from ..states import FC, State

NAME = "kl-exact"


class KLExact:
    """D(q_t | p(θ | y_1..t)) at given steps, for a linear model with Gaussian noise.

    The exact posterior at step t is computed from the first t rows at once, by the normal
    equations, and not by a filter.

    Parameters
    ----------
    X, Y : ndarray, shapes (T, D) and (T,)
        The stream.
    mu, var : ndarray, shape (P,)
        Mean and variances of the prior.
    obs_var : float
    every : list of int
        The steps, in order.
    """

    ahead = False

    def __init__(
        self, X: Array, Y: Array, mu: Array, var: Array, obs_var: float, every: list[int]
    ) -> None:
        self.X, self.Y, self.mu, self.var, self.obs_var = X, Y, mu, var, obs_var
        self.every, self.calls = every, 0

    def __call__(
        self, m: Method, model: Model, lik: Likelihood, state: State, rng: np.random.Generator
    ) -> dict[str, float]:
        """The divergence at the next of the steps."""
        t = self.every[self.calls]
        self.calls += 1
        return {NAME: float(kl(state, self.posterior(model, t)))}

    def posterior(self, model: Model, t: int) -> FC:
        """N(mu, Sigma) after t rows."""
        rows = np.concatenate([model.jac(self.mu, x) for x in self.X[:t]])  # (t, P), constant in θ
        offset = np.array([model(np.zeros_like(self.mu), x)[0] for x in self.X[:t]])
        factor = cho_factor(np.diag(1 / self.var) + rows.T @ rows / self.obs_var)
        right = self.mu / self.var + rows.T @ (self.Y[:t] - offset) / self.obs_var
        Sigma = cho_solve(factor, np.eye(len(self.mu)))
        return FC(cho_solve(factor, right), (Sigma + Sigma.T) / 2)

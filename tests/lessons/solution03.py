"""A right solution of lesson 03, by other means than the table of exercises."""

import numpy as np


def gradients(a, b, c, mu, var):
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    theta, w = mu + np.sqrt(var) * nodes, weights / weights.sum()
    return w @ (3 * a * theta**2 + 2 * b * theta + c), w @ (6 * a * theta + 2 * b) / 2


def bong_fc(mu, Sigma, g, G):
    new = np.linalg.inv(np.linalg.inv(Sigma) - G)
    return new, mu + new @ g

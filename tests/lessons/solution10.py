"""A right solution of lesson 10, by other means than the table of exercises."""

import numpy as np


def predictive(mu, Sigma, H, noise_var):
    h = H[0]
    return h @ mu, h @ Sigma @ h + noise_var


def nlpd(y, mean, var):
    density = np.exp(-((y - mean) ** 2) / (2 * var)) / np.sqrt(2 * np.pi * var)
    return -np.log(density).sum() / len(y)

"""A right solution of lesson 04, by other means than the table of exercises."""

import numpy as np


def empirical_fisher(Ghat):
    return -sum(np.outer(row, row) for row in Ghat) / Ghat.shape[0]


def gauss_newton(F, f):
    p = np.exp(f) / np.exp(f).sum()
    root = np.diag(np.sqrt(p)) - np.outer(p, np.sqrt(p))
    A = root.T @ F
    return -A.T @ A

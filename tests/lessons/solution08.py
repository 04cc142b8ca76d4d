"""A right solution of lesson 08, by other means than the table of exercises."""

import numpy as np


def blr_fc(mu, Sigma, mu_i, Sigma_i, g, S, alpha):
    prec, prec_i = np.linalg.inv(Sigma), np.linalg.inv(Sigma_i)
    new = np.linalg.inv(prec_i + alpha * (prec - prec_i + S @ S.T))
    return new, mu_i + alpha * new @ (prec @ (mu - mu_i) + g)


def bog_diag_mom(mu, var, g, d, alpha):
    return mu + alpha * g, var + 0.5 * alpha * d

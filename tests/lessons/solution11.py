"""A right solution of lesson 11, by other means than the table of exercises."""


def bong_diag(mu, var, g, d):
    precision = 1 / var - d
    return 1 / precision, mu + g / precision


def blr_diag(mu, var, mu_i, var_i, g, d, alpha):
    precision = (1 - alpha) / var_i + alpha * (1 / var - d)
    return 1 / precision, mu_i + alpha / precision * ((mu - mu_i) / var + g)


def bbb_diag_mom(mu, var, mu_i, var_i, g, d, alpha):
    grad_mu = g - (mu_i - mu) / var
    grad_var = d / 2 - (1 / var - 1 / var_i) / 2
    return mu_i + alpha * grad_mu, var_i + alpha * grad_var

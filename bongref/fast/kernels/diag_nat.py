"""Twins of :mod:`bongref.families.diag_nat` in machine code: one pass over the parameters for each step, one division for each of them.

``step`` changes a mean and a variance in place; ``bong``, ``blr``, ``bog``, ``bbb`` have the signatures of the reference.
With v the variance, 1/v' = c/v is a number c away from the old precision, so that v' = v/c.
"""

from __future__ import annotations

from ...curvature import Curv
from ...states import Diag
from ..jit import inlined, kernel
from .diag import RULES, drop_in


@inlined
def step(rule, m0, prec0, mu, v, g, d, slope, root, alpha):
    """Twin of diag_nat.bong, blr, bog, bbb (rule 0, 1, 2, 3): (mu, v) becomes q_{t,i}. Returns whether it is a Gaussian.

    (m0, prec0) is q_{t|t-1} with precisions in place of variances; bong and bog, which start there, take no notice of them.
    The gradient is slope · g, and diag G is d, or where d is empty −(root · g)²: both are then multiples of one row.
    """
    bad, given = 0.0, len(d) > 0  # what is not finite makes bad NaN
    if rule == 0:
        for p in range(len(mu)):
            gp, dp = slope * g[p], d[p] if given else -(root * g[p]) * (root * g[p])
            s = v[p] / (1.0 - v[p] * dp)  # eq:bong-diag-prec2
            m = mu[p] + s * gp  # sec:diag-Nat#28
            mu[p], v[p] = m, s
            bad += (0.0 if s > 0.0 else 1.0) + (s - s) + (m - m)
    elif rule == 1:
        for p in range(len(mu)):
            gp, dp = slope * g[p], d[p] if given else -(root * g[p]) * (root * g[p])
            s = v[p] / (1.0 - alpha + alpha * v[p] * (prec0[p] - dp))  # eq:blr-diag-prec
            m = mu[p] + alpha * s * ((m0[p] - mu[p]) * prec0[p] + gp)  # eq:blr-diag-mu
            mu[p], v[p] = m, s
            bad += (0.0 if s > 0.0 else 1.0) + (s - s) + (m - m)
    elif rule == 2:
        for p in range(len(mu)):
            gp, dp = slope * g[p], d[p] if given else -(root * g[p]) * (root * g[p])
            a = alpha * v[p] * v[p]
            c = 1.0 / (1.0 - 2.0 * a * (2.0 * mu[p] * gp + v[p] * dp))
            s = v[p] * c  # eq:bog-diag-prec
            m = c * (mu[p] + a * gp)  # eq:bog-diag-mu
            mu[p], v[p] = m, s
            bad += (0.0 if s > 0.0 else 1.0) + (s - s) + (m - m)
    else:
        for p in range(len(mu)):
            gp, dp = slope * g[p], d[p] if given else -(root * g[p]) * (root * g[p])
            a = alpha * v[p] * v[p]
            pull = gp + (m0[p] - mu[p]) * prec0[p]
            c = 1.0 / (1.0 - 2.0 * a * (2.0 * mu[p] * pull + (1.0 + v[p] * (dp - prec0[p]))))
            s = v[p] * c  # eq:bbb-diag-prec
            m = c * (mu[p] + a * pull)  # eq:bbb-diag-mu
            mu[p], v[p] = m, s
            bad += (0.0 if s > 0.0 else 1.0) + (s - s) + (m - m)
    return bad == 0.0


@kernel
def step_alone(rule, m0, prec0, mu, v, g, d, alpha):
    """:func:`step`, called from Python."""
    return step(rule, m0, prec0, mu, v, g, d, 1.0, 1.0, alpha)


def bong(prior: Diag, current: Diag | None, curv: Curv, alpha=1) -> Diag:
    """Twin of diag_nat.bong."""
    return drop_in(step_alone, RULES["bong"], prior, prior, curv, alpha)


def blr(prior: Diag, current: Diag, curv: Curv, alpha) -> Diag:
    """Twin of diag_nat.blr."""
    return drop_in(step_alone, RULES["blr"], prior, current, curv, alpha)


def bog(prior: Diag, current: Diag | None, curv: Curv, alpha) -> Diag:
    """Twin of diag_nat.bog."""
    return drop_in(step_alone, RULES["bog"], prior, prior, curv, alpha)


def bbb(prior: Diag, current: Diag, curv: Curv, alpha) -> Diag:
    """Twin of diag_nat.bbb."""
    return drop_in(step_alone, RULES["bbb"], prior, current, curv, alpha)

"""The likelihoods: score and information as weighted cotangents of the outputs. Reference: bongref.likelihoods."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .jit import ordered

KINDS = {"gaussian": 0, "bernoulli": 1, "categorical": 2, "poisson": 3}
GAUSSIAN, BERNOULLI, CATEGORICAL, POISSON = 0, 1, 2, 3
LIN_HESS, LIN_EF = 0, 1


class Lik(NamedTuple):
    """Which likelihood, and of a Gaussian L⁻¹ where R = L Lᵀ."""

    kind: int
    Li: Any  # (C, C), or (0, 0)


def describe(lik: Any, C: int) -> Lik:
    """A likelihood with C outputs as numbers."""
    if lik.name != "gaussian":
        return Lik(KINDS[lik.name], np.zeros((0, 0)))
    L = np.linalg.cholesky(np.eye(C) * lik.R if isinstance(lik.R, float) else lik.R)
    return Lik(GAUSSIAN, np.ascontiguousarray(np.tril(np.linalg.solve(L, np.eye(C)))))


def n_rows(lik: Lik, C: int, hess: int) -> int:
    """The number of cotangents of :func:`weights`: the rank of the information, or one for lin-ef."""
    return 1 if hess == LIN_EF else C - 1 if lik.kind == CATEGORICAL else C


@ordered
def safe_exp(x):
    """e^x, infinity where it overflows, also in plain Python."""
    return math.exp(x) if x < 709.7 else math.inf


@ordered
def sigmoid(x):
    """1/(1 + e^−x) without overflow. Reference: likelihoods.sigmoid."""
    e = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@ordered
def softmax(o, p):
    """p_k = e^{o_k} / Σ e^o, corrected for the rounding of o_k − max o. Reference: likelihoods.softmax."""
    at = 0
    for i in range(1, len(o)):
        at = i if o[i] > o[at] else at
    top, s = o[at], 0.0
    for i in range(len(o)):
        d = o[i] - top
        back = d - o[i]
        p[i] = math.exp(d) * (1.0 + ((o[i] - (d - back)) - (top + back)))
        s += p[i] if i != at else 0.0
    for i in range(len(o)):
        p[i] /= 1.0 + s


@ordered
def score(lik, o, y, s, p):
    """s = ∂log p/∂o; p is a buffer. Reference: Likelihood.score."""
    C = len(o)
    if lik.kind == GAUSSIAN:
        Li = lik.Li
        for i in range(C):
            p[i] = s[i] = 0.0
            for j in range(i + 1):
                p[i] += Li[i, j] * (y[j] - o[j])
        for i in range(C):
            for j in range(i, C):
                s[i] += Li[j, i] * p[j]
    elif lik.kind == BERNOULLI:
        for i in range(C):
            s[i] = sigmoid(-o[i]) if y[i] == 1.0 else -sigmoid(o[i])
    elif lik.kind == CATEGORICAL:
        softmax(o, p)
        for i in range(C):
            s[i] = -p[i]
            if y[i] == 1.0:
                s[i] = 0.0
                for j in range(C):
                    s[i] += p[j] if j != i else 0.0
    else:
        for i in range(C):
            s[i] = y[i] - safe_exp(o[i])


@ordered
def categorical_weights(o, y, V, c, w, p):
    """:func:`weights` of a softmax: R = diag p − p pᵀ has rank C − 1.

    Its factors L D Lᵀ, with the most probable class last, have rows e_k − Σ_{j after k} (p_j/t_k) e_j, t_k = Σ_{j after k} p_j, and
    weights p_k t_k/(p_k + t_k); e_y − p is the sum of the rows with coefficients −p_k/(p_k + t_k) before y, t_y/(p_y + t_y) at y, and
    0 after it. No term cancels.
    """
    C = len(o)
    softmax(o, p)
    top = 0
    for k in range(1, C):
        top = k if p[k] > p[top] else top
    t, after = p[top], y[top] == 1.0
    for k in range(C - 1, -1, -1):
        if k != top:
            r = k if k < top else k - 1
            for j in range(C):
                V[r, j] = -p[j] / t if j > k or j == top else 0.0
            V[r, k] = 1.0
            w[r] = math.sqrt(p[k] * t / (p[k] + t))
            c[r] = -p[k] / (p[k] + t) if after else t / (p[k] + t) if y[k] == 1.0 else 0.0
            after, t = after or y[k] == 1.0, t + p[k]


@ordered
def weights(lik, hess, o, y, V, c, w, p):
    """Cotangents V (K, C) with Σ_k c_k V_k = ∂log p/∂o and Σ_k w_k² V_kᵀ V_k the information (R, or R⁻¹ of a Gaussian).

    For lin-ef one cotangent, the score. Reference: Likelihood.score and .info_factor, in curvature.lin_hess and lin_ef.
    """
    C = len(o)
    if hess == LIN_EF:
        score(lik, o, y, V[0], p)
        c[0] = w[0] = 1.0
    elif lik.kind == CATEGORICAL:
        categorical_weights(o, y, V, c, w, p)
    elif lik.kind == GAUSSIAN:
        for k in range(C):
            w[k], c[k] = 1.0, 0.0
            for j in range(C):
                V[k, j] = lik.Li[k, j]
                c[k] += lik.Li[k, j] * (y[j] - o[j])
    else:
        score(lik, o, y, c, p)
        for k in range(C):
            for j in range(C):
                V[k, j] = 1.0 if j == k else 0.0
            if lik.kind == BERNOULLI:
                e = math.exp(-0.5 * abs(o[k]))
                w[k] = e / (1.0 + e * e)
            else:
                w[k] = safe_exp(0.5 * o[k])

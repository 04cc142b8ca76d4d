"""Likelihoods in machine code: the score and a factor of the information. Twins of :mod:`bongref.likelihoods`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .jit import ordered
from .packs import pack

KINDS = {"gaussian": 0, "bernoulli": 1, "categorical": 2, "poisson": 3}


@pack
class Lik(NamedTuple):
    """Which likelihood, and of a Gaussian L⁻¹ where R = L Lᵀ."""

    kind: int
    Li: Any  # (C, C), or (0, 0)


def describe(lik: Any, C: int) -> Lik:
    """A likelihood with C outputs as numbers."""
    if lik.name != "gaussian":
        return Lik(KINDS[lik.name], np.zeros((0, 0)))
    return Lik(0, np.array(np.eye(C) * lik._Li if isinstance(lik._Li, float) else lik._Li, order="C"))


@ordered
def sigmoid(x):
    """1/(1 + e^−x) without overflow. Twin of likelihoods.sigmoid."""
    e = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@ordered
def softmax(o, p):
    """p_k = e^{o_k} / Σ e^o with the rounding of o_k − max o made good; returns 1 + s = Σ e^{o − max o}. Twin of likelihoods.softmax."""
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
    return 1.0 + s


@ordered
def score(lik, o, y, s, p):
    """s = ∂log p/∂o; p is a buffer. Twin of Likelihood.score."""
    C = len(o)
    if lik.kind == 0:
        for i in range(C):
            total = 0.0
            for j in range(i + 1):
                total += lik.Li[i, j] * (y[j] - o[j])
            p[i] = total
        for i in range(C):
            total = 0.0
            for j in range(i, C):
                total += lik.Li[j, i] * p[j]
            s[i] = total
    elif lik.kind == 1:
        for i in range(C):
            s[i] = sigmoid(-o[i]) if y[i] == 1.0 else -sigmoid(o[i])
    elif lik.kind == 2:
        softmax(o, p)
        for i in range(C):
            if y[i] == 1.0:
                rest = 0.0
                for j in range(C):
                    rest += p[j] if j != i else 0.0
                s[i] = rest
            else:
                s[i] = -p[i]
    else:
        for i in range(C):
            s[i] = y[i] - math.exp(o[i])


@ordered
def info_rows(lik, o, B, p):
    """The first C rows of B: Σ_k B_kᵀ B_k = R (R⁻¹ for a Gaussian), the columns of Likelihood.info_factor, whose twin this is."""
    C = len(o)
    for k in range(C):
        for i in range(C):
            B[k, i] = 0.0
    if lik.kind == 0:
        for k in range(C):
            for i in range(k + 1):
                B[k, i] = lik.Li[k, i]
    elif lik.kind == 1:
        for k in range(C):
            e = math.exp(-0.5 * abs(o[k]))
            B[k, k] = e / (1.0 + e * e)
    elif lik.kind == 2:
        top = o[0]
        for i in range(1, C):
            top = max(top, o[i])
        total = softmax(o, p)
        for k in range(C):  # column k of diag(√p) − p √pᵀ: √p_k (e_k − p), where 1 − p_k is the sum of the others
            d = o[k] - top
            back = d - o[k]
            root = math.exp(0.5 * d) * (1.0 + 0.5 * ((o[k] - (d - back)) - (top + back))) / math.sqrt(total)
            rest = 0.0
            for i in range(C):
                B[k, i] = -root * p[i]
                rest += p[i] if i != k else 0.0
            B[k, k] = root * rest
    else:
        for k in range(C):
            B[k, k] = math.exp(0.5 * o[k])


def n_rows(lik: Lik, C: int) -> int:
    """The rank of the information, the number of rows of :func:`weighted_rows` for lin-hess."""
    return C - 1 if lik.kind == KINDS["categorical"] else C


@ordered
def weighted_rows(lik, hess, o, y, V, c, w, p):
    """Rows of V and weights with Σ_k c_k V_k = ∂log p/∂o and Σ_k w_k² V_kᵀ V_k = R (R⁻¹ for a Gaussian), or one row, s, where hess = 1.

    Twin of curvature.lin_hess (hess = 0) and lin_ef (1). For classes R = diag p − p pᵀ has rank C − 1. Its factors L D Lᵀ, with the most
    probable class last, have rows e_k − Σ_{j after k} (p_j/t_k) e_j, t_k = Σ_{j after k} p_j, and weights p_k t_k/(p_k + t_k); e_y − p is
    the sum of the rows with coefficients −p_k/(p_k + t_k) before y, t_y/(p_y + t_y) at y, and 0 after it.
    """
    C = len(o)
    if hess == 1:
        score(lik, o, y, V[0], p)
        c[0] = w[0] = 1.0
    elif lik.kind != 2:
        if lik.kind != 0:
            score(lik, o, y, c, p)
        for k in range(C):
            for j in range(C):
                V[k, j] = 1.0 if j == k else 0.0
            if lik.kind == 0:
                w[k], c[k] = 1.0, 0.0
                for j in range(k + 1):
                    V[k, j] = lik.Li[k, j]
                    c[k] += lik.Li[k, j] * (y[j] - o[j])
            else:
                e = math.exp(-0.5 * abs(o[k]))
                w[k] = e / (1.0 + e * e) if lik.kind == 1 else math.exp(0.5 * o[k])
    else:
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

"""Likelihoods in machine code: the score and a factor of the information. Twins of :mod:`bongref.likelihoods`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .jit import ordered

KINDS = {"gaussian": 0, "bernoulli": 1, "categorical": 2, "poisson": 3}


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

"""Score and information as weighted cotangents of the outputs. Reference: bongref.likelihoods."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .jit import U, ordered

KINDS = {"gaussian": 0, "bernoulli": 1, "categorical": 2, "poisson": 3}
GAUSSIAN, BERNOULLI, CATEGORICAL, POISSON = 0, 1, 2, 3
LIN_HESS, LIN_EF = 0, 1


class Places(NamedTuple):
    """Where the vectors of an observation are in the workspace v; C outputs, K cotangents."""

    kind: int  # of the likelihood
    C: np.uint64
    K: np.uint64
    o: np.uint64  # (C,) outputs
    s: np.uint64  # (C,) score
    p: np.uint64  # (C,) buffer
    V: np.uint64  # (K, C) cotangents
    c: np.uint64  # (K,) coefficients, and then (K,) weights
    Li: np.uint64  # (C, C), of a Gaussian: L⁻¹ where R = L Lᵀ


def places(lik: Any, C: int, K: int, first: int) -> Places:
    """The places from v[first] on."""
    ends = np.cumsum([first, C, C, C, K * C, 2 * K])
    return Places(KINDS[lik.name], U(C), U(K), *(U(n) for n in ends))


def extra(C: int, K: int) -> int:
    """How many numbers these are."""
    return 3 * C + K * C + 2 * K + C * C


def load(lik: Any, at: Places, v: Any) -> None:
    """What is constant: L⁻¹ of a Gaussian."""
    if lik.name == "gaussian":
        C = int(at.C)
        L = np.linalg.cholesky(np.eye(C) * lik.R if isinstance(lik.R, float) else lik.R)
        v[int(at.Li) : int(at.Li) + C * C] = np.tril(np.linalg.solve(L, np.eye(C))).ravel()


def n_rows(lik: Any, C: int, hess: int) -> int:
    """How many cotangents :func:`weights` has: the information's rank, or one for lin-ef."""
    return 1 if hess == LIN_EF else C - 1 if lik.name == "categorical" else C


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
def softmax(v, o, C, p):
    """v[p:] = e^o / Σ e^o, corrected for the rounding of o − max o. Reference: softmax."""
    at = U(0)
    for i in range(C):
        at = i if v[o + i] > v[o + at] else at
    top, s = v[o + at], 0.0
    for i in range(C):
        x = v[o + i]
        d = x - top
        back = d - x
        v[p + i] = math.exp(d) * (1.0 + ((x - (d - back)) - (top + back)))
        s += v[p + i] if i != at else 0.0
    for i in range(C):
        v[p + i] /= 1.0 + s


@ordered
def score(at, v, y, s):
    """v[s:] = ∂log p/∂o. Reference: Likelihood.score."""
    C, o, p = at.C, at.o, at.p
    if at.kind == GAUSSIAN:
        for i in range(C):
            v[p + i] = v[s + i] = 0.0
            for j in range(i + U(1)):
                v[p + i] += v[at.Li + i * C + j] * (y[j] - v[o + j])
        for i in range(C):
            for j in range(i, C):
                v[s + i] += v[at.Li + j * C + i] * v[p + j]
    elif at.kind == BERNOULLI:
        for i in range(C):
            v[s + i] = sigmoid(-v[o + i]) if y[i] == 1.0 else -sigmoid(v[o + i])
    elif at.kind == CATEGORICAL:
        softmax(v, o, C, p)
        for i in range(C):
            v[s + i] = -v[p + i]
            if y[i] == 1.0:
                v[s + i] = 0.0
                for j in range(C):
                    v[s + i] += v[p + j] if j != i else 0.0
    else:
        for i in range(C):
            v[s + i] = y[i] - safe_exp(v[o + i])


@ordered
def categorical_weights(at, v, y):
    """:func:`weights` of a softmax: R = diag p − p pᵀ has rank C − 1.

    Its factors L D Lᵀ, with the most probable class last, have rows e_k − Σ_{j after k} (p_j/t_k)
    e_j, t_k = Σ_{j after k} p_j, and weights p_k t_k/(p_k + t_k); e_y − p is the sum of the rows
    with coefficients −p_k/(p_k + t_k) before y, t_y/(p_y + t_y) at y, and 0 after it. No term
    cancels.
    """
    C, K, p, top = at.C, at.K, at.p, U(0)
    softmax(v, at.o, C, p)
    for k in range(C):
        top = k if v[p + k] > v[p + top] else top
    t, after = v[p + top], y[top] == 1.0
    for i in range(C):
        k = C - U(1) - i
        if k != top:
            r, q = k if k < top else k - U(1), v[p + k]
            for j in range(C):
                v[at.V + r * C + j] = -v[p + j] / t if j > k or j == top else 0.0
            v[at.V + r * C + k] = 1.0
            v[at.c + r] = -q / (q + t) if after else t / (q + t) if y[k] == 1.0 else 0.0
            v[at.c + K + r] = math.sqrt(q * t / (q + t))
            after, t = after or y[k] == 1.0, t + q


@ordered
def weights(at, hess, v, y):
    """Cotangents V (K, C) with Σ_k c_k V_k = ∂log p/∂o and Σ_k w_k² V_kᵀ V_k the information (R, or
    R⁻¹ of a Gaussian).

    For lin-ef one cotangent, the score. Reference: Likelihood.score and .info_factor, in
    curvature.lin_hess and lin_ef.
    """
    C, K, V, c, w, o = at.C, at.K, at.V, at.c, at.c + at.K, at.o
    if hess == LIN_EF:
        score(at, v, y, V)
        v[c] = v[w] = 1.0
    elif at.kind == CATEGORICAL:
        categorical_weights(at, v, y)
    elif at.kind == GAUSSIAN:
        for k in range(K):
            v[w + k], v[c + k] = 1.0, 0.0
            for j in range(C):
                v[V + k * C + j] = v[at.Li + k * C + j]
                v[c + k] += v[at.Li + k * C + j] * (y[j] - v[o + j])
    else:
        score(at, v, y, c)
        for k in range(K):
            for j in range(C):
                v[V + k * C + j] = 1.0 if j == k else 0.0
            if at.kind == BERNOULLI:
                e = math.exp(-0.5 * abs(v[o + k]))
                v[w + k] = e / (1.0 + e * e)
            else:
                v[w + k] = safe_exp(0.5 * v[o + k])

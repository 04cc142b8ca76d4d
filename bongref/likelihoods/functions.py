"""The scalar functions of the likelihoods; no derivative forms 1 − p or y − ŷ where they cancel.

>>> import numpy as np
>>> from bongref.likelihoods.functions import sigmoid, softmax
>>> sigmoid(np.array([-800.0, 0.0, 800.0]))
array([0. , 0.5, 1. ])
>>> softmax(np.array([1000.0, 1000.0]))
array([0.5, 0.5])
"""

from __future__ import annotations

import math
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.extend import defjvp, defvjp
from autograd.numpy.numpy_vjps import unbroadcast_f

from ..linalg import Array
from ..models.autodiff import primitive
from ..special import gammaln

LOG_2PI = math.log(2 * math.pi)


# --- scalar functions with exact derivatives ------------------------------------------------------


@primitive
def sigmoid(x: Any) -> Any:
    r"""\(\sigma(x) = 1/(1 + e^{-x})\) without overflow; \(1 - \sigma(x)\) is sigmoid(−x)."""
    e = np.exp(-np.abs(x))
    return np.where(np.asarray(x) >= 0, 1.0, e) / (1.0 + e)


@primitive
def softplus(x: Any) -> Any:
    r"""\(\log(1 + e^x)\)."""
    return np.logaddexp(0.0, x)


defvjp(sigmoid, lambda ans, x: lambda g: g * sigmoid(x) * sigmoid(-x))
defjvp(sigmoid, lambda g, ans, x: g * sigmoid(x) * sigmoid(-x))
defvjp(softplus, lambda ans, x: lambda g: g * sigmoid(x))
defjvp(softplus, lambda g, ans, x: g * sigmoid(x))


# --- softmax --------------------------------------------------------------------------------------


def _from_max(o: Array) -> tuple[Array, Array, Array, Array]:
    """max o; d = o − max o and its rounding error; s = Σ exp(o − max o) without the largest."""
    o = np.asarray(o, dtype=np.float64)
    m = np.max(o, axis=-1, keepdims=True)
    d = o - m
    back = d - o
    err = (o - (d - back)) - (m + back)  # two-sum: o − m = d + err exactly
    others = np.arange(o.shape[-1]) != np.argmax(o, axis=-1)[..., None]
    s = np.sum(np.exp(d) * (1.0 + err) * others, axis=-1, keepdims=True)
    return m, d, err, s


@primitive
def logsumexp(o: Any) -> Any:
    r"""\(\log\sum_k e^{o_k}\) over the last axis, as max + log1p(the rest)."""
    m, _, _, s = _from_max(o)
    return (m + np.log1p(s))[..., 0]


@primitive
def log_softmax(o: Any) -> Any:
    r"""\(o_k - \log\sum_j e^{o_j} = (o_k - \max o) - \mathrm{log1p}(s)\): two terms of one sign."""
    _, d, _, s = _from_max(o)
    return d - np.log1p(s)


@primitive
def softmax(o: Any) -> Any:
    r"""\(p_k = e^{o_k} / \sum_j e^{o_j}\)."""
    _, d, err, s = _from_max(o)
    return np.exp(d) * (1.0 + err) / (1.0 + s)


@primitive
def root_softmax(o: Any) -> Any:
    r"""\(\sqrt{p}\), also where p itself underflows."""
    _, d, err, s = _from_max(o)
    return np.exp(0.5 * d) * (1.0 + 0.5 * err) / np.sqrt(1.0 + s)


def _centred(p: Any, g: Any) -> Any:
    r"""\(g_k - \sum_j p_j g_j = \sum_j p_j (g_k - g_j)\): no \(1 - p\) is formed."""
    return anp.sum(p[..., None, :] * (g[..., :, None] - g[..., None, :]), axis=-1)


def _centred_t(p: Any, g: Any) -> Any:
    r"""The transpose, \(g_k - p_k \sum_j g_j = \sum_j (p_j g_k - p_k g_j)\)."""
    return anp.sum(p[..., None, :] * g[..., :, None] - p[..., :, None] * g[..., None, :], axis=-1)


defvjp(logsumexp, lambda ans, o: lambda g: g[..., None] * softmax(o))
defjvp(logsumexp, lambda g, ans, o: anp.sum(softmax(o) * g, axis=-1))
defvjp(log_softmax, lambda ans, o: lambda g: _centred_t(softmax(o), g))
defjvp(log_softmax, lambda g, ans, o: _centred(softmax(o), g))
defvjp(softmax, lambda ans, o: lambda g: ans * _centred(ans, g))
defjvp(softmax, lambda g, ans, o: ans * _centred(ans, g))
defvjp(root_softmax, lambda ans, o: lambda g: 0.5 * _centred_t(softmax(o), ans * g))
defjvp(root_softmax, lambda g, ans, o: 0.5 * ans * _centred(softmax(o), g))


# --- Poisson --------------------------------------------------------------------------------------


def exp(o: Any) -> Any:
    """e^o, inf beyond the largest float without a warning."""
    with np.errstate(over="ignore"):
        return anp.exp(o)


def _exp_minus_1_minus(t: Array) -> Array:
    r"""\(e^t - 1 - t\) for |t| ≤ 1, by its Taylor series (no cancellation)."""
    total = np.zeros_like(t)
    for k in range(20, 1, -1):
        total = (total + 1.0) * t / k
    return total * t


def _stirling_error(n: Array) -> Array:
    r"""\(\log n! - \log(\sqrt{2\pi n}\,(n/e)^n)\) for n ≥ 16, by its asymptotic series."""
    r = 1.0 / (n * n)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / n


@primitive
def poisson_log_pmf(o: Any, y: Any) -> Any:
    r"""\(y o - e^o - \log y!\), each entry.

    Near the mode of a large y, where these terms cancel, it is computed as a deviance.
    """
    o, y = np.broadcast_arrays(np.asarray(o, dtype=np.float64), np.asarray(y, dtype=np.float64))
    t = o - np.log(np.maximum(y, 1.0))  # log(rate / y)
    near = (y >= 16) & (np.abs(t) <= 1)
    n, t = np.where(near, y, 16.0), np.where(near, t, 0.0)
    saddle = -0.5 * (LOG_2PI + np.log(n)) - _stirling_error(n) - n * _exp_minus_1_minus(t)
    with np.errstate(over="ignore"):
        return np.where(near, saddle, y * o - np.exp(o) - gammaln(y + 1.0))


defvjp(poisson_log_pmf, lambda ans, o, y: unbroadcast_f(o, lambda g: g * (y - exp(o))), None)

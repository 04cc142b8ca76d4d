"""Exponential families p(y | η) = exp(ηᵀy − A(η) − b(y)): A, ŷ = ∇A, R = ∇²A, a factor of R, densities and sampling.

A model's output o has shape (..., C). It is the natural parameter η itself, except for `Gaussian`, where the output is
the mean and η = R⁻¹ o. Every function is pure and works on any leading batch dimensions of o and y; y is what `encode`
returns, an array (..., C). Functions of o can be differentiated by autograd; A and log_prob at least twice, and their
derivatives keep their digits where 1 − p or y − ŷ would cancel.

| family | A(η) | ŷ | R | factor L, R = L Lᵀ |
|---|---|---|---|---|
| Gaussian | ½ ηᵀRη | o | R, given | lower Cholesky factor |
| Bernoulli | Σ log(1 + e^η) | p = 1/(1 + e^−η) | diag(p(1 − p)) | diag(√(p(1 − p))) |
| Categorical | log Σ e^η | p = e^η / Σ e^η | diag(p) − p pᵀ, singular | diag(√p) − p √pᵀ |
| Poisson | Σ e^η | e^η | diag(e^η) | diag(e^(η/2)) |
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import autograd.numpy as anp
import numpy as np
from autograd.extend import defjvp, defvjp, primitive
from autograd.numpy.numpy_vjps import unbroadcast_f

from . import checks
from .errors import InvalidType, InvalidValue
from .linalg import is_pd
from .tables import USE_NONE

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Likelihood", "Poisson"]

LOG_2PI = math.log(2 * math.pi)
POISSON_MAX = 9.2e18  # numpy.random.Generator.poisson refuses rates above about 9.223e18


@runtime_checkable
class Likelihood(Protocol):
    """What an estimator and a predictive need from a family; o is (..., C), y is an encoded observation (..., C)."""

    name: ClassVar[str]

    def natural(self, o: Any) -> Any: ...
    def A(self, eta: Any) -> Any: ...
    def b(self, y: Any) -> Any: ...
    def mean(self, o: Any) -> Any: ...
    def var(self, o: Any) -> Any: ...
    def factor(self, o: Any) -> Any: ...
    def jac_mean(self, o: Any) -> Any: ...
    def var_mean(self, h: Any) -> Any: ...
    def residual(self, o: Any, y: Any) -> Any: ...
    def score(self, o: Any, y: Any) -> Any: ...
    def info(self, o: Any) -> Any: ...
    def info_factor(self, o: Any) -> Any: ...
    def log_prob(self, o: Any, y: Any) -> Any: ...
    def log_prob_mean(self, h: Any, y: Any) -> Any: ...
    def prob_mean(self, h: Any, y: Any) -> Any: ...
    def sample(self, o: Any, rng: np.random.Generator) -> np.ndarray: ...
    def check_outputs(self, n_outputs: int) -> int: ...
    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> np.ndarray: ...


# --- scalar functions with exact derivatives ---------------------------------------------------------------------


@primitive
def sigmoid(x):
    r"""\(\sigma(x) = 1/(1 + e^{-x})\) without overflow; \(1 - \sigma(x)\) is sigmoid(−x)."""
    e = np.exp(-np.abs(x))
    return np.where(np.asarray(x) >= 0, 1.0, e) / (1.0 + e)


@primitive
def softplus(x):
    r"""\(\log(1 + e^x)\)."""
    return np.logaddexp(0.0, x)


defvjp(sigmoid, lambda ans, x: lambda g: g * sigmoid(x) * sigmoid(-x))
defjvp(sigmoid, lambda g, ans, x: g * sigmoid(x) * sigmoid(-x))
defvjp(softplus, lambda ans, x: lambda g: g * sigmoid(x))
defjvp(softplus, lambda g, ans, x: g * sigmoid(x))


# --- softmax -----------------------------------------------------------------------------------------------------


def _from_max(o: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """max o; d = o − max o and its rounding error; s = Σ exp(o − max o) over all entries but the largest."""
    o = np.asarray(o, dtype=np.float64)
    m = np.max(o, axis=-1, keepdims=True)
    d = o - m
    back = d - o
    err = (o - (d - back)) - (m + back)  # two-sum: o − m = d + err exactly
    others = np.arange(o.shape[-1]) != np.argmax(o, axis=-1)[..., None]
    s = np.sum(np.exp(d) * (1.0 + err) * others, axis=-1, keepdims=True)
    return m, d, err, s


@primitive
def logsumexp(o):
    r"""\(\log\sum_k e^{o_k}\) over the last axis, as max + log1p(the rest)."""
    m, _, _, s = _from_max(o)
    return (m + np.log1p(s))[..., 0]


@primitive
def log_softmax(o):
    r"""\(o_k - \log\sum_j e^{o_j} = (o_k - \max o) - \mathrm{log1p}(s)\): two terms of one sign."""
    _, d, _, s = _from_max(o)
    return d - np.log1p(s)


@primitive
def softmax(o):
    r"""\(p_k = e^{o_k} / \sum_j e^{o_j}\)."""
    _, d, err, s = _from_max(o)
    return np.exp(d) * (1.0 + err) / (1.0 + s)


@primitive
def root_softmax(o):
    r"""\(\sqrt{p}\), also where p itself underflows."""
    _, d, err, s = _from_max(o)
    return np.exp(0.5 * d) * (1.0 + 0.5 * err) / np.sqrt(1.0 + s)


def _centred(p, g):
    r"""\(g_k - \sum_j p_j g_j = \sum_j p_j (g_k - g_j)\): no \(1 - p\) is formed."""
    return anp.sum(p[..., None, :] * (g[..., :, None] - g[..., None, :]), axis=-1)


def _centred_t(p, g):
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


# --- Poisson -----------------------------------------------------------------------------------------------------


def _gammaln(x):
    from scipy.special import gammaln

    return gammaln(x)


def _exp_minus_1_minus(t: np.ndarray) -> np.ndarray:
    r"""\(e^t - 1 - t\) for |t| ≤ 1, by its Taylor series (no cancellation)."""
    total = np.zeros_like(t)
    for k in range(20, 1, -1):
        total = (total + 1.0) * t / k
    return total * t


def _stirling_error(n: np.ndarray) -> np.ndarray:
    r"""\(\log n! - \log(\sqrt{2\pi n}\,(n/e)^n)\) for n ≥ 16, by its asymptotic series."""
    r = 1.0 / (n * n)
    return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / n


@primitive
def poisson_log_pmf(o, y):
    r"""\(y o - e^o - \log y!\), each entry; near the mode of a large y, where these terms cancel, as a deviance."""
    o, y = np.broadcast_arrays(np.asarray(o, dtype=np.float64), np.asarray(y, dtype=np.float64))
    t = o - np.log(np.maximum(y, 1.0))  # log(rate / y)
    near = (y >= 16) & (np.abs(t) <= 1)
    n, t = np.where(near, y, 16.0), np.where(near, t, 0.0)
    saddle = -0.5 * (LOG_2PI + np.log(n)) - _stirling_error(n) - n * _exp_minus_1_minus(t)
    return np.where(near, saddle, y * o - np.exp(o) - _gammaln(y + 1.0))


defvjp(poisson_log_pmf, lambda ans, o, y: unbroadcast_f(o, lambda g: g * (y - anp.exp(o))), None)


# --- the families ------------------------------------------------------------------------------------------------


class _Canonical:
    """The families whose model output is η: ∂η/∂o = I."""

    residual: Any
    var: Any
    factor: Any

    def natural(self, o):
        """η = o."""
        return o + 0.0

    def score(self, o, y):
        r"""\(\partial \log p / \partial o = y - \hat y\)."""
        return self.residual(o, y)

    def jac_mean(self, o):
        """∂ŷ/∂o, which is R."""
        return self.var(o)

    def info(self, o):
        """The Fisher information of o, which is R."""
        return self.var(o)

    def info_factor(self, o):
        """B with B Bᵀ = R: the factor of R."""
        return self.factor(o)

    def check_outputs(self, n_outputs: int) -> int:
        """n_outputs, if this family can have so many outputs."""
        return _outputs(n_outputs)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Gaussian:
    """N(y | o, R) with known R = var·I (scalar var, any C) or R = var, a (C, C) symmetric positive definite matrix.

    `R` keeps the scalar or the matrix (its symmetric part: asymmetry of the size of rounding is accepted).
    """

    R: float | np.ndarray
    _L: Any
    _Li: Any
    _P: Any
    name: ClassVar[str] = "gaussian"

    def __init__(self, var: Any):
        R = _covariance(var)
        L = math.sqrt(R) if isinstance(R, float) else np.linalg.cholesky(R)
        Li = 1.0 / L if isinstance(L, float) else _invert_lower(L)
        P = 1.0 / R if isinstance(R, float) else np.linalg.inv(R)
        for key, a in {"R": R, "_L": L, "_Li": Li, "_P": P if isinstance(P, float) else 0.5 * (P + P.T)}.items():
            if isinstance(a, np.ndarray):
                a.flags.writeable = False
            object.__setattr__(self, key, a)

    def __repr__(self) -> str:
        return f"Gaussian(var={self.R if isinstance(self.R, float) else self.R.tolist()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaussian) and np.array_equal(self.R, other.R)

    def __hash__(self) -> int:
        return hash(("Gaussian", np.shape(self.R), np.asarray(self.R).tobytes()))

    def _times(self, o, K):
        """K o for each row of o; K is (C, C), or a scalar that multiplies I."""
        return K * o if isinstance(K, float) else anp.matmul(o, K.T)

    def _expand(self, o, K) -> np.ndarray:
        """K as a matrix for each row of o, (..., C, C)."""
        C = self.check_outputs(np.shape(o)[-1])
        return np.broadcast_to(K * np.eye(C) if isinstance(K, float) else K, (*np.shape(o), C)).copy()

    def natural(self, o):
        r"""\(\eta = R^{-1} o\), by the Cholesky factor."""
        return self._times(self._times(o, self._Li), self._transpose(self._Li))

    def A(self, eta):
        r"""\(A(\eta) = \tfrac12 \eta^\top R \eta\)."""
        return 0.5 * anp.sum(self._times(eta, self._transpose(self._L)) ** 2, axis=-1)

    def b(self, y):
        r"""\(b(y) = \tfrac12 y^\top R^{-1} y + \tfrac12 \log\lvert 2\pi R\rvert\)."""
        return -self.log_prob(np.zeros_like(y), y)

    def mean(self, o):
        """ŷ = o."""
        return o + 0.0

    def var(self, o) -> np.ndarray:
        """R for each row of o, (..., C, C)."""
        return self._expand(o, self.R)

    def factor(self, o) -> np.ndarray:
        """The lower Cholesky factor L of R, R = L Lᵀ."""
        return self._expand(o, self._L)

    def jac_mean(self, o) -> np.ndarray:
        """∂ŷ/∂o = I."""
        return self._expand(o, 1.0)

    def var_mean(self, h) -> np.ndarray:
        """diag(R), whatever the mean h is, (..., C)."""
        return np.diagonal(self.var(h), axis1=-2, axis2=-1)

    def residual(self, o, y):
        """y − o."""
        return y - o

    def score(self, o, y):
        r"""\(\partial \log p / \partial o = R^{-1}(y - o)\)."""
        return self.natural(y - o)

    def info(self, o) -> np.ndarray:
        """R⁻¹, the Fisher information of the mean."""
        return self._expand(o, self._P)

    def info_factor(self, o) -> np.ndarray:
        r"""\(B = L^{-\top}\) with L the lower factor of R: \(B B^\top = R^{-1}\), so that A = Bᵀ has AᵀA = R⁻¹."""
        return self._expand(o, self._transpose(self._Li))

    def log_prob(self, o, y):
        r"""\(-\tfrac12 \lVert L^{-1}(y - o)\rVert^2 - \sum_k \log L_{kk} - \tfrac C2 \log 2\pi\)."""
        C, L = np.shape(o)[-1], self._L
        half_logdet = C * math.log(L) if isinstance(L, float) else float(np.sum(np.log(np.diag(L))))
        z = self._times(y - o, self._Li)
        return -0.5 * anp.sum(z**2, axis=-1) - (half_logdet + 0.5 * C * LOG_2PI)

    def log_prob_mean(self, h, y):
        """log N(y | h, R)."""
        return self.log_prob(h, y)

    def prob_mean(self, h, y):
        """N(y | h, R)."""
        return anp.exp(self.log_prob(h, y))

    def sample(self, o, rng: np.random.Generator) -> np.ndarray:
        """y = o + L z, z ~ N(0, I)."""
        return o + self._times(rng.standard_normal(np.shape(o)), self._L)

    def check_outputs(self, n_outputs: int) -> int:
        """n_outputs, if it is the size of R (any size when R = var·I)."""
        C = _outputs(n_outputs)
        if not isinstance(self.R, float) and len(self.R) != C:
            raise InvalidValue(f"n_outputs must be {len(self.R)}, the size of var {self.R.shape}, got {C}")
        return C

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> np.ndarray:
        """y as float64 (C,), or (N, C) with batch=N; finite real numbers."""
        return _observation(y, self.check_outputs(n_outputs), batch, "finite real numbers")

    @staticmethod
    def _transpose(K):
        return K if isinstance(K, float) else K.T


@dataclass(frozen=True)
class Bernoulli(_Canonical):
    """C independent outputs y_k ∈ {0, 1} with logits o: p_k = sigmoid(o_k)."""

    name: ClassVar[str] = "bernoulli"

    def A(self, eta):
        r"""\(A(\eta) = \sum_k \log(1 + e^{\eta_k})\)."""
        return anp.sum(softplus(eta), axis=-1)

    def b(self, y):
        """b(y) = 0."""
        return np.zeros(np.shape(y)[:-1])

    def mean(self, o):
        r"""\(p = \sigma(o)\)."""
        return sigmoid(o)

    def var(self, o):
        """R = diag(p (1 − p)), with 1 − p = sigmoid(−o)."""
        return _diag(sigmoid(o) * sigmoid(-o))

    def factor(self, o):
        r"""\(\mathrm{diag}\sqrt{p(1 - p)}\), \(\sqrt{p(1-p)} = e^{-|o|/2} / (1 + e^{-|o|})\)."""
        a = anp.abs(o)
        return _diag(anp.exp(-0.5 * a) / (1.0 + anp.exp(-a)))

    def residual(self, o, y):
        """y − p, with 1 − p = sigmoid(−o) where y = 1."""
        return y * sigmoid(-o) - (1.0 - y) * sigmoid(o)

    def log_prob(self, o, y):
        r"""\(\log p(y) = -\sum_k \log(1 + e^{(1 - 2y_k) o_k})\)."""
        return -anp.sum(softplus((1.0 - 2.0 * y) * o), axis=-1)

    def log_prob_mean(self, h, y):
        r"""\(\sum_k y_k \log h_k + (1 - y_k)\log(1 - h_k)\); −inf at 0, nan outside [0, 1] on the side that y needs."""
        return np.sum(_log(np.where(np.asarray(y) == 1, h, 1.0 - np.asarray(h))), axis=-1)

    def prob_mean(self, h, y):
        r"""\(\prod_k h_k^{y_k} (1 - h_k)^{1 - y_k}\), whatever h is."""
        return np.prod(np.where(np.asarray(y) == 1, h, 1.0 - np.asarray(h)), axis=-1)

    def var_mean(self, h):
        """The variances of y at the mean h, h (1 − h), whatever h is, (..., C)."""
        return h * (1 - h)

    def sample(self, o, rng: np.random.Generator) -> np.ndarray:
        """y_k = 1 with probability p_k."""
        return (rng.random(np.shape(o)) < sigmoid(np.asarray(o))).astype(np.float64)

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> np.ndarray:
        """y as float64 (C,), or (N, C) with batch=N; entries 0 or 1 (bool, int or float)."""
        allowed = "0 or 1"
        a = _observation(y, self.check_outputs(n_outputs), batch, allowed)
        return _require(a, (a == 0) | (a == 1), allowed)


@dataclass(frozen=True)
class Categorical(_Canonical):
    """One of C ≥ 2 classes, y one-hot, with logits o: p = softmax(o); R is singular and is used as it is."""

    name: ClassVar[str] = "categorical"

    def A(self, eta):
        r"""\(A(\eta) = \log \sum_k e^{\eta_k}\)."""
        return logsumexp(eta)

    def b(self, y):
        """b(y) = 0."""
        return np.zeros(np.shape(y)[:-1])

    def mean(self, o):
        r"""\(p_k = e^{o_k} / \sum_j e^{o_j}\)."""
        return softmax(o)

    def var(self, o):
        r"""\(R = \mathrm{diag}(p) - p p^\top\), with \(R_{kk} = p_k \sum_{j \ne k} p_j\)."""
        p, off = softmax(o), _off(o)
        return _diag(p * anp.matmul(p, off)) - p[..., :, None] * p[..., None, :] * off

    def factor(self, o):
        r"""\(R^{1/2} = \mathrm{diag}(\sqrt p) - p \sqrt p^\top\): \(L L^\top = R\) because Σ p = 1."""
        p, r, off = softmax(o), root_softmax(o), _off(o)
        return _diag(r * anp.matmul(p, off)) - p[..., :, None] * r[..., None, :] * off

    def residual(self, o, y):
        r"""y − p, with \(1 - p_k = \sum_{j \ne k} p_j\) where y_k = 1."""
        p = softmax(o)
        return y * anp.matmul(p, _off(o)) - (1.0 - y) * p

    def log_prob(self, o, y):
        r"""\(\log p_y = o_y - \log \sum_k e^{o_k}\)."""
        return anp.sum(y * log_softmax(o), axis=-1)

    def log_prob_mean(self, h, y):
        """log h_y; −inf where h_y = 0, nan where h_y < 0."""
        return _log(self.prob_mean(h, y))

    def prob_mean(self, h, y):
        """h_y as it is, also when it is not a probability."""
        return np.sum(np.where(np.asarray(y) == 1, h, 0.0), axis=-1)

    def var_mean(self, h):
        """The variances of y at the mean h, h (1 − h), whatever h is, (..., C)."""
        return h * (1 - h)

    def sample(self, o, rng: np.random.Generator) -> np.ndarray:
        """One-hot y, the largest of o + Gumbel noise."""
        o = np.asarray(o, dtype=np.float64)
        return np.eye(o.shape[-1])[np.argmax(o + rng.gumbel(size=o.shape), axis=-1)]

    def check_outputs(self, n_outputs: int) -> int:
        """n_outputs, if there are at least two classes."""
        return _outputs(n_outputs, low=2, why="; with one logit use Bernoulli")

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> np.ndarray:
        """y as one-hot float64 (C,), or (N, C) with batch=N; from integer labels 0..C−1 or one-hot vectors."""
        C = self.check_outputs(n_outputs)
        allowed = f"integer labels 0...{C - 1} or one-hot vectors of length {C}"
        a, lead = _numbers(y, allowed), () if batch is None else (batch,)
        if a.shape == (*lead, C):
            _require(a, (a == 0) | (a == 1), allowed)
            bad = np.atleast_2d(a)[np.atleast_1d(a.sum(axis=-1) != 1)]
            if len(bad):
                raise InvalidValue(f"y must be {allowed}, got {bad[0].tolist()}")
            return a
        if a.shape not in (lead, (*lead, 1)):
            raise InvalidValue(f"y must have shape {lead} for labels or {(*lead, C)} for one-hot vectors, got {a.shape}")
        labels = _require(a.reshape(lead), (a >= 0) & (a < C) & (a == np.floor(a)), allowed)
        return np.eye(C)[labels.astype(np.intp)]


@dataclass(frozen=True)
class Poisson(_Canonical):
    """C independent counts with log-rates o: E[y_k] = e^{o_k}."""

    name: ClassVar[str] = "poisson"

    def A(self, eta):
        r"""\(A(\eta) = \sum_k e^{\eta_k}\)."""
        return anp.sum(anp.exp(eta), axis=-1)

    def b(self, y):
        r"""\(b(y) = \sum_k \log y_k!\)."""
        return np.sum(_gammaln(np.asarray(y) + 1.0), axis=-1)

    def mean(self, o):
        r"""\(\hat y = e^o\)."""
        return anp.exp(o)

    def var(self, o):
        """R = diag(e^o)."""
        return _diag(anp.exp(o))

    def factor(self, o):
        """diag(e^{o/2})."""
        return _diag(anp.exp(0.5 * o))

    def residual(self, o, y):
        """y − e^o."""
        return y - anp.exp(o)

    def log_prob(self, o, y):
        r"""\(\sum_k y_k o_k - e^{o_k} - \log y_k!\)."""
        return anp.sum(poisson_log_pmf(o, y), axis=-1)

    def log_prob_mean(self, h, y):
        """The log-density at rates h: −inf where h ≤ 0, except 0 where y = h = 0."""
        h, y = np.broadcast_arrays(np.asarray(h, dtype=np.float64), np.asarray(y, dtype=np.float64))
        inside = poisson_log_pmf(np.log(np.where(h > 0, h, 1.0)), y)
        return np.sum(np.where(h > 0, inside, np.where((h == 0) & (y == 0), 0.0, -np.inf)), axis=-1)

    def prob_mean(self, h, y):
        """The density at rates h: 0 where h ≤ 0, except 1 where y = h = 0."""
        return np.exp(self.log_prob_mean(h, y))

    def var_mean(self, h):
        """The variances of y at the mean h, h, whatever h is, (..., C)."""
        return h + 0.0

    def sample(self, o, rng: np.random.Generator) -> np.ndarray:
        """Counts; beyond the generator's largest rate the rounded Gaussian limit, at most the largest float."""
        with np.errstate(over="ignore"):
            rate = np.minimum(np.exp(np.asarray(o, dtype=np.float64)), np.finfo(np.float64).max)
            y = rng.poisson(np.minimum(rate, POISSON_MAX)).astype(np.float64)
            limit = np.rint(rate + np.sqrt(rate) * rng.standard_normal(rate.shape))
        return np.where(rate <= POISSON_MAX, y, np.minimum(limit, np.finfo(np.float64).max))

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> np.ndarray:
        """y as float64 (C,), or (N, C) with batch=N; nonnegative integers."""
        allowed = "nonnegative integers"
        a = _observation(y, self.check_outputs(n_outputs), batch, allowed)
        return _require(a, (a >= 0) & (a == np.floor(a)), allowed)


# --- small helpers -----------------------------------------------------------------------------------------------


def _diag(d):
    """diag(d) for each row of d, (..., C, C)."""
    return d[..., :, None] * np.eye(d.shape[-1])


def _off(o) -> np.ndarray:
    """1 off the diagonal, 0 on it: p @ _off is Σ_{j≠k} p_j."""
    return 1.0 - np.eye(np.shape(o)[-1])


def _log(a):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(a)


def _invert_lower(L: np.ndarray) -> np.ndarray:
    """L⁻¹ by forward substitution."""
    Li = np.zeros_like(L)
    for i, row in enumerate(L):
        Li[i, :i] = -row[:i] @ Li[:i, :i] / row[i]
        Li[i, i] = 1.0 / row[i]
    return Li


def _covariance(var: Any) -> float | np.ndarray:
    """var as a positive float or as a symmetric positive definite float64 matrix."""
    R = checks.array("var", var, ndim=(0, 2))
    if R.ndim == 0:
        if R <= 0:
            raise InvalidValue(f"var must be > 0 (a variance), got {R}")
        return float(R)
    if R.shape[0] != R.shape[1]:
        raise InvalidValue(f"var must be a number or a (C, C) matrix, got shape {R.shape}")
    skew = float(np.max(np.abs(R - R.T)))
    if skew > 8 * len(R) * np.finfo(np.float64).eps * np.max(np.abs(R)):  # more than the rounding of a product Q D Qᵀ
        raise InvalidValue(f"var must be symmetric, got max|R - R^T| = {skew:.3g}")
    R = 0.5 * (R + R.T)
    if not is_pd(R):
        low = np.linalg.eigvalsh(R)[0]
        raise InvalidValue(f"var must be positive definite, got a matrix with smallest eigenvalue {low:.3g}")
    return R


def _outputs(n_outputs: Any, low: int = 1, why: str = "") -> int:
    return checks.integer("n_outputs", n_outputs, low, remedy=why)


def _numbers(y: Any, allowed: str) -> np.ndarray:
    """A float64 copy of an array of real numbers; text, complex numbers, None and ragged lists are refused."""
    if type(y) is not np.ndarray and np.ma.is_masked(y):
        raise InvalidValue(f"y must have no masked entries, got {checks.describe(y)}{USE_NONE}")
    try:
        a = np.asarray(y)
        if a.dtype.kind not in "biuf" and not (a.dtype == object and all(isinstance(v, numbers.Real) for v in a.flat)):
            raise TypeError
        return np.array(a, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidType(f"y must be {allowed}, got {checks.describe(y)}") from None


def _require(a: np.ndarray, ok: np.ndarray, allowed: str) -> np.ndarray:
    if not np.all(ok):
        at = int(np.flatnonzero(~ok)[0])
        where = f" at index {tuple(int(i) for i in np.unravel_index(at, a.shape))}" if a.size > 1 else ""
        remedy = USE_NONE if np.isnan(a.flat[at]) else ""
        raise InvalidValue(f"y must be {allowed}, got {a.flat[at]}{where}{remedy}")
    return a


def _observation(y: Any, C: int, batch: int | None, allowed: str) -> np.ndarray:
    """y as (C,), or (N, C) with batch=N; without the last axis too when C = 1; finite."""
    a, lead = _numbers(y, allowed), () if batch is None else (batch,)
    if a.shape != (*lead, C) and not (C == 1 and a.shape == lead):
        also = f" or {lead}" if C == 1 else ""
        raise InvalidValue(f"y must have shape {(*lead, C)}{also}, got {a.shape}")
    return _require(a.reshape(*lead, C), np.isfinite(a.reshape(*lead, C)), allowed)

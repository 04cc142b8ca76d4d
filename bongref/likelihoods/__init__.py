"""Exponential families p(y | η) = exp(ηᵀy − A(η) − b(y)): densities, moments, factors, sampling.

A model's output o has shape (..., C). It is the natural parameter η itself, except for `Gaussian`,
where the output is the mean and η = R⁻¹ o. Every function is pure and works on any leading batch
dimensions of o and y; y is what `encode` returns, an array (..., C). Functions of o can be
differentiated by autograd; A and log_prob at least twice, also where 1 − p or y − ŷ would cancel.
What is not here: networks (``models``) and expectations over q(θ) (``curvature``, ``predictive``).

| family | A(η) | ŷ = ∇A | R = ∇²A | factor L, R = L Lᵀ |
|---|---|---|---|---|
| Gaussian | ½ ηᵀRη | o | R, given | lower Cholesky factor |
| Bernoulli | Σ log(1 + e^η) | p = 1/(1 + e^−η) | diag(p(1 − p)) | diag(√(p(1 − p))) |
| Categorical | log Σ e^η | p = e^η / Σ e^η | diag(p) − p pᵀ, singular | diag(√p) − p √pᵀ |
| Poisson | Σ e^η | e^η | diag(e^η) | diag(e^(η/2)) |

>>> import numpy as np, bongref as br
>>> lik = br.likelihoods.Categorical()
>>> y = lik.encode([2, 0], n_outputs=3, batch=2)
>>> lik.mean(np.zeros((2, 3))).sum(axis=1), lik.log_prob(np.zeros((2, 3)), y)
(array([1., 1.]), array([-1.09861229, -1.09861229]))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import autograd.numpy as anp
import numpy as np

from .. import checks
from ..errors import InvalidValue
from ..linalg import Array, cholesky, eigvalsh, finite, is_pd, solve, sym
from ..special import gammaln
from .encoding import checked, leading, observation, possible, real_numbers, require
from .functions import (
    LOG_2PI,
    exp,
    log_softmax,
    logsumexp,
    poisson_log_pmf,
    root_softmax,
    sigmoid,
    softmax,
    softplus,
)
from .protocol import Likelihood, documented

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Likelihood", "Poisson"]

POISSON_MAX = 9.2e18  # numpy.random.Generator.poisson refuses rates above about 9.223e18


# --- the families ---------------------------------------------------------------------------------


@documented
@checked
class _Canonical:
    """The families whose model output is η: ∂η/∂o = I."""

    residual: Any
    var: Any
    factor: Any

    def natural(self, o: Any) -> Any:
        """η = o."""
        return o + 0.0

    def score(self, o: Any, y: Any) -> Any:
        r"""\(\partial \log p / \partial o = y - \hat y\)."""
        return self.residual(o, y)

    def jac_mean(self, o: Any) -> Any:
        """∂ŷ/∂o, which is R."""
        return self.var(o)

    def info(self, o: Any) -> Any:
        """The Fisher information of o, which is R."""
        return self.var(o)

    def info_factor(self, o: Any) -> Any:
        """B with B Bᵀ = R: the factor of R."""
        return self.factor(o)

    def pearson(self, o: Any, y: Any) -> Any:
        """Pearson residuals e, (y − ŷ)/√R where R is diagonal: B e is the score.

        Parameters
        ----------
        o, y : array_like, shape (..., C)
            Outputs of a model, and observations encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> Bernoulli().pearson(np.zeros(1), np.ones(1))
        array([1.])
        """
        return self.residual(o, y) / np.diagonal(self.factor(o), axis1=-2, axis2=-1)

    def check_outputs(self, n_outputs: int) -> int:
        """n_outputs, if this family can have so many outputs."""
        return _outputs(n_outputs)


@documented
@checked
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Gaussian:
    """N(y | o, R) with known R; the output o of the model is the mean.

    Parameters
    ----------
    var : float or array_like, shape (C, C)
        A variance (R = var·I, for any C), or R itself, symmetric positive definite. Asymmetry of
        the size of rounding is accepted; the symmetric part is kept.

    Raises
    ------
    InvalidValue
        If ``var`` is not > 0, not symmetric or not positive definite.

    Examples
    --------
    >>> lik = Gaussian(var=0.25)
    >>> round(float(lik.log_prob(np.zeros(1), np.zeros(1))), 6)
    -0.225791
    >>> Gaussian(var=-1.0)
    Traceback (most recent call last):
    bongref.errors.InvalidValue: var must be > 0 (a variance), got -1.0
    """

    R: float | Array
    _L: Any
    _Li: Any
    _P: Any
    name: ClassVar[str] = "gaussian"

    def __init__(self, var: Any) -> None:
        R = _covariance(var)
        L = math.sqrt(R) if isinstance(R, float) else cholesky(R)
        Li = 1.0 / L if isinstance(L, float) else _invert_lower(L)
        P = 1.0 / R if isinstance(R, float) else finite(solve(R, np.eye(len(R))))
        P = P if isinstance(P, float) else 0.5 * (P + P.T)
        for key, a in {"R": R, "_L": L, "_Li": Li, "_P": P}.items():
            if isinstance(a, np.ndarray):
                a.flags.writeable = False
            object.__setattr__(self, key, a)

    def __repr__(self) -> str:
        return f"Gaussian(var={self.R if isinstance(self.R, float) else self.R.tolist()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaussian) and np.array_equal(self.R, other.R)

    def __hash__(self) -> int:
        return hash(("Gaussian", np.shape(self.R), np.asarray(self.R).tobytes()))

    def _times(self, o: Any, K: Any) -> Any:
        """K o for each row of o; K is (C, C), or a scalar that multiplies I."""
        if isinstance(K, float):
            return K * o
        self.check_outputs(np.shape(o)[-1])
        return anp.matmul(o, K.T)

    def _expand(self, o: Any, K: Any) -> Array:
        """K as a matrix for each row of o, (..., C, C)."""
        C = self.check_outputs(np.shape(o)[-1])
        full = K * np.eye(C) if isinstance(K, float) else K
        out: Array = np.broadcast_to(full, (*np.shape(o), C)).copy()
        return out

    def natural(self, o: Any) -> Any:
        r"""\(\eta = R^{-1} o\), by the Cholesky factor."""
        return self._times(self._times(o, self._Li), self._transpose(self._Li))

    def A(self, eta: Any) -> Any:
        r"""\(A(\eta) = \tfrac12 \eta^\top R \eta\)."""
        return 0.5 * anp.sum(self._times(eta, self._transpose(self._L)) ** 2, axis=-1)

    def b(self, y: Any) -> Any:
        r"""\(b(y) = \tfrac12 y^\top R^{-1} y + \tfrac12 \log\lvert 2\pi R\rvert\)."""
        return -self.log_prob(np.zeros_like(y), y)

    def mean(self, o: Any) -> Any:
        """ŷ = o."""
        return o + 0.0

    def var(self, o: Any) -> Array:
        """R for each row of o, (..., C, C)."""
        return self._expand(o, self.R)

    def factor(self, o: Any) -> Array:
        """The lower Cholesky factor L of R, R = L Lᵀ."""
        return self._expand(o, self._L)

    def jac_mean(self, o: Any) -> Array:
        """∂ŷ/∂o = I."""
        return self._expand(o, 1.0)

    def var_mean(self, h: Any) -> Array:
        """diag(R), whatever the mean h is, (..., C)."""
        return np.diagonal(self.var(h), axis1=-2, axis2=-1)

    def residual(self, o: Any, y: Any) -> Any:
        """y − o."""
        return y - o

    def score(self, o: Any, y: Any) -> Any:
        r"""\(\partial \log p / \partial o = R^{-1}(y - o)\)."""
        return self.natural(y - o)

    def info(self, o: Any) -> Array:
        """R⁻¹, the Fisher information of the mean."""
        return self._expand(o, self._P)

    def info_factor(self, o: Any) -> Array:
        r"""\(B = L^{-\top}\) with L the lower factor of R: \(B B^\top = R^{-1}\)."""
        return self._expand(o, self._transpose(self._Li))

    def pearson(self, o: Any, y: Any) -> Any:
        r"""\(e = L^{-1}(y - o)\): \(B e\) is the score.

        Parameters
        ----------
        o, y : array_like, shape (..., C)
            Outputs of a model, and observations encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> Gaussian(var=0.25).pearson(np.zeros(1), np.ones(1))
        array([2.])
        """
        return self._times(y - o, self._Li)

    def log_prob(self, o: Any, y: Any) -> Any:
        r"""\(-\tfrac12 \lVert L^{-1}(y - o)\rVert^2 - \sum_k\log L_{kk} - \tfrac C2\log 2\pi\)."""
        C, L = np.shape(o)[-1], self._L
        half_logdet = C * math.log(L) if isinstance(L, float) else float(np.sum(np.log(np.diag(L))))
        z = self._times(y - o, self._Li)
        return -0.5 * anp.sum(z**2, axis=-1) - (half_logdet + 0.5 * C * LOG_2PI)

    def log_prob_mean(self, h: Any, y: Any) -> Any:
        """log N(y | h, R)."""
        return self.log_prob(h, y)

    def prob_mean(self, h: Any, y: Any) -> Any:
        """N(y | h, R)."""
        return anp.exp(self.log_prob(h, y))

    def sample(self, o: Any, rng: np.random.Generator) -> Array:
        """y = o + L z, z ~ N(0, I)."""
        y: Array = o + self._times(rng.standard_normal(np.shape(o)), self._L)
        return y

    def check_outputs(self, n_outputs: int) -> int:
        """n_outputs, if it is the size of R (any size when R = var·I)."""
        C = _outputs(n_outputs)
        if not isinstance(self.R, float) and len(self.R) != C:
            size = len(self.R)
            raise InvalidValue(f"n_outputs must be {size}, the size of var {self.R.shape}, got {C}")
        return C

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> Array:
        """y as float64 (C,), or (N, C) with batch=N; finite real numbers."""
        return observation(y, self.check_outputs(n_outputs), batch, "finite real numbers")

    @staticmethod
    def _transpose(K: Any) -> Any:
        return K if isinstance(K, float) else K.T


@documented
@checked
@dataclass(frozen=True)
class Bernoulli(_Canonical):
    """C independent outputs y_k ∈ {0, 1} with logits o: p_k = 1/(1 + e^{−o_k}).

    Examples
    --------
    >>> lik = Bernoulli()
    >>> lik.encode(True, n_outputs=1), lik.mean(np.zeros(1))
    (array([1.]), array([0.5]))
    """

    name: ClassVar[str] = "bernoulli"

    def A(self, eta: Any) -> Any:
        r"""\(A(\eta) = \sum_k \log(1 + e^{\eta_k})\)."""
        return anp.sum(softplus(eta), axis=-1)

    def b(self, y: Any) -> Any:
        """b(y) = 0."""
        return np.zeros(np.shape(y)[:-1])

    def mean(self, o: Any) -> Any:
        r"""\(p = \sigma(o)\)."""
        return sigmoid(o)

    def var(self, o: Any) -> Any:
        """R = diag(p (1 − p)), with 1 − p = sigmoid(−o)."""
        return _diag(sigmoid(o) * sigmoid(-o))

    def factor(self, o: Any) -> Any:
        r"""\(\mathrm{diag}\sqrt{p(1 - p)}\), \(\sqrt{p(1-p)} = e^{-|o|/2} / (1 + e^{-|o|})\)."""
        a = anp.abs(o)
        return _diag(anp.exp(-0.5 * a) / (1.0 + anp.exp(-a)))

    def residual(self, o: Any, y: Any) -> Any:
        """y − p, with 1 − p = sigmoid(−o) where y = 1."""
        return y * sigmoid(-o) - (1.0 - y) * sigmoid(o)

    def log_prob(self, o: Any, y: Any) -> Any:
        r"""\(\log p(y) = -\sum_k \log(1 + e^{(1 - 2y_k) o_k})\)."""
        return -anp.sum(softplus((1.0 - 2.0 * y) * o), axis=-1)

    def log_prob_mean(self, h: Any, y: Any) -> Any:
        r"""\(\sum_k y_k \log h_k + (1 - y_k)\log(1 - h_k)\); −inf at 0, nan below 0."""
        return np.sum(_log(np.where(np.asarray(y) == 1, h, 1.0 - np.asarray(h))), axis=-1)

    def prob_mean(self, h: Any, y: Any) -> Any:
        r"""\(\prod_k h_k^{y_k} (1 - h_k)^{1 - y_k}\), whatever h is."""
        return np.prod(np.where(np.asarray(y) == 1, h, 1.0 - np.asarray(h)), axis=-1)

    def var_mean(self, h: Any) -> Any:
        """The variances of y at the mean h, h (1 − h), whatever h is, (..., C)."""
        return h * (1 - h)

    def sample(self, o: Any, rng: np.random.Generator) -> Array:
        """y_k = 1 with probability p_k."""
        y: Array = (rng.random(np.shape(o)) < sigmoid(np.asarray(o))).astype(np.float64)
        return y

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> Array:
        """y as float64 (C,), or (N, C) with batch=N; entries 0 or 1 (bool, int or float)."""
        a = observation(y, self.check_outputs(n_outputs), batch, "0 or 1")
        return possible(self.name, a)


@documented
@checked
@dataclass(frozen=True)
class Categorical(_Canonical):
    """One of C ≥ 2 classes with logits o: p = softmax(o), y one-hot; R is singular.

    Examples
    --------
    >>> lik = Categorical()
    >>> lik.encode(1, n_outputs=3)
    array([0., 1., 0.])
    """

    name: ClassVar[str] = "categorical"

    def A(self, eta: Any) -> Any:
        r"""\(A(\eta) = \log \sum_k e^{\eta_k}\)."""
        return logsumexp(eta)

    def b(self, y: Any) -> Any:
        """b(y) = 0."""
        return np.zeros(np.shape(y)[:-1])

    def mean(self, o: Any) -> Any:
        r"""\(p_k = e^{o_k} / \sum_j e^{o_j}\)."""
        return softmax(o)

    def var(self, o: Any) -> Any:
        r"""\(R = \mathrm{diag}(p) - p p^\top\), with \(R_{kk} = p_k \sum_{j \ne k} p_j\)."""
        p, off = softmax(o), _off(o)
        return _diag(p * anp.matmul(p, off)) - p[..., :, None] * p[..., None, :] * off

    def factor(self, o: Any) -> Any:
        r"""\(L = \mathrm{diag}(\sqrt p) - p \sqrt p^\top\): \(L L^\top = R\) because Σ p = 1."""
        p, r, off = softmax(o), root_softmax(o), _off(o)
        return _diag(r * anp.matmul(p, off)) - p[..., :, None] * r[..., None, :] * off

    def residual(self, o: Any, y: Any) -> Any:
        r"""y − p, with \(1 - p_k = \sum_{j \ne k} p_j\) where y_k = 1."""
        p = softmax(o)
        return y * anp.matmul(p, _off(o)) - (1.0 - y) * p

    def pearson(self, o: Any, y: Any) -> Any:
        r"""\(e = (y - p) / \sqrt p\): \(L e = y - p\).

        Parameters
        ----------
        o, y : array_like, shape (..., C)
            Outputs of a model, and observations encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> Categorical().pearson(np.zeros(2), np.array([1.0, 0.0])).round(6)
        array([ 0.707107, -0.707107])
        """
        return self.residual(o, y) / root_softmax(o)

    def log_prob(self, o: Any, y: Any) -> Any:
        r"""\(\log p_y = o_y - \log \sum_k e^{o_k}\)."""
        return anp.sum(y * log_softmax(o), axis=-1)

    def log_prob_mean(self, h: Any, y: Any) -> Any:
        """log h_y; −inf where h_y = 0, nan where h_y < 0."""
        return _log(self.prob_mean(h, y))

    def prob_mean(self, h: Any, y: Any) -> Any:
        """h_y as it is, also when it is not a probability."""
        return np.sum(np.where(np.asarray(y) == 1, h, 0.0), axis=-1)

    def var_mean(self, h: Any) -> Any:
        """The variances of y at the mean h, h (1 − h), whatever h is, (..., C)."""
        return h * (1 - h)

    def sample(self, o: Any, rng: np.random.Generator) -> Array:
        """One-hot y, the largest of o + Gumbel noise."""
        o = np.asarray(o, dtype=np.float64)
        y: Array = np.eye(o.shape[-1])[np.argmax(o + rng.gumbel(size=o.shape), axis=-1)]
        return y

    def check_outputs(self, n_outputs: int) -> int:
        """n_outputs, if there are at least two classes."""
        return _outputs(n_outputs, low=2, remedy="; with one logit use Bernoulli")

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> Array:
        """y as one-hot (C,), or (N, C) with batch=N; from labels 0 … C − 1 or one-hot vectors."""
        C = self.check_outputs(n_outputs)
        allowed = f"integer labels 0...{C - 1} or one-hot vectors of length {C}"
        a, lead = real_numbers(y, allowed), leading(batch)
        if a.shape == (*lead, C):
            require(a, (a == 0) | (a == 1), allowed)
            bad = np.atleast_2d(a)[np.atleast_1d(a.sum(axis=-1) != 1)]
            if len(bad):
                raise InvalidValue(f"y must be {allowed}, got {bad[0].tolist()}")
            return a
        if a.shape not in (lead, (*lead, 1)):
            raise InvalidValue(
                f"y must have shape {lead} for labels or {(*lead, C)} for one-hot vectors, "
                f"got {a.shape}"
            )
        labels = require(a.reshape(lead), (a >= 0) & (a < C) & (a == np.floor(a)), allowed)
        return np.equal(labels[..., None], np.arange(C)).astype(np.float64)


@documented
@checked
@dataclass(frozen=True)
class Poisson(_Canonical):
    """C independent counts with log-rates o: E[y_k] = e^{o_k}.

    Examples
    --------
    >>> lik = Poisson()
    >>> lik.mean(np.log([2.0])), lik.encode(3, n_outputs=1)
    (array([2.]), array([3.]))
    """

    name: ClassVar[str] = "poisson"

    def A(self, eta: Any) -> Any:
        r"""\(A(\eta) = \sum_k e^{\eta_k}\)."""
        return anp.sum(exp(eta), axis=-1)

    def b(self, y: Any) -> Any:
        r"""\(b(y) = \sum_k \log y_k!\)."""
        return np.sum(gammaln(np.asarray(y) + 1.0), axis=-1)

    def mean(self, o: Any) -> Any:
        r"""\(\hat y = e^o\)."""
        return exp(o)

    def var(self, o: Any) -> Any:
        """R = diag(e^o)."""
        return _diag(exp(o))

    def factor(self, o: Any) -> Any:
        """diag(e^{o/2})."""
        return _diag(exp(0.5 * o))

    def residual(self, o: Any, y: Any) -> Any:
        """y − e^o."""
        return y - exp(o)

    def log_prob(self, o: Any, y: Any) -> Any:
        r"""\(\sum_k y_k o_k - e^{o_k} - \log y_k!\)."""
        return anp.sum(poisson_log_pmf(o, y), axis=-1)

    def log_prob_mean(self, h: Any, y: Any) -> Any:
        """The log-density at rates h: −inf where h ≤ 0, except 0 where y = h = 0."""
        h, y = np.broadcast_arrays(np.asarray(h, dtype=np.float64), np.asarray(y, dtype=np.float64))
        inside = poisson_log_pmf(np.log(np.where(h > 0, h, 1.0)), y)
        return np.sum(np.where(h > 0, inside, np.where((h == 0) & (y == 0), 0.0, -np.inf)), axis=-1)

    def prob_mean(self, h: Any, y: Any) -> Any:
        """The density at rates h: 0 where h ≤ 0, except 1 where y = h = 0."""
        return np.exp(self.log_prob_mean(h, y))

    def var_mean(self, h: Any) -> Any:
        """The variances of y at the mean h, h, whatever h is, (..., C)."""
        return h + 0.0

    def sample(self, o: Any, rng: np.random.Generator) -> Array:
        """Counts; beyond the generator's largest rate the rounded Gaussian limit."""
        with np.errstate(over="ignore"):
            rate = np.exp(np.asarray(o, dtype=np.float64))
            if not np.all(np.isfinite(rate)):
                raise InvalidValue(f"o must be log-rates with finite exp(o), got {np.max(o)}")
            y = rng.poisson(np.minimum(rate, POISSON_MAX)).astype(np.float64)
            limit = np.rint(rate + np.sqrt(rate) * rng.standard_normal(rate.shape))
        out: Array = np.where(rate <= POISSON_MAX, y, np.minimum(limit, np.finfo(np.float64).max))
        return out

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> Array:
        """y as float64 (C,), or (N, C) with batch=N; nonnegative integers."""
        a = observation(y, self.check_outputs(n_outputs), batch, "nonnegative integers")
        return possible(self.name, a)


# --- small helpers --------------------------------------------------------------------------------


def _diag(d: Any) -> Any:
    """diag(d) for each row of d, (..., C, C)."""
    return d[..., :, None] * np.eye(d.shape[-1])


def _off(o: Any) -> Array:
    """1 off the diagonal, 0 on it: p @ _off is Σ_{j≠k} p_j."""
    return 1.0 - np.eye(np.shape(o)[-1])


def _log(a: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(a)


def _invert_lower(L: Array) -> Array:
    """L⁻¹ by forward substitution."""
    Li = np.zeros_like(L)
    for i, row in enumerate(L):
        Li[i, :i] = -row[:i] @ Li[:i, :i] / row[i]
        Li[i, i] = 1.0 / row[i]
    return Li


def _covariance(var: Any) -> float | Array:
    """var as a positive float or as a symmetric positive definite float64 matrix."""
    R: Array = checks.array("var", var, ndim=(0, 2))
    if R.ndim == 0:
        if R <= 0:
            raise InvalidValue(f"var must be > 0 (a variance), got {R}")
        if not math.isfinite(1 / float(R)):
            raise InvalidValue(f"var must have a finite inverse, got {R}")
        return float(R)
    if R.shape[0] != R.shape[1]:
        raise InvalidValue(f"var must be a number or a (C, C) matrix, got shape {R.shape}")
    skew = float(np.max(np.abs(R - R.T)))
    rounding = 8 * len(R) * np.finfo(np.float64).eps * np.max(np.abs(R))  # of a product Q D Qᵀ
    if skew > rounding:
        raise InvalidValue(f"var must be symmetric, got max|R - R^T| = {skew:.3g}")
    R = sym(R)
    if not is_pd(R):
        low = eigvalsh(R)[0]
        raise InvalidValue(f"var must be positive definite, got smallest eigenvalue {low:.3g}")
    return R


def _outputs(n_outputs: Any, low: int = 1, remedy: str = "") -> int:
    return checks.integer("n_outputs", n_outputs, low, remedy=remedy)

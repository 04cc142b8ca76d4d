r"""The four estimators of the expected gradient g and the expected Hessian G, and the seam they hand to a step.

An estimator knows the network and the likelihood and no variational family; a step knows the family and no network.
Between them stands :class:`Curv`: g, and G as ``-S Sᵀ`` wherever the estimator can.

=========  ============================  ====================================  =====================
estimator  g                             G                                     as
=========  ============================  ====================================  =====================
mc_hess    mean of the sampled ∇ℓ        mean of the sampled ∇²ℓ               G dense, or its diagonal d
mc_ef      mean of the sampled ∇ℓ        −(1/M) Ĝ Ĝᵀ                           S = Ĝ/√M
lin_hess   Hᵀ R⁻¹ (y − ŷ)                −Hᵀ R⁻¹ H                             S = Fᵀ R^{1/2}
lin_ef     Hᵀ R⁻¹ (y − ŷ)                −g gᵀ                                 S = g
=========  ============================  ====================================  =====================

A mini-batch of conditionally independent observations is one likelihood: its log-likelihoods add up, its outputs are stacked.
With given ``samples`` (the θ̂ themselves, shape (M, P)) every estimator is deterministic.

The linearised estimators use the linear(f)-delta side of thm:lbong, ``Fᵀ(y − ŷ)`` and ``−Fᵀ R F`` with an exact factor of R.
It needs no R⁻¹, which does not exist for a softmax (R = diag(p) − ppᵀ is singular), and no jitter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import checks
from .errors import InvalidValue
from .linalg import Array, eigh, rowdot, sqrt
from .paper import eq

if TYPE_CHECKING:
    from .likelihoods import Likelihood
    from .models import Model


class Curv(NamedTuple):
    """Expected gradient g (P,) and expected Hessian G: as S (P, K) with G = −S Sᵀ, or dense (P, P), or its diagonal d (P,).

    Exactly one of S, G and d is given. Where g lies in the columns of S, the estimators also hand over e with g = S e, the
    residual in units of its standard deviations: with it an efficient form finds the mean without the difference Σg − K Vᵀg,
    which loses the digits of a very informative observation.

    Parameters
    ----------
    g : ndarray, shape (P,)
        The expected gradient of the log-likelihood.
    S : ndarray, shape (P, K), optional
        A factor of the expected Hessian, G = −S Sᵀ.
    G : ndarray, shape (P, P), optional
        The expected Hessian itself.
    d : ndarray, shape (P,), optional
        Its diagonal; enough for the diagonal families alone.
    e : ndarray, shape (K,), optional
        Coefficients with g = S e; only together with S.

    Examples
    --------
    >>> import bongref as br
    >>> curv = br.Curv(g=np.array([1.0, 0.0]), S=np.array([[1.0], [2.0]]))
    >>> br.curvature.dense(curv)
    array([[-1., -2.],
           [-2., -4.]])
    """

    g: Array
    S: Any = None
    G: Any = None
    d: Any = None
    e: Any = None


def with_factor(g: Array, S: Array, e: Any) -> Curv:
    """The Curv of checked g and S, with e from outside: g must be S e, to 1e-8 of the sizes that enter."""
    if e is None:
        return Curv(g, S=S)
    e = checks.array("curv.e", e, shape=(S.shape[1],))
    with np.errstate(over="ignore", invalid="ignore"):
        off, size = np.max(np.abs(S @ e - g), initial=0), np.max(np.abs(S) @ np.abs(e), initial=0)
    if not off <= 1e-8 * size < np.inf and off > 0:
        raise InvalidValue(f"curv.e must be the coefficients with g = S e, got max|S e - g| = {off:.3g}; leave it out otherwise")
    return Curv(g, S=S, e=e)


class Lin(NamedTuple):
    """A linearised observation: predicted mean ŷ, Jacobian H of the mean, variance R, innovation e = y − ŷ."""

    yhat: Array  # (C,)
    H: Array  # (C, P)
    R: Array  # (C, C)
    e: Array  # (C,)


# --- the three readings of G ----------------------------------------------------------------------------------------


def dense(curv: Curv) -> Array:
    """G as a (P, P) matrix."""
    if curv.S is not None:
        return -(curv.S @ curv.S.T)
    if curv.G is not None:
        return curv.G
    return np.diag(curv.d)


def diagonal(curv: Curv) -> Array:
    """diag(G), by the diag(AB) trick where G = −S Sᵀ: O(KP) instead of O(KP²)."""
    if curv.S is not None:
        return -rowdot(curv.S, curv.S)
    return np.diag(curv.G) if curv.G is not None else curv.d


def factor(curv: Curv) -> Array:
    """S with G = −S Sᵀ. A dense G is factored by its eigenvectors; it must be negative semi-definite.

    Eigenvalues of −G that are negative by no more than the rounding with which such a product of three matrices is formed,
    2¹⁰ · P · eps · ‖G‖, count as the zeros that they stand for; anything below that is refused.
    """
    if curv.S is not None:
        return curv.S
    G = np.diag(curv.d) if curv.G is None else curv.G
    lam, Q = eigh(-G)
    top = max(abs(v) for v in lam)
    if min(lam) < -(2**10) * len(G) * np.finfo(float).eps * top:
        raise ValueError(
            f"curv.G must be negative semi-definite to be written as -S S^T (sec:DLR-deriv); "
            f"the largest eigenvalue of G is {-float(min(lam)):.3g}"
        )
    lam = np.array([v if v > 0 else 0 * v for v in lam], dtype=lam.dtype)
    return Q * sqrt(lam)


# --- Monte Carlo -------------------------------------------------------------------------------------------------------


def _gradient(model: Model, lik: Likelihood, x: Any, y: Any, theta: Array) -> Array:
    """∇_θ log p(y | f(x, θ)) = Jᵀ ∂log p/∂o: one reverse sweep, exact also where the likelihood saturates."""
    score = lik.score(model(theta, x), y)
    return (
        model.vjp(theta, x, score) if np.all(np.isfinite(score)) else np.full(len(theta), np.nan)
    )  # an overflow is the caller's to report


@eq("eq:exfam-likelihood-general", "sec:pseudocode#6", "sec:pseudocode#9")
def _loglik(model: Model, lik: Likelihood, x: Any, y: Any) -> Callable[[Array], Any]:
    """θ ↦ log p(y | f(x, θ)), of a batch the sum."""
    from autograd import numpy as anp

    return lambda theta: anp.sum(lik.log_prob(model(theta, x), y))


def mc_hess(
    model: Model, lik: Likelihood, x: Any, y: Any, samples: Array, *, diag: bool = False, probes: Array | None = None
) -> Curv:
    """MC-HESS: empirical means of gradient and Hessian over the samples; O(M P²), diagonal by Hutchinson O(N M P).

    ``diag=True`` keeps only diag(G), exactly; with ``probes`` (M, N, P) of ±1 by Hutchinson's estimator, the mean of v ∘ (∇²ℓ v).
    """
    from .models import hessian, hvp

    ell = _loglik(model, lik, x, y)
    ghat = np.stack([_gradient(model, lik, x, y, theta) for theta in samples])  # sec:pseudocode#13
    g = ghat.mean(axis=0)  # sec:pseudocode#15, eq:gMC
    if probes is not None:
        Hv = hvp(ell)
        d = np.mean([np.mean([v * Hv(theta, v) for v in vs], axis=0) for theta, vs in zip(samples, probes, strict=True)], axis=0)
        return Curv(g, d=d)
    Ghat = np.stack([hessian(ell)(theta) for theta in samples])  # sec:pseudocode#14
    G = Ghat.mean(axis=0)  # sec:pseudocode#16, eq:GMCH
    return Curv(g, d=np.diag(G).copy()) if diag else Curv(g, G=G)


def mc_ef(
    model: Model, lik: Likelihood, x: Any, y: Any, samples: Array, *, virtual: Any = None
) -> Curv:
    """MC-EF: G = −(1/M) Ĝ Ĝᵀ from the sampled gradients; O(M P).

    ``virtual`` holds one virtual observation ỹ for each sample, drawn from the model at that sample (sec:EF):
    then Ĝ is made from ỹ and g still from y.
    """
    Ghat = np.stack([_gradient(model, lik, x, y, theta) for theta in samples], axis=1)  # sec:pseudocode#18, sec:pseudocode#20
    g = Ghat.mean(axis=1)  # sec:pseudocode#19, eq:gMC
    if virtual is not None:
        Ghat = np.stack([_gradient(model, lik, x, v, theta) for theta, v in zip(samples, virtual, strict=True)], axis=1)
    S = Ghat / np.sqrt(len(samples))  # sec:pseudocode#21, eq:GMCEF — G = −S Sᵀ
    return Curv(g, S=S, e=np.full(len(samples), len(samples) ** -0.5) if virtual is None else None)


# --- linearised ----------------------------------------------------------------------------------------------------------


def lin_hess(model: Model, lik: Likelihood, x: Any, y: Any, mu: Array) -> Curv:
    """LIN-HESS: the network linearised at mu, g = Fᵀ(y − ŷ) = Hᵀ R⁻¹(y − ŷ), G = −Fᵀ R F = −Hᵀ R⁻¹ H; O(C² P)."""
    o = model(mu, x)
    J = model.jac(mu, x).reshape(-1, *o.shape[-1:], len(mu))  # (B, C, P): a batch is its outputs stacked
    B = lik.info_factor(o).reshape(-1, *o.shape[-1:] * 2)
    g = J.reshape(-1, len(mu)).T @ lik.score(o, y).reshape(-1)  # sec:pseudocode#26, sec:derivations#18, eq:gL
    S = (np.swapaxes(J, 1, 2) @ B).transpose(1, 0, 2).reshape(len(mu), -1)  # sec:pseudocode#27, sec:derivations#19, eq:GL — G = −S Sᵀ
    return Curv(g, S=S, e=_pearson(lik, o, y))


def _pearson(lik: Likelihood, o: Array, y: Any) -> Array | None:
    """e with B e = ∂ log p/∂o, B Bᵀ the information of o; None if the likelihood does not offer it, or e overflows."""
    if not hasattr(lik, "pearson"):
        return None
    e: Array = lik.pearson(o, y).reshape(-1)
    return e if np.all(np.isfinite(e)) else None


def lin_ef(
    model: Model, lik: Likelihood, x: Any, y: Any, mu: Array, *, virtual: Array | None = None
) -> Curv:
    """LIN-EF: the gradient at mu, by one reverse sweep and no Jacobian, and its outer product; O(P).

    ``virtual`` is a virtual observation ỹ drawn from the model at mu (sec:EF): then G is made from ỹ and g still from y.
    """
    g = _gradient(model, lik, x, y, mu)  # sec:pseudocode#30, sec:EF#2, eq:gL-cheap
    S = (g if virtual is None else _gradient(model, lik, x, virtual, mu))[:, None]  # sec:pseudocode#31, eq:GLEF — G = −S Sᵀ
    return Curv(g, S=S, e=np.ones(1) if virtual is None else None)


def linearise(model: Model, lik: Likelihood, x: Any, y: Any, mu: Array) -> Lin:
    """The symbols of sec:linearized at mu: ŷ, H, R and the innovation, for the Kalman form and for a trace."""
    o = model(mu, x)
    n = o.shape[-1]
    T = lik.jac_mean(o).reshape(-1, n, n)  # ∂h/∂o
    J = model.jac(mu, x).reshape(-1, n, len(mu))
    yhat = lik.mean(o).reshape(-1)  # sec:pseudocode#7, sec:pseudocode#23, sec:derivations#15, sec:linearized#3
    H = (T @ J).reshape(-1, len(mu))  # sec:pseudocode#24, sec:derivations#16, eqn:jacH
    R = block_diag(
        lik.var(o).reshape(-1, n, n)
    )  # sec:pseudocode#8, sec:pseudocode#25, sec:pseudocode#29, sec:derivations#17, eq:gaussian-likelihood
    e = lik.residual(o, y).reshape(-1)
    return Lin(yhat, H, R, e)


def block_diag(blocks: Array) -> Array:
    """Square blocks (B, C, C) on the diagonal of a (BC, BC) matrix."""
    b, c, _ = blocks.shape
    out = np.zeros((b, c, b, c))
    out[np.arange(b), :, np.arange(b), :] = blocks
    return out.reshape(b * c, b * c)

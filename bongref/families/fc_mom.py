r"""FC-mom (sec:FC-Mom): full covariance Gaussian in its central moments ψ = (μ, Σ).

The section's order: the gradients of E[log p] (Bonnet, Price) and of the KL, the Fisher of (μ, vec Σ), which is needed here because
(μ, Σ) is not a natural parameter; then bong, blr, bog, bbb; then the efficient forms.

A step takes ``(prior, current, curv, alpha)`` — q_{t|t-1}, q_{t,i-1}, (g, G), α — and returns q_{t,i}. bong and bog start at the
prior and ignore ``current``. Their LIN-HESS versions are the same lines with g = HᵀR⁻¹(y−ŷ) and G = −HᵀR⁻¹H put in for (g, G).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..curvature import Curv, dense
from ..linalg import Array, eigvals, inv, sym
from ..paper import eq
from ..states import FC

# --- the gradients ---------------------------------------------------------------------------------------------------------


@eq("eq:FC-NLL-mu", "eq:FC-NLL-Sigma")
def ell_moments(q: FC, curv: Curv) -> tuple[Array, Array]:
    """∇_μ and ∇_Σ of E_q[log p]: the theorems of Bonnet and Price."""
    d_mu = curv.g  # eq:FC-NLL-mu, sec:derivations#8, sec:derivations#9
    d_Sigma = dense(curv) / 2  # eq:FC-NLL-Sigma, sec:derivations#10, sec:derivations#11
    return d_mu, d_Sigma


@eq("eq:FC-KL-mu", "eq:FC-KL-Sigma")
def kl_moments(q: FC, prior: FC) -> tuple[Array, Array]:
    """∇_μ and ∇_Σ of D(q | prior)."""
    prec = inv(prior.Sigma)
    d_mu = prec @ (q.mu - prior.mu)  # eq:FC-KL-mu
    d_Sigma = (prec - inv(q.Sigma)) / 2  # eq:FC-KL-Sigma
    return d_mu, d_Sigma


# --- the Fisher ----------------------------------------------------------------------------------------------------------------


@eq("sec:FC-Mom#5", "sec:FC-Mom#10")
def fisher(q: FC) -> Array:
    """The Fisher matrix of (μ, vec Σ), (P + P²) × (P + P²): blockdiag(Σ⁻¹, ½ Σ⁻¹ ⊗ Σ⁻¹)."""
    prec = inv(q.Sigma)
    P = len(prec)
    F = np.zeros((P + P * P, P + P * P), dtype=prec.dtype)
    F[:P, :P] = prec  # sec:FC-Mom#7
    F[P:, P:] = np.kron(prec, prec) / 2  # sec:FC-Mom#15
    return F


def natural_gradient(q: FC, d_mu: Array, d_Sigma: Array) -> tuple[Array, Array]:
    """F⁻¹ applied to a gradient in (μ, Σ), without the P² × P² matrix: (Σ ∇_μ, 2 Σ ∇_Σ Σ)."""
    n_mu = q.Sigma @ d_mu  # eq:FC-mom-Fisher
    n_Sigma = 2 * q.Sigma @ d_Sigma @ q.Sigma  # eq:FC-mom-Fisher
    return n_mu, n_Sigma


# --- BONG ----------------------------------------------------------------------------------------------------------------------


def bong(prior: FC, current: FC | None, curv: Curv, alpha=1) -> FC:
    """BONG-FC_MOM: one natural-gradient step on the expected log-likelihood, in (μ, Σ); O(P³)."""
    mu = prior.mu + prior.Sigma @ curv.g  # eq:bong-FC-mom-mu, sec:FC-Mom#21
    Sigma = prior.Sigma + sym(prior.Sigma @ dense(curv) @ prior.Sigma)  # eq:bong-FC-mom-cov, sec:FC-Mom#22
    return FC(mu, Sigma)


def bong_lowrank(prior: FC, current: FC | None, curv: Curv, alpha=1) -> FC:
    """BONG-FC_MOM with G = −S Sᵀ: Σ − (ΣS)(ΣS)ᵀ; O(K P²)."""
    V = prior.Sigma @ curv.S
    mu = prior.mu + prior.Sigma @ curv.g  # eq:bong-FC-mom-mu, sec:FC-Mom#21
    Sigma = prior.Sigma - V @ V.T  # eq:bong-FC-mom-cov, sec:FC-Mom#22
    return FC(mu, Sigma)


# --- BLR -----------------------------------------------------------------------------------------------------------------------


def blr(prior: FC, current: FC, curv: Curv, alpha) -> FC:
    """BLR-FC_MOM: natural gradient on the variational loss, in (μ, Σ); O(P³)."""
    prec0, S = inv(prior.Sigma), current.Sigma
    mu = current.mu + alpha * S @ (prec0 @ (prior.mu - current.mu)) + alpha * S @ curv.g  # eq:blr-FC-mom-mu, sec:FC-Mom#25
    Sigma = (1 + alpha) * S + alpha * sym(S @ (dense(curv) - prec0) @ S)  # eq:blr-FC-mom-cov, sec:FC-Mom#26
    return FC(mu, Sigma)


class Increment(NamedTuple):
    """q_{t,i} as a change of the prior: its mean, and Y, B with Σ_{t,i} = Σ + Z B Zᵀ, Σ = Σ_{t|t-1}, Z = ΣY."""

    mu: Array
    Y: Array  # (P, iK)
    Z: Array  # (P, iK)
    B: Array  # (iK, iK)


def start(prior: FC) -> Increment:
    """q_{t,0} = q_{t|t-1}."""
    none = np.zeros((len(prior.mu), 0))
    return Increment(prior.mu, none, none, np.zeros((0, 0)))


def blr_increment(prior: FC, current: Increment, curv: Curv, alpha) -> Increment:
    """BLR-FC_MOM with G = −S Sᵀ without an inversion: O(K P² + iK P) in the i-th iteration, where the paper sees O(P³).

    The inner loop starts at the prior, so that Σ_{t,i} = Σ + ΣAΣ with A = Y B Yᵀ, and Σ_{t,i} Σ⁻¹ = I + ΣA needs no inverse. In A the
    update is (1−α)A − αAΣA − α(I + AΣ) S Sᵀ (I + ΣA): it stays in the columns of Y and S.
    """
    mu, Y, Z, B = current
    delta, k = prior.mu - mu, Y.shape[1]
    new_mu = mu + alpha * (delta + Z @ (B @ (Y.T @ delta)))
    mu = new_mu + alpha * (prior.Sigma @ curv.g + Z @ (B @ (Z.T @ curv.g)))  # eq:blr-FC-mom-mu, sec:FC-Mom#25
    T = np.concatenate([B @ (Z.T @ curv.S), np.eye(curv.S.shape[1])])  # (I + AΣ) S = [Y, S] T
    old = np.pad((1 - alpha) * B - alpha * sym(B @ (Y.T @ Z) @ B), (0, len(T) - k))
    B = old - alpha * (T @ T.T)  # eq:blr-FC-mom-cov, sec:FC-Mom#26
    return Increment(mu, np.concatenate([Y, curv.S], axis=1), np.concatenate([Z, prior.Sigma @ curv.S], axis=1), B)


def is_valid_increment(q: Increment) -> bool:
    """Σ + Z B Zᵀ is positive definite if and only if every eigenvalue of B YᵀΣY is greater than −1."""
    finite = all(np.all(np.isfinite(a)) for a in q)
    return bool(finite and np.min(eigvals(q.B @ (q.Y.T @ q.Z)).real) > -1)


def finish(prior: FC, current: Increment) -> FC:
    """The state of an increment: Σ + Z B Zᵀ."""
    Sigma = prior.Sigma + sym(current.Z @ current.B @ current.Z.T)  # eq:blr-FC-mom-cov, sec:FC-Mom#26
    return FC(current.mu, Sigma)


# --- BOG -----------------------------------------------------------------------------------------------------------------------


def bog(prior: FC, current: FC | None, curv: Curv, alpha) -> FC:
    """BOG-FC_MOM: one plain gradient step on the expected log-likelihood, in (μ, Σ); O(K P²) with G = −S Sᵀ."""
    mu = prior.mu + alpha * curv.g  # eq:bog-fc-mom-mu, eq:lbog-fc-mom-mu
    Sigma = prior.Sigma + alpha * dense(curv) / 2  # eq:bog-fc-mom-cov, eq:lbog-fc-mom-cov
    return FC(mu, Sigma)


# --- BBB -----------------------------------------------------------------------------------------------------------------------


def bbb(prior: FC, current: FC, curv: Curv, alpha) -> FC:
    """BBB-FC_MOM: plain gradient on the variational loss, in (μ, Σ); O(P³)."""
    prec0 = inv(prior.Sigma)
    mu = current.mu + alpha * prec0 @ (prior.mu - current.mu) + alpha * curv.g  # bbb-FC-mom-mu, sec:FC-Mom#33
    Sigma = current.Sigma + alpha * (inv(current.Sigma) - prec0 + dense(curv)) / 2  # bbb-FC-mom-cov, sec:FC-Mom#34
    return FC(mu, Sigma)

r"""Diag-nat (sec:diag-Nat): diagonal Gaussian in its natural parameters ψ = (σ⁻²μ, −½σ⁻²), dual ρ = (μ, μ² + σ²), elementwise.

The section's order: the parameters, the KL divergence and its gradients, the chain rule to ρ and to ψ, and from these the four
quantities that all updates are made of. Then bong, blr, bog, bbb: first in ψ as the section substitutes (``*_psi``), then
translated to (μ, σ²), which is what a step returns. They need diag(G) alone, which :func:`bongref.curvature.diagonal` takes from
G = −S Sᵀ by the diag(AB) trick of this section.

A step takes ``(prior, current, curv, alpha)`` — q_{t|t-1}, q_{t,i-1}, (g, G), α — and returns q_{t,i}. bong and bog start at the
prior and ignore ``current``. Their LIN-HESS versions are the same lines with g = HᵀR⁻¹(y−ŷ) and G = −HᵀR⁻¹H put in for (g, G).
"""

from __future__ import annotations

import numpy as np

from ..curvature import Curv, diagonal
from ..linalg import Array
from ..paper import eq
from ..states import Diag

# --- the parameters ------------------------------------------------------------------------------------------------------


@eq("sec:diag-Nat#1", "sec:diag-Nat#2")
def natural(q: Diag) -> tuple[Array, Array]:
    """ψ = (σ⁻²μ, −½σ⁻²)."""
    psi1 = q.mu / q.var  # sec:diag-Nat#1
    psi2 = -1 / q.var / 2  # sec:diag-Nat#2
    return psi1, psi2


@eq("sec:diag-Nat#1", "sec:diag-Nat#2")
def dual(q: Diag) -> tuple[Array, Array]:
    """ρ = (μ, μ² + σ²)."""
    return q.mu, q.mu**2 + q.var


@eq("sec:diag-Nat#3", "sec:diag-Nat#4")
def from_natural(psi1: Array, psi2: Array) -> Diag:
    """(μ, σ²) = (−½ψ⁽²⁾⁻¹ψ⁽¹⁾, −½ψ⁽²⁾⁻¹)."""
    var = -1 / psi2 / 2  # sec:diag-Nat#4
    mu = var * psi1  # sec:diag-Nat#3
    return Diag(mu, var)


@eq("sec:diag-Nat#3", "sec:diag-Nat#4")
def from_dual(rho1: Array, rho2: Array) -> Diag:
    """(μ, σ²) = (ρ⁽¹⁾, ρ⁽²⁾ − (ρ⁽¹⁾)²)."""
    return Diag(rho1, rho2 - rho1**2)


# --- the KL divergence and its gradients ------------------------------------------------------------------------------------


@eq("sec:diag-Nat#5")
def kl(q: Diag, prior: Diag) -> float:
    """D(q | prior), with the constant that the section leaves out, so that kl(q, q) = 0."""
    ratio = q.var / prior.var
    return float(np.sum((q.mu - prior.mu) ** 2 / prior.var + ratio - np.log(ratio) - 1)) / 2  # sec:diag-Nat#5


@eq("sec:diag-Nat#6", "sec:diag-Nat#7")
def kl_moments(q: Diag, prior: Diag) -> tuple[Array, Array]:
    """Gradients of the KL with respect to μ and σ²."""
    d_mu = (q.mu - prior.mu) / prior.var  # sec:diag-Nat#6
    d_var = (1 / prior.var - 1 / q.var) / 2  # sec:diag-Nat#7
    return d_mu, d_var


# --- the chain rule, and the four quantities ------------------------------------------------------------------------------


@eq("sec:diag-Nat#8", "sec:diag-Nat#9", "sec:diag-Nat#10", "sec:diag-Nat#11")
def to_rho(q: Diag, d_mu: Array, d_var: Array) -> tuple[Array, Array]:
    """∇_ρ ℓ from ∇_μ ℓ and ∇_σ² ℓ, for any scalar ℓ."""
    d_rho1 = d_mu - 2 * q.mu * d_var  # sec:diag-Nat#9
    d_rho2 = d_var  # sec:diag-Nat#11
    return d_rho1, d_rho2


@eq("sec:diag-Nat#16", "sec:diag-Nat#17", "sec:diag-Nat#18", "sec:diag-Nat#19", "sec:diag-Nat#20", "sec:diag-Nat#21")
def to_psi(q: Diag, d_mu: Array, d_var: Array) -> tuple[Array, Array]:
    """∇_ψ ℓ from ∇_μ ℓ and ∇_σ² ℓ, for any scalar ℓ."""
    d_psi1 = q.var * d_mu  # sec:diag-Nat#18
    d_psi2 = 2 * q.var * q.mu * d_mu + 2 * q.var**2 * d_var  # sec:diag-Nat#21
    return d_psi1, d_psi2


@eq("eq:diag-NLL-rho1", "eq:diag-NLL-rho2")
def ell_rho(q: Diag, curv: Curv) -> tuple[Array, Array]:
    """∇_ρ E_q[log p]."""
    d = diagonal(curv)
    d_rho1 = curv.g - d * q.mu  # eq:diag-NLL-rho1
    d_rho2 = d / 2  # eq:diag-NLL-rho2
    return d_rho1, d_rho2


@eq("eq:diag-KL-rho1", "eq:diag-KL-rho2")
def kl_rho(q: Diag, prior: Diag) -> tuple[Array, Array]:
    """∇_ρ D(q | prior)."""
    d_rho1 = q.mu / q.var - prior.mu / prior.var  # eq:diag-KL-rho1
    d_rho2 = (1 / prior.var - 1 / q.var) / 2  # eq:diag-KL-rho2
    return d_rho1, d_rho2


@eq("eq:diag-NLL-psi1", "eq:diag-NLL-psi2")
def ell_psi(q: Diag, curv: Curv) -> tuple[Array, Array]:
    """∇_ψ E_q[log p]."""
    d_psi1 = q.var * curv.g  # eq:diag-NLL-psi1
    d_psi2 = 2 * q.var * q.mu * curv.g + q.var**2 * diagonal(curv)  # eq:diag-NLL-psi2
    return d_psi1, d_psi2


@eq("eq:diag-KL-psi1", "eq:diag-KL-psi2")
def kl_psi(q: Diag, prior: Diag) -> tuple[Array, Array]:
    """∇_ψ D(q | prior)."""
    d_psi1 = q.var / prior.var * (q.mu - prior.mu)  # eq:diag-KL-psi1
    d_psi2 = 2 * q.mu * d_psi1 + q.var**2 * (1 / prior.var - 1 / q.var)  # eq:diag-KL-psi2
    return d_psi1, d_psi2


# --- BONG ----------------------------------------------------------------------------------------------------------------------


def bong_psi(prior: Diag, current: Diag | None, curv: Curv, alpha=1) -> tuple[Array, Array]:
    """ψ_t = ψ_{t|t-1} + ∇_ρ E[log p]."""
    (psi1, psi2), (d1, d2) = natural(prior), ell_rho(prior, curv)
    psi1 = psi1 + d1  # eq:bong-diag-mu
    psi2 = psi2 + d2  # eq:bong-diag-prec
    return psi1, psi2


def bong(prior: Diag, current: Diag | None, curv: Curv, alpha=1) -> Diag:
    """BONG-DIAG: one natural-gradient step on the expected log-likelihood; O(P). LIN-HESS has the variances of VD-EKF."""
    var = 1 / (1 / prior.var - diagonal(curv))  # eq:bong-diag-prec2, sec:diag-Nat#31
    mu = prior.mu + var * curv.g  # sec:diag-Nat#28, sec:diag-Nat#30
    return Diag(mu, var)


# --- BLR -----------------------------------------------------------------------------------------------------------------------


def blr_psi(prior: Diag, current: Diag, curv: Curv, alpha) -> tuple[Array, Array]:
    """ψ_{t,i} = ψ_{t,i-1} + α ∇_ρ (E[log p] − KL)."""
    (psi1, psi2), (l1, l2), (k1, k2) = natural(current), ell_rho(current, curv), kl_rho(current, prior)
    psi1 = psi1 + alpha * (l1 - k1)  # sec:diag-Nat#32
    psi2 = psi2 + alpha * (l2 - k2)  # sec:diag-Nat#33
    return psi1, psi2


def blr(prior: Diag, current: Diag, curv: Curv, alpha) -> Diag:
    """BLR-DIAG: natural gradient on the variational loss; O(P) per iteration."""
    prec = (1 - alpha) / current.var + alpha / prior.var - alpha * diagonal(curv)  # eq:blr-diag-prec, sec:diag-Nat#37
    var = 1 / prec  # eq:blr-diag-prec, sec:diag-Nat#37
    mu = current.mu + alpha * var * ((prior.mu - current.mu) / prior.var + curv.g)  # eq:blr-diag-mu, sec:diag-Nat#36
    return Diag(mu, var)


# --- BOG -----------------------------------------------------------------------------------------------------------------------


def bog_psi(prior: Diag, current: Diag | None, curv: Curv, alpha) -> tuple[Array, Array]:
    """ψ_t = ψ_{t|t-1} + α ∇_ψ E[log p]."""
    (psi1, psi2), (d1, d2) = natural(prior), ell_psi(prior, curv)
    psi1 = psi1 + alpha * d1  # sec:diag-Nat#38
    psi2 = psi2 + alpha * d2  # sec:diag-Nat#39
    return psi1, psi2


def bog(prior: Diag, current: Diag | None, curv: Curv, alpha) -> Diag:
    """BOG-DIAG: one plain gradient step on the expected log-likelihood, in ψ; O(P)."""
    v, d = prior.var, diagonal(curv)
    prec = 1 / v - 4 * alpha * v * prior.mu * curv.g - 2 * alpha * v**2 * d  # eq:bog-diag-prec, sec:diag-Nat#43
    var = 1 / prec  # eq:bog-diag-prec, sec:diag-Nat#43
    mu = var / v * prior.mu + alpha * var * v * curv.g  # eq:bog-diag-mu, sec:diag-Nat#42
    return Diag(mu, var)


# --- BBB -----------------------------------------------------------------------------------------------------------------------


def bbb_psi(prior: Diag, current: Diag, curv: Curv, alpha) -> tuple[Array, Array]:
    """ψ_{t,i} = ψ_{t,i-1} + α ∇_ψ (E[log p] − KL)."""
    (psi1, psi2), (l1, l2), (k1, k2) = natural(current), ell_psi(current, curv), kl_psi(current, prior)
    psi1 = psi1 + alpha * (l1 - k1)  # sec:diag-Nat#44
    psi2 = psi2 + alpha * (l2 - k2)  # sec:diag-Nat#45
    return psi1, psi2


def bbb(prior: Diag, current: Diag, curv: Curv, alpha) -> Diag:
    """BBB-DIAG: plain gradient on the variational loss, in ψ; O(P) per iteration."""
    v, v0, m, r = current.var, prior.var, current.mu, prior.mu - current.mu
    likelihood = 4 * alpha * v * m * curv.g + 2 * alpha * v**2 * diagonal(curv)
    divergence = -4 * alpha * v / v0 * m * r + 2 * alpha * v**2 * (1 / v0 - 1 / v)
    prec = 1 / v - likelihood + divergence  # eq:bbb-diag-prec, sec:diag-Nat#49
    var = 1 / prec  # eq:bbb-diag-prec, sec:diag-Nat#49
    mu = var / v * m + alpha * var * v * (curv.g + r / v0)  # eq:bbb-diag-mu, sec:diag-Nat#48
    return Diag(mu, var)

r"""Diag-mom (sec:diag-Mom): diagonal Gaussian in its central moments ψ = (μ, σ²), elementwise.

The section's order: the gradients of E[log p] (Bonnet, Price) and of the KL, the Fisher of (μ, σ²), which is needed here because
(μ, σ²) is not a natural parameter; then bong, blr, bog, bbb. They need diag(G) alone, which :func:`bongref.curvature.diagonal`
takes from G = −S Sᵀ by the diag(AB) trick of sec:diag-Nat.

A step takes ``(prior, current, curv, alpha)`` — q_{t|t-1}, q_{t,i-1}, (g, G), α — and returns q_{t,i}. bong and bog start at the
prior and ignore ``current``. Their LIN-HESS versions are the same lines with g = HᵀR⁻¹(y−ŷ) and G = −HᵀR⁻¹H put in for (g, G).
"""

from __future__ import annotations

from ..curvature import Curv, diagonal
from ..linalg import Array
from ..paper import eq
from ..states import Diag

# --- the gradients ---------------------------------------------------------------------------------------------------------


def ell_moments(q: Diag, curv: Curv) -> tuple[Array, Array]:
    """∇_μ and ∇_σ² of E_q[log p]: the theorems of Bonnet and Price."""
    d_mu = curv.g  # eq:diag-NLL-mu
    d_var = diagonal(curv) / 2  # eq:diag-NLL-Sigma, sec:derivations#12
    return d_mu, d_var


def kl_moments(q: Diag, prior: Diag) -> tuple[Array, Array]:
    """∇_μ and ∇_σ² of D(q | prior)."""
    d_mu = (q.mu - prior.mu) / prior.var  # eq:diag-KL-mu
    d_var = (1 / prior.var - 1 / q.var) / 2  # eq:diag-KL-Sigma
    return d_mu, d_var


# --- the Fisher ----------------------------------------------------------------------------------------------------------------


@eq("sec:diag-Mom#5", "sec:diag-Mom#10")
def fisher(q: Diag) -> tuple[Array, Array]:
    """The diagonals of the two non-zero blocks of the Fisher matrix of (μ, σ²): (σ⁻², ½σ⁻⁴)."""
    F_mu = 1 / q.var  # sec:diag-Mom#7
    F_var = 1 / q.var**2 / 2  # sec:diag-Mom#13
    return F_mu, F_var


def natural_gradient(q: Diag, d_mu: Array, d_var: Array) -> tuple[Array, Array]:
    """F⁻¹ applied to a gradient in (μ, σ²): (σ² ∇_μ, 2σ⁴ ∇_σ²)."""
    n_mu = q.var * d_mu  # eq:diag-mom-Fisher
    n_var = 2 * q.var**2 * d_var  # eq:diag-mom-Fisher
    return n_mu, n_var


# --- BONG ----------------------------------------------------------------------------------------------------------------------


def bong(prior: Diag, current: Diag | None, curv: Curv, alpha=1) -> Diag:
    """BONG-DIAG_MOM: one natural-gradient step on the expected log-likelihood, in (μ, σ²); O(P)."""
    mu = prior.mu + prior.var * curv.g  # eq:bong-diag-mom-mu, sec:diag-Mom#17
    var = prior.var + prior.var**2 * diagonal(curv)  # eq:bong-diag-mom-var, sec:diag-Mom#18
    return Diag(mu, var)


# --- BLR -----------------------------------------------------------------------------------------------------------------------


def blr(prior: Diag, current: Diag, curv: Curv, alpha) -> Diag:
    """BLR-DIAG_MOM: natural gradient on the variational loss, in (μ, σ²); O(P) per iteration."""
    v, v0 = current.var, prior.var
    mu = current.mu + alpha * v / v0 * (prior.mu - current.mu) + alpha * v * curv.g  # eq:blr-diag-mom-mu, sec:diag-Mom#21
    var = v + alpha * v**2 * (1 / v - 1 / v0) + alpha * v**2 * diagonal(curv)  # eq:blr-diag-mom-var, sec:diag-Mom#22
    return Diag(mu, var)


# --- BOG -----------------------------------------------------------------------------------------------------------------------


def bog(prior: Diag, current: Diag | None, curv: Curv, alpha) -> Diag:
    """BOG-DIAG_MOM: one plain gradient step on the expected log-likelihood, in (μ, σ²); O(P)."""
    mu = prior.mu + alpha * curv.g  # eq:bog-diag-mom-mu, sec:diag-Mom#25
    var = prior.var + alpha * diagonal(curv) / 2  # eq:bog-diag-mom-var, sec:diag-Mom#26
    return Diag(mu, var)


# --- BBB -----------------------------------------------------------------------------------------------------------------------


def bbb(prior: Diag, current: Diag, curv: Curv, alpha) -> Diag:
    """BBB-DIAG_MOM: plain gradient on the variational loss, in (μ, σ²); O(P) per iteration."""
    v, v0 = current.var, prior.var
    mu = current.mu + alpha * (prior.mu - current.mu) / v0 + alpha * curv.g  # eq:bbb-diag-mom-mu, sec:diag-Mom#29
    var = v + alpha * (1 / v - 1 / v0) / 2 + alpha * diagonal(curv) / 2  # eq:bbb-diag-mom-var, sec:diag-Mom#30
    return Diag(mu, var)

r"""FC-nat (sec:FC-Nat): full covariance Gaussian in its natural parameters ψ = (Σ⁻¹μ, −½Σ⁻¹), dual ρ = (μ, μμᵀ + Σ).

The section's order: the parameters, the KL divergence and its gradients, the chain rule to ρ and to ψ, and from these the four
quantities that all updates are made of. Then bong, blr, bog, bbb: first in ψ as the section substitutes (``*_psi``), then
translated to (μ, Σ), which is what a step returns; then the efficient forms.

A step takes ``(prior, current, curv, alpha)`` — q_{t|t-1}, q_{t,i-1}, (g, G), α — and returns q_{t,i}. bong and bog start at the
prior and ignore ``current``. Their LIN-HESS versions are the same lines with g = HᵀR⁻¹(y−ŷ) and G = −HᵀR⁻¹H put in for (g, G).

ψ⁽²⁾ is a symmetric matrix, so a gradient with respect to it is a symmetric matrix: where the section prints the gradient over all
matrices, 2Σgμᵀ, the code takes the symmetric part (erratum bog-FC-symmetry).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..curvature import Curv, Lin, dense
from ..linalg import Array, eigvals, eye, inv, solve, sqrt, sym
from ..paper import eq
from ..states import FC

# --- the parameters ------------------------------------------------------------------------------------------------------


@eq("sec:FC-Nat#1", "sec:FC-Nat#2")
def natural(q: FC) -> tuple[Array, Array]:
    """ψ = (Σ⁻¹μ, −½Σ⁻¹)."""
    prec = inv(q.Sigma)
    psi1 = prec @ q.mu  # sec:FC-Nat#1
    psi2 = -prec / 2  # sec:FC-Nat#2
    return psi1, psi2


@eq("sec:FC-Nat#1", "sec:FC-Nat#2")
def dual(q: FC) -> tuple[Array, Array]:
    """ρ = (μ, μμᵀ + Σ)."""
    return q.mu, np.outer(q.mu, q.mu) + q.Sigma


@eq("sec:FC-Nat#3", "sec:FC-Nat#4")
def from_natural(psi1: Array, psi2: Array) -> FC:
    """(μ, Σ) = (−½ψ⁽²⁾⁻¹ψ⁽¹⁾, −½ψ⁽²⁾⁻¹)."""
    Sigma = -inv(psi2) / 2  # sec:FC-Nat#4
    mu = Sigma @ psi1  # sec:FC-Nat#3
    return FC(mu, Sigma)


@eq("sec:FC-Nat#3", "sec:FC-Nat#4")
def from_dual(rho1: Array, rho2: Array) -> FC:
    """(μ, Σ) = (ρ⁽¹⁾, ρ⁽²⁾ − ρ⁽¹⁾ρ⁽¹⁾ᵀ)."""
    return FC(rho1, rho2 - np.outer(rho1, rho1))


# --- the KL divergence and its gradients ------------------------------------------------------------------------------------


@eq("sec:FC-Nat#5")
def kl(q: FC, prior: FC) -> float:
    """D(q | prior), with the constant that the section leaves out, so that kl(q, q) = 0."""
    prec, d = inv(prior.Sigma), q.mu - prior.mu
    logdet = np.linalg.slogdet(q.Sigma)[1] - np.linalg.slogdet(prior.Sigma)[1]
    return float(d @ prec @ d + np.trace(prec @ q.Sigma) - logdet - len(d)) / 2  # sec:FC-Nat#5


@eq("sec:FC-Nat#6", "sec:FC-Nat#7")
def kl_moments(q: FC, prior: FC) -> tuple[Array, Array]:
    """Gradients of the KL with respect to μ and Σ."""
    prec = inv(prior.Sigma)
    d_mu = prec @ (q.mu - prior.mu)  # sec:FC-Nat#6
    d_Sigma = (prec - inv(q.Sigma)) / 2  # sec:FC-Nat#7
    return d_mu, d_Sigma


# --- the chain rule, and the four quantities ------------------------------------------------------------------------------


@eq("sec:FC-Nat#8", "sec:FC-Nat#9", "sec:FC-Nat#10", "sec:FC-Nat#11")
def to_rho(q: FC, d_mu: Array, d_Sigma: Array) -> tuple[Array, Array]:
    """∇_ρ ℓ from ∇_μ ℓ and ∇_Σ ℓ, for any scalar ℓ."""
    d_rho1 = d_mu - 2 * d_Sigma @ q.mu  # sec:FC-Nat#9
    d_rho2 = d_Sigma  # sec:FC-Nat#11
    return d_rho1, d_rho2


@eq("sec:FC-Nat#16", "sec:FC-Nat#17", "sec:FC-Nat#18", "sec:FC-Nat#19", "sec:FC-Nat#20", "sec:FC-Nat#21")
def to_psi(q: FC, d_mu: Array, d_Sigma: Array) -> tuple[Array, Array]:
    """∇_ψ ℓ from ∇_μ ℓ and ∇_Σ ℓ, for any scalar ℓ; the second one in symmetric matrices."""
    d_psi1 = q.Sigma @ d_mu  # sec:FC-Nat#18
    d_psi2 = sym(2 * np.outer(q.Sigma @ d_mu, q.mu)) + 2 * q.Sigma @ d_Sigma @ q.Sigma  # sec:FC-Nat#21
    return d_psi1, d_psi2


@eq("eq:FC-NLL-rho1", "eq:FC-NLL-rho2")
def ell_rho(q: FC, curv: Curv) -> tuple[Array, Array]:
    """∇_ρ E_q[log p]."""
    G = dense(curv)
    d_rho1 = curv.g - G @ q.mu  # eq:FC-NLL-rho1
    d_rho2 = G / 2  # eq:FC-NLL-rho2
    return d_rho1, d_rho2


@eq("eq:FC-KL-rho1", "eq:FC-KL-rho2")
def kl_rho(q: FC, prior: FC) -> tuple[Array, Array]:
    """∇_ρ D(q | prior)."""
    prec, prec0 = inv(q.Sigma), inv(prior.Sigma)
    d_rho1 = prec @ q.mu - prec0 @ prior.mu  # eq:FC-KL-rho1
    d_rho2 = (prec0 - prec) / 2  # eq:FC-KL-rho2
    return d_rho1, d_rho2


@eq("eq:FC-NLL-psi1", "eq:FC-NLL-psi2")
def ell_psi(q: FC, curv: Curv) -> tuple[Array, Array]:
    """∇_ψ E_q[log p]."""
    d_psi1 = q.Sigma @ curv.g  # eq:FC-NLL-psi1
    d_psi2 = 2 * sym(np.outer(q.Sigma @ curv.g, q.mu)) + q.Sigma @ dense(curv) @ q.Sigma  # eq:FC-NLL-psi2
    return d_psi1, d_psi2


@eq("eq:FC-KL-psi1", "eq:FC-KL-psi2")
def kl_psi(q: FC, prior: FC) -> tuple[Array, Array]:
    """∇_ψ D(q | prior)."""
    prec0 = inv(prior.Sigma)
    d_psi1 = q.Sigma @ prec0 @ (q.mu - prior.mu)  # eq:FC-KL-psi1
    d_psi2 = 2 * sym(np.outer(d_psi1, q.mu)) + q.Sigma @ (prec0 - inv(q.Sigma)) @ q.Sigma  # eq:FC-KL-psi2
    return d_psi1, d_psi2


# --- BONG ----------------------------------------------------------------------------------------------------------------------


@eq("sec:FC-Nat-bong#1", "sec:FC-Nat-bong#2")
def bong_psi(prior: FC, current: FC | None, curv: Curv, alpha=1) -> tuple[Array, Array]:
    """ψ_t = ψ_{t|t-1} + ∇_ρ E[log p]."""
    (psi1, psi2), (d1, d2) = natural(prior), ell_rho(prior, curv)
    psi1 = psi1 + d1  # sec:FC-Nat-bong#1
    psi2 = psi2 + d2  # sec:FC-Nat-bong#2
    return psi1, psi2


def bong(prior: FC, current: FC | None, curv: Curv, alpha=1) -> FC:
    """BONG-FC: one natural-gradient step on the expected log-likelihood; O(P³). LIN-HESS: CM-EKF."""
    Sigma = inv(inv(prior.Sigma) - dense(curv))  # eq:RVGA-explicit-cov, eq:bong-FC-prec, sec:lbong-fc#2
    mu = prior.mu + Sigma @ curv.g  # eq:RVGA-explicit-mean, eq:bong-FC-mean, sec:lbong-fc#1
    return FC(mu, Sigma)


def bong_woodbury(prior: FC, current: FC | None, curv: Curv, alpha=1) -> FC:
    """BONG-FC with G = −S Sᵀ by the Woodbury identity, for any g; O(K P² + K³)."""
    V = prior.Sigma @ curv.S
    K = solve(eye(V.shape[1]) + sym(curv.S.T @ V), V.T).T  # eq:bong-FC-K — with S = Ĝ/√M: the printed K times √M
    Sigma = sym(prior.Sigma - K @ V.T)  # eq:bong-FC-prec, sec:lbong-fc#2
    if curv.e is None:
        mu = prior.mu + prior.Sigma @ curv.g - K @ (V.T @ curv.g)  # eq:bong-FC-mean, sec:lbong-fc#1
    else:  # g = S e and Σ_t S = K: the gain times the residual, without a difference
        mu = prior.mu + K @ curv.e  # eq:bong-FC-mean, sec:lbong-fc#1
    return FC(mu, Sigma)


def bong_ef(prior: FC, current: FC | None, curv: Curv, alpha=1) -> FC:
    """BONG-EF-FC as printed, where g is the mean of the columns of Ĝ = √M S (MC-EF; M = 1: LIN-EF); O(M P² + M³)."""
    M = curv.S.shape[1]
    Ghat = sqrt(M) * curv.S
    K = solve(M * eye(M) + sym(Ghat.T @ prior.Sigma @ Ghat), Ghat.T @ prior.Sigma).T  # eq:bong-FC-K, eq:bong-lin-EF-FC-K
    mu = prior.mu + K @ np.ones(M, dtype=int)  # sec:FC-Nat-bong#5, sec:FC-Nat-bong#8
    Sigma = sym(prior.Sigma - K @ Ghat.T @ prior.Sigma)  # sec:FC-Nat-bong#6, sec:FC-Nat-bong#9
    return FC(mu, Sigma)


def bong_kalman(prior: FC, current: FC | None, curv: Lin, alpha=1) -> FC:
    """BONG-LIN-HESS-FC as a Kalman update, which needs (ŷ, H, R) in place of (g, S) and a non-singular R; O(C P² + C³)."""
    if np.linalg.matrix_rank(curv.R) < len(curv.R):
        raise np.linalg.LinAlgError("R is singular, as for a softmax, and so is R + H Sigma H^T: use bong_woodbury")
    K = solve(curv.R + sym(curv.H @ prior.Sigma @ curv.H.T), curv.H @ prior.Sigma).T  # sec:linearized#13, sec:lbong-fc#5
    mu = prior.mu + K @ curv.e  # sec:linearized#11, sec:lbong-fc#3
    Sigma = sym(prior.Sigma - K @ curv.H @ prior.Sigma)  # sec:linearized#12, sec:lbong-fc#4
    return FC(mu, Sigma)


# --- BLR -----------------------------------------------------------------------------------------------------------------------


@eq("sec:FC-Nat#26", "sec:FC-Nat#27")
def blr_psi(prior: FC, current: FC, curv: Curv, alpha) -> tuple[Array, Array]:
    """ψ_{t,i} = ψ_{t,i-1} + α ∇_ρ (E[log p] − KL)."""
    (psi1, psi2), (l1, l2), (k1, k2) = natural(current), ell_rho(current, curv), kl_rho(current, prior)
    psi1 = psi1 + alpha * (l1 - k1)  # sec:FC-Nat#26
    psi2 = psi2 + alpha * (l2 - k2)  # sec:FC-Nat#27
    return psi1, psi2


def blr(prior: FC, current: FC, curv: Curv, alpha) -> FC:
    """BLR-FC: natural gradient on the variational loss; O(P³)."""
    prec0 = inv(prior.Sigma)
    Sigma = inv((1 - alpha) * inv(current.Sigma) + alpha * prec0 - alpha * dense(curv))  # eq:BLR-FC-Nat-prec, sec:FC-Nat#31
    mu = current.mu + alpha * Sigma @ (prec0 @ (prior.mu - current.mu) + curv.g)  # eq:blr-FC-nat-mu, sec:FC-Nat#30
    return FC(mu, Sigma)


class Increment(NamedTuple):
    """q_{t,i} as a change of the prior: its mean, and U, d with Σ_{t,i}⁻¹ = Σ⁻¹ + U Diag(d) Uᵀ, Σ = Σ_{t|t-1}, V = ΣU."""

    mu: Array
    U: Array  # (P, iK)
    V: Array  # (P, iK)
    d: Array  # (iK,)


def start(prior: FC) -> Increment:
    """q_{t,0} = q_{t|t-1}."""
    none = np.zeros((len(prior.mu), 0))
    return Increment(prior.mu, none, none, np.zeros(0))


def blr_increment(prior: FC, current: Increment, curv: Curv, alpha) -> Increment:
    """BLR-FC with G = −S Sᵀ without an inversion: O(K P² + iK P) in the i-th iteration, where the paper sees O(P³).

    The inner loop starts at the prior, and each iteration adds the K columns of S with weight α to those beside the prior's precision,
    whose weights fall by 1 − α. Woodbury does the rest, with Σ_{t,i} Σ⁻¹ = I − V D (I + UᵀV D)⁻¹ Uᵀ.
    """
    U, V = np.concatenate([current.U, curv.S], axis=1), np.concatenate([current.V, prior.Sigma @ curv.S], axis=1)
    d = np.concatenate([(1 - alpha) * current.d, np.full(curv.S.shape[1], alpha)])  # eq:BLR-FC-Nat-prec, sec:FC-Nat#31
    delta, M = prior.mu - current.mu, sym(U.T @ V)
    if curv.e is None:
        back = d * solve(eye(len(d)) + M * d, U.T @ delta + V.T @ curv.g)
        mu = current.mu + alpha * (delta + prior.Sigma @ curv.g - V @ back)  # eq:blr-FC-nat-mu, sec:FC-Nat#30
    else:  # g = S e = U (0, e), and Σ_{t,i} U = V (I + D UᵀV)⁻¹
        forth = np.concatenate([np.zeros(len(d) - len(curv.e)), curv.e]) - d * (U.T @ delta)
        mu = current.mu + alpha * (delta + V @ solve(eye(len(d)) + d[:, None] * M, forth))  # eq:blr-FC-nat-mu, sec:FC-Nat#30
    return Increment(mu, U, V, d)


def is_valid_increment(q: Increment) -> bool:
    """Σ⁻¹ + U D Uᵀ is positive definite if no weight is negative, or else if every eigenvalue of D UᵀV is greater than −1."""
    finite = all(np.all(np.isfinite(a)) for a in q)
    return bool(finite and (np.all(q.d >= 0) or np.min(eigvals(q.d[:, None] * (q.U.T @ q.V)).real) > -1))


def finish(prior: FC, current: Increment) -> FC:
    """The state of an increment: Σ_{t,i} = Σ − V D (I + UᵀV D)⁻¹ Vᵀ."""
    mu, U, V, d = current
    Sigma = sym(prior.Sigma - V @ (d[:, None] * solve(eye(len(d)) + sym(U.T @ V) * d, V.T)))  # eq:BLR-FC-Nat-prec, sec:FC-Nat#31
    return FC(mu, Sigma)


# --- BOG -----------------------------------------------------------------------------------------------------------------------


@eq("sec:FC-Nat#32", "sec:FC-Nat#33")
def bog_psi(prior: FC, current: FC | None, curv: Curv, alpha) -> tuple[Array, Array]:
    """ψ_t = ψ_{t|t-1} + α ∇_ψ E[log p]."""
    (psi1, psi2), (d1, d2) = natural(prior), ell_psi(prior, curv)
    psi1 = psi1 + alpha * d1  # sec:FC-Nat#32
    psi2 = psi2 + alpha * d2  # sec:FC-Nat#33
    return psi1, psi2


def bog(prior: FC, current: FC | None, curv: Curv, alpha) -> FC:
    """BOG-FC: one plain gradient step on the expected log-likelihood, in ψ; O(P³)."""
    prec, Sg = inv(prior.Sigma), prior.Sigma @ curv.g
    SGS = prior.Sigma @ dense(curv) @ prior.Sigma
    Sigma = inv(prec - 4 * alpha * sym(np.outer(Sg, prior.mu)) - 2 * alpha * sym(SGS))  # eq:bog-FC-nat-prec, sec:FC-Nat#37
    mu = Sigma @ (prec @ prior.mu) + alpha * Sigma @ Sg  # eq:bog-FC-nat-mu, sec:FC-Nat#36
    return FC(mu, Sigma)


def bog_woodbury(prior: FC, current: FC | None, curv: Curv, alpha) -> FC:
    """BOG-FC with G = −S Sᵀ: O(K P² + K³), where the paper sees O(P³).

    The precision changes by −2α(vμᵀ + μvᵀ) + 2αVVᵀ with v = Σg, V = ΣS: a matrix of rank K + 2, U C Uᵀ with U = [v, μ, V]. Woodbury
    gives Σ_t, and Σ_t Σ_{t|t-1}⁻¹ μ needs no inverse either. C is indefinite, which costs digits where Σ is ill-conditioned, so
    that this form runs only when it is asked for, ``form="efficient"``.
    """
    S, n = prior.Sigma, curv.S.shape[1] + 2
    U = np.concatenate([(S @ curv.g)[:, None], prior.mu[:, None], S @ curv.S], axis=1)
    C_inv = np.diag(np.array([0, 0] + [1] * (n - 2), dtype=int)) / (2 * alpha)
    C_inv[0, 1] = C_inv[1, 0] = -1 / (2 * alpha)
    V = S @ U
    M = C_inv + sym(U.T @ V)
    Sigma = sym(S - V @ solve(M, V.T))  # eq:bog-FC-nat-prec, sec:FC-Nat#37
    mu = prior.mu - V @ solve(M, U.T @ prior.mu) + alpha * Sigma @ U[:, 0]  # eq:bog-FC-nat-mu, sec:FC-Nat#36
    return FC(mu, Sigma)


# --- BBB -----------------------------------------------------------------------------------------------------------------------


@eq("sec:FC-Nat#38", "sec:FC-Nat#39")
def bbb_psi(prior: FC, current: FC, curv: Curv, alpha) -> tuple[Array, Array]:
    """ψ_{t,i} = ψ_{t,i-1} + α ∇_ψ (E[log p] − KL)."""
    (psi1, psi2), (l1, l2), (k1, k2) = natural(current), ell_psi(current, curv), kl_psi(current, prior)
    psi1 = psi1 + alpha * (l1 - k1)  # sec:FC-Nat#38
    psi2 = psi2 + alpha * (l2 - k2)  # sec:FC-Nat#39
    return psi1, psi2


def bbb(prior: FC, current: FC, curv: Curv, alpha) -> FC:
    """BBB-FC: plain gradient on the variational loss, in ψ; O(P³)."""
    prec0, prec, S = inv(prior.Sigma), inv(current.Sigma), current.Sigma
    r = S @ (curv.g + prec0 @ (prior.mu - current.mu))
    inner = sym(S @ (dense(curv) - prec0) @ S)
    Sigma = inv(prec - 2 * alpha * (2 * sym(np.outer(r, current.mu)) + S + inner))  # eq:bbb-FC-nat-prec, sec:FC-Nat#43
    mu = Sigma @ (prec @ current.mu) + alpha * Sigma @ r  # eq:bbb-FC-nat-mu, sec:FC-Nat#42
    return FC(mu, Sigma)

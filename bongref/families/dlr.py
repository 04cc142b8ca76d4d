r"""DLR (sec:DLR-deriv): Gaussian with diagonal plus low-rank precision Σ⁻¹ = Υ + W Wᵀ, ψ = (μ, Υ, W), W of shape (P, R).

The section's order: the gradients of E[log p] and of the KL in (μ, Υ, W); the SVD projection, which stands in for the Fisher that
cannot be inverted efficiently; then bong, blr, bog, bbb as displayed, with (P, P) inverses; then the efficient forms by Woodbury,
which never form a (P, P) array: linear in P.

A step takes ``(prior, current, curv, alpha)`` — q_{t|t-1}, q_{t,i-1}, (g, G), α — and returns q_{t,i}. bong and bog start at the
prior and ignore ``current``. Their LIN-HESS versions are the same lines with g = HᵀR⁻¹(y−ŷ) and G = −HᵀR⁻¹H put in for (g, G):
S = HᵀAᵀ with AᵀA = R⁻¹, which the estimator delivers.

bong and blr need G = −S Sᵀ: the updated precision must be Υ̃ + W̃ W̃ᵀ to be projected, which MC-HESS does not give ("This approach
works for EF-MC and EF-LIN methods but not MC-HESS, which we omit").
W = 0 is a fixed point of bog and bbb. Singular vectors have free signs and rotations: compare W Wᵀ and Υ, never W.
"""

from __future__ import annotations

import numpy as np

from ..curvature import Curv, dense, factor
from ..linalg import Array, eye, gram, inv, rowdot, solve, sqrt, svd, woodbury_fit, woodbury_solve
from ..paper import eq
from ..states import DLR

# --- the parameters ------------------------------------------------------------------------------------------------------


@eq("eq:DLR-prior")
def precision(q: DLR) -> Array:
    """Υ + W Wᵀ as a (P, P) matrix."""
    return np.diag(q.Ups) + q.W @ q.W.T


def covariance(q: DLR) -> Array:
    """(Υ + W Wᵀ)⁻¹ as a (P, P) matrix."""
    return inv(precision(q))


# --- the gradients ---------------------------------------------------------------------------------------------------------


def kl_moments(q: DLR, prior: DLR) -> tuple[Array, Array]:
    """∇_μ and ∇_Σ of D(q | prior)."""
    d_mu = precision(prior) @ (q.mu - prior.mu)  # eq:DLR-KL-mu
    d_Sigma = (precision(prior) - precision(q)) / 2  # eq:DLR-KL-Sigma
    return d_mu, d_Sigma


def to_Ups_W(q: DLR, d_Sigma: Array) -> tuple[Array, Array]:
    """∇_Υ ℓ and ∇_W ℓ from ∇_Σ ℓ, for any scalar ℓ."""
    SdS = covariance(q) @ d_Sigma @ covariance(q)
    d_Ups = -np.diag(SdS)  # sec:DLR-deriv#4
    d_W = -2 * SdS @ q.W  # sec:DLR-deriv#5
    return d_Ups, d_W


def ell_psi(q: DLR, curv: Curv) -> tuple[Array, Array, Array]:
    """∇_μ, ∇_Υ and ∇_W of E_q[log p]."""
    SGS = covariance(q) @ dense(curv) @ covariance(q)
    d_mu = curv.g  # eq:DLR-NLL-mu
    d_Ups = -np.diag(SGS) / 2  # eq:DLR-NLL-Ups
    d_W = -SGS @ q.W  # eq:DLR-NLL-W
    return d_mu, d_Ups, d_W


def kl_psi(q: DLR, prior: DLR) -> tuple[Array, Array, Array]:
    """∇_μ, ∇_Υ and ∇_W of D(q | prior)."""
    SDS = covariance(q) @ (precision(prior) - precision(q)) @ covariance(q)
    d_mu = precision(prior) @ (q.mu - prior.mu)  # eq:DLR-KL-mu
    d_Ups = -np.diag(SDS) / 2  # eq:DLR-KL-Ups
    d_W = -SDS @ q.W  # eq:DLR-KL-W
    return d_mu, d_Ups, d_W


# --- the SVD projection ------------------------------------------------------------------------------------------------------


@eq("sec:DLR-deriv#11")
def project(Ups_tilde: Array, W_tilde: Array, rank: int) -> tuple[Array, Array]:
    """Υ̃ + W̃W̃ᵀ to rank R: W from the top R singular pairs of W̃, Υ so that the diagonal is kept; O((R+K)² P).

    Υ gains the squares of the singular columns that W loses. That is diag(W̃W̃ᵀ − WWᵀ) without the printed subtraction, which
    cancels: it cannot give a Υ more accurate than eps · diag(W̃W̃ᵀ) (see :func:`project_printed`).
    """
    _, V = svd(W_tilde)  # sec:DLR-deriv#12, eq:bong-dlr-svd, sec:DLR-deriv#27, eq:blr-dlr-svd, sec:LBLR-DLR#4
    U_Lambda = W_tilde @ V
    lost = U_Lambda[:, rank:]
    W = U_Lambda[:, :rank]  # sec:DLR-deriv#13, eq:bong-dlr-W, sec:DLR-deriv#25, eq:blr-dlr-W, sec:LBLR-DLR#2
    Ups = Ups_tilde + rowdot(lost, lost)  # sec:DLR-deriv#14, eq:bong-dlr-Ups, sec:DLR-deriv#26, eq:blr-dlr-Ups, sec:LBLR-DLR#3
    return Ups, W


def project_printed(Ups_tilde: Array, W_tilde: Array, rank: int) -> tuple[Array, Array]:
    """The projection with Υ by the subtraction that the paper prints, which cancels. For comparison only."""
    W = W_tilde @ svd(W_tilde)[1][:, :rank]
    return Ups_tilde + rowdot(W_tilde, W_tilde) - rowdot(W, W), W


# --- BONG ----------------------------------------------------------------------------------------------------------------------


@eq("sec:DLR-deriv#16", "sec:DLR-deriv#29")
def _bong_tilde(prior: DLR, curv: Curv) -> tuple[Array, Array]:
    """Υ̃ and W̃ of the new precision, before the projection."""
    Ups_tilde = prior.Ups  # sec:DLR-deriv#17
    W_tilde = np.concatenate([prior.W, factor(curv)], axis=1)  # eq:bong-dlr-Wtilde, sec:DLR-deriv#28
    return Ups_tilde, W_tilde


def bong(prior: DLR, current: DLR | None, curv: Curv, alpha=1) -> DLR:
    """BONG-DLR: the FC update of the precision, projected to rank R; O(P³) as displayed. LIN-HESS: LO-FI."""
    Sigma_tilde = inv(precision(prior) - dense(curv))  # sec:DLR-deriv#15
    mu = prior.mu + Sigma_tilde @ curv.g  # sec:DLR-deriv#19, sec:DLR-deriv#24
    return DLR(mu, *project(*_bong_tilde(prior, curv), prior.W.shape[1]))


def bong_woodbury(prior: DLR, current: DLR | None, curv: Curv, alpha=1) -> DLR:
    """BONG-DLR with the mean by the Woodbury identity; O((R+K)² P + (R+K)³)."""
    Ups_tilde, W_tilde = _bong_tilde(prior, curv)
    if curv.e is None or not np.all(Ups_tilde > 0):
        mu = prior.mu + woodbury_solve(Ups_tilde, W_tilde, curv.g[:, None])[:, 0]  # eq:bong-dlr-mu, sec:DLR-deriv#24
    else:  # g = S e = W̃ (0, e): no difference of large numbers
        c = np.concatenate([np.zeros(prior.W.shape[1]), curv.e])
        mu = prior.mu + woodbury_fit(Ups_tilde, W_tilde, 0 * prior.mu, c)  # eq:bong-dlr-mu, sec:DLR-deriv#24
    return DLR(mu, *project(Ups_tilde, W_tilde, prior.W.shape[1]))


# --- BLR -----------------------------------------------------------------------------------------------------------------------


@eq("sec:BLR-DLR#2", "sec:LBLR-DLR#6")
def _blr_tilde(prior: DLR, current: DLR, curv: Curv, alpha) -> tuple[Array, Array]:
    """Υ̃ and W̃ of the new precision, before the projection."""
    Ups_tilde = (1 - alpha) * current.Ups + alpha * prior.Ups  # eq:blr-dlr-UpsTilde, sec:LBLR-DLR#7
    blocks = [sqrt(1 - alpha) * current.W, sqrt(alpha) * prior.W, sqrt(alpha) * factor(curv)]
    W_tilde = np.concatenate(blocks, axis=1)  # eq:blr-dlr-Wtilde, sec:LBLR-DLR#5
    return Ups_tilde, W_tilde


def _pull(prior: DLR, current: DLR, curv: Curv) -> Array:
    """(Υ + W Wᵀ)(μ_{t|t-1} − μ_{t,i-1}) + g with the prior's Υ and W."""
    delta = prior.mu - current.mu
    return prior.Ups * delta + prior.W @ (prior.W.T @ delta) + curv.g


def blr(prior: DLR, current: DLR, curv: Curv, alpha) -> DLR:
    """BLR-DLR: the FC update of the precision, projected to rank R; 0 < α ≤ 1; O(P³) per iteration as displayed."""
    prec = (1 - alpha) * precision(current) + alpha * precision(prior) - alpha * dense(curv)  # sec:BLR-DLR#1
    mu = current.mu + alpha * inv(prec) @ _pull(prior, current, curv)  # sec:BLR-DLR#5, sec:LBLR-DLR#1
    return DLR(mu, *project(*_blr_tilde(prior, current, curv, alpha), prior.W.shape[1]))


def blr_woodbury(prior: DLR, current: DLR, curv: Curv, alpha) -> DLR:
    """BLR-DLR with the mean by the Woodbury identity; O((2R+K)² P + (2R+K)³) per iteration."""
    Ups_tilde, W_tilde = _blr_tilde(prior, current, curv, alpha)
    if curv.e is None or not np.all(Ups_tilde > 0):
        step = woodbury_solve(Ups_tilde, W_tilde, _pull(prior, current, curv)[:, None])[:, 0]
    else:  # α((Υ + W Wᵀ)δ + S e) = αΥδ + W̃ (0, √α Wᵀδ, √α e) with the prior's Υ and W
        delta, R = prior.mu - current.mu, prior.W.shape[1]
        c = np.concatenate([np.zeros(R), prior.W.T @ delta, curv.e]) / sqrt(alpha)
        step = woodbury_fit(Ups_tilde, W_tilde, prior.Ups * delta, c)
    mu = current.mu + alpha * step  # eq:blr-dlr-mu, sec:LBLR-DLR#1
    return DLR(mu, *project(Ups_tilde, W_tilde, prior.W.shape[1]))


# --- BOG -----------------------------------------------------------------------------------------------------------------------


def bog(prior: DLR, current: DLR | None, curv: Curv, alpha) -> DLR:
    """BOG-DLR: one plain gradient step on the expected log-likelihood, in (μ, Υ, W); O(P³) as displayed."""
    Sigma = covariance(prior)
    SGS = Sigma @ dense(curv) @ Sigma
    mu = prior.mu + alpha * curv.g  # eq:bog-dlr-mu, sec:DLR-deriv#36
    Ups = prior.Ups - alpha * np.diag(SGS) / 2  # sec:DLR-deriv#31, sec:DLR-deriv#37
    W = prior.W - alpha * SGS @ prior.W  # sec:DLR-deriv#32, sec:DLR-deriv#38
    return DLR(mu, Ups, W)


def bog_woodbury(prior: DLR, current: DLR | None, curv: Curv, alpha) -> DLR:
    """BOG-DLR with G = −S Sᵀ and Woodbury: B = ΣS; O(R(R+K) P)."""
    B = woodbury_solve(prior.Ups, prior.W, curv.S)  # eq:bog-dlr-B, sec:DLR-deriv#39
    mu = prior.mu + alpha * curv.g  # eq:bog-dlr-mu, sec:DLR-deriv#36
    Ups = prior.Ups + alpha * rowdot(B, B) / 2  # eq:bog-dlr-Ups, sec:DLR-deriv#37
    W = prior.W + alpha * B @ gram(B, prior.W)  # eq:bog-dlr-W, sec:DLR-deriv#38
    return DLR(mu, Ups, W)


# --- BBB -----------------------------------------------------------------------------------------------------------------------


def bbb(prior: DLR, current: DLR, curv: Curv, alpha) -> DLR:
    """BBB-DLR: plain gradient on the variational loss, in (μ, Υ, W); O(P³) per iteration as displayed."""
    Sigma = covariance(current)
    SDS = Sigma @ (precision(prior) - precision(current) - dense(curv)) @ Sigma
    mu = current.mu + alpha * precision(prior) @ (prior.mu - current.mu) + alpha * curv.g  # eq:bbb-dlr-mu, sec:DLR-deriv#40
    Ups = current.Ups + alpha * np.diag(SDS) / 2  # eq:bbb-dlr-Ups, sec:DLR-deriv#41
    W = current.W + alpha * SDS @ current.W  # eq:bbb-dlr-W, sec:DLR-deriv#42
    return DLR(mu, Ups, W)


def bbb_woodbury(prior: DLR, current: DLR, curv: Curv, alpha) -> DLR:
    """BBB-DLR with G = −S Sᵀ, every term by Woodbury as a product Σ·(tall matrix); O(R(R+K) P) per iteration."""
    diag_G, G_W = _sandwich_lowrank(current, curv.S)
    return _bbb_from_terms(prior, current, curv, alpha, diag_G, G_W)


def bbb_expanded(prior: DLR, current: DLR, curv: Curv, alpha) -> DLR:
    """BBB-DLR with the terms in G = −S Sᵀ expanded as the paper prints them; O(R(R+K) P) per iteration."""
    W, US = current.W, curv.S / current.Ups[:, None]
    UW = W / current.Ups[:, None]
    B = UW @ solve(eye(W.shape[1]) + gram(W, UW), gram(W, US))  # eq:bbb-dlr-B
    diag_G = rowdot(US, US) - rowdot(US, B) - rowdot(B, US) + rowdot(B, B)  # eq:bbb-dlr-diagSigGSig
    USW, BW = gram(US, W), gram(B, W)
    G_W = US @ USW - US @ BW - B @ USW + B @ BW  # eq:bbb-dlr-SigGSigW
    return _bbb_from_terms(prior, current, curv, alpha, diag_G, G_W)


def _bbb_from_terms(prior: DLR, current: DLR, curv: Curv, alpha, diag_G: Array, G_W: Array) -> DLR:
    """The update from diag(−ΣGΣ) and −ΣGΣW, with the KL terms Σ(Υ₀ − Υ + W₀W₀ᵀ − WWᵀ)Σ expanded in the same way."""
    diag_D, D_W = _sandwich_diagonal(current, prior.Ups - current.Ups)
    diag_0, O_W = _sandwich_lowrank(current, prior.W)
    diag_i, I_W = _sandwich_lowrank(current, current.W)
    mu = current.mu + alpha * _pull(prior, current, curv)  # eq:bbb-dlr-mu, sec:DLR-deriv#40
    Ups = current.Ups + alpha * (diag_D + diag_0 - diag_i + diag_G) / 2  # eq:bbb-dlr-Ups, sec:DLR-deriv#41
    W = current.W + alpha * (D_W + O_W - I_W + G_W)  # eq:bbb-dlr-W, sec:DLR-deriv#42
    return DLR(mu, Ups, W)


@eq("eq:bbb-dlr-Woodbury")
def _sandwich_lowrank(q: DLR, X: Array) -> tuple[Array, Array]:
    """diag(ΣXXᵀΣ) and ΣXXᵀΣW."""
    SX = woodbury_solve(q.Ups, q.W, X)
    return rowdot(SX, SX), SX @ gram(SX, q.W)


def _sandwich_diagonal(q: DLR, a: Array) -> tuple[Array, Array]:
    """diag(Σ Diag(a) Σ) and Σ Diag(a) Σ W, with Σ = Υ⁻¹ − Q (Υ⁻¹W)ᵀ."""
    UW = q.W / q.Ups[:, None]
    Q = solve(eye(q.W.shape[1]) + gram(q.W, UW), UW.T).T
    diag = a / q.Ups**2 - 2 * a / q.Ups * rowdot(Q, UW) + rowdot(Q @ gram(UW, a[:, None] * UW), Q)
    SW = woodbury_solve(q.Ups, q.W, q.W)
    return diag, woodbury_solve(q.Ups, q.W, a[:, None] * SW)

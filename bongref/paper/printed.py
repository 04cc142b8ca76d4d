"""The equations as the paper prints them, where that gives other numbers than what is meant.

For comparison only. Each function has the signature of the corrected one, which its docstring names
with the erratum: an implementation that agrees with a function of this module has taken over that
slip. No update uses them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from autograd import grad

from ..curvature import Curv, Lin, dense
from ..families import dlr, fc_nat
from ..gaussians import covariance
from ..grid import Method
from ..linalg import Array, cholesky, finite, inv, solve
from ..routes import definition
from ..states import DLR, FC, Diag, State

#: DLR-cancellation: Υ by a subtraction that cancels, for :func:`bongref.dlr.project`
project = dlr.project_printed


# --- the rules ------------------------------------------------------------------------------------


def blr_rule(m: Method, prior: State, current: State, curv: Curv) -> State:
    """blr-rule: ψ + α F ∇(·) for ψ + α F⁻¹ ∇(·), for :func:`bongref.definition.step`."""
    family = definition.FAMILIES[m.family](current)
    objective = definition.objective(family, prior, curv, current.mu, with_kl=True)
    F = definition.fisher(family, current.mu, covariance(current))
    state: State = family.state(family.psi + m.params["alpha"] * F @ grad(objective)(family.psi))
    return state


# --- the estimators -------------------------------------------------------------------------------


def lin_hess(lin: Lin, jitter: float = 0.0) -> tuple[Array, Array]:
    """gL-softmax: (HᵀR⁻¹e, −HᵀR⁻¹H), for (g, G) of :func:`bongref.curvature.lin_hess`.

    R is singular for a softmax. With ``jitter`` it is R + jitter·I that is inverted, as other code
    does: another G.
    """
    R = lin.R + jitter * np.eye(len(lin.R))
    if np.linalg.matrix_rank(R) < len(R):
        raise np.linalg.LinAlgError("R is singular")
    return lin.H.T @ solve(R, lin.e), -lin.H.T @ solve(R, lin.H)


def lin_hess_with_f_the_mean(lin: Lin) -> tuple[Array, Array]:
    """f-is-natural: (Fᵀe, −FᵀRF) with F = ∂mean/∂θ, for :func:`bongref.curvature.lin_hess`."""
    return lin.H.T @ lin.e, -lin.H.T @ lin.R @ lin.H


def lin_hess_factor(lin: Lin) -> Array:
    """chol: HᵀAᵀ, A the lower factor of R⁻¹, for S of :func:`bongref.curvature.lin_hess`."""
    S: Array = lin.H.T @ cholesky(inv(lin.R)).T
    return S


def mc_ef_outer(Ghat: Array) -> Array:
    """outer-product: ĜĜᵀ as it stands, for G = −ĜĜᵀ/M of :func:`bongref.curvature.mc_ef`."""
    G: Array = Ghat @ Ghat.T
    return G


def diag_product(A: Array, B: Array, M: int) -> Array:
    """diag-trick: Σ_{j=1}^M A_ij B_ji with M samples, for diag(AB)."""
    diagonal: Array = np.sum(A[:, :M] * B[:M].T, axis=1)
    return diagonal


# --- FC, natural ----------------------------------------------------------------------------------


def bog_fc(prior: FC, current: FC | None, curv: Curv, alpha: float) -> FC:
    """bog-FC-symmetry: 4αΣgμᵀ as it stands, for :func:`bongref.fc_nat.bog`; Σ is unsymmetric."""
    prec, Sg = inv(prior.Sigma), prior.Sigma @ curv.g
    new = (
        prec
        - 4 * alpha * np.outer(Sg, prior.mu)
        - 2 * alpha * prior.Sigma @ dense(curv) @ prior.Sigma
    )
    Sigma = finite(solve(new, np.eye(len(new))))  # not symmetric
    return FC(Sigma @ (prec @ prior.mu + alpha * Sg), Sigma)


def bbb_fc(prior: FC, current: FC, curv: Curv, alpha: float) -> FC:
    """bog-FC-symmetry: eq:bbb-FC-nat-prec, for :func:`bongref.fc_nat.bbb`; Σ is unsymmetric."""
    prec0, prec, S, mu = inv(prior.Sigma), inv(current.Sigma), current.Sigma, current.mu
    inner = (
        2 * np.outer(prec0 @ (prior.mu - mu), mu)
        + np.eye(len(mu))
        + 2 * np.outer(curv.g, mu)
        + (dense(curv) - prec0) @ S
    )
    Sigma = finite(solve(prec - 2 * alpha * S @ inner, np.eye(len(S))))
    return FC(Sigma @ (prec @ mu + alpha * S @ (curv.g + prec0 @ (prior.mu - mu))), Sigma)


def bbb_fc_psi(prior: FC, current: FC, curv: Curv, alpha: float) -> tuple[Array, Array]:
    """bbb-FC-psi2-G: ψ⁽²⁾ with αΣ_{t|t-1}GΣ_{t|t-1}, for :func:`bongref.fc_nat.bbb_psi`.

    Symmetrised, so that this slip is the only one.
    """
    psi1, psi2 = fc_nat.bbb_psi(prior, current, curv, alpha)
    G = dense(curv)
    return psi1, psi2 + alpha * (prior.Sigma @ G @ prior.Sigma - current.Sigma @ G @ current.Sigma)


# --- the diagonal family --------------------------------------------------------------------------


def diag_dual(q: Diag) -> tuple[Array, Array]:
    """diag-dual: ρ⁽²⁾ = μμᵀ + σ², a matrix plus a vector, for :func:`bongref.diag_nat.dual`."""
    return q.mu, np.outer(q.mu, q.mu) + q.var


def diag_kl(q: Diag, prior: Diag) -> Array:
    """diag-KL-sum: the first term without its sum, a vector, for :func:`bongref.diag_nat.kl`."""
    ratio = q.var / prior.var
    return (q.mu - prior.mu) ** 2 / prior.var / 2 + np.sum(ratio - np.log(ratio) - 1) / 2


# --- DLR ------------------------------------------------------------------------------------------


def bbb_dlr(prior: DLR, current: DLR, curv: Curv, alpha: float, first: Curv) -> DLR:
    """bbb-dlr-g: the mean with g_t of the first iteration, for :func:`bongref.dlr.bbb`."""
    return dlr.bbb(prior, current, curv, alpha)._replace(
        mu=dlr.bbb(prior, current, first, alpha).mu
    )


def slang_lin_ef(
    model: Any, lik: Any, current: DLR, x: Any, y: Any, alpha: float, lam: float
) -> DLR:
    """slang-lin-ef-size: I_R with a W̃ of R + 1 columns, whose sizes do not fit.

    For :func:`bongref.theory.batch.slang_lin_ef`.
    """
    from ..curvature import lin_ef

    curv = lin_ef(model, lik, x, y, current.mu)
    W = np.concatenate([np.sqrt(1 - alpha) * current.W, np.sqrt(alpha) * curv.S], axis=1)
    Ups = (1 - alpha) * current.Ups + alpha * lam
    core = np.eye(current.W.shape[1]) + W.T @ (W / Ups[:, None])
    right = (curv.g - lam * current.mu) / Ups
    mu = current.mu + alpha * (right - W @ solve(core, W.T @ right) / Ups)
    return DLR(mu, *dlr.project(Ups, W, current.W.shape[1]))

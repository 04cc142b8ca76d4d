r"""The rules before any derivation: autograd of E_q[ℓ] − KL with respect to ψ, the Fisher from first principles, one step.

This route shares no formula with the family modules. Given (g, G) at q_{t,i-1} = N(μ₀, Σ₀), the log-likelihood is replaced by the
quadratic that has this expected gradient and Hessian there,

    ℓ(θ) = gᵀ(θ − μ₀) + ½ (θ − μ₀)ᵀ G (θ − μ₀),      E_q[ℓ] = gᵀ(μ − μ₀) + ½ (μ − μ₀)ᵀ G (μ − μ₀) + ½ Tr(G Σ),

whose expectation under N(μ, Σ) is exact. Autograd differentiates it, and the KL divergence, through the map ψ → (μ, Σ) of the family.
The Fisher is −∇²_ψ E_{q₀}[log q_ψ] at ψ₀. The rules are then eq:bong, eq:blr, eq:bog, eq:bbb, word for word:

    NGD  ψ ← ψ + α F⁻¹ ∇_ψ(·)      GD  ψ ← ψ + α ∇_ψ(·)      (·) = E_q[ℓ], minus the KL for blr and bbb.

Symmetric matrices are coordinates in an orthonormal basis of the symmetric matrices (Frobenius), so that a gradient is a symmetric
matrix. bong and blr in DLR are by definition the step in FC natural parameters, projected (sec:DLR-deriv).

For full-covariance families the whole problem is first turned to the eigenvectors of Σ₀. An orthogonal change of θ, and with it of
ψ, changes none of the rules, and keeps the Fisher well scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from autograd import grad, jacobian
from autograd import numpy as anp

from ..curvature import Curv, dense
from ..gaussians import covariance
from ..grid import Method
from ..linalg import Array, cholesky, eigh, finite, inv, solve
from ..paper import eq
from ..states import DLR, FC, Diag, State


@eq("eq:bong", "eq:bong-MD", "eq:bong-MD2", "eq:bog", "eq:blr", "eq:blr-MD", "eq:bbb")
def step(m: Method, prior: State, current: State | None, curv: Curv) -> State:
    """One step of the method's rule from its definition."""
    start = prior if m.rule in ("bong", "bog") or current is None else current
    if m.family == "dlr" and m.rule in ("bong", "blr"):
        return _projected(m, prior, start, curv)
    family = FAMILIES[m.family](start)
    return family.state(_psi_step(m, family, prior, start, curv))


def _psi_step(m: Method, family: Any, prior: State, start: State, curv: Curv) -> Array:
    """ψ after one step from ``start``."""
    mu0, Sigma0 = start.mu, covariance(start)
    direction = grad(objective(family, prior, curv, mu0, with_kl=m.rule in ("blr", "bbb")))(family.psi)
    if m.rule in ("bong", "blr"):
        F = fisher(family, mu0, Sigma0)
        d = 1 / np.sqrt(np.diag(F))
        direction = d * finite(solve(d[:, None] * F * d, d * direction))
    return family.psi + m.params.get("alpha", 1.0) * direction


@eq("eq:online-variational-loss", "sec:variational#1")
def objective(family, prior: State, curv: Curv, mu0: Array, with_kl: bool):
    """ψ ↦ E_{q_ψ}[ℓ], minus D(q_ψ | prior) with ``with_kl``."""
    Q = family.turn
    g, G = Q.T @ curv.g, Q.T @ dense(curv) @ Q
    mu0, mu_p, Sigma_p = Q.T @ mu0, Q.T @ prior.mu, Q.T @ covariance(prior) @ Q
    prec_p = finite(inv(Sigma_p))

    def objective(psi):
        mu, Sigma = family.moments(psi)
        d, e = mu - mu0, mu - mu_p
        expected = anp.dot(g, d) + (anp.dot(d, anp.dot(G, d)) + anp.trace(anp.dot(G, Sigma))) / 2
        if not with_kl:
            return expected
        kl = (anp.dot(e, anp.dot(prec_p, e)) + anp.trace(anp.dot(prec_p, Sigma)) - anp.linalg.slogdet(Sigma)[1]) / 2
        return expected - kl

    return objective


@eq("sec:derivations#5")
def fisher(family, mu0: Array, Sigma0: Array) -> Array:
    """F_ψ = −∇²_ψ E_{q₀}[log q_ψ(θ)] at ψ₀, where the expectation of the quadratic log q_ψ under q₀ is exact."""
    Q = family.turn
    mu0, Sigma0 = Q.T @ mu0, Q.T @ Sigma0 @ Q

    def cross_entropy(psi):
        mu, Sigma = family.moments(psi)
        d = mu - mu0
        second = Sigma0 + anp.outer(d, d)
        return (anp.linalg.slogdet(Sigma)[1] + anp.trace(anp.linalg.solve(Sigma, second))) / 2

    F = jacobian(grad(cross_entropy))(family.psi)
    return (F + F.T) / 2


def _projected(m: Method, prior: Any, start: Any, curv: Curv) -> DLR:
    """The step in FC natural parameters, and the closest W of rank R to the part of its precision that is not Υ̃, the diagonal kept."""
    R, mix = prior.W.shape[1], m.params.get("alpha", 1.0)
    full, full_start = FC(prior.mu, covariance(prior)), FC(start.mu, covariance(start))
    family = _FCNatural(full_start)
    psi = _psi_step(m, family, full, full_start, curv)
    prec = -2 * family.turn @ family.matrix(psi) @ family.turn.T
    Ups = (1 - mix) * start.Ups + mix * prior.Ups
    lam, U = eigh(prec - np.diag(Ups))
    W = U[:, -R:] * np.sqrt(np.maximum(lam[-R:], 0))
    return DLR(family.state(psi).mu, np.diag(prec) - np.sum(W**2, axis=1), W)


# --- the estimators ------------------------------------------------------------------------------------------------------------


def curv(hess: str, model: Any, lik: Any, x: Any, y: Array, mu: Array, samples: Array | None = None) -> Curv:
    """(g, G) of an estimator from its definition, G dense: autograd of the log-likelihood, exact or with a linearised model.

    One observation; ``y`` encoded, as :meth:`encode` of the likelihood returns it.
    """
    if hess.startswith("lin"):
        g, G = linear_f_delta(model, lik, x, y, mu)
        return Curv(g, G=G) if hess == "lin-hess" else Curv(g, G=-np.outer(g, g))
    loglik = lambda theta: lik.log_prob(model(theta, x), y)
    gs = np.stack([grad(loglik)(theta) for theta in samples])  # type: ignore[union-attr]
    if hess == "mc-ef":
        return Curv(gs.mean(axis=0), G=-np.mean([np.outer(g, g) for g in gs], axis=0))
    return Curv(gs.mean(axis=0), G=np.mean([_hessian_by_parts(model, lik, x, y, theta) for theta in samples], axis=0))  # type: ignore[union-attr]


def _hessian_by_parts(model, lik, x, y, theta: Array) -> Array:
    """∇²_θ log p = Jᵀ (∂²log p/∂o²) J + Σ_c (∂log p/∂o_c) ∇²f_c, the second derivative of log p in o by autograd."""
    o, J = model(theta, x), model.jac(theta, x)
    score = grad(lambda o: lik.log_prob(o, y))(o)
    outer = jacobian(grad(lambda o: lik.log_prob(o, y)))(o)
    return J.T @ outer @ J + np.tensordot(score, jacobian(lambda t: jacobian(lambda s: model(s, x))(t))(theta), 1)


@eq("sec:linearized#8", "sec:proofs#17", "sec:proofs#18", "sec:proofs#19", "sec:proofs#21", "sec:proofs#22", "sec:proofs#23")
def linear_f_delta(model, lik, x, y, mu: Array) -> tuple[Array, Array]:
    """Gradient and Hessian at mu of log p̄^LD(y | θ), the likelihood with f linearised at mu."""
    o, J = model(mu, x), model.jac(mu, x)
    fbar = lambda theta: o + anp.dot(J, theta - mu)  # eq:fbar, eqn:jacF
    loglik = lambda theta: lik.log_prob(fbar(theta), y)
    return grad(loglik)(mu), jacobian(grad(loglik))(mu)


@eq("eq:gaussian-likelihood", "sec:proofs#10", "sec:proofs#11", "sec:proofs#12", "sec:proofs#13", "sec:EF#2")
def linear_h_gaussian(model, lik, x, y, mu: Array, Sigma: Array | None = None) -> tuple[Array, Array]:
    """Expected gradient and Hessian of log N(y | h̄(θ), R) under N(mu, Sigma), h linearised at mu. R must not be singular.

    The expectation is a mean over mu ± √P L e_k, Σ = L Lᵀ, which is exact for the polynomials of the first degree that these are;
    without ``Sigma`` their value at mu.
    """
    mean = lambda theta: lik.mean(model(theta, x))
    yhat, H = mean(mu), jacobian(mean)(mu)  # sec:linearized#3, eqn:jacH
    R = lik.var(model(mu, x))
    if np.linalg.matrix_rank(R) < len(R):
        raise np.linalg.LinAlgError("R is singular: the linear(h)-Gaussian approximation does not exist for this likelihood")

    def loglik(theta):
        e = y - (yhat + anp.dot(H, theta - mu))  # eq:hbar
        return -anp.dot(e, anp.linalg.solve(R, e)) / 2

    offsets = np.zeros((1, len(mu))) if Sigma is None else np.sqrt(len(mu)) * cholesky(Sigma).T
    thetas = [mu + sign * offset for offset in offsets for sign in (1, -1)]
    return np.mean([grad(loglik)(t) for t in thetas], axis=0), np.mean([jacobian(grad(loglik))(t) for t in thetas], axis=0)


# --- the parameter maps ψ → (μ, Σ) ---------------------------------------------------------------------------------------------


def _symmetric_basis(P: int) -> Array:
    """An orthonormal basis of the symmetric matrices, (P(P+1)/2, P, P)."""
    out = []
    for i in range(P):
        for j in range(i, P):
            E = np.zeros((P, P))
            E[i, j] = E[j, i] = 1.0 if i == j else np.sqrt(0.5)
            out.append(E)
    return np.stack(out)


class _FullCovariance:
    parameters: Any
    moments: Any

    def __init__(self, q: FC):
        self.P = len(q.mu)
        self.turn = eigh(q.Sigma)[1]
        self.basis = _symmetric_basis(self.P)
        mu, Sigma = self.turn.T @ q.mu, self.turn.T @ q.Sigma @ self.turn
        first, second = self.parameters(mu, (Sigma + Sigma.T) / 2)
        self.psi = np.concatenate([first, np.tensordot(self.basis, second, 2)])

    def matrix(self, psi):
        return anp.tensordot(psi[self.P :], self.basis, 1)

    def state(self, psi) -> FC:
        mu, Sigma = self.moments(psi)
        Sigma = self.turn @ Sigma @ self.turn.T
        return FC(self.turn @ mu, (Sigma + Sigma.T) / 2)


class _FCNatural(_FullCovariance):
    """ψ = (Σ⁻¹μ, −½Σ⁻¹)."""

    def parameters(self, mu, Sigma):
        prec = finite(inv(Sigma))
        return prec @ mu, -prec / 2

    def moments(self, psi):
        Sigma = anp.linalg.inv(-2 * self.matrix(psi))
        return anp.dot(Sigma, psi[: self.P]), Sigma


class _FCMoment(_FullCovariance):
    """ψ = (μ, Σ)."""

    def parameters(self, mu, Sigma):
        return mu, Sigma

    def moments(self, psi):
        return psi[: self.P], self.matrix(psi)


class _DiagMoment:
    """ψ = (μ, σ²)."""

    def __init__(self, q: Diag):
        self.P, self.turn = len(q.mu), np.eye(len(q.mu))
        self.psi = np.concatenate(self.parameters(q.mu, q.var))

    def parameters(self, mu, var):
        return mu, var

    def vectors(self, psi):
        return psi[: self.P], psi[self.P :]

    def moments(self, psi):
        mu, var = self.vectors(psi)
        return mu, anp.diag(var)

    def state(self, psi) -> Diag:
        return Diag(*self.vectors(psi))


class _DiagNatural(_DiagMoment):
    """ψ = (σ⁻²μ, −½σ⁻²)."""

    def parameters(self, mu, var):
        return mu / var, -0.5 / var

    def vectors(self, psi):
        var = -0.5 / psi[self.P :]
        return var * psi[: self.P], var


class _DLR:
    """ψ = (μ, Υ, W)."""

    def __init__(self, q: DLR):
        self.P, self.turn, self.shape = len(q.mu), np.eye(len(q.mu)), q.W.shape
        self.psi = np.concatenate([q.mu, q.Ups, q.W.ravel()])

    def parts(self, psi):
        return psi[: self.P], psi[self.P : 2 * self.P], psi[2 * self.P :].reshape(self.shape)

    def moments(self, psi):
        mu, Ups, W = self.parts(psi)
        return mu, anp.linalg.inv(anp.diag(Ups) + anp.dot(W, W.T))

    def state(self, psi) -> DLR:
        return DLR(*self.parts(psi))


FAMILIES: dict[str, Any] = {"fc": _FCNatural, "fc_mom": _FCMoment, "diag": _DiagNatural, "diag_mom": _DiagMoment, "dlr": _DLR}

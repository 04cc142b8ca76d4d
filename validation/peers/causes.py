"""Where other implementations differ from the equations: each cause as a small function of ours
that gives the peer's numbers.

A function here is the equation that its docstring names with one deliberate change. There are five
kinds, by what they replace:

=========  ==========================================  ==========================================================================
step       ``(prior, current, curv, alpha) -> state``  the rule in a family, as in the family modules
estimate   ``(model, lik, x, y, mu) -> Curv``          lin-hess or lin-ef at mu, as in ``bongref.curvature``
update     ``(prior, lin) -> FC``                      a whole update from the linearised observation: the Kalman form
observe    ``(model, lik, x, y, before, mu) -> Lin``   the linearisation, given the mean before the prediction and after it
move       ``(state, dynamics) -> state``              the prediction
=========  ==========================================  ==========================================================================

``explain.py`` runs them on the vectors' cases and compares with what a peer returned; ``beyond.py``
runs those that no vector can see. Where the peer has each is in ``findings.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from bongref import DLR, FC, Curv, Diag, step
from bongref.curvature import Lin, dense, diagonal, linearise
from bongref.dynamics import Dynamics, matrices

Array = np.ndarray
BOOST = 1e-9  # dynamax's diagonal_boost


# --- petergchang/bong: steps ----------------------------------------------------------------------


def bog_fc_unsymmetric(prior: FC, current: FC, curv: Curv, alpha: float) -> FC:
    """BOG in FC with 4αΣgμᵀ as eq:bog-FC-nat-prec prints it, not its symmetric part: the new Σ is
    not symmetric (erratum E36).
    """
    mu, Sigma = prior
    prec = np.linalg.inv(Sigma)
    new = np.linalg.inv(
        prec - 4 * alpha * np.outer(Sigma @ curv.g, mu) - 2 * alpha * Sigma @ dense(curv) @ Sigma
    )
    return FC(new @ (prec @ mu + alpha * Sigma @ curv.g), new)


def bbb_fc_unsymmetric(prior: FC, current: FC, curv: Curv, alpha: float) -> FC:
    """BBB in FC with the gradient over all matrices as printed, not its symmetric part; each
    iteration goes on from an unsymmetric Σ.
    """
    mu, Sigma = current
    prec, prec0 = np.linalg.inv(Sigma), np.linalg.inv(prior.Sigma)
    pull = curv.g + prec0 @ (prior.mu - mu)
    D = 2 * np.outer(pull, mu) + (dense(curv) - prec0) @ Sigma + np.eye(len(mu))
    new = np.linalg.inv(prec - 2 * alpha * Sigma @ D)
    return FC(new @ (prec @ mu) + alpha * new @ (Sigma @ pull), new)


def full_gain(prior: Diag, current: Diag, curv: Curv, alpha: float) -> Diag:
    """BONG-LIN-HESS-DIAG with the mean of the full filter, μ + (diag(1/σ²) − G)⁻¹ g, in place of
    σ²_t ∘ g: the VD-EKF (erratum E48).

    That is the Kalman gain σ²Hᵀ(R + Hσ²Hᵀ)⁻¹ times y − ŷ. Also "vdekf" of rebayes.
    """
    mean = prior.mu + np.linalg.solve(np.diag(1 / prior.var) - dense(curv), curv.g)
    return Diag(mean, 1 / (1 / prior.var - diagonal(curv)))


def blr_fc_mom_sign(prior: FC, current: FC, curv: Curv, alpha: float) -> FC:
    """BLR-LIN-HESS-FC_MOM with +HᵀR⁻¹H in place of G = −HᵀR⁻¹H: an observation widens Σ."""
    mu, Sigma = current
    prec0 = np.linalg.inv(prior.Sigma)
    new = Sigma + alpha * Sigma @ (-dense(curv) + np.linalg.inv(Sigma) - prec0) @ Sigma
    return FC(mu + alpha * Sigma @ (curv.g + prec0 @ (prior.mu - mu)), new)


def blr_diag_mom_sign(prior: Diag, current: Diag, curv: Curv, alpha: float) -> Diag:
    """BLR-LIN-HESS-DIAG_MOM with +diag(HᵀR⁻¹H) in place of diag(G) = −diag(HᵀR⁻¹H): an observation
    widens σ².
    """
    mu, var = current
    new = var + alpha * var * (-diagonal(curv) + 1 / var - 1 / prior.var) * var
    return Diag(mu + alpha * var * (curv.g + (prior.mu - mu) / prior.var), new)


def bog_diag_scalar(prior: Diag, current: Diag, curv: Curv, alpha: float) -> Diag:
    """BOG-LIN-HESS-DIAG with the scalar product (σ² ∘ μ)·g in place of the vector σ² ∘ μ ∘ g."""
    mu, var = prior
    prec = 1 / var - 4 * alpha * np.dot(var * mu, curv.g) - 2 * alpha * var**2 * diagonal(curv)
    return Diag((mu / var + alpha * var * curv.g) / prec, 1 / prec)


def bbb_dlr(
    prior: DLR, current: DLR, curv: Curv, alpha: float, *, cross: bool = True, sign: bool = True
) -> DLR:
    """BBB in DLR with two changes: W_{t,i-1}W_{t|t-1}ᵀ for W_{t|t-1}W_{t|t-1}ᵀ in the mean, and
    +ΣWWᵀΣW for −ΣWWᵀΣW in W.

    The first shows from the second iteration on, and only if the prior's W is not 0.
    """
    mu, Ups, W = current
    Sigma = np.linalg.inv(np.diag(Ups) + W @ W.T)
    without = np.diag(prior.Ups) + prior.W @ prior.W.T - np.diag(Ups) - dense(curv)
    delta = prior.mu - mu
    pull = prior.Ups * delta + (W if cross else prior.W) @ (prior.W.T @ delta)
    SDS = Sigma @ (without - W @ W.T) @ Sigma
    for_W = Sigma @ (without + (W @ W.T if sign else -W @ W.T)) @ Sigma
    return DLR(mu + alpha * (pull + curv.g), Ups + alpha * np.diag(SDS) / 2, W + alpha * for_W @ W)


def bbb_dlr_sign(prior: DLR, current: DLR, curv: Curv, alpha: float) -> DLR:
    """:func:`bbb_dlr` with the sign in W alone."""
    return bbb_dlr(prior, current, curv, alpha, cross=False)


def bbb_dlr_cross(prior: DLR, current: DLR, curv: Curv, alpha: float) -> DLR:
    """:func:`bbb_dlr` with the product in the mean alone."""
    return bbb_dlr(prior, current, curv, alpha, sign=False)


# --- what is given to a filter as mean and covariance of y ----------------------------------------


def softmax_jitter(eps: float, ef: bool = False) -> Callable[..., Curv]:
    """LIN-HESS (or LIN-EF) of a softmax with R + εI in place of R, H = RF as it is: bong has ε =
    1e-5, rebayes 1e-3.
    """

    def estimate(model, lik, x, y, mu: Array) -> Curv:
        lin = linearise(model, lik, x, y, mu)
        return _by_solving(lin._replace(R=lin.R + eps * np.eye(len(lin.R))), ef)

    return estimate


def sigmoid_clip(eps: float = 1e-5, ef: bool = False) -> Callable[..., Curv]:
    """LIN-HESS (or LIN-EF) of a Bernoulli with the probability clipped to [ε, 1 − ε] in ŷ, in R and
    in H.

    Where it is clipped its derivative is 0: the observation of a logit beyond ±11.5 has no effect,
    however wrong the prediction was.
    """

    def estimate(model, lik, x, y, mu: Array) -> Curv:
        p = lik.mean(model(mu, x)).reshape(-1)
        inside = (p > eps) & (p < 1 - eps)
        q = np.clip(p, eps, 1 - eps)
        S = (model.jac(mu, x).reshape(len(p), -1) * (inside * np.sqrt(q * (1 - q)))[:, None]).T
        g = S @ ((np.asarray(y).reshape(-1) - q) / np.sqrt(q * (1 - q)))
        return Curv(g, S=g[:, None] if ef else S)

    return estimate


def sigmoid_rounded(model, lik, x, y, before: Array, mu: Array) -> Lin:
    """A Bernoulli with H = p(1 − p)F from the rounded p, as a derivative of the sigmoid has it, and
    R = p(1 − p) from both tails.

    1 − p keeps no digit where p is 1 to rounding: H is then 0 or wrong in its leading digits, while
    R and y − p are right. Far out R and H underflow together.
    """
    lin = linearise(model, lik, x, y, mu)
    p = expit(model(mu, x).reshape(-1))
    return Lin(
        p,
        (p * (1 - p))[:, None] * model.jac(mu, x).reshape(len(p), -1),
        lin.R,
        np.asarray(y).reshape(-1) - p,
    )


def by_least_squares(lin: Lin, ef: bool = False) -> Curv:
    """g = HᵀR⁺e and G = −HᵀR⁺H (or −ggᵀ), R⁺ the pseudo-inverse: no observation where R is 0."""
    lam, Q = np.linalg.eigh(lin.R)
    keep = lam > len(lam) * np.finfo(float).eps * lam[-1]
    S = (lin.H.T @ Q[:, keep]) / np.sqrt(lam[keep])
    g = S @ (Q[:, keep].T @ lin.e / np.sqrt(lam[keep]))
    return Curv(g, S=g[:, None] if ef else S)


def _by_solving(lin: Lin, ef: bool = False) -> Curv:
    """g = HᵀR⁻¹e and G = −HᵀR⁻¹H (or −ggᵀ) by a Cholesky factor of R."""
    L = np.linalg.cholesky(lin.R)
    S = np.linalg.solve(L, lin.H).T
    g = S @ np.linalg.solve(L, lin.e)
    return Curv(g, S=g[:, None] if ef else S)


def singular_R(model, lik, x, y, mu: Array) -> Curv:
    """LIN-HESS by a Cholesky factor of a softmax covariance, which is singular: NaN."""
    if np.all(np.isfinite(mu)):  # not after the first iteration
        lam = np.linalg.eigvalsh(linearise(model, lik, x, y, mu).R)
        if lam[0] > 4 * len(lam) * np.finfo(float).eps * lam[-1]:
            raise ValueError("R is not singular")
    return Curv(np.full(len(mu), np.nan), S=np.full((len(mu), 1), np.nan))


# --- petergchang/bong: predictions and metrics ----------------------------------------------------


def fc_scalar_noise(state: FC, gamma: float, q: float) -> FC:
    """The prediction in FC with a number as the process noise added to every entry of γ²Σ, q11ᵀ, in
    place of qI.
    """
    return FC(gamma * state.mu, gamma**2 * state.Sigma + q)


def nlpd_mean_of_logs(log_probs: Array) -> float:
    """NLPD of a regression as the mean over inputs and samples of −log p, (S, N), in place of −log
    of the mean density.
    """
    return float(-np.mean(log_probs))


def nlpd_mean_logits(logits: Array, labels: Array) -> float:
    """NLPD of a classifier with the logits averaged over the samples, (S, N, C), before the
    softmax.

    So too for Lin-MC, whose logits are the linearised ones: their average is that of the logits at
    the average of the samples.
    """
    o = np.mean(logits, axis=0)
    top = o.max(axis=1, keepdims=True)
    log_p = o - top - np.log(np.sum(np.exp(o - top), axis=1, keepdims=True))
    return float(-np.mean(log_p[np.arange(len(labels)), labels]))


# --- probml/rebayes -------------------------------------------------------------------------------


def no_prediction(state: Any, dynamics: Dynamics) -> Any:
    """A stream without its predictions: the predicted state is overwritten with the one before it,
    so that the dynamics have no effect.
    """
    return state


# --- gerdm/rebayes-mini ---------------------------------------------------------------------------


def expfam(eps: float = 0.0) -> Callable[..., Curv]:
    """LIN-HESS with F, the Jacobian of the natural parameters, in the place of H = RF, that of the
    mean, and R + εI for R.

    g = Fᵀ(R + εI)⁻¹(y − ŷ), G = −Fᵀ(R + εI)⁻¹F. ε: 1e-4 Bernoulli and 0.1 multinomial in fc, 0 and
    0.1 in dlr.
    """

    def estimate(model, lik, x, y, mu: Array) -> Curv:
        lin = linearise(model, lik, x, y, mu)
        F = model.jac(mu, x).reshape(lin.H.shape)
        return _by_solving(lin._replace(R=lin.R + eps * np.eye(len(lin.R)), H=F))

    return estimate


def cov_at_y(model, lik, x, y, mu: Array) -> Curv:
    """LIN-HESS with R as a function of the observation y in place of the prediction ŷ: for a
    Bernoulli or a softmax it is then singular.
    """
    lin, y = linearise(model, lik, x, y, mu), np.asarray(y, dtype=float).reshape(-1)
    if lik.name != "poisson":
        return Curv(np.full(len(mu), np.nan), S=np.full((len(mu), 1), np.nan))
    with np.errstate(divide="ignore", invalid="ignore"):
        return Curv(lin.H.T @ (lin.e / y), S=lin.H.T / np.sqrt(y))


def transposed_root(model, lik, x, y, mu: Array) -> Curv:
    """LIN-HESS with LᵀL in place of R = LLᵀ, L lower: the same with one output or a diagonal R
    only.

    A softmax has its first C − 1 outputs.
    """
    lin = linearise(model, lik, x, y, mu)
    if lik.name == "categorical":
        keep = np.flatnonzero(np.arange(len(lin.e)) % model.n_outputs != model.n_outputs - 1)
        lin = Lin(lin.yhat[keep], lin.H[keep], lin.R[np.ix_(keep, keep)], lin.e[keep])
    L = np.linalg.cholesky(lin.R)
    return _by_solving(lin._replace(R=L.T @ L))


def early(model, lik, x, y, before: Array, mu: Array) -> Lin:
    """ŷ and H at the mean before the prediction, μ_{t-1}, in place of μ_{t|t-1}."""
    return linearise(model, lik, x, y, before)


def rvga(prior: FC, current: FC | None, curv: Curv, alpha: float = 1) -> FC:
    """R-VGA's explicit step (BONG-MC-HESS-FC) with the mean moved by the prior's Σ in place of the
    new one.
    """
    return FC(
        prior.mu + prior.Sigma @ curv.g, np.linalg.inv(np.linalg.inv(prior.Sigma) - dense(curv))
    )


def rvga_inner(prior: FC, curvs: list[Curv]) -> FC:
    """Its inner iterations: each starts from the result of the last one as its prior, so that the
    observation counts each time.
    """
    for curv in curvs:
        prior = rvga(prior, None, curv)
    return prior


def sample_covariance(Sigma: Array) -> Array:
    """The covariance LᵀL of samples Lᵀε, with Σ = LLᵀ: of ``ExtendedFilter.sample_params``."""
    L = np.linalg.cholesky(Sigma)
    return L.T @ L


def sample_covariance_dlr(Ups: Array, W: Array) -> Array:
    """The covariance of (I + LWᵀ)x + Lε, in place of (I − LWᵀ)x + Lε: of
    ``LowRankPrecisionFilter.sample_params``.
    """
    L = np.linalg.solve(np.eye(W.shape[1]) + W.T @ (W / Ups[:, None]), (W / Ups[:, None]).T).T
    A = np.eye(len(Ups)) + L @ W.T
    return A @ np.diag(1 / Ups) @ A.T + L @ L.T


# --- dynamax: 1e-9 on the diagonal of what it solves with -----------------------------------------


def jitter(prior: FC, lin: Lin, eps: float = BOOST) -> FC:
    """The Kalman update with the gain from S + εI, and S itself in Σ − K S Kᵀ. With ε = 0 it is
    BONG-LIN-HESS-FC.
    """
    P, H = prior.Sigma, lin.H
    S = H @ P @ H.T + lin.R
    K = np.linalg.solve(S + eps * np.eye(len(S)), H @ P).T
    return FC(prior.mu + K @ lin.e, P - K @ S @ K.T)


def jitter_woodbury(prior: FC, lin: Lin, eps: float = BOOST) -> FC:
    """The Kalman update with S⁻¹ by Woodbury for a diagonal R, ε added to its inner matrix I + Uᵀ
    R⁻¹ U, U = H chol(P).
    """
    P, H, r = prior.Sigma, lin.H, np.diag(lin.R)
    U = H @ np.linalg.cholesky(P)
    X = U / r[:, None]
    S_inv = np.diag(1 / r) - X @ np.linalg.solve((1 + eps) * np.eye(len(P)) + U.T @ X, X.T)
    K = P @ H.T @ S_inv
    return FC(prior.mu + K @ lin.e, P - K @ (H @ P @ H.T + lin.R) @ K.T)


def jitter_R(prior: FC, lin: Lin, eps: float = BOOST) -> FC:
    """The exact update with R + εI in place of R: the associative scan, from the second observation
    on.
    """
    return jitter(prior, lin._replace(R=lin.R + eps * np.eye(len(lin.R))), 0.0)


def jitter_information(prior: FC, lin: Lin, eps: float = BOOST) -> FC:
    """The update of precision and precision times mean; the mean from Λ + εI, the covariance from
    Λ.
    """
    prec = np.linalg.inv(prior.Sigma)
    eta = prec @ prior.mu + lin.H.T @ np.linalg.solve(lin.R, lin.e + lin.H @ prior.mu)
    prec = prec + lin.H.T @ np.linalg.solve(lin.R, lin.H)
    return FC(np.linalg.solve(prec + eps * np.eye(len(prec)), eta), np.linalg.inv(prec))


def jitter_information_predict(prior: FC, dynamics: Dynamics, eps: float = BOOST) -> FC:
    """The predict step in information form: ε in the gain, (Λ + FᵀQ⁻¹F + εI)⁻¹, and once more in
    the mean, (Λ' + εI)⁻¹ η'.
    """
    square = lambda a: np.diag(a) if np.ndim(a) == 1 else np.asarray(a)
    F, b, Q = matrices(dynamics, len(prior.mu))
    F, Q_prec, I = square(F), np.linalg.inv(square(Q)), np.eye(len(prior.mu))
    prec = np.linalg.inv(prior.Sigma)
    K = np.linalg.solve(prec + F.T @ Q_prec @ F + eps * I, F.T @ Q_prec).T
    ahead = (I - K @ F.T) @ Q_prec @ (I - K @ F.T).T + K @ prec @ K.T
    eta = K @ (prec @ prior.mu) + ahead @ b
    return FC(np.linalg.solve(ahead + eps * I, eta), np.linalg.inv(ahead))


# --- posteriors -----------------------------------------------------------------------------------


def fisher_subtracted(prior: FC, current: FC, curv: Curv, alpha: float = 1.0) -> FC:
    """The dense EKF with the empirical Fisher taken away from the precision: Λ0 − α g gᵀ, where it
    is to be added.
    """
    Sigma = np.linalg.inv(np.linalg.inv(prior.Sigma) - alpha * np.outer(curv.g, curv.g))
    return FC(prior.mu + alpha * Sigma @ curv.g, Sigma)


def vi_diag_step(prior: Diag, samples: Array, grads: Array, rate: float) -> Diag:
    """One gradient step in (μ, log σ) from the prior, through θ = μ + σ ε, without the score term:
    what ``vi.diag`` does with plain SGD.

    At the prior the sampled KL term cancels, so that the mean moves by the mean gradient as in
    bbb-mc-*-diag_mom; σ moves in its logarithm.
    """
    return Diag(
        prior.mu + rate * grads.mean(axis=0),
        prior.var * np.exp(2 * rate * np.mean(grads * (samples - prior.mu), axis=0)),
    )


def vi_dense_mean(prior: FC, samples: Array, grads: Array, rate: float) -> Array:
    """The mean after one step of ``vi.dense`` from the prior: ∇log p(θ, y) alone, since the mean
    inside log q is not held fixed.

    With it held fixed (the estimator that sticks the landing) the term Σ⁻¹(θ − μ) of log q would
    cancel the prior's −Σ⁻¹(θ − μ).
    """
    return prior.mu + rate * np.mean(
        grads - np.linalg.solve(prior.Sigma, (samples - prior.mu).T).T, axis=0
    )


# --- filterpy -------------------------------------------------------------------------------------


def stale_jacobian(model, lik, x, y, before: Array, mu: Array) -> Lin:
    """ŷ at the predicted mean but H at the mean before the prediction."""
    return linearise(model, lik, x, y, mu)._replace(H=linearise(model, lik, x, y, before).H)


# --- river ----------------------------------------------------------------------------------------


def prior_precision_inverted(prior: FC, lin: Lin) -> FC:
    """Linear regression with the prior N(0, vI) taken as N(0, I/v): the precision starts at 1/α,
    with α = 1/v, in place of α.
    """
    return jitter(FC(prior.mu, np.linalg.inv(prior.Sigma)), lin, 0.0)


# --- GersonGuy/adaptive-deep-receiver-Torch -------------------------------------------------------


def kept_diagonal(prior: Diag, lin: Lin) -> Diag:
    """BONG-LIN-HESS-DIAG as the Kalman update of the full covariance diag(σ²), of which the
    diagonal is kept: diag((diag(1/σ²) − G)⁻¹) in place of the inverse of its diagonal.
    """
    full = jitter(FC(prior.mu, np.diag(prior.var)), lin, 0.0)
    return Diag(full.mu, np.diag(full.Sigma))


def precision_averaged(state: DLR, dynamics: Dynamics) -> DLR:
    """The OU prediction in DLR with Υ and W in the place of a covariance: γ²Υ + (1 − γ²)/var0, and
    γ²W.
    """
    gamma = getattr(dynamics, "gamma", 1.0)
    mu = gamma * state.mu + (1 - gamma) * np.asarray(getattr(dynamics, "mu0", 0.0))
    Ups = gamma**2 * state.Ups + (1 - gamma**2) / np.asarray(getattr(dynamics, "var0", 1.0))
    return DLR(mu, Ups, gamma**2 * state.W)


def dlr_jitter(prior: DLR, lin: Lin, eps: float = 1e-6) -> DLR:
    """BONG-LIN-HESS-DLR with ε added to Υ and to the inner matrix of Woodbury's form in the mean,
    and to the leading diagonal of W̃ before its singular value decomposition.
    """
    mu, Ups, W = prior
    A = np.linalg.inv(np.linalg.cholesky(lin.R)).T
    S = lin.H.T @ A
    Wt = np.hstack([W, S])
    inner = (1 + eps) * np.eye(Wt.shape[1]) + Wt.T @ (Wt / (Ups + eps)[:, None])
    over = Wt / (Ups + eps)[:, None]
    gain = S @ A.T / (Ups + eps)[:, None] - over @ np.linalg.solve(inner, over.T @ (S @ A.T))
    U, s, _ = np.linalg.svd(Wt + eps * np.eye(*Wt.shape), full_matrices=False)
    columns, rank = U * s, W.shape[1]
    return DLR(mu + gain @ lin.e, Ups + np.sum(columns[:, rank:] ** 2, axis=1), columns[:, :rank])


# --- TianyiMehdi/NANO-filter ----------------------------------------------------------------------


def nano(prior: FC, current: FC, curv: Curv, alpha: float = 1.0) -> FC:
    """BLR-MC-HESS-FC with the prior's precision in place of (1 − α) times the iterate's plus α
    times the prior's, and a mean that is pushed from the prior's, +αΣΣ0⁻¹(μ − μ0), not pulled to
    it.

    In the first iteration, where the iterate is the prior, it is the rule.
    """
    prec0 = np.linalg.inv(prior.Sigma)
    Sigma = np.linalg.inv(prec0 - alpha * dense(curv))
    push = prec0 @ (current.mu - prior.mu)
    return FC(current.mu + alpha * Sigma @ (curv.g + push), Sigma)


def nano_stein(prior: FC, lin: Lin, alpha: float = 0.1, kappa: float = 1.0) -> FC:
    """Its first iteration with ``derivate_type='stein'`` on a linear model: expectations over sigma
    points at √c, c = α²(P + κ), of θ − μ and (θ − μ)(θ − μ)ᵀ times the loss; the expected Hessian
    subtracted from the precision where it is to be added.
    """
    mu, Sigma = prior
    P = len(mu)
    c = alpha**2 * (P + kappa)
    rows = np.sqrt(c) * np.linalg.cholesky(Sigma).T
    points = np.vstack([np.zeros((1, P)), rows, -rows])
    weights = np.concatenate([[(c - P) / c], np.full(2 * P, 1 / (2 * c))])
    e = lin.e - points @ lin.H.T
    loss = np.sum(e * np.linalg.solve(lin.R, e.T).T, axis=1) / 2
    prec = np.linalg.inv(Sigma)
    second = np.einsum("n,ni,nj->ij", weights * loss, points, points)
    hessian = prec @ second @ prec - (weights @ loss) * prec
    new = np.linalg.inv(prec - hessian)
    return FC(mu - new @ prec @ ((weights * loss) @ points), new)


# --- gusakovy/adaptive-deep-receivers -------------------------------------------------------------


def counted_again(prior: FC, lin: Lin, times: int) -> FC:
    """BONG-LIN-HESS-FC of a linear model with the observation counted that many times."""
    return jitter(prior, lin._replace(R=lin.R / times), 0.0)


def from_before(m: Any, before: FC, moved: FC, curv: Callable[[Array], Curv]) -> FC:
    """BLR whose inner loop starts at the state before the prediction, in place of the predicted
    one, which is its prior.
    """
    current = before
    for _ in range(m.params["n_iter"]):
        current, _ = step(m, moved, current, curv(current.mu))
    return current


# --- ivon-opt -------------------------------------------------------------------------------------


def rescaled(rate: float, hess_init: float, weight_decay: float) -> float:
    """The step size of IVON times h0 + δ, as with ``rescale_lr=True``."""
    return rate * (hess_init + weight_decay)

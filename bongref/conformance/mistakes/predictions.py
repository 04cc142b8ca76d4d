"""Mistakes in the prediction of the next prior from F, b and Q."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...linalg import Array, cholesky, inv, sym
from ...states import DLR, FC, Diag, State
from ..pipeline import NotOfThisCase
from .combinators import (
    Predict,
    PredictChange,
    Transition,
    covariance,
    on_predicted,
    on_spread,
    on_transition,
    square,
    transition,
)
from .table import ALL, COV, FULL, LOW, MU, Mistake, row_of

predict = row_of("predict")
Number = Callable[[float], float]


def as_matrix(a: Array) -> Array:
    """A diagonal as a matrix."""
    return np.diag(a) if a.ndim == 1 else a


def Q_inside(F: Array, b: Array, Q: Array, dynamics: dict[str, Any]) -> Transition:
    """F Q Fᵀ in place of Q."""
    if F.ndim == Q.ndim == 1:
        return F, b, F**2 * Q
    F2, Q2 = as_matrix(F), as_matrix(Q)
    return F, b, F2 @ Q2 @ F2.T


def ou(F: Number, b: Number, Q: Number) -> PredictChange:
    """An OU process with F = F(γ) I, b = b(γ) mu0, Q = Q(γ) var0."""

    def change(F0: Array, b0: Array, Q0: Array, dynamics: dict[str, Any]) -> Transition:
        if dynamics["kind"] != "ou":
            raise NotOfThisCase("an OU process")
        gamma, ones = dynamics["gamma"], np.ones(len(b0))
        mu0, var0 = (np.asarray(dynamics[k], dtype=float) for k in ("mu0", "var0"))
        return np.full(len(b0), F(gamma)), b(gamma) * mu0 * ones, Q(gamma) * var0 * ones

    return on_transition(change)


def transposed(F: Array, b: Array, Q: Array, dynamics: dict[str, Any]) -> Transition:
    """Fᵀ in place of F."""
    return F.T, b, Q


def covariance_transposed(right: Predict) -> Predict:
    """Fᵀ Σ F + Q with the right mean."""
    wrong = on_transition(transposed)(right)
    return lambda state, dynamics: wrong(state, dynamics)._replace(mu=right(state, dynamics).mu)


def F_once(state: State, right: State, dynamics: dict[str, Any]) -> State:
    """F Σ + Q."""
    F, _, Q = transition(dynamics, len(state.mu))
    if isinstance(state, Diag):
        return Diag(right.mu, F * state.var + Q)
    if not isinstance(state, FC):
        raise NotOfThisCase("a full or diagonal covariance")
    return FC(right.mu, as_matrix(F) @ covariance(state) + as_matrix(Q))


def std_added(state: State, right: State, dynamics: dict[str, Any]) -> State:
    """(|F| σ + √Q)² in place of F² σ² + Q."""
    F, _, Q = transition(dynamics, len(state.mu))
    if not isinstance(state, Diag):
        raise NotOfThisCase("variances")
    return Diag(right.mu, (np.abs(F) * np.sqrt(state.var) + np.sqrt(Q)) ** 2)


def not_transposed(state: State, right: State, dynamics: dict[str, Any]) -> State:
    """F Σ F + Q."""
    F, _, Q = transition(dynamics, len(state.mu))
    if not isinstance(state, FC) or F.ndim == 1:
        raise NotOfThisCase("a full F and covariance")
    return FC(right.mu, F @ state.Sigma @ F + as_matrix(Q))


def on_dlr(change: Callable[[DLR, DLR, Array, Array], State]) -> PredictChange:
    """A DLR prediction with another result: ``change(state, result, F, Q)``."""

    def fn(state: State, right: State, dynamics: dict[str, Any]) -> State:
        F, _, Q = transition(dynamics, len(state.mu))
        if not isinstance(state, DLR) or not isinstance(right, DLR):
            raise NotOfThisCase("a DLR state")
        return change(state, right, F, Q)

    return on_predicted(fn)


# fmt: off
PREDICTIONS: tuple[Mistake, ...] = (
    predict("predict-nothing", "no prediction", ALL, on_predicted(lambda q, r, d: q)),
    predict("predict-no-Q", "no Q", COV, on_transition(lambda F, b, Q, d: (F, b, 0 * Q))),
    predict("predict-no-b", "no b (the mean moved towards 0)",
        MU, on_transition(lambda F, b, Q, d: (F, 0 * b, Q))),
    predict("predict-no-F", "no F", ALL, on_transition(lambda F, b, Q, d: (np.ones(len(b)), b, Q))),
    predict("predict-mean-kept", "a mean that is not moved",
        MU, on_predicted(lambda q, r, d: r._replace(mu=q.mu))),
    predict("predict-covariance-kept", "a covariance that is not moved",
        COV, on_predicted(lambda q, r, d: q._replace(mu=r.mu))),
    predict("predict-F-once", "F once in place of twice in the covariance (F Sigma + Q)",
        COV, on_predicted(F_once)),
    predict("predict-F-transposed", "F^T in place of F",
        ALL, on_transition(transposed)),
    predict("predict-F-transposed-covariance", "F^T Sigma F in place of F Sigma F^T",
        COV, covariance_transposed),
    predict("predict-F-F", "F Sigma F without the transpose",
        COV, on_predicted(not_transposed), FULL),
    predict("predict-F-F-symmetric", "F Sigma F without the transpose, made symmetric",
        COV, on_predicted(lambda q, r, d: on_spread(not_transposed(q, r, d), sym)), FULL),
    predict("predict-b-sign", "the sign of b", MU, on_transition(lambda F, b, Q, d: (F, -b, Q))),
    predict("predict-std-added", "standard deviations added in place of variances",
        COV, on_predicted(std_added)),
    predict("predict-Q-squared", "Q^2 in place of Q (Q read as a standard deviation)",
        COV, on_transition(lambda F, b, Q, d: (F, b, square(Q)))),
    predict("predict-Q-root", "sqrt(Q) in place of Q",
        COV, on_transition(lambda F, b, Q, d: (F, b, np.sqrt(Q)))),
    predict("predict-Q-doubled", "2 Q in place of Q",
        COV, on_transition(lambda F, b, Q, d: (F, b, 2 * Q))),
    predict("ou-no-drift", "Q = var0 without 1 - gamma^2",
        COV, ou(lambda c: c, lambda c: 1 - c, lambda c: 1)),
    predict("ou-Q-linear", "Q = (1 - gamma) var0 in place of (1 - gamma^2) var0",
        COV, ou(lambda c: c, lambda c: 1 - c, lambda c: 1 - c)),
    predict("ou-Q-square", "Q = (1 - gamma)^2 var0 in place of (1 - gamma^2) var0",
        COV, ou(lambda c: c, lambda c: 1 - c, lambda c: (1 - c) ** 2)),
    predict("ou-Q-gamma2", "Q = gamma^2 var0 in place of (1 - gamma^2) var0",
        COV, ou(lambda c: c, lambda c: 1 - c, lambda c: c**2)),
    predict("ou-b-full", "b = mu0 in place of (1 - gamma) mu0",
        MU, ou(lambda c: c, lambda c: 1, lambda c: 1 - c**2)),
    predict("ou-b-square", "b = (1 - gamma^2) mu0 in place of (1 - gamma) mu0",
        MU, ou(lambda c: c, lambda c: 1 - c**2, lambda c: 1 - c**2)),
    predict("ou-b-gamma", "b = gamma mu0 in place of (1 - gamma) mu0",
        MU, ou(lambda c: c, lambda c: c, lambda c: 1 - c**2)),
    predict("ou-gamma-drift", "gamma as the degree of drift: 1 - gamma in its place",
        ALL, ou(lambda c: 1 - c, lambda c: c, lambda c: 1 - (1 - c) ** 2)),
    predict("ou-swapped",
        "gamma and 1 - gamma exchanged in the mean and F: F = 1 - gamma, b = gamma mu0",
        ALL, ou(lambda c: 1 - c, lambda c: c, lambda c: 1 - c**2)),
    predict("predict-F-on-Q", "F (Sigma + Q) F^T in place of F Sigma F^T + Q",
        COV, on_transition(Q_inside)),
    predict("ou-gamma-square", "gamma^2 in place of gamma",
        ALL, ou(lambda c: c**2, lambda c: 1 - c**2, lambda c: 1 - c**4)),
    predict("ou-gamma-root", "sqrt(gamma) in place of gamma",
        ALL, ou(np.sqrt, lambda c: 1 - np.sqrt(c), lambda c: 1 - c)),
    predict("dlr-on-precision", "F and Q applied to the precision as if it were a covariance",
        COV, on_dlr(lambda q, r, F, Q: DLR(r.mu, F**2 * q.Ups + Q, F[:, None] * q.W)), LOW),
    predict("dlr-W-kept", "a W that is not moved",
        ("W W^T",), on_dlr(lambda q, r, F, Q: r._replace(W=q.W)), LOW),
    predict("dlr-W-over-F", "W over F, without Q",
        ("W W^T",), on_dlr(lambda q, r, F, Q: r._replace(W=q.W / F[:, None])), LOW),
    predict("dlr-W-no-core", "W without (I + W^T Q W)^-1/2",
        ("W W^T",),
        on_dlr(lambda q, r, F, Q: r._replace(W=q.W * (F / (F**2 + Q * q.Ups))[:, None])), LOW),
    predict("dlr-Ups-kept", "a Ups that is not moved",
        ("Ups",), on_dlr(lambda q, r, F, Q: r._replace(Ups=q.Ups)), LOW),
    predict("dlr-Ups-variance", "Ups moved as a variance (F^2 Ups + Q)",
        ("Ups",), on_dlr(lambda q, r, F, Q: r._replace(Ups=F**2 * q.Ups + Q)), LOW),
)
# fmt: on


# --- the prediction of DLR in another form, for its edits -----------------------------------------


def predict_dlr(q: Any, F: Array, b: Array, Q: Array) -> Any:
    """The prediction of DLR by Woodbury twice: Σ = D − V C⁻¹ Vᵀ, and its inverse."""
    D = F**2 / q.Ups + Q  # sec:pseudocode#4
    V = (F / q.Ups)[:, None] * q.W  # sec:pseudocode#4
    C = np.eye(q.W.shape[1]) + q.W.T @ (q.W / q.Ups[:, None])  # sec:pseudocode#4
    E = inv(C - V.T @ (V / D[:, None]))  # sec:pseudocode#4
    W = (V / D[:, None]) @ cholesky(E)  # sec:pseudocode#4
    return q._replace(mu=F * q.mu + b, Ups=1 / D, W=W)  # sec:pseudocode#3

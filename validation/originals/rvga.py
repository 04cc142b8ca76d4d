"""R-VGA of Lambert, Bonnabel and Bach (2021): the explicit and the implicit scheme, and the EKF."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from bongref.curvature import Lin
from bongref.states import FC
from bongref.theory import literature

from . import EPS, Row, checkout, commit, logistic_data, random_covariance, relative

folder = checkout("BONGREF_ORIGINAL_RVGA")
kalman = import_module("KalmanMachine.Kalman4LogisticReg")
if not hasattr(np, "asscalar"):  # taken out of NumPy; the implicit scheme calls it
    np.asscalar = lambda a: np.asarray(a).item()  # type: ignore[attr-defined]
version = commit(folder)
STEPS, CASES = 20, 30


def ekf(prior: FC, x: Any, y: float) -> FC:
    """Our EKF of conditional moments on a logistic regression."""
    p = 1 / (1 + np.exp(-x @ prior.mu))
    R = np.array([[p * (1 - p)]])
    return literature.cm_ekf(prior, Lin(np.array([p]), R @ x[None], R, np.array([y - p])))


def streams(cls: Any, step: Any) -> float:
    """The largest difference after STEPS observations, over CASES streams, mean and covariance."""
    worst = 0.0
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        P = int(rng.integers(1, 7))
        X, y = logistic_data(rng, STEPS, P)
        q = FC(rng.standard_normal(P), random_covariance(rng, P))
        theirs = cls(q.mu.copy(), q.Sigma.copy())
        for x, label in zip(X, y, strict=True):
            theirs.update(x, label)
            q = step(q, x, label)
        worst = max(worst, relative(theirs._theta, q.mu), relative(theirs._Cov, q.Sigma))
    return worst


def rows() -> list[Row]:
    """The three filters; the condition number of the prior is at most 25."""
    explicit = lambda q, x, y: literature.rvga(q, literature.logistic(x, y))
    implicit = lambda q, x, y: literature.rvga_implicit(q, literature.logistic(x, y))
    file = "KalmanMachine/Kalman4LogisticReg.py"
    bound = STEPS * 25 * EPS
    return [
        Row(
            "R-VGA, explicit scheme",
            f"RVGALogRegExplicite.update, {file}",
            "literature.rvga with literature.logistic",
            CASES,
            streams(kalman.RVGALogRegExplicite, explicit),
            bound,
        ),
        Row(
            "R-VGA, implicit scheme",
            f"RVGALogReg.update, {file}",
            "literature.rvga_implicit with literature.logistic",
            CASES,
            streams(kalman.RVGALogReg, implicit),
            STEPS * 1e-6,
            note="their root finder stops at 10⁻⁶, ours at 10⁻¹³ standard deviations",
        ),
        Row(
            "EKF of conditional moments",
            f"EKFLogReg.update, {file}",
            "literature.cm_ekf",
            CASES,
            streams(kalman.EKFLogReg, ekf),
            bound,
        ),
    ]

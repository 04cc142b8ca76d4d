"""L-RVGA of Lambert, Bonnabel and Bach (2023): the projection by EM, and the SVD of the paper."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import bongref as br
from bongref.families.dlr import project
from bongref.states import DLR, FC
from bongref.theory import literature

from . import EPS, Row, checkout, commit, relative

folder = checkout("BONGREF_ORIGINAL_LRVGA")
analysis = import_module("KalmanMachine.KFactorAnalysis")
version = commit(folder)
CASES, LOOPS, CONVERGED = 30, 10, 2000


def problem(seed: int) -> tuple[Any, Any, Any]:
    """Υ, W (P, R) of a prior, and new columns S (P, K)."""
    rng = np.random.default_rng(seed)
    P, R, K = int(rng.integers(6, 20)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    return (
        rng.uniform(0.5, 2.0, P),
        rng.standard_normal((P, R)),
        rng.standard_normal((P, K)),
    )


def kl(S: Any, Ups: Any, W: Any) -> float:
    """KL between the Gaussians whose PRECISIONS are S and Υ + WWᵀ, the projection first."""
    zero = np.zeros(len(Ups))
    return br.kl(br.DLR(zero, Ups, W), FC(zero, np.linalg.inv(S)))


def rows() -> list[Row]:
    """Their EM and ours; then how much nearer it is than the SVD."""
    worst, gains, converged = 0.0, [], []
    for seed in range(CASES):
        Ups, W, S = problem(seed)
        em = analysis.CovarianceFactorAnalysisEM(Ups[:, None], W, nbInnerLoop=LOOPS)
        psi, factor = em.fit(S)
        W_tilde = np.hstack([W, S])
        ours = DLR(np.zeros(len(Ups)), *literature.factor_analysis(Ups, W_tilde, W, LOOPS))
        worst = max(
            worst, relative(psi[:, 0], ours.Ups), relative(factor @ factor.T, ours.W @ ours.W.T)
        )
        full = np.diag(Ups) + W_tilde @ W_tilde.T
        svd = project(Ups, W_tilde, W.shape[1])
        gains.append(kl(full, *svd) / kl(full, ours.Ups, ours.W))
        best = literature.factor_analysis(Ups, W_tilde, svd[1], CONVERGED)
        converged.append(kl(full, *svd) / kl(full, *best))
    file = "KalmanMachine/KFactorAnalysis.py"
    text = "; ".join(
        f"{name}: median {np.median(g):.3g}, least {min(g):.3g}, largest {max(g):.3g}"
        for name, g in [(f"{LOOPS} iterations", gains), ("converged from the SVD", converged)]
    )
    return [
        Row(
            "projection to diagonal plus low rank by EM",
            f"CovarianceFactorAnalysisEM.fit, {file}",
            "literature.factor_analysis",
            CASES,
            worst,
            LOOPS * 64 * EPS,
        ),
        Row(
            "the same projection by the SVD",
            "the EM above",
            "families.dlr.project",
            CASES,
            min(converged) - 1,
            LOOPS * 64 * EPS,
            "other",
            f"KL(q | p) of the SVD's projection over that of EM's. {text}",
        ),
    ]

"""VD-EKF, FD-EKF (Chang, Murphy and Jones 2022) and LO-FI (Chang et al. 2023): probml/rebayes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from bongref.curvature import Lin
from bongref.states import DLR, Diag
from bongref.theory import literature

from . import EPS, Row, checkout, commit, relative

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError(f"rebayes needs jax: {error}") from error

jax.config.update("jax_enable_x64", True)
folder = checkout("BONGREF_PEER_REBAYES")
ekf = import_module("rebayes.extended_kalman_filter.ekf_core")
lofi = import_module("rebayes.low_rank_filter.lofi_core")
version = commit(folder)
STEPS, CASES, P, C, RANK = 8, 10, 7, 2, 3


def mean(theta: Any, x: Any) -> Any:
    """A small nonlinear model of C outputs."""
    return jnp.stack([jnp.tanh(theta[:3] @ x), jnp.sin(theta[3:6] @ x) + theta[6] * x[0]])


def noise(theta: Any, x: Any) -> Any:
    """A covariance that is not diagonal, so that a transposed factor shows."""
    return jnp.array([[0.5, 0.2], [0.2, 0.4]])


def linearised(mu: Any, x: Any, y: Any) -> Lin:
    """(ŷ, H, R, e) at the prior's mean."""
    yhat = np.asarray(mean(mu, x))
    H = np.asarray(jax.jacrev(mean)(jnp.asarray(mu), x))
    return Lin(yhat, H, np.asarray(noise(mu, x)), y - yhat)


def diagonal(theirs: Any, ours: Any, steps: int = STEPS) -> float:
    """The largest difference on streams of a diagonal filter."""
    worst = 0.0
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        q = Diag(rng.standard_normal(P), rng.uniform(0.2, 2.0, P))
        m, v = jnp.asarray(q.mu), jnp.asarray(q.var)
        for _ in range(steps):
            x, y = rng.standard_normal(3), rng.standard_normal(C)
            m, v = theirs(m, v, mean, noise, x, y, 1)
            q = ours(q, linearised(q.mu, x, y))
            worst = max(worst, relative(m, q.mu), relative(v, q.var))
    return worst


def low_rank(spherical: bool, predict: bool = False) -> float:
    """The largest difference on streams of LO-FI, with a prediction before each step or without."""
    worst, gamma, q0 = 0.0, 0.95, 0.3
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        Ups = np.full(P, 1.3) if spherical else rng.uniform(0.5, 2.0, P)
        q = DLR(rng.standard_normal(P), Ups, rng.standard_normal((P, RANK)))
        m, U, lam, D = (
            jnp.asarray(q.mu),
            jnp.asarray(q.W),
            jnp.ones(RANK),
            jnp.asarray(Ups)[:, None],
        )
        for _ in range(STEPS):
            x, y = rng.standard_normal(3), rng.standard_normal(C)
            if predict:
                _, m, U, lam, _, D = lofi._lofi_diagonal_cov_decay_dynamics_predict(
                    m, m, U, lam, gamma, q0, 1.0, D
                )
                q = literature.lofi_predict(q, gamma, (1 - gamma**2) * q0)
            if spherical:
                m, U, lam = lofi._lofi_spherical_cov_condition_on(
                    m, U, lam, float(D[0, 0]), mean, noise, x, y
                )
                q = literature.lofi_spherical(q, linearised(q.mu, x, y))
            else:
                m, U, lam, D = lofi._lofi_diagonal_cov_condition_on(m, U, lam, D, mean, noise, x, y)
                q = literature.lofi(q, linearised(q.mu, x, y))
            W = np.asarray(U * lam)
            worst = max(
                worst,
                relative(m, q.mu),
                relative(D[:, 0], q.Ups),
                relative(W @ W.T, q.W @ q.W.T),
            )
    return worst


def rows() -> list[Row]:
    """Filters on a small nonlinear model with two correlated outputs."""
    bound = STEPS * 64 * EPS
    squared = "they take singular values from W̃ᵀW̃, which squares the condition number"
    diag, core = (
        "rebayes/extended_kalman_filter/ekf_core.py",
        "rebayes/low_rank_filter/lofi_core.py",
    )
    vd, fd = ekf._variational_diagonal_ekf_condition_on, ekf._fully_decoupled_ekf_condition_on
    free = lambda *args: vd(*args, inverse_free=True)
    return [
        Row("VD-EKF", f"{vd.__name__}, {diag}", "literature.vd_ekf", CASES,
            diagonal(vd, literature.vd_ekf), bound),
        Row("VD-EKF, inverse_free", f"{vd.__name__} with inverse_free, {diag}",
            "literature.vd_ekf", CASES, diagonal(free, literature.vd_ekf, 1), bound, "other",
            "after one step; their inverse-free form is bong-lin-hess-diag_mom, "
            "not the projection"),
        Row("FD-EKF", f"{fd.__name__}, {diag}", "literature.fd_ekf", CASES,
            diagonal(fd, literature.fd_ekf), bound),
        Row("LO-FI, diagonal", f"_lofi_diagonal_cov_condition_on, {core}", "literature.lofi",
            CASES, low_rank(False), 1e2 * bound, note=squared),
        Row("LO-FI, spherical", f"_lofi_spherical_cov_condition_on, {core}",
            "literature.lofi_spherical", CASES, low_rank(True), 1e2 * bound, note=squared),
        Row("LO-FI with its prediction", f"_lofi_diagonal_cov_decay_dynamics_predict, {core}",
            "literature.lofi_predict", CASES, low_rank(False, predict=True), 1e2 * bound,
            note=squared),
    ]  # fmt: skip

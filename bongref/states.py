"""The three shapes of a Gaussian belief q(θ). Arrays are float64 with P = len(mu)."""

from __future__ import annotations

from typing import NamedTuple

from .linalg import Array


class FC(NamedTuple):
    """Full covariance: N(mu, Sigma)."""

    mu: Array  # (P,)
    Sigma: Array  # (P, P)


class Diag(NamedTuple):
    """Diagonal covariance: N(mu, Diag(var))."""

    mu: Array  # (P,)
    var: Array  # (P,): variances σ², not standard deviations


class DLR(NamedTuple):
    """Diagonal plus low-rank precision: N(mu, (Diag(Ups) + W Wᵀ)⁻¹)."""

    mu: Array  # (P,)
    Ups: Array  # (P,): the diagonal of Υ
    W: Array  # (P, R)


State = FC | Diag | DLR

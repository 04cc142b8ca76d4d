"""The random inputs of the cases: numbers that are short in binary, states, curvatures, settings.

Whole numbers over powers of 2 are exact in float64 and nearly all exact in float32, and
G = −S Sᵀ holds to the last bit.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from .. import models
from ..grid import STATES
from ..linalg import Array
from ..models import ParametricModel
from ..states import DLR, FC, Diag, State


def generator(case_id: str) -> np.random.Generator:
    """The generator of a case, seeded by its id."""
    return np.random.default_rng(zlib.crc32(case_id.encode()))


def dyadic(rng: np.random.Generator, shape: Any, low: int, high: int, bits: int) -> Array:
    """Whole numbers low … high over 2^bits."""
    out: Array = rng.integers(low, high + 1, size=shape) / 2.0**bits
    return out


def draw_state(
    rng: np.random.Generator, family: str, P: int, R: int = 2, size: int = 0, zero_W: bool = False
) -> State:
    """A well-conditioned state; its covariance shrinks by 4^−size."""
    mu = dyadic(rng, P, -8, 8, 3)
    if STATES[family] is FC:
        A = dyadic(rng, (P, P), -3, 3, 2)
        return FC(mu, (A @ A.T / 4 + np.eye(P)) / 4.0**size)
    if STATES[family] is Diag:
        return Diag(mu, dyadic(rng, P, 4, 16, 3) / 4.0**size)
    W = np.zeros((P, R)) if zero_W else dyadic(rng, (P, R), -4, 4, 2)
    return DLR(mu, dyadic(rng, P, 4, 16, 3) * 4.0**size, W * 2.0**size)


def isotropic(family: str, P: int, R: int, size: int = 0) -> State:
    """N(0, 4 · 4^−size I), a common first prior."""
    var = 4.0 ** (1 - size)
    if STATES[family] is FC:
        return FC(np.zeros(P), var * np.eye(P))
    if STATES[family] is Diag:
        return Diag(np.zeros(P), np.full(P, var))
    return DLR(np.zeros(P), np.full(P, 1 / var), np.zeros((P, R)))


def ill_conditioned(rng: np.random.Generator, family: str, P: int, R: int) -> State:
    """A prior whose variances span a factor of 2^20."""
    mu = dyadic(rng, P, -8, 8, 3)
    scales = 2.0 ** -np.linspace(0, 20, P).round()
    if STATES[family] is FC:
        L = np.tril(dyadic(rng, (P, P), -2, 2, 2), -1) + np.eye(P)
        return FC(mu, (L * scales) @ L.T)
    if STATES[family] is Diag:
        return Diag(mu, scales)
    return DLR(mu, 1 / scales, dyadic(rng, (P, R), -4, 4, 2))


def draw_curv(
    rng: np.random.Generator,
    hess: str,
    P: int,
    K: int,
    size: int = 0,
    zero: bool = False,
    convex: int = 0,
) -> dict[str, Array]:
    """g and G as an estimator gives them.

    mc-ef from K = 4 or 16 gradients; lin-hess with g in the range of S; lin-ef with S = g; mc-hess
    with mostly positive entries in the first ``convex`` rows of the diagonal of G.
    """
    if hess == "mc-hess":
        A = dyadic(rng, (P, P), -6, 6, 3) / 2.0**size
        g = np.zeros(P) if zero else dyadic(rng, P, -8, 8, 3) / 2.0**size
        signs = np.where(np.arange(P) < convex, 1, -1)
        G = (A + A.T) / 2 + np.diag(signs) / 2.0**size
        return {"g": g, "G": G, "d": np.diag(G).copy()}
    if hess == "mc-ef":
        Ghat = dyadic(rng, (P, K), -8, 8, 3) / 2.0**size
        if zero:
            Ghat[:, K // 2 :] = -Ghat[:, : K // 2]
        g, S = Ghat.sum(axis=1) / K, Ghat / np.sqrt(K)
    elif hess == "lin-hess":
        S = dyadic(rng, (P, K), -6, 6, 3) / 2.0**size
        g = S @ (np.zeros(K) if zero else dyadic(rng, K, -6, 6, 2))
    else:
        g = np.zeros(P) if zero else dyadic(rng, P, -8, 8, 3) / 2.0**size
        S = g[:, None].copy()
    return {"g": g, "S": S, "G": -(S @ S.T), "d": -(S * S).sum(axis=1)}


def as_dict(state: State) -> dict[str, Array]:
    """A state as plain arrays."""
    return {k: np.asarray(v) for k, v in state._asdict().items()}


# --- models, likelihoods, observations ------------------------------------------------------------

ZERO, SATURATED, BATCH = "zero-gradient", "saturated", "batch"


GAUSSIAN: dict[str, Any] = {"kind": "gaussian", "R": np.array([[0.25]])}
CORRELATED: dict[str, Any] = {"kind": "gaussian", "R": np.array([[0.5, 0.25], [0.25, 1.0]])}
BERNOULLI, CATEGORICAL, POISSON = (
    {"kind": kind} for kind in ("bernoulli", "categorical", "poisson")
)

# name -> model, likelihood, flags
SETTINGS: dict[str, tuple[ParametricModel, dict[str, Any], tuple[str, ...]]] = {
    "line": (models.linear(3), GAUSSIAN, ("C-one",)),
    "ridge": (models.linear(3), GAUSSIAN, ("C-one", "isotropic-prior")),
    "plane": (models.linear(2, 2, bias=True), CORRELATED, ("C-many", "correlated-R")),
    "curve": (models.mlp([1, 2, 2], "tanh"), CORRELATED, ("C-many", "correlated-R")),
    "bend": (models.mlp([1, 2, 1], "tanh"), GAUSSIAN, ("C-one",)),
    "logistic": (models.linear(2, 1, bias=True), BERNOULLI, ("C-one",)),
    "labels": (models.mlp([2, 2, 2], "gelu"), BERNOULLI, ("C-many",)),
    "softmax": (models.linear(2, 3), CATEGORICAL, ("C-many", "singular-R")),
    "classes": (models.mlp([2, 2, 3], "relu"), CATEGORICAL, ("C-many", "singular-R")),
    "counts": (models.mlp([2, 2, 1], "gelu_tanh"), POISSON, ("C-one",)),
    "rates": (models.linear(2, 2), POISSON, ("C-many",)),
    "image": (
        models.cnn((4, 4, 1), 2, (1,), (3, 3), 2, "relu"),
        CATEGORICAL,
        ("C-many", "singular-R", "convolution"),
    ),
}


def setting(name: str) -> tuple[ParametricModel, dict[str, Any], list[str]]:
    """Model, likelihood and flags of a setting."""
    model, lik, flags = SETTINGS[name]
    return model, lik, [lik["kind"], *flags]


def observe(
    rng: np.random.Generator,
    model: ParametricModel,
    lik: dict[str, Any],
    theta: Array,
    B: int | None = None,
) -> tuple[Array, Array]:
    """An input and an observation near the model's mean, or B of them."""
    C = model.n_outputs
    assert model.in_shape is not None and C is not None
    x = dyadic(rng, (B or 1, *model.in_shape), -8, 8, 3)
    y = np.zeros((B or 1, C))
    for i in range(len(x)):
        if lik["kind"] == "gaussian":
            y[i] = np.round(model(theta, x[i]) * 8) / 8 + dyadic(rng, C, -6, 6, 3)
        elif lik["kind"] == "categorical":
            y[i, rng.integers(C)] = 1
        else:
            y[i] = rng.integers(0, 2 if lik["kind"] == "bernoulli" else 4, size=C)
    return (x, y) if B is not None else (x[0], y[0])


def nonzero(rng: np.random.Generator, P: int) -> Array:
    """Parameters away from 0, so that no relu is at its kink."""
    theta: Array = dyadic(rng, P, 2, 8, 3) * rng.choice([-1, 1], size=P)
    return theta

"""IVON of Shen et al. (2024): the optimiser of the package ivon-opt."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import numpy as np
import torch

from bongref.states import Diag
from bongref.theory import batch

from . import EPS, Row, logistic_data, relative

try:
    from ivon import IVON
except ImportError as error:
    raise ImportError(f"ivon cannot be imported (pip install ivon-opt): {error}") from error

version = importlib.metadata.version("ivon-opt")
STEPS, CASES, N, P = 20, 20, 12, 5


def stream(seed: int, rescale: bool) -> float:
    """The difference after STEPS iterations at the draws that the original makes."""
    rng = np.random.default_rng(seed)
    X, y = logistic_data(rng, N, P)
    mu, lam = rng.standard_normal(P), float(rng.uniform(0.5, 2))
    h0 = float(np.float32(rng.uniform(0.2, 1.0)))  # they round hess_init to float32
    alpha, beta, momentum = 0.1, 0.2, 0.7
    theta = torch.nn.Parameter(torch.tensor(mu))
    theirs = IVON(
        [theta],
        lr=alpha,
        ess=N,
        hess_init=h0,
        beta1=momentum,
        beta2=1 - beta,
        weight_decay=lam / N,
        rescale_lr=rescale,
    )
    ours = batch.to_averaged(Diag(mu, np.full(P, 1 / (N * h0 + lam))), N, lam)
    torch.manual_seed(seed)
    worst = 0.0
    for _ in range(STEPS):
        with theirs.sampled_params(train=True):
            draw = theta.detach().numpy().copy()
            p = 1 / (1 + np.exp(-X @ draw))
            ghat = ((p - y)[:, None] * X).mean(axis=0)
            theta.grad = torch.tensor(ghat)
        theirs.step()
        ours = batch.ivon(ours, draw, ghat, alpha, beta, N, lam, momentum)
        group: Any = theirs.param_groups[0]
        worst = max(
            worst,
            relative(theta.detach().numpy(), ours.mu),
            relative(group["hess"].numpy() + lam / N, ours.s + lam / N),
        )
    return worst


def rows() -> list[Row]:
    """With their option ``rescale_lr`` off, as published; and on, as it is by default."""
    bound = STEPS * 64 * EPS
    return [
        Row(
            "IVON",
            "IVON.step of ivon-opt with rescale_lr=False",
            "batch.ivon",
            CASES,
            max(stream(seed, False) for seed in range(CASES)),
            bound,
        ),
        Row(
            "IVON with its default options",
            "IVON.step of ivon-opt",
            "batch.ivon",
            CASES,
            min(stream(seed, True) for seed in range(CASES)),
            bound,
            "other",
            "rescale_lr=True multiplies the step size by hess_init + weight_decay; the difference "
            "is the least over the streams",
        ),
    ]

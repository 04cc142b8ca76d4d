"""VOGN of Khan et al. (2018), and VON as the same optimiser with the Hessian: emtiyaz/vadam.

The checkout has no optimiser called VON; its VOGN takes the curvature from the caller, and with the
diagonal of the Hessian in place of the Gauss–Newton matrix its step is VON's.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import torch

from bongref.states import Diag
from bongref.theory import batch

from . import EPS, Row, checkout, commit, logistic_data, relative
from .torch_names import old_names

folder = checkout("BONGREF_ORIGINAL_VADAM", "pytorch")
optimizers = import_module("vadam.optimizers")
version = commit(folder)
STEPS, CASES, N, P = 20, 20, 12, 5


def derivatives(theta: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Gradients (N, P) and diagonals of Hessians (N, P) of −log p of each example."""
    p = 1 / (1 + np.exp(-X @ theta))
    return (p - y)[:, None] * X, (p * (1 - p))[:, None] * X**2


def stream(seed: int, second: bool) -> float:
    """The difference after STEPS iterations; ``second``: VON, else VOGN."""
    rng = np.random.default_rng(seed)
    X, y = logistic_data(rng, N, P)
    mu, var = rng.standard_normal(P), rng.uniform(0.2, 1.0)
    alpha, beta, lam = 0.1, 0.2, float(rng.uniform(0.5, 2.0))
    theta = torch.nn.Parameter(torch.tensor(mu))
    theirs = optimizers.VOGN([theta], N, lr=alpha, beta=1 - beta, prior_prec=lam, prec_init=1 / var)
    ours = batch.to_scaled(Diag(mu, np.full(P, var)), N, lam)
    torch.manual_seed(seed)
    draws: list[Any] = []

    def closure() -> tuple[Any, list[Any], list[Any], int]:
        draws.append(theta.detach().numpy().copy())
        grads, hessians = derivatives(draws[-1], X, y)
        curvature = hessians if second else grads**2
        return 0.0, [torch.tensor(grads.sum(axis=0))], [torch.tensor(curvature.sum(axis=0))], N

    worst = 0.0
    for _ in range(STEPS):
        with old_names(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a tensor made from a tensor
            theirs.step(closure)
        grads, hessians = derivatives(draws[-1], X, y)
        ours = (
            batch.von(ours, grads.mean(axis=0), hessians.mean(axis=0), alpha, beta, N, lam)
            if second
            else batch.vogn(ours, grads, alpha, beta, N, lam)
        )
        q = batch.from_scaled(ours, N, lam)
        worst = max(
            worst,
            relative(theirs.state["mu"].detach().numpy(), q.mu),
            relative(1 / theirs.state["Precision"].numpy(), q.var),
        )
    return worst


def rows() -> list[Row]:
    """VOGN and VON on logistic regressions, at the draws that the original makes."""
    file = "VOGN.step, pytorch/vadam/optimizers.py"
    bound = STEPS * 64 * EPS
    return [
        Row("VOGN", file, "batch.vogn", CASES, max(stream(s, False) for s in range(CASES)), bound),
        Row(
            "VON",
            file,
            "batch.von",
            CASES,
            max(stream(s, True) for s in range(CASES)),
            bound,
            note="their optimiser, given the Hessian: the checkout has none that is called VON",
        ),
    ]

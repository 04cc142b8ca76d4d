"""SLANG of Mishkin et al. (2018): a step of its optimiser, its draw, its randomised projection."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch

from bongref.states import DLR
from bongref.theory import batch

from . import EPS, Row, checkout, commit, logistic_data, relative
from .torch_names import old_names

operations = checkout("BONGREF_ORIGINAL_SLANG", "code", "python", "libs", "low_rank_ops")
folder = checkout("BONGREF_ORIGINAL_SLANG", "code", "python", "libs", "vi_lib")
for name in ("lib", "lib.utilities", "lib.optimizers"):  # without what they import to draw figures
    package = ModuleType(name)
    package.__path__ = [str(folder / name.replace(".", "/"))]
    sys.modules[name] = package
for name in ("torchutils.low_rank", "torchutils.fastpca", "torchutils.distributions"):
    import_module(name)
optimiser = import_module("lib.optimizers.slang")
low_rank = import_module("torchutils.low_rank")
version = commit(folder)
CASES, P, N, RANK = 20, 9, 6, 3


def gradients(theta: Any, X: Any, y: Any) -> Any:
    """∇(−log p) of each example, (N, P)."""
    return (1 / (1 + np.exp(-X @ theta)) - y)[:, None] * X


def step(seed: int, keep: int) -> tuple[float, float]:
    """Differences of (precision and mean after 3 steps, draw), mini-batches of ``keep``."""
    rng = np.random.default_rng(seed)
    X, y = logistic_data(rng, N, P)
    mu, s = rng.standard_normal(P), 1.5
    alpha, beta, lam = 0.1, 0.3, 2.0
    theta = torch.nn.Parameter(torch.tensor(mu))
    theirs = optimiser.SLANG(
        [theta],
        lr=alpha,
        betas=(0.0, 1 - beta),
        prior_prec=torch.full((P,), lam, dtype=torch.float64),
        s_init=s,
        decay_params={"learning_rate": 0, "beta": 0},
        L=RANK,
        train_set_size=N,
    )
    ours = DLR(mu, np.full(P, s), np.zeros((P, RANK)))
    torch.manual_seed(seed)
    drawn, worst = 0.0, 0.0
    for _ in range(3):
        chosen = rng.permutation(N)[:keep]
        used: list[Any] = []

        def closure(noise: Any, chosen: Any = chosen, used: list[Any] = used) -> tuple[Any, Any]:
            # their closure returns ∇ of the MEAN over the mini-batch, example by example
            used.append(noise[0].detach().numpy().copy())
            g = gradients(used[-1], X[chosen], y[chosen]) / len(chosen)
            return 0.0, torch.tensor(g)[None]

        with old_names():
            state = torch.random.get_rng_state()
            theirs.step(closure)
            after = torch.random.get_rng_state()
        torch.random.set_rng_state(state)
        eps = torch.randn((P, 1), dtype=torch.float64).numpy()[:, 0]  # what they drew first
        torch.random.set_rng_state(after)
        if np.any(ours.W):
            full = ours._replace(W=ours.W[:, np.any(ours.W, axis=0)])  # of full column rank
            drawn = max(drawn, relative(batch.slang_sample(full, eps), used[-1]))
        grads = gradients(used[-1], X[chosen], y[chosen])
        ours = batch.slang(ours, grads, alpha, beta, N, lam, batch.exact_eig)
        U, D = theirs.state["prec_factor"].numpy(), theirs.state["prec_diag"].numpy()[:, 0]
        worst = max(
            worst,
            relative(U @ U.T + np.diag(D), ours.W @ ours.W.T + np.diag(ours.Ups)),
            relative(theirs.state["mean"].detach().numpy(), ours.mu),
        )
        ours = DLR(theirs.state["mean"].detach().numpy().copy(), D.copy(), _columns(U))
    return worst, drawn


def _columns(U: Any) -> Any:
    """Their factor drops eigenvalues below 10⁻⁶: zeros in their place."""
    return np.hstack([U, np.zeros((P, RANK - U.shape[1]))]) if U.shape[1] < RANK else U.copy()


def rows() -> list[Row]:
    """One example at a time, where nothing is cut off; and mini-batches, where it is."""
    file = "code/python/libs/vi_lib/lib/optimizers/slang.py"
    one = [step(seed, 1) for seed in range(CASES)]
    many = [step(seed, 4) for seed in range(CASES)]
    return [
        Row(
            "SLANG, one example in a mini-batch",
            f"SLANG.step, {file}",
            "batch.slang with batch.exact_eig",
            CASES,
            max(d for d, _ in one),
            1e-6,
            note="their Nyström step shifts the matrix by 10⁻⁷ √P of its norm and drops "
            "eigenvalues below 10⁻⁶",
        ),
        Row(
            "SLANG's draw",
            "LowRankMultivariateNormal.rsample, code/python/libs/low_rank_ops",
            "batch.slang_sample",
            CASES,
            max(d for _, d in one + many),
            1e4 * EPS,
            note="at the same standard normals",
        ),
        Row(
            "SLANG, four examples in a mini-batch",
            f"SLANG.step, {file}",
            "batch.slang with batch.exact_eig",
            CASES,
            max(d for d, _ in many),
            1e-6,
            "other",
            "the randomised subspace iteration (RANK + 2 vectors, 4 iterations) is not exact where "
            "columns are cut off without a spectral gap",
        ),
    ]

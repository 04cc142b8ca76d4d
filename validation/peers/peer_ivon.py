"""ivon-opt (PyTorch), the optimiser IVON of Shen et al. (2024). No cell of the paper's table is an
IVON, so that no case of the vectors can be offered; ``beyond`` compares its steps with
``bongref.theory.batch.ivon``.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import numpy as np

try:
    import torch
    from ivon import IVON
except ImportError as error:
    raise ImportError(
        f"the adapter to ivon-opt needs it: pip install ivon-opt ({error})"
    ) from error


class Adapter:
    """ivon-opt: none of its steps is one of the 80 methods."""

    dtype = "float64"
    version = importlib.metadata.version("ivon-opt")
    name = f"ivon-opt {version}"

    def step(self, method, prior, current, curv, params):
        return NotImplemented


def stream(
    mu: np.ndarray, grads: Any, N: int, h0: float, steps: int, seed: int = 0, **options: Any
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The mean after that many steps at its own draws, and these draws."""
    theta = torch.nn.Parameter(torch.tensor(mu))
    made = IVON([theta], ess=N, hess_init=h0, **options)
    torch.manual_seed(seed)
    draws = []
    for _ in range(steps):
        with made.sampled_params(train=True):
            draws.append(theta.detach().numpy().copy())
            theta.grad = torch.tensor(grads(draws[-1]))
        made.step()
    return theta.detach().numpy().copy(), draws

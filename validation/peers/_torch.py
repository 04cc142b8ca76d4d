"""What the adapters for PyTorch implementations share: the neutral models and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import torch
except ImportError as error:
    raise ImportError(f"the adapters for PyTorch implementations need torch: {error}") from error

F64 = torch.float64

ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
}


def tensor(a: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(a, dtype=float), dtype=F64)


def network(model: dict[str, Any]):
    """f(θ, X) for a batch X (B, …): (B, C)."""
    pieces = [(p["name"], tuple(p["shape"]), p["start"], p["stop"]) for p in model["layout"]]
    act = ACTIVATIONS.get(model.get("activation"))
    n_conv = len(model.get("features", ()))
    n_dense = sum(name.startswith("W") for name, *_ in pieces)

    def f(theta, X):
        a = {name: theta[start:stop].reshape(shape) for name, shape, start, stop in pieces}
        h = X
        for i in range(n_conv):
            h = _pool(act(_conv(h, a[f"K{i}"]) + a[f"b{i}"]))
        h = h.reshape(len(X), -1)
        for i in range(n_conv, n_conv + n_dense):
            h = h @ a[f"W{i}"].T + a.get(f"b{i}", 0.0)
            if i < n_conv + n_dense - 1:
                h = act(h)
        return h

    return f


def _conv(x, K):
    """NHWC in and out; K (kh, kw, c_in, c_out)."""
    kh, kw = K.shape[:2]
    pad = ((kw - 1) // 2, kw - 1 - (kw - 1) // 2, (kh - 1) // 2, kh - 1 - (kh - 1) // 2)
    x = torch.nn.functional.pad(x.permute(0, 3, 1, 2), pad)
    return torch.nn.functional.conv2d(x, K.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)


def _pool(x):
    n, h, w, c = x.shape
    x = x[:, : h - h % 2, : w - w % 2]
    return x.reshape(n, h // 2, 2, w // 2, 2, c).mean(dim=(2, 4))


def data(model: dict[str, Any], x: Any, y: Any):
    X = tensor(x).reshape(-1, *model["in_shape"])
    return X, tensor(y).reshape(len(X), -1)

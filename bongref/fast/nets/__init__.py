"""Networks in machine code. ``describe`` gives the numbers of a model, ``workspace`` its buffers; see interface.py."""

from __future__ import annotations

from typing import Any

from . import dense


def describe(model: Any) -> Any:
    """The network of a built-in model: Dense or Conv."""
    if model.kind == "cnn":
        from . import conv

        return conv.describe(model)
    return dense.describe(model)


def workspace(net: Any) -> Any:
    """Buffers for a forward pass and cotangents."""
    if isinstance(net, dense.Dense):
        return dense.workspace(net)
    from . import conv

    return conv.workspace(net)

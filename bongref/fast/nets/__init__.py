"""Networks in machine code. ``describe`` gives the numbers of a model, ``workspace`` its buffers;
see interface.py.
"""

from __future__ import annotations

from typing import Any

from ..small import zeros
from . import conv, dense


def describe(model: Any) -> tuple[Any, Any]:
    """The network of a built-in model, Dense or Conv, and its table of layers."""
    return conv.describe(model) if model.kind == "cnn" else dense.describe(model)


def workspace(net: Any, extra: int) -> Any:
    """v, with ``extra`` numbers after those of the network."""
    return zeros(int(net.size) + extra)

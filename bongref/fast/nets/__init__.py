"""Networks in machine code. ``describe`` gives the numbers of a model, ``workspace`` its buffers;
see interface.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import conv, dense


def describe(model: Any) -> tuple[Any, Any]:
    """The network of a built-in model, Dense or Conv, and its table of layers."""
    return conv.describe(model) if model.kind == "cnn" else dense.describe(model)


def workspace(net: Any, extra: int) -> tuple[Any, Any]:
    """v, with ``extra`` numbers after those of the network, and v.view(int64)."""
    v = np.zeros(int(net.size) + extra)
    return v, v.view(np.int64)

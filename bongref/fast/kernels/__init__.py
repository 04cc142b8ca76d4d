"""Compiled twins of the steps of the diagonal and DLR families, with the signatures of the family modules.

``kernels.diag_nat``, ``kernels.diag_mom`` and ``kernels.dlr`` are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

MODULES = {"diag": "diag_nat", "diag_mom": "diag_mom", "dlr": "dlr"}


def module(family: str) -> ModuleType:
    """The module of a family."""
    return import_module(f".{MODULES[family]}", __name__)


def __getattr__(name: str) -> ModuleType:
    if name not in MODULES.values():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)

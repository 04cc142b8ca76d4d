"""Compiled twins of the steps of the diagonal and DLR families, with the signatures of the family modules."""

from __future__ import annotations

from types import ModuleType

from . import diag_mom, diag_nat, dlr

MODULES: dict[str, ModuleType] = {"diag": diag_nat, "diag_mom": diag_mom, "dlr": dlr}

"""Names and calls of PyTorch that the originals use and that PyTorch no longer has.

``addcdiv(input, value, tensor1, tensor2)`` has its value as a keyword now; ``gesv``, ``potrf`` and
``symeig`` are ``linalg.solve``, ``linalg.cholesky`` and ``linalg.eigh``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

NAMES = {
    "gesv": lambda b, A: (torch.linalg.solve(A, b), None),
    "potrf": lambda A, upper=True: torch.linalg.cholesky(A, upper=upper),
    "symeig": lambda A, eigenvectors=False: torch.linalg.eigh(A),
}


@contextlib.contextmanager
def old_names() -> Iterator[None]:
    """The old names for as long as the block lasts."""
    addcdiv, addcdiv_ = torch.addcdiv, torch.Tensor.addcdiv_

    def old_addcdiv(a: Any, value: Any, b: Any, c: Any = None) -> Any:
        return addcdiv(a, value, b) if c is None else addcdiv(a, b, c, value=value)

    def old_addcdiv_(a: Any, value: Any, b: Any, c: Any = None) -> Any:
        return addcdiv_(a, value, b) if c is None else addcdiv_(a, b, c, value=value)

    absent = {name: fn for name, fn in NAMES.items() if not _works(name)}
    before = {name: getattr(torch, name, None) for name in absent}
    torch.addcdiv, torch.Tensor.addcdiv_ = old_addcdiv, old_addcdiv_  # type: ignore
    for name, fn in absent.items():
        setattr(torch, name, fn)
    try:
        yield
    finally:
        torch.addcdiv, torch.Tensor.addcdiv_ = addcdiv, addcdiv_  # type: ignore
        for name, value in before.items():
            delattr(torch, name) if value is None else setattr(torch, name, value)


def _works(name: str) -> bool:
    """Some names are still there and raise when they are called."""
    A = torch.eye(1)
    try:
        getattr(torch, name)(A, A) if name == "gesv" else getattr(torch, name)(A)
    except (AttributeError, RuntimeError):
        return False
    return True

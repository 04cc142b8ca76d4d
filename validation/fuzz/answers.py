"""Bytes as the objects that an adapter could return: nested, of wrong types, shapes and values.

>>> decode(bytes([6, 2, 0, 4, 3, 1, 0]))
{'mu': 0.0, 'Sigma': None}
"""

from __future__ import annotations

from typing import Any

import numpy as np

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324, np.nan, np.inf, -np.inf, 1e16)
WHOLE = (0, 1, -1, 2**31, 2**63, -(2**64), 10**400)
WORDS = ("", "nan", "1", "mu", "\ud800", "__class__", "a" * 300)
NAMES = ("mu", "Sigma", "var", "Ups", "W", "g", "S", "G", "d", "mean", "valid", "H", "samples")
DTYPES = ("f8", "f4", "f2", "i8", "u1", "?", "c16", "O", "U3", "S3", "M8[s]", ">f8", "g")
DEPTH = 6


class Odd:
    """An object that fails where it is asked for numbers, its length or its text."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no array")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class _Bytes:
    """The bytes one after the other; zeros at their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def next(self, below: int) -> int:
        value = self.data[self.at] if self.at < len(self.data) else 0
        self.at += 1
        return value % below


def decode(data: bytes) -> Any:
    """The object of these bytes."""
    return _object(_Bytes(data), 0)


def _object(b: _Bytes, depth: int) -> Any:
    kind = b.next(12)
    if kind in (5, 6, 7) and depth >= DEPTH:
        kind = 4
    if kind == 0:
        return None
    if kind == 1:
        return bool(b.next(2))
    if kind == 2:
        return WHOLE[b.next(len(WHOLE))]
    if kind == 3:
        return WORDS[b.next(len(WORDS))]
    if kind == 4:
        return NUMBERS[b.next(len(NUMBERS))]
    if kind == 5:
        items = [_object(b, depth + 1) for _ in range(b.next(6))]
        return tuple(items) if b.next(4) == 0 else items
    if kind in (6, 7):
        return {_key(b): _object(b, depth + 1) for _ in range(b.next(6))}
    if kind in (8, 9, 10):
        return _array(b, "f8" if kind < 10 else DTYPES[b.next(len(DTYPES))])
    return (Odd(), {1, 2}, b"bytes", object, np.ma.masked, Ellipsis, 1j)[b.next(7)]


def _key(b: _Bytes) -> Any:
    k = b.next(len(NAMES) + 3)
    return NAMES[k] if k < len(NAMES) else (0, None, "\ud800")[k - len(NAMES)]


def _array(b: _Bytes, dtype: str) -> Any:
    shape = tuple(b.next(5) for _ in range(b.next(4)))
    values = [NUMBERS[b.next(len(NUMBERS))] for _ in range(b.next(4) + 1)]
    with np.errstate(all="ignore"):
        flat = np.resize(np.array(values), int(np.prod(shape)))
        try:
            a = flat.astype(dtype)
        except (ValueError, OverflowError):
            a = np.zeros(len(flat), dtype)
    a = a.reshape(shape)
    return np.ma.masked_array(a, mask=True) if b.next(16) == 1 else a

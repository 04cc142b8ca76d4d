"""Arrays whose arithmetic operations are counted.

    tally = Tally()
    step(tally.array(1000), tally.array(1000, 10))     # any NumPy code that takes arrays
    tally.total, tally.by                              # operations, and operations by kind

Code runs unchanged on arrays of class :class:`Counted`. These have a shape and no numbers: each
operation adds its textbook count to a :class:`Tally` and returns the shape of its result, so that
counting at P = 10⁶ takes no time and no memory.

What counts: an elementwise operation, 1 for each entry of its result, whatever it is; a sum, its
additions; a product of (m, k) and (k, n), 2mnk; a factorisation or a solve, the formula in the
docstring of its function below (Golub and Van Loan's). What does not count: copies, views,
comparisons, random numbers, and arithmetic on constants alone, such as an identity matrix. An
operation without a formula raises TypeError, so that no count is silently too low.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Shape = tuple[int, ...]


class Tally:
    """The operations so far, by kind.

    Parameters
    ----------
    values : bool
        Compute the numbers as well; otherwise arrays have a shape only.

    Examples
    --------
    >>> tally = Tally()
    >>> (tally.array(3, 4) @ tally.array(4, 5)).shape, tally.total
    ((3, 5), 120)
    """

    def __init__(self, values: bool = False) -> None:
        self.by: Counter[str] = Counter()
        self.values = values

    @property
    def total(self) -> int:
        """The number of operations so far."""
        return sum(self.by.values())

    def array(self, *shape: int) -> Counted:
        """A counted array of this shape that takes no memory: one number stands for all entries."""
        strides = (0,) * len(shape)
        a: Counted = np.ndarray.__new__(Counted, shape, float, buffer=_ONE, strides=strides)
        a.tally = self
        return a

    def wrap(self, value: Any) -> Counted:
        """The given array, counted."""
        a = np.asarray(value, dtype=float).view(Counted)
        a.tally = self
        return a


_ONE = np.ones(1)
_ONE.flags.writeable = False


class Counted(np.ndarray[Any, Any]):
    """An array whose operations are counted in ``tally``; NumPy code takes it as an array."""

    tally: Any

    def __array_finalize__(self, obj: Any) -> None:
        self.tally = getattr(obj, "tally", None)

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        tally = _tally(inputs) or self.tally
        shapes = [getattr(x, "shape", ()) for x in inputs]
        if method == "reduce":
            shape = _reduced(shapes[0], kwargs.get("axis", 0), kwargs.get("keepdims", False))
            cost = max(0, math.prod(shapes[0]) - math.prod(shape))
        elif method != "__call__":
            raise TypeError(f"{ufunc.__name__}.{method} is not counted")
        elif ufunc is np.matmul:
            shape, cost = _matmul(*shapes)
        else:
            shape = np.broadcast_shapes(*shapes)
            cost = math.prod(shape)
        if ufunc in _COMPARISONS:
            return ufunc(*map(_plain, inputs)) if tally.values else np.broadcast_to(np.True_, shape)
        tally.by["matmul" if ufunc is np.matmul else "elementwise"] += cost
        if not tally.values:
            return tally.array(*shape)
        options = {k: v for k, v in kwargs.items() if k != "out"}
        return tally.wrap(getattr(ufunc, method)(*map(_plain, inputs), **options))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func.__name__ in ("swapaxes", "transpose", "reshape", "shape", "ndim"):
            return super().__array_function__(func, types, args, kwargs)
        if func.__name__ not in _FUNCTIONS:
            raise TypeError(f"numpy.{func.__name__} is not counted")
        tally = _tally(args) or self.tally
        cost, *shapes = _FUNCTIONS[func.__name__](*args, **kwargs)
        tally.by[func.__name__] += cost
        if tally.values:
            out = func(*map(_plain, args), **kwargs)
            return tuple(map(tally.wrap, out)) if isinstance(out, tuple) else tally.wrap(out)
        out = tuple(tally.array(*s) for s in shapes)
        return out if len(out) > 1 else out[0]


_COMPARISONS = {
    np.isfinite,
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
}


def _tally(args: Iterable[Any]) -> Any:
    """The tally of the first counted array among arguments that may be lists."""
    for x in args:
        inside = _tally(x) if isinstance(x, (list, tuple)) else None
        found = x.tally if isinstance(x, Counted) else inside
        if found is not None:
            return found
    return None


def _plain(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(map(_plain, x))
    return x.view(np.ndarray) if isinstance(x, Counted) else x


def _reduced(shape: Shape, axis: Any, keepdims: bool) -> Shape:
    axes = range(len(shape)) if axis is None else [a % len(shape) for a in np.atleast_1d(axis)]
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)


def _matmul(a: Shape, b: Shape) -> tuple[Shape, int]:
    """The shape of a @ b, and 2mnk for each matrix of a stack."""
    left, right = (a if len(a) > 1 else (1, *a)), (b if len(b) > 1 else (*b, 1))
    if left[-1] != right[-2]:
        raise ValueError(f"matmul of shapes {a} and {b}")
    stack = np.broadcast_shapes(left[:-2], right[:-2])
    rows, columns = (left[-2],) if len(a) > 1 else (), (right[-1],) if len(b) > 1 else ()
    return (*stack, *rows, *columns), 2 * math.prod(stack) * left[-2] * right[-1] * left[-1]


# --- one function for each counted NumPy function: arguments -> (operations, shape of each result)


def _lu(n: int) -> int:
    """2n³/3: n(n−1)/2 divisions; multiplications and subtractions, together (n−1)n(2n−1)/3."""
    return (4 * n**3 - 3 * n**2 - n) // 6


def _solve(a: Any, b: Any) -> tuple[Any, ...]:
    """2n³/3 + 2n²k: LU, then a forward and a backward substitution for each of the k columns."""
    n, k = len(a), (b.shape[1] if b.ndim == 2 else 1)
    return _lu(n) + k * (2 * n * n - n), b.shape


def _cholesky(a: Any) -> tuple[Any, ...]:
    """n³/3: n roots, n(n−1)/2 divisions, (n³−n)/3 multiplications and subtractions."""
    n = len(a)
    return (2 * n**3 + 3 * n**2 + n) // 6, a.shape


def _svd(a: Any, full_matrices: bool = True) -> tuple[Any, ...]:
    """6mn² + 20n³ for m ≥ n: the thin SVD by way of QR."""
    if full_matrices:
        raise TypeError("only the thin SVD is counted")
    m, n = max(a.shape), min(a.shape)
    return 6 * m * n * n + 20 * n**3, (a.shape[0], n), (n,), (n, a.shape[1])


def _qr(a: Any, mode: str = "reduced") -> tuple[Any, ...]:
    """2mn² by Householder reflections for m ≥ n, twice that with the thin Q; for each matrix."""
    *stack, m, n = a.shape
    k = min(m, n)
    cost, R = 2 * math.prod(stack) * max(m, n) * k * k, (*stack, k, n)
    return (cost, R) if mode == "r" else (2 * cost, (*stack, m, k), R)


def _concatenate(arrays: Any, axis: int = 0) -> tuple[Any, ...]:
    shape = list(arrays[0].shape)
    shape[axis] = sum(a.shape[axis] for a in arrays)
    return 0, tuple(shape)


def _stack(arrays: Any, axis: int = 0) -> tuple[Any, ...]:
    shape = list(arrays[0].shape)
    shape.insert(axis, len(arrays))
    return 0, tuple(shape)


def _pad(a: Any, width: Any) -> tuple[Any, ...]:
    extra = np.broadcast_to(width, (a.ndim, 2)).sum(axis=1)
    return 0, tuple(int(n + e) for n, e in zip(a.shape, extra, strict=True))


_FUNCTIONS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "outer": lambda a, b: (a.size * b.size, (a.size, b.size)),
    "solve": _solve,
    "inv": lambda a: _solve(a, a),
    "cholesky": _cholesky,
    "svd": _svd,
    "qr": _qr,
    "eigh": lambda a: (9 * len(a) ** 3, (len(a),), a.shape),  # tridiagonal form, symmetric QR
    "slogdet": lambda a: (_lu(len(a)), (), ()),
    "concatenate": _concatenate,
    "stack": _stack,
    "pad": _pad,
    "diag": lambda a: (0, (len(a), len(a)) if a.ndim == 1 else (min(a.shape),)),
}

"""Arrays without an owner: what a kernel is given lives as long as the kernel runs, so that there is nothing to count.

Numba counts references to every array, also to every slice and to every member of a tuple that it takes out, with operations that the
cores must agree on, which is much in a step of a microsecond. An array without an owner is not counted.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload


def borrowed(a: Any) -> Any:
    """The same array, or a tuple of arrays and numbers; inside a kernel, without an owner. The caller's must live at least as long."""
    return a


def without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A value of that type whose arrays have no owner."""
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        members = [without_owner(context, builder, k, m) for k, m in zip(kinds.types, cgutils.unpack_tuple(builder, value), strict=True)]
        return context.make_tuple(builder, kind, members)
    if isinstance(kind, types.Array):
        for place in (0, 1):  # meminfo and parent
            value = builder.insert_value(value, ir.Constant(value.type.elements[place], None), place)
        return value
    return value


def _borrow(typingctx, a):
    return a(a), lambda context, builder, signature, args: without_owner(context, builder, signature.return_type, args[0])


_borrowed: Any = intrinsic(_borrow)


@overload(borrowed)
def _overload_borrowed(a):
    return lambda a: _borrowed(a)

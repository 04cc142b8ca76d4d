"""Arrays without an owner: what a kernel is given lives as long as the kernel runs, so that there is nothing to count.

Numba counts references to every array, also to every slice and to every member of a tuple that it takes out, with operations that the
cores must agree on, which is much in a step of a microsecond. An array without an owner is not counted.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload


def borrowed(a: Any) -> Any:
    """The same array, or a tuple of arrays and numbers; inside a kernel, without an owner. The caller's must live at least as long."""
    return a


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        members = [_without_owner(context, builder, k, m) for k, m in zip(kinds.types, cgutils.unpack_tuple(builder, value), strict=True)]
        return context.make_tuple(builder, kind, members)
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo, array.parent = (cgutils.get_null_value(x.type) for x in (array.meminfo, array.parent))
        return array._getvalue()
    return value


def _borrow(typingctx, a):
    return a(a), lambda context, builder, signature, args: _without_owner(context, builder, signature.return_type, args[0])


_borrowed: Any = intrinsic(_borrow)


@overload(borrowed)
def _overload_borrowed(a):
    return lambda a: _borrowed(a)

"""Named tuples of arrays and numbers as one pointer.

Numba takes a named tuple apart wherever it goes: one of twenty arrays is two hundred arguments of every function that is given it, and as
many instructions that only move them. A class that is a ``pack`` stays where it is while a kernel runs, and what is read of it is read from
there: compiled code is given a pointer. Its arrays are borrowed, so that nothing is counted. In a kernel a pack has its fields and no more:
it cannot be made there, nor indexed.
"""

from __future__ import annotations

from typing import Any, TypeVar

from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox

from .borrow import without_owner

BYTE = ir.IntType(8)
T = TypeVar("T", bound=type)


class Pack(types.Type):
    """The type of a named tuple of some class with members of these types."""

    def __init__(self, made: type, members: tuple[Any, ...]):
        self.made, self.members = made, members
        super().__init__(name=f"{made.__module__}.{made.__qualname__}({', '.join(str(m) for m in members)})")


def pack(made: T) -> T:
    """A decorator for classes of named tuples."""

    @typeof_impl.register(made)
    def _typeof(value: Any, context: Any) -> Pack:
        return Pack(made, tuple(typeof(member) for member in value))

    return made


def is_pack(kind: Any, made: type) -> bool:
    """Whether this is the type of such a pack, while a kernel is compiled."""
    return isinstance(kind, Pack) and kind.made is made


@register_model(Pack)
class _PackModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, BYTE.as_pointer())


def _struct(context: Any, kind: Pack) -> Any:
    return ir.LiteralStructType([context.get_value_type(m) for m in kind.members])


@unbox(Pack)
def _unbox(kind, obj, c):
    """Every member as Numba takes it, side by side on the stack of the wrapper, until the kernel has returned."""
    place = cgutils.alloca_once(c.builder, _struct(c.context, kind))
    taken, wrong = [], cgutils.false_bit
    for i, member in enumerate(kind.members):
        native = c.unbox(member, c.pyapi.tuple_getitem(obj, i))
        c.builder.store(native.value, cgutils.gep_inbounds(c.builder, place, 0, i))
        wrong = c.builder.or_(wrong, native.is_error)
        taken.append((member, native))

    def give_back() -> None:
        for member, native in taken:
            if native.cleanup is not None:
                native.cleanup()
            c.context.nrt.decref(c.builder, member, native.value)

    return NativeValue(c.builder.bitcast(place, BYTE.as_pointer()), is_error=wrong, cleanup=give_back)


@infer_getattr
class _PackAttribute(AttributeTemplate):
    key = Pack

    def generic_resolve(self, value, attr):  # type: ignore[override]
        fields = value.made._fields
        return value.members[fields.index(attr)] if attr in fields else None


@lower_getattr_generic(Pack)
def _getattr(context, builder, kind, value, attr):
    """Read a member; nothing writes there, which lets the compiler read it once for a loop."""
    i = kind.made._fields.index(attr)
    place = builder.bitcast(value, _struct(context, kind).as_pointer())
    found = builder.load(cgutils.gep_inbounds(builder, place, 0, i))
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return without_owner(context, builder, kind.members[i], found)

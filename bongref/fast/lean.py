"""Numba's translation to LLVM in fewer instructions, for what kernels are made of: loops over ranges, numbers in arrays, rows and slices.

Numba translates a loop into a hundred instructions, an access to an array into thirty, and leaves it to LLVM to see that ten would do; most
of the time of a compilation goes into making and removing them. Here an index that is computed is a number from 0 on, never one from the
end (one that is written down, as in x[-1], may be), a slice has no step, and where nothing is allocated nothing is counted. Everything else
is Numba's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core import ir as numba_ir
from numba.core.lowering import Lower

MEMINFO, PARENT, NITEMS, ITEMSIZE, DATA, SHAPE, STRIDES = range(7)  # the members of an array
I64 = ir.IntType(64)
END = 2**63 - 1  # of a slice that goes on to the end


def _kinds(index: Any) -> tuple[Any, ...]:
    """The types of the indices, one or several."""
    kinds: Any = index
    return tuple(kinds.types) if isinstance(index, types.BaseTuple) else (index,)


def _from_the_end(index: Any) -> bool:
    """Whether an index that is written down, or one of several, is negative; a variable is not."""
    return any(isinstance(i, int) and i < 0 for i in (index if isinstance(index, tuple) else (index,)))


def _numbers(kind: Any) -> bool:
    """Whether this is the type of an array of numbers that lie side by side."""
    return isinstance(kind, types.Array) and kind.layout == "C" and isinstance(kind.dtype, (types.Float, types.Integer))


class Lean(Lower):
    """The translation of a function."""

    as_numba = False  # while an entry is set whose index is from the end

    # --- variables: where nothing is counted, a variable that is overwritten or no longer needed is left alone -----------------

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """name = value."""
        if self.context.enable_nrt or argidx is not None or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Forget a variable."""
        if self.context.enable_nrt:
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    # --- expressions -------------------------------------------------------------------------------------------------------------

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Loops over ranges, and the shape of an array."""
        kind = self.typeof(expr.value.name) if expr.op in ("getiter", "iternext", "pair_first", "pair_second", "getattr") else None
        if expr.op == "getattr" and expr.attr == "shape" and isinstance(kind, types.Array):
            return self.builder.extract_value(self.loadvar(expr.value.name), SHAPE)
        if expr.op == "getiter" and isinstance(kind, types.RangeType):
            found = self.begin(expr, resty)
            return super().lower_expr(resty, expr) if found is None else found
        if expr.op == "iternext" and isinstance(kind, types.RangeIteratorType):
            return self.advance(self.loadvar(expr.value.name), resty)
        if expr.op in ("pair_first", "pair_second") and isinstance(kind, types.Pair) and isinstance(kind.first_type, types.Integer):
            return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def lower_call(self, resty: Any, expr: Any) -> Any:
        """len of an array, and slices."""
        function = getattr(self.typeof(expr.func.name), "typing_key", None)
        if function in (len, slice) and not expr.kws and expr.vararg is None:
            values = [self.loadvar(a.name) for a in expr.args]
            kinds = [self.typeof(a.name) for a in expr.args]
            if function is len and isinstance(kinds[0], types.Array):
                return self.builder.extract_value(values[0], [SHAPE, 0])
            if function is slice and len(kinds) == 2 and all(k is types.none or isinstance(k, types.Integer) for k in kinds):
                bounds = [
                    ir.Constant(I64, default) if k is types.none else self.context.cast(self.builder, v, k, types.intp)
                    for v, k, default in zip(values, kinds, (0, END), strict=True)
                ]
                return self.made(resty, *bounds, ir.Constant(I64, 1))
        return super().lower_call(resty, expr)

    def made(self, kind: Any, *members: Any) -> Any:
        """A structure of that type; None leaves a member undefined."""
        out = ir.Constant(self.context.get_value_type(kind), ir.Undefined)
        for i, member in enumerate(members):
            out = out if member is None else self.builder.insert_value(out, member, i)
        return out

    # --- loops -------------------------------------------------------------------------------------------------------------------

    def step(self, call: Any) -> int | None:
        """The step of a range that a call makes, if it is known."""
        if getattr(call, "op", None) != "call" or len(call.args) < 3:
            return 1
        found = self.func_ir.get_definition(call.args[2])
        value = getattr(found, "value", None) if isinstance(found, (numba_ir.Const, numba_ir.Global, numba_ir.FreeVar)) else None
        return value if isinstance(value, int) and value != 0 else None

    def begin(self, expr: Any, resty: Any) -> Any:
        """The iterator of a range: where its next number and how many there are still are kept. None where the step is not known."""
        try:
            step = self.step(self.func_ir.get_definition(expr.value))
        except KeyError:
            step = None
        if step is None:
            return None
        b, state = self.builder, self.loadvar(expr.value.name)
        first, stop, by = (b.extract_value(state, i) for i in range(3))
        way = b.sub(stop, first) if step > 0 else b.sub(first, stop)
        some = b.icmp_signed(">", way, ir.Constant(way.type, 0))
        if abs(step) != 1:
            way = b.udiv(b.add(way, ir.Constant(way.type, abs(step) - 1)), ir.Constant(way.type, abs(step)))
        here, left = cgutils.alloca_once(b, first.type), cgutils.alloca_once(b, first.type)
        b.store(first, here)
        b.store(b.select(some, way, ir.Constant(way.type, 0)), left)
        return self.made(resty, here, stop, by, left)

    def advance(self, iterator: Any, resty: Any) -> Any:
        """The next number of a range, and whether there is one."""
        b = self.builder
        here, by, left = (b.extract_value(iterator, i) for i in (0, 2, 3))
        value, count = b.load(here), b.load(left)
        b.store(b.add(value, by, flags=["nsw"]), here)
        b.store(b.sub(count, ir.Constant(count.type, 1), flags=["nsw"]), left)
        return self.made(resty, value, b.icmp_signed(">", count, ir.Constant(count.type, 0)))

    # --- arrays ------------------------------------------------------------------------------------------------------------------

    def offset(self, kind: Any, array: Any, index_kind: Any, index: Any, skip: int = 0) -> Any:
        """How far the number at this index, or the first one of a slice or row, is from the start."""
        b, flat = self.builder, None
        kinds = _kinds(index_kind)
        for k in range(kind.ndim):
            if k < len(kinds) - skip:
                i = b.extract_value(index, k) if isinstance(index_kind, types.BaseTuple) else index
                i = self.context.cast(b, i, kinds[k], types.intp)
            else:
                i = None
            if flat is not None:
                flat = b.mul(flat, b.extract_value(array, [SHAPE, k]), flags=["nsw"])
                flat = flat if i is None else b.add(flat, i, flags=["nsw"])
            else:
                flat = i
        return flat

    def place(self, kind: Any, array: Any, index_kind: Any, index: Any) -> Any:
        """The pointer to one number, or None where this is something else."""
        kinds = _kinds(index_kind)
        if not _numbers(kind) or len(kinds) != kind.ndim or not all(isinstance(k, types.Integer) for k in kinds):
            return None
        flat = self.offset(kind, array, index_kind, index)
        return self.builder.gep(self.builder.extract_value(array, DATA), [flat], inbounds=True)

    def view(self, kind: Any, array: Any, index_kind: Any, index: Any, found: Any) -> Any:
        """A row or a part of a row as an array, or None where this is something else."""
        kinds = _kinds(index_kind)
        cut = isinstance(kinds[-1], types.SliceType) and not kinds[-1].has_step
        whole = all(isinstance(k, types.Integer) for k in (kinds[:-1] if cut else kinds))
        if not (_numbers(kind) and whole and len(kinds) == kind.ndim - (not cut)) or self.context.enable_nrt:
            return None
        if not isinstance(found, types.Array) or found.ndim != 1 or found.layout != "C":
            return None
        b, n = self.builder, self.builder.extract_value(array, [SHAPE, kind.ndim - 1])
        flat = self.offset(kind, array, index_kind, index, skip=int(cut))
        if cut:
            part = b.extract_value(index, len(kinds) - 1) if isinstance(index_kind, types.BaseTuple) else index
            first, stop = b.extract_value(part, 0), b.extract_value(part, 1)
            least = lambda x, y: b.select(b.icmp_signed("<", x, y), x, y)
            first, stop = least(first, n), least(stop, n)
            size = b.sub(stop, first, flags=["nsw"])
            n = b.select(b.icmp_signed(">", size, ir.Constant(I64, 0)), size, ir.Constant(I64, 0))
            flat = first if flat is None else b.add(flat, first, flags=["nsw"])
        data = b.gep(b.extract_value(array, DATA), [flat], inbounds=True)
        size = b.extract_value(array, ITEMSIZE)
        out = self.made(found, b.extract_value(array, MEMINFO), b.extract_value(array, PARENT), n, size, data)
        return b.insert_value(b.insert_value(out, n, [SHAPE, 0]), size, [STRIDES, 0])

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """array[index]."""
        kinds = self.typeof(value.name), self.typeof(index.name)
        if isinstance(kinds[0], types.Array) and not _from_the_end(getattr(expr, "index", None)):
            arguments = kinds[0], self.loadvar(value.name), kinds[1], self.loadvar(index.name)
            place = self.place(*arguments)
            if place is not None:
                return self.context.cast(self.builder, self.builder.load(place), kinds[0].dtype, resty)
            view = self.view(*arguments, resty)
            if view is not None:
                return view
        return super().lower_getitem(resty, expr, value, index, signature)

    def lower_inst(self, inst: Any) -> Any:
        """A statement."""
        self.as_numba = isinstance(inst, numba_ir.StaticSetItem) and _from_the_end(inst.index)
        return super().lower_inst(inst)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """array[index] = value."""
        kind, index, value = (self.typeof(var.name) for var in (target_var, index_var, value_var))
        if isinstance(kind, types.Array) and isinstance(value, (types.Number, types.Boolean)) and not self.as_numba:
            place = self.place(kind, self.loadvar(target_var.name), index, self.loadvar(index_var.name))
            if place is not None:
                number = self.context.cast(self.builder, self.loadvar(value_var.name), value, kind.dtype)
                return self.builder.store(number, place)
        return super().lower_setitem(target_var, index_var, value_var, signature)

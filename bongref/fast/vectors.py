"""Four numbers at a time, by name: for the innermost loops that the compiler does not turn into vectors well by itself.

A vector is a variable like any other; sixteen of them fit into the registers of a machine with AVX2. A matrix product that keeps twelve
sums in such variables runs at the speed of BLAS. The functions do not look whether an index is inside the array, or negative.

    acc = fill4(0.0)
    for t in range(n):
        acc = muladd(acc, spread4(a, t), load4(b, 4 * t))      # acc += a[t] · b[4t : 4t + 4], rounded once where the machine can
    store4(out, 0, acc)
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import populate_array

config: Any = numba.config
LANES = 4


def aligned(*shape: int) -> np.ndarray:
    """Zeros that begin at a multiple of 64 bytes: vectors then cross fewer cache lines."""
    size = math.prod(shape)
    a = np.zeros(size + 8)
    start = -a.ctypes.data // 8 % 8
    return a[start : start + size].reshape(shape)


class Four(types.Type):
    """The type of a vector of four float64."""

    def __init__(self) -> None:
        super().__init__(name="Four")


four = Four()
_four = ir.VectorType(ir.DoubleType(), LANES)


@register_model(Four)
class _FourModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _four)


def _pointer(context, builder, kind, array, i):
    """Where array[i] is, as a pointer to one number."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [i])


def _four_pointer(context, builder, kind, array, i):
    return builder.bitcast(_pointer(context, builder, kind, array, i), _four.as_pointer())


def _load4(typing, a, i):
    def build(context, builder, signature, args):
        loaded = builder.load(_four_pointer(context, builder, signature.args[0], *args))
        loaded.align = 8
        return loaded

    return four(a, types.intp), build


def _store4(typing, a, i, v):
    def build(context, builder, signature, args):
        stored = builder.store(args[2], _four_pointer(context, builder, signature.args[0], *args[:2]))
        stored.align = 8
        return context.get_dummy_value()

    return types.void(a, types.intp, four), build


def _spread(builder, number):
    """One number four times."""
    undefined = ir.Constant(_four, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _spread4(typing, a, i):
    def build(context, builder, signature, args):
        return _spread(builder, builder.load(_pointer(context, builder, signature.args[0], *args)))

    return four(a, types.intp), build


def _muladd(typing, acc, x, y):
    def build(context, builder, signature, args):
        kind = ir.FunctionType(_four, [_four] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f64")
        return builder.call(function, [args[1], args[2], args[0]])

    return four(four, four, four), build


def _divide4(typing, x, y):
    return four(four, four), lambda context, builder, signature, args: builder.fdiv(*args)


def _negative4(typing, count, v):
    def build(context, builder, signature, args):
        whole = ir.VectorType(ir.IntType(64), LANES)
        each = lambda n: ir.Constant(whole, [ir.Constant(ir.IntType(64), n)] * LANES)
        sign = builder.ashr(builder.bitcast(args[1], whole), each(63))
        return builder.fadd(args[0], builder.bitcast(builder.and_(sign, each(0x3FF << 52)), _four))

    return four(four, four), build


def _fill4(typing, x):
    return four(types.float64), lambda context, builder, signature, args: _spread(builder, args[0])


def _sum4(typing, v):
    def build(context, builder, signature, args):
        lane = [builder.extract_element(args[0], ir.Constant(ir.IntType(32), k)) for k in range(LANES)]
        return builder.fadd(builder.fadd(lane[0], lane[2]), builder.fadd(lane[1], lane[3]))

    return types.float64(four), build


def _gather4(typing, a, i, step):
    def build(context, builder, signature, args):
        found, i = ir.Constant(_four, ir.Undefined), args[1]
        for k in range(LANES):
            number = builder.load(_pointer(context, builder, signature.args[0], args[0], i))
            found, i = builder.insert_element(found, number, ir.Constant(ir.IntType(32), k)), builder.add(i, args[2])
        return found

    return four(a, types.intp, types.intp), build


def _sums4(typing, a, b, c, d):
    def build(context, builder, signature, args):
        choose = lambda x, y, *lanes: builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(lanes)))
        pair = lambda x, y: builder.fadd(choose(x, y, 0, 4, 2, 6), choose(x, y, 1, 5, 3, 7))
        first, second = pair(*args[:2]), pair(*args[2:])
        return builder.fadd(choose(first, second, 0, 1, 4, 5), choose(first, second, 2, 3, 6, 7))

    return four(four, four, four, four), build


def _turned4(typing, a, b, c, d):
    def build(context, builder, signature, args):
        choose = lambda x, y, *lanes: builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(lanes)))
        pairs = [choose(*args[k : k + 2], *lanes) for lanes in ((0, 4, 2, 6), (1, 5, 3, 7)) for k in (0, 2)]
        halves = [choose(*pairs[k : k + 2], *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for k in (0, 2)]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(four, LANES)(four, four, four, four), build


def _flat(typing, a):
    def build(context, builder, signature, args):
        given = context.make_array(signature.args[0])(context, builder, args[0])
        row = context.make_array(signature.return_type)(context, builder)
        return populate_array(row, given.data, (given.nitems,), (given.itemsize,), given.itemsize, None)._getvalue()

    return types.Array(a.dtype, 1, "C")(a), build


def _first(typing, v):
    return types.float64(four), lambda context, builder, signature, args: builder.extract_element(args[0], ir.Constant(ir.IntType(32), 0))


def _apart(typing):
    def build(context, builder, signature, args):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), build


def _plain_load4(a, i):
    return a[i : i + LANES].copy()


def _plain_store4(a, i, v):
    a[i : i + LANES] = v


def _choose(plain: Any, compiled: Any) -> Any:
    """The function for plain Python or for kernels."""
    return plain if config.DISABLE_JIT else intrinsic(compiled)


apart = _choose(lambda: None, _apart)  # the function that says this is not copied to where it is called
load4 = _choose(_plain_load4, _load4)  # a[i : i + 4]
store4 = _choose(_plain_store4, _store4)  # a[i : i + 4] = v
spread4 = _choose(lambda a, i: np.full(LANES, a[i]), _spread4)  # a[i] four times
fill4 = _choose(lambda x: np.full(LANES, x), _fill4)  # x four times
gather4 = _choose(lambda a, i, step: np.array([a[i + k * step] for k in range(LANES)]), _gather4)  # a[i], a[i + step], …
sums4 = _choose(lambda a, b, c, d: np.array([v[0] + v[1] + (v[2] + v[3]) for v in (a, b, c, d)]), _sums4)  # the sums of four vectors
turned4 = _choose(lambda a, b, c, d: tuple(np.array([a, b, c, d]).T.copy()), _turned4)  # the columns of the matrix that has these rows
flat = _choose(lambda a: a.reshape(-1), _flat)  # an array in C order as one row; Numba's reshape compiles the words of its errors too
first = _choose(lambda v: v[0], _first)  # the first of four numbers
muladd = _choose(lambda acc, x, y: acc + x * y, _muladd)  # acc + x · y
divide4 = _choose(lambda x, y: np.divide(x, y), _divide4)  # x / y
negative4 = _choose(lambda count, v: count + (v < 0), _negative4)  # count, and one more where v is negative
sum4 = _choose(lambda v: (v[0] + v[2]) + (v[1] + v[3]), _sum4)  # the sum of the four

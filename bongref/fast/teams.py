"""Jobs that several threads of machine code share, without a word of Python between them.

A board is an array of integers that all of them see. One thread, the first, offers jobs, numbered from 0 on in the order of the stream;
every thread claims the next one that nobody has, does it, and says so. The first one claims jobs like the others and then waits for what
is still under way: where the others are late or never come, it has done the work itself. What a job computes does not depend on who does
it, so that the results have the same bits for any number of threads.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .jit import inner

LINE = 8  # each number has a cache line of its own
PATIENCE = 20_000  # looks at the board, about ten microseconds, before others may have the processor
CLAIMED, OFFERED, CLOSED, DONE = 0, LINE, 2 * LINE, 3 * LINE


def board(jobs: int) -> np.ndarray:
    """A new board for so many jobs at a time."""
    return np.zeros(DONE + LINE * jobs, dtype=np.int64)


def read(a: Any, i: int) -> int:
    """a[i], and with it all that was written before it."""
    return a[i]


def write(a: Any, i: int, value: int) -> None:
    """a[i] = value, after all that was written before."""
    a[i] = value


def exchange(a: Any, i: int, old: int) -> bool:
    """a[i] becomes old + 1 if it is old; whether it was."""
    same = a[i] == old
    a[i] += same
    return bool(same)


def give_way() -> None:
    """Let those run who wait for a processor: where they are many, perhaps the thread whose job is not done yet."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()


def _place(context, builder, signature, args):
    return builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])


def _atomic_load(typingctx, a, i):
    def lower(context, builder, signature, args):
        return builder.load_atomic(_place(context, builder, signature, args), "acquire", 8)

    return types.int64(a, i), lower


def _atomic_store(typingctx, a, i, value):
    def lower(context, builder, signature, args):
        builder.store_atomic(args[2], _place(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(a, i, types.int64), lower


def _compare_and_exchange(typingctx, a, i, old):
    def lower(context, builder, signature, args):
        new = builder.add(args[2], ir.Constant(args[2].type, 1))
        return builder.extract_value(builder.cmpxchg(_place(context, builder, signature, args), args[2], new, "acq_rel", "acquire"), 1)

    return types.boolean(a, i, types.int64), lower


def _yield(typingctx):
    def lower(context, builder, signature, args):
        if hasattr(os, "sched_yield"):
            builder.call(cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(32), []), "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), lower


_read: Any = intrinsic(_atomic_load)
_write: Any = intrinsic(_atomic_store)
_exchange: Any = intrinsic(_compare_and_exchange)
_give_way: Any = intrinsic(_yield)


@overload(read)
def _overload_read(a, i):
    return lambda a, i: _read(a, i)


@overload(write)
def _overload_write(a, i, value):
    return lambda a, i, value: _write(a, i, value)


@overload(exchange)
def _overload_exchange(a, i, old):
    return lambda a, i, old: _exchange(a, i, old)


@overload(give_way)
def _overload_give_way():
    return lambda: _give_way()


@inner
def claim(board):
    """The number of a job that is now this thread's; −1 where none is left for now, −2 where there will be no more."""
    while True:
        job = read(board, CLAIMED)
        if job >= read(board, OFFERED):
            return np.int64(-2 if read(board, CLOSED) else -1)
        if exchange(board, CLAIMED, job):
            return job


@inner
def wait(board, jobs):
    """Until all of the last jobs that were offered are done."""
    last = read(board, OFFERED)
    looks = 0
    for k in range(jobs):
        while read(board, DONE + LINE * k) <= last - jobs:
            looks += 1
            if looks > PATIENCE:
                give_way()

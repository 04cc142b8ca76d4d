"""Large matrices cut into calls of BLAS that several threads share: the Cholesky factor, inverses and products of full covariances.

A BLAS that starts threads of its own waits for all of them at every turn, and on a machine with other work to do it is soon slower than one
thread. Here every call has one thread; a :class:`Plan` says which calls there are and which of them each has to wait for, and the threads
take them from a board (:mod:`.teams`) in that order. The plan depends on the sizes alone, so that the results have the same bits whoever
does what, also where the first thread does it all: that is what happens for a while after the others have cost more than they brought.

Matrices are in Fortran order; of symmetric and triangular ones the lower triangle is valid, and what is above it may change. With one
thread, or for small matrices, each function is one call of SciPy's.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic
from scipy.linalg.blas import dsymm, dsyrk, dtrmm, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from ..linalg import Array
from . import estimators
from .estimators import threads
from .jit import inner, kernel
from .teams import CLOSED, DONE, LINE, OFFERED, board, claim, read, write

WORTH = 3e7  # multiplications of a call that is cut into parts
TILE = 110  # the rows and columns of a part, about
AREA = 3e7  # multiplications of a part of a square
ARGUMENTS = 13  # of a call, at most: those of dgemm
BREAK = 20_000  # looks at the board before a thread that finds nothing there runs an errand
LOOKS, NAP = 500_000, 50  # looks before a thread that waits sleeps for so many microseconds each time
PATIENCE = 64  # calls for which the first thread works alone, at most, before the others may show again what they bring
JOBS = 256  # of a plan, at most
ERRANDS = DONE + LINE * JOBS  # where the board says how many there are
CONSTANT, INFO, SCALARS, MATRICES = 0, 1, 2, 3  # what an argument of a call lies in
BLAS = ("dgemm", "dsymm", "dsyrk", "dtrmm", "dtrsm")


def _call_by_address(typingctx, calls, job):
    """Call the function whose address is calls[job, 0] with the addresses behind it; those that it does not know it does not look at."""

    def build(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        word, address = ir.IntType(64), ir.IntType(8).as_pointer()
        at = builder.mul(args[1], ir.Constant(word, 1 + ARGUMENTS))
        values = [builder.load(builder.gep(data, [builder.add(at, ir.Constant(word, i))])) for i in range(1 + ARGUMENTS)]
        function = ir.FunctionType(ir.VoidType(), [address] * ARGUMENTS).as_pointer()
        builder.call(builder.inttoptr(values[0], function), [builder.inttoptr(v, address) for v in values[1:]])
        return context.get_dummy_value()

    return types.void(calls, types.int64), build


_call: Any = intrinsic(_call_by_address)


@inner
def _until(board, slot, value, rest):
    """Wait until the number there is greater than this one."""
    looks = 0
    while read(board, slot) <= value:
        looks += 1
        if looks > LOOKS:
            _call(rest, 0)


@kernel
def work(first, calls, after, start, board, rest):
    """Do the calls that are on the board: for the first thread those of one plan, for the others all that come until it is closed.

    Job start[0] + k is calls[k]. All calls before the number after[k, 0], and those of the other numbers there, come before it. Returns
    whether there may be more: there is an errand.
    """
    idle = 0
    if not first:
        _call(rest, 0)
    while True:
        job = claim(board)
        while job >= 0:
            idle = 0
            k, begin = job - start[0], start[0]
            for i in range(after[k, 0]):
                _until(board, DONE + LINE * i, begin, rest)
            for i in range(1, after.shape[1]):
                if after[k, i] >= 0:
                    _until(board, DONE + LINE * after[k, i], begin, rest)
            _call(calls, k)
            write(board, DONE + LINE * k, job + 1)
            job = claim(board)
        if first:
            for i in range(read(board, OFFERED) - start[0]):
                _until(board, DONE + LINE * i, start[0], rest)
            return True
        if job == -2:
            return False
        idle += 1
        if idle > BREAK and read(board, ERRANDS):
            return True
        if idle > LOOKS:
            _call(rest, 0)


# --- threads -----------------------------------------------------------------------------------------------------------------

_here = threading.local()


@functools.cache
def _rest() -> Array:
    """The call with which a thread that waits sleeps for a moment."""
    if os.name == "nt":
        function, argument = getattr(ctypes, "windll").kernel32.Sleep, 1  # noqa: B009  there only on that system
    else:
        function, argument = ctypes.CDLL(None).usleep, NAP
    return np.array([[ctypes.cast(function, ctypes.c_void_p).value or 0, argument] + [0] * (ARGUMENTS - 1)])


def _core() -> int:
    """The core that this thread runs on; −1 where the system does not say."""
    return int(ctypes.CDLL(None).sched_getcpu()) if hasattr(os, "sched_setaffinity") else -1


def _leave(core: int) -> None:
    """Move this thread to another core, where it may stay or not: some systems leave a new one for long where it was made."""
    if core >= 0:
        allowed = os.sched_getaffinity(0)
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, allowed - {core} or allowed)
            os.sched_setaffinity(0, allowed)


class Crew:
    """A board, the jobs on it, and the threads that look at it as long as it is open; where it is empty they run errands."""

    def __init__(self) -> None:
        self.calls, self.after = np.zeros((JOBS, 1 + ARGUMENTS), np.int64), np.zeros((JOBS, 4), np.int64)
        self.start, self.board = np.zeros(1, np.int64), board(JOBS + 1)
        self.others: list[threading.Thread] = []
        self.errands: list[tuple[Future, Callable]] = []

    def open(self, n: int) -> None:
        """Call for n threads."""
        self.others = [threading.Thread(target=self._assist, args=(_core(),), daemon=True) for _ in range(n)]
        for other in self.others:
            other.start()

    def _assist(self, first: int) -> None:
        _leave(first)
        while work(False, self.calls, self.after, self.start, self.board, _rest()):
            self.run_errand()

    def run_errand(self) -> None:
        """Do the next errand, if nobody else has it."""
        try:
            future, errand = self.errands.pop(0)
        except IndexError:
            return
        write(self.board, ERRANDS, len(self.errands))
        try:
            future.set_result(errand())
        except BaseException as error:
            future.set_exception(error)

    def send(self, errand: Callable[[], Any]) -> Future:
        """Let another thread do this when it has nothing else to do."""
        future: Future = Future()
        self.errands.append((future, errand))
        write(self.board, ERRANDS, len(self.errands))
        return future

    def do(self, calls: Array, after: Array) -> None:
        """Do these calls, with all threads that are there."""
        n = len(calls)
        self.calls[:n], self.after[:n], self.start[0] = calls, after, self.board[OFFERED]
        write(self.board, OFFERED, int(self.board[OFFERED]) + n)
        work(True, self.calls, self.after, self.start, self.board, _rest())

    def close(self) -> None:
        """Send the other threads away."""
        write(self.board, CLOSED, 1)
        for other in self.others:
            other.join()


class Normals(estimators.Normals):
    """Normal variates, of which a thread of the crew draws a block in advance, so that there are never more threads than cores."""

    def _order(self) -> None:
        here = getattr(_here, "crew", None)
        if here is None:
            super()._order()
        else:
            buffer = self.buffers[-1]
            self.next = here.send(lambda: self._fill(buffer)) if self.ahead and self.left else None

    def block(self) -> Array:
        self._hurry()
        return super().block()

    def close(self) -> None:
        self._hurry()
        super().close()

    def _hurry(self) -> None:
        """Draw the block here if no thread has begun to."""
        here = getattr(_here, "crew", None)
        if here is not None:
            here.run_errand()


@contextlib.contextmanager
def crew(n: int) -> Iterator[None]:
    """Inside, n threads share the plans that this one runs."""
    here = Crew()
    try:
        here.open(n - 1)
        _here.crew = here
        yield
    finally:
        _here.crew = None
        here.close()


def _crew() -> Crew:
    return getattr(_here, "crew", None) or Crew()


# --- plans -------------------------------------------------------------------------------------------------------------------


class Plan:
    """Calls of BLAS with what each has to wait for. Every argument of one is an offset into something that :meth:`run` is given."""

    def __init__(self) -> None:
        self.constants: dict[Any, Array] = {}
        self.functions: list[int] = []
        self.places: list[list[tuple[int, int]]] = []
        self.before: list[list[int]] = []
        self.behind = 0  # all calls with smaller numbers have to be done before the next ones
        self.infos = 0
        self.alone, self.left, self.pause = np.inf, 1, 0

    def call(self, name: str, *args: Any, after: tuple[int, ...] = ()) -> int:
        """Add a call, and return its number. Arguments: characters, ints, floats, :func:`at`, :func:`scalar`, and INFO."""
        places = [a if isinstance(a, tuple) else self._info() if a is Plan else self._constant(a) for a in args]
        self.functions.append(get_cython_function_address(f"scipy.linalg.cython_{'blas' if name in BLAS else 'lapack'}", name))
        self.places.append(places + [(CONSTANT, 0)] * (ARGUMENTS - len(places)))
        self.before.append([self.behind, *after, *[-1] * (3 - len(after))])
        return len(self.functions) - 1

    def _constant(self, value: str | int | float) -> tuple[int, int]:
        kind: Any = {str: "S1", int: np.int32, float: float}[type(value)]
        return CONSTANT, self.constants.setdefault((type(value), value), np.array([value], dtype=kind)).ctypes.data

    def _info(self) -> tuple[int, int]:
        self.infos += 1
        return INFO, 4 * (self.infos - 1)

    def then(self) -> None:
        """What comes now waits for everything so far."""
        self.behind = len(self.functions)

    def close(self) -> Plan:
        places = np.array(self.places)
        self.kinds, self.offsets = np.zeros((len(places), 1 + ARGUMENTS), np.int64), np.zeros((len(places), 1 + ARGUMENTS), np.int64)
        self.kinds[:, 1:], self.offsets[:, 1:], self.offsets[:, 0] = places[..., 0], places[..., 1], self.functions
        self.after = np.array(self.before, np.int64)
        return self

    def run(self, matrices: tuple[Array, ...], *scalars: float) -> bool:
        """Do all calls; whether every factor was there."""
        info, numbers = np.zeros(1 + self.infos, np.int32), np.array((*scalars, 0.0))
        bases = np.array([0, info.ctypes.data, numbers.ctypes.data, *(m.ctypes.data for m in matrices)])
        start, shared = time.perf_counter(), self.left == 0
        (_crew() if shared else Crew()).do(self.offsets + bases[self.kinds], self.after)
        self._judge(shared, time.perf_counter() - start)
        return not info.any()

    def _judge(self, shared: bool, seconds: float) -> None:
        """Whether the next run is shared: not for a while after a run that took longer than the first thread alone."""
        if not shared:
            self.alone, self.left = min(self.alone, seconds), max(0, self.left - 1)
        elif seconds > self.alone:
            self.pause = min(2 * self.pause + 1, PATIENCE)
            self.left = self.pause
        else:
            self.pause = 0


def at(matrix: int, ld: int, i: int, j: int) -> tuple[int, int]:
    """Row i and column j of one of the matrices, whose columns are ld apart."""
    return MATRICES + matrix, 8 * (i + j * ld)


def scalar(k: int) -> tuple[int, int]:
    """One of the scalars."""
    return SCALARS, 8 * k


def _cuts(n: int, parts: int) -> list[tuple[int, int]]:
    return [(n * k // parts, n * (k + 1) // parts) for k in range(parts)]


def _tiles(n: int) -> list[tuple[int, int]]:
    return _cuts(n, max(1, round(n / TILE)))


def _add_cholesky(plan: Plan, n: int) -> None:
    """The factor of the first matrix, by columns of tiles; each is finished while those behind it still take up the one before."""
    tiles, A = _tiles(n), lambda i, j: at(0, n, i, j)
    tile, below = [-1] * len(tiles), [-1] * len(tiles)  # the last change of each diagonal tile, and of what is below it

    def panel(k: int) -> tuple[int, int]:
        """Column k from what it has become: first the rows of the next diagonal tile, then the others."""
        (a, b), near, far = tiles[k], -1, -1
        factor = plan.call("dpotrf", "L", b - a, A(a, a), n, Plan, after=(tile[k],))
        for i, j in tiles[k + 1 : k + 2]:
            near = plan.call("dtrsm", "R", "L", "T", "N", j - i, b - a, 1.0, A(a, a), n, A(i, a), n, after=(factor, below[k]))
            if j < n:
                far = plan.call("dtrsm", "R", "L", "T", "N", n - j, b - a, 1.0, A(a, a), n, A(j, a), n, after=(factor, below[k]))
        return near, far

    def take_up(k: int, m: int, near: int, far: int) -> None:
        """Column m takes up column k."""
        (a, b), (c, d) = tiles[k], tiles[m]
        ready: tuple[int, ...] = near if m == k + 1 else far, tile[m]
        tile[m] = plan.call("dsyrk", "L", "N", d - c, b - a, -1.0, A(c, a), n, 1.0, A(c, c), n, after=ready)
        if d < n:
            ready = near, far, below[m]
            below[m] = plan.call("dgemm", "N", "T", n - d, d - c, b - a, -1.0, A(d, a), n, A(c, a), n, 1.0, A(d, c), n, after=ready)

    ready = panel(0)
    for k in range(len(tiles) - 1):
        take_up(k, k + 1, *ready)
        after = panel(k + 1)
        for m in range(k + 2, len(tiles)):
            take_up(k, m, *ready)
        ready = after


@functools.cache
def _cholesky_plan(n: int) -> Plan:
    """The lower triangle of the second matrix into the first, and its factor."""
    plan = Plan()
    for a, b in _cuts(n, 4):
        plan.call("dlacpy", "L", n - a, b - a, at(1, n, a, a), n, at(0, n, a, a), n)
    plan.then()
    _add_cholesky(plan, n)
    return plan.close()


@functools.cache
def _square_plan(n: int, k: int, trans: bool) -> Plan:
    """C = αXXᵀ + βC with X (n, k), or with ``trans`` C = αXᵀX + βC with X (k, n), in columns of about the same area."""
    plan, ld, mine, other = Plan(), k if trans else n, *(("T", "N") if trans else ("N", "T"))
    areas = min(max(4, round(n * n * k / AREA)), 12)
    cuts = [round(n * (1 - (1 - i / areas) ** 0.5)) for i in range(areas + 1)]
    for a, b in itertools.pairwise(cuts):
        X, Y = (at(1, ld, 0, a), at(1, ld, 0, b)) if trans else (at(1, ld, a, 0), at(1, ld, b, 0))
        if b < n:
            plan.call("dgemm", mine, other, n - b, b - a, k, scalar(0), Y, ld, X, ld, scalar(1), at(0, n, b, a), n)
        plan.call("dsyrk", "L", mine, b - a, k, scalar(0), X, ld, scalar(1), at(0, n, a, a), n)
    return plan.close()


@functools.cache
def _columns_plan(name: str, n: int, k: int, parts: int, trans: str) -> Plan:
    """B = LB or LᵀB (dtrmm), L⁻¹B or L⁻ᵀB (dtrsm), with B (n, k) in parts of columns; for "dpotrs" (LLᵀ)⁻¹B; for "dsymm" C = LB."""
    plan = Plan()
    for a, b in _cuts(k, parts):
        L, B = at(0, n, 0, 0), at(1, n, 0, a)
        if name == "dpotrs":
            plan.call("dpotrs", "L", n, b - a, L, n, B, n, Plan)
        elif name == "dsymm":
            plan.call("dsymm", "L", "L", n, b - a, 1.0, L, n, B, n, 0.0, at(2, n, 0, a), n)
        else:
            plan.call(name, "L", "L", trans, "N", n, b - a, 1.0, L, n, B, n)
    return plan.close()


@functools.cache
def _inverse_plan(n: int) -> Plan:
    """(LLᵀ)⁻¹ into the first matrix, which has L, with a second one for T = L⁻¹: TᵀT."""
    plan = Plan()
    for a, b in _tiles(n):
        plan.call("dlaset", "A", n - a, b - a, 0.0, 1.0, at(1, n, a, a), n)
        plan.call("dtrsm", "L", "L", "N", "N", n - a, b - a, 1.0, at(0, n, a, a), n, at(1, n, a, a), n, after=(len(plan.functions) - 1,))
    plan.then()
    for a, b in _tiles(n):
        T = at(1, n, a, a)
        if a > 0:
            plan.call("dgemm", "T", "N", b - a, a, n - a, 1.0, T, n, at(1, n, a, 0), n, 0.0, at(0, n, a, 0), n)
        plan.call("dsyrk", "L", "T", b - a, n - a, 1.0, T, n, 0.0, at(0, n, a, a), n)
    return plan.close()


@functools.cache
def _compose_plan(n: int) -> Plan:
    """The second matrix C becomes LC with the first one, L, both triangular, and the third one (LC)(LC)ᵀ."""
    plan = Plan()
    for a, b in _tiles(n):
        plan.call("dlaset", "U", b - a - 1, b - a - 1, 0.0, 0.0, at(1, n, a, a + 1), n)
        here = (len(plan.functions) - 1,)
        plan.call("dtrmm", "L", "L", "N", "N", n - a, b - a, 1.0, at(0, n, a, a), n, at(1, n, a, a), n, after=here)
    plan.then()
    for a, b in _tiles(n):
        C = at(1, n, a, 0)
        if b < n:
            plan.call("dgemm", "N", "T", n - b, b - a, b, 1.0, at(1, n, b, 0), n, C, n, 0.0, at(2, n, b, a), n)
        plan.call("dsyrk", "L", "N", b - a, b, 1.0, C, n, 0.0, at(2, n, a, a), n)
    return plan.close()


# --- what they are for ---------------------------------------------------------------------------------------------------------


def worth(n: int) -> bool:
    """Whether threads pay for matrices (n, n)."""
    return _shared(n**3 / 6)


def _shared(multiplications: float) -> bool:
    return multiplications >= WORTH and threads() > 1


def _parts(B: Array) -> int:
    """Into how many parts the columns of B are cut: each call reads all of the other matrix, so that they should not be many."""
    return max(threads(), round(B.shape[1] / 200))


def cholesky(A: Array, out: Array) -> bool:
    """The Cholesky factor of A into the lower triangle of out; False if there is none."""
    n = len(A)
    if _shared(n**3 / 6):
        good = _cholesky_plan(n).run((out, A))
    else:
        np.copyto(out, A)
        good = dpotrf(out, lower=1, clean=0, overwrite_a=1)[1] == 0
    return good and bool(np.isfinite(np.diagonal(out)).all())


def inverse(L: Array, room: Array) -> None:
    """L becomes (LLᵀ)⁻¹; ``room`` is a matrix of the same size that is overwritten."""
    n = len(L)
    if _shared(n**3 / 3):
        _inverse_plan(n).run((L, room))
    else:
        dpotri(L, lower=1, overwrite_c=1)


def add_square(alpha: float, X: Array, beta: float, C: Array, trans: bool = False) -> None:
    """C becomes αXXᵀ + βC, or with ``trans`` αXᵀX + βC."""
    n, k = len(C), X.size // len(C)
    if _shared(n * n * k / 2):
        _square_plan(n, k, trans).run((C, X), alpha, beta)
    else:
        dsyrk(alpha, X, trans=int(trans), beta=beta, c=C, lower=1, overwrite_c=1)


def multiply(L: Array, B: Array, trans: bool = False) -> None:
    """B becomes LB or LᵀB."""
    if _shared(B.size * len(L) / 2):
        _columns_plan("dtrmm", len(L), B.shape[1], _parts(B), "T" if trans else "N").run((L, B))
    else:
        dtrmm(1.0, L, B, lower=1, trans_a=int(trans), overwrite_b=1)


def solve(L: Array, B: Array, trans: bool = False) -> None:
    """B becomes L⁻¹B or L⁻ᵀB."""
    if _shared(B.size * len(L) / 2):
        _columns_plan("dtrsm", len(L), B.shape[1], _parts(B), "T" if trans else "N").run((L, B))
    else:
        dtrsm(1.0, L, B, lower=1, trans_a=int(trans), overwrite_b=1)


def solve_both(L: Array, B: Array) -> None:
    """B becomes (LLᵀ)⁻¹B."""
    if _shared(B.size * len(L)):
        _columns_plan("dpotrs", len(L), B.shape[1], _parts(B), "N").run((L, B))
    else:
        dpotrs(L, B, lower=1, overwrite_b=1)


def product(A: Array, B: Array, out: Array) -> None:
    """out = AB for a symmetric A."""
    if _shared(B.size * len(A)):
        _columns_plan("dsymm", len(A), B.shape[1], _parts(B), "N").run((A, B, out))
    else:
        dsymm(1.0, A, B, lower=1, c=out, overwrite_c=1)


def compose(L: Array, C: Array, out: Array) -> None:
    """C becomes LC, the product of two Cholesky factors, and out what it is the factor of."""
    n = len(L)
    if _shared(n**3 / 3):
        _compose_plan(n).run((L, C, out))
    else:
        C[:] = dtrmm(1.0, L, np.tril(C), lower=1)
        dsyrk(1.0, np.tril(C), beta=0.0, c=out, lower=1, overwrite_c=1)

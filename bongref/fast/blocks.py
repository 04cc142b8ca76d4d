"""Products and factors of large matrices in tiles, which threads share: calls of BLAS and LAPACK on blocks of matrices in Fortran order.

The threads of a BLAS wait for one another in loops that take the processor from everyone else, so that it is held to one thread, and the
calls are handed out here. A program is the list of calls that one thread would make, each with the tiles that it reads and writes, from
which follows what it has to wait for. Every thread takes the next call that nobody has, waits until it may begin, and makes it, all in
machine code. The tiles, and the order in which each is changed, depend on the sizes alone, and with them the bits of the result.
Of a symmetric or triangular matrix the lower triangle is valid.
"""

from __future__ import annotations

import ctypes
import functools
import heapq
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from scipy.linalg import cython_blas, cython_lapack

from ..linalg import Array
from .estimators import threads, together
from .jit import kernel
from .teams import PATIENCE, exchange, give_way, read, write

TILE, BROAD, TILES = 96, 256, 16  # rows of a tile of a factor and of a product; how many tiles a matrix has at most
WIDE = 400  # rows for which a second thread pays
MOST = 14  # arguments of a call
NUMBERS, INFO = 3, 4  # operands: up to three matrices, then the numbers, then what LAPACK says of each call
SLOW = {"dtrsm": 2.0, "dpotrf": 3.0, "dtrtri": 3.0, "dlauum": 3.0, "dlacpy": 20.0}  # the time of an operation, that of dgemm's being 1
LETTERS = ctypes.create_string_buffer(b"LNRT")


# --- one call ----------------------------------------------------------------------------------------------------------------


@functools.cache
def _address(name: str) -> int:
    """Where a function of BLAS or LAPACK is, all of whose arguments are pointers; it runs without the interpreter's lock."""
    module: Any = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule, api = module.__pyx_capi__[name], ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


def call(function: int, pointers: Any) -> None:
    """Call the function at this address with :data:`MOST` pointers, of which it takes as many as it wants."""
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * MOST)(int(function))(*(int(p) for p in pointers))


def _call(typingctx, function, pointers):
    def lower(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        data = context.make_array(signature.args[1])(context, builder, args[1]).data
        values = [builder.inttoptr(builder.load(cgutils.gep(builder, data, i)), byte) for i in range(MOST)]
        made = ir.FunctionType(ir.VoidType(), [byte] * MOST).as_pointer()
        builder.call(builder.inttoptr(args[0], made), values)
        return context.get_dummy_value()

    return types.void(types.int64, pointers), lower


_intrinsic_call: Any = intrinsic(_call)


@overload(call)
def _overload_call(function, pointers):
    return lambda function, pointers: _intrinsic_call(function, pointers)


# --- programs ----------------------------------------------------------------------------------------------------------------


class Tiles(NamedTuple):
    """A block of an operand: the tiles of these rows and columns."""

    operand: int
    rows: range
    columns: range


class Number(NamedTuple):
    """One of the numbers that are given with the operands."""

    place: int


ONE, MINUS, ZERO, ALPHA, BETA = (Number(i) for i in range(5))


class Program(NamedTuple):
    """Calls in the order in which they are taken, and what each has to wait for."""

    functions: Array  # (T,), addresses
    pointers: Array  # (T, MOST), addresses; those in an operand are relative to its first number
    operands: Array  # (T, MOST): 0, or 1 + the operand
    begin: Array  # (T + 1,): where in ``before`` the calls begin that call t waits for
    before: Array
    kept: Array  # the integers that addresses are of


class Writer:
    """Writes the program of a function. Of each operand it knows where its tiles begin, by rows and columns, and its leading dimension."""

    def __init__(self, *operands: tuple[list[int], list[int], int]):
        self.known = operands
        self.calls: list[tuple[str, tuple[Any, ...], float]] = []  # name, arguments, time
        self.waits: list[set[int]] = []
        self.written: dict[Any, int] = {}  # the last call that writes a tile
        self.read: dict[Any, set[int]] = {}  # the calls that read it since then

    def size(self, b: Tiles) -> tuple[int, int]:
        """Rows and columns of a block."""
        rows, columns, _ = self.known[b.operand]
        return rows[b.rows.stop] - rows[b.rows.start], columns[b.columns.stop] - columns[b.columns.start]

    def call(self, operations: float, name: str, *args: Any) -> None:
        """The next call. It changes the last block among its arguments, and reads all of them."""
        *others, last = ([(b.operand, i, j) for i in b.rows for j in b.columns] for b in args if isinstance(b, Tiles))
        me, reads = len(self.calls), {tile for block in others for tile in block}
        waits = {self.written[tile] for tile in reads.union(last) if tile in self.written}
        for tile in reads:
            self.read.setdefault(tile, set()).add(me)
        for tile in last:
            waits |= self.read.pop(tile, set())
            self.written[tile] = me
        self.calls.append((name, args, operations * SLOW.get(name, 1.0)))
        self.waits.append(waits - {me})

    def gemm(self, trans_a: str, trans_b: str, alpha: Number, a: Tiles, b: Tiles, beta: Number, c: Tiles) -> None:
        """C = βC + α op(A) op(B)."""
        (m, n), k = self.size(c), self.size(a)[trans_a == "N"]
        self.call(2 * m * n * k, "dgemm", trans_a, trans_b, m, n, k, alpha, a, b, beta, c)

    def syrk(self, trans: str, alpha: Number, a: Tiles, beta: Number, c: Tiles) -> None:
        """C = βC + α A Aᵀ, or αAᵀA for ``trans`` = T."""
        n, k = self.size(c)[0], self.size(a)[trans == "N"]
        self.call(n * n * k, "dsyrk", "L", trans, n, k, alpha, a, beta, c)

    def triangle(self, name: str, side: str, trans: str, alpha: Number, a: Tiles, b: Tiles) -> None:
        """B = α op(A) B or, for ``side`` = R, αB op(A), with op(A)⁻¹ for dtrsm in place of dtrmm."""
        m, n = self.size(b)
        self.call(m * n * self.size(a)[0], name, side, "L", trans, "N", m, n, alpha, a, b)

    def corner(self, name: str, a: Tiles) -> None:
        """dpotrf, dtrtri or dlauum of a tile on the diagonal."""
        n = self.size(a)[0]
        self.call(n**3 / 3, name, "L", *(["N"] if name == "dtrtri" else []), n, a)

    def order(self, workers: int) -> list[int]:
        """The calls as so many workers would begin them: of those that may begin, the one with the longest way to the end."""
        after: list[list[int]] = [[] for _ in self.calls]
        way = [time for _, _, time in self.calls]
        for t in range(len(way) - 1, -1, -1):
            way[t] += max((way[s] for s in after[t]), default=0.0)
            for s in self.waits[t]:
                after[s].append(t)
        left = [len(waits) for waits in self.waits]
        ready = [(-way[t], t) for t in range(len(way)) if not left[t]]
        heapq.heapify(ready)
        order: list[int] = []
        running: list[tuple[float, int]] = []
        now = 0.0
        while ready or running:
            while ready and len(running) < workers:
                t = heapq.heappop(ready)[1]
                order.append(t)
                heapq.heappush(running, (now + self.calls[t][2], t))
            now, t = heapq.heappop(running)
            for s in after[t]:
                left[s] -= 1
                if not left[s]:
                    heapq.heappush(ready, (-way[s], s))
        return order

    def program(self, workers: int) -> Program:
        """The program, for so many workers."""
        order = self.order(workers)
        place = {t: k for k, t in enumerate(order)}
        pointers, operands = np.zeros((len(order), MOST), np.int64), np.zeros((len(order), MOST), np.int64)
        integers: list[tuple[int, int, int]] = []
        for k, t in enumerate(order):
            found: list[tuple[int, int]] = []  # (address, operand) of each argument
            for a in self.calls[t][1]:
                if isinstance(a, Tiles):
                    rows, columns, lead = self.known[a.operand]
                    found.append((8 * (rows[a.rows.start] + lead * columns[a.columns.start]), 1 + a.operand))
                    integers.append((k, len(found), lead))
                    found.append((0, 0))
                elif isinstance(a, Number):
                    found.append((8 * a.place, 1 + NUMBERS))
                elif isinstance(a, str):
                    found.append((ctypes.addressof(LETTERS) + LETTERS.value.index(a.encode()), 0))
                else:
                    integers.append((k, len(found), a))
                    found.append((0, 0))
            found.append((4 * k, 1 + INFO))
            pointers[k, : len(found)], operands[k, : len(found)] = np.transpose(found)
        kept, which = np.unique(np.array([a for _, _, a in integers], np.int32), return_inverse=True)
        for (k, at, _), i in zip(integers, which, strict=True):
            pointers[k, at] = kept.ctypes.data + 4 * i
        waits = [sorted(place[s] for s in self.waits[t]) for t in order]
        begin, before = np.cumsum([0, *map(len, waits)]), np.array([s for w in waits for s in w], np.int64)
        return Program(np.array([_address(self.calls[t][0]) for t in order]), pointers, operands, begin, before, kept)


@kernel
def work(functions, pointers, begin, before, claimed, done):
    """Make the calls of a program that nobody has taken; those that one waits for have been taken before it."""
    t = 0
    while t < len(functions):
        if exchange(claimed, 0, t):
            for i in range(begin[t], begin[t + 1]):
                looks = 0
                while read(done, before[i]) == 0:
                    looks += 1
                    if looks > PATIENCE:
                        give_way()
            call(functions[t], pointers[t])
            write(done, t, 1)
        t = read(claimed, 0)


def run(program: Program, workers: int, *operands: Array, alpha: float = 1.0, beta: float = 0.0) -> bool:
    """Make the calls of a program, by so many threads; whether LAPACK has found nothing wrong."""
    T = len(program.functions)
    numbers, info, addresses = np.array([1.0, -1.0, 0.0, alpha, beta]), np.zeros(T, np.int32), np.zeros(2 + INFO, np.int64)
    for i, a in enumerate(operands):
        addresses[1 + i] = a.ctypes.data
    addresses[1 + NUMBERS], addresses[1 + INFO] = numbers.ctypes.data, info.ctypes.data
    pointers, claimed, done = program.pointers + addresses[program.operands], np.zeros(1, np.int64), np.zeros(T, np.int64)
    together(min(workers, T), lambda _: work(program.functions, pointers, program.begin, program.before, claimed, done))
    return not info.any()


def _lead(a: Array) -> int:
    """The leading dimension of a block."""
    if a.dtype != float or (len(a) > 1 and a.strides[0] != a.itemsize):
        raise ValueError("the columns of a block are float64, one number behind the other")
    return max(1, a.strides[1] // a.itemsize if a.shape[1] > 1 else len(a))


def _cuts(n: int, tile: int) -> list[int]:
    """Where tiles begin, and n."""
    return [*range(0, max(1, n - tile // 4), tile), n]


def _square(n: int, lead: int, tile: int) -> tuple[list[int], list[int], int]:
    """A matrix with n rows and columns, as :class:`Writer` knows it; a large one has tiles of more than so many rows."""
    cuts = _cuts(n, max(tile, tile // 3 * -(-3 * n // (tile * TILES))))
    return cuts, cuts, lead


def _workers(n: int) -> int:
    """How many threads share what is done with a matrix of n rows."""
    return threads() if n >= WIDE else 1


def _block(operand: int, rows: int | range, columns: int | range) -> Tiles:
    rows, columns = (range(i, i + 1) if isinstance(i, int) else i for i in (rows, columns))
    return Tiles(operand, rows, columns)


# --- functions ---------------------------------------------------------------------------------------------------------------


def _write_update(w: Writer, trans: str, x: int, c: int) -> None:
    """C = βC + α X Xᵀ, or XᵀX for ``trans`` = T, of the operands x and c."""
    tiles, whole, other = range(len(w.known[c][0]) - 1), range(1), "T" if trans == "N" else "N"
    part = (lambda i: _block(x, i, whole)) if trans == "N" else lambda i: _block(x, whole, i)
    for j in tiles:
        w.syrk(trans, ALPHA, part(j), BETA, _block(c, j, j))
        for i in tiles[j + 1 :]:
            w.gemm(trans, other, ALPHA, part(i), part(j), BETA, _block(c, i, j))


def _write_cholesky(w: Writer, a: int, r: int) -> None:
    """The Cholesky factor of the operand a into r."""
    tiles = range(len(w.known[r][0]) - 1)
    for j in tiles:
        for i in tiles[j:]:
            rows, columns = w.size(_block(r, i, j))
            w.call(rows * columns, "dlacpy", "N", rows, columns, _block(a, i, j), _block(r, i, j))
    for k in tiles:
        w.corner("dpotrf", _block(r, k, k))
        for i in tiles[k + 1 :]:
            w.triangle("dtrsm", "R", "T", ONE, _block(r, k, k), _block(r, i, k))
        for j in tiles[k + 1 :]:
            w.syrk("N", MINUS, _block(r, j, k), ONE, _block(r, j, j))
            for i in tiles[j + 1 :]:
                w.gemm("N", "T", MINUS, _block(r, i, k), _block(r, j, k), ONE, _block(r, i, j))


@functools.lru_cache(128)
def _rank_update(trans: str, n: int, K: int, lead_x: int, lead_c: int, workers: int) -> Program:
    cuts, _, _ = square = _square(n, lead_c, BROAD)
    w = Writer((cuts, [0, K], lead_x) if trans == "N" else ([0, K], cuts, lead_x), square)
    _write_update(w, trans, 0, 1)
    return w.program(workers)


def rank_update(alpha: float, X: Array, beta: float, C: Array) -> None:
    """C = βC + α X Xᵀ, its lower triangle. Twin of ``beta * C + alpha * X @ X.T``."""
    workers = _workers(len(C))
    run(_rank_update("N", *X.shape, _lead(X), _lead(C), workers), workers, X, C, alpha=alpha, beta=beta)


def gram_update(alpha: float, X: Array, beta: float, C: Array) -> None:
    """C = βC + α XᵀX, its lower triangle. Twin of ``beta * C + alpha * X.T @ X``."""
    workers = _workers(len(C))
    run(_rank_update("T", *X.shape[::-1], _lead(X), _lead(C), workers), workers, X, C, alpha=alpha, beta=beta)


@functools.lru_cache(128)
def _times_symmetric(n: int, K: int, leads: tuple[int, int, int], workers: int) -> Program:
    cuts, _, _ = square = _square(n, leads[0], BROAD)
    columns, N = _cuts(K, 2 * BROAD), len(cuts) - 1
    w = Writer(square, (cuts, columns, leads[1]), (cuts, columns, leads[2]))
    for j in range(len(columns) - 1):
        for i in range(N):
            x, out = lambda rows, j=j: _block(1, rows, j), _block(2, i, j)
            (m, k), corner = w.size(out), _block(0, i, i)
            w.call(2 * m * m * k, "dsymm", "L", "L", m, k, ONE, corner, x(i), ZERO, out)
            if i > 0:
                w.gemm("N", "N", ONE, _block(0, i, range(i)), x(range(i)), ONE, out)
            if i < N - 1:
                w.gemm("T", "N", ONE, _block(0, range(i + 1, N), i), x(range(i + 1, N)), ONE, out)
    return w.program(workers)


def times_symmetric(A: Array, X: Array) -> Array:
    """A X for a symmetric A. Twin of ``A @ X``."""
    out, workers = np.empty(X.shape, order="F"), _workers(len(A))
    run(_times_symmetric(*X.shape, (_lead(A), _lead(X), _lead(out)), workers), workers, A, X, out)
    return out


@functools.lru_cache(128)
def _triangle(name: str, trans: str, n: int, K: int, lead_l: int, lead_x: int, workers: int) -> Program:
    """X becomes op(L) X (dtrmm) or op(L)⁻¹X (dtrsm), tile by tile in the order in which each has what it needs."""
    cuts, _, _ = square = _square(n, lead_l, BROAD)
    parts, tiles = min(K, max(2, K // 128)), range(len(cuts) - 1)
    w = Writer(square, (cuts, [K * j // parts for j in range(parts + 1)], lead_x))
    up = (name == "dtrmm") == (trans == "N")  # from the last tile to the first
    for j in range(parts):
        for i in reversed(tiles) if up else tiles:
            others, out = tiles[:i] if trans == "N" else tiles[i + 1 :], _block(1, i, j)
            rest = _block(0, i, others) if trans == "N" else _block(0, others, i)
            if name == "dtrmm":
                w.triangle(name, "L", trans, ONE, _block(0, i, i), out)
            if others:
                w.gemm(trans, "N", ONE if name == "dtrmm" else MINUS, rest, _block(1, others, j), ONE, out)
            if name == "dtrsm":
                w.triangle(name, "L", trans, ONE, _block(0, i, i), out)
    return w.program(workers)


def times_triangle(L: Array, X: Array, trans: str = "N") -> None:
    """X becomes L X, or LᵀX for ``trans`` = T. Twin of ``np.tril(L) @ X``."""
    workers = _workers(len(L))
    run(_triangle("dtrmm", trans, *X.shape, _lead(L), _lead(X), workers), workers, L, X)


def solve_triangle(L: Array, X: Array, trans: str = "N") -> None:
    """X becomes L⁻¹X, or L⁻ᵀX for ``trans`` = T. Twin of ``np.linalg.solve(np.tril(L), X)``."""
    workers = _workers(len(L))
    run(_triangle("dtrsm", trans, *X.shape, _lead(L), _lead(X), workers), workers, L, X)


@functools.lru_cache(32)
def _cholesky(n: int, lead: int, lead_r: int, workers: int) -> Program:
    w = Writer(_square(n, lead, TILE), _square(n, lead_r, TILE))
    _write_cholesky(w, 0, 1)
    return w.program(workers)


def cholesky(A: Array, R: Array) -> bool:
    """The Cholesky factor of A into R, which may be A; False if there is none. Twin of numpy.linalg.cholesky."""
    workers = _workers(len(A))
    return run(_cholesky(len(A), _lead(A), _lead(R), workers), workers, A, R) and _regular(R)


@functools.lru_cache(32)
def _update_and_factor(n: int, K: int, leads: tuple[int, int, int], workers: int) -> Program:
    cuts, _, _ = square = _square(n, leads[1], TILE)
    w = Writer((cuts, [0, K], leads[0]), square, _square(n, leads[2], TILE))
    _write_update(w, "N", 0, 1)
    _write_cholesky(w, 1, 2)
    return w.program(workers)


def update_and_factor(alpha: float, X: Array, beta: float, C: Array, R: Array) -> bool:
    """:func:`rank_update` of C, and its :func:`cholesky` factor into R: the factor begins before the update has ended."""
    workers = _workers(len(C))
    program = _update_and_factor(*X.shape, (_lead(X), _lead(C), _lead(R)), workers)
    return run(program, workers, X, C, R, alpha=alpha, beta=beta) and _regular(R)


def _regular(R: Array) -> bool:
    """Whether a factor is one: LAPACK does not look for numbers that are none."""
    return bool(np.isfinite(np.diagonal(R)).all())


@functools.lru_cache(32)
def _invert(n: int, lead: int, workers: int) -> Program:
    w, tiles = Writer(square := _square(n, lead, TILE)), range(len(square[0]) - 1)
    at = lambda i, j: _block(0, i, j)
    for k in tiles:  # L becomes X = L⁻¹
        for i in tiles[k + 1 :]:
            w.triangle("dtrsm", "R", "N", MINUS, at(k, k), at(i, k))
            for j in tiles[:k]:
                w.gemm("N", "N", ONE, at(i, k), at(k, j), ONE, at(i, j))
        for j in tiles[:k]:
            w.triangle("dtrsm", "L", "N", ONE, at(k, k), at(k, j))
        w.corner("dtrtri", at(k, k))
    for k in tiles:  # X becomes XᵀX
        for j in tiles[:k]:
            w.syrk("T", ONE, at(k, j), ONE, at(j, j))
            for i in tiles[j + 1 : k]:
                w.gemm("T", "N", ONE, at(k, i), at(k, j), ONE, at(i, j))
        for j in tiles[:k]:
            w.triangle("dtrmm", "L", "T", ONE, at(k, k), at(k, j))
        w.corner("dlauum", at(k, k))
    return w.program(workers)


def invert(L: Array) -> None:
    """L becomes the lower triangle of (L Lᵀ)⁻¹. Twin of ``np.linalg.inv(L @ L.T)``."""
    workers = _workers(len(L))
    run(_invert(len(L), _lead(L), workers), workers, L)

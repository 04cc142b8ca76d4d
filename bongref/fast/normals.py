"""Standard normal variates from uniform ones, by the inverse of the distribution function. Twin of gaussians.normals.

A uniform variate u is k/2⁵³; (u − ½) + 2⁻⁵⁴ = q is the middle of its cell, exactly, and so is the tail r = ½ − |q|. On each of 32 parts
of each octave of r the quantile is a polynomial of degree 7 to rounding, whose coefficients are one line of a table: no branches, no
logarithm, no root. Four numbers at a time: four lines are loaded and transposed.

The uniform variates of NumPy's default generator, PCG64, are drawn here as well: its state is a number of 128 bits that each step
multiplies and increments (modulo 2¹²⁸), so that four steps are one such step too, and four chains give every fourth number each without
waiting for one another. In the same way the generator goes forward by any number of steps at once.
"""

from __future__ import annotations

import functools
from statistics import NormalDist
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from .elementary import bits, from_bits
from .jit import inner, kernel, ordered
from .parts import CHOSEN

SHIFT = 47  # of the 52 bits of the fraction 5 choose the part
FIRST = (1023 - 54) << 5  # the part at which r = 2⁻⁵⁴ lies
LOW, HALF = (1 << SHIFT) - 1, 1 << (SHIFT - 1)
SIGN = -(1 << 63)

# --- the quantile ------------------------------------------------------------------------------------------------------------


@functools.cache
def table() -> np.ndarray:
    """(53 · 32, 8): for each part of (2⁻⁵⁴, ½) the coefficients of −Φ⁻¹(c + x) in powers of x, c the middle of the part."""
    part = np.arange(53 * 32)
    octave = 2.0 ** (part // 32 - 54)
    half = octave / 64
    centre = octave * (1 + (part % 32 + 0.5) / 32)
    nodes = np.cos(np.pi * (np.arange(8) + 0.5) / 8)
    tails = centre[:, None] + half[:, None] * nodes
    quantile = NormalDist().inv_cdf  # to 4 eps, and there at once: scipy.special takes longer to import than this to run
    values = -np.array([quantile(r) for r in tails.flat]).reshape(tails.shape)
    scaled = np.linalg.solve(np.vander(nodes, 8, increasing=True), values.T).T
    return np.ascontiguousarray(scaled / half[:, None] ** np.arange(8))


@ordered
def normal(u, coefficients):
    """Φ⁻¹(u + 2⁻⁵⁴)."""
    q = (u - 0.5) + 2.0**-54
    r = 0.5 - abs(q)
    word = bits(r)
    a = coefficients[(word >> SHIFT) - FIRST]
    x = r - from_bits((word & ~LOW) | HALF)
    w = x * x
    z = (a[0] + x * a[1]) + w * ((a[2] + x * a[3]) + w * ((a[4] + x * a[5]) + w * (a[6] + x * a[7])))
    return -z if q < 0.0 else z


def four_normals(z: Any, i: int, coefficients: Any) -> None:
    """z[i], …, z[i + 3], uniform, become normal. Twin of :func:`normal`."""
    for k in range(i, i + 4):
        z[k] = normal(z[k], coefficients)


def _four_lanes(typingctx, z, i, coefficients):
    """:func:`four_normals` in vectors of four numbers, operation for operation."""
    I32, I64, F64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()
    V2, V4, I4 = ir.VectorType(F64, 2), ir.VectorType(F64, 4), ir.VectorType(I64, 4)

    def lower(context, b, signature, args):
        pointer = lambda k: context.make_array(signature.args[k])(context, b, args[k]).data
        four = lambda kind, value: ir.Constant(kind, [ir.Constant(kind.element, value)] * 4)
        choose = lambda x, y, *lanes: b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, 4), [ir.Constant(I32, k) for k in lanes]))
        multiply_add = lambda a, x, c: b.fadd(a, b.fmul(x, c, flags=("contract",)), flags=("contract",))
        place = b.bitcast(b.gep(pointer(0), [args[1]]), V4.as_pointer())
        q = b.fadd(b.fsub(b.load(place, align=8), four(V4, 0.5)), four(V4, 2.0**-54))
        sign = b.and_(b.bitcast(q, I4), four(I4, SIGN))
        r = b.fsub(four(V4, 0.5), b.bitcast(b.xor(b.bitcast(q, I4), sign), V4))
        word = b.bitcast(r, I4)
        x = b.fsub(r, b.bitcast(b.or_(b.and_(word, four(I4, ~LOW)), four(I4, HALF)), V4))
        part = b.sub(b.lshr(word, four(I4, SHIFT)), four(I4, FIRST))
        first = [b.shl(b.extract_element(part, ir.Constant(I32, k)), ir.Constant(I64, 3)) for k in range(4)]
        lines = [b.bitcast(b.gep(pointer(2), [k]), V2.as_pointer()) for k in first]
        terms = []  # a₀ + a₁x, a₂ + a₃x, … of the four numbers
        for pair in range(4):
            of = [b.load(b.gep(line, [ir.Constant(I64, pair)]), align=8) for line in lines]
            even, odd = choose(of[0], of[2], 0, 1, 2, 3), choose(of[1], of[3], 0, 1, 2, 3)
            terms.append(multiply_add(choose(even, odd, 0, 4, 2, 6), x, choose(even, odd, 1, 5, 3, 7)))
        w = b.fmul(x, x)
        value = terms[3]
        for term in terms[2::-1]:
            value = multiply_add(term, w, value)
        b.store(b.bitcast(b.xor(b.bitcast(value, I4), sign), V4), place, align=8)
        return context.get_dummy_value()

    return types.void(z, i, coefficients), lower


_four_normals: Any = intrinsic(_four_lanes)


@overload(four_normals, jit_options=CHOSEN)
def _overload_four_normals(z, i, coefficients):
    return lambda z, i, coefficients: _four_normals(z, i, coefficients)


@inner
def to_normal(u, coefficients):
    """Uniform variates (n,) become normal ones in place. Twin of scipy.special.ndtri."""
    whole = len(u) // 4 * 4
    for i in range(0, whole, 4):
        four_normals(u, i, coefficients)
    for i in range(whole, len(u)):
        u[i] = normal(u[i], coefficients)


@kernel
def transform(u, coefficients):
    """:func:`to_normal`, called from Python."""
    to_normal(u, coefficients)


# --- the uniform variates of PCG64 -------------------------------------------------------------------------------------------

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
WORD, MODULUS = 2**64, 2**128
U1, U2, U3, U11, U58 = (np.uint64(k) for k in (1, 2, 3, 11, 58))


def lcg(high: Any, low: Any, jump: Any) -> tuple[Any, Any]:
    """The two halves of state · a + c modulo 2¹²⁸; jump holds the halves of a and of c."""
    a, c = (int(jump[k]) * WORD + int(jump[k + 1]) for k in (0, 2))
    state = ((int(high) * WORD + int(low)) * a + c) % MODULUS
    return np.uint64(state // WORD), np.uint64(state % WORD)


def rotated(x: Any, n: Any) -> Any:
    """The 64 bits of x, moved n places to the right, those that fall off put in front."""
    x, n = int(x), int(n)
    return np.uint64((x >> n | x << (64 - n)) % WORD)


def _lcg_halves(typingctx, high, low, a, b, c, d):
    I64, I128 = ir.IntType(64), ir.IntType(128)

    def lower(context, builder, signature, args):
        h, m, add = ((builder.zext(args[k], I128), builder.zext(args[k + 1], I128)) for k in (0, 2, 4))
        whole = [builder.or_(builder.shl(x, ir.Constant(I128, 64)), y) for x, y in (h, m, add)]
        state = builder.add(builder.mul(whole[0], whole[1]), whole[2])
        halves = builder.trunc(builder.lshr(state, ir.Constant(I128, 64)), I64), builder.trunc(state, I64)
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(*[types.uint64] * 6), lower


def _rotation(typingctx, x, n):
    I64 = ir.IntType(64)

    def lower(context, builder, signature, args):
        shift = builder.module.declare_intrinsic("llvm.fshr", [I64], ir.FunctionType(I64, [I64] * 3))
        return builder.call(shift, [args[0], args[0], args[1]])

    return types.uint64(types.uint64, types.uint64), lower


_lcg: Any = intrinsic(_lcg_halves)
_rotated: Any = intrinsic(_rotation)


@overload(lcg)
def _overload_lcg(high, low, jump):
    return lambda high, low, jump: _lcg(high, low, jump[0], jump[1], jump[2], jump[3])


@overload(rotated)
def _overload_rotated(x, n):
    return lambda x, n: _rotated(x, n)


@inner
def uniform(high, low):
    """The number that PCG64 gives out at this state. Twin of numpy.random.Generator.random."""
    return np.float64(np.int64(rotated(high ^ low, high >> U58) >> U11)) * 2.0**-53


@inner
def place_chains(state, one, apart, to, chains):
    """Four states, the rows of chains (4, 2): the first gives the number after the jump ``to``, each next one ``apart`` from the last."""
    h, l = lcg(state[0], state[1], to)
    h, l = lcg(h, l, one)
    for k in range(4):
        chains[k, 0], chains[k, 1] = h, l
        h, l = lcg(h, l, apart)


@inner
def to_uniform(chains, stride, u):
    """Uniform variates, of each of the chains (4, 2) in turn, which moves on by the jump ``stride``. Twin of Generator.random."""
    h0, l0, h1, l1 = chains[0, 0], chains[0, 1], chains[1, 0], chains[1, 1]
    h2, l2, h3, l3 = chains[2, 0], chains[2, 1], chains[3, 0], chains[3, 1]
    jump = stride[0], stride[1], stride[2], stride[3]
    for k in range(len(u) // 4):
        i = np.uint64(4 * k)
        u[i], u[i + U1], u[i + U2], u[i + U3] = uniform(h0, l0), uniform(h1, l1), uniform(h2, l2), uniform(h3, l3)
        h0, l0 = lcg(h0, l0, jump)
        h1, l1 = lcg(h1, l1, jump)
        h2, l2 = lcg(h2, l2, jump)
        h3, l3 = lcg(h3, l3, jump)
    for i in range(len(u) // 4 * 4, len(u)):
        u[i] = uniform(h0, l0)
        h, l = lcg(h0, l0, jump)
        h0, l0, h1, l1, h2, l2, h3, l3 = h1, l1, h2, l2, h3, l3, h, l
    chains[0, 0], chains[0, 1], chains[1, 0], chains[1, 1] = h0, l0, h1, l1
    chains[2, 0], chains[2, 1], chains[3, 0], chains[3, 1] = h2, l2, h3, l3


@kernel
def fill(state, jumps, coefficients, z):
    """z (n,) = normal variates from a state of PCG64 on; jumps of one step, four, and none. Twin of gaussians.normals."""
    chains = np.empty((4, 2), np.uint64)
    place_chains(state, jumps[0], jumps[0], jumps[2], chains)
    to_uniform(chains, jumps[1], z)
    to_normal(z, coefficients)


def _jump(increment: int, n: int) -> list[int]:
    """n steps as one: the halves of its multiplier and of its increment."""
    a, c = MULTIPLIER, increment
    A, C = 1, 0
    while n:
        if n % 2:
            A, C = A * a % MODULUS, (C * a + c) % MODULUS
        a, c, n = a * a % MODULUS, (a + 1) * c % MODULUS, n // 2
    return [A // WORD, A % WORD, C // WORD, C % WORD]


class PCG:
    """NumPy's default generator, for kernels that draw by themselves: ``state`` is theirs, ``close`` gives it back."""

    def __init__(self, rng: np.random.Generator):
        self.generator, self.state = rng.bit_generator, np.zeros(2, dtype=np.uint64)
        self.read()
        self.increment = self.whole["state"]["inc"]

    def read(self) -> None:
        """Start where the generator stands."""
        self.whole: Any = self.generator.state
        self.state[:] = np.array(divmod(self.whole["state"]["state"], WORD), dtype=np.uint64)

    def jumps(self, *numbers: int) -> np.ndarray:
        """Rows for :func:`lcg`: these numbers of steps."""
        return np.array([_jump(self.increment, n) for n in numbers], dtype=np.uint64)

    def advance(self, jump: np.ndarray) -> None:
        """As many steps as the row ``jump`` stands for."""
        self.state[:] = lcg(self.state[0], self.state[1], jump)

    def close(self) -> None:
        """The generator stands where the numbers drawn so far have led it."""
        high, low = (int(half) for half in self.state)
        self.generator.state = {**self.whole, "state": {"state": high * WORD + low, "inc": self.increment}}


def is_pcg(rng: Any) -> bool:
    """Whether this is NumPy's default generator; the numbers of others are drawn by NumPy."""
    return isinstance(rng, np.random.Generator) and type(rng.bit_generator) is np.random.PCG64

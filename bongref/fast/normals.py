"""Standard normal variates from uniform ones, by the inverse of the distribution function. Twin of gaussians.normals.

A uniform variate u is k/2⁵³, k the first 53 of 64 bits; (u − ½) + 2⁻⁵⁴ = q is the middle of its cell, exactly, and so is the tail ½ − |q|,
(j + ½)/2⁵³ with j = k or, where the first bit is 1, k with all bits changed. On each of 32 parts of each octave of r = j + ½ the quantile
is a polynomial of degree 7 to rounding, whose coefficients are one line of a table: no branches, no logarithm, no root. Four numbers at a
time: four lines are loaded and transposed.

The bits are those of NumPy's default generator, PCG64: its state is a number of 128 bits that each step multiplies and increments (modulo
2¹²⁸), so that four steps are one such step too, and four chains give every fourth number each without waiting for one another. In the same
way the generator goes forward by any number of steps at once. The next bits and the last quantiles are computed side by side, by different
units of the processor.
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
from .jit import config, inner, kernel, ordered
from .vectors import apart, four, store4

SHIFT = 47  # of the 52 bits of the fraction 5 choose the part
FIRST = (1023 - 1) << 5  # the part at which r = ½ lies
LOW, HALF = (1 << SHIFT) - 1, 1 << (SHIFT - 1)
SIGN, TOP = -(1 << 63), 2.0**52
WORD, MODULUS = 2**64, 2**128
U11, U58, U63 = (np.uint64(k) for k in (11, 58, 63))

# --- the quantile ------------------------------------------------------------------------------------------------------------


@functools.cache
def table() -> np.ndarray:
    """(53 · 32, 8): for each part of (½, 2⁵²) the coefficients of Φ⁻¹((c + x)/2⁵³) in powers of x, c the middle of the part."""
    part = np.arange(53 * 32)
    octave = 2.0 ** (part // 32 - 1)
    half = octave / 64
    centre = octave * (1 + (part % 32 + 0.5) / 32)
    nodes = np.cos(np.pi * (np.arange(8) + 0.5) / 8)
    tails = (centre[:, None] + half[:, None] * nodes) / 2.0**53
    quantile = NormalDist().inv_cdf  # to 4 eps, and there at once: scipy.special takes longer to import than this to run
    values = np.array([quantile(r) for r in tails.flat]).reshape(tails.shape)
    scaled = np.linalg.solve(np.vander(nodes, 8, increasing=True), values.T).T
    return np.ascontiguousarray(scaled / half[:, None] ** np.arange(8))


@ordered
def normal(word, coefficients):
    """Φ⁻¹ at the middle of the cell that the first 53 bits of a word name."""
    upper = word >> U63
    r = np.float64(np.int64((~word if upper else word) >> U11)) + 0.5
    found = bits(r)
    a = coefficients[(found >> SHIFT) - FIRST]
    x = r - from_bits((found & ~LOW) | HALF)
    w = x * x
    z = (a[0] + x * a[1]) + w * ((a[2] + x * a[3]) + w * ((a[4] + x * a[5]) + w * (a[6] + x * a[7])))
    return -z if upper else z


def _four_lanes(typingctx, a, b, c, d, coefficients):
    """:func:`normal` of four words in a vector, operation for operation."""
    I32, I64, F64 = ir.IntType(32), ir.IntType(64), ir.DoubleType()
    V2, V4, I4 = ir.VectorType(F64, 2), ir.VectorType(F64, 4), ir.VectorType(I64, 4)

    def lower(context, b, signature, args):
        four = lambda kind, value: ir.Constant(kind, [ir.Constant(kind.element, value)] * 4)
        choose = lambda x, y, *lanes: b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, 4), [ir.Constant(I32, k) for k in lanes]))
        multiply_add = lambda a, x, c: b.fadd(a, b.fmul(x, c, flags=("contract",)), flags=("contract",))
        word: Any = ir.Constant(I4, ir.Undefined)
        for k in range(4):
            word = b.insert_element(word, args[k], ir.Constant(I32, k))
        tail = b.lshr(b.xor(word, b.ashr(word, four(I4, 63))), four(I4, 11))
        r = b.fsub(b.bitcast(b.or_(tail, four(I4, 0x433 << 52)), V4), four(V4, TOP - 0.5))
        found = b.bitcast(r, I4)
        x = b.fsub(r, b.bitcast(b.or_(b.and_(found, four(I4, ~LOW)), four(I4, HALF)), V4))
        line = b.and_(b.lshr(found, four(I4, SHIFT - 6)), four(I4, -64))  # bytes
        data = b.bitcast(context.make_array(signature.args[4])(context, b, args[4]).data, ir.IntType(8).as_pointer())
        data = b.gep(data, [ir.Constant(I64, -64 * FIRST)])
        lines = [b.bitcast(b.gep(data, [b.extract_element(line, ir.Constant(I32, k))]), V2.as_pointer()) for k in range(4)]
        terms = []  # a₀ + a₁x, a₂ + a₃x, … of the four numbers
        for pair in range(4):
            of = [b.load(b.gep(place, [ir.Constant(I64, pair)]), align=8) for place in lines]
            even, odd = choose(of[0], of[2], 0, 1, 2, 3), choose(of[1], of[3], 0, 1, 2, 3)
            terms.append(multiply_add(choose(even, odd, 0, 4, 2, 6), x, choose(even, odd, 1, 5, 3, 7)))
        w = b.fmul(x, x)
        value = terms[3]
        for term in terms[2::-1]:
            value = multiply_add(term, w, value)
        return b.bitcast(b.xor(b.bitcast(value, I4), b.and_(word, four(I4, SIGN))), V4)

    return four(*[types.uint64] * 4, coefficients), lower


def _plain_four(a, b, c, d, coefficients):
    return np.array([normal(word, coefficients) for word in (a, b, c, d)])


normal4: Any = _plain_four if config.DISABLE_JIT else intrinsic(_four_lanes)  # :func:`normal` of four words


@kernel
def transform(u, coefficients):
    """Uniform variates (n,) become normal ones in place. Twin of gaussians.normals."""
    for i in range(len(u)):
        u[i] = normal(np.uint64(np.int64(u[i] * 2.0**53)) << U11, coefficients)


# --- PCG64 -------------------------------------------------------------------------------------------------------------------

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645


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
def output(high, low):
    """The 64 bits that PCG64 gives out at this state. Twin of numpy.random.PCG64.random_raw."""
    return rotated(high ^ low, high >> U58)


@inner
def place_chains(state, one, apart, to, chains):
    """Four states, the rows of chains (4, 2): the first gives the number after the jump ``to``, each next one ``apart`` from the last."""
    h, l = lcg(state[0], state[1], to)
    h, l = lcg(h, l, one)
    for k in range(4):
        chains[k, 0], chains[k, 1] = h, l
        h, l = lcg(h, l, apart)


@inner
def draw(chains, stride, coefficients, z):
    """z (n,) = normal variates, of each of the chains (4, 2) in turn, which moves on by the jump ``stride``. Twin of gaussians.normals."""
    apart()
    h0, l0, h1, l1 = chains[0, 0], chains[0, 1], chains[1, 0], chains[1, 1]
    h2, l2, h3, l3 = chains[2, 0], chains[2, 1], chains[3, 0], chains[3, 1]
    jump = stride[0], stride[1], stride[2], stride[3]
    for i in range(0, len(z) // 4 * 4, 4):
        store4(z, i, normal4(output(h0, l0), output(h1, l1), output(h2, l2), output(h3, l3), coefficients))
        h0, l0 = lcg(h0, l0, jump)
        h1, l1 = lcg(h1, l1, jump)
        h2, l2 = lcg(h2, l2, jump)
        h3, l3 = lcg(h3, l3, jump)
    for i in range(len(z) // 4 * 4, len(z)):
        z[i] = normal(output(h0, l0), coefficients)
        h, l = lcg(h0, l0, jump)
        h0, l0, h1, l1, h2, l2, h3, l3 = h1, l1, h2, l2, h3, l3, h, l
    chains[0, 0], chains[0, 1], chains[1, 0], chains[1, 1] = h0, l0, h1, l1
    chains[2, 0], chains[2, 1], chains[3, 0], chains[3, 1] = h2, l2, h3, l3


@kernel
def fill(state, jumps, coefficients, z):
    """z (n,) = normal variates from a state of PCG64 on; jumps of one step, four, and none. Twin of gaussians.normals."""
    chains = np.empty((4, 2), np.uint64)
    place_chains(state, jumps[0], jumps[0], jumps[2], chains)
    draw(chains, jumps[1], coefficients, z)


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

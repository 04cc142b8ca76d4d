"""The DLR steps of bong and bog where S has one row, S = s₀ j, in machine code. Twins of :mod:`bongref.families.dlr`.

W̃ = [W, s₀ j] has one row more than W, so that bong loses one singular direction, the least: z = W̃ v. The reflection that takes v to the
last row leaves the others as the new W, of which only W Wᵀ counts: a change of rank one, as bog's is. v is the eigenvector of W̃ᵀW̃; what
rounding has done to that product is measured on W̃ itself, as the part of W̃ᵀz beside v, and turned away. Where a row of W̃ has next to
nothing beside those before it the step is left to :mod:`.dlr`, whose W has orthogonal rows again.

The parameters are in one or several parts, for as many threads. Small matrices are flat, with N numbers in a row, a multiple of 4.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..jit import inlined, inner, ordered
from ..vectors import aligned, apart, fill4, load4, muladd, spread4, store4, sum4
from .dlr import LARGE, LOST, MEASURE, OK, SETTLE, SMALL, SWEEPS, divide, triangular, verdict

REDO = 4  # a code: the step is one for the kernels of dlr
CHECK = 1  # a kind of job
GOLDEN = 0.6180339887498949
LITTLE = 1e-9  # of the square of a row, what has to be left of it beside the rows before
INVERSE, LOSS, STEP = range(3)  # rows of One.tall
GRAM, WEIGHED, ROOT = range(3)  # of One.small
SPARE, DIRECTION, MEAN, REST, BACK = range(5)  # of One.few


class One(NamedTuple):
    """Room for a step with n = R + 1 rows of W̃."""

    x: Any  # (parts, 2 · n · stride) blocks of the rows, as they are and over Υ
    sums: Any  # (parts, 2, …) the products of the rows in vectors, as ring gives them
    dots: Any  # (parts, 4 · N)
    tall: Any  # (3, P): 1/Υ; z; Υ times the step of the mean, or for bog Υ^{-1/2}
    small: Any  # (3, N · N): W̃ᵀW̃; W̃ᵀΥ⁻¹W̃; the last triangular factor
    few: Any  # (5, N): of the last row z has s₀ and this; v; the mean's coefficients; what is left; 1 over the diagonal of the factor
    places: Any  # where a row is in a block, the rows in a ring
    wrong: Any  # (parts, 2) as in dlr.Buffers
    shape: Any  # width of a block; parameters in a part; the kind of job under way


def one(R, P, parts):
    """Room for :class:`One`."""
    n, N = R + 1, (R + 4) // 4 * 4
    share = -(-P // parts // 16) * 16
    most = max(16, 1800 // n)  # columns: both blocks stay in the first level cache
    width = -(-share // -(-share // most) // 16) * 16
    stride = width + 4
    across, around = -(-n // 4) * 4, -(-(n // 2 + 1) // 3) * 3
    return One(
        aligned(parts, 2 * n * stride), np.zeros((parts, 2, 4 * across * around)), np.zeros((parts, 4 * N)), np.zeros((3, P)),
        np.zeros((3, N * N)), np.zeros((5, N)), np.arange(across + around + 3) % n * stride, np.zeros((parts, 2)),
        np.array([width, share, 0]),
    )  # fmt: skip


# --- over a part of the parameters ---------------------------------------------------------------------------------------------


@inner
def ring(n, x, at, w, places, sums):
    """The vectors (i, d) of sums gain the products of row i, from ``at`` on, and row i + d, from 0 on, for d ≤ n/2, the rows in a ring.

    These are all pairs of rows, once. Twelve sums at a time in registers; their lanes are not added up here.
    """
    apart()
    s, e = 0, 4 * (len(places) - 3 - (n + 3) // 4 * 4)
    for i in range(0, n, 4):
        y0, y1, y2, y3 = at + places[i], at + places[i + 1], at + places[i + 2], at + places[i + 3]
        for d in range(0, n // 2 + 1, 3):
            k = i + d
            x0, x1, x2, x3, x4, x5 = places[k], places[k + 1], places[k + 2], places[k + 3], places[k + 4], places[k + 5]
            t = s + 4 * d
            a0, a1, a2 = load4(sums, t), load4(sums, t + 4), load4(sums, t + 8)
            b0, b1, b2 = load4(sums, t + e), load4(sums, t + e + 4), load4(sums, t + e + 8)
            c0, c1, c2 = load4(sums, t + 2 * e), load4(sums, t + 2 * e + 4), load4(sums, t + 2 * e + 8)
            d0, d1, d2 = load4(sums, t + 3 * e), load4(sums, t + 3 * e + 4), load4(sums, t + 3 * e + 8)
            for p in range(0, w, 4):
                y = load4(x, y0 + p)
                u1, u2 = load4(x, x1 + p), load4(x, x2 + p)
                a0, a1, a2 = muladd(a0, y, load4(x, x0 + p)), muladd(a1, y, u1), muladd(a2, y, u2)
                y, u3 = load4(x, y1 + p), load4(x, x3 + p)
                b0, b1, b2 = muladd(b0, y, u1), muladd(b1, y, u2), muladd(b2, y, u3)
                y, u4 = load4(x, y2 + p), load4(x, x4 + p)
                c0, c1, c2 = muladd(c0, y, u2), muladd(c1, y, u3), muladd(c2, y, u4)
                y = load4(x, y3 + p)
                d0, d1, d2 = muladd(d0, y, u3), muladd(d1, y, u4), muladd(d2, y, load4(x, x5 + p))
            store4(sums, t, a0)
            store4(sums, t + 4, a1)
            store4(sums, t + 8, a2)
            store4(sums, t + e, b0)
            store4(sums, t + e + 4, b1)
            store4(sums, t + e + 8, b2)
            store4(sums, t + 2 * e, c0)
            store4(sums, t + 2 * e + 4, c1)
            store4(sums, t + 2 * e + 8, c2)
            store4(sums, t + 3 * e, d0)
            store4(sums, t + 3 * e + 4, d1)
            store4(sums, t + 3 * e + 8, d2)
        s += 4 * e


@inner
def place(rows, at, w, u, here, x, to, mid):
    """``w`` numbers of flat rows from ``at`` on, in x from ``to`` on, and times u in x from ``mid`` on; then 0 up to a multiple of 4."""
    whole, zero = w // 4 * 4, fill4(0.0)
    for p in range(0, whole, 4):
        v = load4(rows, at + p)
        store4(x, to + p, v)
        store4(x, mid + p, muladd(zero, v, load4(u, here + p)))
    if whole < w:
        store4(x, to + whole, zero)
        store4(x, mid + whole, zero)
        for p in range(whole, w):
            x[to + p] = rows[at + p]
            x[mid + p] = rows[at + p] * u[here + p]


@inner
def place_weighed(rows, at, w, u, here, x, to):
    """``w`` numbers of flat rows from ``at`` on, times u, in x from ``to`` on; then 0 up to a multiple of 4."""
    whole, zero = w // 4 * 4, fill4(0.0)
    for p in range(0, whole, 4):
        store4(x, to + p, muladd(zero, load4(rows, at + p), load4(u, here + p)))
    if whole < w:
        store4(x, to + whole, zero)
        for p in range(whole, w):
            x[to + p] = rows[at + p] * u[here + p]


@inner
def measure(first, last, lose, flat, j, R, Ups, tall, x, width, places, sums):
    """The products of the rows of [W, j], over Υ and, where bong loses a direction, as they are; 1/Υ, and else its root."""
    n, P, stride, mid, inverse, root = R + 1, len(j), width + 4, (R + 1) * (width + 4), tall[INVERSE], tall[STEP]
    for i in range(sums.shape[1]):
        sums[0, i] = sums[1, i] = 0.0
    u, v, ups = inverse[first:last], root[first:last], Ups[first:last]
    for p in range(len(u)):
        u[p] = 1.0 / ups[p]
    for p in range(0 if lose else len(u)):
        v[p] = math.sqrt(u[p])
    for at in range(first, last, width):
        w = min(width, last - at)
        if lose:
            for i in range(R):
                place(flat, i * P + at, w, inverse, at, x, i * stride, mid + i * stride)
            place(j, at, w, inverse, at, x, R * stride, mid + R * stride)
            ring(n, x, mid, (w + 3) // 4 * 4, places, sums[WEIGHED])
        else:
            for i in range(R):
                place_weighed(flat, i * P + at, w, root, at, x, i * stride)
            place_weighed(j, at, w, root, at, x, R * stride)
        ring(n, x, 0, (w + 3) // 4 * 4, places, sums[GRAM if lose else WEIGHED])


@inner
def check(first, last, flat, j, R, P, few, tall, dots):
    """z and Υ times the step of the mean, both combinations of the rows; the dots of z with the rows, in vectors."""
    z, c, v, y, back = tall[LOSS], tall[STEP], few[DIRECTION], few[MEAN], few[SPARE]
    whole = first + (last - first) // 16 * 16
    for p in range(first, whole, 16):
        s, t = spread4(back, 0), spread4(y, R)
        x0, x1, x2, x3, zero = load4(j, p), load4(j, p + 4), load4(j, p + 8), load4(j, p + 12), fill4(0.0)
        a0, a1, a2, a3 = muladd(zero, s, x0), muladd(zero, s, x1), muladd(zero, s, x2), muladd(zero, s, x3)
        b0, b1, b2, b3 = muladd(zero, t, x0), muladd(zero, t, x1), muladd(zero, t, x2), muladd(zero, t, x3)
        at = p
        for i in range(R):
            s, t = spread4(v, i), spread4(y, i)
            x = load4(flat, at)
            a0, b0 = muladd(a0, s, x), muladd(b0, t, x)
            x = load4(flat, at + 4)
            a1, b1 = muladd(a1, s, x), muladd(b1, t, x)
            x = load4(flat, at + 8)
            a2, b2 = muladd(a2, s, x), muladd(b2, t, x)
            x = load4(flat, at + 12)
            a3, b3 = muladd(a3, s, x), muladd(b3, t, x)
            at += P
        store4(z, p, a0)
        store4(z, p + 4, a1)
        store4(z, p + 8, a2)
        store4(z, p + 12, a3)
        store4(c, p, b0)
        store4(c, p + 4, b1)
        store4(c, p + 8, b2)
        store4(c, p + 12, b3)
        at = p
        for i in range(R):
            s = muladd(load4(dots, 4 * i), a0, load4(flat, at))
            s = muladd(s, a1, load4(flat, at + 4))
            s = muladd(s, a2, load4(flat, at + 8))
            store4(dots, 4 * i, muladd(s, a3, load4(flat, at + 12)))
            at += P
        store4(dots, 4 * R, muladd(muladd(muladd(muladd(load4(dots, 4 * R), a0, x0), a1, x1), a2, x2), a3, x3))
    for p in range(whole, last):
        z[p], c[p] = back[0] * j[p], y[R] * j[p]
        for i in range(R):
            z[p] += v[i] * flat[i * P + p]
            c[p] += y[i] * flat[i * P + p]
        for i in range(R):
            dots[4 * i] += z[p] * flat[i * P + p]
        dots[4 * R] += z[p] * j[p]


@inner
def turn(first, last, flat, j, R, P, few, z):
    """W becomes the first R rows of the reflection of W̃: all rows lose a part of z and of the last one."""
    back, rest, whole = few[SPARE], few[REST], first + (last - first) // 16 * 16
    for p in range(first, whole, 16):
        s = spread4(back, 1)
        t0, t1 = muladd(load4(z, p), s, load4(j, p)), muladd(load4(z, p + 4), s, load4(j, p + 4))
        t2, t3 = muladd(load4(z, p + 8), s, load4(j, p + 8)), muladd(load4(z, p + 12), s, load4(j, p + 12))
        at = p
        for i in range(R):
            f = spread4(rest, i)
            store4(flat, at, muladd(load4(flat, at), f, t0))
            store4(flat, at + 4, muladd(load4(flat, at + 4), f, t1))
            store4(flat, at + 8, muladd(load4(flat, at + 8), f, t2))
            store4(flat, at + 12, muladd(load4(flat, at + 12), f, t3))
            at += P
    for p in range(whole, last):
        for i in range(R):
            flat[i * P + p] += rest[i] * (z[p] + back[1] * j[p])


@inner
def gain(first, last, flat, j, R, P, few, inverse, rate, half, mu, Ups):
    """The new state of bog: z = Υ⁻¹ (W v + s₀ j), half of α z² for Υ, the rate times j for μ, and z for each row of W its times."""
    v, rest, back, whole, zero = few[DIRECTION], few[REST], few[SPARE], first + (last - first) // 16 * 16, fill4(0.0)
    for p in range(first, whole, 16):
        s, t = spread4(back, 0), fill4(rate)
        x0, x1, x2, x3 = load4(j, p), load4(j, p + 4), load4(j, p + 8), load4(j, p + 12)
        store4(mu, p, muladd(load4(mu, p), t, x0))
        store4(mu, p + 4, muladd(load4(mu, p + 4), t, x1))
        store4(mu, p + 8, muladd(load4(mu, p + 8), t, x2))
        store4(mu, p + 12, muladd(load4(mu, p + 12), t, x3))
        a0, a1, a2, a3 = muladd(zero, s, x0), muladd(zero, s, x1), muladd(zero, s, x2), muladd(zero, s, x3)
        at = p
        for i in range(R):
            s = spread4(v, i)
            a0, a1 = muladd(a0, s, load4(flat, at)), muladd(a1, s, load4(flat, at + 4))
            a2, a3 = muladd(a2, s, load4(flat, at + 8)), muladd(a3, s, load4(flat, at + 12))
            at += P
        a0, a1 = muladd(zero, a0, load4(inverse, p)), muladd(zero, a1, load4(inverse, p + 4))
        a2, a3 = muladd(zero, a2, load4(inverse, p + 8)), muladd(zero, a3, load4(inverse, p + 12))
        t = fill4(half)
        store4(Ups, p, muladd(load4(Ups, p), muladd(zero, t, a0), a0))
        store4(Ups, p + 4, muladd(load4(Ups, p + 4), muladd(zero, t, a1), a1))
        store4(Ups, p + 8, muladd(load4(Ups, p + 8), muladd(zero, t, a2), a2))
        store4(Ups, p + 12, muladd(load4(Ups, p + 12), muladd(zero, t, a3), a3))
        at = p
        for i in range(R):
            f = spread4(rest, i)
            store4(flat, at, muladd(load4(flat, at), f, a0))
            store4(flat, at + 4, muladd(load4(flat, at + 4), f, a1))
            store4(flat, at + 8, muladd(load4(flat, at + 8), f, a2))
            store4(flat, at + 12, muladd(load4(flat, at + 12), f, a3))
            at += P
    for p in range(whole, last):
        z = back[0] * j[p]
        for i in range(R):
            z += v[i] * flat[i * P + p]
        z *= inverse[p]
        mu[p] += rate * j[p]
        Ups[p] += half * z * z
        for i in range(R):
            flat[i * P + p] += rest[i] * z


@inner
def one_part(kind, k, lose, Wt, flat, j, mu, Ups, s, alpha, b):
    """Part k of one of the jobs of :func:`one_step`: the products of the rows; z; the new state."""
    apart()
    P, R = len(mu), len(Wt)
    first = min(P, k * b.shape[1])
    last, wrong, below = min(P, first + b.shape[1]), 0.0, 0
    if kind == MEASURE:
        measure(first, last, lose, flat, j, R, Ups, b.tall, b.x[k], b.shape[0], b.places, b.sums[k])
    if kind == CHECK:
        dots = b.dots[k]
        for i in range(len(dots)):
            dots[i] = 0.0
        check(first, last, flat, j, R, P, b.few, b.tall, dots)
    if kind == SETTLE:
        m, u, inverse = mu[first:last], Ups[first:last], b.tall[INVERSE, first:last]
        if lose:
            z, c = b.tall[LOSS, first:last], b.tall[STEP, first:last]
            for p in range(len(m)):
                m[p] += inverse[p] * c[p]
                u[p] += z[p] * z[p]
            turn(first, last, flat, j, R, P, b.few, b.tall[LOSS])
        else:
            gain(first, last, flat, j, R, P, b.few, b.tall[INVERSE], alpha * s[1], 0.5 * alpha, mu, Ups)
        for p in range(len(m)):
            wrong += 0.0 * (m[p] + u[p])
            below += 0 if u[p] > 0.0 else 1
    b.wrong[k, 0] = wrong
    b.wrong[k, 1] = below


# --- small matrices ----------------------------------------------------------------------------------------------------------


@inner
def unroll(n, which, b):
    """A symmetric matrix from the sums of :func:`ring` over all parts."""
    A, N, at = b.small[which], b.few.shape[1], 0
    around = len(b.places) - 3 - (n + 3) // 4 * 4
    for i in range(n):
        for d in range(n // 2 + 1):
            k = i + d - (n if i + d >= n else 0)
            total = 0.0
            for part in range(len(b.sums)):
                total += sum4(load4(b.sums[part, which], at + 4 * d))
            A[i * N + k] = A[k * N + i] = total
        at += 4 * around


@ordered
def least(A, n, N, U, back, x, y):
    """x = the unit eigenvector of the least eigenvalue of A; U = its factor on entry, of A minus something less than that at the end.

    Inverse iteration; the shift goes up to where the eigenvalue is at least. False where that takes too long. Twin of numpy.linalg.eigh.
    """
    shift, before, high, size = 0.0, 1.0, math.inf, 0.0
    for i in range(n):  # something of every direction
        x[i] = back[i] * (1.0 + (GOLDEN * i - math.floor(GOLDEN * i)))
        size += x[i] * x[i]
    for i in range(n):
        x[i] /= math.sqrt(size)
    for _ in range(SWEEPS):
        square = along = off = 0.0
        for i in range(n):
            y[i] = x[i]
        divide(U, back, n, N, y)
        for i in range(n):
            square += y[i] * y[i]
            along += x[i] * y[i]
        size = math.sqrt(square)
        above = along / square  # how much the eigenvalue is above the shift, at most
        for i in range(n):
            y[i] /= size
            rest = x[i] / size - above * y[i]
            off += rest * rest
            x[i] = y[i]
        moved = off * square  # the square of the sine of the angle between the last two
        if not moved < math.inf or min(moved, moved * moved / before) <= 2.0**-104:
            return moved < math.inf
        slow, before = moved > 2.0**-20 or moved > 2.0**-10 * before, moved
        new = min(shift + (above - math.sqrt(off)), 0.5 * (shift + high))
        if slow and shift + 0.3 * (min(shift + above, high) - shift) < new:
            if triangular(A, n, N, new, U, back) > 0.0:
                shift = new
            else:
                high = new
                triangular(A, n, N, shift, U, back)
    return False


@ordered
def correct(n, N, s0, b):
    """Turn the direction v by what W̃ᵀz has beside it; the angle of the turn, 0 where it is lost in the rounding of W̃, or inf."""
    A, U, v, e, back = b.small[GRAM], b.small[ROOT], b.few[DIRECTION], b.few[REST], b.few[BACK]
    size = along = top = far = turned = norm = 0.0
    for i in range(n):
        total = 0.0
        for k in range(len(b.dots)):
            total += sum4(load4(b.dots[k], 4 * i))
        e[i] = total * s0 if i == n - 1 else total
        size += v[i] * e[i]
    for i in range(n):
        e[i] -= size * v[i]
    divide(U, back, n, N, e)
    for i in range(n):
        along += e[i] * v[i]
    for i in range(n):
        e[i] -= along * v[i]
        top, far, turned = max(top, A[i * N + i]), max(far, e[i] * e[i] * A[i * N + i]), max(turned, abs(e[i]))
    if not far < math.inf or not turned < 1e-3:
        return math.inf
    if far <= 2.0**-100 * top:
        return 0.0
    for i in range(n):
        v[i] -= e[i]
        norm += v[i] * v[i]
    for i in range(n):
        v[i] /= math.sqrt(norm)
    return turned


@inner
def scaled(n, N, A, s0):
    """The last row and column of A times s₀."""
    for i in range(n):
        A[i * N + n - 1] *= s0
    for i in range(n):
        A[(n - 1) * N + i] *= s0


@inner
def bong_small(n, N, s, b):
    """The coefficients of the mean's step, and the least direction of W̃, with the factor that it was found with; OK or REDO."""
    A, H, U, back, v, y, none = b.small[GRAM], b.small[WEIGHED], b.small[ROOT], b.few[BACK], b.few[DIRECTION], b.few[MEAN], -1
    unroll(n, WEIGHED, b)
    unroll(n, GRAM, b)
    for i in range(n):
        y[i] = s[1] * H[i * N + n - 1] * (s[0] if i == n - 1 else 1.0)
    scaled(n, N, H, s[0])
    scaled(n, N, A, s[0])
    for i in range(n):
        if not (A[i * N + i] == 0.0 or SMALL * SMALL < A[i * N + i] < LARGE * LARGE):
            return REDO
        none = i if A[i * N + i] == 0.0 else none
    if not triangular(H, n, N, -1.0, U, back) > 0.0:
        return REDO
    divide(U, back, n, N, y)
    for i in range(n):
        y[i] = s[1] - s[0] * y[i] if i == n - 1 else -y[i]
    if none >= 0:
        for i in range(n):
            v[i] = 1.0 if i == none else 0.0
        return OK
    if not triangular(A, n, N, 0.0, U, back) > LITTLE or not least(A, n, N, U, back, v, b.few[REST]):
        return REDO
    return OK


@inlined
def bong_one(jobs, task, R, s, b, board):
    """μ += (Υ + W̃W̃ᵀ)⁻¹ s₁ j, then Υ + W̃W̃ᵀ projected to rank R, W̃ = [W, s₀ j], in place. Twin of dlr.bong_woodbury."""
    v, rest, back = b.few[DIRECTION], b.few[REST], b.few[SPARE]
    jobs(MEASURE, task, b, board)
    code, turned, rounds = bong_small(R + 1, b.few.shape[1], s, b), 1.0, 0
    while code == OK and turned > 0.0:
        back[0], last = s[0] * v[R], turned < 2.0**-26
        jobs(CHECK, task, b, board)
        turned, rounds = 0.0 if last else correct(R + 1, b.few.shape[1], s[0], b), rounds + 1
        if turned == math.inf or rounds > 4:
            code = REDO
    if code == OK:
        back[1] = s[0] if v[R] >= 0.0 else -s[0]
        for i in range(R):
            rest[i] = -v[i] / (1.0 + abs(v[R]))
        jobs(SETTLE, task, b, board)
        code = verdict(b, R)
    return code


@inlined
def bog_one(jobs, task, R, s, alpha, b, board):
    """One step of BOG, in place. Twin of dlr.bog_woodbury, with Υ ΣS = S − W C, C = (I + WᵀΥ⁻¹W)⁻¹WᵀΥ⁻¹S."""
    H, v, rest, back, N = b.small[WEIGHED], b.few[DIRECTION], b.few[REST], b.few[SPARE], b.few.shape[1]
    jobs(MEASURE, task, b, board)
    unroll(R + 1, WEIGHED, b)
    if not triangular(H, R, N, -1.0, b.small[ROOT], b.few[BACK]) > 0.0:
        return LOST
    for i in range(R):
        rest[i] = s[0] * H[i * N + R]
    divide(b.small[ROOT], b.few[BACK], R, N, rest)
    for i in range(R):
        v[i] = -rest[i]
        rest[i] *= alpha
    back[0] = s[0]
    jobs(SETTLE, task, b, board)
    return verdict(b, R)

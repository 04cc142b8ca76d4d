"""Standard normal variates from uniform ones, by the inverse of the distribution function. Twin of gaussians.normals.

A uniform variate u is k/2⁵³; (u − ½) + 2⁻⁵⁴ = q is the middle of its cell, exactly, and so is the tail r = ½ − |q|. On each of 32 parts
of each octave of r the quantile is a polynomial of degree 7 to rounding, whose coefficients are one line of a table: no branches, no
logarithm, no root.
"""

from __future__ import annotations

import functools

import numpy as np

from .elementary import bits, from_bits
from .jit import kernel, ordered

SHIFT = 47  # of the 52 bits of the fraction 5 choose the part
FIRST = (1023 - 54) << 5  # the part at which r = 2⁻⁵⁴ lies
LOW, HALF = (1 << SHIFT) - 1, 1 << (SHIFT - 1)


@functools.cache
def table() -> np.ndarray:
    """(53 · 32, 8): for each part of (2⁻⁵⁴, ½) the coefficients of −Φ⁻¹(c + x) in powers of x, c the middle of the part."""
    from scipy.special import ndtri

    part = np.arange(53 * 32)
    octave = 2.0 ** (part // 32 - 54)
    half = octave / 64
    centre = octave * (1 + (part % 32 + 0.5) / 32)
    nodes = np.cos(np.pi * (np.arange(8) + 0.5) / 8)
    values = -ndtri(centre[:, None] + half[:, None] * nodes)
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
    z = a[0] + x * (a[1] + x * (a[2] + x * (a[3] + x * (a[4] + x * (a[5] + x * (a[6] + x * a[7]))))))
    return -z if q < 0.0 else z


@kernel
def transform(u, coefficients):
    """Uniform variates (n,) become normal ones in place. Twin of scipy.special.ndtri."""
    for i in range(len(u)):
        u[i] = normal(u[i], coefficients)

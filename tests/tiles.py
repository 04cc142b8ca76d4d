"""Matrices in small tiles, so that small problems have many of them."""

import contextlib
from unittest import mock

from bongref.fast import blocks

PROGRAMS = (blocks._rank_update, blocks._times_symmetric, blocks._triangle, blocks._cholesky, blocks._update_and_factor, blocks._invert)


def forget():
    """Programs are kept by the sizes of their operands, and those of other tiles are others."""
    for kept in PROGRAMS:
        kept.cache_clear()


@contextlib.contextmanager
def small_tiles(threads):
    """So many threads, from two rows on; tiles of five and six rows, seven of them at most."""
    forget()
    with mock.patch.multiple(blocks, threads=lambda: threads, WIDE=2, TILE=5, BROAD=6, TILES=7):
        yield
    forget()

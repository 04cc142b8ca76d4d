"""Numba only here: ``kernels`` are compiled twins of the steps, ``streams`` whole filters."""

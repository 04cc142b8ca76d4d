"""The compiled path: whole streams, steps and predictions in machine code, by Numba's public API
alone. See docs/fast.md.

What is not here: the equations as the paper prints them (``families``), and the choice of the path
that a stream takes (``backends``).
"""


class Unavailable(RuntimeError):
    """The compiled path cannot be used here; the message is the reason."""

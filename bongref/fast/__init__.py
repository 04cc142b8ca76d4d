"""The compiled path: whole streams, steps and predictions in machine code, by Numba's public API
alone. See docs/fast.md.
"""


class Unavailable(RuntimeError):
    """The compiled path cannot be used here; the message is the reason."""

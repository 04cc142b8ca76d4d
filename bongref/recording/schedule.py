"""When something is due in a stream: every so many steps, or at given steps; and always at the end.

>>> Schedule(every=250).after(250, T=1000), Schedule(steps=(10, 100)).after(10, T=1000)
(500, 100)
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from .. import checks
from ..errors import InvalidType, InvalidValue


class Schedule(NamedTuple):
    """Steps at which something is due: the multiples of ``every``, or ``steps``."""

    every: int | None = None
    steps: tuple[int, ...] = ()

    def due(self, t: int) -> bool:
        """Whether step t is one of them."""
        return t % self.every == 0 if self.every is not None else t in self.steps

    def after(self, t: int, T: int) -> int:
        """The first of them after step t; T, the end, if there is none before it."""
        if self.every is not None:
            return min((t // self.every + 1) * self.every, T)
        return min((s for s in (*self.steps, T) if t < s), default=T)


def checked(name: str, value: Any) -> Schedule:
    """A schedule from an integer, or from increasing steps; None is the end of the stream alone.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : int, sequence of int or None

    Returns
    -------
    Schedule

    Raises
    ------
    InvalidValue, InvalidType
        If it is something else, or the steps do not increase.

    Examples
    --------
    >>> checked("every", [250, 500, 1000, 2000]).steps
    (250, 500, 1000, 2000)
    """
    if value is None:
        return Schedule()
    if not isinstance(value, (list, tuple, range, np.ndarray)) or getattr(value, "ndim", 1) == 0:
        if isinstance(value, (str, dict, set)):
            raise InvalidType(f"{name} must be an integer or increasing steps, got {value!r}")
        return Schedule(checks.integer(name, value, 1))
    steps = tuple(checks.integer(f"{name}[{k}]", s, 1) for k, s in enumerate(value))
    if not steps or any(a >= b for a, b in itertools.pairwise(steps)):
        raise InvalidValue(
            f"{name} must be an integer or increasing steps such as [250, 500, 1000], got {value!r}"
        )
    return Schedule(None, steps)

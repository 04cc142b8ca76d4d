"""The time of one observation, predicted from times that were measured.

``costs.json`` has for each method the nanoseconds of each kind of work, fitted to measurements by
``python -m validation.costs_measured``: so much for each parameter, for each entry of a covariance,
for each pass through the network. :func:`seconds` adds them up for other sizes. Times are of the
compiled path on the machine that is named in the file, for the methods that cannot lose positive
definiteness; :func:`calibration` compares this machine with it in a few milliseconds.

>>> from bongref.guide import costs
>>> sizes = costs.Sizes(P=1000, C=1, M=100, R=10, I=10, work=1000)
>>> fast, slow = (costs.seconds(name, sizes) for name in ("bong-lin-hess-diag", "bong-lin-hess-fc"))
>>> fast < slow
True
"""

from __future__ import annotations

import json
import math
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FEW = 4  # as in bongref.grid
CACHE = 2**24  # bytes of a state from which on memory is slower

IN_PYTHON, COMPILED = 140e-6, 2.5e-6  # seconds: an iteration whose loop is in Python; a step


class Sizes(NamedTuple):
    """What the cost of an update depends on.

    Attributes
    ----------
    P, C, M, R, I : int
        Parameters, outputs, samples, rank, inner iterations.
    work : float
        Multiplications of one pass through the network; about P where no weight is shared.
    """

    P: int
    C: int
    M: int
    R: int
    I: int
    work: float


def columns(name: str, n: Sizes) -> int:
    """K, the number of columns of S."""
    return {"lin-hess": n.C, "lin-ef": 1}.get("-".join(name.split("-")[1:3]), n.M)


def regime(name: str, n: Sizes) -> str:
    """Which of two forms of a full-covariance step runs: few columns of S, or many."""
    rule, how, _, family = name.split("-")
    if not family.startswith("fc"):
        return "few"
    K = columns(name, n)
    basis = n.I + n.I * (n.I + 1) // 2
    few = {
        "bong": True,
        "bog": K == 1 or family == "fc_mom",
        "blr": FEW * n.I * K <= n.P,
        "bbb": K == 1 and 3 * basis <= n.P,
    }
    return "many" if how == "mc" or not few[rule] else "few"


def features(name: str, n: Sizes, which: str | None = None) -> dict[str, float]:
    """The amounts of each kind of work of one observation, in the form ``which``."""
    rule, _, _, family = name.split("-")
    P, I, K = float(n.P), n.I if rule in ("blr", "bbb") else 1, columns(name, n)
    out = {
        "1": 1.0,
        "I": I,
        "I K": I * K,
        "I P": I * P,
        "I K P": I * K * P,
        "I K work": I * K * n.work,
    }
    if family.startswith("fc"):
        out |= {"I P2": I * P**2, "I K P2": I * K * P**2, "I K2 P": I * K**2 * P, "I K3": I * K**3}
        out |= (
            {"I P3": I * P**3} if (which or regime(name, n)) == "many" else {"I2 K P": I**2 * K * P}
        )
    else:
        beyond = state_bytes(family, n.P, n.R) - CACHE
        out |= {"I beyond cache": I * max(0.0, beyond / 8)}
    if family == "dlr":
        L = K + (2 * n.R if rule == "blr" else n.R)
        out |= {"I L P": I * L * P, "I L2 P": I * L**2 * P, "I L3": I * L**3}
        out |= {"I R L P": I * n.R * L * P}
    return out


@cache
def table() -> dict[str, Any]:
    """The file of measured costs."""
    path = Path(__file__).parent / "costs.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def seconds(name: str, n: Sizes, scale: float = 1.0) -> float:
    """Seconds of one observation on the machine of the file, times ``scale``.

    Parameters
    ----------
    name : str
        A method that the paper derives.
    n : Sizes
    scale : float
        From :func:`calibration`.

    Returns
    -------
    float

    Examples
    --------
    >>> seconds("bong-lin-ef-diag", Sizes(100, 1, 1, 1, 1, 100)) < 1e-3
    True
    """
    own = table()["methods"][name]
    which = regime(name, n)
    rates = own.get(which, next(iter(own.values())))["ns"]
    amounts = features(name, n, which if which in own else next(iter(own)))
    fitted = 1e-9 * math.fsum(rates[key] * amounts[key] for key in rates)
    return scale * max(fitted, least(name, n))


def least(name: str, n: Sizes) -> float:
    """Seconds that a step of a full covariance takes however small it is.

    The benchmark's sizes do not show it: its P is at least 113 and its I is always 10. Measured by
    ``python -m validation.recommended`` with P = 20 and I = 4.
    """
    rule, _, _, family = name.split("-")
    if not family.startswith("fc"):
        return 0.0
    loop = rule in ("blr", "bbb")
    in_python = loop or regime(name, n) == "many"
    return (n.I if loop else 1) * IN_PYTHON if in_python else COMPILED


def probe() -> float:
    """Seconds of a standard normal variate, the best of some milliseconds in one thread."""
    z, rng, times = np.empty(2**15), np.random.default_rng(0), []
    for _ in range(16):
        begun = time.perf_counter()
        rng.standard_normal(out=z)
        times.append((time.perf_counter() - begun) / len(z))
    return min(times)


def calibration() -> float:
    """How many times as long as on the machine of the file a normal variate takes here."""
    return probe() / float(table()["probe seconds"])


def state_bytes(family: str, P: int, R: int) -> int:
    """Bytes of a state."""
    numbers = {"fc": P + P * P, "diag": 2 * P, "dlr": (2 + R) * P}[family.removesuffix("_mom")]
    return 8 * numbers


def memory(name: str, n: Sizes) -> int:
    """Bytes that a stream needs beyond the data: three states and the columns of S."""
    return 3 * state_bytes(name.split("-")[3], n.P, n.R) + 8 * n.P * columns(name, n)

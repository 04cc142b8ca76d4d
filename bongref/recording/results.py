"""The result of a stream: its state, the rows of metrics, how it was run, what resuming needs.

>>> import numpy as np, bongref as br
>>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=1.0)
>>> result = br.run("bong-lin-hess-fc", model, lik, br.FC(np.zeros(1), np.eye(1)), [[1.0]], [2.0])
>>> check("resume", result)
>>> check("resume", result._replace(t=0))
Traceback (most recent call last):
bongref.errors.InvalidValue: resume.info.steps must be resume.t = 0, got 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..grid import Method
from ..show import fields_html, result_html, result_text, run_fields
from ..states import State
from ..tables import describe
from ..trace import Symbol

Row = dict[str, Any]
TIMES = ("seconds", "evaluation", "compilation")


@dataclass(frozen=True, repr=False)
class RunInfo:
    """How a stream was run.

    Attributes
    ----------
    backend : {"reference", "fast"}
        What computed the steps.
    reason : str
        Why the compiled path was not used; empty where it was.
    seconds : float
        Time spent in steps, without compilation, checks of the inputs and metrics.
    method : Method
    steps : int
        Steps taken, missing observations included.
    missing : int
        How many of them had no observation.
    evaluation : float
        Seconds spent in metrics, without compilation.
    compilation : float
        Seconds spent in compiling for this run, or in loading compiled code from the disk.
    traces : list of tuple of Symbol
        With ``trace=True``, one for each observation.
    lost : float
        Of the steps of the reference in this call, the most decimal digits that rounding may have
        taken from one, of 16; the compiled path leaves to it what would cost half of them. Not
        kept in files.
    """

    backend: str
    reason: str
    seconds: float
    method: Method
    steps: int
    missing: int
    evaluation: float = 0.0
    compilation: float = 0.0
    traces: list[tuple[Symbol, ...]] = field(default_factory=list)
    lost: float = field(default=0.0, compare=False)

    def __repr__(self) -> str:
        return f"<RunInfo: {', '.join(f'{k} {v}' for k, v in run_fields(self))}>"

    def _repr_html_(self) -> str:
        return fields_html("RunInfo", run_fields(self))


class Continuation(NamedTuple):
    """What ``run(..., resume=result)`` needs to go on, in addition to the state and the rows."""

    rng: Mapping[str, Any] | None  # state of the generator of the samples
    eval_rng: Mapping[str, Any] | None  # state of the generator of the metrics
    pending: dict[str, list[float]]  # one-step-ahead scores since the last row


class Result(NamedTuple):
    """A filtered stream. ``run(..., resume=result)`` goes on, :func:`bongref.save` stores it.

    Attributes
    ----------
    state : FC, Diag or DLR
        The state after step ``t``.
    rows : list of dict
        The metrics, one row for each step at which one of them is due; ``row["t"]`` is the step.
    info : RunInfo
        How it was run.
    t : int
        Steps taken.
    continuation : Continuation
        What resuming needs.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> m, model = br.method("bong-lin-hess-diag"), br.models.linear(1)
    >>> args = (m, model, br.likelihoods.Gaussian(var=1.0), m.prior(np.zeros(1)))
    >>> half = br.run(*args, X=[[1.0]], Y=[2.0])
    >>> br.run(*args, X=[[1.0], [1.0]], Y=[2.0, 5.0], resume=half).t
    2
    """

    state: State
    rows: list[Row]
    info: RunInfo
    t: int
    continuation: Continuation

    def __repr__(self) -> str:
        """How it was run, its state, and its last metrics."""
        return result_text(self)

    def _repr_html_(self) -> str:
        return result_html(self)

    def plot(self, *names: str, ax: Any = None) -> Any:
        """Draw the metrics of the rows over the steps: :func:`bongref.plot.metrics`.

        Parameters
        ----------
        *names : str
            Which metrics; all without.
        ax : matplotlib axes or array of axes, optional
            One for each metric; new ones without.

        Returns
        -------
        matplotlib axes, or an array of them

        Raises
        ------
        InvalidValue
            If there are no rows, or no metric of that name.
        ImportError
            Without matplotlib.

        Examples
        --------
        >>> import matplotlib; matplotlib.use("agg")
        >>> import numpy as np, bongref as br
        >>> model, lik, prior = br.models.linear(1), br.likelihoods.Gaussian(var=1.0), br.Diag
        >>> result = br.run(
        ...     "bong-lin-hess-diag", model, lik, prior(np.zeros(1), np.ones(1)), np.ones((4, 1)),
        ...     np.ones(4), metrics=br.metrics.prequential(), backend="reference",
        ... )
        >>> result.plot("prequential-plugin").get_title()
        'prequential-plugin'
        """
        from ..plot import metrics

        return metrics(self, *names, ax=ax)


# --- a result that comes in -----------------------------------------------------------------------


def check(name: str, result: Any) -> None:
    """Refuse a result whose parts are not of a kind, or do not agree; its state is not looked at.

    Parameters
    ----------
    name : str
        What the messages call the result.
    result : Result

    Raises
    ------
    InvalidType, InvalidValue
        With the part that is wrong.
    """
    typed = isinstance(result, Result) and isinstance(result.continuation, Continuation)
    if not typed or not isinstance(result.info, RunInfo):
        raise InvalidType(f"{name} must be a Result of bongref.run or load, got {describe(result)}")
    t = checks.integer(f"{name}.t", result.t, 0)
    _check_info(f"{name}.info", name, result.info, t)
    _check_rows(f"{name}.rows", result.rows, t)
    _check_pending(f"{name}.continuation.pending", result.continuation.pending)


def _check_info(name: str, of: str, info: RunInfo, t: int) -> None:
    if not isinstance(info.method, Method):
        raise InvalidType(f"{name}.method must be a Method, got {describe(info.method)}")
    if checks.integer(f"{name}.steps", info.steps, 0) != t:
        raise InvalidValue(f"{name}.steps must be {of}.t = {t}, got {info.steps}")
    checks.integer(f"{name}.missing", info.missing, 0, t)
    for key in ("backend", "reason"):
        if not isinstance(getattr(info, key), str):
            raise InvalidType(f"{name}.{key} must be a str, got {describe(getattr(info, key))}")
    for key in TIMES:
        if checks.scalar(f"{name}.{key}", getattr(info, key)) < 0:
            raise InvalidValue(f"{name}.{key} must be >= 0, got {getattr(info, key)}")
    traces = info.traces
    whole = isinstance(traces, list) and all(isinstance(one, tuple) for one in traces)
    if not whole or not all(isinstance(s, Symbol) for one in traces for s in one):
        raise InvalidType(f"{name}.traces must be a list of traces, got {describe(traces)}")
    if len(traces) > t:
        raise InvalidValue(f"{name}.traces must be at most t = {t} traces, got {len(traces)}")


def _check_rows(name: str, rows: Any, t: int) -> None:
    """Rows of metrics, one for each step at most and in the order of the steps."""
    steps = [_step(row) for row in rows] if isinstance(rows, list) else [0]
    if not all(1 <= s <= t for s in steps) or not all(a < b for a, b in pairwise(steps)):
        raise InvalidValue(
            f"{name} must be rows of steps 1...{t} in increasing order, got {str(rows)[:80]}"
        )


def _step(row: Any) -> int:
    """The step of a row; 0 where it has none."""
    t = row.get("t") if isinstance(row, dict) else None
    return t if isinstance(t, int) and not isinstance(t, bool) else 0


def _check_pending(name: str, pending: Any) -> None:
    """The one-step-ahead scores since the last row."""
    if not isinstance(pending, dict) or not all(map(_are_numbers, pending.values())):
        raise InvalidValue(f"{name} must be lists of numbers by name, got {describe(pending)}")


def _are_numbers(scores: Any) -> bool:
    return isinstance(scores, list) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) for x in scores
    )

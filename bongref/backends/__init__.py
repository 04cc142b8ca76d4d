"""The backends of a stream: the reference, equation by equation, and the compiled path.

    backend = choose("auto", problem)
    state, t, refused = backend.advance(state, t, stop)

:class:`Reference` takes one step at a time with :func:`bongref.update`; :class:`Compiled` hands
many steps to ``bongref.fast`` and gives the reference every step that the compiled path refuses, so
that an error is always the reference's. ``live.py`` keeps a compiled stream open for observations
that come one at a time. What is not here: rows, scores and checkpoints (``recording``).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..checks import Observations
from ..dynamics import Dynamics, Overflow, propagate
from ..errors import BongrefWarning, InvalidValue, NotFinite
from ..filter import NOT_FINITE, NOT_PD, Draws, unchecked_update
from ..grid import Method
from ..likelihoods import Likelihood
from ..linalg import Array
from ..models import Model
from ..states import State
from ..trace import Symbol, Trace, recording

BACKENDS = ("auto", "reference", "fast")
RAISED = "an exception"  # the reason of a step in which the model or the likelihood raised one


class Problem(NamedTuple):
    """A stream with all its inputs checked."""

    m: Method
    model: Model
    lik: Likelihood
    prior: State
    data: Observations
    dynamics: Dynamics
    rng: np.random.Generator | None
    samples: Array | None  # (T, I, M, P)
    trace: bool
    form: str


class Advanced(NamedTuple):
    """How far a stream has come."""

    state: State  # after step t
    t: int  # steps taken so far: the next one is (X[t], Y[t])
    refused: bool = False  # that next step is left to the reference


class Backend(Protocol):
    """Takes steps of one stream.

    ``advance(state, t, stop)`` takes at least one of the steps t, …, stop − 1 and returns how far
    it came; the generator has then moved by the draws of these steps. Raises :class:`StepFailed`.
    """

    name: str
    reason: str  # why the other one is not used
    traces: list[tuple[Symbol, ...]]

    @property
    def lost(self) -> float:
        """The most digits that rounding may have taken from a step of the reference."""

    def advance(self, state: State, t: int, stop: int) -> Advanced: ...


class StepFailed(Exception):
    """The update at step ``t`` (from 0) has no valid result; ``state`` is the one before it."""

    before = 0  # steps that were taken before the data begin: messages count them too

    def __init__(self, t: int, state: State, reason: str, detail: str = "") -> None:
        super().__init__(f"step {t + 1}: {reason}")
        self.t, self.state, self.reason, self.detail = t, state, reason, detail


def predicted(p: Problem, state: State, t: int) -> State:
    """The prior of step t (from 0)."""
    try:
        return propagate(state, p.dynamics)
    except (InvalidValue, np.linalg.LinAlgError) as error:
        reason = NOT_FINITE if isinstance(error, Overflow) else NOT_PD
        raise StepFailed(t, state, reason, f"in the prediction, {error}") from None


class Reference:
    """The family modules, equation by equation."""

    name = "reference"

    def __init__(self, problem: Problem, reason: str) -> None:
        self.problem, self.reason, self._lost = problem, reason, 0.0
        self.traces: list[tuple[Symbol, ...]] = []

    @property
    def lost(self) -> float:
        """The most digits that rounding may have taken from one of the steps."""
        return self._lost

    def advance(self, state: State, t: int, stop: int) -> Advanced:
        """One step: predict, and update unless the observation is missing."""
        p = self.problem
        drawn = None if p.rng is None else p.rng.bit_generator.state
        try:
            prior = predicted(p, state, t)  # sec:pseudocode#1
            new = prior if not p.data.seen[t] else self._update(state, prior, t)  # sec:pseudocode#2
        except StepFailed:
            if p.rng is not None and drawn is not None:
                p.rng.bit_generator.state = drawn
            raise
        return Advanced(new, t + 1)

    def _update(self, state: State, prior: State, t: int) -> State:
        p = self.problem
        draws = Draws(None if p.samples is None else p.samples[t])
        args = (p.m, p.model, p.lik, prior, p.data.xs[t], p.data.ys[t], p.rng, draws, p.form)
        try:
            if p.trace:
                with recording(p.m.name) as seen:
                    new, info = unchecked_update(*args, seen)
                self.traces.append(Trace(seen.symbols))
            else:
                new, info = unchecked_update(*args)
        except (NotFinite, np.linalg.LinAlgError) as error:
            raise StepFailed(t, state, NOT_FINITE, str(error)) from None
        except Exception as error:
            detail = f"{type(error).__name__} in the model or the likelihood: {error}"
            raise StepFailed(t, state, RAISED, detail) from error
        if not info.valid:
            raise StepFailed(t, state, info.reason)
        self._lost = max(self._lost, info.lost)
        return new


class Compiled:
    """The compiled stream, and the reference for the steps that it refuses.

    Where a kernel cannot be compiled at its first use, in the middle of a stream, the reference
    takes over if ``fall_back``, otherwise an error is raised. After an exception of another kind
    the reference takes the same steps, so that the error names the step in which it was raised.
    """

    def __init__(self, problem: Problem, stream: Any, fall_back: bool) -> None:
        self.name, self.reason = "fast", ""
        self.stream, self.reference = stream, Reference(problem, "")
        self.fall_back = fall_back
        self.traces: list[tuple[Symbol, ...]] = []

    @property
    def lost(self) -> float:
        """Of the steps that the reference took: the compiled path refuses what costs so much."""
        return self.reference.lost

    def advance(self, state: State, t: int, stop: int) -> Advanced:
        """Some of the steps t, …, stop − 1: as many as fit into a time slice."""
        if self.name == "reference":
            return self.reference.advance(state, t, stop)
        from ..fast import Unavailable

        rng = self.reference.problem.rng
        drawn = None if rng is None else rng.bit_generator.state
        try:  # a step that overflows is refused
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                done: Advanced = self.stream.advance(state, t, stop)
        except Unavailable as error:
            self._give_up(error, state, t)
            return self.reference.advance(state, t, stop)
        except Exception as error:
            if rng is not None and drawn is not None:
                rng.bit_generator.state = drawn
            done = Advanced(state, t)
            while done.t < stop:
                done = self.reference.advance(done.state, done.t, stop)
            self._give_up(error, state, t)
            return done
        return self.reference.advance(done.state, done.t, stop) if done.refused else done

    def _give_up(self, error: Exception, state: State, t: int) -> None:
        """The reference from here on, with a warning; an error where it was not allowed to."""
        if not self.fall_back:
            raise StepFailed(t, state, RAISED, str(_no_backend(_failure(error)))) from error
        self.name, self.reason = "reference", _failure(error)
        _warn(self.reason)


def choose(backend: str, problem: Problem) -> Backend:
    """The backend that was asked for; for "auto" the compiled one wherever there is one."""
    stream, reason = compiled(backend, problem, _stream)
    if stream is None:
        return Reference(problem, reason)
    return Compiled(problem, stream, backend == "auto")


def _stream(p: Problem) -> Any:
    from ..fast.stream import Stream

    return Stream(p.m, p.model, p.lik, p.data, p.dynamics, p.rng, p.samples, p.prior)


def compiled(backend: str, p: Problem, make: Callable[[Problem], Any]) -> tuple[Any, str]:
    """What ``make`` makes of the compiled path, or None and why there is none."""
    if backend == "reference":
        return None, "asked for"
    made, reason, broken = _made(p, make)
    if made is None and backend == "fast":
        raise _no_backend(reason)
    if broken:
        _warn(reason)
    return made, reason


def _made(p: Problem, make: Callable[[Problem], Any]) -> tuple[Any, str, bool]:
    """What is made, or None, why there is nothing, and whether that is a failure of Numba."""
    try:
        from ..fast import stream  # noqa: F401  whether it can be imported
        from ..fast.support import why_not
    except Exception as error:
        return None, _failure(error), True
    if reason := why_not(p.m, p.model, p.lik, p.prior, p.dynamics, trace=p.trace, form=p.form):
        return None, reason, False
    try:
        return make(p), "", False
    except Exception as error:
        return None, _failure(error), True


def _no_backend(reason: str) -> InvalidValue:
    return InvalidValue(f"backend='fast': {reason}; use 'reference' or 'auto'")


def _failure(error: Exception) -> str:
    return f"the compiled path failed ({type(error).__name__}: {error})"


_warned: set[str] = set()  # reasons that this process has been told


def _warn(reason: str) -> None:
    """The compiled path does not work, or Numba cannot be imported: one warning for each reason,
    whichever lines call.
    """
    if reason not in _warned:
        _warned.add(reason)
        text = f"{reason}; the reference is used, which is slower"
        warnings.warn(text, BongrefWarning, stacklevel=5)


def compile_seconds() -> float:
    """The time that this process has spent in compiling, or loading compiled code, so far."""
    jit = sys.modules.get("bongref.fast.jit")
    return 0.0 if jit is None else float(jit.compiling["seconds"])

"""A stream of observations, filtered (algo:main).

>>> import numpy as np, bongref as br
>>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=0.1)
>>> m = br.method("bong-lin-hess-fc")
>>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> result = br.run(m, model, lik, m.prior(np.zeros(2)), X, Y=[1.0, 2.0, 3.0])
>>> result.state.mu.round(2), result.t, result.info.steps
(array([1.  , 1.91]), 3, 3)
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import checks, divergence, schedule
from .backends import BACKENDS, Backend, Problem, StepFailed, choose, compile_seconds
from .dynamics import Dynamics, Static, propagate
from .errors import (
    BongrefWarning,
    Interrupted,
    InvalidType,
    InvalidValue,
    NotFinite,
    NotPositiveDefinite,
    StreamEnded,
)
from .filter import FORMS, NOT_FINITE, as_method, checked_draws, checked_prior
from .grid import STATES, Method
from .guide import advice
from .likelihoods import Likelihood
from .models import Model
from .show import fields_html, result_html, result_text, run_fields
from .states import State
from .tables import describe
from .trace import Symbol

Row = dict[str, Any]
METRIC_STREAM = 0xE7A1  # the spawn key of the metrics' generator


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
        """
        from .plot import metrics

        return metrics(self, *names, ax=ax)


def run(
    m: Method | str,
    model: Model,
    lik: Likelihood,
    prior: State,
    X: Any,
    Y: Any,
    *,
    rng: np.random.Generator | int | None = None,
    samples: Any = None,
    dynamics: Dynamics | None = None,
    backend: str = "auto",
    every: int | Sequence[int] | None = None,
    metrics: Any = None,
    progress: bool | None = None,
    trace: bool = False,
    form: str = "auto",
    resume: Result | None = None,
    checkpoint: Any = None,
) -> Result:
    """Filter a stream: for each observation, predict and update (algo:main).

    Parameters
    ----------
    m : Method or str
        One of the names of :func:`bongref.methods`.
    model : Model
        Made by :mod:`bongref.models`: ``linear``, ``mlp``, ``cnn`` or ``wrap``.
    lik : Likelihood
        One of :mod:`bongref.likelihoods`.
    prior : FC, Diag or DLR
        The state before the first observation, usually ``m.prior(mu=model.init(rng), var=...)``.
    X : array_like, shape (T, D), or a sequence of T inputs
        Arrays, lists, pandas and polars frames, read by position. An entry of shape (B, D) is a
        mini-batch of B observations.
    Y : array_like, shape (T,) or (T, C), or a sequence of T observations
        None (or a frame's missing value) is a missing observation: that step only predicts.
    rng : numpy.random.Generator or int, optional
        Source of the samples of an mc method; an int is a seed. The generator is advanced.
    samples : array_like, shape (T, I, M, P), optional
        The θ̂ themselves, in place of ``rng``.
    dynamics : Static, OU or Linear, optional
        How θ moves between observations; by default it does not move.
    backend : {"auto", "reference", "fast"}
        "auto" takes the compiled path wherever there is one, "fast" insists on it, "reference" goes
        equation by equation. ``result.info.backend`` says which it was.
    every : int or sequence of int, optional
        Take the metrics (and write the checkpoint) every so many steps, or at the steps of a
        schedule such as [250, 500, 1000]; always at the end, by default there only. A metric with
        an ``every`` of its own (``bongref.metrics.on(..., every=...)``) follows that one.
    metrics : optional
        :func:`bongref.metrics.on`, ``.prequential``, ``.kl_to``, a function
        ``(m, model, lik, state, rng) -> dict``, or a list of these. They draw from a generator of
        their own, so that measuring never changes the run.
    progress : bool, optional
        A progress bar; by default where standard error is a terminal, and in notebooks.
    trace : bool
        Record every symbol of every update in ``result.info.traces`` (reference only).
    form : {"auto", "plain", "efficient"}
        As in :func:`bongref.step` (other than "auto": reference only).
    resume : Result, optional
        Go on from there, with the same arguments; from :func:`bongref.load` or ``error.result``.
    checkpoint : path, optional
        An .npz file that is rewritten every ``every`` steps, for ``resume=bongref.load(path)``.

    Returns
    -------
    Result
        ``result.state``, ``result.rows``, ``result.info``.

    Raises
    ------
    NotPositiveDefinite, NotFinite
        If an update loses positive definiteness or overflows.
    Interrupted
        On Ctrl-C. All three carry ``step``, ``state``, ``rows`` and ``result``.
    InvalidValue, InvalidType
        If an argument is refused; this happens before the first step.

    Warns
    -----
    Diverging
        If the predictions for the last observations are clearly worse than a constant.
    Unscaled
        If X or Y of a network are far from mean 0 and standard deviation 1.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 1))
    >>> Y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    >>> model, lik = br.models.mlp([1, 12, 1], activation="tanh"), br.likelihoods.Gaussian(var=0.01)
    >>> m = br.method("bong-lin-hess-dlr", rank=8)
    >>> test = br.metrics.on(X[200:], Y[200:], "rmse")
    >>> prior = m.prior(mu=model.init(rng), var=1.0)
    >>> result = br.run(m, model, lik, prior, X[:200], Y[:200], every=100, metrics=test)
    >>> [row["t"] for row in result.rows], result.rows[-1]["rmse"] < 0.2
    ([100, 200], True)
    """
    problem = _checked(m, model, lik, prior, X, Y, rng, samples, dynamics, backend, trace, form)
    advice.warn_unscaled(problem)
    T = len(problem.data.seen)
    record = Recorder(problem, every, metrics, checkpoint)
    state, t = record.start(resume)
    steps, watch = choose(backend, problem), divergence.Watch(problem)
    steps.traces += [] if resume is None else resume.info.traces
    before = record.mark(t, state, steps)
    with _Bar(T, t, problem.m.name, progress) as bar:
        try:
            while t < T:
                before = record.mark(t, state, steps)
                record.ahead(t, state)
                with record.clock:
                    state, t, _ = steps.advance(state, t, record.next_stop(t, T))
                state = record.after(t, state, steps, end=t == T)
                bar.show(t, record.rows)
                watch.look(t, state)
        except KeyboardInterrupt:
            raise _interrupted(record.result(before, steps), problem) from None
        except StepFailed as failure:
            at = before if failure.t == before.t else record.mark(failure.t, failure.state, steps)
            raise _ended(failure, problem, record.result(at, steps)) from None
    watch.look(t, state, end=True)
    return record.result(record.mark(t, state, steps), steps)


# --- checked inputs -------------------------------------------------------------------------------


def _checked(
    m: Any, model: Any, lik: Any, prior: Any, X: Any, Y: Any, rng: Any, samples: Any,
    dynamics: Any, backend: str, trace: bool, form: str,
) -> Problem:  # fmt: skip
    """Every input of a stream, checked before the first step."""
    checks.choice("backend", backend, BACKENDS)
    checks.choice("form", form, FORMS)
    checks.boolean("trace", trace)
    m = as_method(m, prior)
    dynamics = Static() if dynamics is None else dynamics
    prior = checked_prior(m, model, prior)
    propagate(prior, dynamics)  # refuses now what it would refuse later
    data = checks.observations(model, checks.likelihood(lik), X, Y, prior.mu)
    generator = None if rng is None else checks.seed_or_generator("rng", rng)
    draws = checked_draws(m, len(prior.mu), generator, samples, None, steps=len(data.seen))
    return Problem(m, model, lik, prior, data, dynamics, generator, draws.samples, trace, form)


# --- rows, one-step-ahead scores, checkpoints -----------------------------------------------------


class Mark(NamedTuple):
    """Where a stream stands after step t. Lists only grow, so that their lengths are enough."""

    t: int
    state: State
    n_rows: int
    n_traces: int
    pending: dict[str, list[float]]
    n_pending: dict[str, int]
    rng: Mapping[str, Any] | None
    eval_rng: Mapping[str, Any]


class Recorder:
    """The rows of a stream: metrics every so many steps, prequential scores, checkpoints, time."""

    def __init__(self, problem: Problem, every: Any, metrics: Any, checkpoint: Any) -> None:
        self.problem, self.clock, self.evaluation = problem, _Clock(), _Clock()
        self.compiled_before = compile_seconds()
        self.measures = _measures(metrics)
        self.every = schedule.checked("every", every)
        own = (getattr(one, "every", None) for one in self.measures)
        self.schedules = [self.every if e is None else schedule.checked("every", e) for e in own]
        if every is not None and not self.measures and checkpoint is None:
            raise InvalidValue(
                f"every must come with metrics or checkpoint, got every={every!r} and neither; "
                "e.g. metrics=bongref.metrics.on(X_test, Y_test, 'nlpd')"
            )
        self.checkpoint = None
        if checkpoint is not None:
            self.checkpoint = checks.path("checkpoint", checkpoint, ".npz")
        for one in self.measures:
            if hasattr(one, "check"):
                one.check(problem.m, problem.model, problem.lik, problem.prior)
        self.scores = [one for one in self.measures if getattr(one, "ahead", False)]
        self.rows: list[Row] = []
        self.pending: dict[str, list[float]] = {}
        self.eval_rng = evaluation_generator(problem.rng)

    def start(self, resume: Any) -> tuple[State, int]:
        """The first state and step: the prior, or where the resumed result ends."""
        p = self.problem
        if resume is None:
            return p.prior, 0
        state = _checked_resume(resume, p)
        self.rows, self.clock.seconds = list(resume.rows), resume.info.seconds
        self.evaluation.seconds = resume.info.evaluation
        self.compiled_before -= resume.info.compilation
        self.pending = {key: list(values) for key, values in resume.continuation.pending.items()}
        _restore("resume.continuation.rng", p.rng, resume.continuation.rng)
        _restore("resume.continuation.eval_rng", self.eval_rng, resume.continuation.eval_rng)
        return state, resume.t

    def next_stop(self, t: int, T: int) -> int:
        """The step at which something has to be recorded."""
        return t + 1 if self.scores else min(s.after(t, T) for s in (self.every, *self.schedules))

    def ahead(self, t: int, state: State) -> None:
        """The one-step-ahead scores of observation t, before the update sees it."""
        p = self.problem
        if self.scores and p.data.seen[t]:
            with self.evaluation:
                args = (propagate(state, p.dynamics), self.eval_rng, p.data.xs[t], p.data.ys[t])
                for one in self.scores:
                    for key, value in one(p.m, p.model, p.lik, *args).items():
                        self.pending.setdefault(key, []).append(value)

    def after(self, t: int, state: State, steps: Backend, end: bool) -> State:
        """The rows and the checkpoint of step t, where they are due; the state to go on from.

        After a checkpoint that is a new one: the compiled path then starts from its numbers, as a
        run that is resumed there does, and not from what it has deferred.
        """
        due = [
            one
            for one, when in zip(self.measures, self.schedules, strict=True)
            if end or when.due(t)
        ]
        if due:
            with self.evaluation:
                self.rows.append({"t": t, **self._measured(due, state)} | {"t": t})
        if not (end or self.every.due(t)):
            return state
        if self.checkpoint is not None:
            self._save(self.checkpoint, t, self.result(self.mark(t, state, steps), steps))
            return type(state)(*state)
        return state

    def _save(self, path: Path, t: int, result: Result) -> None:
        """The checkpoint of step t; one that cannot be written does not end the stream."""
        from .checkpoints import save

        try:
            save(path, result)
        except OSError as error:
            warnings.warn(
                f"the checkpoint of step {t} could not be written ({error}); the stream goes on, "
                "and an older checkpoint stays as it is",
                BongrefWarning,
                stacklevel=4,
            )

    def _measured(self, due: list[Any], state: State) -> Row:
        """The values of the metrics that are due; one-step-ahead scores since their last row."""
        p, row = self.problem, {}
        for one in due:
            if getattr(one, "ahead", False):
                keys = getattr(one, "keys", tuple(self.pending))
                row.update({k: float(np.mean(self.pending[k])) for k in keys if k in self.pending})
                self.pending = {k: v for k, v in self.pending.items() if k not in keys}
        for one in due:
            if not getattr(one, "ahead", False):
                row.update(_as_row(one(p.m, p.model, p.lik, state, self.eval_rng)))
        return row

    def mark(self, t: int, state: State, steps: Backend) -> Mark:
        """Where the stream stands, to go back to."""
        rng = self.problem.rng
        lengths = {key: len(values) for key, values in self.pending.items()}
        generators = (
            None if rng is None else rng.bit_generator.state,
            self.eval_rng.bit_generator.state,
        )
        return Mark(t, state, len(self.rows), len(steps.traces), self.pending, lengths, *generators)

    def result(self, at: Mark, steps: Backend) -> Result:
        """The stream as it stood at a mark; the generator of the samples goes back there too."""
        rng, seen = self.problem.rng, self.problem.data.seen
        if rng is not None and at.rng is not None:
            rng.bit_generator.state = at.rng
        pending = {key: at.pending[key][:n] for key, n in at.n_pending.items()}
        missing = int(at.t - np.count_nonzero(seen[: at.t]))
        traces = steps.traces[: at.n_traces]
        compilation = compile_seconds() - self.compiled_before
        times = (self.evaluation.seconds, compilation, traces)
        info = RunInfo(
            steps.name, steps.reason, self.clock.seconds, self.problem.m, at.t, missing, *times
        )
        return Result(
            at.state, self.rows[: at.n_rows], info, at.t, Continuation(at.rng, at.eval_rng, pending)
        )


def _measures(metrics: Any) -> list[Callable[..., Any]]:
    out = (
        list(metrics)
        if isinstance(metrics, (list, tuple))
        else []
        if metrics is None
        else [metrics]
    )
    for one in out:
        if not callable(one):
            raise InvalidType(
                f"metrics must be made by bongref.metrics.on(...) or be callable, got {one!r}"
            )
    return out


def _check_pending(pending: Any) -> None:
    """The one-step-ahead scores since the last row of a result."""
    if not isinstance(pending, dict) or not all(
        isinstance(scores, list) and all(isinstance(x, (int, float)) for x in scores)
        for scores in pending.values()
    ):
        raise InvalidValue(
            f"resume.continuation.pending must be lists of numbers by name, got {describe(pending)}"
        )


def _restore(name: str, generator: np.random.Generator | None, saved: Any) -> None:
    """Put a generator where it was when a result was made."""
    if generator is None or saved is None:
        return
    try:
        generator.bit_generator.state = saved
    except (TypeError, ValueError, KeyError) as error:
        kind = type(generator.bit_generator).__name__
        raise InvalidValue(
            f"{name} must be the state of a {kind}, as rng is one, got {describe(saved)} "
            f"({error}); "
            "resume with the same kind of generator"
        ) from None


def _as_row(values: Any) -> Row:
    if not isinstance(values, Mapping):
        raise InvalidType(f"metrics must return a dict of name: value, got {describe(values)}")
    return dict(values)


def _checked_resume(resume: Any, p: Problem) -> State:
    """The state of a result, if it is one of this run."""
    T = len(p.data.seen)
    parts = (resume.info, resume.continuation) if isinstance(resume, Result) else (None, None)
    ok = isinstance(parts[0], RunInfo) and isinstance(parts[1], Continuation)
    if not ok:
        raise InvalidType(f"resume must be a Result of bongref.run or load, got {describe(resume)}")
    t = checks.integer("resume.t", resume.t, 0)
    if resume.info.method != p.m or t > T:
        raise InvalidValue(
            f"resume must be a Result of {p.m!r} after 0 to {T} steps, got one of "
            f"{resume.info.method!r} after step {t}"
        )
    if not isinstance(resume.rows, list) or not all(
        isinstance(row, dict) and row.get("t", -1) in range(t + 1) for row in resume.rows
    ):
        raise InvalidValue(f"resume.rows must be rows of steps 1...{t}, got {resume.rows!r:.80}")
    if not isinstance(resume.info.traces, list):
        raise InvalidType(f"resume.info.traces must be a list, got {describe(resume.info.traces)}")
    _check_pending(resume.continuation.pending)
    P = len(p.prior.mu)
    return checks.state("resume.state", resume.state, STATES[p.m.family], P=P, R=p.m.rank(P))


def evaluation_generator(rng: np.random.Generator | None) -> np.random.Generator:
    """A generator for the metrics: independent of that of the samples, and not advancing it."""
    seed = None if rng is None else getattr(rng.bit_generator, "seed_seq", None)
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(0)
    key = (*seed.spawn_key, METRIC_STREAM)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))


class _Clock:
    """The time spent in something, without compilation."""

    def __init__(self) -> None:
        self.seconds, self.begun = 0.0, 0.0

    def __enter__(self) -> None:
        self.begun = time.perf_counter() - compile_seconds()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - compile_seconds() - self.begun


# --- streams that end early -----------------------------------------------------------------------


def _interrupted(result: Result, p: Problem) -> Interrupted:
    message = f"stopped after step {result.t}; go on with run(..., resume=error.result)"
    return Interrupted(message, result.t + 1, result.state, result.rows, p.m.name, result)


def _ended(failure: StepFailed, p: Problem, result: Result) -> StreamEnded:
    """What happened at the step that failed, where everything up to there is, and what to try."""
    kept = (
        f"the state after step {failure.t} is in .state, "
        f"the {len(result.rows)} row(s) so far in .rows"
    )
    return ended(failure, p, result, kept)


def ended(failure: StepFailed, p: Problem, result: Result, kept: str) -> StreamEnded:
    """The error of a step that failed; ``kept`` says where everything up to there is."""
    step, name = failure.t + 1, p.m.name
    what = advice.happened(failure, p)
    message = f"{name}: step {step}: {what}; {kept}. {advice.remedy(failure, p)}"
    kind = NotFinite if failure.reason == NOT_FINITE else NotPositiveDefinite
    return kind(message, step, failure.state, result.rows, name, result)


# --- progress -------------------------------------------------------------------------------------


class _Bar:
    """tqdm's progress bar, where one is wanted."""

    def __init__(self, total: int, first: int, name: str, wanted: bool | None) -> None:
        self.bar: Any = None
        if wanted is not None:
            checks.boolean("progress", wanted)
        if _in_notebook() or sys.stderr.isatty() if wanted is None else wanted:
            from tqdm.auto import tqdm

            self.bar = tqdm(total=total, initial=first, desc=name, unit="step", file=sys.stderr)

    def __enter__(self) -> _Bar:
        return self

    def show(self, t: int, rows: list[Row]) -> None:
        if self.bar is not None:
            if rows:
                numbers = {
                    k: v for k, v in rows[-1].items() if k != "t" and isinstance(v, (int, float))
                }
                self.bar.set_postfix(numbers, refresh=False)
            self.bar.update(t - self.bar.n)

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"

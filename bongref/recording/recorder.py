"""The rows of a stream: metrics at their steps, one-step-ahead scores, checkpoints, times."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import checks
from ..backends import Backend, Problem, compile_seconds, predicted
from ..errors import BongrefWarning, InvalidType, InvalidValue
from ..grid import STATES
from ..states import State
from ..tables import describe
from . import schedule
from .results import Continuation, Result, Row, RunInfo, check

METRIC_STREAM = 0xE7A1  # the spawn key of the metrics' generator


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
        for generator, saved in _generators(p.rng, self.eval_rng, resume.continuation):
            generator.bit_generator.state = saved
        return state, resume.t

    def owes(self, t: int, T: int) -> bool:
        """Whether a resumed stream lacks the row of its step t: a metric failed there."""
        due = t == T or any(when.due(t) for when in self.schedules)
        return 0 < t and due and bool(self.measures) and (not self.rows or self.rows[-1]["t"] < t)

    def next_stop(self, t: int, T: int) -> int:
        """The step at which something has to be recorded."""
        return t + 1 if self.scores else min(s.after(t, T) for s in (self.every, *self.schedules))

    def ahead(self, t: int, state: State) -> None:
        """The one-step-ahead scores of observation t, before the update sees it."""
        p = self.problem
        if self.scores and p.data.seen[t]:
            with self.evaluation:
                args = (predicted(p, state, t), self.eval_rng, p.data.xs[t], p.data.ys[t])
                for one in self.scores:
                    for key, value in _as_row(one(p.m, p.model, p.lik, *args)).items():
                        self.pending.setdefault(key, []).append(value)

    def after(self, t: int, state: State, steps: Backend, end: bool) -> State:
        """The rows and the checkpoint of step t, where they are due; the state to go on from.

        After a checkpoint the state is copied, so that a resumed run gives the same bits: the
        compiled path starts from the copy's numbers, and not from what it has deferred.
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
        from ..checkpoints import save

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
                new = _as_row(one(p.m, p.model, p.lik, state, self.eval_rng))
                _refuse_twice([*row, *new])
                row.update(new)
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
        times = (self.evaluation.seconds, compilation, traces, steps.lost)
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
        more = ", x, y" if getattr(one, "ahead", False) else ""
        checks.function("metrics", one, f"m, model, lik, state, rng{more}")
    _refuse_twice([name for one in out for name in getattr(one, "names", ())])
    return out


def _refuse_twice(names: list[str]) -> None:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InvalidValue(
            f"metrics must have different names, got {twice[0]!r} twice, and a row has one value "
            "of a name; rename those of one, as in "
            "lambda *args: {f'train {k}': v for k, v in one(*args).items()}"
        )


def _generators(
    rng: np.random.Generator | None, eval_rng: np.random.Generator, at: Continuation
) -> list[tuple[np.random.Generator, Any]]:
    """The generators and the states to put them to, each tried on a copy."""
    given = [("rng", rng, at.rng), ("eval_rng", eval_rng, at.eval_rng)]
    for name, generator, saved in given:
        try:
            if generator is not None and saved is not None:
                copy.deepcopy(generator).bit_generator.state = saved
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            kind = type(generator.bit_generator).__name__  # type: ignore[union-attr]
            raise InvalidValue(
                f"resume.continuation.{name} must be the state of a {kind}, as rng is one, got "
                f"{describe(saved)} ({error}); resume with the same kind of generator"
            ) from None
    return [(g, saved) for _, g, saved in given if g is not None and saved is not None]


def _as_row(values: Any) -> Row:
    if not isinstance(values, Mapping):
        raise InvalidType(f"metrics must return a dict of name: value, got {describe(values)}")
    for name in values:
        if not isinstance(name, str) or name == "t":
            raise InvalidType(
                "metrics must return a dict whose names are strings, and not 't', which is the "
                f"step; got the name {name!r}"
            )
    return dict(values)


def _checked_resume(resume: Any, p: Problem) -> State:
    """The state of a result, if it is one of this run."""
    check("resume", resume)
    T, P = len(p.data.seen), len(p.prior.mu)
    if resume.info.method != p.m or resume.t > T:
        raise InvalidValue(
            f"resume must be a Result of {p.m!r} after 0 to {T} steps, got one of "
            f"{resume.info.method!r} after step {resume.t}"
        )
    draws = p.samples is None and not {"n_samples", "n_probes"}.isdisjoint(p.m.params)
    if draws and resume.t > 0 and resume.continuation.rng is None:
        raise InvalidValue(
            f"resume.continuation.rng must be the state of a generator: {p.m.name} draws samples, "
            "got None; the run that is resumed had samples=, so resume it with samples= too"
        )
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

"""One run: a spec in, a record out. This is what a worker does.

A run that diverges is a result: its record has the step, the reason and the rows up to there. An
error in the input or in the code is a record with the status "failed". Nothing is random but what
the seed decides, and BLAS and Numba have one thread, so that a record does not depend on where and
when it is computed, but for its timing.
"""

from __future__ import annotations

import functools
import json
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import metrics, stream
from ..dynamics import OU, Dynamics
from ..errors import (
    BongrefWarning,
    CallbackFailed,
    InvalidValue,
    NotFinite,
    NotPositiveDefinite,
    StreamEnded,
)
from ..gaussians import kl
from ..grid import Method, method
from ..likelihoods import Likelihood
from ..linalg import Array, finite, inv, solve
from ..models import Model
from ..recording.results import Result
from ..states import DLR, FC, State
from . import adapter_runs, calibration, tasks
from .records import Record
from .specs import Spec, versions
from .threads import one_thread

Notify = Callable[[Spec, dict[str, float]], None]
WARM = 100  # test rows that are predicted to compile the predictives
_one_run = threading.Lock()  # threads of one process, as a Dask worker may have, take turns


def execute(spec: Spec, notify: Notify | None = None) -> Record:
    """Compute a run.

    Parameters
    ----------
    spec : Spec
    notify : callable, optional
        Called with the spec and each row of metrics on the test part as soon as it is there.

    Returns
    -------
    dict
        A record, see :mod:`.records`.

    Raises
    ------
    InvalidValue
        If this process has other versions or other data than the spec says.
    """
    begun, clock = time.time(), time.perf_counter()
    with _one_run, one_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = _outcome(spec, _checked_task(spec), notify)
    told = [str(w.message) for w in caught if issubclass(w.category, BongrefWarning)]
    outcome["timing"] |= {
        "total": time.perf_counter() - clock,
        "host": socket.gethostname(),
        "begun": begun,
    }
    return {**spec.described(), **outcome, "warnings": told}


def _checked_task(spec: Spec) -> tasks.Task:
    mine = versions(spec.adapter)
    if mine != spec.versions:
        raise InvalidValue(
            f"a worker must have the versions {spec.versions}, got {mine}; install the same "
            "packages everywhere"
        )
    source = spec.source
    task = task_of(source.name, json.dumps(source.params), source.part, source.data)
    if task.facts["checksum"] != spec.task["checksum"]:
        raise InvalidValue(
            f"{source.name} has other data than when the run was asked for: checksum "
            f"{spec.task['checksum'][:16]}, got {task.facts['checksum'][:16]}; "
            "give the command again"
        )
    return task


@functools.lru_cache(maxsize=2)
def task_of(name: str, params: str, part: str, data: str | None) -> tasks.Task:
    """A task, kept for the next run; ``params`` is JSON."""
    return tasks.load(name, json.loads(params), part, data)


# --- what happens in a run ------------------------------------------------------------------------


def _outcome(spec: Spec, task: tasks.Task, notify: Notify | None = None) -> Record:
    """Status, step, reason, rows, calibration and timing."""
    try:
        measures = measures_of(spec, task)
        for one in measures:
            if notify is not None and isinstance(one, Measured):
                one.notify = functools.partial(notify, spec)
        if spec.adapter is None:
            result = _streamed(spec, task, measures)
        else:
            result = adapter_runs.streamed(spec, setup(spec, task), measures)
    except (NotFinite, NotPositiveDefinite) as error:
        info = None if error.result is None else error.result.info
        return _record("diverged", error.step, _reason(error), error.rows, {}, info)
    except CallbackFailed as error:
        return _record("failed", 0, _told(error.__cause__ or error), [], {}, None)
    except Exception as error:
        return _record("failed", 0, _told(error), [], {}, None)
    found = {kind: c for one in measures for kind, c in getattr(one, "counts", {}).items()}
    return _record("done", result.t, "", result.rows, found, result.info)


def _told(error: BaseException) -> str:
    """What an exception says, and where it was raised."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    file = where.filename.rpartition("/")[2]
    return f"{type(error).__name__}: {error} ({file}:{where.lineno})"


def _record(status: str, step: int, reason: str, rows: list[Any], counts: Any, info: Any) -> Record:
    timing = {
        "steps": getattr(info, "seconds", 0.0),
        "evaluation": getattr(info, "evaluation", 0.0),
        "compilation": getattr(info, "compilation", 0.0),
        "backend": getattr(info, "backend", ""),
    }
    plain = [{k: v if k == "t" else float(v) for k, v in row.items()} for row in rows]
    return {
        "status": status, "step": step, "reason": reason, "rows": plain, "calibration": counts,
        "timing": timing,
    }  # fmt: skip


def _reason(error: StreamEnded) -> str:
    """What happened at which step, without the advice for a single stream."""
    what = "overflow" if isinstance(error, NotFinite) else "not positive definite"
    told = error.message.partition(f"step {error.step}: ")[2].partition("; the state after step")[0]
    return f"{what} at step {error.step}: {told}" if told else f"{what} at step {error.step}"


def setup(
    spec: Spec, task: tasks.Task
) -> tuple[Method, Model, Likelihood, State, Array, Array, np.random.Generator, Dynamics | None]:
    """(method, model, likelihood, prior, X, Y, generator, dynamics) of a run, all from its seed."""
    m, s = method(spec.method, **spec.params), spec.settings
    model, lik = task.model(), task.likelihood(s["obs_var"])
    mu = model.init(np.random.default_rng([spec.seed, 0]))
    var = task.prior_variances(s["prior_var"])
    prior = m.prior(mu=mu, var=var, rng=np.random.default_rng([spec.seed, 2]))
    if s.get("w0") == "zero" and isinstance(prior, DLR):  # W = 0 is a fixed point of bog and bbb
        prior = DLR(mu, 1 / var, np.zeros_like(prior.W))
    X, Y = task.stream(spec.seed, s["steps"])
    moving = None if s["gamma"] is None else OU(s["gamma"], mu0=mu, var0=var)
    return m, model, lik, prior, X, Y, np.random.default_rng([spec.seed, 3]), moving


def _streamed(spec: Spec, task: tasks.Task, measures: list[Any]) -> Result:
    m, model, lik, prior, X, Y, rng, moving = setup(spec, task)
    return stream.run(
        m, model, lik, prior, X, Y, rng=rng, dynamics=moving, metrics=measures, progress=False
    )


# --- metrics --------------------------------------------------------------------------------------


class Measured:
    """Metrics on the test part that are due at the same steps, and the counts of calibration."""

    ahead = False

    def __init__(
        self, task: tasks.Task, names: list[str], n_samples: int, every: list[int]
    ) -> None:
        self.test = metrics.on(task.X_test, task.Y_test, *names, n_samples=n_samples)
        self.every, self.calls = every, 0
        self.counts: dict[str, calibration.Counts] = {}
        self.notify: Callable[[dict[str, float]], None] | None = None

    def check(self, m: Method, model: Model, lik: Likelihood, prior: State) -> None:
        """Refuse before a stream what would be refused after it."""
        self.test.check(m, model, lik, prior)

    def __call__(
        self, m: Method, model: Model, lik: Likelihood, state: State, rng: np.random.Generator
    ) -> dict[str, float]:
        """The metrics by name; ``counts`` are then those of this state."""
        made = self.test.predictives(model, lik, state, rng)
        row = self.test.scores(made)
        self.counts = {k: calibration.counts(p, self.test.Y) for k, p in made.items()}
        if self.notify is not None:
            self.notify({"t": self.every[min(self.calls, len(self.every) - 1)], **row})
        self.calls += 1
        return row


class KLToExact:
    """D(q_t | exact posterior after t observations) of linear regression, step by step."""

    ahead = False

    def __init__(self, spec: Spec, task: tasks.Task, steps: list[int]) -> None:
        _, _, lik, prior, self.X, self.Y, _, moving = setup(spec, task)
        if task.facts["model"]["kind"] != "linear" or lik.name != "gaussian" or moving is not None:
            raise InvalidValue("kl must be of a linear regression without gamma")
        self.every = sorted({*(t for t in steps if t < len(self.X)), len(self.X)})
        self.todo, self.R = iter(self.every), spec.settings["obs_var"] or task.facts["obs_var"]
        self.mu, self.var = prior.mu, task.prior_variances(spec.settings["prior_var"])

    def __call__(
        self, m: Method, model: Model, lik: Likelihood, state: State, rng: np.random.Generator
    ) -> dict[str, float]:
        """The divergence at the next of its steps, as ``"kl"``."""
        t = next(self.todo)
        J = model.jac(self.mu, self.X[:t])[:, 0]  # (t, P), the same for every parameter
        precision = np.diag(1 / self.var) + J.T @ J / self.R
        misfit = self.Y[:t] - model(self.mu, self.X[:t])[:, 0]
        mean = self.mu + finite(solve(precision, J.T @ misfit / self.R))
        return {"kl": float(kl(state, FC(mean, finite(inv(precision)))))}


def measures_of(spec: Spec, task: tasks.Task) -> list[Any]:
    """The measures of a run, those of the same schedule together."""
    s, groups = spec.settings, dict[tuple[int, ...], list[str]]()
    ahead: list[Any] = []
    for name, steps in s["metrics"].items():
        if name.startswith("prequential-"):
            kind = name.partition("-")[2]
            ahead.append(metrics.prequential(kind, s["eval_samples"], every=list(steps)))
        elif name == "kl":
            ahead.append(KLToExact(spec, task, list(steps)))
        else:
            groups.setdefault(tuple(steps), []).append(name)
    return ahead + [
        Measured(task, names, s["eval_samples"], list(steps)) for steps, names in groups.items()
    ]


# --- before the workers start ---------------------------------------------------------------------


def warm(specs: list[Spec]) -> float:
    """Compile what these runs need into the cache on disk, once for each method; -> the seconds.

    Two steps and metrics of a few test rows of each method; what fails here fails in its run.
    """
    begun, seen = time.perf_counter(), set()
    for spec in specs:
        if spec.adapter is None and spec.method not in seen:
            seen.add(spec.method)
            task = _checked_task(spec)
            few = task._replace(X_test=task.X_test[:WARM], Y_test=task.Y_test[:WARM])
            brief = {**spec.settings, "steps": 2}
            brief["metrics"] = {name: [2] for name in brief["metrics"]}
            with _one_run, one_thread(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _outcome(spec._replace(settings=brief), few)
    return time.perf_counter() - begun

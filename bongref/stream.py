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
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import accuracy, checks
from .backends import BACKENDS, RAISED, Problem, StepFailed, choose
from .dynamics import Dynamics, Static, propagate
from .errors import (
    CallbackFailed,
    Interrupted,
    InvalidValue,
    NotFinite,
    NotPositiveDefinite,
    StreamEnded,
)
from .filter import FORMS, NOT_FINITE, as_method, checked_draws, checked_prior
from .grid import Method
from .guide import advice, divergence
from .likelihoods import Likelihood
from .models import Model
from .recording.recorder import Recorder
from .recording.results import Result, Row
from .states import State


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
        None (pandas.NA, or a null of a polars frame) is a missing observation: that step only
        predicts. NaN is refused.
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
    CallbackFailed
        If a model, a likelihood or a metric raises an exception, which is the ``__cause__``.
    Interrupted
        On Ctrl-C. All four carry ``step``, ``state``, ``rows`` and ``result``.
    InvalidValue, InvalidType
        If an argument is refused; this happens before the first step.

    Warns
    -----
    Diverging
        If the predictions for the last observations are clearly worse than a constant.
    Unscaled
        If X or Y of a network are far from mean 0 and standard deviation 1.
    LostDigits
        If rounding may have taken more than half of the digits of a step, once.

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
    last, said = record.mark(t, state, steps), False
    with _Bar(T, t, problem.m.name, progress) as bar:
        try:
            if record.owes(t, T):
                state = record.after(t, state, steps, end=t == T)
            while t < T:
                last = record.mark(t, state, steps)
                record.ahead(t, state)
                with record.clock:
                    state, t, _ = steps.advance(state, t, record.next_stop(t, T))
                last = record.mark(t, state, steps)
                state = record.after(t, state, steps, end=t == T)
                bar.show(t, record.rows)
                watch.look(t, state)
                said = said or accuracy.warned(steps.lost, t, problem.m.name)
        except KeyboardInterrupt:
            raise _interrupted(record.result(last, steps), problem) from None
        except StepFailed as failure:
            at = last if failure.t == last.t else record.mark(failure.t, failure.state, steps)
            raise _ended(failure, problem, record.result(at, steps)) from failure.__cause__
        except Exception as error:
            raise _not_recorded(error, t, problem, record.result(last, steps)) from error
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
    if form == "efficient" and not m.has_efficient_form:
        raise InvalidValue(
            f"form must be 'auto' or 'plain': {m.name} has no efficient form, got 'efficient'"
        )
    dynamics = Static() if dynamics is None else dynamics
    prior = checked_prior(m, model, prior)
    propagate(prior, dynamics)  # validate the dynamics before the first step
    data = checks.observations(model, checks.likelihood(lik), X, Y, prior.mu)
    generator = None if rng is None else checks.seed_or_generator("rng", rng)
    draws = checked_draws(m, len(prior.mu), generator, samples, None, steps=len(data.seen))
    return Problem(m, model, lik, prior, data, dynamics, generator, draws.samples, trace, form)


# --- streams that end early -----------------------------------------------------------------------


def _interrupted(result: Result, p: Problem) -> Interrupted:
    message = f"stopped after step {result.t}; go on with run(..., resume=error.result)"
    return Interrupted(message, result.t + 1, result.state, result.rows, p.m.name, result)


def _not_recorded(error: Exception, t: int, p: Problem, result: Result) -> CallbackFailed:
    """What was raised after step t: by a metric, a checkpoint, or a warning that is an error."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = f"{p.m.name}: after step {t}: {said}, raised by a metric or a check; {_kept(result)}"
    return CallbackFailed(message, result.t + 1, result.state, result.rows, p.m.name, result)


def _kept(result: Result) -> str:
    return (
        f"the state after step {result.t} is in .state, "
        f"the {len(result.rows)} row(s) so far in .rows"
    )


def _ended(failure: StepFailed, p: Problem, result: Result) -> StreamEnded:
    """What happened at the step that failed, where everything up to there is, and what to try."""
    return ended(failure, p, result, _kept(result))


def ended(failure: StepFailed, p: Problem, result: Result | None, kept: str) -> StreamEnded:
    """The error of a step that failed; ``kept`` says where everything up to there is."""
    step, name = failure.before + failure.t + 1, p.m.name
    what = advice.happened(failure, p)
    message = f"{name}: step {step}: {what}; {kept}. {advice.remedy(failure, p)}".rstrip()
    kinds = {NOT_FINITE: NotFinite, RAISED: CallbackFailed}
    kind = kinds.get(failure.reason, NotPositiveDefinite)
    rows = [] if result is None else result.rows
    return kind(message, step, failure.state, rows, name, result)


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

"""Mistakes in how the pieces are put together: the inner loop of an update, and the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...curvature import Curv, dense
from ...linalg import Array
from ...states import State
from .. import pipeline, vectors
from ..pipeline import NotOfThisCase, Params, Pieces, Problem
from .table import ALL, ITERATED, LIN, MC, Mistake, both, row_of

update, run = row_of("update"), row_of("run")
Choice = Callable[[State, State], State]  # of the prior and the iterate
Index = Callable[[int, int], int]  # step t of T -> the step whose data are used


# --- the inner loop -------------------------------------------------------------------------------


def loop(
    start: Choice = lambda prior, current: current,
    prior_of: Choice = lambda prior, current: prior,
    point: Choice = lambda prior, current: current,
    extra: int = 0,
    samples_of: Callable[[Array, int, Array, Array], Array] = lambda s, i, mu0, mu: s[i],
    alpha_of: Callable[[float, int, int], float] = lambda alpha, i, n: alpha,
    keep: str = "",
    add_up: bool = False,
) -> Callable[[Any], Callable[..., State]]:
    """The inner loop with one part replaced.

    ``start``, ``prior_of`` and ``point``: where the step begins, its prior, where the estimate is
    made. ``extra``: further iterations. ``samples_of(samples, i, mu0, mu)``, ``alpha_of(alpha, i,
    n)``: of iteration i. ``keep``: "g", "G" or "gG" of the first iteration in every one.
    ``add_up``: g added up over the iterations.
    """

    def fn(
        pieces: Pieces, name: str, problem: Problem, prior: State, samples: Any, params: Params
    ) -> State:
        current, first, n = prior, None, params.get("n_iter", 1)
        for i in range(n + extra):
            at, here = point(prior, current).mu, None
            if samples is not None:
                here = samples_of(samples, min(i, n - 1), prior.mu, current.mu)
            curv = pieces.estimate(vectors.estimator_of(name), problem, at, here)
            if first is not None and keep:
                G = dense(first if "G" in keep else curv)
                curv = Curv(first.g if "g" in keep else curv.g, G=G)
            if first is not None and add_up:
                curv = curv._replace(g=curv.g + first.g)
            first = curv if first is None or add_up else first
            alpha = alpha_of(params.get("alpha", 1), i, n)
            before, begin = prior_of(prior, current), start(prior, current)
            current = pieces.step(name, before, begin, curv, alpha)
        return current

    return lambda right: fn


def one_by_one(right: Callable[..., State]) -> Callable[..., State]:
    """The observations of a batch one after another."""

    def fn(
        pieces: Pieces, name: str, problem: Problem, prior: State, samples: Any, params: Params
    ) -> State:
        if not pipeline.is_batch(problem.model, problem.x):
            raise NotOfThisCase("a batch")
        for x, y in problem.pairs:
            prior = right(pieces, name, problem._replace(x=x, y=y), prior, samples, params)
        return prior

    return fn


ITERATED_LIN, ITERATED_MC = both(ITERATED, LIN), both(ITERATED, MC)

# fmt: off
LOOPS: tuple[Mistake, ...] = (
    update("loop-restarts", "an inner loop that restarts at the prior in every iteration",
        ALL, loop(start=lambda p, q: p), ITERATED),
    update("loop-moves-prior", "an inner loop that moves the prior along with the iterate",
        ALL, loop(prior_of=lambda p, q: q), ITERATED),
    update("loop-one-less", "one inner iteration too few", ALL, loop(extra=-1), ITERATED),
    update("loop-restarts-all",
        "an inner loop that restarts at the prior in every iteration, the estimate too",
        ALL, loop(start=lambda p, q: p, point=lambda p, q: p), ITERATED),
    update("loop-one-more", "one inner iteration too many", ALL, loop(extra=1), ITERATED),
    update("loop-linearises-at-prior", "every inner iteration linearised at the prior's mean",
        ALL, loop(point=lambda p, q: p), ITERATED_LIN),
    update("loop-first-samples", "the samples of the first inner iteration in every iteration",
        ALL, loop(samples_of=lambda s, i, m0, m: s[0]), ITERATED_MC),
    update("loop-last-samples", "the samples of the inner iterations in reverse order",
        ALL, loop(samples_of=lambda s, i, m0, m: s[len(s) - 1 - i]), ITERATED_MC),
    update("loop-pooled", "the samples of all inner iterations in every iteration",
        ALL, loop(samples_of=lambda s, i, m0, m: s.reshape(-1, s.shape[-1])), ITERATED_MC),
    update("loop-moved-samples",
        "samples moved with the iterate (the samples are the theta themselves, not noise)",
        ALL, loop(samples_of=lambda s, i, m0, m: s[i] - m0 + m), ITERATED_MC),
    update("loop-alpha-decays", "alpha over the number of the iteration",
        ALL, loop(alpha_of=lambda a, i, n: a / (i + 1)), ITERATED),
    update("loop-alpha-shared", "alpha over the number of iterations",
        ALL, loop(alpha_of=lambda a, i, n: a / n), ITERATED),
    update("loop-alpha-power", "alpha to the power of the iteration",
        ALL, loop(alpha_of=lambda a, i, n: a ** (i + 1)), ITERATED),
    update("loop-alpha-times", "alpha times the number of the iteration",
        ALL, loop(alpha_of=lambda a, i, n: a * (i + 1)), ITERATED),
    update("loop-alpha-one-last", "alpha = 1 in the last inner iteration",
        ALL, loop(alpha_of=lambda a, i, n: 1 if i == n - 1 else a), ITERATED),
    update("loop-adds-up", "g added up over the inner iterations (not set back to 0)",
        ALL, loop(add_up=True), ITERATED),
    update("loop-keeps-g", "g of the first inner iteration in every iteration",
        ALL, loop(keep="g"), ITERATED),
    update("loop-keeps-G", "G of the first inner iteration in every iteration",
        ALL, loop(keep="G"), ITERATED),
    update("loop-keeps-gG", "g and G of the first inner iteration in every iteration",
        ALL, loop(keep="gG"), ITERATED),
    update("batch-one-by-one",
        "the observations of a batch one after another in place of one likelihood",
        ALL, one_by_one),
)
# fmt: on


# --- the stream -----------------------------------------------------------------------------------


def stream(
    before: Callable[[int, bool], bool] = lambda t, observed: True,
    after: bool = False,
    missing: str = "",
    x_at: Index = lambda t, T: t,
    y_at: Index = lambda t, T: t,
    s_at: Index = lambda t, T: t,
    reset: Choice = lambda first, state: state,
    ahead: bool = False,
    behind: bool = False,
    pulled: bool = False,
    skipped: Callable[[int, int], bool] = lambda t, T: False,
) -> Callable[[Any], Callable[..., Iterator[State]]]:
    """A stream with one part replaced.

    ``before(t, observed)``, ``after``: whether there is a prediction before and after update t.
    ``missing``: "zero" or "mean" in place of a missing observation, "stops" for no update after it.
    ``x_at``, ``y_at``, ``s_at``: the step whose input, observation and samples are used.
    ``reset(first prior, state)``: the state that a step begins with. ``ahead``: predictions
    returned in place of states, ``behind``: those before the update. ``pulled``: towards the first
    prior's mean in place of mu0. ``skipped(t, T)``: whether observation t is not used.
    """

    def fn(pieces: Pieces, name: str, inputs: dict[str, Any]) -> Iterator[State]:
        first = state = vectors.state(name.split("-")[-1], inputs["prior"])
        T, dynamics, stopped = len(inputs["X"]), inputs["dynamics"], False
        if pulled:
            dynamics = {**dynamics, "mu0": first.mu}
        for t in range(T):
            x, y = inputs["X"][x_at(t, T)], inputs["Y"][y_at(t, T)]
            state = reset(first, state)
            if before(t, y is not None):
                state = pieces.predict(state, dynamics)
            predicted = state
            stopped = stopped or (y is None and missing == "stops")
            if y is None and missing in ("zero", "mean"):
                y = np.zeros_like(next(v for v in inputs["Y"] if v is not None))
                if missing == "mean":
                    here = pieces.problem_of(inputs, x, y).at(state.mu)
                    y = np.stack([one.h for one in here]).reshape(np.shape(y))
            if y is not None and not stopped and not skipped(t, T):
                samples = pipeline.at_step(inputs["samples"], s_at(t, T))
                problem = pieces.problem_of(inputs, x, y)
                state = pieces.update(pieces, name, problem, state, samples, inputs["params"])
            if after:
                state = pieces.predict(state, dynamics)
            shown = predicted if behind else state
            yield pieces.predict(state, dynamics) if ahead else shown

    return lambda right: fn


def earlier(t: int, T: int) -> int:
    """The step before, of the first step itself."""
    return max(t - 1, 0)


def later(t: int, T: int) -> int:
    """The next step, of the last step itself."""
    return min(t + 1, T - 1)


def from_the_end(t: int, T: int) -> int:
    """The same step counted from the end."""
    return T - 1 - t


# fmt: off
STREAMS: tuple[Mistake, ...] = (
    run("stream-no-predict", "no prediction between the observations",
        (), stream(before=lambda t, observed: False)),
    run("stream-predict-after", "the prediction after the update in place of before it",
        (), stream(lambda t, observed: False, after=True)),
    run("stream-predict-not-first", "no prediction before the first observation",
        (), stream(lambda t, observed: t > 0)),
    run("stream-predict-once", "a prediction before the first observation alone",
        (), stream(lambda t, observed: t == 0)),
    run("stream-predict-even", "a prediction before every other observation alone",
        (), stream(lambda t, observed: t % 2 == 0)),
    run("stream-last-unused", "the last observation not used",
        (), stream(skipped=lambda t, T: t == T - 1)),
    run("stream-first-unused", "the first observation not used",
        (), stream(skipped=lambda t, T: t == 0)),
    run("stream-predict-twice", "two predictions for each observation", (), stream(after=True)),
    run("stream-ahead", "the predictions for the next step returned in place of the states",
        (), stream(ahead=True)),
    run("stream-behind", "the predictions returned, the states before the update",
        (), stream(behind=True)),
    run("stream-pulled", "the mean of the first prior in place of mu0",
        (), stream(pulled=True)),
    run("stream-missing-stops", "no observation used after a missing one",
        (), stream(missing="stops")),
    run("stream-missing-skips", "a missing observation that skips the prediction too",
        (), stream(lambda t, observed: observed)),
    run("stream-missing-zero", "a missing observation taken as 0", (), stream(missing="zero")),
    run("stream-missing-mean", "a missing observation taken as the predicted mean",
        (), stream(missing="mean")),
    run("stream-x-late", "the input of the step before",
        (), stream(x_at=earlier)),
    run("stream-x-rolled", "the input of the step before (the last one in the first step)",
        (), stream(x_at=lambda t, T: t - 1)),
    run("stream-y-rolled", "the observation of the step before (the last one in the first step)",
        (), stream(y_at=lambda t, T: t - 1)),
    run("stream-x-early", "the input of the next step",
        (), stream(x_at=later)),
    run("stream-y-late", "the observation of the step before",
        (), stream(y_at=earlier)),
    run("stream-y-early", "the observation of the next step",
        (), stream(y_at=later)),
    run("stream-first-x", "the first input in every step", (), stream(x_at=lambda t, T: 0)),
    run("stream-first-samples", "the samples of the first step in every step",
        (), stream(s_at=lambda t, T: 0), MC),
    run("stream-samples-late", "the samples of the step before",
        (), stream(s_at=earlier), MC),
    run("stream-samples-early", "the samples of the next step",
        (), stream(s_at=later), MC),
    run("stream-reversed", "the stream in reverse order",
        (), stream(x_at=from_the_end, y_at=from_the_end, s_at=from_the_end)),
    run("stream-resets", "every step from the first prior",
        (), stream(reset=lambda first, state: first)),
    run("stream-resets-covariance",
        "every step from the covariance of the first prior (only the mean is carried on)",
        (), stream(reset=lambda first, state: first._replace(mu=state.mu))),
    run("stream-resets-mean",
        "every step from the mean of the first prior (only the covariance is carried on)",
        (), stream(reset=lambda first, state: state._replace(mu=first.mu))),
)
# fmt: on

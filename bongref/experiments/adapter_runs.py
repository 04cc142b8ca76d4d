"""A foreign implementation on the same streams: ``bongref run ... --adapter my:Adapter``.

The adapter is one for ``bongref check`` (:mod:`bongref.conformance`). Its ``run`` takes the stream
from one row of metrics to the next; where there is none, or the method draws samples, its
``update`` takes every observation, with samples that are drawn here. The states that it returns are
scored by bongref, with the metrics and the generator of bongref's own runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..conformance import load_adapter
from ..conformance.vectors import model_spec
from ..errors import InvalidValue, NotFinite, NotPositiveDefinite
from ..gaussians import draw, is_valid
from ..grid import STATES, Method
from ..recording.recorder import evaluation_generator
from ..recording.results import Continuation, Result, RunInfo
from ..states import State
from .specs import Spec

STATES_BYTES = 100e6  # an adapter's run returns every state: as many steps at once as fit into this


def streamed(spec: Spec, given: tuple[Any, ...], measures: list[Any]) -> Result:
    """The stream of a spec through its adapter.

    Raises
    ------
    NotFinite, NotPositiveDefinite
        At the first state that is not a Gaussian.
    InvalidValue
        If the adapter does not offer the method.
    """
    m, model, lik, state, X, Y, rng, moving = given
    if moving is not None:
        raise InvalidValue("gamma must not be given with --adapter: its streams do not move")
    adapter, T = load_adapter(spec.adapter), len(X)
    draws, clock, evaluation, t = evaluation_generator(rng), 0.0, 0.0, 0
    rows: list[dict[str, Any]] = []
    Y = lik.encode(Y, model.n_outputs, batch=T)
    described = {"in_shape": model.in_shape, "n_outputs": model.n_outputs, **model_spec(model)}
    likelihood = {"kind": lik.name} | ({"R": lik.R} if lik.name == "gaussian" else {})
    chunk = max(1, int(STATES_BYTES / sum(part.nbytes for part in state)))
    stops = sorted({min(s, T) for one in measures for s in one.every} | {T})
    for stop in stops:
        while t < stop:
            begun = time.perf_counter()
            upto = min(stop, t + chunk)
            args = (m, described, likelihood, state, X[t:upto], Y[t:upto])
            states = _states(adapter, *args, rng)
            clock += time.perf_counter() - begun
            for k, new in enumerate(states):
                _check(m, new, t + k, state if k == 0 else states[k - 1], rows)
            state, t = states[-1], upto
        begun = time.perf_counter()
        due = [one for one in measures if t == T or t in one.every]
        row: dict[str, Any] = {"t": t}
        for one in due:
            row |= one(m, model, lik, state, draws)
        rows.append(row)
        evaluation += time.perf_counter() - begun
    info = RunInfo(adapter.name, "adapter", clock, m, T, 0, evaluation)
    return Result(state, rows, info, T, Continuation(None, None, {}))


def _states(
    adapter: Any, m: Method, model: Any, lik: Any, state: State, X: Any, Y: Any, rng: Any
) -> list[State]:
    """The states after each of some observations."""
    kind, params = STATES[m.family], dict(m.params)
    if "n_samples" not in params and hasattr(adapter, "run"):
        out = adapter.run(
            m.name, model, lik, state._asdict(), X, Y, None, {"kind": "static"}, params
        )
        if out is not NotImplemented:
            return _all(kind, out, state, len(X))
    if "n_samples" in params and m.n_iter > 1:
        raise InvalidValue(
            f"{m.name} with n_iter = {m.n_iter} draws samples of its inner iterates, which an "
            "adapter cannot be given; use --n-iter 1"
        )
    states: list[State] = []
    for x, y in zip(X, Y, strict=True):
        samples = draw(state, params["n_samples"], rng)[None] if "n_samples" in params else None
        args = (m.name, model, lik, state._asdict(), x, y, samples, params)
        out = adapter.update(*args) if hasattr(adapter, "update") else NotImplemented
        if out is NotImplemented:
            raise InvalidValue(f"{adapter.name} does not offer {m.name}")
        state = _state(kind, out, state)
        states.append(state)
    return states


def _all(kind: Any, given: Any, like: State, n: int) -> list[State]:
    """The states that an adapter's run returned, which are to be one for each observation."""
    one = isinstance(given, Mapping) or not isinstance(given, Iterable)
    states = [given] if one else list(given)
    if given is None or len(states) != n:
        got = "None" if given is None else f"{len(states)}"
        raise InvalidValue(
            f"run of the adapter must return {n} states, one for each observation, got {got}"
        )
    return [_state(kind, one, like) for one in states]


def _state(kind: Any, given: Any, like: State) -> State:
    """The state that an adapter returned; a wrong shape is a mistake and no divergence."""
    state: State = kind(*(np.asarray(given[name], float) for name in kind._fields))
    for name, part, old in zip(kind._fields, state, like, strict=True):
        wanted = (len(old), *part.shape[1:2]) if name == "W" else old.shape  # any rank
        if part.shape != wanted:
            raise InvalidValue(
                f"{name} of the adapter must have shape {old.shape}, got {part.shape}"
            )
    return state


def _check(m: Method, new: State, t: int, before: State, rows: list[Any]) -> None:
    if is_valid(new):
        return
    finite = all(np.all(np.isfinite(part)) for part in new)
    raise (NotPositiveDefinite if finite else NotFinite)("", t + 1, before, rows, m.name)

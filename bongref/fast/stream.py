"""The driver of a compiled stream: what the loop runs on, time slices, and steps that are left to the reference."""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

import numpy as np

from ..backends import Advanced
from ..gaussians import is_valid
from ..states import State
from . import estimators, families, threads
from .generic import is_host, step
from .loop import compiled_steps, steps
from .normals import is_pcg, restart, skip, state_of
from .status import OK
from .tuning import FIRST_STEPS, SHARED_NUMBERS, TIME_SLICE


class Live(NamedTuple):
    """The arrays that the loop works on, and the state that was last made of them."""

    picture: Any
    t: int
    parts: Any


NOTHING = Live(None, -1, None)


class Stream:
    """A compiled filter of one stream. ``data`` has xs (T, ...), ys (T, C) and seen (T,), or lists of mini-batches and of other inputs."""

    def __init__(
        self, m: Any, model: Any, lik: Any, data: Any, dynamics: Any, rng: Any, samples: Any
    ):
        self.m, self.rng = m, rng
        xs, ys, P = data.xs, data.ys, model.n_params
        single = model.kind != "wrap" and not any(
            model.is_batch(x) for x in (xs[:1] if isinstance(xs, np.ndarray) else xs)
        )
        self.X = (
            np.ascontiguousarray(np.reshape(np.asarray(xs, float), (len(xs), -1))) if single else xs
        )
        self.Y = np.ascontiguousarray(np.asarray(ys, float)) if single else ys
        self.seen = np.ascontiguousarray(data.seen, dtype=bool)
        self.K = _columns(m, model, ys, samples, single)
        self.dynamics = families.dynamics(m, P, self.K, dynamics)
        empty = self._start(m.prior(mu=np.zeros(P)))
        compiled = (
            single
            and not is_host(step, type(empty.rule))
            and (m.hess.startswith("lin") or (samples is None and is_pcg(rng)))
        )
        setting = estimators.Setting(m, model, lik, rng, samples, single, self.K)
        built = single and m.hess == "mc-ef" and samples is None and is_pcg(rng)
        n = threads.idle() if built and self.K * P >= SHARED_NUMBERS else 1
        self.drawn = compiled and n == 1 and m.hess == "mc-ef"
        if n > 1 or (built and not compiled):
            self.est: Any = estimators.shared(setting, n)
        else:
            self.est = estimators.compiled(setting) if compiled else estimators.host(setting)
        self.steps: Any = compiled_steps if compiled and n == 1 else steps
        self.live, self.pace = NOTHING, FIRST_STEPS
        self._run(empty, 0, 0)  # compiles, or raises Unavailable

    def _start(self, state: State) -> Any:
        return families.start(self.m, state, self.K, len(self.dynamics.b) > 0)

    def _run(self, parts: Any, first: int, stop: int) -> tuple[int, int]:
        """The loop over some steps; -> status and step."""
        rule, prior, state, work = parts
        limit = (
            threads.one_blas_thread() if self.m.family == "dlr" else contextlib.nullcontext()
        )  # tall products
        quiet = np.errstate(all="ignore")
        with limit, quiet:
            return self.steps(
                rule,
                self.est,
                self.dynamics,
                prior,
                state,
                work,
                self.X,
                self.Y,
                self.seen,
                self.m.n_iter,
                first,
                stop,
            )

    # --- time slices

    def advance(self, state: State, t: int, stop: int) -> Advanced:
        """Some of the steps t, …, stop − 1, about TIME_SLICE seconds of them.

        The generator is left where the steps that are done have led it. Where a step cannot be taken, the slice is taken again up
        to it: the loop works in place, and the state after the last good step is gone when it finds out.
        """
        first, last = t, min(stop, t + self.pace)
        generator = None if self.rng is None else self.rng.bit_generator.state
        start = time.perf_counter()
        parts = (
            self.live.parts
            if self.live.picture is state and self.live.t == first
            else self._start(state)
        )
        self.live = NOTHING
        refused = False
        while last > first:
            if self.drawn:
                restart(self.est.source, *state_of(self.rng))
            status, at = self._run(parts, first, last)
            new = families.finish(self.m, parts) if status == OK else None
            if new is not None and (not families.must_be_checked(self.m) or is_valid(new)):
                break
            refused, last = True, at if status != OK else first + (last - first) // 2
            parts = self._start(state)
            if generator is not None:
                self.rng.bit_generator.state = generator
        else:
            return Advanced(state, first, True)
        if self.drawn:
            skip(
                self.rng,
                int(np.count_nonzero(self.seen[first:last]))
                * self.m.n_iter
                * self.m.params["n_samples"]
                * len(state.mu),
            )
        if last - first == self.pace:
            self.pace = max(
                1, int(self.pace * min(16.0, TIME_SLICE / max(time.perf_counter() - start, 1e-6)))
            )
        self.live = Live(new, last, parts)
        return Advanced(new, last, refused)


def _columns(m: Any, model: Any, ys: Any, samples: Any, single: bool) -> int:
    """The most columns that S has in a step, G = −S Sᵀ."""
    if m.hess == "mc-ef":
        return m.params["n_samples"] if samples is None else samples.shape[2]
    if m.hess == "lin-ef":
        return 1
    if single:
        return model.n_outputs
    return max((np.size(y) for y in ys if y is not None), default=1)

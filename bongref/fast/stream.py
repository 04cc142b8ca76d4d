"""The driver of a compiled stream: its arrays, time slices, and steps left to the reference."""

from __future__ import annotations

import contextlib
import time
from typing import Any, NamedTuple

import numpy as np

from ..backends import Advanced
from ..gaussians import is_valid
from ..states import State
from . import Unavailable, estimators, families, threads
from .generic import is_host, step
from .loop import compiled_steps, steps
from .normals import is_pcg, restart, skip, state_of
from .status import OK
from .tuning import FIRST_RATES, GROWTH, NETWORK, SHARED_NUMBERS, TIME_SLICE


class Live(NamedTuple):
    """The arrays that the loop works on, and the state that was last made of them."""

    picture: Any
    t: int
    parts: Any


NOTHING = Live(None, -1, None)


class Stream:
    """A compiled filter of one stream.

    ``data`` has xs (T, ...), ys (T, C) and seen (T,), or lists of mini-batches and of other inputs.
    """

    def __init__(
        self, m: Any, model: Any, lik: Any, data: Any, dynamics: Any, rng: Any, samples: Any,
        prior: Any = None,
    ):
        self.m, self.rng = m, rng
        xs, ys, P = data.xs, data.ys, model.n_params
        first = xs[:1] if isinstance(xs, np.ndarray) else xs
        single = model.kind != "wrap" and not any(model.is_batch(x) for x in first)
        self.X, self.Y = (_floats(xs, True), _floats(ys, False)) if single else (xs, ys)
        self.seen = np.ascontiguousarray(data.seen, dtype=bool)
        self.K = _columns(m, model, ys, samples, single)
        self.dynamics = families.dynamics(m, P, self.K, dynamics)
        empty = self._start(m.prior(mu=np.zeros(P)) if prior is None else prior)
        # mc-ef in compiled code draws its own samples
        drawn = m.hess != "mc-ef" or (samples is None and is_pcg(rng))
        sampled = single and drawn and m.hess == "mc-ef"
        shared = sampled and self.K * P >= SHARED_NUMBERS
        # one kernel for the loop, but for a CNN: compiled for each rule it would take 20 s, and the
        # calls of a loop in Python cost its steps little
        whole = single and drawn and not shared and model.kind != "cnn"
        whole = whole and not is_host(step, type(empty.rule))
        setting = estimators.Setting(m, model, lik, rng, samples, single, self.K)
        if whole:
            self.est: Any = estimators.compiled(setting)
        else:
            n = threads.idle() if shared else 1  # how many changes no bit
            self.est = estimators.shared(setting, n) if sampled else estimators.host(setting)
        self.steps: Any = compiled_steps if whole else steps
        self.drawn = whole and sampled  # the kernel draws
        self.shares = families.may_share(m, empty.rule)
        self.live, self.chunk = Live(prior, 0, empty), _first_steps(m, P, self.K)
        self._run(empty, 0, 0)  # compiles, or raises Unavailable

    def _start(self, state: State) -> Any:
        moving = not isinstance(self.dynamics, families.Still)
        return families.start(self.m, state, self.K, moving)

    def _run(self, parts: Any, first: int, stop: int) -> tuple[int, int]:
        """The loop over some steps; -> status and step."""
        data = self.X, self.Y, self.seen, self.m.n_iter, first, stop
        with np.errstate(all="ignore"):
            return self.steps(parts.rule, self.est, self.dynamics, *parts[1:], *data)

    # --- time slices

    def advance(self, state: State, t: int, stop: int) -> Advanced:
        """Some of the steps t, …, stop − 1, about TIME_SLICE seconds of them.

        The generator is left where the steps that are done have led it. Where a step cannot be
        taken, the slice is taken again up to it: the loop works in place, and the state after the
        last good step is gone when it finds out. Raises Unavailable where a kernel cannot be
        compiled, with the generator as it was.
        """
        first, last = t, min(stop, t + self.chunk, len(self.seen))
        generator = None if self.rng is None else self.rng.bit_generator.state
        start = time.perf_counter()
        try:
            with contextlib.nullcontext() if self.shares else threads.one_blas_thread():
                new, parts, last, refused = self._slice(state, first, last, generator)
        except Unavailable:
            self._rewind(generator)
            raise
        if last == first:
            return Advanced(state, first, True)
        if self.drawn:
            seen, (M, P) = int(np.count_nonzero(self.seen[first:last])), (self.K, len(state.mu))
            skip(self.rng, seen * self.m.n_iter * M * P)
        if last - first == self.chunk:
            ratio = min(GROWTH, TIME_SLICE / max(time.perf_counter() - start, 1e-6))
            self.chunk = max(1, int(self.chunk * ratio))
        self.live = Live(new, last, parts)
        return Advanced(new, last, refused)

    def _slice(self, state: State, first: int, last: int, generator: Any) -> tuple[Any, ...]:
        """(state, its arrays, last, refused) after steps first, …, or those before a bad one."""
        same = self.live.picture is state and self.live.t == first
        parts = self.live.parts if same else self._start(state)
        self.live, refused = NOTHING, False
        before = [a.copy() for a in parts.state] if same else None  # with what is deferred
        while last > first:
            if self.drawn:
                restart(self.est.source, *state_of(self.rng))
            status, at = self._run(parts, first, last)
            new = families.finish(self.m, parts) if status == OK else None
            if new is not None and (not families.must_be_checked(parts.rule) or is_valid(new)):
                return new, parts, last, refused
            refused, last = True, at if status != OK else first + (last - first) // 2
            parts = families.restore(parts, before) if same else self._start(state)
            self._rewind(generator)
        return state, parts, first, True

    def _rewind(self, generator: Any) -> None:
        if generator is not None:
            self.rng.bit_generator.state = generator


def _floats(rows: Any, flat: bool) -> Any:
    """Rows as one C-contiguous array, each of them ``flat``."""
    a = np.asarray(rows, float)
    return np.ascontiguousarray(a.reshape(len(a), -1) if flat else a)


def _columns(m: Any, model: Any, ys: Any, samples: Any, single: bool) -> int:
    """The most columns that S has in a step, G = −S Sᵀ."""
    if m.hess == "mc-ef":
        return m.params["n_samples"] if samples is None else samples.shape[2]
    if m.hess == "lin-ef":
        return 1
    if single:
        return model.n_outputs
    return max((np.size(y) for y in ys if y is not None), default=1)


def _first_steps(m: Any, P: int, K: int) -> int:
    """How many steps the first time slice has, by a guess of their cost (see docs/fast.md)."""
    few, many = FIRST_RATES
    seconds = NETWORK * (K + m.params.get("rank", 0)) * P / few
    if m.family in ("fc", "fc_mom"):
        seconds += (P**3 + K * P**2) / many if m.hess == "mc-ef" else 2 * K * P**2 / few
    return max(1, int(TIME_SLICE / (m.n_iter * seconds)))

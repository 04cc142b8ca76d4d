"""A compiled stream that stays open: observations come one at a time and are not stored.

    live = Live(problem, state, t, x, C)   # x: an input, C: the number of outputs
    live.advance(xs, ys, seen)             # all steps, or StepFailed at the last good state
    live.t, live.state, live.moments(X)

The loop works in place, so that a step that fails, or one that Ctrl-C interrupts, leaves the arrays
invalid. A copy of the state before it is kept, from which the stream goes on. ``mark`` has that
copy and how far the stream has come; it is replaced as a whole, so that an interruption finds the
old one or the new one.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any, NamedTuple

import numpy as np

from ..checks import Observations
from ..dynamics import Static, propagate
from ..fast import families, threads
from ..fast.jit import Kernel, config
from ..fast.normals import restart, skip, state_of
from ..fast.predict import jacobians_of, network
from ..fast.status import OK
from ..fast.stream import Stream
from ..fast.tuning import TIME_SLICE
from ..gaussians import covariance, is_valid
from ..linalg import inv
from ..predictive.linearised import moments as reference_moments
from ..states import DLR, FC, Diag, State
from . import Problem, Reference

SMALL, ROWS_OF_SMALL, ROWS = 10_000, 512, 32  # parameters; rows of the buffer up to and above them
# Products of this size OpenBLAS computes in one thread whatever its setting, which takes 40 µs
PRODUCT, MATRIX = 2**18, 9000


class Mark(NamedTuple):
    """How far the stream has come."""

    base: Any  # copies of the arrays of the state
    spare: Any  # arrays of the same sizes, for the next base
    rng: Any  # the generator's state
    t: int  # steps


class Live:
    """A compiled filter at ``state`` after ``t`` steps."""

    def __init__(self, problem: Problem, state: State, t: int, x: Any, C: int) -> None:
        p = self.problem = problem
        rows = ROWS_OF_SMALL if p.model.n_params <= SMALL else ROWS
        self.builtin = p.model.kind != "wrap"  # type: ignore[attr-defined]
        seen, ys = np.ones(rows, dtype=bool), np.zeros((rows, C))
        data = Observations([x] * rows, list(ys), seen)
        if self.builtin:
            width = math.prod(p.model.in_shape)  # type: ignore[attr-defined]
            data = Observations(np.zeros((rows, width)), ys, seen)
        s = self.stream = Stream(p.m, p.model, p.lik, data, p.dynamics, p.rng, None)
        self.rows, self.C, self.pace = rows, C, 1
        self.network: Any = None
        self._start(state, t)
        self.compiled = isinstance(s.steps, Kernel) and not config.DISABLE_JIT
        rule, prior, now, work = self.parts
        args = (rule, s.est, s.dynamics, prior, now, work, s.X, s.Y, s.seen, s.m.n_iter, 0, 0)
        self.kernel = s.steps.chosen(*args) if self.compiled else s.steps
        self.quick = self.compiled and _is_small(p.m, now, s.K)
        self.checked = families.must_be_checked(rule)

    def _start(self, state: State, t: int) -> None:
        """The stream goes on at ``state``."""
        moving = not isinstance(self.problem.dynamics, Static)
        parts = families.start(self.problem.m, state, self.stream.K, moving)
        mark = Mark(_copies(parts.state), _copies(parts.state), self._generator(), t)
        self.picture: Any = None  # the state, once it was asked for
        self.ahead: Any = None  # Ahead, once a prediction was asked for
        self.clean = False
        self.parts, self.mark = parts, mark
        self.clean = True

    @property
    def t(self) -> int:
        """Steps taken."""
        return self.mark.t

    @property
    def state(self) -> State:
        """The state after step t."""
        self.mend()
        if self.picture is None:
            self.picture = self._finished()
        found: State = self.picture
        return found

    # --- steps

    def one(self, x: Any, y: Any) -> None:
        """One step; y None is a missing observation."""
        self.mend()
        self._put(0, x, y)
        if self._take(1) == 0:
            self._by_reference(x, y)

    def advance(self, xs: Any, ys: Any, seen: Any) -> None:
        """A step for each row."""
        self.mend()
        done = 0
        while done < len(seen):
            count = min(len(seen) - done, self.rows, self.pace)
            for i in range(count):
                self._put(i, xs[done + i], ys[done + i] if seen[done + i] else None)
            begun = time.perf_counter()
            taken = self._take(count)
            done += taken
            if taken == count:
                spent = max(time.perf_counter() - begun, 1e-6) / count
                self.pace = max(1, min(16 * self.pace, self.rows, int(TIME_SLICE / spent)))
            else:
                self._by_reference(xs[done], ys[done] if seen[done] else None)
                done += 1

    def _put(self, k: int, x: Any, y: Any) -> None:
        s = self.stream
        s.seen[k] = y is not None
        s.X[k] = x.reshape(-1) if self.builtin and x is not None else 0.0 if self.builtin else x
        if y is not None:
            s.Y[k] = y

    def _take(self, count: int) -> int:
        """How many of the first rows' steps were taken: all, or those before a refused one."""
        self.clean, self.picture, self.ahead = False, None, None
        while count > 0:
            status, at = self._run(count)
            if status == OK and (not self.checked or is_valid(self._finished())):
                break
            self._restore()
            count = at if status != OK else count // 2
        base, spare, _, t = self.mark
        for new, now in zip(spare, self.parts.state, strict=True):
            np.copyto(new, now)
        self.mark = Mark(spare, base, self._generator(), t + count)
        self.clean = True
        return count

    def _finished(self) -> State:
        return families.finish(self.problem.m, self.parts)

    def _run(self, count: int) -> tuple[int, int]:
        if self.quick:
            return self._loop(count)
        limit = contextlib.nullcontext() if self.stream.shares else threads.one_blas_thread()
        with limit, np.errstate(all="ignore"):
            return self._loop(count)

    def _loop(self, count: int) -> tuple[int, int]:
        """The steps of the first rows, in place; the generator has then moved by their draws."""
        s, (rule, prior, state, work) = self.stream, self.parts
        if s.drawn:
            restart(s.est.source, *state_of(s.rng))
        args = (rule, s.est, s.dynamics, prior, state, work, s.X, s.Y, s.seen, s.m.n_iter)
        status, at = self.kernel(*args, 0, count)
        if s.drawn:
            draws = int(np.count_nonzero(s.seen[:at])) * s.m.n_iter
            skip(s.rng, draws * s.m.params["n_samples"] * len(state.mu))
        return status, at

    def mend(self) -> None:
        """After an interruption: the state of the mark."""
        if not self.clean:
            self._restore()
            self.picture, self.ahead, self.clean = None, None, True

    def _restore(self) -> None:
        families.restore(self.parts, self.mark.base)
        if self.problem.rng is not None:
            self.problem.rng.bit_generator.state = self.mark.rng

    def _by_reference(self, x: Any, y: Any) -> None:
        """A step that the compiled path refuses; raises StepFailed where the reference does too."""
        p, self.last = self.problem, (x, y)
        data = Observations([x], [y], np.array([y is not None]))
        state = Reference(p._replace(data=data), "").advance(self.state, 0, 1).state
        self._start(state, self.t + 1)

    def _generator(self) -> Any:
        rng = self.problem.rng
        return None if rng is None else rng.bit_generator.state

    # --- the outputs of the network

    def moments(self, X: Any) -> tuple[Any, Any]:
        """Means (N, C) and covariances (N, C, C) of the linearised outputs for the next step."""
        p = self.problem
        if self.ahead is None:
            self.ahead = Ahead(propagate(self.state, p.dynamics))
        if not self.builtin:
            return reference_moments(p.model, self.ahead.state, X)
        if self.network is None:
            self.network = network(p.model, self.C)
        o, J = jacobians_of(self.network, self.ahead.state.mu, X)
        return o, self.ahead.covariances(J)


class Ahead:
    """The prior of the next step, and what predictions need of it, made once."""

    def __init__(self, state: State) -> None:
        self.state: Any = state
        self.inner: Any = None  # (I + WᵀΥ⁻¹W)⁻¹ of a DLR state
        if isinstance(state, DLR) and np.all(state.Ups > 0):
            R = state.W.shape[1]
            self.inner = inv(np.eye(R) + state.W.T @ (state.W / state.Ups[:, None]))

    def covariances(self, J: Any) -> Any:
        """J Σ Jᵀ for J (N, C, P). Reference: linearised.moments."""
        q = self.state
        if isinstance(q, Diag):
            return (J * q.var) @ J.swapaxes(1, 2)
        if self.inner is None:
            Sigma = q.Sigma if isinstance(q, FC) else covariance(q)
            return J @ Sigma @ J.swapaxes(1, 2)
        A = J / q.Ups
        Z = A @ q.W
        return A @ J.swapaxes(1, 2) - Z @ self.inner @ Z.swapaxes(1, 2)


def _copies(state: Any) -> Any:
    return type(state)(*(np.array(a) for a in state))


def _is_small(m: Any, state: Any, K: int) -> bool:
    """Whether every product of a step is too small for the threads of BLAS."""
    P = len(state.mu)
    if m.family == "dlr":
        n = K + len(state.Wt) * (1 if m.rule in ("bong", "bog") else 2)
        return bool(n * n * P <= PRODUCT and n * P <= MATRIX)
    if m.family in ("fc", "fc_mom"):
        n = max(len(state.V), P) if hasattr(state, "V") else P
        return bool(n * P * P <= PRODUCT and n * P <= MATRIX)
    return True

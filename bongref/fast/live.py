"""A compiled stream that stays open: observations come one at a time, and none is kept for long.

    live = Live(problem, state)
    live.advance(xs, ys, seen)    # takes all steps, or raises StepFailed at the last good state
    live.t, live.state, live.moments(X)

The loop works in place, so that a step that fails, and one that Ctrl-C interrupts, leaves arrays
without a meaning. Beside them there are a copy of the state some steps ago (the base) and the
observations since then, at most ``rows`` of them: what is lost is computed again from these, with
the same bits. ``mark`` says how far the stream has come; it is replaced as a whole, so that an
interruption finds the old one or the new one.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any, NamedTuple

import numpy as np

from ..backends import Problem, Reference
from ..checks import Observations
from ..dynamics import Static, propagate
from ..gaussians import covariance, is_valid
from ..linearised import moments as reference_moments
from ..states import DLR, FC, Diag, State
from . import families, threads
from .jit import Kernel, config
from .normals import restart, skip, state_of
from .predict import jacobians_of, network
from .status import OK
from .stream import Stream
from .tuning import TIME_SLICE

SMALL, ROWS_OF_SMALL, ROWS = 10_000, 512, 32  # parameters; rows of the buffer up to and above them
# Products of this size OpenBLAS computes in one thread whatever its setting, which takes 40 µs
PRODUCT, MATRIX = 2**18, 9000


class Mark(NamedTuple):
    """How far the stream has come: n observations of the buffer after the base."""

    base: Any  # copies of the arrays of the state
    rng: Any  # the generator's state at the base
    t: int  # the steps before the base
    n: int


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
        self.stream = Stream(p.m, p.model, p.lik, data, p.dynamics, p.rng, None)
        self.rows, self.C, self.pace = rows, C, 1
        self.parts = families.start(p.m, state, self.stream.K, not isinstance(p.dynamics, Static))
        self.spare = _copies(self.parts.state)
        self.mark = Mark(_copies(self.parts.state), self._generator(), t, 0)
        self.clean = True
        self.picture: Any = None  # the state, once it was asked for
        self.ahead: Any = None  # Ahead, once a prediction was asked for
        self.network: Any = None
        steps = self.stream.steps
        self.compiled = isinstance(steps, Kernel) and not config.DISABLE_JIT
        s, (rule, prior, now, work) = self.stream, self.parts
        args = (rule, s.est, s.dynamics, prior, now, work, s.X, s.Y, s.seen, s.m.n_iter, 0, 0)
        self.kernel = steps.chosen(*args) if self.compiled else steps
        self.limited = p.m.family == "dlr" and not _is_small(
            p.m, self.parts.state.Wt, self.stream.K
        )
        self.checked = families.must_be_checked(self.parts.rule)

    @property
    def t(self) -> int:
        """Steps taken."""
        return self.mark.t + self.mark.n

    @property
    def state(self) -> State:
        """The state after step t."""
        self.mend()
        if self.picture is None:
            self.picture = families.finish(self.problem.m, self.parts)
        found: State = self.picture
        return found

    # --- steps

    def one(self, x: Any, y: Any) -> None:
        """One step; y None is a missing observation."""
        k = self._place()
        self._put(k, x, y)
        if not self._take(k, k + 1):
            self._by_reference(x, y)

    def advance(self, xs: Any, ys: Any, seen: Any) -> None:
        """A step for each row."""
        done = 0
        while done < len(seen):
            k = self._place()
            count = min(len(seen) - done, self.rows - k, self.pace)
            for i in range(count):
                at = done + i
                self._put(k + i, xs[at], ys[at] if seen[at] else None)
            begun = time.perf_counter()
            if self._take(k, k + count):
                done += count
                spent = max(time.perf_counter() - begun, 1e-6) / count
                self.pace = max(1, min(16 * self.pace, self.rows, int(TIME_SLICE / spent)))
                continue
            done += self.mark.n - k if self.mark.n > k else 0
            self._by_reference(xs[done], ys[done] if seen[done] else None)
            done += 1

    def _place(self) -> int:
        """The first free row of the buffer; a full one is emptied by a new base."""
        self.mend()
        if self.mark.n == self.rows:
            for new, now in zip(self.spare, self.parts.state, strict=True):
                np.copyto(new, now)
            base, spare = self.spare, self.mark.base
            self.mark = Mark(base, self._generator(), self.t, 0)
            self.spare = spare
        return self.mark.n

    def _put(self, k: int, x: Any, y: Any) -> None:
        s = self.stream
        s.seen[k] = y is not None
        s.X[k] = x.reshape(-1) if self.builtin and x is not None else 0.0 if self.builtin else x
        if y is not None:
            s.Y[k] = y

    def _take(self, first: int, stop: int) -> bool:
        """The steps of these rows; False where one is refused, after those before it."""
        self.clean, self.picture, self.ahead = False, None, None
        status, at = self._run(first, stop)
        if status == OK and self.checked:
            valid = is_valid(families.finish(self.problem.m, self.parts))
            status, at = (OK, stop) if valid else (-1, first)
        if status == OK:
            base, rng, t, _ = self.mark
            self.mark = Mark(base, rng, t, stop)
            self.clean = True
            return True
        self._rewind(at)
        if status == -1 and stop > first + 1:  # which step it was is not known: one at a time
            for k in range(first, stop):
                if not self._take(k, k + 1):
                    break
        return False

    def _run(self, first: int, stop: int) -> tuple[int, int]:
        if self.compiled and not self.limited:
            return self._loop(first, stop)
        limit = threads.one_blas_thread() if self.limited else contextlib.nullcontext()
        with limit, np.errstate(all="ignore"):
            return self._loop(first, stop)

    def _loop(self, first: int, stop: int) -> tuple[int, int]:
        """The steps of these rows, in place; the generator has then moved by their draws."""
        s, (rule, prior, state, work) = self.stream, self.parts
        if s.drawn:
            restart(s.est.source, *state_of(s.rng))
        args = (rule, s.est, s.dynamics, prior, state, work, s.X, s.Y, s.seen, s.m.n_iter)
        status, at = self.kernel(*args, first, stop)
        if s.drawn:
            count = int(np.count_nonzero(s.seen[first:at])) * s.m.n_iter
            skip(s.rng, count * s.m.params["n_samples"] * len(state.mu))
        return status, at

    def mend(self) -> None:
        """After an interruption: the state of the mark."""
        if not self.clean:
            self._rewind(self.mark.n)

    def _rewind(self, n: int) -> None:
        """The state of the base, and from there the first n rows of the buffer."""
        base, rng, _, _ = self.mark
        for now, old in zip(self.parts.state, base, strict=True):
            np.copyto(now, old)
        if self.problem.rng is not None:
            self.problem.rng.bit_generator.state = rng
        if n > 0:
            self._run(0, n)
        self.mark = self.mark._replace(n=n)
        self.clean = True

    def _by_reference(self, x: Any, y: Any) -> None:
        """A step that the compiled path refuses; raises StepFailed where the reference does too."""
        t, p, self.last = self.t, self.problem, (x, y)
        data = Observations([x], [y], np.array([y is not None]))
        state = Reference(p._replace(data=data), "").advance(self.state, 0, 1).state
        moving = not isinstance(p.dynamics, Static)
        parts = families.start(p.m, state, self.stream.K, moving)
        mark = Mark(_copies(parts.state), self._generator(), t + 1, 0)
        self.clean, self.picture, self.ahead = False, None, None
        self.parts, self.mark = parts, mark
        self.clean = True

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
            self.inner = np.linalg.inv(np.eye(R) + state.W.T @ (state.W / state.Ups[:, None]))

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


def _is_small(m: Any, Wt: Any, K: int) -> bool:
    R, P = Wt.shape
    n = K + R * (1 if m.rule in ("bong", "bog") else 2)
    return n * n * P <= PRODUCT and n * P <= MATRIX

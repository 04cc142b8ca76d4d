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
from ..gaussians import is_valid
from ..linearised import moments as reference_moments
from ..states import State
from . import families, nets, threads
from .generic import predict
from .jit import Kernel, U, config, device, kernel
from .nets.interface import forward, pullback
from .normals import restart, skip, state_of
from .small import cholesky, solve_lower
from .status import OK, UNSUPPORTED
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
        self.ahead: Any = None  # what moments need of the prior of the next step
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
        self.mend()
        p, found = self.problem, None
        if self.builtin and p.m.family in ("diag", "diag_mom", "dlr"):
            rows = np.ascontiguousarray(X, dtype=float).reshape(len(X), -1)
            found = self._compiled_moments(rows if rows.flags.writeable else rows.copy())
        if found is None:
            return reference_moments(p.model, propagate(self.state, p.dynamics), X)
        return found

    def _compiled_moments(self, X: Any) -> tuple[Any, Any] | None:
        p, C = self.problem, self.C
        if self.network is None:
            net, ints = nets.describe(p.model)
            v, words = nets.workspace(net, C + C * C)
            self.network = net, ints, v, words, np.zeros((2, C, p.model.n_params))
        known = self.ahead is not None
        ahead = self.ahead if known else self._predicted()
        if ahead is None:
            return None
        m, V = np.empty((len(X), C)), np.empty((len(X), C, C))
        if len(ahead) == 2:
            _call(moments_diag, *self.network, *ahead, X, (m, V))
        elif _call(moments_dlr, *self.network, *ahead, known, X, (m, V)) != OK:
            return None
        self.ahead = ahead
        return m, V

    def _predicted(self) -> tuple[Any, ...] | None:
        """The arrays of the prior of the next step, and for DLR those of the kernel's factor."""
        p, state = self.problem, self.parts.state
        if not isinstance(p.dynamics, Static):
            state = _copies(state)
            if predict(self.stream.dynamics, state, self.parts.work) != OK:
                return None
        return tuple(state) if len(state) == 2 else (*state, np.empty((len(state.Wt),) * 2))


def _copies(state: Any) -> Any:
    return type(state)(*(np.array(a) for a in state))


def _is_small(m: Any, Wt: Any, K: int) -> bool:
    R, P = Wt.shape
    n = K + R * (1 if m.rule in ("bong", "bog") else 2)
    return n * n * P <= PRODUCT and n * P <= MATRIX


_known: dict[Any, Any] = {}


def _call(fn: Kernel, *args: Any) -> Any:
    """A kernel, without a look at the types of its arguments once it has been called with them."""
    key = (fn.name, type(args[0]))
    if key in _known and not config.DISABLE_JIT:
        return _known[key](*args)
    result = fn(*args)
    _known[key] = fn.chosen(*args)
    return result


# --- kernels --------------------------------------------------------------------------------------


@device
def linearise(net, ints, v, words, mu, x, m, J):
    """m (C,) = f(x, μ) and J (C, P) = ∂f/∂θ."""
    C = U(len(m))
    forward(net, ints, v, words, mu, x, net.size)
    for i in range(C):
        m[i] = v[net.size + i]
        for j in range(C):
            v[net.size + C + i * C + j] = 1.0 if i == j else 0.0
    pullback(net, ints, v, words, mu, net.size + C, C, J)


@device
def weighted_products(A, B, V):
    """V = A Bᵀ, symmetric."""
    for i in range(len(V)):
        for j in range(i + 1):
            a, b, s = A[i], B[j], 0.0
            for p in range(len(a)):
                s += a[p] * b[p]
            V[i, j] = V[j, i] = s


@kernel
def moments_diag(net, ints, v, words, J, mu, var, X, out):
    """out = m (N, C) = f(x, μ), V (N, C, C) = J Diag(var) Jᵀ. Reference: linearised.moments."""
    m, V = out
    for n in range(len(X)):
        linearise(net, ints, v, words, mu, X[n], m[n], J[0])
        for i in range(J.shape[1]):
            a, b = J[0, i], J[1, i]
            for p in range(len(mu)):
                b[p] = a[p] * var[p]
        weighted_products(J[1], J[0], V[n])


@device
def inner_factor(Ups, Wt, L):
    """The lower factor L of I + Wᵀ Υ⁻¹ W; UNSUPPORTED where an Υ is not positive."""
    R, P = Wt.shape
    bad, inverse, row = 0, np.empty(P), np.empty(P)
    for p in range(P):
        inverse[p] = 1.0 / Ups[p]
        bad += 0 if Ups[p] > 0.0 else 1
    for i in range(R):
        a = Wt[i]
        for p in range(P):
            row[p] = a[p] * inverse[p]
        for j in range(i + 1):
            b, s = Wt[j], 0.0
            for p in range(P):
                s += row[p] * b[p]
            L[i, j] = L[j, i] = s
        L[i, i] += 1.0
    return OK if bad == 0 and cholesky(L, R) else UNSUPPORTED


@kernel
def moments_dlr(net, ints, v, words, J, mu, Ups, Wt, L, known, X, out):
    """out = m (N, C) = f(x, μ), V (N, C, C) = J (Υ + W Wᵀ)⁻¹ Jᵀ; L is written unless it is known.
    Reference: linearised.moments.
    """
    m, V = out
    if not known:
        status = inner_factor(Ups, Wt, L)
        if status != OK:
            return status
    R, C = len(Wt), J.shape[1]
    Z = np.empty((R, C))
    for n in range(len(X)):
        linearise(net, ints, v, words, mu, X[n], m[n], J[0])
        for i in range(C):
            a, b = J[0, i], J[1, i]
            for p in range(len(mu)):
                b[p] = a[p] / Ups[p]
            for r in range(R):
                w, s = Wt[r], 0.0
                for p in range(len(mu)):
                    s += w[p] * b[p]
                Z[r, i] = s
        weighted_products(J[1], J[0], V[n])
        solve_lower(L, R, Z, C)
        for i in range(C):
            for j in range(i + 1):
                s = 0.0
                for r in range(R):
                    s += Z[r, i] * Z[r, j]
                V[n, i, j] = V[n, j, i] = V[n, i, j] - s
    return OK

"""Whole filters: :class:`Stream` takes a belief from one step of a stream to a later one.

The diagonal families and, where nothing is drawn, DLR run in one compiled loop. Everything else is a loop in Python around a compiled
estimator and a compiled step (the ``Belief`` of each family); a model of the user's keeps its autograd Jacobian and gets the step.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np

from ...dynamics import Static, matrices
from ...gaussians import is_valid
from ...grid import Method
from ...states import DLR, FC, State
from ..estimators import Compiled, Normals, threads
from ..likelihoods import KINDS
from ..normals import is_pcg

BREATH = 0.1  # seconds after which a compiled loop comes back, so that it can be interrupted and show where it is
# numbers for which a second thread pays; see Stream._threads
WORTH = {"parts": 20_000, "rows": 200_000, "loop": 8_000, "image": 20_000, "samples": 10**6}
TALL = 20_000  # parameters from which an inner loop in the DLR family takes one observation at a time, whose prior is the state before it
LONG_BREATH = 0.5  # the same for a loop of Python, which can be interrupted at any time


def why_not(m: Method, model: Any, lik: Any, prior: State, dynamics: Any, *, trace: bool, form: str) -> str:
    """Why this stream has no compiled path; empty where it has one."""
    if trace:
        return "trace=True records every symbol, which only the reference does"
    if form != "auto":
        return f"form={form!r} asks for one form of the equations, which only the reference chooses"
    if m.params.get("virtual"):
        return "virtual=True draws observations between the samples"
    if m.hess == "mc-hess":
        return f"{m.name} needs the Hessian of the network, which autograd computes"
    if getattr(lik, "name", None) not in KINDS:
        return f"the likelihood {lik!r} is not one of {', '.join(KINDS)}"
    if m.family not in ("fc", "fc_mom") and not isinstance(dynamics, Static):
        F, _, Q = matrices(dynamics, len(prior.mu))
        if F.ndim == 2 or Q.ndim == 2:
            return "the dynamics are not diagonal"
    return ""


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  so that its BLAS is there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Inside, every BLAS has one thread, as before afterwards: some builds take a second for what one thread does in a millisecond."""
    return _controller().limit(limits=1, user_api="blas")


class Stream:
    """The compiled filter of one stream; ``seen`` are the steps that have an observation."""

    def __init__(self, m: Method, model: Any, lik: Any, xs: Any, ys: Any, dynamics: Any, rng: Any, samples: Any):
        self.m, self.model, self.lik, self.rng, self.samples = m, model, lik, rng, samples
        self.xs, self.ys = xs, ys
        P = model.n_params
        self.dyn = None if isinstance(dynamics, Static) else matrices(dynamics, P)
        self.seen = np.array([y is not None for y in ys])
        self.builtin = model.kind != "wrap" and not any(model.is_batch(x) for x in xs[: 1 if isinstance(xs, np.ndarray) else None])
        static = self.dyn is None and m.family in ("fc", "fc_mom")
        self.rank_one = static and self.builtin and (m.hess == "lin-ef" or (m.hess == "lin-hess" and model.n_outputs == 1))
        self.live: tuple[Any, int, Any] = (None, 0, None)
        self.loop: Any = None
        self.room: list[Any] = []
        drawn = samples is None and is_pcg(rng)  # mc-ef whose samples the kernel draws
        self.whole = self.builtin and m.family in ("diag", "diag_mom", "dlr") and (m.hess.startswith("lin") or drawn)
        steps = min(4e9 / P**2, 1e4) if self.rank_one else 256 if m.hess.startswith("lin") else 32  # about a breath, to begin with
        self.pace = 1 if self.whole else max(1, int(steps / m.n_iter))
        self.alone = self.whole and m.family == "dlr" and m.rule in ("blr", "bbb") and P >= TALL
        if self.builtin:
            self.X = np.ascontiguousarray([np.ravel(x) for x in xs] if not isinstance(xs, np.ndarray) else xs.reshape(len(xs), -1))
            none = np.zeros(model.n_outputs)
            self.Y = np.ascontiguousarray(ys if isinstance(ys, np.ndarray) else [none if y is None else y for y in ys])
            self.estimator = Compiled(m, model, lik, self._threads(), rows=not self.whole)

    def _threads(self) -> int:
        """How many threads share an estimate (and the step of DLR): one, unless it is so large that more of them pay."""
        m, C, diagonal = self.m, self.model.n_outputs, self.m.family in ("diag", "diag_mom")
        if m.hess == "mc-ef":  # sums over parts of the samples, or all of the samples at once
            K, worth = m.params["n_samples"], WORTH["parts" if self.whole else "samples"]
        elif m.family == "dlr" and self.whole:  # the rows of the Jacobian and of W
            K, worth = m.params["rank"] + (C if m.hess == "lin-hess" else 1), WORTH["loop" if m.rule in ("blr", "bbb") else "rows"]
        elif diagonal and self.whole and self.model.kind == "cnn":  # pixels, or the rows of the Jacobian
            return threads() if self.model.n_params >= WORTH["image"] else 1
        else:  # the rows of the Jacobian
            K, worth = C + 1 if diagonal and self.whole and m.hess == "lin-hess" and C > 1 else 1, WORTH["rows"]
        return min(threads(), K) if K * self.model.n_params >= worth else 1

    def advance(self, state: State, first: int, last: int) -> tuple[State, int, bool]:
        """The state after some of the steps first, …, last − 1, how many they were, and whether the next one is left to the reference.

        In that case the state is the one that was given, and the generator has moved by the draws of an unknown number of steps: the caller
        puts it back and asks for the good steps again.
        """
        start, last = time.perf_counter(), min(last, first + self.pace)
        drawn = self.m.family == "dlr" and self.m.hess == "mc-ef"
        if self.whole and not drawn:  # nothing of it goes through a BLAS
            state, done = self._whole(state, first, last)
        else:
            with one_blas_thread():
                state, done = self._whole(state, first, last) if self.whole else self._step_by_step(state, first, last)
        spent, breath = time.perf_counter() - start, BREATH if self.whole and not drawn else LONG_BREATH
        if done == self.pace and not self.alone:
            self.pace = max(1, int(self.pace * min(16.0, breath / max(spent, 1e-6))))
        return state, done, done < last - first

    def _step_by_step(self, state: State, first: int, last: int) -> tuple[State, int]:
        from .dlr import NotHere

        source, t = self._source(first, last), first
        try:
            q = self._belief(state, first)
            while t < last:
                if self.rank_one:
                    t, good = q.several(self.estimator, self.X[:last], self.Y[:last], self.seen[:last], t)
                    if not good:
                        return state, t - first
                if t < last:
                    q.predict()
                    if self.seen[t] and not self._update(q, t, source):
                        return state, t - first
                    t += 1
            end = last == len(self.xs)
            new = q.state(end)
            if not (q.ok and (q.valid(new) if isinstance(new, FC) else is_valid(new))):
                return state, 0
            self.live = (None, 0, None) if end else (new, last, q)
            return new, last - first
        except NotHere:  # the reference takes the next step
            return state, t - first
        finally:
            if source is not None:
                source.close()

    def _belief(self, state: State, first: int) -> Any:
        """The belief that this state was a picture of, as long as nothing came between, so that looking does not change what comes."""
        from .belief import belief

        picture, t, q = self.live
        self.live = None, 0, None
        return q if picture is state and t == first else belief(self.m, state, self.dyn)

    def _whole(self, state: Any, first: int, last: int) -> tuple[State, int]:
        m, part = self.m, slice(first, last)
        empty = np.zeros(0)
        f, b, q = (empty, empty, empty) if self.dyn is None else self.dyn
        alpha = float(m.params.get("alpha", 1))
        data: tuple[Any, ...] = (self.X[part], self.Y[part], self.seen[part])
        if m.family == "dlr" and m.hess == "mc-ef":
            if self.loop is None:
                from .dlr import Sampled as LowRank

                self.loop = LowRank(m, self.estimator, self.rng, self.dyn)
            return self.loop.run(state, *data)
        if m.family == "dlr":
            from .dlr import copied, stream

            prior = state if self.dyn is None and m.rule in ("blr", "bbb") and last - first == 1 else None
            mu, Ups, Wt = copied(state.mu, state.Ups, state.W.T)
            loop: Any = stream
            fellows = self.estimator.works[1:]
            done, code = loop(*self.estimator.description, m.rule, *data, mu, Ups, Wt, alpha, m.n_iter, f, b, q, fellows, self.room, prior)
            return (DLR(mu, Ups, Wt.T) if code == 0 else state), done
        if self.loop is None:
            from .diag import Linearised, Sampled

            self.loop = Linearised(m, self.estimator) if m.hess.startswith("lin") else Sampled(m, self.estimator, self.rng)
        return self.loop.run(state, *data, (f, b, q))

    # --- one observation -------------------------------------------------------------------------------------------------------

    def _source(self, first: int, last: int) -> Normals | None:
        """The normal variates of these steps, in the reference's order."""
        if not self.m.hess.startswith("mc") or self.samples is not None:
            return None
        shape = self.m.params["n_samples"], self.model.n_params
        return Normals(self.rng, shape, int(self.seen[first:last].sum()) * self.m.n_iter)

    def _update(self, q: Any, t: int, source: Normals | None) -> bool:
        q.begin()
        for i in range(self.m.n_iter):
            if not self._iterate(q, t, i, source):
                return False
        q.end()
        return True

    def _iterate(self, q: Any, t: int, i: int, source: Normals | None) -> bool:
        if not self.builtin:
            return self._reference_estimate(q, t, i, source)
        x, y = self.X[t], self.Y[t]
        if self.m.hess.startswith("lin"):
            g, rows = self.estimator.linearised(x, y, q.mu)
        else:
            theta = self._thetas(q, t, i, source)
            g, rows = self.estimator.sampled(x, y, theta.copy() if source is None else theta)
        return bool(np.isfinite(g @ g) and np.isfinite(np.vdot(rows, rows))) and q.step(g, rows)

    def _thetas(self, q: Any, t: int, i: int, source: Normals | None) -> np.ndarray:
        if source is None:
            return self.samples[t, i]
        Z = source.block()
        q.draw(Z)
        return Z

    def _reference_estimate(self, q: Any, t: int, i: int, source: Normals | None) -> bool:
        """The estimator of the reference and the compiled step: models of the user's, mini-batches."""
        from ...curvature import lin_ef, lin_hess, mc_ef

        x, y = self.xs[t], self.ys[t]
        if self.m.hess == "mc-ef":
            theta = self._thetas(q, t, i, source)
            if not np.all(np.isfinite(theta)):  # there was nothing to draw from
                return False
            curv = mc_ef(self.model, self.lik, x, y, theta)
        else:
            curv = (lin_hess if self.m.hess == "lin-hess" else lin_ef)(self.model, self.lik, x, y, q.mu)
        rows = np.ascontiguousarray(curv.S.T)
        return bool(np.all(np.isfinite(curv.g)) and np.all(np.isfinite(rows))) and q.step(curv.g, rows)

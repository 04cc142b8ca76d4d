"""The filter: one step, one update (algo:update), a whole stream (algo:main).

    state, info = step(m, prior, current, curv)                   # no network
    state, info = update(m, model, lik, prior, x, y, rng=rng)      # one observation or a mini-batch
    result      = run(m, model, lik, prior, X, Y, rng=rng)         # a stream

All three are pure: what they are given stays as it was, also when they refuse.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import checks, curvature
from .curvature import Curv
from .dynamics import Dynamics, Static, propagate
from .gaussians import draw, is_valid
from .grid import STATES, Method, method
from .linalg import Array
from .paper import eq
from .states import DLR, State
from .trace import Symbol, recording


class Info(NamedTuple):
    """What a step or an update has to say about its result."""

    valid: bool  # every iterate is still a Gaussian (positive definite)
    iteration: int | None = None  # the first inner iteration, from 1, whose result is not
    form: str = ""  # the function that computed the step, e.g. "dlr.bong_woodbury"
    trace: tuple[Symbol, ...] = ()  # with trace=True: every symbol with its value and equation


class NotPositiveDefinite(ArithmeticError):
    """A stream lost positive definiteness at ``step`` (from 1). ``state`` is the last good one, ``rows`` what was measured so far."""

    def __init__(self, step: int, state: State, rows: list[dict[str, Any]], name: str):
        super().__init__(
            f"{name}: the update at step {step} gave a state that is not positive definite; "
            f"the state after step {step - 1} is in .state, the {len(rows)} row(s) so far in .rows. "
            "A smaller alpha or prior variance may keep it; bong in fc, diag and dlr with mc-ef, lin-hess or lin-ef always does."
        )
        self.step, self.state, self.rows, self.name = step, state, rows, name

    def __reduce__(self):
        return NotPositiveDefinite, (self.step, self.state, self.rows, self.name)


class Result(NamedTuple):
    """A filtered stream: the state after step ``t``, the rows of metrics, and how it was run. ``run(..., resume=result)`` goes on."""

    state: State
    rows: list[dict[str, Any]]
    info: dict[str, Any]
    t: int


class Interrupted(KeyboardInterrupt):
    """A stream stopped by the user; ``result`` holds what was done, for ``run(..., resume=result)``."""

    def __init__(self, result: Result):
        super().__init__(f"stopped after step {result.t}; go on with run(..., resume=error.result)")
        self.result = result

    def __reduce__(self):
        return Interrupted, (self.result,)


# --- one step ------------------------------------------------------------------------------------------------------------


def step(m: Method | str, prior: State, current: State | None, curv: Curv, *, form: str = "auto") -> tuple[State, Info]:
    """One step of the method's rule in its family from (g, G): q_{t,i} from q_{t|t-1} and q_{t,i-1}.

    ``current`` is q_{t,i-1}; bong and bog ignore it, for blr and bbb None means the prior (i = 1). ``form``: "plain" is the displayed
    equation, "efficient" the form for G = −S Sᵀ, "auto" the efficient one where it applies and pays.
    """
    m = _method(m, prior)
    kind = STATES[m.family]
    prior = checks.state("prior", prior, kind, R=m.params.get("rank"))
    P = len(prior.mu)
    R = prior.W.shape[1] if m.family == "dlr" else None  # type: ignore[union-attr]
    if m.rule in ("bong", "bog"):
        current = None  # they start at the prior
    if current is not None:
        current = checks.state("current", current, kind, P=P, R=R)
    curv = checks.curv(curv, P, diagonal_ok=m.family in ("diag", "diag_mom"))
    _check_form(form)
    state, fn = _step(m, prior, prior if current is None else current, curv, form)
    valid = is_valid(state)
    return state, Info(valid, None if valid else 1, _where(fn))


def _method(m: Method | str, prior: Any) -> Method:
    """The method; one given by its name alone takes the rank of the prior."""
    if isinstance(m, str) and isinstance(prior, DLR) and np.ndim(prior.W) == 2 and method(m).family == "dlr":
        return method(m, rank=np.shape(prior.W)[1])
    return method(m)


def _step(m: Method, prior: State, current: State, curv: Curv, form: str = "auto") -> tuple[State, Callable]:
    fn = m.step_function(curv, current if m.rule in ("blr", "bbb") else prior, form)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # whatever comes out is reported by Info.valid
        return fn(prior, current, curv, m.params.get("alpha", 1)), fn  # sec:pseudocode#11


def _where(fn: Callable) -> str:
    return f"{fn.__module__.rpartition('.')[2]}.{fn.__name__}"


# --- one observation, or a mini-batch -------------------------------------------------------------------------------------


class Draws(NamedTuple):
    """The randomness of one update, given by the user in place of a generator."""

    samples: Array | None = None  # (I, M, P): the θ̂ themselves
    probes: Array | None = None  # (I, M, N, P): Hutchinson's ±1


def update(
    m: Method | str,
    model: Any,
    lik: Any,
    prior: State,
    x: Any,
    y: Any,
    *,
    rng: np.random.Generator | None = None,
    samples: Any = None,
    probes: Any = None,
    trace: bool = False,
    form: str = "auto",
) -> tuple[State, Info]:
    """The posterior after one observation (x, y), or after a mini-batch of conditionally independent ones (algo:update).

    ``samples`` (I, M, P), the θ̂ of each inner iteration, stand in for ``rng`` and make the update deterministic; for Hutchinson's
    diagonal (n_probes) ``probes`` (I, M, N, P) do. ``y=None`` is a missing observation: the posterior is the prior.
    ``trace=True`` puts every symbol of the paper with its value and equation into ``info.trace``.
    """
    m = _method(m, prior)
    prior = _check_prior(m, model, prior)
    _check_form(form)
    x = model.check(x=x)[1]
    if y is None:
        return prior, Info(True)
    y = _encode(model, lik, prior, x, y)
    draws = _check_draws(m, len(prior.mu), rng, samples, probes)
    if not trace:
        return _update(m, model, lik, prior, x, y, rng, draws, form)
    with recording(m.name) as seen:
        state, info = _update(m, model, lik, prior, x, y, rng, draws, form, traced=True)
    return state, info._replace(trace=tuple(seen))


@eq("sec:pseudocode#5")
def _update(m, model, lik, prior, x, y, rng, draws=Draws(), form="auto", traced=False) -> tuple[State, Info]:  # noqa: B008
    """:func:`update` on checked arguments."""
    current: Any = prior
    inner: Any = None  # the module of an inner loop without inversions, where there is one
    bad: int | None = None
    fn: Callable = _step
    for i in range(m.n_iter):
        if bad is not None and not (np.all(np.isfinite(current.mu)) if m.hess.startswith("lin") else draws.samples is not None):
            break  # nothing to linearise at, nothing to draw from
        q = current if inner is None or m.hess.startswith("lin") else inner.finish(prior, current)
        curv = _estimate(m, model, lik, q, x, y, rng, draws, i, traced)
        if not all(a is None or np.all(np.isfinite(a)) for a in curv):
            raise FloatingPointError(
                f"{m.hess} gave a gradient or Hessian that is not finite at inner iteration {i + 1}: the model or the likelihood "
                "overflows at this x and these parameters; the state before is unchanged"
            )
        if i == 0 and (inner := m.inner_loop(curv, form)) is not None:
            current = inner.start(prior)
        if inner is None:
            current, fn = _step(m, prior, current, curv, form)
            valid = is_valid(current)
        else:
            fn = inner.blr_increment
            current = fn(prior, current, curv, m.params["alpha"])
            valid = inner.is_valid_increment(current)
        if bad is None and not valid:
            bad = i + 1
    state = current if inner is None else inner.finish(prior, current)
    return state, Info(bad is None, bad, _where(fn))


@eq("sec:pseudocode#10", "sec:pseudocode#12", "sec:pseudocode#17", "sec:pseudocode#22", "sec:pseudocode#28")
def _estimate(m: Method, model, lik, q: State, x, y, rng, draws: Draws, i: int, traced: bool) -> Curv:
    """(g, G) at q_{t,i-1} by the method's estimator."""
    if m.hess.startswith("lin"):
        if traced:
            curvature.linearise(model, lik, x, y, q.mu)
        if m.hess == "lin-hess":
            return curvature.lin_hess(model, lik, x, y, q.mu)
        virtual = lik.sample(model(q.mu, x), rng) if m.params["virtual"] else None
        return curvature.lin_ef(model, lik, x, y, q.mu, virtual=virtual)
    theta = draw(q, m.params["n_samples"], rng) if draws.samples is None else draws.samples[i]  # sec:pseudocode#12, sec:pseudocode#17
    if m.hess == "mc-ef":
        virtual = [lik.sample(model(t, x), rng) for t in theta] if m.params["virtual"] else None
        return curvature.mc_ef(model, lik, x, y, theta, virtual=virtual)
    diag, probes = m.family in ("diag", "diag_mom"), None
    if m.params.get("n_probes") is not None or draws.probes is not None:
        shape = (len(theta), m.params.get("n_probes"), len(q.mu))
        probes = draws.probes[i] if draws.probes is not None else rng.choice([-1.0, 1.0], size=shape)
    return curvature.mc_hess(model, lik, x, y, theta, diag=diag, probes=probes)


def _check_form(form: str) -> None:
    if form not in ("auto", "plain", "efficient"):
        raise ValueError(f"form must be 'auto', 'plain' or 'efficient', got {form!r}")


def _check_prior(m: Method, model, prior) -> State:
    if not hasattr(model, "n_params") or not hasattr(model, "jac"):
        raise TypeError(f"model must be made by bongref.models (linear, mlp, cnn, wrap), got {model!r}")
    prior = checks.state("prior", prior, STATES[m.family], R=m.params.get("rank"))
    if len(prior.mu) != model.n_params:
        raise ValueError(f"prior.mu must have shape ({model.n_params},) for this model, got {prior.mu.shape}")
    return prior


def _encode(model, lik, prior: State, x, y) -> Array:
    if isinstance(lik, type | str) or not hasattr(lik, "encode"):
        raise TypeError(f"lik must be a likelihood such as bongref.likelihoods.Bernoulli(), got {lik!r}")
    if np.ma.is_masked(y):
        raise ValueError(f"y must have no masked entries, got {y!r}; None stands for a missing observation")
    n_outputs = model.n_outputs if model.n_outputs is not None else np.shape(model(prior.mu, x))[-1]
    return lik.encode(y, n_outputs, batch=len(x) if model.is_batch(x) else None)


def _check_draws(m: Method, P: int, rng, samples, probes, steps: int | None = None) -> Draws:
    """The given samples and probes with all their dimensions, or the assurance that a generator is there to draw them."""
    lead = () if steps is None else (steps,)
    mc = m.hess.startswith("mc")
    if not mc and samples is not None:
        raise TypeError(f"{m.name} takes no samples (it is a parameter of *-mc-*), got an array of shape {np.shape(samples)}")
    if rng is not None:
        checks.generator("rng", rng)
    if mc and samples is None and rng is None:
        raise TypeError(f"{m.name} draws samples: rng (a numpy.random.Generator) or samples (I, M, P) must be given, got neither")
    if m.params.get("virtual") and rng is None:
        raise TypeError(f"{m.name} with virtual=True draws observations: rng (a numpy.random.Generator) must be given, got none")
    if m.params.get("n_probes") is not None and probes is None and rng is None:
        raise TypeError(f"{m.name} with n_probes draws probes: rng or probes (I, M, N, P) must be given, got neither")
    if probes is not None and not m.name.startswith(tuple(f"{r}-mc-hess-diag" for r in ("bong", "blr", "bog", "bbb"))):
        raise TypeError(f"{m.name} takes no probes (they are for *-mc-hess-diag*)")
    if samples is not None:
        samples = checks.array("samples", samples)
        if m.n_iter == 1 and samples.ndim == len(lead) + 2:
            samples = samples.reshape(*samples.shape[: len(lead)], 1, *samples.shape[len(lead) :])
        if samples.ndim != len(lead) + 3 or samples.shape[:-2] != (*lead, m.n_iter) or samples.shape[-1] != P:
            want = f"({', '.join(map(str, (*lead, m.n_iter)))}, M, {P})"
            raise ValueError(f"samples must have shape {want}, got {samples.shape}")
    if probes is not None:
        probes = checks.array("probes", probes)
        n = samples.shape[-2] if samples is not None else m.params["n_samples"]
        if probes.ndim != len(lead) + 4 or probes.shape[:-2] != (*lead, m.n_iter, n) or probes.shape[-1] != P:
            raise ValueError(f"probes must have shape ({', '.join(map(str, (*lead, m.n_iter, n)))}, N, {P}), got {probes.shape}")
        if not np.all(np.abs(probes) == 1):
            raise ValueError(f"probes must be 1 or -1, got {probes[np.abs(probes) != 1][0]}")
    return Draws(samples, probes)


# --- a stream ----------------------------------------------------------------------------------------------------------------


def run(
    m: Method | str,
    model: Any,
    lik: Any,
    prior: State,
    X: Any,
    Y: Any,
    *,
    rng: np.random.Generator | None = None,
    samples: Any = None,
    dynamics: Dynamics | None = None,
    backend: str = "auto",
    every: int | None = None,
    metrics: Any = None,
    progress: bool | None = None,
    trace: bool = False,
    form: str = "auto",
    resume: Result | None = None,
    checkpoint: Any = None,
) -> Result:
    """Filter a stream: predict, update with (X[t], Y[t]), and every so many steps the metrics of the state after the update (algo:main).

    Entries of Y that are None are missing observations. ``metrics`` is one of :func:`bongref.metrics.on`, ``.prequential``, ``.kl_to``,
    a function ``(m, model, lik, state, rng) -> dict``, or a list of these; without ``every`` they are taken once, at the end.
    Metrics draw from a generator of their own, so that measuring never changes the run. ``progress`` is on when standard error is a
    terminal. ``samples`` (T, I, M, P) make an mc method deterministic.

    Lost positive definiteness raises :class:`NotPositiveDefinite`; Ctrl-C raises :class:`Interrupted`, whose ``.result`` can be
    passed as ``resume`` with the same arguments to go on where it stopped. ``checkpoint``, the path of an .npz file, is written every
    so many steps, for ``resume=bongref.load(path)`` in another process.
    """
    from .checkpoints import check_path, save

    if backend not in ("auto", "reference", "fast"):
        raise ValueError(f"backend must be 'auto', 'reference' or 'fast', got {backend!r}")
    m = _method(m, prior)
    dynamics = Static() if dynamics is None else dynamics
    with _quiet_blas(m, backend):
        prior = _check_prior(m, model, prior)
        propagate(prior, dynamics)  # refuses now what it would refuse later
    xs, ys = _check_stream(m, model, lik, prior, X, Y)
    T = len(xs)
    draws = _check_draws(m, len(prior.mu), rng, samples, None, steps=T)
    _check_form(form)
    every = T if every is None else checks.integer("every", every, 1)
    if checkpoint is not None:
        check_path(checkpoint)
    measures = _measures(metrics)
    for one in measures:
        if hasattr(one, "check"):
            one.check(m, model, lik, prior)
    ahead_of_each = any(getattr(one, "ahead", False) for one in measures)
    stream, reason = _compiled(backend, m, model, lik, prior, xs, ys, dynamics, rng, draws.samples, trace, form)
    state, rows, first, eval_rng = prior, [], 0, _evaluation_generator(rng)
    preq: dict[str, list[float]] = {}
    traces: list[tuple[Symbol, ...]] = []
    if resume is not None:
        if not isinstance(resume, Result) or resume.t > T or resume.info["method"] != m:
            what = f"one of {resume.info['method']!r} after step {resume.t}" if isinstance(resume, Result) else repr(resume)
            raise ValueError(f"resume must be a Result of {m!r} after at most {T} steps, got {what}")
        state = checks.state("resume.state", resume.state, STATES[m.family], P=len(prior.mu), R=m.params.get("rank"))
        rows, first, traces = list(resume.rows), resume.t, list(resume.info["traces"])
        for gen, saved in ((rng, resume.info["rng"]), (eval_rng, resume.info["eval_rng"])):
            if gen is not None and saved is not None:
                gen.bit_generator.state = saved
        preq = {k: list(v) for k, v in resume.info["pending"].items()}
    bar = _Bar(T, m.name, sys.stderr.isatty() if progress is None else progress)

    def mark(t: int) -> tuple[Any, ...]:
        """Where the stream stands after step t; the lists only ever grow, so their lengths are enough."""
        generators = None if rng is None else rng.bit_generator.state, eval_rng.bit_generator.state
        return t, state, len(rows), preq, {k: len(v) for k, v in preq.items()}, len(traces), *generators

    def result(t, state, n_rows, pending, lengths, n_traces, rng_state, eval_state) -> Result:
        info = {
            "backend": "reference" if stream is None else "fast",
            "reason": reason,
            "seconds": clock.seconds,
            "method": m,
            "steps": t,
            "missing": sum(y is None for y in ys[:t]),
            "traces": traces[:n_traces],
            "pending": {k: pending[k][:n] for k, n in lengths.items()},
            "rng": rng_state,
            "eval_rng": eval_state,
        }
        return Result(state, rows[:n_rows], info, t)

    def reference_step(t: int, ahead: State) -> State:
        here = Draws(None if draws.samples is None else draws.samples[t])
        if trace:
            with recording(m.name) as seen:
                new, info = _update(m, model, lik, ahead, xs[t], ys[t], rng, here, form, traced=True)
            traces.append(tuple(seen))
        else:
            new, info = _update(m, model, lik, ahead, xs[t], ys[t], rng, here, form)  # sec:pseudocode#2
        if not info.valid:
            raise NotPositiveDefinite(t + 1, state, rows, m.name)
        return new

    before, clock, t = mark(first), _Clock(), first
    try:
        while t < T:
            before = mark(t)
            stop = t + 1 if stream is None or ahead_of_each else min((t // every + 1) * every, T)
            if stream is None or ahead_of_each:
                ahead = propagate(state, dynamics)  # sec:pseudocode#1
                _score_ahead(measures, preq, m, model, lik, ahead, xs[t], ys[t], eval_rng)
            with clock:
                left_over = True
                if stream is not None:
                    state, t, left_over = _advance(stream, state, t, stop, rng)
                if left_over:  # the reference, or a step that only the reference can judge
                    ahead = propagate(state, dynamics)
                    state = ahead if ys[t] is None else reference_step(t, ahead)
                    t += 1
            if t % every == 0 or t == T:
                if measures:
                    rows.append(_row(t, measures, preq, m, model, lik, state, eval_rng))
                preq = {}
                if checkpoint is not None:
                    save(checkpoint, result(*mark(t)))
            bar.show(t, rows)
    except KeyboardInterrupt:
        stopped = result(*before)
        if rng is not None:
            rng.bit_generator.state = stopped.info["rng"]
        raise Interrupted(stopped) from None
    except FloatingPointError as error:
        raise FloatingPointError(f"step {t + 1}: {error}") from None
    finally:
        bar.close()
    return result(*mark(T))


def _quiet_blas(m: Method, backend: str) -> Any:
    return contextlib.nullcontext()


class Observations(NamedTuple):
    """The checked data of a stream."""

    xs: Any
    ys: Any
    seen: Array


def _compiled(backend: str, m, model, lik, prior, xs, ys, dynamics, rng, samples, trace, form) -> tuple[Any, str]:
    """The compiled stream, or None and why there is none."""
    if backend == "reference":
        return None, "asked for"
    try:
        from .fast import Unavailable
        from .fast.stream import Stream
        from .fast.support import why_not
    except ImportError as error:
        reason = f"numba cannot be used: {error}"
    else:
        reason = why_not(m, model, lik, prior, dynamics, trace=trace, form=form)
        if not reason:
            seen = np.array([y is not None for y in ys])
            zero = next((0 * y for y in ys if y is not None), np.zeros(1))
            data = Observations(xs, ys if isinstance(ys, np.ndarray) else [zero if y is None else y for y in ys], seen)
            try:
                return Stream(m, model, lik, data, dynamics, rng, samples), ""
            except Unavailable as error:
                reason = str(error)
    if backend == "fast":
        raise ValueError(f"backend='fast': {reason}; use 'reference' or 'auto'")
    return None, reason


def _advance(stream, state: State, t: int, stop: int, rng) -> tuple[State, int, bool]:
    """The state after some of the steps t, …, stop − 1, the step that comes next, and whether that one is left to the reference."""
    return stream.advance(state, t, stop)


class _Clock:
    """The time spent in steps."""

    def __init__(self) -> None:
        self.seconds, self.start = 0.0, 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *error: Any) -> None:
        self.seconds += time.perf_counter() - self.start


def _check_stream(m: Method, model, lik, prior: State, X, Y) -> tuple[Any, Any]:
    """Every x and y of the stream, checked before the first step; arrays of plain observations all at once."""
    if not hasattr(X, "__len__") or not hasattr(Y, "__len__"):
        raise TypeError("X and Y must be sequences of the same length")
    if len(X) != len(Y):
        raise ValueError(f"X and Y must have the same length, got {len(X)} and {len(Y)}")
    if len(X) == 0:
        raise ValueError("X must not be empty")
    if type(X) is np.ndarray and type(Y) is np.ndarray and model.kind != "wrap" and Y.dtype != object:
        try:
            if model.is_batch(X):
                x = model.check(x=X)[1]
                return x, _encode(model, lik, prior, x, Y)
        except (TypeError, ValueError):
            pass  # the observation that is refused is found below
    xs, ys = [], []
    for t in range(len(X)):
        try:
            x = model.check(x=X[t])[1]
            ys.append(None if Y[t] is None else _encode(model, lik, prior, x, Y[t]))
        except (TypeError, ValueError) as error:
            raise type(error)(f"step {t + 1} (X[{t}], Y[{t}]): {error}") from None
        xs.append(x)
    return xs, ys


def _evaluation_generator(rng: np.random.Generator | None) -> np.random.Generator:
    """A generator for the metrics that shares no numbers with the one of the updates and does not advance it."""
    seed = 0 if rng is None else getattr(rng.bit_generator, "seed_seq", None)
    if isinstance(seed, np.random.SeedSequence):
        child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0xE7A1))
        return np.random.default_rng(child)
    return np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0xE7A1,)))


def _measures(metrics: Any) -> list[Any]:
    if metrics is None:
        return []
    out = list(metrics) if isinstance(metrics, (list, tuple)) else [metrics]
    for one in out:
        if not callable(one):
            raise TypeError(f"metrics must be made by bongref.metrics.on(...) or be callable, got {one!r}")
    return out


def _score_ahead(measures, preq, m, model, lik, ahead, x, y, rng) -> None:
    """Add the one-step-ahead scores of this observation, before the update sees it."""
    if y is not None:
        for one in measures:
            if getattr(one, "ahead", False):
                for key, value in one(m, model, lik, ahead, rng, x, y).items():
                    preq.setdefault(key, []).append(value)


def _row(t: int, measures, preq, m, model, lik, state, rng) -> dict[str, Any]:
    row: dict[str, Any] = {"t": t}
    row.update({key: float(np.mean(values)) for key, values in preq.items()})
    for one in measures:
        if not getattr(one, "ahead", False):
            row.update(one(m, model, lik, state, rng))
    return row


class _Bar:
    """A progress line on standard error, at most ten times a second."""

    def __init__(self, total: int, name: str, on: bool):
        self.total, self.name, self.on, self.start, self.last = total, name, on, time.monotonic(), 0.0

    def show(self, t: int, rows: Sequence[dict[str, Any]]) -> None:
        now = time.monotonic()
        if not self.on or (now - self.last < 0.1 and t < self.total):
            return
        self.last = now
        left = (now - self.start) / t * (self.total - t)
        filled = 24 * t // self.total
        tail = "".join(f"  {k} {v:.4g}" for k, v in rows[-1].items() if k != "t" and isinstance(v, (int, float))) if rows else ""
        text = f"{self.name} |{'#' * filled}{'.' * (24 - filled)}| {t}/{self.total}  {left:.0f} s left{tail}"
        sys.stderr.write("\r\x1b[K" + text[:200])
        sys.stderr.flush()

    def close(self) -> None:
        if self.on and self.last:
            sys.stderr.write("\n")
            sys.stderr.flush()

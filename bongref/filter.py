"""One step and one update of the filter (algo:update).

    state, info = step(m, prior, current, curv)                   # no network
    state, info = update(m, model, lik, prior, x, y, rng=rng)     # one observation or a mini-batch

Both are pure: what they are given stays as it was, also when they refuse. A whole stream is
:func:`bongref.run`, in ``stream``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import accuracy, checks, curvature
from .curvature import Curv
from .errors import InvalidType, InvalidValue, NotFinite
from .gaussians import draw, is_valid
from .grid import STATES, Method, method
from .likelihoods import Likelihood
from .linalg import Array
from .models import Model
from .paper import eq
from .show import fields_html
from .states import DLR, FC, State
from .tables import as_array
from .trace import Recorder, Symbol, Trace, recording, suspended

FORMS = ("auto", "plain", "efficient")
NOT_FINITE, NOT_PD = "not finite", "not positive definite"


class Info(NamedTuple):
    """What a step or an update reports about its result.

    Attributes
    ----------
    valid : bool
        Whether every iterate is finite and positive definite.
    iteration : int or None
        The first inner iteration, from 1, whose result is not.
    form : str
        The function that computed the step, e.g. ``"dlr.bong_woodbury"``.
    trace : tuple of Symbol
        With ``trace=True``: every symbol with its value and equation.
    reason : str
        ``"not finite"`` or ``"not positive definite"`` where ``valid`` is False.
    lost : float
        An estimate of the decimal digits, of 16, that rounding has taken from a valid result, in
        the first or the last iteration; see :mod:`bongref.accuracy`. ``accurate`` is False where it
        is more than half.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> prior, curv = br.Diag(np.zeros(1), np.ones(1)), br.Curv(np.ones(1), d=np.array([2.0]))
    >>> br.step("bong-lin-hess-diag", prior, None, curv)[1]
    Info(valid=False, iteration=1, reason='not positive definite', form='diag_nat.bong')
    """

    valid: bool
    iteration: int | None = None
    form: str = ""
    trace: tuple[Symbol, ...] = ()
    reason: str = ""
    lost: float = 0.0

    @property
    def accurate(self) -> bool:
        """Whether half of the digits are left, by the estimate."""
        return self.lost <= accuracy.HALF

    def __repr__(self) -> str:
        """The fields that say something; a trace by its length."""
        return f"Info({', '.join(f'{k}={v}' for k, v in self._pairs())})"

    def _repr_html_(self) -> str:
        return fields_html("Info of an update", self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = [("valid", repr(self.valid))]
        pairs += [(k, repr(v)) for k in ("iteration", "reason", "form") if (v := getattr(self, k))]
        pairs += [] if self.accurate else [("lost", f"{self.lost:.0f} of 16 digits")]
        return pairs + ([("trace", f"<{len(self.trace)} symbols>")] if self.trace else [])


# --- one step -------------------------------------------------------------------------------------


def step(
    m: Method | str, prior: State, current: State | None, curv: Curv, *, form: str = "auto"
) -> tuple[State, Info]:
    """One step of the method's rule in its family: q_{t,i} from q_{t|t-1}, q_{t,i-1} and (g, G).

    Parameters
    ----------
    m : Method or str
        One of the names of :func:`bongref.methods`. A name alone takes its default parameters and,
        in the DLR family, the rank of ``prior.W``.
    prior : FC, Diag or DLR
        q_{t|t-1}, in the family of ``m``, with a mean of shape (P,).
    current : FC, Diag, DLR or None
        q_{t,i-1}. bong and bog ignore it; for blr and bbb None means the prior (i = 1).
    curv : Curv
        The expected gradient ``g`` (P,) and the expected Hessian: ``S`` (P, K) with G = -S Sᵀ,
        ``G`` (P, P), or in the diagonal families ``d`` (P,), the diagonal of G.
    form : {"auto", "plain", "efficient"}
        "plain" is the displayed equation, "efficient" the form for G = -S Sᵀ, "auto" the efficient
        one where it applies and loses no digits.

    Returns
    -------
    state : FC, Diag or DLR
        The values of the equations, whatever they are.
    info : Info
        ``info.valid`` says whether they are finite and positive definite.

    Raises
    ------
    NotDerived
        If the paper derives no update for ``m``.
    InvalidValue, InvalidType
        If an argument is refused.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> prior = br.Diag(mu=np.zeros(2), var=np.ones(2))
    >>> curv = br.Curv(g=np.array([1.0, -2.0]), d=np.array([-1.0, -3.0]))
    >>> state, info = br.step("bong-lin-hess-diag", prior, None, curv)
    >>> state.var, state.mu, info.valid
    (array([0.5 , 0.25]), array([ 0.5, -0.5]), True)
    """
    m = as_method(m, prior)
    kind = STATES[m.family]
    prior = checks.state("prior", prior, kind, R=_rank(m, prior))
    rank = prior.W.shape[1] if isinstance(prior, DLR) else None
    if m.rule in ("bong", "bog"):
        current = None  # they start at the prior
    if current is not None:
        current = checks.state("current", current, kind, P=len(prior.mu), R=rank)
    curv = checks.curv(curv, len(prior.mu), diagonal_ok=m.family in ("diag", "diag_mom"))
    checks.choice("form", form, FORMS)
    state, fn = unchecked_step(m, prior, prior if current is None else current, curv, form)
    reason = _fault(state, is_valid(state))
    again = lambda *args: fn(*args, m.params.get("alpha", 1))
    current = prior if current is None else current
    lost = 0.0 if reason else _lost(m, again, prior, current, curv, state)
    return state, Info(not reason, 1 if reason else None, _where(fn), reason=reason, lost=lost)


def _rank(m: Method, prior: Any) -> int | None:
    """The rank that the prior must have, whatever it is."""
    return m.rank(as_array(getattr(prior, "mu", 0)).size)


def as_method(m: Method | str, prior: Any) -> Method:
    """The method; one given by its name alone takes the rank of the prior."""
    if not isinstance(m, (str, Method)):
        raise InvalidType(
            f"m must be a Method or a name such as 'bong-lin-hess-fc', got {checks.describe(m)}"
        )
    if isinstance(m, str) and isinstance(prior, DLR) and np.ndim(prior.W) == 2:
        m = method(m)
        return method(m, rank=np.shape(prior.W)[1]) if m.family == "dlr" else m
    return method(m)


def unchecked_step(
    m: Method, prior: State, current: State, curv: Curv, form: str = "auto"
) -> tuple[State, Callable[..., State]]:
    """:func:`step` on checked arguments: the state, and the function that computed it."""
    fn = m.step_function(curv, current if m.rule in ("blr", "bbb") else prior, form)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # reported by Info
        return fn(prior, current, curv, m.params.get("alpha", 1)), fn  # sec:pseudocode#11


def _lost(
    m: Method, again: Callable[..., State], prior: State, current: Any, curv: Curv, new: State
) -> float:
    """The digits that rounding may have taken from a valid result."""
    with suspended():
        invariant = m.rule in ("bong", "blr")
        return accuracy.lost(again, prior, current, curv, new, invariant=invariant)


def _where(fn: Callable[..., Any]) -> str:
    return f"{fn.__module__.rpartition('.')[2]}.{fn.__name__}"


def _fault(arrays: Any, valid: bool) -> str:
    """Why an iterate is not a Gaussian; empty where it is one."""
    if valid:
        return ""
    return NOT_PD if all(np.all(np.isfinite(a)) for a in arrays) else NOT_FINITE


# --- one observation, or a mini-batch -------------------------------------------------------------


class Draws(NamedTuple):
    """The randomness of one update, given by the user in place of a generator."""

    samples: Array | None = None  # (I, M, P): the θ̂ themselves
    probes: Array | None = None  # (I, M, N, P): Hutchinson's ±1


NO_DRAWS = Draws()


def update(
    m: Method | str,
    model: Model,
    lik: Likelihood,
    prior: State,
    x: Any,
    y: Any,
    *,
    rng: np.random.Generator | int | None = None,
    samples: Any = None,
    probes: Any = None,
    trace: bool = False,
    form: str = "auto",
) -> tuple[State, Info]:
    """Posterior after one observation, or a mini-batch of independent ones (algo:update).

    Parameters
    ----------
    m : Method or str
        One of the names of :func:`bongref.methods`.
    model : Model
        Made by :mod:`bongref.models`: ``linear``, ``mlp``, ``cnn`` or ``wrap``.
    lik : Likelihood
        One of :mod:`bongref.likelihoods`.
    prior : FC, Diag or DLR
        The predicted state q_{t|t-1}, in the family of ``m``.
    x : array_like, shape (D,) or (B, D)
        One input, or a mini-batch of B.
    y : array_like, shape () or (C,), or (B,) or (B, C), or None
        One observation, or B of them; None is a missing observation and returns the prior.
    rng : numpy.random.Generator or int, optional
        Source of the samples of an mc method; an int is a seed, with which every call draws the
        same numbers: in a loop of updates, give a generator.
    samples : array_like, shape (I, M, P), optional
        The θ̂ of each inner iteration, in place of ``rng``; they make the update deterministic.
    probes : array_like, shape (I, M, N, P), optional
        Entries ±1 for Hutchinson's diagonal (``n_probes``), in place of ``rng``.
    trace : bool
        Whether to put every symbol of the paper, with its value and equation, into ``info.trace``.
    form : {"auto", "plain", "efficient"}
        As in :func:`bongref.step`.

    Returns
    -------
    state : FC, Diag or DLR
        The posterior q_t, or the prior where ``y`` is None.
    info : Info
        ``info.valid`` says whether every iterate is finite and positive definite.

    Raises
    ------
    NotDerived
        If the paper derives no update for ``m``.
    NotFinite
        If the model or the likelihood overflows, so that there is no gradient. A state that
        overflows is returned, with ``info.reason == "not finite"``.
    InvalidValue, InvalidType
        If an argument is refused.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=0.5)
    >>> prior = br.FC(mu=np.zeros(2), Sigma=np.diag([1.0, 0.25]))
    >>> state, info = br.update("bong-lin-hess-fc", model, lik, prior, x=[1.0, 2.0], y=3.0)
    >>> state.mu, info.valid
    (array([1.2, 0.6]), True)
    """
    m = as_method(m, prior)
    prior = checked_prior(m, model, prior)
    checks.choice("form", form, FORMS)
    checks.boolean("trace", trace)
    x, y = checks.observation(model, checks.likelihood(lik), x, y, prior.mu)
    if y is None:
        return prior, Info(True)
    generator = None if rng is None else checks.seed_or_generator("rng", rng)
    draws = checked_draws(m, len(prior.mu), generator, samples, probes)
    if not trace:
        return unchecked_update(m, model, lik, prior, x, y, generator, draws, form)
    with recording(m.name) as seen:
        state, info = unchecked_update(m, model, lik, prior, x, y, generator, draws, form, seen)
    return state, info._replace(trace=Trace(seen.symbols))


@eq("sec:pseudocode#5")
def unchecked_update(
    m: Method,
    model: Model,
    lik: Likelihood,
    prior: State,
    x: Array,
    y: Array,
    rng: np.random.Generator | None,
    draws: Draws = NO_DRAWS,
    form: str = "auto",
    seen: Recorder | None = None,
) -> tuple[State, Info]:
    """:func:`update` on checked arguments: I times an estimate of (g, G) and a step."""
    loop: InnerLoop | None = None
    current: Any = prior  # q_{t,i-1}, in the form of the inner loop
    bad, reason, form_used, lost = None, "", "", 0.0
    for i in range(m.n_iter):
        if bad is not None and not _can_go_on(m, current.mu, draws):
            break
        if seen is not None:
            seen.iteration = i + 1
        q = current if loop is None or m.hess.startswith("lin") else loop.state(prior, current)
        curv = estimate(m, model, lik, q, x, y, rng, draws, i, traced=seen is not None)
        if not all(a is None or np.all(np.isfinite(a)) for a in curv):
            raise _no_curvature(m, model, q, x, prior, i)
        if loop is None:
            loop = _inner_loop(m, curv, form)
            current = loop.start(prior)
        before = current
        current, form_used = loop.step(prior, current, curv)
        if bad is None and (reason := _fault(current, loop.is_valid(current))):
            bad = i + 1
        if bad is None and i in (0, m.n_iter - 1):
            new = loop.state(prior, current)
            lost = max(lost, _lost(m, loop.again, prior, before, curv, new))
    state = current if loop is None else loop.state(prior, current)
    lost = lost if bad is None else 0.0
    return state, Info(bad is None, bad, form_used, reason=reason, lost=lost)


class InnerLoop(NamedTuple):
    """How the iterates q_{t,i} of one update are represented and advanced."""

    start: Callable[[Any], Any]  # q_{t|t-1} -> q_{t,0}
    step: Callable[
        [Any, Any, Curv], tuple[Any, str]
    ]  # q_{t|t-1}, q_{t,i-1}, (g, G) -> q_{t,i}, form
    state: Callable[[Any, Any], State]  # q_{t|t-1}, q_{t,i} -> the state
    is_valid: Callable[[Any], bool]

    def again(self, prior: State, current: Any, curv: Curv) -> State:
        """A step, and the state that it leads to."""
        return self.state(prior, self.step(prior, current, curv)[0])


def _inner_loop(m: Method, curv: Curv, form: str) -> InnerLoop:
    """States advanced by the family's step, or for BLR with few columns increments of the prior."""
    increments = m.increments(curv, form)
    if increments is None:

        def one_step(prior: State, current: State, curv: Curv) -> tuple[State, str]:
            new, fn = unchecked_step(m, prior, current, curv, form)
            return new, _where(fn)

        return InnerLoop(lambda prior: prior, one_step, lambda prior, current: current, is_valid)

    def one_increment(prior: FC, current: Any, curv: Curv) -> tuple[Any, str]:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # reported by Info
            return increments.step(prior, current, curv, m.params["alpha"]), _where(increments.step)

    return InnerLoop(increments.start, one_increment, increments.finish, increments.is_valid)


def _can_go_on(m: Method, mu: Array, draws: Draws) -> bool:
    """Whether there is a mean to linearise at, or samples in place of a draw from an iterate."""
    return bool(np.all(np.isfinite(mu))) if m.hess.startswith("lin") else draws.samples is not None


def _no_curvature(m: Method, model: Model, q: State, x: Any, prior: State, i: int) -> NotFinite:
    """The error of an estimate (g, G) that is not finite."""
    what = "the model or the likelihood overflows"
    if returns_nan(model, q.mu, x):
        what = "the model returns nan"
    return NotFinite(
        f"{m.hess} gave a gradient or Hessian that is not finite at inner iteration {i + 1}: "
        f"{what} at this x, this y and these parameters; the prior is unchanged",
        step=1,
        state=prior,
        rows=[],
        name=m.name,
    )


def returns_nan(model: Model, mu: Array, x: Any) -> bool:
    """Whether a function of the user's (models.wrap) returns NaN, which is not an overflow."""
    if getattr(model, "kind", "wrap") != "wrap" or x is None:
        return False
    with np.errstate(all="ignore"):
        return bool(np.any(np.isnan(model(mu, x))))


@eq(
    "sec:pseudocode#10",
    "sec:pseudocode#12",
    "sec:pseudocode#17",
    "sec:pseudocode#22",
    "sec:pseudocode#28",
)
def estimate(
    m: Method,
    model: Model,
    lik: Likelihood,
    q: State,
    x: Array,
    y: Array,
    rng: np.random.Generator | None,
    draws: Draws = NO_DRAWS,
    i: int = 0,
    traced: bool = False,
) -> Curv:
    """(g, G) at q_{t,i-1} by the method's estimator; overflow is reported, not warned about."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if m.hess.startswith("lin"):
            return _linearised(m, model, lik, q.mu, x, y, rng, traced)
        if draws.samples is None:
            theta = draw(
                q, m.params["n_samples"], _generator(rng)
            )  # sec:pseudocode#12, sec:pseudocode#17
        else:
            theta = draws.samples[i]
        if m.hess == "mc-ef":
            virtual = None
            if m.params["virtual"]:
                virtual = [lik.sample(model(t, x), _generator(rng)) for t in theta]
            return curvature.mc_ef(model, lik, x, y, theta, virtual=virtual)
        diag, probes = m.family in ("diag", "diag_mom"), None
        if draws.probes is not None:
            probes = draws.probes[i]
        elif m.params.get("n_probes") is not None:
            shape = (len(theta), m.params["n_probes"], len(q.mu))
            probes = _generator(rng).choice([-1.0, 1.0], size=shape)
        return curvature.mc_hess(model, lik, x, y, theta, diag=diag, probes=probes)


def _linearised(
    m: Method, model: Model, lik: Likelihood, mu: Array, x: Array, y: Array, rng: Any, traced: bool
) -> Curv:
    if traced:
        curvature.linearise(model, lik, x, y, mu)
    if m.hess == "lin-hess":
        return curvature.lin_hess(model, lik, x, y, mu)
    virtual = lik.sample(model(mu, x), rng) if m.params["virtual"] else None
    return curvature.lin_ef(model, lik, x, y, mu, virtual=virtual)


def _generator(rng: np.random.Generator | None) -> np.random.Generator:
    assert rng is not None  # checked_draws has seen to it
    return rng


# --- what update and run check alike --------------------------------------------------------------


def checked_prior(m: Method, model: Model, prior: Any) -> State:
    """The prior, if it is a state of the method's family and of the model's size."""
    checks.model(model)
    q = checks.state("prior", prior, STATES[m.family], R=_rank(m, prior))
    if len(q.mu) != model.n_params:
        raise InvalidValue(
            f"prior.mu must have shape ({model.n_params},) for this model, got {q.mu.shape}; "
            "use m.prior(mu=model.init(rng), var=...)"
        )
    return q


def checked_draws(
    m: Method,
    P: int,
    rng: np.random.Generator | None,
    samples: Any,
    probes: Any,
    steps: int | None = None,
) -> Draws:
    """The given samples and probes with all their dimensions; rng must be there for the rest."""
    lead = () if steps is None else (steps,)
    takes_probes = m.hess == "mc-hess" and m.family in ("diag", "diag_mom")
    if samples is not None and not m.hess.startswith("mc"):
        raise InvalidType(
            f"{m.name} takes no samples (they are for *-mc-*), got shape {np.shape(samples)}"
        )
    if probes is not None and not takes_probes:
        raise InvalidType(f"{m.name} takes no probes (they are for *-mc-hess-diag*)")
    if rng is None:
        _check_nothing_to_draw(m, samples, probes)
    if samples is not None:
        samples = checks.array("samples", samples)
        if m.n_iter == 1 and samples.ndim == len(lead) + 2:
            samples = samples.reshape(*samples.shape[: len(lead)], 1, *samples.shape[len(lead) :])
        _check_block("samples", samples, (*lead, m.n_iter), ("M",), P)
    if probes is not None:
        probes = checks.array("probes", probes)
        n = samples.shape[-2] if samples is not None else m.params["n_samples"]
        _check_block("probes", probes, (*lead, m.n_iter, n), ("N",), P)
        if not np.all(np.abs(probes) == 1):
            raise InvalidValue(f"probes must be 1 or -1, got {probes[np.abs(probes) != 1][0]}")
    return Draws(samples, probes)


def _check_nothing_to_draw(m: Method, samples: Any, probes: Any) -> None:
    need = ""
    if m.hess.startswith("mc") and samples is None:
        need = "draws samples: rng (a numpy.random.Generator or a seed) or samples (I, M, P)"
    elif m.params.get("virtual"):
        need = "with virtual=True draws observations: rng (a numpy.random.Generator or a seed)"
    elif m.params.get("n_probes") is not None and probes is None:
        need = "with n_probes draws probes: rng or probes (I, M, N, P)"
    if need:
        raise InvalidType(f"{m.name} {need} must be given, got neither; e.g. rng=0")


def _check_block(name: str, a: Array, lead: tuple[int, ...], free: tuple[str, ...], P: int) -> None:
    """Shape (*lead, free, P)."""
    if a.ndim != len(lead) + 2 or a.shape[:-2] != lead or a.shape[-1] != P:
        raise InvalidValue(
            f"{name} must have shape ({', '.join(map(str, (*lead, *free, P)))}), got {a.shape}"
        )

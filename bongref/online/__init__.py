"""A filter that is fed as observations arrive: learn from one, predict the next.

>>> import numpy as np, bongref as br
>>> f = br.Filter("bong-lin-hess-fc", br.models.linear(2), br.likelihoods.Gaussian(var=0.1))
>>> for x, y in [([1.0, 0.0], 1.0), ([0.0, 1.0], 2.0), ([1.0, 1.0], 3.0)]:
...     f = f.learn_one(x, y)
>>> mean, var = f.predict_one([1.0, -1.0])
>>> f.t, mean.round(1)
(3, array([-0.8]))

``learner.py`` adds running scales and an estimated noise for the estimators of ``bongref.sklearn``.
What is not here: streams whose observations are all there (``stream``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import checks
from ..backends import BACKENDS, Problem, Reference, StepFailed, compiled
from ..checks import Observations
from ..dynamics import Dynamics, Static, propagate
from ..errors import Interrupted, InvalidType, InvalidValue, StreamEnded
from ..filter import as_method, checked_draws, checked_prior
from ..grid import PARAMETERS, Method, method
from ..guide import advice, defaults
from ..likelihoods import Likelihood
from ..linalg import Array
from ..models import Model
from ..predictive import linearised
from ..predictive.linearised import Prediction
from ..recording.results import Continuation, Result, RunInfo
from ..states import State
from ..stream import ended
from ..tables import is_missing
from ..tables.inputs import Inputs, unless_refused

NOTHING = Observations([], [], np.zeros(0, dtype=bool))
OTHERS = {
    "fit": "learn_many", "partial_fit": "learn_many", "predict": "predict_many",
    "predict_proba": "predict_many", "predict_proba_one": "predict_one", "update": "learn_one",
    "score": "log_score", "save": "bongref.save(path, filter)",
}  # fmt: skip


class Filter:
    """A method, a model, a likelihood and dynamics, and the state after all that was learned.

    Parameters
    ----------
    m : Method or str
        One of the names of :func:`bongref.methods`. A DLR method given by its name has rank
        min(10, P), or that of the prior.
    model : Model
        Made by :mod:`bongref.models`: ``linear``, ``mlp``, ``cnn`` or ``wrap``.
    lik : Likelihood
        One of :mod:`bongref.likelihoods`.
    prior : FC, Diag or DLR, optional
        The state before the first observation; by default :func:`bongref.guide.defaults.prior`.
    dynamics : Static, OU or Linear, optional
        How θ moves between observations; by default it does not move, and nothing is forgotten.
    rng : numpy.random.Generator or int, optional
        Source of the samples of an mc method; an int is a seed. The generator is advanced.
    backend : {"auto", "reference", "fast"}
        As in :func:`bongref.run`.
    features : sequence of str, optional
        The names of the inputs in their order, for dicts; by default those of the first dict.

    Attributes
    ----------
    state : FC, Diag or DLR
        The state after step ``t``; a copy.
    t : int
        Steps taken, missing observations and steps of :meth:`forget` included.
    method, model, lik, dynamics
        What it was made of.

    Raises
    ------
    InvalidValue, InvalidType
        If an argument is refused.

    Notes
    -----
    Any sequence of ``learn_one`` and ``learn_many`` takes the steps that :func:`bongref.run` takes
    on the same rows. Memory does not grow with the number of calls. An observation that is refused
    changes nothing; after :class:`NotPositiveDefinite`, :class:`NotFinite` and Ctrl-C the filter
    is at its last good state, and can go on with other observations. One filter is for one thread
    at a time.

    Examples
    --------
    >>> import bongref as br
    >>> model = br.models.linear(2, bias=True)
    >>> f = br.Filter("bong-lin-hess-diag", model, br.likelihoods.Bernoulli())
    >>> f = f.learn_one({"rain": 1.0, "wind": 0.2}, True).learn_one({"wind": 0.3, "rain": 0.0}, 0)
    >>> f.features, f.predict_one({"rain": 1.0, "wind": 0.0}).round(2)
    (['rain', 'wind'], array([0.44, 0.56]))
    >>> f.learn_one({"rain": 1.0}, 1)
    Traceback (most recent call last):
    bongref.errors.InvalidValue: x must have exactly the features ['rain', 'wind'], got no 'wind'; \
impute what is missing
    """

    def __init__(
        self,
        m: Method | str,
        model: Model,
        lik: Likelihood,
        prior: State | None = None,
        *,
        dynamics: Dynamics | None = None,
        rng: np.random.Generator | int | None = None,
        backend: str = "auto",
        features: Sequence[str] | None = None,
        **unknown: Any,
    ) -> None:
        _no_more(m, unknown)
        checks.choice("backend", backend, BACKENDS)
        checks.likelihood(lik)
        m = _method(m, checks.model(model), prior)
        q = checked_prior(m, model, defaults.prior(m, model) if prior is None else prior)
        if model.n_outputs is not None:
            lik.check_outputs(model.n_outputs)
        moves = Static() if dynamics is None else dynamics
        propagate(q, moves)  # validate the dynamics before the first step
        generator = None if rng is None else checks.seed_or_generator("rng", rng)
        checked_draws(m, len(q.mu), generator, None, None)
        self._problem = Problem(
            m, model, lik, _copy(q), NOTHING, moves, generator, None, False, "auto"
        )
        if backend == "fast":
            compiled(backend, self._problem, lambda p: True)  # refuses where there is none
        self._backend, self._engine = backend, _Plain(self._problem, _copy(q), 0)
        self._opened, self._reason, self._looked = False, "", False
        self._inputs = Inputs(model, features)

    # --- what it is

    def __getattr__(self, name: str) -> Any:
        """Names of scikit-learn that a filter has under another one."""
        has = (
            f"; it has {OTHERS[name]}, and bongref.sklearn has estimators" if name in OTHERS else ""
        )
        raise AttributeError(f"'Filter' object has no attribute {name!r}{has}")

    @property
    def method(self) -> Method:
        """The method."""
        return self._problem.m

    @property
    def model(self) -> Model:
        """The model."""
        return self._problem.model

    @property
    def lik(self) -> Likelihood:
        """The likelihood."""
        return self._problem.lik

    @property
    def dynamics(self) -> Dynamics:
        """How θ moves between observations."""
        return self._problem.dynamics

    @property
    def rng(self) -> np.random.Generator | None:
        """The generator of an mc method's samples."""
        return self._problem.rng

    @property
    def features(self) -> list[str] | None:
        """The names of the inputs in their order; None as long as no dict has been seen."""
        names = self._inputs.names
        return None if names is None else list(names)

    @property
    def t(self) -> int:
        """Steps taken."""
        return int(self._engine.t)

    @property
    def state(self) -> State:
        """The state after step t; a copy."""
        state: State = self._engine.state
        return _copy(state)

    @property
    def backend(self) -> str:
        """What was asked for: ``"auto"``, ``"reference"`` or ``"fast"``."""
        return self._backend

    def __repr__(self) -> str:
        p = self._problem
        kind = getattr(p.model, "kind", type(p.model).__name__)
        return f"Filter({p.m!r}, {kind} of {p.model.n_params} parameters, {p.lik!r}, t={self.t})"

    # --- learning

    @unless_refused
    def learn_one(self, x: Any, y: Any) -> Filter:
        """Take one step: the dynamics' prediction, and the update by (x, y).

        Parameters
        ----------
        x : array_like, data frame row or dict, shape (D,)
            One input. A dict has exactly the names of ``features``, in any order.
        y : float, int, bool, array_like of shape (C,), or None
            The observation; None is a missing one: the step only predicts, as :meth:`forget`.

        Returns
        -------
        Filter
            This one.

        Raises
        ------
        NotPositiveDefinite, NotFinite, Interrupted
            With ``step`` and ``state``; the filter is at the state before this step.
        InvalidValue, InvalidType
            If x or y is refused; nothing has changed.

        Warns
        -----
        Unscaled
            If the first observation of a network is far from mean 0 and standard deviation 1.

        Examples
        --------
        >>> import bongref as br
        >>> f = br.Filter("bong-lin-hess-fc", br.models.linear(1), br.likelihoods.Poisson())
        >>> f.learn_one([0.5], 3).learn_one([0.1], None).t
        2
        """
        x = self._inputs.one(x)
        target = None if y is None or is_missing(y) else self._target(x, y)
        if not self._looked:
            ys = np.zeros((0, 1)) if target is None else target[None]
            self._look(Observations(_one(x), ys, np.ones(len(ys), dtype=bool)))
        self._steps(x, lambda engine: engine.one(x, target))
        return self

    @unless_refused
    def learn_many(self, X: Any, Y: Any) -> Filter:
        """Take a step for each row, as :meth:`learn_one` does.

        Parameters
        ----------
        X : array_like, shape (N, D), data frame, or sequence of N inputs or dicts
        Y : array_like, shape (N,) or (N, C), or sequence of N observations
            None (or the NA of pandas) is a missing observation; NaN is refused.

        Returns
        -------
        Filter
            This one.

        Raises
        ------
        NotPositiveDefinite, NotFinite, Interrupted
            The filter is at the state after the last good row; ``t`` says which it was.
        InvalidValue, InvalidType
            If a row is refused; nothing has changed, whichever row it is.

        Examples
        --------
        >>> import bongref as br
        >>> f = br.Filter("bong-lin-hess-fc", br.models.linear(1), br.likelihoods.Gaussian(var=1.0))
        >>> f.learn_many([[1.0], [2.0], [3.0]], [1.0, None, 3.0]).t
        3
        """
        X = self._inputs.many(X)
        data = checks.observations(self.model, self.lik, X, Y, self._engine.state.mu)
        self._inputs.refuse_batches(data.xs)
        if not self._looked:
            self._look(data)
        self._steps(data.xs[0], lambda engine: engine.advance(*data))
        return self

    def forget(self, steps: int = 1) -> Filter:
        """Take steps without an observation: the dynamics' prediction and nothing else.

        It is what :meth:`learn_one` does with ``y=None``: the same state and the same t, without an
        input. With the default dynamics, which do not move, only t changes.

        Parameters
        ----------
        steps : int
            How many, at least 1.

        Returns
        -------
        Filter
            This one.

        Raises
        ------
        InvalidValue, InvalidType
            If ``steps`` is not an integer >= 1.

        Examples
        --------
        >>> import bongref as br
        >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=1.0)
        >>> q = br.Diag([2.0], [1.0])
        >>> f = br.Filter("bong-lin-hess-diag", model, lik, q, dynamics=br.dynamics.OU(gamma=0.5))
        >>> f.forget(2).state.mu, f.t
        (array([0.5]), 2)
        """
        n = checks.integer("steps", steps, 1)
        nothing = [None] * n
        self._steps(None, lambda engine: engine.advance(nothing, nothing, np.zeros(n, dtype=bool)))
        return self

    # --- prediction

    @unless_refused
    def predict_one(self, x: Any) -> Prediction | Array:
        """The next observation at x: its mean and variance, or the probabilities of the classes.

        It is the distribution of y_{t+1} under the prior q_{t+1|t}, so that it includes what the
        dynamics forget, and the variance includes the observation noise. It is computed from the
        network linearised at the mean of the state, in closed form and without random numbers:
        :mod:`bongref.predictive.linearised` has the formulas.

        Parameters
        ----------
        x : array_like, data frame row or dict, shape (D,)

        Returns
        -------
        Prediction or ndarray
            ``(mean, var)``, each (C,), for Gaussian, Poisson and other likelihoods. For Categorical
            the probabilities of the C classes, for Bernoulli with one output those of 0 and 1, so
            that ``p[y]`` is that of y; for Bernoulli with C > 1 outputs those of y_k = 1, (C,).

        Raises
        ------
        InvalidValue, InvalidType
            If x is refused.

        Examples
        --------
        >>> import bongref as br
        >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=0.5)
        >>> f = br.Filter("bong-lin-hess-diag", model, lik, br.Diag([2.0], [0.1]))
        >>> f.predict_one([3.0])
        Prediction(mean=array([6.]), var=array([1.4]))
        """
        x = self._inputs.one(x)
        out = linearised.prediction(self.lik, *self._moments(_one(x), x))
        return Prediction(out[0][0], out[1][0]) if isinstance(out, Prediction) else out[0]

    @unless_refused
    def predict_many(self, X: Any) -> Prediction | Array:
        """:meth:`predict_one` of each row, all of them as the next observation.

        Parameters
        ----------
        X : array_like, shape (N, D), data frame, or sequence of N inputs or dicts

        Returns
        -------
        Prediction or ndarray
            ``(mean, var)``, each (N, C), or probabilities (N, C); (N, 2) for Bernoulli with one
            output.

        Raises
        ------
        InvalidValue, InvalidType
            If a row is refused.

        Examples
        --------
        >>> import bongref as br
        >>> f = br.Filter("bong-lin-hess-fc", br.models.linear(1), br.likelihoods.Bernoulli())
        >>> f.predict_many([[0.0], [1.0]]).shape
        (2, 2)
        """
        rows = checks.values("X", self._inputs.many(X))
        if len(rows) == 0:
            raise InvalidValue("X must not be empty, got length 0")
        xs = checks.inputs(self.model, rows, where="X[{t}]")
        self._inputs.refuse_batches(xs)
        return linearised.prediction(self.lik, *self._moments(xs, xs[0]))

    @unless_refused
    def log_score(self, x: Any, y: Any) -> float:
        """The log predictive density of y at x as the next observation: larger is better.

        Parameters
        ----------
        x : array_like, data frame row or dict, shape (D,)
        y : float, int, bool or array_like of shape (C,)

        Returns
        -------
        float
            The logarithm of what :meth:`predict_one` describes; for class probabilities p it is
            ``log(p[y])``. −inf where the outputs of the model overflow.

        Raises
        ------
        InvalidValue, InvalidType
            If x or y is refused; y must not be missing.

        Examples
        --------
        >>> import bongref as br
        >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=0.5)
        >>> f = br.Filter("bong-lin-hess-diag", model, lik, br.Diag([2.0], [0.1]))
        >>> round(f.log_score([3.0], 6.0), 4)
        -1.0872
        """
        x = self._inputs.one(x)
        if is_missing(y):
            raise InvalidValue(f"y must be given, got {y!r}; a missing observation has no score")
        Y = self._target(x, y)[None]
        return float(linearised.log_density(self.lik, *self._moments(_one(x), x), Y)[0])

    def _moments(self, xs: Any, x: Any) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self._open(x).moments(xs)
        return found

    def _look(self, data: Observations) -> None:
        """Warn once if the first rows, up to the first observation, are not for a network."""
        warned = advice.warn_unscaled(self._problem._replace(data=data), stacklevel=5)
        self._looked = warned or bool(data.seen.any())

    # --- the stream that stays open

    def _open(self, x: Any) -> Any:
        """What takes the steps: made at the first use, when an input is known."""
        p, old = self._problem, self._engine
        if self._opened or (x is None and p.model.n_outputs is None):
            return old
        C = p.lik.check_outputs(checks.n_outputs(p.model, old.state.mu, x))

        def make(problem: Problem) -> Any:
            from ..backends.live import Live

            return Live(problem, old.state, old.t, x, C)

        live, self._reason = compiled(self._backend, p, make)
        self._engine, self._opened = (old if live is None else live), True
        return self._engine

    def _steps(self, x: Any, take: Any) -> None:
        """Steps, with the errors that say where the filter stands when one fails."""
        engine = self._open(x)
        try:
            take(engine)
        except StepFailed as failure:
            failure.t, state = engine.t, engine.state
            kept = f"the filter stays at the state after step {engine.t}, which is in .state too"
            failure.state = state
            raise ended(failure, self._failing(engine), self._result(state), kept) from None
        except KeyboardInterrupt:
            raise self._interrupted(engine) from None

    def _failing(self, engine: Any) -> Problem:
        """The problem with the observation of the step that failed, for the advice."""
        x, y = engine.last
        data = Observations(_Row([x]), _Row([y]), np.array([y is not None]))
        return self._problem._replace(data=data)

    def _interrupted(self, engine: Any) -> StreamEnded:
        state, t = engine.state, engine.t
        message = f"stopped after step {t}; the filter is at the state after it, and can go on"
        name = self._problem.m.name
        return Interrupted(message, t + 1, state, [], name, self._result(state))

    def _result(self, state: State) -> Result:
        rng, t = self.rng, self.t
        name = "reference" if isinstance(self._engine, _Plain) else "fast"
        info = RunInfo(name, self._reason, 0.0, self._problem.m, t, 0)
        drawn = None if rng is None else rng.bit_generator.state
        return Result(state, [], info, t, Continuation(drawn, None, {}))

    def _target(self, x: Any, y: Any) -> Any:
        """The observation, encoded (C,); numbers and labels at once."""
        model, lik = self.model, self.lik
        if model.n_outputs == 1 and lik.name == "gaussian" and isinstance(y, (float, int)):
            if abs(y) <= sys.float_info.max:  # not of NaN
                return np.array([y], dtype=np.float64)
        elif model.n_outputs is None:
            return lik.encode(y, checks.n_outputs(model, self._engine.state.mu, x))
        return lik.encode(y, model.n_outputs)

    # --- copies

    def __getstate__(self) -> dict[str, Any]:
        p = self._problem
        return {
            "m": p.m, "model": p.model, "lik": p.lik, "dynamics": p.dynamics, "rng": p.rng,
            "backend": self._backend, "features": self._inputs.names, "state": self.state,
            "t": self.t, "columns": self._inputs.columns,
        }  # fmt: skip

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> Filter:
        """The filter with the parts that :meth:`__getstate__` gave."""
        out = cls.__new__(cls)
        out.__setstate__(saved)
        return out

    def __setstate__(self, saved: dict[str, Any]) -> None:
        given = {k: saved[k] for k in ("dynamics", "rng", "backend", "features")}
        made = Filter(saved["m"], saved["model"], saved["lik"], saved["state"], **given)
        self.__dict__.update(made.__dict__)
        self._engine = _Plain(self._problem, self._problem.prior, saved["t"])
        self._looked, self._inputs.columns = saved["t"] > 0, saved.get("columns")


class _Row(list[Any]):
    """One observation, whatever its step."""

    def __getitem__(self, at: Any) -> Any:
        return list(self) if isinstance(at, slice) else super().__getitem__(0)


class _Step(NamedTuple):
    """Where a filter on the reference stands."""

    state: State
    rng: Any
    t: int


class _Plain:
    """Steps of the reference."""

    def __init__(self, problem: Problem, state: State, t: int) -> None:
        self.problem, self.mark = problem, _Step(state, self._generator(problem), t)

    @staticmethod
    def _generator(p: Problem) -> Any:
        return None if p.rng is None else p.rng.bit_generator.state

    @property
    def t(self) -> int:
        return self.mark.t

    @property
    def state(self) -> State:
        return self.mark.state

    def one(self, x: Any, y: Any) -> None:
        """One step; an exception leaves state and generator as they were."""
        p, (state, _, t), self.last = self.problem, self.mark, (x, y)
        data = Observations([x], [y], np.array([y is not None]))
        try:
            new = Reference(p._replace(data=data), "").advance(state, 0, 1).state
            self.mark = _Step(new, self._generator(p), t + 1)
        except BaseException:
            if p.rng is not None:
                p.rng.bit_generator.state = self.mark.rng
            raise

    def advance(self, xs: Any, ys: Any, seen: Any) -> None:
        """A step for each row."""
        for x, y, there in zip(xs, ys, seen, strict=True):
            self.one(x, y if there else None)

    def moments(self, xs: Any) -> tuple[Array, Array]:
        """Of the linearised outputs for the next step."""
        p = self.problem
        return linearised.moments(p.model, propagate(self.state, p.dynamics), xs)


def _no_more(m: Any, unknown: dict[str, Any]) -> None:
    """Refuse other keywords; a parameter of methods belongs in :func:`bongref.method`."""
    for key, value in unknown.items():
        name = m if isinstance(m, str) else getattr(m, "name", "...")
        call = f"Filter(bongref.method({name!r}, {key}={value!r}), model, lik)"
        remedy = f"; write {call}" if key in PARAMETERS else ""
        raise InvalidType(f"Filter has no argument {key!r}{remedy}")


def _method(m: Any, model: Model, prior: Any) -> Method:
    """The method; a DLR method by name alone takes the rank of the prior, or min(10, P)."""
    found = as_method(m, prior)
    rank = found.params.get("rank")
    if isinstance(m, str) and prior is None and rank is not None:
        return method(found, rank=min(rank, model.n_params))
    return found


def _copy(q: State) -> State:
    return type(q)(*(np.array(a, dtype=float) for a in q))


def _one(x: Any) -> Any:
    """One input as a sequence of inputs."""
    return x[None] if isinstance(x, np.ndarray) else [x]

"""Metrics of a predictive distribution, and how a stream is measured.

The state scored at t is the one after the update at t, except for the prequential (one-step-ahead)
score, which is taken of the prior q_{t|t-1} before the update sees the observation. Samples for
metrics come from a generator of their own, so that measuring never changes the run.

>>> import numpy as np, bongref as br
>>> model, lik, X = br.models.linear(1), br.likelihoods.Gaussian(var=1.0), np.ones((20, 1))
>>> test = br.metrics.on(X, 2 * X, "rmse", "nlpd-plugin")
>>> prior = br.Diag(mu=np.zeros(1), var=np.ones(1))
>>> result = br.run("bong-lin-hess-diag", model, lik, prior, X, 2 * X, metrics=test, every=10,
...                 backend="reference")
>>> [round(row["rmse"], 3) for row in result.rows]
[0.182, 0.095]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from . import checks, predictive
from .errors import InvalidType, InvalidValue
from .gaussians import kl
from .grid import Method
from .likelihoods import Likelihood
from .linalg import Array
from .models import Model
from .predictive import Predictive
from .recording import schedule
from .states import State

N_BINS = 20


def nlpd(pred: Predictive, Y: Any) -> float:
    """Negative log predictive density: −(1/N) Σ_n log (1/S) Σ_s p(y_n | x_n, θ_s).

    Parameters
    ----------
    pred : Predictive
        Of N inputs: an array of shape (S, N, C).
    Y : array_like, data frame or series, shape (N,) or (N, C)
        The observations.

    Returns
    -------
    float
        inf where an observation has density 0.

    Raises
    ------
    InvalidValue, InvalidType
        If Y does not fit the likelihood or the number of inputs.

    Examples
    --------
    >>> import bongref as br
    >>> state = br.Diag(np.zeros(1), np.ones(1))
    >>> pred = br.predictive.plugin(br.models.linear(1), br.likelihoods.Bernoulli(), state, [[1.0]])
    >>> round(nlpd(pred, [1]), 6)
    0.693147
    """
    return float(-np.mean(_predictive(pred).log_density(Y)))


def error(pred: Predictive, Y: Any) -> float:
    """The share of wrong classes.

    Parameters
    ----------
    pred : Predictive
        Of N inputs, with a Categorical likelihood or a Bernoulli one with one output.
    Y : array_like, data frame or series, shape (N,) or (N, C)
        The observed classes.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidValue, InvalidType
        If the likelihood has no classes, or Y does not fit.

    Examples
    --------
    >>> import bongref as br
    >>> logits = np.array([[[2.0], [-1.0]]])
    >>> error(br.predictive.Predictive("plugin", br.likelihoods.Bernoulli(), logits), [1, 1])
    0.5
    """
    guess, _, label = _classes(_predictive(pred), Y)
    return float(np.mean(guess != label))


def ece(pred: Predictive, Y: Any, n_bins: int = N_BINS) -> float:
    """Expected calibration error, Σ_b (n_b/N) |accuracy_b − confidence_b|, over equal bins.

    Parameters
    ----------
    pred : Predictive
        Of N inputs, with a Categorical likelihood or a Bernoulli one with one output.
    Y : array_like, data frame or series, shape (N,) or (N, C)
        The observed classes.
    n_bins : int
        The number of bins (b/n, (b+1)/n].

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidValue, InvalidType
        If the likelihood has no classes, or Y does not fit.

    Examples
    --------
    >>> import bongref as br
    >>> p = np.array([[[0.75, 0.25], [0.75, 0.25]]])
    >>> lik = br.likelihoods.Categorical()
    >>> ece(br.predictive.Predictive("plugin", lik, p, of_means=True), [0, 1])
    0.25
    """
    guess, confidence, label = _classes(_predictive(pred), Y)
    n_bins = checks.integer("n_bins", n_bins, 1)
    edges = np.arange(n_bins + 1) / n_bins
    bins = np.clip(np.searchsorted(edges, confidence) - 1, 0, n_bins - 1)  # (b/n, (b+1)/n]
    right = (guess == label).astype(float)
    gaps = np.bincount(bins, right - confidence, minlength=n_bins)
    return float(np.sum(np.abs(gaps)) / len(label))


def rmse(pred: Predictive, Y: Any) -> float:
    """Root mean squared error of the predictive mean.

    Parameters
    ----------
    pred : Predictive
        Of N inputs: an array of shape (S, N, C).
    Y : array_like, data frame or series, shape (N,) or (N, C)
        The observations.

    Returns
    -------
    float

    Raises
    ------
    InvalidValue, InvalidType
        If Y does not fit the likelihood or the number of inputs.

    Examples
    --------
    >>> import bongref as br
    >>> means = np.array([[[1.0], [2.0]]])
    >>> rmse(br.predictive.Predictive("plugin", br.likelihoods.Gaussian(1.0), means), [1.0, 4.0])
    1.4142135623730951
    """
    _, N, C = _predictive(pred).values.shape
    with np.errstate(over="ignore", under="ignore"):
        errors = pred.mean - checks.answers(pred.lik, Y, C, N)
        value, largest = np.sqrt(np.mean(errors**2)), np.max(np.abs(errors))
        if value in (0.0, np.inf) and 0 < largest < np.inf:  # the squares leave float64
            value = largest * np.sqrt(np.mean((errors / largest) ** 2))
    return float(value)


def nonpositive(pred: Predictive, Y: Any) -> float:
    """The share of observations whose predictive density is not positive.

    ``lin_mc`` as the paper defines it can give an observed class an average mass below 0; the NLPD
    is then inf, and says nothing about the other observations: see :func:`nlpd_positive`.

    Parameters
    ----------
    pred : Predictive
        Of N inputs: an array of shape (S, N, C).
    Y : array_like, data frame or series, shape (N,) or (N, C)
        The observations.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    InvalidValue, InvalidType
        If Y does not fit the likelihood or the number of inputs.

    Examples
    --------
    >>> import bongref as br
    >>> means = np.array([[[1.2], [0.5]]])
    >>> pred = br.predictive.Predictive("lin_mc", br.likelihoods.Bernoulli(), means, of_means=True)
    >>> nonpositive(pred, [0, 0]), nlpd(pred, [0, 0]), round(nlpd_positive(pred, [0, 0]), 3)
    (0.5, inf, 0.693)
    """
    return float(np.mean(np.isneginf(_predictive(pred).log_density(Y))))


def nlpd_positive(pred: Predictive, Y: Any) -> float:
    """NLPD over the observations whose predictive density is positive: to be read with their share.

    Parameters
    ----------
    pred : Predictive
        Of N inputs: an array of shape (S, N, C).
    Y : array_like, data frame or series, shape (N,) or (N, C)
        The observations.

    Returns
    -------
    float
        NaN where there is no such observation; :func:`nlpd` where all are.

    Raises
    ------
    InvalidValue, InvalidType
        If Y does not fit the likelihood or the number of inputs.

    Examples
    --------
    >>> import bongref as br
    >>> means = np.array([[[1.0], [2.0]]])
    >>> pred = br.predictive.Predictive("plugin", br.likelihoods.Gaussian(1.0), means)
    >>> nlpd_positive(pred, [1.0, 4.0]) == nlpd(pred, [1.0, 4.0])
    True
    """
    logs = _predictive(pred).log_density(Y)
    used = logs[~np.isneginf(logs)]
    return float(-np.mean(used)) if len(used) else float("nan")


METRICS: dict[str, Callable[..., float]] = {
    "nlpd": nlpd,
    "error": error,
    "ece": ece,
    "rmse": rmse,
    "nonpositive": nonpositive,
    "nlpd_positive": nlpd_positive,
}
# what other packages call them, or the nearest that there is
ELSEWHERE = {
    "accuracy": "error (1 - accuracy)",
    "acc": "error (1 - accuracy)",
    "mse": "rmse (its square root)",
    "nll": "nlpd",
    "log_loss": "nlpd",
    "logloss": "nlpd",
}


def _nearest(metric: str, name: str, known: list[str]) -> str:
    """The end of a message about a metric that there is not."""
    if metric.lower() in ELSEWHERE:
        return f"; use {ELSEWHERE[metric.lower()]}"
    return checks.near_miss(name, known)


# metrics of a density: without a kind they are of the linearised predictive, not of a point
CALIBRATED = ("nlpd", "ece", "nlpd_positive")


def _predictive(pred: Any) -> Predictive:
    if not isinstance(pred, Predictive):
        got = checks.describe(pred)
        raise InvalidType(
            f"pred must be made by bongref.predictive (plugin, mc, lin_mc), got {got}"
        )
    return pred


def _classes(pred: Predictive, Y: Any) -> tuple[Array, Array, Array]:
    """Predicted class, its probability, and the label, of a Categorical or a single Bernoulli."""
    _, N, C = pred.values.shape
    name, mean, onehot = pred.lik.name, pred.mean, checks.answers(pred.lik, Y, C, N)
    if name == "categorical":
        return mean.argmax(axis=1), mean.max(axis=1), onehot.argmax(axis=1)
    if name == "bernoulli" and C == 1:
        guess = (mean[:, 0] > 0.5).astype(int)
        confidence = np.where(guess == 1, mean[:, 0], 1 - mean[:, 0])
        return guess, confidence, onehot[:, 0].astype(int)
    raise InvalidValue(
        "the likelihood must be Categorical, or Bernoulli with one output, for error and ece, "
        f"got {name} with {C}; use nlpd or rmse"
    )


@dataclass(frozen=True, repr=False)
class On:
    """Metrics of the predictive on a test set, made by :func:`on`.

    It is called as ``(m, model, lik, state, rng)`` and returns a dict.

    Attributes
    ----------
    X, Y
        The test inputs and their observations.
    names : tuple of str
        The names of the metrics.
    n_samples : int
    every : int or sequence of int, optional

    Examples
    --------
    >>> on([[0.0], [1.0]], [0.1, 0.9], "rmse")
    <rmse on 2 observations>
    """

    X: Any
    Y: Any
    names: tuple[str, ...]
    n_samples: int = 100
    every: Any = None
    ahead: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"<{', '.join(self.names)} on {len(self.X)} observations>"

    def check(self, m: Method, model: Model, lik: Likelihood, prior: State) -> None:
        """Refuse before a stream what would be refused after it.

        Parameters
        ----------
        m : Method
        model : Model
        lik : Likelihood
        prior : FC, Diag or DLR
        """
        pred = predictive.plugin(model, lik, prior, self.X)
        checks.answers(lik, self.Y, pred.values.shape[2], pred.values.shape[1])
        if any(name.partition("-")[0] in ("error", "ece") for name in self.names):
            _classes(pred, self.Y)

    def __call__(
        self, m: Method, model: Model, lik: Likelihood, state: State, rng: np.random.Generator
    ) -> dict[str, float]:
        """The metrics by name."""
        return self.scores(self.predictives(model, lik, state, rng))

    def predictives(
        self, model: Model, lik: Likelihood, state: State, rng: np.random.Generator
    ) -> dict[str, Predictive]:
        """The predictives that the metrics need, of the same samples.

        Parameters
        ----------
        model : Model
        lik : Likelihood
        state : FC, Diag or DLR
        rng : numpy.random.Generator

        Returns
        -------
        dict of str to Predictive
        """
        kinds = dict.fromkeys(_kind(name) for name in self.names)
        return predictive.several(
            kinds, model, lik, state, self.X, n_samples=self.n_samples, rng=rng
        )

    def scores(self, made: dict[str, Predictive]) -> dict[str, float]:
        """The metrics by name, of these predictives.

        Parameters
        ----------
        made : dict of str to Predictive
            As :meth:`predictives` returns them.

        Returns
        -------
        dict of str to float
        """
        return {
            name: METRICS[name.partition("-")[0]](made[_kind(name)], self.Y) for name in self.names
        }


def _kind(name: str) -> str:
    """The predictive of a metric's name; of a density alone the one that is calibrated."""
    metric, _, kind = name.partition("-")
    return kind or ("lin_mc_f" if metric in CALIBRATED else "plugin")


def on(X: Any, Y: Any, *names: str, n_samples: int = 100, every: Any = None) -> On:
    """Metrics on a test set, for ``run(..., metrics=...)``.

    Parameters
    ----------
    X : array_like or data frame, shape (N, D), or a sequence of N inputs
        The test inputs, read by position.
    Y : array_like, data frame or series, shape (N,) or (N, C), or a sequence
        Their observations; none may be missing.
    *names : str
        ``"nlpd"``, ``"error"``, ``"ece"``, ``"rmse"``, ``"nonpositive"`` or ``"nlpd_positive"``,
        each with ``-plugin``, ``-mc``, ``-lin_mc`` or ``-lin_mc_f``, e.g. ``"nlpd-mc"``. Alone,
        ``nlpd``, ``ece`` and ``nlpd_positive`` are of ``lin_mc_f``, which has the uncertainty of
        the parameters in it, and the others of ``plugin``.
    n_samples : int
        The number of samples for all kinds but plugin; all kinds have the same samples.
    every : int or sequence of int, optional
        When these metrics are due, where that is not the ``every`` of the run.

    Returns
    -------
    On

    Raises
    ------
    InvalidValue, InvalidType
        If a name is not one of these, or X and Y do not have the same length.

    Examples
    --------
    >>> on([[0.0], [1.0]], [0.1, 0.9], "rmse", "nlpd-mc").names
    ('rmse', 'nlpd-mc')
    >>> on([[0.0], [1.0]], [0.1, 0.9], "nlp")
    Traceback (most recent call last):
    bongref.errors.InvalidValue: names must be made of nlpd, error, ece, rmse, nonpositive, \
nlpd_positive and optionally -plugin, -mc, -lin_mc, -lin_mc_f, got 'nlp'; did you mean 'nlpd'?
    """
    for name in names or ("",):
        if not isinstance(name, str):
            raise InvalidType(f"names must be strings such as 'nlpd-mc', got {name!r}")
        metric, dash, kind = name.partition("-")
        if metric not in METRICS or (kind if dash else "plugin") not in predictive.KINDS:
            known = [*METRICS, *(f"{a}-{k}" for a in METRICS for k in predictive.KINDS)]
            raise InvalidValue(
                f"names must be made of {', '.join(METRICS)} and optionally "
                f"-{', -'.join(predictive.KINDS)}, got {name!r}{_nearest(metric, name, known)}"
            )
    n_samples = checks.integer("n_samples", n_samples, 1)
    X = checks.values("X", X)
    Y, missing = checks.partial_values("Y", Y)
    if np.any(missing):
        at = int(np.argmax(missing))
        raise InvalidValue(
            f"Y must be complete, got a missing value at {at}; leave out its row of X and Y"
        )
    if len(X) != len(Y):
        raise InvalidValue(f"X and Y must have the same length, got {len(X)} and {len(Y)}")
    if len(X) == 0:
        raise InvalidValue("X must not be empty, got length 0")
    schedule.checked("every", every)
    return On(X, Y, names, n_samples, every)


@dataclass(frozen=True)
class Prequential:
    """The one-step-ahead NLPD, made by :func:`prequential`; a row is its mean since the last.

    Attributes
    ----------
    kind : str
    n_samples : int
    every : int or sequence of int, optional

    Examples
    --------
    >>> prequential().keys
    ('prequential-plugin',)
    """

    kind: str = "plugin"
    n_samples: int = 100
    every: Any = None
    ahead: ClassVar[bool] = True

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the scores."""
        return (f"prequential-{self.kind}",)

    def __call__(
        self,
        m: Method,
        model: Model,
        lik: Likelihood,
        prior: State,
        rng: np.random.Generator,
        x: Any,
        y: Any,
    ) -> dict[str, float]:
        """The score of one observation (x, y), or of a mini-batch, under the prior."""
        pred = predictive.predict(
            self.kind, model, lik, prior, x, n_samples=self.n_samples, rng=rng
        )
        return {f"prequential-{self.kind}": nlpd(pred, y if model.is_batch(x) else y[None])}


def prequential(kind: str = "plugin", n_samples: int = 100, every: Any = None) -> Prequential:
    """One-step-ahead NLPD of each observation under the prior q_{t|t-1}, before the update sees it.

    Parameters
    ----------
    kind : {"plugin", "mc", "lin_mc", "lin_mc_f"}
        The predictive distribution.
    n_samples : int
        The number of samples for all kinds but plugin.
    every : int or sequence of int, optional
        When its mean is due, where that is not the ``every`` of the run.

    Returns
    -------
    Prequential
        For ``run(..., metrics=...)``.

    Raises
    ------
    InvalidValue, InvalidType
        If ``kind`` is not one of these.

    Examples
    --------
    >>> prequential("mc", n_samples=10)
    Prequential(kind='mc', n_samples=10, every=None)
    """
    checks.choice("kind", kind, predictive.KINDS)
    schedule.checked("every", every)
    return Prequential(kind, checks.integer("n_samples", n_samples, 1), every)


@dataclass(frozen=True)
class KLTo:
    """The divergence D(q_t | exact), made by :func:`kl_to`.

    Attributes
    ----------
    exact : FC, Diag or DLR
    every : int or sequence of int, optional

    Examples
    --------
    >>> import bongref as br
    >>> kl_to(br.Diag(np.zeros(1), np.ones(1)), every=10).every
    10
    """

    exact: State
    every: Any = None
    ahead: ClassVar[bool] = False

    def check(self, m: Method, model: Model, lik: Likelihood, prior: State) -> None:
        """Refuse before a stream what would be refused after it."""
        if len(self.exact.mu) != len(prior.mu):
            P = len(prior.mu)
            raise InvalidValue(f"exact must have {P} parameters, got {len(self.exact.mu)}")

    def __call__(
        self, m: Method, model: Model, lik: Likelihood, state: State, rng: np.random.Generator
    ) -> dict[str, float]:
        """The divergence, as ``"kl"``."""
        return {"kl": kl(state, self.exact)}


def kl_to(exact: State, every: Any = None) -> KLTo:
    """The KL divergence of the state to an exact posterior.

    Parameters
    ----------
    exact : FC, Diag or DLR
        The exact posterior.
    every : int or sequence of int, optional
        When it is due, where that is not the ``every`` of the run.

    Returns
    -------
    KLTo
        For ``run(..., metrics=...)``.

    Raises
    ------
    InvalidValue, InvalidType
        If ``exact`` is not a state, or not positive definite.

    Examples
    --------
    >>> import bongref as br
    >>> q = br.Diag(np.zeros(1), np.ones(1))
    >>> kl_to(q)(None, None, None, br.Diag(np.ones(1), np.ones(1)), None)
    {'kl': 0.5}
    """
    schedule.checked("every", every)
    return KLTo(checks.state("exact", exact), every)

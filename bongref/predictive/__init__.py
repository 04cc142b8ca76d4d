r"""Predictive distributions p(y | x) = ∫ p(y | f(x, θ)) q(θ) dθ (sec:experiments).

=======  ===========================================================================================
plugin   q replaced by a point mass at its mean: p(y | f(x, μ))
mc       (1/S) Σ_s p(y | f(x, θ_s)), θ_s ~ q
lin_mc   the same with the mean h(x, θ) replaced by its linearisation h̄(x, θ) = ŷ + H(θ − μ)
         (eq:hbar), as the paper defines it; ``linearise="f"`` is the variant that linearises the
         natural parameter f (for a softmax the logits) and keeps the likelihood
=======  ===========================================================================================

h̄ can leave the range of means (a probability below 0 or above 1, a negative rate). It is used as
it is: a class is given the mass h̄_y, and where the average over the samples is not positive the
log-density is −inf. Nothing is clipped. A mean or variance beyond the largest float is inf (with a
warning for the variance). ``linearised.py`` has the same predictive distribution in closed form.
What is not here: scores of predictions (``metrics``).

>>> import numpy as np, bongref as br
>>> model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=0.5)
>>> state = br.Diag(mu=np.array([1.0, -1.0]), var=np.array([0.1, 0.1]))
>>> p = br.predictive.mc(model, lik, state, [[1.0, 0.0], [0.0, 1.0]], n_samples=1000, rng=0)
>>> p.mean.round(1), p.var.round(1)
(array([[ 1.],
       [-1.]]), array([[0.6],
       [0.6]]))
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import checks
from ..errors import BongrefWarning, InvalidValue
from ..gaussians import draw
from ..grid import Method
from ..likelihoods import Likelihood
from ..linalg import Array
from ..models import Model
from ..show import fields_html, interval
from ..states import State
from ..tables import as_array

KINDS = ("plugin", "mc", "lin_mc", "lin_mc_f")
POSITIVE = ("gaussian", "poisson")  # densities at any mean are >= 0: logarithms can be averaged

AT_ONCE = 2**20  # numbers of an array that is made of the values of some inputs: 8 MB

Function = TypeVar("Function", bound=Callable[..., Any])


class _Mixture(NamedTuple):
    kind: str
    lik: Likelihood
    values: Array
    of_means: bool = False


class Predictive(_Mixture):
    """An equally weighted mixture over S samples of the likelihood at N inputs.

    Attributes
    ----------
    kind : str
        How it was made: ``"plugin"``, ``"mc"``, ``"lin_mc"`` or ``"lin_mc_f"``.
    lik : Likelihood
    values : ndarray, shape (S, N, C)
        Outputs of the model, or means of y where ``of_means``.
    of_means : bool

    Examples
    --------
    >>> import bongref as br
    >>> p = Predictive("mc", br.likelihoods.Bernoulli(), np.array([[[0.0]], [[0.0]]]))
    >>> p.mean, p.var
    (array([[0.5]]), array([[0.25]]))
    """

    __slots__ = ()

    def __new__(
        cls, kind: str, lik: Likelihood, values: Array, of_means: bool = False
    ) -> Predictive:
        checks.choice("kind", kind, KINDS)
        checks.boolean("of_means", of_means)
        outputs = as_array(values)
        if outputs.dtype.kind not in "fiub" or outputs.ndim != 3:
            raise InvalidValue(
                f"values must be an array of shape (S, N, C), got {checks.describe(values)}"
            )
        return super().__new__(cls, kind, checks.likelihood(lik), outputs, of_means)

    def __repr__(self) -> str:
        """Its kind, likelihood, sizes and the range of the means."""
        return f"<Predictive: {', '.join(f'{k} {v}' for k, v in self._pairs())}>"

    def _repr_html_(self) -> str:
        return fields_html("Predictive", self._pairs())

    def _pairs(self) -> list[tuple[str, str]]:
        sizes = " x ".join(map(str, np.shape(self.values)))
        try:
            range_of = interval(self.mean)
        except Exception:  # values that the likelihood does not take
            range_of = "unknown"
        pairs = [("kind", self.kind), ("of", repr(self.lik))]
        return [*pairs, ("samples x inputs x outputs", sizes), ("mean in", range_of)]

    @property
    def means(self) -> Array:
        """The mean of y for each sample, (S, N, C).

        Examples
        --------
        >>> import bongref as br
        >>> Predictive("mc", br.likelihoods.Bernoulli(), np.zeros((2, 1, 1))).means.shape
        (2, 1, 1)
        """
        with np.errstate(over="ignore"):
            means: Array = self.values if self.of_means else self.lik.mean(self.values)
        return means

    @property
    def mean(self) -> Array:
        """The predictive mean of y, (N, C): class probabilities for Bernoulli and Categorical.

        Examples
        --------
        >>> import bongref as br
        >>> Predictive("mc", br.likelihoods.Bernoulli(), np.zeros((2, 1, 1))).mean
        array([[0.5]])
        """
        with np.errstate(over="ignore"):
            return self._by_inputs(lambda values: self._replace(values=values).means.mean(axis=0))

    @property
    def var(self) -> Array:
        """The variance of y, (N, C): the mean of the variances plus the variance of the means.

        It is inf where it is beyond the largest float64, 1.8e308: that of a Poisson is from a
        log-rate of 709.79 on. A BongrefWarning says so where the outputs themselves are finite.

        Examples
        --------
        >>> import bongref as br
        >>> Predictive("mc", br.likelihoods.Gaussian(1.0), np.array([[[-1.0]], [[1.0]]])).var
        array([[2.]])
        """

        def part(values: Array) -> Array:
            if self.of_means:
                within = self.lik.var_mean(values)
            else:
                within = np.diagonal(self.lik.var(values), axis1=-2, axis2=-1)
            means = self._replace(values=values).means
            total: Array = within.mean(axis=0) + means.var(axis=0)
            beyond = np.isinf(within).any(axis=0) | np.isinf(means).any(axis=0)
            return np.where(beyond, np.inf, total)

        with np.errstate(over="ignore", invalid="ignore"):
            var = self._by_inputs(part)
        beyond = np.isinf(var).any(axis=1)
        if beyond.any() and np.isfinite(outputs := self.values[:, beyond]).all():
            warnings.warn(
                f"the variance of y is beyond the largest float64 at {beyond.sum()} of {len(var)} "
                f"inputs, and inf there: {self.lik!r} with outputs up to {outputs.max():.6g}; "
                "log_density and nlpd can be used all the same",
                BongrefWarning,
                stacklevel=2,
            )
        return var

    def log_density(self, Y: Any) -> Array:
        """log p(y_n | x_n): the logarithm of the mean density of the samples.

        It is −inf where the density is 0, and where outputs of the model are not finite.

        Parameters
        ----------
        Y : array_like, data frame or series, shape (N,) or (N, C)
            The observations at the N inputs.

        Returns
        -------
        ndarray, shape (N,)

        Examples
        --------
        >>> import bongref as br
        >>> p = Predictive("plugin", br.likelihoods.Bernoulli(), np.array([[[0.0], [2.0]]]))
        >>> p.log_density([1, 1]).round(3)
        array([-0.693, -0.127])
        """
        _, N, C = self.values.shape
        Y = checks.answers(self.lik, Y, C, N)

        def part(values: Array, Y: Array) -> Array:
            if self.of_means and self.lik.name not in POSITIVE:
                density = self.lik.prob_mean(values, Y).mean(axis=0)
                return np.where(density > 0, np.log(np.maximum(density, 0)), -np.inf)
            log_prob = self.lik.log_prob_mean if self.of_means else self.lik.log_prob
            logs = log_prob(values, Y)
            logs = np.where(np.isnan(logs), -np.inf, logs)
            top = logs.max(axis=0)
            safe = np.where(np.isfinite(top), top, 0.0)
            out: Array = safe + np.log(np.mean(np.exp(logs - safe), axis=0))
            return out

        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self._by_inputs(part, Y)

    def _by_inputs(self, f: Callable[..., Array], *arrays: Array) -> Array:
        """f(values, *arrays) of some inputs at a time, so that what it needs besides is bounded."""
        S, N, C = self.values.shape
        n = max(1, AT_ONCE // (S * C * C))
        parts = [slice(a, a + n) for a in range(0, max(N, 1), n)]
        return np.concatenate([f(self.values[:, p], *(a[p] for a in arrays)) for p in parts])


def _takes_no_method(position: int) -> Callable[[Function], Function]:
    """Let a call pass that gives a method at ``position``, with a DeprecationWarning."""

    def decorate(f: Function) -> Function:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = dict(enumerate(args)).get(position)
            positional = isinstance(given, Method) or (isinstance(given, str) and "-" in given)
            if positional or "m" in kwargs:
                message = f"predictive.{f.__name__} takes no method: leave out the argument m"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                kwargs.pop("m", None)
                args = args[:position] + args[position + 1 :] if positional else args
            return f(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


@_takes_no_method(0)
def plugin(model: Model, lik: Likelihood, state: State, X: Any) -> Predictive:
    """The likelihood at the mean of the state, p(y | f(x, μ)).

    Parameters
    ----------
    model : Model
    lik : Likelihood
    state : FC, Diag or DLR
        Of P = model.n_params parameters.
    X : array_like or data frame, shape (N, D) or (D,)
        N inputs, or one.

    Returns
    -------
    Predictive

    Raises
    ------
    InvalidValue, InvalidType
        If the state is not positive definite, or X does not fit the model.

    Examples
    --------
    >>> import bongref as br
    >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=0.5)
    >>> p = br.predictive.plugin(model, lik, br.Diag(np.array([2.0]), np.ones(1)), [[1.0], [3.0]])
    >>> p.mean.ravel(), p.log_density([2.0, 6.0]).round(3)
    (array([2., 6.]), array([-0.572, -0.572]))
    """
    state, X = _check(model, lik, state, X)
    return _make(("plugin",), model, lik, state, None, X)["plugin"]


@_takes_no_method(0)
def mc(
    model: Model,
    lik: Likelihood,
    state: State,
    X: Any,
    *,
    n_samples: int = 100,
    rng: np.random.Generator | int | None = None,
    samples: Any = None,
) -> Predictive:
    """The mean likelihood over draws of the parameters, (1/S) Σ_s p(y | f(x, θ_s)) with θ_s ~ q.

    Parameters
    ----------
    model : Model
    lik : Likelihood
    state : FC, Diag or DLR
        Of P = model.n_params parameters.
    X : array_like or data frame, shape (N, D) or (D,)
        N inputs, or one.
    n_samples : int
        S.
    rng : numpy.random.Generator or int
        A generator, which is advanced, or a seed. Needed unless ``samples`` are given.
    samples : array_like, shape (S, P), optional
        The θ_s themselves.

    Returns
    -------
    Predictive

    Raises
    ------
    InvalidValue, InvalidType
        If an argument is not allowed.

    Examples
    --------
    >>> import bongref as br
    >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=0.5)
    >>> state = br.Diag(np.array([2.0]), np.ones(1))
    >>> br.predictive.mc(model, lik, state, [[1.0]], samples=[[1.0], [3.0]]).var
    array([[1.5]])
    """
    state, X = _check(model, lik, state, X)
    return _make(("mc",), model, lik, state, _thetas(state, n_samples, rng, samples), X)["mc"]


@_takes_no_method(0)
def lin_mc(
    model: Model,
    lik: Likelihood,
    state: State,
    X: Any,
    *,
    n_samples: int = 100,
    rng: np.random.Generator | int | None = None,
    samples: Any = None,
    linearise: str = "h",
) -> Predictive:
    """:func:`mc` with the model linearised at the mean of the state.

    Parameters
    ----------
    model : Model
    lik : Likelihood
    state : FC, Diag or DLR
        Of P = model.n_params parameters.
    X : array_like or data frame, shape (N, D) or (D,)
        N inputs, or one.
    n_samples : int
        S.
    rng : numpy.random.Generator or int
        A generator, which is advanced, or a seed. Needed unless ``samples`` are given.
    samples : array_like, shape (S, P), optional
        The θ_s themselves.
    linearise : {"h", "f"}
        Whether the mean h of y is linearised, as in the paper, or the natural parameter f.

    Returns
    -------
    Predictive

    Raises
    ------
    InvalidValue, InvalidType
        If an argument is not allowed.

    Examples
    --------
    >>> import bongref as br
    >>> model, lik = br.models.linear(1), br.likelihoods.Bernoulli()
    >>> state = br.Diag(np.array([0.0]), np.ones(1))
    >>> br.predictive.lin_mc(model, lik, state, [[1.0]], samples=[[1.0]]).mean
    array([[0.75]])
    """
    checks.choice("linearise", linearise, ("h", "f"))
    state, X = _check(model, lik, state, X)
    thetas = _thetas(state, n_samples, rng, samples)
    kind = "lin_mc" if linearise == "h" else "lin_mc_f"
    return _make((kind,), model, lik, state, thetas, X)[kind]


@_takes_no_method(1)
def predict(
    kind: str,
    model: Model,
    lik: Likelihood,
    state: State,
    X: Any,
    *,
    n_samples: int = 100,
    rng: np.random.Generator | int | None = None,
) -> Predictive:
    """The predictive distribution of a kind.

    Parameters
    ----------
    kind : {"plugin", "mc", "lin_mc", "lin_mc_f"}
        ``"lin_mc_f"`` is :func:`lin_mc` with ``linearise="f"``.
    model : Model
    lik : Likelihood
    state : FC, Diag or DLR
    X : array_like or data frame, shape (N, D) or (D,)
    n_samples : int
    rng : numpy.random.Generator or int
        Needed for all kinds but ``"plugin"``.

    Returns
    -------
    Predictive

    Raises
    ------
    InvalidValue, InvalidType
        If an argument is not allowed.

    Examples
    --------
    >>> import bongref as br
    >>> state = br.Diag(np.array([2.0]), np.ones(1))
    >>> lik = br.likelihoods.Gaussian(var=0.5)
    >>> br.predictive.predict("plugin", br.models.linear(1), lik, state, [[1.0]]).mean
    array([[2.]])
    """
    checks.choice("kind", kind, KINDS)
    return several((kind,), model, lik, state, X, n_samples=n_samples, rng=rng)[kind]


def several(
    kinds: Iterable[str],
    model: Model,
    lik: Likelihood,
    state: State,
    X: Any,
    *,
    n_samples: int = 100,
    rng: np.random.Generator | int | None = None,
) -> dict[str, Predictive]:
    """Predictive distributions of several kinds, of the same samples and linearisation.

    Parameters
    ----------
    kinds : iterable of str
        Of ``"plugin"``, ``"mc"``, ``"lin_mc"`` and ``"lin_mc_f"``, as in :func:`predict`.
    model : Model
    lik : Likelihood
    state : FC, Diag or DLR
    X : array_like or data frame, shape (N, D) or (D,)
    n_samples : int
    rng : numpy.random.Generator or int
        Needed for all kinds but ``"plugin"``; the samples are drawn once for all kinds.

    Returns
    -------
    dict
        The Predictive of each kind.

    Raises
    ------
    InvalidValue, InvalidType
        If an argument is not allowed.

    Examples
    --------
    >>> import bongref as br
    >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=0.5)
    >>> state = br.Diag(np.array([2.0]), np.ones(1))
    >>> found = br.predictive.several(("mc", "lin_mc"), model, lik, state, [[1.0]], rng=0)
    >>> bool(np.allclose(found["mc"].mean, found["lin_mc"].mean))
    True
    """
    kinds = checks.strings("kinds", kinds, KINDS)
    state, X = _check(model, lik, state, X)
    drawn = any(kind != "plugin" for kind in kinds)
    thetas = _thetas(state, n_samples, rng, None) if drawn else None
    return _make(kinds, model, lik, state, thetas, X)


def _make(
    kinds: tuple[str, ...], model: Model, lik: Likelihood, state: State, thetas: Any, X: Any
) -> dict[str, Predictive]:
    """The predictives of these kinds, by the compiled path where there is one."""
    values = _compiled(kinds, model, lik, state.mu, thetas, X)
    for kind in kinds:
        if kind not in values and kind in ("plugin", "mc"):
            points = state.mu[None] if kind == "plugin" else thetas
            values[kind] = np.stack([_outputs(model, theta, X) for theta in points])
        elif kind not in values:
            values[kind] = _linearised(kind, model, lik, state.mu, thetas, X)
        if kind in ("lin_mc", "lin_mc_f"):
            values[kind] = _overflowed(values[kind], model, lik, state.mu, X)
    return {kind: Predictive(kind, lik, values[kind], kind == "lin_mc") for kind in kinds}


def _linearised(kind: str, model: Model, lik: Likelihood, mu: Array, thetas: Any, X: Any) -> Array:
    """Linearised means of y, or for lin_mc_f outputs, (S, N, C)."""
    shift = (thetas - mu).T  # (P, S)
    several, values = model.is_batch(X), []
    count = max(1, AT_ONCE // (checks.n_outputs(model, mu, X[0] if several else X) * len(mu)))
    parts = [X[n : n + count] for n in range(0, len(X), count)] if several else [X]
    with np.errstate(over="ignore", invalid="ignore"):
        for some in parts:
            o_some, J_some = model(mu, some), model.jac(mu, some)
            for o, J in zip(o_some, J_some, strict=True) if several else [(o_some, J_some)]:
                if kind == "lin_mc":
                    H = lik.jac_mean(o) @ J  # eqn:jacH
                    hbar = lik.mean(o)[:, None] + H @ shift  # eq:hbar
                    values.append(hbar.T)
                else:
                    fbar = o[:, None] + J @ shift  # eq:fbar
                    values.append(fbar.T)
    return np.stack(values, axis=1)


def _overflowed(values: Array, model: Model, lik: Likelihood, mu: Array, X: Any) -> Array:
    """Linearised means; where ŷ itself is beyond the largest float, the sum ŷ + H(θ − μ) is too."""
    if not np.any(np.isnan(values)):
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        mean = lik.mean(_outputs(model, mu, X))
    return np.where(np.isnan(values) & np.isinf(mean), mean, values)


def _compiled(
    kinds: tuple[str, ...], model: Any, lik: Any, mu: Array, thetas: Any, X: Any
) -> dict[str, Array]:
    """The values by the compiled path; None where there is none or a compilation does not pay."""
    try:
        from ..fast import Unavailable, predict
    except ImportError:
        return {}
    try:
        values: dict[str, Array] = predict.values(kinds, model, lik, mu, thetas, X)
        return values
    except Unavailable:
        return {}


def _outputs(model: Model, theta: Array, X: Any) -> Array:
    """(N, C), with N = 1 for one input."""
    with np.errstate(over="ignore", invalid="ignore"):
        o = np.asarray(model(theta, X))
    return o if model.is_batch(X) else o[None]


def _thetas(state: State, n_samples: int, rng: Any, samples: Any) -> Array:
    if samples is not None:
        return checks.array("samples", samples, shape=(None, len(state.mu)))
    n = checks.integer("n_samples", n_samples, 1)
    return draw(state, n, checks.seed_or_generator("rng", rng))


def _check(model: Model, lik: Likelihood, state: State, X: Any) -> tuple[State, Any]:
    checks.model(model)
    checks.likelihood(lik)
    state = checks.state("state", state, P=model.n_params)
    X = checks.one_input(model, X, name="X")
    lik.check_outputs(checks.n_outputs(model, state.mu, X[0] if model.is_batch(X) else X))
    return state, X

"""Estimators for scikit-learn that learn from a stream: Bayesian networks, one pass, any chunks.

``fit`` is one pass over the rows in their order, ``partial_fit`` goes on from there, and **any
chunking gives the same result** to the last bit: everything is counted by rows. Inputs and target
are standardised inside by running statistics. See docs/everyday.md for the defaults and their
evidence. scikit-learn >= 1.6 is needed: ``pip install 'bongref[sklearn]'``.
What is not here: the learner below the estimators (``online``).

>>> import numpy as np
>>> from bongref.sklearn import BongRegressor
>>> X = np.random.default_rng(0).uniform(-2, 2, size=(500, 1))
>>> y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(500)
>>> est = BongRegressor(random_state=0).fit(X, y)
>>> mean, std = est.predict([[0.0], [0.5]], return_std=True)
>>> bool(np.all(np.abs(mean - np.sin([0.0, 1.0])) < 3 * std))
True
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import entr

from .. import checks, predictive
from ..dynamics import OU, Static, propagate
from ..errors import InvalidType, InvalidValue
from ..gaussians import normals
from ..grid import Method
from ..guide import defaults
from ..linalg import Array
from ..models import ParametricModel
from ..models.layers import ACTIVATIONS
from ..online.learner import Learner
from ..online.outputs import network
from ..predictive import linearised
from ..states import State

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

    from . import arguments
    from .arguments import encoded, in_range, labels_of, method_of, random_state_of, refuse_unknown
except ImportError as error:
    raise ImportError(
        f"bongref.sklearn needs scikit-learn >= 1.6 ({error}): pip install 'bongref[sklearn]'"
    ) from None

__all__ = ["BongClassifier", "BongRegressor"]

SETTINGS = "method hidden_layer_sizes activation prior_var noise_var gamma method_params".split()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "everyday.md"
DOCUMENTATION = PAGE.as_uri() if PAGE.exists() else "https://arxiv.org/abs/2405.19681"


class _Bong(BaseEstimator):
    """What the regressor and the classifier share."""

    _doc_link_module = "bongref"
    _doc_link_template = DOCUMENTATION

    def __init__(
        self,
        method: str = "auto",
        hidden_layer_sizes: Sequence[int] = (20, 20),
        activation: str = "gelu",
        prior_var: float = 1.0,
        gamma: float = 1.0,
        method_params: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.prior_var = prior_var
        self.gamma = gamma
        self.method_params = method_params
        self.random_state = random_state

    # --- what has been learned

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned."""
        return self._fitted().rows

    @property
    def state_(self) -> State:
        """The posterior over the network's parameters, of standardised inputs and target."""
        return self._fitted().current().state

    @property
    def method_(self) -> Method:
        """The method that "auto" stands for."""
        return self._fitted().m

    @property
    def model_(self) -> ParametricModel:
        """The network."""
        return self._fitted().model

    def _fitted(self) -> Learner:
        check_is_fitted(self, "learner_")
        learner: Learner = self.learner_
        return learner

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    # --- learning

    @contextlib.contextmanager
    def _as_before(self) -> Iterator[None]:
        """Where an argument is refused, nothing has changed."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _settings(self, n_in: int, n_out: int) -> tuple[Method, ParametricModel, float, float]:
        """Method, network, prior_var and gamma; every setting is checked here."""
        sizes: Any = self.hidden_layer_sizes
        if isinstance(sizes, (str, Mapping)) or not isinstance(sizes, (Iterable, int, np.integer)):
            raise InvalidType(
                "hidden_layer_sizes must be a sequence of integers, such as (20, 20), or () for a "
                f"linear model, got {checks.describe(sizes)}"
            )
        sizes = [sizes] if isinstance(sizes, (int, np.integer)) else list(sizes)
        hidden = [checks.integer("hidden_layer_sizes", size, 1) for size in sizes]
        checks.choice("activation", self.activation, tuple(ACTIVATIONS))
        model = network(n_in, hidden, n_out, self.activation)
        m = method_of(self.method, self.method_params, model)
        scale, gamma = (checks.scalar(k, getattr(self, k)) for k in ("prior_var", "gamma"))
        if not scale > 0:
            raise InvalidValue(f"prior_var must be > 0, got {self.prior_var!r}")
        if not 0 <= gamma <= 1:
            raise InvalidValue(
                f"gamma must be in [0, 1], got {self.gamma!r}; 1 forgets nothing, 0.999 about a "
                "thousand rows"
            )
        self._noise_var()
        return m, model, scale, gamma

    def _start(self, n_in: int, n_out: int, kind: str) -> Learner:
        """A learner before its first row."""
        m, model, scale, gamma = self._settings(n_in, n_out)
        seed = int(random_state_of(self.random_state).randint(np.iinfo(np.int32).max))
        mu, var = model.init(seed), scale * defaults.fan_in(model)
        dynamics = Static() if gamma == 1 else OU(gamma, mu, var)
        prior = m.prior(mu, var, rng=seed)
        return Learner(m, model, kind, prior, dynamics, self._noise_var(), seed)

    def _noise_var(self) -> float | None:
        """The observation variance that was given; a classifier has none."""
        return None

    def _check_unchanged(self, n_in: int, n_out: int) -> None:
        """Refuse settings that were changed since the first rows, but for random_state."""
        now = repr([v for k, v in vars(self).items() if k in SETTINGS])
        if now != getattr(self, "_settled", None):
            self.learner_.check_settings(*self._settings(n_in, n_out), self._noise_var())
            self._settled = now

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _outputs(self, X: Any) -> tuple[Any, Any, Array, Array]:
        learner = self._fitted()
        return learner.outputs(validate_data(self, X, reset=False, dtype=np.float64))

    def _sampled(self, X: Any, n_samples: int, random_state: Any) -> tuple[Any, Any, Any, Any]:
        """Outputs of the linearised network for draws of its parameters, (n_samples, N, C)."""
        learner = self._fitted()
        X = validate_data(self, X, reset=False, dtype=np.float64)
        rng = np.random.default_rng(random_state_of(random_state).randint(2**31 - 1))
        c = learner.current()
        prior = propagate(c.state, learner.dynamics)
        lik, n = learner.likelihood(c), checks.integer("n_samples", n_samples, 1)
        Z = c.x_scale.clipped(X)
        drawn = predictive.lin_mc(learner.model, lik, prior, Z, n_samples=n, rng=rng, linearise="f")
        return lik, c.y_scale, drawn.values, rng


_PARAMETERS = """
    Parameters
    ----------
    method : str
        One of the names of :func:`bongref.methods`. "auto" is bong-lin-hess-fc, and
        bong-lin-hess-dlr with rank min(10, P) for networks whose full covariance would cost more
        than about a millisecond a row.
    hidden_layer_sizes : sequence of int
        () is a linear model.
    activation : {"tanh", "relu", "gelu", "gelu_tanh"}
    prior_var : float
        A weight's prior variance is ``prior_var`` / fan-in, a bias's ``prior_var``; inputs and
        target are standardised.
    gamma : float
        Forgetting: the parameters are an Ornstein–Uhlenbeck process that returns to the prior with
        correlation ``gamma`` from row to row. 1 forgets nothing; 0.999 forgets in about a thousand
        rows."""

_MORE = """
    method_params : dict, optional
        Parameters of the method: ``{"rank": 5}``, ``{"alpha": 0.01, "n_iter": 4}``.
    random_state : int, RandomState or None
        Of the network's initial parameters and the samples of an mc method."""


class BongRegressor(RegressorMixin, _Bong):
    __doc__ = f"""Bayesian regression with a small network, learned online.

    One Gaussian posterior over all parameters, one natural-gradient step per row.
{_PARAMETERS}
    noise_var : float or None
        The observation variance in units of y². None: estimated from the errors of each block of
        rows, predicted before the block is learned.{_MORE}

    Attributes
    ----------
    n_features_in_, feature_names_in_
        As in all of scikit-learn.
    n_samples_seen_ : int
    noise_var_ : float
        The observation variance in use.
    state_ : FC, Diag or DLR
        The posterior over the parameters.
    method_, model_
        What was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> est = BongRegressor(random_state=0)
    >>> for rows in range(0, 442, 100):
    ...     est = est.partial_fit(X[rows : rows + 100], y[rows : rows + 100])
    >>> est.n_samples_seen_, est.score(X, y) > 0.4
    (442, True)
    """

    def __init__(
        self,
        method: str = "auto",
        hidden_layer_sizes: Sequence[int] = (20, 20),
        activation: str = "gelu",
        prior_var: float = 1.0,
        noise_var: float | None = None,
        gamma: float = 1.0,
        method_params: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            method, hidden_layer_sizes, activation, prior_var, gamma, method_params, random_state
        )
        self.noise_var = noise_var

    @property
    def noise_var_(self) -> float:
        """The observation variance in use, in units of y²; NaN before it can be estimated."""
        return self._fitted().current().noise

    def fit(self, X: Any, y: Any, **unknown: Any) -> BongRegressor:
        """Learn the rows in their order, from the prior.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        y : array_like, shape (n,)
            Paired with X by position.

        Returns
        -------
        self
        """
        refuse_unknown("fit", unknown)
        return self._learn(X, y, first=True)

    def partial_fit(self, X: Any, y: Any, **unknown: Any) -> BongRegressor:
        """Learn more rows; any chunking gives the same result.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        y : array_like, shape (n,)

        Returns
        -------
        self
        """
        refuse_unknown("partial_fit", unknown)
        return self._learn(X, y, first=not hasattr(self, "learner_"))

    def _learn(self, X: Any, y: Any, first: bool) -> BongRegressor:
        with self._as_before():
            arguments.refuse_missing(y)
            X, y = validate_data(self, X, y, reset=first, dtype=np.float64, y_numeric=True)
            y = in_range("y", column_or_1d(y, warn=True).astype(np.float64))
            X = in_range("X", X)
            if first:
                self.learner_ = self._start(X.shape[1], 1, "gaussian")
            self._check_unchanged(X.shape[1], 1)
        self.learner_.learn(X, y[:, None])
        return self

    def _noise_var(self) -> float | None:
        noise = None if self.noise_var is None else checks.scalar("noise_var", self.noise_var)
        if noise is not None and not noise > 0:
            raise InvalidValue(f"noise_var must be > 0, got {self.noise_var!r}; None estimates it")
        return noise

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean, and with ``return_std`` the standard deviation of y.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        return_std : bool
            The standard deviation is that of an observation: it **includes the observation noise**
            beside the uncertainty of the parameters.

        Returns
        -------
        mean : ndarray, shape (n,)
        std : ndarray, shape (n,)
            With ``return_std``.

        Examples
        --------
        >>> est = BongRegressor(random_state=0).fit([[0.0], [1.0]], [0.0, 1.0])
        >>> mean, std = est.predict([[0.5]], return_std=True)
        """
        lik, scale, m, V = self._outputs(X)
        mean = scale.mean[0] + scale.std[0] * m[:, 0]
        if not return_std:
            return mean
        var: Array = linearised.prediction(lik, m, V).var[:, 0]  # type: ignore[index]
        return mean, scale.std[0] * np.sqrt(var)

    def score_samples(self, X: Any, y: Any = None) -> Array:
        """The log predictive density log p(y | x) of each row.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        y : array_like, shape (n,), optional
            None: what is expected of it, the negative entropy of the prediction.

        Returns
        -------
        ndarray, shape (n,)
        """
        if y is None:
            _, std = self.predict(X, return_std=True)
            expected: Array = -0.5 - 0.5 * math.log(2 * math.pi) - np.log(std)
            return expected
        self._fitted()
        arguments.refuse_missing(y)
        X, y = validate_data(self, X, y, reset=False, dtype=np.float64, y_numeric=True)
        lik, scale, m, V = self.learner_.outputs(X)
        U = scale.forward(column_or_1d(y).astype(np.float64)[:, None])
        logs: Array = linearised.log_density(lik, m, V, U) - math.log(scale.std[0])
        return logs

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draws of y: of the parameters, with the network linearised, and of the noise.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        n_samples : int
            All rows of one sample share one draw of the parameters.
        random_state : int, RandomState or None

        Returns
        -------
        ndarray, shape (n, n_samples)
        """
        lik, scale, f, rng = self._sampled(X, n_samples, random_state)
        noise = np.sqrt(lik.var_mean(f)) * normals(rng, f.shape)
        out: Array = (scale.mean[0] + scale.std[0] * (f + noise))[:, :, 0].T
        return out


class BongClassifier(ClassifierMixin, _Bong):
    __doc__ = f"""Bayesian classification with a small network, learned online.

    One logit for two classes, a softmax for more; one natural-gradient step per row.
{_PARAMETERS}{_MORE}

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The labels, sorted.
    n_features_in_, feature_names_in_
        As in all of scikit-learn.
    n_samples_seen_ : int
    state_ : FC, Diag or DLR
        The posterior over the parameters.
    method_, model_
        What was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(150)
    >>> est = BongClassifier(random_state=0).fit(X[order], y[order])
    >>> est.score(X, y) > 0.9, est.predict_proba(X[:2]).shape
    (True, (2, 3))
    """

    classes_: Array

    def fit(self, X: Any, y: Any, **unknown: Any) -> BongClassifier:
        """Learn the rows in their order, from the prior.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        y : array_like, shape (n,)
            Labels of at least two classes, paired with X by position.

        Returns
        -------
        self
        """
        refuse_unknown("fit", unknown)
        return self._learn(X, y, None, first=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, **unknown: Any) -> BongClassifier:
        """Learn more rows; any chunking gives the same result.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        y : array_like, shape (n,)
        classes : array_like, shape (n_classes,), optional
            All labels that will ever come; needed in the first call.

        Returns
        -------
        self
        """
        refuse_unknown("partial_fit", unknown)
        first = not hasattr(self, "learner_")
        if first and classes is None:
            raise InvalidValue(
                "classes must be given in the first call of partial_fit, got None; "
                "partial_fit(X, y, classes=[all labels that will come])"
            )
        if classes is not None and not first:
            again = labels_of(classes).tolist()
            if again != (known := self.classes_.tolist()):
                raise InvalidValue(f"classes must be those of the first call, {known}, got {again}")
        return self._learn(X, y, classes, first)

    def _learn(self, X: Any, y: Any, classes: Any, first: bool) -> BongClassifier:
        with self._as_before():
            arguments.refuse_missing(y)
            X, y = validate_data(self, X, y, reset=first, dtype=np.float64)
            X = in_range("X", X)
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
            if first:
                name, labels = "y", np.unique(y)
                if classes is not None:
                    name, labels = "classes", labels_of(classes)
                if len(labels) < 2:
                    raise InvalidValue(
                        f"{name} must have at least 2 classes, got only one class, "
                        f"{labels.tolist()}; partial_fit(X, y, classes=[all labels that will "
                        "come]) takes labels that come later"
                    )
                n_out = 1 if len(labels) == 2 else len(labels)
                kind = "bernoulli" if n_out == 1 else "categorical"
                self.learner_ = self._start(X.shape[1], n_out, kind)
                self.classes_ = labels
            U = encoded(y, self.classes_)
            self._check_unchanged(X.shape[1], self.learner_.model.n_outputs or 1)
        self.learner_.learn(X, U)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, the uncertainty of the parameters included.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)

        Returns
        -------
        ndarray, shape (n, n_classes)
            In the order of ``classes_``.

        Examples
        --------
        >>> est = BongClassifier(random_state=0).fit([[0.0], [1.0]], ["a", "b"])
        >>> est.predict_proba([[0.5]]).shape
        (1, 2)
        """
        lik, _, m, V = self._outputs(X)
        p: Array = np.asarray(linearised.prediction(lik, m, V))
        p /= p.sum(axis=1, keepdims=True)
        return p

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)

        Returns
        -------
        ndarray, shape (n, K)

        Examples
        --------
        >>> est = BongClassifier(random_state=0).fit([[0.0], [1.0]], ["a", "b"])
        >>> est.predict_log_proba([[0.5]]).shape
        (1, 2)
        """
        with np.errstate(divide="ignore"):
            logs: Array = np.log(self.predict_proba(X))
        return logs

    def predict(self, X: Any) -> Array:
        """The most probable label of each row.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)

        Returns
        -------
        ndarray, shape (n,)
        """
        p = self.predict_proba(X)
        labels: Array = self.classes_[p.argmax(axis=1)]
        return labels

    def score_samples(self, X: Any, y: Any = None) -> Array:
        """The log predictive probability log p(y | x) of each row.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        y : array_like, shape (n,), optional
            None: what is expected of it, the negative entropy of the prediction.

        Returns
        -------
        ndarray, shape (n,)
        """
        if y is None:
            negative: Array = -entr(self.predict_proba(X)).sum(axis=1)
            return negative
        self._fitted()
        arguments.refuse_missing(y)
        X, y = validate_data(self, X, y, reset=False, dtype=np.float64)
        lik, _, m, V = self.learner_.outputs(X)
        return linearised.log_density(lik, m, V, encoded(column_or_1d(y), self.classes_))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draws of labels: of the parameters, with the network linearised, and of the class.

        Parameters
        ----------
        X : array_like or data frame, shape (n, D)
        n_samples : int
            All rows of one sample share one draw of the parameters.
        random_state : int, RandomState or None

        Returns
        -------
        ndarray, shape (n, n_samples)
        """
        lik, _, f, rng = self._sampled(X, n_samples, random_state)
        p = lik.mean(f)
        p = np.concatenate([1 - p, p], axis=-1) if p.shape[-1] == 1 else p
        below = rng.random(p.shape[:-1])[..., None] * p.sum(axis=-1, keepdims=True)
        drawn = (np.cumsum(p, axis=-1) <= below).sum(axis=-1)
        labels: Array = self.classes_[np.minimum(drawn, p.shape[-1] - 1)].T
        return labels

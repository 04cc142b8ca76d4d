"""The protocol that every likelihood follows, and the text that all of them share.

>>> import bongref as br
>>> isinstance(br.likelihoods.Poisson(), br.likelihoods.Likelihood)
True
"""

from __future__ import annotations

import inspect
import types
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from ..linalg import Array

Class = TypeVar("Class", bound=type)


@runtime_checkable
class Likelihood(Protocol):
    """What an estimator and a predictive need from a likelihood.

    ``Gaussian``, ``Bernoulli``, ``Categorical`` and ``Poisson`` are built in; any other object with
    these members is a likelihood too. o is a model's output (..., C), h a mean of y, y an encoded
    observation (..., C).

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian, Likelihood
    >>> isinstance(Gaussian(0.1), Likelihood)
    True
    """

    name: ClassVar[str]

    def natural(self, o: Any) -> Any:
        """The natural parameter η of an output.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> from bongref.likelihoods import Gaussian
        >>> Gaussian(var=0.5).natural(np.array([1.0]))
        array([2.])
        """

    def A(self, eta: Any) -> Any:
        """The log-partition function A(η).

        Parameters
        ----------
        eta : array_like, shape (..., C)
            Natural parameters.

        Returns
        -------
        ndarray, shape (...)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> round(float(Bernoulli().A(np.zeros(1))), 6)      # log 2
        0.693147
        """

    def b(self, y: Any) -> Any:
        """The part of −log p(y | η) that depends on y alone.

        Parameters
        ----------
        y : array_like, shape (..., C)
            Observations, encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (...)

        Examples
        --------
        >>> from bongref.likelihoods import Poisson
        >>> round(float(Poisson().b(np.array([3.0]))), 6)      # log 3!
        1.791759
        """

    def mean(self, o: Any) -> Any:
        """The mean ŷ = E[y].

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> Bernoulli().mean(np.zeros((2, 1))).tolist()
        [[0.5], [0.5]]
        """

    def var(self, o: Any) -> Any:
        """The covariance R = Cov[y].

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.

        Returns
        -------
        ndarray, shape (..., C, C)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> Bernoulli().var(np.zeros(1))
        array([[0.25]])
        """

    def factor(self, o: Any) -> Any:
        """A factor L of the covariance, L Lᵀ = R.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.

        Returns
        -------
        ndarray, shape (..., C, C)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> Bernoulli().factor(np.zeros(1))
        array([[0.5]])
        """

    def jac_mean(self, o: Any) -> Any:
        """The Jacobian ∂ŷ/∂o.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.

        Returns
        -------
        ndarray, shape (..., C, C)

        Examples
        --------
        >>> from bongref.likelihoods import Gaussian
        >>> Gaussian(var=0.5).jac_mean(np.zeros(1))
        array([[1.]])
        """

    def var_mean(self, h: Any) -> Any:
        """The variances of the entries of y at the mean h.

        Parameters
        ----------
        h : array_like, shape (..., C)
            Means of y.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> Bernoulli().var_mean(np.array([0.5]))
        array([0.25])
        """

    def residual(self, o: Any, y: Any) -> Any:
        """The residual y − ŷ.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.
        y : array_like, shape (..., C)
            Observations, encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> Bernoulli().residual(np.zeros(1), np.ones(1))
        array([0.5])
        """

    def score(self, o: Any, y: Any) -> Any:
        """The score ∂ log p(y | o)/∂o.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.
        y : array_like, shape (..., C)
            Observations, encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> from bongref.likelihoods import Gaussian
        >>> Gaussian(var=0.5).score(np.zeros(1), np.ones(1))      # R⁻¹(y − o)
        array([2.])
        """

    def info(self, o: Any) -> Any:
        """The Fisher information of o.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.

        Returns
        -------
        ndarray, shape (..., C, C)

        Examples
        --------
        >>> from bongref.likelihoods import Gaussian
        >>> Gaussian(var=0.5).info(np.zeros(1))
        array([[2.]])
        """

    def info_factor(self, o: Any) -> Any:
        """A factor B of the Fisher information of o, B Bᵀ.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.

        Returns
        -------
        ndarray, shape (..., C, C)

        Examples
        --------
        >>> from bongref.likelihoods import Gaussian
        >>> Gaussian(var=0.25).info_factor(np.zeros(1))
        array([[2.]])
        """

    def log_prob(self, o: Any, y: Any) -> Any:
        """The log-density log p(y | o).

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.
        y : array_like, shape (..., C)
            Observations, encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (...)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> round(float(Bernoulli().log_prob(np.zeros(1), np.ones(1))), 6)
        -0.693147
        """

    def log_prob_mean(self, h: Any, y: Any) -> Any:
        """The log-density log p(y) at the mean h.

        Parameters
        ----------
        h : array_like, shape (..., C)
            Means of y.
        y : array_like, shape (..., C)
            Observations, encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (...)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> round(float(Bernoulli().log_prob_mean(np.array([0.5]), np.ones(1))), 6)
        -0.693147
        """

    def prob_mean(self, h: Any, y: Any) -> Any:
        """The density p(y) at the mean h.

        Parameters
        ----------
        h : array_like, shape (..., C)
            Means of y.
        y : array_like, shape (..., C)
            Observations, encoded by :meth:`encode`.

        Returns
        -------
        ndarray, shape (...)

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> float(Bernoulli().prob_mean(np.array([0.25]), np.ones(1)))
        0.25
        """

    def sample(self, o: Any, rng: np.random.Generator) -> Array:
        """A draw of y for each output.

        Parameters
        ----------
        o : array_like, shape (..., C)
            Outputs of a model.
        rng : numpy.random.Generator or int
            A generator, which is advanced, or a seed.

        Returns
        -------
        ndarray, shape (..., C)

        Examples
        --------
        >>> from bongref.likelihoods import Poisson
        >>> Poisson().sample(np.zeros((4, 2)), np.random.default_rng(0)).shape
        (4, 2)
        """

    def check_outputs(self, n_outputs: int) -> int:
        """The number of outputs, if this likelihood can have so many.

        Parameters
        ----------
        n_outputs : int
            The number of outputs C.

        Returns
        -------
        int

        Raises
        ------
        InvalidValue
            If it cannot.

        Examples
        --------
        >>> from bongref.likelihoods import Bernoulli
        >>> Bernoulli().check_outputs(3)
        3
        """

    def encode(self, y: Any, n_outputs: int, batch: int | None = None) -> Array:
        """Observations as the other methods take them.

        Parameters
        ----------
        y : array_like, of any shape that the likelihood reads
            One observation, or N of them.
        n_outputs : int
            The number of outputs C.
        batch : int, optional
            N; without it ``y`` is one observation.

        Returns
        -------
        ndarray of float64, shape (C,) or (N, C)

        Raises
        ------
        InvalidValue, InvalidType
            If an entry is not a possible observation, or the shape is another one.

        Examples
        --------
        >>> from bongref.likelihoods import Categorical
        >>> Categorical().encode([2, 0], n_outputs=3, batch=2)
        array([[0., 0., 1.],
               [1., 0., 0.]])
        """


def documented(cls: Class) -> Class:
    """The class, its methods with the sections of the method of :class:`Likelihood` of that name.

    Parameters
    ----------
    cls : class
        A likelihood, each method of which says in one sentence what is its own.

    Returns
    -------
    class

    Examples
    --------
    >>> from bongref.likelihoods import Bernoulli
    >>> Bernoulli.mean.__doc__.splitlines()[2]
    'Parameters'
    """
    for name, f in vars(cls).items():
        shared = vars(Likelihood).get(name)
        if isinstance(f, types.FunctionType) and f.__doc__ and shared and shared.__doc__:
            sections = inspect.cleandoc(shared.__doc__).partition("\n\n")[2]
            f.__doc__ = f"{inspect.cleandoc(f.__doc__)}\n\n{sections}"
    return cls

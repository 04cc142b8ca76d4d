"""The protocol that every model follows.

>>> import bongref as br
>>> isinstance(br.models.linear(2), br.models.Model)
True
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Model(Protocol):
    """What an estimator, a stream and a predictive need from a model f(θ, x).

    ``linear``, ``mlp``, ``cnn`` and ``wrap`` make one; any object with these members is one too.

    Attributes
    ----------
    n_params : int
        P, the length of θ.
    n_outputs : int or None
        C, or None where only a call shows it.

    Examples
    --------
    >>> import bongref as br
    >>> isinstance(br.models.linear(2), Model)
    True
    """

    @property
    def n_params(self) -> int:
        """P."""

    @property
    def n_outputs(self) -> int | None:
        """C, or None where only a call shows it."""

    def __call__(self, theta: Any, x: Any) -> Any:
        """The outputs f(θ, x).

        Parameters
        ----------
        theta : ndarray, shape (P,)
        x : array_like, one input or a batch of N

        Returns
        -------
        ndarray, shape (C,) or (N, C)

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2)([1.0, 1.0], [3.0, 4.0])
        array([7.])
        """

    def jac(self, theta: Any, x: Any) -> Any:
        """The Jacobian ∂f/∂θ.

        Parameters
        ----------
        theta : ndarray, shape (P,)
        x : array_like, one input or a batch of N

        Returns
        -------
        ndarray, shape (C, P) or (N, C, P)

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2).jac([1.0, 2.0], [3.0, 4.0])
        array([[3., 4.]])
        """

    def vjp(self, theta: Any, x: Any, v: Any) -> Any:
        """The product vᵀ ∂f/∂θ, summed over a batch.

        Parameters
        ----------
        theta : ndarray, shape (P,)
        x : array_like, one input or a batch of N
        v : ndarray, shape (C,) or (N, C)

        Returns
        -------
        ndarray, shape (P,)

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2).vjp([1.0, 2.0], [3.0, 4.0], [10.0])
        array([30., 40.])
        """

    def is_batch(self, x: Any) -> bool:
        """Whether x is a batch of inputs.

        Parameters
        ----------
        x : array_like

        Returns
        -------
        bool

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2).is_batch([[3.0, 4.0]])
        True
        """

    def check(self, theta: Any = None, x: Any = None) -> tuple[Any, Any]:
        """θ and x as arrays of the right shapes, or an error that names the argument.

        Parameters
        ----------
        theta, x : array_like, optional
            What is to be checked; None stays None.

        Returns
        -------
        theta, x : ndarray or None

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2).check(theta=[1, 2])
        (array([1., 2.]), None)
        """

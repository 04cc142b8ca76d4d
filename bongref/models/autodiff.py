"""Derivatives of scalar functions of θ, by autograd in reverse mode.

>>> import autograd.numpy as np
>>> from bongref.models.autodiff import grad, hessian, hvp
>>> f = lambda theta: np.sum(theta**3)
>>> grad(f)(np.array([1.0, 2.0]))
array([ 3., 12.])
>>> hvp(f)(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
array([6., 0.])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import autograd.extend
import autograd.numpy as anp
import numpy as np
from autograd.core import make_vjp
from autograd.extend import vspace

from ..errors import InvalidType
from ..linalg import Array

Function = TypeVar("Function", bound=Callable[..., Any])
Scalar = Callable[[Any], Any]  # a function of θ with one number as its result


def primitive(f: Function) -> Function:
    """f as one operation of autograd, whose derivatives are given by ``defvjp`` and ``defjvp``."""
    out: Function = autograd.extend.primitive(f)
    return out


def grad(f: Scalar) -> Callable[[Any], Any]:
    r"""The gradient \(\nabla f\) of a scalar function.

    Parameters
    ----------
    f : callable
        A scalar function of θ, written with ``autograd.numpy``.

    Returns
    -------
    callable
        ``grad(f)(theta)`` is the gradient, shape (P,).

    Raises
    ------
    InvalidType
        When it is called, if the result of f is not one number.

    Examples
    --------
    >>> grad(lambda theta: theta[0] * theta[1])(np.array([2.0, 3.0]))
    array([3., 2.])
    """

    def gradient(theta: Any) -> Any:
        sweep, value = tape(f, theta)
        if vspace(value).size != 1:
            raise InvalidType(
                f"f must be a scalar function, got a result of shape {anp.shape(value)}"
            )
        return sweep(vspace(value).ones())

    return gradient


def hessian(f: Scalar) -> Callable[[Any], Array]:
    r"""The Hessian \(\nabla^2 f\), dense and symmetrised, by P reverse sweeps over the gradient.

    Parameters
    ----------
    f : callable
        A scalar function of θ, written with ``autograd.numpy``.

    Returns
    -------
    callable
        ``hessian(f)(theta)`` is the Hessian, shape (P, P).

    Examples
    --------
    >>> hessian(lambda theta: theta[0] * theta[1])(np.array([2.0, 3.0]))
    array([[0., 1.],
           [1., 0.]])
    """

    def dense(theta: Any) -> Array:
        sweep, _ = tape(grad(f), theta)
        H = np.stack([sweep(e) for e in np.eye(np.size(theta))])
        out: Array = 0.5 * (H + H.T)
        return out

    return dense


def hvp(f: Scalar) -> Callable[[Any, Any], Any]:
    r"""The product \(\nabla^2 f \, v\), by one reverse sweep over the gradient.

    Parameters
    ----------
    f : callable
        A scalar function of θ, written with ``autograd.numpy``.

    Returns
    -------
    callable
        ``hvp(f)(theta, v)`` is the product with v of shape (P,), shape (P,).

    Examples
    --------
    >>> hvp(lambda theta: theta[0] * theta[1])(np.array([2.0, 3.0]), np.array([1.0, 0.0]))
    array([0., 1.])
    """
    return lambda theta, v: tape(grad(f), theta)[0](v)


def tape(f: Callable[[Any], Any], theta: Any) -> tuple[Callable[[Any], Any], Any]:
    """The reverse sweep of f at theta and its value there.

    A function that does not depend on theta has gradient 0.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Output seems independent of input")
        sweep, value = make_vjp(f, theta)
        return sweep, value

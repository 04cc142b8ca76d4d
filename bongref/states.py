"""The three shapes of a Gaussian state q(θ). Arrays are float64 with P = len(mu).

>>> import numpy as np, bongref as br
>>> br.FC(mu=np.zeros(2), Sigma=np.eye(2)).Sigma.shape
(2, 2)
>>> br.method("bong-lin-hess-diag").prior(mu=np.zeros(2), var=0.25)
<Diag: P=2, mu in [0, 0], std in [0.5, 0.5]>
"""

from __future__ import annotations

from typing import NamedTuple

from .linalg import Array
from .show import state_html, state_text


class FC(NamedTuple):
    """Full covariance: N(mu, Sigma).

    Parameters
    ----------
    mu : ndarray, shape (P,)
        The mean.
    Sigma : ndarray, shape (P, P)
        The covariance, symmetric positive definite.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> br.sample(br.FC(np.zeros(2), np.eye(2)), 5, rng=0).shape
    (5, 2)
    """

    mu: Array  # (P,)
    Sigma: Array  # (P, P)

    def __repr__(self) -> str:
        """Family, P, and the ranges of means and standard deviations."""
        return state_text(self)

    def _repr_html_(self) -> str:
        return state_html(self)


class Diag(NamedTuple):
    """Diagonal covariance: N(mu, Diag(var)).

    Parameters
    ----------
    mu : ndarray, shape (P,)
        The mean.
    var : ndarray, shape (P,)
        The variances σ² (not standard deviations), all > 0.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> br.kl(br.Diag(np.ones(1), np.ones(1)), br.Diag(np.zeros(1), np.ones(1)))
    0.5
    """

    mu: Array  # (P,)
    var: Array  # (P,): variances σ², not standard deviations

    def __repr__(self) -> str:
        """Family, P, and the ranges of means and standard deviations."""
        return state_text(self)

    def _repr_html_(self) -> str:
        return state_html(self)


class DLR(NamedTuple):
    """Diagonal plus low-rank precision: N(mu, (Diag(Ups) + W Wᵀ)⁻¹).

    Parameters
    ----------
    mu : ndarray, shape (P,)
        The mean.
    Ups : ndarray, shape (P,)
        The diagonal of Υ.
    W : ndarray, shape (P, R)
        The low-rank factor of the precision, of rank R in 1 … P.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> from bongref.gaussians import covariance
    >>> covariance(br.DLR(np.zeros(2), np.ones(2), np.array([[1.0], [0.0]])))
    array([[0.5, 0. ],
           [0. , 1. ]])
    """

    mu: Array  # (P,)
    Ups: Array  # (P,): the diagonal of Υ
    W: Array  # (P, R)

    def __repr__(self) -> str:
        """Family, P, and the ranges of means and standard deviations."""
        return state_text(self)

    def _repr_html_(self) -> str:
        return state_html(self)


State = FC | Diag | DLR

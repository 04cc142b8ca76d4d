"""The network of a learner, and the moments of its outputs under a Gaussian of its parameters.

>>> import numpy as np, bongref as br
>>> model = network(2, (), 1, "gelu")
>>> q = br.Diag(np.zeros(3), np.ones(3))
>>> output_moments(model, q, np.array([[1.0, 2.0]]))
(array([[0.]]), array([[[6.]]]))
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from ..gaussians import covariance_times
from ..linalg import Array
from ..models import ParametricModel, linear, mlp
from ..states import FC, Diag, State

NUMBERS = 2**20  # of Jacobians that a prediction keeps at once: 8 MB


def network(n_in: int, hidden: Sequence[int], n_out: int, activation: str) -> ParametricModel:
    """An MLP, or a linear model with a bias where there is no hidden layer."""
    if len(hidden) == 0:
        return linear(n_in, n_out, bias=True)
    return mlp([n_in, *hidden, n_out], activation=activation)


def output_moments(model: ParametricModel, q: State, X: Array) -> tuple[Array, Array]:
    """Mean (N, C) and covariance J Σ Jᵀ (N, C, C) of the outputs linearised at the mean of q."""
    C, P = model.n_outputs or 1, model.n_params
    size = max(1, NUMBERS // (C * P))
    m, V = np.empty((len(X), C)), np.empty((len(X), C, C))
    for at in range(0, len(X), size):
        rows = slice(at, min(at + size, len(X)))
        m[rows], J = outputs_and_jacobians(model, q.mu, X[rows])
        flat = J.reshape(-1, P)
        SJ = times_covariance(q, flat).reshape(J.shape)
        V[rows] = np.einsum("ncp,ndp->ncd", J, SJ)
    return m, V


def outputs_and_jacobians(model: ParametricModel, mu: Array, X: Array) -> tuple[Array, Array]:
    """f(x_n, μ), (N, C), and ∂f/∂θ, (N, C, P), in compiled code where there is any."""
    try:
        from ..fast import Unavailable, predict
    except ImportError:
        return model(mu, X), model.jac(mu, X)
    try:
        found: tuple[Array, Array] = predict.jacobians_of(
            predict.network(model, model.n_outputs or 1), mu, X
        )
        return found
    except Unavailable:
        return model(mu, X), model.jac(mu, X)


def one_thread() -> contextlib.AbstractContextManager[None]:
    """BLAS with one thread, as in a compiled stream: on a busy machine its threads wait for each
    other.
    """
    try:
        from ..fast.threads import one_blas_thread
    except ImportError:
        return contextlib.nullcontext()
    return one_blas_thread()


def times_covariance(q: State, A: Array) -> Array:
    """A Σ."""
    if isinstance(q, FC):
        product: Array = A @ q.Sigma
        return product
    return A * q.var if isinstance(q, Diag) else covariance_times(q, A.T).T

"""What the adapters for JAX implementations share: the neutral models and likelihoods written in
jax.numpy, and conversions.

JAX runs in float64 here. ``precision("float32")`` switches to float32 for the calls inside it, for
the adapters that are named ...32.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError(f"the adapters for JAX implementations need jax: {error}") from error

import numpy as np

jax.config.update("jax_enable_x64", True)
if not hasattr(jax, "tree_map"):  # taken out of jax; the peers were written when it was there
    jax.tree_map = jax.tree_util.tree_map

Array = Any


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Calls inside run in that precision."""
    switch = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with switch(dtype == "float64"):
        yield


@contextlib.contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Attributes (object, name, value) for as long as the block lasts."""
    before = [(obj, name, getattr(obj, name)) for obj, name, _ in changes]
    try:
        for obj, name, value in changes:
            setattr(obj, name, value)
        yield
    finally:
        for obj, name, value in before:
            setattr(obj, name, value)


class Random:
    """Stands in for ``jax.random`` in a peer's module: a key is the number of the set of samples
    that it stands for.

    ``fold_in(key, i)`` is the i-th inner iteration of step ``key``, ``split(key, n)`` the n steps
    of a stream, ``split(key)`` twice the same key, and ``rademacher`` the columns of a Hadamard
    matrix: probes with which Hutchinson's diagonal is exact.
    """

    def __init__(self, n_iter: int = 1):
        self.n_iter = n_iter

    def fold_in(self, key, i):
        return key * self.n_iter + i

    def split(self, key, num=None):
        return jnp.arange(num) if num is not None else (key, key)

    def rademacher(self, key, shape, dtype=float):
        return hadamard(shape[-1])


def hadamard(P: int) -> Array:
    """(N, P), entries ±1 and VᵀV = N I, N the next power of two."""
    H = np.ones((1, 1))
    while len(H) < P:
        H = np.block([[H, H], [H, -H]])
    return jnp.asarray(H[:, :P])


# --- models ---------------------------------------------------------------------------------------


ACTIVATIONS: dict[str, Callable] = {
    "tanh": jnp.tanh,
    "relu": lambda z: jnp.where(z > 0, z, 0.0),
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "gelu_tanh": lambda z: jax.nn.gelu(z, approximate=True),
}


def outputs(model: dict[str, Any]) -> Callable:
    """f(theta, x) -> (C,) for one input x, for a batch the outputs of its rows one after the
    other.
    """
    one = _dense(model) if model["kind"] in ("linear", "mlp") else _cnn(model)
    shape = tuple(model["in_shape"])
    size = math.prod(shape)

    def f(theta, x):
        rows = jnp.reshape(x, (-1, *shape))
        return (
            one(theta, rows[0])
            if jnp.size(x) == size
            else jax.vmap(lambda row: one(theta, row))(rows).reshape(-1)
        )

    return f


def _arrays(model: dict[str, Any], theta) -> dict[str, Array]:
    return {p["name"]: theta[p["start"] : p["stop"]].reshape(p["shape"]) for p in model["layout"]}


def _dense(model: dict[str, Any]) -> Callable:
    n = len(model["sizes"]) - 1

    def f(theta, h):
        arrays = _arrays(model, theta)
        for i in range(n):
            h = arrays[f"W{i}"] @ h + arrays.get(f"b{i}", 0.0)
            h = ACTIVATIONS[model["activation"]](h) if i < n - 1 else h
        return h

    return f


def _cnn(model: dict[str, Any]) -> Callable:
    act, n = ACTIVATIONS[model["activation"]], len(model["features"])

    def f(theta, h):
        arrays = _arrays(model, theta)
        for i in range(n):
            K = arrays[f"K{i}"]
            pads = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in K.shape[:2]]
            z = jax.lax.conv_general_dilated(
                h[None], K, (1, 1), pads, dimension_numbers=("NHWC", "HWIO", "NHWC")
            )[0]
            z = act(z + arrays[f"b{i}"])
            r, c = z.shape[0] // 2, z.shape[1] // 2
            h = z[: 2 * r, : 2 * c].reshape(r, 2, c, 2, -1).mean(axis=(1, 3))
        h = act(arrays[f"W{n}"] @ h.reshape(-1) + arrays[f"b{n}"])
        return arrays[f"W{n + 1}"] @ h + arrays[f"b{n + 1}"]

    return f


# --- likelihoods ----------------------------------------------------------------------------------


class Likelihood(NamedTuple):
    """Of the outputs o of one input or of a batch, one after the other: the mean of y, its
    covariance, log p(y | o) without constants.
    """

    kind: str
    mean: Callable  # o -> (N,)
    cov: Callable  # o -> (N, N)
    log_prob: Callable  # o, y -> scalar


def likelihood(lik: dict[str, Any], C: int) -> Likelihood:
    kind = lik["kind"]
    if kind == "gaussian":
        R = jnp.atleast_2d(jnp.asarray(lik["R"], dtype=float))
        one = (lambda o: o, lambda o: R, lambda o, y: -0.5 * (y - o) @ jnp.linalg.solve(R, y - o))
    elif kind == "bernoulli":
        p = jax.nn.sigmoid
        one = (
            p,
            lambda o: jnp.diag(p(o) * p(-o)),
            lambda o, y: jnp.sum(y * jax.nn.log_sigmoid(o) + (1 - y) * jax.nn.log_sigmoid(-o)),
        )
    elif kind == "categorical":
        q = jax.nn.softmax
        one = (
            q,
            lambda o: jnp.diag(q(o)) - jnp.outer(q(o), q(o)),
            lambda o, y: jnp.sum(y * jax.nn.log_softmax(o)),
        )
    elif kind == "poisson":
        one = (jnp.exp, lambda o: jnp.diag(jnp.exp(o)), lambda o, y: jnp.sum(y * o - jnp.exp(o)))
    else:
        raise NotImplementedError(f"likelihood {kind!r}")
    mean, cov, log_prob = one

    def rows(o):
        return jnp.reshape(o, (-1, C))

    return Likelihood(
        kind,
        lambda o: jax.vmap(mean)(rows(o)).reshape(-1),
        lambda o: jax.scipy.linalg.block_diag(*(cov(r) for r in rows(o))),
        lambda o, y: sum(log_prob(r, v) for r, v in zip(rows(o), rows(y), strict=True)),
    )


# --- states ---------------------------------------------------------------------------------------


def array(a: Any) -> Array:
    return jnp.asarray(np.asarray(a, dtype=float), dtype=float)


def irregular(X: Any, Y: Any) -> bool:
    """Whether an observation of the stream is missing or its mini-batches are of unequal size, for
    which no scan has a place.
    """
    return any(y is None for y in Y) or len({np.shape(x) for x in X}) > 1


def plain(state: dict[str, Any]) -> dict[str, np.ndarray]:
    return {key: np.asarray(value, dtype=np.float64) for key, value in state.items()}


def decay(dynamics: dict[str, Any], P: int) -> tuple[float, np.ndarray] | None:
    """(gamma, Q) of dynamics θ' = γθ + noise of covariance Q, (P,) or (P, P); None if these are of
    another kind.
    """
    kind = dynamics["kind"]
    if kind == "static":
        return 1.0, np.zeros(P)
    if kind == "ou":
        gamma = float(dynamics["gamma"])
        if np.any(np.asarray(dynamics["mu0"])) and gamma != 1:
            return None
        return gamma, (1 - gamma**2) * np.broadcast_to(
            np.asarray(dynamics["var0"], dtype=float), (P,)
        )
    F, Q = np.asarray(dynamics["F"], dtype=float), np.asarray(dynamics["Q"], dtype=float)
    F = F if F.ndim == 2 else np.diag(np.broadcast_to(F, (P,)))
    gamma = float(F[0, 0])
    if np.any(gamma * np.eye(P) != F) or np.any(np.asarray(dynamics["b"])):
        return None
    return gamma, np.broadcast_to(Q, (P,)) if Q.ndim < 2 else Q

"""Outputs of a network over many inputs and samples, for predictives. Reference: predictive.plugin, mc and lin_mc.

    outputs(model, thetas (S, P), X)        (S, N, C): f(x_n, θ_s)
    linearised(model, mu, shifts (S, P), X) (N, C) and (S, N, C): f(x_n, μ), and J_n shift_s, without the N · C · P numbers of all J_n

Inputs are taken in chunks, which threads share; a chunk's buffers are all the memory that is used besides the result. Of a CNN only
the kernels' part of J is written; the dense layers are linearised forward, as products of matrices over a chunk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import nets, threads
from .jit import U, device, kernel
from .nets.conv import Conv, kernel_row, pull_head
from .nets.interface import forward, pullback
from .tuning import CHUNK, EVALUATION


@kernel
def forward_all(net, ints, v, words, thetas, X, out):
    """out (S, N, C) = f(x_n, θ_s)."""
    C = out.shape[2]
    for s in range(len(thetas)):
        for n in range(len(X)):
            forward(net, ints, v, words, thetas[s], X[n], net.size)
            out[s, n] = v[net.size : net.size + U(C)]


@device
def unit_cotangents(v, at, C):
    """v[at:] = the (C, C) identity."""
    for i in range(C * C):
        v[at + i] = 1.0 if i % (C + U(1)) == U(0) else 0.0


@kernel
def jacobians(net, ints, v, words, mu, X, o, J):
    """o (N, C) = f(x_n, μ) and J (N, C, P) = ∂f/∂θ."""
    C = U(o.shape[1])
    unit_cotangents(v, net.size + C, C)
    for n in range(len(X)):
        forward(net, ints, v, words, mu, X[n], net.size)
        o[n] = v[net.size : net.size + C]
        pullback(net, ints, v, words, mu, net.size + C, C, J[n])


@kernel
def kernel_jacobians(net, ints, v, words, mu, X, o, J, h):
    """The same of a CNN with the kernels' part of J alone; h (N, 2, ·): the inputs of the dense layers, and act' in them."""
    C, T, layers = U(o.shape[1]), net.total, ints[net.depth :, :3]
    unit_cotangents(v, net.size + C, C)
    for n in range(len(X)):
        forward(net, ints, v, words, mu, X[n], net.size)
        o[n] = v[net.size : net.size + C]
        for c in range(C):
            pull_head(net, layers, v, mu, net.size + C + c * C)
            kernel_row(net, ints, v, mu, J[n, c])
        h[n, 0] = v[net.head : net.head + T]
        h[n, 1] = v[net.head + T : net.head + T + T]


def outputs(model: Any, thetas: Any, X: Any) -> Any:
    """f(x_n, θ_s), (S, N, C)."""
    (net, ints), X = (
        nets.describe(model),
        np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=float),
    )
    thetas, out = (
        np.ascontiguousarray(thetas, dtype=float),
        np.empty((len(thetas), len(X), model.n_outputs)),
    )
    flat = out.reshape(-1, model.n_outputs)

    def some(k: int, part: slice) -> None:
        v, words = nets.workspace(net, model.n_outputs)
        if len(thetas) == 1:
            forward_all(net, ints, v, words, thetas, X[part], flat[None, part])
        else:
            forward_all(net, ints, v, words, thetas[part], X, out[part])

    count = len(X) if len(thetas) == 1 else len(thetas)
    threads.share(min(threads.available(), count), count, some)
    return out


def linearised(model: Any, mu: Any, shifts: Any, X: Any) -> tuple[Any, Any]:
    """f(x_n, μ), (N, C), and J_n shift_s, (S, N, C)."""
    (net, ints), X = (
        nets.describe(model),
        np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=float),
    )
    C, mu = model.n_outputs, np.ascontiguousarray(mu, dtype=float)
    o, moved = np.empty((len(X), C)), np.empty((len(shifts), len(X), C))
    one = _conv_chunk if isinstance(net, Conv) else _dense_chunk
    size = int(net.at) if isinstance(net, Conv) else model.n_params
    rows = max(1, CHUNK // (C * size))
    chunks = [slice(a, min(a + rows, len(X))) for a in range(0, len(X), rows)]

    def some(k: int, part: slice) -> None:
        v, words = nets.workspace(net, C + C * C)
        J = np.empty((rows, C, size))
        for chunk in chunks[part]:
            one(
                (net, ints, v, words),
                mu,
                shifts,
                X[chunk],
                o[chunk],
                J[: chunk.stop - chunk.start],
                moved[:, chunk],
            )

    with threads.one_blas_thread():
        threads.share(min(threads.available(), len(chunks)), len(chunks), some)
    return o, moved


def _dense_chunk(network: Any, mu: Any, shifts: Any, X: Any, o: Any, J: Any, moved: Any) -> None:
    jacobians(*network, mu, X, o, J)
    moved[:] = (shifts @ J.reshape(-1, J.shape[2]).T).reshape(moved.shape)


def _conv_chunk(network: Any, mu: Any, shifts: Any, X: Any, o: Any, J: Any, moved: Any) -> None:
    net, ints = network[:2]
    at, (n, m, C), first = int(net.at), (int(k) for k in ints[-2, :3]), int(ints[-1, 1])
    h = np.empty((len(X), 2, int(net.total)))
    kernel_jacobians(*network, mu, X, o, J, h)
    x, hidden, slope = h[:, 0, :n], h[:, 0, first : first + m], h[:, 1, first : first + m]
    second = at + m * (n + 1)
    W = mu[second : second + C * m].reshape(C, m)
    moved[:] = (shifts[:, :at] @ J.reshape(-1, at).T).reshape(moved.shape)
    for s, d in enumerate(shifts):
        inner = x @ d[at : at + m * n].reshape(m, n).T + d[at + m * n : second]
        outer = hidden @ d[second : second + C * m].reshape(C, m).T + d[second + C * m :]
        moved[s] += (slope * inner) @ W.T + outer


def values(kind: str, model: Any, lik: Any, mu: Any, thetas: Any, X: Any) -> Any:
    """The values of a Predictive, (S, N, C), of inputs X (N, ...) and samples θ (S, P); None where this is not worth a compilation."""
    if model.kind == "wrap":
        return None
    X = X if model.is_batch(X) else X[None]
    if len(X) * len(thetas) * model.n_params < EVALUATION:
        return None
    if kind in ("plugin", "mc"):
        return outputs(model, thetas, X)
    o, moved = linearised(model, mu, thetas - mu, X)
    return (
        lik.mean(o) + np.einsum("ncd,snd->snc", lik.jac_mean(o), moved)
        if kind == "lin_mc"
        else o + moved
    )  # eq:hbar, eq:fbar

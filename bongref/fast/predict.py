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
from .jit import kernel
from .nets.conv import Conv, kernel_row, pull_head
from .nets.interface import forward, pullback
from .tuning import CHUNK, EVALUATION


@kernel
def forward_all(net, work, thetas, X, out):
    """out (S, N, C) = f(x_n, θ_s)."""
    for s in range(len(thetas)):
        for n in range(len(X)):
            forward(net, thetas[s], X[n], work, out[s, n])


@kernel
def jacobians(net, work, mu, X, o, J):
    """o (N, C) = f(x_n, μ) and J (N, C, P) = ∂f/∂θ."""
    unit = np.eye(o.shape[1])
    for n in range(len(X)):
        forward(net, mu, X[n], work, o[n])
        pullback(net, mu, X[n], work, unit, J[n])


@kernel
def kernel_jacobians(net, work, mu, X, o, J, h, slopes):
    """The same of a CNN with the kernels' part of J alone; h and slopes (N, ·): the inputs of the dense layers, and act' in them."""
    unit = np.eye(o.shape[1])
    for n in range(len(X)):
        forward(net, mu, X[n], work, o[n])
        for c in range(len(unit)):
            pull_head(net, mu, work, unit[c])
            kernel_row(net, mu, work, work.flat, J[n, c])
        h[n] = work.head.values[: h.shape[1]]
        slopes[n] = work.head.values[h.shape[1] : 2 * h.shape[1]]


def outputs(model: Any, thetas: Any, X: Any) -> Any:
    """f(x_n, θ_s), (S, N, C)."""
    net, X = nets.describe(model), np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=float)
    thetas, out = np.ascontiguousarray(thetas, dtype=float), np.empty((len(thetas), len(X), model.n_outputs))
    flat = out.reshape(-1, model.n_outputs)

    def some(k: int, part: slice) -> None:
        work = nets.workspace(net)
        if len(thetas) == 1:
            forward_all(net, work, thetas, X[part], flat[None, part])
        else:
            forward_all(net, work, thetas[part], X, out[part])

    count = len(X) if len(thetas) == 1 else len(thetas)
    threads.share(min(threads.available(), count), count, some)
    return out


def linearised(model: Any, mu: Any, shifts: Any, X: Any) -> tuple[Any, Any]:
    """f(x_n, μ), (N, C), and J_n shift_s, (S, N, C)."""
    net, X = nets.describe(model), np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=float)
    C, mu = model.n_outputs, np.ascontiguousarray(mu, dtype=float)
    o, moved = np.empty((len(X), C)), np.empty((len(shifts), len(X), C))
    one = _conv_chunk if isinstance(net, Conv) else _dense_chunk
    size = int(net.at) if isinstance(net, Conv) else model.n_params
    rows = max(1, CHUNK // (C * size))
    chunks = [slice(a, min(a + rows, len(X))) for a in range(0, len(X), rows)]

    def some(k: int, part: slice) -> None:
        work, J = nets.workspace(net), np.empty((rows, C, size))
        for chunk in chunks[part]:
            one(net, work, mu, shifts, X[chunk], o[chunk], J[: chunk.stop - chunk.start], moved[:, chunk])

    with threads.one_blas_thread():
        threads.share(min(threads.available(), len(chunks)), len(chunks), some)
    return o, moved


def _dense_chunk(net: Any, work: Any, mu: Any, shifts: Any, X: Any, o: Any, J: Any, moved: Any) -> None:
    jacobians(net, work, mu, X, o, J)
    moved[:] = (shifts @ J.reshape(-1, J.shape[2]).T).reshape(moved.shape)


def _conv_chunk(net: Any, work: Any, mu: Any, shifts: Any, X: Any, o: Any, J: Any, moved: Any) -> None:
    at, (n, m, C) = int(net.at), (int(v) for v in net.head.layers[0])
    h, slopes = (np.empty((len(X), int(net.head.total))) for _ in range(2))
    kernel_jacobians(net, work, mu, X, o, J, h, slopes)
    first = int(net.head.layers[1, 1])
    x, hidden, slope = h[:, :n], h[:, first : first + m], slopes[:, first : first + m]
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
    return lik.mean(o) + np.einsum("ncd,snd->snc", lik.jac_mean(o), moved) if kind == "lin_mc" else o + moved  # eq:hbar, eq:fbar

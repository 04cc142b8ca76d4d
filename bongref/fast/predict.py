"""Outputs of a network over many inputs and samples. Reference: predictive.plugin, mc, lin_mc.

    outputs(model, thetas (S, P), X)         (S, N, C): f(x_n, θ_s)
    linearised(model, mu, shifts (S, P), X)  (N, C) and (S, N, C): f(x_n, μ), and J_n shift_s

Inputs are taken in chunks, which threads share; a chunk's buffers are all the memory that is used
besides the result. Of a CNN only the kernels' part of J is written; the dense layers are linearised
forward, as products of matrices over a chunk.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from . import nets, threads
from .jit import U, device, kernel
from .nets.conv import Conv, block_forward, block_kernels, kernel_rows, pull_head
from .nets.interface import forward, pullback
from .small import copy
from .tuning import CHUNK, EVALUATION


@kernel
def forward_all(net, ints, v, theta, placed, X, out):
    """out (N, C) = f(x_n, θ)."""
    for n in range(len(X)):
        forward(net, ints, v, theta, X[n], net.size)
        copy(v[net.size :], out[n])


@kernel
def forward_blocks(net, ints, v, theta, placed, X, out):
    """The same of a CNN; placed: a buffer for its kernels, (4 (kh + 1)(kw + 1) Σ c_in c_out,)."""
    block_kernels(net, ints, theta, placed)
    for n in range(len(X)):
        block_forward(net, ints, v, theta, placed, X[n], net.size)
        copy(v[net.size :], out[n])


@device
def unit_cotangents(v, at, C):
    """v[at:] = the (C, C) identity."""
    for i in range(C * C):
        v[at + i] = 1.0 if i % (C + U(1)) == U(0) else 0.0


@kernel
def jacobians(net, ints, v, mu, X, o, J):
    """o (N, C) = f(x_n, μ) and J (N, C, P) = ∂f/∂θ."""
    C = U(o.shape[1])
    unit_cotangents(v, net.size + C, C)
    for n in range(len(X)):
        forward(net, ints, v, mu, X[n], net.size)
        copy(v[net.size :], o[n])
        pullback(net, ints, v, mu, net.size + C, C, J[n])


@kernel
def kernel_jacobians(net, ints, v, mu, X, o, J, h):
    """The same of a CNN, of J the kernels' part; h (N, 2, ·): inputs of dense layers, and act'."""
    C, T, layers = U(o.shape[1]), net.total, ints[net.depth :, :3]
    unit_cotangents(v, net.size + C, C)
    for n in range(len(X)):
        forward(net, ints, v, mu, X[n], net.size)
        copy(v[net.size :], o[n])
        for c in range(C):
            pull_head(net, layers, v, mu, net.size + C + c * C, c)
        kernel_rows(net, ints, v, mu, C, J[n])
        copy(v[net.head :], h[n, 0])
        copy(v[net.head + T :], h[n, 1])


def network(model: Any, C: int) -> tuple[Any, ...]:
    """A network and a workspace for its Jacobian."""
    net, ints = nets.describe(model)
    return (net, ints, nets.workspace(net, C + C * C)), C, model.n_params


def jacobians_of(network: Any, mu: Any, X: Any) -> tuple[Any, Any]:
    """f(x_n, μ), (N, C), and ∂f/∂θ, (N, C, P)."""
    parts, C, P = network
    X = np.require(np.reshape(X, (len(X), -1)), float, "CW")
    o, J = np.empty((len(X), C)), np.empty((len(X), C, P))
    jacobians(*parts, mu, X, o, J)
    return o, J


def outputs(model: Any, thetas: Any, X: Any) -> Any:
    """f(x_n, θ_s), (S, N, C)."""
    net, ints = nets.describe(model)
    X = np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=float)
    thetas = np.ascontiguousarray(thetas, dtype=float)
    (S, N), C, conv = (len(thetas), len(X)), model.n_outputs, isinstance(net, Conv)
    out = np.empty((S, N, C))
    size = 16 * int(net.at) if conv else 0  # (kh + 1)(kw + 1) <= 4 kh kw

    def some(k: int, part: slice) -> None:
        v = nets.workspace(net, C)
        placed, run = np.empty(size), forward_blocks if conv else forward_all
        for s in range(S) if S == 1 else range(S)[part]:
            where = part if S == 1 else slice(N)
            run(net, ints, v, thetas[s], placed, X[where], out[s, where])

    count = N if S == 1 else S
    with threads.one_blas_thread():
        threads.share(min(threads.available(), count), count, some)
    return out


def linearised(model: Any, mu: Any, shifts: Any, X: Any) -> tuple[Any, Any]:
    """f(x_n, μ), (N, C), and J_n shift_s, (S, N, C)."""
    net, ints = nets.describe(model)
    X = np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=float)
    C, mu = model.n_outputs, np.ascontiguousarray(mu, dtype=float)
    o, moved = np.empty((len(X), C)), np.empty((len(X), len(shifts), C))
    conv = isinstance(net, Conv)
    size = int(net.at) if conv else model.n_params
    rows = max(1, min(CHUNK // (C * size), -(-len(X) // threads.available())))
    chunks = [slice(a, min(a + rows, len(X))) for a in range(0, len(X), rows)]
    first = np.ascontiguousarray(shifts[:, :size].T)
    head = _head(net, ints, mu, shifts) if conv else ()

    def some(k: int, part: slice) -> None:
        network = (net, ints, nets.workspace(net, C + C * C))
        J = np.empty((rows, C, size))
        for chunk in chunks[part]:
            here, there = J[: chunk.stop - chunk.start], moved[chunk]
            if conv:
                h = np.empty((len(here), 2, int(net.total)))
                kernel_jacobians(*network, mu, X[chunk], o[chunk], here, h)
                there[:] = _through_head(h, *head)
            else:
                jacobians(*network, mu, X[chunk], o[chunk], here)
                there[:] = 0.0
            there += (here.reshape(-1, size) @ first).reshape(len(here), C, -1).swapaxes(1, 2)

    with threads.one_blas_thread():
        threads.share(min(threads.available(), len(chunks)), len(chunks), some)
    return o, np.ascontiguousarray(moved.swapaxes(0, 1))


def _head(net: Any, ints: Any, mu: Any, shifts: Any) -> tuple[Any, ...]:
    """The place of the hidden layer in h; shifts of W and b of both dense layers; the second W."""
    at, (n, m, C), S = int(net.at), (int(k) for k in ints[-2, :3]), len(shifts)
    ends = np.cumsum([at, m * n, m, C * m])
    W1, b1, W2 = (shifts[:, a:b] for a, b in pairwise(ends))
    inner, outer = (W1.reshape(S * m, n).T, b1), (W2.reshape(S * C, m).T, shifts[:, ends[3] :])
    return int(ints[-1, 1]), inner, outer, mu[ends[2] : ends[3]].reshape(C, m)


def _through_head(h: Any, first: int, inner: Any, outer: Any, W: Any) -> Any:
    """(N, S, C): the change of the outputs by the shifts of the dense layers."""
    (n, Sm), (m, SC), C, N = inner[0].shape, outer[0].shape, len(W), len(h)
    hidden, slopes = h[:, 0, first : first + m], h[:, 1, first : first + m]
    change = (h[:, 0, :n] @ inner[0]).reshape(N, Sm // m, m) + inner[1]
    last = (hidden @ outer[0]).reshape(N, SC // C, C) + outer[1]
    return change @ (slopes[:, None] * W).swapaxes(1, 2) + last


def values(kinds: Any, model: Any, lik: Any, mu: Any, thetas: Any, X: Any) -> dict[str, Any]:
    """Values of predictives, (S, N, C) by kind, of samples θ (S, P); none for small problems."""
    found: dict[str, Any] = {}
    X = X if model.is_batch(X) else X[None]
    S = 1 if thetas is None else len(thetas)
    if model.kind == "wrap" or len(X) * S * model.n_params < EVALUATION:
        return found
    if "mc" in kinds:
        found["mc"] = outputs(model, thetas, X)
    if "lin_mc" in kinds or "lin_mc_f" in kinds:
        o, moved = linearised(model, mu, thetas - mu, X)
        found["plugin"] = o[None]
        if "lin_mc_f" in kinds:
            found["lin_mc_f"] = o + moved  # eq:fbar
        if "lin_mc" in kinds:
            change = np.einsum("ncd,snd->snc", lik.jac_mean(o), moved)
            found["lin_mc"] = lik.mean(o) + change  # eq:hbar
    elif "plugin" in kinds:
        found["plugin"] = outputs(model, mu[None], X)
    return found

"""The cells of the benchmark: their names, parameters, networks, data, and a small model of what
each costs.

A cell is ``RULE-HESS-FAMILY@NETWORK``, for example ``bong-lin-hess-diag@mlp``. Only numpy is
imported here, so that the process of a peer, whose Python may not have bongref, makes the same
networks and data.

The cost model counts what one observation needs at least: bytes to and from the state,
floating-point operations in matrix products, normal random numbers, and small eigenproblems. It is
a model of the cheapest form that we know to be accurate, not of the code; README.md has it as a
table. Divided by the limits of the machine (limits.py) it says how far from them a cell is, and
which of them is the nearest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

RULES = ("bong", "blr", "bog", "bbb")
HESSIANS = ("lin-hess", "lin-ef", "mc-ef")
FAMILIES = ("fc", "fc_mom", "diag", "diag_mom", "dlr")
N_ITER, N_SAMPLES, RANK = 10, 100, 10
# a full covariance is changed by columns where a whole inner loop has at most P/FEW of them, as in
# bongref.methods
FEW = 4
NOISE = 1.0  # the variance of the Gaussian likelihood
# (prior variance, alpha) to try in this order, until neither side loses positive definiteness
TRIES = {
    "bong": ((0.01, None), (0.001, None), (1e-4, None)),
    "blr": ((0.01, 0.1), (0.001, 0.1), (1e-4, 0.01)),
    "bog": ((0.01, 1e-5), (0.01, 1e-6), (0.01, 1e-8)),
    "bbb": ((0.01, 1e-5), (0.01, 1e-6), (0.01, 1e-8)),
}


class Net(NamedTuple):
    """A network by its sizes: kernels of dense layers (n_out, n_in), of convolutions (h, w,
    c_in, c_out).
    """

    name: str
    kernels: tuple[tuple[int, ...], ...]
    in_shape: tuple[int, ...]
    classes: int  # 0: one real output with a Gaussian likelihood

    @property
    def n_params(self) -> int:
        return sum(math.prod(k) + (k[-1] if len(k) == 4 else k[0]) for k in self.kernels)

    @property
    def n_outputs(self) -> int:
        return self.classes or self.kernels[-1][0]


def mlp(*sizes: int) -> Net:
    return Net("mlp", tuple((m, n) for n, m in pairwise(sizes)), (sizes[0],), 0)


NETS = {
    "mlp": mlp(21, 20, 20, 1),
    "cnn": Net("cnn", ((5, 5, 1, 16), (5, 5, 16, 16), (64, 784), (10, 64)), (28, 28, 1), 10),
}


class Cell(NamedTuple):
    rule: str
    hess: str
    family: str
    net: str

    @property
    def method(self) -> str:
        return f"{self.rule}-{self.hess}-{self.family}"

    @property
    def id(self) -> str:
        return f"{self.method}@{self.net}"


def parse(text: str) -> Cell:
    """The cell of that name."""
    method, at, net = text.partition("@")
    rule, _, rest = method.partition("-")
    hess, _, family = rest.rpartition("-")
    if (
        not at
        or rule not in RULES
        or hess not in HESSIANS
        or family not in FAMILIES
        or net not in NETS
    ):
        raise ValueError(
            f"cell must be RULE-HESS-FAMILY@NETWORK, e.g. 'bong-lin-hess-diag@mlp', got {text!r}"
        )
    return Cell(rule, hess, family, net)


def grid() -> list[Cell]:
    """All cells: 60 on the MLP, 36 on the CNN, where a full covariance does not fit."""
    return [
        Cell(rule, hess, family, net)
        for net, families in (("mlp", FAMILIES), ("cnn", FAMILIES[2:]))
        for family in families
        for hess in HESSIANS
        for rule in RULES
    ]


def select(globs: Iterable[str]) -> list[Cell]:
    """The cells whose name matches one of the globs; a glob that matches none is a ValueError."""
    chosen = set()
    for glob in globs:
        found = {cell for cell in grid() if fnmatchcase(cell.id, glob)}
        if not found:
            raise ValueError(
                f"--cells {glob!r} matches none of the {len(grid())} cells; they are named "
                f"like bong-lin-hess-diag@mlp"
            )
        chosen |= found
    return [cell for cell in grid() if cell in chosen]


def params(cell: Cell, alpha: float | None) -> dict[str, Any]:
    """The parameters that the method takes."""
    out: dict[str, Any] = {}
    if cell.rule != "bong":
        out["alpha"] = alpha
    if cell.rule in ("blr", "bbb"):
        out["n_iter"] = N_ITER
    if cell.hess == "mc-ef":
        out["n_samples"] = N_SAMPLES
    if cell.family == "dlr":
        out["rank"] = RANK
    return out


# --- networks and data ----------------------------------------------------------------------------


def layers(net: Net, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """(kernel, bias) of each layer, normal with variance 1/n_in, biases normal with variance
    0.01.
    """
    rng = np.random.default_rng(seed)
    out = []
    for shape in net.kernels:
        fan_in = math.prod(shape[:3]) if len(shape) == 4 else shape[1]
        n_out = shape[-1] if len(shape) == 4 else shape[0]
        out.append(
            (rng.standard_normal(shape) / math.sqrt(fan_in), 0.1 * rng.standard_normal(n_out))
        )
    return out


def theta(net: Net) -> np.ndarray:
    """The parameters as bongref orders them: of each layer the kernel, then the bias."""
    return np.concatenate([part for kernel, bias in layers(net) for part in (kernel.ravel(), bias)])


def theta_flax(net: Net) -> np.ndarray:
    """The same parameters as ravel_pytree orders those of flax: of each layer the bias, then the
    kernel, (n_in, n_out) if dense.
    """
    parts = [(bias, kernel if kernel.ndim == 4 else kernel.T) for kernel, bias in layers(net)]
    return np.concatenate([part.ravel() for pair in parts for part in pair])


def data(net: Net, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n observations: normal inputs, normal or one-hot outputs. The first ones are the same
    whatever n is.
    """
    size = math.prod(net.in_shape)
    rows = np.random.default_rng(1).standard_normal((n, size + 1))
    X, u = rows[:, :size], rows[:, size:]
    if not net.classes:
        return np.ascontiguousarray(X), np.ascontiguousarray(u)
    labels = np.abs(u[:, 0] * 1e4).astype(int) % net.classes
    return np.ascontiguousarray(X).reshape(n, *net.in_shape), np.eye(net.classes)[labels]


# --- what an observation costs --------------------------------------------------------------------


class Cost(NamedTuple):
    """What one observation needs at least."""

    bytes: float  # to and from the state, the gradients and the samples
    flops: float  # in matrix products, factorisations and the network
    normals: float  # normal random numbers
    eigh: tuple[int, int]  # symmetric eigenproblems: (how many, their size)
    # bytes that are touched again at every observation: they decide which bandwidth counts
    working_set: float


def network_flops(net: Net) -> tuple[float, float]:
    """Operations of one forward pass and of one backward pass: 2 for each product; no input
    gradient at the first layer.
    """
    h, w = (net.in_shape[0], net.in_shape[1]) if len(net.in_shape) == 3 else (1, 1)
    macs = []
    for k in net.kernels:
        macs.append(math.prod(k) * (h * w if len(k) == 4 else 1))
        h, w = h // 2, w // 2
    return 2.0 * sum(macs), 2.0 * (2 * sum(macs) - macs[0])


def cost(cell: Cell, net: Net | None = None) -> Cost:
    """The cost model; README.md explains each term."""
    net = NETS[cell.net] if net is None else net
    P, C, R, M = net.n_params, net.n_outputs, RANK, N_SAMPLES
    n_iter = N_ITER if cell.rule in ("blr", "bbb") else 1
    mc = cell.hess == "mc-ef"
    K = {"lin-hess": C, "lin-ef": 1, "mc-ef": M}[cell.hess]
    forward, backward = network_flops(net)
    flops = M * (forward + backward) if mc else forward + K * backward
    rows = (
        16.0 * K * P * (2 if mc else 1)
    )  # the gradients, and the samples, are written once and read once
    state, traffic, step, eigh = FAMILY_COSTS[cell.family](cell.rule, P, K, R, mc)
    return Cost(
        bytes=n_iter * (rows + traffic),
        flops=n_iter * (flops + step),
        normals=float(n_iter * M * P if mc else 0),
        eigh=(n_iter if eigh else 0, eigh),
        working_set=state + rows / 2,
    )


def _diag(rule: str, P: int, K: int, R: int, mc: bool) -> tuple[float, float, float, int]:
    """(bytes of the state, bytes moved, operations, size of the eigenproblem) of one iteration:
    μ and σ² are read and written.
    """
    prior = 16.0 * P if rule in ("blr", "bbb") else 0.0
    return 16.0 * P + prior, 32.0 * P + prior, 0.0, 0


def _dlr(rule: str, P: int, K: int, R: int, mc: bool) -> tuple[float, float, float, int]:
    """bong and blr: two Gram matrices of the L columns of W̃, L²P each, and their rotation,
    2L²P; an eigenproblem of size L.
    """
    columns = R * (2 if rule in ("blr", "bbb") else 1)
    traffic = 8.0 * P * (2 * (2 + R) + (columns - R))
    draw = (
        2.0 * R * R * P + 4.0 * R * K * P if mc else 0.0
    )  # a root of the covariance, and M products with it
    if rule in ("bong", "blr"):
        L = columns + K
        return 8.0 * P * (2 + columns), traffic, 4.0 * L * L * P + draw, L
    products = (
        4 if rule == "bbb" else 1
    )  # with P × R matrices: the Gram matrix, for bbb also with the prior's and back
    return 8.0 * P * (2 + columns), traffic, products * 2.0 * R * R * P + 8.0 * R * K * P + draw, 0


def _fc(
    rule: str, P: int, K: int, R: int, mc: bool, inverses: int = 5
) -> tuple[float, float, float, int]:
    """One triangle of Σ is read; products with it and the update of a triangle take 3 P² for each
    column that is new.

    Where the columns of a whole inner loop are not few beside P, that is a Cholesky factor and the
    inverse, P³, and for bbb products.
    """
    draw = P**3 / 3 + float(K) * P * P if mc else 0.0
    few = FEW * K * (N_ITER if rule in ("blr", "bbb") else 1) <= P
    columns = K + (2 if rule in ("bog", "bbb") else 0)
    dense = K * P * P + (inverses if rule == "bbb" else 1) * float(P) ** 3
    return 8.0 * P * P, 4.0 * P * P, (min(3.0 * columns * P * P, dense) if few else dense) + draw, 0


def _fc_mom(rule: str, P: int, K: int, R: int, mc: bool) -> tuple[float, float, float, int]:
    """As _fc, but bong and bog never have to invert, and an iteration of bbb inverts once."""
    state, traffic, step, eigh = _fc(rule, P, K, R, mc, inverses=1)
    if rule in ("bong", "bog"):
        draw = P**3 / 3 + float(K) * P * P if mc else 0.0
        step = (3.0 if rule == "bong" else 1.0) * K * P * P + draw
    return state, traffic, step, eigh


FAMILY_COSTS = {"fc": _fc, "fc_mom": _fc_mom, "diag": _diag, "diag_mom": _diag, "dlr": _dlr}


def bound(cost: Cost, limits: dict[str, Any]) -> dict[str, Any]:
    """The microseconds that each kind of work takes at the machine's limit, the one that takes
    longest, and their sum.
    """
    place = next(
        (p for p in ("L2", "L3") if cost.working_set <= limits["bandwidth"][p]["bytes"]), "memory"
    )
    count, size = cost.eigh
    times = {
        f"{place} bandwidth": cost.bytes / limits["bandwidth"][place]["GB/s"] / 1e3,
        "GEMM": cost.flops / limits["dgemm GFLOP/s"]["1 thread"] / 1e3,
        "normal variates": cost.normals * limits["normals ns"] / 1e3,
        f"eigenproblem {size}": count * eigh_time(size, limits["eigh us"]) if count else 0.0,
    }
    name = max(times, key=lambda key: times[key])
    return {"kernel": name, "us": times[name], "sum us": sum(times.values()), "all": times}


def eigh_time(size: int, table: dict[str, float]) -> float:
    """Microseconds of an eigenproblem of that size, from the nearest measured one by the cube of
    the size.
    """
    near = min(table, key=lambda n: abs(math.log(int(n) / size)))
    return table[near] * (size / int(near)) ** (0 if int(near) == size else 3)

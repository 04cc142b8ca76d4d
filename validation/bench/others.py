"""Other implementations, each in the cells that it covers: ``python -m validation.bench.others
NUMBER`` answers as worker.py says.

The number is that of one of WAYS, in a Python that has the package. The adapters in
validation/peers say how each is called for its numbers; here it is called so that it takes the
least time. All start from our parameters in our order and see the same data.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import cells, limits, worker

Run = Callable[[], tuple[np.ndarray, float]]  # the mean after a stream, and the seconds it took
Build = Callable[
    [int], tuple[Run, float]
]  # a stream of n observations, and the seconds of compiling it
GAUSSIAN = {"kind": "gaussian", "R": [[cells.NOISE]]}


class Problem(NamedTuple):
    """What a cell gives to a peer: the cell, its network as the adapters describe one, the prior
    and the data.
    """

    cell: cells.Cell
    model: dict[str, Any]
    prior: dict[str, np.ndarray]
    X: np.ndarray
    Y: np.ndarray


class Way(NamedTuple):
    """A cell, as a package computes it."""

    peer: str
    cell: str
    called: str
    dtype: str
    make: Callable[[Problem], Build]
    packages: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.peer, self.cell, self.called


def neutral(net: cells.Net) -> dict[str, Any]:
    """The network as validation/peers describes one, with the parameters in the order of
    :func:`cells.theta`.
    """
    layout, start = [], 0
    for i, k in enumerate(net.kernels):
        for name, shape in (
            (f"{'K' if len(k) == 4 else 'W'}{i}", k),
            (f"b{i}", (k[-1] if len(k) == 4 else k[0],)),
        ):
            stop = start + math.prod(shape)
            layout.append({"name": name, "shape": list(shape), "start": start, "stop": stop})
            start = stop
    out = {"layout": layout, "in_shape": list(net.in_shape), "n_outputs": net.n_outputs}
    if net.classes:
        return out | {
            "kind": "cnn",
            "activation": "relu",
            "features": [k[-1] for k in net.kernels if len(k) == 4],
        }
    return out | {
        "kind": "mlp",
        "activation": "gelu",
        "sizes": [net.kernels[0][1], *(k[0] for k in net.kernels)],
    }


def prior(cell: cells.Cell, net: cells.Net, var: float) -> dict[str, np.ndarray]:
    """N(θ, var I) in the family's parameters."""
    mu, P = cells.theta(net), net.n_params
    if cell.family in ("fc", "fc_mom"):
        return {"mu": mu, "Sigma": var * np.eye(P)}
    if cell.family in ("diag", "diag_mom"):
        return {"mu": mu, "var": np.full(P, var)}
    return {"mu": mu, "Ups": np.full(P, 1 / var), "W": np.zeros((P, cells.RANK))}


# --- the packages ---------------------------------------------------------------------------------


def jitted(stream: Callable[[Any, Any, Any], tuple[Any, Any]], state: Any, X: Any, Y: Any) -> Build:
    """A function (state, X, Y) -> (mean, anything else that has to be computed), compiled ahead
    of time for each length.
    """
    import jax

    def build(n: int) -> tuple[Run, float]:
        given = state, X[:n], Y[:n]
        start = time.perf_counter()
        compiled = jax.jit(stream).lower(*given).compile()
        compiling = time.perf_counter() - start

        def run() -> tuple[np.ndarray, float]:
            start = time.perf_counter()
            mean, _ = jax.block_until_ready(compiled(*given))
            return np.asarray(mean, dtype=float), time.perf_counter() - start

        return run, compiling

    return build


def dynamax_ekf(p: Problem) -> Build:
    """Its extended Kalman filter with θ as the state; of the outputs that it can stack, the
    means alone.
    """
    from ..peers import peer_dynamax as peer

    single()
    jnp, (h, R) = peer.jnp, peer.emission(p.model, GAUSSIAN)
    X, Y = peer.stacked(p.model, p.X, p.Y, len(p.X))
    Q = jnp.zeros_like(jnp.asarray(p.prior["Sigma"]))

    def stream(state: Any, X: Any, Y: Any) -> tuple[Any, Any]:
        params = peer.ParamsNLGSSM(*state, lambda theta, u: theta, Q, h, R(state[0], X[0]))
        out = peer.ekf.extended_kalman_filter(params, Y, inputs=X, output_fields=["filtered_means"])
        return out.filtered_means[-1], out.marginal_loglik

    return jitted(stream, (jnp.asarray(p.prior["mu"]), jnp.asarray(p.prior["Sigma"])), X, Y)


def rebayes_scan(p: Problem) -> Build:
    """The scan of its agent for the family."""
    from ..peers import peer_rebayes as peer

    single()
    adapter, jnp = peer.Exact(), peer.jnp
    lik = {"kind": "categorical"} if p.model["kind"] == "cnn" else GAUSSIAN
    agent = adapter._agent(p.cell.family, *adapter._emission(p.model, lik), cells.RANK)

    def stream(bel: Any, X: Any, Y: Any) -> tuple[Any, Any]:
        last, _ = agent.scan(None, None, X, Y, bel=bel)
        return last.mean, last

    return jitted(
        stream, peer.to_peer(p.cell.family, p.prior, agent), jnp.asarray(p.X), jnp.asarray(p.Y)
    )


def single() -> None:
    """JAX in its default float32, which the adapters change when they are imported."""
    import jax

    jax.config.update("jax_enable_x64", False)


def filterpy_ekf(p: Problem, predict: bool) -> Build:
    """Its extended Kalman filter; ŷ and H, which it takes from its user, are made before the
    clock starts.
    """
    from ..peers import peer_filterpy as peer

    R = np.array(GAUSSIAN["R"])

    def build(n: int) -> tuple[Run, float]:
        def run() -> tuple[np.ndarray, float]:
            kf, seconds = peer.Adapter().make(p.prior, 1), 0.0
            kf.Q = np.zeros_like(kf.P)
            for x, y in zip(p.X[:n], p.Y[:n], strict=True):
                yhat, H = linearised(p.model, kf.x, x)
                start = time.perf_counter()
                if predict:
                    kf.predict()
                kf.update(y, HJacobian=lambda theta, H=H: H, Hx=lambda theta, yhat=yhat: yhat, R=R)
                seconds += time.perf_counter() - start
            return np.array(kf.x), seconds

        return run, 0.0

    return build


def linearised(
    model: dict[str, Any], theta: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The output (1,) of an MLP with exact gelu, and its gradient (1, P), in numpy."""
    from scipy.special import ndtr

    parts = [theta[b["start"] : b["stop"]].reshape(b["shape"]) for b in model["layout"]]
    W, b = parts[::2], parts[1::2]
    h, z = [x], [W[0] @ x + b[0]]
    for Wi, bi in zip(W[1:], b[1:], strict=True):
        h.append(z[-1] * ndtr(z[-1]))
        z.append(Wi @ h[-1] + bi)
    delta, rows = np.ones(1), []
    for i in reversed(range(len(W))):
        rows += [delta, np.outer(delta, h[i]).ravel()]
        if i:
            slope = ndtr(z[i - 1]) + z[i - 1] * np.exp(-(z[i - 1] ** 2) / 2) / math.sqrt(
                2 * math.pi
            )
            delta = slope * (W[i].T @ delta)
    return z[-1], np.concatenate(rows[::-1])[None]


def filterpy_update(p: Problem) -> Build:
    return filterpy_ekf(p, False)


def filterpy_both(p: Problem) -> Build:
    return filterpy_ekf(p, True)


def posteriors_diag(p: Problem) -> Build:
    """Its diagonal EKF with the empirical Fisher, in place, one observation at a time; torch's
    threads or one, whichever is faster.
    """
    from ..peers import peer_posteriors as peer

    torch, f = peer.torch, peer.network(p.model)
    threads = torch.get_num_threads()
    mu, X, Y = (torch.tensor(a, dtype=torch.float32) for a in (p.prior["mu"], p.X, p.Y))

    def log_lik(theta: Any, batch: Any) -> tuple[Any, Any]:
        o, y = f(theta, batch[0]), batch[1]
        if p.model["kind"] == "cnn":
            return torch.sum(y * torch.log_softmax(o, dim=-1), dim=-1), o
        return -0.5 * torch.sum((y - o) ** 2, dim=-1) / cells.NOISE, o

    ekf = peer.posteriors.ekf.diag_fisher.build(
        log_lik, 1.0, 0.0, True, float(np.sqrt(p.prior["var"][0]))
    )

    def build(n: int) -> tuple[Run, float]:
        def run() -> tuple[np.ndarray, float]:
            state = ekf.init(mu.clone())
            start = time.perf_counter()
            for i in range(n):
                state, _ = ekf.update(state, (X[i : i + 1], Y[i : i + 1]), inplace=True)
            seconds = time.perf_counter() - start
            return state.params.numpy().astype(float), seconds

        def with_threads(count: int) -> float:
            torch.set_num_threads(count)
            return min(run()[1] for _ in range(3))

        torch.set_num_threads(min((threads, 1), key=with_threads))
        return run, 0.0

    return build


JAX = ("jax", "jaxlib")
EKF, GIVEN = "ExtendedKalmanFilter", "H and ŷ are given to it and not timed"
REBAYES = {
    "fc": 'RebayesEKF("fcekf")',
    "fc_mom": 'RebayesEKF("fcekf", inverse_free)',
    "diag_mom": 'RebayesEKF("vdekf", inverse_free)',
    "dlr": "RebayesLoFiDiagonal",
}
FC, DIAG = "bong-lin-hess-fc@mlp", "bong-lin-ef-diag"
WAYS = (
    Way(
        "dynamax",
        FC,
        "extended_kalman_filter, jit; only the means are stacked",
        "float32",
        dynamax_ekf,
        ("dynamax", *JAX),
    ),
    Way(
        "filterpy", FC, f"{EKF}.update; {GIVEN}", "float64", filterpy_update, ("filterpy", "numpy")
    ),
    Way(
        "filterpy",
        FC,
        f"{EKF}.predict and .update; {GIVEN}",
        "float64",
        filterpy_both,
        ("filterpy", "numpy"),
    ),
    *(
        Way(
            "posteriors",
            f"{DIAG}@{net}",
            "ekf.diag_fisher, per sample, in place",
            "float32",
            posteriors_diag,
            ("posteriors", "torch"),
        )
        for net in cells.NETS
    ),
    *(
        Way(
            "rebayes",
            f"bong-lin-hess-{family}@mlp",
            f"{agent}.scan, jit",
            "float32",
            rebayes_scan,
            ("flax", *JAX),
        )
        for family, agent in REBAYES.items()
    ),
    Way(
        "rebayes",
        "bong-lin-hess-diag_mom@cnn",
        f"{REBAYES['diag_mom']}.scan, jit",
        "float32",
        rebayes_scan,
        ("flax", *JAX),
    ),
)


# --- the worker -----------------------------------------------------------------------------------


class Other:
    """The side of one way."""

    def __init__(self, way: Way):
        self.way = way

    def hello(self) -> dict[str, Any]:
        """Versions; ImportError where the package is not there."""
        return {
            "versions": {
                "python": platform.python_version(),
                **imported(self.way),
                **limits.versions(*self.way.packages),
            }
        }

    def prepare(
        self, cell: str, var: float, alpha: float | None, target: float, most: int
    ) -> dict[str, Any]:
        one = cells.parse(cell)
        net = cells.NETS[one.net]
        build = self.way.make(
            Problem(one, neutral(net), prior(one, net, var), *cells.data(net, most))
        )
        run, compiling = build(1)
        self.first, _ = run()
        self.n = min(
            2, most
        )  # a compiler may leave out what a single observation does for the next one
        for _ in range(4):  # each length is compiled anew
            self.run, compiling = build(self.n)
            mean, _ = self.run()
            seconds = self.run()[1]
            n = worker.how_many(seconds / self.n, target, min(most, 100 * self.n))
            if seconds > target / 2 or n <= self.n:
                break
            self.n = n
        return {
            "n": self.n,
            "compile s": compiling,
            "moved": float(np.linalg.norm(self.first - cells.theta(net))),
            "finite": bool(np.all(np.isfinite(mean))),
        }

    def mean(self) -> dict[str, Any]:
        return {"mean": self.first.tolist()}

    def time(self) -> dict[str, Any]:
        start = time.perf_counter()
        seconds = self.run()[1]
        return {"seconds": seconds, "whole": time.perf_counter() - start}


def imported(way: Way) -> dict[str, str]:
    """The adapter's own version of its peer, which a checkout has too."""
    import importlib

    module = importlib.import_module(f"validation.peers.peer_{way.peer}")
    return {way.peer: str(getattr(module, "VERSION", None) or module.Adapter.version)}


# --- in the process that asks ---------------------------------------------------------------------


def difference(way: Way, mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """How far apart the means after one observation are, over the distance from the prior's;
    whether that is rounding in its dtype.
    """
    if "mean" not in mine or "mean" not in theirs:
        return {}
    ours, peer, prior = (
        np.asarray(mine["mean"]),
        np.asarray(theirs["mean"]),
        cells.theta(cells.NETS[cells.parse(way.cell).net]),
    )
    moved, eps = float(np.linalg.norm(ours - prior)), float(np.finfo(way.dtype).eps)
    apart = float(np.linalg.norm(peer - ours))
    return {
        "difference": apart / moved,
        "agrees": bool(apart <= eps * (np.linalg.norm(prior) + 64 * moved)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("number", type=int)
    worker.serve(lambda: Other(WAYS[parser.parse_args().number]))

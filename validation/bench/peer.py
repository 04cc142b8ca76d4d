"""The authors' side, petergchang/bong: ``python -m validation.bench.peer --bong CHECKOUT`` in a
Python with jax answers as worker.py says.

Their agents, networks, emission functions, likelihoods and scan are used as they are, in float32
(jax's default) or, with ``--dtype float64``, in float64. Two things make it as fast as it can be:
an outer ``jax.jit`` around their scan, which compiles anew at each call otherwise, and a transform
that returns nothing, without which the scan stacks every state. Nothing of bongref is imported.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

from ..peers import version
from . import cells, limits, worker

FAMILIES = {
    "fc": "fg",
    "fc_mom": "fg_reparam",
    "diag": "dg",
    "diag_mom": "dg_reparam",
    "dlr": "dlrg",
}


def load(checkout: str) -> dict[str, Any]:
    """The peer's modules. It was written when jax had tree_map; what its scripts import to load
    data is not needed.
    """
    import jax

    jax.tree_map = jax.tree_util.tree_map
    if not Path(checkout, "bong").is_dir():
        raise ImportError("--bong: there is no folder 'bong' in that checkout")
    sys.path[:0] = [checkout, str(Path(checkout, "bong", "experiments_parallel"))]
    sys.modules["bong.src.dataloaders"] = types.ModuleType("bong.src.dataloaders")
    importlib.import_module("bong.src").dataloaders = sys.modules["bong.src.dataloaders"]
    names = {
        "util": "bong.util",
        "regression": "bong.experiments.models",
        "classification": "bong.experiments.mnist_clf",
    }
    return {
        key: importlib.import_module(name)
        for key, name in {**names, **{r: f"bong.src.{r}" for r in cells.RULES}}.items()
    }


def emission(modules: dict[str, Any], net: cells.Net, lin: bool, dtype: str) -> dict[str, Any]:
    """Mean, covariance and log-likelihood as their experiments make them, with our initial
    parameters.
    """
    import jax.numpy as jnp

    x = jnp.zeros(net.in_shape)
    if net.classes:
        made, _ = modules["classification"].initialize_model(0, None, x, "cnn")
        softmax = made.pop("em_linpi_function")
        if lin:
            made["emission_mean_function"] = softmax
    else:
        sizes = tuple(k[0] for k in net.kernels)
        _, made = modules["regression"].initialize_mlp_model_reg(0, sizes, x, 1.0, cells.NOISE)
        made = {
            key: value
            for key, value in made.items()
            if key not in ("nparams", "true_pred_fn", "init_cov")
        }
    theta = jnp.asarray(cells.theta_flax(net), dtype=dtype)
    assert theta.shape == made["init_mean"].shape
    return {**made, "init_mean": theta}


class Peer:
    def __init__(self, checkout: str, dtype: str):
        start = time.perf_counter()
        import jax

        jax.config.update("jax_enable_x64", dtype == "float64")
        self.modules, self.dtype = load(checkout), dtype
        self.import_seconds = time.perf_counter() - start

    def hello(self) -> dict[str, Any]:
        commit = version(importlib.import_module("bong"))
        found = limits.versions("jax", "jaxlib", "flax", "numpy")
        return {
            "versions": {"petergchang/bong": commit, "python": platform.python_version(), **found},
            "import s": self.import_seconds,
            "dtype": self.dtype,
        }

    def agent(self, cell: cells.Cell, var: float, alpha: float | None) -> Any:
        given = cells.params(cell, alpha)
        names = {
            "alpha": "learning_rate",
            "n_iter": "num_iter",
            "n_samples": "num_samples",
            "rank": "rank",
        }
        lin = cell.hess.startswith("lin")
        return getattr(self.modules[cell.rule], f"{FAMILIES[cell.family]}_{cell.rule}")(
            init_cov=var,
            linplugin=lin,
            empirical_fisher=cell.hess.endswith("ef"),
            **{names[key]: value for key, value in given.items()},
            **emission(self.modules, cells.NETS[cell.net], lin, self.dtype),
        )

    def compile(self, n: int) -> float:
        """Compile the scan for a stream of n observations; the seconds it took."""
        import jax

        agent, scan = self.current, self.modules["util"].run_rebayes_algorithm
        nothing = lambda key, agent, state, x, y: None
        self.stream = (
            jax.random.PRNGKey(0),
            agent.init(),
            *(jax.numpy.asarray(a[:n], dtype=self.dtype) for a in self.data),
        )
        run = jax.jit(
            lambda key, state, X, Y: scan(key, agent, X, Y, init_state=state, transform=nothing)[0]
        )
        start = time.perf_counter()
        self.compiled, self.n = run.lower(*self.stream).compile(), n
        self.compiling = time.perf_counter() - start
        return self.compiling

    def run(self) -> tuple[Any, float]:
        """(last state, seconds) of the stream."""
        import jax

        start = time.perf_counter()
        state = jax.block_until_ready(self.compiled(*self.stream))
        return state, time.perf_counter() - start

    def load(self, cell: str, var: float, alpha: float | None, most: int) -> dict[str, Any]:
        """Compile for one observation."""
        import jax

        self.current = self.compiled = self.stream = None
        jax.clear_caches()
        one = cells.parse(cell)
        self.data, self.current = cells.data(cells.NETS[one.net], most), self.agent(one, var, alpha)
        return {"compile s": self.compile(1)}

    def once(self) -> dict[str, Any]:
        """Take one observation."""
        self.first = self.run()
        return {"seconds": self.first[1]}

    def prepare(
        self, cell: str, var: float, alpha: float | None, target: float, most: int
    ) -> dict[str, Any]:
        """After :meth:`load` and :meth:`once`: how many observations a repeat has."""
        (first, once), compiling = self.first, self.compiling
        moved = float(
            np.linalg.norm(
                np.asarray(first.mean, dtype=float) - np.asarray(self.stream[1].mean, dtype=float)
            )
        )
        seconds = self.run()[1] if once < 1 else once
        state = first
        for _ in range(
            3
            # each length is compiled anew; the first guesses are too small where a call has a fixed
            # cost
        ):
            if (
                self.n >= most
                or seconds > target / 2
                or (n := worker.how_many(seconds / self.n, target, min(most, 100 * self.n)))
                == self.n
            ):
                break
            compiling = self.compile(n)
            state, _ = self.run()
            seconds = self.run()[1]
        return {
            "n": self.n,
            "compile s": compiling,
            "moved": moved,
            "finite": bool(np.all(np.isfinite(np.asarray(state.mean)))),
        }

    def time(self) -> dict[str, Any]:
        seconds = self.run()[1]
        return {"seconds": seconds, "whole": seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bong", required=True)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    args = parser.parse_args()
    worker.serve(lambda: Peer(args.bong, args.dtype))

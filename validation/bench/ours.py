"""Our side: ``python -m validation.bench.ours --backend fast`` answers as worker.py says.

A repeat is one call of ``br.run`` on a stream of n observations, after a warm-up. "seconds" is the
time that the compiled stream itself reports (``res.info.seconds``, without the checks of the
inputs); that of the whole call is "whole".
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from . import cells, limits, worker

MODELS = {"mlp": ("mlp", "gelu"), "cnn": ("cnn", "relu")}


def build(
    cell: cells.Cell, net: cells.Net, var: float, alpha: float | None, n: int
) -> tuple[Any, ...]:
    """(method, model, likelihood, prior, X, Y) of a cell."""
    import bongref as br

    m = br.method(cell.method, **cells.params(cell, alpha))
    if net.name == "cnn":
        model, lik = br.models.cnn(), br.likelihoods.Categorical()
    else:
        sizes = [net.kernels[0][1], *(k[0] for k in net.kernels)]
        model, lik = (
            br.models.mlp(sizes, activation="gelu"),
            br.likelihoods.Gaussian(var=cells.NOISE),
        )
    X, Y = cells.data(net, n)
    return m, model, lik, m.prior(mu=cells.theta(net), var=var), X, Y


class Ours:
    def __init__(self, backend: str):
        self.backend, self.args = backend, None

    def hello(self) -> dict[str, Any]:
        return {"versions": limits.versions("numpy", "scipy", "numba")}

    def run(self, n: int) -> tuple[Any, float, float]:
        """(result, seconds of the stream, seconds of the call) of a stream of n observations."""
        import bongref as br

        m, model, lik, prior, X, Y = self.args
        start = time.perf_counter()
        res = br.run(
            m,
            model,
            lik,
            prior,
            X[:n],
            Y[:n],
            rng=np.random.default_rng(2),
            backend=self.backend,
            progress=False,
        )
        whole = time.perf_counter() - start
        return res, res.info.seconds, whole

    def prepare(
        self, cell: str, var: float, alpha: float | None, target: float, most: int
    ) -> dict[str, Any]:
        import bongref as br

        self.args = None
        one = cells.parse(cell)
        self.args = build(one, cells.NETS[one.net], var, alpha, most)
        prior = self.args[3]
        try:
            first, _, warm_up = self.run(1)
            self.first = first.state.mu
            moved = float(np.linalg.norm(self.first - prior.mu))
            self.n, seconds = 1, self.run(1)[1]
            while (
                self.n < most and seconds < target / 2
            ):  # a fixed cost makes the first guesses too small
                self.n = worker.how_many(seconds / self.n, target, min(most, 30 * self.n))
                res, seconds, _ = self.run(self.n)
        except (br.NotPositiveDefinite, FloatingPointError) as error:
            return {"lost": worker.short(error)}
        res = self.run(self.n)[0]
        return {
            "n": self.n,
            "compile s": max(0.0, warm_up - seconds / self.n),
            "moved": moved,
            "finite": bool(np.all(np.isfinite(res.state.mu))),
            "backend": res.info.backend,
            "clock": "stream",
        }

    def mean(self) -> dict[str, Any]:
        return {"mean": self.first.tolist()}

    def time(self) -> dict[str, Any]:
        _, seconds, whole = self.run(self.n)
        return {"seconds": seconds, "whole": whole}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="fast")
    worker.serve(lambda: Ours(parser.parse_args().backend))

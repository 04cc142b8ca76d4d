"""The pictures of docs/looking.md:  python docs/make_looking.py

Four PNGs in docs/figures: metrics over steps, a predictive band, calibration, ellipses.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import numpy as np
from matplotlib import pyplot

import bongref as br

FIGURES = Path(__file__).parent / "figures"


def wave(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A sine with noise of standard deviation 0.2, and a gap without data."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-2, 0, n // 2), rng.uniform(1, 2, n - n // 2)])
    x = rng.permutation(x)
    return x[:, None], np.sin(2 * x) + 0.2 * rng.standard_normal(n)


def metrics_and_band() -> None:
    X, Y = wave()
    model, lik = br.models.mlp([1, 12, 1], activation="tanh"), br.likelihoods.Gaussian(var=0.04)
    theta = model.init(np.random.default_rng(1))
    test = br.metrics.on(X[200:], Y[200:], "rmse", "nlpd-lin_mc")
    runs = {}
    for name in ("bong-lin-hess-fc", "bong-lin-hess-dlr"):
        m = br.method(name, **({"rank": 4} if name.endswith("dlr") else {}))
        prior = m.prior(mu=theta, var=0.3)
        runs[name] = br.run(m, model, lik, prior, X[:200], Y[:200], every=20, metrics=test,
                            backend="reference", progress=False)  # fmt: skip
    br.plot.metrics(runs)
    save("metrics")
    br.plot.band(model, lik, runs["bong-lin-hess-fc"].state, X[:200], Y[:200])
    save("band")
    ax = pyplot.subplots(1, 2, figsize=(9, 4.2), layout="constrained")[1]
    p = br.predictive.lin_mc(model, lik, runs["bong-lin-hess-fc"].state, X[200:], rng=0)
    br.plot.calibration(p, Y[200:], ax=ax[0]).set_title("regression")
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((900, 2))
    label = (rng.random(900) < 1 / (1 + np.exp(-2 * Z[:, 0] * Z[:, 1]))).astype(int)
    net, coin = br.models.mlp([2, 10, 1], activation="tanh"), br.likelihoods.Bernoulli()
    m = br.method("bong-lin-hess-fc")
    prior = m.prior(mu=net.init(rng), var=1.0)
    state = br.run(m, net, coin, prior, Z[:500], label[:500], backend="reference", progress=False)
    p = br.predictive.mc(net, coin, state.state, Z[500:], rng=0)
    br.plot.calibration(p, label[500:], ax=ax[1]).set_title("two classes")
    save("calibration")


def ellipses() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 1)) * np.array([1.0, 1.0]) + 0.3 * rng.standard_normal((30, 2))
    Y = X @ np.array([1.0, -0.5]) + 0.5 * rng.standard_normal(30)
    model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=0.25)
    states = {}
    for name in ("bong-lin-hess-fc", "bong-lin-hess-diag", "bong-lin-hess-dlr"):
        m = br.method(name, **({"rank": 1} if name.endswith("dlr") else {}))
        prior = m.prior(mu=np.zeros(2), var=1.0)
        states.setdefault("prior", prior)
        states[name] = br.run(m, model, lik, prior, X, Y, backend="reference", progress=False).state
    br.plot.ellipse(states)
    save("ellipse")


def save(name: str) -> None:
    pyplot.savefig(FIGURES / f"looking-{name}.png", dpi=80)
    pyplot.close("all")


if __name__ == "__main__":
    metrics_and_band()
    ellipses()

"""docs/figures/stream.png, the picture of the README:  python docs/make_readme_figure.py"""

from pathlib import Path

import matplotlib
import numpy as np

import bongref as br

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).parent / "figures" / "stream.png"
BLUE, GREY, INK = "#1f6fb4", "#8a8f98", "#22262c"
STEPS = (5, 20, 400)


def draw() -> None:
    """The predictive distribution of the README's stream after 5, 20 and 400 observations."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(400, 1))
    Y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(400)
    model = br.models.mlp([1, 12, 1], activation="tanh")
    lik = br.likelihoods.Gaussian(var=0.01)
    m = br.method("bong-lin-hess-fc")
    prior = m.prior(mu=model.init(rng), var=1.0)
    grid = np.linspace(-2.6, 2.6, 200)[:, None]
    plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.edgecolor": GREY})
    figure, axes = plt.subplots(1, len(STEPS), figsize=(9, 2.7), sharey=True, layout="constrained")
    for axis, t in zip(axes, STEPS, strict=True):
        state = br.run(m, model, lik, prior, X[:t], Y[:t]).state
        p = br.predictive.lin_mc(model, lik, state, grid, n_samples=2000, rng=1)
        mean, std = p.mean[:, 0], np.sqrt(p.var[:, 0])
        axis.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.18, lw=0)
        axis.plot(grid[:, 0], np.sin(2 * grid[:, 0]), color=GREY, lw=1, ls="--")
        axis.plot(grid[:, 0], mean, color=BLUE, lw=1.8)
        axis.plot(X[:t, 0], Y[:t], "o", color=INK, ms=2.6, alpha=0.55, mew=0)
        axis.set(title=f"after {t} observations", xlabel="x", ylim=(-3, 3), xlim=(-2.6, 2.6))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("y")
    figure.savefig(OUT, dpi=130)


if __name__ == "__main__":
    draw()
    print(OUT)

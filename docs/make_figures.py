"""The figures that the README and the site share:  python docs/make_figures.py [NAME ...]

``step``: what one BONG step does. ``methods``: the grid of methods as a map. ``conformance``: what
other implementations get. All are made from the library and from validation/results/.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bongref as br
from bongref import gaussians, grid
from bongref.guide.explain import explain

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Patch

OUT = Path(__file__).parent / "figures"
RESULTS = Path(__file__).resolve().parents[1] / "validation" / "results"
# Okabe and Ito's colours: the colour-blind can tell them apart
BLUE, ORANGE, GREEN, PURPLE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"
GREY, INK, PALE = "#8a8f98", "#22262c", "#e8eaed"


def _contour(
    axis: Any, mu: Any, Sigma: Any, color: str, style: str = "-", width: float = 2
) -> None:
    """The ellipses of one and two standard deviations."""
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.linalg.cholesky(Sigma) @ np.array([np.cos(angle), np.sin(angle)])
    for k, alpha in ((1, 1.0), (2, 0.45)):
        axis.plot(mu[0] + k * circle[0], mu[1] + k * circle[1], style, color=color, lw=width,
                  alpha=alpha)  # fmt: skip
    axis.plot(*mu, "o", color=color, ms=5)


def exact_posterior(prior: Any, x: Any, y: float) -> tuple[Any, Any, Any]:
    """Mean, covariance and density on a grid of a logistic posterior with two parameters."""
    a = np.linspace(-4.2, 5.2, 400)
    T = np.stack(np.meshgrid(a, a), axis=-1)
    d = T - prior.mu
    logp = -0.5 * np.einsum("...i,ij,...j", d, np.linalg.inv(prior.Sigma), d)
    logp += -np.log1p(np.exp(-(2 * y - 1) * (T @ x)))
    w = np.exp(logp - logp.max())
    w /= w.sum()
    mean = np.einsum("ij,ijk->k", w, T)
    c = T - mean
    return mean, np.einsum("ij,ijk,ijl->kl", w, c, c), (a, w)


def step() -> None:
    """Prior, likelihood, the natural-gradient step and the exact posterior, in two panels."""
    x, y = np.array([1.4, 1.0]), 1.0
    prior = br.FC(mu=np.array([-0.6, -0.4]), Sigma=np.array([[1.5, 0.5], [0.5, 1.0]]))
    model, lik = br.models.linear(2), br.likelihoods.Bernoulli()
    rng = np.random.default_rng(0)
    m = br.method("bong-mc-hess-fc", n_samples=20_000)
    state, _ = br.update(m, model, lik, prior, x, y, rng=rng)
    mean, cov, (a, w) = exact_posterior(prior, x, y)
    kl = gaussians.kl(br.FC(mean, cov), state)
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.6), sharex=True, sharey=True,
                                layout="constrained")  # fmt: skip
    A, B = np.meshgrid(a, a)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
    like = 1 / (1 + np.exp(-(x[0] * A + x[1] * B)))
    for axis in axes:
        axis.contourf(A, B, like, levels=np.linspace(0, 1, 6), cmap="Greys", alpha=0.28)
        axis.set(xlabel=r"$\theta_1$", aspect="equal", xlim=(-3.4, 3.4), ylim=(-2.9, 2.9))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(r"$\theta_2$")
    _contour(axes[0], prior.mu, prior.Sigma, BLUE)
    axes[0].annotate("", xy=state.mu, xytext=prior.mu,
                     arrowprops={"arrowstyle": "-|>", "color": ORANGE, "lw": 2.4})  # fmt: skip
    axes[0].text(
        state.mu[0] + 0.3,
        state.mu[1] - 1.5,
        "one natural-\ngradient step",
        color=ORANGE,
        weight="bold",
        va="bottom",
        bbox=box,
    )
    axes[0].text(-3.2, 2.45, "prior", color=BLUE, weight="bold", bbox=box)
    axes[0].text(3.2, -2.7, "darker: more likely", color=INK, ha="right", bbox=box)
    axes[0].set_title("An observation arrives: y = 1 at x")
    _contour(axes[1], prior.mu, prior.Sigma, BLUE, ":", 1.2)
    density = w / w.max()
    axes[1].contour(A, B, density, levels=[np.exp(-2), np.exp(-0.5)], colors=[GREEN], linewidths=2,
                    linestyles="--")  # fmt: skip
    axes[1].plot(*mean, "D", color=GREEN, ms=5)
    _contour(axes[1], state.mu, state.Sigma, ORANGE)
    axes[1].text(-3.2, 2.45, "BONG's posterior", color=ORANGE, weight="bold", bbox=box)
    axes[1].text(-3.2, 2.1, "exact posterior", color=GREEN, weight="bold", bbox=box)
    axes[1].text(-3.2, 1.75, "prior", color=BLUE, bbox=box)
    axes[1].set_title(f"One step later (KL from the exact moments {kl:.4f})")
    figure.savefig(OUT / "step.png", dpi=120)


def methods() -> None:
    """Rules and estimators down, families across; the colour says how the cost grows with P."""
    rows = [f"{r}-{h}" for r in grid.RULES for h in grid.HESSIANS]
    figure, axis = plt.subplots(figsize=(9.4, 6.6), layout="constrained")
    colours = {1: SKY, 2: "#f0c75e", 3: "#e08a5a"}
    for i, row in enumerate(rows):
        for j, family in enumerate(grid.FAMILIES):
            name = f"{row}-{family}"
            d = explain(name).data
            if not d["derived"]:
                axis.add_patch(
                    plt.Rectangle((j, i), 1, 1, fc="white", ec=GREY, hatch="////", lw=0.5)
                )
                axis.text(j + 0.5, i + 0.5, "not derived", ha="center", va="center", fontsize=8,
                          bbox={"fc": "white", "ec": "none", "pad": 1})  # fmt: skip
                continue
            stated = d["cost"]["stated"]
            power = 3 if "P^3" in stated else 2 if "P^2" in stated else 1
            axis.add_patch(plt.Rectangle((j, i), 1, 1, fc=colours[power], ec="white", lw=1.5))
            same = [n["name"] for n in d["other names"] if n["same"]]
            text = re.sub(r"\^([23]) ?", lambda k: " ²³"[int(k[1]) - 1], stated) + (
                f"  = {same[0]}" if same else ""
            )
            text += "" if d["keeps positive definiteness"] else "  ○"
            axis.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=8.2, color=INK,
                      weight="bold" if same else "normal")  # fmt: skip
    axis.set(xlim=(0, 5), ylim=(len(rows), 0), xticks=np.arange(5) + 0.5,
             yticks=np.arange(len(rows)) + 0.5)  # fmt: skip
    axis.set_xticklabels(grid.FAMILIES)
    axis.set_yticklabels(rows)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for k in range(1, 4):
        axis.axhline(4 * k, color=INK, lw=1.2)
    axis.spines[:].set_visible(False)
    patches = [
        Patch(fc=colours[p], label=f"cost grows as P{s}") for p, s in ((1, ""), (2, "²"), (3, "³"))
    ]
    patches.append(Patch(fc="white", ec=GREY, hatch="////", label="the paper derives none"))
    axis.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=4,
                frameon=False, title="○ positive definiteness can be lost",
                title_fontsize=9)  # fmt: skip
    figure.savefig(OUT / "methods.png", dpi=110)


def conformance() -> None:
    """For each other implementation and family: how many of the offered methods agree."""
    from validation.peers import page

    findings = page.load_findings()
    peers = [json.loads(p.read_text()) for p in sorted(RESULTS.glob("peer-*.json"))]
    tables = {p["title"]: page._methods(p, findings) for p in peers}
    titles = sorted(tables, key=lambda t: -len(tables[t][0]))
    figure, axis = plt.subplots(figsize=(9.4, 4.0), layout="constrained")
    colours = matplotlib.colormaps["cividis"]
    for i, title in enumerate(titles):
        for j, family in enumerate(grid.FAMILIES):
            offered, bad = ([m for m in ms if m.split("-")[-1] == family] for ms in tables[title])
            n, good = len(offered), len(offered) - len(bad)
            fc = colours(good / n) if n else PALE
            axis.add_patch(plt.Rectangle((j, i), 1, 1, fc=fc, ec="white", lw=2))
            text = f"{good} of {n}" if n else "not offered"
            ink = "white" if n and good / n < 0.55 else INK if n else "#5c626b"
            axis.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=9.5, color=ink)
    axis.set(xlim=(0, 5), ylim=(len(titles), 0), xticks=np.arange(5) + 0.5,
             yticks=np.arange(len(titles)) + 0.5)  # fmt: skip
    axis.set_xticklabels(grid.FAMILIES)
    axis.set_yticklabels(titles)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    scale = matplotlib.cm.ScalarMappable(cmap=colours)
    figure.colorbar(scale, ax=axis, label="share of the offered methods\nthat agree in all cases",
                    shrink=0.9)  # fmt: skip
    figure.savefig(OUT / "conformance.png", dpi=110)


FIGURES = {"step": step, "methods": methods, "conformance": conformance}

if __name__ == "__main__":
    plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.edgecolor": GREY})
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
        print(OUT / f"{name}.png")

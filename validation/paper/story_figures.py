"""The figures of docs/story.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .conclusions import PAPERS_RATES, SARCOS, of_study
from .evidence import Run, matching, value

COLOURS = {"bong": "#1b6ca8", "blr": "#d1731f", "bog": "#3c8c40", "bbb": "#9c3d8f"}


def write(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw every figure that the results have data for."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    made = []
    drawings = {"story-rates": _rates, "story-kl": _kl, "story-ranks": _ranks}
    with plt.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        for name, draw in drawings.items():
            figure = draw(runs, plt)
            if figure is not None:
                path = folder / f"{name}.png"
                figure.savefig(path, dpi=120, bbox_inches="tight", metadata={"Software": None})
                plt.close(figure)
                made.append(path)
    return made


def _rates(runs: Sequence[Run], plt: Any) -> Any:
    """Final NLPD against the learning rate; crosses on the upper edge are runs that diverged."""
    own = matching(of_study(runs, "c"), task=SARCOS, part="test", folder=SARCOS, w0="random")
    if not own:
        return None
    figure, axes = plt.subplots(2, 2, figsize=(7.2, 5.6), sharex=True)
    for row, hess in zip(axes, ("lin-hess", "mc-ef"), strict=True):
        top = 1.2 if hess == "lin-hess" else 8.0
        for ax, n_iter in zip(row, (1, 10), strict=True):
            bong = [
                value(r, "nlpd-plugin")
                for r in matching(own, method=f"bong-{hess}-dlr", folder=SARCOS)
            ]
            ax.axhline(np.mean(bong), color=COLOURS["bong"], lw=1.5, label="bong")
            for shift, rule in enumerate(("blr", "bog", "bbb")):
                _rule(ax, own, rule, hess, n_iter, top, 0.94 + 0.06 * shift)
            ax.set_xscale("log")
            ax.set_ylim(0, top * 1.06)
            ax.set_title(f"{hess}, I = {n_iter}", fontsize=9)
    axes[0, 0].legend(frameon=False, loc="center right")
    for ax in axes[:, 0]:
        ax.set_ylabel("NLPD (plugin)")
    for ax in axes[1]:
        ax.set_xlabel("learning rate α")
    figure.suptitle("SARCOS-4449 after 2,000 observations; × diverged", fontsize=10)
    return figure


def _rule(
    ax: Any, own: list[Run], rule: str, hess: str, n_iter: int, top: float, shift: float
) -> None:
    name, points = f"{rule}-{hess}-dlr", []
    for alpha in (*PAPERS_RATES, 1.0):
        how = {} if rule == "bog" else {"n_iter": n_iter}
        values = np.array(
            [value(r, "nlpd-plugin") for r in matching(own, method=name, alpha=alpha, **how)]
        )
        fine = values[np.isfinite(values)]
        if len(fine):
            spread = np.std(fine, ddof=1) / math.sqrt(len(fine)) if len(fine) > 1 else 0.0
            points.append((alpha * shift, min(np.mean(fine), top), spread))
        if len(fine) < len(values):
            ax.plot(alpha * shift, top, "x", color=COLOURS[rule], ms=4 + len(values) - len(fine))
    if points:
        x, y, error = np.array(points).T
        ax.errorbar(x, y, error, fmt="o-", ms=3, lw=1, color=COLOURS[rule], label=rule)
    else:
        ax.plot([], [], "x", color=COLOURS[rule], label=rule)


def _kl(runs: Sequence[Run], plt: Any) -> Any:
    """KL to the exact posterior against t, full covariance."""
    own = matching(of_study(runs, "e"), part="test")
    if not own:
        return None
    last = sorted({r["study"] for r in own})[0]  # "e-full" before "e-reduced"
    own = matching(own, study=last)
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), sharey=True)
    for ax, family in zip(axes, ("fc", "diag"), strict=True):
        for rule, how in (
            ("bong", {}),
            ("blr", {"alpha": 0.1, "n_iter": 10}),
            ("bog", {"alpha": 0.001}),
            ("bbb", {"alpha": 0.001, "n_iter": 10}),
        ):
            for hess, style in (("lin-hess", "-"), ("mc-ef", "--")):
                these = [
                    r
                    for r in matching(own, method=f"{rule}-{hess}-{family}", **how)
                    if r["status"] == "done"
                ]
                if these:
                    t = [row["t"] for row in these[0]["rows"] if "kl" in row]
                    y = np.mean(
                        [[row["kl"] for row in r["rows"] if "kl" in row] for r in these], axis=0
                    )
                    ax.plot(
                        t,
                        np.maximum(y, 1e-16),
                        style,
                        color=COLOURS[rule],
                        lw=1.2,
                        label=f"{rule}-{hess}",
                    )
        ax.set(xscale="log", yscale="log", xlabel="observations t", title=family)
    axes[0].set_ylabel("KL to the exact posterior")
    axes[1].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _ranks(runs: Sequence[Run], plt: Any) -> Any:
    """NLPD of BONG-lin-hess against the rank, less that of full covariance with the same seed."""
    own = matching(of_study(runs, "f"), part="test")
    if not own:
        return None
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.6))
    for ax, task in zip(axes, (SARCOS, "uci-kin40k", "teacher"), strict=True):
        these = matching(own, task=task)
        for metric, colour in (("nlpd-plugin", "#1b6ca8"), ("nlpd-lin_mc", "#d1731f")):
            full = {r["seed"]: value(r, metric) for r in matching(these, method="bong-lin-hess-fc")}
            points = []
            for rank in (1, 2, 5, 10, 20):
                low = {
                    r["seed"]: value(r, metric)
                    for r in matching(these, method="bong-lin-hess-dlr", rank=rank)
                }
                d = np.array([low[s] - full[s] for s in sorted(set(low) & set(full))])
                if len(d) > 1:
                    points.append((rank, d.mean(), d.std(ddof=1) / math.sqrt(len(d))))
            if points:
                x, y, error = np.array(points).T
                ax.errorbar(x, y, error, fmt="o-", ms=3, lw=1, color=colour, label=metric)
        ax.axhline(0, color="grey", lw=0.8)
        ax.set(xscale="log", xlabel="rank", title=task, xticks=[1, 2, 5, 10, 20])
        ax.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        ax.minorticks_off()
    axes[0].set_ylabel("NLPD less that of FC")
    axes[0].legend(frameon=False, fontsize=7)
    figure.tight_layout()
    return figure

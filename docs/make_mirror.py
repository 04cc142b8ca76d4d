"""The comparison and the figure of docs/mirror.md: how far BONG and BLR are from exact online VB.

python docs/make_mirror.py                                   # print the table
python docs/make_mirror.py --out docs/figures/mirror.png     # and write the figure
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

import bongref as br
from bongref.likelihoods import Bernoulli
from bongref.linalg import Array, sym
from bongref.states import FC
from bongref.theory.mirror import blr, bong, implicit, implicit_scalar
from bongref.theory.posteriors import Posterior, kl_to_posterior, posterior


class Row(NamedTuple):
    """A method after t observations: its distance from exact online VB and the true posterior."""

    t: int
    method: str
    state: FC
    kl_vb: float  # KL(q | exact online VB)
    kl_posterior: float  # KL(q | true posterior)
    mean: float  # distance of the means, in standard deviations of the posterior
    cov: float  # largest |λ − 1| over the eigenvalues λ of Σ_posterior⁻¹ Σ
    alpha: float | None = None
    n_iter: int | None = None


class Comparison(NamedTuple):
    """The rows, the stream that they are about, and the true posterior at each checkpoint."""

    rows: list[Row]
    X: Array  # (T, 2)
    y: Array  # (T,)
    prior: FC
    posteriors: dict[int, Posterior]


class Run(NamedTuple):
    """A method: its name, its parameters, and its update (q, x, y) -> q."""

    name: str
    update: Callable[[FC, Array, Any], Any]
    alpha: float | None = None
    n_iter: int | None = None


def comparison(
    T: Sequence[int] = (1, 5, 20),
    seed: int = 2,
    *,
    var: float = 4.0,
    alphas: Sequence[float] = (0.25, 0.5, 1.0),
    iterations: Sequence[int] = (1, 2, 5, 10, 20, 50),
) -> Comparison:
    """Logistic regression on two inputs, all expectations exact; rows after each t in T.

    Every method filters the same stream by itself. Inputs are standard normal,
    y ~ Bernoulli(σ(2x₁ − x₂)), the prior is N(0, var·I). "exact VB" solves each step's variational
    problem in its one-dimensional form, "implicit" by its own equation; "VB, all data" is the VB
    optimum without a stream.
    """
    rng, lik = np.random.default_rng(seed), Bernoulli()
    prior = FC(np.zeros(2), var * np.eye(2))
    X = rng.standard_normal((max(T), 2))
    y = lik.sample((X @ [2.0, -1.0])[:, None], rng)[:, 0]
    runs = _runs(lik, alphas, iterations)
    streams = [_stream(run.update, prior, X, y) for run in runs]
    rows, posteriors = [], {t: posterior(lik, prior, X[:t], y[:t]) for t in T}
    for t, p in posteriors.items():
        found = [(run, stream[t]) for run, stream in zip(runs, streams, strict=True)]
        best = cast(FC, implicit(lik, prior, X[:t], y[:t]).state)
        for run, q in [*found, (Run("VB, all data", lambda q, x, y: q), best)]:
            kl_vb = br.kl(q, streams[0][t])
            kl_p = kl_to_posterior(lik, prior, X[:t], y[:t], q, p.log_evidence)
            errors = _moment_errors(q, p)
            rows.append(Row(t, run.name, q, kl_vb, kl_p, *errors, run.alpha, run.n_iter))
    return Comparison(rows, X, y, prior, posteriors)


def _runs(lik: Bernoulli, alphas: Sequence[float], iterations: Sequence[int]) -> list[Run]:
    def damped(alpha: float, n_iter: int) -> Run:
        return Run("blr", lambda q, x, y: blr(lik, q, x, y, alpha, n_iter), alpha, n_iter)

    return [
        Run("exact VB", lambda q, x, y: implicit_scalar(lik, q, x, y).state),
        Run("implicit", lambda q, x, y: implicit(lik, q, x, y).state),
        Run("bong", lambda q, x, y: bong(lik, q, x, y)),
        *(damped(alpha, n_iter) for alpha in alphas for n_iter in iterations),
    ]


def _stream(update: Callable[..., FC], q: FC, X: Array, y: Array) -> list[FC]:
    """The states after 0, 1, … observations."""
    out = [q]
    for x, label in zip(X, y, strict=True):
        out.append(update(out[-1], x, label))
    return out


def _moment_errors(q: FC, p: Posterior) -> tuple[float, float]:
    L = np.linalg.cholesky(p.cov)
    white = np.linalg.solve(L, np.linalg.solve(L, q.Sigma).T)
    mean = float(np.linalg.norm(np.linalg.solve(L, q.mu - p.mean)))
    return mean, float(np.max(np.abs(np.linalg.eigvalsh(sym(white)) - 1)))


HEADER = ("t", "method", "alpha", "I", "KL to exact VB", "KL to posterior", "mean, sd", "cov")


def table(c: Comparison) -> str:
    """The rows as text. Divergences are in nats; below 1e-12 they are rounding."""
    lines = [_line(*HEADER)]
    for r in c.rows:
        alpha = "" if r.alpha is None else f"{r.alpha:g}"
        n_iter = "" if r.n_iter is None else str(r.n_iter)
        numbers = map(_number, (r.kl_vb, r.kl_posterior, r.mean, r.cov))
        lines.append(_line(str(r.t), r.method, alpha, n_iter, *numbers))
    return "\n".join(lines)


def _line(t: str, method: str, alpha: str, n_iter: str, *numbers: str) -> str:
    vb, posterior, mean, cov = numbers
    head = f"{t:>3}  {method:<12}  {alpha:>5}  {n_iter:>3}"
    return f"{head}  {vb:>14}  {posterior:>15}  {mean:>8}  {cov:>8}"


def _number(a: float) -> str:
    return "0" if abs(a) < 1e-12 else f"{a:.2g}" if a < 1e-3 else f"{a:.4f}"


# --- the figure -----------------------------------------------------------------------------------

LEVELS = (0.5, 0.9, 0.99)
GREYS = ["#e8eef2", "#c6d5df", "#9db8c9"]
COLOURS = {"bong": "#d1495b", "exact VB": "#00798c", "VB, all data": "#222222"}
STYLES = {"VB, all data": ":", "exact VB": "-", "bong": "--"}
LABELS = {
    "bong": "BONG",
    "exact VB": "exact online VB = implicit",
    "VB, all data": "VB on all data at once",
}


def figure(c: Comparison, path: Any) -> None:
    """Write a PNG, PDF or SVG.

    The true posterior at each checkpoint with the 90 % ellipses of the methods; then KL to exact VB
    against I.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the figure needs matplotlib: pip install matplotlib") from error
    n = len(c.posteriors) + 1
    fig = Figure(figsize=(9.0, 4.1 * ((n + 1) // 2)), layout="constrained")
    FigureCanvasAgg(fig)
    axes = fig.subplots((n + 1) // 2, 2, squeeze=False).ravel()
    for ax, t in zip(axes, c.posteriors, strict=False):
        _contours(ax, c, t)
    _divergences(axes[n - 1], c, max(c.posteriors))
    legend = axes[0].get_legend_handles_labels()
    fig.legend(*legend, fontsize=9, loc="outside upper center", ncols=4, frameon=False)
    for ax in axes[n:]:
        ax.remove()
    fig.savefig(path, dpi=96)


def _after(t: int) -> str:
    return f"{t} observation{'s' if t > 1 else ''}"


def _contours(ax: Any, c: Comparison, t: int) -> None:
    """Highest-density regions with 50, 90 and 99 % of the posterior, and the 90 % ellipses."""
    p = c.posteriors[t]
    order = np.sort(p.log_p.ravel())[::-1]
    mass = np.cumsum(np.exp(order)) / np.sum(np.exp(order))
    cuts = [order[np.searchsorted(mass, level)] for level in LEVELS][::-1]
    theta1, theta2 = p.theta[..., 0], p.theta[..., 1]
    ax.contourf(theta1, theta2, p.log_p, [*cuts, order[0] + 1], colors=GREYS)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = math.sqrt(-2 * math.log(0.1)) * np.stack([np.cos(angle), np.sin(angle)])
    points = [p.theta[p.log_p >= cuts[0]]]
    for name, style in STYLES.items():
        (q,) = [r.state for r in c.rows if r.t == t and r.method == name]
        ring = q.mu[:, None] + np.linalg.cholesky(q.Sigma) @ circle
        ax.plot(*ring, style, color=COLOURS[name], lw=1.8, label=LABELS[name])
        ax.plot(*q.mu, "o", ms=3.5, color=COLOURS[name])
        points.append(ring.T)
    ax.plot(*p.mean, "x", color="black", ms=6, label="posterior mean")
    low, high = np.min(np.concatenate(points), axis=0), np.max(np.concatenate(points), axis=0)
    low, high = low - 0.03 * (high - low), high + 0.03 * (high - low)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    ax.set_title(f"{_after(t)}: posterior (50, 90, 99 %), ellipses of 90 %", fontsize=9.5)
    ax.set_xlabel("θ₁")
    ax.set_ylabel("θ₂")


def _divergences(ax: Any, c: Comparison, t: int) -> None:
    """KL(q | exact online VB) of BLR against I, one line for each α, with BONG as a level.

    Rounding is cut off at 1e-16.
    """
    rows = [r for r in c.rows if r.t == t]
    alphas = sorted({r.alpha for r in rows if r.alpha is not None})
    colours = ["#8d96a3", "#edae49", "#6a4c93", "#2e4057"] * len(alphas)
    for alpha, colour in zip(alphas, colours, strict=False):
        points = [(r.n_iter, max(r.kl_vb, 1e-16)) for r in rows if r.alpha == alpha]
        I, divergence = zip(*points, strict=True)
        ax.loglog(I, divergence, "o-", ms=4, color=colour, label=f"BLR, α = {alpha:g}")
    (level,) = [r.kl_vb for r in rows if r.method == "bong"]
    ax.axhline(level, color=COLOURS["bong"], ls="--", lw=1.8, label="BONG")
    ax.set_title(f"{_after(t)}: KL(q | exact online VB) of the streams", fontsize=9.5)
    ticks = sorted({r.n_iter for r in rows if r.n_iter is not None})
    ax.set_xticks(ticks, labels=[str(i) for i in ticks])
    ax.minorticks_off()
    ax.grid(color="#e6e6e6")
    ax.set_xlabel("BLR iterations for each observation, I")
    ax.set_ylabel("nats")
    ax.legend(fontsize=8, loc="lower left")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python docs/make_mirror.py", description="how far BONG and BLR are from exact VB"
    )
    steps = "numbers of observations to stop at"
    parser.add_argument("--out", help="write the figure here")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--var", type=float, default=4.0, help="prior variance of each parameter")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 5, 20], help=steps)
    args = parser.parse_args(argv)
    c = comparison(args.steps, args.seed, var=args.var)
    print(table(c))
    if args.out:
        figure(c, args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

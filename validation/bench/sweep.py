"""Cost against the number of parameters, our backend: python -m validation.bench.sweep

MLPs 21-h-h-1 of growing width h: P from about 100 to 1,000,000 for the diagonal and the DLR
families, to 2,000 for a full covariance, all rules and estimators of the grid. A point whose
predicted time or memory is too large is left out, and said to be. Memory is the growth of the
resident set while the runs go on, beyond the prior and the data that they are given, beside 3 ×
state + Jacobian (K × P numbers, K = 1 or, for mc-ef, M).

The results are validation/results/sweep.json and a PNG beside it; ``python -m validation.bench
--page`` puts both on the page.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from . import cells, ours, report, worker

WIDTHS = {"fc": (4, 7, 12, 20, 34), "diag": (4, 20, 45, 90, 170, 300, 988)}  # P = h² + 24h + 1
TINY, DATA = 3, 2000
LONGEST = 60.0  # seconds of one observation
SOME = 8  # observations of the other runs at least, where that does not take too long


def widths(family: str, largest: float) -> list[int]:
    return [
        h for h in WIDTHS["fc" if family.startswith("fc") else "diag"] if net(h).n_params <= largest
    ]


def net(width: int) -> cells.Net:
    return cells.mlp(21, width, width, 1)


def sizes(cell: cells.Cell, P: int) -> tuple[int, int]:
    """Bytes of a state and of the Jacobian, K rows."""
    numbers = {"fc": P + P * P, "diag": 2 * P, "dlr": (2 + cells.RANK) * P}[
        cell.family.removesuffix("_mom")
    ]
    return 8 * numbers, 8 * P * (cells.N_SAMPLES if cell.hess == "mc-ef" else 1)


class Sweep(ours.Ours):
    """A worker that times points of curves."""

    warm = ""

    def point(self, method: str, width: int, target: float, budget: float) -> dict[str, Any]:
        """The time of one observation at this width, with the first prior variance and alpha
        that keep it positive definite.
        """
        import bongref as br

        cell = cells.parse(f"{method}@mlp")
        lost: Exception | None = None
        for var, alpha in cells.TRIES[cell.rule]:
            self.args = None
            try:
                if self.warm != method:
                    self.args, self.warm = ours.build(cell, net(TINY), var, alpha, DATA), method
                    self.run(1)
                    self.args = None
                return {
                    **self.timed(cell, width, var, alpha, target, budget),
                    "var": var,
                    "alpha": alpha,
                }
            except (br.NotPositiveDefinite, FloatingPointError) as error:
                lost = error
        raise ArithmeticError(
            f"not positive definite after one of the steps with any of the priors tried "
            f"({type(lost).__name__})"
        )

    def timed(
        self,
        cell: cells.Cell,
        width: int,
        var: float,
        alpha: float | None,
        target: float,
        budget: float,
    ) -> dict[str, Any]:
        self.args = ours.build(cell, net(width), var, alpha, DATA)
        idle = worker.settle()
        worker.reset_peak()
        begun = time.perf_counter()
        n, seconds = 1, self.run(1)[1]
        if (
            SOME * seconds < budget / 2
        ):  # how long one more takes: what a run costs once must not count
            each = max((self.run(SOME)[1] - seconds) / (SOME - 1), 1e-7)
            n = max(SOME, worker.how_many(each, target, DATA))
            seconds = self.run(n)[1]
        seconds /= n
        best, repeats = seconds, 1
        while repeats < 4 and (time.perf_counter() - begun) * (repeats + 1) / repeats < budget:
            best, repeats = min(best, self.run(n)[1] / n), repeats + 1
        grown = worker.peak() - idle
        return {
            "P": net(width).n_params,
            "us": best * 1e6,
            "n": n,
            "repeats": repeats,
            "grown": max(0, grown),
        }


def predicted(points: list[dict[str, Any]], P: int) -> float:
    """Seconds of one observation at P, from the last points by their slope, at least linear."""
    if not points:
        return 0.0
    last = points[-1]
    slope = 1.0
    if len(points) > 1:
        slope = max(
            1.0, math.log(last["us"] / points[-2]["us"]) / math.log(last["P"] / points[-2]["P"])
        )
    return last["us"] * 1e-6 * (P / last["P"]) ** slope


def exponent(points: list[dict[str, Any]]) -> float | None:
    """The slope of log time against log P over the larger half of the sizes."""
    part = points[len(points) // 2 :] if len(points) > 3 else points
    if len(part) < 2:
        return None
    return float(np.polyfit(np.log([p["P"] for p in part]), np.log([p["us"] for p in part]), 1)[0])


def memory_ratio(cell: cells.Cell, points: list[dict[str, Any]]) -> float | None:
    """Growth of the resident set over 3 × state + Jacobian at the largest size, where that is
    more than 4 MB.
    """
    if not points:
        return None
    state, jacobian = sizes(cell, points[-1]["P"])
    allowed = 3 * state + jacobian
    return points[-1]["grown"] / allowed if allowed > 4e6 else None


def curve(cell: cells.Cell, side: worker.Worker, args: argparse.Namespace) -> dict[str, Any]:
    """The points of one method, and what was left out."""
    points: list[dict[str, Any]] = []
    left_out = ""
    for h in widths(cell.family, args.largest):
        P = net(h).n_params
        state, jacobian = sizes(cell, P)
        if predicted(points, P) > args.longest:
            left_out = f"P = {P:,}: about {predicted(points, P):.0f} s for one observation"
        elif 4 * state + 4 * jacobian > args.memory * 2**30:
            left_out = f"P = {P:,}: memory"
        else:
            answer = side.ask(
                "point", method=cell.method, width=h, target=args.target, budget=args.budget
            )
            left_out = f"P = {P:,}: {answer['error']}" if "error" in answer else ""
        if left_out:
            break
        points.append({**answer, "state": state, "jacobian": jacobian})
    found = {
        "family": cell.family,
        "points": points,
        "exponent": exponent(points),
        "memory ratio": memory_ratio(cell, points),
    }
    return {**found, "left out": left_out} if left_out else found


# --- figure ---------------------------------------------------------------------------------------

COLOURS = {"bong": "#0b5fa5", "blr": "#d1702a", "bog": "#2f8f4e", "bbb": "#8a4fb0"}
STYLES = {"lin-hess": "-", "lin-ef": "--", "mc-ef": ":"}


def figure(doc: dict[str, Any], file: Path) -> None:
    """Log-log, one panel for each family, colour for the rule, line style for the estimator."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    families = [
        f
        for f in cells.FAMILIES
        if any(c["family"] == f and c["points"] for c in doc["curves"].values())
    ]
    if not families:
        return
    fig, axes = plt.subplots(
        1,
        len(families),
        figsize=(1.5 + 3.2 * len(families), 4.2),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    for ax, family in zip(axes[0], families, strict=True):
        for name, found in doc["curves"].items():
            if found["family"] == family and found["points"]:
                rule, hess = name.split("-")[0], "-".join(name.split("-")[1:3])
                xs, ys = zip(*((p["P"], p["us"]) for p in found["points"]), strict=True)
                ax.plot(xs, ys, STYLES[hess], color=COLOURS[rule], marker=".", ms=5, lw=1.3)
        ax.set(xscale="log", yscale="log", title=family, xlabel="parameters P")
        ax.grid(color="#e5e5e5", lw=0.6)
        ax.set_axisbelow(True)
    axes[0, 0].set_ylabel("µs per observation")
    handles = [Line2D([], [], color=colour, label=rule) for rule, colour in COLOURS.items()]
    handles += [
        Line2D([], [], color="#444444", ls=style, label=hess) for hess, style in STYLES.items()
    ]
    fig.legend(handles=handles, loc="outside upper center", ncols=7, frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(file, dpi=110)
    plt.close(fig)


# --- the run --------------------------------------------------------------------------------------


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="python -m validation.bench.sweep", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument(
        "--methods",
        nargs="+",
        default=["*"],
        metavar="GLOB",
        help='e.g. "bong-*-dlr" (default: all 60 of the grid)',
    )
    p.add_argument("--backend", default="fast", choices=("fast", "reference", "auto"))
    p.add_argument(
        "--largest",
        type=float,
        default=1.1e6,
        help="no more parameters than this (default: 1.1 million)",
    )
    p.add_argument(
        "--longest",
        type=float,
        default=LONGEST,
        help=f"seconds that one observation may take (default: {LONGEST:.0f})",
    )
    p.add_argument(
        "--memory", type=float, default=8.0, help="GiB that a point may need (default: 8)"
    )
    p.add_argument(
        "--budget",
        type=float,
        help="seconds for the repeats of a point (default: 20; 2 with --quick)",
    )
    p.add_argument("--quick", action="store_true", help="up to 40,000 parameters, short runs")
    p.add_argument(
        "--out", type=Path, default=worker.ROOT / "validation" / "results", metavar="DIR"
    )
    p.add_argument("--resume", action="store_true", help="keep the curves that sweep.json has")
    p.add_argument(
        "--log",
        type=Path,
        help="a file for what the worker writes to standard error (default: nowhere)",
    )
    args = p.parse_args(argv)
    args.target, args.budget = (
        0.05 if args.quick else 0.2,
        args.budget or (2.0 if args.quick else 20.0),
    )
    args.largest = min(args.largest, 4e4) if args.quick else args.largest
    return args


def main(argv: list[str] | None = None) -> int:
    from .__main__ import printed_by, say

    args = arguments(argv)
    file = args.out / "sweep.json"
    chosen = [
        c
        for c in cells.grid()
        if c.net == "mlp" and any(fnmatchcase(c.method, glob) for glob in args.methods)
    ]
    settings = {
        "backend": args.backend,
        "largest": args.largest,
        "n_iter": cells.N_ITER,
        "n_samples": cells.N_SAMPLES,
        "rank": cells.RANK,
    }
    doc: dict[str, Any] = {
        "schema": "bongref-bench-sweep-1",
        "complete": False,
        "settings": settings,
    }
    doc |= {"machine": printed_by("limits", "--machine")["machine"], "curves": {}}
    if args.resume and file.exists():
        doc["curves"] = {
            name: found for name, found in report.load(file)["curves"].items() if found["points"]
        }
    log = open(args.log, "wb") if args.log else subprocess.DEVNULL
    side = worker.Worker(
        sys.executable, "validation.bench.sweep", "--worker", "--backend", args.backend, log=log
    )
    code = 0
    try:
        todo = [cell for cell in chosen if cell.method not in doc["curves"]]
        for i, cell in enumerate(todo):
            say(f"[{i + 1}/{len(todo)}] {cell.method} ... ", end="")
            doc["curves"][cell.method] = found = curve(cell, side, args)
            report.save(file, doc)
            last = (
                f"{report.number(found['points'][-1]['us'])} µs at P = {found['points'][-1]['P']:,}"
                if found["points"]
                else "nothing"
            )
            say(f"{last}, exponent {report.number(found['exponent'])} {found.get('left out', '')}")
        doc["complete"] = True
    except KeyboardInterrupt:
        say("\nstopped; --resume goes on with the curves that are missing")
        code = 130
    finally:
        side.close()
    report.save(file, doc)
    figure(doc, args.out / "bench-sweep.png")
    print(report.sweep_text(doc))
    return code


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker.serve(lambda: Sweep(sys.argv[sys.argv.index("--backend") + 1]))
    else:
        raise SystemExit(main())

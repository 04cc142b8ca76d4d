"""Speed and memory of predictions over a test set, the reference and the compiled path in turn:
python -m validation.bench.evaluation

The paper's CNN (P = 57,722, softmax, 10 classes) and a diagonal state; ``plugin`` on 1,000 images,
``mc`` with 20 samples, ``lin_mc`` with 100 samples, and the metrics that an experiment asks for at
once (``nlpd-plugin``, ``nlpd-mc``, ``nlpd-lin_mc`` of 10 samples). Each side is a process of its
own. The reference is what runs where Numba is missing; ``--old CHECKOUT`` takes that of another
checkout.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import cells, report, worker

# images of the reference and of the compiled path, samples; a unit is an image, for mc an image and
# sample
KINDS = {
    "plugin": (1000, 1000, 1),
    "mc": (50, 1000, 20),
    "lin_mc": (20, 500, 100),
    "metrics.on": (10, 500, 10),
}
NAMES = ("nlpd-plugin", "nlpd-mc", "nlpd-lin_mc", "error")


class Side:
    """One side: the compiled path, or the reference alone."""

    def __init__(self, kind: str, checkout: str | None):
        if checkout:
            sys.path.insert(0, checkout)
        if kind == "reference":
            # as where it cannot be imported
            sys.modules["bongref.fast"] = None  # type: ignore[assignment]
        import bongref as br

        net = cells.NETS["cnn"]
        self.br, self.method = br, br.method("bong-lin-hess-diag")
        self.old = (self.method,) if checkout else ()  # which an earlier version takes first
        self.model, self.lik = br.models.cnn(), br.likelihoods.Categorical()
        self.state = br.Diag(cells.theta(net), np.full(net.n_params, 1e-4))
        self.X, self.Y = cells.data(net, max(max(sizes[:2]) for sizes in KINDS.values()))

    def hello(self) -> dict[str, Any]:
        return {"bongref": self.br.__version__}

    def prepare(self, kind: str, images: int, samples: int) -> dict[str, Any]:
        """A call, the first of which compiles; the values at the first image are for the
        comparison of the two sides.
        """
        self.kind, self.images, self.samples = kind, images, samples
        values = self.call(KINDS[kind][0] if kind == "metrics.on" else images)
        return {
            "values": np.ravel(values if kind == "metrics.on" else values.values[:, 0]).tolist()
        }

    def call(self, images: int) -> Any:
        problem, X = (*self.old, self.model, self.lik, self.state), self.X[:images]
        rng = np.random.default_rng(0)
        if self.kind == "metrics.on":
            on = self.br.metrics.on(X, self.Y[:images], *NAMES, n_samples=self.samples)
            found = on(self.method, self.model, self.lik, self.state, rng)
            return [v for name, v in found.items() if "mc" not in name]  # draws may be shared
        if self.kind == "plugin":
            return self.br.predictive.plugin(*problem, X)
        f = getattr(self.br.predictive, self.kind)
        return f(*problem, X, n_samples=self.samples, rng=rng)

    def time(self) -> dict[str, Any]:
        start = time.perf_counter()
        self.call(self.images)
        return {"seconds": time.perf_counter() - start}


def measure(old: str | None, repeats: int, log: Any = None) -> list[dict[str, Any]]:
    """Rows of the table, the best of the repeats of both sides in turn."""
    checkout = ["--old", str(Path(old).resolve())] if old else []
    module = "validation.bench.evaluation"
    sides = {
        "reference": worker.Worker(
            sys.executable, module, "--side", "reference", *checkout, log=log
        ),
        "compiled": worker.Worker(sys.executable, module, "--side", "compiled", log=log),
    }
    rows = []
    try:
        for kind, (few, many, samples) in KINDS.items():
            n = {"reference": few, "compiled": many}
            for _ in range(2):  # the second one has what is compiled in its idle memory
                found = {
                    name: side.ask("prepare", kind=kind, images=n[name], samples=samples)
                    for name, side in sides.items()
                }
            bad = [
                f"{name}: {answer['error']}" for name, answer in found.items() if "error" in answer
            ]
            if bad:
                rows.append({"kind": kind, "error": "; ".join(bad)})
                continue
            times = [
                {k: side.ask("time")["seconds"] for k, side in sides.items()}
                for _ in range(repeats)
            ]
            units = samples if kind == "mc" else 1
            ms = {k: min(t[k] for t in times) / n[k] / units * 1e3 for k in sides}
            memory = {k: side.ask("done") for k, side in sides.items()}
            a, b = (np.array(found[k]["values"]) for k in ("compiled", "reference"))
            rows.append(
                {
                    "kind": kind,
                    "images": n,
                    "samples": samples,
                    "unit": "image and sample" if kind == "mc" else "image",
                }
                | {f"{k} ms": ms[k] for k in sides}
                | {"ratio": ms["reference"] / ms["compiled"]}
                | {f"{k} MB": (m["peak"] - m["idle"]) / 1e6 for k, m in memory.items()}
                | {"difference": float(np.max(np.abs(a - b)) / np.max(np.abs(b)))}
            )
            say = report.text_table(*report.evaluation_table({"evaluation": rows[-1:]}))
            print(say.splitlines()[-1], file=sys.stderr, flush=True)
    finally:
        for side in sides.values():
            side.close()
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.bench.evaluation")
    parser.add_argument("--old", help="a checkout whose predictions are the reference")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", choices=("reference", "compiled"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        worker.serve(lambda: Side(args.side, args.old))  # type: ignore[arg-type,return-value]
        return 0
    rows = measure(args.old, args.repeats)
    print(report.text_table(*report.evaluation_table({"evaluation": rows})))
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())

"""Times of one observation for every method, and the fit that bongref.recommend predicts from.

    python -m validation.costs_measured                 # measure all that is missing, then fit
    python -m validation.costs_measured --methods 'bong-*' --minutes 4
    python -m validation.costs_measured --fit           # only fit, from the points that are there
    python -m validation.costs_measured --check         # compare with streams not in the data

The points are those of the benchmarks (validation/results/sweep.json and bench.json: P, and a CNN)
and own ones with small P and other C, M, R and I, as far as there are any,
validation/results/costs_measured.json (written after each method, so that a run can be stopped and
goes on with what is missing); the fit is bongref/guide/costs.json. Own points are divided by the
ratio of the two machines, by the time of a normal variate. Each point is the best of a few timings
of ``br.run`` (``info.seconds`` over the steps). The fit has no negative coefficient and minimises
the relative error (non-negative least squares).
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

import bongref as br
from bongref.grid import NAMES, NOT_DERIVED
from bongref.guide import costs
from bongref.guide.definiteness import keeps
from bongref.guide.recommend import network_work, sizes_of

ROOT = Path(__file__).parents[1]
POINTS = ROOT / "validation" / "results" / "costs_measured.json"
FIT = ROOT / "bongref" / "guide" / "costs.json"
SECONDS = 0.06  # of one timing, about


def mlp(h: int, C: int = 1, D: int = 10) -> dict[str, Any]:
    return {"kind": "mlp", "sizes": [D, h, h, C]}


BASE = {"M": 30, "R": 10, "I": 10}
METHODS = [name for name in NAMES if name not in NOT_DERIVED and keeps(name)]


def design(name: str) -> list[dict[str, Any]]:
    """The points that the benchmarks do not have: small P, and other C, M, R and I."""
    rule, how, kind, family = name.split("-")
    out = [{"net": net, **BASE} for net in (mlp(2, D=6), mlp(3), mlp(14))]
    if kind == "hess":
        out += [{"net": mlp(h, C), **BASE} for h, C in ((3, 3), (7, 9), (14, 3), (26, 3))]
    if how == "mc":
        out += [{"net": mlp(14), **BASE, "M": 5}, {"net": mlp(26), **BASE, "M": 100}]
    if family == "dlr":
        pairs = ((14, 2), (14, 30), (48, 30), (48, 3))
        out += [{"net": mlp(h), **BASE, "R": R} for h, R in pairs]
    if rule in ("blr", "bbb"):
        out += [{"net": mlp(h), **BASE, "I": I} for h, I in ((14, 2), (26, 3))]
    return out


def machine_ratio(data: dict[str, Any]) -> float:
    """How many times as long as on the benchmarks' machine the probe took where the points are
    from.
    """
    return float(data["probe seconds"]) / bench_probe()


def bench_probe() -> float:
    """Seconds of the probe on the benchmarks' machine: a standard normal variate of NumPy."""
    path = ROOT / "validation" / "results" / "bench.json"
    return 1e-9 * float(json.loads(path.read_text(encoding="utf-8"))["limits"]["normals ns"])


def own_points() -> dict[str, Any]:
    """The points that were measured here; none if the file is not there."""
    none: dict[str, Any] = {"methods": {}, "probe seconds": bench_probe()}
    return json.loads(POINTS.read_text(encoding="utf-8")) if POINTS.exists() else none


def benchmarks(name: str) -> list[dict[str, Any]]:
    """The points of validation/results/sweep.json and bench.json for a method."""
    results = ROOT / "validation" / "results"
    sweep = json.loads((results / "sweep.json").read_text(encoding="utf-8"))["curves"]
    cells = json.loads((results / "bench.json").read_text(encoding="utf-8"))["cells"]
    base = {"M": 100, "R": 10, "I": 10}
    out = []
    for p in sweep.get(name, {}).get("points", []):
        out.append({**base, "P": p["P"], "C": 1, "work": float(p["P"]), "us": p["us"]})
    if not out and f"{name}@mlp" in cells:  # a method that the sweep leaves out
        us = cells[f"{name}@mlp"]["ours"]["us"]
        out.append({**base, "P": 881, "C": 1, "work": 881.0, "us": us})
    if f"{name}@cnn" in cells:
        f, us = br.models.cnn(), cells[f"{name}@cnn"]["ours"]["us"]
        out.append({**base, "P": f.n_params, "C": 10, "work": network_work(f), "us": us})
    return out


def model(net: dict[str, Any]) -> Any:
    if net["kind"] == "linear":
        return br.models.linear(*net["sizes"])
    return br.models.mlp(net["sizes"], activation="tanh")


def problem(name: str, net: dict[str, Any], M: int, R: int, I: int, n: int = 4000) -> Any:
    """The arguments of a run of n observations with a narrow prior, so that nothing is lost."""
    f = model(net)
    rule, how, _, family = name.split("-")
    params: dict[str, Any] = {}
    if rule != "bong":
        params["alpha"] = 1e-3 if rule == "blr" else 1e-6
    if rule in ("blr", "bbb"):
        params["n_iter"] = I
    if how == "mc":
        params["n_samples"] = M
    if family == "dlr":
        params["rank"] = min(R, f.n_params)
    m, rng = br.method(name, **params), np.random.default_rng(0)
    n = min(n, max(8, 4_000_000 // math.prod(f.in_shape)))
    X = rng.standard_normal((n, *f.in_shape))
    C = f.n_outputs
    lik: Any = br.likelihoods.Gaussian(var=1.0) if C < 10 else br.likelihoods.Categorical()
    Y = rng.standard_normal((n, C)) if C < 10 else rng.integers(C, size=n)
    prior = m.prior(mu=f.init(rng), var=1e-2)
    return m, f, lik, prior, X, Y


def timed(args: Any, n: int) -> tuple[float, str]:
    m, f, lik, prior, X, Y = args
    result = br.run(m, f, lik, prior, X[:n], Y[:n], rng=0, progress=False)
    return result.info.seconds / n, result.info.backend


def point(name: str, at: dict[str, Any]) -> dict[str, Any]:
    """The best time of an observation at one point of the design."""
    args = problem(name, at["net"], at["M"], at["R"], at["I"])
    timed(args, 1)
    each, backend = timed(args, 3)
    n = int(min(len(args[4]), max(2, SECONDS / each)))
    repeats = 5 if each * n < 0.5 else 1
    best = min(timed(args, n)[0] for _ in range(repeats))
    m, f = args[0], args[1]
    return {**at, **sizes_of(m, f)._asdict(), "us": best * 1e6, "backend": backend}


def measure(names: list[str], minutes: float) -> None:
    """All points that are missing, as long as there is time."""
    done = own_points()
    fresh = not done["methods"]
    begun = time.monotonic()
    for name in names:
        if name in done["methods"]:
            continue
        if time.monotonic() - begun > 60 * minutes:
            print("no time left; call it again")
            break
        done["methods"][name] = [point(name, at) for at in design(name)]
        probe = costs.probe()
        done["probe seconds"] = probe if fresh else min(done["probe seconds"], probe)
        fresh = False
        done["machine"] = machine()
        POINTS.write_text(json.dumps(done, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        print(
            f"{name:<24}{len(done['methods'][name])} points, {time.monotonic() - begun:.0f} s",
            flush=True,
        )


def machine() -> dict[str, Any]:
    from .bench import limits

    found = limits.machine()
    return {k: found[k] for k in ("cpu", "cores", "bongref", "python", "numpy", "numba")}


def fit() -> dict[str, Any]:
    """The nanoseconds of each kind of work for each method, and how far the fit is off."""
    data, out = own_points(), {}
    ratio = machine_ratio(data)
    print(f"own times are divided by {ratio:.2f}, the ratio of the machines")
    for name in METHODS:
        out[name] = {}
        extra = data["methods"].get(name, [])
        points = [{**p, "us": p["us"] / ratio} for p in extra] + benchmarks(name)
        for which in ("few", "many"):
            own = [
                (sizes(p), 1e3 * p["us"]) for p in points if costs.regime(name, sizes(p)) == which
            ]
            if not own:
                continue
            keys = list(costs.features(name, own[0][0]))
            A = np.array([[costs.features(name, n)[k] for k in keys] for n, _ in own])
            t = np.array([ns for _, ns in own])
            rates = nnls(A / t[:, None], np.ones(len(t)))[0]
            off = float(np.max(np.abs(np.log(A @ rates / t))))
            used = {k: float(f"{r:.4g}") for k, r in zip(keys, rates, strict=True) if r > 0}
            out[name][which] = {
                "ns": used, "points": len(own), "worst factor": round(math.exp(off), 3),
                "largest P": max(n.P for n, _ in own),
            }  # fmt: skip
    whole = {
        "schema": "bongref-costs-1",
        "made by": "python -m validation.costs_measured",
        "machine": bench_machine(),
        "probe seconds": bench_probe(),
        "methods": {name: out[name] for name in NAMES if name in out},
        "us of the benchmark": bench_times(),
    }
    FIT.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return whole


def bench_times() -> dict[str, float]:
    """Microseconds of one observation on the benchmark's MLP, P = 881, for every compiled
    method.
    """
    path = ROOT / "validation" / "results" / "bench.json"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    own = {k.removesuffix("@mlp"): v["ours"]["us"] for k, v in cells.items() if k.endswith("@mlp")}
    return {name: float(f"{own[name]:.3g}") for name in NAMES if name in own}


def bench_machine() -> dict[str, Any]:
    """The machine of the benchmarks."""
    path = ROOT / "validation" / "results" / "bench.json"
    found = json.loads(path.read_text(encoding="utf-8"))["machine"]
    return {k: found[k] for k in ("cpu", "cores", "bongref", "python", "numpy", "numba")}


def sizes(p: dict[str, Any]) -> costs.Sizes:
    return costs.Sizes(**{k: p[k] for k in costs.Sizes._fields})


CHECKS: list[tuple[str, dict[str, Any]]] = [
    (name, {"net": net, "M": M, "R": R, "I": I})
    for net, M, R, I in (
        ({"kind": "mlp", "sizes": [4, 20, 1]}, 20, 5, 5),
        ({"kind": "mlp", "sizes": [30, 16, 16, 5]}, 50, 20, 4),
        ({"kind": "linear", "sizes": [64, 1]}, 10, 3, 10),
    )
    for name in METHODS
]


def check(minutes: float = 4.0) -> list[dict[str, Any]]:
    """Measured over predicted for models and sizes that are not in the data."""
    begun, rows = time.monotonic(), []
    scale = costs.calibration()
    for name, at in CHECKS:
        if time.monotonic() - begun > 60 * minutes:
            print("no time left")
            break
        args = problem(name, at["net"], at["M"], at["R"], at["I"])
        p = point(name, at)
        predicted = 1e6 * costs.seconds(name, sizes_of(args[0], args[1]), scale)
        rows.append({"method": name, "P": p["P"], "us": p["us"], "predicted": predicted})
    ratios = np.array([r["us"] / r["predicted"] for r in rows])
    off = np.exp(np.abs(np.log(ratios)))
    print(
        f"{len(rows)} streams: median factor {np.median(off):.2f}, 90 % "
        f"{np.quantile(off, 0.9):.2f}, worst {off.max():.2f}"
    )
    for k in np.argsort(-off)[:8]:
        r = rows[k]
        print(
            f"  {r['method']:<24} P={r['P']:<6} measured {r['us']:.3g} us, predicted "
            f"{r['predicted']:.3g} us"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--methods", default="*", help="a glob")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--fit", action="store_true", help="only fit")
    parser.add_argument("--check", action="store_true", help="compare with other streams")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.check:
        check(args.minutes)
        return
    names = [n for n in METHODS if fnmatchcase(n, args.methods)]
    if not args.fit:
        measure(names, args.minutes)
    whole = fit()
    off = [r["worst factor"] for m in whole["methods"].values() for r in m.values()]
    print(
        f"{len(whole['methods'])} methods; the fit is off by a factor of {max(off):.2f} at "
        f"most, {np.median(off):.2f} in the median"
    )


if __name__ == "__main__":
    main()

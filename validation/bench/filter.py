"""What one call of a Filter takes, beside river's linear models: ``python -m
validation.bench.filter [--quick] [--json FILE]``.

One process, one thread. Every call gets another row of the same stream of 10 features, as an array
and, since river takes nothing else, as a dict. ``predict after learn`` alternates with
``learn_one`` and has its time taken off: then nothing that a prediction needs of the state is known
yet. Best and median of the repeats, in microseconds. The limits for the MLP with DLR-10: 100 µs for
learn_one, 50 µs for predict_one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

import bongref as br  # noqa: E402

D, ROWS = 10, 4000
LEARN, PREDICT = 100.0, 50.0  # limits, microseconds
NAMES = [f"x{i}" for i in range(D)]


class Row(NamedTuple):
    """One line of the table."""

    what: str
    call: str
    best: float
    median: float


def stream() -> tuple[Any, Any, list[dict[str, float]]]:
    """Inputs as an array and as dicts, and targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, D))
    Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(ROWS)
    return X, Y, [dict(zip(NAMES, map(float, x), strict=True)) for x in X]


def micros(call: Callable[[int], Any], n: int, repeats: int) -> list[float]:
    """Microseconds a call, for each repeat."""
    out = []
    for r in range(repeats + 1):
        start = time.perf_counter()
        for i in range(n):
            call((r * n + i) % ROWS)
        out.append((time.perf_counter() - start) / n * 1e6)
    return out[1:]


def rows(
    what: str, learn: Callable[[int], Any], predict: Callable[[int], Any], n: int, repeats: int
) -> Iterator[Row]:
    """learn_one, predict_one of one state, and predict_one right after learn_one."""
    learned = micros(learn, n, repeats)
    again = micros(predict, n, repeats)

    def both(i: int) -> None:
        predict(i)
        learn(i)

    after = [b - min(learned) for b in micros(both, n, repeats)]
    for call, t in (("learn_one", learned), ("predict_one", again), ("predict after learn", after)):
        yield Row(what, call, min(t), statistics.median(t))


def ours(n: int, repeats: int) -> Iterator[Row]:
    """Filters of several kinds."""
    X, Y, dicts = stream()
    gauss, mlp = br.likelihoods.Gaussian(var=0.1), br.models.mlp([D, 20, 13, 1])
    cases = (
        (f"MLP of {mlp.n_params}, DLR-10", br.method("bong-lin-hess-dlr", rank=10), mlp),
        (f"MLP of {mlp.n_params}, diagonal", br.method("bong-lin-hess-diag"), mlp),
        ("linear, full covariance", br.method("bong-lin-hess-fc"), br.models.linear(D, bias=True)),
    )
    for what, m, model in cases:
        for kind, xs in (("", X), (", dict", dicts)):
            f = br.Filter(m, model, gauss, features=NAMES)
            f.learn_many(X[:500], Y[:500])

            def learn(i: int, f: Any = f, xs: Any = xs) -> None:
                f.learn_one(xs[i], Y[i])

            def predict(i: int, f: Any = f, xs: Any = xs) -> None:
                f.predict_one(xs[i])

            yield from rows(f"bongref: {what}{kind}", learn, predict, n, repeats)


def rivers(n: int, repeats: int) -> Iterator[Row]:
    """The linear models of river, if it is installed."""
    try:
        from river import linear_model
    except ImportError:
        print("river is not installed; pip install river", file=sys.stderr)
        return
    _, Y, dicts = stream()
    for name in ("LinearRegression", "BayesianLinearRegression", "PARegressor"):
        model = getattr(linear_model, name)()

        def learn(i: int, model: Any = model) -> None:
            model.learn_one(dicts[i], float(Y[i]))

        def predict(i: int, model: Any = model) -> None:
            model.predict_one(dicts[i])

        yield from rows(f"river: {name}, dict", learn, predict, n, repeats)


def table(found: list[Row]) -> str:
    """A Markdown table, one line for each model."""
    calls = list(dict.fromkeys(r.call for r in found))
    lines = [f"| | {' | '.join(f'{c}, µs' for c in calls)} |", f"|---|{'---|' * len(calls)}"]
    for what in dict.fromkeys(r.what for r in found):
        cells = {r.call: f"{r.best:.0f} ({r.median:.0f})" for r in found if r.what == what}
        lines.append(f"| {what} | {' | '.join(cells[c] for c in calls)} |")
    return "\n".join(lines)


def verdict(found: list[Row]) -> str:
    """Whether the MLP with DLR-10 is within its limits."""
    first = {r.call: r.best for r in found if r.what == found[0].what}
    ok = first["learn_one"] <= LEARN and first["predict_one"] <= PREDICT
    return (
        f"{found[0].what}: learn_one {first['learn_one']:.0f} of {LEARN:.0f} µs, "
        f"predict_one {first['predict_one']:.0f} of {PREDICT:.0f} µs: {'within' if ok else 'OVER'}"
    )


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and write the rows to a file where one is named."""
    parser = argparse.ArgumentParser(prog="python -m validation.bench.filter")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON too")
    args = parser.parse_args(argv)
    n, repeats = (200, 3) if args.quick else (2000, 7)
    found = [*ours(n, repeats), *rivers(n, repeats)]
    print("Best (median) of the repeats.\n\n" + table(found) + "\n\n" + verdict(found))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump([r._asdict() for r in found], file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

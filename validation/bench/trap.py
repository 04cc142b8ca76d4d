"""The BLAS trap: ``python -m validation.bench.trap`` prints the times of a tall Gram matrix as
JSON.

WᵀW of a 57,722 × 20 array is 46 MFLOP, a millisecond. Some builds of OpenBLAS take a second for it
with more than one thread. A DLR step on the CNN forms such a product: had it fallen into the trap,
its time here would be above that of the plain product's worst call.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from . import cells, ours

REPEATS = 5


def times(what: str, f: Callable[[], Any], scale: float = 1.0) -> dict[str, Any]:
    """The best and the worst of a few calls after a first one; the worst is what a trap shows
    in.
    """
    f()
    seen = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        f()
        seen.append((time.perf_counter() - start) * 1e3 * scale)
    return {"what": what, "best ms": min(seen), "worst ms": max(seen)}


def measure(backend: str, n: int = 3) -> list[dict[str, Any]]:
    from bongref.linalg import gram

    W = np.random.default_rng(0).standard_normal((57722, 20))
    side = ours.Ours(backend)
    side.args = ours.build(cells.parse("bong-lin-hess-dlr@cnn"), cells.NETS["cnn"], 0.01, None, n)
    return [
        times("W.T @ W, numpy with its default threads", lambda: W.T @ W),
        times("bongref.linalg.gram(W)", lambda: gram(W)),
        times(
            f"one observation of bong-lin-hess-dlr, rank 10, backend {backend}",
            lambda: side.run(n),
            1 / n,
        ),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="fast")
    print(json.dumps(measure(parser.parse_args().backend)))

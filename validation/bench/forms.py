"""What each second form of the compiled path gains: python -m validation.bench.forms

A form is switched off, and the same stream or prediction is timed with and without it, in turn, in
one process; the best of the repeats counts. The table is that of docs/fast.md; the lines are all
lines of the functions that would go without the form.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from . import cells, ours


def run(
    cell: str, n: int, rng: Callable[[], Any] = lambda: np.random.default_rng(2)
) -> Callable[[], float]:
    """Seconds of an observation of a cell of the grid."""
    import bongref as br

    one = cells.parse(cell)
    var, alpha = cells.TRIES[one.rule][0]
    args = ours.build(one, cells.NETS[one.net], var, alpha, n)
    return lambda: br.run(*args, rng=rng(), backend="fast", progress=False).info.seconds / n


def predicted(kind: str, images: int, samples: int) -> Callable[[], float]:
    """Seconds of an image of a prediction with the CNN."""
    import bongref as br

    net = cells.NETS["cnn"]
    model, lik = br.models.cnn(), br.likelihoods.Categorical()
    state, X = br.Diag(cells.theta(net), np.full(net.n_params, 1e-4)), cells.data(net, images)[0]
    more = {} if kind == "plugin" else {"n_samples": samples}

    def once() -> float:
        given = more | ({"rng": np.random.default_rng(0)} if more else {})
        start = time.perf_counter()
        getattr(br.predictive, kind)(model, lik, state, X, **given)
        return (time.perf_counter() - start) / images

    return once


@contextlib.contextmanager
def many() -> Iterator[None]:
    """Full covariances without the forms for few rows."""
    from bongref.fast import fc_forms

    with mock.patch.object(fc_forms, "many", lambda m, P, K: True):
        yield


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    from bongref.fast import threads

    with (
        mock.patch.object(threads, "available", lambda: 1),
        mock.patch.object(threads, "idle", lambda: 1),
    ):
        yield


@contextlib.contextmanager
def python_loop() -> Iterator[None]:
    """A loop in Python around the kernels of an estimate and of a step."""
    from bongref.fast import stream

    with mock.patch.object(stream, "is_host", lambda fn, kind: True):
        yield


@contextlib.contextmanager
def plain_forward() -> Iterator[None]:
    """Outputs of a CNN pixel by pixel, as in streams."""
    from bongref.fast import predict

    with mock.patch.object(predict, "forward_blocks", predict.forward_all):
        yield


@contextlib.contextmanager
def whole_jacobian() -> Iterator[None]:
    """lin_mc of a CNN with all columns of its Jacobian."""
    from bongref.fast import predict

    with mock.patch.object(predict, "Conv", type(None)):
        yield


def by_blas(Y, X, out, symmetric):  # type: ignore[no-untyped-def]
    """small.add_products through BLAS."""
    out += np.dot(Y, X.T)


@contextlib.contextmanager
def blas() -> Iterator[None]:
    """Gram matrices through BLAS."""
    from bongref.fast import small

    with mock.patch.object(small, "add_products", by_blas):
        yield


def gram(rows: int, P: int) -> Callable[[], float]:
    """Seconds of one Gram matrix."""
    from bongref.fast import jit, small, threads

    X, out = np.random.default_rng(0).standard_normal((rows, P)), np.zeros((rows, rows))
    kernels: dict[Any, Any] = {}

    def once() -> float:
        run = kernels.setdefault(small.add_products, jit.kernel(small.add_products))
        with threads.one_blas_thread():
            run(X, X, out, True)
            start = time.perf_counter()
            for _ in range(1000):
                run(X, X, out, True)
            return (time.perf_counter() - start) / 1000

    return once


FORMS: dict[str, tuple[Any, list[tuple[str, Callable[[], Callable[[], float]]]]]] = {
    "rows of Σ applied late": (
        many,
        [(c, lambda c=c: run(c, 40)) for c in ("bong-lin-hess-fc@mlp", "bog-lin-hess-fc@mlp",
         "bong-lin-hess-fc_mom@mlp")],  # type: ignore[misc]
    ),
    "blr as an increment of the prior": (
        many,
        [(c, lambda c=c: run(c, 20)) for c in ("blr-lin-hess-fc@mlp", "blr-lin-hess-fc_mom@mlp")],
         # type: ignore[misc]
    ),
    "bbb in a basis of few directions": (
        many,
        [(c, lambda c=c: run(c, 20)) for c in ("bbb-lin-hess-fc@mlp", "bbb-lin-hess-fc_mom@mlp")],
         # type: ignore[misc]
    ),
    "products of long rows": (
        blas,
        [(f"{n} rows, P = 881", lambda n=n: gram(n, 881)) for n in (12, 22, 110)],
         # type: ignore[misc]
    ),
    "the loop as one kernel": (
        python_loop,
        [(c, lambda c=c: run(c, 2000)) for c in ("bong-lin-hess-diag@mlp", "bong-lin-hess-dlr@mlp",
         "bong-lin-hess-fc@mlp")],  # type: ignore[misc]
    ),
    "samples shared by threads": (
        one_thread,
        [(c, lambda c=c: run(c, 5)) for c in ("bong-mc-ef-diag@cnn", "bong-mc-ef-dlr@cnn")],
         # type: ignore[misc]
    ),
    "outputs by blocks of pixels": (
        plain_forward,
        [("plugin, 1,000 images", lambda: predicted("plugin", 1000, 1))],
    ),
    "lin_mc: dense layers forward": (
        whole_jacobian,
        [("lin_mc, 200 images, 100 samples", lambda: predicted("lin_mc", 200, 100))],
    ),
}  # fmt: skip


def measure(repeats: int, chosen: str = "") -> Iterator[tuple[str, str, float, float]]:
    """(form, what is timed, seconds with it, seconds without it) where the name of one or the other
    contains ``chosen``.
    """
    for form, (without, cases) in FORMS.items():
        for what, make in cases:
            if chosen not in f"{form} {what}":
                continue
            once = make()
            times: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(repeats + 1):  # the first ones compile
                times[True].append(once())
                with without():
                    times[False].append(once())
            yield form, what, min(times[True][1:]), min(times[False][1:])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.bench.forms")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--form", default="", help="only forms or cells whose name contains this")
    args = parser.parse_args(argv)
    print("| form | cell | with it µs | without it µs | gain |\n|---|---|---|---|---|")
    for form, what, a, b in measure(args.repeats, args.form):
        print(f"| {form} | `{what}` | {a * 1e6:,.3g} | {b * 1e6:,.3g} | {b / a:.2g} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""One thread of BLAS and of Numba: many runs side by side take one each."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

# for processes that are started: what libraries read when they are loaded
ENVIRONMENT = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    )
}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Inside, BLAS and the compiled path have one thread, also where they are loaded already."""
    from threadpoolctl import threadpool_limits

    before = os.environ.get("NUMBA_NUM_THREADS")
    os.environ["NUMBA_NUM_THREADS"] = "1"
    config = getattr(sys.modules.get("numba"), "config", None)
    threads = getattr(config, "NUMBA_NUM_THREADS", None)
    if config is not None:
        config.NUMBA_NUM_THREADS = 1
    try:
        with threadpool_limits(1):
            yield
    finally:
        os.environ.pop("NUMBA_NUM_THREADS")
        if before is not None:
            os.environ["NUMBA_NUM_THREADS"] = before
        if config is not None:
            config.NUMBA_NUM_THREADS = threads

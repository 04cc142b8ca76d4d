"""What the machine can do at best, and what it is: ``python -m validation.bench.limits`` prints
both as JSON.

Bandwidth is that of a[i] = b[i] + s·c[i] in one thread, 24 bytes for each i, with arrays that fit
together into the L2 cache, into the L3 cache, and into neither. The rate of products is that of a
square float64 matrix product with one BLAS thread and with all.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EIGH_SIZES = (11, 20, 21, 30, 110, 120)  # R + K and 2R + K of the grid
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def best(f: Callable[[], Any], seconds: float = 0.3, least: int = 3) -> float:
    """The shortest time of f(), called for that long and at least three times."""
    f()
    shortest, start, calls = float("inf"), time.perf_counter(), 0
    while calls < least or time.perf_counter() - start < seconds:
        t = time.perf_counter()
        f()
        shortest, calls = min(shortest, time.perf_counter() - t), calls + 1
    return shortest


def measure(quick: bool = False) -> dict[str, Any]:
    """All limits, each the best of repeats."""
    seconds = 0.1 if quick else 0.5
    cache = caches()
    sizes = {"L2": cache.get("L2", 2**19), "L3": cache.get("L3", 2**24)}
    bandwidth = {
        name: {"bytes": size, "GB/s": _triad(size // 2, seconds)} for name, size in sizes.items()
    }
    bandwidth["memory"] = {"bytes": None, "GB/s": _triad(max(4 * sizes["L3"], 2**27), seconds)}
    Z, rng = np.empty(2**18), np.random.default_rng(0)
    return {
        "bandwidth": bandwidth,
        "dgemm GFLOP/s": {"1 thread": _child("_dgemm", 1), "all threads": _child("_dgemm", 0)},
        "normals ns": best(lambda: rng.standard_normal(out=Z), seconds) / len(Z) * 1e9,
        "eigh us": _child("_eigh", 1),
    }


def better(a: Any, b: Any, key: str = "") -> Any:
    """Of two measurements the better one in each entry: another process may have been in the way
    of either.
    """
    if isinstance(a, dict):
        return {k: better(a[k], b[k], f"{key} {k}") for k in a}
    if a is None or b is None:
        return a
    return (max if "/s" in key else min)(a, b)


def _triad(total: int, seconds: float) -> float:
    """GB/s of a loop over three arrays of so many bytes together."""
    import numba

    @numba.njit(error_model="numpy")
    def triad(a, b, c, s, times):
        for _ in range(times):
            for i in range(a.size):
                a[i] = b[i] + s * c[i]

    n = total // 24
    a, b, c = np.zeros(n), np.ones(n), np.ones(n)
    times = max(1, 2**22 // n)
    return 24e-9 * n * times / best(lambda: triad(a, b, c, 0.5, times), seconds)


def _dgemm() -> float:
    A, B = np.random.default_rng(0).standard_normal((2, 1000, 1000))
    out = np.empty_like(A)
    return 2e-9 * len(A) ** 3 / best(lambda: np.matmul(A, B, out=out), 0.5)


def _eigh() -> dict[str, float]:
    from scipy.linalg.lapack import dsyevd

    out = {}
    for n in EIGH_SIZES:
        A = np.random.default_rng(n).standard_normal((3 * n, n))
        G = np.asfortranarray(A.T @ A)
        out[str(n)] = best(lambda G=G: dsyevd(G), 0.1) * 1e6
    return out


def _child(function: str, threads: int) -> Any:
    """A function of this module in a process with that many BLAS threads; 0 is what the BLAS
    chooses itself.
    """
    env = {key: value for key, value in os.environ.items() if key not in THREADS}
    env |= dict.fromkeys(THREADS, str(threads)) if threads else {}
    command = (
        f"import json; from validation.bench import limits; print(json.dumps(limits.{function}()))"
    )
    return json.loads(
        subprocess.run(
            [sys.executable, "-c", command], env=env, check=True, capture_output=True, text=True
        ).stdout
    )


# --- the machine ----------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """CPU, caches, memory, system, versions. No names of hosts, users or folders."""
    import bongref

    return {
        "cpu": _line("/proc/cpuinfo", r"model name\s*:\s*(.+)")
        or platform.processor()
        or platform.machine(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "vector units": [
            flag
            for flag in ("avx2", "avx512f", "fma")
            if flag in (_line("/proc/cpuinfo", r"flags\s*:\s*(.+)") or "").split()
        ],
        "caches": caches(),
        "memory GiB": round(int(_line("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) / 2**20, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "bongref": bongref.__version__,
        "python": platform.python_version(),
        **versions("numpy", "scipy", "numba", "threadpoolctl"),
        "blas": _blas(),
    }


def versions(*packages: str) -> dict[str, str | None]:
    """The installed versions, None for what is not there."""
    from importlib.metadata import PackageNotFoundError, version

    def one(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    return {name: one(name) for name in packages}


def caches() -> dict[str, int]:
    """Bytes of the data caches of the first core, as the system tells them."""
    out = {}
    for folder in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        level, kind, size = (
            (Path(folder) / name).read_text().strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction":
            out[f"L{level}"] = int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
    return out


def _blas() -> dict[str, Any]:
    """Which BLAS numpy uses, and with how many threads."""
    config: Any = np.show_config(mode="dicts")  # type: ignore[call-overload]
    found = config["Build Dependencies"]["blas"]
    out: dict[str, Any] = {
        "name": found.get("name"),
        "version": found.get("version"),
        "threads": None,
    }
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return out
    pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    keep = ("internal_api", "version", "num_threads", "architecture", "threading_layer")
    return {
        **out,
        "threads": max((p["num_threads"] for p in pools), default=None),
        "loaded": [{k: p.get(k) for k in keep} for p in pools],
    }


def _line(file: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(file).read_text())
    except OSError:
        return None
    return found.group(1).strip() if found else None


if __name__ == "__main__":
    found = {"machine": machine()}
    if "--machine" not in sys.argv:
        found["limits"] = measure("--quick" in sys.argv)
    print(json.dumps(found, indent=1))

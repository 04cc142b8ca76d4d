"""Threads of Python around kernels that release the GIL.

They are safe wherever Python's own threads are: after a fork (the pool belongs to the process that
made it), in several threads at once, in worker processes. Handing work to a thread and waiting for
it takes about 64 µs, so that they are started only for work of some hundred microseconds
(tuning.py). Numba's own threads (prange) are not used: their layers abort a process that forks
after a parallel region (GNU OpenMP) or that uses them from two threads at once (workqueue).
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .jit import config

_pools: dict[int, ThreadPoolExecutor] = {}  # by process, so that a forked one makes its own
_lock = threading.Lock()


def available() -> int:
    """NUMBA_NUM_THREADS, or the processors that this process may use; plain Python has one."""
    if config.DISABLE_JIT:
        return 1
    mine = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if mine else os.cpu_count() or 1
    return max(1, min(int(config.NUMBA_NUM_THREADS), cores))


def idle() -> int:
    """How many threads find an idle processor now, by the load of the last minute."""
    if available() == 1 or not hasattr(os, "getloadavg"):
        return available()
    others = max(0.0, os.getloadavg()[0] - 1.0)  # this process counts too
    return max(1, min(available(), round((os.cpu_count() or 1) - others)))


def _pool() -> ThreadPoolExecutor:
    with _lock:
        if os.getpid() not in _pools:
            _pools.clear()
            _pools[os.getpid()] = ThreadPoolExecutor(available(), "bongref")
        return _pools[os.getpid()]


def together(n: int, work: Callable[[int], Any]) -> None:
    """work(0), …, work(n − 1), each in a thread of its own, the first one in this."""
    others = [_pool().submit(work, k) for k in range(1, n)]
    try:
        work(0)
    finally:
        for other in others:
            other.result()


def share(n: int, count: int, work: Callable[[int, slice], Any]) -> None:
    """work(k, part) for n consecutive parts of range(count), each in a thread of its own."""
    together(n, lambda k: work(k, slice(count * k // n, count * (k + 1) // n)))


def _after_fork() -> None:
    """A forked process has none of its parent's threads, nor may it have a lock they held."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# --- the threads of BLAS --------------------------------------------------------------------------


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  so that its BLAS is loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class _Limit:
    """How many streams limit BLAS to one thread now, and what restores its setting."""

    count = 0
    limiter: Any = None


def _take_control() -> None:
    """threadpoolctl heeds only the thread that first set a limit of OpenBLAS; from now on this."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Every BLAS has one thread until the last of several streams leaves; then as before."""
    with _lock:
        if _Limit.count == 0:
            _take_control()
            _Limit.limiter = _controller().limit(limits=1, user_api="blas")
        _Limit.count += 1
    try:
        yield
    finally:
        with _lock:
            _Limit.count -= 1
            if _Limit.count == 0:
                _take_control()
                _Limit.limiter.__exit__(None, None, None)  # and whichever thread may be the next

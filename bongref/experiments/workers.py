"""Who computes runs: this process, processes of this machine (loky), or a Dask cluster.

    with pool(n_workers=2) as workers:
        future = workers.submit(execute, spec)
        record = future.result()

All three have ``submit(fn, spec) -> future``, ``wait(futures, timeout) -> finished ones`` and
``capacity``, the number of runs that it is worth to have submitted. A worker that dies is seen as
:class:`WorkerDied` from ``future.result()``; :func:`gather` then submits its runs again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Protocol

from .. import checks
from ..errors import InvalidValue
from .records import Record
from .specs import Spec
from .threads import ENVIRONMENT

ATTEMPTS = 3  # at a run whose worker died
CONNECT = 20.0  # seconds to find a scheduler
PATIENCE = 1.0  # seconds between two looks at what is finished
ALONE = 300.0  # seconds to wait for a first worker, or for one to come back


class WorkerDied(Exception):
    """The process that computed a run has ended."""


class ClusterGone(Exception):
    """The scheduler or all workers of a cluster are gone; what is computed is safe."""


class Pool(Protocol):
    """Workers behind one small interface."""

    @property
    def capacity(self) -> int:
        """How many runs it is worth to have submitted."""

    def submit(self, fn: Callable[[Spec], Record], spec: Spec) -> Any:
        """Start fn(spec) somewhere; the future's ``result()`` is its value."""

    def wait(self, futures: Collection[Any], timeout: float) -> set[Any]:
        """Those that are finished, after at most ``timeout`` seconds."""

    def close(self, at_once: bool = False) -> None:
        """End the workers; ``at_once`` without waiting for what they do."""

    def __enter__(self) -> Pool:
        """The pool itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Close it."""


class _Closing:
    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close(at_once=kind is not None)

    def close(self, at_once: bool = False) -> None:
        """Nothing to end."""


class InProcess(_Closing):
    """This process: ``submit`` computes at once."""

    capacity = 1

    def submit(self, fn: Callable[[Spec], Record], spec: Spec) -> Future[Record]:
        """Compute fn(spec); the future is finished."""
        future: Future[Record] = Future()
        try:
            future.set_result(fn(spec))
        except Exception as error:
            future.set_exception(error)
        return future

    def wait(self, futures: Collection[Any], timeout: float) -> set[Any]:
        """All of them."""
        return set(futures)


class Processes(_Closing):
    """Processes of this machine, by loky; each has one BLAS and one Numba thread."""

    def __init__(self, n_workers: int) -> None:
        try:
            from loky import ProcessPoolExecutor
        except ImportError:
            raise ImportError(
                "--workers needs loky: pip install 'bongref[experiments]'; without it, --workers 1"
            ) from None
        self.executor: Any = None
        make: Any = ProcessPoolExecutor
        self.make: Callable[[], Any] = lambda: make(
            n_workers,
            timeout=60,
            initializer=_begin,
            initargs=(os.getpid(),),
            env=dict(ENVIRONMENT),
        )
        self.capacity = 2 * n_workers  # one in work and one waiting for each

    def submit(self, fn: Callable[[Spec], Record], spec: Spec) -> Any:
        """Queue fn(spec)."""
        if self.executor is None:
            self.executor = self.make()
        try:
            return self.executor.submit(_safely, fn, spec)
        except BrokenProcessPool:  # not noticed yet by whoever waits for its futures
            self.close(at_once=True)
            self.executor = self.make()
            return self.executor.submit(_safely, fn, spec)

    def wait(self, futures: Collection[Any], timeout: float) -> set[Any]:
        """Those that are finished; where a worker has died, all that were with it."""
        done = set(wait_for(futures, timeout, return_when=FIRST_COMPLETED).done)
        if any(isinstance(f.exception(), BrokenProcessPool) for f in done):
            self.close(at_once=True)
            done = set(wait_for(futures, timeout).done)
        return done

    def close(self, at_once: bool = False) -> None:
        """End the processes."""
        if self.executor is not None:
            self.executor.shutdown(wait=True, kill_workers=at_once)
        self.executor = None


def _begin(parent: int) -> None:
    """Ctrl-C is for the process that started the workers; where that one is killed, they end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _safely(fn: Callable[[Spec], Record], spec: Spec) -> Record:
    return fn(spec)


class Cluster(_Closing):
    """A Dask cluster: every run under its own id, so that the same run is never computed twice."""

    def __init__(self, address: str) -> None:
        try:
            import distributed
        except ImportError:
            raise ImportError(
                "--scheduler needs dask: pip install 'bongref[experiments]'"
            ) from None
        try:
            make: Any = distributed.Client
            self.client: Any = make(address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise InvalidValue(
                f"scheduler must be the address of a running Dask scheduler, such as "
                f"tcp://host:8786, got {address!r} ({error})"
            ) from None
        for part in ("client", "core", "utils", "batched", "comm.core", "comm.tcp"):
            logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)  # we tell it
        self.address = address
        self.idle = 0.0  # seconds without any worker

    @property
    def capacity(self) -> int:
        """Two runs for each thread of the workers that are there now."""
        return 2 * max(1, sum(self._workers().values()))

    def submit(self, fn: Callable[[Spec], Record], spec: Spec) -> Any:
        """Queue fn(spec) under the id of the run; Dask tries again where a worker is lost."""
        return self.client.submit(fn, spec, key=spec.id, retries=2, pure=False)

    def wait(self, futures: Collection[Any], timeout: float) -> set[Any]:
        """Those that are finished.

        Raises
        ------
        ClusterGone
            If the scheduler does not answer, or no worker is there for a long time.
        """
        import distributed

        if self.client.status not in ("running", "connecting"):
            raise ClusterGone(f"the scheduler at {self.address} is gone")
        try:
            wait: Any = distributed.wait
            with self.client.as_current():
                done = wait(list(futures), timeout=timeout, return_when="FIRST_COMPLETED").done
        except (TimeoutError, distributed.TimeoutError):
            done = {f for f in futures if f.done()}
        except (OSError, asyncio.CancelledError, CancelledError):
            raise ClusterGone(f"the scheduler at {self.address} is gone") from None
        self.idle = 0.0 if done or self._workers() else self.idle + timeout
        if self.idle > ALONE:
            raise ClusterGone(f"no worker has been at {self.address} for {ALONE:.0f} s")
        return set(done)

    def _workers(self) -> dict[str, int]:
        """The threads of the workers that are there now; none where the scheduler is gone."""
        try:
            found: dict[str, int] = dict(self.client.nthreads())
            return found
        except (OSError, TimeoutError):
            return {}

    def close(self, at_once: bool = False) -> None:
        """Leave the cluster, which goes on."""
        self.client.close(timeout=5)


def pool(n_workers: int = 1, scheduler: str | None = None) -> Pool:
    """The workers of a command.

    Parameters
    ----------
    n_workers : int
        Processes; 1 is this process.
    scheduler : str, optional
        The address of a Dask scheduler, in place of processes of this machine.

    Returns
    -------
    Pool

    Raises
    ------
    InvalidValue
        If there is no such scheduler.
    ImportError
        If loky or dask is needed and not installed.
    """
    if scheduler is not None:
        return Cluster(scheduler)
    n_workers = checks.integer("workers", n_workers, 1)
    return InProcess() if n_workers == 1 else Processes(n_workers)


def gather(
    workers: Pool, fn: Callable[[Spec], Record], specs: Sequence[Spec], patience: float = PATIENCE
) -> Iterator[tuple[Spec, Record | Exception | None]]:
    """fn of every spec as it is finished; an exception where there is no result.

    From time to time (None) is in place of a result, so that the caller can show that it lives. A
    run whose worker died is tried again, alone, so that it takes no other one with it; after three
    deaths the result is :class:`WorkerDied`.

    Parameters
    ----------
    workers : Pool
    fn : callable
        Of a spec; it must be one that can be sent to another process.
    specs : sequence of Spec
    patience : float
        Seconds between two looks.

    Yields
    ------
    spec : Spec
    result : Record, Exception or None
    """
    waiting, running, deaths = deque(specs), dict[Any, Spec](), dict[str, int]()
    while waiting or running:
        while waiting and _may_start(waiting[0], running, deaths, workers.capacity):
            spec = waiting.popleft()
            running[workers.submit(fn, spec)] = spec
        finished = workers.wait(running, patience)
        if not finished:
            yield next(iter(running.values())), None
        for future in finished:
            spec = running.pop(future)
            result = _result(future)
            if isinstance(result, WorkerDied):
                deaths[spec.id] = deaths.get(spec.id, 0) + 1
                if deaths[spec.id] < ATTEMPTS:
                    waiting.append(spec)
                    continue
            yield spec, result


def _may_start(spec: Spec, running: dict[Any, Spec], deaths: dict[str, int], capacity: int) -> bool:
    """Whether there is capacity; a run that has seen a worker die is to be alone."""
    alone = spec.id in deaths or any(other.id in deaths for other in running.values())
    return not running if alone else len(running) < capacity


def _result(future: Any) -> Record | Exception:
    try:
        found: Record = future.result()
        return found
    except BrokenProcessPool:
        return WorkerDied("a worker process ended: killed, or out of memory")
    except (Exception, asyncio.CancelledError) as error:
        name = type(error).__name__
        if name in ("KilledWorker", "CancelledError", "FutureCancelledError", "CommClosedError"):
            return WorkerDied(f"a worker of the cluster ended ({name})")
        return error if isinstance(error, Exception) else WorkerDied(name)

"""How every kernel is compiled, kept, and announced at its first use.

``fastmath`` as a whole would let the compiler take NaN for impossible. ``reassoc`` and ``contract`` alone allow a sum to be taken in
another order, which is what lets it use the vector units, and a·b + c to be rounded once; NaN and infinities stay what they are.
Where an order of operations carries digits (a rounding error that is computed, a number rounded by adding a large one) the function is
``ordered``.

Compiled entry points are kept on disk by Numba. It looks only at the file of the entry point itself to see whether they are fresh, and
two processes that compile at the same time can each find the other's half-written entry: here the stamp is a hash of all files of the
fast path, and a lock lets one process compile while the others wait for what it keeps.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import njit, types

from . import parts

config: Any = numba.config
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
REORDER = {"reassoc", "contract"}
ENTRY: dict[str, Any] = {"pipeline_class": parts.EntryCompiler, "no_cfunc_wrapper": True, "fastmath": REORDER, **OPTIONS}
PATIENCE = 1.0  # seconds after which a compilation is announced

compiling = {"seconds": 0.0}  # spent so far in this process, for run's info
_lock, _depth = threading.RLock(), [0]


def _stamp() -> str:
    """A hash of the sources of the fast path and of the reference models that it describes."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()


STAMP = _stamp()


def kernel(fn: Callable) -> Any:
    """An entry point: compiled at its first use, kept on disk."""
    try:
        dispatcher: Any = njit(cache=True, **ENTRY)(fn)
    except RuntimeError:  # no directory to keep it in
        dispatcher = njit(**ENTRY)(fn)
    if config.DISABLE_JIT:
        return dispatcher
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = STAMP
    compile_now = dispatcher.compile

    def compile_once(signature):
        with _first_use(dispatcher, f"{fn.__module__.removeprefix('bongref.')}.{fn.__name__}"):
            entry = compile_now(signature)
            parts.environments(dispatcher)
            return entry

    def get_call_template(args, kws):
        raise TypeError(f"{fn.__name__} is an entry point, of which only the machine code is kept: kernels call parts")

    dispatcher.compile, dispatcher.get_call_template = compile_once, get_call_template
    return dispatcher


def part_of(**options: Any) -> Callable[[Callable], Any]:
    """A decorator for parts of entry points. A literal argument is a number like any other: Numba would compile the part for each anew.

    Called from Python, which only tests do, a part is compiled once more, as a function of its own.
    """

    def decorate(fn: Callable) -> Any:
        if config.DISABLE_JIT:
            return fn
        dispatcher: Any = njit(**{**parts.CHOSEN, **options, **OPTIONS})(fn)
        template, alone = dispatcher.get_call_template, functools.cache(lambda: njit(**{**options, "_nrt": True}, **OPTIONS)(fn))
        dispatcher.get_call_template = lambda args, kws: template([types.unliteral(a) for a in args], kws)
        dispatcher.add_overload = lambda result: dispatcher.overloads.__setitem__(tuple(result.signature.args), result)
        dispatcher._compile_for_args = lambda *args, **kws: alone()
        return dispatcher

    return decorate


inner: Any = part_of(fastmath=REORDER)  # a part of entry points
making: Any = part_of(fastmath=REORDER, _nrt=True)  # a part that makes arrays
ordered: Any = part_of(fastmath={"contract"})  # a part whose operations stay in their order
inlined: Any = njit(inline="always", fastmath=REORDER, **OPTIONS)  # a part of one entry point, compiled only there


@contextlib.contextmanager
def _first_use(dispatcher: Any, name: str) -> Iterator[None]:
    """One process and one thread at a time; says what is going on if it takes long."""
    with _lock:
        _depth[0] += 1
        if _depth[0] > 1:
            try:
                yield
            finally:
                _depth[0] -= 1
            return
        start = time.perf_counter()
        said = threading.Event()

        def say() -> None:
            said.set()
            sys.stderr.write(f"bongref: compiling {name} for this machine, once; 10 to 20 s ...\n")
            sys.stderr.flush()

        timer = threading.Timer(PATIENCE, say)
        timer.daemon = True
        timer.start()
        collecting = gc.isenabled()
        gc.disable()  # a compiler makes many objects that live: looking through them again and again takes a fifth of the time
        try:
            with _file_lock(getattr(getattr(dispatcher, "_cache", None), "cache_path", None)), parts.remembering():
                yield
        finally:
            if collecting:
                gc.enable()
            timer.cancel()
            seconds = time.perf_counter() - start
            compiling["seconds"] += seconds
            if said.is_set():
                sys.stderr.write(f"bongref: {name} compiled in {seconds:.1f} s\n")
            _depth[0] -= 1


@contextlib.contextmanager
def _file_lock(folder: str | None) -> Iterator[None]:
    """An exclusive lock on the folder of compiled code, where the system has such locks and the folder can be written."""
    try:
        import fcntl

        if folder is None:
            raise OSError
        Path(folder).mkdir(parents=True, exist_ok=True)
        handle = os.open(os.path.join(folder, "bongref.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    except (ImportError, OSError):
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

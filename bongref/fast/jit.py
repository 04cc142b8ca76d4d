"""How functions are compiled, cached on disk, and announced at their first use.

* ``device`` functions are called from compiled code; they are compiled into each kernel that uses
  them.
* ``kernel`` functions are called from Python; they are compiled at their first use with each
  combination of types and cached.

Full ``fastmath`` would let the compiler assume that there is no NaN. ``reassoc`` allows sums in
another order, which is what lets LLVM use vector units, and ``contract`` allows a·b + c to be
rounded once; NaN and infinities keep their meaning. Functions whose order of operations carries
digits (a computed rounding error, a number rounded by adding a large one) are ``ordered``.

Numba looks only at the file of a kernel to see whether its cache is fresh, and two processes that
compile different signatures at the same time can take the same file name. Here the cache folder is
named by a hash of all sources of the compiled path, and has a folder and a lock for each kernel and
combination of types: other processes wait for a kernel that one compiles, or compile others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.extending import register_jitable

from . import Unavailable
from .tuning import COMPILE_MESSAGE, LOCK_WAIT

config: Any = numba.config
OPTIONS: dict[str, Any] = {
    "error_model": "numpy", "nogil": True, "fastmath": {"reassoc", "contract"}
}

# for device functions that become part of their callers: no references to arguments are counted
inlined: Any = njit(inline="always", **OPTIONS)
U = np.uint64  # an index of this type is never negative, so that a[U] needs no test

compiling = {"seconds": 0.0}  # spent so far in this process
_lock = threading.RLock()


def _digest() -> str:
    """A hash of all sources of the compiled path."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()[:16]


def _folder() -> Path | None:
    """In NUMBA_CACHE_DIR, beside the package, or in the user's cache; None: none is writable."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    bases = [Path(config.CACHE_DIR)] if config.CACHE_DIR else [
        Path(__file__).parent / "__pycache__", user, Path(tempfile.gettempdir())
    ]
    for base in bases:
        folder = base / f"bongref-{_digest()}"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    return None


FOLDER = None if config.DISABLE_JIT else _folder()


def device(fn: Callable[..., Any]) -> Any:
    """A function that is called from compiled code."""
    return register_jitable(**OPTIONS)(fn)


def ordered(fn: Callable[..., Any]) -> Any:
    """A device function whose floating-point operations stay in their order."""
    return register_jitable(**{**OPTIONS, "fastmath": {"contract"}})(fn)


def _types(a: Any) -> Any:
    """What Numba's types depend on; ``numba.typeof`` itself takes 0.3 ms for a NamedTuple."""
    if isinstance(a, np.ndarray):
        return a.dtype.char, a.ndim, a.flags.c_contiguous, a.flags.writeable
    return (type(a), *[_types(v) for v in a]) if isinstance(a, tuple) else type(a)


class Kernel:
    """A function called from Python: compiled for each combination of types, or from the cache."""

    def __init__(self, fn: Callable[..., Any]):
        fn = getattr(fn, "py_func", fn)  # of an inlined one
        self.function, self.name = fn, f"{fn.__module__.removeprefix('bongref.')}.{fn.__name__}"
        self.known: dict[Any, Any] = {}  # what Numba has made of it, by types

    def __call__(self, *args: Any) -> Any:
        if config.DISABLE_JIT:  # as in compiled code integers wrap around, NaN goes through
            with np.errstate(all="ignore"):
                return self.function(*args)
        types = _types(args)
        compiled = self.known.get(types)
        return self._first(types, args) if compiled is None else compiled(*args)

    def chosen(self, *args: Any) -> Any:
        """What is called for such arguments, without a look at their types, once it is compiled."""
        return self.known.get(_types(args), self)

    def _first(self, types: Any, args: Any) -> Any:
        """The first call with these types; a failure is Unavailable."""
        key = hashlib.sha256(f"{self.name} {types}".encode()).hexdigest()[:16]
        with _first_use(self.name, key):
            try:
                try:
                    result = self._load(types, key, args)
                except (EOFError, ImportError, AttributeError, ValueError, pickle.UnpicklingError):
                    shutil.rmtree(FOLDER / key if FOLDER else "", ignore_errors=True)
                    result = self._load(types, key, args)  # a damaged cache: compile again
            except (MemoryError, KeyboardInterrupt):
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                raise Unavailable(
                    f"numba {numba.__version__} cannot compile {self.name}: {what}"
                ) from error
        return result

    def _load(self, types: Any, key: str, args: Any) -> Any:
        compiled = _cached(self.function, key)
        result = compiled(*args)
        self.known[types] = compiled
        return result


def _cached(fn: Callable[..., Any], key: str) -> Any:
    """The function as Numba compiles it, with a cache folder of its own."""
    before = config.CACHE_DIR
    try:
        if FOLDER is not None:
            config.CACHE_DIR = str(FOLDER / key)
        return njit(cache=FOLDER is not None, **OPTIONS)(fn)
    finally:
        config.CACHE_DIR = before


def kernel(fn: Callable[..., Any]) -> Kernel:
    """A function that is called from Python."""
    return Kernel(fn)


@contextlib.contextmanager
def _first_use(name: str, key: str) -> Iterator[None]:
    """One process and thread at a time for each kernel and types; a message where it is slow."""
    start = time.perf_counter()

    def say() -> None:
        sys.stderr.write(f"bongref: compiling {name} for this machine, once; up to 15 s ...\n")
        sys.stderr.flush()

    timer = threading.Timer(COMPILE_MESSAGE, say)
    timer.daemon = True
    with _lock, _file_lock(key):
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            compiling["seconds"] += time.perf_counter() - start


@contextlib.contextmanager
def _file_lock(key: str) -> Iterator[None]:
    """An exclusive lock on one kernel's cache; given up after LOCK_WAIT s: its owner is stopped."""
    try:
        import fcntl

        if FOLDER is None:
            raise OSError
        handle = os.open(FOLDER / f"{key}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except (ImportError, OSError):
        yield
        return
    try:
        until = time.monotonic() + LOCK_WAIT
        while time.monotonic() < until:  # it only saves compiling twice
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)

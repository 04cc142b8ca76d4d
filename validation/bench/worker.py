"""Processes that time cells: each side of the comparison has its own, so that memory and threads
are apart.

A worker stays alive between cells. It reads one JSON object for each line of standard input and
answers with one line each:

    {"do": "hello"}                                                  versions
    {"do": "prepare", "cell": ..., "var": ..., "alpha": ..., "target": ..., "most": ...}   compiles, chooses how many observations one
                                                                     repeat has so that it takes
                                                                     about ``target`` seconds
    {"do": "load", ...}, {"do": "once"}     before it, the authors' side: compile, one observation
    {"do": "time"}                                                   one repeat: its seconds
    {"do": "mean"}                                                   the mean after one observation (not the authors' side)
    {"do": "done"}                                                   the peak of the resident set during the repeats

An answer with "error" says why there is no other. This module needs the standard library only:
peers import it too.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).parents[2]


# --- in the worker --------------------------------------------------------------------------------


class Side(Protocol):
    """What a worker does for its side."""

    def hello(self) -> dict[str, Any]: ...
    def prepare(
        self, cell: str, var: float, alpha: float | None, target: float, most: int
    ) -> dict[str, Any]: ...
    def time(self) -> dict[str, Any]: ...


def serve(make: Callable[[], Side]) -> None:
    """Answer requests until standard input ends. What the code under test prints goes to
    standard error.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    side, idle = None, 0
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        try:
            side = side or make()
            if do == "prepare":
                idle = settle()
                answer = side.prepare(**request)
                reset_peak()
            elif do == "done":
                answer = {"peak": peak(), "idle": idle}
            else:
                answer = getattr(side, do)(**request)
        except Exception as error:
            sys.stderr.write(traceback.format_exc())
            answer = {"error": short(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def short(error: BaseException) -> str:
    """The kind of an error and its first line, without folders of this machine."""
    first = (str(error).splitlines() or [""])[0]
    words = [
        word if not word.lstrip("'\"(").startswith(("/", "~")) else "…" for word in first.split()
    ]
    return f"{type(error).__name__}: {' '.join(words)[:120]}"


def settle() -> int:
    """Give back what is free, and the resident set that is left, in bytes."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return _status("VmRSS")


def reset_peak() -> None:
    """From here on the peak counts (Linux; elsewhere it is that of the whole process)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The peak of the resident set since the last reset, in bytes."""
    found = _status("VmHWM")
    if found:
        return found
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def _status(key: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":")), 0)


def how_many(seconds_for_one: float, target: float, most: int) -> int:
    """Observations for one repeat of about ``target`` seconds, at least 1."""
    return int(min(most, max(1.0, target / max(seconds_for_one, 1e-9))))


# --- in the process that asks ---------------------------------------------------------------------


class Lost(RuntimeError):
    """A worker that ended."""


class Late(RuntimeError):
    """A worker that did not answer in time."""


class Worker:
    """A worker process; it is started again when it is lost."""

    def __init__(
        self,
        python: str,
        module: str,
        *args: str,
        env: dict[str, str] | None = None,
        log: Any = None,
        timeout: float = 900,
    ):
        self.command = [python, "-m", module, *args]
        self.env = {**os.environ, **(env or {})}
        self.log, self.timeout, self.process, self.buffer = log, timeout, None, b""

    def ask(self, do: str, timeout: float | None = None, **request: Any) -> dict[str, Any]:
        """The answer; {"error": ...} when there is none, "late" when it took too long."""
        try:
            if self.process is None:
                self._start()
            self.process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
            self.process.stdin.flush()
            return json.loads(self._line(self.timeout if timeout is None else timeout))
        except (Late, Lost, OSError) as error:
            self.close()
            return {"error": short(error), **({"late": True} if isinstance(error, Late) else {})}

    def _start(self) -> None:
        self.buffer = b""
        self.process = subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
        )

    def _line(self, timeout: float) -> bytes:
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select(
                [self.process.stdout], [], [], max(0.0, end - time.monotonic())
            )
            if not ready:
                raise Late(f"no answer within {timeout:.0f} s")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise Lost(f"the process ended with code {self.process.wait()}")
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def close(self) -> None:
        """End the process; one that is at work is not waited for."""
        if self.process is None:
            return
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None

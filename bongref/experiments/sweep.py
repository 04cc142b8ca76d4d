"""A grid of runs into a folder: what is there is kept, what is missing is computed."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import execute, records, store, workers
from .records import Record
from .specs import SETTINGS, Spec


class Outcome(NamedTuple):
    """How a sweep ended."""

    status: Counter[str]  # of the runs of the matrix
    lost: dict[str, str]  # id -> why there is no result
    records: list[Record]  # the results of the matrix, in its order


def todo(specs: Sequence[Spec], status: dict[str, str], retry_failed: bool = False) -> list[Spec]:
    """The runs that have no result yet."""
    again = ("failed",) if retry_failed else ()
    return [s for s in specs if s.id not in status or status[s.id] in again]


def sweep(
    specs: Sequence[Spec],
    folder: str,
    n_workers: int = 1,
    scheduler: str | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Compute the runs that a folder does not have yet.

    Parameters
    ----------
    specs : sequence of Spec
        The whole grid.
    folder : str
        Made if there is none.
    n_workers, scheduler
        As in :func:`.workers.pool`.
    retry_failed : bool
        Compute runs again that have failed.
    progress : Progress, optional
        Told of everything that happens.

    Returns
    -------
    Outcome

    Raises
    ------
    InvalidValue
        If the folder cannot be used.
    OSError
        If a result cannot be written.
    """
    show = progress or Progress(len(specs), quiet=True)
    with store.writer(folder) as out:
        missing = todo(specs, out.status, retry_failed)
        out.plan(s.described() for s in specs)
        for note in (*out.notes, *other_versions(out.path, out.status, specs)):
            show.note(note)
        show.start(len(specs) - len(missing), len(missing))
        lost = _computed(missing, out, n_workers, scheduler, show) if missing else {}
        show.end()
        status = Counter(out.status.get(s.id, "missing") for s in specs)
    found = {r["id"]: r for r in store.read(folder, {s.id for s in specs}).records}
    return Outcome(status, lost, [found[s.id] for s in specs if s.id in found])


def _computed(
    missing: list[Spec], out: store.Writer, n_workers: int, scheduler: str | None, show: Progress
) -> dict[str, str]:
    """Compute and store; -> the runs without a result, and why."""
    lost: dict[str, str] = {}
    if n_workers > 1 and scheduler is None:
        execute.warm(missing)
    live = Live(out.folder / "live")
    notify = show.row if n_workers == 1 else live.write
    compute = execute.execute
    if scheduler is None:  # a cluster may be elsewhere, and shows whole runs
        compute = functools.partial(execute.execute, notify=notify)
    with live, workers.pool(n_workers, scheduler) as workers_pool:
        for spec, result in workers.gather(workers_pool, compute, missing):
            for row in live.read():
                show.say_row(row)
            if isinstance(result, Exception):
                lost[spec.id] = f"{type(result).__name__}: {result}"
                show.lost(spec, lost[spec.id])
            elif result is not None and out.status.get(spec.id) not in ("done", "diverged"):
                out.append(result)
                show.finished(result)
            show.beat()
    return lost


class Live:
    """Rows of runs that are not finished, a file for each worker process of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, dict[Path, int]()

    def __enter__(self) -> Live:
        shutil.rmtree(self.folder, ignore_errors=True)  # of a sweep that was killed
        self.folder.mkdir()
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, spec: Spec, row: dict[str, float]) -> None:
        """What a worker calls; it never fails a run."""
        with contextlib.suppress(OSError), open(self.folder / str(os.getpid()), "a") as file:
            file.write(row_line(spec, row) + "\n")

    def read(self) -> list[str]:
        """The last new complete line of every worker."""
        found = []
        for path in sorted(self.folder.glob("*")):
            text = path.read_bytes()[self.seen.get(path, 0) :]
            whole = text[: text.rfind(b"\n") + 1]
            self.seen[path] = self.seen.get(path, 0) + len(whole)
            found += whole.decode().splitlines()[-1:]
        return found


def row_line(spec: Spec, row: dict[str, float]) -> str:
    """A row of a run that goes on, in one line."""
    values = ", ".join(f"{k} {v:.4g}" for k, v in row.items() if k != "t")
    return f"    {spec.method} seed={spec.seed}: t={row['t']} {values}"


def other_versions(path: Path, status: dict[str, str], specs: Sequence[Spec]) -> list[str]:
    """What to say where a file has results of other versions."""
    others = set(status) - {s.id for s in specs}
    if not others:
        return []
    data, now = path.read_bytes(), specs[0].versions
    where = store.scan(data).where
    found = {}
    for id in sorted(others)[:200]:
        at, n = where[id]
        theirs = records.from_line(data[at : at + n]).get("versions", {})
        if theirs != now:
            found[", ".join(f"{k} {v}" for k, v in theirs.items() if now.get(k) != v)] = True
    return [f"{path}: results of {text} are kept and not counted as done" for text in found]


# --- what is shown --------------------------------------------------------------------------------


class Progress:
    """A bar with the time left where standard error is a terminal, else a line for each run."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self.total, self.quiet, self.bar = total, quiet, None
        self.count = self.first = 0
        self.begun = time.perf_counter()
        self.told = float("-inf")  # when a row was last shown

    def start(self, there: int, missing: int) -> None:
        """How many runs are there already."""
        self.count = self.first = there
        self.begun = time.perf_counter()
        if there and not self.quiet:
            self.say(f"{there} of {self.total} runs are there already, {missing} to compute")
        if sys.stderr.isatty() and not self.quiet and missing:
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, initial=there, unit="run", file=sys.stderr)

    def say(self, text: str) -> None:
        """A line of output, above the bar."""
        if self.bar is not None:
            self.bar.write(text, file=sys.stdout)
        else:
            print(text, flush=True)

    def row(self, spec: Spec, row: dict[str, float]) -> None:
        """A row of a run that goes on, in this process."""
        self.say_row(row_line(spec, row))

    def say_row(self, text: str) -> None:
        """A row of a run that goes on: the first at once, others every two seconds at most."""
        if not self.quiet and time.monotonic() - self.told > 2.0:
            self.told = time.monotonic()
            self.say(text)

    def note(self, text: str) -> None:
        """Something to know, on standard error."""
        print(f"bongref: {text}", file=sys.stderr, flush=True)

    def finished(self, record: Record) -> None:
        """A run has a result."""
        self.count += 1
        if self.bar is not None:
            self.bar.update(1)
        if not self.quiet:
            self.say(f"[{self.count}/{self.total}] {line(record)}{self._left()}")
        elif record["status"] == "failed":
            self.note(line(record))

    def _left(self) -> str:
        """The time left, where no bar shows it."""
        done = self.count - self.first
        if self.bar is not None or self.count == self.total or not done:
            return ""
        seconds = (time.perf_counter() - self.begun) / done * (self.total - self.count)
        return f"  ({duration(seconds)} left)"

    def lost(self, spec: Spec, why: str) -> None:
        """A run has no result."""
        self.note(f"{spec.method} seed {spec.seed} has no result: {why}")

    def beat(self) -> None:
        """Time has passed."""
        if self.bar is not None:
            self.bar.refresh()

    def end(self) -> None:
        """All is done."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(75), duration(4000)
    ('1 min 15 s', '1 h 6 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def line(record: Record) -> str:
    """A record in one line: method, parameters, seed, and its last row or what happened."""
    params = {k: v for k, v in record["params"].items() if v not in (None, False)}
    own, of_task = record["settings"], record["task"]
    params |= {k: own[k] for k in SETTINGS if own.get(k) not in (None, of_task.get(k))}
    words = [record["method"], *(f"{k}={v}" for k, v in params.items()), f"seed={record['seed']}"]
    if record["status"] != "done":
        return f"{' '.join(words)}: {record['status']}, {record['reason']}"
    row: dict[str, Any] = record["rows"][-1] if record["rows"] else {}
    values = (f"{k} {v:.4g}" for k, v in row.items() if k != "t")
    return f"{' '.join(words)}: t={row.get('t', 0)} {', '.join(values)}"


def table(found: Sequence[Record]) -> str:
    """Means over seeds of the last rows, ± one standard error, method by method."""
    import numpy as np

    groups: dict[str, list[Record]] = {}
    for record in found:
        params = {k: v for k, v in record["params"].items() if v not in (None, False)}
        how = {k: record["settings"].get(k) for k in SETTINGS}
        differs = [k for k in how if len({str(r["settings"].get(k)) for r in found}) > 1]
        several = {k: how[k] for k in differs if how[k] is not None or k != "w0"}
        words = [f"{k}={v}" for k, v in {**params, **several}.items()]
        groups.setdefault(" ".join([record["method"], *words]), []).append(record)
    names = list(dict.fromkeys(k for r in found for row in r["rows"] for k in row if k != "t"))
    width = max([len(g) for g in groups] + [6])
    lines = [f"{'method':<{width}}  runs  diverged  " + "  ".join(f"{n:>18}" for n in names)]
    for group, members in groups.items():
        done = [r for r in members if r["status"] == "done" and r["rows"]]
        cells = []
        for name in names:
            values = np.array([r["rows"][-1][name] for r in done if name in r["rows"][-1]])
            cells.append(_cell(values))
        diverged = sum(r["status"] == "diverged" for r in members)
        lines.append(
            f"{group:<{width}}  {len(members):>4}  {diverged:>8}  "
            + "  ".join(f"{c:>18}" for c in cells)
        )
    return "\n".join(lines)


def _cell(values: Any) -> str:
    import numpy as np

    if len(values) == 0:
        return "-"
    if len(values) == 1 or not np.all(np.isfinite(values)):
        return _short(np.mean(values))
    return f"{_short(np.mean(values))} ± {_short(np.std(values, ddof=1) / np.sqrt(len(values)))}"


def _short(x: Any) -> str:
    return f"{x:.4f}" if abs(x) < 1e6 else f"{x:.4g}"

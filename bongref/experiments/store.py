"""Results in a folder: ``results.jsonl``, appended to by one writer at a time, read by anyone.

    with store.writer("results") as out:         # refused while another process has it
        if id not in out.status:
            out.append(record)
    found = store.read("results")                # found.records, found.notes

A line is written at once, flushed and synchronised, so that a kill can only leave the last line
incomplete. The writer drops such a line when it opens the folder; a write that fails (a full disk)
is undone. A line with a wrong checksum is reported, left in the file and not used.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Container, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from ..errors import InvalidValue
from ..reports import save
from . import records
from .records import Record

NAME, LOCK, PLAN = "results.jsonl", "lock", "plan.json"


class Scan(NamedTuple):
    """What a file of results holds, without reading the records themselves."""

    status: dict[str, str]  # id -> status; the last line of an id counts
    where: dict[str, tuple[int, int]]  # id -> first byte and length of its line
    good: int  # bytes up to the end of the last complete line
    torn: int  # bytes of an incomplete last line
    damaged: list[int]  # numbers, from 1, of lines whose checksum is wrong


class Found(NamedTuple):
    """The records of a folder in the order of their lines, and what there is to say about it."""

    records: list[Record]
    notes: list[str]


def scan(data: bytes, name: str = NAME) -> Scan:
    """The ids in the text of a file, every line checked.

    Raises
    ------
    InvalidValue
        If the file is of another format, or is not one of results.
    """
    status: dict[str, str] = {}
    where: dict[str, tuple[int, int]] = {}
    damaged: list[int] = []
    view, start, number = memoryview(data), 0, 0
    while (end := data.find(b"\n", start)) >= 0:
        number += 1
        if (found := records.head(data, view, start, end)) is None:
            damaged.append(number)
        else:
            form, id, now = found
            if form != records.FORMAT:
                raise InvalidValue(_other_format(name, form))
            status[id], where[id] = now, (start, end - start)
        start = end + 1
    if number and len(damaged) == number:
        raise InvalidValue(
            f"{name} must be made of lines that bongref run wrote, and none of its {number} "
            "line(s) is; use another --out"
        )
    return Scan(status, where, start, len(data) - start, damaged)


def scan_folder(folder: str | os.PathLike[str]) -> Scan:
    """The ids in a folder, without writing to it."""
    path = Path(folder) / NAME
    return scan(path.read_bytes() if path.is_file() else b"", str(path))


def _other_format(name: str, form: int) -> str:
    return (
        f"{name} has records of format {form}, and this version reads format {records.FORMAT}; "
        "use another --out, or the version of bongref that wrote it"
    )


def _notes(found: Scan, name: str) -> list[str]:
    notes = []
    if found.torn:
        notes.append(f"{name}: an incomplete last line of {found.torn} bytes is not used")
    if found.damaged:
        lines = ", ".join(map(str, found.damaged[:5])) + (", ..." if found.damaged[5:] else "")
        notes.append(
            f"{name}: {len(found.damaged)} damaged line(s) (number {lines}) are not used; the "
            "same command computes their runs again"
        )
    return notes


def read(folder: str | os.PathLike[str], ids: Container[str] | None = None) -> Found:
    """All records of a folder, finished or not; the last one where an id occurs twice.

    Parameters
    ----------
    folder : path
        That ``bongref run`` wrote, or is writing.
    ids : container of str, optional
        Only the records with these ids.

    Returns
    -------
    Found
        ``.records``, and ``.notes`` about lines that cannot be used.

    Raises
    ------
    InvalidValue
        If there are no results, or they are of another format.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with writer(folder) as out:
    ...     out.append({"id": "0" * 16, "status": "done", "rows": [{"t": 1, "rmse": 0.5}]})
    >>> read(folder).records[0]["rows"]
    [{'t': 1, 'rmse': 0.5}]
    """
    path = Path(folder) / NAME
    if not path.is_file():
        raise InvalidValue(
            f"folder must hold results of bongref run, and there is no {path}; "
            "bongref run TASK --out FOLDER makes one"
        )
    data = path.read_bytes()
    found = scan(data, str(path))
    where = sorted(w for id, w in found.where.items() if ids is None or id in ids)
    lines = (data[at : at + n] for at, n in where)
    return Found([records.from_line(line) for line in lines], _notes(found, str(path)))


def planned(folder: str | os.PathLike[str]) -> dict[str, Record | None]:
    """All runs that were asked for in a folder, by their keys; none where that is not known.

    Of each its method, its settings and what :func:`.records.group_key` gives; None for those of a
    plan that an older version wrote, which has the keys alone.
    """
    try:
        found = json.loads((Path(folder) / PLAN).read_text(encoding="utf-8"))
        return dict(found) if isinstance(found, dict) else dict.fromkeys(found)
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


class Writer:
    """The one process that appends to a folder; made by :func:`writer`.

    Attributes
    ----------
    status : dict
        The status of every run that is there, by id.
    notes : list of str
        What was found at opening: an incomplete or damaged line.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = _folder(folder)
        self.path = self.folder / NAME
        with contextlib.ExitStack() as opened:
            self._lock = _locked(self.folder)
            opened.callback(os.close, self._lock)
            self._file = _opened(self.path)
            opened.callback(os.close, self._file)
            found = scan(self.path.read_bytes(), str(self.path))
            os.ftruncate(self._file, found.good)
            opened.pop_all()
        self.notes = _notes(found, str(self.path))
        self.status, self.size = found.status, found.good

    def append(self, record: Record) -> None:
        """Add a record; it is on the disk when this returns.

        Raises
        ------
        OSError
            If it cannot be written; the file is then as it was before.
        """
        line = records.to_line(record) + b"\n"
        try:
            os.ftruncate(self._file, self.size)  # what an interrupted or failed write has left
            os.lseek(self._file, self.size, os.SEEK_SET)
            _write_all(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise OSError(
                error.errno,
                f"a result could not be written ({error.strerror}); the {len(self.status)} "
                "results before it are safe. Free disk space, and give the same command again",
                str(self.path),
            ) from None
        self.size += len(line)
        self.status[record["id"]] = record["status"]

    def plan(self, asked: Iterable[Record]) -> None:
        """Note the runs that were asked for, so that a reader knows what is left."""
        known = planned(self.folder)
        wanted = {one["key"]: records.outline(one) for one in asked}
        if any(known.get(key) is None for key in wanted):
            save(self.folder / PLAN, json.dumps(known | wanted, sort_keys=True))

    def close(self) -> None:
        """Give the folder free."""
        os.close(self._file)
        os.close(self._lock)  # which also unlocks it

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()


def writer(folder: str | os.PathLike[str]) -> Writer:
    """Open a folder for results, made if there is none; an incomplete last line is dropped.

    Raises
    ------
    InvalidValue
        If it cannot be written to, another process writes to it, or it is of another format.
    """
    return Writer(folder)


def _opened(path: Path) -> int:
    """A file to read and write, made if there is none."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise InvalidValue(
            f"out must be a folder whose files you can write to, got {str(path)!r} "
            f"({error.strerror}); use another --out"
        ) from None


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue(
            f"out must be a folder that can be made, got {str(path)!r} ({error.strerror}); "
            "use another --out"
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InvalidValue(
            f"out must be a folder that you can write to, got {str(path)!r}; use another --out"
        )
    return path


# --- the lock -------------------------------------------------------------------------------------


def _locked(folder: Path) -> int:
    """The open lock file of a folder. The system unlocks it when the process ends, however."""
    path = folder / LOCK
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InvalidValue(
            f"out must be a folder that you can write to, got {str(folder)!r} "
            f"({error.strerror}); use another --out"
        ) from None
    if not _take(file):
        who = _who(os.read(file, 1000))
        os.close(file)
        raise InvalidValue(
            f"out: {str(folder)!r} is being written to by {who}; wait for it, or use another --out"
        )
    note = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()
    try:
        os.ftruncate(file, 0)
        os.write(file, note)
    except BaseException:
        os.close(file)
        raise
    return file


def _who(note: bytes) -> str:
    try:
        told: dict[str, Any] = json.loads(note)
        return f"process {told['pid']} on {told['host']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process"


def _take(file: int) -> bool:
    """Lock an open file, if no one has."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            os.lseek(file, 1 << 20, os.SEEK_SET)  # beyond the note, which others may read
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            return True
        except OSError:
            return False
        finally:
            os.lseek(file, 0, os.SEEK_SET)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False

"""Files of arrays and plain data: strict to read, and never half written.

A file is a ZIP archive of .npy members, not compressed, as ``numpy.savez`` writes it. The member
``bongref`` is the document, JSON as bytes: what the file is (format, version, kind), the shape and
the checksum of every array, and the data that are no arrays. docs/files.md is the definition.

Reading trusts nothing. The directory is looked at before any member, every header before its
numbers, and what has to be there is compared with what is there: names, types, shapes, sizes,
checksums. No pickle is ever read, and nothing larger than the file itself is allocated at once.

Writing makes a new file beside the old one, brings it to the disk, and takes the old one's place
with it in one step: whoever reads, and whenever the machine stops, there is the old or the new one.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..errors import InvalidType, InvalidValue, MissingFile
from ..linalg import Array
from ..tables import describe

VERSION, OLDEST = 3, 2
DOCUMENT, OLD_DOCUMENT = "bongref", "rest"
DTYPES = ("<f8", "<i8", "|b1")
MEMBERS = 64  # at most
DIRECTORY = 512 * MEMBERS  # bytes of the archive's directory at most
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,63}")
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # half of a character, unless it is one of a pair
HEADER = 4096  # bytes of the header of a .npy member at most
DEPTH = 50  # of the document
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Content(NamedTuple):
    """What is in a file."""

    version: int
    kind: str
    arrays: dict[str, Array]
    data: Any


class Arrays(dict[str, Array]):
    """Arrays by name; one that is not there is what is wrong with the file."""

    def __missing__(self, name: str) -> Array:
        raise Damaged(f"it has no array {name!r}")


class Damaged(Exception):
    """Why a file is not one of bongref's."""


class WrongCall(InvalidValue):
    """Arguments of load that do not fit the file, with which nothing is wrong."""


# --- reading --------------------------------------------------------------------------------------


def read(path: Any) -> Content:
    """The content of a file; InvalidValue with the path and the reason where it is not valid."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidType(f"path must be a path (str or os.PathLike), got {describe(path)}")
    if not os.path.exists(path):
        raise MissingFile(f"path must be a file that exists, got {os.fspath(path)!r}")
    if os.path.isdir(path):
        raise InvalidValue(f"path must be a file, got the folder {os.fspath(path)!r}")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InvalidValue(f"path must be a regular file, got {os.fspath(path)!r}")
    with open(path, "rb") as file, explained(path):
        return _content(file)


@contextlib.contextmanager
def explained(path: Any) -> Any:
    """Whatever is wrong with a file becomes one error, which names the path."""
    try:
        yield
    except WrongCall as error:
        raise InvalidValue(str(error)) from None
    except Exception as error:
        reason = str(error) if isinstance(error, (Damaged, ValueError)) else ""
        reason = reason.replace("\n", " ")[:300]
        reason = reason or f"its parts do not fit together, {type(error).__name__}: {error}"[:200]
        raise InvalidValue(
            f"path must be a file that bongref.save wrote, got {os.fspath(path)!r} ({reason})"
        ) from None


def _content(file: BinaryIO) -> Content:
    size = os.fstat(file.fileno()).st_size
    _check_directory(file, size)
    with zipfile.ZipFile(file) as archive:
        members = _members(archive, size)
        if DOCUMENT in members:
            return _read_new(archive, members)
        if OLD_DOCUMENT in members:
            return _read_old(archive, members)
    raise Damaged(f"it has no member {DOCUMENT!r}")


def _check_directory(file: BinaryIO, size: int) -> None:
    """The end of the archive: a directory of few entries, before anything reads it."""
    file.seek(max(0, size - 42))
    tail = file.read(42)
    if len(tail) < 22 or tail[-22:-18] != b"PK\x05\x06":
        raise Damaged("it has no archive directory at its end: truncated, or another kind of file")
    count, length, _, comment = struct.unpack("<HLLH", tail[-12:])
    if comment:
        raise Damaged("the archive has a comment")
    if len(tail) == 42 and tail[:4] == b"PK\x06\x07":  # sizes of more than 32 bits
        (offset,) = struct.unpack("<Q", tail[8:16])
        file.seek(min(offset, size))
        record = file.read(56)
        if len(record) < 56 or record[:4] != b"PK\x06\x06":
            raise Damaged("the archive's directory is damaged")
        count, length = struct.unpack("<QQ", record[32:48])
    if count > MEMBERS or length > DIRECTORY:
        raise Damaged(f"the archive has {count} members, of at most {MEMBERS}")


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, without .npy: no duplicates, nothing compressed, nothing too large."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if not info.filename.endswith(".npy") or not NAME.fullmatch(name):
            raise Damaged(f"the archive has a member {info.filename[:80]!r}")
        if name in found:
            raise Damaged(f"the archive has two members {name!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x41:
            raise Damaged(f"the member {name!r} is compressed or encrypted")
        if info.file_size != info.compress_size or not 0 < info.file_size <= size:
            raise Damaged(f"the member {name!r} has an impossible size, {info.file_size}")
        found[name] = info
    if sum(info.file_size for info in found.values()) > size:
        raise Damaged("the members are larger than the file")
    if min((info.header_offset for info in found.values()), default=0) != 0:
        raise Damaged("something stands before the archive's first member")
    return found


def _raw(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of a member; the archive's own checksum is compared."""
    with archive.open(info) as member:
        raw = member.read()
    if len(raw) != info.file_size:
        raise Damaged(f"the member {info.filename!r} is truncated")
    return raw


def _header(name: str, raw: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and the place of the first number of a .npy member."""
    start = io.BytesIO(raw[: HEADER + 16])
    try:
        if np.lib.format.read_magic(start) != (1, 0):
            raise ValueError("another version of .npy")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(start, max_header_size=HEADER)
    except Exception as error:
        raise Damaged(f"the header of {name!r} is damaged: {str(error)[:100]}") from None
    if dtype.hasobject or dtype.fields is not None or dtype.subdtype is not None:
        raise Damaged(f"the member {name!r} has the type {str(dtype)[:60]}, which is refused")
    if len(shape) > 4 or any(type(n) is not int or n < 0 for n in shape):
        raise Damaged(f"the member {name!r} has the shape {str(shape)[:60]}")
    if math.prod(shape) * dtype.itemsize != len(raw) - start.tell():
        raise Damaged(
            f"the member {name!r} of shape {shape} and type {dtype.str} must have "
            f"{math.prod(shape) * dtype.itemsize} bytes of numbers, got {len(raw) - start.tell()}"
        )
    return shape, fortran, dtype, start.tell()


def _array(name: str, raw: bytes, dtypes: tuple[str, ...] = DTYPES) -> Array:
    """The array of a member, in the byte order of this machine."""
    shape, fortran, dtype, at = _header(name, raw)
    if dtype.str not in dtypes:
        raise Damaged(f"the member {name!r} has the type {dtype.str}, of {', '.join(dtypes)}")
    flat = np.frombuffer(raw, dtype=dtype, offset=at)
    a = flat.reshape(shape, order="F" if fortran else "C")
    return np.array(a, dtype=dtype.newbyteorder("="), order="C")


def _read_new(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Content:
    raw = _raw(archive, members[DOCUMENT])
    text = _array(DOCUMENT, raw, ("|u1",))
    if text.ndim != 1:
        raise Damaged("the document is not a row of bytes")
    document = parse(text.tobytes())
    keys(document, "format", "version", "kind", "arrays", "data")
    version = document["version"]
    if document["format"] != "bongref" or type(version) is not int:
        raise Damaged("its format is not bongref's")
    if version != VERSION:
        newer = "; a newer bongref reads it" if version > VERSION else ""
        raise Damaged(f"it has version {version}, of {OLDEST} and {VERSION}{newer}")
    table = keys(document["arrays"])
    if set(table) != set(members) - {DOCUMENT}:
        raise Damaged("its members are not those that the document lists")
    arrays = Arrays()
    for name, listed in table.items():
        keys(listed, "dtype", "shape", "crc32")
        a = _array(name, _raw(archive, members[name]))
        if list(a.shape) != listed["shape"] or _little(a).dtype.str != listed["dtype"]:
            raise Damaged(f"the member {name!r} has not the shape and type of the document")
        if _checksum(a) != listed["crc32"]:
            raise Damaged(f"the member {name!r} has not the checksum of the document")
        arrays[name] = a
    kind = document["kind"]
    if not isinstance(kind, str):
        raise Damaged("its kind must be a str")
    return Content(VERSION, kind, arrays, finite_again(document["data"]))


def _read_old(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Content:
    """Version 2: a result, its document as a string."""
    raw = _raw(archive, members[OLD_DOCUMENT])
    shape, _, dtype, at = _header(OLD_DOCUMENT, raw)
    if shape != () or dtype.kind != "U" or dtype.byteorder == ">":
        raise Damaged("the document is not a string")
    document = parse(raw[at:].decode("utf-32-le").rstrip("\0").encode(), strict=False)
    names = ("version", "method", "t", "rows", "info", "continuation")
    if not isinstance(document, dict) or document.get("version") != OLDEST:
        found = document.get("version") if isinstance(document, dict) else None
        raise Damaged(f"it has version {str(found)[:20]}, of {OLDEST} and {VERSION}")
    keys(document, *names)
    arrays = Arrays(
        (name, _array(name, _raw(archive, info), ("<f8",)))
        for name, info in members.items()
        if name != OLD_DOCUMENT
    )
    return Content(OLDEST, "result", arrays, {k: document[k] for k in names if k != "version"})


# --- plain data -----------------------------------------------------------------------------------


def parse(text: bytes, strict: bool = True) -> Any:
    """JSON: no duplicate names, and with ``strict`` no NaN and infinities."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            raise Damaged("the document has a name twice")
        return out

    def constant(word: str) -> float:
        if strict:
            raise Damaged(f"the document has {word}")
        return float(word.replace("Infinity", "inf"))

    try:
        out = json.loads(text.decode(), object_pairs_hook=once, parse_constant=constant)
        if SURROGATE.search(text):
            json.dumps(out, ensure_ascii=False).encode()
        return out
    except RecursionError:
        raise Damaged("the document is nested too deeply") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise Damaged(f"the document is no JSON: {str(error)[:100]}") from None


def keys(value: Any, *names: str) -> dict[str, Any]:
    """A dict with exactly these keys; without any, one of any keys."""
    if not isinstance(value, dict) or (names and set(value) != set(names)):
        got = sorted(value) if isinstance(value, dict) else type(value).__name__
        wanted = ", ".join(names) if names else "a table"
        raise Damaged(f"the document must have {wanted} in this place, got {str(got)[:80]}")
    return value


def plain(value: Any, depth: int = 0) -> Any:
    """Data as JSON has them: arrays as lists, numbers that are not finite by their names."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if depth > DEPTH:
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, depth + 1) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    if isinstance(value, float):
        return float(value)
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)


def finite_again(value: Any) -> Any:
    """The inverse of :func:`plain` for numbers that are not finite."""
    if isinstance(value, dict):
        if set(value) == {"float"} and value["float"] in ("nan", "inf", "-inf"):
            return NOT_FINITE[value["float"]]
        return {k: finite_again(v) for k, v in value.items()}
    return [finite_again(v) for v in value] if isinstance(value, list) else value


# --- writing --------------------------------------------------------------------------------------


def write(path: Path, kind: str, arrays: Mapping[str, Any], data: Any) -> None:
    """Write a file of this kind, in the place of the one that is there."""
    ready = {name: _storable(name, a) for name, a in arrays.items()}
    document = {
        "format": "bongref",
        "version": VERSION,
        "kind": kind,
        "arrays": {
            name: {"dtype": a.dtype.str, "shape": list(a.shape), "crc32": _checksum(a)}
            for name, a in ready.items()
        },
        "data": plain(data),
    }
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        bad = error.object[error.start : error.end]
        raise InvalidValue(f"value must have names that UTF-8 can hold, got {bad!r}") from None
    members = {DOCUMENT: np.frombuffer(text, dtype=np.uint8), **ready}
    replace(path, lambda file: _write_archive(file, members))


def _storable(name: str, a: Any) -> Array:
    if not NAME.fullmatch(name) or name in (DOCUMENT, OLD_DOCUMENT):
        raise InvalidValue(f"the name of an array must be letters, digits, _ and ., got {name!r}")
    little = _little(np.asarray(a))
    if little.dtype.str not in DTYPES or little.ndim > 4:
        raise InvalidType(
            f"the array {name!r} must be of float64, int64 or bool, got {little.dtype}"
        )
    return little


def _checksum(a: Array) -> int:
    return zlib.crc32(_little(a).data)


def _little(a: Array) -> Array:
    """In C order, little-endian."""
    return np.asarray(a, dtype=a.dtype.newbyteorder("<"), order="C")


def _write_archive(file: BinaryIO, members: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, a in members.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(info, "w", force_zip64=a.nbytes > 2**30) as member:
                np.lib.format.write_array(member, a, version=(1, 0), allow_pickle=False)


def replace(path: Path, write_to: Callable[[BinaryIO], None]) -> None:
    """A new file in the place of ``path``, at once: a link is followed, permissions are kept."""
    target = Path(os.path.realpath(path))
    mode = _mode(path, target)
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(part, flags, 0o666 if mode is None else 0o600)
        with open(handle, "wb") as file:
            write_to(file)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(part, mode)
        os.replace(part, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from None
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    _sync_folder(target.parent)


def _mode(path: Path, target: Path) -> int | None:
    """The permissions of the file that is there; None without one."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise InvalidValue(
                f"path must lie in a folder that exists, got {os.fspath(path)!r}"
            ) from None
        return None
    except OSError as error:
        raise InvalidValue(f"path must be a file, got {os.fspath(path)!r} ({error})") from None
    if not stat.S_ISREG(found):
        raise InvalidValue(f"path must be a regular file, got {os.fspath(path)!r}")
    if not os.access(target, os.W_OK):
        raise InvalidValue(f"path must be a file that can be written, got {os.fspath(path)!r}")
    return stat.S_IMODE(found)


def _sync_folder(folder: Path) -> None:
    """The folder's entry of the new file on the disk too, where a folder can be opened."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

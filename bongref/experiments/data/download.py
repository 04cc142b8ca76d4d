"""``bongref data get``: download published files, checked, resumable, never half a file.

A file is written beside its place as ``NAME.part``. What is there of it is kept and the rest asked
for (an HTTP range) when the command is given again; it gets its name when it is complete and its
checksum is right.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import Any

from ... import checks
from ...errors import InvalidValue
from . import generated, published

BLOCK = 1 << 16
TIMEOUT = 30.0  # seconds without any byte


def get(name: str, folder: str | None = None) -> list[Path]:
    """Download the files of a data set that are not there yet.

    Parameters
    ----------
    name : str
        One of :func:`.published.catalogue`, e.g. ``"mnist"``.
    folder : str, optional
        Made if there is none; by default the environment variable BONGREF_DATA.

    Returns
    -------
    list of Path
        The files, all complete.

    Raises
    ------
    InvalidValue
        If there is no such data set, no folder is named, or a checksum is wrong.
    OSError
        If a file cannot be downloaded or written; what has come of it is kept for the next time.
    """
    if name not in published.catalogue():
        known = list(published.catalogue())
        raise InvalidValue(
            f"name must be one of {', '.join(known)}, got {name!r}{checks.near_miss(name, known)}"
        )
    named = folder or os.environ.get("BONGREF_DATA")
    if not named:
        raise InvalidValue("data must name a folder: --data DIR, or BONGREF_DATA, got none")
    return [download(f["url"], Path(named) / f["path"], f["sha256"])
            for f in published.catalogue()[name]["files"]]  # fmt: skip


def download(url: str, path: Path, sha256: str | None) -> Path:
    """Bring one file to its place, unless it is there and right.

    Parameters
    ----------
    url : str
    path : Path
    sha256 : str or None
        Of the content, unpacked if the name ends in .gz; None where it is not known, which is said.

    Returns
    -------
    Path

    Raises
    ------
    InvalidValue
        If the content is another one; the file is then not put in its place.
    OSError
        If it cannot be had or written.
    """
    if path.is_file() and (sha256 is None or content_hash(path, path.suffix) == sha256):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    _fetch(url, part)
    found = content_hash(part, path.suffix)
    if sha256 is None:
        print(f"{path.name}: no checksum is known; its SHA-256 is {found}", file=sys.stderr)
    elif found != sha256:
        part.unlink()
        raise InvalidValue(
            f"{url} must have the SHA-256 {sha256} (unpacked), got {found}; the file was not kept"
        )
    os.replace(part, path)
    return path


def content_hash(path: Path, suffix: str) -> str:
    """The SHA-256 of a file's content, unpacked if ``suffix`` is .gz; "" where it is damaged."""
    total = hashlib.sha256()
    try:
        with gzip.open(path) if suffix == ".gz" else open(path, "rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    except (EOFError, OSError, zlib.error):
        return ""
    return total.hexdigest()


def _fetch(url: str, part: Path) -> None:
    """Complete ``part`` from an address, going on from what is there."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "bongref"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        request = urllib.request.Request(url, headers=headers)
        with contextlib.closing(urllib.request.urlopen(request, timeout=TIMEOUT)) as answer:
            going_on = answer.status == 206
            _receive(answer, part, have if going_on else 0)
    except urllib.error.HTTPError as error:
        if (
            error.code == 416 and have
        ):  # nothing is left to send: all is there, or it is another file
            return
        raise OSError(f"{url} cannot be downloaded (HTTP {error.code} {error.reason})") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"{url} cannot be downloaded ({reason}); what has come is kept, and the same command "
            "goes on from there"
        ) from None


def _receive(answer: Any, part: Path, have: int) -> None:
    length = answer.headers.get("Content-Length")
    total = None if length is None else have + int(length)
    with open(part, "ab" if have else "wb") as file, _bar(part.stem, have, total) as bar:
        while block := answer.read(BLOCK):
            file.write(block)
            bar.update(len(block))
        file.flush()
        os.fsync(file.fileno())
        if total is not None and file.tell() != total:
            raise http.client.IncompleteRead(b"", total - file.tell())


def _bar(name: str, have: int, total: int | None) -> Any:
    from tqdm import tqdm

    hidden = not sys.stderr.isatty()
    return tqdm(
        desc=name, initial=have, total=total, unit="B", unit_scale=True, disable=hidden,
        file=sys.stderr,
    )  # fmt: skip


def listing(folder: str | None = None) -> str:
    """All tasks: the generated ones, scikit-learn's, and which files of the others are there."""
    named = folder or os.environ.get("BONGREF_DATA")
    lines = ["generated by a seed:"]
    for name, make in generated.GENERATORS.items():
        lines.append(f"  {name:<14}{(make.__doc__ or '').splitlines()[0]}")
    lines += ["with scikit-learn:", f"  {', '.join(published.SKLEARN)}"]
    lines.append(f"from files in {named or 'a folder (--data DIR or BONGREF_DATA)'}:")
    for name, entry in published.catalogue().items():
        paths = [f["path"] for f in entry["files"]]
        there = sum((Path(named) / p).is_file() for p in paths) if named else 0
        lines.append(f"  {name:<14}{there} of {len(paths)} files  {entry['about']}")
    lines.append("  sarcos-4449   the 4,449 rows of sarcos_inv_test.mat alone, split by us")
    return "\n".join(lines)

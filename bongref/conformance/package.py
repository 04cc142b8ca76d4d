"""The vectors as a package of their own: an npm folder and a plain archive, for any language."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

from ..cite import text, version
from ..errors import InvalidValue
from . import vectors

VERSION = version("vectors")  # not that of the package; its first number is that of the schema
NAME = "bongref-vectors"
README = """# {name} {version}

{count} conformance cases of Bayesian online natural gradient methods, schema {schema}, as JSON:
inputs, expected values from exact or 50-digit arithmetic, derived tolerances, and the cases that
must be refused. `vectors/` has the cases, `schema/` their form; `SHA256SUMS` names every file.

    {citation}
"""


def files() -> dict[str, bytes]:
    """The contents of the package by path."""
    here = vectors.FOLDER
    data = {f"vectors/{p.name}": p.read_bytes() for p in sorted(here.glob("*.json"))}
    schema = here.parent / "schema"
    data |= {f"schema/{p.name}": p.read_bytes() for p in sorted(schema.glob("*.json"))}
    about = {
        "name": NAME,
        "version": VERSION,
        "description": "Conformance vectors of Bayesian online natural gradient methods",
        "license": "MIT",
        "files": ["vectors", "schema", "SHA256SUMS", "CITATION.cff"],
        "exports": {"./*": "./*"},
    }
    citation, count = text("vectors", "apa"), len(vectors.load(None))
    words = {"name": NAME, "version": VERSION, "schema": vectors.SCHEMA, "count": count}
    data |= {
        "package.json": (json.dumps(about, indent=2) + "\n").encode(),
        "README.md": README.format(**words, citation=citation).encode(),
        "CITATION.cff": (text("vectors", "cff") + "\n").encode(),
        "LICENSE": (here.parent / "LICENSE").read_bytes(),
    }
    sums = "".join(f"{hashlib.sha256(data[p]).hexdigest()}  {p}\n" for p in sorted(data))
    return {**data, "SHA256SUMS": sums.encode()}


def write(folder: str | Path) -> list[str]:
    """Write the npm folder and the archive beside each other into a new or empty folder.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    list of str
        What was written, in words.

    Raises
    ------
    InvalidValue
        If the folder has files in it.
    """
    out = Path(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidValue(
            f"package must be a new or empty folder, got {str(folder)!r}; choose one"
        )
    data, packed = files(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, content in data.items():
            file = out / "npm" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            entry = tarfile.TarInfo(f"{NAME}-{VERSION}/{path}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    archive = out / f"{NAME}-{VERSION}.tar.gz"
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=0))  # the same bytes each time
    return [
        f"{out / 'npm'}: {NAME} {VERSION}, {len(data)} files; publish with npm publish",
        f"{archive}: {archive.stat().st_size / 1024:.0f} kB",
    ]

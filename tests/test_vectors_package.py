"""The vectors as a package of their own: every file whole, the sums right, the cases readable from
it.
"""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from bongref.cli import main
from bongref.conformance import package, vectors

ROOT = Path(__file__).parent.parent


def test_the_package_holds_every_case(tmp_path, capsys):
    assert main(["vectors", "--package", str(tmp_path / "a")]) == 0
    assert package.VERSION in capsys.readouterr().out
    npm = tmp_path / "a" / "npm"
    about = json.loads((npm / "package.json").read_text())
    assert (about["version"], about["license"]) == (package.VERSION, "MIT")
    assert (npm / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    again = vectors.load(None, folder=npm / "vectors")
    assert [c.id for c in again] == [c.id for c in vectors.load(None)]
    sums = dict(reversed(s.split("  ")) for s in (npm / "SHA256SUMS").read_text().splitlines())
    found = {p.relative_to(npm).as_posix() for p in npm.rglob("*") if p.is_file()}
    assert set(sums) == found - {"SHA256SUMS"}
    for path, digest in sums.items():
        assert hashlib.sha256((npm / path).read_bytes()).hexdigest() == digest, path
    (archive,) = (tmp_path / "a").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        for path in found:
            member = tar.extractfile(f"{package.NAME}-{package.VERSION}/{path}")
            assert member.read() == (npm / path).read_bytes()


def test_it_is_the_same_each_time_and_overwrites_nothing(tmp_path, capsys):
    package.write(tmp_path / "a")
    package.write(tmp_path / "b")
    one, two = ((tmp_path / k).glob("*.tar.gz") for k in "ab")
    assert next(one).read_bytes() == next(two).read_bytes()
    with pytest.raises(ValueError, match="package must be a new or empty folder"):
        package.write(tmp_path / "a")
    assert main(["vectors", "--package", str(tmp_path / "a")]) == 2

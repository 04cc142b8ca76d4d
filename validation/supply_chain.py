"""Builds that are the same twice, and archives that pass the tests outside the source tree.

    python -m validation.supply_chain               # all of it; writes results/supply-chain.json
    python -m validation.supply_chain --quick       # without the tests of the archives

Two builds of the last commit, in two folders, with the time of the commit as SOURCE_DATE_EPOCH: the
wheels, and the sdists, must have the same SHA-256. setuptools writes the times of the files that it
has just made into an sdist; they are set to the commit's before the two are compared. Then each is
installed into a virtual environment of its own that sees this one's dependencies, and the smoke
tests run there in a folder without the package's source, on what was installed. pip-audit, where it
is installed, looks for known vulnerabilities of the installed packages.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "results" / "supply-chain.json"
BUILD = (
    "import sys, setuptools.build_meta as b; out = sys.argv[1]; "
    "b.build_wheel(out); b.build_sdist(out)"
)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*command: Any, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    full = {**os.environ, **env}
    full.pop("PYTHONPATH", None)
    return subprocess.run(
        [str(c) for c in command], cwd=cwd, env=full, capture_output=True, text=True
    )


def checkout(to: Path) -> Path:
    """The last commit, as files."""
    to.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", "--format=tar", "HEAD"], check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", to], input=archive.stdout, check=True)
    return to


def builder(work: Path) -> Path:
    """The Python of an environment with what a build needs, from the package index."""
    home = work / "builder"
    for words in (["-m", "venv", home], ["-m", "pip", "install", "-q", "setuptools", "wheel"]):
        python = sys.executable if words[1] == "venv" else home / "bin" / "python"
        done = run(python, *words, cwd=work)
        if done.returncode:
            raise SystemExit(done.stderr)
    return home / "bin" / "python"


def build(work: Path, name: str, python: Path) -> dict[str, Path]:
    """The wheel and the sdist of a fresh copy."""
    source, out = checkout(work / name), work / f"{name}-dist"
    out.mkdir()
    time = run("git", "log", "-1", "--format=%ct", cwd=ROOT).stdout.strip()
    done = run(python, "-c", BUILD, out, cwd=source, SOURCE_DATE_EPOCH=time)
    if done.returncode:
        raise SystemExit(done.stderr)
    sdist = next(out.glob("*.tar.gz"))
    return {"wheel": next(out.glob("*.whl")), "sdist": normal(sdist, int(time))}


def normal(sdist: Path, time: int) -> Path:
    """The sdist with every time set to the commit's, and no owner: the same files, the same bytes.

    setuptools writes the times of the files that it has just made into the archive.
    """
    import gzip
    import io
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            content = old.extractfile(member) if member.isfile() else None
            member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, content)
    with open(sdist, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=time) as out:
        out.write(packed.getvalue())
    return sdist


def tested(work: Path, kind: str, archive: Path, builder: Path) -> dict[str, Any]:
    """The smoke tests on what an archive installs, in a folder without the source."""
    home = work / f"venv-{kind}"
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=work)
    packages = next((home / "lib").glob("python*")) / "site-packages"
    shared = [p for p in sys.path if p.endswith("site-packages")]  # not the folder of the source
    (packages / "dependencies.pth").write_text("\n".join(shared) + "\n")
    install = (builder, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "-q")
    done = run(*install, "--target", packages, archive, cwd=work)
    if done.returncode:
        return {"installed": False, "said": done.stderr[-500:]}
    away = work / f"tests-{kind}"
    checkout(away)
    shutil.rmtree(away / "bongref")
    python = home / "bin" / "python"
    where = run(python, "-c", "import bongref; print(bongref.__file__)", cwd=away).stdout.strip()
    links = "tests/test_readme.py::test_links_lead_somewhere"  # into the source, which is not here
    done = run(
        python, "-m", "pytest", "-m", "smoke", "-q", "-n", "0", "--deselect", links, cwd=away
    )
    last = done.stdout.strip().splitlines()[-1:]
    inside = str(packages) in where
    return {"installed": inside, "tests": last[0] if last else "", "passed": done.returncode == 0}


def audited() -> str:
    """What pip-audit says, where it is installed and knows of a well-known vulnerability."""
    if importlib.util.find_spec("pip_audit") is None:
        return "not run: pip-audit is not installed"
    audit = (sys.executable, "-m", "pip_audit")
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "known.txt"
        known.write_text("jinja2==2.10\n")
        done = run(*audit, "--no-deps", "--disable-pip", "-r", known, cwd=ROOT)
    if "GHSA" not in done.stdout and "CVE" not in done.stdout and "PYSEC" not in done.stdout:
        return "not run: no advisories within reach (it finds none for jinja2 2.10)"
    done = run(*audit, "--skip-editable", cwd=ROOT)
    return "clean" if done.returncode == 0 else (done.stdout + done.stderr)[-1500:]


def main(args: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        python = builder(work)
        one, two = (build(work, name, python) for name in ("one", "two"))
        out: dict[str, Any] = {"same": {k: digest(one[k]) == digest(two[k]) for k in one}}
        if "--quick" not in args:
            out["tests"] = {k: tested(work, k, one[k], python) for k in one}
            out["pip-audit"] = audited()
            FILE.write_text(json.dumps(out, indent=1) + "\n")
    print(json.dumps(out, indent=1))
    passed = all(t["passed"] and t["installed"] for t in out.get("tests", {}).values())
    return 0 if all(out["same"].values()) and passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The explorer as a static folder with WebAssembly:  python docs/explorer_build.py OUT

The folder has the page, pyodide and NumPy (fetched by npm, never committed), autograd and bongref
as archives, and the answer to the first request, which is drawn while Python loads. Where npm or
the network is not there, it is built without WebAssembly and says so. With ``--check`` the
conformance kit runs in that folder's Python under Node:
``bongref check bongref.conformance:Reference``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, PAGE = ROOT / "bongref", ROOT / "bongref" / "explore" / "page"
NUMPY = "2.1.1-py311hc8e14bb-0"
NPM = {
    "pyodide@0.25.1": "pyodide-0.25.1.tgz",
    f"@emscripten-forge/numpy@{NUMPY}": f"emscripten-forge-numpy-{NUMPY}.tgz",
}
PYODIDE = (
    "pyodide.js",
    "pyodide.mjs",
    "pyodide.asm.js",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
NOT_IN_THE_PAGE = ("fast", "experiments", "conformance/vectors", "explore/page")
CACHE = Path(os.environ.get("BONGREF_NPM", Path.home() / ".cache" / "bongref-npm"))


class NoPackages(Exception):
    """npm or the network is not there."""


def fetch(folder: Path = CACHE, download: bool = True) -> list[Path]:
    """The npm packages as archives, from ``folder`` or else fetched into it; no script is run."""
    missing = [name for name, file in NPM.items() if not (folder / file).exists()]
    if missing and not download:
        raise NoPackages(
            f"{folder} lacks {', '.join(missing)}; python docs/explorer_build.py --fetch"
        )
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        if npm is None:
            raise NoPackages("npm is not on this machine")
        with tempfile.TemporaryDirectory() as work:
            command = [npm, "pack", "--ignore-scripts", "--silent", *missing]
            try:
                done = subprocess.run(
                    command, cwd=work, capture_output=True, text=True, timeout=300
                )
            except subprocess.TimeoutExpired:
                raise NoPackages("npm could not fetch the packages in 5 minutes") from None
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise NoPackages(f"npm could not fetch {', '.join(missing)}: {last}")
            for file in Path(work).iterdir():
                shutil.move(file, folder / file.name)
    return [folder / file for file in NPM.values()]


def archive(path: Path, root: Path, keep: Callable[[str], bool] = lambda name: True) -> None:
    """A zip of a Python package: its sources and data, without bytecode."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(root.rglob("*")):
            name = file.relative_to(root).as_posix()
            if file.is_file() and "__pycache__" not in name and keep(name):
                out.write(file, f"{root.name}/{name}")


def packages(out: Path, archives: list[Path]) -> None:
    """pyodide/ and packages/ of the static folder."""
    import autograd

    (out / "pyodide").mkdir()
    (out / "packages").mkdir()
    pyodide, numpy = archives
    with tarfile.open(pyodide) as tar:
        for name in PYODIDE:
            _take(tar, f"package/{name}", out / "pyodide" / name)
    with tarfile.open(numpy) as tar:
        (inner,) = [n for n in tar.getnames() if n.endswith(".tar.gz")]
        _take(tar, inner, out / "packages" / "numpy.tar.gz")
    archive(out / "packages" / "autograd.zip", Path(autograd.__file__).parent)
    archive(out / "packages" / "bongref.zip", PACKAGE, lambda n: not n.startswith(NOT_IN_THE_PAGE))


def _take(tar: tarfile.TarFile, name: str, to: Path) -> None:
    member = tar.extractfile(name)
    assert member is not None, name
    to.write_bytes(member.read())


def page(out: Path, transport: str) -> None:
    """The page's files with the transport's name, and the answer to the first request."""
    from bongref.explore import respond

    for file in PAGE.iterdir():
        shutil.copy(file, out / file.name)
    html = (out / "index.html").read_text(encoding="utf-8")
    old, new = (f'<meta name="transport" content="{t}">' for t in ("server", transport))
    assert html.count(old) == 1
    (out / "index.html").write_text(html.replace(old, new), encoding="utf-8")
    request = json.loads((PAGE / "start.json").read_text(encoding="utf-8"))["request"]
    answer = respond({**request, "methods": request["methods"][:1]})
    (out / "first.json").write_text(json.dumps(answer), encoding="utf-8")


def build(out: str | Path, download: bool = True) -> str:
    """Make the static folder anew; returns a sentence on what is in it."""
    out = Path(out)
    if out.exists() and not (out / "first.json").exists() and any(out.iterdir()):
        raise SystemExit(f"OUT must be a new or empty folder or an earlier build, got {out}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    try:
        archives = fetch(CACHE, download)
    except NoPackages as error:
        page(out, "none")
        return f"{out}: without WebAssembly, because {error}; the page says so"
    packages(out, archives)
    page(out, "wasm")
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    return f"{out}: {size / 1e6:.1f} MB, with WebAssembly"


def check(out: str | Path, arguments: tuple[str, ...] = ()) -> int:
    """Run the conformance kit in the folder's Python under Node; the exit status of the kit."""
    node = shutil.which("node")
    if node is None:
        raise NoPackages("node is not on this machine")
    with tempfile.TemporaryDirectory() as work:
        whole = Path(work) / "bongref.zip"
        archive(whole, PACKAGE, lambda n: not n.startswith(("fast", "explore/page")))
        script = ROOT / "docs" / "explorer_check.mjs"
        done = subprocess.run([node, script, Path(out).resolve(), whole, *arguments])
    return done.returncode


def main() -> int:
    """Build, and with --check run the kit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":  ")[0])
    parser.add_argument("out", metavar="OUT", nargs="?", help="the folder that is made")
    parser.add_argument("--fetch", action="store_true", help="only fetch the packages of npm")
    parser.add_argument("--check", action="store_true", help="run the conformance kit under Node")
    args = parser.parse_args()
    if args.fetch == (args.out is not None):
        parser.error("give OUT, or --fetch alone")
    if args.fetch:
        try:
            print("\n".join(map(str, fetch())))
        except NoPackages as error:
            print(f"without WebAssembly, because {error}")
        return 0
    said = build(args.out)
    print(said)
    return check(args.out) if args.check and "with WebAssembly" in said else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

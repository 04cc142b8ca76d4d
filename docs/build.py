"""Build the site:  python docs/build.py

It needs ``pip install -e ".[docs]"``, and npm for the formulas (MathJax is fetched into the build
folder; without npm, formulas are shown as LaTeX text, and the pages say so). Every code cell runs,
warnings are errors, every internal link and anchor is followed, and no page may load anything from
another host. The explorer is built into it with the library in WebAssembly, where npm can fetch the
packages; elsewhere without, and the build and its page say so. The site is then in
docs/_build/html; open index.html there, or serve that folder, as the explorer needs it:

    python -m http.server -d docs/_build/html

    python docs/build.py --only lessons/lesson05.md   this page alone, quickly, without checks
    python docs/build.py --check                      check the links of the site that is there
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
BUILD = DOCS / "_build"
SOURCE, HTML, STATIC = BUILD / "source", BUILD / "html", BUILD / "static"
MATHJAX = "mathjax@3.2.2"

sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

from docs import conforming, explorer_build, links, sections  # noqa: E402


def vendor_mathjax(into: Path = STATIC) -> str | None:
    """MathJax's folder below ``into``, fetched with npm if it is not there; None without npm."""
    folder = into / "mathjax"
    if not (folder / "tex-chtml-full.js").exists():
        if shutil.which("npm") is None:
            return None
        into.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(
            ["npm", "pack", MATHJAX, "--silent"], cwd=into, capture_output=True, text=True
        )
        archives = sorted(into.glob("mathjax-*.tgz"))
        if packed.returncode or not archives:
            print(f"npm pack {MATHJAX} failed: {packed.stderr.strip()[:300]}", file=sys.stderr)
            return None
        with tarfile.open(archives[-1]) as archive:
            for member in archive.getmembers():
                name = member.name.removeprefix("package/es5/")
                if name == "tex-chtml-full.js" or name.startswith("output/chtml/fonts/"):
                    member.name = name
                    archive.extract(member, folder, filter="data")
        archives[-1].unlink()
    return folder.name


def stage() -> None:
    """The pages of docs/, those made from data, and the index pages of sections, in one folder."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    ignored = shutil.ignore_patterns("_build", "_static", "*.py", "__pycache__", ".*")
    shutil.copytree(DOCS, SOURCE, ignore=ignored)
    (SOURCE / "validation").mkdir()
    for page in ("acceptance.md",):
        shutil.copy(ROOT / "validation" / page, SOURCE / "validation" / page)
    sections.write(SOURCE)


def sphinx(mathjax: str | None, jobs: int) -> int:
    """Run Sphinx on the staged pages; its exit status."""
    command = [
        *(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"),
        *("-j", str(jobs), "-c", str(DOCS), "-d", str(BUILD / "doctrees"), "-E"),
        *(str(SOURCE), str(HTML)),
    ]
    env = {**os.environ, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    env.pop("BONGREF_SITE_MATHJAX", None)
    env |= {"PYDEVD_DISABLE_FILE_VALIDATION": "1", "TQDM_DISABLE": "1"}
    if mathjax:
        env["BONGREF_SITE_MATHJAX"] = mathjax
    shutil.rmtree(HTML, ignore_errors=True)
    status = subprocess.run(command, env=env, cwd=ROOT).returncode
    if mathjax and HTML.exists():
        shutil.copytree(STATIC / mathjax, HTML / "_static" / mathjax, dirs_exist_ok=True)
    return status


def explorer(html: Path) -> str:
    """The explorer as a folder of the site, with a link back; a sentence on what is in it."""
    said = explorer_build.build(html / "explorer")
    page = html / "explorer" / "index.html"
    text = page.read_text(encoding="utf-8")
    old, new = "<header>\n", '<header>\n  <a id="home" href="../index.html">bongref</a>\n'
    assert text.count(old) == 1
    page.write_text(text.replace(old, new), encoding="utf-8")
    return said


def only(pages: list[str]) -> None:
    """Keep the named pages and the index of the staged ones, for a quick look."""
    keep = {SOURCE / p for p in pages}
    for path in SOURCE.rglob("*.md"):
        if path not in keep:
            path.unlink()
    tree = "\n".join(["# bongref", "", ":::{toctree}", *pages, ":::", ""])
    (SOURCE / "index.md").write_text(tree, encoding="utf-8")


def main(argv: list[str]) -> int:
    """Build and check; the exit status."""
    parser = argparse.ArgumentParser(description="Build the site into docs/_build/html.")
    parser.add_argument("--only", nargs="+", metavar="PAGE", help="these pages alone, unchecked")
    parser.add_argument("--check", action="store_true", help="only check the site that is there")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="processes (default 2)")
    args = parser.parse_args(argv)
    began = time.monotonic()
    if not args.check:
        lacking = [m for m in ("sphinx", "myst_nb", "pydata_sphinx_theme", "numpydoc",
                               "sphinx_design", "sphinx_copybutton", "matplotlib")
                   if importlib.util.find_spec(m) is None]  # fmt: skip
        if lacking:
            print(f'{", ".join(lacking)} not installed: pip install -e ".[docs]"', file=sys.stderr)
            return 2
        mathjax = vendor_mathjax()
        stage()
        if args.only:
            only(args.only)
        status = sphinx(mathjax, args.jobs)
        if status or args.only:
            return status
        sections.write_addresses(HTML)
        conforming.write_badges(HTML)
        print(explorer(HTML))
    found = links.check(HTML)
    for line in found:
        print(line, file=sys.stderr)
    pages = len(list(HTML.rglob("*.html")))
    print(f"{pages} pages in {HTML} ({time.monotonic() - began:.0f} s); bad links: {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

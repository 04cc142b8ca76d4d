"""The map of the package, made from its docstrings:  python docs/make_map.py

It stands in README.md (one row for each package) and in docs/architecture.md (one row for each
package and module), between two comments. ``--check`` says whether it is current.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bongref"
BEGIN, END = "<!-- map: made by docs/make_map.py -->", "<!-- end of map -->"
PAGES = {ROOT / "README.md": 0, ROOT / "docs" / "architecture.md": 3}  # the depth of the modules


def sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not doc:
        raise ValueError(f"{path} has no docstring")
    first = " ".join(doc.split("\n\n")[0].split()).replace("``", "`")
    return first.partition(":  ")[0].replace("|", r"\|").rstrip(".")


def entries(folder: Path) -> list[Path]:
    """Packages and modules, packages first; nothing private, no tests."""
    found = [p for p in sorted(folder.iterdir()) if not p.name.startswith(("_", ".", "test_"))]
    packages = [p for p in found if (p / "__init__.py").exists()]
    return packages + [p for p in found if p.suffix == ".py"]


def rows(folder: Path, depth: int, prefix: str = "") -> list[str]:
    """One row for each entry, and those of a package below it; with depth 0 for packages alone."""
    out = []
    for entry in entries(folder):
        package = entry.is_dir()
        if not package and depth == 0:
            continue
        name = prefix + entry.name + ("/" if package else "")
        says = sentence(entry / "__init__.py" if package else entry)
        out.append(f"| `{name}` | {says} |")
        if package and depth > 1:
            out += rows(entry, depth - 1, name)
    return out


def table(depth: int) -> str:
    """The map as a Markdown table."""
    return "\n".join(["| in `bongref/` | what lives there |", "|---|---|", *rows(PACKAGE, depth)])


def page(path: Path) -> str:
    """A page with the map that is current."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(PAGES[path])}\n{END}{after}"


def main(argv: list[str]) -> int:
    """Write the maps, or with --check only say whether they are current."""
    stale = [path for path in PAGES if page(path) != path.read_text(encoding="utf-8")]
    for path in stale:
        print(f"{path.name}: the map is not current" if argv else f"{path.name}: written")
        if not argv:
            path.write_text(page(path), encoding="utf-8")
    return 1 if argv and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

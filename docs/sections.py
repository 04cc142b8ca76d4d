"""The sections of the site, their index pages, and the pages that are made from data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from docs import from_data, verdicts


class Section(NamedTuple):
    """One entry of the bar at the top, and the pages below it; what does not exist is left out."""

    name: str  # of its index page
    title: str
    about: str
    pages: tuple[str, ...]


SECTIONS = (
    Section(
        "start/index",
        "Start here",
        "",
        ("start/derivation", "start/implementation", "start/teaching", "start/stream"),
    ),
    Section(
        "lessons/index",
        "Lessons",
        "",
        (*(f"lessons/lesson{n:02}" for n in range(1, 12)), "lessons/grading", "lessons/instructor"),
    ),
    Section("explorer", "Explorer", "", ()),
    Section(
        "the-paper",
        "The paper",
        "The paper, equation by equation: its formulas beside the code that computes them, its "
        "methods, its slips, and what it states.",
        (
            *("equations/index", "all-methods", "methods", "errata", "claims", "story", "symbols"),
            *("conventions", "reading", "conjugate", "mirror", "costs"),
        ),
    ),
    Section(
        "check",
        "Check yours",
        "Whether another implementation computes what the equations say, and how we know that "
        "this one does.",
        (
            *("conformance", "vectors", "peers", "conforming", "audit"),
            *("hardening", "long-streams", "digits", "validation/acceptance"),
        ),
    ),
    Section(
        "use",
        "Use it",
        "A posterior from a stream on a CPU: estimators, streams, files, experiments, speed, and "
        "what to do when something goes wrong.",
        (
            *("everyday", "streaming", "looking", "files", "experiments", "tuning", "report"),
            *("fast", "benchmarks", "help/troubleshooting"),
        ),
    ),
    Section(
        "project",
        "Project",
        "The reference of all functions, how the package is built and extended, what has changed, "
        "and how to cite it.",
        ("api/index", "architecture", "contributing", "changelog", "help/cite", "paper"),
    ),
)


def write(source: Path) -> None:
    """The generated pages and the index of each section into the folder of staged pages."""
    for name, text in from_data.pages().items():
        path = source / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in sorted(source.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        path.write_text(from_data.with_site_links(text, path.stem), encoding="utf-8")
    if (source / "story.md").exists():
        rows = verdicts.read((source / "story.md").read_text(encoding="utf-8"))
        (source / "figures").mkdir(exist_ok=True)
        (source / "figures" / "story-verdicts.svg").write_text(verdicts.svg(rows), "utf-8")
    known = {"index", "explorer"} | {p for s in SECTIONS for p in s.pages}
    others = sorted(p.stem for p in source.glob("*.md") if p.stem not in known)
    for section in SECTIONS:
        extra = others if section.name == "use" else []
        pages = [p for p in (*section.pages, *extra) if (source / f"{p}.md").exists()]
        path = source / f"{section.name}.md"
        if section.about:
            path.write_text(index(section, pages, source), encoding="utf-8")
        elif path.exists():
            text = path.read_text(encoding="utf-8").rstrip()
            path.write_text(text + "\n\n" + toctree(pages, section.name), encoding="utf-8")
    there = [s.name for s in SECTIONS if (source / f"{s.name}.md").exists()]
    titles = {s.name: s.title for s in SECTIONS}
    front = (source / "index.md").read_text(encoding="utf-8").rstrip()
    lines = [f"{titles[name]} <{name}>" for name in there]
    (source / "index.md").write_text(
        front + "\n\n" + toctree(lines, "index", depth=1), encoding="utf-8"
    )


def toctree(pages: list[str], of: str, depth: int = 2) -> str:
    """A hidden table of contents with absolute names."""
    if not pages:
        return ""
    names = [p if "<" in p else f"/{p}" for p in pages]
    return "\n".join([":::{toctree}", ":hidden:", f":maxdepth: {depth}", "", *names, ":::", ""])


def index(section: Section, pages: list[str], source: Path) -> str:
    """The index page of a section: one card for each page, with its first sentence."""
    lines = [f"# {section.title}", "", section.about, "", "::::{grid} 1 2 2 2", ":gutter: 3", ""]
    for page in pages:
        title, says = opening((source / f"{page}.md").read_text(encoding="utf-8"))
        lines += [f":::{{grid-item-card}} {title}", f":link: /{page}", ":link-type: doc"]
        lines += ["", says, ":::", ""]
    return "\n".join([*lines, "::::", "", toctree(pages, section.name)])


def opening(text: str) -> tuple[str, str]:
    """The title of a page and the first sentence below it, without marks."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    if title is None:
        raise ValueError(f"a page has no title: {text[:80]!r}")
    rest = text[title.end() :]
    block = next((b for b in re.split(r"\n\s*\n", rest) if re.match(r"[A-Z`*\[]", b.strip())), "")
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(block.split()))
    plain = re.sub(r"\{\w+\}`([^`<]+)(?:<[^>]*>)?`", r"\1", plain).replace("`", "")
    sentence = re.match(r".*?(?<!\b[A-Z])[.:](?=\s+[A-Z]|$)", plain)
    return title[1].replace("`", ""), (sentence[0] if sentence else plain).rstrip(":")


def write_addresses(html: Path) -> None:
    """eq/LABEL.html, errata/ID.html, claims/ID.html: addresses that never change."""
    for address, target in from_data.addresses().items():
        path = html / f"{address}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * address.count("/")
        path.write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{address}</title>'
            f'<meta http-equiv="refresh" content="0; url={up}{target}">'
            f'<a href="{up}{target}">{address}</a></html>\n',
            encoding="utf-8",
        )

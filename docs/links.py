"""Whether the links of a built site lead somewhere, and whether it loads things from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
#: links of these kinds are loaded when a page opens; the others (canonical, next, …) are not
LOADED_LINKS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch"}
CSS_URL = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])((?:https?:)?//[^'")\s]+)""")


#: a row below the head of a table that was not read as one, as where a formula in it has a bar
BROKEN_TABLE = re.compile(r"\|\s*(?:-{3,}|[–—]+-?)\s*\|")


class Page(HTMLParser):
    """The ids of a page, where it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect one tag's ids and addresses."""
        values = {k: v for k, v in attrs if v}
        self.ids |= {values[k] for k in ("id", "name") if k in values}
        if tag == "a" and "href" in values:
            self.targets.append(values["href"])
        if tag in LOADED and LOADED[tag] in values:
            self.loads.append(values[LOADED[tag]])
        if tag == "link" and LOADED_LINKS & set(values.get("rel", "").split()):
            self.loads.append(values.get("href", ""))
        if "style" in values:
            self.loads += CSS_URL.findall(values["style"])


def check(root: Path) -> list[str]:
    """One line for each link that leads nowhere and each thing loaded from another host.

    Parameters
    ----------
    root : Path
        The folder of the built site.

    Returns
    -------
    list of str
        Empty where all is well. Links to other hosts (``<a href="https://…">``) are not followed.
    """
    files = [p for p in sorted(root.rglob("*.html")) if "_static" not in p.parts]  # templates
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in files}
    if not pages:
        return [f"{root} has no pages"]
    found = []
    for path, page in pages.items():
        here = path.relative_to(root)
        for target in dict.fromkeys(page.targets):
            reason = _broken(path, target, pages)
            if reason:
                found.append(f"{here}: {target}: {reason}")
        for target in dict.fromkeys(page.loads):
            if _elsewhere(target):
                found.append(f"{here}: loads {target} from another host")
            elif not target.startswith("data:") and _broken(path, target, pages):
                found.append(f"{here}: loads {target}, which is not there")
        if BROKEN_TABLE.search(path.read_text(encoding="utf-8")):
            found.append(f"{here}: a table that is not one: |---|")
    for path in sorted(root.rglob("*.css")):
        for url in CSS_URL.findall(path.read_text(encoding="utf-8", errors="replace")):
            found.append(f"{path.relative_to(root)}: loads {url} from another host")
    return found


def _elsewhere(target: str) -> bool:
    return target.startswith("//") or urlsplit(target).scheme in ("http", "https")


def _broken(path: Path, target: str, pages: dict[Path, Page]) -> str:
    """Why a link leads nowhere; empty if it leads somewhere, or to another host."""
    parts = urlsplit(target)
    if parts.scheme or target.startswith("//"):
        return ""
    to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if to.is_dir():
        to = to / "index.html"
    if not to.exists():
        return "no such file"
    fragment = unquote(parts.fragment)
    if fragment and to in pages and fragment not in pages[to].ids:
        return "no such place on that page"
    return ""

"""paper.md, which is in the form of JOSS, as a page of the site: citations and references."""

from __future__ import annotations

import re
import unicodedata

#: LaTeX accents of paper.bib -> combining characters
ACCENTS = {"`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", '"': "\u0308"}


def page(text: str, bib: str) -> str:
    """The page: its title from the front matter, citations as links, the list of references."""
    _, front, body = text.split("---\n", 2)
    title = re.search(r'^title: "(.+)"$', front, re.MULTILINE)
    if title is None:
        raise ValueError("paper.md: its front matter has no title")
    entries = references(bib)
    keys = cited(body)
    if unknown := [k for k in keys if k not in entries]:
        raise ValueError(f"paper.md cites {', '.join(unknown)}, which paper.bib does not have")
    body = re.sub(r"^#", "##", body, flags=re.MULTILINE)
    body = re.sub(r"\[(@[^\]]+)\]", lambda m: f"({_links(m[1], entries)})", body)
    listed = [f'* <span id="{k}"></span>{reference(entries[k])}' for k in sorted(keys)]
    about = (
        "A short paper about the package in the form of the Journal of Open Source Software. Its "
        "sources are `docs/paper.md` and `docs/paper.bib`."
    )
    return "\n".join([f"# {title[1]}", "", about, body.rstrip(), "", *listed, ""])


def cited(body: str) -> list[str]:
    """The keys of all citations, [@key] or [@one; @two], each once."""
    groups = re.findall(r"\[(@[^\]]+)\]", body)
    return list(dict.fromkeys(k for g in groups for k in re.findall(r"@([\w-]+)", g)))


def references(bib: str) -> dict[str, dict[str, str]]:
    """The entries of a BibTeX file: key -> fields, as plain text."""
    out = {}
    for key, fields in re.findall(r"^@\w+\{([\w-]+),\n(.*?)^\}", bib, re.MULTILINE | re.DOTALL):
        found = re.findall(r"^  (\w+) = \{(.*)\},?$", fields, re.MULTILINE)
        out[key] = {name: plain(value) for name, value in found}
    return out


def plain(latex: str) -> str:
    """Accents as letters, without braces."""
    latex = latex.replace(r"{\aa}", "å")
    latex = re.sub(
        r"\{\\([`'^~\"])(\w)\}",
        lambda m: unicodedata.normalize("NFC", m[2] + ACCENTS[m[1]]),
        latex,
    )
    return latex.replace("{", "").replace("}", "").replace("--", "–")


def authors(entry: dict[str, str]) -> list[str]:
    """Family names."""
    return [a.partition(",")[0] for a in entry["author"].split(" and ") if a != "others"]


def short(entry: dict[str, str]) -> str:
    """Authors and year as in the text."""
    names = authors(entry)
    who = " & ".join(names) if len(names) <= 2 else f"{names[0]} et al."
    return f"{who}, {entry['year']}"


def reference(entry: dict[str, str]) -> str:
    """One entry of the list, with its DOI or address."""
    where = entry.get("journal") or entry.get("booktitle", "")
    volume = entry.get("volume", "") + (f"({entry['number']})" if "number" in entry else "")
    parts = [where and f"*{where}*", volume, entry.get("pages", "")]
    at = f"https://doi.org/{entry['doi']}" if "doi" in entry else entry["url"]
    who = "; ".join(a for a in entry["author"].split(" and ") if a != "others")
    who += " and others" if entry["author"].endswith(" and others") else ""
    place = ", ".join(p for p in parts if p)
    return f"{who} ({entry['year']}). {entry['title']}. {place and place + '. '}<{at}>"


def _links(group: str, entries: dict[str, dict[str, str]]) -> str:
    keys = re.findall(r"@([\w-]+)", group)
    return "; ".join(f'<a href="#{k}">{short(entries[k])}</a>' for k in keys)

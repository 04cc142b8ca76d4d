"""How to cite the paper, the package and its vectors: BibTeX, APA, and the Citation File Format.

>>> from bongref import cite
>>> print(cite.text("paper", "apa"))
Jones, M., Chang, P., & Murphy, K. (2024). Bayesian Online Natural Gradient (BONG). In Advances in \
Neural Information Processing Systems (NeurIPS). arXiv:2405.19681.

All formats come from one file, citation.json beside this module, with the version of the vectors;
that of the package is from ``_version``.
CITATION.cff at the top of the repository is ``text("package", "cff")``:

    python -m bongref.cite > CITATION.cff
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from . import checks
from ._version import __version__

WHAT = ("paper", "package", "vectors")
FORMATS = ("bibtex", "apa", "cff")
MESSAGE = "If you use bongref, please cite the package and the paper whose updates it computes."


def text(what: str = "all", format: str = "bibtex") -> str:
    """How to cite the paper, the package or its vectors.

    Parameters
    ----------
    what : {"all", "paper", "package", "vectors"}
    format : {"bibtex", "apa", "cff"}
        "cff" of the package or the vectors is a whole file of the Citation File Format 1.2.0 with
        the paper among its references; of the paper, which such a file cannot be about, it is the
        entry for ``references``. "all" in this format is the file of the package.

    Returns
    -------
    str
        Without a newline at its end.

    Raises
    ------
    InvalidValue, InvalidType
        If there is no such entry or format.

    Examples
    --------
    >>> print(text("paper", "bibtex").splitlines()[0])
    @inproceedings{jones2024bong,
    """
    checks.choice("what", what, ("all", *WHAT))
    checks.choice("format", format, FORMATS)
    if format == "cff":
        what = "package" if what == "all" else what
        return _yaml([_reference("paper")] if what == "paper" else _file(what))
    write = {"bibtex": _bibtex, "apa": _apa}[format]
    return "\n\n".join(write(name) for name in (WHAT if what == "all" else (what,)))


def version(what: str) -> str:
    """The version of the package or of its vectors, which have one of their own.

    Parameters
    ----------
    what : {"package", "vectors"}

    Returns
    -------
    str

    Examples
    --------
    >>> from bongref import cite
    >>> cite.version("vectors").split(".")[0]
    '2'
    """
    return str(_entries()[what]["version"])


@cache
def _entries() -> dict[str, dict[str, Any]]:
    found = json.loads(files(__package__).joinpath("citation.json").read_text(encoding="utf-8"))
    for entry in found.values():
        if entry["type"] != "conference-paper":
            entry.setdefault("version", __version__)
    return dict(found)


# --- BibTeX ---------------------------------------------------------------------------------------

_KIND = {"conference-paper": "inproceedings", "software": "software", "dataset": "misc"}


def _bibtex(name: str) -> str:
    e = _entries()[name]
    fields = {
        "author": " and ".join(_full(a) for a in e["authors"]),
        "title": f"{{{e['title']}}}",
        "booktitle": e.get("collection"),
        "year": str(e["year"]),
        "version": e.get("version"),
        "license": e.get("license"),
        "eprint": e.get("arxiv"),
        "archivePrefix": "arXiv" if "arxiv" in e else None,
        "url": _url(e),
    }
    lines = [f"  {key} = {{{value}}}," for key, value in fields.items() if value is not None]
    return "\n".join([f"@{_KIND[e['type']]}{{{e['key']},", *lines, "}"])


def _full(author: dict[str, str]) -> str:
    """Family, Given; an organisation in braces, so that BibTeX does not take it apart."""
    return f"{{{author['name']}}}" if "name" in author else f"{author['family']}, {author['given']}"


def _url(e: dict[str, Any]) -> str | None:
    return f"https://arxiv.org/abs/{e['arxiv']}" if "arxiv" in e else None


# --- APA ------------------------------------------------------------------------------------------


def _apa(name: str) -> str:
    e = _entries()[name]
    *most, last = [_initials(a) for a in e["authors"]]
    authors = f"{', '.join(most)}, & {last}" if most else last
    title = f"{authors.removesuffix('.')}. ({e['year']}). {e['title']}"
    if e["type"] == "conference-paper":
        return f"{title}. In {e['collection']}. arXiv:{e['arxiv']}."
    what = {"software": "Computer software", "dataset": "Data set"}[e["type"]]
    return f"{title} (Version {e['version']}) [{what}]."


def _initials(author: dict[str, str]) -> str:
    if "name" in author:
        return author["name"]
    return f"{author['family']}, {' '.join(f'{word[0]}.' for word in author['given'].split())}"


# --- the Citation File Format ---------------------------------------------------------------------


def _file(name: str) -> dict[str, Any]:
    """A whole file about the package or the vectors."""
    e = _entries()[name]
    head = {"cff-version": "1.2.0", "message": MESSAGE, "type": e["type"], "title": e["title"]}
    optional = ("version", "license", "abstract", "keywords")
    return {
        **head,
        "authors": _people(e),
        **{key: e[key] for key in optional if key in e},
        "references": [_reference("paper")],
    }


def _reference(name: str) -> dict[str, Any]:
    e = _entries()[name]
    return {
        "type": e["type"],
        "title": e["title"],
        "authors": _people(e),
        "year": e["year"],
        "collection-title": e["collection"],
        "identifiers": [{"type": "other", "value": f"arXiv:{e['arxiv']}"}],
        "url": _url(e),
    }


def _people(e: dict[str, Any]) -> list[dict[str, str]]:
    names = {"given": "given-names", "family": "family-names", "name": "name"}
    return [{names[key]: value for key, value in author.items()} for author in e["authors"]]


def _yaml(value: Any, indent: str = "") -> str:
    """YAML of dicts, lists, strings and integers; strings in double quotes, as in JSON."""
    if isinstance(value, dict):
        return "\n".join(f"{indent}{key}:{_below(item, indent)}" for key, item in value.items())
    if isinstance(value, list):
        items = (_yaml(item, indent + "  ").lstrip() for item in value)
        return "\n".join(f"{indent}- {item}" for item in items)
    return indent + json.dumps(value, ensure_ascii=False)


def _below(item: Any, indent: str) -> str:
    if isinstance(item, (dict, list)):
        return "\n" + _yaml(item, indent + "  ")
    return " " + _yaml(item)


if __name__ == "__main__":
    print(text("package", "cff"))

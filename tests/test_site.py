"""The site: its checker finds what is broken, every page has a place, generated pages are whole."""

import re
import runpy
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot
import numpy as np
import pytest

from bongref import grid, paper
from docs import from_data, links, sections

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LESSONS = sorted((DOCS / "lessons").glob("lesson*.md"))


def site(folder, body, other="<p id='there'></p>"):
    (folder / "index.html").write_text(f"<html><body>{body}</body></html>")
    (folder / "page.html").write_text(f"<html><body>{other}</body></html>")
    return links.check(folder)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("<a href='page.html#there'>x</a>", ""),
        ("<a href='https://example.org/x'>x</a>", ""),  # followed only when clicked
        ("<a href='gone.html'>x</a>", "no such file"),
        ("<a href='page.html#gone'>x</a>", "no such place"),
        ("<a href='#gone'>x</a>", "no such place"),
        ("<script src='https://example.org/a.js'></script>", "from another host"),
        ("<img src='//example.org/a.png'>", "from another host"),
        ("<link rel='stylesheet' href='https://example.org/a.css'>", "from another host"),
        ("<link rel='canonical' href='https://example.org/'>", ""),
        ("<img src='gone.png'>", "which is not there"),
        ("<p style='background: url(https://example.org/a.png)'></p>", "from another host"),
    ],
)
def test_the_checker(body, found, tmp_path):
    lines = site(tmp_path, body)
    assert (len(lines) == 1 and found in lines[0]) if found else lines == []


def test_the_checker_reads_styles_and_refuses_nothing(tmp_path):
    (tmp_path / "a.css").write_text("@font-face { src: url('https://example.org/f.woff') }")
    assert "from another host" in site(tmp_path, "")[0]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no pages" in links.check(empty)[0]


def test_every_equation_erratum_claim_and_method_has_a_place():
    made, addresses = from_data.pages(), from_data.addresses()
    text = "\n".join(made.values())
    ids = set(re.findall(r'id="([^"]+)"', text))
    assert len(addresses) == len(paper.equations()) + len(paper.ERRATA) + len(paper.CLAIMS)
    assert len({a.lower() for a in addresses}) == len(addresses)  # also where case is ignored
    for target in addresses.values():
        page, _, anchor = target.partition("#")
        assert anchor in ids and page.removesuffix(".html") in made, target
    assert set(grid.NAMES) <= ids
    for name in grid.NOT_DERIVED:
        assert f'{name}">{name}</a> | refuses' in made["all-methods"]


def test_an_equation_stands_beside_its_code():
    block = "\n".join(from_data.equation_block(paper.equation("eq:bog-FC-nat-prec")))
    assert r"\boldsymbol{\Sigma}_{t}^{-1}" in block and "inv(prec - 4 * alpha" in block
    assert "errata.html#E36" in block and "tests/test_routes.py::test_module_is_definition" in block


def test_every_page_is_in_a_section(tmp_path):
    """Also one that nobody has listed."""
    for name in ("index", "start/index", "lessons/index", "new-page"):
        path = tmp_path / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n\nIt is about something. And more.\n")
    sections.write(tmp_path)
    assert "/new-page" in (tmp_path / "use.md").read_text()
    assert "Equations" in (tmp_path / "the-paper.md").read_text()
    front = (tmp_path / "index.md").read_text()
    assert "Lessons <lessons/index>" in front and "explorer" not in front.lower()


def test_the_opening_of_a_page():
    assert sections.opening("---\na: 1\n---\n# T `x`\n\n| a |\n\nOne [two](x.md). Three.") == (
        "T x", "One two.")  # fmt: skip
    with pytest.raises(ValueError, match="no title"):
        sections.opening("nothing")


def test_there_are_eleven_lessons_that_ask_before_they_show():
    assert len(LESSONS) == 11
    for page in LESSONS:
        text = page.read_text(encoding="utf-8")
        number = int(page.stem[-2:])
        assert text.count("Before you look") >= 2, page.name
        assert f"bongref grade --new {number}\n" in text and "hide-output" in text
        assert 'backend="fast"' not in text


@pytest.mark.parametrize("page", LESSONS, ids=lambda p: p.stem)
def test_lessons_run(page, tmp_path, monkeypatch):
    """The cells of a lesson, as one script without a display, in this process: importing takes
    longer than most of the lessons.
    """
    monkeypatch.chdir(tmp_path)
    cells = re.findall(r"```\{code-cell\} python\n(?::tags:[^\n]*\n\n|---\n.*?---\n\n)?(.*?)```",
                       page.read_text(encoding="utf-8"), re.DOTALL)  # fmt: skip
    assert len(cells) >= 4
    script = tmp_path / "cells.py"
    script.write_text("\n".join(cells), "utf-8")
    matplotlib.use("agg")
    with matplotlib.rc_context(), np.printoptions(), warnings.catch_warnings():
        warnings.simplefilter("default")
        runpy.run_path(str(script))
    matplotlib.pyplot.close("all")


def test_a_table_that_was_not_read_as_one_is_found(tmp_path):
    """A bar in a formula of its head: the row of dashes stands in a paragraph."""
    found = site(tmp_path, "<p>| a | b $x|y$ |\n|—|—|—|</p>")
    assert any("a table that is not one" in line for line in found)


def test_wide_formulas_stand_above_the_columns():
    """An equation that its column would cut off; a short one stands beside its code."""
    wide, short = (
        "\n".join(from_data.equation_block(paper.equation(e)))
        for e in ("sec:pseudocode#30", "sec:proofs#3")
    )
    assert wide.index("```{math}") < wide.index("::::{grid}")
    assert short.index("```{math}") > short.index("::::{grid}")
    assert from_data.glyphs(r"\boldsymbol{\mu}_{t} = a \\ bb") == 4

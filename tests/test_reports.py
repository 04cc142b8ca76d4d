"""The writer of all reports: each form is parsed again and compared with the document."""

import json
import os
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import bongref as br
from bongref import reports
from bongref.reports import Case, Code, Document, Fields, Formula, Section, Span, Table, Text

NASTY = 'a <b> & "c" | d_e *f* `g` \\h [i]'
PAGE = Document(
    f"Report {NASTY}",
    [
        Text([Span("all", style="strong"), f" of it: {NASTY}"], status="pass"),
        Fields([("key", NASTY), ("a long key", "two words " * 30)]),
        Table(
            ["name", "units", "worst"],
            [
                [
                    Span("one", link="#part"),
                    "0.5",
                    Span(["✓ ", Span("L0", style="small")], status="pass", title=NASTY),
                ],
                [],
                ["two", Span("17", status="fail"), NASTY],
                ["three", "refuses: <not derived>"],
            ],
            id="table",
            right=(1,),
        ),
        Section(
            "Part",
            [
                Code("if a < b:\n    c = `d`", "python"),
                Formula(r"\frac{a}{b} < c", lambda latex: f"<svg>{latex[-1]}</svg>"),
            ],
            id="part",
            status="fail",
        ),
        Section("Closed", [Text("inside")], folded=True),
        Section("Open", [Text("outside")], folded=False),
    ],
    data={"x": np.array([1.0, np.inf]), "n": np.int64(3), "t": (None, True), "nan": float("nan")},
    cases=[
        Case("L0", "a.b", "first", seconds=0.25),
        Case("L0", "a.b", "second", "fail", 0.5, NASTY, "details\x00"),
        Case("L1", "a.c", "third", "error", message="raised", details="trace"),
        Case("L1", "a.c", "fourth", "skip", message="not offered"),
        Case("L1", "a.c", "sixth", "fail", message="wrong"),
        *[Case("L2", "a.d", f"skipped {k}", "skip") for k in range(2)],
        Case("L1", "a.c", "fifth", message="now passes"),
    ],
)


class Page(HTMLParser):
    """Tags in the order they are opened, with their attributes; the text of each kind of tag."""

    def __init__(self):
        super().__init__()
        self.stack, self.tags, self.texts = [], [], {}

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        for tag in set(self.stack):
            self.texts.setdefault(tag, []).append(data)


def test_html_is_closed_escaped_and_needs_no_network():
    page = Page()
    page.feed(reports.html(PAGE))
    assert not page.stack
    assert page.texts["h1"] == page.texts["title"] == [PAGE.title]
    assert page.texts["dd"][0] == NASTY and NASTY in page.texts["td"] and page.texts["b"] == ["all"]
    cells = [(tag, a.get("class"), a.get("colspan")) for tag, a in page.tags if tag in ("td", "th")]
    assert cells == [
        *[("th", None, None), ("th", "right", None), ("th", None, None)],
        *[("th", None, None), ("td", "right", None), ("td", "pass", None)],
        *[("th", None, None), ("td", "right fail", None), ("td", None, None)],
        *[("th", None, None), ("td", "right", "2")],
    ]
    links = [a["href"] for _, a in page.tags if "href" in a]
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert (
        links == ["#part"]
        and ids == ["table", "part"]
        and not any("src" in a for _, a in page.tags)
    )
    assert [a for tag, a in page.tags if tag == "details"] == [{}, {"open": "open"}]
    assert [tag for tag, _ in page.tags].count("tbody") == 2
    assert page.texts["pre"] == ["if a < b:\n    c = `d`", r"\frac{a}{b} < c"] and page.texts[
        "svg"
    ] == ["c"]
    assert any(a.get("title") == NASTY for _, a in page.tags) and "http" not in reports.html(PAGE)


def test_text_aligns_wraps_and_leaves_out_what_is_folded():
    lines = reports.text(PAGE, width=80).splitlines()
    assert (
        max(map(len, lines)) <= 80
        and "Closed" not in lines
        and "Open" in lines
        and "  outside" in lines
    )
    start = lines.index("name   units  worst")
    assert lines[start + 2 : start + 5] == [
        "one      0.5  ✓ L0",
        f"two       17  {NASTY}",
        "three  refuses: <not derived>",
    ]
    assert [line[:12] for line in lines if "two words" in line][1:] == [" " * 12] * 4
    assert "  inside" in reports.text(PAGE, folded=True).splitlines()
    clipped = Table(["a", "b"], [["x", "word " * 60]], wrap=False)
    (row,) = reports.text(Document("", [clipped]), width=60).splitlines()[2:]
    assert len(row) == 60 and row.endswith("…")


def test_markdown():
    page = reports.markdown(PAGE)
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert rows[1] == "|---|---:|---|" and all(
        line.replace("\\|", "").count("|") == 4 for line in rows
    )
    assert (
        "```python\nif a < b:\n    c = `d`\n```" in page
        and "```math\n\\frac{a}{b} < c\n```" in page
    )
    assert 'a \\<b> & "c" \\| d\\_e \\*f\\* \\`g\\` \\\\h \\[i\\]' in page and "\n## Part\n" in page
    assert reports.markdown(Document("t", [Text(Span("a|b", style="code"))])) == "# t\n\n`a\\|b`\n"


def test_json_has_no_nan():
    got = json.loads(reports.to_json(PAGE.data), parse_constant=pytest.fail)
    assert got == {"x": [1.0, "inf"], "n": 3, "t": [None, True], "nan": "nan"}


def test_junit_counts_and_escapes():
    root = ElementTree.fromstring(reports.junit(PAGE.title, PAGE.cases).encode())
    counts = {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "8", "failures": "2", "errors": "1", "skipped": "3"}
    assert root.get("name") == PAGE.title and float(root.get("time")) == 0.75
    assert [(s.get("name"), s.get("tests")) for s in root] == [
        ("L0", "2"),
        ("L1", "4"),
        ("L2", "2"),
    ]
    assert (
        root.find(".//failure").get("message") == NASTY
        and root.find(".//failure").text == "details\ufffd"
    )
    assert [c.get("name") for c in root.iter("testcase") if len(c) == 0] == ["first"]
    assert root.find(".//system-out").text == "now passes"


@pytest.mark.parametrize("ending", reports.ENDINGS)
def test_write_takes_the_form_from_the_ending(tmp_path, ending):
    file = tmp_path / f"Report{ending.upper()}"
    file.write_text("old")
    file.chmod(0o640)
    reports.write(file, PAGE)
    assert file.read_text(encoding="utf-8") == reports.render(PAGE, ending)
    assert os.listdir(tmp_path) == [file.name] and file.stat().st_mode & 0o777 == 0o640


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "report.txt"
    file.write_text("old")

    def full(self, *a, **kw):
        self.open("w").close()
        raise OSError("no space left on device")

    with monkeypatch.context() as m, pytest.raises(OSError, match="no space"):
        m.setattr("pathlib.Path.write_text", full)
        reports.save(file, "new")
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["report.txt"]

    before = file.open()  # who reads the old file goes on reading it
    reports.save(file, "new")
    assert before.read() == "old" and file.read_text() == "new"
    before.close()


@pytest.mark.parametrize(
    ("path", "endings", "match"),
    [
        (
            "r.pdf",
            reports.ENDINGS,
            r"out must end in \.txt, \.json, \.md, \.html or \.xml, got 'r\.pdf'",
        ),
        ("r.pdf", (".json",), r"out must end in \.json, got 'r\.pdf'"),
        ("/no/such/r.json", (), "out must be in a folder that exists, got '/no/such/r.json'"),
        ("/", (), "out must be a file, and '/' is a directory"),
    ],
)
def test_paths_that_are_refused(path, endings, match):
    with pytest.raises(br.errors.InvalidValue, match=match):
        reports.check_path(path, "out", endings)

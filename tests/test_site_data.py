"""Pages of the site that are made from report files, paper.md and story.md."""

import gzip
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bongref.conformance import check, package, reports, vectors
from bongref.conformance.adapter import Reference
from docs import build, conforming, from_data, links, paper_page, verdicts

ROOT = Path(__file__).parent.parent
PAPER = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
BIB = (ROOT / "docs" / "paper.bib").read_text(encoding="utf-8")


class Wrong(Reference):
    """Half of g in every step of one method."""

    name = "wrong & <b>bold</b> | 1.0"

    def step(self, method, prior, current, curv, params):
        return super().step(method, prior, current, {**curv, "g": curv["g"] / 2}, params)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two report files as `bongref check --report` writes them, one of them compressed."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "reports").mkdir()
    for name, adapter in (("right", Reference), ("wrong", Wrong)):
        report = check(adapter(), methods=["bong-lin-hess-diag"], levels=["L0"])
        reports.write(str(folder / "reports" / f"{name}.json"), report)
    plain = folder / "reports" / "right.json"
    plain.with_suffix(".json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return folder


def test_entries_are_the_counts_of_the_reports(results):
    right, wrong = conforming.entries(results)
    cases = len(vectors.load(["L0"], ["bong-lin-hess-diag"]))
    assert (right.id, right.conforms, right.passed, right.cases) == ("right", True, cases, cases)
    assert (wrong.id, wrong.conforms, wrong.offered) == ("wrong", False, cases)
    assert 0 < wrong.passed < cases  # a prior that must be refused is refused by both
    assert (right.methods, right.vectors) == (1, vectors.SCHEMA.rsplit("-", 1)[-1])


def test_badges_are_pictures_that_load_nothing(results, tmp_path):
    found = conforming.entries(results)
    conforming.write_badges(tmp_path, found)
    for e in found:
        text = (tmp_path / "badges" / f"{e.id}.svg").read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        assert root.get("aria-label") == f"{conforming.label(e)}: {conforming.said(e)}"
        assert "href" not in text and "url(" not in text
        assert (conforming.GREEN in text) is e.conforms


def test_the_page_has_every_entry_and_its_badge(results):
    text = conforming.page(conforming.entries(results))
    assert text.index("## Conforming") < text.index('id="right"') < text.index("## Not conforming")
    assert 'src="badges/wrong.svg"' in text and "badges/right.svg" in text
    assert 'class="badge"' not in text  # the theme hides elements of this class that are empty
    assert "<b>bold" not in text and "wrong &amp; &lt;b&gt;bold&lt;/b&gt; &#124; 1.0" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"interrupted": True}, "interrupted"),
        ({"schema": "bongref-report-0"}, "schema must be"),
        ({"cases": []}, "not those of its cases"),
        ({"vectors": "other"}, "vectors must be"),
        ({"dtype": "<i>"}, "dtype must be"),
    ],
)
def test_report_files_that_are_refused(results, tmp_path, change, said):
    data = json.loads((results / "reports" / "wrong.json").read_text())
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**data, **change}))
    with pytest.raises(ValueError, match=said):
        conforming.of_report(path)


def test_counts_that_were_edited_are_refused(results, tmp_path):
    data = json.loads((results / "reports" / "wrong.json").read_text())
    data["counts"] |= {"pass": data["counts"]["pass"] + 1, "fail": data["counts"]["fail"] - 1}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match="not those of its cases"):
        conforming.of_report(path)


def test_the_repository_has_bongref_itself_and_the_peers():
    found = {e.id: e for e in conforming.entries()}
    assert found["bongref-reference"].conforms and found["bongref-fast"].conforms
    for path in (ROOT / "validation" / "results").glob("peer-*.json"):
        data = json.loads(path.read_text())
        runs = [r for r in data["runs"] if r["dtype"] == "float64"]
        failing = sum(len(r["failures"]) for r in runs)  # listed one by one, as well as counted
        passing = sum(r["counts"].get("pass", 0) for r in runs)
        e = found.get(data["peer"])
        assert (e is None) is (passing + failing == 0), path.name  # without an offer, no badge
        assert e is None or (e.passed, e.offered) == (passing, passing + failing), path.name


def test_every_citation_of_the_paper_has_a_reference_that_resolves():
    entries = paper_page.references(BIB)
    assert set(paper_page.cited(PAPER)) == set(entries)  # and none that is not cited
    assert len(entries) == BIB.count("\n@") + 1
    for key, e in entries.items():
        assert e["title"] and re.fullmatch(r"\d{4}", e["year"]) and paper_page.authors(e), key
        doi = re.fullmatch(r"10\.\d{4,5}/\S+", e.get("doi", ""))
        assert doi or re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", e.get("url", "")), key
        arxiv = re.fullmatch(r"10\.48550/arXiv\.(\d\d)(\d\d)\.\d{5}", e.get("doi", ""))
        if arxiv:  # a preprint is not from a later year than its publication
            assert 2000 + int(arxiv[1]) <= int(e["year"]) and 1 <= int(arxiv[2]) <= 12, key


def test_the_paper_has_the_form_of_joss():
    _, front, body = PAPER.split("---\n", 2)
    for field in (
        "title:",
        "tags:",
        "authors:",
        "affiliations:",
        "date:",
        "bibliography: paper.bib",
    ):
        assert re.search(f"^{field}", front, re.MULTILINE), field
    titles = re.findall(r"^# (.+)$", body, re.MULTILINE)
    assert titles[:4] == [
        "Summary",
        "Statement of need",
        "State of the field",
        "Design and trade-offs",
    ]
    assert titles[-1] == "References"
    assert 250 <= len(body.split()) <= 1100  # JOSS asks for 250 to 1,000, headings not counted


def test_the_paper_as_a_page():
    text = from_data.with_site_links(PAPER, "paper")
    assert text.startswith("# bongref: an executable reference") and "[@" not in text
    assert '(<a href="#kalman1960new">Kalman, 1960</a>)' in text
    assert "Silvère" in text and "Håvard" in text and "{" not in text
    with pytest.raises(ValueError, match="nobody2000"):
        paper_page.page(PAPER + "\n[@nobody2000]", BIB)


def test_the_version_of_the_vectors_is_that_of_their_schema():
    assert package.VERSION.split(".")[0] == vectors.SCHEMA.rsplit("-", 1)[-1]
    made = package.files()
    for path in ("README.md", "CITATION.cff"):
        text = made[path].decode()
        assert vectors.SCHEMA in text and package.VERSION in text, path


def test_the_site_has_the_explorer(tmp_path, monkeypatch):
    """Its page leads to it; without npm it is there without the library, and that is said."""
    monkeypatch.setattr(build.explorer_build, "CACHE", tmp_path / "none")
    monkeypatch.setattr(build.explorer_build.shutil, "which", lambda name: None)
    said = build.explorer(tmp_path)
    assert "without WebAssembly, because npm is not on this machine" in said
    html = (tmp_path / "explorer" / "index.html").read_text(encoding="utf-8")
    assert 'content="none"' in html and 'href="../index.html"' in html
    staged = from_data.with_site_links(
        (ROOT / "docs" / "explorer.md").read_text(encoding="utf-8"), "explorer"
    )
    assert 'href="explorer/index.html"' in staged
    (tmp_path / "index.html").write_text("<html></html>")
    assert links.check(tmp_path) == []


def test_the_figure_of_the_verdicts_has_every_conclusion_and_comparison(tmp_path):
    """Counted again from the table of the page, in another way than the figure reads it."""
    story = (ROOT / "docs" / "story.md").read_text(encoding="utf-8")
    table = story.split("## The verdicts\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| [")]
    drawn = verdicts.read(story)
    assert len(drawn) == len(rows) > 10
    root = ElementTree.fromstring(verdicts.svg(drawn))
    words = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    for (_, verdict, counts, *_), found in zip(rows, drawn, strict=True):
        assert found.verdict == verdict.strip("*") and found.verdict in words
        assert sum(found.comparisons.values()) == sum(map(int, re.findall(r"\d+", counts)))
    with pytest.raises(ValueError, match="no table of verdicts"):
        verdicts.read("## The verdicts\n")
    with pytest.raises(ValueError, match="no such outcome"):
        verdicts.read("| [A.](#a) (1) | **holds** | 3 guessed |  |")

"""`bongref eq`: by id, by the number that the PDF prints, by glob, by words; what it shows, and in
which forms.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bongref as br
from bongref import paper, reports
from bongref.cli import main
from bongref.paper import formula, lookup, pages, source

ROOT = Path(__file__).resolve().parents[1]
EQUATIONS = paper.equations()


def run(capsys, *argv):
    status = main(["eq", *argv])
    out, err = capsys.readouterr()
    return status, out, err


# --- by id and by number ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("eq:bong", ["eq:bong"]),
        ("EQ:BONG", ["eq:bong"]),
        (" eq:Bong-fc-PREC ", ["eq:bong-FC-prec"]),
        ("sec:fc-mom#21", ["sec:FC-Mom#21"]),
        ("eq:gL", ["eq:gL"]),
        ("eq:GL", ["eq:GL"]),
        ("EQ:gl", ["eq:gL", "eq:GL"]),  # two labels that differ in case only
        (r"\eqref{eq:bong}", ["eq:bong"]),
        (r"\label{sec:DLR-deriv}", ["sec:DLR-deriv"]),
        ("3", ["eq:bong"]),
        ("(3)", ["eq:bong"]),
        ("eq. (3)", ["eq:bong"]),
        ("Equation 3", ["eq:bong"]),
        ("Proposition 4.2", ["thm:lbong"]),
        ("prop. 4.2", ["thm:lbong"]),
        ("Table 1", ["tab:hessian"]),
        ("Tab. 3", ["tab:methods"]),
        ("Algorithm 2", ["algo:predict"]),
        ("alg 3", ["algo:update"]),
        ("Section 4.4", ["sec:linearized"]),
        ("Appendix E.5", ["sec:DLR-deriv"]),
        ("appendix e", ["sec:derivations"]),
        ("E.5.3", ["sec:BLR-DLR"]),
        ("e.5.3", ["sec:BLR-DLR"]),
        ("4.1", ["sec:conjugate", "thm:exact-when-conjugate"]),
        ("eq:gl*", ["eq:gL", "eq:GL", "eq:gL-cheap", "eq:GLEF"]),
        ("algo:*-EF-est", ["algo:mc-ef-est", "algo:lin-ef-est"]),
        ("sec:EF#?", [id for id in EQUATIONS if id.startswith("sec:EF#")]),
    ],
)
def test_find(query, ids):
    assert [t.id for t in lookup.find(query)] == ids != []


def test_every_number_finds_its_equation_and_every_part_its_page():
    for e in EQUATIONS.values():
        if e.number:
            assert lookup.find(f"({e.number})") == [e]
    for i in source.items():
        assert i in lookup.find(i.name) and (not i.id or lookup.find(i.id) == [i])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("eq:bong-FC-precision", "nearest: eq:bong-FC-prec"),
        ("EQ:BONG-FC-PRE", "nearest: eq:bong-FC-prec"),
        ("sec:FC-Natural", "nearest: sec:FC-Nat"),
        ("359", "it prints (1) to (358)"),
        ("(0)", "it prints (1) to (358)"),
        ("Proposition 1", "there are Proposition 4.1, Proposition 4.2"),
        ("Table 9", "Table 1, Table 2, Table 3"),
        ("Appendix F", "Appendix E"),
        ("eq:none-*", "no id matches this glob"),
        ("low rank", "bongref eq --search 'low rank'"),
        ("svd", "bongref eq --search 'svd'"),
        ("sec:DLR", "nearest: sec:DLR-deriv"),
        ("12-14", "one number at a time"),
        ("(12) and (13)", "one number at a time"),
        ("", "no equation ''"),
        ("Figure 1", "figures are not listed"),
    ],
)
def test_what_is_not_there_says_what_is(query, said):
    with pytest.raises(paper.UnknownEquation) as error:
        paper.show(query)
    assert said in str(error.value) and all(
        isinstance(error.value, kind) for kind in (KeyError, ValueError, br.errors.BongrefError)
    )


# --- by words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "among_the_first", "id"),
    [
        ("low rank projection", 1, "sec:DLR-deriv#13"),
        ("kalman gain", 2, "sec:linearized#13"),
        ("empirical fisher", 5, "sec:EF"),
        ("mirror descent", 3, "sec:MD-formulation"),
        ("predict step", 1, "algo:predict"),
        ("time complexity", 1, "tab:methods"),
        ("moment covariance update", 1, "eq:bong-FC-mom-cov"),
        ("linearised hessian", 1, "eq:GL"),  # the paper writes it with z
        ("slang", 3, "sec:BLR-DLR"),
        ("bog dlr upsilon", 5, "eq:bog-dlr-Ups"),
        ("KL gradient variance diagonal", 2, "eq:diag-KL-Sigma"),
    ],
)
def test_search_finds_it_among_the_first(words, among_the_first, id):
    hits = lookup.search(words)
    assert id in [h.target.id for h in hits][:among_the_first] and not hits[0].missing
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_a_search_says_how_many_there_are(capsys):
    hits = lookup.search("low rank projection")
    assert len(hits) > 15
    assert main(["eq", "--search", "low rank projection"]) == 0
    assert f"the best 15 of {len(hits)} results" in capsys.readouterr().out


@pytest.mark.parametrize("given", [["--search", ""], [""], ["3", "--search", "gain"]])
def test_nothing_to_look_for_is_refused(capsys, given):
    assert run(capsys, *given)[0] == 2


def test_a_number_in_two_words(capsys):
    assert main(["eq", "Eq.", "12"]) == 0
    assert main(["eq", "Proposition", "4.2"]) == 0
    out = capsys.readouterr().out
    assert "(12)" in out and "Proposition 4.2" in out


def test_the_marked_line_is_the_one_that_computes():
    """Where the mark stands behind a closing bracket, its statement's first line is shown."""
    marked = [line for line in paper.show("12").splitlines() if line.strip().startswith(">")]
    assert marked
    assert not any(re.search(r"\d\s+[)\]}]", line) for line in marked), marked


def test_search_with_a_word_that_is_not_there(capsys):
    hits = lookup.search("kalman zebra gain")
    assert {h.missing for h in hits} == {("zebra",)}
    status, out, _ = run(capsys, "--search", "kalman zebra gain")
    assert status == 0 and "these lack zebra" in out and "sec:linearized#13" in out


def test_search_that_finds_nothing_says_what_to_try(capsys):
    status, out, err = run(capsys, "--search", "projektion")
    assert (
        (status, out) == (2, "")
        and "words that are there: projection" in err
        and "bongref eq 'eq:*dlr*'" in err
    )
    assert run(capsys, "--search", "+++")[0] == 2
    assert run(capsys, "eq:bong", "--search", "gain")[0] == 2


# --- what is shown ------------------------------------------------------------------------------


def test_one_equation_shows_its_lines_of_code():
    for id in ("eq:bong-FC-prec", "eq:bog-FC-nat-prec", "sec:pseudocode#4"):
        text, e = paper.show(id), paper.equation(id)
        found = paper.computed()
        for place in [*found.get(id, ()), *found.get(e.algorithm, ())]:
            source_line = (
                (ROOT / place.file).read_text(encoding="utf-8").splitlines()[place.line - 1]
            )
            assert f">{place.line:>4}  {source_line}" in text and f"computed  {place.file}:" in text
            assert all(re.search(rf"[> ] *{n}\b", text) for n in (place.line - 1, place.line + 1))
        assert (
            e.section in text
            and e.kind in text
            and e.latex in text
            and formula.plain(e.latex) in text
        )
        assert all(node in text for node in paper.tests().get(id, ()))
    assert "(121)" in paper.show("eq:bong-FC-prec").splitlines()[0]
    assert "algorithm  algo:predict (Algorithm 2)" in paper.show("sec:pseudocode#4")


def test_marks_near_each_other_are_shown_once():
    lines = pages._lines("bongref/families/fc_nat.py", {10, 12, 40}).splitlines()
    numbers = [int(m[1]) for line in lines if (m := re.match(r"[> ] *(\d+)", line))]
    assert numbers == [*range(7, 16), *range(37, 44)] and lines[9] == "    ..."
    assert [line[:5] for line in lines if line.startswith(">")] == [">  10", ">  12", ">  40"]


@pytest.mark.parametrize(
    "i", [i for i in source.items() if i.kind == "section"], ids=lambda i: i.number
)
def test_a_section_has_its_rows_under_its_headings(i):
    data = (
        paper.document(i.name).data
        if i in lookup.find(i.name) and len(lookup.find(i.name)) == 1
        else None
    )
    text = paper.show(i.id or i.name)
    rows = [e for e in EQUATIONS.values() if e.id in text]
    lines = text.splitlines()
    inside = [
        s for s in source.items() if s.kind == "section" and s.number.startswith(i.number + ".")
    ]
    for e in data["rows"] if data else ():
        (row,) = [line for line in lines if f"  {e['id']}  " in line]
        assert f"({e['number']})" in row if e["number"] else True
    headings = [s.title for s in inside if any(s.line < e.line for e in rows)]
    assert all(any(title in line for line in lines) for title in headings if data and data["rows"])


def test_rows_of_a_list_can_be_told_apart():
    """No two rows of a section read the same, unless the paper prints the same equation twice."""
    for i in source.items():
        rows = [e for e in EQUATIONS.values() if e.scope == i.id]
        shown = [formula.plain(e.latex) for e in rows]
        assert len(set(shown)) == len({re.sub(r"\s", "", e.latex) for e in rows}), i.id
    text = paper.show("sec:FC-Nat")
    assert "…" not in text.replace("…,", "") and "BLR-LIN-HESS FC" in text


def test_a_proposition_a_table_and_an_algorithm():
    text = paper.show("Proposition 4.1")
    assert (
        "conjugate exponential family" in text
        and "eq:conjugate-likelihood" in text
        and "$" not in text
    )
    assert all(id in paper.show("Table 1") for id in ("eq:gMC", "eq:GMCH", "eq:gL", "eq:GLEF"))
    text = " ".join(paper.show("Table 3").split())
    assert all(e.corrected in text for e in paper.for_equation("tab:methods"))
    assert [
        line.split()[0] for line in paper.show("Algorithm 2").splitlines() if "pseudocode#" in line
    ] == [
        "sec:pseudocode#3",
        "sec:pseudocode#4",
    ]


def test_the_overview_names_the_paper_and_its_source():
    text = reports.text(paper.overview())
    assert all(
        w in text
        for w in ("Jones, M., Chang, P., & Murphy, K.", "(2024)", "NeurIPS", "arXiv:2405.19681")
    )
    assert source.read("paper")["source"]["sha256"] in text and "bong-paper.tex" in text
    assert all(i.name in text and i.id in text for i in source.items())


# --- forms --------------------------------------------------------------------------------------


def test_to_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for ending in pages.ENDINGS:
        assert run(capsys, "(121)", "--out", f"x{ending}") == (0, f"written to x{ending}\n", "")
        text = Path(f"x{ending}").read_text(encoding="utf-8")
        assert "eq:bong-FC-prec" in text and "bong_woodbury" in text.replace("\\_", "_")
    data = json.loads(Path("x.json").read_text(encoding="utf-8"))
    e = paper.equation("eq:bong-FC-prec")
    assert (
        data["latex"] == e.latex
        and data["number"] == 121
        and data["plain"] == formula.plain(e.latex)
    )
    assert [p["line"] for p in data["computed"]] == [
        p.line for p in paper.computed()[e.id]
    ] and data["tests"]
    assert f"```math\n{e.latex}\n```" in Path("x.md").read_text(encoding="utf-8")
    assert run(capsys, "eq:bong", "--out", "x.pdf")[0] == 2
    assert (
        run(capsys, "--search", "gain", "--out", "s.html")[0]
        == run(capsys, "--out", "o.md")[0]
        == 0
    )


def test_html_has_a_picture_of_the_formula_where_matplotlib_can_draw_it():
    pytest.importorskip("matplotlib")
    page = reports.html(paper.document("eq:bong-FC-prec"))
    assert (
        page.count("<svg ") == 1
        and 'fill="currentColor"' in page
        and "http" not in page.split("<body>")[1]
    )
    box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', page)
    x, y, width, height = map(float, box.groups())
    points = [tuple(map(float, p)) for p in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", page)]
    assert len(points) > 20 and all(x <= a <= x + width and y <= b <= y + height for a, b in points)
    assert formula.svg(r"a + \begin{array}{l} b \\ + c \end{array}")  # lines of a sum: one line
    assert formula.svg(r"\begin{array}{cc} a & b \end{array}") == ""  # the source is shown instead


def test_html_of_a_section_and_of_a_glob_shows_the_formulas():
    pytest.importorskip("matplotlib")
    for query, least in (("sec:conjugate", 2), ("eq:bong-FC-*", 2)):
        shown = paper.document(query)
        page, text = reports.html(shown), reports.text(shown)
        rows = page.count("<tr>") - page.count("<thead>")
        assert least <= page.count("<svg ") <= rows
        assert page.count("<svg ") >= 0.8 * rows  # mathtext cannot draw an array
        assert "<svg" not in text and "_{t|t-1}" in text


def test_without_matplotlib_html_has_the_source():
    code = (
        "import sys; sys.modules['matplotlib'] = None; from bongref import paper, reports;"
        "page = reports.html(paper.document('eq:bong')); assert '<svg' not in page and "
        "'boldsymbol' in page"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


# --- LaTeX as text ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\boldsymbol{\mu}_{t} = \boldsymbol{\mu}_{t|t-1}", "μ_t = μ_{t|t-1}"),
        (r"\frac{1}{2}\mathbf{G}", "½G"),
        (r"\tfrac{\alpha}{2M} x", "α/(2M) x"),
        (r"\mathbf{W}^{\intercal}\mathbf{R}^{-1}", "WᵀR⁻¹"),
        (r"\hat{\boldsymbol{y}}_{t,i}", "ŷ_{t,i}"),
        (r"\sqrt{1-\alpha}", "√(1-α)"),
        (r"\left[\begin{array}{cc} a & b \\ c & d \end{array}\right]", "[[a b; c d]]"),
        (r"\underset{\psi}{\arg\min} \, \ell", "arg min_ψ ℓ"),
        (r"\nabla_{\underset{}{\theta}} x", "∇_θ x"),
        (r"\{ a \}", "{ a }"),
    ],
)
def test_latex_as_text(latex, text):
    import unicodedata

    assert unicodedata.normalize("NFC", formula.plain(latex)) == unicodedata.normalize("NFC", text)


def test_no_latex_is_left_in_any_equation():
    for e in EQUATIONS.values():
        text = formula.plain(e.latex)
        assert not re.search(r"\\|[⟦⟧⦃⦄ˆ]", text), (e.id, text)
        assert text.count("{") == text.count("}") and text.count("(") - text.count(
            ")"
        ) == e.latex.count("(") - e.latex.count(")"), e.id

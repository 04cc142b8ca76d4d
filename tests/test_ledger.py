"""The ledger of the paper's equations is complete, well formed, and tied to the code and the
tests.
"""

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from bongref import paper
from bongref.paper import errata, index, ledger, marks, source

ROOT = Path(__file__).resolve().parents[1]
TEX = Path(os.environ.get("BONGREF_PAPER", ROOT.parent / "shared" / "paper" / "bong-paper.tex"))
NAMES = [
    f"{rule}-{hess}-{family}"
    for rule in ("bong", "blr", "bog", "bbb")
    for hess in ("mc-hess", "mc-ef", "lin-hess", "lin-ef")
    for family in ("fc", "fc_mom", "diag", "diag_mom", "dlr")
]
MACROS = """
bong Bong mcbong lbong bog Bog blr Blr bbb BBB fc dg dlr fcmom diagmom mc ef un hessmc hesslin
efmc eflin mchess linhess mcef linef gMC gL gLEF GMCH GLH GMCEF GLEF gradmat gradmatT CMEKF VDEKF
LOFI VON VOGN SLANG Slang RVGA nparam nsample rank nhutchinson kpm mj rev KLpq eat nparams nout
niter diag Diag data real loss T trans myvec myvecsym gauss const expect expectQ var vchi vell
veta vmu vlambda vLambda vpsi vrho vtheta vsigma vSigma vUpsilon vb vf vg vv vx vy vA vB vF vG vH
vI vK vQ vR vS vU vV vW sR bm textsc xspace rm label nonumber
""".split()

needs_tex = pytest.mark.skipif(
    not TEX.exists(), reason="the paper's LaTeX is not here (set BONGREF_PAPER)"
)


def maker():
    spec = importlib.util.spec_from_file_location(
        "ledger_from_tex", ROOT / "validation" / "ledger_from_tex.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --------------------------------------------------------------------------- the paper


@needs_tex
def test_regenerated_ledger_is_the_committed_one():
    make = maker()
    tex = TEX.read_bytes().decode("utf-8")
    fresh = {
        "equations.json": make.dump(make.ledger(tex)),
        "paper.json": make.dump_paper(make.paper(tex)),
    }
    for name, text in fresh.items():
        assert text == (ROOT / "bongref" / "paper" / name).read_text(encoding="utf-8"), name


@needs_tex
def test_line_numbers_belong_to_this_source():
    facts = source.read("paper")["source"]
    assert (
        hashlib.sha256(TEX.read_bytes()).hexdigest() == facts["sha256"]
        and facts["sha256"] in source.line_numbers()
    )
    assert (
        TEX.name == facts["file"]
        and len(TEX.read_text(encoding="utf-8").splitlines()) == facts["lines"]
    )


@needs_tex
def test_the_paper_is_cited_as_it_calls_itself():
    head = TEX.read_text(encoding="utf-8").split(r"\begin{document}")[0]
    title = re.search(r"\\title\{([^}]*?)\s*\(\\bong\)\}", head)
    names = re.findall(r"([A-Z][a-z]+ [A-Z][a-z]+)\s*\\\\", head[head.index(r"\author") :])
    facts = json.loads((ROOT / "bongref" / "citation.json").read_text(encoding="utf-8"))["paper"]
    authors = [f"{a['given']} {a['family']}" for a in facts["authors"]]
    assert facts["title"] == f"{title[1]} (BONG)" and [n for n in names if n in authors] == authors
    assert facts["title"] in source.citation() and "arXiv:2405.19681" in source.citation()


def test_numbers_are_those_that_latex_prints():
    """`validation/printed_numbers.py` compiled the paper and read them from LaTeX's own .aux file
    and log.
    """
    printed = json.loads((ROOT / "validation" / "printed_numbers.json").read_text(encoding="utf-8"))
    derived = {
        e.id: str(e.number)
        for e in paper.equations().values()
        if e.number and not e.id.startswith("sec:")
    }
    derived |= {i.id: i.number for i in source.items() if i.id}
    assert (
        len(printed["labels"]) > 160
        and {k: derived.get(k) for k in printed["labels"]} == printed["labels"]
    )
    assert set(derived) - set(printed["labels"]) == {
        "sec:methods",
        "sec:variational",
        "sec:diag-Mom",
        "sec:sarcos",
    }  # our own names
    assert [i.number for i in source.items() if i.kind == "section"] == printed["sections"]
    numbers = [e.number for e in paper.equations().values() if e.number]
    assert numbers == list(range(1, printed["equations"] + 1))


@needs_tex
def test_every_displayed_label_is_in_the_ledger():
    text = maker().displayed(TEX.read_text(encoding="utf-8"))
    labels = set(re.findall(r"\\label\{((?:eqn?:|bbb-)[^}]*)\}", text))
    assert len(labels) > 100
    assert labels == {id for id in paper.equations() if not id.startswith("sec:")}


@needs_tex
def test_no_macro_of_the_paper_is_left():
    """The list in this file covers the paper's own definitions that could appear in an equation."""
    defined = set(maker().macros(TEX.read_text(encoding="utf-8"))) - {"1"}
    for e in paper.equations().values():
        assert not defined & set(re.findall(r"\\([A-Za-z]+)", e.latex)), e


def balanced(latex):
    depth = 0
    for token in re.findall(r"\\.|[{}]", latex):
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth < 0:
            return False
    return depth == 0


def matched(latex):
    r"""\left and \right nest, and so do \begin and \end."""
    stack = []
    for word in re.findall(r"\\(left|right|begin|end)(?![A-Za-z])", latex):
        if word in ("left", "begin"):
            stack.append(word)
        elif not stack or stack.pop() != {"right": "left", "end": "begin"}[word]:
            return False
    return not stack


def test_latex_is_well_formed():
    for e in paper.equations().values():
        assert balanced(e.latex), e
        assert matched(e.latex), e
        assert not set(MACROS) & set(re.findall(r"\\([A-Za-z]+)", e.latex)), e
        assert not e.latex.endswith("\\"), e
        assert "&" not in re.sub(r"\\begin\{array\}.*\\end\{array\}", "", e.latex), e
        assert "  " not in e.latex and e.latex == e.latex.strip(), e


@pytest.mark.parametrize("bad", [r"{\left( x \right)", r"x}{", "{{x}"])
def test_an_unbalanced_brace_is_seen(bad):
    assert not balanced(bad)


@pytest.mark.parametrize(
    "bad", [r"\left( x", r"\right) \left(", r"\left( \begin{array}{c} \right) \end{array}"]
)
def test_an_unmatched_delimiter_is_seen(bad):
    assert not matched(bad)


def test_entries():
    rows = json.loads((ROOT / "bongref" / "paper" / "equations.json").read_text(encoding="utf-8"))
    assert len({row["id"] for row in rows}) == len(rows) == len(paper.equations())
    assert [row["line"] for row in rows] == sorted(row["line"] for row in rows)
    for row in rows:
        assert row["kind"] in paper.KINDS, row
        assert row["scope"].startswith("sec:") and row["section"], row
        assert ("algorithm" in row) == (row["scope"] == "sec:pseudocode"), row
        for glob in row["methods"]:
            assert any(fnmatchcase(name, glob) for name in NAMES), row
        assert marks.ID.fullmatch(row["id"]), row


def test_every_method_has_updates_of_its_own():
    """All but the two that the SVD projection does not cover."""
    own = {m for e in paper.equations().values() if e.kind == "update" for m in e.methods}
    assert set(NAMES) - own == {"bong-mc-hess-dlr", "blr-mc-hess-dlr"}


def test_errata():
    assert len({e.id for e in paper.ERRATA}) == len(paper.ERRATA)
    assert {e.kind for e in paper.ERRATA} <= set(errata.KINDS)
    assert all(all(field.strip() for field in e[:7]) for e in paper.ERRATA)
    assert [e.name for e in paper.for_equation("eq:bog")] == ["bog-rule"]


def test_every_reason_covers_an_equation():
    for glob in paper.REASONS:
        assert (
            any(fnmatchcase(id, glob) for id in paper.equations()) or glob in paper.equations()
        ), glob


# --------------------------------------------------------------------------- the code and the tests


def test_every_equation_is_computed_or_there_is_a_reason():
    missing = paper.coverage().missing
    assert not missing, "\n".join(missing)


def test_code_tests_and_errata_name_equations_that_exist():
    unknown = paper.coverage().unknown
    assert not unknown, "\n".join(unknown)


def test_every_update_that_is_computed_has_a_test():
    untested = paper.coverage().untested
    assert not untested, "\n".join(untested)


def test_index_of_tests_is_fresh(whole_index):
    """`python -m bongref.paper.index` makes it."""
    assert index.dump(whole_index) == (ROOT / "bongref" / "paper" / "tests.json").read_text(
        encoding="utf-8"
    )


SOURCE = '''
from bongref.paper import eq

@eq(
    "eq:bong-FC-mean",
    "eq:no-such-equation",
)
def bong(prior, g, G):
    """eq:GMCH in a docstring is no mark."""
    prec = prior - G  # eq:bong-FC-prec
    mu, Sigma = (
        g,
        prec,
    )  # sec:FC-Nat-bong#1, sec:FC-Nat-bong#2 - both rows
    s = "# eq:gL"
    # eq:GL alone on its line is no mark
    return State(
        mu=mu,  # bbb-FC-mom-mu
        Sigma=f(Sigma, k=1),
    )

def blr(q):
    state = State(
        mu=q,  # eq:blr-FC-nat-mu
        Sigma=q,
    )
    return state._replace(mu=0)  # eq:BLR-FC-Nat-prec

class Family:
    def step(self):
        x = y = 1  # see eq:blr
        self.K = x  # eqn:jacH eq:hbar
'''


@pytest.fixture
def package(tmp_path):
    root = tmp_path / "bongref"
    (root / "paper").mkdir(parents=True)
    (root / "fc.py").write_text(SOURCE)
    (root / "paper" / "skipped.py").write_text("x = 1  # eq:also-not-there\n")
    return root


def test_marks_are_found(package):
    line = {text.strip(): n for n, text in enumerate(SOURCE.split("\n"), 1)}
    at = lambda start: next(n for text, n in line.items() if text.startswith(start))
    found = paper.computed(package)
    assert found == {
        "eq:bong-FC-mean": [("bongref/fc.py", at("def bong"), "bong", "")],
        "eq:no-such-equation": [("bongref/fc.py", at("def bong"), "bong", "")],
        "eq:bong-FC-prec": [("bongref/fc.py", at("prec = "), "bong", "prec")],
        "sec:FC-Nat-bong#1": [("bongref/fc.py", at(")  # sec"), "bong", "mu, Sigma")],
        "sec:FC-Nat-bong#2": [("bongref/fc.py", at(")  # sec"), "bong", "mu, Sigma")],
        "bbb-FC-mom-mu": [("bongref/fc.py", at("mu=mu"), "bong", "mu")],
        "eq:blr-FC-nat-mu": [("bongref/fc.py", at("mu=q"), "blr", "mu")],
        "eq:BLR-FC-Nat-prec": [("bongref/fc.py", at("return state"), "blr", "mu")],
        "eqn:jacH": [("bongref/fc.py", at("self.K"), "Family.step", "K")],
        "eq:hbar": [("bongref/fc.py", at("self.K"), "Family.step", "K")],
    }


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        ("this is no Python, and names eq:bong-FC-mean in a text", []),  # not parsed at all
        ("x = 1  # a remark on eq:bong-FC-mean\n", []),
        ("x = 1  #eq:bong-FC-mean\n", ["eq:bong-FC-mean"]),
        ("@paper.eq ('eq:bong-FC-mean')\ndef f(): ...\n", ["eq:bong-FC-mean"]),
    ],
)
def test_only_texts_with_marks_are_parsed(source, ids):
    assert [id for id, _ in marks.scan(source, "x.py")] == ids


def test_coverage_can_fail(package):
    c = paper.coverage(package)
    assert "eq:no-such-equation" in c.unknown and "eq:also-not-there" not in c.unknown
    assert "eq:blr" in c.missing and "eq:bong-FC-prec" not in c.missing
    assert c.computed == tuple(id for id in paper.equations() if id in paper.computed(package))


def test_untested_can_fail(package, monkeypatch):
    monkeypatch.setattr(
        ledger, "tests", lambda: {"eq:bong-FC-mean": ["tests/test_a.py::test_b"], "eq:typo": ["x"]}
    )
    c = paper.coverage(package)
    assert "eq:bong-FC-prec" in c.untested and "eq:bong-FC-mean" not in c.untested
    assert "eq:hbar" not in c.untested  # a definition
    assert "eq:typo" in c.unknown


def test_an_algorithm_stands_for_its_rows(package):
    (package / "filter.py").write_text('@eq("algo:predict")\ndef predict(): ...\n')
    assert {"sec:pseudocode#3", "sec:pseudocode#4"} <= set(paper.coverage(package).computed)


def test_eq_marks_and_leaves_the_function_alone():
    def f(x):
        return x

    n = len(paper.registry)
    assert paper.eq("eq:a", "eq:b")(f) is f
    assert (
        f.__equations__ == ("eq:a", "eq:b")
        and paper.registry.pop() is f
        and len(paper.registry) == n
    )


def test_line_symbols():
    def f(a):
        b = a  # eq:gL
        b, c = b, a  # eq:GL, eq:gMC
        return dict(
            d=c,  # eq:hbar
        )

    assert f(1) == {"d": 1}
    assert paper.line_symbols(f) == {"b": ("eq:gL", "eq:GL", "eq:gMC"), "c": ("eq:GL", "eq:gMC")}
    assert paper.line_symbols(len) == {}


def test_dump_of_marks(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "smoke.txt").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = eq(*ids): equations\n")
    (tmp_path / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.eq('eq:a', 'eq:b')\n"
        "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.eq('eq:c')), 2])\n"
        "def test_x(x): ...\n"
        "@pytest.mark.eq('eq:a')\n"
        "class TestY:\n"
        "    def test_y(self): ...\n"
    )
    both = ["test_a.py::TestY::test_y", "test_a.py::test_x"]
    assert index.collect(tmp_path) == {"eq:a": both, "eq:b": both[1:], "eq:c": both[1:]}


def test_a_broken_collection_is_an_error(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "smoke.txt").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("import no_such_module_anywhere\n")
    with pytest.raises(RuntimeError, match="no_such_module_anywhere"):
        index.collect(tmp_path)


# --------------------------------------------------------------------------- show


def test_show_an_equation():
    id = "eq:bong-FC-prec"
    text = paper.show(id)
    assert paper.equation(id).latex in text and "bong-mc-ef-fc" in text and "update" in text
    for place in paper.computed()[id]:
        assert f"{place.file}:{place.line}" in text
        assert id in (ROOT / place.file).read_text(encoding="utf-8")


def test_show_a_reason_and_an_erratum():
    assert paper.reason("sec:proofs#3") in paper.show("sec:proofs#3")
    (erratum,) = paper.for_equation("eq:blr")
    text = paper.show("eq:blr")
    assert erratum.printed in text and erratum.corrected in text and erratum.effect in text


def test_import_is_light():
    """Nothing is read, and nothing that only shows it is imported."""
    code = (
        "import sys, bongref.paper as p; assert p.source.read.cache_info().misses == 0;"
        "assert not {'bongref.paper.pages', 'bongref.paper.lookup', 'bongref.reports'} & "
        "set(sys.modules);"
        "assert len(p.CLAIMS) > 90 and len(p.ERRATA) > 70 and p.REASONS and 'show' in dir(p)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)

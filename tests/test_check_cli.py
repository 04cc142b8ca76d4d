"""``bongref check`` and ``bongref vectors``: verdicts, exit statuses, reports, known failures and
messages.
"""

import configparser
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import bongref as br
from bongref.cli import main
from bongref.conformance import Reference, findings, reports, runner, shipped, vectors
from bongref.conformance.flags import FLAGS
from bongref.conformance.runner import Outcome, check
from bongref.grid import FAMILIES

LEVELS = ["L0", "L1", "L4", "predict"]
RIGHT = "bongref.conformance:Reference"


class Wrong(Reference):
    """A wrong sign, a NaN, a wrong shape, a matrix that is not symmetric, an exception, a silent
    repair, and parts that are not offered.
    """

    name = "peer <b>2 & \x00 co"
    run = None

    def step(self, method, prior, current, curv, params):
        out = dict(super().step(method, prior, current, curv, params))
        rule, *_, family = method.split("-")
        if (rule, family) == ("bong", "fc"):
            out["mu"] = 2 * prior["mu"] - out["mu"]
        if (rule, family) == ("blr", "diag"):
            out["var"] = out["var"] * np.nan
        if (rule, family) == ("bog", "fc_mom"):
            out["Sigma"] = out["Sigma"] + np.triu(np.full(np.shape(out["Sigma"]), 1e-3), 1)
        if (rule, family) == ("bbb", "diag"):
            out["mu"] = out["mu"][:, None]
        if method == "bong-lin-hess-diag":
            raise RuntimeError("no <such> thing\nat all \x00")
        if (rule, family) == ("bog", "diag") and not out["valid"]:
            return {"mu": out["mu"], "var": np.abs(out["var"])}
        if family == "dlr" and params.get("alpha") == 1:
            out["Ups"] = 2 * out["Ups"]
        return NotImplemented if family == "diag_mom" else out

    def estimate(self, hess, **kw):
        out = super().estimate(hess, **kw)
        return (
            {**out, "g": -out["g"]}
            if (hess, kw["likelihood"]["kind"]) == ("mc-ef", "poisson")
            else out
        )

    def predictive(self, kind, **kw):
        return NotImplemented if kind == "lin_mc" else super().predictive(kind, **kw)


@pytest.fixture(scope="module")
def wrong():
    known = ["step/bong-mc-*-fc/plain", "step/bong-mc-hess-fc/zero-gradient", "step/none/*"]
    return check(Wrong, levels=LEVELS, xfails=known, diagnose=False)


@pytest.fixture(scope="module")
def right():
    return check(Reference, levels=LEVELS, diagnose=False)


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """Writes a module with an adapter in the working directory; its name for the command line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    made = []

    def make(body, name="Adapter", base="Reference"):
        module = f"adapter_{len(made)}_{tmp_path.name.replace('-', '_')}"
        made.append(module)
        head = "import numpy as np\nfrom bongref.conformance import Reference\n"
        (tmp_path / f"{module}.py").write_text(
            head + (f"class {name}({base}):\n{body}" if base else body)
        )
        return f"{module}:{name}"

    yield make
    for module in made:
        sys.modules.pop(module, None)


SIGN = """
    name = "mine 0.1"
    def step(self, method, prior, **kw):
        out = super().step(method, prior=prior, **kw)
        return {**out, "mu": 2 * prior["mu"] - out["mu"]} if method == "bong-lin-hess-fc" else out
"""
FEW = ["--methods", "bong-lin-hess-fc,bong-lin-*-diag", "--levels", "L0"]


def run(capsys, *argv):
    """(exit status, standard output, standard error)."""
    try:
        status = main(list(argv))
    except SystemExit as stop:  # of argparse
        status = stop.code
    out, err = capsys.readouterr()
    return status, out, err


# --- check ----------------------------------------------------------------------------------------


def test_what_conforms(capsys):
    status, out, err = run(capsys, "check", RIGHT, *FEW)
    n = len(vectors.load(["L0"], ["bong-lin-hess-fc", "bong-lin-*-diag"]))
    assert (status, err) == (0, "") and out.splitlines()[-1].startswith(
        f"CONFORMS in {n} of {n} cases (100 %), L0 step; none fails ({n} pass;"
    )
    assert "bong-lin-hess  ✓··  ···     ✓··   ···       ···" in out and "bong-mc-ef" not in out
    assert f"✓ L0 step  {n} cases  {n} pass" in out
    status, out, err = run(capsys, "check", RIGHT, *FEW, "--quiet")
    assert (status, err) == (0, "") and len(out.splitlines()) == 1 and out.startswith("CONFORMS")


LITTLE = """
class Adapter:
    name, dtype = "little", "float64"
    def step(self, method, prior, current, curv, params):
        if method != "bong-lin-hess-diag":
            return NotImplemented
        if min(prior["var"]) <= 0:
            raise ValueError("not positive")
        var = 1 / (1 / prior["var"] - curv["d"])
        return {"mu": prior["mu"] + var * curv["g"], "var": var}
"""


def test_the_first_line_says_how_much_is_offered(capsys, adapter):
    status, out, _ = run(capsys, "check", adapter(LITTLE, base=""))
    n, total = 5, len(vectors.load())
    percent = f"{100 * n / total:.2g}"
    assert status == 0 and out.splitlines()[0].startswith(
        f"little (float64) offers {n} of {total:,} cases ({percent} %), "
        "L0 step of bongref-vectors-2"
    )
    assert f"CONFORMS in {n} of {total:,} cases ({percent} %), L0 step; none fails" in out
    text = " ".join(out.split())
    assert "run (" in text and "OU dynamics" in text and "a missing observation" in text
    assert "draw (11 draws: given standard normals, a seed)" in text


def test_a_template_and_a_list(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(capsys, "check", "--new", "fresh_adapter.py")
    assert status == 0 and "bongref check fresh_adapter.py:Adapter" in out
    few = ("--methods", "bong-lin-hess-diag", "--levels", "L0,predict,draw")
    status, out, _ = run(capsys, "check", "fresh_adapter.py:Adapter", *few)
    assert status == 0 and "CONFORMS in 5 of" in out
    for wrong in ("fresh_adapter.py", "adapter.txt", "my-adapter.py"):
        assert run(capsys, "check", "--new", wrong)[0] == 2
    status, out, _ = run(capsys, "check", "--list", "--levels", "L3", "--methods", "bong-lin-ef-fc")
    lines = out.splitlines()
    assert status == 0 and len(lines) == len(vectors.load(["L3"], ["bong-lin-ef-fc"]))
    assert any("OU dynamics" in line for line in lines)
    status, _, err = run(capsys, "check")
    assert status == 2 and "--new" in err


def test_what_does_not(capsys, adapter):
    target = adapter(SIGN)
    status, out, err = run(capsys, "check", target, *FEW, "--no-diagnosis")
    bad = [
        o
        for o in check(target, methods=["bong-lin-hess-fc"], levels=["L0"], diagnose=False).outcomes
        if o.status == "fail"
    ]
    assert (status, err) == (1, "") and len(bad) == 3
    assert (
        f"✗ bong-lin-hess-fc: 3 of {len(vectors.load(['L0'], ['bong-lin-hess-fc']))} cases fail"
        in out
    )
    gap = bad[0].gap
    got, wanted = np.asarray(gap.got)[gap.where], gap.wanted[gap.where]
    for line in (
        f"case        {bad[0].case.id}",
        "quantity    mu (eq:bong-FC-mean), entry [",
        f"got         {got:.17g}",
        f"wanted      {wanted:.17g}",
    ):
        assert line in out
    assert f"{gap.relative:.3g} relative, tolerance {gap.tolerance:.3g}" in out
    assert f"further     2 failing cases: {bad[1].case.id}, {bad[2].case.id}" in out
    assert "low-rank-G  G = -S S^T; catches a wrong sign of G" in out
    assert (
        out.splitlines()[-1].startswith("DOES NOT CONFORM: 3 of")
        and "in 1 method (" in out.splitlines()[-1]
    )
    status, out, _ = run(capsys, "check", target, *FEW, "--no-diagnosis", "-v")
    assert status == 1 and all(f"case        {o.case.id}" in out for o in bad)


def test_the_mistake_is_named(capsys, adapter, tmp_path):
    """By the search for it, once for all that it explains, and in every report."""
    target = adapter(SIGN)
    status, out, _ = run(
        capsys,
        "check",
        target,
        *FEW,
        "--report",
        "r.json",
        "--report",
        "r.html",
        "--report",
        "r.xml",
    )
    assert status == 1 and "diagnosis   matches the sign of g (eq:bong-FC-mean)" in out
    data = json.loads((tmp_path / "r.json").read_text())
    assert any(
        "the sign of g" in line
        for line in data["diagnosis"]["common"] + data["diagnosis"]["methods"]["bong-lin-hess-fc"]
    )
    assert any("the sign of g" in line for case in data["cases"] for line in case["diagnosis"])
    assert all("the sign of g" in (tmp_path / f"r.{end}").read_text() for end in ("html", "xml"))
    assert "the sign of g" not in run(capsys, "check", target, *FEW, "--no-diagnosis")[1]


def test_one_mistake_behind_all(wrong, tmp_path):
    """It stands on top; and the diagnoses of an estimator find their place."""
    of = lambda why: wrong._replace(
        outcomes=tuple(o._replace(diagnosis=(why(o),)) if o.gap else o for o in wrong.outcomes)
    )
    report = of(lambda o: "a slip")
    n = sum(o.gap is not None for o in wrong.failures)
    assert (
        reports.text(report).split("\n\n")[4]
        == f"one mistake explains all {n} wrong values: a slip"
    )  # but not an exception
    assert reports.to_json(report)["diagnosis"]["common"] == ["a slip"]
    assert f"One mistake explains all {n} wrong values: a slip" in page_of(report, tmp_path).text
    numbers = report._replace(outcomes=tuple(o for o in report.outcomes if o.gap))
    assert "one mistake explains every failure: a slip" in reports.text(numbers)
    report = of(findings.subject)
    assert (
        "one mistake" not in reports.text(report)
        and reports.to_json(report)["diagnosis"]["common"] == []
    )
    assert findings.explained(report)[1] == {
        name: [name] for name, of in findings.failing(wrong).items() if any(o.gap for o in of)
    }
    said = r"✗ estimate mc-ef: 2 of \d+ cases fail\n  diagnosis   estimate mc-ef\n"
    assert re.search(said, reports.text(report, verbose=True))


def test_the_flag_that_tells_failing_cases_from_passing_ones(wrong):
    """A slip at alpha = 1 alone: the flag is named with what it catches; a flag that passing cases
    have too is not.
    """
    every = findings.groups(wrong.outcomes)["blr-lin-hess-dlr"]
    (bad,) = [o for o in every if o.status == "fail"]
    assert findings.only_with(bad, every) == ["alpha-one"]
    assert (
        "only with   alpha-one: a learning rate of 1; catches a division by 1 - alpha"
        in reports.text(wrong, verbose=True)
    )


def test_text_of_everything_that_can_go_wrong(wrong, monkeypatch):
    out = reports.text(wrong, verbose=True, xfails="gaps.txt")
    for line in (
        "var holds NaN at [0]",
        "mu has shape (5, 1); wanted (5,)",
        "Sigma is not symmetric: max|A - A^T| is",
        "what   raised RuntimeError: no <such> thing\n         at all",
        "returned a positive definite state where the equations lose positive "
        "definiteness: a silent repair",
        "now passes: remove step/bong-mc-hess-fc/zero-gradient from gaps.txt",
        "matches no case of this run: step/none/* in gaps.txt",
        "known to fail: 2 cases in gaps.txt",
        "not offered: step for 16 methods (",
        "predictive for 3 kinds (lin_mc fc, lin_mc diag, lin_mc dlr)",
    ):
        assert line in out, line
    counts = wrong.counts
    assert (
        counts["xfail"] == 2
        and counts["xpass"] == 1
        and f"{counts['fail']} fail, {counts['error']} error" in out.splitlines()[-1]
    )
    assert "likewise" not in out
    limited = reports.text(wrong).splitlines()
    assert len(limited) <= 60 and limited[-1] == out.splitlines()[-1]
    assert any("-v shows" in line for line in limited)
    monkeypatch.setattr(reports, "LINES", 10**6)
    short = reports.text(wrong)
    assert "likewise  bbb-mc-ef-diag (4), bbb-lin-hess-diag (4), bbb-lin-ef-diag (4)" in short
    assert len(short) < len(out) / 2 and all(name in short for name in findings.failing(wrong))
    monkeypatch.setattr(reports, "IN_FULL", 2)
    shorter = reports.text(wrong)
    bad = [
        line[2:].split(":")[0]
        for line in shorter.splitlines()
        if line.startswith("✗ ") and "cases fail" in line
    ]
    rest = shorter.split(" more (-v shows them in full):\n")[1].split("\n\n")[0].splitlines()
    assert (
        len(bad) == 2
        and f"and {len(rest)} more" in shorter
        and all(name in shorter for name in findings.failing(wrong))
    )


def test_nothing_offered_is_no_success(capsys, adapter):
    status, out, _ = run(
        capsys,
        "check",
        adapter(
            "def predict(self, **kw): return NotImplemented\n".join(["class Adapter:\n    ", ""]),
            base="",
        ),
    )
    assert status == 1 and out.splitlines()[-1].startswith("NOTHING OFFERED")
    text = " ".join(out.split())
    assert "not offered: step (" in text and "predictive (" in text and "draw (" in text


def test_marks_of_a_method():
    case = vectors.load(["L0"], ["bong-lin-hess-fc"])
    value, refuse = (
        next(c for c in case if (c.result == "value") is kind) for kind in (True, False)
    )
    of = lambda *statuses: findings.standing([Outcome(value, s) for s in statuses])
    assert (
        of() == ""
        and of("pass", "xpass", "not applicable") == "pass"
        and of("pass", "error", "xfail") == "fail"
    )
    assert (
        of("pass", "not offered") == of("pass", "xfail") == of("xfail") == "part"
        and of("not offered", "not applicable") == "none"
    )
    assert (
        findings.standing([Outcome(value, "not offered"), Outcome(refuse, "pass")]) == "none"
    )  # by NotImplementedError
    assert (
        findings.together(["none", "pass", ""]) == "pass"
        and findings.together(["none", ""]) == "none"
    )


def test_ctrl_c_shows_what_there_is(capsys, adapter, tmp_path):
    body = """
    count = 0
    def step(self, **kw):
        Adapter.count += 1
        if Adapter.count == 4:
            raise KeyboardInterrupt
        return super().step(**kw)
"""
    status, out, _ = run(
        capsys,
        "check",
        adapter(body),
        "--levels",
        "L0",
        "--report",
        "part.json",
        "--write-xfails",
        "gaps.txt",
    )
    assert status == 130 and out.splitlines()[-2].startswith("STOPPED after 3 cases (3 pass;")
    data = json.loads((tmp_path / "part.json").read_text())
    assert data["interrupted"] is True and data["ok"] is False and len(data["cases"]) == 3
    assert not (tmp_path / "gaps.txt").exists()


def test_known_failures(capsys, adapter, tmp_path):
    """Written, read back, and found to be outdated."""
    target = adapter(SIGN)
    status, out, _ = run(
        capsys, "check", target, *FEW, "--no-diagnosis", "--write-xfails", "gaps.txt", "-q"
    )
    assert status == 1 and "written to gaps.txt" in out
    lines = (tmp_path / "gaps.txt").read_text().splitlines()
    assert len(lines) == 4 and all("mu (eq:bong-FC-mean)" in line for line in lines[1:])
    status, out, _ = run(
        capsys,
        "check",
        target,
        *FEW,
        "--no-diagnosis",
        "--xfails",
        "gaps.txt",
        "--write-xfails",
        "again.txt",
    )
    assert (
        status == 0 and "known to fail: 3 cases in gaps.txt" in out and "bong-lin-hess  ~··" in out
    )
    assert (tmp_path / "again.txt").read_text() == (tmp_path / "gaps.txt").read_text()
    status, out, _ = run(capsys, "check", RIGHT, *FEW, "--xfails", "gaps.txt")
    assert status == 0 and out.count("now passes: remove step/bong-lin-hess-fc/") == 3
    status, out, err = run(capsys, "check", RIGHT, *FEW, "--write-xfails", "gaps.txt")
    assert status == 2 and "write-xfails must be a new file, and 'gaps.txt' is there" in err


@pytest.mark.parametrize(
    ("argv", "match"),
    [
        (["no_such_module:Adapter"], "there is no module 'no_such_module'"),
        (["no_such.py:Adapter"], "there is no file 'no_such.py'"),
        (["just_a_module"], "adapter must be given as module:Name"),
        (["bongref.conformance:Referense"], "'Referense'"),
        ([RIGHT, "--levels", "L0,L9"], "got 'L9'"),
        ([RIGHT, "--methods", "bong-*,bing-*"], "got 'bing-*'"),
        ([RIGHT, "--xfails", "none.txt"], "xfails: there is no file 'none.txt'"),
        ([RIGHT, "--vectors", "none"], "vectors: there is no folder 'none'"),
        ([RIGHT, "--vectors", "."], "no vectors in ."),
        (
            [RIGHT, "--report", "report.pdf"],
            "report must end in .json, .xml, .html or .md, got 'report.pdf'",
        ),
        (
            [RIGHT, "--report", "/no/such/folder/report.xml"],
            "report must be in a folder that exists",
        ),
        (
            [RIGHT, "--write-xfails", "/no/such/folder/gaps"],
            "write-xfails must be in a folder that exists",
        ),
        ([RIGHT, "--fast"], "unrecognized arguments: --fast"),
        ([], "adapter must be given"),
    ],
)
def test_bad_input_exits_with_2_before_the_run(capsys, monkeypatch, tmp_path, argv, match):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(runner, "run_case", lambda *a, **kw: pytest.fail("it ran"))
    status, out, err = run(capsys, "check", *argv)
    assert status == 2 and out == "" and match in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("raise ValueError('oops')", ["ValueError: oops", "line 3"]),
        ("import no_such_package", ["No module named 'no_such_package'", "line 3"]),
        ("x = (", ["SyntaxError", "line 3"]),
        ("import sys; sys.exit(3)", ["SystemExit: 3"]),
        (
            "class Adapter:\n    def step(self): pass\n    def __init__(self): raise "
            "LookupError('no licence')",
            ["LookupError", "no licence"],
        ),
        ("class Adapter: pass", ["adapter must offer at least one of step, estimate"]),
        ("class Adapter(Reference): dtype = 'float16'", ["float16"]),
    ],
)
def test_an_adapter_that_cannot_be_made(capsys, adapter, body, match):
    status, out, err = run(capsys, "check", adapter(body, base=""), *FEW)
    assert (
        status == 2 and out == "" and err.startswith("bongref: adapter") and "Traceback" not in err
    )
    assert all(word in err for word in match)


def test_a_terminal_without_our_signs(adapter):
    """And an adapter from a file, as a module of its own process."""
    file = adapter(SIGN).split(":")[0] + ".py"
    argv = [
        sys.executable,
        "-m",
        "bongref",
        "check",
        f"{file}:Adapter",
        "--methods",
        "bong-lin-hess-fc",
        "--levels",
        "step",
        "--no-diagnosis",
    ]
    done = subprocess.run(
        argv, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert done.returncode == 1 and done.stderr == b"" and b"bong-lin-hess  X..  ..." in done.stdout


# --- reports --------------------------------------------------------------------------------------


def test_json(wrong, right, tmp_path):
    for report in (wrong, right):
        reports.write(tmp_path / "r.json", report)
        data = json.loads(
            (tmp_path / "r.json").read_text(), parse_constant=pytest.fail
        )  # no NaN or Infinity: other languages read it too
        assert (
            data["schema"] == "bongref-report-1"
            and data["vectors"] == "bongref-vectors-2"
            and data["bongref"] == br.__version__
        )
        assert (data["adapter"], data["dtype"], data["ok"]) == (report.name, "float64", report.ok)
        assert (
            data["counts"]["cases"] == len(data["cases"]) == len(report.outcomes)
            and data["counts"]["offered"] == report.offered
        )
        assert [c["id"] for c in data["cases"]] == [o.case.id for o in report.outcomes]
        for status, n in report.counts.items():
            assert data["counts"][status] == n == sum(c["status"] == status for c in data["cases"])
    by_id = {c["id"]: c for c in reports.to_json(wrong)["cases"]}
    nan = by_id["step/blr-lin-ef-diag/plain"]
    assert (
        nan["status"] == "fail"
        and nan["quantity"] == "var"
        and nan["got"] == ["nan"] * 5
        and nan["relative"] == "inf"
    )
    sign = by_id["step/bong-lin-ef-fc/plain"]
    assert (
        sign["equation"] == "eq:bong-FC-mean"
        and len(sign["got"]) == len(sign["wanted"]) == 5
        and sign["relative"] > 1e3 * sign["tolerance"]
    )
    assert (
        sign["subject"] == {"method": "bong-lin-ef-fc"}
        and sign["flags"] == ["low-rank-G"]
        and sign["seconds"] > 0
    )
    shape = by_id["step/bbb-lin-ef-diag/plain"]
    assert (
        np.shape(shape["got"]) == (5, 1)
        and "raised RuntimeError" in by_id["step/bong-lin-hess-diag/plain"]["message"]
    )


def test_junit(wrong, tmp_path):
    reports.write(tmp_path / "r.xml", wrong)
    root = ET.parse(tmp_path / "r.xml").getroot()
    counts, total = wrong.counts, len(wrong.outcomes)
    skipped = counts["xfail"] + counts["not offered"]
    assert root.tag == "testsuites" and [s.get("name") for s in root] == [
        "L0 step",
        "L1 estimate",
        "L4 predictive",
        "predict",
    ]
    assert [root.get(k) for k in ("tests", "failures", "errors", "skipped")] == [
        str(n) for n in (total, counts["fail"], counts["error"], skipped)
    ]
    for suite in root:
        of = suite.findall("testcase")
        assert len(of) == int(suite.get("tests")) and float(suite.get("time")) >= 0
        for tag, key in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert len(suite.findall(f"testcase/{tag}")) == int(suite.get(key))
    assert [c.get("name") for c in root.iter("testcase")] == [
        o.case.id for level in findings.by_level(wrong).values() for o in level
    ]
    assert (
        root.find(".//testcase[@name='step/bong-lin-ef-fc/plain']").get("classname")
        == "bongref.step.bong-lin-ef-fc"
    )
    told = root.find(".//testcase[@name='step/bong-lin-ef-fc/plain']/failure").text
    assert (
        "quantity: mu (eq:bong-FC-mean)" in told
        and "wanted: " in told
        and "flags: low-rank-G" in told
    )


class Page(HTMLParser):
    """The cells of the tables by their id, the anchors and links, and whether every tag is
    closed.
    """

    VOID = ("meta", "br", "!doctype")
    LOOSE = ("li", "th")  # that HTML closes by itself

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.tables, self.table, self.remote, self.text = (
            [],
            [],
            [],
            {},
            None,
            [],
            "",
        )

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        self.remote += [
            v for k, v in attrs.items() if k in ("src", "href") and not v.startswith("#")
        ]
        if tag == "table":
            self.table = self.tables.setdefault(attrs.get("id", ""), [])
        if tag == "td" and self.table is not None:
            self.table.append(attrs.get("class"))
        if tag not in (*self.VOID, *self.LOOSE):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.LOOSE:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if self.open[-1:] != ["style"] and self.open[-1:] != ["script"] else ""


def page_of(report, tmp_path):
    reports.write(tmp_path / "r.html", report)
    page = Page()
    page.feed((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert not page.open and not page.remote and len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links} <= set(page.ids)
    return page


def test_html(wrong, right, tmp_path):
    page = page_of(right, tmp_path)
    assert (
        page.tables["methods"] == ["pass"] * 80
        and page.tables["estimate"] == ["pass"] * 16
        and page.tables["predictive"] == ["pass"] * 12
    )
    assert (
        set(page.tables["predict"]) == {"pass", None}
        and "CONFORMS" in page.text
        and "What fails" not in page.text
    )
    assert all(f"cases-{name}" in page.ids for name in br.methods())

    page = page_of(wrong, tmp_path)
    cells = dict(
        zip(
            (f"{r}-{h}-{f}" for r, h in findings.ROWS for f in FAMILIES),
            page.tables["methods"],
            strict=True,
        )
    )
    assert len(cells) == 80 and {name for name, kind in cells.items() if kind == "fail"} == {
        n for n in findings.failing(wrong) if n in cells
    }
    assert {name for name, kind in cells.items() if kind == "none"} == set(br.methods("*-diag_mom"))
    assert (
        page.tables["predictive"] == ["pass"] * 8 + ["none"] * 4
        and page.tables["estimate"].count("fail") == 1
    )
    assert "peer <b>2 &" in page.text and "no <such> thing" in page.text  # as text, not as tags
    assert (
        "now passes: remove step/bong-mc-hess-fc/zero-gradient" in page.text
        and "2 known failures" in page.text
    )
    for flag in {f for o in wrong.outcomes for f in o.case.flags}:
        assert FLAGS[flag]["catches"] in page.text


def test_markdown(wrong, tmp_path):
    reports.write(tmp_path / "r.md", wrong)
    lines = (tmp_path / "r.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# peer") and "DOES NOT CONFORM" in lines[2]
    row = next(line for line in lines if line.startswith("| bong-lin-hess |"))
    assert row.split(" | ")[1:] == ["✗··", "✓··", "✗··", "–··", "✓·· |"]
    heads = [
        line.split(":")[0]
        for line in lines[lines.index("## What fails") :]
        if line.startswith("### ✗ ") and "`" not in line
    ]
    assert heads == [f"### ✗ {name}".replace("_", "\\_") for name in findings.failing(wrong)]


def test_reports_of_a_part(tmp_path, capsys, monkeypatch):
    """Of one level that no method owns, all three at once; the matrix of methods is left out."""
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(
        capsys,
        "check",
        RIGHT,
        "--levels",
        "predict",
        *(w for e in ("json", "xml", "html") for w in ("--report", f"r.{e}")),
    )
    assert (
        status == 0
        and [f"written to r.{e}" in out for e in ("json", "xml", "html")] == [True] * 3
        and "bong-mc-hess" not in out
    )
    page = Page()
    page.feed((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert set(page.tables) >= {"predict"} and "methods" not in page.tables


# --- vectors --------------------------------------------------------------------------------------


def test_summary_and_list(capsys):
    status, out, err = run(capsys, "vectors")
    every = vectors.load()
    assert (
        (status, err) == (0, "")
        and f"{len(every)} cases with" in out
        and "schema bongref-vectors-2" in out
    )
    for level in vectors.LEVELS.values():
        (line,) = [line.split() for line in out.splitlines() if level in line.split()[:2]]
        assert line[-2] == str(sum(c.level == level for c in every))
    assert all(flag in out for c in every for flag in c.flags)
    status, out, _ = run(capsys, "vectors", "--list", "--levels", "predict,L4")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == [
        c.id for c in vectors.load(["predict", "predictive"])
    ]
    assert run(capsys, "vectors", "--levels", "L7")[0] == 2


def test_made_and_derived_again(capsys, tmp_path):
    """To the same bits; one bit of a value, a wrong tolerance and the sign of a zero are seen."""
    n = len(vectors.load(["predict"]))
    status, out, err = run(capsys, "vectors", "--out", str(tmp_path), "--levels", "predict")
    assert (status, err) == (0, "") and f"predict.json: {n} cases" in out
    assert [c.input for c in _plain(tmp_path)] == [c.input for c in _plain(vectors.FOLDER)]
    check = ("vectors", "--check", "--levels", "predict", "--vectors", str(tmp_path))
    assert run(capsys, *check) == (0, f"{n} cases are derived again to the same bits\n", "")

    made = list(vectors.read(tmp_path / "predict.json"))
    first = made[0].expected[0]
    value = first.value.copy()
    value[1] = np.nextafter(value[1], 9)
    made[0] = made[0]._replace(expected=(first._replace(value=value), *made[0].expected[1:]))
    last = made[1].expected[-1]
    made[1] = made[1]._replace(
        expected=(
            *made[1].expected[:-1],
            last._replace(tolerance={**last.tolerance, "float64": 1e-13}),
        )
    )
    vectors.write(tmp_path / "predict.json", "predict", made, FLAGS)
    vectors._all.cache_clear()
    status, out, _ = run(capsys, *check)
    lines = out.splitlines()
    assert status == 1 and lines[-1] == f"2 of {n} cases DIFFER" and len(lines) == 3
    assert lines[0].startswith("predict/fc/static: expected[mu].value[1]: shipped ")
    assert lines[1].startswith("predict/fc/ou: expected[Sigma].tolerance.float64: shipped ")
    zero = np.array([0.0, 1.0]).tolist()
    assert [
        line.split(": ")[0] for line in shipped._differs({"x": zero}, {"x": [-v for v in zero]}, "")
    ] == ["x[0]", "x[1]"]


def _plain(folder):
    return [
        c._replace(input=vectors.plain(c)["input"]) for c in vectors.read(folder / "predict.json")
    ]


def test_without_mpmath_the_mistake_is_named_all_the_same():
    """A plain install has no mpmath: nothing of the check, the diagnosis included, may need it."""
    code = """
import sys
sys.modules["mpmath"] = None
from bongref import conformance
class Wrong(conformance.Reference):
    def step(self, method, prior, current, curv, params):
        return super().step(method, prior, current, {**curv, "g": -curv["g"]}, params)
    def estimate(self, **given):
        out = super().estimate(**given)
        return {**out, "g": 3 * out["g"]}
report = conformance.check(Wrong, methods=["bong-lin-hess-fc"], levels=["L0", "L1"])
first = {o.case.level: o.diagnosis[0] for o in reversed(report.failures)}
print(first["step"])
print(first["estimate"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    step, estimate = done.stdout.splitlines()
    assert "the sign of g" in step and "3" in estimate and "no diagnosis" not in done.stdout


def test_without_mpmath_vectors_cannot_be_made_but_checked():
    code = """
import sys
sys.modules["mpmath"] = None
from bongref.cli import main
checked = main(["vectors", "--check", "--levels", "predict"])
print(checked, main(["check", "bongref.conformance:Reference", "--levels", "predict", "-q"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("CONFORMS") and done.stdout.splitlines()[-1] == "2 0"
    assert (
        "needs mpmath: pip install 'bongref[exact]'" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_without_numba_the_compiled_adapter_says_what_to_install():
    code = """
import sys
sys.modules["numba"] = None
from bongref.cli import main
print(main(["check", "bongref.conformance:Fast"]))
"""
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).resolve().parents[1] / "setup.cfg")
    wanted = setup["options"]["install_requires"].splitlines()
    (needed,) = (line for line in wanted if line.startswith("numba"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "2\n"
    assert done.stderr == (
        "bongref: adapter bongref.conformance:Fast needs numba, which is not installed; "
        f"use pip install '{needed}'\n"
    )

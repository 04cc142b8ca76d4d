"""The command line, in the process and as a module: verdicts, exit statuses, reports and
messages.
"""

import contextlib
import io
import json
import subprocess
import sys
from fractions import Fraction
from html.parser import HTMLParser

import pytest

import bongref as br
from bongref import reports
from bongref.cli import main
from bongref.families import fc_nat
from bongref.routes import audit
from bongref.states import FC

SMALL = ["-P", "3", "-C", "2", "-M", "2", "-R", "1"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """One audit of every method from the command line: (exit status, what it printed, the report's
    path).
    """
    file, out = tmp_path_factory.mktemp("audit") / "report.json", io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(["audit", *SMALL, "--out", str(file)])
    return status, out.getvalue(), file


def run(capsys, *argv):
    """(exit status, standard output, standard error)."""
    try:
        status = main(list(argv))
    except SystemExit as stop:  # of argparse
        status = stop.code
    out, err = capsys.readouterr()
    return status, out, err


class Table(HTMLParser):
    """The rows of a table, and whether every tag that needs it is closed."""

    def __init__(self):
        super().__init__()
        self.rows, self.open = [], []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("table", "tr", "td", "th", "h1", "p", "b", "style", "title"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.rows and self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


# --- audit ----------------------------------------------------------------------------------------


def test_audit_of_every_method(audited):
    status, out, file = audited
    assert status == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines if line.split()[0] in br.methods()] == br.methods()
    assert "78 of 78 methods agree by all routes, 2 refuse" in out and "DISAGREES" not in out
    for name in ("bong-mc-hess-dlr", "blr-mc-hess-dlr"):
        assert f"{name:<24}  refuses: not derived" in out
    report = json.loads(file.read_text())
    assert f"written to {file}" in out
    assert report["agree"] is True and report["options"] == {
        "seed": 0,
        "P": 3,
        "C": 2,
        "M": 2,
        "R": 1,
    }
    assert report["bongref"] == br.__version__ and report["summary"] in out
    assert [row["name"] for row in report["methods"]] == br.methods()
    for row in report["methods"]:
        assert row["agrees"] is not bool(row["refused"])
        assert all(0 <= u <= 1 for u in row["units"].values())
        if not row["refused"]:
            assert {"estimator", "definition", "exact", "update"} <= set(row["units"])


def test_audit_finds_a_broken_step_and_names_it(capsys, monkeypatch, tmp_path):
    """The sign of the gradient in one family: seen by one method after the other, and by no other
    family.
    """
    right = fc_nat.bong

    def wrong(prior, current, curv, alpha=1):
        q = right(prior, current, curv, alpha)
        return FC(2 * prior.mu - q.mu, q.Sigma)

    monkeypatch.setattr(fc_nat, "bong", wrong)
    monkeypatch.setattr(
        audit, "NAMES", tuple(br.methods("bong-*-fc")) + tuple(br.methods("b*g-lin-hess-diag"))
    )
    file = tmp_path / "report.html"
    status, out, _ = run(capsys, "audit", *SMALL, "--out", str(file))
    assert status == 1
    bad = {line.split()[0] for line in out.splitlines() if "DISAGREES" in line}
    assert bad == set(br.methods("bong-*-fc"))
    assert "2 of 6 methods agree by all routes, 0 refuse" in out
    assert (
        "gaussian, mu"
        in next(line for line in out.splitlines() if "DISAGREES" in line).split("DISAGREES")[1]
    )
    page = file.read_text()
    assert page.count('fail">') >= 4
    table = Table()
    table.feed(page)
    assert [row[0] for row in table.rows[1:]] == list(audit.NAMES)


@pytest.mark.parametrize(
    "factor", [1 + Fraction(1, 10**9), -1, 1.0, float("nan")], ids=["1e-9", "sign", "float", "nan"]
)
def test_audit_finds_small_slips_and_what_is_not_exact(monkeypatch, tmp_path, factor):
    """A factor on the mean: one that changes it by a billionth, its sign, a float among exact
    numbers, and NaN.
    """
    right = fc_nat.bog

    def wrong(prior, current, curv, alpha):
        q = right(prior, current, curv, alpha)
        number = factor if q.mu.dtype == object else float(factor)
        return q._replace(mu=number * q.mu)

    monkeypatch.setattr(fc_nat, "bog", wrong)
    monkeypatch.setattr(audit, "NAMES", ("bog-mc-ef-fc",))
    file = tmp_path / "report.json"
    rows = audit.audit(P=3, C=2, M=2, R=1)
    audit.write(str(file), rows, {}, 0.0)
    assert not rows[0].agrees and "DISAGREES" in audit.table(rows)
    report = json.loads(
        file.read_text(), parse_constant=pytest.fail
    )  # no NaN or Infinity: other languages read it too
    assert report["agree"] is False and report["methods"][0]["agrees"] is False


def test_html_report(audited):
    data = json.loads(audited[2].read_text())
    rows = [
        audit.Row(r["name"], r["units"], r["worst"], r["positive"], r["refused"])
        for r in data["methods"]
    ]
    page = reports.html(audit.document(rows, data["options"], data["seconds"]))
    table = Table()
    table.feed(page)
    assert not table.open and len(table.rows) == 81
    assert [row[0] for row in table.rows[1:]] == br.methods()
    assert (
        "78 of 78 methods agree by all routes, 2 refuse" in page
        and 'fail"' not in page
        and page.count('right pass"') > 300
    )
    assert "P = 3" in page and "but not MC-HESS, which we omit" in page


def test_audits_repeat_with_the_seed_and_differ_without(monkeypatch):
    monkeypatch.setattr(audit, "NAMES", ("bong-mc-ef-dlr", "blr-lin-hess-diag"))
    a, b, c = (audit.audit(seed=s, P=3, C=2, M=2, R=1) for s in (1, 1, 2))
    assert a == b and a != c and all(r.agrees for r in c)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 1, 2), (5, 1, 4, 3)])
def test_audit_at_other_sizes(monkeypatch, sizes):
    monkeypatch.setattr(
        audit,
        "NAMES",
        tuple(f"{r}-lin-hess-{f}" for r in ("bong", "bbb") for f in ("fc", "diag_mom", "dlr")),
    )
    assert all(r.agrees for r in audit.audit(**dict(zip("PCMR", sizes, strict=True))))


@pytest.mark.parametrize(
    ("argv", "match"),
    [
        (["audit", "-P", "0"], "P must be an integer >= 1, got 0"),
        (["audit", "-C", "-1"], "C must be an integer >= 1, got -1"),
        (["audit", "-M", "0"], "M must be an integer >= 1, got 0"),
        (["audit", "-P", "3", "-R", "4"], "R must be in 1...P = 3, got 4"),
        (["audit", "-R", "0"], "R must be an integer >= 1, got 0"),
        (["audit", "--seed", "-5"], "seed must be an integer >= 0, got -5"),
        (["audit", "-P", "six"], "invalid int value: 'six'"),
        (["audit", "--out", "report.pdf"], "out must end in .json or .html, got 'report.pdf'"),
        (
            ["audit", "--out", "/no/such/folder/report.json"],
            "out must be in a folder that exists, got '/no/such/folder/report.json'",
        ),
        (["audit", "--fast"], "unrecognized arguments: --fast"),
        (["adit"], "invalid choice: 'adit'"),
        ([], "required: COMMAND"),
        (
            ["eq", "eq:bong-FC-pre"],
            "no equation 'eq:bong-FC-pre' in the paper; nearest: eq:bong-FC-prec",
        ),
        (["eq", "nonsense"], "no equation 'nonsense' in the paper"),
        (["methods", "bing-*"], "pattern must match one of the 80 names, got 'bing-*'"),
    ],
)
def test_bad_options_exit_with_2_and_a_message(capsys, argv, match):
    status, out, err = run(capsys, *argv)
    assert status == 2 and out == "" and match in err
    assert "Traceback" not in err


def test_a_report_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    """The reason in words, not the number of the error."""
    monkeypatch.setattr(audit, "NAMES", ("bong-lin-ef-diag",))
    (tmp_path / "report.json").mkdir()
    status, _, err = run(capsys, "audit", *SMALL, "--out", str(tmp_path / "report.json"))
    assert status == 2 and "report.json" in err and "irectory" in err


def test_ctrl_c(capsys, monkeypatch):
    def stop(**kw):
        raise KeyboardInterrupt

    monkeypatch.setattr(audit, "timed", stop)
    assert run(capsys, "audit", *SMALL) == (130, "", "bongref: stopped\n")


# --- eq, methods, --version -----------------------------------------------------------------------


def test_eq_by_label_row_section_and_algorithm(capsys):
    status, out, err = run(capsys, "eq", "eq:bong-FC-prec")
    assert (
        (status, err) == (0, "")
        and out.startswith("eq:bong-FC-prec ")
        and "computed  bongref/families/fc_nat.py:" in out
    )
    status, out, _ = run(capsys, "eq", "sec:pseudocode#4")
    assert (
        status == 0 and "computed  bongref/dynamics.py:" in out and "algorithm  algo:predict" in out
    )
    status, out, _ = run(capsys, "eq", "sec:pseudocode")
    assert status == 0 and all(f"sec:pseudocode#{k} " in out for k in range(1, 32))
    status, out, _ = run(capsys, "eq", "algo:predict")
    assert status == 0 and out.count("sec:pseudocode#") == 2
    status, out, _ = run(capsys, "eq")
    assert status == 0 and "sec:FC-Nat" in out and "algo:update" in out


def test_methods_with_a_glob(capsys):
    status, out, err = run(capsys, "methods")
    assert (status, err) == (0, "") and out.splitlines()[-1] == "80 names"
    assert [line.split()[0] for line in out.splitlines()[1:-2]] == br.methods()
    status, out, _ = run(capsys, "methods", "blr-*-dlr")
    assert status == 0 and out.splitlines()[-1] == "4 names"
    assert "blr-mc-hess-dlr         -                 not derived" in out
    assert "alpha=0.1, n_iter=10, n_samples=100, rank=10" in out
    status, out, _ = run(capsys, "methods", "bong-lin-hess-fc")
    assert "O(CP^2)" in out and "none" in out


def test_version_and_help(capsys):
    assert run(capsys, "--version") == (0, f"bongref {br.__version__}\n", "")
    status, out, _ = run(capsys, "--help")
    assert status == 0 and all(word in out for word in ("audit", "eq", "methods"))


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "bongref", "methods", "bong-lin-*-fc"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "" and done.stdout.splitlines()[-1] == "2 names"
    done = subprocess.run(
        [sys.executable, "-m", "bongref", "eq", "eq:nothing"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode == 2
        and done.stdout == ""
        and done.stderr.startswith("bongref: no equation")
    )

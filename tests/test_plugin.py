"""The vectors as tests of another suite: ``pytest --pyargs bongref.conformance``, in a process and
a folder of its own.
"""

import subprocess
import sys

import pytest

from bongref.conformance import vectors

MINE = """
import warnings
from bongref.conformance import Reference

class Adapter(Reference):
    run = None
    def step(self, method, prior, **kw):
        warnings.warn("old", UserWarning)
        out = super().step(method, prior=prior, **kw)
        return {**out, "mu": 2 * prior["mu"] - out["mu"]} if method.endswith("-fc") else out

class Idle:
    def step(self, **kw):
        raise NotImplementedError

class Single(Reference):
    dtype = "float32"

class Broken(Reference):
    def __init__(self):
        raise LookupError("no licence")
"""
FEW = ["--bongref-methods", "bong-lin-hess-fc,bong-lin-hess-diag", "--bongref-levels", "L0,L3"]


@pytest.fixture
def suite(tmp_path):
    """Runs pytest in a folder with an adapter: (exit status, what it says)."""
    (tmp_path / "my_adapter.py").write_text(MINE)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nxfail_strict = true\naddopts = --strict-markers\n"
    )
    (tmp_path / "deeper").mkdir()

    def run(*argv, cwd=tmp_path, module="bongref.conformance"):
        others = [
            "cacheprovider",
            "randomly",
            "xdist",
            "hypothesispytest",
        ]  # slow to start, and not what is tested
        off = [word for name in others for word in ("-p", f"no:{name}")]
        whole = [
            sys.executable,
            "-m",
            "pytest",
            *off,
            *(["--pyargs", module] if module else []),
            *argv,
        ]
        done = subprocess.run(whole, capture_output=True, text=True, cwd=cwd, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def cases(*methods):
    return vectors.load(["L0"], methods), vectors.load(["L3"], methods)


def test_every_case_is_a_test(suite, tmp_path):
    """Right and wrong ones, what is not offered, known failures and what is known wrongly; a
    warning of the adapter is none of these.
    """
    steps, streams = cases("bong-lin-hess-fc", "bong-lin-hess-diag")
    (tmp_path / "gaps.txt").write_text(
        "step/bong-lin-hess-fc/plain  # the sign\nstep/bong-lin-hess-fc/zero-gradient\n"
    )
    argv = [
        "--bongref-adapter",
        "my_adapter:Adapter",
        *FEW,
        "--bongref-no-diagnosis",
        "--bongref-xfails",
        "gaps.txt",
    ]
    status, out = suite("-v", "-rsxX", *argv)
    assert status == 1
    for case in (*steps, *streams):
        assert f"test_case[{case.id}]" in out
    n = len(steps)
    assert f"2 failed, {n - 4 + 1} passed, {len(streams)} skipped, 1 xfailed, 1 xpassed" in out
    assert f"SKIPPED [{len(streams)}]" in out and "not offered: run" in out
    assert (
        "test_case[step/bong-lin-hess-fc/wide] FAILED" in out
        and "test_case[step/bong-lin-hess-fc/plain] XFAIL" in out
    )
    assert (
        "test_case[step/bong-lin-hess-fc/zero-gradient] XPASS" in out
        and "known failure: step/bong-lin-hess-fc/plain" in out
    )
    shown = out.split("FAILURES")[1].split("short test summary")[0]
    for line in (
        "mu (eq:bong-FC-mean), entry [",
        "got    ",
        "wanted ",
        "tolerance",
        "low-rank-G            G = -S S^T; catches a wrong sign",
    ):
        assert line in shown
    assert "Traceback" not in shown and "plugin.py" not in shown  # of our own code


def test_the_mistake_is_named(suite):
    argv = [
        "--bongref-adapter",
        "my_adapter:Adapter",
        "--bongref-methods",
        "bong-lin-hess-fc",
        "--bongref-levels",
        "L0",
    ]
    status, out = suite("-q", *argv, "-k", "wide")
    assert status == 1 and "diagnosis" in out and "the sign of g" in out and "1 failed" in out


def test_from_a_folder_below_the_root(suite, tmp_path):
    argv = [
        "--bongref-adapter",
        "my_adapter:Adapter",
        "--bongref-methods",
        "bong-lin-ef-diag",
        "--bongref-levels",
        "step",
    ]
    status, out = suite("-q", *argv, cwd=tmp_path / "deeper")
    assert status == 0 and f"{len(vectors.load(['L0'], ['bong-lin-ef-diag'])) + 1} passed" in out


def test_nothing_offered_fails(suite):
    status, out = suite(
        "-q", "-rf", "--bongref-adapter", "my_adapter:Idle", "--bongref-methods", "bong-lin-ef-*"
    )
    assert status == 1 and "the adapter offers none of these cases" in out and "1 failed" in out
    assert "test_something_is_offered" in out


def test_a_problem_that_float32_cannot_hold_is_skipped(suite):
    argv = [
        "--bongref-adapter",
        "my_adapter:Single",
        "--bongref-methods",
        "bong-lin-ef-dlr",
        "--bongref-levels",
        "L0",
    ]
    status, out = suite("-q", "-rs", *argv)
    assert (
        status == 0
        and "not applicable: float32 cannot hold this problem" in out
        and "1 skipped" in out
    )


def test_without_an_adapter_it_says_how(suite):
    status, out = suite("-q", "-rs")
    assert status == 0 and "2 skipped" in out and "--bongref-adapter MODULE:CLASS" in out


@pytest.mark.parametrize(
    ("argv", "match"),
    [
        (["--bongref-adapter", "nothing:Adapter"], "there is no module 'nothing'"),
        (["--bongref-adapter", "my_adapter:Broken"], "no licence"),
        (["--bongref-adapter", "my_adapter:Adapter", "--bongref-levels", "L9"], "got 'L9'"),
        (["--bongref-adapter", "my_adapter:Adapter", "--bongref-xfails", "none.txt"], "none.txt"),
    ],
)
def test_bad_options_stop_it_with_a_message(suite, argv, match):
    status, out = suite("-q", *argv)
    assert status == 4 and "ERROR: bongref: " in out and match in out and "Traceback" not in out


def test_other_suites_do_not_pay(suite, tmp_path):
    """The plugin is found in every session of pytest, and imports neither numpy nor autograd
    there.
    """
    (tmp_path / "test_light.py").write_text(
        "import sys\ndef test_light():\n    assert 'bongref.pytest_plugin' in sys.modules\n"
        "    assert not {'numpy', 'autograd'} & set(sys.modules)\n"
    )
    status, out = suite("-q", "test_light.py", module=None)
    assert status == 0 and "1 passed" in out


def test_importing_bongref_does_not_import_the_kit():
    code = (
        "import sys, bongref, bongref.cli; print([m for m in sys.modules if "
        "m.startswith('bongref.conformance') or m == 'pytest'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    code = (
        "import sys, bongref.conformance; print([m for m in ('pytest', 'mpmath', 'numba') if m "
        "in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )

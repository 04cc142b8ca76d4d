"""A few kills and failing writes while files are saved; `python -m validation.faults` has the rest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from validation.faults.__main__ import wrong
from validation.faults.jobs import Job

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD of a library for Linux")
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, cc")
def test_saving_survives_faults_at_its_writes():
    words = [sys.executable, "-m", "validation.faults", "--only", "saving,stream", "--dry"]
    done = subprocess.run(
        [*words, "--kills", "8", "--others", "2"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("0 wrong") == 2 and "'torn': 2" in done.stdout


@pytest.mark.parametrize(
    "kind, status, said, expected",
    [
        ("full", 2, "raised OSError: full", ""),
        ("full", 2, "", "fails without a message"),
        ("full", 98, "Traceback ...", "ended with status 98"),
        ("kill", 0, "", "ended with status 0"),
        ("kill", -9, "", ""),
        ("clock", 97, "", "hangs"),
        ("clock", 0, "", ""),
    ],
)
def test_what_is_wrong_is_seen(tmp_path, kind, status, said, expected):
    job = Job(lambda f: None, lambda f: 0, lambda f: None, lambda f: "")
    found = wrong(job, tmp_path, kind, status, said)
    assert found.startswith(expected) and bool(found) == bool(expected)


def test_damage_and_temporary_files_are_seen(tmp_path):
    def damaged(folder):
        raise ValueError("half of it")

    fine = Job(lambda f: None, lambda f: 0, lambda f: None, lambda f: "")
    assert "damaged: ValueError" in wrong(fine._replace(whole=damaged), tmp_path, "kill", -9, "")
    (tmp_path / ".x.part").touch()
    assert "leaves" in wrong(fine, tmp_path, "full", 2, "said")
    assert wrong(fine, tmp_path, "kill", -9, "") == ""

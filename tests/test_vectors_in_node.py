"""The worked example in another language: it runs, agrees with every vector that it offers, and
would say so if it did not.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "docs" / "examples" / "check.mjs"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not on this machine")


def run(script: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [NODE, script, ROOT / "bongref" / "conformance" / "vectors"],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_example_passes_and_the_page_shows_what_it_prints():
    done = run(SCRIPT)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    assert done.stdout in (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("1 / (1 / v0 - d)", "1 / (1 / v0 + d)", "FAIL step/bong-"),
        ("(1 - a) / v + a / v0", "(1 - a) / v0 + a / v", "FAIL step/blr-"),
        ("-v * v", "v * v", "FAIL estimate/"),
        ("samples?.[i]", "samples?.[0]", "FAIL update/b"),
        ('throw new Error("the variances', '[]; ("the variances', "must be refused"),
    ],
)
def test_a_mistake_in_the_example_is_seen(old, new, where, tmp_path):
    text = SCRIPT.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "check.mjs").write_text(text.replace(old, new), encoding="utf-8")
    done = run(tmp_path / "check.mjs")
    assert done.returncode == 1 and where in done.stdout, done.stdout + done.stderr

"""The tests that the ledgers name, by a collection of the files that they are in."""

import subprocess
import sys
from functools import cache
from pathlib import Path

from bongref.paper import CLAIMS, ERRATA

ROOT = Path(__file__).resolve().parents[1]


@cache
def collected() -> frozenset[str]:
    """Node ids without parameters."""
    named = [e.test for e in ERRATA] + [node for c in CLAIMS for node in c.evidence]
    files = sorted({node.split("::")[0] for node in named if "::" in node})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        *files,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return frozenset(line.split("[")[0] for line in done.stdout.splitlines() if "::" in line)

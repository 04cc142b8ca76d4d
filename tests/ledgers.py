"""The tests that there are, by a collection of the files asked for."""

import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def collected(files) -> frozenset[str]:
    """Node ids without parameters."""
    return _collected(tuple(sorted(files)))


@cache
def _collected(files: tuple[str, ...]) -> frozenset[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return frozenset(line.split("[")[0] for line in done.stdout.splitlines() if "::" in line)

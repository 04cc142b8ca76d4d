"""Make tests.json, the tests marked with each equation, from a checkout.

python -m bongref.paper.index
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .source import HERE

ROOT = HERE.parents[1]
OUT = HERE / "tests.json"


def collect(root: Path = ROOT) -> dict[str, list[str]]:
    """Equation's id -> sorted node ids without parameters, from a fresh collection of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "eq.json"
        options = ["--collect-only", "-q", "-p", "no:cacheprovider", "--eq-dump", str(file)]
        command = [sys.executable, "-m", "pytest", *options]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode not in (0, 5) or not file.exists():
            raise RuntimeError(
                f"pytest could not collect the tests:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        marks: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
        return marks


def dump(index: dict[str, list[str]]) -> str:
    """The JSON text of tests.json."""
    return json.dumps(index, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    index = collect()
    OUT.write_text(dump(index), encoding="utf-8")
    print(f"{OUT}: {len(index)} equations, {sum(map(len, index.values()))} marks")

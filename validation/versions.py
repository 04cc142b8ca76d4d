"""Tests with the oldest and the newest Numba, NumPy and SciPy that setup.cfg allows, and without
Numba: python -m validation.versions

Each set of versions gets a virtual environment of its own, with this Python, in a folder that is
removed at the end (``--keep DIR`` keeps it for the next run). In each: the smoke tests, the key
tests of the compiled path, and ``bongref audit``. Without Numba there is no compiled path: the
other smoke tests and the audit run, and a stream has to say in its result why it took the
reference.
"""

from __future__ import annotations

import argparse
import configparser
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SETS = ("oldest", "newest", "without-numba")
SMOKE = ["-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", "-m", "smoke"]
KEY = [  # of the compiled path: its parts, a stream of every kind, and predictions
    "tests/test_fast.py",
    "tests/test_fast_streams.py::test_every_name_gives_the_reference_stream",
    "tests/test_fast_streams.py::test_streams_of_images",
    "tests/test_fast_cnn.py::test_predictions_are_the_reference",
    "tests/test_fast_threads.py",
]
REFERENCE = """
import warnings, numpy as np, bongref as br
model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=1.0)
prior, X, Y = br.Diag(np.zeros(2), np.ones(2)), np.eye(2), np.ones(2)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    info = br.run("bong-lin-hess-diag", model, lik, prior, X, Y, progress=False).info
assert info.backend == "reference" and "numba" in info.reason, info
assert len(seen) == 1 and "numba" in str(seen[0].message), [str(w.message) for w in seen]
print(info.reason)
"""


def requirements() -> dict[str, str]:
    """The lowest version of each package that setup.cfg allows."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options"]["install_requires"].split("\n")
    return {
        name.strip(): lowest.strip()
        for name, _, lowest in (line.partition(">=") for line in lines)
        if lowest
    }


def tools() -> list[str]:
    """What the tests need, but for river, which takes no NumPy as old as ours."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options.extras_require"]["test"].split("\n")
    return [line for line in lines if line and not line.startswith(("river", "#"))]


def environment(name: str, folder: Path, python: str) -> Path:
    """The Python of a new virtual environment with these versions, or of one that is there."""
    bin_ = folder / name / ("Scripts" if os.name == "nt" else "bin")
    if not (folder / name / "ready").exists():
        subprocess.run([python, "-m", "venv", "--clear", folder / name], check=True)
        pip = [bin_ / "python", "-m", "pip", "install", "-q", "-e", ROOT]
        lowest = [f"{package}=={version}" for package, version in requirements().items()]
        newest = ["--upgrade", "--upgrade-strategy", "eager"]
        subprocess.run([*pip, *tools(), *(lowest if name == "oldest" else newest)], check=True)
        if name == "without-numba":
            remove = ["-m", "pip", "uninstall", "-q", "-y", "numba", "llvmlite"]
            subprocess.run([bin_ / "python", *remove], check=True)
        (folder / name / "ready").touch()
    return bin_ / "python"


def stages(name: str) -> dict[str, list[str]]:
    """What runs with these versions, as arguments of Python."""
    audit = ["-c", "import bongref.cli; raise SystemExit(bongref.cli.main(['audit']))"]
    if name == "without-numba":
        rest = [*SMOKE, "--ignore-glob=tests/test_fast*", "-W", "ignore:the compiled path failed"]
        return {
            "the reference in its place": ["-c", REFERENCE],
            "smoke tests": rest,
            "audit": audit,
        }
    return {"smoke tests": SMOKE, "the compiled path": [*SMOKE[:-2], *KEY], "audit": audit}


def check(name: str, folder: Path, python: str) -> list[str]:
    """What failed with these versions; the output of what fails is printed."""
    found = environment(name, folder, python)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / name / "cache")}
    run: dict[str, Any] = {"cwd": ROOT, "env": env, "capture_output": True, "text": True}
    have = subprocess.run([found, "-m", "pip", "list", "--format=freeze"], **run).stdout.split()
    wanted = [line for line in have if line.partition("==")[0] in requirements()]
    print(f"== {name}: {', '.join(wanted)}", flush=True)
    failed = []
    for stage, arguments in stages(name).items():
        start = time.perf_counter()
        done = subprocess.run([found, *arguments], **run)
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines() or [""]
        verdict = "ok" if done.returncode == 0 else "FAILED"
        print(f"{verdict:6} {stage}, {time.perf_counter() - start:.0f} s: {lines[-1]}", flush=True)
        if done.returncode:
            failed.append(f"{name}: {stage}")
            print("\n".join([*lines[-60:], done.stderr[-3000:]]), flush=True)
    return failed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.versions", description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(SETS), choices=[*SETS, []], metavar="SET")
    parser.add_argument("--python", default=sys.executable, help="of the environments")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where environments stay")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.keep or Path(temporary)).resolve()
        failed = [what for name in args.sets for what in check(name, folder, args.python)]
    print(f"FAILED: {'; '.join(failed)}" if failed else "all is well")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())

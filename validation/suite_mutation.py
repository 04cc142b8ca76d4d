"""Does the test suite notice a wrong line? python -m validation.suite_mutation --sample 50 --seed 0

One node of a module is changed at a time: an operator for its opposite, a number, a comparison, a
sign, a condition, a transposition. The test files about that module run on a copy of the last commit
with that one change, ``-x``, in a child of a process that has imported everything but bongref. A
change that no test notices is a survivor: it gets a better test, or a line in
``validation/equivalent.json`` with the reason why it changes nothing that is promised.

The changes of all modules are in one random order, that of the seed; ``--sample N`` takes the next
N that have not been tried on this text of their module, or that no test noticed, so that a run goes
on where the last one ended, and ``--minutes`` stops it. ``--check`` takes N of those that were
noticed, writes nothing, and fails where one is not noticed any more. Writes ``results/suite-mutation.json``.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FILE = ROOT / "validation" / "results" / "suite-mutation.json"
REASONS = ROOT / "validation" / "equivalent.json"
TESTS = {  # the modules, as globs, and the test files about them, the quickest first
    "likelihoods/*.py": "likelihoods estimators",
    "models/*.py": "models estimators",
    "predictive/*.py": "linearised predictive_metrics edges",
    "metrics.py": "linearised predictive_metrics",
    "dynamics.py": "dynamics",
    "gaussians.py": "gaussians accuracy",
    "curvature.py": "estimators accuracy",
    "families/*.py": "families projection accuracy",
    "filter.py": "filter families",
    "routes/*.py": "routes families",
    "theory/batch.py": "batch",
    "theory/conjugate.py": "conjugate",
    "theory/posteriors.py": "conjugate explore",
    "theory/mirror.py": "mirror",
    "theory/exponential.py": "mirror",
    "theory/expectations.py": "mirror conjugate",
    "theory/newton.py": "mirror",
    "theory/literature.py": "literature",
    "theory/rvga.py": "literature",
    "theory/slang.py": "literature",
    "theory/costs.py": "costs",
    "theory/counting.py": "costs",
    "fast/*.py": "fast fast_dlr fast_fc",
    "fast/nets/*.py": "fast fast_cnn",
}
PLAIN = ("fast/",)  # compiled code runs as plain Python, so that a change needs no compilation
WARM = ("numpy", "scipy.linalg", "scipy.special", "scipy.optimize", "autograd.numpy", "mpmath",
        "numba", "pytest", "threadpoolctl", "tqdm")  # fmt: skip
BINARY = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*", ast.MatMult: "*",
    ast.FloorDiv: "*", ast.Mod: "*",
}  # fmt: skip
COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
SLOWEST = 10.0  # times as long as the unchanged tests take, after which a change has been noticed


class Change(NamedTuple):
    """One node of a module, replaced."""

    module: str
    start: int
    end: int
    old: str
    new: str
    line: int


# --- the changes ----------------------------------------------------------------------------------


def replacements(node: ast.AST) -> list[ast.expr | str]:
    """What stands in the place of an expression: source text."""
    text = ast.unparse
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        return [f"({text(node.left)}) {BINARY[type(node.op)]} ({text(node.right)})"]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        return [f"({text(node.operand)})"]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        new = COMPARED[type(node.ops[0])]
        return [f"({text(node.left)}) {new} ({text(node.comparators[0])})"]
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        return [word.join(f"({text(v)})" for v in node.values)]
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return [f"({text(node.value)})"]
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return [str(not node.value)]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return [repr(node.value + 1), repr(node.value * 2)][: 1 if node.value in (0, 1) else 2]
    if isinstance(node, ast.IfExp):
        return [f"{text(node.orelse)} if {text(node.test)} else {text(node.body)}"]
    return []


def expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions that compute: no messages, annotations, defaults of decorators, or f-strings."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, (ast.Raise, ast.JoinedStr)):
                continue
            if isinstance(node, ast.expr):
                yield node
            yield from expressions(node)


def changes(module: str, source: str) -> list[Change]:
    """Every change of a module, in the order of its text."""
    starts = [0]
    for line in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    raw, out = source.encode(), []
    functions = [
        n for n in ast.parse(source).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))
    ]
    for node in (e for f in functions for e in expressions(f)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old = raw[start:end].decode()
        out += [
            Change(module, start, end, old, f"({new})", node.lineno) for new in replacements(node)
        ]
    return out


def changed(source: str, change: Change) -> str:
    raw = source.encode()
    return (raw[: change.start] + change.new.encode() + raw[change.end :]).decode()


def key(change: Change, source: str) -> str:
    """A change by its text, so that it keeps its name where other lines move."""
    line = source.split("\n")[change.line - 1].strip()
    old, new = " ".join(change.old.split()), " ".join(change.new.split())
    return f"{change.module}: {line}: {old} -> {new}"


def modules(root: Path) -> dict[str, list[str]]:
    """The modules under test, with their test files."""
    found = {}
    for pattern, words in TESTS.items():
        for path in sorted((root / "bongref").glob(pattern)):
            name = path.relative_to(root / "bongref").as_posix()
            found[name] = [f"tests/test_{word}.py" for word in words.split()]
    return found


# --- running the tests ----------------------------------------------------------------------------


def tested(root: Path, module: str, files: list[str], seconds: float) -> str:
    """Run test files on the package as it is in a folder: "passed", "failed" or "too slow"."""
    pid = os.fork()
    if not pid:
        status = 99
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.chdir(root)
            sys.path[0] = str(root)
            if module.startswith(PLAIN):
                import_module("numba").config.DISABLE_JIT = True
                os.environ["NUMBA_DISABLE_JIT"] = "1"
            plain = ["-x", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider"]
            status = int(import_module("pytest").main([*plain, *files]))
            sys.stdout.flush()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "failed" if status else "passed"
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "too slow"


def judged(root: Path, change: Change, files: list[str], seconds: float) -> str:
    """What the tests say of one change; the file is as it was afterwards."""
    path = root / "bongref" / change.module
    source = path.read_text(encoding="utf-8")
    try:
        path.write_text(changed(source, change), encoding="utf-8")
        return tested(root, change.module, files, seconds)
    finally:
        path.write_text(source, encoding="utf-8")


def checkout(to: Path) -> Path:
    """The last commit as files, or a copy of these files where there is no repository."""
    if not (ROOT / ".git").exists():
        skipped = shutil.ignore_patterns(".venv", "_build", "__pycache__", "*.egg-info")
        return Path(shutil.copytree(ROOT, to, ignore=skipped, dirs_exist_ok=True))
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", "HEAD"], check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", str(to)], input=archive.stdout, check=True)
    return to


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def planned(
    root: Path, seed: int, only: str = ""
) -> tuple[list[tuple[str, Change]], dict[str, str]]:
    """All changes with their names in the order of the seed, and the text of each module."""
    texts = {m: (root / "bongref" / m).read_text(encoding="utf-8") for m in modules(root)}
    every = [(key(c, t), c) for m, t in texts.items() if m.startswith(only) for c in changes(m, t)]
    random.Random(seed).shuffle(every)
    return every, texts


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python -m validation.suite_mutation", description=__doc__)
    p.add_argument("--sample", type=int, default=50)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--only", default="", help="modules that begin so, e.g. likelihoods/")
    p.add_argument("--minutes", type=float, default=1e9)
    p.add_argument("--check", action="store_true", help="N that were noticed, again")
    args = p.parse_args(argv)
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    for name in WARM:
        import_module(name)
    known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else {}
    end, bad, usual, n = time.monotonic() + 60 * args.minutes, 0, {}, 0
    with tempfile.TemporaryDirectory() as temporary:
        root = checkout(Path(temporary))
        os.environ.update(PYTHONPATH=str(root), NUMBA_CACHE_DIR=str(root / "cache"))
        files = modules(root)
        every, texts = planned(root, args.seed, args.only)
        results = {m: known.get(m, {}) for m in files}
        for m, text in texts.items():
            if results[m].get("text") != digest(text):
                results[m] = {"text": digest(text), "changes": 0, "noticed": 0, "survivors": []}
                results[m]["tried"] = []
            results[m]["changes"] = len(changes(m, text))
        for name, change in every:
            one = results[change.module]
            if n >= args.sample or time.monotonic() > end:
                break
            mark, again = digest(name), name in one["survivors"]
            if args.check and (mark not in one["tried"] or again):
                continue
            if mark in one["tried"] and not args.check and (not again or name in reasons):
                continue
            n += 1
            tests = tuple(files[change.module])
            if tests not in usual:
                begun = time.monotonic()
                if tested(root, change.module, list(tests), 1200) != "passed":
                    raise SystemExit(f"{tests} fail as they are")
                usual[tests] = time.monotonic() - begun
            said = judged(root, change, list(tests), 20 + SLOWEST * usual[tests])
            if mark not in one["tried"]:
                one["tried"].append(mark)
            one["survivors"] = [s for s in one["survivors"] if s != name]
            if said == "passed":
                one["survivors"].append(name)
                bad += name not in reasons
            one["noticed"] = len(one["tried"]) - len(one["survivors"])
            print(f"{said:8} line {change.line} of {name}", flush=True)
            if not args.check:
                FILE.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"{n} changes tried; {bad} survive without a reason in {REASONS.name}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

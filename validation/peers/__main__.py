"""Other implementations through the vectors, and the page about them.

python -m validation.peers [NAME ...]      run the peers that can be imported; writes
                                           validation/results/peer-NAME.json
python -m validation.peers --list          what there is, and why a peer cannot be run here
python -m validation.peers --page          write docs/peers.md from the results and findings.json
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bongref import __version__
from bongref.conformance import runner, vectors
from bongref.conformance.adapter import CALLS
from bongref.conformance.runner import Outcome, check

from . import PEERS, RESULTS, ROOT, digest, load_findings, write_json
from .explain import Explanation, explain
from .page import page


class Recorder:
    """An adapter that remembers the answers to a case."""

    def __init__(self, adapter: Any):
        self.adapter, self.name, self.dtype, self.first = adapter, adapter.name, adapter.dtype, []

    def __getattr__(self, call: str) -> Any:
        if call not in CALLS:
            raise AttributeError(call)
        method = getattr(self.adapter, call)

        @functools.wraps(method)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            got = method(*args, **kwargs)
            self.first.append(got)
            return got

        return recorded


def run_peer(name: str, only: list[str] | None = None, verbose: bool = True) -> dict[str, Any]:
    """Every adapter of a peer through its cases."""
    peer = PEERS[name]
    module = importlib.import_module(f"{__package__}.{peer.module}")
    findings = [f for f in load_findings() if f["peer"] in (name, peer.copy_of)]
    runs = []
    for cls, limits in peer.adapters.items():
        if only and cls not in only:
            continue
        known = [{**f, "adapters": [cls]} for f in findings] if peer.copy_of else findings
        runs.append(
            run_adapter(
                getattr(module, cls),
                cls,
                limits,
                known,
                getattr(module, "Adapter", None),
                verbose,
            )
        )
    from . import beyond

    return {
        "schema": "bongref-peer-1",
        "peer": name,
        "title": peer.title,
        "version": module.Adapter.version,
        "bongref": __version__,
        "runs": runs,
        "beyond": [row._asdict() for row in beyond.CHECKS[name](module)]
        if name in beyond.CHECKS
        else [],
    }


def run_adapter(
    made: Any,
    cls: str,
    limits: dict[str, Any],
    findings: list[dict[str, Any]],
    in64: Any,
    verbose: bool,
) -> dict[str, Any]:
    """One adapter through its cases: the counts, what it offers, and each failing case with its
    explanation.
    """
    recorder, answers = Recorder(made()), {}
    began = time.perf_counter()

    def progress(k: int, n: int, outcome: Outcome) -> None:
        if outcome.status in ("fail", "error"):
            answers[outcome.case.id] = recorder.first[0] if recorder.first else None
        recorder.first.clear()
        _free(k)
        if verbose and (k % 50 == 0 or k == n):
            print(
                f"\r{recorder.name}: {k}/{n}, {time.perf_counter() - began:.0f} s",
                end="" if k < n else "\n",
                file=sys.stderr,
            )

    report = check(
        recorder,
        levels=limits.get("levels"),
        methods=limits.get("methods"),
        diagnose=False,
        progress=progress,
    )
    double = in64() if recorder.dtype == "float32" else None
    failures = []
    for outcome in _diagnosed(made, report.failures):
        found = _explained(findings, cls, outcome, answers[outcome.case.id], double)
        failures.append(_failure(outcome, found))
    return {
        "adapter": cls,
        "name": recorder.name,
        "dtype": recorder.dtype,
        "what": (made.__doc__ or "").strip().splitlines()[0] if made.__doc__ else "",
        "levels": limits.get("levels"),
        "methods": limits.get("methods"),
        "vectors": digest(),
        "counts": report.counts,
        "offered": offered(report.outcomes),
        "failures": failures,
    }


def _diagnosed(made: Any, failures: Iterable[Outcome]) -> Iterator[Outcome]:
    """The failing cases again, with a diagnosis: each method in its time, as with ``--methods``."""
    adapters: dict[tuple[str, ...], Any] = {}
    for k, outcome in enumerate(failures):
        subject = tuple(outcome.case.subject.values())
        if subject not in adapters:
            adapters[subject] = made()
        _free(k)
        yield runner.run_case(adapters[subject], outcome.case)


def _free(k: int) -> None:
    """Thousands of functions that JAX has compiled fill the memory: they go every 100 cases."""
    if k % 100 == 0 and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


def _explained(
    findings: list[dict[str, Any]], cls: str, outcome: Outcome, got: Any, double: Any
) -> Explanation | None:
    case = outcome.case
    raised = outcome.message if outcome.status == "error" else ""
    if double is None:
        return explain(findings, cls, case, got, raised)
    single = next((f["id"] for f in findings if f["id"].endswith("-float32")), "")
    recorder = Recorder(double)
    again = runner.run_case(recorder, case, diagnose=False)
    if single and case.result == "value" and again.status == "pass":
        return Explanation((single,), (), None, "the same code in float64 passes this case")
    slack = 32 * max((q.tolerance["float32"] or 0 for q in case.expected), default=0)
    if found := explain(findings, cls, case, got, raised, slack):
        return found
    in64 = explain(
        findings,
        "Adapter",
        case,
        recorder.first[0] if recorder.first else None,
        again.message if again.status == "error" else "",
    )
    if in64 is None or not single:
        return None
    how = "in float64 the same code differs by the other finding alone, the rest is float32"
    return Explanation((*in64.findings, single), in64.functions, None, how)


def _failure(outcome: Outcome, found: Explanation | None) -> dict[str, Any]:
    case, gap = outcome.case, outcome.gap
    return {
        "case": case.id,
        "level": case.level,
        **case.subject,
        "status": outcome.status,
        "quantity": gap.quantity if gap else None,
        "equation": gap.equation if gap else None,
        "relative": float(f"{gap.relative:.3g}") if gap and math.isfinite(gap.relative) else None,
        "tolerance": float(f"{gap.tolerance:.3g}") if gap else None,
        "message": outcome.message.split("\n")[0],
        "diagnosis": [str(d) for d in outcome.diagnosis],
        "findings": list(found.findings) if found else [],
        "functions": list(found.functions) if found else [],
        "difference": float(f"{found.difference:.2g}")
        if found and found.difference is not None
        else None,
        "confirmed": found.how if found else "UNEXPLAINED",
    }


def offered(outcomes: Any) -> dict[str, dict[str, dict[str, int]]]:
    """Of each method (or estimator, family, kind) and level that is offered: how many cases pass
    and fail.
    """
    out: dict[str, dict[str, dict[str, int]]] = {}
    for o in outcomes:
        if o.status in ("not offered", "not applicable") or (
            o.case.result == "refuse" and o.status == "pass"
        ):
            continue
        level = out.setdefault(" ".join(o.case.subject.values()), {}).setdefault(o.case.level, {})
        word = "fail" if o.status in ("fail", "error") else "pass"
        level[word] = level.get(word, 0) + 1
    return out


def listing() -> str:
    """A line for each peer: its adapters, or why it cannot be run here."""
    lines = []
    for name, peer in PEERS.items():
        try:
            module = importlib.import_module(f"{__package__}.{peer.module}")
            lines.append(
                f"{name:16}{peer.title} {module.Adapter.version}: {', '.join(peer.adapters)}"
            )
        except Exception as error:  # what a peer imports may fail in any way
            lines.append(f"{name:16}{peer.title}: not installed ({error})")
    return "\n".join(lines)


def merged(file: Path, result: dict[str, Any]) -> dict[str, Any]:
    """The result in the file with these runs in the place of its own; it must be of the same
    version of the peer.
    """
    before = json.loads(file.read_text(encoding="utf-8"))
    if before["version"] != result["version"]:
        raise SystemExit(f"{file.name} is of another version: run all of its adapters")
    new = {run["adapter"]: run for run in result["runs"]}
    return {**result, "runs": [new.get(run["adapter"], run) for run in before["runs"]]}


def main(argv: list[str] | None = None) -> int:
    """0 if every failing case is explained."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.peers", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(PEERS)}; all without"
    )
    parser.add_argument(
        "--adapters",
        nargs="*",
        help="these adapters alone; what they get replaces theirs in the result",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder for the results")
    parser.add_argument("--list", action="store_true", help="what can be run here")
    parser.add_argument(
        "--page", action="store_true", help="write docs/peers.md from the results and the findings"
    )
    args = parser.parse_args(argv)
    if unknown := [n for n in args.names if n not in PEERS]:
        parser.error(f"there is no peer {unknown[0]!r}; there are {', '.join(PEERS)}")
    if args.list:
        print(listing())
        return 0
    if args.page:
        (ROOT / "docs" / "peers.md").write_text(page(args.out), encoding="utf-8")
        return 0
    vectors.load()
    left = 0
    for name in args.names or PEERS:
        try:
            result = run_peer(name, args.adapters)
        except ImportError as error:
            print(f"{name}: skipped, {error}")
            continue
        for run in result["runs"]:
            lost = [f["case"] for f in run["failures"] if not f["findings"]]
            left += len(lost)
            print(
                f"{run['name']}: {run['counts']}"
                + (f"; unexplained: {', '.join(lost)}" if lost else "")
            )
        for row in result["beyond"]:
            print(
                f"  {row['finding']}: {row['what']}; from the equations {row['size']}, "
                f"from the cause {row['left']:.2g}"
            )
        file = args.out / f"peer-{name}.json"
        write_json(file, merged(file, result) if args.adapters else result)
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())

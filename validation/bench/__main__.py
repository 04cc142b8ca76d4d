"""Time every cell of the grid, ours and the peer's in turn: python -m validation.bench [--bong
CHECKOUT --python PATH]

Other implementations that the peer's Python has are timed too, in the cells that they cover
(others.py). Results go to validation/results/bench.json, after each cell; Ctrl-C keeps what is
there, --resume goes on with what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import cells, evaluation, first, limits, others, report
from .worker import ROOT, Worker, short

RESULTS = ROOT / "validation" / "results"
SIDES = {"float32": "peer", "float64": "peer64"}  # the authors' code, by its dtype
MOST = {"mlp": 20_000, "cnn": 500}  # observations of one repeat


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="python -m validation.bench", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument(
        "--cells",
        nargs="+",
        default=["*"],
        metavar="GLOB",
        help='which cells, e.g. "bong-*-diag@mlp" (default: all 96)',
    )
    p.add_argument(
        "--backend",
        default="fast",
        choices=("fast", "reference", "auto"),
        help="of br.run (default: fast)",
    )
    p.add_argument(
        "--bong",
        default=os.environ.get("BONGREF_PEER_BONG"),
        help="a checkout of petergchang/bong (or BONGREF_PEER_BONG)",
    )
    python = os.environ.get("BONGREF_PEER_PYTHON", sys.executable)
    p.add_argument(
        "--python",
        default=python,
        help="a Python with the peers and what they import (or BONGREF_PEER_PYTHON; default: "
        "this one)",
    )
    p.add_argument(
        "--peer-dtype",
        nargs="+",
        default=list(SIDES),
        choices=tuple(SIDES),
        help="in which the authors' code computes (default: both, a column each)",
    )
    rebayes = os.environ.get("BONGREF_PEER_REBAYES")
    p.add_argument(
        "--rebayes", default=rebayes, help="a checkout of probml/rebayes (or BONGREF_PEER_REBAYES)"
    )
    p.add_argument(
        "--repeats", type=int, help="of each cell and side, at least 3 (default: 5; 3 with --quick)"
    )
    p.add_argument(
        "--budget",
        type=float,
        default=30.0,
        help="seconds for the repeats of a cell, beyond 3 of them (default: 30)",
    )
    p.add_argument(
        "--limit",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="of the authors' code for one observation; where it takes longer, the ratio is given "
        "as at least this over our time (default: 30)",
    )
    p.add_argument("--quick", action="store_true", help="3 repeats of shorter streams")
    p.add_argument(
        "--stop-after",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="begin no cell after that time; --resume goes on",
    )
    p.add_argument(
        "--no-extras",
        action="store_true",
        help="leave out other implementations, the first result of a new process and the BLAS trap",
    )
    p.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="where bench.json goes (default: validation/results)",
    )
    p.add_argument(
        "--resume", action="store_true", help="keep what bench.json has, and time what is missing"
    )
    p.add_argument(
        "--page",
        action="store_true",
        help="write docs/benchmarks.md and docs/figures/bench*.png too",
    )
    p.add_argument(
        "--page-only", action="store_true", help="write these from the JSON, and time nothing"
    )
    p.add_argument(
        "--docs",
        type=Path,
        default=ROOT / "docs",
        metavar="DIR",
        help="where --page writes (default: docs)",
    )
    p.add_argument(
        "--log",
        type=Path,
        help="a file for what the processes write to standard error (default: nowhere)",
    )
    args = p.parse_args(argv)
    args.repeats = max(3, args.repeats or (3 if args.quick else 5))
    try:
        args.chosen = cells.select(args.cells)
    except ValueError as error:
        p.error(str(error))
    return args


def say(text: str, end: str = "\n") -> None:
    print(text, file=sys.stderr, end=end, flush=True)


def printed_by(module: str, *args: str) -> Any:
    """What a module of this folder prints as JSON, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", f"validation.bench.{module}", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout)


# --- one cell -------------------------------------------------------------------------------------


def observed(worker: Worker, request: dict[str, Any], limit: float) -> dict[str, Any]:
    """Compile the authors' code, and see if it takes one observation within the limit (s)."""
    found = worker.ask("load", **request)
    if "error" in found:
        return {"error": f"compiling: {found['error']}"}
    found = worker.ask("once", timeout=limit)
    return {**found, "at least us": limit * 1e6} if found.get("late") else found


def prepare(
    cell: cells.Cell, ours: Worker, peers: dict[str, Worker], target: float, limit: float | None
) -> dict[str, Any]:
    """All sides ready with the same prior variance and alpha: the first pair with which neither we
    nor the first peer lose positive definiteness."""

    def ask(worker: Worker, var: float, alpha: float | None) -> dict[str, Any]:
        request = {"cell": cell.id, "var": var, "alpha": alpha, "most": MOST[cell.net]}
        if limit is not None and worker is not ours:
            found = observed(worker, request, limit)
            if "error" in found:
                return found
        return worker.ask("prepare", **request, target=target)

    sides = list(peers)
    peer = peers[sides[0]] if sides else None
    good = None  # the first pair that is good for us, if none is good for the peer
    for var, alpha in cells.TRIES[cell.rule]:
        mine = ask(ours, var, alpha)
        if "lost" in mine:
            continue
        theirs = ask(peer, var, alpha) if peer else None
        if theirs is None or "error" in mine or "error" in theirs or theirs["finite"]:
            break
        good = good or (var, alpha)
    else:
        var, alpha = good or cells.TRIES[cell.rule][0]
        mine = ask(ours, var, alpha)
        mine = {"error": mine["lost"]} if "lost" in mine else mine
        theirs = ask(peer, var, alpha) if peer else None
    found = {} if theirs is None else {sides[0]: theirs}
    found |= {side: ask(peers[side], var, alpha) for side in sides[1:]}
    return {"var": var, "alpha": alpha, "ours": mine, "peer": None, **found}


def measure(
    cell: cells.Cell,
    ours: Worker,
    peers: dict[str, Worker],
    args: argparse.Namespace,
    limit: float | None = None,
) -> dict[str, Any]:
    """A row of the results: the repeats of all sides in turn. With a limit (s) for the authors'
    code: for one observation, and for the repeats beyond the first.
    """
    row = prepare(cell, ours, peers, 0.05 if args.quick else 0.3, limit)
    workers = {name: worker for name, worker in {"ours": ours, **peers}.items() if "n" in row[name]}
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
    start = time.perf_counter()
    for i in range(args.repeats):
        if i >= 3 and time.perf_counter() - start > args.budget:
            break
        for name, worker in workers.items():
            spent = sum(answer.get("whole", 0.0) for answer in seen[name])
            if "error" not in row[name] and not (limit and i and spent * (1 + 1 / i) > limit):
                answer = worker.ask("time")
                row[name] |= {"error": answer["error"]} if "error" in answer else {}
                seen[name].append(answer)
    for name, worker in workers.items():
        if "error" not in row[name]:
            n, times = row[name]["n"], [answer["seconds"] for answer in seen[name]]
            whole = min(answer["whole"] for answer in seen[name])
            row[name] |= {
                "us": min(times) / n * 1e6,
                "us whole call": whole / n * 1e6,
                "repeats us": [t / n * 1e6 for t in times],
            }
            row[name] |= worker.ask("done")
    return row


def missing(row: dict[str, Any] | None, sides: Iterable[str]) -> bool:
    """Whether a cell has to be timed (again), on all sides in turn."""
    done = {"us", "at least us"}
    return row is None or any(done.isdisjoint(row.get(side) or {}) for side in ("ours", *sides))


# --- other implementations ------------------------------------------------------------------------


def other(number: int, args: argparse.Namespace) -> Worker:
    """The process of one of others.WAYS."""
    env = {"BONGREF_PEER_REBAYES": str(Path(args.rebayes).resolve())} if args.rebayes else {}
    return Worker(args.python, "validation.bench.others", str(number), env=env, log=args.stderr)


def compare(way: others.Way, theirs: Worker, args: argparse.Namespace) -> dict[str, Any]:
    """A row: ours is a new process with nothing compiled (except with --quick), so that each row
    has its own compile time.
    """
    with tempfile.TemporaryDirectory() as folder:
        env = {} if args.quick else {"NUMBA_CACHE_DIR": folder}
        ours = Worker(
            sys.executable,
            "validation.bench.ours",
            "--backend",
            args.backend,
            env=env,
            log=args.stderr,
        )
        try:
            row = measure(cells.parse(way.cell), ours, {"peer": theirs}, args)
            means = [
                {} if "error" in row[name] else side.ask("mean")
                for name, side in (("ours", ours), ("peer", theirs))
            ]
            return row | others.difference(way, *means)
        finally:
            ours.close()


def fill_others(doc: dict[str, Any], args: argparse.Namespace, keep: Any) -> None:
    """Time other implementations in the chosen cells, where a row has no times yet; one that
    cannot be imported is named and left out.
    """
    chosen, absent = {cell.id for cell in args.chosen}, set()
    for number, way in enumerate(others.WAYS):
        rows = {
            (row["peer name"], row["cell"], row["called"]): row for row in doc.get("others", [])
        }
        if (
            way.peer in absent
            or way.cell not in chosen
            or not missing(rows.get(way.key), ("peer",))
        ):
            continue
        theirs = other(number, args)
        try:
            found = theirs.ask("hello")
            if found.get("error", "").startswith(("ImportError", "ModuleNotFoundError")):
                say(f"{way.peer} is not timed: {found['error']}")
                absent.add(way.peer)
                continue
            row = {
                "peer name": way.peer,
                "cell": way.cell,
                "called": way.called,
                "dtype": way.dtype,
                **found,
            }
            rows[way.key] = row if "error" in found else row | compare(way, theirs, args)
        finally:
            theirs.close()
        doc["others"] = [rows[one.key] for one in others.WAYS if one.key in rows]
        keep()
        row = rows[way.key]
        times = [report.number(report.time_of(row, side)) for side in ("ours", "peer")]
        say(
            f"{way.cell}: {times[0]} µs, {way.peer} {times[1]} µs "
            f"{report.other_notes(row, args.backend)}"
        )


# --- the whole run --------------------------------------------------------------------------------


def start(args: argparse.Namespace, peers: dict[str, Worker]) -> dict[str, Any]:
    """The document to fill: a new one, or with --resume the one that is there."""
    file = args.out / "bench.json"
    old = report.load(file) if args.resume and file.exists() else None
    if old:
        found = {"limits": old["limits"], **printed_by("limits", "--machine")}
    else:
        say("the machine and its limits ...")
        found = printed_by("limits", *(["--quick"] if args.quick else []))
    settings = {
        "backend": args.backend,
        "repeats": args.repeats,
        "budget": args.budget,
        "limit": args.limit,
        "quick": args.quick,
        "compiled before": args.quick,
    }
    settings |= {"n_iter": cells.N_ITER, "n_samples": cells.N_SAMPLES, "rank": cells.RANK}
    doc: dict[str, Any] = {
        "schema": "bongref-bench-1",
        "complete": False,
        "settings": settings,
        **found,
        "peer": None,
        "cells": {},
    }
    for peer in peers.values():
        doc["peer"] = {"name": "petergchang/bong", **peer.ask("hello")}
        if "error" in doc["peer"]:
            raise SystemExit(
                f"the peer cannot be run: {doc['peer']['error']}; --bong names its "
                f"checkout, --python a Python with jax, flax, optax"
            )
    if old:
        for key, new in (("machine", found["machine"]), ("backend", args.backend)):
            was = old["machine"] if key == "machine" else old["settings"]["backend"]
            if was != report.rounded(new):
                raise SystemExit(f"--resume: {file.name} has another {key}; start without --resume")
        doc |= {
            key: old[key]
            for key in ("cells", "others", "first", "trap", "evaluation")
            if key in old
        }
        doc["peer"] = doc["peer"] or old["peer"]
    return doc


def fill(
    doc: dict[str, Any],
    args: argparse.Namespace,
    ours: Worker,
    peers: dict[str, Worker],
    keep: Any,
) -> None:
    """Time what is missing, and keep it after each step."""
    todo = [cell for cell in args.chosen if missing(doc["cells"].get(cell.id), peers)]
    begun = time.perf_counter()
    for i, cell in enumerate(todo):
        if time.perf_counter() - begun > args.stop_after:
            raise KeyboardInterrupt
        say(f"[{i + 1}/{len(todo)}, {time.perf_counter() - begun:.0f} s] {cell.id} ... ", end="")
        doc["cells"][cell.id] = measure(cell, ours, peers, args, args.limit)
        order = {one.id: k for k, one in enumerate(cells.grid())}
        doc["cells"] = dict(sorted(doc["cells"].items(), key=lambda item: order[item[0]]))
        keep()
        row = doc["cells"][cell.id]
        times = (
            f"{side} {report.number(report.time_of(row, side))} µs" for side in ("ours", *peers)
        )
        say(f"{', '.join(times)} {report.notes(row, args.backend)}")
    if todo:
        say("the limits once more ...")
        doc["limits"] = limits.better(
            doc["limits"], printed_by("limits", *(["--quick"] if args.quick else []))["limits"]
        )
        keep()
    if args.no_extras:
        return
    fill_others(doc, args, keep)
    if not doc.get("trap"):
        say("tall products ...")
        try:
            doc["trap"] = printed_by("trap", "--backend", args.backend)
        except RuntimeError as error:
            doc["trap"] = [{"what": "tall products", "error": short(error)}]
        keep()
    if not doc.get("evaluation"):
        say("predictions ...")
        doc["evaluation"] = evaluation.measure(None, args.repeats, args.stderr)
        keep()
    have = {(row["cell"], row["what"]) for row in doc.get("first", [])}
    wanted = tuple(
        cell
        for cell in first.CELLS
        if not {(cell, "cold"), (cell, "cached"), *([(cell, "peer")] if peers else [])} <= have
    )
    doc["first"] = [row for row in doc.get("first", []) if row["cell"] not in wanted]
    for row in first.measure(wanted, args.backend, args.bong if peers else None, args.python):
        say(f"first result: {row['cell']}, {row['what']}: {report.number(row.get('process s'))} s")
        doc["first"].append(row)
        keep()


def write_page(doc: dict[str, Any], args: argparse.Namespace) -> None:
    sweep = args.out / "sweep.json"
    found = report.load(sweep) if sweep.exists() else None
    report.figure(doc, args.docs / "figures" / "bench.png")
    if found:
        from .sweep import figure

        figure(found, args.docs / "figures" / "bench-sweep.png")
    (args.docs / "benchmarks.md").write_text(report.page(doc, found), encoding="utf-8")
    say(f"wrote {args.docs.name}/benchmarks.md and its figures")


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    file = args.out / "bench.json"
    if args.page_only:
        write_page(report.derive(report.load(file)), args)
        return 0
    log = args.stderr = open(args.log, "wb") if args.log else subprocess.DEVNULL
    cache = (
        None if args.quick else tempfile.TemporaryDirectory()
    )  # nothing compiled is there, so that compile times are those
    env = {"NUMBA_CACHE_DIR": cache.name} if cache else {}
    ours = Worker(
        sys.executable, "validation.bench.ours", "--backend", args.backend, env=env, log=log
    )
    checkout = ["--bong", str(Path(args.bong).resolve())] if args.bong else []
    peers = {
        side: Worker(args.python, "validation.bench.peer", *checkout, "--dtype", dtype, log=log)
        for dtype, side in SIDES.items()
        if checkout and dtype in args.peer_dtype
    }
    if not peers:
        say(
            "no peer: --bong or BONGREF_PEER_BONG names a checkout of petergchang/bong; "
            "only our side is timed"
        )
    code = 0
    try:
        try:
            doc = start(args, peers)
        except KeyboardInterrupt:
            say("\nstopped before the first cell")
            return 130
        keep = lambda: report.save(file, report.derive(doc))
        try:
            fill(doc, args, ours, peers, keep)
            doc["complete"] = True
        except KeyboardInterrupt:
            say("\nstopped; --resume goes on with what is missing")
            code = 130
        keep()
    finally:
        for worker in (ours, *peers.values()):
            worker.close()
        if cache:
            cache.cleanup()
    print(report.text(doc))
    if args.page:
        write_page(doc, args)
    return code


if __name__ == "__main__":
    raise SystemExit(main())

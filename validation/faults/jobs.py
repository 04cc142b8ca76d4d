"""What is disturbed: how it is prepared and done, when its folder is whole, and what it must give."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bongref as br
from bongref.cli import main
from bongref.experiments import records, store

GRID = ["linear", "--set", "n=40", "--steps", "20", "-q", "--methods"]
RUN = ["run", *GRID, "bong-lin-hess-diag,bog-lin-hess-diag", "--seeds", "2", "--workers", "1"]
TUNE = ["tune", *GRID, "bog-lin-hess-diag", "--trials", "3", "--round", "1"]


class Job(NamedTuple):
    """One thing that is done in a folder; ``work`` may be given again, and must then finish it."""

    prepare: Callable[[Path], None]
    work: Callable[[Path], int]
    whole: Callable[[Path], None]  # raises where a reader finds something damaged
    result: Callable[[Path], str]


def _nothing(folder: Path) -> None:
    pass


def _sum(*parts: bytes) -> str:
    return hashlib.blake2b(b"|".join(parts), digest_size=8).hexdigest()


# --- saving ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _states() -> list[Any]:
    rng = np.random.default_rng(0)
    return [br.Diag(rng.standard_normal(400), np.ones(400)) for _ in range(3)]


def _save(folder: Path) -> int:
    for state in _states()[1:]:
        br.save(folder / "x.npz", state)
    return 0


def _saved(folder: Path) -> str:
    return _sum(br.load(folder / "x.npz").mu.tobytes())


def _one_of_them(folder: Path) -> None:
    assert _saved(folder) in {_sum(s.mu.tobytes()) for s in _states()}


# --- a stream with checkpoints --------------------------------------------------------------------


def _stream(folder: Path) -> int:
    path, rng = folder / "run.npz", np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    m, model, lik = br.method("bong-mc-ef-diag"), br.models.linear(3), br.likelihoods.Gaussian(1.0)
    old = br.load(path) if path.exists() else None
    how = {"rng": 0, "every": 6, "metrics": br.metrics.on(X[:9], X[:9, 0], "nlpd-mc")}
    br.run(m, model, lik, m.prior(np.zeros(3), 1.0), X, X[:, 0], **how,
           checkpoint=path, resume=old, progress=False, backend="reference")  # fmt: skip
    return 0


def _stream_whole(folder: Path) -> None:
    if (folder / "run.npz").exists():
        br.load(folder / "run.npz")


def _stream_result(folder: Path) -> str:
    found = br.load(folder / "run.npz")
    return _sum(found.state.mu.tobytes(), found.state.var.tobytes(), repr(found.rows).encode())


# --- commands -------------------------------------------------------------------------------------


def _command(*words: str) -> Callable[[Path], int]:
    return lambda folder: main([*words, "--out", str(folder / "out")])


def _lines_whole(folder: Path) -> None:
    """Nothing but the last line may be incomplete, and none damaged."""
    if (folder / "out" / store.NAME).exists():
        assert not store.scan_folder(folder / "out").damaged


def _records(folder: Path) -> str:
    found = store.read(folder / "out")
    assert not found.notes and len({r["id"] for r in found.records}) == len(found.records)
    return records.digest(found.records)


def _tuned(folder: Path) -> str:
    best = json.loads((folder / "out" / "best.json").read_text())["methods"]
    kept = {n: {k: v for k, v in e.items() if k != "seconds"} for n, e in best.items()}
    return records.fingerprint(kept)


def _best_whole(folder: Path) -> None:
    _lines_whole(folder)
    if (folder / "out" / "best.json").exists():
        json.loads((folder / "out" / "best.json").read_text())


def _run_before(folder: Path) -> None:
    assert _command(*RUN)(folder) == 0


def _report(folder: Path) -> int:
    return main(["report", str(folder / "out")])


def _report_whole(folder: Path) -> None:
    _lines_whole(folder)
    page, data = (
        folder / "out" / "report" / "report.html",
        folder / "out" / "report" / "report.json",
    )
    assert not page.exists() or page.read_text().rstrip().endswith("</html>")
    if data.exists():
        json.loads(data.read_text())


def _reported(folder: Path) -> str:
    _report_whole(folder)
    names = {p.name for p in (folder / "out").rglob("*") if p.is_file()}
    return " ".join(sorted(n for n in names if not n.endswith(".part")))  # a kill leaves its part


JOBS = {
    "saving": Job(lambda f: br.save(f / "x.npz", _states()[0]), _save, _one_of_them, _saved),
    "stream": Job(_nothing, _stream, _stream_whole, _stream_result),
    "run": Job(_nothing, _command(*RUN), _lines_whole, _records),
    "tune": Job(_nothing, _command(*TUNE), _best_whole, _tuned),
    "report": Job(_run_before, _report, _report_whole, _reported),
}

"""Results of the studies in the form that is committed:  python -m validation.paper.collect FOLDER

FOLDER has a folder for each study, named STUDY-SIZE as ``python -m validation.paper`` makes them.
What the page needs of every run goes into validation/results/paper/STUDY-SIZE.jsonl.gz, one line a
run, sorted by id: what decides it, how it ended, its rows, its id and its command. Runs that are
in that file already stay, but for those that FOLDER has too, by another version perhaps.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from bongref.experiments import store

RESULTS = Path(__file__).resolve().parents[1] / "results" / "paper"


def compact(study: str, folder: str, record: dict[str, Any]) -> dict[str, Any]:
    """What the page needs of a record."""
    task, settings = record["task"], record["settings"]
    command = record["command"].split(" --out ")[0]
    return {
        "id": record["id"],
        "study": study,
        "folder": folder,
        "task": task["name"],
        "part": task["part"],
        "method": record["method"],
        "params": {k: v for k, v in record["params"].items() if v not in (None, False)},
        "w0": settings.get("w0", "random"),
        "prior_var": settings["prior_var"],
        "seed": record["seed"],
        "adapter": record["adapter"],
        "status": record["status"],
        "step": record["step"],
        "reason": record["reason"][:80],
        "rows": record["rows"],
        "seconds": round(record["timing"]["steps"], 7),
        "command": _portable(command),
    }


def _portable(command: str) -> str:
    """The command without the folder of the data, which BONGREF_DATA names."""
    words = command.split(" ")
    if "--data" in words:
        at = words.index("--data")
        del words[at : at + 2]
    return " ".join(words)


def same_run(run: dict[str, Any]) -> str:
    """What two versions of one run have in common."""
    names = ("folder", "task", "part", "method", "params", "w0", "prior_var", "seed", "adapter")
    steps = re.search(r"--steps (\d+)", run["command"])
    return json.dumps([*(run[n] for n in names), steps and steps[1]], sort_keys=True)


def collect(source: Path, out: Path = RESULTS) -> list[Path]:
    """Add the results of every study in a folder to the compact files; -> the files."""
    written = []
    for study in sorted(p for p in source.iterdir() if p.is_dir()):
        lines = [
            compact(study.name, str(path.parent.relative_to(study)), record)
            for path in sorted(study.rglob(store.NAME))
            for record in store.read(path.parent).records
        ]
        if lines:
            path = out / f"{study.name}.jsonl.gz"
            runs = {same_run(run): run for run in [*read_file(path), *lines]}
            ordered = sorted(runs.values(), key=lambda run: (run["folder"], run["id"]))
            text = "".join(json.dumps(run, ensure_ascii=False) + "\n" for run in ordered)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
            written.append(path)
    return written


def read_file(path: Path) -> list[dict[str, Any]]:
    """The runs of a compact file; none if it is not there."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def read(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """All runs of the committed results."""
    return [run for path in sorted(folder.glob("*.jsonl.gz")) for run in read_file(path)]


if __name__ == "__main__":
    for made in collect(Path(sys.argv[1])):
        print(made, made.stat().st_size)

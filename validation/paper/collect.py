"""Results of the studies in the form that is committed:  python -m validation.paper.collect FOLDER

FOLDER has a folder for each study, named STUDY-SIZE as ``python -m validation.paper`` makes them.
What the page needs of every run goes into validation/results/paper/STUDY-SIZE.jsonl.gz, one line a
run, sorted by id: what decides it, how it ended, its rows, its id and its command.
"""

from __future__ import annotations

import gzip
import json
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


def collect(source: Path, out: Path = RESULTS) -> list[Path]:
    """Write the compact results of every study in a folder; -> the files."""
    written = []
    for study in sorted(p for p in source.iterdir() if p.is_dir()):
        lines = [
            compact(study.name, str(path.parent.relative_to(study)), record)
            for path in sorted(study.rglob(store.NAME))
            for record in store.read(path.parent).records
        ]
        if lines:
            lines.sort(key=lambda run: (run["folder"], run["id"]))
            text = "".join(json.dumps(run, ensure_ascii=False) + "\n" for run in lines)
            path = out / f"{study.name}.jsonl.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
            written.append(path)
    return written


def read(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """All runs of the committed results."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]


if __name__ == "__main__":
    for made in collect(Path(sys.argv[1])):
        print(made, made.stat().st_size)

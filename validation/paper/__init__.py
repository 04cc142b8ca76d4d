"""The paper's experiments, one command each:  python -m validation.paper c --reduced

Every study has two files of settings: ``full`` has the paper's numbers, ``reduced`` has fewer
trials, samples or test rows and says which. Settings are commands of ``bongref`` (``tune``,
``run``) in the order in which they are given; each resumes where it was stopped, and results go
into a folder for each study. See settings/ and README.md.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

SETTINGS = Path(__file__).parent / "settings"
STUDIES = ("a", "b", "c", "d", "e", "f")
SIZES = ("full", "reduced")
# a check of a minute that everything works; nothing can be concluded from it
TINY = {
    "run": [
        "--steps",
        "12",
        "--seeds",
        "1",
        "--at",
        "12",
        "--eval-samples",
        "3",
        "--n-samples",
        "3",
    ],
    "tune": ["--steps", "12", "--trials", "2", "--round", "2", "--fix", "n_samples=3"],
}


def load(study: str, size: str) -> dict[str, Any]:
    """The settings of a study."""
    path = SETTINGS / f"{study}-{size}.json"
    settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return settings


def commands(settings: dict[str, Any], out: Path, workers: int, tiny: bool = False) -> list[Any]:
    """The commands of a study: (words of ``bongref``, folder of the results, may be refused)."""
    found = []
    for step in settings["commands"]:
        text = " ".join(step["words"]).replace("{settings}", str(SETTINGS))
        words = shlex.split(text.replace("{out}", str(out)))
        folder = out / step["folder"]
        if "--workers" not in words:
            words += ["--workers", str(workers)]
        if tiny:
            words = _tiny(words)
        found.append(([*words, "--out", str(folder)], folder, bool(step.get("optional"))))
    return found


def _tiny(words: list[str]) -> list[str]:
    """The same command with very few steps; the last value of an option counts."""
    more = TINY[words[0]]
    if words[0] == "run" and "--n-samples" not in words:
        more = more[:-2]
    return [*words, *more, "--set", "max_test=20"] if words[1] != "linear" else [*words, *more]

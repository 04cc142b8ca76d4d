"""The process in which a student's code runs:  python worker.py FILE IN OUT

IN has one call per line (exercise, arguments) as JSON; OUT gets one line when a call begins and one
when it ends. Whatever the code prints goes to standard error. It is run by its path, and imports
nothing of the package: it starts in a fraction of a second.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Numbers, arrays and tuples of them as JSON; a TypeError that says what came otherwise."""
    if isinstance(value, tuple | list) and any(np.ndim(v) for v in value):
        return {"tuple": [plain(v)["array"] for v in value]}
    if isinstance(value, tuple):
        return {"tuple": [plain(v)["array"] for v in value]}
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"returned {type(value).__name__}, not numbers") from None
    return {"array": {"shape": list(array.shape), "data": array.ravel().tolist()}}


def unplain(value: Any) -> Any:
    """An argument: a number, or an array from its shape and data."""
    if isinstance(value, dict):
        return np.array(value["data"], dtype=float).reshape(value["shape"])
    return value


def told(error: BaseException, file: Path) -> dict[str, Any]:
    """An error of the student's code: its type, words, and the last line of the file in it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == file]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    text = frames[-1].line if frames else (getattr(error, "text", "") or "").strip()
    return {"error": type(error).__name__, "message": str(error), "line": line, "text": text}


def main(file: str, calls: str, out: str) -> int:
    """Load the file and make the calls, one after another."""
    path = Path(file).resolve()
    answers = open(out, "w", encoding="utf-8")
    sys.stdout = sys.stderr

    def say(**entry: Any) -> None:
        answers.write(json.dumps(entry) + "\n")
        answers.flush()

    try:
        spec = importlib.util.spec_from_file_location("student", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except BaseException as error:  # SystemExit of a script too
        say(loading=told(error, path))
        return 0
    for n, line in enumerate(Path(calls).read_text(encoding="utf-8").splitlines()):
        call = json.loads(line)
        say(begins=n)
        function = getattr(module, call["name"], None)
        if not callable(function):
            say(ends=n, error="missing", message=f"the file has no function {call['name']}")
            continue
        try:
            with np.errstate(all="ignore"):
                value = plain(function(*(unplain(a) for a in call["arguments"])))
            say(ends=n, value=value)
        except BaseException as error:
            say(ends=n, **told(error, path))
    return 0


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.argv[1]).resolve().parent)  # the student's folder, not this one
    sys.exit(main(*sys.argv[1:4]))

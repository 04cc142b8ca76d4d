"""The process in which a student's code runs:  python worker.py FILE IN OUT

IN has one call per line (exercise, arguments, number of returned quantities) as JSON; OUT gets one
line when a call begins and one when it ends. Whatever the code prints goes to standard error. It is
run by its path, and imports nothing of the package: it starts in a fraction of a second.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np


def plain(value: Any, returns: int) -> list[dict[str, Any]]:
    """What was returned, in a tuple, list or array if it is more than one quantity, as JSON."""
    row = isinstance(value, np.ndarray) and value.shape == (returns,)
    many = isinstance(value, tuple) or (returns > 1 and (isinstance(value, list) or row))
    return [_array(v) for v in (value if many else (value,))]


def _array(value: Any) -> dict[str, Any]:
    """A number or an array as JSON; a TypeError that says what came otherwise."""
    if value is None:
        raise TypeError("returned None: is a return statement missing?")
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array) and np.all(array.imag == 0):
            array = array.real
        array = array.astype(float, casting="same_kind" if array.dtype.kind in "fc" else "unsafe")
    except (TypeError, ValueError):
        kind = "complex numbers" if np.iscomplexobj(value) else type(value).__name__
        raise TypeError(f"returned {kind}, not real numbers") from None
    return {"shape": list(array.shape), "data": array.ravel().tolist()}


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
                value = plain(function(*map(unplain, call["arguments"])), call["returns"])
            say(ends=n, value=value)
        except BaseException as error:
            say(ends=n, **told(error, path))
    return 0


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.argv[1]).resolve().parent)  # the student's folder, not this one
    sys.exit(main(*sys.argv[1:4]))

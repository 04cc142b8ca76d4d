"""``best.json``: the parameters that ``bongref tune`` chose, for ``bongref run --params``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ...errors import InvalidValue
from ...grid import method

BEST, FORMAT = "best.json", 1
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def read_best(path: str | os.PathLike[str], kind: str | None = None) -> dict[str, dict[str, Any]]:
    """The parameters and settings of a ``best.json``, by method.

    Parameters
    ----------
    path : path
    kind : {"regression", "binary", "classes"}, optional
        Of the task that they are for.

    Returns
    -------
    dict
        Methods to ``{"params": {...}, "settings": {...}}``; those whose trials all diverged are
        left out.

    Raises
    ------
    InvalidValue
        If the file cannot be read, is not one of ``bongref tune``, or was tuned on a task of
        another kind.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        found = {n: e for n, e in data["methods"].items() if e["params"] is not None}
        for name, entry in found.items():
            method(name, **entry["params"])
            dict(entry["settings"])
    except (OSError, *MALFORMED) as error:
        raise InvalidValue(
            f"params must be the best.json of bongref tune, got {str(path)!r}; {error}"
        ) from None
    if data.get("format") != FORMAT:
        raise InvalidValue(
            f"params: {str(path)!r} has format {data.get('format')}, "
            f"and this version reads format {FORMAT}"
        )
    task = data.get("task", {})
    if kind is not None and task.get("kind", kind) != kind:
        raise InvalidValue(
            f"params: {str(path)!r} was tuned on {task.get('name')}, which is {task['kind']}, and "
            f"the task is {kind}; give the best.json of bongref tune on this task"
        )
    return found

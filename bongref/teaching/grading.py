"""The marks of a student's file. Grading runs the code of the file, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..linalg import Array
from . import worker
from .hints import agrees, hints
from .table import Exercise, Trial, trials
from .templates import exercises, lesson_of

STATUSES = ("right", "wrong", "not done", "error", "too slow")


class Mark(NamedTuple):
    """What became of one exercise."""

    exercise: str
    status: str  # one of STATUSES
    points: int
    out_of: int
    message: str = ""  # where it first goes wrong, or the error with its line
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grade:
    """The marks of a file.

    Attributes
    ----------
    file : str
    lesson : int
    marks : tuple of Mark
    """

    file: str
    lesson: int
    marks: tuple[Mark, ...]

    @property
    def points(self) -> int:
        """The sum of the points."""
        return sum(m.points for m in self.marks)

    @property
    def out_of(self) -> int:
        """The points of a file in which everything is right."""
        return sum(m.out_of for m in self.marks)

    def __str__(self) -> str:
        lines = [f"{self.file}: lesson {self.lesson}"]
        for m in self.marks:
            lines.append(f"  {m.exercise:<24}{m.status:<10}{m.points} of {m.out_of}")
            if m.message:
                lines += [f"      {line}" for line in m.message.splitlines()]
            lines += [f"      looks like: {hint}" for hint in m.hints]
        return "\n".join([*lines, f"  total {self.points} of {self.out_of}"])


def grade(file: str | Path, lesson: int | None = None, seconds: float = 30.0) -> Grade:
    """Run the functions of a student's file and mark them; the code of the file is run.

    Parameters
    ----------
    file : str or Path
        A Python file with the functions of a lesson, as :func:`template` begins it.
    lesson : int, optional
        Which lesson; by default from the name of the file, lesson05.py.
    seconds : float
        The time that the calls may take; after a function that takes longer, the others have it
        anew.

    Returns
    -------
    Grade
        One mark for each exercise: right or wrong, where it first goes wrong, and which mistake
        it looks like.

    Raises
    ------
    InvalidValue, InvalidType
        If there is no such file or lesson, or ``seconds`` is not finite and above 0.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bongref import teaching
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "lesson01.py"
    >>> _ = file.write_text("def beta_update(a, b, y):\\n    return a - y, b + 1 - y\\n")
    >>> mark = teaching.grade(file).marks[0]
    >>> mark.status, mark.hints[0]
    ('wrong', 'the sign of the change of a')
    """
    if not isinstance(file, (str, os.PathLike)):
        got = checks.describe(file)
        raise InvalidType(f"file must be a path (str or os.PathLike), got {got}")
    seconds, path = checks.scalar("seconds", seconds), Path(file)
    if not path.is_file():
        raise InvalidValue(f"file must be a Python file, got {str(file)!r}, which is not there")
    if seconds <= 0:
        raise InvalidValue(f"seconds must be > 0, got {seconds}; try 30")
    number = lesson_of(path.name) if lesson is None else lesson
    todo = exercises(number)
    tried = {e.name: trials(e) for e in todo}
    calls = [(e, t) for e in todo for t in tried[e.name]]
    answers, loading = _answers(path, calls, seconds)
    if loading is not None:
        message, status = _told(loading), _status(loading)
        return Grade(str(file), number, tuple(Mark(e.name, status, 0, e.points, message)
                                              for e in todo))  # fmt: skip
    marks, at = [], 0
    for e in todo:
        n = len(tried[e.name])
        marks.append(_mark(e, tried[e.name], answers[at : at + n]))
        at += n
    return Grade(str(file), number, tuple(marks))


def _answers(
    path: Path, calls: Sequence[tuple[Exercise, Trial]], seconds: float
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """One answer for each call, in order; and the error of loading the file, if there is one.

    A function that does not return ends its process; the others are called in a new one.
    """
    answers: list[dict[str, Any]] = []
    while rest := calls[len(answers) :]:
        ended, stop = _run(path, rest, seconds)
        if "loading" in stop:
            return answers, stop["loading"]
        answers += ended
        if len(ended) < len(rest):
            name = rest[len(ended)][0].name
            answers += [stop] * sum(e.name == name for e, _ in rest[len(ended) :])
    return answers, None


def _run(
    path: Path, calls: Sequence[tuple[Exercise, Trial]], seconds: float
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The answers of the calls up to one that does not return, and what stopped that one."""
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "calls", Path(folder) / "answers"
        given.write_text("".join(_line(e, t) for e, t in calls), encoding="utf-8")
        command = [sys.executable, worker.__file__, str(path), str(given), str(out)]
        late = not _finishes(command, seconds)
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    entries = [json.loads(line) for line in lines]
    stop: dict[str, Any] = {
        "error": "late" if late else "killed",
        "message": _stopped(late, seconds, "this call"),
    }
    if not any("begins" in x for x in entries):
        loading = next((x["loading"] for x in entries if "loading" in x), None)
        message = _stopped(late, seconds, "the file itself")
        stop = {"loading": loading or {**stop, "message": message}}
    return [x for x in entries if "ends" in x], stop


def _stopped(late: bool, seconds: float, what: str) -> str:
    if late:
        return f"stopped: {what} takes longer than {seconds:g} s"
    return f"{what} ended the process"


def _finishes(command: list[str], seconds: float) -> bool:
    """Run a command without input or output; whether it ends in time. Its children end too."""
    null, env = subprocess.DEVNULL, {**os.environ, "MPLBACKEND": "agg"}
    with subprocess.Popen(
        command, stdin=null, stdout=null, stderr=null, env=env, start_new_session=True
    ) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
    return True


def _line(exercise: Exercise, trial: Trial) -> str:
    def plain(a: Any) -> Any:
        if np.ndim(a) == 0:
            return a if isinstance(a, int) else float(a)
        return {"shape": list(np.shape(a)), "data": np.ravel(a).tolist()}

    call = {"name": exercise.name, "arguments": [plain(a) for a in trial.arguments]}
    return json.dumps({**call, "returns": len(exercise.returns)}) + "\n"


def _told(error: dict[str, Any]) -> str:
    """The words of an error in the student's code, with its line."""
    if error["error"] in ("late", "killed"):
        return str(error["message"])
    where = f"line {error['line']}: {error['text']}\n" if error.get("line") else ""
    return f"{where}{error['error']}: {error['message']}"


def _status(error: dict[str, Any]) -> str:
    return "too slow" if error["error"] == "late" else "error"


def _mark(e: Exercise, tried: Sequence[Trial], answers: Sequence[dict[str, Any]]) -> Mark:
    first = next((a for a in answers if "error" in a), None)
    if first is not None:
        if first["error"] in ("NotImplementedError", "missing"):
            message = first["message"] if first["error"] == "missing" else ""
            return Mark(e.name, "not done", 0, e.points, message)
        return Mark(e.name, _status(first), 0, e.points, _told(first))
    got = [_arrays(a["value"]) for a in answers]
    if any(len(v) != len(e.returns) for v in got):
        n = next(len(v) for v in got if len(v) != len(e.returns))
        wanted = f"return {', '.join(e.returns)}"
        said = "1 value was returned" if n == 1 else f"{n} values were returned"
        return Mark(e.name, "wrong", 0, e.points, f"{said}: {wanted}")
    wrong = [(k, j) for k, t in enumerate(tried) for j in range(len(e.returns))
             if not agrees(got[k][j], t.right[j], t.scales[j], t.tolerances[j])]  # fmt: skip
    if not wrong:
        return Mark(e.name, "right", e.points, e.points)
    message = _where(e, tried, got, wrong)
    return Mark(e.name, "wrong", 0, e.points, message, tuple(hints(e, tried, got)))


def _arrays(values: Sequence[dict[str, Any]]) -> tuple[Array, ...]:
    return tuple(np.array(a["data"], dtype=float).reshape(a["shape"]) for a in values)


def _where(
    e: Exercise,
    tried: Sequence[Trial],
    got: Sequence[tuple[Array, ...]],
    wrong: Sequence[tuple[int, int]],
) -> str:
    """The first quantity that is wrong in any case, with the numbers of that case."""
    j = min(quantity for _, quantity in wrong)
    where = [case for case, quantity in wrong if quantity == j]
    k, cases = where[0], len(where)
    name, right = e.returns[j], tried[k].right[j]
    before = [e.returns[i] for i in range(j)]
    said = f"{' and '.join(before)} right, " if before else ""
    text = f"{said}{name} is wrong first, in {cases} of {len(tried)} cases"
    here = got[k][j]
    if np.shape(here) != np.shape(right):
        return f"{text}: its shape is {np.shape(here)}, it should be {np.shape(right)}"
    gap = float(np.max(np.abs(here - right))) / tried[k].scales[j]
    shown = [np.array2string(np.ravel(a)[:6], precision=5) for a in (here, right)]
    return f"{text} (relative difference {gap:.2g})\ngot    {shown[0]}\nwanted {shown[1]}"

"""The runner: every case through an adapter, each answer compared in the order of computation.

>>> from bongref.conformance import Reference, check
>>> report = check(Reference, methods=["bong-lin-hess-diag"], levels=["step"])
>>> report.ok, report.failures
(True, [])

Nothing that an adapter does stops the other cases: an exception, a NaN, a wrong shape or a matrix
that is not symmetric is the outcome of that case.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidValue
from ..linalg import Array
from . import answers, vectors
from .adapter import dtype_of, load_adapter, name_of
from .answers import Gap
from .vectors import Case

STATUSES = ("pass", "fail", "error", "xfail", "xpass", "not applicable", "not offered")
NOT_RUN = ("not offered", "not applicable")
METHOD_OF = {"stream": "run"}  # the level is called stream, the adapter's method run


class Outcome(NamedTuple):
    """The result of one case.

    Attributes
    ----------
    case : Case
    status : str
        ``"pass"``, ``"fail"`` and so on: one of STATUSES.
    message : str
        What is wrong; empty for a pass.
    gap : Gap or None
        The first wrong quantity.
    diagnosis : tuple of str
        The mistakes that reproduce what was returned.
    units : float
        The largest difference in units of its tolerance.
    seconds : float
    partial : bool
        Whether a predictive was compared by its mean alone.

    Examples
    --------
    >>> from bongref import conformance
    >>> conformance.runner.run_case(conformance.Reference(), conformance.load()[0]).status
    'pass'
    """

    case: Case
    status: str  # one of STATUSES
    message: str = ""
    gap: Gap | None = None
    diagnosis: tuple[str, ...] = ()  # the mistakes that reproduce what was returned
    units: float = 0.0  # the largest difference in units of its tolerance
    seconds: float = 0.0
    partial: bool = False  # passes, but of a predictive with the mean alone


class Report(NamedTuple):
    """The outcomes of all cases of a run.

    Attributes
    ----------
    name, dtype : str
        Of the adapter.
    outcomes : tuple of Outcome
    seconds : float
    interrupted : bool
        Whether Ctrl-C ended it before the last case.
    unused_xfails : tuple of str
        Expected failures that did not fail.

    Examples
    --------
    >>> from bongref import conformance
    >>> how = {"methods": ["bong-lin-hess-diag"], "levels": ["L0"]}
    >>> conformance.check(conformance.Reference, **how).ok
    True
    """

    name: str
    dtype: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    interrupted: bool = False
    unused_xfails: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many cases have each status, those with none left out.

        Examples
        --------
        >>> Report("mine", "float64", (), 0.0).counts
        {}
        """
        numbers = {status: sum(o.status == status for o in self.outcomes) for status in STATUSES}
        return {status: n for status, n in numbers.items() if n}

    @property
    def failures(self) -> list[Outcome]:
        """The outcomes that fail or are errors.

        Examples
        --------
        >>> Report("mine", "float64", (), 0.0).failures
        []
        """
        return [o for o in self.outcomes if o.status in ("fail", "error")]

    @property
    def offered(self) -> int:
        """How many cases the adapter answered; 0 if all it does is to refuse.

        Examples
        --------
        >>> Report("mine", "float64", (), 0.0).offered
        0
        """
        answered = [o for o in self.outcomes if o.status not in NOT_RUN]
        return len(answered) if any(o.case.result == "value" for o in answered) else 0

    @property
    def ok(self) -> bool:
        """Whether something was offered, nothing offered fails, and every case was run.

        Examples
        --------
        >>> Report("mine", "float64", (), 0.0).ok      # no case was answered
        False
        """
        return self.offered > 0 and not self.failures and not self.interrupted


def check(
    adapter: Any,
    *,
    methods: Sequence[str] | None = None,
    levels: Sequence[str] | None = None,
    xfails: Any = None,
    diagnose: bool = True,
    progress: Callable[[int, int, Outcome], None] | None = None,
    folder: Any = None,
) -> Report:
    """Run cases through an adapter.

    Parameters
    ----------
    adapter : object, class or str
        The implementation, or "module:Name" or "file.py:Name", whose code is then run.
    methods : sequence of str, optional
        Names or globs; all without.
    levels : sequence of str, optional
        L0 to L4 and predict, or step, estimate, update, stream, predictive; all without.
    xfails : path or list of str, optional
        Ids or globs of cases that are known to fail.
    diagnose : bool
        Whether to look for the mistake behind a failure.
    progress : callable, optional
        ``progress(k, n, outcome)`` after each of the n cases.
    folder : path, optional
        Other vectors than the shipped ones.

    Returns
    -------
    Report

    Raises
    ------
    InvalidValue
        If the adapter cannot be loaded, or no case is selected.

    Examples
    --------
    >>> from bongref import conformance
    >>> conformance.check("bongref.conformance:Reference", levels=["predict"]).counts
    {'pass': 17}
    """
    adapter = load_adapter(adapter)
    cases = vectors.select(levels, methods, folder)
    known = read_xfails(xfails)
    outcomes: list[Outcome] = []
    began, interrupted = time.perf_counter(), False
    now_known = {"fail": "xfail", "error": "xfail", "pass": "xpass"}
    try:
        for k, case in enumerate(cases):
            outcome = run_case(adapter, case, diagnose=diagnose)
            if any(fnmatchcase(case.id, glob) for glob in known):
                outcome = outcome._replace(status=now_known.get(outcome.status, outcome.status))
            outcomes.append(outcome)
            if progress:
                progress(k + 1, len(cases), outcome)
    except KeyboardInterrupt:
        interrupted = True
    outcomes = not_refusals(outcomes)
    unused = (glob for glob in known if not any(fnmatchcase(case.id, glob) for case in cases))
    seconds, name = time.perf_counter() - began, name_of(adapter)
    return Report(name, dtype_of(adapter), tuple(outcomes), seconds, interrupted, tuple(unused))


def not_refusals(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes, a refusal being an error where every other call of the level raises too."""
    out, raised = [], dict[str, bool]()  # of the levels that were run
    for o in outcomes:
        if o.case.result == "value" and o.status not in NOT_RUN:
            this = o.message.startswith("raised ")
            raised[o.case.level] = raised.get(o.case.level, True) and this
    for o in outcomes:
        if (
            raised.get(o.case.level)
            and o.case.result != "value"
            and o.message.startswith("refused: ")
        ):
            call = METHOD_OF.get(o.case.level, o.case.level)
            said = f"raised as every call of {call} does, which is no refusal: {o.message[9:]}"
            o = o._replace(status="error" if o.status == "pass" else o.status, message=said)
        out.append(o)
    return out


def read_xfails(xfails: Any) -> list[str]:
    """Case ids or globs, one a line; what follows a # is a comment."""
    if xfails is None:
        return []
    try:
        if isinstance(xfails, (list, tuple)):
            lines = list(xfails)
        else:
            lines = Path(xfails).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"xfails: {xfails} cannot be read as a text file ({error})") from None
    return [word for line in lines if (word := line.split("#")[0].strip())]


# --- one case -------------------------------------------------------------------------------------


def run_case(adapter: Any, case: Case, *, diagnose: bool = True) -> Outcome:
    """Run one case through an adapter."""
    call = getattr(adapter, METHOD_OF.get(case.level, case.level), None)
    if not callable(call):
        return Outcome(case, "not offered")
    dtype = dtype_of(adapter)
    bounds = [q.tolerance[dtype] for q in case.expected if q.role == "result"]
    if case.expected and dtype == "float32" and all(bound is None for bound in bounds):
        said = "float32 cannot hold this problem to its condition"
        return Outcome(case, "not applicable", said)
    began = time.perf_counter()
    got, error = _call(call, case)
    seconds = time.perf_counter() - began
    not_implemented = isinstance(error, NotImplementedError) and case.result == "value"
    if got is NotImplemented or not_implemented:
        return Outcome(case, "not offered", seconds=seconds)
    return judge(adapter, case, got, error, dtype, diagnose)._replace(seconds=seconds)


def _call(call: Callable[..., Any], case: Case) -> tuple[Any, BaseException | None]:
    """The answer, or what was raised in its place; only Ctrl-C gets through."""
    arguments = case.arguments
    if case.level == "predictive" and "Y" in case.input and _takes(call, "Y"):
        arguments["Y"] = case.input["Y"].copy()
    try:
        args, kwargs = _bound(call, arguments)
        with np.errstate(all="ignore"):
            got = call(*args, **kwargs)
        if changed := _changed(arguments, {**case.arguments, "Y": case.input.get("Y")}):
            return got, Overwritten(f"overwrites its argument {changed} in place")
        return got, None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


class Overwritten(Exception):
    """A call that changes an array that it was given."""


def _changed(now: Any, before: Any, path: str = "") -> str:
    """The name of the first array that is not what it was; empty if all are."""
    if isinstance(now, dict):
        pairs = [(f"{path}.{k}" if path else str(k), now[k], before.get(k)) for k in now]
    elif isinstance(now, list):
        same = isinstance(before, (list, tuple)) and len(now) == len(before)
        pairs = [(f"{path}[{k}]", a, before[k]) for k, a in enumerate(now)] if same else []
    elif isinstance(now, np.ndarray):
        same = np.shape(before) == now.shape and np.array_equal(now, before, equal_nan=True)
        return "" if same else path
    else:
        pairs = []
    return next((found for p, a, b in pairs if (found := _changed(a, b, p))), "")


class WrongSignature(TypeError):
    """A method of an adapter that cannot be called: neither an answer nor a refusal."""


def _bound(
    call: Callable[..., Any], arguments: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """By keyword, or by position where the parameters have other names."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return (), arguments
    ways: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]
    ways = (((), arguments), (tuple(arguments.values()), {}))
    for args, kwargs in ways:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        return args, kwargs
    raise WrongSignature(f"takes {signature}; wanted ({', '.join(arguments)})")


def _takes(call: Callable[..., Any], name: str) -> bool:
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def judge(
    adapter: Any,
    case: Case,
    got: Any,
    error: BaseException | None,
    dtype: str,
    diagnose: bool = True,
) -> Outcome:
    """Compare an answer, or an exception in its place, with what the case expects."""
    if isinstance(error, WrongSignature):
        name = METHOD_OF.get(case.level, case.level)
        return Outcome(case, "error", f"cannot be called: {name} {error}")
    if isinstance(error, Overwritten):
        return Outcome(case, "fail", str(error))
    if case.result != "value":
        return _judge_refusal(case, got, error, dtype)
    if error is not None:
        return Outcome(case, "error", f"raised {type(error).__name__}: {error}")
    try:
        values, denied = answers.read(case, got), answers.says_lost(got)
    except (TypeError, ValueError) as wrong:
        return Outcome(case, "error", str(wrong))
    lost = "says that positive definiteness is lost, which it is not"
    worst, compared = 0.0, False
    for q in case.expected:
        tolerance = q.tolerance[dtype]
        if q.name not in values or tolerance is None:
            continue
        compared |= q.role == "result"
        gap = answers.compare(q, values[q.name], tolerance)
        if gap is not None:
            before, why = _diagnosis(adapter, case, values, dtype) if diagnose else (None, ())
            words = f"{lost}; {answers.in_words(gap)}" if denied else answers.in_words(gap)
            return Outcome(case, "fail", words, before or gap, why, gap.relative / gap.tolerance)
        worst = max(worst, answers.units(q, values[q.name], tolerance))
    if denied:
        return Outcome(case, "fail", lost)
    if copies := answers.copied(case, got):
        return Outcome(case, "fail", copies)
    if not compared:
        names = ", ".join(q.name for q in case.expected if q.role == "result")
        return Outcome(case, "error", f"returned nothing that can be compared; wanted {names}")
    others = [q for q in case.expected if q.role == "intermediate" and q.tolerance[dtype]]
    mean_alone = case.level == "predictive" and others and not any(q.name in values for q in others)
    return Outcome(case, "pass", units=worst, partial=bool(mean_alone))


def _judge_refusal(case: Case, got: Any, error: BaseException | None, dtype: str) -> Outcome:
    """An input that must be refused, or equations whose result is not positive definite."""
    if error is not None:
        return Outcome(case, "pass", f"refused: {type(error).__name__}: {error}")
    try:
        if got is None or answers.says_lost(got):
            return Outcome(case, "pass", "refused")
        values = answers.read(case, got, full=False)
        if any(not np.all(np.isfinite(a)) for a in values.values()):
            return Outcome(case, "pass", "refused: NaN")
        if case.result == "refuse":
            said = "returned a result for an input that must be refused: " + "; ".join(case.flags)
            return Outcome(case, "fail", said)
        positive_definite = answers.is_positive_definite(case, got)
    except (TypeError, ValueError) as wrong:
        return Outcome(case, "error", str(wrong))
    if positive_definite:
        said = (
            "returned a positive definite state where the equations lose positive definiteness: "
            "a silent repair"
        )
        return Outcome(case, "fail", said)
    for q in case.expected:
        tolerance = q.tolerance[dtype]
        if q.name in values and tolerance is not None:
            gap = answers.compare(q, values[q.name], tolerance)
            if gap is not None:
                units = gap.relative / gap.tolerance
                return Outcome(case, "fail", answers.in_words(gap), gap, (), units)
    said = "returned the values of the equations, which are not positive definite"
    return Outcome(case, "pass", said)


def _diagnosis(
    adapter: Any, case: Case, values: dict[str, Array], dtype: str
) -> tuple[Gap | None, tuple[str, ...]]:
    """An earlier quantity that differs, and the mistakes that reproduce the answer."""
    from .diagnosis import diagnose

    try:
        return diagnose(adapter, case, values, dtype)
    except Exception as error:  # the verdict does not depend on it
        said = f"no diagnosis: the search for it failed ({type(error).__name__}: {error})"
        return None, (said,)

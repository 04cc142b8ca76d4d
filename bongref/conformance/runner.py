"""The runner: every case through an adapter, each answer compared in the order of computation.

    report = check(MyAdapter())                          # or "my_adapter:Adapter"
    report.ok, report.counts, report.failures

Nothing that an adapter does stops the rest: what it raises, a NaN, a wrong shape or a matrix that is not symmetric is that case's result.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..gaussians import is_valid
from ..linalg import Array
from . import vectors
from .adapter import dtype_of, load_adapter, name_of
from .vectors import Case, Quantity

STATUSES = ("pass", "fail", "error", "xfail", "xpass", "not applicable", "not offered")
SEAM = ("g", "G", "d", "diag G")  # what an update may return beside its state
METHOD_OF = {"stream": "run"}  # the level is called stream, the adapter's method run


class Gap(NamedTuple):
    """The first quantity, in the order of computation, that is not what it must be."""

    quantity: str
    equation: str
    relative: float  # largest difference over the scale of the quantity
    tolerance: float
    got: Any  # as it was returned
    wanted: Array
    where: tuple[int, ...] = ()  # the entry that differs most

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.where))}]" if self.where else ""
        got, wanted = (np.asarray(a)[self.where] if np.shape(a) == np.shape(self.wanted) else a for a in (self.got, self.wanted))
        if np.shape(got) or np.shape(wanted):
            values = f"got shape {np.shape(self.got)}, wanted shape {np.shape(self.wanted)}"
        else:
            values = f"got {got:.17g}, wanted {wanted:.17g}"
        return (
            f"{self.quantity} ({self.equation}){at and ', entry ' + at}: {values}; "
            f"relative difference {self.relative:.3g}, tolerance {self.tolerance:.3g}"
        )


class Outcome(NamedTuple):
    """What became of one case."""

    case: Case
    status: str  # one of STATUSES
    message: str = ""
    gap: Gap | None = None
    diagnosis: tuple[str, ...] = ()  # the mistakes that reproduce what was returned
    units: float = 0.0  # the largest difference in units of its tolerance
    seconds: float = 0.0


class Report(NamedTuple):
    """The verdict on an adapter."""

    name: str
    dtype: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    interrupted: bool = False
    unused_xfails: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        return {status: n for status in STATUSES if (n := sum(o.status == status for o in self.outcomes))}

    @property
    def failures(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.status in ("fail", "error")]

    @property
    def offered(self) -> int:
        """How many cases the adapter answered; none if all it does is to refuse."""
        answered = [o for o in self.outcomes if o.status not in ("not offered", "not applicable")]
        return len(answered) if any(o.case.result == "value" for o in answered) else 0

    @property
    def ok(self) -> bool:
        """Something was offered, nothing offered fails, and nothing is left to run."""
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
    """Run the cases of these levels and methods through an adapter (an object, a class, or "module:Name").

    ``xfails``: a file, or a list, of case ids or globs that are known to fail. ``folder``: other vectors than the shipped ones.
    """
    adapter = load_adapter(adapter)
    vectors.check_methods(methods)
    cases = vectors.load(levels, methods, folder)
    if not cases:
        raise ValueError(f"no case has methods {methods} and levels {levels}")
    known = read_xfails(xfails)
    outcomes, began, interrupted = [], time.perf_counter(), False
    try:
        for k, case in enumerate(cases):
            outcome = run_case(adapter, case, diagnose=diagnose)
            if any(fnmatchcase(case.id, glob) for glob in known):
                outcome = outcome._replace(status={"fail": "xfail", "error": "xfail", "pass": "xpass"}.get(outcome.status, outcome.status))
            outcomes.append(outcome)
            if progress:
                progress(k + 1, len(cases), outcome)
    except KeyboardInterrupt:
        interrupted = True
    used = tuple(glob for glob in known if not any(fnmatchcase(case.id, glob) for case in cases))
    return Report(name_of(adapter), dtype_of(adapter), tuple(outcomes), time.perf_counter() - began, interrupted, used)


def read_xfails(xfails: Any) -> list[str]:
    """Case ids or globs, one a line; what follows a # is a comment."""
    if xfails is None:
        return []
    try:
        lines = xfails if isinstance(xfails, (list, tuple)) else Path(xfails).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"xfails: {xfails} cannot be read as a text file ({error})") from None
    return [word for line in lines if (word := line.split("#")[0].strip())]


# --- one case ---------------------------------------------------------------------------------------------------------------


def run_case(adapter: Any, case: Case, *, diagnose: bool = True) -> Outcome:
    """One case through an adapter."""
    call = getattr(adapter, METHOD_OF.get(case.level, case.level), None)
    if not callable(call):
        return Outcome(case, "not offered")
    dtype = dtype_of(adapter)
    if dtype == "float32" and (case.expected and all(q.tolerance["float32"] is None for q in case.expected if q.role == "result")):
        return Outcome(case, "not applicable", "float32 cannot hold this problem to its condition")
    began = time.perf_counter()
    got, error = _call(call, case)
    seconds = time.perf_counter() - began
    if got is NotImplemented or (isinstance(error, NotImplementedError) and case.result == "value"):
        return Outcome(case, "not offered", seconds=seconds)
    return judge(adapter, case, got, error, dtype, diagnose)._replace(seconds=seconds)


def _call(call: Callable, case: Case) -> tuple[Any, BaseException | None]:
    """The answer, or what was raised in its place; only Ctrl-C gets through."""
    arguments = case.arguments
    if case.level == "predictive" and "Y" in case.input and _takes(call, "Y"):
        arguments["Y"] = case.input["Y"].copy()
    try:
        args, kwargs = _bound(call, arguments)
        with np.errstate(all="ignore"):
            return call(*args, **kwargs), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


class WrongSignature(TypeError):
    """A method of an adapter that cannot be called: no answer to anything, and no refusal either."""


def _bound(call: Callable, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """By keyword, or where the parameters have other names, by position in the documented order."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return (), arguments
    for args, kwargs in (((), arguments), (tuple(arguments.values()), {})):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        return args, kwargs
    raise WrongSignature(f"takes {signature}; wanted ({', '.join(arguments)})")


def _takes(call: Callable, name: str) -> bool:
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def judge(adapter: Any, case: Case, got: Any, error: BaseException | None, dtype: str, diagnose: bool = True) -> Outcome:
    """Compare an answer, or an exception in its place, with what the case wants."""
    if isinstance(error, WrongSignature):
        return Outcome(case, "error", f"cannot be called: {METHOD_OF.get(case.level, case.level)} {error}")
    if case.result != "value":
        return _judge_refusal(case, got, error, dtype)
    if error is not None:
        return Outcome(case, "error", f"raised {type(error).__name__}: {error}")
    try:
        values, denied = answer(case, got), _says_lost(got)
    except (TypeError, ValueError) as wrong:
        return Outcome(case, "error", str(wrong))
    lost = "says that positive definiteness is lost, which it is not"
    worst, compared = 0.0, False
    for q in case.expected:
        tolerance = q.tolerance[dtype]
        if q.name not in values or tolerance is None:
            continue
        compared |= q.role == "result"
        gap = compare(q, values[q.name], tolerance)
        if gap is not None:
            found = _diagnosis(adapter, case, values, dtype) if diagnose else (None, ())
            words = f"{lost}; {_in_words(gap)}" if denied else _in_words(gap)
            return Outcome(case, "fail", words, found[0] or gap, found[1], gap.relative / gap.tolerance)
        worst = max(worst, units(q, values[q.name], tolerance))
    if denied:
        return Outcome(case, "fail", lost)
    if not compared:
        names = ", ".join(q.name for q in case.expected if q.role == "result")
        return Outcome(case, "error", f"returned nothing that can be compared; wanted {names}")
    return Outcome(case, "pass", units=worst)


def _judge_refusal(case: Case, got: Any, error: BaseException | None, dtype: str) -> Outcome:
    """A case that has no Gaussian for an answer: it must be refused, or seen to have lost positive definiteness."""
    if error is not None:
        return Outcome(case, "pass", f"refused: {type(error).__name__}: {error}")
    try:
        if got is None or _says_lost(got):
            return Outcome(case, "pass", "refused")
        values = answer(case, got, full=False)
        numbers = [np.asarray(v, dtype=float) for v in values.values()]
    except (TypeError, ValueError) as wrong:
        return Outcome(case, "error", str(wrong))
    if any(not np.all(np.isfinite(a)) for a in numbers):
        return Outcome(case, "pass", "refused: NaN")
    if case.result == "refuse":
        return Outcome(case, "fail", "returned a result for an input that must be refused: " + "; ".join(case.flags))
    if looks_gaussian(case, got):
        return Outcome(case, "fail", "returned a positive definite state where the equations lose positive definiteness: a silent repair")
    for q in case.expected:
        tolerance = q.tolerance[dtype]
        if q.name in values and tolerance is not None and (gap := compare(q, values[q.name], tolerance)) is not None:
            return Outcome(case, "fail", _in_words(gap), gap, (), gap.relative / gap.tolerance)
    return Outcome(case, "pass", "returned the values of the equations, which are not positive definite")


def _says_lost(got: Any) -> bool:
    """Whether the answer has ``"valid": False``."""
    return isinstance(got, Mapping) and got.get("valid") is not None and not np.all(number("valid", got["valid"]))


def looks_gaussian(case: Case, got: Any) -> bool:
    """Whether what was returned is a positive definite state."""
    last = got[-1] if isinstance(got, (list, tuple)) and case.level == "stream" else got
    return is_valid(vectors.state(family_of(case), {k: np.asarray(v, dtype=float) for k, v in last.items() if k != "valid"}))


def family_of(case: Case) -> str:
    return case.subject["family"] if "family" in case.subject else case.subject["method"].split("-")[-1]


# --- reading an answer ----------------------------------------------------------------------------------------------------------


def answer(case: Case, got: Any, full: bool = True) -> dict[str, Array]:
    """What an adapter returned, by the names of the quantities; a TypeError or ValueError says what is wrong with it."""
    if case.level == "stream":
        return _stream_answer(case, got, full)
    if not isinstance(got, Mapping):
        raise TypeError(f"returned {type(got).__name__}; wanted a dict with {_wanted_keys(case)}")
    if case.level == "estimate":
        return _estimate_answer(case, got)
    if case.level == "predictive":
        if "mean" not in got:
            raise ValueError(f"returned a dict with {', '.join(map(str, got))}; wanted 'mean'")
        return {q.name: number(q.name, got[q.name]) for q in case.expected if got.get(q.name) is not None}
    return _state_answer(case, got, full)


def _wanted_keys(case: Case) -> str:
    if case.level == "estimate":
        return "g and one of S, G, d"
    return ", ".join(q.name for q in case.expected if q.role == "result").replace("W W^T", "W") or "a state"


def _state_answer(case: Case, got: Mapping[str, Any], full: bool = True, prefix: str = "") -> dict[str, Array]:
    family = family_of(case)
    fields = vectors.STATES[family]._fields
    missing = [f for f in fields if f not in got]
    if missing:
        raise ValueError(f"{prefix}returned a dict with {', '.join(map(str, got)) or 'no keys'}; wanted {', '.join(fields)}")
    read = (*fields, *SEAM)  # whatever else is returned is the adapter's own affair
    value = {key: number(prefix + key, got[key]) for key in read if got.get(key) is not None}
    P = len(value["mu"]) if value["mu"].ndim == 1 else -1
    if full and "W" in value and (value["W"].ndim != 2 or len(value["W"]) != P):
        raise ValueError(f"{prefix}W has shape {value['W'].shape}; wanted ({P}, rank)")
    rank = case.input.get("params", {}).get("rank") or np.shape(case.input.get("state", {}).get("W", np.zeros((0, 0))))[-1]
    if full and "W" in value and rank and value["W"].shape[1] != rank:
        raise ValueError(f"{prefix}W has shape {value['W'].shape}; wanted ({P}, {rank})")
    return {**_seam(case, value), **(vectors.invariants(family, value) if value["mu"].ndim else value)}


def _seam(case: Case, value: dict[str, Array]) -> dict[str, Array]:
    """g and G of an update that returns them too; of several inner iterations it would not be clear which."""
    if case.level != "update" or case.input["params"].get("n_iter", 1) > 1:
        return {}
    seam: dict[str, Array] = {key: value[key] for key in ("g", "G", "diag G") if key in value}
    if "d" in value or "G" in value:
        seam["diag G"] = value["d"] if "d" in value else np.diag(value["G"]) if value["G"].ndim == 2 else value["G"]
    return seam


def _estimate_answer(case: Case, got: Mapping[str, Any]) -> dict[str, Array]:
    value = {key: number(key, got[key]) for key in ("g", "S", "G", "d") if got.get(key) is not None}
    if "g" not in value or len(value) == 1:
        raise ValueError(f"returned a dict with {', '.join(map(str, got)) or 'no keys'}; wanted g and one of S, G, d")
    P = len(case.input["theta"])
    shapes = {"g": (P,), "G": (P, P), "d": (P,)}
    for key, a in value.items():
        if (key == "S" and (a.ndim != 2 or len(a) != P)) or (key != "S" and a.shape != shapes[key]):
            raise ValueError(f"{key} has shape {a.shape}; wanted {f'({P}, any)' if key == 'S' else shapes[key]}")
    G = value.get("G", -(value["S"] @ value["S"].T) if "S" in value else None)
    out = {"g": value["g"]}
    if G is not None:
        out["G"] = G
    out["diag G"] = value["d"] if "d" in value else np.diag(out["G"])
    return out


def _stream_answer(case: Case, got: Any, full: bool) -> dict[str, Array]:
    T = len(case.input["X"])
    if isinstance(got, Mapping):
        return {f"state[{T}].{k}": v for k, v in _state_answer(case, got, full).items()}
    if not isinstance(got, (list, tuple)):
        raise TypeError(f"returned {type(got).__name__}; wanted the final state as a dict, or a list of the {T} states after each step")
    if len(got) != T:
        raise ValueError(f"returned {len(got)} states; wanted {T}, one after each step")
    out: dict[str, Array] = {}
    for t, one in enumerate(got, start=1):
        if not isinstance(one, Mapping):
            raise TypeError(f"state {t} is a {type(one).__name__}; wanted a dict")
        out |= {f"state[{t}].{k}": v for k, v in _state_answer(case, one, full, f"state[{t}].").items()}
    return out


def number(name: str, value: Any) -> Array:
    """What was returned as a float64 array."""
    try:
        if np.ma.is_masked(value):
            raise TypeError("some entries are masked")
        a = np.asarray(value)
        if a.dtype.kind in "USc":
            raise TypeError(f"an array of {a.dtype}")
        return a.astype(float) if a.dtype.kind in "biuf" else np.asarray(a.tolist(), dtype=float)
    except Exception as error:
        raise TypeError(f"{name} cannot be read as numbers ({type(value).__name__}: {error})") from None


# --- comparing ------------------------------------------------------------------------------------------------------------------


def units(q: Quantity, got: Array, tolerance: float) -> float:
    """The largest difference in units of the tolerance."""
    return float(np.max(np.abs(got - q.value), initial=0)) / q.scale / tolerance


def compare(q: Quantity, got: Array, tolerance: float) -> Gap | None:
    """None where the quantity agrees."""
    if got.shape != q.value.shape:
        return Gap(q.name, q.equation, math.inf, tolerance, got, q.value)
    if not np.all(np.isfinite(got)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(got))[0])
        return Gap(q.name, q.equation, math.inf, tolerance, got, q.value, where)
    gap = np.abs(got - q.value)
    relative = float(np.max(gap, initial=0)) / q.scale
    if relative <= tolerance:
        return None
    return Gap(q.name, q.equation, relative, tolerance, got, q.value, tuple(int(i) for i in np.unravel_index(np.argmax(gap), gap.shape)))


def _in_words(gap: Gap) -> str:
    got = np.asarray(gap.got)
    if got.shape != gap.wanted.shape:
        return f"{gap.quantity} has shape {got.shape}; wanted {gap.wanted.shape}"
    if not np.all(np.isfinite(got)):
        return f"{gap.quantity} holds {'NaN' if np.any(np.isnan(got)) else 'inf'} at {list(gap.where)}"
    if got.ndim == 2 and got.shape[0] == got.shape[1] and gap.quantity != "mean":
        skew = float(np.max(np.abs(got - got.T))) * gap.relative / max(float(np.max(np.abs(got - gap.wanted))), 1e-300)
        if skew > 2 * gap.tolerance:
            return f"{gap.quantity} is not symmetric: max|A - A^T| is {skew:.3g} of its size; {gap}"
    return str(gap)


def _diagnosis(adapter: Any, case: Case, values: dict[str, Array], dtype: str) -> tuple[Gap | None, tuple[str, ...]]:
    """An earlier quantity that differs, where the adapter's other calls show one, and the mistakes that reproduce the answer."""
    from .diagnosis import diagnose

    try:
        return diagnose(adapter, case, values, dtype)
    except Exception as error:  # the verdict does not depend on it
        return None, (f"no diagnosis: the search for it failed ({type(error).__name__}: {error})",)

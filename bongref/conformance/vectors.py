"""The vectors: what a case is, how it is read and written, and its plain data as bongref's objects.

A case is one call of an implementation, its arguments as plain numbers, and what the call must
return. The files are JSON under ``schema/bongref-vectors-2.json`` (files of version 1 are read
too); a float is written with the fewest digits that read back to the same bits.

>>> from bongref.conformance import vectors
>>> case = vectors.load(["L0"], ["bong-lin-hess-fc"])[0]
>>> case.id, [q.name for q in case.expected]
('step/bong-lin-hess-fc/plain', ['Sigma', 'mu'])
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import models
from ..dynamics import OU, Dynamics, Linear, Static
from ..errors import InvalidType, InvalidValue
from ..grid import NAMES, STATES
from ..likelihoods import Bernoulli, Categorical, Gaussian, Poisson
from ..linalg import Array
from ..states import State

SCHEMA = "bongref-vectors-2"
READABLE = ("bongref-vectors-1", SCHEMA)
FOLDER = Path(__file__).parent / "vectors"
SCHEMA_FILE = Path(__file__).parent / "schema" / f"{SCHEMA}.json"

LEVELS = {
    "L0": "step",
    "L1": "estimate",
    "L2": "update",
    "L3": "stream",
    "L4": "predictive",
    "predict": "predict",
    "draw": "draw",
}

# level -> the arguments of the call, in the order of the adapter's signature
CALLS = {
    "step": ("method", "prior", "current", "curv", "params"),
    "estimate": ("hess", "model", "likelihood", "theta", "x", "y", "samples"),
    "update": ("method", "model", "likelihood", "prior", "x", "y", "samples", "params"),
    "stream": ("method", "model", "likelihood", "prior", "X", "Y", "samples", "dynamics", "params"),
    "predictive": ("kind", "family", "model", "likelihood", "state", "X", "samples"),
    "predict": ("family", "state", "dynamics"),
    "draw": ("family", "state", "n", "seed", "normals"),
}

RESULTS = ("value", "refuse", "not positive definite")


class Quantity(NamedTuple):
    """One number, vector or matrix that a call must return, or an intermediate it may return."""

    name: str
    equation: str  # the paper's equation that defines it
    value: Array
    scale: float  # differences are relative to this: the largest entry, or of a 0 its terms
    cond: float  # relative change of this quantity over relative change of the inputs
    tolerance: dict[
        str, float | None
    ]  # dtype -> c · cond · eps(dtype); None where that dtype cannot hold the problem
    role: str = "result"  # "intermediate": compared if returned


class Case(NamedTuple):
    """One call and what it must return.

    Attributes
    ----------
    id : str
    level : str
        ``"step"`` (L0), ``"estimate"`` (L1) and so on.
    subject : dict
        The words of the call: method, or hess, or family and kind.
    flags : tuple of str
        The kinds of mistakes that it can catch.
    input : dict
        The arguments, as JSON has them.
    result : str
        ``"value"``, or how the call must be refused.
    expected : tuple of Quantity
        In the order of computation.

    Examples
    --------
    >>> from bongref import conformance
    >>> conformance.load(["L0"], ["bong-lin-hess-diag"])[0].level
    'step'
    """

    id: str
    level: str
    subject: dict[str, str]  # method, or hess, or family and kind: the words of the call
    flags: tuple[str, ...]
    input: dict[str, Any]
    result: str = "value"  # one of RESULTS
    expected: tuple[Quantity, ...] = ()  # in the order of computation

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of the call, with copies of the arrays."""
        whole = {**self.subject, **self.input}
        return {key: _copy(whole[key]) for key in CALLS[self.level]}

    @property
    def rule(self) -> str:
        """bong, blr, bog or bbb; empty for a case that is not of a method."""
        return self.subject.get("method", "").split("-")[0]

    @property
    def hess(self) -> str:
        """The estimator, e.g. "lin-hess"; empty for a case without one."""
        return self.subject.get("hess") or estimator_of(self.subject.get("method", ""))

    @property
    def family(self) -> str:
        """The variational family, e.g. "fc"; empty for a case without one."""
        return self.subject.get("family") or self.subject.get("method", "").split("-")[-1]

    @property
    def likelihood(self) -> str:
        """The kind of the likelihood; empty for a case without one."""
        return str(self.input["likelihood"]["kind"]) if "likelihood" in self.input else ""


def estimator_of(method: str) -> str:
    """The estimator in the name of a method."""
    return "-".join(method.split("-")[1:3])


def load(
    levels: Sequence[str] | None = None, methods: Sequence[str] | None = None, folder: Any = None
) -> list[Case]:
    """The cases of a selection, the shipped ones unless a folder is given.

    Parameters
    ----------
    levels : sequence of str, optional
        "L0" or "step" and so on; all without.
    methods : sequence of str, optional
        Names or globs; all without. Cases of an estimator or a family alone are selected where one
        of the methods uses it.
    folder : path, optional
        Other vectors than the shipped ones.

    Returns
    -------
    list of Case

    Raises
    ------
    InvalidValue, InvalidType
        If there is no such level.

    Examples
    --------
    >>> from bongref import conformance
    >>> len(conformance.load(["L0"])) > 400
    True
    """
    if methods is not None:
        _refuse_no_sequence("methods", methods)
    wanted = check_levels(levels)
    cases = [
        case for case in _all(Path(FOLDER if folder is None else folder)) if case.level in wanted
    ]
    if methods is None:
        return cases
    chosen = [name for name in NAMES if any(fnmatchcase(name, glob) for glob in methods)]
    return [case for case in cases if _concerns(case, chosen)]


def select(
    levels: Sequence[str] | None = None, methods: Sequence[str] | None = None, folder: Any = None
) -> list[Case]:
    """The cases of :func:`load`, of which there must be some."""
    check_methods(methods)
    cases = load(levels, methods, folder)
    if not cases:
        raise InvalidValue(f"methods and levels must select some case, got {methods} and {levels}")
    return cases


def words(given: list[str] | None) -> list[str] | None:
    """The words of an option that is given with commas, or several times, or not at all."""
    if given is None:
        return None
    return [word.strip() for one in given for word in one.split(",") if word.strip()]


def check_levels(levels: Sequence[str] | None) -> tuple[str, ...]:
    """The names of levels given as L0 … L4 or by name."""
    if levels is None:
        return tuple(LEVELS.values())
    _refuse_no_sequence("levels", levels)
    named = {**{k.lower(): v for k, v in LEVELS.items()}, **{v: v for v in LEVELS.values()}}
    for level in levels:
        if str(level).lower() not in named:
            known = f"{', '.join(LEVELS)} ({', '.join(LEVELS.values())})"
            raise InvalidValue(f"levels must be among {known}, got {level!r}")
    return tuple(named[str(level).lower()] for level in levels)


def _refuse_no_sequence(name: str, value: Any) -> None:
    ordered = isinstance(value, (list, tuple))
    if not ordered or not all(isinstance(one, str) for one in value):
        remedy = f"; use [{value!r}]" if isinstance(value, str) else ""
        raise InvalidType(f"{name} must be a sequence of str, got {value!r}{remedy}")


def check_methods(methods: Sequence[str] | None) -> None:
    """Refuse a glob that matches none of the 80 names."""
    if methods is None:
        return
    _refuse_no_sequence("methods", methods)
    for glob in methods:
        if not any(fnmatchcase(name, glob) for name in NAMES):
            raise InvalidValue(
                f"methods must match some of the 80 names of `bongref methods`, got {glob!r}"
            )


def _concerns(case: Case, chosen: Sequence[str]) -> bool:
    """Whether a case is of one of these methods, or of an estimator or family that one uses."""
    subject = case.subject
    for name in chosen:
        _, a, b, family = name.split("-")
        own = {"method": name, "hess": f"{a}-{b}", "family": family}
        if all(own.get(key, word) == word for key, word in subject.items()):
            return True
    return False


@lru_cache(maxsize=4)
def _all(folder: Path) -> tuple[Case, ...]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"no vectors in {folder}: `bongref vectors --out DIR` makes them")
    return tuple(case for file in files for case in read(file))


def read(file: Path) -> list[Case]:
    """The cases of one file.

    Raises
    ------
    InvalidValue
        If it is not a file of vectors.
    """
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        if data.get("schema") not in READABLE:
            known = " or ".join(READABLE)
            raise InvalidValue(f"{file}: schema must be {known}, got {data.get('schema')!r}")
        return [_case(data["level"], c) for c in data["cases"]]
    except (LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        said = f"{type(error).__name__}: {error}"[:200]
    except ValueError as error:
        if isinstance(error, InvalidValue):
            raise
        said = str(error)[:200]
    raise InvalidValue(f"{file} must be a file of vectors, got one that cannot be read ({said})")


def _case(level: str, c: dict[str, Any]) -> Case:
    """A case from its plain data, with every argument of its call."""
    subject: dict[str, str] = {
        key: c[key] for key in ("method", "hess", "kind", "family") if key in c
    }
    expected = tuple(
        Quantity(
            q["quantity"],
            q["equation"],
            np.array(q["value"], dtype=float),
            q["scale"],
            q["cond"],
            q["tolerance"],
            q.get("role", "result"),
        )
        for q in c["expected"]
    )
    case = Case(
        c["id"], level, subject, tuple(c["flags"]), _arrays(c["input"]), c["result"], expected
    )
    missing = [key for key in CALLS[level] if key not in case.subject and key not in case.input]
    if missing:
        raise KeyError(", ".join(missing))
    return case


def write(file: Path, level: str, cases: Sequence[Case], flags: dict[str, dict[str, str]]) -> None:
    """One file, one case a line, so that a changed case is a changed line."""
    used = sorted({flag for case in cases for flag in case.flags})
    head = json.dumps(
        {"schema": SCHEMA, "level": level, "flags": {f: flags[f] for f in used}},
        ensure_ascii=False,
        allow_nan=False,
    )
    lines = ",\n".join(
        json.dumps(plain(case), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        for case in cases
    )
    Path(file).write_text(f'{head[:-1]}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")


def plain(case: Case) -> dict[str, Any]:
    """A case as JSON has it."""
    expected = [
        {
            "quantity": q.name,
            "equation": q.equation,
            "value": _lists(q.value),
            "scale": q.scale,
            "cond": q.cond,
            "tolerance": q.tolerance,
            "role": q.role,
        }
        for q in case.expected
    ]
    body = {
        "flags": list(case.flags),
        "input": _lists(case.input),
        "result": case.result,
        "expected": expected,
    }
    return {"id": case.id, **case.subject, **body}


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(v) for key, v in value.items()}
    if isinstance(value, np.ndarray):
        return _short(value.tolist())
    if isinstance(value, list):
        return [_lists(v) for v in value]
    return value


def _short(value: Any) -> Any:
    """Whole numbers without a point, infinities as words: the same bits when read as floats."""
    if isinstance(value, list):
        return [_short(v) for v in value]
    if value in (np.inf, -np.inf):
        return "inf" if value > 0 else "-inf"
    return (
        int(value)
        if value == int(value) and abs(value) < 2**53 and not (value == 0 and np.signbit(value))
        else value
    )


WORDS = ("kind", "activation", "padding", "pool", "flatten", "name")
INTEGERS = (
    "sizes",
    "in_shape",
    "n_outputs",
    "layout",
    "features",
    "kernel",
    "hidden",
    "bias",
    "n_iter",
    "n_samples",
    "rank",
    "n",
    "seed",
)


def _arrays(value: Any) -> Any:
    """Nested lists of numbers as float64 arrays; words and whole numbers as they are."""
    if isinstance(value, dict):
        return {key: v if key in WORDS + INTEGERS else _arrays(v) for key, v in value.items()}
    if isinstance(value, list):
        if any(v is None for v in value) or len({np.shape(v) for v in value}) > 1:
            # missing observations, or mini-batches of unequal size
            return [None if v is None else np.array(v, dtype=float) for v in value]
        return np.array(value, dtype=float)
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_copy(v) for v in value]
    return value.copy() if isinstance(value, np.ndarray) else value


# --- plain data as objects ------------------------------------------------------------------------


def model_spec(model: models.ParametricModel) -> dict[str, Any]:
    """The plain description of a built-in model."""
    return {"kind": model.kind, **model.spec}


def model(spec: dict[str, Any]) -> models.ParametricModel:
    """The model of a plain description."""
    kind = spec["kind"]
    if kind == "linear":
        n_in, n_out = spec["sizes"]
        return models.linear(n_in, n_out, bias=spec["bias"])
    if kind == "mlp":
        return models.mlp(spec["sizes"], spec["activation"])
    if kind == "cnn":
        return models.cnn(
            spec["in_shape"],
            spec["n_outputs"],
            spec["features"],
            spec["kernel"],
            spec["hidden"],
            spec["activation"],
        )
    raise InvalidValue(f"model['kind'] must be linear, mlp or cnn, got {kind!r}")


def likelihood(spec: dict[str, Any]) -> Any:
    """The likelihood of a plain description."""
    kind = spec["kind"]
    if kind == "gaussian":
        return Gaussian(spec["R"])
    plain_kinds = {"bernoulli": Bernoulli, "categorical": Categorical, "poisson": Poisson}
    if kind not in plain_kinds:
        raise InvalidValue(
            f"likelihood['kind'] must be gaussian, bernoulli, categorical or poisson, got {kind!r}"
        )
    return plain_kinds[kind]()


def dynamics(spec: dict[str, Any]) -> Dynamics:
    """The dynamics of a plain description."""
    kind = spec["kind"]
    if kind == "static":
        return Static()
    if kind == "ou":
        return OU(spec["gamma"], spec["mu0"], spec["var0"])
    if kind == "linear":
        return Linear(spec["F"], spec["b"], spec["Q"])
    raise InvalidValue(f"dynamics['kind'] must be static, ou or linear, got {kind!r}")


def state(family: str, value: dict[str, Any]) -> State:
    """The state of a dict in a family."""
    kind = STATES[family]
    new: State = kind(*(value[field] for field in kind._fields))
    return new


def invariants(family: str, value: dict[str, Any]) -> dict[str, Array]:
    """What is compared of a state: its arrays, W as W Wᵀ."""
    if family != "dlr":
        return {field: value[field] for field in STATES[family]._fields}
    return {"mu": value["mu"], "Ups": value["Ups"], "W W^T": value["W"] @ value["W"].T}

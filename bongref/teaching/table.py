"""What an exercise is: a function to write, the right form, wrong forms with words, and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..conformance import vectors
from ..linalg import Array
from ..routes.compare import EPS

Form = Callable[..., Any]

#: exercises draw well-conditioned inputs (condition numbers below 1,000), and a right solution may
#: solve or invert: 1,000 · cond · eps
TOLERANCE = 1000 * 1000 * EPS


class Exercise(NamedTuple):
    """One function to write.

    Attributes
    ----------
    name : str
    points : int
    task : str
        The docstring of the stub in the student's file.
    arguments : tuple of str
    returns : tuple of str
        The names of what is returned, in order.
    right : callable or None
        The right form; None where the conformance kit has the values.
    draw : callable or None
        Arguments from a random generator; None with the kit.
    wrong : mapping of str to callable
        Words for a mistake -> the function with this mistake.
    method : str
        For a step: the method whose cases of the conformance kit are the test.
    """

    name: str
    points: int
    task: str
    arguments: tuple[str, ...]
    returns: tuple[str, ...]
    right: Form | None = None
    draw: Callable[[np.random.Generator], tuple[Any, ...]] | None = None
    wrong: Mapping[str, Form] = {}
    method: str = ""


class Trial(NamedTuple):
    """One call of a student's function, and what it must return."""

    arguments: tuple[Any, ...]
    right: tuple[Array, ...]
    scales: tuple[float, ...]
    tolerances: tuple[float, ...]
    case: vectors.Case | None = None  # of the kit


def arrays(value: Any) -> tuple[Array, ...]:
    """What a function returned as a tuple of arrays."""
    many = isinstance(value, tuple)
    return tuple(np.asarray(v, dtype=float) for v in (value if many else (value,)))


def trials(exercise: Exercise, n: int = 4, seed: int = 0) -> list[Trial]:
    """The calls with which an exercise is graded."""
    if exercise.method:
        cases = vectors.load(["L0"], [exercise.method])
        return [_of_case(exercise, c) for c in cases if c.result == "value"]
    assert exercise.right is not None and exercise.draw is not None
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        arguments = exercise.draw(rng)
        right = arrays(exercise.right(*arguments))
        scales = tuple(max(float(np.max(np.abs(r), initial=0)), 1e-300) for r in right)
        out.append(Trial(arguments, right, scales, (TOLERANCE,) * len(right)))
    return out


def _of_case(exercise: Exercise, case: vectors.Case) -> Trial:
    """A case of the kit as a call of the student's function."""
    given = {**case.input["prior"], **case.input["curv"], **case.input["params"]}
    if case.input.get("current"):
        given |= {f"{k}_i": v for k, v in case.input["current"].items()}
    expected = {q.name: q for q in case.expected}
    chosen = [expected[name] for name in exercise.returns]
    tolerances = tuple(max(float(q.tolerance["float64"] or 0), 64 * EPS) for q in chosen)
    return Trial(
        tuple(given[a] for a in exercise.arguments),
        tuple(q.value for q in chosen),
        tuple(q.scale for q in chosen),
        tolerances,
        case,
    )


# --- inputs ---------------------------------------------------------------------------------------


def covariance(rng: np.random.Generator, P: int, low: float = 0.5, high: float = 3.0) -> Array:
    """A covariance with eigenvalues in a stated range."""
    Q, _ = np.linalg.qr(rng.standard_normal((P, P)))
    A = (Q * rng.uniform(low, high, P)) @ Q.T
    Sigma: Array = (A + A.T) / 2
    return Sigma

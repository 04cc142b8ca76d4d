"""Specifications of runs: task × method × parameters × seed, their ids, and the grid of them.

A :class:`Spec` is plain data, so that it can be sent to a worker and hashed. Its id is a hash of
all that decides the result; where the data lie and how a run is reported are not part of it.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from .. import checks
from .._version import __version__
from ..errors import InvalidValue
from ..grid import NAMES, NOT_DERIVED, PARAMETERS, method
from ..theory.aliases import ALIASES
from . import records

Facts = dict[str, Any]
SETTINGS = ("prior_var", "obs_var", "gamma", "w0")  # besides the methods' own parameters
W0 = ("random", "zero")  # the first is the default and is not written into the settings


class Source(NamedTuple):
    """Where a task comes from: enough for any process to make it again."""

    name: str  # of a built-in task, or the path of a file
    params: dict[str, Any]  # of the task, e.g. {"target": "y"}
    part: str = "test"  # what is predicted: the test part, or "valid", a part of the training rows
    data: str | None = None  # the folder of the data sets


class Spec(NamedTuple):
    """One run.

    Attributes
    ----------
    source : Source
        How to make the task.
    task : dict
        The facts of the task: sizes, split, standardisation, observation variance, checksum, ...
    method : str
    params : dict
        All parameters of the method.
    settings : dict
        steps, prior_var, obs_var (None: the task's), gamma (None: θ does not move), metrics
        {name: steps}, eval_samples; ``w0: "zero"`` where bog and bbb in DLR start at W = 0.
    seed : int
    adapter : str or None
        "module:Class" of a foreign implementation.
    versions : dict
    """

    source: Source
    task: Facts
    method: str
    params: dict[str, Any]
    settings: dict[str, Any]
    seed: int
    adapter: str | None
    versions: dict[str, str | None]

    @property
    def key(self) -> str:
        """The hash of all that defines the run but the versions."""
        return records.fingerprint(self._identity())

    @property
    def id(self) -> str:
        """The hash of all that decides the result."""
        return records.fingerprint({**self._identity(), "versions": self.versions})

    def _identity(self) -> dict[str, Any]:
        names = ("task", "method", "params", "settings", "seed", "adapter")
        return {name: getattr(self, name) for name in names}

    def described(self) -> dict[str, Any]:
        """The part of a record that is known before the run."""
        return {
            "id": self.id,
            "key": self.key,
            **self._identity(),
            "versions": self.versions,
            "command": command(self),
        }


def versions(adapter: str | None = None) -> dict[str, str | None]:
    """The versions that a result depends on; of an adapter its name and a hash of its source."""
    found: dict[str, str | None] = {"bongref": __version__}
    found["python"] = ".".join(platform.python_version_tuple()[:2])
    for name in ("numpy", "scipy", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    if adapter is not None:
        from ..conformance import load_adapter

        made = load_adapter(adapter)
        with contextlib.suppress(TypeError, OSError):
            text = inspect.getsource(inspect.getmodule(type(made)) or type(made))
            found["adapter"] = f"{made.name} {records.fingerprint(text)}"
    return found


# --- the grid -------------------------------------------------------------------------------------


def method_names(globs: str) -> list[str]:
    """The methods that comma-separated globs name, in the order of the globs.

    >>> method_names("bong-lin-*-diag,lo-fi")
    ['bong-lin-hess-diag', 'bong-lin-ef-diag', 'bong-lin-hess-dlr']

    Raises
    ------
    InvalidValue
        If a glob names none, or only methods that the paper does not derive.
    """
    found: list[str] = []
    for glob in (word.strip().lower() for word in globs.split(",")):
        glob = ALIASES[glob].method if glob in ALIASES else glob
        matching = [name for name in NAMES if fnmatchcase(name, glob)]
        if not matching:
            near = checks.near_miss(glob, NAMES)
            raise InvalidValue(
                f"methods must be names or globs such as 'bong-*,blr-lin-*-dlr', got {glob!r}"
                f"{near}; bongref methods lists all 80"
            )
        derived = [name for name in matching if name not in NOT_DERIVED]
        if not derived:
            raise InvalidValue(f"methods: {NOT_DERIVED[matching[0]]}")
        found += [name for name in derived if name not in found]
    return found


def parameter_sets(name: str, grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of the values in ``grid`` that the method takes, defaults filled in.

    >>> grid = {"alpha": [0.1, 1.0], "rank": [5]}
    >>> [p["alpha"] for p in parameter_sets("blr-lin-hess-diag", grid)]
    [0.1, 1.0]
    """
    taken = [key for key, (globs, _) in PARAMETERS.items() if key in grid and _takes(name, globs)]
    values = itertools.product(*(grid[key] for key in taken))
    sets = [dict(method(name, **dict(zip(taken, v, strict=True))).params) for v in values]
    return [p for i, p in enumerate(sets) if p not in sets[:i]]


def _takes(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def check_grid(names: Sequence[str], grid: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a parameter that none of the methods takes.

    Raises
    ------
    InvalidValue
        Which says the methods that take it.
    """
    for key in grid:
        globs = PARAMETERS[key][0]
        if not any(_takes(name, globs) for name in names):
            raise InvalidValue(
                f"{key} is a parameter of {', '.join(globs)}, and none of the methods is one of "
                f"them: {', '.join(names[:4])}{', ...' if names[4:] else ''}"
            )


def matrix(
    source: Source,
    task: Facts,
    names: Sequence[str],
    grid: Mapping[str, Sequence[Any]],
    settings: Sequence[dict[str, Any]],
    seeds: Sequence[int],
    adapter: str | None = None,
) -> list[Spec]:
    """All runs of a grid, seed by seed, so that every method has its first row early."""
    check_grid(names, grid)
    now = versions(adapter)
    return [
        Spec(source, task, name, params, how, seed, adapter, now)
        for seed in seeds
        for name in names
        for params in parameter_sets(name, grid)
        for how in _settings_of(name, settings)
    ]


def starts_at_random(name: str) -> bool:
    """Whether the prior of a method has a random W, so that ``w0`` is a setting of it.

    >>> starts_at_random("bog-lin-hess-dlr"), starts_at_random("bong-lin-hess-dlr")
    (True, False)
    """
    return fnmatchcase(name, "b[ob][gb]-*-dlr")


def _settings_of(name: str, settings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings that differ for a method: ``w0`` only where it is not the default and acts."""
    found: list[dict[str, Any]] = []
    for how in settings:
        keep = starts_at_random(name) and how.get("w0", W0[0]) != W0[0]
        own = {k: v for k, v in how.items() if k != "w0" or keep}
        found += [own] if own not in found else []
    return found


# --- the command of one run -----------------------------------------------------------------------


def command(spec: Spec) -> str:
    """The shell command that computes this run alone, into a folder named by its id."""
    s, words = spec.settings, ["bongref", "run", spec.source.name]
    if spec.source.data:
        words += ["--data", spec.source.data]
    for key, value in spec.source.params.items():
        words += [f"--{key}", str(value)] if key == "target" else ["--set", f"{key}={value}"]
    if spec.source.part != "test":
        words += ["--part", spec.source.part]
    words += ["--methods", spec.method]
    for key, value in spec.params.items():
        if value is not None and value is not False:
            words += [f"--{key.replace('_', '-')}", _text(value)]
    for key in SETTINGS:
        if s.get(key) is not None:
            words += [f"--{key.replace('_', '-')}", _text(s[key])]
    words += ["--steps", str(s["steps"]), "--eval-samples", str(s["eval_samples"])]
    schedules: dict[str, list[str]] = {}
    for name, steps in s["metrics"].items():
        schedules.setdefault(",".join(map(str, steps)), []).append(name)
    first = max(schedules, key=lambda at: len(schedules[at]))
    words += ["--metrics", ",".join(schedules.pop(first)), "--at", first]
    for at, names in schedules.items():
        words += [word for name in names for word in ("--metric", f"{name}@{at}")]
    if spec.adapter:
        words += ["--adapter", spec.adapter]
    words += ["--seed", str(spec.seed), "--out", f"run-{spec.id}"]
    return shlex.join(words)


def _text(value: Any) -> str:
    return "true" if value is True else repr(value) if isinstance(value, float) else str(value)

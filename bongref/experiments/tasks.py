"""Tasks: data with their split, standardisation, observation variance, model and prior.

>>> task = load("moons", {"n": 100, "n_test": 50})
>>> task.facts["kind"], task.X.shape, task.X_test.shape, task.facts["model"]["sizes"]
('binary', (100, 2), (50, 2), [2, 16, 16, 1])

``load`` takes the name of a built-in task (:data:`NAMES`) or the path of a CSV, Parquet or npz
file.
All that it decides is in ``task.facts`` and goes into every result. Means and standard deviations
for the standardisation come from the training part alone. With ``part="valid"`` the test part is
left alone: the last fifth of the training rows (after shuffling where order has no meaning) takes
its place, for tuning.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from typing import Any, NamedTuple

import numpy as np

from .. import checks, likelihoods, models
from ..errors import InvalidValue
from ..guide import defaults
from ..linalg import Array, lstsq
from .data import files, published
from .data.generated import GENERATORS
from .data.raw import BINARY, CLASSES, REGRESSION, Raw, check_params
from .specs import Facts, Source
from .threads import one_thread

PARTS = ("test", "valid")
VALID = 0.2  # share of the training rows that "valid" holds out
TINY = 1e-150  # numbers whose squares vanish in float64
SMALLEST_NOISE = 0.01  # of the variance of y: the least observation variance that is estimated
NAMES = (*GENERATORS, *published.NAMES)


class Task(NamedTuple):
    """A stream and the rows that it is tested on.

    Attributes
    ----------
    X, Y : ndarray, shapes (N, ...) and (N,)
        The training rows in the order of the data; X in units of ``facts["unit"]``.
    X_test, Y_test : ndarray
    facts : dict
        Everything that was decided, in plain data.
    source : Source
        How to make it again.
    """

    X: Array
    Y: Array
    X_test: Array
    Y_test: Array
    facts: Facts
    source: Source

    def model(self) -> models.ParametricModel:
        """The model of the task."""
        return model_of(self.facts["model"])

    def likelihood(self, obs_var: float | None = None) -> likelihoods.Likelihood:
        """The likelihood; ``obs_var`` in place of the task's observation variance."""
        if self.facts["kind"] == REGRESSION:
            return likelihoods.Gaussian(self.facts["obs_var"] if obs_var is None else obs_var)
        return (
            likelihoods.Bernoulli() if self.facts["kind"] == BINARY else likelihoods.Categorical()
        )

    def prior_variances(self, var: float | None = None) -> Array:
        """The prior variance of every parameter, (P,)."""
        model = self.model()
        var = self.facts["prior_var"] if var is None else var
        if self.facts["prior"] == "fan-in":
            return float(var) * defaults.fan_in(model)
        return np.full(model.n_params, float(var))

    def stream(self, seed: int, steps: int | None = None) -> tuple[Array, Array]:
        """The first ``steps`` training rows in the order of a seed."""
        order = np.arange(len(self.X))
        if self.facts["order"] == "shuffled":
            order = np.random.default_rng([seed, 1]).permutation(len(self.X))
        return self.X[order[:steps]] * self.facts["unit"], self.Y[order[:steps]]


def load(
    name: str,
    params: dict[str, Any] | None = None,
    part: str = "test",
    data: str | os.PathLike[str] | None = None,
) -> Task:
    """A task by its name, or from a file of the user's.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`, or the path of a .csv, .parquet or .npz file.
    params : dict, optional
        Parameters of the task: those of its generator and ``data_seed``; for a file ``target``,
        ``order`` ("shuffled" or "given"), ``test`` (share or number of rows), ``split_seed``; for
        all ``hidden``, ``obs_var``, ``prior``, ``prior_var`` where they apply.
    part : {"test", "valid"}
        What is predicted.
    data : path, optional
        The folder of the data sets; by default the environment variable BONGREF_DATA.

    Returns
    -------
    Task

    Raises
    ------
    InvalidValue
        If there is no such task, parameter or column, or the data cannot be used.

    Examples
    --------
    >>> load("linear", {"n": 50}).facts["obs_var"]
    0.25
    """
    checks.choice("part", part, PARTS)
    params = dict(params or {})
    folder = os.fspath(data) if data is not None else None
    common = {key: params.pop(key) for key in COMMON if key in params}
    split = {key: params.pop(key, value) for key, value in SPLIT.items()}
    with one_thread():  # the last bits of a product depend on the number of threads
        return _loaded(name, params, common, split, part, folder)


def _loaded(
    name: str,
    params: dict[str, Any],
    common: dict[str, Any],
    split: dict[str, Any],
    part: str,
    folder: str | None,
) -> Task:
    raw = _raw(name, params, folder)
    given = {**params, **common, **{k: v for k, v in split.items() if v != SPLIT[k]}}
    return _prepared(_with(raw, common), Source(name, given, part, folder), split)


COMMON = ("obs_var", "prior", "prior_var", "order")  # may replace what the task itself says
SPLIT: dict[str, Any] = {"test": 0.2, "split_seed": 0, "max_test": None}


def _raw(name: str, params: dict[str, Any], folder: str | None) -> Raw:
    if name in GENERATORS:
        seed = checks.integer("data_seed", params.get("data_seed", 0), 0)
        rest = {key: value for key, value in params.items() if key != "data_seed"}
        make = GENERATORS[name]
        known = [*list(inspect.signature(make).parameters)[1:], "data_seed", *COMMON, "max_test"]
        check_params(name, rest, known)
        _check_sizes(rest)
        return make(np.random.default_rng(seed), **rest)
    if name in published.NAMES:
        return published.load(name, params, folder)
    if files.is_file(name):
        return files.load(name, params)
    near = checks.near_miss(name, NAMES)
    raise InvalidValue(
        f"task must be one of {', '.join(NAMES)}, or a file that ends in "
        f"{', '.join(files.ENDINGS)}, got {name!r}{near}"
    )


def _check_sizes(params: dict[str, Any]) -> None:
    for key, value in params.items():
        if key in ("n", "n_test", "dim", "width", "hidden"):
            checks.integer(key, value, 1)
        elif not checks.scalar(key, value) >= 0:
            raise InvalidValue(f"{key} must be >= 0, got {value!r}")


def _with(raw: Raw, common: dict[str, Any]) -> Raw:
    for key in ("obs_var", "prior_var"):
        if key in common and not checks.scalar(key, common[key]) > 0:
            raise InvalidValue(f"{key} must be > 0, got {common[key]!r}")
    checks.choice("prior", common.get("prior", "equal"), ("equal", "fan-in"))
    checks.choice("order", common.get("order", "given"), ("given", "shuffled"))
    return raw._replace(**common)


# --- split and standardisation --------------------------------------------------------------------


def _prepared(raw: Raw, source: Source, split: dict[str, Any]) -> Task:
    test, how = _test_rows(raw, split)
    train = np.flatnonzero(~test)
    rest = np.flatnonzero(test)
    if source.part == "valid":
        shuffled = raw.order == "shuffled"
        order = np.random.default_rng([split["split_seed"], 2]).permutation(len(train))
        train = train[order] if shuffled else train
        n = max(1, round(VALID * len(train)))
        train, rest = np.sort(train[:-n]), np.sort(train[-n:])
        how = {**how, "valid": VALID}
    if split["max_test"] is not None:
        rest = rest[: checks.integer("max_test", split["max_test"], 1)]
    if len(train) < 2 or len(rest) < 1:
        raise InvalidValue(
            f"{source.name} must have at least 2 training rows and 1 test row, got {len(train)} "
            f"and {len(rest)}"
        )
    X, X_test, Y, Y_test = raw.X[train], raw.X[rest], raw.Y[train], raw.Y[rest]
    check_target(raw, Y, source.name)
    X, X_test, Y, Y_test, scales = _standardised(raw, X, X_test * raw.unit, Y, Y_test)
    obs_var = raw.obs_var
    if raw.kind == REGRESSION and obs_var is None:
        obs_var = noise_variance(X, Y)
    if raw.kind == REGRESSION and not (obs_var is not None and obs_var > 0):
        raise InvalidValue(
            f"obs_var must be > 0, and {source.name} has {obs_var}; use --set obs_var=0.01"
        )
    arrays = (X, Y, X_test, Y_test)
    facts = {
        "name": os.path.basename(source.name),
        "params": source.params,
        "part": source.part,
        "kind": raw.kind,
        "n_train": len(X),
        "n_test": len(X_test),
        "n_inputs": int(np.prod(X.shape[1:])),
        "n_outputs": max(len(raw.classes), int(Y.max()) + 1) if raw.kind == CLASSES else 1,
        "classes": list(raw.classes),
        "model": raw.model,
        "obs_var": obs_var if raw.kind == REGRESSION else None,
        "prior": raw.prior,
        "prior_var": float(raw.prior_var),
        "order": raw.order,
        "split": how,
        "standardisation": scales,
        "checksum": checksum(arrays),
        "unit": raw.unit,
        **{key: value for key, value in raw.about.items() if key != "split"},
    }
    return Task(*arrays, facts, source)


def _test_rows(raw: Raw, split: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
    """The mask of the test rows, and how they were chosen."""
    if raw.test is not None:
        return raw.test, {"test": raw.about.get("split", "of the task")}
    N = len(raw.X)
    share = checks.scalar("test", split["test"])
    n = max(1, round(share * N)) if 0 < share < 1 else round(share)
    if not 0 < n < N or (share > 1 and n != share):
        raise InvalidValue(
            f"test must be a share in (0, 1) or a number of rows below {N}, got {split['test']!r}"
        )
    if raw.order == "given":
        return np.arange(N) >= N - n, {"test": f"the last {n} rows"}
    seed = checks.integer("split_seed", split["split_seed"], 0)
    chosen = np.random.default_rng([seed, 0]).permutation(N)[:n]
    return np.isin(np.arange(N), chosen), {"test": f"{n} random rows", "split_seed": seed}


def check_target(raw: Raw, Y: Array, name: str) -> None:
    """Refuse a training part from which nothing can be learned.

    Raises
    ------
    InvalidValue
        If the target is constant.
    """
    if np.all(Y == Y[0]):
        what = "value" if raw.kind == REGRESSION else "class"
        value = raw.classes[int(Y[0])] if raw.classes else f"{Y[0]:g}"
        raise InvalidValue(
            f"target must vary, and all {len(Y)} training rows of {name} have the same {what} "
            f"({value}); check the column that --target names"
        )


def _standardised(
    raw: Raw, X: Array, X_test: Array, Y: Array, Y_test: Array
) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
    """The parts in units of the training part, and the units."""
    if not raw.scaled:
        return X, X_test, Y, Y_test, {"X": None, "Y": None}
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std, largest = X.mean(axis=0), X.std(axis=0), np.abs(X).max(axis=0)
    _check_scale("an input", std, largest, raw)
    std = np.where(std > 1e-12 * largest, std, 1.0)  # 1 for a constant, up to rounding
    X, X_test = (X - mean) / std, (X_test - mean) / std
    scales: dict[str, Any] = {"X": "mean and standard deviation of the training part", "Y": None}
    if raw.kind == REGRESSION:
        with np.errstate(over="ignore", invalid="ignore"):
            m, s = float(Y.mean()), float(Y.std())
        _check_scale("the target", np.array([s]), np.abs(Y).max(), raw)
        Y, Y_test, scales["Y"] = (Y - m) / s, (Y_test - m) / s, {"mean": m, "std": s}
    return X, X_test, Y, Y_test, scales


def _check_scale(what: str, std: Array, largest: Array, raw: Raw) -> None:
    """Refuse numbers whose squares overflow or vanish in float64."""
    bad = ~np.isfinite(std) | ((largest > 0) & (largest < TINY))
    if np.any(bad):
        names = raw.about.get("features", []) if what == "an input" else []
        where = f" ({names[int(np.argmax(bad))]})" if names else ""
        raise InvalidValue(
            f"{what} must have squares within the range of float64, got numbers up to "
            f"{np.max(largest[bad] if np.ndim(largest) else largest):.3g}{where}; use other units"
        )


def noise_variance(X: Array, Y: Array, most: int = 2000) -> float:
    """An observation variance from the training part: a rough upper estimate of the noise.

    The smaller of two: the residual variance of a linear regression, and half the mean squared
    difference between each observation and that of its nearest neighbour in x (of the first
    ``most`` rows). At least 1 % of the variance of Y.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (1000, 1))
    >>> Y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(1000)
    >>> 0.06 < noise_variance(X, Y) < 0.12
    True
    """
    from scipy.spatial import cKDTree

    X, Y = X.reshape(len(X), -1)[:most], Y[:most]
    design = np.c_[X, np.ones(len(X))]
    residual = Y - design @ lstsq(design, Y)
    linear = float(residual @ residual) / max(1, len(Y) - design.shape[1])
    linear = linear if len(Y) > design.shape[1] else float(Y.var())
    nearest = cKDTree(X).query(X, k=2)[1][:, 1]
    near = float(np.mean((Y - Y[nearest]) ** 2)) / 2
    return max(min(linear, near), SMALLEST_NOISE * float(Y.var()))


def checksum(arrays: tuple[Array, ...]) -> str:
    """The SHA-256 of the numbers and shapes of arrays."""
    total = hashlib.sha256()
    for a in arrays:
        total.update(str(a.shape).encode())
        kind = "u1" if a.dtype == np.uint8 else "<f8"
        total.update(np.ascontiguousarray(a, dtype=kind).data)
    return total.hexdigest()


def model_of(spec: dict[str, Any]) -> models.ParametricModel:
    """The model of a plain description.

    >>> model_of({"kind": "mlp", "sizes": [2, 3, 1], "activation": "tanh"}).n_params
    13
    """
    rest = {key: value for key, value in spec.items() if key != "kind"}
    if spec["kind"] == "linear":
        n_in, n_out = rest["sizes"]
        return models.linear(n_in, n_out, bias=rest["bias"])
    return models.mlp(**rest) if spec["kind"] == "mlp" else models.cnn(**rest)

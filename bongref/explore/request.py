"""What the explorer may be asked: a request from the page, checked and with its defaults.

A request that is refused raises :class:`Refused`, which names the argument, its value, what is
allowed and the remedy; :func:`bongref.explore.respond` returns that as data.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import likelihoods
from ..gaussians import normals
from ..grid import FAMILIES, HESSIANS, RULES
from ..likelihoods import Likelihood
from ..linalg import Array

MODELS = ("logistic", "linear", "poisson")
TRUTH = {"logistic": (0.5, 1.5), "linear": (0.5, 1.0), "poisson": (0.3, 0.6)}
LONGEST = 50  # observations of a stream
SIZE = 1e3  # the largest number of a prior or an observation y
INPUT = 10.0  # the largest entry of x; the page has them in -4 ... 4
ALPHA, N_ITER, N_SAMPLES, RANK = 0.5, 10, 10, 1  # defaults
I_MAX, M_MAX, DRAWS = 50, 200, 1000  # the most iterations, samples, and their product
KEYS = ("model", "noise", "prior", "stream", "t", "methods", "seed", "guess", "view")
METHOD_KEYS = ("rule", "hess", "family", "alpha", "n_iter", "n_samples", "rank")


class Refused(Exception):
    """A request with an argument that is not allowed."""

    def __init__(self, argument: str, value: Any, allowed: str, remedy: str) -> None:
        super().__init__(argument)
        self.data = {
            "argument": argument,
            "value": _short(value),
            "allowed": allowed,
            "remedy": remedy,
            "message": f"{argument} must be {allowed}, got {_short(value)}; {remedy}",
        }


class Choice(NamedTuple):
    """A method that was chosen, with the parameters that it takes."""

    name: str
    params: dict[str, Any]


class Gaussian(NamedTuple):
    """Mean (2,) and covariance (2, 2)."""

    mean: Array
    cov: Array


class Request(NamedTuple):
    """A checked request."""

    model: str
    noise: float
    prior: Gaussian
    x: Array  # (n, 2)
    y: Array  # (n,)
    t: int
    methods: tuple[Choice, ...]
    seed: int
    guess: Gaussian | None
    view: tuple[float, float, float, float]

    @property
    def lik(self) -> Likelihood:
        """The likelihood of the model."""
        return likelihood(self.model, self.noise)


def likelihood(model: str, noise: float) -> Likelihood:
    """The likelihood of a model by its name; ``noise`` is the variance of y for "linear"."""
    if model == "linear":
        return likelihoods.Gaussian(var=noise)
    return likelihoods.Bernoulli() if model == "logistic" else likelihoods.Poisson()


def checked(request: Any) -> Request:
    """The request with its defaults; :class:`Refused` if anything in it is not allowed."""
    if not isinstance(request, dict):
        raise Refused("request", request, "an object", "send a JSON object")
    _known("request", request, KEYS)
    model = _choice("model", request.get("model", "logistic"), MODELS)
    noise = _number("noise", request.get("noise", 0.25), 1e-4, 1e4)
    prior = _gaussian("prior", request.get("prior", {}))
    seed = _integer("seed", request.get("seed", 0), 0, 2**31 - 1)
    x, y = _stream(request.get("stream", {}), model, noise)
    methods = request.get("methods", [{}])
    if not isinstance(methods, list) or not 1 <= len(methods) <= 2:
        raise Refused("methods", methods, "a list of one or two methods", "send one or two")
    guess = request.get("guess")
    return Request(
        model,
        noise,
        prior,
        x,
        y,
        _integer("t", request.get("t", 0), 0, len(y)),
        tuple(_method(f"methods[{i}]", m) for i, m in enumerate(methods)),
        seed,
        None if guess is None else _gaussian("guess", guess),
        _view(request.get("view"), prior),
    )


# --- the parts ------------------------------------------------------------------------------------


def _method(name: str, value: Any) -> Choice:
    """The name of a method and those of its parameters that act; the others are left out."""
    _object(name, value, METHOD_KEYS)
    rule = _choice(f"{name}.rule", value.get("rule", "bong"), RULES)
    hess = _choice(f"{name}.hess", value.get("hess", "lin-hess"), HESSIANS)
    family = _choice(f"{name}.family", value.get("family", "fc"), FAMILIES)
    most = 1.0 if rule == "blr" else 10.0
    given = {
        "alpha": _number(f"{name}.alpha", value.get("alpha", ALPHA), 1e-6, most),
        "n_iter": _integer(f"{name}.n_iter", value.get("n_iter", N_ITER), 1, I_MAX),
        "n_samples": _integer(f"{name}.n_samples", value.get("n_samples", N_SAMPLES), 1, M_MAX),
        "rank": _integer(f"{name}.rank", value.get("rank", RANK), 1, 2),
    }
    taken = {
        "alpha": rule != "bong",
        "n_iter": rule in ("blr", "bbb"),
        "n_samples": hess.startswith("mc"),
        "rank": family == "dlr",
    }
    params = {k: v for k, v in given.items() if taken[k]}
    if params.get("n_iter", 1) * params.get("n_samples", 1) > DRAWS:
        raise Refused(
            f"{name}.n_samples",
            params["n_samples"],
            f"such that n_iter * n_samples is at most {DRAWS}",
            "take fewer samples or fewer iterations",
        )
    return Choice(f"{rule}-{hess}-{family}", params)


def _gaussian(name: str, value: Any) -> Gaussian:
    _object(name, value, ("mean", "cov"))
    mean = _numbers(f"{name}.mean", value.get("mean", [0.0, 0.0]), 2)
    rows = value.get("cov", [[1.0, 0.0], [0.0, 1.0]])
    allowed = "a symmetric positive definite matrix [[a, b], [b, c]]"
    if not isinstance(rows, list) or len(rows) != 2:
        raise Refused(f"{name}.cov", rows, allowed, "send two rows of two numbers")
    cov = np.array([_numbers(f"{name}.cov[{i}]", row, 2) for i, row in enumerate(rows)])
    (a, b), (b2, c) = cov.tolist()
    if abs(b - b2) > 1e-9 * max(abs(b), abs(b2)) or not (a > 1e-8 and c > 1e-8):
        raise Refused(f"{name}.cov", rows, allowed, "make a and c > 1e-8, and both b the same")
    if not b * b < (1 - 1e-9) * a * c:
        raise Refused(f"{name}.cov", rows, allowed, "make b^2 smaller than a c")
    return Gaussian(np.array(mean), np.array([[a, b], [b, c]]))


def _stream(value: Any, model: str, noise: float) -> tuple[Array, Array]:
    """The observations that are given, or n of them drawn from the model with a seed."""
    _object("stream", value, ("x", "y", "seed", "n"))
    if "x" in value or "y" in value:
        if "seed" in value or "n" in value:
            raise Refused("stream", sorted(value), "x and y, or seed and n", "send one of the two")
        return _given(value.get("x"), value.get("y"), model)
    rng = np.random.default_rng(_integer("stream.seed", value.get("seed", 0), 0, 2**31 - 1))
    n = _integer("stream.n", value.get("n", 12), 1, LONGEST)
    u = np.round(np.clip(1.3 * normals(rng, (n,)), -3, 3), 2)
    x = np.stack([np.ones(n), u], axis=1)
    o, draw = x @ np.array(TRUTH[model]), rng.random(n)
    if model == "linear":
        y = np.round(o + math.sqrt(noise) * normals(rng, (n,)), 2)
    elif model == "logistic":
        y = (draw < 1 / (1 + np.exp(-o))).astype(float)
    else:
        y = np.array([_poisson(p, rate) for p, rate in zip(draw, np.exp(o), strict=True)])
    return x, y


def _poisson(p: float, rate: float) -> float:
    """The quantile of a Poisson variate."""
    k, term = 0, math.exp(-rate)
    total = term
    while total < p and k < 1000:
        k += 1
        term *= rate / k
        total += term
    return float(k)


def _given(x: Any, y: Any, model: str) -> tuple[Array, Array]:
    if not isinstance(x, list) or not 1 <= len(x) <= LONGEST:
        raise Refused("stream.x", x, f"a list of 1 to {LONGEST} pairs", "send [[1, u], ...]")
    if not isinstance(y, list) or len(y) != len(x):
        raise Refused("stream.y", y, f"a list of {len(x)} numbers", "send one y for each x")
    xs = np.array([_numbers(f"stream.x[{i}]", row, 2, INPUT) for i, row in enumerate(x)])
    ys = np.array(_numbers("stream.y", y, len(x)))
    for i, v in enumerate(ys.tolist()):
        if model == "logistic" and v not in (0.0, 1.0):
            raise Refused(f"stream.y[{i}]", v, "0 or 1", "choose a class")
        if model == "poisson" and (v < 0 or v != round(v)):
            raise Refused(f"stream.y[{i}]", v, "a count 0, 1, 2, ...", "round it")
    return xs, ys


def _view(value: Any, prior: Gaussian) -> tuple[float, float, float, float]:
    """The part of the plane that is drawn: x0, x1, y0, y1."""
    if value is None:
        r = 3.2 * math.sqrt(float(np.max(np.diag(prior.cov))))
        a, b = prior.mean.tolist()
        return a - r, a + r, b - r, b + r
    x0, x1, y0, y1 = _numbers("view", value, 4)
    if not (x1 - x0 > 1e-6 and y1 - y0 > 1e-6):
        raise Refused("view", value, "[x0, x1, y0, y1] with x0 < x1 and y0 < y1", "swap the ends")
    return x0, x1, y0, y1


# --- plain values ---------------------------------------------------------------------------------


def _known(name: str, value: dict[Any, Any], keys: Sequence[str]) -> None:
    for key in value:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "leave it out"
            raise Refused(f"{name}.{key}"[:80], value[key], f"one of {', '.join(keys)}", remedy)


def _object(name: str, value: Any, keys: Sequence[str]) -> None:
    if not isinstance(value, dict):
        raise Refused(name, value, f"an object with {', '.join(keys)}", "send an object")
    _known(name, value, keys)


def _choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    near = difflib.get_close_matches(str(value), allowed, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else "choose one of them"
    raise Refused(name, value, " or ".join(map(repr, allowed)), remedy)


def _number(name: str, value: Any, low: float = -SIZE, high: float = SIZE) -> float:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not ok or not low <= value <= high:
        raise Refused(name, value, f"a number in {low:g} ... {high:g}", "take one of these")
    return float(value)


def _integer(name: str, value: Any, low: int, high: int) -> int:
    whole = isinstance(value, float) and value.is_integer()  # JSON has one kind of number
    ok = isinstance(value, int) or whole
    if not ok or isinstance(value, bool) or not low <= value <= high:
        raise Refused(name, value, f"an integer in {low} ... {high}", "take one of these")
    return int(value)


def _numbers(name: str, value: Any, n: int, size: float = SIZE) -> list[float]:
    if not isinstance(value, list) or len(value) != n:
        raise Refused(name, value, f"a list of {n} numbers", f"send {n}")
    return [_number(f"{name}[{i}]", v, -size, size) for i, v in enumerate(value)]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

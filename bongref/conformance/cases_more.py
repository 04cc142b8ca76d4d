"""The cases that version 2 of the vectors adds: what version 1 left untested.

Draws of θ, inner loops of 1, 3 and 5 iterations, missing observations at the ends and in a row,
mini-batches of unequal size, streams without dynamics, long streams from an ill-conditioned prior,
other ranks, a second hidden layer, every label, and predictives at their extremes. In each of them
every parameter has an influence (:func:`influential`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import models
from ..grid import FAMILIES, HESSIANS, NAMES, NOT_DERIVED, STATES
from ..linalg import Array
from ..models import ParametricModel
from ..states import FC, Diag, State
from . import sensitivity, vectors
from .draws import (
    CATEGORICAL,
    CORRELATED,
    as_dict,
    draw_state,
    dyadic,
    generator,
    isotropic,
    nonzero,
    observe,
    setting,
)
from .vectors import Case

DERIVED = [name for name in NAMES if name not in NOT_DERIVED]
LOOPS = {1: "line", 3: "logistic", 5: "bend"}  # iterations -> setting
DRAWS = 20000  # samples of a case of draw
TRIES = 4000

Setting = tuple[ParametricModel, dict[str, Any], tuple[str, ...]]
MORE: dict[str, Setting] = {
    "pixels": (
        models.cnn((4, 2, 2), 2, (2,), (3, 3), 2, "relu"),
        CATEGORICAL,
        ("C-many", "singular-R", "convolution", "two-channels"),
    ),
    "kinks": (models.mlp([2, 3, 3], "relu"), CATEGORICAL, ("C-many", "singular-R")),
    "deep": (
        models.mlp([2, 2, 2, 2], "tanh"),
        CORRELATED,
        ("C-many", "correlated-R", "two-hidden-layers"),
    ),
}


def known(where: str) -> tuple[ParametricModel, dict[str, Any], list[str]]:
    """Model, likelihood and flags of a setting, of either version."""
    if where not in MORE:
        return setting(where)
    model, lik, flags = MORE[where]
    return model, lik, [lik["kind"], *flags]


# --- influence ------------------------------------------------------------------------------------


def influential(
    model: ParametricModel, lik: dict[str, Any], points: Sequence[Array], X: Array, Y: Any = None
) -> bool:
    """Whether every parameter moves some output, at one of the points and inputs at least.

    With Y (for mc-hess, and a model that is not linear) the second derivatives of the outputs must
    also make up a hundredth of G, so that the Gauss–Newton matrix is told from the Hessian.
    """
    if not np.all(moving(model, points, X)):
        return False
    if Y is None or model.kind == "linear":
        return True
    likelihood, part, whole = vectors.likelihood(lik), 0.0, 0.0
    for theta in points:
        for x, y in zip(X, Y, strict=True):
            o = model(theta, x)
            second = sensitivity.second(model, theta, x, likelihood.score(o, y))
            J = model.jac(theta, x)
            part = max(part, float(np.max(np.abs(second))))
            whole = max(whole, float(np.max(np.abs(J.T @ likelihood.info(o) @ J))))
    return part > 0.01 * whole


VISIBLE = 2.0**-20  # of the largest slope: what is below it hides a mistake


def moving(model: ParametricModel, points: Sequence[Array], X: Array) -> Array:
    """Which parameters visibly move some output, at one of the points and inputs at least."""
    slopes = np.zeros(model.n_params)
    for theta in points:
        for x in X:
            slopes = np.maximum(slopes, np.max(np.abs(model.jac(theta, x)), axis=0))
    return slopes > VISIBLE * np.max(slopes)


def has_influence(case: Case) -> bool:
    """Whether every parameter has an influence on the outputs in a case; True without a model."""
    if "model" not in case.input:
        return True
    model, thetas, X = _seen(case)
    second = case.subject.get("hess") == "mc-hess" and "zero-gradient" not in case.flags
    Y = np.reshape(case.input["y"], (len(X), -1)) if second else None
    return influential(model, case.input["likelihood"], thetas, X, Y)


def _seen(case: Case) -> tuple[ParametricModel, list[Array], Array]:
    """The model of a case, the θ and the inputs that it is evaluated at."""
    given = case.input
    model = vectors.model(given["model"])
    mu = given["theta"] if "theta" in given else given.get("state", given.get("prior", {}))["mu"]
    samples = given["samples"]
    thetas = [mu] if samples is None else list(np.reshape(samples, (-1, len(mu))))
    xs = given["x"] if "x" in given else given["X"]
    shape = tuple(model.in_shape or ())
    rows = [x for one in xs for x in np.reshape(one, (-1, *shape))] if "X" in given else None
    X = np.reshape(xs, (-1, *shape)) if rows is None else np.array(rows)
    return model, thetas, X


# --- L0 -------------------------------------------------------------------------------------------

RANKS = {"rank-one": 1, "rank-high": 5}


def steps() -> Iterator[Case]:
    """DLR of rank 1, and of a rank above the number of new columns."""
    from .cases import step_case

    for name in DERIVED:
        if name.endswith("-dlr"):
            for variant in RANKS:
                yield step_case(name, variant)


# --- L1 -------------------------------------------------------------------------------------------

# cases of version 1 in which a parameter had no influence, drawn again
REDRAWN = {
    "mc-hess": ("curve", "counts", "softmax-saturated"),
    "mc-ef": ("line", "logistic-saturated"),
    "lin-hess": ("labels",),
    "lin-ef": ("labels", "logistic-saturated"),
}
LABELS = {"logistic": ("zero", "one"), "softmax": ("first", "second", "third")}


def estimates() -> Iterator[Case]:
    """Networks whose every parameter counts, and every label of Bernoulli and categorical."""
    for hess in HESSIANS:
        for where in ("pixels", "kinks", "kinks-saturated", "kinks-batch", "deep"):
            yield estimate_case(hess, where)
        for where in REDRAWN[hess]:
            yield estimate_case(hess, f"{where}-redrawn")
        for where, labels in LABELS.items():
            for k, label in enumerate(labels):
                yield estimate_case(hess, f"{where}-{label}", k)


def estimate_case(hess: str, name: str, label: int | None = None) -> Case:
    from .cases import valued

    case_id, (where, *more) = f"estimate/{hess}/{name}", name.split("-")
    variant = "" if more[:1] == ["redrawn"] else "".join(more[:1])
    rng, (model, lik, flags) = generator(case_id), known(where)
    P, large = model.n_params, 16 if variant == "saturated" else 1
    M = 16 if 3 <= P < 5 else 4
    for _ in range(TRIES):
        theta = nonzero(rng, P) * large
        x, y = observe(rng, model, lik, theta, 3 if variant == "batch" else None)
        samples = None
        if hess.startswith("mc"):
            samples = theta + dyadic(rng, (M, P), -6, 6, 4) * large
        if label is not None:
            y = np.array([float(label)]) if where == "logistic" else np.eye(3)[label]
        points = [theta] if samples is None else list(samples)
        X, Y = (x, y) if variant == "batch" else (x[None], y[None])
        if _at_a_kink(model, points, X):
            continue
        if variant != "saturated" and not _moderate(model, lik, points, X):
            continue
        if influential(model, lik, points, X, Y if hess == "mc-hess" else None):
            break
    else:
        raise AssertionError(f"{case_id}: no problem in which every parameter counts was found")
    given: dict[str, Any] = {"model": vectors.model_spec(model), "likelihood": lik, "theta": theta}
    given |= {"x": x, "y": y, "samples": samples}
    flags += [] if samples is None else ["many-samples"]
    flags += [] if samples is None else ["P-less-than-M" if P < M else "P-more-than-M"]
    flags += [variant] if variant in ("saturated", "batch") else []
    flags += ["every-label"] if label is not None else []
    return valued(Case(case_id, "estimate", {"hess": hess}, tuple(flags), given))


def _at_a_kink(model: ParametricModel, points: Sequence[Array], X: Array) -> bool:
    """Whether the Jacobian jumps within 1e-4 of θ: a ReLU near 0."""
    rng, near = np.random.default_rng(0), 1e-4
    for theta in points:
        for x in X:
            moved = theta + near * rng.uniform(-1, 1, len(theta))
            J = model.jac(theta, x)
            if np.max(np.abs(model.jac(moved, x) - J)) > 0.02 * max(1.0, np.max(np.abs(J))):
                return True
    return False


def _moderate(
    model: ParametricModel, lik: dict[str, Any], points: Sequence[Array], X: Array
) -> bool:
    """Whether no class has a probability above 0.98, so that ŷ − y keeps its digits."""
    if lik["kind"] != "categorical":
        return True
    mean = vectors.likelihood(lik).mean
    return all(float(np.max(mean(model(theta, x)))) < 0.98 for theta in points for x in X)


# --- L2 and L3 ------------------------------------------------------------------------------------


def updates() -> Iterator[Case]:
    """Inner loops of 1, 3 and 5 iterations."""
    for name in DERIVED:
        if name.split("-")[0] in ("blr", "bbb"):
            for n_iter in LOOPS:
                yield update_case(name, n_iter)


def update_case(name: str, n_iter: int) -> Case:
    from .cases import keeps, valued

    where = f"iterations-{n_iter}"
    case_id = f"update/{name}/{where}"
    rng = generator(case_id)
    for tries in range(16):
        given, flags = _problem(name, LOOPS[n_iter], rng, tries, 1, n_iter)
        one = {k: v for k, v in given.items() if k not in ("X", "Y", "dynamics")}
        samples = None if given["samples"] is None else given["samples"][0]
        one |= {"x": given["X"][0], "y": given["Y"][0], "samples": samples}
        case = Case(case_id, "update", {"method": name}, tuple(flags), one)
        if has_influence(case) and keeps(name, given):
            return valued(case)
    raise AssertionError(f"{case_id}: no problem that sees all and stays definite was found")


STREAMS = ("static", "batches", "gaps", "long")


def streams() -> Iterator[Case]:
    """Without dynamics from μ₀ = 0; unequal mini-batches; missing observations; 50 steps."""
    for name in DERIVED:
        for kind in STREAMS:
            if kind != "long" or "lin-hess" in name:
                yield stream_case(name, kind)


def stream_case(name: str, kind: str) -> Case:
    from .cases import keeps, valued

    case_id = f"stream/{name}/{kind}"
    rng, hess = generator(case_id), "-".join(name.split("-")[1:3])
    where = "logistic" if kind == "gaps" and hess in ("mc-hess", "lin-ef") else "line"
    T = {"gaps": 6, "long": 50}.get(kind, 3)
    first = 8 if kind == "long" and name == "bbb-lin-hess-dlr" else 0  # it diverges before
    for tries in range(first, 16):
        sizes = (3, 1, 2) if kind == "batches" else None
        given, flags = _problem(name, where, rng, tries, T, 2, sizes)
        if kind == "static":
            rank = given["params"].get("rank", 2)
            size = tries if name.startswith("bong") else 1
            before = isotropic(name.split("-")[-1], 3, rank, size)
            if given["samples"] is not None:
                given["samples"] = given["samples"] - given["prior"]["mu"]
            given["prior"] = as_dict(before)
        if kind == "long":
            size = tries if name.startswith("bong") else 0
            spread = _spread(rng, name.split("-")[-1], size)
            given["prior"] = as_dict(spread._replace(mu=given["prior"]["mu"]))
        if kind == "gaps":
            given["Y"] = [y if t in (1, 4) else None for t, y in enumerate(given["Y"])]
            given["dynamics"] = {"kind": "linear", "F": dyadic(rng, 3, 6, 9, 3)}
            given["dynamics"] |= {"b": dyadic(rng, 3, -4, 4, 4), "Q": dyadic(rng, 3, 0, 4, 6)}
        if keeps(name, given, 2**16):
            break
    else:
        raise AssertionError(f"{case_id}: no problem that stays positive definite was found")
    flags += {
        "static": ["isotropic-prior", "static"],
        "batches": ["batch", "unequal-batches"],
        "gaps": ["dynamics", "missing", "missing-ends"],
        "long": ["ill-conditioned", "long-stream"],
    }[kind]
    return valued(Case(case_id, "stream", {"method": name}, tuple(flags), given))


def _spread(rng: np.random.Generator, family: str, size: int) -> State:
    """A prior whose variances span a factor of 2^8; they shrink by 4^−size."""
    q, root = draw_state(rng, family, 3, 2), 2.0 ** -np.array([0, 2, 4]) / 2.0**size
    if isinstance(q, FC):
        return q._replace(Sigma=q.Sigma * np.outer(root, root))
    if isinstance(q, Diag):
        return q._replace(var=q.var * root**2)
    return q._replace(Ups=q.Ups / root**2, W=q.W / root[:, None])


def _problem(
    name: str,
    where: str,
    rng: np.random.Generator,
    tries: int,
    T: int,
    n_iter: int,
    sizes: Sequence[int] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """A prior, T observations (mini-batches of these sizes) and samples, without dynamics."""
    rule, h1, _, family = name.split("-")
    size, (model, lik, flags) = tries if rule == "bong" else 1, known(where)
    P = model.n_params
    prior = draw_state(rng, family, P, 2, size)._replace(mu=nonzero(rng, P))
    batches: list[int | None] = [None] * T if sizes is None else list(sizes)
    seen = [observe(rng, model, lik, prior.mu, B) for B in batches]
    iterates = rule in ("blr", "bbb")
    params: dict[str, Any] = {} if rule == "bong" else {"alpha": 0.3125 / 2.0**tries}
    params |= {"n_iter": n_iter} if iterates else {}
    samples = None
    if h1 == "mc":
        params["n_samples"] = M = 4
        shape = (T, n_iter if iterates else 1, M, P)
        samples = prior.mu + dyadic(rng, shape, -6, 6, 4) / 2.0**size
        flags = [*flags, "many-samples", "P-less-than-M" if P < M else "P-more-than-M"]
    if family == "dlr":
        params["rank"] = 2
        flags += ["rank-truncated"] if rule in ("bong", "blr") else []
    flags += ["many-iterations"] if iterates and n_iter > 1 else []
    flags += ["one-iteration"] if iterates and n_iter == 1 else []
    flags += ["alpha-not-one"] if "alpha" in params else []
    xs = [x for x, _ in seen]
    given: dict[str, Any] = {
        "model": vectors.model_spec(model),
        "likelihood": lik,
        "prior": as_dict(prior),
    }
    given |= {"X": xs if sizes else np.stack(xs), "Y": [y for _, y in seen]}
    if not sizes:
        given["Y"] = np.stack(given["Y"])
    given |= {"samples": samples, "dynamics": {"kind": "static"}, "params": params}
    return given, flags


# --- L4 -------------------------------------------------------------------------------------------


def predictives() -> Iterator[Case]:
    """Several Bernoulli outputs and live ReLUs; the edge of a bin; extreme means and densities."""
    for family in ("fc", "diag", "dlr"):
        for kind in ("plugin", "mc", "lin_mc"):
            for where in ("labels", "kinks"):
                yield predictive_case(kind, family, where)
    for kind in ("plugin", "lin_mc"):
        yield predictive_case(kind, "diag", "edge")
    for kind in ("mc", "lin_mc"):
        yield predictive_case(kind, "diag", "one-sample")
        yield predictive_case(kind, "diag", "far")
    yield predictive_case("lin_mc", "diag", "outside")
    yield predictive_case("lin_mc", "diag", "negative-rate")


def predictive_case(kind: str, family: str, where: str) -> Case:
    from .cases import valued

    case_id = f"predictive/{kind}-{family}/{where}"
    rng = generator(case_id)
    extreme = {
        "edge": "logistic",
        "one-sample": "curve",
        "far": "curve",
        "outside": "logistic",
        "negative-rate": "rates",
    }
    model, lik, flags = known(extreme.get(where, where))
    P, N, S = model.n_params, 6, 1 if where == "one-sample" else 4
    for _ in range(TRIES):
        q = draw_state(rng, family, P, 2, 2)._replace(mu=nonzero(rng, P))
        X, Y = observe(rng, model, lik, q.mu, N)
        samples = None if kind == "plugin" else q.mu + dyadic(rng, (S, P), -6, 6, 6)
        if where in extreme or influential(model, lik, [q.mu], X):
            break
    if where == "edge":
        q, X, Y, samples = _edge(q, kind)
    elif where == "far":
        Y = Y + 1024.0
    elif where == "outside":  # h̄ = ŷ + H(θ − μ) above 1 and below 0, one label of each
        q, X, _, _ = _edge(q, kind)
        samples = q.mu + np.array([[4.0, 0, 0], [6.0, 0, 0]])
        Y = np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])
    elif where == "negative-rate":
        q = q._replace(mu=np.zeros(P))
        samples = np.array([[-2.0] * P, [-4.0] * P])
        X, Y = np.abs(X) + 1, np.array([[k % 3, 1.0] for k in range(N)])
    given: dict[str, Any] = {
        "model": vectors.model_spec(model),
        "likelihood": lik,
        "state": as_dict(q),
    }
    given |= {"X": X, "samples": samples, "Y": Y}
    flags += ["many-samples"] if samples is not None and len(samples) > 1 else []
    flags += {
        "edge": ["bin-edge"],
        "far": ["underflow"],
        "outside": ["outside-range"],
        "negative-rate": ["outside-range"],
        "one-sample": ["one-sample"],
    }.get(where, [])
    flags += ["several-labels"] if where == "labels" else []
    subject = {"kind": kind, "family": family}
    return valued(Case(case_id, "predictive", subject, tuple(flags), given))


def _edge(q: State, kind: str) -> tuple[State, Array, Array, Array | None]:
    """Confidences of exactly ½ (plugin) or ¾ (lin_mc), and others in the bins next to them."""
    if kind == "plugin":
        at = np.array([0.0, 0.125, 0.0, -0.125, 0.0625, 1.0])
        X, mu = np.stack([at, np.zeros(6)], axis=1), np.array([1.0, 0.0, 0.0])
        return q._replace(mu=mu), X, np.array([[1.0], [1], [0], [0], [1], [1]]), None
    at = np.array([1.0, 1.125, 0.875, -1.0, -1.125, 1.0])
    X, mu = np.stack([at, np.zeros(6)], axis=1), np.zeros(3)
    samples = np.array([[1.5, 0, 0], [0.5, 0, 0]])
    return q._replace(mu=mu), X, np.array([[0.0], [1], [1], [1], [0], [1]]), samples


# --- draw -----------------------------------------------------------------------------------------


def draws() -> Iterator[Case]:
    """θ ~ q in every family: from given standard normals, and 20,000 of them from a seed."""
    for family in FAMILIES:
        for kind in ("normals", "moments"):
            yield draw_case(family, kind)
    yield draw_case("dlr", "normals-zero-W")


def draw_case(family: str, kind: str) -> Case:
    from .cases import valued

    case_id = f"draw/{family}/{kind}"
    rng, P = generator(case_id), 5
    q = draw_state(rng, family, P, 2, zero_W=kind.endswith("zero-W"))
    normals = None
    if kind.startswith("normals"):
        normals = np.concatenate([np.zeros((1, P)), np.eye(P), dyadic(rng, (2, P), -8, 8, 2)])
    n = DRAWS if normals is None else len(normals)
    given = {"state": as_dict(q), "n": n, "seed": 0, "normals": normals}
    flags = ["many-draws"] if normals is None else ["given-normals"]
    flags += ["zero-W"] if kind.endswith("zero-W") else []
    assert STATES[family] is type(q)
    return valued(Case(case_id, "draw", {"family": family}, tuple(flags), given))

"""The cases of the vectors from scratch: ``bongref vectors --out DIR`` writes them.

The inputs come from :mod:`.draws`, with a generator that is seeded by the id of the case; the
values come from :mod:`.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..curvature import Curv
from ..dynamics import propagate
from ..gaussians import is_valid
from ..grid import FAMILIES, HESSIANS, NAMES, NOT_DERIVED, STATES
from ..linalg import Array, singular_values
from ..states import DLR, FC, Diag, State
from . import cases_more, sensitivity, vectors
from .draws import (
    BATCH,
    SATURATED,
    ZERO,
    as_dict,
    draw_curv,
    draw_state,
    dyadic,
    generator,
    ill_conditioned,
    isotropic,
    nonzero,
    observe,
    setting,
)
from .flags import FLAGS
from .pipeline import unprojected
from .quantities import PREDICTIVE
from .values import derive, exact_step
from .vectors import Case


def valued(case: Case) -> Case:
    """The case with what it must return."""
    return case._replace(expected=derive(case))


# --- L0 -------------------------------------------------------------------------------------------


def steps() -> Iterator[Case]:
    """Every method from a prior, an iterate and (g, G)."""
    for name in NAMES:
        if name not in NOT_DERIVED:
            for variant in step_variants(name):
                yield step_case(name, variant)
    for name in NAMES:
        yield from step_refusals(name)
    yield from cases_more.steps()


def step_variants(name: str) -> list[str]:
    rule, _, _, family = name.split("-")
    variants = ["plain", "wide", "zero-gradient", "ill-conditioned"]
    if rule == "blr":
        variants.append("alpha-one")
    if family == "dlr":
        variants += ["rank-full", "zero-W"]
    if can_lose(name):
        variants.append("lost")
    return variants


def can_lose(name: str) -> bool:
    """Whether a step can lose positive definiteness.

    With G = −S Sᵀ, bong and blr in natural parameters and bog in DLR cannot: what they add to the
    precision is positive semi-definite.
    """
    rule, h1, h2, family = name.split("-")
    natural = rule in ("bong", "blr") and not family.endswith("_mom")
    return (h1, h2) == ("mc", "hess") or not (natural or (rule, family) == ("bog", "dlr"))


# not powers of 2, so that a missing alpha cannot be taken for a factor of 2 or 4
ALPHAS = {
    "plain": 5 / 16,
    "wide": 3 / 8,
    "zero-gradient": 3 / 16,
    "ill-conditioned": 7 / 16,
    "rank-full": 5 / 8,
    "zero-W": 3 / 8,
    "alpha-one": 1.0,
    "rank-one": 5 / 16,
    "rank-high": 3 / 8,
}


def step_case(name: str, variant: str) -> Case:
    rule, h1, h2, family = name.split("-")
    hess, case_id = f"{h1}-{h2}", f"step/{name}/{variant}"
    rng = generator(case_id)
    P, R = (3, 2) if variant in ("wide", "alpha-one") else (6, 2) if family == "dlr" else (5, 2)
    R = P if variant == "rank-full" else R
    P, R = (7 if variant == "rank-high" else P, cases_more.RANKS.get(variant, R))
    K = {
        "mc-hess": 0,
        "mc-ef": 4,
        "lin-hess": 4 if variant == "wide" else 1 if variant == "plain" else 2,
        "lin-ef": 1,
    }[hess]
    alpha = None if rule == "bong" else ALPHAS.get(variant, 0.25)
    sizes = (
        [k % 8 - 5 for k in range(64)] if variant == "lost" else list(range(0, 24, 2))
    )  # of G, 4^−size, until it is lost or kept
    for size in sizes:
        if variant == "ill-conditioned":
            prior = ill_conditioned(rng, family, P, R)
            current = _beside(rng, prior)
        else:
            wide = -2 if variant == "lost" and family == "dlr" else 0
            prior = draw_state(rng, family, P, R, wide, zero_W=variant == "zero-W")
            current = draw_state(rng, family, P, R, wide)
        if variant == "lost" and size % 2:
            prior = prior._replace(mu=4 * prior.mu)
        current = prior if rule in ("bong", "bog") else current
        convex = (
            P * int(rng.integers(2)) if variant == "lost" else P // 2 if variant == "wide" else 0
        )
        curv = draw_curv(rng, hess, P, K, size, zero=variant == "zero-gradient", convex=convex)
        out = exact_step(name, prior, current, curv, alpha)
        if is_valid(out) == (variant != "lost") and _gap(name, prior, current, curv, alpha) > 1.2:
            break
    else:
        raise AssertionError(f"{case_id}: no such problem was found")
    params: dict[str, Any] = {} if alpha is None else {"alpha": alpha}
    if family == "dlr":
        params["rank"] = R
    given = {"prior": as_dict(prior), "current": as_dict(current), "curv": curv, "params": params}
    flags = [
        "low-rank-G" if "S" in curv else "dense-G",
        "ill-conditioned" if variant == "ill-conditioned" else "",
    ]
    flags += ["current-not-prior"] if rule in ("blr", "bbb") else []
    flags += [] if alpha is None else ["alpha-one" if alpha == 1 else "alpha-not-one"]
    flags += ["C-many" if K > 1 else "C-one"] if hess == "lin-hess" else []
    flags += (
        ["many-samples", "P-less-than-M" if P < K else "P-more-than-M"] if hess == "mc-ef" else []
    )
    if family == "dlr":
        flags += ["zero-W"] if variant == "zero-W" else []
        flags += ["rank-full" if R == P else "rank-truncated"] if rule in ("bong", "blr") else []
        flags += [variant] if variant in cases_more.RANKS else []
    flags += [{"zero-gradient": "zero-gradient", "lost": "lost-positive-definite"}.get(variant, "")]
    result = "not positive definite" if variant == "lost" else "value"
    return valued(
        Case(case_id, "step", {"method": name}, tuple(f for f in flags if f), given, result)
    )


def _beside(rng: np.random.Generator, q: State) -> State:
    """Another state of the same conditioning."""
    mu = q.mu + dyadic(rng, len(q.mu), -8, 8, 5)
    if isinstance(q, FC):
        return FC(mu, q.Sigma / 2)
    if isinstance(q, Diag):
        return Diag(mu, q.var / 2)
    return DLR(mu, q.Ups * 2, q.W + dyadic(rng, q.W.shape, -4, 4, 3))


def _gap(
    name: str, prior: State, current: Any, curv: dict[str, Array], alpha: float | None
) -> float:
    """The ratio of the last singular value that the projection keeps to the first that it drops."""
    if not isinstance(prior, DLR) or name.split("-")[0] in ("bog", "bbb"):
        return np.inf
    one = Curv(curv["g"], S=curv["S"])
    W = unprojected(name, prior, current, one, alpha)[1]
    s, R = singular_values(W), prior.W.shape[1]
    return float(s[R - 1] / s[R]) if R < len(s) and s[R] > 1e-12 * s[0] else np.inf


def step_refusals(name: str) -> Iterator[Case]:
    """What must be refused: an indefinite prior, alpha > 1 in blr-dlr, methods not derived."""
    rule, h1, h2, family = name.split("-")
    hess = f"{h1}-{h2}"
    derived = name not in NOT_DERIVED
    reasons = {
        "not-derived": not derived,
        "indefinite-prior": hess == "lin-hess",
        "alpha-too-large": derived and rule == "blr" and family == "dlr",
    }
    for flag, applies in reasons.items():
        if applies:
            case_id = f"step/{name}/{flag}"
            rng = generator(case_id)
            prior, current = draw_state(rng, family, 4), draw_state(rng, family, 4)
            if flag == "indefinite-prior":
                prior = _indefinite(prior)
            curv = draw_curv(rng, hess, 4, {"mc-ef": 4, "lin-hess": 2}.get(hess, 1))
            params: dict[str, Any] = (
                {} if rule == "bong" else {"alpha": 1.5 if flag == "alpha-too-large" else 0.25}
            )
            if family == "dlr":
                params["rank"] = 2
            start = prior if rule in ("bong", "bog") else current
            given = {
                "prior": as_dict(prior),
                "current": as_dict(start),
                "curv": curv,
                "params": params,
            }
            yield Case(case_id, "step", {"method": name}, (flag,), given, "refuse")


def _indefinite(q: State) -> State:
    if isinstance(q, FC):
        return q._replace(Sigma=q.Sigma - 4 * np.eye(len(q.mu)))
    if isinstance(q, Diag):
        return q._replace(var=q.var * np.array([1, -1, 1, 1]))
    return q._replace(Ups=q.Ups * np.array([1, -8, 1, 1]), W=0 * q.W)


# --- L1 -------------------------------------------------------------------------------------------


def estimates() -> Iterator[Case]:
    """Every estimator on every setting; with saturated logits, a zero gradient, a mini-batch.

    What version 1 had and some parameter had no influence in is withdrawn.
    """
    yield from filter(cases_more.has_influence, first_estimates())
    yield from cases_more.estimates()


def first_estimates() -> Iterator[Case]:
    """The cases of version 1."""
    plain = ("line", "curve", "logistic", "labels", "softmax", "classes", "counts", "image")
    for hess in HESSIANS:
        for where in plain:
            yield estimate_case(hess, where, "")
        for where in ("logistic", "softmax", "classes"):
            yield estimate_case(hess, where, SATURATED)
        yield estimate_case(hess, "plane", ZERO)
        for where in ("curve", "classes", "rates"):
            yield estimate_case(hess, where, BATCH)


def estimate_case(hess: str, where: str, variant: str) -> Case:
    case_id = f"estimate/{hess}/{where}" + (f"-{variant}" if variant else "")
    rng, (model, lik, flags) = generator(case_id), setting(where)
    P = model.n_params
    theta = nonzero(rng, P) * (64 if variant == SATURATED else 1)
    x, y = observe(rng, model, lik, theta, 3 if variant == BATCH else None)
    M = 16 if 3 <= P < 5 else 4
    samples = None
    if hess.startswith("mc"):
        samples = theta + dyadic(rng, (M, P), -6, 6, 4) * (16 if variant == SATURATED else 1)
        flags = [*flags, "many-samples", "P-less-than-M" if P < M else "P-more-than-M"]
    if variant == ZERO:
        y = model(theta, x)
        if samples is not None:
            samples[M // 2 :] = 2 * theta - samples[: M // 2]
    given = {
        "model": vectors.model_spec(model),
        "likelihood": lik,
        "theta": theta,
        "x": x,
        "y": y,
        "samples": samples,
    }
    flags = [*flags, *([variant] if variant else [])]
    return valued(Case(case_id, "estimate", {"hess": hess}, tuple(flags), given))


# --- L2 -------------------------------------------------------------------------------------------

UPDATES = ("line", "ridge-batch", "curve", "softmax", "labels-saturated", "rates-batch")


def updates() -> Iterator[Case]:
    """Every method on a whole update: estimator, inner iterations, step."""
    for name in NAMES:
        if name not in NOT_DERIVED:
            for where in UPDATES:
                yield update_case(name, where)
    for name in NOT_DERIVED:
        yield update_refusal(name)
    yield from cases_more.updates()


def problem(
    name: str, where: str, rng: np.random.Generator, tries: int, T: int | None = None
) -> tuple[dict[str, Any], list[str]]:
    """A prior, an observation and samples for a method.

    With ``tries`` it becomes easier to stay positive definite: the prior covariance of bong shrinks
    by 4^−tries, the learning rate of the others by 2^−tries.
    """
    rule, h1, _, family = name.split("-")
    size = tries if rule == "bong" else 1
    where, _, variant = where.partition("-")
    model, lik, flags = setting(where)
    P = model.n_params
    rank = min(2, P)
    if where == "ridge":
        prior = isotropic(family, P, rank, size)
    else:
        prior = draw_state(rng, family, P, rank, size)
        prior = prior._replace(mu=nonzero(rng, P) * (32 if variant == SATURATED else 1))
    batch = 2 if variant == BATCH else None
    seen = [observe(rng, model, lik, prior.mu, batch) for _ in range(T or 1)]
    params: dict[str, Any] = {} if rule == "bong" else {"alpha": 0.3125 / 2.0**tries}
    n_iter = 2 if rule in ("blr", "bbb") else 1
    if rule in ("blr", "bbb"):
        params["n_iter"] = n_iter
    samples = None
    if h1 == "mc":
        params["n_samples"] = M = 16 if P < 5 else 4
        samples = prior.mu + dyadic(rng, (T or 1, n_iter, M, P), -6, 6, 4) / 2.0**size
        samples = samples if T else samples[0]
        flags = [*flags, "many-samples", "P-less-than-M" if P < M else "P-more-than-M"]
    if family == "dlr":
        params["rank"] = rank
        flags = [*flags, "rank-truncated"] if rule in ("bong", "blr") else flags
    flags = [*flags, *([variant] if variant else []), *(["many-iterations"] if n_iter > 1 else [])]
    flags = [*flags, *(["alpha-not-one"] if "alpha" in params else [])]
    given = {
        "model": vectors.model_spec(model),
        "likelihood": lik,
        "prior": as_dict(prior),
        "samples": samples,
        "params": params,
    }
    if T:
        return {**given, "X": np.stack([x for x, _ in seen]), "Y": [y for _, y in seen]}, flags
    return {**given, "x": seen[0][0], "y": seen[0][1]}, flags


def update_case(name: str, where: str) -> Case:
    """The first problem that stays positive definite and in which every parameter has an influence
    (but for networks that are saturated on purpose).
    """
    case_id = f"update/{name}/{where}"
    rng = generator(case_id)
    for tries in range(12):
        given, flags = problem(name, where, rng, tries)
        case = Case(case_id, "update", {"method": name}, tuple(flags), given)
        sees = SATURATED in where or cases_more.has_influence(case)
        if sees and keeps(
            name,
            {
                **given,
                "X": given["x"][None],
                "Y": given["y"][None],
                "samples": _one_step(given["samples"]),
            },
        ):
            return valued(case)
    raise AssertionError(f"{case_id}: no problem that sees all and stays definite was found")


def _one_step(samples: Array | None) -> Array | None:
    return None if samples is None else samples[None]


def keeps(name: str, given: dict[str, Any], largest: float = 2**12) -> bool:
    """Whether every iterate stays positive definite, with a condition of ``largest`` at most."""
    family, moving = families(name), vectors.dynamics(given.get("dynamics", {"kind": "static"}))
    model, lik, q = (
        vectors.model(given["model"]),
        vectors.likelihood(given["likelihood"]),
        vectors.state(family, given["prior"]),
    )
    with np.errstate(all="ignore"):
        for t, (x, y) in enumerate(zip(given["X"], given["Y"], strict=True)):
            q = propagate(q, moving)
            if y is not None:
                here = None if given["samples"] is None else given["samples"][t]
                inner = sensitivity.update(
                    name, model, lik, q, x, y, here, given["params"], 0.0, np.random.default_rng(0)
                )
                if not all(is_valid(one) for one in inner) or sensitivity.floor(inner) > largest:
                    return False
                q = inner[-1]
    return True


def update_refusal(name: str) -> Case:
    case_id = f"update/{name}/not-derived"
    given, _ = problem(name, "line", generator(case_id), 0)
    return Case(case_id, "update", {"method": name}, ("not-derived",), given, "refuse")


# --- L3 -------------------------------------------------------------------------------------------

STREAMS = ("plane", "softmax", "bend")
STEPS = 4


def streams() -> Iterator[Case]:
    """Every method on streams with moving parameters and a missing observation."""
    for name in NAMES:
        if name not in NOT_DERIVED:
            for where in STREAMS:
                yield stream_case(name, where)
    yield from cases_more.streams()


def stream_case(name: str, where: str) -> Case:
    case_id = f"stream/{name}/{where}"
    rng = generator(case_id)
    for tries in range(12):
        given, flags = problem(name, where, rng, tries, STEPS)
        P = len(given["prior"]["mu"])
        size = tries if name.startswith("bong") else 1
        given["dynamics"] = _ou(rng, P, size) if where == "softmax" else _drift(rng, P, size)
        if where == "plane":
            given["Y"][2] = None
        else:
            given["Y"] = np.stack(given["Y"])
        if keeps(name, given):
            break
    else:
        raise AssertionError(f"{case_id}: no problem that stays positive definite was found")
    flags += ["dynamics", *(["missing"] if where == "plane" else [])]
    return valued(Case(case_id, "stream", {"method": name}, tuple(flags), given))


def _ou(rng: np.random.Generator, P: int, size: int) -> dict[str, Any]:
    return {
        "kind": "ou",
        "gamma": 0.875,
        "mu0": dyadic(rng, P, -8, 8, 3),
        "var0": dyadic(rng, P, 4, 12, 3) / 4.0**size,
    }


def _drift(rng: np.random.Generator, P: int, size: int) -> dict[str, Any]:
    return {
        "kind": "linear",
        "F": dyadic(rng, P, 6, 9, 3),
        "b": dyadic(rng, P, -4, 4, 4),
        "Q": dyadic(rng, P, 0, 4, 5) / 4.0**size,
    }


# --- predict --------------------------------------------------------------------------------------


def predictions() -> Iterator[Case]:
    """The prior of the next step in every family."""
    for family in FAMILIES:
        for kind in ("static", "ou", "linear", *(("full",) if STATES[family] is FC else ())):
            yield prediction_case(family, kind)


def prediction_case(family: str, kind: str) -> Case:
    case_id, P = f"predict/{family}/{kind}", 5
    rng = generator(case_id)
    q = draw_state(rng, family, P)
    if kind == "static":
        moving: dict[str, Any] = {"kind": "static"}
    else:
        moving = (
            _full(rng, P)
            if kind == "full"
            else _ou(rng, P, 0)
            if kind == "ou"
            else _drift(rng, P, 0)
        )
    given = {"state": as_dict(q), "dynamics": moving}
    flags = (*([] if kind == "static" else ["dynamics"]), *(["full-F"] if kind == "full" else []))
    return valued(Case(case_id, "predict", {"family": family}, flags, given))


def _full(rng: np.random.Generator, P: int) -> dict[str, Any]:
    A = dyadic(rng, (P, P), -2, 2, 2)
    return {
        "kind": "linear",
        "F": np.eye(P) + dyadic(rng, (P, P), -2, 2, 3),
        "b": dyadic(rng, P, -4, 4, 4),
        "Q": A @ A.T / 4,
    }


# --- L4 -------------------------------------------------------------------------------------------


def predictives() -> Iterator[Case]:
    """plugin, mc and lin_mc for every likelihood with each form of covariance."""
    for family in ("fc", "diag", "dlr"):
        for kind in PREDICTIVE:
            for where in ("curve", "logistic", "softmax", "classes", "counts"):
                case = predictive_case(kind, family, where)
                if cases_more.has_influence(case):
                    yield case
    yield from cases_more.predictives()


def predictive_case(kind: str, family: str, where: str) -> Case:
    case_id = f"predictive/{kind}-{family}/{where}"
    rng, (model, lik, flags) = generator(case_id), setting(where)
    P, N, S = model.n_params, 6, 4
    q = draw_state(rng, family, P, 2, 2)._replace(mu=nonzero(rng, P))
    X, Y = observe(rng, model, lik, q.mu, N)
    samples = None if kind == "plugin" else q.mu + dyadic(rng, (S, P), -6, 6, 6)
    given = {
        "model": vectors.model_spec(model),
        "likelihood": lik,
        "state": as_dict(q),
        "X": X,
        "samples": samples,
        "Y": Y,
    }
    flags = [*flags, *(["many-samples"] if samples is not None else [])]
    return valued(
        Case(case_id, "predictive", {"kind": kind, "family": family}, tuple(flags), given)
    )


# --- files ----------------------------------------------------------------------------------------


def families(name: str) -> str:
    return name.split("-")[-1]


MAKERS: dict[str, Callable[[], Iterator[Case]]] = {
    "step": steps,
    "estimate": estimates,
    "update": updates,
    "stream": streams,
    "predictive": predictives,
    "predict": predictions,
    "draw": cases_more.draws,
}


def make(
    levels: Any = None, progress: Callable[[str, int], None] | None = None
) -> dict[str, list[Case]]:
    """Every case from scratch, by the name of its file: a level, or a level and a family."""
    files: dict[str, list[Case]] = {}
    for level in vectors.check_levels(levels):
        for k, case in enumerate(MAKERS[level]()):
            part = (
                f"{level}-{families(case.subject['method'])}" if "method" in case.subject else level
            )
            files.setdefault(f"{part}.json", []).append(case)
            if progress:
                progress(case.id, k + 1)
    return files


def write(folder: Any, files: dict[str, list[Case]]) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, cases in files.items():
        vectors.write(Path(folder) / name, cases[0].level, cases, FLAGS)

"""The cases of the vectors: ``bongref vectors --out DIR`` makes every file, ``bongref vectors --check`` makes them again and compares.

The inputs are short binary fractions, drawn from a generator that is seeded by the case's id, so that they are exact in float64, nearly all
in float32, and G = −S Sᵀ holds to the last bit. The values come from exact rationals or from :mod:`.precise`, at two precisions whose
results must round to the same float64 (``validation/acceptance.md``).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import compare, exact, models
from ..curvature import Curv
from ..dynamics import propagate
from ..gaussians import is_valid
from ..linalg import Array
from ..methods import FAMILIES, HESSIANS, NAMES, NOT_DERIVED, STATES, method
from ..states import DLR, FC, Diag, State
from . import precise, sensitivity, vectors
from .flags import FLAGS
from .sensitivity import Sensitivity, of_estimate, of_predict, of_predictive, of_step, of_stream, of_update
from .vectors import Case, Quantity

EPS = {"float64": 2.0**-52, "float32": 2.0**-23}
C = compare.C
LARGEST = 0.1  # a tolerance beyond this would compare nothing

# (rule, family) -> quantity -> the equation that computes it, in the order of computation
EQUATIONS: dict[tuple[str, str], dict[str, str]] = {
    ("bong", "fc"): {"Sigma": "eq:bong-FC-prec", "mu": "eq:bong-FC-mean"},
    ("blr", "fc"): {"Sigma": "eq:BLR-FC-Nat-prec", "mu": "eq:blr-FC-nat-mu"},
    ("bog", "fc"): {"Sigma": "eq:bog-FC-nat-prec", "mu": "eq:bog-FC-nat-mu"},
    ("bbb", "fc"): {"Sigma": "eq:bbb-FC-nat-prec", "mu": "eq:bbb-FC-nat-mu"},
    ("bong", "fc_mom"): {"mu": "eq:bong-FC-mom-mu", "Sigma": "eq:bong-FC-mom-cov"},
    ("blr", "fc_mom"): {"mu": "eq:blr-FC-mom-mu", "Sigma": "eq:blr-FC-mom-cov"},
    ("bog", "fc_mom"): {"mu": "eq:bog-fc-mom-mu", "Sigma": "eq:bog-fc-mom-cov"},
    ("bbb", "fc_mom"): {"mu": "bbb-FC-mom-mu", "Sigma": "bbb-FC-mom-cov"},
    ("bong", "diag"): {"var": "eq:bong-diag-prec2", "mu": "sec:diag-Nat#28"},
    ("blr", "diag"): {"var": "eq:blr-diag-prec", "mu": "eq:blr-diag-mu"},
    ("bog", "diag"): {"var": "eq:bog-diag-prec", "mu": "eq:bog-diag-mu"},
    ("bbb", "diag"): {"var": "eq:bbb-diag-prec", "mu": "eq:bbb-diag-mu"},
    ("bong", "diag_mom"): {"mu": "eq:bong-diag-mom-mu", "var": "eq:bong-diag-mom-var"},
    ("blr", "diag_mom"): {"mu": "eq:blr-diag-mom-mu", "var": "eq:blr-diag-mom-var"},
    ("bog", "diag_mom"): {"mu": "eq:bog-diag-mom-mu", "var": "eq:bog-diag-mom-var"},
    ("bbb", "diag_mom"): {"mu": "eq:bbb-diag-mom-mu", "var": "eq:bbb-diag-mom-var"},
    ("bong", "dlr"): {"mu": "eq:bong-dlr-mu", "W W^T": "eq:bong-dlr-W", "Ups": "eq:bong-dlr-Ups"},
    ("blr", "dlr"): {"mu": "sec:BLR-DLR#5", "W W^T": "eq:blr-dlr-W", "Ups": "eq:blr-dlr-Ups"},
    ("bog", "dlr"): {"mu": "eq:bog-dlr-mu", "Ups": "sec:DLR-deriv#31", "W W^T": "sec:DLR-deriv#32"},
    ("bbb", "dlr"): {"mu": "eq:bbb-dlr-mu", "Ups": "eq:bbb-dlr-Ups", "W W^T": "eq:bbb-dlr-W"},
}
ESTIMATES: dict[str, dict[str, str]] = {
    "mc-hess": {"g": "eq:gMC", "G": "eq:GMCH", "diag G": "eq:GMCH"},
    "mc-ef": {"g": "eq:gMC", "G": "eq:GMCEF", "diag G": "eq:GMCEF"},
    "lin-hess": {"g": "eq:gL", "G": "eq:GL", "diag G": "eq:GL"},
    "lin-ef": {"g": "eq:gL-cheap", "G": "eq:GLEF", "diag G": "eq:GLEF"},
}
PREDICT = {
    "mu": "sec:pseudocode#3",
    "Sigma": "sec:pseudocode#4",
    "var": "sec:pseudocode#4",
    "Ups": "sec:pseudocode#4",
    "W W^T": "sec:pseudocode#4",
}
PREDICTIVE = {"plugin": "sec:experiments", "mc": "sec:experiments", "lin_mc": "eq:hbar"}


# --- numbers that are short in binary ------------------------------------------------------------------------------------------


def generator(case_id: str) -> np.random.Generator:
    """The generator of a case, seeded by its id."""
    return np.random.default_rng(zlib.crc32(case_id.encode()))


def dyadic(rng: np.random.Generator, shape: Any, low: int, high: int, bits: int) -> Array:
    """Whole numbers low … high over 2^bits."""
    return rng.integers(low, high + 1, size=shape) / 2.0**bits


def draw_state(rng: np.random.Generator, family: str, P: int, R: int = 2, size: int = 0, zero_W: bool = False) -> State:
    """A well-conditioned state; its covariance shrinks by 4^−size."""
    mu = dyadic(rng, P, -8, 8, 3)
    if STATES[family] is FC:
        A = dyadic(rng, (P, P), -3, 3, 2)
        return FC(mu, (A @ A.T / 4 + np.eye(P)) / 4.0**size)
    if STATES[family] is Diag:
        return Diag(mu, dyadic(rng, P, 4, 16, 3) / 4.0**size)
    W = np.zeros((P, R)) if zero_W else dyadic(rng, (P, R), -4, 4, 2)
    return DLR(mu, dyadic(rng, P, 4, 16, 3) * 4.0**size, W * 2.0**size)


def ill_conditioned(rng: np.random.Generator, family: str, P: int, R: int) -> State:
    """A prior whose variances span a factor of 2^20."""
    mu = dyadic(rng, P, -8, 8, 3)
    scales = 2.0 ** -np.linspace(0, 20, P).round()
    if STATES[family] is FC:
        L = np.tril(dyadic(rng, (P, P), -2, 2, 2), -1) + np.eye(P)
        return FC(mu, (L * scales) @ L.T)
    if STATES[family] is Diag:
        return Diag(mu, scales)
    return DLR(mu, 1 / scales, dyadic(rng, (P, R), -4, 4, 2))


def draw_curv(
    rng: np.random.Generator, hess: str, P: int, K: int, size: int = 0, zero: bool = False, convex: bool = False
) -> dict[str, Array]:
    """g and G as an estimator would hand them over: mc-ef from K = 4 or 16 gradients, lin-hess with g in the range of S, lin-ef S = g."""
    if hess == "mc-hess":
        A = dyadic(rng, (P, P), -6, 6, 3) / 2.0**size
        g = np.zeros(P) if zero else dyadic(rng, P, -8, 8, 3) / 2.0**size
        G = (A + A.T) / 2 + (1 if convex else -1) * np.eye(P) / 2.0**size
        return {"g": g, "G": G, "d": np.diag(G).copy()}
    if hess == "mc-ef":
        Ghat = dyadic(rng, (P, K), -8, 8, 3) / 2.0**size
        if zero:
            Ghat[:, K // 2 :] = -Ghat[:, : K // 2]
        g, S = Ghat.sum(axis=1) / K, Ghat / np.sqrt(K)
    elif hess == "lin-hess":
        S = dyadic(rng, (P, K), -6, 6, 3) / 2.0**size
        g = S @ (np.zeros(K) if zero else dyadic(rng, K, -6, 6, 2))
    else:
        g = np.zeros(P) if zero else dyadic(rng, P, -8, 8, 3) / 2.0**size
        S = g[:, None].copy()
    return {"g": g, "S": S, "G": -(S @ S.T), "d": -(S * S).sum(axis=1)}


# --- from numbers to a case ---------------------------------------------------------------------------------------------------------


def quantity(name: str, equation: str, value: Array, sensitivity: float, floor: float, single: bool, role: str = "result") -> Quantity:
    """A quantity with its tolerance c · cond · eps. ``floor``: the condition of what the equations invert, ``single``: float32 inputs."""
    value = np.asarray(value, dtype=float)
    size = float(np.max(np.abs(value), initial=0))
    moved = max(sensitivity, floor * size)
    scale, cond = (size, moved / size) if size > 0 and C * moved / size * EPS["float64"] < 1e-3 else (moved or 1.0, 1.0)
    cond = max(cond, 1.0)
    tolerance: dict[str, float | None] = {dtype: C * cond * eps for dtype, eps in EPS.items()}
    if not single or C * cond * EPS["float32"] > LARGEST:
        tolerance["float32"] = None
    return Quantity(
        name, equation, value, _short(scale), _short(cond), {k: None if t is None else _short(t) for k, t in tolerance.items()}, role
    )


def _short(x: float) -> float:
    """Three digits are enough for a tolerance; rounded up."""
    return float(f"{x * 1.0005:.3e}")


def fits_float32(value: Any) -> bool:
    """Whether every number of the input is a float32."""
    if isinstance(value, dict):
        return all(fits_float32(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return all(fits_float32(v) for v in value)
    return not isinstance(value, np.ndarray) or bool(np.all(value.astype(np.float32).astype(float) == value))


def as_dict(state: State) -> dict[str, Array]:
    return {k: np.asarray(v) for k, v in state._asdict().items()}


Values = dict[str, Array]


def bits(state: State) -> Values:
    """The float64 values of an exact state by the names of the quantities, each number rounded once, W Wᵀ after its product."""
    return precise.rounded(precise.quantities(state))


# --- L0 -----------------------------------------------------------------------------------------------------------------------------


def steps() -> Iterator[Case]:
    """Every method from a prior, an iterate and (g, G)."""
    for name in NAMES:
        if name not in NOT_DERIVED:
            for variant in step_variants(name):
                yield step_case(name, variant)
    for name in NAMES:
        yield from step_refusals(name)


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
    """With G = −S Sᵀ bong and blr in natural parameters, and bog in DLR, add something positive to a precision: that cannot be lost."""
    rule, h1, h2, family = name.split("-")
    natural = rule in ("bong", "blr") and not family.endswith("_mom")
    return (h1, h2) == ("mc", "hess") or not (natural or (rule, family) == ("bog", "dlr"))


def step_case(name: str, variant: str) -> Case:
    rule, h1, h2, family = name.split("-")
    hess, case_id = f"{h1}-{h2}", f"step/{name}/{variant}"
    rng = generator(case_id)
    P, R = (3, 2) if variant in ("wide", "alpha-one") else (6, 2) if family == "dlr" else (5, 2)
    R = P if variant == "rank-full" else R
    K = {"mc-hess": 0, "mc-ef": 4, "lin-hess": 4 if variant == "wide" else 1 if variant == "plain" else 2, "lin-ef": 1}[hess]
    alpha = None if rule == "bong" else 1.0 if variant == "alpha-one" else 0.25
    sizes = [k % 8 - 5 for k in range(64)] if variant == "lost" else list(range(0, 24, 2))  # of G, 4^−size, until it is lost or kept
    for size in sizes:
        if variant == "ill-conditioned":
            prior = ill_conditioned(rng, family, P, R)
            current = _beside(rng, prior)
        else:
            wide = -2 if variant == "lost" and family == "dlr" else 0
            prior = draw_state(rng, family, P, R, wide, zero_W=variant == "zero-W")
            current = draw_state(rng, family, P, R, wide)
        current = prior if rule in ("bong", "bog") else current
        if variant == "lost" and size % 2:
            prior = prior._replace(mu=4 * prior.mu)
        curv = draw_curv(rng, hess, P, K, size, zero=variant == "zero-gradient", convex=variant == "lost" and bool(rng.integers(2)))
        out = _step(name, prior, current, curv, alpha)
        if is_valid(out) == (variant != "lost") and _gap(name, prior, current, curv, alpha) > 1.2:
            break
    else:
        raise AssertionError(f"{case_id}: no such problem was found")
    params: dict[str, Any] = {} if alpha is None else {"alpha": alpha}
    if family == "dlr":
        params["rank"] = R
    given = {"prior": as_dict(prior), "current": as_dict(current), "curv": curv, "params": params}
    flags = ["low-rank-G" if "S" in curv else "dense-G", "ill-conditioned" if variant == "ill-conditioned" else ""]
    flags += ["current-not-prior"] if rule in ("blr", "bbb") else []
    flags += [] if alpha is None else ["alpha-one" if alpha == 1 else "alpha-not-one"]
    flags += ["C-many" if K > 1 else "C-one"] if hess == "lin-hess" else []
    flags += ["many-samples", "P-less-than-M" if P < K else "P-more-than-M"] if hess == "mc-ef" else []
    if family == "dlr":
        flags += ["zero-W"] if variant == "zero-W" else []
        flags += ["rank-full" if R == P else "rank-truncated"] if rule in ("bong", "blr") else []
    flags += [{"zero-gradient": "zero-gradient", "lost": "lost-positive-definite"}.get(variant, "")]
    result = "not positive definite" if variant == "lost" else "value"
    sens = of_step(name, given, alpha, [prior, current, *([rounded_state(out)] if result == "value" else [])])
    expected = state_quantities(name, bits(out), sens, given)
    return Case(case_id, "step", {"method": name}, tuple(f for f in flags if f), given, result, expected)


def state_quantities(name: str, values: Values, sens: Sensitivity, given: dict[str, Any], prefix: str = "") -> tuple[Quantity, ...]:
    """The quantities of a state of a method, in the order in which its equations compute them."""
    rule, *_, family = name.split("-")
    single = fits_float32(given)
    return tuple(
        quantity(prefix + q, eq, values[q], sens.change[prefix + q], sens.floor, single) for q, eq in EQUATIONS[rule, family].items()
    )


def rounded_state(state: State) -> State:
    return precise.rounded(state)


def _beside(rng: np.random.Generator, q: State) -> State:
    """Another state of the same conditioning."""
    mu = q.mu + dyadic(rng, len(q.mu), -8, 8, 5)
    if isinstance(q, FC):
        return FC(mu, q.Sigma / 2)
    if isinstance(q, Diag):
        return Diag(mu, q.var / 2)
    return DLR(mu, q.Ups * 2, q.W + dyadic(rng, q.W.shape, -4, 4, 3))


def _step(name: str, prior: State, current: State, curv: dict[str, Array], alpha: float | None) -> State:
    """The exact result; where roots enter, from two precisions that agree when they are rounded."""
    one = Curv(curv["g"], S=curv["S"]) if "S" in curv else Curv(curv["g"], G=curv["G"])
    if STATES[name.split("-")[-1]] is DLR and name.split("-")[0] in ("bong", "blr"):
        return precise.stable(lambda: precise.step(name, prior, current, one, 1 if alpha is None else alpha))
    return exact.step(method(name, **({} if alpha is None else {"alpha": alpha})), prior, current, one)


def _gap(name: str, prior: State, current: State, curv: dict[str, Array], alpha: float | None) -> float:
    """The ratio of the last singular value that the projection keeps to the first that it drops."""
    if not isinstance(prior, DLR) or name.split("-")[0] in ("bog", "bbb"):
        return np.inf
    from .. import dlr

    one = Curv(curv["g"], S=curv["S"])
    W = (dlr._bong_tilde(prior, one) if alpha is None else dlr._blr_tilde(prior, current, one, alpha))[1]  # type: ignore[arg-type]
    s, R = np.linalg.svd(W, compute_uv=False), prior.W.shape[1]
    return float(s[R - 1] / s[R]) if R < len(s) and s[R] > 1e-12 * s[0] else np.inf


def step_refusals(name: str) -> Iterator[Case]:
    """What must be refused: a prior that is no Gaussian, alpha > 1 in blr-dlr, the names that are not derived."""
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
            params: dict[str, Any] = {} if rule == "bong" else {"alpha": 1.5 if flag == "alpha-too-large" else 0.25}
            if family == "dlr":
                params["rank"] = 2
            start = prior if rule in ("bong", "bog") else current
            given = {"prior": as_dict(prior), "current": as_dict(start), "curv": curv, "params": params}
            yield Case(case_id, "step", {"method": name}, (flag,), given, "refuse", ())


def _indefinite(q: State) -> State:
    if isinstance(q, FC):
        return q._replace(Sigma=q.Sigma - 4 * np.eye(len(q.mu)))
    if isinstance(q, Diag):
        return q._replace(var=q.var * np.array([1, -1, 1, 1]))
    return q._replace(Ups=q.Ups * np.array([1, -8, 1, 1]), W=0 * q.W)


# --- L1 -----------------------------------------------------------------------------------------------------------------------------

# name -> (model, likelihood, more)
ZERO, SATURATED, BATCH = "zero-gradient", "saturated", "batch"


def setting(name: str) -> tuple[models.Model, dict[str, Any], list[str]]:
    """The models and likelihoods of the cases, by name."""
    correlated = np.array([[0.5, 0.25], [0.25, 1.0]])
    settings: dict[str, tuple[models.Model, dict[str, Any], list[str]]] = {
        "line": (models.linear(3), {"kind": "gaussian", "R": np.array([[0.25]])}, ["C-one"]),
        "plane": (models.linear(2, 2, bias=True), {"kind": "gaussian", "R": correlated}, ["C-many", "correlated-R"]),
        "curve": (models.mlp([1, 2, 2], "tanh"), {"kind": "gaussian", "R": correlated}, ["C-many", "correlated-R"]),
        "logistic": (models.linear(2, 1, bias=True), {"kind": "bernoulli"}, ["C-one"]),
        "labels": (models.mlp([2, 2, 2], "gelu"), {"kind": "bernoulli"}, ["C-many"]),
        "softmax": (models.linear(2, 3), {"kind": "categorical"}, ["C-many", "singular-R"]),
        "classes": (models.mlp([2, 2, 3], "relu"), {"kind": "categorical"}, ["C-many", "singular-R"]),
        "counts": (models.mlp([2, 2, 1], "gelu_tanh"), {"kind": "poisson"}, ["C-one"]),
        "rates": (models.linear(2, 2), {"kind": "poisson"}, ["C-many"]),
        "image": (models.cnn((4, 4, 1), 2, (1,), (3, 3), 2, "relu"), {"kind": "categorical"}, ["C-many", "singular-R", "convolution"]),
    }
    model, lik, flags = settings[name]
    return model, lik, [lik["kind"], *flags]


def observe(rng: np.random.Generator, model: models.Model, lik: dict[str, Any], theta: Array, B: int | None = None) -> tuple[Array, Array]:
    """An input and an observation near what the model says, (…) or with a leading B."""
    C = model.n_outputs
    assert model.in_shape is not None and C is not None
    x = dyadic(rng, (B or 1, *model.in_shape), -8, 8, 3)
    y = np.zeros((B or 1, C))
    for i in range(len(x)):
        if lik["kind"] == "gaussian":
            y[i] = np.round(model(theta, x[i]) * 8) / 8 + dyadic(rng, C, -6, 6, 3)
        elif lik["kind"] == "categorical":
            y[i, rng.integers(C)] = 1
        else:
            y[i] = rng.integers(0, 2 if lik["kind"] == "bernoulli" else 4, size=C)
    return (x, y) if B is not None else (x[0], y[0])


def estimates() -> Iterator[Case]:
    """Every estimator on every setting; with saturated logits, a zero gradient, a mini-batch."""
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
    theta = _nonzero(rng, P) * (64 if variant == SATURATED else 1)
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
    given = {"model": vectors.model_spec(model), "likelihood": lik, "theta": theta, "x": x, "y": y, "samples": samples}
    curv = precise.stable(lambda: precise.quantities(precise.estimate(hess, given["model"], lik, theta, x, y, samples)))
    sens, single = of_estimate(hess, given), fits_float32(given)
    expected = tuple(quantity(q, eq, precise.rounded(curv[q]), sens.change[q], 1.0, single) for q, eq in ESTIMATES[hess].items())
    flags = [*flags, *([variant] if variant else [])]
    return Case(case_id, "estimate", {"hess": hess}, tuple(flags), given, "value", expected)


def _nonzero(rng: np.random.Generator, P: int) -> Array:
    """Parameters away from 0, so that no relu sits at its kink by accident."""
    return dyadic(rng, P, 2, 8, 3) * rng.choice([-1, 1], size=P)


# --- L2 -----------------------------------------------------------------------------------------------------------------------------

UPDATES = ("line", "curve", "softmax", "labels-saturated", "rates-batch")


def updates() -> Iterator[Case]:
    """Every method on a whole update: estimator, inner iterations, step."""
    for name in NAMES:
        if name not in NOT_DERIVED:
            for where in UPDATES:
                yield update_case(name, where)
    for name in NOT_DERIVED:
        yield update_refusal(name)


def problem(name: str, where: str, rng: np.random.Generator, tries: int, T: int | None = None) -> tuple[dict[str, Any], list[str]]:
    """A prior, an observation and samples for a method. What keeps it positive definite grows with ``tries``.

    That is a smaller prior, 4^−size, for bong, and a smaller learning rate for the others.
    """
    rule, h1, _, family = name.split("-")
    size = tries if rule == "bong" else 1
    where, _, variant = where.partition("-")
    model, lik, flags = setting(where)
    P = model.n_params
    rank = min(2, P)
    prior = draw_state(rng, family, P, rank, size)
    prior = prior._replace(mu=_nonzero(rng, P) * (32 if variant == SATURATED else 1))
    batch = 2 if variant == BATCH else None
    seen = [observe(rng, model, lik, prior.mu, batch) for _ in range(T or 1)]
    params: dict[str, Any] = {} if rule == "bong" else {"alpha": 0.25 / 2.0**tries}
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
    flags = [*flags, *([variant] if variant else []), *(["many-iterations", "alpha-not-one"] if n_iter > 1 else [])]
    given = {"model": vectors.model_spec(model), "likelihood": lik, "prior": as_dict(prior), "samples": samples, "params": params}
    if T:
        return {**given, "X": np.stack([x for x, _ in seen]), "Y": [y for _, y in seen]}, flags
    return {**given, "x": seen[0][0], "y": seen[0][1]}, flags


def update_case(name: str, where: str) -> Case:
    case_id, family = f"update/{name}/{where}", name.split("-")[-1]
    rng = generator(case_id)
    for tries in range(12):
        given, flags = problem(name, where, rng, tries)
        if keeps(name, {**given, "X": given["x"][None], "Y": given["y"][None], "samples": _one_step(given["samples"])}):
            break
    else:
        raise AssertionError(f"{case_id}: no problem that stays positive definite was found")
    call = lambda: precise.update(name, **{k: given[k] for k in vectors.CALLS["update"] if k != "method"})
    states, curvs = precise.stable(lambda: call()[1:])
    prior = vectors.state(family, given["prior"])
    sens = of_update(name, given, [prior, *(rounded_state(q) for q in states)])
    hess, single = "-".join(name.split("-")[1:3]), fits_float32(given)
    first = of_estimate(hess, {**given, "theta": prior.mu, "samples": None if given["samples"] is None else given["samples"][0]})
    seen = precise.rounded(precise.quantities(curvs[0]))
    seam = ("g", "diag G") if family.startswith("diag") else ("g", "G")
    on_the_way = tuple(quantity(q, ESTIMATES[hess][q], seen[q], first.change[q], 1.0, single, "intermediate") for q in seam)
    expected = (*on_the_way, *state_quantities(name, bits(states[-1]), sens, given))
    return Case(case_id, "update", {"method": name}, tuple(flags), given, "value", expected)


def _one_step(samples: Array | None) -> Array | None:
    return None if samples is None else samples[None]


def keeps(name: str, given: dict[str, Any]) -> bool:
    """Whether every iterate stays positive definite, far enough from the edge for float32 and for rounding."""
    family, moving = families(name), vectors.dynamics(given.get("dynamics", {"kind": "static"}))
    model, lik, q = vectors.model(given["model"]), vectors.likelihood(given["likelihood"]), vectors.state(family, given["prior"])
    with np.errstate(all="ignore"):
        for t, (x, y) in enumerate(zip(given["X"], given["Y"], strict=True)):
            q = propagate(q, moving)
            if y is not None:
                here = None if given["samples"] is None else given["samples"][t]
                inner = sensitivity.update(name, model, lik, q, x, y, here, given["params"], 0.0, np.random.default_rng(0))
                if not all(is_valid(one) for one in inner) or sensitivity.floor(inner) > 2**12:
                    return False
                q = inner[-1]
    return True


def update_refusal(name: str) -> Case:
    case_id = f"update/{name}/not-derived"
    given, _ = problem(name, "line", generator(case_id), 0)
    return Case(case_id, "update", {"method": name}, ("not-derived",), given, "refuse", ())


# --- L3 -----------------------------------------------------------------------------------------------------------------------------

STREAMS = ("plane", "softmax")
STEPS = 4


def streams() -> Iterator[Case]:
    """Every method on streams with moving parameters and a missing observation."""
    for name in NAMES:
        if name not in NOT_DERIVED:
            for where in STREAMS:
                yield stream_case(name, where)


def stream_case(name: str, where: str) -> Case:
    case_id, family = f"stream/{name}/{where}", name.split("-")[-1]
    rng = generator(case_id)
    for tries in range(12):
        given, flags = problem(name, where, rng, tries, STEPS)
        P = len(given["prior"]["mu"])
        size = tries if name.startswith("bong") else 1
        given["dynamics"] = _drift(rng, P, size) if where == "plane" else _ou(rng, P, size)
        if where == "plane":
            given["Y"][2] = None
        else:
            given["Y"] = np.stack(given["Y"])
        if keeps(name, given):
            break
    else:
        raise AssertionError(f"{case_id}: no problem that stays positive definite was found")
    states = precise.stable(lambda: _stream(name, given))
    sens = of_stream(name, given, [vectors.state(family, given["prior"]), *(rounded_state(q) for q in states)])
    kept = (1, 2, STEPS)
    expected = [q for t in kept for q in state_quantities(name, bits(states[t - 1]), sens, given, f"state[{t}].")]
    flags += ["dynamics", *(["missing"] if where == "plane" else [])]
    return Case(case_id, "stream", {"method": name}, tuple(flags), given, "value", tuple(expected))


def _stream(name: str, given: dict[str, Any]) -> list[State]:
    return precise.stream(name, **{k: given[k] for k in vectors.CALLS["stream"] if k != "method"})


def _ou(rng: np.random.Generator, P: int, size: int) -> dict[str, Any]:
    return {"kind": "ou", "gamma": 0.875, "mu0": dyadic(rng, P, -8, 8, 3), "var0": dyadic(rng, P, 4, 12, 3) / 4.0**size}


def _drift(rng: np.random.Generator, P: int, size: int) -> dict[str, Any]:
    return {"kind": "linear", "F": dyadic(rng, P, 6, 9, 3), "b": dyadic(rng, P, -4, 4, 4), "Q": dyadic(rng, P, 0, 4, 5) / 4.0**size}


# --- predict ------------------------------------------------------------------------------------------------------------------------


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
        moving = _full(rng, P) if kind == "full" else _ou(rng, P, 0) if kind == "ou" else _drift(rng, P, 0)
    given = {"state": as_dict(q), "dynamics": moving}
    out = precise.stable(lambda: precise.predict(family, q, moving))
    sens, single, values = of_predict(family, given, [q, rounded_state(out)]), fits_float32(given), bits(out)
    expected = tuple(quantity(k, PREDICT[k], values[k], sens.change[k], sens.floor, single) for k in values)
    flags = (*([] if kind == "static" else ["dynamics"]), *(["full-F"] if kind == "full" else []))
    return Case(case_id, "predict", {"family": family}, flags, given, "value", expected)


def _full(rng: np.random.Generator, P: int) -> dict[str, Any]:
    A = dyadic(rng, (P, P), -2, 2, 2)
    return {"kind": "linear", "F": np.eye(P) + dyadic(rng, (P, P), -2, 2, 3), "b": dyadic(rng, P, -4, 4, 4), "Q": A @ A.T / 4}


# --- L4 -----------------------------------------------------------------------------------------------------------------------------


def predictives() -> Iterator[Case]:
    """plugin, mc and lin_mc for every likelihood in every shape of belief."""
    for family in ("fc", "diag", "dlr"):
        for kind in PREDICTIVE:
            for where in ("curve", "logistic", "softmax", "classes", "counts"):
                yield predictive_case(kind, family, where)


def predictive_case(kind: str, family: str, where: str) -> Case:
    case_id = f"predictive/{kind}-{family}/{where}"
    rng, (model, lik, flags) = generator(case_id), setting(where)
    P, N, S = model.n_params, 6, 4
    q = draw_state(rng, family, P, 2, 2)._replace(mu=_nonzero(rng, P))
    X, Y = observe(rng, model, lik, q.mu, N)
    samples = None if kind == "plugin" else q.mu + dyadic(rng, (S, P), -6, 6, 6)
    given = {"model": vectors.model_spec(model), "likelihood": lik, "state": as_dict(q), "X": X, "samples": samples, "Y": Y}
    call = lambda: precise.predictive(kind, family, given["model"], lik, q, X, samples, Y)
    out = precise.stable(call)
    sens, single = of_predictive(kind, family, given), fits_float32(given)
    change = {**sens.change, "error": 0.0, "ece": sens.change["mean"]}
    names = [k for k in ("mean", "var", "log_density", "nlpd", "error", "ece") if k in out and _finite(out[k])]
    expected = tuple(
        quantity(k, PREDICTIVE[kind], precise.rounded(out[k]), change[k], 1.0, single, "result" if k == "mean" else "intermediate")
        for k in names
    )
    flags = [*flags, *(["many-samples"] if samples is not None else [])]
    return Case(case_id, "predictive", {"kind": kind, "family": family}, tuple(flags), given, "value", expected)


def _finite(value: Any) -> bool:
    return bool(np.all(np.isfinite(np.asarray(precise.rounded(value), dtype=float))))


# --- files --------------------------------------------------------------------------------------------------------------------------


def families(name: str) -> str:
    return name.split("-")[-1]


MAKERS: dict[str, Callable[[], Iterator[Case]]] = {
    "step": steps,
    "estimate": estimates,
    "update": updates,
    "stream": streams,
    "predictive": predictives,
    "predict": predictions,
}


def make(levels: Any = None, progress: Callable[[str, int], None] | None = None) -> dict[str, list[Case]]:
    """Every case from scratch, by the name of its file: one for each level, and for each family where there are many."""
    files: dict[str, list[Case]] = {}
    for level in vectors.check_levels(levels):
        for k, case in enumerate(MAKERS[level]()):
            part = f"{level}-{families(case.subject['method'])}" if "method" in case.subject else level
            files.setdefault(f"{part}.json", []).append(case)
            if progress:
                progress(case.id, k + 1)
    return files


def write(folder: Any, files: dict[str, list[Case]]) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, cases in files.items():
        vectors.write(Path(folder) / name, cases[0].level, cases, FLAGS)

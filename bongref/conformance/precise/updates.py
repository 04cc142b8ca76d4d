"""The estimators, steps, updates, predictions and streams, in mpf."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mpmath import mp

from ... import gaussians
from ...curvature import Curv, dense, diagonal
from ...errors import InvalidValue
from ...grid import MODULES, STATES, method
from ...linalg import Array, cholesky, eye, inv, solve, sym
from ...states import DLR, FC, Diag, State
from .jets import Jet, jet
from .likelihoods import info, info_factor, log_prob, score
from .numbers import average, diag, exactly, has_nan, invariants, working

# --- estimators -----------------------------------------------------------------------------------


def inputs(model: Mapping[str, Any], x: Any) -> list[Array]:
    """The inputs of x, one or a batch, each flat."""
    x, shape = exactly(x), tuple(model["in_shape"])
    forms = [shape]
    if model["kind"] == "cnn":
        forms += [(math.prod(shape),), *([shape[:2]] if shape[2] == 1 else [])]
    if x.shape in forms:
        return [x.reshape(-1)]
    if x.shape[1:] in forms:
        return [row.reshape(-1) for row in x]
    raise InvalidValue(f"x must have shape {shape}, or one leading dimension more, got {x.shape}")


def pairs(model: Mapping[str, Any], x: Any, y: Any) -> list[tuple[Array, Array]]:
    xs = inputs(model, x)
    ys = exactly(y).reshape(len(xs), -1)
    return list(zip(xs, ys, strict=True))


@working
def log_likelihood(
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    theta: Any,
    x: Any,
    y: Any,
    order: int = 2,
) -> Jet:
    """log p(y | x, θ), summed over a batch, with its gradient and Hessian in θ, as a jet.

    ∇² = Σ_c s_c ∇²f_c − Jᵀ info J with the score s.
    """
    value, grad, hess = mp.zero, None, None
    for xi, yi in pairs(model, x, y):
        o, J, H = jet(model, theta, xi, order)
        value = value + log_prob(likelihood, o, yi)
        if order > 0:
            s = score(likelihood, o, yi)
            one = J.T @ s
            grad = one if grad is None else grad + one
        if order > 1:
            two = sum(s[c] * H[c] for c in range(len(o))) - J.T @ info(likelihood, o) @ J
            hess = two if hess is None else hess + two
    J, H = (None if part is None else part[None] for part in (grad, hess))
    return Jet(np.array([value]), J, H)


@working
def estimate(
    hess: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    theta: Any,
    x: Any,
    y: Any,
    samples: Any = None,
) -> Curv:
    """(g, G) at theta (lin-*) or over the samples (M, P) (mc-*); G = −S Sᵀ but for mc-hess."""
    if hess == "lin-hess":
        g, S = mp.zero, []
        for xi, yi in pairs(model, x, y):
            o, J, _ = jet(model, theta, xi, 1)
            g = g + J.T @ score(likelihood, o, yi)
            S.append(J.T @ info_factor(likelihood, o))
        return Curv(g, S=np.concatenate(S, axis=1))
    if hess == "lin-ef":
        g = log_likelihood(model, likelihood, theta, x, y, 1).J[0]
        return Curv(g, S=g[:, None])
    if hess not in ("mc-hess", "mc-ef"):
        raise InvalidValue(f"hess must be mc-hess, mc-ef, lin-hess or lin-ef, got {hess!r}")
    jets = [
        log_likelihood(model, likelihood, t, x, y, 2 if hess == "mc-hess" else 1)
        for t in exactly(samples)
    ]
    ghat = np.stack([j.J[0] for j in jets])
    if hess == "mc-ef":
        return Curv(average(ghat), S=ghat.T / mp.sqrt(len(jets)))
    return Curv(average(ghat), G=sym(average(np.stack([j.H[0] for j in jets]))))


# --- states, steps, updates, streams --------------------------------------------------------------


def state(family: str, q: Any) -> State:
    """The dict or the state in mpf."""
    kind = STATES[family]
    parts = [exactly(q[f] if isinstance(q, Mapping) else getattr(q, f)) for f in kind._fields]
    if kind is FC:
        parts[1] = sym(parts[1])
    new: State = kind(*parts)
    return new


def curvature(curv: Any) -> Curv:
    """A dict or a Curv in mpf, with one form of G: S where it is given, or else G, or else d."""
    given = curv if isinstance(curv, Mapping) else curv._asdict()
    for key in ("S", "G", "d"):
        if given.get(key) is not None:
            value = exactly(given[key])
            return Curv(exactly(given["g"]), **{key: sym(value) if key == "G" else value})
    raise InvalidValue(f"curv must have one of S, G, d, got {sorted(given)}")


@working
def quantities(x: Any) -> dict[str, Array]:
    """What may be compared of a state (W as "W W^T") or a curvature (g, G and "diag G")."""
    if isinstance(x, Curv):
        G = {} if x.S is None and x.G is None else {"G": dense(x)}
        return {"g": x.g, **G, "diag G": diagonal(x)}
    if isinstance(x, DLR):
        return invariants(x)
    return dict(x._asdict())


@working
def precision(q: State) -> Array:
    """Σ⁻¹, (P, P); of a diagonal state the vector 1/σ²."""
    if isinstance(q, Diag):
        return 1 / q.var
    return sym(inv(q.Sigma)) if isinstance(q, FC) else diag(q.Ups) + q.W @ q.W.T


@working
def covariance(family: str, q: Any) -> Array:
    """Σ, (P, P), of a state of any family."""
    now = state(family, q)
    if isinstance(now, FC):
        return sym(now.Sigma)
    return diag(now.var) if isinstance(now, Diag) else sym(inv(precision(now)))


@working
def is_valid(q: State) -> bool:
    """Whether the state is a Gaussian: no NaN, positive definite."""
    return not has_nan(q) and gaussians.is_valid(q)


@working
def step(method_name: str, prior: Any, current: Any, curv: Any, alpha: Any = 1) -> State:
    """The displayed form of the step; a division by 0 gives a state of NaN."""
    m = method(method_name)
    prior = state(m.family, prior)
    current = prior if current is None or m.rule in ("bong", "bog") else state(m.family, current)
    curv = curvature(curv)
    if has_nan(prior) or has_nan(current) or has_nan(curv):
        return _nan(prior)
    try:
        with np.errstate(invalid="ignore"):  # numpy warns of the NaN of a singular matrix
            out = getattr(MODULES[m.family], m.rule)(prior, current, curv, exactly(alpha))
    except ZeroDivisionError:  # a precision that is exactly 0 has no variance
        return _nan(prior)
    for name, a in zip(out._fields, out, strict=True):
        for v in a.flat:
            if isinstance(v, float) and v == v:
                raise AssertionError(f"{name} holds a float: the step code is not precise")
    new: State = type(out)(*(exactly(a) for a in out))
    return new


def _nan(q: State) -> State:
    return type(q)(*(np.full(a.shape, mp.nan, dtype=object) for a in q))


@working
def update(
    method_name: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    prior: Any,
    x: Any,
    y: Any,
    samples: Any = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[State, list[State], list[Curv]]:
    """The posterior, and state and curvature of each inner iteration; samples (I, M, P) for mc.

    An iterate that is not positive definite does not end the iterations; a NaN does.
    """
    m = method(method_name, **(params or {}))
    prior = current = state(m.family, prior)
    if m.hess.startswith("mc"):
        samples = exactly(samples)
        samples = samples[None] if samples.ndim == 2 else samples
        if len(samples) != m.n_iter:
            raise InvalidValue(f"samples must have shape ({m.n_iter}, M, P), got {samples.shape}")
    states: list[State] = []
    curvs: list[Curv] = []
    for i in range(m.n_iter):
        if has_nan(current):
            break
        curv = estimate(
            m.hess,
            model,
            likelihood,
            current.mu,
            x,
            y,
            samples[i] if m.hess.startswith("mc") else None,
        )
        current = step(m.name, prior, current, curv, m.params.get("alpha", 1))
        states.append(current)
        curvs.append(curv)
    return current, states, curvs


@working
def predict(family: str, now: Any, dynamics: Mapping[str, Any] | None) -> State:
    """N(F μ + b, F Σ Fᵀ + Q); an InvalidValue where it is not in the family."""
    q = state(family, now)
    if dynamics is None or dynamics["kind"] == "static" or has_nan(q):
        return q
    F, b, Q = _transition(dynamics, len(q.mu))
    mu = (F * q.mu if F.ndim == 1 else F @ q.mu) + b
    if isinstance(q, DLR):
        if F.ndim == 2 or Q.ndim == 2:
            raise InvalidValue("F and Q must be diagonal for the dlr family")
        return DLR(mu, *_predict_dlr(q, F, Q))
    if isinstance(q, Diag) and F.ndim == 1 and Q.ndim == 1:
        return Diag(mu, F * F * q.var + Q)
    F, Q = (diag(a) if a.ndim == 1 else a for a in (F, Q))
    Sigma = sym(F @ (q.Sigma if isinstance(q, FC) else diag(q.var)) @ F.T + Q)
    if isinstance(q, FC):
        return FC(mu, Sigma)
    if np.any(Sigma - diag(np.diag(Sigma)) != 0):
        raise InvalidValue("F Sigma F^T + Q must be diagonal for a diagonal family")
    return Diag(mu, np.diag(Sigma).copy())


def _transition(dynamics: Mapping[str, Any], P: int) -> tuple[Array, Array, Array]:
    """(F, b, Q), F and Q as (P,) where they are diagonal."""
    if dynamics["kind"] == "ou":
        gamma, mu0, var0 = (
            exactly(dynamics["gamma"]),
            _vector(dynamics["mu0"], P),
            _square(dynamics["var0"], P),
        )
        return _vector(gamma, P), (1 - gamma) * mu0, (1 - gamma) * (1 + gamma) * var0
    if dynamics["kind"] != "linear":
        raise InvalidValue(f"dynamics must be static, ou or linear, got {dynamics['kind']!r}")
    return _square(dynamics["F"], P), _vector(dynamics["b"], P), _square(dynamics["Q"], P)


def _vector(a: Any, P: int) -> Array:
    whole: Array = np.broadcast_to(np.asarray(exactly(a), dtype=object), (P,)).copy()
    return whole


def _square(given: Any, P: int) -> Array:
    a = exactly(given)
    if np.ndim(a) < 2:
        return _vector(a, P)
    full = bool(np.any(a - diag(np.diag(a)) != 0))
    return a if full else np.diag(a).copy()


def _predict_dlr(q: DLR, f: Array, Q: Array) -> tuple[Array, Array]:
    """Υ/n and a W with W Wᵀ = (fW/n) E⁻¹ (fW/n)ᵀ; n = f² + QΥ, E = I + Wᵀ (Q/n) W."""
    n = f * f + Q * q.Ups
    if not np.all(n > 0):
        raise InvalidValue(
            "F^2 + Q Ups must be > 0 for the precision to be again Ups + W W^T of the same rank"
        )
    E = eye(q.W.shape[1]) + q.W.T @ (q.W * (Q / n)[:, None])
    return q.Ups / n, solve(cholesky(sym(E)), (q.W * (f / n)[:, None]).T).T


@working
def stream(
    method_name: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    prior: Any,
    X: Sequence[Any],
    Y: Sequence[Any],
    samples: Any = None,
    dynamics: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> list[State]:
    """The T states of a stream: predict, then update with (X[t], Y[t]), unless Y[t] is None.

    samples (T, I, M, P) for mc.
    """
    family, out = method(method_name, **(params or {})).family, []
    q = state(family, prior)
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        q = predict(family, q, dynamics)
        if y is not None:
            q = update(
                method_name,
                model,
                likelihood,
                q,
                x,
                y,
                None if samples is None else samples[t],
                params,
            )[0]
        out.append(q)
    return out

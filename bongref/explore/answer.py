"""``respond(request) -> dict``: the one function that the explorer's page talks to.

A request has a model, a prior, a stream, the number of observations that are absorbed, and one or
two methods. The answer has the picture and its numbers: prior, likelihood, posterior, exact
posterior, KL divergences, and the equations of the last step. Both are plain JSON values.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .. import models
from .._version import __version__
from ..errors import InvalidValue, NotDerived, NotFinite
from ..filter import update
from ..gaussians import covariance, kl
from ..grid import Method, method
from ..likelihoods import Likelihood
from ..linalg import Array, inv
from ..states import DLR, FC, Diag, State
from ..theory.posteriors import kl_to_posterior
from .equations import equations, number, sources
from .exact import Exact, Target, Unresolved, exact
from .request import Choice, Gaussian, Refused, Request, checked, likelihood

STOPS = 41  # points of the likelihood along its direction
U = np.linspace(-4, 4, 61)  # the inputs at which predicted means are drawn
SHOWN = 100  # samples that are drawn
MODEL = models.linear(2)
RESOLVED = "such that a grid resolves the exact posterior of it and the stream"
FINITE = "a Gaussian whose KL from the exact posterior is finite"
SMALLER = "take a mean nearer to the data, smaller variances, or smaller x and y"
MARGINAL = "a diagonal family has no tilted ellipse: it starts from the prior's marginal variances"


def respond(request: Any) -> dict[str, Any]:
    """Answer one request of the explorer's page: a pure function of plain values.

    Parameters
    ----------
    request : dict
        All keys are optional. ``model``: "logistic", "linear" or "poisson"; ``noise``: the variance
        of y for "linear"; ``prior``: {"mean": [2], "cov": [2][2]}; ``stream``: {"x": [n][2],
        "y": [n]} or {"seed", "n"} to draw one; ``t``: the observations that are absorbed;
        ``methods``: one or two of {"rule", "hess", "family", "alpha", "n_iter", "n_samples",
        "rank"}; ``seed`` of the samples; ``guess``: a Gaussian whose KL is wanted; ``view``: [x0,
        x1, y0, y1].

    Returns
    -------
    dict
        ``stream t exact likelihood methods guess view``; or ``error`` with ``argument value allowed
        remedy message``, and nothing else. A method that the paper does not derive, or that loses
        positive definiteness, is no error: its ``status`` and ``reason`` say so.

    Examples
    --------
    >>> from bongref.explore import respond
    >>> a = respond({"model": "linear", "stream": {"x": [[1, 0]], "y": [2]}, "t": 1, "noise": 1})
    >>> [round(v, 9) for v in a["methods"][0]["posterior"]["mean"]], a["methods"][0]["kl"] < 1e-9
    ([1.0, 0.0], True)
    >>> respond({"methods": [{"rule": "bong", "hess": "mc-hess", "family": "dlr"}]})["methods"][0][
    ...     "status"
    ... ]
    'not derived'
    """
    try:
        r = checked(request)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told
            return _answer(r)
    except Refused as error:
        return {"error": error.data}


def _answer(r: Request) -> dict[str, Any]:
    """The answer to a checked request."""
    try:
        x, y = _rows(r.x[: r.t]), tuple(r.y[: r.t].tolist())
        found = _exact(r.model, r.noise, _key(r.prior), x, y)
    except Unresolved:
        raise Refused("prior", _gaussian(*r.prior), RESOLVED, SMALLER) from None
    guess = None
    if r.guess is not None:
        guess = {"kl": _kl(r, FC(*r.guess), found)}
        if not math.isfinite(guess["kl"]):
            raise Refused("guess", _gaussian(*r.guess), FINITE, SMALLER)
    return {
        "version": __version__,
        "model": r.model,
        "t": r.t,
        "stream": {"x": r.x.tolist(), "y": r.y.tolist()},
        "view": list(r.view),
        "prior": _gaussian(r.prior.mean, r.prior.cov),
        "exact": {
            **_gaussian(found.mean, found.cov),
            "log_evidence": found.log_evidence,
            "error": found.error,
            "nodes": found.nodes,
            "contours": [np.round(c, 6).tolist() for c in found.contours],
        },
        "likelihood": _likelihood(r) if r.t else None,
        "methods": [_method(r, choice, found) for choice in r.methods],
        "guess": guess,
        "curve": _curve(r, found),
    }


def _key(q: Gaussian) -> tuple[float, ...]:
    return (*q.mean.tolist(), *q.cov.ravel().tolist())


def _rows(x: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in x.tolist())


@lru_cache(maxsize=64)
def _exact(model: str, noise: float, prior: Any, x: Any, y: Any) -> Exact:
    """The exact posterior; the last ones are kept, as a drag asks for the same one again."""
    q = Gaussian(np.array(prior[:2]), np.array(prior[2:]).reshape(2, 2))
    lik = likelihood(model, noise)
    return exact(Target(lik, q, np.array(x, dtype=float).reshape(-1, 2), np.array(y, dtype=float)))


def _gaussian(mean: Array, cov: Array) -> dict[str, Any]:
    return {"mean": mean.tolist(), "cov": cov.tolist()}


def _kl(r: Request, q: State, found: Exact) -> float:
    """KL(q | exact posterior), in nats."""
    prior = FC(*r.prior)
    full = q if isinstance(q, Diag) else FC(q.mu, covariance(q))
    if r.t == 0:
        return float(kl(full, prior))
    return kl_to_posterior(r.lik, prior, r.x[: r.t], r.y[: r.t], full, found.log_evidence)


def _likelihood(r: Request) -> dict[str, Any]:
    """p(y_t | o) relative to its largest value in the view, along o = x_tᵀθ."""
    x, y = r.x[r.t - 1], r.y[r.t - 1]
    x0, x1, y0, y1 = r.view
    corners = np.array([[a, b] for a in (x0, x1) for b in (y0, y1)]) @ x
    o = np.linspace(corners.min(), corners.max(), STOPS)
    log_p = np.asarray(r.lik.log_prob(o[:, None], np.full((STOPS, 1), y))).reshape(STOPS)
    relative = np.exp(log_p - np.max(log_p))
    return {"x": x.tolist(), "y": float(y), "o": o.tolist(), "relative": relative.tolist()}


# --- a method on the stream -----------------------------------------------------------------------


def _method(r: Request, choice: Choice, found: Exact) -> dict[str, Any]:
    """The state before and after the last step, its KL and equations; or why there is none."""
    out: dict[str, Any] = {"name": choice.name, "params": dict(choice.params), "step": r.t}
    try:
        m = method(choice.name, **choice.params)
    except NotDerived as error:
        return {**out, "status": "not derived", "reason": str(error)}
    start, note = _start(m, r.prior)
    out |= {"note": note, "cost": m.cost}
    state, before, info = start, start, None
    for t in range(1, r.t + 1):
        before = state
        try:
            state, info = _step(choice, r, t, state)
        except NotFinite as error:
            return {**out, "status": "not finite", "reason": str(error), "step": t} | _prior(before)
        if not info.valid:
            reason = f"after observation {t} q is {info.reason} (inner iteration {info.iteration})"
            failed = {"status": info.reason, "reason": reason, "step": t}
            return {**out, **failed} | _prior(before) | _of_trace(m, before, info, state)
    shown = _of_trace(m, before, info, state) if info else _EMPTY
    try:
        kls = {"kl": _kl(r, state, found), "kl_prior": _kl(r, before, found)}
    except InvalidValue as error:  # Σ of a DLR state is computed, and may round to another matrix
        return (
            {**out, "status": "not positive definite", "reason": str(error)}
            | _prior(before)
            | shown
        )
    if not all(map(math.isfinite, kls.values())):
        reason = "KL(q | exact) is not finite: exp(o) overflows under q"
        return {**out, "status": "not finite", "reason": reason} | _prior(before) | shown
    out |= {"status": "ok", "reason": "", **_prior(before), **kls}
    out["posterior"] = _gaussian(state.mu, covariance(state))
    out["curve"] = _mean(r.lik, state.mu) if _has_curve(r) else None
    return out | shown


_EMPTY: dict[str, Any] = {"equations": [], "sources": [], "path": [], "samples": [], "form": ""}


def _prior(before: State) -> dict[str, Any]:
    return {"prior": _gaussian(before.mu, covariance(before))}


def _step(choice: Choice, r: Request, t: int, state: State) -> tuple[State, Any]:
    """One update in the displayed form, with its trace; the last ones are kept."""
    key = tuple(a.tobytes() for a in state), tuple(np.shape(a) for a in state)
    params = tuple(sorted(choice.params.items()))
    x, y = r.x[t - 1], float(r.y[t - 1])
    return _cached_step(
        _kind(state), key, choice.name, params, r.model, r.noise, tuple(x.tolist()), y, r.seed, t
    )


def _kind(state: State) -> Any:
    return type(state)


@lru_cache(maxsize=512)
def _cached_step(
    kind: Any,
    key: Any, name: str, params: Any, model: str, noise: float, x: Any, y: float,
    seed: int, t: int,
) -> tuple[State, Any]:  # fmt: skip
    arrays = [np.frombuffer(b).reshape(s) for b, s in zip(*key, strict=True)]
    rng = np.random.default_rng([seed, t])  # each step has its own samples, whatever came before
    m = method(name, **dict(params))
    return update(
        m,
        MODEL,
        likelihood(model, noise),
        kind(*arrays),
        np.array(x),
        y,
        rng=rng,
        trace=True,
        form="plain",
    )


def _of_trace(m: Method, before: State, info: Any, state: State) -> dict[str, Any]:
    fields = dict(zip(before._fields, before, strict=True))
    path = [s.value for s in info.trace if s.name == "mu" and np.shape(s.value) == (2,)]
    samples = [s.value for s in info.trace if s.name == "theta"]
    return {
        "equations": equations(info.trace, fields, dict(m.params)),
        "sources": sources(info.trace),
        "path": [number(before.mu), *(number(mu) for mu in path)],
        "samples": np.round(samples[-1][:SHOWN], 6).tolist() if samples else [],
        "form": info.form,
        "result": {k: number(v) for k, v in zip(state._fields, state, strict=True)},
    }


def _start(m: Method, prior: Gaussian) -> tuple[State, str]:
    """The prior in the method's family, and a note where that changes it."""
    mean, cov = prior
    tilted = cov[0, 1] != 0
    if m.family in ("fc", "fc_mom"):
        return FC(mean, cov), ""
    if not tilted or m.family in ("diag", "diag_mom"):
        return m.prior(mean, np.diag(cov)), MARGINAL if tilted else ""
    return _low_rank(mean, inv(cov), m.params["rank"]), ""


def _low_rank(mean: Array, prec: Array, rank: int) -> DLR:
    """A tilted precision of two parameters as Υ + W Wᵀ, exactly, with one column of W."""
    c, ratio = float(prec[0, 1]), math.sqrt(prec[0, 0] / prec[1, 1])
    w = np.array([math.sqrt(abs(c) * ratio), math.copysign(math.sqrt(abs(c) / ratio), c)])
    W = np.zeros((2, rank))
    W[:, 0] = w
    return DLR(mean, np.diag(prec) - w**2, W)


# --- the picture of the data ----------------------------------------------------------------------


def _has_curve(r: Request) -> bool:
    return bool(np.all(r.x[:, 0] == 1))


def _curve(r: Request, found: Exact) -> dict[str, Any] | None:
    """E[y | u] at the exact posterior's mean along x = (1, u); None where x is something else."""
    return {"u": U.tolist(), "exact": _mean(r.lik, found.mean)} if _has_curve(r) else None


def _mean(lik: Likelihood, theta: Array) -> list[float]:
    at = lik.mean((theta[0] + theta[1] * U)[:, None])[:, 0]
    mean: list[float] = np.minimum(at, 1e6).tolist()
    return mean

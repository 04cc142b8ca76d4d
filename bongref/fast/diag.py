"""The diagonal families (sec:diag-Nat, sec:diag-Mom) in compiled code. Reference:
bongref.families.diag_nat and diag_mom.

A step is one pass over the parameters. d = diag(G) is never positive, since G = −S Sᵀ. A step in
the natural parameters is computed with one division: σ² = v/(1 − …) in place of 1/(1/v − …), which
is the same number to rounding.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

from ..states import Diag
from .generic import begin, implement, place, predict, step
from .jit import device
from .small import copy, zeros
from .status import NOT_POSITIVE_DEFINITE, OK


class State(NamedTuple):
    """N(mu, Diag(var))."""

    mu: Any  # (P,)
    var: Any  # (P,)


Prior = namedtuple("Prior", "mu prec")  # of blr and bbb: the mean and 1/σ² of q_{t|t-1}, (P,)
DiagBong = namedtuple("DiagBong", "alpha")
DiagBlr = namedtuple("DiagBlr", "alpha")
DiagBog = namedtuple("DiagBog", "alpha")
DiagBbb = namedtuple("DiagBbb", "alpha")
DiagBongMom = namedtuple("DiagBongMom", "alpha")
DiagBlrMom = namedtuple("DiagBlrMom", "alpha")
DiagBogMom = namedtuple("DiagBogMom", "alpha")
DiagBbbMom = namedtuple("DiagBbbMom", "alpha")
RULES = {
    "diag": {"bong": DiagBong, "blr": DiagBlr, "bog": DiagBog, "bbb": DiagBbb},
    "diag_mom": {"bong": DiagBongMom, "blr": DiagBlrMom, "bog": DiagBogMom, "bbb": DiagBbbMom},
}


# --- natural parameters ---------------------------------------------------------------------------


@device
def verdict(bad):
    """The status of a step, ``bad`` the sum of :func:`is_bad` over its entries."""
    return OK if bad == 0.0 else NOT_POSITIVE_DEFINITE


@device
def is_bad(mu, var):
    """0, or 1 where var is not positive, NaN where mu or var is not finite: no integer to count."""
    return (mu - mu) + (var - var) + (0.0 if var > 0.0 else 1.0)


@implement(step, DiagBong)
def bong(rule, prior, state, g, G, work):
    """Reference: diag_nat.bong."""
    mu, var, bad = state.mu, state.var, 0.0
    for p in range(len(mu)):
        v = var[p] / (1.0 - var[p] * G[p])  # eq:bong-diag-prec2, sec:diag-Nat#31
        m = mu[p] + v * g[p]  # sec:diag-Nat#28, sec:diag-Nat#30
        bad += is_bad(m, v)
        mu[p], var[p] = m, v
    return verdict(bad)


@implement(step, DiagBlr)
def blr(rule, prior, state, g, G, work):
    """Reference: diag_nat.blr."""
    mu, var, mu0, prec, alpha, bad = state.mu, state.var, prior.mu, prior.prec, rule.alpha, 0.0
    for p in range(len(mu)):
        v = var[p] / (1.0 - alpha + alpha * var[p] * (prec[p] - G[p]))  # eq:blr-diag-prec, sec:diag-Nat#37
        m = mu[p] + alpha * v * ((mu0[p] - mu[p]) * prec[p] + g[p])  # eq:blr-diag-mu, sec:diag-Nat#36
        bad += is_bad(m, v)
        mu[p], var[p] = m, v
    return verdict(bad)


@implement(step, DiagBog)
def bog(rule, prior, state, g, G, work):
    """Reference: diag_nat.bog."""
    mu, var, alpha, bad = state.mu, state.var, rule.alpha, 0.0
    for p in range(len(mu)):
        v, m = var[p], mu[p]
        ratio = 1.0 / (1.0 - 4.0 * alpha * v * v * m * g[p] - 2.0 * alpha * v * v * v * G[p])  # eq:bog-diag-prec, sec:diag-Nat#43
        m = ratio * m + alpha * ratio * v * v * g[p]  # eq:bog-diag-mu, sec:diag-Nat#42
        bad += is_bad(m, ratio * v)
        mu[p], var[p] = m, ratio * v
    return verdict(bad)


@implement(step, DiagBbb)
def bbb(rule, prior, state, g, G, work):
    """Reference: diag_nat.bbb."""
    mu, var, mu0, prec, alpha, bad = state.mu, state.var, prior.mu, prior.prec, rule.alpha, 0.0
    for p in range(len(mu)):
        v, m, u = var[p], mu[p], prec[p]
        slope = g[p] + (mu0[p] - m) * u
        change = 4.0 * alpha * v * m * slope + 2.0 * alpha * v * v * (G[p] - u) + 2.0 * alpha * v
        ratio = 1.0 / (1.0 - v * change)  # eq:bbb-diag-prec, sec:diag-Nat#49
        m = ratio * m + alpha * ratio * v * v * slope  # eq:bbb-diag-mu, sec:diag-Nat#48
        bad += is_bad(m, ratio * v)
        mu[p], var[p] = m, ratio * v
    return verdict(bad)


# --- moments --------------------------------------------------------------------------------------


@implement(step, DiagBongMom)
def bong_mom(rule, prior, state, g, G, work):
    """Reference: diag_mom.bong."""
    mu, var, bad = state.mu, state.var, 0.0
    for p in range(len(mu)):
        m = mu[p] + var[p] * g[p]  # eq:bong-diag-mom-mu, sec:diag-Mom#17
        v = var[p] + var[p] * var[p] * G[p]  # eq:bong-diag-mom-var, sec:diag-Mom#18
        bad += is_bad(m, v)
        mu[p], var[p] = m, v
    return verdict(bad)


@implement(step, DiagBlrMom)
def blr_mom(rule, prior, state, g, G, work):
    """Reference: diag_mom.blr."""
    mu, var, mu0, prec, alpha, bad = state.mu, state.var, prior.mu, prior.prec, rule.alpha, 0.0
    for p in range(len(mu)):
        v, u = var[p], prec[p]
        m = mu[p] + alpha * v * ((mu0[p] - mu[p]) * u + g[p])  # eq:blr-diag-mom-mu, sec:diag-Mom#21
        v = v + alpha * (v - v * v * u) + alpha * v * v * G[p]  # eq:blr-diag-mom-var, sec:diag-Mom#22
        bad += is_bad(m, v)
        mu[p], var[p] = m, v
    return verdict(bad)


@implement(step, DiagBogMom)
def bog_mom(rule, prior, state, g, G, work):
    """Reference: diag_mom.bog."""
    mu, var, alpha, bad = state.mu, state.var, rule.alpha, 0.0
    for p in range(len(mu)):
        m = mu[p] + alpha * g[p]  # eq:bog-diag-mom-mu, sec:diag-Mom#25
        v = var[p] + 0.5 * alpha * G[p]  # eq:bog-diag-mom-var, sec:diag-Mom#26
        bad += is_bad(m, v)
        mu[p], var[p] = m, v
    return verdict(bad)


@implement(step, DiagBbbMom)
def bbb_mom(rule, prior, state, g, G, work):
    """Reference: diag_mom.bbb."""
    mu, var, mu0, prec, alpha, bad = state.mu, state.var, prior.mu, prior.prec, rule.alpha, 0.0
    for p in range(len(mu)):
        v, u = var[p], prec[p]
        m = mu[p] + alpha * (mu0[p] - mu[p]) * u + alpha * g[p]  # eq:bbb-diag-mom-mu, sec:diag-Mom#29
        v = v + 0.5 * alpha * (1.0 / v - u) + 0.5 * alpha * G[p]  # eq:bbb-diag-mom-var, sec:diag-Mom#30
        bad += is_bad(m, v)
        mu[p], var[p] = m, v
    return verdict(bad)


# --- the rest of the family -----------------------------------------------------------------------


@implement(begin, DiagBlr, DiagBbb, DiagBlrMom, DiagBbbMom)
def begin_loop(rule, prior, state, work):
    """blr and bbb need the prior in every iteration."""
    copy(state.mu, prior.mu)
    for p in range(len(state.var)):
        prior.prec[p] = 1.0 / state.var[p]
    return OK


@implement(place, *RULES["diag"].values(), *RULES["diag_mom"].values())
def place_diag(rule, prior, state, z, work):
    """θ = μ + σ z. Reference: gaussians.place."""
    mu, var = state.mu, state.var
    for m in range(len(z)):
        row = z[m]
        for p in range(len(mu)):
            row[p] = mu[p] + math.sqrt(var[p]) * row[p]
    return OK


class DiagLinear(NamedTuple):
    """θ_t ~ N(F θ_{t-1} + b, Q) with diagonal F and Q."""

    F: Any  # (P,)
    b: Any  # (P,)
    Q: Any  # (P,)


@implement(predict, DiagLinear)
def predict_diag(dynamics, state, work):
    """Reference: dynamics.propagate."""
    F, b, Q, mu, var, bad = dynamics.F, dynamics.b, dynamics.Q, state.mu, state.var, 0.0
    for p in range(len(mu)):
        m = F[p] * mu[p] + b[p]  # sec:pseudocode#3
        v = F[p] * F[p] * var[p] + Q[p]  # sec:pseudocode#4
        bad += is_bad(m, v)
        mu[p], var[p] = m, v
    return verdict(bad)


def start(family: str, rule: str, alpha: float, state: Diag) -> tuple[Any, Prior, State, None]:
    """The rule, the prior's buffers, a copy of the state, and no workspace."""
    size = len(state.mu) if rule in ("blr", "bbb") else 0
    prior, now = Prior(zeros(size), zeros(size)), State(zeros(len(state.mu)), zeros(len(state.mu)))
    now.mu[:], now.var[:] = state.mu, state.var
    return RULES[family][rule](alpha), prior, now, None


def finish(rule: Any, state: State, work: None) -> Diag:
    """A copy of the state."""
    return Diag(state.mu.copy(), state.var.copy())

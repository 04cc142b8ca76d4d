"""Well-posed random problems: sizes and condition numbers are drawn by Hypothesis, numbers by a
seeded generator.
"""

from __future__ import annotations

import gc
import tracemalloc
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

import bongref as br
from bongref import paper
from bongref.curvature import Curv
from bongref.filter import unchecked_step
from bongref.grid import EFFICIENT, MODULES, NAMES, NOT_DERIVED, Method
from bongref.routes import compare
from bongref.states import DLR, FC, Diag, State

DERIVED = [name for name in NAMES if name not in NOT_DERIVED]
LOW_RANK = [name for name in DERIVED if "mc-hess" not in name]


class Problem(NamedTuple):
    m: Method
    prior: State
    current: State
    curv: Curv


class Size(NamedTuple):
    seed: int
    P: int
    R: int
    K: int
    log_cond: float


@st.composite
def sizes(draw, max_P=12, max_log_cond=6.0) -> Size:
    P = draw(st.integers(1, max_P))
    return Size(
        draw(st.integers(0, 2**32 - 1)),
        P,
        draw(st.integers(1, min(4, P))),
        draw(st.integers(1, 6)),
        draw(st.floats(0, max_log_cond)),
    )


def eigenvalues(rng, P, log_cond):
    """Between 10^(-log_cond/2) and 10^(log_cond/2), both ends taken when there is room."""
    lam = rng.uniform(-0.5, 0.5, P)
    if P > 1:
        lam[:2] = -0.5, 0.5
    return 10 ** (log_cond * rng.permutation(lam))


def spd(rng, P, log_cond):
    Q = np.linalg.qr(rng.standard_normal((P, P)))[0]
    A = (Q * eigenvalues(rng, P, log_cond)) @ Q.T
    return (A + A.T) / 2


def belief(family, rng, P, R=1, log_cond=1.0) -> State:
    mu = rng.standard_normal(P)
    if family in ("fc", "fc_mom"):
        return FC(mu, spd(rng, P, log_cond))
    if family in ("diag", "diag_mom"):
        return Diag(mu, eigenvalues(rng, P, log_cond))
    Ups = eigenvalues(rng, P, log_cond)
    return DLR(mu, Ups, rng.standard_normal((P, R)) * np.sqrt(np.median(Ups)))


def curvature(hess, family, rng, P, K) -> Curv:
    """(g, G) as the estimator would hand it over: low-rank, except for mc-hess, whose G is dense
    and may be indefinite.
    """
    g = rng.standard_normal(P)
    if hess == "lin-ef":
        return Curv(g, S=g[:, None].copy())
    if hess != "mc-hess":
        return Curv(g, S=rng.standard_normal((P, K)))
    G = rng.standard_normal((P, P))
    G = -(G @ G.T) / P + np.diag(rng.standard_normal(P)) / 2
    return (
        Curv(g, d=np.diag(G).copy()) if family in ("diag", "diag_mom") else Curv(g, G=(G + G.T) / 2)
    )


def make(name: str, size: Size, alpha: float | None = None) -> Problem:
    rng = np.random.default_rng(size.seed)
    params = {}
    if not name.startswith("bong"):
        params["alpha"] = 10 ** rng.uniform(-3, -0.1) if alpha is None else alpha
    if name.endswith("dlr"):
        params["rank"] = size.R
    m = br.method(name, **params)
    prior, current = (belief(m.family, rng, size.P, size.R, size.log_cond) for _ in range(2))
    return Problem(m, prior, current, curvature(m.hess, m.family, rng, size.P, size.K))


def plain(m):
    return lambda prior, current, curv: unchecked_step(m, prior, current, curv, "plain")[0]


def conditions(p: Problem) -> dict[str, float]:
    return compare.condition(plain(p.m), p.prior, p.current, p.curv)


def agree(
    got: State, wanted: State, cond: dict[str, float], what: str = "", whole: bool = False
) -> None:
    """Every quantity of two states agrees at c · cond · eps; a failure says which one does not, and
    by how much.
    """
    for diff in compare.differences(got, wanted, cond, whole=whole):
        assert diff.agrees, f"{what}: {diff}"


def functions(name: str, form: str = "plain"):
    """The functions that a step of the method runs through, for the marks of its equations."""
    rule, _, _, family = name.split("-")
    module = MODULES[family]
    names = [rule if form == "plain" else EFFICIENT.get((rule, family), rule)]
    if family == "dlr" and rule in ("bong", "blr"):
        names += [f"_{rule}_tilde", "project"]
    if family == "dlr" and rule == "bbb" and form != "plain":
        names += ["_bbb_from_terms", "_sandwich_lowrank"]
    return [getattr(module, n) for n in names]


def rows(name: str, fns) -> list[str]:
    """The equations of the method that these functions compute: those of their lines and of their
    decorators.
    """
    table = paper.equations()
    ids = {i for fn in fns for line in paper.line_symbols(fn).values() for i in line}
    ids |= {i for fn in fns for i in getattr(fn, "__equations__", ())}
    return sorted(i for i in ids if any(fnmatchcase(name, g) for g in table[i].methods))


def marked(names, form: str = "plain"):
    """The names as parameters of a test, each marked with the equations that its step computes."""
    return [pytest.param(n, marks=pytest.mark.eq(*rows(n, functions(n, form)))) for n in names]


def least_growth(call, periods=4) -> int:
    """The bytes by which memory grows in a period of calls, the least of some.

    Pools of small objects and other threads add bytes now and then; a leak adds them each time.
    """
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(periods + 1):
            call()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return min(int(b - a) for a, b in pairwise(sizes))

"""Every method by every route, on problems that the audit draws: ``bongref audit``.

For each of the 80 names and each likelihood a problem is drawn: a small network with P parameters and C outputs, an observation, a prior
and a current iterate of the family (which are not the same), samples. Then, each as a column of the table,

estimator    g and G of the estimator            against autograd of the (linearised) log-likelihood
definition   the step, displayed form            against autograd of E[ℓ] − KL, with the Fisher from first principles
exact        the step, displayed form            against the same in exact rationals (50 digits where the SVD enters)
efficient    the efficient form, where there is one, against the exact step
dense G      the step from G = −S Sᵀ             against the step from the dense G
update       a whole update, two inner iterations, against two iterations by definition

Each entry is the worst difference in units of the tolerance c · cond · eps of :mod:`bongref.routes.compare`: up to 1 is agreement.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from autograd import numpy as anp

from .. import models
from .._version import __version__
from ..curvature import Curv, dense
from ..filter import Draws, estimate, unchecked_step, unchecked_update
from ..gaussians import is_valid
from ..grid import EFFICIENT, NAMES, Method, NotDerived, method
from ..likelihoods import Bernoulli, Categorical, Gaussian, Poisson
from ..linalg import Array
from ..states import DLR, FC, Diag, State
from . import compare, definition, exact

ROUTES = ("estimator", "definition", "exact", "efficient", "dense G", "update")
DIGITS = 50
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222 }
table { border-collapse: collapse }
th, td { padding: 2px 9px; text-align: right; border-bottom: 1px solid #eee }
th:first-child { text-align: left; font-family: monospace; white-space: nowrap }
td.ok { background: #e4f4e4 }
td.bad { background: #f6c6c6; font-weight: bold }
td.na { color: #bbb }
td.no, td.w { text-align: left; color: #666 }
"""


class Row(NamedTuple):
    """The verdict on one name. ``units`` has the worst difference of each route that applies, in units of its tolerance."""

    name: str
    units: dict[str, float]
    worst: str  # what differed most, in words
    positive: str  # how many of the results are still positive definite
    refused: str = ""  # the reason, for a name that is not derived

    @property
    def agrees(self) -> bool:
        return not self.refused and all(u <= 1 for u in self.units.values())


class Problem(NamedTuple):
    model: Any
    lik: Any
    x: Array
    y: Array
    prior: State
    current: State
    samples: Array  # (I, M, P)


def audit(
    *, seed: int = 0, P: int = 6, C: int = 3, M: int = 3, R: int = 2, progress: Callable[[int, int], None] | None = None
) -> list[Row]:
    """One :class:`Row` for each of the 80 names."""
    rows = []
    for k, name in enumerate(NAMES):
        rows.append(_row(name, np.random.default_rng([seed, k]), P, C, M, R))
        if progress is not None:
            progress(k + 1, len(NAMES))
    return rows


def summary(rows: list[Row]) -> str:
    """The last line of the table."""
    derived = [r for r in rows if not r.refused]
    agree, refuse = sum(r.agrees for r in derived), len(rows) - len(derived)
    worst = max((max(r.units.values()) for r in derived if r.units), default=0.0)
    return f"{agree} of {len(derived)} methods agree by all routes, {refuse} refuse; worst difference {worst:.2g} of its tolerance"


# --- one name ------------------------------------------------------------------------------------------------------------------


def _row(name: str, rng: np.random.Generator, P: int, C: int, M: int, R: int) -> Row:
    try:
        m = method(name, **_parameters(name, M, R))
    except NotDerived as reason:
        return Row(name, {}, "", "", str(reason))
    units: dict[str, float] = {}
    worst, top, valid, total = "", -1.0, 0, 0
    for lik, n_out in _likelihoods(C, rng):
        problem = _draw(m, lik, n_out, P, rng)
        total += 1
        try:
            for route, diff in _compare(m, problem):
                units[route] = max(units.get(route, 0.0), diff.units)
                if diff.units > top:
                    top, worst = (
                        diff.units,
                        f"{route}, {lik.name}, {diff.quantity}: relative {diff.relative:.2g} (tolerance {diff.tolerance:.2g})",
                    )
            valid += is_valid(unchecked_step(m, problem.prior, problem.current, _curv(m, problem))[0])
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:  # a verdict on this name, not the end
            top, units["raised"] = float("inf"), float("inf")
            worst = f"{lik.name}: {type(error).__name__}: {error}"
    return Row(name, units, worst, f"{valid}/{total}")


def _parameters(name: str, M: int, R: int) -> dict[str, Any]:
    rule, mc, _, family = name.split("-")
    out: dict[str, Any] = {}
    if rule != "bong":
        out["alpha"] = 0.01 if rule != "blr" else 0.05 if family.endswith("_mom") else 0.3
    if rule in ("blr", "bbb"):
        out["n_iter"] = 2
    if mc == "mc":
        out["n_samples"] = M
    if family == "dlr":
        out["rank"] = R
    return out


def _likelihoods(C: int, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
    A = rng.standard_normal((C, C))
    yield Gaussian(var=A @ A.T / C + np.eye(C) / 4), C
    yield Bernoulli(), 1
    yield Categorical(), max(C, 2)
    yield Poisson(), C


def _draw(m: Method, lik: Any, n_out: int, P: int, rng: np.random.Generator) -> Problem:
    U, V = rng.standard_normal((P + 2, P)) / np.sqrt(P), rng.standard_normal((n_out, P + 2)) / np.sqrt(P + 2)
    model = models.wrap(lambda theta, x: anp.dot(V, anp.tanh(anp.dot(U, theta) + x)), P, n_outputs=n_out)
    x = rng.standard_normal(P + 2)
    prior, current = _belief(m, P, rng), _belief(m, P, rng)
    y = np.asarray(lik.sample(model(prior.mu, x), rng), dtype=float)
    samples = prior.mu + 0.5 * rng.standard_normal((m.n_iter, m.params.get("n_samples", 1), P))
    return Problem(model, lik, x, y, prior, current, samples)


def _belief(m: Method, P: int, rng: np.random.Generator) -> State:
    """A random state of the family: eigenvalues between 1/4 and 4, so that one step keeps it positive definite as a rule."""
    mu, lam = rng.standard_normal(P), np.exp(rng.uniform(np.log(0.25), np.log(4), P))
    if m.family in ("fc", "fc_mom"):
        Q = np.linalg.qr(rng.standard_normal((P, P)))[0]
        Sigma = (Q * lam) @ Q.T
        return FC(mu, (Sigma + Sigma.T) / 2)
    if m.family in ("diag", "diag_mom"):
        return Diag(mu, lam)
    return DLR(mu, lam, 0.5 * rng.standard_normal((P, m.params["rank"])))


def _curv(m: Method, p: Problem) -> Curv:
    q = p.prior if m.rule in ("bong", "bog") else p.current
    return estimate(m, p.model, p.lik, q, p.x, p.y, None, Draws(p.samples))


def _compare(m: Method, p: Problem) -> Iterator[tuple[str, compare.Difference]]:
    q = p.prior if m.rule in ("bong", "bog") else p.current
    curv = _curv(m, p)
    by_definition = definition.curv(m.hess, p.model, p.lik, p.x, p.y, q.mu, p.samples[0])
    yield "estimator", compare.difference("g", curv.g, by_definition.g, cond=10.0)
    G = dense(by_definition)
    yield "estimator", compare.difference("G", dense(curv), np.diag(np.diag(G)) if curv.d is not None else G, cond=10.0)

    plain = lambda prior, current, curv: unchecked_step(m, prior, current, curv, "plain")[0]
    cond = compare.condition(plain, p.prior, p.current, curv)
    got = plain(p.prior, p.current, curv)
    wanted = exact.rounded(exact.step(m, p.prior, p.current, curv, DIGITS))
    for diff in compare.differences(got, definition.step(m, p.prior, p.current, curv), cond, whole=True):
        yield "definition", diff
    for diff in compare.differences(got, wanted, cond):
        yield "exact", diff
    if curv.S is not None and (m.rule, m.family) in EFFICIENT:
        for diff in compare.differences(unchecked_step(m, p.prior, p.current, curv, "efficient")[0], wanted, cond):
            yield "efficient", diff
    if curv.S is not None:
        for diff in compare.differences(plain(p.prior, p.current, Curv(curv.g, G=dense(curv))), wanted, cond):
            yield "dense G", diff

    state, n = p.prior, 0
    while n < m.n_iter and is_valid(state):  # a lost positive definiteness is the end of it on either route
        state = definition.step(m, p.prior, state, _fit(m, definition.curv(m.hess, p.model, p.lik, p.x, p.y, state.mu, p.samples[n])))
        n += 1
    short = method(m, n_iter=n) if m.n_iter > 1 else m
    whole = lambda prior, samples: unchecked_update(short, p.model, p.lik, prior, p.x, p.y, None, Draws(samples))[0]
    cond = compare.condition(whole, p.prior, p.samples, draws=2)
    for diff in compare.differences(whole(p.prior, p.samples), state, cond, whole=True):
        yield "update", diff


def _fit(m: Method, curv: Curv) -> Curv:
    """Only the diagonal of G is there for MC-HESS in the diagonal families, and only the diagonal acts in the others of these."""
    return Curv(curv.g, d=np.diag(curv.G).copy()) if m.family in ("diag", "diag_mom") else curv


# --- the table ----------------------------------------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """The verdicts as text."""
    head = f"{'method':<24}" + "".join(f"{r:>11}" for r in ROUTES) + f"{'worst':>9}  {'pos.def.':<9}"
    lines = [head, "-" * len(head)]
    for row in rows:
        if row.refused:
            lines.append(f"{row.name:<24}  refuses: not derived in the paper (sec:DLR-deriv)")
            continue
        cells = "".join(f"{_cell(row.units.get(r)):>11}" for r in ROUTES)
        verdict = "" if row.agrees else f"DISAGREES: {row.worst}"
        lines.append(f"{row.name:<24}{cells}{_cell(max(row.units.values())):>9}  {row.positive:<9}{verdict}".rstrip())
    lines += [
        "-" * len(head),
        "worst relative difference of each route, in units of its tolerance c*cond*eps; '.' = does not apply",
        summary(rows),
    ]
    return "\n".join(lines)


def _cell(units: float | None) -> str:
    return "." if units is None else f"{units:.2g}" if units >= 1e-3 else "0" if units == 0 else "<.001"


def report(rows: list[Row], options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The verdicts as plain data, for JSON."""
    return {
        "bongref": __version__,
        "options": options,
        "seconds": round(seconds, 1),
        "summary": summary(rows),
        "agree": all(r.agrees for r in rows if not r.refused),
        "routes": list(ROUTES),
        "methods": [{**r._asdict(), "agrees": r.agrees} for r in rows],
    }


def write(path: str, rows: list[Row], options: dict[str, Any], seconds: float) -> None:
    """A report to PATH, JSON or HTML by its ending."""
    data = report(rows, options, seconds)
    Path(path).write_text(json.dumps(_finite(data), indent=1) if check_path(path) == ".json" else html(data), encoding="utf-8")


def _finite(data: Any) -> Any:
    """The same data with infinities as strings, which JSON has no numbers for."""
    if isinstance(data, dict):
        return {k: _finite(v) for k, v in data.items()}
    if isinstance(data, list):
        return [_finite(v) for v in data]
    return str(data) if isinstance(data, float) and not np.isfinite(data) else data


def check_path(path: str) -> str:
    """The ending of PATH, which says the form of the report."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".json", ".html"):
        raise ValueError(f"out must end in .json or .html, got {path!r}")
    if not Path(path).absolute().parent.is_dir():
        raise ValueError(f"out must be in a folder that exists, got {path!r}")
    return suffix


def html(data: dict[str, Any]) -> str:
    """The report as one page."""
    body = []
    for r in data["methods"]:
        if r["refused"]:
            body.append(f"<tr><th>{r['name']}</th><td colspan={len(ROUTES) + 2} class=no>refuses: {escape(r['refused'])}</td></tr>")
            continue
        cells = "".join(_html_cell(r["units"].get(route)) for route in data["routes"])
        body.append(f"<tr><th>{r['name']}</th>{cells}<td>{r['positive']}</td><td class=w>{escape(r['worst'])}</td></tr>")
    heads = "".join(f"<th>{r}</th>" for r in ("method", *data["routes"], "pos. def.", "largest difference"))
    options = ", ".join(f"{k} = {v}" for k, v in data["options"].items())
    return f"""<!doctype html><html lang=en><meta charset=utf-8><title>bongref audit</title><style>{STYLE}</style><h1>bongref audit</h1>
<p><b>{escape(data["summary"])}</b></p><p>bongref {data["bongref"]}; {options}; {data["seconds"]} s.
Each cell: the worst difference of the route in units of its tolerance c·cond·eps; up to 1 is agreement.</p>
<table><tr>{heads}</tr>{"".join(body)}</table></html>"""


def _html_cell(units: float | None) -> str:
    return "<td class=na>·</td>" if units is None else f"<td class={'ok' if units <= 1 else 'bad'}>{_cell(units)}</td>"


def timed(**options: Any) -> tuple[list[Row], float]:
    """The rows and the seconds that they took."""
    start = time.monotonic()
    return audit(**options), time.monotonic() - start

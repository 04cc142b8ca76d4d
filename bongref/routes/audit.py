"""Every method by every route, on problems that the audit draws: ``bongref audit``.

For each of the 80 names and each likelihood a problem is drawn: a small network with P parameters
and C outputs, an observation, a prior and a different current iterate of the family, samples. Then,
each as a column of the table,

estimator    g and G of the estimator          with autograd of the (linearised) log-likelihood
definition   the step, displayed form          with autograd of E[ℓ] − KL and a Fisher matrix from
                                               first principles
exact        the step, displayed form          with the same in exact rationals (50 digits where the
                                               SVD enters)
efficient    the efficient form, if there is   with the exact step
dense G      the step from the dense G         with the exact step from G = −S Sᵀ
update       a whole update, two iterations    with two iterations by definition

Each entry is the largest difference in units of the tolerance c · cond · eps of
:mod:`bongref.routes.compare`: up to 1 is agreement.

>>> from bongref.routes import audit
>>> audit.ROUTES
('estimator', 'definition', 'exact', 'efficient', 'dense G', 'update')
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from autograd import numpy as anp

from .. import checks, models, reports
from .._version import __version__
from ..curvature import Curv, dense
from ..errors import NotDerived
from ..filter import Draws, estimate, unchecked_step, unchecked_update
from ..gaussians import is_valid
from ..grid import EFFICIENT, NAMES, Method, method
from ..likelihoods import Bernoulli, Categorical, Gaussian, Poisson
from ..linalg import Array, qr
from ..reports import Block, Document, Inline, Span, Table, Text
from ..states import DLR, FC, Diag, State
from . import compare, definition, exact

ROUTES = ("estimator", "definition", "exact", "efficient", "dense G", "update")
DIGITS = 50
ENDINGS = (".json", ".html")


REFUSED = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)


class Row(NamedTuple):
    """The verdict on one name.

    Attributes
    ----------
    name : str
    units : dict of str to float
        The largest difference of each route, in units of its tolerance.
    worst : str
        What differed most, in words.
    positive : str
        How many of the results are still positive definite.
    refused : str
        The reason, for a name that is not derived.

    Examples
    --------
    >>> Row("bong-lin-hess-fc", {"exact": 0.1}, "", "4/4").agrees
    True
    """

    name: str
    units: dict[str, float]  # largest difference of each route, in units of its tolerance
    worst: str  # what differed most, in words
    positive: str  # how many of the results are still positive definite
    refused: str = ""  # the reason, for a name that is not derived

    @property
    def agrees(self) -> bool:
        """Whether every route agrees within its tolerance.

        Examples
        --------
        >>> Row("bong-lin-hess-fc", {"exact": 2.0}, "", "4/4").agrees
        False
        """
        return not self.refused and all(u <= 1 for u in self.units.values())


class Problem(NamedTuple):
    """A drawn problem of the audit.

    Attributes
    ----------
    model : Model
    lik : Likelihood
    x, y : ndarray
        One observation, y encoded.
    prior, current : FC, Diag or DLR
        The prior and an iterate of the inner loop.
    samples : ndarray, shape (I, M, P)
        Standard normals.

    Examples
    --------
    >>> Problem._fields[:2]
    ('model', 'lik')
    """

    model: Any
    lik: Any
    x: Array
    y: Array
    prior: State
    current: State
    samples: Array  # (I, M, P)


def audit(
    *,
    seed: int = 0,
    P: int = 6,
    C: int = 3,
    M: int = 3,
    R: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Every method by every route.

    Parameters
    ----------
    seed : int
        Of the problems that are drawn.
    P, C, M, R : int
        Parameters, outputs, Monte Carlo samples, rank of DLR.
    progress : callable, optional
        Called with the number of methods done and their total.

    Returns
    -------
    list of Row
        One for each of the 80 names.

    Raises
    ------
    InvalidValue, InvalidType
        As :func:`check_options`.
    """
    check_options(seed, P, C, M, R)
    rows = []
    for k, name in enumerate(NAMES):
        rows.append(_row(name, np.random.default_rng([seed, k]), P, C, M, R))
        if progress is not None:
            progress(k + 1, len(NAMES))
    return rows


def check_options(seed: int, P: int, C: int, M: int, R: int) -> None:
    """Refuse sizes of which no problem can be drawn.

    Parameters
    ----------
    seed, P, C, M, R : int
        As for :func:`audit`.

    Raises
    ------
    InvalidValue, InvalidType
        If one of them is not an integer of at least 1 (``seed``: 0), or R > P.

    Examples
    --------
    >>> check_options(seed=0, P=6, C=3, M=3, R=2)
    """
    checks.integer("seed", seed, 0)
    for name, size in {"P": P, "C": C, "M": M}.items():
        checks.integer(name, size, 1)
    checks.rank("R", R, P)


# --- one name -------------------------------------------------------------------------------------


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
                    top, worst = diff.units, f"{route}, {lik.name}, {_described(diff)}"
            curv = _curv(m, problem)
            valid += is_valid(unchecked_step(m, problem.prior, problem.current, curv)[0])
        except REFUSED as error:  # a verdict on this name, not the end of the audit
            top, units["raised"] = float("inf"), float("inf")
            worst = f"{lik.name}: {type(error).__name__}: {error}"
    return Row(name, units, worst, f"{valid}/{total}")


def _described(diff: compare.Difference) -> str:
    return f"{diff.quantity}: relative {diff.relative:.2g} (tolerance {diff.tolerance:.2g})"


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
    U = rng.standard_normal((P + 2, P)) / np.sqrt(P)
    V = rng.standard_normal((n_out, P + 2)) / np.sqrt(P + 2)
    net = lambda theta, x: anp.dot(V, anp.tanh(anp.dot(U, theta) + x))
    model = models.wrap(net, P, n_outputs=n_out)
    x = rng.standard_normal(P + 2)
    prior, current = _random_state(m, P, rng), _random_state(m, P, rng)
    y = np.asarray(lik.sample(model(prior.mu, x), rng), dtype=float)
    samples = prior.mu + 0.5 * rng.standard_normal((m.n_iter, m.params.get("n_samples", 1), P))
    return Problem(model, lik, x, y, prior, current, samples)


def _random_state(m: Method, P: int, rng: np.random.Generator) -> State:
    """A random state of the family; its eigenvalues are between 1/4 and 4.

    One step then keeps it positive definite as a rule.
    """
    mu, lam = rng.standard_normal(P), np.exp(rng.uniform(np.log(0.25), np.log(4), P))
    if m.family in ("fc", "fc_mom"):
        Q = qr(rng.standard_normal((P, P)))[0]
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
    wanted_G = np.diag(np.diag(G)) if curv.d is not None else G
    yield "estimator", compare.difference("G", dense(curv), wanted_G, cond=10.0)

    def plain(prior: State, current: State, curv: Curv) -> State:
        return unchecked_step(m, prior, current, curv, "plain")[0]

    cond = compare.condition(plain, p.prior, p.current, curv)
    got = plain(p.prior, p.current, curv)
    wanted = exact.rounded(exact.step(m, p.prior, p.current, curv, DIGITS))
    defined = definition.step(m, p.prior, p.current, curv)
    for diff in compare.differences(got, defined, cond, whole=True):
        yield "definition", diff
    for diff in compare.differences(got, wanted, cond):
        yield "exact", diff
    if curv.S is not None and (m.rule, m.family) in EFFICIENT:
        efficient = unchecked_step(m, p.prior, p.current, curv, "efficient")[0]
        for diff in compare.differences(efficient, wanted, cond):
            yield "efficient", diff
    if curv.S is not None:
        from_dense = plain(p.prior, p.current, Curv(curv.g, G=dense(curv)))
        for diff in compare.differences(from_dense, wanted, cond):
            yield "dense G", diff

    state, n = p.prior, 0
    while n < m.n_iter and is_valid(state):  # both routes end where positive definiteness is lost
        here = definition.curv(m.hess, p.model, p.lik, p.x, p.y, state.mu, p.samples[n])
        state = definition.step(m, p.prior, state, _fit(m, here))
        n += 1
    short = method(m, n_iter=n) if m.n_iter > 1 else m

    def whole(prior: State, samples: Array) -> State:
        return unchecked_update(short, p.model, p.lik, prior, p.x, p.y, None, Draws(samples))[0]

    cond = compare.condition(whole, p.prior, p.samples, draws=2)
    for diff in compare.differences(whole(p.prior, p.samples), state, cond, whole=True):
        yield "update", diff


def _fit(m: Method, curv: Curv) -> Curv:
    """The curvature that a family uses: only the diagonal of G in the diagonal families."""
    return Curv(curv.g, d=np.diag(curv.G).copy()) if m.family in ("diag", "diag_mom") else curv


# --- the report -----------------------------------------------------------------------------------


def summary(rows: list[Row]) -> str:
    """The verdict in one line.

    Parameters
    ----------
    rows : list of Row

    Returns
    -------
    str

    Examples
    --------
    >>> "1" in summary([Row("bong-lin-hess-fc", {"exact": 0.1}, "", "4/4")])
    True
    """
    derived = [r for r in rows if not r.refused]
    agree, refuse = sum(r.agrees for r in derived), len(rows) - len(derived)
    worst = max((max(r.units.values()) for r in derived if r.units), default=0.0)
    return (
        f"{agree} of {len(derived)} methods agree by all routes, {refuse} refuse; "
        f"worst difference {worst:.2g} of its tolerance"
    )


def document(rows: list[Row], options: dict[str, Any], seconds: float) -> Document:
    """The verdicts as a report, for :func:`bongref.reports.write`."""
    agree = all(r.agrees for r in rows if not r.refused)
    said = ", ".join(f"{k} = {v}" for k, v in options.items())
    table = Table(
        ["method", *ROUTES, "pos.def.", "largest difference"],
        [_cells(r) for r in rows],
        id="methods",
        right=range(1, len(ROUTES) + 1),
    )
    body: list[Block] = [
        Text(summary(rows), status="pass" if agree else "fail"),
        Text(f"bongref {__version__}; {said}; {seconds:.1f} s. {MEANING}"),
        table,
    ]
    return Document("bongref audit", body, data=_data(rows, options, seconds))


MEANING = (
    "Each cell is the largest difference of the route in units of its tolerance c·cond·eps: up to "
    "1 is agreement, '.' does not apply. pos.def. is in how many of the problems the result is "
    "still positive definite."
)


def table(rows: list[Row]) -> str:
    """The verdicts as text, the summary last.

    Parameters
    ----------
    rows : list of Row

    Returns
    -------
    str

    Examples
    --------
    >>> "bong-lin-hess-fc" in table([Row("bong-lin-hess-fc", {"exact": 0.1}, "", "4/4")])
    True
    """
    head = (
        f"{'method':<24}" + "".join(f"{r:>11}" for r in ROUTES) + f"{'worst':>9}  {'pos.def.':<9}"
    )
    lines = [head, "-" * len(head)]
    for row in rows:
        if row.refused:
            lines.append(f"{row.name:<24}  refuses: not derived in the paper (sec:DLR-deriv)")
            continue
        cells = "".join(f"{_number(row.units.get(r)):>11}" for r in ROUTES)
        verdict = "" if row.agrees else f"DISAGREES: {row.worst}"
        worst = f"{_number(max(row.units.values())):>9}"
        lines.append(f"{row.name:<24}{cells}{worst}  {row.positive:<9}{verdict}".rstrip())
    meaning = "largest relative difference of each route, in units of its tolerance c*cond*eps"
    return "\n".join([*lines, "-" * len(head), f"{meaning}; '.' = does not apply", summary(rows)])


def _cells(row: Row) -> list[Inline]:
    if row.refused:
        return [row.name, Span(f"refuses: {row.refused}", style="soft")]
    cells: list[Inline] = [Span(row.name, style="code")]
    for route in ROUTES:
        units = row.units.get(route)
        status = "" if units is None else "pass" if units <= 1 else "fail"
        cells.append(Span(_number(units), status=status))
    return [*cells, row.positive, Span(row.worst, style="soft")]


def _number(units: float | None) -> str:
    if units is None:
        return "."
    return f"{units:.2g}" if units >= 1e-3 else "0" if units == 0 else "<.001"


def _data(rows: list[Row], options: dict[str, Any], seconds: float) -> dict[str, Any]:
    return {
        "bongref": __version__,
        "options": options,
        "seconds": round(seconds, 1),
        "summary": summary(rows),
        "agree": all(r.agrees for r in rows if not r.refused),
        "routes": list(ROUTES),
        "methods": [{**r._asdict(), "agrees": r.agrees} for r in rows],
    }


def check_path(path: str) -> str:
    """The ending of a path for the report; an InvalidValue if none can be written there."""
    return reports.check_path(path, endings=ENDINGS)


def write(path: str, rows: list[Row], options: dict[str, Any], seconds: float) -> None:
    """Write the report to a file ending in .json or .html."""
    reports.write(path, document(rows, options, seconds), endings=ENDINGS)


def timed(**options: Any) -> tuple[list[Row], float]:
    """The rows and the seconds that they took."""
    start = time.monotonic()
    return audit(**options), time.monotonic() - start

"""Which finding explains a failing case: our formula with that cause is run on the case's own input
and compared with what was returned.

A finding applies to a case by its adapters, methods, levels and likelihoods in ``findings.json``;
``CAUSES`` says which piece of the computation its cause replaces. Where a case has several
findings, the smallest set of them that reproduces the answer is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from bongref import Curv, curvature
from bongref.conformance import answers, vectors
from bongref.conformance.vectors import Case
from bongref.dynamics import propagate
from bongref.grid import MODULES

from . import causes

# a cause must give what was returned to this part of what it explains, and better where the
# arithmetic allows it
FAR = 1e-3


class Pieces(NamedTuple):
    """What a cause replaces; None is the equation's."""

    step: Callable | None = None
    estimate: Callable | None = None
    update: Callable | None = None
    begin: Callable | None = None  # the update of the first observation
    observe: Callable | None = None
    move: Callable | None = None


class Explanation(NamedTuple):
    """The findings of a failing case, the functions that were run, and how far what they give is
    from what was returned.
    """

    findings: tuple[str, ...]
    functions: tuple[str, ...]
    difference: float | None  # None where nothing could be run
    how: str  # in words


# --- the pieces on a case -------------------------------------------------------------------------


def values(case: Case, pieces: Pieces) -> dict[str, np.ndarray]:
    """What these pieces give on a case, by the names of its quantities."""
    with np.errstate(all="ignore"):
        return answers.read(case, _answer(case, pieces), full=False)


def _answer(case: Case, pieces: Pieces) -> Any:
    given, level = case.input, case.level
    if level == "predict":
        return _move(
            pieces, vectors.state(case.subject["family"], given["state"]), given["dynamics"]
        )._asdict()
    name = case.subject["method"]
    family, params = name.split("-")[-1], given["params"]
    prior = vectors.state(family, given["prior"])
    if level == "step":
        c, current = given["curv"], vectors.state(family, given["current"])
        curv = Curv(c["g"], S=c["S"]) if "S" in c else Curv(c["g"], G=c["G"])
        return _step(pieces, name)(prior, current, curv, params.get("alpha", 1))._asdict()
    model, lik = vectors.model(given["model"]), vectors.likelihood(given["likelihood"])
    if level == "update":
        return _update(
            pieces,
            name,
            model,
            lik,
            prior,
            prior.mu,
            given["x"],
            given["y"],
            given["samples"],
            params,
        )._asdict()
    states: list[dict[str, Any]] = []
    for t, (x, y) in enumerate(zip(given["X"], given["Y"], strict=True)):
        before, prior = prior.mu, _move(pieces, prior, given["dynamics"])
        if y is not None:
            samples = None if given["samples"] is None else given["samples"][t]
            try:
                prior = _update(pieces, name, model, lik, prior, before, x, y, samples, params)
            except (ValueError, np.linalg.LinAlgError):
                if not states:
                    raise
                # what a cause made of the earlier observations cannot be gone on from
                lost = {key: np.full_like(value, np.nan) for key, value in states[-1].items()}
                return states + [lost] * (len(given["X"]) - t)
            pieces = pieces._replace(begin=None)
        states.append(prior._asdict())
    return states


def _update(
    pieces: Pieces, name: str, model, lik, prior, before, x, y, samples, params: dict[str, Any]
) -> Any:
    hess = "_".join(name.split("-")[1:3])
    y = lik.encode(y, model.n_outputs, batch=len(x) if model.is_batch(x) else None)
    current, step = prior, _step(pieces, name)
    whole = pieces.begin or pieces.update
    if whole or (pieces.observe and name == "bong-lin-hess-fc"):
        lin = (pieces.observe or _here)(model, lik, x, y, before, prior.mu)
        return (whole or _kalman)(prior, lin)
    for i in range(params.get("n_iter", 1)):
        at = current.mu if hess.startswith("lin") else samples[i]
        if pieces.observe:
            curv = causes.by_least_squares(
                pieces.observe(model, lik, x, y, current.mu, current.mu), hess == "lin_ef"
            )
        else:
            curv = (pieces.estimate or getattr(curvature, hess))(model, lik, x, y, at)
        current = step(prior, current, curv, params.get("alpha", 1))
    return current


def _here(model, lik, x, y, before, mu):
    return curvature.linearise(model, lik, x, y, mu)


def _kalman(prior, lin):
    return causes.jitter(prior, lin, 0.0)


def _step(pieces: Pieces, name: str) -> Callable:
    rule, *_, family = name.split("-")
    return pieces.step or getattr(MODULES[family], rule)


def _move(pieces: Pieces, state: Any, dynamics: dict[str, Any]) -> Any:
    return (pieces.move or propagate)(state, vectors.dynamics(dynamics))


# --- the causes of the findings -------------------------------------------------------------------


def _ef(case: Case) -> bool:
    return case.subject["method"].split("-")[2] == "ef"


def _eps(case: Case) -> float:
    """The ε of rebayes-mini's filters of an exponential family."""
    if case.input["likelihood"]["kind"] == "categorical":
        return 0.1
    return 1e-4 if case.subject["method"].endswith("-fc") else 0.0


# the findings, and the pieces of a case with their causes
CAUSES: list[tuple[tuple[str, ...], Callable[[Case], Pieces]]] = [
    (("bong-bog-fc",), lambda case: Pieces(step=causes.bog_fc_unsymmetric)),
    (("bong-bbb-fc",), lambda case: Pieces(step=causes.bbb_fc_unsymmetric)),
    (("bong-diag-gain",), lambda case: Pieces(step=causes.full_gain)),
    (("bong-bog-diag",), lambda case: Pieces(step=causes.bog_diag_scalar)),
    (("bong-blr-fc_mom",), lambda case: Pieces(step=causes.blr_fc_mom_sign)),
    (("bong-blr-diag_mom",), lambda case: Pieces(step=causes.blr_diag_mom_sign)),
    (("bong-bbb-dlr-W",), lambda case: Pieces(step=causes.bbb_dlr_sign)),
    (("bong-bbb-dlr-mu",), lambda case: Pieces(step=causes.bbb_dlr_cross)),
    (("bong-bbb-dlr-W", "bong-bbb-dlr-mu"), lambda case: Pieces(step=causes.bbb_dlr)),
    (("bong-softmax",), lambda case: Pieces(estimate=causes.softmax_jitter(1e-5, _ef(case)))),
    (("bong-sigmoid",), lambda case: Pieces(estimate=causes.sigmoid_clip(1e-5, _ef(case)))),
    (("bong-softmax-exact",), lambda case: Pieces(estimate=causes.singular_R)),
    (("bong-rounding",), lambda case: Pieces(observe=causes.sigmoid_rounded)),
    (("rebayes-diag-gain",), lambda case: Pieces(step=causes.full_gain)),
    (("rebayes-softmax",), lambda case: Pieces(estimate=causes.softmax_jitter(1e-3))),
    (("rebayes-softmax-exact",), lambda case: Pieces(estimate=causes.singular_R)),
    (("rebayes-scan",), lambda case: Pieces(move=causes.no_prediction)),
    (("rebayes-rounding",), lambda case: Pieces(observe=causes.sigmoid_rounded)),
    (("mini-lofi",), lambda case: Pieces(estimate=causes.cov_at_y)),
    (("mini-square-root",), lambda case: Pieces(estimate=causes.transposed_root)),
    (("mini-early",), lambda case: Pieces(observe=causes.early)),
    (("mini-expfam",), lambda case: Pieces(estimate=causes.expfam(_eps(case)))),
    (("mini-rvga",), lambda case: Pieces(step=causes.rvga)),
    (("dynamax-ekf",), lambda case: Pieces(update=causes.jitter)),
    (("dynamax-lgssm",), lambda case: Pieces(update=causes.jitter)),
    (("dynamax-diagonal",), lambda case: Pieces(update=causes.jitter_woodbury)),
    (("dynamax-parallel",), lambda case: Pieces(update=causes.jitter)),  # its first observation
    (
        ("dynamax-parallel-stream",),
        lambda case: Pieces(begin=causes.jitter, update=causes.jitter_R),
    ),
    (("dynamax-information",), lambda case: Pieces(update=causes.jitter_information)),
    (("dynamax-information-predict",), lambda case: Pieces(move=causes.jitter_information_predict)),
    (("dynamax-rounding",), lambda case: Pieces(observe=causes.sigmoid_rounded)),
    (("posteriors-dense",), lambda case: Pieces(step=causes.fisher_subtracted)),
    (("filterpy-predict_update",), lambda case: Pieces(observe=causes.stale_jacobian)),
    (("river-learn_many",), lambda case: Pieces(begin=causes.prior_precision_inverted)),
    (("receiver_torch-diag",), lambda case: Pieces(update=causes.kept_diagonal)),
    (("receiver_torch-early",), lambda case: Pieces(observe=causes.early)),
    (("receiver_torch-dlr-predict",), lambda case: Pieces(move=causes.precision_averaged)),
    (("receiver_torch-dlr-jitter",), lambda case: Pieces(update=causes.dlr_jitter)),
    (("nano-iterations",), lambda case: Pieces(step=causes.nano)),
]


def applies(finding: dict[str, Any], adapter: str, case: Case) -> bool:
    """Whether a finding is about this case: its adapters, methods, levels, likelihoods, flags."""
    kind = case.input.get("likelihood", {}).get("kind")
    words = [case.subject["method"]] if "method" in case.subject else list(case.subject.values())
    return (
        finding["verdict"] == "differs"
        and adapter in finding["adapters"]
        and any(fnmatchcase(word, glob) for word in words for glob in finding["methods"])
        and case.level in finding["levels"]
        and (not finding.get("likelihoods") or kind in finding["likelihoods"])
        and (not finding.get("flags") or set(finding["flags"]) <= set(case.flags))
    )


def candidates(
    findings: list[dict[str, Any]], adapter: str, case: Case
) -> Iterator[tuple[tuple[str, ...], Pieces]]:
    """The sets of causes that may explain a case, small ones first."""
    there = {f["id"] for f in findings if applies(f, adapter, case)}
    single = [(ids, make(case)) for ids, make in CAUSES if set(ids) <= there]
    for n in (1, 2, 3):
        for some in combinations(single, n):
            slots = [
                slot
                for _, pieces in some
                for slot, piece in zip(Pieces._fields, pieces, strict=True)
                if piece
            ]
            if len(set(slots)) == len(slots):
                merged = Pieces(
                    **{
                        slot: piece
                        for _, p in some
                        for slot, piece in zip(Pieces._fields, p, strict=True)
                        if piece
                    }
                )
                yield tuple(name for ids, _ in some for name in ids), merged


def explain(
    findings: list[dict[str, Any]],
    adapter: str,
    case: Case,
    got: Any,
    raised: str = "",
    slack: float = 0,
) -> Explanation | None:
    """The finding or findings behind a failing case, or None. ``got`` is what the adapter returned,
    ``raised`` what it raised instead.

    ``slack``: a difference that the arithmetic of the adapter explains (float32).
    """
    if case.result == "refuse":
        return _unchecked(findings, adapter, case, got)
    best: Explanation | None = None
    for ids, pieces in candidates(findings, adapter, case):
        names = tuple(function(piece) for piece in pieces if piece)
        try:
            made = values(case, pieces)
        except (ValueError, np.linalg.LinAlgError):
            continue
        if raised:
            if (low := _smallest(case, made)) is not None and low <= 0:
                return Explanation(
                    ids,
                    names,
                    None,
                    f"raises; the smallest eigenvalue of the formula's covariance is {low:.2g}",
                )
            continue
        sizes, left = _gaps(case, got, None), apart(case, got, made)
        finite = [size for size in sizes if np.isfinite(size)]  # the states before an overflow
        if left <= max(FAR * min(max(finite, default=0.0), 1), slack if finite else 0) and (
            best is None
            or (left < 1e-3 * (best.difference or 0) and len(ids) <= len(best.findings) + 1)
        ):
            words = [in_words(left)] if finite else []
            words += ["not finite, as in the formula"] if len(finite) < len(sizes) else []
            best = Explanation(ids, names, left if finite else None, ", then ".join(words))
    return best or _by_reason(findings, adapter, case)


def _by_reason(findings: list[dict[str, Any]], adapter: str, case: Case) -> Explanation | None:
    """A finding that has no formula, only a reason; those on what is not checked and on float32
    have their own conditions.
    """
    for f in findings:
        if (
            "reason" in f
            and f.get("kind") != "no validation"
            and not f["id"].endswith("-float32")
            and applies(f, adapter, case)
        ):
            return Explanation((f["id"],), (), None, f["reason"])
    return None


def in_words(left: float) -> str:
    return f"reproduced to {left:.1g}" if left > 1e-18 else "reproduced exactly"


def apart(case: Case, got: Any, made: dict[str, np.ndarray] | None) -> float:
    """The largest difference of an answer from ``made`` (None: from what the case wants), relative
    as in the case; 0 where both are NaN.
    """
    return max(_gaps(case, got, made), default=0.0)


def _gaps(case: Case, got: Any, made: dict[str, np.ndarray] | None) -> list[float]:
    """:func:`apart` of each quantity; inf where one of the two alone is finite."""
    there, out = answers.read(case, got, full=False), []
    for q in case.expected:
        if q.role != "result" or q.name not in there:
            continue
        a, b = there[q.name], q.value if made is None else made[q.name]
        if not np.all(np.isfinite(a)) or not np.all(np.isfinite(b)):
            out.append(0.0 if np.all(np.isfinite(a)) == np.all(np.isfinite(b)) else np.inf)
        else:
            out.append(float(np.max(np.abs(a - b))) / q.scale)
    return out


def _smallest(case: Case, made: dict[str, np.ndarray]) -> float | None:
    """The smallest eigenvalue of the covariances of an answer."""
    covariances = [v for name, v in made.items() if name.endswith("Sigma") and np.isfinite(v).all()]
    lowest = [float(np.linalg.eigvalsh((v + v.T) / 2)[0]) for v in covariances]
    return min(lowest, default=None)


def _unchecked(
    findings: list[dict[str, Any]], adapter: str, case: Case, got: Any
) -> Explanation | None:
    """A case that must be refused and was not: the equations, with the other causes, run on it
    without a check.
    """
    found = [
        f["id"] for f in findings if f.get("kind") == "no validation" and applies(f, adapter, case)
    ]
    if not found:
        return None
    for ids, pieces in [((), Pieces()), *candidates(findings, adapter, case)]:
        try:
            made = values(case, pieces)
            there = answers.read(case, got, full=False)
        except (ValueError, np.linalg.LinAlgError):
            continue
        left = max(
            float(np.max(np.abs(there[k] - v)) / max(np.max(np.abs(v)), 1e-300))
            for k, v in made.items()
            if k in there
        )
        if left < 1e-6:
            names = tuple(function(piece) for piece in pieces if piece)
            return Explanation(
                (*found, *ids),
                names,
                left,
                f"{in_words(left)} by the formula without a check of the input",
            )
    return Explanation(tuple(found), (), None, "not checked: the input is not refused")


def function(piece: Callable) -> str:
    """The name of a cause, without the arguments that made it."""
    return piece.__qualname__.partition(".")[0]

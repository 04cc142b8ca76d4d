"""Long streams on the compiled path: a million observations for diag and DLR, 100,000 for FC.

    python -m validation.long_streams             # writes results/long-streams.json (half an hour)
    python -m validation.long_streams --only fc   # one family of these
    python -m validation.long_streams --compare N # the recursion in long double for N steps
    python -m validation.long_streams --page      # only docs/long-streams.md, from the results

Every rule, with and without forgetting, inputs of one scale and of very different ones: a linear
regression with four parameters, of which DLR has the full rank, so that it too has a precise
answer. At 100, 1000, … steps the state is compared with the precise one in NumPy's long double (64
bits of mantissa where the machine has them: three digits more): for bong in FC and DLR without
forgetting Bayes' rule on all data at once, to the end; otherwise the same recursion, written here
from the equations for one observation at a time, for the first 100,000 steps, but for the
diagonal family, whose functions take any kind of number. Mean: the difference in standard
deviations of the posterior, in all directions together. Covariance: the largest relative difference
of a variance. Speed: CPU time of a step, and that of the last tenth of the stream relative to the
second; memory: how much the process grows from the first tenth to the end.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bongref as br
from bongref.families import diag_nat
from bongref.gaussians import covariance

LD = np.longdouble
P, NOISE, SEED = 4, 0.25, 20
STEPS = {"fc": 10**5, "dlr": 10**6, "diag": 10**6}
COMPARED = 10**5  # steps of the precise recursion
RUNAWAY = 1e6  # a mean beyond which the method, not the arithmetic, has diverged
ALPHA = {"blr": 0.5, "bog": 1e-3, "bbb": 1e-3}
SCALES = {
    "one scale": np.ones(P),
    "1e-3 to 1e3": np.array([1e-3, 1.0, 1e3, 30.0]),
    "1e-4 to 30": np.array([1e-4, 1e-2, 1.0, 30.0]),
}
WIDE = {"dlr": "1e-4 to 30"}  # the others: 1e-3 to 1e3; see the page
DYNAMICS = {"static": None, "forgetting": 0.999}
FILE = Path(__file__).parent / "results" / "long-streams.json"
PAGE = Path(__file__).parents[1] / "docs" / "long-streams.md"

Moments = tuple[Any, Any]  # mean (P,), covariance (P, P) or variances (P,), in long double


class Stream(NamedTuple):
    family: str
    rule: str
    dynamics: str
    scale: str

    @property
    def key(self) -> str:
        return " | ".join(self)


def streams(only: str = "") -> Iterator[Stream]:
    for family in STEPS:
        if only in ("", family):
            for rule in ("bong", "blr", "bog", "bbb"):
                for dynamics in DYNAMICS:
                    for scale in ("one scale", WIDE.get(family, "1e-3 to 1e3")):
                        yield Stream(family, rule, dynamics, scale)


def data(s: Stream) -> tuple[Any, Any]:
    rng, T = np.random.default_rng(SEED), STEPS[s.family]
    X = rng.standard_normal((T, P)) * SCALES[s.scale]
    return X, X @ rng.standard_normal(P) + np.sqrt(NOISE) * rng.standard_normal(T)


def marks(T: int) -> list[int]:
    return sorted({10**k for k in range(2, 7) if 10**k <= T} | {k * T // 10 for k in range(1, 11)})


# --- the compiled stream --------------------------------------------------------------------------


def compiled(s: Stream, T: int) -> tuple[dict[int, Any], dict[str, Any]]:
    """The states at the marks, and what became of the stream."""
    X, Y = data(s)
    params: dict[str, Any] = {} if s.rule == "bong" else {"alpha": ALPHA[s.rule]}
    params |= {"n_iter": 2} if s.rule in ("blr", "bbb") else {}
    params |= {"rank": P} if s.family == "dlr" else {}
    m = br.method(f"{s.rule}-lin-hess-{s.family}", **params)
    gamma = DYNAMICS[s.dynamics]
    moving = None if gamma is None else br.dynamics.OU(gamma=gamma, mu0=np.zeros(P), var0=1.0)
    states: dict[int, Any] = {}
    seen: list[tuple[int, float, int]] = []
    at = iter(marks(T))

    def note(m: Any, model: Any, lik: Any, state: Any, rng: Any) -> dict[str, float]:
        t = next(at)
        states[t] = state
        seen.append((t, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
        return {}

    args = m, br.models.linear(P), br.likelihoods.Gaussian(NOISE), prior(s)
    ended = ""
    try:
        result = br.run(*args, X, Y, dynamics=moving, backend="fast", every=marks(T), metrics=note)
        backend = result.info.backend
    except br.StreamEnded as error:
        ended, backend = f"{type(error).__name__} at step {error.step}", "fast"
    about = {"steps": T, "ended": ended, "backend": backend, **cost(seen, T)}
    return states, about


def prior(s: Stream) -> Any:
    if s.family == "fc":
        return br.FC(np.zeros(P), np.eye(P))
    if s.family == "diag":
        return br.Diag(np.zeros(P), np.ones(P))
    return br.DLR(np.zeros(P), np.full(P, 0.75), 0.5 * np.eye(P))


def cost(seen: list[tuple[int, float, int]], T: int) -> dict[str, float]:
    """Microseconds of a step, the slowest tenth relative to the second, growth in MB."""
    tenths = [row for row in seen if row[0] % (T // 10) == 0]
    if len(tenths) < 3:
        return {}
    each = np.diff([row[1] for row in tenths]) / (T // 10)
    grown = (tenths[-1][2] - tenths[1][2]) / 1024
    return {"us": 1e6 * float(np.median(each)), "last": float(each[-1] / each[0]), "MB": grown}


# --- the same in long double ----------------------------------------------------------------------


def inverse(A: Any) -> Any:
    """The inverse of a symmetric positive definite matrix, by Gauss and Jordan."""
    n = len(A)
    M = np.concatenate([A, np.eye(n, dtype=LD)], axis=1)
    for k in range(n):
        M[k] /= M[k, k]
        column = M[:, k].copy()
        column[k] = 0
        M -= column[:, None] * M[k]
    return (M[:, n:] + M[:, n:].T) / 2


def cholesky(A: Any) -> Any:
    """The lower factor."""
    L = np.zeros_like(A)
    for j in range(len(A)):
        L[j, j] = np.sqrt(A[j, j] - L[j, :j] @ L[j, :j])
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    return L


def fc_line(q0: Moments, x: Any, y: Any, alphas: list[float]) -> Moments:
    """bong (α = 1, once) and blr: the means lie on a line, Σ by Sherman and Morrison."""
    mu, Sigma = q0
    v, m, c = Sigma @ x, LD(0), LD(0)
    size, e0 = x @ v / LD(NOISE), y - x @ mu
    for a in alphas:
        alpha = LD(a)
        c = (1 - alpha) * c + alpha
        e = (e0 - m * (x @ v)) / LD(NOISE)
        m = m + alpha * (e - m) / (1 + c * size)
    return mu + m * v, Sigma - c / (1 + c * size) / LD(NOISE) * np.outer(v, v)


def curvature(q: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return x * ((y - x @ q) / LD(NOISE)), -np.outer(x, x) / LD(NOISE)


def fc_bog(q0: Moments, x: Any, y: Any, alphas: list[float]) -> Moments:
    (mu, S), a = q0, LD(alphas[0])
    (g, G), prec = curvature(mu, x, y), inverse(S)
    r = S @ g
    change = 2 * (np.outer(r, mu) + np.outer(mu, r)) + 2 * S @ G @ S
    new = inverse(prec - a * change)
    return new @ (prec @ mu) + a * new @ r, new


def fc_bbb(q0: Moments, x: Any, y: Any, alphas: list[float]) -> Moments:
    (mu0, S0), (mu, S) = q0, q0
    prec0 = inverse(S0)
    for a in map(LD, alphas):
        (g, G), prec = curvature(mu, x, y), inverse(S)
        r = S @ (g + prec0 @ (mu0 - mu))
        change = 2 * (np.outer(r, mu) + np.outer(mu, r)) + 2 * S + 2 * S @ (G - prec0) @ S
        new = inverse(prec - a * change)
        mu, S = new @ (prec @ mu) + a * new @ r, new
    return mu, S


def diagonal(rule: str) -> Callable[..., Moments]:
    """The functions of the diagonal family themselves, which take any kind of number."""
    fn = getattr(diag_nat, rule)

    def step(q0: Moments, x: Any, y: Any, alphas: list[float]) -> Moments:
        first = q = br.Diag(*q0)
        for a in alphas:
            d = -x * x / LD(NOISE)
            q = fn(first, q, br.Curv(x * ((y - x @ q.mu) / LD(NOISE)), d=d), LD(a))
        return q.mu, q.var

    return step


def dlr_gradient(rule: str) -> Callable[..., Any]:
    """bog and bbb of (μ, Υ, W) as displayed."""

    def step(q0: Any, x: Any, y: Any, alphas: list[float]) -> Any:
        mu0, U0, W0 = q = q0
        prec0 = np.diag(U0) + W0 @ W0.T
        for a in map(LD, alphas):
            mu, U, W = q
            (g, G), prec = curvature(mu, x, y), np.diag(U) + W @ W.T
            S = inverse(prec)
            D = S @ ((G if rule == "bog" else G - prec0 + prec) @ S)
            pull = 0 if rule == "bog" else prec0 @ (mu0 - mu)
            # bog: Υ − ½α diag(ΣGΣ), W − αΣGΣW; bbb: the same with G − Σ₀⁻¹ + Σ⁻¹
            q = mu + a * (pull + g), U - a * np.diag(D) / 2, W - a * D @ W
        return q

    return step


def steps_of(s: Stream) -> Callable[..., Any]:
    if s.family == "diag":
        return diagonal(s.rule)
    if s.rule in ("bong", "blr"):
        return fc_line
    if s.family == "dlr":
        return dlr_gradient(s.rule)
    return fc_bog if s.rule == "bog" else fc_bbb


def forget(s: Stream, q: Any) -> Any:
    """OU with μ₀ = 0, σ₀² = 1."""
    f = DYNAMICS[s.dynamics]
    if f is None:
        return q
    f = LD(f)
    noise = 1 - f * f
    if len(q) == 3:  # n = F² + QΥ: Υ/n, and (FW/n) E⁻¹ (FW/n)ᵀ with E = I + Wᵀ(Q/n)W
        mu, U, W = q
        n = f * f + noise * U
        E = np.eye(P, dtype=LD) + W.T @ (W * (noise / n)[:, None])
        return f * mu, U / n, W * (f / n)[:, None] @ cholesky(inverse(E))
    mu, S = q
    return f * mu, f * f * S + (noise if S.ndim == 1 else noise * np.eye(P, dtype=LD))


def precise(s: Stream, T: int) -> dict[int, Moments]:
    """The moments at the marks."""
    X, Y = (a[:T].astype(LD) for a in data(s))
    first = prior(s)
    full = s.family == "dlr" and s.rule in ("bog", "bbb")
    if full:
        q: Any = tuple(a.astype(LD) for a in first)
    else:
        cov = first.var if isinstance(first, br.Diag) else covariance(first)
        q = first.mu.astype(LD), cov.astype(LD)
    loop = 2 if s.rule in ("blr", "bbb") else 1
    step, alphas, out = steps_of(s), [ALPHA.get(s.rule, 1.0)] * loop, {}
    wanted = {*marks(STEPS[s.family]), T}
    with np.errstate(all="ignore"):
        for t in range(T):
            q = step(forget(s, q), X[t], Y[t], alphas)
            if t + 1 in wanted:
                out[t + 1] = (q[0], inverse(np.diag(q[1]) + q[2] @ q[2].T)) if full else q
    return out


def bayes(s: Stream, T: int) -> dict[int, Moments]:
    """The moments at the marks, by Bayes' rule on all data up to there."""
    X, Y = (a[:T].astype(LD) for a in data(s))
    out, last = {}, 0
    prec, right = np.eye(P, dtype=LD), np.zeros(P, dtype=LD)
    for t in (t for t in marks(STEPS[s.family]) if t <= T):
        some = X[last:t]
        prec, right, last = prec + some.T @ some / NOISE, right + some.T @ Y[last:t] / NOISE, t
        Sigma = inverse(prec)
        out[t] = Sigma @ right, Sigma
    return out


def errors(state: Any, wanted: Moments) -> tuple[float, float]:
    """Of the mean in standard deviations, of the variances relative."""
    mu, S = wanted
    off = state.mu.astype(LD) - mu
    if S.ndim == 1:
        got, var = state.var, S
        quad = np.sum(off**2 / S)
    else:
        got, var = br.gaussians.marginal_variance(state), np.diag(S)
        quad = off @ inverse(S) @ off
    return float(np.sqrt(abs(quad))), float(np.max(np.abs(got.astype(LD) / var - 1)))


# --- results and the page -------------------------------------------------------------------------


def measure(s: Stream, compare: int = COMPARED) -> dict[str, Any]:
    T = STEPS[s.family]
    states, about = compiled(s, T)
    at_once = s.rule == "bong" and s.dynamics == "static" and s.family != "diag"
    n = min(T if at_once else compare, max(states, default=0))
    exact = {} if n == 0 else bayes(s, n) if at_once else precise(s, n)
    rows = {t: errors(states[t], exact[t]) for t in states if t in exact}
    valid = all(br.gaussians.is_valid(q) for q in states.values())
    symmetric = all(np.array_equal(q[1], q[1].T) for q in states.values() if isinstance(q, br.FC))
    powers = {str(t): row for t, row in rows.items() if t in (100, 10**3, 10**4, 10**5, 10**6)}
    largest = max((float(np.max(np.abs(q.mu))) for q in states.values()), default=0.0)
    about["ended"] = about["ended"] or ("the mean diverges" if largest > RUNAWAY else "")
    about["confirmed"] = confirmed(s, about["ended"])
    return {**about, "errors": powers, "valid": valid, "symmetric": symmetric}


def confirmed(s: Stream, ended: str) -> bool:
    """Whether a stream that ends early does so in long double too: at the same step or before."""
    if not ended:
        return True
    name, _, step = ended.partition(" at step ")
    mu, S = precise(s, int(step) if step else 1000).popitem()[1]
    a = np.asarray(S if S.ndim == 2 else np.diag(S), dtype=float)
    if not np.all(np.isfinite(a)) or not np.all(np.isfinite(mu)):
        return True
    if name == "NotPositiveDefinite":
        return float(np.min(np.linalg.eigvalsh(a))) <= 0
    return float(np.max(np.abs(mu))) > RUNAWAY


def main(args: list[str]) -> int:
    warnings.simplefilter("ignore")
    only = args[args.index("--only") + 1] if "--only" in args else ""
    compare = int(args[args.index("--compare") + 1]) if "--compare" in args else COMPARED
    for s in streams(only) if "--page" not in args else ():
        found = measure(s, compare)
        results = json.loads(FILE.read_text()) if FILE.exists() else {}
        FILE.write_text(json.dumps({**results, s.key: found}, indent=1) + "\n")
        print(s.key, found, flush=True)
    PAGE.write_text(page(json.loads(FILE.read_text())), encoding="utf-8")
    return 0


HEAD = """# Streams of a million observations

Made by `python -m validation.long_streams` from `validation/results/long-streams.json`; the module
says how. Linear regressions with four parameters and lin-hess on the compiled path: {counts}.
The error of the mean is in standard deviations of the posterior, that of the variances relative,
both against a precise answer in long double; "end" is the last comparison, at the step in
parentheses. {growth}

* Valid: every state that was looked at ({looked} of them) is positive definite, and every Σ is
  symmetric to the last bit: {valid}.
* Memory grows by {memory:.1f} MB at most from the first tenth of a stream to its end; a step of the
  last tenth takes {last:.2f} of the time of one in the second in the median (loaded machine).
* {early} streams end early, each with an error that names the step, or with a mean beyond 1e6:
  plain gradients (bog, bbb) on inputs of scales up to 1e3, and forgetting in diag. {same}
* Without forgetting the standard deviations of the posterior fall as 1/√t, and every step rounds
  the mean once, by up to eps |μ|: in standard deviations that is a random walk which grows as t,
  up to t · eps · |μ|/σ, with σ of one observation. It comes from keeping μ in float64, in any form.
  What DLR loses beyond that is the difference in Woodbury's identity on the compiled path, which
  grows with WᵀΥ⁻¹W.
* A limit: where WᵀΥ⁻¹W grows beyond 1e11 (20,000 inputs of size 1e3 with these variances), the
  compiled DLR leaves every step to the reference, which is a hundred times as slow. So the inputs
  of DLR have scales from 1e-4 to 30 here, those of the others from 1e-3 to 1e3.

| family | rule | | inputs | mean, 1000 | mean, 10,000 | mean, end | variances, end | µs a step | |
|---|---|---|---|---:|---:|---:|---:|---:|---|
"""


def page(results: dict[str, Any]) -> str:
    """docs/long-streams.md."""
    rows, growth, ratios, looked = [], [0.0], [], 0
    for key, r in results.items():
        errors, ended = r["errors"], r["ended"]
        last = errors[max(errors, key=int)] if errors else None
        shown = [errors.get(t) for t in ("1000", "10000")]
        means = [f"{e[0]:.0e}" if e and not ended else "" for e in (*shown, last)]
        variances = f"{last[1]:.0e}" if last and not ended else ""
        us = f"{r['us']:.1f}" if "us" in r else ""
        means[-1] += f" ({int(max(errors, key=int)):,})" if means[-1] else ""
        rows.append(f"| {key} | {' | '.join(means)} | {variances} | {us} | {ended} |")
        looked += len(errors)
        growth.append(r.get("MB", 0.0))
        ratios += [r["last"]] if "last" in r else []
    worst = [max(r["errors"].items(), key=lambda e: int(e[0]))[1] for r in finished(results)]
    said = (
        f"At the end of the\n{len(worst)} streams that finish the largest error of a mean is "
        f"{max(e[0] for e in worst):.0e}, of a variance {max(e[1] for e in worst):.0e}."
        if worst
        else ""
    )
    text = HEAD.format(
        counts=f"{len(results)} streams",
        early=sum(bool(r["ended"]) for r in results.values()),
        same=_confirmation(results),
        growth=said,
        looked=looked,
        valid="yes" if all(r["valid"] and r["symmetric"] for r in results.values()) else "NO",
        memory=max(growth),
        last=float(np.median(ratios)) if ratios else 0.0,
    )
    return text + "\n".join(rows) + "\n"


def _confirmation(results: dict[str, Any]) -> str:
    early = [r for r in results.values() if r["ended"]]
    same = sum(r.get("confirmed", False) for r in early)
    return f"In long double {'all' if same == len(early) else same} of them do."


def finished(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [r for r in results.values() if not r["ended"] and r["errors"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

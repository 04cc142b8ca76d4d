"""Updates of extreme inputs: each is right, refused, or reported as inaccurate.

    python -m validation.extremes            # the table, results/extremes.json, and what is wrong
    python -m validation.extremes --list     # each case

Every rule in every family takes one update under every likelihood, with prior variances, inputs,
observation variances and means of 1e±150, 1e±300 and subnormal numbers. What it returns is compared
with the same update from the data in 3000 digits (``bongref.conformance.precise``). Right is a
difference of at most 1e-6: less than half of the digits lost, as ``info.accurate`` promises, and a
digit for the estimate. The comparison is of each variance of the diagonal families; of Σ by its
largest entry and of each entry of its diagonal; of diag(Υ + W Wᵀ) and of Υ by its largest entry; of
the mean by the largest entry of the prior's and its own.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp

import bongref as br
from bongref.conformance import vectors
from bongref.conformance.precise import updates

DIGITS, RIGHT = 3000, 1e-6
FILE = Path(__file__).parent / "results" / "extremes.json"
RULES = ("bong", "blr", "bog", "bbb")
FAMILIES = ("fc", "fc_mom", "diag", "diag_mom", "dlr")
LIKELIHOODS = ("gaussian", "bernoulli", "categorical", "poisson")
# prior variances, x, observation variance, mean
SCALES: tuple[tuple[tuple[float, float], float, float, float], ...] = (
    ((1e150, 1e150), 1.0, 1.0, 0.5),
    ((1e300, 1e300), 1.0, 1.0, 0.0),
    ((1e-150, 1e-150), 1.0, 1.0, 0.5),
    ((1e-300, 1e-300), 1.0, 1e-300, 0.5),
    ((1e-320, 1e-320), 1.0, 1.0, 0.0),
    ((1.0, 1.0), 1e150, 1.0, 0.0),
    ((1.0, 1.0), 1e-150, 1e-300, 0.5),
    ((1.0, 1.0), 1e-300, 1.0, 0.5),
    ((1.0, 1.0), 1e-320, 1.0, 0.5),
    ((1e300, 1e300), 1e-150, 1.0, 0.0),
    ((1e-300, 1e-300), 1e150, 1.0, 0.0),
    ((1e150, 1e-150), 1.0, 1e150, 0.5),
    ((1e300, 1.0), 1.0, 1e-150, 0.0),
)
TINY = 4 * 2.0**-1074  # absolute: what a subnormal result may be off by when it is rounded


def cases() -> Iterator[tuple[str, str, Any]]:
    """(method, likelihood, scales); lin-hess and lin-ef in turn."""
    for k, (rule, family, lik, scale) in enumerate(product(RULES, FAMILIES, LIKELIHOODS, SCALES)):
        yield f"{rule}-{'lin-hess' if k % 3 else 'lin-ef'}-{family}", lik, scale


def problem(name: str, lik: str, scale: Any) -> tuple[Any, ...]:
    """(method, model, likelihood, prior, x, y) of two parameters."""
    var, x, noise, mean = scale
    m = br.method(name, **({"rank": 1} if name.endswith("dlr") else {}), **_loop(name))
    model = br.models.linear(1, 2) if lik == "categorical" else br.models.linear(2)
    x = np.array([x]) if lik == "categorical" else np.array([x, 0.75 * x])
    observed = {
        "gaussian": br.likelihoods.Gaussian(noise),
        "bernoulli": br.likelihoods.Bernoulli(),
        "categorical": br.likelihoods.Categorical(),
        "poisson": br.likelihoods.Poisson(),
    }
    with np.errstate(over="ignore"):
        prior = m.prior(np.array([mean, -0.5 * mean]), np.array(var))
    return m, model, observed[lik], prior, x, 1


def _loop(name: str) -> dict[str, Any]:
    rule = name.split("-")[0]
    return {} if rule == "bong" else {"alpha": 0.5, **({} if rule == "bog" else {"n_iter": 2})}


def outcome(name: str, lik: str, scale: Any) -> tuple[str, float]:
    """What became of a case, and how far it is from the precise update."""
    try:
        m, model, likelihood, prior, x, y = problem(name, lik, scale)
        state, info = br.update(m, model, likelihood, prior, x, y)
    except (br.InvalidValue, br.NotFinite, np.linalg.LinAlgError):
        return "refused", 0.0
    if not info.valid:
        return "not valid", 0.0
    off = distance(state, precise(m, model, likelihood, prior, x, y), prior)
    right = off <= RIGHT
    if info.accurate:
        return ("right" if right else "WRONG"), off
    return ("reported, and right" if right else "reported"), off


def precise(m: Any, model: Any, lik: Any, prior: Any, x: Any, y: Any) -> Any:
    """The update in 3000 digits."""
    encoded = lik.encode(y, model.n_outputs)
    with mp.workdps(DIGITS):
        about = vectors.model_spec(model), {"kind": lik.name, "R": getattr(lik, "R", None)}
        return updates.update(m.name, *about, prior, x, encoded, params=dict(m.params))[0]


def distance(got: Any, wanted: Any, prior: Any) -> float:
    """The largest difference, relative to what the docstring of the module says."""
    with mp.workdps(DIGITS):
        size = max(abs(mp.mpf(float(v))) for v in prior.mu)
        parts = [_off(got.mu, wanted.mu, max([size, *map(abs, wanted.mu)]))]
        if isinstance(got, br.DLR):
            a, b = (q.Ups + (q.W * q.W).sum(axis=1) for q in (_mp(got), wanted))
            parts += [_off(a, b), _off(got.Ups, wanted.Ups, max(map(abs, wanted.Ups)))]
        elif isinstance(got, br.FC):
            parts += [_off(np.diag(got.Sigma), np.diag(wanted.Sigma))]
            top = max(abs(v) for v in wanted.Sigma.flat)
            parts += [_off(got.Sigma.ravel(), wanted.Sigma.ravel(), top)]
        else:
            parts += [_off(got.var, wanted.var)]
        return float(max(parts))


def _mp(q: Any) -> Any:
    return type(q)(*(np.frompyfunc(mp.mpf, 1, 1)(a) for a in q))


def _off(got: Any, wanted: Any, size: Any = None) -> Any:
    """The largest |got − wanted| relative to ``size``, or to each number wanted."""
    worst = mp.zero
    for a, b in zip(got, wanted, strict=True):
        gap = abs(mp.mpf(a) - b) if np.isfinite(float(a)) else mp.inf
        if gap > TINY:
            s = abs(b) if size is None else size
            worst = max(worst, gap / s if s > 0 else mp.inf)
    return min(worst, mp.mpf(10) ** 300)


def main(args: list[str]) -> int:
    warnings.simplefilter("ignore")
    table: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    wrong = 0
    for case in cases():
        said, off = outcome(*case)
        table[case[0].rsplit("-", 1)[1]][said] += 1
        wrong += said == "WRONG"
        if said == "WRONG" or "--list" in args:
            print(f"{said:<20} {off:8.1e}  {case[0]:<24} {case[1]:<12} {case[2]}")
    if not args:
        FILE.write_text(json.dumps(table, indent=1) + "\n")
    heads = ("right", "reported", "reported, and right", "not valid", "refused", "WRONG")
    print("| family | " + " | ".join(heads) + " |\n|---" + "|---" * len(heads) + "|")
    for family, count in table.items():
        print(f"| {family} | " + " | ".join(str(count[h]) for h in heads) + " |")
    print(f"{sum(map(Counter.total, table.values()))} cases, {wrong} wrong and not reported")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

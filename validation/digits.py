"""How many digits an update keeps, against condition number and size, in every form.

    python -m validation.digits           # writes results/digits.json, the page and its figure
    python -m validation.digits --page    # only the page and the figure, from the results

Every rule in every family takes an update from one observation of a linear regression, with a prior
whose covariance has a condition number of 1 to 1e14: as displayed, in the efficient form, and on
the compiled path. The exact result is the same update from the same data in 120 digits
(``bongref.conformance.precise``). Digits are −log10 of the largest error, of the mean relative to
its largest entry and of the covariance or precision to its own; 16 at most. What the conditioning
explains is C · cond · eps, where cond is measured by changing the inputs
(``bongref.routes.compare``), C = 64: a form that loses more is listed.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mp

import bongref as br
from bongref.conformance import vectors
from bongref.conformance.precise import updates
from bongref.routes import compare

RULES = ("bong", "blr", "bog", "bbb")
FAMILIES = ("fc", "fc_mom", "diag", "diag_mom", "dlr")
CONDITIONS = tuple(10.0**k for k in range(0, 15, 2))
SIZES = (2, 5, 10)
FORMS = ("plain", "efficient", "compiled")
DIGITS, MOST = 120, 16.0
HERE = Path(__file__).parent
FILE, PAGE = HERE / "results" / "digits.json", HERE.parent / "docs" / "digits.md"
FIGURE = HERE.parent / "docs" / "figures" / "digits.png"


def problem(rule: str, family: str, cond: float, P: int) -> tuple[Any, ...]:
    """(method, model, likelihood, prior, x, y), the prior with that condition number."""
    rng = np.random.default_rng([P, round(math.log10(cond))])
    loop = {"bong": {}, "bog": {"alpha": 1e-3}}.get(rule, {"alpha": 1e-2, "n_iter": 2})
    loop = {"alpha": 0.5, "n_iter": 2} if rule == "blr" else loop
    m = br.method(f"{rule}-lin-hess-{family}", **loop, **({"rank": 2} if family == "dlr" else {}))
    lam = cond ** -np.linspace(0, 1, P)
    mu, x = rng.standard_normal(P), rng.standard_normal(P) / np.sqrt(P)
    if family in ("fc", "fc_mom"):
        Q = np.linalg.qr(rng.standard_normal((P, P)))[0]
        Sigma = Q * lam @ Q.T
        prior: Any = br.FC(mu, (Sigma + Sigma.T) / 2)
    elif family in ("diag", "diag_mom"):
        prior = br.Diag(mu, lam)
    else:  # Σ⁻¹ = Υ + W Wᵀ with eigenvalues of 1 and of cond
        W = np.linalg.qr(rng.standard_normal((P, 2)))[0] * np.sqrt([cond, 2 * cond])
        prior = br.DLR(mu, np.ones(P), W)
    return m, br.models.linear(P), br.likelihoods.Gaussian(2.0), prior, x, 1.5


def precise(m: Any, model: Any, lik: Any, prior: Any, x: Any, y: float) -> dict[str, Any]:
    """The invariants of the update in 120 digits."""
    about = vectors.model_spec(model), {"kind": "gaussian", "R": lik.R}
    with mp.workdps(DIGITS):
        q = updates.update(m.name, *about, prior, x, np.array([y]), params=dict(m.params))[0]
        return compare.invariants(q)


def take(form: str, m: Any, model: Any, lik: Any, prior: Any, x: Any, y: float) -> Any:
    """The state, or None where there is no such form, or the result is reported as invalid."""
    try:
        if form != "compiled":
            state, info = br.update(m, model, lik, prior, x, y, form=form)
            return state if info.valid else None
        result = br.run(m, model, lik, prior, x[None], np.array([y]), backend="fast")
        return result.state if result.info.lost == 0 else None  # not taken by the reference
    except (br.InvalidValue, br.StreamEnded):
        return None


def relative(got: Any, wanted: dict[str, Any]) -> dict[str, float]:
    """The largest error of each quantity, relative to its largest entry."""
    out = {}
    with mp.workdps(DIGITS):
        for key, a in compare.invariants(got).items():
            size = max(abs(v) for v in wanted[key].flat)
            pairs = zip(a.flat, wanted[key].flat, strict=True)
            out[key] = float(max(abs(mp.mpf(float(v)) - w) for v, w in pairs) / size)
    return out


def measure(rule: str, family: str, cond: float, P: int) -> dict[str, Any]:
    """Of each form the error of each quantity; and what its conditioning explains."""
    given = m, model, lik, prior, x, y = problem(rule, family, cond, P)
    wanted = precise(*given)

    def update(q: Any, x: Any, y: Any) -> Any:
        return br.update(m, model, lik, q, x, float(y))[0]

    try:
        with np.errstate(all="ignore"):
            explained = compare.condition(update, prior, x, np.array(y))
    except br.InvalidValue:  # a change of the prior that is no covariance: beyond 1e9
        explained = dict.fromkeys(wanted, max(cond, compare.matrix_condition(prior)))
    explained = {k: compare.C * compare.EPS * v for k, v in explained.items()}
    forms = {}
    for form in FORMS:
        state = take(form, *given)
        forms[form] = None if state is None else relative(state, wanted)
    return {"explained": explained, "forms": forms}


def digits(errors: dict[str, float]) -> float:
    worst = max(errors.values())
    return min(MOST, -math.log10(worst)) if worst > 0 else MOST


def too_much(results: dict[str, Any]) -> list[tuple[str, str, float]]:
    """(case, form, error in units of what is explained) above 1."""
    found = []
    for case, r in results.items():
        for form, errors in r["forms"].items():
            if errors:
                units = max(errors[k] / r["explained"][k] for k in errors)
                found += [(case, form, units)] if units > 1 else []
    return found


def main(args: list[str]) -> int:
    warnings.simplefilter("ignore")
    if "--page" not in args:
        results = {
            f"{rule}-{family} {cond:.0e} {P}": measure(rule, family, cond, P)
            for rule in RULES
            for family in FAMILIES
            for cond in CONDITIONS
            for P in SIZES
        }
        FILE.write_text(json.dumps(results, indent=1, allow_nan=True) + "\n")
    results = json.loads(FILE.read_text())
    draw(results)
    PAGE.write_text(page(results), encoding="utf-8")
    return 1 if too_much(results) else 0


def least(results: dict[str, Any], step: str, cond: float, form: str) -> float | None:
    """The fewest digits over the sizes."""
    found = [results[f"{step} {cond:.0e} {P}"]["forms"][form] for P in SIZES]
    kept = [digits(e) for e in found if e]
    return min(kept) if kept else None


def explained(results: dict[str, Any], step: str, cond: float) -> float:
    """The digits that the conditioning leaves, C · cond · eps."""
    worst = max(max(results[f"{step} {cond:.0e} {P}"]["explained"].values()) for P in SIZES)
    return max(0.0, min(MOST, -math.log10(worst))) if worst > 0 else MOST


HEAD = """# Digits against condition number

Made by `python -m validation.digits` from `validation/results/digits.json`; the module says how. An
update from one observation of a linear regression (lin-hess; a step does not know its estimator),
for priors with a condition number κ of 1 to 1e14 and {sizes} parameters: the fewest digits of mean
and covariance (or precision) over the sizes, compared with the same update from the same data in
120 digits. Empty: there is no such form, its result is reported as not positive definite, or the
compiled path has left the step to the reference.

![Digits against condition number, each rule in each family](figures/digits.png)

Grey is what the conditioning of the problem leaves, 64 · cond · eps, with cond measured by changing
the inputs. {loses}

| step | form | {kappas} |
|---|---|{dashes}|
"""


def page(results: dict[str, Any]) -> str:
    """docs/digits.md."""
    found = too_much(results)
    loses = "No form loses more than that." if not found else "More than that is lost by:"
    for case, form, units in found:
        loses += f"\n* {case}, {form}: {units:.1f} times as much"
    text = HEAD.format(
        sizes=", ".join(map(str, SIZES)),
        loses=loses + ("\n" if found else ""),
        kappas=" | ".join(f"{c:.0e}" for c in CONDITIONS),
        dashes="|".join("---:" for _ in CONDITIONS),
    )
    for family in FAMILIES:
        for rule in RULES:
            for form in FORMS:
                kept = [least(results, f"{rule}-{family}", c, form) for c in CONDITIONS]
                if any(d is not None for d in kept):
                    cells = " | ".join("" if d is None else f"{d:.1f}" for d in kept)
                    text += f"| {rule}-{family} | {form} | {cells} |\n"
    return text


def draw(results: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(len(FAMILIES), len(RULES), figsize=(10, 10), sharex=True, sharey=True)
    styles = {"plain": ("C0", "o"), "efficient": ("C1", "s"), "compiled": ("C2", "x")}
    for row, family in zip(axes, FAMILIES, strict=True):
        for ax, rule in zip(row, RULES, strict=True):
            step = f"{rule}-{family}"
            ax.fill_between(
                CONDITIONS, [explained(results, step, c) for c in CONDITIONS], color="0.9", lw=0
            )
            for form, (colour, marker) in styles.items():
                kept = [(c, least(results, step, c, form)) for c in CONDITIONS]
                kept = [(c, d) for c, d in kept if d is not None]
                if kept:
                    ax.semilogx(*zip(*kept, strict=True), colour, marker=marker, ms=4, label=form)
            ax.set_title(step, fontsize=9)
            ax.set_ylim(0, 16.5)
            ax.set_xscale("log")
    axes[0, 0].legend(fontsize=8, loc="lower left")
    fig.supxlabel("condition number of the prior")
    fig.supylabel("digits of the result")
    fig.tight_layout()
    fig.savefig(FIGURE, dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

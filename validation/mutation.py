"""Can the kit tell? Single mistakes are put into a copy of the updates and estimators; every one
must be caught, and is to be named.

    python validation/mutation.py [--out validation/results/mutation.json] [--no-automatic]

MUTANTS is written by hand, apart from the tables of bongref.conformance.mistakes: each is a piece
of text of one function and what stands in its place. The modules are loaded again from their
sources with that one change, behind an adapter, and the vectors of the methods concerned are run.
The last 30 were written when the search was done; it named 18 of them at first sight, and was
widened then. A diagnosis is right when one of the sentences shown for the method (at most three)
names the same quantity or equation and the same kind of edit, which ``says`` has as a regular
expression; it is right at once when the first sentence does.

The blind ones, in blind.json, are changes of tests/textbook.py, an implementation in plain numpy
with a structure of its own, written by someone who had not seen the tables or the search:
FIRST_SIGHT is what was said of them then, by eye. What did not match was a reason to widen the
search, so that today's share of these is no measure any more of what it does with the next mistake;
the second list, written after the first widening, is one for that. blind2.json and blind3.json are
a third and a fourth list, over all levels, each written before the search was touched again, and
pairs.json has two of the mistakes of the fourth at once, of which one is to be named; their "first
sight" is what was said of each then, by eye. ``--later`` runs these three lists; it writes a file
only with ``--out``.

The automatic mutants are every single edit of bongref.conformance.edits in the displayed forms.
They are what the search looks through, so that being named is no news; being caught is. One that
changes nothing on 20 random problems (1e-9 of the result) is an equivalent form.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib.util
import json
import re
import time
import types
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bongref.conformance import answers, diagnosis, edits, mistakes, pipeline, runner, vectors
from bongref.conformance.vectors import Case
from bongref.curvature import Curv
from bongref.grid import FAMILIES, HESSIANS, MODULES, RULES, STATES

RELOADED = (
    "linalg",
    "likelihoods",
    "curvature",
    "fc_nat",
    "fc_mom",
    "diag_nat",
    "diag_mom",
    "dlr",
    "dynamics",
)
FAMILY_OF = {
    "fc_nat": "fc",
    "fc_mom": "fc_mom",
    "diag_nat": "diag",
    "diag_mom": "diag_mom",
    "dlr": "dlr",
}
LOOKED_AT = 3  # failed cases of one method that are diagnosed
OUT = Path(__file__).parent / "results" / "mutation.json"
BLIND = Path(__file__).parent / "blind.json"
LATER = ("blind2", "blind3", "pairs")
TEXTBOOK = Path(__file__).parents[1] / "tests" / "textbook.py"
# of each list: named; something true but no name; nothing; something misleading first; not caught
# by any case
FIRST_SIGHT = {
    "first": {
        "mutants": 120,
        "named": 84,
        "vague": 9,
        "nothing": 22,
        "misleading": 2,
        "not caught": 3,
    },
    "second": {
        "mutants": 57,
        "named": 33,
        "vague": 21,
        "nothing": 2,
        "misleading": 0,
        "not caught": 1,
    },
}


class Mutant(NamedTuple):
    """One mistake: in ``function`` of ``module`` stands ``new`` where ``old`` stood."""

    what: str
    module: str
    function: str
    old: str
    new: str
    methods: str  # a glob of the methods concerned
    says: str  # a regular expression that a right diagnosis matches
    levels: tuple[str, ...] = ("L0",)
    form: str = ""  # the form that the adapter uses, where it is not the displayed one


# --- loading --------------------------------------------------------------------------------------


def load(mutant: Mutant | None) -> dict[str, types.ModuleType]:
    """The modules again from their sources, one function changed."""
    made: dict[str, types.ModuleType] = {}
    original = builtins.__import__

    def importing(
        name: str, scope: Any = None, local: Any = None, wanted: Any = (), level: int = 0
    ) -> Any:
        if level > 0 and name in made:
            return made[name]
        if level > 0 and name == "paper":
            return types.SimpleNamespace(eq=lambda *ids: lambda fn: fn)
        return original(name, scope, local, wanted, level)

    for name in RELOADED:
        spec = importlib.util.find_spec(
            f"bongref.families.{name}" if name in FAMILY_OF else f"bongref.{name}"
        )
        source = Path(spec.origin).read_text(encoding="utf-8")
        if mutant is not None and mutant.module == name:
            source = substituted(source, mutant)
        module = types.ModuleType(spec.name)
        module.__dict__.update(
            __package__=spec.parent, __builtins__={**vars(builtins), "__import__": importing}
        )
        made[name] = module
        exec(_compiled(name, source), module.__dict__)
    return made


@lru_cache(maxsize=64)
def _compiled(name: str, source: str) -> types.CodeType:
    return compile(source, f"<mutant of {name}>", "exec")


def substituted(source: str, mutant: Mutant) -> str:
    """The source with the one change; the text must stand in the function exactly once."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == mutant.function:
            lines = source.splitlines(keepends=True)
            body = "".join(lines[node.lineno - 1 : node.end_lineno])
            if body.count(mutant.old) != 1:
                raise ValueError(
                    f"{mutant.what}: {mutant.old!r} stands {body.count(mutant.old)} times "
                    f"in {mutant.function}"
                )
            return (
                "".join(lines[: node.lineno - 1])
                + body.replace(mutant.old, mutant.new)
                + "".join(lines[node.end_lineno :])
            )
    raise ValueError(f"{mutant.what}: no {mutant.function} in {mutant.module}")


LOOP = """
def update(step, estimate, hess, method, model, likelihood, prior, x, y, samples, params):
    current = prior
    for i in range(params.get("n_iter", 1)):
        theta = current["mu"]
        drawn = None if samples is None else samples[i]
        curv = estimate(hess, model, likelihood, theta, x, y, drawn)
        current = step(method, prior, current, curv, params)
    return current


def run(predict, update, family, method, model, likelihood, prior, X, Y, samples, dynamics, params):
    state, states = prior, []
    for t in range(len(X)):
        state = predict(family, state, dynamics)
        if Y[t] is not None:
            drawn = None if samples is None else samples[t]
            state = update(method, model, likelihood, state, X[t], Y[t], drawn, params)
        states.append(state)
    return states
"""


class Mutated:
    """The adapter of a mutant: step, estimate, update, predict and run from the changed modules,
    loops from the text above.
    """

    dtype = "float64"

    def __init__(self, mutant: Mutant | None):
        self.name = mutant.what if mutant else "unchanged"
        self.form = mutant.form if mutant else ""
        self.modules = load(mutant if mutant and mutant.module != "loop" else None)
        self.loops: dict[str, Any] = {}
        exec(substituted(LOOP, mutant) if mutant and mutant.module == "loop" else LOOP, self.loops)

    def _state(self, family: str, value: dict[str, Any]) -> Any:
        return vectors.state(family, value)

    def step(self, method: str, prior: Any, current: Any, curv: Any, params: Any) -> Any:
        rule, *_, family = method.split("-")
        module = self.modules[{v: k for k, v in FAMILY_OF.items()}[family]]
        reduced = Curv(curv["g"], S=curv["S"]) if "S" in curv else Curv(curv["g"], G=curv["G"])
        form = (
            self.form
            if self.form and self.form.startswith(rule) and reduced.S is not None
            else rule
        )
        if form == "bong_ef" and "mc-hess" in method:
            form = rule
        fn = getattr(module, form)
        if form.endswith("_psi"):
            fn = lambda *a: module.from_natural(*getattr(module, form)(*a))
        return fn(
            self._state(family, prior),
            self._state(family, current),
            reduced,
            params.get("alpha", 1),
        )._asdict()

    def estimate(
        self, hess: str, model: Any, likelihood: Any, theta: Any, x: Any, y: Any, samples: Any
    ) -> Any:
        liks, kind = self.modules["likelihoods"], likelihood["kind"]
        lik = (
            liks.Gaussian(likelihood["R"])
            if kind == "gaussian"
            else getattr(liks, kind.capitalize())()
        )
        fn = getattr(self.modules["curvature"], hess.replace("-", "_"))
        curv = fn(vectors.model(model), lik, x, y, theta if samples is None else samples)
        return {key: value for key, value in curv._asdict().items() if value is not None}

    def update(
        self,
        method: str,
        model: Any,
        likelihood: Any,
        prior: Any,
        x: Any,
        y: Any,
        samples: Any,
        params: Any,
    ) -> Any:
        hess = "-".join(method.split("-")[1:3])
        return self.loops["update"](
            self.step, self._whole, hess, method, model, likelihood, prior, x, y, samples, params
        )

    def _whole(self, *args: Any) -> Any:
        curv = self.estimate(*args)
        return curv if "G" in curv or "S" in curv else {**curv, "G": np.diag(curv["d"])}

    def predict(self, family: str, state: Any, dynamics: Any) -> Any:
        module, kind = (
            self.modules["dynamics"],
            {"static": "Static", "ou": "OU", "linear": "Linear"}[dynamics["kind"]],
        )
        moving = getattr(module, kind)(**{k: v for k, v in dynamics.items() if k != "kind"})
        return module.predict(self._state(family, state), moving)._asdict()

    def run(
        self,
        method: str,
        model: Any,
        likelihood: Any,
        prior: Any,
        X: Any,
        Y: Any,
        samples: Any,
        dynamics: Any,
        params: Any,
    ) -> Any:
        family = method.split("-")[-1]
        return self.loops["run"](
            self.predict,
            self.update,
            family,
            method,
            model,
            likelihood,
            prior,
            X,
            Y,
            samples,
            dynamics,
            params,
        )


# --- the mistakes, by hand ------------------------------------------------------------------------

FC, FCM, DG, DGM, LR, CU, LK, LG, LOOPS, DY = (
    "fc_nat fc_mom diag_nat diag_mom dlr curvature likelihoods linalg loop dynamics".split()
)
L1, L2, L3, LP = ("L1",), ("L2",), ("L3",), ("predict",)

# fmt: off
MUTANTS: tuple[Mutant, ...] = (
    # full covariance, natural parameters
    Mutant("bong-fc: + G", FC, "bong", "- dense(curv)", "+ dense(curv)", "bong-*-fc",
        r"sign of G|\+ dense"),
    Mutant("bong-fc: G/2", FC, "bong", "dense(curv))", "dense(curv) / 2)", "bong-*-fc",
        r"G/2|G times 1/2|dense\(curv\) / 2"),
    Mutant("bong-fc: prior covariance in the mean", FC, "bong", "Sigma @ curv.g",
        "prior.Sigma @ curv.g", "bong-*-fc",
        r"covariance of the prior in place of the new|`prior.Sigma"),
    Mutant("bong-fc: no inverse of the prior covariance", FC, "bong", "inv(inv(prior.Sigma)",
        "inv((prior.Sigma)", "bong-*-fc",
        r"`prior.Sigma` instead of `inv\(prior|`prior.Sigma - dense"),
    Mutant("bong-fc: the precision returned", FC, "bong", "inv(inv(prior.Sigma) - dense(curv))",
        "(inv(prior.Sigma) - dense(curv))",
        "bong-*-fc", r"precision returned|instead of `inv\(inv"),
    Mutant("bong-fc: - g", FC, "bong", "prior.mu + Sigma", "prior.mu - Sigma", "bong-*-fc",
        r"sign of g|prior.mu - Sigma|-curv.g"),
    Mutant("bong-fc Woodbury: no identity", FC, "bong_woodbury", "eye(V.shape[1]) + ", "",
        "bong-mc-ef-fc", r"instead of `eye",
        form="bong_woodbury"),
    Mutant("bong-fc Woodbury: + K V^T", FC, "bong_woodbury", "prior.Sigma - K @ V.T)",
        "prior.Sigma + K @ V.T)", "bong-lin-*-fc",
        r"prior.Sigma \+ K", form="bong_woodbury"),
    Mutant("bong-fc Woodbury: mean without its last term", FC, "bong_woodbury",
        " - K @ (V.T @ curv.g)", "", "bong-lin-*-fc",
        r"covariance of the prior in place of the new|prior.mu \+ prior.Sigma @ curv.g` "
         r"instead", form="bong_woodbury"),
    Mutant("bong-ef-fc: no M before the identity", FC, "bong_ef", "solve(M * eye(M)",
        "solve(eye(M)", "bong-mc-ef-fc",
        r"eye\(M\)` instead", form="bong_ef"),
    Mutant("blr-fc: iterate's covariance for the prior's", FC, "blr", "prec0 = inv(prior.Sigma)",
        "prec0 = inv(current.Sigma)",
        "blr-*-fc", r"KL term left out of the covariance|current.Sigma"),
    Mutant("blr-fc: 1 + alpha", FC, "blr", "(1 - alpha)", "(1 + alpha)", "blr-*-fc", r"1 \+ alpha"),
    Mutant("blr-fc: no alpha before G", FC, "blr", "- alpha * dense(curv)", "- dense(curv)",
        "blr-*-fc",
        r"`dense\(curv\)` instead of `alpha \* dense"),
    Mutant("blr-fc: no alpha in the mean", FC, "blr", "current.mu + alpha * Sigma",
        "current.mu + Sigma", "blr-*-fc",
        r"`Sigma` instead of `alpha \* Sigma"),
    Mutant("blr-fc: no pull to the prior's mean", FC, "blr",
        "(prec0 @ (prior.mu - current.mu) + curv.g)", "curv.g", "blr-*-fc",
        r"KL term left out of the mean|`curv.g` instead"),
    Mutant("blr-fc: prior's mean as the start", FC, "blr", "mu = current.mu + alpha",
        "mu = prior.mu + alpha", "blr-*-fc",
        r"`prior.mu \+ alpha .* instead of `current.mu \+"),
    Mutant("blr-fc: alpha on the prior's precision left out", FC, "blr", "alpha * prec0 - alpha",
        "prec0 - alpha", "blr-*-fc",
        r"`prec0` instead of `alpha \* prec0"),
    Mutant("blr-fc: sign of the difference of means", FC, "blr", "(prior.mu - current.mu)",
        "(current.mu - prior.mu)", "blr-*-fc",
        r"current.mu - prior.mu"),
    Mutant("bog-fc: 2 for 4", FC, "bog", "4 * alpha", "2 * alpha", "bog-*-fc", r"2.*instead of.*4"),
    Mutant("bog-fc: no symmetric part", FC, "bog", "sym(np.outer(Sg, prior.mu))",
        "np.outer(Sg, prior.mu)", "bog-*-fc",
        r"bog-FC-symmetry|symmetric part|sym"),
    Mutant("bog-fc: + Sigma G Sigma", FC, "bog", "- 2 * alpha * sym(SGS)", "+ 2 * alpha * sym(SGS)",
        "bog-*-fc",
        r"sign of G|\+ 2 \* alpha|-dense"),
    Mutant("bog-fc: alpha for 2 alpha before SGS", FC, "bog", "- 2 * alpha * sym(SGS)",
        "- alpha * sym(SGS)", "bog-*-fc",
        r"G/2|G times 1/2|`alpha"),
    Mutant("bog-fc: no alpha in the mean", FC, "bog", "+ alpha * Sigma @ Sg", "+ Sigma @ Sg",
        "bog-*-fc",
        r"`Sigma` instead of `alpha \* Sigma|`Sigma @ Sg"),
    Mutant("bog-fc: natural gradient (no Sigma before g)", FC, "bog", "prior.Sigma @ curv.g",
        "curv.g", "bog-*-fc",
        r"`curv.g` instead of `prior.Sigma @ curv.g"),
    Mutant("bbb-fc: no entropy term S", FC, "bbb", "+ S + inner", "+ inner", "bbb-*-fc",
        r"current.mu\)\)` instead of .* \+ S`"),
    Mutant("bbb-fc: the prior's mean in the outer product", FC, "bbb", "np.outer(r, current.mu)",
        "np.outer(r, prior.mu)", "bbb-*-fc",
        r"prec with .*`prior.mu` instead of `current.mu`"),
    Mutant("bbb-fc: G + prior precision", FC, "bbb", "(dense(curv) - prec0)",
        "(dense(curv) + prec0)", "bbb-*-fc", r"\+ prec0"),
    Mutant("bbb-fc: alpha for 2 alpha", FC, "bbb", "prec - 2 * alpha", "prec - alpha", "bbb-*-fc",
        r"`alpha` instead of `2 \* alpha|`1"),
    Mutant("bbb-fc: prior covariance around G, as printed", FC, "bbb",
        "sym(S @ (dense(curv) - prec0) @ S)",
        "sym(prior.Sigma @ dense(curv) @ prior.Sigma - S @ prec0 @ S)", "bbb-*-fc",
         r"bbb-FC-psi2-G"),
    Mutant("blr-fc psi: KL with a plus", FC, "blr_psi", "l2 - k2", "l2 + k2", "blr-*-fc",
        r"l2 \+ k2", form="blr_psi"),
    Mutant("bong-fc psi: G mu missing in the first gradient", FC, "ell_rho", "curv.g - G @ q.mu",
        "curv.g", "bong-*-fc",
        r"`curv.g` instead of `curv.g - G @ q.mu", form="bong_psi"),
    # full covariance, moments
    Mutant("bong-fc_mom: + g sign", FCM, "bong", "prior.mu + prior.Sigma", "prior.mu - prior.Sigma",
        "bong-*-fc_mom",
        r"sign of g|prior.mu - prior.Sigma|-curv.g"),
    Mutant("bong-fc_mom: one Sigma too few", FCM, "bong", "dense(curv) @ prior.Sigma)",
        "dense(curv))", "bong-*-fc_mom",
        r"prior.Sigma @ dense\(curv\)`"),
    Mutant("bong-fc_mom: half", FCM, "bong", "prior.Sigma + sym(prior",
        "prior.Sigma + sym(prior.Sigma @ dense(curv) @ prior.Sigma) / 2 + 0 * (prior",
         "bong-*-fc_mom", r"G/2|1/2"),
    Mutant("bong-fc_mom: the new covariance in the mean", FCM, "bong", "return FC(mu, Sigma)",
        "return FC(prior.mu + Sigma @ curv.g, Sigma)", "bong-*-fc_mom",
         r"new covariance in place of the old"),
    Mutant("bong-fc_mom low rank: + V V^T", FCM, "bong_lowrank", "- V @ V.T", "+ V @ V.T",
        "bong-lin-*-fc_mom", r"sign of G|\+ V",
        form="bong_lowrank"),
    Mutant("blr-fc_mom: 1 - alpha", FCM, "blr", "(1 + alpha)", "(1 - alpha)", "blr-*-fc_mom",
        r"1 - alpha"),
    Mutant("blr-fc_mom: prior covariance in the mean's gradient", FCM, "blr",
        "+ alpha * S @ curv.g", "+ alpha * prior.Sigma @ curv.g",
        "blr-*-fc_mom", r"mu with `alpha \* prior.Sigma @ curv.g` instead"),
    Mutant("blr-fc_mom: no KL in the mean", FCM, "blr",
        "alpha * S @ (prec0 @ (prior.mu - current.mu)) + ", "", "blr-*-fc_mom",
        r"KL term left out of the mean"),
    Mutant("blr-fc_mom: + prior precision", FCM, "blr", "dense(curv) - prec0",
        "dense(curv) + prec0", "blr-*-fc_mom", r"\+ prec0"),
    Mutant("bog-fc_mom: no 1/2", FCM, "bog", "dense(curv) / 2", "dense(curv)", "bog-*-fc_mom",
        r"2 G|`alpha \* dense\(curv\)` instead"),
    Mutant("bog-fc_mom: no alpha in the mean", FCM, "bog", "prior.mu + alpha * curv.g",
        "prior.mu + curv.g", "bog-*-fc_mom",
        r"`curv.g` instead of `alpha"),
    Mutant("bbb-fc_mom: entropy missing", FCM, "bbb", "inv(current.Sigma) - prec0", "-prec0",
        "bbb-*-fc_mom", r"-prec0"),
    Mutant("bbb-fc_mom: alpha over all, 1/2 on G alone", FCM, "bbb",
        "(inv(current.Sigma) - prec0 + dense(curv)) / 2",
        "(inv(current.Sigma) - prec0 + dense(curv) / 2)", "bbb-*-fc_mom",
         r"dense\(curv\) / 2\)?` instead"),
    Mutant("bbb-fc_mom: no prior precision in the mean", FCM, "bbb", "alpha * prec0 @ (prior.mu",
        "alpha * (prior.mu", "bbb-*-fc_mom",
        r"instead of `alpha \* prec0 @"),
    # diagonal, natural parameters
    Mutant("bong-diag: + diag G", DG, "bong", "- diagonal(curv)", "+ diagonal(curv)", "bong-*-diag",
        r"sign of G|\+ diagonal|-diagonal"),
    Mutant("bong-diag: the old variance in the mean", DG, "bong", "prior.mu + var * curv.g",
        "prior.mu + prior.var * curv.g",
        "bong-*-diag", r"covariance of the prior in place of the new|prior.var"),
    Mutant("bong-diag: standard deviation", DG, "bong", "1 / prior.var", "1 / np.sqrt(prior.var)",
        "bong-*-diag",
        r"sqrt\(prior.var\)|standard deviation"),
    Mutant("blr-diag: prior's variance for the iterate's", DG, "blr", "(1 - alpha) / current.var",
        "(1 - alpha) / prior.var",
        "blr-*-diag", r"prior.var|covariance of the prior"),
    Mutant("blr-diag: no alpha on G", DG, "blr", "- alpha * diagonal(curv)", "- diagonal(curv)",
        "blr-*-diag",
        r"`diagonal\(curv\)` instead of `alpha"),
    Mutant("blr-diag: G twice", DG, "blr", "- alpha * diagonal(curv)",
        "- 2 * alpha * diagonal(curv)", "blr-*-diag",
        r"2 G|G times 2|\* 2"),
    Mutant("blr-diag: iterate's variance in the pull", DG, "blr",
        "(prior.mu - current.mu) / prior.var",
        "(prior.mu - current.mu) / current.var", "blr-*-diag", r"/ current.var|current.var"),
    Mutant("blr-diag: alpha on the gradient alone", DG, "blr",
        "alpha * var * ((prior.mu - current.mu) / prior.var + curv.g)",
        "var * ((prior.mu - current.mu) / prior.var + alpha * curv.g)", "blr-*-diag",
         r"alpha \* curv.g\)?` instead"),
    Mutant("bog-diag: 2 for 4", DG, "bog", "4 * alpha", "2 * alpha", "bog-*-diag",
        r"2.*instead of.*4"),
    Mutant("bog-diag: v for v squared", DG, "bog", "v**2", "v", "bog-*-diag",
        r"`v` instead of `v \*\* 2"),
    Mutant("bog-diag: v missing in the mean", DG, "bog", "alpha * var * v * curv.g",
        "alpha * var * curv.g", "bog-*-diag",
        r"`alpha \* var` instead"),
    Mutant("bog-diag: mean not rescaled", DG, "bog", "var / v * prior.mu", "prior.mu", "bog-*-diag",
        r"`prior.mu` instead of `var / v"),
    Mutant("bbb-diag: KL sign", DG, "bbb", "- likelihood + divergence", "- likelihood - divergence",
        "bbb-*-diag", r"- divergence"),
    Mutant("bbb-diag: KL missing from the precision", DG, "bbb", "- likelihood + divergence",
        "- likelihood", "bbb-*-diag",
        r"likelihood` instead"),
    Mutant("bbb-diag: 1/v0 + 1/v", DG, "bbb", "(1 / v0 - 1 / v)", "(1 / v0 + 1 / v)", "bbb-*-diag",
        r"1 / v0 \+ 1 / v"),
    Mutant("bbb-diag: pull without 1/v0", DG, "bbb", "(curv.g + r / v0)", "(curv.g + r)",
        "bbb-*-diag", r"`r` instead of `r / v0"),
    Mutant("bbb-diag: 1/alpha sign of the prior's pull", DG, "bbb", "-4 * alpha * v / v0 * m * r",
        "4 * alpha * v / v0 * m * r",
        "bbb-*-diag", r"`4` instead of `-4`|-\(-4"),
    Mutant("bong-diag: |diag G|", DG, "bong", "- diagonal(curv)", "+ abs(diagonal(curv))",
        "bong-mc-hess-diag",
        r"silent repair|-\|diag G\|"),
    Mutant("bong-diag: diag G clipped at 0", DG, "bong", "diagonal(curv))",
        "np.minimum(diagonal(curv), 0))", "bong-mc-hess-diag",
        r"silent repair|positive entries of diag G set to 0"),
    Mutant("bong-diag_mom: variance clipped", DGM, "bong",
        "prior.var + prior.var**2 * diagonal(curv)",
        "abs(prior.var + prior.var**2 * diagonal(curv))", "bong-lin-*-diag_mom", r"silent repair"),
    # diagonal, moments
    Mutant("bong-diag_mom: sigma^2 G", DGM, "bong", "prior.var**2 * diagonal",
        "prior.var * diagonal", "bong-*-diag_mom",
        r"`prior.var` instead of `prior.var \*\* 2"),
    Mutant("bong-diag_mom: natural form of the variance", DGM, "bong",
        "prior.var + prior.var**2 * diagonal(curv)",
        "1 / (1 / prior.var - diagonal(curv))", "bong-*-diag_mom", r"natural parameters"),
    Mutant("bong-diag_mom: - g", DGM, "bong", "prior.mu + prior.var * curv.g",
        "prior.mu - prior.var * curv.g", "bong-*-diag_mom",
        r"sign of g|prior.mu - prior.var|-curv.g"),
    Mutant("blr-diag_mom: prior's variance before g", DGM, "blr", "+ alpha * v * curv.g",
        "+ alpha * v0 * curv.g", "blr-*-diag_mom",
        r"`alpha \* v0 \* curv.g` instead"),
    Mutant("blr-diag_mom: ratio upside down", DGM, "blr", "alpha * v / v0", "alpha * v0 / v",
        "blr-*-diag_mom",
        r"alpha \* v0 / v` instead"),
    Mutant("blr-diag_mom: KL missing from the variance", DGM, "blr",
        "alpha * v**2 * (1 / v - 1 / v0) + ", "", "blr-*-diag_mom",
        r"var with `v` instead of `v \+"),
    Mutant("blr-diag_mom: alpha squared on G", DGM, "blr", "alpha * v**2 * diagonal",
        "alpha**2 * v**2 * diagonal", "blr-*-diag_mom",
        r"alpha ?\*\* ?2|G times 1/4"),
    Mutant("bog-diag_mom: no 1/2", DGM, "bog", "diagonal(curv) / 2", "diagonal(curv)",
        "bog-*-diag_mom",
        r"2 G|instead of `alpha \* diagonal\(curv\) / 2"),
    Mutant("bog-diag_mom: natural gradient", DGM, "bog", "alpha * curv.g",
        "alpha * prior.var * curv.g", "bog-*-diag_mom",
        r"Sigma g in place of g"),
    Mutant("bbb-diag_mom: sign of the entropy", DGM, "bbb", "(1 / v - 1 / v0)", "(-1 / v - 1 / v0)",
        "bbb-*-diag_mom",
        r"-\(?1 / v\)? - 1 / v0"),
    Mutant("bbb-diag_mom: pull over the iterate's variance", DGM, "bbb",
        "(prior.mu - current.mu) / v0", "(prior.mu - current.mu) / v",
        "bbb-*-diag_mom", r"/ v`|`v` instead of `v0"),
    Mutant("bbb-diag_mom: no 1/2 before G", DGM, "bbb", "alpha * diagonal(curv) / 2",
        "alpha * diagonal(curv)", "bbb-*-diag_mom",
        r"2 G|instead of `alpha \* diagonal\(curv\) / 2"),
    # diagonal plus low rank
    Mutant("dlr: Ups without the discarded columns", LR, "project",
        "Ups_tilde + rowdot(lost, lost)", "Ups_tilde", "b[ol][nr]*-dlr",
        r"does not absorb|`Ups_tilde` instead"),
    Mutant("dlr: Ups absorbs all of W~", LR, "project", "rowdot(lost, lost)",
        "rowdot(W_tilde, W_tilde)", "bong-lin-*-dlr",
        r"absorbs all"),
    Mutant("dlr: the smallest singular vectors", LR, "project", "U_Lambda[:, :rank]",
        "U_Lambda[:, -rank:]", "bong-mc-ef-dlr",
        r"smallest|-rank:"),
    Mutant("dlr: one column too few", LR, "project", "lost = U_Lambda[:, rank:]",
        "lost = U_Lambda[:, rank + 1 :]", "bong-mc-ef-dlr",
        r"rank \+ 1"),
    Mutant("bong-dlr: W of the prior kept", LR, "bong",
        "*project(*_bong_tilde(prior, curv), prior.W.shape[1])", "prior.Ups, prior.W",
        "bong-*-dlr", r"covariance that is not updated|not updated"),
    Mutant("bong-dlr: mean from the prior covariance", LR, "bong",
        "inv(precision(prior) - dense(curv))", "inv(precision(prior))",
        "bong-*-dlr", r"covariance of the prior in place of the new|`precision\(prior\)` instead"),
    Mutant("bong-dlr: projection before the mean", LR, "bong",
        "mu = prior.mu + Sigma_tilde @ curv.g",
        "mu = prior.mu + covariance(DLR(prior.mu, *project(*_bong_tilde(prior, curv), "
         "prior.W.shape[1]))) @ curv.g", "bong-*-dlr",
        r"projection before the mean"),
    Mutant("bong-dlr: W of the prior left out of W~", LR, "_bong_tilde", "[prior.W, factor(curv)]",
        "[factor(curv), 0 * prior.W]",
        "bong-*-dlr", r"\[factor\(curv\)\]` instead"),
    Mutant("bong-dlr: G factor halved", LR, "_bong_tilde", "factor(curv)]", "factor(curv) / 2]",
        "bong-mc-ef-dlr", r"factor\(curv\) / 2"),
    Mutant("blr-dlr: alpha for sqrt(alpha)", LR, "_blr_tilde", "sqrt(alpha) * factor(curv)",
        "alpha * factor(curv)", "blr-*-dlr",
        r"`alpha` instead of `sqrt|`alpha \* factor"),
    Mutant("blr-dlr: iterate's W for the prior's", LR, "_blr_tilde", "sqrt(alpha) * prior.W",
        "sqrt(alpha) * current.W", "blr-*-dlr",
        r"current.W|W of the iterate"),
    Mutant("blr-dlr: prior's Ups for the iterate's", LR, "_blr_tilde", "(1 - alpha) * current.Ups",
        "(1 - alpha) * prior.Ups",
        "blr-*-dlr", r"prior.Ups|Ups of the prior"),
    Mutant("blr-dlr: iterate's W left out", LR, "_blr_tilde", "sqrt(1 - alpha) * current.W, ", "",
        "blr-*-dlr",
        r"\[sqrt\(alpha\) \* prior.W, sqrt\(alpha\) \* factor"),
    Mutant("blr-dlr: pull without W", LR, "_pull", " + prior.W @ (prior.W.T @ delta)", "",
        "blr-*-dlr", r"prior.Ups \* delta"),
    Mutant("blr-dlr: no alpha in the mean", LR, "blr", "current.mu + alpha * inv(prec)",
        "current.mu + inv(prec)", "blr-*-dlr",
        r"`inv\(prec\)` instead of `alpha"),
    Mutant("blr-dlr Woodbury: g alone", LR, "blr_woodbury", "_pull(prior, current, curv)[:, None]",
        "curv.g[:, None]", "blr-lin-*-dlr",
        r"KL term left out of the mean", form="blr_woodbury"),
    Mutant("Woodbury: + for -", LG, "woodbury_solve", "UX - UW @ solve", "UX + UW @ solve",
        "bong-lin-*-dlr", r"UX \+ UW",
        form="bong_woodbury"),
    Mutant("Woodbury: no identity", LG, "woodbury_solve", "eye(W.shape[1]) + ", "", "bog-lin-*-dlr",
        r"`gram\(W, UW\)` instead of `eye",
        form="bog_woodbury"),
    Mutant("bog-dlr: no 1/2 on Ups", LR, "bog", "np.diag(SGS) / 2", "np.diag(SGS)", "bog-*-dlr",
        r"`alpha \* np.diag\(SGS\)` instead|2 times"),
    Mutant("bog-dlr: 1/2 on W", LR, "bog", "alpha * SGS @ prior.W", "alpha / 2 * SGS @ prior.W",
        "bog-*-dlr",
        r"W W\^T alone .*G/2|alpha/2|/ 2"),
    Mutant("bog-dlr: + SGS W", LR, "bog", "prior.W - alpha", "prior.W + alpha", "bog-*-dlr",
        r"prior.W \+ alpha"),
    Mutant("bog-dlr: G without Sigma on the right", LR, "bog", "Sigma @ dense(curv) @ Sigma",
        "Sigma @ dense(curv)", "bog-*-dlr",
        r"`Sigma @ dense\(curv\)` instead"),
    Mutant("bog-dlr Woodbury: B from Ups alone", LR, "bog_woodbury",
        "woodbury_solve(prior.Ups, prior.W, curv.S)",
        "curv.S / prior.Ups[:, None]", "bog-lin-*-dlr", r"1 / prior.Ups|W left out",
         form="bog_woodbury"),
    Mutant("bbb-dlr: + G", LR, "bbb", "- dense(curv)", "+ dense(curv)", "bbb-*-dlr",
        r"sign of G|\+ dense|-dense"),
    Mutant("bbb-dlr: prior's W multiplied", LR, "bbb", "SDS @ current.W", "SDS @ prior.W",
        "bbb-*-dlr", r"SDS @ prior.W` instead"),
    Mutant("bbb-dlr: KL missing from the covariance", LR, "bbb",
        "precision(prior) - precision(current) - dense(curv)", "-dense(curv)",
        "bbb-*-dlr", r"-dense\(curv\)` instead|KL term left out of the covariance"),
    Mutant("bbb-dlr: iterate's precision in the mean", LR, "bbb",
        "alpha * precision(prior) @ (prior.mu",
        "alpha * precision(current) @ (prior.mu", "bbb-*-dlr", r"precision\(current\)"),
    Mutant("bbb-dlr: covariance of the prior", LR, "bbb", "covariance(current)",
        "covariance(prior)", "bbb-*-dlr",
        r"covariance\(prior\)|`prior` instead of `current"),
    # estimators
    Mutant("mc-hess: sum for g", CU, "mc_hess", "ghat.mean(axis=0)", "ghat.sum(axis=0)",
        "*-mc-hess-*", r"no 1/M in g", L1),
    Mutant("mc-hess: sum for G", CU, "mc_hess", "Ghat.mean(axis=0)", "Ghat.sum(axis=0)",
        "*-mc-hess-*", r"no 1/M in G", L1),
    Mutant("mc-hess: first sample's G", CU, "mc_hess", "Ghat.mean(axis=0)", "Ghat[0]",
        "*-mc-hess-*", r"G of the first sample", L1),
    Mutant("mc-hess: -G", CU, "mc_hess", "Ghat.mean(axis=0)", "-Ghat.mean(axis=0)", "*-mc-hess-*",
        r"sign of G", L1),
    Mutant("mc-ef: no 1/sqrt(M)", CU, "mc_ef", "Ghat / np.sqrt(len(samples))", "Ghat", "*-mc-ef-*",
        r"no 1/M in G", L1),
    Mutant("mc-ef: 1/M in the factor", CU, "mc_ef", "np.sqrt(len(samples))", "len(samples)",
        "*-mc-ef-*", r"1/M twice in G", L1),
    Mutant("mc-ef: mean gradient", CU, "mc_ef", "S = Ghat / np.sqrt(len(samples))",
        "S = g[:, None]", "*-mc-ef-*", r"mean gradient", L1),
    Mutant("mc-ef: centred", CU, "mc_ef", "S = Ghat / np", "S = (Ghat - g[:, None]) / np",
        "*-mc-ef-*", r"covariance of the gradients",
        L1),
    Mutant("mc-ef: one sample left out", CU, "mc_ef", "for theta in samples], axis=1)",
        "for theta in samples[1:]], axis=1)",
        "*-mc-ef-*", r"sample left out", L1),
    Mutant("lin-hess: factor transposed", CU, "lin_hess", "np.swapaxes(J, 1, 2) @ B",
        "np.swapaxes(J, 1, 2) @ np.swapaxes(B, 1, 2)",
        "*-lin-hess-*", r"transposed factor", L1),
    Mutant("lin-hess: g with the wrong sign", CU, "lin_hess", "g = J.reshape", "g = -J.reshape",
        "*-lin-hess-*", r"sign of g", L1),
    Mutant("lin-hess: residual for score", CU, "lin_hess", "lik.score(o, y)", "lik.residual(o, y)",
        "*-lin-hess-*", r"no R\^-1 in g", L1),
    Mutant("lin-hess: no information", CU, "lin_hess", "np.swapaxes(J, 1, 2) @ B",
        "np.swapaxes(J, 1, 2)", "*-lin-hess-*",
        r"no R\^-1 in G|no R in G", L1),
    Mutant("lin-hess: R for its inverse", CU, "lin_hess", "lik.info_factor(o)", "lik.factor(o)",
        "*-lin-hess-*",
        r"R in place of R\^-1 in G", L1),
    Mutant("lin-hess: jitter", CU, "lin_hess", "B = lik.info_factor(o)",
        "B = np.linalg.cholesky(lik.var(o) + 1e-4 * np.eye(o.shape[-1]))", "*-lin-hess-*",
         r"0.0001 I", L1),
    Mutant("lin-ef: G of the Hessian", CU, "lin_ef", "S = (g if",
        "S = lin_hess(model, lik, x, y, mu).S if True else (g if",
        "*-lin-ef-*", r"lin-hess", L1),
    Mutant("lin-ef: g squared entrywise", CU, "lin_ef", "(g if virtual is None",
        "(2 * g if virtual is None", "*-lin-ef-*",
        r"G times 4", L1),
    Mutant("gradient: mean over the batch", CU, "_gradient",
        "score = lik.score(model(theta, x), y)",
        "score = lik.score(model(theta, x), y) / (len(x) if model.is_batch(x) else 1)",
         "*-lin-ef-*", r"mean over the batch", L1),
    Mutant("gaussian: R for R^-1 in the score", LK, "Gaussian", "return self.natural(y - o)",
        "return (y - o) @ self.var(o).reshape(np.shape(o)[-1], -1)[: np.shape(o)[-1]]",
         "*-lin-ef-*", r"R in place of R\^-1 in g", L1),
    Mutant("gaussian: transposed factor in the information", LK, "Gaussian",
        "return self._expand(o, self._transpose(self._Li))",
        "return self._expand(o, self._Li)", "*-lin-hess-*", r"transposed factor", L1),
    Mutant("bernoulli: standard deviation taken for R^(1/2)", LK, "Bernoulli",
        "_diag(anp.exp(-0.5 * a) / (1.0 + anp.exp(-a)))",
        "_diag(anp.exp(-a) / (1.0 + anp.exp(-a)) ** 2)", "*-lin-hess-*", r"R\^2 in place of R", L1),
    Mutant("bernoulli: p for p (1 - p)", LK, "Bernoulli",
        "_diag(anp.exp(-0.5 * a) / (1.0 + anp.exp(-a)))",
        "_diag(anp.sqrt(sigmoid(o)))", "*-lin-hess-*", r"p in place of p", L1),
    Mutant("softmax: no p p^T", LK, "Categorical",
        "_diag(r * anp.matmul(p, off)) - p[..., :, None] * r[..., None, :] * off",
        "_diag(r)", "*-lin-hess-*", r"without - p p\^T", L1),
    Mutant("softmax: residual upside down", LK, "Categorical",
        "return y * anp.matmul(p, _off(o)) - (1.0 - y) * p",
        "return (1.0 - y) * p - y * anp.matmul(p, _off(o))", "*-lin-ef-*", r"sign of g", L1),
    Mutant("poisson: rate squared", LK, "Poisson", "_diag(exp(0.5 * o))", "_diag(exp(o))",
        "*-lin-hess-*",
        r"R\^2 in place of R", L1),
    # loops and streams
    Mutant("loop: step from the prior", LOOPS, "update", "current = step(method, prior, current,",
        "current = step(method, prior, prior,", "blr-lin-hess-fc", r"restarts at the prior", L2),
    Mutant("loop: prior moved along", LOOPS, "update", "step(method, prior, current,",
        "step(method, current, current,",
        "bbb-lin-hess-diag", r"moves the prior along|KL term left out", L2),
    Mutant("loop: linearised at the prior", LOOPS, "update", 'theta = current["mu"]',
        'theta = prior["mu"]', "blr-lin-*-dlr",
        r"linearised at the prior's mean", L2),
    Mutant("loop: one iteration too many", LOOPS, "update", 'range(params.get("n_iter", 1))',
        'range(params.get("n_iter", 1) + 1)',
        "blr-lin-ef-diag", r"one inner iteration too many", L2),
    Mutant("loop: one iteration too few", LOOPS, "update", 'range(params.get("n_iter", 1))',
        'range(max(params.get("n_iter", 1) - 1, 1))', "bbb-mc-ef-fc",
         r"one inner iteration too few", L2),
    Mutant("loop: the first samples in every iteration", LOOPS, "update", "samples[i]",
        "samples[0]", "blr-mc-*-diag",
        r"samples of the first inner iteration", L2),
    Mutant("stream: no prediction", LOOPS, "run", "state = predict(family, state, dynamics)",
        "pass", "bong-lin-hess-*",
        r"no prediction", L3),
    Mutant("stream: missing observation skips the prediction", LOOPS, "run",
        "state = predict(family, state, dynamics)",
        "state = state if Y[t] is None else predict(family, state, dynamics)", "bong-lin-hess-fc",
         r"skips the prediction", L3),
    Mutant("stream: prediction not before the first", LOOPS, "run",
        "state = predict(family, state, dynamics)",
        "state = predict(family, state, dynamics) if t else state", "bog-lin-hess-dlr",
         r"before the first", L3),
    Mutant("stream: prediction after the update", LOOPS, "run", "        states.append(state)",
        "        states.append(predict(family, state, dynamics))", "bog-lin-ef-fc",
         r"predictions for the next step", L3),
    Mutant("stream: samples of the first step", LOOPS, "run", "samples[t]", "samples[0]",
        "bong-mc-ef-diag",
        r"samples of the first step", L3),
    Mutant("OU: 1 - gamma for 1 - gamma^2", DY, "matrices", "(1 - gamma) * (1 + gamma) * var0",
        "(1 - gamma) * var0",
        "bong-lin-hess-diag", r"Q = \(1 - gamma\) var0", LP),
    Mutant("OU: towards 0", DY, "matrices", '(1 - gamma) * checks.vector("mu0", dynamics.mu0, P)',
        "np.zeros(P)",
        "bong-lin-hess-fc", r"no b", LP),
    Mutant("predict: F Sigma F", DY, "_propagate", "F @ state.Sigma @ F.T", "F @ state.Sigma @ F",
        "bong-lin-hess-fc",
        r"without the transpose", LP),
    Mutant("predict: no Q", DY, "_propagate", "F**2 * state.var + Q", "F**2 * state.var",
        "bong-lin-hess-diag", r"no Q", LP),
    Mutant("predict: F once", DY, "_propagate", "F**2 * state.var + Q", "F * state.var + Q",
        "bong-lin-hess-diag", r"F once", LP),
    Mutant("predict: Ups kept", DY, "_predict_dlr", "q.Ups / n", "q.Ups", "bong-lin-hess-dlr",
        r"Ups that is not moved", LP),
    Mutant("predict: W without its core", DY, "_predict_dlr",
        "finite(solve(L, (q.W * (f / n)[:, None]).T)).T",
        "q.W * (f / n)[:, None]", "bong-lin-hess-dlr", r"W without", LP),
    # written when the search was done, to see how it fares with mistakes that it was not made for
    Mutant("blr-fc: pull without the prior's precision", FC, "blr",
        "(prec0 @ (prior.mu - current.mu)", "((prior.mu - current.mu)",
        "blr-*-fc", r"`prior.mu - current.mu` instead of `prec0"),
    Mutant("blr-fc: last covariance in the mean", FC, "blr", "alpha * Sigma @ (prec0",
        "alpha * current.Sigma @ (prec0", "blr-*-fc",
        r"covariance of the last iterate in place of the new"),
    Mutant("bog-fc: Sg twice in the outer product", FC, "bog", "np.outer(Sg, prior.mu)",
        "np.outer(Sg, Sg)", "bog-*-fc",
        r"np.outer\(Sg, Sg\)"),
    Mutant("bbb-fc: no pull in r", FC, "bbb", "(curv.g + prec0 @ (prior.mu - current.mu))",
        "curv.g", "bbb-*-fc",
        r"KL term left out of the mean"),
    Mutant("bong-fc: diagonal of G", FC, "bong", "dense(curv))", "np.diag(np.diag(dense(curv))))",
        "bong-*-fc", r"diagonal of G alone"),
    Mutant("blr-fc_mom: alpha squared", FCM, "blr", "+ alpha * sym(S", "+ alpha**2 * sym(S",
        "blr-*-fc_mom", r"alpha \*\* 2 \* sym"),
    Mutant("bbb-fc_mom: entropy without an inverse", FCM, "bbb", "inv(current.Sigma)",
        "current.Sigma", "bbb-*-fc_mom",
        r"`current.Sigma` instead of `inv\(current"),
    Mutant("bong-fc_mom: one Sigma too many", FCM, "bong",
        "sym(prior.Sigma @ dense(curv) @ prior.Sigma)",
        "sym(prior.Sigma @ prior.Sigma @ dense(curv) @ prior.Sigma)", "bong-*-fc_mom",
        r"prior.Sigma @ prior.Sigma`|`prior.Sigma @ \(prior.Sigma"),
    Mutant("blr-diag: alpha on the prior's mean alone", DG, "blr",
        "(prior.mu - current.mu) / prior.var",
        "(alpha * prior.mu - current.mu) / prior.var", "blr-*-diag", r"alpha \* prior.mu"),
    Mutant("bong-diag: no variance in the mean", DG, "bong", "prior.mu + var * curv.g",
        "prior.mu + curv.g", "bong-*-diag",
        r"`curv.g` instead of `var \* curv.g"),
    Mutant("bog-diag: mu squared", DG, "bog", "prior.mu * curv.g", "prior.mu**2 * curv.g",
        "bog-*-diag", r"mu \*\* 2|prior.mu \* prior.mu"),
    Mutant("bbb-diag: v cubed", DG, "bbb", "2 * alpha * v**2 * diagonal(curv)",
        "2 * alpha * v**3 * diagonal(curv)", "bbb-*-diag",
        r"v \*\* 3"),
    Mutant("blr-diag_mom: v for v squared", DGM, "blr", "alpha * v**2 * diagonal",
        "alpha * v * diagonal", "blr-*-diag_mom",
        r"alpha \* v \* diagonal"),
    Mutant("bbb-diag_mom: 2 g", DGM, "bbb", "+ alpha * curv.g", "+ 2 * alpha * curv.g",
        "bbb-*-diag_mom", r"2 g in place"),
    Mutant("dlr: discarded columns not squared", LR, "project", "rowdot(lost, lost)",
        "abs(lost).sum(axis=1)", "bong-mc-ef-dlr",
        r"without being squared"),
    Mutant("blr-dlr: no alpha before Ups", LR, "_blr_tilde", "alpha * prior.Ups", "prior.Ups",
        "blr-*-dlr",
        r"`prior.Ups` instead of `alpha"),
    Mutant("bbb-dlr: alpha squared before W", LR, "bbb", "current.W + alpha * SDS",
        "current.W + alpha * alpha * SDS", "bbb-*-dlr",
        r"W with `alpha \*\* 2"),
    Mutant("bog-dlr: row sums for the diagonal", LR, "bog", "np.diag(SGS)", "SGS.sum(axis=1)",
        "bog-*-dlr", r"SGS.sum"),
    Mutant("mc-ef: g of the last sample", CU, "mc_ef", "Ghat.mean(axis=1)", "Ghat[:, -1]",
        "*-mc-ef-*", r"g of the last sample", L1),
    Mutant("lin-hess: |score|", CU, "lin_hess", "lik.score(o, y)", "abs(lik.score(o, y))",
        "*-lin-hess-*", r"\|y - yhat\|", L1),
    Mutant("mc-hess: median", CU, "mc_hess", "Ghat.mean(axis=0)", "np.median(Ghat, axis=0)",
        "*-mc-hess-*", r"median", L1),
    Mutant("lin-ef: normalised gradient", CU, "lin_ef", "g = _gradient(model, lik, x, y, mu)",
        "g = _gradient(model, lik, x, y, mu); g = g / np.linalg.norm(g)", "*-lin-ef-*",
         r"over its norm", L1),
    Mutant("poisson: residual upside down", LK, "Poisson", "return y - exp(o)", "return exp(o) - y",
        "*-lin-ef-*", r"sign of g",
        L1),
    Mutant("gaussian: one Cholesky factor in the score", LK, "Gaussian",
        "return self.natural(y - o)",
        "return self._times(y - o, self._Li)", "*-lin-ef-*", r"L\^-1 e in place", L1),
    Mutant("loop: alpha halved in every iteration", LOOPS, "update",
        "current = step(method, prior, current, curv, params)",
        "current = step(method, prior, current, curv, {**params, 'alpha': "
         "params.get('alpha', 1) / 2**i})", "bbb-lin-hess-fc",
        r"alpha over the number of the iteration", L2),
    Mutant("loop: linearised at the midpoint", LOOPS, "update", 'theta = current["mu"]',
        'theta = (current["mu"] + prior["mu"]) / 2',
        "blr-lin-hess-fc", r"midpoint", L2),
    Mutant("stream: the input before", LOOPS, "run", "X[t], Y[t]", "X[t - 1], Y[t]",
        "bong-lin-hess-fc", r"input of the step before", L3),
    Mutant("Woodbury: W not over Ups", LG, "woodbury_solve", "UW, UX = W / Ups[:, None]",
        "UW, UX = W", "bog-lin-*-dlr",
        r"`W` instead of `W / Ups", form="bog_woodbury"),
    Mutant("predict: F for F^2 in DLR", DY, "_predict_dlr", "n = f**2 + q_diag * q.Ups",
        "n = f + q_diag * q.Ups", "bong-lin-hess-dlr",
        r"`f` instead of `f \*\* 2", LP),
    Mutant("blr-fc psi: no 1/2 in psi2", FC, "natural", "psi2 = -prec / 2", "psi2 = -prec",
        "blr-*-fc",
        r"`-prec` instead of `-prec / 2", form="blr_psi"),
)
# fmt: on


# --- the judgement --------------------------------------------------------------------------------


class Result(NamedTuple):
    """What became of a mutant: the failed cases, and for the method with the most of them the
    diagnosis.
    """

    what: str
    caught: int
    cases: int
    said: tuple[str, ...]
    first: bool  # the first sentence is right
    right: bool  # one of those shown is
    seconds: float


@lru_cache(maxsize=256)
def cases_of(methods: tuple[str, ...], levels: tuple[str, ...]) -> list[Case]:
    return vectors.load(list(levels), list(methods) or None)


def judge(mutant: Mutant) -> Result:
    """Run a mutant and hold what is said of it against what should be."""
    return _judged(
        mutant.what, Mutated(mutant), cases_of((mutant.methods,), mutant.levels), mutant.says
    )


def blind(file: Path = BLIND) -> list[dict[str, Any]]:
    """The mistakes in the textbook implementation: what, list, changes, methods, levels, and a part
    of what is to be said.
    """
    return json.loads(file.read_text(encoding="utf-8"))


def later(name: str) -> list[dict[str, Any]]:
    """One of the later lists, whose mistakes also have what became of them at first sight."""
    return blind(BLIND.with_name(f"{name}.json"))


def judge_later(name: str, judged: Callable[[Result], Result]) -> dict[str, Any]:
    """What is said today of each mistake of a later list, and how many were named at first."""
    mutants = later(name)
    return {
        "first sight": dict(Counter(m["first sight"] for m in mutants)),
        "today": counted([judged(judge_blind(m)) for m in mutants]),
    }


def changed(source: str, old: str, new: str, what: str) -> str:
    """The source with one change; line breaks and commas before closing brackets do not count."""
    if old in source:
        return source.replace(old, new, 1)
    letters = [
        r",?\s*" + re.escape(c) if c in ")]}" else re.escape(c) for c in re.sub(r"\s", "", old)
    ]
    found = re.search(r"\s*".join(letters), source)
    if found is None:
        raise ValueError(f"{what}: {old!r} is not in {TEXTBOOK.name}")
    return source[: found.start()] + new.lstrip(" ") + source[found.end() :]


def judge_blind(mutant: dict[str, Any]) -> Result:
    """The same for a mistake in the textbook implementation."""
    source = TEXTBOOK.read_text(encoding="utf-8")
    for old, new in mutant["changes"]:
        source = changed(source, old, new, mutant["what"])
    module = types.ModuleType("textbook")
    exec(compile(source, f"<{mutant['what']}>", "exec"), module.__dict__)
    says = re.escape(mutant["says"]) if mutant["says"] else "(?!)"
    return _judged(
        mutant["what"],
        module.Textbook(),
        cases_of(tuple(mutant["methods"]), tuple(mutant["levels"])),
        says,
    )


def _judged(what: str, adapter: Any, cases: Sequence[Case], says: str) -> Result:
    began = time.perf_counter()
    outcomes = [runner.run_case(adapter, case, diagnose=False) for case in cases]
    failed = [
        o for o in outcomes if o.status in ("fail", "error") and o.case.result != "refuse"
    ]  # nothing here checks its input
    most = Counter(
        tuple(o.case.subject.values()) for o in failed if o.case.result == "value"
    ).most_common(1)
    one = [
        o.case
        for o in failed
        if most and tuple(o.case.subject.values()) == most[0][0] and o.case.result == "value"
    ]
    again = [
        runner.run_case(adapter, case)
        for case in sorted(one, key=lambda c: "convolution" in c.flags)[:LOOKED_AT]
    ]
    shown = [line for lines in diagnosis.verdict(again).values() for line in lines] or [
        o.message for o in failed[:1]
    ]
    hits = [bool(re.search(says, line)) for line in shown]
    return Result(
        what,
        len(failed),
        len(outcomes),
        tuple(shown),
        hits[:1] == [True],
        any(hits),
        time.perf_counter() - began,
    )


# --- every automatic mutant -----------------------------------------------------------------------


class Automatic(NamedTuple):
    """The edits of one rule in one family, or of one estimator."""

    subject: str
    mutants: int
    equivalent: int
    caught: int
    named: int
    missed: tuple[str, ...]


def automatic_steps(rule: str, family: str, every: int = 1) -> Automatic:
    """Every edit of the displayed form as the step of an adapter."""
    module = MODULES[family]
    names = edits.called(module, rule)
    found = [e for name in names for e in edits.edits(vars(module)[name])][::every]
    cases = [c for c in vectors.load(["L0"], [f"{rule}-*-{family}"]) if c.result == "value"]
    equivalent = caught = named = 0
    missed = []
    for edit in found:
        space = edits.with_edit(module, names, edit)
        if is_equivalent(space[rule], getattr(module, rule), rule, family):
            equivalent += 1
            continue
        hits = [c for c in cases if differs(space[rule], c)]
        caught += bool(hits)
        if not hits:
            missed.append(f"{family} {rule}: {edit.text}")
        else:
            named += named_as(space[rule], hits, edit)
    return Automatic(f"{rule}-{family}", len(found), equivalent, caught, named, tuple(missed))


def _answer(fn: Callable, case: Case) -> dict[str, Any] | None:
    family, given = case.subject["method"].split("-")[-1], case.input
    curv = given["curv"]
    reduced = Curv(curv["g"], S=curv["S"]) if "S" in curv else Curv(curv["g"], G=curv["G"])
    try:
        with np.errstate(all="ignore"):
            prior, current = (vectors.state(family, given[k]) for k in ("prior", "current"))
            return vectors.invariants(
                family, fn(prior, current, reduced, given["params"].get("alpha", 1))._asdict()
            )
    except Exception:
        return None


def differs(fn: Callable, case: Case) -> bool:
    """Whether the vectors tell this step from the right one."""
    values = _answer(fn, case)
    if values is None:
        return True
    return any(
        answers.compare(q, np.asarray(values[q.name], dtype=float), q.tolerance["float64"])
        is not None
        for q in case.expected
    )


def named_as(fn: Callable, cases: Sequence[Case], edit: edits.Edit) -> bool:
    """Whether the diagnosis of the first cases names this edit or another of the same equation, or
    a mistake by name.
    """
    for case in cases[:2]:
        values = _answer(fn, case)
        if values is not None and diagnosis.diagnose(object(), case, values, "float64")[1]:
            return True
    return False


def is_equivalent(
    fn: Callable, right: Callable, rule: str, family: str, problems: int = 20
) -> bool:
    """Whether an edited step gives the same on random problems."""
    rng = np.random.default_rng(0)
    for _ in range(problems):
        prior, current, curv, alpha = random_problem(rng, rule, family)
        with np.errstate(all="ignore"):
            try:
                a = vectors.invariants(family, fn(prior, current, curv, alpha)._asdict())
            except Exception:
                return False
            b = vectors.invariants(family, right(prior, current, curv, alpha)._asdict())
        for key in b:
            if np.shape(a[key]) != np.shape(b[key]) or not np.max(
                np.abs(a[key] - b[key])
            ) <= 1e-9 * np.max(np.abs(b[key])):
                return False
    return True


def random_problem(
    rng: np.random.Generator, rule: str, family: str
) -> tuple[Any, Any, Curv, float]:
    P, R, K = int(rng.integers(3, 7)), 2, int(rng.integers(1, 5))

    def state() -> Any:
        A = rng.standard_normal((P, P)) / 4
        spread = {
            "Sigma": A @ A.T + np.eye(P),
            "var": rng.uniform(0.5, 2, P),
            "Ups": rng.uniform(0.5, 2, P),
            "W": rng.standard_normal((P, R)),
        }
        kind = STATES[family]
        return kind(rng.standard_normal(P), *(spread[f] for f in kind._fields[1:]))

    prior = state()
    current = state() if rule in ("blr", "bbb") else prior
    return (
        prior,
        current,
        Curv(rng.standard_normal(P) / 4, S=rng.standard_normal((P, K)) / 4),
        1 if rule == "bong" else 0.25,
    )


def automatic_estimates(hess: str) -> Automatic:
    """Every edit of an estimator."""
    cases = vectors.load(["L1"], [f"*-{hess}-fc"])
    found = mistakes.edited_estimates(hess)
    equivalent = caught = 0
    missed = []
    for mistake in found:
        if any(estimate_differs(mistake, case) for case in cases):
            caught += 1
        else:
            missed.append(f"{hess}: {mistake.text}")
    return Automatic(hess, len(found), equivalent, caught, caught, tuple(missed))


def estimate_differs(mistake: mistakes.Mistake, case: Case) -> bool:
    """Whether a case tells this estimator from the right one."""
    try:
        with np.errstate(all="ignore"):
            values = pipeline.values(mistake.pieces, case)
    except Exception:
        return True
    return any(
        answers.compare(q, np.asarray(values[q.name], dtype=float), q.tolerance["float64"])
        is not None
        for q in case.expected
    )


# --- the table ------------------------------------------------------------------------------------


def counted(results: Sequence[Result]) -> dict[str, Any]:
    """How many of a list are caught and named, and which are not."""
    return {
        "mutants": len(results),
        "caught": sum(r.caught > 0 for r in results),
        "named": sum(r.right for r in results),
        "named first": sum(r.first for r in results),
        "not caught": [r.what for r in results if not r.caught],
        "not named": [
            {"what": r.what, "said": list(r.said)} for r in results if r.caught and not r.right
        ],
        "each": [
            {
                "what": r.what,
                "failed cases": r.caught,
                "cases": r.cases,
                "said": list(r.said),
                "right": r.right,
                "first": r.first,
            }
            for r in results
        ],
    }


def summary(
    results: Sequence[Result], seen: Sequence[Result], automatic: Sequence[Automatic]
) -> dict[str, Any]:
    """What is written, in a fixed order and without times."""
    return {
        "by hand": counted(results),
        "blind": {"at first sight": FIRST_SIGHT, "today": counted(seen)},
        "automatic": {
            "mutants": sum(a.mutants for a in automatic),
            "equivalent": sum(a.equivalent for a in automatic),
            "caught": sum(a.caught for a in automatic),
            "missed": [line for a in automatic for line in a.missed],
            "each": [
                {
                    "subject": a.subject,
                    "mutants": a.mutants,
                    "equivalent": a.equivalent,
                    "caught": a.caught,
                    "explained": a.named,
                }
                for a in automatic
            ],
        },
    }


def told(r: Result) -> Result:
    """Print a line on a mutant."""
    mark = (
        "missed"
        if not r.caught
        else "named first"
        if r.first
        else "named"
        if r.right
        else "not named"
    )
    print(f"{mark:12} {r.caught:3}/{r.cases:<3} {r.seconds:5.1f} s  {r.what}", flush=True)
    if mark == "not named":
        for line in r.said or ("(nothing)",):
            print(f"{'':29}{line}")
    return r


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=None, help=f"where to write the JSON, e.g. {OUT.name}"
    )
    parser.add_argument("--no-automatic", action="store_true", help="the mistakes by hand alone")
    parser.add_argument("--later", action="store_true", help="the later lists alone")
    args = parser.parse_args()
    if args.later:
        out = {name: judge_later(name, told) for name in LATER}
        for name, one in out.items():
            today = one["today"]
            print(
                f"{name}: {today['mutants']} mistakes, {today['caught']} caught, {today['named']} "
                f"named; at first sight {one['first sight'].get('named', 0)}"
            )
        if args.out:
            text = json.dumps(out, indent=1, ensure_ascii=False)
            args.out.write_text(text + "\n", encoding="utf-8")
        return 0
    results = [told(judge(mutant)) for mutant in MUTANTS]
    seen = [told(judge_blind(mutant)) for mutant in blind()]
    automatic = []
    if not args.no_automatic:
        for family in FAMILIES:
            for rule in RULES:
                automatic.append(automatic_steps(rule, family))
                print(automatic[-1][:5])
        automatic += [automatic_estimates(hess) for hess in HESSIANS]
    out = summary(results, seen, automatic)
    hand, auto = out["by hand"], out["automatic"]
    print(
        f"\nby hand: {hand['mutants']} mistakes, {hand['caught']} caught, {hand['named']} "
        f"named, {hand['named first']} at once"
    )
    today = out["blind"]["today"]
    print(
        f"blind: {today['mutants']} mistakes, {today['caught']} caught, {today['named']} "
        f"named; at first sight {FIRST_SIGHT}"
    )
    if automatic:
        print(
            f"automatic: {auto['mutants']} edits, {auto['equivalent']} equivalent, "
            f"{auto['caught']} caught, {len(auto['missed'])} missed"
        )
        for line in auto["missed"]:
            print(f"  missed: {line}")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if hand["caught"] == hand["mutants"] else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""The experimental conclusions of the paper, each with the comparisons that decide it.

A function of :data:`CONCLUSIONS` takes the runs and returns comparisons. Rates are those with the
least NLPD on the validation rows of the same study. Where every rate diverged there, the smallest
one stands for the method.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from . import timings
from .evidence import Compared, Run, best_rate, by_seed, compare, matching

SARCOS, KIN40K = "sarcos-4449", "uci-kin40k"
TASKS = {SARCOS: "SARCOS-4449", KIN40K: "kin40k"}
PAPERS_RATES = (0.005, 0.01, 0.05, 0.1, 0.5)
HESSIANS = ("lin-hess", "lin-ef", "mc-ef")


class Conclusion(NamedTuple):
    """A conclusion of the paper."""

    id: str
    line: int  # in the LaTeX source
    place: str
    sentence: str  # the paper's, shortened
    compared: Callable[[Sequence[Run]], list[Compared]]
    studies: str  # the studies that decide it
    claim: str  # in the ledger


def of_study(runs: Sequence[Run], study: str) -> list[Run]:
    """The runs of a study in any size, the authors' code apart."""
    return [r for r in runs if r["study"][0] == study and not r["adapter"]]


# --- selection ------------------------------------------------------------------------------------


def tuned(
    runs: Sequence[Run],
    method: str,
    rates: Sequence[float] = PAPERS_RATES,
    task: str = SARCOS,
    **how: Any,
) -> list[Run]:
    """Test runs of a method in study c at the rate that the validation rows choose."""
    own = matching(of_study(runs, "c"), method=method, task=task, **how)
    tested = matching(own, part="test", folder=task)  # other folders have other prior variances
    if method.startswith("bong"):
        return tested
    rate = best_rate(matching(own, part="valid"), lambda alpha: alpha in rates)
    rate = min(rates) if rate is None else rate
    return matching(tested, alpha=rate)


def c_values(runs: Sequence[Run], method: str, rates: Sequence[float] = PAPERS_RATES, **how: Any
             ) -> dict[int, Run]:  # fmt: skip
    """The final NLPD of those runs by seed."""
    n_iter = {"n_iter": how.pop("n_iter")} if "n_iter" in how and method[1] in "lb" else {}
    task, w0 = how.pop("task", SARCOS), how.pop("w0", "random")
    return by_seed(tuned(runs, method, rates, task, w0=w0, **n_iter), "nlpd-plugin")


def mnist(runs: Sequence[Run], study: str, method: str, metric: str, t: int | None = None,
          **how: Any) -> dict[int, Run]:  # fmt: skip
    """Values of the test runs of study a or b by seed; its parameters are those of its tuning."""
    own = matching(of_study(runs, study), method=method, part="test", task="mnist", **how)
    return by_seed(own, metric, t)


def a_less(runs: Sequence[Run], A: str, B: str, metric: str = "nlpd-plugin", t: int | None = None,
           question: str = "less", study: str = "a") -> Compared:  # fmt: skip
    """Two methods on MNIST at step t, by default at the last one that both have reached."""
    if t is None:
        both = matching(of_study(runs, study), part="test", task="mnist")
        t = shorter([r for r in both if r["method"] in (A, B)])
    label = f"MNIST{'' if t is None else f', t = {t}'}: {A} {_words(question)} {B} ({metric})"
    sides = (mnist(runs, study, name, metric, t) for name in (A, B))
    return compare(label, question, *sides, metric)


def shorter(runs: Sequence[Run]) -> int | None:
    """The last step of the shorter runs; None where all that ended have the same."""
    last = {r["rows"][-1]["t"] for r in runs if r["status"] == "done"}
    return min(last) if len(last) > 1 else None


def c_less(runs: Sequence[Run], A: tuple[str, dict[str, Any]], B: tuple[str, dict[str, Any]],
           question: str = "less", task: str = SARCOS) -> Compared:  # fmt: skip
    sides = [c_values(runs, name, task=task, **dict(how)) for name, how in (A, B)]
    label = f"{TASKS[task]}: {_name(*A)} {_words(question)} {_name(*B)}"
    return compare(label, question, *sides, "nlpd-plugin")


def _words(question: str) -> str:
    return {"less": "below", "much less": "far below", "similar": "≈", "diverges": "diverges, not"}[
        question
    ]


def _name(method: str, how: dict[str, Any]) -> str:
    words = [f"I={how['n_iter']}"] if "n_iter" in how and method[1] in "lb" else []
    words += ["W₀=0"] if how.get("w0") == "zero" else []
    words += ["rates to 1"] if 1.0 in how.get("rates", ()) else []
    return " ".join([method.replace("-dlr", ""), *words])


# --- MNIST, the main list -------------------------------------------------------------------------


def linearisation(runs: Sequence[Run]) -> list[Compared]:
    out = [
        a_less(runs, f"{rule}-{lin}-dlr", f"{rule}-mc-ef-dlr")
        for rule in ("bong", "bog")
        for lin in ("lin-hess", "lin-ef")
    ]
    one, ten = {"n_iter": 1}, {"n_iter": 10}
    out += [c_less(runs, (f"{rule}-lin-hess-dlr", how), (f"{rule}-mc-ef-dlr", how), task=task)
            for task in TASKS
            for rule, how in (("bong", {}), ("blr", one), ("blr", ten), ("bog", {}))]  # fmt: skip
    return out


def natural_gradients(runs: Sequence[Run]) -> list[Compared]:
    out = [a_less(runs, f"bong-{h}-dlr", f"bog-{h}-dlr") for h in HESSIANS]
    for task, h, w0 in itertools.product(TASKS, ("lin-hess", "mc-ef"), ("random", "zero")):
        bog = (f"bog-{h}-dlr", {"w0": w0})
        out.append(c_less(runs, (f"bong-{h}-dlr", {}), bog, task=task))
    return out


def implicit_regularisation(runs: Sequence[Run]) -> list[Compared]:
    out = [a_less(runs, f"bong-{h}-dlr", f"blr-{h}-dlr") for h in HESSIANS]
    for task, h, n_iter in itertools.product(TASKS, ("lin-hess", "mc-ef"), (1, 10)):
        blr = (f"blr-{h}-dlr", {"n_iter": n_iter})
        out.append(c_less(runs, (f"bong-{h}-dlr", {}), blr, task=task))
    return out


def the_grid(runs: Sequence[Run]) -> list[Compared]:
    """BONG against BLR whose grid of rates has α = 1."""
    rates = (*PAPERS_RATES, 1.0)
    return [c_less(runs, ("bong-lin-hess-dlr", {}), ("blr-lin-hess-dlr",
                   {"n_iter": n_iter, "rates": rates}), task=task)
            for task in TASKS for n_iter in (1, 10)]  # fmt: skip


def hess_and_ef(runs: Sequence[Run]) -> list[Compared]:
    return [a_less(runs, "bong-lin-hess-dlr", "bong-lin-ef-dlr")]


def bbb_poor(runs: Sequence[Run]) -> list[Compared]:
    return [a_less(runs, f"{rule}-{h}-dlr", f"bbb-{h}-dlr") for h in ("lin-hess", "lin-ef")
            for rule in ("bong", "blr")]  # fmt: skip


def calibration(runs: Sequence[Run]) -> list[Compared]:
    """At the steps before 1,000 at which the study was measured: 250 and 500 in full."""
    own = matching(of_study(runs, "a"), task="mnist", part="test")
    measured = {row["t"] for r in own for row in r["rows"] if "ece-plugin" in row}
    out = []
    for t in sorted(t for t in measured if t < 1000) or (250, 500):
        out.append(a_less(runs, "bong-lin-hess-dlr", "bog-lin-hess-dlr", "ece-plugin", t))
        for good in ("bong", "bog"):
            for bad in ("blr", "bbb"):
                out.append(a_less(runs, f"{good}-lin-hess-dlr", f"{bad}-lin-hess-dlr",
                                  "ece-plugin", t, "much less"))  # fmt: skip
    return out


def best_calibrated(runs: Sequence[Run]) -> list[Compared]:
    others = ("bog-lin-hess-dlr", "blr-lin-hess-dlr", "bbb-lin-hess-dlr")
    out = [a_less(runs, "bong-lin-hess-dlr", name, "ece-plugin") for name in others]
    best = mnist(runs, "b", "bong-lin-hess-dlr", "ece-plugin", rank=10)
    for name, how in (("bong-lin-hess-diag", {}), ("bong-lin-hess-dlr", {"rank": 1})):
        label = f"MNIST: bong-lin-hess-dlr rank 10 below {name}{_rank(how)} (ece-plugin)"
        other = mnist(runs, "b", name, "ece-plugin", **how)
        out.append(compare(label, "less", best, other, "ece-plugin"))
    return out


def _rank(how: dict[str, Any]) -> str:
    return f" rank {how['rank']}" if how else ""


def predictives(runs: Sequence[Run]) -> list[Compared]:
    out = []
    for method in ("bong-lin-hess-dlr", "bog-lin-hess-dlr", "blr-lin-hess-dlr"):
        plugin, lin, mc = (
            mnist(runs, "a", method, f"nlpd-{kind}") for kind in ("plugin", "lin_mc", "mc")
        )
        said = f"MNIST, {method}: "
        out.append(compare(said + "plugin ≈ lin_mc", "similar", plugin, lin, "nlpd"))
        logits = mnist(runs, "a", method, "nlpd-lin_mc_f")  # finite where lin_mc is not
        out.append(compare(said + "plugin ≈ lin_mc_f", "similar", plugin, logits, "nlpd"))
        out.append(compare(said + "plugin far below mc", "much less", plugin, mc, "nlpd"))
    return out


# --- MNIST, families ------------------------------------------------------------------------------


def families(runs: Sequence[Run]) -> list[Compared]:
    out = []
    for h in HESSIANS:
        dlr = {r: mnist(runs, "b", f"bong-{h}-dlr", "nlpd-plugin", rank=r) for r in (1, 10)}
        diag = mnist(runs, "b", f"bong-{h}-diag", "nlpd-plugin")
        said = f"MNIST, bong-{h}: "
        out.append(compare(said + "DLR-10 below DLR-1", "less", dlr[10], dlr[1], "nlpd"))
        if h == "lin-ef":
            out.append(compare(said + "diag below DLR-1", "less", diag, dlr[1], "nlpd"))
        else:
            out.append(compare(said + "DLR-1 ≈ diag", "similar", dlr[1], diag, "nlpd"))
    return out


def parameterisations(runs: Sequence[Run]) -> list[Compared]:
    out = []
    for h in HESSIANS:
        nat, mom = (mnist(runs, "b", f"bong-{h}-{f}", "nlpd-plugin") for f in ("diag", "diag_mom"))
        out.append(compare(f"MNIST, bong-{h}: natural ≈ moment", "similar", nat, mom, "nlpd"))
    return out


def moment_unstable(runs: Sequence[Run]) -> list[Compared]:
    """At the prior variance that the tuning chose, and over all that it tried, as seeds of their
    own.
    """
    chosen, tried = [], []
    for family in ("diag_mom", "diag"):
        own = matching(of_study(runs, "b"), method=f"bong-lin-ef-{family}", task="mnist")
        trials = sorted((r for r in own if r["part"] == "valid"), key=lambda r: r["prior_var"])
        chosen.append(by_seed(matching(own, part="test"), "nlpd-plugin"))
        tried.append(by_seed(({**r, "seed": k} for k, r in enumerate(trials)), "nlpd-plugin"))
    said = "MNIST, bong-lin-ef, {}: moment diverges, natural not"
    return [
        compare(said.format("the tuned prior variance"), "diverges", *chosen, "nlpd"),
        compare(said.format("over the prior variances of the tuning"), "diverges", *tried, "nlpd"),
    ]


# --- SARCOS ---------------------------------------------------------------------------------------


def sarcos_lin_one(runs: Sequence[Run]) -> list[Compared]:
    bong, one = ("bong-lin-hess-dlr", {}), {"n_iter": 1}
    bog, bbb = ("bog-lin-hess-dlr", {}), ("bbb-lin-hess-dlr", one)
    return [
        c_less(runs, bong, ("blr-lin-hess-dlr", one), "similar"),
        c_less(runs, bog, bbb, "similar"),
        c_less(runs, bong, bog, "much less"),
        c_less(runs, bong, bbb, "much less"),
        c_less(runs, bong, ("bog-lin-hess-dlr", {"w0": "zero"}), "much less"),
        c_less(runs, bong, ("bbb-lin-hess-dlr", {"w0": "zero", **one}), "much less"),
    ]


def _bbb_ten(runs: Sequence[Run], h: str) -> list[Compared]:
    out = []
    for w0 in ("random", "zero"):
        one, ten = ({"n_iter": n, "w0": w0} for n in (1, 10))
        name = f"bbb-{h}-dlr"
        out.append(c_less(runs, (name, ten), (name, one)))
        out.append(c_less(runs, (name, ten), (f"bong-{h}-dlr", {}), "similar"))
    return out


def sarcos_lin_ten(runs: Sequence[Run]) -> list[Compared]:
    return _bbb_ten(runs, "lin-hess")


def sarcos_ef(runs: Sequence[Run]) -> list[Compared]:
    out = [c_less(runs, ("bong-mc-ef-dlr", {}), ("blr-mc-ef-dlr", {"n_iter": 1}), question)
           for question in ("similar", "less")]  # fmt: skip
    out += _bbb_ten(runs, "mc-ef")
    out += [c_less(runs, (name, how), ("bog-mc-ef-dlr", {})) for name, how in (
        ("bong-mc-ef-dlr", {}), ("blr-mc-ef-dlr", {"n_iter": 10}))]  # fmt: skip
    return out


def ef_catches_up(runs: Sequence[Run]) -> list[Compared]:
    lin, ef = "blr-lin-hess-dlr", "blr-mc-ef-dlr"
    return [c_less(runs, ("bong-lin-hess-dlr", {}), ("bong-mc-ef-dlr", {})),
            c_less(runs, (lin, {"n_iter": 1}), (ef, {"n_iter": 1})),
            c_less(runs, (lin, {"n_iter": 10}), (ef, {"n_iter": 10}), "similar")]  # fmt: skip


def _at_rate(runs: Sequence[Run], name: str, alpha: float, n_iter: int | None, w0: str = "random"
             ) -> dict[int, Run]:  # fmt: skip
    how = {} if n_iter is None else {"n_iter": n_iter}
    own = matching(of_study(runs, "c"), method=name, task=SARCOS, part="test", alpha=alpha, w0=w0)
    return by_seed(matching(own, **how), "nlpd-plugin")


def blr_rates(runs: Sequence[Run]) -> list[Compared]:
    bong, name = c_values(runs, "bong-lin-hess-dlr"), "blr-lin-hess-dlr"
    out = []
    for n_iter in (1, 10):
        for alpha in PAPERS_RATES:
            question = "similar" if n_iter == 10 or alpha == 0.5 else "much less"
            label = f"SARCOS-4449: bong {_words(question)} blr I={n_iter}, α = {alpha:g} (lin-hess)"
            out.append(compare(label, question, bong, _at_rate(runs, name, alpha, n_iter), "nlpd"))
    return out


def bbb_rates(runs: Sequence[Run]) -> list[Compared]:
    """Every rate far behind bong; the best one with I = 10 nearer to it than with I = 1."""
    bong, out = c_values(runs, "bong-lin-hess-dlr"), []
    for w0 in ("random", "zero"):
        for n_iter in (1, 10):
            for alpha in PAPERS_RATES:
                said = f"SARCOS-4449: bong far below bbb I={n_iter}, α = {alpha:g}"
                other = _at_rate(runs, "bbb-lin-hess-dlr", alpha, n_iter, w0)
                label = said + (", W₀=0" if w0 == "zero" else "")
                out.append(compare(label, "much less", bong, other, "nlpd"))
    return out + [_nearer(runs, w0) for w0 in ("random", "zero")]


def _nearer(runs: Sequence[Run], w0: str) -> Compared:
    """bbb at the best of the paper's rates on the test rows, I = 10 below I = 1."""
    one, ten = (
        _by_mean(_at_rate(runs, "bbb-lin-hess-dlr", alpha, n, w0) for alpha in PAPERS_RATES)[:1]
        for n in (1, 10)
    )
    label = "SARCOS-4449: bbb at its best rate, I=10 below I=1" + (", W₀=0" if w0 == "zero" else "")
    return compare(label, "less", *(ten or [{}]), *(one or [{}]), "nlpd")


def sensitive(runs: Sequence[Run]) -> list[Compared]:
    """The best of the paper's rates far below the worst, on the test rows."""
    out = []
    cells = [("blr-lin-hess-dlr", 1), ("blr-lin-hess-dlr", 10), ("blr-mc-ef-dlr", 1)]
    cells += [("blr-mc-ef-dlr", 10), ("bog-lin-hess-dlr", None), ("bog-mc-ef-dlr", None)]
    cells += [("bbb-lin-hess-dlr", 1), ("bbb-lin-hess-dlr", 10)]
    for name, n_iter in cells:
        sides = _by_mean(_at_rate(runs, name, alpha, n_iter) for alpha in PAPERS_RATES)
        best, worst = (sides[0], sides[-1]) if sides else ({}, {})
        label = f"SARCOS-4449: {_name(name, {'n_iter': n_iter})}: best rate far below the worst"
        out.append(compare(label, "much less", best, worst, "nlpd"))
    return out


def _by_mean(sides: Iterable[dict[int, Run]]) -> list[dict[int, Run]]:
    """Those that have runs, the one with the least mean first."""
    return sorted((s for s in sides if s), key=_mean)


def _mean(side: dict[int, Run]) -> float:
    return sum(r["value"] for r in side.values()) / len(side)


def bog_worse(runs: Sequence[Run]) -> list[Compared]:
    return [c_less(runs, (f"bong-{h}-dlr", {}), (f"bog-{h}-dlr", {"w0": w0}), "much less")
            for h in ("lin-hess", "mc-ef") for w0 in ("random", "zero")]  # fmt: skip


# --- rank, winner, exactness ----------------------------------------------------------------------


def ranks(runs: Sequence[Run]) -> list[Compared]:
    return [c for task in (SARCOS, "uci-kin40k", "teacher") for c in _ranks_on(runs, task, (5, 10))]


def sarcos_rank(runs: Sequence[Run]) -> list[Compared]:
    return _ranks_on(runs, SARCOS, (10,))


def _ranks_on(runs: Sequence[Run], task: str, chosen: Sequence[int]) -> list[Compared]:
    own = matching(of_study(runs, "f"), task=task, part="test")
    out = []
    for metric in ("nlpd-plugin", "nlpd-lin_mc"):
        full = by_seed(matching(own, method="bong-lin-hess-fc"), metric)
        for rank in chosen:
            low = by_seed(matching(own, method="bong-lin-hess-dlr", rank=rank), metric)
            label = f"{task}: bong-lin-hess, FC far below DLR-{rank} ({metric})"
            out.append(_turned(compare(label, "much less", full, low, metric)))
    return out


def _turned(c: Compared) -> Compared:
    """The opposite answer: "as good as FC" is that FC is not far below."""
    other = {"yes": "no", "no": "yes", "?": "?"}[c.answer]
    return c._replace(label=c.label.replace("FC far below", "FC not far below"), answer=other)


def winner(runs: Sequence[Run]) -> list[Compared]:
    out = [a_less(runs, "bong-lin-hess-dlr", f"{rule}-lin-hess-dlr") for rule in
           ("blr", "bog", "bbb")]  # fmt: skip
    out.append(a_less(runs, "bong-lin-hess-dlr", "blr-lin-hess-dlr", question="similar"))
    for rule, how in (("blr", {"n_iter": 10}), ("bog", {}), ("bbb", {"n_iter": 10})):
        out.append(c_less(runs, ("bong-lin-hess-dlr", {}), (f"{rule}-lin-hess-dlr", how)))
    return out


def mc_poor(runs: Sequence[Run]) -> list[Compared]:
    own = [r for r in of_study(runs, "c") if r["folder"] == f"{SARCOS}-predictives"]
    out = []
    for method in ("bong-lin-hess-dlr", "bong-mc-ef-dlr"):
        mine = matching(own, method=method, part="test", prior_var=1.0)
        plugin, mc = (by_seed(mine, f"nlpd-{kind}") for kind in ("plugin", "mc"))
        label = f"SARCOS-4449, {method}: plugin far below mc"
        out.append(compare(label, "much less", plugin, mc, "nlpd"))
    return out


def prior_variance(runs: Sequence[Run]) -> list[Compared]:
    own = [r for r in of_study(runs, "c") if r["folder"] == f"{SARCOS}-predictives"]
    own = matching(own, method="bong-lin-hess-dlr", part="test")
    sides = {v: matching(own, prior_var=v) for v in (0.01, 1.0, 100.0)}
    plugin = {v: by_seed(side, "nlpd-plugin") for v, side in sides.items()}
    mc = {v: by_seed(side, "nlpd-mc") for v, side in sides.items()}
    said = "SARCOS-4449, bong-lin-hess: "
    small = compare(said + "σ₀² = 1 below 0.01 (plugin)", "less", plugin[1.0], plugin[0.01], "nlpd")
    large = compare(said + "σ₀² = 1 far below 100 (mc)", "much less", mc[1.0], mc[100.0], "nlpd")
    return [small, large]


PROBED = f"{SARCOS}-mc-hess-probes"  # diag(G) by one Hutchinson probe for each sample
MC_HESS = (  # folder, words, prior variance, samples, probes
    (f"{KIN40K}-mc-hess", "kin40k, P = 211", 1.0, 100, None),
    (PROBED, "SARCOS-4449, one probe a sample", 0.001, 100, 1),
    (PROBED, "SARCOS-4449, one probe a sample", 0.01, 100, 1),
    (PROBED, "SARCOS-4449, one probe a sample", 0.01, 1000, 1),
    (f"{SARCOS}-mc-hess", "SARCOS-4449", 0.01, 100, None),
    (f"{SARCOS}-mc-hess", "SARCOS-4449", 0.01, 1000, None),
)


def mc_hess(runs: Sequence[Run]) -> list[Compared]:
    """bong in the diagonal family, at the same prior variance."""
    out = []
    for folder, said, var, n_samples, n_probes in MC_HESS:
        own = matching(of_study(runs, "c"), folder=folder, prior_var=var)
        how = {"n_samples": n_samples, "n_probes": n_probes}
        lin = by_seed(matching(own, method="bong-lin-hess-diag"), "nlpd-plugin")
        mc = by_seed(matching(own, method="bong-mc-hess-diag", **how), "nlpd-plugin")
        label = f"{said}, σ₀² = {var:g}: bong-lin-hess-diag far below bong-mc-hess-diag, M = "
        out.append(compare(f"{label}{n_samples}", "much less", lin, mc, "nlpd"))
    return out


def blr_slower(runs: Sequence[Run]) -> list[Compared]:
    """Seconds of 2,000 steps, in study d: one method after the other, seed by seed."""
    out = []
    for h in ("lin-hess", "mc-ef"):
        for P in (99, 498, 2003):
            own = matching(of_study(runs, "d"), folder=f"one-step-{P}")
            bong = by_seed(matching(own, method=f"bong-{h}-dlr"), "seconds")
            blr = by_seed(matching(own, method=f"blr-{h}-dlr", n_iter=1), "seconds")
            label = f"P = {P}, DLR-10: bong-{h} takes less time than blr-{h} with I = 1 (seconds)"
            out.append(compare(label, "less", bong, blr, "seconds"))
    return out


def _main(id: str, line: int, sentence: str, how: Any, studies: str, claim: str) -> Conclusion:
    return Conclusion(id, line, "Experiments", sentence, how, studies, claim)


def _sarcos(id: str, line: int, sentence: str, how: Any, claim: str) -> Conclusion:
    return Conclusion(id, line, "SARCOS", sentence, how, "c", claim)


CONCLUSIONS: tuple[Conclusion, ...] = (
    _main("linearisation", 1466, "Linearization helps: lin-hess and lin-ef outperform the MC "
          "variants.", linearisation, "ac", "C49"),
    _main("natural-gradients", 1470, "NGD helps: bong outperforms bog.", natural_gradients, "ac",
          "C49"),
    _main("implicit-regularisation", 1472, "Implicit regularization helps: bong outperforms blr.",
          implicit_regularisation, "ac", "C49"),
    _main("grid", 1472, "The same with α = 1 in the grid of blr, where with I = 1 it is bong (the "
          "paper’s grid ends at 0.5).", the_grid, "c", "C102"),
    _main("hess-and-ef", 1474, "lin-hess outperforms lin-ef, at least for bong.", hess_and_ef, "a",
          "C49"),
    _main("bbb-poor", 1476, "bbb generally does poorly.", bbb_poor, "a", "C103"),
    _main("calibration", 1478, "bong (lin-hess) is slightly better calibrated than bog, both much "
          "better than blr and bbb, at least for small sample sizes.", calibration, "a", "C57"),
    Conclusion("best-calibrated", 1862, "MNIST appendix", "Among the lin-hess variants, "
               "bong-DLR-10 is the most well-calibrated.", best_calibrated, "ab", "C57"),
    _main("predictives", 1482, "Plugin is similar to lin_mc, and both are generally much better "
          "than mc.", predictives, "a", "C50"),
    _main("families", 1490, "DLR-10 outperforms DLR-1, which is similar to diagonal, except with "
          "lin-ef, where DLR-1 is worse.", families, "b", "C104"),
    _main("rank", 1490, "Rank 5 to 10 often gives results as good as FC.", ranks, "f", "C105"),
    _main("parameterisations", 1492, "Natural and moment parameterizations of the diagonal perform "
          "comparably.", parameterisations, "b", "C106"),
    _main("moment-unstable", 1493, "With lin-ef the moment parameterization can be numerically "
          "unstable.", moment_unstable, "b", "C107"),
    _main("one-step", 1511, "One-step methods are faster than iterative methods.",
          timings.one_step, "bench", "C54"),
    _main("linear-faster", 1513, "Linearized methods are faster than MC methods.",
          timings.linear_and_mc, "bench", "C54"),
    _main("ef-faster", 1515, "EF methods are a bit faster than lin-hess, especially for diagonal.",
          timings.ef_and_hess, "bench", "C54"),
    _main("mc-hess", 1445, "mc-hess works very poorly, even with M = 1000.", mc_hess, "c", "C108"),
    Conclusion("blr-slower", 1718, "Running time", "blr is slower than bong, even with I = 1.",
               blr_slower, "d", "C109"),
    Conclusion("winner", 1560, "Conclusions", "The clear winner is bong-lin-hess; blr-lin-hess "
               "nearly matches it.", winner, "ac", "C110"),
    _sarcos("prior-variance", 1887, "A smaller prior variance underfits; a much larger one makes "
            "the MC predictive unstable.", prior_variance, "C111"),
    _sarcos("sarcos-rank", 1904, "DLR-10 gives similar results to full covariance.", sarcos_rank,
            "C112"),
    _sarcos("sarcos-mc", 1906, "The MC approximation to the NLPD gives much worse results.",
            mc_poor, "C113"),
    _sarcos("sarcos-lin-1", 1912, "lin-hess, I = 1: bong and blr are indistinguishable; bbb and "
            "bog are also, but much worse.", sarcos_lin_one, "C61"),
    _sarcos("sarcos-lin-10", 1917, "I = 10: bbb improves significantly and approaches bong and "
            "blr.", sarcos_lin_ten, "C114"),
    Conclusion("ten-times", 1920, "SARCOS", "With I = 10, blr and bbb are about 10 times slower.",
               timings.ten_times, "bench", "C60"),
    _sarcos("sarcos-ef", 1926, "mc-ef: for I = 1 bong and blr are similar, bong with a slight "
            "edge; for I = 10 bbb catches up; bog is always last.", sarcos_ef, "C115"),
    _sarcos("ef-catches-up", 1934, "mc-ef is slightly worse than lin-hess at I = 1 and catches up "
            "at I = 10.", ef_catches_up, "C116"),
    _main("larger-scale", 1937, "In larger experiments lin-hess is significantly better than mc-ef "
          "even with I = 10.", lambda runs: [a_less(runs, f"{rule}-lin-hess-dlr",
          f"{rule}-mc-ef-dlr") for rule in ("blr", "bbb")], "a", "C117"),
    _sarcos("blr-rates", 2132, "blr, I = 1: the best rate is 0.5, which matches bong, others are "
            "much worse; I = 10: several rates are as good as bong.", blr_rates, "C61"),
    _sarcos("bbb-rates", 2147, "bbb, I = 1: all rates are poor, many give NaNs; I = 10: some get "
            "close to bong but do not match it.", bbb_rates, "C118"),
    _sarcos("bog-worse", 2164, "bog: the results are much worse.", bog_worse, "C119"),
    _sarcos("sensitive", 2166, "All methods except bong are quite sensitive to the learning rate.",
            sensitive, "C61"),
)  # fmt: skip

"""What a report shows, computed from the records: groups of runs, means, ranks, differences.

Runs that differ in nothing but the seed form a :class:`Group`, the groups of one task a
:class:`TaskResults`. A run that diverged is never dropped: it is counted beside every mean and
ranks last in its seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ...grid import FAMILIES, HESSIANS, NAMES
from ..records import Record, canonical, fingerprint, group_key

# the order of metrics in a report
STEMS = ("nlpd", "error", "ece", "rmse", "kl", "prequential", "nlpd_positive", "nonpositive")
KINDS = ("", "plugin", "lin_mc", "lin_mc_f", "mc")
SYMBOLS = {"alpha": "α", "n_iter": "I", "n_samples": "M", "rank": "R", "prior_var": "σ₀²"}
Score = tuple[int, float]
SETTINGS = ("prior_var", "obs_var", "gamma", "w0", "prior", "steps", "eval_samples")


class Group(NamedTuple):
    """Runs of one method with the same parameters and settings, one for each seed.

    Attributes
    ----------
    id : str
        A hash of what they have in common but the versions.
    label : str
        The method, and those parameters in which groups of the task differ.
    method, adapter : str
        The method, and what computed it if not bongref.
    runs : tuple of dict
        The records, by seed.
    """

    id: str
    label: str
    method: str
    adapter: str
    runs: tuple[Record, ...]

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the method, and the settings of the run."""
        first = self.runs[0]
        return {**first["params"], **{k: first["settings"].get(k) for k in SETTINGS}}

    @property
    def parts(self) -> tuple[str, str, str]:
        """Rule, Hessian and family; the whole name and two blanks for one outside the grid."""
        if self.method not in NAMES or self.adapter:
            return (f"{self.method} ({self.adapter})" if self.adapter else self.method, "", "")
        rule, a, b, family = self.method.split("-")
        return rule, f"{a}-{b}", family

    def having(self, *status: str) -> list[Record]:
        """Its runs of these statuses."""
        return [r for r in self.runs if r["status"] in status]


class TaskResults(NamedTuple):
    """The groups of one task.

    ``coming`` has the number of runs that were asked for and are not there by group, as
    :func:`.records.group_key` gives it, and ``absent`` the same by the label of groups that have no
    run yet; ``coming`` is None where that is not known.
    """

    task: dict[str, Any]
    groups: tuple[Group, ...]
    metrics: tuple[str, ...]
    seeds: tuple[int, ...]
    coming: dict[str, int] | None = None
    absent: tuple[tuple[str, int], ...] = ()

    def to_come(self, group: Group) -> int:
        """Runs of a group that are not there: of those asked for, or of the seeds of others."""
        if self.coming is None:
            return len(self.seeds) - len(group.runs)
        return self.coming.get(group_key(group.runs[0]), 0)

    @property
    def missing(self) -> int:
        """Runs of some group and some seed that are not there."""
        return len(self.groups) * len(self.seeds) - sum(len(g.runs) for g in self.groups)


class Point(NamedTuple):
    """A mean over the seeds, with everything that is not in it.

    Attributes
    ----------
    t : int
        The step.
    mean, error : float
        Over the finite values; NaN where there is none. The standard error is NaN for one value.
    n : int
        Finite values.
    infinite, diverged : int
        Runs whose value is not finite, and runs that diverged up to this step.
    of : int
        All runs that have got so far, or diverged on the way.
    """

    t: int
    mean: float
    error: float
    n: int
    infinite: int
    diverged: int
    of: int


# --- groups ---------------------------------------------------------------------------------------


def by_task(records: Iterable[Record], coming: Sequence[Record] | None = None) -> list[TaskResults]:
    """The records by task and group.

    Parameters
    ----------
    records : iterable of dict
        As of :func:`bongref.experiments.store.read`.
    coming : sequence of dict, optional
        The runs that were asked for and are not there, as of
        :func:`bongref.experiments.store.planned`.

    Returns
    -------
    list of TaskResults
        In the order of the first record of each task.
    """
    tasks: dict[str, list[Record]] = {}
    for record in records:
        tasks.setdefault(canonical(record["task"]), []).append(record)
    return [_results(found, coming) for found in tasks.values()]


def _results(records: Sequence[Record], coming: Sequence[Record] | None) -> TaskResults:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(group_key(record), []).append(record)
    several = len({canonical(r["versions"]) for r in records}) > 1
    task = fingerprint(records[0]["task"])
    left: dict[str, list[Record]] = {}
    for one in coming or ():
        if one["task"] == task:
            left.setdefault(one["group"], []).append(one)
    new = [ones for key, ones in left.items() if key not in found]
    varied = _varied([*found.values(), *new])
    groups = []
    for key, runs in found.items():
        by_version: dict[str, list[Record]] = {}
        for r in runs:
            by_version.setdefault(canonical(r["versions"]) if several else "", []).append(r)
        for version, same in by_version.items():
            label = _label(same[0], varied)
            if len(by_version) > 1:
                label += f" · bongref {same[0]['versions'].get('bongref')} [{same[0]['id'][:4]}]"
            id = key if len(by_version) == 1 else fingerprint([key, version])
            ordered = tuple(sorted(same, key=lambda r: r["seed"]))
            groups.append(Group(id, label, same[0]["method"], same[0]["adapter"] or "", ordered))
    groups.sort(key=_order)
    metrics = {m: None for r in records for row in r["rows"] for m in row if m != "t"}
    seeds = tuple(sorted({r["seed"] for r in records}))
    absent = tuple(sorted((_label(ones[0], varied), len(ones)) for ones in new))
    counts = None if coming is None else {key: len(ones) for key, ones in left.items()}
    return TaskResults(
        records[0]["task"], tuple(groups), _sorted_metrics(metrics), seeds, counts, absent
    )


def _order(group: Group) -> tuple[Any, ...]:
    rank = {name: k for k, name in enumerate(NAMES)}
    return (rank.get(group.method, len(NAMES)), group.adapter, group.method, _natural(group))


def _natural(group: Group) -> list[tuple[str, float, str]]:
    """Parameters in an order in which 0.05 is before 0.1 and 5 before 10."""
    return [
        (k, float(v) if isinstance(v, (int, float)) else math.inf, str(v))
        for k, v in sorted(group.params.items())
    ]


def _varied(groups: Sequence[Sequence[Record]]) -> set[str]:
    """The parameters and settings in which groups of the same method differ."""
    out = set()
    by_method: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for runs in groups:
        first = runs[0]
        own = {**first["params"], **{k: first["settings"].get(k) for k in SETTINGS}}
        by_method.setdefault((first["method"], first["adapter"] or ""), []).append(own)
    for sets in by_method.values():
        for key in sets[0]:
            if len({canonical(s.get(key)) for s in sets}) > 1:
                out.add(key)
    return out


def _label(record: Record, varied: set[str]) -> str:
    own = {**record["params"], **{k: record["settings"].get(k) for k in SETTINGS}}
    shown = [f"{SYMBOLS.get(k, k)}={number(own[k])}" for k in own if k in varied]
    foreign = [f"({record['adapter']})"] if record["adapter"] else []
    return " ".join([record["method"], *foreign, *shown])


def _sorted_metrics(names: Iterable[str]) -> tuple[str, ...]:
    def place(name: str) -> tuple[int, int, str]:
        stem, _, kind = name.partition("-")
        first = STEMS.index(stem) if stem in STEMS else len(STEMS)
        return first, KINDS.index(kind) if kind in KINDS else len(KINDS), name

    return tuple(sorted(names, key=place))


def main_metric(metrics: Sequence[str]) -> str:
    """The metric that a report ranks by: the plugin NLPD if it is there, else the first."""
    for name in ("nlpd-plugin", "nlpd"):
        if name in metrics:
            return name
    return metrics[0] if metrics else ""


def number(value: Any, digits: int = 4) -> str:
    """A value for readers: 4 significant digits, no exponent where none is needed.

    >>> number(0.5), number(10), number(1e-5), number(float("inf")), number(None)
    ('0.5', '10', '1e-05', '∞', 'none')
    """
    if value is None:
        return "none"
    if isinstance(value, float):
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        return f"{value:.{digits}g}"
    return str(value)


# --- means ----------------------------------------------------------------------------------------


def values(run: Record, metric: str) -> dict[int, float]:
    """The metric of a run by step."""
    return {row["t"]: float(row[metric]) for row in run["rows"] if metric in row}


def final(run: Record, metric: str) -> float | None:
    """The metric at the end of a complete run; None if it diverged, failed, or did not take it."""
    found = values(run, metric) if run["status"] == "done" else {}
    return found[max(found)] if found else None


def point(t: int, found: Sequence[float], diverged: int) -> Point:
    """Mean and standard error of the finite values.

    >>> point(10, [1.0, 3.0, float("inf")], diverged=1)
    Point(t=10, mean=2.0, error=1.0, n=2, infinite=1, diverged=1, of=4)
    """
    finite = np.array([v for v in found if math.isfinite(v)])
    n = len(finite)
    mean = float(finite.mean()) if n else math.nan
    error = float(finite.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return Point(t, mean, error, n, len(found) - n, diverged, len(found) + diverged)


def curve(group: Group, metric: str) -> list[Point]:
    """The mean of a metric over the seeds at every step that has one."""
    runs = [(values(r, metric), r) for r in group.having("done", "diverged")]
    steps = sorted({t for found, _ in runs for t in found})
    out = []
    for t in steps:
        gone = sum(r["status"] == "diverged" and r["step"] <= t for _, r in runs)
        alive = [f[t] for f, r in runs if t in f and not _gone(r, t)]
        out.append(point(t, alive, gone))
    return out


def _gone(run: Record, t: int) -> bool:
    return bool(run["status"] == "diverged" and run["step"] <= t)


def last(group: Group, metric: str) -> Point:
    """The mean of a metric over the complete runs, at their end."""
    ended = [final(r, metric) for r in group.having("done")]
    steps = max((r["settings"]["steps"] for r in group.runs), default=0)
    found = [v for v in ended if v is not None]
    return point(steps, found, len(group.having("diverged")))


def crosses(group: Group, metric: str) -> list[tuple[int, float]]:
    """Where runs diverged: the step, and the last value of the metric before it (NaN if none)."""
    out = []
    for run in group.having("diverged"):
        before = [v for t, v in sorted(values(run, metric).items()) if t < run["step"]]
        out.append((run["step"], before[-1] if before else math.nan))
    return out


def seconds(group: Group) -> Point:
    """Seconds in the steps of the complete runs."""
    found = [float(r["timing"]["steps"]) for r in group.having("done")]
    return point(0, found, len(group.having("diverged")))


# --- ranks ----------------------------------------------------------------------------------------


def ranks(results: TaskResults, metric: str) -> dict[str, float]:
    """Mean rank of each group over the seeds that all of them have; 1 is best.

    In each seed, a run that diverged ranks last, together with the others that did, and a value
    that is not finite before them. Groups that did not take the metric have no rank. Seeds that
    some group has not run yet do not count; if there is no other, each group is ranked in its own.

    Parameters
    ----------
    results : TaskResults
    metric : str

    Returns
    -------
    dict
        Group ids to mean ranks.
    """
    scores: dict[int, dict[str, Score]] = {}
    for group in results.groups:
        for run in group.having("done", "diverged"):
            value = final(run, metric)
            if value is None and run["status"] == "done":
                continue
            scores.setdefault(run["seed"], {})[group.id] = _score(value)
    entered = {id for found in scores.values() for id in found}
    shared = [found for found in scores.values() if len(found) == len(entered)]
    out: dict[str, list[float]] = {}
    for found in shared or list(scores.values()):
        for id, rank in _ranked(found).items():
            out.setdefault(id, []).append(rank)
    return {id: float(np.mean(found)) for id, found in out.items()}


def _score(value: float | None) -> Score:
    """What runs are sorted by: the value, then those that are not finite, then those diverged."""
    if value is None:
        return 2, 0.0
    return (0, value) if math.isfinite(value) else (1, 0.0)


def _ranked(scores: dict[str, Score]) -> dict[str, float]:
    """Ranks from 1, equals share the mean of their places."""
    order = sorted(scores, key=lambda id: scores[id])
    out: dict[str, float] = {}
    for _, some in groupby(enumerate(order, 1), key=lambda entry: scores[entry[1]]):
        places = list(some)
        mean = sum(k for k, _ in places) / len(places)
        out.update((id, mean) for _, id in places)
    return out


def places(values: Mapping[str, float]) -> dict[str, int]:
    """The place of each value, 1 for the least; equals have the same.

    >>> places({"a": 0.5, "b": 0.0, "c": 0.0})
    {'a': 3, 'b': 1, 'c': 1}
    """
    return {id: 1 + sum(other < value for other in values.values()) for id, value in values.items()}


# --- another folder -------------------------------------------------------------------------------


class Difference(NamedTuple):
    """A group here and the same group there.

    Attributes
    ----------
    here, there : Point
        Means over all complete runs of each.
    paired : Point
        The mean of here minus there over the seeds that are complete in both.
    same : int
        Pairs whose rows are equal bit for bit.
    speed : float
        Median ratio of the seconds there to those here; above 1, here is faster.
    """

    here: Point
    there: Point
    paired: Point
    same: int
    speed: float


def difference(here: Group, there: Group, metric: str) -> Difference:
    """Two groups compared over the seeds that both have."""
    other = {r["seed"]: r for r in there.having("done")}
    pairs = [(r, other[r["seed"]]) for r in here.having("done") if r["seed"] in other]
    gaps, ratios, same = [], [], 0
    for a, b in pairs:
        x, y = final(a, metric), final(b, metric)
        if x is not None and y is not None:
            gaps.append(0.0 if x == y else x - y)
        same += canonical(a["rows"]) == canonical(b["rows"])
        if a["timing"]["steps"] > 0:
            ratios.append(b["timing"]["steps"] / a["timing"]["steps"])
    speed = float(np.median(ratios)) if ratios else math.nan
    t = last(here, metric).t
    return Difference(last(here, metric), last(there, metric), point(t, gaps, 0), same, speed)


def same_task(task: Mapping[str, Any], tasks: Sequence[TaskResults]) -> TaskResults | None:
    """The results of the same task in another folder; None if there are none.

    Standardised data and estimated variances may differ in their last digits on another machine:
    without results of exactly this task, those count whose files, split, model and rounded numbers
    are the same.
    """
    exact = (o for o in tasks if o.task == task)
    alike = (o for o in tasks if _likeness(o.task) == _likeness(task))
    return next(exact, None) or next(alike, None)


def counterparts(here: TaskResults, there: TaskResults) -> dict[str, Group]:
    """The group there for each group here, by the id of the latter.

    The one with the same id; else the one with the same method, parameters and settings up to the
    last digits, of the same adapter or, if there is only one, of another.
    """
    by_id = {g.id: g for g in there.groups}
    out = {g.id: by_id[g.id] for g in here.groups if g.id in by_id}
    taken = {g.id for g in out.values()}
    left = [g for g in there.groups if g.id not in taken]
    for g in here.groups:
        alike = [x for x in left if _settings(x) == _settings(g)] if g.id not in out else []
        own = [x for x in alike if x.adapter == g.adapter] or alike
        if len(own) == 1:
            out[g.id] = own[0]
    return out


def _settings(group: Group) -> str:
    first = group.runs[0]
    return canonical(_rounded([first["method"], first["params"], first["settings"]]))


def _likeness(task: Mapping[str, Any]) -> str:
    return canonical(_rounded({k: v for k, v in task.items() if k != "checksum"}))


def _rounded(value: Any) -> Any:
    """Plain data with floats of six digits."""
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# --- facets ---------------------------------------------------------------------------------------


def facets(groups: Sequence[Group], most: int = 8) -> list[tuple[str, list[Group]]]:
    """Groups for the panels of a figure: one panel for a few, else one for each kind.

    Parameters
    ----------
    groups : sequence of Group
    most : int
        How many groups one panel may have.

    Returns
    -------
    list of (str, list of Group)
        Titles and groups; by family and Hessian, those outside the grid in a panel of their own.
    """
    if len(groups) <= most:
        return [("", list(groups))]
    out: dict[tuple[int, int], tuple[str, list[Group]]] = {}
    for group in groups:
        _, hess, family = group.parts
        if family:
            key = (FAMILIES.index(family), HESSIANS.index(hess))
        else:
            key = (len(FAMILIES), 0)
        title = f"{hess}-{family}" if family else "other"
        out.setdefault(key, (title, []))[1].append(group)
    return [out[key] for key in sorted(out)]


def leaders(groups: Sequence[Group], order: Mapping[str, float], most: int = 8) -> list[str]:
    """The ids of the groups to highlight in a panel: all of a few, else the best of each rule."""
    if len(groups) <= most:
        return [g.id for g in groups]
    ranked = sorted(groups, key=lambda g: (order.get(g.id, math.inf), g.label))
    best: dict[str, str] = {}
    for g in ranked:
        best.setdefault(g.parts[0], g.id)
    return list(best.values())[:most]

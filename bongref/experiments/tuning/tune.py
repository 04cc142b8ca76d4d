"""``bongref tune``: learning rates, prior variances and the rest, on a held-out part of the data.

The loss of a trial is a metric, by default the plugin NLPD, on the validation part: a fifth of the
training rows, which the stream does not see. The test part is never looked at. Each method has a
study of its own (:mod:`.study`); all are in one storage, by default ``DIR/study.journal``, and the
best of each in ``DIR/best.json``, which ``bongref run --params`` reads.
"""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ... import checks, reports
from ...errors import InvalidValue
from ...grid import method
from .. import specs, store, tasks
from ..execute import execute
from ..records import Record, canonical
from ..specs import Spec
from ..workers import Pool, WorkerDied, gather
from . import space as spaces
from . import study
from .best import BEST, FORMAT
from .study import LARGE, Proposal, Study, Trial

JOURNAL = "study.journal"
DEFAULT: dict[str, Any] = {
    "alpha": {"low": 1e-4, "high": 1.0, "log": True},
    "prior_var": {"low": 1e-3, "high": 10.0, "log": True},
    "obs_var": {"low": 1e-3, "high": 1.0, "log": True},
}


class Plan(NamedTuple):
    """What is tuned, and how long.

    Attributes
    ----------
    task : Task
        With ``part="valid"``.
    methods : tuple of str
    space : space.Whole
    trials : int
        Of each method.
    round_size : int
        Trials that are proposed together. The result depends on it, and not on the workers.
    sampler : {"tpe", "grid"}
    seed : int
        Of the proposals.
    seeds : tuple of int
        Of the runs of a trial; its loss is the mean over them.
    metric : str
    steps : int
        The length of the streams.
    eval_samples : int
        Samples of the predictive.
    fixed : dict
        Parameters that are not searched, e.g. ``{"rank": 10}``; they act where a method takes them.
    """

    task: tasks.Task
    methods: tuple[str, ...]
    space: spaces.Whole
    trials: int = 40
    round_size: int = 4
    sampler: str = "tpe"
    seed: int = 0
    seeds: tuple[int, ...] = (0,)
    metric: str = "nlpd-plugin"
    steps: int = 0
    eval_samples: int = 100
    fixed: Mapping[str, Any] = {}

    def axes(self, name: str) -> dict[str, spaces.Axis]:
        """The parameters that are searched for a method."""
        gaussian = self.task.facts["kind"] == "regression"
        return spaces.of_method(self.space, name, gaussian=gaussian)

    def spec(self, name: str, params: Mapping[str, Any], seed: int) -> Spec:
        """The run of a trial."""
        own = {**{k: v for k, v in self.fixed.items() if k in method(name).params}, **params}
        shared = {key: own.pop(key, self.task.facts[key]) for key in spaces.SHARED}
        settings = {
            "steps": self.steps,
            **shared,
            "gamma": None,
            "metrics": {self.metric: [self.steps]},
            "eval_samples": self.eval_samples,
        }
        full = dict(method(name, **own).params)
        return Spec(
            self.task.source, self.task.facts, name, full, settings, seed, None, specs.versions()
        )

    def facts(self) -> dict[str, Any]:
        """What the losses depend on besides the method and the space."""
        return {
            "task": self.task.facts,
            "metric": self.metric,
            "steps": self.steps,
            "seeds": list(self.seeds),
            "eval_samples": self.eval_samples,
            "fixed": dict(self.fixed),
            "versions": specs.versions(),
        }


class Done(NamedTuple):
    """A trial of a method, as it was stored."""

    method: str
    trial: Trial
    finished: int  # trials stored so far, of all methods
    total: int


def check(plan: Plan) -> None:
    """Refuse a plan that cannot be carried out.

    Raises
    ------
    InvalidValue
        If a parameter acts in none of the methods, a method has nothing to tune, or the task is
        not of the validation part.
    """
    if plan.task.source.part != "valid":
        raise InvalidValue(
            f"task must have part='valid', got {plan.task.source.part!r}: "
            "parameters are never chosen on the test part"
        )
    checks.choice("sampler", plan.sampler, study.SAMPLERS)
    found = {name: plan.axes(name) for name in plan.methods}
    acting = {key for axes in found.values() for key in axes}
    given = {*plan.space.axes, *(k for part in plan.space.methods.values() for k in part)}
    for key in sorted(given - acting):
        raise InvalidValue(
            f"space: {key} acts in none of the methods {', '.join(plan.methods[:4])}"
            f"{', ...' if plan.methods[4:] else ''} on {plan.task.facts['name']}; leave it out"
        )
    for name, axes in found.items():
        if not axes:
            raise InvalidValue(f"space must have a parameter of {name}, and has none")
        if plan.sampler == "grid":
            spaces.grid(axes)


def default_space(task: tasks.Task, names: Sequence[str]) -> spaces.Whole:
    """The space without ``--space``: alpha where there is one, and the variances.

    Parameters
    ----------
    task : Task
    names : sequence of str
        The methods.

    Returns
    -------
    space.Whole
    """
    known = {key for name in names for key in method(name).params} | {"prior_var"}
    if task.facts["kind"] == "regression":
        known.add("obs_var")
    return spaces.parse({key: axis for key, axis in DEFAULT.items() if key in known})


# --- the driver -----------------------------------------------------------------------------------


def tune(
    plan: Plan,
    folder: str | os.PathLike[str],
    pool: Pool,
    *,
    storage: str | None = None,
    progress: Callable[[Done], None] | None = None,
) -> dict[str, Any]:
    """Tune the methods of a plan, or go on where an earlier call was stopped.

    Parameters
    ----------
    plan : Plan
    folder : path
        For the studies, the results of all runs (``results.jsonl``) and ``best.json``; one process
        at a time.
    pool : Pool
        From :func:`..workers.pool`. The result does not depend on how many workers there are or on
        the order in which they finish.
    storage : str, optional
        A URL of an Optuna storage in place of the journal.
    progress : callable, optional
        Called after every trial.

    Returns
    -------
    dict
        As in ``best.json``.

    Raises
    ------
    InvalidValue
        If the plan cannot be carried out, the storage has studies of another task or with other
        settings, or a run of a trial fails for another reason than divergence.
    """
    check(plan)
    where = Path(folder)
    with store.writer(where) as out:
        facts = plan.facts()
        opened = study.open_storage(storage or where / JOURNAL, facts["task"])
        studies = {
            name: Study(
                opened, f"{plan.task.facts['name']}/{name}", plan.axes(name), facts,
                sampler=plan.sampler, seed=plan.seed, round_size=plan.round_size,
            )
            for name in plan.methods
        }  # fmt: skip
        known = {r["id"]: r for r in store.read(where).records if r["status"] != "failed"}
        while rounds := _rounds(plan, studies):
            _evaluate(plan, studies, rounds, _runs(pool, out, known), progress)
        best = summary(plan, studies)
        reports.save(where / BEST, reports.to_json(with_earlier(where / BEST, best)))
    return best


def with_earlier(path: Path, best: dict[str, Any]) -> dict[str, Any]:
    """The best parameters together with those of methods tuned before in all the same way."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        rest = {key: value for key, value in before.items() if key != "methods"}
        same = canonical(rest) == canonical({k: v for k, v in best.items() if k != "methods"})
        return {**best, "methods": {**before["methods"], **best["methods"]}} if same else best
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return best


Runs = Callable[[Sequence[Spec]], Iterator[Record]]


def _runs(pool: Pool, out: store.Writer, known: dict[str, Record]) -> Runs:
    """Records of runs as they are finished; what was computed before is not computed again."""

    def runs(wanted: Sequence[Spec]) -> Iterator[Record]:
        missing = {spec.id: spec for spec in wanted if spec.id not in known}
        yield from {spec.id: known[spec.id] for spec in wanted if spec.id in known}.values()
        for _, result in gather(pool, execute, list(missing.values())):
            if isinstance(result, WorkerDied):
                raise OSError(
                    f"a trial has no result ({result}); the finished ones are stored, and the same "
                    "command goes on"
                )
            if isinstance(result, Exception):
                raise result
            if result is not None:
                if result["status"] != "failed":
                    known[result["id"]] = result
                    out.append(result)
                yield result

    return runs


def _rounds(plan: Plan, studies: Mapping[str, Study]) -> list[tuple[str, Proposal]]:
    """The present round of every study."""
    return [(name, p) for name, one in studies.items() for p in one.pending(plan.trials)]


def _evaluate(
    plan: Plan,
    studies: Mapping[str, Study],
    rounds: Sequence[tuple[str, Proposal]],
    runs: Runs,
    progress: Callable[[Done], None] | None,
) -> None:
    """Evaluate one round of every study; each study is told in the order of its trials."""
    wanted = {
        (name, p.number): [plan.spec(name, p.params, seed) for seed in plan.seeds]
        for name, p in rounds
    }
    queues = {name: deque(p for other, p in rounds if other == name) for name in studies}
    total = sum(one.size(plan.trials) for one in studies.values())
    found: dict[str, Record] = {}
    for record in runs([spec for parts in wanted.values() for spec in parts]):
        found[record["id"]] = record
        name = record["method"]
        queue, one = queues[name], studies[name]
        while queue and all(s.id in found for s in wanted[name, queue[0].number]):
            proposal = queue.popleft()
            ended = [found[s.id] for s in wanted[name, proposal.number]]
            trial = one.tell(proposal, *loss_of(ended, plan))
            if progress:
                done = sum(len(s.trials) for s in studies.values())
                progress(Done(name, trial, done, total))


def loss_of(runs: Sequence[Record], plan: Plan) -> tuple[float, dict[str, Any]]:
    """The loss of a trial and what is kept with it.

    Parameters
    ----------
    runs : sequence of dict
        The records of its seeds.
    plan : Plan

    Returns
    -------
    loss : float
        The mean over the seeds; a run that diverged counts as ``LARGE`` and more.
    attributes : dict
        ``diverged`` [{"seed", "step", "reason"}], ``values``, ``runs`` (their ids), ``seconds``.

    Raises
    ------
    InvalidValue
        If a run failed.
    """
    values, lost = [], []
    for run in runs:
        if run["status"] == "failed":
            raise InvalidValue(f"a trial of {run['method']} failed: {run['reason']}")
        if run["status"] == "diverged":
            lost.append({key: run[key] for key in ("seed", "step", "reason")})
            values.append(study.bounded(math.inf, run["step"], plan.steps))
        else:
            values.append(study.bounded(float(run["rows"][-1][plan.metric])))
    attributes = {
        "diverged": lost,
        "values": values,
        "runs": [run["id"] for run in runs],
        "seconds": sum(float(run["timing"]["total"]) for run in runs),
    }
    mean = math.fsum(values) / len(values)
    return (max(mean, LARGE) if lost else mean), attributes


# --- the best -------------------------------------------------------------------------------------


def summary(plan: Plan, studies: Mapping[str, Study]) -> dict[str, Any]:
    """The best parameters of each method, and what they were chosen by.

    Parameters
    ----------
    plan : Plan
    studies : mapping of str to Study

    Returns
    -------
    dict
        ``methods`` maps names to ``params``, ``settings`` (prior_var, obs_var), ``loss``, ``trial``
        and the numbers of trials; ``params`` is None where every trial diverged.
    """
    task = plan.task.facts
    out: dict[str, Any] = {
        "format": FORMAT,
        "task": {"name": task["name"], "params": task["params"], "kind": task["kind"]},
        "validation": {"n_train": task["n_train"], "n_valid": task["n_test"]},
        "metric": plan.metric,
        "sampler": plan.sampler,
        "trials": plan.trials,
        "round": plan.round_size,
        "seed": plan.seed,
        "seeds": list(plan.seeds),
        "steps": plan.steps,
        "versions": specs.versions(),
        "methods": {},
    }
    for name, one in studies.items():
        best = one.best()
        entry: dict[str, Any] = {
            "params": None,
            "settings": None,
            "space": spaces.plain(one.space),
            "trials": len(one.trials),
            "diverged": sum(bool(t.attributes.get("diverged")) for t in one.trials),
            "seconds": sum(t.attributes.get("seconds", 0.0) for t in one.trials),
        }
        if best is not None:
            spec = plan.spec(name, best.params, plan.seeds[0])
            entry["params"] = dict(spec.params)
            entry["settings"] = {key: spec.settings[key] for key in spaces.SHARED}
            entry |= {"loss": best.loss, "trial": best.number}
        out["methods"][name] = entry
    return out

"""The command ``bongref tune``; its arguments are in :mod:`..arguments`."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from ... import checks
from ...errors import InvalidValue
from ...grid import PARAMETERS
from .. import specs, tasks
from ..cli import check_metric, load_task
from ..report.statistics import number
from ..workers import ClusterGone, pool
from . import space as spaces
from . import study, tune
from .best import BEST


def plan_of(args: argparse.Namespace) -> tune.Plan:
    """What the arguments of ``bongref tune`` stand for."""
    study.require_optuna()
    task = load_task(args, "valid")
    names = specs.method_names(args.methods)
    if args.sampler == "grid" and not args.space:
        raise InvalidValue(
            "sampler: a grid needs --space FILE with lists of values, got none; "
            'e.g. {"alpha": [0.01, 0.1, 1], "prior_var": [0.1, 1]}'
        )
    whole = spaces.read(args.space) if args.space else tune.default_space(task, names)
    check_metric(args.metric, task.facts["kind"])
    if args.metric.startswith("prequential"):
        raise InvalidValue(
            f"metric must be one of the validation part, got {args.metric!r}; e.g. nlpd-plugin"
        )
    T = len(task.X)
    plan = tune.Plan(
        task,
        tuple(names),
        whole,
        trials=checks.integer("trials", args.trials, 1),
        round_size=checks.integer("round", args.round, 1),
        sampler=args.sampler,
        seed=checks.integer("seed", args.seed, 0),
        seeds=tuple(range(checks.integer("seeds", args.seeds, 1))),
        metric=args.metric,
        steps=T if args.steps is None else checks.integer("steps", args.steps, 1, T),
        eval_samples=checks.integer("eval_samples", args.eval_samples, 1),
        fixed=_fixed(args.fix, task),
    )
    tune.check(plan)
    return plan


def _fixed(words: list[str], task: tasks.Task) -> dict[str, Any]:
    """Parameters that are not searched; the rank is at most the number of parameters."""
    whole = spaces.parse({}, "fix")
    fixed: dict[str, Any] = {"rank": min(PARAMETERS["rank"][1], task.model().n_params)}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise InvalidValue(f"fix must be KEY=VALUE, got {word!r}")
        value: Any = {"true": True, "false": False}.get(text.lower(), text)
        if isinstance(value, str):
            try:
                value = float(text) if not text.lstrip("-").isdigit() else int(text)
            except ValueError:
                raise InvalidValue(f"fix must be KEY=NUMBER, got {word!r}") from None
        whole = spaces.parse({key: value}, "fix")
        axis = whole.axes[key]
        fixed[key] = axis.values[0] if isinstance(axis, spaces.Choice) else value
    return fixed


def tune_methods(args: argparse.Namespace) -> int:
    """Tune, and say what is best."""
    plan = plan_of(args)
    again = shlex.join(["bongref", *sys.argv[1:]])
    facts = plan.task.facts
    if not args.quiet:
        print(
            f"{len(plan.methods)} method(s), {plan.trials} trials each in rounds of "
            f"{plan.round_size} on {facts['name']} ({facts['n_train']} training rows, "
            f"{facts['n_test']} held out for validation) into {args.out}",
            flush=True,
        )
    with pool(args.workers, args.scheduler) as workers, _Bar(args.quiet) as bar:
        try:
            best = tune.tune(plan, args.out, workers, storage=args.storage, progress=bar.show)
        except KeyboardInterrupt:
            print(
                f"bongref: stopped; the finished trials are in {args.out}. "
                f"The same command goes on:\n  {again}",
                file=sys.stderr,
            )
            return 130
        except ClusterGone as error:
            raise OSError(
                f"{error}; the finished trials are in {args.out}. The same command goes on"
            ) from None
    print(table(best))
    print(f"written to {args.out}/{BEST}, for bongref run --params")
    return 0


class _Bar:
    """A bar with the time left where standard error is a terminal, else a line for each trial."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.bar: Any = None

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def show(self, done: tune.Done) -> None:
        """A trial has been stored."""
        if self.quiet:
            return
        if sys.stderr.isatty():
            from tqdm import tqdm

            if self.bar is None:
                self.bar = tqdm(
                    total=done.total, initial=done.finished - 1, unit="trial", file=sys.stderr
                )
            self.bar.update()
            return
        lost = done.trial.attributes.get("diverged") or []
        end = f"diverged at step {lost[0]['step']}" if lost else number(done.trial.loss)
        words = " ".join(f"{k}={number(v)}" for k, v in done.trial.params.items())
        print(f"{done.finished} of {done.total}  {done.method} {words}: {end}", flush=True)


def table(best: dict[str, Any]) -> str:
    """The best parameters of each method as text."""
    width = max(len(name) for name in best["methods"]) + 2
    lines = [f"{'method':<{width}}{best['metric']:>14}{'diverged':>12}  best parameters"]
    for name, entry in best["methods"].items():
        lost = f"{entry['diverged']} of {entry['trials']}"
        if entry["params"] is None:
            lines.append(f"{name:<{width}}{'–':>14}{lost:>12}  none: every trial diverged")
            continue
        searched = {**entry["params"], **entry["settings"]}
        words = " ".join(f"{key}={number(searched[key])}" for key in entry["space"])
        lines.append(f"{name:<{width}}{number(entry['loss']):>14}{lost:>12}  {words}")
    return "\n".join(lines)

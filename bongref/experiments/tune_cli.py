"""The command ``bongref tune``."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from .. import checks
from ..errors import InvalidValue
from ..grid import PARAMETERS
from . import space as spaces
from . import specs, study, tasks, tune
from .cli import check_metric, task_params
from .report_data import number
from .workers import pool


def add(commands: Any) -> None:
    """Add the command to those of ``bongref``."""
    word = commands.add_parser(
        "tune",
        help="learning rates, prior variances and the rest, chosen on held-out training rows",
    )
    word.add_argument("task", help="as of bongref run: a name, or a file such as mydata.csv")
    word.add_argument("--target", metavar="COLUMN", help="of a file: the column to predict")
    word.add_argument(
        "--methods", metavar="GLOB,...", required=True, help="e.g. 'bong-*-dlr,blr-lin-*-dlr'"
    )
    word.add_argument(
        "--space", metavar="FILE", help="JSON, see docs/tuning.md (default: alpha, and variances)"
    )
    word.add_argument("--trials", type=int, default=40, metavar="N", help="of each method (40)")
    word.add_argument(
        "--round",
        type=int,
        default=4,
        metavar="N",
        help="trials that are proposed together (4); the result depends on it, not on --workers",
    )
    word.add_argument("--sampler", default="tpe", choices=study.SAMPLERS, help="(default tpe)")
    word.add_argument("--seed", type=int, default=0, help="of the proposals (default 0)")
    word.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="runs of each trial: 0 to N-1 (default 1)"
    )
    word.add_argument("--metric", default="nlpd-plugin", help="the loss (default nlpd-plugin)")
    word.add_argument("--steps", type=int, metavar="T", help="observations (default: all)")
    word.add_argument("--eval-samples", type=int, default=100, help="of mc and lin_mc (100)")
    word.add_argument(
        "--fix",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a parameter that is not searched, e.g. rank=5",
    )
    word.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a parameter of the task"
    )
    word.add_argument("--data", metavar="DIR", help="folder of data sets (or BONGREF_DATA)")
    word.add_argument("--out", default="tuning", metavar="DIR", help="(default: tuning)")
    word.add_argument(
        "--storage", metavar="URL", help="of an Optuna storage (default: DIR/study.journal)"
    )
    word.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default 1)")
    word.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster")
    word.add_argument("-q", "--quiet", action="store_true", help="only the summary")
    word.set_defaults(command=_tune)


def plan_of(args: argparse.Namespace) -> tune.Plan:
    """What the arguments of ``bongref tune`` stand for."""
    study.require_optuna()
    task = tasks.load(args.task, task_params(args), "valid", args.data)
    names = specs.method_names(args.methods)
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


def _tune(args: argparse.Namespace) -> int:
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
    print(table(best))
    print(f"written to {args.out}/{tune.BEST}, for bongref run --params")
    return 0


class _Bar:
    """A bar with the time left where standard error is a terminal, else a line for each trial."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.bar = quiet, None

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

"""The arguments of ``bongref run``, ``data``, ``tune`` and ``report``.

The module of a command is imported when the command is called, so that ``bongref --help`` is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any


def add(commands: Any) -> None:
    """Add the commands to those of ``bongref``."""
    _run(commands)
    _data(commands)
    _tune(commands)
    _report(commands)


def _run(commands: Any) -> None:
    run = commands.add_parser(
        "run", help="a grid of methods, parameters and seeds on a task; resumes where it stopped"
    )
    run.add_argument(
        "task",
        help="a name such as linear, moons, digits, mnist or uci-wine (bongref data list shows "
        "all), or a file: mydata.csv, .csv.gz, .parquet, .npz",
    )
    run.add_argument("--target", metavar="COLUMN", help="of a file: the column to predict")
    run.add_argument(
        "--methods",
        metavar="GLOB,...",
        help="e.g. 'bong-*,blr-lin-*-dlr' (default: four, full, low-rank and diagonal)",
    )
    for name in ("alpha", "n-iter", "n-samples", "rank", "n-probes"):
        run.add_argument(f"--{name}", metavar="VALUE,...", help="of the methods that take it")
    run.add_argument("--virtual", metavar="true,false", help="of the ef methods")
    run.add_argument(
        "--prior-var", metavar="VALUE,...", help="prior variance (default: the task's)"
    )
    run.add_argument(
        "--obs-var",
        metavar="VALUE,...",
        help="observation variance, in units of the standardised target (default: the task's)",
    )
    run.add_argument("--gamma", metavar="VALUE,...", help="forget: θ decays to its prior by gamma")
    run.add_argument(
        "--w0",
        metavar="random,zero",
        help="of bog and bbb in dlr: the low-rank part W of the prior (default random; zero "
        "never moves)",
    )
    run.add_argument(
        "--params", metavar="FILE", help="the best.json of bongref tune: parameters by method"
    )
    run.add_argument("--seeds", type=int, metavar="N", help="the seeds 0 to N-1 (default 3)")
    run.add_argument("--seed", metavar="SEED,...", help="these seeds")
    run.add_argument("--steps", type=int, metavar="T", help="observations (default: all)")
    run.add_argument("--every", type=int, metavar="N", help="metrics every N steps")
    run.add_argument(
        "--at", metavar="STEP,...", help="metrics at these steps (default: 10 of them)"
    )
    run.add_argument(
        "--metrics", metavar="NAME,...", help="e.g. rmse,nlpd-lin_mc,prequential-plugin"
    )
    run.add_argument(
        "--metric",
        metavar="NAME@STEP,...",
        action="append",
        default=[],
        help="one metric with steps of its own",
    )
    run.add_argument("--eval-samples", type=int, default=100, help="of mc and lin_mc (default 100)")
    run.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a parameter of the task, e.g. n=500, hidden=50, order=given, test=0.3, obs_var=0.1",
    )
    run.add_argument("--part", default="test", choices=("test", "valid"), help="what is predicted")
    run.add_argument("--data", metavar="DIR", help="folder of data sets (or BONGREF_DATA)")
    run.add_argument("--out", default="results", metavar="DIR", help="(default: results)")
    run.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default 1)")
    run.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster")
    run.add_argument("--adapter", metavar="MODULE:CLASS", help="a foreign implementation")
    run.add_argument("--dry", action="store_true", help="list the runs, and what of them is done")
    run.add_argument("--retry-failed", action="store_true", help="compute failed runs again")
    run.add_argument("-q", "--quiet", action="store_true", help="only the summary")
    run.set_defaults(command=_command("cli", "run"))


def _data(commands: Any) -> None:
    data = commands.add_parser("data", help="data sets: which there are, and downloading them")
    what = data.add_subparsers(title="what", required=True, metavar="WHAT")
    get = what.add_parser("get", help="download a data set; goes on where it stopped")
    get.add_argument("name", help="e.g. mnist, sarcos, uci-wine")
    get.add_argument("--data", metavar="DIR", help="into this folder (or BONGREF_DATA)")
    get.set_defaults(command=_command("cli", "data_get"))
    listed = what.add_parser("list", help="all tasks, and which files are there")
    listed.add_argument("--data", metavar="DIR", help="folder of data sets (or BONGREF_DATA)")
    listed.set_defaults(command=_command("cli", "data_list"))


def _tune(commands: Any) -> None:
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
    word.add_argument("--sampler", default="tpe", choices=("tpe", "grid"), help="(default tpe)")
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
    word.set_defaults(command=_command("tuning.cli", "tune_methods"))


def _report(commands: Any) -> None:
    word = commands.add_parser(
        "report", help="one page and the figures from a folder of results, finished or not"
    )
    word.add_argument("folder", metavar="DIR", help="that bongref run or tune wrote, or is writing")
    word.add_argument(
        "--against", metavar="DIR2", help="overlay another folder: another version or machine"
    )
    word.add_argument(
        "--by", metavar="METRIC", help="rank by this metric (default: nlpd-plugin, or the first)"
    )
    word.add_argument("--out", metavar="DIR", help="where the page goes (default: DIR/report)")
    word.set_defaults(command=_command("report.cli", "write_report"))


def _command(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    """A function of a module of this package, which is imported when the function is called."""

    def call(args: argparse.Namespace) -> int:
        return int(getattr(import_module(f"{__package__}.{module}"), name)(args))

    return call

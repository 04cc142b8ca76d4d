"""The arguments of ``bongref tune`` and ``bongref report``. Nothing is loaded before they run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any


def add(commands: Any) -> None:
    """Add the commands to those of ``bongref``."""
    _tune(commands)
    _report(commands)


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
    word.set_defaults(command=command("tune_cli", "tune_methods"))


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
    word.set_defaults(command=command("report_cli", "write_report"))


def command(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    """A function of a module beside this one, which is loaded when it is called."""

    def call(args: argparse.Namespace) -> int:
        return int(getattr(import_module(f"{__package__}.{module}"), name)(args))

    return call

"""The command ``bongref report``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command to those of ``bongref``."""
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
    word.set_defaults(command=_report)


def _report(args: argparse.Namespace) -> int:
    from . import report

    made = report.make(args.folder, against=args.against, by=args.by)
    out = Path(args.folder) / "report" if args.out is None else Path(args.out)
    written = report.write(made, out)
    print(report.headline(made))
    print(f"written to {written[0]}, with {len(made.pictures)} figures as PNG and PDF beside it")
    return 0

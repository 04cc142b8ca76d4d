"""The command ``bongref report``; its arguments are in :mod:`.arguments_more`."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import report


def write_report(args: argparse.Namespace) -> int:
    """Write the page and the figures, and say where."""
    made = report.make(args.folder, against=args.against, by=args.by)
    out = Path(args.folder) / "report" if args.out is None else Path(args.out)
    written = report.write(made, out)
    print(report.headline(made))
    print(f"written to {written[0]}, with {len(made.pictures)} figures as PNG and PDF beside it")
    return 0

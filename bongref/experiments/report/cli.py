"""The command ``bongref report``; its arguments are in :mod:`..arguments`."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import page


def write_report(args: argparse.Namespace) -> int:
    """Write the page and the figures, and say where."""
    made = page.make(args.folder, against=args.against, by=args.by)
    out = Path(args.folder) / "report" if args.out is None else Path(args.out)
    written = page.write(made, out)
    print(page.headline(made))
    print(f"written to {written[0]}, with {len(made.pictures)} figures as PNG and PDF beside it")
    return 0

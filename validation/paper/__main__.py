"""Run a study of the paper:  python -m validation.paper c --reduced [--out DIR] [--workers 2]

``--dry`` prints the commands, ``--tiny`` checks in a minute or so that all of them work. Stopped at
any moment, the same command goes on. Every folder of runs gets a report.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from bongref.cli import main as bongref

from . import SIZES, STUDIES, commands, load

ROOT = Path(__file__).resolve().parents[1] / "results" / "paper"


def main(argv: list[str]) -> int:
    """Give the commands of a study one after the other; stop at the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m validation.paper", description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--reduced", action="store_true", help="fewer trials, samples, test rows")
    parser.add_argument("--out", help=f"(default: {ROOT}/STUDY-SIZE)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dry", action="store_true", help="print the commands only")
    parser.add_argument("--tiny", action="store_true", help="a few steps of everything")
    args = parser.parse_args(argv)
    size = SIZES[args.reduced]
    settings = load(args.study, size)
    out = Path(args.out) if args.out else ROOT / f"{args.study}-{'tiny' if args.tiny else size}"
    print(f"{settings['title']}\n  {settings['fewer'] or 'the paper’s numbers'}")
    if settings["minutes"]:
        print(f"  about {settings['minutes']} minutes on two cores")
    folders = []
    for words, folder, optional in commands(settings, out, args.workers, args.tiny):
        print("bongref " + shlex.join(words), flush=True)
        if args.dry:
            continue
        status = bongref(words)
        if status == 2 and optional:
            print("  left out: the data are not there")
            continue
        if status not in (0, 1):  # 1: some run has failed, and its record says why
            return status
        if words[0] == "run" and folder not in folders:
            folders.append(folder)
    return max([bongref(["report", str(folder)]) for folder in folders], default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

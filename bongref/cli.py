"""The command line: ``bongref audit``, ``bongref eq ID``, ``bongref methods``, ``bongref errata``, ``bongref claims``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ._version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 when all is well, 1 on a disagreement, 2 on bad input."""
    args = _parser().parse_args(argv)
    try:
        return args.command(args)
    except BrokenPipeError:  # the reader, head or a pager, has seen enough
        sys.stdout = open(os.devnull, "w")  # so that the interpreter has somewhere to flush to
        return 0
    except (ValueError, TypeError, KeyError, ImportError, OSError) as error:
        print(f"bongref: {error.args[0] if isinstance(error, KeyError) and error.args else error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bongref: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bongref", description="The reference implementation of Bayesian Online Natural Gradient.")
    parser.add_argument("--version", action="version", version=f"bongref {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    audit = commands.add_parser("audit", help="every method by every route, one table; exit status 1 on any disagreement")
    audit.add_argument("--seed", type=int, default=0, help="of the problems that are drawn (default 0)")
    audit.add_argument("-P", "--P", type=int, default=6, help="parameters (default 6)")
    audit.add_argument("-C", "--C", type=int, default=3, help="outputs (default 3)")
    audit.add_argument("-M", "--M", type=int, default=3, help="Monte Carlo samples (default 3)")
    audit.add_argument("-R", "--R", type=int, default=2, help="rank of DLR (default 2)")
    audit.add_argument("--out", metavar="FILE", help="also write the report to FILE.json or FILE.html")
    audit.set_defaults(command=_audit)

    eq = commands.add_parser("eq", help="an equation of the paper: LaTeX, the line that computes it, its tests, its erratum")
    eq.add_argument("id", nargs="?", help="a label (eq:bong-FC-mean), a row (sec:FC-Mom#21), a section or algorithm; all sections without")
    eq.set_defaults(command=_eq)

    for word, what in {"errata": "what the paper prints and should print", "claims": "what the paper states, and whether it holds"}.items():
        ledger = commands.add_parser(word, help=f"{what}: a table, or one entry in full")
        ledger.add_argument("id", nargs="?", help=f"one entry, e.g. {word[0].upper()}07")
        ledger.add_argument("--section", metavar="PREFIX", help="of these sections or tables, e.g. sec:FC or tab:methods")
        ledger.add_argument("--kind", help="of this kind")
        if word == "claims":
            ledger.add_argument("--verdict", help="with this verdict")
        ledger.add_argument("--method", metavar="GLOB", help="about these methods, e.g. 'bong-*-dlr'")
        ledger.add_argument("--out", metavar="FILE", help="write to FILE.json, FILE.html or FILE.md instead")
        ledger.set_defaults(command=_ledger, word=word)

    methods = commands.add_parser("methods", help="the 80 names with their parameters and costs")
    methods.add_argument("pattern", nargs="?", default="*", help="a glob, e.g. 'bong-*-diag*'")
    methods.set_defaults(command=_methods)
    return parser


def _audit(args: argparse.Namespace) -> int:
    from . import audit, checks
    from .exact import _mpmath

    options = {name: checks.integer(name, getattr(args, name), 0 if name == "seed" else 1) for name in ("seed", "P", "C", "M", "R")}
    checks.rank("R", args.R, args.P)
    _mpmath()
    if args.out:
        audit.check_path(args.out)
    bar = (lambda k, n: print(f"\r\x1b[K{k} of {n} methods", end="", file=sys.stderr, flush=True)) if sys.stderr.isatty() else None
    rows, seconds = audit.timed(**options, progress=bar)
    if bar:
        print("\r\x1b[K", end="", file=sys.stderr)
    print(audit.table(rows))
    if args.out:
        audit.write(args.out, rows, options, seconds)
        print(f"written to {args.out}")
    return 0 if all(r.agrees for r in rows if not r.refused) else 1


def _eq(args: argparse.Namespace) -> int:
    from . import paper

    print(paper.show(args.id) if args.id else paper.overview())
    return 0


def _ledger(args: argparse.Namespace) -> int:
    from .paper import claims, errata, tables

    if args.id:
        print(tables.full(errata.erratum(args.id) if args.word == "errata" else claims.claim(args.id)))
        return 0
    rows = tables.select(tables.LEDGERS[args.word], args.section, args.kind, getattr(args, "verdict", None), args.method)
    if args.out:
        tables.write(args.out, rows)
        print(f"written to {args.out}")
    else:
        print(tables.text(rows))
    return 0


def _methods(args: argparse.Namespace) -> int:
    from .methods import NOT_DERIVED, cost, method, methods

    names = methods(args.pattern)
    if not names:
        raise ValueError(f"pattern must match one of the 80 names, got {args.pattern!r}")
    print(f"{'method':<24}{'stated cost':<18}parameters (defaults)")
    for name in names:
        if name in NOT_DERIVED:
            print(f"{name:<24}{'-':<18}not derived: the SVD projection needs G = -S S^T (sec:DLR-deriv)")
        else:
            params = ", ".join(f"{k}={v}" for k, v in method(name).params.items())
            print(f"{name:<24}{cost(name):<18}{params or 'none'}")
    print("the costs are those that the paper states; bongref errata --kind 'wrong cost' lists what is wrong with them")
    print(f"{len(names)} names")
    return 0

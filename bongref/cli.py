"""The command line: ``bongref audit``, ``eq``, ``methods``, ``errata``, ``check``, ``cite``, …"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ._version import __version__
from .experiments import arguments as experiments


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 when all is well, 1 on a disagreement, 2 on bad input."""
    args = _parser().parse_args(argv)
    try:
        return int(args.command(args))
    except BrokenPipeError:  # the reader, head or a pager, has seen enough
        sys.stdout = open(os.devnull, "w")  # so that the interpreter has somewhere to flush to
        return 0
    except (ValueError, TypeError, KeyError, ImportError, OSError) as error:
        print(f"bongref: {_told(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bongref: stopped", file=sys.stderr)
        return 130


def _told(error: Exception) -> str:
    """What an error says to a user; a full disk also what to do."""
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fspath(error.filename)!r}" if error.filename else ""
        full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
        more = "; what was written before is safe. Free disk space, and give the same command again"
        return f"{error.strerror}{more if full and 'safe' not in error.strerror else ''}{where}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bongref",
        description="The reference implementation of Bayesian Online Natural Gradient.",
    )
    parser.add_argument("--version", action="version", version=f"bongref {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    audit = commands.add_parser(
        "audit", help="every method by every route, one table; exit status 1 on any disagreement"
    )
    audit.add_argument(
        "--seed", type=int, default=0, help="of the problems that are drawn (default 0)"
    )
    audit.add_argument("-P", "--P", type=int, default=6, help="parameters (default 6)")
    audit.add_argument("-C", "--C", type=int, default=3, help="outputs (default 3)")
    audit.add_argument("-M", "--M", type=int, default=3, help="Monte Carlo samples (default 3)")
    audit.add_argument("-R", "--R", type=int, default=2, help="rank of DLR (default 2)")
    audit.add_argument(
        "--out", metavar="FILE", help="also write the report to FILE.json or FILE.html"
    )
    audit.set_defaults(command=_audit)

    marks = commands.add_parser(
        "grade",
        help="mark the exercises of a lesson; this runs the code of the file",
    )
    marks.add_argument("file", nargs="?", help="a file with your functions, lesson05.py")
    marks.add_argument("--new", type=int, metavar="LESSON", help="write a file to begin with")
    marks.add_argument("--lesson", type=int, help="by default from the name of the file")
    marks.add_argument(
        "--seconds", type=float, default=30.0, help="the time that the file may take (default 30)"
    )
    marks.add_argument("--json", action="store_true", help="the marks as JSON")
    marks.set_defaults(command=_grade)

    eq = commands.add_parser(
        "eq",
        help="an equation of the paper: LaTeX, the line that computes it, its tests, its erratum",
    )
    eq.add_argument(
        "id",
        nargs="*",
        help="a label (eq:bong), a row (sec:FC-Mom#21), the number that the PDF prints "
        "(23, 'Proposition 4.1', 'Table 1', "
        "'Algorithm 2', 'Appendix E.1'), or a glob ('eq:bog-*'); without, all parts of the paper",
    )
    eq.add_argument("--search", metavar="WORDS", help="by words, e.g. 'low rank projection'")
    eq.add_argument(
        "--out", metavar="FILE", help="write to FILE.html, FILE.md, FILE.json or FILE.txt instead"
    )
    eq.set_defaults(command=_eq)

    for word, what in {
        "errata": "what the paper prints and should print",
        "claims": "what the paper states, and whether it holds",
    }.items():
        ledger = commands.add_parser(word, help=f"{what}: a table, or one entry in full")
        ledger.add_argument("id", nargs="?", help=f"one entry, e.g. {word[0].upper()}07")
        ledger.add_argument(
            "--section",
            metavar="PREFIX",
            help="of these sections or tables, e.g. sec:FC or tab:methods",
        )
        ledger.add_argument("--kind", help="of this kind")
        if word == "claims":
            ledger.add_argument("--verdict", help="with this verdict")
        ledger.add_argument(
            "--method", metavar="GLOB", help="about these methods, e.g. 'bong-*-dlr'"
        )
        ledger.add_argument(
            "--out", metavar="FILE", help="write to FILE.json, FILE.html or FILE.md instead"
        )
        ledger.set_defaults(command=_ledger, word=word)

    methods = commands.add_parser("methods", help="the 80 names with their parameters and costs")
    methods.add_argument("pattern", nargs="?", default="*", help="a glob, e.g. 'bong-*-diag*'")
    methods.set_defaults(command=_methods)

    explain = commands.add_parser(
        "explain",
        help="a method: what it does, costs, its equations, when to choose it, its limits",
    )
    explain.add_argument("name", help="one of the 80 names, or one of the literature, e.g. lo-fi")
    explain.add_argument("--json", action="store_true", help="as JSON")
    explain.set_defaults(command=_explain)

    check = commands.add_parser(
        "check",
        help="test an implementation with the vectors; exit status 1 if anything it offers fails",
    )
    check.add_argument(
        "adapter",
        nargs="?",
        help="module:Class or path.py:Class, e.g. my_adapter:Adapter, whose code is run",
    )
    check.add_argument(
        "--new", metavar="FILE.py", help="write an adapter to fill in to a new FILE.py, and stop"
    )
    check.add_argument(
        "--list", action="store_true", help="list the cases with what they need, and stop"
    )
    check.add_argument(
        "--methods",
        metavar="GLOB,...",
        action="append",
        help="only cases of these methods, e.g. 'bong-*,*-dlr'",
    )
    check.add_argument(
        "--levels",
        metavar="LEVEL,...",
        action="append",
        help="only these: L0,L1,L2,L3,L4,predict,draw, or by name: step,update",
    )
    check.add_argument(
        "--xfails", metavar="FILE", help="ids or globs of cases that are known to fail, one a line"
    )
    check.add_argument(
        "--write-xfails",
        metavar="FILE",
        help="write the ids of all that fails to a new FILE for --xfails",
    )
    check.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="also write to FILE.json, .xml (JUnit), .html or .md",
    )
    check.add_argument("--vectors", metavar="DIR", help="other vectors than those that are shipped")
    check.add_argument(
        "--no-diagnosis", action="store_true", help="do not look for the mistake behind a failure"
    )
    check.add_argument("-q", "--quiet", action="store_true", help="only the verdict")
    check.add_argument("-v", "--verbose", action="store_true", help="every failing case in full")
    check.set_defaults(command=_check)

    vectors = commands.add_parser(
        "vectors",
        help="the shipped vectors: a summary; make them, or derive their values again and compare",
    )
    vectors.add_argument(
        "--levels",
        metavar="LEVEL,...",
        action="append",
        help="only these: L0,L1,L2,L3,L4,predict,draw, or by name",
    )
    one = vectors.add_mutually_exclusive_group()
    one.add_argument("--list", action="store_true", help="a line for each case: id, result, flags")
    one.add_argument(
        "--out", metavar="DIR", help="make the files from scratch into DIR (minutes; needs mpmath)"
    )
    one.add_argument(
        "--check",
        action="store_true",
        help="derive every value again from its inputs and compare, bit for bit",
    )
    one.add_argument(
        "--package", metavar="DIR", help="write them as an npm folder and an archive into DIR"
    )
    vectors.add_argument(
        "--vectors", metavar="DIR", help="with --check: other vectors than those that are shipped"
    )
    vectors.set_defaults(command=_vectors)

    experiments.add(commands)

    explore = commands.add_parser(
        "explore",
        help="a page in the browser: step through a stream, drag, see equations with their numbers",
        description="Serves the explorer on 127.0.0.1 and opens it in a browser; Ctrl-C stops it.",
    )
    explore.add_argument("--port", type=int, default=8765, help="default 8765; 0 takes a free one")
    explore.add_argument("--no-browser", action="store_true", help="only print the address")
    explore.set_defaults(command=_explore)

    cite = commands.add_parser("cite", help="how to cite the paper, the package and the vectors")
    cite.add_argument(
        "what", nargs="?", default="all", choices=("all", "paper", "package", "vectors")
    )
    cite.add_argument("--format", default="bibtex", choices=("bibtex", "apa", "cff"))
    cite.set_defaults(command=_cite)
    return parser


def _grade(args: argparse.Namespace) -> int:
    import json
    from pathlib import Path

    from .errors import InvalidValue
    from .teaching import grade, template

    if args.new is not None:
        text, path = template(args.new), Path(args.file or f"lesson{args.new:02}.py")
        if path.exists():
            raise InvalidValue(f"{path} is already there; give another name, or remove it first")
        path.write_text(text, encoding="utf-8")
        _say(f"{path}: write the functions, then: bongref grade {path}")
        return 0
    if args.file is None:
        raise InvalidValue("grade takes a file, lesson05.py, or --new 5 to begin one")
    found = grade(args.file, args.lesson, args.seconds)
    _say(json.dumps([m._asdict() for m in found.marks], indent=1) if args.json else str(found))
    return 0 if found.points == found.out_of else 1


def _say(text: str) -> None:
    """Print, with other signs where the terminal cannot show ours."""
    from .reports import ASCII

    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    print(text)


def _bar() -> Callable[[str], None] | None:
    """A function that shows a line in place of the last one, ten times a second at most."""
    if not sys.stderr.isatty():
        return None
    last = [0.0]

    def show(line: str) -> None:
        if not line or time.monotonic() - last[0] > 0.1:
            last[0] = time.monotonic()
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    return show


def _audit(args: argparse.Namespace) -> int:
    from .routes import audit
    from .routes.exact import require_mpmath

    options = {name: getattr(args, name) for name in ("seed", "P", "C", "M", "R")}
    audit.check_options(**options)
    require_mpmath()
    if args.out:
        audit.check_path(args.out)
    bar = (
        (lambda k, n: print(f"\r\x1b[K{k} of {n} methods", end="", file=sys.stderr, flush=True))
        if sys.stderr.isatty()
        else None
    )
    rows, seconds = audit.timed(**options, progress=bar)
    if bar:
        print("\r\x1b[K", end="", file=sys.stderr)
    print(audit.table(rows))
    if args.out:
        audit.write(args.out, rows, options, seconds)
        print(f"written to {args.out}")
    return 0 if all(r.agrees for r in rows if not r.refused) else 1


def _eq(args: argparse.Namespace) -> int:
    from . import paper, reports
    from .paper.pages import ENDINGS

    id = " ".join(args.id)  # bongref eq Eq. 12
    if args.id and args.search is not None:
        raise ValueError("eq takes an id or --search, not both")
    if args.out:
        reports.check_path(args.out, endings=ENDINGS)
    if args.search is not None:
        page = paper.search(args.search)
    else:
        page = paper.document(id) if args.id else paper.overview()
    if args.out:
        reports.write(args.out, page, endings=ENDINGS)
        print(f"written to {args.out}")
    else:
        _say(reports.text(page).rstrip("\n"))
    return 0


def _ledger(args: argparse.Namespace) -> int:
    from .paper import claims, errata, tables

    if args.id:
        print(
            tables.full(errata.erratum(args.id) if args.word == "errata" else claims.claim(args.id))
        )
        return 0
    rows = tables.select(
        tables.ledger(args.word),
        args.section,
        args.kind,
        getattr(args, "verdict", None),
        args.method,
    )
    if args.out:
        tables.write(args.out, rows)
        print(f"written to {args.out}")
    else:
        print(tables.text(rows))
    return 0


def _methods(args: argparse.Namespace) -> int:
    from .grid import NOT_DERIVED, cost, method, methods

    names = methods(args.pattern)
    if not names:
        raise ValueError(f"pattern must match one of the 80 names, got {args.pattern!r}")
    print(f"{'method':<24}{'stated cost':<18}parameters (defaults)")
    for name in names:
        if name in NOT_DERIVED:
            print(
                f"{name:<24}{'-':<18}not derived: the projection needs G = -S S^T (sec:DLR-deriv)"
            )
        else:
            params = ", ".join(f"{k}={v}" for k, v in method(name).params.items())
            print(f"{name:<24}{cost(name):<18}{params or 'none'}")
    print(
        "the costs are those that the paper states; "
        "bongref errata --kind 'wrong cost' lists what is wrong with them"
    )
    print(f"{len(names)} names")
    return 0


def _explain(args: argparse.Namespace) -> int:
    import json

    from .guide.explain import explain

    found = explain(args.name)
    _say(json.dumps(found.data, indent=1, ensure_ascii=False) if args.json else repr(found))
    return 0


def _cite(args: argparse.Namespace) -> int:
    from .cite import text

    _say(text(args.what, args.format))
    return 0


def _explore(args: argparse.Namespace) -> int:
    from .explore.server import serve

    return serve(args.port, not args.no_browser, lambda text: print(text, flush=True))


def _check(args: argparse.Namespace) -> int:
    from .conformance import load_adapter, reports, runner, vectors

    methods, levels = vectors.words(args.methods), vectors.words(args.levels)
    vectors.check_levels(levels)
    vectors.check_methods(methods)
    for path in args.report:
        reports.check_path(path)
    if args.new:
        from .conformance import template

        print(template.write(args.new))
        return 0
    if args.list:
        from .conformance import shipped

        print(shipped.listing(vectors.select(levels, methods, args.vectors), needs=True))
        return 0
    if not args.adapter:
        raise ValueError(
            "adapter must be given, e.g. bongref check my_adapter:Adapter; "
            "bongref check --new my_adapter.py writes one to start from"
        )
    if args.write_xfails:
        reports.check_path(args.write_xfails, "write-xfails", ())
        if Path(args.write_xfails).exists():
            raise ValueError(f"write-xfails must be a new file, and {args.write_xfails!r} is there")
    if args.xfails and not Path(args.xfails).is_file():
        raise ValueError(f"xfails: there is no file {args.xfails!r}")
    if args.vectors and not Path(args.vectors).is_dir():
        raise ValueError(f"vectors: there is no folder {args.vectors!r}")
    adapter, bar, failed = load_adapter(args.adapter), _bar(), [0]

    def progress(k: int, n: int, outcome: Any) -> None:
        failed[0] += outcome.status in ("fail", "error")
        if bar:
            bar(f"{k} of {n} cases, {failed[0]} fail: {outcome.case.id}")

    report = runner.check(
        adapter,
        methods=methods,
        levels=levels,
        xfails=args.xfails,
        diagnose=not args.no_diagnosis,
        progress=progress,
        folder=args.vectors,
    )
    if bar:
        bar("")
    _say(
        reports.verdict_line(report)
        if args.quiet
        else reports.text(report, args.verbose, args.xfails)
    )
    for path in args.report:
        reports.write(path, report)
        print(f"written to {path}")
    if args.write_xfails and not report.interrupted:
        Path(args.write_xfails).write_text(
            reports.xfails(report), encoding="utf-8", errors="replace"
        )
        print(f"written to {args.write_xfails}")
    return 130 if report.interrupted else 0 if report.ok else 1


def _vectors(args: argparse.Namespace) -> int:
    from .conformance import shipped, vectors

    levels = vectors.words(args.levels)
    vectors.check_levels(levels)
    if args.list:
        print(shipped.listing(vectors.load(levels)))
        return 0
    if args.package:
        from .conformance import package

        print("\n".join(package.write(args.package)))
        return 0
    if not args.out and not args.check:
        _say(shipped.summary(levels))
        return 0
    bar = _bar()
    if args.out:
        files = shipped.make(levels, bar and (lambda id, k: bar(f"{k} cases of this level: {id}")))
        if bar:
            bar("")
        for line in shipped.write(args.out, files):
            print(line)
        return 0
    cases = vectors.load(levels, folder=args.vectors)
    differences = list(
        shipped.rederive(cases, bar and (lambda id, k: bar(f"{k} of {len(cases)} cases: {id}")))
    )
    if bar:
        bar("")
    _say("\n".join([*differences, shipped.verdict(cases, differences)]))
    return 1 if differences else 0

"""The vectors as tests of pytest.

``pytest --pyargs bongref.conformance --bongref-adapter my_adapter:Adapter``

Each case is a test with the id of the case. What is not offered or not applicable is skipped, known
failures are xfails. The options are in :mod:`bongref.pytest_plugin`, which imports this module only
when an adapter is named.
"""

from __future__ import annotations

import sys
import warnings
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pytest

from . import reports, runner, vectors
from .adapter import load_adapter
from .flags import meaning
from .runner import Outcome
from .vectors import Case

HOW = "no adapter: pytest --pyargs bongref.conformance --bongref-adapter MODULE:CLASS"


class Kit(NamedTuple):
    """What the tests of a session share."""

    adapter: Any
    cases: list[Case]
    known: list[str]  # ids or globs of known failures
    diagnose: bool
    ran: dict[str, Outcome]


KIT = pytest.StashKey[Kit]()


def start(config: pytest.Config) -> None:
    """Load the adapter and the cases of the options; a bad option stops pytest with a message."""
    option = config.getoption
    methods, levels = (vectors.words(option(f"bongref_{name}")) for name in ("methods", "levels"))
    if str(config.rootpath) not in sys.path:
        sys.path.append(str(config.rootpath))
    try:
        cases = vectors.select(levels, methods, option("bongref_vectors"))
        known = runner.read_xfails(option("bongref_xfails"))
        adapter = load_adapter(option("bongref_adapter"))
    except (ValueError, TypeError, OSError, ImportError) as error:
        raise pytest.UsageError(f"bongref: {error}") from None
    config.stash[KIT] = Kit(adapter, cases, known, not option("bongref_no_diagnosis"), {})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each case."""
    if "bongref_case" not in metafunc.fixturenames:
        return
    kit = metafunc.config.stash.get(KIT, None)
    if kit is None:
        metafunc.parametrize(
            "bongref_case",
            [pytest.param(None, id="no-adapter", marks=pytest.mark.skip(reason=HOW))],
        )
        return
    metafunc.parametrize(
        "bongref_case",
        [pytest.param(case, id=case.id, marks=_marks(case, kit.known)) for case in kit.cases],
    )


def _marks(case: Case, known: list[str]) -> list[pytest.MarkDecorator]:
    glob = next((glob for glob in known if fnmatchcase(case.id, glob)), None)
    return (
        [] if glob is None else [pytest.mark.xfail(reason=f"known failure: {glob}", strict=False)]
    )


def outcome(kit: Kit, case: Case) -> Outcome:
    """Run a case, once; a warning of the adapter is not an error, as in ``bongref check``."""
    if case.id not in kit.ran:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            kit.ran[case.id] = runner.run_case(kit.adapter, case, diagnose=kit.diagnose)
    return kit.ran[case.id]


def judge(config: pytest.Config, case: Case) -> None:
    """Run a case as a test."""
    o = outcome(config.stash[KIT], case)
    if o.status in runner.NOT_RUN:
        pytest.skip(
            f"{o.status}: {o.message}"
            if o.message
            else f"{o.status}: {runner.METHOD_OF.get(case.level, case.level)}"
        )
    if o.status in ("fail", "error"):
        lines = [o.message, reports.case_text(o)]
        if case.flags:
            lines += ["what the flags say"]
            lines += [f"    {flag:<22}{meaning(flag)}" for flag in case.flags]
        pytest.fail("\n".join(lines), pytrace=False)


def something_is_offered(config: pytest.Config) -> bool:
    """Whether any case that has a value is offered."""
    kit = config.stash[KIT]
    return any(
        outcome(kit, case).status not in runner.NOT_RUN
        for case in kit.cases
        if case.result == "value"
    )

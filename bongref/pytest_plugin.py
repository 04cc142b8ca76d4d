"""The options of ``pytest --pyargs bongref.conformance``.

Nothing else of bongref is imported until they name an adapter, whose code is then run.
"""

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """The options."""
    group = parser.getgroup(
        "bongref", "check an implementation against the vectors of bongref (bongref.conformance)"
    )
    add = group.addoption
    add("--bongref-adapter", metavar="MODULE:CLASS", help="the adapter, e.g. my_adapter:Adapter")
    add("--bongref-methods", metavar="GLOB,...", action="append", help="cases of these methods")
    levels = "only these levels: L0,L1,L2,L3,L4,predict"
    add("--bongref-levels", metavar="LEVEL,...", action="append", help=levels)
    add("--bongref-xfails", metavar="FILE", help="ids or globs of cases that are known to fail")
    add("--bongref-vectors", metavar="DIR", help="other vectors than the shipped ones")
    no_diagnosis = "do not look for the mistake behind a failure"
    add("--bongref-no-diagnosis", action="store_true", help=no_diagnosis)


def pytest_configure(config: Any) -> None:
    """Load the adapter and the cases, if an adapter is named."""
    if config.getoption("bongref_adapter"):
        from bongref.conformance import plugin

        plugin.start(config)

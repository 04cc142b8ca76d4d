"""The options of ``pytest --pyargs bongref.conformance``.

Nothing else is imported until they name an adapter.
"""

from typing import Any


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup(
        "bongref",
        "an implementation against the vectors of bongref: pytest --pyargs bongref.conformance",
    )
    group.addoption(
        "--bongref-adapter",
        metavar="MODULE:CLASS",
        help="the implementation, e.g. my_adapter:Adapter",
    )
    group.addoption(
        "--bongref-methods", metavar="GLOB,...", action="append", help="only cases of these methods"
    )
    group.addoption(
        "--bongref-levels",
        metavar="LEVEL,...",
        action="append",
        help="only these levels: L0,L1,L2,L3,L4,predict",
    )
    group.addoption(
        "--bongref-xfails", metavar="FILE", help="ids or globs of cases that are known to fail"
    )
    group.addoption(
        "--bongref-vectors", metavar="DIR", help="other vectors than those that are shipped"
    )
    group.addoption(
        "--bongref-no-diagnosis",
        action="store_true",
        help="do not look for the mistake behind a failure",
    )


def pytest_configure(config: Any) -> None:
    if config.getoption("bongref_adapter"):
        from bongref.conformance import plugin

        plugin.start(config)

"""Every case of the vectors as a test of the adapter of ``--bongref-adapter`` (:mod:`.plugin`)."""

import pytest

from bongref.conformance import plugin
from bongref.conformance.plugin import pytest_generate_tests  # noqa: F401  (found by pytest)
from bongref.conformance.vectors import Case


def test_case(bongref_case: Case, pytestconfig: pytest.Config) -> None:
    plugin.judge(pytestconfig, bongref_case)


def test_something_is_offered(pytestconfig: pytest.Config) -> None:
    if plugin.KIT not in pytestconfig.stash:
        pytest.skip(plugin.HOW)
    if not plugin.something_is_offered(pytestconfig):
        pytest.fail("the adapter offers none of these cases", pytrace=False)

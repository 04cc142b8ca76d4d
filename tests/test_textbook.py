"""The conformance kit on an independent adapter that is right: every case passes, in float64 and in
float32.
"""

import pytest
from textbook import Textbook

from bongref.conformance.runner import check

LEVELS = ("step", "estimate", "update", "stream", "predict", "predictive")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_equations_as_displayed_pass(level, dtype):
    report = check(Textbook(dtype), levels=[level], diagnose=False)
    assert report.ok, "\n".join(f"{o.case.id}: {o.message}" for o in report.failures)
    assert set(report.counts) <= ({"pass", "not applicable"} if dtype == "float32" else {"pass"})

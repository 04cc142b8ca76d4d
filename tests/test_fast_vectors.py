"""The compiled path through the conformance vectors: exact or 50-digit values that know nothing
of either path.
"""

import pytest

from bongref.conformance import Fast, check

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # cases that overflow do so in the reference too

OFFERED = {
    "step": 0.5,
    "update": 0.7,
    "stream": 0.7,
}  # at least this share: no steps of fc and fc_mom, nothing with mc-hess


@pytest.mark.parametrize("level", OFFERED)
def test_the_compiled_path_conforms(level):
    report = check(Fast, levels=[level], diagnose=False)
    wrong = [
        (o.case.id, o.status, o.message) for o in report.outcomes if o.status in ("fail", "error")
    ]
    assert not wrong, wrong[:3]
    passed = sum(o.status == "pass" for o in report.outcomes)
    assert passed >= OFFERED[level] * len(report.outcomes)

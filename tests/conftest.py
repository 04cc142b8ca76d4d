"""The Hypothesis profile, and --eq-dump FILE: the tests marked with each equation, as JSON."""

import json
import os
from pathlib import Path

from hypothesis import HealthCheck, settings

# no clock decides whether a test passes: a machine may be busy, and a first example may have to wait for a compiler
unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("bongref", **unhurried, derandomize=True, max_examples=25, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bongref"))


def pytest_addoption(parser):
    parser.addoption("--eq-dump", metavar="FILE", help="write the tests marked with each equation to FILE")


def pytest_collection_finish(session):
    file = session.config.getoption("--eq-dump")
    if not file:
        return
    index: dict[str, set[str]] = {}
    for item in session.items:
        for mark in item.iter_markers("eq"):
            for id in mark.args:
                index.setdefault(id, set()).add(item.nodeid.split("[")[0])
    Path(file).write_text(json.dumps({id: sorted(nodes) for id, nodes in sorted(index.items())}), encoding="utf-8")

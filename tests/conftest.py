"""The Hypothesis profile, the marker of the smoke tests, and --eq-dump FILE: the tests marked with
each equation, as JSON.
"""

import json
import os
from pathlib import Path

import pytest
import threadpoolctl
from hypothesis import HealthCheck, settings

from bongref.paper import index

# no clock decides whether a test passes: a machine may be busy, and a first example may have to
# wait for a compiler
unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile(
    "bongref", **unhurried, derandomize=True, max_examples=25, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bongref"))


def pytest_addoption(parser):
    parser.addoption(
        "--eq-dump", metavar="FILE", help="write the tests marked with each equation to FILE"
    )


# other files that use kernels of test_fast*.py
AFTER_FAST = {
    f"test_{name}.py"
    for name in (
        *("checkpoints", "online", "predictive_metrics", "sklearn", "stream", "schedule"),
        *("conjugate", "data", "docstrings", "edges", "equivalences", "experiments_run", "filter"),
        *("readme", "site"),
    )
}
MARKS = pytest.StashKey[dict[str, list[str]]]()


def place_of(file):
    """What comes first, 0, 1 or 2."""
    return 0 if file.startswith("test_fast") else 1 if file in AFTER_FAST else 2


def marks(items):
    """Equation's id -> sorted node ids without parameters of the tests that are marked with it."""
    index: dict[str, set[str]] = {}
    for item in items:
        for mark in item.iter_markers("eq"):
            for id in mark.args:
                index.setdefault(id, set()).add(item.nodeid.split("[")[0])
    return {id: sorted(nodes) for id, nodes in sorted(index.items())}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the tests that smoke.txt names. Where all tests were collected (-k and -m take some
    away later), keep their marks: `whole_index` needs no second collection then.

    Tests that compile come first: with two workers, one has them all, and the other one takes from
    their end when it has nothing else. A process compiles the parts of a family once for all of its
    kernels; two workers would compile most parts twice.
    """
    items.sort(key=lambda item: place_of(item.path.name))
    lines = (Path(__file__).parent / "smoke.txt").read_text(encoding="utf-8").splitlines()
    smoke = {line for line in lines if line and not line.startswith("#")}
    for item in items:
        node = f"{item.path.name}::{item.name}"
        if node in smoke or node.split("[")[0] in smoke:
            item.add_marker(pytest.mark.smoke)
    files = {item.path for item in items}
    narrowed = any("::" in arg for arg in config.args) or config.getoption("lf", False)
    if not narrowed and files == set(Path(__file__).parent.rglob("test_*.py")):
        config.stash[MARKS] = marks(items)


@pytest.fixture
def whole_index(request):
    """The tests marked with each equation, of all tests: from this run, or by a collection."""
    return request.config.stash.get(MARKS, None) or index.collect()


def pytest_collection_finish(session):
    """One BLAS thread in each worker: two workers with two threads each would wait for each other
    on two cores. Not before the tests are imported, which load SciPy with a BLAS of its own.
    """
    if hasattr(session.config, "workerinput"):
        threadpoolctl.threadpool_limits(1, user_api="blas")
    file = session.config.getoption("--eq-dump")
    if file:
        Path(file).write_text(json.dumps(marks(session.items)), encoding="utf-8")

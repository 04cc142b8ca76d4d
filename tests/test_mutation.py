"""The kit can tell: every mistake that was put into a copy of the updates by hand is caught, and
nearly every one is named.
"""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WRITTEN = json.loads(
    (ROOT / "validation" / "results" / "mutation.json").read_text(encoding="utf-8")
)
PARTS = 12  # of the list, each a test of its own
# the same of the blind ones, of which all that the vectors catch but a few were named when the
# search had been widened
BLIND = 0.9


def _load():
    spec = importlib.util.spec_from_file_location("mutation", ROOT / "validation" / "mutation.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutation"] = module
    spec.loader.exec_module(module)
    return module


mutation = _load()


@pytest.mark.parametrize("part", range(PARTS))
def test_every_mistake_by_hand_is_caught_and_named_as_the_results_say(part):
    written = {r["what"]: r for r in WRITTEN["by hand"]["each"]}
    for mutant in mutation.MUTANTS[part::PARTS]:
        result, before = mutation.judge(mutant), written[mutant.what]
        assert result.caught, mutant.what
        assert result.right or not before["right"], (mutant.what, result.said)
        assert result.first or not before["first"], (mutant.what, result.said)


def test_nearly_every_one_is_named():
    """171 and 161 of 178 when the list was written."""
    each = WRITTEN["by hand"]["each"]
    assert len(each) >= 80
    assert sum(r["right"] for r in each) >= 0.96 * len(each) and sum(
        r["first"] for r in each
    ) >= 0.9 * len(each)


def test_mistakes_in_another_implementation():
    """One in sixteen of the blind ones that were named when written; validation/mutation.py runs
    all of them.
    """
    found = [mutation.judge_blind(m) for m in [m for m in mutation.blind() if m["says"]][::16]]
    assert [r.what for r in found if not r.caught] == []
    assert sum(r.right for r in found) >= BLIND * len(found), [
        (r.what, r.said) for r in found if not r.right
    ]


def test_the_modules_loaded_again_are_right():
    """Without a mistake the same adapter passes everything that is not about refusing input."""
    report = mutation.runner.check(mutation.Mutated(None), levels=["L0", "predict"], diagnose=False)
    assert [o.case.id for o in report.failures if o.case.result != "refuse"] == []


@pytest.mark.parametrize("rule, family", [("bong", "diag"), ("bog", "fc_mom"), ("blr", "dlr")])
def test_automatic_edits_are_caught(rule, family):
    """One in ten; validation/mutation.py runs all of them."""
    found = mutation.automatic_steps(rule, family, every=10)
    assert (
        found.mutants > 2
        and found.missed == ()
        and found.caught + found.equivalent == found.mutants
    )


def test_the_written_results_are_of_this_list():
    written = WRITTEN
    assert [r["what"] for r in written["by hand"]["each"]] == [m.what for m in mutation.MUTANTS]
    assert (
        written["by hand"]["caught"] == len(mutation.MUTANTS)
        and written["automatic"]["missed"] == []
    )
    blind = written["blind"]
    assert [r["what"] for r in blind["today"]["each"]] == [m["what"] for m in mutation.blind()]
    assert (
        sum(one["mutants"] for one in blind["at first sight"].values()) == blind["today"]["mutants"]
    )


def test_the_page_says_what_was_written():
    written = WRITTEN
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    hand, auto, blind = written["by hand"], written["automatic"], written["blind"]
    first = blind["at first sight"].values()
    rows = [
        f"| {hand['mutants']} | {hand['caught']} | {hand['named']} |",
        f"| {auto['caught']:,} | {auto['mutants'] - auto['equivalent']:,} | not judged |",
        f"| {sum(o['mutants'] for o in first)} | "
        f"{sum(o['mutants'] - o['not caught'] for o in first)} | "
        f"{sum(o['named'] for o in first)} |",
        f"| {blind['today']['mutants']} | {blind['today']['caught']} | {blind['today']['named']} |",
    ]
    assert [row for row in rows if row not in page] == []


@pytest.mark.parametrize("name", mutation.LATER)
def test_the_later_lists(name):
    """Their size, what became of each at first sight, and what the page says of them."""
    mutants = mutation.later(name)
    assert len(mutants) >= (60 if name != "pairs" else 12)
    assert {m["first sight"] for m in mutants} <= {"named", "not named"}
    named = sum(m["first sight"] == "named" for m in mutants)
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert f"`validation/{name}.json`) | {len(mutants)} | {len(mutants)} | {named} |" in page


def test_mistakes_of_the_later_lists_are_caught_and_named():
    """One in eight of those that have a name and are no edit of an equation, as the report shows
    them; validation/mutation.py --later runs all of them.
    """
    lists = [m for name in mutation.LATER for m in mutation.later(name)]
    some = [m for m in lists if m["says"] and "`" not in m["says"]][::8]
    found = [mutation.judge_blind(m) for m in some]
    assert len(found) >= 5 and [(r.what, r.said) for r in found if not r.right] == []

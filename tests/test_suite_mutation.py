"""The changes that `validation.suite_mutation` makes: each is one node, parses, and means another."""

from __future__ import annotations

import ast
import json

from validation import suite_mutation as mutation

SOURCE = '''
LIMIT = 3

def f(a: int = 2, b=None):
    """A docstring with 1 + 1."""
    if not a < 0.5 and b is None:
        raise ValueError(f"{a + 1} is wrong" + "!")
    return -a.T @ (a ** 3) if a else True
'''


def test_every_kind_of_node_is_changed_and_messages_are_not():
    found = {(" ".join(c.old.split()), c.new) for c in mutation.changes("m.py", SOURCE)}
    assert found == {
        ("2", "(3)"), ("2", "(4)"), ("0.5", "(1.5)"), ("0.5", "(1.0)"), ("3", "(4)"), ("3", "(6)"),
        ("a < 0.5", "((a) <= (0.5))"), ("b is None", "((b) is not (None))"),
        ("not a < 0.5", "((a < 0.5))"),
        ("not a < 0.5 and b is None", "((not a < 0.5) or (b is None))"),
        ("-a.T", "((a.T))"), ("a.T", "((a))"), ("a ** 3", "((a) * (3))"), ("True", "(False)"),
        ("-a.T @ (a ** 3)", "((-a.T) * (a ** 3))"),
        ("-a.T @ (a ** 3) if a else True", "(True if a else -a.T @ a ** 3)"),
    }  # fmt: skip


def test_every_change_of_the_package_parses_and_is_one():
    every, texts = mutation.planned(mutation.ROOT, seed=0)
    assert len(texts) > 60 and len(every) > 8000
    for _, change in every[:300]:
        text = mutation.changed(texts[change.module], change)
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(texts[change.module]))


def test_the_order_is_that_of_the_seed():
    one, two, other = (mutation.planned(mutation.ROOT, s, "metrics.py")[0] for s in (1, 1, 2))
    assert one == two != other and sorted(one) == sorted(other)


def test_reasons_name_changes_that_there_are():
    every, _ = mutation.planned(mutation.ROOT, seed=0)
    reasons = json.loads(mutation.REASONS.read_text(encoding="utf-8"))
    assert set(reasons) <= {name for name, _ in every} and all(reasons.values())


def test_test_files_are_there():
    files = {f for names in mutation.modules(mutation.ROOT).values() for f in names}
    assert all((mutation.ROOT / f).exists() for f in files)

"""The examples in docstrings print what they say."""

import doctest
import importlib

import pytest
from test_style import MODULES, dotted

WITH_EXAMPLES = [dotted(p) for p in MODULES if ">>> " in p.read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples(module, monkeypatch, tmp_path):
    """Each in the module's own names, in an empty folder; spaces at line breaks do not matter."""
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(importlib.import_module(module), optionflags=flags)
    assert result.attempted > 0 and result.failed == 0


def test_there_are_examples():
    assert len(WITH_EXAMPLES) > 20

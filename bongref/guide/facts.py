"""What is to be said about rules, estimators, families and parameters, from facts.json.

>>> from bongref.guide.facts import facts
>>> sorted(facts()["rules"])
['bbb', 'blr', 'bog', 'bong']
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def facts() -> dict[str, Any]:
    """The file of facts."""
    path = Path(__file__).parent / "facts.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found

"""The quantities of each call in the order of computation, and their equations in the paper.

From quantities.json: ``EQUATIONS[rule, family][quantity]``, ``ESTIMATES[estimator][quantity]``,
``PREDICT[quantity]``, ``PREDICTIVE[kind]``.
"""

import json
from pathlib import Path
from typing import Any

_DATA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "quantities.json").read_text(encoding="utf-8")
)

EQUATIONS: dict[tuple[str, str], dict[str, str]] = {
    (rule, family): quantities
    for rule, families in _DATA["step"].items()
    for family, quantities in families.items()
}
ESTIMATES: dict[str, dict[str, str]] = _DATA["estimate"]
PREDICT: dict[str, str] = _DATA["predict"]
PREDICTIVE: dict[str, str] = _DATA["predictive"]

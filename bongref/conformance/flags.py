"""The flags of the cases, from flags.json.

``FLAGS[flag]["what"]`` is what the flag says about a case, ``FLAGS[flag]["catches"]`` the mistake
that shows in such a case and not in others.
"""

import json
from pathlib import Path

FLAGS: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "flags.json").read_text(encoding="utf-8")
)


def meaning(flag: str) -> str:
    """What a flag says about a case, and what it catches, in one line."""
    known = FLAGS.get(flag, {"what": "not described", "catches": ""})
    return known["what"] + (f"; catches {known['catches']}" if known["catches"] else "")

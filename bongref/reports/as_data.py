"""Plain data as JSON, and test cases as JUnit XML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

from .model import Case


def plain(value: Any) -> Any:
    """Data that JSON has a form for: arrays as lists, NaN and infinities as strings."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def to_json(data: Any) -> str:
    """Data as JSON that other languages read too: no NaN, no infinities."""
    return json.dumps(plain(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def junit(title: str, cases: Sequence[Case]) -> str:
    """Test cases as JUnit XML, a suite for each name of a suite."""
    root = ElementTree.Element("testsuites", _suite(title, cases))
    for name in dict.fromkeys(c.suite for c in cases):
        here = [c for c in cases if c.suite == name]
        suite = ElementTree.SubElement(root, "testsuite", _suite(name, here))
        for c in here:
            of = {"classname": _xml(c.group), "name": _xml(c.name), "time": f"{c.seconds:.6f}"}
            case = ElementTree.SubElement(suite, "testcase", of)
            if c.status in ("fail", "error"):
                kind = "failure" if c.status == "fail" else "error"
                ElementTree.SubElement(
                    case, kind, {"message": _xml(c.message), "type": kind}
                ).text = _xml(c.details)
            elif c.status == "skip":
                ElementTree.SubElement(case, "skipped", {"message": _xml(c.message)})
            elif c.message:
                ElementTree.SubElement(case, "system-out").text = _xml(c.message)
    ElementTree.indent(root)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        + ElementTree.tostring(root, encoding="unicode")
        + "\n"
    )


def _suite(name: str, cases: Sequence[Case]) -> dict[str, str]:
    counts = {"failures": "fail", "errors": "error", "skipped": "skip"}
    numbers = {key: str(sum(c.status == status for c in cases)) for key, status in counts.items()}
    return {
        "name": _xml(name),
        "tests": str(len(cases)),
        **numbers,
        "time": f"{sum(c.seconds for c in cases):.6f}",
    }


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)

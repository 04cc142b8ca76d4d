"""Facts as data: every JSON file has a schema that it passes and that can fail, and is shipped with
the package.
"""

import configparser
import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from bongref.paper import KINDS, claims, errata

ROOT = Path(__file__).resolve().parents[1]
FACTS = sorted(
    p
    for folder in ("experiments/data", "guide", "paper", "theory")
    for p in (ROOT / "bongref" / folder).glob("*.json")
)
NAMES = {
    "claims",
    "costs",
    "datasets",
    "equations",
    "errata",
    "facts",
    "nist",
    "paper",
    "tests",
    "uncomputed",
}


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def schema(path):
    return read(path.parent / "schema" / path.name)


def errors(path, data):
    return [e.message for e in Draft202012Validator(schema(path)).iter_errors(data)]


def test_every_file_has_a_schema():
    assert {p.stem for p in FACTS} == NAMES
    for path in FACTS:
        Draft202012Validator.check_schema(schema(path))


@pytest.mark.parametrize("path", FACTS, ids=lambda p: p.stem)
def test_data_pass_their_schema(path):
    assert errors(path, read(path)) == []


def first(data):
    """The first entry of a list, or the whole object."""
    return data[0] if isinstance(data, list) else data


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("claims", {"verdict": "perhaps"}),
        ("claims", {"evidence": ["tests/test_claims.py"]}),
        ("claims", {"where": "introduction"}),
        ("errata", {"kind": "misprint"}),
        ("errata", {"id": "E1"}),
        ("errata", {"remark": "a key that is unknown"}),
        ("equations", {"number": "3"}),
        ("equations", {"algorithm": "algo:main"}),  # and a number: one or the other
        ("equations", {"methods": ["BONG"]}),
        ("paper", {"source": {"file": "bong-paper.tex", "sha256": "f47f", "lines": 1}}),
        ("paper", {"places": [{"kind": "figure", "number": "1", "title": "a", "line": 1}]}),
        ("paper", {"places": [{"kind": "table", "number": "1", "title": "a", "line": 1}]}),
        ("uncomputed", {"equations": []}),
        ("facts", {"rules": {"bong": {"what": "a step"}}}),
        ("costs", {"probe seconds": 0}),
        ("nist", {"y": [1.5]}),
        ("nist", {"model": {}}),
        ("tests", {"eq:bong": ["test_families.py"]}),
        ("datasets", {"mine": {"about": "a set of mine", "files": []}}),
        (
            "datasets",
            {"mine": {"about": "a set of mine", "files": [{"path": "a.csv", "url": "b"}]}},
        ),
    ],
)
def test_a_slip_in_the_data_is_seen(name, change):
    path = next(p for p in FACTS if p.stem == name)
    data = read(path)
    first(data).update(change)
    assert errors(path, data)


@pytest.mark.parametrize("name", sorted(NAMES - {"datasets", "tests"}))
def test_a_missing_key_is_seen(name):
    path = next(p for p in FACTS if p.stem == name)
    for key in schema(path).get("items", schema(path))["required"]:
        data = read(path)
        del first(data)[key]
        assert errors(path, data), key


def test_schemas_and_code_have_the_same_words():
    words = lambda name, key: tuple(
        schema(ROOT / "bongref/paper" / name)["items"]["properties"][key]["enum"]
    )
    assert (
        words("claims.json", "kind") == claims.KINDS
        and words("claims.json", "verdict") == claims.VERDICTS
    )
    assert words("errata.json", "kind") == errata.KINDS and words("equations.json", "kind") == KINDS


# --- what is shipped ------------------------------------------------------------------------------


def shipped(text):
    """A function that says whether setup.cfg's globs take a file of the package along."""
    config = configparser.ConfigParser()
    config.read_string(text)
    globs = {
        k: [g.strip() for g in v.split(",")] for k, v in config["options.package_data"].items()
    }

    def covers(path):
        for package, patterns in globs.items():
            folder = ROOT / package.replace(".", "/")
            if path.is_relative_to(folder):
                inside = path.relative_to(folder).as_posix()
                if any(
                    fnmatchcase(inside, g) and inside.count("/") == g.count("/") for g in patterns
                ):
                    return True
        return False

    return covers


def test_every_data_file_is_shipped():
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    data = [
        p
        for p in (ROOT / "bongref").rglob("*")
        if p.suffix in (".json", ".css", ".typed", ".js", ".html")
    ]
    assert len(data) > 20 and [str(p.relative_to(ROOT)) for p in data if not shipped(text)(p)] == []
    without = shipped(
        text.replace("bongref.theory =", "bongref.other =")
    )  # and a lost line is seen
    assert not all(map(without, data))

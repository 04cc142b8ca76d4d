"""`bongref cite` and CITATION.cff: valid, from one source, and about this version and this
paper.
"""

import configparser
import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

import bongref as br
from bongref import cite

ROOT = Path(__file__).resolve().parents[1]
PAPER = Path(os.environ.get("BONGREF_PAPER", ROOT.parent / "shared" / "paper" / "bong-paper.tex"))

# The part of the Citation File Format 1.2.0 that we use: its required keys, its kinds, its
# spellings.
TEXT = {"type": "string", "minLength": 1}
PERSON = {
    "type": "object",
    "properties": {"given-names": TEXT, "family-names": TEXT},
    "required": ["family-names"],
    "additionalProperties": False,
}
ENTITY = {
    "type": "object",
    "properties": {"name": TEXT},
    "required": ["name"],
    "additionalProperties": False,
}
AUTHORS = {"type": "array", "minItems": 1, "items": {"anyOf": [PERSON, ENTITY]}}
IDENTIFIER = {
    "type": "object",
    "properties": {"type": {"enum": ["doi", "url", "swh", "other"]}, "value": TEXT},
    "required": ["type", "value"],
    "additionalProperties": False,
}
REFERENCE = {
    "type": "object",
    "properties": {
        "type": {"enum": ["conference-paper", "article", "software", "data"]},
        "title": TEXT,
        "authors": AUTHORS,
        "year": {"type": "integer"},
        "collection-title": TEXT,
        "identifiers": {"type": "array", "items": IDENTIFIER},
        "url": {"type": "string", "pattern": "^https://"},
    },
    "required": ["type", "title", "authors"],
    "additionalProperties": False,
}
CFF = {
    "type": "object",
    "properties": {
        "cff-version": {"const": "1.2.0"},
        "message": TEXT,
        "type": {"enum": ["software", "dataset"]},
        "title": TEXT,
        "authors": AUTHORS,
        "version": TEXT,
        "license": {"enum": ["MIT"]},
        "abstract": TEXT,
        "keywords": {"type": "array", "minItems": 1, "uniqueItems": True, "items": TEXT},
        "references": {"type": "array", "items": REFERENCE},
    },
    "required": ["cff-version", "message", "title", "authors"],
    "additionalProperties": False,
}


def test_the_citation_file_is_valid_and_current():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert text == cite.text("package", "cff") + "\n", "python -m bongref.cite > CITATION.cff"
    found = yaml.safe_load(text)
    jsonschema.validate(found, CFF)
    assert found["version"] == br.__version__ and found["type"] == "software"
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith(found["license"])
    (paper,) = found["references"]
    assert paper["title"] == "Bayesian Online Natural Gradient (BONG)" and paper["year"] == 2024


@pytest.mark.parametrize("wrong", ["type", "title", "authors", "cff-version"])
def test_a_broken_citation_file_is_noticed(wrong):
    found = yaml.safe_load(cite.text("package", "cff"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found | {wrong: []}, CFF)


@pytest.mark.parametrize("what", cite.WHAT)
def test_every_format_has_the_same_facts(what):
    entry = json.loads((ROOT / "bongref" / "citation.json").read_text(encoding="utf-8"))[what]
    bibtex, apa = cite.text(what), cite.text(what, "apa")
    cff = yaml.safe_load(cite.text(what, "cff"))
    cff = cff[0] if what == "paper" else cff
    assert cff["title"] == entry["title"] and entry["title"] in bibtex and entry["title"] in apa
    assert str(entry["year"]) in bibtex and str(entry["year"]) in apa
    for author in entry["authors"]:
        name = author.get("family", author.get("name"))
        assert name in bibtex and name in apa and name in str(cff["authors"])
    if what != "paper":
        jsonschema.validate(cff, CFF)
        assert all(cite.version(what) in text for text in (bibtex, apa, cff["version"]))


@pytest.mark.parametrize("what", ["all", *cite.WHAT])
def test_bibtex_can_be_read(what):
    """Braces balance, each entry has a key and fields of the form name = {value}."""
    entries = cite.text(what).split("\n\n")
    assert len(entries) == (3 if what == "all" else 1)
    for entry in entries:
        head, *fields, end = entry.splitlines()
        assert re.fullmatch(r"@(inproceedings|software|misc)\{[\w-]+,", head) and end == "}"
        assert all(re.fullmatch(r"  \w+ = \{(\{.*\}|[^{}]*)\},", line) for line in fields)
        assert {"author", "title", "year"} <= {line.split()[0] for line in fields}


def test_the_paper_is_the_one_in_its_source():
    if not PAPER.exists():
        pytest.skip("no LaTeX source of the paper; name it in BONGREF_PAPER")
    source = PAPER.read_text(encoding="utf-8")
    title = re.search(r"\\title\{(.*?)\s*\(\\bong\)\}", source)[1]
    assert f"{title.strip()} (BONG)" in cite.text("paper", "apa")
    authors = re.search(r"\\author\{(.*?)\n\}", source, re.DOTALL)[1]
    for name in ("Matt Jones", "Peter Chang", "Kevin Murphy"):
        given, family = name.split()
        assert name in authors and f"{family}, {given}" in cite.text("paper")


def test_the_data_are_installed_with_the_package():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert "citation.json" in setup["options.package_data"]["bongref"]
    assert setup["metadata"]["license"] == "MIT"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("papers", "apa"), "what must be 'all', 'paper', 'package' or 'vectors', got 'papers'"),
        (("paper", "ris"), "format must be 'bibtex', 'apa' or 'cff', got 'ris'"),
    ],
)
def test_bad_words_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        cite.text(*given)

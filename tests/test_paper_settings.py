"""The settings of the paper's study: complete, readable, and commands that bongref accepts."""

import argparse
import json
import os
import shlex
from pathlib import Path

import pytest

from bongref.cli import main as bongref
from bongref.experiments import arguments
from bongref.experiments.tuning import space
from validation import paper
from validation.paper.__main__ import main

ALL = [(study, size) for study in paper.STUDIES for size in paper.SIZES]
DATA = os.environ.get("BONGREF_DATA") or str(
    Path(__file__).resolve().parents[2] / "shared" / "data"
)


def test_every_study_has_a_full_and_a_reduced_file():
    names = {p.stem for p in paper.SETTINGS.glob("?-*.json")}
    assert names == {f"{study}-{size}" for study, size in ALL}
    for path in paper.SETTINGS.glob("space-*.json"):
        space.read(path)


@pytest.mark.parametrize(("study", "size"), ALL)
def test_settings_say_what_they_are(study, size):
    s = paper.load(study, size)
    assert (s["study"], s["size"]) == (study, size) and s["title"] and s["shows"] and s["commands"]
    assert bool(s["fewer"]) == (size == "reduced"), "a reduced setting says what it has fewer of"
    assert s["minutes"] is None or s["minutes"] > 0
    if size == "reduced":
        assert 0 < s["minutes"] < 360, "the reduced setting is one for an afternoon"


@pytest.mark.parametrize(("study", "size"), ALL)
def test_every_command_of_a_study_is_accepted(study, size, tmp_path, capsys, monkeypatch):
    """Runs are listed with --dry; tuning is planned. Where data are absent, that is the message."""
    from bongref.experiments.tuning import cli as tune_cli

    parser = argparse.ArgumentParser()
    arguments.add(parser.add_subparsers())
    monkeypatch.setenv("BONGREF_DATA", DATA)
    for words, folder, optional in paper.commands(paper.load(study, size), tmp_path, 2):
        needs = words[1] in ("mnist", "sarcos", "sarcos-4449") or words[1].startswith("uci-")
        if needs and not Path(DATA).is_dir():
            pytest.skip(f"{words[1]} is not there: BONGREF_DATA is not set")
        args = parser.parse_args(words)
        if (words[1], size) == ("mnist", "full"):
            continue  # as the reduced one but for its numbers, and slow to load
        if words[0] == "tune":
            pytest.importorskip("optuna")
            try:
                plan = tune_cli.plan_of(args)
            except ValueError as error:
                assert optional and "sarcos" in str(error)
                continue
            folder.mkdir(parents=True, exist_ok=True)
            best = {
                n: {"params": {}, "settings": {"prior_var": 1.0, "obs_var": None}}
                for n in plan.methods
            }
            (folder / "best.json").write_text(json.dumps({"format": 1, "methods": best}))
            continue
        status = bongref([*words, "--dry"])
        told = capsys.readouterr()
        assert status == 0 or (optional and "sarcos" in told.err), told.err
        assert status or "to do" in told.out


def test_dry_prints_commands_and_does_nothing(tmp_path, capsys):
    assert main(["e", "--reduced", "--dry", "--out", str(tmp_path / "x")]) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("bongref ")]
    assert (
        len(lines) == 1
        and "kl" in shlex.split(lines[0])[shlex.split(lines[0]).index("--metrics") + 1]
    )
    assert not (tmp_path / "x").exists()

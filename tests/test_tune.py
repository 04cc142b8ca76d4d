"""bongref tune: the same study for any number of workers and after any kill, and what it
refuses.
"""

import json
import math
import os
import random
import signal
import subprocess
import sys
from collections import deque
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

import bongref as br
from bongref.cli import main
from bongref.experiments import execute, store, tasks, workers
from bongref.experiments.tuning import space, study, tune
from bongref.experiments.tuning.best import read_best

optuna = pytest.importorskip("optuna", reason="bongref tune needs Optuna")

ROOT = Path(__file__).resolve().parents[1]
SPACE = space.parse(
    {
        "alpha": {"low": 0.001, "high": 4.0, "log": True},
        "prior_var": {"low": 0.01, "high": 100.0, "log": True},
        "rank": [1, 2, 3],
        "methods": {"blr-*": {"alpha": [0.1, 1.0]}},
    }
)
METHODS = ("bog-lin-hess-dlr", "blr-lin-hess-diag", "bong-lin-hess-fc")


def plan(**changes):
    task = tasks.load("linear", {"n": 60, "n_test": 20}, "valid")
    options = {
        "trials": 18,  # beyond the ten random ones of TPE
        "round_size": 4,
        "steps": len(task.X),
        "seeds": (0, 1),
        "fixed": {"rank": 2},
    }
    return tune.Plan(task, METHODS, SPACE, **{**options, **changes})


def loss(spec):
    """A smooth function of the parameters with its minimum inside the space; diverges at large
    alpha.
    """
    alpha, var = spec.params.get("alpha", 0.1), spec.settings["prior_var"]
    if alpha > 2:
        return None
    rank = spec.params.get("rank", 2)
    return math.log(alpha / 0.05) ** 2 + math.log(var / 2) ** 2 + abs(rank - 2) + 0.01 * spec.seed


def fake(spec):
    """A record without a stream: what decides it is the spec alone."""
    value, steps = loss(spec), spec.settings["steps"]
    rows = [] if value is None else [{"t": steps, "nlpd-plugin": value}]
    timing = {
        "steps": 0.0,
        "evaluation": 0.0,
        "compilation": 0.0,
        "total": 0.0,
        "backend": "",
        "host": "",
        "begun": 0.0,
    }
    status = "diverged" if value is None else "done"
    lost = (
        {"step": 7, "reason": "overflow at step 7"}
        if value is None
        else {"step": steps, "reason": ""}
    )
    return {
        **spec.described(),
        "status": status,
        **lost,
        "rows": rows,
        "calibration": {},
        "warnings": [],
        "timing": timing,
    }


class Shuffled:
    """A pool of n workers that finish in a random order."""

    def __init__(self, n, seed):
        self.capacity, self.rng, self.queue = 2 * n, random.Random(seed), deque()

    def submit(self, fn, spec):
        future = Future()
        self.queue.append((future, spec))
        return future

    def wait(self, futures, timeout):
        k = self.rng.randrange(min(len(self.queue), self.capacity))
        future, spec = self.queue[k]
        del self.queue[k]
        future.set_result(fake(spec))
        return {future}


class Stops(Shuffled):
    """A pool whose driver is interrupted after some results."""

    def __init__(self, n, seed, results):
        super().__init__(n, seed)
        self.left = results

    def wait(self, futures, timeout):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().wait(futures, timeout)


def trials(folder, name):
    """The trials of a study as Optuna itself reads them."""
    backend = optuna.storages.journal.JournalFileBackend(str(folder / tune.JOURNAL))
    loaded = optuna.load_study(
        study_name=f"linear/{name}", storage=optuna.storages.JournalStorage(backend)
    )
    return [(t.number, t.params, t.value, t.user_attrs, t.state.name) for t in loaded.trials]


def everything(folder):
    return {name: trials(folder, name) for name in METHODS}


def chosen(best):
    return {n: {k: v for k, v in e.items() if k != "seconds"} for n, e in best["methods"].items()}


# --- determinism ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The study with one worker that finishes in order."""
    folder = tmp_path_factory.mktemp("reference")
    pool = workers.InProcess()
    pool.submit = lambda fn, spec: workers.InProcess.submit(pool, fake, spec)
    return tune.tune(plan(), folder, pool), folder


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_study_does_not_depend_on_the_number_of_workers_or_their_order(n, reference, tmp_path):
    best = tune.tune(plan(), tmp_path, Shuffled(n, seed=n))
    assert chosen(best) == chosen(reference[0])
    assert everything(tmp_path) == everything(reference[1])


def test_the_rounds_and_the_seed_do_matter(reference, tmp_path):
    for k, change in enumerate(({"round_size": 3}, {"seed": 1})):
        tune.tune(plan(**change), tmp_path / str(k), Shuffled(2, 0))
        assert everything(tmp_path / str(k)) != everything(reference[1])


def test_a_study_that_was_stopped_at_any_moment_equals_one_that_was_not(reference, tmp_path):
    rng = random.Random(5)
    for attempt in range(100):
        try:
            best = tune.tune(plan(), tmp_path, Stops(2, attempt, results=rng.randrange(1, 30)))
        except KeyboardInterrupt:
            with open(tmp_path / tune.JOURNAL, "ab") as file:  # as if killed while it wrote a line
                file.write(b'{"op_code":4,"worker_id":"torn')
            (tmp_path / f"{tune.JOURNAL}.lock").write_text("of a process that was killed")
            continue
        break
    assert attempt > 3 and chosen(best) == chosen(reference[0])
    assert everything(tmp_path) == everything(reference[1])


def test_more_trials_go_on_from_fewer(reference, tmp_path):
    tune.tune(plan(trials=5), tmp_path, Shuffled(2, 0))
    assert [len(t) for t in everything(tmp_path).values()] == [5, 5, 5]
    tune.tune(plan(), tmp_path, Shuffled(2, 1))
    assert everything(tmp_path) == everything(reference[1])


def test_methods_that_were_tuned_before_in_the_same_way_stay_in_the_file(reference, tmp_path):
    def tuned(names, **changes):
        tune.tune(plan(**changes)._replace(methods=names), tmp_path, Shuffled(2, 0))
        return json.loads((tmp_path / "best.json").read_text())

    bog, blr, bong = METHODS
    assert list(tuned((bog, blr))["methods"]) == [bog, blr]
    both = tuned((bog, bong))
    assert chosen(both) == chosen(reference[0]) and set(both["methods"]) == set(METHODS)
    assert list(tuned((bog, bong), trials=20)["methods"]) == [bog, bong]  # not in the same way


def test_the_best_is_the_minimum_and_tpe_finds_a_better_one_than_chance(tmp_path):
    best = tune.tune(plan(trials=40), tmp_path, Shuffled(4, 0))
    for name, entry in best["methods"].items():
        found = trials(tmp_path, name)
        values = [value for _, _, value, _, _ in found]
        assert (
            len(found) == 40
            and entry["loss"] == min(values)
            and entry["trial"] == values.index(min(values))
        )
    entry = best["methods"]["bog-lin-hess-dlr"]
    assert entry["params"]["rank"] == 2 and 0.01 < entry["params"]["alpha"] < 0.25
    # the random start of ten, against what TPE proposes at the end
    values = [value for _, _, value, _, _ in trials(tmp_path, "bog-lin-hess-dlr")]
    assert np.median(values[-10:]) < np.median(values[:10])


def test_a_diverged_trial_has_a_large_finite_loss_and_its_step(reference):
    found = trials(reference[1], "bog-lin-hess-dlr")
    lost = [(value, kept) for _, params, value, kept, _ in found if params["alpha"] > 2]
    assert lost, "the space reaches the rates that diverge"
    for value, kept in lost:
        assert study.LARGE <= value <= 2 * study.LARGE
        assert [one["step"] for one in kept["diverged"]] == [7, 7] and "overflow" in kept[
            "diverged"
        ][0]["reason"]
    assert all(
        value < study.LARGE and not kept["diverged"]
        for _, p, value, kept, _ in found
        if p["alpha"] <= 2
    )


def test_losses_are_finite_and_ordered():
    assert (
        study.bounded(3.5) == 3.5
        and study.bounded(math.inf) == study.bounded(math.nan) == study.LARGE
    )
    assert study.bounded(1e300) == study.LARGE
    early, late = (study.bounded(math.nan, step, 100) for step in (1, 100))
    assert study.LARGE <= late < early <= 2 * study.LARGE


def test_one_seed_that_diverges_makes_the_trial_diverge(tmp_path):
    runs = [
        fake(plan().spec("bog-lin-hess-dlr", {"alpha": a, "prior_var": 1.0}, s))
        for s, a in ((0, 0.1), (1, 3.0))
    ]
    value, kept = tune.loss_of(runs, plan())
    assert (
        value >= study.LARGE
        and [one["seed"] for one in kept["diverged"]] == [1]
        and kept["values"][0] < 10
    )


def test_a_method_whose_trials_all_diverge_has_no_best(tmp_path):
    whole = space.parse({"alpha": [2.5, 3.0]})
    best = tune.tune(
        plan()._replace(space=whole, methods=("bog-lin-hess-fc",), sampler="grid"),
        tmp_path,
        Shuffled(1, 0),
    )
    entry = best["methods"]["bog-lin-hess-fc"]
    assert entry["params"] is None and entry["diverged"] == entry["trials"] == 2
    assert read_best(tmp_path / "best.json") == {}
    assert (
        main(
            ["run", "linear", "--params", str(tmp_path / "best.json"), "--out", str(tmp_path / "r")]
        )
        == 2
    )


def test_parameters_of_a_task_of_another_kind_are_refused(tmp_path, capsys):
    """An observation variance means nothing for classes."""
    entry = {"params": {}, "settings": {"prior_var": 1.0, "obs_var": 0.1}}
    best = {"format": 1, "methods": {"bong-lin-hess-diag": entry}}
    best["task"] = {"name": "sales.csv", "params": {}, "kind": "regression"}
    path = tmp_path / "best.json"
    path.write_text(json.dumps(best))
    words = ["--params", str(path), "--out", str(tmp_path / "r"), "--dry"]
    assert main(["run", "moons", *words]) == 2
    told = capsys.readouterr().err
    assert "tuned on sales.csv, which is regression, and the task is binary" in told
    assert main(["run", "linear", *words]) == 0


def test_a_grid_takes_every_point_once_and_any_storage_is_allowed(tmp_path):
    whole = space.parse(
        {"alpha": {"low": 0.01, "high": 1, "log": True, "steps": 3}, "prior_var": [1.0, 2.0]}
    )
    one = plan()._replace(space=whole, methods=("bog-lin-hess-fc",), sampler="grid", trials=50)
    url = f"sqlite:///{tmp_path}/study.db"
    best = tune.tune(one, tmp_path, Shuffled(2, 0), storage=url)
    loaded = optuna.load_study(study_name="linear/bog-lin-hess-fc", storage=url)
    points = [tuple(t.params.values()) for t in loaded.trials]
    assert len(points) == len(set(points)) == 6 and not (tmp_path / tune.JOURNAL).exists()
    assert best["methods"]["bog-lin-hess-fc"]["params"]["alpha"] == pytest.approx(0.1)
    assert best["methods"]["bog-lin-hess-fc"]["settings"]["prior_var"] == 2.0


# --- real runs, the command line, a kill ----------------------------------------------------------

COMMAND = [
    "linear", "--set", "n=60", "--methods", "bog-lin-hess-diag,bong-lin-hess-diag", "--trials", "6",
    "--round", "3", "--steps", "30", "--quiet",
]  # fmt: skip


def test_real_workers_give_the_same_best_and_run_takes_it(tmp_path, capsys):
    pytest.importorskip("loky", reason="--workers 2 needs loky")
    for n in (1, 2):
        assert main(["tune", *COMMAND, "--out", str(tmp_path / str(n)), "--workers", str(n)]) == 0
    out = capsys.readouterr().out
    one, two = (json.loads((tmp_path / n / "best.json").read_text()) for n in "12")
    assert chosen(one) == chosen(two) and "bog-lin-hess-diag" in out and "best.json" in out
    # the loss of the best is what the same run gives
    best = one["methods"]["bog-lin-hess-diag"]
    task = tasks.load("linear", {"n": 60}, "valid")
    again = tune.Plan(task, ("bog-lin-hess-diag",), SPACE, steps=30)
    searched = {"alpha": best["params"]["alpha"], **best["settings"]}
    record = execute.execute(again.spec("bog-lin-hess-diag", searched, 0))
    assert record["rows"][-1]["nlpd-plugin"] == best["loss"]
    assert task.facts["n_train"] == 48 and one["validation"] == {"n_train": 48, "n_valid": 12}
    # and bongref run takes the parameters
    args = [
        "run",
        "linear",
        "--set",
        "n=60",
        "--params",
        str(tmp_path / "1" / "best.json"),
        "--seeds",
        "1",
    ]
    assert main([*args, "--steps", "30", "--quiet", "--out", str(tmp_path / "run")]) == 0
    found = {r["method"]: r for r in store.read(tmp_path / "run").records}
    assert found["bog-lin-hess-diag"]["params"]["alpha"] == best["params"]["alpha"]
    assert found["bog-lin-hess-diag"]["settings"]["prior_var"] == best["settings"]["prior_var"]
    assert found["bog-lin-hess-diag"]["task"]["part"] == "test"


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_a_study_that_was_killed_goes_on(tmp_path):
    """kill -9 after a few trials, again and again; then the result is that of an undisturbed
    study.
    """
    assert main(["tune", *COMMAND, "--out", str(tmp_path / "whole")]) == 0
    out, kills = tmp_path / "killed", 0
    words = [sys.executable, "-m", "bongref", "tune", *COMMAND[:-1], "--out", str(out)]
    for lines in (2, 4):
        with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
            for _ in range(lines):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        kills += process.returncode == -signal.SIGKILL
    assert kills == 2 and not (out / "best.json").exists()
    assert main(["tune", *COMMAND, "--out", str(out)]) == 0
    whole, killed = (
        json.loads((tmp_path / n / "best.json").read_text()) for n in ("whole", "killed")
    )
    assert chosen(whole) == chosen(killed)


# --- what is refused ------------------------------------------------------------------------------


def test_a_study_of_another_task_is_refused(tmp_path):
    tune.tune(plan(trials=2), tmp_path, Shuffled(1, 0))
    before = (tmp_path / tune.JOURNAL).read_bytes()
    other = tasks.load("linear", {"n": 61, "n_test": 20}, "valid")
    with pytest.raises(
        br.BongrefError, match=r"has a study of another task \(linear.*use another folder"
    ):
        tune.tune(plan()._replace(task=other), tmp_path, Shuffled(1, 0))
    assert (tmp_path / tune.JOURNAL).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [({"seed": 3}, "seed was 0 and is 3"), ({"round_size": 2}, "round was 4 and is 2"),
     ({"metric": "rmse"}, "metric was")],
)  # fmt: skip
def test_other_settings_are_refused_with_what_differs(change, words, tmp_path):
    tune.tune(plan(trials=1), tmp_path, Shuffled(1, 0))
    with pytest.raises(br.BongrefError, match=words):
        tune.tune(plan(trials=1, **change), tmp_path, Shuffled(1, 0))


def test_a_foreign_study_and_a_foreign_file_are_refused(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    optuna.create_study(storage=url, study_name=f"linear/{METHODS[0]}").add_trial(
        optuna.trial.create_trial(value=1.0, params={}, distributions={})
    )
    with pytest.raises(br.BongrefError, match="was not made by bongref tune"):
        tune.tune(plan(), tmp_path, Shuffled(1, 0), storage=url)
    (tmp_path / tune.JOURNAL).write_text("this is\nno journal\n")
    with pytest.raises(br.BongrefError, match="storage must be a journal file or a URL"):
        tune.tune(plan(), tmp_path, Shuffled(1, 0))
    with pytest.raises(br.BongrefError, match="storage must be a journal file or a URL"):
        tune.tune(plan(), tmp_path, Shuffled(1, 0), storage="nonsense://x")


def test_the_test_part_cannot_be_tuned_on(tmp_path):
    task = tasks.load("linear", {"n": 60, "n_test": 20}, "test")
    with pytest.raises(br.BongrefError, match="part='valid'"):
        tune.tune(plan()._replace(task=task), tmp_path, Shuffled(1, 0))


def test_a_trial_that_fails_is_an_error_with_its_reason(tmp_path, monkeypatch):
    def broken(self, *args, **kwargs):
        raise br.InvalidValue("mu must be finite, got nan")

    monkeypatch.setattr(br.Method, "prior", broken)
    bad = plan()._replace(methods=("bong-lin-hess-fc",), space=space.parse({"prior_var": [1.0]}))
    with pytest.raises(br.BongrefError, match=r"a trial of bong-lin-hess-fc failed: .*mu must be"):
        tune.tune(bad, tmp_path, workers.InProcess())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([1], "must be an object"),
        ({"alfa": [1]}, "did you mean 'alpha'"),
        ({"alpha": []}, "at least one value"),
        ({"alpha": [0.1, 0.1]}, "values that differ"),
        ({"alpha": ["a"]}, "alpha"),
        ({"alpha": {"low": 1}}, '"low" and "high"'),
        ({"alpha": {"low": 1, "high": 0.5}}, "low must be < high"),
        ({"alpha": {"low": 0, "high": 0.5, "log": True}}, "low must be > 0"),
        ({"alpha": {"low": 0.1, "high": 0.5, "stpes": 3}}, "may have"),
        ({"rank": [1.5]}, "rank"),
        ({"methods": {"nothing-*": {"alpha": [1]}}}, "80 names"),
        ({"methods": {"blr-*": [1]}}, "globs to objects"),
    ],
)
def test_a_space_with_a_mistake_is_refused(data, words):
    with pytest.raises(br.BongrefError, match=words):
        space.parse(data)


def test_values_out_of_the_range_of_a_method_are_refused():
    with pytest.raises(br.BongrefError, match=r"alpha must be in \(0, 1\]"):
        space.of_method(space.parse({"alpha": [2.0]}), "blr-lin-hess-fc")
    with pytest.raises(br.BongrefError, match="prior_var must be > 0"):
        space.of_method(space.parse({"prior_var": [0.0]}), "blr-lin-hess-fc")
    with pytest.raises(br.BongrefError, match='add "steps"'):
        space.grid(space.parse({"alpha": {"low": 0.1, "high": 0.5}}).axes)
    with pytest.raises(br.BongrefError, match="combinations"):
        space.grid({k: space.Choice(tuple(range(400))) for k in "ab"})


def test_the_points_of_a_grid():
    points = space.grid(
        space.parse(
            {
                "alpha": {"low": 0.01, "high": 1, "log": True, "steps": 3},
                "rank": {"low": 1, "high": 4, "steps": 3},
            }
        ).axes
    )
    assert (
        len(points) == 9
        and points[4]["alpha"] == pytest.approx(0.1)
        and {p["rank"] for p in points} == {1, 2, 4}
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "bang-*"], "methods must be names or globs"),
        (["--methods", "bong-lin-hess-fc", "--trials", "0"], "trials must be"),
        (["--methods", "bong-lin-hess-fc", "--space", "absent.json"], "space must be a file"),
        (["--methods", "bong-lin-hess-fc", "--sampler", "grid"], "a grid needs --space FILE"),
        (["--methods", "bong-lin-hess-fc", "--metric", "ece"], "is for classes"),
        (["--methods", "bong-lin-hess-fc", "--metric", "prequential-plugin"], "validation part"),
        (["--methods", "bong-lin-hess-fc", "--fix", "rank"], "fix must be KEY=VALUE"),
        (["--methods", "bong-lin-hess-fc", "--fix", "rank=x"], "fix must be KEY=NUMBER"),
    ],
)
def test_mistakes_on_the_command_line_get_a_message(words, said, tmp_path, capsys):
    assert main(["tune", "linear", "--out", str(tmp_path / "t"), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_parameter_that_acts_nowhere_is_refused(tmp_path, capsys):
    path = tmp_path / "space.json"
    path.write_text('{"n_iter": [1, 10], "prior_var": [1.0]}')
    assert (
        main(
            [
                "tune",
                "linear",
                "--methods",
                "bong-lin-hess-fc",
                "--space",
                str(path),
                "--out",
                str(tmp_path),
            ]
        )
        == 2
    )
    assert "n_iter acts in none of the methods" in capsys.readouterr().err
    path.write_text("{")
    assert (
        main(
            [
                "tune",
                "linear",
                "--methods",
                "bong-lin-hess-fc",
                "--space",
                str(path),
                "--out",
                str(tmp_path),
            ]
        )
        == 2
    )
    assert "space must be JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"methods": 3}', '{"methods": {"bong-lin-hess-fc": {"params": {"alpha": 1}}}}'],
)
def test_parameters_of_another_kind_are_refused(text, tmp_path, capsys):
    path = tmp_path / "best.json"
    path.write_text(text)
    assert main(["run", "linear", "--params", str(path), "--out", str(tmp_path / "r")]) == 2
    assert "params must be the best.json of bongref tune" in capsys.readouterr().err


def test_a_method_that_was_not_tuned_is_named(tmp_path, capsys):
    tune.tune(plan(trials=1), tmp_path, Shuffled(1, 0))
    words = [
        "run",
        "linear",
        "--params",
        str(tmp_path / "best.json"),
        "--methods",
        "bbb-lin-hess-fc",
    ]
    assert main([*words, "--out", str(tmp_path / "r")]) == 2
    assert "has no parameters of bbb-lin-hess-fc" in capsys.readouterr().err


def test_a_worker_that_dies_again_and_again_ends_with_a_message_and_loses_nothing(
    tmp_path, reference
):
    class Dies(Shuffled):
        def wait(self, futures, timeout):
            if len(store.scan_folder(tmp_path).status) < 5:
                return super().wait(futures, timeout)
            future, _ = self.queue.popleft()
            future.set_exception(workers.BrokenProcessPool())
            return {future}

    with pytest.raises(OSError, match=r"a trial has no result .*the same command goes on"):
        tune.tune(plan(), tmp_path, Dies(1, 0))
    assert len(store.scan_folder(tmp_path).status) == 5
    assert chosen(tune.tune(plan(), tmp_path, Shuffled(2, 0))) == chosen(reference[0])

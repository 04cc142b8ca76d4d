"""``bongref run``: what a record holds, resuming after kills, workers of all kinds, bad input."""

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import bongref as br
from bongref.cli import main
from bongref.errors import InvalidValue
from bongref.experiments import calibration, execute, records, specs, store, sweep, tasks, workers

ROOT = Path(__file__).resolve().parents[1]
SMALL = ["--set", "n=30", "--set", "n_test=20", "--set", "dim=3", "--at", "10,20"]
GRID = ["run", "linear", *SMALL, "--methods", "bong-lin-hess-diag,blr-lin-hess-diag", "-q"]


def grid(out, *more):
    return [*GRID, "--alpha", "0.5,0.1", "--seeds", "4", "--out", str(out), *more]


def bongref(*argv, **how):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "bongref", *argv], cwd=ROOT, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of the grid, in one process and without any interruption."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(grid(folder)) == 0
    return store.read(folder).records


def same_results(folder, whole):
    """Every run once, and the same bit for bit."""
    lines = (Path(folder) / store.NAME).read_bytes().splitlines()
    assert len(lines) == len(whole) and all(map(records.is_intact, lines))
    found = store.read(folder)
    assert found.notes == [] and records.digest(found.records) == records.digest(whole)


# --- records --------------------------------------------------------------------------------------


def one_spec(name="linear", params=None, method="bong-lin-hess-diag", grid=None, **settings):
    task = tasks.load(name, params or {"n": 30, "n_test": 20, "dim": 3})
    how = {
        "steps": len(task.X), "prior_var": 1.0, "obs_var": task.facts["obs_var"], "gamma": None,
        "metrics": {"rmse": [10, 30], "nlpd-mc": [30]}, "eval_samples": 10, **settings,
    }  # fmt: skip
    return specs.matrix(task.source, task.facts, [method], grid or {}, [how], [7])[0]


def test_a_record_is_what_run_gives_by_hand():
    """The same stream put together here: order, prior mean and samples from the seed."""
    spec = one_spec(method="bong-mc-ef-diag", grid={"n_samples": [5]})
    record = execute.execute(spec)
    task = tasks.load("linear", {"n": 30, "n_test": 20, "dim": 3})
    order = np.random.default_rng([7, 1]).permutation(30)
    m, model = br.method("bong-mc-ef-diag", n_samples=5), br.models.linear(3)
    prior = m.prior(model.init(np.random.default_rng([7, 0])), 1.0)
    test = [
        br.metrics.on(task.X_test, task.Y_test, "rmse", n_samples=10, every=[10, 30]),
        br.metrics.on(task.X_test, task.Y_test, "nlpd-mc", n_samples=10, every=[30]),
    ]
    result = br.run(m, model, br.likelihoods.Gaussian(0.25), prior, task.X[order], task.Y[order],
                    rng=np.random.default_rng([7, 3]), metrics=test)  # fmt: skip
    assert record["rows"] == result.rows and [r["t"] for r in record["rows"]] == [10, 30]
    assert record["status"] == "done" and record["step"] == 30
    assert records.same(record, execute.execute(spec))


def test_the_id_depends_on_everything_that_decides_the_result():
    base = one_spec()
    changed = [
        base._replace(seed=8),
        base._replace(method="bong-lin-ef-diag"),
        base._replace(params={"alpha": 0.1}),
        base._replace(settings={**base.settings, "steps": 20}),
        base._replace(task={**base.task, "checksum": "0"}),
        base._replace(adapter="my:Adapter"),
    ]
    assert len({s.id for s in [base, *changed]}) == len({s.key for s in [base, *changed]}) == 7
    other = base._replace(versions={**base.versions, "numpy": "0"})
    assert other.id != base.id and other.key == base.key
    moved = base._replace(source=base.source._replace(data="/elsewhere"))
    assert moved.id == base.id


def test_the_low_rank_part_starts_at_random_or_at_zero():
    """W0 = 0 never moves in bog and bbb; the default is not written, so that ids stay as they are.

    The runs by hand: with W = 0 the low-rank method is the diagonal one, whose KL to the same
    exact posterior is another number.
    """
    rates = {"alpha": [0.01], "rank": [2]}
    kl = {"metrics": {"kl": [30]}}
    for name in ("bog-lin-hess-dlr", "bbb-lin-hess-dlr"):
        base = one_spec(method=name, grid=rates, **kl)
        same = one_spec(method=name, grid=rates, w0="random", **kl)
        zero = one_spec(method=name, grid=rates, w0="zero", **kl)
        assert base.id == same.id != zero.id and "w0" not in base.settings
        assert "--w0 zero" in specs.command(zero) and "w0" not in specs.command(base)
        m, model, lik, prior, X, Y, _, _ = execute.setup(zero, tasks.load(*zero.source))
        assert not prior.W.any() and np.array_equal(1 / prior.Ups, np.ones(3))
        by_hand = br.run(m, model, lik, prior, X, Y, backend="reference")
        assert not by_hand.state.W.any()
        moving = br.run(*execute.setup(base, tasks.load(*base.source))[:6], backend="reference")
        start = execute.setup(base, tasks.load(*base.source))[3]
        assert not np.allclose(moving.state.W, start.W, rtol=1e-3)
        assert execute.execute(zero)["rows"] != execute.execute(base)["rows"]


@pytest.mark.parametrize("name", ["bong-lin-hess-dlr", "blr-lin-hess-dlr", "bog-lin-hess-diag"])
def test_w0_is_no_setting_of_methods_where_it_does_not_act(name):
    grid = {} if name.startswith("bong") else {"alpha": [0.1]}
    assert one_spec(method=name, grid=grid, w0="zero").id == one_spec(method=name, grid=grid).id


def test_w0_on_the_command_line(tmp_path, capsys):
    words = ["run", "linear", "--set", "n=20", "--seeds", "1", "--out", str(tmp_path), "--dry"]
    methods = ["--methods", "bog-lin-hess-dlr,bong-lin-hess-dlr", "--w0", "random,zero"]
    assert main([*words, *methods]) == 0
    out = capsys.readouterr().out
    assert "3 runs" in out and out.count("w0=zero") == 1
    assert main([*words, "--methods", "bong-*-diag", "--w0", "zero"]) == 2
    assert "w0 is a setting of bog-*-dlr and bbb-*-dlr" in capsys.readouterr().err
    assert main([*words, "--methods", "bog-*-dlr", "--w0", "ones"]) == 2
    assert "w0" in capsys.readouterr().err


def test_a_run_that_diverges_is_a_result():
    """Gradient steps of a huge learning rate: the step, the reason, and the rows before it."""
    data = {"n": 100, "n_test": 20}
    spec = one_spec(
        "moons", data, "bog-lin-hess-diag", {"alpha": [10.0]}, metrics={"error": [1, 100]}
    )
    record = execute.execute(spec)
    assert record["status"] == "diverged" and record["calibration"] == {}
    m, model, lik, prior, X, Y, rng, _ = execute.setup(spec, tasks.load(*spec.source))
    with pytest.raises(br.NotPositiveDefinite) as by_hand:
        br.run(m, model, lik, prior, X, Y, rng=rng, backend="reference")
    assert record["step"] == by_hand.value.step
    assert record["reason"].startswith(f"not positive definite at step {record['step']}: ")
    assert [row["t"] for row in record["rows"]] == [1] and record["step"] > 1


def test_an_overflow_says_so(monkeypatch):
    """The error of a stream becomes the record: step, reason without advice, rows before it."""
    text = "m: step 31: the update gave numbers that are not finite; the state after step 30 is in"

    def overflows(*args, **how):
        raise br.NotFinite(text, 31, args[3], [{"t": 10, "rmse": 0.5}], "m")

    monkeypatch.setattr(execute.stream, "run", overflows)
    record = execute.execute(one_spec())
    assert (record["status"], record["step"]) == ("diverged", 31)
    want = "overflow at step 31: the update gave numbers that are not finite"
    assert record["reason"] == want and record["rows"] == [{"t": 10, "rmse": 0.5}]


def test_a_mistake_inside_a_run_is_a_failed_record_and_is_tried_again_when_asked(tmp_path):
    spec = one_spec()._replace(params={"alpha": 0.5})  # which the method does not have
    assert sweep.sweep([spec], str(tmp_path)).status == {"failed": 1}
    (record,) = store.read(tmp_path).records
    assert "takes no parameter 'alpha'" in record["reason"] and record["rows"] == []
    assert sweep.todo([spec], {spec.id: "failed"}) == []
    assert sweep.todo([spec], {spec.id: "failed"}, retry_failed=True) == [spec]


def test_other_data_or_versions_in_a_worker_are_refused():
    spec = one_spec()
    with pytest.raises(InvalidValue, match="other data than when the run was asked for"):
        execute.execute(spec._replace(task={**spec.task, "checksum": "0" * 64}))
    with pytest.raises(InvalidValue, match="a worker must have the versions"):
        execute.execute(spec._replace(versions={**spec.versions, "numpy": "0.1"}))


def test_calibration_counts_give_the_ece_and_the_coverage():
    """By other routes: metrics.ece, and intervals of a normal distribution."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 500)
    Y = rng.integers(0, 4, 500).astype(float)
    pred = br.predictive.Predictive("plugin", br.likelihoods.Categorical(), p[None], True)
    c = {k: np.array(v) for k, v in calibration.counts(pred, Y).items() if k != "kind"}
    ece = np.abs(c["correct"] - c["confidence"]).sum() / c["count"].sum()
    assert ece == pytest.approx(br.metrics.ece(pred, Y), abs=1e-12)
    f, y = rng.standard_normal((1, 4000, 1)), rng.standard_normal(4000)
    wide = br.predictive.Predictive("plugin", br.likelihoods.Gaussian(0.5), f)
    pit = np.array(calibration.counts(wide, y)["count"])
    inside = np.abs(y - f[0, :, 0]) <= 0.6744897501960817 * np.sqrt(0.5)  # the central half
    assert pit[5:15].sum() == inside.sum() and pit.sum() == 4000


def test_a_spec_becomes_the_command_that_gives_its_id(capsys):
    """The command in a record, read back by the command line."""
    made = [
        one_spec(),
        one_spec("moons", {"n": 40, "n_test": 20}, "blr-mc-ef-dlr",
                 {"alpha": [0.3], "n_samples": [7], "rank": [2]}, gamma=0.99,
                 metrics={"error": [20, 40], "ece": [20, 40], "prequential-plugin": [40]}),
    ]  # fmt: skip
    for spec in made:
        words = shlex.split(specs.command(spec))
        assert main([*words[1:], "--dry"]) == 0
        listed = capsys.readouterr().out
        assert spec.id in listed and "0 of 1 are in" in listed


def test_kl_to_the_exact_posterior_of_linear_regression():
    """Full-covariance BONG is exact after every step; the diagonal family is not."""
    steps = {"kl": [1, 7, 30], "rmse": [30]}
    exact, apart = (
        execute.execute(one_spec(method=f"bong-lin-hess-{family}", metrics=steps))["rows"]
        for family in ("fc", "diag")
    )
    assert [row["t"] for row in exact] == [row["t"] for row in apart] == [1, 7, 30]
    assert all(abs(row["kl"]) < 1e-10 < row["kl"] + 2e-10 for row in exact)
    assert apart[0]["kl"] > 1e-3
    record = execute.execute(one_spec("moons", {"n": 40, "n_test": 20}, metrics={"kl": [40]}))
    assert record["status"] == "failed" and "kl must be of a linear regression" in record["reason"]


def test_a_foreign_implementation_on_the_same_streams(tmp_path):
    """bongref's own equations as an adapter: the same rows to rounding, other ids."""
    adapter = "bongref.conformance:Reference"
    for method, grid_ in (
        ("bong-lin-hess-dlr", {"rank": [2]}),
        ("bong-mc-ef-diag", {"n_samples": [4]}),
    ):
        ours = one_spec(method=method, grid=grid_)
        theirs = ours._replace(adapter=adapter, versions=specs.versions(adapter))
        a, b = execute.execute(ours), execute.execute(theirs)
        assert a["id"] != b["id"] and b["status"] == "done"
        for row, other in zip(a["rows"], b["rows"], strict=True):
            assert row == pytest.approx(other, rel=1e-9)
    many = one_spec(method="blr-mc-ef-diag", grid={"n_samples": [4]})
    many = many._replace(adapter=adapter, versions=specs.versions(adapter))
    failed = execute.execute(many)
    assert failed["status"] == "failed" and "use --n-iter 1" in failed["reason"]


def test_a_foreign_state_of_another_shape_is_a_mistake_and_no_divergence(monkeypatch):
    from bongref.conformance import Reference

    monkeypatch.setattr(Reference, "run", lambda self, *given: NotImplemented)
    adapter, one = "bongref.conformance:Reference", one_spec(method="bong-lin-hess-diag")
    one = one._replace(adapter=adapter, versions=specs.versions(adapter))
    for state, what in (
        (
            {"mu": np.zeros(2), "var": np.ones(3)},
            r"mu of the adapter must have shape \(3,\), got \(2,\)",
        ),
        ({"mu": np.zeros(3), "var": -np.eye(3)}, r"var of the adapter must have .* got \(3, 3\)"),
    ):
        monkeypatch.setattr(Reference, "update", lambda self, *given, made=state: made)
        failed = execute.execute(one)
        assert failed["status"] == "failed" and re.search(what, failed["reason"]), failed


@pytest.mark.parametrize(
    ("returned", "got"),
    [(lambda s: s[:-1], "29"), (lambda s: [*s, s[-1]], "31"), (lambda s: [], "0"),
     (lambda s: None, "None"), (lambda s: s[-1], "1")],
)  # fmt: skip
def test_an_adapter_returns_one_state_for_each_observation(monkeypatch, returned, got):
    from bongref.conformance import Reference

    run = Reference.run
    monkeypatch.setattr(Reference, "run", lambda *given: returned(run(*given)))
    adapter, one = "bongref.conformance:Reference", one_spec(metrics={"rmse": [30]})
    failed = execute.execute(one._replace(adapter=adapter, versions=specs.versions(adapter)))
    said = f"must return 30 states, one for each observation, got {got}"
    assert failed["status"] == "failed" and said in failed["reason"], failed


def test_a_run_that_failed_says_why_with_q(capsys):
    record = execute.execute(one_spec("moons", {"n": 40, "n_test": 20}, metrics={"kl": [40]}))
    sweep.Progress(1, quiet=True).finished(record)
    told = capsys.readouterr()
    assert "failed, " in told.err and "kl must be of a linear regression" in told.err
    assert not told.out


# --- the command ----------------------------------------------------------------------------------


def test_dry_lists_the_matrix_and_writes_nothing(tmp_path, capsys):
    out = tmp_path / "none"
    assert main(grid(out, "--dry")) == 0
    text = capsys.readouterr().out
    assert text.count("to do") == 12 and "0 of 12 are in" in text and not out.exists()


def test_running_again_computes_nothing_and_more_seeds_only_those(tmp_path, whole, capsys):
    out = tmp_path / "r"
    assert main([*grid(out)[:-2], "--out", str(out), "--seeds", "2"]) == 0
    before = (out / store.NAME).read_bytes()
    assert main([*grid(out)[:-2], "--out", str(out), "--seeds", "2"]) == 0
    assert (out / store.NAME).read_bytes() == before
    assert main(grid(out)) == 0
    assert (out / store.NAME).read_bytes().startswith(before)
    same_results(out, whole)
    assert records.digest(whole) in capsys.readouterr().out


def test_results_of_another_version_are_kept_apart_with_a_message(tmp_path, capsys):
    spec = one_spec()
    old = spec._replace(versions={**spec.versions, "bongref": "0.0.1"})
    with store.writer(tmp_path) as out:
        out.append({**old.described(), "status": "done", "rows": [], "calibration": {}})
    outcome = sweep.sweep([spec], str(tmp_path), progress=sweep.Progress(1))
    assert outcome.status == {"done": 1} and len(store.read(tmp_path).records) == 2
    told = capsys.readouterr().err
    assert "results of bongref 0.0.1 are kept and not counted as done" in told


BAD = {
    ("--methods", "bongo-*"): "methods must be names or globs.*got 'bongo-\\*'",
    ("--methods", "bong-mc-hess-dlr"): "SVD projection",
    ("--alpha", "0.1"): "alpha is a parameter of blr-\\*",
    ("--rank", "99", "--methods", "bong-lin-hess-dlr"): "rank must be",
    ("--rank", "two", "--methods", "bong-lin-hess-dlr"): "rank must be integers",
    ("--steps", "1000"): "steps must be",
    ("--metrics", "nlp"): "did you mean 'nlpd'",
    ("--metrics", "error"): "error is for classes",
    ("--prior-var", "-1"): "prior_var must be > 0",
    ("--set", "n"): "set must be KEY=VALUE",
    ("--set", "nn=3"): "linear takes n, n_test",
    ("--seeds", "0"): "seeds must be",
    ("--seeds", "2", "--seed", "3"): "must not both be given",
    ("--at", "5", "--every", "5"): "must not both be given",
    ("--at", "10,50"): "at must be steps of the stream, 1 to 30, got 50",
    ("--metric", "rmse@50"): "metric must be steps of the stream, 1 to 30, got 50",
    ("--adapter", "nothing"): "adapter must be given as module:Name",
    ("--out", "/dev/null/x"): "out must be a folder",
}  # fmt: skip


@pytest.mark.parametrize("more", BAD, ids=lambda m: " ".join(m))
def test_a_mistake_gets_one_line_and_no_traceback(more, tmp_path, capsys):
    argv = [
        "run",
        "linear",
        *SMALL,
        "--methods",
        "bong-lin-hess-diag",
        "--out",
        str(tmp_path / "r"),
    ]
    if "--at" in more:
        argv = [a for a in argv if a not in ("--at", "10,20")]
    assert main([*argv, *more]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("bongref: ") and err.count("\n") == 1
    assert re.search(BAD[more], err), err
    assert out == "" or "runs" in out


def test_a_disk_that_is_full_from_the_start_says_what_to_do(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store, "save", full)
    assert main(grid(tmp_path / "r")) == 2
    err = capsys.readouterr().err
    assert err == (
        f"bongref: {os.strerror(errno.ENOSPC)}; what was written before is safe. Free disk space, "
        "and give the same command again\n"
    )


def test_the_line_of_a_run_has_the_settings_that_are_not_the_tasks():
    spec = one_spec()
    usual = {**spec.described(), "status": "done", "rows": [{"t": 1, "rmse": 0.5}]}
    mine = {**usual, "settings": {**spec.settings, "prior_var": 7.0, "gamma": 0.9, "w0": "zero"}}
    assert "prior_var" not in sweep.line(usual) and "obs_var" not in sweep.line(usual)
    assert "prior_var=7.0 gamma=0.9 w0=zero seed=" in sweep.line(mine)


def test_ctrl_c_says_how_to_go_on(tmp_path, whole):
    child = bongref(*[w for w in grid(tmp_path / "r") if w != "-q"], "--seeds", "400")
    for line in child.stdout:
        if line.startswith("[2/"):
            break
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and "Traceback" not in err
    assert "The same command goes on:\n  bongref run linear" in err
    assert main(grid(tmp_path / "r")) == 0
    ids = {r["id"] for r in whole}
    mine = [r for r in store.read(tmp_path / "r").records if r["id"] in ids]
    assert records.digest(mine) == records.digest(whole)


def test_three_kills_end_in_the_same_results(tmp_path, whole):
    """kill -9 when so many lines are there; then the same command."""
    out = tmp_path / "r"
    for lines in (1, 3, 7):
        child = bongref(*grid(out))
        file = out / store.NAME
        while child.poll() is None and not (
            file.exists() and file.read_bytes().count(b"\n") >= lines
        ):
            time.sleep(0.001)
        child.kill()
        child.communicate(timeout=60)
    with open(file, "ab") as torn:
        torn.write(b'{"checksum":"0123')
    assert main(grid(out)) == 0
    same_results(out, whole)


def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path):
    """And rows of runs that go on are shown."""
    pytest.importorskip("loky")
    words = [w for w in grid(tmp_path / "r", "--seeds", "4000") if w != "-q"]
    child = bongref(*words, "--workers", "2")
    shown = []
    for line in child.stdout:
        shown.append(line)
        if line.startswith("[3/"):
            break
    family = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(child.pid)], capture_output=True, text=True, check=True
    )
    mine = [int(pid) for pid in family.stdout.split()]
    child.kill()
    child.communicate(timeout=30)
    assert len(mine) >= 2
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in mine) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in mine if Path(f"/proc/{pid}").exists()]
    assert any(line.startswith("    ") and "rmse" in line for line in shown)


# --- workers --------------------------------------------------------------------------------------


def matrix(n):
    task = tasks.load("linear", {"n": 30, "n_test": 20, "dim": 3})
    base = one_spec()
    return specs.matrix(task.source, task.facts, [base.method], {}, [base.settings], range(n))


def kill_once(marker):
    """A function for workers: the first call ends its process as kill -9 does."""

    def once(spec):
        import os

        from bongref.experiments.execute import execute

        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), 9)
        return execute(spec)

    return once


def test_processes_give_the_same_results_and_a_killed_one_is_replaced(tmp_path, whole):
    pytest.importorskip("loky")
    todo = matrix(6)
    want = records.digest(map(execute.execute, todo))
    with workers.pool(n_workers=2) as team:
        found = list(workers.gather(team, kill_once(str(tmp_path / "marker")), todo))
    results = [r for _, r in found if r is not None]
    assert (tmp_path / "marker").exists() and len(results) == 6
    assert records.digest(results) == want


def test_a_run_that_always_kills_its_worker_is_given_up_and_the_others_are_not(tmp_path):
    pytest.importorskip("loky")
    todo = matrix(3)

    def deadly(spec):
        import os

        if spec.seed == 1:
            os.kill(os.getpid(), 9)
        return {"id": spec.id}

    with workers.pool(n_workers=2) as team:
        found = {s.seed: r for s, r in workers.gather(team, deadly, todo) if r is not None}
    assert found[0] == {"id": todo[0].id} and found[2] == {"id": todo[2].id}
    assert isinstance(found[1], workers.WorkerDied)


def test_one_thread_in_each_worker():
    loky = pytest.importorskip("loky")
    del loky

    def threads(spec):
        import numpy  # noqa: F401
        from threadpoolctl import threadpool_info

        from bongref.fast.threads import available

        return [available(), *(pool["num_threads"] for pool in threadpool_info())]

    with workers.pool(n_workers=2) as team:
        assert set(team.submit(threads, one_spec()).result(timeout=120)) == {1}


@pytest.mark.filterwarnings("ignore")
def test_a_local_cluster_of_two_processes(tmp_path):
    """Runs under their ids; a worker that is killed in the middle loses and doubles nothing."""
    distributed = pytest.importorskip("distributed")
    todo = matrix(8)
    want = records.digest(map(execute.execute, todo))
    made = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        local_directory=str(tmp_path), silence_logs=50,
    )  # fmt: skip
    with made as cluster, workers.pool(scheduler=cluster.scheduler_address) as team:
        found = list(workers.gather(team, kill_once(str(tmp_path / "marker")), todo))
        keys = [spec.id for spec, r in found if r is not None]
    assert (tmp_path / "marker").exists() and sorted(keys) == sorted(s.id for s in todo)
    assert records.digest([r for _, r in found if r is not None]) == want


def test_a_scheduler_and_workers_as_processes_of_their_own(tmp_path, whole):
    """One of two workers is killed by -9 as soon as a result is there."""
    pytest.importorskip("distributed")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    quiet = {
        "env": env,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": tmp_path,
    }
    python = [sys.executable, "-m"]
    file, out = tmp_path / "scheduler.json", tmp_path / "r"
    started = [subprocess.Popen([*python, "distributed.cli.dask_scheduler", "--port", "0",
               "--no-dashboard", "--scheduler-file", str(file)], **quiet)]  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not (file.exists() and file.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        command = [*python, "distributed.cli.dask_worker", address, "--nthreads", "1",
                   "--no-nanny", "--no-dashboard"]  # fmt: skip
        started += [subprocess.Popen(command, **quiet) for _ in range(2)]
        child = bongref(*grid(out, "--scheduler", address))
        started.append(child)
        results = out / store.NAME
        while child.poll() is None and not (results.exists() and results.stat().st_size):
            time.sleep(0.002)
        started[1].kill()
        _, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
    finally:
        for process in started:
            process.kill()
            process.wait(timeout=30)
    same_results(out, whole)


def test_a_scheduler_that_is_not_there(tmp_path, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "CONNECT", 0.2)
    assert main(grid(tmp_path / "r", "--scheduler", "tcp://127.0.0.1:9")) == 2
    assert "scheduler must be the address of a running Dask scheduler" in capsys.readouterr().err


def test_without_loky_or_dask_it_is_said_what_to_install(monkeypatch):
    for name in ("loky", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'bongref\[experiments\]'"):
        workers.pool(n_workers=2)
    with pytest.raises(ImportError, match=r"pip install 'bongref\[experiments\]'"):
        workers.pool(scheduler="tcp://127.0.0.1:1")


def test_the_table_of_costs_is_that_of_the_results():
    from validation.bench import experiments

    path = experiments.RESULTS / "experiments.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    page = experiments.PAGE.read_text(encoding="utf-8")
    assert page.count("\n| ") == experiments.with_section(page, "").count("\n| ") + 5
    assert experiments.with_section(page, experiments.section(found)) == page


def test_numbers_of_the_table_fit_into_it():
    assert sweep._cell(np.array([1.0, 2.0])) == "1.5000 ± 0.5000"
    assert sweep._cell(np.array([1e70, 3e70])) == "2e+70 ± 1e+70"

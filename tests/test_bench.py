"""The benchmark's parts that time nothing: cells, the cost model, tables, JSON, the page."""

import importlib
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import bongref as br

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
NAMES = ("cells", "report", "sweep", "limits", "worker", "others", "__main__")
cells, report, sweep, limits, worker, others, main = (
    importlib.import_module(f"validation.bench.{name}") for name in NAMES
)

LIMITS = {
    "bandwidth": {
        "L2": {"bytes": 2**19, "GB/s": 100.0},
        "L3": {"bytes": 2**25, "GB/s": 60.0},
        "memory": {"bytes": None, "GB/s": 30.0},
    },
    "dgemm GFLOP/s": {"1 thread": 40.0, "all threads": 80.0},
    "normals ns": 10.0,
    "eigh us": {"11": 12.0, "110": 1000.0},
}


def document():
    """What a run of three cells writes: one faster than the peer, one slower, one that failed."""
    side = {"n": 10, "compile s": 1.5, "finite": True, "moved": 0.1, "peak": 10**8, "idle": 10**7}
    rows = {
        "bong-lin-hess-diag@mlp": {
            "ours": {**side, "us": 2.0, "clock": "stream"},
            "peer": {**side, "us": 8.0},
            "peer64": {**side, "us": 9.0},
        },
        "blr-mc-ef-dlr@cnn": {
            "ours": {**side, "us": 2000.0, "clock": "stream"},
            "peer": {**side, "us": 1000.0, "finite": False},
        },
        "bbb-lin-ef-fc@mlp": {"ours": {"error": "MemoryError: no"}, "peer": None},
    }
    settings = {"backend": "fast", "repeats": 5, "budget": 30.0, "quick": False}
    doc = {
        "complete": True,
        "settings": settings,
        "machine": {"cpu": "a", "cores": 2},
        "limits": LIMITS,
        "peer": {"versions": {"jax": "1"}},
    }
    trap = [{"what": "gram", "best ms": 1.0, "worst ms": 1.5}]
    first = [
        {
            "cell": "bong-lin-hess-fc@mlp",
            "what": "cold",
            "import s": 0.1,
            "first run s": 1.0,
            "second run s": 0.01,
            "process s": 1.2,
        }
    ]
    return doc | {"cells": rows, "trap": trap, "first": first}


def test_the_grid_has_96_cells_and_their_names_can_be_read():
    grid = cells.grid()
    assert len(grid) == len(set(grid)) == 96
    assert all(cells.parse(cell.id) == cell for cell in grid)
    assert [c.id for c in cells.select(["bong-*-ef-diag@mlp"])] == [
        "bong-lin-ef-diag@mlp",
        "bong-mc-ef-diag@mlp",
    ]
    assert not [c for c in grid if c.net == "cnn" and c.family.startswith("fc")]
    for cell in grid:
        br.method(
            cell.method, **cells.params(cell, 0.1)
        )  # the parameters are those that the method takes


@pytest.mark.parametrize(
    "text", ["bong-lin-hess-diag", "bong-lin-diag@mlp", "bong-lin-hess-diag@rnn", ""]
)
def test_a_name_that_is_no_cell_is_refused(text):
    with pytest.raises(ValueError, match="RULE-HESS-FAMILY@NETWORK"):
        cells.parse(text)


def test_a_glob_that_matches_nothing_is_refused(capsys):
    with pytest.raises(ValueError, match="none of the 96 cells"):
        cells.select(["nope*"])
    with pytest.raises(SystemExit):
        main.arguments(["--cells", "nope*"])
    assert "none of the 96 cells" in capsys.readouterr().err
    assert main.arguments(["--repeats", "1"]).repeats == 3


def test_both_orders_hold_the_same_parameters_and_the_networks_are_ours():
    for net, model in (
        ("mlp", br.models.mlp([21, 20, 20, 1], activation="gelu")),
        ("cnn", br.models.cnn()),
    ):
        net = cells.NETS[net]
        assert net.n_params == model.n_params and net.n_outputs == model.n_outputs
        ours, flax = cells.theta(net), cells.theta_flax(net)
        assert np.array_equal(np.sort(ours), np.sort(flax)) and not np.array_equal(ours, flax)
        assert [list(k) for k in net.kernels] == [
            list(p.shape) for p in model.layout if len(p.shape) > 1
        ]
    X, Y = cells.data(cells.NETS["cnn"], 3)
    assert X.shape == (3, 28, 28, 1) and Y.shape == (3, 10) and np.all(Y.sum(axis=1) == 1)
    assert np.array_equal(X[:2], cells.data(cells.NETS["cnn"], 2)[0])


def test_the_cost_model_counts_what_it_says():
    diag, dlr = (
        cells.cost(cells.parse("bong-lin-ef-diag@mlp")),
        cells.cost(cells.parse("blr-mc-ef-dlr@mlp")),
    )
    assert diag.bytes == 881 * (32 + 16) and diag.normals == 0 and diag.eigh == (0, 0)
    assert dlr.normals == 10 * 100 * 881 and dlr.eigh == (10, 120)
    assert cells.network_flops(cells.mlp(3, 2, 1)) == (2 * 8, 2 * (2 * 8 - 6))
    for cell in cells.grid():
        found = cells.bound(cells.cost(cell), LIMITS)
        assert found["us"] > 0 and math.isclose(found["sum us"], sum(found["all"].values()))
    assert cells.bound(diag, LIMITS)["kernel"] == "L2 bandwidth"
    assert cells.bound(cells.cost(cells.parse("bbb-mc-ef-fc@mlp")), LIMITS)["kernel"] == "GEMM"


def test_the_summary_names_the_least_ratio_and_what_is_slower():
    doc = report.derive(document())
    s = doc["summary"]
    assert (s["compared"], s["timed"], s["slower"], s["least"], s["least cell"]) == (
        2,
        2,
        1,
        0.5,
        "blr-mc-ef-dlr@cnn",
    )
    assert math.isclose(s["geometric mean"], math.sqrt(4 * 0.5))
    assert "1 (blr-mc-ef-dlr@cnn) are slower" in report.sentence(doc)
    reached = {(row[0], row[1]): row[2:] for row in report.aims(doc)[1]}
    assert reached["float32", "at most 2 cells below 1"] == ["1", "yes, 2 cells so far"]
    assert reached["float32", "no cell below 0.9"] == ["0.500", "no, 2 cells so far"]
    assert reached["float64", "no cell below 1"] == ["4.50", "yes, 1 cells so far"]
    double = doc["summary64"]
    assert (double["compared"], double["least"], double["close cells"]) == (1, 4.5, [])
    assert "peer in float64: it takes 4.50 times" in report.sentence(doc)
    text = report.text(doc)
    assert "MemoryError" in text and "peer: not finite" in text
    assert len({row.index("ours µs") for row in text.splitlines() if "ours µs" in row}) == 1


def test_json_is_whole_has_no_nan_and_comes_back(tmp_path):
    doc = report.derive(document())
    doc["x"] = [float("nan"), 1 / 3, (1, 2)]
    report.save(tmp_path / "deep" / "bench.json", doc)
    back = report.load(tmp_path / "deep" / "bench.json")
    assert back["x"] == [None, 0.333333, [1, 2]] and back["summary"]["compared"] == 2
    assert [f.name for f in (tmp_path / "deep").iterdir()] == ["bench.json"]


def test_page_and_figures_are_made_from_the_json_alone(tmp_path):
    pytest.importorskip("matplotlib")
    doc = report.derive(document())
    points = [
        {"P": P, "us": P / 10, "n": 1, "repeats": 3, "grown": 8 * P}
        for P in (100, 10_000, 1_000_000)
    ]
    curves = {
        "bong-lin-hess-diag": {
            "family": "diag",
            "points": points,
            "exponent": sweep.exponent(points),
            "memory ratio": None,
        }
    }
    swept = {"curves": curves}
    assert math.isclose(curves["bong-lin-hess-diag"]["exponent"], 1)
    (tmp_path / "bench.json").write_text(json.dumps(doc))
    (tmp_path / "sweep.json").write_text(json.dumps(swept))
    assert main.main(["--page-only", "--out", str(tmp_path), "--docs", str(tmp_path)]) == 0
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "`blr-mc-ef-dlr`" in page and "1,000,000" in page and "the least ratio is 0.500" in page
    for name in ("bench.png", "bench-sweep.png"):
        assert (tmp_path / "figures" / name).stat().st_size > 5000


def test_numbers_are_short():
    texts = [report.number(v) for v in (None, 0, 1234567.0, 999.6, 12.34, 0.012345)]
    assert texts == ["–", "0", "1,230,000", "1,000", "12.3", "0.0123"]


def test_of_two_measurements_of_the_limits_the_better_counts():
    other = json.loads(json.dumps(LIMITS))
    other["bandwidth"]["L2"]["GB/s"], other["normals ns"], other["eigh us"]["11"] = 120.0, 12.0, 9.0
    found = limits.better(LIMITS, other)
    assert (found["bandwidth"]["L2"]["GB/s"], found["normals ns"], found["eigh us"]["11"]) == (
        120.0,
        10.0,
        9.0,
    )
    assert found["bandwidth"]["memory"] == LIMITS["bandwidth"]["memory"]


def test_missing_cells_are_those_without_a_time():
    done = {"ours": {"us": 1.0}, "peer": None}
    assert main.missing(None, ()) and main.missing(done, ("peer",)) and not main.missing(done, ())
    assert main.missing({"ours": {"error": "x"}, "peer": {"us": 1.0}}, ("peer",))
    both = {"ours": {"us": 1.0}, "peer": {"us": 1.0}}
    assert not main.missing(both, ("peer",)) and main.missing(both, ("peer", "peer64"))
    late = {**both, "peer64": {"error": "no answer within 30 s", "at least us": 3e7}}
    assert not main.missing(late, ("peer", "peer64"))


def test_an_observation_that_takes_too_long_is_a_lower_bound():
    class Slow:
        """A worker whose process is too slow for one of the requests."""

        def __init__(self, slow):
            self.slow = slow

        def ask(self, do, timeout=None, **request):
            return {"error": "Late", "late": True} if do == self.slow else {"seconds": 1.0}

    assert main.observed(Slow("once"), {}, 30.0)["at least us"] == 3e7
    found = main.observed(Slow("load"), {}, 30.0)
    assert "compiling" in found["error"] and "at least us" not in found
    assert main.observed(Slow("none"), {}, 30.0) == {"seconds": 1.0}

    doc = document()
    doc["cells"]["blr-mc-ef-dlr@cnn"]["peer64"] = {"error": "Late", "at least us": 3e7}
    report.derive(doc)
    row = report.line("blr-mc-ef-dlr@cnn", doc["cells"]["blr-mc-ef-dlr@cnn"])
    assert row[4:6] == ["≥ 30,000,000", "≥ 15,000"]
    assert doc["summary64"]["compared"] == 1 and doc["summary64"]["bounds"] == 1
    assert "1 more, with ≥ in the table" in report.sentence(doc)


def test_a_worker_that_does_not_answer_in_time_is_late():
    side = worker.Worker(sys.executable, "validation.bench.ours", "--backend", "reference")
    assert side.ask("hello", timeout=0.0)["late"] and side.process is None


def test_a_worker_answers_and_names_errors_without_folders():
    side = worker.Worker(
        sys.executable, "validation.bench.ours", "--backend", "reference", timeout=60
    )
    try:
        assert "numpy" in side.ask("hello")["versions"]
        assert (
            "RULE-HESS-FAMILY@NETWORK"
            in side.ask("prepare", cell="x", var=1.0, alpha=None, target=0.01, most=2)["error"]
        )
    finally:
        side.close()
    assert (
        worker.Worker("/no/python", "validation.bench.ours")
        .ask("hello")["error"]
        .startswith("FileNotFoundError")
    )
    assert worker.short(OSError("no file '/a/b' here")) == "OSError: no file … here"
    assert worker.how_many(4.0, 0.3, 100) == 1 and worker.how_many(1e-6, 0.3, 100) == 100


# --- other implementations ------------------------------------------------------------------------


class Fake:
    """A worker of a package, or of ours: it answers what it was made with, and remembers what it
    was asked.
    """

    def __init__(self, us=10.0, mean=None, **answers):
        side = {"n": 10, "compile s": 0.5, "finite": True, "moved": 0.1}
        self.answers = {
            "hello": {"versions": {"a": "1"}},
            "prepare": side,
            "time": {"seconds": us * 1e-5, "whole": us * 1e-5},
            "done": {"peak": 10**8, "idle": 10**7},
            "mean": {"mean": mean},
        } | answers
        self.asked = []

    def ask(self, do, **request):
        self.asked.append(do)
        return self.answers[do]

    def close(self):
        self.asked.append("close")


@pytest.fixture
def filled(monkeypatch):
    """fill_others with these ways and workers: (document, what was said)."""
    moved = cells.theta(cells.NETS["mlp"]) + 0.01

    def fill(sides, doc=None):
        ways = [
            others.Way(name, "bong-lin-hess-diag@mlp", "call", "float32", None, ())
            for name in sides
        ]
        said, kept = [], []
        monkeypatch.setattr(others, "WAYS", tuple(ways))
        monkeypatch.setattr(main, "other", lambda number, args: sides[ways[number].peer])
        monkeypatch.setattr(main, "Worker", lambda *args, **more: Fake(2.0, moved.tolist()))
        monkeypatch.setattr(main, "say", said.append)
        args = main.arguments(["--cells", "bong-lin-hess-diag@mlp"])
        args.stderr = None
        doc = document() if doc is None else doc
        main.fill_others(doc, args, lambda: kept.append(json.dumps(report.rounded(doc))))
        return report.derive(doc), said, kept

    fill.moved = moved
    return fill


def test_other_implementations_get_rows_and_what_fails_is_said(filled):
    sides = {
        "same": Fake(8.0, (filled.moved * (1 + 1e-8)).tolist()),
        "off": Fake(1.0, (filled.moved + 1e-3).tolist()),
        "broken": Fake(prepare={"error": "ValueError: no"}),
        "gone": Fake(hello={"error": "ModuleNotFoundError: No module named 'gone'"}),
        "mute": Fake(hello={"error": "Lost: the process ended with code 1"}),
    }
    doc, said, kept = filled(sides)
    rows = {row["peer name"]: row for row in doc["others"]}
    assert list(rows) == ["same", "off", "broken", "mute"] and len(kept) == 4
    assert (
        math.isclose(rows["same"]["ratio"], 4.0)
        and rows["same"]["agrees"]
        and 0 < rows["same"]["difference"] < 1e-5
    )
    assert rows["off"]["ratio"] is None and math.isclose(
        rows["off"]["difference"], 0.1, rel_tol=1e-6
    )
    assert "gone is not timed: ModuleNotFoundError: No module named 'gone'" in said
    assert all(side.asked[-1] == "close" for side in sides.values())
    text = report.text(doc)
    assert (
        "call; the means differ" in text
        and "peer: ValueError: no" in text
        and "call; Lost: the process ended" in text
    )
    assert doc["summary"] == report.derive(document())["summary"]


def test_rows_of_other_implementations_are_kept_and_those_without_times_are_timed_again(filled):
    doc, _, _ = filled(
        {
            "same": Fake(8.0, filled.moved.tolist()),
            "broken": Fake(prepare={"error": "ValueError: no"}),
        }
    )
    again = {"same": Fake(1.0, filled.moved.tolist()), "broken": Fake(6.0, filled.moved.tolist())}
    doc, _, _ = filled(again, doc)
    assert not again["same"].asked and [round(row["ratio"], 6) for row in doc["others"]] == [
        4.0,
        3.0,
    ]


def test_resume_keeps_other_implementations_and_the_page_has_them(tmp_path, monkeypatch, filled):
    pytest.importorskip("matplotlib")
    doc, _, _ = filled({"same": Fake(8.0, filled.moved.tolist())})
    report.save(tmp_path / "bench.json", doc)
    monkeypatch.setattr(
        main, "printed_by", lambda *args: {"machine": doc["machine"], "limits": LIMITS}
    )
    resumed = main.start(main.arguments(["--resume", "--out", str(tmp_path)]), {})
    assert resumed["others"] == report.rounded(doc["others"])
    page = report.page(doc)
    at = [
        page.index(part)
        for part in ("## CNN of the paper", "## Other implementations", "## The first result")
    ]
    assert (
        at == sorted(at)
        and "| `bong-lin-hess-diag@mlp` | same | 2.00 | 8.00 | 4.00 | float32 |" in page
        and "Versions: a 1." in page
    )
    assert "Other implementations" not in report.page(report.derive(document()))


def test_a_side_runs_a_way_and_the_network_is_described_as_ours():
    def make(problem):
        return lambda n: (lambda: (problem.prior["mu"] + n, 0.2 * n), 0.25)

    side = others.Other(others.Way("fake", "bong-lin-hess-dlr@mlp", "call", "float64", make, ()))
    found = side.prepare("bong-lin-hess-dlr@mlp", var=0.1, alpha=None, target=1.0, most=50)
    assert (
        found["n"] == 5
        and found["compile s"] == 0.25
        and found["finite"]
        and math.isclose(found["moved"], math.sqrt(881))
    )
    assert (
        np.allclose(side.mean()["mean"], cells.theta(cells.NETS["mlp"]) + 1)
        and side.time()["seconds"] == 1.0
    )
    for name, model in (
        ("mlp", br.models.mlp([21, 20, 20, 1], activation="gelu")),
        ("cnn", br.models.cnn()),
    ):
        described = others.neutral(cells.NETS[name])
        assert described["layout"] == model.spec["layout"] and described["in_shape"] == list(
            model.in_shape
        )


def test_what_filterpy_is_given_is_the_output_and_the_jacobian_of_our_model():
    net, model = cells.NETS["mlp"], br.models.mlp([21, 20, 20, 1], activation="gelu")
    X, _ = cells.data(net, 1)
    yhat, H = others.linearised(others.neutral(net), cells.theta(net), X[0])
    assert np.allclose(yhat, model(cells.theta(net), X[0]), rtol=1e-13, atol=1e-15)
    assert np.allclose(H, model.jac(cells.theta(net), X[0]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "number", range(len(others.WAYS)), ids=["-".join(way.key[:2]) for way in others.WAYS]
)
def test_an_installed_package_has_our_mean_after_one_observation(number):
    way = others.WAYS[number]
    theirs = worker.Worker(sys.executable, "validation.bench.others", str(number), timeout=300)
    ours = worker.Worker(
        sys.executable, "validation.bench.ours", "--backend", "reference", timeout=300
    )
    try:
        if theirs.ask("hello").get("error", "").startswith(("ImportError", "ModuleNotFoundError")):
            pytest.skip(f"{way.peer} is not installed")
        for side in (theirs, ours):
            assert "error" not in side.ask(
                "prepare", cell=way.cell, var=0.01, alpha=None, target=0.0, most=1
            )
        assert others.difference(way, ours.ask("mean"), theirs.ask("mean"))["agrees"]
    finally:
        theirs.close()
        ours.close()

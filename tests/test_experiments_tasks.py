"""Tasks: splits, standardisation, files of users and publishers, downloads, and what is refused."""

import functools
import gzip
import hashlib
import http.server
import json
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

import bongref as br
from bongref.errors import InvalidValue
from bongref.experiments import tasks
from bongref.experiments.data import download, files, generated, published


@pytest.mark.filterwarnings("ignore::bongref.errors.Diverging")  # sixty steps are few
@pytest.mark.parametrize("name", generated.GENERATORS)
def test_generated_tasks_repeat_and_fit_their_model(name):
    a, b = (tasks.load(name, {"n": 60, "n_test": 30}) for _ in range(2))
    assert a.facts == b.facts and np.array_equal(a.X, b.X)
    other = tasks.load(name, {"n": 60, "n_test": 30, "data_seed": 1})
    assert other.facts["checksum"] != a.facts["checksum"]
    model, lik = a.model(), a.likelihood()
    X, Y = a.stream(0)
    m = br.method("bong-lin-hess-diag")
    mu = model.init(np.random.default_rng(0))
    prior = m.prior(mu, a.prior_variances())
    result = br.run(m, model, lik, prior, X, Y, metrics=br.metrics.on(a.X_test, a.Y_test, "nlpd"),
                    backend="reference")  # fmt: skip
    assert np.isfinite(result.rows[0]["nlpd"])
    json.dumps(a.facts)


def test_the_seed_orders_the_stream_and_nothing_else():
    task = tasks.load("moons", {"n": 50, "n_test": 20})
    (X0, Y0), (X1, Y1) = task.stream(0), task.stream(1)
    assert not np.array_equal(X0, X1)
    assert np.array_equal(np.sort(X0[:, 0]), np.sort(X1[:, 0])) and Y0.sum() == Y1.sum()
    assert np.array_equal(task.stream(0, 10)[0], X0[:10])
    drift = tasks.load("drift", {"n": 50})
    assert np.array_equal(drift.stream(3)[0], drift.X)  # its order means something


def write(path, names, rows):
    path.write_text("\n".join([",".join(names), *(",".join(map(str, r)) for r in rows)]) + "\n")
    return str(path)


def numbers(tmp_path, n=50):
    rng = np.random.default_rng(0)
    table = np.c_[rng.normal(5, 3, (n, 2)), np.zeros(n)]
    table[:, 2] = table[:, 0] - 2 * table[:, 1] + 0.1 * rng.standard_normal(n)
    return table, write(tmp_path / "own.csv", ["a", "b", "y"], table.tolist())


def test_standardisation_is_of_the_training_part_alone(tmp_path):
    """By hand: the last rows are the test part, and their values do not enter the units."""
    table, path = numbers(tmp_path)
    task = tasks.load(path, {"target": "y", "order": "given", "test": 10})
    train, test = table[:40], table[40:]
    for got, want, column in ((task.X, train, slice(2)), (task.X_test, test, slice(2))):
        scaled = (want[:, column] - train[:, column].mean(0)) / train[:, column].std(0)
        np.testing.assert_allclose(got, scaled, rtol=1e-12, atol=1e-12)
    units = task.facts["standardisation"]["Y"]
    np.testing.assert_allclose(task.Y_test * units["std"] + units["mean"], test[:, 2], rtol=1e-12)
    assert task.facts["split"] == {"test": "the last 10 rows"}
    far = table.copy()
    far[45] = 1e6
    other = write(tmp_path / "far.csv", ["a", "b", "y"], far.tolist())
    same = tasks.load(other, {"target": "y", "order": "given", "test": 10})
    assert np.array_equal(same.X, task.X)


def test_the_validation_part_is_of_the_training_rows(tmp_path):
    """No row of the test part is among them, and the split of the test part is the same."""
    table, path = numbers(tmp_path)
    test, valid = (tasks.load(path, {"target": "y"}, part) for part in ("test", "valid"))
    raw_of = lambda t, Y: np.round(
        Y * t.facts["standardisation"]["Y"]["std"] + t.facts["standardisation"]["Y"]["mean"], 9
    )
    held_out = set(raw_of(test, test.Y_test))
    rest = set(raw_of(valid, valid.Y)) | set(raw_of(valid, valid.Y_test))
    assert len(held_out) == 10 and len(valid.Y_test) == 8 and not held_out & rest
    assert held_out | rest == set(np.round(table[:, 2], 9))
    assert len(valid.Y) == 32 and not set(valid.Y) & set(valid.Y_test)
    assert test.facts["checksum"] != valid.facts["checksum"]


def test_the_kind_follows_from_the_target(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    for values, kind, classes in (
        (rng.standard_normal(40), "regression", []),
        (np.where(x > 0, "yes", "no"), "binary", ["no", "yes"]),
        (np.arange(40) % 2 + 3, "binary", ["3", "4"]),
        (np.arange(40) % 4, "classes", ["0", "1", "2", "3"]),
        (np.arange(40), "regression", []),
    ):
        path = write(tmp_path / "k.csv", ["x", "y"], zip(x, values, strict=True))
        task = tasks.load(path, {"target": "y"})
        assert (task.facts["kind"], task.facts["classes"]) == (kind, classes)
    path = write(tmp_path / "k.csv", ["x", "y"], zip(x, np.arange(40) % 4, strict=True))
    assert tasks.load(path, {"target": "y", "kind": "regression"}).facts["kind"] == "regression"


@pytest.mark.filterwarnings("ignore::bongref.errors.Diverging")
def test_a_class_that_is_absent_from_the_first_rows_is_known_from_the_start(tmp_path):
    """The classes are those of the whole file, so that a stream may bring one late."""
    Y = ["a"] * 20 + ["b"] * 20 + ["c"] * 20
    rows = zip(np.random.default_rng(0).standard_normal(60), Y, strict=True)
    path = write(tmp_path / "late.csv", ["x", "y"], rows)
    task = tasks.load(path, {"target": "y", "order": "given", "test": 10})
    assert task.facts["n_outputs"] == 3 and set(task.Y[:40]) == {0.0, 1.0}
    m, model = br.method("bong-lin-hess-diag"), task.model()
    prior = m.prior(model.init(0), task.prior_variances())
    test = br.metrics.on(task.X_test, task.Y_test, "error")
    out = br.run(m, model, task.likelihood(), prior, task.X, task.Y, metrics=test,
                 backend="reference")  # fmt: skip
    assert out.t == 50


def test_the_same_table_as_csv_parquet_and_npz(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table, path = numbers(tmp_path)
    with gzip.open(tmp_path / "own.csv.gz", "wt") as file:
        file.write(Path(path).read_text())
    columns = dict(zip("aby", table.T, strict=True))
    pq.write_table(pa.table(columns), tmp_path / "own.parquet")
    np.savez(tmp_path / "own.npz", **columns)
    np.savez(tmp_path / "wide.npz", X=table[:, :2], y=table[:, 2])
    sums = {
        tasks.load(str(tmp_path / f), {"target": "y"}).facts["checksum"]
        for f in ("own.csv", "own.csv.gz", "own.parquet", "own.npz", "wide.npz")
    }
    assert len(sums) == 1


def test_the_data_do_not_depend_on_the_number_of_threads():
    """A process with all threads and a worker with one make the same numbers, bit for bit."""
    from threadpoolctl import threadpool_limits

    found = set()
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            task = tasks.load("teacher", {"n": 2000, "n_test": 500, "dim": 21, "hidden": 20})
            found.add(task.facts["checksum"])
    assert len(found) == 1


ODD = {
    "decimal commas": (
        "x;y\n" + "".join(f"{k},5;{k}\n" for k in range(30)),
        r"column 'x' of t.csv must be numbers, got numbers with commas such as '0,5'; write",
    ),
    "few decimal commas": (
        "x;y\n" + "".join(f"{k % 2},5;{k}\n" for k in range(30)),
        "numbers with commas",
    ),
    "target with commas": (
        "x;y\n" + "".join(f"{k};{k},5\n" for k in range(30)),
        "target must be numbers or classes, got column 'y' with numbers with commas",
    ),
    "one word": (
        "x,y\n" + "".join(f"{k},{k}.5\n" for k in range(30)) + "oops,1\n",
        "column 'x' of t.csv must be numbers, got 1 of 31 values that are not numbers, "
        "the first 'oops' in row 31",
    ),
    "a word in the target": (
        "x,y\n" + "".join(f"{k},{k}.5\n" for k in range(30)) + "1,oops\n",
        "column 'y' with 1 of 31 values that are not numbers",
    ),
    "large classes": (
        "x,y\n" + "".join(f"{k},{2**53 + k % 2}\n" for k in range(30)),
        r"classes that differ in float64, got numbers from 2\*\*53 on in column 'y'",
    ),
    "an input that overflows": (
        "x,y\n" + "".join(f"{(-1) ** k}e200,{k}.5\n" for k in range(30)),
        r"an input must have squares within the range of float64, got numbers up to 1e\+200 \(x\)",
    ),
    "a target that vanishes": (
        "x,y\n" + "".join(f"{k},{k}e-200\n" for k in range(30)),
        "the target must have squares within the range of float64, got numbers up to 2.9e-199",
    ),
    "a field that is too long": (
        "x,y\n" + "".join(f"{k},{k}.5\n" for k in range(30)) + "1," + "9" * 200_000,
        "cannot be read .field larger than field limit",
    ),
    "unnamed column": (
        ",y\n" + "".join(f"{k * k},{k}.5\n" for k in range(30)),
        "a name for every column, got none for column 1",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_numbers_that_are_none_are_named(what, tmp_path):
    text, told = ODD[what]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidValue, match=told):
        tasks.load(str(tmp_path / "t.csv"), {"target": "y"})


INDEX = {  # name of the column, its numbers
    "from 0": ("", range(30)),
    "from 1": ("", range(1, 31)),
    "shuffled": ("", np.random.default_rng(0).permutation(30)),
    "of pandas": ("Unnamed: 0", range(30)),
    "of pandas, shuffled, with gaps": ("Unnamed: 0", 3 * np.random.default_rng(0).permutation(30)),
}


@pytest.mark.parametrize("what", INDEX)
def test_an_index_is_no_input(what, tmp_path):
    """A column that counts the rows, as tables are often written; with a name it stays."""
    name, numbers = INDEX[what]
    for head, columns in ((name, ["x"]), ("id", ["id", "x"])):
        rows = "".join(f"{n},{k % 7},{k}.5\n" for k, n in enumerate(numbers))
        (tmp_path / "t.csv").write_text(f"{head},x,y\n{rows}")
        assert tasks.load(str(tmp_path / "t.csv"), {"target": "y"}).facts["features"] == columns


def test_the_index_of_a_shuffled_data_frame_in_parquet_is_no_input(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    x = np.random.default_rng(0).standard_normal(30)
    table = {"x": x, "y": x + 0.5, "__index_level_0__": np.random.default_rng(1).permutation(30)}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    assert tasks.load(str(tmp_path / "t.parquet"), {"target": "y"}).facts["features"] == ["x"]
    twice = pa.Table.from_arrays([pa.array(x)] * 3, names=["x", "x", "y"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(InvalidValue, match="different names of columns, got 'x' twice"):
        tasks.load(str(tmp_path / "t.parquet"), {"target": "y"})


LAYOUTS = {
    "quoted delimiters in a name": ('"a;b;c",x,y\n', ",", "\n"),
    "columns aligned by spaces": ("\n a  x   y\n", "   ", "\n"),
    "blank lines first": ("\n\na,x,y\n", ",", "\n"),
    "ends of lines of old Macs": ("a,x,y\r", ",", "\r"),
    "byte order mark": ("\ufeffa,x,y\n", ",", "\r\n"),
}


@pytest.mark.parametrize("what", LAYOUTS)
def test_layouts_of_text(what, tmp_path):
    head, mark, end = LAYOUTS[what]
    rows = [(k, (k * 7) % 11, k + 0.5) for k in range(20)]
    text = head + "".join(mark.join(map(str, row)) + end for row in rows)
    (tmp_path / "t.csv").write_bytes(text.encode())
    columns = files.read(str(tmp_path / "t.csv"))
    assert next(iter(columns))[0] == "a" and list(columns)[1:] == ["x", "y"]
    np.testing.assert_array_equal(np.column_stack(list(columns.values())), rows)


def test_arrays_that_are_no_table_are_named(tmp_path):
    path, x = tmp_path / "t.npz", np.arange(6.0)
    np.savez(path, X=np.c_[x, x], X0=x, y=x)
    with pytest.raises(InvalidValue, match="different names of columns, got 'X0' twice"):
        files.read(str(path))
    np.savez(path, X=np.zeros((0, 2)))
    with pytest.raises(InvalidValue, match="it is empty"):
        files.read(str(path))
    with open(path, "wb") as file:
        np.save(file, x)
    with pytest.raises(InvalidValue, match=r"single array.*use np\.savez"):
        files.read(str(path))
    np.savez(path, x=x, y=np.array(["no", "yes"] * 3, dtype=object))
    with pytest.raises(InvalidValue, match=r"'y' holds Python objects; save text as np\.array"):
        files.read(str(path))
    np.savez(path, x=x, y=np.array([b"no", b"yes"] * 3))
    assert tasks.load(str(path), {"target": "y"}).facts["classes"] == ["no", "yes"]


def test_an_input_in_tiny_units_is_no_constant(tmp_path):
    """Capacities in farads: as in picofarads, up to rounding; a constant stays a constant."""
    found = []
    for unit in ("", "e-13"):
        rows = [[f"{(k * 7) % 11}{unit}", f"0.1{unit}", k + 0.5] for k in range(20)]
        path = write(tmp_path / "t.csv", ["x", "c", "y"], rows)
        found.append(tasks.load(path, {"target": "y"}).X)
    np.testing.assert_allclose(found[1][:, 0], found[0][:, 0], rtol=1e-13, atol=1e-14)
    assert found[0][:, 0].std() == pytest.approx(1) and abs(found[1][:, 1]).max() < 1e-12


def test_text_in_another_encoding_says_so(tmp_path):
    (tmp_path / "t.csv").write_bytes("x,y\nKöln,1\n".encode("latin-1"))
    with pytest.raises(InvalidValue, match=r"must be UTF-8 text, got the byte 0xf6 at position 5"):
        tasks.load(str(tmp_path / "t.csv"), {"target": "y"})


def test_text_columns_and_rows_without_names(tmp_path):
    rows = [[k, "ab"[k % 2], k * 0.5 + (k % 2)] for k in range(30)]
    task = tasks.load(write(tmp_path / "t.csv", ["k", "word", "y"], rows), {"target": "y"})
    assert task.facts["features"] == ["k", "word=a", "word=b"] and task.X.shape == (24, 3)
    path = tmp_path / "bare.csv"
    path.write_text("".join(f"{k};{k % 7}.5\n" for k in range(30)))
    assert tasks.load(str(path), {"target": 1}).facts["features"] == ["0"]


GOOD = [[k, (k * 7) % 11 + 0.5] for k in range(20)]
BAD = {
    "unknown column": (GOOD, {"target": "z"},
     "target must be a column of t.csv, which has x, y, got 'z'"),
    "near miss": (GOOD, {"target": "Y"}, "did you mean 'y'"),
    "no target": (GOOD, {}, "got none; e.g. --target y"),
    "missing value": ([*GOOD, ["", 1.5]], {"target": "y"},
     "1 missing or infinite value.*row 21, column 'x'.*missing=drop"),
    "missing target": ([*GOOD, [3, "NA"]], {"target": "y"}, "row 21, column 'y'"),
    "infinite": ([*GOOD, [3, "inf"]], {"target": "y"}, "row 21, column 'y'"),
    "constant target": ([[k, 3] for k in range(20)], {"target": "y"}, "target must vary"),
    "constant number": ([[k, 3.5] for k in range(20)], {"target": "y"}, "target must vary"),
    "short row": ([*GOOD, [3]], {"target": "y"}, "2 values in every row.*got 1 in row 21"),
    "unknown parameter": (GOOD, {"target": "y", "sede": 1}, "t.csv takes .*got 'sede'"),
    "text": ([[f"w{k}", k + 0.5] for k in range(30)], {"target": "y"},
     "at most 20 values, got 30.*drop=x"),
    "test share": (GOOD, {"target": "y", "test": 50}, "test must be a share"),
    "part of a row": (GOOD, {"target": "y", "test": 1.5}, "test must be a share"),
    "drop": (GOOD, {"target": "y", "drop": "q"}, "drop must be a column"),
    "nothing left": (GOOD, {"target": "y", "drop": "x"}, "columns besides the target"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_in_a_file_is_named(case, tmp_path):
    rows, params, message = BAD[case]
    with pytest.raises(InvalidValue, match=message):
        tasks.load(write(tmp_path / "t.csv", ["x", "y"], rows), params)


def test_a_class_that_the_training_rows_have_alone_is_named(tmp_path):
    rows = [[k, "no" if k < 25 else "yes"] for k in range(30)]
    path = write(tmp_path / "t.csv", ["x", "y"], rows)
    with pytest.raises(InvalidValue, match=r"all 24 training rows of .* the same class \(no\)"):
        tasks.load(path, {"target": "y", "order": "given"})


def test_rows_with_missing_values_are_left_out_when_asked(tmp_path):
    path = write(tmp_path / "t.csv", ["x", "y"], [*GOOD, ["", 1.5]])
    task = tasks.load(path, {"target": "y", "missing": "drop"})
    assert task.facts["rows_dropped"] == 1 and task.facts["n_train"] + task.facts["n_test"] == 20


def test_unknown_tasks_and_files():
    with pytest.raises(InvalidValue, match="did you mean 'moons'"):
        tasks.load("mons")
    with pytest.raises(InvalidValue, match=r"there is no file 'nothing.csv'"):
        tasks.load("nothing.csv", {"target": "y"})
    with pytest.raises(InvalidValue, match=r"linear takes n, n_test.*got 'hiden'"):
        tasks.load("linear", {"hiden": 3})
    with pytest.raises(InvalidValue, match="obs_var must be > 0, got -1"):
        tasks.load("linear", {"obs_var": -1})
    with pytest.raises(InvalidValue, match=r"obs_var must be > 0, and linear has 0.0; use --set"):
        tasks.load("linear", {"noise": 0.0})
    assert tasks.load("linear", {"noise": 0.0, "obs_var": 0.01}).facts["obs_var"] == 0.01


def test_the_noise_is_estimated_from_the_training_part():
    """Smooth functions: within a factor of two of the truth; never below 1 % of Var(y)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1500, 2))
    f = np.sin(2 * X[:, 0]) * X[:, 1]
    for std in (0.2, 0.5):
        found = tasks.noise_variance(X, f + std * rng.standard_normal(1500))
        assert 0.7 * std**2 < found < 2 * std**2
    assert tasks.noise_variance(X, X[:, 0]) == 0.01 * X[:, 0].var()


# --- files of publishers --------------------------------------------------------------------------


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture
def known(monkeypatch):
    """A catalogue of ours, so that small files have right checksums."""
    catalogue = json.loads(json.dumps(published.catalogue()))
    monkeypatch.setattr(published, "catalogue", lambda: catalogue)
    return catalogue


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_from_idx_files(tmp_path, known, packed):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (20, 28, 28)), np.arange(20) % 10,
              rng.integers(0, 256, (6, 28, 28)), np.arange(6)]  # fmt: skip
    (tmp_path / "mnist").mkdir()
    for file, array in zip(known["mnist"]["files"], arrays, strict=True):
        content = idx(array)
        file["sha256"] = hashlib.sha256(content).hexdigest()
        name = tmp_path / (file["path"] if packed else file["path"].removesuffix(".gz"))
        name.write_bytes(gzip.compress(content) if packed else content)
    task = tasks.load("mnist", data=tmp_path)
    X, Y = task.stream(0)
    assert X.shape == (20, 28, 28, 1) and task.model().n_params == 57722
    np.testing.assert_allclose(task.X_test[2, ..., 0], arrays[2][2] / 255, rtol=1e-15)
    images = {
        (image.tobytes(), label) for image, label in zip(arrays[0] / 255.0, arrays[1], strict=True)
    }
    assert {
        ((x[..., 0]).tobytes(), int(y)) for x, y in zip(np.round(X * 255) / 255.0, Y, strict=True)
    } == images
    assert tasks.load("mnist", {"model": "mlp", "max_test": 2}, data=tmp_path).X_test.shape == (
        2,
        784,
    )
    first = known["mnist"]["files"][0]
    (tmp_path / first["path"].removesuffix("" if packed else ".gz")).write_bytes(b"\x1f\x8b123")
    with pytest.raises(
        InvalidValue, match=r"cannot be read|damaged or another file.*bongref data get mnist"
    ):
        tasks.load("mnist", data=tmp_path)


def test_sarcos_and_its_test_rows_have_different_names(tmp_path, known):
    rng = np.random.default_rng(0)
    (tmp_path / "sarcos").mkdir()
    parts = {"sarcos_inv": rng.normal(size=(40, 28)), "sarcos_inv_test": rng.normal(size=(20, 28))}
    for file in known["sarcos"]["files"]:
        path = tmp_path / file["path"]
        savemat(path, {path.stem: parts[path.stem]})
        file["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    task = tasks.load("sarcos", {"torque": 2}, data=tmp_path)
    assert (len(task.X), len(task.X_test), task.model().n_params) == (40, 20, 881)
    units = task.facts["standardisation"]["Y"]
    assert units["mean"] == pytest.approx(parts["sarcos_inv"][:, 22].mean(), rel=1e-12)
    assert task.facts["obs_var"] == 0.1 and task.facts["prior"] == "equal"
    small = tasks.load("sarcos-4449", data=tmp_path)
    assert len(small.X) + len(small.X_test) == 20 and small.facts["name"] == "sarcos-4449"
    (tmp_path / "sarcos/sarcos_inv.mat").unlink()
    with pytest.raises(
        InvalidValue, match=r"sarcos needs the file .*sarcos_inv.mat.*data get sarcos"
    ):
        tasks.load("sarcos", data=tmp_path)


def test_uci_sets_with_published_masks_and_as_their_publishers_ship_them(tmp_path, known):
    (tmp_path / "uci" / "wine").mkdir(parents=True)
    table = np.random.default_rng(0).normal(size=(20, 4))
    mask = np.zeros((20, 10), int)
    mask[np.arange(20), np.arange(20) % 10] = 1
    for file, array in zip(known["uci-wine"]["files"], (table, mask), strict=True):
        text = "\n".join(",".join(map(str, row)) for row in array.tolist())
        file["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        (tmp_path / file["path"]).write_bytes(gzip.compress(text.encode()))
    task = tasks.load("uci-wine", {"split": 3}, data=tmp_path)
    units = task.facts["standardisation"]["Y"]
    np.testing.assert_allclose(
        task.Y_test * units["std"] + units["mean"], table[[3, 13], 3], rtol=1e-12
    )
    (tmp_path / "uci/wine/data.csv.gz").unlink()
    names = '"a";"b";"c";"quality"\n'
    rows = "\n".join(";".join(map(str, row)) for row in table.tolist())
    (tmp_path / "uci/wine/winequality-red.csv").write_text(names + rows)
    other = tasks.load("uci-wine", data=tmp_path)
    assert other.X.shape[1] == 3 and "random" in other.facts["split"]["test"]


def test_where_the_files_belong_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("BONGREF_DATA", raising=False)
    with pytest.raises(
        InvalidValue, match="--data FOLDER or the environment variable BONGREF_DATA"
    ):
        tasks.load("mnist")
    with pytest.raises(InvalidValue, match="there is no '/nowhere'"):
        tasks.load("mnist", data="/nowhere")
    with pytest.raises(InvalidValue, match=r"mnist/train-images-idx3-ubyte.gz, which is not there"):
        tasks.load("mnist", data=tmp_path)


def test_sklearn_tasks():
    pytest.importorskip("sklearn")
    digits, diabetes = tasks.load("digits"), tasks.load("diabetes")
    assert digits.facts["n_outputs"] == 10 and digits.X.max() == 1.0
    assert diabetes.facts["kind"] == "regression"


# --- downloads, from a server of our own ----------------------------------------------------------


class Server(http.server.SimpleHTTPRequestHandler):
    """Files with ranges; ``cut`` ends the first answer in the middle."""

    cut, ranges, log = False, True, []

    def log_message(self, *args):
        pass

    def do_GET(self):
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        body = file.read_bytes()
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if self.ranges else 0
        type(self).log.append(begin)
        if begin >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body) - begin))
        self.end_headers()
        part = body[begin:]
        if type(self).cut:
            type(self).cut, part = False, part[: len(part) // 2]
        self.wfile.write(part)


@pytest.fixture
def server(tmp_path):
    (tmp_path / "www").mkdir()
    handler = type("Handler", (Server,), {"log": []})
    made = functools.partial(handler, directory=tmp_path / "www")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}", tmp_path / "www", handler
        httpd.shutdown()
        thread.join(timeout=10)


def test_a_download_goes_on_where_it_was_cut(server, tmp_path):
    url, www, handler = server
    content = np.random.default_rng(0).bytes(300_000)
    (www / "a.gz").write_bytes(gzip.compress(content))
    size, right = (www / "a.gz").stat().st_size, hashlib.sha256(content).hexdigest()
    target = tmp_path / "data" / "a.gz"
    handler.cut = True
    with pytest.raises(OSError, match="what has come is kept, and the same command goes on"):
        download.download(f"{url}/a.gz", target, right)
    part = target.with_name("a.gz.part")
    assert not target.exists() and part.stat().st_size == size // 2
    assert (
        download.download(f"{url}/a.gz", target, right).read_bytes() == (www / "a.gz").read_bytes()
    )
    assert handler.log == [0, size // 2] and not part.exists()
    download.download(f"{url}/a.gz", target, right)
    assert len(handler.log) == 2  # it is there and right: nothing is asked for
    target.write_bytes(b"damaged")
    download.download(f"{url}/a.gz", target, right)
    assert gzip.decompress(target.read_bytes()) == content


def test_a_server_without_ranges_starts_again(server, tmp_path):
    url, www, handler = server
    (www / "b.mat").write_bytes(b"0123456789")
    handler.ranges = False
    target = tmp_path / "b.mat"
    target.with_name("b.mat.part").write_bytes(b"01234")
    right = hashlib.sha256(b"0123456789").hexdigest()
    assert download.download(f"{url}/b.mat", target, right).read_bytes() == b"0123456789"


def test_a_wrong_file_never_gets_its_name(server, tmp_path):
    url, www, _ = server
    (www / "c.mat").write_bytes(b"something else")
    target = tmp_path / "c.mat"
    with pytest.raises(InvalidValue, match=r"must have the SHA-256 0000.*the file was not kept"):
        download.download(f"{url}/c.mat", target, "0" * 64)
    assert not target.exists() and not target.with_name("c.mat.part").exists()
    with pytest.raises(OSError, match="cannot be downloaded"):
        download.download(f"{url}/nothing", target, None)


def test_data_get_by_name(server, tmp_path, known, capsys):
    url, www, _ = server
    for file in known["uci-yacht"]["files"]:
        name = file["path"].replace("/", "-")
        (www / name).write_bytes(gzip.compress(b"1,2\n"))
        file["url"], file["sha256"] = f"{url}/{name}", hashlib.sha256(b"1,2\n").hexdigest()
    paths = download.get("uci-yacht", str(tmp_path / "d"))
    assert [p.is_file() for p in paths] == [True, True]
    assert "uci-yacht     2 of 2 files" in download.listing(str(tmp_path / "d"))
    with pytest.raises(InvalidValue, match="did you mean 'mnist'"):
        download.get("mnit", str(tmp_path))


def test_every_set_of_the_catalogue_is_a_task_and_has_addresses():
    assert set(published.catalogue()) <= set(tasks.NAMES)
    for entry in published.catalogue().values():
        for file in entry["files"]:
            assert file["url"].startswith("https://") and len(file["sha256"] or "0" * 64) == 64

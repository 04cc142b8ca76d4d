"""What the fuzzer found, and a few thousand changes of its inputs: bongref's own errors, or none."""

from __future__ import annotations

import io
import json
import os
import random
import sys
import zipfile

import numpy as np
import pytest

import bongref as br
from bongref.conformance import runner, vectors
from bongref.experiments import records, store
from bongref.experiments.data import files
from bongref.experiments.tuning import space
from validation.fuzz import __main__ as command
from validation.fuzz.answers import decode
from validation.fuzz.targets import TARGETS, Forbidden, Target, attempt

CHANGES = 150


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_are_refused_or_read(name):
    rng, target = random.Random(name), TARGETS[name]
    seeds = target.seeds()
    for _ in range(CHANGES):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        attempt(target, bytes(data[: rng.choice((None, rng.randrange(len(data))))]))


def payload(_):
    raise ValueError("not one of bongref's own errors")


@pytest.mark.parametrize(
    "read, kind",
    [
        (payload, ValueError),
        (lambda _: os.system("true"), Forbidden),
        (lambda _: exec("1"), Forbidden),
        (lambda _: open(os.devnull, "w").close(), Forbidden),
    ],
)
def test_what_reading_must_not_do_is_seen(read, kind):
    with pytest.raises(kind):
        attempt(Target(read, list), b"")


def test_counts_are_added_up():
    old, new = {"executions": 5, "branches": 9, "faults": 1}, {"executions": 2, "branches": 3}
    assert command.added(old, new) == {"executions": 7, "branches": 9, "faults": 0}
    assert command.added({}, {**new, "found": "x"})["faults"] == 1


def test_answers_are_of_every_kind():
    rng = random.Random(0)
    kinds = {type(decode(rng.randbytes(40))).__name__ for _ in range(2000)}
    assert {"dict", "list", "tuple", "ndarray", "NoneType", "str", "float", "int"} <= kinds


# --- what it found --------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    with store.writer(tmp_path) as out:
        for k in range(3):
            out.append({"id": f"{k:016x}", "status": "done"})
    return tmp_path


@pytest.mark.parametrize("at", range(32))
def test_a_byte_of_a_line_that_its_checksum_does_not_cover(folder, at):
    """The separators between checksum and record too: reading such a folder raised an error."""
    data = bytearray((folder / store.NAME).read_bytes())
    data[at] ^= 0x81
    (folder / store.NAME).write_bytes(data)
    found = store.read(folder)
    assert len(found.records) == 2 and "damaged line(s) (number 1)" in found.notes[0]


@pytest.mark.parametrize(
    "body", [b'"format":x}', b'"format":1,"id":"short","status":"done"}', b"", b"\xff" * 90]
)
def test_a_line_with_the_right_checksum_of_something_else(folder, body):
    line = records._HEAD + records._sum(body) + b'",' + body + b"\n"
    with open(folder / store.NAME, "ab") as file:
        file.write(line)
    assert len(store.read(folder).records) == 3


def test_a_record_that_is_no_json_is_refused(folder):
    body = b'"format":1,"id":"0000000000000009","status":"done","rows":[}'
    line = records._HEAD + records._sum(body) + b'",' + body
    with pytest.raises(br.InvalidValue, match="line must be JSON"):
        records.from_line(line)


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_a_folder_that_is_refused_leaves_no_file_open(tmp_path):
    (tmp_path / store.NAME).write_text("not of bongref\n")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(br.InvalidValue):
            store.writer(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("text", [b"\xff", b"[" * 100_000, b"[1", b"1", b'{"alpha": NaN}'])
def test_a_space_that_cannot_be_read(tmp_path, text):
    (tmp_path / "space.json").write_bytes(text)
    with pytest.raises((br.InvalidValue, br.InvalidType)):
        space.read(tmp_path / "space.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["cases"][0].pop("id"),
        lambda d: d["cases"][0]["input"].pop("prior"),
        lambda d: d["cases"].append(None),
        lambda d: d.update(level="unknown"),
        lambda d: d["cases"][0]["expected"][0].update(value=["one"]),
    ],
)
def test_vectors_that_are_none(tmp_path, change):
    file = sorted(vectors.FOLDER.glob("*.json"))[-1]
    data = json.loads(file.read_text(encoding="utf-8"))
    data = {**data, "cases": [c for c in data["cases"] if "prior" in c["input"]][:1]}
    path = tmp_path / "v.json"
    path.write_text(json.dumps(data))
    assert len(vectors.read(path)) == 1
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(br.InvalidValue, match="must be a file of vectors, got one that cannot"):
        vectors.read(path)


@pytest.mark.parametrize("text", [b"\xff", b"[" * 100_000, b"null", b""])
def test_vectors_that_are_no_json(tmp_path, text):
    (tmp_path / "v.json").write_bytes(text)
    with pytest.raises(br.InvalidValue, match="must be a file of vectors"):
        vectors.read(tmp_path / "v.json")


@pytest.mark.parametrize("header", [b"{'descr': '<f8', 'shape': (", b"{'descr': 'O'}", b"\x00"])
def test_a_table_with_a_damaged_header(tmp_path, header):
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", member)
    with pytest.raises(br.InvalidValue, match=r"must be an \.npz file"):
        files.read(str(tmp_path / "t.npz"))


def test_a_table_that_is_encrypted(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, y=np.arange(3.0))
    data = bytearray(buffer.getvalue())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    (tmp_path / "t.npz").write_bytes(data)
    with pytest.raises(br.InvalidValue, match=r"must be an \.npz file"):
        files.read(str(tmp_path / "t.npz"))


@pytest.mark.parametrize("answer", [{"mu": None, "var": None}, {"mu": [0.0], "var": None}])
def test_an_answer_with_none_in_it(answer):
    class Adapter:
        def step(self, **_):
            return answer

    for case in vectors.load(["L0"], ["bong-lin-hess-diag"]):
        outcome = runner.run_case(Adapter(), case, diagnose=False)
        assert outcome.status in ("error", "pass")


def test_an_answer_of_odd_shapes_where_definiteness_must_be_lost():
    class Adapter:
        def step(self, **_):
            return {"mu": [[1.0, 2.0]], "var": [[-1.0]], "Sigma": [1.0, 2.0], "Ups": 1.0,
                    "W": [[1.0]], "more": "mu"}  # fmt: skip

    cases = [c for c in vectors.load(["L0"]) if c.result == "not positive definite"]
    assert cases
    for case in cases:
        assert runner.run_case(Adapter(), case, diagnose=False).status in ("error", "fail")

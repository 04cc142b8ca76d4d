"""The store of results: lines with checksums, one writer, what survives a crash, and what is
refused.
"""

import hashlib
import json
import math
import os
import subprocess
import sys

import pytest

from bongref.errors import InvalidValue
from bongref.experiments import records, store


def record(k, **more):
    return {
        "id": f"{k:016x}", "status": "done", "rows": [{"t": 1, "nlpd": math.inf}],
         "calibration": {},
        "timing": {"total": 1.0}, "command": "bongref run", "versions": {}, **more,
    }  # fmt: skip


def fill(folder, n=3):
    with store.writer(folder) as out:
        for k in range(n):
            out.append(record(k))
    return folder / store.NAME


def test_a_line_is_json_and_begins_with_the_hash_of_the_rest():
    """Checked with hashlib and json alone, as someone else would."""
    line = records.to_line(record(7, rows=[{"t": 3, "a": -math.inf, "b": math.nan, "c": 0.1}]))
    data = json.loads(line)
    assert list(data)[:4] == ["checksum", "format", "id", "status"]
    rest = line.split(b",", 1)[1]
    assert data["checksum"] == hashlib.blake2b(rest, digest_size=8).hexdigest()
    assert data["rows"] == [{"t": 3, "a": "-inf", "b": "nan", "c": 0.1}]
    back = records.from_line(line)["rows"][0]
    assert back["a"] == -math.inf and math.isnan(back["b"]) and back["c"] == 0.1
    assert records.head(line, memoryview(line), 0, len(line)) == (1, f"{7:016x}", "done")


@pytest.mark.parametrize("at", range(3, 200, 17))
def test_any_changed_byte_is_seen(at):
    line = bytearray(records.to_line(record(1)))
    line[at % len(line)] ^= 1
    assert not records.is_intact(bytes(line))


def test_a_torn_last_line_is_dropped_wherever_it_is_cut(tmp_path):
    path = fill(tmp_path)
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for cut in (start + 1, start + 40, len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        found = store.read(tmp_path)
        assert [r["id"] for r in found.records] == [f"{k:016x}" for k in range(2)]
        assert "incomplete last line" in found.notes[0]
        with store.writer(tmp_path) as out:
            assert "incomplete last line" in out.notes[0]
            assert len(out.status) == 2
            assert path.read_bytes() == whole[:start]
            out.append(record(2))
        assert path.read_bytes() == whole


def test_a_damaged_line_is_reported_kept_and_computed_again(tmp_path):
    path = fill(tmp_path)
    data = path.read_bytes().replace(b'"t":1', b'"t":2', 1)
    path.write_bytes(data)
    found = store.read(tmp_path)
    assert len(found.records) == 2 and "1 damaged line(s) (number 1)" in found.notes[0]
    with store.writer(tmp_path) as out:
        assert f"{0:016x}" not in out.status
        out.append(record(0))
    assert path.read_bytes().startswith(data) and len(store.read(tmp_path).records) == 3


def test_the_last_line_of_an_id_counts(tmp_path):
    with store.writer(tmp_path) as out:
        out.append(record(1, status="failed"))
        out.append(record(1))
    (only,) = store.read(tmp_path).records
    assert only["status"] == "done"


def test_another_format_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / store.NAME
    body = json.dumps({"format": 2, "id": "0" * 16, "status": "done"}, separators=(",", ":"))[1:]
    total = hashlib.blake2b(body.encode(), digest_size=8).hexdigest()
    text = f'{{"checksum":"{total}",{body}\n{{"check'
    path.write_text(text)
    for call in (store.read, store.writer):
        with pytest.raises(InvalidValue, match="format 2, and this version reads format 1; use an"):
            call(tmp_path)
    assert path.read_text() == text
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidValue, match="none of its 2 line"):
        store.writer(tmp_path)
    assert path.read_text() == "a,b\n1,2\n"


def test_two_processes_on_one_folder(tmp_path):
    """The second is told who has it; a process that is killed gives it free."""
    code = (
        "import sys, time; from bongref.experiments import store; w = store.writer(sys.argv[1]); "
        "print('open', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(InvalidValue, match=f"written to by process {other.pid} on .*; wait"):
            store.writer(tmp_path)
        assert store.scan_folder(tmp_path).status == {}  # reading is allowed
    finally:
        other.kill()
        other.wait(timeout=30)
        other.stdout.close()
    fill(tmp_path)


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            InvalidValue, match=r"out must be a folder that can be made.*use anothe"
        ):
            store.writer(bad)
    with pytest.raises(InvalidValue, match="out must be a folder"):
        store.writer("/proc/self/nothing")
    with pytest.raises(InvalidValue, match="must hold results of bongref run"):
        store.read(tmp_path)


FULL = """
import resource, sys
from bongref.experiments import store
from tests.test_experiments_store import record
with store.writer(sys.argv[1]) as out:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    try:
        for k in range(1000):
            out.append(record(k))
    except OSError as error:
        print(len(out.status), error)
"""


def test_a_full_disk_loses_nothing(tmp_path):
    """The system refuses to write beyond a limit: half a line is taken back, all others are
    there.
    """
    one = len(records.to_line(record(0))) + 1
    limit = 5 * one + one // 2
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path, str(limit)], capture_output=True, text=True,
         check=True,
        cwd=os.path.dirname(os.path.dirname(__file__)),
    )  # fmt: skip
    assert done.stdout.startswith("5 ")
    assert (
        "5 results before it are safe. Free disk space, and give the same command again"
        in done.stdout
    )
    assert (tmp_path / store.NAME).stat().st_size == 5 * one
    found = store.read(tmp_path)
    assert len(found.records) == 5 and found.notes == []


def test_the_same_results_have_the_same_digest_in_any_order():
    a, b = record(1), record(2)
    again = {**a, "timing": {"total": 2.0}, "command": "another"}
    assert records.same(a, again) and records.digest([a, b]) == records.digest([b, again])
    other = {**a, "rows": [{"t": 1, "nlpd": 1.0 + 2**-52}]}
    assert not records.same({**a, "rows": [{"t": 1, "nlpd": 1.0}]}, other)
    assert records.digest([other, b]) != records.digest([a, b])


def test_opening_does_not_read_the_records(tmp_path, monkeypatch):
    """What makes it fast for 100,000 lines: no JSON is parsed."""
    fill(tmp_path, 20)
    monkeypatch.setattr(records.json, "loads", lambda text: pytest.fail("a line was parsed"))
    with store.writer(tmp_path) as out:
        assert len(out.status) == 20

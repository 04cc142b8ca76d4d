"""Files: what was saved comes back bit by bit; what is damaged or hostile is refused; a kill leaves
the old or the new file.
"""

import dataclasses
import io
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import time
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bongref as br
from bongref import checkpoints
from bongref.storage import files

KILLS = int(os.environ.get("BONGREF_KILLS", "3"))  # 50 for a thorough run
LINEAR, UNIT = br.models.linear(2), br.likelihoods.Gaussian(var=0.5)
X = np.random.default_rng(1).standard_normal((12, 2))
Y = X @ [1.0, -2.0] + 0.1


def result(name="bong-mc-ef-dlr", **kw):
    m = br.method(name, **({"rank": 1} if name.endswith("dlr") else {}))
    metrics = [br.metrics.on(X, Y, "rmse"), br.metrics.prequential()]
    return br.run(
        m, LINEAR, UNIT, m.prior(np.zeros(2)), X, Y, rng=4, every=5, metrics=metrics,
        backend="reference", **kw,
    )  # fmt: skip


def a_filter(name="bong-mc-ef-diag", **kw):
    f = br.Filter(name, LINEAR, UNIT, rng=3, backend="reference", **kw)
    return f.learn_one({"a": 1.0, "b": 2.0}, 3.0)


STATES = {
    "diag": br.Diag(np.array([0.1, 1 / 3]), np.array([1e-300, 2.0])),
    "fc": br.FC(np.zeros(2), np.array([[2.0, 0.5], [0.5, 1.0]])),
    "dlr": br.DLR(np.zeros(2), np.array([1.0, 2.0]), np.array([[0.3], [-0.2]])),
}


def same_state(a, b):
    return type(a) is type(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def same(a, b):
    if isinstance(a, br.Filter):
        mine, other = a.__getstate__(), b.__getstate__()
        plain = ("m", "model", "lik", "backend", "features", "t")
        return (
            same_state(a.state, b.state)
            and all(mine[k] == other[k] for k in plain)
            and files.plain(a.dynamics._asdict()) == files.plain(b.dynamics._asdict())
            and files.plain(a.rng.bit_generator.state) == files.plain(b.rng.bit_generator.state)
        )
    if isinstance(a, br.Result):
        return (
            same_state(a.state, b.state)
            and (a.rows, a.t, a.info) == (b.rows, b.t, b.info)
            and files.plain(a.continuation._asdict()) == files.plain(b.continuation._asdict())
        )
    return same_state(a, b)


VALUES = {
    **STATES,
    "result": result(),
    "filter": a_filter(dynamics=br.dynamics.OU(0.9, [0.0, 1.0], 2.0)),
}


# --- what is saved comes back ---------------------------------------------------------------------


@pytest.mark.parametrize("name", VALUES)
def test_round_trips(name, tmp_path):
    path = tmp_path / "x.npz"
    br.save(path, VALUES[name])
    assert same(VALUES[name], br.load(path)) and os.listdir(tmp_path) == ["x.npz"]
    first = path.read_bytes()
    br.save(str(path), br.load(path))
    assert path.read_bytes() == first  # nothing but the value is in the file
    with np.load(path, allow_pickle=False) as file:
        document = json.loads(file["bongref"].tobytes())
        assert (document["format"], document["version"]) == ("bongref", 3)
        assert set(document["arrays"]) == set(file.files) - {"bongref"}


@pytest.mark.parametrize(
    "bits",
    [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64],
)
def test_a_filter_goes_on_with_the_same_random_numbers(bits, tmp_path):
    f = br.Filter(
        "bong-mc-ef-fc", LINEAR, UNIT, rng=np.random.Generator(bits(5)), backend="reference"
    )
    br.save(tmp_path / "f.npz", f.learn_many(X[:3], Y[:3]))
    g = br.load(tmp_path / "f.npz")
    for one in (f, g):
        one.learn_many(X[3:], Y[3:])
    assert same(f, g) and f.t == 12


MODELS = {
    "linear": br.models.linear(2, 2, bias=True),
    "mlp": br.models.mlp([2, 3, 2], activation="relu"),
    "cnn": br.models.cnn((4, 4, 1), 2, (2,), (3, 3), 3, activation="gelu_tanh"),
}
LIKS = {
    "scalar": br.likelihoods.Gaussian(0.1),
    "matrix": br.likelihoods.Gaussian([[1.0, 0.2], [0.2, 0.3]]),
    "bernoulli": br.likelihoods.Bernoulli(),
    "categorical": br.likelihoods.Categorical(),
    "poisson": br.likelihoods.Poisson(),
}
DYNAMICS = [br.dynamics.Static(), br.dynamics.Linear(0.9, 0.1, 0.3), br.dynamics.OU(0.5)]


@pytest.mark.parametrize("k", range(5))
def test_every_model_likelihood_and_dynamics_has_a_description(k, tmp_path):
    model, lik = MODELS[["linear", "mlp", "cnn"][k % 3]], list(LIKS.values())[k]
    f = br.Filter("bong-lin-hess-diag", model, lik, dynamics=DYNAMICS[k % 3], backend="reference")
    x = np.ones(model.in_shape)
    br.save(tmp_path / "f.npz", f.learn_one(x, [1, 0]))
    g = br.load(tmp_path / "f.npz")
    assert g.model == model and g.lik == lik and g.dynamics == f.dynamics
    assert same_state(f.learn_one(x, [0, 1]).state, g.learn_one(x, [0, 1]).state)


def test_a_model_and_a_likelihood_of_ones_own_are_given(tmp_path):
    path, model = tmp_path / "f.npz", br.models.wrap(lambda t, x: t[0] * x, 1, 1)

    class Own(br.likelihoods.Bernoulli):
        pass

    br.save(path, br.Filter("bong-lin-ef-diag", model, Own(), backend="reference"))
    with pytest.raises(ValueError, match=r"model must be given: .* use load\(path, model=\.\.\.\)"):
        br.load(path)
    with pytest.raises(ValueError, match=r"lik must be given: .* use load\(path, lik=\.\.\.\)"):
        br.load(path, model=model)
    with pytest.raises(ValueError, match=r"model must have 1 parameters and 1 outputs, .* got 2"):
        br.load(path, model=LINEAR, lik=Own())
    assert br.load(path, model=model, lik=Own()).model is model
    br.save(path, a_filter())
    for kw in ({"model": LINEAR}, {"lik": UNIT}):
        with pytest.raises(ValueError, match="must be left out: the file describes its own"):
            br.load(path, **kw)
    br.save(path, STATES["fc"])
    with pytest.raises(ValueError, match="model must be left out for a file that holds a state"):
        br.load(path, model=LINEAR)


def test_rows_may_have_numbers_that_are_not_finite(tmp_path):
    odd = {"a": float("nan"), "b": -np.inf, "c": np.float32(0.5), "d": [1, np.inf], "e": 1 + 2j}
    r = VALUES["result"]
    br.save(tmp_path / "r.npz", r._replace(rows=[{"t": 3, **odd}]))
    (row,) = br.load(tmp_path / "r.npz").rows
    assert np.isnan(row["a"]) and row["b"] == -np.inf and row["c"] == 0.5
    assert row["d"] == [1, np.inf] and row["e"] == "(1+2j)"


@pytest.mark.parametrize(
    "value", [3, None, {"mu": 1}, (np.zeros(2), np.ones(2)), br.likelihoods.Bernoulli()]
)
def test_what_cannot_be_saved(value, tmp_path):
    with pytest.raises(TypeError, match=r"value must be a state .* got"):
        br.save(tmp_path / "x.npz", value)
    assert not os.listdir(tmp_path)


def test_a_state_that_is_not_valid_is_not_saved(tmp_path):
    br.save(tmp_path / "x.npz", STATES["diag"])
    with pytest.raises(ValueError, match="value must be positive definite"):
        br.save(tmp_path / "x.npz", br.Diag(np.zeros(1), -np.ones(1)))
    assert same(br.load(tmp_path / "x.npz"), STATES["diag"])


# --- version 2 ------------------------------------------------------------------------------------


def write_old(path, r, **changes):
    """What version 2 wrote, from its description in docs/files.md."""
    info = {k: getattr(r.info, k) for k in ("backend", "reason", "seconds", "steps", "missing")}
    rest = {
        "version": 2, "method": [r.info.method.name, dict(r.info.method.params)], "t": r.t,
        "rows": r.rows, "info": info, "continuation": r.continuation._asdict(), **changes,
    }  # fmt: skip
    text = json.dumps(rest, default=lambda a: a.tolist())
    np.savez(path, **r.state._asdict(), rest=np.array(text))


def test_version_2_is_read_and_written_as_3(tmp_path):
    path, r = tmp_path / "old.npz", VALUES["result"]
    r = r._replace(rows=[*r.rows[:-1], {**r.rows[-1], "extra": float("inf")}])
    r = r._replace(info=dataclasses.replace(r.info, evaluation=0.0, compilation=0.0))
    write_old(path, r)
    old = br.load(path)
    assert same(old, r)
    br.save(path, old)
    assert same(br.load(path), r) and files.read(path).version == 3


@pytest.mark.parametrize("version", [1, 4, 2.0, "2", None, True])
def test_other_versions_are_refused(version, tmp_path):
    write_old(tmp_path / "x.npz", VALUES["result"], version=version)
    if version == 2.0:
        return  # JSON has one kind of number
    with pytest.raises(ValueError, match=r"x\.npz' \(it has version .*, of 2 and 3"):
        br.load(tmp_path / "x.npz")
    members = parts(VALUES["fc"], tmp_path)
    pack(tmp_path / "y.npz", edited(members, version=version))
    with pytest.raises(ValueError, match=r"y\.npz' \((it has version|its format is not)"):
        br.load(tmp_path / "y.npz")


# --- damaged files --------------------------------------------------------------------------------


def refused(path, match=""):
    """load refuses with one sentence that has the path in it, without a warning, and says why."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(br.InvalidValue) as caught:
            br.load(path)
    text = str(caught.value)
    start = f"path must be a file that bongref.save wrote, got {os.fspath(path)!r} ("
    assert text.startswith(start) and "\n" not in text and len(text) > len(start) + 5, text
    assert "Error)" not in text, text
    assert match in text, text


def same_or_refused(path, value):
    try:
        found = br.load(path)
    except br.InvalidValue as error:
        assert repr(os.fspath(path)) in str(error)
        return
    assert same(value, found)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The bytes of a file of each kind."""
    folder, out = tmp_path_factory.mktemp("saved"), {}
    for name, value in VALUES.items():
        br.save(folder / f"{name}.npz", value)
        out[name] = (folder / f"{name}.npz").read_bytes()
    return out


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_do_not_matter(saved, tmp_path_factory, data):
    """Bytes changed, cut out, doubled or put in: never another value, never another error."""
    name = data.draw(st.sampled_from(sorted(saved)))
    raw = bytearray(saved[name])
    at = data.draw(st.integers(0, len(raw) - 1))
    n = data.draw(st.integers(1, 64))
    what = data.draw(st.sampled_from(["flip", "cut", "insert", "truncate", "swap", "zero"]))
    if what == "flip":
        raw[at] ^= data.draw(st.integers(1, 255))
    elif what == "cut":
        del raw[at : at + n]
    elif what == "insert":
        raw[at:at] = data.draw(st.binary(min_size=1, max_size=64))
    elif what == "truncate":
        del raw[at:]
    elif what == "zero":
        raw[at : at + n] = bytes(len(raw[at : at + n]))
    else:
        other = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + n], raw[other : other + n] = raw[other : other + n], raw[at : at + n]
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(raw)
    same_or_refused(path, VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_every_flipped_bit_of_the_numbers_is_seen(name, saved, tmp_path):
    """One bit in each of many places in every member."""
    path, raw = tmp_path / "x.npz", saved[name]
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for info in archive.infolist():
            start = info.header_offset + 30 + len(info.filename)
            places = np.linspace(start, start + info.file_size - 1, 40).astype(int)
            for at in places:
                changed = bytearray(raw)
                changed[at] ^= 1 << int(at % 8)
                path.write_bytes(changed)
                refused(path)


@pytest.mark.parametrize("name", ["dlr", "result", "filter"])
def test_a_truncated_file_is_refused(name, saved, tmp_path):
    path, raw = tmp_path / "x.npz", saved[name]
    for n in {0, 1, 21, 22, *np.linspace(0, len(raw) - 1, 60).astype(int)}:
        path.write_bytes(raw[:n])
        refused(path)


# --- hostile files --------------------------------------------------------------------------------


def parts(value, folder):
    """The members of a file of this value: name -> bytes of the .npy file."""
    br.save(folder / "parts.npz", value)
    with zipfile.ZipFile(folder / "parts.npz") as archive:
        return {n.removesuffix(".npy"): archive.read(n) for n in archive.namelist()}


def npy(a, allow_pickle=False):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(a), allow_pickle=allow_pickle)
    return out.getvalue()


def document(members):
    return json.loads(np.load(io.BytesIO(members["bongref"])).tobytes())


def with_text(members, text):
    return {**members, "bongref": npy(np.frombuffer(text, dtype=np.uint8))}


def edited(members, change=None, /, **top):
    """Another document, with the right checksums: hostile, not damaged."""
    new = {**document(members), **top}
    if change is not None:
        new["data"] = {**new["data"], **change}
    return with_text(members, json.dumps(new).encode())


def with_array(members, name, a, **listed):
    """Another array, listed as it is."""
    new = document(members)
    new["arrays"][name] = {
        "dtype": a.dtype.str, "shape": list(a.shape), "crc32": zlib.crc32(np.ascontiguousarray(a)),
        **listed,
    }  # fmt: skip
    return with_text({**members, name: npy(a)}, json.dumps(new).encode())


def pack(path, members, compression=zipfile.ZIP_STORED, comment=b"", suffix=".npy"):
    pairs = members.items() if isinstance(members, dict) else members
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of duplicate names
        for name, raw in pairs:
            archive.writestr(name + suffix, raw)
        archive.comment = comment


class Bomb:
    fuse: ClassVar[list] = []

    def __reduce__(self):
        return (Bomb.fuse.append, (1,))


def header(text):
    """A .npy file with this header and no numbers."""
    text = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def hostile_archives(tmp):
    """(what it is, how it is written, a part of the message)"""
    m = parts(VALUES["fc"], tmp)
    mu = m["mu"]
    objects = npy(np.array([Bomb(), 1], dtype=object), allow_pickle=True)
    yield "compressed", lambda p: pack(p, m, zipfile.ZIP_DEFLATED), "compressed"
    yield "bzip2", lambda p: pack(p, m, zipfile.ZIP_BZIP2), "compressed"
    yield (
        "comment",
        lambda p: pack(p, m, comment=b"hello"),
        "comment|no archive directory at its end",
    )
    yield "duplicate", lambda p: pack(p, [*m.items(), ("mu", mu)]), "two members"
    yield (
        "something in front",
        lambda p: (pack(p, m), p.write_bytes(b"x" + p.read_bytes())),
        "before",
    )
    yield "unknown member", lambda p: pack(p, {**m, "more": mu}), "not those that the document"
    yield "no member", lambda p: pack(p, {k: v for k, v in m.items() if k != "mu"}), "not those"
    yield "no document", lambda p: pack(p, {"mu": mu}), "no member 'bongref'"
    yield "other names", lambda p: pack(p, m, suffix=".txt"), "has a member"
    yield "a path", lambda p: pack(p, {**m, "../../evil": mu}), "has a member"
    yield "many members", lambda p: pack(p, {f"a{i}": mu for i in range(500)}), "500 members"
    yield "empty archive", lambda p: pack(p, {}), "no member"
    yield "swapped members", lambda p: pack(p, {**m, "mu": m["Sigma"], "Sigma": mu}), "shape"
    yield "objects", lambda p: pack(p, {**m, "mu": objects}), "refused"
    yield "objects as the document", lambda p: pack(p, {**m, "bongref": objects}), "refused"
    yield "not npy", lambda p: pack(p, {**m, "mu": b"hello" * 30}), "header"
    yield "empty member", lambda p: pack(p, {**m, "mu": b""}), "size"
    for text in (
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2.5,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (0,), }",
        "{'descr': '<f8', 'shape': (0,), }",
        "__import__('os').abort()",
        "(" * 100,
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0,), 'descr': '<f4'}",
    ):
        yield f"header {text[:60]}", lambda p, t=text: pack(p, {**m, "mu": header(t)}), "mu"
    long = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 100
    yield "long header", lambda p: pack(p, {**m, "mu": long}), "header"
    for dtype in ("<f4", ">f8", "<c16", "<U3", "|S4", "|V8", "<M8[s]", "|u1"):
        a = np.zeros(2, dtype=dtype)
        yield f"dtype {dtype}", lambda p, a=a: pack(p, with_array(m, "mu", a)), "type"
    yield "half of mu", lambda p: pack(p, with_array(m, "mu", np.zeros(1))), "shape"
    yield "fewer numbers", lambda p: pack(p, {**m, "mu": npy(np.zeros(1))}), "shape"
    yield "more bytes", lambda p: pack(p, {**m, "mu": mu + bytes(8)}), "bytes of numbers"
    yield "wrong checksum", lambda p: pack(p, with_array(m, "mu", np.ones(2), crc32=1)), "checksum"
    yield "nan", lambda p: pack(p, with_array(m, "mu", np.array([np.nan, 0]))), "finite"
    flat = np.array([[1.0, 2.0], [2.0, 1.0]])
    yield "indefinite", lambda p: pack(p, with_array(m, "Sigma", flat)), "positive definite"


def hostile_documents(tmp):
    fc, r, f = (parts(VALUES[k], tmp) for k in ("fc", "result", "filter"))
    whole = document(fc)
    for text in (
        b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"{}", b"[" * 100_000, b'{"a":' * 100_000,
        json.dumps({**whole, "more": 1}).encode(), b'{"version": NaN}', b"1" * 10_000,
        json.dumps(whole).replace('"kind"', '"version"').encode(),
        json.dumps(whole).replace('"data": {', '"data": {"state": "FC", ').encode(),
    ):  # fmt: skip
        yield f"text {text[:20]!r}", lambda p, t=text: pack(p, with_text(fc, t))
    for top in (
        {"format": "other"}, {"kind": "BongFoo"}, {"kind": 3}, {"kind": None}, {"kind": "os"},
        {"arrays": []}, {"arrays": {}}, {"arrays": {"mu": 3}}, {"data": 3}, {"data": None},
        {"kind": "result"}, {"kind": "filter"}, {"data": {"state": "Diag"}},
         {"data": {"state": []}},
        {"data": {"state": "__class__"}}, {"data": {"state": {"a": 1}}},
    ):  # fmt: skip
        yield f"fc {top}", lambda p, t=top: pack(p, edited(fc, **t))
    for data in (
        {"t": -1}, {"t": 1.5}, {"t": "3"}, {"t": True}, {"t": 10**40}, {"t": 3}, {"t": None},
        {"rows": None}, {"rows": [3]}, {"rows": [{}]}, {"rows": [{"t": 99}]}, {"rows": {"t": 1}},
        {"rows": [{"t": 5}, {"t": 2}]}, {"method": "bong"}, {"method": ["bong-lin-hess-fc", {}]},
        {"method": ["nothing", {}]}, {"method": ["bong-mc-ef-dlr", {"rank": 2}]},
         {"method": [3, {}]},
        {"method": ["bong-mc-ef-dlr", {"rank": 1, "self": 3}]}, {"method": ["bong-mc-ef-dlr", []]},
        {"method": ["bong-mc-ef-dlr", {"name": "x"}]}, {"info": {}}, {"info": None},
        {"continuation": {}}, {"continuation": None}, {"other": 1},
    ):  # fmt: skip
        yield f"result {data}", lambda p, d=data: pack(p, edited(r, d))
    info, going = document(r)["data"]["info"], document(r)["data"]["continuation"]
    for change in (
        {"backend": "x"}, {"backend": []}, {"reason": 3}, {"seconds": -1}, {"seconds": "1"},
        {"seconds": {"float": "nan"}}, {"evaluation": -1}, {"compilation": None}, {"steps": 3},
         {"missing": 99}, {"missing": -1}, {"more": 1},
    ):  # fmt: skip
        yield f"info {change}", lambda p, c=change: pack(p, edited(r, {"info": {**info, **c}}))
    state = going["rng"]
    bad = [
        3, [], {}, {"bit_generator": "os"}, {**state, "bit_generator": "MT19937"},
        {**state, "state": {"state": -1, "inc": 1}}, {**state, "state": {"state": 1}},
        {**state, "state": {"state": 2**200, "inc": 1}}, {**state, "more": 1},
        {**state, "state": {"state": "1", "inc": 1}}, {**state, "has_uint32": 7},
    ]  # fmt: skip
    for rng in bad:
        change = {"continuation": {**going, "rng": rng}}
        yield f"rng {rng}", lambda p, c=change: pack(p, edited(r, c))
        yield f"filter rng {rng}", lambda p, g=rng: pack(p, edited(f, {"rng": g}))
    for bits, table, key in (
        (np.random.MT19937, "state", "pos"),
        (np.random.Philox, "", "buffer_pos"),
    ):
        for place in (-1, 10**6, True, 1.5):
            rng = files.plain(bits(1).state)
            (rng[table] if table else rng)[key] = place
            yield f"filter {key} {place}", lambda p, g=rng: pack(p, edited(f, {"rng": g}))
    for pending in ([], {"a": 3}, {"a": ["x"]}, {"a": [None]}, {"a": [True]}):
        change = {"continuation": {**going, "pending": pending}}
        yield f"pending {pending}", lambda p, c=change: pack(p, edited(r, c))
    for data in (
        {"model": None}, {"model": {}}, {"model": {"kind": "os"}}, {"model": {"kind": "mlp"}},
        {"model": {"kind": "mlp", "sizes": [10**9, 10**9], "activation": "tanh"}},
        {"model": {"kind": "linear", "n_in": 3, "n_out": 1, "bias": False}},
        {"model": {"kind": "linear", "n_in": 2, "n_out": 1, "bias": 3}},
        {"model": {"kind": "linear", "n_in": 2, "n_out": 1, "bias": False, "rng": 1}},
        {"model": {"kind": "linear", "n_in": 10**30, "n_out": 1, "bias": False}},
        {"model": {"kind": [], "n_in": 2}}, {"model": {"kind": {}}},
        {"lik": None}, {"lik": {"kind": "categorical"}}, {"lik": {"kind": []}},
         {"lik": {"kind": "x"}},
        {"dynamics": {"kind": "static"}}, {"dynamics": {"kind": "linear"}}, {"dynamics": 3},
        {"t": -1}, {"t": "1"}, {"backend": "gpu"}, {"backend": 3}, {"features": ["a"]},
        {"features": ["a", "a"]}, {"features": [1, 2]}, {"features": "ab"}, {"rng": None},
        {"method": ["bong-lin-hess-fc", {}]}, {"method": ["bong-lin-hess-dlr", {"rank": 1}]},
    ):  # fmt: skip
        yield f"filter {data}", lambda p, d=data: pack(p, edited(f, d))
    for name, a in (
        ("lik.R", np.array(-1.0)), ("lik.R", np.array([1.0, 2.0])), ("lik.R", np.array(np.nan)),
        ("dynamics.gamma", np.array(2.0)), ("dynamics.mu0", np.zeros(3)), ("lik.R", np.array(True)),
        ("dynamics.var0", np.array(-1.0)), ("state.var", np.array([1.0, -1.0])),
         ("more", np.ones(1)),
    ):  # fmt: skip
        yield f"filter {name} {a}", lambda p, n=name, b=a: pack(p, with_array(f, n, b))


def test_hostile_archives_are_refused(tmp_path):
    path, seen = tmp_path / "x.npz", 0
    for what, write, match in hostile_archives(tmp_path):
        write(path)
        try:
            refused(path)
            with pytest.raises(ValueError, match=match):
                br.load(path)
        except BaseException as error:
            raise AssertionError(what) from error
        seen += 1
    assert seen > 35 and Bomb.fuse == []


def test_hostile_documents_are_refused(tmp_path):
    path, seen = tmp_path / "x.npz", 0
    for what, write in hostile_documents(tmp_path):
        write(path)
        try:
            refused(path)
        except BaseException as error:
            raise AssertionError(what) from error
        seen += 1
    assert seen > 100


def test_the_columns_of_a_frame_are_optional_and_names(tmp_path):
    f, path = parts(VALUES["filter"], tmp_path), tmp_path / "x.npz"
    assert b'"columns"' not in b"".join(f.values())  # as files were before there were any
    for columns in (3, "ab", [1, 2], ["a", None], {"a": 1}, None):
        pack(path, edited(f, {"columns": columns}))
        refused(path, "columns must be a list of names")
    pack(path, edited(f, {"columns": ["a", "b"]}))
    x = {"b": 1.0, "a": 2.0}
    assert br.load(path).learn_one(x, 1.0).features == ["a", "b"]


def test_half_characters_are_refused(tmp_path):
    """JSON can write half of a pair, which UTF-8 cannot: what was read could not be written."""
    f, path = parts(VALUES["filter"], tmp_path), tmp_path / "x.npz"
    for names in (["\ud800", "b"], ["a", "\udc00"]):
        pack(path, edited(f, {"features": names}))
        refused(path, "no JSON")
        g = br.Filter("bong-lin-hess-fc", br.models.linear(2), VALUES["filter"].lik, features=names)
        with pytest.raises(br.InvalidValue, match=r"names that UTF-8 can hold, got '.ud"):
            br.save(tmp_path / "y.npz", g)
    pack(path, edited(f, {"features": ["\U0001f600", "b"]}))  # a pair, escaped
    assert br.load(path).features == ["\U0001f600", "b"]
    assert not (tmp_path / "y.npz").exists()


def test_edits_that_change_nothing_are_accepted(tmp_path):
    """So that the tests above refuse for the reason they say."""
    for name in ("fc", "result", "filter"):
        members = parts(VALUES[name], tmp_path)
        pack(tmp_path / "x.npz", edited(members))
        assert same(VALUES[name], br.load(tmp_path / "x.npz"))
    members = parts(VALUES["fc"], tmp_path)
    pack(tmp_path / "x.npz", with_array(members, "mu", VALUES["fc"].mu))
    assert same(VALUES["fc"], br.load(tmp_path / "x.npz"))


def encrypted(raw):
    """Every entry says that it is encrypted."""
    raw = bytearray(raw)
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        where = raw.find(sign)
        while where >= 0:
            raw[where + at] |= 1
            where = raw.find(sign, where + 1)
    return bytes(raw)


def test_lies_in_the_directory_are_refused(saved, tmp_path):
    path, raw = tmp_path / "x.npz", saved["dlr"]
    path.write_bytes(encrypted(raw))
    refused(path, "encrypted")
    end = len(raw) - 22
    for at, form, value in ((10, "<H", 60000), (12, "<L", 2**31), (16, "<L", 2**31), (16, "<L", 0)):
        changed = bytearray(raw)
        changed[end + at : end + at + struct.calcsize(form)] = struct.pack(form, value)
        path.write_bytes(changed)
        refused(path)
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, end, 1)
    record = b"PK\x06\x06" + struct.pack("<QHHLLQQQQ", 44, 45, 45, 0, 0, 10**9, 10**9, 2**40, 0)
    path.write_bytes(raw[:end] + record + locator + raw[end:])
    refused(path, "1000000000 members")
    first = raw.find(b"PK\x01\x02")
    for at in (20, 24):  # sizes of a member
        changed = bytearray(raw)
        changed[first + at : first + at + 4] = struct.pack("<L", 2**31)
        path.write_bytes(changed)
        refused(path)


def test_memory_is_bounded_by_the_file(tmp_path):
    """A bomb of 1 GB in 1 MB, and a header that promises 8 TB, cost no more than the file."""
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("mu.npy", "w") as f,
    ):
        for _ in range(256):
            f.write(bytes(2**20))
    huge = parts(VALUES["fc"], tmp_path)
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    pack(tmp_path / "huge.npz", {**huge, "mu": header(text)})
    many = tmp_path / "many.npz"
    pack(many, {f"a{i}": b"" for i in range(20_000)})
    for file in (path, tmp_path / "huge.npz", many):
        tracemalloc.start()
        refused(file)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**20, file


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file(kind, tmp_path):
    path = tmp_path / "x.npz"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(os.devnull)
    for call in (lambda: br.load(path), lambda: br.save(path, STATES["fc"])):
        with pytest.raises(ValueError, match=r"path must be a (regular )?file, got .*x\.npz"):
            call()
    with pytest.raises(TypeError, match="path must be a path"):
        br.load(3)
    with pytest.raises(FileNotFoundError):
        br.load(tmp_path / "none.npz")


# --- writing --------------------------------------------------------------------------------------


def test_a_link_is_followed_and_permissions_are_kept(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "x.npz", tmp_path / "link.npz"
    link.symlink_to(target)
    br.save(link, STATES["fc"])  # of a file that is not there yet
    target.chmod(0o640)
    br.save(link, STATES["diag"])
    assert link.is_symlink() and same(br.load(target), STATES["diag"])
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["far", "link.npz"] and os.listdir(target.parent) == [
        "x.npz"
    ]
    old = os.umask(0o027)
    try:
        br.save(tmp_path / "new.npz", STATES["fc"])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new.npz").stat().st_mode) == 0o640
    loop = tmp_path / "loop.npz"
    loop.symlink_to(loop)
    with pytest.raises((ValueError, OSError), match="loop"):
        br.save(loop, STATES["fc"])


def test_file_and_folder_reach_the_disk_before_and_after_the_exchange(tmp_path, monkeypatch):
    order = []

    def spy(module, name, note):
        real = getattr(module, name)

        def call(*args):
            order.append(note(*args))
            return real(*args)

        monkeypatch.setattr(module, name, call)

    spy(os, "fsync", lambda fd: "folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
    spy(os, "replace", lambda a, b: ("replace", Path(a), Path(b)))
    path = tmp_path / "x.npz"
    for _ in range(2):
        br.save(path, STATES["fc"])
    assert [o if isinstance(o, str) else o[0] for o in order] == ["file", "replace", "folder"] * 2
    (first, to), (second, _) = order[1][1:], order[4][1:]
    assert to == path and first.parent == second.parent == tmp_path and first != second


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(error, tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    br.save(path, STATES["fc"])

    def fail(*args):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)) as caught:
        br.save(path, STATES["diag"])
    assert isinstance(error, KeyboardInterrupt) or caught.value.filename == str(path)
    assert os.listdir(tmp_path) == ["x.npz"] and same(br.load(path), STATES["fc"])


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.warns(br.BongrefWarning, match="checkpoint of step 12 could not be written"):
        done = br.run(
            "bong-lin-hess-fc", LINEAR, UNIT, STATES["fc"], X, Y, backend="reference",
            checkpoint=tmp_path / "x.npz",
        )  # fmt: skip
    assert done.t == 12


# --- kills ----------------------------------------------------------------------------------------

SAVING = """
import sys, numpy as np, bongref as br
k = 0
while True:
    k += 1
    br.save(sys.argv[1], br.Diag(np.full(2000, float(k)), np.full(2000, float(k))))
    if k == 1:
        print("saving", flush=True)
"""


def wait_for(process, path, seconds):
    """Until the file is there or has changed, or the process has ended; then some time more."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    while process.poll() is None and (path.stat().st_mtime_ns if path.exists() else 0) == before:
        time.sleep(0.002)
    time.sleep(seconds)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_kill_at_any_instant_leaves_a_whole_file(tmp_path):
    """A process that saves all the time is killed; the file is always one of those it wrote."""
    path, rng, last = tmp_path / "x.npz", np.random.default_rng(KILLS), []
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVING, str(path)], stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"saving\n"
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        q = br.load(path)
        assert len(set(q.mu)) == 1 and same_state(q, br.Diag(q.mu, q.mu))
        last.append(q.mu[0])
    assert max(last) > 1


RUNNING = """
import sys, pathlib, numpy as np, bongref as br
path = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.standard_normal((120, 3))
Y = np.sin(X @ [1.0, -2.0, 0.5])
model, lik = br.models.mlp([3, 3, 1]), br.likelihoods.Gaussian(var=0.1)
m = br.method("bong-mc-ef-dlr", rank=2, n_samples=4)
prior = m.prior(model.init(1), 0.1)
metrics = [br.metrics.on(X[:9], Y[:9], "nlpd-mc", n_samples=2), br.metrics.prequential()]
done = br.run(
    m, model, lik, prior, X, Y, rng=5, every=3, metrics=metrics, checkpoint=path,
    resume=br.load(path) if path.exists() else None, backend="reference", progress=False,
)
br.save(sys.argv[2], done)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(tmp_path):
    """Rows, state and generators too. BONGREF_KILLS=50 for fifty kills in a row."""
    path, end, rng = tmp_path / "run.npz", tmp_path / "end.npz", np.random.default_rng(KILLS)
    args = lambda path, end: [sys.executable, "-c", RUNNING, str(path), str(end)]
    kills, reached = 0, []
    while kills < KILLS:
        process = subprocess.Popen(args(path, end))
        wait_for(process, path, rng.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        reached.append(br.load(path).t if path.exists() else 0)
    assert reached == sorted(reached) and reached[0] < 120
    for where in ((path, end), (tmp_path / "whole.npz", tmp_path / "whole_end.npz")):
        subprocess.run(args(*where), check=True)
    killed, whole = br.load(end), br.load(tmp_path / "whole_end.npz")
    assert killed.t == 120 and same_state(killed.state, whole.state)
    assert killed.rows == whole.rows and killed.continuation == whole.continuation


@pytest.mark.parametrize("name", ["bong-lin-hess-fc", "bong-lin-hess-dlr", "bong-mc-ef-diag"])
def test_compiled_runs_resume_bit_for_bit_from_a_checkpoint(name, tmp_path):
    """In the full-covariance family too, where the compiled path defers updates of the matrix."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 6))
    T, model, path = np.sin(Z[:, 0]), br.models.mlp([6, 4, 1]), tmp_path / "run.npz"
    m = br.method(name, **({"rank": 3} if name.endswith("dlr") else {}))
    args = (m, model, UNIT, m.prior(model.init(1), 0.1))
    kw = {"checkpoint": path, "every": 7, "backend": "fast"}
    copies = []

    def keep(*_):
        copies.append(path.read_bytes() if path.exists() else None)
        return {}

    whole = br.run(*args, Z, T, rng=3, metrics=keep, **kw)
    assert len(copies) == 5
    for raw in copies[1:]:
        path.write_bytes(raw)
        again = br.run(*args, Z, T, rng=8, metrics=lambda *_: {}, resume=br.load(path), **kw)
        assert same_state(again.state, whole.state) and again.rows == whole.rows


def test_estimators_are_known_by_their_names_only():
    assert set(checkpoints.ESTIMATORS) == {"BongRegressor", "BongClassifier"}


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refused(*args, **kwargs):
        raise OSError(30, "Read-only file system", args[0])

    path = tmp_path / "a.npz"
    monkeypatch.setattr(files.os, "open", refused)
    with pytest.raises(OSError, match="Read-only") as caught:
        br.save(path, br.Diag(np.zeros(1), np.ones(1)))
    assert caught.value.filename == str(path)


def test_a_path_with_a_null_character_is_refused():
    with pytest.raises(br.InvalidValue, match="null character"):
        br.save("a\0b.npz", br.Diag(np.zeros(1), np.ones(1)))


def test_a_stream_of_samples_does_not_resume_without_its_generator():
    m = br.method("bong-mc-ef-diag", n_samples=2)
    X, y = np.ones((4, 1)), np.ones(4)
    args = (m, br.models.linear(1), br.likelihoods.Gaussian(var=1.0), m.prior(np.zeros(1)))
    samples = np.random.default_rng(0).standard_normal((4, 1, 2, 1))
    half = br.run(*args, X[:2], y[:2], samples=samples[:2])
    with pytest.raises(br.InvalidValue, match="samples="):
        br.run(*args, X, y, rng=0, resume=half)
    whole = br.run(*args, X, y, samples=samples, resume=half)
    np.testing.assert_array_equal(whole.state.mu, br.run(*args, X, y, samples=samples).state.mu)

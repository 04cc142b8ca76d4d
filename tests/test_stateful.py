"""Filter, run with resume, and the store of results: any sequence of calls against a plain model."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import bongref as br
from bongref.experiments import store

MODEL, LIK = br.models.linear(2, bias=True), br.likelihoods.Gaussian(var=0.5)
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((60, 2)), RNG.standard_normal(60)
NAMES = ("bong-lin-hess-fc", "blr-lin-hess-diag", "bong-lin-ef-dlr", "bong-mc-ef-diag")
DYNAMICS = (None, br.dynamics.OU(gamma=0.9, mu0=0.0, var0=1.0))
BAD = ((X[0, :1], 0.0), (X[0], np.nan), ([np.inf, 0.0], 0.0), (X[0], "1"), (None, 1.0))
EXAMPLES = int(os.environ.get("BONGREF_EXAMPLES", "8"))  # 300 for a thorough run
MACHINES = settings(max_examples=EXAMPLES, stateful_step_count=10, deadline=None)


def method(name):
    return br.method(name, **({"rank": 2} if name.endswith("dlr") else {}))


def arrays(state):
    return [np.asarray(a) for a in state]


def equal(a, b):
    return all(np.array_equal(u, v) for u, v in zip(arrays(a), arrays(b), strict=True))


# --- Filter ---------------------------------------------------------------------------------------


class Filters(RuleBasedStateMachine):
    """The model: the list of what was observed; its state is made again from the first one on."""

    @initialize(
        name=st.sampled_from(NAMES),
        dynamics=st.sampled_from(DYNAMICS),
        backend=st.sampled_from(("reference", "auto")),
    )
    def begin(self, name, dynamics, backend):
        self.m, self.dynamics, self.backend = method(name), dynamics, backend
        self.prior = self.m.prior(np.zeros(3), 1.0, rng=0)
        self.f = br.Filter(
            self.m, MODEL, LIK, self.prior, dynamics=dynamics, rng=7, backend=backend
        )
        self.seen = []

    @rule(k=st.integers(0, 59), missing=st.booleans())
    def one(self, k, missing):
        self.f.learn_one(X[k], None if missing else Y[k])
        self.seen.append((X[k], None if missing else Y[k]))

    @rule(k=st.integers(0, 50), n=st.integers(1, 6))
    def many(self, k, n):
        self.f.learn_many(X[k : k + n], Y[k : k + n])
        self.seen += list(zip(X[k : k + n], Y[k : k + n], strict=True))

    @rule(n=st.integers(1, 3))
    def forget(self, n):
        self.f.forget(n)
        self.seen += [(X[0], None)] * n

    @rule(bad=st.sampled_from(BAD))
    def refused(self, bad):
        with pytest.raises((br.InvalidValue, br.InvalidType)):
            self.f.learn_one(*bad)

    @rule(k=st.integers(0, 59))
    def predict(self, k):
        self.f.predict_one(X[k])
        self.f.log_score(X[k], Y[k])

    @rule()
    def saved(self):
        with tempfile.TemporaryDirectory() as folder:
            br.save(Path(folder) / "f.npz", self.f)
            self.f = br.load(Path(folder) / "f.npz")

    @invariant()
    def same(self):
        if not hasattr(self, "f"):
            return
        assert self.f.t == len(self.seen)
        state, rng = self.prior, np.random.default_rng(7)
        for x, y in self.seen:
            if self.dynamics is not None:
                state = br.predict(state, self.dynamics)
            state, _ = br.update(self.m, MODEL, LIK, state, x, y, rng=rng)
        for a, b in zip(arrays(self.f.state), arrays(state), strict=True):
            wanted, got = (v @ v.T if v.ndim == 2 and v.shape[1] == 2 else v for v in (b, a))
            assert np.allclose(got, wanted, rtol=1e-9, atol=1e-11)


# --- run with resume ------------------------------------------------------------------------------


class Resumed(RuleBasedStateMachine):
    """The model: one run over the same rows, from the first one."""

    @initialize(name=st.sampled_from(NAMES), dynamics=st.sampled_from(DYNAMICS))
    def begin(self, name, dynamics):
        self.m, self.dynamics, self.result = method(name), dynamics, None

    def go(self, T, resume, *more):
        metrics = [br.metrics.on(X[:9], Y[:9], "rmse"), *more]
        prior = self.m.prior(np.zeros(3), 1.0, rng=0)
        how = {"dynamics": self.dynamics, "rng": 3, "every": 2, "metrics": metrics}
        return br.run(self.m, MODEL, LIK, prior, X[:T], Y[:T], **how, resume=resume,
                      progress=False, backend="reference")  # fmt: skip

    @property
    def t(self):
        return 0 if self.result is None else self.result.t

    @rule(n=st.integers(0, 9))
    def further(self, n):
        self.result = self.go(max(1, min(60, self.t + n)), self.result)

    @precondition(lambda self: self.t <= 50)
    @rule(n=st.integers(3, 9), calls=st.integers(1, 3))
    def interrupted(self, n, calls):
        left = [calls]

        def stop(*_):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return {}

        try:
            self.result = self.go(self.t + n, self.result, stop)
        except br.errors.Interrupted as error:
            self.result = error.result

    @precondition(lambda self: self.result is not None)
    @rule()
    def saved(self):
        with tempfile.TemporaryDirectory() as folder:
            br.save(Path(folder) / "r.npz", self.result)
            self.result = br.load(Path(folder) / "r.npz")

    @precondition(lambda self: self.t > 1)
    @rule()
    def refused(self):
        with pytest.raises(br.InvalidValue):
            self.go(self.t - 1, self.result)

    def teardown(self):
        if self.t == 0:
            return
        whole = self.go(self.t, None)
        self.result = self.go(self.t, self.result)  # takes the row that Ctrl-C left out
        assert equal(self.result.state, whole.state)
        mine, wanted = ([row for row in r.rows if row["t"] % 2 == 0] for r in (self.result, whole))
        assert mine == wanted
        assert len({row["t"] for row in self.result.rows}) == len(self.result.rows)


# --- the store of results -------------------------------------------------------------------------

IDS = st.integers(0, 5).map(lambda k: f"{k:016x}")


class Stores(RuleBasedStateMachine):
    """The model: the lines that are whole, as a list of (id, value)."""

    def __init__(self):
        super().__init__()
        self.folder, self.out, self.lines = Path(tempfile.mkdtemp()), None, []
        self.path = self.folder / store.NAME

    def teardown(self):
        if self.out is not None:
            self.out.close()
        shutil.rmtree(self.folder)

    @precondition(lambda self: self.out is None)
    @rule()
    def open(self):
        try:
            self.out = store.writer(self.folder)
        except br.InvalidValue:  # every line is damaged: not a file of results
            assert self.lines and all(v is None for _, v in self.lines)
            self.path.unlink()
            self.lines = []
            return
        assert set(self.out.status) == {id for id, v in self.lines if v is not None}

    @precondition(lambda self: self.out is not None)
    @rule(id=IDS, value=st.floats(allow_nan=False), size=st.integers(0, 40))
    def append(self, id, value, size):
        rows = [{"t": 1, "rmse": value, "note": "x" * size}]
        self.out.append({"id": id, "status": "done", "rows": rows})
        self.lines.append((id, value))

    @precondition(lambda self: self.out is not None)
    @rule(
        id=IDS,
        error=st.sampled_from((OSError(28, "full"), KeyboardInterrupt())),
        half=st.booleans(),
    )
    def failing(self, id, error, half):
        """A write that fails in its middle, or is interrupted after it: the line is not counted."""

        def write(file, data):
            writing(file, data[: len(data) // 2] if half else data)
            raise error

        writing, store.os.write = store.os.write, write
        try:
            with pytest.raises(type(error)):
                self.out.append({"id": id, "status": "done", "rows": [{"t": 1, "rmse": -1.0}] * 9})
        finally:
            store.os.write = writing
        self.out.append({"id": id, "status": "done", "rows": [{"t": 1, "rmse": 2.0}]})
        self.lines.append((id, 2.0))

    @precondition(lambda self: self.out is not None)
    @rule()
    def second_writer(self):
        with pytest.raises(br.InvalidValue, match="is being written to by process"):
            store.writer(self.folder)

    @precondition(lambda self: self.out is not None)
    @rule()
    def close(self):
        self.out.close()
        self.out = None

    @precondition(lambda self: self.out is None and self.path.exists())
    @rule(tail=st.binary(min_size=1, max_size=40).filter(lambda b: b"\n" not in b))
    def torn(self, tail):
        with open(self.path, "ab") as file:
            file.write(tail)

    @precondition(lambda self: self.out is None and any(v is not None for _, v in self.lines))
    @rule(data=st.data())
    def damaged(self, data):
        raw = self.path.read_bytes().split(b"\n")
        k = data.draw(st.sampled_from([k for k, (_, v) in enumerate(self.lines) if v is not None]))
        at = data.draw(st.integers(0, len(raw[k]) - 1))
        raw[k] = raw[k][:at] + bytes([raw[k][at] ^ 0x80]) + raw[k][at + 1 :]
        self.path.write_bytes(b"\n".join(raw))
        self.lines[k] = (self.lines[k][0], None)

    @invariant()
    def same(self):
        if not self.lines or all(v is None for _, v in self.lines):
            return
        found = {r["id"]: r["rows"][0]["rmse"] for r in store.read(self.folder).records}
        assert found == {id: v for id, v in self.lines if v is not None}
        damaged = [k for k, (_, v) in enumerate(self.lines, 1) if v is None]
        assert store.scan_folder(self.folder).damaged == damaged


Filters.TestCase.settings = Resumed.TestCase.settings = MACHINES
Stores.TestCase.settings = settings(MACHINES, max_examples=8 * EXAMPLES)  # which cost little
TestFilter, TestResume, TestStore = Filters.TestCase, Resumed.TestCase, Stores.TestCase

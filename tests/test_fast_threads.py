"""Threads: the same bits with any number of them, and safe after a fork, in several Python
threads, in worker processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_fast_streams import assert_agree, case, run
from threadpoolctl import threadpool_info, threadpool_limits

import bongref as br
from bongref import checks
from bongref.fast import estimators, stream, threads
from bongref.fast.jit import config

compiled = pytest.mark.skipif(config.DISABLE_JIT, reason="threads share work in machine code only")
NAMES = ["blr-mc-ef-diag", "bong-mc-ef-diag_mom", "bong-mc-ef-dlr", "bbb-mc-ef-fc"]


@pytest.fixture
def shared(monkeypatch):
    """A function that makes every stream of mc-ef share its samples among so many threads."""

    def among(n):
        monkeypatch.setattr(stream, "SHARED_NUMBERS", 0)
        monkeypatch.setattr(threads, "idle", lambda: n)

    return among


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_shared_samples_give_the_reference_stream(name, model, shared):
    shared(2)
    assert_agree(case(name, model, "poisson", "ou", 5))


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_threads_changes_no_bit(name, shared):
    c, states = case(name, "mlp", "categorical", "ou", 8, T=10), []
    for n in (2, 3, 2, 1):  # one: on a busy machine
        shared(n)
        states.append(run(c, "fast").state)
    assert all(same(states[0], state) for state in states[1:])


def test_a_diagonal_stream_has_the_bits_of_the_compiled_loop(shared):
    c = case("blr-mc-ef-diag", "mlp", "categorical", "ou", 8, T=10)
    c = c._replace(m=br.method("blr-mc-ef-diag", alpha=0.2, n_iter=3, n_samples=37))
    alone = run(c, "fast").state
    shared(3)
    assert same(alone, run(c, "fast").state)


@pytest.mark.parametrize("load", [0.0, 1.0, 2.0, 50.0])
def test_threads_are_not_started_where_other_work_keeps_the_processors(load, monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(threads, "available", lambda: 2)
    assert threads.idle() == (2 if load <= 1 else 1)


def blas_threads():
    return [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]


def test_the_limit_of_blas_holds_in_every_python_thread():
    """threadpoolctl heeds one controlling thread; streams begin and end in any."""
    seen = []

    def look():
        with threads.one_blas_thread():
            seen.append(blas_threads())

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        look()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(look).result()
            inside = threads.one_blas_thread()
            inside.__enter__()  # here, and left in the other thread
            pool.submit(inside.__exit__, None, None, None).result()
        assert all(n == 1 for counts in seen for n in counts) and len(seen) == 2
        assert blas_threads() == before


# --- where users run Python -----------------------------------------------------------------------

SETTING = """
import os, sys, numpy as np, bongref as br
from bongref.fast import stream, threads
stream.SHARED_NUMBERS, threads.idle = 0, lambda: 2
model, lik = br.models.mlp([2, 3, 2]), br.likelihoods.Categorical()
m = br.method("bong-mc-ef-diag", n_samples=9)

def go(seed=1):
    prior = m.prior(mu=np.zeros(model.n_params), var=1.0)
    X, Y, rng = np.ones((4, 2)), np.arange(4) % 2, np.random.default_rng(seed)
    return br.run(m, model, lik, prior, X, Y, rng=rng, backend="fast").state.mu

if __name__ == "__main__":
    first = go()
"""
FORK = """
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(go(), first) else 1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
TWO_THREADS = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(2) as pool:
        assert all(np.array_equal(a, first) for a in pool.map(go, [1] * 8))
"""
LOKY = """
    from joblib import Parallel, delayed
    found = Parallel(n_jobs=2)(delayed(go)() for _ in range(4))
    assert all(np.array_equal(a, first) for a in found)
"""
DASK = """
    import dask
    for how in ("threads", "processes"):
        found = dask.compute(*[dask.delayed(go)() for _ in range(4)], scheduler=how)
        assert all(np.array_equal(a, first) for a in found)
"""
DISTRIBUTED = """
    from dask.distributed import Client
    with Client(n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        jobs = [client.submit(go, pure=False) for _ in range(4)]
        assert all(np.array_equal(a, first) for a in client.gather(jobs))
"""


def python(code, tmp_path, **env):
    file = tmp_path / "setting.py"
    file.write_text(SETTING + code)
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@compiled
@pytest.mark.parametrize(
    ("code", "needs"),
    [
        (FORK, "os"),
        (TWO_THREADS, "os"),
        (LOKY, "joblib"),
        (DASK, "dask"),
        (DISTRIBUTED, "distributed"),
    ],
    ids=["fork", "threads", "loky", "dask", "distributed"],
)
def test_after_a_threaded_stream(code, needs, tmp_path):
    pytest.importorskip(needs)
    if code is FORK and not hasattr(os, "fork"):
        pytest.skip("no forks here")
    python(code, tmp_path)


@compiled
def test_with_one_thread(tmp_path):
    python(
        "    assert threads.available() == 1 and np.array_equal(go(), first)\n",
        tmp_path,
        NUMBA_NUM_THREADS="1",
    )


# --- the threads of BLAS --------------------------------------------------------------------------


def blas():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("name", ["blr-lin-hess-dlr", "bong-mc-ef-fc", "blr-lin-hess-fc_mom"])
def test_blas_has_its_threads_back_after_streams_in_several_threads(name):
    c = case(name, "mlp", "gaussian", "static", 3, T=30)
    run(c, "fast")
    before = blas()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda seed: run(c, "fast", seed=seed), range(6)))
    assert blas() == before


def test_blas_has_its_threads_back_after_an_error():
    before = blas()
    with pytest.raises(ZeroDivisionError), threads.one_blas_thread(), threads.one_blas_thread():
        assert set(blas()) == {1}
        raise ZeroDivisionError
    assert blas() == before


def test_the_estimator_is_the_compiled_one_where_threads_do_not_pay():
    c = case("bong-mc-ef-diag", "mlp", "gaussian", "static", 3)
    data = checks.Observations(
        c.X, np.zeros((len(c.X), c.model.n_outputs)), np.ones(len(c.X), bool)
    )
    made = stream.Stream(c.m, c.model, c.lik, data, c.dynamics, np.random.default_rng(0), None)
    assert isinstance(made.est, estimators.McDiag)

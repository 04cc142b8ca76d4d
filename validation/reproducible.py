"""The same bits in every process: python -m validation.reproducible

Streams of every rule, estimator and family on both backends, saved files and records of ``bongref
run`` are made in new processes with one thread, under several values of PYTHONHASHSEED, with the
methods in another order, in a child of a fork, in a process that ``spawn`` and ``loky`` started, and
in a thread. Each gives one digest for each method, and all must be the same, bit for bit. Then the
smoke tests run in three random orders. Writes ``results/reproducible.json``; exit status 1 at any
difference.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
FILE = ROOT / "validation" / "results" / "reproducible.json"
HASHES = ("0", "1", "4294967295", "random")
ORDERS = (1, 2, 3)
ONE = {f"{k}_NUM_THREADS": "1" for k in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


def digests(order: int) -> dict[str, str]:
    """A digest for each method and backend, in one order of the methods."""
    import bongref as br

    names = [n for n in br.methods() if n not in ("bong-mc-hess-dlr", "blr-mc-hess-dlr")]
    random.Random(order).shuffle(names)
    rng = np.random.default_rng(5)
    X, Y = rng.standard_normal((4, 3)), rng.standard_normal(4) / 4
    model, lik = br.models.mlp([3, 3, 1]), br.likelihoods.Gaussian(var=1.0)
    out = {}
    for name in names:
        small = {"rank": 2, "n_samples": 3, "n_iter": 2}
        m = br.method(name, **{k: v for k, v in small.items() if k in br.method(name).params})
        prior = m.prior(model.init(0), 0.01, rng=0)
        for backend in ("reference", "auto") if name.endswith("-diag") else ("reference",):
            how = {"rng": 0, "backend": backend, "progress": False}
            try:
                state = br.run(m, model, lik, prior, X, Y, **how).state
            except br.errors.StreamEnded as error:  # a gradient step too long, reported
                state = error.state
            out[f"{name} {backend}"] = _sum(b"".join(a.tobytes() for a in state))
    with tempfile.TemporaryDirectory() as folder:
        br.save(Path(folder) / "x.npz", br.DLR(np.arange(3.0), np.ones(3), np.eye(3)[:, :2]))
        out["file"] = _sum((Path(folder) / "x.npz").read_bytes())
    return dict(sorted(out.items()))


def _sum(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def recorded() -> str:
    """The digest of the records of a small grid."""
    from bongref.cli import main
    from bongref.experiments import records, store

    with tempfile.TemporaryDirectory() as folder:
        grid = ["run", "linear", "--set", "n=40", "--steps", "20", "--seeds", "2", "-q"]
        methods = ["--methods", "bong-mc-ef-diag,bong-lin-hess-fc", "--out", folder]
        if main([*grid, *methods, "--workers", "1"]):
            raise SystemExit("bongref run failed")
        return records.digest(store.read(folder).records)


def everything(order: int) -> str:
    return _sum(json.dumps([digests(order), recorded()]).encode())


def in_a_new_process(order: int, **env: str) -> str:
    words = [sys.executable, "-W", "ignore", "-m", "validation.reproducible", "--go", str(order)]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **ONE, **env}, capture_output=True, text=True
    )
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr[-800:]


def _into(queue: Any, order: int) -> None:
    queue.put(everything(order))


def in_this_process(order: int) -> dict[str, str]:
    """The ways of starting something from a process that has already computed."""
    found = {}
    for how in ("fork", "spawn"):
        context = multiprocessing.get_context(how)
        queue = context.Queue()
        process = context.Process(target=_into, args=(queue, order))
        process.start()
        found[how] = queue.get()
        process.join()
    from loky import get_reusable_executor

    found["loky"] = get_reusable_executor(max_workers=1).submit(everything, order).result()
    inside: list[str] = []
    thread = threading.Thread(target=lambda: inside.append(everything(order)))
    thread.start()
    thread.join()
    return {**found, "thread": inside[0]}


def ordered(seed: int) -> str:
    """The smoke tests in a random order: what pytest says last."""
    words = [sys.executable, "-m", "pytest", "-m", "smoke", "-q", "-n", "0"]
    done = subprocess.run(
        [*words, "-p", "randomly", f"--randomly-seed={seed}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    last = done.stdout.strip().splitlines()[-1:]
    return (
        f"{'ok' if done.returncode == 0 else 'FAILED'}: {last[0] if last else done.stderr[-300:]}"
    )


def main() -> int:
    if sys.argv[1:2] == ["--go"]:
        print(everything(int(sys.argv[2])))
        return 0
    found = {f"PYTHONHASHSEED={h}": in_a_new_process(0, PYTHONHASHSEED=h) for h in HASHES}
    found["methods in another order"] = in_a_new_process(1)
    code = "import json; from validation.reproducible import in_this_process as f; "
    code += "print(json.dumps(f(0)))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, env={**os.environ, **ONE},
        capture_output=True, text=True,
    )  # fmt: skip
    found |= (
        json.loads(done.stdout.splitlines()[-1])
        if done.returncode == 0
        else {"fork": done.stderr[-800:]}
    )
    same = len(set(found.values())) == 1
    out: dict[str, Any] = {"same": same, "digests": found}
    if "--quick" not in sys.argv:
        out["smoke tests in random orders"] = {str(s): ordered(s) for s in ORDERS}
        FILE.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(out, indent=1))
    passed = all(t.startswith("ok") for t in out.get("smoke tests in random orders", {}).values())
    return int(not (same and passed))


if __name__ == "__main__":
    sys.exit(main())

"""Results as ``bongref run`` writes them, made up: for tests of reports."""

import numpy as np

from bongref.experiments import store
from bongref.experiments.records import fingerprint
from bongref.grid import method

TASK = {
    "name": "moons", "params": {"n": 400}, "part": "test", "kind": "binary", "n_train": 400,
    "n_test": 100, "n_inputs": 2, "n_outputs": 1, "classes": ["0", "1"], "obs_var": None,
    "model": {"kind": "mlp", "sizes": [2, 16, 1]}, "prior": "equal", "prior_var": 1.0,
    "order": "shuffled", "split": {"test": "of the task"},
     "standardisation": {"X": None, "Y": None},
    "checksum": "ab" * 32, "files": {},
}  # fmt: skip
STEPS = (50, 100, 200, 400)
METRICS = ("nlpd-plugin", "nlpd-lin_mc", "error", "ece")


def record(
    name, seed=0, *, task=TASK, diverges=None, status=None, offset=0.0, adapter=None,
    metrics=METRICS, steps=STEPS, bongref="0.1.0", host="lab", noise=0.02, **params,
):  # fmt: skip
    """One record; its curve falls from the offset plus 0.7 to the offset plus 0.1, with noise."""
    settings = {
        "steps": steps[-1], "prior_var": None, "obs_var": None, "gamma": None, "eval_samples": 100,
        "metrics": {m: list(steps) for m in metrics},
    }  # fmt: skip
    full = dict(method(name, **params).params) if adapter is None else dict(params)
    rng = np.random.default_rng([seed, int(fingerprint([name, full]), 16) % 2**32])
    rows = [
        {
            "t": t,
            **{m: offset + 0.1 + 30 / (t + 50) + noise * rng.standard_normal() for m in metrics},
        }
        for t in steps
        if diverges is None or t < diverges
    ]
    identity = [task, name, full, settings, seed, adapter]
    regression = task["kind"] == "regression"
    n = rng.integers(1, 20, 20)
    counts = {"kind": "pit", "count": n.tolist()} if regression else {
        "kind": "confidence", "count": n.tolist(),
         "confidence": (n * (np.arange(20) + 0.5) / 20).tolist(),
        "correct": (n * np.clip((np.arange(20) + 0.5) / 20 + 0.1 * rng.standard_normal(), 0,
         1)).round().tolist(),
    }  # fmt: skip
    now = status or ("done" if diverges is None else "diverged")
    return {
        "id": fingerprint([*identity, bongref]), "key": fingerprint(identity), "status": now,
        "task": task, "method": name, "params": full, "settings": settings, "seed": seed,
        "adapter": adapter, "versions": {"bongref": bongref, "numpy": "2.0"},
        "step": diverges or (0 if now == "failed" else steps[-1]),
        "reason": {"done": "", "diverged": f"overflow at step {diverges}"}.get(now, "bad input"),
        "rows": [] if now == "failed" else rows,
         "calibration": {} if now != "done" else {"plugin": counts},
        "warnings": [], "command": f"bongref run moons --methods {name} --seed {seed} --out run-x",
        "timing": {"steps": 0.01 * (1 + int(fingerprint(name)[:2], 16)), "evaluation": 0.1,
         "compilation": 0.0, "total": 0.5,
                   "backend": "fast", "host": host, "begun": 0.0},
    }  # fmt: skip


def folder(path, records):
    """A folder of these records."""
    with store.writer(path) as out:
        for one in records:
            out.append(one)
    return path


def small(**more):
    """Three methods, three seeds, one run that diverges."""
    return [
        record(name, seed, diverges=230 if (name, seed) == ("blr-lin-hess-diag", 1) else None,
         offset=0.1 * k, **more)
        for seed in range(3)
        for k, name in enumerate(("bong-lin-hess-diag", "blr-lin-hess-diag", "bog-lin-ef-diag"))
    ]  # fmt: skip

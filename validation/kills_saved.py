"""Kill a process that saves its state at random moments, again and again: python -m
validation.kills_saved [--kills 50]

Three programs learn the same stream with an mc method: ``br.run(checkpoint=PATH, every=…)``, and a
:class:`bongref.Filter` and a BongRegressor that are saved after every few rows. Each is computed
once without interruption. Then it is killed by -9 at random moments, that often in a row (after at
most 0.4 of the time that the whole takes, so that most processes end in a kill): every new process
goes on from the file that the last one left. The file must be readable after every kill, and at the
end state, rows and generator must have the bits of the run that was not killed. Exit status 1 if
anything differs. With ``--in-a-row`` a life is as long as a start and at most 1.5/kills of the
work, so that all kills fall into one stream.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import bongref as br

PROGRAMS = ("run", "filter", "estimator")
ROWS, CHUNK, PAUSE = 3000, 10, 0.004  # the pause makes a life long enough to be killed in
SHARE = 0.4  # of the whole time, in which a process is killed


def stream() -> tuple[Any, Any]:
    """The same rows in every process."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((ROWS, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(ROWS)


def digest(path: Path) -> str:
    """Of everything in a file but the times that it took."""
    with np.load(path) as file:
        document = json.loads(file["bongref"].tobytes())
        arrays = {k: file[k].tobytes() for k in sorted(file.files) if k != "bongref"}
    data = document["data"]
    if "info" in data:
        data["info"] = {k: data["info"][k] for k in ("backend", "steps", "missing")}
    found = hashlib.blake2b(json.dumps(data, sort_keys=True).encode())
    for name, raw in arrays.items():
        found.update(name.encode() + raw)
    return found.hexdigest()[:16]


# --- the programs that are killed


def go(program: str, path: Path) -> None:
    """Go on from the file, or begin; at the end all rows are learned."""
    X, y = stream()
    old = br.load(path) if path.exists() else None
    if program == "run":
        m, model = br.method("bong-mc-ef-dlr", rank=3, n_samples=4), br.models.mlp([3, 8, 1])
        lik, scores = br.likelihoods.Gaussian(var=0.1), br.metrics.on(X[:50], y[:50], "nlpd-mc")
        br.run(m, model, lik, m.prior(model.init(0), 0.3, rng=0), X, y, rng=0,
               every=CHUNK, metrics=scores, checkpoint=path,
               resume=old, progress=False)  # fmt: skip
        return
    if program == "filter":
        one = old or br.Filter(
            "bong-mc-ef-diag", br.models.mlp([3, 8, 1]), br.likelihoods.Gaussian(var=0.1), rng=0
        )
        learn, seen = one.learn_many, one.t
    else:
        from bongref.sklearn import BongRegressor

        small = {"hidden_layer_sizes": (6,), "gamma": 0.999, "random_state": 0}
        one = old or BongRegressor(
            "bong-mc-ef-dlr", method_params={"rank": 2, "n_samples": 3}, **small
        )
        learn, seen = one.partial_fit, 0 if old is None else one.n_samples_seen_
    for at in range(seen, ROWS, CHUNK):
        learn(X[at : at + CHUNK], y[at : at + CHUNK])
        br.save(path, one)
        time.sleep(PAUSE)


# --- the killer


def life(program: str, path: Path, seconds: float | None) -> bool:
    """Whether the program ended by itself within so many seconds; else it is killed."""
    command = [sys.executable, "-m", "validation.kills_saved", "--go", program, str(path)]
    child = subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    try:
        if child.wait(timeout=seconds):
            raise SystemExit(f"{program}: status {child.returncode}")
        return True
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return False


def timed(program: str, path: Path) -> float:
    """Seconds of the program to its end."""
    begun = time.monotonic()
    life(program, path, None)
    return time.monotonic() - begun


def killed(program: str, kills: int, seed: int, folder: Path, in_a_row: bool = False) -> str:
    """One line about the program; raises SystemExit where something is wrong."""
    moments, whole = random.Random(f"{seed} {program}"), folder / "whole.npz"
    life(program, folder / "first.npz", None)  # fills the cache of compiled code
    length, want = timed(program, whole), digest(whole)
    shortest, longest = 0.0, SHARE * length
    if in_a_row:
        start = timed(program, whole)  # of a process that has nothing left to learn
        shortest, longest = 0.8 * start, start + 1.5 * (length - start) / kills
    done, files, advanced, streams = 0, 0, set(), 0
    while done < kills:
        path, ended = folder / f"killed-{streams}.npz", False
        while not ended:
            ended = life(
                program, path, None if done == kills else moments.uniform(shortest, longest)
            )
            done += not ended
            if not ended and path.exists():
                files += 1
                br.load(path)  # the old or the new one, and whole
                advanced.add((streams, digest(path)))
        streams += 1
        if files == 0:
            raise SystemExit(
                f"{program}: {done} kills, all before the first save: nothing is shown"
            )
        if (got := digest(path)) != want:
            raise SystemExit(f"{program}: after {done} kills the bits differ: {got}, {want}")
    return (
        f"{program}: {done} kills at random moments of {length:.1f} s, {streams} streams to their end; {files} files read after a kill, "
        f"{len(advanced)} of them different; the bits of the run that was not killed: {want}"
    )


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(
        prog="python -m validation.kills_saved", description=(__doc__ or "").split("\n")[0]
    )
    p.add_argument("--kills", type=int, default=50, help="of each program")
    p.add_argument("--seed", type=int, default=0, help="of the moments")
    p.add_argument("--only", choices=PROGRAMS)
    p.add_argument("--in-a-row", action="store_true", help="all kills in one stream")
    p.add_argument("--go", nargs=2, metavar=("PROGRAM", "PATH"), help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    if args.go:
        go(args.go[0], Path(args.go[1]))
        return 0
    for program in PROGRAMS if args.only is None else (args.only,):
        with tempfile.TemporaryDirectory() as name:
            line = killed(program, args.kills, args.seed, Path(name), args.in_a_row)
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

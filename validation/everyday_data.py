"""The data sets of validation/everyday.py: those of the table, and others on which defaults are
chosen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

UCI = ("concrete", "energy", "yacht", "wine", "airfoil", "kin40k", "pol", "protein")
TABLE = ("diabetes", "digits", *UCI)
# none of these is in the table; rows at most 3,000 of each
OTHER = ("housing", "bike", "sarcos-1", "sarcos-4", "friedman1", "friedman3")
OTHER_CLASSES = ("breast-cancer", "iris", "mnist-3000")
PROTEIN = 10_000  # rows of protein, as the first 10,000
MOST = 3_000


class Split(NamedTuple):
    """Training rows in the order of the stream, and test rows."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def folder() -> Path:
    """The folder that BONGREF_DATA names."""
    path = os.environ.get("BONGREF_DATA")
    if not path:
        raise SystemExit("set BONGREF_DATA to the folder that has uci/, sarcos/ and mnist/")
    return Path(path)


def split(name: str, seed: int) -> Split:
    """Split ``seed`` of a set; UCI's own test masks, a random tenth (other sets: fifth)
    elsewhere.
    """
    rng = np.random.default_rng(seed)
    X, y, test = _read(name, seed, rng)
    train = rng.permutation(np.flatnonzero(~test))
    return Split(X[train], y[train], X[test], y[test])


def _read(name: str, seed: int, rng: Any) -> tuple[Any, Any, Any]:
    if name in UCI:
        A = _csv(name, "data")
        test = _csv(name, "test_mask")[:, seed].astype(bool)
        rows = slice(0, PROTEIN) if name == "protein" else slice(None)
        return A[rows, :-1], A[rows, -1], test[rows]
    X, y = _whole(name)
    if name not in TABLE:
        keep = rng.permutation(len(y))[:MOST]
        X, y = X[keep], y[keep]
    test = np.zeros(len(y), dtype=bool)
    test[rng.permutation(len(y))[: len(y) // (10 if name in TABLE else 5)]] = True
    return X, y, test


def _csv(name: str, what: str) -> Any:
    return np.loadtxt(folder() / "uci" / name / f"{what}.csv.gz", delimiter=",")


def _whole(name: str) -> tuple[Any, Any]:
    from sklearn import datasets

    if name == "diabetes":
        return datasets.load_diabetes(return_X_y=True, scaled=False)
    if name in ("digits", "iris", "breast-cancer"):
        return getattr(datasets, f"load_{name.replace('-', '_')}")(return_X_y=True)
    if name.startswith("friedman"):
        return getattr(datasets, f"make_{name}")(n_samples=1000, noise=0.5, random_state=0)
    if name.startswith("sarcos"):
        from scipy.io import loadmat

        A = loadmat(folder() / "sarcos" / "sarcos_inv_test.mat")["sarcos_inv_test"]
        return A[:, :21], A[:, 20 + int(name[-1])]
    if name.startswith("mnist"):
        return _mnist()
    A = _csv(name, "data")
    return A[:, :-1], A[:, -1]


def _mnist() -> tuple[Any, Any]:
    """The first 3,000 digits, 2 × 2 pixels averaged twice: 49 inputs."""
    import gzip

    read = lambda kind: gzip.open(folder() / "mnist" / f"train-{kind}-ubyte.gz").read()
    pixels = np.frombuffer(read("images-idx3"), np.uint8, MOST * 784, 16).reshape(-1, 7, 4, 7, 4)
    return pixels.mean(axis=(2, 4)).reshape(MOST, 49), np.frombuffer(
        read("labels-idx1"), np.uint8, MOST, 8
    )

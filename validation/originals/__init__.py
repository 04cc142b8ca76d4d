"""The literature's methods in their authors' own code, next to ours.

    python -m validation.originals

``bongref.theory.literature`` and ``bongref.theory.batch`` are written from the papers. Here the
same steps are taken by the code that the papers' authors have published, from the same state, data
and draws, and the largest relative difference is written down. An original is never part of this
repository: its checkout is named by an environment variable, or it is installed.

=========  =============================  ==================================  =====================
original   where                          what is called                      needs
=========  =============================  ==================================  =====================
rvga       BONGREF_ORIGINAL_RVGA          ``KalmanMachine.Kalman4LogisticReg``  NumPy, SciPy
lrvga      BONGREF_ORIGINAL_LRVGA         ``KalmanMachine.KFactorAnalysis``     NumPy
vadam      BONGREF_ORIGINAL_VADAM         ``vadam.optimizers.VOGN``             PyTorch
slang      BONGREF_ORIGINAL_SLANG         ``lib.optimizers.slang.SLANG``        PyTorch
ivon       pip install ivon-opt           ``ivon.IVON``                         PyTorch
rebayes    BONGREF_PEER_REBAYES           ``RebayesEKF``, ``RebayesLoFi*``      JAX
=========  =============================  ==================================  =====================

A module has one function, ``rows()``, and raises ImportError with the reason where its original is
absent.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

EPS = float(np.finfo(np.float64).eps)
ORIGINALS = {
    "rvga": "marc-h-lambert/RVGA",
    "lrvga": "marc-h-lambert/L-RVGA",
    "vadam": "emtiyaz/vadam",
    "slang": "aaronpmishkin/SLANG",
    "ivon": "ivon-opt",
    "rebayes": "probml/rebayes",
}


class Row(NamedTuple):
    """One comparison: the step in their code and in ours, and how far the two are apart.

    ``difference`` is the largest relative difference over ``cases`` streams, ``bound`` what
    rounding (or a tolerance that is theirs) explains. With ``expected`` = "other" the two are
    different methods, and the row is there to show by how much.
    """

    step: str
    theirs: str
    ours: str
    cases: int
    difference: float
    bound: float
    expected: str = "same"
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the difference is as expected: within the bound, or beyond it."""
        return (self.difference <= self.bound) == (self.expected == "same")


def checkout(variable: str, *inside: str) -> Path:
    """The folder of an original that an environment variable names, put on Python's path."""
    name = os.environ.get(variable)
    if not name:
        raise ImportError(f"{variable} is not set to a checkout of it")
    folder = Path(name, *inside)
    if not folder.is_dir():
        raise ImportError(f"{variable}={name}: there is no folder {'/'.join(inside) or name!r}")
    sys.path.insert(0, str(folder))
    return folder


def commit(folder: Path) -> str:
    """The commit of a checkout."""
    found = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True
    )
    return found.stdout.strip() or "unknown"


def relative(a: Any, b: Any) -> float:
    """The largest difference, relative to the largest entry."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b)))


def logistic_data(rng: np.random.Generator, n: int, P: int) -> tuple[Any, Any]:
    """Inputs (n, P) and labels 0 or 1 of a logistic regression; both labels occur."""
    while True:
        X = rng.standard_normal((n, P))
        y = (rng.random(n) < 1 / (1 + np.exp(-X @ rng.standard_normal(P)))).astype(float)
        if 0 < y.sum() < n:
            return X, y


def random_covariance(rng: np.random.Generator, P: int) -> Any:
    """Q diag(λ) Qᵀ with λ between 0.2 and 5: condition number at most 25."""
    Q, _ = np.linalg.qr(rng.standard_normal((P, P)))
    return (Q * rng.uniform(0.2, 5.0, P)) @ Q.T


def compute(name: str) -> dict[str, Any]:
    """One original: its version and its rows."""
    module = importlib.import_module(f"validation.originals.{name}")
    return {"version": module.version, "rows": [row._asdict() for row in module.rows()]}

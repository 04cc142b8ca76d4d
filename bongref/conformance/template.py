"""``bongref check --new my_adapter.py``: an adapter to fill in.

>>> from bongref.conformance import template
>>> "class Adapter" in template.TEXT
True
"""

from __future__ import annotations

from pathlib import Path

from ..errors import InvalidValue

TEXT = '''"""An adapter for `bongref check`: fill in what you offer, delete the rest.

    bongref check {stem}:Adapter

Arrays are NumPy arrays, all else is plain: docs/conformance.md says what each argument is. A call
that returns NotImplemented is "not offered", which is no failure. Raise to refuse an input.
"""

import numpy as np


class Adapter:
    name, dtype = "my implementation", "float64"  # or "float32"

    def step(self, method, prior, current, curv, params):
        """L0: one step from (g, G); this example is right for one method."""
        if method != "bong-lin-hess-diag":
            return NotImplemented
        if not np.all(prior["var"] > 0):
            raise ValueError("the variances of the prior must be positive")
        var = 1 / (1 / prior["var"] - curv["d"])
        return {{"mu": prior["mu"] + var * curv["g"], "var": var}}

    def estimate(self, hess, model, likelihood, theta, x, y, samples):
        """L1: a dict with g and one of S, G, d."""
        return NotImplemented

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        """L2: the state after one observation or mini-batch."""
        return NotImplemented

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        """L3: the last state of a stream, or a list of the state after each step."""
        return NotImplemented

    def predictive(self, kind, family, model, likelihood, state, X, samples, Y=None):
        """L4: a dict with mean, and with what there is of var, log_density, nlpd, error, ece."""
        return NotImplemented

    def predict(self, family, state, dynamics):
        """The prior of the next step."""
        return NotImplemented

    def draw(self, family, state, n, seed, normals):
        """n samples (n, P): from the rows of normals where they are given, or from the seed."""
        return NotImplemented
'''


def write(path: str) -> str:
    """Write the template to a new file; what was written, and how to run it."""
    file = Path(path)
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise InvalidValue(f"new must be a file like my_adapter.py, got {path!r}")
    if file.exists():
        raise InvalidValue(f"new must be a new file, and {path!r} is there")
    file.write_text(TEXT.format(stem=file.stem), encoding="utf-8")
    return f"written to {path}: fill it in, then bongref check {path}:Adapter"

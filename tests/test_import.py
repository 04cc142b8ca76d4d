"""What ``import bongref`` brings with it, what it does without, and how long it takes."""

import subprocess
import sys

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Block())
"""


def python(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_stays_light():
    heavy = ["scipy.stats", "numba", "mpmath", "matplotlib", "pandas", "sklearn", "hypothesis", "pytest"]
    code = f"import sys, bongref; print([m for m in {heavy!r} if m in sys.modules])"
    assert python(code) == "[]"


def test_import_writes_nothing():
    assert python("import bongref") == ""


USE = """
import numpy as np, bongref as br
model, lik = br.models.mlp([2, 2, 2]), br.likelihoods.Categorical()
X, Y = np.random.default_rng(0).standard_normal((3, 2)), [0, 1, 1]
for name in ("bong-lin-hess-fc", "blr-mc-ef-diag", "bong-mc-ef-dlr"):
    m = br.method(name, **({"rank": 2} if "dlr" in name else {}))
    prior = m.prior(model.init(np.random.default_rng(1)), 0.1)
    res = br.run(m, model, lik, prior, X, Y, rng=np.random.default_rng(2), metrics=br.metrics.on(X, Y, "nlpd-mc"))
    assert res.rows[0]["nlpd-mc"] > 0
"""


def test_works_without_the_optional_packages():
    block = BLOCK.format(names={"numba", "mpmath", "matplotlib", "sklearn", "pandas", "hypothesis", "pytest"})
    assert python(block + USE + "print('done')") == "done"


def test_without_mpmath_the_exact_route_of_the_projection_says_what_to_install():
    code = (
        BLOCK.format(names={"mpmath"})
        + """
import bongref as br
from bongref.cli import main
q = {"mu": [0.0, 0.0], "Ups": [1.0, 1.0], "W": [[1.0], [0.5]]}
curv = {"g": [1.0, 1.0], "S": [[1.0], [0.0]]}
fc = br.oracle.step("bong-lin-hess-fc", {"mu": [0.0], "Sigma": [[1.0]]}, None, {"g": [1.0], "S": [[1.0]]}, digits=30)
assert fc["Sigma"][0][0] == 0.5  # exact rationals need no package
assert br.oracle.step("bog-lin-hess-dlr", q, None, curv, alpha=0.1, digits=30)["valid"]
for name, params in (("bong-lin-hess-dlr", {}), ("blr-lin-hess-dlr", {"alpha": 0.5})):
    assert br.oracle.step(name, q, None, curv, **params)["valid"]
    try:
        br.oracle.step(name, q, None, curv, digits=30, **params)
    except ImportError as error:
        print(error)
print(main(["audit"]))
"""
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = "the exact route of bong and blr in DLR needs mpmath: pip install 'bongref[exact]'"
    assert done.stdout.splitlines() == [message, message, "2"], done.stderr
    assert done.stderr.strip() == f"bongref: {message}"


def test_import_takes_less_than_half_a_second():
    """On top of numpy and autograd, which anyone who calls it has; the best of three."""
    code = """
import time, numpy, autograd.numpy, autograd
start = time.perf_counter()
import bongref
print(time.perf_counter() - start)
"""
    assert min(float(python(code)) for _ in range(3)) < 0.5

"""What ``import bongref`` loads, and what it works without."""

import json
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
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LOADED = """
import json, sys
before = set(sys.modules)
import bongref as br
at_import = set(sys.modules) - before
br.method("bong-lin-hess-fc"), br.models.mlp([2, 2, 2]), br.likelihoods.Categorical()
at_use = set(sys.modules) - before
print(json.dumps([sorted(at_import), sorted(at_use)]))
"""


def test_import_loads_two_modules_and_nothing_else():
    """Everything else is loaded at first use, and the heavy packages not even then."""
    at_import, at_use = (
        set(names) for names in json.loads(python(LOADED))
    )  # one line: import writes nothing
    assert {m for m in at_import if m.split(".")[0] not in sys.stdlib_module_names} == {
        "bongref",
        "bongref._version",
    }
    heavy = {
        "numba",
        "mpmath",
        "matplotlib",
        "pandas",
        "polars",
        "sklearn",
        "hypothesis",
        "pytest",
        "tqdm",
    }
    assert not {m.split(".")[0] for m in at_use} & heavy
    assert not {"scipy.stats", "scipy.signal", "bongref.conformance", "bongref.fast"} & at_use
    assert {
        "numpy",
        "autograd",
        "bongref.grid",
        "bongref.models",
    } <= at_use  # so that the lines above can fail


USE = """
import numpy as np, bongref as br
model, lik = br.models.mlp([2, 2, 2]), br.likelihoods.Categorical()
X, Y = np.random.default_rng(0).standard_normal((3, 2)), [0, 1, 1]
for name in ("bong-lin-hess-fc", "blr-mc-ef-diag", "bong-mc-ef-dlr"):
    m = br.method(name, **({"rank": 2} if "dlr" in name else {}))
    prior = m.prior(model.init(np.random.default_rng(1)), 0.1)
    metrics = br.metrics.on(X, Y, "nlpd-mc")
    res = br.run(m, model, lik, prior, X, Y, rng=np.random.default_rng(2), metrics=metrics)
    assert res.rows[0]["nlpd-mc"] > 0
"""


def test_works_without_the_optional_packages():
    block = BLOCK.format(
        names={"numba", "mpmath", "matplotlib", "sklearn", "pandas", "hypothesis", "pytest"}
    )
    block += "import warnings; warnings.filterwarnings('ignore', 'the compiled path failed')\n"
    assert python(block + USE + "print('done')") == "done"


def test_without_mpmath_the_exact_route_of_the_projection_says_what_to_install():
    code = (
        BLOCK.format(names={"mpmath"})
        + """
import bongref as br
from bongref.cli import main
q = {"mu": [0.0, 0.0], "Ups": [1.0, 1.0], "W": [[1.0], [0.5]]}
curv = {"g": [1.0, 1.0], "S": [[1.0], [0.0]]}
prior, one = {"mu": [0.0], "Sigma": [[1.0]]}, {"g": [1.0], "S": [[1.0]]}
fc = br.oracle.step("bong-lin-hess-fc", prior, None, one, digits=30)
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


def test_without_numba_a_stream_warns_once_and_goes_on():
    code = (
        BLOCK.format(names={"numba"})
        + """
import warnings, numpy as np, bongref as br
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    args = (br.models.linear(1), br.likelihoods.Gaussian(1.0), br.Diag(np.zeros(1), np.ones(1)),
            [[1.0], [1.0]], [1.0, 1.0])
    br.run("bong-lin-ef-diag", *args, progress=False)
    result = br.run("bong-lin-hess-diag", *args, progress=False)
assert result.info.backend == "reference" and "numba" in result.info.reason
said = [(w.category, str(w.message)) for w in seen]
print([(c is br.errors.BongrefWarning, "the reference is used" in text) for c, text in said])
"""
    )
    assert python(code) == "[(True, True)]"

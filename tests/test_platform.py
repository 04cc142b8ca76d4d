"""A platform on which np.linalg does not raise: in a WebAssembly build of NumPy what LAPACK refuses
comes back as NaN.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import bongref as br
from bongref import checks, conformance, dynamics, gaussians, linalg
from bongref.conformance import runner
from bongref.errors import BongrefError

INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
SINGULAR = np.ones((2, 2))
GOOD = np.array([[2.0, 0.5], [0.5, 1.0]])


def _silent(name):
    """np.linalg's function with NaN in place of its exception."""
    real = getattr(np.linalg, name)

    def call(a, *args, **kwargs):
        try:
            return real(a, *args, **kwargs)
        except np.linalg.LinAlgError:
            nan = np.full(np.shape(args[0] if name == "solve" else a), np.nan)
            if name == "svd":
                return nan[0] if kwargs.get("compute_uv") is False else (nan, nan[0], nan)
            if name == "lstsq":
                return np.full(np.shape(args[0]), np.nan), nan[0], 0, nan[0]
            if name == "qr":
                return nan, nan
            if name == "eigh":
                return nan[0], nan
            return nan[0] if name in ("eigvals", "eigvalsh") else nan

    return call


@pytest.fixture(params=[False, True], ids=["raising", "silent"])
def platform(request, monkeypatch):
    """The tests run twice: as np.linalg is, and without its exceptions."""
    if request.param:
        for name in (
            "cholesky",
            "solve",
            "inv",
            "eigh",
            "eigvalsh",
            "eigvals",
            "svd",
            "qr",
            "lstsq",
        ):
            monkeypatch.setattr(np.linalg, name, _silent(name))
        assert np.all(np.isnan(np.linalg.cholesky(INDEFINITE)))  # the exceptions are gone


@pytest.mark.usefixtures("platform")
def test_the_operations_refuse_or_answer_with_nan():
    assert linalg.is_pd(GOOD) and not linalg.is_pd(INDEFINITE) and not linalg.is_pd(SINGULAR)
    for call in (
        lambda: linalg.cholesky(INDEFINITE),
        lambda: linalg.cholesky(np.full((2, 2), np.nan)),
        lambda: linalg.finite(linalg.solve(SINGULAR, np.ones(2))),
        lambda: linalg.finite(linalg.inv(SINGULAR)),
        lambda: linalg.eigh(np.full((2, 2), np.nan)),
        lambda: linalg.eigvalsh(np.full((2, 2), np.nan)),
        lambda: linalg.thin_svd(np.full((2, 2), np.nan)),
        lambda: linalg.singular_values(np.full((2, 2), np.nan)),
        lambda: linalg.qr(np.full((2, 2), np.nan)),
        lambda: linalg.lstsq(np.full((2, 2), np.nan), np.ones(2)),
        lambda: linalg.logdet(SINGULAR),
    ):
        with pytest.raises(np.linalg.LinAlgError):
            call()
    assert np.all(np.isnan(linalg.solve(SINGULAR, np.ones(2)))) and np.all(
        np.isnan(linalg.inv(SINGULAR))
    )
    np.testing.assert_allclose(
        linalg.inv(INDEFINITE), [[-1 / 3, 2 / 3], [2 / 3, -1 / 3]], rtol=8 * np.finfo(float).eps
    )


@pytest.mark.usefixtures("platform")
def test_states_likelihoods_and_dynamics_are_refused():
    bad = br.FC(np.zeros(2), INDEFINITE)
    assert not gaussians.is_valid(bad) and gaussians.is_valid(br.FC(np.zeros(2), GOOD))
    low_rank = br.DLR(
        np.zeros(2), np.array([1.0, -3.0]), np.ones((2, 1))
    )  # Schur complement −3 + 1/2
    assert not gaussians.is_valid(low_rank)
    good = br.FC(np.zeros(2), GOOD)
    for call in (
        lambda: br.sample(bad, 3, np.random.default_rng(0)),
        lambda: br.kl(bad, good),
        lambda: br.kl(good, low_rank),
        lambda: br.log_density(bad, np.zeros(2)),
        lambda: br.predict(bad, dynamics.Static()),
        lambda: br.predict(good, dynamics.OU(0.9, var0=INDEFINITE)),
        lambda: br.predict(good, dynamics.Linear(Q=INDEFINITE)),
        lambda: br.likelihoods.Gaussian(INDEFINITE),
        lambda: br.likelihoods.Gaussian(SINGULAR),
        lambda: checks.state("prior", bad),
        lambda: br.oracle.step(
            "bong-lin-hess-fc", bad._asdict(), None, {"g": [1.0, 1.0], "S": [[1.0], [1.0]]}
        ),
    ):
        with pytest.raises(BongrefError, match="must be positive"):
            call()


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(
    "name",
    [n for n in br.methods("*-mc-hess-*") if n not in ("bong-mc-hess-dlr", "blr-mc-hess-dlr")],
)
def test_a_step_is_valid_if_and_only_if_its_covariance_has_positive_eigenvalues(name):
    params = {"alpha": 1.0} if not name.startswith("bong") else {}
    m = br.method(name, **params, **({"rank": 1} if name.endswith("dlr") else {}))
    seen = set()
    for sign in (1, -1):  # a Hessian of either sign that outweighs the prior
        state, info = br.step(
            m, m.prior(np.zeros(2)), None, br.Curv(np.ones(2), G=sign * (50 * np.eye(2) + 1))
        )
        assert info.valid == bool(np.min(np.linalg.eigvalsh(gaussians.covariance(state))) > 0)
        seen.add(info.valid)
    assert False in seen


@pytest.mark.usefixtures("platform")
def test_the_cases_that_must_be_refused_are():
    """Where nothing is raised, 21 of these cases would pass as positive definite."""
    cases = [case for case in conformance.load() if case.result != "value"]
    assert len(cases) > 80
    outcomes = [runner.run_case(conformance.Reference(), case, diagnose=False) for case in cases]
    assert [(o.case.id, o.message) for o in outcomes if o.status != "pass"] == []


NOT_READ = (
    "fast",  # has kernels of its own
    "linalg.py",
    "families",  # in the text of the paper's sections: log-determinants of valid states
    "routes/definition.py",  # what autograd differentiates (anp.linalg): NaN equals no number
    "conformance/mistakes",  # wrong on purpose
    "teaching",  # what a student writes with NumPy alone, right and wrong, on inputs made there
)


def test_only_linalg_calls_what_may_not_raise():
    root = Path(linalg.__file__).parent
    files = [
        f for f in root.rglob("*.py") if not f.relative_to(root).as_posix().startswith(NOT_READ)
    ]
    assert len(files) > 80
    names = "cholesky|solve|inv|eigh|eigvalsh|eigvals|svd|qr|lstsq|slogdet|det"
    calls = re.compile(rf"(?<!a)(?:np|numpy|scipy)\.linalg\.(?:{names})\(")
    assert [
        (f.name, calls.findall(f.read_text("utf-8")))
        for f in files
        if calls.search(f.read_text("utf-8"))
    ] == []

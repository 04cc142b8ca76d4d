"""help() is enough: every public function and class has a numpydoc docstring, and every example in
it is run.
"""

import doctest
import inspect
import re
import warnings
from importlib import import_module
from pathlib import Path

import pytest

MODULES = (
    "checks", "curvature", "dynamics", "gaussians", "likelihoods",
     "likelihoods.encoding", "likelihoods.functions",
    "linalg", "metrics", "models", "models.autodiff", "models.layers", "predictive",
     "routes.compare", "routes.oracle", "states", "tables",
)  # fmt: skip
PACKAGE = Path(__file__).resolve().parents[1] / "bongref"
WITH_EXAMPLES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
}

# functions of gaussians on states that have been checked: they refuse nothing
UNCHECKED = (
    *("covariance", "covariance_times", "draw", "is_valid", "logdet_covariance"),
    *("marginal_variance", "normals", "place", "precision_times"),
)
# the functions and classes that a user calls
PUBLIC = {
    "checkpoints": ("load", "save"),
    "checks": ("array", "observations"),
    "conformance.adapter": ("Fast", "Reference", "load_adapter"),
    "conformance.runner": ("Outcome", "Report"),
    "conformance.vectors": ("Case", "load"),
    "curvature": ("Curv",),
    "dynamics": ("Linear", "OU", "Static", "matrices", "predict", "propagate"),
    "errors": (
        *("BongrefError", "BongrefWarning", "CallbackFailed", "Interrupted", "InvalidType"),
        *("InvalidValue", "NotDerived", "NotFinite", "NotPositiveDefinite", "StreamEnded"),
    ),
    "explore.answer": ("respond",),
    "filter": ("Info", "step", "update"),
    "guide.defaults": ("fan_in", "prior"),
    "paper.claims": ("Claim",),
    "paper.errata": ("Erratum", "for_equation"),
    "paper.ledger": ("Coverage", "Equation", "UnknownEquation", "equation", "equations", "tests"),
    "paper.marks": ("Place", "eq"),
    "paper.pages": ("document", "overview", "search", "show"),
    "paper.source": ("citation",),
    "paper.uncomputed": ("reason",),
    "recording.results": ("Result",),
    "stream": ("run",),
    "experiments.calibration": ("counts",),
    "experiments.store": ("read",),
    "experiments.tasks": ("load",),
    "gaussians": ("kl", "log_density", "sample", *UNCHECKED),
    "grid": ("Increments", "Method", "method", "methods"),
    "likelihoods": ("Bernoulli", "Categorical", "Gaussian", "Likelihood", "Poisson"),
    "metrics": (
        *("KLTo", "On", "Prequential"),
        "ece",
        "error",
        "kl_to",
        "nlpd",
        "nlpd_positive",
        "nonpositive",
        "on",
        "prequential",
        "rmse",
    ),
    "models": ("Model", "ParametricModel", "cnn", "linear", "mlp", "wrap"),
    "models.autodiff": ("grad", "hessian", "hvp"),
    "online": ("Filter",),
    "predictive": ("Predictive", "lin_mc", "mc", "plugin", "predict", "several"),
    "routes.audit": ("Problem", "Row", "summary", "table"),
    "routes.compare": (
        *("Difference", "matrix_condition", "woodbury_loss"),
        "condition",
        "difference",
        "differences",
        "invariants",
        "perturb",
    ),
    "routes.oracle": ("step",),
    "guide.definiteness": ("keeps", "safe_alternative"),
    "guide.explain": ("explain",),
    "guide.recommend": ("recommend",),
    "plot": ("band", "calibration", "coverage", "ellipse", "marginal", "metrics", "reliability"),
    "recording.schedule": ("checked",),
    "states": ("DLR", "FC", "Diag"),
    "predictive.linearised": (
        *("Prediction", "is_classifier", "log_density", "moments", "prediction"),
    ),
    "tables": (
        *("as_array", "complete", "describe", "foreign", "is_missing", "is_table", "length_of"),
        *("partial_values", "refuse_sparse", "shorter", "values"),
    ),
    "theory.costs": (
        *("Poly", "count", "count_estimator", "count_sampling", "form_of", "interpolate"),
        *("is_O", "parse", "polynomial", "sizes_of", "update"),
    ),
    "theory.aliases": ("Alias", "NotAlias", "aliases"),
    "theory.batch": (
        *("Averaged", "Scaled", "diag", "diag_mom", "dlr", "fc", "fc_mom", "from_scaled", "ivon"),
        *("slang_lin_ef", "slang_lin_hess", "to_averaged", "to_scaled", "vogn", "von"),
    ),
    "theory.conjugate": (
        *("Local", "Step", "bayes", "bong", "bong_in", "by_autodiff", "by_quadrature"),
        *("expectation", "local", "log_prior", "rounding", "step", "stream"),
    ),
    "theory.expectations": (
        *("Expected", "data", "expected", "expected_derivatives", "expected_log_prob"),
        *("largest_std", "nodes", "output"),
    ),
    "theory.exponential": (
        *("bregman", "dual", "family", "inner", "kl_from_statistics", "log_density"),
        *("log_partition", "mirror_map", "moments", "natural", "plus"),
    ),
    "theory.certified": ("Dataset", "lre", "minus_log10", "root"),
    "theory.literature": (
        *("Softplus", "bbb", "cm_ekf", "factor_analysis", "fd_ekf", "from_softplus", "lofi"),
        *("lofi_predict", "lofi_spherical", "minimal", "natural_gradient", "to_softplus"),
        "vd_ekf",
    ),
    "theory.mirror": (
        *("Solution", "blr", "bong", "implicit", "implicit_scalar", "linearised", "loss"),
        *("online_vb", "solve_linearised", "step"),
    ),
    "theory.newton": ("Minimum", "NotConverged", "minimise", "newton", "size"),
    "theory.nist": (
        *("Row", "bong", "condition", "exact", "exact_from_float", "expected_digits"),
        *("least_squares", "lstsq", "measure", "qr", "row", "scales", "stream_digits", "table"),
        "vague",
    ),
    "theory.pairs": (
        *("Grid", "Pair", "beta_line", "dirichlet_categorical", "gamma_exponential"),
        *("gamma_line", "gamma_poisson", "gaussian_mean", "line", "linear_regression"),
        "softplus",
    ),
    "theory.posteriors": ("Posterior", "kl_to_posterior", "posterior"),
    "theory.rvga": ("logistic", "rvga", "rvga_implicit", "sampled"),
    "theory.slang": ("exact_eig", "fast_eig", "slang", "slang_sample"),
}
#: modules of which every public function and class of their own is in the table
COMPLETE = {
    *(
        "dynamics",
        "gaussians",
        "metrics",
        "predictive",
        "predictive.linearised",
        "routes.oracle",
        "states",
    ),
    "tables",
    *(name for name in PUBLIC if name.startswith("theory.")),
}
NAMES = [(module, name) for module, names in PUBLIC.items() for name in names]
METHODS = [
    *(
        ("models", "ParametricModel", n)
        for n in ("init", "__call__", "check", "is_batch", "jac", "vjp", "unflatten", "flatten")
    ),
    *(("models", "Model", n) for n in ("__call__", "check", "is_batch", "jac", "vjp")),
    *(
        ("likelihoods", family, n)
        for family in ("Likelihood", "Gaussian", "Bernoulli", "Categorical", "Poisson")
        for n in dir(import_module("bongref.likelihoods").Likelihood)
        if not n.startswith("_")
    ),
    *(("likelihoods", family, "pearson") for family in ("Gaussian", "Bernoulli", "Categorical")),
    ("predictive", "Predictive", "log_density"),
    ("recording.results", "Result", "plot"),
    *(("grid", "Method", n) for n in ("increments", "prior", "rank", "step_function")),
    *(
        ("online", "Filter", n)
        for n in ("learn_one", "learn_many", "predict_one", "predict_many", "log_score", "forget")
    ),
]


def sections(doc):
    """The sections of a numpydoc docstring by name; its text before them under ''."""
    out, name = {"": []}, ""
    lines = inspect.cleandoc(doc).split("\n")
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and re.fullmatch("-{3,}", lines[i + 1]) and line:
            name = line
            out[name] = []
        elif not re.fullmatch("-{3,}", line):
            out[name].append(line)
    return out


def described(lines):
    """The names that a section of parameters describes: 'a, b : type' or '*names'."""
    heads = [line for line in lines if line and not line.startswith(" ")]
    return {name.strip() for head in heads for name in head.split(" : ")[0].split(",")}


def parameters(thing):
    """The parameters of a function, a NamedTuple or a class with an own constructor, as a docstring
    names them.
    """
    if inspect.isclass(thing) and hasattr(thing, "_fields"):
        return set(thing._fields)
    if inspect.isclass(thing) and thing.__init__ is object.__init__:
        return set()
    names = inspect.signature(thing).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {stars.get(p.kind, "") + p.name for p in names if p.name != "self"}


def check(thing, where):
    doc = thing.__doc__
    assert doc, f"{where} has no docstring"
    parts = sections(doc)
    first = inspect.cleandoc(doc).split("\n\n")[0]
    assert first.rstrip().endswith((".", ":")), (
        f"{where}: the first sentence does not end: {first!r}"
    )
    assert any(">>> " in line for line in parts.get("Examples", [])), f"{where} has no example"
    if getattr(thing, "_is_protocol", False) or (
        inspect.isclass(thing) and "Attributes" in parts and not hasattr(thing, "_fields")
    ):
        return
    if inspect.isclass(thing) and issubclass(thing, BaseException):  # is caught, not made
        return
    wanted = parameters(thing)
    named = described(parts.get("Parameters", []) + parts.get("Attributes", []))
    assert wanted <= named, f"{where} does not describe {sorted(wanted - named)}"
    assert named <= wanted, f"{where} describes {sorted(named - wanted)}, which it does not have"
    if inspect.isfunction(thing):
        assert "Returns" in parts, f"{where} does not say what it returns"


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = import_module(f"bongref.{name}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = doctest.testmod(module, optionflags=doctest.FAIL_FAST)
    assert result.failed == 0
    assert ">>> " in (module.__doc__ or "") or name == "curvature", (
        "the module does not show its use"
    )


@pytest.mark.parametrize("name", sorted(WITH_EXAMPLES - set(MODULES)))
def test_other_examples_run(name):
    module = import_module(f"bongref.{name}".rstrip("."))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(module, optionflags=flags)
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_public_names_are_documented(module, name):
    check(getattr(import_module(f"bongref.{module}"), name), f"{module}.{name}")


@pytest.mark.parametrize(("module", "cls", "name"), METHODS)
def test_public_methods_are_documented(module, cls, name):
    check(getattr(getattr(import_module(f"bongref.{module}"), cls), name), f"{module}.{cls}.{name}")


REFUSING = (
    "dynamics",
    "gaussians",
    "guide.explain",
    "guide.recommend",
    "metrics",
    "predictive",
    "routes.oracle",
)


@pytest.mark.parametrize(
    ("module", "name"), [n for n in NAMES if n[0] in REFUSING and n[1] not in UNCHECKED]
)
def test_functions_that_refuse_say_so(module, name):
    thing = getattr(import_module(f"bongref.{module}"), name)
    if inspect.isfunction(thing):
        assert "Raises" in sections(thing.__doc__)


def test_the_table_holds_all_public_names():
    """A function or class of a public module that has no underscore is in the table, or is a part
    that other modules use.
    """
    for module in COMPLETE:
        home = import_module(f"bongref.{module}")
        own = {
            n
            for n, v in vars(home).items()
            if getattr(v, "__module__", "") == home.__name__
            and callable(v)
            and not n.startswith("_")
        }
        parts = {
            "dynamics": {"Overflow"},
            "theory.conjugate": {"PSI", "Y", "YS"},
            "theory.costs": {"NAME"},
        }.get(module, set())
        assert own - parts == set(PUBLIC[module])


def test_a_docstring_that_forgets_a_parameter_fails():
    def good(a, b):
        """A sum.

        Parameters
        ----------
        a, b : float

        Returns
        -------
        float

        Examples
        --------
        >>> 1 + 1
        2
        """

    def bad(a, b, c):
        pass

    check(good, "good")
    bad.__doc__ = good.__doc__
    with pytest.raises(AssertionError, match=r"does not describe \['c'\]"):
        check(bad, "bad")
    bad.__doc__ = good.__doc__.replace("Returns", "Gives")
    with pytest.raises(AssertionError):
        check(bad, "bad")

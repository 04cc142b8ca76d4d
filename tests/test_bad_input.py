"""Bad input: each error names the argument, what came and what is allowed, and changes nothing.

The tables are tests/bad_inputs.py, tests/bad_inputs_stream.py and tests/bad_inputs_theory.py; what
follows them here goes through methods and families.
"""

import ast
import contextlib
import inspect
import re
import warnings

import bad_inputs
import bad_inputs_stream
import bad_inputs_theory
import numpy as np
import pytest

import bongref as br
from bongref.errors import BongrefError, InvalidType, InvalidValue
from bongref.routes.compare import difference

# --- the tables -----------------------------------------------------------------------------------


def snapshot(value):
    """All that a call could change in its inputs."""
    if isinstance(value, np.ndarray):
        return value.tobytes(), value.shape, value.dtype
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, dict):
        return {k: snapshot(v) for k, v in value.items()}
    return [snapshot(v) for v in value] if isinstance(value, (list, tuple)) else None


def refuse(given, call, error, part):
    """The call is refused with this kind of error and message, and its inputs are as they were."""
    before = snapshot(given)
    with warnings.catch_warnings(), pytest.raises(error) as caught:
        warnings.simplefilter("error", RuntimeWarning)  # none before our own error
        eval(call, dict(given))
    message = str(caught.value)
    assert part in message
    assert isinstance(caught.value, BongrefError)
    if type(caught.value) in (InvalidValue, InvalidType):
        assert re.search(
            r" (must|takes no|needs|draws) .*(got |did you mean|it takes |is not )", message
        ), message
    assert snapshot(given) == before


@pytest.fixture(scope="module")
def given():
    return bad_inputs.given()


@pytest.fixture(scope="module")
def given_stream():
    return bad_inputs_stream.given()


@pytest.fixture(scope="module")
def given_theory():
    return bad_inputs_theory.given()


@pytest.mark.parametrize(
    ("call", "error", "part"), bad_inputs.ROWS, ids=[row[0] for row in bad_inputs.ROWS]
)
def test_bad_inputs(given, call, error, part):
    refuse(given, call, error, part)


@pytest.mark.parametrize(
    ("call", "error", "part"),
    bad_inputs_stream.ROWS,
    ids=[row[0] for row in bad_inputs_stream.ROWS],
)
def test_bad_inputs_of_streams(given_stream, call, error, part):
    refuse(given_stream, call, error, part)


@pytest.mark.parametrize(
    ("call", "error", "part"),
    bad_inputs_theory.ROWS,
    ids=[row[0] for row in bad_inputs_theory.ROWS],
)
def test_bad_inputs_of_the_theory(given_theory, call, error, part):
    refuse(given_theory, call, error, part)


@pytest.mark.parametrize(
    "call",
    [
        "batch.fc(fc, c, 0.1, 1.0), batch.fc_mom(fc, c, 0.1, 1.0), batch.diag(q, c, 0.1, 1.0)",
        "batch.diag_mom(q, c, 0.1, 1.0), batch.dlr(dlr, c, 0.1, 1.0), batch.to_scaled(q, 9, 1.0)",
        "batch.vogn(s, np.ones((4, 2)), 0.1, 0.1, 9, 1.0), batch.von(s, two, two, 0.1, "
        "0.1, 9, 1.0)",
        "batch.slang_lin_hess(model, lik, dlr, two, one, 0.1, 1.0), batch.from_scaled(s, 9, 1.0)",
        "batch.slang_sample(dlr, two), batch.fast_eig(np.ones((3, 2)), 1, 0)",
        "conj.step(pair, pair.prior, one), conj.step(pair, list(pair.prior), [1.0])",
        "conj.stream(pair, pair.prior, np.ones((3, 1))), conj.bayes(pair, pair.prior, one)",
        "lit.rvga(fc, expect), lit.cm_ekf(fc, lin), lit.vd_ekf(q, lin), lit.lofi(dlr, lin)",
        "mirror.bong(lik, fc, two, 1.0), mirror.blr(lik, q, two, 1.0, 0.1, 3), mirror.natural(fc)",
        "mirror.implicit(bern, fc, two, 1), mirror.implicit_scalar(bern, fc, two, 1)",
        "costs.sizes_of('bong-lin-hess-fc'), costs.form_of('bong-lin-ef-dlr'), costs.parse('O(P)')",
        "nist.row('Longley', 'qr'), nist.condition(nist.DATA['Longley'])",
    ],
)
def test_the_good_inputs_of_the_theory_are_good(given_theory, call):
    assert all(value is not None for value in eval(call, dict(given_theory)))


NONSENSE = [None, "x", object(), [None], {}, 10**400]


@pytest.mark.parametrize("call", bad_inputs_theory.CALLS)
def test_nonsense_for_any_argument_of_the_theory(given_theory, call):
    """The call is good; with nonsense for one argument it is refused, or the argument is free."""
    assert eval(call, dict(given_theory)) is not None
    n_arguments = len(ast.parse(call, mode="eval").body.args)
    keywords = ast.parse(call, mode="eval").body.keywords
    for i in range(n_arguments + len(keywords)):
        tree = ast.parse(call, mode="eval")
        if i < n_arguments:
            tree.body.args[i] = ast.Name("nonsense", ast.Load())
        else:
            tree.body.keywords[i - n_arguments].value = ast.Name("nonsense", ast.Load())
        code = compile(ast.fix_missing_locations(tree), call, "eval")
        for nonsense in NONSENSE:
            with contextlib.suppress(BongrefError), warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                eval(code, {**given_theory, "nonsense": nonsense})


def test_the_calls_of_the_theory_are_of_all_its_public_functions():
    called = {call.partition("(")[0].partition(".")[2] for call in bad_inputs_theory.CALLS}
    for module in (br.batch, br.conjugate, br.literature, br.mirror):
        public = {n for n in module.__all__ if inspect.isfunction(getattr(module, n))}
        assert public <= called, module


def test_the_good_inputs_of_the_tables_are_good(given):
    """A row fails for its one bad input alone."""
    good = dict(given)
    for call in (
        "br.sample(q, 2, 0), br.sample(fc, 2, 0), br.sample(dlr, 2, rng), br.kl(q, fc), "
        "br.log_density(dlr, theta)",
        "br.predict(q, dyn.OU(0.9)), br.predict(dlr, dyn.Linear(Q=0.1)), br.predict(fc, "
        "dyn.Static())",
        "model(theta, x), net(np.zeros(7), [[1.0]]), image(np.zeros(image.n_params), "
        "np.zeros((4, 4)))",
        "pred.mc(model, gauss, q, X, rng=0), pred.lin_mc(model, bern, q, X, rng=0), "
        "metrics.on(X, Y, 'nlpd')",
        "metrics.nlpd(p, Y), metrics.rmse(p, Y), metrics.error(pb, [0, 1, 1]), "
        "metrics.ece(pb, [0, 1, 1])",
        "br.oracle.step('blr-lin-hess-diag', prior, prior, curv, alpha=0.1, digits=20)",
        "br.oracle.step('bong-lin-hess-dlr', prior_dlr, None, curv), "
        "br.oracle.step('bong-lin-hess-fc', prior_fc, None, curv)",
    ):
        assert all(value is not None for value in eval(call, good))


def test_the_tables_drive_all_public_functions():
    """Every public function of the package and of its public modules, by its name in a call."""
    rows = bad_inputs.ROWS + bad_inputs_stream.ROWS + bad_inputs_theory.ROWS
    calls = " ".join(row[0] for row in rows)
    modules = {
        "models": br.models,
        "lik": br.likelihoods,
        "pred": br.predictive,
        "metrics": br.metrics,
        "br.oracle": br.oracle,
    }
    wanted = {f"br.{n}" for n in br.__all__ if inspect.isfunction(getattr(br, n))} - {"br.run"} | {
        "run"
    }
    for alias, module in modules.items():
        names = getattr(module, "__all__", None) or [
            n for n in vars(module) if not n.startswith("_")
        ]
        own = [
            n
            for n in names
            if inspect.isfunction(f := getattr(module, n)) and f.__module__.startswith("bongref")
        ]
        wanted |= {
            f"{alias}.{n}"
            for n in own
            if getattr(module, n).__module__ in (module.__name__, "bongref.models.autodiff")
        }
    assert len(wanted) > 25
    assert [name for name in sorted(wanted) if f"{name}(" not in calls] == []
    assert len(rows) >= 150


NAN, INF = float("nan"), float("inf")
P, C = 4, 2
MODEL, LIK = br.models.linear(2, 2), br.likelihoods.Gaussian(1.0)
X1, Y1 = np.array([1.0, -1.0]), np.array([0.5, 0.2])
NAMES = {"fc": "bong-lin-hess-fc", "diag": "bong-lin-hess-diag", "dlr": "bong-lin-hess-dlr"}
FAMILIES = {"fc": ("fc", "fc_mom"), "diag": ("diag", "diag_mom"), "dlr": ("dlr",)}


def method(name, **params):
    return br.method(name, **{**({"rank": 2} if name.endswith("dlr") else {}), **params})


def prior(kind):
    mu = np.arange(4.0)
    if kind == "fc":
        return br.FC(mu, np.diag([1.0, 2.0, 3.0, 4.0]) + 0.1)
    if kind == "diag":
        return br.Diag(mu, np.array([1.0, 2.0, 3.0, 4.0]))
    return br.DLR(
        mu,
        np.array([1.0, 2.0, 3.0, 4.0]),
        np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, -1.0]]),
    )


def put(a, index, value):
    a = np.array(a)
    a[index] = value
    return a


CURV = br.Curv(g=np.ones(P), S=np.ones((P, 1)))


def expect_refusal(call, error, match, *arrays):
    """The call is refused with this message, and none of the arrays has changed."""
    arrays = [
        a
        for q in arrays
        for a in (q if isinstance(q, tuple) else (q,))
        if isinstance(a, np.ndarray)
    ]
    kept = [(a.tobytes(), a.shape, a.dtype) for a in arrays]
    with pytest.raises(error, match=match):
        call()
    assert [(a.tobytes(), a.shape, a.dtype) for a in arrays] == kept


# --- priors ---------------------------------------------------------------------------------------

FCq, Dq, Lq = prior("fc"), prior("diag"), prior("dlr")
BAD_PRIORS = [
    (
        "fc",
        FCq._replace(mu=put(FCq.mu, 1, NAN)),
        ValueError,
        r"prior\.mu must be finite, got nan at index \(1,\)",
    ),
    (
        "fc",
        FCq._replace(mu=put(FCq.mu, 2, INF)),
        ValueError,
        r"prior\.mu must be finite, got inf at index \(2,\)",
    ),
    (
        "fc",
        FCq._replace(Sigma=put(FCq.Sigma, (0, 1), NAN)),
        ValueError,
        r"prior\.Sigma must be finite, got nan at index \(0, 1\)",
    ),
    (
        "fc",
        FCq._replace(Sigma=put(FCq.Sigma, (3, 3), -INF)),
        ValueError,
        r"prior\.Sigma must be finite, got -inf",
    ),
    (
        "fc",
        FCq._replace(Sigma=FCq.Sigma[:3, :3]),
        ValueError,
        r"prior\.Sigma must have shape \(4, 4\), got \(3, 3\)",
    ),
    (
        "fc",
        FCq._replace(Sigma=np.ones(4)),
        ValueError,
        r"prior\.Sigma must have shape \(4, 4\), got \(4,\)",
    ),
    (
        "fc",
        FCq._replace(mu=np.zeros((4, 1))),
        ValueError,
        r"prior\.mu must have 1 dimension, got shape \(4, 1\)",
    ),
    (
        "fc",
        FCq._replace(Sigma=put(FCq.Sigma, (0, 1), 0.5)),
        ValueError,
        r"prior\.Sigma must be symmetric, got max\|A - A\^T\| = 0\.4",
    ),
    (
        "fc",
        FCq._replace(Sigma=-np.eye(4)),
        ValueError,
        r"prior must be positive definite, got 4 x 4 Sigma with smallest eigenvalue -1",
    ),
    ("fc", FCq._replace(Sigma=np.ones((4, 4))), ValueError, "prior must be positive definite"),
    ("fc", FCq._replace(Sigma=np.zeros((4, 4))), ValueError, "prior must be positive definite"),
    (
        "fc",
        br.FC(np.zeros(3), np.eye(3)),
        ValueError,
        r"prior\.mu must have shape \(4,\) for this model, got \(3,\)",
    ),
    (
        "fc",
        FCq._replace(Sigma=1j * np.eye(4)),
        TypeError,
        r"prior\.Sigma must be an array of real numbers, got ndarray",
    ),
    (
        "fc",
        FCq._replace(mu=["a"] * 4),
        TypeError,
        r"prior\.mu must be an array of real numbers, got list",
    ),
    (
        "fc",
        FCq._replace(mu=None),
        TypeError,
        r"prior\.mu must be an array of real numbers, got NoneType None",
    ),
    (
        "fc",
        FCq._replace(mu=[[1.0], [1.0, 2.0]]),
        TypeError,
        r"prior\.mu must be an array of real numbers, got list",
    ),
    ("fc", FCq._replace(mu=np.zeros(0)), ValueError, r"prior\.mu must not be empty"),
    (
        "diag",
        Dq._replace(var=put(Dq.var, 0, NAN)),
        ValueError,
        r"prior\.var must be finite, got nan at index \(0,\)",
    ),
    (
        "diag",
        Dq._replace(var=put(Dq.var, 0, 0.0)),
        ValueError,
        r"prior must be positive definite, got var with smallest entry 0",
    ),
    (
        "diag",
        Dq._replace(var=put(Dq.var, 0, -2.0)),
        ValueError,
        r"prior must be positive definite, got var with smallest entry -2",
    ),
    (
        "diag",
        Dq._replace(var=np.ones(3)),
        ValueError,
        r"prior\.var must have shape \(4,\), got \(3,\)",
    ),
    ("diag", Dq._replace(var=1.0), ValueError, r"prior\.var must have shape \(4,\), got \(\)"),
    (
        "dlr",
        Lq._replace(Ups=put(Lq.Ups, 3, NAN)),
        ValueError,
        r"prior\.Ups must be finite, got nan at index \(3,\)",
    ),
    (
        "dlr",
        Lq._replace(W=put(Lq.W, (0, 1), INF)),
        ValueError,
        r"prior\.W must be finite, got inf at index \(0, 1\)",
    ),
    (
        "dlr",
        Lq._replace(Ups=-Lq.Ups),
        ValueError,
        r"prior must be positive definite, got Ups with smallest entry -4, which W W\^T does not",
    ),
    (
        "dlr",
        Lq._replace(W=Lq.W[:3]),
        ValueError,
        r"prior\.W must have shape \(4, any\), got \(3, 2\)",
    ),
    (
        "dlr",
        Lq._replace(W=Lq.W[:, 0]),
        ValueError,
        r"prior\.W must have shape \(4, any\), got \(4,\)",
    ),
    (
        "dlr",
        Lq._replace(W=Lq.W[:, :1]),
        ValueError,
        r"prior\.W must have shape \(4, 2\) for rank=2, got \(4, 1\)",
    ),
    (
        "dlr",
        Lq._replace(W=np.ones((4, 5))),
        ValueError,
        r"the rank of prior\.W must be in 1\.\.\.P = 4, got 5",
    ),
    (
        "dlr",
        Lq._replace(W=np.ones((4, 0))),
        ValueError,
        r"prior\.W must not be empty|the rank of prior\.W",
    ),
    (
        "dlr",
        Lq._replace(Ups=np.ones(5)),
        ValueError,
        r"prior\.Ups must have shape \(4,\), got \(5,\)",
    ),
    ("fc", Dq, TypeError, "prior must be an FC state, got Diag"),
    ("fc", Lq, TypeError, "prior must be an FC state, got DLR"),
    ("diag", FCq, TypeError, "prior must be a Diag state, got FC"),
    ("dlr", Dq, TypeError, "prior must be a DLR state, got Diag"),
    ("fc", {"mu": FCq.mu, "Sigma": FCq.Sigma}, TypeError, "prior must be an FC state, got dict"),
    ("fc", (FCq.mu, FCq.Sigma), TypeError, "prior must be an FC state, got tuple"),
    ("fc", None, TypeError, "prior must be an FC state, got NoneType None"),
]


@pytest.mark.parametrize(("kind", "q", "error", "match"), BAD_PRIORS)
def test_bad_priors(kind, q, error, match):
    parts = q if isinstance(q, tuple) else ()
    for family in FAMILIES[kind]:
        m = method(f"bong-lin-hess-{family}")
        expect_refusal(lambda m=m: br.update(m, MODEL, LIK, q, X1, Y1), error, match, *parts)
        expect_refusal(lambda m=m: br.run(m, MODEL, LIK, q, [X1], [Y1]), error, match, *parts)
        if "for this model" not in match and "for rank" not in match:
            expect_refusal(lambda m=m: br.step(m, q, None, CURV), error, match, *parts)


@pytest.mark.parametrize(
    ("kind", "q", "error", "match"),
    [row for row in BAD_PRIORS if "for this" not in row[3] and row[1] is not None],
)
def test_bad_current_states(kind, q, error, match):
    m = method(
        {"fc": "blr-lin-hess-fc", "diag": "blr-lin-hess-diag", "dlr": "blr-lin-hess-dlr"}[kind]
    )
    match = match.replace("prior", "current")
    expect_refusal(
        lambda: br.step(m, prior(kind), q, CURV),
        error,
        match if "for rank" in match else match.replace("any", "(any|2)"),
    )


def test_current_must_have_the_size_and_rank_of_the_prior():
    expect_refusal(
        lambda: br.step("blr-lin-hess-fc", prior("fc"), br.FC(np.zeros(3), np.eye(3)), CURV),
        ValueError,
        r"current\.mu must have shape \(4,\), got \(3,\)",
    )


# --- the curvature --------------------------------------------------------------------------------

ones = np.ones(P)
BAD_CURV = [
    (
        br.Curv(put(ones, 0, NAN), S=CURV.S),
        ValueError,
        r"curv\.g must be finite, got nan at index \(0,\)",
    ),
    (br.Curv(np.ones(3), S=CURV.S), ValueError, r"curv\.g must have shape \(4,\), got \(3,\)"),
    (
        br.Curv(ones, S=put(CURV.S, 2, INF)),
        ValueError,
        r"curv\.S must be finite, got inf at index \(2, 0\)",
    ),
    (br.Curv(ones, S=ones), ValueError, r"curv\.S must have shape \(4, any\), got \(4,\)"),
    (
        br.Curv(ones, S=np.ones((3, 1))),
        ValueError,
        r"curv\.S must have shape \(4, any\), got \(3, 1\)",
    ),
    (
        br.Curv(ones, G=put(-np.eye(4), (1, 1), NAN)),
        ValueError,
        r"curv\.G must be finite, got nan at index \(1, 1\)",
    ),
    (br.Curv(ones, G=np.eye(3)), ValueError, r"curv\.G must have shape \(4, 4\), got \(3, 3\)"),
    (
        br.Curv(ones, G=put(-np.eye(4), (0, 1), 2.0)),
        ValueError,
        r"curv\.G must be symmetric, got max\|A - A\^T\| = 2",
    ),
    (br.Curv(ones, G=1j * np.eye(4)), TypeError, r"curv\.G must be an array of real numbers"),
    (
        br.Curv("abcd", S=CURV.S),
        TypeError,
        r"curv\.g must be an array of real numbers, got str 'abcd'",
    ),
    (br.Curv(ones), ValueError, "curv must have exactly one of S, G and d, got none"),
    (
        br.Curv(ones, S=CURV.S, G=-np.eye(4)),
        ValueError,
        "curv must have exactly one of S, G and d, got S, G",
    ),
    ({"g": ones, "S": CURV.S}, TypeError, "curv must be a Curv, got dict"),
]


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(("curv", "error", "match"), BAD_CURV)
def test_bad_curvatures(kind, curv, error, match):
    q = prior(kind)
    expect_refusal(lambda: br.step(method(NAMES[kind]), q, None, curv), error, match, q)


def test_the_diagonal_of_G_is_for_the_diagonal_families():
    for kind in ("fc", "dlr"):
        expect_refusal(
            lambda kind=kind: br.step(
                method(NAMES[kind]), prior(kind), None, br.Curv(ones, d=-ones)
            ),
            ValueError,
            r"curv must have S or G .*, got d alone",
        )
    for bad, match in [
        (put(ones, 1, NAN), r"curv\.d must be finite"),
        (np.ones(3), r"curv\.d must have shape \(4,\), got \(3,\)"),
    ]:
        expect_refusal(
            lambda bad=bad: br.step(NAMES["diag"], prior("diag"), None, br.Curv(ones, d=bad)),
            ValueError,
            match,
        )
    assert br.step(NAMES["diag"], prior("diag"), None, br.Curv(ones, d=-ones))[1].valid
    expect_refusal(
        lambda: br.step(NAMES["fc"], FCq, None, CURV, form="quick"),
        ValueError,
        "form must be 'auto', 'plain' or 'efficient', got 'quick'",
    )


# --- x, y, samples, probes and generators ---------------------------------------------------------

CAT, BER, POI = br.likelihoods.Categorical(), br.likelihoods.Bernoulli(), br.likelihoods.Poisson()
BAD_DATA = [
    (
        LIK,
        [1.0, NAN],
        Y1,
        ValueError,
        r"x must be finite, got nan at index \(1,\); impute missing inputs",
    ),
    (LIK, [INF, 1.0], Y1, ValueError, r"x must be finite, got inf at index \(0,\)"),
    (LIK, [1.0, 2.0, 3.0], Y1, ValueError, r"x must have shape \(2,\) or \(B, 2\), got \(3,\)"),
    (LIK, "ab", Y1, TypeError, "x must be an array of real numbers, got str 'ab'"),
    (LIK, [1j, 0], Y1, TypeError, "x must be an array of real numbers, got list"),
    (
        LIK,
        X1,
        [NAN, 0.0],
        ValueError,
        r"y must be finite real numbers, got nan at index \(0,\); use None for a missing",
    ),
    (LIK, X1, [INF, 0.0], ValueError, "y must be finite real numbers, got inf"),
    (LIK, X1, [1.0, 2.0, 3.0], ValueError, r"y must have shape \(2,\), got \(3,\)"),
    (LIK, X1, ["a", "b"], TypeError, r"y must be finite real numbers, got list \['a', 'b'\]"),
    (LIK, X1, [1j, 0.0], TypeError, "y must be finite real numbers, got list"),
    (LIK, [X1, X1], Y1[None], ValueError, r"y must have shape \(2, 2\), got \(1, 2\)"),
    (CAT, X1, 2, ValueError, r"y must be integer labels 0\.\.\.1 .*, got 2\.0"),
    (CAT, X1, -1, ValueError, r"y must be integer labels 0\.\.\.1 .*, got -1\.0"),
    (CAT, X1, 0.5, ValueError, r"y must be integer labels 0\.\.\.1 .*, got 0\.5"),
    (CAT, X1, [1.0, 1.0], ValueError, r"y must be .*one-hot.*, got \[1\.0, 1\.0\]"),
    (BER, X1, [2, 0], ValueError, r"y must be 0 or 1, got 2\.0 at index \(0,\)"),
    (POI, X1, [1.5, 0], ValueError, r"y must be nonnegative integers, got 1\.5 at index \(0,\)"),
    (POI, X1, [-1, 0], ValueError, r"y must be nonnegative integers, got -1\.0 at index \(0,\)"),
    (br.likelihoods.Gaussian(np.eye(3)), X1, Y1, ValueError, "n_outputs must be 3, .*, got 2"),
]


@pytest.mark.parametrize(("lik", "x", "y", "error", "match"), BAD_DATA)
@pytest.mark.parametrize("name", ["bong-lin-hess-fc", "bbb-mc-ef-dlr"])
def test_bad_observations(name, lik, x, y, error, match):
    m, q, rng = (
        method(name),
        prior("fc" if name.endswith("fc") else "dlr"),
        np.random.default_rng(0),
    )
    before = rng.bit_generator.state
    expect_refusal(lambda: br.update(m, MODEL, lik, q, x, y, rng=rng), error, match, q)
    good = {"categorical": 1, "bernoulli": [0, 1], "poisson": [3, 0], "gaussian": Y1}[lik.name]
    if "n_outputs" not in match:
        X, Y = [X1, X1, x, X1], [good, None, y, good]
        expect_refusal(
            lambda: br.run(m, MODEL, lik, q, X, Y, rng=rng),
            error,
            r"step 3 \(X\[2\], Y\[2\]\): " + match,
            q,
        )
    assert rng.bit_generator.state == before  # nothing was drawn


def test_bad_streams():
    q = prior("fc")
    for X, Y, error, match in [
        ([], [], ValueError, "X must not be empty"),
        (np.zeros((0, 2)), np.zeros((0, 2)), ValueError, "X must not be empty"),
        ([X1, X1], [Y1], ValueError, "X and Y must have the same length, got 2 and 1"),
        ([X1], [Y1, Y1], ValueError, "X and Y must have the same length, got 1 and 2"),
        (iter([X1]), [Y1], TypeError, "X must be an array, a data frame or a sequence, got"),
        (3.0, 4.0, TypeError, "X must be an array, a data frame or a sequence, got"),
    ]:
        expect_refusal(
            lambda X=X, Y=Y: br.run("bong-lin-hess-fc", MODEL, LIK, q, X, Y), error, match, q
        )


def good_samples(*shape):
    return np.random.default_rng(0).standard_normal(shape)


RNG = np.random.default_rng(0)
BAD_DRAWS = [
    (
        "bong-mc-ef-fc",
        {},
        TypeError,
        r"bong-mc-ef-fc draws samples: rng \(a numpy\.random\.Generator or a seed\) or "
        r"samples \(I, M, P\) must be given",
    ),
    ("blr-mc-hess-diag", {}, TypeError, "blr-mc-hess-diag draws samples: rng"),
    (
        "bong-mc-ef-fc",
        {"rng": np.random.RandomState(0)},
        TypeError,
        r"rng must be a numpy\.random\.Generator.*, got RandomState",
    ),
    (
        "bong-lin-hess-fc",
        {"samples": good_samples(1, 3, P)},
        TypeError,
        r"bong-lin-hess-fc takes no samples .*\*-mc-\*.*\(1, 3, 4\)",
    ),
    (
        "bong-mc-ef-fc",
        {"samples": good_samples(1, 3, P - 1)},
        ValueError,
        r"samples must have shape \(1, M, 4\), got \(1, 3, 3\)",
    ),
    (
        "bong-mc-ef-fc",
        {"samples": good_samples(2, 3, P)},
        ValueError,
        r"samples must have shape \(1, M, 4\), got \(2, 3, 4\)",
    ),
    (
        "blr-mc-ef-fc",
        {"samples": good_samples(3, P)},
        ValueError,
        r"samples must have shape \(10, M, 4\), got \(3, 4\)",
    ),
    (
        "bong-mc-ef-fc",
        {"samples": np.full((1, 3, P), NAN)},
        ValueError,
        r"samples must be finite, got nan at index \(0, 0, 0\)",
    ),
    (
        "bong-mc-ef-fc",
        {"samples": np.full((1, 3, P), INF)},
        ValueError,
        "samples must be finite, got inf",
    ),
    (
        "bong-mc-ef-fc",
        {"samples": good_samples(1, 3, P) * 1j},
        TypeError,
        "samples must be an array of real numbers",
    ),
    (
        "bong-mc-ef-fc",
        {"samples": "many"},
        TypeError,
        "samples must be an array of real numbers, got str 'many'",
    ),
    ("bong-mc-ef-fc", {"samples": np.zeros((1, 0, P))}, ValueError, "samples must not be empty"),
    (
        "bong-mc-ef-fc",
        {"rng": RNG, "probes": good_samples(1, 3, 2, P)},
        TypeError,
        r"bong-mc-ef-fc takes no probes .*\*-mc-hess-diag\*",
    ),
    (
        "bong-mc-hess-diag",
        {"samples": good_samples(1, 3, P), "probes": good_samples(1, 2, 5, P)},
        ValueError,
        r"probes must have shape \(1, 3, N, 4\), got \(1, 2, 5, 4\)",
    ),
    (
        "bong-mc-hess-diag",
        {"samples": good_samples(1, 1, P), "probes": [[[[NAN] * 4]]]},
        ValueError,
        "probes must be finite, got nan",
    ),
]


@pytest.mark.parametrize(("name", "kw", "error", "match"), BAD_DRAWS)
def test_bad_draws(name, kw, error, match):
    q = prior("diag" if "diag" in name else "fc")
    state = RNG.bit_generator.state
    expect_refusal(lambda: br.update(name, MODEL, LIK, q, X1, Y1, **kw), error, match, q)
    if "probes" not in kw and "samples" not in kw:
        expect_refusal(lambda: br.run(name, MODEL, LIK, q, [X1], [Y1], **kw), error, match, q)
    assert RNG.bit_generator.state == state


def test_draws_that_options_need():
    q = prior("diag")
    m = br.method("bong-mc-hess-diag", n_samples=2, n_probes=3)
    expect_refusal(
        lambda: br.update(m, MODEL, LIK, q, X1, Y1, samples=good_samples(1, 2, P)),
        TypeError,
        "n_probes draws probes: rng or probes",
        q,
    )
    m = br.method("bong-lin-ef-diag", virtual=True)
    expect_refusal(
        lambda: br.update(m, MODEL, LIK, q, X1, Y1),
        TypeError,
        "virtual=True draws observations: rng",
        q,
    )
    expect_refusal(
        lambda: br.run(
            "bong-mc-ef-diag", MODEL, LIK, q, [X1], [Y1], samples=good_samples(2, 1, 3, P)
        ),
        ValueError,
        r"samples must have shape \(1, 1, M, 4\), got \(2, 1, 3, 4\)",
        q,
    )


# --- names and parameters -------------------------------------------------------------------------

BAD_METHODS = [
    ("bong-lin-hess-ful", {}, ValueError,
     "name must be RULE-.*got 'bong-lin-hess-ful'; did you mean 'bong-lin-hess-"),
    ("bong_lin_hess_fc", {}, ValueError, "did you mean 'bong-lin-hess-fc"),
    ("", {}, ValueError, r"name must be RULE-.*got ''; bongref\.methods\(\) lists all 80"),
    (7, {}, TypeError, "name must be a string such as .*got 7"),
    (None, {}, TypeError, "name must be a string such as .*got None"),
    ("bong-lin-hess-fc", {"alpha": 0.1}, TypeError,
     r"takes no parameter 'alpha' \(it is a parameter of blr-\*, bog-\*, bbb-\*\)"),
    ("bog-lin-hess-fc", {"n_iter": 3}, TypeError,
     r"takes no parameter 'n_iter' \(it is a parameter of blr-\*, bbb-\*\)"),
    ("blr-lin-hess-fc", {"n_samples": 3}, TypeError,
     r"takes no parameter 'n_samples' \(it is a parameter of \*-mc-\*\)"),
    ("blr-lin-hess-fc", {"rank": 3}, TypeError,
     r"takes no parameter 'rank' \(it is a parameter of \*-dlr\)"),
    ("blr-mc-ef-diag", {"n_probes": 3}, TypeError,
     r"takes no parameter 'n_probes' \(it is a parameter of \*-mc-hess-diag\*\)"),
    ("blr-mc-hess-diag", {"virtual": True}, TypeError,
     r"takes no parameter 'virtual' \(it is a parameter of \*-ef-\*\)"),
    ("blr-lin-hess-fc", {"aplha": 0.1}, TypeError,
     r"takes no parameter 'aplha' \(no method does\).*did you mean 'alpha'"),
    ("blr-mc-ef-fc", {"nsamples": 5}, TypeError, "did you mean 'n_samples'"),
    ("blr-lin-hess-fc", {"learning_rate": 0.1}, TypeError,
     r"takes no parameter 'learning_rate' .*it takes alpha, n_iter"),
    ("blr-lin-hess-fc", {"alpha": 0}, ValueError, "alpha must be > 0, got 0"),
    ("bog-lin-hess-fc", {"alpha": -0.1}, ValueError, "alpha must be > 0, got -0.1"),
    ("bbb-lin-hess-fc", {"alpha": NAN}, ValueError, "alpha must be finite, got nan"),
    ("bbb-lin-hess-fc", {"alpha": INF}, ValueError, "alpha must be finite, got inf"),
    ("bbb-lin-hess-fc", {"alpha": "0.1"}, TypeError, "alpha must be a real number, got str '0.1'"),
    ("bbb-lin-hess-fc", {"alpha": True}, TypeError, "alpha must be a real number, got bool True"),
    ("bbb-lin-hess-fc", {"alpha": 1j}, TypeError, "alpha must be a real number, got complex 1j"),
    ("bbb-lin-hess-fc", {"alpha": [0.1, 0.2]}, ValueError,
     r"alpha must be a real number, got shape \(2,\)"),
    ("bbb-lin-hess-fc", {"alpha": None}, TypeError,
     "alpha must be a real number, got NoneType None"),
    ("blr-lin-hess-dlr", {"alpha": 1.5}, ValueError,
     r"alpha must be in \(0, 1\] for blr-lin-hess-dlr.*got 1.5"),
    ("blr-mc-ef-dlr", {"alpha": 2}, ValueError, r"alpha must be in \(0, 1\] for blr-mc-ef-dlr"),
    *[(name, {key: bad}, error, f"{key} must be an integer >= 1, got {bad!r}") for name, key in
      [("blr-lin-hess-fc", "n_iter"), ("bong-mc-ef-fc", "n_samples"), ("bong-lin-ef-dlr", "rank"),
       ("bog-mc-hess-diag", "n_probes")]
      for bad, error in [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError),
       ("3", TypeError), (2.0, TypeError)]],
    ("blr-lin-hess-fc", {"n_iter": None}, TypeError, "n_iter must be an integer >= 1, got None"),
    ("bong-lin-ef-fc", {"virtual": 1}, TypeError, "virtual must be True or False, got 1"),
    ("bong-mc-hess-dlr", {}, br.NotDerived,
     "works for EF-MC and EF-LIN methods but not MC-HESS, which we omit"),
    ("blr-mc-hess-dlr", {}, br.NotDerived, r"sec:DLR-deriv.*Use blr-mc-ef-dlr or blr-lin-hess-dlr"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "error", "match"), BAD_METHODS)
def test_bad_methods(name, params, error, match):
    expect_refusal(lambda: br.method(name, **params), error, match)


@pytest.mark.parametrize("name", ["bong-mc-hess-dlr", "blr-mc-hess-dlr"])
def test_what_is_not_derived_is_refused_everywhere(name):
    q, d = prior("dlr"), prior("dlr")._asdict()
    for call in (
        lambda: br.update(name, MODEL, LIK, q, X1, Y1, rng=np.random.default_rng(0)),
        lambda: br.run(name, MODEL, LIK, q, [X1], [Y1], rng=np.random.default_rng(0)),
        lambda: br.step(name, q, q, CURV),
        lambda: br.oracle.step(name, d, d, {"g": ones, "G": -np.eye(4)}),
    ):
        expect_refusal(call, br.NotDerived, "The paper .*but not MC-HESS, which we omit", q)
    assert issubclass(br.NotDerived, NotImplementedError)


def test_what_is_allowed_at_the_limits():
    assert br.method("blr-lin-hess-dlr", alpha=1.0).params["alpha"] == 1
    assert br.method("bog-lin-hess-dlr", alpha=1.5).params["alpha"] == 1.5
    assert br.method("bong-lin-hess-dlr", rank=np.int64(4)).prior(np.zeros(4)).W.shape == (4, 4)
    assert br.method("bong-mc-hess-diag", n_probes=None).params["n_probes"] is None
    q = br.DLR(np.zeros(4), np.ones(4), np.eye(4))
    assert br.update(br.method("bong-lin-hess-dlr", rank=4), MODEL, LIK, q, X1, Y1)[1].valid


@pytest.mark.parametrize(
    ("name", "kw", "error", "match"),
    [
        ("bong-lin-hess-fc", {"mu": [0.0, NAN]}, ValueError, "mu must be finite, got nan"),
        (
            "bong-lin-hess-fc",
            {"mu": np.eye(2)},
            ValueError,
            r"mu must have 1 dimension, got shape \(2, 2\)",
        ),
        ("bong-lin-hess-fc", {"mu": ["a"]}, TypeError, "mu must be an array of real numbers"),
        (
            "bong-lin-hess-fc",
            {"mu": [0.0, 0.0], "var": 0.0},
            ValueError,
            r"var must be > 0 \(a variance\), got 0",
        ),
        (
            "bong-lin-hess-diag",
            {"mu": [0.0, 0.0], "var": [1.0, -1.0]},
            ValueError,
            r"var must be > 0 \(a variance\), got -1",
        ),
        (
            "bong-lin-hess-diag",
            {"mu": [0.0, 0.0], "var": NAN},
            ValueError,
            "var must be finite, got nan",
        ),
        (
            "bong-lin-hess-diag",
            {"mu": [0.0, 0.0], "var": [1.0] * 3},
            ValueError,
            r"var must be a scalar or have shape \(2,\), got \(3,\)",
        ),
    ],
)
def test_bad_prior_parameters(name, kw, error, match):
    expect_refusal(lambda: br.method(name).prior(**kw), error, match)


# --- the oracle -----------------------------------------------------------------------------------


def plain(q):
    return {k: v.tolist() for k, v in q._asdict().items()}


G = -np.array(
    [[2.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.2, 0.0], [0.0, 0.2, 0.8, 0.1], [0.0, 0.0, 0.1, 0.3]]
)
GOOD = {"g": ones.tolist(), "S": CURV.S.tolist()}
BAD_ORACLE = [
    (
        "bong-lin-hess-fc",
        {"mu": [0.0] * 4},
        GOOD,
        {},
        ValueError,
        r"prior must be a dict with the keys mu, Sigma, got \['mu'\]",
    ),
    (
        "bong-lin-hess-fc",
        plain(Dq),
        GOOD,
        {},
        ValueError,
        r"prior must be a dict with the keys mu, Sigma, got \['mu', 'var'\]",
    ),
    (
        "bong-lin-hess-fc",
        {**plain(FCq), "x": 1},
        GOOD,
        {},
        ValueError,
        r"got \['Sigma', 'mu', 'x'\]",
    ),
    (
        "bong-lin-hess-fc",
        FCq,
        GOOD,
        {},
        TypeError,
        r"prior must be a dict with the keys mu, Sigma, got FC .*; use prior\._asdict\(\)",
    ),
    (
        "bong-lin-hess-fc",
        plain(FCq),
        {"g": GOOD["g"]},
        {},
        ValueError,
        r"curv must be a dict with the key g and at least one of S, G, d, got \['g'\]",
    ),
    (
        "bong-lin-hess-fc",
        plain(FCq),
        {**GOOD, "G": G},
        {},
        ValueError,
        r"curv: S and G must be the same Hessian",
    ),
    (
        "bong-lin-hess-diag",
        plain(Dq),
        {**GOOD, "d": -9 * ones},
        {},
        ValueError,
        r"curv: S and d must be the same Hessian",
    ),
    (
        "bong-lin-hess-fc",
        plain(FCq),
        {**GOOD, "H": G},
        {},
        ValueError,
        r"curv must be a dict .*got \['H', 'S', 'g'\]",
    ),
    ("bong-lin-hess-fc", plain(FCq), CURV, {}, TypeError, "curv must be a dict"),
    (
        "bong-lin-hess-fc",
        plain(FCq),
        {"g": ones, "d": -ones},
        {},
        ValueError,
        r"curv must have S or G .*, got d alone",
    ),
    (
        "bong-lin-hess-dlr",
        plain(Lq),
        {"g": ones, "d": -ones},
        {},
        ValueError,
        r"curv must have S or G .*, got d alone",
    ),
    (
        "bong-lin-hess-dlr",
        plain(Lq),
        GOOD,
        {"rank": 3},
        ValueError,
        r"rank must be prior\['W'\]\.shape\[1\] = 2, got 3",
    ),
    (
        "bong-lin-hess-dlr",
        {**plain(Lq), "W": 3.0},
        GOOD,
        {},
        ValueError,
        r"prior\.W must have 2 dimensions, got shape \(\)",
    ),
    (
        "bong-lin-hess-dlr",
        {**plain(Lq), "W": "no"},
        GOOD,
        {},
        TypeError,
        r"prior\.W must be an array of real numbers, got str 'no'",
    ),
    (
        "bong-lin-hess-fc",
        plain(FCq),
        GOOD,
        {"digits": 0},
        ValueError,
        "digits must be an integer >= 1, got 0",
    ),
    (
        "bong-lin-hess-fc",
        plain(FCq),
        GOOD,
        {"digits": 1.5},
        TypeError,
        "digits must be an integer >= 1, got 1.5",
    ),
    ("bong-lin-hess-fc", plain(FCq), GOOD, {"alpha": 0.1}, TypeError, "takes no parameter 'alpha'"),
    (
        "bong-lin-hess-fc",
        {**plain(FCq), "mu": [0.0, NAN, 0.0, 0.0]},
        GOOD,
        {},
        ValueError,
        r"prior\.mu must be finite, got nan",
    ),
    (
        "bong-lin-hess-dlr",
        plain(Lq),
        {"g": ones, "G": -G},
        {},
        ValueError,
        r"curv\.G must be negative semi-definite .*largest eigenvalue of G is 2\.",
    ),
    (
        "blr-lin-hess-dlr",
        plain(Lq),
        {"g": ones, "G": np.diag([-1.0, -1.0, -1.0, 0.5])},
        {},
        ValueError,
        r"curv\.G must be negative semi-def",
    ),
    ("bong-lin-hess-fd", plain(FCq), GOOD, {}, ValueError, "did you mean 'bong-lin-hess-fc'"),
]


@pytest.mark.parametrize(("name", "q", "curv", "params", "error", "match"), BAD_ORACLE)
def test_bad_oracle_input(name, q, curv, params, error, match):
    expect_refusal(lambda: br.oracle.step(name, q, None, curv, **params), error, match)
    if "prior must be a dict" in match and name.endswith("fc"):
        expect_refusal(
            lambda: br.oracle.step("blr-lin-hess-fc", plain(FCq), q, curv),
            error,
            match.replace("prior", "current"),
        )


@pytest.mark.parametrize(
    "name", [n for n in br.methods() if n not in ("bong-mc-hess-dlr", "blr-mc-hess-dlr")]
)
def test_the_oracle_takes_S_or_the_dense_G(name):
    """The two forms of one Hessian give one result, in float64 and in exact arithmetic."""
    kind = {"fc": "fc", "fc_mom": "fc", "diag": "diag", "diag_mom": "diag", "dlr": "dlr"}[
        name.split("-")[3]
    ]
    q, S = plain(prior(kind)), np.linalg.cholesky(-G)
    params = {} if name.startswith("bong") else {"alpha": 0.01}
    forms = [{"g": ones, "S": S}, {"g": ones, "G": -S @ S.T}] + (
        [{"g": ones, "d": np.diag(-S @ S.T)}] if kind == "diag" else []
    )
    first = None
    for curv in forms:
        for digits in (None, 30) if not first or kind != "dlr" else (None,):
            out = br.oracle.step(name, q, q, curv, digits=digits, **params)
            assert set(out) == {*q, "valid"} and isinstance(out["valid"], bool)
            assert all(np.all(np.isfinite(v)) for k, v in out.items() if k != "valid")
            if kind == "dlr":
                out = {**out, "W": out["W"] @ out["W"].T}
            first = first or out
            for key in q:
                assert (d := difference(key, out[key], first[key], 100.0)).agrees, d


def test_the_oracle_reports_what_is_not_positive_definite_and_does_not_raise():
    out = br.oracle.step("bong-mc-hess-fc", plain(FCq), None, {"g": ones, "G": 5 * np.eye(4)})
    assert out["valid"] is False
    want = np.linalg.inv(
        np.linalg.inv(FCq.Sigma) - 5 * np.eye(4)
    )  # the equation's value, not a Gaussian's
    assert (d := difference("Sigma", out["Sigma"], want, 100.0)).agrees, d
    assert np.linalg.eigvalsh(out["Sigma"])[0] < 0
    out = br.oracle.step("bong-lin-hess-diag_mom", plain(Dq), None, {"g": ones, "d": -2 * ones})
    assert out["valid"] is False
    np.testing.assert_array_equal(out["var"], Dq.var - 2 * Dq.var**2)
    for digits in (None, 20):
        out = br.oracle.step(
            "bog-mc-hess-dlr",
            plain(Lq),
            None,
            {"g": ones, "G": 1e3 * np.eye(4)},
            alpha=1.0,
            digits=digits,
        )
        assert out["valid"] is False and all(
            np.all(np.isfinite(out[k])) for k in ("mu", "Ups", "W")
        )
    assert (
        br.oracle.step(
            "bong-mc-hess-fc", plain(FCq), None, {"g": ones, "G": 5 * np.eye(4)}, digits=20
        )["valid"]
        is False
    )


def test_the_oracle_takes_its_own_output_back():
    out = br.oracle.step("blr-lin-hess-dlr", plain(Lq), None, GOOD, alpha=0.5)
    again = br.oracle.step("blr-lin-hess-dlr", plain(Lq), out, GOOD, alpha=0.5)
    assert out["valid"] and again["valid"] and not np.array_equal(out["mu"], again["mu"])


@pytest.mark.parametrize("digits", [None, 30])
def test_the_oracle_beyond_the_largest_float(digits):
    """mu = 1e308 + 1e200 * 1e200 is inf in float64, and the state is not valid; nothing is
    raised.
    """
    far, curv = [1e308, 0.0], {"g": [1e200, 0.0], "S": [[1e-150], [0.0]]}
    for name, prior in (
        ("bong-lin-hess-diag", {"mu": far, "var": [1e200, 1.0]}),
        ("bong-lin-hess-fc", {"mu": far, "Sigma": [[1e200, 0.0], [0.0, 1.0]]}),
        ("bong-lin-hess-dlr", {"mu": far, "Ups": [1e-200, 1.0], "W": [[0.0], [0.0]]}),
    ):
        out = br.oracle.step(name, prior, None, curv, digits=digits)
        assert out["valid"] is False and (out["mu"][0] == np.inf or digits is None)
    out = br.oracle.step(
        "bong-lin-hess-diag",
        {"mu": [-1e308, 0.0], "var": [1e200, 1.0]},
        None,
        {**curv, "g": [-1e200, 0.0]},
        digits=30,
    )
    assert out["mu"][0] == -np.inf and out["mu"][1] == 0

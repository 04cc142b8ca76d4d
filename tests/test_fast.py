"""The parts of the compiled path against their counterparts in the reference, or against exact
arithmetic.
"""

from __future__ import annotations

import ast
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from problems import belief, sizes
from problems import curvature as draw_curvature

import bongref as br
from bongref import curvature, gaussians
from bongref.families import diag_mom, diag_nat
from bongref.fast import (  # noqa: F401  families: all steps
    elementary,
    families,
    generic,
    jit,  # the module, for its settings
    normals,
    small,
    steps,
)
from bongref.fast.jit import config, kernel
from bongref.fast.likelihoods import extra, load, n_rows, places, score, weights
from bongref.fast.nets import describe, workspace
from bongref.fast.nets.interface import accumulate, forward, pullback, sums
from bongref.fast.status import OK
from bongref.routes import compare

EPS = float(np.finfo(float).eps)


# --- products of long rows ------------------------------------------------------------------------

combine, add_products = kernel(small.combine), kernel(small.add_products)


@pytest.mark.parametrize(
    "m, n, width",
    [(1, 1, 5), (1, 7, 9), (3, 3, 4), (11, 11, 33), (5, 9, 17), (12, 3, 6), (6, 4, 1)],
)
def test_products_of_long_rows_are_those_of_numpy(m, n, width):
    """Rows in fours and pairs, and what is left over; at most n or ``width`` terms in each sum."""
    rng = np.random.default_rng(m * n)
    V, X, Y = (rng.standard_normal(shape) for shape in ((m, n), (n, width), (m, width)))
    Z, out = np.full((m, width), np.nan), rng.standard_normal((m, n))
    combine(V, X, Z)
    assert np.all(np.abs(Z - V @ X) <= (n + 2) * EPS * (np.abs(V) @ np.abs(X)))
    wanted, most = out + Y @ X.T, np.abs(out) + np.abs(Y) @ np.abs(X.T)
    add_products(Y, X, out, False)
    assert np.all(np.abs(out - wanted) <= (width + 3) * EPS * most)
    u, gram = rng.random(width), np.zeros((m, m))
    add_products(u * Y, Y, gram, True)
    assert np.all(np.abs(gram - (u * Y) @ Y.T) <= (width + 3) * EPS * (np.abs(u * Y) @ np.abs(Y.T)))
    assert np.array_equal(gram, gram.T)


# --- elementary functions -------------------------------------------------------------------------


@kernel
def all_three(x, out):
    """exp, erfcx and tanh of one number, called as kernels call them."""
    out[0] = elementary.exp(x)
    out[1] = elementary.erfcx(abs(x))
    out[2] = elementary.tanh(x, elementary.exp(-2.0 * abs(x)))


def three(x):
    out = np.zeros(3)
    all_three(float(x), out)
    return out


@pytest.mark.parametrize("width", [1e-8, 0.3, 1.0, 5.0, 26.0])
def test_elementary_functions_are_right_to_a_few_units_in_the_last_place(width):
    """exp: ln 2 to 90 bits and 13 terms; erfcx: 24 terms of absolute sum < 4; tanh: two quotients.
    4 eps bounds each.
    """
    with mp.workdps(40):
        for x in np.random.default_rng(0).uniform(-width, width, 60):
            exact = (
                mp.exp(mp.mpf(x)),
                mp.exp(mp.mpf(x) ** 2) * mp.erfc(abs(mp.mpf(x))),
                mp.tanh(mp.mpf(x)),
            )
            for name, got, want in zip(("exp", "erfcx", "tanh"), three(x), exact, strict=True):
                assert abs(got - want) <= 4 * EPS * abs(want), (name, x)


@pytest.mark.parametrize("x", [-708.0, -700.25, -1e-320, 0.0, 1e-300, 600.5, 709.0])
def test_exp_at_the_ends_of_its_range(x):
    with mp.workdps(40):
        assert abs(three(x)[0] - mp.exp(mp.mpf(x))) <= 4 * EPS * mp.exp(mp.mpf(x))


def test_exp_of_nan_is_nan_and_far_below_zero_it_is_nothing():
    assert math.isnan(three(math.nan)[0]) and 0 <= three(-1e5)[0] < 1e-300


def quantile(u):
    """Φ⁻¹ at the middle of the cell of u, in 40 digits."""
    q = mp.mpf(float(u)) - mp.mpf(1) / 2 + mp.mpf(2) ** -54
    return mp.sqrt(2) * mp.erfinv(2 * q)


@pytest.mark.parametrize(
    "u", [0.0, 2.0**-53, 3 * 2.0**-53, 2.0**-30, 0.25, 0.5 - 2.0**-53, 0.5, 0.75, 1 - 2.0**-53]
)
def test_normals_at_the_ends_and_in_the_middle(u):
    z = np.array([u])
    normals.transform(z, normals.source())
    with mp.workdps(40):
        assert abs(z[0] - quantile(u)) <= 8 * EPS * max(1, abs(quantile(u)))


def test_normals_are_the_quantiles_of_the_uniform_variates():
    """A polynomial of degree 7 on a part whose half-width is at most 1/65 of its distance to 0
    leaves less than 129⁻⁸ < eps/8.
    """
    u = np.random.default_rng(1).random(300)
    z = u.copy()
    normals.transform(z, normals.source())
    with mp.workdps(40):
        assert (
            max(abs(a - quantile(b)) / max(1, abs(quantile(b))) for a, b in zip(z, u, strict=True))
            <= 8 * EPS
        )


@given(
    seed=st.integers(0, 2**64 - 1),
    skipped=st.integers(0, 10**6),
    sizes=st.lists(st.integers(0, 150), min_size=1, max_size=4),
)
def test_the_variates_are_those_of_numpys_bits(seed, skipped, sizes):
    """In portions of any size, to the last bit what each uniform variate alone gives; the generator
    ends where NumPy's does.
    """
    ours, numpys = np.random.default_rng(seed), np.random.default_rng(seed)
    numpys.bit_generator.advance(skipped)
    source, portions = normals.source(), [np.empty(n) for n in sizes]
    normals.restart(source, *normals.state_of(ours), skipped)
    for z in portions:
        normals.fill_array(source, z)
    wanted = numpys.random(sum(sizes))
    normals.transform(wanted, normals.source())
    assert np.array_equal(np.concatenate(portions), wanted)
    normals.skip(ours, skipped + sum(sizes))
    assert ours.bit_generator.state == numpys.bit_generator.state


def test_half_a_number_that_is_left_over_stays():
    ours, numpys = np.random.default_rng(3), np.random.default_rng(3)
    for rng in (ours, numpys):
        rng.integers(0, 5, dtype=np.int32)
    numpys.random(70)
    normals.skip(ours, 70)
    assert ours.bit_generator.state == numpys.bit_generator.state


def test_normals_are_normal():
    """Mean, variance and kurtosis of 400,000 draws within 6 standard errors."""
    z, n = gaussians.normals(np.random.default_rng(5), (400_000,)), 400_000
    for power, mean, var in ((1, 0, 1), (2, 1, 2), (4, 3, 96)):
        assert abs(np.mean(z**power) - mean) <= 6 * math.sqrt(var / n)


# --- networks -------------------------------------------------------------------------------------


def prepare(model, K):
    """The network, its table and workspace with K cotangents, and the places of outputs, cotangents
    and weights.
    """
    (net, ints), C = describe(model), model.n_outputs
    v = workspace(net, C + K * C + 2 * K)
    return (net, ints, v), (
        net.size,
        net.size + np.uint64(C),
        net.size + np.uint64(C + K * C),
    )


def put(network, at, values):
    network[2][int(at) : int(at) + np.size(values)] = np.ravel(values)


def both(model, theta, x, V):
    """Outputs and rows V_k ∂f/∂θ."""
    network, (o, at, _) = prepare(model, len(V))
    rows = np.empty((len(V), model.n_params))
    forward(*network, theta, x, o)
    put(network, at, V)
    pullback(*network, theta, at, np.uint64(len(V)), rows)
    return network[2][int(o) : int(o) + model.n_outputs].copy(), rows


MODELS = {
    "linear": br.models.linear(3, 2),
    "linear-bias": br.models.linear(4, 3, bias=True),
    **{
        f"mlp-{a}": br.models.mlp([5, 6, 4, 2], activation=a)
        for a in ("tanh", "relu", "gelu", "gelu_tanh")
    },
    "mlp-wide": br.models.mlp([21, 20, 20, 1], activation="gelu"),
    "mlp-two-layers": br.models.mlp([2, 3], activation="relu"),
}


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("name", MODELS)
def test_networks_and_their_jacobians(name, size):
    model, rng = MODELS[name], np.random.default_rng(7)
    theta, x = size * rng.standard_normal(model.n_params), rng.standard_normal(model.in_shape)
    o, J = both(model, theta, x, np.eye(model.n_outputs))
    outputs = lambda theta, x: br.states.Diag(model(theta, x), np.ones(1))
    jacobian = lambda theta, x: br.states.FC(np.zeros(1), model.jac(theta, x))
    for fn, got, key, i in ((outputs, o, "mu", 0), (jacobian, J, "Sigma", 1)):
        cond = condition(lambda *a, fn=fn, i=i: fn(*a)[i], theta, x)
        d = compare.difference(key, got, fn(theta, x)[i], cond)
        assert d.agrees, f"{name}: {d}"


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("name", ["linear", "linear-bias", "mlp-gelu"])
def test_sums_of_rows_and_of_their_squares(name, K):
    """The rows of the pullback, summed: K + 4 roundings of each term."""
    model, rng = MODELS[name], np.random.default_rng(7)
    theta, x = rng.standard_normal(model.n_params), rng.standard_normal(model.in_shape)
    (network, (o, at, weights)), V, (c, w) = (
        prepare(model, K),
        rng.standard_normal((K, model.n_outputs)),
        rng.uniform(0.5, 2, (2, K)),
    )
    rows, (g, d) = both(model, theta, x, V)[1], np.empty((2, model.n_params))
    forward(*network, theta, x, o)
    put(network, at, V)
    put(network, weights, [c, w])
    sums(*network, theta, at, np.uint64(K), weights, g, d)
    tol = (K + 4) * EPS
    assert np.all(np.abs(g - c @ rows) <= tol * (c @ np.abs(rows)))
    assert np.all(np.abs(d + w**2 @ rows**2) <= 2 * tol * (w**2 @ rows**2))
    more, less = np.ones(model.n_params), np.ones(model.n_params)
    accumulate(*network, theta, at, more, less)
    assert np.all(np.abs(more - (1 + rows[0])) <= tol * (1 + np.abs(rows[0])))
    assert np.all(np.abs(less - (1 - rows[0] ** 2)) <= tol * (1 + rows[0] ** 2))


def condition(fn, *inputs):
    """The largest relative change of an array for relative changes of the inputs by DELTA, over a
    few directions.
    """
    rng, base, worst = np.random.default_rng(0), fn(*inputs), 1.0
    for _ in range(4):
        moved = fn(*(compare.perturb(v, rng) for v in inputs))
        worst = max(
            worst, float(np.max(np.abs(moved - base)) / (compare.DELTA * np.max(np.abs(base))))
        )
    return worst


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu", "gelu_tanh"])
def test_what_is_not_finite_stays_so(activation, bad):
    """The reference refuses such parameters; the compiled network must hand them on for the stream
    to notice.
    """
    model = br.models.mlp([2, 3, 1], activation=activation)
    theta = np.ones(model.n_params)
    theta[-2] = bad  # a weight of the last layer
    with np.errstate(all="ignore"):
        assert not np.isfinite(both(model, theta, np.ones(2), np.eye(1))[0][0])
        theta[-2], theta[0] = 1.0, math.nan
        assert math.isnan(both(model, theta, np.ones(2), np.eye(1))[0][0])


# --- likelihoods ----------------------------------------------------------------------------------


@kernel
def likelihood(at, hess, v, y):
    """Score and weighted cotangents, called from Python."""
    score(at, v, y, at.s)
    weights(at, hess, v, y)


def of_likelihood(lik, hess, o, y):
    """Score, cotangents, coefficients and weights at the outputs o."""
    C, K = len(o), n_rows(lik, len(o), hess)
    at, v = places(lik, C, K, 5), np.zeros(5 + extra(C, K))
    load(lik, at, v)
    v[5 : 5 + C] = o
    likelihood(at, hess, v, y)
    part = lambda first, n: v[int(first) : int(first) + n].copy()
    return part(at.s, C), part(at.V, K * C).reshape(K, C), part(at.c, K), part(at.c + at.K, K)


R3 = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
LIKELIHOODS = {
    "gaussian": (br.likelihoods.Gaussian(var=0.3), [0.5, -1.0, 2.0]),
    "gaussian-full": (br.likelihoods.Gaussian(var=R3), [0.5, -1.0, 2.0]),
    "bernoulli": (br.likelihoods.Bernoulli(), [0.0, 1.0, 1.0]),
    "categorical": (br.likelihoods.Categorical(), [0.0, 1.0, 0.0]),
    "poisson": (br.likelihoods.Poisson(), [0.0, 3.0, 1.0]),
}


@pytest.mark.parametrize("label", [0, 1, 2])
@pytest.mark.parametrize(
    "o",
    [
        [0.1, -0.4, 0.9],
        [30.0, -35.0, 12.0],
        [-40.0, -40.5, 41.0],
        [1e-9, 0.0, -1e-9],
        [800.0, 0.1, 0.0],
    ],
)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_weighted_rows_give_score_and_information(name, o, label):
    """To a few eps of the sums of absolute values; a score of classes has no terms that cancel, y −
    e^o of a rate has.
    """
    lik, y = LIKELIHOODS[name]
    o, y = (
        np.array(o) / (4 if name == "poisson" else 1),
        np.eye(3)[label] if name == "categorical" else np.array(y),
    )
    s, V, c, w = of_likelihood(lik, 0, o, y)
    want = lik.score(o, y)
    size = np.abs(lik._P) @ np.abs(y - o) if name == "gaussian-full" else np.abs(want)
    size = y + np.exp(o) if name == "poisson" else size
    assert np.all(np.abs(s - want) <= 16 * EPS * size), (s, want)
    assert np.all(np.abs(c @ V - want) <= 16 * EPS * (np.abs(c) @ np.abs(V) + size))
    F = lik.info_factor(o)
    size = np.abs(V.T) @ (w[:, None] ** 2 * np.abs(V)) + np.abs(F) @ np.abs(F.T)
    assert np.all(np.abs(V.T @ (w[:, None] ** 2 * V) - F @ F.T) <= 16 * EPS * size)
    s, V, c, w = of_likelihood(lik, 1, o, y)
    assert np.array_equal(c[0] * V[0], s) and np.array_equal(w[0] * V[0], s)


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
@pytest.mark.parametrize(("slow", "family"), [(diag_nat, "diag"), (diag_mom, "diag_mom")])
@given(size=sizes(max_P=30), alpha=st.floats(1e-3, 1.0))
def test_diagonal_steps(rule, slow, family, size, alpha):
    rng = np.random.default_rng(size.seed)
    prior, current = (belief("diag", rng, size.P, log_cond=size.log_cond) for _ in range(2))
    if rule in ("bong", "bog"):
        current = prior
    curv = draw_curvature("mc-ef", "diag", rng, size.P, size.K)
    args = prior, current, curv, alpha
    before = [np.array(v) for v in (*prior, *current)]
    m = br.method(f"{rule}-mc-ef-{family}", **({} if rule == "bong" else {"alpha": alpha}))
    (got, status), wanted = steps.step(m, prior, current, curv), getattr(slow, rule)(*args)
    assert (status == OK) == bool(np.all(wanted.var > 0))
    # each entry is a problem of its own, of which the precision before and after tell the
    # condition: sums whose terms may cancel
    for key, a, b, terms in zip(("mu", "var"), got, wanted, _terms(rule, slow, *args), strict=True):
        assert np.all(np.abs(a - b) <= 64 * EPS * terms), (key, a, b)
    assert all(np.array_equal(a, b) for a, b in zip(before, (*prior, *current), strict=True))


def _terms(rule, module, prior, current, curv, alpha):
    """Bounds on how far rounding of each term of the equations moves mu and var: the equations with
    absolute values.
    """
    d, g = curvature.diagonal(curv), curv.g
    v, v0, m, pull = (
        current.var,
        prior.var,
        np.abs(current.mu),
        np.abs(g) + np.abs(prior.mu - current.mu) / prior.var,
    )
    new = getattr(module, rule)(prior, current, curv, alpha)
    with np.errstate(all="ignore"):
        if module is diag_nat:
            precision = {
                "bong": 1 / v0 + np.abs(d),
                "blr": 1 / v + alpha / v0 + alpha * np.abs(d),
                "bog": 1 / v + 4 * alpha * v * m * np.abs(g) + 2 * alpha * v**2 * np.abs(d),
                "bbb": 1 / v
                + 4 * alpha * v * m * pull
                + 2 * alpha * v**2 * (np.abs(d) + 1 / v + 1 / v0),
            }[rule]
            loss = precision * np.abs(new.var)  # ≥ 1: the digits that the sum of precisions loses
            var = loss * np.abs(new.var)
            mu = (
                m + np.abs(new.var) / v * m + np.abs(new.var) * pull * (1 + alpha * (1 + v))
            ) * loss + np.abs(new.mu)
        else:
            var = (
                v
                + {
                    "bong": v0**2 * np.abs(d),
                    "blr": alpha * v**2 * (1 / v + 1 / v0 + np.abs(d)),
                    "bog": alpha * np.abs(d),
                    "bbb": alpha * (1 / v + 1 / v0 + np.abs(d)),
                }[rule]
            )
            mu = m + pull * (v if rule in ("bong", "blr") else alpha)
    return mu, var


# --- what the first use costs and leaves behind ---------------------------------------------------

FIRST = """
import numpy as np, bongref as br
m = br.method("bong-lin-ef-diag")
model, lik, prior = br.models.linear(2), br.likelihoods.Gaussian(var=1.0), m.prior(np.zeros(2))
res = br.run(m, model, lik, prior, np.eye(2), np.ones((2, 1)), backend="fast")
print(res.state.mu.tolist(), res.state.var.tolist())
"""


def test_concurrent_first_uses_share_one_compilation(tmp_path, monkeypatch):
    """Three processes on an empty folder: all give the same numbers, and there is one compiled
    kernel.
    """
    if config.DISABLE_JIT:
        pytest.skip("nothing is compiled with NUMBA_DISABLE_JIT=1")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    start = lambda: subprocess.Popen(
        [sys.executable, "-c", FIRST], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    finished = [p.communicate(timeout=300) for p in [start() for _ in range(3)]] + [
        start().communicate(timeout=300)
    ]
    outputs = {out for out, _ in finished}
    assert len(outputs) == 1 and outputs.pop().startswith("[0.5, 0.5]"), finished
    announced = [err for _, err in finished if "compiling fast.loop.steps" in err]
    assert announced
    assert len(list(tmp_path.rglob("*.nbc"))) == len(list(tmp_path.rglob("*.nbi"))) == 1


@pytest.mark.parametrize("content", [b"", b"\x80\x04 no index"])
def test_a_damaged_cache_is_compiled_again(content, tmp_path, monkeypatch):
    """With a kernel that takes little to compile; a new Kernel reads the cache as a new process
    does.
    """
    if config.DISABLE_JIT:
        pytest.skip("nothing is compiled with NUMBA_DISABLE_JIT=1")
    monkeypatch.setattr("bongref.fast.jit.FOLDER", tmp_path)
    x = np.array([0.5, -1.5])
    assert kernel(doubled)(x).tolist() == [1.0, -3.0]
    (index,) = tmp_path.rglob("*.nbi")
    whole = index.read_bytes()
    index.write_bytes(content)
    assert kernel(doubled)(x).tolist() == [1.0, -3.0]
    (index,) = tmp_path.rglob("*.nbi")
    assert len(index.read_bytes()) == len(whole)


def doubled(x):
    return 2 * x


def test_a_kernel_that_numba_cannot_compile_is_unavailable():
    """The reason is in the message; run falls back to the reference."""
    if config.DISABLE_JIT:
        pytest.skip("nothing is compiled with NUMBA_DISABLE_JIT=1")

    @kernel
    def wrong(x):
        return x.no_such_attribute

    with pytest.raises(br.fast.Unavailable, match="cannot compile test_fast"):
        wrong(np.zeros(2))


@pytest.mark.parametrize("model", ["wrap", "batches", "mlp"])
@pytest.mark.parametrize("name", ["bong-lin-ef-dlr", "blr-mc-ef-diag", "bong-mc-ef-fc"])
def test_a_stream_goes_on_with_the_reference_where_numba_fails(name, model, monkeypatch):
    """Also where a kernel is compiled at its first step only: the reference's bits, the reason, and
    one warning; with backend="fast" an error.
    """
    if config.DISABLE_JIT:
        pytest.skip("nothing is compiled with NUMBA_DISABLE_JIT=1")
    net = br.models.mlp([2, 2, 1])
    if model == "wrap":
        built = net
        net = br.models.wrap(lambda theta, x: built(theta, x), n_params=built.n_params)
    X = np.linspace(-1, 1, 12).reshape((3, 2, 2) if model == "batches" else (6, 2))
    Y = np.sin(X.sum(axis=-1, keepdims=True))
    more = {"rank": 2} if "dlr" in name else {"n_samples": 3}
    m = br.method(name, **more)
    prior = m.prior(mu=np.full(net.n_params, 0.1), var=0.1)
    lik = br.likelihoods.Gaussian(var=0.5)
    go = lambda backend: br.run(m, net, lik, prior, list(X), list(Y), rng=1, backend=backend)
    wanted = go("reference")
    monkeypatch.setattr(br.fast.jit, "_types", lambda args: object())  # nothing is compiled yet

    def broken(fn, key):
        raise TypeError("a future Numba")

    monkeypatch.setattr(br.fast.jit, "_cached", broken)
    monkeypatch.setattr(br.backends, "_warned", set())  # nothing has been said
    with pytest.warns(br.BongrefWarning, match="a future Numba") as seen:
        got = go("auto")
    assert len(seen) == 1 and got.info.backend == "reference"
    assert "cannot compile" in got.info.reason and got.info.steps == len(X)
    assert all(np.array_equal(a, b) for a, b in zip(got.state, wanted.state, strict=True))
    with pytest.raises((ValueError, br.StreamEnded), match="a future Numba"):
        go("fast")


# --- numba's public interface ---------------------------------------------------------------------

PUBLIC = {"numba", "numba.extending", "numba.typed"}
NAMES = {
    "config",
    "njit",
    "prange",
    "vectorize",
    "literally",
    "overload",
    "register_jitable",
    "typed",
    "__version__",
}


def imports(tree):
    """(module, name) of all imports of a module; name is None for ``import module``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.module, alias.name) for alias in node.names)


def attributes(tree):
    """The attributes of the name ``numba`` that a module uses."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "numba"
        ):
            yield node.attr


FILES = sorted(Path(br.fast.jit.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_only_numbas_documented_interface_is_used(file):
    tree = ast.parse(file.read_text())
    for module, name in imports(tree):
        assert module.split(".")[0] not in ("llvmlite", "ctypes", "cffi"), module
        if module.split(".")[0] == "numba":
            assert module in PUBLIC and (name is None or name in NAMES), (module, name)
    assert set(attributes(tree)) <= NAMES


def test_the_compiled_path_stays_small():
    """At most 5,000 lines; modules of 600, functions of 60 lines and 12 arguments."""
    lengths = {f: len(f.read_text().splitlines()) for f in FILES}
    assert sum(lengths.values()) <= 5000 and max(lengths.values()) <= 600, lengths
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, (file.stem, node.name)
                assert len(node.args.args) + len(node.args.kwonlyargs) <= 12, (file.stem, node.name)


def test_classes_that_kernels_take_have_names_of_their_own():
    """Numba's dispatcher tells NamedTuples apart by name and field types: of two that are alike the
    second is typed in Python at every call, which takes 0.1 ms.
    """
    kinds = {kind for table in generic.TABLES.values() for kind in table}
    assert len(kinds) > 40 and len({kind.__name__ for kind in kinds}) == len(kinds)


def test_a_stopped_process_with_the_lock_of_a_kernel_blocks_nobody_for_long(tmp_path, monkeypatch):
    """The lock is exclusive while its owner has it, and given up for after LOCK_WAIT seconds."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(jit, "FOLDER", tmp_path)
    monkeypatch.setattr(jit, "LOCK_WAIT", 0.3)
    with open(tmp_path / "k.lock", "w") as other:
        with jit._file_lock("k"), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        begun = time.monotonic()
        with jit._file_lock("k"):
            assert time.monotonic() - begun >= 0.3

"""The parts of the compiled path, each beside its twin in the reference or beside exact arithmetic."""

from __future__ import annotations

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

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
from bongref.fast import elementary, estimators, lanes, normals, teams
from bongref.fast.jit import inner, kernel
from bongref.fast.kernels import diag_mom as fast_mom
from bongref.fast.kernels import diag_nat as fast_nat
from bongref.fast.likelihoods import describe as describe_likelihood
from bongref.fast.likelihoods import info_rows, n_rows, score, weighted_rows
from bongref.fast.networks import describe, forward, sweep, workspace
from bongref.fast.vectors import flat
from bongref.routes import compare

EPS = float(np.finfo(float).eps)


# --- parts and entry points ---------------------------------------------------------------------------------------------------


@inner
def third(x):
    """A third of a number that is not negative."""
    if x < 0.0:
        raise ValueError("no third of a negative number")
    return x / 3.0


@inner
def two_thirds(x):
    """A part of a part."""
    return 2.0 * third(x)


@kernel
def thirds(x):
    """An entry point with two parts, one of them twice."""
    return third(x) + two_thirds(x)


def test_a_part_does_the_same_in_an_entry_point_and_by_itself():
    assert thirds(6.0) == 6.0 and third(6.0) == 2.0 and two_thirds(6.0) == 4.0


def test_an_error_in_a_part_arrives_with_what_it_says():
    for function in (thirds, two_thirds):
        with pytest.raises(ValueError, match=r"^no third of a negative number$"):
            function(-1.0)


# --- elementary functions --------------------------------------------------------------------------------------------------


@kernel
def all_four(x, out):
    """exp, erfcx, tanh and Φ⁻¹ of one number, called as kernels call them."""
    out[0] = elementary.exp(x)
    out[1] = elementary.erfcx(abs(x))
    out[2] = elementary.tanh(x, elementary.exp(-2.0 * abs(x)))


def four(x):
    out = np.empty(3)
    all_four(float(x), out)
    return out


@pytest.mark.parametrize("width", [1e-8, 0.3, 1.0, 5.0, 26.0])
def test_elementary_functions_are_right_to_a_few_units_in_the_last_place(width):
    """exp: ln 2 to 90 bits and 13 terms; erfcx: 24 terms of absolute sum < 4; tanh: two quotients. 4 eps bounds each."""
    with mp.workdps(40):
        for x in np.random.default_rng(0).uniform(-width, width, 60):
            exact = mp.exp(mp.mpf(x)), mp.exp(mp.mpf(x) ** 2) * mp.erfc(abs(mp.mpf(x))), mp.tanh(mp.mpf(x))
            for name, got, want in zip(("exp", "erfcx", "tanh"), four(x), exact, strict=True):
                assert abs(got - want) <= 4 * EPS * abs(want), (name, x)


@pytest.mark.parametrize("x", [-708.0, -700.25, -1e-320, 0.0, 1e-300, 600.5, 709.0])
def test_exp_at_the_ends_of_its_range(x):
    with mp.workdps(40):
        assert abs(four(x)[0] - mp.exp(mp.mpf(x))) <= 4 * EPS * mp.exp(mp.mpf(x))


def test_exp_of_nan_is_nan_and_far_below_zero_it_is_nothing():
    assert math.isnan(four(math.nan)[0]) and 0 <= four(-1e5)[0] < 1e-300


def quantile(u):
    """Φ⁻¹ at the middle of the cell of u, in 40 digits."""
    q = mp.mpf(float(u)) - mp.mpf(1) / 2 + mp.mpf(2) ** -54
    return mp.sqrt(2) * mp.erfinv(2 * q)


@pytest.mark.parametrize("u", [0.0, 2.0**-53, 3 * 2.0**-53, 2.0**-30, 0.25, 0.5 - 2.0**-53, 0.5, 0.75, 1 - 2.0**-53])
def test_normals_at_the_ends_and_in_the_middle(u):
    z = np.array([u])
    normals.transform(z, normals.table())
    with mp.workdps(40):
        assert abs(z[0] - quantile(u)) <= 8 * EPS * max(1, abs(quantile(u)))


def test_normals_are_the_quantiles_of_the_uniform_variates():
    """A polynomial of degree 7 on a part whose half-width is at most 1/65 of its distance to 0 leaves less than 129⁻⁸ < eps/8."""
    u = np.random.default_rng(1).random(300)
    z = u.copy()
    normals.transform(z, normals.table())
    with mp.workdps(40):
        assert max(abs(a - quantile(b)) / max(1, abs(quantile(b))) for a, b in zip(z, u, strict=True)) <= 8 * EPS


def generators(seed):
    """NumPy's default generator, one with half a number left over from a draw of 32 bits, and another kind of generator."""
    odd = np.random.default_rng(seed)
    odd.integers(0, 5, dtype=np.int32)
    return {"pcg": np.random.default_rng(seed), "odd": odd, "mt": np.random.Generator(np.random.MT19937(seed))}


@kernel
def draw_twice(state, jumps, coefficients, first, second):
    """Normal variates in two portions, the first after jumps[2], as a kernel draws them."""
    chains = np.empty((4, 2), np.uint64)
    normals.place_chains(state, jumps[0], jumps[0], jumps[2], chains)
    normals.draw(chains, jumps[1], coefficients, first)
    normals.draw(chains, jumps[1], coefficients, second)


@given(seed=st.integers(0, 2**64 - 1), skipped=st.integers(0, 10**6), first=st.integers(0, 9), second=st.integers(0, 9))
def test_the_variates_are_those_of_numpys_bits(seed, skipped, first, second):
    """Four at a time and one by one, to the last bit what each uniform variate alone gives."""
    ours, numpys = np.random.default_rng(seed), np.random.default_rng(seed)
    numpys.bit_generator.advance(skipped)
    pcg, u, v = normals.PCG(ours), np.empty(first), np.empty(second)
    jumps = pcg.jumps(1, 4, skipped, skipped + first + second)
    draw_twice(pcg.state, jumps, normals.table(), u, v)
    wanted = numpys.random(first + second)
    normals.transform(wanted, normals.table())
    assert np.array_equal(np.concatenate([u, v]), wanted)
    pcg.advance(jumps[3])
    pcg.close()
    assert ours.bit_generator.state == numpys.bit_generator.state


@pytest.mark.parametrize("least", [0, 10**9])
@pytest.mark.parametrize("kind", ["pcg", "odd", "mt"])
def test_blocks_of_normals_are_the_reference_draws(kind, least, monkeypatch):
    """Drawn in advance by a second thread, where there is one, and when they are asked for."""
    monkeypatch.setattr(estimators, "AHEAD", least)
    rng = generators(3)[kind]
    source = estimators.Normals(generators(3)[kind], (7, 5), 4)
    for _ in range(4):
        want = gaussians.normals(rng, (7, 5))
        assert np.max(np.abs(source.block() - want)) <= 16 * EPS * np.max(np.abs(want))
    source.close()
    a, b = source.rng.bit_generator.state, rng.bit_generator.state
    assert str(a) == str(b)  # both generators stand at the same place


def test_blocks_that_nobody_asked_for_are_drawn_all_the_same_where_one_is_under_way():
    """A refused step leaves its generator anywhere: the caller puts it back."""
    source = estimators.Normals(np.random.default_rng(3), (200, 200), 3)
    first = source.block().copy()
    source.close()
    again = estimators.Normals(np.random.default_rng(3), (200, 200), 1)
    assert np.array_equal(first, again.block())


def test_normals_are_normal():
    """Mean, variance and kurtosis of 400,000 draws within 6 standard errors."""
    z, n = gaussians.normals(np.random.default_rng(5), (400_000,)), 400_000
    for power, mean, var in ((1, 0, 1), (2, 1, 2), (4, 3, 96)):
        assert abs(np.mean(z**power) - mean) <= 6 * math.sqrt(var / n)


# --- four samples at a time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 4), (2, 7), (5, 21), (2, lanes.COLUMNS + 6)])
@pytest.mark.parametrize("k", [1, 3, 4])
def test_sums_and_rows_of_four_outer_products(m, n, k):
    """Columns that do not go into fours, more of them than stay in the cache; k of the four are samples."""
    rng = np.random.default_rng(m + n)
    delta, h, at, P = rng.standard_normal((m, 4)), rng.standard_normal((n, 4)), 3, m * n + m + 5
    delta[:, k:] = 0
    H, g, d, rows = np.empty((8, n + 2)), rng.standard_normal(P), rng.standard_normal(P), np.full((P, 4), 7.0)
    each = [np.concatenate([np.full(at, 0.0), np.outer(delta[:, i], h[:, i]).ravel(), delta[:, i], np.zeros(2)]) for i in range(4)]
    total, squares = g + sum(each), d - sum(r * r for r in each)
    flat = np.concatenate([np.zeros(8), h.ravel()])
    lanes.turned(flat, 2, n, H)
    lanes.add_outer(delta.ravel(), m, H, n, g, d, at)
    lanes.add_sums(delta.ravel(), m, g, d, at + m * n)
    lanes.put_outer(delta.ravel(), m, flat, 2, n, 1, rows.reshape(-1), at)
    assert np.max(np.abs(g - total)) <= 64 * EPS and np.max(np.abs(d - squares)) <= 256 * EPS
    assert np.all(rows[:at] == 7) and np.all(rows[-2:] == 7)
    assert np.max(np.abs(rows.T[:, at:-2] - np.array(each)[:, at:-2])) <= 8 * EPS


# --- threads -----------------------------------------------------------------------------------------------------------------


@kernel
def add_up(first, board, rounds, size, out, total):
    """The first thread offers len(out) jobs a round, job k the sum of ``size`` numbers; total[r] = Σ_k of round r."""
    r = 0
    while r < rounds or not first:
        if first:
            teams.write(board, teams.OFFERED, teams.read(board, teams.OFFERED) + len(out))
        job = teams.claim(board)
        while job >= 0:
            k = job % len(out)
            s = 0.0
            for i in range(size):
                s += (job + 1.0) / (i + 1.0)
            out[k] = s
            teams.write(board, teams.DONE + teams.LINE * k, job + 1)
            job = teams.claim(board)
        if first:
            teams.wait(board, len(out))
            total[r] = out.sum()
            r += 1
        elif job == -2:
            return
    teams.write(board, teams.CLOSED, 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_share_jobs(threads):
    """Every job is done once in its round, by whom is all the same."""
    rounds, size = (3, 5) if br.fast.jit.config.DISABLE_JIT else (2000, 50)
    threads = 1 if br.fast.jit.config.DISABLE_JIT else threads
    board, out, total = teams.board(5), np.zeros(5), np.zeros(rounds)
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(add_up, k == 0, board, rounds, size, out, total) for k in range(threads)]:
            done.result(60)
    harmonic = math.fsum(1 / (i + 1) for i in range(size))
    jobs = np.arange(5 * rounds).reshape(rounds, 5) + 1.0
    assert np.allclose(total, harmonic * jobs.sum(1), rtol=1e-12)
    assert board[teams.CLAIMED] == board[teams.OFFERED] == 5 * rounds


# --- networks ----------------------------------------------------------------------------------------------------------------


@kernel
def both(net, theta, x, work, V, o, out):
    """A forward pass and a sweep, called from Python."""
    forward(net, theta, x, work, o)
    sweep(net, theta, x, work, V, out)


MODELS = {
    "linear": br.models.linear(3, 2),
    "linear-bias": br.models.linear(4, 3, bias=True),
    **{f"mlp-{a}": br.models.mlp([5, 6, 4, 2], activation=a) for a in ("tanh", "relu", "gelu", "gelu_tanh")},
    "mlp-wide": br.models.mlp([21, 20, 20, 1], activation="gelu"),
    "mlp-two-layers": br.models.mlp([2, 3], activation="relu"),
}


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("name", MODELS)
def test_networks_and_their_jacobians(name, size):
    model, rng = MODELS[name], np.random.default_rng(7)
    theta, x = size * rng.standard_normal(model.n_params), rng.standard_normal(model.in_shape)
    net, C = describe(model), model.n_outputs
    o, J = np.empty(C), np.empty((C, model.n_params))
    both(net, theta, x, workspace(net, C), np.eye(C), o, J)
    outputs = lambda theta, x: br.states.Diag(model(theta, x), np.ones(1))
    jacobian = lambda theta, x: br.states.FC(np.zeros(1), model.jac(theta, x))
    for fn, got, key, i in ((outputs, o, "mu", 0), (jacobian, J, "Sigma", 1)):
        cond = condition(lambda *a, fn=fn, i=i: fn(*a)[i], theta, x)
        d = compare.difference(key, got, fn(theta, x)[i], cond)
        assert d.agrees, f"{name}: {d}"


def condition(fn, *inputs):
    """The largest relative change of an array for relative changes of the inputs by DELTA, over a few directions."""
    rng, base, worst = np.random.default_rng(0), fn(*inputs), 1.0
    for _ in range(4):
        moved = fn(*(compare.perturb(v, rng) for v in inputs))
        worst = max(worst, float(np.max(np.abs(moved - base)) / (compare.DELTA * np.max(np.abs(base)))))
    return worst


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu", "gelu_tanh"])
def test_what_is_not_finite_stays_so(activation, bad):
    """The reference refuses such parameters; the compiled network must hand them on for the stream to notice."""
    model = br.models.mlp([2, 3, 1], activation=activation)
    theta, net = np.ones(model.n_params), describe(model)
    theta[-2] = bad  # a weight of the last layer
    o, J = np.empty(1), np.empty((1, model.n_params))
    both(net, theta, np.ones(2), workspace(net, 1), np.eye(1), o, J)
    assert not np.isfinite(o[0])
    theta[-2], theta[0] = 1.0, math.nan
    both(net, theta, np.ones(2), workspace(net, 1), np.eye(1), o, J)
    assert math.isnan(o[0])


# --- likelihoods ---------------------------------------------------------------------------------------------------------------


@kernel
def likelihood(lik, o, y, s, B, buffer):
    """Score and information, called from Python."""
    score(lik, o, y, s, buffer)
    info_rows(lik, o, B, buffer)


R3 = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
LIKELIHOODS = {
    "gaussian": (br.likelihoods.Gaussian(var=0.3), [0.5, -1.0, 2.0]),
    "gaussian-full": (br.likelihoods.Gaussian(var=R3), [0.5, -1.0, 2.0]),
    "bernoulli": (br.likelihoods.Bernoulli(), [0.0, 1.0, 1.0]),
    "categorical": (br.likelihoods.Categorical(), [0.0, 1.0, 0.0]),
    "poisson": (br.likelihoods.Poisson(), [0.0, 3.0, 1.0]),
}


@pytest.mark.parametrize("o", [[0.1, -0.4, 0.9], [30.0, -35.0, 12.0], [-40.0, -40.5, 41.0], [1e-9, 0.0, -1e-9], [0.1, 0.1 + 1e-9, 200.0]])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_scores_and_factors_of_the_information(name, o):
    """Entry by entry, also where a probability is within 1e-17 of 0 or 1: 16 eps of each number itself."""
    lik, y = LIKELIHOODS[name]
    o, y = np.array(o), np.array(y)
    s, B = np.empty(3), np.empty((3, 3))
    likelihood(describe_likelihood(lik, 3), o, y, s, B, np.empty(3))
    want = lik.score(o, y)
    size = np.abs(lik._P) @ np.abs(y - o) if name == "gaussian-full" else np.abs(want)
    assert np.all(np.abs(s - want) <= 16 * EPS * size), (s, want)
    factor = lik.info_factor(o)
    assert np.all(np.abs(B.T - factor) <= 16 * EPS * np.abs(factor)), (B.T, factor)


@kernel
def weighted(lik, hess, o, y, V, c, w, buffer):
    """The weighted rows, called from Python."""
    weighted_rows(lik, hess, o, y, V, c, w, buffer)


@pytest.mark.parametrize("label", [0, 1, 2])
@pytest.mark.parametrize("o", [[0.1, -0.4, 0.9], [30.0, -35.0, 12.0], [-40.0, -40.5, 41.0], [1e-9, 0.0, -1e-9], [800.0, 0.1, 0.0]])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_weighted_rows_give_score_and_information(name, o, label):
    """To a few eps of the sums of absolute values, whose terms for classes do not cancel."""
    lik, y = LIKELIHOODS[name]
    o, y = np.array(o) / (4 if name == "poisson" else 1), np.eye(3)[label] if name == "categorical" else np.array(y)
    numbers = describe_likelihood(lik, 3)
    K = n_rows(numbers, 3)
    V, c, w = np.empty((K, 3)), np.empty(K), np.empty(K)
    weighted(numbers, 0, o, y, V, c, w, np.empty(3))
    assert np.all(np.abs(c @ V - lik.score(o, y)) <= 16 * EPS * (np.abs(c) @ np.abs(V) + np.abs(lik.score(o, y))))
    F = lik.info_factor(o)
    size = np.abs(V.T) @ (w[:, None] ** 2 * np.abs(V)) + np.abs(F) @ np.abs(F.T)
    assert np.all(np.abs(V.T @ (w[:, None] ** 2 * V) - F @ F.T) <= 16 * EPS * size)
    weighted(numbers, 1, o, y, V, c, w, np.empty(3))
    assert np.array_equal(c[0] * V[0], w[0] * V[0])
    assert np.all(np.abs(c[0] * V[0] - lik.score(o, y)) <= 16 * EPS * np.abs(lik.score(o, y)) + 64 * EPS * (name == "gaussian-full"))


# --- steps -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
@pytest.mark.parametrize(("slow", "fast"), [(diag_nat, fast_nat), (diag_mom, fast_mom)])
@given(size=sizes(max_P=30), alpha=st.floats(1e-3, 1.0))
def test_diagonal_steps(rule, slow, fast, size, alpha):
    rng = np.random.default_rng(size.seed)
    prior, current = (belief("diag", rng, size.P, log_cond=size.log_cond) for _ in range(2))
    if rule in ("bong", "bog"):
        current = prior
    curv = draw_curvature("mc-ef", "diag", rng, size.P, size.K)
    args = prior, current, curv, alpha
    before = [np.array(v) for v in (*prior, *current)]
    got, wanted = getattr(fast, rule)(*args), getattr(slow, rule)(*args)
    # each entry is a problem of its own, of which the precision before and after tell the condition: sums whose terms may cancel
    for key, a, b, terms in zip(("mu", "var"), got, wanted, _terms(rule, slow, *args), strict=True):
        assert np.all(np.abs(a - b) <= 64 * EPS * terms), (key, a, b)
    assert all(np.array_equal(a, b) for a, b in zip(before, (*prior, *current), strict=True))


def _terms(rule, module, prior, current, curv, alpha):
    """Bounds on how far rounding of each term of the equations moves mu and var: the equations with absolute values."""
    d, g = curvature.diagonal(curv), curv.g
    v, v0, m, pull = current.var, prior.var, np.abs(current.mu), np.abs(g) + np.abs(prior.mu - current.mu) / prior.var
    new = getattr(module, rule)(prior, current, curv, alpha)
    with np.errstate(all="ignore"):
        if module is diag_nat:
            precision = {
                "bong": 1 / v0 + np.abs(d),
                "blr": 1 / v + alpha / v0 + alpha * np.abs(d),
                "bog": 1 / v + 4 * alpha * v * m * np.abs(g) + 2 * alpha * v**2 * np.abs(d),
                "bbb": 1 / v + 4 * alpha * v * m * pull + 2 * alpha * v**2 * (np.abs(d) + 1 / v + 1 / v0),
            }[rule]
            loss = precision * np.abs(new.var)  # ≥ 1: the digits that the sum of precisions loses
            var = loss * np.abs(new.var)
            mu = (m + np.abs(new.var) / v * m + np.abs(new.var) * pull * (1 + alpha * (1 + v))) * loss + np.abs(new.mu)
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


# --- what the first use costs and leaves behind -----------------------------------------------------------------------------------

FIRST = """
import numpy as np, bongref as br
m = br.method("bong-lin-ef-diag")
res = br.run(m, br.models.linear(2), br.likelihoods.Gaussian(var=1.0), m.prior(mu=np.zeros(2)), np.eye(2), np.ones((2, 1)), backend="fast")
print(res.state.mu.tolist(), res.state.var.tolist())
"""


def test_concurrent_first_uses_share_one_compilation(tmp_path, monkeypatch):
    """Three processes on an empty folder: one compiles and says so, all give the same numbers, and a fourth finds it compiled."""
    if br.fast.jit.config.DISABLE_JIT:
        pytest.skip("nothing is compiled with NUMBA_DISABLE_JIT=1")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    start = lambda: subprocess.Popen([sys.executable, "-c", FIRST], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finished = [p.communicate(timeout=300) for p in [start() for _ in range(3)]] + [start().communicate(timeout=300)]
    outputs = {out for out, _ in finished}
    assert len(outputs) == 1 and outputs.pop().startswith("[0.5, 0.5]"), finished
    announced = [err for _, err in finished if "compiling fast.streams.diag.stream" in err]
    assert announced and "compiling" not in finished[-1][1]
    assert len(list(tmp_path.rglob("*.nbc"))) == len(list(tmp_path.rglob("*.nbi"))) == 1


@pytest.mark.parametrize("shape", [(3, 4), (1, 5), (2, 3, 2)])
def test_an_array_as_one_row(shape):
    """A view of the same numbers, also of some rows of a larger array, that is written to where they are."""
    a = np.arange(np.prod(shape), dtype=float).reshape(shape)
    wanted = a[1:].ravel() * 2 if shape[0] > 1 else a.ravel() * 2
    part = a[1:] if shape[0] > 1 else a
    _double(part)
    assert np.array_equal(part.ravel(), wanted)


@kernel
def _double(a):
    numbers = flat(a)
    for i in range(len(numbers)):
        numbers[i] *= 2.0

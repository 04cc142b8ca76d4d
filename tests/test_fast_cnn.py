"""The compiled CNN against the reference and its autograd, over shapes that leave remainders
everywhere.

The tolerance is C eps times the sum of the absolute values of the terms. That sum is the same
network at |θ| and |x| with relu, which is then the identity: every activation obeys |act(z)| ≤ |z|
and |act'(z)| < 1.2. A gradient also contains act'(z), and z is known to eps times the sum of its
own terms, hence the factor 1 + (largest such sum).
"""

import numba
import numpy as np
import pytest

import bongref as br
from bongref import models
from bongref.fast import predict
from bongref.fast.nets import describe, workspace
from bongref.fast.nets.interface import accumulate, forward, pullback, sums

EPS = np.finfo(np.float64).eps
C = 8  # the sums have up to 784 terms; their rounding errors have either sign

SHAPES = {
    "one convolution": {"in_shape": (4, 4, 1), "features": (2,), "kernel": (3, 3)},
    "more than 4 planes": {"in_shape": (4, 6, 1), "features": (5, 6), "kernel": (3, 3)},
    "two channels, odd width, even kernel": {
        "in_shape": (6, 5, 2),
        "features": (2, 3),
        "kernel": (3, 2),
    },
    "three channels, odd sizes, even kernel": {
        "in_shape": (7, 5, 3),
        "features": (3,),
        "kernel": (2, 4),
    },
    "odd after the first pooling": {"in_shape": (6, 7, 1), "features": (4, 4), "kernel": (2, 2)},
    "three convolutions": {"in_shape": (9, 8, 1), "features": (2, 4, 3), "kernel": (2, 3)},
    "kernel larger than the image": {"in_shape": (4, 4, 2), "features": (2, 5), "kernel": (5, 4)},
    "kernel of one row": {"in_shape": (4, 5, 1), "features": (3, 2), "kernel": (1, 3)},
    "kernel of one pixel": {"in_shape": (5, 4, 2), "features": (2, 2), "kernel": (1, 1)},
    "kernel of one column": {"in_shape": (5, 4, 2), "features": (2, 2), "kernel": (4, 1)},
}
ACTIVATIONS = ("tanh", "relu", "gelu", "gelu_tanh")


def build(name, activation):
    return models.cnn(**SHAPES[name], n_classes=3, hidden=5, activation=activation)


def draw(model, seed=0):
    """θ with biases that are not 0, x, and cotangents."""
    rng = np.random.default_rng(seed)
    theta = model.init(rng)
    for p in model.layout:
        if p.name.startswith("b"):
            theta[p.where] = 0.1 * rng.standard_normal(p.shape)
    return theta, rng.standard_normal(model.in_shape), rng.standard_normal((8, model.n_outputs))


def prepare(model, K):
    """The network, its table and workspace with K cotangents, and the places of outputs, cotangents
    and weights.
    """
    (net, ints), C = describe(model), model.n_outputs
    v = workspace(net, C + K * C + 2 * K)
    o = net.size
    return (net, ints, v), (o, o + np.uint64(C), o + np.uint64(C + K * C))


def put(network, at, values):
    network[2][int(at) : int(at) + np.size(values)] = np.ravel(values)


def run(model, theta, x, V, prepared=None):
    """Outputs and rows of the compiled network."""
    network, (o, at, _) = prepare(model, len(V)) if prepared is None else prepared
    rows = np.full((len(V), model.n_params), np.nan)
    forward(*network, theta, x.ravel(), o)
    put(network, at, V)
    pullback(*network, theta, at, np.uint64(len(V)), rows)
    return network[2][int(o) : int(o) + model.n_outputs].copy(), rows


def magnitudes(model, theta, x):
    """The sums of the absolute values of the terms: of the outputs (C,), of the Jacobian (C, P);
    and the largest before an activation.
    """
    keys = ("in_shape", "features", "kernel", "hidden")
    positive = models.cnn(
        **{k: model.spec[k] for k in keys}, n_classes=model.n_outputs, activation="relu"
    )
    theta, x = np.abs(theta), np.abs(x)
    arrays, h, largest = model.unflatten(theta), x[None], 0.0
    n = len(model.spec["features"])
    for i in range(n):
        z = models.layers.conv_same(h, arrays[f"K{i}"]) + arrays[f"b{i}"]
        h, largest = models.layers.avg_pool(z), max(largest, z.max())
    z = arrays[f"W{n}"] @ h.ravel() + arrays[f"b{n}"]
    return positive(theta, x), positive.jac(theta, x), max(largest, z.max())


def assert_within(got, want, tol):
    """|got − want| ≤ tol, entry by entry; the worst entry is named."""
    gap = np.abs(got - want) - tol
    worst = np.unravel_index(np.argmax(gap), gap.shape)  # a NaN counts as the largest
    assert gap[worst] <= 0, (
        f"at {tuple(map(int, worst))}: got {got[worst]!r}, wanted {want[worst]!r}, "
        f"tolerance {tol[worst]:.3g}"
    )


def compare(model, seed):
    theta, x, V = draw(model, seed)
    o, out = run(model, theta, x, V)
    size, slopes, largest = magnitudes(model, theta, x)
    assert_within(o, model(theta, x), C * EPS * size)
    want = np.stack([model.vjp(theta, x, v) for v in V])
    tol = C * EPS * (1 + largest) * (np.abs(V) @ slopes)
    assert_within(out, want, tol)
    check_sums(model, theta, x, V, want, tol)


def check_sums(model, theta, x, V, want, tol):
    """Sums of rows and of their squares: to the tolerance of the rows, and twice the rows times it
    for the squares.
    """
    c, w = np.random.default_rng(0).uniform(0.5, 2, (2, len(V)))
    for K in (1, len(V)):
        g, d, (network, (o, at, weights)) = (
            np.zeros(model.n_params),
            np.zeros(model.n_params),
            prepare(model, K),
        )
        forward(*network, theta, x.ravel(), o)
        put(network, at, V[:K])
        put(network, weights, [c[:K], w[:K]])
        sums(*network, theta, at, np.uint64(K), weights, g, d)
        rows, slack, wide = want[:K], tol[:K], w[:K, None]
        bound = (wide**2 * (2 * np.abs(rows) + slack) * slack).sum(axis=0) + K * 4 * EPS * (
            (wide * rows) ** 2
        ).sum(axis=0)
        assert_within(g, c[:K] @ rows, c[:K] @ (slack + K * EPS * np.abs(rows)))
        assert_within(d, -((wide * rows) ** 2).sum(axis=0), bound)
    g, d = np.ones(model.n_params), np.ones(model.n_params)
    put(network, at, V[1])
    accumulate(*network, theta, at, g, d)
    assert_within(g, 1 + want[1], tol[1] + EPS * (1 + np.abs(want[1])))
    assert_within(
        d, 1 - want[1] ** 2, (2 * np.abs(want[1]) + tol[1]) * tol[1] + 4 * EPS * (1 + want[1] ** 2)
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_and_rows_equal_the_reference(name, activation):
    compare(build(name, activation), seed=1)


def test_unit_cotangents_give_the_jacobian():
    model = build("two channels, odd width, even kernel", "tanh")
    theta, x, _ = draw(model, 2)
    _, slopes, largest = magnitudes(model, theta, x)
    assert_within(
        run(model, theta, x, np.eye(3))[1], model.jac(theta, x), C * EPS * (1 + largest) * slopes
    )


@pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="16 million products are too many for plain Python"
)
def test_the_papers_network():
    model = models.cnn()
    compare(model, seed=3)
    assert int(describe(model)[0].size) <= 4 * 10 * model.n_params


@pytest.mark.parametrize("name", SHAPES)
def test_a_used_workspace_is_as_good_as_a_new_one(name):
    """The zeros around the planes survive, and nothing of an earlier input or of more cotangents is
    left.
    """
    model = build(name, "gelu")
    prepared = prepare(model, 5)
    (_net, ints, v), _ = prepared
    v[int(ints[0, 5]) :] = np.nan  # all but the images, with the zeros around them
    for seed, K in ((4, 5), (5, 1), (6, 4), (7, 3)):
        theta, x, V = draw(model, seed)
        used, new = run(model, 10 * theta, x, V[:K], prepared), run(model, 10 * theta, x, V[:K])
        np.testing.assert_array_equal(used[0], new[0])
        np.testing.assert_array_equal(used[1], new[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("piece", ["K0", "b1", "W2", "b3"])
def test_what_is_not_finite_stays_so(piece, bad):
    model = build("more than 4 planes", "gelu")
    theta, x, V = draw(model, 7)
    where = {p.name: p.where.start for p in model.layout}[piece]
    theta[where] = bad
    with np.errstate(all="ignore"):
        o, out = run(model, theta, x, V)
    assert not np.all(np.isfinite(o))
    if piece != "b3":  # a bias at the end moves no derivative
        assert np.all(np.any(~np.isfinite(out), axis=1))


# --- predictions over many inputs and samples -----------------------------------------------------


def predictions(model, lik, n, S, seed=0):
    """A state, samples, inputs, and what the reference gives for them with a bound of its rounding
    errors, (S, n, C) each.
    """
    rng = np.random.default_rng(seed)
    theta, _, _ = draw(model, seed)
    X = rng.standard_normal((n, *model.in_shape))
    shifts = 0.1 * rng.standard_normal((S, model.n_params))
    values, bounds = {"mc": [], "lin_mc_f": []}, {"mc": [], "lin_mc_f": []}
    for x in X:
        o, J, (size, slopes, largest) = (
            model(theta, x),
            model.jac(theta, x),
            magnitudes(model, theta, x),
        )
        values["mc"].append([model(theta + s, x) for s in shifts])
        bounds["mc"].append([C * EPS * magnitudes(model, theta + s, x)[0] for s in shifts])
        values["lin_mc_f"].append(o + shifts @ J.T)
        bounds["lin_mc_f"].append(C * EPS * (size + (1 + largest) * (np.abs(shifts) @ slopes.T)))
    swap = lambda part: {kind: np.swapaxes(v, 0, 1) for kind, v in part.items()}
    return theta, theta + shifts, X, swap(values), swap(bounds)


@pytest.mark.parametrize("name", SHAPES)
def test_predictions_are_the_reference(name, monkeypatch):
    """Several chunks and samples; the plugin values are the outputs at the mean."""
    monkeypatch.setattr(predict, "EVALUATION", 0)
    model = build(name, "gelu")
    monkeypatch.setattr(predict, "CHUNK", 2 * model.n_outputs * model.n_params)
    theta, thetas, X, want, bound = predictions(model, None, 5, 3)
    found = predict.values(("plugin", "mc", "lin_mc_f"), model, None, theta, thetas, X)
    for kind in ("mc", "lin_mc_f"):
        assert_within(found[kind], want[kind], bound[kind])
    alone = predict.values(("plugin",), model, None, theta, None, X)["plugin"]
    sizes = np.array([[C * EPS * magnitudes(model, theta, x)[0] for x in X]])
    for values in (found["plugin"], alone):
        assert_within(values, np.array([[model(theta, x) for x in X]]), sizes)


def test_linearised_means_are_those_of_the_linearised_outputs(monkeypatch):
    """h̄ = ŷ + (∂h/∂f) (f̄ − f) for every sample and input."""
    monkeypatch.setattr(predict, "EVALUATION", 0)
    model, lik = build("one convolution", "tanh"), br.likelihoods.Categorical()
    theta, thetas, X, want, bound = predictions(model, lik, 4, 3)
    found = predict.values(("lin_mc",), model, lik, theta, thetas, X)["lin_mc"]
    for n, x in enumerate(X):
        o = model(theta, x)
        moved, A = want["lin_mc_f"][:, n] - o, lik.jac_mean(o)
        tol = bound["lin_mc_f"][:, n] @ np.abs(A).T * (1 + np.abs(moved).max()) + 8 * EPS
        assert_within(found[:, n], lik.mean(o) + moved @ A.T, tol)


def test_few_rows_and_many_rows_of_the_jacobian_are_the_same():
    """One row at a time, which forms products for its own cotangent, and all at once, where pooled
    pixels share them.
    """
    model = build("two channels, odd width, even kernel", "gelu")
    theta, x, _ = draw(model)
    _, together = run(model, theta, x, np.eye(3))
    apart = np.vstack([run(model, theta, x, V[None])[1] for V in np.eye(3)])
    _, slopes, largest = magnitudes(model, theta, x)
    assert_within(together, apart, C * EPS * (1 + largest) * slopes)

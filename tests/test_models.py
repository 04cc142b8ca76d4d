"""The models against hand-written NumPy, scipy's correlation, finite differences, loops over a
batch, and bad input.
"""

import copy
import itertools
import json
import math
import pickle

import autograd.numpy as anp
import numpy as np
import pytest
from scipy.signal import correlate2d
from scipy.special import erfc

from bongref import models
from bongref.errors import BongrefError

EPS = np.finfo(np.float64).eps
# Central differences with one Richardson step: truncation h⁴, rounding EPS/h; best at h =
# EPS^(1/5), error EPS^(4/5)
STEP, FD = EPS**0.2, 64 * EPS**0.8

SMALL = {
    "linear": models.linear(3, 2),
    "linear-bias": models.linear(3, 2, bias=True),
    "mlp-tanh": models.mlp([3, 4, 2], "tanh"),
    "mlp-gelu": models.mlp([3, 4, 3, 1], "gelu"),
    "mlp-gelu_tanh": models.mlp([3, 4, 2], "gelu_tanh"),
    "mlp-relu": models.mlp([3, 4, 2], "relu"),
    "cnn": models.cnn(
        in_shape=(6, 5, 2), n_classes=3, features=(2, 3), kernel=(3, 2), hidden=4, activation="tanh"
    ),
    "wrap": models.wrap(
        lambda t, x: anp.array([anp.sum(anp.sin(t * x)), t[0] * t[1] * x[2]]), 3, in_shape=(3,)
    ),
}
small = pytest.mark.parametrize("model", SMALL.values(), ids=SMALL.keys())


def draw(model, seed=0, n=None):
    rng = np.random.default_rng(seed)
    shape = model.in_shape if n is None else (n, *model.in_shape)
    return rng.standard_normal(model.n_params), rng.standard_normal(shape)


def differences(f, theta):
    """The derivative of f (any shape) in each coordinate of theta, last axis P, by Richardson's
    central differences.
    """

    def central(h):
        return np.stack(
            [(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(theta.size)], axis=-1
        )

    return (4 * central(STEP) - central(2 * STEP)) / 3


def assert_near(got, want, tol):
    """Within tol of want, relative to the largest entry (at least 1)."""
    np.testing.assert_allclose(got, want, rtol=0, atol=tol * max(1.0, np.max(np.abs(want))))


# --- (a) sizes ------------------------------------------------------------------------------------


def test_parameter_counts():
    assert models.mlp([21, 20, 20, 1]).n_params == 881
    assert models.cnn().n_params == 57_722
    assert models.linear(4).n_params == 4
    assert models.linear(4, 3, bias=True).n_params == 15


# --- (b) Jacobians --------------------------------------------------------------------------------


@small
def test_jacobian_equals_finite_differences(model):
    theta, x = draw(model)
    assert_near(model.jac(theta, x), differences(lambda t: model(t, x), theta), FD)


ACT = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(float)),
    "gelu": (
        lambda z: z * erfc(-z / math.sqrt(2)) / 2,
        lambda z: erfc(-z / math.sqrt(2)) / 2 + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
}


@pytest.mark.parametrize("activation", ACT)
def test_mlp_equals_hand_written_backpropagation(activation):
    sizes = [3, 5, 4, 2]
    model = models.mlp(sizes, activation)
    theta, x = draw(model, seed=4)
    act, slope = ACT[activation]
    layers, at = [], 0
    for n_in, n_out in itertools.pairwise(sizes):
        W = theta[at : at + n_out * n_in].reshape(n_out, n_in)
        b = theta[at + n_out * n_in : at + n_out * n_in + n_out]
        layers.append((W, b))
        at += n_out * n_in + n_out
    inputs, pre = [x], []
    for W, b in layers:
        pre.append(W @ inputs[-1] + b)
        inputs.append(act(pre[-1]))
    delta, pieces = np.eye(2), []  # ∂ output / ∂ pre-activation of the layer, (C, n_out)
    for i in reversed(range(3)):
        pieces = [(delta[:, :, None] * inputs[i]).reshape(2, -1), delta, *pieces]
        if i:
            delta = (delta @ layers[i][0]) * slope(pre[i - 1])
    assert_near(model(theta, x), pre[-1], 64 * EPS)  # sums of at most 5 products, three layers
    assert_near(model.jac(theta, x), np.concatenate(pieces, axis=1), 256 * EPS)


def test_activations():
    z = np.array([-30.0, -3.0, -0.5, 0.0, 0.5, 3.0, 30.0])
    rtol = 4 * 30**2 * EPS  # the condition number of the tail of Φ is z²
    np.testing.assert_allclose(models.layers.gelu(z), ACT["gelu"][0](z), rtol=rtol, atol=0)
    z = z[1:-1]
    np.testing.assert_allclose(
        models.layers.gelu_tanh(z), models.layers.gelu(z), rtol=0, atol=5e-4
    )  # the approximation's known error
    inner = 0.7978845608028654 * (z + 0.044715 * z**3)
    np.testing.assert_allclose(
        models.layers.gelu_tanh(z), z / (1 + np.exp(-2 * inner)), rtol=0, atol=16 * EPS
    )


@pytest.mark.parametrize("name", ["tanh", "gelu", "gelu_tanh"])
def test_derivatives_of_activations(name):
    f = models.layers.ACTIVATIONS[name]
    for z in (-6.0, -3.0, -0.5, 0.0, 0.5, 3.0, 6.0):
        at, total = np.array([z]), lambda t: anp.sum(f(t))
        assert_near(models.grad(total)(at), differences(total, at), FD * max(1, abs(z)))
        assert_near(models.hessian(total)(at), differences(models.grad(total), at), FD)


def test_relu_has_slope_zero_at_zero():
    at = np.array([-1.0, -0.0, 0.0, 1.0])
    assert models.grad(lambda t: anp.sum(models.layers.relu(t)))(at).tolist() == [0, 0, 0, 1]
    assert (
        models.hessian(lambda t: anp.sum(models.layers.relu(t)))(at).tolist()
        == np.zeros((4, 4)).tolist()
    )


@small
def test_vjp_is_v_times_jac(model):
    theta, x = draw(model, seed=1, n=4)
    v = np.random.default_rng(2).standard_normal(model(theta, x).shape)
    tol = 64 * EPS * model.n_params
    assert_near(model.vjp(theta, x, v), np.einsum("nc,ncp->p", v, model.jac(theta, x)), tol)
    assert_near(model.vjp(theta, x[0], v[0]), v[0] @ model.jac(theta, x[0]), tol)


# --- (c) the convolution --------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [(5, 5), (3, 2), (1, 4)])
def test_convolution_equals_scipy(kernel):
    rng = np.random.default_rng(5)
    x, K = rng.standard_normal((2, 7, 6, 3)), rng.standard_normal((*kernel, 3, 4))
    got = models.layers.conv_same(x, K)
    pad = [
        ((k - 1) // 2, k // 2) for k in kernel
    ]  # zeros before and after; an even kernel has one more after
    for n in range(2):
        padded = np.pad(x[n], (*pad, (0, 0)))
        for o in range(4):
            want = sum(correlate2d(padded[:, :, c], K[:, :, c, o], mode="valid") for c in range(3))
            assert_near(got[n, :, :, o], want, 2 * math.prod(kernel) * 3 * EPS)
    if kernel == (5, 5):
        want = sum(correlate2d(x[0, :, :, c], K[:, :, c, 0], mode="same") for c in range(3))
        assert_near(got[0, :, :, 0], want, 150 * EPS)


def test_cnn_equals_scipy_layer_by_layer():
    model = models.cnn()
    rng = np.random.default_rng(6)
    theta, x = model.init(rng), rng.random((28, 28, 1))
    a, at = [], 0
    for shape in [(5, 5, 1, 16), (16,), (5, 5, 16, 16), (16,), (64, 784), (64,), (10, 64), (10,)]:
        a.append(theta[at : at + math.prod(shape)].reshape(shape))
        at += math.prod(shape)
    h = x
    for K, b in (a[:2], a[2:4]):
        z = np.stack(
            [
                sum(correlate2d(h[:, :, c], K[:, :, c, o], mode="same") for c in range(K.shape[2]))
                for o in range(16)
            ],
            -1,
        )
        z = np.maximum(z + b, 0)
        h = (z[::2, ::2] + z[1::2, ::2] + z[::2, 1::2] + z[1::2, 1::2]) / 4
    want = a[6] @ np.maximum(a[4] @ h.ravel() + a[5], 0) + a[7]
    tol = (25 + 400 + 784 + 64) * EPS  # the lengths of the sums
    assert_near(model(theta, x), want, tol)
    for other in (x[:, :, 0], x.ravel()):
        np.testing.assert_array_equal(model(theta, other), model(theta, x))
    X = np.stack([x, 2 * x])
    for other in (X, X[..., 0], X.reshape(2, -1)):
        assert model.is_batch(other) and not model.is_batch(other[0])
        assert_near(model(theta, other), np.stack([model(theta, x), model(theta, 2 * x)]), tol)
    # the Jacobian of the full model along random directions
    J = model.jac(theta, x)
    assert J.shape == (10, 57_722)
    smooth = models.cnn(activation="gelu")
    d = rng.standard_normal(57_722) / math.sqrt(57_722)
    want = differences(lambda t: smooth(theta + t[0] * d, x), np.zeros(1))[:, 0]
    assert_near(smooth.jac(theta, x) @ d, want, FD)
    assert_near(model.vjp(theta, x, np.eye(10)[3]), J[3], tol)


def test_odd_sizes_pool_without_the_last_row():
    x = np.arange(30.0).reshape(1, 5, 6, 1)
    got = models.layers.avg_pool(x)[0, :, :, 0]
    np.testing.assert_array_equal(got, x[0, :4, :, 0].reshape(2, 2, 3, 2).mean(axis=(1, 3)))


# --- (d) a batch is a loop ------------------------------------------------------------------------


@small
def test_batch_equals_loop(model):
    theta, x = draw(model, seed=7, n=5)
    C = 2 if model.n_outputs is None else model.n_outputs
    assert model(theta, x).shape == (5, C) and model(theta, x[0]).shape == (C,)
    assert model.jac(theta, x).shape == (5, C, model.n_params) and model.jac(theta, x[0]).shape == (
        C,
        model.n_params,
    )
    assert_near(model(theta, x), np.stack([model(theta, row) for row in x]), 64 * EPS)
    assert_near(model.jac(theta, x), np.stack([model.jac(theta, row) for row in x]), 256 * EPS)
    assert model(theta, x[:1]).shape == (1, C)


# --- (e) second derivatives -----------------------------------------------------------------------


@small
def test_hessian_and_hvp_equal_differences_of_the_gradient(model):
    theta, x = draw(model, seed=8, n=2)
    theta = 0.5 * theta
    f = lambda t: anp.sum(anp.tanh(model(t, x)) * anp.array([[0.7], [-1.3]]))
    g = models.grad(f)
    assert_near(g(theta), differences(f, theta), 4 * FD)
    H = models.hessian(f)(theta)
    assert_near(H, differences(g, theta), 16 * FD)
    np.testing.assert_array_equal(H, H.T)
    v = np.random.default_rng(9).standard_normal(theta.size)
    assert_near(models.hvp(f)(theta, v), H @ v, 64 * EPS * theta.size)


def test_third_derivatives_of_the_convolution():
    model = SMALL["cnn"]
    theta, x = draw(model, seed=10, n=1)
    v = np.random.default_rng(11).standard_normal(theta.size)
    f = lambda t: anp.sum(anp.sin(model(t, x)))
    curvature = lambda t: anp.sum(models.hvp(f)(t, v) * v)
    along = differences(lambda s: np.array(curvature(theta + s[0] * v)), np.zeros(1))[0]
    got = models.grad(curvature)(theta) @ v
    assert_near(got, along, 64 * FD * theta.size)


def test_linear_functions_have_zero_hessian_without_a_warning():
    f = lambda t: anp.sum(t * np.arange(3.0))
    assert models.grad(f)(np.ones(3)).tolist() == [0, 1, 2]
    assert models.hessian(f)(np.ones(3)).tolist() == np.zeros((3, 3)).tolist()
    assert models.hvp(f)(np.ones(3), np.ones(3)).tolist() == [0, 0, 0]
    assert models.grad(lambda t: 3.0)(np.ones(3)).tolist() == [0, 0, 0]
    with pytest.raises(
        TypeError, match=r"f must be a scalar function, got a result of shape \(3,\)"
    ):
        models.grad(lambda t: t * t)(np.ones(3))


# --- (f) layout -----------------------------------------------------------------------------------


@small
def test_layout_round_trip(model):
    theta, _ = draw(model)
    assert [p.where.start for p in model.layout] == [0, *[p.where.stop for p in model.layout[:-1]]]
    assert model.layout[-1].where.stop == model.n_params
    parts = model.unflatten(theta)
    for p in model.layout:
        np.testing.assert_array_equal(parts[p.name], theta[p.where].reshape(p.shape))
    np.testing.assert_array_equal(model.flatten(parts), theta)
    json.dumps(model.spec)
    with pytest.raises(ValueError, match=r"arrays must have exactly the keys .*, got"):
        model.flatten({"nothing": np.ones(3)})
    with pytest.raises(ValueError, match=r"arrays\['\w+'\] must have shape .*, got \(99,\)"):
        model.flatten({**parts, model.layout[0].name: np.ones(99)})


def test_layout_order_and_names():
    names = lambda m: [(p.name, p.shape) for p in m.layout]
    assert names(models.mlp([3, 4, 2])) == [
        ("W0", (4, 3)),
        ("b0", (4,)),
        ("W1", (2, 4)),
        ("b1", (2,)),
    ]
    assert names(models.linear(3, 2)) == [("W0", (2, 3))]
    assert [n for n, _ in names(models.cnn())] == ["K0", "b0", "K1", "b1", "W2", "b2", "W3", "b3"]


@pytest.mark.parametrize("kind", [k for k in SMALL if k != "wrap"])
def test_built_in_models_copy_and_pickle(kind):
    model = SMALL[kind]
    theta, x = draw(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other == model and hash(other) == hash(model)
        np.testing.assert_array_equal(other(theta, x), model(theta, x))
    with pytest.raises(AttributeError):
        model.kind = "other"


# --- (g) initial values ---------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["lecun_normal", "he_normal", "xavier_uniform", "zeros"])
def test_init_statistics(scheme):
    model = models.cnn()
    theta = model.init(np.random.default_rng(12), scheme)
    assert theta.shape == (57_722,) and theta.dtype == np.float64
    fans = {"K0": (25, 400), "K1": (400, 400), "W2": (784, 64), "W3": (64, 10)}
    for name, a in model.unflatten(theta).items():
        if name not in fans or scheme == "zeros":
            assert not np.any(a)
            continue
        n_in, n_out = fans[name]
        var = {
            "lecun_normal": 1 / n_in,
            "he_normal": 2 / n_in,
            "xavier_uniform": 2 / (n_in + n_out),
        }[scheme]
        kurtosis = 1.8 if scheme == "xavier_uniform" else 3.0
        assert abs(a.mean()) <= 6 * math.sqrt(var / a.size)
        assert abs(np.mean(a**2) - var) <= 6 * var * math.sqrt((kurtosis - 1) / a.size)
        if scheme == "xavier_uniform":
            assert np.max(np.abs(a)) <= math.sqrt(3 * var)
    assert np.array_equal(model.init(np.random.default_rng(12), scheme), theta)


# --- (h) wrap -------------------------------------------------------------------------------------


def test_wrap_scalar_function_and_batches():
    model = models.wrap(lambda t, x: anp.dot(t, x), n_params=3)
    t, x = np.array([1.0, 2.0, 3.0]), np.array([[1.0, 0.0, 2.0], [0.5, 1.0, 0.0]])
    assert model.n_outputs is None and model.in_shape is None
    np.testing.assert_array_equal(model(t, x[0]), [7.0])
    np.testing.assert_array_equal(model(t, x), [[7.0], [2.5]])
    np.testing.assert_array_equal(model.jac(t, x), x[:, None, :])
    np.testing.assert_array_equal(model.vjp(t, x, [[1.0], [2.0]]), x[0] + 2 * x[1])
    constant = models.wrap(lambda t, x: 0.5, n_params=3)
    np.testing.assert_array_equal(constant.jac(t, x[0]), np.zeros((1, 3)))
    scalar = models.wrap(lambda t, x: t[0] + t[1] * x, n_params=2)
    np.testing.assert_array_equal(scalar.jac(t[:2], 4.0), [[1.0, 4.0]])
    index = models.wrap(lambda t, i: t[i], n_params=3, n_outputs=1)
    np.testing.assert_array_equal(index.jac(t, 2), [[0.0, 0.0, 1.0]])


def test_wrap_with_its_own_jacobian():
    calls = []

    def jac(t, x):
        calls.append(1)
        return np.stack([np.cos(t) * x, 2 * t])

    f = lambda t, x: np.array([np.sum(np.sin(t) * x), np.sum(t * t)])  # plain numpy
    model = models.wrap(f, n_params=3, n_outputs=2, jac=jac, in_shape=(3,))
    theta, x = draw(model, n=4)
    assert_near(model.jac(theta, x[0]), differences(lambda t: model(t, x[0]), theta), FD)
    v = np.arange(8.0).reshape(4, 2)
    assert_near(model.vjp(theta, x, v), np.einsum("nc,ncp->p", v, model.jac(theta, x)), 16 * EPS)
    assert_near(model.vjp(theta, x[1], v[1]), v[1] @ model.jac(theta, x[1]), 16 * EPS)
    assert calls
    wrong = models.wrap(f, n_params=3, n_outputs=2, jac=lambda t, x: np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"jac must return shape \(2, 3\), got \(3, 2\)"):
        wrong.jac(theta, x[0])


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: np.where(x > 0, t, x),
        lambda t, x: np.array([t[0] * x[0], t[1]]),
        lambda t, x: math.exp(t[0]) * x,
        lambda t, x: np.array(t, dtype=float) * x,
    ],
)
def test_wrap_of_plain_numpy_says_what_to_do(f):
    model = models.wrap(f, n_params=3)
    t, x = np.ones(3), np.ones(3)
    model(t, x)
    for call in (
        lambda: model.jac(t, x),
        lambda: model.vjp(t, x, model(t, x)),
        lambda: model.jac(t, x[None]),
    ):
        with pytest.raises(
            TypeError,
            match=r"f must be written with .*autograd\.numpy.*, got a function that autograd "
            r"cannot .*jac=",
        ):
            call()


def test_an_error_inside_a_wrapped_function_is_shown_as_it_is():
    def f(t, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        models.wrap(f, n_params=1).jac(np.ones(1), 1.0)


# --- (i) bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (
            lambda: models.mlp([3]),
            r"sizes must be a sequence of at least 2 integers >= 1, got \[3\]",
        ),
        (lambda: models.mlp(3), "sizes must be a sequence of at least 2 integers >= 1, got int 3"),
        (lambda: models.mlp([3, 0, 1]), r"sizes\[1\] must be an integer >= 1, got 0"),
        (lambda: models.mlp([3, 2.5, 1]), r"sizes\[1\] must be an integer >= 1, got 2\.5"),
        (
            lambda: models.mlp([3, 1], "tahn"),
            "activation must be .*, got 'tahn'; did you mean 'tanh'",
        ),
        (
            lambda: models.mlp([3, 1], None),
            "activation must be 'tanh', 'relu', 'gelu' or 'gelu_tanh', got None",
        ),
        (lambda: models.linear(0), "n_in must be an integer >= 1, got 0"),
        (lambda: models.linear(2, True), "n_out must be an integer >= 1, got True"),
        (
            lambda: models.cnn(in_shape=(28, 28)),
            r"in_shape must be a sequence of 3 integers >= 1, got \(28, 28\)",
        ),
        (
            lambda: models.cnn(in_shape=(3, 8, 1)),
            r"in_shape must have height and width >= 4 for 2 poolings, got \(3, 8, 1\)",
        ),
        (
            lambda: models.cnn(features=()),
            r"features must be a sequence of at least 1 integers >= 1, got \(\)",
        ),
        (lambda: models.cnn(kernel=5), "kernel must be a sequence of 2 integers >= 1, got int 5"),
        (lambda: models.cnn(n_classes=0), "n_classes must be an integer >= 1, got 0"),
        (
            lambda: models.cnn(activation="relU"),
            "activation must be .*, got 'relU'; did you mean 'relu'",
        ),
        (
            lambda: models.wrap(lambda t, x: t, n_params=0),
            "n_params must be an integer >= 1, got 0",
        ),
        (
            lambda: models.wrap(lambda t, x: t, n_params=1, n_outputs=-1),
            "n_outputs must be an integer >= 1, got -1",
        ),
        (
            lambda: SMALL["linear"].init(np.random.default_rng(0), "lecun"),
            "scheme must be .*, got 'lecun'; did you mean 'lecun_normal'",
        ),
        (
            lambda: SMALL["wrap"].init(np.random.default_rng(0)),
            "scheme must be 'zeros' for a wrapped function.*, got 'lecun_normal'",
        ),
    ],
)
def test_constructors_refuse(build, match):
    with pytest.raises(BongrefError, match=match):
        build()


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match=r"f must be a function of .*, got int 3"):
        models.wrap(3, n_params=1)
    with pytest.raises(TypeError, match=r"jac must be a function of .*, got int 3"):
        models.wrap(lambda t, x: t, n_params=1, jac=3)
    with pytest.raises(
        TypeError,
        match=r"rng must be a numpy\.random\.Generator or a seed .*, got str 'a'; use "
        r".*default_rng",
    ):
        SMALL["linear"].init("a")
    np.testing.assert_array_equal(
        SMALL["linear"].init(7), SMALL["linear"].init(np.random.default_rng(7))
    )


@small
def test_calls_refuse(model):
    theta, x = draw(model)
    P = model.n_params
    bad = [
        ((theta[:-1], x), rf"theta must have shape \({P},\), got \({P - 1},\)"),
        ((np.r_[theta[:-1], np.nan], x), rf"theta must be finite, got nan at index \({P - 1},\)"),
        ((theta[None], x), rf"theta must have shape \({P},\), got \(1, {P}\)"),
        (("theta", x), "theta must be an array of real numbers, got str 'theta'"),
        ((theta, x[..., None, None]), r"x must have shape .* or \(B, .*\), got"),
        ((theta, np.ones(99)), r"x must have shape .*, got \(99,\)"),
        ((theta, np.full_like(x, np.inf)), "x must be finite, got inf at index"),
    ]
    for args, match in bad:
        for call in (model, model.jac, model.check):
            with pytest.raises(BongrefError, match=match):
                call(*args)
    with pytest.raises(ValueError, match=r"v must have shape .*, got \(9,\)"):
        model.vjp(theta, x, np.ones(9))
    t, x_ = model.check(theta.tolist(), x.tolist())
    assert t.dtype == x_.dtype == np.float64 and model.check() == (None, None)
    with pytest.raises(
        ValueError, match=r"x must have at most 2 dimensions, got shape \(2, 2, 2\); use wrap"
    ):
        models.wrap(lambda t, x: t, n_params=1)(np.ones(1), np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match=r"f must return shape \(3,\).*, got shape \(2,\)"):
        models.wrap(lambda t, x: t, n_params=2, n_outputs=3)(np.ones(2), 0.0)

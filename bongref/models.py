"""Models f(θ, x): the parameters θ as one flat vector (P,), the outputs as (C,) for one input or (N, C) for a batch.

`linear`, `mlp` and `cnn` are built in; `wrap` takes any function f(θ, x) written with `autograd.numpy`. Gradients and
Jacobians come from autograd in reverse mode. The flat layout of θ is documented in `model.layout`: for each layer
first the weight, then the bias, each array in C order; a dense weight W is (n_out, n_in), f = W x + b, a convolution
kernel K is (kh, kw, c_in, c_out).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import autograd.numpy as anp
import numpy as np
from autograd.core import make_vjp
from autograd.extend import defjvp, defvjp, primitive, vspace
from autograd.tracer import getval, isbox

from . import checks
from .errors import InvalidType, InvalidValue
from .tables import IMPUTE

__all__ = ["Model", "Param", "ParametricModel", "cnn", "grad", "hessian", "hvp", "linear", "mlp", "wrap"]


# --- derivatives of scalar functions of θ ------------------------------------------------------------------------


def grad(f: Callable) -> Callable:
    r"""\(\nabla f\) of a scalar function f(θ): grad(f)(theta) -> (P,)."""

    def gradient(theta):
        sweep, value = _tape(f, theta)
        if vspace(value).size != 1:
            raise InvalidType(f"f must be a scalar function, got a result of shape {anp.shape(value)}")
        return sweep(vspace(value).ones())

    return gradient


def hessian(f: Callable) -> Callable:
    r"""\(\nabla^2 f\), dense and symmetrised: hessian(f)(theta) -> (P, P), by P reverse sweeps over the gradient."""

    def dense(theta):
        sweep, _ = _tape(grad(f), theta)
        H = np.stack([sweep(e) for e in np.eye(np.size(theta))])
        return 0.5 * (H + H.T)

    return dense


def hvp(f: Callable) -> Callable:
    r"""\(\nabla^2 f \, v\): hvp(f)(theta, v) -> (P,), by one reverse sweep over the gradient."""
    return lambda theta, v: _tape(grad(f), theta)[0](v)


def _tape(f: Callable, theta) -> tuple[Callable, Any]:
    """The reverse sweep of f at theta and its value there; a function that does not depend on theta has gradient 0."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Output seems independent of input")
        return make_vjp(f, theta)


# --- activations -------------------------------------------------------------------------------------------------


@primitive
def _Phi(x):
    r"""The standard normal distribution function \(\Phi(x)\)."""
    from scipy.special import ndtr

    return ndtr(x)


def _phi(x):
    """The standard normal density."""
    return anp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


defvjp(_Phi, lambda ans, x: lambda g: g * _phi(x))
defjvp(_Phi, lambda g, ans, x: g * _phi(x))


def relu(x):
    """max(x, 0), with derivative 0 at 0."""
    return anp.where(x > 0, x, 0.0)


def gelu(x):
    r"""\(x\,\Phi(x)\), the exact form."""
    return x * _Phi(x)


@primitive
def tanh(x):
    """tanh, with the derivative 4e^{−2|x|}/(1 + e^{−2|x|})², which does not overflow as 1/cosh² does."""
    return np.tanh(x)


def _sech2(x):
    e = anp.exp(-2.0 * anp.abs(x))
    return 4.0 * e / (1.0 + e) ** 2


defvjp(tanh, lambda ans, x: lambda g: g * _sech2(x))
defjvp(tanh, lambda g, ans, x: g * _sech2(x))


def gelu_tanh(x):
    r"""\(\tfrac12 x (1 + \tanh(\sqrt{2/\pi}\,(x + 0.044715 x^3)))\), the approximation to gelu."""
    return 0.5 * x * (1.0 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATIONS: dict[str, Callable] = {"tanh": tanh, "relu": relu, "gelu": gelu, "gelu_tanh": gelu_tanh}
SCHEMES = ("lecun_normal", "he_normal", "xavier_uniform", "zeros")


# --- pieces of θ, convolution, pooling -----------------------------------------------------------------------------


@primitive
def _take(theta, start, stop):
    """theta[..., start:stop]."""
    return theta[..., start:stop]


@primitive
def _put(piece, start, stop, size):
    """The transpose of _take: zeros (..., size) with piece at start:stop."""
    out = np.zeros((*piece.shape[:-1], size))
    out[..., start:stop] = piece
    return out


defvjp(_take, lambda ans, theta, start, stop: lambda g: _put(g, start, stop, theta.shape[-1]), argnums=(0,))
defvjp(_put, lambda ans, piece, start, stop, size: lambda g: _take(g, start, stop), argnums=(0,))
defjvp(_take, lambda g, ans, theta, start, stop: _take(g, start, stop), argnums=(0,))
defjvp(_put, lambda g, ans, piece, start, stop, size: _put(g, start, stop, size), argnums=(0,))


def _patches(x: np.ndarray, kh: int, kw: int) -> np.ndarray:
    """Every (kh, kw, c) patch of x (N, H, W, c) as a row: (N (H−kh+1) (W−kw+1), kh kw c)."""
    windows: Any = np.lib.stride_tricks.sliding_window_view  # Any: the stubs of some numpy versions know no tuple of axes
    w = windows(x, (kh, kw), axis=(1, 2))
    return w.transpose(0, 1, 2, 4, 5, 3).reshape(-1, kh * kw * x.shape[3])


@primitive
def correlate(x, K):
    r"""\(z_{nijo} = \sum_{abc} x_{n,i+a,j+b,c} K_{abco}\): x (N, H, W, c_in), K (kh, kw, c_in, c_out), no padding."""
    kh, kw, _, c_out = K.shape
    z = _patches(x, kh, kw) @ K.reshape(-1, c_out)
    return z.reshape(len(x), x.shape[1] - kh + 1, x.shape[2] - kw + 1, c_out)


@primitive
def _correlate_kernel(x, g):
    r"""\(K_{abco} = \sum_{nij} x_{n,i+a,j+b,c}\, g_{nijo}\): the transpose of `correlate` in K."""
    kh, kw = x.shape[1] - g.shape[1] + 1, x.shape[2] - g.shape[2] + 1
    return (_patches(x, kh, kw).T @ g.reshape(-1, g.shape[3])).reshape(kh, kw, x.shape[3], g.shape[3])


def _correlate_input(g, K):
    r"""\(x_{nijc} = \sum_{abo} g_{n,i-a,j-b,o} K_{abco}\): the transpose of `correlate` in x."""
    a, b = K.shape[0] - 1, K.shape[1] - 1
    padded = anp.pad(g, ((0, 0), (a, a), (b, b), (0, 0)), "constant")
    return correlate(padded, anp.transpose(K[::-1, ::-1], (0, 1, 3, 2)))


defvjp(correlate, lambda z, x, K: lambda g: _correlate_input(g, K), lambda z, x, K: lambda g: _correlate_kernel(x, g))
defvjp(_correlate_kernel, lambda z, x, g: lambda K: _correlate_input(g, K), lambda z, x, g: lambda K: correlate(x, K))
defjvp(correlate, lambda d, ans, x, K: correlate(d, K), lambda d, ans, x, K: correlate(x, d))
defjvp(_correlate_kernel, lambda d, ans, x, g: _correlate_kernel(d, g), lambda d, ans, x, g: _correlate_kernel(x, d))


def conv_same(x, K):
    """`correlate` with zeros around x, so that height and width stay: (k − 1)//2 before, the rest after."""
    pad = [((k - 1) // 2, k - 1 - (k - 1) // 2) for k in K.shape[:2]]
    return correlate(anp.pad(x, ((0, 0), *pad, (0, 0)), "constant"), K)


def avg_pool(x):
    """2 × 2 average pooling with stride 2; an odd last row or column is left out."""
    n, h, w, c = x.shape
    if h % 2 or w % 2:
        x = x[:, : h - h % 2, : w - w % 2]
    return anp.mean(anp.reshape(x, (n, h // 2, 2, w // 2, 2, c)), axis=(2, 4))


# --- the model ---------------------------------------------------------------------------------------------------


class Param(NamedTuple):
    """One array of θ: theta[where].reshape(shape)."""

    name: str
    shape: tuple[int, ...]
    where: slice


@runtime_checkable
class Model(Protocol):
    """What an estimator, a stream and a predictive need from a model f(θ, x); ``linear``, ``mlp``, ``cnn`` and ``wrap`` make one.

    ``n_params`` is P; ``n_outputs`` is C, or None where only a call shows it.
    """

    @property
    def n_params(self) -> int: ...
    @property
    def n_outputs(self) -> int | None: ...
    def __call__(self, theta: Any, x: Any) -> Any: ...
    def jac(self, theta: Any, x: Any) -> Any: ...
    def vjp(self, theta: Any, x: Any, v: Any) -> Any: ...
    def is_batch(self, x: Any) -> bool: ...
    def check(self, theta: Any = None, x: Any = None) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class ParametricModel:
    """f(θ, x): model(theta, x) is (C,) for one input x, (N, C) for a batch; P = n_params, C = n_outputs."""

    kind: str
    n_params: int
    n_outputs: int | None
    in_shape: tuple[int, ...] | None
    spec: dict[str, Any] = field(hash=False)
    f: Callable | None = field(default=None, repr=False)
    own_jac: Callable | None = field(default=None, repr=False)

    def __call__(self, theta, x):
        """The outputs, (C,) or (N, C)."""
        theta, x, batch = self._inputs(theta, x)
        o = self._batch(theta, x)
        return o if batch else o[0]

    def jac(self, theta, x) -> np.ndarray:
        r"""\(\partial f / \partial\theta\), (C, P) or (N, C, P): one reverse sweep for each output."""
        theta, x, batch = self._inputs(theta, x)
        if self.own_jac is not None:
            J = np.stack([self._checked_jac(theta, row) for row in x])
        elif self.kind in ("linear", "mlp"):
            J = self._dense_jac(theta, x)
        else:
            J = np.stack([self._row_jac(theta, x[i : i + 1]) for i in range(len(x))])
        return J if batch else J[0]

    def vjp(self, theta, x, v) -> np.ndarray:
        r"""\(v^\top \partial f/\partial\theta\), (P,), summed over a batch, by one reverse sweep; v like the output."""
        theta, x, batch = self._inputs(theta, x)
        if self.own_jac is not None:
            J = np.stack([self._checked_jac(theta, row) for row in x])
            v = self._cotangent(v, J.shape[:2], batch)
            return np.einsum("nc,ncp->p", v, J)
        sweep, o = _tape(lambda t: self._batch(t, x), theta)
        return sweep(self._cotangent(v, o.shape, batch))

    def is_batch(self, x) -> bool:
        """Whether x has one leading dimension more than one input; a ValueError if it is neither."""
        shape = np.shape(x)
        if self.in_shape is None:
            if len(shape) > 2:
                raise InvalidValue(f"x must have at most 2 dimensions, got shape {shape}; use wrap(..., in_shape=...)")
            return len(shape) == 2
        forms = _input_forms(self.kind, self.in_shape)
        if shape in forms:
            return False
        if len(shape) > 0 and shape[1:] in forms:
            return True
        one = " or ".join(str(s) for s in forms)
        remedy = "; use X[:, None] for one feature" if self.in_shape == (1,) and len(shape) < 2 else ""
        raise InvalidValue(f"x must have shape {one}, with one leading dimension more for a batch, got {shape}{remedy}")

    def check(self, theta=None, x=None) -> tuple[Any, Any]:
        """(theta, x) as finite float64 arrays of the right shapes; None stays None."""
        if theta is not None:
            theta = checks.array("theta", theta, copy=False)
            self._check_theta(theta)
        if x is not None:
            x = self._check_x(x)
        return theta, x

    def init(self, rng: np.random.Generator, scheme: str = "lecun_normal") -> np.ndarray:
        r"""Random θ: weights plain (not truncated) normal with variance \(1/n_{in}\) (lecun_normal) or \(2/n_{in}\)
        (he_normal), uniform on \(\pm\sqrt{6/(n_{in} + n_{out})}\) (xavier_uniform), or zeros; biases 0."""
        checks.choice("scheme", scheme, SCHEMES)
        if scheme == "zeros":
            return np.zeros(self.n_params)
        if self.kind == "wrap":
            raise InvalidValue(f"scheme must be 'zeros' for a wrapped function, which has no layers, got {scheme!r}")
        rng = checks.seed_or_generator("rng", rng)
        return np.concatenate([_draw(p.shape, rng, scheme).ravel() for p in self.layout])

    @property
    def layout(self) -> list[Param]:
        """The arrays of θ in their order: (name, shape, slice)."""
        return [Param(d["name"], tuple(d["shape"]), slice(d["start"], d["stop"])) for d in self.spec["layout"]]

    def unflatten(self, theta) -> dict[str, Any]:
        """θ as its arrays by name."""
        return {p.name: _piece(theta, p) for p in self.layout}

    def flatten(self, arrays: dict[str, Any]) -> np.ndarray:
        """θ from its arrays by name: the inverse of `unflatten`."""
        if set(arrays) != {p.name for p in self.layout}:
            raise InvalidValue(f"arrays must have exactly the keys {[p.name for p in self.layout]}, got {sorted(arrays)}")
        for p in self.layout:
            if np.shape(arrays[p.name]) != p.shape:
                raise InvalidValue(f"arrays[{p.name!r}] must have shape {p.shape}, got {np.shape(arrays[p.name])}")
        return np.concatenate([np.asarray(arrays[p.name], dtype=np.float64).ravel() for p in self.layout])

    # the rest is private

    def _inputs(self, theta, x) -> tuple[Any, Any, bool]:
        """Checked theta and x, x always with a leading batch dimension, and whether it came with one."""
        if isbox(theta):
            self._check_theta(theta)
        else:
            theta, _ = self.check(theta=theta)
        x = self._check_x(x)
        batch = self.is_batch(x)
        if self.kind == "wrap":
            return theta, x if batch else [x], batch
        assert self.in_shape is not None
        return theta, x.reshape(len(x) if batch else 1, *self.in_shape), batch

    def _check_theta(self, theta) -> None:
        if theta.shape != (self.n_params,):
            raise InvalidValue(f"theta must have shape ({self.n_params},), got {theta.shape}")

    def _check_x(self, x):
        """x as an array of the right shape; of a wrapped function only numbers are checked."""
        if self.kind != "wrap":
            x = checks.array("x", x, copy=False, empty=True, remedy=IMPUTE)
            self.is_batch(x)
            return x
        self.is_batch(x)
        a = np.asarray(x)
        if a.dtype.kind not in "bif":
            return x  # anything else is the function's own affair
        return checks.array("x", a, copy=False, empty=True, remedy=IMPUTE) if a.dtype.kind == "f" else a

    def _cotangent(self, v, shape: tuple[int, ...], batch: bool) -> np.ndarray:
        want = shape if batch else shape[1:]
        v = checks.array("v", v, copy=False, empty=True)
        if v.shape != want:
            raise InvalidValue(f"v must have shape {want}, that of the output, got {v.shape}")
        return v.reshape(shape)

    def _batch(self, theta, x):
        """f for a batch, (N, C); for dense models theta may also be (N, P), one row for each input."""
        if self.kind == "wrap":
            return anp.stack([self._wrapped(theta, row) for row in x])
        return _cnn(self, theta, x) if self.kind == "cnn" else _dense_layers(self, theta, x)

    def _dense_jac(self, theta, x) -> np.ndarray:
        """All rows at once: each input gets its own copy of θ, so one sweep for each output gives every gradient."""
        copies = np.broadcast_to(theta, (len(x), self.n_params))
        sweep, o = make_vjp(lambda t: self._batch(t, x), copies)
        units = np.eye(o.shape[1])
        return np.stack([sweep(np.broadcast_to(e, o.shape)) for e in units], axis=1)

    def _row_jac(self, theta, x) -> np.ndarray:
        sweep, o = _tape(lambda t: self._batch(t, x), theta)
        return np.stack([sweep(e[None]) for e in np.eye(o.shape[1])])

    def _checked_jac(self, theta, row) -> np.ndarray:
        assert self.own_jac is not None
        J = np.asarray(self.own_jac(theta, row), dtype=np.float64)
        J = J[None] if J.ndim == 1 else J
        C = J.shape[0] if self.n_outputs is None else self.n_outputs
        if J.shape != (C, self.n_params):
            raise InvalidValue(f"jac must return shape {(C, self.n_params)}, got {J.shape}")
        return J

    def _wrapped(self, theta, row):
        """f(theta, row) as (C,)."""
        assert self.f is not None
        try:
            o = self.f(theta, row)
            if not isbox(o) and np.asarray(o).dtype.kind not in "biuf":
                raise TypeError(f"the result is an array of {np.asarray(o).dtype}")
        except Exception as e:
            if not isbox(theta):
                raise
            value = theta
            while isbox(value):
                value = getval(value)
            self.f(value, row)  # if f fails on plain arrays too, that is the error to show
            raise InvalidType(
                f"f must be written with `import autograd.numpy as np`, got a function that autograd cannot differentiate ({e}); "
                "or give its Jacobian to wrap(..., jac=...)"
            ) from e
        C = "C" if self.n_outputs is None else self.n_outputs
        if anp.ndim(o) > 1 or (self.n_outputs is not None and anp.size(o) != self.n_outputs):
            raise InvalidValue(f"f must return shape ({C},), or a scalar for one output, got shape {anp.shape(o)}")
        return anp.reshape(o, (-1,)) * 1.0


def _piece(theta, p: Param):
    return anp.reshape(_take(theta, p.where.start, p.where.stop), (*theta.shape[:-1], *p.shape))


def _affine(W, b, h):
    """W h + b for each row of h (N, n_in); W is (n_out, n_in) or one for each row."""
    if W.ndim == 2:
        z = anp.matmul(h, W.T)
    else:
        z = anp.reshape(anp.matmul(W, anp.reshape(h, (*h.shape, 1))), W.shape[:2])
    return z if b is None else z + b


def _dense_layers(model: ParametricModel, theta, x):
    """h ← act(W h + b) for each layer; no activation at the last one."""
    arrays = model.unflatten(theta)
    n_layers, h = len(model.spec["sizes"]) - 1, x
    for i in range(n_layers):
        h = _affine(arrays[f"W{i}"], arrays.get(f"b{i}"), h)
        if i < n_layers - 1:
            h = ACTIVATIONS[model.spec["activation"]](h)
    return h


def _cnn(model: ParametricModel, theta, x):
    """Convolutions (SAME, activation, 2 × 2 average pooling), flattened in C order of (h, w, c); two dense layers."""
    arrays, act = model.unflatten(theta), ACTIVATIONS[model.spec["activation"]]
    n = len(model.spec["features"])
    for i in range(n):
        x = avg_pool(act(conv_same(x, arrays[f"K{i}"]) + arrays[f"b{i}"]))
    h = anp.reshape(x, (x.shape[0], -1))
    h = act(_affine(arrays[f"W{n}"], arrays[f"b{n}"], h))
    return _affine(arrays[f"W{n + 1}"], arrays[f"b{n + 1}"], h)


def _draw(shape: tuple[int, ...], rng: np.random.Generator, scheme: str) -> np.ndarray:
    """One array of θ by a scheme; biases (one axis) are 0."""
    if len(shape) == 1:
        return np.zeros(shape)
    if len(shape) == 2:
        fan_out, fan_in = shape
    else:
        fan_in, fan_out = math.prod(shape[:3]), math.prod(shape[:2]) * shape[3]
    if scheme == "xavier_uniform":
        bound = math.sqrt(6 / (fan_in + fan_out))
        return rng.uniform(-bound, bound, size=shape)
    return rng.standard_normal(shape) * math.sqrt((1 if scheme == "lecun_normal" else 2) / fan_in)


# --- constructors ------------------------------------------------------------------------------------------------


def linear(n_in: int, n_out: int = 1, bias: bool = False) -> ParametricModel:
    """f = W x, or W x + b with bias=True; W is (n_out, n_in)."""
    sizes = [checks.integer("n_in", n_in, 1), checks.integer("n_out", n_out, 1)]
    shapes: dict[str, tuple[int, ...]] = {"W0": (sizes[1], sizes[0])}
    if checks.boolean("bias", bias):
        shapes["b0"] = (sizes[1],)
    return _built("linear", (sizes[0],), sizes[1], shapes, sizes=sizes, activation=None, bias=bool(bias))


def mlp(sizes: Sequence[int], activation: str = "tanh") -> ParametricModel:
    """Dense layers with biases, sizes = [n_in, hidden..., n_out], the activation between them, linear at the end."""
    widths = list(checks.integers("sizes", sizes, least=2))
    checks.choice("activation", activation, tuple(ACTIVATIONS))
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(len(widths) - 1):
        shapes |= {f"W{i}": (widths[i + 1], widths[i]), f"b{i}": (widths[i + 1],)}
    return _built("mlp", (widths[0],), widths[-1], shapes, sizes=widths, activation=activation, bias=True)


def cnn(
    in_shape: Sequence[int] = (28, 28, 1),
    n_classes: int = 10,
    features: Sequence[int] = (16, 16),
    kernel: Sequence[int] = (5, 5),
    hidden: int = 64,
    activation: str = "relu",
) -> ParametricModel:
    """The paper's CNN, 57,722 parameters as it stands: for each entry of features a convolution (cross-correlation,
    SAME padding), the activation and 2 × 2 average pooling; flat in C order of (h, w, c); dense, activation, dense.

    x is (h, w, c), flat (h·w·c,), or (h, w) when c = 1.
    """
    shape, kern = checks.integers("in_shape", in_shape, 3), checks.integers("kernel", kernel, 2)
    feats = checks.integers("features", features)
    n_classes, hidden = checks.integer("n_classes", n_classes, 1), checks.integer("hidden", hidden, 1)
    checks.choice("activation", activation, tuple(ACTIVATIONS))
    shapes: dict[str, tuple[int, ...]] = {}
    h, w, c = shape
    for i, c_out in enumerate(feats):
        shapes |= {f"K{i}": (*kern, c, c_out), f"b{i}": (c_out,)}
        h, w, c = h // 2, w // 2, c_out
    if h < 1 or w < 1:
        least = 2 ** len(feats)
        raise InvalidValue(f"in_shape must have height and width >= {least} for {len(feats)} poolings, got {shape}")
    n = len(feats)
    shapes |= {f"W{n}": (hidden, h * w * c), f"b{n}": (hidden,)}
    shapes |= {f"W{n + 1}": (n_classes, hidden), f"b{n + 1}": (n_classes,)}
    return _built(
        "cnn", shape, n_classes, shapes, features=list(feats), kernel=list(kern), hidden=hidden, activation=activation,
        bias=True, padding="same", pool="average 2x2 stride 2", flatten="C order of (h, w, c)",
    )  # fmt: skip


def wrap(
    f: Callable,
    n_params: int,
    n_outputs: int | None = None,
    jac: Callable | None = None,
    in_shape: Sequence[int] | None = None,
) -> ParametricModel:
    """Any f(θ, x) -> (C,) or scalar, differentiated by autograd or by its own jac(θ, x) -> (C, P).

    With in_shape=None an x of at most one dimension is one input and an x of two dimensions is a batch of rows.
    """
    for name, value in {"f": f, "jac": jac}.items():
        if not callable(value) and not (name == "jac" and value is None):
            raise InvalidType(f"{name} must be a function of (theta, x), got {checks.describe(value)}")
    P = checks.integer("n_params", n_params, 1)
    C = None if n_outputs is None else checks.integer("n_outputs", n_outputs, 1)
    shape = None if in_shape is None else checks.integers("in_shape", in_shape, least=0)
    spec = {"sizes": None, "activation": None, "bias": None, "layout": _layout({"theta": (P,)})}
    return ParametricModel("wrap", P, C, shape, spec, f, jac)


def _layout(shapes: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    stops = np.cumsum([math.prod(s) for s in shapes.values()]).tolist()
    return [
        {"name": name, "shape": list(s), "start": stop - math.prod(s), "stop": stop}
        for (name, s), stop in zip(shapes.items(), stops, strict=True)
    ]


def _built(kind: str, in_shape: tuple[int, ...], n_out: int, shapes: dict[str, tuple[int, ...]], **spec: Any) -> ParametricModel:
    spec |= {"in_shape": list(in_shape), "n_outputs": n_out, "layout": _layout(shapes)}
    return ParametricModel(kind, sum(math.prod(s) for s in shapes.values()), n_out, in_shape, spec)


# --- small helpers -----------------------------------------------------------------------------------------------


def _input_forms(kind: str, in_shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes that one input may have."""
    if kind != "cnn":
        return [in_shape]
    return [in_shape, *([in_shape[:2]] if in_shape[2] == 1 else []), (math.prod(in_shape),)]

"""Models f(θ, x) with all parameters θ in one flat vector (P,).

The outputs are (C,) for one input and (N, C) for a batch. ``linear``, ``mlp`` and ``cnn`` are
built in; ``wrap`` takes any function f(θ, x) written with ``autograd.numpy``. Gradients and
Jacobians come from autograd in reverse mode. The flat layout of θ is documented in
``model.layout``: for each layer first the weight, then the bias, each array in C order; a dense
weight W is (n_out, n_in), f = W x + b, a convolution kernel K is (kh, kw, c_in, c_out).

What is not here: the distribution of y (``likelihoods``), and priors of θ (``Method.prior``).

>>> import numpy as np, bongref as br
>>> model = br.models.mlp([2, 8, 1], activation="tanh")
>>> theta = model.init(np.random.default_rng(0))
>>> model.n_params, model(theta, [0.5, -0.5]).shape, model.jac(theta, np.zeros((3, 2))).shape
(33, (1,), (3, 1, 33))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import autograd.numpy as anp
import numpy as np
from autograd.core import make_vjp
from autograd.tracer import getval, isbox

from .. import checks
from ..autodiff import grad, hessian, hvp, tape
from ..errors import InvalidType, InvalidValue
from ..linalg import Array
from ..show import model_html, model_text, remedy_for_inputs
from ..tables import IMPUTE, as_array, describe
from .layers import ACTIVATIONS, SCHEMES, affine, avg_pool, conv_same, initial, take

__all__ = [
    "Model", "Param", "ParametricModel", "cnn", "grad", "hessian", "hvp", "linear", "mlp", "wrap",
]  # fmt: skip


# --- the model ------------------------------------------------------------------------------------


class Param(NamedTuple):
    """One array of θ: theta[where].reshape(shape)."""

    name: str
    shape: tuple[int, ...]
    where: slice


@runtime_checkable
class Model(Protocol):
    """What an estimator, a stream and a predictive need from a model f(θ, x).

    ``linear``, ``mlp``, ``cnn`` and ``wrap`` make one; any object with these members is one too.

    Attributes
    ----------
    n_params : int
        P, the length of θ.
    n_outputs : int or None
        C, or None where only a call shows it.

    Examples
    --------
    >>> isinstance(linear(2), Model)
    True
    """

    @property
    def n_params(self) -> int:
        """P."""

    @property
    def n_outputs(self) -> int | None:
        """C, or None where only a call shows it."""

    def __call__(self, theta: Any, x: Any) -> Any:
        """The outputs: (C,) for one input, (N, C) for a batch."""

    def jac(self, theta: Any, x: Any) -> Any:
        """∂f/∂θ: (C, P) for one input, (N, C, P) for a batch."""

    def vjp(self, theta: Any, x: Any, v: Any) -> Any:
        """vᵀ ∂f/∂θ, (P,), summed over a batch."""

    def is_batch(self, x: Any) -> bool:
        """Whether x is a batch of inputs."""

    def check(self, theta: Any = None, x: Any = None) -> tuple[Any, Any]:
        """(theta, x) as arrays of the right shapes, or an error that names the argument."""


@dataclass(frozen=True, repr=False)
class ParametricModel:
    """A model f(θ, x), made by ``linear``, ``mlp``, ``cnn`` or ``wrap``.

    ``model(theta, x)`` is (C,) for one input x and (N, C) for a batch.

    Attributes
    ----------
    kind : str
        ``"linear"``, ``"mlp"``, ``"cnn"`` or ``"wrap"``.
    n_params : int
        P.
    n_outputs : int or None
        C.
    in_shape : tuple of int or None
        The shape of one input; None for a wrapped function that takes anything.
    spec : dict
        Sizes, activation and the layout of θ, in plain types.

    Examples
    --------
    >>> model = linear(2, bias=True)
    >>> model([1.0, 2.0, 0.5], [[1.0, 1.0], [0.0, 1.0]])
    array([[3.5],
           [2.5]])
    >>> model.unflatten(np.array([1.0, 2.0, 0.5]))
    {'W0': array([[1., 2.]]), 'b0': array([0.5])}
    """

    kind: str
    n_params: int
    n_outputs: int | None
    in_shape: tuple[int, ...] | None
    spec: dict[str, Any] = field(hash=False)
    f: Callable[..., Any] | None = field(default=None, repr=False)
    own_jac: Callable[..., Any] | None = field(default=None, repr=False)
    __repr__, _repr_html_ = model_text, model_html

    def __call__(self, theta: Any, x: Any) -> Any:
        """The outputs, (C,) or (N, C)."""
        theta, x, batch = self._inputs(theta, x)
        o = self._batch(theta, x)
        return o if batch else o[0]

    def jac(self, theta: Any, x: Any) -> Array:
        r"""\(\partial f / \partial\theta\), (C, P) or (N, C, P): one sweep for each output."""
        theta, x, batch = self._inputs(theta, x)
        if self.own_jac is not None:
            J = np.stack([self._checked_jac(theta, row) for row in x])
        elif self.kind in ("linear", "mlp"):
            J = self._dense_jac(theta, x)
        else:
            J = np.stack([self._row_jac(theta, x[i : i + 1]) for i in range(len(x))])
        return J if batch else J[0]

    def vjp(self, theta: Any, x: Any, v: Any) -> Array:
        r"""\(v^\top \partial f/\partial\theta\), (P,), summed over a batch; v like the output."""
        theta, x, batch = self._inputs(theta, x)
        if self.own_jac is not None:
            J = np.stack([self._checked_jac(theta, row) for row in x])
            v = self._cotangent(v, J.shape[:2], batch)
            product: Array = np.einsum("nc,ncp->p", v, J)
            return product
        sweep, o = tape(lambda t: self._batch(t, x), theta)
        product = sweep(self._cotangent(v, o.shape, batch))
        return product

    def is_batch(self, x: Any) -> bool:
        """Whether x has one dimension more than one input; InvalidValue if it is neither."""
        shape = np.shape(x if isbox(x) else as_array(x))
        if self.in_shape is None:
            if len(shape) > 2:
                raise InvalidValue(
                    f"x must have at most 2 dimensions, got shape {shape}; "
                    "use wrap(..., in_shape=...)"
                )
            return len(shape) == 2
        forms = _input_forms(self.kind, self.in_shape)
        if shape in forms:
            return False
        if len(shape) > 0 and shape[1:] in forms:
            return True
        flat = self.in_shape == (1,) and len(shape) < 2
        remedy = "; use X[:, None] for one feature (X.to_frame() of a series)" if flat else ""
        batches = [f"(B, {', '.join(map(str, form))})" for form in forms]
        allowed = " or ".join([*map(str, forms), *batches])
        remedy = remedy or remedy_for_inputs(self, shape)
        raise InvalidValue(f"x must have shape {allowed}, got {shape}{remedy}")

    def check(self, theta: Any = None, x: Any = None) -> tuple[Any, Any]:
        """(theta, x) as finite float64 arrays of the right shapes; None stays None."""
        if theta is not None:
            theta = self._checked_theta(theta)
        if x is not None:
            x = self._check_x(x)
        return theta, x

    def init(self, rng: np.random.Generator | int, scheme: str = "lecun_normal") -> Array:
        r"""Random θ to start from; biases are 0.

        Parameters
        ----------
        rng : numpy.random.Generator or int
            A generator, which is advanced, or a seed.
        scheme : str
            Weights plain (not truncated) normal with variance \(1/n_{in}\) (``"lecun_normal"``) or
            \(2/n_{in}\) (``"he_normal"``), uniform on \(\pm\sqrt{6/(n_{in} + n_{out})}\)
            (``"xavier_uniform"``), or ``"zeros"``.

        Returns
        -------
        ndarray, shape (P,)

        Raises
        ------
        InvalidValue
            If the scheme is not one of these; a wrapped function has only ``"zeros"``.

        Examples
        --------
        >>> mlp([2, 3, 1]).init(0).shape
        (13,)
        """
        checks.choice("scheme", scheme, SCHEMES)
        if scheme == "zeros":
            return np.zeros(self.n_params)
        if self.kind == "wrap":
            raise InvalidValue(
                "scheme must be 'zeros' for a wrapped function, which has no layers, "
                f"got {scheme!r}"
            )
        rng = checks.seed_or_generator("rng", rng)
        return np.concatenate([initial(p.shape, rng, scheme).ravel() for p in self.layout])

    @property
    def layout(self) -> list[Param]:
        """The arrays of θ in their order: (name, shape, slice)."""
        return [
            Param(d["name"], tuple(d["shape"]), slice(d["start"], d["stop"]))
            for d in self.spec["layout"]
        ]

    def unflatten(self, theta: Any) -> dict[str, Any]:
        """θ as its arrays by name."""
        return _arrays(self, self._checked_theta(theta))

    def flatten(self, arrays: Mapping[str, Any]) -> Array:
        """θ from its arrays by name: the inverse of `unflatten`."""
        names = [p.name for p in self.layout]
        if not isinstance(arrays, Mapping) or set(arrays) != set(names):
            got = sorted(arrays) if isinstance(arrays, Mapping) else describe(arrays)
            raise InvalidValue(f"arrays must have exactly the keys {names}, got {got}")
        parts = [
            checks.array(f"arrays[{p.name!r}]", arrays[p.name], shape=p.shape) for p in self.layout
        ]
        return np.concatenate([a.ravel() for a in parts])

    def _inputs(self, theta: Any, x: Any) -> tuple[Any, Any, bool]:
        """Checked theta and x, x with a leading batch dimension, and whether it came with one."""
        theta = self._checked_theta(theta)
        x = self._check_x(x)
        batch = self.is_batch(x)
        if self.kind == "wrap":
            return theta, x if batch else [x], batch
        assert self.in_shape is not None
        return theta, x.reshape(len(x) if batch else 1, *self.in_shape), batch

    def _checked_theta(self, theta: Any) -> Any:
        theta = theta if isbox(theta) else checks.array("theta", theta, copy=False)
        if theta.shape != (self.n_params,):
            raise InvalidValue(f"theta must have shape ({self.n_params},), got {theta.shape}")
        return theta

    def _check_x(self, x: Any) -> Any:
        """x as an array of the right shape; of a wrapped function only numbers are checked."""
        if self.kind != "wrap":
            x = checks.array("x", x, copy=False, empty=True, remedy=IMPUTE)
            self.is_batch(x)
            return x
        self.is_batch(x)
        a = as_array(x)
        if a.dtype.kind == "f":
            return checks.array("x", a, copy=False, empty=True, remedy=IMPUTE)
        return a if a.dtype.kind in "bi" else x  # anything else is for the function to judge

    def _cotangent(self, v: Any, shape: tuple[int, ...], batch: bool) -> Array:
        want = shape if batch else shape[1:]
        v = checks.array("v", v, copy=False, empty=True)
        if v.shape != want:
            raise InvalidValue(f"v must have shape {want}, that of the output, got {v.shape}")
        out: Array = v.reshape(shape)
        return out

    def _batch(self, theta: Any, x: Any) -> Any:
        """f for a batch, (N, C); of dense models theta may be (N, P), one row for each input."""
        if self.kind == "wrap":
            return anp.stack([self._wrapped(theta, row) for row in x])
        return _cnn(self, theta, x) if self.kind == "cnn" else _dense_layers(self, theta, x)

    def _dense_jac(self, theta: Any, x: Any) -> Array:
        """All rows at once: each input has a copy of θ, so that a sweep gives all gradients."""
        copies = np.broadcast_to(theta, (len(x), self.n_params))
        sweep, o = make_vjp(lambda t: self._batch(t, x), copies)
        units = np.eye(o.shape[1])
        return np.stack([sweep(np.broadcast_to(e, o.shape)) for e in units], axis=1)

    def _row_jac(self, theta: Any, x: Any) -> Array:
        sweep, o = tape(lambda t: self._batch(t, x), theta)
        return np.stack([sweep(e[None]) for e in np.eye(o.shape[1])])

    def _checked_jac(self, theta: Any, row: Any) -> Array:
        assert self.own_jac is not None
        J = np.asarray(self.own_jac(theta, row), dtype=np.float64)
        J = J[None] if J.ndim == 1 else J
        C = J.shape[0] if self.n_outputs is None else self.n_outputs
        if J.shape != (C, self.n_params):
            raise InvalidValue(f"jac must return shape {(C, self.n_params)}, got {J.shape}")
        return J

    def _wrapped(self, theta: Any, row: Any) -> Any:
        """f(theta, row) as (C,)."""
        assert self.f is not None
        try:
            o = self.f(theta, row)
            if not isbox(o) and np.asarray(o).dtype.kind not in "biuf":
                allowed = "an array of real numbers or one number"
                raise InvalidType(f"f must return {allowed}, got {describe(o)}")
        except Exception as e:
            if not isbox(theta):
                raise
            value = theta
            while isbox(value):
                value = getval(value)
            self._wrapped(value, row)  # if f fails on plain arrays too, that is the error to show
            raise InvalidType(
                "f must be written with `import autograd.numpy as np`, got a function that "
                f"autograd cannot differentiate ({e}); or give its Jacobian to wrap(..., jac=...)"
            ) from e
        C = "C" if self.n_outputs is None else self.n_outputs
        if anp.ndim(o) > 1 or (self.n_outputs is not None and anp.size(o) != self.n_outputs):
            raise InvalidValue(
                f"f must return shape ({C},), or a scalar for one output, got shape {anp.shape(o)}"
            )
        return anp.reshape(o, (-1,)) * 1.0


def _arrays(model: ParametricModel, theta: Any) -> dict[str, Any]:
    """The arrays of θ by name; of (N, P), one θ for each input, each with a leading dimension."""
    lead = theta.shape[:-1]
    return {
        p.name: anp.reshape(take(theta, p.where.start, p.where.stop), (*lead, *p.shape))
        for p in model.layout
    }


def _dense_layers(model: ParametricModel, theta: Any, x: Any) -> Any:
    """h ← act(W h + b) for each layer; no activation at the last one."""
    arrays = _arrays(model, theta)
    n_layers, h = len(model.spec["sizes"]) - 1, x
    for i in range(n_layers):
        h = affine(arrays[f"W{i}"], arrays.get(f"b{i}"), h)
        if i < n_layers - 1:
            h = ACTIVATIONS[model.spec["activation"]](h)
    return h


def _cnn(model: ParametricModel, theta: Any, x: Any) -> Any:
    """Convolutions, each with activation and pooling; flat, (h, w, c) in C order; dense layers."""
    arrays, act = _arrays(model, theta), ACTIVATIONS[model.spec["activation"]]
    n = len(model.spec["features"])
    for i in range(n):
        x = avg_pool(act(conv_same(x, arrays[f"K{i}"]) + arrays[f"b{i}"]))
    h = anp.reshape(x, (x.shape[0], -1))
    h = act(affine(arrays[f"W{n}"], arrays[f"b{n}"], h))
    return affine(arrays[f"W{n + 1}"], arrays[f"b{n + 1}"], h)


# --- constructors ---------------------------------------------------------------------------------


def linear(n_in: int, n_out: int = 1, bias: bool = False) -> ParametricModel:
    """A linear model f = W x, or W x + b.

    Parameters
    ----------
    n_in : int
        The number of inputs D.
    n_out : int
        The number of outputs C; W is (C, D).
    bias : bool
        Whether there is a bias b (C,).

    Returns
    -------
    ParametricModel
        With P = C·D parameters, or C·D + C.

    Raises
    ------
    InvalidValue, InvalidType
        If a size is not an integer >= 1.

    Examples
    --------
    >>> linear(2)([1.0, -1.0], [3.0, 1.0])
    array([2.])
    """
    sizes = [checks.integer("n_in", n_in, 1), checks.integer("n_out", n_out, 1)]
    shapes: dict[str, tuple[int, ...]] = {"W0": (sizes[1], sizes[0])}
    if checks.boolean("bias", bias):
        shapes["b0"] = (sizes[1],)
    spec = {"sizes": sizes, "activation": None, "bias": bool(bias)}
    return _built("linear", (sizes[0],), sizes[1], shapes, spec)


def mlp(sizes: Sequence[int], activation: str = "tanh") -> ParametricModel:
    """A multilayer perceptron: dense layers with biases, the activation between them.

    Parameters
    ----------
    sizes : sequence of int
        [n_in, hidden..., n_out], at least two.
    activation : {"tanh", "relu", "gelu", "gelu_tanh"}
        Applied after each layer but the last; ``"gelu_tanh"`` is the tanh approximation to gelu.

    Returns
    -------
    ParametricModel

    Raises
    ------
    InvalidValue, InvalidType
        If a size is not an integer >= 1, or the activation is not one of these.

    Examples
    --------
    >>> model = mlp([21, 20, 20, 1], activation="gelu")
    >>> model.n_params
    881
    """
    widths = list(checks.integers("sizes", sizes, least=2))
    checks.choice("activation", activation, tuple(ACTIVATIONS))
    shapes: dict[str, tuple[int, ...]] = {}
    for i in range(len(widths) - 1):
        shapes |= {f"W{i}": (widths[i + 1], widths[i]), f"b{i}": (widths[i + 1],)}
    spec = {"sizes": widths, "activation": activation, "bias": True}
    return _built("mlp", (widths[0],), widths[-1], shapes, spec)


def cnn(
    in_shape: Sequence[int] = (28, 28, 1),
    n_classes: int = 10,
    features: Sequence[int] = (16, 16),
    kernel: Sequence[int] = (5, 5),
    hidden: int = 64,
    activation: str = "relu",
) -> ParametricModel:
    """A convolutional network; with the default sizes the paper's, of 57,722 parameters.

    For each entry of ``features`` a convolution (cross-correlation, SAME padding), the activation
    and 2 × 2 average pooling; flat in C order of (h, w, c); then dense, activation, dense.

    Parameters
    ----------
    in_shape : sequence of 3 int
        (h, w, c). An input is (h, w, c), flat (h·w·c,), or (h, w) when c = 1.
    n_classes : int
        The number of outputs C.
    features : sequence of int
        The channels of each convolution.
    kernel : sequence of 2 int
        (kh, kw), the same for all convolutions.
    hidden : int
        The width of the first dense layer.
    activation : {"tanh", "relu", "gelu", "gelu_tanh"}

    Returns
    -------
    ParametricModel

    Raises
    ------
    InvalidValue, InvalidType
        If a size is not an integer >= 1, or the image is too small for the poolings.

    Examples
    --------
    >>> cnn().n_params
    57722
    >>> cnn(in_shape=(4, 4, 1), n_classes=2, features=(3,), hidden=5).in_shape
    (4, 4, 1)
    """
    shape, kern = checks.integers("in_shape", in_shape, 3), checks.integers("kernel", kernel, 2)
    feats = checks.integers("features", features)
    n_classes = checks.integer("n_classes", n_classes, 1)
    hidden = checks.integer("hidden", hidden, 1)
    checks.choice("activation", activation, tuple(ACTIVATIONS))
    shapes: dict[str, tuple[int, ...]] = {}
    h, w, c = shape
    for i, c_out in enumerate(feats):
        shapes |= {f"K{i}": (*kern, c, c_out), f"b{i}": (c_out,)}
        h, w, c = h // 2, w // 2, c_out
    if h < 1 or w < 1:
        least = 2 ** len(feats)
        raise InvalidValue(
            f"in_shape must have height and width >= {least} for {len(feats)} poolings, got {shape}"
        )
    n = len(feats)
    shapes |= {f"W{n}": (hidden, h * w * c), f"b{n}": (hidden,)}
    shapes |= {f"W{n + 1}": (n_classes, hidden), f"b{n + 1}": (n_classes,)}
    spec = {
        "features": list(feats),
        "kernel": list(kern),
        "hidden": hidden,
        "activation": activation,
        "bias": True,
        "padding": "same",
        "pool": "average 2x2 stride 2",
        "flatten": "C order of (h, w, c)",
    }
    return _built("cnn", shape, n_classes, shapes, spec)


def wrap(
    f: Callable[..., Any],
    n_params: int,
    n_outputs: int | None = None,
    jac: Callable[..., Any] | None = None,
    in_shape: Sequence[int] | None = None,
) -> ParametricModel:
    """Any function f(θ, x) as a model.

    Parameters
    ----------
    f : callable
        f(theta, x) of one input, with a result of shape (C,), or a scalar for C = 1. Written with
        ``autograd.numpy``, unless ``jac`` is given.
    n_params : int
        P.
    n_outputs : int, optional
        C; without it the model is called to find out.
    jac : callable, optional
        jac(theta, x), shape (C, P).
    in_shape : sequence of int, optional
        The shape of one input. Without it an x of at most one dimension is one input, and an x of
        two dimensions is a batch of rows.

    Returns
    -------
    ParametricModel

    Raises
    ------
    InvalidType
        If f or jac cannot be called.

    Examples
    --------
    >>> import autograd.numpy as anp
    >>> model = wrap(lambda theta, x: theta[0] * anp.exp(-theta[1] * x), n_params=2)
    >>> model.jac([2.0, 0.0], 3.0)
    array([[ 1., -6.]])
    """
    for name, value in {"f": f, "jac": jac}.items():
        if not callable(value) and not (name == "jac" and value is None):
            raise InvalidType(f"{name} must be a function of (theta, x), got {describe(value)}")
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


def _built(
    kind: str,
    in_shape: tuple[int, ...],
    n_out: int,
    shapes: dict[str, tuple[int, ...]],
    spec: dict[str, Any],
) -> ParametricModel:
    rest = {"in_shape": list(in_shape), "n_outputs": n_out, "layout": _layout(shapes)}
    P = sum(math.prod(s) for s in shapes.values())
    return ParametricModel(kind, P, n_out, in_shape, {**spec, **rest})


# --- small helpers --------------------------------------------------------------------------------


def _input_forms(kind: str, in_shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes that one input may have."""
    if kind != "cnn":
        return [in_shape]
    return [in_shape, *([in_shape[:2]] if in_shape[2] == 1 else []), (math.prod(in_shape),)]

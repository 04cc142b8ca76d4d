"""The class of the models: outputs, Jacobians, initial parameters, the layout of θ.

>>> import numpy as np, bongref as br
>>> model = br.models.linear(2)
>>> model(np.array([1.0, 2.0]), [3.0, 4.0]), model.jac(np.zeros(2), [3.0, 4.0])
(array([11.]), array([[3., 4.]]))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd.core import make_vjp
from autograd.tracer import getval, isbox

from .. import checks
from ..errors import InvalidType, InvalidValue
from ..linalg import Array
from ..show import model_html, model_text, remedy_for_inputs
from ..tables import IMPUTE, as_array, describe
from .autodiff import tape
from .layers import ACTIVATIONS, SCHEMES, affine, avg_pool, conv_same, initial, take


class Param(NamedTuple):
    """One array of θ: theta[where].reshape(shape).

    Attributes
    ----------
    name : str
        ``"W0"``, ``"b0"``, ``"K0"`` …, or ``"theta"`` of a wrapped function.
    shape : tuple of int
    where : slice

    Examples
    --------
    >>> import bongref as br
    >>> br.models.linear(2, bias=True).layout[1]
    Param(name='b0', shape=(1,), where=slice(2, 3, None))
    """

    name: str
    shape: tuple[int, ...]
    where: slice


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
    f, own_jac : callable or None
        The function of :func:`wrap` and its Jacobian.

    Examples
    --------
    >>> import bongref as br
    >>> model = br.models.linear(2, bias=True)
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
        """The outputs f(θ, x).

        Parameters
        ----------
        theta : array_like, shape (P,)
        x : array_like, shape (D,) or (N, D)
            One input, or a batch; of a CNN (h, w, c) or (N, h, w, c).

        Returns
        -------
        ndarray, shape (C,) or (N, C)

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2)([1.0, 2.0], [[3.0, 4.0], [0.0, 1.0]])
        array([[11.],
               [ 2.]])
        """
        theta, x, batch = self._inputs(theta, x)
        o = self._batch(theta, x)
        return o if batch else o[0]

    def jac(self, theta: Any, x: Any) -> Array:
        r"""The Jacobian \(\partial f / \partial\theta\): one reverse sweep for each output.

        Parameters
        ----------
        theta : array_like, shape (P,)
        x : array_like, shape (D,) or (N, D)
            One input, or a batch.

        Returns
        -------
        ndarray, shape (C, P) or (N, C, P)

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2).jac([1.0, 2.0], [3.0, 4.0])
        array([[3., 4.]])
        """
        theta, x, batch = self._inputs(theta, x)
        if self.own_jac is not None:
            J = np.stack([self._checked_jac(theta, row) for row in x])
        elif self.kind in ("linear", "mlp"):
            J = self._dense_jac(theta, x)
        else:
            J = np.stack([self._row_jac(theta, x[i : i + 1]) for i in range(len(x))])
        return J if batch else J[0]

    def vjp(self, theta: Any, x: Any, v: Any) -> Array:
        r"""The product \(v^\top \partial f/\partial\theta\), summed over a batch.

        Parameters
        ----------
        theta : array_like, shape (P,)
        x : array_like, shape (D,) or (N, D)
        v : array_like, shape (C,) or (N, C)
            Of the shape of the output at x.

        Returns
        -------
        ndarray, shape (P,)

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2).vjp([1.0, 2.0], [3.0, 4.0], [10.0])
        array([30., 40.])
        """
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
        """Whether x is a batch: whether it has one dimension more than one input.

        Parameters
        ----------
        x : array_like

        Returns
        -------
        bool

        Raises
        ------
        InvalidValue
            If x has the shape neither of one input nor of a batch.

        Examples
        --------
        >>> import bongref as br
        >>> model = br.models.linear(2)
        >>> model.is_batch([3.0, 4.0]), model.is_batch([[3.0, 4.0]])
        (False, True)
        """
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
        """θ and x as finite float64 arrays of the right shapes.

        Parameters
        ----------
        theta : array_like, shape (P,), optional
        x : array_like, shape (D,) or (N, D), optional
            None stays None.

        Returns
        -------
        theta, x : ndarray or None

        Raises
        ------
        InvalidValue, InvalidType
            If one is not an array of finite numbers, or its shape is another one.

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2).check(theta=[1, 2])
        (array([1., 2.]), None)
        >>> br.models.linear(2).check(theta=[1, 2, 3])
        Traceback (most recent call last):
        bongref.errors.InvalidValue: theta must have shape (2,), got (3,)
        """
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
        >>> import bongref as br
        >>> br.models.mlp([2, 3, 1]).init(0).shape
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
        """The arrays of θ in their order.

        Returns
        -------
        list of Param
            (name, shape, slice) of each.

        Examples
        --------
        >>> import bongref as br
        >>> [p.name for p in br.models.mlp([2, 3, 1]).layout]
        ['W0', 'b0', 'W1', 'b1']
        """
        return [
            Param(d["name"], tuple(d["shape"]), slice(d["start"], d["stop"]))
            for d in self.spec["layout"]
        ]

    def unflatten(self, theta: Any) -> dict[str, Any]:
        """θ as its arrays by name, in the shapes of ``layout``.

        Parameters
        ----------
        theta : array_like, shape (P,)

        Returns
        -------
        dict of str to ndarray

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2, bias=True).unflatten([1.0, 2.0, 0.5])
        {'W0': array([[1., 2.]]), 'b0': array([0.5])}
        """
        return _arrays(self, self._checked_theta(theta))

    def flatten(self, arrays: Mapping[str, Any]) -> Array:
        """θ from its arrays by name: the inverse of :meth:`unflatten`.

        Parameters
        ----------
        arrays : mapping of str to array_like
            Each in the shape that ``layout`` gives.

        Returns
        -------
        ndarray, shape (P,)

        Raises
        ------
        InvalidValue
            If a name is missing or unknown, or an array has another shape.

        Examples
        --------
        >>> import bongref as br
        >>> br.models.linear(2, bias=True).flatten({"b0": [0.5], "W0": [[1.0, 2.0]]})
        array([1. , 2. , 0.5])
        """
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


def _input_forms(kind: str, in_shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The shapes that one input may have."""
    if kind != "cnn":
        return [in_shape]
    return [in_shape, *([in_shape[:2]] if in_shape[2] == 1 else []), (math.prod(in_shape),)]

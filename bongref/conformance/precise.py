r"""The reference values of the vectors, to 50 digits and more: a second route to models, likelihoods, estimators and predictives.

Everything is an object array of ``mpmath.mpf``. Derivatives of a model are jets (value, Jacobian, Hessian) carried forward through its
layers by hand, likelihoods are their formulas, so that nothing is shared with autograd, :mod:`bongref.models` and
:mod:`bongref.likelihoods`. The *steps* are the displayed forms of the family modules themselves, which run on any kind of number.

Inputs are the neutral dicts of the vectors; a float64 becomes the mpf that it is, without rounding. Every function works with
:data:`DPS` digits, or with more where the caller has asked for more::

    with mp.workdps(90):
        state, states, curvs = update("blr-lin-hess-fc", model, likelihood, prior, x, y, None, {"alpha": 0.1, "n_iter": 3})

Arithmetic outside such a block has the 15 digits of mpmath's default: take products with :func:`quantities`, floats with
:func:`rounded`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import wraps
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import gaussians
from ..curvature import Curv, dense, diagonal
from ..grid import MODULES, STATES, method
from ..linalg import Array, cholesky, eye, inv, solve, sym
from ..states import DLR, FC, Diag, State

try:
    from mpmath import mp
except ImportError:
    raise ImportError("the precise route needs mpmath: pip install 'bongref[exact]'") from None

DPS = 60  # digits that are worked with: ten more than are promised
N_BINS = 20
CLASSES = ("categorical", "bernoulli")  # the likelihoods whose mean is a probability

Fn = TypeVar("Fn", bound=Callable[..., Any])


def _working(fn: Fn) -> Fn:
    """The function at DPS digits, or at the caller's if they are more."""

    @wraps(fn)
    def inner(*args, **kwargs):
        # mpf * array asks for the repr of the array before numpy takes over: keep it short
        with mp.workdps(max(mp.dps, DPS)), np.printoptions(threshold=0, edgeitems=0):
            return fn(*args, **kwargs)

    return inner  # type: ignore[return-value]


# --- numbers -----------------------------------------------------------------------------------------------------------------


def exactly(a: Any) -> Array:
    """The array of numbers as mpf, each as it is; one number as a mpf."""
    with (
        mp.workdps(max(mp.dps, DPS)),
        np.errstate(invalid="ignore"),
    ):  # numpy warns where a NaN is converted
        if np.ndim(a) == 0:
            return _number(a.item() if isinstance(a, np.ndarray) else a)
        a = np.asarray(a)
        if a.dtype.kind not in "biufO":
            raise TypeError(f"numbers are needed, got an array of {a.dtype}")
        return np.frompyfunc(_number, 1, 1)(a) if a.size else a.astype(object)


def _number(v: Any) -> Any:
    return v if isinstance(v, mp.mpf) else mp.mpf(v if isinstance(v, int) else float(v))


def rounded(x: Any) -> Any:
    """Each number rounded once, to the nearest float64; arrays, states, dicts and lists keep their form."""
    if isinstance(x, np.ndarray):
        return np.array([_float(v) for v in x.flat], dtype=float).reshape(x.shape)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(rounded(v) for v in x))
    if isinstance(x, Mapping):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(rounded(v) for v in x)
    return _float(x) if isinstance(x, mp.mpf) else x


def _float(v: Any) -> float:
    """float(v); below the normal numbers through a fraction, because mpmath rounds twice there."""
    if isinstance(v, mp.mpf) and v and mp.isfinite(v) and abs(v) < mp.ldexp(1, -1022):
        if abs(v) < mp.ldexp(1, -1080):
            return math.copysign(0.0, int(mp.sign(v)))
        sign, man, exp, _ = v._mpf_
        return float(Fraction(-int(man) if sign else int(man)) / Fraction(2) ** -int(exp))
    return float(v)


def _each(fn: Callable[[Any], Any], a: Array) -> Array:
    return np.frompyfunc(fn, 1, 1)(a) if np.size(a) else a


def _diag(d: Array) -> Array:
    out = _zeros((len(d), len(d)))
    out[np.arange(len(d)), np.arange(len(d))] = d
    return out


def _zeros(shape: tuple[int, ...]) -> Array:
    return np.full(shape, mp.zero, dtype=object)


def _mean(a: Array) -> Array:
    """The mean over the first axis."""
    return a.sum(axis=0) / mp.mpf(len(a))


def has_nan(parts: Any) -> bool:
    """Whether a state or a curvature holds a NaN."""
    return any(a is not None and any(v != v for v in np.ravel(a)) for a in parts)


# --- jets of a model -------------------------------------------------------------------------------------------------------------


class Jet(NamedTuple):
    """n functions of θ at one θ: values (n,), Jacobian (n, P), Hessians (n, P, P). J is None for constants, H where it is not asked for."""

    value: Array
    J: Array = None
    H: Array = None


@_working
def jet(model: Mapping[str, Any], theta: Any, x: Any, order: int = 2) -> Jet:
    """(o (C,), J (C, P), H (C, P, P)) of a linear, mlp or cnn model at one input; what is beyond ``order`` is None."""
    theta, h = exactly(theta), Jet(exactly(x).reshape(-1))
    start = {p["name"]: p["start"] for p in model["layout"]}
    if len(theta) != model["layout"][-1]["stop"] or len(h.value) != math.prod(model["in_shape"]):
        raise ValueError(
            f"theta of {len(theta)} or x of {len(h.value)} numbers does not fit the model"
        )
    act = None if model["activation"] is None else ACTIVATIONS[model["activation"]]
    n = 0
    if model["kind"] == "cnn":
        shape = tuple(model["in_shape"])
        for n, c_out in enumerate(model["features"], start=1):
            h = _affine(
                h,
                theta,
                _convolution(
                    shape, tuple(model["kernel"]), c_out, start[f"K{n - 1}"], start[f"b{n - 1}"]
                ),
                order,
            )
            h, shape = _pool(_elementwise(h, act), (*shape[:2], c_out))
        widths = [len(h.value), model["hidden"], model["n_outputs"]]
    elif model["kind"] in ("linear", "mlp"):
        widths = model["sizes"]
    else:
        raise ValueError(f"no jets for a model of kind {model['kind']!r}")
    for i, (n_in, n_out) in enumerate(pairwise(widths)):
        h = _affine(
            h, theta, _dense(n_in, n_out, start[f"W{n + i}"], start.get(f"b{n + i}")), order
        )
        if i < len(widths) - 2:
            h = _elementwise(h, act)
    return h


Unit = tuple[
    list[tuple[int, int]], int | None
]  # one output: its pairs (index of the weight in θ, index of the input), index of the bias


def _dense(n_in: int, n_out: int, weight: int, bias: int | None) -> list[Unit]:
    """W h + b, W of shape (n_out, n_in) in C order from theta[weight]."""
    return [
        ([(weight + i * n_in + j, j) for j in range(n_in)], None if bias is None else bias + i)
        for i in range(n_out)
    ]


def _convolution(
    shape: tuple[int, ...], kernel: tuple[int, ...], c_out: int, weight: int, bias: int
) -> list[Unit]:
    """Cross-correlation with zeros around: (k − 1)//2 before, the rest after. K is (kh, kw, c_in, c_out), the input (h, w, c_in)."""
    (h, w, c_in), (kh, kw) = shape, kernel
    units: list[Unit] = []
    for i, j, o in np.ndindex(h, w, c_out):
        pairs = []
        for a, b, c in np.ndindex(kh, kw, c_in):
            row, col = i + a - (kh - 1) // 2, j + b - (kw - 1) // 2
            if 0 <= row < h and 0 <= col < w:
                pairs.append(
                    (weight + ((a * kw + b) * c_in + c) * c_out + o, (row * w + col) * c_in + c)
                )
        units.append((pairs, bias + o))
    return units


def _affine(h: Jet, theta: Array, units: list[Unit], order: int) -> Jet:
    """z_i = Σ θ_k h_j + θ_b over the pairs (k, j) of the i-th unit, with ∂²(θ_k h_j) = θ_k ∂²h_j + e_k ∂h_jᵀ + ∂h_j e_kᵀ."""
    P, n = len(theta), len(units)
    value, J, H = (
        _zeros((n,)),
        _zeros((n, P)) if order > 0 else None,
        _zeros((n, P, P)) if order > 1 else None,
    )
    for i, (pairs, bias) in enumerate(units):
        if bias is not None:
            value[i] += theta[bias]
            if J is not None:
                J[i, bias] += 1
        for k, j in pairs:
            value[i] += theta[k] * h.value[j]
            if J is not None:
                J[i, k] += h.value[j]
                if h.J is not None:
                    J[i] += theta[k] * h.J[j]
            if H is not None and h.J is not None:
                H[i, k, :] += h.J[j]
                H[i, :, k] += h.J[j]
                if h.H is not None and h.H[j].any():
                    H[i] += theta[k] * h.H[j]
    return Jet(value, J, H)


def _elementwise(z: Jet, act: Any) -> Jet:
    """act of each entry: J = act′ ∂z, H = act″ ∂z ∂zᵀ + act′ ∂²z."""
    a, d1, d2 = (np.array(v, dtype=object) for v in zip(*(act(v) for v in z.value), strict=True))
    J = None if z.J is None else d1[:, None] * z.J
    H = (
        None
        if z.H is None
        else np.stack([d2[i] * np.outer(z.J[i], z.J[i]) + d1[i] * z.H[i] for i in range(len(a))])
    )
    return Jet(a, J, H)


def _pool(z: Jet, shape: tuple[int, ...]) -> tuple[Jet, tuple[int, ...]]:
    """2 × 2 averages with stride 2; an odd last row or column is left out."""
    h, w, c = shape
    at = np.arange(h * w * c).reshape(shape)[: h // 2 * 2, : w // 2 * 2]
    four = at.reshape(h // 2, 2, w // 2, 2, c).transpose(1, 3, 0, 2, 4).reshape(4, -1)
    return Jet(*(None if part is None else sum(part[i] for i in four) / 4 for part in z)), (
        h // 2,
        w // 2,
        c,
    )


def _tanh(x: Any) -> tuple[Any, Any, Any]:
    e = mp.exp(-2 * abs(x))
    t, sech2 = mp.tanh(x), 4 * e / (1 + e) ** 2
    return t, sech2, -2 * t * sech2


def _relu(x: Any) -> tuple[Any, Any, Any]:
    return (x, mp.one, mp.zero) if x > 0 else (mp.zero, mp.zero, mp.zero)


def _gelu(x: Any) -> tuple[Any, Any, Any]:
    """x Φ(x), Φ + x φ, (2 − x²) φ."""
    Phi, phi = mp.erfc(-x / mp.sqrt(2)) / 2, mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
    return x * Phi, Phi + x * phi, (2 - x * x) * phi


def _gelu_tanh(x: Any) -> tuple[Any, Any, Any]:
    """x s with s = (1 + tanh u)/2 = 1/(1 + e^{−2u}), u = √(2/π) (x + 0.044715 x³); s′ = 2 s (1 − s) u′."""
    c, k = mp.sqrt(2 / mp.pi), mp.mpf("0.044715")
    u, u1, u2 = c * (x + k * x**3), c * (1 + 3 * k * x * x), 6 * c * k * x
    e = mp.exp(-2 * abs(u))
    s, v = (1 if u > 0 else e) / (1 + e), e / (1 + e) ** 2  # s and s(1 − s)
    s1 = 2 * u1 * v
    s2 = 2 * u2 * v - 4 * u1 * u1 * v * mp.tanh(u)
    return x * s, s + x * s1, 2 * s1 + x * s2


ACTIVATIONS: dict[str, Callable[[Any], tuple[Any, Any, Any]]] = {
    "tanh": _tanh,
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}


# --- likelihoods ---------------------------------------------------------------------------------------------------------------
# o: outputs (C,), y: observation (C,). 1 − p is never formed as a difference: it is the sum of the other probabilities.


def _kind(likelihood: Mapping[str, Any]) -> str:
    if likelihood["kind"] not in ("gaussian", *CLASSES, "poisson"):
        raise ValueError(f"no likelihood of kind {likelihood['kind']!r}")
    return likelihood["kind"]


def _noise(likelihood: Mapping[str, Any], C: int) -> Array:
    """R of a gaussian, (C, C); a scalar multiplies I."""
    R = exactly(likelihood["R"])
    R = sym(R) if np.ndim(R) == 2 else _diag(np.array([R] * C, dtype=object))
    if R.shape != (C, C):
        raise ValueError(f"R must have shape ({C}, {C}), got {R.shape}")
    return R


def _probabilities(likelihood: Mapping[str, Any], o: Array) -> tuple[Array, Array]:
    """p and 1 − p of each class."""
    if likelihood["kind"] == "bernoulli":
        return _each(lambda v: 1 / (1 + mp.exp(-v)), o), _each(lambda v: 1 / (1 + mp.exp(v)), o)
    e = _each(mp.exp, o - max(o))
    others = np.array([sum(np.delete(e, k), mp.zero) for k in range(len(e))], dtype=object)
    return e / e.sum(), others / e.sum()


@_working
def log_prob(likelihood: Mapping[str, Any], o: Any, y: Any) -> Any:
    """log p(y | o)."""
    kind, o, y = _kind(likelihood), exactly(o), exactly(y)
    if kind == "gaussian":
        L = cholesky(_noise(likelihood, len(o)))
        z = solve(L, y - o)
        return -(z @ z) / 2 - sum(mp.log(v) for v in np.diag(L)) - len(o) * mp.log(2 * mp.pi) / 2
    if kind == "bernoulli":
        return -sum(mp.log1p(mp.exp(-v if t == 1 else v)) for v, t in zip(o, y, strict=True))
    if kind == "categorical":
        at, top = int(np.argmax(y)), int(np.argmax(o))
        rest = sum((mp.exp(v - o[top]) for v in np.delete(o, top)), mp.zero)
        return o[at] - o[top] - mp.log1p(rest)
    return sum(t * v - mp.exp(v) - mp.loggamma(t + 1) for v, t in zip(o, y, strict=True))


@_working
def mean(likelihood: Mapping[str, Any], o: Any) -> Array:
    """ŷ = E[y | o], (C,)."""
    kind, o = _kind(likelihood), exactly(o)
    if kind == "gaussian":
        return o
    return _probabilities(likelihood, o)[0] if kind in CLASSES else _each(mp.exp, o)


@_working
def var(likelihood: Mapping[str, Any], o: Any) -> Array:
    """R = Cov[y | o], (C, C)."""
    kind, o = _kind(likelihood), exactly(o)
    if kind == "gaussian":
        return _noise(likelihood, len(o))
    if kind == "poisson":
        return _diag(_each(mp.exp, o))
    p, q = _probabilities(likelihood, o)
    if kind == "bernoulli":
        return _diag(p * q)
    R = -np.outer(p, p)
    R[np.arange(len(p)), np.arange(len(p))] = p * q
    return R


@_working
def jac_mean(likelihood: Mapping[str, Any], o: Any) -> Array:
    """∂ŷ/∂o, (C, C): I for a gaussian, R for the others, whose output is the natural parameter."""
    o = exactly(o)
    return exactly(eye(len(o))) if _kind(likelihood) == "gaussian" else var(likelihood, o)


@_working
def score(likelihood: Mapping[str, Any], o: Any, y: Any) -> Array:
    """∂ log p(y | o)/∂o, (C,)."""
    kind, o, y = _kind(likelihood), exactly(o), exactly(y)
    if kind == "gaussian":
        return solve(_noise(likelihood, len(o)), y - o)
    if kind == "poisson":
        return y - _each(mp.exp, o)
    p, q = _probabilities(likelihood, o)
    return y * q - (1 - y) * p


@_working
def info(likelihood: Mapping[str, Any], o: Any) -> Array:
    """−∂² log p(y | o)/∂o², (C, C), the same for every y: R⁻¹ for a gaussian, R for the others."""
    o = exactly(o)
    return (
        sym(inv(_noise(likelihood, len(o))))
        if _kind(likelihood) == "gaussian"
        else var(likelihood, o)
    )


@_working
def info_factor(likelihood: Mapping[str, Any], o: Any) -> Array:
    """B with B Bᵀ = info, (C, C)."""
    kind, o = _kind(likelihood), exactly(o)
    if kind == "gaussian":
        return solve(cholesky(_noise(likelihood, len(o))), exactly(eye(len(o)))).T
    if kind == "poisson":
        return _diag(_each(lambda v: mp.exp(v / 2), o))
    p, q = _probabilities(likelihood, o)
    if kind == "bernoulli":
        return _diag(_each(mp.sqrt, p * q))
    root = _each(mp.sqrt, p)
    B = -np.outer(p, root)
    B[np.arange(len(p)), np.arange(len(p))] = root * q
    return B


# --- estimators ------------------------------------------------------------------------------------------------------------------


def inputs(model: Mapping[str, Any], x: Any) -> list[Array]:
    """The inputs of x, one or a batch, each flat."""
    x, shape = exactly(x), tuple(model["in_shape"])
    forms = [shape]
    if model["kind"] == "cnn":
        forms += [(math.prod(shape),), *([shape[:2]] if shape[2] == 1 else [])]
    if x.shape in forms:
        return [x.reshape(-1)]
    if x.shape[1:] in forms:
        return [row.reshape(-1) for row in x]
    raise ValueError(f"x must have shape {shape}, or one leading dimension more, got {x.shape}")


def _pairs(model: Mapping[str, Any], x: Any, y: Any) -> list[tuple[Array, Array]]:
    xs = inputs(model, x)
    ys = exactly(y).reshape(len(xs), -1)
    return list(zip(xs, ys, strict=True))


@_working
def log_likelihood(
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    theta: Any,
    x: Any,
    y: Any,
    order: int = 2,
) -> Jet:
    """log p(y | x, θ) of an observation, of a batch the sum, with gradient and Hessian in θ, as a jet of one function.

    ∇² = Σ_c s_c ∇²f_c − Jᵀ info J with the score s.
    """
    value, grad, hess = mp.zero, None, None
    for xi, yi in _pairs(model, x, y):
        o, J, H = jet(model, theta, xi, order)
        value = value + log_prob(likelihood, o, yi)
        if order > 0:
            s = score(likelihood, o, yi)
            one = J.T @ s
            grad = one if grad is None else grad + one
        if order > 1:
            two = sum(s[c] * H[c] for c in range(len(o))) - J.T @ info(likelihood, o) @ J
            hess = two if hess is None else hess + two
    return Jet(
        *(
            None if part is None else np.array([part]) if np.ndim(part) == 0 else part[None]
            for part in (value, grad, hess)
        )
    )


@_working
def estimate(
    hess: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    theta: Any,
    x: Any,
    y: Any,
    samples: Any = None,
) -> Curv:
    """(g, G): G = −S Sᵀ for mc-ef, lin-hess, lin-ef, dense for mc-hess. lin-* at theta, mc-* at the samples (M, P)."""
    if hess == "lin-hess":
        g, S = mp.zero, []
        for xi, yi in _pairs(model, x, y):
            o, J, _ = jet(model, theta, xi, 1)
            g = g + J.T @ score(likelihood, o, yi)
            S.append(J.T @ info_factor(likelihood, o))
        return Curv(g, S=np.concatenate(S, axis=1))
    if hess == "lin-ef":
        g = log_likelihood(model, likelihood, theta, x, y, 1).J[0]
        return Curv(g, S=g[:, None])
    if hess not in ("mc-hess", "mc-ef"):
        raise ValueError(f"hess must be mc-hess, mc-ef, lin-hess or lin-ef, got {hess!r}")
    jets = [
        log_likelihood(model, likelihood, t, x, y, 2 if hess == "mc-hess" else 1)
        for t in exactly(samples)
    ]
    ghat = np.stack([j.J[0] for j in jets])
    if hess == "mc-ef":
        return Curv(_mean(ghat), S=ghat.T / mp.sqrt(len(jets)))
    return Curv(_mean(ghat), G=sym(_mean(np.stack([j.H[0] for j in jets]))))


# --- states, steps, updates, streams -----------------------------------------------------------------------------------------------


def state(family: str, q: Any) -> State:
    """The dict or the state in mpf."""
    kind = STATES[family]
    parts = [exactly(q[f] if isinstance(q, Mapping) else getattr(q, f)) for f in kind._fields]
    if kind is FC:
        parts[1] = sym(parts[1])
    return kind(*parts)


def curvature(curv: Any) -> Curv:
    """The dict or the Curv in mpf, with one reading of G: S where it is given, or else G, or else d."""
    given = curv if isinstance(curv, Mapping) else curv._asdict()
    for key in ("S", "G", "d"):
        if given.get(key) is not None:
            value = exactly(given[key])
            return Curv(exactly(given["g"]), **{key: sym(value) if key == "G" else value})
    raise ValueError(f"curv must have one of S, G, d, got {sorted(given)}")


@_working
def quantities(x: Any) -> dict[str, Array]:
    """What may be compared: of a state its arrays, W as "W W^T"; of a curvature g, G and "diag G"."""
    if isinstance(x, Curv):
        G = {} if x.S is None and x.G is None else {"G": dense(x)}
        return {"g": x.g, **G, "diag G": diagonal(x)}
    if isinstance(x, DLR):
        return {"mu": x.mu, "Ups": x.Ups, "W W^T": x.W @ x.W.T}
    return dict(x._asdict())


@_working
def precision(q: State) -> Array:
    """Σ⁻¹, (P, P); of a diagonal state the vector 1/σ²."""
    if isinstance(q, Diag):
        return 1 / q.var
    return sym(inv(q.Sigma)) if isinstance(q, FC) else _diag(q.Ups) + q.W @ q.W.T


@_working
def is_valid(q: State) -> bool:
    """Whether the state is a Gaussian: no NaN, positive definite."""
    return not has_nan(q) and gaussians.is_valid(q)


@_working
def step(method_name: str, prior: Any, current: Any, curv: Any, alpha: Any = 1) -> State:
    """The displayed form of the step; bong and bog start at the prior. A division by 0 gives a state of NaN."""
    m = method(method_name)
    prior = state(m.family, prior)
    current = prior if current is None or m.rule in ("bong", "bog") else state(m.family, current)
    curv = curvature(curv)
    if has_nan(prior) or has_nan(current) or has_nan(curv):
        return _nan(prior)
    try:
        with np.errstate(invalid="ignore"):  # numpy warns of the NaN of a singular matrix
            out = getattr(MODULES[m.family], m.rule)(prior, current, curv, exactly(alpha))
    except ZeroDivisionError:  # a precision that is exactly 0 has no variance
        return _nan(prior)
    for name, a in zip(out._fields, out, strict=True):
        for v in a.flat:
            if isinstance(v, float) and v == v:
                raise AssertionError(f"{name} holds a float: the step code is not precise")
    return type(out)(*(exactly(a) for a in out))


def _nan(q: State) -> State:
    return type(q)(*(np.full(a.shape, mp.nan, dtype=object) for a in q))


@_working
def update(
    method_name: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    prior: Any,
    x: Any,
    y: Any,
    samples: Any = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[State, list[State], list[Curv]]:
    """The posterior, the state and the curvature of each inner iteration. samples (I, M, P) for mc.

    The iterations go on as the equations say also where an iterate is not positive definite; they end at a NaN.
    """
    m = method(method_name, **(params or {}))
    prior = current = state(m.family, prior)
    if m.hess.startswith("mc"):
        samples = exactly(samples)
        samples = samples[None] if samples.ndim == 2 else samples
        if len(samples) != m.n_iter:
            raise ValueError(f"samples must have shape ({m.n_iter}, M, P), got {samples.shape}")
    states: list[State] = []
    curvs: list[Curv] = []
    for i in range(m.n_iter):
        if has_nan(current):
            break
        curv = estimate(
            m.hess,
            model,
            likelihood,
            current.mu,
            x,
            y,
            samples[i] if m.hess.startswith("mc") else None,
        )
        current = step(m.name, prior, current, curv, m.params.get("alpha", 1))
        states.append(current)
        curvs.append(curv)
    return current, states, curvs


@_working
def predict(family: str, q: Any, dynamics: Mapping[str, Any] | None) -> State:
    """The prior of the next step: mean F μ + b, covariance F Σ Fᵀ + Q, in the family; a ValueError where it is not in the family."""
    q = state(family, q)
    if dynamics is None or dynamics["kind"] == "static" or has_nan(q):
        return q
    F, b, Q = _transition(dynamics, len(q.mu))
    mu = (F * q.mu if F.ndim == 1 else F @ q.mu) + b
    if isinstance(q, DLR):
        if F.ndim == 2 or Q.ndim == 2:
            raise ValueError("F and Q must be diagonal for the dlr family")
        return DLR(mu, *_predict_dlr(q, F, Q))
    if isinstance(q, Diag) and F.ndim == 1 and Q.ndim == 1:
        return Diag(mu, F * F * q.var + Q)
    F, Q = (_diag(a) if a.ndim == 1 else a for a in (F, Q))
    Sigma = sym(F @ (q.Sigma if isinstance(q, FC) else _diag(q.var)) @ F.T + Q)
    if isinstance(q, FC):
        return FC(mu, Sigma)
    if np.any(Sigma - _diag(np.diag(Sigma)) != 0):
        raise ValueError("F Sigma F^T + Q must be diagonal for a diagonal family")
    return Diag(mu, np.diag(Sigma).copy())


def _transition(dynamics: Mapping[str, Any], P: int) -> tuple[Array, Array, Array]:
    """(F, b, Q), F and Q as (P,) where they are diagonal."""
    if dynamics["kind"] == "ou":
        gamma, mu0, var0 = (
            exactly(dynamics["gamma"]),
            _vector(dynamics["mu0"], P),
            _square(dynamics["var0"], P),
        )
        return _vector(gamma, P), (1 - gamma) * mu0, (1 - gamma) * (1 + gamma) * var0
    if dynamics["kind"] != "linear":
        raise ValueError(f"dynamics must be static, ou or linear, got {dynamics['kind']!r}")
    return _square(dynamics["F"], P), _vector(dynamics["b"], P), _square(dynamics["Q"], P)


def _vector(a: Any, P: int) -> Array:
    return np.broadcast_to(np.asarray(exactly(a), dtype=object), (P,)).copy()


def _square(a: Any, P: int) -> Array:
    a = exactly(a)
    if np.ndim(a) < 2:
        return _vector(a, P)
    return a if np.any(a - _diag(np.diag(a)) != 0) else np.diag(a).copy()


def _predict_dlr(q: DLR, f: Array, Q: Array) -> tuple[Array, Array]:
    """Υ' = Υ/n and W' W'ᵀ = (fW/n) E⁻¹ (fW/n)ᵀ, n = f² + QΥ, E = I + Wᵀ (Q/n) W: Woodbury twice."""
    n = f * f + Q * q.Ups
    if not np.all(n > 0):
        raise ValueError(
            "F^2 + Q Ups must be > 0 for the precision to be again Ups + W W^T of the same rank"
        )
    E = eye(q.W.shape[1]) + q.W.T @ (q.W * (Q / n)[:, None])
    return q.Ups / n, solve(cholesky(sym(E)), (q.W * (f / n)[:, None]).T).T


@_working
def stream(
    method_name: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    prior: Any,
    X: Sequence[Any],
    Y: Sequence[Any],
    samples: Any = None,
    dynamics: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> list[State]:
    """The T states after each step: predict, then update with (X[t], Y[t]). A Y[t] of None is missing. samples (T, I, M, P)."""
    family, out = method(method_name, **(params or {})).family, []
    q = state(family, prior)
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        q = predict(family, q, dynamics)
        if y is not None:
            q = update(
                method_name,
                model,
                likelihood,
                q,
                x,
                y,
                None if samples is None else samples[t],
                params,
            )[0]
        out.append(q)
    return out


# --- predictives -------------------------------------------------------------------------------------------------------------------


@_working
def predictive(
    kind: str,
    family: str,
    model: Mapping[str, Any],
    likelihood: Mapping[str, Any],
    q: Any,
    X: Any,
    samples: Any = None,
    Y: Any = None,
) -> dict[str, Any]:
    """mean and var (N, C); with Y also log_density (N,), nlpd, and for classes error and ece. samples (S, P) for mc and lin_mc.

    lin_mc has h̄ = ŷ + H(θ − μ) in place of the mean h, and uses it as it is where it leaves the range of means.
    """
    mu, xs = state(family, q).mu, inputs(model, X)
    if kind not in ("plugin", "mc", "lin_mc"):
        raise ValueError(f"kind must be plugin, mc or lin_mc, got {kind!r}")
    thetas = mu[None] if kind == "plugin" else exactly(samples)
    if kind == "lin_mc":
        at = [jet(model, mu, x, 1) for x in xs]
        saturation = max(abs(v) for o, _, _ in at for v in o) if _kind(likelihood) in CLASSES else 0
        with mp.workdps(mp.dps + min(int(saturation), 1000)):  # 1 − h̄ is a difference
            return _mixture(
                likelihood,
                [_linear_means(likelihood, mu, *o[:2], thetas) for o in at],
                Y,
                of_means=True,
            )
    return _mixture(
        likelihood, [[jet(model, t, x, 0).value for t in thetas] for x in xs], Y, of_means=False
    )


def _linear_means(
    likelihood: Mapping[str, Any], mu: Array, o: Array, J: Array, thetas: Array
) -> list[Array]:
    """h̄(x, θ) for each θ."""
    H = jac_mean(likelihood, o) @ J
    return [mean(likelihood, o) + H @ (t - mu) for t in thetas]


def _mixture(
    likelihood: Mapping[str, Any], values: list[list[Array]], Y: Any, of_means: bool
) -> dict[str, Any]:
    """The moments, densities and metrics of an equally weighted mixture: values[n][s] is an output, or a mean, (C,)."""
    means = [
        np.stack(v if of_means else [mean(likelihood, o) for o in v]) for v in values
    ]  # N of (S, C)
    within = [
        np.stack(
            [_var_of_mean(likelihood, h) for h in v]
            if of_means
            else [np.diag(var(likelihood, o)) for o in v]
        )
        for v in values
    ]
    centre = [_mean(m) for m in means]
    spread = [_mean(w) + _mean((m - c) ** 2) for m, w, c in zip(means, within, centre, strict=True)]
    out: dict[str, Any] = {"mean": np.stack(centre), "var": np.stack(spread)}
    if Y is None:
        return out
    ys = exactly(Y).reshape(len(values), -1)
    density = _log_density_of_means if of_means else _log_density
    logs = np.array(
        [density(likelihood, v, y) for v, y in zip(values, ys, strict=True)], dtype=object
    )
    out |= {"log_density": logs, "nlpd": -logs.sum() / len(logs)}
    if likelihood["kind"] == "categorical" or (
        likelihood["kind"] == "bernoulli" and ys.shape[1] == 1
    ):
        out |= _calibration(likelihood, out["mean"], ys)
    return out


def _var_of_mean(likelihood: Mapping[str, Any], h: Array) -> Array:
    """The variances of y at the mean h, whatever h is, (C,)."""
    if likelihood["kind"] == "gaussian":
        return np.diag(_noise(likelihood, len(h)))
    return h * (1 - h) if likelihood["kind"] in CLASSES else h


def _log_density(likelihood: Mapping[str, Any], outputs: list[Array], y: Array) -> Any:
    return _log_mean_exp([log_prob(likelihood, o, y) for o in outputs])


def _log_density_of_means(likelihood: Mapping[str, Any], means: list[Array], y: Array) -> Any:
    if likelihood["kind"] == "gaussian":
        return _log_density(likelihood, means, y)
    if likelihood["kind"] == "poisson":
        return _log_mean_exp(
            [sum(_poisson_at(h, t) for h, t in zip(m, y, strict=True)) for m in means]
        )
    if likelihood["kind"] == "categorical":
        mass = [m[int(np.argmax(y))] for m in means]
    else:
        mass = [mp.fprod(h if t == 1 else 1 - h for h, t in zip(m, y, strict=True)) for m in means]
    total = sum(mass) / len(mass)
    return mp.log(total) if total > 0 else mp.ninf


def _poisson_at(rate: Any, y: Any) -> Any:
    """log-density at a rate: −inf where it is ≤ 0, except 0 where y = rate = 0."""
    if rate > 0:
        return y * mp.log(rate) - rate - mp.loggamma(y + 1)
    return mp.zero if rate == 0 and y == 0 else mp.ninf


def _log_mean_exp(logs: list[Any]) -> Any:
    """log of the mean of the exponentials, with its digits also where every one of them is nearly 1."""
    top = max(logs)
    return (
        top + mp.log1p(sum(mp.expm1(v - top) for v in logs) / len(logs)) if top > mp.ninf else top
    )


def _calibration(likelihood: Mapping[str, Any], mean: Array, ys: Array) -> dict[str, Any]:
    """error and ece: the share of wrong classes; Σ_b |Σ_{n in b} (right − confidence)| / N over the bins (b/20, (b + 1)/20]."""
    if likelihood["kind"] == "categorical":
        guess, label = mean.argmax(axis=1), ys.argmax(axis=1)
        confidence = mean.max(axis=1)
    else:
        guess, label = (mean[:, 0] > mp.mpf(1) / 2).astype(int), ys[:, 0].astype(int)
        confidence = np.where(guess == 1, mean[:, 0], 1 - mean[:, 0])
    right = guess == label
    gaps = [mp.zero] * N_BINS
    for ok, c in zip(right, confidence, strict=True):
        gaps[min(max(int(mp.ceil(c * N_BINS)) - 1, 0), N_BINS - 1)] += int(ok) - c
    N = len(label)
    return {"error": mp.mpf(int(N - right.sum())) / N, "ece": sum(abs(g) for g in gaps) / N}


# --- enough digits? --------------------------------------------------------------------------------------------------------------


def stable(fn: Callable[[], Any], digits: Sequence[int] = (DPS, 90, 200, 500, 900)) -> Any:
    """fn() at the first of these precisions that gives the same float64, bit for bit, in every entry as the one before it.

    A W is compared as W Wᵀ. An entry that is below 10^(10 − digits) of its array, of 1 where all of the array is, and falls with the
    digits is 0 but for rounding, and is put to 0.
    """
    with mp.workdps(digits[0]):
        low = fn()
    for before, now in pairwise(digits):
        with mp.workdps(now):
            high = fn()
            try:
                return _same(low, high, "result", before)
            except NotSettled:
                if now == digits[-1]:
                    raise
        low = high


class NotSettled(AssertionError):
    """An entry whose float64 still changes with the number of digits."""


def _same(low: Any, high: Any, where: str, dps: int) -> Any:
    if isinstance(high, DLR):
        _same(quantities(low), quantities(high), where, dps)
        return high
    if isinstance(high, tuple | list) and len(low) == len(high):
        names = [f".{f}" for f in getattr(high, "_fields", ())] or [
            f"[{i}]" for i in range(len(high))
        ]
        parts = [_same(a, b, where + n, dps) for n, a, b in zip(names, low, high, strict=True)]
        return type(high)(*parts) if hasattr(high, "_fields") else type(high)(parts)
    if isinstance(high, Mapping) and low.keys() == high.keys():
        return {k: _same(low[k], high[k], f"{where}[{k!r}]", dps) for k in high}
    if isinstance(high, np.ndarray) and low.shape == high.shape:
        size = max((abs(v) for v in high.flat if mp.isfinite(v)), default=mp.zero)
        out = high.copy()
        for at in np.ndindex(high.shape):
            out[at] = _same_number(
                low[at], high[at], size, f"{where}[{', '.join(map(str, at))}]", dps
            )
        return out
    if isinstance(high, mp.mpf):
        return _same_number(low, high, abs(high), where, dps)
    assert low is high or (type(low) is type(high) and low == high), (
        f"{where}: {low!r} at {dps} digits, {high!r} at more"
    )
    return high


def _same_number(low: Any, high: Any, size: Any, where: str, dps: int) -> Any:
    a, b = _float(low), _float(high)
    if a == b or (a != a and b != b):
        return high
    tiny = mp.mpf(10) ** (10 - dps)
    if (
        abs(low) <= tiny * (size if size > tiny else 1)
        and abs(high) <= abs(low) * mp.mpf(10) ** -20
    ):
        return mp.zero
    raise NotSettled(f"{where} needs more digits: {a!r} at {dps} digits, {b!r} at more")

"""What all states q(θ) offer: validity, samples, KL divergence, log-density, marginal variances.

Nothing here forms a (P, P) array for Diag or DLR, except a KL between DLR or Diag and FC, which has
one anyway.

>>> import numpy as np, bongref as br
>>> q = br.Diag(mu=np.zeros(3), var=np.ones(3))
>>> p = br.FC(mu=np.zeros(3), Sigma=2 * np.eye(3))
>>> round(br.kl(q, p), 6)
0.289721
>>> br.sample(q, 2, rng=0).shape
(2, 3)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import checks
from .errors import InvalidValue
from .linalg import (
    Array,
    cholesky,
    eye,
    finite,
    gram,
    inv,
    is_exact,
    is_pd,
    logdet,
    rowdot,
    solve,
    svd,
    sym,
    thin_svd,
    woodbury_solve,
)
from .special import ndtri
from .states import DLR, FC, Diag, State


def is_valid(q: State) -> bool:
    """Whether q is a Gaussian: finite, and its covariance positive definite.

    Parameters
    ----------
    q : FC, Diag or DLR

    Returns
    -------
    bool

    Examples
    --------
    >>> is_valid(Diag(np.zeros(1), np.ones(1))), is_valid(Diag(np.zeros(1), -np.ones(1)))
    (True, False)
    """
    if any(not is_exact(a) and not np.all(np.isfinite(a)) for a in q):
        return False
    if any(
        is_exact(a) and any(v != v for v in a.flat) for a in q
    ):  # NaN of an exact singular solve
        return False
    if isinstance(q, FC):
        return is_pd(q.Sigma)
    if isinstance(q, Diag):
        return bool(np.all(q.var > 0))
    _, neg, schur = _split(q)
    return bool(len(neg) == 0 or (len(neg) <= q.W.shape[1] and is_pd(schur)))


def _split(q: DLR) -> tuple[Array, Array, Array]:
    """Indices with Υ > 0 and with Υ ≤ 0, and the Schur complement of Υ + W Wᵀ on the latter.

    It is Υ_n + W_n (I + W_pᵀ Υ_p⁻¹ W_p)⁻¹ W_nᵀ. With no Υ ≤ 0, which is the rule, there is nothing
    to complement. More of them than W has columns cannot be made up for.
    """
    positive = np.asarray(q.Ups > 0, dtype=bool)
    pos, neg = np.flatnonzero(positive), np.flatnonzero(~positive)
    if len(neg) == 0 or len(neg) > q.W.shape[1]:
        return pos, neg, np.zeros((0, 0))
    Wp, Wn = q.W[pos], q.W[neg]
    inner = eye(q.W.shape[1]) + gram(Wp, Wp / q.Ups[pos][:, None])
    return pos, neg, sym(np.diag(q.Ups[neg]) + Wn @ solve(inner, Wn.T))


def sample(state: State, n: int, rng: np.random.Generator | int) -> Array:
    """Draws θ ~ q. FC: O(P³ + nP²), Diag: O(nP), DLR: O(R(R+n)P) without a (P, P) array.

    Parameters
    ----------
    state : FC, Diag or DLR
    n : int
        The number of draws.
    rng : numpy.random.Generator or int
        A generator, which is advanced, or a seed.

    Returns
    -------
    ndarray, shape (n, P)

    Raises
    ------
    InvalidValue
        If the state is not finite or not positive definite, or n < 1.
    InvalidType
        If ``rng`` is neither a generator nor an integer.

    Examples
    --------
    >>> import bongref as br
    >>> theta = br.sample(br.Diag(np.zeros(2), np.ones(2)), 1000, np.random.default_rng(0))
    >>> theta.shape
    (1000, 2)
    """
    state, n = checks.state("state", state), checks.integer("n", n, 1)
    return draw(state, n, checks.seed_or_generator("rng", rng))


def draw(state: State, n: int, rng: np.random.Generator) -> Array:
    """:func:`sample` on checked arguments.

    Parameters
    ----------
    state : FC, Diag or DLR
    n : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (n, P)

    Examples
    --------
    >>> draw(Diag(np.zeros(2), np.ones(2)), 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    return place(state, normals(rng, (n, len(state.mu))))


def normals(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normal variates: Φ⁻¹ of a uniform one, at the middle of its cell of width 2⁻⁵³.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : tuple of int

    Returns
    -------
    ndarray

    Examples
    --------
    >>> normals(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """
    q = (rng.random(shape) - 0.5) + 2.0**-54  # exact, and so is ½ − |q|
    z: Array = np.copysign(ndtri(0.5 - np.abs(q)), q)
    return z


def place(state: State, z: Array) -> Array:
    """Rows of standard normals as draws θ ~ q.

    Parameters
    ----------
    state : FC, Diag or DLR
    z : ndarray, shape (n, P)

    Returns
    -------
    ndarray, shape (n, P)

    Examples
    --------
    >>> place(Diag(np.ones(1), np.array([4.0])), np.array([[-1.0], [0.5]]))
    array([[-1.],
           [ 2.]])
    """
    theta: Array
    if isinstance(state, FC):
        theta = state.mu + z @ cholesky(state.Sigma).T
        return theta
    if isinstance(state, Diag):
        theta = state.mu + z * np.sqrt(state.var)
        return theta
    pos, neg, schur = _split(state)
    if len(neg) == 0:
        return state.mu + _dlr_noise(state.Ups, state.W, z)
    x = np.empty_like(z)  # x_n from its marginal, then x_p given x_n
    x[:, neg] = finite(solve(cholesky(schur).T, z[:, neg].T)).T
    shift = woodbury_solve(
        state.Ups[pos], state.W[pos], state.W[pos] @ (state.W[neg].T @ x[:, neg].T)
    ).T
    x[:, pos] = _dlr_noise(state.Ups[pos], state.W[pos], z[:, pos]) - shift
    return state.mu + x


def _dlr_noise(Ups: Array, W: Array, z: Array) -> Array:
    """Rows with covariance (Υ + W Wᵀ)⁻¹ from rows of standard normals.

    With A = Υ^{-1/2} W = Q Λ Vᵀ: (I + AAᵀ)^{-1/2} = I − Q (I − (I + Λ²)^{-1/2}) Qᵀ
    = I − (AV) D (AV)ᵀ with D = 1/(h + h²), h = √(1 + Λ²), in which nothing cancels and nothing is
    divided by a small singular value.
    """
    root = np.sqrt(Ups)
    A = W / root[:, None]
    Lambda, V = svd(A)
    AV, h = A @ V, np.hypot(1, Lambda)
    noise: Array = (z - gram(z.T, AV) / (h + h**2) @ AV.T) / root
    return noise


def marginal_variance(q: State) -> Array:
    """The diagonal of Σ.

    Parameters
    ----------
    q : FC, Diag or DLR

    Returns
    -------
    ndarray, shape (P,)

    Examples
    --------
    >>> marginal_variance(DLR(np.zeros(2), np.ones(2), np.array([[1.0], [0.0]])))
    array([0.5, 1. ])
    """
    if isinstance(q, FC):
        var: Array = np.diag(q.Sigma).copy()
        return var
    if isinstance(q, Diag):
        return q.var
    pos, neg, schur = _split(q)
    if len(neg) == 0:
        return _dlr_variances(q.Ups, q.W)
    out = np.empty(len(q.mu))
    K = woodbury_solve(q.Ups[pos], q.W[pos], q.W[pos] @ q.W[neg].T)
    out[neg] = np.diag(inv(schur))
    out[pos] = marginal_variance(DLR(q.mu[pos], q.Ups[pos], q.W[pos])) + rowdot(K @ inv(schur), K)
    return out


def _dlr_variances(Ups: Array, W: Array) -> Array:
    """diag (Υ + W Wᵀ)⁻¹ for Υ > 0.

    With A = Υ^{-1/2} W = Q Λ Vᵀ: (1 − a_iᵀ(I + AᵀA)⁻¹a_i) / Υ_i. The second term, the leverage of
    row i, is at most 1, and all of them are at most R together: where it is above ½, in fewer than
    2R rows, the difference cancels, and the other rows are eliminated instead:
    1 / (Υ_i + w_iᵀ(I + BᵀB)⁻¹w_i) with B = A without row i.
    """
    A = W / np.sqrt(Ups)[:, None]
    Lambda, V = svd(A)
    leverage = np.sum((A @ V / np.hypot(1, Lambda)) ** 2, axis=1)
    var: Array = (1 - leverage) / Ups
    for i in np.flatnonzero(leverage > 0.5):
        B = A.copy()
        B[i] = 0
        Lambda, V = svd(B)
        along, across = W[i] @ V, W[i] - V @ (V.T @ W[i])  # across: where P < R
        var[i] = 1 / (Ups[i] + np.sum((along / np.hypot(1, Lambda)) ** 2) + across @ across)
    return var


def covariance(q: State) -> Array:
    """Σ as an array.

    Parameters
    ----------
    q : FC, Diag or DLR

    Returns
    -------
    ndarray, shape (P, P)

    Examples
    --------
    >>> covariance(Diag(np.zeros(2), np.array([1.0, 4.0])))
    array([[1., 0.],
           [0., 4.]])
    """
    if isinstance(q, FC):
        return q.Sigma
    return np.diag(q.var) if isinstance(q, Diag) else inv(np.diag(q.Ups) + q.W @ q.W.T)


def precision_times(q: State, x: Array) -> Array:
    """Σ⁻¹ x.

    Parameters
    ----------
    q : FC, Diag or DLR
    x : ndarray, shape (P,) or (P, K)

    Returns
    -------
    ndarray, of the shape of ``x``

    Examples
    --------
    >>> precision_times(Diag(np.zeros(2), np.array([1.0, 4.0])), np.ones(2))
    array([1.  , 0.25])
    """
    if isinstance(q, FC):
        return solve(q.Sigma, x)
    col = x if x.ndim == 2 else x[:, None]
    if isinstance(q, Diag):
        out = col / q.var[:, None]
    else:
        out = q.Ups[:, None] * col + q.W @ gram(q.W, col)
    return out if x.ndim == 2 else out[:, 0]


def logdet_covariance(q: State) -> float:
    """log |Σ|.

    Parameters
    ----------
    q : FC, Diag or DLR

    Returns
    -------
    float

    Examples
    --------
    >>> logdet_covariance(Diag(np.zeros(2), np.array([0.5, 2.0])))
    0.0
    """
    if isinstance(q, FC):
        return float(2 * np.sum(np.log(np.diag(cholesky(q.Sigma)))))
    if isinstance(q, Diag):
        return float(np.sum(np.log(q.var)))
    pos, neg, schur = _split(q)
    Ups, W = q.Ups[pos], q.W[pos]
    Lambda, _ = svd(W / np.sqrt(Ups)[:, None])
    inner = 2 * float(np.sum(np.log(np.hypot(1, Lambda))))  # log |I + WᵀΥ⁻¹W|
    return float(-np.sum(np.log(Ups)) - inner - (logdet(schur) if len(neg) else 0.0))


def covariance_times(q: DLR, X: Array) -> Array:
    """Σ X = (Υ + W Wᵀ)⁻¹ X, by Woodbury; entries with Υ ≤ 0 are eliminated first.

    Parameters
    ----------
    q : DLR
    X : ndarray, shape (P, K)

    Returns
    -------
    ndarray, shape (P, K)

    Examples
    --------
    >>> q = DLR(np.zeros(2), np.ones(2), np.array([[1.0], [0.0]]))
    >>> covariance_times(q, np.eye(2)).round(9)
    array([[0.5, 0. ],
           [0. , 1. ]])
    """
    pos, neg, schur = _split(q)
    if len(neg) == 0:
        return woodbury_solve(q.Ups, q.W, X)
    Ups, Wp, Wn = q.Ups[pos], q.W[pos], q.W[neg]
    out = np.empty(X.shape)
    out[neg] = solve(schur, X[neg] - Wn @ gram(Wp, woodbury_solve(Ups, Wp, X[pos])))
    out[pos] = woodbury_solve(Ups, Wp, X[pos] - Wp @ gram(Wn, out[neg]))
    return out


def log_density(state: State, theta: Any) -> Array:
    """The log-density log q(θ).

    Parameters
    ----------
    state : FC, Diag or DLR
    theta : array_like, shape (P,) or (n, P)

    Returns
    -------
    ndarray, shape () or (n,)

    Raises
    ------
    InvalidValue
        If the state is not positive definite, or ``theta`` does not have P columns.

    Examples
    --------
    >>> import bongref as br
    >>> round(float(br.log_density(br.Diag(np.zeros(1), np.ones(1)), [0.0])), 6)
    -0.918939
    """
    state = checks.state("state", state)
    theta = checks.array("theta", theta, ndim=(1, 2))
    if theta.shape[-1] != len(state.mu):
        P = len(state.mu)
        raise InvalidValue(
            f"theta must have {P} entries in its last dimension, got shape {theta.shape}"
        )
    logdet, units = _logdet(state), _units(state)
    state = _in_units(state, units)
    with np.errstate(over="ignore"):  # a θ that is very far away has log-density −inf
        d = np.ldexp(np.atleast_2d(theta), -units) - state.mu
        quad = rowdot(d, precision_times(state, d.T).T)
    out: Array = -(quad + logdet + len(state.mu) * np.log(2 * np.pi)) / 2
    return out if theta.ndim == 2 else out[0]


def _logdet(q: State) -> float:
    """log |Σ|, also of extreme variances."""
    units = _units(q)
    return logdet_covariance(_in_units(q, units)) + 2 * float(np.log(2)) * float(np.sum(units))


def _units(q: State) -> npt.NDArray[np.int64]:
    """Powers of two, the size of a standard deviation of each θ; 0 but for extreme variances.

    In units of 2^e neither the inverse of a variance of 1e-320 nor that of 1e320 overflows.
    """
    if isinstance(q, DLR):
        root = 1 / np.hypot(np.sqrt(np.abs(q.Ups)), np.hypot.reduce(q.W, axis=1))
    else:
        root = np.sqrt(q.var if isinstance(q, Diag) else np.diag(q.Sigma))
    e = np.frexp(root)[1].astype(np.int64)
    return e if np.any(np.abs(e) > 400) else np.zeros_like(e)


def _in_units(q: State, e: npt.NDArray[np.int64]) -> State:
    """The state of θ / 2^e."""
    if not np.any(e):
        return q
    with np.errstate(over="ignore", under="ignore"):
        mu = np.ldexp(q.mu, -e)
        if isinstance(q, FC):
            return FC(mu, np.ldexp(q.Sigma, -e[:, None] - e))
        if isinstance(q, Diag):
            return Diag(mu, np.ldexp(q.var, -2 * e))
        return DLR(mu, np.ldexp(q.Ups, 2 * e), np.ldexp(q.W, e[:, None]))


def kl(q: State, p: State) -> float:
    """The Kullback–Leibler divergence D(q | p) = E_q[log q − log p] ≥ 0, for any two families.

    Parameters
    ----------
    q, p : FC, Diag or DLR
        Two states of P parameters each: means of shape (P,).

    Returns
    -------
    float
        A sum that rounding takes below 0 is 0.

    Raises
    ------
    InvalidValue
        If a state is not positive definite, or the two have different numbers of parameters.

    Examples
    --------
    >>> import bongref as br
    >>> br.kl(br.Diag(np.zeros(2), np.ones(2)), br.FC(np.ones(2), np.eye(2)))
    1.0
    """
    q, p = checks.state("q", q), checks.state("p", p)
    if len(q.mu) != len(p.mu):
        raise InvalidValue(
            f"q and p must have the same number of parameters, got {len(q.mu)} and {len(p.mu)}"
        )
    logdets, units = (_logdet(p), -_logdet(q)), _units(p)
    q, p = _in_units(q, units), _in_units(p, units)
    with np.errstate(over="ignore", invalid="ignore"):
        d = q.mu - p.mu
        quad, trace = float(d @ precision_times(p, d)), _trace(q, p)
    if not np.isfinite(quad + trace):
        return float("inf")  # the states are very far apart
    terms = (quad, trace, -float(len(d)), *logdets)
    total = sum(terms) / 2
    rounding = 64 * len(d) * np.finfo(float).eps * sum(map(abs, terms))
    return 0.0 if -rounding <= total < 0 else total


def _trace(q: State, p: State) -> float:
    """Tr(Σ_p⁻¹ Σ_q)."""
    if isinstance(p, FC):
        return float(np.trace(solve(p.Sigma, covariance(q))))
    if isinstance(p, Diag):
        return float(np.sum(marginal_variance(q) / p.var))
    diagonal = float(p.Ups @ marginal_variance(q))
    if isinstance(q, FC):
        return diagonal + float(np.sum(p.W * (q.Sigma @ p.W)))
    if isinstance(q, Diag):
        return diagonal + float(np.sum(q.var[:, None] * p.W**2))
    if not np.all(q.Ups > 0):
        return diagonal + float(np.sum(p.W * covariance_times(q, p.W)))
    return diagonal + _squares(q.Ups, q.W, p.W)


def _squares(Ups: Array, W: Array, X: Array) -> float:
    """Tr(Xᵀ(Υ + W Wᵀ)⁻¹X) for Υ > 0, as a sum of squares.

    With Υ^{-1/2} W = Q Λ Vᵀ and Z = Υ^{-1/2} X: |(I − QQᵀ)Z|² + |(I + Λ²)^{-1/2} QᵀZ|².
    """
    root = np.sqrt(Ups)[:, None]
    Q, Lambda, _ = thin_svd(W / root)
    Z = X / root
    inside = Q.T @ Z
    outside = Z - Q @ inside
    return float(np.sum(outside**2) + np.sum((inside / np.hypot(1, Lambda)[:, None]) ** 2))

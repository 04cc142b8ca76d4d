r"""Mirror descent (sec:MD-formulation): BONG is explicit, exact online VB the implicit update.

    exact = mirror.implicit(lik, prior, x, y).state        # exact online VB
    bong = mirror.bong(lik, prior, x, y)                   # one explicit step from the prior
    blr = mirror.blr(lik, prior, x, y, alpha=1.0, n_iter=5)
    br.kl(bong, exact), br.kl(blr, exact)

**The family.** q_ψ(θ) = exp(ψᵀT(θ) − Φ(ψ)) with ψ = (Σ⁻¹μ, −½Σ⁻¹) and T(θ) = (θ, θθᵀ), or with
diagonals σ⁻² and θ²; a state is :class:`FC` or :class:`Diag`. A parameter is a pair of arrays,
⟨a, b⟩ the sum of the products of all their entries. The mirror map ρ = ∇Φ(ψ) = E[T(θ)] is taken by
autograd of Φ; :mod:`bongref.theory.exponential` has both. The Bregman divergence is a KL divergence
with its arguments exchanged:

    D_Φ(ψ_i, ψ) = Φ(ψ_i) − Φ(ψ) − ⟨ψ_i − ψ, ρ⟩ = KL(q_ψ | q_{ψ_i}).

**Explicit.** Linearise L in ρ at ψ_i. The minimum of ⟨∇_{ρ_i}L, ρ⟩ + D_Φ(ψ_i, ψ)/α is
ψ_i − α∇_{ρ_i}L wherever its precision is positive definite; elsewhere the problem has no minimum.
With L_t = −E_q[log p(y_t|θ)], ψ_i = ψ_{t|t-1} and α = 1 it is BONG.

**Implicit.** Keep L_t as it is. The minimum of L_t(ψ) + D_Φ(ψ_{t|t-1}, ψ), exact online VB,
satisfies ψ_t = ψ_{t|t-1} − ∇_{ρ_t}L_t(ψ_t). Iterating its right-hand side with damping,
ψ ← (1 − α)ψ + α(ψ_{t|t-1} − ∇_ρ L_t(ψ)), is BLR. So BONG is one undamped iteration from the prior,
and the implicit update is a fixed point of all of them.

The model is linear with one output, and all expectations are exact
(:mod:`bongref.theory.expectations`), so nothing here is sampled. docs/mirror.md shows it in use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from autograd import jacobian
from autograd import numpy as anp

from ..curvature import Curv
from ..errors import InvalidValue
from ..families import fc_nat
from ..gaussians import is_valid, kl
from ..likelihoods import Likelihood
from ..linalg import Array, eigvalsh, solve, sym
from ..paper import eq
from ..states import FC
from .arguments import (
    FRACTION,
    LIKELIHOOD,
    NUMBER,
    PAIR_OF_ARRAYS,
    POSITIVE,
    checked,
    integer,
    pair_like,
    state,
)
from .expectations import (
    Gauss,
    data,
    expected,
    expected_derivatives,
    expected_log_prob,
    output,
)
from .exponential import (
    GAUSS,
    Pair,
    bregman,
    dual,
    family,
    inner,
    kl_from_statistics,
    log_density,
    log_partition,
    mirror_map,
    moments,
    natural,
    plus,
)
from .newton import EPS, Minimum, NotConverged, minimise, newton, size

__all__ = [
    "C",
    "NotConverged",
    "Solution",
    "blr",
    "bong",
    "bregman",
    "dual",
    "family",
    "implicit",
    "implicit_scalar",
    "inner",
    "kl_from_statistics",
    "linearised",
    "log_density",
    "log_partition",
    "loss",
    "mirror_map",
    "moments",
    "natural",
    "online_vb",
    "plus",
    "solve_linearised",
    "step",
]
C = 64.0  # an iteration has converged when its residual is c · cond · eps


# --- explicit: the linearised problem -------------------------------------------------------------


@checked(psi=PAIR_OF_ARRAYS, d_rho=pair_like("psi"), alpha=NUMBER)
def step(psi: Pair, d_rho: Pair, alpha: float = 1.0) -> Pair:
    """One step of mirror descent, ψ − α∇_ρ L: the minimum of :func:`linearised`.

    Parameters
    ----------
    psi : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        Natural parameters.
    d_rho : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        ∇_ρ L.
    alpha : float

    Returns
    -------
    pair of ndarray

    Examples
    --------
    >>> psi, d_rho = (np.array([2.0]), np.array([-0.5])), (np.array([1.0]), np.array([0.5]))
    >>> [v.tolist() for v in step(psi, d_rho)]
    [[1.0], [-1.0]]
    """
    psi = plus(psi, d_rho, -alpha)  # eq:MD-iterated, eq:bong-as-linearized-optimization
    return psi


@checked(psi_i=PAIR_OF_ARRAYS, d_rho=pair_like("psi_i"), alpha=POSITIVE)
def linearised(psi_i: Pair, d_rho: Pair, alpha: float = 1.0) -> Callable[[Gauss], Any]:
    """The function q ↦ ⟨∇_{ρ_i} L, ρ⟩ + D_Φ(ψ_i, ψ)/α, which a step of mirror descent minimises.

    Parameters
    ----------
    psi_i : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        Natural parameters.
    d_rho : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        ∇_ρ L at ψ_i.
    alpha : float

    Returns
    -------
    callable
        Of a state; differentiable by autograd.

    Examples
    --------
    >>> from bongref import Diag
    >>> q, zero = Diag(np.zeros(1), np.ones(1)), np.zeros(1)
    >>> float(linearised(natural(q), (zero, zero))(q))
    0.0
    """
    return lambda q: inner(d_rho, dual(q)) + bregman(psi_i, natural(q), dual(q)) / alpha


@eq("eq:MD-opt-problem", "eq:bong-linearized-optimization")
@checked(start=GAUSS, d_rho=PAIR_OF_ARRAYS, alpha=POSITIVE)
def solve_linearised(start: Gauss, d_rho: Pair, alpha: float = 1.0) -> Minimum:
    """Minimise :func:`linearised` about ``start`` numerically, without its closed solution.

    Parameters
    ----------
    start : FC or Diag
    d_rho : pair of ndarray, shapes (P,) and (P, P), or (P,) of Diag
        ∇_ρ L at ``start``.
    alpha : float

    Returns
    -------
    Minimum

    Raises
    ------
    NotConverged
        If there is no minimum: the precision of the closed solution is not positive definite.

    Examples
    --------
    >>> from bongref import Diag
    >>> q = Diag(np.zeros(1), np.ones(1))
    >>> solve_linearised(q, (np.array([-1.0]), np.array([0.5]))).state.mu.round(9).tolist()
    [0.5]
    """
    return minimise(linearised(family(start).natural(start), d_rho, alpha), start)


@checked(lik=LIKELIHOOD, prior=GAUSS)
def bong(lik: Likelihood, prior: Gauss, x: Any, y: Any) -> Gauss:
    """BONG with exact expectations, as mirror descent on L_t: one step from the prior, α = 1.

    Parameters
    ----------
    lik : Bernoulli, Gaussian or Poisson
    prior : FC or Diag
    x : array_like, shape (P,) or (N, P)
    y : array_like, a scalar or shape (N,)

    Returns
    -------
    FC or Diag

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian
    >>> prior = FC(np.zeros(1), np.eye(1))
    >>> bong(Gaussian(var=1.0), prior, [1.0], 1.0).mu.tolist()
    [0.5]
    """
    e = expected(lik, prior, x, y)
    d1, d2 = family(prior).ell_rho(prior, Curv(e.g, G=e.G))
    psi = step(family(prior).natural(prior), (-d1, -d2))
    return cast(Gauss, family(prior).from_natural(*psi))


@checked(lik=LIKELIHOOD, prior=GAUSS, alpha=FRACTION, n_iter=integer(1))
def blr(lik: Likelihood, prior: Gauss, x: Any, y: Any, alpha: float, n_iter: int) -> Gauss:
    """BLR with exact expectations: damped iterations of the implicit update from the prior.

    Parameters
    ----------
    lik, prior, x, y
        As for :func:`bong`.
    alpha : float
        The damping: 1 is none.
    n_iter : int

    Returns
    -------
    FC or Diag

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian
    >>> q = blr(Gaussian(var=1.0), FC(np.zeros(1), np.eye(1)), [1.0], 1.0, alpha=0.5, n_iter=50)
    >>> q.mu.round(9).tolist()
    [0.5]
    """
    q = prior
    for _ in range(n_iter):
        e = expected(lik, q, x, y)
        q = family(prior).blr(prior, q, Curv(e.g, G=e.G), alpha)
    return q


# --- implicit: exact online VB --------------------------------------------------------------------


class Solution(NamedTuple):
    """A solved implicit update.

    Attributes
    ----------
    state : FC or Diag
    residual : float
        The largest entry of ψ − ψ_{t|t-1} + ∇_ρ L_t(ψ), relative to its terms.
    n_iter : int

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian
    >>> implicit(Gaussian(var=1.0), FC(np.zeros(1), np.eye(1)), [1.0], 1.0).residual < 1e-12
    True
    """

    state: Gauss
    residual: float
    n_iter: int


@checked(lik=LIKELIHOOD, prior=GAUSS)
def loss(lik: Likelihood, prior: Gauss, x: Any, y: Any) -> Callable[[Gauss], Any]:
    """The online variational loss q ↦ L_t(ψ) + D_Φ(ψ_{t|t-1}, ψ); differentiable by autograd.

    Parameters
    ----------
    lik, prior, x, y
        As for :func:`bong`.

    Returns
    -------
    callable
        Of a state.

    Examples
    --------
    >>> from bongref.likelihoods import Poisson
    >>> prior = FC(np.zeros(1), np.eye(1))
    >>> round(float(loss(Poisson(), prior, [1.0], 0)(prior)), 6)      # e^½
    1.648721
    """
    (X, Y), psi0 = data(lik, prior, x, y), family(prior).natural(prior)

    def value(q: Gauss) -> Any:
        L = -anp.sum(expected_log_prob(lik, *output(q, X), Y))  # sec:MD-formulation#9
        total = L + bregman(psi0, natural(q), dual(q))  # eq:online-variational-loss
        return total

    return value


@eq("eq:online-VB-as-MD")
@checked(lik=LIKELIHOOD, prior=GAUSS)
def online_vb(lik: Likelihood, prior: Gauss, x: Any, y: Any) -> Minimum:
    """Exact online VB by numerical minimisation of :func:`loss`, without :func:`implicit`.

    Parameters
    ----------
    lik, prior, x, y
        As for :func:`bong`.

    Returns
    -------
    Minimum

    Raises
    ------
    NotConverged

    Examples
    --------
    >>> from bongref.likelihoods import Gaussian
    >>> prior = FC(np.zeros(1), np.eye(1))
    >>> online_vb(Gaussian(var=1.0), prior, [1.0], 1.0).state.mu.round(9).tolist()
    [0.5]
    """
    return minimise(loss(lik, prior, x, y), prior)


@checked(lik=LIKELIHOOD, prior=GAUSS, max_iter=integer(1))
def implicit(lik: Likelihood, prior: Gauss, x: Any, y: Any, *, max_iter: int = 200) -> Solution:
    """Solve ψ_t = ψ_{t|t-1} − ∇_{ρ_t} L_t(ψ_t), of a batch with the sum of its L_t.

    A step is Newton's on the equation where it halves the residual, else a BLR step with the
    largest α = 1, ½, ¼, … that lowers the loss. It ends when the residual is at rounding level,
    c · cond(Σ) · eps and never above √eps.

    Parameters
    ----------
    lik, prior, x, y
        As for :func:`bong`.
    max_iter : int

    Returns
    -------
    Solution

    Raises
    ------
    NotConverged
        With the residual that was reached.

    Examples
    --------
    >>> from bongref.likelihoods import Bernoulli
    >>> prior = FC(np.zeros(2), 4 * np.eye(2))
    >>> solution = implicit(Bernoulli(), prior, [1.0, 2.0], 1)
    >>> solution.residual < 1e-12, solution.state.mu.round(4).tolist()
    (True, [0.6557, 1.3115])
    """
    equation = _Equation(lik, prior, *data(lik, prior, x, y))
    here = equation.at(family(prior).natural(prior))
    for i in range(max_iter):
        if here.residual <= min(C * EPS * _cond(here.q), math.sqrt(EPS)):
            return Solution(here.q, here.residual, i)
        there = equation.newton(here)
        t = 1.0
        while not (there.residual < here.residual / 2 or there.value < here.value):
            there, t = equation.at(plus(here.psi, here.gap, t)), t / 2
            if t < EPS:
                what = f"the implicit update stalled at iteration {i + 1}"
                raise NotConverged(what, here.residual, here.q)
        here = there
    what = f"the implicit update did not converge in {max_iter} iterations"
    raise NotConverged(what, here.residual, here.q)


class _Point(NamedTuple):
    """An iterate: ψ, its state, its loss, the gap to the equation's right side, the residual."""

    psi: Pair
    q: Gauss
    value: float
    gap: Pair
    residual: float


class _Equation(NamedTuple):
    """ψ = ψ_{t|t-1} − ∇_ρ L_t(ψ) for one observation or a batch."""

    lik: Likelihood
    prior: Gauss
    X: Array
    Y: Array

    def right(self, psi: Pair) -> Pair:
        """ψ_{t|t-1} − ∇_ρ L_t(ψ); differentiable by autograd."""
        q, X = moments(psi), self.X
        first, second = expected_derivatives(self.lik, *output(q, X), self.Y)
        g = anp.dot(first, X)
        if isinstance(q, FC):
            curv = Curv(g, G=anp.dot(X.T * second, X))
        else:
            curv = Curv(g, d=anp.dot(second, X**2))
        psi_t = plus(family(q).natural(self.prior), family(q).ell_rho(q, curv))  # eq:bong-implicit
        return psi_t

    def at(self, psi: Pair) -> _Point:
        """The point at ψ; where it is not positive definite, loss and residual are infinite."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            q = family(self.prior).from_natural(*psi)
        if not is_valid(q):
            return _Point(psi, q, math.inf, psi, math.inf)
        right = self.right(psi)
        gap = plus(right, psi, -1)
        ell = float(np.sum(expected_log_prob(self.lik, *output(q, self.X), self.Y)))
        sizes = [size(a, b) for a, b in zip(psi, right, strict=True)]
        sizes[0] = max(sizes[0], sizes[1] * size(q.mu))  # ψ⁽¹⁾ = −2ψ⁽²⁾μ: its terms may cancel
        residual = max(size(a) / b for a, b in zip(gap, sizes, strict=True) if b > 0)
        return _Point(psi, q, kl(q, self.prior) - ell, gap, residual)

    def newton(self, here: _Point) -> _Point:
        """The point after Newton's step for gap(ψ) = 0."""
        P, shape = len(here.psi[0]), here.psi[1].shape

        def pair(u: Any) -> Pair:
            return u[:P], anp.reshape(u[P:], shape)

        def flat(a: Pair) -> Any:
            return anp.concatenate([a[0], anp.ravel(a[1])])

        J = jacobian(lambda u: flat(plus(self.right(pair(u)), pair(u), -1)))(flat(here.psi))
        d1, d2 = pair(solve(J, -flat(here.gap)))
        return self.at(plus(here.psi, (d1, d2 if d2.ndim == 1 else sym(d2))))


def _cond(q: Gauss) -> float:
    lam = eigvalsh(q.Sigma) if isinstance(q, FC) else q.var
    return float(np.max(lam) / np.min(lam)) if np.min(lam) > 0 else math.inf


@checked(lik=LIKELIHOOD, prior=state(FC), max_iter=integer(1))
def implicit_scalar(lik: Likelihood, prior: FC, x: Any, y: Any, *, max_iter: int = 100) -> Solution:
    """The implicit update of one observation, in the form of implicit RVGA, in O(P²).

        μ_t = μ_{t|t-1} + Σ_{t|t-1} g_t,    Σ_t⁻¹ = Σ_{t|t-1}⁻¹ − G_t,

    with g_t and G_t under q_t itself. Both depend on q_t only by the mean m and the variance v = s²
    of o = xᵀθ, which solve the same problem in one dimension: minimise
    −E log p(y|o) + KL(N(m, s²) | N(m₀, v₀)). In (m, s) it is convex for a log-concave likelihood,
    and Newton's method solves it.

    Parameters
    ----------
    lik : Bernoulli, Gaussian or Poisson
    prior : FC
    x : array_like, shape (P,)
    y : scalar
    max_iter : int

    Returns
    -------
    Solution

    Raises
    ------
    InvalidValue
        If there is more than one observation, or the prior is not FC.
    NotConverged

    Examples
    --------
    >>> from bongref.likelihoods import Bernoulli
    >>> prior = FC(np.zeros(2), 4 * np.eye(2))
    >>> implicit_scalar(Bernoulli(), prior, [1.0, 2.0], 1).state.mu.round(4).tolist()
    [0.6557, 1.3115]
    """
    X, Y = data(lik, prior, x, y)
    if len(X) != 1 or not isinstance(prior, FC):
        got = f"{len(X)} and {type(prior).__name__}"
        raise InvalidValue(
            f"x and prior must be one observation and an FC prior, got {got}; use implicit"
        )
    (m0,), (v0,) = output(prior, X)

    def objective(u: Any) -> Any:
        m, s = u[:1], u[1:]
        divergence = ((m - m0) ** 2 + s**2) / (2 * v0) - anp.log(s)
        return anp.sum(divergence - expected_log_prob(lik, m, s**2, Y))

    start = np.array([m0, math.sqrt(v0)])
    u, _, n_iter = newton(objective, start, np.array([1]), lambda u: prior, max_iter)
    (a,), (c,) = expected_derivatives(lik, u[:1], u[1:] ** 2, Y)
    Sx = prior.Sigma @ X[0]
    Sigma = prior.Sigma + np.outer(Sx, Sx) * c / (1 - v0 * c)
    q = FC(prior.mu + Sx * a, Sigma)  # eq:bong-implicit
    return Solution(q, _Equation(lik, prior, X, Y).at(fc_nat.natural(q)).residual, n_iter)

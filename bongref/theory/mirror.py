r"""Mirror descent (sec:MD-formulation): BONG as the explicit form of an update whose implicit form is exact online VB.

**The family.** q_ψ(θ) = exp(ψᵀT(θ) − Φ(ψ)) with ψ = (Σ⁻¹μ, −½Σ⁻¹) and T(θ) = (θ, θθᵀ), or with diagonals σ⁻² and θ²; a state is
:class:`FC` or :class:`Diag`. A parameter is a pair of arrays, ⟨a, b⟩ the sum of the products of all their entries. The mirror map
ρ = ∇Φ(ψ) = E[T(θ)] is taken by autograd of Φ. The Bregman divergence turns the arguments round:

    D_Φ(ψ_i, ψ) = Φ(ψ_i) − Φ(ψ) − ⟨ψ_i − ψ, ρ⟩ = KL(q_ψ | q_{ψ_i}).

**Explicit.** Linearise L in ρ at ψ_i. The minimum of ⟨∇_{ρ_i}L, ρ⟩ + D_Φ(ψ_i, ψ)/α is ψ_i − α∇_{ρ_i}L wherever that is a Gaussian;
where its precision is not positive definite the problem has no minimum. With L_t = −E_q[log p(y_t|θ)], ψ_i = ψ_{t|t-1} and α = 1 it
is BONG.

**Implicit.** Keep L_t as it is. The minimum of L_t(ψ) + D_Φ(ψ_{t|t-1}, ψ), exact online VB, satisfies ψ_t = ψ_{t|t-1} − ∇_{ρ_t}L_t(ψ_t).
Iterating its right-hand side with damping, ψ ← (1 − α)ψ + α(ψ_{t|t-1} − ∇_ρ L_t(ψ)), is BLR. So BONG is one undamped iteration from
the prior, and the implicit update is a fixed point of all of them.

**Exact expectations.** A generalised linear model with one output sees θ only through o = xᵀθ ~ N(xᵀμ, xᵀΣx), so E_q[log p], g and G
are one-dimensional integrals: in closed form for Gaussian and Poisson, for Bernoulli by the trapezoidal rule in z = (o − m)/s. For an
analytic integrand with Gaussian weight that rule converges exponentially: the poles of σ at o = m ± iπ leave an error near exp(−2π²/(h s)),
and a step h = ⅜ min(1, 1/s) puts it below 1e-20. So nothing here is sampled, and every comparison below is at rounding level.

    python -m bongref.theory.mirror --out mirror.png      # how far BONG and BLR are from exact VB and from the posterior, table and figure
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np
from autograd import grad, jacobian
from autograd import numpy as anp

from .. import checks
from ..curvature import Curv
from ..families import diag_nat, fc_nat
from ..gaussians import is_valid, kl
from ..gaussians import log_density as log_normal
from ..likelihoods import Bernoulli, Gaussian, Likelihood, Poisson
from ..linalg import Array, cholesky, solve, strict_solve, sym
from ..paper import eq
from ..states import FC, Diag

EPS = float(np.finfo(float).eps)
C = 64.0  # an iteration has converged when its residual is c · cond · eps
Belief = FC | Diag
Pair = tuple[Array, Array]  # (ψ⁽¹⁾, ψ⁽²⁾), (ρ⁽¹⁾, ρ⁽²⁾) or a gradient with respect to them


class NotConverged(ArithmeticError):
    """An iteration stopped short; ``residual`` says how far from a solution, ``state`` where."""

    def __init__(self, what: str, residual: float, state: Belief):
        super().__init__(f"{what}; residual {residual:.3g}")
        self.what, self.residual, self.state = what, residual, state

    def __reduce__(self):
        return NotConverged, (self.what, self.residual, self.state)


# --- the exponential family ----------------------------------------------------------------------------------------------


def family(q: Belief) -> ModuleType:
    """The module with this state's natural and dual parameters."""
    if not isinstance(q, FC | Diag):
        raise TypeError(f"mirror descent needs an exponential family: an FC or Diag state, got {type(q).__name__}")
    return fc_nat if isinstance(q, FC) else diag_nat


def inner(a: Pair, b: Pair) -> Any:
    """⟨a, b⟩."""
    return anp.sum(a[0] * b[0]) + anp.sum(a[1] * b[1])


def plus(a: Pair, b: Pair, t: float = 1.0) -> Pair:
    """a + t b."""
    return a[0] + t * b[0], a[1] + t * b[1]


def log_partition(psi: Pair) -> Any:
    """Φ(ψ) = −¼ψ⁽¹⁾ᵀψ⁽²⁾⁻¹ψ⁽¹⁾ − ½log|−2ψ⁽²⁾| + (P/2) log 2π; a vector ψ⁽²⁾ is a diagonal."""
    psi1, psi2 = psi
    if anp.ndim(psi2) == 1:
        quadratic, logdet = anp.sum(psi1**2 / psi2), anp.sum(anp.log(-2 * psi2))
    else:
        quadratic, logdet = anp.dot(psi1, anp.linalg.solve(psi2, psi1)), anp.linalg.slogdet(-2 * psi2)[1]
    return -quadratic / 4 - logdet / 2 + len(psi1) * math.log(2 * math.pi) / 2


def log_density(psi: Pair, theta: Array) -> float:
    """log q_ψ(θ) = ⟨ψ, T(θ)⟩ − Φ(ψ)."""
    T = (theta, theta**2 if psi[1].ndim == 1 else np.outer(theta, theta))
    log_q = inner(psi, T) - log_partition(psi)  # sec:MD-formulation#1
    return float(log_q)


def mirror_map(psi: Pair) -> Pair:
    """ρ = ∇Φ(ψ), by autograd; it is E[T(θ)]."""
    rho = grad(log_partition)(psi)  # sec:MD-formulation#2, sec:MD-formulation#3
    return rho[0], rho[1]


def bregman(psi_i: Pair, psi: Pair, rho: Pair | None = None) -> Any:
    """D_Φ(ψ_i, ψ), which is KL(q_ψ | q_{ψ_i}); ``rho``, where it is known already, is that of ψ."""
    rho = mirror_map(psi) if rho is None else rho
    D = log_partition(psi_i) - log_partition(psi) - inner(plus(psi_i, psi, -1), rho)  # sec:MD-formulation#5, eq:KL-bregman
    return D


def kl_from_statistics(q: Belief, p: Belief) -> float:
    """KL(q | p) as E_q[⟨ψ_q − ψ_p, T(θ)⟩ + Φ(ψ_p) − Φ(ψ_q)], with E_q[T(θ)] the dual parameters of the family's section."""
    psi_q, psi_p = family(q).natural(q), family(p).natural(p)
    D = inner(plus(psi_q, psi_p, -1), family(q).dual(q)) + log_partition(psi_p) - log_partition(psi_q)  # sec:MD-formulation#6
    return float(D)


def belief(psi: Pair) -> Belief:
    """(μ, Σ) of ψ; can be differentiated."""
    psi1, psi2 = psi
    if anp.ndim(psi2) == 1:
        return Diag(-psi1 / psi2 / 2, -1 / psi2 / 2)
    return FC(-anp.linalg.solve(psi2, psi1) / 2, -anp.linalg.inv(psi2) / 2)


def _natural(q: Belief) -> Pair:
    """ψ of (μ, Σ); can be differentiated."""
    if isinstance(q, Diag):
        return q.mu / q.var, -1 / q.var / 2
    prec = anp.linalg.inv(q.Sigma)
    return anp.dot(prec, q.mu), -prec / 2


def _dual(q: Belief) -> Pair:
    """ρ of (μ, Σ); can be differentiated."""
    return q.mu, q.mu**2 + q.var if isinstance(q, Diag) else anp.outer(q.mu, q.mu) + q.Sigma


# --- explicit: the linearised problem ----------------------------------------------------------------------------------------


def step(psi: Pair, d_rho: Pair, alpha: float = 1.0) -> Pair:
    """One step of mirror descent, ψ − α∇_ρ L: the minimum of :func:`linearised`."""
    psi = plus(psi, d_rho, -alpha)  # eq:MD-iterated, eq:bong-as-linearized-optimization
    return psi


def linearised(psi_i: Pair, d_rho: Pair, alpha: float = 1.0) -> Callable[[Belief], Any]:
    """q ↦ ⟨∇_{ρ_i} L, ρ⟩ + D_Φ(ψ_i, ψ)/α."""
    return lambda q: inner(d_rho, _dual(q)) + bregman(psi_i, _natural(q), _dual(q)) / alpha


@eq("eq:MD-opt-problem", "eq:bong-linearized-optimization")
def solve_linearised(start: Belief, d_rho: Pair, alpha: float = 1.0) -> Minimum:
    """The linearised problem about ``start`` by numerical minimisation: no use is made of its closed solution."""
    return minimise(linearised(family(start).natural(start), d_rho, alpha), start)


def bong(lik: Likelihood, prior: Belief, x: Any, y: Any) -> Belief:
    """BONG with exact expectations, as mirror descent on L_t: one step from the prior with α = 1 (explicit RVGA)."""
    e = expected(lik, prior, x, y)
    d1, d2 = family(prior).ell_rho(prior, Curv(e.g, G=e.G))
    return family(prior).from_natural(*step(family(prior).natural(prior), (-d1, -d2)))


def blr(lik: Likelihood, prior: Belief, x: Any, y: Any, alpha: float, n_iter: int) -> Belief:
    """BLR with exact expectations: ``n_iter`` damped iterations of the implicit update from the prior."""
    q = prior
    for _ in range(n_iter):
        e = expected(lik, q, x, y)
        q = family(prior).blr(prior, q, Curv(e.g, G=e.G), alpha)
    return q


# --- exact expectations ------------------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    """E_q[log p], and the expected gradient g (P,) and Hessian G (P, P) of log p."""

    ell: float
    g: Array
    G: Array


def nodes(s: float) -> tuple[Array, Array]:
    """(z, w) with Σ w f(m + s z) = E f(o), o ~ N(m, s²), for f made of σ(o): the trapezoidal rule up to |z| = 9.5."""
    h = 0.375 * min(1.0, 1.0 / s)
    z = h * np.arange(-math.ceil(9.5 / h), math.ceil(9.5 / h) + 1)
    return z, h * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def output(q: Belief, X: Array) -> tuple[Any, Any]:
    """Means m and variances v of the outputs o = Xθ, (N,) each."""
    return anp.dot(X, q.mu), anp.sum(anp.dot(X, q.Sigma) * X, axis=1) if isinstance(q, FC) else anp.dot(X**2, q.var)


def expected_log_prob(lik: Likelihood, m: Any, v: Any, y: Array) -> Any:
    """E log p(y_n | o_n) for o_n ~ N(m_n, v_n), (N,); can be differentiated."""
    at_m = lik.log_prob(m[:, None], y)
    if isinstance(lik, Gaussian):
        return at_m - v * lik.info(np.zeros((1, 1)))[0, 0, 0] / 2
    if isinstance(lik, Poisson):
        return at_m + anp.exp(m) - anp.exp(m + v / 2)
    z, w = nodes(_largest_std(v))
    o = m[:, None] + anp.sqrt(v)[:, None] * z
    return anp.dot(lik.log_prob(o[:, :, None], y[:, None]), w)


def expected_derivatives(lik: Likelihood, m: Any, v: Any, y: Array) -> tuple[Any, Any]:
    """E ∂log p/∂o and E ∂²log p/∂o² for o_n ~ N(m_n, v_n), (N,) each."""
    if isinstance(lik, Gaussian):
        return lik.score(m[:, None], y)[:, 0], -lik.info(m[:, None])[:, 0, 0]
    if isinstance(lik, Poisson):
        rate = anp.exp(m + v / 2)
        return y[:, 0] - rate, -rate
    z, w = nodes(_largest_std(v))
    o = (m[:, None] + anp.sqrt(v)[:, None] * z)[:, :, None]
    return anp.dot(lik.score(o, y[:, None])[:, :, 0], w), -anp.dot(lik.info(o)[:, :, 0, 0], w)


def expected(lik: Likelihood, q: Belief, x: Any, y: Any) -> Expected:
    """E_q[log p], g and G of a linear model with one output, o = xᵀθ; of a batch x (N, P), y (N,) their sums."""
    X, Y = _data(lik, q, x, y)
    m, v = output(q, X)
    first, second = expected_derivatives(lik, m, v, Y)
    ell = float(np.sum(expected_log_prob(lik, m, v, Y)))  # sec:MD-formulation#9 — L_t = −ell
    return Expected(ell, X.T @ first, (X.T * second) @ X)


def _data(lik: Likelihood, q: Belief, x: Any, y: Any) -> tuple[Array, Array]:
    """X (N, P) and y (N, 1), checked."""
    family(q)
    if not isinstance(lik, Bernoulli | Gaussian | Poisson):
        raise TypeError(f"exact expectations are for one output: Bernoulli, Gaussian or Poisson, got {type(lik).__name__}")
    X = np.atleast_2d(checks.array("x", x, ndim=(1, 2)))
    if X.shape[1] != len(q.mu):
        raise ValueError(f"x must have {len(q.mu)} entries in its last dimension, got shape {np.shape(x)}")
    return X, lik.encode(np.atleast_1d(y), 1, batch=len(X))


def _largest_std(v: Any) -> float:
    """√max v, as a number also while autograd is tracing v."""
    while hasattr(v, "_value"):
        v = v._value
    return max(float(np.sqrt(np.max(v))), np.finfo(float).tiny)


# --- implicit: exact online VB -----------------------------------------------------------------------------------------------


class Solution(NamedTuple):
    """A solved implicit update: ``residual`` is the largest entry of ψ − ψ_{t|t-1} + ∇_ρ L_t(ψ), relative to its terms."""

    state: Belief
    residual: float
    n_iter: int


def loss(lik: Likelihood, prior: Belief, x: Any, y: Any) -> Callable[[Belief], Any]:
    """q ↦ L_t(ψ) + D_Φ(ψ_{t|t-1}, ψ), the online variational loss; can be differentiated."""
    (X, Y), psi0 = _data(lik, prior, x, y), family(prior).natural(prior)

    def value(q: Belief) -> Any:
        L = -anp.sum(expected_log_prob(lik, *output(q, X), Y))  # sec:MD-formulation#9
        total = L + bregman(psi0, _natural(q), _dual(q))  # eq:online-variational-loss
        return total

    return value


@eq("eq:online-VB-as-MD")
def online_vb(lik: Likelihood, prior: Belief, x: Any, y: Any) -> Minimum:
    """Exact online VB by numerical minimisation of :func:`loss`: no use is made of :func:`implicit`."""
    return minimise(loss(lik, prior, x, y), prior)


def implicit(lik: Likelihood, prior: Belief, x: Any, y: Any, *, max_iter: int = 200) -> Solution:
    """Solve ψ_t = ψ_{t|t-1} − ∇_{ρ_t} L_t(ψ_t), of a batch with the sum of its L_t.

    A step is Newton's on the equation where it halves the residual, else a BLR step with the largest α = 1, ½, ¼, … that lowers the loss.
    It ends when the residual is at rounding level, c · cond(Σ) · eps and never above √eps, and otherwise raises :class:`NotConverged`
    with the residual that it reached.
    """
    equation = _Equation(lik, prior, *_data(lik, prior, x, y))
    here = equation.at(family(prior).natural(prior))
    for i in range(max_iter):
        if here.residual <= min(C * EPS * _cond(here.q), math.sqrt(EPS)):
            return Solution(here.q, here.residual, i)
        there = equation.newton(here)
        t = 1.0
        while not (there.residual < here.residual / 2 or there.value < here.value):
            there, t = equation.at(plus(here.psi, here.gap, t)), t / 2
            if t < EPS:
                raise NotConverged(f"the implicit update stalled at iteration {i + 1}", here.residual, here.q)
        here = there
    raise NotConverged(f"the implicit update did not converge in {max_iter} iterations", here.residual, here.q)


class _Point(NamedTuple):
    """An iterate: ψ, its Gaussian, its loss, the gap to the right-hand side of the equation, and that gap relative to its terms."""

    psi: Pair
    q: Belief
    value: float
    gap: Pair
    residual: float


class _Equation(NamedTuple):
    """ψ = ψ_{t|t-1} − ∇_ρ L_t(ψ) for one observation or a batch."""

    lik: Likelihood
    prior: Belief
    X: Array
    Y: Array

    def right(self, psi: Pair) -> Pair:
        """ψ_{t|t-1} − ∇_ρ L_t(ψ); can be differentiated."""
        q = belief(psi)
        first, second = expected_derivatives(self.lik, *output(q, self.X), self.Y)
        g, X = anp.dot(first, self.X), self.X
        curv = Curv(g, G=anp.dot(X.T * second, X)) if isinstance(q, FC) else Curv(g, d=anp.dot(second, X**2))
        psi_t = plus(family(q).natural(self.prior), family(q).ell_rho(q, curv))  # eq:bong-implicit
        return psi_t

    def at(self, psi: Pair) -> _Point:
        """The point at ψ; where ψ is no Gaussian, its loss and its residual are infinite."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            q = family(self.prior).from_natural(*psi)
        if not is_valid(q):
            return _Point(psi, q, math.inf, psi, math.inf)
        right = self.right(psi)
        gap = plus(right, psi, -1)
        ell = float(np.sum(expected_log_prob(self.lik, *output(q, self.X), self.Y)))
        size = [_size(a, b) for a, b in zip(psi, right, strict=True)]
        size[0] = max(size[0], size[1] * _size(q.mu))  # ψ⁽¹⁾ = −2ψ⁽²⁾μ is made of terms that may cancel
        return _Point(psi, q, kl(q, self.prior) - ell, gap, max(_size(a) / b for a, b in zip(gap, size, strict=True) if b > 0))

    def newton(self, here: _Point) -> _Point:
        """The point after Newton's step for gap(ψ) = 0."""
        P, shape = len(here.psi[0]), here.psi[1].shape
        pair = lambda u: (u[:P], anp.reshape(u[P:], shape))
        flat = lambda a: anp.concatenate([a[0], anp.ravel(a[1])])
        J = jacobian(lambda u: flat(plus(self.right(pair(u)), pair(u), -1)))(flat(here.psi))
        d1, d2 = pair(solve(J, -flat(here.gap)))
        return self.at(plus(here.psi, (d1, d2 if d2.ndim == 1 else sym(d2))))


def _size(*arrays: Array) -> float:
    return max(float(np.max(np.abs(a))) for a in arrays)


def _cond(q: Belief) -> float:
    lam = np.linalg.eigvalsh(q.Sigma) if isinstance(q, FC) else q.var
    return float(np.max(lam) / np.min(lam)) if np.min(lam) > 0 else math.inf


def implicit_scalar(lik: Likelihood, prior: FC, x: Any, y: Any, *, max_iter: int = 100) -> Solution:
    """The implicit update of one observation, in the form of implicit RVGA, in O(P²):

        μ_t = μ_{t|t-1} + Σ_{t|t-1} g_t,    Σ_t⁻¹ = Σ_{t|t-1}⁻¹ − G_t,    with g_t and G_t under q_t itself.

    Both depend on q_t only by the mean m and the variance v = s² of o = xᵀθ, which solve the same problem in one dimension: minimise
    −E log p(y|o) + KL(N(m, s²) | N(m₀, v₀)). In (m, s) it is convex for a log-concave likelihood, and Newton's method solves it.
    """
    X, Y = _data(lik, prior, x, y)
    if len(X) != 1 or not isinstance(prior, FC):
        raise ValueError(f"the one-dimensional form is for one observation and an FC prior, got {len(X)} and {type(prior).__name__}")
    (m0,), (v0,) = output(prior, X)

    def objective(u):
        m, s = u[:1], u[1:]
        return anp.sum(((m - m0) ** 2 + s**2) / (2 * v0) - anp.log(s) - expected_log_prob(lik, m, s**2, Y))

    u, _, n_iter = _newton(objective, np.array([m0, math.sqrt(v0)]), np.array([1]), lambda u: prior, max_iter)
    (a,), (c,) = expected_derivatives(lik, u[:1], u[1:] ** 2, Y)
    Sx = prior.Sigma @ X[0]
    q = FC(prior.mu + Sx * a, prior.Sigma + np.outer(Sx, Sx) * c / (1 - v0 * c))  # eq:bong-implicit
    return Solution(q, _Equation(lik, prior, X, Y).at(fc_nat.natural(q)).residual, n_iter)


# --- numerical minimisation --------------------------------------------------------------------------------------------------


class Minimum(NamedTuple):
    """A minimum over Gaussians: the state, the value there, and Newton's decrement λ² (twice the expected decrease) at the last step."""

    state: Belief
    value: float
    decrement: float
    n_iter: int


def minimise(objective: Callable[[Belief], Any], start: Belief, *, max_iter: int = 100) -> Minimum:
    """Minimise over all Gaussians of the family by Newton's method in (μ, L), Σ = L Lᵀ, derivatives by autograd.

    The linearised problem, where it has a minimum, and the variational loss of a log-concave likelihood are convex in these coordinates.
    """
    P = len(start.mu)
    rows, columns = np.tril_indices(P) if isinstance(start, FC) else (np.arange(P), np.arange(P))
    E = np.zeros((len(rows), P, P))
    E[np.arange(len(rows)), rows, columns] = 1

    def state(u):
        if isinstance(start, Diag):
            return Diag(u[:P], u[P:] ** 2)
        L = anp.tensordot(u[P:], E, 1)
        return FC(u[:P], anp.dot(L, L.T))

    root = cholesky(start.Sigma) if isinstance(start, FC) else np.diag(np.sqrt(start.var))
    u0, scales = np.concatenate([start.mu, root[rows, columns]]), P + np.flatnonzero(rows == columns)
    u, decrement, n_iter = _newton(lambda u: objective(state(u)), u0, scales, state, max_iter)
    return Minimum(state(u), float(objective(state(u))), decrement, n_iter)


def _newton(f, u: Array, scales: Array, back, max_iter: int) -> tuple[Array, float, int]:
    """(u, λ², iterations) by Newton's method with a line search on which the entries ``scales`` stay above a tenth of what they were.

    It ends with the step whose decrement λ² is below eps: the error that the step leaves is of the order of λ².
    """
    gradient, hessian, decrement = grad(f), jacobian(grad(f)), math.inf
    for i in range(1, max_iter + 1):
        g, H = gradient(u), hessian(u)
        try:
            cholesky(H)
        except np.linalg.LinAlgError:
            what = f"the Hessian is not positive definite at iteration {i}: no minimum, or one too ill-conditioned for Newton's method"
            raise NotConverged(what, _size(g), back(u)) from None
        d = -strict_solve(H, g)
        decrement = float(-g @ d)
        if decrement <= EPS:
            return u + d, decrement, i
        t = 1.0
        while np.any((u + t * d)[scales] < u[scales] / 10) or (decrement > 1e-8 and f(u + t * d) > f(u) - 1e-4 * t * decrement):
            t /= 2
            if t < EPS:
                raise NotConverged("Newton's line search stalled", decrement, back(u))
        u = u + t * d
    raise NotConverged(f"Newton's method did not converge in {max_iter} iterations", decrement, back(u))


# --- how far -------------------------------------------------------------------------------------------------------------------


class Posterior(NamedTuple):
    """The true posterior of two parameters: log p(y|X), mean, covariance, and log p(θ|y) on the grid that they were summed over."""

    log_evidence: float
    mean: Array  # (2,)
    cov: Array  # (2, 2)
    theta: Array  # (K, K, 2)
    log_p: Array  # (K, K)


def posterior(lik: Likelihood, prior: FC, x: Any, y: Any, *, fine: float = 0.25, width: float = 10.0) -> Posterior:
    """The posterior of two parameters by the trapezoidal rule on θ = μ + A z, with N(μ, A Aᵀ) the VB optimum of all data.

    The grid goes out to ``width`` standard deviations of the prior, in steps of ``fine`` standard deviations of the VB optimum, or smaller
    where the outputs vary by more than 1 (see :func:`nodes`).
    """
    if not isinstance(prior, FC) or len(prior.mu) != 2:
        raise ValueError(f"the grid is for an FC prior of 2 parameters, got {type(prior).__name__} of {len(prior.mu)}")
    (X, Y), q = _data(lik, prior, x, y), cast(FC, implicit(lik, prior, x, y).state)
    mu, A = q.mu, cholesky(q.Sigma)
    h = fine / max(1.0, _largest_std(output(q, X)[1]))
    reach = float(np.linalg.norm(strict_solve(A, cholesky(prior.Sigma)), 2))
    k = math.ceil(width * max(1.0, reach) / h)
    z = h * np.stack(np.meshgrid(*[np.arange(-k, k + 1)] * 2, indexing="ij"), axis=-1)
    theta = mu + z @ A.T
    log_joint = log_normal(prior, theta.reshape(-1, 2)).reshape(z.shape[:2])
    for n in range(len(X)):
        log_joint = log_joint + lik.log_prob((theta @ X[n])[:, :, None], Y[n])
    w = np.exp(log_joint - np.max(log_joint))
    log_evidence = float(np.max(log_joint) + np.log(np.sum(w) * h**2 * A[0, 0] * A[1, 1]))
    mean = np.array([np.sum(w * theta[..., i]) for i in (0, 1)]) / np.sum(w)
    d = theta - mean
    cov = np.array([[np.sum(w * d[..., i] * d[..., j]) for j in (0, 1)] for i in (0, 1)]) / np.sum(w)
    return Posterior(log_evidence, mean, cov, theta, log_joint - log_evidence)


def kl_to_posterior(lik: Likelihood, prior: FC, x: Any, y: Any, q: Belief, log_evidence: float) -> float:
    """KL(q | p(θ|y)): the variational loss of q for all data, plus log p(y|X)."""
    return kl(q, prior) - expected(lik, q, x, y).ell + log_evidence


class Row(NamedTuple):
    """A method after t observations: its distance from exact online VB and from the true posterior."""

    t: int
    method: str
    state: FC
    kl_vb: float  # KL(q | exact online VB)
    kl_posterior: float  # KL(q | true posterior)
    mean: float  # distance of the means, in standard deviations of the posterior
    cov: float  # largest |λ − 1| over the eigenvalues λ of Σ_posterior⁻¹ Σ
    alpha: float | None = None
    n_iter: int | None = None


class Comparison(NamedTuple):
    """The rows of :func:`comparison`, the stream they are about, and the true posterior at each checkpoint."""

    rows: list[Row]
    X: Array  # (T, 2)
    y: Array  # (T,)
    prior: FC
    posteriors: dict[int, Posterior]


def comparison(
    T: Sequence[int] = (1, 5, 20),
    seed: int = 2,
    *,
    var: float = 4.0,
    alphas: Sequence[float] = (0.25, 0.5, 1.0),
    iterations: Sequence[int] = (1, 2, 5, 10, 20, 50),
) -> Comparison:
    """Logistic regression on two inputs, all expectations exact, every method on its own stream; rows after each number of steps in T.

    Inputs are standard normal, y ~ Bernoulli(σ(2x₁ − x₂)), the prior is N(0, var·I). "exact VB" solves each step's variational problem
    in its one-dimensional form, "implicit" by its own equation; "VB, all data" is the VB optimum without a stream.
    """
    rng, lik, prior = np.random.default_rng(seed), Bernoulli(), FC(np.zeros(2), var * np.eye(2))
    X = rng.standard_normal((max(T), 2))
    y = lik.sample((X @ [2.0, -1.0])[:, None], rng)[:, 0]
    runs: list[tuple[str, float | None, int | None, Callable[..., Any]]] = [
        ("exact VB", None, None, lambda q, x, y: implicit_scalar(lik, q, x, y).state),
        ("implicit", None, None, lambda q, x, y: implicit(lik, q, x, y).state),
        ("bong", None, None, lambda q, x, y: bong(lik, q, x, y)),
    ]
    for alpha in alphas:
        runs += [("blr", alpha, I, lambda q, x, y, a=alpha, I=I: blr(lik, q, x, y, a, I)) for I in iterations]
    streams = [_stream(update, prior, X, y) for *_, update in runs]
    rows, posteriors = [], {t: posterior(lik, prior, X[:t], y[:t]) for t in T}
    for t, p in posteriors.items():
        beliefs = [(name, a, I, stream[t]) for (name, a, I, _), stream in zip(runs, streams, strict=True)]
        beliefs.append(("VB, all data", None, None, cast(FC, implicit(lik, prior, X[:t], y[:t]).state)))
        for name, a, I, q in beliefs:
            far = kl(q, streams[0][t]), kl_to_posterior(lik, prior, X[:t], y[:t], q, p.log_evidence)
            rows.append(Row(t, name, q, *far, *_moment_errors(q, p), a, I))
    return Comparison(rows, X, y, prior, posteriors)


def _stream(update: Callable[..., FC], q: FC, X: Array, y: Array) -> list[FC]:
    """The beliefs after 0, 1, … observations."""
    out = [q]
    for x, label in zip(X, y, strict=True):
        out.append(update(out[-1], x, label))
    return out


def _moment_errors(q: FC, p: Posterior) -> tuple[float, float]:
    L = cholesky(p.cov)
    white = strict_solve(L, strict_solve(L, q.Sigma).T)
    return float(np.linalg.norm(strict_solve(L, q.mu - p.mean))), float(np.max(np.abs(np.linalg.eigvalsh(sym(white)) - 1)))


def table(c: Comparison) -> str:
    """The rows as text. Divergences are in nats; below 1e-12 they are rounding."""
    number = lambda a: "0" if abs(a) < 1e-12 else f"{a:.2g}" if a < 1e-3 else f"{a:.4f}"
    lines = [
        f"{'t':>3}  {'method':<12}  {'alpha':>5}  {'I':>3}  {'KL to exact VB':>14}  {'KL to posterior':>15}  {'mean, sd':>8}  {'cov':>8}"
    ]
    for r in c.rows:
        alpha, n_iter = "" if r.alpha is None else f"{r.alpha:g}", "" if r.n_iter is None else str(r.n_iter)
        far = f"{number(r.kl_vb):>14}  {number(r.kl_posterior):>15}  {number(r.mean):>8}  {number(r.cov):>8}"
        lines.append(f"{r.t:>3}  {r.method:<12}  {alpha:>5}  {n_iter:>3}  {far}")
    return "\n".join(lines)


def figure(c: Comparison, path: Any) -> None:
    """The true posterior at each checkpoint with the 90 % ellipses of the methods, and KL to exact VB against I, as a PNG (or PDF, SVG)."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the figure needs matplotlib: pip install matplotlib") from error
    n = len(c.posteriors) + 1
    fig = Figure(figsize=(9.0, 4.1 * ((n + 1) // 2)), layout="constrained")
    FigureCanvasAgg(fig)
    axes = fig.subplots((n + 1) // 2, 2, squeeze=False).ravel()
    for ax, t in zip(axes, c.posteriors, strict=False):
        _contours(ax, c, t)
    _divergences(axes[n - 1], c, max(c.posteriors))
    fig.legend(*axes[0].get_legend_handles_labels(), fontsize=9, loc="outside upper center", ncols=4, frameon=False)
    for ax in axes[n:]:
        ax.remove()
    fig.savefig(path, dpi=96)


LEVELS = (0.5, 0.9, 0.99)
COLOURS = {"bong": "#d1495b", "exact VB": "#00798c", "VB, all data": "#222222"}
LABELS = {"bong": "BONG", "exact VB": "exact online VB = implicit", "VB, all data": "VB on all data at once"}


def _contours(ax: Any, c: Comparison, t: int) -> None:
    """Highest-density regions of the posterior with 50, 90 and 99 % of its mass, and the 90 % ellipses."""
    p = c.posteriors[t]
    order = np.sort(p.log_p.ravel())[::-1]
    mass = np.cumsum(np.exp(order)) / np.sum(np.exp(order))
    cuts = [order[np.searchsorted(mass, level)] for level in LEVELS][::-1]
    ax.contourf(p.theta[..., 0], p.theta[..., 1], p.log_p, [*cuts, order[0] + 1], colors=["#e8eef2", "#c6d5df", "#9db8c9"])
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = math.sqrt(-2 * math.log(0.1)) * np.stack([np.cos(angle), np.sin(angle)])
    points = [p.theta[p.log_p >= cuts[0]]]
    for name, style in {"VB, all data": ":", "exact VB": "-", "bong": "--"}.items():
        (q,) = [r.state for r in c.rows if r.t == t and r.method == name]
        ring = q.mu[:, None] + cholesky(q.Sigma) @ circle
        ax.plot(*ring, style, color=COLOURS[name], lw=1.8, label=LABELS[name])
        ax.plot(*q.mu, "o", ms=3.5, color=COLOURS[name])
        points.append(ring.T)
    ax.plot(*p.mean, "x", color="black", ms=6, label="posterior mean")
    low, high = np.min(np.concatenate(points), axis=0), np.max(np.concatenate(points), axis=0)
    margin = 0.03 * (high - low)
    ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1]))
    ax.set_title(f"{t} observation{'s' if t > 1 else ''}: posterior (50, 90, 99 %), ellipses of 90 %", fontsize=9.5)
    ax.set_xlabel("θ₁")
    ax.set_ylabel("θ₂")


def _divergences(ax: Any, c: Comparison, t: int) -> None:
    """KL(q | exact online VB) of BLR against I, one line for each α, with BONG as a level; rounding is cut off at 1e-16."""
    rows = [r for r in c.rows if r.t == t]
    alphas = sorted({r.alpha for r in rows if r.alpha is not None})
    for alpha, colour in zip(alphas, ["#8d96a3", "#edae49", "#6a4c93", "#2e4057"] * len(alphas), strict=False):
        points = [(r.n_iter, max(r.kl_vb, 1e-16)) for r in rows if r.alpha == alpha]
        ax.loglog(*zip(*points, strict=True), "o-", ms=4, color=colour, label=f"BLR, α = {alpha:g}")
    (level,) = [r.kl_vb for r in rows if r.method == "bong"]
    ax.axhline(level, color=COLOURS["bong"], ls="--", lw=1.8, label="BONG")
    ax.set_title(f"{t} observation{'s' if t > 1 else ''}: KL(q | exact online VB) of the streams", fontsize=9.5)
    ticks = sorted({r.n_iter for r in rows if r.n_iter is not None})
    ax.set_xticks(ticks, labels=[str(i) for i in ticks])
    ax.minorticks_off()
    ax.grid(color="#e6e6e6")
    ax.set_xlabel("BLR iterations for each observation, I")
    ax.set_ylabel("nats")
    ax.legend(fontsize=8, loc="lower left")


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m bongref.theory.mirror``: print the table and, with --out, write the figure."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m bongref.theory.mirror", description="how far BONG and BLR are from exact online VB")
    parser.add_argument("--out", help="write the figure here")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--var", type=float, default=4.0, help="prior variance of each parameter")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 5, 20], help="numbers of observations to stop at")
    args = parser.parse_args(argv)
    c = comparison(args.steps, args.seed, var=args.var)
    print(table(c))
    if args.out:
        figure(c, args.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Mirror descent by two routes each: the Bregman divergence, the linearised problem, the implicit
update, exact VB, the true posterior.
"""

import pickle
import sys

import numpy as np
import pytest
from autograd import grad, jacobian
from autograd import numpy as anp
from hypothesis import given
from problems import belief, sizes

import bongref as br
from bongref import gaussians
from bongref.curvature import Curv
from bongref.families import diag_nat, fc_nat
from bongref.likelihoods import Bernoulli, Categorical, Gaussian, Poisson
from bongref.routes import compare, definition
from bongref.states import FC, Diag
from bongref.theory import expectations, mirror, posteriors
from docs import make_mirror

MODULES = {"fc": fc_nat, "diag": diag_nat}
FAMILIES = pytest.mark.parametrize("family", ["fc", "diag"])
LIKELIHOODS = {
    "bernoulli": (Bernoulli(), 1),
    "poisson": (Poisson(), 3),
    "gaussian": (Gaussian(var=0.5), 1.2),
}
EVERY = pytest.mark.parametrize("name", LIKELIHOODS)
MODERATE = dict(max_P=5, max_log_cond=3.0)


def same(got, wanted, cond=1.0, what="", size=0.0):
    for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
        diff = compare.difference(f"{what}[{k}]", a, b, cond, size=size)
        assert diff.agrees, str(diff)


def cond_of(*states):
    return max(compare.matrix_condition(q) for q in states)


def pair(family, size):
    rng = np.random.default_rng(size.seed)
    return [belief(family, rng, size.P, log_cond=size.log_cond) for _ in range(2)]


def problem(family, name, seed, P=2):
    """(likelihood, prior, x, y): an observation that the prior did not expect."""
    rng, (lik, y) = np.random.default_rng(seed), LIKELIHOODS[name]
    prior = belief(family, rng, P, log_cond=1.0)
    return lik, prior, rng.standard_normal(P) / np.sqrt(P), y


def curv_of(e, q):
    return Curv(e.g, G=e.G) if isinstance(q, FC) else Curv(e.g, d=np.diag(e.G).copy())


# --- the exponential family -----------------------------------------------------------------------


@pytest.mark.eq("sec:MD-formulation#1")
@FAMILIES
@given(size=sizes(**MODERATE))
def test_the_density_of_the_family(family, size):
    q, other = pair(family, size)
    psi = MODULES[family].natural(q)
    terms = abs(float(mirror.log_partition(psi))) + abs(br.log_density(q, other.mu))
    same(
        [mirror.log_density(psi, other.mu)],
        [br.log_density(q, other.mu)],
        cond_of(q),
        "log q",
        terms,
    )


@pytest.mark.eq("sec:MD-formulation#2", "sec:MD-formulation#3")
@FAMILIES
@given(size=sizes(**MODERATE))
def test_the_mirror_map_gives_the_dual_parameters(family, size):
    q, _ = pair(family, size)
    rho = MODULES[family].dual(q)
    for k in (0, 1):
        scale = float(np.max(np.abs(rho[k])))
        same(
            [mirror.mirror_map(MODULES[family].natural(q))[k]],
            [rho[k]],
            cond_of(q) ** 2,
            f"rho{k + 1}",
            scale,
        )


@pytest.mark.eq("sec:MD-formulation#2")
def test_the_mirror_map_gives_the_expected_statistics():
    q = FC(np.array([0.5, -1.0]), np.array([[2.0, 0.3], [0.3, 0.5]]))
    z, w = expectations.nodes(1.0)
    theta = (
        q.mu + np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1) @ np.linalg.cholesky(q.Sigma).T
    )
    weight = np.outer(w, w)
    T = np.einsum("ij,ijk->k", weight, theta), np.einsum("ij,ijk,ijl->kl", weight, theta, theta)
    same(mirror.mirror_map(fc_nat.natural(q)), T, cond_of(q), "E[T]")


@pytest.mark.eq("sec:MD-formulation#5", "sec:MD-formulation#6", "eq:KL-bregman")
@FAMILIES
@given(size=sizes(**MODERATE))
def test_the_bregman_divergence_is_the_kl_of_the_second_argument_from_the_first(family, size):
    q, prior = pair(family, size)
    psi, psi0 = MODULES[family].natural(q), MODULES[family].natural(prior)
    terms = sum(
        abs(float(mirror.log_partition(a))) + abs(float(mirror.inner(a, MODULES[family].dual(q))))
        for a in (psi, psi0)
    )
    wanted, cond = gaussians.kl(q, prior), cond_of(q, prior) ** 2
    same([mirror.bregman(psi0, psi)], [wanted], cond, "D(psi_prior, psi)", terms)
    same(
        [mirror.bregman(psi0, psi, MODULES[family].dual(q))],
        [wanted],
        cond,
        "D with rho given",
        terms,
    )
    same([mirror.kl_from_statistics(q, prior)], [wanted], cond, "from statistics", terms)


@pytest.mark.eq("eq:KL-bregman")
def test_the_other_order_is_another_divergence():
    """D_Φ(ψ₀, ψ) for N(0, 1) and N(0, 4): KL(N(0, 4) | N(0, 1)) = ½(4 − 1 − log 4), not ½(¼ − 1 +
    log 4).
    """
    narrow, wide = (
        fc_nat.natural(FC(np.zeros(1), np.eye(1))),
        fc_nat.natural(FC(np.zeros(1), 4 * np.eye(1))),
    )
    same([mirror.bregman(narrow, wide)], [(3 - np.log(4)) / 2], what="reverse")
    same([mirror.bregman(wide, narrow)], [(np.log(4) - 0.75) / 2], what="forward")


@FAMILIES
@given(size=sizes(**MODERATE))
def test_natural_parameters_and_back(family, size):
    q, _ = pair(family, size)
    psi = MODULES[family].natural(q)
    same(mirror.moments(psi), q, cond_of(q) ** 2, "belief")
    same(mirror.natural(q), psi, cond_of(q) ** 2, "natural")
    same(mirror.dual(q), MODULES[family].dual(q), cond_of(q), "dual")


# --- explicit -------------------------------------------------------------------------------------


@pytest.mark.eq("eq:MD-opt-problem", "eq:MD-iterated")
@pytest.mark.parametrize("alpha, seed", [(1.0, 0), (0.3, 1), (2.5, 2)])
@FAMILIES
def test_the_linearised_problem_is_solved_by_the_mirror_step(family, alpha, seed):
    """For a gradient that is no likelihood's: a vector and a positive definite matrix, so that the
    minimum exists.
    """
    rng = np.random.default_rng(seed)
    start = belief(family, rng, 3, log_cond=1.0)
    B = rng.standard_normal((3, 3))
    d_rho = rng.standard_normal(3), (B @ B.T if family == "fc" else rng.uniform(0.1, 2, 3))
    closed = MODULES[family].from_natural(
        *mirror.step(MODULES[family].natural(start), d_rho, alpha)
    )
    found = mirror.solve_linearised(start, d_rho, alpha)
    same(found.state, closed, cond_of(start, closed) ** 2, "argmin")


@pytest.mark.eq(
    "eq:bong-linearized-optimization", "eq:bong-as-linearized-optimization", "eq:bong-MD"
)
@EVERY
@FAMILIES
def test_the_linearised_problem_of_an_observation_is_solved_by_bong(family, name):
    """Four routes: the numerical minimum, the mirror step, the family's bong, and the rule by
    autograd and the Fisher.
    """
    lik, prior, x, y = problem(family, name, seed=3)
    curv = curv_of(expectations.expected(lik, prior, x, y), prior)
    d1, d2 = MODULES[family].ell_rho(prior, curv)
    got, cond = (
        mirror.bong(lik, prior, x, y),
        compare.condition(MODULES[family].bong, prior, None, curv),
    )
    m = br.method(f"bong-mc-hess-{family}")
    for wanted in (MODULES[family].bong(prior, None, curv), definition.step(m, prior, None, curv)):
        for diff in compare.differences(got, wanted, cond):
            assert diff.agrees, str(diff)
    found = mirror.solve_linearised(prior, (-d1, -d2))
    same(found.state, got, cond_of(prior, got) ** 2, "argmin")


@pytest.mark.eq("eq:MD-opt-problem", "eq:MD-iterated")
def test_without_a_gaussian_at_the_end_of_the_step_there_is_no_minimum():
    start = FC(np.zeros(2), np.eye(2))
    d_rho = np.zeros(2), np.diag([0.2, -0.6])  # the precision becomes diag(1.4, −0.2)
    closed = fc_nat.from_natural(*mirror.step(fc_nat.natural(start), d_rho))
    assert not gaussians.is_valid(closed)
    objective = mirror.linearised(fc_nat.natural(start), d_rho)
    values = [float(objective(FC(np.zeros(2), np.diag([1.0, v])))) for v in (1e1, 1e2, 1e3)]
    assert values[0] > values[1] > values[2] and values[2] < -90
    with pytest.raises(mirror.NotConverged, match="no minimum"):
        mirror.solve_linearised(start, d_rho)


# --- expectations ---------------------------------------------------------------------------------


@pytest.mark.eq("sec:MD-formulation#9")
@pytest.mark.parametrize(
    "m, s, y",
    [(0.0, 0.01, 1), (0.7, 1.0, 0), (-3.0, 2.0, 1), (2.0, 8.0, 0), (-5.0, 30.0, 1), (40.0, 1.0, 0)],
)
def test_bernoulli_expectations_against_high_precision(m, s, y):
    mp = pytest.importorskip("mpmath", reason="high-precision integrals need mpmath").mp
    lik = Bernoulli()
    got = [
        a[0]
        for a in (
            expectations.expected_log_prob(lik, *pair_of(m, s), np.array([[y]])),
            *derivatives(lik, m, s, y),
        )
    ]
    with mp.workdps(30):
        sigma = lambda o: 1 / (1 + mp.exp(-o))
        inside = [
            lambda o: y * o - mp.log(1 + mp.exp(o)),
            lambda o: y - sigma(o),
            lambda o: -sigma(o) * sigma(-o),
        ]
        points = sorted({-12, -mp.mpf(m) / s, *range(-12, 13, 2)})
        points = [p for p in points if abs(p) <= 12]
        wanted = [float(mp.quad(lambda z, f=f: f(m + s * z) * mp.npdf(z), points)) for f in inside]
    same(got, wanted, 1 + abs(m), "E log p, E', E''")


def pair_of(m, s):
    return np.array([m]), np.array([s**2])


def derivatives(lik, m, s, y):
    return expectations.expected_derivatives(lik, *pair_of(m, s), np.array([[y]]))


@pytest.mark.eq("sec:MD-formulation#9")
def test_bernoulli_expectations_against_gauss_hermite():
    t, w = np.polynomial.hermite_e.hermegauss(120)
    lik, m, s = Bernoulli(), 0.4, 0.8
    o = (m + s * t)[:, None]
    wanted = [
        w @ a / np.sqrt(2 * np.pi)
        for a in (lik.log_prob(o, 1.0), lik.score(o, 1.0)[:, 0], -lik.info(o)[:, 0, 0])
    ]
    got = [
        a[0]
        for a in (
            expectations.expected_log_prob(lik, *pair_of(m, s), np.array([[1.0]])),
            *derivatives(lik, m, s, 1.0),
        )
    ]
    same(got, wanted, what="Gauss-Hermite")


@pytest.mark.eq("sec:MD-formulation#9")
@pytest.mark.parametrize("name", ["poisson", "gaussian"])
def test_closed_forms_against_the_trapezoidal_rule(name):
    (lik, y), m, s = LIKELIHOODS[name], 0.4, 0.9
    z, w = expectations.nodes(4.0)
    o = (m + s * z)[:, None]
    wanted = [w @ a for a in (lik.log_prob(o, y), lik.score(o, y)[:, 0], -lik.info(o)[:, 0, 0])]
    got = [
        a[0]
        for a in (
            expectations.expected_log_prob(lik, *pair_of(m, s), np.array([[y]])),
            *derivatives(lik, m, s, y),
        )
    ]
    same(got, wanted, what=name, cond=4)


@pytest.mark.eq("sec:MD-formulation#9")
@EVERY
def test_expected_gradient_and_hessian_are_gradients_of_the_expectation(name):
    """g = ∇_μ E[log p] and G = 2∇_Σ E[log p]; a batch adds up."""
    lik, q, x, y = problem("fc", name, seed=4, P=3)
    X, Y = np.stack([x, -x[::-1]]), np.array([y, 1])
    f = lambda mu, Sigma: anp.sum(
        expectations.expected_log_prob(lik, *expectations.output(FC(mu, Sigma), X), Y[:, None])
    )
    e, one, two = (
        expectations.expected(lik, q, X, Y),
        expectations.expected(lik, q, X[0], Y[0]),
        expectations.expected(lik, q, X[1], Y[1]),
    )
    cond = 1 + max(float(np.max(np.abs(a))) for a in expectations.output(q, X))
    same(
        [e.ell, e.g, e.G],
        [one.ell + two.ell, one.g + two.g, one.G + two.G],
        what="batch",
        size=np.max(np.abs(one.G)),
    )
    same([e.g, e.G], [grad(f, 0)(*q), grad(f, 1)(*q) + grad(f, 1)(*q).T], cond, "Bonnet, Price")
    diag = Diag(q.mu, np.diag(q.Sigma).copy())
    same(
        expectations.expected(lik, diag, X, Y),
        expectations.expected(lik, FC(diag.mu, np.diag(diag.var)), X, Y),
        cond,
        "diagonal",
    )


# --- implicit -------------------------------------------------------------------------------------


@pytest.mark.eq("eq:bong-implicit", "eq:online-VB-as-MD", "eq:online-variational-loss")
@EVERY
@FAMILIES
def test_the_implicit_update_is_exact_online_vb(family, name):
    """It satisfies its equation; the gradient of the loss in ψ vanishes there; Newton on the loss
    goes to the same place.
    """
    lik, prior, x, y = problem(family, name, seed=5)
    solution = mirror.implicit(lik, prior, x, y)
    q, cond = solution.state, cond_of(prior, solution.state)
    assert solution.residual <= compare.C * cond * compare.EPS
    d1, d2 = MODULES[family].ell_rho(q, curv_of(expectations.expected(lik, q, x, y), q))
    same(
        MODULES[family].natural(q),
        mirror.step(MODULES[family].natural(prior), (-d1, -d2)),
        cond,
        "psi",
    )
    loss, psi = mirror.loss(lik, prior, x, y), MODULES[family].natural(q)
    slope = grad(lambda psi: loss(mirror.moments(psi)))(psi)
    parts = grad(
        lambda psi: expectations.expected_log_prob(
            lik, *expectations.output(mirror.moments(psi), x[None]), np.array([[y]])
        )[0]
    )(psi)
    size = max(float(np.max(np.abs(a))) for a in parts)
    same(slope, [np.zeros_like(a) for a in slope], cond**2, "gradient of the loss", size)
    same(mirror.online_vb(lik, prior, x, y).state, q, cond**2, "online VB")


@pytest.mark.eq("eq:online-VB-as-MD")
@EVERY
@FAMILIES
def test_the_implicit_update_is_a_minimum(family, name):
    lik, prior, x, y = problem(family, name, seed=6)
    q, loss = mirror.implicit(lik, prior, x, y).state, mirror.loss(lik, prior, x, y)
    rng, least = np.random.default_rng(0), float(loss(q))
    for _ in range(20):
        psi1, psi2 = MODULES[family].natural(q)
        moved = psi1 + 2.0**-8 * rng.standard_normal(2), compare.perturb(psi2, rng, delta=2.0**-8)
        assert float(loss(mirror.moments(moved))) > least


def test_the_loss_at_the_prior_is_the_expected_negative_log_likelihood():
    lik, prior, x, y = problem("fc", "bernoulli", seed=6)
    same(
        [mirror.loss(lik, prior, x, y)(prior)],
        [-expectations.expected(lik, prior, x, y).ell],
        cond_of(prior),
        "L",
        size=1.0,
    )


@pytest.mark.eq("eq:bong-implicit")
@EVERY
def test_the_one_dimensional_form_gives_the_same_update(name):
    """Implicit RVGA: μ_t = μ + Σ g_t and Σ_t⁻¹ = Σ⁻¹ − G_t with the expectations under the
    result.
    """
    for seed in range(4):
        lik, prior, x, y = problem("fc", name, seed, P=3)
        scalar, full = mirror.implicit_scalar(lik, prior, x, y), mirror.implicit(lik, prior, x, y)
        cond = cond_of(prior, full.state) ** 2
        same(scalar.state, full.state, cond, "state")
        e = expectations.expected(lik, full.state, x, y)
        same([prior.mu + prior.Sigma @ e.g], [full.state.mu], cond, "mu")
        same(
            [np.linalg.inv(prior.Sigma) - e.G], [np.linalg.inv(full.state.Sigma)], cond, "precision"
        )


@pytest.mark.eq("eq:online-VB-as-MD", "eq:bong-implicit", "eq:bong-as-linearized-optimization")
@FAMILIES
def test_implicit_and_explicit_are_bayes_where_the_likelihood_is_conjugate(family):
    """Gaussian likelihood: both are the posterior, for Diag with inputs that keep it diagonal.
    Otherwise they differ.
    """
    lik, prior, x, y = problem(family, "gaussian", seed=7)
    x = x if family == "fc" else np.array([0.8, 0.0])
    Sigma = gaussians.covariance(prior)
    cov = np.linalg.inv(np.linalg.inv(Sigma) + np.outer(x, x) / lik.R)
    bayes = (
        cov @ (np.linalg.solve(Sigma, prior.mu) + x * y / lik.R),
        cov if family == "fc" else np.diag(cov),
    )
    same(mirror.implicit(lik, prior, x, y).state, bayes, cond_of(prior) ** 2, "implicit")
    same(mirror.bong(lik, prior, x, y), bayes, cond_of(prior) ** 2, "explicit")
    for name in ("bernoulli", "poisson"):
        lik, prior, x, y = problem(family, name, seed=7)
        assert (
            gaussians.kl(
                mirror.bong(lik, prior, 3 * x, y), mirror.implicit(lik, prior, 3 * x, y).state
            )
            > 1e-6
        )


@pytest.mark.eq("eq:bong-implicit", "eq:blr-MD")
@FAMILIES
def test_blr_starts_with_bong_and_ends_at_the_implicit_update(family):
    lik, prior, x, y = problem(family, "bernoulli", seed=8)
    solution = mirror.implicit(lik, prior, x, y).state
    cond = cond_of(prior, solution) ** 2
    same(
        mirror.blr(lik, prior, x, y, 1.0, 1), mirror.bong(lik, prior, x, y), cond, "first iteration"
    )
    same(mirror.blr(lik, prior, x, y, 0.5, 80), solution, cond, "last iteration")
    e = expectations.expected(lik, solution, x, y)
    for alpha in (0.1, 0.7):
        same(
            MODULES[family].blr(prior, solution, Curv(e.g, G=e.G), alpha),
            solution,
            cond,
            "fixed point",
        )


@FAMILIES
def test_a_hard_problem_converges(family):
    """Poisson with a broad prior: the explicit update is far off, nats from exact VB; the implicit
    one is found to rounding.
    """
    prior = (
        FC(np.array([0.5, -0.3]), np.diag([4.0, 3.0]))
        if family == "fc"
        else Diag(np.array([0.5, -0.3]), np.array([4.0, 3.0]))
    )
    x, y = np.array([1.0, 2.0]), 3
    solution = mirror.implicit(Poisson(), prior, x, y)
    found = mirror.online_vb(Poisson(), prior, x, y).state
    same(solution.state, found, cond_of(prior, found) ** 2, "online VB")
    assert gaussians.kl(mirror.bong(Poisson(), prior, x, y), found) > 1


def test_a_residual_is_not_excused_by_the_condition_of_an_iterate():
    """The first steps from a very broad prior have cond(Σ) beyond 1/eps: the iteration goes on to
    the solution, or says that it failed.
    """
    x, y = np.array([1.0, 0.1]), 3
    broad = lambda var: FC(np.zeros(2), np.array([[var, 1.0], [1.0, 2.0]]))
    wanted = mirror.implicit_scalar(Poisson(), broad(70.0), x, y).state
    same(
        mirror.implicit(Poisson(), broad(70.0), x, y).state,
        wanted,
        cond_of(broad(70.0), wanted) ** 2,
        "state",
    )
    with pytest.raises(mirror.NotConverged, match="stalled") as error:
        mirror.implicit(Poisson(), broad(1000.0), x, y)
    assert error.value.residual > compare.EPS**0.5


def test_what_does_not_converge_says_so():
    lik, prior, x, y = problem("fc", "bernoulli", seed=9)
    with pytest.raises(
        mirror.NotConverged, match="did not converge in 1 iterations; residual"
    ) as error:
        mirror.implicit(lik, prior, x, y, max_iter=1)
    assert error.value.residual > compare.C * compare.EPS and isinstance(error.value.state, FC)
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value) and again.residual == error.value.residual
    with pytest.raises(mirror.NotConverged, match="Newton's method did not converge"):
        mirror.implicit_scalar(lik, prior, x, y, max_iter=1)


def test_refusals():
    fc = FC(np.zeros(2), np.eye(2))
    with pytest.raises(TypeError, match=r"FC or Diag state .*, got DLR"):
        expectations.expected(
            Bernoulli(), br.DLR(np.zeros(2), np.ones(2), np.zeros((2, 1))), np.ones(2), 1
        )
    with pytest.raises(
        TypeError, match="one output: Bernoulli, Gaussian or Poisson, got Categorical"
    ):
        mirror.implicit(Categorical(), fc, np.ones(2), 1)
    with pytest.raises(ValueError, match="x must have 2 entries"):
        mirror.bong(Bernoulli(), fc, np.ones(3), 1)
    with pytest.raises(ValueError, match="one observation and an FC prior"):
        mirror.implicit_scalar(Bernoulli(), fc, np.ones((2, 2)), [0, 1])
    with pytest.raises(ValueError, match="FC prior of 2 parameters"):
        posteriors.posterior(Bernoulli(), FC(np.zeros(3), np.eye(3)), np.ones(3), 1)


# --- the true posterior ---------------------------------------------------------------------------


def test_the_grid_against_the_posterior_of_one_observation():
    """Z(m) = E σ(m + s z): log p(y) = log Z, mean μ + Σx (log Z)', covariance Σ + Σx (log Z)''
    xᵀΣ.
    """
    lik, prior, x, _ = problem("fc", "bernoulli", seed=10)
    (m,), (v,) = expectations.output(prior, x[None])
    z, w = expectations.nodes(np.sqrt(v))
    log_Z = lambda m: anp.log(anp.dot(w, anp.exp(lik.log_prob((m + np.sqrt(v) * z)[:, None], 1.0))))
    Sx = prior.Sigma @ x
    wanted = (
        log_Z(m),
        prior.mu + Sx * grad(log_Z)(m),
        prior.Sigma + np.outer(Sx, Sx) * grad(grad(log_Z))(m),
    )
    p = posteriors.posterior(lik, prior, x, 1)
    same([p.log_evidence, p.mean, p.cov], wanted, cond_of(prior), "posterior", size=1.0)


def test_the_grid_against_the_conjugate_posterior():
    lik, prior, x, y = problem("fc", "gaussian", seed=11)
    p, q = posteriors.posterior(lik, prior, x, y), mirror.bong(lik, prior, x, y)
    (m,), (v,) = expectations.output(prior, x[None])
    evidence = Gaussian(var=v + lik.R).log_prob(np.array([m]), np.array([y]))
    same([p.log_evidence, p.mean, p.cov], [evidence, *q], cond_of(prior), "posterior", size=1.0)
    got = posteriors.kl_to_posterior(lik, prior, x, y, prior, p.log_evidence)
    same([got], [gaussians.kl(prior, q)], cond_of(prior), "KL to posterior", size=1.0)


@pytest.fixture(scope="module")
def compared():
    return make_mirror.comparison((1, 3), seed=2, alphas=(0.5, 1.0), iterations=(1, 3, 40))


def test_the_grid_is_fine_enough_and_the_divergence_is_the_integral_over_it(compared):
    lik, t = Bernoulli(), 3
    p = compared.posteriors[t]
    finer = posteriors.posterior(
        lik, compared.prior, compared.X[:t], compared.y[:t], fine=0.2, width=12.0
    )
    same(p[:3], finer[:3], what="finer grid", size=1.0)
    (q,) = [r.state for r in compared.rows if r.t == t and r.method == "bong"]
    log_q = br.log_density(q, p.theta.reshape(-1, 2)).reshape(p.log_p.shape)
    cell = 1 / np.sum(np.exp(log_q))
    wanted = cell * np.sum(np.exp(log_q) * (log_q - p.log_p))
    same(
        [
            posteriors.kl_to_posterior(
                lik, compared.prior, compared.X[:t], compared.y[:t], q, p.log_evidence
            )
        ],
        [wanted],
        10,
        "KL",
        size=1.0,
    )


def test_rows_of_the_comparison(compared):
    """Exact VB two ways, BONG two ways, BLR ends at exact VB; nothing is nearer to the posterior
    than VB on all data.
    """
    rows = {(r.t, r.method, r.alpha, r.n_iter): r for r in compared.rows}
    assert len(rows) == len(compared.rows) == 2 * (4 + 2 * 3)
    rounding = compare.C * compare.EPS
    for t in (1, 3):
        at = lambda method, *ab, t=t: rows[(t, method, *(ab or (None, None)))]
        same(at("implicit").state, at("exact VB").state, 16, "implicit")
        same(at("blr", 1.0, 1).state, at("bong").state, 16, "first iteration")
        assert at("implicit").kl_vb <= rounding < at("bong").kl_vb
        assert at("blr", 1.0, 40).kl_vb <= rounding < at("blr", 0.5, 1).kl_vb
        best = at("VB, all data").kl_posterior
        assert all(r.kl_posterior >= best - rounding for r in compared.rows if r.t == t)
    same(
        rows[1, "exact VB", None, None].state,
        rows[1, "VB, all data", None, None].state,
        16,
        "one observation",
    )


def test_streams_of_the_comparison(compared):
    """BONG's rows are the family's steps by their definition, one observation after the other."""
    m, q = br.method("bong-mc-hess-fc"), compared.prior
    for x, y in zip(compared.X, compared.y, strict=True):
        e = expectations.expected(Bernoulli(), q, x, y)
        q = definition.step(m, q, None, Curv(e.g, G=e.G))
    (row,) = [r for r in compared.rows if r.t == 3 and r.method == "bong"]
    same(row.state, q, cond_of(q) ** 2, "bong")
    (exact,) = [r.state for r in compared.rows if r.t == 3 and r.method == "exact VB"]
    same(
        [row.kl_vb],
        [mirror.kl_from_statistics(row.state, exact)],
        cond_of(q),
        "KL to exact VB",
        size=1.0,
    )
    p = compared.posteriors[3]
    lam = np.linalg.eigvals(np.linalg.solve(p.cov, q.Sigma))
    sd = np.sqrt((q.mu - p.mean) @ np.linalg.solve(p.cov, q.mu - p.mean))
    same([row.mean, row.cov], [sd, np.max(np.abs(lam - 1))], cond_of(q) ** 2, "errors", size=1.0)


def test_the_table(compared):
    head, *lines = make_mirror.table(compared).splitlines()
    assert head.split()[:4] == ["t", "method", "alpha", "I"] and len(lines) == len(compared.rows)
    assert all(len(line) == len(head) for line in lines)
    (line,) = [line for line in lines if line.startswith("  3  bong")]
    (row,) = [r for r in compared.rows if r.t == 3 and r.method == "bong"]
    assert line.split()[2:4] == [f"{row.kl_vb:.4f}", f"{row.kl_posterior:.4f}"]


def test_the_figure(compared, tmp_path):
    pytest.importorskip("matplotlib", reason="the figure needs matplotlib")
    make_mirror.figure(compared, tmp_path / "mirror.png")
    assert (tmp_path / "mirror.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_without_matplotlib(compared, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        make_mirror.figure(compared, tmp_path / "mirror.png")
    assert not list(tmp_path.iterdir())


def test_the_command(capsys):
    assert make_mirror.main(["--steps", "1", "--seed", "0"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == make_mirror.table(make_mirror.comparison([1], 0))


def test_jacobian_of_the_equation_is_the_one_newton_uses():
    """The Newton step of the implicit equation has the equation's own derivative: its error is
    quadratic in the start's.
    """
    lik, prior, x, y = problem("fc", "bernoulli", seed=12)
    equation = mirror._Equation(lik, prior, *expectations.data(lik, prior, x, y))
    psi = fc_nat.natural(mirror.implicit(lik, prior, x, y).state)
    errors = []
    for delta in (2.0**-6, 2.0**-8):
        near = equation.at((psi[0] * (1 + delta), psi[1] * (1 - delta)))
        errors.append(equation.newton(near).residual / near.residual)
    assert errors[1] < errors[0] / 3
    J = jacobian(lambda a: equation.right((a, psi[1]))[0])(psi[0])
    step = 2.0**-20
    moved = [
        (
            equation.right((psi[0] + step * e, psi[1]))[0]
            - equation.right((psi[0] - step * e, psi[1]))[0]
        )
        / (2 * step)
        for e in np.eye(2)
    ]
    diff = compare.difference("J", np.stack(moved, axis=1), J, cond=1 / step, size=1.0)
    assert diff.agrees, str(diff)

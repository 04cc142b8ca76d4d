"""The gradients, chain rules and Fishers that the sections display, against autograd of the
functions that they are gradients of.
"""

import numpy as np
import pytest
from autograd import grad, jacobian
from autograd import numpy as anp
from hypothesis import given
from problems import Size, belief, curvature, make, sizes

from bongref import gaussians
from bongref.curvature import dense
from bongref.families import diag_mom, diag_nat, dlr, fc_mom, fc_nat
from bongref.routes import compare, definition
from bongref.states import DLR, FC, Diag

MODERATE = dict(max_P=6, max_log_cond=3.0)


def expected(curv, mu0):
    """(μ, Σ) ↦ E[ℓ] of the quadratic ℓ whose expected gradient and Hessian at μ₀ are g and G."""
    G = dense(curv)
    return lambda mu, Sigma: (
        anp.dot(curv.g, mu - mu0)
        + anp.dot(mu - mu0, anp.dot(G, mu - mu0)) / 2
        + anp.trace(anp.dot(G, Sigma)) / 2
    )


def divergence(mu_p, Sigma_p):
    """(μ, Σ) ↦ D(N(μ, Σ) | N(μ_p, Σ_p)) by the textbook formula."""
    prec = np.linalg.inv(Sigma_p)

    def kl(mu, Sigma):
        d = mu - mu_p
        logs = anp.linalg.slogdet(Sigma)[1] - np.linalg.slogdet(Sigma_p)[1]
        return (
            anp.dot(d, anp.dot(prec, d)) + anp.trace(anp.dot(prec, Sigma)) - logs - len(mu_p)
        ) / 2

    return kl


def sym(a):
    return (a + a.T) / 2


def through(family, f):
    """f(μ, Σ) as a function of (first, second), natural or dual parameters; matrices enter by their
    symmetric part.
    """
    if family == "natural":
        return lambda a, b: f(anp.dot(anp.linalg.inv(-(b + b.T)), a), anp.linalg.inv(-(b + b.T)))
    return lambda a, b: f(a, (b + b.T) / 2 - anp.outer(a, a))


def diagonal(f):
    """f(μ, Σ) as a function of (μ, σ²)."""
    return lambda mu, var: f(mu, anp.diag(var))


def same(got, wanted, cond, what, sizes=None):
    """Agreement relative to the size of what is wanted, or of the terms that it is a difference
    of.
    """
    for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
        diff = compare.difference(f"{what}[{k}]", a, b, cond, size=sizes[k] if sizes else 0.0)
        assert diff.agrees, str(diff)


def entropy(mu, Sigma):
    """Up to a constant; its gradients are the size of the terms that the gradients of a KL are
    differences of.
    """
    return anp.linalg.slogdet(Sigma)[1] / 2 + 0 * anp.sum(mu)


def terms(change, point):
    """The sizes of the entropy's gradients in the parameters that ``change`` maps to moments."""
    return [float(np.max(np.abs(grad(change(entropy), k)(*point)))) for k in (0, 1)]


def pair(family, size):
    rng = np.random.default_rng(size.seed)
    q, prior = (belief(family, rng, size.P, size.R, size.log_cond) for _ in range(2))
    # first derivatives through an inverse lose cond of the covariance, and so do the sizes that
    # they are compared by
    cond = max(compare.matrix_condition(q), compare.matrix_condition(prior)) ** 2
    return q, prior, curvature("mc-ef", family, rng, size.P, size.K), cond


@pytest.mark.eq(
    "sec:FC-Nat#1",
    "sec:FC-Nat#2",
    "sec:FC-Nat#3",
    "sec:FC-Nat#4",
    "sec:diag-Nat#1",
    "sec:diag-Nat#2",
    "sec:diag-Nat#3",
)
@pytest.mark.parametrize("family, module", [("fc", fc_nat), ("diag", diag_nat)])
@given(size=sizes(**MODERATE))
def test_natural_and_dual_parameters_and_back(family, module, size):
    q, _, _, cond = pair(family, size)
    same(module.from_natural(*module.natural(q)), q, cond, "natural")
    size_of_rho = float(np.max(np.abs(module.dual(q)[1])))
    back = module.from_dual(*module.dual(q))
    for a, b in zip(back, q, strict=True):
        assert compare.difference("dual", a, b, cond, size=size_of_rho).agrees


@pytest.mark.eq(
    "sec:FC-Nat#8",
    "sec:FC-Nat#9",
    "sec:FC-Nat#11",
    "sec:FC-Nat#18",
    "sec:FC-Nat#21",
    "sec:FC-Nat#6",
    "sec:FC-Nat#7",
)
@pytest.mark.eq("eq:FC-NLL-rho1", "eq:FC-NLL-rho2", "eq:FC-KL-rho1", "eq:FC-KL-rho2")
@pytest.mark.eq("eq:FC-NLL-psi1", "eq:FC-NLL-psi2", "eq:FC-KL-psi1", "eq:FC-KL-psi2")
@given(size=sizes(**MODERATE))
def test_gradients_of_fc_nat(size):
    q, prior, curv, cond = pair("fc", size)
    ell, kl = expected(curv, q.mu), divergence(prior.mu, prior.Sigma)
    moments = {
        "ell": ((curv.g, dense(curv) / 2), ell, fc_nat.ell_rho(q, curv), fc_nat.ell_psi(q, curv)),
        "kl": (fc_nat.kl_moments(q, prior), kl, fc_nat.kl_rho(q, prior), fc_nat.kl_psi(q, prior)),
    }
    for name, (in_moments, f, in_rho, in_psi) in moments.items():
        by_moments = (grad(f, 0)(*q), sym(grad(f, 1)(*q)))
        same(in_moments, by_moments, cond, f"{name} in (mu, Sigma)", terms(lambda f: f, q))
        dual, natural = (lambda f: through("dual", f)), (lambda f: through("natural", f))
        by_rho, of_rho = (
            [grad(dual(f), k)(*fc_nat.dual(q)) for k in (0, 1)],
            terms(dual, fc_nat.dual(q)),
        )
        same(in_rho, by_rho, cond, f"{name} in rho", of_rho)
        same(fc_nat.to_rho(q, *by_moments), by_rho, cond, f"{name} to rho", of_rho)
        by_psi, of_psi = (
            [grad(natural(f), k)(*fc_nat.natural(q)) for k in (0, 1)],
            terms(natural, fc_nat.natural(q)),
        )
        same(in_psi, by_psi, cond, f"{name} in psi", of_psi)
        same(fc_nat.to_psi(q, *by_moments), by_psi, cond, f"{name} to psi", of_psi)


@pytest.mark.eq(
    "sec:diag-Nat#8",
    "sec:diag-Nat#9",
    "sec:diag-Nat#11",
    "sec:diag-Nat#18",
    "sec:diag-Nat#21",
    "sec:diag-Nat#6",
)
@pytest.mark.eq(
    "eq:diag-NLL-rho1", "eq:diag-NLL-rho2", "eq:diag-KL-rho1", "eq:diag-KL-rho2", "sec:diag-Nat#7"
)
@pytest.mark.eq("eq:diag-NLL-psi1", "eq:diag-NLL-psi2", "eq:diag-KL-psi1", "eq:diag-KL-psi2")
@given(size=sizes(**MODERATE))
def test_gradients_of_diag_nat(size):
    q, prior, curv, cond = pair("diag", size)
    dual = lambda f: lambda a, b: diagonal(f)(a, b - a**2)
    natural = lambda f: lambda a, b: diagonal(f)(-a / b / 2, -1 / b / 2)
    parts = {
        "ell": (
            diag_mom.ell_moments(q, curv),
            expected(curv, q.mu),
            diag_nat.ell_rho(q, curv),
            diag_nat.ell_psi(q, curv),
        ),
        "kl": (
            diag_nat.kl_moments(q, prior),
            divergence(prior.mu, np.diag(prior.var)),
            diag_nat.kl_rho(q, prior),
            diag_nat.kl_psi(q, prior),
        ),
    }
    for name, (in_moments, f, in_rho, in_psi) in parts.items():
        by_moments = [grad(diagonal(f), k)(*q) for k in (0, 1)]
        same(in_moments, by_moments, cond, f"{name} in (mu, var)", terms(diagonal, q))
        by_rho, of_rho = (
            [grad(dual(f), k)(*diag_nat.dual(q)) for k in (0, 1)],
            terms(dual, diag_nat.dual(q)),
        )
        same(in_rho, by_rho, cond, f"{name} in rho", of_rho)
        same(diag_nat.to_rho(q, *by_moments), by_rho, cond, f"{name} to rho", of_rho)
        by_psi, of_psi = (
            [grad(natural(f), k)(*diag_nat.natural(q)) for k in (0, 1)],
            terms(natural, diag_nat.natural(q)),
        )
        same(in_psi, by_psi, cond, f"{name} in psi", of_psi)
        same(diag_nat.to_psi(q, *by_moments), by_psi, cond, f"{name} to psi", of_psi)


@pytest.mark.eq(
    "eq:FC-NLL-mu",
    "eq:FC-NLL-Sigma",
    "eq:FC-KL-mu",
    "eq:FC-KL-Sigma",
    "eq:diag-NLL-mu",
    "eq:diag-NLL-Sigma",
)
@pytest.mark.eq("eq:diag-KL-mu", "eq:diag-KL-Sigma", "sec:derivations#12")
@given(size=sizes(**MODERATE))
def test_gradients_of_the_moment_families(size):
    q, prior, curv, cond = pair("fc_mom", size)
    ell, kl = expected(curv, q.mu), divergence(prior.mu, prior.Sigma)
    same(fc_mom.ell_moments(q, curv), (grad(ell, 0)(*q), sym(grad(ell, 1)(*q))), cond, "ell")
    same(
        fc_mom.kl_moments(q, prior),
        (grad(kl, 0)(*q), sym(grad(kl, 1)(*q))),
        cond,
        "kl",
        terms(lambda f: f, q),
    )
    d, d_prior, curv, cond = pair("diag_mom", size)
    ell, kl = diagonal(expected(curv, d.mu)), diagonal(divergence(d_prior.mu, np.diag(d_prior.var)))
    same(diag_mom.ell_moments(d, curv), [grad(ell, k)(*d) for k in (0, 1)], cond, "ell")
    same(
        diag_mom.kl_moments(d, d_prior),
        [grad(kl, k)(*d) for k in (0, 1)],
        cond,
        "kl",
        terms(diagonal, d),
    )


@pytest.mark.eq(
    "sec:FC-Mom#5",
    "sec:FC-Mom#7",
    "sec:FC-Mom#10",
    "sec:FC-Mom#15",
    "eq:FC-mom-Fisher",
    "sec:derivations#5",
)
@pytest.mark.eq(
    "sec:diag-Mom#5", "sec:diag-Mom#7", "sec:diag-Mom#10", "sec:diag-Mom#13", "eq:diag-mom-Fisher"
)
@given(size=sizes(max_P=4, max_log_cond=2.0))
def test_fisher_matrices(size):
    q, _, curv, cond = pair("fc_mom", size)
    family = definition._FCMoment(q)
    # coordinates of the definition: μ and Σ turned to the eigenvectors, Σ in an orthonormal basis
    # of the symmetric matrices
    T = np.kron(family.turn, family.turn) @ family.basis.reshape(len(family.basis), -1).T
    P = size.P
    change = np.block([[family.turn, np.zeros((P, T.shape[1]))], [np.zeros((P * P, P)), T]])
    F = change.T @ fc_mom.fisher(q) @ change
    same([F], [definition.fisher(family, q.mu, q.Sigma)], cond, "Fisher of (mu, Sigma)")
    d_mu, d_Sigma = fc_mom.ell_moments(q, curv)
    n = np.linalg.solve(fc_mom.fisher(q), np.concatenate([d_mu, d_Sigma.ravel()]))
    same(
        fc_mom.natural_gradient(q, d_mu, d_Sigma),
        (n[:P], n[P:].reshape(P, P)),
        cond,
        "natural gradient",
    )
    d, _, curv, cond = pair("diag_mom", size)
    F = definition.fisher(definition._DiagMoment(d), d.mu, np.diag(d.var))
    same([np.diag(np.concatenate(diag_mom.fisher(d)))], [F], cond, "Fisher of (mu, var)")
    n = np.linalg.solve(F, np.concatenate(diag_mom.ell_moments(d, curv)))
    same(
        diag_mom.natural_gradient(d, *diag_mom.ell_moments(d, curv)),
        (n[:P], n[P:]),
        cond**2,
        "natural gradient",
    )


@pytest.mark.eq(
    "eq:DLR-prior", "eq:DLR-KL-mu", "eq:DLR-KL-Sigma", "sec:DLR-deriv#4", "sec:DLR-deriv#5"
)
@pytest.mark.eq("eq:DLR-NLL-mu", "eq:DLR-NLL-Ups", "eq:DLR-NLL-W", "eq:DLR-KL-Ups", "eq:DLR-KL-W")
@given(size=sizes(**MODERATE))
def test_gradients_of_dlr(size):
    q, prior, curv, cond = pair("dlr", size)
    inside = lambda f: lambda mu, Ups, W: f(mu, anp.linalg.inv(anp.diag(Ups) + anp.dot(W, W.T)))
    ell, kl = expected(curv, q.mu), divergence(prior.mu, dlr.covariance(prior))
    same(dlr.ell_psi(q, curv), [grad(inside(ell), k)(*q) for k in range(3)], cond, "ell")
    sizes_psi = [float(np.max(np.abs(grad(inside(entropy), k)(*q)))) for k in range(3)]
    same(dlr.kl_psi(q, prior), [grad(inside(kl), k)(*q) for k in range(3)], cond, "kl", sizes_psi)
    d_mu, d_Sigma = dlr.kl_moments(q, prior)
    Sigma = dlr.covariance(q)
    by_moments = (grad(kl, 0)(q.mu, Sigma), sym(grad(kl, 1)(q.mu, Sigma)))
    same((d_mu, d_Sigma), by_moments, cond, "kl in (mu, Sigma)", terms(lambda f: f, (q.mu, Sigma)))
    same(dlr.to_Ups_W(q, d_Sigma), dlr.kl_psi(q, prior)[1:], cond, "chain rule", sizes_psi[1:])
    same([dlr.precision(q)], [np.linalg.inv(gaussians.covariance(q))], cond, "precision")


@pytest.mark.eq("sec:FC-Nat#5", "sec:diag-Nat#5")
@given(size=sizes(**MODERATE))
def test_kl_divergences(size):
    for family, module in (("fc", fc_nat), ("diag", diag_nat)):
        q, prior, _, cond = pair(family, size)
        full = FC(q.mu, gaussians.covariance(q)), FC(prior.mu, gaussians.covariance(prior))
        wanted = divergence(*full[1])(*full[0])
        floor = size.P + abs(
            np.linalg.slogdet(full[0].Sigma)[1]
        )  # the terms that the difference is taken of
        assert compare.difference("kl", module.kl(q, prior), wanted, cond, size=floor).agrees
        assert abs(module.kl(q, q)) <= compare.C * cond * compare.EPS * floor


PSI = {
    "bong": ("sec:FC-Nat-bong#1", "sec:FC-Nat-bong#2", "eq:bong-diag-mu", "eq:bong-diag-prec"),
    "blr": ("sec:FC-Nat#26", "sec:FC-Nat#27", "sec:diag-Nat#32", "sec:diag-Nat#33"),
    "bog": ("sec:FC-Nat#32", "sec:FC-Nat#33", "sec:diag-Nat#38", "sec:diag-Nat#39"),
    "bbb": ("sec:FC-Nat#38", "sec:FC-Nat#39", "sec:diag-Nat#44", "sec:diag-Nat#45"),
}


@pytest.mark.parametrize(
    "rule", [pytest.param(r, marks=pytest.mark.eq(*ids)) for r, ids in PSI.items()]
)
@given(size=sizes(max_P=8, max_log_cond=4.0))
def test_update_in_natural_parameters_translates_to_the_step(rule, size):
    from problems import agree, conditions, plain

    for family, module in (("fc", fc_nat), ("diag", diag_nat)):
        p = make(f"{rule}-mc-ef-{family}", size)
        psi = getattr(module, f"{rule}_psi")(p.prior, p.current, p.curv, p.m.params.get("alpha", 1))
        agree(
            module.from_natural(*psi),
            plain(p.m)(p.prior, p.current, p.curv),
            conditions(p),
            f"{rule}_psi",
        )


def test_printed_gradient_is_not_symmetric():
    """2Σgμᵀ, as printed, is the gradient over all matrices; only its symmetric part keeps the
    precision symmetric.
    """
    p = make("bog-lin-hess-fc", Size(3, 4, 1, 2, 1.0))
    Sg = p.prior.Sigma @ p.curv.g
    printed = np.linalg.inv(p.prior.Sigma) - 4 * 0.1 * np.outer(Sg, p.prior.mu)
    assert np.max(np.abs(printed - printed.T)) > 0.1
    over_all = jacobian(
        lambda M: anp.dot(
            p.curv.g, anp.dot(anp.linalg.inv(-2 * M), np.linalg.inv(p.prior.Sigma) @ p.prior.mu)
        )
    )
    M = -np.linalg.inv(p.prior.Sigma) / 2
    assert compare.difference(
        "2 Sigma g mu^T", 2 * np.outer(Sg, p.prior.mu), over_all(M), 100
    ).agrees


def test_states_are_plain():
    for kind, fields in ((FC, ("mu", "Sigma")), (Diag, ("mu", "var")), (DLR, ("mu", "Ups", "W"))):
        assert kind._fields == fields and issubclass(kind, tuple)

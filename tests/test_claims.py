"""Statements of the paper that no other test covers, and the ledger of all of them."""

import itertools
import json
import re

import numpy as np
import pytest
from autograd import grad, jacobian
from autograd import numpy as anp
from ledgers import collected
from problems import Size, agree, belief, conditions, curvature, make, plain, spd

import bongref as br
from bongref import cli, gaussians, paper
from bongref import curvature as estimators
from bongref.curvature import Curv, dense
from bongref.families import diag_nat
from bongref.gaussians import is_valid
from bongref.grid import FAMILIES, HESSIANS, NAMES, RULES
from bongref.likelihoods import Bernoulli, Categorical, Gaussian, Poisson
from bongref.paper import claims, errata, index, source, tables
from bongref.paper.claims import CLAIMS, KINDS, VERDICTS
from bongref.paper.errata import ERRATA
from bongref.routes import compare, definition
from bongref.states import DLR, FC, Diag
from bongref.theory import costs

ONE = Size(3, 4, 2, 2, 1.0)


def close(what, got, wanted, cond=100.0):
    diff = compare.difference(what, got, wanted, cond)
    assert diff.agrees, str(diff)


# --- the ledger -----------------------------------------------------------------------------------


def test_ids_verdicts_and_order():
    ids = [f"C{k:02d}" for k in range(1, len(CLAIMS) + 2) if k != 11]  # C11 is part of C01 now
    assert [c.id for c in CLAIMS] == ids
    first = [c.line for c in CLAIMS if int(c.id[1:]) <= 98]  # ids are stable: later ones come after
    assert first == sorted(first)
    assert {c.verdict for c in CLAIMS} == set(VERDICTS) and {c.kind for c in CLAIMS} == set(KINDS)
    assert len({c.statement for c in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("c", CLAIMS, ids=lambda c: c.id)
def test_a_claim_is_where_it_says_and_has_evidence(c):
    table = paper.equations()
    known = {*table, *(i.id for i in source.items())}
    assert {c.where, *c.also} <= known and c.statement.strip()
    ids = {e.id for e in ERRATA}
    for evidence in c.evidence:
        assert evidence in ids or evidence in table or evidence.startswith("tests/"), evidence
    if c.verdict == "not tested":
        assert c.number, "why not?"
    else:
        assert any(e.startswith("tests/") for e in c.evidence) or any(
            errata.erratum(e).test for e in c.evidence if e in ids
        ), c.id
    if c.verdict in ("does not hold", "holds with a condition"):
        assert c.number, "what is the condition, or by how much does it fail?"
    assert all(tables.methods(c._replace(methods=(g,))) for g in c.methods)


def test_the_evidence_exists():
    nodes = {e for c in CLAIMS for e in c.evidence if e.startswith("tests/")}
    assert sorted(nodes - collected()) == []


def test_an_erratum_that_is_a_wrong_claim_or_cost_is_in_the_claims():
    """What the errata call wrong is not called right here."""
    judged = {e: c for c in CLAIMS for e in c.evidence if e.startswith("E")}
    for e in ERRATA:
        if e.kind in ("wrong claim", "wrong cost") and e.test:
            assert e.id in judged and judged[e.id].verdict != "holds", e.id


# --- the variational problem ----------------------------------------------------------------------


def test_the_normalisation_drops_out():
    """Linear regression: L(q) − KL(q | posterior) is −log Z for every q, with Z = N(y | Hμ, HΣHᵀ
    + R).
    """
    rng = np.random.default_rng(0)
    prior, H, y, var = belief("fc", rng, 3), rng.standard_normal((1, 3)), 0.7, 0.5
    post = br.step(
        "bong-lin-hess-fc",
        prior,
        None,
        Curv(H[0] * (y - H[0] @ prior.mu) / var, S=H.T / np.sqrt(var)),
    )[0]
    s2 = float((H @ prior.Sigma @ H.T)[0, 0]) + var
    log_Z = -(np.log(2 * np.pi * s2) + (y - H[0] @ prior.mu) ** 2 / s2) / 2
    for _ in range(3):
        q = belief("fc", rng, 3)
        expected = (
            -(
                np.log(2 * np.pi * var)
                + ((y - H[0] @ q.mu) ** 2 + float((H @ q.Sigma @ H.T)[0, 0])) / var
            )
            / 2
        )
        close("−log Z", -expected + gaussians.kl(q, prior) - gaussians.kl(q, post), -log_Z, 1e3)


def test_the_conjugate_family_of_a_linear_regression_is_singular():
    """log p(y | θ) of y ~ N(Hθ, R): T = [Hθ; −½θᵀHᵀR⁻¹Hθ] leaves P − C directions of θ without a
    precision.

    With T = (θ, θθᵀ) the log-likelihood is linear in T, and one BONG step is Bayes' rule.
    """
    P, C, rng = 4, 2, np.random.default_rng(0)
    H, R = rng.standard_normal((C, P)), spd(rng, C, 1.0)
    information = H.T @ np.linalg.solve(R, H)
    for nu in (1.0, 7.5):
        assert np.linalg.matrix_rank(nu * information) == C < P
    prior, y = belief("fc", rng, P), rng.standard_normal(C)
    S = H.T @ np.linalg.inv(np.linalg.cholesky(R)).T
    g = H.T @ np.linalg.solve(R, y - H @ prior.mu)
    got = br.step("bong-lin-hess-fc", prior, None, Curv(g, S=S))[0]
    prec = np.linalg.inv(prior.Sigma)
    wanted = np.linalg.solve(prec + information, prec @ prior.mu + H.T @ np.linalg.solve(R, y))
    close("the mean by Bayes' rule", got.mu, wanted, 1e4)
    close("the covariance by Bayes' rule", got.Sigma, np.linalg.inv(prec + information), 1e4)


@pytest.mark.parametrize("rule", ["bog", "bbb"])
def test_the_rank_of_w_never_rises_in_bog_and_bbb(rule):
    """W ← (I + αA)W: from a W of rank 1 with three columns the rank stays 1, from σ₀²I it stays
    0.
    """
    rng = np.random.default_rng(0)
    P, R = 7, 3
    w = np.outer(rng.standard_normal(P), rng.standard_normal(R)) / 4
    for W, rank in ((w, 1), (np.zeros((P, R)), 0)):
        prior = DLR(rng.standard_normal(P), 1 + rng.random(P), W)
        state = prior
        m = br.method(f"{rule}-lin-hess-dlr", rank=R, alpha=0.01)
        for _ in range(3):
            curv = Curv(rng.standard_normal(P), S=rng.standard_normal((P, 2)))
            state = br.step(m, prior, state, curv)[0]
            prior = state if rule == "bog" else prior
        sing = np.linalg.svd(state.W, compute_uv=False)
        assert np.sum(sing > 1e-12) == rank
        assert np.all(state.Ups != prior.Ups) or rule == "bog"


@pytest.mark.parametrize(("N", "more"), [(1, False), (5, True)])
def test_columns_of_slang_lin_hess(N, more):
    """S of LIN-HESS on N examples with C outputs has NC columns, S of MC-EF has M, however many
    examples.
    """
    rng, C, M = np.random.default_rng(0), 2, 4
    model, lik = br.models.mlp([3, 4, C]), Gaussian(var=0.5)
    x, y, mu = rng.standard_normal((N, 3)), rng.standard_normal((N, C)), model.init(rng)
    lin = estimators.lin_hess(model, lik, x, y, mu)
    mc = estimators.mc_ef(model, lik, x, y, mu + rng.standard_normal((M, len(mu))))
    assert lin.S.shape[1] == np.linalg.matrix_rank(lin.S) == N * C and mc.S.shape[1] == M
    assert (lin.S.shape[1] > mc.S.shape[1]) == more


@pytest.mark.parametrize("family", FAMILIES)
def test_the_gradient_of_the_kl_is_zero_at_the_prior(family):
    q = belief(family, np.random.default_rng(0), 4, 2)
    psi = definition.FAMILIES[family](q)
    prec = np.linalg.inv(gaussians.covariance(psi.state(psi.psi)))
    turned = psi.turn.T @ prec @ psi.turn

    def kl(v):
        mu, Sigma = psi.moments(v)
        d = mu - psi.turn.T @ q.mu
        return (
            anp.dot(d, anp.dot(turned, d))
            + anp.trace(anp.dot(turned, Sigma))
            - anp.linalg.slogdet(Sigma)[1]
        ) / 2

    moved = grad(kl)(psi.psi * 1.1)  # the scale of a gradient that is not zero
    assert np.max(np.abs(grad(kl)(psi.psi))) <= compare.C * 1e3 * compare.EPS * np.max(
        np.abs(moved)
    )


@pytest.mark.parametrize("P", [1, 3])
def test_the_fisher_is_the_derivative_of_the_dual_parameters(P):
    """Diagonal family: ∂ρ/∂ψ by autograd of the map, against the Fisher from first principles;
    F⁻¹∇_ψ ℓ against eq:diag-NLL-rho1.
    """
    rng = np.random.default_rng(P)
    q, curv = belief("diag", rng, P), Curv(rng.standard_normal(P), d=rng.standard_normal(P))
    family = definition._DiagNatural(q)

    def rho(psi):
        var = -0.5 / psi[P:]
        mu = var * psi[:P]
        return anp.concatenate([mu, mu**2 + var])

    F = definition.fisher(family, q.mu, np.diag(q.var))
    close("F", jacobian(rho)(family.psi), F, 1e3)
    d_psi = np.concatenate(diag_nat.ell_psi(q, curv))
    close("F⁻¹∇", np.linalg.solve(F, d_psi), np.concatenate(diag_nat.ell_rho(q, curv)), 1e4)


def test_a_change_of_scale_of_the_parameters_moves_gd_and_not_ngd():
    """ψ = cφ: the natural step in φ is that in ψ divided by c, so q moves the same way; the
    plain one is c² times as long in ψ.
    """
    p = make("bong-lin-hess-diag", ONE)
    base, c = definition._DiagNatural(p.prior), 10.0

    class Scaled(definition._DiagNatural):
        def __init__(self, q):
            super().__init__(q)
            self.psi = self.psi / c

        def vectors(self, psi):
            return super().vectors(c * psi)

    scaled = Scaled(p.prior)
    steps = []
    for family in (base, scaled):
        g = grad(definition.objective(family, p.prior, p.curv, p.prior.mu, with_kl=False))(
            family.psi
        )
        F = definition.fisher(family, p.prior.mu, np.diag(p.prior.var))
        steps.append((np.linalg.solve(F, g), g))
    close("NGD", c * steps[1][0], steps[0][0], 1e4)
    close("GD", c * steps[1][1], c**2 * steps[0][1], 1e4)
    agree(
        base.state(base.psi + steps[0][0]),
        plain(p.m)(p.prior, None, p.curv),
        {k: 1e2 * v for k, v in conditions(p).items()},
    )


def test_dlr_holds_the_diagonal_family_and_more():
    rng = np.random.default_rng(0)
    d = belief("diag", rng, 4)
    assert gaussians.kl(DLR(d.mu, 1 / d.var, np.zeros((4, 1))), d) <= compare.C * 1e2 * compare.EPS
    q = belief("dlr", rng, 4, 1)
    prec = np.diag(q.Ups) + q.W @ q.W.T
    best = Diag(
        q.mu, np.diag(np.linalg.inv(prec))
    )  # KL(q | p) over diagonal p is least at the marginal variances
    close("kl", gaussians.kl(q, best), np.log(np.prod(best.var) * np.linalg.det(prec)) / 2, 1e3)
    assert gaussians.kl(q, best) > 0.01


# --- estimators -----------------------------------------------------------------------------------


@pytest.mark.eq("eq:GLEF")
@pytest.mark.parametrize("lik", [Bernoulli(), Categorical(), Poisson()], ids=lambda lik: lik.name)
def test_expected_outer_product_of_the_score_is_the_linearised_hessian(lik):
    """Summed over all y with the model's probabilities: E[g gᵀ] = −G and E[(y − ŷ)(y − ŷ)ᵀ] = R."""
    rng = np.random.default_rng(0)
    C = 3 if lik.name == "categorical" else 1
    U, V = rng.standard_normal((4, 3)), rng.standard_normal((C, 4)) / 2
    model = br.models.wrap(
        lambda theta, x: anp.dot(V, anp.tanh(anp.dot(U, theta) + x)), 3, n_outputs=C
    )
    mu, x = rng.standard_normal(3), rng.standard_normal(4)
    o = model(mu, x)
    ys = (
        np.eye(3)
        if C == 3
        else np.arange(2 if lik.name == "bernoulli" else 80)[:, None].astype(float)
    )
    p = np.exp([lik.log_prob(o, y) for y in ys])
    close("all of it", p.sum(), 1.0)
    outer = -sum(
        pk * dense(estimators.lin_ef(model, lik, x, y, mu)) for pk, y in zip(p, ys, strict=True)
    )
    close("E[g gᵀ]", outer, -dense(estimators.lin_hess(model, lik, x, ys[0], mu)), 1e3)
    e = ys - lik.mean(o)
    close("R", np.einsum("n,ni,nj->ij", p, e, e), lik.var(o), 1e3)


def test_the_equivalence_of_the_linearisations_needs_the_mean_of_q_only():
    """E_q of the gradient and Hessian of log N(y | h̄(θ), R) for a q that is not Gaussian, two
    points with mean μ, as exact as at μ.
    """
    rng = np.random.default_rng(0)
    model, lik = br.models.mlp([2, 2, 1], activation="tanh"), Gaussian(0.5)
    mu, x, y = model.init(rng), rng.standard_normal(2), np.ones(1)
    lin, shift = estimators.linearise(model, lik, x, y, mu), rng.standard_normal(model.n_params)
    right = estimators.lin_hess(model, lik, x, y, mu)

    def loglik(theta):
        e = lin.e - anp.dot(lin.H, theta - mu)
        return -anp.dot(e, e) / (2 * 0.5)

    close("g", (grad(loglik)(mu + shift) + 3 * grad(loglik)(mu - shift / 3)) / 4, right.g, 1e3)
    close(
        "G",
        (jacobian(grad(loglik))(mu + shift) + 3 * jacobian(grad(loglik))(mu - shift / 3)) / 4,
        dense(right),
        1e3,
    )


@pytest.mark.parametrize("name", [n for n in NAMES if "lin-" in n])
def test_linearised_updates_are_deterministic(name):
    """No generator is asked for, and one that is given is not touched."""
    m = br.method(
        name,
        **({"rank": 2} if name.endswith("dlr") else {}),
        **({} if name.startswith("bong") else {"alpha": 0.01}),
    )
    rng = np.random.default_rng(0)
    model, lik = br.models.linear(3), Gaussian(0.5)
    prior, x, y = m.prior(np.ones(3), 1.0), np.ones(3), np.zeros(1)
    before = rng.bit_generator.state
    a, b = (
        br.update(m, model, lik, prior, x, y)[0],
        br.update(m, model, lik, prior, x, y, rng=rng)[0],
    )
    assert (
        all(np.array_equal(u, v) for u, v in zip(a, b, strict=True))
        and rng.bit_generator.state == before
    )


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.eq("eq:bong-FC-mom-cov", "eq:bong-FC-mom-mu")
def test_the_moment_update_is_the_natural_one_without_a_term():
    """K of eq:bong-FC-K with ĜᵀΣĜ left out, in the natural update as printed, is BONG-FC_MOM."""
    p = make("bong-mc-ef-fc_mom", ONE)
    M, S = p.curv.S.shape[1], p.prior.Sigma
    Ghat = np.sqrt(M) * p.curv.S
    curv = Curv(Ghat.mean(axis=1), S=p.curv.S)
    K = S @ Ghat / M
    wanted = FC(p.prior.mu + K @ np.ones(M), S - K @ Ghat.T @ S)
    agree(plain(p.m)(p.prior, None, curv), wanted, conditions(p))
    term = Ghat.T @ S @ Ghat  # and it is not small: the two updates differ
    assert np.max(np.abs(term)) > 0.1 * M


@pytest.mark.eq("eq:bong-diag-prec2", "eq:bong-diag-mom-var")
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_moment_form_loses_the_variance_where_the_natural_form_cannot(scale):
    """LIN-EF: σ² − σ⁴g² < 0 as soon as σg > 1, while σ⁻² + g² > 0 always."""
    prior, curv = Diag(np.zeros(1), np.ones(1)), Curv(np.full(1, scale), S=np.full((1, 1), scale))
    moment, natural = (
        br.step(f"bong-lin-ef-{f}", prior, None, curv)[0] for f in ("diag_mom", "diag")
    )
    close("moment", moment.var, [1 - scale**2])
    close("natural", natural.var, [1 / (1 + scale**2)])
    assert is_valid(natural) and is_valid(moment) == (scale < 1)


@pytest.mark.parametrize("family", ["fc", "diag", "dlr"])
@pytest.mark.parametrize("hess", ["mc-ef", "lin-hess", "lin-ef"])
def test_bong_in_natural_parameters_stays_positive_definite(family, hess):
    for seed in range(5):
        p = make(f"bong-{hess}-{family}", Size(seed, 5, 2, 3, 4.0))
        curv = Curv(100 * p.curv.g, S=100 * p.curv.S)
        state, info = br.step(p.m, p.prior, None, curv)
        assert info.valid and is_valid(state)


@pytest.mark.parametrize("name", ["bog-lin-hess-fc_mom", "bog-lin-ef-diag_mom", "bog-lin-hess-dlr"])
def test_the_mean_of_bog_in_moments_is_gradient_descent(name):
    """μ + α∇log p̄(μ), whatever the covariance."""
    rng = np.random.default_rng(0)
    model, lik = br.models.mlp([2, 2, 1], activation="tanh"), Bernoulli()
    x, y, theta = rng.standard_normal(2), np.ones(1), model.init(rng)
    m = br.method(name, alpha=0.01, **({"rank": 2} if name.endswith("dlr") else {}))
    wanted = theta + 0.01 * grad(lambda t: lik.log_prob(model(t, x), y))(theta)
    for var in (0.1, 1.0):
        close(
            f"mean with variance {var}",
            br.update(m, model, lik, m.prior(theta, var), x, y)[0].mu,
            wanted,
        )


@pytest.mark.eq("eq:bong-dlr-Wtilde", "eq:blr-dlr-Wtilde")
@pytest.mark.parametrize("rule, columns", [("bong", 2 + 3), ("blr", 2 * 2 + 3)])
def test_the_low_rank_part_of_the_new_precision(rule, columns):
    """The full-covariance step of the definition, less Υ̃: of rank R + M for BONG and 2R + M for
    BLR, R = 2, M = 3.
    """
    rng = np.random.default_rng(0)
    P = 12
    prior, current = belief("dlr", rng, P, 2), belief("dlr", rng, P, 2)
    fc = br.method(f"{rule}-mc-ef-fc", **({"alpha": 0.5} if rule == "blr" else {}))
    full = [FC(q.mu, gaussians.covariance(q)) for q in (prior, current)]
    got = definition.step(fc, *full, curvature("mc-ef", "dlr", rng, P, 3))
    Ups = prior.Ups if rule == "bong" else (prior.Ups + current.Ups) / 2
    low = np.linalg.inv(got.Sigma) - np.diag(Ups)
    assert np.linalg.matrix_rank(low, tol=1e-8 * np.max(np.abs(low))) == columns


@pytest.mark.parametrize("hess", ["mc-ef", "lin-hess", "lin-ef"])
def test_what_each_estimator_hands_to_a_step(hess):
    """MC-EF: the P × M matrix of gradients; LIN-EF: one gradient; diag(G) is all that a diagonal
    family uses.
    """
    p = make(f"bong-{hess}-diag", ONE)
    agree(
        plain(p.m)(p.prior, None, Curv(p.curv.g, d=np.diag(dense(p.curv)).copy())),
        plain(p.m)(p.prior, None, p.curv),
        conditions(p),
    )
    assert p.curv.S.shape == (4, 1 if hess == "lin-ef" else 2)
    if hess == "lin-ef":
        assert np.array_equal(p.curv.S[:, 0], p.curv.g)


def test_discarded_singular_vectors_leave_their_diagonal():
    """What SLANG drops before its mean update: the off-diagonal part of the discarded columns,
    nothing on the diagonal.
    """
    rng = np.random.default_rng(0)
    Ups, W = rng.uniform(1, 2, 6), rng.standard_normal((6, 5))
    new_Ups, new_W = br.dlr.project(Ups, W, 2)
    lost = np.diag(Ups) + W @ W.T - np.diag(new_Ups) - new_W @ new_W.T
    assert (
        np.max(np.abs(np.diag(lost)))
        <= compare.C * 10 * compare.EPS * np.max(np.abs(W @ W.T))
        < np.max(np.abs(lost))
    )


# --- counts ---------------------------------------------------------------------------------------


def test_sixteen_methods_in_each_family():
    assert (
        len(set(itertools.product(RULES, HESSIANS))) == 16
        and len(NAMES) == 16 * len(FAMILIES) == 80
    )
    assert all(sum(n.endswith("-" + f) for n in NAMES) == 16 for f in FAMILIES)


def test_the_parameters_of_the_cnn():
    """Two 5 × 5 convolutions with 16 features, dense layers of 64 and 10: 57,722 if the input is
    padded and pooled by 2 twice.
    """

    def size(side):
        return (25 + 1) * 16 + (16 * 25 + 1) * 16 + (side * side * 16 + 1) * 64 + 65 * 10

    padded, valid = 28 // 2 // 2, ((28 - 4) // 2 - 4) // 2
    assert size(padded) == br.models.cnn().n_params == 57_722
    assert size(valid) == 23_930


@pytest.mark.parametrize(
    "name",
    [n for n in NAMES if "mc-hess" in n and n not in ("bong-mc-hess-dlr", "blr-mc-hess-dlr")],
)
def test_mc_hess_never_costs_less_than_mc_ef(name):
    """As an order in P, M, R, I: the counts themselves may differ by a constant factor either
    way.
    """
    hess, ef = (
        costs.polynomial(n) + costs.polynomial(n, "estimator")
        for n in (name, name.replace("mc-hess", "mc-ef"))
    )
    assert costs.is_O(ef, hess, leading=True)
    if name.endswith("-fc") and name.startswith("bong"):
        assert not costs.is_O(hess, ef, leading=True)  # P³ against MP²


def test_samples_of_dlr_and_the_diagonal_of_a_product_are_linear():
    """diag(−SSᵀ): PM products, P(M − 1) sums and P signs. Samples: linear in P, with R² and RM
    beside it.
    """
    tally = costs.Tally()
    estimators.diagonal(Curv(tally.array(7), S=tally.array(7, 3)))
    assert tally.total == 7 * 3 + 7 * 2 + 7
    found = costs.polynomial("bong-mc-ef-dlr", "sampling")
    assert found.degree() == 1 and costs.is_O(found, costs.parse("O(R(R+M)P)"), leading=True)


def test_all_rules_but_bong_have_a_learning_rate():
    for name in NAMES:
        if name not in ("bong-mc-hess-dlr", "blr-mc-hess-dlr"):
            assert ("alpha" in br.method(name).params) == (not name.startswith("bong"))


@pytest.mark.parametrize("seed", range(3))
def test_bonnet_and_price_on_a_cubic(seed):
    """ℓ(θ) = (aᵀθ)³ + θᵀBθ: E[ℓ], E[∇ℓ] and E[∇²ℓ] in closed form; autograd of the first gives
    the other two, Σ with a factor ½.
    """
    rng = np.random.default_rng(seed)
    q, a, B = belief("fc", rng, 3), rng.standard_normal(3), spd(rng, 3, 1.0)

    def expected(mu, Sigma):
        m, s = anp.dot(a, mu), anp.dot(a, anp.dot(Sigma, a))
        return m**3 + 3 * m * s + anp.dot(mu, anp.dot(B, mu)) + anp.trace(anp.dot(B, Sigma))

    m, s = a @ q.mu, a @ q.Sigma @ a
    close("Bonnet", grad(expected, 0)(q.mu, q.Sigma), 3 * (m**2 + s) * a + 2 * B @ q.mu, 1e2)
    close("Price", grad(expected, 1)(q.mu, q.Sigma), (6 * m * np.outer(a, a) + 2 * B) / 2, 1e2)


# --- the command and the page ---------------------------------------------------------------------


def test_the_page_is_made_from_the_ledger(tmp_path):
    """`bongref claims --out docs/claims.md` makes it."""
    out = tmp_path / "claims.md"
    assert cli.main(["claims", "--out", str(out)]) == 0
    page = index.ROOT / "docs" / "claims.md"
    assert out.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], lambda c: True),
        (["--verdict", "does not hold"], lambda c: c.verdict == "does not hold"),
        (
            ["--kind", "cost", "--section", "tab:"],
            lambda c: c.kind == "cost" and any(w.startswith("tab:") for w in (c.where, *c.also)),
        ),
        (["--method", "bong-lin-hess-diag"], lambda c: "bong-lin-hess-diag" in tables.methods(c)),
    ],
)
def test_claims_on_the_command_line(options, wanted, capsys):
    assert cli.main(["claims", *options]) == 0
    assert (
        re.findall(r"^(C\d+) ", capsys.readouterr().out, re.MULTILINE)
        == [c.id for c in CLAIMS if wanted(c)]
        != []
    )


def test_one_claim_in_full_and_refusals(capsys):
    c = claims.claim("C07")
    assert cli.main(["claims", "C07"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        " ".join(c.statement.split()) in text
        and c.verdict in text
        and all(e in text for e in c.evidence)
    )
    for bad in (["C00"], ["--verdict", "maybe"], ["--kind", "maybe"], ["--method", "adam"]):
        assert cli.main(["claims", *bad]) == 2 and capsys.readouterr().err


def test_claims_to_json(tmp_path):
    out = tmp_path / "c.json"
    assert cli.main(["claims", "--verdict", "not tested", "--out", str(out)]) == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["claims"]
    assert [r["id"] for r in rows] == [c.id for c in CLAIMS if c.verdict == "not tested"]
    assert {"statement", "verdict", "evidence", "methods"} <= set(rows[0])

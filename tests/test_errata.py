"""The printed forms are what the ledger prints, they are wrong by what the ledger says, and the
corrected forms are right.
"""

import itertools
import json
import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from autograd import grad, jacobian
from autograd import numpy as anp
from ledgers import collected
from problems import Size, agree, belief, conditions, make, plain, spd

import bongref as br
from bongref import cli, curvature, paper
from bongref.curvature import Curv, dense, linearise
from bongref.families import diag_nat, dlr, fc_mom, fc_nat
from bongref.grid import FAMILIES, HESSIANS, MODULES, NAMES, NOT_DERIVED, RULES
from bongref.likelihoods import Bernoulli, Categorical, Gaussian
from bongref.linalg import inv
from bongref.paper import errata, index, printed, source, tables
from bongref.paper.errata import ERRATA, KINDS
from bongref.routes import compare, definition
from bongref.states import FC, Diag
from bongref.theory import batch

EPS = compare.EPS
ONE = Size(3, 4, 2, 2, 1.0)
ROOT = Path(__file__).resolve().parents[1]
TEX = Path(os.environ.get("BONGREF_PAPER", ROOT.parent / "shared" / "paper" / "bong-paper.tex"))
SQUARE = br.models.wrap(
    lambda theta, x: theta**2, 1, n_outputs=1
)  # f(θ) = θ²: the smallest network that is not linear


def close(what, got, wanted, cond=100.0):
    diff = compare.difference(what, got, wanted, cond)
    assert diff.agrees, str(diff)


def apart(what, got, wanted, least):
    """Off by more than ``least``, relative to the largest entry wanted."""
    diff = compare.difference(what, got, wanted)
    assert diff.relative > least, str(diff)


# --- the ledger -----------------------------------------------------------------------------------


def test_ids_are_in_order_and_names_are_unique():
    assert [e.id for e in ERRATA] == [f"E{k:02d}" for k in range(1, len(ERRATA) + 1)]
    assert len({e.name for e in ERRATA}) == len(ERRATA)
    first = [e.line for e in ERRATA[:65]]  # ids are stable, so what is found later comes after
    assert first == sorted(first)
    assert {e.kind for e in ERRATA} == set(KINDS)


@pytest.mark.parametrize("e", ERRATA, ids=lambda e: e.id)
def test_an_erratum_is_where_it_says(e):
    table = paper.equations()
    scopes = {q.scope for q in table.values()}
    for place in (e.where, *e.also):
        assert place in table or place in scopes or source.item(place), place
    assert e.where not in e.also and all(text.strip() for text in e[:7])
    if e.where in table and not e.where.startswith("sec:derivations"):
        assert abs(table[e.where].line - e.line) <= 200
    if e.latex:
        assert e.latex in table[e.where].latex, "the equation does not print this"
    if e.function:
        assert callable(getattr(printed, e.function)) and e.test


def test_the_tests_of_errata_exist():
    assert [e.test for e in ERRATA if e.test and e.test not in collected()] == []


def test_errata_without_a_test_have_no_effect_or_are_two_places_of_the_paper():
    """Whatever changes a number has a test."""
    for e in ERRATA:
        silent = e.kind == "remark" and e.effect.startswith("none")
        assert e.test or e.kind in ("typo", "index") or silent or "SE" in e.printed, e.id


def test_an_erratum_is_found_by_the_methods_it_is_about():
    for method, ids in {
        "bong-lin-hess-diag": {"E47", "E48"},
        "bong-mc-ef-fc": {"E13", "E74"},
        "blr-mc-ef-diag": {"E13", "E62"},
        "bbb-lin-hess-dlr": {"E14", "E57", "E60"},
        "blr-lin-hess-fc": {"E35"},
        "bong-mc-hess-diag": {"E18"},
    }.items():
        found = {e.id for e in tables.select(ERRATA, method=method)}
        assert ids <= found and "E36" not in found, method


def test_low_rank_part_of_the_first_iteration_of_blr_dlr():
    """From the prior the new precision less Υ̃ has rank R + M, from another iterate 2R + M."""
    rng = np.random.default_rng(0)
    P, R, M, alpha = 9, 2, 3, 0.3
    prior, other = (belief("dlr", rng, P, R) for _ in range(2))
    curv = Curv(np.zeros(P), S=rng.standard_normal((P, M)))
    full = lambda q: FC(q.mu, np.linalg.inv(np.diag(q.Ups) + q.W @ q.W.T))
    for current, rank in ((prior, R + M), (other, 2 * R + M)):
        prec = np.linalg.inv(fc_nat.blr(full(prior), full(current), curv, alpha).Sigma)
        lam = np.linalg.eigvalsh(prec - np.diag((1 - alpha) * current.Ups + alpha * prior.Ups))
        assert np.sum(lam > 1e-9 * lam.max()) == rank


def test_mean_of_bong_in_moments_ignores_the_term_too():
    prior, curv = FC(np.zeros(1), np.eye(1)), Curv(np.ones(1), S=np.ones((1, 1)))
    natural, moment = fc_nat.bong(prior, None, curv), fc_mom.bong(prior, None, curv)
    assert abs(natural.mu[0] - 0.5) < 4 * EPS and abs(natural.Sigma[0, 0] - 0.5) < 4 * EPS
    assert moment.mu[0] == 1 and moment.Sigma[0, 0] == 0


def _tex_lines():
    if not TEX.exists():
        pytest.skip("the paper's LaTeX is not here")
    return TEX.read_text(encoding="utf-8").splitlines()


def test_one_paper_under_two_keys():
    """Two keys of the bibliography with one title, but for capitals and braces; no third pair."""
    entries = re.findall(
        r"\\bibitem\[.*?\]\{(\w+)\}\n.*?\n\\newblock (.*?)\n", "\n".join(_tex_lines()), re.DOTALL
    )
    keys = {}
    for key, title in entries:
        keys.setdefault(re.sub(r"[^a-z]", "", title.lower()), []).append(key)
    twice = {tuple(sorted(k)) for k in keys.values() if len(k) > 1}
    assert twice == {("Immer2021linear", "Immer21a"), ("VON", "khan2018fast")}


def test_misspelt_words_are_on_their_lines():
    lines = _tex_lines()
    for line, words in {
        466: "one at time",
        479: "we can also  replacing",
        489: "block-box",
        1389: "a potential notstationary source",
        1804: "showns",
        1851: "as least when",
        1852: "have a slight edge",
        2978: r"gives the \bbb-\fcmom",
        3322: r"gives the \bbb-\diagmom",
    }.items():
        assert words in lines[line - 1], line


def test_costs_of_an_iteration_are_stated_without_its_index():
    lines = _tex_lines()
    for line in (3135, 3201, 3287, 3329):
        assert r"per iteration to estimate $\vG_t$ using $\GMCEF_t$" in lines[line - 1], line
    assert r"\GLEF = -\gL_t" in lines[2930 - 1]


def test_letters_with_several_meanings_are_on_their_lines():
    lines = _tex_lines()
    for line, words in {
        652: r"$A(\vtheta_t)$ is the log-partition function",
        3077: r"Suppose $\vA",
        3504: r"\vA_{t} & ={\rm chol}",
        1613: r"$\vV_t(\vtheta_t)=\text{Cov}",
        3440: r"$\vU_{t,i},\vV_{t,i}$ orthogonal",
        574: r"\vrho_{t} = \expectQ",
        3331: r"\vsigma = \log(1+\exp(\vrho))",
    }.items():
        assert words in lines[line - 1], line


def test_names_are_spelt_in_several_ways():
    text = "\n".join(_tex_lines())
    for name in ("Hoeven, Erven", "Simo Sarkka", r"Simo S{\"a}rkk{\"a}", "Duràn-Martìn"):
        assert name in text
    assert r"Dur{\'a}n-Mart{\'\i}n" in text and "Gerardo Duran-Martin" in text
    assert "van~der Hoeven" not in text and "natural gradient descent, 2020.\n\n" in text


def test_captions_name_three_of_four_rows():
    """Two figures with plots in four rows, the last one of running times, and captions of three."""
    text = "\n".join(_tex_lines())
    for label, last in (("mnist-cnn", "runtime_all"), ("mnist-bong", "runtime_bongs")):
        figure = text[: text.index(f"label{{fig:{label}}}")].rsplit(r"\begin{figure}", 1)[1]
        plots, caption = figure.split(r"\caption", 1)
        rows = re.split(r"\\\\\n", plots)
        assert len(rows) == 4 and last in rows[3]
        assert "third row" in caption and "fourth" not in caption and "NLL" in caption


def test_the_update_has_ten_arguments():
    """E76 counts what algo:update prints, and names the seven that the main loop leaves out."""
    text = "\n".join(_tex_lines())
    arguments = re.search(r"def update\}\((.*?)\)\$:", text, re.DOTALL)[1].split(",")
    assert len(arguments) == 10
    corrected = errata.erratum("E76").corrected
    assert "ten arguments" in corrected
    assert corrected.split(": ", 1)[1].count(",") + 2 == len(arguments) - 3


def test_the_proceedings_are_not_guessed():
    """Without a copy to read, every erratum says so, and the page says why."""
    assert {e.proceedings for e in ERRATA} == {errata.NOT_COMPARED}
    page = " ".join((ROOT / "docs" / "errata.md").read_text(encoding="utf-8").split())
    assert errata.REASON in page
    assert tables.fields(ERRATA[0])["proceedings"] == "not compared"


@pytest.mark.parametrize("family", ["fc_mom", "diag_mom"])
@pytest.mark.parametrize("rule", RULES)
def test_moment_updates_keep_definiteness_up_to_the_edge(rule, family):
    """G is scaled so that the largest eigenvalue of E98 lies at 1 ∓ 1e-6 of its bound."""
    rng, P, alpha = np.random.default_rng(5), 4, 0.3
    prior, current = (belief(family, rng, P) for _ in range(2))
    smaller = {k: v / 8 for k, v in current._asdict().items() if k != "mu"}
    current = prior if rule in ("bong", "bog") else current._replace(**smaller)
    S = rng.standard_normal((P, 2))
    full = lambda q: np.diag(q.var) if family == "diag_mom" else q.Sigma
    keep = (lambda A: np.diag(np.diag(A))) if family == "diag_mom" else (lambda A: A)
    L = np.linalg.cholesky(full(current))
    Li, prec0, prec = np.linalg.inv(L), np.linalg.inv(full(prior)), np.linalg.inv(full(current))

    def largest(c):  # the left-hand side of E98 over its bound, for G = −c S Sᵀ
        G = -c * keep(S @ S.T)
        left, bound = {
            "bong": (-L.T @ G @ L, 1.0),
            "blr": (alpha * L.T @ (prec0 - G) @ L, 1 + alpha),
            "bog": (-alpha * Li @ G @ Li.T, 2.0),
            "bbb": (alpha * Li @ (prec0 - prec - G) @ Li.T, 2.0),
        }[rule]
        return np.linalg.eigvalsh(left)[-1] / bound

    low, high = 0.0, 1.0
    assert largest(low) < 1
    while largest(high) < 1:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if largest(middle) < 1 else (low, middle)
    for c, valid in ((low * (1 - 1e-6), True), (low * (1 + 1e-6), False)):
        step = getattr(MODULES[family], rule)
        out = step(prior, current, Curv(np.zeros(P), S=np.sqrt(c) * S), alpha)
        assert br.gaussians.is_valid(out) == valid, (rule, c)


def test_prediction_of_dlr_is_exact_and_keeps_its_rank():
    """The formula of E99 in fractions: times F Σ F + Q it is the identity, and W' has R columns."""
    P, R = 4, 2
    f = [Fraction(3, 4), Fraction(7, 8), Fraction(1, 2), Fraction(1)]
    q = [Fraction(1, 8), Fraction(0), Fraction(3, 16), Fraction(1, 4)]
    ups = [Fraction(2), Fraction(3, 2), Fraction(1), Fraction(5, 4)]
    W = np.array([[Fraction(int(i * 3 + j * 5) % 7 - 3, 2) for j in range(R)] for i in range(P)])
    eye, diag = (
        lambda n: np.array([[Fraction(int(i == j)) for j in range(n)] for i in range(n)]),
        np.diag,
    )
    F, Q, U = (np.array(a, dtype=object) for a in (f, q, ups))
    n = F**2 + Q * U
    V = (F / n)[:, None] * W
    precision = diag(U / n) + V @ inv(eye(R) + W.T @ ((Q / n)[:, None] * W)) @ V.T
    Sigma = inv(diag(U) + W @ W.T)
    moved = F[:, None] * Sigma * F + diag(Q)
    assert np.all(moved @ precision == eye(P))
    got = br.predict(
        br.DLR(np.zeros(P), U.astype(float), W.astype(float)),
        br.dynamics.Linear(F.astype(float), np.zeros(P), Q.astype(float)),
    )
    assert got.W.shape == (P, R)
    close("precision", np.diag(got.Ups) + got.W @ got.W.T, precision.astype(float))


def test_implicit_update_has_solutions_that_are_no_minimum():
    """log p = −5(4 − θ²)², prior N(0, 4): expectations of polynomials under N(m, v), by their
    moments.
    """

    def loss(m, v):
        second, fourth = m**2 + v, m**4 + 6 * m**2 * v + 3 * v**2
        return 5 * (16 - 8 * second + fourth) + ((v + m**2) / 4 - 1 - np.log(v / 4)) / 2

    g = lambda m, v: 5 * (16 * m - 4 * (m**3 + 3 * m * v))  # E[∇ log p]
    G = lambda m, v: 5 * (16 - 12 * (m**2 + v))  # E[∇² log p]
    v = (79.75 + np.sqrt(79.75**2 + 240)) / 120
    prec, shift = (
        1 / 4 - G(0.0, v),
        g(0.0, v) - G(0.0, v) * 0.0,
    )  # the natural parameters of the right-hand side
    close("precision", prec, 1 / v)
    assert shift == 0.0  # and the mean: ψ⁽¹⁾ = 0
    assert loss(0.0, v) > 50 > 10 > loss(1.99213, 0.0062995)


def test_two_matrices_called_B():
    """ΣĜ = Υ⁻¹Ĝ − B with the B of BBB-DLR."""
    rng = np.random.default_rng(0)
    q, G = belief("dlr", rng, 6, 2), rng.standard_normal((6, 3))
    of_bog = np.linalg.solve(np.diag(q.Ups) + q.W @ q.W.T, G)
    UW = q.W / q.Ups[:, None]
    of_bbb = UW @ np.linalg.solve(np.eye(2) + q.W.T @ UW, UW.T @ G)
    close("B", of_bog, G / q.Ups[:, None] - of_bbb, 1000.0)
    apart("B", of_bbb, of_bog, 0.1)


# --- the text -------------------------------------------------------------------------------------


def test_dlr_covariance_and_dlr_precision_are_different_families():
    """diag + wwᵀ has off-diagonal entries with the product (w₁w₂w₃)² > 0; the inverse of another
    such matrix has a negative one.
    """
    off = lambda A: A[0, 1] * A[0, 2] * A[1, 2]
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = np.diag(rng.uniform(0.5, 2, 3)) + np.outer(*[rng.standard_normal(3)] * 2)
        assert off(A) > 0 > off(np.linalg.inv(A))


def test_f_must_be_the_natural_parameter():
    """Gaussian with R = 0.1: the exact gradient and Hessian are ten and a hundred times those with
    F = ∂m/∂θ.
    """
    rng = np.random.default_rng(0)
    model, lik, mu, x, y = (
        br.models.linear(3),
        Gaussian(0.1),
        rng.standard_normal(3),
        rng.standard_normal(3),
        np.ones(1),
    )
    exact = definition.linear_h_gaussian(model, lik, x, y, mu)
    right = curvature.lin_hess(model, lik, x, y, mu)
    close("g", right.g, exact[0])
    close("G", dense(right), exact[1])
    wrong = printed.lin_hess_with_f_the_mean(linearise(model, lik, x, y, mu))
    close("g with f the mean", 10 * wrong[0], exact[0])
    close("G with f the mean", 100 * wrong[1], exact[1])


def test_gamma_is_what_is_kept():
    rng = np.random.default_rng(0)
    q, mu0, var0 = belief("fc", rng, 3), rng.standard_normal(3), 0.7
    kept, forgotten = (
        br.predict(q, br.dynamics.OU(gamma=g, mu0=mu0, var0=var0)) for g in (1.0, 0.0)
    )
    assert all(np.array_equal(a, b) for a, b in zip(kept, q, strict=True))
    agree(forgotten, FC(mu0, var0 * np.eye(3)), {"mu": 1.0, "Sigma": 1.0})


def _vec_moments(Sigma):
    """Cov of (θ, vec θθᵀ) for θ ~ N(0, Σ), by the fourth moments of a Gaussian: the Fisher of
    (Σ⁻¹μ, −½ vec Σ⁻¹) at μ = 0.
    """
    P = len(Sigma)
    F = np.zeros((P + P * P, P + P * P))
    F[:P, :P] = Sigma
    for (i, j), (k, n) in itertools.product(itertools.product(range(P), repeat=2), repeat=2):
        F[P + i * P + j, P + k * P + n] = Sigma[i, k] * Sigma[j, n] + Sigma[i, n] * Sigma[j, k]
    return F


@pytest.mark.parametrize("P", [2, 3])
def test_fisher_over_all_matrices_is_singular(P):
    F = _vec_moments(spd(np.random.default_rng(P), P, 1.0))
    assert len(F) == P + P * P and np.linalg.matrix_rank(F) == P + P * (P + 1) // 2
    rng = np.random.default_rng(0)
    theta = br.sample(
        FC(np.zeros(P), spd(np.random.default_rng(P), P, 1.0)), 4000, rng
    )  # and by sampling
    T = np.concatenate(
        [theta, np.einsum("ni,nj->nij", theta, theta).reshape(len(theta), -1)], axis=1
    )
    blocks = np.stack([np.cov(t.T, bias=True) for t in T.reshape(40, 100, -1)])
    assert np.all(
        np.abs(blocks.mean(axis=0) - F * 0.99) <= 6 * blocks.std(axis=0, ddof=1) / np.sqrt(40)
    )


def test_a_singular_covariance_has_no_natural_parameters():
    q = FC(np.ones(2), np.ones((2, 2)))
    assert np.min(np.linalg.eigvalsh(q.Sigma)) >= -EPS and not br.gaussians.is_valid(
        q
    )  # positive semi-definite, not a belief
    assert np.all(
        np.isnan(fc_nat.natural(q)[1])
    )  # and the step of the library says so in place of a number


@pytest.mark.eq("eq:gL", "eq:GL")
@pytest.mark.parametrize("p, off", [((0.2, 0.3, 0.5), 0.0026), ((0.01, 0.01, 0.98), 0.032)])
def test_softmax_has_no_inverse_and_jitter_is_another_filter(p, off):
    model, lik = br.models.linear(1, 3), Categorical()
    mu, x, y = np.log(np.array(p)), np.ones(1), np.array([1.0, 0.0, 0.0])
    lin = linearise(model, lik, x, y, mu)
    with pytest.raises(np.linalg.LinAlgError):
        printed.lin_hess(lin)
    exact = definition.linear_f_delta(model, lik, x, y, mu)
    right = curvature.lin_hess(model, lik, x, y, mu)
    close("g", right.g, exact[0])
    close("G", dense(right), exact[1])
    pinv = np.linalg.pinv(
        lin.R, rcond=1e-10
    )  # e and the columns of H sum to 0, so the pseudo-inverse is an inverse for them
    close("g by pinv", lin.H.T @ pinv @ lin.e, exact[0], 1e4)
    close("G by pinv", -lin.H.T @ pinv @ lin.H, exact[1], 1e4)
    apart("G with jitter", printed.lin_hess(lin, 1e-3)[1], exact[1], off)


def test_a_right_mean_is_not_enough_for_the_empirical_fisher():
    """By Gauss–Hermite: y ~ N(ŷ, 2R), so E[g gᵀ] = −2G, where y ~ N(ŷ, R) gives −G."""
    model, lik, mu, x = (
        br.models.linear(2),
        Gaussian(0.5),
        np.array([0.3, -1.0]),
        np.array([1.0, 2.0]),
    )
    G = dense(curvature.lin_hess(model, lik, x, np.zeros(1), mu))
    z, w = np.polynomial.hermite_e.hermegauss(20)
    for factor in (1.0, 2.0):
        ys = model(mu, x) + np.sqrt(factor * 0.5) * z
        outer = sum(
            wk * dense(curvature.lin_ef(model, lik, x, np.array([yk]), mu))
            for wk, yk in zip(w / w.sum(), ys, strict=True)
        )
        close(f"{factor} R", outer, factor * G, 1e3)


# --- the rules ------------------------------------------------------------------------------------


@pytest.mark.eq("eq:bog")
def test_bog_as_printed_has_no_solution_away_from_stationary_points():
    """With ψ_t on both sides the gradient at ψ_t would have to be 0; that at the result of the
    corrected rule is not.
    """
    p = make("bog-lin-hess-diag_mom", ONE, alpha=0.1)
    right = plain(p.m)(p.prior, None, p.curv)
    agree(right, definition.step(p.m, p.prior, None, p.curv), conditions(p))
    again = plain(p.m)(right, None, p.curv)  # the right side of the printed equation at ψ_t
    apart("mu", again.mu, right.mu, 0.01)


@pytest.mark.eq("eq:blr")
def test_blr_with_the_fisher_in_place_of_its_inverse():
    """For one variance the Fisher is 1/(2σ⁴): the printed step is the right one times 1/(4σ⁸)."""
    m = br.method("blr-mc-hess-diag_mom", alpha=0.01)
    prior, current = Diag(np.zeros(1), np.ones(1)), Diag(np.full(1, 0.5), np.full(1, 0.5))
    curv = Curv(np.ones(1), d=-np.ones(1))
    right, wrong = (f(m, prior, current, curv) for f in (definition.step, printed.blr_rule))
    agree(plain(m)(prior, current, curv), right, {"mu": 10.0, "var": 10.0})
    close(
        "step of the variance", (wrong.var - current.var) * 4 * 0.5**4, right.var - current.var, 1e3
    )
    close("step of the mean", (wrong.mu - current.mu) * 0.5**2, right.mu - current.mu, 1e3)


def test_dlr_parameters_are_not_natural():
    """log q = ψᵀT(θ) − Φ(ψ) has a Hessian in ψ that does not depend on θ. Not so in (μ, Υ, W)."""

    def hessian(family, theta):
        def log_q(psi):
            mu, Sigma = family.moments(psi)
            return (
                -(
                    anp.linalg.slogdet(Sigma)[1]
                    + anp.dot(theta - mu, anp.linalg.solve(Sigma, theta - mu))
                )
                / 2
            )

        return jacobian(grad(log_q))(family.psi)

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3))
    for name, natural in (
        ("fc", True),
        ("diag", True),
        ("dlr", False),
        ("fc_mom", False),
        ("diag_mom", False),
    ):
        family = definition.FAMILIES[name](belief(name, rng, 3))
        one, other = hessian(family, a), hessian(family, b)
        assert compare.difference(name, one, other, 1e4).agrees == natural


def test_seventy_eight_of_eighty():
    assert len(NAMES) == 80 and len(NAMES) - len(NOT_DERIVED) == 78
    own = {m for e in paper.equations().values() if e.kind == "update" for m in e.methods}
    assert len(own & set(NAMES)) == 78  # the rows of the appendix, counted


def test_where_the_eighty_come_from():
    table = set(itertools.product(RULES, ("mc-ef", "lin-hess", "lin-ef"), ("fc", "diag", "dlr")))
    said = table | set(itertools.product(RULES, ("mc-hess", "lin-ef"), ("fc", "diag", "dlr")))
    assert (len(table), len(said)) == (36, 48)
    assert len(set(itertools.product(RULES, HESSIANS, FAMILIES)) - said) == 32


# --- costs: counted, not timed --------------------------------------------------------------------


class Counted(np.ndarray):
    """An array that counts the multiplications of its matrix products."""

    n = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        inputs = tuple(np.asarray(a) for a in inputs)
        if ufunc is np.matmul:
            Counted.n += inputs[0].size * (inputs[1].shape[1] if inputs[1].ndim == 2 else 1)
        out = getattr(ufunc, method)(*inputs, **kwargs)
        return out.view(Counted) if isinstance(out, np.ndarray) else out


def count(fn, *arrays):
    Counted.n = 0
    fn(*(np.asarray(a).view(Counted) for a in arrays))
    return Counted.n


def _core(Ups, W, G):
    """ΣĜ as eq:bog-dlr-B prints it, right to left."""
    inner = np.linalg.inv(np.eye(W.shape[1]) + np.asarray(W.T @ (W / Ups[:, None])))
    return G / Ups[:, None] - (W / Ups[:, None]) @ (inner @ (W.T @ (G / Ups[:, None])))


@pytest.mark.parametrize("R, M", [(8, 1), (2, 8)])
def test_cost_of_the_woodbury_core(R, M):
    """Multiplications of the products: R²P + 2RMP + R²M. The printed RMP cannot hold R²P when R >
    M.
    """
    rng = np.random.default_rng(0)
    P = 200
    Ups, W, G = rng.uniform(1, 2, P), rng.standard_normal((P, R)), rng.standard_normal((P, M))
    close("B", np.asarray(_core(Ups, W, G)), np.linalg.solve(np.diag(Ups) + W @ W.T, G), 1e3)
    got = count(_core, Ups, W, G)
    assert got == R * R * P + 2 * R * M * P + R * R * M
    assert (got > 3 * (R * M * P + M * R**2 + R**3)) == (R > M)


@pytest.mark.parametrize("C, R", [(10, 1), (2, 10)])
def test_cost_of_the_factor_of_lin_hess(C, R):
    """HᵀAᵀ is a (P, C) by (C, C) product: C²P, more than (C + R)RP when C is large beside R."""
    P = 50
    got = count(lambda H, A: H.T @ A.T, np.ones((C, P)), np.eye(C))
    assert got == C * C * P and (got > 3 * (C + R) * R * P) == (C > R)


@pytest.mark.eq("eq:BLR-FC-Nat-prec", "eq:blr-FC-mom-cov")
@pytest.mark.parametrize("family", ["fc", "fc_mom"])
def test_the_inner_loop_of_blr_changes_the_prior_by_a_low_rank(family):
    """Three displayed steps, exactly, of rank K: the change of the precision (FC) or of the
    covariance (FC_MOM) has rank 3K at most.
    """
    rng = np.random.default_rng(0)
    P, K = 8, 2
    whole = np.vectorize(Fraction, otypes=[object])
    A = whole(rng.integers(-3, 4, (P, P)))
    prior = FC(whole(rng.integers(-3, 4, P)), A @ A.T + whole(np.eye(P, dtype=int)))
    module, state, alpha = {"fc": fc_nat, "fc_mom": fc_mom}[family], prior, Fraction(1, 10)
    for k in range(1, 4):
        curv = Curv(whole(rng.integers(-3, 4, P)), S=whole(rng.integers(-2, 3, (P, K))))
        state = module.blr(prior, state, curv, alpha)
        turn = br.linalg.inv if family == "fc" else np.asarray
        assert _rank(turn(state.Sigma) - turn(prior.Sigma)) == min(P, k * K)


def _rank(A):
    """The rank of a matrix of fractions, by elimination without rounding."""
    A, rank = A.copy(), 0
    for j in range(A.shape[1]):
        pivot = next((i for i in range(rank, len(A)) if A[i, j] != 0), None)
        if pivot is None:
            continue
        A[[rank, pivot]] = A[[pivot, rank]]
        for i in range(rank + 1, len(A)):
            A[i] = A[i] - A[rank] * (A[i, j] / A[rank, j])
        rank += 1
    return rank


@pytest.mark.eq("eq:bog-FC-nat-prec")
def test_bog_fc_changes_the_precision_by_a_low_rank():
    """By rank K + 2, exactly, so that the Woodbury form costs O(KP²); and that form is the
    displayed one.
    """
    rng = np.random.default_rng(1)
    P, K = 8, 2
    whole = np.vectorize(Fraction, otypes=[object])
    A = whole(rng.integers(-3, 4, (P, P)))
    prior = FC(whole(rng.integers(1, 4, P)), A @ A.T + whole(np.eye(P, dtype=int)))
    curv = Curv(whole(rng.integers(1, 4, P)), S=whole(rng.integers(-2, 3, (P, K))))
    state = fc_nat.bog(prior, None, curv, Fraction(1, 1000))
    assert _rank(br.linalg.inv(state.Sigma) - br.linalg.inv(prior.Sigma)) == K + 2
    wood = fc_nat.bog_woodbury(prior, None, curv, Fraction(1, 1000))
    assert np.all(wood.mu == state.mu) and np.all(wood.Sigma == state.Sigma)


# --- experiments and pseudocode -------------------------------------------------------------------


def test_linearised_probabilities_leave_the_simplex():
    model, lik = br.models.linear(1, 3), Categorical()
    p = np.array([0.98, 0.01, 0.01])
    state = FC(np.log(p), np.eye(3))
    shifts = np.array([[-2.0, 2.0, 0.0], [2.0, -2.0, 0.0]])
    args = (model, lik, state, np.ones((1, 1)))
    h = br.predictive.lin_mc(*args, samples=state.mu + shifts).means[:, 0]
    f = br.predictive.lin_mc(*args, samples=state.mu + shifts, linearise="f").means[:, 0]
    close("h by hand", h, p + shifts @ (np.diag(p) - np.outer(p, p)))
    z = np.exp(np.log(p) + shifts)
    close("f by hand", f, z / z.sum(axis=1, keepdims=True))
    assert np.min(h[1]) < -0.02 and np.max(h[1]) > 1.03 and np.all((f > 0) & (f < 1))
    apart("classes of the first sample", h[0], f[0], 0.4)


def test_lin_mc_is_linearised_at_the_new_mean():
    """f(θ) = θ², y = 3, prior N(1, 1): 3.24 at μ_t = 1.8, and 2.6 by the H of the prior's mean."""
    lik, x, mu = Gaussian(1.0), np.zeros(1), 1.0
    prior = FC(np.array([mu]), np.eye(1))
    state, _ = br.update("bong-lin-hess-fc", SQUARE, lik, prior, x, np.array([3.0]))
    close("mean", state.mu, [1.8])
    around = state.mu + np.array([[-0.5], [0.5]])
    got = br.predictive.lin_mc(SQUARE, lik, state, x[None], samples=around).means.mean()
    close("at the new mean", got, 3.24)
    close("which is plugin's", got, br.predictive.plugin(SQUARE, lik, state, x[None]).mean.item())
    apart("at the prior's mean", mu**2 + 2 * mu * np.mean(around - mu), got, 0.1)


def test_mc_hess_is_not_negative_semi_definite():
    """f(θ) = θ², y = 2: 2(y − θ²) − 4θ² = 2.5 at θ = ½, and the precision becomes −1.5. The other
    three cannot do that.
    """
    lik, x, y, theta = Gaussian(1.0), np.zeros(1), np.array([2.0]), np.array([[0.5]])
    curv = curvature.mc_hess(SQUARE, lik, x, y, theta)
    close("G", curv.G, [[2.5]])
    state, info = br.step("bong-mc-hess-fc", FC(theta[0], np.eye(1)), None, curv)
    close("precision", 1 / state.Sigma, [[-1.5]])
    assert not info.valid
    rng = np.random.default_rng(0)
    model, lik = br.models.mlp([2, 3, 2], activation="tanh"), Gaussian(0.5)
    for seed in range(5):
        theta = model.init(np.random.default_rng(seed))
        x, y = rng.standard_normal(2), rng.standard_normal(2)
        samples = theta + rng.standard_normal((3, len(theta)))
        linear = [fn(model, lik, x, y, theta) for fn in (curvature.lin_hess, curvature.lin_ef)]
        for c in (curvature.mc_ef(model, lik, x, y, samples), *linear):
            lam = np.linalg.eigvalsh(dense(c))
            assert lam[-1] <= compare.C * EPS * -lam[0]
        lam = np.linalg.eigvalsh(dense(curvature.mc_hess(model, lik, x, y, samples)))
        assert lam[-1] > 0.01 * -lam[0]


@pytest.mark.eq("eq:GMCEF")
def test_the_outer_product_needs_its_sign():
    rng = np.random.default_rng(0)
    model, lik, x, y = br.models.linear(3), Gaussian(0.5), rng.standard_normal(3), np.ones(1)
    samples = rng.standard_normal((4, 3))
    right = definition.curv("mc-ef", model, lik, x, y, samples[0], samples).G
    Ghat = np.stack([grad(lambda t: lik.log_prob(model(t, x), y))(t) for t in samples], axis=1)
    close("G", dense(curvature.mc_ef(model, lik, x, y, samples)), right)
    close("−4 G", printed.mc_ef_outer(Ghat), -4 * right)


def test_sarcos_has_21_inputs():
    """7 positions, 7 velocities, 7 accelerations; weights and biases counted layer by layer."""
    size = lambda D: (D + 1) * 20 + 21 * 20 + 21
    assert size(21) == br.models.mlp([21, 20, 20, 1]).n_params == 881
    assert size(22) == br.models.mlp([22, 20, 20, 1]).n_params == 901


def test_a_convex_log_partition_is_not_enough_for_a_bijection():
    """Φ(ψ) of vec(Σ⁻¹) is convex: its Hessian is a covariance. Two ψ that differ by an
    antisymmetric matrix have the same density.
    """
    rng = np.random.default_rng(0)
    prec = spd(rng, 2, 1.0)
    turned = prec + np.array([[0.0, 1.0], [-1.0, 0.0]])
    for theta in rng.standard_normal((5, 2)):  # ψᵀT(θ) = θᵀΣ⁻¹μ − ½ θᵀΣ⁻¹θ
        close("log q", theta @ turned @ theta, theta @ prec @ theta, 1e2)
    lam = np.linalg.eigvalsh(_vec_moments(np.linalg.inv(prec)))
    assert lam[0] > -1e3 * EPS * lam[-1] and lam[0] < 1e3 * EPS * lam[-1] < lam[1]


# --- FC -------------------------------------------------------------------------------------------


@pytest.mark.eq("eq:bog-FC-nat-prec", "eq:bbb-FC-nat-prec")
@pytest.mark.parametrize("rule", ["bog", "bbb"])
def test_gradient_rules_of_fc_without_the_symmetric_part(rule):
    p = make(f"{rule}-lin-hess-fc", ONE, alpha=0.02)
    right = plain(p.m)(p.prior, p.current, p.curv)
    agree(right, definition.step(p.m, p.prior, p.current, p.curv), conditions(p), rule)
    wrong = {"bog": printed.bog_fc, "bbb": printed.bbb_fc}[rule](p.prior, p.current, p.curv, 0.02)
    prec = np.linalg.inv(wrong.Sigma)
    apart("its own transpose", prec, prec.T, 0.01)
    close("the symmetric part", (prec + prec.T) / 2, np.linalg.inv(right.Sigma), 1e3)
    apart("Sigma", wrong.Sigma, right.Sigma, 0.01)


def test_the_asymmetry_in_the_effect_of_the_erratum():
    prior, curv = (
        FC(np.array([1.0, 2.0]), np.diag([1.0, 2.0])),
        Curv(np.array([1.0, 0.0]), G=np.zeros((2, 2))),
    )
    change = np.linalg.inv(prior.Sigma) - np.linalg.inv(
        printed.bog_fc(prior, None, curv, 0.1).Sigma
    )
    close("4αΣgμᵀ", change, [[0.4, 0.8], [0.0, 0.0]])


@pytest.mark.eq("sec:FC-Nat#39")
def test_bbb_fc_psi2_with_the_indices_of_the_prior():
    p = make("bbb-lin-hess-fc", ONE, alpha=0.02)
    start = fc_nat.natural(p.current)[1]
    right, wrong = (
        f(p.prior, p.current, p.curv, 0.02)[1] for f in (fc_nat.bbb_psi, printed.bbb_fc_psi)
    )
    wanted = definition.step(p.m, p.prior, p.current, p.curv)
    close("psi2", right, -np.linalg.inv(wanted.Sigma) / 2, 1e3)
    apart("increment of psi2", wrong - start, right - start, 0.1)
    same = fc_nat.bbb_psi(p.prior, p.prior, p.curv, 0.02)[1]  # at i = 1 the two are the same
    close("psi2 at i = 1", printed.bbb_fc_psi(p.prior, p.prior, p.curv, 0.02)[1], same)


@pytest.mark.eq("sec:FC-Mom#15")
def test_three_second_order_blocks_of_vec_sigma():
    """With P² free entries: the printed block, the second derivative of the KL, the covariance of
    the score.

    The score in vec Σ is ½ vec(Σ⁻¹zzᵀΣ⁻¹ − Σ⁻¹), its covariance is by fourth moments; the second
    derivative is by autograd.
    """
    P = 3
    prec = spd(np.random.default_rng(0), P, 1.0)
    printed_block = fc_mom.fisher(FC(np.zeros(P), np.linalg.inv(prec)))[P:, P:]

    def kl(vec):
        Sigma = anp.reshape(vec, (P, P))
        return (anp.sum(prec * Sigma) - anp.linalg.slogdet(Sigma)[1]) / 2

    second = jacobian(grad(kl))(np.linalg.inv(prec).ravel())
    fisher = _vec_moments(prec)[P:, P:] / 4  # Σ⁻¹z ~ N(0, Σ⁻¹)
    commute = np.eye(P * P).reshape(P, P, P * P).transpose(1, 0, 2).reshape(P * P, P * P)
    close("K(Σ⁻¹⊗Σ⁻¹)/2", second, commute @ printed_block)
    close("(I + K)(Σ⁻¹⊗Σ⁻¹)/4", fisher, (np.eye(P * P) + commute) @ printed_block / 2)
    basis = definition._symmetric_basis(P).reshape(P * (P + 1) // 2, -1)
    for block in (second, fisher):
        close("on symmetric ones", basis @ block @ basis.T, basis @ printed_block @ basis.T)
    assert np.linalg.matrix_rank(fisher) == len(basis)
    assert np.sum(np.linalg.eigvalsh((second + second.T) / 2) < 0) == P * (P - 1) // 2
    skew = (np.eye(P * P) - commute)[1]
    assert skew @ printed_block @ skew > 0.1 > -0.1 > skew @ second @ skew
    close("the Fisher of a skew direction", fisher @ skew + 1, np.ones(P * P))


@pytest.mark.eq("eq:FC-NLL-psi2")
def test_gradient_in_the_entries_of_vech():
    """ψ⁽²⁾ by its P(P+1)/2 entries: autograd of E[ℓ] for a quadratic ℓ, off the diagonal twice the
    symmetric part.
    """
    P, rng = 3, np.random.default_rng(0)
    q, A, b = belief("fc", rng, P), spd(rng, P, 1.0), rng.standard_normal(P)
    psi1 = np.linalg.solve(q.Sigma, q.mu)
    rows, cols = np.tril_indices(P)

    def expected(vech):
        """E[bᵀθ − ½θᵀAθ] under N(ψ⁽¹⁾, ψ⁽²⁾); g = b − Aμ, G = −A."""
        unit = np.eye(P)
        psi2 = sum(
            v * (np.outer(unit[i], unit[j]) + (i != j) * np.outer(unit[j], unit[i]))
            for v, i, j in zip(vech, rows, cols, strict=True)
        )
        Sigma = -anp.linalg.inv(psi2) / 2
        mu = Sigma @ psi1
        return b @ mu - (mu @ A @ mu + anp.sum(A * Sigma)) / 2

    D = 2 * np.outer(q.Sigma @ (b - A @ q.mu), q.mu) - q.Sigma @ A @ q.Sigma
    wanted = (D + D.T - np.diag(np.diag(D)))[rows, cols]
    got = grad(expected)((-np.linalg.inv(q.Sigma) / 2)[rows, cols])
    close("gradient in vech(ψ⁽²⁾)", got, wanted, 1e4)
    apart("the symmetric part", ((D + D.T) / 2)[rows, cols], got, 0.05)


@pytest.mark.eq("eq:blr-FC-mom-cov")
def test_blr_fc_mom_needs_one_inverse(monkeypatch):
    """The loop with the prior's precision computed once, against three steps of the reference."""
    rng = np.random.default_rng(0)
    prior, alpha = belief("fc", rng, 4), 0.2
    prec0, mu, Sigma, current = np.linalg.inv(prior.Sigma), prior.mu, prior.Sigma, prior
    for _ in range(3):
        g, G = rng.standard_normal(4), -spd(rng, 4, 1.0) / 50
        mu, Sigma = (
            mu + alpha * Sigma @ (prec0 @ (prior.mu - mu) + g),
            (1 + alpha) * Sigma + alpha * Sigma @ (G - prec0) @ Sigma,
        )
        current = fc_mom.blr(prior, current, Curv(g, G=G), alpha)
    close("mean", current.mu, mu, 1e4)
    close("covariance", current.Sigma, Sigma, 1e4)


@pytest.mark.eq("sec:DLR-deriv#13")
def test_ties_at_the_cut():
    """W̃ = [e₁, e₂], R = 1: every unit vector of their span is a top singular vector, and each
    leaves another state.
    """
    W_tilde, states = np.eye(3)[:, :2], []
    for angle in (0.0, 0.4, np.pi / 2):
        v = np.array([np.cos(angle), np.sin(angle)])
        W = W_tilde @ v[:, None]
        close("a singular vector", W_tilde @ (W_tilde.T @ W), W)
        Ups = 1 + np.sum(W_tilde**2, axis=1) - np.sum(W**2, axis=1)
        states.append((W @ W.T, Ups))
        close("the diagonal", Ups + np.diag(W @ W.T), np.array([2.0, 2.0, 1.0]))
    apart("W Wᵀ", states[0][0], states[1][0], 0.1)
    apart("Υ", states[0][1], states[2][1], 0.1)


def test_lin_hess_is_not_the_hessian():
    """f = θ², y = 2, R = 1, θ = ½: 2y − 6θ² = 2.5 by autograd, −(2θ)² = −1 by LIN-HESS."""
    lik, x, y, mu = Gaussian(1.0), np.zeros(1), np.array([2.0]), np.array([0.5])
    hessian = grad(grad(lambda theta: -((2.0 - theta**2) ** 2) / 2))(0.5)
    close("the Hessian", hessian, 2.5)
    close("LIN-HESS", dense(curvature.lin_hess(SQUARE, lik, x, y, mu)), [[-1.0]])


@pytest.mark.parametrize("rule", RULES)
def test_lin_ef_recipes_with_the_sampled_gradient(rule):
    """The printed recipe leaves g^MC in the mean: with S = g^LIN the other parts are those of
    LIN-EF, the mean is not.
    """
    lik, x, y = Gaussian(1.0), np.zeros(1), np.array([2.0])
    prior = br.DLR(np.ones(1), np.array([2.0]), np.array([[0.5]]))
    lin = curvature.lin_ef(SQUARE, lik, x, y, prior.mu)
    mc = curvature.mc_ef(SQUARE, lik, x, y, np.array([[0.2], [1.5]]))
    m = br.method(f"{rule}-lin-ef-dlr", rank=1, **({} if rule == "bong" else {"alpha": 0.1}))
    right = br.step(m, prior, prior, lin)[0]
    literal = br.step(m, prior, prior, Curv(mc.g, S=lin.S))[0]
    close("Υ + WWᵀ", literal.Ups + literal.W[:, 0] ** 2, right.Ups + right.W[:, 0] ** 2)
    apart("mean", literal.mu, right.mu, 0.01)


def test_the_appendix_has_no_results_of_mc_hess():
    """Between the heading of the experiments' appendix and the proofs, MC-HESS stands in one
    caption, of running times.
    """
    if not TEX.exists():
        pytest.skip("no LaTeX source of the paper; name it in BONGREF_PAPER")
    lines = TEX.read_text(encoding="utf-8").splitlines()
    first, last = source.item("sec:appx-expts").line, source.item("sec:proofs").line
    found = [
        line.strip()
        for line in lines[first - 1 : last]
        if re.search(r"\\hessmc|\\mchess|MC-Hess", line, re.IGNORECASE)
    ]
    assert found == ["EF0-Lin0 = MC-Hess,"], "a name in the caption of the running times"


@pytest.mark.eq("eq:bog-fc-mom-mu")
def test_mean_of_bog_depends_on_the_covariance_through_the_samples():
    """f(θ) = θ², y = 2, μ = 1: E[g] = 2 − 6σ², by Gauss–Hermite points as samples; linearised, g is
    2 for any σ².
    """
    lik, x, y, mu = Gaussian(1.0), np.zeros(1), np.array([2.0]), np.ones(1)
    z = np.array(
        [-np.sqrt(3.0), 0.0, 0.0, 0.0, 0.0, np.sqrt(3.0)]
    )  # three points, weights 1/6, 2/3, 1/6: exact to degree 5
    for var in (1.0, 0.01):
        samples = (mu + np.sqrt(var) * z)[:, None]
        prior = FC(mu, var * np.eye(1))
        mc, lin = (
            curvature.mc_ef(SQUARE, lik, x, y, samples),
            curvature.lin_ef(SQUARE, lik, x, y, mu),
        )
        for curv, g in ((mc, 2 - 6 * var), (lin, 2.0)):
            state = br.step(br.method("bog-mc-ef-fc_mom", alpha=0.125), prior, None, curv)[0]
            close(f"mean at variance {var}", state.mu, mu + 0.125 * g)


# --- diagonal -------------------------------------------------------------------------------------


def test_dual_of_the_diagonal_gaussian():
    """E[θ²] by the moments of a sample-free quadrature; the printed form is not even a vector."""
    q = belief("diag", np.random.default_rng(0), 3)
    z, w = np.polynomial.hermite_e.hermegauss(5)
    second = np.sum(w / w.sum() * (q.mu[:, None] + np.sqrt(q.var)[:, None] * z) ** 2, axis=1)
    close("rho2", diag_nat.dual(q)[1], second)
    assert printed.diag_dual(q)[1].shape == (3, 3)
    apart("its diagonal with another column's variance", printed.diag_dual(q)[1][:, 0], second, 0.1)


def test_kl_of_the_diagonal_gaussian():
    rng = np.random.default_rng(0)
    q, p = belief("diag", rng, 3), belief("diag", rng, 3)
    full = fc_nat.kl(FC(q.mu, np.diag(q.var)), FC(p.mu, np.diag(p.var)))
    close("kl", diag_nat.kl(q, p), full)
    wrong = printed.diag_kl(q, p)
    assert wrong.shape == (3,)
    apart("printed, each entry", wrong, np.full(3, full), 0.1)


def test_diagonal_of_a_product():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((5, 3)), rng.standard_normal((3, 5))
    wanted = np.diag(A @ B)
    close("j = 1..m", printed.diag_product(A, B, 3), wanted)
    apart("j = 1..M with M = 2", printed.diag_product(A, B, 2), wanted, 0.1)
    c = Curv(A[:, 0], S=A)
    close("the one in use", curvature.diagonal(c), np.diag(-A @ A.T))


# --- DLR ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("P, R", [(5, 1), (6, 2), (9, 3)])
def test_fisher_of_ups_and_w_is_singular_beyond_rank_one(P, R):
    """By the definition's Fisher: size P + RP, rank lower by R(R−1)/2, the turns of W; the block of
    μ stands apart.
    """
    q = belief("dlr", np.random.default_rng(P), P, R)
    F = definition.fisher(definition._DLR(q), q.mu, dlr.covariance(q))
    block, cross = F[P:, P:], F[:P, P:]
    assert len(block) == P + R * P
    assert np.linalg.matrix_rank(block, tol=1e-9 * np.max(block)) == P + R * P - R * (R - 1) // 2
    assert np.max(np.abs(cross)) <= compare.C * 100 * EPS * np.max(np.abs(F))


def test_the_kept_vectors_are_those_of_w_tilde():
    Ups, W = np.array([10.0, 1.0]), np.diag([1.0, 2.0])
    new_Ups, new_W = dlr.project(Ups, W, 1)
    top = np.linalg.eigh(np.diag(Ups) + W @ W.T)[1][:, -1]
    close("kept", np.abs(new_W[:, 0]), [0.0, 2.0])
    close("top of the precision", np.abs(top), [1.0, 0.0])
    close("the diagonal", new_Ups + new_W[:, 0] ** 2, [11.0, 5.0])
    rng = np.random.default_rng(0)  # and with Υ̃ = 3I they are the same
    W = rng.standard_normal((5, 3))
    _, kept = dlr.project(np.full(5, 3.0), W, 2)
    lam, U = np.linalg.eigh(3 * np.eye(5) + W @ W.T)
    close("W Wᵀ", kept @ kept.T, (U[:, -2:] * (lam[-2:] - 3)) @ U[:, -2:].T)


@pytest.mark.eq("sec:DLR-deriv#14")
def test_projection_by_subtraction_cancels():
    """Singular values 1, 1e-9, 1e-9 and Υ̃ = 0: what Υ gains is known, (1e-9)² split over the rows
    of the lost columns.
    """
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (4, 3))
    W = (U * np.array([1.0, 1e-9, 1e-9])) @ V.T
    wanted = 1e-18 * np.sum(U[:, 1:] ** 2, axis=1)
    close("Ups", dlr.project(np.zeros(4), W, 1)[0], wanted, 1e9)  # cond(W̃)
    wrong = printed.project(np.zeros(4), W, 1)[0]
    apart("Ups by subtraction", wrong, wanted, 10.0)
    assert np.min(wrong) < -1e-17


@pytest.mark.eq("sec:DLR-deriv#29", "sec:LBLR-DLR#6", "sec:DLR-deriv#39")
def test_lower_cholesky_factor_is_another_precision():
    R = np.array([[2.0, 0.5], [0.5, 1.0]])
    A = np.linalg.cholesky(np.linalg.inv(R))
    assert abs(np.max(np.abs(A.T @ A - np.linalg.inv(R))) - 0.14) < 0.005
    for C, least in ((1, 0.0), (2, 0.05)):
        model, lik = br.models.linear(3, C), Gaussian(R[:C, :C])
        rng = np.random.default_rng(0)
        mu, x, y = rng.standard_normal(3 * C), rng.standard_normal(3), rng.standard_normal(C)
        G = definition.curv("lin-hess", model, lik, x, y, mu).G
        S = printed.lin_hess_factor(linearise(model, lik, x, y, mu))
        close("G", dense(curvature.lin_hess(model, lik, x, y, mu)), G)
        if C == 1:
            close("G by the lower factor, C = 1", -S @ S.T, G)
        else:
            apart("G by the lower factor", -S @ S.T, G, least)


def test_blr_dlr_has_no_low_rank_factor_beyond_alpha_one():
    """(1 − α)WWᵀ + αW_pW_pᵀ + αSSᵀ, the low-rank part of the precision, has a negative eigenvalue
    at α = 1.5.
    """
    rng = np.random.default_rng(0)
    W, Wp, S = rng.standard_normal((3, 6, 2))
    low = lambda a: (1 - a) * W @ W.T + a * (Wp @ Wp.T + S @ S.T)
    assert np.linalg.eigvalsh(low(1.5))[0] < -0.1 and np.linalg.eigvalsh(low(0.5))[0] > -1e2 * EPS
    for name in (
        "blr-lin-hess-dlr",
        "blr-lin-hess-fc",
    ):  # the weight of the old precision is 1 − α in every family
        with pytest.raises(ValueError, match="alpha must be in"):
            br.method(name, alpha=1.5)
    p = make(
        "blr-lin-hess-fc", ONE
    )  # but the equations of FC can be evaluated: from the prior, Σ⁻¹ = Σ_p⁻¹ − αG
    prec = np.linalg.inv(fc_nat.blr(p.prior, p.prior, p.curv, 1.5).Sigma)
    close("precision at α = 1.5", prec, np.linalg.inv(p.prior.Sigma) - 1.5 * dense(p.curv), 1e3)


@pytest.mark.eq("eq:bbb-dlr-mu")
def test_bbb_dlr_with_the_gradient_of_the_first_iteration():
    p = make("bbb-lin-hess-dlr", ONE, alpha=0.05)
    first = Curv(-p.curv.g, S=p.curv.S)
    right, wrong = (
        dlr.bbb(p.prior, p.current, p.curv, 0.05),
        printed.bbb_dlr(p.prior, p.current, p.curv, 0.05, first),
    )
    agree(right, definition.step(p.m, p.prior, p.current, p.curv), conditions(p), whole=True)
    apart("step of the mean", wrong.mu - p.current.mu, right.mu - p.current.mu, 0.1)
    start = dlr.bbb(p.prior, p.prior, first, 0.05)  # at i = 1 the two are the same
    agree(
        printed.bbb_dlr(p.prior, p.prior, first, 0.05, first),
        start,
        dict.fromkeys(("mu", "Ups", "W W^T"), 1.0),
    )


def test_slang_lin_ef_with_an_identity_of_rank():
    rng = np.random.default_rng(0)
    model, lik = br.models.linear(4), Bernoulli()
    q, x, y = belief("dlr", rng, 4, 2), rng.standard_normal(4), np.ones(1)
    with pytest.raises(ValueError, match="broadcast"):
        printed.slang_lin_ef(model, lik, q, x, y, 0.3, 0.5)
    g = curvature.lin_ef(model, lik, x, y, q.mu).g
    prec = 0.7 * dlr.precision(q) + 0.3 * (0.5 * np.eye(4) + np.outer(g, g))
    wanted = q.mu + 0.3 * np.linalg.solve(prec, g - 0.5 * q.mu)
    close("mu with I_{R+1}", batch.slang_lin_ef(model, lik, q, x, y, 0.3, 0.5).mu, wanted, 1e3)


# --- the command and the page ---------------------------------------------------------------------


def test_the_page_is_made_from_the_ledger(tmp_path):
    """`bongref errata --out docs/errata.md` makes it."""
    out = tmp_path / "errata.md"
    assert cli.main(["errata", "--out", str(out)]) == 0
    page = index.ROOT / "docs" / "errata.md"
    assert out.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    assert all(f"| {e.id} |" in page.read_text(encoding="utf-8") for e in ERRATA)


def in_section(e, id):
    return id in map(tables.section, (e.where, *e.also))


def _ids(text):
    return re.findall(r"^(E\d{2,3}) ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], lambda e: True),
        (["--kind", "wrong cost"], lambda e: e.kind == "wrong cost"),
        (["--section", "sec:DLR-deriv"], lambda e: in_section(e, "sec:DLR-deriv")),
        (
            ["--section", "sec:diag-Nat", "--kind", "index"],
            lambda e: e.kind == "index" and "sec:diag-Nat" in map(tables.section, tables.places(e)),
        ),
        (
            ["--method", "bbb-*-dlr"],
            lambda e: any("bbb" in m and m.endswith("dlr") for m in tables.methods(e)),
        ),
    ],
)
def test_errata_on_the_command_line(options, wanted, capsys):
    assert cli.main(["errata", *options]) == 0
    assert _ids(capsys.readouterr().out) == [e.id for e in ERRATA if wanted(e)] != []


def test_one_erratum_in_full(capsys):
    for key in ("E09", errata.erratum("E09").name):
        assert cli.main(["errata", key]) == 0
        text = " ".join(capsys.readouterr().out.split())
        e = errata.erratum("E09")
        assert all(part in text for part in (e.printed, e.corrected, e.effect, e.test, str(e.line)))
    assert cli.main(["errata", "E00"]) == 2 and "E01 to" in capsys.readouterr().err
    assert cli.main(["errata", "--kind", "mistake"]) == 2
    assert (
        cli.main(["errata", "--section", "sec:none"]) == 2 and "nothing" in capsys.readouterr().err
    )


def test_errata_to_a_file(tmp_path, capsys):
    for ending in ("json", "html", "md"):
        out = tmp_path / f"e.{ending}"
        assert cli.main(["errata", "--kind", "index", "--out", str(out)]) == 0
        text = out.read_text(encoding="utf-8")
        assert all(e.id in text for e in ERRATA if e.kind == "index")
        assert not any(e.id in text for e in ERRATA if e.kind == "wrong cost")
    rows = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["errata"]
    assert [r["id"] for r in rows] == [e.id for e in ERRATA if e.kind == "index"]
    assert (
        cli.main(["errata", "--out", str(tmp_path / "e.txt")]) == 2
        and ".json" in capsys.readouterr().err
    )


def test_an_equation_shows_its_errata_and_claims():
    text = paper.show("eq:BLR-FC-Nat-prec")
    assert "blr-FC-cost" in text and errata.erratum("blr-FC-cost").corrected in " ".join(
        text.split()
    )
    assert re.search(r"^claim     C\d\d \(", text, re.MULTILINE)

"""The comparison with the literature's own code: what it compares, its results, its page."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bongref as br
from bongref.curvature import Curv
from bongref.families.dlr import project
from bongref.states import FC, Diag
from bongref.theory import batch, literature
from validation.originals import ORIGINALS, Row
from validation.originals import __main__ as main

EPS = np.finfo(float).eps


def test_the_page_is_made_from_the_results():
    results = json.loads(main.RESULTS.read_text(encoding="utf-8"))
    assert set(results) == set(ORIGINALS)
    assert main.PAGE.read_text(encoding="utf-8") == main.markdown(results)
    for name, entry in results.items():
        for row in map(lambda r: Row(**r), entry["rows"]):
            assert row.holds, (name, row)


def test_a_difference_beyond_its_bound_is_seen():
    row = Row("step", "theirs", "ours", 1, difference=1e-9, bound=1e-12)
    assert not row.holds and row._replace(expected="other").holds
    assert "NOT same" in main.markdown({"rvga": {"version": "1", "rows": [row._asdict()]}})


def test_an_original_that_is_absent_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("BONGREF_ORIGINAL_RVGA", raising=False)
    monkeypatch.setattr(main, "RESULTS", tmp_path / "originals.json")
    monkeypatch.setattr(main, "PAGE", tmp_path / "originals.md")
    monkeypatch.setattr(main, "run", lambda name: main.compute(name))
    assert main.main(["rvga"]) == 0
    assert "BONGREF_ORIGINAL_RVGA is not set" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main.main(["nobody"])


# --- IVON -----------------------------------------------------------------------------------------


def test_ivons_hessian_is_steins_identity():
    """E[ĝ(θ − μ)/σ²] = E[f''] for θ ~ N(μ, σ²); f' a polynomial of degree 3, so that three
    Gauss–Hermite nodes are exact."""
    q = batch.to_averaged(Diag(np.array([0.3]), np.array([0.25])), n=4, lam=2.0)
    slope = lambda t: 1 + 2 * t - t**2 + 0.5 * t**3
    second = lambda t: 2 - 2 * t + 1.5 * t**2
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    weights, std = weights / np.sqrt(2 * np.pi), 0.5
    beta = 1e-3
    moved = []
    for z in nodes:
        theta = q.mu + std * z
        after = batch.ivon(q, theta, slope(theta), 0.1, beta, 4, 2.0)
        hhat = slope(theta) * z / std
        extra = beta**2 * (q.s - hhat) ** 2 / (2 * (q.s + 0.5))
        moved.append((after.s - extra - (1 - beta) * q.s) / beta)
    want = second(0.3) + 1.5 * 0.25  # E of 2 − 2θ + 1.5θ²
    got = float(weights @ np.array(moved)[:, 0])
    assert abs(got - want) <= 64 * EPS / beta * abs(want)


def test_ivons_precision_stays_positive():
    rng = np.random.default_rng(0)
    q = batch.to_averaged(Diag(rng.standard_normal(5), rng.uniform(0.1, 2, 5)), n=3, lam=0.7)
    for _ in range(200):  # gradients that mean nothing, with large steps
        std = np.sqrt(batch.from_scaled(batch.Scaled(q.mu, q.s), 3, 0.7).var)
        theta = q.mu + std * rng.standard_normal(5)
        before = q.s + 0.7 / 3
        q = batch.ivon(q, theta, rng.standard_normal(5), 0.01, 0.9, 3, 0.7, momentum=0.5)
        assert np.all(q.s + 0.7 / 3 >= before / 2 * (1 - 64 * EPS))


def test_ivon_is_batch_blr_to_first_order():
    """The precision is that of batch.diag with G = −N ĥ up to terms in β², the mean follows it."""
    rng = np.random.default_rng(1)
    start, n, lam = Diag(rng.standard_normal(4), rng.uniform(0.2, 1, 4)), 6, 1.5
    theta, ghat = start.mu + 0.3 * rng.standard_normal(4), rng.standard_normal(4)
    hhat = ghat * (theta - start.mu) / start.var
    gaps = []
    for beta in (1e-2, 1e-3):
        q = batch.ivon(batch.to_averaged(start, n, lam), theta, ghat, beta, beta, n, lam)
        want = batch.diag(start, Curv(g=-n * ghat, d=-n * hhat), beta, lam)
        ours = batch.from_scaled(batch.Scaled(q.mu, q.s), n, lam)
        gaps.append(np.max(np.abs(1 / ours.var - 1 / want.var)))
        # the mean of both is μ − β (N ĝ + λ μ) σ², with the precision of each
        step = beta * (n * ghat + lam * start.mu)
        assert np.allclose(ours.mu, start.mu - step * ours.var, rtol=0, atol=64 * EPS * 10)
    assert gaps[0] / gaps[1] == pytest.approx(100, rel=64 * EPS * 1e10)  # exactly β²


def test_ivons_momentum_is_the_corrected_average():
    """After t iterations the mean moves by Σ_k w_k ĝ_k, the weights (1−ρ)ρ^(t−k)/(1−ρ^t)."""
    rng = np.random.default_rng(2)
    q, rho, grads = batch.to_averaged(Diag(np.zeros(2), np.ones(2)), 3, 1.0), 0.6, []
    for t in range(1, 6):
        grads.append(rng.standard_normal(2))
        before, q = q, batch.ivon(q, q.mu, grads[-1], 0.1, 0.2, 3, 1.0, momentum=rho)
        weights = (1 - rho) * rho ** np.arange(t - 1, -1, -1) / (1 - rho**t)
        want = before.mu - 0.1 * (weights @ grads + before.mu / 3) / (q.s + 1 / 3)
        assert np.max(np.abs(q.mu - want)) <= 64 * EPS


# --- factor analysis ------------------------------------------------------------------------------


def _kl(S, Ups, W):
    """KL(q | p) of the Gaussians with these precisions, the projection first."""
    F = np.diag(Ups) + W @ W.T
    ratio = np.linalg.solve(F, S)
    return 0.5 * (np.trace(ratio) - len(S) - np.linalg.slogdet(ratio)[1])


@pytest.mark.parametrize("seed", range(5))
def test_factor_analysis_is_nearer_than_the_svd(seed):
    rng = np.random.default_rng(seed)
    Ups, W_tilde = rng.uniform(0.5, 2, 8), rng.standard_normal((8, 4))
    S = np.diag(Ups) + W_tilde @ W_tilde.T
    svd = project(Ups, W_tilde, 2)
    assert np.allclose(np.diag(S), svd[0] + np.sum(svd[1] ** 2, axis=1), rtol=64 * EPS)
    last = np.inf
    for n_iter in range(1, 40):
        now = _kl(S, *literature.factor_analysis(Ups, W_tilde, svd[1], n_iter))
        assert now <= last + 64 * EPS * len(S)  # EM is monotone
        last = now
    assert last < _kl(S, *svd) * (1 - 1e-4)


def test_an_iteration_maximises_the_expected_log_density():
    """Q(Υ, W) = E[log N(x | Wz, Υ)], x ~ N(0, S), z | x by the factor model of the iteration
    before: its derivative by central differences vanishes at the new Υ, W, and not at the old ones.
    """
    rng = np.random.default_rng(7)
    Ups, W_tilde, W = (
        rng.uniform(0.5, 2, 6),
        rng.standard_normal((6, 3)),
        rng.standard_normal((6, 2)),
    )
    S = np.diag(Ups) + W_tilde @ W_tilde.T
    joint = np.linalg.inv(np.diag(Ups) + W @ W.T)
    xz = S @ joint @ W  # E[x zᵀ] = E[x E[z|x]ᵀ]
    zz = np.linalg.inv(np.eye(2) + (W.T / Ups) @ W) + W.T @ joint @ S @ joint @ W

    def expected(v):
        D, B = v[:6], v[6:].reshape(6, 2)
        errors = np.diag(S) - 2 * np.sum(B * xz, axis=1) + np.einsum("pi,ij,pj->p", B, zz, B)
        return -0.5 * np.sum(np.log(D) + errors / D)

    def slope(v):
        h = 1e-5
        steps = h * np.eye(len(v))
        return max(abs(expected(v + s) - expected(v - s)) / (2 * h) for s in steps)

    new = literature.factor_analysis(Ups, W_tilde, W, 1)
    # central differences: h² times the third derivative, and eps |Q| / h
    assert slope(np.concatenate([new[0], new[1].ravel()])) < 1e-7
    assert slope(np.concatenate([Ups, W.ravel()])) > 0.1


def test_a_factor_model_is_a_fixed_point():
    rng = np.random.default_rng(3)
    Ups, W = rng.uniform(0.5, 2, 7), rng.standard_normal((7, 2))
    zeros = np.zeros((7, 1))
    got = literature.factor_analysis(Ups, np.hstack([W, zeros]), W, 5)
    assert np.max(np.abs(got[0] - Ups)) <= 1e3 * EPS and np.max(np.abs(got[1] - W)) <= 1e3 * EPS
    q, p = br.DLR(np.zeros(7), *got), FC(np.zeros(7), np.linalg.inv(np.diag(Ups) + W @ W.T))
    assert abs(br.kl(q, p)) <= 1e4 * EPS

"""sec:blr-batch is online BLR with the prior N(0, I/λ); where VON, VOGN and SLANG are batch BLR and
where they are not.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import Size, agree, belief, curvature, make, sizes

import bongref as br
from bongref.curvature import Curv, linearise, mc_ef, mc_hess
from bongref.gaussians import covariance
from bongref.models import grad, hessian
from bongref.routes import compare, exact
from bongref.states import DLR, FC, Diag
from bongref.theory import batch

APART = 1e3  # a difference of this many tolerances is no rounding

ROWS = {
    "fc": [f"sec:blr-batch#{i}" for i in (1, 2)],
    "fc_mom": [f"sec:blr-batch#{i}" for i in (5, 6)],
    "diag": [f"sec:blr-batch#{i}" for i in (9, 10)],
    "diag_mom": [f"sec:blr-batch#{i}" for i in (13, 14)],
    "dlr": ["eq:slang-mu", "eq:slang-Wtilde", *(f"sec:blr-batch#{i}" for i in (18, 19, 20, 23))],
}
LIN_ROWS = {
    "fc": [f"sec:blr-batch#{i}" for i in (3, 4)],
    "fc_mom": [f"sec:blr-batch#{i}" for i in (7, 8)],
    "diag": [f"sec:blr-batch#{i}" for i in (11, 12)],
    "diag_mom": [f"sec:blr-batch#{i}" for i in (15, 16)],
    "dlr": [f"sec:blr-batch#{i}" for i in (24, 25, 26, 27, 28, 30)],
}
CASES = [
    pytest.param(
        hess, family, marks=pytest.mark.eq(*(LIN_ROWS if hess == "lin-hess" else ROWS)[family])
    )
    for family in ROWS
    for hess in ("mc-hess", "mc-ef", "lin-hess", "lin-ef")
    if (hess, family) != ("mc-hess", "dlr")
]


def spherical(family, P, lam, R=1):
    """N(0, I/λ) in the family; in DLR with Υ = λ and W = 0."""
    if family in ("fc", "fc_mom"):
        return FC(np.zeros(P), np.eye(P) / lam)
    return (
        Diag(np.zeros(P), np.full(P, 1 / lam))
        if family != "dlr"
        else DLR(np.zeros(P), np.full(P, lam), np.zeros((P, R)))
    )


def units(got, wanted, cond, key):
    """The difference of one quantity in tolerances."""
    return next(d.units for d in compare.differences(got, wanted, cond) if d.quantity == key)


# --- batch BLR ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hess, family", CASES)
@given(size=sizes(), log_lam=st.floats(-1, 1))
@settings(max_examples=8)
def test_batch_form_is_the_online_step_with_a_spherical_prior(hess, family, size, log_lam):
    p, lam = make(f"blr-{hess}-{family}", size), 10**log_lam
    alpha, form = p.m.params["alpha"], getattr(batch, family)
    prior = spherical(family, size.P, lam, size.R)
    wanted = exact.rounded(exact.step(p.m, prior, p.current, p.curv, digits=30))
    online = lambda current, curv: br.step(p.m, prior, current, curv, form="plain")[0]
    cond = compare.condition(online, p.current, p.curv)
    agree(form(p.current, p.curv, alpha, lam), wanted, cond, f"batch {family}")


def test_the_low_rank_block_of_the_prior_is_what_the_batch_form_drops():
    p = make("blr-mc-ef-dlr", Size(3, 8, 2, 3, 1.0), alpha=0.3)
    prior = DLR(np.zeros(8), np.full(8, 2.0), p.prior.W)
    online = lambda current, curv: br.step(p.m, prior, current, curv)[0]
    cond = compare.condition(online, p.current, p.curv)
    got, wanted = batch.dlr(p.current, p.curv, 0.3, 2.0), online(p.current, p.curv)
    assert all(units(got, wanted, cond, key) > APART for key in ("mu", "Ups", "W W^T"))


@pytest.mark.eq(
    "sec:blr-batch#24",
    "sec:blr-batch#25",
    "sec:blr-batch#26",
    "sec:blr-batch#27",
    "sec:blr-batch#28",
    "sec:blr-batch#30",
)
def test_slang_lin_hess_and_lin_ef_of_the_section():
    rng = np.random.default_rng(0)
    model, lik = (
        br.models.mlp([3, 2, 2]),
        br.likelihoods.Gaussian(var=np.array([[0.5, 0.2], [0.2, 0.4]])),
    )
    x, y = rng.standard_normal((3, 3)), rng.standard_normal((3, 2))
    q, prior = belief("dlr", rng, model.n_params, R=2), spherical("dlr", model.n_params, 2.0, R=2)
    lin = linearise(model, lik, x, y, q.mu)
    S = np.linalg.solve(np.linalg.cholesky(lin.R), lin.H).T  # S Sᵀ = HᵀR⁻¹H
    g = lin.H.T @ np.linalg.solve(lin.R, lin.e)
    for name, got, curv in (
        ("blr-lin-hess-dlr", batch.slang_lin_hess(model, lik, q, x, y, 0.3, 2.0), Curv(g, S=S)),
        (
            "blr-lin-ef-dlr",
            batch.slang_lin_ef(model, lik, q, x, y, 0.3, 2.0),
            Curv(g, S=g[:, None]),
        ),
    ):
        m = br.method(name, rank=2, alpha=0.3)
        cond = compare.condition(lambda q, curv, m=m: br.step(m, prior, q, curv)[0], q, curv)
        agree(got, exact.rounded(exact.step(m, prior, q, curv, digits=30)), cond, name)


# --- VON and VOGN ---------------------------------------------------------------------------------


class Data:
    """N examples of a classification with a small network, and the gradients of single examples."""

    def __init__(self, N=6, seed=0):
        rng = np.random.default_rng(seed)
        self.model, self.lik = br.models.mlp([2, 3, 1]), br.likelihoods.Bernoulli()
        self.P, self.N = self.model.n_params, N
        self.x, self.y = rng.standard_normal((N, 2)), rng.integers(0, 2, (N, 1)).astype(float)
        self.current = Diag(rng.standard_normal(self.P), rng.uniform(0.05, 0.2, self.P))
        self.theta = self.current.mu + np.sqrt(self.current.var) * rng.standard_normal(self.P)

    def loss(self, i):
        """θ ↦ −log p(y_i | x_i, θ)."""
        from autograd import numpy as anp

        return lambda theta: -anp.sum(self.lik.log_prob(self.model(theta, self.x[i]), self.y[i]))

    def gradients(self, batch):
        return np.stack([grad(self.loss(i))(self.theta) for i in batch])

    def curv(self, estimator, batch, **kw):
        """The estimate of (g, G) of all N examples from a mini-batch by one sample, as the batch
        forms take it: N/B times the batch's.
        """
        c = estimator(self.model, self.lik, self.x[batch], self.y[batch], self.theta[None], **kw)
        scale = self.N / len(batch)
        return Curv(
            scale * c.g,
            S=None if c.S is None else scale * c.S,
            d=None if c.d is None else scale * c.d,
        )


@pytest.mark.eq("sec:blr-batch#9", "sec:blr-batch#10")
@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.parametrize("alpha", [0.05, 0.7])
def test_von_is_batch_blr_mc_hess_diag_with_one_sample(size, alpha):
    data, lam = Data(), 4.0
    mini = list(range(size))
    hhat = np.mean([np.diag(hessian(data.loss(i))(data.theta)) for i in mini], axis=0)
    q = batch.to_scaled(data.current, data.N, lam)
    von = batch.von(q, data.gradients(mini).mean(axis=0), hhat, alpha, alpha, data.N, lam)
    curv = data.curv(mc_hess, mini, diag=True)
    form = partial(batch.diag, alpha=alpha, lam=lam)
    cond = compare.condition(form, data.current, curv)
    wanted = form(data.current, curv)
    assert np.all(wanted.var > 0)
    agree(batch.from_scaled(von, data.N, lam), wanted, cond, "VON")
    agree(
        br.step(
            br.method("blr-mc-hess-diag", alpha=alpha, n_samples=1),
            spherical("diag", data.P, lam),
            data.current,
            curv,
        )[0],
        wanted,
        cond,
    )


@given(size=sizes(), log_lam=st.floats(-1, 1), n=st.integers(1, 1000))
def test_von_in_numbers(size, log_lam, n):
    rng, lam = np.random.default_rng(size.seed), 10**log_lam
    alpha = rng.uniform(0.01, 1)
    current, curv = (
        belief("diag", rng, size.P, log_cond=2.0),
        curvature("mc-hess", "diag", rng, size.P, 1),
    )
    form = partial(batch.diag, alpha=alpha, lam=lam)
    cond = compare.condition(form, current, curv)
    von = batch.von(
        batch.to_scaled(current, n, lam), -curv.g / n, -curv.d / n, alpha, alpha, n, lam
    )
    loss = np.max(
        (1 / current.var + lam) * np.abs(form(current, curv).var)
    )  # s is a difference of the two, rounded in their size
    agree(
        batch.from_scaled(von, n, lam),
        form(current, curv),
        {k: c * (1 + loss) for k, c in cond.items()},
        "VON",
    )


def faster(q, to, ratio):
    """The state whose mean has gone ``ratio`` times as far from that of q."""
    return to._replace(mu=q.mu + ratio * (to.mu - q.mu))


def test_von_with_two_step_sizes_is_no_batch_blr():
    """Its scale is that of batch BLR with β, its mean goes α/β times as far: neither α nor β alone
    gives both.
    """
    data, lam, alpha, beta = Data(), 4.0, 0.3, 0.1
    curv = data.curv(mc_hess, [0, 1], diag=True)
    von = batch.von(
        batch.to_scaled(data.current, data.N, lam),
        -curv.g / data.N,
        -curv.d / data.N,
        alpha,
        beta,
        data.N,
        lam,
    )
    got = batch.from_scaled(von, data.N, lam)
    for step in (alpha, beta):
        form = partial(batch.diag, alpha=step, lam=lam)
        cond = compare.condition(form, data.current, curv)
        assert units(got, form(data.current, curv), cond, "mu") > APART
    agree(
        got,
        faster(data.current, form(data.current, curv), alpha / beta),
        cond,
        "VON with two step sizes",
    )


@pytest.mark.eq("sec:blr-batch#9", "sec:blr-batch#10")
def test_vogn_is_batch_blr_mc_ef_diag_if_there_is_one_example():
    data, lam, alpha = Data(N=1), 4.0, 0.3
    vogn = batch.vogn(
        batch.to_scaled(data.current, 1, lam), data.gradients([0]), alpha, alpha, 1, lam
    )
    curv = data.curv(mc_ef, [0])
    form = partial(batch.diag, alpha=alpha, lam=lam)
    agree(
        batch.from_scaled(vogn, 1, lam),
        form(data.current, curv),
        compare.condition(form, data.current, curv),
        "VOGN",
    )


@pytest.mark.parametrize("mini", [[0], [2, 4], [0, 1, 2, 3, 4, 5]])
def test_vogn_sums_squares_where_mc_ef_squares_the_sum(mini):
    """σ⁻² of VOGN is batch BLR's with Ĝ = the gradients of single examples; MC-EF has their sum,
    N/B times, squared.
    """
    data, lam, alpha = Data(), 4.0, 0.3
    g = data.gradients(mini)
    vogn = batch.from_scaled(
        batch.vogn(batch.to_scaled(data.current, data.N, lam), g, alpha, alpha, data.N, lam),
        data.N,
        lam,
    )
    scale = data.N / len(mini)
    form = partial(batch.diag, alpha=alpha, lam=lam)
    by_example = Curv(-scale * g.sum(axis=0), S=np.sqrt(scale) * g.T)
    agree(
        vogn,
        form(data.current, by_example),
        compare.condition(form, data.current, by_example),
        "VOGN, example by example",
    )
    by_sum = data.curv(mc_ef, mini)
    cond = compare.condition(form, data.current, by_sum)
    assert units(vogn, form(data.current, by_sum), cond, "var") > APART
    assert units(vogn, form(data.current, by_sum), cond, "mu") > APART


# --- SLANG ----------------------------------------------------------------------------------------


class Low(Data):
    """The same with a DLR belief of rank R; ``free`` of its columns are zero, so that as many
    directions can be added without loss.
    """

    def __init__(self, N, R=2, free=0, seed=0):
        super().__init__(N, seed)
        rng = np.random.default_rng(seed + 1)
        q = belief("dlr", rng, self.P, R, log_cond=1.0)
        W = np.concatenate([q.W[:, free:], np.zeros((self.P, free))], axis=1)
        self.current = DLR(q.mu, q.Ups, W)

    def slang(self, mini, alpha=0.3, beta=0.3, lam=2.0, eig=batch.exact_eig):
        return batch.slang(self.current, self.gradients(mini), alpha, beta, self.N, lam, eig)

    def blr(self, curv, alpha=0.3, lam=2.0):
        """Batch BLR and the conditions of its quantities."""
        form = partial(batch.dlr, alpha=alpha, lam=lam)
        return form(self.current, curv), compare.condition(form, self.current, curv)


@pytest.mark.eq(
    "sec:blr-batch#18",
    "sec:blr-batch#19",
    "sec:blr-batch#20",
    "eq:slang-Wtilde",
    "sec:blr-batch#23",
)
def test_slang_has_the_precision_of_batch_blr_mc_ef_dlr_for_one_example_and_another_mean():
    data = Low(N=1)
    wanted, cond = data.blr(data.curv(mc_ef, [0]))
    got = data.slang([0])
    agree(got._replace(mu=wanted.mu), wanted, cond, "SLANG's precision", whole=True)
    assert units(got, wanted, cond, "mu") > APART


@pytest.mark.eq("eq:slang-mu")
def test_slang_has_the_mean_of_batch_blr_too_if_nothing_is_cut_off():
    data = Low(N=1, free=1)
    wanted, cond = data.blr(data.curv(mc_ef, [0]))
    agree(data.slang([0]), wanted, cond, "SLANG without a cut", whole=True)


def test_slang_with_two_step_sizes_on_a_mini_batch_if_nothing_is_cut_off():
    data, mini = Low(N=6, R=3, free=2), [1, 3]
    g, scale = data.gradients(mini), 3
    wanted, cond = data.blr(Curv(-scale * g.sum(axis=0), S=np.sqrt(scale) * g.T), alpha=0.2)
    agree(
        data.slang(mini, alpha=0.6, beta=0.2),
        faster(data.current, wanted, 3),
        cond,
        "SLANG without a cut",
        whole=True,
    )


@pytest.mark.parametrize("mini", [[0], [1, 3], [0, 1, 2, 3, 4, 5]])
def test_slang_sums_outer_products_where_mc_ef_has_that_of_the_sum(mini):
    data = Low(N=6)
    g, scale = data.gradients(mini), data.N / len(mini)
    wanted, cond = data.blr(Curv(-scale * g.sum(axis=0), S=np.sqrt(scale) * g.T))
    got = data.slang(mini)
    agree(got._replace(mu=wanted.mu), wanted, cond, "SLANG's precision", whole=True)
    assert units(got, wanted, cond, "mu") > APART
    printed, cond = data.blr(data.curv(mc_ef, mini))
    assert all(units(got, printed, cond, key) > APART for key in ("mu", "Ups", "W W^T"))


def test_slang_with_the_randomised_eigenvectors():
    """One or two examples: no loss, rank + 2 random vectors span F. More, without a spectral gap:
    another precision.
    """
    fast = partial(batch.fast_eig, rng=np.random.default_rng(0))
    for mini in ([0], [1, 3], [0, 1, 2, 3, 4, 5]):
        data = Low(N=6)
        wanted = data.slang(mini)
        cond = compare.condition(
            lambda q, data=data, mini=mini: batch.slang(
                q, data.gradients(mini), 0.3, 0.3, 6, 2.0, batch.exact_eig
            ),
            data.current,
        )
        got = data.slang(mini, eig=fast)
        if len(mini) <= 2:
            agree(got, wanted, cond, "randomised", whole=True)
        else:
            assert units(got, wanted, cond, "W W^T") > APART


@given(seed=st.integers(0, 2**32 - 1), P=st.integers(8, 30), rank=st.integers(1, 4))
def test_randomised_eigenvectors_are_the_exact_ones_behind_a_spectral_gap(seed, P, rank):
    """A ratio r of singular values leaves r^(2·4) after four iterations: nothing at r = 1/200."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, 8)))[0] for n in (P, 8))
    s = np.concatenate([rng.uniform(1, 2, rank), rng.uniform(0, 1, 8 - rank) / 200])
    F = (U * s) @ V.T
    W, E = batch.fast_eig(F, rank, rng), batch.exact_eig(F, rank)
    assert compare.difference("W W^T", W @ W.T, E @ E.T, P).agrees


@given(size=sizes(max_log_cond=4))
def test_slang_sample_has_the_covariance_of_the_belief(size):
    """θ is linear in ε: the image of the unit vectors is a factor of the covariance."""
    rng = np.random.default_rng(size.seed)
    q = belief("dlr", rng, size.P, size.R, size.log_cond)
    factor = np.stack([batch.slang_sample(q, e) - q.mu for e in np.eye(size.P)], axis=1)
    A = q.W / np.sqrt(q.Ups)[:, None]
    prec = np.diag(q.Ups) + q.W @ q.W.T
    cond = np.linalg.cond(prec) * np.linalg.cond(A) ** 2 + np.max(np.abs(q.mu)) / np.sqrt(
        np.min(np.diag(covariance(q)))
    )
    assert compare.difference("covariance", factor @ factor.T, covariance(q), cond).agrees

"""Causes that no vector can see (sampling code, the experiments' metrics, options the adapters do
not use), compared with the peers.

Each check is one random problem with a fixed seed: how far the peer is from the equations, and how
far from our formula with the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import bongref as br
from bongref import FC, Diag
from bongref.conformance import vectors
from bongref.curvature import Lin, linearise
from bongref.theory import batch

from . import causes

METHOD = "bong-lin-hess-fc"


class Row(NamedTuple):
    """One check."""

    finding: str
    what: str
    size: float | None  # from the equations; None where there is no equation to compare with
    left: float  # from the cause


def apart(got: Any, wanted: Any) -> float:
    """The largest difference relative to the largest entry."""
    got, wanted = np.asarray(got, dtype=float), np.asarray(wanted, dtype=float)
    return float(np.max(np.abs(got - wanted)) / np.max(np.abs(wanted)))


def _spd(rng: np.random.Generator, P: int) -> np.ndarray:
    Q = np.linalg.qr(rng.standard_normal((P, P)))[0]
    Sigma = Q @ np.diag(rng.uniform(0.5, 1.5, P)) @ Q.T
    return (Sigma + Sigma.T) / 2


# --- petergchang/bong -----------------------------------------------------------------------------


def bong(peer: Any) -> Iterator[Row]:
    rng, gamma, q = np.random.default_rng(0), 0.9, 0.1
    prior = FC(rng.standard_normal(5), _spd(rng, 5))
    agent = peer.MODULES["bong"].fg_bong(
        prior.mu, 1.0, None, None, None, dynamics_decay=gamma, process_noise=q
    )
    got = peer.from_peer(agent.predict(peer.to_peer(prior._asdict())))["Sigma"]
    wanted = br.predict(
        prior, br.dynamics.Linear(np.full(5, gamma), np.zeros(5), np.full(5, q))
    ).Sigma
    yield Row(
        "bong-scalar-noise",
        "Σ predicted in fc with 0.1 as noise, P = 5",
        apart(got, wanted),
        apart(got, _noise(prior, gamma, q)),
    )
    yield from _zero_W(peer)
    yield from _nlpd(peer)


def _noise(prior: FC, gamma: float, q: float) -> np.ndarray:
    return causes.fc_scalar_noise(prior, gamma, q).Sigma


def _zero_W(peer: Any) -> Iterator[Row]:
    """W after one update of BOG and BBB in DLR from the W = 0 of their constructors."""
    rng = np.random.default_rng(1)
    model, lik = br.models.mlp([2, 2, 1], activation="tanh"), {"kind": "gaussian", "R": [[0.5]]}
    P = model.n_params
    prior = {"mu": rng.standard_normal(P), "Ups": rng.uniform(1, 2, P), "W": np.zeros((P, 2))}
    worst = 0.0
    for rule, more in (("bog", {}), ("bbb", {"n_iter": 3})):
        params = {"alpha": 0.05, "rank": 2, **more}
        spec = vectors.model_spec(model)
        out = peer.Adapter().update(
            f"{rule}-lin-hess-dlr",
            spec,
            lik,
            prior,
            rng.standard_normal(2),
            np.ones(1),
            None,
            params,
        )
        worst = max(worst, float(np.max(np.abs(out["W"]))))
    yield Row(
        "bong-zero-W",
        f"largest entry of W after an update of bog and of bbb in dlr from W = 0: {worst:g}",
        None,
        worst,
    )


def _nlpd(peer: Any) -> Iterator[Row]:
    """The NLPD by 100 samples of variance 0.25 around the parameters of an MLP 2-3-C, at 20
    inputs.
    """
    rng = np.random.default_rng(0)
    for lik, C in ((br.likelihoods.Gaussian(0.2), 1), (br.likelihoods.Categorical(), 3)):
        model = br.models.mlp([2, 3, C])
        mu, X = model.init(rng), rng.standard_normal((20, 2))
        Y = rng.standard_normal((20, 1)) if C == 1 else np.eye(C)[rng.integers(C, size=20)]
        q, samples = FC(mu, 0.25 * np.eye(len(mu))), mu + 0.5 * rng.standard_normal((100, len(mu)))
        neutral = {"kind": "gaussian", "R": [[0.2]]} if C == 1 else {"kind": "categorical"}
        o = np.stack([model(t, X) for t in samples])
        got = peer.Adapter().nlpd(
            "mc", vectors.model_spec(model), neutral, q._asdict(), X, samples, Y
        )["nlpd"]
        wanted = br.metrics.nlpd(br.predictive.mc(model, lik, q, X, samples=samples), Y)
        if C == 1:
            cause, name = (
                causes.nlpd_mean_of_logs(np.stack([lik.log_prob(v, Y) for v in o])),
                "bong-nlpd-regression",
            )
        else:
            cause, name = causes.nlpd_mean_logits(o, Y.argmax(axis=1)), "bong-nlpd-classification"
        what = (
            f"NLPD by MC, {lik.name}, MLP 2-3-{C}, 100 samples, 20 inputs: {got:.4f}, wanted "
            f"{wanted:.4f}"
        )
        yield Row(name, what, apart(got, wanted), apart(got, cause))


# --- gerdm/rebayes-mini ---------------------------------------------------------------------------


def rebayes_mini(peer: Any) -> Iterator[Row]:
    jnp, jax = peer.jnp, peer.jax
    rng, P = np.random.default_rng(0), 5
    Sigma, one = _spd(rng, P), lambda theta, x: theta[:1]
    cov = lambda m: jnp.eye(1)

    agent = peer.base.ExtendedFilter(one, cov, 0.0)
    bel = agent.init_bel(jnp.zeros(P)).replace(cov=jnp.asarray(Sigma))
    got = _sampled(peer, agent, bel)
    yield Row(
        "mini-sampling",
        "covariance of its samples in fc, P = 5",
        apart(got, Sigma),
        apart(got, causes.sample_covariance(Sigma)),
    )
    Ups, W = rng.uniform(1, 2, P), 0.7 * rng.standard_normal((P, 2))
    agent = peer.lowrank.LowRankPrecisionFilter(one, cov, 0.0, rank=2)
    bel = agent.init_bel(jnp.zeros(P)).replace(diagonal=jnp.asarray(Ups), low_rank=jnp.asarray(W))
    got, wanted = _sampled(peer, agent, bel), np.linalg.inv(np.diag(Ups) + W @ W.T)
    cause = causes.sample_covariance_dlr(Ups, W)
    yield Row(
        "mini-sampling-dlr",
        "covariance of its samples in dlr, P = 5, rank 2",
        apart(got, wanted),
        apart(got, cause),
    )
    yield from _inner(peer, jax, jnp)


def _sampled(peer: Any, agent: Any, bel: Any) -> np.ndarray:
    """The covariance A Aᵀ of samples that are linear in their normal draws: column k of A is the
    sample of the k-th unit vector.
    """
    columns, at, total = [], 0, 1
    while at < total:
        seen = 0

        def normal(key, shape=(), dtype=float, at=at):
            nonlocal seen
            flat = np.zeros(int(np.prod(shape)))
            if seen <= at < seen + len(flat):
                flat[at - seen] = 1.0
            seen += len(flat)
            return peer.jnp.asarray(flat.reshape(shape))

        with peer._jax.replaced((peer.jax.random, "normal", normal)):
            columns.append(
                np.asarray(agent.sample_params(peer.jax.random.PRNGKey(0), bel)).reshape(-1)
            )
        total, at = seen, at + 1
    A = np.stack(columns, axis=1)
    return A @ A.T


def _inner(peer: Any, jax: Any, jnp: Any) -> Iterator[Row]:
    """Two inner iterations of its R-VGA for one Bernoulli observation, with samples of ours in
    place of its own.
    """
    rng = np.random.default_rng(0)
    model, lik = br.models.mlp([2, 2, 1], activation="tanh"), br.likelihoods.Bernoulli()
    P = model.n_params
    prior, x, y = FC(rng.standard_normal(P), _spd(rng, P)), rng.standard_normal(2), np.ones(1)
    draws = [prior.mu + 0.5 * rng.standard_normal((3, P)) for _ in range(2)]
    f = peer._jax.outputs(vectors.model_spec(model))

    class Family(peer.rvga.RVGA):
        def log_partition(self, eta):
            return jnp.log1p(jnp.exp(eta)).sum()

        def suff_statistic(self, y):
            return y

    agent = Family(f, n_inner=1, n_samples=3)
    bel = agent.init_bel(jnp.asarray(prior.mu)).replace(
        precision=jnp.linalg.inv(jnp.asarray(prior.Sigma))
    )
    for d in draws:  # what its scan over the inner steps does
        with peer._jax.replaced(
            (
                peer.rvga,
                "sample_multivariate_gaussian_precision",
                lambda key, mean, prec, n, d=d: jnp.asarray(d),
            )
        ):
            bel, _ = agent._step_inner(bel, None, jnp.asarray(x), jnp.asarray(y))
    curvs = [br.curvature.mc_hess(model, lik, x, y, d) for d in draws]
    got, cause = np.linalg.inv(np.asarray(bel.precision)), causes.rvga_inner(prior, curvs).Sigma
    wanted = np.linalg.inv(np.linalg.inv(prior.Sigma) - curvs[1].G)
    yield Row(
        "mini-rvga-inner",
        "Σ after two inner steps of its R-VGA, Bernoulli, P = 9",
        apart(got, wanted),
        apart(got, cause),
    )


# --- dynamax --------------------------------------------------------------------------------------


def dynamax(peer: Any) -> Iterator[Row]:
    """A stream of three observations of a linear model through the associative scan."""
    rng = np.random.default_rng(0)
    model, lik = (
        br.models.linear(3, 2, bias=True),
        br.likelihoods.Gaussian(np.array([[1.0, 0.3], [0.3, 0.8]])),
    )
    P = model.n_params
    prior, X, Y = (
        FC(rng.standard_normal(P), _spd(rng, P)),
        rng.standard_normal((3, 3)),
        rng.standard_normal((3, 2)),
    )
    spec, neutral = vectors.model_spec(model), {"kind": "gaussian", "R": [[1.0, 0.3], [0.3, 0.8]]}
    got = peer.Parallel().run(
        METHOD, spec, neutral, prior._asdict(), X, Y, None, {"kind": "static"}, {}
    )[-1]["Sigma"]
    wanted, q = br.run(METHOD, model, lik, prior, X, Y, progress=False).state, prior
    for t in range(3):
        q = (causes.jitter if t == 0 else causes.jitter_R)(
            q, linearise(model, lik, X[t], Y[t], q.mu)
        )
    yield Row(
        "dynamax-parallel-stream",
        "Σ after three observations, linear model",
        apart(got, wanted.Sigma),
        apart(got, q.Sigma),
    )


# --- posteriors -----------------------------------------------------------------------------------


def posteriors(peer: Any) -> Iterator[Row]:
    """One step of plain SGD of vi.diag and vi.dense from the prior, with noise of ours in place of
    theirs.
    """
    import posteriors as library
    import torch
    import torchopt
    from autograd import numpy as anp

    from bongref.models import grad

    rng, rate = np.random.default_rng(0), 0.01
    R = np.array([[1.0, 0.2], [0.2, 0.7]])
    model, lik, neutral = (
        br.models.mlp([2, 3, 2], activation="gelu"),
        br.likelihoods.Gaussian(R),
        {"kind": "gaussian", "R": R},
    )
    spec, P = vectors.model_spec(model), model.n_params
    prior, x, y = (
        FC(0.3 * rng.standard_normal(P), _spd(rng, P)),
        rng.standard_normal(2),
        rng.standard_normal(2),
    )
    diag, noise = Diag(prior.mu, np.diag(prior.Sigma).copy()), rng.standard_normal((4, P))
    f, log_p, (tx, ty) = peer.network(spec), peer.log_prob(neutral), peer.data(spec, x, y)
    slopes = lambda thetas: np.stack(
        [grad(lambda t: anp.sum(lik.log_prob(model(t, x), y)))(theta) for theta in thetas]
    )
    kept, randn, normal = (
        torch.get_default_dtype(),
        torch.randn,
        torch.distributions.MultivariateNormal,
    )
    rsample = normal.rsample
    torch.set_default_dtype(torch.float64)  # its own L_from_flat makes arrays of the default type
    try:
        torch.randn = lambda *args, **kwargs: peer.tensor(noise)
        mu, sd = peer.tensor(diag.mu), peer.tensor(np.sqrt(diag.var))
        post = lambda t, batch: (
            log_p(f(t, tx), ty) + library.diag_normal_log_prob(t, mu, sd),
            torch.zeros(1),
        )
        vi = library.vi.diag.build(
            post, torchopt.sgd(lr=rate), n_samples=4, init_log_sds=torch.log(sd)
        )
        out, _ = vi.update(vi.init(mu), None)
        got_var = np.exp(2 * out.log_sd_diag.detach().numpy())
        normal.rsample = lambda self, shape: self.loc + peer.tensor(noise) @ self.scale_tril.T
        log_prior = normal(mu, covariance_matrix=peer.tensor(prior.Sigma)).log_prob
        post = lambda t, batch: (log_p(f(t, tx), ty) + log_prior(t), torch.zeros(1))
        vi = library.vi.dense.build(
            post,
            torchopt.sgd(lr=rate),
            n_samples=4,
            init_L=peer.tensor(np.linalg.cholesky(prior.Sigma)),
        )
        out, _ = vi.update(vi.init(mu), None)
        got_mu = out.params.detach().numpy()
    finally:
        torch.randn, normal.rsample = randn, rsample
        torch.set_default_dtype(kept)
    thetas = diag.mu + np.sqrt(diag.var) * noise
    m = br.method("bbb-mc-hess-diag_mom", alpha=rate, n_iter=1, n_samples=4)
    wanted = br.update(m, model, lik, diag, x, y, samples=thetas[None])[0].var
    cause = causes.vi_diag_step(diag, thetas, slopes(thetas), rate).var
    yield Row(
        "posteriors-vi-diag",
        "σ² after one step, against bbb-mc-hess-diag_mom",
        apart(got_var, wanted),
        apart(got_var, cause),
    )
    thetas = prior.mu + noise @ np.linalg.cholesky(prior.Sigma).T
    landed, cause = (
        prior.mu + rate * slopes(thetas).mean(axis=0),
        causes.vi_dense_mean(prior, thetas, slopes(thetas), rate),
    )
    yield Row(
        "posteriors-vi-dense",
        "μ after one step, stl=True, against that estimator",
        apart(got_mu, landed),
        apart(got_mu, cause),
    )


# --- GersonGuy/adaptive-deep-receiver-Torch -------------------------------------------------------


def receiver_torch(peer: Any) -> Iterator[Row]:
    """Its functions that no case can be given, called with arguments of the right shapes."""
    rng, P = np.random.default_rng(0), 4
    model = vectors.model_spec(br.models.linear(P - 1))
    x = rng.standard_normal(P - 1)
    tensor = peer.tensor
    one, zero = tensor(np.ones((1, 1))), tensor(np.zeros(P))
    eye, ones = tensor(np.eye(P)), tensor(np.ones(P))
    ou, linear = (0.9, eye, zero), (eye, zero, eye)
    dlr = tensor(np.ones((P, 1))), tensor(np.ones((P, 2)))
    cases = {
        "full_F": ((eye,), linear),
        "full_OU": ((eye,), ou),
        "full_F_reparm": ((eye,), linear),
        "full_OU_reparm": ((eye,), ou),
        "diag_F": ((ones,), linear),
        "diag_OU": ((ones,), (ones, zero, 0.9)),
        "DLR_F": (dlr, linear),
        "DLR_OU": (dlr, ou),
    }
    run = 0
    for name, (state, terms) in cases.items():
        net = peer.Model(model, rng.standard_normal(P), x)
        call = getattr(peer.bog, f"Update_BOG_lin_{name}")
        try:
            with peer._float64():
                call(net.z_layers, *state, net, net.X, one[0], 0.1, one, *terms)
            run += 1
        except (TypeError, RuntimeError, AttributeError, ValueError, IndexError):
            continue
    yield Row("receiver_torch-bog", f"of its {len(cases)} BOG updates {run} run", None, float(run))


# --- TianyiMehdi/NANO-filter ----------------------------------------------------------------------


def nano(peer: Any) -> Iterator[Row]:
    """A linear-Gaussian problem by its own sigma points, where one iteration is Kalman's update."""
    rng, P, C = np.random.default_rng(0), 3, 2
    prior, H = FC(rng.standard_normal(P), _spd(rng, P)), rng.standard_normal((C, P))
    R, y = np.diag(rng.uniform(0.5, 1, C)), rng.standard_normal(C)
    lin = Lin(H @ prior.mu, H, R, y - H @ prior.mu)
    kalman = causes.jitter(prior, lin, 0.0)

    def run(n: int, kind: str) -> FC:
        agent = peer.made(prior._asdict(), lambda theta: H @ theta, R, derivate_type=kind)
        agent.update(y, n_iterations=n)
        return FC(agent.x, agent.P)

    def curv(mu: Any) -> br.Curv:
        prec = np.linalg.inv(R)
        return br.Curv(H.T @ prec @ (y - H @ mu), G=-H.T @ prec @ H)

    once = causes.nano(prior, prior, curv(prior.mu))
    twice = causes.nano(prior, once, curv(once.mu))
    yield Row(
        "nano-kalman",
        "μ after two iterations of a linear-Gaussian problem, P = 3",
        apart(run(2, "direct").mu, kalman.mu),
        apart(run(2, "direct").mu, twice.mu),
    )
    stein = run(1, "stein")
    yield Row(
        "nano-stein",
        "Σ after one iteration of the same problem with 'stein'",
        apart(stein.Sigma, kalman.Sigma),
        apart(stein.Sigma, causes.nano_stein(prior, lin).Sigma),
    )


# --- gusakovy/adaptive-deep-receivers -------------------------------------------------------------


def receivers(peer: Any) -> Iterator[Row]:
    """Its loop over iterations, and where the loop of BLR starts."""
    rng, D = np.random.default_rng(0), 3
    model, lik = br.models.linear(D), br.likelihoods.Gaussian(0.5)
    P, x, y = model.n_params, rng.standard_normal(D), rng.standard_normal(1)
    prior, spec = FC(rng.standard_normal(P), _spd(rng, P)), vectors.model_spec(model)
    given = spec, {"kind": "gaussian", "R": [[0.5]]}, prior._asdict(), [x], [y]
    builder = peer.Builder()
    got = builder._stream("bong-lin-hess-fc", *given, (1.0, np.zeros((P, P))), {"n_iter": 3})[0]
    lin = linearise(model, lik, x, y, prior.mu)
    yield Row(
        "receivers-repeats",
        "Σ of BONG in fc after one observation with num_iter=3, P = 4",
        apart(got["Sigma"], causes.jitter(prior, lin, 0.0).Sigma),
        apart(got["Sigma"], causes.counted_again(prior, lin, 3).Sigma),
    )
    gamma, q = 0.5, 0.25 * np.eye(P)
    params = {"alpha": 0.5, "n_iter": 1}
    got = builder._stream("blr-lin-hess-fc", *given, (gamma, peer.array(q)), params)[0]
    moved = FC(gamma * prior.mu, gamma**2 * prior.Sigma + q)
    at = lambda mu: br.curvature.lin_hess(model, lik, x, y, mu)
    m = br.method("blr-lin-hess-fc", alpha=0.5, n_iter=1)
    right, _ = br.step(m, moved, moved, at(moved.mu))
    yield Row(
        "receivers-start",
        "Σ of BLR in fc after one observation with γ = 0.5, P = 4",
        apart(got["Sigma"], right.Sigma),
        apart(got["Sigma"], causes.from_before(m, prior, moved, at).Sigma),
    )


# --- ivon-opt -------------------------------------------------------------------------------------


def ivon(peer: Any) -> Iterator[Row]:
    """Its steps at its own draws, with its option rescale_lr, which is on by default."""
    rng, N, P, steps = np.random.default_rng(0), 12, 4, 10
    X, y, mu = rng.standard_normal((N, P)), rng.integers(2, size=N), rng.standard_normal(P)
    lam, rate, h0, beta, momentum = 0.75, 0.1, 0.5, 0.25, 0.5
    grads = lambda theta: ((1 / (1 + np.exp(-X @ theta)) - y)[:, None] * X).mean(axis=0)
    options = {"lr": rate, "beta1": momentum, "beta2": 1 - beta, "weight_decay": lam / N}

    def ours(draws: Any, rate: float) -> np.ndarray:
        state = batch.to_averaged(Diag(mu, np.full(P, 1 / (N * h0 + lam))), N, lam)
        for draw in draws:
            state = batch.ivon(state, draw, grads(draw), rate, beta, N, lam, momentum)
        return state.mu

    got, draws = peer.stream(mu, grads, N, h0, steps, rescale_lr=False, **options)
    yield Row("ivon-agree", "rescale_lr=False, ten steps", None, apart(got, ours(draws, rate)))
    got, draws = peer.stream(mu, grads, N, h0, steps, **options)
    yield Row(
        "ivon-rescale",
        "μ after ten steps on a logistic regression, P = 4",
        apart(got, ours(draws, rate)),
        apart(got, ours(draws, causes.rescaled(rate, h0, lam / N))),
    )


CHECKS: dict[str, Callable[[Any], Iterator[Row]]] = {
    "bong": bong,
    "rebayes_mini": rebayes_mini,
    "dynamax": dynamax,
    "posteriors": posteriors,
    "receiver_torch": receiver_torch,
    "nano": nano,
    "receivers": receivers,
    "ivon": ivon,
}

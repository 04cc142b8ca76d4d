"""gerdm/rebayes-mini: ``bongref check validation.peers.peer_rebayes_mini:Adapter``.
BONGREF_PEER_REBAYES_MINI names a checkout.

:class:`Adapter` has ``ExtendedFilter`` (bong-lin-hess-fc), ``LowRankPrecisionFilter``
(bong-lin-hess-dlr, LO-FI) and ``RVGA`` with one inner step (bong-mc-hess-fc). The same methods in
its other classes: :class:`SquareRoot`, :class:`Kalman` (``ExtendedKalmanFilter``, a Gaussian
likelihood only) and :class:`Expfam` (``ExpfamFilter`` for fc and dlr: Gaussian, Bernoulli and
multinomial filters). Its prediction is θ' = θ + noise of covariance qI. Covariances of y are exact
functions of its mean; a softmax, whose covariance is singular, is given by its first C − 1 outputs
where the class takes functions. ``Expfam`` has the jitter that its classes bring along.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _jax, load, version
from ._jax import array, jax, jnp, plain

package, base, lowrank, gauss, rvga = load(
    "rebayes_mini",
    "BONGREF_PEER_REBAYES_MINI",
    "rebayes_mini",
    "rebayes_mini.methods.base_filter",
    "rebayes_mini.methods.low_rank_filter",
    "rebayes_mini.methods.gauss_filter",
    "rebayes_mini.methods.recursive_vi_gauss",
)
FAMILIES = {"bong-lin-hess-fc": "fc", "bong-lin-hess-dlr": "dlr"}


class Adapter:
    """ExtendedFilter, LowRankPrecisionFilter and RVGA."""

    dtype = "float64"
    version = version(package)
    name = f"gerdm/rebayes-mini {version[:12]}"
    offers: tuple[str, ...] = ("fc", "dlr", "rvga")

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        with _jax.precision(self.dtype):
            x, y = array(x), array(y).reshape(-1)
            if method == "bong-mc-hess-fc" and "rvga" in self.offers:
                return _rvga(model, likelihood, prior, x, y, array(samples)[0])
            family = FAMILIES.get(method)
            made = (
                None
                if family not in self.offers
                else self._filter(family, model, likelihood, prior, 0.0)
            )
            if made is None:
                return NotImplemented
            agent, bel, observe = made
            return self._from_peer(self._update(agent, bel, observe(y), x))

    def predict(self, family, state, dynamics):
        q = _noise(dynamics, len(state["mu"]))
        if q is None or family not in self.offers:
            return NotImplemented
        with _jax.precision(self.dtype):
            model = {
                "kind": "linear",
                "sizes": [len(state["mu"]), 1],
                "in_shape": [len(state["mu"])],
                "n_outputs": 1,
            }
            model |= {
                "activation": None,
                "layout": [
                    {
                        "name": "W0",
                        "shape": [1, len(state["mu"])],
                        "start": 0,
                        "stop": len(state["mu"]),
                    }
                ],
            }
            agent, bel, _ = self._filter(
                family, model, {"kind": "gaussian", "R": [[1.0]]}, state, q
            )
            return self._from_peer(
                (agent.predict if hasattr(agent, "predict") else agent._predict)(bel)
            )

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        family, q = FAMILIES.get(method), _noise(dynamics, len(prior["mu"]))
        with _jax.precision(self.dtype):
            made = (
                None
                if family not in self.offers or q is None or _jax.irregular(X, Y)
                else self._filter(family, model, likelihood, prior, q)
            )
            if made is None:
                return NotImplemented
            agent, bel, observe = made
            Y = jnp.stack([observe(array(y).reshape(-1)) for y in Y])
            keep = lambda bel, *rest: bel
            _, beliefs = agent.scan(bel, Y, array(X), callback_fn=keep)
            return [
                self._from_peer(jax.tree_util.tree_map(lambda a, t=t: a[t], beliefs))
                for t in range(len(X))
            ]

    def _filter(self, family, model, likelihood, state, q):
        """(filter, belief, what to observe of y), or None."""
        mean, cov, observe = _emission(model, likelihood)
        if family == "fc":
            agent = base.ExtendedFilter(mean, cov, q)
        else:
            agent = lowrank.LowRankPrecisionFilter(mean, cov, q, rank=np.shape(state["W"])[1])
        return agent, self._to_peer(agent, state), observe

    def _update(self, agent, bel, y, x):
        return agent.update(bel, y, x)

    def _to_peer(self, agent, state):
        bel = agent.init_bel(array(state["mu"]))
        if "W" in state:
            return bel.replace(diagonal=array(state["Ups"]), low_rank=array(state["W"]))
        return bel.replace(cov=array(state["Sigma"]))

    def _from_peer(self, bel):
        if hasattr(bel, "low_rank"):
            return plain({"mu": bel.mean, "Ups": bel.diagonal, "W": bel.low_rank})
        return plain({"mu": bel.mean, "Sigma": bel.cov})


class SquareRoot(Adapter):
    """Its square-root filter: W with Σ = WᵀW. Only its ``step``, which predicts too, has the right
    arguments; q = 0 in an update.
    """

    name = f"{Adapter.name}, SquareRootFilter"
    offers = ("fc",)

    def _filter(self, family, model, likelihood, state, q):
        mean, cov, observe = _emission(model, likelihood)
        agent = base.SquareRootFilter(mean, cov, q)
        return agent, self._to_peer(agent, state), observe

    def _update(self, agent, bel, y, x):
        return agent.update(bel, bel, y, x)

    def _to_peer(self, agent, state):
        return agent.init_bel(array(state["mu"])).replace(
            W=jnp.linalg.cholesky(array(state["Sigma"])).T
        )

    def _from_peer(self, bel):
        return plain({"mu": bel.mean, "Sigma": bel.W.T @ bel.W})


class Kalman(Adapter):
    """``ExtendedKalmanFilter``: a fixed covariance of y, any linear dynamics."""

    name = f"{Adapter.name}, ExtendedKalmanFilter"
    offers = ("fc",)

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        states = self.run(
            method,
            model,
            likelihood,
            prior,
            np.asarray(x)[None],
            np.reshape(y, (1, -1)),
            None,
            {"kind": "static"},
            params,
        )
        return states if states is NotImplemented else states[0]

    def predict(self, family, state, dynamics):
        if family not in self.offers:
            return NotImplemented
        with _jax.precision(self.dtype):
            agent = gauss.ExtendedKalmanFilter(
                _transition(dynamics, len(state["mu"]))[0],
                lambda theta, x: theta[:1],
                0.0,
                jnp.eye(1),
            )
            agent.dynamics_covariance = _transition(dynamics, len(state["mu"]))[1]
            bel = agent.init_bel(array(state["mu"])).replace(cov=array(state["Sigma"]))
            return self._from_peer(agent._predict(bel))

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        if (
            FAMILIES.get(method) not in self.offers
            or likelihood["kind"] != "gaussian"
            or _jax.irregular(X, Y)
        ):
            return NotImplemented
        with _jax.precision(self.dtype):
            f, lik = _jax.outputs(model), _jax.likelihood(likelihood, model["n_outputs"])
            X, Y = array(X), array(Y).reshape(len(X), -1)
            R = lik.cov(jnp.zeros(Y.shape[1]))
            move, Q = _transition(dynamics, len(prior["mu"]))
            agent = gauss.ExtendedKalmanFilter(move, f, Q, R)
            bel = agent.init_bel(array(prior["mu"])).replace(cov=array(prior["Sigma"]))
            _, beliefs = agent.scan(bel, Y, X, callback_fn=lambda bel, *rest: bel)
            return [
                self._from_peer(jax.tree_util.tree_map(lambda a, t=t: a[t], beliefs))
                for t in range(len(X))
            ]


class Expfam(Adapter):
    """``ExpfamFilter``: its Gaussian (one output), Bernoulli (one output) and multinomial filters,
    in both families.
    """

    name = f"{Adapter.name}, ExpfamFilter"
    offers = ("fc", "dlr")

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        if np.size(y) != model["n_outputs"]:  # it takes one observation at a time
            return NotImplemented
        return super().update(method, model, likelihood, prior, x, y, samples, params)

    def _filter(self, family, model, likelihood, state, q):
        kind, C = likelihood["kind"], model["n_outputs"]
        where, more = (
            (lowrank, {"rank": np.shape(state["W"])[1]}) if family == "dlr" else (gauss, {})
        )
        if kind == "gaussian" and C == 1:
            agent = where.GaussianFilter(
                _jax.outputs(model), q, variance=float(np.ravel(likelihood["R"])[0]), **more
            )
        elif kind == "bernoulli" and C == 1:
            agent = where.BernoulliFilter(_jax.outputs(model), q, **more)
        elif kind == "categorical":
            agent = where.MultinomialFilter(_jax.outputs(model), q, **more)
        else:
            return None
        return agent, self._to_peer(agent, state), lambda y: y

    def _update(self, agent, bel, y, x):
        return (agent.update if hasattr(agent, "update") else agent._update)(bel, y, x)


class Adapter32(Adapter):
    """The same in float32."""

    dtype = "float32"
    name = f"{Adapter.name}, float32"


def _emission(model: dict[str, Any], likelihood: dict[str, Any]):
    """(mean function, covariance as a function of the mean, what to observe of y)."""
    f, lik, C = (
        _jax.outputs(model),
        _jax.likelihood(likelihood, model["n_outputs"]),
        model["n_outputs"],
    )
    if lik.kind == "categorical":
        first = lambda m: m.reshape(-1, C)[:, :-1].reshape(-1)
        blocks = lambda m: jax.scipy.linalg.block_diag(
            *(jnp.diag(p) - jnp.outer(p, p) for p in m.reshape(-1, C - 1))
        )
        return (lambda theta, x: first(lik.mean(f(theta, x)))), blocks, first
    cov = {"gaussian": lik.cov, "bernoulli": lambda m: jnp.diag(m * (1 - m)), "poisson": jnp.diag}[
        lik.kind
    ]
    return (lambda theta, x: lik.mean(f(theta, x))), cov, lambda y: y


def _rvga(model, likelihood, prior, x, y, samples):
    """One inner step of its R-VGA for any exponential family in natural parameters, with our
    samples.
    """
    f, lik, C = _jax.outputs(model), likelihood["kind"], model["n_outputs"]
    R = array(likelihood["R"]) if lik == "gaussian" else None
    partition = {
        "gaussian": lambda eta: 0.5 * jnp.sum(eta.reshape(-1, C) * (eta.reshape(-1, C) @ R)),
        "bernoulli": lambda eta: jnp.log1p(jnp.exp(eta)).sum(),
        "categorical": lambda eta: jax.nn.logsumexp(eta.reshape(-1, C), axis=1).sum(),
        "poisson": lambda eta: jnp.exp(eta).sum(),
    }[lik]
    link = (
        (lambda theta, x: jnp.linalg.solve(R, f(theta, x).reshape(-1, C).T).T.reshape(-1))
        if lik == "gaussian"
        else f
    )

    class Family(rvga.RVGA):
        def log_partition(self, eta):
            return partition(eta)

        def suff_statistic(self, y):
            return y

    agent = Family(link, n_inner=1, n_samples=len(samples))
    bel = agent.init_bel(array(prior["mu"])).replace(
        precision=jnp.linalg.inv(array(prior["Sigma"]))
    )
    with _jax.replaced(
        (rvga, "sample_multivariate_gaussian_precision", lambda key, mean, precision, n: samples)
    ):
        bel, _ = agent._step_inner(bel, None, x, y)
    return plain({"mu": bel.mean, "Sigma": jnp.linalg.inv(bel.precision)})


def _noise(dynamics: dict[str, Any], P: int) -> float | None:
    """q of θ' = θ + noise of covariance qI, or None."""
    terms = _jax.decay(dynamics, P)
    if terms is None or terms[0] != 1 or terms[1].ndim == 2 or np.any(terms[1] != terms[1][0]):
        return None
    return float(terms[1][0])


def _transition(dynamics: dict[str, Any], P: int):
    """(θ ↦ Fθ + b, Q)."""
    if dynamics["kind"] == "ou":
        g, mu0, var0 = (
            dynamics["gamma"],
            array(dynamics["mu0"]),
            jnp.broadcast_to(array(dynamics["var0"]), (P,)),
        )
        return (lambda theta: g * theta + (1 - g) * mu0), (1 - g**2) * jnp.diag(var0)
    if dynamics["kind"] == "linear":
        square = lambda a: (
            array(a) if np.ndim(a) == 2 else jnp.diag(jnp.broadcast_to(array(a), (P,)))
        )
        F, b, Q = square(dynamics["F"]), array(dynamics["b"]), square(dynamics["Q"])
        return (lambda theta: F @ theta + b), Q
    return (lambda theta: theta), jnp.zeros((P, P))

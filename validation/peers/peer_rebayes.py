"""probml/rebayes: ``bongref check validation.peers.peer_rebayes:Adapter``. BONGREF_PEER_REBAYES
names a checkout.

Its filters that are cells of the paper's table: ``RebayesEKF`` with "fcekf" (bong-lin-hess-fc) and
"vdekf" (bong-lin-hess-diag), both also with ``inverse_free=True`` (fc_mom and diag_mom), and
``RebayesLoFiDiagonal`` (bong-lin-hess-dlr, LO-FI). Its SLANG, L-RVGA, IVON, BBB, spherical LO-FI
and "fdekf" are none and are not offered. ``run`` is its own ``scan``. The emission functions are
the mean and the covariance of y; a softmax covariance gets 1e-3 on its diagonal as in its demos,
:class:`Exact` leaves that out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _jax, load, version
from ._jax import array, jnp, plain

package, ekf, lofi = load(
    "rebayes",
    "BONGREF_PEER_REBAYES",
    "rebayes",
    "rebayes.extended_kalman_filter.ekf",
    "rebayes.low_rank_filter.lofi",
)
EKF = {
    "fc": ("fcekf", False),
    "fc_mom": ("fcekf", True),
    "diag": ("vdekf", False),
    "diag_mom": ("vdekf", True),
}


class Adapter:
    """Its EKFs and its diagonal LO-FI, a softmax covariance as its helpers make it."""

    dtype = "float64"
    version = version(package)
    name = f"probml/rebayes {version[:12]}"
    jitter = 1e-3  # on the diagonal of a softmax covariance

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        family = _family(method)
        if family is None:
            return NotImplemented
        with _jax.precision(self.dtype):
            agent = self._agent(family, *self._emission(model, likelihood), params.get("rank"))
            return from_peer(
                family,
                agent.update_state(to_peer(family, prior, agent), array(x), array(y).reshape(-1)),
            )

    def predict(self, family, state, dynamics):
        with _jax.precision(self.dtype):
            terms = _dynamics(family, dynamics, len(state["mu"]))
            if terms is None:
                return NotImplemented
            rank = np.shape(state["W"])[1] if family == "dlr" else None
            agent = self._agent(
                family, lambda theta, x: theta[:1], lambda theta, x: jnp.eye(1), rank, *terms
            )
            return from_peer(family, agent.predict_state(to_peer(family, state, agent)))

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        family = _family(method)
        with _jax.precision(self.dtype):
            terms = (
                None
                if family is None or _jax.irregular(X, Y)
                else _dynamics(family, dynamics, len(prior["mu"]))
            )
            if terms is None:
                return NotImplemented
            agent = self._agent(
                family, *self._emission(model, likelihood), params.get("rank"), *terms
            )
            X, Y = array(X), array(Y).reshape(len(X), -1)
            keep = lambda bel, *rest, **more: bel
            _, beliefs = agent.scan(
                None, None, X, Y, callback=keep, bel=to_peer(family, prior, agent)
            )
            return [
                from_peer(family, _jax.jax.tree_util.tree_map(lambda a, t=t: a[t], beliefs))
                for t in range(len(X))
            ]

    def predictive(self, kind, family, model, likelihood, state, X, samples):
        """The plugin mean, which is all of its predictions that is one of the paper's."""
        if kind != "plugin":
            return NotImplemented
        with _jax.precision(self.dtype):
            rank = np.shape(state["W"])[1] if family == "dlr" else None
            agent = self._agent(family, *self._emission(model, likelihood), rank)
            bel = to_peer(family, state, agent)
            return {
                "mean": np.stack(
                    [np.asarray(agent.predict_obs(bel, array(x)), dtype=np.float64) for x in X]
                )
            }

    def _agent(self, family, mean, cov, rank=None, decay=1.0, noise=None):
        if family == "dlr":
            return lofi.RebayesLoFiDiagonal(
                decay, 0.0 if noise is None else noise, mean, cov, memory_size=rank
            )
        name, free = EKF[family]
        return ekf.RebayesEKF(
            decay, 0.0 if noise is None else noise, mean, cov, method=name, inverse_free=free
        )

    def _emission(self, model, likelihood):
        f, lik = _jax.outputs(model), _jax.likelihood(likelihood, model["n_outputs"])
        eps = self.jitter if lik.kind == "categorical" else 0.0
        cov = (lambda o: lik.cov(o) + eps * jnp.eye(len(o))) if eps else lik.cov
        return lambda theta, x: lik.mean(f(theta, x)), lambda theta, x: cov(f(theta, x))


class Exact(Adapter):
    """The same without the jitter. The covariance of a softmax is then singular."""

    name = f"{Adapter.name}, exact likelihoods"
    jitter = 0.0


class Adapter32(Adapter):
    """The same in float32."""

    dtype = "float32"
    name = f"{Adapter.name}, float32"


def _family(method: str) -> str | None:
    return method.split("-")[3] if method.startswith("bong-lin-hess-") else None


def to_peer(family: str, state: dict[str, Any], agent: Any) -> Any:
    mu = array(state["mu"])
    if family != "dlr":
        return ekf.EKFBel(
            mean=mu,
            cov=array(state["Sigma"] if "Sigma" in state else state["var"]),
            nobs=0,
            obs_noise_var=0.0,
        )
    W = array(state["W"])
    bel = agent.init_bel(mu, 1.0)
    return bel.replace(basis=W, svs=jnp.ones(W.shape[1]), Ups=array(state["Ups"])[:, None])


def from_peer(family: str, bel: Any) -> dict[str, np.ndarray]:
    if family == "dlr":
        return plain({"mu": bel.mean, "Ups": bel.Ups[:, 0], "W": bel.basis * bel.svs})
    return plain({"mu": bel.mean, "Sigma" if bel.cov.ndim == 2 else "var": bel.cov})


def _dynamics(family: str, dynamics: dict[str, Any], P: int) -> tuple[Any, Any] | None:
    """(dynamics, noise) as its filters take them: any linear ones for "fcekf", a number γ for the
    others; None if they cannot.
    """
    terms = _jax.decay(dynamics, P)
    if family in ("fc", "fc_mom"):
        if terms is not None:
            return terms[0], array(np.diag(terms[1]) if terms[1].ndim == 1 else terms[1])
        if dynamics["kind"] == "ou":
            g, mu0, var0 = dynamics["gamma"], array(dynamics["mu0"]), array(dynamics["var0"])
            return (lambda theta: g * theta + (1 - g) * mu0), (1 - g**2) * jnp.diag(
                jnp.broadcast_to(var0, (P,))
            )
        square = lambda a: array(a) if np.ndim(a) == 2 else jnp.diag(array(a))
        F, b, Q = square(dynamics["F"]), array(dynamics["b"]), square(dynamics["Q"])
        return (lambda theta: F @ theta + b), Q
    if terms is None or terms[1].ndim == 2:
        return None
    gamma, Q = terms
    if family == "dlr":
        return (gamma, float(Q[0])) if np.all(Q == Q[0]) else None
    return gamma, array(Q)

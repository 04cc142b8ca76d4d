"""petergchang/bong, the code of the paper's authors: ``bongref check
validation.peers.peer_bong:Adapter``.

BONGREF_PEER_BONG names a checkout. Its agents (fg, fg_reparam, dg, dg_reparam, dlrg; bong, blr,
bog, bbb) are built by their own constructors and run by their own ``update``, ``predict`` and
``run_rebayes_algorithm``. Ours are the prior, the model, the likelihood and the samples: its
samplers return ``samples[i]``. The likelihoods are set up as in its experiments: mean and
covariance of y for the linearised agents, logits and the log-likelihood for the sampling ones; a
softmax covariance gets 1e-5 on its diagonal, a sigmoid is clipped to [1e-5, 1 − 1e-5].
:class:`Exact` leaves out both.

Differences of convention, none of them in the numbers: ``cov`` of the diagonal agents is the
variance, ``prec_diag`` is Υ as a column; ``linplugin`` is lin, ``empirical_fisher`` is ef. Its
diagonal of a sampled Hessian is Hutchinson's estimate with 100 probes; here it gets probes with
which that estimate is exact.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from . import _jax, load, version
from ._jax import array, jax, jnp, plain

RULES = ("bong", "blr", "bog", "bbb")
package, util, states, *rest = load(
    "bong",
    "BONGREF_PEER_BONG",
    "bong",
    "bong.util",
    "bong.src.states",
    *(f"bong.src.{r}" for r in RULES),
)
MODULES = dict(zip(RULES, rest, strict=True))
FAMILIES = {
    "fc": "fg",
    "fc_mom": "fg_reparam",
    "diag": "dg",
    "diag_mom": "dg_reparam",
    "dlr": "dlrg",
}
SAMPLERS = ("sample_fg_bong", "sample_dg_bong", "sample_dlrg_bong")


class Adapter:
    """The authors' code in float64, with likelihoods as in their experiments."""

    dtype = "float64"
    version = version(package)
    name = f"petergchang/bong {version[:12]}"
    jitter = 1e-5  # on the diagonal of a softmax covariance
    clip = 1e-5  # of a sigmoid

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        if _refused(method):
            return NotImplemented
        with _jax.precision(self.dtype):
            agent = self._agent(method, model, likelihood, len(prior["mu"]), params)
            with drawing(samples, params.get("n_iter", 1)):
                state = agent.update(0, to_peer(prior), array(x), array(y).reshape(-1))
            return from_peer(state)

    def predict(self, family, state, dynamics):
        P = len(state["mu"])
        terms = _dynamics(family, dynamics, P)
        if terms is None:
            return NotImplemented
        with _jax.precision(self.dtype):
            predict = (
                MODULES["bong"].predict_bong_dlr
                if family == "dlr"
                else MODULES["bong"].predict_bong
            )
            return from_peer(predict(to_peer(state), *terms))

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        P, T = len(prior["mu"]), len(X)
        terms = _dynamics(method.split("-")[3], dynamics, P)
        if terms is None or _refused(method) or _jax.irregular(X, Y):
            return NotImplemented
        with _jax.precision(self.dtype):
            agent = self._agent(method, model, likelihood, P, params, *terms)
            X, Y = array(X), array(Y).reshape(T, -1)
            with drawing(samples, params.get("n_iter", 1)):
                last, before = util.run_rebayes_algorithm(0, agent, X, Y, to_peer(prior))
            if (
                dynamics["kind"] != "static"
            ):  # what the scan collects are the states after the prediction
                return from_peer(last)
            return [
                from_peer(jax.tree_util.tree_map(lambda a, t=t: a[t], before)) for t in range(1, T)
            ] + [from_peer(last)]

    def step(self, method, prior, current, curv, params):
        """Its update with a likelihood made up so that (g, G) come out of the estimator: not
        possible for every (g, S).
        """
        rule, hess, family = (
            method.split("-")[0],
            "-".join(method.split("-")[1:3]),
            method.split("-")[3],
        )
        if _refused(method):
            return NotImplemented
        with _jax.precision(self.dtype):
            start = current if rule in ("blr", "bbb") else prior
            made = _made_up(hess, np.asarray(start["mu"], dtype=float), curv)
            if made is None:
                return NotImplemented
            log_prob, mean, cov, y, samples = made
            key = "l" if hess.startswith("lin") else ""
            update = getattr(MODULES[rule], f"update_{key}{FAMILIES[family]}_{rule}")
            belief = (to_peer(prior), to_peer(current)) if start is current else (to_peer(prior),)
            rate = (params["alpha"],) if "alpha" in params else ()
            with drawing(samples):
                M = 1 if samples is None else samples.shape[1]
                state = update(
                    0, *belief, jnp.zeros(1), y, log_prob, mean, cov, M, hess.endswith("ef"), *rate
                )
            return from_peer(state)

    def nlpd(self, kind, model, likelihood, state, X, samples, Y):
        """The NLPD and error of its experiments: ``callback_reg`` for a Gaussian with diagonal R,
        ``callback_fn`` (MNIST) for a softmax.

        Not one of the calls of an adapter: these have a predictive mean, and it has none.
        """
        lik = _jax.likelihood(likelihood, model["n_outputs"])
        if lik.kind not in ("gaussian", "categorical") or (lik.kind, kind) == (
            "gaussian",
            "lin_mc",
        ):
            return NotImplemented
        with _jax.precision(self.dtype):
            f, belief, X, Y = _jax.outputs(model), to_peer(state), array(X), array(Y)
            draws = belief.mean[None] if samples is None else array(samples)
            agent = types.SimpleNamespace(sample=lambda key, state, n: draws)
            key, at = jax.random.PRNGKey(0), {"plugin": 0, "mc": 1, "lin_mc": 2}[kind]
            if lik.kind == "categorical":
                out = _script("mnist_clf").callback_fn(
                    key, agent, belief, None, None, f, X, jnp.argmax(Y, axis=-1)
                )
                return {
                    "nlpd": float(out[2 * at]),
                    "error": round(float(out[2 * at + 1]) * len(Y)) / len(Y),
                }  # a mean in float32
            R = np.asarray(likelihood["R"])
            if np.any(R != np.diag(np.diag(R))):
                return NotImplemented
            script = _script("models")
            log_prob = script.gauss_log_likelihood
            out = script.callback_reg(
                key,
                agent,
                belief,
                None,
                None,
                X,
                Y,
                X,
                Y,
                None,
                f,
                lambda theta, x: array(R),
                log_prob,
            )
            return {"nlpd": float(out[2 * at])}

    def _agent(self, method, model, lik, P, params, gamma=1.0, noise=None):
        """The agent of that name as its constructor makes it."""
        rule, hess, family = (
            method.split("-")[0],
            "-".join(method.split("-")[1:3]),
            method.split("-")[3],
        )
        f, lik = _jax.outputs(model), _jax.likelihood(lik, model["n_outputs"])
        mean, cov, log_prob = self._emission(lik, f, hess.startswith("lin"))
        more = {
            "learning_rate": params.get("alpha"),
            "num_iter": params.get("n_iter"),
            "rank": params.get("rank"),
        }
        if noise is None:
            noise = (
                0.0 if family == "dlr" else jnp.zeros((P, P) if family in ("fc", "fc_mom") else P)
            )
        return getattr(MODULES[rule], f"{FAMILIES[family]}_{rule}")(
            init_mean=jnp.zeros(P),
            init_cov=1.0,
            log_likelihood=log_prob,
            emission_mean_function=mean,
            emission_cov_function=cov,
            dynamics_decay=gamma,
            process_noise=noise,
            num_samples=params.get("n_samples", 1),
            linplugin=hess.startswith("lin"),
            empirical_fisher=hess.endswith("ef"),
            **{key: value for key, value in more.items() if value is not None},
        )

    def _emission(self, lik, f, lin):
        """emission_mean_function, emission_cov_function, log_likelihood as the experiments make
        them.
        """
        if not lin:
            return f, lambda theta, x: lik.cov(f(theta, x)), lambda o, cov, y: lik.log_prob(o, y)
        mean, cov = lik.mean, lik.cov
        if lik.kind == "bernoulli" and self.clip:
            mean = lambda o: jnp.clip(lik.mean(o), self.clip, 1 - self.clip)
            cov = lambda o: jnp.diag(mean(o) * (1 - mean(o)))
        if lik.kind == "categorical":
            cov = lambda o: lik.cov(o) + self.jitter * jnp.eye(len(o))
        return (
            lambda theta, x: mean(f(theta, x)),
            lambda theta, x: cov(f(theta, x)),
            lambda m, cov, y: 0.0,
        )


class Exact(Adapter):
    """The same with exact likelihoods: no jitter, no clipping. The covariance of a softmax is then
    singular.
    """

    name = f"{Adapter.name}, exact likelihoods"
    jitter = clip = 0.0


class Adapter32(Adapter):
    """The same in float32, as the authors ran it."""

    dtype = "float32"
    name = f"{Adapter.name}, float32"


def _script(name: str) -> Any:
    """A script of its experiments, for the functions in it; what it imports to load data may be
    missing.
    """
    folder = str(Path(package.__path__[0], "experiments_parallel"))
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        importlib.import_module("bong.src.dataloaders")
    except ImportError:
        sys.modules["bong.src.dataloaders"] = package.src.dataloaders = types.ModuleType(
            "bong.src.dataloaders"
        )
    return importlib.import_module(f"bong.experiments.{name}")


def _refused(method: str) -> bool:
    """What it does not have: sampled Hessians in the DLR family."""
    return "mc-hess-dlr" in method


def to_peer(state: dict[str, Any]) -> Any:
    s = {
        key: array(value)
        for key, value in state.items()
        if key in ("mu", "Sigma", "var", "Ups", "W")
    }
    if "Ups" in s:
        return states.DLRAgentState(s["mu"], s["Ups"][:, None], s["W"])
    return states.AgentState(s["mu"], s["Sigma"] if "Sigma" in s else s["var"])


def from_peer(state: Any) -> dict[str, np.ndarray]:
    if hasattr(state, "prec_lr"):
        return plain({"mu": state.mean, "Ups": state.prec_diag[:, 0], "W": state.prec_lr})
    return plain({"mu": state.mean, "Sigma" if state.cov.ndim == 2 else "var": state.cov})


@contextlib.contextmanager
def drawing(samples, n_iter: int = 1):
    """Its samplers return the given samples, (..., M, P): the set whose number is the key."""
    table = None if samples is None else array(samples).reshape(-1, *np.shape(samples)[-2:])
    draw = lambda key, state, num_samples=10: table[key]
    random = _jax.Random(n_iter)
    changes = [(module, name, draw) for module in MODULES.values() for name in SAMPLERS]
    changes += [(module, "jr", random) for module in (*MODULES.values(), util)]
    with _jax.replaced(*changes):
        yield


def _dynamics(family: str, dynamics: dict[str, Any], P: int) -> tuple[float, Any] | None:
    """(gamma, noise) as its predict functions take them; None if they cannot."""
    terms = _jax.decay(dynamics, P)
    if terms is None:
        return None
    gamma, Q = terms
    if family == "dlr":
        return (gamma, float(Q[0])) if Q.ndim == 1 and np.all(Q == Q[0]) else None
    if family in ("diag", "diag_mom"):
        return (gamma, array(Q)) if Q.ndim == 1 else None
    return gamma, array(np.diag(Q) if Q.ndim == 1 else Q)


def _made_up(hess: str, mu: np.ndarray, curv: dict[str, Any]):
    """(log_likelihood, emission mean, emission covariance, y, samples) that give this (g, G) at mu,
    or None.
    """
    g, S = np.asarray(curv["g"], dtype=float), curv.get("S")
    identity, none = (lambda theta, x: theta), (lambda theta, x: 0.0)
    if hess == "mc-hess":
        G = np.asarray(curv["G"]) if "G" in curv else np.diag(curv["d"])
        quadratic = lambda theta, cov, y: (
            array(g) @ (theta - array(mu))
            + 0.5 * (theta - array(mu)) @ array(G) @ (theta - array(mu))
        )
        return quadratic, identity, none, jnp.zeros(1), mu[None, None]
    if S is None:
        return None
    S = np.asarray(S, dtype=float)
    K = S.shape[1]
    if hess == "mc-ef":
        if np.max(np.abs(S.sum(axis=1) / np.sqrt(K) - g)) > 1e-12 * np.max(np.abs(g)):
            return None
        grads, points = array(np.sqrt(K) * S.T), np.arange(K)[:, None] + np.zeros((1, len(mu)))
        piecewise = lambda theta, cov, y: (
            grads[jnp.round(jax.lax.stop_gradient(theta[0])).astype(int)] @ theta
        )
        return piecewise, identity, none, jnp.zeros(1), points[None]
    e = np.linalg.lstsq(S, g, rcond=None)[0]
    if np.max(np.abs(S @ e - g)) > 1e-12 * np.max(np.abs(g)):
        return None
    if hess == "lin-ef" and (K != 1 or abs(abs(e[0]) - 1) > 1e-12):
        return None
    mean = lambda theta, x: array(S).T @ (theta - array(mu))
    return (lambda m, cov, y: 0.0), mean, lambda theta, x: jnp.eye(K), array(e), None

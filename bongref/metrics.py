"""Metrics of a predictive distribution, and how a stream is measured.

    br.run(..., every=100, metrics=br.metrics.on(X_test, Y_test, "nlpd-plugin", "nlpd-mc", "nlpd-lin_mc", "error", "ece"))
    br.run(..., metrics=[br.metrics.on(...), br.metrics.prequential("plugin"), br.metrics.kl_to(exact_posterior)])

The state scored at t is the one after the update at t, except for the prequential (one-step-ahead) score, which is taken of the prior
q_{t|t-1} before the update sees the observation. Samples for metrics come from a generator of their own.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import checks, predictive
from .gaussians import kl
from .linalg import Array
from .predictive import Predictive
from .states import State

N_BINS = 20


def nlpd(pred: Predictive, Y: Any) -> float:
    """Negative log predictive density: −(1/N) Σ log (1/S) Σ_s p(y_n | x_n, θ_s)."""
    return float(-np.mean(pred.log_density(Y)))


def error(pred: Predictive, Y: Any) -> float:
    """The share of wrong classes."""
    guess, _, label = _classes(pred, Y)
    return float(np.mean(guess != label))


def ece(pred: Predictive, Y: Any, n_bins: int = N_BINS) -> float:
    """Expected calibration error over equal bins of the confidence: Σ_b (n_b/N) |accuracy_b − confidence_b|."""
    guess, confidence, label = _classes(pred, Y)
    n_bins = checks.integer("n_bins", n_bins, 1)
    bins = np.clip(np.searchsorted(np.arange(n_bins + 1) / n_bins, confidence) - 1, 0, n_bins - 1)  # (b/n, (b+1)/n]
    right = (guess == label).astype(float)
    gaps = np.bincount(bins, right - confidence, minlength=n_bins)
    return float(np.sum(np.abs(gaps)) / len(label))


def rmse(pred: Predictive, Y: Any) -> float:
    """Root mean squared error of the predictive mean."""
    _, N, C = pred.values.shape
    return float(np.sqrt(np.mean((pred.mean - pred.lik.encode(Y, C, batch=N)) ** 2)))


METRICS = {"nlpd": nlpd, "error": error, "ece": ece, "rmse": rmse}


def _classes(pred: Predictive, Y: Any) -> tuple[Array, Array, Array]:
    """Predicted class, its probability, and the label, of a Categorical or a single Bernoulli."""
    _, N, C = pred.values.shape
    name, mean, onehot = pred.lik.name, pred.mean, pred.lik.encode(Y, C, batch=N)
    if name == "categorical":
        return mean.argmax(axis=1), mean.max(axis=1), onehot.argmax(axis=1)
    if name == "bernoulli" and C == 1:
        guess = (mean[:, 0] > 0.5).astype(int)
        return guess, np.where(guess == 1, mean[:, 0], 1 - mean[:, 0]), onehot[:, 0].astype(int)
    raise ValueError(f"error and ece need a Categorical likelihood or a Bernoulli one with one output, got {name} with {C}")


@dataclass(frozen=True)
class On:
    """The metrics ``names`` of the predictive on a test set; call it as ``(m, model, lik, state, rng) -> dict``."""

    X: Any
    Y: Any
    names: tuple[str, ...]
    n_samples: int = 100
    ahead = False

    def check(self, m, model, lik, prior: State) -> None:
        """Refuse before a stream what would be refused after it."""
        pred = predictive.plugin(m, model, lik, prior, self.X)
        lik.encode(self.Y, pred.values.shape[2], batch=pred.values.shape[1])
        if any(name.partition("-")[0] in ("error", "ece") for name in self.names):
            _classes(pred, self.Y)

    def __call__(self, m, model, lik, state: State, rng: np.random.Generator) -> dict[str, float]:
        made: dict[str, Predictive] = {}
        row = {}
        for name in self.names:
            metric, _, kind = name.partition("-")
            kind = kind or "plugin"
            if kind not in made:
                made[kind] = predictive.predict(kind, m, model, lik, state, self.X, n_samples=self.n_samples, rng=rng)
            row[name] = METRICS[metric](made[kind], self.Y)
        return row


def on(X: Any, Y: Any, *names: str, n_samples: int = 100) -> On:
    """Metrics on a test set: nlpd, error, ece, rmse, each with -plugin (default), -mc, -lin_mc or -lin_mc_f."""
    for name in names or ("",):
        if not isinstance(name, str):
            raise TypeError(f"names must be strings such as 'nlpd-mc', got {name!r}")
        metric, _, kind = name.partition("-")
        if metric not in METRICS or (kind or "plugin") not in predictive.KINDS:
            known = [*METRICS, *(f"{a}-{k}" for a in METRICS for k in predictive.KINDS)]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"names must be made of {', '.join(METRICS)} and optionally -{', -'.join(predictive.KINDS)}, got {name!r}{hint}"
            )
    return On(X, Y, names, checks.integer("n_samples", n_samples, 1))


@dataclass(frozen=True)
class Prequential:
    """The one-step-ahead NLPD; a row holds its mean over the steps since the row before."""

    kind: str = "plugin"
    n_samples: int = 100
    ahead = True

    def __call__(self, m, model, lik, prior: State, rng: np.random.Generator, x: Any, y: Any) -> dict[str, float]:
        pred = predictive.predict(self.kind, m, model, lik, prior, x, n_samples=self.n_samples, rng=rng)
        return {f"prequential-{self.kind}": nlpd(pred, y if model.is_batch(x) else y[None])}


def prequential(kind: str = "plugin", n_samples: int = 100) -> Prequential:
    """One-step-ahead NLPD of each observation under the prior q_{t|t-1}, before the update sees it."""
    if kind not in predictive.KINDS:
        raise ValueError(f"kind must be one of {', '.join(predictive.KINDS)}, got {kind!r}")
    return Prequential(kind, checks.integer("n_samples", n_samples, 1))


@dataclass(frozen=True)
class KLTo:
    """D(q_t | exact)."""

    exact: State
    ahead = False

    def check(self, m, model, lik, prior: State) -> None:
        """Refuse before a stream what would be refused after it."""
        if len(self.exact.mu) != len(prior.mu):
            raise ValueError(f"exact must have {len(prior.mu)} parameters, got {len(self.exact.mu)}")

    def __call__(self, m, model, lik, state: State, rng: np.random.Generator) -> dict[str, float]:
        return {"kl": kl(state, self.exact)}


def kl_to(exact: State) -> KLTo:
    """The KL divergence of the state to an exact posterior."""
    return KLTo(checks.state("exact", exact))

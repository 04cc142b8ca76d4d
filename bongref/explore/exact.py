"""The exact posterior of two parameters of a generalised linear model, by quadrature.

The grid adapts: it lies in the coordinates z of the Laplace approximation θ = mode + A z, grows on
each side until the density on its border is below 2⁻⁵³ of the largest value, and is refined until
the sums over all nodes and over every second node agree. The log posterior is concave, so that what
lies outside is below the border's values. A posterior that so many values do not resolve is
:class:`Unresolved`: with inputs and priors of the largest sizes a likelihood is a step function.

:func:`bongref.theory.posteriors.posterior` computes the same by another grid; the tests compare.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..likelihoods import Likelihood
from ..linalg import Array, cholesky, eigh, inv
from .request import Gaussian

EDGE = -53 * math.log(2)  # the log density on the border, relative to the largest
AGREE = 1e-6  # of the sums with step h and 2h; the rule converges geometrically
DROPS = (0.5, 2.0)  # of log p from the mode to a contour: 1 and 2 std of a Gaussian
ANGLES = 96
STEPS, HALVINGS = 100, 60  # at most, on the way to the mode
LOST = 1e-12  # an eigenvalue of the negative Hessian that is smaller, of the largest, is rounding
MOST = 6_000_000  # values of log p(y_n | θ): nodes times observations


class Unresolved(Exception):
    """The posterior has no finite mode, or needs too fine a grid."""


class Exact(NamedTuple):
    """The exact posterior: moments, evidence, contours, and how well they are known."""

    mean: Array  # (2,)
    cov: Array  # (2, 2)
    log_evidence: float
    error: float  # of the log evidence and the moments: the change from step 2h to h
    nodes: int
    contours: tuple[Array, ...]  # (ANGLES, 2) each: log p lower by DROPS than at the mode


class Target(NamedTuple):
    """The log joint density of θ and the data, up to its constant of the prior."""

    lik: Likelihood
    prior: Gaussian
    x: Array  # (n, 2)
    y: Array  # (n,)

    def log_joint(self, theta: Array) -> Array:
        """log p(θ) + Σ log p(y_n | x_n, θ) at the rows of θ (N, 2)."""
        (a, b), (_, c) = self.prior.cov.tolist()
        l1 = math.sqrt(a)  # the Cholesky factor [[l1, 0], [l2, l3]] of the covariance
        l2 = b / l1
        l3 = math.sqrt(c - l2 * l2)
        z1 = (theta[:, 0] - self.prior.mean[0]) / l1
        z2 = (theta[:, 1] - self.prior.mean[1] - l2 * z1) / l3
        value: Array = -(z1 * z1 + z2 * z2) / 2 - math.log(2 * math.pi * l1 * l3)
        if len(self.y):
            o = (theta @ self.x.T)[:, :, None]
            y = np.broadcast_to(self.y[None, :, None], o.shape)
            value = value + np.asarray(self.lik.log_prob(o, y)).sum(axis=1)
        return value

    def derivatives(self, theta: Array) -> tuple[Array, Array]:
        """Gradient (2,) and negative Hessian (2, 2) of the log joint density at θ."""
        prec = inv(self.prior.cov)
        g, H = -prec @ (theta - self.prior.mean), prec
        if len(self.y):
            o = (self.x @ theta)[:, None]
            g = g + self.x.T @ self.lik.score(o, self.y[:, None])[:, 0]
            H = H + (self.x.T * self.lik.info(o)[:, 0, 0]) @ self.x
        return g, H


def exact(target: Target) -> Exact:
    """The posterior by the trapezoidal rule on a grid that adapts."""
    mode = _mode(target)
    A = cholesky(inv(target.derivatives(mode)[1]))
    sides, h = np.full(4, 8.0), 0.5  # how far the grid reaches: left, right, down, up
    while True:
        theta, log_p = _grid(target, mode, A, sides, h)
        top = float(np.max(log_p))
        edges = np.array([e.max() for e in (log_p[0], log_p[-1], log_p[:, 0], log_p[:, -1])]) - top
        if np.any(edges > EDGE) and np.max(sides) < 200:
            sides = np.where(edges > EDGE, 1.5 * sides, sides)
            continue
        fine, coarse = _sums(theta, log_p, h, A), _sums(theta[::2, ::2], log_p[::2, ::2], 2 * h, A)
        error = _difference(fine, coarse)
        if error <= AGREE or h < 0.05:
            break
        h /= 2
    log_evidence, mean, cov = fine
    highest = float(target.log_joint(mode[None])[0])
    contours = _contours(target, mode, A, highest)
    return Exact(mean, cov, log_evidence, error, log_p.size, contours)


def _mode(target: Target) -> Array:
    """The maximum of the concave log joint density, by Newton steps with a line search.

    In coordinates in which the prior is standard, the negative Hessian is I plus the likelihood's.
    Far out exp(o) of a Poisson model is so large that the I is lost: the step is then taken along
    the eigenvector that is known, and doubled while that helps.
    """
    L = cholesky(target.prior.cov)
    theta = np.array(target.prior.mean)
    value = float(target.log_joint(theta[None])[0])
    for _ in range(STEPS):
        g, H = target.derivatives(theta)
        if not (np.all(np.isfinite(g)) and np.all(np.isfinite(H)) and math.isfinite(value)):
            raise Unresolved
        size, V = eigh(L.T @ H @ L)
        known = size > LOST * size[-1]
        slope = (V.T @ (L.T @ g))[known]
        step = L @ V[:, known] @ (slope / size[known])
        decrement = float(np.sum(slope**2 / size[known]))
        if decrement < 1e-20:
            break
        step, there = _search(target, theta, step, value)
        if there <= value:  # no more than rounding
            break
        theta, value = theta + step, there
    if not (np.all(known) and decrement < 1e-6):
        raise Unresolved
    return theta


def _search(target: Target, theta: Array, step: Array, value: float) -> tuple[Array, float]:
    """The step, halved until it raises the log density or doubled while it does; and the value."""

    def at(step: Array) -> float:
        return float(target.log_joint((theta + step)[None])[0])

    there = at(step)
    factor = 2.0 if there > value else 0.5
    for _ in range(HALVINGS):
        if factor < 1 and there > value:
            break
        new = at(factor * step)
        if factor > 1 and not new > there:
            break
        step, there = factor * step, new
    return (step, there) if there > value else (0 * step, value)


def _grid(target: Target, mode: Array, A: Array, sides: Array, h: float) -> tuple[Array, Array]:
    """Nodes (K, L, 2) and the log joint density there; K and L are odd."""
    k = 2 * np.ceil(sides / (2 * h)).astype(int)
    if (k[0] + k[1] + 1) * (k[2] + k[3] + 1) * max(len(target.y), 1) > MOST:
        raise Unresolved
    z = [h * np.arange(-k[0], k[1] + 1), h * np.arange(-k[2], k[3] + 1)]
    theta = mode + np.stack(np.meshgrid(*z, indexing="ij"), axis=-1) @ A.T
    return theta, target.log_joint(theta.reshape(-1, 2)).reshape(theta.shape[:2])


def _sums(theta: Array, log_p: Array, h: float, A: Array) -> tuple[float, Array, Array]:
    """Log evidence, mean and covariance."""
    top = np.max(log_p)
    w = np.exp(log_p - top)
    total = np.sum(w)
    log_evidence = float(top + np.log(total * h**2 * A[0, 0] * A[1, 1]))
    mean = np.einsum("ij,ijk->k", w, theta) / total
    d = theta - mean
    return log_evidence, mean, np.einsum("ij,ijk,ijl->kl", w, d, d) / total


def _difference(fine: Any, coarse: Any) -> float:
    """The largest change: of the log evidence, and of the moments in standard deviations."""
    std = np.sqrt(np.diag(fine[2]))
    return max(
        float(abs(fine[0] - coarse[0])),
        float(np.max(np.abs(fine[1] - coarse[1]) / std)),
        float(np.max(np.abs(fine[2] - coarse[2]) / np.outer(std, std))),
    )


def _contours(target: Target, mode: Array, A: Array, highest: float) -> tuple[Array, ...]:
    """Points where log p is lower than at the mode by DROPS, on rays from there, by bisection."""
    angle = np.tile(np.linspace(0, 2 * math.pi, ANGLES, endpoint=False), len(DROPS))
    ray = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ A.T
    level = highest - np.repeat(DROPS, ANGLES)
    low, high = np.zeros(len(ray)), np.full(len(ray), 4.0)
    while np.any(inside := target.log_joint(mode + high[:, None] * ray) > level):
        high = np.where(inside, 2 * high, high)
    for _ in range(16):
        mid = (low + high) / 2
        inside = target.log_joint(mode + mid[:, None] * ray) > level
        low, high = np.where(inside, mid, low), np.where(inside, high, mid)
    points = mode + ((low + high) / 2)[:, None] * ray
    return tuple(points.reshape(len(DROPS), ANGLES, 2))

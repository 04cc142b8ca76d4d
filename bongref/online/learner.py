"""A network that learns rows in any chunks: running scales, online noise, and a filter in blocks.

:class:`Learner` is what the estimators of :mod:`bongref.sklearn` are made of. Rows are taken in
blocks of BLOCK, counted from the first row on and not by call: the filter takes a block as one
stream from the state before it, so that **any chunking gives the same bits**. A prediction filters
the rows of a block that is not full yet from the state after the last full block; the block is
filtered again when it is full.

Inputs and target are standardised by running means and standard deviations. These, and the
estimated observation variance, are renewed where the number of rows has grown by GROWTH, and at
least every LONGEST rows; in between they are constant. In the first block they are those of its own
rows. An input that has not varied so far is 0, and none is further than CLIP from 0.

The observation variance of a regression is estimated from the errors of each block, predicted from
the state before the block: their mean square minus the part that the uncertainty of the parameters
explains, half of it from the rows since the last renewal and half from the older ones.

>>> import numpy as np, bongref as br
>>> model, m = br.models.mlp([1, 8, 1]), br.method("bong-lin-hess-fc")
>>> learner = Learner(m, model, "gaussian", m.prior(model.init(0), var=0.5))
>>> X = np.linspace(-1, 1, 200)[:, None]
>>> learner.learn(X, X**2)
>>> learner.rows, learner.committed.rows
(200, 192)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import checks, likelihoods, stream
from ..backends import Problem, StepFailed, choose
from ..checks import Observations
from ..dynamics import OU, Linear, Static, propagate
from ..errors import Diverging, InvalidValue, StreamEnded
from ..gaussians import marginal_variance
from ..grid import Method
from ..guide import defaults, divergence
from ..likelihoods import Likelihood
from ..linalg import Array
from ..models import ParametricModel
from ..states import State
from ..storage import descriptions
from ..storage.files import Damaged, keys, plain
from .outputs import one_thread, output_moments, outputs_and_jacobians, times_covariance

KINDS = ("gaussian", "bernoulli", "categorical")
BLOCK = 32  # rows that the filter takes at once
GROWTH = 1.5  # of the number of rows, until scales and noise are renewed
LONGEST = 1024  # rows until they are, at most
LEAST = 0.1  # the part of the mean squared error that is noise, at least
FLOOR = 1e-6  # of the target's variance: the observation variance is at least that
CLIP = 3.0  # standard deviations beyond which an input counts as that far
SET_BY = {  # what a remedy names -> the argument of the estimators
    "alpha=": "method_params={'alpha': ...} sets alpha",
    "prior variance": "prior_var sets the prior variance",
    "observation variance": "noise_var sets the observation variance",
}
RANGE = 1e150  # of standard deviations, and 1/RANGE: their squares are numbers of float64


# --- scales ---------------------------------------------------------------------------------------


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations of each column."""

    n: int
    mean: Array  # (D,)
    squares: Array  # (D,)

    def add(self, A: Array) -> Moments:
        """With the rows of A (n, D) too (Chan, Golub and LeVeque)."""
        n, mean = len(A), A.mean(axis=0)
        squares = ((A - mean) ** 2).sum(axis=0)
        total, shift = self.n + n, mean - self.mean
        return Moments(
            total,
            self.mean + shift * (n / total),
            self.squares + squares + shift**2 * (self.n * n / total),
        )

    @property
    def std(self) -> Array:
        """Standard deviations; 0 where what there is may be rounding, or squares underflow."""
        std = np.sqrt(self.squares / max(self.n, 1))
        least = np.maximum(8 * np.finfo(float).eps * np.abs(self.mean), 1 / RANGE)
        return np.where(std > least, std, 0.0)


class Scale(NamedTuple):
    """An affine map to about zero mean and unit variance."""

    mean: Array  # (D,)
    std: Array  # (D,); 0 of a column that has not varied

    def forward(self, A: Array) -> Array:
        """The standardised rows of A (n, D); 0 in columns that have not varied."""
        safe = np.where(self.std > 0, self.std, 1.0)
        with np.errstate(over="ignore"):  # clipped afterwards
            return np.where(self.std > 0, (A - self.mean) / safe, 0.0)

    def clipped(self, A: Array) -> Array:
        """The same, no further than CLIP from 0."""
        return np.clip(self.forward(A), -CLIP, CLIP)


# --- the learner ----------------------------------------------------------------------------------


class Committed(NamedTuple):
    """Everything after a full block; each block makes a new one: a failure loses nothing."""

    state: State
    rows: int
    renewal: int  # the number of rows at which scales and noise are renewed
    x: Moments
    y: Moments
    x_scale: Scale
    y_scale: Scale
    noise: float  # observation variance in units of y; NaN where it is not known yet
    errors: float  # sum of squared errors since the last renewal, in units of y
    n_errors: int
    rng: Any  # state of the generator of the samples


@dataclass(eq=False)
class Learner:
    """A filter of standardised rows.

    Parameters
    ----------
    m : Method
    model : ParametricModel
        With D inputs and C outputs.
    kind : {"gaussian", "bernoulli", "categorical"}
        The likelihood. The target is standardised for ``"gaussian"`` only.
    prior : FC, Diag or DLR
    dynamics : Static or OU
    noise_var : float or None
        The observation variance in units of y, or None: estimated.
    seed : int
        Of the samples of an mc method.

    Examples
    --------
    >>> import bongref as br
    >>> m, model = br.method("bong-lin-hess-diag"), br.models.linear(1, bias=True)
    >>> learner = Learner(m, model, "gaussian", m.prior(np.zeros(2)))
    >>> learner.learn(np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]]))
    >>> learner.rows
    2
    """

    m: Method
    model: ParametricModel
    kind: str
    prior: State
    dynamics: Static | OU = field(default_factory=Static)
    noise_var: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        D, C = self.model.spec["in_shape"][0], self.model.n_outputs or 1
        noise = math.nan if self.noise_var is None else self.noise_var
        self.committed = Committed(
            self.prior,
            0,
            BLOCK,
            Moments(0, np.zeros(D), np.zeros(D)),
            Moments(0, np.zeros(C), np.zeros(C)),
            Scale(np.zeros(D), np.ones(D)),
            Scale(np.zeros(C), np.ones(C)),
            noise,
            0.0,
            0,
            np.random.default_rng(self.seed).bit_generator.state,
        )
        self.X, self.Y = np.zeros((0, D)), np.zeros((0, C))
        self.now: Committed | None = None
        self.next_look: float = BLOCK  # the number of rows at which divergence is looked for

    @property
    def rows(self) -> int:
        """Rows learned, those that wait for their block to fill included."""
        return self.committed.rows + len(self.X)

    def learn(self, X: Array, Y: Array) -> None:
        """Learn the rows of X (n, D) and Y (n, C).

        Where a row cannot be learned, the rows before it stay and the error says so.
        """
        waited, start = len(self.X), self.committed.rows
        X, Y = np.concatenate([self.X, X]), np.concatenate([self.Y, Y])
        first = 0
        try:
            while first + BLOCK <= len(X):
                c = self.committed
                stop = min(len(X), first + max(BLOCK, c.renewal - c.rows))
                stop -= (stop - first) % BLOCK
                first = self._segment(X, Y, first, stop)
            self._wait(X[first:], Y[first:])
            self._filtered()
        except _RowFailed as failed:
            at = self.committed.rows - start
            rows, least = slice(at, at + BLOCK), waited if at == 0 else 0
            error = self._keep_good_rows(failed, X[rows], Y[rows], least).error()
            text = f"The first {self.rows} rows are learned, the next one cannot be. "
            if error.step <= self.rows:
                text += f"With it the scales of the first {BLOCK} rows change, and one fails. "
            text += error.message + _set_by(error.message)
            state = self.current().state
            raise type(error)(text, self.rows + 1, state, [], error.name) from None

    def _keep_good_rows(self, failed: _RowFailed, X: Array, Y: Array, least: int) -> _RowFailed:
        """Let as many of these rows wait as can be learned: how one more fails.

        At least ``least``, which waited before. In the first block one row more changes the scales
        of all, so that any of them may fail; later it is always the same row.
        """
        good = len(X)
        while good > least:
            good -= 1
            if self.committed.rows > 0:
                good = max(least, min(good, failed.step - 1 - self.committed.rows))
            self._wait(X[:good], Y[:good])
            try:
                self._filtered()
                break
            except _RowFailed as another:
                failed = another
        return failed

    def current(self) -> Committed:
        """With the waiting rows too; recomputed where there are new ones."""
        try:
            return self._filtered()
        except _RowFailed as failed:  # of a file that was made by hand
            raise failed.error() from None

    def _filtered(self) -> Committed:
        if len(self.X) == 0:
            return self.committed
        if self.now is None:
            start = self._scaled(self.committed, self.X, self.Y)
            filtered = _Segment(self, start, self.X, self.Y)
            self.now = filtered.block(start, 0, len(self.X))
        return self.now

    def _wait(self, X: Array, Y: Array) -> None:
        self.X, self.Y, self.now = X.copy(), Y.copy(), None

    def _segment(self, X: Array, Y: Array, first: int, stop: int) -> int:
        """Full blocks with the same scales and noise, first, …, stop − 1."""
        start = self._scaled(self.committed, X[first : first + BLOCK], Y[first : first + BLOCK])
        filtered = _Segment(self, start, X[first:stop], Y[first:stop])
        c = start
        for at in range(0, stop - first, BLOCK):
            rows = slice(first + at, first + at + BLOCK)
            new = filtered.block(c, at, at + BLOCK)
            new = self._measured(c, new, X[rows], Y[rows])
            c = self.committed = new
            self._wait(X[:0], Y[:0])
            if c.rows >= self.next_look:
                self.next_look = c.rows + min(c.rows, LONGEST)
                if text := filtered.fault(c, at, at + BLOCK):
                    self.next_look = math.inf
                    warnings.warn(text + _set_by(text), Diverging, stacklevel=5)
        return stop

    def _scaled(self, c: Committed, X: Array, Y: Array) -> Committed:
        """In the first block the scales are those of its own rows."""
        if c.rows > 0:
            return c
        x, y = c.x.add(X), c.y.add(Y)
        return c._replace(x_scale=Scale(x.mean, x.std), y_scale=self._y_scale(y))

    def _y_scale(self, y: Moments) -> Scale:
        if self.kind != "gaussian":
            return Scale(np.zeros_like(y.mean), np.ones_like(y.mean))
        return Scale(y.mean, np.where(y.std > 0, y.std, 1.0))

    def _measured(self, old: Committed, new: Committed, X: Array, Y: Array) -> Committed:
        """Moments and errors of a full block, and what is renewed after it."""
        new = new._replace(x=old.x.add(X), y=old.y.add(Y), rows=old.rows + len(X))
        due = new.rows >= old.renewal
        if self.kind == "gaussian" and self.noise_var is None:
            new = self._noise(old, new, X, Y, due)
        if not due:
            return new
        further = min(LONGEST, max(BLOCK, int((GROWTH - 1) * new.rows) // BLOCK * BLOCK))
        return new._replace(
            x_scale=Scale(new.x.mean, new.x.std),
            y_scale=self._y_scale(new.y),
            renewal=new.rows + further,
        )

    def _noise(self, old: Committed, new: Committed, X: Array, Y: Array, due: bool) -> Committed:
        """The errors of a block, and where it is due the variance of the noise from them."""
        prior, Z = propagate(old.state, self.dynamics), old.x_scale.clipped(X)
        scale = float(old.y_scale.std[0])
        error = (Y - old.y_scale.mean)[:, 0] - scale * self.model(prior.mu, Z)[:, 0]
        sums = old.errors + float(error @ error), old.n_errors + len(error)
        if not due:
            return new._replace(errors=sums[0], n_errors=sums[1])
        J = outputs_and_jacobians(self.model, prior.mu, Z)[1][:, 0]
        with one_thread():
            spread = scale**2 * float(np.vdot(J, times_covariance(prior, J))) / len(J)
        mse = sums[0] / sums[1]
        least = FLOOR * float(self._y_scale(new.y).std[0]) ** 2
        noise = max(mse - spread, LEAST * mse, least)
        if not math.isnan(old.noise):
            noise = 0.5 * (noise + old.noise)
        return new._replace(noise=noise, errors=0.0, n_errors=0)

    def likelihood(self, c: Committed) -> Likelihood:
        """Of the standardised target."""
        if self.kind == "gaussian":
            variance = float(c.y_scale.std[0]) ** 2
            return likelihoods.Gaussian(var=1.0 if math.isnan(c.noise) else c.noise / variance)
        kinds: dict[str, Any] = {
            "bernoulli": likelihoods.Bernoulli, "categorical": likelihoods.Categorical,
        }  # fmt: skip
        lik: Likelihood = kinds[self.kind]()
        return lik

    def check_settings(
        self,
        m: Method,
        model: ParametricModel,
        prior_var: float,
        gamma: float,
        noise_var: float | None,
    ) -> None:
        """Refuse settings that are not those with which the rows so far were learned."""
        first = float(marginal_variance(self.prior)[0] / defaults.fan_in(self.model)[0])
        used = self.dynamics.gamma if isinstance(self.dynamics, OU) else 1.0
        for name, old, new, same in (
            ("method", self.m, m, m == self.m),
            ("the network", self.model, model, model.spec == self.model.spec),
            ("prior_var", f"{first:.6g}", prior_var, math.isclose(prior_var, first, rel_tol=1e-9)),
            ("noise_var", self.noise_var, noise_var, noise_var == self.noise_var),
            ("gamma", used, gamma, gamma == used),
        ):
            if not same:
                raise InvalidValue(
                    f"{name} must stay {old}, with which {self.rows} rows were learned, got {new}; "
                    "fit(X, y) starts again with other settings"
                )

    # --- predictions

    def outputs(self, X: Array) -> tuple[Likelihood, Scale, Array, Array]:
        """Likelihood and scale of the target, and mean (N, C) and covariance (N, C, C) of f."""
        c = self.current()
        prior = propagate(c.state, self.dynamics)
        m, V = output_moments(self.model, prior, c.x_scale.clipped(X))
        return self.likelihood(c), c.y_scale, m, V

    # --- to plain data and back, for pickle, skops and bongref.save

    def to_saved(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays by name, and everything else as plain JSON."""
        c, (moving, kind) = self.committed, descriptions.dynamics(self.dynamics)
        arrays = {"X": self.X, "Y": self.Y, **moving}
        arrays |= descriptions.state("prior", self.prior) | descriptions.state("state", c.state)
        arrays |= {f"{k}.{f}": getattr(getattr(c, k), f) for k, f in _COLUMNS}
        data = {
            "method": descriptions.method(self.m),
            "model": descriptions.model(self.model),
            "kind": self.kind,
            "dynamics": kind,
            "noise_var": self.noise_var,
            "seed": self.seed,
            "noise": None if math.isnan(c.noise) else c.noise,
            "rng": plain(c.rng),
            **{k: getattr(c, k) for k in ("rows", "renewal", "errors", "n_errors")},
        }
        return arrays, data

    @classmethod
    def from_saved(cls, arrays: Mapping[str, Array], data: Any) -> Learner:
        """The inverse of :meth:`to_saved`; everything is checked as something from outside."""
        data = keys(
            data, "method", "model", "kind", "dynamics", "noise_var", "seed", "noise", "rng",
            "rows", "renewal", "errors", "n_errors",
        )  # fmt: skip
        m, model = descriptions.method_from(data["method"]), descriptions.model_from(data["model"])
        if not isinstance(model, ParametricModel) or model.kind not in ("linear", "mlp"):
            raise Damaged("the model must be linear or an mlp")
        kind, rank = descriptions.state_kind(m), m.rank(model.n_params)
        prior, state = (descriptions.state_from(k, kind, arrays, rank) for k in ("prior", "state"))
        dynamics = descriptions.dynamics_from(arrays, data["dynamics"])
        if len(prior.mu) != model.n_params or len(state.mu) != model.n_params:
            raise Damaged(f"the states must have {model.n_params} parameters")
        if isinstance(dynamics, Linear):
            raise Damaged("the dynamics must be static or ou")
        if isinstance(dynamics, OU):
            _check_ou(dynamics, model.n_params)
        names = {"X", "Y", *(f"{k}.{f}" for k, f in _COLUMNS)}
        names |= {f"{k}.{f}" for k in ("prior", "state") for f in kind._fields}
        if set(arrays) != names | {f"dynamics.{f}" for f in dynamics._fields}:
            raise Damaged(f"it must have the arrays {sorted(names)}")
        if any(a.dtype != np.float64 for a in arrays.values()):
            raise Damaged("its arrays must be of float64")
        checks.choice("kind", data["kind"], KINDS)
        positive = {k: None if data[k] is None else checks.scalar(k, data[k]) for k in _OPTIONAL}
        if any(v is not None and not v > 0 for v in positive.values()):
            raise Damaged("variances must be > 0")
        if data["kind"] == "gaussian" and data["rows"] != 0 and data["noise"] is None:
            raise Damaged("the observation variance is missing")
        made = cls(m, model, data["kind"], prior, dynamics, positive["noise_var"], 0)
        made.seed = checks.integer("seed", data["seed"], 0, 2**31)
        made.committed = _committed(made.committed, arrays, data, state, positive["noise"])
        sizes = made.X.shape[1], made.Y.shape[1]
        made.X, made.Y = (
            checks.array(k, arrays[k], shape=(None, n), empty=True)
            for k, n in zip("XY", sizes, strict=True)
        )
        if len(made.X) != len(made.Y) or len(made.X) >= BLOCK:
            raise Damaged(f"X and Y must have the same number of rows below {BLOCK}")
        if made.kind != "gaussian" and not _is_label(made.Y):
            raise Damaged("Y must be 0 or 1, with one 1 in each row of several classes")
        return made

    def __getstate__(self) -> dict[str, Any]:
        arrays, data = self.to_saved()
        return {"arrays": arrays, "data": data}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(Learner.from_saved(saved["arrays"], saved["data"]).__dict__)


# the columns' statistics, each of D or C numbers
_COLUMNS = (
    *((k, f) for k in ("x", "y") for f in ("mean", "squares")),
    *((k, f) for k in ("x_scale", "y_scale") for f in ("mean", "std")),
)
_OPTIONAL = ("noise_var", "noise")


def _committed(
    empty: Committed, arrays: Mapping[str, Array], data: Any, state: State, noise: float | None
) -> Committed:
    """What a file says of the last full block."""
    sizes = {"x": len(empty.x.mean), "y": len(empty.y.mean)}
    c = {
        k: {
            f: checks.array(f"{k}.{f}", arrays[f"{k}.{f}"], shape=(sizes[k[0]],))
            for j, f in _COLUMNS
            if j == k
        }
        for k in ("x", "y", "x_scale", "y_scale")
    }
    counts = {k: checks.integer(k, data[k], 0) for k in ("rows", "renewal", "n_errors")}
    errors = checks.scalar("errors", data["errors"])
    rng = descriptions.generator_from(data["rng"])
    rows, ahead = counts["rows"], counts["renewal"] - counts["rows"]
    ok = rows % BLOCK == 0 and 0 < ahead <= LONGEST and errors >= 0
    ok = ok and rows <= 2**53 and counts["n_errors"] <= rows
    ok = ok and all(np.all(v[f] >= 0) for v in c.values() for f in v if f != "mean")
    std = np.concatenate([c["x_scale"]["std"], c["y_scale"]["std"]])
    ok = ok and bool(np.all(std < RANGE) and np.all(std[(std > 0)] > 1 / RANGE))
    ok = ok and (noise is None or 0 < noise / float(std[-1] or 1.0) ** 2 < math.inf)
    if not ok or rng is None or not np.all(c["y_scale"]["std"] > 0):
        raise Damaged("the statistics of the rows are not possible")
    x, y = (Moments(counts["rows"], **c[k]) for k in ("x", "y"))
    scales = Scale(**c["x_scale"]), Scale(**c["y_scale"])
    return Committed(
        state, counts["rows"], counts["renewal"], x, y, *scales,
        math.nan if noise is None else noise, errors, counts["n_errors"], rng.bit_generator.state,
    )  # fmt: skip


def _is_label(Y: Array) -> bool:
    """Whether the rows are labels as :meth:`Learner.learn` takes them."""
    coded = bool(np.all((Y == 0) | (Y == 1)))
    return coded and (Y.shape[1] == 1 or bool(np.all(Y.sum(axis=1) == 1)))


def _check_ou(dynamics: OU, P: int) -> None:
    """What a file says of the forgetting: as the estimators make it."""
    gamma, mu0, var0 = (np.asarray(v) for v in dynamics)
    if gamma.shape != () or not 0 <= float(gamma) <= 1:
        raise Damaged("gamma must be a number in [0, 1]")
    if mu0.shape != (P,) or var0.shape != (P,) or not np.all(var0 > 0):
        raise Damaged(f"mu0 and var0 must have {P} numbers, var0 > 0")


class _RowFailed(Exception):
    """A row, counted from the first one ever learned, cannot be learned.

    ``error`` makes the message, for which remedies are tried: of the last failure only.
    """

    def __init__(self, step: int, error: Callable[[], StreamEnded]) -> None:
        super().__init__(step)
        self.step, self.error = step, error


class _Segment:
    """Rows with the same scales and noise, for one compiled stream."""

    def __init__(self, learner: Learner, c: Committed, X: Array, Y: Array) -> None:
        self.learner, self.c = learner, c
        self.rng = np.random.default_rng(0)
        Z, U = c.x_scale.clipped(X), Y
        if learner.kind == "gaussian":
            U = c.y_scale.forward(Y)
        lik, mc = learner.likelihood(c), "n_samples" in learner.m.params
        data = Observations(Z, np.ascontiguousarray(U), np.ones(len(Z), dtype=bool))
        rng = self.rng if mc or "n_probes" in learner.m.params else None
        self.problem = Problem(
            learner.m, learner.model, lik, learner.prior, data, learner.dynamics, rng, None, False,
            "auto",
        )  # fmt: skip
        self.steps = choose("auto", self.problem)

    def block(self, c: Committed, first: int, stop: int) -> Committed:
        """After the rows first, …, stop − 1, as one stream from c."""
        self.rng.bit_generator.state = c.rng
        state, t = type(c.state)(*c.state), first  # of another object nothing is kept from before
        try:
            while t < stop:
                state, t, _ = self.steps.advance(state, t, stop)
        except StepFailed as failure:
            error = partial(self._error, c, first, stop, failure)
            raise _RowFailed(c.rows + failure.t - first + 1, error) from None
        return c._replace(state=state, rng=self.rng.bit_generator.state)

    def fault(self, c: Committed, first: int, stop: int) -> str:
        """Whether the state after the rows first, …, stop − 1 has run away from them."""
        p = self._problem(first, stop)
        xs, ys = (np.asarray(a) for a in p.data[:2])
        return divergence.fault(p, c.rows, c.state, [xs], [ys], False)

    def _problem(self, first: int, stop: int) -> Problem:
        """Of the rows first, …, stop − 1, with the prior before the first row ever learned."""
        xs, ys, seen = self.problem.data
        data = Observations(xs[first:stop], ys[first:stop], seen[first:stop])
        return self.problem._replace(data=data)

    def _error(self, c: Committed, first: int, stop: int, failure: StepFailed) -> StreamEnded:
        """The error of a row, counted from the first one ever learned."""
        p = self._problem(first, stop)
        failure.t, failure.before = failure.t - first, c.rows
        return stream.ended(failure, p, None, "the state before it is in .state")


def _set_by(text: str) -> str:
    """The settings of the estimators that do what a text advises."""
    return "".join(f" {how}." for what, how in SET_BY.items() if what in text)

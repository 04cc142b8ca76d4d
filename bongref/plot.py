"""Pictures of streams and states: metrics over steps, predictive bands, calibration, ellipses.

    result.plot()                                     # the metrics of a run
    br.plot.band(model, lik, state, X, Y)             # a regression with one input
    br.plot.calibration(predictive, Y)                # reliability or coverage
    br.plot.ellipse({"prior": prior, "posterior": state}, params=(0, 1))

Every function takes ``ax=`` and returns the axes. matplotlib is the extra ``plot``:
pip install 'bongref[plot]'. Colours are the Okabe-Ito ones, which colour-blind readers can tell
apart; text and data points take the colours of the style that is on, light or dark.

>>> import matplotlib; matplotlib.use("agg")
>>> import numpy as np, bongref as br
>>> ax = br.plot.ellipse({"prior": br.Diag(np.zeros(2), np.ones(2))}, params=(0, 1))
>>> [t.get_text() for t in ax.get_legend().get_texts()]
['prior']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import checks, predictive
from .errors import InvalidType, InvalidValue
from .gaussians import covariance_times, marginal_variance
from .likelihoods import Likelihood
from .linalg import Array, cholesky
from .models import Model
from .predictive import Predictive
from .states import DLR, FC, Diag, State
from .tables import as_array

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
LEVELS = np.linspace(0.05, 0.95, 19)  # of central intervals
UNITS = {
    "nlpd": "NLPD (nats per observation)",
    "prequential": "one-step-ahead NLPD (nats)",
    "error": "share of wrong classes",
    "ece": "expected calibration error",
    "rmse": "RMSE (units of y)",
    "kl": "KL divergence to the exact posterior (nats)",
}


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("bongref.plot needs matplotlib: pip install 'bongref[plot]'") from None
    return pyplot


def _axes(ax: Any) -> Any:
    if ax is None:
        return _pyplot().subplots(figsize=(6, 4), layout="constrained")[1]
    if not hasattr(ax, "plot") or not hasattr(ax, "set_xlabel"):
        raise InvalidType(f"ax must be matplotlib axes, got {checks.describe(ax)}")
    return ax


def _legend_above(ax: Any, columns: int, title: str = "") -> None:
    """A legend that covers nothing."""
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": columns}
    ax.legend(**place, frameon=False, fontsize="small", title=title or None)


def _colour(ax: Any, k: int) -> str:
    """The k-th colour; on a dark background the light blue first."""
    from matplotlib.colors import to_rgb

    dark = sum(to_rgb(ax.get_facecolor())) < 1.5
    order = (4, 1, 2, 3, 0, 5, 6) if dark else range(7)
    return COLOURS[tuple(order)[k % 7]]


def _ink() -> Any:
    """The colour of text in the style that is on."""
    return _pyplot().rcParams["text.color"]


# --- metrics over steps ---------------------------------------------------------------------------


def metrics(result: Any, *names: str, ax: Any = None) -> Any:
    """Metrics of one or several runs over the steps, one panel for each metric.

    Parameters
    ----------
    result : Result, or mapping of label to Result
        Of :func:`bongref.run` with ``metrics=``.
    *names : str
        Which metrics, as in the rows; all without.
    ax : matplotlib axes or array of axes, optional
        One for each metric; new ones without.

    Returns
    -------
    matplotlib axes, or an array of them where there are several metrics

    Raises
    ------
    InvalidValue
        If there are no rows, or no metric of that name.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import bongref as br
    >>> model, lik, X = br.models.linear(1), br.likelihoods.Gaussian(var=1.0), np.ones((20, 1))
    >>> test = br.metrics.on(X, 2 * X, "rmse")
    >>> prior = br.Diag(mu=np.zeros(1), var=np.ones(1))
    >>> r = br.run("bong-lin-hess-diag", model, lik, prior, X, 2 * X, metrics=test, every=5,
    ...            backend="reference")
    >>> r.plot().get_xlabel()
    'step'
    """
    runs = dict(result) if isinstance(result, Mapping) else {"": result}
    if not runs:
        raise InvalidValue("result must be a Result, or a dict of some, got {}")
    rows = {label: _rows(run) for label, run in runs.items()}
    first = [k for k, v in next(iter(rows.values()))[-1].items() if k != "t" and _is_number(v)]
    for name in names:
        checks.choice("names", name, first)
    wanted = list(names or first)
    if not wanted:
        raise InvalidValue("result must have rows with numbers, got none; give run metrics=...")
    axes = _panels(ax, len(wanted))
    for k, name in enumerate(wanted):
        for j, (label, own) in enumerate(rows.items()):
            t, y = zip(*((row["t"], row.get(name, np.nan)) for row in own), strict=True)
            marker = "o" if len(t) <= 40 else ""
            axes[k].plot(t, y, color=_colour(axes[k], j), marker=marker, markersize=4, label=label)
        axes[k].set_ylabel(UNITS.get(name.partition("-")[0], name))
        axes[k].set_title(name)
        axes[k].set_xlabel("step")
        axes[k].grid(alpha=0.25)
    if any(runs):
        axes[0].legend()
    return axes[0] if len(wanted) == 1 else np.array(axes)


def _rows(run: Any) -> list[dict[str, Any]]:
    rows = getattr(run, "rows", None)
    if rows is None:
        raise InvalidType(f"result must be a Result of bongref.run, got {checks.describe(run)}")
    if not rows:
        raise InvalidValue(
            "result must have rows of metrics, got none; "
            "give run metrics=bongref.metrics.on(X_test, Y_test, 'nlpd') and every=..."
        )
    return list(rows)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _panels(ax: Any, n: int) -> list[Any]:
    if ax is None:
        size = (4.2 * n if n > 1 else 6, 3.6)
        return list(
            _pyplot().subplots(1, n, figsize=size, squeeze=False, layout="constrained")[1][0]
        )
    axes = list(np.atleast_1d(np.asarray(ax, dtype=object)).ravel())
    if len(axes) != n:
        raise InvalidValue(f"ax must be {n} axes, one for each metric, got {len(axes)}")
    return axes


# --- a predictive band ----------------------------------------------------------------------------


def band(
    model: Model,
    lik: Likelihood,
    state: State,
    X: Any,
    Y: Any = None,
    *,
    kind: str = "lin_mc",
    level: float = 0.95,
    n_samples: int = 500,
    rng: np.random.Generator | int = 0,
    ax: Any = None,
) -> Any:
    """Predictive band of a model with one input and one output, with the data.

    The line is the predictive mean; the inner band is the uncertainty of the mean (epistemic, from
    the posterior), the outer one that of an observation (with the noise). Both have the half-width
    z·std of a central normal interval of probability ``level``.

    Parameters
    ----------
    model : Model
        With one input and one output.
    lik : Likelihood
    state : FC, Diag or DLR
    X : array_like, shape (N,) or (N, 1)
        The inputs of the data; the band goes a little beyond them.
    Y : array_like, shape (N,) or (N, 1), optional
        The observations; without them only the band is drawn.
    kind : {"lin_mc", "mc", "lin_mc_f"}
        The predictive distribution.
    level : float
        The probability of the bands, in (0, 1).
    n_samples : int
    rng : numpy.random.Generator or int
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    InvalidValue, InvalidType
        If the model has several inputs or outputs, or an argument is refused.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import bongref as br
    >>> model, lik = br.models.linear(1), br.likelihoods.Gaussian(var=0.1)
    >>> state = br.Diag(np.ones(1), np.full(1, 0.01))
    >>> band(model, lik, state, [0.0, 1.0], [0.1, 0.9]).get_ylabel()
    'y'
    """
    from .special import ndtri

    checks.choice("kind", kind, ("lin_mc", "mc", "lin_mc_f"))
    level = _probability("level", level)
    x = checks.array("X", X, ndim=(1, 2)).reshape(-1)
    checks.model(model)
    if getattr(model, "in_shape", None) not in ((1,), None) or model.n_outputs not in (1, None):
        raise InvalidValue(
            f"model must have one input and one output, got {model!r}; "
            "for others draw bongref.plot.calibration"
        )
    y = None if Y is None else checks.array("Y", Y).reshape(-1)
    if y is not None and len(y) != len(x):
        raise InvalidValue(f"X and Y must have the same length, got {len(x)} and {len(y)}")
    span = float(np.ptp(x)) or 1.0
    grid = np.linspace(x.min() - 0.1 * span, x.max() + 0.1 * span, 200)
    p = predictive.predict(kind, model, lik, state, grid[:, None], n_samples=n_samples, rng=rng)
    z = float(ndtri(0.5 + level / 2))
    mean, epistemic = p.mean[:, 0], z * p.means.std(axis=0)[:, 0]
    total = z * np.sqrt(p.var[:, 0])
    ax, share = _axes(ax), f"{100 * level:g} %"
    outer, inner = (dict(color=_colour(ax, 0), alpha=a, linewidth=0) for a in (0.2, 0.35))
    ax.fill_between(grid, mean - total, mean + total, label=f"observation, {share}", **outer)
    ax.fill_between(grid, mean - epistemic, mean + epistemic, label=f"mean, {share}", **inner)
    ax.plot(grid, mean, color=_colour(ax, 0), label="predictive mean")
    if y is not None:
        ax.plot(x, y, ".", color=_ink(), alpha=0.6, markersize=4, label="data")
    ax.set_xlabel("x")
    ax.set_ylabel("y")
    _legend_above(ax, columns=4)
    return ax


def _probability(name: str, value: Any) -> float:
    p = checks.scalar(name, value)
    if not 0 < p < 1:
        raise InvalidValue(f"{name} must be in (0, 1), got {value!r}")
    return p


# --- calibration ----------------------------------------------------------------------------------


def calibration(pred: Predictive, Y: Any, *, n_bins: int = 10, ax: Any = None) -> Any:
    """Calibration of a predictive distribution on observations.

    For classes a reliability curve: the share of right answers against the confidence, in bins with
    equally many observations, with 95 % intervals (Wilson). For other likelihoods a coverage curve:
    the share of observations in central intervals against their probability, by the rank of each
    observation in the predictive distribution. On the diagonal the distribution is calibrated;
    below it, it is too confident.

    Parameters
    ----------
    pred : Predictive
        Of N inputs, from :mod:`bongref.predictive`.
    Y : array_like, shape (N,) or (N, C)
        Their observations.
    n_bins : int
        Bins of the reliability curve, at most.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    InvalidValue, InvalidType
        If Y does not fit the predictive distribution.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import bongref as br
    >>> p = Predictive("plugin", br.likelihoods.Gaussian(1.0), np.zeros((1, 50, 1)))
    >>> Y = np.random.default_rng(0).standard_normal(50)
    >>> calibration(p, Y).get_ylabel()
    'share of observations inside'
    """
    kind = _kind(pred, "Gaussian, Categorical or Bernoulli", ("numbers", "classes"))
    n_bins = checks.integer("n_bins", n_bins, 1)
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], "--", color=_ink(), alpha=0.6, linewidth=1, label="calibrated")
    if kind == "classes":
        confidence, share, low, high = reliability(pred, Y, n_bins)
        bars = np.array([share - low, high - share])
        style = dict(color=_colour(ax, 0), marker="o", markersize=4, capsize=3)
        ax.errorbar(confidence, share, bars, label="classes, with 95 % intervals", **style)
        ax.set_xlabel("confidence (probability of the predicted class)")
        ax.set_ylabel("share of right answers")
    else:
        inside = coverage(pred, Y)
        ax.plot(LEVELS, inside, "o-", color=_colour(ax, 0), markersize=4, label="central intervals")
        ax.set_xlabel("probability of the interval")
        ax.set_ylabel("share of observations inside")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.grid(alpha=0.25)
    ax.legend(loc="lower right", fontsize="small")
    return ax


def _kind(pred: Any, likelihoods: str, allowed: tuple[str, ...]) -> str:
    """Whether a predictive is of "classes" or of "numbers" (Gaussian); others are refused."""
    if not isinstance(pred, Predictive):
        raise InvalidType(
            "pred must be a Predictive, e.g. bongref.predictive.lin_mc(model, lik, state, X, rng=0)"
            f", got {checks.describe(pred)}"
        )
    name, C = pred.lik.name, pred.values.shape[2]
    classes = name == "categorical" or (name == "bernoulli" and C == 1)
    kind = "classes" if classes else "numbers" if name == "gaussian" else ""
    if kind not in allowed:
        one = " with one output" if "Bernoulli" in likelihoods else ""
        raise InvalidValue(f"pred must be of a {likelihoods} likelihood{one}, got {pred.lik!r}")
    return kind


def coverage(pred: Predictive, Y: Any, levels: Any = LEVELS) -> Array:
    """The share of observations inside the central predictive intervals of each probability.

    Parameters
    ----------
    pred : Predictive
        Of a Gaussian likelihood.
    Y : array_like, shape (N,) or (N, 1)
    levels : array_like, shape (K,)
        Probabilities of the intervals.

    Returns
    -------
    ndarray, shape (K,)

    Raises
    ------
    InvalidValue
        If a level is not in [0, 1].

    Examples
    --------
    >>> import bongref as br
    >>> p = Predictive("plugin", br.likelihoods.Gaussian(1.0), np.zeros((1, 3, 1)))
    >>> coverage(p, [0.0, 0.5, 3.0], levels=[0.5, 0.99])
    array([0.66666667, 0.66666667])
    """
    from .special import ndtr

    levels = checks.array("levels", levels, ndim=1)
    if np.any((levels < 0) | (levels > 1)):
        raise InvalidValue(f"levels must be in [0, 1] (probabilities), got {levels.tolist()}")
    _kind(pred, "Gaussian", ("numbers",))
    _, N, C = pred.values.shape
    y = checks.answers(pred.lik, Y, C, N)
    R = np.asarray(pred.lik.R)  # type: ignore[attr-defined]
    std = np.sqrt(np.diag(R) if R.ndim else R)
    rank = ndtr((y - pred.means) / std).mean(axis=0)  # the mixture's distribution function at y
    inside = np.abs(2 * rank - 1).ravel()
    return np.array([np.mean(inside <= level) for level in levels])


def reliability(pred: Predictive, Y: Any, n_bins: int = 10) -> tuple[Array, Array, Array, Array]:
    """Confidence, share of right answers and its 95 % Wilson interval, in bins of equal counts.

    Parameters
    ----------
    pred : Predictive
        Of a Categorical likelihood, or a Bernoulli one with one output.
    Y : array_like, shape (N,), or (N, C) of one-hot vectors
        The observed classes.
    n_bins : int
        At most; a bin has at least one observation.

    Returns
    -------
    confidence, share, low, high : ndarray, shape (n_bins,) or less

    Examples
    --------
    >>> import bongref as br
    >>> p = np.array([[[0.75, 0.25], [0.75, 0.25]]])
    >>> pred = Predictive("plugin", br.likelihoods.Categorical(), p, of_means=True)
    >>> [a.round(2).tolist() for a in reliability(pred, [0, 1], n_bins=1)]
    [[0.75], [0.5], [0.09], [0.91]]
    """
    _kind(pred, "Categorical or Bernoulli", ("classes",))
    n_bins = checks.integer("n_bins", n_bins, 1)
    _, N, C = pred.values.shape
    p, y = pred.mean, checks.answers(pred.lik, Y, C, N)
    if C == 1:
        p, y = np.concatenate([1 - p, p], axis=1), np.concatenate([1 - y, y], axis=1)
    guess = np.argmax(p, axis=1)
    confidence, right = np.max(p, axis=1), (guess == np.argmax(y, axis=1)).astype(float)
    bins = np.array_split(np.argsort(confidence, kind="stable"), min(n_bins, N))
    n = np.array([len(b) for b in bins], dtype=float)
    share = np.array([right[b].mean() for b in bins])
    z2 = 1.959963984540054**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    low, high = np.minimum(middle - half, share), np.maximum(middle + half, share)
    return np.array([confidence[b].mean() for b in bins]), share, low, high


# --- two parameters -------------------------------------------------------------------------------


def ellipse(
    states: Any, params: Sequence[int] = (0, 1), *, level: float = 0.95, ax: Any = None
) -> Any:
    """Ellipses of two parameters of one or several states.

    Each encloses the given probability of the marginal distribution of the two parameters.

    Parameters
    ----------
    states : FC, Diag or DLR, a sequence of them, or a mapping of labels to them
    params : pair of int
        The indices of the two parameters.
    level : float
        The probability inside, in (0, 1).
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Raises
    ------
    InvalidValue, InvalidType
        If a state is not positive definite, or has no such parameters.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import bongref as br
    >>> prior, state = br.Diag(np.zeros(2), np.ones(2)), br.Diag(np.ones(2), np.full(2, 0.1))
    >>> ellipse({"prior": prior, "posterior": state}).get_xlabel()
    'parameter 0'
    """
    level = _probability("level", level)
    shown = _labelled(states)
    pairs = [marginal(q, params) for q in shown.values()]
    ax = _axes(ax)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.sqrt(-2 * np.log1p(-level)) * np.stack([np.cos(angle), np.sin(angle)])
    for k, (label, (mean, cov)) in enumerate(zip(shown, pairs, strict=True)):
        x, y = mean[:, None] + cholesky(cov) @ circle
        style = ("-", "--", "-.", ":")[k % 4]
        ax.plot(x, y, style, color=_colour(ax, k), label=label)
        ax.plot(*mean, "+", color=_colour(ax, k))
    ax.set_xlabel(f"parameter {params[0]}")
    ax.set_ylabel(f"parameter {params[1]}")
    ax.grid(alpha=0.25)
    if any(shown):
        _legend_above(ax, columns=2, title=f"ellipses with {100 * level:g} % inside")
    return ax


def marginal(q: State, params: Sequence[int]) -> tuple[Array, Array]:
    """Mean (2,) and covariance (2, 2) of two parameters of a state.

    Parameters
    ----------
    q : FC, Diag or DLR
    params : pair of int

    Returns
    -------
    mean, cov : ndarray, shapes (2,) and (2, 2)

    Raises
    ------
    InvalidValue
        If ``params`` are not two different parameters.

    Examples
    --------
    >>> import bongref as br
    >>> marginal(br.Diag(np.zeros(3), np.array([1.0, 2.0, 3.0])), (0, 2))[1]
    array([[1., 0.],
           [0., 3.]])
    """
    q = checks.state("states", q)
    P = len(q.mu)
    pair = as_array(params)
    if pair.shape != (2,) or pair[0] == pair[1]:
        raise InvalidValue(f"params must be two different indices of parameters, got {params!r}")
    i, j = (checks.integer(f"params[{k}]", pair[k], 0, P - 1) for k in (0, 1))
    if isinstance(q, FC):
        cov = q.Sigma[np.ix_([i, j], [i, j])]
    elif isinstance(q, DLR):
        unit = np.zeros((P, 2))
        unit[[i, j], [0, 1]] = 1
        both = covariance_times(q, unit)[[i, j]]
        cov = (both + both.T) / 2
    else:
        cov = np.diag(marginal_variance(q)[[i, j]])
    return q.mu[[i, j]], cov


def _labelled(states: Any) -> dict[str, State]:
    if isinstance(states, (FC, Diag, DLR)):
        return {"": states}
    if isinstance(states, Mapping):
        return {str(k): v for k, v in states.items()}
    if isinstance(states, (list, tuple)) and states and not hasattr(states, "state"):
        return {f"state {k}": q for k, q in enumerate(states)}
    raise InvalidType(
        "states must be a state, a sequence of states or a mapping of labels to states, got "
        f"{checks.describe(states)}{'; use its .state' if hasattr(states, 'state') else ''}"
    )

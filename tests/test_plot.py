"""The pictures show the numbers: lines, bands, shares and ellipses are recomputed by other
means.
"""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from scipy import stats

import bongref as br
from bongref.errors import InvalidType, InvalidValue
from bongref.predictive import Predictive

matplotlib.use("agg")
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def result(names=("rmse", "nlpd")):
    model, lik, X = br.models.linear(1), br.likelihoods.Gaussian(var=1.0), np.ones((20, 1))
    test = br.metrics.on(X, 2 * X, *names)
    prior = br.Diag(mu=np.zeros(1), var=np.ones(1))
    return br.run(
        "bong-lin-hess-diag", model, lik, prior, X, 2 * X, metrics=test, every=5,
        backend="reference", progress=False,
    )  # fmt: skip


def test_metrics_are_drawn_over_the_steps():
    r = result()
    axes = r.plot()
    assert [ax.get_title() for ax in axes] == ["rmse", "nlpd"]
    for ax, name in zip(axes, ("rmse", "nlpd"), strict=True):
        (line,) = ax.get_lines()
        assert line.get_xdata().tolist() == [5, 10, 15, 20]
        assert line.get_ydata().tolist() == [row[name] for row in r.rows]
        assert ax.get_xlabel() == "step" and "(" in ax.get_ylabel()
    mine = pyplot.subplots()[1]
    assert r.plot("nlpd", ax=mine) is mine and len(mine.get_lines()) == 1
    several = br.plot.metrics({"a": r, "b": r}, "rmse")
    assert [t.get_text() for t in several.get_legend().get_texts()] == ["a", "b"]


def test_metrics_that_are_not_there():
    r = result()
    with pytest.raises(InvalidValue, match="names must be 'rmse' or 'nlpd', got 'ece'"):
        r.plot("ece")
    with pytest.raises(InvalidValue, match=r"rows of metrics, got none; give run metrics="):
        r._replace(rows=[]).plot()
    with pytest.raises(InvalidType, match="result must be a Result"):
        br.plot.metrics(3)
    with pytest.raises(InvalidValue, match="ax must be 2 axes, one for each metric, got 1"):
        r.plot(ax=pyplot.subplots()[1])


def test_a_band_has_the_mean_and_both_widths():
    """A linear model with one weight: the predictive distribution is N(μx, vx² + R) exactly."""
    model, lik, v, R = br.models.linear(1), br.likelihoods.Gaussian(var=0.09), 0.04, 0.09
    state = br.Diag(np.array([2.0]), np.array([v]))
    ax = br.plot.band(model, lik, state, [0.0, 1.0], [0.1, 1.9], n_samples=40000, level=0.9)
    z = stats.norm.ppf(0.95)
    for band, std in zip(
        ax.collections, (np.sqrt(v * 1.1**2 + R), np.sqrt(v * 1.1**2)), strict=True
    ):
        path = band.get_paths()[0].vertices
        right = path[np.isclose(path[:, 0], 1.1)]
        half = (right[:, 1].max() - right[:, 1].min()) / 2
        assert half == pytest.approx(z * std, rel=6 / np.sqrt(2 * 40000))
    mean, points = ax.get_lines()
    assert np.allclose(mean.get_ydata()[-1], 2.2, atol=6 * 0.22 / 200)
    assert points.get_xdata().tolist() == [0.0, 1.0] and points.get_ydata().tolist() == [0.1, 1.9]
    said = [t.get_text() for t in ax.get_legend().get_texts()]
    assert said == ["observation, 90 %", "mean, 90 %", "predictive mean", "data"]
    alone = br.plot.band(model, lik, state, [[0.5]])  # one input, no data
    assert len(alone.get_lines()) == 1


def test_bands_that_cannot_be_drawn():
    model, lik = br.models.linear(2), br.likelihoods.Gaussian(var=1.0)
    state = br.Diag(np.zeros(2), np.ones(2))
    with pytest.raises(
        InvalidValue, match=r"one input and one output, got <linear, sizes=\[2, 1\]"
    ):
        br.plot.band(model, lik, state, [0.0])
    one, q = br.models.linear(1), br.Diag(np.zeros(1), np.ones(1))
    with pytest.raises(InvalidValue, match=r"level must be in \(0, 1\), got 95"):
        br.plot.band(one, lik, q, [0.0], level=95)
    with pytest.raises(InvalidValue, match="same length, got 2 and 1"):
        br.plot.band(one, lik, q, [0.0, 1.0], [0.0])
    with pytest.raises(InvalidValue, match="kind must be"):
        br.plot.band(one, lik, q, [0.0], kind="plugin")


def test_coverage_is_that_of_the_predictive_distribution():
    """Of a mixture of normals, by its samples; and of one normal, in closed form."""
    rng = np.random.default_rng(0)
    means, y = rng.standard_normal((5, 30, 1)), rng.standard_normal(30)
    pred = Predictive("mc", br.likelihoods.Gaussian(0.25), means)
    levels = [0.3, 0.6, 0.9]
    got = br.plot.coverage(pred, y, levels)
    draws = means[rng.integers(5, size=20000), :, 0] + 0.5 * rng.standard_normal((20000, 1))
    low, high = (np.quantile(draws, [0.5 - s * p / 2 for p in levels], axis=0) for s in (1, -1))
    assert np.abs(got - np.mean((low <= y) & (y <= high), axis=1)).max() <= 1 / 30 + 1e-12
    one = Predictive("plugin", br.likelihoods.Gaussian(4.0), np.zeros((1, 30, 1)))
    inside = [np.mean(np.abs(y) <= 2 * stats.norm.ppf(0.5 + p / 2)) for p in levels]
    assert br.plot.coverage(one, y, levels).tolist() == inside
    line = br.plot.calibration(one, y).get_lines()[1]
    assert np.array_equal(line.get_ydata(), br.plot.coverage(one, y))


def test_reliability_counts_right_answers():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=40)
    y = rng.integers(3, size=40)
    pred = Predictive("plugin", br.likelihoods.Categorical(), p[None], of_means=True)
    confidence, share, low, high = br.plot.reliability(pred, y, n_bins=4)
    order = np.argsort(p.max(axis=1), kind="stable").reshape(4, 10)
    right = p.argmax(axis=1) == y
    assert np.allclose(share, right[order].mean(axis=1))
    assert np.allclose(confidence, p.max(axis=1)[order].mean(axis=1))
    for k in range(4):
        wanted = stats.binomtest(int(right[order[k]].sum()), 10).proportion_ci(0.95, "wilson")
        assert (low[k], high[k]) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    two = Predictive(
        "plugin", br.likelihoods.Bernoulli(), np.log(p[None, :, :1] / (1 - p[None, :, :1]))
    )
    assert br.plot.reliability(two, y == 0, n_bins=1)[0] == pytest.approx(
        np.maximum(p[:, 0], 1 - p[:, 0]).mean()
    )
    ax = br.plot.calibration(pred, y, n_bins=4)
    assert ax.get_ylabel() == "share of right answers" and ax.get_xlim() == (0, 1)


def test_calibration_that_cannot_be_drawn():
    with pytest.raises(InvalidType, match="pred must be a Predictive"):
        br.plot.calibration(np.zeros(3), [1])
    rates = Predictive("plugin", br.likelihoods.Poisson(), np.zeros((1, 3, 1)))
    with pytest.raises(InvalidValue, match=r"got Poisson\(\)"):
        br.plot.calibration(rates, [1, 2, 3])


def test_an_ellipse_encloses_its_probability():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 3))
    full = br.FC(rng.standard_normal(3), A @ A.T + np.eye(3))
    low = br.DLR(full.mu, np.array([1.0, 2.0, 3.0]), rng.standard_normal((3, 1)))
    flat = br.Diag(full.mu, np.array([1.0, 4.0, 9.0]))
    ax = br.plot.ellipse([full, low, flat], params=(2, 0), level=0.8)
    curves = [line for line in ax.get_lines() if len(line.get_xdata()) > 1]
    assert [line.get_label() for line in curves] == ["state 0", "state 1", "state 2"]
    precision = np.diag(low.Ups) + low.W @ low.W.T
    for line, cov in zip(
        curves, (full.Sigma, np.linalg.inv(precision), np.diag(flat.var)), strict=True
    ):
        d = np.stack([line.get_xdata() - full.mu[2], line.get_ydata() - full.mu[0]])
        square = np.sum(d * np.linalg.solve(cov[np.ix_([2, 0], [2, 0])], d), axis=0)
        assert np.allclose(square, stats.chi2(2).ppf(0.8), rtol=1e-9)
    assert ax.get_xlabel() == "parameter 2" and ax.get_ylabel() == "parameter 0"
    assert br.plot.ellipse(full).get_legend() is None


@pytest.mark.parametrize(
    ("states", "params", "part"),
    [
        (3, (0, 1), "states must be"),
        ([], (0, 1), "states must be"),
        (
            br.Filter("bong-lin-hess-diag", br.models.linear(2), br.likelihoods.Gaussian(1.0)),
            (0, 1),
            "use its .state",
        ),
        (br.Diag(np.zeros(2), np.ones(2)), (0, 2), "params[1] must be an integer in 0...1, got 2"),
        (br.Diag(np.zeros(2), np.ones(2)), (0, 0), "two different indices"),
        (br.Diag(np.zeros(2), np.ones(2)), (0,), "two different indices"),
        (br.Diag(np.zeros(2), -np.ones(2)), (0, 1), "positive definite"),
    ],
)
def test_ellipses_that_cannot_be_drawn(states, params, part):
    with pytest.raises((InvalidValue, InvalidType)) as caught:
        br.plot.ellipse(states, params)
    assert part in str(caught.value)


def test_colours_follow_the_style():
    q = br.Diag(np.zeros(2), np.ones(2))
    light = br.plot.ellipse(q).get_lines()[0].get_color()
    with pyplot.style.context("dark_background"):
        dark = br.plot.ellipse(q).get_lines()[0].get_color()
    assert (light, dark) == ("#0072B2", "#56B4E9")


def test_without_matplotlib_the_message_says_what_to_install():
    code = """
import sys
sys.modules["matplotlib"] = None
import numpy as np, bongref as br
try:
    br.plot.ellipse(br.Diag(np.zeros(2), np.ones(2)))
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "bongref.plot needs matplotlib: pip install 'bongref[plot]'"

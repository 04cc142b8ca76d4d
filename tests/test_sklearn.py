"""The estimators: scikit-learn's checks, chunks of any size, other packages around them, bad
input.
"""

import json
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bongref as br

sklearn = pytest.importorskip("sklearn", minversion="1.6")

import joblib  # noqa: E402
import pandas as pd  # noqa: E402
from problems import least_growth  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.datasets import load_diabetes, load_iris  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import PolynomialFeatures  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from bongref.guide import defaults  # noqa: E402
from bongref.online import learner  # noqa: E402
from bongref.online.learner import BLOCK, Moments  # noqa: E402
from bongref.online.outputs import outputs_and_jacobians  # noqa: E402
from bongref.sklearn import BongClassifier, BongRegressor  # noqa: E402
from bongref.storage import estimators, files  # noqa: E402

CHEAP = {"hidden_layer_sizes": (4,), "random_state": 0}


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X, y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


# --- scikit-learn's own checks, the legacy ones too, none expected to fail -----------------------


@parametrize_with_checks([BongRegressor(), BongClassifier()], legacy=True)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# --- chunks ---------------------------------------------------------------------------------------


def in_chunks(est, X, y, sizes, **more):
    at, k = 0, 0
    while at < len(X):
        n = sizes[k % len(sizes)]
        est.partial_fit(X[at : at + n], y[at : at + n], **more)
        at, k = at + n, k + 1
    return est


def bits(est, X):
    out = [*est.state_, est.predict(X), est.sample_y(X[:5], 3, random_state=1)]
    return [np.asarray(a) for a in out]


@pytest.mark.parametrize("sizes", [(1,), (7, 32, 1), (31, 33), (64, 3)], ids=str)
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("auto", None),
        ("bong-lin-hess-dlr", {"rank": 3}),
        ("bong-mc-ef-diag", {"n_samples": 4}),
        ("blr-lin-hess-fc", {"n_iter": 2}),
    ],
    ids=str,
)
def test_any_chunking_gives_the_same_bits(name, params, sizes, diabetes):
    X, y = (a[:150] for a in diabetes)
    make = lambda: BongRegressor(name, method_params=params, gamma=0.999, **CHEAP)
    whole, parts = make().fit(X, y), in_chunks(make(), X, y, sizes)
    assert whole.n_samples_seen_ == parts.n_samples_seen_ == 150
    assert whole.noise_var_ == parts.noise_var_
    for a, b in zip(bits(whole, X), bits(parts, X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("labels", [2, 3])
def test_any_chunking_of_classes_gives_the_same_bits(labels, iris):
    X, y = iris
    X, y = X[y < labels], y[y < labels]
    whole = BongClassifier(**CHEAP).fit(X, y)
    parts = in_chunks(BongClassifier(**CHEAP), X, y, (5, 40), classes=np.arange(labels))
    np.testing.assert_array_equal(whole.predict_proba(X), parts.predict_proba(X))


def test_predictions_between_chunks_change_nothing(diabetes):
    X, y = (a[:100] for a in diabetes)
    quiet, looked = BongRegressor(**CHEAP), BongRegressor(**CHEAP)
    for at in range(0, 100, 9):
        quiet.partial_fit(X[at : at + 9], y[at : at + 9])
        looked.partial_fit(X[at : at + 9], y[at : at + 9]).predict(X)
        looked.sample_y(X[:2], 2)
    np.testing.assert_array_equal(quiet.predict(X), looked.predict(X))


def test_the_first_block_is_a_stream_of_run(diabetes):
    """With few rows the posterior is that of bongref.run on standardised data."""
    X, y = (a[:20] for a in diabetes)
    est = BongRegressor(noise_var=2000.0, **CHEAP).fit(X, y)
    Z, u = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    lik = br.likelihoods.Gaussian(2000.0 / y.std() ** 2)
    m, model = est.method_, est.model_
    result = br.run(m, model, lik, est.learner_.prior, Z, u, backend="reference")
    np.testing.assert_allclose(est.state_.mu, result.state.mu, rtol=1e-9, atol=1e-12)
    pred = br.predictive.lin_mc(model, lik, result.state, Z, n_samples=20_000, rng=0)
    mean, std = est.predict(X, return_std=True)
    np.testing.assert_allclose(
        mean, y.mean() + y.std() * model(result.state.mu, Z)[:, 0], rtol=1e-9
    )
    # the sample variance of S draws has a relative standard error of √(2/S): six of them
    np.testing.assert_allclose(std**2, y.std() ** 2 * pred.var[:, 0], rtol=6 * np.sqrt(2 / 20_000))


def test_running_moments_are_those_of_all_rows():
    A = np.random.default_rng(0).standard_normal((7 * BLOCK, 3)) * [1, 1e3, 1e-3] + [1e3, 0, 5]
    moments = Moments(0, np.zeros(3), np.zeros(3))
    for at in range(0, len(A), BLOCK):
        moments = moments.add(A[at : at + BLOCK])
    np.testing.assert_allclose(moments.mean, A.mean(0), rtol=1e-13, atol=1e-11)
    np.testing.assert_allclose(moments.std, A.std(0), rtol=1e-11)


@pytest.mark.parametrize("sizes", [[3, 1], [3, 4, 2], [3, 5, 4, 3]])
def test_compiled_jacobians_are_those_of_the_model(sizes):
    rng = np.random.default_rng(1)
    model = br.models.mlp(sizes, activation="gelu") if len(sizes) > 2 else br.models.linear(*sizes)
    mu, X = rng.standard_normal(model.n_params), rng.standard_normal((7, 3))
    for found, want in zip(
        outputs_and_jacobians(model, mu, X), (model(mu, X), model.jac(mu, X)), strict=True
    ):
        assert found.shape == want.shape
        np.testing.assert_allclose(found, want, atol=64 * np.finfo(float).eps * np.abs(want).max())


def test_scales_and_noise_are_renewed_at_row_counts(diabetes):
    X, y = diabetes
    est, seen = BongRegressor(**CHEAP), []
    for at in range(0, 320, BLOCK):
        est.partial_fit(X[at : at + BLOCK], y[at : at + BLOCK])
        seen.append(est.noise_var_)
    changed = [BLOCK * (k + 1) for k in range(1, len(seen)) if seen[k] != seen[k - 1]]
    assert changed == [64, 96, 128, 192, 288]
    for a, b in zip(est.learner_.committed.x_scale, (X[:288].mean(0), X[:288].std(0)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_the_noise_is_found(rng=None):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    y = 100 + 7 * X[:, 0] + 3 * rng.standard_normal(3000)
    est = BongRegressor(hidden_layer_sizes=(), random_state=0).fit(X, y)
    # the last 1,024 rows and half of the older ones: √(2/n) of n = 2,000 rows, and four of them
    assert abs(est.noise_var_ / 9 - 1) < 4 * np.sqrt(2 / 2000)
    mean, std = est.predict(X, return_std=True)
    inside = np.mean(np.abs(y - mean) < 1.645 * std)
    assert abs(inside - 0.9) < 4 * np.sqrt(0.09 / 3000)


def test_the_noise_is_estimated_with_one_thread_of_blas(diabetes, monkeypatch):
    """Its bits do not depend on how many there are, and on a busy machine none waits."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    threads, product = [], learner.times_covariance

    def watched(q, A):
        threads.extend(
            lib["num_threads"]
            for lib in threadpoolctl.threadpool_info()
            if lib["user_api"] == "blas"
        )
        return product(q, A)

    monkeypatch.setattr(learner, "times_covariance", watched)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        BongRegressor(**CHEAP).fit(*(a[:64] for a in diabetes))
    assert threads and set(threads) == {1}


def test_memory_does_not_grow_with_calls(diabetes):
    X, y = diabetes
    est = BongRegressor(**CHEAP).partial_fit(X[:33], y[:33])
    size = len(pickle.dumps(est))
    for _ in range(64):
        est.partial_fit(X[:1], y[:1]).predict(X[:1])
    assert len(est.learner_.X) < BLOCK and abs(len(pickle.dumps(est)) - size) < 64


@pytest.mark.parametrize("kind", [BongRegressor, BongClassifier])
def test_bytes_do_not_grow_with_calls(kind, iris):
    X, y = iris
    more = {"method": "bong-lin-hess-diag", "hidden_layer_sizes": (), "random_state": 0}
    est = kind(**more).fit(X, y)

    def calls():
        for i in range(150):
            est.partial_fit(X[i : i + 1], y[i : i + 1]).predict(X[:2])
            est.score_samples(X[:1], y[:1])

    calls()
    assert least_growth(calls) < 150 * 24  # no object of a call stays


# --- predictions ----------------------------------------------------------------------------------


def test_the_density_is_that_of_the_mean_and_the_standard_deviation(diabetes):
    X, y = diabetes
    est = BongRegressor(**CHEAP).fit(X, y)
    mean, std = est.predict(X, return_std=True)
    want = -0.5 * np.log(2 * np.pi) - np.log(std) - 0.5 * ((y - mean) / std) ** 2
    np.testing.assert_allclose(est.score_samples(X, y), want, rtol=1e-10)
    assert np.all(std > np.sqrt(est.noise_var_))  # with the noise
    np.testing.assert_allclose(est.score_samples(X), -0.5 * np.log(2 * np.pi * np.e * std**2))


def test_samples_have_the_moments_of_the_prediction(diabetes):
    X, y = diabetes
    est, S = BongRegressor(**CHEAP).fit(X, y), 4000
    mean, std = est.predict(X[:6], return_std=True)
    drawn = est.sample_y(X[:6], S)
    assert drawn.shape == (6, S)
    np.testing.assert_array_less(np.abs(drawn.mean(axis=1) - mean), 6 * std / np.sqrt(S))
    np.testing.assert_allclose(drawn.std(axis=1), std, rtol=6 / np.sqrt(2 * S))


def test_labels_are_drawn_with_their_probabilities(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    est, S = BongClassifier(**CHEAP).fit(X, names[y]), 4000
    drawn, p = est.sample_y(X[:6], S), est.predict_proba(X[:6])
    share = np.stack([(drawn == name).mean(axis=1) for name in est.classes_], axis=1)
    # six standard errors, and 0.02 for the probit approximation of predict_proba
    np.testing.assert_allclose(share, p, atol=6 * np.sqrt(0.25 / S) + 0.02)
    np.testing.assert_allclose(
        est.score_samples(X, names[y]),
        np.log(est.predict_proba(X)[np.arange(150), y]),
        rtol=1e-8,
        atol=1e-12,
    )
    assert est.score(X, names[y]) > 0.85


# --- data from outside ----------------------------------------------------------------------------


def test_a_series_is_paired_by_position(diabetes):
    X, y = (a[:80] for a in diabetes)
    index = np.random.default_rng(0).permutation(80)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(10)])
    a = BongRegressor(**CHEAP).fit(frame, pd.Series(y, index=index))
    np.testing.assert_array_equal(a.predict(frame), BongRegressor(**CHEAP).fit(X, y).predict(X))
    assert list(a.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        a.predict(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="feature names"):
        a.partial_fit(frame.rename(columns={"x0": "z"}), y)


def test_raw_columns_of_any_scale_are_no_trouble(diabetes):
    X, y = diabetes
    scales = 10.0 ** np.arange(-5, 5)
    a, b = (BongRegressor(**CHEAP).fit(X * c, y) for c in (1.0, scales))
    np.testing.assert_allclose(a.predict(X), b.predict(X * scales), rtol=1e-6)


def test_an_input_that_has_not_varied_is_left_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2))
    y, X[:64, 1] = X[:, 0], 3.0
    est = BongRegressor(**CHEAP).fit(X[:64], y[:64])
    far = np.array([[0.5, 3.0], [0.5, 1e9]])
    assert np.ptp(est.predict(far)) == 0
    assert np.ptp(est.partial_fit(X[64:], y[64:]).predict(far[:, :])) != 0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"method": "bong-lin-hes-fc"}, "did you mean 'bong-lin-hess-fc'"),
        ({"prior_var": 0.0}, "prior_var must be > 0, got 0.0"),
        ({"noise_var": -1.0}, "noise_var must be > 0, got -1.0; None estimates it"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], got 1.5"),
        ({"activation": "sine"}, "activation must be .tanh."),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes must be .*got 0"),
        ({"method_params": {"alpha": 0.1}}, "takes no parameter 'alpha'"),
        ({"method_params": 3}, "method_params must be a dict or None"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_and_nothing_is_learned(settings, text, diabetes):
    X, y = (a[:10] for a in diabetes)
    est = BongRegressor(**settings)
    with pytest.raises(br.BongrefError, match=text):
        est.fit(X, y)
    assert not hasattr(est, "learner_")


def test_labels_that_come_later_must_be_announced(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"classes must be given in the first call"):
        BongClassifier(**CHEAP).partial_fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        BongClassifier(**CHEAP).fit(X[:5], np.zeros(5))
    est = BongClassifier(**CHEAP).partial_fit(X[:40], y[:40] > 0, classes=[False, True])
    before = est.predict_proba(X)
    for bad, text in ((np.full(3, 7), "must have labels of classes_"), (None, "y")):
        with pytest.raises(ValueError, match=text):
            est.partial_fit(X[:3], bad)
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        est.partial_fit(X[:3], y[:3] > 0, classes=[0, 1, 2])
    np.testing.assert_array_equal(est.predict_proba(X), before)
    for bad in ({0, 1, 2}, 3, "012", [0, 1, None], [0, 1, np.nan], [2]):
        with pytest.raises(ValueError if bad == [2] else br.BongrefError, match=r"^classes must"):
            BongClassifier(**CHEAP).partial_fit(X, y, classes=bad)


@pytest.mark.parametrize("settings", [{}, {"activation": "none"}, {"random_state": "none"}])
def test_a_fit_that_is_refused_changes_nothing(settings, iris):
    """Another number of columns, and settings or targets that are refused."""
    X, y = iris
    for est, bad in (
        (BongRegressor(**CHEAP).fit(X, X[:, 0]), np.full(150, 1e200)),
        (BongClassifier(**CHEAP).fit(X, y), np.zeros(150)),
    ):
        before, named = est.predict(X), dict(vars(est))
        est.set_params(**settings)
        with pytest.raises(ValueError, match=next(iter(settings), "y") + " must"):
            est.fit(X[:, :2], y if settings else bad)
        assert est.n_features_in_ == 4 and set(vars(est)) == set(named)
        np.testing.assert_array_equal(est.predict(X), before)


def test_a_fit_that_runs_away_warns_once(iris):
    """bong in diag with a prior far too wide; the defaults and sorted labels are no alarm."""
    X, y = iris
    wild = BongRegressor("bong-lin-hess-diag", prior_var=100.0, noise_var=1e-6, **CHEAP)
    with pytest.warns(br.Diverging, match="worse than a constant.*prior_var sets") as seen:
        wild.fit(X, X[:, 0] ** 2)
    assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BongRegressor(**CHEAP).fit(X, X[:, 0] ** 2).predict(np.full((1, 4), 1.7e308))
        BongClassifier(**CHEAP).fit(*(a[np.argsort(y)] for a in iris))


@pytest.mark.parametrize("first", [90, 33, 37, 1])
def test_a_row_that_cannot_be_learned_loses_nothing_before_it(first, diabetes):
    """bog in natural parameters loses positive definiteness at row 38 of this stream."""
    X, y = (a[:90] for a in diabetes)
    make = lambda: BongRegressor("bog-lin-hess-diag", method_params={"alpha": 0.1}, **CHEAP)
    est = make()
    with pytest.raises(br.NotPositiveDefinite, match=r"The first 38 rows .* step 39") as caught:
        in_chunks(est, X, y, (first,))
    assert est.n_samples_seen_ == 38 and caught.value.step == 39
    np.testing.assert_array_equal(est.predict(X), make().fit(X[:38], y[:38]).predict(X))
    with pytest.raises(br.NotPositiveDefinite):
        est.partial_fit(X[38:39], y[38:39])
    est.set_params(method="bong-lin-hess-diag", method_params=None).fit(X, y)
    assert est.n_samples_seen_ == 90


def test_a_row_that_is_refused_takes_no_earlier_row_with_it():
    # in the first block a row changes the scales of all: with it an earlier one may fail
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    y = 5 * np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=20)
    settings = {"method": "bog-lin-hess-fc", "method_params": {"alpha": 0.1}, "random_state": 0}
    est = BongRegressor(**settings, hidden_layer_sizes=(5,))
    earlier = 0
    for k in range(20):
        rows, before = (est.n_samples_seen_, est.predict(X)) if k else (0, None)
        try:
            est.partial_fit(X[k : k + 1], y[k : k + 1])
        except br.NotPositiveDefinite as error:
            assert est.n_samples_seen_ == rows
            np.testing.assert_array_equal(est.predict(X), before)
            assert error.step == rows + 1 and f"The first {rows} rows are learned" in str(error)
            earlier += "With it the scales" in str(error)
    assert earlier >= 1 and est.n_samples_seen_ >= 5
    # as many rows of a chunk as can be learned together
    est = BongRegressor(**settings, hidden_layer_sizes=(5,))
    with pytest.raises(br.NotPositiveDefinite):
        est.partial_fit(X, y)
    kept = est.n_samples_seen_
    for n in range(kept + 1, 21):
        with pytest.raises(br.NotPositiveDefinite):
            BongRegressor(**settings, hidden_layer_sizes=(5,)).fit(X[:n], y[:n])
    assert BongRegressor(**settings, hidden_layer_sizes=(5,)).fit(X[:kept], y[:kept])


def test_remedies_are_tried_for_one_row_only(monkeypatch):
    """With the scales of each of 31 first blocks a row fails; the message is about the last."""
    calls, ended = [], learner.stream.ended
    monkeypatch.setattr(learner.stream, "ended", lambda *a: calls.append(1) or ended(*a))
    X = np.random.default_rng(0).standard_normal((60, 3))
    with pytest.raises(br.NotPositiveDefinite, match="The first 1 rows are learned"):
        BongRegressor("bog-lin-hess-diag_mom", random_state=0).fit(X, X @ [1.0, 2.0, 3.0])
    assert len(calls) == 1


def test_the_row_in_the_message_is_the_one_after_those_kept():
    """Row 3 fails with the scales of a whole first block, row 2 with those of two rows."""
    X = np.random.default_rng(0).standard_normal((60, 3))
    est = BongRegressor("bog-lin-hess-diag_mom", random_state=0)
    with pytest.raises(br.NotPositiveDefinite) as caught:
        est.fit(X, X @ [1.0, 2.0, 3.0])
    found = re.findall(r"The first (\d+) rows|step (\d+):", str(caught.value))
    assert found == [("1", ""), ("", "2")] and est.n_samples_seen_ == 1 == caught.value.step - 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"gamma": 0.9}, "gamma must stay 1.0, with which 40 rows were learned, got 0.9; fit"),
        ({"prior_var": 2.0}, "prior_var must stay 1, "),
        ({"noise_var": 3.0}, "noise_var must stay None, .* got 3.0"),
        ({"method": "bong-lin-hess-diag"}, "method must stay method.'bong-lin-hess-fc'"),
        ({"method_params": {"rank": 2}}, "method must stay .* got method.'bong-lin-hess-dlr'"),
        ({"method": "nothing"}, "method must be RULE"),
        ({"hidden_layer_sizes": (5,)}, "the network must stay <mlp"),
        ({"activation": "relu"}, "the network must stay .*activation=gelu"),
    ],
)
def test_settings_stay_while_rows_come_in_chunks(change, text, diabetes):
    X, y = diabetes
    est = BongRegressor(**CHEAP).partial_fit(X[:40], y[:40])
    before = est.predict(X)
    old = {k: est.get_params()[k] for k in change}
    for _ in range(2):  # the second time too
        with pytest.raises(br.BongrefError, match=text):
            est.set_params(**change).partial_fit(X[40:50], y[40:50])
    np.testing.assert_array_equal(est.predict(X), before)
    est.set_params(**old, random_state=9).partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(est.predict(X), BongRegressor(**CHEAP).fit(X, y).predict(X))
    if "nothing" not in change.values():
        assert est.set_params(**change).fit(X[:40], y[:40]).n_samples_seen_ == 40


@pytest.mark.parametrize("rule", ["bong-lin-hess-diag", "bog-lin-hess-dlr", "bong-lin-hess-fc"])
def test_the_same_settings_in_another_form_go_on(rule, iris, tmp_path):
    X, y = iris
    est = BongClassifier(rule, (4,), prior_var=0.37, gamma=0.99, random_state=0)
    est.partial_fit(X[:40], y[:40], classes=[0, 1, 2])
    br.save(tmp_path / "est.npz", est)
    for e in (est, br.load(tmp_path / "est.npz"), pickle.loads(pickle.dumps(est))):
        e.set_params(hidden_layer_sizes=[np.int64(4)], prior_var=np.float64(0.37))
        assert e.partial_fit(X[40:], y[40:]).n_samples_seen_ == 150
        e.set_params(method_params={"alpha": 0.5, "rank": 1})
        with pytest.raises(br.BongrefError, match=r"must stay|takes no parameter"):
            e.partial_fit(X, y)


def test_what_a_method_cannot_do_is_said_in_rows_and_arguments(diabetes):
    """Row 39 is row 7 of its block; the remedies are arguments of the estimator."""
    X, y = (a[:90] for a in diabetes)
    est = BongRegressor("bog-lin-hess-diag", method_params={"alpha": 0.1}, **CHEAP)
    with pytest.raises(br.NotPositiveDefinite) as caught:
        est.fit(X, y)
    text = str(caught.value)
    assert "step 39: " in text and "keeps step 39 positive definite" in text
    assert "method_params={'alpha': ...} sets alpha" in text and ".rows" not in text
    with pytest.raises(br.NotPositiveDefinite, match=r"noise_var sets the observation variance\.$"):
        BongRegressor(noise_var=1e-300, random_state=0).fit(X, y)
    with pytest.raises(br.InvalidType, match=r"^method must be a string"):
        BongRegressor(None).fit(X, y)


# --- in other packages ----------------------------------------------------------------------------


def same(a, b, X):
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_pickle_joblib_skops_and_clone(diabetes, iris, tmp_path):
    sio = pytest.importorskip("skops.io")
    for est, (X, y) in (
        (BongRegressor(gamma=0.99, **CHEAP), diabetes),
        (BongClassifier(**CHEAP), iris),
    ):
        est.fit(X[:70], y[:70])
        joblib.dump(est, tmp_path / "est.joblib")
        dumped = sio.dumps(est)
        trusted = sio.get_untrusted_types(data=dumped)
        assert set(trusted) <= {
            "bongref.online.learner.Learner",
            f"bongref.sklearn.{type(est).__name__}",
        }
        arrays, plain = estimators.saved(est)
        plain = json.loads(json.dumps(plain))  # it is plain JSON
        assert all(isinstance(a, np.ndarray) and a.dtype == float for a in arrays.values())
        br.save(tmp_path / "est.npz", est)
        for copy in (
            pickle.loads(pickle.dumps(est)),
            joblib.load(tmp_path / "est.joblib"),
            sio.loads(dumped, trusted=trusted),
            estimators.restored(type(est), arrays, plain),
            br.load(tmp_path / "est.npz"),
        ):
            same(est, copy, X)
            more = clone(est).fit(X[:70], y[:70]).partial_fit(X[70:], y[70:])
            same(copy.partial_fit(X[70:], y[70:]), more, X)
        assert not hasattr(clone(est), "learner_") and clone(est).get_params() == est.get_params()


FORGED = {
    "gamma of another kind": lambda a, d: d["params"].update(gamma="x"),
    "activation": lambda a, d: d["params"].update(activation=None),
    "hidden sizes": lambda a, d: d["params"].update(hidden_layer_sizes=[-1]),
    "method": lambda a, d: d["params"].update(method="nonsense"),
    "seed below 0": lambda a, d: d["params"].update(random_state=-1),
    "seed too large": lambda a, d: d["params"].update(random_state=2**40),
    "forgetting beyond 1": lambda a, d: a.update({"dynamics.gamma": np.array(-2.0)}),
    "forgetting of another shape": lambda a, d: a.update({"dynamics.gamma": np.array([0.9])}),
    "mean of the forgetting": lambda a, d: a.update({"dynamics.mu0": np.zeros((1, 3))}),
    "variance of the forgetting": lambda a, d: a.update({"dynamics.var0": -a["dynamics.var0"]}),
    "integers": lambda a, d: a.update(X=a["X"].astype(np.int64)),
    "renewal never": lambda a, d: d["learner"].update(renewal=2**60),
    "more errors than rows": lambda a, d: d["learner"].update(n_errors=2**60),
    "seed of the samples": lambda a, d: d["learner"].update(seed=2**70),
    "huge n_samples": lambda a, d: d["learner"].update(
        method=["bong-mc-ef-diag", {"n_samples": 2**70}]
    ),
    "likelihood": lambda a, d: d["learner"].update(kind="bernoulli"),
    "no variance": lambda a, d: d["learner"].update(noise=None),
    "even increment": lambda a, d: d["learner"]["rng"]["state"].update(inc=2**70),
    "names": lambda a, d: d.update(feature_names=[1] * 10),
    "other forgetting": lambda a, d: d["params"].update(gamma=0.5),
    "other network": lambda a, d: d["params"].update(hidden_layer_sizes=[5]),
    "other prior": lambda a, d: d["params"].update(prior_var=2.0),
    "given variance": lambda a, d: d["learner"].update(noise_var=3.0),
    "huge scale": lambda a, d: a.update({"y_scale.std": np.array([1e300])}),
    "tiny scale": lambda a, d: a.update({"y_scale.std": np.array([1e-310])}),
    "huge variance": lambda a, d: (
        d["learner"].update(noise=1e308),
        a.update({"y_scale.std": np.array([0.1])}),
    ),
    "kind of model": lambda a, d: d["learner"]["model"].update(kind=[]),
    "no prior": lambda a, d: a.pop("prior.mu"),
    "no forgetting": lambda a, d: a.pop("dynamics.var0"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_file_with_impossible_parts_is_refused(what, diabetes, tmp_path):
    rows = (a[:70] for a in diabetes)
    est = BongRegressor("bong-lin-hess-diag", prior_var=0.1, gamma=0.9, **CHEAP).fit(*rows)
    arrays, data = estimators.saved(est)
    data = json.loads(json.dumps(data))
    files.write(tmp_path / "forged.npz", "BongRegressor", arrays, data)
    assert br.load(tmp_path / "forged.npz").n_samples_seen_ == 70
    FORGED[what](arrays, data)
    files.write(tmp_path / "forged.npz", "BongRegressor", arrays, data)
    with pytest.raises(br.InvalidValue, match=r"forged\.npz") as caught:
        br.load(tmp_path / "forged.npz")
    assert "Error" not in str(caught.value) and len(str(caught.value).partition(" (")[2]) > 20


@pytest.mark.parametrize("labels", [-2.0, 0.0, 1.0, 0.5])
def test_a_file_whose_waiting_labels_are_none_is_refused(labels, iris, tmp_path):
    """Also with the right checksums: two or no labels of a row, and numbers that are none."""
    arrays, data = estimators.saved(BongClassifier(**CHEAP).fit(iris[0][:40], iris[1][:40]))
    path = tmp_path / "forged.npz"
    files.write(path, "BongClassifier", arrays, data)
    assert br.load(path).n_samples_seen_ == 40
    files.write(path, "BongClassifier", {**arrays, "Y": np.full_like(arrays["Y"], labels)}, data)
    with pytest.raises(br.InvalidValue, match=r"forged\.npz.*Y must be 0 or 1"):
        br.load(path)


@pytest.mark.parametrize("classes", [[2, 1, 0], [0, 0, 1], [0, 1], ["a", 1, 2], [0.0, 1.0, {}]])
def test_a_file_with_unsorted_classes_is_refused(classes, iris, tmp_path):
    arrays, data = estimators.saved(BongClassifier(**CHEAP).fit(*iris))
    files.write(tmp_path / "forged.npz", "BongClassifier", arrays, {**data, "classes": classes})
    with pytest.raises(br.InvalidValue, match=r"forged\.npz"):
        br.load(tmp_path / "forged.npz")


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("make", [BongRegressor, BongClassifier])
def test_a_missing_target_is_refused_with_its_row(make, gap):
    X, whole = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])
    y = whole.astype(object)
    y[4] = gap
    est, text = make(**CHEAP).fit(X, whole), r"y must be given in every row, got .* in row 4; leave"
    for call in (est.fit, est.partial_fit, est.score_samples):
        for targets in (y, y[:, None], pd.Series(y, dtype=object)):
            with pytest.raises(br.InvalidValue, match=text):
                call(X, targets)
    assert est.n_samples_seen_ == 6
    assert np.isfinite(est.score_samples(X, whole.astype(float).astype(object))).all()


def test_numbers_whose_squares_overflow_are_refused(diabetes):
    X, y = (a[:40] for a in diabetes)
    with pytest.raises(br.InvalidValue, match="X must have numbers of at most 1e"):
        BongRegressor(**CHEAP).fit(X * 1e200, y)
    with pytest.raises(br.InvalidValue, match="y must have numbers of at most 1e"):
        BongRegressor(**CHEAP).fit(X, y * 1e200)
    with pytest.raises(br.InvalidValue, match="X must have numbers of at most 1e"):
        BongClassifier(**CHEAP).fit(X * 1e200, y > 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BongRegressor(**CHEAP).fit(X * 1e90, y * 1e90).score(X * 1e90, y * 1e90) > 0


@pytest.mark.parametrize("est", [BongRegressor(**CHEAP), BongClassifier(**CHEAP)])
def test_weights_are_refused_with_what_to_do(est, iris):
    X, y = iris
    est = clone(est).fit(X, y)
    with pytest.raises(br.InvalidType, match=r"fit has no argument 'sample_weight'.*repeat a row"):
        est.fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(br.InvalidType, match=r"partial_fit has no argument 'sample_weight'"):
        est.partial_fit(X, y, sample_weight=None)
    with pytest.raises(br.InvalidType, match=r"'prior_var'; settings belong in the constructor"):
        est.fit(X, y, prior_var=1.0)
    assert est.n_samples_seen_ == len(y)
    weights = np.where(y == 0, 1.0, 0.0)  # a score is weighted: scikit-learn computes it
    assert est.score(X, y, sample_weight=weights) == est.score(X[y == 0], y[y == 0])


def test_settings_changed_after_fit_are_checked_before_saving(diabetes, tmp_path):
    est = BongRegressor(**CHEAP).fit(*(a[:40] for a in diabetes))
    with pytest.raises(br.InvalidValue, match="gamma must be in"):
        br.save(tmp_path / "est.npz", est.set_params(gamma=7.0))
    with pytest.raises(br.InvalidValue, match=r"gamma must stay 1.0, with .*, got 0.5; fit"):
        br.save(tmp_path / "est.npz", est.set_params(gamma=0.5))
    br.save(tmp_path / "est.npz", est.set_params(gamma=1))
    assert br.load(tmp_path / "est.npz").gamma == 1


def test_in_a_pipeline_a_grid_search_and_joblib(diabetes, iris):
    X, y = diabetes
    pipe = make_pipeline(PolynomialFeatures(1, include_bias=False), BongRegressor(**CHEAP))
    scores = cross_val_score(pipe, X, y, cv=2, n_jobs=2)
    np.testing.assert_array_equal(scores, cross_val_score(pipe, X, y, cv=2))
    grid = GridSearchCV(
        BongRegressor(**CHEAP),
        {"prior_var": [0.1, 1.0], "method": ["auto", "bong-lin-hess-diag"]},
        cv=2,
    )
    assert grid.fit(X, y).best_score_ > 0.2
    Xi, yi = iris
    calibrated = CalibratedClassifierCV(BongClassifier(**CHEAP), cv=2).fit(Xi, yi)
    assert calibrated.score(Xi, yi) > 0.8
    assert BongRegressor(**CHEAP).set_params(prior_var=0.5).get_params()["prior_var"] == 0.5


def test_the_box_of_a_notebook_has_the_documentation_link():
    html = BongRegressor()._repr_html_()
    page = Path(__file__).resolve().parents[1] / "docs" / "everyday.md"
    assert page.exists() and page.as_uri() in html
    assert 'rel="noreferrer"' in html


def test_bongref_does_not_import_scikit_learn():
    code = "import sys, bongref as br; br.run, br.models; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_scikit_learn_the_error_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None\nimport bongref.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'bongref[sklearn]'" in done.stderr


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_in_rivers_progressive_validation(kind):
    river = pytest.importorskip("river")
    from river import compat, datasets, evaluate, metrics, stream

    if kind == "regressor":
        est, data = BongRegressor(**CHEAP), datasets.TrumpApproval()
        model = compat.convert_sklearn_to_river(est)
        metric = metrics.MAE()
    else:
        est, data = BongClassifier(**CHEAP), datasets.Phishing()
        model = compat.convert_sklearn_to_river(est, classes=[False, True])
        metric = metrics.Accuracy()
    rows = list(stream.shuffle(iter(data), buffer_size=100, seed=0))[:300]
    found = evaluate.progressive_val_score(iter(rows), model, metric).get()
    assert river and (found < 2.0 if kind == "regressor" else found > 0.8)


# --- defaults of the library ----------------------------------------------------------------------


def test_raw_columns_of_a_network_are_warned_about(diabetes):
    X, y = (a[:40] for a in diabetes)
    m, model = br.method("bong-lin-hess-diag"), br.models.mlp([10, 3, 1])
    args = (m, model, br.likelihoods.Gaussian(var=1.0), m.prior(model.init(0), 0.01))
    with pytest.warns(br.Unscaled, match=r"X \(column 4: mean 18\d, .*standardise"):
        br.run(*args, X, (y - y.mean()) / y.std(), backend="reference")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        br.run(*args, (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), backend="reference")


@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
def test_the_rank_is_at_most_the_number_of_parameters(rule):
    X, model = np.random.default_rng(0).standard_normal((12, 8)), br.models.linear(8)
    m = br.method(f"{rule}-lin-hess-dlr", **({} if rule == "bong" else {"alpha": 1e-3}))
    prior = m.prior(np.zeros(8))
    assert prior.W.shape == (8, 8) and m.params["rank"] == 10 and m.rank(8) == 8
    lik = br.likelihoods.Gaussian(var=1.0)
    one, two = (br.run(m, model, lik, prior, X, X[:, 0], backend=b) for b in ("reference", "auto"))
    np.testing.assert_allclose(one.state.mu, two.state.mu, rtol=1e-8, atol=1e-10)


def test_fan_in():
    var = br.models.mlp([4, 8, 1]).unflatten(defaults.fan_in(br.models.mlp([4, 8, 1])))
    assert {k: set(np.unique(a)) for k, a in var.items()} == {
        "W0": {1 / 4}, "b0": {1.0}, "W1": {1 / 8}, "b1": {1.0},
    }  # fmt: skip
    assert set(defaults.fan_in(br.models.cnn((4, 4, 1), 2, (3,), (5, 5), 5))[:75]) == {1 / 25}

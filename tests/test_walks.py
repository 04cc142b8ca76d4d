"""Someone who follows only the messages gets from a wrong first call to one that works.

Each walk makes a typical mistake, looks for the remedy in the message, does what it says and
nothing else, and goes on until the call works.
"""

import re
import warnings

import numpy as np
import pytest

import bongref as br

REFERENCE = {"backend": "reference", "progress": False}


def data(n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    return X, np.tanh(X @ np.array([1.0, -2.0, 0.5])) + 0.1 * rng.standard_normal(n)


def start(name="bong-lin-hess-fc", sizes=(3, 8, 1), var=0.1, **params):
    m, model = br.method(name, **params), br.models.mlp(list(sizes))
    return m, model, m.prior(model.init(np.random.default_rng(1)), var)


GAUSS = br.likelihoods.Gaussian(0.05)


def says(error, call, *parts):
    """The message of the error that the call ends with."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    return message


def learns(model, lik, result, X, Y):
    """The run went to the end and predicts better than a constant."""
    assert result.t == len(X)
    assert br.metrics.rmse(br.predictive.plugin(model, lik, result.state, X), Y) < np.std(Y)


def test_inputs_of_the_wrong_width():
    X, Y = data()
    m, model, prior = start(sizes=(2, 8, 1))
    message = says(
        br.InvalidValue,
        lambda: br.run(m, model, GAUSS, prior, X, Y, **REFERENCE),
        "x must have shape (2,)",
    )
    sizes = eval(re.search(r"make mlp\((\[.*?\])\)", message)[1])
    model = br.models.mlp(sizes)
    says(br.InvalidValue, lambda: br.run(m, model, GAUSS, prior, X, Y, **REFERENCE),
         "prior.mu must have shape (41,)", "use m.prior(mu=model.init(rng), var=...)")  # fmt: skip
    prior = m.prior(mu=model.init(np.random.default_rng(0)), var=0.1)
    learns(model, GAUSS, br.run(m, model, GAUSS, prior, X, Y, **REFERENCE), X, Y)


@pytest.mark.parametrize(
    "name", ["bong-lin-hess-ful", "ekf", "bong_lin_hess_fc", "bongg-lin-hess-fc"]
)
def test_names_that_are_none(name):
    message = says(br.InvalidValue, lambda: br.method(name), "did you mean")
    near = re.search(r"did you mean '(.*?)'", message)[1]
    X, Y = data()
    m, model, prior = start(near, **({"rank": 5} if near.endswith("dlr") else {}))
    learns(model, GAUSS, br.run(m, model, GAUSS, prior, X, Y, rng=0, **REFERENCE), X, Y)


def test_a_prior_of_another_family():
    X, Y = data()
    _, model, prior = start("bong-lin-hess-diag")
    m = br.method("bong-lin-hess-fc")
    says(br.InvalidType, lambda: br.run(m, model, GAUSS, prior, X, Y, **REFERENCE),
         "prior must be an FC state, got Diag",
          "make it with m.prior(mu, var) of the method")  # fmt: skip
    prior = m.prior(prior.mu, 0.1)
    learns(model, GAUSS, br.run(m, model, GAUSS, prior, X, Y, **REFERENCE), X, Y)


def test_raw_scales():
    X, Y = data()
    X, Y = X * np.array([1e4, 1.0, 100.0]) + np.array([5e4, 0.0, 0.0]), 1000 * Y + 300
    m, model, prior = start()
    with pytest.warns(
        br.Unscaled, match=r"X \(column 0: mean 4.* and Y \(mean .*standardise"
    ) as seen:
        warnings.simplefilter("ignore", br.Diverging)
        raw = br.run(m, model, GAUSS, prior, X, Y, **REFERENCE)
    assert "X = (X - X.mean(axis=0)) / X.std(axis=0), and Y likewise" in str(seen[0].message)
    assert seen[0].filename == __file__
    before = br.metrics.rmse(br.predictive.plugin(model, GAUSS, raw.state, X), Y) / np.std(Y)
    X, Y = (X - X.mean(axis=0)) / X.std(axis=0), (Y - Y.mean(axis=0)) / Y.std(axis=0)
    result = br.run(m, model, GAUSS, prior, X, Y, **REFERENCE)  # a warning would be an error here
    learns(model, GAUSS, result, X, Y)
    assert br.metrics.rmse(br.predictive.plugin(model, GAUSS, result.state, X), Y) < before


def test_no_warning_for_a_linear_model_or_for_scaled_data():
    X, Y = data()
    m = br.method("bong-lin-hess-fc")
    model = br.models.linear(3)
    br.run(m, model, GAUSS, m.prior(np.zeros(3)), 1000 * X, Y, **REFERENCE)  # exact at any scale
    m, model, prior = start()
    br.run(m, model, GAUSS, prior, X, Y, **REFERENCE)


def test_an_alpha_that_is_too_large():
    X, Y = data()
    m, model, prior = start("bog-lin-hess-diag", var=1.0, alpha=1.0)
    tries = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", br.Diverging)
        while True:
            try:
                result = br.run(m, model, GAUSS, prior, X, Y, **REFERENCE)
                break
            except br.NotPositiveDefinite as error:
                alpha = re.search(r"alpha=(\S+) \(now", str(error))[1]
                assert float(alpha) < m.params["alpha"] and tries < 6
                m, tries = br.method(m, alpha=float(alpha)), tries + 1
    assert tries >= 1 and result.t == len(X)


def test_or_the_method_that_cannot_lose_it():
    X, Y = data()
    m, model, prior = start("bog-lin-hess-fc", var=1.0, alpha=1.0)
    message = says(
        br.NotPositiveDefinite, lambda: br.run(m, model, GAUSS, prior, X, Y, **REFERENCE)
    )
    name = re.search(r"(\S+) is always positive definite, with the same prior", message)[1]
    learns(model, GAUSS, br.run(name, model, GAUSS, prior, X, Y, **REFERENCE), X, Y)


def test_missing_values():
    X, Y = data()
    X[3, 1], Y[5] = np.nan, np.nan
    m, model, prior = start()
    run = lambda: br.run(m, model, GAUSS, prior, X, Y, **REFERENCE)
    says(br.InvalidValue, run, "X[3]", "nan at index (1,)", "impute missing inputs")
    X[3, 1] = 0.0
    says(br.InvalidValue, run, "Y[5]", "use None for a missing observation")
    Y = [None if np.isnan(y) else y for y in Y]
    result = run()
    assert result.t == 60 and result.info.missing == 1


def test_labels_as_strings():
    X, Y = data()
    labels = np.where(Y > 0, "yes", "no")
    m, model, prior = start()
    lik = br.likelihoods.Bernoulli()
    says(br.InvalidType, lambda: br.run(m, model, lik, prior, X, labels, **REFERENCE),
         "y must be 0 or 1", "Y = numpy.unique(labels, return_inverse=True)[1]")  # fmt: skip
    Y = np.unique(labels, return_inverse=True)[1]
    learns(model, lik, br.run(m, model, lik, prior, X, Y, **REFERENCE), X, Y)
    three = np.array(["a", "b", "c"])[np.arange(60) % 3]
    m, model, prior = start(sizes=(3, 8, 3))
    cat = br.likelihoods.Categorical()
    says(
        br.InvalidType,
        lambda: br.run(m, model, cat, prior, X, three, **REFERENCE),
        "numpy.unique(labels",
    )
    Y = np.unique(three, return_inverse=True)[1]
    assert br.run(m, model, cat, prior, X, Y, **REFERENCE).t == 60


def test_inputs_without_a_second_dimension():
    X, Y = data()
    X, Y = X[:, 1], np.tanh(-X[:, 1])
    m, model, prior = start(sizes=(1, 8, 1))
    says(
        br.InvalidValue,
        lambda: br.run(m, model, GAUSS, prior, X, Y, **REFERENCE),
        "use X[:, None] for one feature",
    )
    X = X[:, None]
    learns(model, GAUSS, br.run(m, model, GAUSS, prior, X, Y, **REFERENCE), X, Y)


def test_a_rank_above_the_number_of_parameters():
    """The rank is then the number of parameters."""
    X, Y = data()
    m, model = br.method("bong-lin-hess-dlr"), br.models.linear(3)
    prior = m.prior(np.zeros(3))
    assert m.params["rank"] == 10 and prior.W.shape == (3, 3)
    learns(model, GAUSS, br.run(m, model, GAUSS, prior, X, Y, **REFERENCE), X, Y)


@pytest.mark.parametrize(
    ("name", "use"), [("accuracy", "error"), ("mse", "rmse"), ("nll", "nlpd"), ("rsme", "rmse")]
)
def test_metrics_that_are_none(name, use):
    X, Y = data()
    message = says(br.InvalidValue, lambda: br.metrics.on(X, Y, name), f"got {name!r}")
    found = re.search(r"(?:use|did you mean) '?([a-z]+)", message)[1]
    assert found == use
    m, model, prior = start()
    lik, Y = (br.likelihoods.Bernoulli(), Y > 0) if use == "error" else (GAUSS, Y)
    result = br.run(m, model, lik, prior, X, Y, metrics=br.metrics.on(X, Y, found), **REFERENCE)
    assert np.isfinite(result.rows[0][found])


def test_a_metric_of_classes_for_a_regression():
    X, Y = data()
    m, model, prior = start()
    run = lambda name: br.run(
        m, model, GAUSS, prior, X, Y, metrics=br.metrics.on(X, Y, name), **REFERENCE
    )
    says(br.InvalidValue, lambda: run("error"), "got gaussian", "use nlpd or rmse")
    assert run("rmse").rows[0]["rmse"] < np.std(Y)


def test_samples_without_a_generator():
    X, Y = data()
    m, model, prior = start("bong-mc-ef-fc", n_samples=10)
    says(
        br.InvalidType,
        lambda: br.run(m, model, GAUSS, prior, X, Y, **REFERENCE),
        "rng",
        "e.g. rng=0",
    )
    result = br.run(m, model, GAUSS, prior, X, Y, rng=0, **REFERENCE)
    assert result.t == 60
    says(
        br.InvalidType,
        lambda: br.predictive.mc(model, GAUSS, result.state, X),
        "use rng=numpy.random.default_rng(0)",
    )
    br.predictive.mc(model, GAUSS, result.state, X, rng=np.random.default_rng(0))


@pytest.mark.parametrize("lik", ["gaussian", br.likelihoods.Gaussian])
def test_a_likelihood_that_is_a_word_or_a_class(lik):
    X, Y = data()
    m, model, prior = start()
    message = says(br.InvalidType, lambda: br.run(m, model, lik, prior, X, Y, **REFERENCE))
    made = eval(re.search(r"write (bongref\.likelihoods\.\S+)$", message)[1], {"bongref": br})
    learns(model, made, br.run(m, model, made, prior, X, Y, **REFERENCE), X, Y)


def test_after_a_loss_everything_is_usable_at_the_last_good_state():
    X, Y = data()
    m, model, prior = start("bog-lin-hess-diag_mom", var=0.05, alpha=0.001)
    with pytest.raises(br.NotPositiveDefinite) as caught:
        br.run(m, model, GAUSS, prior, X, Y, **REFERENCE)
    error = caught.value
    assert error.step > 1 and error.result.t == error.step - 1
    upto = br.run(m, model, GAUSS, prior, X[: error.step - 1], Y[: error.step - 1], **REFERENCE)
    assert all(np.array_equal(a, b) for a, b in zip(upto.state, error.state, strict=True))
    assert br.sample(error.state, 2, rng=0).shape == (2, 41) and "Diag" in repr(error.result)

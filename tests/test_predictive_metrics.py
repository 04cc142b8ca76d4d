"""Predictive distributions and metrics against scipy, closed forms, slow loops and cases worked out
by hand.
"""

import math

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import jacobian
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp, softmax

import bongref as br
from bongref import metrics, predictive
from bongref.predictive import Predictive
from bongref.routes.compare import difference

MODEL = br.models.mlp([2, 3, 2])
P = MODEL.n_params
LIKS = {
    "gaussian": br.likelihoods.Gaussian(var=[[0.5, 0.2], [0.2, 0.4]]),
    "bernoulli": br.likelihoods.Bernoulli(),
    "categorical": br.likelihoods.Categorical(),
    "poisson": br.likelihoods.Poisson(),
}
FAMILIES = {"fc": "bong-lin-hess-fc", "diag": "bong-lin-hess-diag", "dlr": "bong-lin-hess-dlr"}
liks = pytest.mark.parametrize("lik", LIKS.values(), ids=LIKS.keys())
families = pytest.mark.parametrize("family", FAMILIES)


def setting(family, lik, N=4, var=0.05, seed=0, model=MODEL):
    m = br.method(FAMILIES[family], **({"rank": 2} if family == "dlr" else {}))
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, *model.in_shape))
    state = m.prior(0.5 * rng.standard_normal(model.n_params), var)
    Y = np.stack([lik.sample(model(state.mu, x), rng) for x in X])
    return m, state, X, Y


def density(lik, o, y):
    """p(y | o) of one observation by scipy."""
    if lik.name == "gaussian":
        R = lik.R if np.ndim(lik.R) else lik.R * np.eye(len(o))
        return float(stats.multivariate_normal(o, R).pdf(y))
    if lik.name == "bernoulli":
        return float(np.prod(stats.bernoulli(1 / (1 + np.exp(-o))).pmf(y.astype(int))))
    if lik.name == "categorical":
        return float(softmax(o)[np.argmax(y)])
    return float(np.prod(stats.poisson(np.exp(o)).pmf(y.astype(int))))


def agree(quantity, got, wanted, cond=1e3, size=0.0):
    d = difference(quantity, got, wanted, cond, size=size)
    assert d.agrees, d


# --- the four predictives by hand -----------------------------------------------------------------


@liks
@families
def test_plugin_is_the_likelihood_at_the_mean(family, lik):
    _, state, X, Y = setting(family, lik)
    pred = predictive.plugin(MODEL, lik, state, X)
    logs = np.array(
        [math.log(density(lik, MODEL(state.mu, x), y)) for x, y in zip(X, Y, strict=True)]
    )
    agree("log p", pred.log_density(Y), logs)
    agree("nlpd", metrics.nlpd(pred, Y), -logs.mean(), size=np.max(np.abs(logs)))
    agree("mean", pred.mean, np.stack([lik.mean(MODEL(state.mu, x)) for x in X]))


@liks
@families
def test_mc_is_the_log_of_the_mean_density(family, lik):
    _, state, X, Y = setting(family, lik, var=0.5)
    theta = br.sample(state, 9, np.random.default_rng(1))
    pred = predictive.mc(MODEL, lik, state, X, samples=theta)
    p = np.array([[density(lik, MODEL(t, x), y) for x, y in zip(X, Y, strict=True)] for t in theta])
    want = logsumexp(np.log(p), axis=0) - math.log(9)
    agree("log mean p", pred.log_density(Y), want)
    agree("log mean p", np.exp(want), p.mean(axis=0))
    agree("nlpd", metrics.nlpd(pred, Y), -want.mean(), size=np.max(np.abs(want)))
    assert np.all(want - np.log(p).mean(axis=0) > 1e-6)  # the mean of the logs is another number
    agree("mean", pred.mean, np.mean([[lik.mean(MODEL(t, x)) for x in X] for t in theta], axis=0))
    drawn = predictive.mc(MODEL, lik, state, X, n_samples=9, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(drawn.values, pred.values)


@pytest.mark.eq("eq:hbar")
@liks
@families
def test_lin_mc_linearises_the_mean(family, lik):
    _, state, X, Y = setting(family, lik)
    theta = br.sample(state, 7, np.random.default_rng(2))
    pred = predictive.lin_mc(MODEL, lik, state, X, samples=theta)
    for n, x in enumerate(X):
        h = lambda t, x=x: lik.mean(MODEL(t, x))
        hbar = h(state.mu) + (theta - state.mu) @ jacobian(h)(state.mu).T
        agree("hbar", pred.values[:, n], hbar)
        masses = {
            "gaussian": lambda v, y: density(lik, v, y),
            "bernoulli": lambda v, y: np.prod(np.where(y == 1, v, 1 - v)),
            "categorical": lambda v, y: v[np.argmax(y)],
            "poisson": lambda v, y: np.prod(stats.poisson(v).pmf(y)) if np.all(v > 0) else 0.0,
        }[lik.name]
        mean = np.mean([masses(v, Y[n]) for v in hbar])
        agree("log p", pred.log_density(Y)[n], np.log(mean) if mean > 0 else -np.inf, size=1.0)


@pytest.mark.eq("eq:fbar")
@liks
@families
def test_lin_mc_of_f_linearises_the_natural_parameter(family, lik):
    _, state, X, Y = setting(family, lik)
    theta = br.sample(state, 7, np.random.default_rng(2))
    pred = predictive.lin_mc(MODEL, lik, state, X, samples=theta, linearise="f")
    assert pred.kind == "lin_mc_f"
    for n, x in enumerate(X):
        fbar = (
            MODEL(state.mu, x)
            + (theta - state.mu) @ jacobian(lambda t, x=x: MODEL(t, x))(state.mu).T
        )
        agree("fbar", pred.values[:, n], fbar)
        agree(
            "log p",
            pred.log_density(Y)[n],
            np.log(np.mean([density(lik, o, Y[n]) for o in fbar])),
            size=1.0,
        )


@pytest.mark.parametrize("kind", predictive.KINDS)
@liks
def test_the_variance_is_the_law_of_total_variance(lik, kind):
    """E[y²] − E[y]² of the mixture, by its second moments."""
    _, state, X, _ = setting("fc", lik, var=0.02)
    pred = predictive.predict(kind, MODEL, lik, state, X, n_samples=8, rng=np.random.default_rng(0))
    h = pred.means
    if lik.name == "gaussian":
        second = h**2 + np.diag(lik.R)
    else:
        second = h**2 + h if lik.name == "poisson" else h  # y² = y where y is 0 or 1
    agree("var", pred.var, second.mean(axis=0) - h.mean(axis=0) ** 2, size=float(np.max(second)))


# --- linear-Gaussian: the closed form -------------------------------------------------------------


@pytest.mark.eq("eq:hbar", "eq:fbar")
@families
def test_for_a_linear_gaussian_model_lin_mc_is_mc_and_both_reach_the_closed_form(family):
    lik, model = LIKS["gaussian"], br.models.linear(2, 2)
    _, state, X, Y = setting(family, lik, var=0.3, model=model)
    if family == "dlr":
        state = state._replace(W=np.array([[1.0, 0.2], [0.5, -1.0], [0.0, 0.3], [2.0, 0.0]]))
    Sigma = (
        state.Sigma
        if family == "fc"
        else np.diag(state.var)
        if family == "diag"
        else np.linalg.inv(np.diag(state.Ups) + state.W @ state.W.T)
    )
    S = 4_000
    theta = br.sample(state, S, np.random.default_rng(3))
    preds = [
        predictive.mc(model, lik, state, X, samples=theta),
        predictive.lin_mc(model, lik, state, X, samples=theta),
        predictive.lin_mc(model, lik, state, X, samples=theta, linearise="f"),
    ]
    for pred in preds[1:]:
        agree("log p", pred.log_density(Y), preds[0].log_density(Y))
        agree("mean", pred.mean, preds[0].mean)
    for n, (x, y) in enumerate(zip(X, Y, strict=True)):
        H = np.kron(np.eye(2), x)
        exact = stats.multivariate_normal(H @ state.mu, H @ Sigma @ H.T + lik.R).pdf(y)
        each = np.exp(lik.log_prob(theta @ H.T, y))
        assert abs(np.exp(preds[1].log_density(Y)[n]) - exact) <= 6 * each.std() / math.sqrt(S)
        spread = np.diag(H @ Sigma @ H.T)
        assert np.all(np.abs(preds[1].mean[n] - H @ state.mu) <= 6 * np.sqrt(spread / S))
        assert np.all(
            np.abs(preds[1].var[n] - spread - np.diag(lik.R)) <= 6 * spread * math.sqrt(2 / S)
        )


def test_far_observations_have_a_finite_density_by_every_kind():
    """100 standard deviations away the density underflows and its logarithm does not."""
    lik, model = br.likelihoods.Gaussian(var=1.0), br.models.linear(1)
    state = br.FC(np.zeros(1), 1e-4 * np.eye(1))
    theta = br.sample(state, 5, np.random.default_rng(0))
    X, Y = np.ones((1, 1)), np.array([[100.0]])
    want = logsumexp(-0.5 * (100 - theta[:, 0]) ** 2) - math.log(5) - 0.5 * math.log(2 * math.pi)
    for pred in (
        predictive.mc(model, lik, state, X, samples=theta),
        predictive.lin_mc(model, lik, state, X, samples=theta),
    ):
        agree("log p", pred.log_density(Y), [want])


# --- lin_mc of classes ----------------------------------------------------------------------------


def test_categorical_masses_of_lin_mc_average_to_hbar_and_sum_to_one():
    lik, model = LIKS["categorical"], br.models.mlp([2, 3, 3])
    _, state, X, _ = setting("fc", lik, model=model)
    theta = br.sample(state, 6, np.random.default_rng(4))
    pred = predictive.lin_mc(model, lik, state, X, samples=theta)
    for n, x in enumerate(X):
        h = lambda t, x=x: lik.mean(model(t, x))
        hbar = h(state.mu) + jacobian(h)(state.mu) @ (theta.mean(axis=0) - state.mu)
        agree("mass", [np.exp(pred.log_density(np.full(len(X), c))[n]) for c in range(3)], hbar)
    agree("sum", pred.mean.sum(axis=1), np.ones(len(X)))


def test_a_density_that_is_not_positive_has_an_infinite_nlpd():
    values = np.array([[[-0.2, 1.2]], [[0.1, 0.9]]])  # the mean mass of class 0 is −0.05
    pred = Predictive("lin_mc", LIKS["categorical"], values, True)
    np.testing.assert_array_equal(pred.log_density([0]), [-np.inf])
    assert metrics.nlpd(pred, [0]) == np.inf
    agree("nlpd", metrics.nlpd(pred, [1]), -math.log(1.05))
    pred = Predictive("lin_mc", br.likelihoods.Bernoulli(), np.array([[[0.0]], [[0.0]]]), True)
    assert metrics.nlpd(pred, [1]) == np.inf and metrics.nlpd(pred, [0]) == 0
    pred = Predictive("lin_mc", br.likelihoods.Poisson(), np.array([[[-1.0]], [[-2.0]]]), True)
    assert metrics.nlpd(pred, [3]) == np.inf
    pred = Predictive("lin_mc", br.likelihoods.Poisson(), np.array([[[-1.0]], [[2.0]]]), True)
    agree("nlpd", metrics.nlpd(pred, [3]), -math.log(stats.poisson(2.0).pmf(3) / 2))


def test_densities_that_underflow_are_infinite_and_not_nan():
    pred = Predictive("mc", br.likelihoods.Poisson(), np.full((2, 1, 1), 800.0), False)
    assert metrics.nlpd(pred, [3]) == np.inf
    pred = Predictive("plugin", LIKS["categorical"], np.array([[[0.0, -800.0]]]), False)
    agree("nlpd", metrics.nlpd(pred, [1]), 800.0)


# --- error, ECE, RMSE -----------------------------------------------------------------------------


def classes(p, of_means=True):
    p = np.asarray(p, dtype=float)
    return Predictive("plugin", br.likelihoods.Categorical(), p[None], of_means)


def slow_ece(p, labels, n_bins=20):
    """Bins (b/n, (b+1)/n] one by one; 0 belongs to the first."""
    total, N = 0.0, len(labels)
    for b in range(n_bins):
        inside = [
            k
            for k in range(N)
            if (b == 0 or max(p[k]) > b / n_bins) and max(p[k]) <= (b + 1) / n_bins
        ]
        if inside:
            accuracy = sum(int(np.argmax(p[k]) == labels[k]) for k in inside) / len(inside)
            confidence = sum(max(p[k]) for k in inside) / len(inside)
            total += len(inside) / N * abs(accuracy - confidence)
    return total


@given(
    seed=st.integers(0, 2**32),
    N=st.integers(1, 60),
    C=st.integers(2, 5),
    n_bins=st.sampled_from([1, 3, 20]),
)
def test_ece_and_error_by_a_slow_loop(seed, N, C, n_bins):
    rng = np.random.default_rng(seed)
    p, labels = softmax(2 * rng.standard_normal((N, C)), axis=1), rng.integers(0, C, N)
    agree(
        "ece", metrics.ece(classes(p), labels, n_bins), slow_ece(p, labels, n_bins), 10.0, size=1.0
    )
    agree(
        "error",
        metrics.error(classes(p), labels),
        sum(np.argmax(p[k]) != labels[k] for k in range(N)) / N,
    )


@pytest.mark.parametrize("edge", range(11, 20))
def test_confidence_on_the_edge_of_a_bin_belongs_below(edge):
    """In one bin with 0.1 of an edge below the gaps cancel; in two bins they add up."""
    c = edge / 20
    p, labels = [[c, 1 - c], [c - 0.01, 1 - c + 0.01]], [0, 1]
    agree("ece", metrics.ece(classes(p), labels), slow_ece(p, labels), size=1.0)
    agree("one bin", metrics.ece(classes(p), labels), abs((1 - c) - (c - 0.01)) / 2, size=1.0)
    above = [[c, 1 - c], [c + 0.01, 1 - c - 0.01]]
    agree("two bins", metrics.ece(classes(above), labels), ((1 - c) + (c + 0.01)) / 2, size=1.0)


def test_the_edges_of_a_hundred_bins():
    """0.55 · 100 rounds to more than 55; 0.55 still belongs to (0.54, 0.55]."""
    p = [[0.55, 0.45], [0.545, 0.455]]
    assert 0.55 * 100 > 55
    agree("one bin", metrics.ece(classes(p), [0, 1], n_bins=100), (0.545 - 0.45) / 2, 1e2)


def test_ece_by_hand():
    assert metrics.ece(classes([[1.0, 0.0], [0.0, 1.0]]), [0, 1]) == 0  # certain and right
    assert metrics.ece(classes([[1.0, 0.0], [0.0, 1.0]]), [1, 0]) == 1  # certain and wrong
    agree("calibrated", metrics.ece(classes([[0.75, 0.25]] * 4), [0, 0, 0, 1]), 0.0, size=1.0)
    agree(
        "calibrated in two bins",
        metrics.ece(classes([[0.75, 0.25]] * 4 + [[0.4, 0.6]] * 5), [0, 0, 0, 1, 1, 1, 1, 0, 0]),
        0.0,
        size=1.0,
    )
    agree("overconfident", metrics.ece(classes([[0.9, 0.1]] * 2), [0, 1]), 0.4)
    # 0.52 and 0.58 are in different bins: |1 − 0.52|/2 + |0 − 0.58|/2, and in one of two bins |0.5
    # − 0.55|
    agree("two bins", metrics.ece(classes([[0.52, 0.48], [0.58, 0.42]]), [0, 1]), 0.53)
    agree(
        "wide bins", metrics.ece(classes([[0.52, 0.48], [0.58, 0.42]]), [0, 1], n_bins=2), 0.05, 1e2
    )
    with pytest.raises(ValueError, match="n_bins must be an integer >= 1, got 0"):
        metrics.ece(classes([[0.5, 0.5]]), [0], n_bins=0)


def test_metrics_of_a_bernoulli():
    p = np.array([0.9, 0.2, 0.6, 0.5])
    pred = Predictive(
        "plugin", br.likelihoods.Bernoulli(), np.log(p / (1 - p))[None, :, None], False
    )
    labels = [1, 1, 0, 0]  # right, wrong, wrong, and at 1/2 the class 0
    assert metrics.error(pred, labels) == 0.5
    agree("ece", metrics.ece(pred, labels), (0.1 + 0.8 + 0.6 + 0.5) / 4, size=1.0)
    two = np.stack([1 - p, p], axis=1)  # the same as two classes; confidence 0.5 in its own bin
    agree("ece", metrics.ece(pred, labels), slow_ece(two, labels), size=1.0)
    agree("nlpd", metrics.nlpd(pred, labels), -np.mean(np.log([0.9, 0.2, 0.4, 0.5])))


def test_error_uses_the_mean_over_the_samples():
    """Two samples say class 0 by a little, one says class 1 by a lot."""
    values = np.log(np.array([[[0.55, 0.45]], [[0.55, 0.45]], [[0.01, 0.99]]]))
    pred = Predictive("mc", br.likelihoods.Categorical(), values, False)
    assert metrics.error(pred, [1]) == 0 and metrics.error(pred, [0]) == 1
    agree("ece", metrics.ece(pred, [1]), 1 - 1.89 / 3, 1e2)


@liks
def test_rmse_by_hand(lik):
    _, state, X, Y = setting("diag", lik)
    want = math.sqrt(
        sum(
            float(np.sum((y - lik.mean(MODEL(state.mu, x))) ** 2))
            for x, y in zip(X, Y, strict=True)
        )
        / Y.size
    )
    agree("rmse", metrics.rmse(predictive.plugin(MODEL, lik, state, X), Y), want)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_rmse_of_errors_whose_squares_leave_float64(scale):
    pred = Predictive("plugin", br.likelihoods.Gaussian(1.0), scale * np.array([[[3.0], [4.0]]]))
    agree("rmse", metrics.rmse(pred, [0.0, 0.0]) / scale, math.sqrt(12.5))


@pytest.mark.parametrize("metric", ["error", "ece"])
@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli"])
def test_class_metrics_refuse_what_has_no_classes(name, metric):
    lik = LIKS[name]
    m, state, X, Y = setting("fc", lik)
    with pytest.raises(
        ValueError,
        match=f"the likelihood must be Categorical, or Bernoulli with one output, for error and "
        f"ece, got {name} with 2",
    ):
        getattr(metrics, metric)(predictive.plugin(MODEL, lik, state, X), Y)
    with pytest.raises(ValueError, match="the likelihood must be Categorical"):
        br.run(m, MODEL, lik, state, X, Y, metrics=metrics.on(X, Y, metric))


# --- metrics of a stream --------------------------------------------------------------------------


@families
def test_on_is_the_metrics_one_by_one(family):
    lik = LIKS["categorical"]
    m, state, X, Y = setting(family, lik)
    names = (
        "nlpd",
        "nlpd-plugin",
        "nlpd-mc",
        "nlpd-lin_mc",
        "nlpd-lin_mc_f",
        "error",
        "error-mc",
        "ece",
        "ece-lin_mc",
        "rmse-mc",
    )
    row = metrics.on(X, Y, *names, n_samples=6)(m, MODEL, lik, state, np.random.default_rng(5))
    made = {  # all kinds have the same samples
        kind: predictive.predict(kind, MODEL, lik, state, X, n_samples=6, rng=5)
        for kind in predictive.KINDS
    }
    for name in names:
        calibrated = name in ("nlpd", "ece")
        kind = name.partition("-")[2] or ("lin_mc_f" if calibrated else "plugin")
        assert row[name] == metrics.METRICS[name.partition("-")[0]](made[kind], Y)
    assert row["nlpd"] == row["nlpd-lin_mc_f"] != row["nlpd-plugin"] != row["nlpd-mc"]
    labels = metrics.on(X, Y.argmax(axis=1), *names, n_samples=6)(
        m, MODEL, lik, state, np.random.default_rng(5)
    )
    assert labels == row


def test_kl_to_and_prequential():
    lik = LIKS["gaussian"]
    m, state, X, Y = setting("fc", lik)
    exact = br.FC(state.mu + 1, 2 * state.Sigma)
    d = np.ones(P)
    want = (d @ np.linalg.solve(exact.Sigma, d) + P / 2 - P + P * math.log(2)) / 2
    agree("kl", metrics.kl_to(exact)(m, MODEL, lik, state, None)["kl"], want)
    row = metrics.prequential("plugin")(m, MODEL, lik, state, np.random.default_rng(0), X[0], Y[0])
    agree(
        "prequential",
        row["prequential-plugin"],
        -math.log(density(lik, MODEL(state.mu, X[0]), Y[0])),
    )
    row = metrics.prequential("plugin")(m, MODEL, lik, state, np.random.default_rng(0), X, Y)
    logs = [math.log(density(lik, MODEL(state.mu, x), y)) for x, y in zip(X, Y, strict=True)]
    agree(
        "prequential of a batch",
        row["prequential-plugin"],
        -np.mean(logs),
        size=np.max(np.abs(logs)),
    )


def test_a_wrapped_function_of_a_number():
    """One input without dimensions is one input for every predictive and for the prequential
    score.
    """
    lik, m = br.likelihoods.Gaussian(0.5), br.method("bong-lin-hess-fc")
    model = br.models.wrap(lambda t, x: t[0] + anp.sin(t[1] * x), 2)
    state = br.FC(np.array([0.1, 1.0]), 0.01 * np.eye(2))
    for kind in predictive.KINDS:
        pred = predictive.predict(
            kind, model, lik, state, 0.7, n_samples=3, rng=np.random.default_rng(0)
        )
        assert pred.values.shape[1:] == (1, 1)
    want = -stats.norm(0.1 + math.sin(0.7), math.sqrt(0.5)).logpdf(1.3)
    res = br.run(m, model, lik, state, [0.7], [1.3], metrics=metrics.prequential())
    agree("prequential", res.rows[0]["prequential-plugin"], want)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            lambda: metrics.on(0, 0, "nlpd-linmc"),
            ValueError,
            "names must be made of .* got 'nlpd-linmc'; did you mean 'nlpd-lin_mc'",
        ),
        (lambda: metrics.on(0, 0, "nlp"), ValueError, "did you mean 'nlpd'"),
        (lambda: metrics.on(0, 0, "errors"), ValueError, "did you mean 'error'"),
        (lambda: metrics.on(0, 0, "ECE"), ValueError, "got 'ECE'"),
        (
            lambda: metrics.on(0, 0, "nlpd-exact"),
            ValueError,
            "nlpd, error, ece, rmse, nonpositive, nlpd_positive and optionally -plugin, "
            "-mc, -lin_mc, -lin_mc_f",
        ),
        (lambda: metrics.on(0, 0), ValueError, "names must be made of"),
        (lambda: metrics.on(0, 0, 3), TypeError, "names must be strings such as 'nlpd-mc', got 3"),
        (
            lambda: metrics.on(0, 0, "nlpd", n_samples=0),
            ValueError,
            "n_samples must be an integer >= 1, got 0",
        ),
        (
            lambda: metrics.prequential("laplace"),
            ValueError,
            "kind must be 'plugin', 'mc', 'lin_mc' or 'lin_mc_f', got 'laplace'",
        ),
        (
            lambda: metrics.kl_to({"mu": 0}),
            TypeError,
            "exact must be an FC, Diag or DLR state, got dict",
        ),
        (
            lambda: metrics.kl_to(br.Diag(np.zeros(2), -np.ones(2))),
            ValueError,
            "exact must be positive definite",
        ),
    ],
)
def test_bad_metrics(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("fn", [predictive.mc, predictive.lin_mc])
def test_bad_predictives(fn):
    lik = LIKS["gaussian"]
    _, state, X, Y = setting("fc", lik)
    for kw, error, match in [
        (
            {},
            TypeError,
            r"rng must be a numpy\.random\.Generator or a seed .*, got NoneType None; use "
            r"rng=numpy",
        ),
        (
            {"rng": np.random},
            TypeError,
            r"rng must be a numpy\.random\.Generator or a seed .*, got module",
        ),
        (
            {"rng": np.random.default_rng(0), "n_samples": 0},
            ValueError,
            "n_samples must be an integer >= 1, got 0",
        ),
        (
            {"samples": np.zeros((2, 3))},
            ValueError,
            rf"samples must have shape \(any, {P}\), got \(2, 3\)",
        ),
        ({"samples": np.full((2, P), np.nan)}, ValueError, "samples must be finite, got nan"),
    ]:
        with pytest.raises(error, match=match):
            fn(MODEL, lik, state, X, **kw)
    with pytest.raises(TypeError, match="state must be an FC, Diag or DLR state, got tuple"):
        fn(MODEL, lik, tuple(state), X, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=rf"state.mu must have shape \({P},\), got \(3,\)"):
        fn(MODEL, lik, br.FC(np.zeros(3), np.eye(3)), X, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"X must have shape \(2,\).*got \(4, 3\)"):
        fn(MODEL, lik, state, np.zeros((4, 3)), rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"linearise must be 'h' or 'f', got 'g'"):
        predictive.lin_mc(MODEL, lik, state, X, rng=np.random.default_rng(0), linearise="g")
    with pytest.raises(
        ValueError, match=r"kind must be 'plugin', 'mc', 'lin_mc' or 'lin_mc_f', got 'map'"
    ):
        predictive.predict("map", MODEL, lik, state, X)
    with pytest.raises(ValueError, match=r"Y must have shape \(4, 2\), got \(3, 2\)"):
        predictive.plugin(MODEL, lik, state, X).log_density(Y[:3])


# --- what comes in --------------------------------------------------------------------------------


def test_a_call_with_a_method_still_works_and_says_that_it_is_deprecated():
    lik = LIKS["gaussian"]
    m, state, X, _ = setting("fc", lik)
    for method in (m, m.name):
        for kind in ("plugin", "mc", "lin_mc"):
            kw = {} if kind == "plugin" else {"rng": 0}
            call = getattr(predictive, kind)
            with pytest.warns(
                DeprecationWarning,
                match=f"predictive.{kind} takes no method: leave out the argument m",
            ) as seen:
                old = call(method, MODEL, lik, state, X, **kw)
            assert seen[0].filename == __file__  # the caller's line, not one of the library
            np.testing.assert_array_equal(old.values, call(MODEL, lik, state, X, **kw).values)
    with pytest.warns(DeprecationWarning):
        old = predictive.plugin(m=m, model=MODEL, lik=lik, state=state, X=X)
    np.testing.assert_array_equal(old.values, predictive.plugin(MODEL, lik, state, X).values)
    with pytest.warns(DeprecationWarning):
        old = predictive.predict("plugin", m, MODEL, lik, state, X)
    np.testing.assert_array_equal(
        old.values, predictive.predict("plugin", MODEL, lik, state, X).values
    )


@pytest.mark.parametrize("rate", [700.0, 709.0, 710.0, 1e4])
def test_a_rate_beyond_the_largest_float_has_an_infinite_variance(rate):
    """No NaN, and a warning that says why; just below, the mean and the variance of a Poisson are
    the same number.
    """
    for values in (np.full((1, 1, 1), rate), np.array([[[rate]], [[0.0]]])):
        pred = Predictive("mc", br.likelihoods.Poisson(), values)
        assert (pred.mean[0, 0] == np.inf) == (rate > 709.8)
        if rate < 709.8 and len(values) == 1:
            assert pred.var == pred.mean
        else:  # of two samples, the variance of the means is (e^rate / 2)²
            with pytest.warns(br.BongrefWarning, match=rf"1 of 1 inputs.* up to {rate:.6g};"):
                assert pred.var[0, 0] == np.inf
        assert metrics.nlpd(pred, [3]) > 0


def test_outputs_that_overflow_are_infinitely_improbable():
    model, lik = br.models.mlp([1, 1, 1], activation="relu"), br.likelihoods.Gaussian(1.0)
    state = br.Diag(np.array([1e200, 0.0, 1e200, 0.0]), np.ones(4))
    pred = predictive.plugin(model, lik, state, [[1.0]])
    assert (
        pred.mean[0, 0] == pred.var[0, 0] == np.inf
        and metrics.nlpd(pred, [0.0]) == np.inf
        and metrics.rmse(pred, [0.0]) == np.inf
    )


def frames():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    shuffled = [3, 0, 1, 2]
    return {
        "list": (lambda X: X.tolist(), lambda y: y.tolist()),
        "pandas": (
            lambda X: pd.DataFrame(X, index=shuffled),
            lambda y: pd.Series(y, index=shuffled[::-1]),
        ),
        "square": (
            lambda X: pd.DataFrame(X, index=shuffled, columns=[1, 0]),
            lambda y: pd.DataFrame({0: y}, index=shuffled),
        ),
        "nullable": (
            lambda X: pd.DataFrame(X).astype("Float64"),
            lambda y: pd.Series(y).astype("Int64"),
        ),
        "polars": (lambda X: pl.DataFrame(X), lambda y: pl.Series(y.astype(int))),
    }


@pytest.mark.parametrize("name", ["list", "pandas", "square", "nullable", "polars"])
def test_tables_are_read_by_position(name):
    of_X, of_y = frames()[name]
    lik = LIKS["categorical"]
    m, state, X, Y = setting("fc", lik)
    labels = Y.argmax(axis=1)
    names = ("nlpd-plugin", "error", "rmse")
    want = metrics.on(X, labels, *names)(m, MODEL, lik, state, None)
    assert metrics.on(of_X(X), of_y(labels), *names)(m, MODEL, lik, state, None) == want
    assert (
        metrics.nlpd(predictive.plugin(MODEL, lik, state, of_X(X)), of_y(labels))
        == want["nlpd-plugin"]
    )


def test_one_row_of_a_data_frame_is_one_input():
    pd = pytest.importorskip("pandas")
    lik = LIKS["gaussian"]
    _, state, X, _ = setting("fc", lik)
    row = pd.DataFrame(X, index=[3, 0, 1, 2]).iloc[1]
    np.testing.assert_array_equal(
        predictive.plugin(MODEL, lik, state, row).values[0], [MODEL(state.mu, X[1])]
    )


@pytest.mark.parametrize("kind", ["lin_mc", "lin_mc_f"])
@pytest.mark.parametrize(
    ("model", "lik"),
    [
        (br.models.linear(3), br.likelihoods.Gaussian(var=0.5)),
        (br.models.mlp([3, 4, 3]), br.likelihoods.Categorical()),
    ],
    ids=["linear", "mlp"],
)
def test_linearised_values_of_parts_are_those_of_each_input(model, lik, kind, monkeypatch):
    """eq:hbar and eq:fbar written out for one input and one sample; parts of two inputs."""
    rng = np.random.default_rng(3)
    mu, X = model.init(rng), rng.normal(size=(5, 3))
    thetas = mu + 0.1 * rng.normal(size=(4, len(mu)))
    monkeypatch.setattr(predictive, "AT_ONCE", 2 * model.n_outputs * len(mu))
    found = predictive._linearised(kind, model, lik, mu, thetas, X)
    assert found.shape == (4, 5, model.n_outputs)
    for s, theta in enumerate(thetas):
        for n, x in enumerate(X):
            moved = model.jac(mu, x) @ (theta - mu)
            o = model(mu, x)
            want = o + moved if kind == "lin_mc_f" else lik.mean(o) + lik.jac_mean(o) @ moved
            np.testing.assert_allclose(found[s, n], want, rtol=0, atol=64 * 2**-52)

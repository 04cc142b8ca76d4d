"""Real data, where there are any: the folder that BONGREF_DATA names, or shared/data beside the
repository.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

import bongref as br
from bongref.routes import compare

DATA = Path(os.environ.get("BONGREF_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def read(*parts):
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"no {'/'.join(parts)} in {DATA.name}; name the folder of the data sets in BONGREF_DATA"
        )
    return gzip.open(path).read()


def mnist(kind, n):
    images = (
        np.frombuffer(read("mnist", f"{kind}-images-idx3-ubyte.gz"), np.uint8, offset=16).reshape(
            -1, 28, 28, 1
        )[:n]
        / 255.0
    )
    labels = np.frombuffer(read("mnist", f"{kind}-labels-idx1-ubyte.gz"), np.uint8, offset=8)[:n]
    return images, labels.astype(int)


@pytest.mark.parametrize(
    "name", ["bong-lin-hess-dlr", "bong-lin-ef-dlr", "bong-lin-hess-diag", "blr-lin-hess-diag"]
)
def test_logistic_regression_learns_mnist(name):
    """Two hundred images one by one: far better than chance, and the posterior stays a Gaussian."""
    X, Y = mnist("train", 200)
    X_test, Y_test = mnist("t10k", 500)
    X, X_test = X.reshape(len(X), -1), X_test.reshape(len(X_test), -1)
    model, lik = br.models.linear(784, 10), br.likelihoods.Categorical()
    m = br.method(
        name,
        **({"rank": 5} if name.endswith("dlr") else {}),
        **({"n_iter": 3, "alpha": 0.5} if name[:3] == "blr" else {}),
    )
    metrics = br.metrics.on(X_test, Y_test, "error", "nlpd-plugin", "ece-plugin")
    prior = m.prior(np.zeros(model.n_params), 0.1)
    before, after = (
        metrics(m, model, lik, prior, None),
        br.run(m, model, lik, prior, X, Y, metrics=metrics).rows[-1],
    )
    assert after["error"] < 0.5 < before["error"]  # chance is 0.9, with a standard error of 0.013
    assert after["nlpd-plugin"] < before["nlpd-plugin"] and 0 <= after["ece-plugin"] <= 1


def test_linear_regression_on_yacht_is_the_batch_posterior():
    """One by one, in the order of the file, against the normal equations solved by QR."""
    rows = np.loadtxt(read("uci", "yacht", "data.csv.gz").decode().splitlines(), delimiter=",")
    X, Y = rows[:, :-1], rows[:, -1]
    X, Y = np.c_[(X - X.mean(0)) / X.std(0), np.ones(len(X))], (Y - Y.mean()) / Y.std()
    var, prior_var = 0.5, 10.0
    m = br.method("bong-lin-hess-fc")
    state = br.run(
        m,
        br.models.linear(X.shape[1]),
        br.likelihoods.Gaussian(var),
        m.prior(np.zeros(X.shape[1]), prior_var),
        X,
        Y,
    ).state
    stacked = np.r_[X / np.sqrt(var), np.eye(X.shape[1]) / np.sqrt(prior_var)]
    Q, R = np.linalg.qr(stacked)
    wanted = np.linalg.solve(R, Q.T @ np.r_[Y / np.sqrt(var), np.zeros(X.shape[1])])
    cond = np.linalg.cond(R) ** 2 * len(Y)
    assert compare.difference("mu", state.mu, wanted, cond).agrees
    assert compare.difference("Sigma", state.Sigma, np.linalg.inv(R.T @ R), cond).agrees

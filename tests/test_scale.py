"""P = 57,722, the paper's CNN, with DLR rank 10: memory linear in P, no (P, P) array."""

import tracemalloc

import numpy as np
import pytest

import bongref as br
from bongref.curvature import Curv

P, R, K = 57_722, 10, 10


@pytest.mark.parametrize("rule", ["bong", "blr", "bog", "bbb"])
def test_step_of_the_cnn_in_linear_memory(rule):
    rng = np.random.default_rng(0)
    m = br.method(f"{rule}-lin-hess-dlr", rank=R, **({} if rule == "bong" else {"alpha": 0.01}))
    prior = m.prior(rng.standard_normal(P), 0.1)
    curv = Curv(rng.standard_normal(P), S=rng.standard_normal((P, K)))
    tracemalloc.start()
    _, info = br.step(m, prior, prior, curv)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert info.valid and info.form == f"dlr.{rule}_woodbury"
    columns = peak / (8 * P)  # how many vectors of length P were alive at once
    assert columns < 8 * (2 * R + K), (
        f"{columns:.0f} vectors of length P; a (P, P) array would be {P}"
    )


def test_update_of_the_cnn():
    rng = np.random.default_rng(0)
    model, lik = br.models.cnn(), br.likelihoods.Categorical()
    assert model.n_params == P
    m = br.method("bong-lin-hess-dlr", rank=R)
    prior = m.prior(model.init(rng), 0.1)
    x = rng.standard_normal((28, 28, 1))
    before = lik.log_prob(model(prior.mu, x), lik.encode(3, 10))
    state, info = br.update(m, model, lik, prior, x, 3)
    after = lik.log_prob(model(state.mu, x), lik.encode(3, 10))
    assert info.valid and after > before



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

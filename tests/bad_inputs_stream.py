"""Bad inputs of the functions of names, steps and streams: (call, kind of error, a part of the message).

A call is an expression over the good inputs of :func:`bad_inputs.given` and of :func:`given`.
"""

import tempfile
from pathlib import Path

import bad_inputs
import numpy as np

import bongref as br
from bongref.errors import InvalidType, InvalidValue, NotDerived

V, T = InvalidValue, InvalidType


def given():
    """Good inputs, by the names that the calls use."""
    good = bad_inputs.given()
    good["m"] = br.method("bong-lin-hess-diag")
    good["mc"] = br.method("bong-mc-ef-diag", n_samples=3)
    good["probing"] = br.method("bong-mc-hess-diag", n_samples=2, n_probes=3)
    good["c"] = br.Curv(np.ones(2), S=np.ones((2, 1)))
    good["res"] = br.run(
        good["m"],
        good["model"],
        good["gauss"],
        good["q"],
        good["X"],
        good["Y"],
        backend="reference",
        progress=False,
    )
    good["folder"] = Path(tempfile.mkdtemp())
    good["run"] = lambda *args, **kw: br.run(*args, progress=False, **kw)
    (good["folder"] / "text.npz").write_text("no archive")
    return good


ROWS = [
    # --- names and parameters -------------------------------------------------------------------------
    ("br.method('bong')", V, "got 'bong'"),
    ("br.method('')", V, "such as 'bong-lin-hess-fc', got ''; bongref.methods() lists all 80"),
    ("br.method(7)", T, "got 7"),
    ("br.explain('bong')", V, "got 'bong'"),
    ("br.explain(7)", T, "got 7"),
    ("br.explain('vd-ekf')", V, "is not bong-lin-hess-diag"),
    ("br.recommend('mlp', 10, 1.0)", T, "model must be made by bongref.models"),
    ("br.recommend(model, 0, 1.0)", V, "n_obs must be an integer >= 1, got 0"),
    ("br.recommend(model, 10, '10')", V, "such as '100us' (ns, us, ms, s), got '10'"),
    ("br.recommend(model, 10, None)", T, "budget must be seconds > 0"),
    ("br.recommend(model, 10, 1.0, rank=0)", V, "rank must be an integer >= 1, got 0"),
    ("br.method(None)", T, "got None"),
    ("br.method('bong-lin-hess-ful')", V, "got 'bong-lin-hess-ful'; did you mean"),
    ("br.method('bong_lin_hess_fc')", V, "did you mean 'bong-lin-hess-fc'"),
    ("br.method('bong-lin-hess-fc', alpha=0.1)", T, "takes no parameter 'alpha'"),
    ("br.method('blr-lin-hess-fc', aplha=0.1)", T, "did you mean 'alpha'"),
    ("br.method('blr-lin-hess-fc', alpha=0)", V, "alpha must be > 0, got 0"),
    ("br.method('blr-lin-hess-fc', alpha=-1)", V, "alpha must be > 0, got -1"),
    ("br.method('blr-lin-hess-fc', alpha=nan)", V, "alpha must be finite, got nan"),
    ("br.method('blr-lin-hess-fc', alpha='0.1')", T, "alpha must be a real number, got str '0.1'"),
    ("br.method('blr-lin-hess-fc', alpha=1.5)", V, "alpha must be in (0, 1]"),
    ("br.method('blr-lin-hess-fc_mom', alpha=1.5)", V, "alpha must be in (0, 1]"),
    ("br.method('blr-mc-ef-diag', alpha=2)", V, "alpha must be in (0, 1]"),
    ("br.method('blr-mc-ef-diag_mom', alpha=2)", V, "alpha must be in (0, 1]"),
    ("br.method('blr-mc-ef-dlr', alpha=2)", V, "alpha must be in (0, 1]"),
    ("br.method('blr-lin-hess-fc', n_iter=0)", V, "n_iter must be an integer >= 1, got 0"),
    ("br.method('bong-mc-ef-fc', n_samples=1.5)", T, "n_samples must be an integer >= 1, got 1.5"),
    ("br.method('bong-lin-ef-dlr', rank=True)", T, "rank must be an integer >= 1, got True"),
    ("br.method('bong-lin-ef-fc', virtual=1)", T, "virtual must be True or False, got 1"),
    ("br.method('bong-mc-hess-dlr')", NotDerived, "works for EF-MC and EF-LIN methods but not MC-HESS"),
    ("br.methods(3)", T, "pattern"),
    ("m.prior([0.0, nan])", V, "mu must be finite, got nan at index (1,)"),
    ("m.prior('ab')", T, "mu must be an array of real numbers, got str 'ab'"),
    ("m.prior(np.zeros(2), var=0.0)", V, "var must be > 0 (a variance), got 0.0"),
    ("m.prior(np.zeros(2), var=[1.0])", V, "var must be a scalar or have shape (2,), got (1,)"),
    ("br.method('bog-lin-hess-dlr', rank=1).prior(np.zeros(2), rng=1.5)", T, "rng must be a numpy.random.Generator or a seed"),
    ("br.method('bog-lin-hess-dlr').prior(np.zeros(3), var=1e308)", V, "var must have a finite inverse and a finite product with the rank 3, got 1e+308"),
    ("br.method('bong-lin-hess-dlr').prior(np.zeros(3), var=1e-320)", V, "var must have a finite inverse and a finite product with the rank 3, got 1e-320"),
    # --- step ---------------------------------------------------------------------------------------------
    ("br.step(m, None, None, c)", T, "prior must be a Diag state, got NoneType None"),
    ("br.step(m, fc, None, c)", T, "prior must be a Diag state, got FC"),
    ("br.step(m, q, None, None)", T, "curv must be a Curv, got NoneType None"),
    ("br.step(m, q, None, curv)", T, "curv must be a Curv, got dict"),
    ("br.step(m, q, None, br.Curv(np.ones(2)))", V, "curv must have exactly one of S, G and d, got none"),
    ("br.step(m, q, None, c, form='quick')", V, "form must be 'auto', 'plain' or 'efficient', got 'quick'"),
    ("br.step('blr-lin-hess-diag', q, fc, c)", T, "current must be a Diag state, got FC"),
    ("br.update(None, model, gauss, q, x, y)", T, "m must be a Method or a name such as 'bong-lin-hess-fc', got NoneType None"),
    ("run(3, model, gauss, q, X, Y)", T, "m must be a Method or a name such as 'bong-lin-hess-fc', got int 3"),
    ("br.step('bong-lin-hess-fc', fc, None, br.Curv(np.ones(2), d=-np.ones(2)))", V, "curv must have S or G for a family that is not diagonal, got d alone"),
    # --- update -------------------------------------------------------------------------------------------
    ("br.update(m, None, gauss, q, x, y)", T, "model must be made by bongref.models (linear, mlp, cnn, wrap), got NoneType None"),
    ("br.update(m, model, 'gaussian', q, x, y)", T, "lik must be a likelihood such as bongref.likelihoods.Bernoulli(), got str"),
    ("br.update(m, model, lik.Bernoulli, q, x, y)", T, "lik must be a likelihood such as bongref.likelihoods.Bernoulli(), got"),
    ("br.update(m, model, gauss, fc, x, y)", T, "prior must be a Diag state, got FC"),
    ("br.update(m, model, gauss, q, [1.0, nan], y)", V, "x must be finite, got nan at index (1,); impute missing inputs, only y may be missing"),
    ("br.update(m, model, gauss, q, None, y)", V, "x must be given, got None"),
    ("br.update(m, model, gauss, q, Sparse(), y)", T, "x must be dense, got a sparse Sparse; use x.toarray()"),
    ("br.update(m, model, gauss, q, x, nan)", V, "y must be finite real numbers, got nan; use None for a missing observation"),
    ("br.update(m, model, gauss, q, x, 'a')", T, "y must be finite real numbers, got str 'a'"),
    ("br.update(m, net, gauss, q, 1.0, y)", V, "prior.mu must have shape (7,)"),
    ("br.update(mc, model, gauss, q, x, y)", T, "rng"),
    ("br.update(mc, model, gauss, q, x, y, rng=np.random.RandomState(0))", T, "rng must be a numpy.random.Generator or a seed"),
    ("br.update(mc, model, gauss, q, x, y, rng='0')", T, "rng must be a numpy.random.Generator or a seed (an integer >= 0), got str '0'"),
    ("br.update(m, model, gauss, q, x, y, samples=np.zeros((1, 3, 2)))", T, "takes no samples"),
    ("br.update(mc, model, gauss, q, x, y, samples=np.zeros((1, 3, 3)))", V, "samples must have shape (1, M, 2), got (1, 3, 3)"),
    ("br.update(mc, model, gauss, q, x, y, samples=[[[nan, 0.0]]])", V, "samples must be finite, got nan"),
    ("br.update(probing, model, gauss, q, x, y, samples=np.zeros((1, 2, 2)))", T, "rng or probes"),
    ("br.update(probing, model, gauss, q, x, y, samples=np.zeros((1, 2, 2)), probes=np.zeros((1, 2, 3, 2)))", V, "probes must be 1 or -1, got 0.0"),
    ("br.update(m, model, gauss, q, x, y, form='fast')", V, "form must be 'auto', 'plain' or 'efficient', got 'fast'"),
    ("br.update(m, model, gauss, q, x, y, trace='yes')", T, "trace must be True or False, got 'yes'"),
    # --- run ------------------------------------------------------------------------------------------------
    ("run(m, model, gauss, q, [], [])", V, "X must not be empty, got length 0"),
    ("run(m, model, gauss, q, X, Y[:2])", V, "X and Y must have the same length, got 3 and 2"),
    ("run(m, model, gauss, q, iter(X), Y)", T, "X must be an array, a data frame or a sequence, got iterator; use list(X)"),
    ("run(m, model, gauss, q, (v for v in X), Y)", T, "X must be an array, a data frame or a sequence, got generator; use list(X)"),
    ("run(m, model, gauss, q, X, 3.0)", T, "Y must be an array, a data frame or a sequence, got float"),
    ("run(m, model, gauss, q, Sparse(), Y)", T, "X must be dense, got a sparse Sparse; use X.toarray()"),
    ("run(m, model, gauss, q, X, [1.0, nan, 2.0])", V, "step 2 (X[1], Y[1]): y must be finite real numbers, got nan; use None for a missing observation"),
    ("run(m, model, gauss, q, [x, [1.0, nan], x], Y)", V, "step 2 (X[1], Y[1]): x must be finite, got nan at index (1,); impute missing inputs"),
    ("run(m, model, gauss, q, [x, None, x], Y)", V, "step 2 (X[1], Y[1]): x must be given, got None; impute missing inputs"),
    ("run(m, model, gauss, q, X, [1.0, [1.0, 2.0], 3.0])", V, "step 2 (X[1], Y[1]): y must have shape (1,) or (), got (2,)"),
    ("run(m, model, gauss, q, X[:, :1], Y)", V, "step 1 (X[0], Y[0]): x must have shape (2,)"),
    ("run(m, models.linear(1), gauss, br.Diag(np.zeros(1), np.ones(1)), Y, Y)", V, "use X[:, None] for one feature"),
    ("run(m, model, cat, q, X, [0, 1, 0])", V, "n_outputs must be an integer >= 2, got 1; with one logit use Bernoulli"),
    ("run(mc, model, gauss, q, X, Y)", T, "rng"),
    ("run(mc, model, gauss, q, X, Y, rng=1.5)", T, "rng must be a numpy.random.Generator or a seed (an integer >= 0), got float 1.5"),
    ("run(mc, model, gauss, q, X, Y, samples=np.zeros((2, 1, 3, 2)))", V, "samples must have shape (3, 1, M, 2), got (2, 1, 3, 2)"),
    ("run(m, model, gauss, q, X, Y, backend='numba')", V, "backend must be 'auto', 'reference' or 'fast', got 'numba'"),
    ("run(m, model, gauss, q, X, Y, backend='Fast')", V, "got 'Fast'; did you mean 'fast'?"),
    ("run(m, model, gauss, q, X, Y, every=0)", V, "every must be an integer >= 1, got 0"),
    ("run(m, model, gauss, q, X, Y, every=10)", V, "every"),
    ("run(m, model, gauss, q, X, Y, metrics='nlpd')", T, "metrics"),
    ("run(m, model, gauss, q, X, Y, metrics=[3])", T, "metrics"),
    ("run(m, model, gauss, q, X, Y, metrics=metrics.kl_to(br.Diag(np.zeros(3), np.ones(3))))", V, "exact must have 2 parameters, got 3"),
    ("run(m, model, gauss, q, X, Y, metrics=metrics.on(X, Y, 'error'))", V, "the likelihood must be Categorical"),
    ("run(m, model, gauss, q, X, Y, metrics=metrics.on(X[:, :1], Y, 'rmse'))", V, "X must have shape (2,)"),
    ("run(m, model, gauss, q, X, Y, dynamics='ou')", T, "dynamics must be Static(), OU(...) or Linear(...), got str 'ou'"),
    ("run(m, model, gauss, q, X, Y, dynamics=dyn.OU(1.5))", V, "gamma must be in [0, 1], got 1.5"),
    ("run(m, model, gauss, q, X, Y, form='quick')", V, "form must be 'auto', 'plain' or 'efficient', got 'quick'"),
    ("run(m, model, gauss, q, X, Y, trace=1)", T, "trace must be True or False, got 1"),
    ("run(m, model, gauss, q, X, Y, resume=3)", T, "resume must be a Result"),
    ("run('bong-lin-ef-diag', model, gauss, q, X, Y, resume=res)", V, "resume must be a Result of"),
    ("run(m, model, gauss, q, X[:2], Y[:2], resume=res)", V, "resume must be a Result of"),
    ("run(m, model, gauss, q, X, Y, resume=res._replace(t=-5))", V, "resume"),
    ("run(m, model, gauss, q, X, Y, resume=res._replace(t=1.5))", T, "resume"),
    ("run(m, model, gauss, q, X, Y, resume=res._replace(state=fc))", T, "resume.state must be a Diag state, got FC"),
    ("run(m, model, gauss, q, X, Y, checkpoint=3)", T, "checkpoint must be a path (str or os.PathLike), got int 3"),
    ("run(m, model, gauss, q, X, Y, checkpoint=folder / 'x.txt')", V, "checkpoint must end in .npz, got"),
    # --- save and load ----------------------------------------------------------------------------------------
    ("br.save(folder / 'x.npz', (q,))", T, "value must be a state (FC, Diag, DLR), a Result of bongref.run, a Filter"),
    ("br.save(q, folder / 'x.npz')", T, "path must be a path (str or os.PathLike), got Diag"),
    ("br.explain('bong')", V, "name must be RULE-{mc|lin}-{hess|ef}-FAMILY such as 'bong-lin-hess-fc', got 'bong'"),
    ("br.explain(3)", T, "name must be a string such as 'bong-lin-hess-fc', got 3"),
    ("br.recommend(None, 100, 1.0)", T, "model must be made by bongref.models (linear, mlp, cnn, wrap), got NoneType None"),
    ("br.recommend(model, 0, 1.0)", V, "n_obs must be an integer >= 1, got 0"),
    ("br.recommend(model, 100, -1)", V, "budget must be seconds > 0 for the whole stream"),
    ("br.recommend(model, 100, 'fast')", V, "such as '100us' (ns, us, ms, s), got 'fast'"),
    ("br.recommend(model, 100, 1.0, rank=0)", V, "rank must be an integer >= 1, got 0"),
    ("br.save(res, folder / 'x.npz')", T, "path must be a path (str or os.PathLike), got Result"),
    ("br.save(folder / 'x.txt', res)", V, "path must end in .npz, got"),
    ("br.save(folder / 'no' / 'x.npz', res)", V, "path must lie in a folder that exists, got"),
    ("br.load(3)", T, "path must be a path (str or os.PathLike), got int 3"),
    ("br.load(folder / 'text.npz')", V, "path must be a file that bongref.save wrote, got"),
    ("br.load(folder / 'none.npz')", br.errors.MissingFile, "path must be a file that exists, got"),
    # --- empty mini-batches, functions that return nothing ------------------------------------------
    ("br.update(m, model, gauss, q, np.zeros((0, 2)), np.zeros(0))", V, "x must not be empty, got a batch of shape (0, 2)"),
    ("run(m, model, gauss, q, np.zeros((3, 0, 2)), np.zeros((3, 0)))", V, "step 1 (X[0], Y[0]): x must not be empty, got a batch of shape (0, 2)"),
    ("run(m, model, gauss, q, [np.ones((2, 2)), np.zeros((0, 2))], [np.ones(2), np.ones(0)])", V, "step 2 (X[1], Y[1]): x must not be empty"),
    ("br.update(m, models.wrap(lambda t, x: x @ t, 2), gauss, q, np.zeros((0, 2)), np.zeros(0))", V, "x must not be empty"),
    ("br.update(m, models.wrap(lambda t, x: None, 2), gauss, q, 1.0, 1.0)", T, "f must return an array of real numbers or one number, got NoneType"),
    ("run(m, models.wrap(lambda t, x: None, 2, n_outputs=1), gauss, q, [1.0], [1.0])", br.CallbackFailed, "f must return an array of real numbers or one number, got NoneType"),
]  # fmt: skip

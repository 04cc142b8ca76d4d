"""Bad inputs of the functions of ``bongref.theory``: (call, kind of error, a part of the message).

A call is an expression over the names of :func:`given`.
"""

import numpy as np

import bongref as br
from bongref.errors import InvalidType, InvalidValue
from bongref.theory import expectations, newton, pairs, posteriors
from bongref.theory.arguments import Singular

V, T = InvalidValue, InvalidType


def given():
    """Good inputs, by the names that the calls use."""
    model, lik, batch = br.models.linear(2), br.likelihoods.Gaussian(1.0), br.batch
    return {
        "br": br,
        "np": np,
        "nan": np.nan,
        "expectations": expectations,
        "newton": newton,
        "pairs": pairs,
        "posteriors": posteriors,
        "averaged": batch.to_averaged(br.Diag(np.zeros(2), np.ones(2)), 9, 1.0),
        "soft": br.literature.to_softplus(br.Diag(np.zeros(2), np.ones(2))),
        "psi": br.mirror.natural(br.FC(np.zeros(2), np.eye(2))),
        "rho": br.mirror.dual(br.FC(np.zeros(2), np.eye(2))),
        "batch": batch,
        "conj": br.conjugate,
        "lit": br.literature,
        "mirror": br.mirror,
        "costs": br.costs,
        "nist": br.nist,
        "model": model,
        "lik": lik,
        "bern": br.likelihoods.Bernoulli(),
        "fc": br.FC(np.zeros(2), np.eye(2)),
        "q": br.Diag(np.zeros(2), np.ones(2)),
        "dlr": br.DLR(np.zeros(2), np.ones(2), np.ones((2, 1))),
        "s": batch.Scaled(np.zeros(2), np.ones(2)),
        "c": br.Curv(g=np.ones(2), S=np.ones((2, 1))),
        "lin": br.curvature.linearise(model, lik, np.ones(2), np.ones(1), np.zeros(2)),
        "pair": br.conjugate.PAIRS["gamma-poisson"],
        "expect": br.literature.logistic(np.ones(2), 1.0),
        "one": np.ones(1),
        "two": np.ones(2),
        "three": np.ones(3),
    }


ROWS = [
    # --- batch forms ------------------------------------------------------------------------------
    ("batch.fc(None, c, 0.1, 1.0)", T, "current must be an FC state, got NoneType None"),
    ("batch.fc(q, c, 0.1, 1.0)", T, "current must be an FC state, got Diag"),
    ("batch.fc_mom(fc, None, 0.1, 1.0)", T, "curv must be a Curv, got NoneType None"),
    (
        "batch.fc_mom(fc, br.Curv(g=three, S=np.ones((3, 1))), 0.1, 1.0)",
        V,
        "curv.g must have shape (2,), got (3,)",
    ),
    ("batch.diag(q, c, None, 1.0)", T, "alpha must be a real number, got NoneType None"),
    ("batch.diag(q, c, nan, 1.0)", V, "alpha must be finite, got nan"),
    ("batch.diag_mom(q, c, 0.1, '1')", T, "lam must be a real number, got str '1'"),
    (
        "batch.diag_mom(br.Diag(np.zeros(2), three), c, 0.1, 1.0)",
        V,
        "current.var must have shape (2,), got (3,)",
    ),
    (
        "batch.dlr(dlr, br.Curv(g=two), 0.1, 1.0)",
        V,
        "curv must have exactly one of S, G and d, got none",
    ),
    (
        "batch.dlr(br.DLR(np.zeros(2), two, two), c, 0.1, 1.0)",
        V,
        "current.W must have shape (2, R), got (2,)",
    ),
    (
        "batch.slang_lin_hess(None, lik, dlr, two, 1.0, 0.1, 1.0)",
        T,
        "model must be made by bongref.models (linear, mlp, cnn, wrap), got NoneType None",
    ),
    (
        "batch.slang_lin_ef(model, None, dlr, two, 1.0, 0.1, 1.0)",
        T,
        "lik must be a likelihood such as bongref.likelihoods.Bernoulli(), got NoneType None",
    ),
    ("batch.to_scaled(q, 0, 1.0)", V, "n must be > 0, got 0"),
    ("batch.from_scaled(q, 10, 1.0)", T, "q must be a Scaled state, got Diag"),
    ("batch.von(s, three, two, 0.1, 0.1, 10, 1.0)", V, "ghat must have shape (2,), got (3,)"),
    (
        "batch.vogn(s, None, 0.1, 0.1, 10, 1.0)",
        T,
        "grads must be an array of real numbers, got NoneType None",
    ),
    (
        "batch.vogn(s, np.ones((4, 3)), 0.1, 0.1, 10, 1.0)",
        V,
        "grads must have shape (any, 2), got (4, 3)",
    ),
    (
        "batch.slang(dlr, np.ones((4, 2)), 0.1, 0.1, 10, 1.0, None)",
        T,
        "eig must be callable, got NoneType None",
    ),
    ("batch.exact_eig(None, 1)", T, "F must be an array of real numbers, got NoneType None"),
    ("batch.exact_eig(np.ones((3, 2)), 0)", V, "rank must be an integer >= 1, got 0"),
    (
        "batch.fast_eig(np.ones((3, 2)), 1, None)",
        T,
        "rng must be a numpy.random.Generator or a seed (an integer >= 0)",
    ),
    ("batch.slang_sample(dlr, three)", V, "eps must have shape (2,), got (3,)"),
    # --- conjugate pairs --------------------------------------------------------------------------
    (
        "conj.step(None, two, one)",
        T,
        "pair must be a Pair, got NoneType None; use one of bongref.conjugate.PAIRS",
    ),
    ("conj.step(pair, None, one)", T, "psi must be an array of real numbers, got NoneType None"),
    ("conj.step(pair, three, one)", V, "psi must have shape (2,), got (3,)"),
    (
        "conj.step(pair, pair.prior, None)",
        T,
        "y must be an array of real numbers, got NoneType None",
    ),
    (
        "conj.bong(pair, pair.prior, np.array([1.0]), 'quadratur')",
        V,
        "route must be 'quadrature' or 'autodiff', got 'quadratur'; did you mean 'quadrature'?",
    ),
    (
        "conj.bayes('gamma-poisson', two, one)",
        T,
        "pair must be a Pair, got str 'gamma-poisson'; use one of bongref.conjugate.PAIRS",
    ),
    (
        "conj.stream(pair, pair.prior, None)",
        T,
        "ys must be an array of real numbers, got NoneType None",
    ),
    (
        "conj.stream(pair, pair.prior, np.ones((3, 1)), 'bong')",
        T,
        "rule must be callable, got str 'bong'",
    ),
    (
        "conj.bong_in(pair, pair.prior, one, None, None)",
        T,
        "to must be callable, got NoneType None",
    ),
    (
        "conj.log_prior(pair, pair.prior, None)",
        T,
        "theta must be an array of real numbers, got NoneType None",
    ),
    ("conj.expectation(pair, pair.prior, None)", T, "f must be callable, got NoneType None"),
    # --- the literature ---------------------------------------------------------------------------
    ("lit.rvga(None, lambda q: 0)", T, "prior must be an FC state, got NoneType None"),
    ("lit.rvga(fc, None)", T, "expect must be callable, got NoneType None"),
    ("lit.rvga_implicit(fc, expect, tol=0)", V, "tol must be > 0, got 0"),
    ("lit.rvga_implicit(fc, expect, max_iter=0)", V, "max_iter must be an integer >= 1, got 0"),
    (
        "lit.sampled(None, lik, two, one, np.ones((3, 2)))",
        T,
        "model must be made by bongref.models (linear, mlp, cnn, wrap), got NoneType None",
    ),
    ("lit.logistic(None, 1.0)", T, "x must be an array of real numbers, got NoneType None"),
    ("lit.cm_ekf(fc, None)", T, "lin must be a Lin, got NoneType None"),
    (
        "lit.cm_ekf(br.FC(np.zeros(3), np.eye(3)), lin)",
        V,
        "lin.H must have shape (any, 3), got (1, 2)",
    ),
    ("lit.vd_ekf(fc, lin)", T, "prior must be a Diag state, got FC"),
    ("lit.fd_ekf(None, lin)", T, "prior must be a Diag state, got NoneType None"),
    ("lit.lofi(q, lin)", T, "prior must be a DLR state, got Diag"),
    ("lit.lofi_predict(dlr, None, 0.1)", T, "gamma must be a real number, got NoneType None"),
    ("lit.minimal(two)", T, "lin must be a Lin, got ndarray array([1., 1.])"),
    (
        "lit.natural_gradient(None, np.eye(2), lin, 0.1)",
        T,
        "theta must be an array of real numbers, got NoneType None",
    ),
    ("lit.to_softplus(fc)", T, "q must be a Diag state, got FC"),
    ("lit.bbb(q, q, lambda t: t, two, 0.1)", T, "q must be a Softplus state, got Diag"),
    # --- mirror descent ---------------------------------------------------------------------------
    ("mirror.bong(lik, dlr, two, 1.0)", T, "prior must be an FC or Diag state, got DLR"),
    (
        "mirror.bong(None, fc, two, 1.0)",
        T,
        "lik must be a likelihood such as bongref.likelihoods.Bernoulli(), got NoneType None",
    ),
    ("mirror.bong(lik, fc, None, 1.0)", T, "x must be an array of real numbers, got NoneType None"),
    (
        "mirror.bong(bern, fc, two, 0.5)",
        V,
        "y must be 0 or 1, got 0.5; encode classes as 0, 1, ...: Y = numpy.unique(labels, "
        "return_inverse=True)[1]",
    ),
    ("mirror.blr(lik, fc, two, 1.0, 0.1, None)", T, "n_iter must be an integer >= 1, got None"),
    ("mirror.blr(lik, fc, two, 1.0, None, 3)", T, "alpha must be a real number, got NoneType None"),
    (
        "mirror.implicit(lik, fc, three, 1.0)",
        V,
        "x must have 2 entries in its last dimension, got shape (3,)",
    ),
    (
        "mirror.implicit(lik, fc, two, 1.0, max_iter=0)",
        V,
        "max_iter must be an integer >= 1, got 0",
    ),
    ("mirror.implicit_scalar(lik, q, two, 1.0)", T, "prior must be an FC state, got Diag"),
    ("mirror.natural(None)", T, "q must be an FC or Diag state, got NoneType None"),
    (
        "mirror.moments(None)",
        T,
        "psi must be a pair of arrays such as (psi_1, psi_2), got NoneType None",
    ),
    (
        "mirror.moments((1, 2, 3))",
        T,
        "psi must be a pair of arrays such as (psi_1, psi_2), got tuple (1, 2, 3)",
    ),
    (
        "mirror.log_partition((None, None))",
        T,
        "psi[0] must be an array of real numbers, got NoneType None",
    ),
    ("mirror.kl_from_statistics(fc, None)", T, "p must be an FC or Diag state, got NoneType None"),
    (
        "mirror.solve_linearised(fc, None)",
        T,
        "d_rho must be a pair of arrays such as (psi_1, psi_2), got NoneType None",
    ),
    (
        "mirror.step(mirror.natural(fc), mirror.natural(fc), '1')",
        T,
        "alpha must be a real number, got str '1'",
    ),
    # --- costs ------------------------------------------------------------------------------------
    ("costs.sizes_of(None)", T, "name must be a string such as 'bong-lin-hess-fc', got None"),
    ("costs.form_of('bong-fc')", V, "name must be RULE-{mc|lin}-{hess|ef}-FAMILY such as 'bong-li"),
    (
        "costs.polynomial('bong-lin-ef-fc', 'updates')",
        V,
        "part must be 'update', 'estimator' or 'sampling', got 'updates'; did you mean 'update'?",
    ),
    ("costs.count(None, P=3)", T, "name must be a string such as 'bong-lin-hess-fc', got None"),
    ("costs.count('bong-lin-hess-fc', P=3)", T, "sizes of bong-lin-hess-fc must be P, C, got P"),
    ("costs.parse(None)", T, "printed must be a str, got NoneType None"),
    ("costs.parse('P^2')", V, "a cost must read like O((R+M)^2 P), got 'P^2'"),
    ("costs.is_O(None, None)", T, "f must be a Poly, got NoneType None"),
    ("costs.interpolate(None, 'P')", T, "cost must be callable, got NoneType None"),
    (
        "costs.update('bong-lin-hess-fc', fc, c)",
        T,
        "m must be a Method, got str 'bong-lin-hess-fc'",
    ),
    # --- certified regressions --------------------------------------------------------------------
    (
        "nist.row('Longly', 'qr')",
        V,
        "name must be 'NoInt1', 'Pontius', 'Longley', 'Wampler1', 'Wampler2', 'Wampler3', "
        "'Wampler4'",
    ),
    (
        "nist.row('Longley', 'QR')",
        V,
        "route must be 'exact', 'exact, float64 X', 'stream, plain', 'stream, efficient', "
        "'stream, plain",
    ),
    ("nist.qr(None)", T, "d must be a Dataset, got NoneType None"),
    ("nist.condition('Longley')", T, "d must be a Dataset, got str 'Longley'"),
    ("nist.lre(None, '1.0')", T, "got must be a real number, got NoneType None"),
    # --- what the functions above are made of -----------------------------------------------------
    ("expectations.nodes(None)", T, "s must be a real number, got NoneType None"),
    ("expectations.nodes(-1)", V, "s must be > 0, got -1"),
    ("expectations.output(None, np.eye(2))", T, "q must be an FC or Diag state, got NoneType None"),
    ("expectations.output(fc, three)", V, "X must have 2 dimensions, got shape (3,)"),
    (
        "expectations.expected_log_prob(None, one, one, np.ones((1, 1)))",
        T,
        "lik must be a likelihood such as bongref.likelihoods.Bernoulli(), got NoneType None",
    ),
    (
        "expectations.expected_derivatives(bern, None, one, np.ones((1, 1)))",
        T,
        "m must be an array of real numbers, got NoneType None",
    ),
    ("newton.minimise(None, fc)", T, "objective must be callable, got NoneType None"),
    ("newton.minimise(lambda q: 0.0, None)", T, "start must be an FC or Diag state, got NoneType"),
    ("pairs.beta_line(None, 1.0)", T, "a must be a real number, got NoneType None"),
    ("pairs.gamma_line(1.0, 0)", V, "b must be > 0, got 0"),
    # --- numbers out of range, observations of another shape --------------------------------------
    ("batch.dlr(dlr, c, -1, 1.0)", V, "alpha must be in [0, 1], got -1"),
    ("batch.dlr(dlr, c, 1.5, 1.0)", V, "alpha must be in [0, 1], got 1.5"),
    ("batch.slang_lin_hess(model, lik, dlr, two, one, -1, 1.0)", V, "alpha must be in [0, 1]"),
    ("conj.step(pair, pair.prior, np.ones(7))", V, "y must have shape (1,), got (7,)"),
    ("conj.step(pair, pair.prior, 1.0)", V, "y must have shape (1,), got ()"),
    ("conj.bayes(pair, pair.prior, np.ones(7))", V, "y must have shape (1,), got (7,)"),
    ("conj.stream(pair, pair.prior, np.ones(7))", V, "ys must have shape (any, 1), got (7,)"),
    ("conj.stream(pair, pair.prior, 1.0)", V, "ys must have shape (any, 1), got ()"),
    ("batch.fc(fc, c, 10**400, 1.0)", V, "alpha must be within the range of float64, got a larger"),
    ("batch.diag(q, c, -1, 1.0)", V, "alpha must be in [0, 1], got -1"),
    ("batch.vogn(s, np.ones((4, 2)), 0.1, 2.0, 9, 1.0)", V, "beta must be in [0, 1], got 2.0"),
    ("batch.slang_lin_ef(model, lik, dlr, two, nan, 0.1, 1.0)", V, "y must be finite real numbers"),
    ("batch.slang_lin_hess(model, lik, dlr, two, None, 0.1, 1.0)", V, "y must be given, got None"),
    (
        "batch.slang(dlr, np.ones((4, 2)), 0.1, 0.1, 9, 1.0, lambda F, rank: None)",
        V,
        "eig must return shape (2, 1), got NoneType None",
    ),
    ("mirror.blr(lik, q, two, 1.0, 1.5, 3)", V, "alpha must be in [0, 1], got 1.5"),
    (
        "mirror.step(psi, (one, one), 0.1)",
        V,
        "d_rho must have the shapes of psi, ((2,), (2, 2)), got ((1,), (1,))",
    ),
    ("mirror.log_partition((two, three))", V, "psi must have shapes (P,) and (P, P) or (P,), got"),
    ("mirror.log_density(psi, three)", V, "theta must have shape (2,), got (3,)"),
    (
        "mirror.solve_linearised(fc, rho, 1e300)",
        Singular,
        "natural: Singular matrix; check its numbers",
    ),
    ("lit.logistic(two, 7.0)", V, "y must be 0 or 1, got 7.0"),
    ("lit.logistic(three, 1)(fc)", V, "x must have shape (2,), got (3,)"),
    (
        "lit.rvga(fc, lambda q: None)",
        T,
        "expect must return a pair (E[∇ log p], E[∇² log p]), got NoneType None",
    ),
    (
        "lit.rvga(fc, lambda q: (one, one))",
        V,
        "expect must return arrays of shapes (2,) and (2, 2)",
    ),
    ("lit.natural_gradient(three, np.eye(2), lin, 0.1)", V, "theta must have shape (2,), got (3,)"),
    ("lit.natural_gradient(two, np.eye(3), lin, 0.1)", V, "J must have shape (2, 2), got (3, 3)"),
    ("lit.factor_analysis(three, np.ones((2, 2)), np.ones((2, 1)))", V, "W_tilde must have shape"),
    ("lit.lofi_predict(dlr, 1e300, 0.1)", V, "gamma must be in [0, 1], got 1e+300"),
    ("conj.log_prior(pair, pair.prior, np.eye(2))", V, "theta must have rows of the pair's"),
    (
        "conj.expectation(pair, pair.prior, lambda theta: None)",
        V,
        "f must return an array of length",
    ),
    ("posteriors.posterior(bern, fc, two, 1, fine=2.0)", V, "fine must be in (0, 1], got 2.0"),
    ("posteriors.posterior(bern, fc, two, 1, fine=1e-9)", V, "width / fine must give a grid of at"),
    ("expectations.nodes(1e300)", V, "s must be at most 100000, got 1e+300"),
    ("costs.count('bong-lin-ef-diag', P=None)", T, "P must be an integer >= 1, got None"),
    ("costs.count(np.ones(2), P=5)", T, "name must be a string such as 'bong-lin-hess-fc'"),
    ("nist.table(None)", T, "names must be a sequence of some of"),
    ("nist.lre(1.0, 'x')", V, "certified must be a decimal number, got 'x'"),
    ("nist.bong(nist.DATA['Longley'], batch=two)", T, "batch must be True or False, got array"),
]

# Good calls: in each, every argument is replaced by nonsense.
CALLS = """
batch.fc(fc, c, 0.1, 1.0)
batch.fc_mom(fc, c, 0.1, 1.0)
batch.diag(q, c, 0.1, 1.0)
batch.diag_mom(q, c, 0.1, 1.0)
batch.dlr(dlr, c, 0.1, 1.0)
batch.to_scaled(q, 9, 1.0)
batch.from_scaled(s, 9, 1.0)
batch.von(s, two, two, 0.1, 0.1, 9, 1.0)
batch.vogn(s, np.ones((4, 2)), 0.1, 0.1, 9, 1.0)
batch.to_averaged(q, 9, 1.0)
batch.ivon(averaged, two, two, 0.1, 0.1, 9, 1.0, 0.5)
batch.slang(dlr, np.ones((4, 2)), 0.1, 0.1, 9, 1.0, batch.exact_eig)
batch.slang_lin_hess(model, lik, dlr, two, one, 0.1, 1.0)
batch.slang_lin_ef(model, lik, dlr, two, one, 0.1, 1.0)
batch.slang_sample(dlr, two)
batch.exact_eig(np.ones((3, 2)), 1)
batch.fast_eig(np.ones((3, 2)), 1, 0)
lit.aliases()
lit.minimal(lin)
lit.cm_ekf(fc, lin)
lit.vd_ekf(q, lin)
lit.fd_ekf(q, lin)
lit.lofi(dlr, lin)
lit.lofi_spherical(dlr, lin)
lit.lofi_predict(dlr, 0.9, 0.1)
lit.factor_analysis(two, np.ones((2, 2)), np.ones((2, 1)), 3)
lit.natural_gradient(two, np.eye(2), lin, 0.1)
lit.from_softplus(soft)
lit.to_softplus(q)
lit.bbb(soft, q, lambda theta: theta, two, 0.1)
lit.rvga(fc, expect)
lit.rvga_implicit(fc, expect, 1e-10, 50)
lit.sampled(model, lik, two, one, np.ones((3, 2)))
lit.logistic(two, 1.0)
mirror.family(fc)
mirror.bong(bern, fc, two, 1)
mirror.blr(bern, fc, two, 1, 0.1, 3)
mirror.online_vb(bern, fc, two, 1)
mirror.implicit(bern, fc, two, 1, max_iter=50)
mirror.implicit_scalar(bern, fc, two, 1, max_iter=50)
mirror.loss(bern, fc, two, 1)
mirror.log_density(psi, two)
mirror.log_partition(psi)
mirror.mirror_map(psi)
mirror.moments(psi)
mirror.natural(fc)
mirror.dual(fc)
mirror.inner(psi, psi)
mirror.plus(psi, psi, 0.5)
mirror.bregman(psi, psi)
mirror.kl_from_statistics(fc, fc)
mirror.linearised(psi, rho, 0.5)
mirror.solve_linearised(fc, rho, 0.01)
mirror.step(psi, rho, 0.01)
posteriors.posterior(bern, fc, two, 1, fine=0.25, width=10.0)
posteriors.kl_to_posterior(bern, fc, two, 1, fc, -0.7)
expectations.expected(bern, fc, two, 1)
expectations.nodes(1.0)
newton.minimise(mirror.loss(bern, fc, two, 1), fc)
conj.log_prior(pair, pair.prior, np.ones((1, 1)))
conj.expectation(pair, pair.prior, lambda theta: np.ones(len(theta)))
conj.local(pair, pair.prior, one, 'quadrature')
conj.by_quadrature(pair, pair.prior, one)
conj.by_autodiff(pair, pair.prior, one)
conj.step(pair, pair.prior, one, 'quadrature')
conj.bong(pair, pair.prior, one, 'quadrature')
conj.bong_in(pair, pair.prior, one, lambda psi: psi, lambda eta: eta)
conj.rounding(pair, pair.prior, one)
conj.bayes(pair, pair.prior, one)
conj.stream(pair, pair.prior, np.ones((2, 1)))
pairs.gaussian_mean(np.eye(1), two)
pairs.dirichlet_categorical(two)
pairs.gamma_poisson(two)
pairs.gamma_exponential(two)
pairs.linear_regression(2, 1.0, 1.0)
costs.sizes_of('bong-lin-hess-fc')
costs.form_of('bong-lin-ef-dlr')
costs.count('bong-lin-ef-diag', form='auto', P=5)
costs.count_estimator('bong-lin-hess-diag', P=5, C=1)
costs.count_sampling('bong-mc-ef-diag', P=5, M=2)
costs.polynomial('bong-lin-ef-diag', 'update')
costs.parse('O(P^3)')
costs.is_O(costs.parse('O(P)'), costs.parse('O(P)'))
nist.lre(1.0, '1.0')
nist.row('Longley', 'qr')
nist.table(['Longley'], ['qr'])
nist.condition(nist.DATA['Longley'])
nist.vague(nist.DATA['Longley'], 8.0)
nist.exact(nist.DATA['Longley'], 25)
nist.bong(nist.DATA['Longley'], batch=True, form='plain', scaled=False, digits=8.0)
""".split("\n")[1:-1]

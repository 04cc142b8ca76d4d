"""The flags of the cases: what each says about a case, and the mistake that such a case catches and others let pass."""

FLAGS: dict[str, dict[str, str]] = {
    "C-one": {
        "what": "one output",
        "catches": "nothing by itself: transposes and factors of R are invisible here",
    },
    "C-many": {
        "what": "several outputs",
        "catches": "a transposed Jacobian or factor, outputs summed instead of stacked",
    },
    "current-not-prior": {
        "what": "the iterate is not the prior",
        "catches": "a variance, W or mean of the wrong iterate; a missing KL term",
    },
    "alpha-not-one": {
        "what": "a learning rate other than 1",
        "catches": "a learning rate left out, or applied to one of two terms",
    },
    "alpha-one": {"what": "a learning rate of 1", "catches": "a division by 1 - alpha"},
    "many-iterations": {
        "what": "more than one inner iteration",
        "catches": "an inner loop that restarts, or that moves the prior along",
    },
    "many-samples": {
        "what": "more than one Monte Carlo sample",
        "catches": "a missing 1/M, samples that are not used",
    },
    "P-more-than-M": {
        "what": "more parameters than samples",
        "catches": "a factor of G that is taken to have full rank",
    },
    "P-less-than-M": {
        "what": "fewer parameters than samples",
        "catches": "sizes of the Woodbury identity, or a thin SVD, the wrong way round",
    },
    "low-rank-G": {"what": "G = -S S^T", "catches": "a wrong sign of G, a wrong factor"},
    "dense-G": {
        "what": "G is a dense matrix, positive in some directions",
        "catches": "a Hessian taken to be negative definite",
    },
    "rank-full": {
        "what": "the rank R of W is P: the projection loses nothing",
        "catches": "columns lost without need",
    },
    "rank-truncated": {
        "what": "the projection drops singular columns",
        "catches": "Ups that does not take up what W loses",
    },
    "zero-W": {
        "what": "W of the prior is 0",
        "catches": "a division by a singular value, sign conventions of the SVD",
    },
    "singular-R": {
        "what": "a softmax: R = diag(p) - p p^T is singular",
        "catches": "an inverse of R, a jitter that makes it possible",
    },
    "correlated-R": {
        "what": "R of the Gaussian is not diagonal",
        "catches": "a transposed Cholesky factor, R in place of its inverse",
    },
    "saturated": {
        "what": "logits of a size at which probabilities are 0 and 1 to rounding",
        "catches": "log(0), 0/0, overflow",
    },
    "ill-conditioned": {
        "what": "a prior with a condition number of about 1e6",
        "catches": "explicit inverses of ill-conditioned matrices, jitter",
    },
    "zero-gradient": {
        "what": "g = 0",
        "catches": "a division by the gradient; a mean that moves without one",
    },
    "batch": {
        "what": "a mini-batch: several observations in one update",
        "catches": "a mean over the batch where the sum belongs",
    },
    "dynamics": {
        "what": "theta moves between the observations",
        "catches": "a prediction left out, or done after the update",
    },
    "missing": {
        "what": "one observation of the stream is missing",
        "catches": "a prediction that is skipped with the update",
    },
    "full-F": {"what": "F and Q are full matrices", "catches": "F Sigma F without the transpose"},
    "lost-positive-definite": {
        "what": "the equations give a state that is not a Gaussian",
        "catches": "a silent repair: a clip, an absolute value, a jitter, a nearest positive definite matrix",
    },
    "indefinite-prior": {
        "what": "the prior is no Gaussian",
        "catches": "input that is not looked at",
    },
    "alpha-too-large": {
        "what": "alpha > 1 where sqrt(1 - alpha) enters",
        "catches": "NaN, or the root of an absolute value",
    },
    "not-derived": {
        "what": "a name for which the paper derives no update",
        "catches": "an update that is made up",
    },
    "isotropic-prior": {
        "what": "the prior is N(0, cI), c not 1",
        "catches": "c taken for 1/c, or for a standard deviation",
    },
    "convolution": {
        "what": "a convolutional network",
        "catches": "a flipped kernel, another order of theta, another padding",
    },
    "gaussian": {"what": "Gaussian likelihood", "catches": "R in place of its inverse"},
    "bernoulli": {"what": "Bernoulli likelihood", "catches": "a missing p(1 - p)"},
    "categorical": {"what": "categorical likelihood", "catches": "a missing p p^T"},
    "poisson": {"what": "Poisson likelihood", "catches": "a missing exponential"},
}

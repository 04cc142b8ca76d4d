"""Streams as users have them: lists, data frames of pandas and polars, nullable columns, missing
observations.
"""

import time
import tracemalloc

import autograd.numpy as anp
import numpy as np
import pytest

import bongref as br
from bongref import checks
from bongref.errors import InvalidType, InvalidValue

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

T = 4
X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
COUNTS = np.array([3, 0, 2, 5])
MISSING = [3, None, 2, None]
SEEN = np.array([True, False, True, False])
MODEL, LIK, MU = br.models.linear(2), br.likelihoods.Poisson(), np.zeros(2)
SHUFFLED = [3, 0, 1, 2]  # an index that would give other rows if it were read by label


def observations(X, Y, model=MODEL, lik=LIK, mu=MU):
    return checks.observations(model, lik, X, Y, mu)


INPUTS = {
    "array": X,
    "lists": X.tolist(),
    "tuples": tuple(map(tuple, X)),
    "rows": list(X),
    "integers": X.astype(int),
    "float32": X.astype(np.float32),
    "Fortran order": np.asfortranarray(X),
    "no masked entry": np.ma.array(X),
    "objects": X.astype(object),
    "pandas": pd.DataFrame(X, index=SHUFFLED, columns=["a", "b"]),
    "labels that are positions": pd.DataFrame(X, index=SHUFFLED, columns=[1, 0]),
    "one name for both columns": pd.DataFrame(X, columns=["a", "a"]),
    "mixed columns": pd.DataFrame({"a": X[:, 0].astype(int), "b": X[:, 1]}),
    "nullable": pd.DataFrame(X).astype("Int64"),
    "rows of a frame": [
        row for _, row in pd.DataFrame(X, index=SHUFFLED, columns=[1, 0]).iterrows()
    ],
    "polars": pl.DataFrame(X, schema=["a", "b"]),
    "polars integers": pl.DataFrame(X.astype(int), schema=["a", "b"]),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_read_by_position(name):
    got = observations(INPUTS[name], COUNTS)
    assert isinstance(got.xs, np.ndarray) and got.xs.dtype == float and got.xs.flags.c_contiguous
    np.testing.assert_array_equal(got.xs, X)
    assert got.seen.all()


TARGETS = {
    "list": MISSING,
    "tuple": tuple(MISSING),
    "objects": np.array(MISSING, dtype=object),
    "column of objects": np.array(MISSING, dtype=object)[:, None],
    "NA": [3, pd.NA, 2, pd.NA],
    "arrays": [np.array([3.0]), None, np.array([2.0]), None],
    "pandas objects": pd.Series(MISSING, dtype=object, index=SHUFFLED),
    "Int64": pd.Series(MISSING, dtype="Int64", index=SHUFFLED),
    "Float64": pd.Series(MISSING, dtype="Float64", index=SHUFFLED),
    "frame": pd.DataFrame({"y": pd.Series(MISSING, dtype="Int64", index=SHUFFLED)}),
    "categories": pd.Series(pd.Categorical(MISSING)),
    "polars": pl.Series(MISSING),
    "polars frame": pl.DataFrame({"y": MISSING}),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_missing_observation_is_marked_and_the_rest_is_encoded(name):
    got = observations(X, TARGETS[name])
    np.testing.assert_array_equal(got.seen, SEEN)
    assert isinstance(got.ys, np.ndarray)
    np.testing.assert_array_equal(got.ys, [[3.0], [0.0], [2.0], [0.0]])


@pytest.mark.parametrize(
    "lik", [br.likelihoods.Bernoulli(), br.likelihoods.Categorical(), br.likelihoods.Gaussian(1.0)]
)
def test_all_at_once_is_one_by_one(lik):
    """The whole stream gives what each observation gives alone, in every likelihood and with
    mini-batches.
    """
    C = 2
    model, mu = br.models.linear(2, C), np.zeros(4)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, T)
    for Y in (
        [*labels[:-1], None]
        if lik.name == "categorical"
        else [*rng.integers(0, 2, (T - 1, C)).astype(float), None],
    ):
        got = observations(X, Y, model, lik, mu)
        for t in range(T):
            x, y = checks.observation(model, lik, X[t], Y[t], mu)
            np.testing.assert_array_equal(got.xs[t], x)
            assert got.seen[t] == (y is not None)
            np.testing.assert_array_equal(got.ys[t], np.zeros(C) if y is None else y)
    batches = rng.standard_normal((T, 3, 2))
    Y = [
        None,
        *(
            rng.integers(0, 2, 3) if lik.name == "categorical" else rng.integers(0, 2, (3, C))
            for _ in range(T - 1)
        ),
    ]
    got = observations(batches, Y, model, lik, mu)
    assert (
        got.xs.shape == (T, 3, 2)
        and got.ys.shape == (T, 3, C)
        and got.seen.tolist() == [False, True, True, True]
    )
    for t in range(1, T):
        np.testing.assert_array_equal(
            got.ys[t], checks.observation(model, lik, batches[t], Y[t], mu)[1]
        )


def test_mini_batches_of_different_sizes_are_a_list():
    got = observations([X[:3], X[:1]], [[1, 2, 3], [4]])
    assert isinstance(got.xs, list) and isinstance(got.ys, list)
    assert [y.shape for y in got.ys] == [(3, 1), (1, 1)]
    assert observations([X[:3], X[:1]], [None, [4]]).ys[0] is None


def test_images_in_every_form():
    model = br.models.cnn((4, 4, 1), n_classes=2, features=(2,), kernel=(3, 3), hidden=3)
    images = np.random.default_rng(0).standard_normal((3, 4, 4, 1))
    mu = np.zeros(model.n_params)
    for form in (images, images[..., 0], images.reshape(3, 16), images[..., 0].tolist()):
        got = observations(form, [0, 1, None], model, br.likelihoods.Categorical(), mu)
        np.testing.assert_array_equal(got.xs.ravel(), images.ravel())
        assert got.ys.shape == (3, 2)
    got = observations(
        images[None], [[0, 1, 1]], model, br.likelihoods.Categorical(), mu
    )  # one mini-batch of three
    assert got.xs.shape == (1, 3, 4, 4, 1) and got.ys.shape == (1, 3, 2)


def test_a_wrapped_function_takes_anything():
    model = br.models.wrap(lambda theta, x: theta[:1] * len(x), 2)
    got = observations(["a", "bcd"], [1, None], model)
    assert got.xs == ["a", "bcd"] and got.seen.tolist() == [True, False]
    nothing = br.models.wrap(lambda theta, x: theta[:1], 2)
    assert observations([None, None], [1, 2], nothing).xs == [None, None]
    frame = pd.DataFrame(X, index=SHUFFLED)
    rows = observations(frame, COUNTS, br.models.wrap(lambda theta, x: anp.dot(theta, x), 2)).xs
    np.testing.assert_array_equal(rows, X)


def test_nothing_that_was_given_is_changed():
    objects, numbers, batch = np.array(MISSING, dtype=object), COUNTS.astype(float), X.copy()
    observations(batch, objects)
    observations(batch, numbers)
    assert (
        objects.tolist() == MISSING
        and numbers.tolist() == COUNTS.tolist()
        and np.array_equal(batch, X)
    )
    given = [1.0, None, 2.0, 0.0]
    assert observations(X, given).seen.tolist() == [True, False, True, True] and given == [
        1.0,
        None,
        2.0,
        0.0,
    ]


def test_all_observations_may_be_missing():
    got = observations(X, [None] * T)
    assert not got.seen.any() and got.ys.shape == (T, 1)


def test_mixed_labels_and_one_hot_vectors_are_one_array():
    got = observations(
        X, [0, [0, 1], 1, None], br.models.linear(2, 2), br.likelihoods.Categorical(), np.zeros(4)
    )
    np.testing.assert_array_equal(got.ys, [[1, 0], [0, 1], [0, 1], [0, 0]])


V, K = InvalidValue, InvalidType
BAD = [
    (pd.DataFrame({"a": X[:, 0], "b": list("wxyz")}), COUNTS, K,
     "X['b'] must hold real numbers, got a column of"),
    (pd.DataFrame({"a": X[:, 0], "b": pd.Series([1, None, 3, 4], dtype="Int64")}), COUNTS, V,
     "X must be finite, got a missing value in row 1; impute"),
    (pd.DataFrame({"a": X[:, 0], "b": [1.0, np.nan, 3.0, 4.0]}), COUNTS, V,
     "step 2 (X[1], Y[1]): x must be finite, got nan at index (1,); impute"),
    (pl.DataFrame({"a": X[:, 0], "b": [1.0, None, 3.0, 4.0]}), COUNTS, V,
     "X must be finite, got a missing value in row 1; impute missing inputs"),
    (pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}).lazy(), COUNTS, K,
     "X must be in memory, got LazyFrame; use X.collect()"),
    (pd.DataFrame(index=range(T)), COUNTS, V, "X must have at least one column, got none"),
    (pd.DataFrame(X[:, :1]), COUNTS, V, "step 1 (X[0], Y[0]): x must have shape (2,)"),
    (np.array([*X.tolist()[:3], [1.0, None]], dtype=object), COUNTS, V,
     "X must be finite, got a missing value in row 3; impute"),
    (np.ma.array(X, mask=X > 7), COUNTS, V, "X must have no masked entries, got MaskedArray"),
    (X, pd.Series([3.0, np.nan, 2.0, 1.0]), V,
     "step 2 (X[1], Y[1]): y must be nonnegative integers, got nan; use None for a missing "
      "observation"),
    (X, pl.Series([3.0, float("nan"), 2.0, 1.0]), V,
     "step 2 (X[1], Y[1]): y must be nonnegative integers, got nan; use None for"),
    (X, pd.Series(list("wxyz")), K, "Y must hold real numbers, got a column of"),
    (X, pd.Series(pd.date_range("2024", periods=T)), K,
     "Y must hold real numbers, got a column of datetime64"),
    (X, pd.DataFrame({"a": COUNTS, "b": COUNTS}), V,
     "step 1 (X[0], Y[0]): y must have shape (1,) or (), got (2,)"),
    (X, pd.DataFrame({"a": pd.Series(MISSING, dtype="Int64"), "b": COUNTS}), V,
     "Y[1] must be complete or missing as a whole, got one"),
    (X, np.ma.array(COUNTS, mask=[0, 1, 0, 0]), V,
     "Y must have no masked entries, got MaskedArray"),
    (X, COUNTS.tolist()[:3], V, "X and Y must have the same length, got 4 and 3"),
    (X, [3, 0.5, 2, None], V, "step 2 (X[1], Y[1]): y must be nonnegative integers, got 0.5"),
    ([[1.0, 2.0], None, [1.0, 2.0], [1.0, 2.0]], COUNTS, V,
     "step 2 (X[1], Y[1]): x must be given, got None; impute missing inputs"),
    ([[1.0, 2.0], pd.NA, [1.0, 2.0], [1.0, 2.0]], COUNTS, V,
     "step 2 (X[1], Y[1]): x must be given, got <NA>; impute missing inputs"),
    (X[:, 0], COUNTS, V, "step 1 (X[0], Y[0]): x must have shape (2,)"),
    (np.stack([X, X]), [[1, 2, 3, 4], [1, 2, 3]], V,
     "step 2 (X[1], Y[1]): y must have shape (4, 1) or (4,), got (3,)"),
]  # fmt: skip


@pytest.mark.parametrize(("X", "Y", "error", "part"), BAD, ids=[row[3] for row in BAD])
def test_what_is_refused(X, Y, error, part):
    with pytest.raises(error) as caught:
        observations(X, Y)
    assert part in str(caught.value)


def test_sparse_inputs_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    for kind in (sparse.csr_array, sparse.coo_matrix):
        with pytest.raises(
            InvalidType, match=rf"X must be dense, got a sparse {kind.__name__}; use X\.toarray\(\)"
        ):
            observations(kind(X), COUNTS)


def test_arrow_columns():
    pytest.importorskip("pyarrow")
    got = observations(
        pd.DataFrame(X).astype("double[pyarrow]"), pd.Series(MISSING, dtype="int64[pyarrow]")
    )
    np.testing.assert_array_equal(got.xs, X)
    np.testing.assert_array_equal(got.seen, SEEN)


def test_one_missing_observation_costs_no_more_than_none():
    """Of 300,000 observations: the same arrays, at most three times the time, and no array of
    Python objects left behind.
    """
    n = 300_000
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, 2)), rng.poisson(1.0, n)
    full, gap = Y.tolist(), [None, *Y.tolist()[1:]]

    def cost(Y):
        tracemalloc.start()
        got = observations(X, Y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            observations(X, Y)
            seconds.append(time.perf_counter() - begin)
        return got, min(seconds), peak

    (one, slow, large), (other, fast, small) = cost(gap), cost(full)
    np.testing.assert_array_equal(one.ys[1:], other.ys[1:])
    assert type(one.ys) is type(other.ys) is np.ndarray
    assert slow <= 3 * fast
    assert large <= small + 10 * n  # bytes: the list without its gap, and a mask
